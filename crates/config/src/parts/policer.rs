//! Policers: checks, and the policers of the network.

use flow::meter::Rate;
use rules::network::{Policer, Policers, SessionScope};

use super::scope::scope;
use crate::error::Fault;
use crate::schema::{Config, PolicerConfig, PolicerKbit};

impl PolicerConfig {
    fn scope(&self) -> Result<SessionScope, &'static str> {
        scope(self.slice.as_ref(), self.dnn.as_ref())
    }

    fn policer(&self) -> Policer {
        let rate =
            |kbit: Option<PolicerKbit>| kbit.map_or(Rate::UNLIMITED, |kbit| Rate::from_kbit(kbit.value()));
        Policer {
            name: self.name.value.clone(),
            // The check has refused what is none.
            scope: self.scope().unwrap_or_default(),
            rates: [rate(self.uplink_kbit), rate(self.downlink_kbit)],
        }
    }
}

impl Config {
    /// The policers in their order.
    pub(super) fn policers(&self) -> Vec<Policer> {
        self.policers.iter().map(PolicerConfig::policer).collect()
    }
}

/// Finds the first policer that contradicts something.
pub(crate) fn check(config: &Config) -> Result<(), Fault> {
    let policers = config.policers();
    for (place, (one, policer)) in config.policers.iter().zip(&policers).enumerate() {
        let name = &one.name;
        let fault = |message: &str| Err(Fault::new(name, format!("policer `{}`: {message}", name.value)));
        if place >= Policers::MAX {
            return Err(Fault::new(name, format!("policers: more than {}", Policers::MAX)));
        }
        if !(1..=100).contains(&name.value.len()) {
            return fault("the name has no character, or more than 100");
        }
        if let Err(message) = one.scope() {
            return fault(message);
        }
        if policer.scope.is_all() {
            return fault("names neither slice nor dnn");
        }
        let mut earlier = policers.iter().take(place);
        if earlier.clone().any(|other| other.name == policer.name) {
            return fault("another has this name");
        }
        if earlier.any(|other| other.scope.is_same(&policer.scope)) {
            return fault("another is for the same sessions");
        }
    }
    Ok(())
}

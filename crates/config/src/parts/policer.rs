//! Policers: checks, and the policers of the network.

use flow::meter::Rate;
use rules::network::{Policer, Policers};

use crate::error::Fault;
use crate::schema::{Config, PolicerConfig, PolicerKbit, SliceConfig};

impl PolicerConfig {
    fn policer(&self) -> Policer {
        let rate =
            |kbit: Option<PolicerKbit>| kbit.map_or(Rate::UNLIMITED, |kbit| Rate::from_kbit(kbit.value()));
        Policer {
            name: self.name.value.clone(),
            slice: self.slice.as_ref().and_then(SliceConfig::s_nssai),
            dnn: self.dnn.clone(),
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
        if one.slice.as_ref().is_some_and(|slice| slice.s_nssai().is_none()) {
            return fault("slice.sd: not six hexadecimal digits");
        }
        if one
            .dnn
            .as_ref()
            .is_some_and(|dnn| !(1..=100).contains(&dnn.len()))
        {
            return fault("dnn: no character, or more than 100");
        }
        if one.slice.is_none() && one.dnn.is_none() {
            return fault("names neither slice nor dnn");
        }
        let mut earlier = policers.iter().take(place);
        if earlier.clone().any(|other| other.name == policer.name) {
            return fault("another has this name");
        }
        if earlier.any(|other| other.slice == policer.slice && same(other, policer)) {
            return fault("another is for the same sessions");
        }
    }
    Ok(())
}

fn same(one: &Policer, other: &Policer) -> bool {
    let lower = |policer: &Policer| policer.dnn.as_ref().map(|dnn| dnn.to_ascii_lowercase());
    lower(one) == lower(other)
}

//! Policers: checks, and the policers of the network.

use flow::meter::Rate;
use rules::network::{Egress, Policer, Policers, Roles, SessionScope};

use super::scope::scope;
use crate::error::Fault;
use crate::schema::{Config, InstanceConfig, PolicerConfig, PolicerKbit, Role};

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
            shapes: self.shape,
            weight: self.weight.value() as u8,
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
        if one.weight.value() != 1 && !one.shape {
            return fault("weight: only with `shape`");
        }
        if one.shape
            && let Some(message) = why_nothing_waits(config)
        {
            return fault(&message);
        }
    }
    check_nodes(config, policers)
}

/// Why packets of a policer that shapes would not all wait in queues.
fn why_nothing_waits(config: &Config) -> Option<String> {
    if config.egress.is_none() {
        return Some("shape: there are no classes of queues (`egress` of the file)".into());
    }
    let leads_out = |instance: &&InstanceConfig| instance.roles.iter().any(|role| role.bit() != Roles::N4U);
    let mut leading = config.instances.iter().filter(leads_out);
    let without = leading.find(|instance| instance.egress.is_none())?;
    Some(format!(
        "shape: packets of its sessions may leave by instance `{}`, which has no `egress`",
        without.name.value
    ))
}

/// Policers have a node below each instance and direction.
fn check_nodes(config: &Config, policers: Vec<Policer>) -> Result<(), Fault> {
    let Some(last) = config.policers.iter().rfind(|policer| policer.shape) else {
        return Ok(());
    };
    // What else is wrong with them was found before.
    let each = Policers::new(policers).map_or(0, |policers| policers.shaped_nodes());
    let directions = |instance: &InstanceConfig| match instance.roles.contains(&Role::N6) {
        true => 1,
        false => 2,
    };
    let below: usize = config.instances.iter().map(directions).sum();
    let nodes = config.ports.len() + config.instances.len() + each * below;
    let most = usize::from(Egress::MOST_NODES);
    if nodes <= most {
        return Ok(());
    }
    let message = format!(
        "policer `{}`: shape: {nodes} nodes of policers below instances are more than {most}",
        last.name.value
    );
    Err(Fault::new(&last.name, message))
}

//! What is configured of queues before ports, and how their rates are kept.

use std::collections::BTreeMap;

use flow::Direction;
use flow::meter::Rate;
use upf::{Control, EgressShaper, format};
use worker::EgressRate;

use crate::values::{QueuePlan, ShaperPart, ShaperStatus, way};

/// The rates that are configured, what each worker has of them, and the classes of queues.
#[must_use]
pub fn queue_plan(control: &Control) -> QueuePlan {
    let shapers = control.egress_shapers();
    let mut classes: BTreeMap<u8, Vec<String>> = BTreeMap::new();
    let configured = control.network().egress().into_iter();
    for class in configured.flat_map(|egress| egress.classes.all()) {
        classes
            .entry(class.priority)
            .or_default()
            .push(class.name.clone());
    }
    QueuePlan {
        shapers: shapers.iter().map(|shaper| status(control, shaper)).collect(),
        classes,
    }
}

fn status(control: &Control, shaper: &EgressShaper) -> ShaperStatus {
    let (kind, name, direction) = name(control, shaper.of);
    let is_limited = shaper.rate != Rate::UNLIMITED;
    let bits = |kbit: u64| kbit.saturating_mul(1_000);
    let parts = shaper.parts.iter().map(|part| ShaperPart {
        rate: is_limited.then(|| bits(part.kbit)),
        sends: bits(part.sends),
        waiting_sessions: part.waiting,
    });
    ShaperStatus {
        kind: kind.into(),
        name,
        direction: direction.map(|direction| way(direction).into()),
        rate: is_limited.then(|| bits(shaper.rate.kbit())),
        sends: bits(shaper.parts.iter().map(|part| part.sends).sum()),
        octets: shaper.octets,
        waiting_sessions: shaper.parts.iter().map(|part| part.waiting).sum(),
        workers: parts.collect(),
    }
}

/// What a rate is of: its kind, its name, and the direction if it has one.
fn name(control: &Control, of: EgressRate) -> (&'static str, String, Option<Direction>) {
    let network = control.network();
    match of {
        EgressRate::Port(port) => ("port", control.port_links().name(port), None),
        EgressRate::Instance(id) => ("instance", format::instance(network, id), None),
        EgressRate::Policer(id, direction) => {
            let mut shaped = network.policers().shaped();
            let found = shaped.find(|(known, _)| *known == id);
            let name = found.map_or_else(String::new, |(_, policer)| policer.name.clone());
            ("policer", name, Some(direction))
        }
    }
}

//! Names of measured points, by which a report finds them again in the JSON of a run.

use super::model::Model;

/// Model I or S with QER and URR.
#[must_use]
pub fn with_policy(model: &Model) -> String {
    format!("model {}, QER and URR", model.name)
}

/// The same without them.
#[must_use]
pub fn without_policy(model: &Model) -> String {
    format!("model {}, neither", model.name)
}

/// A profile of model V with one of its frame sizes.
#[must_use]
pub fn of_size(model: &Model) -> String {
    format!("{} {}/{} B", model.name, model.sizes[0], model.sizes[1])
}

/// Model Z against `base`, which is what flow entries are of where no rule asks for more: with its rules, or without.
#[must_use]
pub fn of_inspection(base: &str, has_rules: bool) -> String {
    let rules = if has_rules {
        "with rules, in turn with"
    } else {
        "without rules,"
    };
    format!("{rules} {base}")
}

/// Model Q in a worker with queues, or without, at this load of what its sessions may send: 40 Gbit/s.
#[must_use]
pub fn of_queues(load: f64, has_queues: bool) -> String {
    let queues = if has_queues { "with" } else { "without" };
    format!("{queues} queues, at {} Gbit/s", load * 40.0)
}

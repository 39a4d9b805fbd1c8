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

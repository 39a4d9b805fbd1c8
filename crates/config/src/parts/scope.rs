//! Whose sessions a part of the configuration is for.

use rules::network::SessionScope;

use crate::schema::SliceConfig;

/// The sessions of this slice and data network.
///
/// # Errors
/// What is wrong, and in which field.
pub(super) fn scope(slice: Option<&SliceConfig>, dnn: Option<&String>) -> Result<SessionScope, &'static str> {
    let slice = slice.map(|slice| slice.s_nssai().ok_or("slice.sd: not six hexadecimal digits"));
    if dnn.is_some_and(|dnn| !(1..=100).contains(&dnn.len())) {
        return Err("dnn: no character, or more than 100");
    }
    Ok(SessionScope {
        slice: slice.transpose()?,
        dnn: dnn.cloned(),
    })
}

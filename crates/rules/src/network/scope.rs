//! Whose sessions something of the configuration is for.

use super::name::is_name;
use crate::model::SNssai;

/// The sessions of a slice, of a data network, of a data network within a slice, or all.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SessionScope {
    /// The slice; any.
    pub slice: Option<SNssai>,
    /// The name of the data network; any.
    pub dnn: Option<String>,
}

impl SessionScope {
    /// Whether a session of this slice and data network is among them. The name is as it is or in DNS labels (TS 29.244
    /// §8.2.117), case does not count.
    pub fn holds(&self, slice: Option<SNssai>, dnn: Option<&[u8]>) -> bool {
        let is_slice = self.slice.is_none_or(|own| slice == Some(own));
        let is_dnn = |own: &String| dnn.is_some_and(|octets| is_name(octets, own));
        is_slice && self.dnn.as_ref().is_none_or(is_dnn)
    }

    /// Whether they are all.
    pub const fn is_all(&self) -> bool {
        self.slice.is_none() && self.dnn.is_none()
    }

    /// Whether both are the same sessions.
    pub fn is_same(&self, other: &Self) -> bool {
        let is_dnn = match (&self.dnn, &other.dnn) {
            (Some(own), Some(other)) => own.eq_ignore_ascii_case(other),
            (own, other) => own == other,
        };
        self.slice == other.slice && is_dnn
    }

    /// Of several that hold a session, the narrowest has the lowest.
    pub(super) const fn breadth(&self) -> u8 {
        match (&self.slice, &self.dnn) {
            (Some(_), Some(_)) => 0,
            (None, Some(_)) => 1,
            (Some(_), None) => 2,
            (None, None) => 3,
        }
    }
}

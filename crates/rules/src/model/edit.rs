//! What an Update of a rule does to one field: it stays, is set, or is removed (TS 29.244 §7.5.4).

use smallvec::{Array, SmallVec};

/// What an update does to one optional field.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Edit<T> {
    /// The IE is absent: the field stays.
    #[default]
    Keep,
    /// The IE is there: its value is the new one.
    Set(T),
    /// The IE is there with length 0: the field goes.
    Clear,
}

impl<T> Edit<T> {
    /// Whether there is a new value.
    pub const fn sets(&self) -> bool {
        matches!(self, Self::Set(_))
    }

    /// The same with another form of the new value.
    pub fn map<U>(self, map: impl FnOnce(T) -> U) -> Edit<U> {
        match self {
            Self::Keep => Edit::Keep,
            Self::Set(value) => Edit::Set(map(value)),
            Self::Clear => Edit::Clear,
        }
    }

    /// Does it to `field`.
    pub fn apply(self, field: &mut Option<T>) {
        match self {
            Self::Keep => {}
            Self::Set(value) => *field = Some(value),
            Self::Clear => *field = None,
        }
    }
}

impl<T> From<Option<T>> for Edit<T> {
    /// `None` keeps the field, as an absent IE does.
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Keep, Self::Set)
    }
}

/// Replaces `field` by what was sent, if anything was.
pub(super) fn replace<T>(field: &mut T, sent: Option<T>) {
    if let Some(value) = sent {
        *field = value;
    }
}

/// The same of a list.
pub(super) fn replace_list<A: Array>(field: &mut SmallVec<A>, sent: Option<Vec<A::Item>>) {
    replace(field, sent.map(SmallVec::from_vec));
}

//! What grouped IEs and messages are made of besides their fields: lists, removals, and the order on the wire.

use core::fmt;

use crate::error::{Error, NoRoom};
use crate::ie::Ie;
use crate::ie_type::IeType;
use crate::tlv::{Cursor, Tlvs, Writer};

/// A list of IEs of one type (TS 29.244 §7.2.3.4): read from a message, or a slice to write.
///
/// Read lists are not copied anywhere: they were checked when the message was decoded, and are read again, one by
/// one, when walked.
pub struct Repeated<'a, T>(Source<'a, T>);

enum Source<'a, T> {
    /// Nothing.
    Absent,
    /// Octets that begin with the first IE of the list and hold all of them, among others.
    Wire {
        from: &'a [u8],
        count: u32,
        all_good: bool,
        null: bool,
    },
    /// Values to write.
    Slice(&'a [T]),
    /// A null length to write.
    RemoveAll,
}

impl<T> Clone for Source<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Source<'_, T> {}

impl<T> Clone for Repeated<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Repeated<'_, T> {}

impl<T> Default for Repeated<'_, T> {
    fn default() -> Self {
        Self::NONE
    }
}

impl<'a, T> Repeated<'a, T> {
    /// No IE.
    pub const NONE: Self = Self(Source::Absent);

    /// One IE with a null length: the receiver is to drop all it has of the type (TS 29.244 §5.6.3).
    pub const REMOVE_ALL: Self = Self(Source::RemoveAll);

    /// The IEs of `items`, in their order.
    pub const fn new(items: &'a [T]) -> Self {
        Self(Source::Slice(items))
    }

    /// As [`NONE`](Self::NONE), which as a constant would be copied with all its octets where this is one store.
    #[inline(always)]
    pub(crate) fn none() -> Self {
        Self(Source::Absent)
    }

    /// How many IEs there are; one with a null length does not count.
    pub const fn len(&self) -> usize {
        match self.0 {
            Source::Absent | Source::RemoveAll => 0,
            Source::Wire { count, .. } => count as usize,
            Source::Slice(items) => items.len(),
        }
    }

    /// Whether there is no IE, or only one with a null length.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether one of the IEs had a null length: drop all there is of the type (TS 29.244 §5.6.3).
    pub const fn removes_all(&self) -> bool {
        match self.0 {
            Source::Absent | Source::Slice(_) => false,
            Source::Wire { null, .. } => null,
            Source::RemoveAll => true,
        }
    }
}

impl<'a, T: Ie<'a> + Copy> Repeated<'a, T> {
    /// Walks the list.
    pub const fn iter(&self) -> Items<'a, T> {
        match self.0 {
            Source::Absent | Source::RemoveAll => Items {
                source: Walk::Slice(&[]),
                left: 0,
            },
            Source::Wire {
                from,
                count,
                all_good,
                ..
            } => Items {
                source: Walk::Wire { from, all_good },
                left: count as usize,
            },
            Source::Slice(items) => Items {
                source: Walk::Slice(items),
                left: items.len(),
            },
        }
    }

    /// The first IE of the list.
    pub fn first(&self) -> Option<T> {
        self.iter().next()
    }

    /// Walks the list without handing the IEs over: for large ones that is faster than [`iter`](Self::iter).
    pub fn visit(&self, mut visitor: impl FnMut(&T)) {
        match self.0 {
            Source::Absent | Source::RemoveAll => {}
            Source::Slice(items) => items.iter().for_each(visitor),
            Source::Wire {
                from,
                count,
                all_good,
                ..
            } => {
                let mut rest = from;
                for _ in 0..count {
                    let mut slot = None;
                    rest = next_on_wire(rest, all_good, &mut slot);
                    if let Some(item) = &slot {
                        visitor(item);
                    }
                }
            }
        }
    }

    /// Takes note of an IE while a message is read; `from` begins with it and has all that follow. Says whether the
    /// IE counts.
    #[inline]
    pub(crate) fn met(&mut self, from: &'a [u8], value: &'a [u8]) -> bool {
        let is_null = value.is_empty();
        match &mut self.0 {
            Source::Wire { count, null, .. } => {
                *count += u32::from(!is_null);
                *null |= is_null;
            }
            _ => {
                self.0 = Source::Wire {
                    from,
                    count: u32::from(!is_null),
                    all_good: true,
                    null: is_null,
                };
            }
        }
        !is_null
    }

    /// As [`met`](Self::met), for a list whose bad IEs do not count.
    #[inline]
    pub(crate) fn met_optional(&mut self, from: &'a [u8], value: &'a [u8]) -> bool {
        let good = T::NEVER_WRONG || value.is_empty() || T::check(value).is_ok();
        if !good {
            self.met_bad(from);
        }
        good && self.met(from, value)
    }

    #[cold]
    fn met_bad(&mut self, from: &'a [u8]) {
        match &mut self.0 {
            Source::Wire { all_good, .. } => *all_good = false,
            _ => {
                self.0 = Source::Wire {
                    from,
                    count: 0,
                    all_good: false,
                    null: false,
                };
            }
        }
    }

    #[inline(always)]
    pub(crate) fn put<'b>(&self, w: Writer<'b>) -> Result<Writer<'b>, NoRoom> {
        match self.0 {
            Source::Absent => Ok(w),
            Source::Slice(items) => {
                let mut w = w;
                for item in items {
                    w = item.put(w)?;
                }
                Ok(w)
            }
            Source::Wire { .. } | Source::RemoveAll => self.put_unusual(w),
        }
    }

    #[cold]
    fn put_unusual<'b>(&self, w: Writer<'b>) -> Result<Writer<'b>, NoRoom> {
        let mut w = w;
        for item in self.iter() {
            w = item.put(w)?;
        }
        if self.removes_all() {
            Self::put_null(w)
        } else {
            Ok(w)
        }
    }

    #[cold]
    fn put_null<'b>(w: Writer<'b>) -> Result<Writer<'b>, NoRoom> {
        let (mark, w) = w.begin(T::TYPE)?;
        Ok(w.end(mark))
    }
}

impl<'a, T> From<&'a [T]> for Repeated<'a, T> {
    fn from(items: &'a [T]) -> Self {
        Self::new(items)
    }
}

impl<'a, T, const N: usize> From<&'a [T; N]> for Repeated<'a, T> {
    fn from(items: &'a [T; N]) -> Self {
        Self::new(items)
    }
}

impl<'a, T: Ie<'a> + Copy> IntoIterator for Repeated<'a, T> {
    type Item = T;
    type IntoIter = Items<'a, T>;

    fn into_iter(self) -> Items<'a, T> {
        self.iter()
    }
}

impl<'a, T: Ie<'a> + Copy> IntoIterator for &Repeated<'a, T> {
    type Item = T;
    type IntoIter = Items<'a, T>;

    fn into_iter(self) -> Items<'a, T> {
        self.iter()
    }
}

impl<'a, T: Ie<'a> + Copy + PartialEq> PartialEq for Repeated<'a, T> {
    fn eq(&self, other: &Self) -> bool {
        self.removes_all() == other.removes_all() && self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl<'a, T: Ie<'a> + Copy + fmt::Debug> fmt::Debug for Repeated<'a, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()?;
        if self.removes_all() {
            f.write_str(" and remove all")
        } else {
            Ok(())
        }
    }
}

/// Walks a [`Repeated`].
pub struct Items<'a, T> {
    source: Walk<'a, T>,
    left: usize,
}

enum Walk<'a, T> {
    Wire { from: &'a [u8], all_good: bool },
    Slice(&'a [T]),
}

impl<'a, T: Ie<'a> + Copy> Items<'a, T> {
    #[inline]
    fn fill(&mut self, slot: &mut Option<T>) {
        match &mut self.source {
            Walk::Wire { from, all_good } => *from = next_on_wire(from, *all_good, slot),
            Walk::Slice(items) => {
                if let Some((first, rest)) = items.split_first() {
                    *items = rest;
                    *slot = Some(*first);
                }
            }
        }
    }
}

impl<'a, T: Ie<'a> + Copy> Iterator for Items<'a, T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        // One slot and one way out, so that it is filled in place.
        let mut slot = None;
        if let Some(left) = self.left.checked_sub(1) {
            self.left = left;
            self.fill(&mut slot);
        }
        slot
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<'a, T: Ie<'a> + Copy> ExactSizeIterator for Items<'a, T> {}

/// Fills the slot from the next IE of the list in `from`; returns what is behind it.
#[inline(always)]
fn next_on_wire<'a, T: Ie<'a>>(from: &'a [u8], all_good: bool, slot: &mut Option<T>) -> &'a [u8] {
    let at = Cursor::new(from);
    if all_good
        && at.is_at(T::TYPE.0, T::FIXED)
        && let Ok((value, behind)) = at.split(T::FIXED)
        && !value.is_empty()
        && T::fill_slot(slot, value)
    {
        return behind;
    }
    search_on_wire(at, slot)
}

/// As [`next_on_wire`], where other IEs may stand between.
#[inline(never)]
fn search_on_wire<'a, T: Ie<'a>>(at: Cursor<'a>, slot: &mut Option<T>) -> &'a [u8] {
    let mut at = at;
    while let Ok((value, behind)) = at.split(0) {
        if at.is_at(T::TYPE.0, 0) && !value.is_empty() && T::fill_optional(slot, value) {
            return behind;
        }
        at = Cursor::new(behind);
    }
    &[]
}

/// A parameter of a rule that is being updated (TS 29.244 §5.6.3). Where the IE is absent the parameter stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Edit<T> {
    /// The IE came with a null length: the rule loses the parameter.
    Remove,
    /// The parameter's new value.
    Set(T),
}

impl<T> Edit<T> {
    /// The new value, if there is one.
    pub fn value(self) -> Option<T> {
        match self {
            Self::Remove => None,
            Self::Set(value) => Some(value),
        }
    }

    /// Applies the edit to a parameter.
    pub fn apply(self, parameter: &mut Option<T>) {
        *parameter = self.value();
    }
}

impl<T> From<T> for Edit<T> {
    fn from(value: T) -> Self {
        Self::Set(value)
    }
}

impl<'a, T: Ie<'a>> Ie<'a> for Edit<T> {
    const TYPE: IeType = T::TYPE;
    const ENOUGH: usize = T::ENOUGH;
    const FIXED: usize = T::FIXED;
    const NEVER_WRONG: bool = T::NEVER_WRONG;

    #[inline]
    fn is_surely_good(value: &[u8]) -> bool {
        T::is_surely_good(value)
    }

    #[inline]
    fn check(value: &'a [u8]) -> Result<(), Error> {
        if value.is_empty() { Ok(()) } else { T::check(value) }
    }

    #[inline]
    fn decode(value: &'a [u8]) -> Result<Self, Error> {
        match value {
            [] => Ok(Self::Remove),
            _ => T::decode(value).map(Self::Set),
        }
    }

    #[inline]
    fn fill(&mut self, value: &'a [u8]) {
        *self = Self::decode(value).unwrap_or(Self::Remove);
    }

    #[inline]
    fn fill_slot(slot: &mut Option<Self>, value: &'a [u8]) -> bool {
        *slot = Self::decode(value).ok();
        slot.is_some()
    }

    #[inline]
    fn fill_optional(slot: &mut Option<Self>, value: &'a [u8]) -> bool {
        Self::fill_slot(slot, value)
    }

    #[inline]
    fn write<'b>(&self, w: Writer<'b>) -> Result<Writer<'b>, NoRoom> {
        match self {
            Self::Remove => Ok(w),
            Self::Set(value) => value.write(w),
        }
    }

    fn surplus(value: &'a [u8]) -> &'a [u8] {
        T::surplus(value)
    }

    fn put_like<'b>(&self, original: &'a [u8], w: Writer<'b>) -> Result<Writer<'b>, NoRoom> {
        match self {
            Self::Remove => self.put(w),
            Self::Set(value) => value.put_like(original, w),
        }
    }
}

/// The octets that a message or group was read from, kept for their order and for what this release does not know.
///
/// Encoding a value that has a layout walks it: where the original had an IE that the table knows, the typed value
/// is written, with the original's octets from newer releases behind it; an IE that the table does not know, or of a
/// vendor, is copied. What the value has beyond the layout follows in the table's order. So an untouched message
/// comes out as it went in, a changed field comes out changed, and a field set to `None` is gone.
///
/// Not kept, because the receiver has to ignore it: spare bits, second occurrences of an IE that is no list, null
/// lengths outside of updates, and optional IEs without meaning.
///
/// A layout takes no part in comparisons. `..new()` gives an empty one: the table's order.
#[derive(Clone, Copy, Default)]
pub struct Layout<'a>(&'a [u8]);

impl<'a> Layout<'a> {
    /// The table's order, nothing unknown.
    pub const EMPTY: Self = Self(&[]);

    pub(crate) const fn of(body: &'a [u8]) -> Self {
        Self(body)
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// The IEs of the original.
    pub const fn tlvs(self) -> Tlvs<'a> {
        Tlvs::new(self.0)
    }
}

impl PartialEq for Layout<'_> {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl fmt::Debug for Layout<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Layout({} octets)", self.0.len())
    }
}

/// While a value is written by its layout: a single field that has not been met yet.
pub(crate) struct Pending<'v, T> {
    value: Option<&'v T>,
    met: bool,
}

impl<'v, T> Pending<'v, T> {
    pub(crate) const fn new(value: Option<&'v T>) -> Self {
        Self { value, met: false }
    }

    pub(crate) const fn is_open(&self) -> bool {
        !self.met
    }

    pub(crate) fn put_like<'a, 'b>(&mut self, original: &'a [u8], w: Writer<'b>) -> Result<Writer<'b>, NoRoom>
    where
        T: Ie<'a>,
    {
        self.met = true;
        match self.value.take() {
            Some(value) => value.put_like(original, w),
            None => Ok(w),
        }
    }

    pub(crate) fn put<'a, 'b>(self, w: Writer<'b>) -> Result<Writer<'b>, NoRoom>
    where
        T: Ie<'a>,
    {
        match self.value {
            Some(value) => value.put(w),
            None => Ok(w),
        }
    }
}

/// While a value is written by its layout: a list whose first IEs have been met.
pub(crate) struct PendingList<'a, T> {
    items: Items<'a, T>,
    null: bool,
}

impl<'a, T: Ie<'a> + Copy> PendingList<'a, T> {
    pub(crate) const fn new(list: &Repeated<'a, T>) -> Self {
        Self {
            items: list.iter(),
            null: list.removes_all(),
        }
    }

    pub(crate) const fn is_open(&self) -> bool {
        true
    }

    pub(crate) fn put_like<'b>(&mut self, original: &'a [u8], w: Writer<'b>) -> Result<Writer<'b>, NoRoom> {
        if original.is_empty() {
            return if core::mem::take(&mut self.null) {
                Repeated::<T>::put_null(w)
            } else {
                Ok(w)
            };
        }
        match self.items.next() {
            Some(item) => item.put_like(original, w),
            None => Ok(w),
        }
    }

    pub(crate) fn put<'b>(self, w: Writer<'b>) -> Result<Writer<'b>, NoRoom> {
        let mut w = w;
        for item in self.items {
            w = item.put(w)?;
        }
        if self.null {
            Repeated::<T>::put_null(w)
        } else {
            Ok(w)
        }
    }
}

/// A value to begin with, before the octets that have been checked are filled in. Of no meaning.
pub(crate) trait Blank {
    /// Some value.
    fn blank() -> Self;
}

//! What grouped IEs and messages are made of besides their fields: lists, removals, and the order on the wire.

use core::fmt;

use crate::error::{Error, NoRoom};
use crate::ie::Ie;
use crate::ie_type::IeType;
use crate::tlv::{Tlvs, Writer};

/// A list of IEs of one type (TS 29.244 §7.2.3.4): read from a message, or a slice to write.
///
/// Read lists are not copied anywhere: they were checked when the message was decoded, and are decoded again, one
/// by one, when walked.
pub struct Repeated<'a, T> {
    source: Source<'a, T>,
    count: usize,
    null: bool,
}

enum Source<'a, T> {
    Wire(&'a [u8]),
    Slice(&'a [T]),
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
    pub const NONE: Self = Self {
        source: Source::Slice(&[]),
        count: 0,
        null: false,
    };

    /// One IE with a null length: the receiver is to drop all it has of the type (TS 29.244 §5.6.3).
    pub const REMOVE_ALL: Self = Self {
        source: Source::Slice(&[]),
        count: 0,
        null: true,
    };

    /// The IEs of `items`, in their order.
    pub const fn new(items: &'a [T]) -> Self {
        Self {
            source: Source::Slice(items),
            count: items.len(),
            null: false,
        }
    }

    /// How many IEs there are; one with a null length does not count.
    pub const fn len(&self) -> usize {
        self.count
    }

    /// Whether there is no IE, or only one with a null length.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether one of the IEs had a null length: drop all there is of the type (TS 29.244 §5.6.3).
    pub const fn removes_all(&self) -> bool {
        self.null
    }
}

impl<'a, T: Ie<'a> + Copy> Repeated<'a, T> {
    /// Walks the list.
    pub const fn iter(&self) -> Items<'a, T> {
        Items {
            source: self.source,
            left: self.count,
        }
    }

    /// The first IE of the list.
    pub fn first(&self) -> Option<T> {
        self.iter().next()
    }

    /// Takes note of an IE that was met while decoding; `from` begins with it and has all that follow.
    #[inline]
    pub(crate) fn met(&mut self, from: &'a [u8], value: &'a [u8]) -> Result<(), Error> {
        if value.is_empty() {
            self.null = true;
            return Ok(());
        }
        T::decode(value)?;
        if self.count == 0 {
            self.source = Source::Wire(from);
        }
        self.count += 1;
        Ok(())
    }

    pub(crate) fn put(&self, w: &mut Writer<'_>) -> Result<(), NoRoom> {
        for item in self.iter() {
            item.put(w)?;
        }
        self.put_null(w)
    }

    pub(crate) fn put_null(&self, w: &mut Writer<'_>) -> Result<(), NoRoom> {
        if !self.null {
            return Ok(());
        }
        let mark = w.begin(T::TYPE)?;
        w.end(mark)
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
        self.null == other.null && self.count == other.count && self.iter().eq(other.iter())
    }
}

impl<'a, T: Ie<'a> + Copy + fmt::Debug> fmt::Debug for Repeated<'a, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()?;
        if self.null {
            f.write_str(" and remove all")
        } else {
            Ok(())
        }
    }
}

/// Walks a [`Repeated`].
pub struct Items<'a, T> {
    source: Source<'a, T>,
    left: usize,
}

impl<'a, T: Ie<'a> + Copy> Items<'a, T> {
    fn next_on_wire(from: &mut &'a [u8]) -> Option<T> {
        let mut tlvs = Tlvs::new(from);
        while let Ok(Some(tlv)) = tlvs.advance() {
            if tlv.ie_type != T::TYPE || tlv.value.is_empty() {
                continue;
            }
            if let Ok(item) = T::decode(tlv.value) {
                *from = tlvs.rest();
                return Some(item);
            }
        }
        None
    }
}

impl<'a, T: Ie<'a> + Copy> Iterator for Items<'a, T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        self.left = self.left.checked_sub(1)?;
        match &mut self.source {
            Source::Wire(from) => Self::next_on_wire(from),
            Source::Slice(items) => {
                let (first, rest) = items.split_first()?;
                *items = rest;
                Some(*first)
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<'a, T: Ie<'a> + Copy> ExactSizeIterator for Items<'a, T> {}

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
}

impl<T> From<T> for Edit<T> {
    fn from(value: T) -> Self {
        Self::Set(value)
    }
}

impl<'a, T: Ie<'a>> Ie<'a> for Edit<T> {
    const TYPE: IeType = T::TYPE;

    #[inline]
    fn decode(value: &'a [u8]) -> Result<Self, Error> {
        if value.is_empty() {
            Ok(Self::Remove)
        } else {
            T::decode(value).map(Self::Set)
        }
    }

    #[inline]
    fn write(&self, w: &mut Writer<'_>) -> Result<(), NoRoom> {
        match self {
            Self::Remove => Ok(()),
            Self::Set(value) => value.write(w),
        }
    }

    fn surplus(value: &'a [u8]) -> &'a [u8] {
        T::surplus(value)
    }

    fn put_like(&self, original: &'a [u8], w: &mut Writer<'_>) -> Result<(), NoRoom> {
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
/// Not kept, because the receiver is told to ignore it: spare bits, second occurrences of an IE that is no list, null
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

    pub(crate) const fn tlvs(self) -> Tlvs<'a> {
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

    pub(crate) fn put_like<'a>(&mut self, original: &'a [u8], w: &mut Writer<'_>) -> Result<(), NoRoom>
    where
        T: Ie<'a>,
    {
        self.met = true;
        match self.value.take() {
            Some(value) => value.put_like(original, w),
            None => Ok(()),
        }
    }

    pub(crate) fn put<'a>(&self, w: &mut Writer<'_>) -> Result<(), NoRoom>
    where
        T: Ie<'a>,
    {
        match self.value {
            Some(value) => value.put(w),
            None => Ok(()),
        }
    }
}

/// While a value is written by its layout: a list whose first IEs have been met.
pub(crate) struct PendingList<'v, 'a, T> {
    list: &'v Repeated<'a, T>,
    items: Items<'a, T>,
    null: bool,
}

impl<'v, 'a, T: Ie<'a> + Copy> PendingList<'v, 'a, T> {
    pub(crate) fn new(list: &'v Repeated<'a, T>) -> Self {
        Self {
            list,
            items: list.iter(),
            null: list.null,
        }
    }

    pub(crate) const fn is_open(&self) -> bool {
        true
    }

    pub(crate) fn put_like(&mut self, original: &'a [u8], w: &mut Writer<'_>) -> Result<(), NoRoom> {
        if original.is_empty() {
            return if core::mem::take(&mut self.null) {
                self.list.put_null(w)
            } else {
                Ok(())
            };
        }
        match self.items.next() {
            Some(item) => item.put_like(original, w),
            None => Ok(()),
        }
    }

    pub(crate) fn put(self, w: &mut Writer<'_>) -> Result<(), NoRoom> {
        for item in self.items {
            item.put(w)?;
        }
        if self.null { self.list.put_null(w) } else { Ok(()) }
    }
}

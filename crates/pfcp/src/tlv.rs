//! Type, length, value: the borrowed iterator over received octets and the writer into a caller's buffer.
//!
//! Nothing here allocates or keeps state beyond one message; a value is always a slice of the datagram.

use crate::error::{Error, Fault, NoRoom};
use crate::ie_type::IeType;

/// One IE as encoded in a message (TS 29.244 §8.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tlv<'a> {
    /// The IE's type.
    pub ie_type: IeType,
    /// The octets behind the length field. A vendor-specific IE's begin with the Enterprise ID.
    pub value: &'a [u8],
}

impl<'a> Tlv<'a> {
    /// The vendor's SMI Private Enterprise Code. `None` for an IE of 3GPP's, or where the two octets are missing.
    pub fn enterprise_id(&self) -> Option<u16> {
        match (self.ie_type.is_vendor_specific(), self.value) {
            (true, [high, low, ..]) => Some(u16::from_be_bytes([*high, *low])),
            _ => None,
        }
    }

    /// The value without the Enterprise ID.
    pub fn data(&self) -> &'a [u8] {
        match self.enterprise_id() {
            Some(_) => self.value.get(2..).unwrap_or_default(),
            None => self.value,
        }
    }
}

/// The IEs in a message body or a grouped IE, in their order. Ends after the first error.
#[derive(Clone, Copy, Debug)]
pub struct Tlvs<'a> {
    rest: &'a [u8],
}

impl<'a> Tlvs<'a> {
    /// Walks `body`, which holds IEs and nothing else.
    pub const fn new(body: &'a [u8]) -> Self {
        Self { rest: body }
    }

    /// What has not been walked yet.
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The next IE.
    ///
    /// # Errors
    /// Cause 68 when the IE's header or value is cut short (TS 29.244 §7.6.7).
    #[inline(always)]
    pub fn advance(&mut self) -> Result<Option<Tlv<'a>>, Error> {
        let whole = core::mem::take(&mut self.rest);
        let Some(([t1, t2, l1, l2], behind)) = whole.split_first_chunk() else {
            return if whole.is_empty() {
                Ok(None)
            } else {
                Err(overrun(whole))
            };
        };
        let length = usize::from(u16::from_be_bytes([*l1, *l2]));
        let (value, rest) = behind.split_at_checked(length).ok_or_else(|| overrun(whole))?;
        self.rest = rest;
        Ok(Some(Tlv {
            ie_type: IeType(u16::from_be_bytes([*t1, *t2])),
            value,
        }))
    }
}

impl<'a> Iterator for Tlvs<'a> {
    type Item = Result<Tlv<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.advance().transpose()
    }
}

/// Cursor over the IEs of a body, for callers that know which IEs they look for.
#[derive(Clone, Copy)]
pub(crate) struct Cursor<'a> {
    /// The current IE, and all behind it.
    pub(crate) rest: &'a [u8],
    /// The first four octets of `rest`, the first lowest; 0, which is no row's, where there are fewer.
    front: u32,
}

impl<'a> Cursor<'a> {
    /// A cursor at the first IE of `body`.
    #[inline(always)]
    pub(crate) fn new(body: &'a [u8]) -> Self {
        let front = body.first_chunk().map_or(0, |front| u32::from_le_bytes(*front));
        Self { rest: body, front }
    }

    /// Moves to `behind`; returns whether there is at least the front of an IE.
    #[inline(always)]
    pub(crate) fn go_on(&mut self, behind: &'a [u8]) -> bool {
        self.rest = behind;
        match behind.first_chunk() {
            Some(front) => {
                self.front = u32::from_le_bytes(*front);
                true
            }
            None => {
                self.front = 0;
                false
            }
        }
    }

    /// Whether the cursor is behind the last IE.
    #[inline(always)]
    pub(crate) const fn is_done(&self) -> bool {
        self.rest.is_empty()
    }

    /// The type of the current IE.
    pub(crate) const fn ie_type(&self) -> IeType {
        IeType((self.front as u16).swap_bytes())
    }

    /// Whether the current IE has that type; with `fixed` other than 0, on one of that length too.
    #[inline(always)]
    pub(crate) const fn is_at(&self, ie_type: u16, fixed: usize) -> bool {
        let front = (fixed as u16).swap_bytes() as u32;
        match fixed {
            0 => self.front as u16 == ie_type.swap_bytes(),
            _ => self.front == front << 16 | ie_type.swap_bytes() as u32,
        }
    }

    /// The value of the current IE, and what is behind. `fixed` is its length if that is known.
    #[inline(always)]
    pub(crate) fn split(&self, fixed: usize) -> Result<(&'a [u8], &'a [u8]), Error> {
        let length = match fixed {
            0 => usize::from(((self.front >> 16) as u16).swap_bytes()),
            _ => fixed,
        };
        match self.rest.split_at_checked(4 + length) {
            Some((whole, behind)) => Ok((whole.get(4..).unwrap_or_default(), behind)),
            None => Err(overrun(self.rest)),
        }
    }
}

/// The error about an IE that is cut, of which `rest` is what there is.
#[cold]
fn overrun(rest: &[u8]) -> Error {
    let number = |at: usize| Some(u16::from_be_bytes([*rest.get(at)?, *rest.get(at + 1)?]));
    let left = rest.len().saturating_sub(4);
    Error::overrun(
        number(0).map(IeType),
        number(2).unwrap_or(0),
        u16::try_from(left).unwrap_or(u16::MAX),
    )
}

/// Reads the fields of one IE's value, front to back.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
    length: usize,
}

impl<'a> Reader<'a> {
    /// Reads `value` from its first octet.
    #[inline]
    pub const fn new(value: &'a [u8]) -> Self {
        Self {
            rest: value,
            length: value.len(),
        }
    }

    /// The octets not read yet.
    #[inline]
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Takes all octets that are left.
    #[inline]
    pub fn take_rest(&mut self) -> &'a [u8] {
        core::mem::take(&mut self.rest)
    }

    /// The next `count` octets.
    ///
    /// # Errors
    /// [`Fault::Short`] when fewer are left.
    #[inline]
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], Fault> {
        let (taken, rest) = self
            .rest
            .split_at_checked(count)
            .ok_or_else(|| self.short(count))?;
        self.rest = rest;
        Ok(taken)
    }

    /// The next `N` octets.
    ///
    /// # Errors
    /// [`Fault::Short`] when fewer are left.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        self.fixed(|octets: &[u8; N]| *octets)
    }

    /// What `parse` makes of the next `N` octets. Numbers are parsed here rather than behind
    /// [`array`](Self::array), so that each is one load: a `Result` of an array is assembled octet by octet.
    #[inline(always)]
    pub(crate) fn fixed<const N: usize, T>(&mut self, parse: impl FnOnce(&[u8; N]) -> T) -> Result<T, Fault> {
        let Some((taken, rest)) = self.rest.split_first_chunk::<N>() else {
            return Err(self.short(N));
        };
        self.rest = rest;
        Ok(parse(taken))
    }

    #[cold]
    fn short(&self, count: usize) -> Fault {
        let need = self.length - self.rest.len() + count;
        Fault::Short {
            need: u16::try_from(need).unwrap_or(u16::MAX),
        }
    }

    /// One octet.
    ///
    /// # Errors
    /// [`Fault::Short`] at the end.
    #[inline]
    pub fn u8(&mut self) -> Result<u8, Fault> {
        self.fixed(|[octet]| *octet)
    }

    /// Two octets, most significant first.
    ///
    /// # Errors
    /// [`Fault::Short`] when fewer are left.
    #[inline]
    pub fn u16(&mut self) -> Result<u16, Fault> {
        self.fixed(|octets| u16::from_be_bytes(*octets))
    }

    /// Four octets, most significant first.
    ///
    /// # Errors
    /// [`Fault::Short`] when fewer are left.
    #[inline]
    pub fn u32(&mut self) -> Result<u32, Fault> {
        self.fixed(|octets| u32::from_be_bytes(*octets))
    }
}

/// Where an IE or message that is being written began, with room for its length.
#[derive(Debug)]
#[must_use = "a begun IE has to be ended, else its length stays 0"]
pub struct Mark<'b> {
    length: &'b mut [u8; 2],
    left: usize,
}

/// Writes a message into a caller's buffer. Lengths are patched in when an IE ends.
///
/// A writer is handed on by value, from field to field: so it stays in registers, which is half of what encoding
/// would cost otherwise.
#[derive(Debug)]
pub struct Writer<'b> {
    left: &'b mut [u8],
}

impl<'b> Writer<'b> {
    /// The most octets that a length field of an IE or message can be about, the field and what is before it included.
    const MOST: usize = 4 + u16::MAX as usize;

    /// Writes from the front of `buf`, of which it uses 65,539 octets at most: so no length is more than its field can
    /// say.
    pub const fn new(buf: &'b mut [u8]) -> Self {
        let most = if buf.len() < Self::MOST {
            buf.len()
        } else {
            Self::MOST
        };
        Self {
            left: buf.split_at_mut(most).0,
        }
    }

    /// Octets that can still be written.
    pub const fn room(&self) -> usize {
        self.left.len()
    }

    /// Appends `octets`.
    ///
    /// # Errors
    /// [`NoRoom`] when the buffer ends before.
    #[inline]
    pub fn bytes(self, octets: &[u8]) -> Result<Self, NoRoom> {
        let (room, left) = self.left.split_at_mut_checked(octets.len()).ok_or(NoRoom)?;
        copy_short(octets, room);
        Ok(Self { left })
    }

    /// Appends an array, which the compiler turns into few stores.
    ///
    /// # Errors
    /// [`NoRoom`] when the buffer ends before.
    #[inline(always)]
    pub fn array<const N: usize>(self, octets: [u8; N]) -> Result<Self, NoRoom> {
        let (room, left) = self.left.split_first_chunk_mut::<N>().ok_or(NoRoom)?;
        *room = octets;
        Ok(Self { left })
    }

    /// Leaves room for an array, which the caller fills in when it is known.
    ///
    /// # Errors
    /// [`NoRoom`] when the buffer ends before.
    #[inline(always)]
    pub fn reserve<const N: usize>(self) -> Result<(&'b mut [u8; N], Self), NoRoom> {
        let (room, left) = self.left.split_first_chunk_mut::<N>().ok_or(NoRoom)?;
        Ok((room, Self { left }))
    }

    /// Appends one octet.
    ///
    /// # Errors
    /// [`NoRoom`] when the buffer is full.
    #[inline(always)]
    pub fn u8(self, value: u8) -> Result<Self, NoRoom> {
        self.array([value])
    }

    /// Appends two octets, most significant first.
    ///
    /// # Errors
    /// [`NoRoom`] when the buffer ends before.
    #[inline(always)]
    pub fn u16(self, value: u16) -> Result<Self, NoRoom> {
        self.array(value.to_be_bytes())
    }

    /// Appends four octets, most significant first.
    ///
    /// # Errors
    /// [`NoRoom`] when the buffer ends before.
    #[inline(always)]
    pub fn u32(self, value: u32) -> Result<Self, NoRoom> {
        self.array(value.to_be_bytes())
    }

    /// Begins an IE: its type, and room for its length.
    ///
    /// # Errors
    /// [`NoRoom`] when the buffer ends before.
    #[inline(always)]
    pub fn begin(self, ie_type: IeType) -> Result<(Mark<'b>, Self), NoRoom> {
        self.begin_with(ie_type.0.to_be_bytes())
    }

    /// Begins something whose length field is its third and fourth octet: an IE or a message.
    #[inline(always)]
    pub(crate) fn begin_with(self, front: [u8; 2]) -> Result<(Mark<'b>, Self), NoRoom> {
        let (room, w) = self.reserve::<4>()?;
        let [t1, t2, length @ ..] = room;
        [*t1, *t2] = front;
        Ok((
            Mark {
                length,
                left: w.left.len(),
            },
            w,
        ))
    }

    /// Ends the IE that began at `mark`, by setting its length.
    #[inline(always)]
    pub fn end(self, mark: Mark<'b>) -> Self {
        let length = mark.left.wrapping_sub(self.left.len()) as u16;
        *mark.length = length.to_be_bytes();
        self
    }

    /// Appends a whole IE.
    ///
    /// # Errors
    /// [`NoRoom`] when the buffer ends before.
    pub fn tlv(self, tlv: &Tlv<'_>) -> Result<Self, NoRoom> {
        let (mark, w) = self.begin(tlv.ie_type)?;
        Ok(w.bytes(tlv.value)?.end(mark))
    }
}

/// As `to.copy_from_slice(from)`, which is a call; names are mostly short enough for two moves that may overlap.
#[inline(always)]
fn copy_short(from: &[u8], to: &mut [u8]) {
    match from.len() {
        8..=16 => copy_ends::<8>(from, to),
        17..=32 => copy_ends::<16>(from, to),
        33..=64 => copy_ends::<32>(from, to),
        _ => to.copy_from_slice(from),
    }
}

/// Copies the first `N` octets and the last `N`: all, if there are `N` to `2 * N`.
#[inline(always)]
fn copy_ends<const N: usize>(from: &[u8], to: &mut [u8]) {
    if let (Some(first), Some(last)) = (from.first_chunk::<N>(), from.last_chunk::<N>()) {
        if let Some(to) = to.first_chunk_mut() {
            *to = *first;
        }
        if let Some(to) = to.last_chunk_mut() {
            *to = *last;
        }
    }
}

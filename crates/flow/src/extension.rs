//! `Extensions`: the lines of what few flows need beside their entry, such as the rewrite of a NAT.
//!
//! A worker owns them beside its flow tables. An entry names its line by number and owns it: the code that takes the
//! entry out of the table (removal, aging, replacement, all of which give the entry back) gives the line back, too.
//! Nothing is allocated after start; both ways take constant time. Checksums are not known here: the maker of a [`Nat`]
//! has worked out what it adds to them.

use core::ops::Range;

use zerocopy::FromZeros;

use crate::flags::flags;
use crate::prefetch;
use crate::slab::{OutOfMemory, Slab};

/// The number of a line of [`Extensions`]; 0 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, FromZeros)]
#[repr(transparent)]
pub struct ExtensionId(u32);

impl ExtensionId {
    /// No line.
    pub const NONE: Self = Self(0);

    /// Whether it is a line's.
    #[inline]
    pub const fn is_some(self) -> bool {
        self.0 != 0
    }

    /// Where the line is; out of every slab's bounds for [`NONE`](Self::NONE).
    #[inline]
    const fn place(self) -> usize {
        (self.0 as usize).wrapping_sub(1)
    }
}

flags! {
    /// What a NAT changes.
    NatFlags(u8) {
        /// The source address.
        SOURCE = 1;
        /// The destination address.
        DESTINATION = 1 << 1;
        /// The source port.
        SOURCE_PORT = 1 << 2;
        /// The destination port.
        DESTINATION_PORT = 1 << 3;
    }
}

/// What a NAT does to the IPv4 packets of one flow (RFC 3022 §4.1): the new values of the fields that `changes` names,
/// and the ones' complement sums of what that adds to the checksums (RFC 1624 §3). These are right only if all packets
/// of the flow have the same old values: the entry's key must hold every field that changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromZeros)]
#[repr(C)]
pub struct Nat {
    /// The new source address.
    pub source: [u8; 4],
    /// The new destination address.
    pub destination: [u8; 4],
    /// The new source port.
    pub source_port: u16,
    /// The new destination port.
    pub destination_port: u16,
    /// What the new addresses add to a sum that covers them.
    pub addresses_add: u16,
    /// What the new ports add.
    pub ports_add: u16,
    /// Which fields change; the other values mean nothing.
    pub changes: NatFlags,
}

/// What an entry's line says. One cache line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromZeros)]
#[repr(C, align(64))]
pub struct Extension {
    /// The NAT; one that changes nothing is none.
    pub nat: Nat,
}

/// A line as it is in the slab.
#[derive(Clone, Copy, FromZeros)]
#[repr(C, align(64))]
struct Line {
    nat: Nat,
    /// Of a free line: the one that was freed before it.
    next: ExtensionId,
    in_use: bool,
}

const _: () = assert!(size_of::<Line>() == 64 && size_of::<Extension>() == 64);

/// All lines of a worker.
pub struct Extensions {
    lines: Slab<Line>,
    /// Lines below this have been used at least once.
    touched: u32,
    /// The first of those that were given back.
    free: ExtensionId,
    len: usize,
}

impl Extensions {
    /// Room for this many.
    ///
    /// # Errors
    ///
    /// When the memory cannot be had, or `lines` is above 2^31.
    pub fn new(lines: usize) -> Result<Self, OutOfMemory> {
        if lines > 1 << 31 {
            let octets = lines.saturating_mul(size_of::<Line>());
            return Err(OutOfMemory { octets });
        }
        Ok(Self {
            lines: Slab::new(lines)?,
            touched: 0,
            free: ExtensionId::NONE,
            len: 0,
        })
    }

    /// The addresses of the lines.
    pub fn area(&self) -> Range<usize> {
        self.lines.area()
    }

    /// How many are in use.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether none is in use.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many there can be.
    pub fn capacity(&self) -> usize {
        self.lines.len()
    }

    /// Takes a line for an entry; `None` when all are in use.
    pub fn insert(&mut self, extension: Extension) -> Option<ExtensionId> {
        let id = if self.free.is_some() {
            self.free
        } else {
            ExtensionId(self.touched.checked_add(1)?)
        };
        let line = self.lines.get_mut(id.place())?;
        if self.free.is_some() {
            self.free = line.next;
        } else {
            self.touched += 1;
        }
        *line = Line {
            nat: extension.nat,
            next: ExtensionId::NONE,
            in_use: true,
        };
        self.len += 1;
        Some(id)
    }

    /// Gives a line back. Returns whether it was in use.
    pub fn remove(&mut self, id: ExtensionId) -> bool {
        let Some(line) = self.lines.get_mut(id.place()).filter(|line| line.in_use) else {
            return false;
        };
        *line = Line {
            nat: Nat::default(),
            next: self.free,
            in_use: false,
        };
        self.free = id;
        self.len -= 1;
        true
    }

    /// What a line that is in use says.
    #[inline]
    pub fn get(&self, id: ExtensionId) -> Option<Extension> {
        let line = self.lines.get(id.place()).filter(|line| line.in_use)?;
        Some(Extension { nat: line.nat })
    }

    /// Asks for a line that a packet will need.
    #[inline]
    pub fn prefetch(&self, id: ExtensionId) {
        prefetch::nth(&self.lines, id.place());
    }
}

impl core::fmt::Debug for Extensions {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Extensions")
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn numbered(number: u16) -> Extension {
        let nat = Nat {
            source_port: number,
            changes: NatFlags::SOURCE_PORT,
            ..Nat::default()
        };
        Extension { nat }
    }

    #[test]
    fn no_line_is_none_and_none_is_no_line() {
        let mut lines = Extensions::new(2).unwrap();
        assert_eq!(lines.get(ExtensionId::NONE), None);
        assert!(!lines.remove(ExtensionId::NONE));
        let first = lines.insert(numbered(1)).unwrap();
        assert!(first.is_some() && lines.insert(numbered(2)).is_some());
        assert_eq!((lines.insert(numbered(3)), lines.len()), (None, 2));
        assert!(lines.remove(first) && !lines.remove(first));
        assert_eq!(lines.get(first), None);
        assert!(Extensions::new(0).unwrap().insert(numbered(1)).is_none());
    }

    proptest! {
        #[test]
        fn lines_are_whose_they_were_given_to(steps in prop::collection::vec((any::<bool>(), any::<u16>()), 0..200)) {
            let mut lines = Extensions::new(9).unwrap();
            let mut model: Vec<(ExtensionId, u16)> = Vec::new();
            for (inserts, number) in steps {
                if inserts {
                    match lines.insert(numbered(number)) {
                        Some(id) => model.push((id, number)),
                        None => prop_assert_eq!(model.len(), lines.capacity()),
                    }
                } else if !model.is_empty() {
                    let (id, _) = model.swap_remove(usize::from(number) % model.len());
                    prop_assert!(lines.remove(id));
                }
                prop_assert_eq!(lines.len(), model.len());
                for &(id, number) in &model {
                    prop_assert_eq!(lines.get(id), Some(numbered(number)));
                }
            }
        }
    }
}

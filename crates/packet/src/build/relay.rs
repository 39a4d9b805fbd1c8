//! The optional part of the GTP-U header of a message that is relayed into another tunnel.
//!
//! A relay keeps sequence and N-PDU numbers and the extension headers that are not for it alone (TS 29.281 §5.1,
//! §5.2.1; TS 29.244 §8.2.64). A message with at most one PDU Session Container and no numbers needs none of this:
//! [`GtpuTemplate::apply`](super::GtpuTemplate::apply) writes its marking.

use crate::DropReason;
use crate::gtpu::{Comprehension, ExtensionHeader, ExtensionType, Message, flags};

use super::Marking;

/// What becomes of the PDU Session Container of a relayed message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelayedContainer {
    /// The first of them is relayed unchanged.
    Keep,
    /// It is taken out.
    Delete,
    /// This one goes instead; it is put in first where there was none.
    Replace(Marking),
}

/// The optional part of a relayed message, as it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RelayedOptionalPart {
    /// E, S and PN, for [`GtpuTemplate::apply_optional`](super::GtpuTemplate::apply_optional).
    pub flags: u8,
    /// Its octets; 0 when nothing is left.
    pub octets: usize,
}

/// Writes the optional part with which `message` is relayed to the start of `out`. The container comes first, then
/// `added`, which takes the place of all of its type; unknown extension headers that an intermediate node takes out are
/// taken out.
///
/// # Errors
/// [`DropReason::UnknownGtpuExtension`] when an intermediate node must understand one of them,
/// [`DropReason::NoHeadroom`] when `out` is too short.
pub fn relay_optional_part(
    message: &Message<'_>,
    container: RelayedContainer,
    added: Option<ExtensionHeader<'_>>,
    out: &mut [u8],
) -> Result<RelayedOptionalPart, DropReason> {
    if message.extensions.unknown().refused_by_intermediate() {
        return Err(DropReason::UnknownGtpuExtension);
    }
    let mut chain = Chain::new(out);
    let kind = ExtensionType::PDU_SESSION_CONTAINER;
    match container {
        RelayedContainer::Delete => {}
        RelayedContainer::Keep => {
            if let Some(content) = message.extensions.find(kind) {
                chain.put(ExtensionHeader { kind, content })?;
            }
        }
        RelayedContainer::Replace(marking) => {
            // Four optional octets and one of length come before the content, the next type after it.
            let (octets, len) = (marking.octets(), marking.len());
            let content = octets.get(5..len - 1).unwrap_or_default();
            chain.put(ExtensionHeader { kind, content })?;
        }
    }
    if let Some(added) = added {
        chain.put(added)?;
    }
    let is_replaced = |header: &ExtensionHeader<'_>| added.is_some_and(|added| added.kind == header.kind);
    for header in message.extensions.into_iter().filter(goes_on) {
        if !is_replaced(&header) {
            chain.put(header)?;
        }
    }
    chain.finish(message.sequence, message.npdu)
}

/// Whether an intermediate node forwards the header; the container is a matter of its own.
fn goes_on(header: &ExtensionHeader<'_>) -> bool {
    let is_discarded =
        !header.kind.is_known() && header.kind.comprehension() == Comprehension::DiscardIfUnknown;
    header.kind != ExtensionType::PDU_SESSION_CONTAINER && !is_discarded
}

/// A chain of extension headers that is being written, with the four octets before it.
struct Chain<'a> {
    out: &'a mut [u8],
    /// Octets written, of which the last is a next type to be filled in.
    len: usize,
}

impl<'a> Chain<'a> {
    fn new(out: &'a mut [u8]) -> Self {
        Self {
            out,
            len: crate::gtpu::OPTIONAL_LEN,
        }
    }

    fn put(&mut self, header: ExtensionHeader<'_>) -> Result<(), DropReason> {
        let len = header.content.len() + 2;
        let units = u8::try_from(len / 4).map_err(|_| DropReason::BadGtpuExtension)?;
        let room = self
            .out
            .get_mut(self.len - 1..self.len + len)
            .ok_or(DropReason::NoHeadroom)?;
        let parts = [&[header.kind.0, units], header.content, &[ExtensionType::NONE.0]];
        room.iter_mut()
            .zip(parts.into_iter().flatten())
            .for_each(|(octet, part)| *octet = *part);
        self.len += len;
        Ok(())
    }

    fn finish(self, sequence: Option<u16>, npdu: Option<u8>) -> Result<RelayedOptionalPart, DropReason> {
        let has_extensions = self.len > crate::gtpu::OPTIONAL_LEN;
        let bit = |set: bool, flag: u8| if set { flag } else { 0 };
        let set = bit(has_extensions, flags::E)
            | bit(sequence.is_some(), flags::S)
            | bit(npdu.is_some(), flags::PN);
        if set == 0 {
            return Ok(RelayedOptionalPart { flags: 0, octets: 0 });
        }
        let start = self.out.first_chunk_mut::<4>().ok_or(DropReason::NoHeadroom)?;
        let [high, low] = sequence.unwrap_or(0).to_be_bytes();
        *start = [
            high,
            low,
            npdu.unwrap_or(0),
            if has_extensions { start[3] } else { 0 },
        ];
        Ok(RelayedOptionalPart {
            flags: set,
            octets: self.len,
        })
    }
}

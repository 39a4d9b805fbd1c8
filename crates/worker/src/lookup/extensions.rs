//! Extensions of flow entries: the few entries whose packets a NAT translates have a line of their own.
//!
//! Other entries do not pay for it. `lookup` replaces the forward of an extended entry by [`EntryExtension::FORWARD`]
//! in the verdict, so that the common path of `apply_rules` does not take it; `apply_rules::general_case` restores the
//! whole verdict here.

use flow::{ExtensionId, Extensions, FlowEntry, Nat, NatFlags, Verdict};
use packet::DropReason;
use packet::rewrite::Rewrite;

use crate::burst::batch::BURST;

/// What the verdict of a packet lacks whose entry has a line of its own.
#[derive(Clone, Copy)]
pub(crate) struct EntryExtension {
    /// The line.
    pub extension: ExtensionId,
    /// The slot of the forward.
    forward: u8,
}

impl EntryExtension {
    /// Nothing.
    pub const NONE: Self = Self {
        extension: ExtensionId::NONE,
        forward: Self::FORWARD,
    };
    /// In a verdict: the slot is in the extension. No block has this one, so code that does not check takes it for a
    /// forward that drops.
    pub const FORWARD: u8 = u8::MAX;

    /// The extension of an entry.
    pub fn of<K>(entry: &FlowEntry<K>) -> Self {
        Self {
            extension: entry.extension,
            forward: entry.verdict.forward,
        }
    }
}

const _: () = assert!(flow::BlockImage::MAX_FORWARDS <= EntryExtension::FORWARD as usize);

/// The extensions of the entries of a burst, and their lines.
pub(crate) struct ExtensionLines<'a> {
    pub lines: &'a Extensions,
    /// By index; meaningful where the verdict's forward is [`EntryExtension::FORWARD`].
    pub of_burst: &'a [EntryExtension; BURST],
}

/// A verdict with all of its fields.
pub(crate) struct WholeVerdict {
    pub verdict: Verdict,
    /// The extension of its flow entry, or [`ExtensionId::NONE`].
    pub extension: ExtensionId,
}

impl ExtensionLines<'_> {
    /// The verdict of the packet at `index` with the fields that are in the extension of its flow entry.
    pub fn whole(&self, verdict: &Verdict, index: usize) -> WholeVerdict {
        if verdict.forward != EntryExtension::FORWARD {
            return WholeVerdict {
                verdict: *verdict,
                extension: ExtensionId::NONE,
            };
        }
        let EntryExtension { extension, forward } = self.of_burst[index % BURST];
        WholeVerdict {
            verdict: Verdict { forward, ..*verdict },
            extension,
        }
    }

    /// What the NAT of a flow changes, if it has one.
    ///
    /// # Errors
    /// [`DropReason::NoMatchingPdr`] when the line is gone, and with it the flow.
    pub fn rewrite(&self, extension: ExtensionId) -> Result<Option<Rewrite>, DropReason> {
        if !extension.is_some() {
            return Ok(None);
        }
        let line = self.lines.get(extension).ok_or(DropReason::NoMatchingPdr)?;
        Ok(Some(rewrite_of(&line.nat)))
    }
}

/// What a flow's line says, as it is applied.
fn rewrite_of(nat: &Nat) -> Rewrite {
    let changes = |flag| nat.changes.contains(flag);
    Rewrite {
        source: changes(NatFlags::SOURCE).then_some(nat.source),
        destination: changes(NatFlags::DESTINATION).then_some(nat.destination),
        source_port: changes(NatFlags::SOURCE_PORT).then_some(nat.source_port),
        destination_port: changes(NatFlags::DESTINATION_PORT).then_some(nat.destination_port),
        addresses_add: nat.addresses_add,
        ports_add: nat.ports_add,
    }
}

/// The same, as the line has it.
pub(crate) fn nat_of(rewrite: &Rewrite) -> Nat {
    Nat {
        source: rewrite.source.unwrap_or_default(),
        destination: rewrite.destination.unwrap_or_default(),
        source_port: rewrite.source_port.unwrap_or_default(),
        destination_port: rewrite.destination_port.unwrap_or_default(),
        addresses_add: rewrite.addresses_add,
        ports_add: rewrite.ports_add,
        changes: NatFlags::NONE
            .with_if(NatFlags::SOURCE, rewrite.source.is_some())
            .with_if(NatFlags::DESTINATION, rewrite.destination.is_some())
            .with_if(NatFlags::SOURCE_PORT, rewrite.source_port.is_some())
            .with_if(NatFlags::DESTINATION_PORT, rewrite.destination_port.is_some()),
    }
}

#[cfg(test)]
mod tests {
    use packet::rewrite::Ends;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_rewrite_comes_back_from_its_line(old: ([u8; 4], [u8; 4], u16, u16), new: ([u8; 4], [u8; 4], u16, u16)) {
            let ends = |(source, destination, source_port, destination_port)| Ends {
                source,
                destination,
                source_port,
                destination_port,
            };
            for to in [new, (old.0, new.1, old.2, new.3), old] {
                let rewrite = Rewrite::new(&ends(old), &ends(to));
                prop_assert_eq!(rewrite_of(&nat_of(&rewrite)), rewrite);
            }
        }
    }
}

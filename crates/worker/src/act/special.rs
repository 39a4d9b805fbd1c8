//! What few packets get on their way through `act`: the rewrite of a NAT, a DSCP by QoS flow and colour.
//!
//! Others do not pay for it. An entry with a line of its own is taken apart by `lookup`, so that its packets seem to
//! have no forward ([`Aside::FORWARD`]); a forward with a mirror or a DSCP to be looked up has no
//! [`usual_kind`](flow::PackedForward::usual_kind). Copies are made by [`mirror`](mod@crate::egress::mirror).

use flow::meter::Colour;
use flow::{
    ExtensionId, Extensions, FlowEntry, ForwardFlags, ForwardKind, Mark, Nat, NatFlags, PackedForward,
};
use packet::rewrite::Rewrite;
use packet::{DropReason, Dscp, PacketBuf, Qfi, eth, ipv4, ipv6};
use rules::classifier::Side;

use crate::burst::batch::BURST;
use crate::burst::descriptor::{Descriptor, Family, Verdict};
use crate::ingress::l3_interfaces::Places;

/// What the verdict of a packet lacks whose entry has a line of its own.
#[derive(Clone, Copy)]
pub(crate) struct Aside {
    /// The line.
    pub extension: ExtensionId,
    /// The slot of the forward.
    forward: u8,
}

impl Aside {
    /// Nothing.
    pub const NONE: Self = Self {
        extension: ExtensionId::NONE,
        forward: Self::FORWARD,
    };
    /// In a verdict: the slot is put aside. No block has this one, so who does not know takes it for a forward that
    /// drops.
    pub const FORWARD: u8 = u8::MAX;

    /// What is put aside of an entry.
    pub fn of<K>(entry: &FlowEntry<K>) -> Self {
        Self {
            extension: entry.extension,
            forward: entry.forward,
        }
    }
}

const _: () = assert!(flow::BlockImage::MAX_FORWARDS <= Aside::FORWARD as usize);

/// What was put aside of the entries of a burst, and their lines.
pub(crate) struct Extended<'a> {
    pub lines: &'a Extensions,
    /// By place; meaningful where the verdict's forward is [`Aside::FORWARD`].
    pub asides: &'a [Aside; BURST],
}

impl Extended<'_> {
    /// The whole verdict of a packet, and its line.
    pub fn whole(&self, verdict: &Verdict, place: usize) -> (Verdict, ExtensionId) {
        if verdict.forward != Aside::FORWARD {
            return (*verdict, ExtensionId::NONE);
        }
        let Aside { extension, forward } = self.asides[place % BURST];
        (Verdict { forward, ..*verdict }, extension)
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

/// How a packet is marked as it leaves.
#[derive(Clone, Copy, Default)]
pub(crate) struct EgressMark {
    pub dscp: Option<Dscp>,
    /// The priority of its frame; 0: as the instance's frames are.
    pub pcp: u8,
}

/// The marks of a packet: the DSCP that the FAR has for user packets, or what the network instance has for this QoS
/// flow (the mark's, else the received one) and colour, where the FAR leaves that to it (TS 29.244 §5.4.13).
pub(crate) fn egress_mark(
    places: &Places,
    forward: &PackedForward,
    descriptor: &Descriptor,
    (mark, colour): (Mark, Colour),
) -> EgressMark {
    if !forward.flags().contains(ForwardFlags::MARKS_DSCP) {
        let dscp = forward.dscp().map(Dscp::from_low_bits);
        return EgressMark { dscp, pcp: 0 };
    }
    let received = match descriptor.side {
        Side::Tunnel { qfi, .. } => qfi,
        Side::Plain { .. } => None,
    };
    let of_flow = mark.qfi().map(Qfi::from_low_bits).or(received).and_then(|qfi| {
        let table = places.at(forward.egress())?.dscp.as_ref()?;
        table.get(qfi)
    });
    let Some(of_flow) = of_flow else {
        return EgressMark::default();
    };
    EgressMark {
        dscp: Some(match colour {
            Colour::Yellow => of_flow.yellow,
            _ => of_flow.green,
        }),
        pcp: of_flow.pcp,
    }
}

/// Gives a frame that has VLAN tags this priority.
#[cold]
pub(crate) fn prioritise<B: PacketBuf>(buf: &mut B, pcp: u8) {
    eth::prioritise(buf.data_mut(), pcp);
}

/// Marks a packet with a DSCP: a plain one in `buf` itself, else the outer header that `forward` describes.
///
/// # Errors
/// [`DropReason::TruncatedIpv4`], [`DropReason::TruncatedIpv6`].
pub(crate) fn mark<B: PacketBuf>(
    buf: &mut B,
    descriptor: &Descriptor,
    forward: &mut PackedForward,
    dscp: Dscp,
) -> Result<(), DropReason> {
    if forward.kind() == ForwardKind::Tunnel {
        *forward = forward.with_tos(dscp.get() << 2);
        return Ok(());
    }
    let packet = user_packet(buf, descriptor);
    match descriptor.family {
        Family::V6 => ipv6::set_dscp(packet, dscp.get()),
        _ => ipv4::set_dscp(packet, dscp.get()),
    }
}

/// Rewrites the user packet in `buf`, as it was received but for what the NAT of its flow changes.
///
/// # Errors
/// As [`Rewrite::apply`].
pub(crate) fn translate<B: PacketBuf>(
    buf: &mut B,
    descriptor: &Descriptor,
    rewrite: &Rewrite,
) -> Result<(), DropReason> {
    rewrite.apply(user_packet(buf, descriptor))
}

/// What of the user packet lies in the first part of the buffer: at least its headers.
fn user_packet<'a, B: PacketBuf>(buf: &'a mut B, descriptor: &Descriptor) -> &'a mut [u8] {
    let start = usize::from(descriptor.offset);
    let data = buf.data_mut();
    let end = data.len().min(start + usize::from(descriptor.octets));
    data.get_mut(start..end).unwrap_or_default()
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

//! Marking of user packets that few of them need: DSCP and PCP by QoS flow and colour.

use flow::meter::Colour;
use flow::{ForwardFlags, ForwardKind, Mark, PackedForward};
use packet::{DropReason, Dscp, PacketBuf, Qfi, eth, ipv4, ipv6};
use rules::classifier::Side;

use crate::burst::descriptor::{Descriptor, Family};
use crate::ingress::l3_interfaces::L3Interfaces;

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
    interfaces: &L3Interfaces,
    forward: &PackedForward,
    descriptor: &Descriptor,
    mark: Mark,
    colour: Colour,
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
        let table = interfaces.at(forward.egress())?.dscp.as_ref()?;
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

/// The part of the user packet in the first segment of the buffer: at least its headers.
fn user_packet<'a, B: PacketBuf>(buf: &'a mut B, descriptor: &Descriptor) -> &'a mut [u8] {
    let start = usize::from(descriptor.offset);
    let data = buf.data_mut();
    let end = data.len().min(start + usize::from(descriptor.octets));
    data.get_mut(start..end).unwrap_or_default()
}

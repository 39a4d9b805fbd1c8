//! Chained packets are linearized before they leave by a port that cannot send them, or no chains of that length.
//!
//! Where all ports send chains of any length, a burst checks that once ([`Io::bounds_chains`]).

use flow::{Blocks, PortId};
use packet::buf::bring_together;
use packet::{DropReason, PacketBuf};

use crate::burst::credit::credit_back;
use crate::burst::descriptor::{Descriptor, Fate};
use crate::io::{Io, PacketMetadata};

/// Brings together the packets of a burst that leave by ports which send no chains of theirs. What finds no room is
/// dropped and counts not at all.
#[cold]
#[inline(never)]
pub(crate) fn linearize_burst<I: Io>(
    io: &mut I,
    blocks: &mut Blocks,
    burst: &mut [I::Buf],
    descriptors: &mut [Descriptor],
) {
    for (buf, descriptor) in burst.iter_mut().zip(descriptors) {
        if let Fate::Send(port) = descriptor.fate
            && let Err(reason) = linearize(io, port, buf)
        {
            credit_back(blocks, descriptor);
            descriptor.fate = Fate::Drop(reason);
        }
    }
}

/// Brings one packet together as far as a port needs it.
///
/// # Errors
/// As [`bring_together`].
pub(crate) fn linearize<I: Io>(io: &mut I, port: PortId, buf: &mut I::Buf) -> Result<(), DropReason> {
    let most = io.most_parts(port);
    if most == usize::MAX || port.recirculations() > 0 || !buf.is_chained() {
        return Ok(());
    }
    let (ingress, asked) = (buf.ingress(), buf.asks_udp_checksum());
    if bring_together(buf, most, &mut || io.alloc())? {
        buf.set_ingress(ingress);
        if let Some(l2) = asked {
            // As the buffers before could.
            let _ = buf.ask_udp_checksum(l2);
        }
    }
    Ok(())
}

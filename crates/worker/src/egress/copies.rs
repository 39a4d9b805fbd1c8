//! The queue of packets that are made of a burst's packets: copies for mirrors, duplicates of FARs, ICMP errors. Which
//! packets are copied, and how a duplicate is made, is in [`duplicate`](crate::egress::duplicate).
//!
//! Copies are made before the packets of the burst leave and sent after them, so that they take no place from these
//! packets. Without a buffer there is no copy, and that is counted. A packet that leaves in fragments is copied whole,
//! and the copy is cut up as the packet is, so that the mirror gets the same fragments.

use flow::PortId;
use packet::PacketBuf;
use packet::buf::{copy_behind, copy_of};
use packet::ip_fragmentation::FragmentSpec;

use crate::burst::batch::Batch;
use crate::egress::fragmentation::Fragmenter;
use crate::egress::linearize::linearize;
use crate::egress::ports::{OwnPacket, Ports};
use crate::io::{Io, PacketMetadata};
use crate::local::denial_answer::AnswerKind;
use crate::stats::Stats;

/// A packet of our own, made of another.
pub(crate) struct Originated<B> {
    pub packet: B,
    /// The port that it leaves by.
    pub port: PortId,
    /// How it is cut up, if it leaves in fragments.
    pub spec: Option<FragmentSpec>,
}

/// The copies of one burst.
pub(crate) struct Copies<B> {
    copies: Batch<Originated<B>>,
    /// Packets of our own about packets, whose ingress they have: duplicates, and ICMP errors to their senders.
    duplicates: Batch<Originated<B>>,
}

impl<B: PacketBuf + PacketMetadata> Copies<B> {
    /// None yet.
    pub fn new() -> Self {
        Self {
            copies: Batch::new(),
            duplicates: Batch::new(),
        }
    }

    /// Copies a packet that is ready to be sent, in fragments if there is a `spec` for it.
    #[cold]
    pub fn copy<I: Io<Buf = B>>(
        &mut self,
        io: &mut I,
        stats: &mut Stats,
        packet: &B,
        spec: Option<FragmentSpec>,
        port: PortId,
    ) {
        let copy = match spec {
            None => copy_of(packet, &mut || io.alloc()),
            Some(_) => copy_with_headroom(packet, &mut || io.alloc()),
        };
        let made = |packet| Originated { packet, port, spec };
        if copy.is_some_and(|copy| self.copies.push(made(copy)).is_ok()) {
            stats.mirrored += 1;
            stats.originated += 1;
        } else {
            stats.mirrors_lost += 1;
        }
    }

    /// Takes a duplicate, or notes that there was none to be had.
    pub fn add(&mut self, stats: &mut Stats, duplicate: Option<Originated<B>>) {
        if duplicate.is_some_and(|duplicate| self.duplicates.push(duplicate).is_ok()) {
            stats.duplicated += 1;
            stats.originated += 1;
        } else {
            stats.duplicates_lost += 1;
        }
    }

    /// Takes an answer to the sender of a packet, which has that packet's ingress.
    pub fn add_answer(
        &mut self,
        stats: &mut Stats,
        kind: AnswerKind,
        OwnPacket { port, packet }: OwnPacket<B>,
    ) {
        let spec = None;
        if self.duplicates.push(Originated { packet, port, spec }).is_ok() {
            match kind {
                AnswerKind::IcmpError => stats.icmp_errors += 1,
                AnswerKind::OfEnd => stats.denials_answered += 1,
            }
            stats.originated += 1;
        }
    }

    /// Whether there are copies to be sent.
    pub fn is_empty(&self) -> bool {
        self.copies.is_empty() && self.duplicates.is_empty()
    }

    /// Sends the copies. What finds no room is dropped and counted like any packet.
    #[cold]
    pub fn send<I: Io<Buf = B>>(
        &mut self,
        ports: &mut Ports<I>,
        stats: &mut Stats,
        fragmenter: &mut Fragmenter<B>,
    ) {
        let Ports { io, tx, lags } = ports;
        for Originated {
            mut packet,
            port,
            spec,
        } in self.copies.drain()
        {
            let port = lags.way(port, &packet);
            if let Some(spec) = spec {
                tx.send_in_fragments(io, stats, port, packet, spec, fragmenter);
                continue;
            }
            match linearize(io, port, &mut packet) {
                Ok(()) => tx.send(io, stats, port, packet),
                Err(reason) => tx.give_up_one(io, stats, packet, reason),
            }
        }
        for Originated {
            mut packet,
            port,
            spec,
        } in self.duplicates.drain()
        {
            let port = lags.way(port, &packet);
            // To ourselves there is no link, and so no MTU.
            if let Some(spec) = spec.filter(|_| port.recirculations() == 0) {
                tx.send_in_fragments(io, stats, port, packet, spec, fragmenter);
                continue;
            }
            match linearize(io, port, &mut packet) {
                Ok(()) => tx.send_on(io, stats, port, packet),
                Err(reason) => tx.give_up_one(io, stats, packet, reason),
            }
        }
        tx.flush(io, stats);
    }
}

/// A copy with room before it, where fragments over IPv6 get a header.
fn copy_with_headroom<B: PacketBuf>(packet: &B, alloc: &mut dyn FnMut() -> Option<B>) -> Option<B> {
    let mut copy = alloc()?;
    copy_behind(&mut copy, packet, 0..packet.len(), alloc)?;
    Some(copy)
}

#[cfg(test)]
mod tests {
    use packet::VecBuf;

    use super::*;

    #[test]
    fn a_copy_fills_the_headroom_first() {
        for len in [0, 1, 127, 128, 129, 2000] {
            let octets: Vec<u8> = (0..len).map(|octet| octet as u8).collect();
            let packet = VecBuf::with_headroom(&octets, 0);
            let copy = copy_of(&packet, &mut || Some(VecBuf::new(&[]))).expect("there is room");
            assert_eq!(copy.data(), octets);
            assert_eq!(copy.headroom(), 128 - octets.len().min(128));
        }
        let too_long = VecBuf::with_headroom(&[1; 70_000], 0);
        assert_eq!(copy_of(&too_long, &mut || Some(VecBuf::new(&[]))), None);
        assert_eq!(copy_of(&VecBuf::new(&[1]), &mut || None), None);
    }
}

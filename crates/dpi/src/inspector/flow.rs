//! The state of one flow.

use super::packet::{Sender, Transport};
use super::settings::Settings;
use crate::heuristics::Rtp;
use crate::quic::KeySource;
use crate::reassembly::BlockIndex;

/// A flow that is inspected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowIndex(pub u32);

/// What a flow's packets were so far.
#[derive(Clone, Copy, Debug)]
pub(super) enum State {
    /// The sequence number of the first octet of the initiator's stream, once it is known.
    Tcp(Option<u32>),
    /// Of each sender.
    Udp([Rtp; 2]),
    Quic(KeySource),
}

/// The state of one flow.
#[derive(Debug)]
pub(super) struct Flow {
    pub(super) opened_at: u64,
    pub(super) owner: u32,
    pub(super) token: u32,
    pub(super) block: Option<BlockIndex>,
    pub(super) state: State,
    /// Of TCP: the end of what has come of the initiator's stream, gaps included; the most, if it is not below that.
    pub(super) end: u16,
    /// What was looked at, of each sender.
    octets: [u16; 2],
    packets: [u8; 2],
}

/// With the links of the list of flows it is 64 octets.
const _: () = assert!(size_of::<Flow>() <= 56);

impl Flow {
    pub(super) fn new(owner: u32, token: u32, transport: Transport, now: u64) -> Flow {
        Flow {
            opened_at: now,
            owner,
            token,
            block: None,
            state: match transport {
                Transport::Tcp => State::Tcp(None),
                Transport::Udp => State::Udp([Rtp::default(); 2]),
            },
            end: 0,
            octets: [0; 2],
            packets: [0; 2],
        }
    }

    /// Counts a packet. Whether no other one is looked at. Segments without a payload do not count.
    pub(super) fn has_spent(&mut self, sender: Sender, payload: usize, settings: &Settings) -> bool {
        if payload == 0 {
            return false;
        }
        let sender = sender as usize;
        let payload = u16::try_from(payload).unwrap_or(u16::MAX);
        self.octets[sender] = self.octets[sender].saturating_add(payload);
        self.packets[sender] = self.packets[sender].saturating_add(1);
        self.octets[sender] >= settings.octets || self.packets[sender] >= settings.packets
    }
}

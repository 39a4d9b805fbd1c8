//! How long a flow entry may idle: by what its key says, and what TCP has said last.
//!
//! A SYN, FIN or RST makes an entry for the short time of connections that open or close; every other segment of a UE
//! one for that of established ones. Downlink has the short time, whatever its flags: its sources are not
//! authenticated, the connection may be unknown to the UE, and where there is one, the UE's own packets hold it. A FIN
//! or RST later cuts the entry of its own direction down: the other direction has its own entry and its own FIN, and is
//! not to be found from here. What is cut too early is decided anew by the next packet, which is no SYN, and then has
//! the long time; so nothing has to watch a handshake on the fast path.

use std::time::Duration;

use flow::{KeyFields, Tick};
use packet::tuple::proto;

use crate::IdleTimes;

/// How long an entry of what an access list denies may idle at most: it only spares the next packet the slow path.
pub(crate) const DENIED: Duration = Duration::from_secs(10);

/// [`IdleTimes`] in ticks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Idle {
    tcp_established: u16,
    pub tcp_transitory: u16,
    udp: u16,
    icmp: u16,
    other: u16,
    /// Of what access lists deny, at most.
    pub denied: u16,
}

impl Idle {
    pub fn new(times: IdleTimes) -> Self {
        let IdleTimes {
            tcp_established,
            tcp_transitory,
            udp,
            icmp,
            other,
        } = times;
        Self {
            tcp_established: Tick::idle(tcp_established),
            tcp_transitory: Tick::idle(tcp_transitory),
            udp: Tick::idle(udp),
            icmp: Tick::idle(icmp),
            other: Tick::idle(other),
            denied: Tick::idle(DENIED),
        }
    }

    /// Of an entry with these fields in its key, made by a packet of this protocol; `transitory`, of TCP: a SYN, FIN or
    /// RST, or downlink.
    pub fn of(&self, shape: KeyFields, protocol: u8, transitory: bool) -> u16 {
        match protocol {
            _ if !shape.contains(KeyFields::TUPLE) => self.other,
            proto::TCP if transitory => self.tcp_transitory,
            proto::TCP => self.tcp_established,
            proto::UDP | proto::UDP_LITE => self.udp,
            proto::ICMP | proto::ICMPV6 => self.icmp,
            _ => self.other,
        }
    }
}

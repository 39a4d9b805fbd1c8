//! One thread's share of gNBs, UEs and data network, over one pair of links.
//!
//! A [`Shard`] sends on both sides of a user plane and checks all packets that leave it. Several shards, each
//! on a thread and a pair of links of its own, share the paths: each sends a range of them, and checks any, because
//! a user plane of several workers may let a packet out on another link than its share came in.
//!
//! The thread that polls a shard owns it. After [`Shard::new`] the packets' way allocates nothing.

use crate::gnb::{self, Kind, Received};
use crate::path::{Check, GTPU_PORT, Path, Wrong, datagram};
use crate::report::{Events, Totals};
use crate::station::{Family, Frame, IPV4, IPV6, LinkHeader, Station, StationConfig};
use crate::stream::Stream;
use crate::tracker::Tracker;
use crate::traffic::Traffic;
use crate::{Direction, Nanos, dn};
use std::ops::Range;
use std::sync::Arc;

/// Most frames taken from one side by one poll.
pub const RECEIVE_MOST: usize = 256;

/// A side of the user plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    /// Towards the gNBs: N3.
    Access,
    /// Towards the data network: N6.
    Core,
}

/// A pair of links to a user plane, whole Ethernet frames without frame check sequence.
pub trait FramePort {
    /// Makes room for a frame of `length` octets on `side` and calls `write`, which writes all of them (what they
    /// were before does not matter). False when there is no room: `write` was not called. A frame that was written
    /// will be sent, at the latest by the next [`flush`](FramePort::flush).
    fn send(&mut self, side: Side, length: usize, write: impl FnOnce(&mut [u8])) -> bool;

    /// Takes at most `most` frames that came out on `side`, calls `see` with each, and returns how many.
    fn receive(&mut self, side: Side, most: usize, see: impl FnMut(&[u8])) -> usize;

    /// Called at the end of each poll.
    fn flush(&mut self) {}
}

/// Parameters of a [`Shard`].
#[derive(Debug, Clone)]
pub struct ShardConfig {
    /// The gNBs. Their addresses are those of the paths.
    pub access: StationConfig,
    /// The data network's router and servers.
    pub core: StationConfig,
    /// The flows of all shards: a flow's number is its index here. At most 2^31.
    pub paths: Arc<[Path]>,
    /// The flows that this shard sends. Without flows it sends nothing, at any load.
    pub share: Range<u32>,
    /// The load that this shard offers.
    pub traffic: Traffic,
    /// By how much the user plane lowers the TTL of an inner packet: 1 for a router.
    pub hops: u8,
}

/// Why a shard cannot be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShardError {
    /// More than 2^31 paths, or a share that is not part of them.
    Share,
    /// The paths need a gateway that the station on this side does not have.
    NoGateway {
        /// The side.
        side: Side,
        /// IPv6 rather than IPv4.
        ipv6: bool,
    },
    /// A path's gNB address is not one of the station's.
    UnknownGnb {
        /// The path's index.
        path: usize,
    },
}

impl std::fmt::Display for ShardError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ShardError::Share => f.write_str("the share of a shard is not within its paths"),
            ShardError::NoGateway { side, ipv6 } => {
                let family = if *ipv6 { "IPv6" } else { "IPv4" };
                write!(
                    f,
                    "the station on side {side:?} has no {family} gateway, and paths need one"
                )
            }
            ShardError::UnknownGnb { path } => {
                write!(
                    f,
                    "the gNB address of path {path} is not an address of the access station"
                )
            }
        }
    }
}

impl std::error::Error for ShardError {}

/// One thread's share of the simulator.
#[derive(Debug)]
pub struct Shard {
    paths: Arc<[Path]>,
    gnb: Station,
    dn: Station,
    uplink: Stream,
    downlink: Stream,
    traffic: Traffic,
    running: bool,
    hops: u8,
    events: Events,
}

impl Shard {
    /// A shard that answers and checks, and sends no traffic yet.
    pub fn new(config: ShardConfig) -> Result<Shard, ShardError> {
        validate(&config)?;
        let ShardConfig {
            access,
            core,
            paths,
            share,
            traffic,
            hops,
        } = config;
        let stream = |direction| Stream::new(direction, paths.len() as u32, share.clone(), &traffic);
        let (uplink, downlink) = (stream(Direction::Uplink), stream(Direction::Downlink));
        let (gnb, dn) = (Station::new(access), Station::new(core));
        let events = Events::default();
        Ok(Shard {
            paths,
            gnb,
            dn,
            uplink,
            downlink,
            traffic,
            running: false,
            hops,
            events,
        })
    }

    /// Whether the user plane's MAC addresses are known, so that traffic can start.
    pub fn is_ready(&self) -> bool {
        self.gnb.is_ready() && self.dn.is_ready()
    }

    /// Traffic starts; false, and nothing happens, before the shard [is ready](Shard::is_ready).
    pub fn start(&mut self, now: Nanos) -> bool {
        self.running = self.is_ready();
        if self.running {
            let (uplink, downlink) = self.traffic.rates();
            self.uplink.start(uplink, now);
            self.downlink.start(downlink, now);
        }
        self.running
    }

    /// Continues at another rate (packets per second, both directions), without a jump.
    pub fn change_rate(&mut self, rate: u64, now: Nanos) {
        self.traffic.rate = rate;
        let (uplink, downlink) = self.traffic.rates();
        self.uplink.change_rate(uplink, now);
        self.downlink.change_rate(downlink, now);
    }

    /// Sends no more traffic. Packets in transit are still received; packets that were due and not sent stay so.
    pub fn stop(&mut self) {
        self.running = false;
    }

    /// Starts measuring delays anew, after a warm-up or for each interval of a live view.
    pub fn forget_latency(&mut self) {
        self.uplink.tracker.forget_latency();
        self.downlink.tracker.forget_latency();
    }

    /// Reads received packets, sends replies, sends packets that are due. Time stamps of packets are `now`.
    pub fn poll<P: FramePort>(&mut self, now: Nanos, port: &mut P) {
        port.receive(Side::Access, RECEIVE_MOST, |frame| self.see_access(now, frame));
        port.receive(Side::Core, RECEIVE_MOST, |frame| self.see_core(now, frame));
        self.gnb.poll(now);
        self.dn.poll(now);
        send_answers(&mut self.gnb, Side::Access, port);
        send_answers(&mut self.dn, Side::Core, port);
        if self.running {
            send_uplink(&mut self.uplink, now, &self.paths, &self.gnb, port);
            send_downlink(&mut self.downlink, now, &self.paths, &self.dn, port);
        }
        port.flush();
    }

    /// Each flow's counts, uplink and downlink.
    pub fn trackers(&self) -> (&Tracker, &Tracker) {
        (&self.uplink.tracker, &self.downlink.tracker)
    }

    /// A copy of all sums, to be merged with those of other shards. Some 100 KiB.
    pub fn totals(&self) -> Totals {
        let mut events = self.events;
        events.link_full = self.uplink.full + self.downlink.full;
        Totals {
            uplink: self.uplink.tracker.meter().clone(),
            downlink: self.downlink.tracker.meter().clone(),
            uplink_offered: self.uplink.schedule.offered(),
            downlink_offered: self.downlink.schedule.offered(),
            events,
        }
    }

    #[inline]
    fn see_access(&mut self, now: Nanos, frame: &[u8]) {
        let Some(frame) = self.gnb.accept(frame) else {
            self.events.not_for_us += 1;
            return;
        };
        let received = if is_ip(&frame) {
            gnb::receive(frame.rest)
        } else {
            None
        };
        match received {
            Some(Received { to, message, .. }) if message.kind == Kind::GPdu => {
                let seen = gnb::see(&self.paths, to, &message, Check::Exact { hops: self.hops });
                self.downlink.count(now, seen);
            }
            Some(received) => self.see_path_message(&frame, &received),
            None if self.gnb.handle(&frame) => self.events.answered += 1,
            None => self.events.unexpected += 1,
        }
    }

    #[inline]
    fn see_core(&mut self, now: Nanos, frame: &[u8]) {
        let Some(frame) = self.dn.accept(frame) else {
            self.events.not_for_us += 1;
            return;
        };
        let seen = if is_ip(&frame) {
            dn::see(&self.paths, frame.rest, self.hops)
        } else {
            Err(Wrong::Foreign)
        };
        match seen {
            Err(Wrong::Foreign) if self.dn.handle(&frame) => self.events.answered += 1,
            seen => self.uplink.count(now, seen),
        }
    }

    /// A GTP-U message that carries no user packet.
    #[cold]
    fn see_path_message(&mut self, frame: &Frame, received: &Received) {
        let Received {
            from,
            from_port,
            to,
            message,
        } = received;
        match message.kind {
            Kind::EchoRequest if self.gnb.owns(*to) => {
                self.events.echo_requests += 1;
                let response = gnb::echo_response(message.sequence);
                let packet = datagram((*to, GTPU_PORT), (*from, *from_port), &response);
                self.gnb.send_ip(frame.from, Family::of(*to), &packet);
            }
            Kind::EndMarker => self.events.end_markers += 1,
            Kind::ErrorIndication => self.events.error_indications += 1,
            _ => self.events.unexpected += 1,
        }
    }
}

/// Sends the uplink packets that are due.
fn send_uplink<P: FramePort>(stream: &mut Stream, now: Nanos, paths: &[Path], gnb: &Station, port: &mut P) {
    stream.send_due(now, paths, |path, stamp, inner| {
        let Some(link) = gnb.link(path.outer_family()).map(LinkHeader::octets) else {
            return false;
        };
        port.send(Side::Access, link.len() + path.uplink_length(inner), |frame| {
            write(frame, link, |packet| path.write_uplink(stamp, packet));
        })
    });
}

/// Sends the downlink packets that are due.
fn send_downlink<P: FramePort>(stream: &mut Stream, now: Nanos, paths: &[Path], dn: &Station, port: &mut P) {
    stream.send_due(now, paths, |path, stamp, inner| {
        let Some(link) = dn.link(path.inner_family()).map(LinkHeader::octets) else {
            return false;
        };
        port.send(Side::Core, link.len() + inner, |frame| {
            write(frame, link, |packet| path.write_downlink(stamp, packet));
        })
    });
}

#[inline]
fn write(frame: &mut [u8], link: &[u8], packet: impl FnOnce(&mut [u8]) -> Option<()>) {
    if let Some((head, rest)) = frame.split_at_mut_checked(link.len()) {
        head.copy_from_slice(link);
        let written = packet(rest);
        debug_assert!(written.is_some(), "sizes are bounded when a shard is made");
    }
}

#[inline]
fn is_ip(frame: &Frame) -> bool {
    matches!(frame.ethertype, IPV4 | IPV6)
}

fn send_answers<P: FramePort>(station: &mut Station, side: Side, port: &mut P) {
    while let Some(answer) = station.poll_transmit() {
        if !port.send(side, answer.len(), |frame| frame.copy_from_slice(&answer)) {
            station.put_back(answer);
            return;
        }
    }
}

fn validate(config: &ShardConfig) -> Result<(), ShardError> {
    let flows = config.paths.len();
    if flows > 1 << 31 || config.share.end as usize > flows {
        return Err(ShardError::Share);
    }
    let gateway = |station: &StationConfig, family| {
        station.gateway_mac.is_some()
            || match family {
                Family::V4 => station.gateway_ipv4.is_some(),
                Family::V6 => station.gateway_ipv6.is_some(),
            }
    };
    for (index, path) in config.paths.iter().enumerate() {
        let (outer, inner) = (path.outer_family(), path.inner_family());
        if !gateway(&config.access, outer) {
            return Err(ShardError::NoGateway {
                side: Side::Access,
                ipv6: outer == Family::V6,
            });
        }
        if !gateway(&config.core, inner) {
            return Err(ShardError::NoGateway {
                side: Side::Core,
                ipv6: inner == Family::V6,
            });
        }
        if !config.access.addresses.contains(&path.config().gnb.address) {
            return Err(ShardError::UnknownGnb { path: index });
        }
    }
    Ok(())
}

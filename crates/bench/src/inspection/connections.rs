//! The port of connections: each is a flow pair that opens, names its host, carries packets, and is followed by
//! another.

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::sync::Arc;

use flow::{Direction, PortId, WorkerId, cycles};
use worker::{Batch, Io};

use super::super::feed::{BUFFERS, Buf};
use super::super::frame::MeanFrames;
use super::super::rules::Identity;
use super::frames::{Frames, Kind, Step, step};

/// Connections at the same time of each active session.
pub const OF_A_SESSION: u32 = 4;
/// Frames of each direction that are made ahead.
const WINDOW: usize = 256;

/// What the port did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Packets given to the worker.
    pub given: u64,
    /// Packets that came out.
    pub sent: u64,
    /// Packets that the worker freed.
    pub freed: u64,
    /// Connections that ended.
    pub connections: u64,
    /// Ticks spent in making frames.
    pub port_ticks: u64,
}

/// A connection.
#[derive(Clone, Copy, Debug)]
struct Connection {
    /// Its session, by number.
    session: u32,
    kind: Kind,
    /// The number of the host that it names.
    host: u32,
    port: u16,
    /// How many of its packets have been made.
    made: u8,
}

/// Connections of a hundred by kind; the others are UDP without a host.
#[derive(Clone, Copy, Debug)]
pub struct Mix {
    /// TLS.
    pub tls: u32,
    /// HTTP/1.
    pub http: u32,
    /// HTTP/1 to a proxy.
    pub to_proxy: u32,
}

impl Mix {
    /// Mean frames of all its connections.
    pub fn frames(self) -> MeanFrames {
        let (mut frames, mut packets, mut octets) = (Frames::new(), [0; 2], [0; 2]);
        let identity = Identity {
            ue: Ipv4Addr::UNSPECIFIED,
            teid: 0,
        };
        let place = (0, identity);
        for kind in (0..100).map(|number| self.kind(number)) {
            for step in (0..step::COUNT).map(|made| Step::of(kind, made)) {
                let side = step.direction() as usize;
                packets[side] += 1;
                octets[side] += frames.make(step, place, 0, 1_024).octets as u64;
            }
        }
        MeanFrames::of(packets, octets)
    }

    fn kind(self, number: u32) -> Kind {
        match number % 100 {
            place if place < self.tls => Kind::Tls,
            place if place < self.tls + self.http => Kind::Http,
            place if place < self.tls + self.http + self.to_proxy => Kind::HttpToProxy,
            _ => Kind::Udp,
        }
    }
}

/// The port.
pub struct Connections {
    identities: Arc<[Identity]>,
    frames: Frames,
    mix: Mix,
    hosts: u32,
    /// Numbers the connections, for hosts and ports.
    next: u32,
    all: Vec<Connection>,
    /// Those whose next packet goes this way, by direction.
    waiting: [VecDeque<u32>; 2],
    free: VecDeque<Buf>,
    /// Frames that are made, and whose they are: the next one is made when this one was given.
    windows: [VecDeque<(Buf, u32)>; 2],
    counts: Counts,
    is_open: bool,
}

impl Connections {
    /// Connections of `active` sessions with these identities, which name `hosts` hosts.
    pub fn new(identities: Arc<[Identity]>, active: u32, hosts: u32, mix: Mix) -> Self {
        let spread = (identities.len() as u32 / active.max(1)).max(1);
        let mut port = Self {
            identities,
            frames: Frames::new(),
            mix,
            hosts,
            next: 0,
            all: Vec::new(),
            waiting: Default::default(),
            free: (0..BUFFERS).map(|_| Buf::new()).collect(),
            windows: Default::default(),
            counts: Counts::default(),
            is_open: false,
        };
        for number in 0..active * OF_A_SESSION {
            let session = number % active * spread;
            let mut connection = port.renewed(session);
            // They are not all at the same packet.
            connection.made = (number.wrapping_mul(0x9e37_79b1) >> 16) as u8 % step::COUNT;
            port.all.push(connection);
            port.wait(number);
        }
        port
    }

    /// Connections at a time.
    pub fn connections(&self) -> u32 {
        self.all.len() as u32
    }

    /// Lets packets come from now on.
    pub fn open(&mut self) {
        self.is_open = true;
    }

    /// What it did so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    fn renewed(&mut self, session: u32) -> Connection {
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        let drawn = number.wrapping_mul(0x9e37_79b1);
        Connection {
            session,
            kind: self.mix.kind(number),
            host: ((u64::from(drawn) * u64::from(self.hosts)) >> 32) as u32,
            port: 1_024 + (number % 60_000) as u16,
            made: 0,
        }
    }

    /// Enters a connection where its next packet goes.
    fn wait(&mut self, number: u32) {
        let Some(connection) = self.all.get(number as usize).copied() else {
            return;
        };
        if connection.made >= step::COUNT {
            self.counts.connections += 1;
            let renewed = self.renewed(connection.session);
            self.all[number as usize] = renewed;
            return self.waiting[Direction::Uplink as usize].push_back(number);
        }
        let direction = Step::of(connection.kind, connection.made).direction();
        self.waiting[direction as usize].push_back(number);
    }

    fn refill(&mut self, direction: Direction) {
        let before = cycles::now();
        let side = direction as usize;
        while self.windows[side].len() < WINDOW {
            let Some(number) = self.waiting[side].pop_front() else {
                break;
            };
            let Some(mut buf) = self.free.pop_front() else {
                self.waiting[side].push_front(number);
                break;
            };
            let connection = &mut self.all[number as usize];
            let what = Step::of(connection.kind, connection.made);
            connection.made += 1;
            let made = *connection;
            if let Some(identity) = self.identities.get(made.session as usize) {
                let place = (made.session, *identity);
                let frame = self.frames.make(what, place, made.host, made.port);
                buf.fill(PortId(side as u16), frame.contents, frame.octets);
            }
            self.windows[side].push_back((buf, number));
        }
        self.counts.port_ticks += cycles::now().wrapping_sub(before);
    }
}

impl Io for Connections {
    type Buf = Buf;

    fn ports(&self) -> usize {
        2
    }

    fn rx(&mut self, port: PortId, out: &mut Batch<Buf>) {
        let direction = match port.0 {
            0 => Direction::Uplink,
            _ => Direction::Downlink,
        };
        let side = direction as usize;
        if !self.is_open {
            return;
        }
        if self.windows[side].len() < out.room() {
            self.refill(direction);
        }
        while out.room() > 0 {
            let Some((buf, number)) = self.windows[side].pop_front() else {
                break;
            };
            self.counts.given += 1;
            self.wait(number);
            let _ = out.push(buf);
        }
    }

    fn tx(&mut self, _port: PortId, out: &mut Batch<Buf>) {
        let before = self.free.len();
        self.free.extend(out.drain());
        self.counts.sent += (self.free.len() - before) as u64;
    }

    fn alloc(&mut self) -> Option<Buf> {
        let mut buf = self.free.pop_front()?;
        buf.renew();
        Some(buf)
    }

    fn hand_over(&mut self, _to: WorkerId, _out: &mut Batch<Buf>) {}

    fn inbox_len(&self) -> usize {
        0
    }

    fn inbox(&mut self, _out: &mut Batch<Buf>) {}

    fn free(&mut self, out: &mut Batch<Buf>) {
        let before = self.free.len();
        self.free.extend(out.drain());
        self.counts.freed += (self.free.len() - before) as u64;
    }
}

#[cfg(test)]
mod tests {
    use packet::PacketBuf;

    use super::super::super::settings::WorkerOf;
    use super::super::super::world::identities;
    use super::*;

    /// The frames of a figure are those that the port gives.
    #[test]
    fn the_mean_frames_of_a_mix_are_those_that_come() {
        let mix = Mix {
            tls: 70,
            http: 15,
            to_proxy: 0,
        };
        let all = identities(100, WorkerOf { id: 0, workers: 1 }).unwrap();
        let mut port = Connections::new(all, 100, 1_000, mix);
        port.open();
        let (mut packets, mut octets) = ([0; 2], [0; 2]);
        while port.counts().connections < 4_000 {
            for side in [0, 1] {
                let mut batch = Batch::new();
                port.rx(PortId(side), &mut batch);
                for buf in batch.iter() {
                    packets[usize::from(side)] += 1;
                    octets[usize::from(side)] += buf.len() as u64;
                }
                port.free(&mut batch);
            }
        }
        let (found, said) = (MeanFrames::of(packets, octets), mix.frames());
        assert!(
            (found.uplink_share - said.uplink_share).abs() < 0.005,
            "{found:?} {said:?}"
        );
        for side in [0, 1] {
            let ratio = found.octets[side] / said.octets[side];
            assert!((ratio - 1.0).abs() < 0.01, "{found:?} {said:?}");
        }
        assert!((said.mean() - 683.0).abs() < 1.0, "{said:?}");
    }
}

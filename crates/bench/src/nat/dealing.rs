//! Two workers, and downlink packets that come to the one whose bucket that of their block is, as from a NIC that
//! hashes destination address and port without the bits of a block: how many are handed over.

use std::collections::VecDeque;

use ::nat::blocks::bucket_of_block;
use flow::{Bucket, Direction, Nanos, PortId, WorkerId, bucket};
use packet::PacketBuf;
use rules::worker_selection::WorkerSelectionChange;
use worker::{BURST, Batch, Command, Io, Worker};

use super::super::error::BenchError;
use super::super::feed::{BUFFERS, Buf};
use super::super::model::Model;
use super::super::rules::Identity;
use super::super::settings::WorkerOf;
use super::super::world::{identities, tell};
use super::arguments::Arguments;
use super::frames::{End, Frames};
use super::outcome::{HandOvers, Kind};
use super::pool::{Blocks, network};
use super::side::{Sessions, model, worker_with};

const WORKERS: u16 = 2;
/// Downlink packets to each session.
const PACKETS: u64 = 4;

/// A port that receives the frames that it is given.
struct Queue {
    free: Vec<Buf>,
    waiting: [VecDeque<Buf>; 2],
    /// Sent frames of UEs.
    left: Vec<Vec<u8>>,
    /// Packets to UEs that came out.
    sent: u64,
    handed_over: u64,
}

impl Queue {
    fn new() -> Self {
        Self {
            free: (0..BUFFERS).map(|_| Buf::new()).collect(),
            waiting: Default::default(),
            left: Vec::new(),
            sent: 0,
            handed_over: 0,
        }
    }
}

impl Io for Queue {
    type Buf = Buf;

    fn ports(&self) -> usize {
        2
    }

    fn rx(&mut self, port: PortId, out: &mut Batch<Buf>) {
        let waiting = &mut self.waiting[usize::from(port.0) % 2];
        while out.room() > 0
            && let Some(buf) = waiting.pop_front()
        {
            let _ = out.push(buf);
        }
    }

    fn tx(&mut self, port: PortId, out: &mut Batch<Buf>) {
        for buf in out.drain() {
            match port.0 {
                0 => self.sent += 1,
                _ => self.left.push(buf.data().to_vec()),
            }
            self.free.push(buf);
        }
    }

    fn alloc(&mut self) -> Option<Buf> {
        self.free.pop()
    }

    fn hand_over(&mut self, _to: WorkerId, out: &mut Batch<Buf>) {
        for buf in out.drain() {
            self.handed_over += 1;
            self.free.push(buf);
        }
    }

    fn inbox_len(&self) -> usize {
        0
    }

    fn inbox(&mut self, _out: &mut Batch<Buf>) {}

    fn free(&mut self, out: &mut Batch<Buf>) {
        self.free.extend(out.drain());
    }
}

/// One of the workers.
struct Dealt {
    worker: Worker<Queue>,
    frames: Frames,
    now: Nanos,
}

/// The sessions of both workers, numbered by worker, then by session.
struct All {
    own: [Vec<Identity>; 2],
    blocks: Blocks,
    each: u32,
}

impl All {
    fn of(&self, worker: usize) -> &[::nat::pools::BlockId] {
        let (first, each) = (worker * self.each as usize, self.each as usize);
        self.blocks.ids.get(first..first + each).unwrap_or_default()
    }
}

impl Dealt {
    fn new(arguments: &Arguments, all: &All, id: u16) -> Result<Self, BenchError> {
        let kind = Kind {
            has_nat: true,
            is_tuple: false,
        };
        let model = Model {
            sessions: all.each,
            active: all.each,
            ..model(arguments, kind)
        };
        let network = network(arguments, true)?;
        let own = &all.own[usize::from(id)];
        let sessions = Sessions {
            network: &network,
            identities: own,
            blocks: Some(all.of(id.into())),
        };
        let of = WorkerOf { id, workers: WORKERS };
        let (mut worker, mut control) = worker_with((&model, of), &sessions, all.each, Queue::new())?;
        let ues = all.own.iter().flatten();
        for (block, identity) in all.blocks.ids.iter().zip(ues) {
            let bucket = Some(bucket::of_ipv4(identity.ue.octets()));
            let change = WorkerSelectionChange::PortBlock {
                block: *block,
                bucket,
            };
            tell(&mut worker, &mut control, Command::SelectWorker(change))?;
        }
        Ok(Self {
            worker,
            frames: Frames::new(&model, own.as_slice().into()),
            now: Nanos(1),
        })
    }

    /// Gives the worker a packet, and lets it work now and then. One of a data network is for `end`, whichever session
    /// that is of.
    fn give(&mut self, session: u32, direction: Direction, end: End) {
        let port = self.worker.io_mut();
        if let Some(mut buf) = port.free.pop() {
            self.frames.make(&mut buf, session, 0, direction, end);
            port.waiting[direction as usize].push_back(buf);
        }
        if port.waiting[direction as usize].len() >= BURST {
            self.finish();
        }
    }

    fn finish(&mut self) {
        for _ in 0..8 {
            self.now = Nanos(self.now.0 + 100_000);
            self.worker.poll(self.now);
        }
    }

    /// The public ends of all sessions' first ports, by session.
    fn public_ends(&mut self, sessions: u32) -> Result<Vec<End>, BenchError> {
        let mut ends = Vec::new();
        for session in 0..sessions {
            self.give(session, Direction::Uplink, End::default());
            self.finish();
            let left = std::mem::take(&mut self.worker.io_mut().left);
            let end = left
                .first()
                .and_then(|frame| self.frames.end(frame, Direction::Uplink));
            let lost = || BenchError(format!("the packet of session {session} did not come out"));
            ends.push(end.ok_or_else(lost)?);
        }
        Ok(ends)
    }
}

/// Deals packets to the sessions of both workers.
///
/// # Errors
/// When memory runs out.
pub fn measure(arguments: &Arguments) -> Result<HandOvers, BenchError> {
    let each = arguments.sessions / 2;
    let mut own = Vec::new();
    for id in 0..WORKERS {
        let of = WorkerOf { id, workers: WORKERS };
        own.push(identities(each, of)?.to_vec());
    }
    let own = <[Vec<Identity>; 2]>::try_from(own).map_err(|_| BenchError("two workers".into()))?;
    let network = network(arguments, true)?;
    let blocks = Blocks::draw(&network, &own.concat())?;
    let all = All { own, blocks, each };
    let mut workers = [Dealt::new(arguments, &all, 0)?, Dealt::new(arguments, &all, 1)?];
    let ends = [workers[0].public_ends(each)?, workers[1].public_ends(each)?];
    let pools = network.nat().pools();
    for _ in 0..PACKETS {
        for (end, id) in ends.iter().flatten().zip(&all.blocks.ids) {
            let block = pools.block(*id).map(|(_, block)| block);
            let bucket = block.map_or(Bucket::of_rss_hash(0), bucket_of_block);
            let worker = &mut workers[bucket.index() % usize::from(WORKERS)];
            worker.give(0, Direction::Downlink, *end);
        }
    }
    workers.iter_mut().for_each(Dealt::finish);
    let mut found = HandOvers {
        in_bucket: all.blocks.share_in_bucket(),
        packets: PACKETS * u64::from(each) * 2,
        handed_over: 0,
        sent: 0,
    };
    for dealt in &mut workers {
        let port = dealt.worker.io_mut();
        found.handed_over += port.handed_over;
        found.sent += port.sent;
    }
    Ok(found)
}

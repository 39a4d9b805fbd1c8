//! Model Q: UEs of equal rates that add up to 40 Gbit/s, each with two queues; packets for all of them in turn, in an
//! order that was drawn once.

use flow::Nanos;
use flow::meter::{Colour, Rate};
use tm::{
    Arrival, Class, Departure, Ecn, Limits, LossReason, Manager, NodeId, NodeSpec, QueueId, QueueLine,
    QueueSpec, Shaper, Slot, TmError, UeId, UeSpec,
};

/// What all UEs may send together, in kbit/s.
pub const ALL_KBIT: u64 = 40_000_000;
/// Packets that come and leave together.
pub const BURST: usize = 32;
/// The longest packet.
pub const LARGEST: u16 = 1_518;
/// Slices, each with a shaper of a quarter more than its UEs may send.
const SLICES: u64 = 8;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// Queues, two for each UE.
    pub queues: u32,
    /// The length of all packets.
    pub octets: u16,
    /// What is offered, in thousandths of what UEs may send.
    pub load: u32,
    /// Packets that are in each queue at the beginning.
    pub filled: u32,
}

/// Two queues of a UE, by their class.
pub const CLASSES: [u8; 2] = [1, 4];

/// A manager under a load, on simulated time.
pub struct Load {
    manager: Manager,
    port: NodeId,
    shape: Shape,
    order: Vec<QueueLine>,
    next: usize,
    /// In picoseconds.
    now: u64,
    out: [Departure; 2 * BURST],
    /// Packets offered.
    pub offered: u64,
    /// Packets that left.
    pub left: u64,
    /// Packets refused or lost.
    pub lost: u64,
}

/// A permutation that is the same in each run.
pub fn shuffle<T>(items: &mut [T]) {
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    for at in (1..items.len()).rev() {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        items.swap(at, (random % (at as u64 + 1)) as usize);
    }
}

/// The rate of a UE, in kbit/s.
pub const fn ue_kbit(ues: u32) -> u64 {
    ALL_KBIT / ues as u64
}

/// A manager with a port, slices and UEs below them, without packets.
///
/// # Errors
/// When there is no memory.
pub fn manager(queues: u32, packets: u32) -> Result<(Manager, NodeId, Vec<UeId>), TmError> {
    let ues = queues / 2;
    let limits = Limits {
        pool: u64::from(packets) * u64::from(LARGEST),
        shapers: 0,
        nodes: 16,
        ..Limits::new(ues, queues, packets)
    };
    let mut manager = Manager::new(limits)?;
    let node = |parent, rate| NodeSpec {
        parent,
        shaper: Shaper {
            rate: Rate::from_kbit(rate),
            burst: 256 * 1_024,
        },
        weight: 1,
        overhead: 0,
    };
    let port = manager.add_node(node(None, ALL_KBIT * 5 / 4))?;
    let slices: Result<Vec<NodeId>, TmError> = (0..SLICES)
        .map(|_| manager.add_node(node(Some(port), ALL_KBIT * 5 / 4 / SLICES)))
        .collect();
    let slices = slices?;
    let mut ids = Vec::with_capacity(ues as usize);
    for number in 0..ues as usize {
        let ue = manager.add_ue(UeSpec {
            node: slices[number % slices.len()],
            shaper: Shaper {
                rate: Rate::from_kbit(ue_kbit(ues)),
                burst: 2 * u32::from(LARGEST),
            },
        })?;
        for class in CLASSES {
            manager.add_queue(ue, &QueueSpec::new(Class::new(class), 8 * u32::from(LARGEST)))?;
        }
        ids.push(ue);
    }
    Ok((manager, port, ids))
}

impl Load {
    /// Makes the manager, and fills the queues.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn new(shape: Shape) -> Result<Self, TmError> {
        let packets = (shape.queues * (shape.filled + 1)).max(262_144);
        let (manager, port, ues) = manager(shape.queues, packets)?;
        let queues = |place| ues.iter().map(move |ue| QueueId { ue: *ue, place });
        let lines = queues(0)
            .chain(queues(1))
            .filter_map(|queue| manager.line_of(queue));
        let mut order: Vec<QueueLine> = lines.collect();
        shuffle(&mut order);
        let mut load = Self {
            manager,
            port,
            shape,
            order,
            next: 0,
            now: 1_000_000,
            out: [Departure::NONE; 2 * BURST],
            offered: 0,
            left: 0,
            lost: 0,
        };
        for _ in 0..u64::from(shape.queues) * u64::from(shape.filled) / BURST as u64 {
            load.arrive();
        }
        Ok(load)
    }

    /// Offers this many packets, and takes what may leave while they come. Returns how many left.
    pub fn offer(&mut self, packets: u64) -> u64 {
        let before = self.left;
        // A kbit/s is a picosecond of a thousandth of a nanosecond: octets x 8 bits at 40 bits a nanosecond.
        let each = u64::from(self.shape.octets) * 8_000 * 1_000_000 / ALL_KBIT;
        let step = each * BURST as u64 * 1_000 / u64::from(self.shape.load);
        for _ in 0..packets / BURST as u64 {
            self.now += step;
            self.arrive();
            self.depart();
        }
        self.left - before
    }

    /// Queues.
    pub const fn queues(&self) -> u32 {
        self.shape.queues
    }

    /// Packets that are held.
    pub const fn held(&self) -> u32 {
        self.manager.packets()
    }

    #[inline]
    fn arrive(&mut self) {
        if self.next + BURST > self.order.len() {
            self.next = 0;
        }
        let queues = &self.order[self.next..self.next + BURST];
        self.next += BURST;
        // In the burst itself, as a worker asks for them.
        queues
            .iter()
            .for_each(|queue| self.manager.prefetch_queue(*queue));
        queues.iter().for_each(|queue| self.manager.prefetch_tail(*queue));
        self.manager.prefetch_rooms(BURST);
        for queue in queues {
            let arrival = Arrival {
                queue: *queue,
                octets: self.shape.octets,
                colour: Colour::Green,
                ecn: Ecn::NotEct,
            };
            let answer: Result<Slot, LossReason> = self.manager.enqueue_at(&arrival, Nanos(self.now / 1_000));
            self.lost += u64::from(answer.is_err());
        }
        self.offered += BURST as u64;
    }

    #[inline]
    fn depart(&mut self) {
        let now = Nanos(self.now / 1_000);
        loop {
            let count = self.manager.dequeue(self.port, now, &mut self.out);
            self.left += count as u64;
            if count < self.out.len() {
                return;
            }
        }
    }
}

//! The queues of a started port: each is one thread's, and moves a burst per foreign call.

use std::cell::Cell;
use std::marker::PhantomData;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use dpdk_sys as sys;

use super::device::Device;
use super::sockets::{FilterInstruction, Ring, SEGMENTS_MAX, Sender, set_program};
use super::urgent::{Chooser, Sorting, UrgentQueues};
use crate::burst::{BURST_MAX, Burst};
use crate::error::Errno;
use crate::ring::RawRing;

/// The queues of a started port, by number. Each goes to the worker that polls it.
#[derive(Debug)]
pub struct Queues {
    /// Receive queues.
    pub rx: Vec<RxQueue>,
    /// Send queues.
    pub tx: Vec<TxQueue>,
}

/// What may be sent by a port.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sends {
    /// The most segments of a packet; 65,535 for any number. Drivers that say nothing, or 0, have no bound.
    pub most_segments: u16,
    /// Whether packets may ask for their UDP checksums to be filled in.
    pub fills_udp_checksums: bool,
}

/// A receive queue. It may be given to another thread, but is used by one at a time.
#[derive(Debug)]
pub struct RxQueue {
    side: RxSide,
    /// The ring beside it, until a program chooses what comes there.
    urgent: Option<Beside>,
    /// Of a memory port: where packets come in.
    ring: Option<Arc<RawRing>>,
    /// See [`Traits::knows_waiting`].
    knows_waiting: bool,
    queue: u16,
    leaves_checksums: bool,
    _not_sync: PhantomData<Cell<()>>,
}

/// A ring beside a receive queue.
#[derive(Debug)]
pub(super) struct Beside {
    pub(super) ring: Box<Ring>,
    /// Where the program goes.
    pub(super) chooser: Chooser,
    /// What became of it, of the port.
    pub(super) sorting: Arc<Sorting>,
}

#[derive(Debug)]
enum RxSide {
    Driver(Arc<Device>),
    Socket(Box<Ring>),
}

/// A send queue. It may be given to another thread, but is used by one at a time.
#[derive(Debug)]
pub struct TxQueue {
    side: TxSide,
    queue: u16,
    sends: Sends,
    _not_sync: PhantomData<Cell<()>>,
}

#[derive(Debug)]
enum TxSide {
    Driver(Arc<Device>),
    Socket(Box<Sender>),
}

impl RxQueue {
    /// Adds received packets to the end of the burst, as many as there are and fit; returns how many. Never waits.
    ///
    /// Start with an empty burst: some drivers give nothing when fewer than 8 packets fit.
    #[inline]
    pub fn rx_burst(&mut self, burst: &mut Burst) -> usize {
        self.rx_burst_limited(burst, BURST_MAX)
    }

    /// As [`RxQueue::rx_burst`], but takes at most `limit` packets.
    #[inline]
    pub fn rx_burst_limited(&mut self, burst: &mut Burst, limit: usize) -> usize {
        let port = match &mut self.side {
            RxSide::Driver(device) => device.id,
            RxSide::Socket(ring) => return ring.receive(burst, limit),
        };
        // The bound makes the conversion exact.
        let (limit, queue) = (limit.min(BURST_MAX) as u16, self.queue);
        // SAFETY: the port is started and has this queue, and the exclusive borrow of the queue's only handle keeps
        // other threads out. The driver stores at most `room` chains that it gives up.
        unsafe { burst.fill(|slots, room| sys::shim_rx_burst(port, queue, slots, room.min(limit)).into()) }
    }

    /// What is readable while there are packets to receive, here or in the queue beside it, of ports that have it:
    /// those of packet sockets.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let own = match &self.side {
            RxSide::Driver(_) => None,
            RxSide::Socket(ring) => Some(ring.fd()),
        };
        let beside = self.urgent.as_ref().map(|beside| beside.ring.fd());
        own.into_iter().chain(beside)
    }

    /// Whether there is a packet to receive, as far as that is known without receiving it: of packet sockets.
    #[inline]
    pub fn has_packets(&self) -> bool {
        match &self.side {
            RxSide::Driver(_) => true,
            RxSide::Socket(ring) => ring.has_packets(),
        }
    }

    /// Lets a program of classic BPF say to which queue of the port each frame comes from now on, and gives the queue
    /// beside this one ([`PortConfig::urgent_queues`](super::PortConfig::urgent_queues)); `None` where there is none,
    /// or where the program `sorts` no packet out.
    ///
    /// The program gives a number: 0 to n - 1 for the n queues, n to 2n - 1 for those beside them. Where the port
    /// [places frames itself](Self::is_placed_by_port) it is 0, or 1 for the queue beside. Its offsets are from the
    /// frame's layer 3 header on, behind one VLAN tag at most. It is that of the port: each of its queues may set it.
    ///
    /// # Errors
    ///
    /// The kernel's, when it does not take the program. All frames come to the first queue then, or to those where the
    /// port places them.
    pub fn choose_queues(
        &mut self,
        program: &[FilterInstruction],
        sorts: bool,
    ) -> Result<Option<RxQueue>, Errno> {
        let Some(Beside {
            mut ring,
            chooser,
            sorting,
        }) = self.urgent.take()
        else {
            return Ok(None);
        };
        let done = match &chooser {
            Chooser::Group => set_program(&ring, program),
            Chooser::Xdp(_) if !sorts => Ok(()),
            Chooser::Xdp(entry) => {
                // What has come in before the entry was on the interface.
                ring.skip();
                entry.choose(program)
            }
        };
        sorting.note(match done {
            Err(errno) => UrgentQueues::Refused(errno),
            Ok(()) if sorts => UrgentQueues::Sorted,
            Ok(()) => UrgentQueues::TooMany,
        });
        done?;
        Ok(sorts.then(|| RxQueue {
            side: RxSide::Socket(ring),
            urgent: None,
            ring: None,
            knows_waiting: false,
            queue: self.queue,
            leaves_checksums: false,
            _not_sync: PhantomData,
        }))
    }

    /// Whether the port itself says to which of its queues a frame comes, whatever a program
    /// [chooses](Self::choose_queues).
    pub fn is_placed_by_port(&self) -> bool {
        matches!(self.side, RxSide::Driver(_))
    }

    /// There is no queue beside this one, and none will be.
    pub(super) fn without_urgent(&mut self) {
        self.urgent = None;
    }

    /// Has a queue beside this one.
    pub(super) fn with_urgent(&mut self, beside: Beside) {
        self.urgent = Some(beside);
    }

    /// Whether more than `packets` wait to be received; `None` where the driver does not tell.
    #[inline]
    pub fn has_more_than(&self, packets: u16) -> Option<bool> {
        match (&self.side, &self.ring) {
            (RxSide::Socket(_), _) => None,
            (_, Some(ring)) => Some(ring.count() > packets.into()),
            (RxSide::Driver(_), None) if !self.knows_waiting => None,
            (RxSide::Driver(device), None) => {
                // SAFETY: the port is started and has this queue, whose only handle this is.
                let found = unsafe { sys::shim_rx_has_more_than(device.id, self.queue, packets) };
                (found >= 0).then_some(found == 1)
            }
        }
    }

    /// Whether packets may come that are [several as one](crate::Mbuf::coalesced).
    pub fn coalesces(&self) -> bool {
        matches!(self.side, RxSide::Socket(_))
    }

    /// Whether packets may come whose TCP or UDP checksum their sender has left to a NIC, and nothing says which: the
    /// sum of the pseudo header is in its place. So they do by AF_XDP from other parts of the kernel, as by a veth.
    pub fn leaves_checksums(&self) -> bool {
        self.leaves_checksums
    }

    pub(super) fn of_socket(ring: Ring, urgent: Option<Beside>, queue: u16) -> RxQueue {
        RxQueue {
            side: RxSide::Socket(Box::new(ring)),
            urgent,
            ring: None,
            knows_waiting: false,
            queue,
            leaves_checksums: false,
            _not_sync: PhantomData,
        }
    }

    /// The queue's number on its port.
    pub fn queue(&self) -> u16 {
        self.queue
    }
}

impl TxQueue {
    /// Sends packets from the front of the burst; returns how many. What the queue has no room for stays in the
    /// burst: the caller tries again or drops it. Never waits.
    ///
    /// Some drivers hold sent packets back until they need the descriptors, so buffers come home late.
    #[inline]
    pub fn tx_burst(&mut self, burst: &mut Burst) -> usize {
        let port = match &mut self.side {
            TxSide::Driver(device) => device.id,
            TxSide::Socket(sender) => return sender.send(burst),
        };
        // SAFETY: the port is started and has this queue, and the exclusive borrow of the queue's only handle keeps
        // other threads out. The driver takes over as many packets, from the first on, as it returns.
        unsafe { burst.take_front(|slots, len| sys::shim_tx_burst(port, self.queue, slots, len).into()) }
    }

    /// The most segments of a packet that is sent; 65,535: any number. What has more must not be sent.
    #[inline]
    pub fn most_segments(&self) -> u16 {
        self.sends.most_segments
    }

    /// Whether packets may ask for their UDP checksums ([`flags::TX_UDP_CKSUM`](crate::flags::TX_UDP_CKSUM)). One that
    /// asks a queue which does not leaves with a wrong checksum.
    #[inline]
    pub fn fills_udp_checksums(&self) -> bool {
        self.sends.fills_udp_checksums
    }

    pub(super) fn of_socket(sender: Sender, queue: u16) -> TxQueue {
        TxQueue {
            side: TxSide::Socket(Box::new(sender)),
            queue,
            sends: Sends {
                most_segments: SEGMENTS_MAX,
                fills_udp_checksums: false,
            },
            _not_sync: PhantomData,
        }
    }

    /// The queue's number on its port.
    pub fn queue(&self) -> u16 {
        self.queue
    }
}

/// What the queues of a driver's port have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct Traits {
    /// See [`RxQueue::leaves_checksums`].
    pub(super) leaves_checksums: bool,
    /// What may be sent.
    pub(super) sends: Sends,
    /// Whether the driver tells soon how many packets wait.
    pub(super) knows_waiting: bool,
}

impl Queues {
    /// The handles of all queues of a driver's port that was just started, which it does once.
    pub(super) fn of_driver(device: &Arc<Device>, rx_queues: u16, tx_queues: u16, traits: Traits) -> Queues {
        let rings = device.control().rings.clone();
        let rx = |queue| RxQueue {
            side: RxSide::Driver(device.clone()),
            urgent: None,
            ring: rings.get(usize::from(queue)).cloned(),
            knows_waiting: traits.knows_waiting,
            queue,
            leaves_checksums: traits.leaves_checksums,
            _not_sync: PhantomData,
        };
        let tx = |queue| TxQueue {
            side: TxSide::Driver(device.clone()),
            queue,
            sends: traits.sends,
            _not_sync: PhantomData,
        };
        Queues {
            rx: (0..rx_queues).map(rx).collect(),
            tx: (0..tx_queues).map(tx).collect(),
        }
    }
}

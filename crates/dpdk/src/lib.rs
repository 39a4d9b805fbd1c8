//! A safe layer over the distribution's DPDK.
//!
//! Two rules keep it safe and fast:
//!
//! - **What exists is owned.** [`Eal`] is proof that DPDK runs; [`Mempool`], [`Port`] and the queues keep what
//!   they rely on alive; an [`Mbuf`] or a [`Burst`] of them owns its buffers and gives them back when dropped.
//! - **One foreign call per burst.** [`RxQueue::rx_burst`], [`TxQueue::tx_burst`] and the rings move up to
//!   [`BURST_MAX`] packets at a time, and the fields of a buffer are read in place.
//!
//! A queue or a ring end belongs to one thread at a time: it is `Send`, so that it can be given to its worker,
//! but not `Sync`, and its bursts take `&mut self`. Control (open, start, statistics) is for the thread that
//! sets things up; DPDK's control calls on one port are serialised here.
//!
//! A kernel interface can be a port without DPDK's drivers, by packet sockets of our own: what they report of a frame
//! goes into the fields that DPDK has for it. Otherwise this crate knows nothing of what is in a packet, and it spawns
//! no thread (EAL has one for interrupts). Beside DPDK's memory there is the process's allocator ([`Allocator`]), whose
//! memory can be prefaulted ([`AllocatorPrefault`]). DPDK's log lines of a call that failed are the reason in its
//! [`Error`].

mod allocator;
mod allocator_prefault;
mod burst;
mod cpu;
mod eal;
mod error;
mod lcore;
mod log;
mod mbuf;
mod mempool;
mod port;
mod red;
mod ring;
mod sched;
mod sockets;
pub mod testing;

pub use allocator::Allocator;
pub use allocator_prefault::AllocatorPrefault;
pub use burst::{BURST_MAX, Burst, Drain};
pub use cpu::{on_cpu, pin_current_thread, thread_cpus};
pub use eal::{Eal, EalBuilder, PciAddress, tsc};
pub use error::{Errno, Error};
pub use lcore::Registration;
pub use log::{LogLevel, LogSink};
pub use mbuf::{Coalesced, HEADROOM, Mbuf, Segments, TxLengths, flags};
pub use mempool::{Mempool, PoolConfig};
pub use port::{
    Capabilities, FilterInstruction, FlowRule, Link, MemoryPeer, MemorySpec, Packets, Port, PortConfig,
    PortSpec, PortStats, Queues, RssConfig, RssFields, RssStatus, RxQueue, SpreadRule, TxQueue, UrgentQueues,
};
pub use red::{Red, RedConfig, RedOutcome};
pub use ring::{Consumer, MultiProducer, Producer, mpsc, mpsc_on, spsc};
pub use sched::{Sched, SchedConfig};
pub use sockets::{clear_error, xdp_sockets};

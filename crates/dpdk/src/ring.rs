//! Bounded queues of packets between threads, without locks: `rte_ring`. One thread takes; one ([`spsc`]) or many
//! ([`mpsc`]) put. A full ring never waits: what does not fit stays with the sender.

use std::cell::Cell;
use std::ffi::CString;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use dpdk_sys as sys;

use crate::burst::Burst;
use crate::eal::Eal;
use crate::error::{Errno, Error};

/// The most packets that a ring may hold.
const CAPACITY_MAX: u32 = 1 << 24;

/// The ring itself; freed, with what is in it, when the last end is dropped.
#[derive(Debug)]
pub(crate) struct RawRing(NonNull<sys::rte_ring>);

// SAFETY: a ring is made to be reached from several threads. That each single-threaded end has one user at a time
// is kept by the types of the ends.
unsafe impl Send for RawRing {}
// SAFETY: as for Send.
unsafe impl Sync for RawRing {}

impl RawRing {
    /// Makes a ring for exactly `capacity` packets, with one consumer, on a NUMA node (None: any).
    pub(crate) fn new(
        _eal: &Eal,
        capacity: u32,
        many_producers: bool,
        node: Option<u16>,
    ) -> Result<RawRing, Error> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        if !(1..=CAPACITY_MAX).contains(&capacity) {
            return Err(Error::config(
                "ring capacity",
                capacity,
                format!("1 to {CAPACITY_MAX} packets"),
            ));
        }
        let name = format!("sluice{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let name = CString::new(name).expect("digits and letters have no NUL");
        let producers = if many_producers {
            0
        } else {
            sys::SHIM_RING_F_SP_ENQ
        };
        let flags = sys::SHIM_RING_F_SC_DEQ | sys::SHIM_RING_F_EXACT_SZ | producers;
        let socket = node.map_or(-1, i32::from);
        // SAFETY: EAL runs; the name is NUL-terminated and copied. Socket -1 is "any".
        let (ring, log) =
            crate::log::captured(|| unsafe { sys::shim_ring_create(name.as_ptr(), capacity, socket, flags) });
        let what = || format!("ring for {capacity} packets");
        let ring = NonNull::new(ring).ok_or_else(|| Error::Resource {
            what: what(),
            errno: Errno::last(),
            log,
        })?;
        Ok(RawRing(ring))
    }

    pub(crate) fn as_ptr(&self) -> *mut sys::rte_ring {
        self.0.as_ptr()
    }

    /// Puts packets in from the front of the burst.
    ///
    /// # Safety
    ///
    /// No other thread does so at the same time, unless the ring was made for many producers.
    #[inline]
    unsafe fn enqueue(&self, burst: &mut Burst) -> usize {
        // SAFETY: the ring is alive; the slots hold `len` owned packets, of which the ring takes over as many as
        // the call returns. The caller keeps the number of producers.
        unsafe {
            burst.take_front(|slots, len| {
                sys::shim_ring_enqueue_burst(self.as_ptr(), slots, len.into()) as usize
            })
        }
    }

    /// Takes packets out, to the end of the burst.
    ///
    /// # Safety
    ///
    /// No other thread does so at the same time.
    #[inline]
    unsafe fn dequeue(&self, burst: &mut Burst) -> usize {
        // SAFETY: the ring is alive and gives at most `room` packets, which it owned. The caller is the consumer.
        unsafe {
            burst.fill(|slots, room| sys::shim_ring_dequeue_burst(self.as_ptr(), slots, room.into()) as usize)
        }
    }

    #[inline]
    pub(crate) fn count(&self) -> usize {
        // SAFETY: the ring is alive; the count may be read by anyone.
        unsafe { sys::shim_ring_count(self.as_ptr()) as usize }
    }
}

impl Drop for RawRing {
    fn drop(&mut self) {
        let mut left = Burst::new();
        // SAFETY: this is the last reference, so no other thread takes.
        while unsafe { self.dequeue(&mut left) } > 0 {
            left.clear();
        }
        // SAFETY: no end is left, and a port that used the ring is closed (it held a reference).
        unsafe { sys::rte_ring_free(self.as_ptr()) };
    }
}

/// A ring for one sending and one taking thread. `capacity`: packets, 1 to 2^24.
///
/// # Errors
///
/// [`Error::Config`] for a capacity out of bounds, [`Error::Resource`] when EAL's memory does not hold it.
pub fn spsc(eal: &Eal, capacity: u32) -> Result<(Producer, Consumer), Error> {
    let ring = Arc::new(RawRing::new(eal, capacity, false, None)?);
    // SAFETY: the ring is new: these are its only ends.
    Ok(unsafe { (Producer::new(ring.clone()), Consumer::new(ring)) })
}

/// A ring for any number of sending threads and one taking thread. `capacity`: packets, 1 to 2^24.
///
/// # Errors
///
/// As for [`spsc`].
pub fn mpsc(eal: &Eal, capacity: u32) -> Result<(MultiProducer, Consumer), Error> {
    mpsc_on(eal, capacity, None)
}

/// As [`mpsc`], in memory of this NUMA node where EAL has huge pages of it; otherwise of the node that the calling
/// thread runs on.
///
/// # Errors
///
/// As for [`spsc`].
pub fn mpsc_on(eal: &Eal, capacity: u32, node: Option<u16>) -> Result<(MultiProducer, Consumer), Error> {
    let ring = Arc::new(RawRing::new(eal, capacity, true, node)?);
    // SAFETY: the ring is new: this is its only consumer.
    Ok((MultiProducer { ring: ring.clone() }, unsafe {
        Consumer::new(ring)
    }))
}

/// The sending end of a ring that has only this one.
#[derive(Debug)]
pub struct Producer {
    ring: Arc<RawRing>,
    _not_sync: PhantomData<Cell<()>>,
}

impl Producer {
    /// # Safety
    ///
    /// Nothing else puts into the ring.
    pub(crate) unsafe fn new(ring: Arc<RawRing>) -> Producer {
        Producer {
            ring,
            _not_sync: PhantomData,
        }
    }

    /// Sends packets from the front of the burst; returns how many. What does not fit stays in the burst.
    #[inline]
    pub fn enqueue(&mut self, burst: &mut Burst) -> usize {
        // SAFETY: this is the only producer, borrowed exclusively.
        unsafe { self.ring.enqueue(burst) }
    }

    /// Packets in the ring: a snapshot.
    pub fn count(&self) -> usize {
        self.ring.count()
    }
}

/// A sending end of a ring that may have many: clone it for each thread.
#[derive(Clone, Debug)]
pub struct MultiProducer {
    ring: Arc<RawRing>,
}

impl MultiProducer {
    /// Sends packets from the front of the burst; returns how many. What does not fit stays in the burst.
    #[inline]
    pub fn enqueue(&self, burst: &mut Burst) -> usize {
        // SAFETY: the ring was made for many producers (`mpsc`).
        unsafe { self.ring.enqueue(burst) }
    }

    /// Packets in the ring: a snapshot.
    pub fn count(&self) -> usize {
        self.ring.count()
    }
}

/// The taking end of a ring.
#[derive(Debug)]
pub struct Consumer {
    ring: Arc<RawRing>,
    _not_sync: PhantomData<Cell<()>>,
}

impl Consumer {
    /// # Safety
    ///
    /// Nothing else takes from the ring.
    pub(crate) unsafe fn new(ring: Arc<RawRing>) -> Consumer {
        Consumer {
            ring,
            _not_sync: PhantomData,
        }
    }

    /// Takes packets to the end of the burst, as many as fit; returns how many.
    #[inline]
    pub fn dequeue(&mut self, burst: &mut Burst) -> usize {
        // SAFETY: this is the only consumer, borrowed exclusively.
        unsafe { self.ring.dequeue(burst) }
    }

    /// Packets in the ring: a snapshot.
    pub fn count(&self) -> usize {
        self.ring.count()
    }
}

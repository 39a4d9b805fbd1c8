//! Pools of packet buffers. All buffers of a pool exist from its creation on: nothing is allocated later.
//!
//! With hugepages or PCI the buffers are in EAL's memory, where devices can reach them. Otherwise they are in ordinary
//! memory, in large pages as far as the kernel gives them: EAL's own would be in small pages with one buffer each,
//! all at the same offset, where they push each other out of the first-level cache. The thread that makes the pool
//! touches them first, so they are on the NUMA node that this thread runs on ([`on_cpu`](crate::on_cpu)).
//!
//! DPDK does not know when the last buffer has returned for good, so a pool's memory is never given back to the
//! system: a dropped pool waits, and is used again for the next one of the same shape once all its buffers are
//! back. Buffers may therefore outlive every handle of their pool.

use std::ffi::CString;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use dpdk_sys as sys;

use crate::burst::Burst;
use crate::eal::Eal;
use crate::error::{Errno, Error};
use crate::mbuf::{HEADROOM, Mbuf};

/// The shape of a pool. [`PoolConfig::default`] is for packets of up to 2048 octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolConfig {
    /// Number of buffers, at least 1. One less than a power of two uses memory best.
    pub buffers: u32,
    /// Free buffers that each registered thread may keep for itself, 0 to 512, and at most 2/3 of `buffers`.
    pub cache: u32,
    /// Octets of packet that one buffer holds, besides [`HEADROOM`]; at most 65407.
    pub data_room: u16,
    /// The NUMA node of what is in EAL's memory; None: any. There must be huge pages on it, if there are any at all.
    pub socket: Option<u16>,
}

impl Default for PoolConfig {
    fn default() -> PoolConfig {
        PoolConfig {
            buffers: 16383,
            cache: 256,
            data_room: 2048,
            socket: None,
        }
    }
}

impl PoolConfig {
    /// The default shape, with this many buffers, and caches that leave some of them for others.
    pub fn with_buffers(buffers: u32) -> PoolConfig {
        PoolConfig {
            buffers,
            cache: (buffers / 8).min(256),
            ..PoolConfig::default()
        }
    }

    fn check(&self) -> Result<(), Error> {
        let bad = |field, value: u32, bound: &str| Err(Error::config(field, value, bound));
        if self.buffers == 0 {
            return bad("buffers", self.buffers, "at least 1");
        }
        if self.cache > sys::MEMPOOL_CACHE_MAX || u64::from(self.cache) * 3 > u64::from(self.buffers) * 2 {
            return bad("cache", self.cache, "at most 512, and at most 2/3 of the buffers");
        }
        if usize::from(self.data_room) + HEADROOM > usize::from(u16::MAX) {
            return bad("data_room", self.data_room.into(), "at most 65407 octets");
        }
        Ok(())
    }
}

/// A pool of packet buffers: a handle, cheap to clone, for any thread.
#[derive(Clone, Debug)]
pub struct Mempool(Arc<Handle>);

#[derive(Debug)]
struct Handle {
    pool: Pool,
    config: PoolConfig,
}

#[derive(Clone, Copy, Debug)]
struct Pool(NonNull<sys::rte_mempool>);

// SAFETY: these pools take any number of threads at once (a stack under a lock, caches by lcore id).
unsafe impl Send for Pool {}
// SAFETY: as for Send.
unsafe impl Sync for Pool {}

/// Pools whose last handle is gone: they are never freed.
static RESTING: Mutex<Vec<RestingPool>> = Mutex::new(Vec::new());

/// A pool without handles, which a pool of the same shape may use again.
struct RestingPool {
    config: PoolConfig,
    pool: Pool,
}

impl Drop for Handle {
    fn drop(&mut self) {
        RESTING
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
            .push(RestingPool {
                config: self.config,
                pool: self.pool,
            });
    }
}

impl Pool {
    fn available(self) -> u32 {
        // SAFETY: pools are never freed; the count may be read at any time.
        unsafe { sys::rte_mempool_avail_count(self.0.as_ptr()) }
    }
}

impl Mempool {
    /// Makes a pool.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] for a shape out of bounds; [`Error::Resource`] when there is no memory for it.
    pub fn new(eal: &Eal, config: PoolConfig) -> Result<Mempool, Error> {
        config.check()?;
        let pool = match reuse(&config) {
            Some(pool) => pool,
            None => create(eal, &config)?,
        };
        Ok(Mempool(Arc::new(Handle { pool, config })))
    }

    /// Takes one empty packet; None when the pool has none left. For many, see [`Mempool::fill`].
    pub fn alloc(&self) -> Option<Mbuf> {
        // SAFETY: the pool is alive; DPDK hands out a buffer with one owner.
        let mbuf = NonNull::new(unsafe { sys::shim_mbuf_alloc(self.raw()) })?;
        // SAFETY: a fresh buffer is a chain of one that nothing else refers to; pools are never freed.
        Some(unsafe { Mbuf::from_raw(mbuf) })
    }

    /// Takes one packet that holds `octets`; None when the pool has none left or a buffer is too small.
    pub fn alloc_with(&self, octets: &[u8]) -> Option<Mbuf> {
        let mut mbuf = self.alloc()?;
        mbuf.append(octets.len())?.copy_from_slice(octets);
        Some(mbuf)
    }

    /// Adds `count` empty packets to the burst, with one foreign call; false, and no change, when the pool has not
    /// that many left or they do not fit.
    #[must_use]
    pub fn fill(&self, burst: &mut Burst, count: usize) -> bool {
        if count > burst.room() {
            return false;
        }
        let take = |slots, _room| {
            // SAFETY: `slots` has room for `count`; the pool is alive.
            match unsafe { sys::shim_mbuf_alloc_bulk(self.raw(), slots, count as u32) } {
                0 => count,
                _ => 0,
            }
        };
        // SAFETY: shim_mbuf_alloc_bulk stores all `count` fresh buffers, or none.
        unsafe { burst.fill(take) == count }
    }

    /// Buffers in the pool now, those in caches included: a snapshot, slow, not for the packet path.
    pub fn available(&self) -> u32 {
        self.0.pool.available()
    }

    /// Buffers that packets, queues and rings hold now: a snapshot, slow, not for the packet path.
    pub fn in_use(&self) -> u32 {
        self.0.config.buffers.saturating_sub(self.available())
    }

    /// The addresses of the buffers.
    pub fn areas(&self) -> Vec<Range<usize>> {
        let mut areas = Vec::new();
        loop {
            let room = areas.len() as u32;
            // SAFETY: the pool is alive, its list of areas is final since its creation; `areas` has room for `room`.
            let count = unsafe { sys::shim_pool_memory(self.raw(), areas.as_mut_ptr(), room) };
            if count <= room {
                return areas
                    .iter()
                    .map(|area| area.start..area.start + area.octets)
                    .collect();
            }
            areas.resize(count as usize, sys::shim_area { start: 0, octets: 0 });
        }
    }

    /// The shape it was made with.
    pub fn config(&self) -> PoolConfig {
        self.0.config
    }

    pub(crate) fn raw(&self) -> *mut sys::rte_mempool {
        self.0.pool.0.as_ptr()
    }
}

/// A resting pool of this shape to which all buffers have returned.
fn reuse(config: &PoolConfig) -> Option<Pool> {
    let mut resting = RESTING.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let fits =
        |resting: &RestingPool| resting.config == *config && resting.pool.available() >= config.buffers;
    let index = resting.iter().position(fits)?;
    Some(resting.swap_remove(index).pool)
}

fn create(eal: &Eal, config: &PoolConfig) -> Result<Pool, Error> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = format!("sluice{}", NEXT.fetch_add(1, Ordering::Relaxed));
    let name = CString::new(name).expect("digits and letters have no NUL");
    let socket = config.socket.map_or(-1, i32::from);
    let room = config.data_room + sys::MBUF_HEADROOM;
    let (name, buffers, cache) = (name.as_ptr(), config.buffers, config.cache);
    let call = || match eal.serves_devices() {
        // SAFETY: EAL runs; the name is NUL-terminated and copied.
        true => unsafe { sys::shim_pool_create_for_devices(name, buffers, cache, room, socket) },
        // SAFETY: as above.
        false => unsafe { sys::shim_pool_create(name, buffers, cache, room, socket) },
    };
    let (pool, log) = crate::log::captured(call);
    NonNull::new(pool).map(Pool).ok_or_else(|| {
        let what = format!(
            "pool of {} buffers of {} octets",
            config.buffers, config.data_room
        );
        Error::Resource {
            what,
            errno: Errno::last(),
            log,
        }
    })
}

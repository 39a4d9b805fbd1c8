//! A port in memory: one ring each way per queue. The simulator is at the other end, in the same process.

use std::ffi::CString;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use dpdk_sys as sys;

use super::device::{Device, Held, lists};
use crate::eal::Eal;
use crate::error::{Errno, Error};
use crate::ring::{Consumer, Producer, RawRing};

/// The most queues that DPDK's ring driver takes, each way.
const QUEUES_MAX: u16 = 16;

/// The shape of a memory port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemorySpec {
    /// Queues each way, 1 to 16.
    pub queues: u16,
    /// Packets that each ring holds, 1 to 2^24.
    pub depth: u32,
}

impl Default for MemorySpec {
    /// One queue of 1024 packets.
    fn default() -> MemorySpec {
        MemorySpec {
            queues: 1,
            depth: 1024,
        }
    }
}

/// The other side of a memory port. Each end may go to another thread.
#[derive(Debug)]
pub struct MemoryPeer {
    /// What is put into end `i` is received on the port's queue `i`.
    pub to_port: Vec<Producer>,
    /// What is sent on the port's queue `i` is taken from end `i`.
    pub from_port: Vec<Consumer>,
}

pub(super) fn open(eal: &Eal, spec: &MemorySpec) -> Result<(Device, MemoryPeer), Error> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    if !(1..=QUEUES_MAX).contains(&spec.queues) {
        return Err(Error::config("queues", spec.queues, format!("1 to {QUEUES_MAX}")));
    }
    let ring = |_| RawRing::new(eal, spec.depth, false, None).map(Arc::new);
    let inward = (0..spec.queues).map(ring).collect::<Result<Vec<_>, Error>>()?;
    let outward = (0..spec.queues).map(ring).collect::<Result<Vec<_>, Error>>()?;
    let label = format!("memory{}", NEXT.fetch_add(1, Ordering::Relaxed));
    let device = device(label, &inward, &outward)?;
    let peer = MemoryPeer {
        // SAFETY: the rings are new, and the port only takes from the inward and only puts into the outward ones.
        to_port: inward
            .into_iter()
            .map(|ring| unsafe { Producer::new(ring) })
            .collect(),
        // SAFETY: as above.
        from_port: outward
            .into_iter()
            .map(|ring| unsafe { Consumer::new(ring) })
            .collect(),
    };
    Ok((device, peer))
}

fn device(label: String, inward: &[Arc<RawRing>], outward: &[Arc<RawRing>]) -> Result<Device, Error> {
    let name = CString::new(label.clone()).expect("digits and letters have no NUL");
    let pointers = |rings: &[Arc<RawRing>]| rings.iter().map(|ring| ring.as_ptr()).collect::<Vec<_>>();
    let (rx, tx) = (pointers(inward), pointers(outward));
    let alone = lists();
    // SAFETY: EAL runs (`Port::memory` has it); both arrays have the announced number of rings, which the device
    // keeps alive until it is closed. Node 0: rings have no device memory.
    let (code, log) = crate::log::captured(|| unsafe {
        sys::rte_eth_from_rings(
            name.as_ptr(),
            rx.as_ptr(),
            rx.len() as u32,
            tx.as_ptr(),
            tx.len() as u32,
            0,
        )
    });
    drop(alone);
    let Ok(id) = u16::try_from(code) else {
        return Err(Error::Driver {
            port: label,
            step: "open",
            errno: Errno::last(),
            log,
        });
    };
    // The name that the driver gives its device.
    let plugged = CString::new(format!("net_ring_{label}")).expect("digits and letters have no NUL");
    let rings = inward.iter().chain(outward).cloned().collect();
    Device::own(
        id,
        label,
        (c"vdev", plugged),
        Held {
            pools: Vec::new(),
            rings,
        },
    )
}

//! The ethdev behind a port and its queues: closed when the last of them is gone.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;
use std::sync::{Arc, Mutex, MutexGuard};

use dpdk_sys as sys;

use crate::error::{Errno, Error};
use crate::mempool::Mempool;
use crate::ring::RawRing;

/// An ethdev and what it relies on.
#[derive(Debug)]
pub(super) struct Device {
    pub(super) id: u16,
    pub(super) label: String,
    /// The Ethernet address.
    pub(super) mac: [u8; 6],
    /// Where the device was plugged in, and its name there: to unplug it.
    pub(super) plugged: (&'static CStr, CString),
    /// DPDK's control calls on one port do not lock.
    pub(super) control: Mutex<Held>,
}

/// What the driver refers to until it is closed.
#[derive(Debug, Default)]
pub(super) struct Held {
    pub(super) pools: Vec<Mempool>,
    /// Of a memory port: where packets come in, by queue, and then where they leave.
    pub(super) rings: Vec<Arc<RawRing>>,
}

/// The ports that some `Device` owns.
static OWNED: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

/// EAL's lists of devices and of their arguments do not lock: this is held to add to them or take from them.
static LISTS: Mutex<()> = Mutex::new(());

pub(super) fn lists() -> MutexGuard<'static, ()> {
    LISTS.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn owned() -> MutexGuard<'static, BTreeSet<u16>> {
    OWNED.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Device {
    /// Plugs a device in and finds its port.
    pub(super) fn plug(
        bus: &'static CStr,
        name: String,
        arguments: String,
        label: String,
    ) -> Result<Device, Error> {
        let (name, arguments) = (with_nul(name)?, with_nul(arguments)?);
        // SAFETY: EAL runs (`Port::open` has it); the texts are NUL-terminated and copied.
        let call = || unsafe { sys::rte_eal_hotplug_add(bus.as_ptr(), name.as_ptr(), arguments.as_ptr()) };
        let (code, log) = {
            let _alone = lists();
            crate::log::captured(call)
        };
        let found = match code {
            0 => find(&name),
            code => Err(Errno::from_return(code)),
        };
        match found {
            Ok(id) => Device::own(id, label, (bus, name), Held::default()),
            Err(errno) => Err(Error::Driver {
                port: label,
                step: "open",
                errno,
                log,
            }),
        }
    }

    /// Finds the port of a device that is plugged in, or plugs it in.
    pub(super) fn find_or_plug(bus: &'static CStr, name: String, label: String) -> Result<Device, Error> {
        let text = with_nul(name.clone())?;
        match find(&text) {
            Ok(id) => Device::own(id, label, (bus, text), Held::default()),
            Err(_) => Device::plug(bus, name, String::new(), label),
        }
    }

    /// Takes over port `id`, of which there must be no other owner.
    pub(super) fn own(
        id: u16,
        label: String,
        plugged: (&'static CStr, CString),
        held: Held,
    ) -> Result<Device, Error> {
        if !owned().insert(id) {
            return Err(Error::config("port", label, "it is open already"));
        }
        let mut device = Device {
            id,
            label,
            mac: [0; 6],
            plugged,
            control: Mutex::new(held),
        };
        let mut address = sys::rte_ether_addr { addr_bytes: [0; 6] };
        // SAFETY: the port is open; the address may be written.
        device.call("report its address", |id| unsafe {
            sys::rte_eth_macaddr_get(id, &mut address)
        })?;
        device.mac = address.addr_bytes;
        Ok(device)
    }

    pub(super) fn control(&self) -> MutexGuard<'_, Held> {
        self.control
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Runs a call that returns 0 or -errno, with the control lock held.
    pub(super) fn call(&self, step: &'static str, call: impl FnOnce(u16) -> i32) -> Result<(), Error> {
        let _held = self.control();
        self.call_locked(step, call)
    }

    /// As [`Device::call`], for a caller that holds the lock.
    pub(super) fn call_locked(&self, step: &'static str, call: impl FnOnce(u16) -> i32) -> Result<(), Error> {
        match crate::log::captured(|| call(self.id)) {
            (0.., _) => Ok(()),
            (code, log) => Err(Error::Driver {
                port: self.label.clone(),
                step,
                errno: Errno::from_return(code),
                log,
            }),
        }
    }

    pub(super) fn info(&self) -> Result<sys::rte_eth_dev_info, Error> {
        let mut info = MaybeUninit::zeroed();
        // SAFETY: the port is open; the call fills the structure.
        self.call("describe itself", |id| unsafe {
            sys::rte_eth_dev_info_get(id, info.as_mut_ptr())
        })?;
        // SAFETY: filled; and zeroes are a value of this structure too.
        Ok(unsafe { info.assume_init() })
    }

    /// Largest layer-3 packet in octets.
    pub(super) fn mtu(&self) -> Result<u16, Error> {
        let mut mtu = 0;
        // SAFETY: the port is open; the number may be written.
        self.call("report its MTU", |id| unsafe {
            sys::rte_eth_dev_get_mtu(id, &mut mtu)
        })?;
        Ok(mtu)
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let (bus, name) = &self.plugged;
        // Held to the end: the number must not be given to another device before it is free here.
        let mut owned = owned();
        let _alone = lists();
        let close = || {
            // SAFETY: the port is open, and with the last handle gone no thread is in a call on it. Stopping a port
            // that never started does nothing.
            unsafe { sys::rte_eth_dev_stop(self.id) };
            // SAFETY: as above; nothing uses the number afterwards.
            unsafe { sys::rte_eth_dev_close(self.id) };
            // SAFETY: EAL runs; the texts are NUL-terminated. A refusal leaves an unused device behind.
            unsafe { sys::rte_eal_hotplug_remove(bus.as_ptr(), name.as_ptr()) };
        };
        // No caller is left for what a driver says now.
        crate::log::captured(close);
        owned.remove(&self.id);
    }
}

fn with_nul(text: String) -> Result<CString, Error> {
    CString::new(text.clone()).map_err(|_| Error::config("port", text, "no NUL octet"))
}

/// The number of the port with DPDK's name `name`.
pub(super) fn find(name: &CStr) -> Result<u16, Errno> {
    let mut id = 0;
    // SAFETY: EAL runs; the name is NUL-terminated, and `id` may be written.
    match unsafe { sys::rte_eth_dev_get_port_by_name(name.as_ptr(), &mut id) } {
        0 => Ok(id),
        code => Err(Errno::from_return(code)),
    }
}

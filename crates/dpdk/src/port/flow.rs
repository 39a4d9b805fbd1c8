//! Rules of `rte_flow` that spread packets over the receive queues by chosen headers, and the table from hash to queue.

use std::ffi::{CStr, c_char};
use std::ptr::NonNull;
use std::sync::Arc;

use dpdk_sys as sys;

use super::Port;
use super::device::Device;
use super::rss::RssFields;
use crate::error::{Errno, Error};

/// Octets kept of why a driver refused a rule.
const TEXT_MAX: usize = 256;

/// Which packets a rule is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packets {
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
    /// GTP-U over IPv4, whatever it holds.
    Gtpu,
    /// IPv4 in GTP-U over IPv4.
    Ipv4InGtpu,
    /// IPv6 in GTP-U over IPv4.
    Ipv6InGtpu,
}

impl Packets {
    fn raw(self) -> u32 {
        match self {
            Packets::Ipv4 => sys::SHIM_PACKETS_IPV4,
            Packets::Ipv6 => sys::SHIM_PACKETS_IPV6,
            Packets::Gtpu => sys::SHIM_PACKETS_GTPU,
            Packets::Ipv4InGtpu => sys::SHIM_PACKETS_GTPU_IPV4,
            Packets::Ipv6InGtpu => sys::SHIM_PACKETS_GTPU_IPV6,
        }
    }

    /// The headers that are hashed, as `rte_flow` counts them.
    fn level(self) -> u32 {
        match self {
            Packets::Ipv4 | Packets::Ipv6 => 0,
            Packets::Gtpu => 1,
            Packets::Ipv4InGtpu | Packets::Ipv6InGtpu => 2,
        }
    }
}

/// How some packets shall be spread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpreadRule {
    /// Which.
    pub packets: Packets,
    /// What of their headers is hashed; for packets in tunnels, of the inner ones.
    pub fields: RssFields,
    /// The Toeplitz key; empty: the port's.
    pub key: Vec<u8>,
    /// The queues that the hash chooses from, by its lowest bits; empty: the port's own table. Drivers take the one,
    /// the other, or neither.
    pub queues: Vec<u16>,
}

/// A rule in force; it ends when dropped.
#[derive(Debug)]
pub struct FlowRule {
    device: Arc<Device>,
    raw: NonNull<sys::rte_flow>,
}

// SAFETY: a rule is an opaque handle that is only passed back to the driver, under the port's control lock.
unsafe impl Send for FlowRule {}

impl Drop for FlowRule {
    fn drop(&mut self) {
        // SAFETY: the rule is the driver's own and is given back once; the port is open as long as `device` lives.
        let destroy = |id| unsafe { sys::shim_flow_destroy(id, self.raw.as_ptr()) };
        // A rule that a driver keeps only places packets elsewhere.
        let _ = self.device.call("end a rule", destroy);
    }
}

impl Port {
    /// Lets a rule spread packets over the queues, from now until it is dropped. The port is started.
    ///
    /// # Errors
    ///
    /// [`Error::Driver`] with the driver's own words when it cannot.
    pub fn spread(&self, rule: &SpreadRule) -> Result<FlowRule, Error> {
        let raw = sys::shim_rss_rule {
            packets: rule.packets.raw(),
            level: rule.packets.level(),
            types: rule.fields.bits(),
            key: rule.key.as_ptr(),
            key_len: rule.key.len() as u32,
            queue_num: rule.queues.len() as u32,
            queues: rule.queues.as_ptr(),
        };
        let mut text = [0_u8; TEXT_MAX];
        let mut found = None;
        let device = self.device("rule")?;
        let outcome = device.call("spread packets by a rule", |id| {
            // SAFETY: the port is open; key, queues and text live through the call and have the announced lengths.
            let flow =
                unsafe { sys::shim_flow_spread(id, &raw, text.as_mut_ptr().cast::<c_char>(), TEXT_MAX) };
            found = NonNull::new(flow);
            match found {
                Some(_) => 0,
                None => -Errno::last().0.max(1),
            }
        });
        match (outcome, found) {
            (Ok(()), Some(raw)) => Ok(FlowRule {
                device: Arc::clone(device),
                raw,
            }),
            (Ok(()), None) => Err(Error::config("rule", self.name(), "one that the driver makes")),
            (Err(error), _) => Err(with_words(error, &text)),
        }
    }

    /// Sets the queue of each hash: entry `i` is that of the hashes whose lowest bits are `i`.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] when there are not as many entries as the port's table has
    /// ([`Capabilities`](super::Capabilities)); [`Error::Driver`] when the driver refuses.
    pub fn set_rss_table(&self, queues: &[u16]) -> Result<(), Error> {
        let device = self.device("rss table")?;
        let size = device.info()?.reta_size;
        if size == 0 || queues.len() != usize::from(size) {
            let bound = format!("this port's table has {size} entries");
            return Err(Error::config("rss table", queues.len(), bound));
        }
        // SAFETY: the port is open; the table has the announced number of entries.
        device.call("set its table from hash to queue", |id| unsafe {
            sys::shim_reta_set(id, queues.as_ptr(), size)
        })
    }
}

/// Adds what the driver said of a rule to what it logged.
fn with_words(mut error: Error, text: &[u8]) -> Error {
    let words = CStr::from_bytes_until_nul(text)
        .unwrap_or_default()
        .to_string_lossy();
    if let Error::Driver { log, .. } = &mut error
        && !words.is_empty()
    {
        *log = if log.is_empty() {
            words.into_owned()
        } else {
            format!("{words}; {log}")
        };
    }
    error
}

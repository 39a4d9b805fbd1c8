//! The accelerator: what its channel and the worker are made with, the key, and checks.

use std::fmt;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use flow::{InstanceId, PortId};
use offload::channel::{ChannelConfig, Key, Role, ShortKey, Timers};
use offload::codec::HostCapabilities;
use offload::exception::Through;
use offload::in_band::host_greeting;
use packet::{MacAddr, VlanId};
use serde_saphyr::Spanned;
use worker::OffloadPolicy;

use crate::bounded::Bounded;
use crate::bounded_file;
use crate::error::Fault;
use crate::parts::network::check_mac;
use crate::schema::{
    AcceleratorConfig, AcceleratorMode, Config, Driver, InBandConfig, PortConfig, parse_mac,
};

/// Octets of a key file, at most.
const LONGEST_KEY: u64 = 4_096;
/// What others may not do with a key file, and the group may not: write, execute, and for others read.
const FORBIDDEN: u32 = 0o037;
/// The longest frame of the channel, which passes every link, whatever the other end has as its MTU.
const CONTROL_MTU: usize = 1_500;
/// Packet buffers, at least, for each worker: those that wait leave enough for the channel's frames.
pub(crate) const LEAST_BUFFERS: usize = 16_384;
/// What comes in front of an IP packet that goes to the accelerator: its Ethernet header with two tags, and the header
/// with its flow.
const IN_FRONT: u64 = 22 + Through::MAX_LEN as u64;

/// Why a key cannot be had.
#[derive(Debug)]
pub struct KeyError {
    path: PathBuf,
    why: Why,
}

#[derive(Debug)]
enum Why {
    Unreadable(io::Error),
    Open(u32),
    Digits,
    Short(ShortKey),
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "key {}: ", self.path.display())?;
        match &self.why {
            Why::Unreadable(error) => write!(f, "cannot be read: {error}"),
            Why::Open(mode) => write!(
                f,
                "others may read it, or others or the group may write it (mode {mode:03o}); `chmod 600` mends it"
            ),
            Why::Digits => f.write_str("it is not hexadecimal digits, two for each octet"),
            Why::Short(short) => short.fmt(f),
        }
    }
}

impl std::error::Error for KeyError {}

fn read_key(path: &Path) -> Result<Key, Why> {
    let mode = std::fs::metadata(path).map_err(Why::Unreadable)?.mode() & 0o777;
    if mode & FORBIDDEN != 0 {
        return Err(Why::Open(mode));
    }
    let text = bounded_file::read(path, LONGEST_KEY).map_err(Why::Unreadable)?;
    let digits = text.trim_ascii();
    let octets = digits.chunks(2).map(|pair| {
        let pair = std::str::from_utf8(pair).ok().filter(|pair| pair.len() == 2)?;
        let is_hex = pair.bytes().all(|digit| digit.is_ascii_hexdigit());
        u8::from_str_radix(pair, 16).ok().filter(|_| is_hex)
    });
    let octets = octets.collect::<Option<Vec<_>>>().ok_or(Why::Digits)?;
    Key::new(octets).map_err(Why::Short)
}

impl InBandConfig {
    /// What the channel of this end is made with: `own` is the address of its port, whose MTU is `mtu`; `boot` is drawn
    /// when the process starts.
    ///
    /// # Errors
    /// The key cannot be had.
    pub fn channel(&self, role: Role, own: MacAddr, mtu: u16, boot: u64) -> Result<ChannelConfig, KeyError> {
        let key = self.key()?;
        let peer = self.peer.as_ref().and_then(|mac| parse_mac(&mac.value));
        Ok(ChannelConfig {
            peer_mac: peer.map(MacAddr),
            capabilities: match role {
                Role::Host => host_greeting(HostCapabilities::new(true).with_links()),
                // The node says what it can do.
                Role::Accelerator => Vec::new(),
            },
            vlan: self.vlan_id(),
            mtu: usize::from(mtu).min(CONTROL_MTU),
            timers: Timers {
                lost_after: Duration::from_millis(self.lost_after_ms.value()),
                ..Timers::default()
            },
            ..ChannelConfig::new(role, self.channel.value() as u8, own, key, boot)
        })
    }

    /// The key, as its file has it now.
    ///
    /// # Errors
    /// The file cannot be read, others can read it, or there is no key in it.
    pub fn key(&self) -> Result<Key, KeyError> {
        let path = &self.key.value;
        read_key(path).map_err(|why| KeyError {
            path: path.clone(),
            why,
        })
    }

    /// The VLAN of its frames.
    #[must_use]
    pub fn vlan_id(&self) -> Option<VlanId> {
        let vlan = self.vlan.map(Bounded::value);
        vlan.map(|vlan| VlanId::from_low_bits(vlan as u16))
    }

    /// Finds what is wrong with it by itself: in `field`, with these ports.
    pub(crate) fn check(&self, field: &str, ports: &[PortConfig]) -> Result<(), Fault> {
        let name = &self.port.value;
        let Some(port) = ports.iter().find(|port| port.name.value == *name) else {
            let message = format!("{field}.port: no port is named `{name}`");
            return Err(Fault::new(&self.port, message));
        };
        let has_frames = port
            .driver
            .as_ref()
            .is_some_and(|driver| !driver.is_behind_accelerator());
        if !has_frames {
            let message = format!("{field}.port: `{name}` is a LAG, or behind an accelerator itself");
            return Err(Fault::new(&self.port, message));
        }
        if !self.key.value.is_absolute() {
            let message = format!("{field}.key: `{}` is no absolute path", self.key.value.display());
            return Err(Fault::new(&self.key, message));
        }
        self.peer.as_ref().map_or(Ok(()), check_mac)?;
        let longest = port.mtu.value();
        let others = ports.iter().filter(|other| other.name.value != *name);
        let too_long = others
            .filter(|other| field != "accelerator.link" || other.is_behind_accelerator())
            .find(|other| other.mtu.value() + IN_FRONT > longest);
        let fault = |other: &PortConfig| {
            let (name, mtu) = (&other.name.value, other.mtu.value());
            let least = mtu + IN_FRONT;
            let message = format!(
                "{field}.port: `{}` has an MTU of {longest}; packets of `{name}`, of {mtu} octets, need {least} with the headers in front of them",
                self.port.value
            );
            Fault::new(&self.port, message)
        };
        too_long.map_or(Ok(()), |other| Err(fault(other)))
    }
}

impl AcceleratorConfig {
    /// What the channel of one of a host's workers is made with: their numbers follow each other.
    ///
    /// # Errors
    /// The key cannot be had.
    pub fn channel_of_worker(
        &self,
        (worker, workers): (usize, usize),
        own: MacAddr,
        mtu: u16,
        boot: u64,
    ) -> Result<ChannelConfig, KeyError> {
        let first = self.link.channel(Role::Host, own, mtu, boot)?;
        Ok(ChannelConfig {
            channel: first.channel.wrapping_add(worker as u8),
            capabilities: host_greeting(self.host_capabilities(workers)),
            ..first
        })
    }

    /// What a host with this number of workers says of itself. One alone has nothing to steer.
    pub(crate) fn host_capabilities(&self, workers: usize) -> HostCapabilities {
        let mut host = HostCapabilities::new(true)
            .with_links()
            .with_channels(workers as u8);
        if workers > 1 {
            host = host.with_steered();
        }
        match self.mode {
            AcceleratorMode::Full => host,
            AcceleratorMode::Partial => host.in_partial_mode(),
        }
    }
}

impl Config {
    /// How many of the ports, the last ones, are behind an accelerator.
    #[must_use]
    pub fn ports_behind_accelerator(&self) -> usize {
        self.ports
            .iter()
            .filter(|port| port.is_behind_accelerator())
            .count()
    }

    /// The port towards the accelerator.
    #[must_use]
    pub fn accelerator_port(&self) -> Option<(PortId, &PortConfig)> {
        let name = &self.accelerator.as_ref()?.link.port.value;
        let mut ports = self.ports.iter().enumerate();
        let (place, port) = ports.find(|(_, port)| port.name.value == *name)?;
        Some((PortId(place as u16), port))
    }
}

impl Config {
    /// Which sessions of a worker, by its number, the accelerator passes; `None` without one.
    #[must_use]
    pub fn offload_policy(&self, worker: usize) -> Option<OffloadPolicy> {
        let accelerator = self.accelerator.as_ref()?;
        let policy = &accelerator.policy;
        let bit = |qfi: &Bounded<0, 63>| 1_u64 << qfi.value();
        let place = |name: &Spanned<String>| self.place_of_instance(&name.value);
        let instances = policy.instances.as_ref();
        let rulebases = policy.rulebases.as_ref();
        let octets = |name: &Spanned<String>| Box::from(name.value.as_bytes());
        Some(OffloadPolicy {
            is_partial: accelerator.mode == AcceleratorMode::Partial,
            after_packets: policy.after_packets.value() as u16,
            after_octets: policy.after_octets.value() as u32,
            qfis: policy
                .qfis
                .as_ref()
                .map(|qfis| qfis.iter().map(bit).fold(0, |all, one| all | one)),
            instances: instances.map(|names| names.iter().filter_map(place).collect()),
            rulebases: rulebases.map(|names| names.iter().map(octets).collect()),
            stays_for: Duration::from_secs(policy.stays_s.value()),
            // Each worker has its share; together they have no more.
            sessions: policy.sessions.map_or(usize::MAX, |most| {
                let (most, workers) = (most.size(), self.workers.count.size());
                most / workers + usize::from(worker < most % workers)
            }),
        })
    }

    fn place_of_instance(&self, name: &str) -> Option<InstanceId> {
        let place = self.instances.iter().position(|one| one.name.value == *name)?;
        Some(InstanceId(place as u16))
    }
}

/// Finds what contradicts something.
pub(crate) fn check(config: &Config) -> Result<(), Fault> {
    check_ports(config)?;
    let Some(accelerator) = &config.accelerator else {
        return match config.ports.iter().find(|port| port.is_behind_accelerator()) {
            Some(port) => Err(Fault::of_port(
                &port.name,
                "driver: accelerator, and no `accelerator` is configured",
            )),
            None => Ok(()),
        };
    };
    let mut named = accelerator.policy.instances.iter().flatten();
    if let Some(name) = named.find(|name| config.place_of_instance(&name.value).is_none()) {
        let message = format!(
            "accelerator.policy.instances: no instance is named `{}`",
            name.value
        );
        return Err(Fault::new(name, message));
    }
    let has_rulebase = |name: &Spanned<String>| {
        let mut rulebases = config.predefined.rulebases.iter();
        rulebases.any(|rulebase| rulebase.name.value == name.value)
    };
    let mut named = accelerator.policy.rulebases.iter().flatten();
    if let Some(name) = named.find(|name| !has_rulebase(name)) {
        let message = format!(
            "accelerator.policy.rulebases: no rulebase is named `{}`",
            name.value
        );
        return Err(Fault::new(name, message));
    }
    let link = &accelerator.link;
    link.check("accelerator.link", &config.ports)?;
    let fault = |message: String| Err(Fault::new(&link.port, format!("accelerator: {message}")));
    if config.ports_behind_accelerator() == 0 {
        return fault("no port is behind it (driver: accelerator)".into());
    }
    let (workers, channel) = (config.workers.count.value(), link.channel.value());
    if channel + workers > 256 {
        return fault(format!(
            "channel {channel} is that of the first of {workers} workers, and the last channel is 255"
        ));
    }
    let least = LEAST_BUFFERS * config.workers.count.size();
    if config.dpdk.buffers.size() < least {
        let buffers = config.dpdk.buffers.value();
        return fault(format!(
            "dpdk.buffers: {buffers}, and it needs {least}, {LEAST_BUFFERS} for each worker"
        ));
    }
    let name = &link.port.value;
    if config.lag_of(name).is_some() {
        return fault(format!("port `{name}` is a member of a LAG"));
    }
    let is_here = |port: &Spanned<String>| port.value == *name;
    let others = config
        .instances
        .iter()
        .find(|instance| is_here(&instance.port) || instance.mirror.as_ref().is_some_and(is_here));
    match others {
        Some(instance) => fault(format!(
            "port `{name}` is its own, and instance `{}` uses it",
            instance.name.value
        )),
        None => Ok(()),
    }
}

fn check_ports(config: &Config) -> Result<(), Fault> {
    let mut macs = Vec::new();
    let mut is_any_before = false;
    for port in &config.ports {
        let Some(Driver::Accelerator { mac }) = &port.driver else {
            if is_any_before {
                let message = "it comes behind ports of the accelerator, which are the last";
                return Err(Fault::of_port(&port.name, message));
            }
            continue;
        };
        is_any_before = true;
        let station = parse_mac(mac).map(MacAddr).filter(|mac| mac.is_station());
        let Some(station) = station else {
            let message = format!("mac: `{mac}` is no station's MAC address such as 02:00:00:00:00:01");
            return Err(Fault::of_port(&port.name, &message));
        };
        if macs.contains(&station) {
            return Err(Fault::of_port(
                &port.name,
                &format!("mac: another port has {mac}"),
            ));
        }
        macs.push(station);
        let own = [
            (port.descriptors.is_some(), "descriptors"),
            (port.checksums.is_some(), "checksums"),
        ];
        if let Some((_, field)) = own.into_iter().find(|(is_set, _)| *is_set) {
            return Err(Fault::of_port(
                &port.name,
                &format!("{field}: the accelerator has its own"),
            ));
        }
        if config.lag_of(&port.name.value).is_some() {
            return Err(Fault::of_port(
                &port.name,
                "a port of the accelerator cannot be a member of a LAG",
            ));
        }
    }
    Ok(())
}

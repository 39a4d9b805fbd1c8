//! The host's own network stack on the links of network instances: what is for our addresses and none of a user
//! plane's business (BGP, BFD, SSH) goes to a TAP interface for each instance, and what comes from there goes out.
//!
//! Workers never wait for the kernel: they put packets into two queues, and this thread carries them, what is urgent
//! first. What the host sends goes to the first worker in whole frames, which sends them by their ports. An interface
//! has the port's link layer address and sees its link untagged.

use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use dpdk::{Burst, Consumer, Eal, Mbuf, Mempool, MultiProducer, Producer, Registration};
use flow::PortId;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use packet::eth::{HEADER_LEN, L2, Vlan};
use packet::{MacAddr, VlanTags};
use tun_rs::{DeviceBuilder, Layer, SyncDevice};
use worker::Urgency;
use worker::dpdk::HostEnd;

use config::{Config, InstanceConfig, Prefix};
use oam::values::HostLink;
use runtime::Wakeup;

/// Packets in each queue.
const DEPTH: u32 = 2_048;
/// The longest the thread waits: how late it sees that it is to stop.
const LONGEST_WAIT: Duration = Duration::from_millis(10);
/// Bursts taken of each queue before the others have their turn, by [`Urgency`].
const BURSTS: [usize; 2] = [1, 16];
/// Frames taken of an interface before the others have their turn.
const FRAMES: usize = 64;
/// Octets of the longest frame, and room for tags before it.
const ROOM: usize = 9_216 + 64;
/// Octets before a frame that is read, for tags.
const FRONT: usize = VlanTags::MAX_LEN;
/// Octets of two link layer addresses.
const ADDRESSES: usize = 12;

/// What became of the packets of one interface.
#[derive(Debug)]
struct Counts {
    instance: String,
    interface: String,
    to_host: AtomicU64,
    from_host: AtomicU64,
    lost: AtomicU64,
}

/// One interface.
struct Link {
    device: SyncDevice,
    port: PortId,
    /// Which frames are its own ([`Vlan::key`]).
    key: u32,
    /// Its VLAN tags, as they lie behind the addresses.
    tags: Vec<u8>,
    /// It may have something to read.
    is_ready: bool,
    counts: Arc<Counts>,
}

/// What an operator may ask of the interfaces.
#[derive(Clone, Debug, Default)]
pub struct HostView(Arc<[Arc<Counts>]>);

impl HostView {
    /// The state of each.
    #[must_use]
    pub fn read(&self) -> Vec<HostLink> {
        let link = |counts: &Arc<Counts>| HostLink {
            instance: counts.instance.clone(),
            interface: counts.interface.clone(),
            to_host: counts.to_host.load(Ordering::Relaxed),
            from_host: counts.from_host.load(Ordering::Relaxed),
            lost: counts.lost.load(Ordering::Relaxed),
        };
        self.0.iter().map(link).collect()
    }
}

/// Carries packets between workers and interfaces.
pub struct HostPath {
    links: Vec<Link>,
    poll: Poll,
    events: Events,
    /// By [`Urgency`].
    from_workers: [Consumer; 2],
    to_worker: Producer,
    wakeup: Wakeup,
    /// Of the worker that sends what the host sends.
    worker: Option<Wakeup>,
    pool: Mempool,
    burst: Burst,
    buffer: Box<[u8]>,
    view: HostView,
}

impl HostPath {
    /// Makes the interfaces of all instances that have one, and this number of workers' ends.
    ///
    /// # Errors
    /// The first interface that cannot be made, in the system's words; DPDK's, when there is no memory for a queue.
    pub fn open(
        eal: &Eal,
        config: &Config,
        macs: &[MacAddr],
        pool: Mempool,
    ) -> io::Result<(Self, Vec<HostEnd>)> {
        let poll = Poll::new()?;
        let mut links = Vec::new();
        for instance in config.instances.iter().filter(|instance| instance.host.is_some()) {
            let link = Link::open(config, instance, macs)?;
            let token = Token(links.len());
            let fd = link.device.as_raw_fd();
            poll.registry()
                .register(&mut SourceFd(&fd), token, Interest::READABLE)?;
            links.push(link);
        }
        let (usual, from_usual) = dpdk::mpsc(eal, DEPTH).map_err(io::Error::other)?;
        let (urgent, from_urgent) = dpdk::mpsc(eal, DEPTH).map_err(io::Error::other)?;
        let (to_worker, from) = dpdk::spsc(eal, DEPTH).map_err(io::Error::other)?;
        let ends = ends(config.workers.count.size(), [usual, urgent], from);
        let view = HostView(links.iter().map(|link| Arc::clone(&link.counts)).collect());
        let path = Self {
            links,
            events: Events::with_capacity(64),
            from_workers: [from_usual, from_urgent],
            to_worker,
            wakeup: Wakeup::new(poll.registry())?,
            worker: None,
            poll,
            pool,
            burst: Burst::new(),
            buffer: vec![0; ROOM].into_boxed_slice(),
            view,
        };
        Ok((path, ends))
    }

    /// What an operator may ask.
    #[must_use]
    pub fn view(&self) -> HostView {
        self.view.clone()
    }

    /// What wakes its thread when workers have put in packets.
    #[must_use]
    pub fn wakeup(&self) -> &Wakeup {
        &self.wakeup
    }

    /// The same with the wakeup of the first worker, who sends what the host sends.
    #[must_use]
    pub fn with_worker(self, worker: Option<Wakeup>) -> Self {
        Self { worker, ..self }
    }

    /// Carries packets on a thread of its own until `stop` is set.
    ///
    /// # Errors
    /// When the system has no thread left.
    pub fn start(mut self, eal: &'static Eal, stop: Arc<AtomicBool>) -> io::Result<JoinHandle<()>> {
        std::thread::Builder::new().name("host".into()).spawn(move || {
            // Without, the pool's cache is not used: nothing else.
            let _registration = Registration::new(eal);
            let mut announced = false;
            while !stop.load(Ordering::Relaxed) {
                if self.carry() {
                    self.wait(Duration::ZERO);
                    self.wakeup.end_wait();
                    announced = false;
                } else if announced {
                    self.wait(LONGEST_WAIT);
                    self.wakeup.end_wait();
                    announced = false;
                } else {
                    // The turn that follows sees what workers put in before.
                    self.wakeup.prepare_wait();
                    announced = true;
                }
            }
        })
    }

    /// One turn. Returns whether there was anything to carry.
    fn carry(&mut self) -> bool {
        let mut worked = false;
        for urgency in Urgency::ALL.into_iter().rev() {
            for _ in 0..BURSTS[urgency as usize] {
                if self.from_workers[urgency as usize].dequeue(&mut self.burst) == 0 {
                    break;
                }
                worked = true;
                for mbuf in self.burst.drain() {
                    deliver(&mut self.links, mbuf, &mut self.buffer);
                }
            }
        }
        for place in 0..self.links.len() {
            worked |= self.collect(place);
        }
        worked
    }

    /// Takes what the host sends by one interface.
    fn collect(&mut self, place: usize) -> bool {
        let link = &mut self.links[place];
        let mut frames = 0;
        while link.is_ready && frames < FRAMES {
            let Ok(length) = link.device.recv(&mut self.buffer[FRONT..]) else {
                link.is_ready = false;
                break;
            };
            frames += 1;
            let mbuf = link
                .tagged(&mut self.buffer, length)
                .and_then(|frame| self.pool.alloc_with(frame));
            let is_sent = mbuf.is_some_and(|mut mbuf| {
                mbuf.set_port(link.port.0);
                let _ = self.burst.push(mbuf);
                self.to_worker.enqueue(&mut self.burst) > 0
            });
            self.burst.clear();
            let count = if is_sent {
                &link.counts.from_host
            } else {
                &link.counts.lost
            };
            count.fetch_add(1, Ordering::Relaxed);
        }
        if frames > 0 {
            self.worker.iter().for_each(Wakeup::wake);
        }
        frames > 0
    }

    fn wait(&mut self, longest: Duration) {
        if self.poll.poll(&mut self.events, Some(longest)).is_err() {
            // Interrupted, or worse: the next turn asks again.
            return;
        }
        for event in &self.events {
            if let Some(link) = self.links.get_mut(event.token().0) {
                link.is_ready = true;
            }
        }
    }
}

/// The ends of this number of workers; the first sends what the host sends.
fn ends(workers: usize, to: [MultiProducer; 2], from: Consumer) -> Vec<HostEnd> {
    let mut from = Some(from);
    let end = |_| HostEnd {
        to: to.clone(),
        from: from.take(),
    };
    (0..workers).map(end).collect()
}

/// Gives a packet to the interface of the link that it came in by.
fn deliver(links: &mut [Link], mut mbuf: Mbuf, buffer: &mut [u8]) {
    let Ok(l2) = L2::parse(mbuf.data()) else { return };
    let tags = usize::from(l2.len) - HEADER_LEN;
    let key = l2.vlan.map_or(0, Vlan::key);
    let came_by = |link: &&mut Link| (link.port.0, link.key) == (mbuf.port(), key);
    let Some(link) = links.iter_mut().find(came_by) else {
        return;
    };
    mbuf.data_mut().copy_within(..ADDRESSES, tags);
    let is_cut = mbuf.adj(tags);
    let length = mbuf.len();
    let sent = if mbuf.is_chained() {
        let whole = buffer.get_mut(..length).filter(|_| is_cut);
        whole.is_some_and(|whole| mbuf.copy_to(0, whole) && link.device.send(whole).is_ok())
    } else {
        is_cut && link.device.send(mbuf.data()).is_ok()
    };
    let count = if sent {
        &link.counts.to_host
    } else {
        &link.counts.lost
    };
    count.fetch_add(1, Ordering::Relaxed);
}

impl Link {
    fn open(config: &Config, instance: &InstanceConfig, macs: &[MacAddr]) -> io::Result<Self> {
        let name = instance.host.as_ref().map(|host| host.interface.value.clone());
        let name = name.unwrap_or_default();
        let named = |error: io::Error| {
            let of = &instance.name.value;
            io::Error::new(
                error.kind(),
                format!("instance `{of}`: host: interface `{name}`: {error}"),
            )
        };
        let port = config
            .ports
            .iter()
            .position(|port| port.name.value == instance.port.value);
        let port = port.unwrap_or_default();
        let mtu = config
            .ports
            .get(port)
            .map_or(1_500, |port| port.mtu.value() as u16);
        let mut builder = DeviceBuilder::new()
            .name(&name)
            .layer(Layer::L2)
            .mac_addr(macs.get(port).copied().unwrap_or(MacAddr::ZERO).0)
            .mtu(mtu);
        let has_addresses = instance.host.as_ref().is_some_and(|host| host.addresses);
        let addresses = instance.addresses.iter().map(|prefix| prefix.value);
        let addresses: Vec<_> = addresses.filter(|_| has_addresses).collect();
        for (address, length) in addresses.iter().copied().filter_map(Prefix::ipv4) {
            builder = builder.ipv4(address, length, None);
        }
        let device = builder.build_sync().map_err(named)?;
        device.set_nonblocking(true).map_err(named)?;
        // The address is ours on the link already, so that no duplicate is looked for (RFC 4862 §5.4), and a socket can
        // have it at once. Where the host has no IPv6, there is nothing to set.
        let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{name}/accept_dad"), "0");
        for (address, length) in addresses.into_iter().filter_map(Prefix::ipv6) {
            device.add_address_v6(address, length).map_err(named)?;
        }
        let vlan = instance.vlan.map(|vlan| vlan.tags());
        let tags = vlan.map_or_else(Vec::new, |vlan| {
            let (octets, length) = vlan.octets();
            octets[..length].to_vec()
        });
        Ok(Self {
            device,
            port: PortId(port as u16),
            key: vlan.map_or(0, VlanTags::key),
            tags,
            is_ready: true,
            counts: Arc::new(Counts {
                instance: instance.name.value.clone(),
                interface: name,
                to_host: AtomicU64::new(0),
                from_host: AtomicU64::new(0),
                lost: AtomicU64::new(0),
            }),
        })
    }

    /// The frame of `length` octets behind the front of `buffer`, with the tags of this link.
    fn tagged<'a>(&self, buffer: &'a mut [u8], length: usize) -> Option<&'a [u8]> {
        let start = FRONT - self.tags.len();
        buffer.copy_within(FRONT..FRONT + ADDRESSES, start);
        buffer
            .get_mut(start + ADDRESSES..FRONT + ADDRESSES)?
            .copy_from_slice(&self.tags);
        buffer.get(start..FRONT + length).filter(|_| length > ADDRESSES)
    }
}

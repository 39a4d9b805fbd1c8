//! The interface itself: its address, its MTU, what its queues counted.

use std::ffi::CString;
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard};

use super::super::stats::PortStats;
use super::counts::Counts;
use crate::error::{Errno, Error};

/// The most queues each way.
pub(in crate::port) const QUEUES_MAX: u16 = 16;
/// The longest layer 3 packet that an interface is set to, octets.
pub(in crate::port) const MTU_MAX: u16 = 65_521;

/// A kernel interface that is a port.
#[derive(Debug)]
pub(in crate::port) struct Interface {
    pub(in crate::port) label: String,
    name: String,
    index: i32,
    pub(in crate::port) mac: [u8; 6],
    /// For questions about the interface, and its membership of what listens to all stations' frames; it receives
    /// nothing.
    control: OwnedFd,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    promiscuous: bool,
    rx: Vec<(Arc<Counts>, Arc<OwnedFd>)>,
    tx: Vec<Arc<Counts>>,
    /// Packets that the kernel had no room for in the rings, as far as it was asked.
    missed: u64,
    /// What had been counted when counters were set to 0.
    before: PortStats,
}

/// The last error of a system call.
pub(in crate::port) fn last_errno() -> Errno {
    Errno(io::Error::last_os_error().raw_os_error().unwrap_or_default())
}

/// A packet socket that receives nothing yet.
pub(super) fn socket() -> Result<OwnedFd, Errno> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: it takes numbers alone.
    let fd = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
    if fd < 0 {
        return Err(last_errno());
    }
    // SAFETY: the descriptor is new, and no other owner has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sets an option of a packet socket.
pub(super) fn set<T>(fd: &OwnedFd, level: i32, option: i32, value: &T) -> Result<(), Errno> {
    let length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the value lives through the call and is as long as is said; the options used here are of integers.
    let code = unsafe { libc::setsockopt(fd.as_raw_fd(), level, option, (&raw const *value).cast(), length) };
    match code {
        0 => Ok(()),
        _ => Err(last_errno()),
    }
}

/// Sets how many octets may wait for the interface. Without CAP_NET_ADMIN it is what the system allows.
pub(super) fn set_waiting(fd: &OwnedFd, octets: libc::c_int) -> Result<(), Errno> {
    set(fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &octets)
        .or_else(|_| set(fd, libc::SOL_SOCKET, libc::SO_SNDBUF, &octets))
}

impl Interface {
    /// Finds an interface of this thread's network namespace.
    pub(in crate::port) fn open(name: &str, label: String) -> Result<Interface, Error> {
        let refused = |errno| Error::Driver {
            port: label.clone(),
            step: "open",
            errno,
            log: String::new(),
        };
        let control = socket().map_err(refused)?;
        let text = CString::new(name).map_err(|_| Error::config("interface", name, "no NUL octet"))?;
        // SAFETY: the name is a string with its end.
        let index = unsafe { libc::if_nametoindex(text.as_ptr()) };
        if index == 0 {
            return Err(refused(Errno(libc::ENODEV)));
        }
        let mut interface = Interface {
            label: label.clone(),
            name: name.to_owned(),
            index: index as i32,
            mac: [0; 6],
            control,
            state: Mutex::default(),
        };
        let mut request = interface.request();
        interface
            .ask(libc::SIOCGIFHWADDR, &mut request)
            .map_err(refused)?;
        // SAFETY: the kernel has filled in the address, of integers and an array of such.
        let address = unsafe { request.ifr_ifru.ifru_hwaddr };
        if address.sa_family != libc::ARPHRD_ETHER {
            // Loopback, TUN, tunnels: their frames have no Ethernet header, or no station's addresses.
            let bound = "the name of an Ethernet interface";
            return Err(Error::config("interface", name, bound));
        }
        let octets = address.sa_data;
        for (octet, value) in interface.mac.iter_mut().zip(octets) {
            *octet = value as u8;
        }
        Ok(interface)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// A question about this interface.
    fn request(&self) -> libc::ifreq {
        // SAFETY: the structure is of integers, and of a union of such, for which zero is a value.
        let mut request: libc::ifreq = unsafe { MaybeUninit::zeroed().assume_init() };
        for (place, octet) in request.ifr_name.iter_mut().zip(self.name.bytes()) {
            *place = octet as libc::c_char;
        }
        request
    }

    fn ask(&self, what: libc::c_ulong, request: &mut libc::ifreq) -> Result<(), Errno> {
        // SAFETY: the structure is that of these requests, and may be written.
        let code = unsafe { libc::ioctl(self.control.as_raw_fd(), what as _, &raw mut *request) };
        match code {
            0 => Ok(()),
            _ => Err(last_errno()),
        }
    }

    /// An error of this port.
    pub(super) fn refused(&self, step: &'static str) -> impl Fn(Errno) -> Error + '_ {
        move |errno| Error::Driver {
            port: self.label.clone(),
            step,
            errno,
            log: String::new(),
        }
    }

    /// Lets a socket receive what comes in by the interface of these protocols (0: nothing), and send by it.
    pub(super) fn bind(&self, fd: &OwnedFd, protocol: u16) -> Result<(), Errno> {
        // SAFETY: the structure is of integers only, for which zero is a value.
        let mut address: libc::sockaddr_ll = unsafe { MaybeUninit::zeroed().assume_init() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = protocol.to_be();
        address.sll_ifindex = self.index;
        let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        // SAFETY: the address lives through the call and is as long as is said.
        match unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), length) } {
            0 => Ok(()),
            _ => Err(last_errno()),
        }
    }

    /// Keeps what a receive queue counts.
    pub(super) fn add_rx(&self, counts: &Arc<Counts>, socket: &Arc<OwnedFd>) {
        self.state().rx.push((Arc::clone(counts), Arc::clone(socket)));
    }

    /// Keeps what a send queue counts.
    pub(super) fn add_tx(&self, counts: &Arc<Counts>) {
        self.state().tx.push(Arc::clone(counts));
    }

    pub(in crate::port) fn mtu(&self) -> Result<u16, Error> {
        let mut request = self.request();
        self.ask(libc::SIOCGIFMTU, &mut request)
            .map_err(self.refused("report its MTU"))?;
        // SAFETY: the kernel has filled in the number.
        let mtu = unsafe { request.ifr_ifru.ifru_mtu };
        Ok(u16::try_from(mtu).unwrap_or(u16::MAX))
    }

    pub(in crate::port) fn set_mtu(&self, mtu: u16) -> Result<(), Error> {
        let mut request = self.request();
        request.ifr_ifru.ifru_mtu = mtu.into();
        self.ask(libc::SIOCSIFMTU, &mut request)
            .map_err(self.refused("set its MTU"))
    }

    pub(in crate::port) fn is_promiscuous(&self) -> bool {
        self.state().promiscuous
    }

    /// It is so as long as the port is open.
    pub(in crate::port) fn set_promiscuous(&self, yes: bool) -> Result<(), Error> {
        let mut state = self.state();
        if state.promiscuous == yes {
            return Ok(());
        }
        let option = match yes {
            true => libc::PACKET_ADD_MEMBERSHIP,
            false => libc::PACKET_DROP_MEMBERSHIP,
        };
        self.change_membership(option, libc::PACKET_MR_PROMISC)?;
        state.promiscuous = yes;
        Ok(())
    }

    /// Lets it receive the frames of all groups, as long as the port is open: a NIC passes those of none but the host's
    /// own addresses otherwise, and no Neighbor Solicitation (RFC 4861 §4.3) for ours.
    pub(super) fn hear_groups(&self) -> Result<(), Error> {
        self.change_membership(libc::PACKET_ADD_MEMBERSHIP, libc::PACKET_MR_ALLMULTI)
    }

    fn change_membership(&self, option: i32, of: i32) -> Result<(), Error> {
        // SAFETY: the structure is of integers only, for which zero is a value.
        let mut member: libc::packet_mreq = unsafe { MaybeUninit::zeroed().assume_init() };
        (member.mr_ifindex, member.mr_type) = (self.index, of as u16);
        let refused = self.refused("change what it receives");
        set(&self.control, libc::SOL_PACKET, option, &member).map_err(refused)
    }

    /// Whether the interface has a carrier; `None` where the kernel does not say, as for one that is set down.
    pub(in crate::port) fn has_carrier(&self) -> Option<bool> {
        let text = fs::read_to_string(format!("/sys/class/net/{}/carrier", self.name)).ok()?;
        Some(text.trim() == "1")
    }

    pub(in crate::port) fn numa_node(&self) -> Option<u16> {
        let text = fs::read_to_string(format!("/sys/class/net/{}/device/numa_node", self.name)).ok()?;
        text.trim().parse().ok()
    }

    /// What all queues counted since the counters were set to 0.
    pub(in crate::port) fn stats(&self) -> PortStats {
        let mut state = self.state();
        let all = state.total();
        let before = state.before;
        PortStats {
            rx_packets: all.rx_packets - before.rx_packets,
            rx_octets: all.rx_octets - before.rx_octets,
            rx_missed: all.rx_missed - before.rx_missed,
            rx_errors: all.rx_errors - before.rx_errors,
            rx_no_buffer: all.rx_no_buffer - before.rx_no_buffer,
            tx_packets: all.tx_packets - before.tx_packets,
            tx_octets: all.tx_octets - before.tx_octets,
            tx_errors: all.tx_errors - before.tx_errors,
        }
    }

    pub(in crate::port) fn reset_stats(&self) {
        let mut state = self.state();
        state.before = state.total();
    }
}

impl State {
    fn total(&mut self) -> PortStats {
        for (_, socket) in &self.rx {
            self.missed += missed(socket);
        }
        let sum = |of: fn(&Counts) -> &AtomicU64, counts: &[&Arc<Counts>]| -> u64 {
            counts.iter().map(|counts| Counts::read(of(counts))).sum()
        };
        let rx: Vec<&Arc<Counts>> = self.rx.iter().map(|(counts, _)| counts).collect();
        let tx: Vec<&Arc<Counts>> = self.tx.iter().collect();
        PortStats {
            rx_packets: sum(|counts| &counts.packets, &rx),
            rx_octets: sum(|counts| &counts.octets, &rx),
            rx_missed: self.missed,
            rx_errors: sum(|counts| &counts.errors, &rx),
            rx_no_buffer: sum(|counts| &counts.no_buffer, &rx),
            tx_packets: sum(|counts| &counts.packets, &tx),
            tx_octets: sum(|counts| &counts.octets, &tx),
            tx_errors: sum(|counts| &counts.errors, &tx),
        }
    }
}

/// Packets that found no room in a socket's ring since it was asked last: the kernel starts again at 0.
fn missed(socket: &OwnedFd) -> u64 {
    // SAFETY: the structure is of integers only, for which zero is a value.
    let mut stats: libc::tpacket_stats = unsafe { MaybeUninit::zeroed().assume_init() };
    let mut length = size_of::<libc::tpacket_stats>() as libc::socklen_t;
    let (level, option) = (libc::SOL_PACKET, libc::PACKET_STATISTICS);
    // SAFETY: the structure may be written and is as long as is said.
    let code = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw mut stats).cast(),
            &raw mut length,
        )
    };
    match code {
        0 => stats.tp_drops.into(),
        _ => 0,
    }
}

//! An ingress drop for each interface of the kernel that a port is: packet sockets and XDP programs get what comes in
//! by it, and the host's own network stack nothing.
//!
//! A packet socket gets copies; without the drop the host's stack would deliver, forward and refuse the same frames,
//! and neighbours on N3 and N6 would reach what listens on the host. An XDP program lets pass what comes by queues that
//! no socket serves. The drop is a base chain of nf_tables, family netdev, hook ingress, whose policy is drop: behind
//! packet sockets, before VLANs, bridges, ARP and IP. It is a table of its own for each interface: `nft list table
//! netdev sluice-n3`.
//!
//! It is taken away when the process ends in order. After a process that was killed it stays, so that the host does not
//! get the links meanwhile; the next start finds it and makes it anew. A name in the network namespace ([`Claim`]),
//! which the kernel removes with its process, shows whether the process that made one is there. Where the kernel can
//! (Linux 6.9), the table belongs to the process, so that `nft flush ruleset` leaves it alone; otherwise it is looked
//! at from time to time ([`Drops::renew`]).

use std::io;
use std::net::IpAddr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use nix::ifaddrs::getifaddrs;
use nix::libc::{EAFNOSUPPORT, EINVAL, ENOENT, EOPNOTSUPP, EPERM};
use nix::sys::socket::{SockProtocol, SockaddrStorage};

use super::netlink::{Request, Socket, flags};
use super::xdp;

/// What all tables' names begin with; the interface's follows.
const PREFIX: &str = "sluice-";
const CHAIN: &str = "ingress";

/// Messages of nf_tables (`linux/netfilter/nf_tables.h`).
const SUBSYSTEM: u16 = 10;
const NEW_TABLE: u16 = SUBSYSTEM << 8;
const GET_TABLE: u16 = SUBSYSTEM << 8 | 1;
const DELETE_TABLE: u16 = SUBSYSTEM << 8 | 2;
const NEW_CHAIN: u16 = SUBSYSTEM << 8 | 3;
const GET_CHAIN: u16 = SUBSYSTEM << 8 | 4;
const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;
/// Of tables and chains: the family, and octets before the attributes.
const NETDEV: [u8; 4] = [5, 0, 0, 0];
const BODY: usize = NETDEV.len();
const BATCH: [u8; 4] = [0, 0, 0, SUBSYSTEM as u8];

const TABLE_NAME: u16 = 1;
const TABLE_FLAGS: u16 = 2;
const TABLE_USERDATA: u16 = 6;
/// The table belongs to the socket that made it, and outlives it.
const OWNED: u32 = 2 | 4;
const CHAIN_TABLE: u16 = 1;
const CHAIN_NAME: u16 = 3;
const CHAIN_HOOK: u16 = 4;
const CHAIN_POLICY: u16 = 5;
const CHAIN_TYPE: u16 = 7;
const HOOK_NUMBER: u16 = 1;
const HOOK_PRIORITY: u16 = 2;
const HOOK_DEVICE: u16 = 3;
/// Before all others.
const FIRST: i32 = i32::MIN;
/// In the table's user data: `nft` shows it as a comment.
const COMMENT: u8 = 0;
/// Behind the comment's other words, the number of the XDP program that the process found its port to have put there.
const PROGRAM: &str = "XDP program ";

/// Why an interface cannot be kept from the host's stack.
#[derive(Debug)]
pub enum IngressError {
    /// Another process of Sluice has it.
    InUse,
    /// The kernel refuses.
    Refused(io::Error),
}

impl std::fmt::Display for IngressError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let error = match self {
            Self::InUse => return f.write_str("another process of Sluice has this interface"),
            Self::Refused(error) => error,
        };
        write!(
            f,
            "the kernel refuses an nf_tables ingress drop ({error}), so that its own network stack would get every frame, too: "
        )?;
        f.write_str(match error.raw_os_error() {
            Some(EPERM) => "CAP_NET_ADMIN is missing",
            Some(ENOENT) => "is the interface there?",
            _ => "it wants CONFIG_NF_TABLES and CONFIG_NF_TABLES_NETDEV (`modprobe nf_tables`)",
        })?;
        f.write_str("; `leave_to_host: true` beside `interface` accepts that")
    }
}

impl std::error::Error for IngressError {}

/// A name in the network namespace that says which process has an interface. It ends with the process.
#[derive(Debug)]
struct Claim(#[expect(dead_code, reason = "held, not used")] UnixDatagram);

impl Claim {
    /// `None` where a process has it already.
    fn of(interface: &str) -> io::Result<Option<Self>> {
        let name = SocketAddr::from_abstract_name(format!("sluice/interface/{interface}"))?;
        match UnixDatagram::bind_addr(&name) {
            Ok(socket) => Ok(Some(Self(socket))),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Addresses of the host's on an interface, but for those of the link alone, which every interface has: nothing reaches
/// them by an interface that is kept from it.
pub fn addresses_on(interface: &str) -> Vec<IpAddr> {
    let all = getifaddrs().into_iter().flatten();
    let there = all
        .filter(|one| one.interface_name == interface)
        .filter_map(|one| one.address);
    let address = |storage: SockaddrStorage| {
        let v4 = storage.as_sockaddr_in().map(|address| IpAddr::V4(address.ip()));
        v4.or_else(|| Some(IpAddr::V6(storage.as_sockaddr_in6()?.ip())))
    };
    let is_link = |address: &IpAddr| matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local());
    there
        .filter_map(address)
        .filter(|address| !is_link(address))
        .collect()
}

/// One interface that is kept from the host's stack.
#[derive(Debug)]
struct Held {
    interface: String,
    program: Option<u32>,
    _claim: Claim,
}

/// The interfaces that this process keeps from the host's stack. They go back to it when this is dropped.
#[derive(Debug, Default)]
pub struct Drops {
    socket: Option<Socket>,
    held: Vec<Held>,
    /// The kernel knows no tables that belong to a process and outlive it.
    is_old: bool,
}

impl Drops {
    /// Takes away what processes left behind that were killed: the XDP programs that they had put on interfaces, and
    /// their drops but for those of `wanted`, which are this process's next. Says what it was, a line for each thing.
    pub fn sweep(&mut self, wanted: &[String]) -> Vec<String> {
        let Ok(socket) = self.socket() else {
            return Vec::new();
        };
        let request = Request::default().message(GET_TABLE, flags::DUMP, 1, &NETDEV);
        let tables = socket.ask(&request, 1).unwrap_or_default();
        let found: Vec<(String, Option<u32>)> = tables
            .iter()
            .filter_map(|table| {
                let interface = table.text(BODY, TABLE_NAME)?.strip_prefix(PREFIX)?;
                let program = table.attribute(BODY, TABLE_USERDATA).and_then(program_in);
                Some((interface.to_owned(), program))
            })
            .collect();
        let mut said = Vec::new();
        for (interface, program) in found {
            // Held until the table is gone: no other process starts on it meanwhile.
            let Ok(Some(_claim)) = Claim::of(&interface) else {
                continue;
            };
            if program.is_some_and(|program| xdp::detach(&interface, program).unwrap_or(false)) {
                said.push(format!(
                    "an XDP program of a process that did not end in order is taken off {interface}"
                ));
            }
            if !wanted.contains(&interface) && self.delete(&interface).is_ok() {
                said.push(format!(
                    "the ingress drop of a process that did not end in order is taken off {interface}"
                ));
            }
        }
        said
    }

    /// Keeps an interface from the host's stack from now on.
    ///
    /// # Errors
    /// [`IngressError`].
    pub fn install(&mut self, interface: &str) -> Result<(), IngressError> {
        let claim = Claim::of(interface).map_err(IngressError::Refused)?;
        let claim = claim.ok_or(IngressError::InUse)?;
        self.write(interface, None).map_err(IngressError::Refused)?;
        self.held.push(Held {
            interface: interface.to_owned(),
            program: None,
            _claim: claim,
        });
        Ok(())
    }

    /// Notes, in the table of an interface that is held, the number of the XDP program which this process has put
    /// there.
    pub fn note_program(&mut self, interface: &str, program: u32) {
        let Some(place) = self.held.iter().position(|held| held.interface == interface) else {
            return;
        };
        if self.write(interface, Some(program)).is_ok() {
            self.held[place].program = Some(program);
        }
    }

    /// Whether this process has put the XDP program with this number on an interface.
    pub fn has_put(&self, interface: &str, program: u32) -> bool {
        let is_it = |held: &&Held| held.interface == interface;
        self.held
            .iter()
            .find(is_it)
            .is_some_and(|held| held.program == Some(program))
    }

    /// Makes anew what another process has removed: the interfaces.
    pub fn renew(&mut self) -> Vec<String> {
        let mut renewed = Vec::new();
        for place in 0..self.held.len() {
            let (interface, program) = (self.held[place].interface.clone(), self.held[place].program);
            if !self.is_there(&interface) && self.write(&interface, program).is_ok() {
                renewed.push(interface);
            }
        }
        renewed
    }

    /// Whether an interface's chain is there. Yes, where the kernel does not report it.
    fn is_there(&mut self, interface: &str) -> bool {
        let table = table(interface);
        let request = Request::default()
            .message(GET_CHAIN, flags::ACK, 1, &NETDEV)
            .text(CHAIN_TABLE, &table)
            .text(CHAIN_NAME, CHAIN);
        let answer = self.socket().and_then(|socket| socket.ask(&request, 1));
        !matches!(answer, Err(error) if error.raw_os_error() == Some(ENOENT))
    }

    fn socket(&mut self) -> io::Result<&Socket> {
        if self.socket.is_none() {
            self.socket = Some(Socket::open(SockProtocol::NetlinkNetFilter)?);
        }
        self.socket.as_ref().ok_or_else(|| io::Error::other("no socket"))
    }

    /// Makes the table of an interface, in place of one that is there.
    fn write(&mut self, interface: &str, program: Option<u32>) -> io::Result<()> {
        if !self.is_old {
            match self.socket()?.ask(&install(interface, program, OWNED), 4) {
                Err(error) if is_unknown(&error) => self.is_old = true,
                done => return done.map(drop),
            }
        }
        self.socket()?.ask(&install(interface, program, 0), 4).map(drop)
    }

    fn delete(&mut self, interface: &str) -> io::Result<()> {
        let table = table(interface);
        let request = Request::default()
            .message(BATCH_BEGIN, 0, 0, &BATCH)
            .message(DELETE_TABLE, flags::ACK, 1, &NETDEV)
            .text(TABLE_NAME, &table)
            .message(BATCH_END, 0, 2, &BATCH);
        self.socket()?.ask(&request, 1).map(drop)
    }
}

impl Drop for Drops {
    fn drop(&mut self) {
        for held in std::mem::take(&mut self.held) {
            let _ = self.delete(&held.interface);
        }
    }
}

fn table(interface: &str) -> String {
    format!("{PREFIX}{interface}")
}

/// Whether an error may be for flags that an older kernel does not know.
fn is_unknown(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(EINVAL | EOPNOTSUPP | EAFNOSUPPORT))
}

/// One transaction that puts the table of an interface in place of the one that may be there: first it is made if it is
/// not there, so that it can be deleted.
fn install(interface: &str, program: Option<u32>, of_table: u32) -> Request {
    let table = table(interface);
    let of_table = of_table.to_be_bytes();
    let comment = comment(program);
    Request::default()
        .message(BATCH_BEGIN, 0, 0, &BATCH)
        .message(NEW_TABLE, flags::CREATE, 1, &NETDEV)
        .text(TABLE_NAME, &table)
        .attribute(TABLE_FLAGS, &of_table)
        .message(DELETE_TABLE, 0, 2, &NETDEV)
        .text(TABLE_NAME, &table)
        .message(NEW_TABLE, flags::CREATE, 3, &NETDEV)
        .text(TABLE_NAME, &table)
        .attribute(TABLE_FLAGS, &of_table)
        .attribute(TABLE_USERDATA, &comment)
        .message(NEW_CHAIN, flags::CREATE | flags::ACK, 4, &NETDEV)
        .text(CHAIN_TABLE, &table)
        .text(CHAIN_NAME, CHAIN)
        .nested(CHAIN_HOOK, |hook| {
            hook.attribute(HOOK_NUMBER, &0_u32.to_be_bytes())
                .attribute(HOOK_PRIORITY, &FIRST.to_be_bytes())
                .text(HOOK_DEVICE, interface)
        })
        .attribute(CHAIN_POLICY, &0_u32.to_be_bytes())
        .text(CHAIN_TYPE, "filter")
        .message(BATCH_END, 0, 5, &BATCH)
}

/// The table's user data.
fn comment(program: Option<u32>) -> Vec<u8> {
    let mut text = "a port of Sluice: its frames are not for the host".to_owned();
    if let Some(program) = program {
        text = format!("{text}; {PROGRAM}{program}");
    }
    let mut data = vec![COMMENT, text.len() as u8 + 1];
    data.extend(text.as_bytes());
    data.push(0);
    data
}

/// The number of the XDP program that user data names.
fn program_in(data: &[u8]) -> Option<u32> {
    let text = std::str::from_utf8(data.get(2..)?.strip_suffix(&[0])?).ok()?;
    text.rsplit_once(PROGRAM)?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::sync::PoisonError;

    use super::super::PROCESSES;
    use super::*;

    #[test]
    fn a_comment_names_its_program() {
        assert_eq!(program_in(&comment(Some(4_294_967_295))), Some(u32::MAX));
        assert_eq!(program_in(&comment(None)), None);
        assert_eq!(program_in(&[]), None);
        let octets = comment(Some(7));
        assert_eq!(usize::from(octets[1]), octets.len() - 2);
    }

    #[test]
    fn one_process_has_an_interface() {
        let _alone = PROCESSES.lock().unwrap_or_else(PoisonError::into_inner);
        let name = format!("t{}", std::process::id());
        let claim = Claim::of(&name).unwrap();
        assert!(claim.is_some());
        assert!(Claim::of(&name).unwrap().is_none());
        drop(claim);
        assert!(Claim::of(&name).unwrap().is_some());
    }

    /// In a network of its own, which only root may make.
    #[test]
    fn what_others_took_away_comes_again() {
        let _alone = PROCESSES.lock().unwrap_or_else(PoisonError::into_inner);
        if !dpdk::testing::own_network() {
            println!("not run: only root can make a network namespace");
            return;
        }
        // Of a kernel that keeps tables of a process from others, no other process takes anything away.
        let mut drops = Drops::default();
        drops.is_old = true;
        drops.install("lo").unwrap();
        drops.note_program("lo", 12);
        assert!(drops.has_put("lo", 12) && !drops.has_put("lo", 13));
        assert!(drops.renew().is_empty());
        let mut others = Drops::default();
        assert!(matches!(others.install("lo"), Err(IngressError::InUse)));
        others.delete("lo").unwrap();
        assert!(!drops.is_there("lo"));
        assert_eq!(drops.renew(), ["lo"]);
        assert!(drops.is_there("lo"));
        // A process that lives keeps what it has; of one that was killed nothing is left but what is wanted again.
        assert!(others.sweep(&[]).is_empty());
        drops.held.clear();
        assert!(others.sweep(&["lo".into()]).is_empty());
        assert!(others.is_there("lo"));
        assert_eq!(others.sweep(&[]).len(), 1);
        assert!(!others.is_there("lo"));
        others.install("lo").unwrap();
        drop(others);
        assert!(!drops.is_there("lo"));
    }

    #[test]
    fn a_refusal_names_the_setting() {
        let refused = IngressError::Refused(io::Error::from_raw_os_error(EPERM)).to_string();
        assert!(refused.contains("CAP_NET_ADMIN is missing"), "{refused}");
        assert!(refused.contains("`leave_to_host: true`"), "{refused}");
    }
}

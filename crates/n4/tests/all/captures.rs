//! The PFCP requests of captured networks, replayed as their control planes sent them.
//!
//! The captures are not part of the repository: they are looked for where `SLUICE_PCAP` points, else in
//! `../shared/data/pcap` beside the checkout. Where they are missing the test says that it did not run, and
//! with `CI=true` it fails.

use crate::support;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use pfcp::message::Message;
use pfcp::{Frames, MessageType};

use support::World;
use support::fleet::network_at;

/// One UDP datagram over IPv4.
struct Datagram {
    from: SocketAddr,
    to: SocketAddr,
    payload: Vec<u8>,
}

fn captures() -> Vec<PathBuf> {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data/pcap");
    let folder = std::env::var("SLUICE_PCAP").unwrap_or_else(|_| beside.into());
    let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "pcapng"));
    files.sort();
    if files.is_empty() {
        let absent = format!("no captures in {folder}: SLUICE_PCAP names the folder");
        assert!(std::env::var("CI").as_deref() != Ok("true"), "{absent}");
        println!("{absent}; not run");
    }
    files
}

/// The datagrams of a pcapng file (draft-ietf-opsawg-pcapng) of Linux cooked captures, little endian.
fn datagrams(file: &[u8]) -> Vec<Datagram> {
    let mut rest = file;
    let mut found = Vec::new();
    while let Some((kind, length)) = word(rest, 0).zip(word(rest, 4)) {
        let Some((block, after)) = rest.split_at_checked(length as usize) else {
            break;
        };
        if length < 12 {
            break;
        }
        if kind == 6
            && let Some(captured) = word(block, 20)
        {
            found.extend(block.get(28..28 + captured as usize).and_then(udp));
        }
        rest = after;
    }
    found
}

fn word(octets: &[u8], at: usize) -> Option<u32> {
    octets
        .get(at..at + 4)
        .map(|four| u32::from_le_bytes(four.try_into().unwrap()))
}

/// The datagram in a Linux cooked frame, if it holds one over IPv4.
fn udp(frame: &[u8]) -> Option<Datagram> {
    let ip = frame.get(16..).filter(|_| frame.get(14..16) == Some(&[8, 0]))?;
    let header = usize::from(ip.first()? & 0x0f) * 4;
    let udp = ip.get(header..).filter(|_| ip.get(9) == Some(&17))?;
    let address = |at| {
        ip.get(at..at + 4)
            .map(|four| Ipv4Addr::from(<[u8; 4]>::try_from(four).unwrap()))
    };
    let number = |at| {
        udp.get(at..at + 2)
            .map(|two| u16::from_be_bytes([two[0], two[1]]))
    };
    Some(Datagram {
        from: SocketAddr::new(address(12)?.into(), number(0)?),
        to: SocketAddr::new(address(16)?.into(), number(2)?),
        payload: udp.get(8..usize::from(number(4)?))?.to_vec(),
    })
}

/// One captured user plane, played by ours.
struct Stage {
    world: World,
    /// The captured user plane's SEIDs, and ours in their place.
    seids: BTreeMap<u64, u64>,
    /// Establishments by peer and number, and our SEID.
    established: BTreeMap<(SocketAddr, u32), u64>,
    answered: usize,
}

impl Stage {
    fn new(address: IpAddr) -> Stage {
        let IpAddr::V4(address) = address else {
            unreachable!("captures are over IPv4")
        };
        let [_, _, _, host] = address.octets();
        let mut config = World::config(2);
        config.sessions.accept_cp_f_teids = true;
        Stage {
            world: World::with_network(config, network_at(Ipv4Addr::new(10, 127, 0, host))),
            seids: BTreeMap::new(),
            established: BTreeMap::new(),
            answered: 0,
        }
    }

    /// A request of the captured control plane.
    fn request(&mut self, datagram: &Datagram) {
        let mut payload = datagram.payload.clone();
        let header = Frames::new(&datagram.payload).next().unwrap().unwrap().header;
        one_prefix_each(&mut payload);
        off_loopback(&mut payload);
        if let Some(seid) = header.seid.and_then(|seid| self.seids.get(&seid.0)) {
            payload[4..12].copy_from_slice(&seid.to_be_bytes());
        }
        let replies = self.world.send(datagram.from, &payload);
        let [reply] = &replies[..] else {
            panic!("{} answers to {header:?}", replies.len())
        };
        assert_eq!(reply.header().sequence, header.sequence);
        self.answered += 1;
        if let Message::SessionEstablishmentResponse(_) = reply.message() {
            let key = (datagram.from, header.sequence.get());
            self.established.insert(key, reply.up_seid());
        }
        let accepted = reply.cause().is_none_or(|cause| cause.is_accepted());
        assert!(accepted, "{:?}", reply.message());
    }

    /// A response of the captured user plane: it shows which SEID the control plane will use.
    fn response(&mut self, datagram: &Datagram) {
        let frame = Frames::new(&datagram.payload).next().unwrap().unwrap();
        let Ok(Message::SessionEstablishmentResponse(response)) = Message::decode(&frame) else {
            return;
        };
        let ours = self.established.get(&(datagram.to, frame.header.sequence.get()));
        if let Some((theirs, ours)) = response.up_f_seid.zip(ours) {
            self.seids.insert(theirs.seid.0, *ours);
        }
    }
}

/// The captured SMF gave its UEs the addresses cafe::2, cafe::3 and so on, all of one /64, which is one UE's
/// (TS 29.244 §8.2.62), so that all but the first are rightly refused. Here they become cafe:0:0:2:: and so on.
fn one_prefix_each(payload: &mut [u8]) {
    let cafe: Vec<usize> = (0..payload.len().saturating_sub(15))
        .filter(|at| {
            payload[*at..].starts_with(&[0xca, 0xfe])
                && payload[at + 2..at + 14].iter().all(|octet| *octet == 0)
        })
        .collect();
    for at in cafe {
        let host = [payload[at + 14], payload[at + 15]];
        payload[at + 6..at + 8].copy_from_slice(&host);
        payload[at + 14..at + 16].fill(0);
    }
}

/// Some captures are of one machine whose parts have addresses 127.0.0.x. No tunnel may lead there; 10.127.0.x will do.
fn off_loopback(payload: &mut [u8]) {
    for at in 0..payload.len().saturating_sub(3) {
        if payload[at..].starts_with(&[127, 0, 0]) {
            payload[at..at + 3].copy_from_slice(&[10, 127, 0]);
        }
    }
}

#[test]
fn captured_control_planes_are_served() {
    for path in captures() {
        let mut stages: BTreeMap<SocketAddr, Stage> = BTreeMap::new();
        for datagram in datagrams(&std::fs::read(&path).unwrap()) {
            let Some(Ok(frame)) = Frames::new(&datagram.payload)
                .next()
                .filter(|_| datagram.to.port() == 8805)
            else {
                continue;
            };
            match frame.header.message_type {
                MessageType::ASSOCIATION_SETUP_REQUEST | MessageType::SESSION_ESTABLISHMENT_REQUEST => {
                    stages
                        .entry(datagram.to)
                        .or_insert_with(|| Stage::new(datagram.to.ip()))
                        .request(&datagram);
                }
                message_type if message_type.is_request() => {
                    if let Some(stage) = stages.get_mut(&datagram.to) {
                        stage.request(&datagram);
                    }
                }
                _ => {
                    if let Some(stage) = stages.get_mut(&datagram.from) {
                        stage.response(&datagram);
                    }
                }
            }
        }
        for (address, stage) in stages {
            let (left, name) = (stage.world.sessions(), path.file_name().unwrap().display());
            println!(
                "{name}, {address}: {} requests, {left} sessions left",
                stage.answered
            );
        }
    }
}

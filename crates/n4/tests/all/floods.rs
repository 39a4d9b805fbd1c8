//! Unknown nodes use up what they can, where the configuration names no peers. A control plane that answers heartbeats
//! gets its sessions all the same.

use crate::support;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use flow::InstanceId;
use n4::{AdmissionLimits, AdmissionQueue, Config, Counters, DiscardReason, LogEvent, Peers};
use pfcp::ie::Cause;
use pfcp::message::Message;
use session::{Pool, PoolRange};

use support::wire::*;
use support::*;

const SESSIONS: u32 = 2_000;
const STEP: Duration = Duration::from_millis(10);
const MASKED: u32 = 0x00ff_ffff;

/// A control plane function that may answer heartbeats, and repeats what is not answered.
struct Peer {
    address: SocketAddr,
    answers_heartbeats: bool,
    /// Requests without an answer: number, octets, steps until they are sent again.
    open: Vec<(u32, Octets, u32)>,
    sequence: u32,
    associated: bool,
    established: u32,
    refused: u32,
}

impl Peer {
    fn new(last: u8, answers_heartbeats: bool) -> Peer {
        Peer {
            address: SocketAddr::new([10, 100, 9, last].into(), 8805),
            answers_heartbeats,
            open: Vec::new(),
            sequence: 0,
            associated: false,
            established: 0,
            refused: 0,
        }
    }

    fn node(&self) -> Octets {
        let IpAddr::V4(address) = self.address.ip() else {
            panic!("an IPv4 address");
        };
        node_v4(address)
    }

    fn request(&mut self, message_type: u8, seid: Option<u64>, ies: &[Octets]) {
        self.sequence += 1;
        let octets = message(message_type, seid, self.sequence, ies);
        self.open.push((self.sequence, octets, 0));
    }

    fn set_up(&mut self) {
        let ies = [self.node(), recovery(100)];
        self.request(5, None, &ies);
    }

    /// A session whose UE address the user plane is to choose.
    fn establish(&mut self, number: u32) {
        // CHV4, and S/D beside it.
        let ue_choice = |flags: u8| ie(93, [flags]);
        let mut session = plain_session(u64::from(number) + 1, UE);
        session[0] = self.node();
        session[1] = f_seid(u64::from(number) + 1, self.address.ip());
        session[2] = create_pdr(&[
            pdr_id(1),
            precedence(100),
            pdi(&[source_if(ACCESS), choose(V4, None), ue_choice(0x10)]),
            outer_header_removal(0),
            far_id(1),
            urr_id(1),
            qer_id(1),
        ]);
        session[3] = create_pdr(&[
            pdr_id(2),
            precedence(100),
            pdi(&[source_if(CORE), network_instance("internet"), ue_choice(0x14)]),
            far_id(2),
            urr_id(1),
            qer_id(1),
        ]);
        self.request(50, Some(0), &session);
    }

    /// What it sends in this step: new requests, and old ones every second.
    fn sends(&mut self) -> Vec<Octets> {
        let mut due = Vec::new();
        for (_, octets, wait) in &mut self.open {
            if *wait == 0 {
                due.push(octets.clone());
                *wait = 100;
            }
            *wait -= 1;
        }
        due
    }

    /// Takes what came for it; answers what it says to that.
    fn takes(&mut self, reply: &Reply) -> Option<Octets> {
        let sequence = reply.header().sequence.get() & MASKED;
        match reply.message() {
            Message::HeartbeatRequest(_) => self
                .answers_heartbeats
                .then(|| message(2, None, sequence, &[recovery(100)])),
            answer => {
                self.open.retain(|(own, ..)| *own != sequence);
                let is_accepted = reply.cause() == Some(Cause::REQUEST_ACCEPTED);
                match answer {
                    Message::AssociationSetupResponse(_) => self.associated |= is_accepted,
                    _ if is_accepted => self.established += 1,
                    _ => self.refused += 1,
                }
                None
            }
        }
    }
}

struct Siege {
    world: World,
    intake: AdmissionQueue,
}

impl Siege {
    fn new(change: impl FnOnce(&mut Config)) -> Siege {
        let mut config = World::config(2);
        config.heartbeat_interval = Some(Duration::from_secs(10));
        config.unverified_percent = 10;
        config.sessions.max_sessions = SESSIONS;
        let first = Ipv4Addr::new(10, 60, 0, 1);
        let last = Ipv4Addr::from_bits(first.to_bits() + SESSIONS - 1);
        config.sessions.pools = vec![Pool {
            name: "users".into(),
            instance: InstanceId(1),
            ranges: vec![PoolRange::ipv4(first, last).unwrap()],
        }];
        change(&mut config);
        Siege {
            world: World::with(config),
            intake: AdmissionQueue::new(AdmissionLimits::default()),
        }
    }

    /// A step of time: all peers send, all requests are served, all peers receive.
    fn step(&mut self, peers: &mut [Peer]) {
        self.world.now = self.world.now + STEP;
        let mut sent: Vec<_> = peers
            .iter_mut()
            .flat_map(|peer| {
                peer.sends()
                    .into_iter()
                    .map(|octets| (peer.address, octets))
                    .collect::<Vec<_>>()
            })
            .collect();
        while !sent.is_empty() {
            for (from, octets) in sent.drain(..) {
                self.intake
                    .offer(self.world.now, &mut self.world.n4, from, upf(), &octets);
            }
            while self.intake.serve(self.world.now, &mut self.world.n4) {}
            let replies = self.world.pass(Duration::ZERO);
            for reply in replies {
                let peer = peers.iter_mut().find(|peer| peer.address.ip() == reply.0.to.ip());
                if let Some(peer) = peer {
                    sent.extend(peer.takes(&reply).map(|octets| (peer.address, octets)));
                }
            }
        }
    }

    fn counters(&self) -> &Counters {
        self.world.n4.counters()
    }
}

/// Eight nodes that answer no heartbeats and one that does, for twenty seconds; it comes at the eleventh.
fn besiege(siege: &mut Siege, wanted: u32) -> Vec<Peer> {
    let mut peers: Vec<Peer> = (1..=9).map(|last| Peer::new(last, last == 9)).collect();
    for peer in &mut peers[..8] {
        peer.set_up();
    }
    for number in 0..2_000 {
        for peer in &mut peers[..8] {
            // They care for no answer, and repeat nothing.
            peer.open.retain(|(_, _, wait)| *wait == 0);
            peer.establish(number);
        }
        let smf = &mut peers[8];
        match number {
            1_100 => smf.set_up(),
            1_101.. if smf.associated && smf.sequence <= wanted => {
                (0..5).for_each(|place| smf.establish(number * 5 + place));
            }
            _ => {}
        }
        siege.step(&mut peers);
    }
    (0..300).for_each(|_| siege.step(&mut peers[8..]));
    peers
}

#[test]
fn a_control_plane_that_answers_heartbeats_gets_its_sessions_among_eight_that_flood() {
    let mut siege = Siege::new(|_| ());
    let peers = besiege(&mut siege, 1_500);
    let (flooders, smf) = peers.split_at(8);
    let taken: u32 = flooders.iter().map(|peer| peer.established).sum();
    assert_eq!(taken, SESSIONS / 10, "of sessions, and of the pool");
    assert!(smf[0].established >= 1_500, "{}", smf[0].established);
    assert_eq!(smf[0].refused, 0);
    assert!(siege.counters().unverified > 0);
    let sessions = siege.world.n4.sessions();
    assert_eq!(sessions.count().sessions, (taken + smf[0].established) as usize);
}

#[test]
fn without_that_limit_floods_take_everything() {
    let mut siege = Siege::new(|config| config.unverified_percent = 100);
    let peers = besiege(&mut siege, 1_500);
    assert!(peers[8].established < 100, "{}", peers[8].established);
    assert_eq!(siege.counters().unverified, 0);
}

/// Associations are scarce: a peer without one receives a heartbeat before it gets one.
#[test]
fn a_control_plane_that_answers_heartbeats_gets_an_association_among_a_thousand() {
    let mut siege = Siege::new(|config| config.unknown_rate = 0);
    for number in 0..1_500u32 {
        let [_, _, high, low] = number.to_be_bytes();
        let from = SocketAddr::new([10, 200, high, low].into(), 8805);
        let set_up = message(
            5,
            None,
            1,
            &[node_name(format!("smf{number}").as_bytes()), recovery(100)],
        );
        let now = siege.world.now;
        siege.intake.offer(now, &mut siege.world.n4, from, upf(), &set_up);
    }
    siege.world.transmits();
    assert_eq!(siege.world.n4.associations().count(), 100);
    let mut smf = [Peer::new(9, true)];
    smf[0].set_up();
    siege.step(&mut smf);
    assert!(!smf[0].associated, "it is asked");
    (0..150).for_each(|_| siege.step(&mut smf));
    assert!(smf[0].associated);
    let association = siege.world.n4.associations().last().unwrap();
    assert!(association.verified);
    // One that is not where it says stays outside.
    let mut unknown = [Peer::new(8, false)];
    unknown[0].set_up();
    (0..500).for_each(|_| siege.step(&mut unknown));
    assert!(!unknown[0].associated);
}

#[test]
fn datagrams_from_outside_the_prefixes_of_peers_are_counted_and_logged_and_not_read() {
    let prefix: rules::prefix::IpPrefix = "10.100.9.0/29".parse().unwrap();
    let mut siege = Siege::new(|config| config.peers = vec![Peers::from(prefix)]);
    let mut peers = [Peer::new(1, false), Peer::new(9, false)];
    peers.iter_mut().for_each(Peer::set_up);
    (0..3).for_each(|_| siege.step(&mut peers));
    assert_eq!((peers[0].associated, peers[1].associated), (true, false));
    assert_eq!(siege.counters().outside_peers, 1);
    assert_eq!(siege.counters().datagrams, 1);
    let now = siege.world.now;
    let events: Vec<_> = std::iter::from_fn(|| siege.world.n4.poll_log(now)).collect();
    let [
        (LogEvent::AssociationUp { peer, is_again }, 0),
        (LogEvent::Discarded { source, why }, 0),
    ] = &events[..]
    else {
        panic!("{events:?}");
    };
    assert_eq!(
        (source.ip(), *why),
        (peers[1].address.ip(), DiscardReason::OutsidePeers)
    );
    assert_eq!((peer.peer, *is_again), (peers[0].address, false));
    // Peers of a prefix are believed to be there.
    assert!(siege.world.n4.associations().all(|one| one.verified));
}

#[test]
fn sources_without_an_association_are_read_at_a_rate() {
    let mut siege = Siege::new(|_| ());
    let heartbeat = message(1, None, 1, &[recovery(100)]);
    let unknown = SocketAddr::new([10, 100, 9, 1].into(), 8805);
    let offer = |siege: &mut Siege, from| {
        let now = siege.world.now;
        siege
            .intake
            .offer(now, &mut siege.world.n4, from, upf(), &heartbeat);
        siege.world.transmits().len()
    };
    let answered: usize = (0..1_000).map(|_| offer(&mut siege, unknown)).sum();
    assert_eq!((answered, siege.counters().unknown_over_rate), (100, 900));
    let other = SocketAddr::new([10, 100, 9, 2].into(), 8805);
    assert_eq!(offer(&mut siege, other), 1);
    siege.world.associate();
    let answered: usize = (0..1_000).map(|_| offer(&mut siege, smf())).sum();
    assert_eq!(answered, 1_000, "a peer has no such limit");
}

#[test]
fn each_message_of_a_bundle_counts_against_the_rate_of_its_source() {
    const FOLLOW_ON: u8 = 4;
    let mut siege = Siege::new(|_| ());
    let unknown = SocketAddr::new([10, 100, 9, 1].into(), 8805);
    for datagram in 0..100 {
        let mut bundle = Octets::new();
        for number in 1..=40 {
            let mut deletion = message(54, Some(7), datagram * 40 + number, &[]);
            deletion[0] |= if number < 40 { FOLLOW_ON } else { 0 };
            bundle.extend(deletion);
        }
        let now = siege.world.now;
        siege
            .intake
            .offer(now, &mut siege.world.n4, unknown, upf(), &bundle);
    }
    // Two seconds' worth of 50 messages: two datagrams of 40.
    assert_eq!((siege.counters().answered, siege.counters().datagrams), (80, 2));
    assert_eq!(siege.counters().unknown_over_rate, 98);
}

/// A sender with an address of its own, in the name of others, cannot know the heartbeats to these.
#[test]
fn the_heartbeat_of_one_peer_does_not_show_the_number_of_anothers() {
    let mut siege = Siege::new(|_| ());
    let mut peers: Vec<Peer> = (1..=8).map(|last| Peer::new(last, false)).collect();
    peers.iter_mut().for_each(Peer::set_up);
    siege.step(&mut peers);
    assert!(peers.iter().all(|peer| peer.associated));
    let beats = siege.world.pass(Duration::from_secs(10));
    let mut numbers: Vec<u32> = beats.iter().map(|beat| beat.header().sequence.get()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers.len(), 8);
    let near = numbers.windows(2).filter(|pair| pair[1] - pair[0] < 1_000);
    assert_eq!(near.count(), 0, "{numbers:?}");
}

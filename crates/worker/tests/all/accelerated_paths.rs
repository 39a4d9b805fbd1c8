//! Routes over several routers behind an accelerator: a packet takes the path that it takes where the worker is alone,
//! wherever it passes, also when routers fall silent and are back.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use flow::{PortId, SessionIndex};
use packet::Teid;
use rules::SessionRules;
use rules::image::SessionChange;
use rules::model::OuterHeaderCreation;
use rules::network::{Network, Route};
use rules::testing::{self, N3, N3_ADDRESS, N6, UserPacket, pdu_session, tunnelled};
use worker::{Command, OffloadPolicy};

use crate::accelerated::{Link, Pair, counts};
use crate::common::one_session::{REMOTE, ip, of_ue};
use crate::common::{World, mac_of, paths};
use crate::offload::{BUFFERS, host_in};

const UES: u8 = 4;
const SERVERS: u8 = 16;
const TOWARDS_GNBS: [&str; 2] = ["10.0.3.253", "10.0.3.254"];
const ROUTERS: [&str; 3] = ["10.0.6.2", "10.0.6.3", "10.0.6.4"];

/// The small network with several routers towards the data network, and towards gNBs.
fn network() -> Network {
    testing::network_with(|instance| {
        let several = |prefix: &str, hops: &[&str]| {
            let route = |hop: &&str| Route {
                prefix: prefix.parse().expect("a prefix"),
                next_hop: ip(hop),
            };
            hops.iter().map(route).collect()
        };
        match instance.id {
            N3 => instance.routes = several("10.200.0.0/16", &TOWARDS_GNBS),
            N6 => instance.routes = several("0.0.0.0/0", &ROUTERS),
            _ => {}
        }
    })
}

const fn ue(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 45, 0, 10 + number)
}

const fn teid(number: u8) -> u32 {
    0x2000 + number as u32
}

/// A session whose gNB is behind routers.
fn session(number: u8) -> SessionRules {
    let gnb = Ipv4Addr::new(10, 200, 0, 9);
    let tunnel = OuterHeaderCreation::gtpu_ipv4(Teid(77 + u32::from(number)), gnb);
    let mut rules = pdu_session(teid(number), tunnel);
    of_ue(&mut rules, teid(number), ue(number));
    rules
}

/// Packets of all UEs to all servers, and one to each UE.
fn packets() -> Vec<(u16, Vec<u8>)> {
    let of_ue = |number| {
        let up = (0..SERVERS).map(move |server| {
            let inner = UserPacket::udp(ue(number), Ipv4Addr::new(198, 51, 100, server), 1000, 53);
            let packet = tunnelled(
                N3_ADDRESS,
                teid(number),
                255,
                Some([0x10, 9]),
                &[],
                &inner.bytes(),
            );
            (0, packet)
        });
        up.chain([(1, UserPacket::udp(REMOTE, ue(number), 53, 1000).bytes())])
    };
    (0..UES).flat_map(of_ue).collect()
}

/// A worker with an accelerator, and one that is alone.
struct Both {
    pair: Pair,
    behind: Arc<Network>,
    alone: World,
}

impl Both {
    fn new() -> Self {
        let host = host_in(&network(), OffloadPolicy::default());
        let behind = Arc::clone(&host.network);
        let mut both = Self {
            pair: Pair::with_queues(host, Link::Whole, None),
            behind,
            alone: World::with(network(), 1, |config| config.buffers = BUFFERS),
        };
        both.answer(|_| true);
        for number in 0..UES {
            both.alone.install(number.into(), session(number));
            let image = both.pair.image(number.into(), session(number));
            both.pair.apply(SessionChange::Install(image));
        }
        both
    }

    /// Routers answer, or do not.
    fn answer(&mut self, does_answer: impl Fn(IpAddr) -> bool) {
        for change in paths(&self.behind, &does_answer) {
            let command = Command::Adjacency(change);
            self.pair.control.commands.push(command).expect("there is room");
        }
        self.pair.rest();
        for change in paths(&self.alone.network, &does_answer) {
            self.alone.tell_adjacency(change);
        }
    }

    /// Lets all packets arrive, one by one: what leaves, which is the same of both.
    fn pass_all(&mut self) -> Vec<(PortId, Vec<u8>)> {
        let mut left = Vec::new();
        for (port, packet) in packets() {
            self.pair.arrive(port, &packet);
            (0..50).for_each(|_| self.pair.step());
            let sent = self.pair.take();
            assert_eq!(sent, self.alone.send(port, &packet));
            left.extend(sent);
        }
        left
    }

    /// The same at the accelerator alone.
    fn pass_all_there(&mut self) -> Vec<(PortId, Vec<u8>)> {
        self.pair.rest();
        assert_eq!(self.pair.host.offload_stats().away, UES.into());
        let before = self.pair.host.stats().ports.clone();
        let sent = self.pass_all();
        assert_eq!(self.pair.host.stats().ports, before, "none is the host's");
        sent
    }
}

/// The stations that frames lead to.
fn stations(frames: &[(PortId, Vec<u8>)]) -> BTreeSet<[u8; 6]> {
    let station = |frame: &Vec<u8>| frame[..6].try_into().expect("6 octets");
    frames.iter().map(|(_, frame)| station(frame)).collect()
}

#[test]
fn packets_take_the_same_path_wherever_they_pass() {
    let mut both = Both::new();
    both.pass_all();
    both.pass_all();
    let left = both.pass_all_there();
    assert_eq!(left.len(), packets().len());
    let n6 = ROUTERS.map(|router| (N6, router));
    let n3 = TOWARDS_GNBS.map(|router| (N3, router));
    let routers = n6.into_iter().chain(n3);
    let all: BTreeSet<_> = routers.map(|(by, router)| mac_of(by, ip(router)).0).collect();
    assert_eq!(stations(&left), all, "all routers have some");
    for number in 0..UES {
        let usage = [
            both.pair.query(number.into()),
            both.alone.query(0, SessionIndex(number.into())),
        ];
        let [of_both, of_one] = usage.map(|usage| counts(&usage));
        assert_eq!(of_both, of_one);
    }
}

#[test]
fn the_others_take_over_from_a_router_that_falls_silent() {
    let mut both = Both::new();
    both.pass_all();
    both.pass_all();
    let before = both.pass_all_there();
    let silent = ip(ROUTERS[1]);
    both.answer(|router| router != silent);
    let meanwhile = both.pass_all_there();
    let its = mac_of(N6, silent).0;
    assert!(stations(&before).contains(&its) && !stations(&meanwhile).contains(&its));
    for ((_, before), (_, meanwhile)) in before.iter().zip(&meanwhile) {
        assert!(before[..6] == its || before == meanwhile, "only its packets move");
    }
    both.answer(|_| true);
    assert_eq!(both.pass_all_there(), before, "they are back");
}

#[test]
fn packets_wait_at_home_while_no_router_answers() {
    let mut both = Both::new();
    both.pass_all();
    both.pass_all();
    both.pass_all_there();
    both.answer(|router| !router.to_string().starts_with("10.0.6."));
    let meanwhile = both.pass_all();
    assert!(
        meanwhile.iter().all(|(port, _)| *port == PortId(0)),
        "downlink passes"
    );
    both.answer(|_| true);
    let mut sent = both.pair.take();
    both.alone.poll();
    let mut expected = both.alone.take();
    sent.sort();
    expected.sort();
    assert_eq!(sent.len(), usize::from(UES * SERVERS));
    assert_eq!(sent, expected);
}

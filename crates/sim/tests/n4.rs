//! The simulated SMF against the N4 endpoint of the user plane, one thread, simulated time, over a network that loses,
//! doubles and delays. Workers answer at once.

use n4::{Endpoint, NodeName};
use proptest::prelude::*;
use rules::image::{SessionChange, UsageSnapshot};
use session::{Effect, Random};
use sim::Nanos;
use sim::smf::{Config, DownlinkSetup, PduType, SessionProfile, Smf, State};
use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

#[path = "../../session/tests/support/fleet.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod fleet;

use fleet::{EveryNextHop, network};

const UPF: Ipv4Addr = Ipv4Addr::new(10, 100, 0, 1);
const SMF: Ipv4Addr = Ipv4Addr::new(10, 100, 0, 2);
const N3: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 10);

fn at(address: Ipv4Addr) -> SocketAddr {
    SocketAddr::new(address.into(), 8805)
}

/// Random numbers that decide loss, duplication and delay of datagrams.
struct Fate(u64);

impl Fate {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

struct World {
    now: Nanos,
    smf: Smf,
    upf: Endpoint,
    fate: Fate,
    trouble: u64,
    to_smf: Vec<(Nanos, Vec<u8>)>,
    to_upf: Vec<(Nanos, Vec<u8>)>,
    installed: HashSet<flow::SessionIndex>,
}

impl World {
    /// `trouble`: of a hundred datagrams this many are lost, and as many are doubled.
    fn new(config: Config, trouble: u64, seed: u64) -> World {
        let mut upf = n4::Config::new(NodeName::Ipv4(UPF), 2);
        upf.recovery_unix = 1_700_000_000;
        upf.heartbeat_interval = Some(Duration::from_secs(1));
        let random = Random::from_number(seed);
        World {
            now: Nanos(0),
            smf: Smf::new(config).unwrap(),
            upf: Endpoint::new(upf, network(), Box::new(EveryNextHop), random),
            fate: Fate(seed),
            trouble,
            to_smf: Vec::new(),
            to_upf: Vec::new(),
            installed: HashSet::new(),
        }
    }

    fn arrivals(&mut self, datagram: &[u8]) -> Vec<(Nanos, Vec<u8>)> {
        let lost = self.fate.below(100) < self.trouble;
        let doubled = self.fate.below(100) < self.trouble;
        let copies = u64::from(!lost) + u64::from(doubled);
        let delay = |fate: &mut Fate| Duration::from_micros(100 + fate.below(2000));
        (0..copies)
            .map(|_| (self.now + delay(&mut self.fate), datagram.to_vec()))
            .collect()
    }

    fn work(&mut self) {
        while let Some(effect) = self.upf.poll_effect() {
            let (op, usage) = match effect {
                Effect::Apply { op, change, .. } => (op, self.apply(change)),
                Effect::Query { op, session, .. } => (
                    op,
                    Some(UsageSnapshot {
                        session,
                        ..UsageSnapshot::default()
                    }),
                ),
                Effect::Fence { op, .. } | Effect::Drain { op, .. } => (op, None),
                Effect::SelectWorker { .. } | Effect::PortBlock { .. } => continue,
            };
            self.upf.handle_applied(self.now, op, Ok(usage));
        }
    }

    fn apply(&mut self, change: SessionChange) -> Option<UsageSnapshot> {
        let (session, fits) = match change {
            SessionChange::Install(image) => (image.session, self.installed.insert(image.session)),
            SessionChange::Replace(image, _) => (image.session, self.installed.contains(&image.session)),
            SessionChange::Remove(session) => (session, self.installed.remove(&session)),
            SessionChange::Bound(session, _) => (session, self.installed.contains(&session)),
        };
        assert!(fits, "an effect for {session:?} does not fit what is installed");
        Some(UsageSnapshot {
            session,
            ..UsageSnapshot::default()
        })
    }

    fn exchange(&mut self) {
        while let Some(datagram) = self.smf.poll_transmit() {
            let arrivals = self.arrivals(&datagram);
            self.to_upf.extend(arrivals);
        }
        self.work();
        while let Some(transmit) = self.upf.poll_transmit() {
            assert_eq!(transmit.to.ip(), IpAddr::V4(SMF));
            let arrivals = self.arrivals(&transmit.bytes);
            self.to_smf.extend(arrivals);
        }
    }

    fn run_until(&mut self, state: State) {
        while self.smf.state() != state && self.now < Nanos::from_secs(600) {
            self.exchange();
            let arrivals = self.to_smf.iter().chain(&self.to_upf).map(|(at, _)| *at).min();
            let timeouts = [arrivals, self.smf.poll_timeout(), self.upf.poll_timeout()];
            self.now = self
                .now
                .max(timeouts.into_iter().flatten().min().expect("something is due"));
            for datagram in due(&mut self.to_upf, self.now) {
                self.upf.handle_datagram(self.now, at(SMF), at(UPF), &datagram);
                self.work();
            }
            for datagram in due(&mut self.to_smf, self.now) {
                self.smf.handle(self.now, &datagram);
            }
            self.smf.handle_timeout(self.now);
            self.upf.handle_timeout(self.now);
        }
        assert_eq!(self.smf.state(), state, "{:?}", self.smf.progress());
    }
}

/// Datagrams that have arrived by `now`, in the order of arrival.
fn due(on_its_way: &mut Vec<(Nanos, Vec<u8>)>, now: Nanos) -> Vec<Vec<u8>> {
    on_its_way.sort_by_key(|(at, _)| *at);
    let count = on_its_way.partition_point(|(at, _)| *at <= now);
    on_its_way.drain(..count).map(|(_, datagram)| datagram).collect()
}

fn config(sessions: u32, profile: SessionProfile) -> Config {
    Config {
        n1: 20,
        heartbeat: Some(Duration::from_secs(1)),
        profile,
        ..Config::new(SMF.into(), sessions)
    }
}

fn up_and_down(mut world: World, sessions: u32) {
    world.smf.start(world.now);
    world.run_until(State::Established);
    let progress = world.smf.progress();
    assert_eq!(
        (progress.up, progress.failed),
        (sessions, 0),
        "{:?}",
        world.smf.sessions()[0]
    );
    assert_eq!(world.installed.len(), sessions as usize);
    let teids: HashSet<u32> = world
        .smf
        .sessions()
        .iter()
        .map(|session| session.uplink_teid.0)
        .collect();
    assert_eq!(teids.len(), sessions as usize);
    assert!(
        world
            .smf
            .sessions()
            .iter()
            .all(|session| session.uplink_ipv4 == Some(N3))
    );
    assert_eq!(world.upf.sessions().count().sessions, sessions as usize);
    world.smf.release(world.now);
    world.run_until(State::Released);
    world.exchange();
    assert_eq!(world.smf.progress().deletion.count, u64::from(sessions));
    assert!(world.installed.is_empty());
    assert_eq!(world.upf.associations().count(), 0);
}

#[test]
fn each_way_to_set_the_downlink_up_is_served() {
    for downlink in [
        DownlinkSetup::AtOnce,
        DownlinkSetup::FromDrop,
        DownlinkSetup::FromNoTunnel,
    ] {
        for pdu_type in [PduType::Ipv4, PduType::Ipv6, PduType::Ipv4v6] {
            let profile = SessionProfile {
                downlink,
                pdu_type,
                mbr: Some((1000, 2000)),
                ..SessionProfile::default()
            };
            up_and_down(World::new(config(5, profile), 0, 1), 5);
        }
    }
}

#[test]
fn filters_and_choose_ids_are_served() {
    let sdf = Some("permit out 17 from 198.51.100.0/24 5001 to assigned".into());
    let profile = SessionProfile {
        sdf,
        choose_id: Some(5),
        ..SessionProfile::default()
    };
    up_and_down(World::new(config(5, profile), 0, 1), 5);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn trouble_on_the_way_costs_time_only(seed in any::<u64>(), trouble in 0u64..25) {
        let profile = SessionProfile { pdu_type: PduType::Ipv4v6, ..SessionProfile::default() };
        up_and_down(World::new(config(60, profile), trouble, seed), 60);
    }
}

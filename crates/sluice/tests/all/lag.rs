//! Control and workers with a LAG, on simulated time, with a switch that speaks LACP by the same machine.

use std::sync::Arc;
use std::time::Duration;

use config::Config;
use flow::{Nanos, PortId, WorkerId};
use packet::{MacAddr, checksum};
use session::Random;
use transport::lag::{LacpConfig, Lag, LagConfig, LagMember, LagMode, Slow};
use upf::{Assembly, Control, LinkEvent, Surroundings, assemble};
use worker::Worker;
use worker::mem::{MemBuf, MemIo, Wires};

const STEP: Duration = Duration::from_millis(1);
const OURS: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const STATION: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xaa]);
/// The members' place among the ports, and the LAG's.
const MEMBERS: [PortId; 2] = [PortId(0), PortId(1)];
const LAG: PortId = PortId(2);

struct World {
    now: Nanos,
    control: Control,
    worker: Worker<MemIo>,
    wires: Wires,
    switch: Lag,
    /// Links that the switch's side has, too.
    up: [bool; 2],
    /// Answers to pings since they were taken last, by link.
    answers: [usize; 2],
}

impl World {
    fn new(mode: &str) -> Self {
        let text = format!(
            "node: {{id: 127.0.0.8}}\n\
             n4: {{addresses: [127.0.0.8]}}\n\
             icmp: {{pings_s: 10000, pings_per_source_s: 10000}}\n\
             limits: {{sessions: 64, flows_ipv4: 4096, flows_ipv6: 1024}}\n\
             ports:\n\
             \x20 - {{name: left, driver: {{memory: {{}}}}}}\n\
             \x20 - {{name: right, driver: {{memory: {{}}}}}}\n\
             \x20 - {{name: core, lag: {{mode: {mode}, members: [left, right]}}}}\n\
             instances:\n\
             \x20 - {{name: internet, roles: [n6], port: core, addresses: [10.200.0.1/24],\n\
             \x20    routes: [{{to: 0.0.0.0/0, via: 10.200.0.254}}]}}\n"
        );
        let config = Config::parse(&text, "world").expect("a good configuration");
        let network = Arc::new(config.network().expect("a network"));
        let macs = vec![OURS, MacAddr([2, 0, 0, 0, 0, 2]), OURS];
        let now = Nanos::from_secs(1);
        let around = Surroundings {
            now,
            clock_unix: 1_700_000_000,
            random: Random::from_number(7),
            interfaces: network
                .instances()
                .iter()
                .map(|one| worker::interface(one, &macs))
                .collect(),
            macs,
        };
        let Assembly { control, mut workers } = assemble(&config, &network, around);
        let (wires, mut ios) = Wires::new(1, 3, 4096);
        let (made, link) = workers.pop().expect("one worker");
        let worker = Worker::new(made, ios.pop().expect("its queues"), link).expect("memory");
        let switch = Lag::new(LagConfig {
            port: LAG,
            mode: LagMode::Lacp(LacpConfig {
                fast: true,
                system_priority: 1,
                key: 1,
            }),
            mac: STATION,
            members: MEMBERS.map(|port| LagMember { port, mac: STATION }).into(),
        });
        let mut world = Self {
            now,
            control,
            worker,
            wires,
            switch,
            up: [false; 2],
            answers: [0; 2],
        };
        (0..2).for_each(|link| world.set_link(link, true));
        world
    }

    fn set_link(&mut self, link: usize, up: bool) {
        self.up[link] = up;
        self.control.set_link(self.now, MEMBERS[link], up);
        self.switch.set_link(self.now, link, up);
    }

    fn send(&self, link: usize, frame: &[u8]) {
        if self.up[link] {
            let queue = self.wires.to(WorkerId(0), MEMBERS[link]);
            queue.push(MemBuf::new(frame)).expect("there is room");
        }
    }

    fn step(&mut self) {
        self.now = self.now + STEP;
        self.switch.handle_timeout(self.now);
        while let Some(frame) = self.switch.poll_transmit(self.now) {
            self.send(frame.port.index(), &frame.bytes);
        }
        self.control.poll(self.now);
        self.worker.poll(self.now);
        for (link, member) in MEMBERS.into_iter().enumerate() {
            while let Some(frame) = self.wires.from(member).pop() {
                self.take(link, frame.bytes());
            }
        }
        assert!(self.wires.from(LAG).is_empty(), "a LAG has no queue of its own");
    }

    /// What the switch does with a frame of ours.
    fn take(&mut self, link: usize, frame: &[u8]) {
        if !self.up[link] {
            return;
        }
        match Slow::parse(frame) {
            Some(Slow::Lacp(pdu)) => return self.switch.handle(self.now, link, &pdu),
            Some(_) => return,
            None => {}
        }
        match frame[12..14] {
            // Every requested address is here.
            [8, 6] if frame[20..22] == [0, 1] && frame[28..32] != frame[38..42] => {
                let mut answer = [&OURS.0[..], &STATION.0, &frame[12..20], &[0, 2], &STATION.0].concat();
                answer.extend(&frame[38..42]);
                answer.extend(&frame[22..32]);
                answer.resize(60, 0);
                self.send(link, &answer);
            }
            [8, 0] => self.answers[link] += 1,
            _ => {}
        }
    }

    fn run(&mut self, steps: usize) {
        (0..steps).for_each(|_| self.step());
    }

    /// Sends a ping by a link in each of a number of steps; how many were answered, by link.
    fn ping(&mut self, link: usize, steps: usize) -> [usize; 2] {
        self.answers = [0; 2];
        let mut icmp = vec![8, 0, 0, 0, 0, 1, 0, 1];
        let sum = checksum::Sum::default().bytes(&icmp).checksum();
        icmp[2..4].copy_from_slice(&sum.to_be_bytes());
        let mut ip = vec![
            0x45, 0, 0, 28, 0, 0, 0, 0, 64, 1, 0, 0, 10, 200, 0, 254, 10, 200, 0, 1,
        ];
        let sum = checksum::Sum::default().bytes(&ip).checksum();
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        let mut frame = [&OURS.0[..], &STATION.0, &[8, 0], &ip, &icmp].concat();
        frame.resize(60, 0);
        for _ in 0..steps {
            self.send(link, &frame);
            self.step();
        }
        self.answers
    }

    fn events(&mut self) -> Vec<LinkEvent> {
        std::iter::from_fn(|| self.control.poll_link_event()).collect()
    }

    fn states(&self) -> Vec<(String, bool)> {
        let ports = oam::views::ports(&self.control).ports;
        ports.into_iter().map(|row| (row.state, row.link)).collect()
    }
}

#[test]
fn lacp_brings_a_lag_up_and_a_link_that_goes_costs_what_was_under_way() {
    let mut world = World::new("lacp");
    assert_eq!(world.ping(0, 100), [0, 0], "nothing before both agree");
    world.run(4_000);
    assert_eq!(world.control.neighbours(world.now), 1);
    let first = world.ping(1, 100);
    assert_eq!(first.iter().sum::<usize>(), 100);
    // What belongs to no flow goes by one member.
    assert_eq!(first.iter().filter(|count| **count > 0).count(), 1, "{first:?}");
    let carrying = usize::from(first[0] == 0);
    let states = world.states();
    assert_eq!(states[0], ("distributing".to_owned(), true));
    assert_eq!(states[2], ("up".to_owned(), true));
    world.events();

    world.set_link(carrying, false);
    let after = world.ping(1 - carrying, 100);
    assert_eq!(
        after[1 - carrying],
        100,
        "the first answer after it goes by the other"
    );
    let events = world.events();
    assert!(events.contains(&LinkEvent::Down(MEMBERS[carrying])), "{events:?}");
    assert!(
        events.iter().any(|one| matches!(
            one,
            LinkEvent::Member {
                distributing: false,
                state: "link down",
                ..
            }
        )),
        "{events:?}"
    );
    world.set_link(carrying, true);
    world.run(4_000);
    assert_eq!(world.ping(1 - carrying, 100)[carrying], 100, "and back");
}

#[test]
fn without_any_member_the_lag_is_down_and_its_routers_with_it() {
    let mut world = World::new("lacp");
    world.run(4_000);
    world.events();
    (0..2).for_each(|link| world.set_link(link, false));
    world.run(2);
    assert!(world.events().contains(&LinkEvent::Down(LAG)));
    assert_eq!(world.states()[2], ("down".to_owned(), false));
    (0..2).for_each(|link| world.set_link(link, true));
    world.run(4_000);
    assert!(world.events().contains(&LinkEvent::Up(LAG)));
    assert_eq!(world.ping(0, 100).iter().sum::<usize>(), 100);
}

#[test]
fn a_backup_takes_over_with_the_next_packet() {
    let mut world = World::new("active_backup");
    world.run(10);
    assert_eq!(world.ping(0, 10), [10, 0]);
    assert_eq!(world.ping(1, 10), [0, 0], "the backup takes nothing");
    world.set_link(0, false);
    assert_eq!(world.ping(1, 10), [0, 10]);
    world.set_link(0, true);
    assert_eq!(world.ping(1, 10), [0, 10], "the active link continues");
}

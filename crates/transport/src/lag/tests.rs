//! Two systems on simulated time, with links that lose what they are set to lose.

use proptest::prelude::*;

use super::*;

const STEP: Duration = Duration::from_millis(50);

fn mac(system: u8, port: u16) -> MacAddr {
    MacAddr([2, 0, 0, 0, system, port as u8])
}

fn config(system: u8, mode: LagMode, members: u16) -> LagConfig {
    LagConfig {
        port: PortId(100),
        mode,
        mac: mac(system, 0),
        members: (0..members)
            .map(|port| LagMember {
                port: PortId(port),
                mac: mac(system, port),
            })
            .collect(),
    }
}

fn lacp(fast: bool, key: u16) -> LagMode {
    LagMode::Lacp(LacpConfig {
        fast,
        system_priority: 0x8000,
        key,
    })
}

/// Two LAGs whose members are joined in order.
struct Pair {
    ends: [Lag; 2],
    now: Nanos,
    /// Links that pass nothing, although they are up.
    silent: u8,
    /// LACPDUs by the end that sent them, with the time.
    sent: [Vec<(Nanos, PortId)>; 2],
}

impl Pair {
    fn new(one: LagMode, other: LagMode, links: u16) -> Self {
        let mut pair = Self {
            ends: [Lag::new(config(1, one, links)), Lag::new(config(2, other, links))],
            now: Nanos::from_secs(1),
            silent: 0,
            sent: [Vec::new(), Vec::new()],
        };
        (0..usize::from(links)).for_each(|link| pair.set_link(link, true));
        pair
    }

    fn set_link(&mut self, link: usize, up: bool) {
        let now = self.now;
        self.ends.iter_mut().for_each(|end| end.set_link(now, link, up));
    }

    fn step(&mut self) {
        self.now = self.now + STEP;
        for end in 0..2 {
            self.ends[end].handle_timeout(self.now);
            while let Some(frame) = self.ends[end].poll_transmit(self.now) {
                self.sent[end].push((self.now, frame.port));
                assert_eq!(frame.bytes[6..12], mac(end as u8 + 1, frame.port.0).0);
                let Some(Slow::Lacp(pdu)) = Slow::parse(&frame.bytes) else {
                    panic!("an LACPDU of our own cannot be read")
                };
                let link = frame.port.index();
                if self.silent >> link & 1 == 0 {
                    self.ends[1 - end].handle(self.now, link, &pdu);
                }
            }
        }
    }

    fn run(&mut self, seconds: f64) {
        let steps = (seconds / STEP.as_secs_f64()) as usize;
        (0..steps).for_each(|_| self.step());
    }

    /// What both ends send by.
    fn distributing(&self) -> [u8; 2] {
        [0, 1].map(|end: usize| self.ends[end].share().distributing)
    }
}

#[test]
fn both_ends_agree_on_all_links() {
    for (fast, other) in [(true, true), (false, false), (true, false)] {
        let mut pair = Pair::new(lacp(fast, 1), lacp(other, 9), 3);
        assert_eq!(pair.distributing(), [0, 0], "nothing is sent before they agree");
        pair.run(1.5);
        assert_eq!(pair.distributing(), [0, 0], "links wait for each other");
        pair.run(2.0);
        assert_eq!(pair.distributing(), [7, 7]);
        assert_eq!(pair.ends[0].share().collecting, 7);
        pair.run(200.0);
        assert_eq!(pair.distributing(), [7, 7]);
        let words: Vec<_> = pair.ends[0].status().map(|member| member.words).collect();
        assert_eq!(words, ["distributing"; 3]);
    }
}

#[test]
fn each_end_is_notified_as_often_as_it_asks() {
    let mut pair = Pair::new(lacp(true, 1), lacp(false, 1), 1);
    pair.run(10.0);
    pair.sent.iter_mut().for_each(Vec::clear);
    pair.run(300.0);
    let [to_slow, to_fast] = pair.sent.each_ref().map(Vec::len);
    assert!((9..=11).contains(&to_slow), "{to_slow}");
    assert!((299..=301).contains(&to_fast), "{to_fast}");
}

#[test]
fn a_link_that_goes_carries_nothing_at_once_and_comes_back() {
    let mut pair = Pair::new(lacp(true, 1), lacp(true, 1), 2);
    pair.run(4.0);
    pair.set_link(0, false);
    assert_eq!(pair.distributing(), [2, 2]);
    pair.run(5.0);
    assert_eq!(pair.distributing(), [2, 2]);
    pair.set_link(0, true);
    assert_eq!(pair.distributing(), [2, 2], "not before they agree again");
    pair.run(4.0);
    assert_eq!(pair.distributing(), [3, 3]);
}

#[test]
fn a_partner_that_falls_silent_is_noticed_in_time() {
    for (fast, seconds) in [(true, 3.0), (false, 90.0)] {
        let mut pair = Pair::new(lacp(fast, 1), lacp(fast, 1), 2);
        pair.run(40.0);
        pair.silent = 1;
        // Its last word may be as old as one interval.
        pair.run(seconds * 2.0 / 3.0 - 1.0);
        assert_eq!(pair.distributing(), [3, 3]);
        pair.run(seconds / 3.0 + 1.1);
        assert_eq!(pair.distributing(), [2, 2]);
        pair.run(4.0);
        let words: Vec<_> = pair.ends[0].status().map(|member| member.words).collect();
        assert_eq!(words, ["no partner", "distributing"]);
        pair.silent = 0;
        pair.run(8.0);
        assert_eq!(pair.distributing(), [3, 3]);
    }
}

#[test]
fn a_link_to_another_group_carries_nothing() {
    let mut lag = Lag::new(config(1, lacp(true, 1), 2));
    let now = Nanos::from_secs(1);
    let end = |system, key, port| End {
        system_priority: 1,
        system: mac(system, 0),
        key,
        port_priority: 1,
        port,
        state: PortState(0x3f),
    };
    let tell = |lag: &mut Lag, now, place: usize, actor| {
        let ours = *lag.lacp[place].actor();
        lag.handle(now, place, &Lacpdu { actor, partner: ours });
    };
    for (other, words) in [
        (end(2, 8, 2), "not selected"),
        (end(3, 7, 2), "not selected"),
        // A link back to ourselves.
        (end(1, 7, 2), "not selected"),
        (
            End {
                state: PortState(0x3b),
                ..end(2, 7, 2)
            },
            "not selected",
        ),
    ] {
        (0..2).for_each(|place| lag.set_link(now, place, false));
        (0..2).for_each(|place| lag.set_link(now, place, true));
        let mut at = now;
        for _ in 0..40 {
            at = at + Duration::from_millis(100);
            lag.handle_timeout(at);
            tell(&mut lag, at, 0, end(2, 7, 1));
            tell(&mut lag, at, 1, other);
        }
        assert_eq!(lag.share().distributing, 1, "{other:?}");
        assert_eq!(lag.status().nth(1).map(|member| member.words), Some(words));
    }
    // The right one comes.
    let mut at = now + Duration::from_secs(10);
    for _ in 0..40 {
        at = at + Duration::from_millis(100);
        lag.handle_timeout(at);
        tell(&mut lag, at, 0, end(2, 7, 1));
        tell(&mut lag, at, 1, end(2, 7, 2));
    }
    assert_eq!(lag.share().distributing, 3);
}

#[test]
fn a_partner_that_takes_us_for_another_is_not_in_sync() {
    let mut lag = Lag::new(config(1, lacp(true, 1), 1));
    let mut now = Nanos::from_secs(1);
    lag.set_link(now, 0, true);
    let actor = End {
        system: mac(2, 0),
        key: 7,
        port: 1,
        state: PortState(0x3f),
        ..End::default()
    };
    for _ in 0..40 {
        now = now + Duration::from_millis(100);
        lag.handle_timeout(now);
        let partner = End {
            key: 2,
            ..*lag.lacp[0].actor()
        };
        lag.handle(now, 0, &Lacpdu { actor, partner });
    }
    assert_eq!(lag.share(), LagShare::default());
    assert_eq!(
        lag.status().next().map(|member| member.words),
        Some("partner not in sync")
    );
}

#[test]
fn a_flood_of_lacpdus_brings_three_a_second() {
    let mut lag = Lag::new(config(1, lacp(true, 1), 1));
    let start = Nanos::from_secs(1);
    lag.set_link(start, 0, true);
    let mut sent = 0;
    for step in 0..10_000_u16 {
        let now = start + Duration::from_millis(step.into());
        let actor = End {
            system: mac(2, 0),
            key: step,
            ..End::default()
        };
        lag.handle_timeout(now);
        lag.handle(
            now,
            0,
            &Lacpdu {
                actor,
                partner: End::default(),
            },
        );
        sent += std::iter::from_fn(|| lag.poll_transmit(now)).count();
    }
    assert!((28..=33).contains(&sent), "{sent}");
    assert_eq!(lag.share(), LagShare::default());
}

#[test]
fn without_lacp_the_link_decides() {
    let now = Nanos::ZERO;
    let mut lag = Lag::new(config(1, LagMode::Balance, 3));
    assert_eq!(lag.share(), LagShare::default());
    lag.set_link(now, 0, true);
    lag.set_link(now, 2, true);
    let both = LagShare {
        collecting: 5,
        distributing: 5,
    };
    assert_eq!((lag.share(), lag.poll_timeout()), (both, None));
    // No request was sent.
    let pdu = Lacpdu {
        actor: End::default(),
        partner: End::default(),
    };
    lag.handle(now, 0, &pdu);
    assert_eq!((lag.share(), lag.poll_transmit(now)), (both, None));

    let mut lag = Lag::new(config(1, LagMode::ActiveBackup, 3));
    let mut carrying = |place, up| {
        lag.set_link(now, place, up);
        assert_eq!(lag.share().collecting, lag.share().distributing);
        lag.share().distributing
    };
    assert_eq!(carrying(1, true), 2);
    assert_eq!(carrying(0, true), 2, "the active member stays");
    assert_eq!(carrying(1, false), 1);
    assert_eq!(carrying(1, true), 1);
    assert_eq!(carrying(0, false), 2);
    assert_eq!(carrying(1, false), 0);
    assert_eq!(carrying(2, true), 4);
}

proptest! {
    /// Whatever happens to the links: once it is over, both ends send by the same links, which are all.
    #[test]
    fn whatever_happens_they_agree_again(
        fast: (bool, bool),
        events in proptest::collection::vec((0usize..3, 0u8..4, 0u32..100), 0..40),
    ) {
        let mut pair = Pair::new(lacp(fast.0, 1), lacp(fast.1, 2), 3);
        let mut up = [true; 3];
        for (link, what, tenths) in events {
            match what {
                0 => up[link] = !up[link],
                1 => pair.silent ^= 1 << link,
                // One end alone notices.
                _ => pair.ends[usize::from(what - 2)].set_link(pair.now, link, up[link]),
            }
            pair.set_link(link, up[link]);
            pair.run(f64::from(tenths) / 10.0);
            for end in &pair.ends {
                let share = end.share();
                prop_assert_eq!(share.distributing & !share.collecting, 0, "who sends also takes");
                let down = (0..3).filter(|link| !up[*link]).fold(0, |mask, link| mask | 1u8 << link);
                prop_assert_eq!(share.collecting & down, 0, "a link that is down carries nothing");
            }
        }
        pair.silent = 0;
        (0..3).for_each(|link| pair.set_link(link, true));
        pair.run(130.0);
        prop_assert_eq!(pair.distributing(), [7, 7]);
        for (end, sent) in pair.sent.iter().enumerate() {
            for port in 0..3 {
                let times: Vec<Nanos> =
                    sent.iter().filter(|(_, by)| by.0 == port).map(|(at, _)| *at).collect();
                for window in times.windows(7) {
                    prop_assert!(
                        window[6].since(window[0]) >= Duration::from_secs(1),
                        "end {} floods port {}", end, port
                    );
                }
            }
        }
    }
}

//! Meters against the vectors of RFC 2697 and RFC 2698, against a slow exact model, and against the two bounds.

use flow::Nanos;
use flow::meter::{Colour, Meter, MeterSpec, Offer, Rate};
use proptest::prelude::*;

/// Time in ms, octets, colour that the packet comes with, and the colours that it gets: srTCM blind and aware,
/// trTCM blind and aware. CIR 1000 octets/s, CBS 1500, EBS 3000; PIR 2000 octets/s, PBS 4000. Two implementations
/// that know nothing of this one agree on them.
const VECTORS: [(u64, u32, char, &str); 19] = [
    (0, 1000, 'G', "GGGG"),
    (0, 500, 'G', "GGGG"),
    (0, 1000, 'G', "YYYY"),
    (0, 1000, 'Y', "YYYY"),
    (0, 1000, 'R', "YRRR"),
    (0, 1000, 'G', "RYRR"),
    (100, 100, 'G', "GGGG"),
    (100, 1, 'G', "RRYY"),
    (600, 500, 'Y', "GRGY"),
    (600, 500, 'G', "RGYG"),
    (1000, 1500, 'G', "RRRR"),
    (3000, 1500, 'G', "GGGG"),
    (3000, 1500, 'G', "RRYY"),
    (3000, 1500, 'G', "RRRR"),
    (3000, 1, 'R', "YRYR"),
    (10000, 1500, 'Y', "GYGY"),
    (10000, 1500, 'G', "YGYG"),
    (10000, 1500, 'G', "YYRR"),
    (10000, 1500, 'G', "RRRR"),
];

/// Octets in both buckets after each packet, for the same four meters.
const TOKENS: [[[u64; 2]; 4]; 19] = [
    [[500, 3000]; 4],
    [[0, 3000], [0, 3000], [0, 2500], [0, 2500]],
    [[0, 2000], [0, 2000], [0, 1500], [0, 1500]],
    [[0, 1000], [0, 1000], [0, 500], [0, 500]],
    [[0, 0], [0, 1000], [0, 500], [0, 500]],
    [[0, 0], [0, 0], [0, 500], [0, 500]],
    [[0, 0], [0, 0], [0, 600], [0, 600]],
    [[0, 0], [0, 0], [0, 599], [0, 599]],
    [[0, 0], [500, 0], [0, 1099], [500, 1099]],
    [[0, 0], [0, 0], [0, 599], [0, 599]],
    [[400, 0], [400, 0], [400, 1399], [400, 1399]],
    [[0, 900], [0, 900], [0, 2500], [0, 2500]],
    [[0, 900], [0, 900], [0, 1000], [0, 1000]],
    [[0, 900], [0, 900], [0, 1000], [0, 1000]],
    [[0, 899], [0, 900], [0, 999], [0, 1000]],
    [[0, 3000], [1500, 1500], [0, 2500], [1500, 2500]],
    [[0, 1500], [0, 1500], [0, 1000], [0, 1000]],
    [[0, 0], [0, 0], [0, 1000], [0, 1000]],
    [[0, 0], [0, 0], [0, 1000], [0, 1000]],
];

fn colour(letter: char) -> Colour {
    match letter {
        'G' => Colour::Green,
        'Y' => Colour::Yellow,
        _ => Colour::Red,
    }
}

#[test]
fn the_three_colour_markers_keep_to_the_vectors() {
    let [cir, pir] = [8, 16].map(Rate::from_kbit);
    let [cbs, ebs, pbs] = [1500, 3000, 4000];
    let specs = [
        MeterSpec::SrTcm {
            cir,
            cbs,
            ebs,
            aware: false,
        },
        MeterSpec::SrTcm {
            cir,
            cbs,
            ebs,
            aware: true,
        },
        MeterSpec::TrTcm {
            cir,
            cbs,
            pir,
            pbs,
            aware: false,
        },
        MeterSpec::TrTcm {
            cir,
            cbs,
            pir,
            pbs,
            aware: true,
        },
    ];
    for (number, spec) in specs.into_iter().enumerate() {
        let mut meter = Meter::new(spec);
        for ((millis, octets, before, after), tokens) in VECTORS.into_iter().zip(TOKENS) {
            let offer = Offer {
                octets,
                colour: colour(before),
                now: Nanos::from_millis(millis),
            };
            let got = meter.offer(&offer);
            let want = after.chars().nth(number).map(colour).unwrap();
            assert_eq!(got, want, "{spec:?} at {millis} ms");
            assert_eq!(
                meter.state().tokens,
                tokens[number].map(|octets| octets * 8_000_000),
                "{spec:?}"
            );
        }
    }
}

#[test]
fn rates_are_what_pfcp_says() {
    assert_eq!(Rate::from_bits_per_second(1), Rate::from_kbit(1));
    assert_eq!(Rate::from_bits_per_second(2000), Rate::from_kbit(2));
    assert_eq!(Rate::from_kbit((1 << 40) - 1), Rate::MAX);
    assert_eq!(Rate::from_kbit(1 << 40), Rate::UNLIMITED);
    assert_eq!(MeterSpec::mbr(Rate::UNLIMITED), None);
    assert_eq!(MeterSpec::gbr_mbr(Rate::from_kbit(5), Rate::UNLIMITED), None);
    let rate = Rate::from_kbit(100_000);
    assert_eq!(
        MeterSpec::mbr(rate),
        Some(MeterSpec::Single { rate, burst: 625_000 })
    );
    assert_eq!(MeterSpec::gbr_mbr(rate, rate), MeterSpec::mbr(rate));
    assert!(MeterSpec::gbr_mbr(Rate::from_kbit(1), rate).is_some_and(|spec| !spec.is_single()));
}

#[test]
fn a_rate_of_zero_blocks_and_an_unlimited_one_does_not() {
    let mut blocked = Meter::new(MeterSpec::mbr(Rate::ZERO).unwrap());
    let mut free = Meter::new(MeterSpec::Single {
        rate: Rate::UNLIMITED,
        burst: 0,
    });
    for second in 0..100 {
        let offer = Offer::new(1, Nanos::from_secs(second * 100));
        assert_eq!(blocked.offer(&offer), Colour::Red);
        let offer = Offer::new(u32::MAX, Nanos::from_secs(1));
        assert_eq!(free.offer(&offer), Colour::Green);
    }
}

/// An exact model in bits and seconds, both times 10^9.
struct Model {
    spec: MeterSpec,
    tokens: [u128; 2],
    last: u64,
}

const GIGA: u128 = 1_000_000_000;

impl Model {
    fn new(spec: MeterSpec) -> Self {
        let mut model = Self {
            spec,
            tokens: [0; 2],
            last: 0,
        };
        model.tokens = model.depths();
        model
    }

    fn depths(&self) -> [u128; 2] {
        let bursts = match self.spec {
            MeterSpec::Single { burst, .. } => [burst, 0],
            MeterSpec::SrTcm { cbs, ebs, .. } => [cbs, ebs],
            MeterSpec::TrTcm { cbs, pbs, .. } => [cbs, pbs],
            MeterSpec::Packets { .. } | MeterSpec::Shared(_) => [0, 0],
        };
        bursts.map(|octets| u128::from(octets) * 8 * GIGA)
    }

    fn fill(&mut self, now: u64) {
        let elapsed = u128::from(now.max(self.last) - self.last);
        self.last = self.last.max(now);
        let bits = |rate: Rate| elapsed * u128::from(rate.kbit()) * 1000;
        let depths = self.depths();
        let [first, second] = match self.spec {
            MeterSpec::Single { rate, .. } => [self.tokens[0] + bits(rate), 0],
            MeterSpec::SrTcm { cir, .. } => {
                let sum = self.tokens[0] + bits(cir);
                [sum, self.tokens[1] + sum.saturating_sub(depths[0])]
            }
            MeterSpec::TrTcm { cir, pir, .. } => [self.tokens[0] + bits(cir), self.tokens[1] + bits(pir)],
            MeterSpec::Packets { .. } | MeterSpec::Shared(_) => [0, 0],
        };
        self.tokens = [first.min(depths[0]), second.min(depths[1])];
    }

    fn offer(&mut self, offer: &Offer) -> Colour {
        self.fill(offer.now.0);
        let cost = u128::from(offer.octets) * 8 * GIGA;
        let (aware, two_rates) = match self.spec {
            MeterSpec::Single { .. } => {
                return match self.tokens[0].checked_sub(cost) {
                    Some(left) => {
                        self.tokens[0] = left;
                        Colour::Green
                    }
                    None => Colour::Red,
                };
            }
            MeterSpec::SrTcm { aware, .. } => (aware, false),
            MeterSpec::TrTcm { aware, .. } => (aware, true),
            MeterSpec::Packets { .. } | MeterSpec::Shared(_) => panic!("octets are counted here"),
        };
        let before = if aware { offer.colour } else { Colour::Green };
        let [first, second] = self.tokens.map(|tokens| tokens >= cost);
        let is_green = before == Colour::Green && first && (second || !two_rates);
        let is_yellow = before != Colour::Red && second;
        if is_green {
            self.tokens[0] -= cost;
            self.tokens[1] -= if two_rates { cost } else { 0 };
            Colour::Green
        } else if is_yellow {
            self.tokens[1] -= cost;
            Colour::Yellow
        } else {
            Colour::Red
        }
    }
}

/// From 1 kbit/s to 400 Gbit/s, evenly by magnitude.
fn rate() -> BoxedStrategy<u64> {
    (0u32..29, any::<u64>())
        .prop_map(|(magnitude, random)| {
            let low = 1u64 << magnitude;
            (low + random % low).min(400_000_000)
        })
        .boxed()
}

/// From an octet to 16 MiB, evenly by magnitude.
fn burst() -> BoxedStrategy<u64> {
    (0u32..24, any::<u64>())
        .prop_map(|(magnitude, random)| (1 << magnitude) + random % (1 << magnitude))
        .boxed()
}

fn spec() -> BoxedStrategy<MeterSpec> {
    let numbers = (0u8..3, [rate(), rate()], [burst(), burst()], any::<bool>());
    numbers
        .prop_map(|(kind, [rate, other], [burst, further], aware)| {
            let [rate, other] = [rate, other].map(Rate::from_kbit);
            match kind {
                0 => MeterSpec::Single { rate, burst },
                1 => MeterSpec::SrTcm {
                    cir: rate,
                    cbs: burst,
                    ebs: further,
                    aware,
                },
                _ => MeterSpec::TrTcm {
                    cir: rate,
                    cbs: burst,
                    pir: other,
                    pbs: further,
                    aware,
                },
            }
        })
        .boxed()
}

/// Nanoseconds to the next packet: none to hours, and back.
fn gap() -> BoxedStrategy<i64> {
    prop_oneof![
        2 => Just(0),
        6 => (0u32..44, any::<i64>()).prop_map(|(magnitude, random)| random & ((1 << magnitude) - 1)),
        1 => -1_000_000i64..0,
        1 => Just(i64::MAX),
    ]
    .boxed()
}

fn packets() -> BoxedStrategy<Vec<(i64, u32, u8)>> {
    let octets = prop_oneof![20u32..1501, 1u32..65_536];
    prop::collection::vec((gap(), octets, 0u8..3), 1..120).boxed()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn meters_agree_with_an_exact_model(spec in spec(), packets in packets()) {
        let (mut meter, mut model, mut now) = (Meter::new(spec), Model::new(spec), 0u64);
        for (gap, octets, before) in packets {
            now = now.saturating_add_signed(gap);
            let colour = [Colour::Green, Colour::Yellow, Colour::Red][usize::from(before)];
            let offer = Offer { octets, colour, now: Nanos(now) };
            prop_assert_eq!(meter.offer(&offer), model.offer(&offer));
            let tokens = meter.state().tokens.map(|tokens| u128::from(tokens) * 1000);
            prop_assert_eq!(tokens, model.tokens);
        }
    }

    /// In every interval: admitted octets <= burst + rate x t. Time that goes back counts for nothing.
    #[test]
    fn no_interval_admits_too_much(rate in rate(), burst in burst(), packets in packets()) {
        let mut meter = Meter::new(MeterSpec::Single { rate: Rate::from_kbit(rate), burst });
        let (mut now, mut latest) = (0u64, 0u64);
        let mut admitted: Vec<(u64, u128)> = Vec::new();
        for (gap, octets, _) in packets {
            now = now.saturating_add_signed(gap);
            latest = latest.max(now);
            if meter.offer(&Offer::new(octets, Nanos(now))) == Colour::Green {
                admitted.push((latest, u128::from(octets)));
            }
        }
        for first in 0..admitted.len() {
            let mut sum = 0;
            for &(at, octets) in &admitted[first..] {
                sum += octets * 8_000_000;
                let time = u128::from(at - admitted[first].0);
                prop_assert!(sum <= u128::from(burst) * 8_000_000 + time * u128::from(rate));
            }
        }
    }

    /// A flow that always has a packet waiting gets its rate but for one packet, however it is polled, as long as
    /// the bucket does not overflow between two polls.
    #[test]
    fn a_backlogged_flow_falls_short_by_a_packet_at_most(
        rate in rate(),
        sizes in prop::collection::vec(40u32..9001, 1..20),
        polls in prop::collection::vec(0u64..1000, 20..200),
    ) {
        const MTU: u64 = 9000;
        let burst = 3 * MTU;
        // No gap earns more than two of the largest packets.
        let longest = 2 * MTU * 8_000_000 / rate;
        let mut meter = Meter::new(MeterSpec::Single { rate: Rate::from_kbit(rate), burst });
        let mut sizes = sizes.into_iter().cycle();
        let mut size = sizes.next().unwrap();
        while meter.offer(&Offer::new(1, Nanos(0))) == Colour::Green {}
        let (mut now, mut admitted) = (0u64, 0u128);
        for poll in polls {
            now += longest * poll / 1000;
            while meter.offer(&Offer::new(size, Nanos(now))) == Colour::Green {
                admitted += u128::from(size);
                size = sizes.next().unwrap();
            }
        }
        let due = u128::from(now) * u128::from(rate);
        prop_assert!(admitted * 8_000_000 <= due + 8_000_000);
        prop_assert!((admitted + u128::from(MTU)) * 8_000_000 >= due);
    }

    /// The tokens of a meter move to another meter, or to other rates, and no token is added.
    #[test]
    fn what_a_meter_holds_can_move(spec in spec(), other in spec(), packets in packets()) {
        let (mut meter, mut now) = (Meter::new(spec), 0u64);
        for (gap, octets, _) in packets {
            now = now.saturating_add_signed(gap);
            meter.offer(&Offer::new(octets, Nanos(now)));
        }
        let mut moved = Meter::new(spec);
        moved.set_state(meter.state());
        prop_assert_eq!(moved, meter);
        let (full, mut changed) = (Meter::new(other), Meter::new(other));
        changed.go_on(&meter);
        for (now, before, full) in
            bucket_by_bucket(changed.state().tokens, meter.state().tokens, full.state().tokens)
        {
            prop_assert!(now == full || now == before.min(full));
        }
    }
}

fn bucket_by_bucket(
    now: [u64; 2],
    before: [u64; 2],
    full: [u64; 2],
) -> impl Iterator<Item = (u64, u64, u64)> {
    (0..2).map(move |n| (now[n], before[n], full[n]))
}

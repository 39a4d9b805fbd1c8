//! The meters of session blocks against meters that stand alone: all are asked, then all are charged or none.

use flow::meter::{Colour, Meter, MeterSpec, Offer, Rate, SharedId, SharedMeters};
use flow::{
    BlockImage, Blocks, Direction, FlowEntry, FlowKey4, Flows, Nanos, Red, ReplaceMap, SessionIndex, Verdict,
};
use proptest::prelude::*;

fn spec() -> impl Strategy<Value = MeterSpec> {
    (0u8..10, 1u64..100_000, 1u64..8000, 1u64..8000).prop_map(|(kind, rate, burst, further)| {
        let rate = Rate::from_kbit(rate);
        match kind {
            0 => MeterSpec::SrTcm {
                cir: rate,
                cbs: burst,
                ebs: further,
                aware: true,
            },
            1 => MeterSpec::TrTcm {
                cir: rate,
                cbs: burst,
                pir: rate,
                pbs: further,
                aware: false,
            },
            _ => MeterSpec::Single { rate, burst },
        }
    })
}

type Specs = Vec<[Option<MeterSpec>; 2]>;

fn specs() -> impl Strategy<Value = Specs> {
    let pair = || {
        [
            prop::option::weighted(0.7, spec()),
            prop::option::weighted(0.7, spec()),
        ]
    };
    prop::collection::vec(pair(), 0..6)
}

fn packet() -> impl Strategy<Value = (u64, u64, u32, u8, bool)> {
    (0u64..64, 0u64..5_000_000, 1u32..3000, 0u8..2, any::<bool>())
}

fn image(meters: &Specs) -> BlockImage {
    BlockImage {
        meters: meters.clone(),
        shared: SharedId(2),
        ..BlockImage::default()
    }
}

/// Two shared meters, packets of the second of which pass the first, too, as a worker has them and as a model has them.
fn shared(rates: [u64; 2]) -> (SharedMeters, [[Meter; 2]; 2]) {
    let mut meters = SharedMeters::new(2);
    let single = |rate, burst| Meter::new(MeterSpec::Single { rate, burst });
    let mut models = [[single(Rate::ZERO, 0); 2]; 2];
    for (number, rate) in (0u16..).zip(rates.map(Rate::from_kbit)) {
        for direction in Direction::BOTH {
            assert!(meters.set(SharedId(number + 1), direction, rate, 5000));
            models[usize::from(number)][direction as usize] = single(rate, 5000);
            // Meters that were unlimited before are full, as new ones are.
        }
    }
    let chain = [SharedId(2), SharedId(1), SharedId::NONE, SharedId::NONE];
    assert!(meters.set_chain(SharedId(2), chain));
    (meters, models)
}

/// Asks all meters in copies, and keeps the copies if none says red; else only time advances.
fn model(meters: &mut [(Red, Meter)], offer: &Offer) -> Result<Colour, Vec<Red>> {
    let mut charged = meters.to_vec();
    let colours: Vec<Colour> = charged.iter_mut().map(|(_, meter)| meter.offer(offer)).collect();
    let red = |(at, colour): (usize, &Colour)| (*colour == Colour::Red).then_some(meters[at].0);
    let reds: Vec<Red> = colours.iter().enumerate().filter_map(red).collect();
    if reds.is_empty() {
        meters.copy_from_slice(&charged);
        return Ok(colours.into_iter().max().unwrap_or_default());
    }
    let nothing = Offer {
        octets: 0,
        colour: Colour::Red,
        ..*offer
    };
    for (_, meter) in meters {
        meter.offer(&nothing);
    }
    Err(reds)
}

/// Two blocks that police the same packets for a while: never do more pass than one would let pass.
#[test]
fn halves_of_meters_admit_no_more_than_the_whole() {
    let whole = MeterSpec::mbr(Rate::from_kbit(800)).expect("a limit");
    let blocks = &mut Blocks::new(2, 64).expect("memory");
    let shared = &mut SharedMeters::new(0);
    let of = |spec| BlockImage {
        meters: vec![[Some(spec); 2]],
        ..BlockImage::default()
    };
    let [old, new] = [(0, whole), (1, whole.half(true))]
        .map(|(session, spec)| blocks.install(SessionIndex(session), &of(spec)).expect("room"));
    let mut pass = |blocks: &mut Blocks, at: flow::Installed, millis: u64| {
        let mut live = blocks
            .live_at(at.block, at.generation, Direction::Uplink)
            .expect("live");
        let offer = Offer::new(1000, Nanos::from_millis(millis));
        (0..100)
            .take_while(|_| live.meter(1, &offer, shared).is_ok())
            .count()
    };
    // 10,000 octets deep, 100 octets in a millisecond.
    assert_eq!(pass(blocks, old, 1_000), 10);
    let at = Nanos::from_millis(1_080);
    blocks.settle_meters(old.block, at);
    blocks.empty_meters(new.block, at);
    let halved = blocks.replace(old.block, &of(whole.half(false)), &ReplaceMap::SAME, Flows::Keep);
    assert_eq!(halved, Ok(old));
    assert_eq!(pass(blocks, new, 1_080), 0);
    assert_eq!(
        pass(blocks, old, 1_080),
        5,
        "half of the burst, of 8,000 octets earned"
    );
    assert_eq!(pass(blocks, new, 1_100), 2);
    assert_eq!(pass(blocks, old, 1_100), 0, "one earns");
    assert_eq!(pass(blocks, new, 2_000), 5);
    let at = Nanos::from_millis(2_000);
    blocks.settle_meters(old.block, at);
    let again = blocks.replace(old.block, &of(whole), &ReplaceMap::SAME, Flows::Keep);
    assert_eq!(again, Ok(old));
    assert_eq!(
        pass(blocks, old, 2_000),
        0,
        "no time is paid for at a rate that did not hold"
    );
    assert_eq!(pass(blocks, old, 2_100), 10);
}

/// Two sessions that have a meter together: what one takes the other has not, and what another meter refuses takes
/// nothing from it.
#[test]
fn a_shared_meter_replaces_a_sessions_own() {
    let mut blocks = Blocks::new(2, 64).expect("memory");
    let mut shared = SharedMeters::new(1);
    assert!(shared.set(SharedId(1), Direction::Uplink, Rate::ZERO, 3_000));
    let own = MeterSpec::Single {
        rate: Rate::ZERO,
        burst: 1_000,
    };
    let of = |meters| BlockImage {
        meters,
        ..BlockImage::default()
    };
    let common = [Some(MeterSpec::Shared(SharedId(1))); 2];
    let images = [of(vec![[Some(own); 2], common]), of(vec![common])];
    let placed: Vec<_> = (0..)
        .zip(&images)
        .map(|(session, image)| blocks.install(SessionIndex(session), image).expect("room"))
        .collect();
    let mut pass = |session: usize, qers: u64| {
        let at = placed[session];
        let live = blocks.live_at(at.block, at.generation, Direction::Uplink);
        let offer = Offer::new(1_000, Nanos(5));
        live.expect("live").meter(qers, &offer, &mut shared)
    };
    assert_eq!(pass(0, 3), Ok(Colour::Green));
    assert_eq!(pass(0, 3), Err(Red::Qer(0)), "its own has no more");
    assert_eq!(pass(0, 2), Ok(Colour::Green));
    assert_eq!(pass(1, 1), Ok(Colour::Green));
    assert_eq!(pass(1, 1), Err(Red::Qer(0)));
    assert_eq!(pass(0, 2), Err(Red::Qer(1)));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn one_red_meter_costs_the_others_nothing(
        specs in specs(),
        rates in [100u64..1_000_000, 100u64..1_000_000],
        packets in prop::collection::vec(packet(), 1..200),
    ) {
        let mut blocks = Blocks::new(1, Blocks::TYPICAL_LINES).unwrap();
        let installed = blocks.install(SessionIndex(0), &image(&specs)).unwrap();
        let (mut shared, mut shared_models) = shared(rates);
        let mut models: Vec<[Option<Meter>; 2]> = specs.iter().map(|pair| pair.map(|spec| spec.map(Meter::new))).collect();
        let mut now = Nanos(0);
        for (qers, gap, octets, colour, downlink) in packets {
            now.0 += gap;
            let direction = Direction::BOTH[usize::from(downlink)];
            let way = direction as usize;
            let offer = Offer { octets, colour: [Colour::Green, Colour::Yellow][usize::from(colour)], now };
            let mine = |slot: &usize| qers >> slot & 1 == 1 && models[*slot][way].is_some();
            let slots: Vec<usize> = (0..models.len()).filter(mine).collect();
            let mut asked: Vec<(Red, Meter)> =
                slots.iter().map(|&slot| (Red::Qer(slot as u8), models[slot][way].unwrap())).collect();
            asked.extend([1, 0].map(|at| (Red::Shared(SharedId(at as u16 + 1)), shared_models[at][way])));
            let want = model(&mut asked, &offer);
            let mut live = blocks.live_at(installed.block, installed.generation, direction).unwrap();
            match live.meter(qers, &offer, &mut shared) {
                Ok(colour) => prop_assert_eq!(Ok(colour), want),
                Err(red) => prop_assert_eq!(Some(red), want.unwrap_err().first().copied()),
            }
            for (at, &slot) in slots.iter().enumerate() {
                models[slot][way] = Some(asked[at].1);
                let block = blocks.get(installed.block).unwrap();
                prop_assert_eq!(block.meter(slot as u8, direction), models[slot][way]);
            }
            shared_models[1][way] = asked[slots.len()].1;
            shared_models[0][way] = asked[slots.len() + 1].1;
        }
    }

    /// The tokens of a QER that stays are kept, wherever its slot and its block are now.
    #[test]
    fn meters_are_kept_when_a_block_is_replaced(old in specs(), new in specs(), stay: [Option<u8>; 6], octets in 1u32..8000) {
        let mut blocks = Blocks::new(2, Blocks::TYPICAL_LINES).unwrap();
        let installed = blocks.install(SessionIndex(0), &image(&old)).unwrap();
        let offer = Offer::new(octets, Nanos(1_000_000));
        for direction in Direction::BOTH {
            for slot in 0..old.len() {
                let mut live = blocks.live_at(installed.block, installed.generation, direction).unwrap();
                let _ = live.meter(1 << slot, &offer, &mut SharedMeters::new(0));
            }
        }
        let read = |blocks: &Blocks, block, len: usize| -> Vec<[Option<Meter>; 2]> {
            let block = blocks.get(block).unwrap();
            (0..len).map(|slot| Direction::BOTH.map(|way| block.meter(slot as u8, way))).collect()
        };
        let before = read(&blocks, installed.block, 6);
        let ids: Vec<u32> = (0..6).collect();
        let stay = stay.map(|slot| slot.map(|slot| u32::from(slot) % 6));
        let new_ids: Vec<u32> = (0..6).map(|slot| stay[slot].unwrap_or(100 + slot as u32)).collect();
        let map = ReplaceMap::NONE.with_qers(&ids, &new_ids);
        let installed = blocks.replace(installed.block, &image(&new), &map, Flows::Keep).unwrap();
        for (slot, meters) in read(&blocks, installed.block, new.len()).into_iter().enumerate() {
            for way in Direction::BOTH {
                let want = new[slot][way as usize].map(|spec| {
                    let mut meter = Meter::new(spec);
                    let old = stay[slot].and_then(|old| before[old as usize][way as usize]);
                    old.iter().for_each(|old| meter.go_on(old));
                    meter
                });
                prop_assert_eq!(meters[way as usize], want);
            }
        }
    }
}

#[test]
fn a_meter_is_changed_in_its_place_or_not_at_all() {
    let mut blocks = Blocks::new(1, Blocks::TYPICAL_LINES).unwrap();
    let meter = |kbit| MeterSpec::mbr(Rate::from_kbit(kbit));
    let specs = vec![[None; 2], [meter(100), None]];
    let block = blocks.install(SessionIndex(0), &image(&specs)).unwrap().block;
    let way = Direction::Uplink;
    let held = flow::meter::MeterState {
        tokens: [5, 0],
        at: Nanos(7),
        ..Default::default()
    };
    assert!(blocks.set_meter_state(block, 1, way, held));
    assert!(blocks.set_meter(block, 1, way, meter(200)));
    assert_eq!(
        blocks
            .get(block)
            .unwrap()
            .meter(1, way)
            .map(|meter| meter.state()),
        Some(held)
    );
    assert!(blocks.set_meter(block, 1, way, None) && blocks.get(block).unwrap().meter(1, way).is_none());
    assert!(blocks.set_meter(block, 0, way, meter(50)));
    let full = blocks.get(block).unwrap().meter(0, way);
    assert_eq!(full, meter(50).map(Meter::new));
    let three_colours = MeterSpec::gbr_mbr(Rate::from_kbit(1), Rate::from_kbit(2));
    assert!(!blocks.set_meter(block, 1, way, three_colours), "needs a line");
    assert!(!blocks.set_meter(block, 2, way, meter(1)), "no such slot");
    assert_eq!(blocks.get(block).unwrap().metered(way), 0b01);
}

#[test]
fn an_entry_learns_where_its_meters_are() {
    let mut blocks = Blocks::new(1, Blocks::TYPICAL_LINES).unwrap();
    let meter = MeterSpec::mbr(Rate::from_kbit(100));
    let image = BlockImage {
        urrs: 3,
        ..image(&vec![[meter; 2]; 3])
    };
    let installed = blocks.install(SessionIndex(0), &image).unwrap();
    let block = blocks.get(installed.block).unwrap();
    let hints =
        Direction::BOTH.map(|way| [0b001, 0b010, 0b100, 0b1000, 0].map(|qers| block.meters_hint(qers, way)));
    // After a line of counters: uplink's second and third, downlink's. The first ones are beside the read lines.
    assert_eq!(hints, [[1, 5, 5, 0, 0], [3, 6, 6, 0, 0]]);
    assert_eq!(
        [0b011, 0b101].map(|qers| block.meters_hint(qers, Direction::Downlink)),
        [6, 6]
    );
    let mut entry = FlowEntry::<FlowKey4> {
        verdict: Verdict {
            qers: 0b110,
            ..Verdict::NONE
        },
        ..FlowEntry::default()
    };
    block.fill_entry(installed.block, &mut entry);
    assert_eq!(
        (entry.verdict.generation, entry.verdict.meters),
        (installed.generation, 5)
    );
    assert!(blocks.live(&entry).is_some());
}

/// A packet offered to some QERs: after how long, of how many octets, and whether it is taken back.
type Offered = (u64, u64, u32, bool);

proptest! {
    /// Against a block that never saw the packets that are taken back: the same packets pass.
    #[test]
    fn a_packet_that_is_taken_back_costs_nothing(
        specs in prop::collection::vec((prop::bool::ANY, 100u64..50_000, 1500u64..8000), 1..4),
        packets in prop::collection::vec((1u64..8, 0u64..2_000_000, 1u32..1500, any::<bool>()), 1..80),
    ) {
        let packets: Vec<Offered> = packets;
        let meter = |(is_single, kbit, burst): (bool, u64, u64)| {
            let rate = Rate::from_kbit(kbit);
            match is_single {
                true => MeterSpec::Single { rate, burst },
                false => MeterSpec::TrTcm { cir: Rate::from_kbit(kbit / 2), cbs: burst, pir: rate, pbs: burst, aware: false },
            }
        };
        let image = BlockImage {
            meters: specs.into_iter().map(|one| [Some(meter(one)); 2]).collect(),
            ..BlockImage::default()
        };
        let blocks = &mut Blocks::new(2, 64).expect("memory");
        let [first, second] = [0, 1].map(|session| blocks.install(SessionIndex(session), &image).expect("room"));
        let shared = &mut SharedMeters::new(0);
        let mut now = Nanos(0);
        for (qers, after, octets, is_taken_back) in packets {
            now = Nanos(now.0 + after);
            let offer = Offer::new(octets, now);
            let mut live = blocks.live_at(first.block, first.generation, Direction::Uplink).expect("live");
            let passed = live.meter(qers, &offer, shared).is_ok();
            if passed && is_taken_back {
                live.unmeter(qers, octets, shared);
                continue;
            }
            let mut twin = blocks.live_at(second.block, second.generation, Direction::Uplink).expect("live");
            prop_assert_eq!(passed, twin.meter(qers, &offer, shared).is_ok());
        }
    }
}

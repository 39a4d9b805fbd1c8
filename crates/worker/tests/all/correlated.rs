//! Correlated QERs of two sessions in a worker, against the interpreter: whatever comes, the same packets pass.

use crate::common;

use std::sync::Arc;
use std::time::Duration;

use flow::meter::{MeterSpec, Rate, SharedId};
use flow::{Direction, InstanceId};
use proptest::prelude::*;
use rules::SessionRules;
use rules::image::SessionChange;
use rules::model::{
    BitRates, BitsPerSecond, CorrelationId, Edit, Pdi, Qer, QerId, QerUpdate, SourceInterface,
};
use rules::reference_interpreter::{
    Conditions, CongestionMarks, Metering, Outcome, Quotas, ReferenceMeters, interpret_with,
};
use rules::testing::{self, N3_ADDRESS, UE, UserPacket, f_teid, pdr, tunnelled};
use worker::{Command, LeaseHolder};

use common::World;
use common::one_session::{REMOTE, TEID, session};

const COMMON: SharedId = SharedId(1);

fn rates(kbit: u64) -> BitRates {
    let rate = BitsPerSecond::from_kbit(kbit);
    BitRates { ul: rate, dl: rate }
}

/// A session's QER of its own, and the correlated one.
const fn qers(place: usize) -> [QerId; 2] {
    let first = 2 * place as u32 + 1;
    [QerId(first), QerId(first + 1)]
}

/// A session of uplink packets: a QER of its own, with this rate if any, and a correlated one.
fn rules(place: usize, own: Option<u64>, common: u64) -> SessionRules {
    let mut rules = SessionRules::default();
    rules.create_far(session().fars()[0].clone()).expect("it is new");
    let [alone, together] = qers(place);
    for qer in [
        Qer {
            mbr: own.map(rates),
            ..Qer::new(alone)
        },
        Qer {
            mbr: Some(rates(common)),
            correlation: Some(CorrelationId(5)),
            ..Qer::new(together)
        },
    ] {
        rules.create_qer(qer).expect("it is new");
    }
    let mut pdi = Pdi::new(SourceInterface::Access);
    pdi.f_teid = Some(f_teid(TEID + place as u32));
    let mut uplink = pdr(1, 10, pdi, 1);
    uplink.qers = vec![alone, together].into();
    rules.create_pdr(uplink).expect("it is new");
    rules
}

struct Trial {
    world: World,
    rules: [Arc<SessionRules>; 2],
    meters: ReferenceMeters,
    passed: [u64; 2],
}

impl Trial {
    fn new(rules: [SessionRules; 2]) -> Self {
        let world = World::with(testing::network(), 1, |config| config.shared_meters = 1);
        let mut trial = Self {
            world,
            rules: rules.map(Arc::new),
            meters: ReferenceMeters::default(),
            passed: [0; 2],
        };
        trial.distribute();
        for place in 0..2 {
            let image = trial.image(place);
            trial
                .world
                .apply(0, SessionChange::Install(image))
                .expect("it is installed");
        }
        trial
    }

    fn image(&mut self, place: usize) -> Box<rules::image::SessionImage> {
        let index = place as u32 + 1;
        let image = self.world.image(index, &self.rules[place], None);
        let mut image = image.expect("it compiles");
        image.share_rates(|_| COMMON);
        image
    }

    /// The worker receives the sessions' common rate: the lowest of both.
    fn distribute(&mut self) {
        let said = self.rules.iter().map(|rules| rules.qers()[1].maximum()[0]);
        let rate = said.min().expect("two sessions");
        let Some(MeterSpec::Single { rate, burst }) = MeterSpec::mbr(rate) else {
            panic!("a limit");
        };
        self.world.tell_all(|| Command::SharedMeter {
            holder: LeaseHolder::Worker,
            id: COMMON,
            direction: Direction::Uplink,
            rate: Rate::from_kbit(rate.kbit()),
            burst,
        });
        for place in 0..2 {
            let rules = &self.rules[place];
            self.meters.follow(place as u64, rules);
        }
    }

    fn packet(&mut self, place: usize, octets: usize) {
        let mut user = UserPacket::udp(UE, REMOTE, 1000, 53);
        user.payload = vec![0; octets];
        let teid = TEID + place as u32;
        let packet = tunnelled(N3_ADDRESS, teid, 255, Some([0x10, 9]), &[], &user.bytes());
        let taken = self.world.next_poll();
        let passes = !self.world.send(0, &packet).is_empty();
        let verdict = interpret_with(
            &self.rules[place],
            &self.world.network,
            InstanceId(0),
            &packet,
            Conditions {
                metering: Metering::Meters(&mut self.meters, taken),
                congestion: CongestionMarks::Turn(false),
                quotas: Quotas::default(),
                detection: rules::Detection::Undetected,
                is_solicited: false,
            },
        );
        assert_eq!(passes, matches!(verdict.outcome, Outcome::Forwarded { .. }));
        self.passed[place] += u64::from(passes);
    }

    /// One of the sessions says something else: no image changes for that.
    fn change(&mut self, place: usize, kbit: u64) {
        let before = self.image(place);
        let mut rules = SessionRules::clone(&self.rules[place]);
        let update = QerUpdate {
            mbr: Edit::Set(rates(kbit)),
            ..QerUpdate::new(qers(place)[1])
        };
        rules.update_qer(update).expect("it is there");
        self.rules[place] = Arc::new(rules);
        assert_eq!(self.image(place).block, before.block);
        self.distribute();
    }
}

#[derive(Clone, Debug)]
enum Step {
    Packets {
        place: usize,
        octets: usize,
        count: usize,
    },
    Wait {
        micros: u64,
    },
    Change {
        place: usize,
        kbit: u64,
    },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..2usize, 10..1400usize, 1..12usize)
            .prop_map(|(place, octets, count)| Step::Packets { place, octets, count }),
        3 => (0..60_000u64).prop_map(|micros| Step::Wait { micros }),
        1 => (0..2usize, 1..3_000u64).prop_map(|(place, kbit)| Step::Change { place, kbit }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn sessions_with_a_rate_together_pass_what_the_interpreter_passes(
        own in prop::array::uniform2(prop::option::of(1..2_000u64)),
        common in prop::array::uniform2(1..3_000u64),
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let [first, second] = [0, 1].map(|place| rules(place, own[place], common[place]));
        let mut trial = Trial::new([first, second]);
        for step in steps {
            match step {
                Step::Packets { place, octets, count } => {
                    (0..count).for_each(|_| trial.packet(place, octets));
                }
                Step::Wait { micros } => trial.world.now = trial.world.now + Duration::from_micros(micros),
                Step::Change { place, kbit } => trial.change(place, kbit),
            }
        }
    }
}

//! Sessions with queues before ports that change in all ways, in any order: what has left was charged once, and nothing
//! else was.

use crate::common;

use flow::SessionGroupId;
use packet::Teid;
use proptest::prelude::*;
use rules::SessionRules;
use rules::image::{ImmediateActions, MeterShare, SessionChange, SessionImage};
use rules::model::{
    ApplyAction, BitRates, BitsPerSecond, Edit, FarId, FarUpdate, OuterHeaderCreation, PdrId, QerId,
    QerUpdate,
};
use rules::network::QueueManagement;
use rules::testing;

use super::egress_queues::{Case, DEFAULT, FREE, SESSION, VOICE, network, offer, packet, rules, waiting};
use common::World;
use common::one_session::hand_over;

/// What happens to a session.
#[derive(Clone, Copy, Debug)]
enum Step {
    Offer(u8, bool),
    Pass(u16),
    Rate(u16),
    /// The flow of QFI 1 goes, or comes again.
    Flow(bool),
    Idle(bool),
    Handover,
    Leave,
    Return,
    Again,
    /// It is of another session group.
    Group(u16),
}

/// Session groups, from number 1 on.
const GROUPS: u16 = 3;

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (1u8..40, any::<bool>()).prop_map(|(packets, is_voice)| Step::Offer(packets, is_voice)),
        6 => (1u16..400).prop_map(Step::Pass),
        1 => (50u16..5_000).prop_map(Step::Rate),
        1 => any::<bool>().prop_map(Step::Flow),
        1 => any::<bool>().prop_map(Step::Idle),
        1 => Just(Step::Handover),
        1 => Just(Step::Leave),
        1 => Just(Step::Return),
        1 => Just(Step::Again),
        1 => (1..=GROUPS).prop_map(Step::Group),
    ]
}

/// A session that changes in all ways, and what was charged of those that have ended.
struct Life {
    world: World,
    image: Box<SessionImage>,
    charged: u64,
    left: u64,
    /// What was forwarded of each group at the last poll.
    groups: [u64; GROUPS as usize],
    teid: u32,
}

impl Life {
    fn new(case: &Case) -> Self {
        let mut world = World::with(network(case), 1, |config| {
            config.buffers = common::buffering::LIMITS;
            config.egress.packets = 256;
        });
        let image = world.install(1, rules(800, Some((100, 300))));
        Self {
            world,
            image,
            charged: 0,
            left: 0,
            groups: [0; GROUPS as usize],
            teid: 100,
        }
    }

    fn look(&mut self) {
        let out = self.world.take();
        self.left += out.iter().filter(|(_, frame)| frame[43] == 255).count() as u64;
        self.world.assert_conserved();
        self.look_at_groups();
        let forwarded: u64 = self.groups.iter().sum();
        assert_eq!(
            forwarded, self.left,
            "what has left counts in a group, and what waits does not"
        );
    }

    /// Totals of groups only grow.
    fn look_at_groups(&mut self) {
        for (group, before) in (1..).zip(&mut self.groups) {
            let now = self.world.forwarded_of(group).packets[1];
            assert!(now >= *before, "group {group}: {before}, then {now}");
            *before = now;
        }
    }

    fn edit(&mut self, immediate: ImmediateActions, edit: impl FnOnce(&mut SessionRules)) {
        let image = self.image.clone();
        self.image = self.world.change(&image, immediate, edit);
    }

    fn share(&mut self, share: MeterShare) {
        let mut image = self.image.clone();
        image.meter_share = MeterShare::Whole;
        let image = Box::new((*image).with_share(share));
        let change = SessionChange::Replace(image.clone(), ImmediateActions::default());
        if self.world.apply(0, change).is_ok() {
            self.image.meter_share = share;
        }
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Offer(packets, is_voice) => {
                let from = if is_voice { VOICE } else { DEFAULT };
                offer(&mut self.world, (0..packets).map(|_| packet(from, 400)));
            }
            Step::Pass(polls) => (0..polls).for_each(|_| {
                self.world.poll();
                self.look_at_groups();
            }),
            Step::Group(group) => {
                self.world.group = SessionGroupId::new(group);
                self.edit(ImmediateActions::default(), |_| {});
            }
            Step::Rate(kbit) => self.edit(ImmediateActions::default(), |rules| {
                let rate = BitsPerSecond::from_kbit(kbit.into());
                let mbr = Edit::Set(BitRates { ul: rate, dl: rate });
                let update = QerUpdate {
                    mbr,
                    ..QerUpdate::new(QerId(10))
                };
                rules.update_qer(update).expect("it is there");
            }),
            Step::Flow(is_there) => self.edit(ImmediateActions::default(), |changed| {
                let known = changed.pdr(PdrId(12)).cloned();
                match (known, is_there) {
                    (Some(_), false) => drop(changed.remove_pdr(PdrId(12))),
                    (None, true) => {
                        let flow = rules(800, Some((100, 300))).pdr(PdrId(12)).cloned();
                        changed.create_pdr(flow.expect("it is there")).expect("it is new");
                    }
                    _ => {}
                }
            }),
            Step::Idle(is_idle) => self.edit(ImmediateActions::default(), |rules| {
                let action = if is_idle {
                    ApplyAction::BUFF
                } else {
                    ApplyAction::FORW
                };
                let update = FarUpdate {
                    action: Some(action),
                    ..FarUpdate::new(FarId(2))
                };
                rules.update_far(update).expect("it is there");
            }),
            Step::Handover => self.hand_over(),
            Step::Leave => self.share(MeterShare::Leaving),
            Step::Return => self.share(MeterShare::Whole),
            Step::Again => {
                self.end();
                self.image = self.world.install(1, rules(800, Some((100, 300))));
            }
        }
        self.look();
    }

    fn hand_over(&mut self) {
        self.teid += 1;
        let target = OuterHeaderCreation::gtpu_ipv4(Teid(self.teid), testing::GNB);
        let immediate = ImmediateActions {
            end_markers: vec![FarId(2)],
            ..ImmediateActions::default()
        };
        self.edit(immediate, |rules| hand_over(rules, target));
    }

    fn end(&mut self) {
        let usage = self
            .world
            .apply(0, SessionChange::Remove(SESSION))
            .expect("it is there");
        let counters = usage.map(|usage| usage.counters).unwrap_or_default();
        self.charged += counters.iter().map(|(_, count)| count.dl_packets).sum::<u64>();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Whatever becomes of a session: what has left was charged once, nothing else was, and nothing is held when it is
    /// gone.
    #[test]
    fn what_leaves_is_charged_and_nothing_else(
        steps in proptest::collection::vec(step(), 1..60),
        (instance, codel) in (prop_oneof![Just(0u64), 500u64..4_000], any::<bool>()),
    ) {
        let management = match codel {
            true => QueueManagement::CoDel,
            false => QueueManagement::TailDrop,
        };
        let mut life = Life::new(&Case { instance, octets: 20_000, management, ..FREE });
        for step in steps {
            life.take(step);
        }
        life.end();
        (0..50).for_each(|_| life.world.poll());
        life.look();
        prop_assert_eq!(life.left, life.charged);
        prop_assert_eq!((waiting(&life.world), life.world.workers[0].stats().held), (0, 0));
        prop_assert_eq!(life.world.workers[0].egress_counts().queues, 0);
    }
}

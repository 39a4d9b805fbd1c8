//! The backends against each other, under generated programs.

use crate::contract::{Flow, FlowOp, Object, ObjectId};
use crate::meter::{MeterSpec, Rate};
use crate::{
    Bounds, CounterLimit, Direction, Forward, ForwardKind, LimitAction, Mark, SessionIndex, Volumes,
};
use proptest::prelude::*;

use super::driver::{Driver, counter, flow, forward, key, meter, plain, qer};

/// One step of a program that all backends run.
#[derive(Clone, Debug)]
enum Step {
    Ask(SessionIndex, FlowOp),
    Send(u8, u32, u64),
}

fn any_object() -> impl Strategy<Value = Object> {
    let slot = || 0u8..3;
    let kind = prop::sample::select(vec![ForwardKind::Plain, ForwardKind::Drop, ForwardKind::Buffer]);
    let volume = || prop::option::of(0u64..6000);
    let volumes = move || {
        (volume(), volume(), volume()).prop_map(|(total, uplink, downlink)| Volumes {
            total,
            uplink,
            downlink,
        })
    };
    let action = prop::sample::select(vec![LimitAction::Event, LimitAction::Trap, LimitAction::Drop]);
    let limit = prop::option::of((volumes(), action));
    let limit = limit.prop_map(|limit| limit.map(|(octets, action)| CounterLimit { octets, action }));
    let way = any::<bool>().prop_map(|down| Direction::BOTH[usize::from(down)]);
    let spec =
        (1u64..100_000, 1u64..5000, 1u64..5000, any::<bool>()).prop_map(|(kbit, burst, further, three)| {
            let rate = Rate::from_kbit(kbit);
            match three {
                true => MeterSpec::SrTcm {
                    cir: rate,
                    cbs: burst,
                    ebs: further,
                    aware: false,
                },
                false => MeterSpec::Single { rate, burst },
            }
        });
    prop_oneof![
        (slot(), kind, 0u16..128).prop_map(|(slot, kind, egress)| {
            let forward = Forward {
                kind,
                ..plain(u32::from(egress))
            };
            Object::Forward { slot, forward }
        }),
        (slot(), 0u8..64, any::<[bool; 2]>(), any::<[bool; 2]>()).prop_map(|(slot, qfi, closed, metered)| {
            let closed = [closed[0] && metered[1], closed[1] && metered[0]];
            Object::Qer {
                slot,
                mark: Mark::qfi_only(qfi),
                closed,
                metered,
            }
        }),
        (slot(), way, spec).prop_map(|(qer, direction, spec)| Object::Meter {
            qer,
            direction,
            spec,
            state: None
        }),
        (slot(), volumes(), limit)
            .prop_map(|(slot, watermarks, limit)| counter(slot, Bounds { watermarks, limit })),
        (0u8..4, 0u64..8, 0u64..8, slot(), prop::option::of(slot())).prop_map(
            |(number, qers, urrs, forward, marking)| {
                Object::Flow(Flow {
                    qers,
                    urrs,
                    forward,
                    marking,
                    idle: 30_000,
                    ..flow(number)
                })
            }
        ),
    ]
}

fn any_step() -> impl Strategy<Value = Step> {
    let session = || (0u32..2).prop_map(SessionIndex);
    prop_oneof![
        4 => (session(), any_object()).prop_map(|(session, object)| Step::Ask(session, FlowOp::Install(object))),
        1 => (session(), any_object()).prop_map(|(session, object)| Step::Ask(session, FlowOp::Put(object))),
        1 => session().prop_map(|session| Step::Ask(session, FlowOp::Remove(ObjectId::Flows))),
        2 => (session(), any_object()).prop_map(|(session, object)| Step::Ask(session, FlowOp::Update(object))),
        1 => (session(), any_object()).prop_map(|(session, object)| Step::Ask(session, FlowOp::Remove(object.id()))),
        1 => (session(), any_object()).prop_map(|(session, object)| Step::Ask(session, FlowOp::Query(object.id()))),
        1 => session().prop_map(|session| Step::Ask(session, FlowOp::Query(ObjectId::Session))),
        8 => (0u8..4, 1u32..2000, 0u64..3_000_000).prop_map(|(number, octets, gap)| Step::Send(number, octets, gap)),
    ]
}

/// A session in which everything passes, so that programs get somewhere.
fn common_start() -> Vec<Step> {
    let objects = [
        forward(1),
        qer(0, [true, false]),
        meter(0, Direction::Uplink, 3000),
        counter(0, Bounds::NONE),
    ];
    let flows = [0, 1].map(|number| Object::Flow(flow(number)));
    let install = |object| Step::Ask(SessionIndex(0), FlowOp::Install(object));
    objects.into_iter().chain(flows).map(install).collect()
}

/// For all requests and packets, both backends return, report and do the same.
///
/// # Panics
/// When they do not, with the program that shows it.
pub fn backends_agree(cases: u32, make: [&dyn Fn(u64) -> Driver; 2]) {
    let config = ProptestConfig {
        cases,
        ..ProptestConfig::default()
    };
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let programs = (prop::collection::vec(any_step(), 1..60), any::<u64>());
    let outcome = runner.run(&programs, |(steps, seed)| {
        agree(steps, make.map(|make| make(seed)))
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
}

fn agree(steps: Vec<Step>, mut drivers: [Driver; 2]) -> Result<(), TestCaseError> {
    for step in common_start().into_iter().chain(steps) {
        match step {
            Step::Ask(session, op) => {
                let answers = drivers.each_mut().map(|driver| driver.ask(session, op.clone()));
                prop_assert_eq!(&answers[0], &answers[1], "{:?}", op);
            }
            Step::Send(number, octets, gap) => {
                let now = drivers[0].now.max(drivers[1].now) + core::time::Duration::from_nanos(gap);
                let fates = drivers.each_mut().map(|driver| {
                    driver.now = now;
                    driver.send(key(number), octets)
                });
                prop_assert_eq!(fates[0], fates[1]);
                let events = drivers.each_mut().map(Driver::take_events);
                prop_assert_eq!(&events[0], &events[1]);
            }
        }
    }
    Ok(())
}

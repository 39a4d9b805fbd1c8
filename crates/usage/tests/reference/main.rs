//! The accounts against a model that looks at every packet, over the workers' real counters.
//!
//! Seconds pass, packets come in random sizes and directions, the control plane asks, and grants new thresholds and
//! quotas. The model keeps every packet in a list and adds it up anew whenever it wants to know something.

use flow::{
    BlockImage, BlockRef, Blocks, Bounds, Direction, Millisecond, Nanos, ReplaceMap, SessionIndex, UrrCount,
    Weight,
};
use proptest::prelude::*;
use rules::image::Counter;
use rules::model::{
    Aggregated, MeasurementInformation, MeasurementMethod, Multiplier, ReportingTriggers, Urr, UrrId,
    UrrTerms, Volume,
};
use usage::{Moment, Renewed, Setting, UsageAccounts, UsageReport, UsageTriggers};

mod accounts_and_block;
mod model;

use accounts_and_block::AccountsAndBlock;
use model::{Model, Reference, Reported, after_grant};

/// What happens.
#[derive(Clone, Debug)]
enum Step {
    /// A packet that counts in these URRs, an event where they count those.
    Packet {
        urrs: u8,
        downlink: bool,
        octets: u16,
        event: bool,
    },
    /// Seconds pass.
    Wait(u8),
    /// The control plane asks for all.
    Query,
    /// New volume threshold and quota for a URR, as far as there are any.
    Grant {
        urr: u8,
        threshold: Option<Volume>,
        quota: Option<Volume>,
        time_quota: Option<u8>,
        event_threshold: Option<u32>,
        event_quota: Option<u32>,
    },
    /// The credit pool is of these, which weigh so much.
    Reweigh(Vec<Aggregated>),
    /// The block is replaced, with all counts.
    Replace,
    /// The session goes to another worker, where counters begin at 0.
    Move,
    /// The session goes to another process by its record.
    Transfer,
}

const URRS: usize = 4;

/// The last one is a credit pool of the others.
const POOL: usize = URRS - 1;

/// No traffic stops: how that is found is not exact to the second, and tested by itself.
const SETTING: Setting = Setting {
    epoch_nanos: 0,
    silence: u32::MAX,
};

fn volume() -> BoxedStrategy<Volume> {
    let part = || prop::option::weighted(0.4, 1_u64..20_000);
    (part(), part(), part())
        .prop_map(|(total, uplink, downlink)| Volume {
            total,
            uplink,
            downlink,
        })
        .boxed()
}

/// A volume of which parts may be 0.
fn quota() -> BoxedStrategy<Volume> {
    let zero = || prop::option::weighted(0.1, Just(0));
    (volume(), [zero(), zero(), zero()])
        .prop_map(|(volume, [total, uplink, downlink])| Volume {
            total: total.or(volume.total),
            uplink: uplink.or(volume.uplink),
            downlink: downlink.or(volume.downlink),
        })
        .boxed()
}

/// At most this number of seconds, or now and then none.
fn time_quota(most: u8) -> BoxedStrategy<u8> {
    prop_oneof![9 => 1..most, 1 => Just(0)].boxed()
}

fn urr(id: u32) -> BoxedStrategy<Urr> {
    let volumes = (prop::option::of(volume()), prop::option::of(quota()));
    let times = (
        prop::option::of(1..20_u32),
        prop::option::of(time_quota(40).prop_map(u32::from)),
    );
    let more = (
        prop::option::of(1..15_u32),
        prop::option::of(1..60_u32),
        any::<bool>(),
        any::<bool>(),
    );
    let linked = prop::option::weighted(0.3, 0..URRS as u32);
    let events = prop::option::weighted(0.4, (prop::option::of(1..9_u32), prop::option::of(0..20_u32)));
    (volumes, times, more, any::<u32>(), (linked, events))
        .prop_map(
            move |(
                (threshold, quota),
                times,
                (period, validity, durat, at_once),
                triggers,
                (linked, events),
            )| {
                let mut measured = MeasurementMethod::VOLUM;
                if durat {
                    measured.0 |= MeasurementMethod::DURAT.0;
                }
                if events.is_some() {
                    measured.0 |= MeasurementMethod::EVENT.0;
                }
                let (event_threshold, event_quota) = events.unwrap_or_default();
                let information = if at_once {
                    MeasurementInformation::ISTM
                } else {
                    MeasurementInformation(0)
                };
                let terms = UrrTerms {
                    quota_validity_time: validity,
                    event_threshold,
                    event_quota,
                    linked: linked.map(UrrId).into_iter().collect(),
                    ..UrrTerms::NONE
                };
                Urr {
                    method: measured,
                    information,
                    triggers: ReportingTriggers(triggers),
                    measurement_period: period,
                    volume_threshold: threshold.map(Box::new),
                    volume_quota: quota.map(Box::new),
                    time_threshold: times.0.filter(|_| durat),
                    time_quota: times.1.filter(|_| durat),
                    terms: Some(Box::new(terms)),
                    ..Urr::volume(UrrId(id))
                }
            },
        )
        .boxed()
}

/// Members of the pool, and multipliers.
fn members() -> BoxedStrategy<Vec<Aggregated>> {
    let digits = prop_oneof![2 => Just(1), 1 => 1..30_i64];
    let one = prop::option::weighted(0.7, (digits, -2..2_i32));
    [one.clone(), one.clone(), one]
        .prop_map(|all| {
            let member = |(urr, one): (u32, Option<(i64, i32)>)| {
                let (digits, exponent) = one?;
                let multiplier = Multiplier::new(digits, exponent)?;
                let urr = UrrId(urr);
                Some(Aggregated { urr, multiplier })
            };
            (0..).zip(all).filter_map(member).collect()
        })
        .boxed()
}

fn pool() -> BoxedStrategy<Urr> {
    (urr(POOL as u32), members())
        .prop_map(|(mut urr, members)| {
            urr.method.0 &= !MeasurementMethod::EVENT.0;
            urr.information = MeasurementInformation::default();
            let mut terms = urr.terms().clone();
            (terms.event_threshold, terms.event_quota) = (None, None);
            terms.pool = Some(members);
            urr.terms = Some(Box::new(terms));
            urr
        })
        .boxed()
}

/// The URR with another list of members.
fn reweighed(urr: &Urr, members: Vec<Aggregated>) -> Urr {
    let mut terms = urr.terms().clone();
    terms.pool = Some(members);
    Urr {
        terms: Some(Box::new(terms)),
        ..urr.clone()
    }
}

fn step() -> BoxedStrategy<Step> {
    prop_oneof![
        20 => (1_u8..8, any::<bool>(), 20_u16..9000, any::<bool>())
            .prop_map(|(urrs, downlink, octets, event)| Step::Packet { urrs, downlink, octets, event }),
        4 => (1_u8..12).prop_map(Step::Wait),
        1 => Just(Step::Query),
        2 => (0..URRS as u8, (prop::option::of(volume()), prop::option::of(quota())), prop::option::of(time_quota(40)),
            [prop::option::of(1..9_u32), prop::option::of(0..20_u32)])
            .prop_map(|(urr, (threshold, quota), time_quota, [event_threshold, event_quota])| Step::Grant {
                urr,
                threshold,
                quota,
                time_quota,
                event_threshold,
                event_quota,
            }),
        1 => members().prop_map(Step::Reweigh),
        1 => Just(Step::Replace),
        1 => Just(Step::Move),
        1 => Just(Step::Transfer),
    ].boxed()
}

fn granted(
    old: &Urr,
    (threshold, quota): (Option<Volume>, Option<Volume>),
    time: Option<u8>,
    events: [Option<u32>; 2],
) -> (Urr, Renewed) {
    let mut new = old.clone();
    let mut renewed = Renewed::default();
    if let Some(threshold) = threshold {
        new.volume_threshold = Some(Box::new(threshold));
        renewed.volume_threshold = true;
    }
    if let Some(quota) = quota {
        new.volume_quota = Some(Box::new(quota));
        renewed.volume_quota = true;
    }
    if let Some(time) = time.filter(|_| old.method.contains(MeasurementMethod::DURAT)) {
        new.time_quota = Some(time.into());
        renewed.time_quota = true;
    }
    let [threshold, quota] = events.map(|bound| bound.filter(|_| old.counts_events()));
    let mut terms = old.terms().clone();
    terms.event_threshold = threshold.or(terms.event_threshold);
    terms.event_quota = quota.or(terms.event_quota);
    (renewed.event_threshold, renewed.event_quota) = (threshold.is_some(), quota.is_some());
    new.terms = Some(Box::new(terms));
    (new, renewed)
}

fn sorted(mut reported: Vec<Reported>) -> Vec<Reported> {
    reported.sort_by_key(|reported| (reported.urr, reported.sequence));
    reported
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn reports_are_what_a_look_at_every_packet_gives(
        urrs in (urr(0), urr(1), urr(2), pool()),
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let urrs = [urrs.0, urrs.1, urrs.2, urrs.3];
        let mut tested = AccountsAndBlock::new(&urrs);
        let mut reference = Reference {
            now: 0,
            urrs: urrs.iter().map(Model::new).collect(),
            reported: Vec::new(),
        };
        for step in steps {
            match step.clone() {
                Step::Packet { urrs, downlink, octets, event } => {
                    let counted = tested.packet(urrs, downlink, octets, event);
                    let expected = reference.packet(urrs, !downlink, octets.into(), event);
                    prop_assert_eq!(counted, expected, "{:?}", step);
                }
                Step::Wait(seconds) => for _ in 0..seconds {
                    tested.second();
                    reference.second();
                },
                Step::Query => {
                    tested.query();
                    reference.query();
                }
                Step::Grant { urr, threshold, quota, time_quota, event_threshold, event_quota } => {
                    let at = usize::from(urr);
                    let events = [event_threshold, event_quota];
                    let (new, renewed) = granted(&tested.urrs[at], (threshold, quota), time_quota, events);
                    tested.grant(at, new.clone(), renewed);
                    let now = reference.now;
                    reference.urrs[at].grant(&new, renewed, now);
                    after_grant(&mut reference);
                }
                Step::Reweigh(members) => {
                    let new = reweighed(&tested.urrs[POOL], members);
                    tested.reweigh(new.clone());
                    reference.urrs[POOL].urr = new;
                    after_grant(&mut reference);
                }
                Step::Replace => {
                    let bounds = tested.accounts.bounds(&tested.urrs);
                    tested.replace(bounds);
                }
                Step::Move => tested.move_away(),
                Step::Transfer => tested.transfer(),
            }
            let reported: Vec<Reported> = tested.reports.iter().map(Reported::from).collect();
            prop_assert_eq!(sorted(reported), sorted(reference.reported.clone()), "after {:?}", step);
        }
        // What is not reported is what the list says.
        let counts = tested.counts();
        for (checkpoint, model) in tested.accounts.checkpoints(&counts).iter().zip(&reference.urrs) {
            let (octets, _) = model.unreported();
            let count = checkpoint.used();
            prop_assert_eq!([count.ul_octets + count.dl_octets, count.ul_octets, count.dl_octets], octets);
            prop_assert_eq!(count.events, model.events() - model.report_events);
            let times = checkpoint.times.map(|times| (times.first, times.last));
            prop_assert_eq!(times, model.times_of_packets());
        }
    }
}

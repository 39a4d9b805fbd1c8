//! What is wrong with a UPF at a moment, from what control and others know.

use std::time::Duration;

use config::{Watermark, WatermarkCounter};
use flow::Nanos;
use nat::pools::NatPoolId;
use session::{PoolId, SessionGroup};
use upf::Control;

use super::kind::Kind;
use super::limits::{NEAR, level_of};
use super::list::{Condition, Level};
use super::seen::{Disk, LostRecords, Seen, room};
use crate::values::{RecordsState, StoreState};

/// The same of file systems.
const DISK_NEAR: u64 = 95;
const DISK_NEAR_NO_MORE: u64 = 92;
/// Per cent of a watermark, below which its alarm is over.
const BELOW_WATERMARK: u64 = 95;
/// How long it is shown that the clock was stepped, or that records were lost.
const REMEMBERED: Duration = Duration::from_secs(300);
/// Conditions of one kind at most.
const MOST: usize = 500;

/// All that is wrong at `now`.
#[must_use]
pub fn conditions(now: Nanos, control: &Control, seen: &mut Seen) -> Vec<Condition> {
    let mut found = Vec::new();
    add_smfs(&mut found, control);
    add_ports(&mut found, control);
    add_limits(&mut found, control);
    add_nat_pools(&mut found, now, control, seen);
    let failed = control.endpoint().failed_paths();
    if failed > 0 {
        let text = format!("{failed} GTP-U peers do not answer Echo Requests");
        found.push(raised(Kind::PathsDown, "", text));
    }
    if control.admission().is_overloaded() {
        let text = "new sessions are refused: control is overloaded".to_owned();
        found.push(raised(Kind::Overload, "", text));
    }
    for worker in seen.stalled().take(MOST) {
        let text = "the worker makes no progress: its thread hangs, or has no core".to_owned();
        found.push(raised(Kind::WorkerStalled, &worker.to_string(), text));
    }
    add_accelerators(&mut found, seen);
    found.extend(near(Kind::FlowsNearLimit, "", seen.flows.0, seen.flows.1));
    add_queues(&mut found, seen);
    let marks = seen.watermarks.iter();
    found.extend(marks.filter_map(|mark| watermark(mark, count_of(mark, control, seen))));
    add_records(&mut found, now, seen);
    add_store(&mut found, seen);
    add_disks(&mut found, seen);
    for fault in seen.undelivered.iter().take(MOST) {
        let text = format!("alarms are not delivered: {}", fault.why);
        found.push(raised(Kind::AlarmsUndelivered, &fault.object, text));
    }
    let stepped = seen.stepped.as_ref();
    if let Some(step) = stepped.filter(|step| now.since(step.at) < REMEMBERED) {
        found.push(raised(Kind::ClockStepped, "", step.text.clone()));
    }
    found
}

fn raised(kind: Kind, object: &str, text: String) -> Condition {
    Condition {
        kind,
        object: object.to_owned(),
        level: Level::Raises,
        text,
    }
}

fn add_smfs(found: &mut Vec<Condition>, control: &Control) {
    let silent = control.endpoint().associations().filter(|one| !one.reachable);
    for one in silent.take(MOST) {
        let sessions = control.endpoint().sessions().sessions_of(one.id);
        let text = format!("the SMF does not answer heartbeats; it has {sessions} sessions");
        found.push(raised(Kind::SmfLost, &one.node.to_string(), text));
    }
}

fn add_ports(found: &mut Vec<Condition>, control: &Control) {
    let links = control.port_links();
    for lag in links.lags() {
        let lag_name = links.name(lag.port());
        for member in lag.status().filter(|member| !member.distributing) {
            let text = format!("the member carries no frames of {lag_name}: {}", member.words);
            found.push(raised(Kind::MemberDown, &links.name(member.port), text));
        }
    }
    // Of members the alarm above says more.
    let is_member = |place: usize| {
        let mut lags = links.lags().iter();
        lags.any(|lag| lag.status().any(|member| member.port.index() == place))
    };
    for (place, (name, up)) in links.ports().enumerate() {
        if !up && !is_member(place) {
            found.push(raised(Kind::LinkDown, name, "the port has no link".into()));
        }
    }
}

fn add_accelerators(found: &mut Vec<Condition>, seen: &Seen) {
    for worker in seen.without_contact().take(MOST) {
        let text =
            "not in contact, or not ready: without contact the ports behind the accelerator carry nothing"
                .to_owned();
        found.push(raised(Kind::AcceleratorLost, &worker.to_string(), text));
    }
}

fn add_limits(found: &mut Vec<Condition>, control: &Control) {
    let sessions = control.endpoint().sessions();
    let config = &control.endpoint().config().sessions;
    let count = sessions.count().sessions as u64;
    found.extend(near(
        Kind::SessionsNearLimit,
        "",
        count,
        config.max_sessions.into(),
    ));
    for (pool, place) in config.pools.iter().take(MOST).zip(0..) {
        let (used, limit) = sessions.pool_usage(PoolId(place));
        found.extend(near(Kind::PoolNearEnd, &pool.name, used, limit));
    }
}

fn add_nat_pools(found: &mut Vec<Condition>, now: Nanos, control: &Control, seen: &mut Seen) {
    let refused = seen.note_exhausted(now, control.endpoint().sessions().nat_exhausted());
    let pools = control.network().nat().pools();
    let ids = refused
        .into_iter()
        .take(MOST)
        .map(|place| NatPoolId(place as u16));
    for (id, pool) in ids.filter_map(|id| Some((id, pools.pool(id)?))) {
        let text = match pools.deterministic(id) {
            None => "sessions lack ports: no port block was free that they may have".to_owned(),
            Some(ues) => {
                let (first, len) = ues.prefix();
                format!("sessions lack ports: their UEs are none of {first}/{len}")
            }
        };
        found.push(raised(Kind::NatPoolExhausted, &pool.name, text));
    }
}

/// Each worker has room of its own: another one's is of no use to its sessions.
fn add_queues(found: &mut Vec<Condition>, seen: &Seen) {
    let workers = seen.egress.iter().enumerate();
    for (place, counts) in workers.filter(|(_, counts)| counts.queues_limit > 0).take(MOST) {
        let worker = place.to_string();
        let (queues, most) = (counts.queues as u64, counts.queues_limit as u64);
        found.extend(near(Kind::EgressQueuesNearLimit, &worker, queues, most));
        if counts.lacking > 0 {
            let text =
                "sessions have no queues for want of room: their packets do not wait, and rates that queues \
                        would keep are not kept"
                    .to_owned();
            found.push(raised(Kind::EgressQueuesLacking, &worker, text));
        }
        let crowded = seen.is_crowded(place);
        for ((what, (used, limit)), is_crowded) in
            ["packets", "octets"].into_iter().zip(room(counts)).zip(crowded)
        {
            let object = format!("{worker} {what}");
            let mut full = near(Kind::EgressPoolNearFull, &object, used, limit);
            if let Some(full) = full.as_mut().filter(|_| !is_crowded) {
                full.level = Level::Keeps;
            }
            found.extend(full);
        }
    }
}

/// What a watermark counts, as of now.
fn count_of(mark: &Watermark, control: &Control, seen: &Seen) -> u64 {
    let sessions = control.endpoint().sessions();
    match mark.of {
        WatermarkCounter::Flows => seen.flows.0,
        WatermarkCounter::Throughput | WatermarkCounter::PacketRate => {
            let is_of_all = mark.slice.is_none() && mark.dnn.is_none();
            let groups = sessions.groups();
            let groups = groups.filter(|count| is_of_all || is_of(mark, &count.group));
            let numbers: Vec<_> = groups.map(|count| count.number).collect();
            seen.rates.of(mark, &numbers)
        }
        WatermarkCounter::Sessions if mark.slice.is_none() && mark.dnn.is_none() => {
            sessions.count().sessions as u64
        }
        WatermarkCounter::Sessions => {
            let of_mark = sessions.groups().filter(|count| is_of(mark, &count.group));
            of_mark.map(|count| count.sessions).sum()
        }
    }
}

/// Whether a watermark counts the sessions of a group.
fn is_of(mark: &Watermark, group: &SessionGroup) -> bool {
    let SessionGroup::Of { s_nssai, dnn } = group else {
        return false;
    };
    mark.slice.is_none_or(|slice| *s_nssai == Some(slice))
        && mark.dnn.as_ref().is_none_or(|name| dnn.as_deref() == Some(name))
}

fn watermark(mark: &Watermark, count: u64) -> Option<Condition> {
    let level = if count >= mark.at {
        Level::Raises
    } else if u128::from(count) * 100 >= u128::from(mark.at) * u128::from(BELOW_WATERMARK) {
        Level::Keeps
    } else {
        return None;
    };
    let text = match mark.of {
        WatermarkCounter::Throughput => format!("the throughput has reached {} kbit/s", mark.at),
        WatermarkCounter::PacketRate => format!("the rate has reached {} packets/s", mark.at),
        WatermarkCounter::Sessions | WatermarkCounter::Flows => format!("the count has reached {}", mark.at),
    };
    Some(Condition {
        level,
        ..raised(Kind::Watermark, &mark.to_string(), text)
    })
}

fn add_disks(found: &mut Vec<Condition>, seen: &Seen) {
    if let Some(fault) = &seen.audit {
        let text = format!("the disk takes no lines of the audit log: {}", fault.why);
        found.push(raised(Kind::AuditNotWritten, &fault.object, text));
    }
    for Disk {
        directory,
        used_mib,
        size_mib,
    } in seen.disks.iter().take(MOST)
    {
        let percent = used_mib.saturating_mul(100) / (*size_mib).max(1);
        let level = match percent {
            DISK_NEAR.. => Level::Raises,
            DISK_NEAR_NO_MORE.. => Level::Keeps,
            _ => continue,
        };
        let text = format!("{DISK_NEAR}% of {size_mib} MiB in use, or a little less");
        found.push(Condition {
            level,
            ..raised(Kind::DiskNearFull, &directory.display().to_string(), text)
        });
    }
}

/// The condition that little of something is left. Its text has no figures that change all the time.
fn near(kind: Kind, object: &str, used: u64, limit: u64) -> Option<Condition> {
    let text = format!("{NEAR}% of {limit} in use, or a little less");
    Some(Condition {
        level: level_of(used, limit)?,
        ..raised(kind, object, text)
    })
}

fn add_records(found: &mut Vec<Condition>, now: Nanos, seen: &mut Seen) {
    let Some(records) = &seen.records else { return };
    if records.state != RecordsState::Writing {
        let why = records.error.as_deref().unwrap_or("the disk takes none");
        let text = format!("usage records are held in memory: {why}");
        found.push(raised(Kind::RecordsHeld, &records.directory, text));
    }
    let known = seen.lost.map_or(0, |lost| lost.count);
    if records.lost > known {
        seen.lost = Some(LostRecords {
            count: records.lost,
            at: now,
        });
    }
    if seen.lost.is_some_and(|lost| now.since(lost.at) < REMEMBERED) {
        let text = "usage records are lost: memory was full while the disk took none".to_owned();
        found.push(raised(Kind::RecordsLost, &records.directory, text));
    }
}

fn add_store(found: &mut Vec<Condition>, seen: &Seen) {
    let Some(store) = &seen.store else { return };
    if store.state == StoreState::Failing {
        let why = store.error.as_deref().unwrap_or("the disk takes none");
        let text = format!("new sessions and changes of sessions are rejected: {why}");
        found.push(raised(Kind::StoreFailing, &store.directory, text));
    }
}

#[cfg(test)]
mod tests {
    use rules::model::SNssai;
    use worker::EgressCounts;

    use super::super::list::{Alarms, At};
    use super::super::seen::Fault;
    use super::*;
    use crate::values::{RecordsStatus, RestoredSessions, Severity, StoreStatus, UnreportedCounts};

    #[test]
    fn a_watermark_counts_the_sessions_of_its_slice_and_dnn() {
        let slice = |sst| SNssai {
            sst,
            sd: SNssai::NO_SD,
        };
        let mark = |slice, dnn: Option<&str>| Watermark {
            of: WatermarkCounter::Sessions,
            at: 200,
            slice,
            dnn: dnn.map(str::to_owned),
            direction: None,
        };
        let group = |slice, dnn: Option<&str>| SessionGroup::Of {
            s_nssai: slice,
            dnn: dnn.map(Box::from),
        };
        let (one, two) = (Some(slice(1)), Some(slice(2)));
        assert!(is_of(&mark(one, None), &group(one, Some("a"))));
        assert!(!is_of(&mark(one, None), &group(two, Some("a"))));
        assert!(!is_of(&mark(one, None), &group(None, None)));
        assert!(is_of(&mark(one, Some("a")), &group(one, Some("a"))));
        assert!(!is_of(&mark(one, Some("b")), &group(one, Some("a"))));
        assert!(!is_of(&mark(None, Some("a")), &SessionGroup::Others));
        let level = |count| watermark(&mark(one, None), count).map(|found| found.level);
        assert_eq!(
            [189, 190, 199, 200].map(level),
            [None, Some(Level::Keeps), Some(Level::Keeps), Some(Level::Raises)]
        );
    }

    #[test]
    fn disks_are_watched_before_they_are_full_and_when_they_take_nothing() {
        let disk = |used_mib| Disk {
            directory: "/spool".into(),
            used_mib,
            size_mib: 1_000,
        };
        let mut found = Vec::new();
        let seen = Seen {
            audit: Some(Fault {
                object: "/audit".into(),
                why: "no space left on device".into(),
            }),
            disks: [919, 920, 949, 950].map(disk).to_vec(),
            ..Seen::default()
        };
        add_disks(&mut found, &seen);
        let kinds: Vec<_> = found.iter().map(|one| (one.kind, one.level)).collect();
        assert_eq!(
            kinds,
            [
                (Kind::AuditNotWritten, Level::Raises),
                (Kind::DiskNearFull, Level::Keeps),
                (Kind::DiskNearFull, Level::Keeps),
                (Kind::DiskNearFull, Level::Raises)
            ]
        );
    }

    #[test]
    fn queues_raise_alarms_of_the_worker_that_lacks_room() {
        let counts = EgressCounts {
            queues: 50,
            queues_limit: 100,
            packets: 10,
            packets_limit: 1_000,
            octets: 10_000,
            octets_limit: 100_000,
            ..EgressCounts::default()
        };
        let kinds = |worker: EgressCounts| {
            // Workers of a UPF without queues have no limit, and none is near.
            let mut seen = Seen::default();
            let mut found = Vec::new();
            for _ in 0..3 {
                seen.note_egress(vec![EgressCounts::default(), counts, worker]);
                found.clear();
                add_queues(&mut found, &seen);
            }
            let found = found.into_iter().map(|one| (one.kind, one.object, one.level));
            found.collect::<Vec<_>>()
        };
        assert_eq!(kinds(counts), []);
        let one = |kind, object: &str, level| vec![(kind, object.to_owned(), level)];
        let queues = |queues| {
            let mut counts = counts;
            counts.queues = queues;
            kinds(counts)
        };
        assert_eq!(queues(90), one(Kind::EgressQueuesNearLimit, "2", Level::Raises));
        assert_eq!(queues(86), one(Kind::EgressQueuesNearLimit, "2", Level::Keeps));
        // A session that grows has queues of the reserve.
        assert_eq!(queues(120), one(Kind::EgressQueuesNearLimit, "2", Level::Raises));
        let lacking = EgressCounts { lacking: 1, ..counts };
        assert_eq!(kinds(lacking), one(Kind::EgressQueuesLacking, "2", Level::Raises));
        let packets = EgressCounts {
            packets: 950,
            ..counts
        };
        assert_eq!(
            kinds(packets),
            one(Kind::EgressPoolNearFull, "2 packets", Level::Raises)
        );
        let octets = EgressCounts {
            octets: 99_000,
            ..counts
        };
        assert_eq!(
            kinds(octets),
            one(Kind::EgressPoolNearFull, "2 octets", Level::Raises)
        );
        // A burst is none, but it lets an alarm stay.
        let (mut seen, mut levels) = (Seen::default(), Vec::new());
        for worker in [octets, octets, counts, octets, octets, octets] {
            seen.note_egress(vec![worker]);
            let mut found = Vec::new();
            add_queues(&mut found, &seen);
            levels.push(found.pop().map(|one| one.level));
        }
        let keeps = Some(Level::Keeps);
        assert_eq!(levels, [keeps, keeps, None, keeps, keeps, Some(Level::Raises)]);
    }

    #[test]
    fn an_accelerator_is_lost_after_some_looks_and_is_cleared_on_contact() {
        let (mut seen, mut alarms) = (Seen::default(), Alarms::default());
        let mut look = |second: u64, contact| {
            // Worker 0 has no accelerator, that of worker 2 is always in contact.
            seen.note_contacts([None, Some(contact), Some(true)].into_iter());
            let mut found = Vec::new();
            add_accelerators(&mut found, &seen);
            let now = Nanos::from_secs(second);
            alarms.observe(
                At {
                    now,
                    unix_ms: 1_000 * second,
                },
                found,
            );
            let alarms = alarms.list().alarms;
            let rows = alarms
                .into_iter()
                .map(|row| (row.alarm, row.object, row.severity));
            rows.collect::<Vec<_>>()
        };
        let lost = ("accelerator_lost".to_owned(), "1".to_owned(), Severity::Critical);
        assert_eq!(look(0, true), []);
        // One that is soon there again raises nothing.
        assert_eq!([look(1, false), look(2, false), look(3, true)], [[], [], []]);
        assert_eq!([look(4, false), look(5, false)], [[], []]);
        assert_eq!(look(6, false), vec![lost.clone()]);
        assert_eq!([look(7, true), look(16, true)], [[lost.clone()], [lost]]);
        assert_eq!(look(17, true), []);
    }

    #[test]
    fn a_store_that_fails_is_shown_with_its_reason_while_it_does() {
        let store = StoreStatus {
            directory: "/store".into(),
            state: StoreState::Failing,
            error: Some("no space left on device".into()),
            changes: 1,
            records: 1,
            live_octets: 0,
            garbage_octets: 0,
            segments: 1,
            segment_index_octets: 0,
            index_octets: 0,
            reserve_octets: 0,
            held: 1,
            held_octets: 100,
            written_octets: 0,
            compacted_octets: 0,
            syncs: 1,
            failures: 1,
            unreadable: 0,
            sessions: RestoredSessions::default(),
        };
        let text = store.text();
        assert!(
            text.contains("FAILING") && text.contains("no space left on device"),
            "{text}"
        );
        let mut seen = Seen {
            store: Some(store),
            ..Seen::default()
        };
        let mut found = Vec::new();
        add_store(&mut found, &seen);
        let [one] = found.as_slice() else {
            panic!("{found:?}")
        };
        assert_eq!((one.kind, one.object.as_str()), (Kind::StoreFailing, "/store"));
        assert!(one.text.ends_with("rejected: no space left on device"));
        if let Some(store) = &mut seen.store {
            store.state = StoreState::Writing;
        }
        found.clear();
        add_store(&mut found, &seen);
        assert_eq!(found, []);
    }

    #[test]
    fn a_limit_raises_at_one_share_and_keeps_down_to_another() {
        let level = |used| near(Kind::PoolNearEnd, "ues", used, 200).map(|condition| condition.level);
        assert_eq!(level(169), None);
        assert_eq!((level(170), level(179)), (Some(Level::Keeps), Some(Level::Keeps)));
        assert_eq!(
            (level(180), level(200)),
            (Some(Level::Raises), Some(Level::Raises))
        );
        assert_eq!(near(Kind::PoolNearEnd, "none", 0, 0), None);
    }

    #[test]
    fn lost_records_are_shown_for_some_time_and_held_ones_while_they_are() {
        let records = RecordsStatus {
            directory: "/spool".into(),
            state: RecordsState::Full,
            error: Some("no space left on device".into()),
            written: 0,
            octets: 0,
            held: 10,
            held_most: 10,
            lost: 3,
            files: 0,
            syncs: 0,
            failures: 1,
            unreported: UnreportedCounts::default(),
        };
        let mut seen = Seen {
            records: Some(records),
            ..Seen::default()
        };
        let mut kinds = |second, state| {
            if let Some(records) = &mut seen.records {
                records.state = state;
            }
            let mut found = Vec::new();
            add_records(&mut found, Nanos::from_secs(second), &mut seen);
            found.iter().map(|condition| condition.kind).collect::<Vec<_>>()
        };
        assert_eq!(
            kinds(1, RecordsState::Full),
            [Kind::RecordsHeld, Kind::RecordsLost]
        );
        assert_eq!(kinds(2, RecordsState::Writing), [Kind::RecordsLost]);
        assert_eq!(kinds(301, RecordsState::Writing), []);
    }
}

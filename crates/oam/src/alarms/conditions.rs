//! What is wrong with a UPF at a moment, from what control and others know.

use std::time::Duration;

use flow::Nanos;
use session::PoolId;
use upf::Control;

use super::list::{Condition, Kind, Level};
use crate::values::{RecordsState, RecordsStatus};

/// Per cent of a limit that raise an alarm; below the second number it is over.
const NEAR: u64 = 90;
const NEAR_NO_MORE: u64 = 85;
/// How long it is shown that the clock was stepped, or that records were lost.
const REMEMBERED: Duration = Duration::from_secs(300);
/// Conditions of one kind at most.
const MOST: usize = 500;

/// What control does not know.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Usage records, where there are any.
    pub records: Option<RecordsStatus>,
    /// When the host's clock was stepped last, and how.
    pub stepped: Option<ClockStep>,
    lost: Option<LostRecords>,
}

/// A step of the host's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClockStep {
    /// When.
    pub at: Nanos,
    /// In words.
    pub text: String,
}

/// Usage records that are lost, and since when there were no more.
#[derive(Clone, Copy, Debug, Default)]
struct LostRecords {
    count: u64,
    at: Nanos,
}

impl Seen {
    /// Notes a step of the host's clock.
    pub fn note_step(&mut self, at: Nanos, text: String) {
        self.stepped = Some(ClockStep { at, text });
    }
}

/// All that is wrong at `now`.
#[must_use]
pub fn conditions(now: Nanos, control: &Control, seen: &mut Seen) -> Vec<Condition> {
    let mut found = Vec::new();
    add_smfs(&mut found, control);
    add_ports(&mut found, control);
    add_limits(&mut found, control);
    let failed = control.endpoint().failed_paths();
    if failed > 0 {
        let text = format!("{failed} GTP-U peers do not answer Echo Requests");
        found.push(raised(Kind::PathsDown, "", text));
    }
    if control.admission().is_overloaded() {
        let text = "new sessions are refused: control is overloaded".to_owned();
        found.push(raised(Kind::Overload, "", text));
    }
    add_records(&mut found, now, seen);
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

/// The condition that little of something is left. Its text has no figures that change all the time.
fn near(kind: Kind, object: &str, used: u64, limit: u64) -> Option<Condition> {
    let percent = u128::from(used) * 100 / u128::from(limit.max(1));
    let level = match percent {
        percent if percent >= u128::from(NEAR) => Level::Raises,
        percent if percent >= u128::from(NEAR_NO_MORE) => Level::Keeps,
        _ => return None,
    };
    Some(Condition {
        level,
        ..raised(
            kind,
            object,
            format!("{NEAR}% of {limit} in use, or a little less"),
        )
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::UnreportedCounts;

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

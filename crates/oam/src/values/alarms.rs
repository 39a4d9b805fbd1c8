//! Alarms and their events.

use std::time::{Duration, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::table::Table;

/// How bad something is (TS 28.111, ITU-T X.733 §8.1.2.3), the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// It is to be seen to at once.
    Critical,
    /// It is to be seen to soon.
    Major,
    /// It is to be seen to before it becomes worse.
    Minor,
    /// It may become a fault.
    Warning,
    /// Not known.
    Indeterminate,
    /// It is over.
    Cleared,
}

impl Severity {
    /// Its name.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Critical => "critical",
            Self::Major => "major",
            Self::Minor => "minor",
            Self::Warning => "warning",
            Self::Indeterminate => "indeterminate",
            Self::Cleared => "cleared",
        }
    }
}

/// What is wrong now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AlarmList {
    /// The worst first.
    pub alarms: Vec<AlarmRow>,
    /// Conditions that found no room in the list, since the start.
    pub omitted: u64,
    /// The number of the last event: `after` for what comes next.
    pub last_event: u64,
}

/// One alarm.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AlarmRow {
    /// Its number in this process.
    pub id: u64,
    /// What is wrong.
    #[schema(example = "smf_lost")]
    pub alarm: String,
    /// What it is wrong with: an SMF, a port, a pool; empty: the UPF.
    #[schema(example = "smf.5gc.example")]
    pub object: String,
    /// How bad it is.
    pub severity: Severity,
    /// The type of alarm (ITU-T X.733).
    #[schema(example = "Communications Alarm")]
    pub event_type: String,
    /// The probable cause (ITU-T X.733).
    #[schema(example = "Communications Subsystem Failure")]
    pub probable_cause: String,
    /// What is wrong, in words.
    pub text: String,
    /// Since when, milliseconds since 1970.
    pub first_raised_ms: u64,
    /// When it changed last, milliseconds since 1970.
    pub changed_ms: u64,
    /// How often it came back before it was cleared, and once more.
    pub count: u64,
}

/// What a webhook gets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AlarmNotification {
    /// The Node ID of this UPF.
    pub node: String,
    /// Its version.
    pub version: String,
    /// When its process began, milliseconds since 1970. With another one all alarms of the process before are void.
    pub started_ms: u64,
    /// Events before these that could not be delivered, and are kept no more.
    pub lost: u64,
    /// In the order in which they came; none in the first notification of a process without alarms.
    pub events: Vec<AlarmEvent>,
}

/// Events of late.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AlarmEventList {
    /// In the order in which they came.
    pub events: Vec<AlarmEvent>,
    /// Events before them that are not kept any more.
    pub lost: u64,
}

/// An alarm that was raised or cleared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AlarmEvent {
    /// Its number in this process, from 1 on.
    pub id: u64,
    /// When, milliseconds since 1970.
    pub time_ms: u64,
    /// What has happened.
    pub change: AlarmChange,
    /// The alarm.
    pub alarm: AlarmRow,
}

/// What has happened to an alarm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AlarmChange {
    /// It is there.
    Raised,
    /// It is over.
    Cleared,
}

impl AlarmList {
    /// As a table for people.
    #[must_use]
    pub fn text(&self) -> String {
        if self.alarms.is_empty() {
            return "no alarms\n".into();
        }
        let mut table = Table::new(["severity", "alarm", "object", "since", ">count", "text"]);
        for row in &self.alarms {
            let since = UNIX_EPOCH + Duration::from_millis(row.first_raised_ms);
            table.row([
                row.severity.word().into(),
                row.alarm.clone(),
                row.object.clone(),
                humantime::format_rfc3339_seconds(since).to_string(),
                row.count.to_string(),
                row.text.clone(),
            ]);
        }
        table.text("")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alarms_are_a_table_or_a_word() {
        let row = AlarmRow {
            id: 1,
            alarm: "link_down".into(),
            object: "n6".into(),
            severity: Severity::Critical,
            event_type: String::new(),
            probable_cause: String::new(),
            text: "the port has no link".into(),
            first_raised_ms: 86_400_000,
            changed_ms: 86_400_000,
            count: 2,
        };
        let mut list = AlarmList {
            alarms: vec![row],
            omitted: 0,
            last_event: 1,
        };
        let expected = "severity  alarm      object  since                 count  text\n\
                        critical  link_down  n6      1970-01-02T00:00:00Z      2  the port has no link\n";
        assert_eq!(list.text(), expected);
        list.alarms.clear();
        assert_eq!(list.text(), "no alarms\n");
    }
}

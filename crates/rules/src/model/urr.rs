//! Usage Reporting Rules (TS 29.244 §5.2.2, Table 7.5.2.4-1). Counted; thresholds and quotas are kept, not acted on.

use super::ids::UrrId;

/// What is measured (TS 29.244 §8.2.40), the octet of the wire.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct MeasurementMethod(pub u8);

impl MeasurementMethod {
    /// Time.
    pub const DURAT: Self = Self(0x01);
    /// Octets.
    pub const VOLUM: Self = Self(0x02);
    /// Events.
    pub const EVENT: Self = Self(0x04);

    /// Whether every flag of `flags` is set.
    pub const fn contains(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }
}

/// What calls for a report (TS 29.244 §8.2.19): octet 5 in the low byte, then octet 6 and octet 7.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct ReportingTriggers(pub u32);

/// A volume threshold or quota in octets (TS 29.244 §8.2.13, §8.2.50); a part that is left out has no bound.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Volume {
    /// Both directions together.
    pub total: Option<u64>,
    /// Uplink.
    pub uplink: Option<u64>,
    /// Downlink.
    pub downlink: Option<u64>,
}

/// A Usage Reporting Rule (TS 29.244 Table 7.5.2.4-1).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Urr {
    /// Its number in the session.
    pub id: UrrId,
    /// What is measured.
    pub method: MeasurementMethod,
    /// What calls for a report.
    pub triggers: ReportingTriggers,
    /// Octets after which to report.
    pub volume_threshold: Option<Box<Volume>>,
    /// Octets after which to stop.
    pub volume_quota: Option<Box<Volume>>,
    /// Seconds after which to report.
    pub time_threshold: Option<u32>,
    /// Seconds after which to stop.
    pub time_quota: Option<u32>,
    /// Inactive Measurement: nothing is counted, and what was counted stays (TS 29.244 §5.2.2.2.1).
    pub is_paused: bool,
}

impl Urr {
    /// Counts octets and reports when asked.
    pub const fn volume(id: UrrId) -> Self {
        Self {
            id,
            method: MeasurementMethod::VOLUM,
            triggers: ReportingTriggers(0),
            volume_threshold: None,
            volume_quota: None,
            time_threshold: None,
            time_quota: None,
            is_paused: false,
        }
    }
}

//! Which terms of a URR a request provisions again.

/// Which of a URR's terms a request gives anew, be it with the same values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Renewed {
    /// The Volume Threshold.
    pub volume_threshold: bool,
    /// The Volume Quota.
    pub volume_quota: bool,
    /// The Time Threshold.
    pub time_threshold: bool,
    /// The Time Quota.
    pub time_quota: bool,
    /// The Event Threshold.
    pub event_threshold: bool,
    /// The Event Quota.
    pub event_quota: bool,
    /// The Measurement Period.
    pub period: bool,
    /// The Quota Holding Time.
    pub holding: bool,
    /// The Quota Validity Time.
    pub validity: bool,
    /// The Inactivity Detection Time.
    pub inactivity: bool,
    /// The Monitoring Time, or one of the additional ones.
    pub monitoring: bool,
    /// The flag that starts time metering at once (ISTM).
    pub immediate_start: bool,
    /// The measurement itself begins anew: no PDR is left that names the URR.
    pub measurement: bool,
}

impl Renewed {
    /// All of them.
    pub const ALL: Self = Self {
        volume_threshold: true,
        volume_quota: true,
        time_threshold: true,
        time_quota: true,
        event_threshold: true,
        event_quota: true,
        period: true,
        holding: true,
        validity: true,
        inactivity: true,
        monitoring: true,
        immediate_start: true,
        measurement: true,
    };

    /// Those of a URR that has lost its last PDR: its measurement ends, and begins with the first packet of the next
    /// PDR, under thresholds and quotas as they were provisioned (TS 29.244 §5.2.2.3.1).
    pub const DISSOCIATED: Self = Self {
        immediate_start: false,
        ..Self::ALL
    };

    /// The same, as it is where a PDR names a URR that none has named before: quotas are as they were provisioned
    /// (TS 29.244 §5.2.2.3.1, NOTE 5).
    #[must_use]
    pub const fn associated(self) -> Self {
        Self {
            volume_quota: true,
            time_quota: true,
            event_quota: true,
            ..self
        }
    }

    pub(super) const fn any_quota(self) -> bool {
        self.volume_quota || self.time_quota || self.event_quota
    }
}

//! What a URR measures, what triggers its reports, and its thresholds and quotas: values of their own.

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

impl ReportingTriggers {
    /// The Measurement Period is over.
    pub const PERIO: Self = Self(1);
    /// The Volume Threshold is reached.
    pub const VOLTH: Self = Self(1 << 1);
    /// The Time Threshold is reached.
    pub const TIMTH: Self = Self(1 << 2);
    /// No packet came for the Quota Holding Time.
    pub const QUHTI: Self = Self(1 << 3);
    /// Traffic starts.
    pub const START: Self = Self(1 << 4);
    /// Traffic stops.
    pub const STOPT: Self = Self(1 << 5);
    /// The Dropped DL Traffic Threshold is reached.
    pub const DROTH: Self = Self(1 << 6);
    /// A linked URR reports.
    pub const LIUSA: Self = Self(1 << 7);
    /// The Volume Quota is used up.
    pub const VOLQU: Self = Self(1 << 8);
    /// The Time Quota is used up.
    pub const TIMQU: Self = Self(1 << 9);
    /// An envelope closes.
    pub const ENVCL: Self = Self(1 << 10);
    /// UE MAC addresses come or go.
    pub const MACAR: Self = Self(1 << 11);
    /// The Event Threshold is reached.
    pub const EVETH: Self = Self(1 << 12);
    /// The Event Quota is used up.
    pub const EVEQU: Self = Self(1 << 13);
    /// The UE joins or leaves an IP multicast group.
    pub const IPMJL: Self = Self(1 << 14);
    /// The Quota Validity Time is over.
    pub const QUVTI: Self = Self(1 << 15);
    /// An End Marker comes.
    pub const REEMR: Self = Self(1 << 16);
    /// No packet came for the User Plane Inactivity Timer.
    pub const UPINT: Self = Self(1 << 17);

    /// Whether every flag of `flags` is set.
    pub const fn contains(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }
}

/// How it is measured (TS 29.244 §8.2.68), the octet of the wire.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct MeasurementInformation(pub u8);

impl MeasurementInformation {
    /// Measurement Before QoS Enforcement.
    pub const MBQE: Self = Self(0x01);
    /// Inactive Measurement: nothing is counted, and what was counted stays.
    pub const INAM: Self = Self(0x02);
    /// Reduced Application Detection Information.
    pub const RADI: Self = Self(0x04);
    /// Immediate Start Time Metering: time runs from the rule's provision, not from the first packet.
    pub const ISTM: Self = Self(0x08);
    /// Measurement of Number of Packets.
    pub const MNOP: Self = Self(0x10);
    /// Send Start Pause of Charging.
    pub const SSPOC: Self = Self(0x20);
    /// Applicable for Start of Pause of Charging.
    pub const ASPOC: Self = Self(0x40);
    /// Control of Inactive Measurement.
    pub const CIAM: Self = Self(0x80);

    /// Whether every flag of `flags` is set.
    pub const fn contains(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// What holds when these flags are sent for a rule of which `before` held, `None` for one that is created: whether
    /// a rule for Pause of Charging is inactive is said by INAM only together with CIAM, and else stays as it is (TS
    /// 29.244 §5.30, §8.2.68). CIAM itself is of the message alone.
    #[must_use]
    pub fn sent_to(self, before: Option<Self>) -> Self {
        let is_inactive = match self.contains(Self::ASPOC) && !self.contains(Self::CIAM) {
            true => before.is_some_and(|before| before.contains(Self::INAM)),
            false => self.contains(Self::INAM),
        };
        Self(self.0 & !Self::CIAM.0).inactive(is_inactive)
    }

    /// The same with or without INAM.
    #[must_use]
    pub(super) const fn inactive(self, is_inactive: bool) -> Self {
        match is_inactive {
            true => Self(self.0 | Self::INAM.0),
            false => Self(self.0 & !Self::INAM.0),
        }
    }
}

/// A date in whole seconds since 1970.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct UnixSeconds(pub u64);

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

/// How much downlink traffic may be dropped before that is reported (TS 29.244 §8.2.49).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct DroppedDlThreshold {
    /// Packets.
    pub packets: Option<u64>,
    /// Octets.
    pub octets: Option<u64>,
}

/// The thresholds and quotas from a monitoring time on (TS 29.244 §5.2.2.2.1). One that is absent continues as what is
/// left of the one before.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Subsequent {
    /// Subsequent Volume Threshold.
    pub volume_threshold: Option<Volume>,
    /// Subsequent Volume Quota.
    pub volume_quota: Option<Volume>,
    /// Subsequent Time Threshold, seconds.
    pub time_threshold: Option<u32>,
    /// Subsequent Time Quota, seconds.
    pub time_quota: Option<u32>,
    /// Subsequent Event Threshold.
    pub event_threshold: Option<u32>,
    /// Subsequent Event Quota.
    pub event_quota: Option<u32>,
}

impl Subsequent {
    /// Whether nothing changes then.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub(super) fn drop_unmeasured(&mut self, method: MeasurementMethod) {
        if !method.contains(MeasurementMethod::VOLUM) {
            (self.volume_threshold, self.volume_quota) = (None, None);
        }
        if !method.contains(MeasurementMethod::DURAT) {
            (self.time_threshold, self.time_quota) = (None, None);
        }
        if !method.contains(MeasurementMethod::EVENT) {
            (self.event_threshold, self.event_quota) = (None, None);
        }
    }
}

/// When usage before is separated from usage after, and what holds then (TS 29.244 Table 7.5.2.4-3).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct MonitoringTime {
    /// When.
    pub at: UnixSeconds,
    /// What holds from then on.
    pub then: Subsequent,
}

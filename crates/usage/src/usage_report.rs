//! Usage reports (TS 29.244 §7.5.8.3): what was used, since when, and what triggered the report.

use flow::UrrCount;
use rules::model::{MeasurementMethod, UrrId};

use crate::Moment;

/// Why a report is made (TS 29.244 §8.2.41): octet 5 in the low byte, then octet 6 and octet 7. At least one bit is
/// set.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct UsageTriggers(pub u32);

impl UsageTriggers {
    /// A period is over.
    pub const PERIO: Self = Self(1);
    /// A volume threshold is reached.
    pub const VOLTH: Self = Self(1 << 1);
    /// A time threshold is reached.
    pub const TIMTH: Self = Self(1 << 2);
    /// No packet came for longer than the Quota Holding Time.
    pub const QUHTI: Self = Self(1 << 3);
    /// Traffic starts (START).
    pub const START: Self = Self(1 << 4);
    /// Traffic stops (STOPT).
    pub const STOPT: Self = Self(1 << 5);
    /// Dropped downlink traffic reaches a threshold.
    pub const DROTH: Self = Self(1 << 6);
    /// The control plane asked.
    pub const IMMER: Self = Self(1 << 7);
    /// The volume quota is used up.
    pub const VOLQU: Self = Self(1 << 8);
    /// The time quota is used up.
    pub const TIMQU: Self = Self(1 << 9);
    /// A linked URR reports.
    pub const LIUSA: Self = Self(1 << 10);
    /// The session ends, the URR is removed or has lost its last PDR.
    pub const TERMR: Self = Self(1 << 11);
    /// The Monitoring Time is reached.
    pub const MONIT: Self = Self(1 << 12);
    /// An event threshold is reached.
    pub const EVETH: Self = Self(1 << 15);
    /// The event quota is used up.
    pub const EVEQU: Self = Self(1 << 16);
    /// The user plane ends the session.
    pub const TEBUR: Self = Self(1 << 17);
    /// The Quota Validity Time is over.
    pub const QUVTI: Self = Self(1 << 19);
    /// An End Marker was received.
    pub const EMRRE: Self = Self(1 << 20);
    /// No packet came for longer than the User Plane Inactivity Timer.
    pub const UPINT: Self = Self(1 << 21);

    /// Reports that are made of these alone measure nothing, and leave what is measured to the next
    /// (TS 29.244 §5.2.2.3.1).
    pub const MEASURE_NOTHING: Self = Self(Self::START.0 | Self::DROTH.0);

    /// All flags by their names in TS 29.244 §8.2.41.
    const NAMES: [(Self, &'static str); 19] = [
        (Self::PERIO, "PERIO"),
        (Self::VOLTH, "VOLTH"),
        (Self::TIMTH, "TIMTH"),
        (Self::QUHTI, "QUHTI"),
        (Self::START, "START"),
        (Self::STOPT, "STOPT"),
        (Self::DROTH, "DROTH"),
        (Self::IMMER, "IMMER"),
        (Self::VOLQU, "VOLQU"),
        (Self::TIMQU, "TIMQU"),
        (Self::LIUSA, "LIUSA"),
        (Self::TERMR, "TERMR"),
        (Self::MONIT, "MONIT"),
        (Self::EVETH, "EVETH"),
        (Self::EVEQU, "EVEQU"),
        (Self::TEBUR, "TEBUR"),
        (Self::QUVTI, "QUVTI"),
        (Self::EMRRE, "EMRRE"),
        (Self::UPINT, "UPINT"),
    ];

    /// The names of the flags that are set.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let set = Self::NAMES.iter().filter(move |(flag, _)| self.contains(*flag));
        set.map(|(_, name)| *name)
    }

    /// Whether every flag of `flags` is set.
    pub const fn contains(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// Whether any flag of `flags` is set.
    pub const fn intersects(self, flags: Self) -> bool {
        self.0 & flags.0 != 0
    }

    /// Whether no flag is set.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The flags of both.
    #[must_use]
    pub const fn with(self, flags: Self) -> Self {
        Self(self.0 | flags.0)
    }
}

impl std::ops::BitOr for UsageTriggers {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        self.with(other)
    }
}

impl std::ops::BitOrAssign for UsageTriggers {
    fn bitor_assign(&mut self, other: Self) {
        *self = self.with(other);
    }
}

/// Which part of the usage a report has (TS 29.244 §8.2.42): the octet of the wire.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct UsageInformation(pub u8);

impl UsageInformation {
    /// Before the Monitoring Time.
    pub const BEF: Self = Self(1);
    /// After it.
    pub const AFT: Self = Self(1 << 1);
    /// After QoS enforcement.
    pub const UAE: Self = Self(1 << 2);
    /// Before QoS enforcement.
    pub const UBE: Self = Self(1 << 3);

    /// Whether every flag of `flags` is set.
    pub const fn contains(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// The flags of both.
    #[must_use]
    pub const fn with(self, flags: Self) -> Self {
        Self(self.0 | flags.0)
    }
}

/// Whole seconds of a Duration Measurement (TS 29.244 §8.2.45).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Seconds(pub u32);

/// The usage of one URR since its last report (TS 29.244 §5.2.2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsageReport {
    /// The URR.
    pub urr: UrrId,
    /// What the URR measures.
    pub method: MeasurementMethod,
    /// UR-SEQN: 0 for the URR's first report, then one more each.
    pub sequence: u32,
    /// Why.
    pub triggers: UsageTriggers,
    /// What was counted: octets of inner IP packets, packets, and events.
    pub count: UrrCount,
    /// What came before QoS enforcement, where that is reported, too (MBQE): as a report of its own, with the next
    /// number.
    pub before_qos: Option<UrrCount>,
    /// Whether the packets are to be reported, too (MNOP).
    pub reports_packets: bool,
    /// The time measured, where the URR measures time.
    pub duration: Option<Seconds>,
    /// When the measurement began.
    pub start: Moment,
    /// When it ended.
    pub end: Moment,
    /// When its first packet came, where that is known.
    pub first: Option<Moment>,
    /// When its last packet came, where that is known.
    pub last: Option<Moment>,
    /// Which part of the usage this is, where it is not all.
    pub information: Option<UsageInformation>,
}

impl UsageReport {
    /// The number behind those of this report, which are two where it reports usage before QoS enforcement.
    pub fn next_sequence(&self) -> u32 {
        let reports = 1 + u32::from(self.before_qos.is_some());
        self.sequence.wrapping_add(reports)
    }

    /// The reports that are sent: of usage after QoS enforcement, then of that before it (TS 29.244
    /// §5.2.2.3.1); or itself.
    pub fn parts(&self) -> impl Iterator<Item = UsageReport> + use<> {
        let part = |flag| Some(self.information.unwrap_or_default().with(flag));
        let after = match self.before_qos {
            None => *self,
            Some(_) => UsageReport {
                before_qos: None,
                information: part(UsageInformation::UAE),
                ..*self
            },
        };
        let before = self.before_qos.map(|count| UsageReport {
            sequence: self.sequence.wrapping_add(1),
            count,
            duration: None,
            first: None,
            last: None,
            information: part(UsageInformation::UBE),
            ..after
        });
        [Some(after), before].into_iter().flatten()
    }

    /// Whether nothing was used.
    pub fn is_null(&self) -> bool {
        crate::count::is_null(self.count)
            && self.before_qos.is_none_or(crate::count::is_null)
            && self.duration.unwrap_or_default() == Seconds(0)
    }

    /// Adds the report that follows on this one, if it is of the same URR, for the same reason, of all usage and the
    /// next in number. Answers whether it was; its number is then to be given again
    /// ([`UsageAccounts::recall`](crate::UsageAccounts::recall)).
    pub fn absorb(&mut self, next: &UsageReport) -> bool {
        let follows = next.urr == self.urr
            && next.triggers == self.triggers
            && next.method == self.method
            // Each of them is as many events as the threshold is.
            && !next.triggers.contains(UsageTriggers::EVETH)
            && next.information.is_none()
            && self.information.is_none()
            && next.before_qos.is_some() == self.before_qos.is_some()
            && next.sequence == self.next_sequence();
        if follows {
            self.add(next);
        }
        follows
    }

    /// Adds another report of the same URR and the same part of its usage, whatever the reasons of both: where there is
    /// no room for two. Answers whether it is one; its number is then to be given again if no later one has been given.
    pub fn merge(&mut self, next: &UsageReport) -> bool {
        let is_alike = next.urr == self.urr
            && next.information == self.information
            && next.before_qos.is_some() == self.before_qos.is_some();
        if is_alike {
            self.add(next);
        }
        is_alike
    }

    fn add(&mut self, next: &UsageReport) {
        self.triggers |= next.triggers;
        self.count = crate::count::sum(self.count, next.count);
        self.before_qos = match (self.before_qos, next.before_qos) {
            (Some(one), Some(other)) => Some(crate::count::sum(one, other)),
            (one, other) => one.or(other),
        };
        self.duration = match (self.duration, next.duration) {
            (Some(Seconds(one)), Some(Seconds(other))) => Some(Seconds(one.saturating_add(other))),
            (one, other) => one.or(other),
        };
        self.end = next.end;
        self.first = self.first.or(next.first);
        self.last = next.last.or(self.last);
    }
}

//! Usage Reporting Rules (TS 29.244 §5.2.2, Table 7.5.2.4-1), as values: what they ask for is done elsewhere.
//!
//! A plain rule is small, since there is one in each of very many sessions: what few rules say is behind one pointer
//! ([`UrrTerms`]).

use super::application::Application;
use super::ids::{FarId, UrrId};
use super::pdr::SdfFilter;
use super::pool::Aggregated;
use super::session_rules::EditFault;

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

/// The thresholds and quotas from a monitoring time on (TS 29.244 §5.2.2.2.1). One that is absent goes on as what is
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

    fn drop_unmeasured(&mut self, method: MeasurementMethod) {
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

/// When usage before is told apart from usage after, and what holds then (TS 29.244 Table 7.5.2.4-3).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct MonitoringTime {
    /// When.
    pub at: UnixSeconds,
    /// What holds from then on.
    pub then: Subsequent,
}

/// What few URRs say (TS 29.244 Table 7.5.2.4-1).
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct UrrTerms {
    /// Events after which to report.
    pub event_threshold: Option<u32>,
    /// Events after which to stop.
    pub event_quota: Option<u32>,
    /// Seconds without a packet after which the quotas go, and are reported.
    pub quota_holding_time: Option<u32>,
    /// Seconds after which the quotas go, and are reported.
    pub quota_validity_time: Option<u32>,
    /// Seconds without a packet after which time stands still.
    pub inactivity_detection_time: Option<u32>,
    /// Dropped DL Traffic Threshold.
    pub dropped_dl_threshold: Option<DroppedDlThreshold>,
    /// Monitoring Time.
    pub monitoring_time: Option<UnixSeconds>,
    /// What holds from the Monitoring Time on; says nothing without one.
    pub subsequent: Subsequent,
    /// Additional Monitoring Times, as given.
    pub additional_monitoring_times: Vec<MonitoringTime>,
    /// Linked URR IDs: this URR reports whenever one of these does.
    pub linked: Vec<UrrId>,
    /// Aggregated URRs: it is a credit pool of these.
    pub pool: Option<Vec<Aggregated>>,
    /// FAR ID for Quota Action: what becomes of packets when a quota is used up.
    pub quota_action: Option<FarId>,
    /// Exempted Application ID for Quota Action: packets of these go their own way although a quota is used up.
    pub exempt_applications: Vec<Application>,
    /// Exempted SDF Filter for Quota Action: so do those that one of these describes.
    pub exempt_filters: Vec<SdfFilter>,
    /// Number of Reports after which the rule is inactive.
    pub number_of_reports: Option<u16>,
}

impl UrrTerms {
    /// None of them.
    pub const NONE: Self = Self {
        event_threshold: None,
        event_quota: None,
        quota_holding_time: None,
        quota_validity_time: None,
        inactivity_detection_time: None,
        dropped_dl_threshold: None,
        monitoring_time: None,
        subsequent: Subsequent {
            volume_threshold: None,
            volume_quota: None,
            time_threshold: None,
            time_quota: None,
            event_threshold: None,
            event_quota: None,
        },
        additional_monitoring_times: Vec::new(),
        linked: Vec::new(),
        pool: None,
        quota_action: None,
        exempt_applications: Vec::new(),
        exempt_filters: Vec::new(),
        number_of_reports: None,
    };

    /// All monitoring times, the first one first, in the order given.
    pub fn monitoring_times(&self) -> impl Iterator<Item = MonitoringTime> + '_ {
        let first = self.monitoring_time.map(|at| MonitoringTime {
            at,
            then: self.subsequent,
        });
        first
            .into_iter()
            .chain(self.additional_monitoring_times.iter().copied())
    }
}

/// A threshold or a quota of a URR: by what it is measured, and when it holds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Bound {
    /// What it bounds: one of the three methods.
    pub of: MeasurementMethod,
    /// Whether it is a quota, and not a threshold.
    pub is_quota: bool,
    /// Whether it holds from a monitoring time on.
    pub is_subsequent: bool,
}

/// Which bounds there are: threshold, quota, and both from a monitoring time on.
pub(super) struct Bounds {
    pub(super) volume: [bool; 4],
    pub(super) time: [bool; 4],
    pub(super) events: [bool; 4],
}

impl Bounds {
    /// The first that a rule which measures by `method` cannot have (TS 29.244 Table 7.5.2.4-1).
    pub(super) fn unmeasured(&self, method: MeasurementMethod) -> Option<Bound> {
        let all = [
            (MeasurementMethod::VOLUM, self.volume),
            (MeasurementMethod::DURAT, self.time),
            (MeasurementMethod::EVENT, self.events),
        ];
        let mut unmeasured = all.into_iter().filter(|(of, _)| !method.contains(*of));
        unmeasured.find_map(|(of, there)| {
            let place = there.iter().position(|there| *there)?;
            Some(Bound {
                of,
                is_quota: place % 2 == 1,
                is_subsequent: place >= 2,
            })
        })
    }
}

/// A Usage Reporting Rule (TS 29.244 Table 7.5.2.4-1). It has bounds only of what it measures.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Urr {
    /// Its number in the session.
    pub id: UrrId,
    /// What is measured.
    pub method: MeasurementMethod,
    /// How it is measured.
    pub information: MeasurementInformation,
    /// What calls for a report.
    pub triggers: ReportingTriggers,
    /// Seconds between periodic reports.
    pub measurement_period: Option<u32>,
    /// Octets after which to report.
    pub volume_threshold: Option<Box<Volume>>,
    /// Octets after which to stop.
    pub volume_quota: Option<Box<Volume>>,
    /// Seconds after which to report.
    pub time_threshold: Option<u32>,
    /// Seconds after which to stop.
    pub time_quota: Option<u32>,
    /// What few rules say; absent where this one says none of it.
    pub terms: Option<Box<UrrTerms>>,
}

const _: () = assert!(size_of::<Urr>() <= 64, "there are very many");

impl Urr {
    /// Counts octets and reports when asked.
    pub const fn volume(id: UrrId) -> Self {
        Self {
            id,
            method: MeasurementMethod::VOLUM,
            information: MeasurementInformation(0),
            triggers: ReportingTriggers(0),
            measurement_period: None,
            volume_threshold: None,
            volume_quota: None,
            time_threshold: None,
            time_quota: None,
            terms: None,
        }
    }

    /// What few rules say, of this one.
    pub fn terms(&self) -> &UrrTerms {
        static NONE: UrrTerms = UrrTerms::NONE;
        self.terms.as_deref().unwrap_or(&NONE)
    }

    /// What keeps it from being created.
    pub(super) fn fault(&self) -> Option<EditFault> {
        if let Some(bound) = self.bounds().unmeasured(self.method) {
            return Some(EditFault::Unmeasured(bound));
        }
        let terms = self.terms.as_deref()?;
        let says_later = terms.monitoring_time.is_none() && !terms.subsequent.is_empty();
        says_later.then_some(EditFault::NoMonitoringTime)
    }

    fn bounds(&self) -> Bounds {
        let terms = self.terms();
        let times = terms.additional_monitoring_times.iter().map(|time| &time.then);
        let later = times.chain([&terms.subsequent]);
        let any = |is_there: fn(&Subsequent) -> bool| later.clone().any(is_there);
        Bounds {
            volume: [
                self.volume_threshold.is_some(),
                self.volume_quota.is_some(),
                any(|then| then.volume_threshold.is_some()),
                any(|then| then.volume_quota.is_some()),
            ],
            time: [
                self.time_threshold.is_some(),
                self.time_quota.is_some(),
                any(|then| then.time_threshold.is_some()),
                any(|then| then.time_quota.is_some()),
            ],
            events: [
                terms.event_threshold.is_some(),
                terms.event_quota.is_some(),
                any(|then| then.event_threshold.is_some()),
                any(|then| then.event_quota.is_some()),
            ],
        }
    }

    /// There is no such FAR any more.
    pub(super) fn forget_quota_action(&mut self, far: FarId) {
        if self.terms().quota_action == Some(far) {
            self.change_terms(|terms| terms.quota_action = None);
        }
    }

    /// There is no such URR any more.
    pub(super) fn unlink(&mut self, other: UrrId) {
        if self.terms().linked.contains(&other) {
            self.change_terms(|terms| terms.linked.retain(|linked| *linked != other));
        }
    }

    /// Changes what few rules say, and keeps it only if it says something.
    pub(super) fn change_terms(&mut self, change: impl FnOnce(&mut UrrTerms)) {
        let mut terms = self.terms.take().unwrap_or_default();
        change(&mut terms);
        self.terms = Some(terms).filter(|terms| **terms != UrrTerms::NONE);
    }

    /// Drops the bounds of what the rule does not measure any more: peers change the method and leave them.
    pub(crate) fn drop_unmeasured(&mut self) {
        if self.bounds().unmeasured(self.method).is_none() {
            return;
        }
        let Self {
            method,
            volume_threshold,
            volume_quota,
            time_threshold,
            time_quota,
            ..
        } = self;
        if !method.contains(MeasurementMethod::VOLUM) {
            (*volume_threshold, *volume_quota) = (None, None);
        }
        if !method.contains(MeasurementMethod::DURAT) {
            (*time_threshold, *time_quota) = (None, None);
        }
        let method = *method;
        self.change_terms(|terms| {
            if !method.contains(MeasurementMethod::EVENT) {
                (terms.event_threshold, terms.event_quota) = (None, None);
            }
            terms.subsequent.drop_unmeasured(method);
            for time in &mut terms.additional_monitoring_times {
                time.then.drop_unmeasured(method);
            }
        });
    }

    /// How many dropped downlink packets are to be told of, if it asks for that and is not paused (TS 29.244
    /// §5.2.2.2.1): to the control plane, or to the nodes upstream.
    pub fn dropped_threshold(&self) -> Option<DroppedDlThreshold> {
        let asks = (self.reports_dropped() || self.sends_pause()) && !self.is_paused();
        self.terms().dropped_dl_threshold.filter(|_| asks)
    }

    /// Whether it counts events of applications.
    pub const fn counts_events(&self) -> bool {
        self.method.contains(MeasurementMethod::EVENT)
    }

    /// Whether dropped downlink packets are reported to the control plane (DROTH).
    pub const fn reports_dropped(&self) -> bool {
        self.triggers.contains(ReportingTriggers::DROTH)
    }

    /// Whether nodes upstream are told to pause charging when as many downlink packets are dropped as its threshold
    /// says (SSPOC, TS 29.244 §5.30).
    pub const fn sends_pause(&self) -> bool {
        self.information.contains(MeasurementInformation::SSPOC)
    }

    /// Whether it is one for which charging is paused (ASPOC, TS 29.244 §5.30).
    pub const fn heeds_pause(&self) -> bool {
        self.information.contains(MeasurementInformation::ASPOC)
    }

    /// Whether its usage before QoS enforcement is told beside that after it: of octets alone (TS 29.244 §5.2.2.3.1).
    pub const fn measures_before_qos(&self) -> bool {
        self.method.contains(MeasurementMethod::VOLUM)
            && self.information.contains(MeasurementInformation::MBQE)
    }

    /// Whether it is paused: Inactive Measurement (TS 29.244 §5.2.2.2.1), or a Pause of Charging (§5.30).
    pub const fn is_paused(&self) -> bool {
        self.information.contains(MeasurementInformation::INAM)
    }

    pub(super) const fn set_paused(&mut self, is_paused: bool) {
        self.information = self.information.inactive(is_paused);
    }
}

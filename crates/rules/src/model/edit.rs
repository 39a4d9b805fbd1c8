//! What an Update of a rule says: each field stays, is set, or goes (TS 29.244 §7.5.4).

use std::sync::Arc;

use packet::{Ppi, Qfi};
use smallvec::{Array, SmallVec};

use super::application::Application;
use super::endpoint::FramedRoutesUpdate;
use super::far::{
    ApplyAction, Bar, DestinationInterface, Far, ForwardingParameters, OuterHeaderCreation, Redirect,
};
use super::ids::{BarId, CorrelationId, FarId, PdrId, QerId, TrafficEndpointId, UrrId};
use super::pdr::{
    FTeid, OuterHeaderRemoval, Pdi, Pdr, Precedence, SdfFilter, SourceInterface, TosTrafficClass, UeIpAddress,
};
use super::pool::Aggregated;
use super::qer::{BitRates, Gate, PacketRates, Qer};
use super::session_rules::EditFault;
use super::urr::{
    Bounds, DroppedDlThreshold, MeasurementInformation, MeasurementMethod, MonitoringTime, ReportingTriggers,
    Subsequent, UnixSeconds, Urr, UrrTerms, Volume,
};
use crate::network::{InstanceId, PolicyId};
use crate::predefined::Rulebase;

/// What an update does to one optional field.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Edit<T> {
    /// The IE is absent: the field stays.
    #[default]
    Keep,
    /// The IE is there: its value is the new one.
    Set(T),
    /// The IE is there with length 0: the field goes.
    Clear,
}

impl<T> Edit<T> {
    /// Whether there is a new value.
    pub const fn sets(&self) -> bool {
        matches!(self, Self::Set(_))
    }

    /// Does it to `field`.
    pub fn apply(self, field: &mut Option<T>) {
        match self {
            Self::Keep => {}
            Self::Set(value) => *field = Some(value),
            Self::Clear => *field = None,
        }
    }
}

impl<T> From<Option<T>> for Edit<T> {
    /// `None` keeps the field, as an absent IE does.
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Keep, Self::Set)
    }
}

/// Replaces `field` by what was sent, if anything was.
pub(super) fn replace<T>(field: &mut T, sent: Option<T>) {
    if let Some(value) = sent {
        *field = value;
    }
}

/// The same of a list.
pub(super) fn replace_list<A: Array>(field: &mut SmallVec<A>, sent: Option<Vec<A::Item>>) {
    replace(field, sent.map(SmallVec::from_vec));
}

/// The PDI of an Update PDR, as received: `None` or `Keep` for IEs that are absent.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PdiUpdate {
    /// Source Interface.
    pub source_interface: Option<SourceInterface>,
    /// Traffic Endpoint ID.
    pub endpoint: Option<TrafficEndpointId>,
    /// Local F-TEID.
    pub f_teid: Edit<FTeid>,
    /// Network Instance.
    pub instance: Edit<InstanceId>,
    /// UE IP Addresses, all of them.
    pub ue_ip: Option<Vec<UeIpAddress>>,
    /// Framed-Routes and Framed-IPv6-Routes.
    pub framed_routes: FramedRoutesUpdate,
    /// SDF Filters, all of them.
    pub sdf_filters: Option<Vec<SdfFilter>>,
    /// Application ID.
    pub application: Edit<Application>,
    /// QFIs, all of them.
    pub qfis: Option<Vec<Qfi>>,
}

impl PdiUpdate {
    /// Whether this can stand as a PDI of its own. Every PDR identifies its session (TS 29.244 §5.2.1), so a PDI
    /// with neither Traffic Endpoint nor F-TEID nor UE address is a part of one.
    pub const fn is_whole(&self) -> bool {
        self.endpoint.is_some() || matches!(self.f_teid, Edit::Set(_)) || self.ue_ip.is_some()
    }

    /// Changes `pdi`. A whole PDI replaces it (TS 29.244 Table 7.5.4.2-1); of a part, as peers send it with a source
    /// interface and the new SDF filters only, each field that is there replaces its like.
    pub fn apply(self, pdi: &mut Pdi) {
        if self.is_whole() {
            *pdi = Pdi::new(pdi.source_interface);
        }
        replace(&mut pdi.source_interface, self.source_interface);
        if self.endpoint.is_some() {
            pdi.endpoint = self.endpoint;
        }
        self.f_teid.apply(&mut pdi.f_teid);
        self.instance.apply(&mut pdi.instance);
        replace_list(&mut pdi.ue_ip, self.ue_ip);
        self.framed_routes.apply(&mut pdi.framed_routes);
        replace(&mut pdi.sdf_filters, self.sdf_filters);
        self.application.apply(&mut pdi.application);
        replace_list(&mut pdi.qfis, self.qfis);
    }
}

/// An Update PDR (TS 29.244 Table 7.5.4.2-1).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PdrUpdate {
    /// The rule.
    pub id: PdrId,
    /// Outer Header Removal.
    pub outer_header_removal: Edit<OuterHeaderRemoval>,
    /// Precedence.
    pub precedence: Option<Precedence>,
    /// PDI.
    pub pdi: Option<PdiUpdate>,
    /// FAR ID; a PDR whose predefined rules have FARs may do without one of its own.
    pub far: Edit<FarId>,
    /// QER IDs, all of them.
    pub qers: Option<Vec<QerId>>,
    /// URR IDs, all of them.
    pub urrs: Option<Vec<UrrId>>,
    /// Deactivate Predefined Rules: what is not active is passed over.
    pub deactivate: Vec<Arc<Rulebase>>,
    /// Activate Predefined Rules, after the others are deactivated: what is active stays so.
    pub activate: Vec<Arc<Rulebase>>,
}

impl PdrUpdate {
    /// Changes nothing yet.
    pub const fn new(id: PdrId) -> Self {
        Self {
            id,
            outer_header_removal: Edit::Keep,
            precedence: None,
            pdi: None,
            far: Edit::Keep,
            qers: None,
            urrs: None,
            deactivate: Vec::new(),
            activate: Vec::new(),
        }
    }

    pub(super) fn apply(self, pdr: &mut Pdr) {
        self.apply_rulebases(pdr);
        self.outer_header_removal.apply(&mut pdr.outer_header_removal);
        replace(&mut pdr.precedence, self.precedence);
        if let Some(update) = self.pdi {
            update.apply(&mut pdr.pdi);
        }
        self.far.apply(&mut pdr.far);
        replace_list(&mut pdr.qers, self.qers);
        replace_list(&mut pdr.urrs, self.urrs);
    }

    fn apply_rulebases(&self, pdr: &mut Pdr) {
        if self.deactivate.is_empty() && self.activate.is_empty() {
            return;
        }
        let active = pdr.rulebases.iter().filter(|one| !self.deactivate.contains(one));
        let mut rulebases: Vec<Arc<Rulebase>> = active.cloned().collect();
        for one in &self.activate {
            if !rulebases.contains(one) {
                rulebases.push(Arc::clone(one));
            }
        }
        pdr.rulebases = rulebases.into();
    }
}

/// Update Forwarding Parameters (TS 29.244 Table 7.5.4.3-2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ForwardingParametersUpdate {
    /// Destination Interface.
    pub destination: Option<DestinationInterface>,
    /// Network Instance.
    pub instance: Edit<InstanceId>,
    /// Outer Header Creation.
    pub outer_header_creation: Edit<OuterHeaderCreation>,
    /// Transport Level Marking.
    pub transport_level_marking: Edit<TosTrafficClass>,
    /// Forwarding Policy.
    pub policy: Edit<PolicyId>,
}

impl ForwardingParametersUpdate {
    /// Changes `forwarding`, or makes it where a FAR had none: open5GS gives a FAR its first Forwarding Parameters
    /// by an update. Access is the destination then if the update names none.
    fn apply(self, forwarding: &mut Option<ForwardingParameters>) {
        let parameters = forwarding.get_or_insert(ForwardingParameters::new(DestinationInterface::Access));
        replace(&mut parameters.destination, self.destination);
        self.instance.apply(&mut parameters.instance);
        self.outer_header_creation
            .apply(&mut parameters.outer_header_creation);
        self.transport_level_marking
            .apply(&mut parameters.transport_level_marking);
        self.policy.apply(&mut parameters.policy);
    }
}

/// An Update FAR (TS 29.244 Table 7.5.4.3-1).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FarUpdate {
    /// The rule.
    pub id: FarId,
    /// Apply Action.
    pub action: Option<ApplyAction>,
    /// Update Forwarding Parameters.
    pub forwarding: Edit<ForwardingParametersUpdate>,
    /// Update Duplicating Parameters.
    pub duplicating: Edit<ForwardingParametersUpdate>,
    /// Redirect Information of the Update Forwarding Parameters.
    pub redirect: Edit<Redirect>,
    /// BAR ID.
    pub bar: Edit<BarId>,
}

impl FarUpdate {
    /// Changes nothing yet.
    pub const fn new(id: FarId) -> Self {
        Self {
            id,
            action: None,
            forwarding: Edit::Keep,
            duplicating: Edit::Keep,
            redirect: Edit::Keep,
            bar: Edit::Keep,
        }
    }

    pub(super) fn apply(self, far: &mut Far) {
        replace(&mut far.action, self.action);
        match self.forwarding {
            Edit::Keep => {}
            Edit::Set(update) => update.apply(&mut far.forwarding),
            Edit::Clear => far.forwarding = None,
        }
        match self.duplicating {
            Edit::Keep => {}
            Edit::Set(update) => {
                let mut parameters = far.duplicating.as_deref().copied();
                update.apply(&mut parameters);
                far.duplicating = parameters.map(Box::new);
            }
            Edit::Clear => far.duplicating = None,
        }
        self.redirect.apply(&mut far.redirect);
        self.bar.apply(&mut far.bar);
    }
}

/// An Update QER (TS 29.244 Table 7.5.4.5-1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QerUpdate {
    /// The rule.
    pub id: QerId,
    /// QER Correlation ID.
    pub correlation: Edit<CorrelationId>,
    /// Gate Status: uplink, downlink.
    pub gates: Option<(Gate, Gate)>,
    /// QFI.
    pub qfi: Edit<Qfi>,
    /// RQI.
    pub rqi: Option<bool>,
    /// Paging Policy Indicator.
    pub ppi: Edit<Ppi>,
    /// The Service Class Indicator of DL Flow Level Marking.
    pub sci: Edit<u8>,
    /// Maximum Bitrate.
    pub mbr: Edit<BitRates>,
    /// Guaranteed Bitrate.
    pub gbr: Edit<BitRates>,
    /// Averaging Window, in milliseconds.
    pub averaging_window: Edit<u32>,
    /// Packet Rate.
    pub packet_rates: Edit<PacketRates>,
    /// RCSR of the QER Control Indications.
    pub reports_rate: Option<bool>,
}

impl QerUpdate {
    /// Changes nothing yet.
    pub const fn new(id: QerId) -> Self {
        Self {
            id,
            correlation: Edit::Keep,
            gates: None,
            qfi: Edit::Keep,
            rqi: None,
            ppi: Edit::Keep,
            sci: Edit::Keep,
            mbr: Edit::Keep,
            gbr: Edit::Keep,
            averaging_window: Edit::Keep,
            packet_rates: Edit::Keep,
            reports_rate: None,
        }
    }

    /// Whether it sets an MBR that nothing reaches.
    pub fn is_beyond_reach(&self) -> bool {
        matches!(self.mbr, Edit::Set(mbr) if mbr.is_beyond_reach())
    }

    pub(super) fn apply(self, qer: &mut Qer) {
        if let Some((ul, dl)) = self.gates {
            qer.gate_ul = ul;
            qer.gate_dl = dl;
        }
        self.correlation.apply(&mut qer.correlation);
        self.qfi.apply(&mut qer.qfi);
        replace(&mut qer.rqi, self.rqi);
        self.ppi.apply(&mut qer.ppi);
        self.sci.apply(&mut qer.sci);
        self.mbr.apply(&mut qer.mbr);
        self.gbr.apply(&mut qer.gbr);
        self.averaging_window.apply(&mut qer.averaging_window);
        self.packet_rates.apply(&mut qer.packet_rates);
        replace(&mut qer.reports_rate, self.reports_rate);
    }
}

/// An Update BAR (TS 29.244 Table 7.5.4.11-1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BarUpdate {
    /// The rule.
    pub id: BarId,
    /// Downlink Data Notification Delay, in units of 50 ms.
    pub notification_delay: Edit<u8>,
    /// Suggested Buffering Packets Count.
    pub suggested_packets: Edit<u8>,
    /// DL Buffering Suggested Packet Count.
    pub extended_packets: Edit<u16>,
}

impl BarUpdate {
    /// Changes nothing yet.
    pub const fn new(id: BarId) -> Self {
        Self {
            id,
            notification_delay: Edit::Keep,
            suggested_packets: Edit::Keep,
            extended_packets: Edit::Keep,
        }
    }

    pub(super) fn apply(self, bar: &mut Bar) {
        self.notification_delay.apply(&mut bar.notification_delay);
        self.suggested_packets.apply(&mut bar.suggested_packets);
        self.extended_packets.apply(&mut bar.extended_packets);
    }
}

/// The thresholds and quotas of an Update URR that hold from the Monitoring Time on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SubsequentUpdate {
    /// Subsequent Volume Threshold.
    pub volume_threshold: Edit<Volume>,
    /// Subsequent Volume Quota.
    pub volume_quota: Edit<Volume>,
    /// Subsequent Time Threshold, seconds.
    pub time_threshold: Edit<u32>,
    /// Subsequent Time Quota, seconds.
    pub time_quota: Edit<u32>,
    /// Subsequent Event Threshold.
    pub event_threshold: Edit<u32>,
    /// Subsequent Event Quota.
    pub event_quota: Edit<u32>,
}

impl SubsequentUpdate {
    fn sets(&self) -> bool {
        self.volume_threshold.sets()
            || self.volume_quota.sets()
            || self.time_threshold.sets()
            || self.time_quota.sets()
            || self.event_threshold.sets()
            || self.event_quota.sets()
    }

    fn apply(self, subsequent: &mut Subsequent) {
        self.volume_threshold.apply(&mut subsequent.volume_threshold);
        self.volume_quota.apply(&mut subsequent.volume_quota);
        self.time_threshold.apply(&mut subsequent.time_threshold);
        self.time_quota.apply(&mut subsequent.time_quota);
        self.event_threshold.apply(&mut subsequent.event_threshold);
        self.event_quota.apply(&mut subsequent.event_quota);
    }
}

/// What an Update URR says of that which few URRs say.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct UrrTermsUpdate {
    /// Event Threshold.
    pub event_threshold: Edit<u32>,
    /// Event Quota.
    pub event_quota: Edit<u32>,
    /// Quota Holding Time, seconds.
    pub quota_holding_time: Edit<u32>,
    /// Quota Validity Time, seconds.
    pub quota_validity_time: Edit<u32>,
    /// Inactivity Detection Time, seconds.
    pub inactivity_detection_time: Edit<u32>,
    /// Dropped DL Traffic Threshold.
    pub dropped_dl_threshold: Edit<DroppedDlThreshold>,
    /// Monitoring Time. Where it goes, what was to hold from it on goes, too.
    pub monitoring_time: Edit<UnixSeconds>,
    /// What holds from the Monitoring Time on.
    pub subsequent: SubsequentUpdate,
    /// Additional Monitoring Times, all of them.
    pub additional_monitoring_times: Option<Vec<MonitoringTime>>,
    /// Linked URR IDs, all of them.
    pub linked: Option<Vec<UrrId>>,
    /// Aggregated URRs, all of them.
    pub pool: Edit<Vec<Aggregated>>,
    /// FAR ID for Quota Action.
    pub quota_action: Edit<FarId>,
    /// Exempted Application IDs for Quota Action, all of them.
    pub exempt_applications: Option<Vec<Application>>,
    /// Exempted SDF Filters for Quota Action, all of them.
    pub exempt_filters: Option<Vec<SdfFilter>>,
    /// Number of Reports.
    pub number_of_reports: Edit<u16>,
}

impl UrrTermsUpdate {
    fn apply(self, terms: &mut UrrTerms) {
        self.event_threshold.apply(&mut terms.event_threshold);
        self.event_quota.apply(&mut terms.event_quota);
        self.quota_holding_time.apply(&mut terms.quota_holding_time);
        self.quota_validity_time.apply(&mut terms.quota_validity_time);
        self.inactivity_detection_time
            .apply(&mut terms.inactivity_detection_time);
        self.dropped_dl_threshold.apply(&mut terms.dropped_dl_threshold);
        if self.monitoring_time == Edit::Clear {
            terms.subsequent = Subsequent::default();
        }
        self.monitoring_time.apply(&mut terms.monitoring_time);
        self.subsequent.apply(&mut terms.subsequent);
        replace(
            &mut terms.additional_monitoring_times,
            self.additional_monitoring_times,
        );
        replace(&mut terms.linked, self.linked);
        self.pool.apply(&mut terms.pool);
        self.quota_action.apply(&mut terms.quota_action);
        replace(&mut terms.exempt_applications, self.exempt_applications);
        replace(&mut terms.exempt_filters, self.exempt_filters);
        self.number_of_reports.apply(&mut terms.number_of_reports);
    }
}

/// An Update URR (TS 29.244 Table 7.5.4.4-1).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UrrUpdate {
    /// The rule.
    pub id: UrrId,
    /// Measurement Method.
    pub method: Option<MeasurementMethod>,
    /// Measurement Information, as it is sent.
    pub information: Option<MeasurementInformation>,
    /// Whether an absent Measurement Information has an inactive URR measure again (TS 29.244 Table 7.5.4.4-1), unless it
    /// is one for Pause of Charging, of which that alone says nothing (§8.2.68).
    pub resumes: bool,
    /// Reporting Triggers.
    pub triggers: Option<ReportingTriggers>,
    /// Measurement Period, seconds.
    pub measurement_period: Edit<u32>,
    /// Volume Threshold.
    pub volume_threshold: Edit<Box<Volume>>,
    /// Volume Quota.
    pub volume_quota: Edit<Box<Volume>>,
    /// Time Threshold, seconds.
    pub time_threshold: Edit<u32>,
    /// Time Quota, seconds.
    pub time_quota: Edit<u32>,
    /// What few rules say; absent where the update says none of it.
    pub terms: Option<Box<UrrTermsUpdate>>,
}

impl From<UrrTerms> for UrrTermsUpdate {
    fn from(terms: UrrTerms) -> Self {
        let then = terms.subsequent;
        Self {
            event_threshold: terms.event_threshold.into(),
            event_quota: terms.event_quota.into(),
            quota_holding_time: terms.quota_holding_time.into(),
            quota_validity_time: terms.quota_validity_time.into(),
            inactivity_detection_time: terms.inactivity_detection_time.into(),
            dropped_dl_threshold: terms.dropped_dl_threshold.into(),
            monitoring_time: terms.monitoring_time.into(),
            subsequent: SubsequentUpdate {
                volume_threshold: then.volume_threshold.into(),
                volume_quota: then.volume_quota.into(),
                time_threshold: then.time_threshold.into(),
                time_quota: then.time_quota.into(),
                event_threshold: then.event_threshold.into(),
                event_quota: then.event_quota.into(),
            },
            additional_monitoring_times: Some(terms.additional_monitoring_times),
            linked: Some(terms.linked),
            pool: terms.pool.into(),
            quota_action: terms.quota_action.into(),
            exempt_applications: Some(terms.exempt_applications),
            exempt_filters: Some(terms.exempt_filters),
            number_of_reports: terms.number_of_reports.into(),
        }
    }
}

impl UrrUpdate {
    /// Changes nothing yet.
    pub const fn new(id: UrrId) -> Self {
        Self {
            id,
            method: None,
            information: None,
            resumes: false,
            triggers: None,
            measurement_period: Edit::Keep,
            volume_threshold: Edit::Keep,
            volume_quota: Edit::Keep,
            time_threshold: Edit::Keep,
            time_quota: Edit::Keep,
            terms: None,
        }
    }

    pub(super) fn apply(self, urr: &mut Urr) {
        replace(&mut urr.method, self.method);
        let information = self.information.map(|sent| sent.sent_to(Some(urr.information)));
        let resumed = |held: MeasurementInformation| match held.contains(MeasurementInformation::ASPOC) {
            true => held,
            false => held.inactive(false),
        };
        let absent = self.resumes.then(|| resumed(urr.information));
        replace(&mut urr.information, information.or(absent));
        replace(&mut urr.triggers, self.triggers);
        self.measurement_period.apply(&mut urr.measurement_period);
        self.volume_threshold.apply(&mut urr.volume_threshold);
        self.volume_quota.apply(&mut urr.volume_quota);
        self.time_threshold.apply(&mut urr.time_threshold);
        self.time_quota.apply(&mut urr.time_quota);
        if let Some(update) = self.terms {
            urr.change_terms(|terms| update.apply(terms));
        }
        urr.drop_unmeasured();
    }

    /// What keeps it from being made to `urr`.
    pub(super) fn check(&self, urr: &Urr) -> Result<(), EditFault> {
        let method = self.method.unwrap_or(urr.method);
        if let Some(bound) = self.bounds().unmeasured(method) {
            return Err(EditFault::Unmeasured(bound));
        }
        let Some(terms) = &self.terms else {
            return Ok(());
        };
        let has_time = match terms.monitoring_time {
            Edit::Keep => urr.terms().monitoring_time.is_some(),
            Edit::Set(_) => true,
            Edit::Clear => false,
        };
        if has_time || !terms.subsequent.sets() {
            Ok(())
        } else {
            Err(EditFault::NoMonitoringTime)
        }
    }

    /// The bounds that it sets.
    fn bounds(&self) -> Bounds {
        let terms = self.terms.as_deref();
        let times = terms.and_then(|terms| terms.additional_monitoring_times.as_deref());
        let times = times.unwrap_or_default();
        let later = |at_first: fn(&SubsequentUpdate) -> bool, at: fn(&Subsequent) -> bool| {
            terms.is_some_and(|terms| at_first(&terms.subsequent)) || times.iter().any(|time| at(&time.then))
        };
        let events = |edit: fn(&UrrTermsUpdate) -> Edit<u32>| terms.is_some_and(|terms| edit(terms).sets());
        Bounds {
            volume: [
                self.volume_threshold.sets(),
                self.volume_quota.sets(),
                later(
                    |then| then.volume_threshold.sets(),
                    |then| then.volume_threshold.is_some(),
                ),
                later(
                    |then| then.volume_quota.sets(),
                    |then| then.volume_quota.is_some(),
                ),
            ],
            time: [
                self.time_threshold.sets(),
                self.time_quota.sets(),
                later(
                    |then| then.time_threshold.sets(),
                    |then| then.time_threshold.is_some(),
                ),
                later(|then| then.time_quota.sets(), |then| then.time_quota.is_some()),
            ],
            events: [
                events(|terms| terms.event_threshold),
                events(|terms| terms.event_quota),
                later(
                    |then| then.event_threshold.sets(),
                    |then| then.event_threshold.is_some(),
                ),
                later(|then| then.event_quota.sets(), |then| then.event_quota.is_some()),
            ],
        }
    }
}

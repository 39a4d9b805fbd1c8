//! Update PDR, FAR, QER and BAR (TS 29.244 §7.5.4).

use std::sync::Arc;

use flow::InstanceId;
use packet::{Ppi, Qfi};

use super::application::Application;
use super::edit::{Edit, replace, replace_list};
use super::endpoint::FramedRoutesUpdate;
use super::far::{ApplyAction, Bar, Far, ForwardingParameters, NatChoice, OuterHeaderCreation, Redirect};
use super::ids::{BarId, CorrelationId, FarId, PdrId, PolicyId, Precedence, QerId, TrafficEndpointId, UrrId};
use super::interfaces::{DestinationInterface, SourceInterface};
use super::pdr::{FTeid, OuterHeaderRemoval, Pdi, Pdr, UeIpAddress};
use super::qer::{BitRates, Gate, PacketRates, Qer};
use super::qfis::Qfis;
use super::rule_ids::RuleIds;
use super::rulebase::Rulebase;
use crate::sdf::{SdfFilter, TosTrafficClass};

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
    /// Whether this is a whole PDI. Every PDR identifies its session (TS 29.244 §5.2.1), so a PDI
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
        let mut optional = pdi.optional.take();
        self.framed_routes.apply(&mut optional.framed_routes);
        self.application.apply(&mut optional.application);
        pdi.optional = optional.into();
        replace(&mut pdi.sdf_filters, self.sdf_filters.map(Vec::into));
        replace(&mut pdi.qfis, self.qfis.map(Qfis::from));
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
        replace(&mut pdr.qers, self.qers.map(RuleIds::from));
        replace(&mut pdr.urrs, self.urrs.map(RuleIds::from));
    }

    fn apply_rulebases(&self, pdr: &mut Pdr) {
        if self.deactivate.is_empty() && self.activate.is_empty() {
            return;
        }
        // By name: that of a request may be of another configuration than the PDR's.
        let is_in =
            |all: &[Arc<Rulebase>], one: &Rulebase| all.iter().any(|other| other.name() == one.name());
        let active = pdr.rulebases.iter().filter(|one| !is_in(&self.deactivate, one));
        let mut rulebases: Vec<Arc<Rulebase>> = active.cloned().collect();
        for one in &self.activate {
            if !is_in(&rulebases, one) {
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
    /// The public addresses that the control plane wants.
    pub nat: Edit<NatChoice>,
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
            nat: Edit::Keep,
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
        if self.duplicating != Edit::Keep || self.redirect != Edit::Keep || self.nat != Edit::Keep {
            let mut optional = far.optional.take();
            match self.duplicating {
                Edit::Keep => {}
                Edit::Set(update) => update.apply(&mut optional.duplicating),
                Edit::Clear => optional.duplicating = None,
            }
            self.redirect.apply(&mut optional.redirect);
            self.nat.apply(&mut optional.nat);
            far.optional = optional.into();
        }
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
    /// EML4S of the QER Indications.
    pub marks_l4s: Option<bool>,
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
            marks_l4s: None,
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
        let mut optional = qer.optional.take();
        self.gbr.apply(&mut optional.gbr);
        self.averaging_window.apply(&mut optional.averaging_window);
        self.packet_rates.apply(&mut optional.packet_rates);
        replace(&mut optional.reports_rate, self.reports_rate);
        replace(&mut optional.marks_l4s, self.marks_l4s);
        qer.optional = optional.into();
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

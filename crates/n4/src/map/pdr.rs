//! Create PDR, Update PDR and what they detect (TS 29.244 Tables 7.5.2.2-1, 7.5.2.2-2 and 7.5.4.2-1).

use pfcp::group::{self, CreatePdr, UpdatePdr};
use pfcp::ie::{self, Cause, FTeid};
use pfcp::{Edit as WireEdit, IeType, Interface, Repeated};
use rules::model::{
    Edit, FramedRoutesUpdate, OptionalPdi, OuterHeader, OuterHeaderRemoval, Pdi, PdiUpdate, Pdr, PdrId,
    PdrUpdate, Precedence, SdfFilter, SdfFilterId, SourceInterface, TosTrafficClass, TrafficEndpointId,
};
use rules::model::{FarId, QerId, UrrId};
use session::{Choose, ChooseUeIp, Recipient};

use super::ue_ip::{self, UeIps};
use super::{Context, edit, list, refuse_if};
use crate::cause::Reject;

/// What the user plane is to choose for one rule.
#[derive(Default)]
pub(super) struct Wishes {
    pub(super) choose: Option<Choose>,
    pub(super) ue_ip: Vec<ChooseUeIp>,
}

/// A PDI as it came.
struct Detected {
    /// With all that it names.
    pdi: Pdi,
    routes: FramedRoutesUpdate,
    wishes: Wishes,
}

/// A PDR, and what is to be chosen for it.
pub(super) fn create(pdr: &CreatePdr<'_>, context: Context<'_>) -> Result<(Pdr, Wishes), Reject> {
    pdr.check_values()?;
    pdr.pdi.check_values()?;
    ue_ip::check_framed_routes(&pdr.pdi.framed_route, &pdr.pdi.framed_ipv6_route)?;
    let id = PdrId(pdr.pdr_id.0);
    let reject = Reject::rule(id);
    let unsupported = [
        pdr.activation_time.is_some(),
        pdr.deactivation_time.is_some(),
        pdr.mar_id.is_some(),
        pdr.packet_replication_and_detection_carry_on_information
            .is_some(),
        !pdr.ip_multicast_addressing_info.is_empty(),
        pdr.mptcp_applicable_indication.is_some(),
        pdr.transport_delay_reporting.is_some(),
    ];
    refuse_if(&unsupported, reject)?;
    check_precedence(pdr, context)?;
    let activated = &pdr.activate_predefined_rules;
    let names = activated.iter().map(|name| name.0);
    let rulebases = context.rulebases(names, activated.removes_all(), reject)?;
    let pools = ue_ip::pools(&pdr.ue_ip_address_pool_identity, reject, context)?;
    let Detected {
        mut pdi,
        routes,
        wishes,
    } = detection(&pdr.pdi, id, &pools, context)?;
    let framed_routes = routes.all();
    if !framed_routes.is_empty() {
        pdi.optional.get_or_insert_default().framed_routes = framed_routes;
    }
    let removal = pdr
        .outer_header_removal
        .map(|removal| outer_header_removal(removal, reject))
        .transpose()?;
    let pdr = Pdr {
        id,
        precedence: pdr
            .precedence
            .map_or(Precedence::LOWEST, |precedence| Precedence(precedence.0)),
        pdi,
        outer_header_removal: removal,
        far: pdr.far_id.map(|far| FarId(far.0)),
        qers: pdr.qer_id.iter().map(|qer| QerId(qer.0)).collect(),
        urrs: pdr.urr_id.iter().map(|urr| UrrId(urr.0)).collect(),
        rulebases: rulebases.into(),
    };
    Ok((pdr, wishes))
}

/// Precedence is mandatory but on Sxa (Table 7.5.2.2-1). Of peers that may speak over Sxa it is taken as the lowest
/// where it is missing.
fn check_precedence(pdr: &CreatePdr<'_>, context: Context<'_>) -> Result<(), Reject> {
    let on = context.peer.interfaces;
    let interface = if on.has(Interface::Sxa) {
        Interface::Sxa
    } else {
        Interface::N4
    };
    let checked = pdr.check(interface);
    checked.map_err(|error| Reject::from(error).because(context.missing))
}

/// An update of a PDR, and what is to be chosen for it.
pub(super) fn update(pdr: &UpdatePdr<'_>, context: Context<'_>) -> Result<(PdrUpdate, Wishes), Reject> {
    pdr.check_removals()?;
    let id = PdrId(pdr.pdr_id.0);
    let reject = Reject::rule(id);
    let unsupported = [
        matches!(pdr.activation_time, Some(WireEdit::Set(_))),
        matches!(pdr.deactivation_time, Some(WireEdit::Set(_))),
        !pdr.ip_multicast_addressing_info.is_empty(),
        matches!(pdr.transport_delay_reporting, Some(WireEdit::Set(_))),
    ];
    refuse_if(&unsupported, reject)?;
    let detected = pdr
        .pdi
        .as_ref()
        .map(|pdi| detection(pdi, id, &[], context))
        .transpose()?;
    let (pdi, wishes) = match (detected, pdr.pdi.as_ref()) {
        (Some(Detected { pdi, routes, wishes }), Some(sent)) => (Some(pdi_update(pdi, routes, sent)), wishes),
        _ => (None, Wishes::default()),
    };
    let outer_header_removal = match pdr.outer_header_removal {
        None => Edit::Keep,
        Some(WireEdit::Remove) => Edit::Clear,
        Some(WireEdit::Set(removal)) => Edit::Set(outer_header_removal(removal, reject)?),
    };
    let (on, off) = (&pdr.activate_predefined_rules, &pdr.deactivate_predefined_rules);
    let update = PdrUpdate {
        outer_header_removal,
        precedence: pdr.precedence.map(|precedence| Precedence(precedence.0)),
        pdi,
        far: edit(pdr.far_id, |far| FarId(far.0)),
        qers: list(&pdr.qer_id, pdr.qer_id.iter().map(|qer| QerId(qer.0))),
        urrs: list(&pdr.urr_id, pdr.urr_id.iter().map(|urr| UrrId(urr.0))),
        deactivate: context.rulebases(off.iter().map(|name| name.0), off.removes_all(), reject)?,
        activate: context.rulebases(on.iter().map(|name| name.0), on.removes_all(), reject)?,
        ..PdrUpdate::new(id)
    };
    Ok((update, wishes))
}

fn pdi_update(mut detected: Pdi, framed_routes: FramedRoutesUpdate, sent: &group::Pdi<'_>) -> PdiUpdate {
    PdiUpdate {
        source_interface: Some(detected.source_interface),
        endpoint: detected.endpoint,
        f_teid: given(IeType::F_TEID, detected.f_teid, sent),
        instance: given(IeType::NETWORK_INSTANCE, detected.instance, sent),
        ue_ip: list(&sent.ue_ip_address, detected.ue_ip.into_iter()),
        framed_routes,
        sdf_filters: list(&sent.sdf_filter, detected.sdf_filters.into_vec().into_iter()),
        application: given(IeType::APPLICATION_ID, detected.optional.take().application, sent),
        qfis: list(&sent.qfi, detected.qfis.iter()),
    }
}

/// A part of a PDI in an update: one that came with a null length goes (TS 29.244 §5.6.3).
fn given<T>(ie_type: IeType, detected: Option<T>, sent: &group::Pdi<'_>) -> Edit<T> {
    match detected {
        None if sent.removes(ie_type) => Edit::Clear,
        detected => Edit::from(detected),
    }
}

/// A local F-TEID that was given, or that is to be chosen for `to`.
pub(super) fn f_teid(sent: Option<FTeid>, to: Recipient) -> (Option<rules::model::FTeid>, Option<Choose>) {
    match sent {
        None => (None, None),
        Some(FTeid::Choose { v4, v6, choose_id }) => {
            let choose = Choose {
                to,
                ipv4: v4,
                ipv6: v6,
                id: choose_id,
            };
            (None, Some(choose))
        }
        Some(FTeid::Endpoint { teid, ipv4, ipv6 }) => {
            let teid = packet::Teid(teid.0);
            (Some(rules::model::FTeid { teid, ipv4, ipv6 }), None)
        }
    }
}

fn detection(
    pdi: &group::Pdi<'_>,
    id: PdrId,
    pools: &[session::PoolId],
    context: Context<'_>,
) -> Result<Detected, Reject> {
    let reject = Reject::rule(id);
    refuse_unsupported(pdi, reject)?;
    let (f_teid, choose) = f_teid(pdi.local_f_teid, id.into());
    let UeIps { given, chosen } = ue_ip::ue_ips(&pdi.ue_ip_address, id.into(), pools, context)?;
    let detected = Pdi {
        endpoint: endpoint(pdi, reject)?,
        f_teid,
        instance: context.instance(pdi.network_instance, reject)?,
        ue_ip: given,
        sdf_filters: sdf_filters(&pdi.sdf_filter, context)?.into(),
        optional: OptionalPdi {
            application: context.application(pdi.application_id, reject)?,
            ..OptionalPdi::default()
        }
        .into(),
        qfis: pdi.qfi.iter().filter_map(|qfi| packet::Qfi::new(qfi.0)).collect(),
        ..Pdi::new(source(pdi.source_interface, reject)?)
    };
    Ok(Detected {
        pdi: detected,
        routes: ue_ip::framed_routes(&pdi.framed_route, &pdi.framed_ipv6_route, reject)?,
        wishes: Wishes {
            choose,
            ue_ip: chosen,
        },
    })
}

/// The Traffic Endpoint that a PDI names: one at most (MTE is not among our features), and not beside what it contains
/// (TS 29.244 Table 7.5.2.2-2).
fn endpoint(pdi: &group::Pdi<'_>, reject: Reject) -> Result<Option<TrafficEndpointId>, Reject> {
    let mut named = pdi.traffic_endpoint_id.iter();
    let Some(first) = named.next() else {
        return Ok(None);
    };
    let unsupported = [
        named.next().is_some(),
        pdi.local_f_teid.is_some(),
        !pdi.ue_ip_address.is_empty(),
    ];
    refuse_if(&unsupported, reject.offends(IeType::TRAFFIC_ENDPOINT_ID))?;
    Ok(Some(TrafficEndpointId(first.0)))
}

/// A Source Interface (TS 29.244 §8.2.2): there are no 5G VN groups here (GCOM), and a spare value is incorrect
/// (§7.6.8).
fn source(sent: ie::SourceInterface, reject: Reject) -> Result<SourceInterface, Reject> {
    let refused = reject.offends(IeType::SOURCE_INTERFACE);
    match SourceInterface::from_value(sent.0) {
        SourceInterface::Other(_) if sent == ie::SourceInterface::FIVE_G_VN_INTERNAL => Err(refused),
        SourceInterface::Other(_) => Err(refused.because(Cause::MANDATORY_IE_INCORRECT)),
        known => Ok(known),
    }
}

fn refuse_unsupported(pdi: &group::Pdi<'_>, reject: Reject) -> Result<(), Reject> {
    let unsupported = [
        pdi.local_ingress_tunnel.is_some(),
        pdi.redundant_transmission_detection_parameters.is_some(),
        pdi.ethernet_pdu_session_information.is_some(),
        !pdi.ethernet_packet_filter.is_empty(),
        !pdi.ip_multicast_addressing_info.is_empty(),
        !pdi.dns_query_filter.is_empty(),
        pdi.mbs_session_identifier.is_some(),
        pdi.area_session_id.is_some(),
    ];
    refuse_if(&unsupported, reject)
}

/// A filter without anything in it says nothing and is passed over. One that cannot be read must not be, nor one with a
/// Flow Description that is empty (FD, TS 29.244 §8.2.5): the rule would match more than it was meant to.
pub(super) fn sdf_filters(
    sent: &Repeated<'_, ie::SdfFilter<'_>>,
    context: Context<'_>,
) -> Result<Vec<SdfFilter>, Reject> {
    let mut filters = Vec::with_capacity(sent.len());
    for one in sent {
        let filter = sdf_filter(&one, context)?;
        if filter.has_pattern() || filter.filter_id.is_some() {
            filters.push(filter);
        }
    }
    Ok(filters)
}

fn sdf_filter(sent: &ie::SdfFilter<'_>, context: Context<'_>) -> Result<SdfFilter, Reject> {
    let bad = Reject::ie(Cause::MANDATORY_IE_INCORRECT, IeType::SDF_FILTER);
    let flow_description = sent
        .flow_description
        .map(|text| context.descriptions.read(text.0))
        .transpose()
        .map_err(|_| bad)?;
    Ok(SdfFilter {
        flow_description,
        tos_traffic_class: sent
            .tos_traffic_class
            .map(|[value, mask]| TosTrafficClass { value, mask }),
        spi: sent.security_parameter_index,
        flow_label: sent
            .flow_label
            .map(|[a, b, c]| u32::from_be_bytes([0, a & 0x0f, b, c])),
        filter_id: sent.sdf_filter_id.map(SdfFilterId),
    })
}

fn outer_header_removal(sent: ie::OuterHeaderRemoval, reject: Reject) -> Result<OuterHeaderRemoval, Reject> {
    let bad = reject
        .because(Cause::MANDATORY_IE_INCORRECT)
        .offends(IeType::OUTER_HEADER_REMOVAL);
    let header = OuterHeader::from_value(sent.description).ok_or(bad)?;
    Ok(OuterHeaderRemoval {
        header,
        deletes_psc: sent.deletes_pdu_session_container(),
    })
}

//! Traffic Endpoints (TS 29.244 Tables 7.5.2.7-1 and 7.5.4.13-1).

use pfcp::group::{CreateTrafficEndpoint, UpdateTrafficEndpoint};
use pfcp::ie::{Cause, FTeid};
use pfcp::{Edit as WireEdit, IeType};
use rules::model::{Edit, TrafficEndpoint, TrafficEndpointId, TrafficEndpointUpdate};
use session::{PoolId, Recipient};

use super::pdr::{Wishes, f_teid};
use super::{Context, edit, list, refuse, ue_ip};
use crate::cause::Reject;

/// What a Traffic Endpoint that cannot be had is answered with. A Failed Rule ID does not know of such.
fn reject() -> Reject {
    Reject::ie(Cause::MANDATORY_IE_INCORRECT, IeType::TRAFFIC_ENDPOINT_ID)
}

/// A Traffic Endpoint, and what is to be chosen for it, from `pools`.
pub(super) fn create(
    sent: &CreateTrafficEndpoint<'_>,
    pools: &[PoolId],
    context: Context<'_>,
) -> Result<(TrafficEndpoint, Wishes), Reject> {
    sent.check_values()?;
    ue_ip::check_framed_routes(&sent.framed_route, &sent.framed_ipv6_route)?;
    refuse(&[
        (
            sent.redundant_transmission_detection_parameters.is_some(),
            IeType::REDUNDANT_TRANSMISSION_DETECTION_PARAMETERS,
        ),
        (
            sent.ethernet_pdu_session_information.is_some(),
            IeType::ETHERNET_PDU_SESSION_INFORMATION,
        ),
        (sent.local_ingress_tunnel.is_some(), IeType::LOCAL_INGRESS_TUNNEL),
        (
            sent.ip_multicast_addressing_info.is_some(),
            IeType::IP_MULTICAST_ADDRESSING_INFO,
        ),
        (
            sent.mbs_session_identifier.is_some(),
            IeType::MBS_SESSION_IDENTIFIER,
        ),
        (sent.area_session_id.is_some(), IeType::AREA_SESSION_ID),
    ])?;
    let id = TrafficEndpointId(sent.traffic_endpoint_id.0);
    let to = Recipient::Endpoint(id);
    let (own, choose) = f_teid(sent.local_f_teid, to);
    let ue = ue_ip::ue_ips(&sent.ue_ip_address, to, pools, context)?;
    let routes = ue_ip::framed_routes(&sent.framed_route, &sent.framed_ipv6_route, reject())?;
    let endpoint = TrafficEndpoint {
        f_teid: own,
        instance: context.instance(sent.network_instance, instance_rejected())?,
        ue_ip: ue.given,
        framed_routes: routes.all(),
        qfis: sent
            .qfi
            .iter()
            .filter_map(|qfi| packet::Qfi::new(qfi.0))
            .collect(),
        ..TrafficEndpoint::new(id)
    };
    Ok((
        endpoint,
        Wishes {
            choose,
            ue_ip: ue.chosen,
        },
    ))
}

/// An update of a Traffic Endpoint, and what is to be chosen for it.
pub(super) fn update(
    sent: &UpdateTrafficEndpoint<'_>,
    context: Context<'_>,
) -> Result<(TrafficEndpointUpdate, Wishes), Reject> {
    refuse(&[(
        matches!(
            sent.redundant_transmission_detection_parameters,
            Some(WireEdit::Set(_))
        ),
        IeType::REDUNDANT_TRANSMISSION_DETECTION_PARAMETERS,
    )])?;
    let id = TrafficEndpointId(sent.traffic_endpoint_id.0);
    let to = Recipient::Endpoint(id);
    let mut choose = None;
    let own = match sent.local_f_teid {
        Some(WireEdit::Set(FTeid::Choose { .. })) => {
            (_, choose) = f_teid(sent.local_f_teid.and_then(WireEdit::value), to);
            Edit::Keep
        }
        other => match edit(other, |own| f_teid(Some(own), to).0) {
            Edit::Set(own) => Edit::from(own),
            Edit::Clear => Edit::Clear,
            Edit::Keep => Edit::Keep,
        },
    };
    let instance = match sent.network_instance {
        None => Edit::Keep,
        Some(WireEdit::Remove) => Edit::Clear,
        Some(WireEdit::Set(name)) => Edit::from(context.instance(Some(name), instance_rejected())?),
    };
    let ue = ue_ip::ue_ips(&sent.ue_ip_address, to, &[], context)?;
    let update = TrafficEndpointUpdate {
        f_teid: own,
        instance,
        ue_ip: list(&sent.ue_ip_address, ue.given.into_iter()),
        framed_routes: ue_ip::framed_routes(&sent.framed_route, &sent.framed_ipv6_route, reject())?,
        qfis: list(
            &sent.qfi,
            sent.qfi.iter().filter_map(|qfi| packet::Qfi::new(qfi.0)),
        ),
        ..TrafficEndpointUpdate::new(id)
    };
    Ok((
        update,
        Wishes {
            choose,
            ue_ip: ue.chosen,
        },
    ))
}

fn instance_rejected() -> Reject {
    Reject::of(Cause::RULE_CREATION_MODIFICATION_FAILURE)
}

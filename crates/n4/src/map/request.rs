//! Whole requests (TS 29.244 Tables 7.5.2.1-1 and 7.5.4.1-1).

use pfcp::group::{CreatePdr, CreateQer, CreateTrafficEndpoint};
use pfcp::ie::{Cause, Ie, PdnType, PfcpSeReqFlags, PfcpSmReqFlags};
use pfcp::message::{SessionEstablishmentRequest, SessionModificationRequest};
use pfcp::{IeType, Repeated, Restrict};
use rules::image::{ImmediateActions, PacketsLeft};
use rules::model::{BarId, FarId, FarUpdate, LocalPolicy, PdrId, Qer, QerId, TrafficEndpointId, UrrId};
use rules::network::Network;
use session::{Changes, Charging, Query, SessionView, Subscriber};
use std::collections::BTreeMap;
use std::sync::Arc;

use super::pdr::Wishes;
use super::{
    Context, bar, far, packet_rates, pdr, qer, refuse, subscriber, traffic_endpoint, ue_ip, unsupported, urr,
};
use crate::cause::Reject;

/// The rules of a new session.
pub(crate) fn establishment(
    request: &SessionEstablishmentRequest<'_>,
    context: Context<'_>,
) -> Result<Changes, Reject> {
    let unsupported = [
        (!request.create_mar.is_empty(), IeType::CREATE_MAR),
        (!request.create_srr.is_empty(), IeType::CREATE_SRR),
        (
            request.create_bridge_info_for_tsc.is_some(),
            IeType::CREATE_BRIDGE_INFO_FOR_TSC,
        ),
        (
            request.provide_atsss_control_information.is_some(),
            IeType::PROVIDE_ATSSS_CONTROL_INFORMATION,
        ),
        (
            !request.l2tp_tunnel_information.is_empty(),
            IeType::L2TP_TUNNEL_INFORMATION,
        ),
        (
            request.l2tp_session_information.is_some(),
            IeType::L2TP_SESSION_INFORMATION,
        ),
        (request.pdn_type.is_some_and(is_not_ip), IeType::PDN_TYPE),
    ];
    request.check_values()?;
    check_pdn_type(request.pdn_type)?;
    refuse(&unsupported)?;
    unsupported::establishment(request)?;
    let asks = |flag| request.pfcpsereq_flags.is_some_and(|flags| flags.contains(flag));
    let create_urrs = collect(&request.create_urr, context, |urr| urr::create(urr, context))?;
    let (create_qers, packets) = create_qers(&request.create_qer, context)?;
    let mut changes = Changes {
        create_urrs,
        create_qers,
        packets,
        create_bars: request
            .create_bar
            .iter()
            .map(bar::create)
            .collect::<Result<_, _>>()?,
        inactivity_timer: request.user_plane_inactivity_timer.map(|timer| timer.0),
        restores: asks(PfcpSeReqFlags::RESTI),
        charging: asks(PfcpSeReqFlags::SUMPC).then_some(Charging::Paused),
        subscriber: subscriber::of(request).map(Arc::new),
        ..Changes::default()
    };
    changes.create_fars = collect(&request.create_far, context, |far| far::create(far, context))?;
    create_endpoints(
        &mut changes,
        &request.create_traffic_endpoint,
        &request.create_pdr,
        context,
    )?;
    create_pdrs(&mut changes, &request.create_pdr, context)?;
    changes.local_policy =
        Some(local_policy(request, &changes, context)).filter(|policy| *policy != LocalPolicy::default());
    Ok(changes)
}

/// What the configuration has for the slice and the data network that a new session is in. Without an APN/DNN (TS
/// 29.244 §8.2.117) the data network goes by the network instance towards it of those that the rules name, and if they
/// name none, by the first.
fn local_policy(
    request: &SessionEstablishmentRequest<'_>,
    changes: &Changes,
    context: Context<'_>,
) -> LocalPolicy {
    let of_pdrs = changes.create_pdrs.iter().map(|pdr| pdr.pdi.instance);
    let of_fars = changes
        .create_fars
        .iter()
        .map(|far| far.forwarding.as_ref()?.instance);
    let named = of_pdrs.chain(of_fars).flatten();
    let dnn = request.apn_dnn.map(|sent| sent.0);
    let slice = request.s_nssai.map(subscriber::slice);
    context.network.local_policy(slice, dnn, named)
}

/// Another slice of a session (TS 29.244 Table 7.5.4.1-1, NOTE 5): what the configuration has for it, and what its
/// records say.
pub(crate) fn change_slice(
    changes: &mut Changes,
    slice: pfcp::ie::SNssai,
    session: &SessionView<'_>,
    network: &Network,
) {
    let subscriber = Subscriber {
        s_nssai: Some(subscriber::slice(slice)),
        ..session.subscriber().cloned().unwrap_or_default()
    };
    changes.local_policy = Some(Subscriber::local_policy(
        Some(&subscriber),
        session.rules(),
        network,
    ));
    changes.subscriber = Some(Arc::new(subscriber));
}

/// What a modification takes from a session by a null length (TS 29.244 §5.6.3, §8.2.43), beside what its type may be
/// empty for.
const REMOVABLE: [IeType; 2] = [IeType::FQ_CSID, IeType::USER_PLANE_INACTIVITY_TIMER];

/// The changes of a session.
pub(crate) fn modification(
    request: &SessionModificationRequest<'_>,
    context: Context<'_>,
) -> Result<Changes, Reject> {
    let unsupported = [
        (!request.create_mar.is_empty(), IeType::CREATE_MAR),
        (!request.update_mar.is_empty(), IeType::UPDATE_MAR),
        (!request.remove_mar.is_empty(), IeType::REMOVE_MAR),
        (!request.create_srr.is_empty(), IeType::CREATE_SRR),
        (!request.update_srr.is_empty(), IeType::UPDATE_SRR),
        (!request.remove_srr.is_empty(), IeType::REMOVE_SRR),
        (
            request.ethernet_context_information.is_some(),
            IeType::ETHERNET_CONTEXT_INFORMATION,
        ),
        (
            request.provide_atsss_control_information.is_some(),
            IeType::PROVIDE_ATSSS_CONTROL_INFORMATION,
        ),
        (
            !request.tsc_management_information.is_empty(),
            IeType::TSC_MANAGEMENT_INFORMATION_SESSION_MODIFICATION,
        ),
    ];
    request.check_values_but(&REMOVABLE)?;
    refuse(&unsupported)?;
    unsupported::modification(request)?;
    let mut changes = removals(request);
    changes.charging = charging(request)?;
    changes.query = query(request);
    let queried = request.query_packet_rate_status.iter();
    changes.query_packets = queried.map(|query| QerId(query.qer_id.0)).collect();
    let stops = request.removes(IeType::USER_PLANE_INACTIVITY_TIMER).then_some(0);
    changes.inactivity_timer = request
        .user_plane_inactivity_timer
        .map_or(stops, |timer| Some(timer.0));
    create_and_update(&mut changes, request, context)?;
    changes.create_fars = collect(&request.create_far, context, |far| far::create(far, context))?;
    create_endpoints(
        &mut changes,
        &request.create_traffic_endpoint,
        &request.create_pdr,
        context,
    )?;
    create_pdrs(&mut changes, &request.create_pdr, context)?;
    (changes.update_fars, changes.immediate) = update_fars(request, context)?;
    for updated in &request.update_pdr {
        let (update, wishes) = pdr::update(&context.peer.own(&updated), context)?;
        changes.update_pdrs.push(update);
        add_wishes(&mut changes, wishes);
    }
    for updated in &request.update_traffic_endpoint {
        let (update, wishes) = traffic_endpoint::update(&context.peer.own(&updated), context)?;
        changes.update_endpoints.push(update);
        add_wishes(&mut changes, wishes);
    }
    Ok(changes)
}

fn removals(request: &SessionModificationRequest<'_>) -> Changes {
    Changes {
        remove_pdrs: ids(&request.remove_pdr, |removed| PdrId(removed.pdr_id.0)),
        remove_fars: ids(&request.remove_far, |removed| FarId(removed.far_id.0)),
        remove_qers: ids(&request.remove_qer, |removed| QerId(removed.qer_id.0)),
        remove_urrs: ids(&request.remove_urr, |removed| UrrId(removed.urr_id.0)),
        remove_bars: request
            .remove_bar
            .iter()
            .map(|removed| BarId(removed.bar_id.0))
            .collect(),
        remove_endpoints: ids(&request.remove_traffic_endpoint, |removed| {
            TrafficEndpointId(removed.traffic_endpoint_id.0)
        }),
        ..Changes::default()
    }
}

fn ids<'a, T: Ie<'a> + Copy, I>(removed: &Repeated<'a, T>, id: impl Fn(T) -> I) -> Vec<I> {
    removed.iter().map(id).collect()
}

/// Rules that name nothing of the node.
fn create_and_update(
    changes: &mut Changes,
    request: &SessionModificationRequest<'_>,
    context: Context<'_>,
) -> Result<(), Reject> {
    changes.create_urrs = collect(&request.create_urr, context, |urr| urr::create(urr, context))?;
    (changes.create_qers, changes.packets) = create_qers(&request.create_qer, context)?;
    changes.update_urrs = collect(&request.update_urr, context, |urr| urr::update(urr, context))?;
    changes.update_qers = collect(&request.update_qer, context, qer::update)?;
    let created = request.create_bar.iter().map(bar::create);
    changes.create_bars = created.collect::<Result<_, _>>()?;
    let updated = request.update_bar.iter().map(bar::update);
    changes.update_bars = updated.collect::<Result<_, _>>()?;
    Ok(())
}

/// Each rule of a list, without what has no place on the peer's reference points.
fn collect<'a, S: Ie<'a> + Restrict + Copy, R>(
    sent: &Repeated<'a, S>,
    context: Context<'_>,
    mut map: impl FnMut(&S) -> Result<R, Reject>,
) -> Result<Vec<R>, Reject> {
    collect_sent(sent, |one| map(&context.peer.own(one)))
}

/// The rules of a list as they came, up to the first that is refused: no more room than they take, since sessions keep
/// them, and read where they are decoded, once, since they are large.
fn collect_sent<'a, S: Ie<'a> + Copy, R>(
    sent: &Repeated<'a, S>,
    mut map: impl FnMut(&S) -> Result<R, Reject>,
) -> Result<Vec<R>, Reject> {
    let mut all = Vec::with_capacity(sent.len());
    let mut refused = None;
    sent.visit(|one| {
        if refused.is_none() {
            match map(one) {
                Ok(one) => all.push(one),
                Err(reject) => refused = Some(reject),
            }
        }
    });
    refused.map_or(Ok(all), Err)
}

/// QERs, and what is left of the packet rates of those that say it.
fn create_qers<'a>(
    sent: &Repeated<'a, CreateQer<'a>>,
    context: Context<'_>,
) -> Result<(Vec<Qer>, Vec<PacketsLeft>), Reject> {
    let mut has_status = false;
    let created = collect_sent(sent, |one| {
        has_status |= one.packet_rate_status.is_some();
        qer::create(&context.peer.own(one))
    })?;
    let left = if has_status {
        packet_rates::left(sent, context)?
    } else {
        Vec::new()
    };
    Ok((created, left))
}

/// Updated FARs, with SNDEM and DROBU (TS 29.244 §5.3.2, §8.2.31): SMFs set the first in Update Forwarding Parameters,
/// or for all FARs of the request.
fn update_fars(
    request: &SessionModificationRequest<'_>,
    context: Context<'_>,
) -> Result<(Vec<FarUpdate>, ImmediateActions), Reject> {
    let asks = |flags: Option<PfcpSmReqFlags>, flag| flags.is_some_and(|flags| flags.contains(flag));
    let of_all = asks(request.pfcpsmreq_flags, PfcpSmReqFlags::SNDEM);
    let mut end_markers = Vec::new();
    let updates = collect_sent(&request.update_far, |far| {
        let forwarding = far.update_forwarding_parameters.as_ref();
        if forwarding.is_some_and(|sent| of_all || asks(sent.pfcpsmreq_flags, PfcpSmReqFlags::SNDEM)) {
            end_markers.push(FarId(far.far_id.0));
        }
        far::update(&context.peer.own(far), context)
    })?;
    let immediate = ImmediateActions {
        end_markers,
        discards_buffered: asks(request.pfcpsmreq_flags, PfcpSmReqFlags::DROBU),
        tells_discarded: false,
    };
    Ok((updates, immediate))
}

fn query(request: &SessionModificationRequest<'_>) -> Query {
    let asked: Vec<UrrId> = request
        .query_urr
        .iter()
        .map(|query| UrrId(query.urr_id.0))
        .collect();
    let all = request
        .pfcpsmreq_flags
        .is_some_and(|flags| flags.contains(PfcpSmReqFlags::QAURR));
    match (all, asked.is_empty()) {
        (true, _) => Query::All(asked),
        (false, true) => Query::Nothing,
        (false, false) => Query::These(asked),
    }
}

/// Traffic Endpoints; the pools that their UE addresses come from are those that a PDR names which names the endpoint.
fn create_endpoints(
    changes: &mut Changes,
    endpoints: &Repeated<'_, CreateTrafficEndpoint<'_>>,
    pdrs: &Repeated<'_, CreatePdr<'_>>,
    context: Context<'_>,
) -> Result<(), Reject> {
    // Each PDR is read once: requests are long.
    let mut named = BTreeMap::new();
    let reads = if endpoints.is_empty() { 0 } else { usize::MAX };
    for pdr in pdrs.iter().take(reads) {
        let pools = pdr.ue_ip_address_pool_identity;
        let ids = pdr.pdi.traffic_endpoint_id.iter().filter(|_| !pools.is_empty());
        for id in ids {
            named.entry(id.0).or_insert((pdr.pdr_id, pools));
        }
    }
    for created in endpoints {
        let pools = match named.get(&created.traffic_endpoint_id.0) {
            Some((pdr, pools)) => ue_ip::pools(pools, Reject::rule(PdrId(pdr.0)), context)?,
            None => Vec::new(),
        };
        let (endpoint, wishes) = traffic_endpoint::create(&context.peer.own(&created), &pools, context)?;
        changes.create_endpoints.push(endpoint);
        add_wishes(changes, wishes);
    }
    Ok(())
}

fn create_pdrs(
    changes: &mut Changes,
    sent: &Repeated<'_, CreatePdr<'_>>,
    context: Context<'_>,
) -> Result<(), Reject> {
    let pdrs = collect(sent, context, |created| {
        let (pdr, wishes) = pdr::create(created, context)?;
        add_wishes(changes, wishes);
        Ok(pdr)
    });
    changes.create_pdrs = pdrs?;
    Ok(())
}

fn add_wishes(changes: &mut Changes, wishes: Wishes) {
    changes.choose.extend(wishes.choose);
    changes.choose_ue_ip.extend(wishes.ue_ip);
}

/// Whether all URRs that are for it stop or resume for a Pause of Charging (SUMPC, RUMUC, TS 29.244 §5.30). Both at
/// once are neither.
fn charging(request: &SessionModificationRequest<'_>) -> Result<Option<Charging>, Reject> {
    let asks = |flag| request.pfcpsmreq_flags.is_some_and(|flags| flags.contains(flag));
    match (asks(PfcpSmReqFlags::SUMPC), asks(PfcpSmReqFlags::RUMUC)) {
        (true, true) => Err(Reject::ie(Cause::MANDATORY_IE_INCORRECT, IeType::PFCPSMREQ_FLAGS)),
        (true, false) => Ok(Some(Charging::Paused)),
        (false, true) => Ok(Some(Charging::Resumed)),
        (false, false) => Ok(None),
    }
}

/// The values 0, 6 and 7 "shall not be sent" (TS 29.244 Table 8.2.79-1).
fn check_pdn_type(sent: Option<PdnType>) -> Result<(), Reject> {
    match sent {
        None | Some(PdnType(1..=5)) => Ok(()),
        Some(_) => Err(Reject::ie(Cause::MANDATORY_IE_INCORRECT, IeType::PDN_TYPE)),
    }
}

fn is_not_ip(pdn_type: PdnType) -> bool {
    matches!(pdn_type, PdnType::NON_IP | PdnType::ETHERNET)
}

//! Slices and data networks.

use axum::Json;
use axum::extract::State;
use flow::SessionGroupTotal;

use crate::metrics::{GroupCounts, forwarded_of};
use crate::rest::answer::Answer;
use crate::rest::service::Service;
use crate::values::{Problem, SliceList, SliceRow};

/// What there is of each slice and data network: sessions, and the user packets that left since the start.
#[utoipa::path(
    get,
    path = "/v1/slices",
    extensions(("x-role" = json!("viewer"))),
    responses(
        (status = 200, body = SliceList),
        (status = 503, body = Problem, content_type = "application/problem+json", description = "Too many questions"),
    )
)]
pub(super) async fn slices(State(service): State<Service>) -> Answer<SliceList> {
    let (groups, workers) = service.client.session_groups().await?;
    let gauges = service.gauges.as_ref();
    let totals = gauges.map(|gauges| (gauges.group_totals)()).unwrap_or_default();
    Ok(Json(SliceList {
        slices: groups.into_iter().map(|group| row(group, &totals)).collect(),
        workers,
    }))
}

fn row(group: GroupCounts, workers: &[Vec<SessionGroupTotal>]) -> SliceRow {
    let SessionGroupTotal {
        packets: [uplink_packets, downlink_packets],
        octets: [uplink_octets, downlink_octets],
    } = forwarded_of(&group, workers);
    SliceRow {
        slice: group.slice,
        dnn: group.dnn,
        sessions: group.sessions,
        joined: group.joined,
        uplink_packets,
        uplink_octets,
        downlink_packets,
        downlink_octets,
    }
}

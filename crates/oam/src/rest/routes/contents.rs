//! What was counted of the contents of predefined rules.

use axum::Json;
use axum::extract::State;
use flow::{ContentId, ContentTotal};
use rules::model::Content;
use worker::Stats;

use crate::rest::answer::Answer;
use crate::rest::query::QueryTimeout;
use crate::rest::service::Service;
use crate::values::{ContentList, ContentRow, InspectedFlows, Problem};

/// What all sessions have counted of each content of predefined rules since the start, and how many flows were looked
/// into for that.
#[utoipa::path(
    get,
    path = "/v1/contents",
    extensions(("x-role" = json!("viewer"))),
    responses(
        (status = 200, body = ContentList),
        (status = 503, body = Problem, content_type = "application/problem+json", description = "Too many questions"),
    )
)]
pub(super) async fn contents(State(service): State<Service>) -> Answer<ContentList> {
    Ok(Json(ContentList {
        inspection: inspected(&(service.workers)()),
        contents: content_rows(&service).await?,
    }))
}

/// What was counted of each content.
pub(super) async fn content_rows(service: &Service) -> Result<Vec<ContentRow>, QueryTimeout> {
    let contents = service.client.contents().await?;
    let gauges = service.gauges.as_ref();
    let totals = gauges.map(|gauges| (gauges.content_totals)()).unwrap_or_default();
    Ok(contents.iter().map(|content| row(content, &totals)).collect())
}

fn inspected(workers: &[Stats]) -> InspectedFlows {
    let sum = |of: fn(&Stats) -> u64| workers.iter().map(of).sum();
    InspectedFlows {
        inspected: sum(|stats| stats.inspections),
        found: sum(|stats| stats.hosts_found),
        undetected: sum(|stats| stats.undetected_flows),
        refused: sum(|stats| stats.inspections_refused),
    }
}

fn row((content, id): &(Content, ContentId), totals: &[Vec<ContentTotal>]) -> ContentRow {
    let own = || totals.iter().filter_map(|worker| worker.get(id.index()));
    let sum = |of: fn(&ContentTotal) -> u64| own().map(of).sum();
    ContentRow {
        name: content.name.to_string(),
        rating_group: content.rating_group,
        service_id: content.service_id,
        flows: sum(|total| total.flows),
        uplink_packets: sum(|total| total.packets[0]),
        uplink_octets: sum(|total| total.octets[0]),
        downlink_packets: sum(|total| total.packets[1]),
        downlink_octets: sum(|total| total.octets[1]),
    }
}

//! Queues before ports.

use axum::Json;
use axum::extract::State;

use crate::rest::answer::Answer;
use crate::rest::service::Service;
use crate::values::{Problem, QueueList};

/// The queues before ports: how many there are, what waits in them, what has left, was marked and was dropped, by
/// priority; and the rates that they have together. Those of one session are with the session.
#[utoipa::path(
    get,
    path = "/v1/queues",
    extensions(("x-role" = json!("viewer"))),
    responses(
        (status = 200, body = QueueList),
        (status = 503, body = Problem, content_type = "application/problem+json", description = "Too many questions"),
    )
)]
pub(super) async fn queues(State(service): State<Service>) -> Answer<QueueList> {
    let plan = service.client.queue_plan().await?;
    let gauges = service.gauges.as_ref();
    let workers = gauges.map(|gauges| (gauges.egress)()).unwrap_or_default();
    Ok(Json(QueueList::of(&workers, plan)))
}

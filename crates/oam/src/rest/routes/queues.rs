//! Queues before ports.

use axum::Json;
use axum::extract::State;

use crate::rest::service::Service;
use crate::values::QueueList;

/// The queues before ports: how many there are, what waits in them, what has left, was marked and was dropped, by
/// priority. Those of one session are with the session.
#[utoipa::path(
    get,
    path = "/v1/queues",
    extensions(("x-role" = json!("viewer"))),
    responses((status = 200, body = QueueList))
)]
pub(super) async fn queues(State(service): State<Service>) -> Json<QueueList> {
    let gauges = service.gauges.as_ref();
    let workers = gauges.map(|gauges| (gauges.egress)()).unwrap_or_default();
    Json(QueueList::of(&workers))
}

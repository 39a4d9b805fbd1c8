//! Accelerators of workers.

use axum::Json;
use axum::extract::State;

use crate::rest::service::Service;
use crate::values::OffloadStatus;

/// The accelerators of workers: contact, sessions that are away, packets that come as exceptions.
#[utoipa::path(
    get,
    path = "/v1/offload",
    extensions(("x-role" = json!("viewer"))),
    responses((status = 200, body = OffloadStatus))
)]
pub(super) async fn offload(State(service): State<Service>) -> Json<OffloadStatus> {
    let gauges = service.gauges.as_ref();
    let workers = gauges.map(|gauges| (gauges.accelerators)()).unwrap_or_default();
    Json(OffloadStatus::of(&workers))
}

//! What the workers have done.

use axum::Json;
use axum::extract::State;

use crate::rest::service::Service;
use crate::values::Runtime;

/// What each stage of each worker has done since the start.
#[utoipa::path(
    get,
    path = "/v1/runtime",
    extensions(("x-role" = json!("viewer"))),
    responses((status = 200, body = Runtime))
)]
pub(super) async fn runtime(State(service): State<Service>) -> Json<Runtime> {
    let hosts = service.hosts.as_ref().map(|read| read()).unwrap_or_default();
    let runtime = Runtime::of(&(service.workers)());
    Json(runtime.with_hosts(hosts).with_memory(&service.memory))
}

//! The ports.

use axum::Json;
use axum::extract::State;

use crate::rest::answer::Answer;
use crate::rest::service::Service;
use crate::values::{PortList, Problem};

/// The ports: their links, the members of LAGs, what passed.
#[utoipa::path(
    get,
    path = "/v1/ports",
    extensions(("x-role" = json!("viewer"))),
    responses(
        (status = 200, body = PortList),
        (status = 503, body = Problem, content_type = "application/problem+json", description = "Too many questions"),
    )
)]
pub(super) async fn ports(State(service): State<Service>) -> Answer<PortList> {
    let ports = service.client.ports().await?;
    Ok(Json(ports.with_counts(&(service.workers)())))
}

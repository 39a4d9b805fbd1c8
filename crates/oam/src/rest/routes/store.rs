//! The store that keeps sessions beyond the process.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;

use crate::rest::answer::Answer;
use crate::rest::service::Service;
use crate::values::{Problem, StoreStatus};

/// How the store of sessions stands, and how many sessions of the process before have been restored.
#[utoipa::path(
    get,
    path = "/v1/store",
    extensions(("x-role" = json!("viewer"))),
    responses(
        (status = 200, body = StoreStatus),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "No store is configured"),
    )
)]
pub(super) async fn store(State(service): State<Service>) -> Answer<StoreStatus> {
    let none = || {
        Problem::new(
            StatusCode::NOT_FOUND,
            "no store of sessions is configured (`store`)",
        )
    };
    let view = service.store.as_ref().ok_or_else(none)?;
    Ok(Json(view()))
}

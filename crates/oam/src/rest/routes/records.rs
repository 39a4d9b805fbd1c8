//! Usage records.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;

use crate::rest::answer::Answer;
use crate::rest::service::Service;
use crate::values::{Problem, RecordsStatus};

/// How the writing of usage records goes.
#[utoipa::path(
    get,
    path = "/v1/records",
    extensions(("x-role" = json!("viewer"))),
    responses(
        (status = 200, body = RecordsStatus),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "No usage records are configured"),
    )
)]
pub(super) async fn records(State(service): State<Service>) -> Answer<RecordsStatus> {
    let none = || {
        Problem::new(
            StatusCode::NOT_FOUND,
            "no usage records are configured (`records`)",
        )
    };
    let view = service.records.as_ref().ok_or_else(none)?;
    Ok(Json(view()))
}

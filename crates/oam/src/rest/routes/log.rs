//! How much is logged.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;

use crate::LogControl;
use crate::rest::answer::{Answer, Asked, pairs};
use crate::rest::request;
use crate::rest::service::Service;
use crate::values::{LogStatus, Problem};

/// How much is logged.
#[utoipa::path(
    get,
    path = "/v1/log",
    extensions(("x-role" = json!("viewer"))),
    responses(
        (status = 200, body = LogStatus),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "There is no log"),
    )
)]
pub(super) async fn log_level(State(service): State<Service>) -> Answer<LogStatus> {
    Ok(Json(log_of(&service)?.status()))
}

/// Says how much is logged from now on, until the daemon ends.
#[utoipa::path(
    put,
    path = "/v1/log",
    extensions(("x-role" = json!("operator"))),
    params(("level" = String, Query, description = "off, error, warn, info, debug or trace", example = "debug")),
    responses(
        (status = 200, body = LogStatus),
        (status = 400, body = Problem, content_type = "application/problem+json", description = "A parameter that cannot be"),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "There is no log"),
    )
)]
pub(super) async fn set_log_level(State(service): State<Service>, asked: Asked) -> Answer<LogStatus> {
    let level = request::log_level(pairs(asked)?)?;
    let log = log_of(&service)?;
    log.set(level);
    Ok(Json(log.status()))
}

fn log_of(service: &Service) -> Result<&LogControl, Problem> {
    let none = || Problem::new(StatusCode::NOT_FOUND, "there is no log");
    service.log.as_ref().ok_or_else(none)
}

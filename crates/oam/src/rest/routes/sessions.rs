//! PFCP sessions.

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::StatusCode;

use crate::rest::answer::{Answer, Asked, pairs};
use crate::rest::query::QueryTimeout;
use crate::rest::request;
use crate::rest::service::Service;
use crate::values::{Problem, SessionDetail, SessionList};
use upf::{InspectError, identifiers};

/// PFCP sessions, a page at a time, in the order of their SEIDs: all, or those with everything that is named.
#[utoipa::path(
    get,
    path = "/v1/sessions",
    extensions(("x-role" = json!("viewer"))),
    params(
        ("ue" = Option<String>, Query, description = "An address of the UE, or of a network behind it", example = "10.45.0.2"),
        ("seid" = Option<String>, Query, description = "The local SEID, decimal or hexadecimal"),
        ("teid" = Option<String>, Query, description = "A TEID at one of this node's addresses, decimal or hexadecimal"),
        ("imsi" = Option<String>, Query, description = "The IMSI of whom they are for; a page may have fewer rows than `limit`, or none, and a `next`", example = "001010000000001"),
        ("dnn" = Option<String>, Query, description = "The DNN or APN, in upper or lower case; a page may have fewer rows than `limit`, or none, and a `next`", example = "internet"),
        ("after" = Option<String>, Query, description = "The `next` of the page before"),
        ("limit" = Option<usize>, Query, minimum = 1, maximum = 500, description = "Rows of the page; 100"),
    ),
    responses(
        (status = 200, body = SessionList),
        (status = 400, body = Problem, content_type = "application/problem+json", description = "A parameter that cannot be"),
        (status = 503, body = Problem, content_type = "application/problem+json", description = "Too many questions"),
    )
)]
pub(super) async fn sessions(State(service): State<Service>, asked: Asked) -> Answer<SessionList> {
    let page = request::sessions(pairs(asked)?)?;
    let found = service.client.sessions(page.query, page.after, page.most);
    Ok(Json(found.await?))
}

/// One session: its rules, what they do now, what was counted.
#[utoipa::path(
    get,
    path = "/v1/sessions/{seid}",
    extensions(("x-role" = json!("viewer"))),
    params(("seid" = String, Path, description = "The local SEID, decimal or hexadecimal")),
    responses(
        (status = 200, body = SessionDetail),
        (status = 400, body = Problem, content_type = "application/problem+json", description = "This is no SEID"),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "There is no such session"),
        (status = 503, body = Problem, content_type = "application/problem+json", description = "Too many questions"),
    )
)]
pub(super) async fn session(
    State(service): State<Service>,
    path: Result<Path<String>, PathRejection>,
) -> Answer<SessionDetail> {
    let Path(text) = path.map_err(|error| Problem::bad("seid", error.body_text()))?;
    let seid = identifiers::read_seid(&text).map_err(|error| Problem::bad("seid", error))?;
    match service.client.session(seid).await? {
        Ok(detail) => Ok(Json(*detail)),
        Err(InspectError::UnknownSession) => {
            let detail = format!("there is no session with SEID {}", identifiers::seid(seid.0));
            Err(Problem::new(StatusCode::NOT_FOUND, detail))
        }
        Err(InspectError::Busy) => Err(QueryTimeout.into()),
    }
}

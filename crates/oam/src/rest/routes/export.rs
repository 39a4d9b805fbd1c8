//! Session records for another process.

use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;

use crate::rest::answer::{Asked, Streamed, pairs};
use crate::rest::request;
use crate::rest::service::Service;
use crate::values::Problem;

/// The records of everything that another process needs to continue: the node with its Recovery Time Stamp,
/// applications, associations, sessions. With `take` this process falls silent and its sessions leave it; within half a
/// minute `/v1/export/end` is to say what became of them, else they come back.
#[utoipa::path(
    post,
    path = "/v1/export",
    extensions(("x-role" = json!("admin"))),
    params(("how" = String, Query, description = "copy: sessions stay here; take: they leave", example = "take")),
    responses(
        (status = 200, description = "Session records", content_type = "application/octet-stream"),
        (status = 400, body = Problem, content_type = "application/problem+json", description = "A parameter that cannot be"),
        (status = 409, body = Problem, content_type = "application/problem+json", description = "There are no records, or another export is under way"),
        (status = 503, body = Problem, content_type = "application/problem+json", description = "Too many questions"),
    )
)]
pub(super) async fn export(State(service): State<Service>, asked: Asked) -> Streamed {
    let how = request::export(pairs(asked)?)?;
    let octets = service.client.export(how).await?;
    let octets = octets.map_err(|why| Problem::new(StatusCode::CONFLICT, why))?;
    Ok(([(CONTENT_TYPE, "application/octet-stream")], Body::from(octets)))
}

/// What became of the records that `/v1/export?how=take` gave: with `true` they are safe and this process ends, without
/// a word to its SMFs; with `false` the sessions come back.
#[utoipa::path(
    post,
    path = "/v1/export/end",
    extensions(("x-role" = json!("admin"))),
    params(("taken" = bool, Query, description = "Whether the records are safe")),
    responses(
        (status = 204, description = "So it is"),
        (status = 400, body = Problem, content_type = "application/problem+json", description = "A parameter that cannot be"),
        (status = 409, body = Problem, content_type = "application/problem+json", description = "No export waits for that: the sessions are back here"),
        (status = 503, body = Problem, content_type = "application/problem+json", description = "Too many questions"),
    )
)]
pub(super) async fn export_end(State(service): State<Service>, asked: Asked) -> Result<StatusCode, Problem> {
    let taken = request::taken(pairs(asked)?)?;
    if service.client.end_export(taken).await? {
        return Ok(StatusCode::NO_CONTENT);
    }
    let words = "no export waits for that: the sessions are here";
    Err(Problem::new(StatusCode::CONFLICT, words))
}

//! What routes are asked and answer, as types.

use axum::Json;
use axum::body::Body;
use axum::extract::Query;
use axum::extract::rejection::QueryRejection;
use axum::http::HeaderName;

use super::request::Pairs;
use crate::values::Problem;

/// What a route answers.
pub(super) type Answer<T> = Result<Json<T>, Problem>;
/// What a route answers that gives octets, or lines one by one.
pub(super) type Streamed = Result<([(HeaderName, &'static str); 1], Body), Problem>;
/// The query of a request.
pub(super) type Asked = Result<Query<Pairs>, QueryRejection>;

/// The pairs of a query.
pub(super) fn pairs(asked: Asked) -> Result<Pairs, Problem> {
    let Query(pairs) = asked.map_err(|error| Problem::bad("query", error.body_text()))?;
    Ok(pairs)
}

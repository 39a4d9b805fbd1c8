//! Requests that are not served, as problem documents (RFC 9457).

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::query::QueryTimeout;
use crate::values::Problem;

const PROBLEM: &str = "application/problem+json";

impl Problem {
    /// A problem of this status.
    pub(super) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self {
            status: status.as_u16(),
            title: status.canonical_reason().unwrap_or("Error").to_owned(),
            detail: detail.into(),
            field: None,
            role: None,
        }
    }

    /// A parameter that cannot be: `must` says what it has to be.
    pub(super) fn bad(field: &str, must: impl ToString) -> Self {
        Self {
            field: Some(field.to_owned()),
            ..Self::new(StatusCode::BAD_REQUEST, format!("{field} {}", must.to_string()))
        }
    }
}

impl From<QueryTimeout> for Problem {
    fn from(timeout: QueryTimeout) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, timeout.to_string())
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        // Plain values always have a JSON form.
        let body = serde_json::to_string(&self).unwrap_or_default();
        let mut response = (status, [(header::CONTENT_TYPE, PROBLEM)], body).into_response();
        if status == StatusCode::UNAUTHORIZED {
            // RFC 6750 §3.
            let challenge = HeaderValue::from_static("Bearer realm=\"sluice\"");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        }
        response
    }
}

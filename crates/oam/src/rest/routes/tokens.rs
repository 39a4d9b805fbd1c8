//! Bearer tokens of callers over TLS.

use std::sync::Arc;
use std::time::SystemTime;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::{Extension, Json};
use tokio::task::spawn_blocking;

use crate::rest::answer::{Answer, Asked, pairs};
use crate::rest::service::Service;
use crate::rest::{Caller, request};
use crate::tokens::{TokenError, TokenStore};
use crate::values::{NewToken, Problem, TokenList};

/// The tokens there are and were: names, roles, when they expire, when they were last used.
#[utoipa::path(
    get,
    path = "/v1/tokens",
    extensions(("x-role" = json!("admin"))),
    responses(
        (status = 200, body = TokenList),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "No tokens are kept"),
    )
)]
pub(super) async fn tokens(State(service): State<Service>) -> Answer<TokenList> {
    Ok(Json(store(&service)?.list(SystemTime::now())))
}

/// Makes a token. What proves it is in this answer alone.
#[utoipa::path(
    post,
    path = "/v1/tokens",
    extensions(("x-role" = json!("admin"))),
    params(
        ("name" = String, Query, min_length = 1, max_length = 64, pattern = "^[A-Za-z0-9._@-]+$", description = "Its name, which no valid token has", example = "prometheus"),
        ("role" = String, Query, description = "viewer, operator or admin", example = "viewer"),
        ("expires_s" = Option<u64>, Query, minimum = 1, maximum = 316_224_000, description = "Seconds that it is valid for; 90 days"),
    ),
    responses(
        (status = 201, body = NewToken),
        (status = 400, body = Problem, content_type = "application/problem+json", description = "A parameter that cannot be"),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "No tokens are kept"),
        (status = 409, body = Problem, content_type = "application/problem+json", description = "A valid token has the name, or there are as many as there may be"),
        (status = 507, body = Problem, content_type = "application/problem+json", description = "It could not be stored"),
    )
)]
pub(super) async fn create_token(
    State(service): State<Service>,
    Extension(caller): Extension<Caller>,
    asked: Asked,
) -> Result<(StatusCode, Json<NewToken>), Problem> {
    let wanted = request::token(pairs(asked)?)?;
    let store = store(&service)?;
    let made = stored(move || store.create(wanted, &caller.name, SystemTime::now())).await?;
    Ok((StatusCode::CREATED, Json(made)))
}

/// Ends the validity of a token. Connections that it has opened end within seconds.
#[utoipa::path(
    delete,
    path = "/v1/tokens/{name}",
    extensions(("x-role" = json!("admin"))),
    params(("name" = String, Path, description = "Its name")),
    responses(
        (status = 204, description = "It is not valid any more"),
        (status = 400, body = Problem, content_type = "application/problem+json", description = "This is no name"),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "No valid token has this name"),
        (status = 507, body = Problem, content_type = "application/problem+json", description = "It could not be stored: the token is still valid"),
    )
)]
pub(super) async fn revoke_token(
    State(service): State<Service>,
    path: Result<Path<String>, PathRejection>,
) -> Result<StatusCode, Problem> {
    let Path(name) = path.map_err(|error| Problem::bad("name", error.body_text()))?;
    let store = store(&service)?;
    stored(move || store.revoke(&name, SystemTime::now())).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn store(service: &Service) -> Result<Arc<TokenStore>, Problem> {
    let none = || Problem::new(StatusCode::NOT_FOUND, "no tokens are kept (`control.token_file`)");
    service.tokens.clone().ok_or_else(none)
}

/// What becomes of a change of the tokens, which waits for the disk.
async fn stored<T: Send + 'static>(
    change: impl FnOnce() -> Result<T, TokenError> + Send + 'static,
) -> Result<T, Problem> {
    let broken = || Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the change was given up");
    let done = spawn_blocking(change).await.map_err(|_| broken())?;
    done.map_err(|error| {
        let of = |status, field: &str| Problem {
            field: Some(field.to_owned()),
            ..Problem::new(status, format!("{field} {error}"))
        };
        match error {
            TokenError::BadName => of(StatusCode::BAD_REQUEST, "name"),
            TokenError::BadLife => of(StatusCode::BAD_REQUEST, "expires_s"),
            TokenError::Taken => of(StatusCode::CONFLICT, "name"),
            TokenError::Unknown => of(StatusCode::NOT_FOUND, "name"),
            TokenError::TooMany => Problem::new(StatusCode::CONFLICT, error.to_string()),
            TokenError::Io(_) => Problem::new(StatusCode::INSUFFICIENT_STORAGE, error.to_string()),
        }
    })
}

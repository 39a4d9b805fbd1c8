//! Who asks.

use axum::{Extension, Json};

use crate::rest::Caller;
use crate::values::CallerStatus;

/// Who asks, as the listener has found out: so a client knows what it may ask for.
#[utoipa::path(
    get,
    path = "/v1/caller",
    extensions(("x-role" = json!("viewer"))),
    responses((status = 200, body = CallerStatus))
)]
pub(super) async fn caller(Extension(caller): Extension<Caller>) -> Json<CallerStatus> {
    Json(CallerStatus {
        name: caller.name.to_string(),
        role: caller.role.to_string(),
        address: caller.address.to_string(),
    })
}

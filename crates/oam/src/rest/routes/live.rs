//! What changes from second to second.

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;

use crate::rest::Caller;
use crate::rest::answer::Streamed;
use crate::rest::live::LiveSources;
use crate::rest::service::Service;
use crate::values::{Live, Problem};

/// What changes from second to second, an object a second as Server-Sent Events without names (`data: ` and the object
/// on one line, an empty line). All listeners get the same objects.
#[utoipa::path(
    get,
    path = "/v1/live",
    extensions(("x-role" = json!("viewer"))),
    responses(
        (status = 200, body = Live, content_type = "text/event-stream"),
        (status = 503, body = Problem, content_type = "application/problem+json", description = "As many listen as may"),
    )
)]
pub(super) async fn live(State(service): State<Service>, Extension(caller): Extension<Caller>) -> Streamed {
    let busy = |_| Problem::new(StatusCode::SERVICE_UNAVAILABLE, "as many listen as may");
    let sources = LiveSources {
        client: service.client,
        workers: service.workers,
    };
    let place = service.live_streams.take(&caller)?;
    let lines = service.live.listen(sources).map_err(busy)?;
    Ok((
        [(CONTENT_TYPE, "text/event-stream")],
        Body::new(place.with(lines)),
    ))
}

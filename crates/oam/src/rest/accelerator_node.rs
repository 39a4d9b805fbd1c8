//! What `sluice accel` serves on its own socket: how it stands, and metrics. There is nothing to change, so all who can
//! connect may ask for all of it.

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::middleware::map_response;
use axum::routing::get;
use axum::{Json, Router};

use super::routes::wanted_format;
use super::screening;
use super::service::Reader;
use crate::metrics::render_accelerator_node;
use crate::values::{AcceleratorNodeStatus, Problem};

/// Where it says how it stands.
pub const ACCELERATOR_NODE: &str = "/v1/accelerator";

/// Its routes, over what is read of its thread.
pub fn accelerator_node_router(node: Reader<AcceleratorNodeStatus>) -> Router {
    Router::new()
        .route(ACCELERATOR_NODE, get(status))
        .route("/metrics", get(metrics))
        .fallback(async || {
            let message =
                format!("there is nothing here: an accelerator has {ACCELERATOR_NODE} and /metrics");
            Problem::new(StatusCode::NOT_FOUND, &message)
        })
        .layer(map_response(screening::guard_browsers))
        .with_state(node)
}

async fn status(State(node): State<Reader<AcceleratorNodeStatus>>) -> Json<AcceleratorNodeStatus> {
    Json(node())
}

async fn metrics(
    State(node): State<Reader<AcceleratorNodeStatus>>,
    headers: HeaderMap,
) -> ([(HeaderName, &'static str); 1], String) {
    let format = wanted_format(&headers);
    let text = render_accelerator_node(format, &node());
    ([(CONTENT_TYPE, format.content_type())], text)
}

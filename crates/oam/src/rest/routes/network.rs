//! Paths, routes and neighbours.

use axum::Json;
use axum::extract::State;

use crate::rest::answer::{Answer, Asked, pairs};
use crate::rest::parameters::NumberedPage;
use crate::rest::request;
use crate::rest::service::Service;
use crate::values::{NeighbourList, PathList, Problem, RouteList};

/// Paths to GTP-U peers whose MTU is less than our links', as routers have reported.
#[utoipa::path(
    get,
    path = "/v1/paths",
    extensions(("x-role" = json!("viewer"))),
    responses(
        (status = 200, body = PathList),
        (status = 503, body = Problem, content_type = "application/problem+json", description = "Too many questions"),
    )
)]
pub(super) async fn paths(State(service): State<Service>) -> Answer<PathList> {
    Ok(Json(service.client.paths().await?))
}

/// Routes, a page at a time: of each VRF its prefixes, with their routers and whether these are there.
#[utoipa::path(
    get,
    path = "/v1/routes",
    extensions(("x-role" = json!("viewer"))),
    params(NumberedPage),
    responses(
        (status = 200, body = RouteList),
        (status = 400, body = Problem, content_type = "application/problem+json", description = "A parameter that cannot be"),
        (status = 503, body = Problem, content_type = "application/problem+json", description = "Too many questions"),
    )
)]
pub(super) async fn ways(State(service): State<Service>, asked: Asked) -> Answer<RouteList> {
    let page = request::numbered(pairs(asked)?)?;
    Ok(Json(service.client.routes(page.after, page.most).await?))
}

/// Neighbours on the links, a page at a time.
#[utoipa::path(
    get,
    path = "/v1/neighbours",
    extensions(("x-role" = json!("viewer"))),
    params(NumberedPage),
    responses(
        (status = 200, body = NeighbourList),
        (status = 400, body = Problem, content_type = "application/problem+json", description = "A parameter that cannot be"),
        (status = 503, body = Problem, content_type = "application/problem+json", description = "Too many questions"),
    )
)]
pub(super) async fn neighbours(State(service): State<Service>, asked: Asked) -> Answer<NeighbourList> {
    let page = request::numbered(pairs(asked)?)?;
    Ok(Json(service.client.neighbours(page.after, page.most).await?))
}

//! N4 and its associations.

use axum::Json;
use axum::extract::State;

use crate::rest::answer::{Answer, Asked, pairs};
use crate::rest::parameters::NumberedPage;
use crate::rest::request;
use crate::rest::service::Service;
use crate::values::{ApplicationList, AssociationList, N4Status, Problem};

/// N4 as a whole: who may speak, what was sent and received by message type, what was refused by cause.
#[utoipa::path(
    get,
    path = "/v1/n4",
    extensions(("x-role" = json!("viewer"))),
    responses(
        (status = 200, body = N4Status),
        (status = 503, body = Problem, content_type = "application/problem+json", description = "Too many questions"),
    )
)]
pub(super) async fn n4(State(service): State<Service>) -> Answer<N4Status> {
    Ok(Json(service.client.n4().await?))
}

/// PFCP associations, a page at a time.
#[utoipa::path(
    get,
    path = "/v1/associations",
    extensions(("x-role" = json!("viewer"))),
    params(NumberedPage),
    responses(
        (status = 200, body = AssociationList),
        (status = 400, body = Problem, content_type = "application/problem+json", description = "A parameter that cannot be"),
        (status = 503, body = Problem, content_type = "application/problem+json", description = "Too many questions"),
    )
)]
pub(super) async fn associations(State(service): State<Service>, asked: Asked) -> Answer<AssociationList> {
    let page = request::numbered(pairs(asked)?)?;
    Ok(Json(service.client.associations(page.after, page.most).await?))
}

/// Applications that PDRs may name, of the configuration and by PFDs, and how many descriptions of each kind they have.
#[utoipa::path(
    get,
    path = "/v1/applications",
    extensions(("x-role" = json!("viewer"))),
    responses(
        (status = 200, body = ApplicationList),
        (status = 503, body = Problem, content_type = "application/problem+json", description = "Too many questions"),
    )
)]
pub(super) async fn applications(State(service): State<Service>) -> Answer<ApplicationList> {
    Ok(Json(service.client.applications().await?))
}

//! The routes, and the OpenAPI document that is made of them. They serve any listener.

use std::sync::Arc;

use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::super::host::HostView;
use super::super::records::RecordsView;
use super::super::threads::Published;
use super::desk::Inquiry;
use super::query::{self, Pairs};
use crate::api::{
    self, AssociationList, PortList, Problem, RecordsStatus, Runtime, SessionDetail, SessionList,
};
use crate::upf::NotShown;

/// Where answers come from.
#[derive(Clone)]
pub struct Service {
    inquiry: Inquiry,
    workers: Arc<[Published]>,
    records: Option<RecordsView>,
    hosts: HostView,
}

impl Service {
    /// Answers of Control at the far end of `inquiry`, and of what `workers` publish.
    #[must_use]
    pub fn new(inquiry: Inquiry, workers: Vec<Published>) -> Self {
        Self {
            inquiry,
            workers: workers.into(),
            records: None,
            hosts: HostView::default(),
        }
    }

    /// The same, with the interfaces of the host's own network stack.
    #[must_use]
    pub fn with_hosts(mut self, hosts: HostView) -> Self {
        self.hosts = hosts;
        self
    }

    /// The same, with what there is to say of usage records.
    #[must_use]
    pub fn with_records(mut self, records: Option<RecordsView>) -> Self {
        self.records = records;
        self
    }
}

#[derive(OpenApi)]
#[openapi(info(
    title = "Sluice",
    description = "What an operator sees of a running user plane. Served on a Unix socket.",
    license(name = "Apache-2.0", identifier = "Apache-2.0")
))]
struct Document;

fn routes() -> OpenApiRouter<Service> {
    OpenApiRouter::with_openapi(Document::openapi())
        .routes(routes!(runtime))
        .routes(routes!(ports))
        .routes(routes!(associations))
        .routes(routes!(sessions))
        .routes(routes!(session))
        .routes(routes!(records))
}

/// The OpenAPI document, as JSON for people.
#[must_use]
pub fn document() -> String {
    let (_, document) = routes().split_for_parts();
    // Plain values always have a JSON form.
    document.to_pretty_json().unwrap_or_default() + "\n"
}

/// All routes over `service`.
pub fn router(service: Service) -> Router {
    let (router, _) = routes().split_for_parts();
    router
        .route("/openapi.json", get(openapi))
        .fallback(async || Problem::new(StatusCode::NOT_FOUND, "there is nothing here; see /openapi.json"))
        .method_not_allowed_fallback(async || {
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, "this can only be read (GET)")
        })
        .with_state(service)
}

async fn openapi() -> ([(axum::http::HeaderName, &'static str); 1], String) {
    (
        [(axum::http::header::CONTENT_TYPE, "application/json")],
        document(),
    )
}

type Answer<T> = Result<Json<T>, Problem>;
type Asked = Result<Query<Pairs>, QueryRejection>;

fn pairs(asked: Asked) -> Result<Pairs, Problem> {
    let Query(pairs) = asked.map_err(|error| Problem::bad("query", error.body_text()))?;
    Ok(pairs)
}

/// What each stage of each worker has done since the start.
#[utoipa::path(get, path = "/v1/runtime", responses((status = 200, body = Runtime)))]
async fn runtime(State(service): State<Service>) -> Json<Runtime> {
    let stats: Vec<_> = service.workers.iter().map(Published::read).collect();
    Json(Runtime::of(&stats).with_hosts(service.hosts.read()))
}

/// The ports: their links, the members of LAGs, what passed.
#[utoipa::path(
    get,
    path = "/v1/ports",
    responses(
        (status = 200, body = PortList),
        (status = 503, body = Problem, content_type = "application/problem+json", description = "Too many questions"),
    )
)]
async fn ports(State(service): State<Service>) -> Answer<PortList> {
    let stats: Vec<_> = service.workers.iter().map(Published::read).collect();
    Ok(Json(service.inquiry.ports().await?.with_counts(&stats)))
}

/// PFCP associations, a page at a time.
#[utoipa::path(
    get,
    path = "/v1/associations",
    params(
        ("after" = Option<u32>, Query, description = "The `next` of the page before"),
        ("limit" = Option<usize>, Query, minimum = 1, maximum = 500, description = "Rows of the page; 100"),
    ),
    responses(
        (status = 200, body = AssociationList),
        (status = 400, body = Problem, content_type = "application/problem+json", description = "A parameter that cannot be"),
        (status = 503, body = Problem, content_type = "application/problem+json", description = "Too many questions"),
    )
)]
async fn associations(State(service): State<Service>, asked: Asked) -> Answer<AssociationList> {
    let page = query::associations(pairs(asked)?)?;
    Ok(Json(service.inquiry.associations(page.after, page.most).await?))
}

/// PFCP sessions, a page at a time, in the order of their SEIDs: all, or those with everything that is named.
#[utoipa::path(
    get,
    path = "/v1/sessions",
    params(
        ("ue" = Option<String>, Query, description = "An address of the UE, or of a network behind it", example = "10.45.0.2"),
        ("seid" = Option<String>, Query, description = "The local SEID, decimal or hexadecimal"),
        ("teid" = Option<String>, Query, description = "A TEID at one of this node's addresses, decimal or hexadecimal"),
        ("after" = Option<String>, Query, description = "The `next` of the page before"),
        ("limit" = Option<usize>, Query, minimum = 1, maximum = 500, description = "Rows of the page; 100"),
    ),
    responses(
        (status = 200, body = SessionList),
        (status = 400, body = Problem, content_type = "application/problem+json", description = "A parameter that cannot be"),
        (status = 503, body = Problem, content_type = "application/problem+json", description = "Too many questions"),
    )
)]
async fn sessions(State(service): State<Service>, asked: Asked) -> Answer<SessionList> {
    let page = query::sessions(pairs(asked)?)?;
    let found = service.inquiry.sessions(page.query, page.after, page.most);
    Ok(Json(found.await?))
}

/// One session: its rules, what they do now, what was counted.
#[utoipa::path(
    get,
    path = "/v1/sessions/{seid}",
    params(("seid" = String, Path, description = "The local SEID, decimal or hexadecimal")),
    responses(
        (status = 200, body = SessionDetail),
        (status = 400, body = Problem, content_type = "application/problem+json", description = "This is no SEID"),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "There is no such session"),
        (status = 503, body = Problem, content_type = "application/problem+json", description = "Too many questions"),
    )
)]
async fn session(
    State(service): State<Service>,
    path: Result<Path<String>, PathRejection>,
) -> Answer<SessionDetail> {
    let Path(text) = path.map_err(|error| Problem::bad("seid", error.body_text()))?;
    let seid = api::read_seid(&text).map_err(|error| Problem::bad("seid", error))?;
    match service.inquiry.session(seid).await? {
        Ok(detail) => Ok(Json(*detail)),
        Err(NotShown::Unknown) => {
            let detail = format!("there is no session with SEID {}", api::seid(seid.0));
            Err(Problem::new(StatusCode::NOT_FOUND, detail))
        }
        Err(NotShown::Busy) => Err(super::desk::Silent.into()),
    }
}

/// How the writing of usage records goes.
#[utoipa::path(
    get,
    path = "/v1/records",
    responses(
        (status = 200, body = RecordsStatus),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "No usage records are configured"),
    )
)]
async fn records(State(service): State<Service>) -> Answer<RecordsStatus> {
    let none = || {
        Problem::new(
            StatusCode::NOT_FOUND,
            "no usage records are configured (`records`)",
        )
    };
    let view = service.records.as_ref().ok_or_else(none)?;
    Ok(Json(view.read()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Run with `SLUICE_GOLDEN=write` to bring the document up to date.
    #[test]
    fn the_document_in_the_repository_is_that_of_the_routes() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");
        if std::env::var_os("SLUICE_GOLDEN").is_some_and(|how| how == "write") {
            std::fs::write(path, document()).unwrap();
        }
        let written = std::fs::read_to_string(path).unwrap();
        assert_eq!(written, document(), "run the test with SLUICE_GOLDEN=write");
        let json: serde_json::Value = serde_json::from_str(&written).unwrap();
        let paths: Vec<_> = json["paths"].as_object().unwrap().keys().collect();
        assert_eq!(
            paths,
            [
                "/v1/associations",
                "/v1/ports",
                "/v1/records",
                "/v1/runtime",
                "/v1/sessions",
                "/v1/sessions/{seid}"
            ]
        );
    }
}

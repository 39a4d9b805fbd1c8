//! The routes, and the OpenAPI document that is made of them. They serve any listener.

use std::sync::{Arc, LazyLock};

use axum::body::Body;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderName, StatusCode};
use axum::routing::get;
use axum::{Json, Router};
use tokio::sync::Semaphore;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use worker::{MAX_TRACES, Stats};

use super::parameters::{Conditions, NumberedPage};
use super::query::QueryClient;
use super::request::{self, Pairs};
use super::trace;
use crate::LogControl;
use crate::values::{
    AssociationList, HostLink, LogStatus, N4Status, NeighbourList, PathList, PortList, Problem,
    RecordsStatus, RouteList, Runtime, SessionDetail, SessionList, WorkerMemory,
};
use ::trace::{Explainer, TraceLine};
use upf::{InspectError, identifiers};

/// Reads what another thread publishes, as of now.
pub type Reader<T> = Arc<dyn Fn() -> T + Send + Sync>;

/// Where answers come from.
#[derive(Clone)]
pub struct Service {
    client: QueryClient,
    workers: Reader<Vec<Stats>>,
    records: Option<Reader<RecordsStatus>>,
    hosts: Option<Reader<Vec<HostLink>>>,
    /// By worker, as it was found at the start.
    memory: Arc<[WorkerMemory]>,
    explainer: Option<Arc<Explainer>>,
    log: Option<LogControl>,
    /// Traces that may begin.
    traces: Arc<Semaphore>,
}

impl Service {
    /// Answers of Control at the far end of `client`, and of what `workers` publish.
    #[must_use]
    pub fn new(client: QueryClient, workers: Reader<Vec<Stats>>) -> Self {
        Self {
            client,
            workers,
            records: None,
            hosts: None,
            memory: Arc::default(),
            explainer: None,
            log: None,
            traces: Arc::new(Semaphore::new(MAX_TRACES)),
        }
    }

    /// The same, with the interfaces of the host's own network stack.
    #[must_use]
    pub fn with_hosts(mut self, hosts: Reader<Vec<HostLink>>) -> Self {
        self.hosts = Some(hosts);
        self
    }

    /// The same, with where the workers' memory is.
    #[must_use]
    pub fn with_memory(mut self, memory: Vec<WorkerMemory>) -> Self {
        self.memory = memory.into();
        self
    }

    /// The same, with what there is to say of usage records.
    #[must_use]
    pub fn with_records(mut self, records: Option<Reader<RecordsStatus>>) -> Self {
        self.records = records;
        self
    }
}

impl Service {
    /// The same, with what says how much is logged.
    #[must_use]
    pub fn with_log(mut self, log: LogControl) -> Self {
        self.log = Some(log);
        self
    }

    /// The same, with who explains packets.
    #[must_use]
    pub fn with_explainer(mut self, explainer: Explainer) -> Self {
        self.explainer = Some(Arc::new(explainer));
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
        .routes(routes!(paths))
        .routes(routes!(ways))
        .routes(routes!(neighbours))
        .routes(routes!(n4))
        .routes(routes!(log_level, set_log_level))
        .routes(routes!(associations))
        .routes(routes!(sessions))
        .routes(routes!(session))
        .routes(routes!(records))
        .routes(routes!(trace_packets))
        .routes(routes!(mirror_packets))
        .routes(routes!(export))
        .routes(routes!(export_end))
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
            Problem::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "not by this method; see /openapi.json",
            )
        })
        .with_state(service)
}

async fn openapi() -> ([(HeaderName, &'static str); 1], String) {
    static DOCUMENT: LazyLock<String> = LazyLock::new(document);
    ([(CONTENT_TYPE, "application/json")], DOCUMENT.clone())
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
    let hosts = service.hosts.as_ref().map(|read| read()).unwrap_or_default();
    let runtime = Runtime::of(&(service.workers)());
    Json(runtime.with_hosts(hosts).with_memory(&service.memory))
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
    let ports = service.client.ports().await?;
    Ok(Json(ports.with_counts(&(service.workers)())))
}

/// Paths to GTP-U peers whose MTU is less than our links', as routers have reported.
#[utoipa::path(
    get,
    path = "/v1/paths",
    responses(
        (status = 200, body = PathList),
        (status = 503, body = Problem, content_type = "application/problem+json", description = "Too many questions"),
    )
)]
async fn paths(State(service): State<Service>) -> Answer<PathList> {
    Ok(Json(service.client.paths().await?))
}

/// Routes, a page at a time: of each VRF its prefixes, with their routers and whether these are there.
#[utoipa::path(
    get,
    path = "/v1/routes",
    params(NumberedPage),
    responses(
        (status = 200, body = RouteList),
        (status = 400, body = Problem, content_type = "application/problem+json", description = "A parameter that cannot be"),
        (status = 503, body = Problem, content_type = "application/problem+json", description = "Too many questions"),
    )
)]
async fn ways(State(service): State<Service>, asked: Asked) -> Answer<RouteList> {
    let page = request::numbered(pairs(asked)?)?;
    Ok(Json(service.client.routes(page.after, page.most).await?))
}

/// Neighbours on the links, a page at a time.
#[utoipa::path(
    get,
    path = "/v1/neighbours",
    params(NumberedPage),
    responses(
        (status = 200, body = NeighbourList),
        (status = 400, body = Problem, content_type = "application/problem+json", description = "A parameter that cannot be"),
        (status = 503, body = Problem, content_type = "application/problem+json", description = "Too many questions"),
    )
)]
async fn neighbours(State(service): State<Service>, asked: Asked) -> Answer<NeighbourList> {
    let page = request::numbered(pairs(asked)?)?;
    Ok(Json(service.client.neighbours(page.after, page.most).await?))
}

/// N4 as a whole: who may speak, what was sent and received by message type, what was refused by cause.
#[utoipa::path(
    get,
    path = "/v1/n4",
    responses(
        (status = 200, body = N4Status),
        (status = 503, body = Problem, content_type = "application/problem+json", description = "Too many questions"),
    )
)]
async fn n4(State(service): State<Service>) -> Answer<N4Status> {
    Ok(Json(service.client.n4().await?))
}

/// How much is logged.
#[utoipa::path(
    get,
    path = "/v1/log",
    responses(
        (status = 200, body = LogStatus),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "There is no log"),
    )
)]
async fn log_level(State(service): State<Service>) -> Answer<LogStatus> {
    Ok(Json(log_of(&service)?.status()))
}

/// Says how much is logged from now on, until the daemon ends.
#[utoipa::path(
    put,
    path = "/v1/log",
    params(("level" = String, Query, description = "off, error, warn, info, debug or trace", example = "debug")),
    responses(
        (status = 200, body = LogStatus),
        (status = 400, body = Problem, content_type = "application/problem+json", description = "A parameter that cannot be"),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "There is no log"),
    )
)]
async fn set_log_level(State(service): State<Service>, asked: Asked) -> Answer<LogStatus> {
    let level = request::log_level(pairs(asked)?)?;
    let log = log_of(&service)?;
    log.set(level);
    Ok(Json(log.status()))
}

fn log_of(service: &Service) -> Result<&LogControl, Problem> {
    let none = || Problem::new(StatusCode::NOT_FOUND, "there is no log");
    service.log.as_ref().ok_or_else(none)
}

/// PFCP associations, a page at a time.
#[utoipa::path(
    get,
    path = "/v1/associations",
    params(NumberedPage),
    responses(
        (status = 200, body = AssociationList),
        (status = 400, body = Problem, content_type = "application/problem+json", description = "A parameter that cannot be"),
        (status = 503, body = Problem, content_type = "application/problem+json", description = "Too many questions"),
    )
)]
async fn associations(State(service): State<Service>, asked: Asked) -> Answer<AssociationList> {
    let page = request::numbered(pairs(asked)?)?;
    Ok(Json(service.client.associations(page.after, page.most).await?))
}

/// PFCP sessions, a page at a time, in the order of their SEIDs: all, or those with everything that is named.
#[utoipa::path(
    get,
    path = "/v1/sessions",
    params(
        ("ue" = Option<String>, Query, description = "An address of the UE, or of a network behind it", example = "10.45.0.2"),
        ("seid" = Option<String>, Query, description = "The local SEID, decimal or hexadecimal"),
        ("teid" = Option<String>, Query, description = "A TEID at one of this node's addresses, decimal or hexadecimal"),
        ("imsi" = Option<String>, Query, description = "The IMSI of whom they are for; a page may have fewer rows than `limit`, or none, and a `next`", example = "001010000000001"),
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
    let page = request::sessions(pairs(asked)?)?;
    let found = service.client.sessions(page.query, page.after, page.most);
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
    let seid = identifiers::read_seid(&text).map_err(|error| Problem::bad("seid", error))?;
    match service.client.session(seid).await? {
        Ok(detail) => Ok(Json(*detail)),
        Err(InspectError::UnknownSession) => {
            let detail = format!("there is no session with SEID {}", identifiers::seid(seid.0));
            Err(Problem::new(StatusCode::NOT_FOUND, detail))
        }
        Err(InspectError::Busy) => Err(super::query::QueryTimeout.into()),
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
    Ok(Json(view()))
}

/// Packets explained one by one, as they come: lines of JSON, the last of which is the end. Only packets for which all
/// that is given holds. Up to four at a time.
#[utoipa::path(
    get,
    path = "/v1/trace",
    params(
        Conditions,
        ("count" = Option<u64>, Query, minimum = 1, maximum = 1_000_000, description = "Packets at most; 100"),
        ("seconds" = Option<u64>, Query, minimum = 1, maximum = 3_600, description = "Seconds at most; 60"),
        ("rate" = Option<u32>, Query, minimum = 1, maximum = 10_000, description = "Packets a second of each worker at most; 1000"),
        ("snap" = Option<u16>, Query, minimum = 64, maximum = 9_216, description = "Octets of each packet that are kept; 512"),
        ("octets" = Option<bool>, Query, description = "Whether the packets' octets are reported, too; false"),
    ),
    responses(
        (status = 200, body = TraceLine, content_type = "application/x-ndjson"),
        (status = 400, body = Problem, content_type = "application/problem+json", description = "A parameter that cannot be"),
        (status = 503, body = Problem, content_type = "application/problem+json", description = "Too many questions, or too many traces"),
    )
)]
async fn trace_packets(
    State(service): State<Service>,
    asked: Asked,
) -> Result<([(HeaderName, &'static str); 1], Body), Problem> {
    let busy = |words: &str| Problem::new(StatusCode::SERVICE_UNAVAILABLE, words);
    let explainer = service
        .explainer
        .ok_or_else(|| busy("nothing can be traced here"))?;
    let wanted = request::trace(pairs(asked)?, &explainer)?;
    let place = service.traces.try_acquire_owned().map_err(|_| busy(TOO_MANY))?;
    let rings = service.client.trace(wanted.terms(), trace::ROOM).await?;
    let lines = trace::stream(wanted, rings, explainer, place);
    Ok(([(CONTENT_TYPE, "application/x-ndjson")], Body::new(lines)))
}

const TOO_MANY: &str = "as many traces and mirrors as there may be are under way";

/// Copies packets to a port, or in a tunnel to a host, as long as the answer is read: that is one line of JSON, how it
/// ended. Only packets for which all that is given holds. Up to four traces and mirrors at a time.
#[utoipa::path(
    post,
    path = "/v1/mirror",
    params(
        Conditions,
        ("to_port" = Option<String>, Query, description = "Copies go to this port as they are"),
        ("to_gre" = Option<String>, Query, description = "Copies go to this address in GRE"),
        ("key" = Option<u32>, Query, description = "GRE's key; without it there is none"),
        ("to_vxlan" = Option<String>, Query, description = "Copies go to this address in VXLAN"),
        ("vni" = Option<u32>, Query, maximum = 16_777_215, description = "VXLAN's network identifier"),
        ("by" = Option<String>, Query, description = "The network instance whose routes lead to that address"),
        ("which" = Option<String>, Query, description = "received, sent, or both; received"),
        ("count" = Option<u64>, Query, minimum = 1, description = "Packets of each worker at most"),
        ("seconds" = Option<u64>, Query, minimum = 1, maximum = 86_400, description = "Seconds at most; 600"),
        ("rate" = Option<u32>, Query, minimum = 1, maximum = 1_000_000, description = "Packets a second of each worker at most; 100000"),
        ("snap" = Option<u16>, Query, minimum = 64, maximum = 1_792, description = "Octets of each packet that are copied; 1792"),
    ),
    responses(
        (status = 200, body = TraceLine, content_type = "application/x-ndjson"),
        (status = 400, body = Problem, content_type = "application/problem+json", description = "A parameter that cannot be"),
        (status = 409, body = Problem, content_type = "application/problem+json", description = "There is no way to that address"),
        (status = 503, body = Problem, content_type = "application/problem+json", description = "Too many questions, or too many traces and mirrors"),
    )
)]
async fn mirror_packets(
    State(service): State<Service>,
    asked: Asked,
) -> Result<([(HeaderName, &'static str); 1], Body), Problem> {
    let busy = |words: &str| Problem::new(StatusCode::SERVICE_UNAVAILABLE, words);
    let explainer = service
        .explainer
        .ok_or_else(|| busy("nothing can be mirrored here"))?;
    let (wanted, copies) = request::mirror(pairs(asked)?, &explainer)?;
    let place = service.traces.try_acquire_owned().map_err(|_| busy(TOO_MANY))?;
    let mirroring = service.client.mirror(wanted.terms(), copies).await?;
    let (rings, hold) = mirroring.map_err(|why| Problem::new(StatusCode::CONFLICT, why.to_string()))?;
    let lines = trace::stream(wanted, rings, explainer, (place, hold));
    Ok(([(CONTENT_TYPE, "application/x-ndjson")], Body::new(lines)))
}

/// The records of everything that another process needs to continue: the node with its Recovery Time Stamp,
/// applications, associations, sessions. With `take` this process falls silent and its sessions leave it; within half a
/// minute `/v1/export/end` is to say what became of them, else they come back.
#[utoipa::path(
    post,
    path = "/v1/export",
    params(("how" = String, Query, description = "copy: sessions stay here; take: they leave", example = "take")),
    responses(
        (status = 200, description = "Session records", content_type = "application/octet-stream"),
        (status = 400, body = Problem, content_type = "application/problem+json", description = "A parameter that cannot be"),
        (status = 409, body = Problem, content_type = "application/problem+json", description = "There are no records, or another export is under way"),
        (status = 503, body = Problem, content_type = "application/problem+json", description = "Too many questions"),
    )
)]
async fn export(
    State(service): State<Service>,
    asked: Asked,
) -> Result<([(HeaderName, &'static str); 1], Body), Problem> {
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
    params(("taken" = bool, Query, description = "Whether the records are safe")),
    responses(
        (status = 204, description = "So it is"),
        (status = 400, body = Problem, content_type = "application/problem+json", description = "A parameter that cannot be"),
        (status = 409, body = Problem, content_type = "application/problem+json", description = "No export waits for that: the sessions are back here"),
        (status = 503, body = Problem, content_type = "application/problem+json", description = "Too many questions"),
    )
)]
async fn export_end(State(service): State<Service>, asked: Asked) -> Result<StatusCode, Problem> {
    let taken = request::taken(pairs(asked)?)?;
    if service.client.end_export(taken).await? {
        return Ok(StatusCode::NO_CONTENT);
    }
    let words = "no export waits for that: the sessions are here";
    Err(Problem::new(StatusCode::CONFLICT, words))
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
                "/v1/export",
                "/v1/export/end",
                "/v1/log",
                "/v1/mirror",
                "/v1/n4",
                "/v1/neighbours",
                "/v1/paths",
                "/v1/ports",
                "/v1/records",
                "/v1/routes",
                "/v1/runtime",
                "/v1/sessions",
                "/v1/sessions/{seid}",
                "/v1/trace"
            ]
        );
    }
}

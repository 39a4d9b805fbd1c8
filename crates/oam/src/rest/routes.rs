//! The routes: one module for each resource. They serve any listener.
//!
//! Each route names the role that it needs as `x-role` in its `#[utoipa::path]`: [`authorization`] lets no other
//! request through than one of a caller with that role.

mod access_lists;
mod alarms;
mod caller;
mod configuration;
mod contents;
mod export;
mod live;
mod log;
mod metrics;
mod n4;
mod nat;
mod network;
mod offload;
mod packets;
mod ports;
mod queues;
mod records;
mod runtime;
mod sessions;
mod slices;
mod store;
mod tokens;

use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderName, StatusCode};
use axum::middleware::{from_fn_with_state, map_response};
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) use self::metrics::wanted_format;
use super::authorization::{self, Authorization, RouteRoles};
use super::document::{complete, head};
use super::request_body::LONGEST_BODY;
use super::screening;
use super::service::Service;
use crate::page;
use crate::values::Problem;

fn routes() -> OpenApiRouter<Service> {
    OpenApiRouter::with_openapi(head())
        .routes(routes!(openapi))
        .routes(routes!(caller::caller))
        .routes(routes!(live::live))
        .routes(routes!(runtime::runtime))
        .routes(routes!(alarms::alarms))
        .routes(routes!(alarms::events))
        .routes(routes!(metrics::metrics))
        .routes(routes!(metrics::ts28552))
        .routes(routes!(ports::ports))
        .routes(routes!(network::paths))
        .routes(routes!(network::ways))
        .routes(routes!(network::neighbours))
        .routes(routes!(n4::n4))
        .routes(routes!(n4::associations))
        .routes(routes!(n4::applications))
        .routes(routes!(access_lists::access_lists))
        .routes(routes!(contents::contents))
        .routes(routes!(nat::nat))
        .routes(routes!(nat::nat_owner))
        .routes(routes!(nat::nat_mappings))
        .routes(routes!(offload::offload))
        .routes(routes!(queues::queues))
        .routes(routes!(slices::slices))
        .routes(routes!(log::log_level, log::set_log_level))
        .routes(routes!(configuration::running, configuration::commit))
        .routes(routes!(configuration::versions))
        .routes(routes!(configuration::version_text))
        .routes(routes!(configuration::differences))
        .routes(routes!(configuration::confirm))
        .routes(routes!(configuration::rollback))
        .routes(routes!(sessions::sessions))
        .routes(routes!(sessions::session))
        .routes(routes!(records::records))
        .routes(routes!(store::store))
        .routes(routes!(packets::trace_packets))
        .routes(routes!(packets::mirror_packets))
        .routes(routes!(export::export))
        .routes(routes!(export::export_end))
        .routes(routes!(tokens::tokens, tokens::create_token))
        .routes(routes!(tokens::revoke_token))
}

/// The routes, and the document that describes them.
fn described() -> (Router<Service>, OpenApi) {
    let (router, mut described) = routes().split_for_parts();
    complete(&mut described);
    (router, described)
}

/// The OpenAPI document, as JSON for people.
#[must_use]
pub fn document() -> String {
    // Plain values always have a JSON form.
    described().1.to_pretty_json().unwrap_or_default() + "\n"
}

/// All routes over `service`. The listener puts the [`Caller`](super::Caller) into the extensions of each request.
pub fn router(service: Service) -> Router {
    let (router, described) = described();
    let authorization = Arc::new(Authorization {
        roles: RouteRoles::of(&described),
        auditor: service.auditor.clone(),
    });
    router
        .route_layer(from_fn_with_state(authorization, authorization::authorize))
        .merge(page::router())
        .fallback(async || Problem::new(StatusCode::NOT_FOUND, "there is nothing here; see /openapi.json"))
        .method_not_allowed_fallback(async || {
            Problem::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "not by this method; see /openapi.json",
            )
        })
        .layer(DefaultBodyLimit::max(LONGEST_BODY))
        .layer(map_response(screening::guard_browsers))
        .with_state(service)
}

/// This document.
#[utoipa::path(
    get,
    path = "/openapi.json",
    extensions(("x-role" = json!("viewer"))),
    responses((status = 200, description = "OpenAPI 3.1", content_type = "application/json"))
)]
async fn openapi() -> ([(HeaderName, &'static str); 1], String) {
    static DOCUMENT: LazyLock<String> = LazyLock::new(document);
    ([(CONTENT_TYPE, "application/json")], DOCUMENT.clone())
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::extract::Request;
    use axum::http::Method;
    use tokio::runtime::Builder;
    use tower::ServiceExt;

    use super::*;
    use crate::rest::authorization::Described;
    use crate::rest::{Auditor, Caller, PeerAddress, Role, query_channel};

    /// Run with `SLUICE_GOLDEN=write` to bring the document up to date.
    #[test]
    fn the_document_in_the_repository_is_that_of_the_routes() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");
        if std::env::var_os("SLUICE_GOLDEN").is_some_and(|how| how == "write") {
            std::fs::write(path, document()).unwrap();
        }
        let written = std::fs::read_to_string(path).unwrap();
        assert_eq!(written, document(), "run the test with SLUICE_GOLDEN=write");
    }

    #[test]
    fn every_route_names_its_role() {
        let (_, described) = described();
        let without: Vec<_> = authorization::operations(&described)
            .filter(|operation| operation.role.is_none())
            .map(|operation| format!("{} {}", operation.method, operation.path))
            .collect();
        assert_eq!(
            without,
            Vec::<String>::new(),
            "these have no x-role of viewer, operator or admin"
        );
    }

    /// Every route, with every caller: it is refused exactly to those whose role is not enough.
    #[test]
    fn a_route_is_served_to_those_who_have_its_role() {
        let (_, described) = described();
        let (client, server) = query_channel();
        // So each query fails at once.
        drop(server);
        let router = router(Service::new(client, Arc::new(Vec::new)));
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        for operation in authorization::operations(&described) {
            let needed = operation.role.unwrap();
            for role in [None].into_iter().chain(Role::ALL.map(Some)) {
                let request = request(&operation, role);
                let status = runtime
                    .block_on(router.clone().oneshot(request))
                    .unwrap()
                    .status();
                let expected = match role {
                    None => Some(StatusCode::UNAUTHORIZED),
                    Some(role) if role < needed => Some(StatusCode::FORBIDDEN),
                    Some(_) => None,
                };
                let refused = [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN].contains(&status);
                assert_eq!(
                    refused.then_some(status),
                    expected,
                    "{} {} as {role:?}",
                    operation.method,
                    operation.path
                );
            }
        }
    }

    fn request(operation: &Described<'_>, role: Option<Role>) -> Request<Body> {
        // A value for what a path names.
        let path = operation.path.replace(['{', '}'], "");
        let mut request = Request::new(Body::empty());
        *request.method_mut() = operation.method.clone();
        *request.uri_mut() = path.parse().unwrap();
        if let Some(role) = role {
            let caller = Caller {
                name: "test".into(),
                role,
                address: PeerAddress::Unix,
            };
            request.extensions_mut().insert(caller);
        }
        request
    }

    /// Served or refused, and nothing that is only looked at.
    #[test]
    fn what_changes_something_is_written_down() {
        let directory = std::env::temp_dir().join(format!("audited-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&directory);
        let good = include_str!("../../../../examples/open5gs.yaml");
        let text = format!(
            "{good}\ncontrol: {{audit: {{directory: {}}}}}\n",
            directory.display()
        );
        let config = config::Config::parse(&text, "f").unwrap();
        let auditor = Auditor::open(config.control.audit.as_ref().unwrap()).unwrap();
        let (client, server) = query_channel();
        drop(server);
        let router = router(Service::new(client, Arc::new(Vec::new)).with_auditor(Some(auditor)));
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let (_, described) = described();
        let ask = |method: Method, path: &str, role| {
            let operation = authorization::operations(&described)
                .find(|operation| operation.method == method && operation.path == path)
                .unwrap();
            let request = request(&operation, Some(role));
            runtime
                .block_on(router.clone().oneshot(request))
                .unwrap()
                .status()
        };
        ask(Method::GET, "/v1/n4", Role::Admin);
        let refused = ask(Method::POST, "/v1/export", Role::Viewer);
        let served = ask(Method::POST, "/v1/tokens", Role::Admin);
        let handle = ::records::DirectoryHandle::to_read(&directory).unwrap();
        let mut lines = Vec::new();
        let take = |line: &audit::Line, _: &[u8]| {
            lines.push(line.entry.clone());
            true
        };
        audit::read(handle.names().unwrap(), |name| handle.read(name), take).unwrap();
        let verified = audit::verify(handle.names().unwrap(), |name| handle.read(name), None).unwrap();
        let _ = std::fs::remove_dir_all(&directory);
        assert!(verified.is_sound(), "{verified:?}");
        assert_eq!(lines.len(), 4, "{lines:?}");
        let of = |line: &audit::Entry| match line {
            audit::Entry::Request { caller, target, .. } => (caller.role.clone(), target.clone()),
            other => panic!("{other:?}"),
        };
        assert!(
            matches!(&lines[1], audit::Entry::Refused { what, count: 1, .. } if what == "role"),
            "{lines:?}"
        );
        assert_eq!(of(&lines[2]), ("admin".into(), "/v1/tokens".into()));
        let result = audit::Entry::Result {
            request: 3,
            status: served.as_u16(),
        };
        assert_eq!(lines[3], result);
        assert_eq!(refused, StatusCode::FORBIDDEN);
    }

    /// Packets and what changes something are not for those who only watch.
    #[test]
    fn what_changes_something_or_shows_packets_is_for_no_viewer() {
        let (_, described) = described();
        for operation in authorization::operations(&described) {
            let shows_packets = ["/v1/trace", "/v1/mirror", "/v1/export"]
                .iter()
                .any(|path| operation.path.starts_with(path));
            if shows_packets || operation.method != Method::GET {
                assert!(
                    operation.role > Some(Role::Viewer),
                    "{} {}",
                    operation.method,
                    operation.path
                );
            }
        }
    }
}

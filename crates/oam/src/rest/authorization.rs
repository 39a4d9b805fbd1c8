//! Whether a caller may do what it asks for. Each route's role is that of the OpenAPI document; a route that names none
//! is served to no caller.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use utoipa::openapi::path::Operation;
use utoipa::openapi::{OpenApi, PathItem};

use super::auditor::request_entry;
use super::{Auditor, Caller, Role};
use crate::values::Problem;

/// Where a route names its role.
const ROLE: &str = "x-role";

/// A route as the document describes it.
pub(super) struct Described<'a> {
    pub(super) path: &'a str,
    pub(super) method: Method,
    /// The least role that is served; none where the document names none that is known.
    pub(super) role: Option<Role>,
}

/// All routes of a document.
pub(super) fn operations(document: &OpenApi) -> impl Iterator<Item = Described<'_>> {
    document.paths.paths.iter().flat_map(|(path, item)| {
        by_method(item)
            .into_iter()
            .filter_map(move |(method, operation)| {
                let named = operation?.extensions.as_ref();
                let named = named.and_then(|extensions| extensions.get(ROLE)?.as_str());
                let role = named.and_then(|role| role.parse().ok());
                Some(Described { path, method, role })
            })
    })
}

fn by_method(item: &PathItem) -> [(Method, Option<&Operation>); 5] {
    [
        (Method::GET, item.get.as_ref()),
        (Method::PUT, item.put.as_ref()),
        (Method::POST, item.post.as_ref()),
        (Method::DELETE, item.delete.as_ref()),
        (Method::PATCH, item.patch.as_ref()),
    ]
}

/// The same, to be completed.
pub(super) fn operations_mut(document: &mut OpenApi) -> impl Iterator<Item = &mut Operation> {
    document.paths.paths.values_mut().flat_map(|item| {
        let operations = [
            item.get.as_mut(),
            item.put.as_mut(),
            item.post.as_mut(),
            item.delete.as_mut(),
            item.patch.as_mut(),
        ];
        operations.into_iter().flatten()
    })
}

/// The role that each route needs.
pub(super) struct RouteRoles(HashMap<String, Vec<(Method, Role)>>);

impl RouteRoles {
    /// As a document has them.
    pub(super) fn of(document: &OpenApi) -> Self {
        let mut roles: HashMap<String, Vec<(Method, Role)>> = HashMap::new();
        for Described { path, method, role } in operations(document) {
            if let Some(role) = role {
                roles.entry(path.to_owned()).or_default().push((method, role));
            }
        }
        Self(roles)
    }

    /// The role that a request by this method to this route needs. What is read without its body needs the same as what
    /// is read.
    fn needed(&self, method: &Method, path: &str) -> Option<Role> {
        let read = if method == Method::HEAD {
            &Method::GET
        } else {
            method
        };
        let by_method = self.0.get(path)?;
        let found = by_method.iter().find(|(method, _)| method == read);
        found.map(|(_, role)| *role)
    }
}

/// What decides, and what writes down how.
pub(super) struct Authorization {
    pub(super) roles: RouteRoles,
    pub(super) auditor: Option<Auditor>,
}

/// Lets a request through if its caller has the role that the route needs. What changes something, or what not every
/// caller may see, is written to the audit log; refusals are counted there.
pub(super) async fn authorize(
    State(authorization): State<Arc<Authorization>>,
    path: MatchedPath,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let Some(caller) = request.extensions().get::<Caller>() else {
        let words = "a bearer token or a client certificate is needed";
        return Err(Problem::new(StatusCode::UNAUTHORIZED, words));
    };
    let Some(needed) = authorization.roles.needed(request.method(), path.as_str()) else {
        return Err(Problem::new(StatusCode::FORBIDDEN, "this route names no role"));
    };
    let is_audited = !request.method().is_safe() || needed > Role::Viewer;
    let Some(auditor) = authorization.auditor.as_ref().filter(|_| is_audited) else {
        return serve(needed, request, next).await;
    };
    if caller.role < needed {
        // One line a minute, not two for each: it is no way to fill the disk.
        auditor.role_refused(&caller.name).await;
        return serve(needed, request, next).await;
    }
    let entry = request_entry(caller, &request);
    let line = auditor.request(entry).await?;
    let served = serve(needed, request, next).await;
    let response = served.unwrap_or_else(IntoResponse::into_response);
    auditor.result(line, response.status()).await;
    Ok(response)
}

async fn serve(needed: Role, request: Request, next: Next) -> Result<Response, Problem> {
    if let Some(caller) = request
        .extensions()
        .get::<Caller>()
        .filter(|caller| caller.role < needed)
    {
        return Err(Problem {
            role: Some(needed.to_string()),
            ..Problem::new(
                StatusCode::FORBIDDEN,
                format!("the role {needed} is needed; {} is {}", caller.name, caller.role),
            )
        });
    }
    Ok(next.run(request).await)
}

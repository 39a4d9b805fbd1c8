//! What the OpenAPI document says of all routes alike: how a caller is recognised, and how it is refused.

use utoipa::OpenApi as _;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::openapi::{ContentBuilder, OpenApi, Ref, RefOr, Response, ResponseBuilder, SecurityRequirement};

use super::authorization::operations_mut;
use crate::values::{AlarmNotification, Problem};

#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Sluice",
        description = "What an operator sees of a running user plane and asks of it. Served on a Unix socket, whose \
                       callers the kernel names, and over TLS 1.3 to callers with a bearer token or a certificate. Each \
                       operation names the role that it needs as `x-role`: `viewer`, `operator` or `admin`, each of \
                       which may do what those before it may.",
        license(name = "Apache-2.0", identifier = "Apache-2.0")
    ),
    components(schemas(AlarmNotification, Problem))
)]
struct Head;

/// The document without routes.
pub(super) fn head() -> OpenApi {
    Head::openapi()
}

/// Adds to a document with all routes what holds for each of them.
pub(super) fn complete(document: &mut OpenApi) {
    let components = document.components.get_or_insert_default();
    let mut bearer = Http::new(HttpAuthScheme::Bearer);
    bearer.description = Some("A token of `sluice token create`".into());
    components.add_security_scheme("bearer", SecurityScheme::Http(bearer));
    let certificate = SecurityScheme::MutualTls {
        description: Some("A client certificate with a name that the configuration gives a role".into()),
        deprecated: None,
        extensions: None,
    };
    components.add_security_scheme("certificate", certificate);
    let schemes = ["bearer", "certificate"];
    document.security = Some(
        schemes
            .map(|scheme| SecurityRequirement::new(scheme, [""; 0]))
            .into(),
    );
    for operation in operations_mut(document) {
        for (status, description) in [
            ("401", "The caller is not known"),
            ("403", "The caller's role is not enough"),
        ] {
            let responses = &mut operation.responses.responses;
            responses.insert(status.to_owned(), RefOr::T(problem(description)));
        }
    }
}

fn problem(description: &str) -> Response {
    let content = ContentBuilder::new()
        .schema(Some(Ref::from_schema_name("Problem")))
        .build();
    ResponseBuilder::new()
        .description(description)
        .content("application/problem+json", content)
        .build()
}

//! Single packets: traces and mirrors.

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;

use crate::rest::answer::{Asked, Streamed, pairs};
use crate::rest::parameters::Conditions;
use crate::rest::service::Service;
use crate::rest::{Caller, request, trace};
use crate::values::Problem;
use ::trace::TraceLine;

/// Packets explained one by one, as they come: lines of JSON, the last of which is the end. Only packets for which all
/// that is given holds. Up to four at a time.
#[utoipa::path(
    get,
    path = "/v1/trace",
    extensions(("x-role" = json!("operator"))),
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
pub(super) async fn trace_packets(
    State(service): State<Service>,
    Extension(caller): Extension<Caller>,
    asked: Asked,
) -> Streamed {
    let busy = |words: &str| Problem::new(StatusCode::SERVICE_UNAVAILABLE, words);
    let explainer = service
        .explainer
        .map(|explainer| explainer.now())
        .ok_or_else(|| busy("nothing can be traced here"))?;
    let wanted = request::trace(pairs(asked)?, &explainer)?;
    let place = service.traces.take(&caller)?;
    let rings = service.client.trace(wanted.terms(), trace::ROOM).await?;
    let lines = trace::stream(wanted, rings, explainer, place);
    Ok(([(CONTENT_TYPE, "application/x-ndjson")], Body::new(lines)))
}

/// Copies packets to a port, or in a tunnel to a host, as long as the answer is read: that is one line of JSON, how it
/// ended. Only packets for which all that is given holds. Up to four traces and mirrors at a time.
#[utoipa::path(
    post,
    path = "/v1/mirror",
    extensions(("x-role" = json!("operator"))),
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
pub(super) async fn mirror_packets(
    State(service): State<Service>,
    Extension(caller): Extension<Caller>,
    asked: Asked,
) -> Streamed {
    let busy = |words: &str| Problem::new(StatusCode::SERVICE_UNAVAILABLE, words);
    let explainer = service
        .explainer
        .map(|explainer| explainer.now())
        .ok_or_else(|| busy("nothing can be mirrored here"))?;
    let (wanted, copies) = request::mirror(pairs(asked)?, &explainer)?;
    let place = service.traces.take(&caller)?;
    let mirroring = service.client.mirror(wanted.terms(), copies).await?;
    let (rings, hold) = mirroring.map_err(|why| Problem::new(StatusCode::CONFLICT, why.to_string()))?;
    let lines = trace::stream(wanted, rings, explainer, (place, hold));
    Ok(([(CONTENT_TYPE, "application/x-ndjson")], Body::new(lines)))
}

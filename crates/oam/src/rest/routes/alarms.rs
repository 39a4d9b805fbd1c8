//! Alarms, and what becomes of them.

use axum::body::Body;
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderName};
use axum::{Extension, Json};

use crate::rest::Caller;
use crate::rest::alarm_stream;
use crate::rest::answer::{Answer, Asked, pairs};
use crate::rest::request;
use crate::rest::service::Service;
use crate::values::{AlarmEvent, AlarmList, Problem};

type Stream = Result<([(HeaderName, &'static str); 2], Body), Problem>;

/// What is wrong now, the worst first.
#[utoipa::path(
    get,
    path = "/v1/alarms",
    extensions(("x-role" = json!("viewer"))),
    responses((status = 200, body = AlarmList))
)]
pub(super) async fn alarms(State(service): State<Service>) -> Answer<AlarmList> {
    Ok(Json(service.alarms.lock().list()))
}

/// Alarms as they are raised and cleared: a stream of server-sent events, `raised` and `cleared`, each with its number
/// as its id and an alarm event as its data. It begins behind the event that `Last-Event-ID` or `after` names, as far
/// as events are kept (1,000), else with the oldest. Comments keep it alive.
#[utoipa::path(
    get,
    path = "/v1/events",
    extensions(("x-role" = json!("viewer"))),
    params(
        ("after" = Option<u64>, Query, description = "The number of an event; 0"),
        ("Last-Event-ID" = Option<u64>, Header, description = "The same; it counts more than `after`"),
    ),
    responses(
        (status = 200, body = AlarmEvent, content_type = "text/event-stream"),
        (status = 400, body = Problem, content_type = "application/problem+json", description = "A parameter that cannot be"),
        (status = 503, body = Problem, content_type = "application/problem+json", description = "Too many streams"),
    )
)]
pub(super) async fn events(
    State(service): State<Service>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    asked: Asked,
) -> Stream {
    let named = request::after_event(pairs(asked)?)?;
    let last = headers.get("last-event-id").and_then(|value| value.to_str().ok());
    let last = last.map(|text| {
        text.parse()
            .map_err(|_| Problem::bad("Last-Event-ID", "must be a number"))
    });
    let after = last.transpose()?.unwrap_or(named);
    let place = service.event_streams.take(&caller)?;
    let events = place.with(alarm_stream::stream(service.alarms, after));
    let headers = [(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-store")];
    Ok((headers, Body::new(events)))
}

//! Metrics for Prometheus and others that scrape.

use std::sync::PoisonError;
use std::time::Duration;

use axum::extract::State;
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderName};

use crate::metrics::{Format, Scrape, WorkerSnapshot, render, render_ts28552};
use crate::rest::routes::contents::content_rows;
use crate::rest::service::Service;
use crate::values::Problem;

type Text = Result<([(HeaderName, &'static str); 1], String), Problem>;

/// All metrics, as OpenMetrics 1.0 or as the Prometheus text format 0.0.4, by `Accept`.
#[utoipa::path(
    get,
    path = "/metrics",
    extensions(("x-role" = json!("viewer"))),
    responses(
        (status = 200, body = String, content_type = "text/plain"),
        (status = 503, body = Problem, content_type = "application/problem+json", description = "Too many questions"),
    )
)]
pub(super) async fn metrics(State(service): State<Service>, headers: HeaderMap) -> Text {
    let format = wanted_format(&headers);
    let scrape = scrape(&service).await?;
    Ok(([(CONTENT_TYPE, format.content_type())], render(format, &scrape)))
}

/// The measurements of TS 28.552 for UPFs, in the same formats.
#[utoipa::path(
    get,
    path = "/metrics/ts28552",
    extensions(("x-role" = json!("viewer"))),
    responses(
        (status = 200, body = String, content_type = "text/plain"),
        (status = 503, body = Problem, content_type = "application/problem+json", description = "Too many questions"),
    )
)]
pub(super) async fn ts28552(State(service): State<Service>, headers: HeaderMap) -> Text {
    let format = wanted_format(&headers);
    let scrape = scrape(&service).await?;
    let text = render_ts28552(format, &scrape);
    Ok(([(CONTENT_TYPE, format.content_type())], text))
}

/// The format that a request asks for.
pub(in crate::rest) fn wanted_format(headers: &HeaderMap) -> Format {
    let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok());
    Format::wanted(accept.unwrap_or_default())
}

async fn scrape(service: &Service) -> Result<Scrape, Problem> {
    let control = *service.client.metrics().await?;
    let mut workers = WorkerSnapshot {
        stats: (service.workers)(),
        ..WorkerSnapshot::default()
    };
    if let Some(gauges) = &service.gauges {
        workers.holdings = (gauges.holdings)();
        workers.buffers = (gauges.buffers)();
        workers.groups = (gauges.group_totals)();
        workers.nat = (gauges.nat_counts)();
        workers.egress = (gauges.egress)();
        workers.accelerators = (gauges.accelerators)();
        workers.ticks_per_second = gauges.ticks_per_second;
        workers.flow_entries_limit = gauges.flow_entries_limit;
    }
    let contents = content_rows(service).await?;
    let nat_pools = service.client.nat_pools().await?;
    let shapers = match workers.egress.iter().any(|worker| worker.queues_limit > 0) {
        true => service.client.queue_plan().await?.shapers,
        false => Vec::new(),
    };
    let uptime = Duration::from_secs_f64(control.uptime);
    let mut load = service.load.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(Scrape {
        busiest_worker: load.busiest(uptime, workers.busy_seconds()),
        records: service.records.as_ref().map(|read| read()),
        store: service.store.as_ref().map(|read| read()),
        contents,
        nat_pools,
        shapers,
        control,
        workers,
    })
}

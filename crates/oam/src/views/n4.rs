//! N4 as a whole.

use std::collections::BTreeMap;

use flow::Nanos;
use n4::Counters;
use pfcp::ie::Cause;

use upf::Control;

use super::rows::date;
use crate::values::{ApplicationList, ApplicationRow, N4Cause, N4Message, N4Status};

/// What N4 has done since the start.
#[must_use]
pub fn n4(control: &Control) -> N4Status {
    let endpoint = control.endpoint();
    let (in_work, unanswered) = endpoint.outstanding();
    let (answers_bytes, answers_evicted) = endpoint.response_cache();
    let config = endpoint.config();
    let associations = || endpoint.associations();
    N4Status {
        version: env!("CARGO_PKG_VERSION").into(),
        node: config.node.to_string(),
        addresses: control.addresses().iter().map(ToString::to_string).collect(),
        peers: config
            .peers
            .iter()
            .map(|peers| peers.prefix.to_string())
            .collect(),
        since: date(control, Nanos::ZERO.into()),
        associations: associations().count(),
        reachable: associations().filter(|one| one.reachable).count(),
        sessions: endpoint.sessions().count().sessions,
        in_work,
        unanswered,
        answers_bytes,
        answers_evicted,
        messages: messages(control),
        refused: causes(endpoint.message_counters().refused()),
        refused_by_peers: causes(endpoint.message_counters().refused_by_peers()),
        not_served: not_served(endpoint.counters()),
        counts: counts(endpoint.counters()),
    }
}

fn messages(control: &Control) -> Vec<N4Message> {
    let messages = control.endpoint().message_counters().messages();
    let row = |(message_type, count): (pfcp::MessageType, n4::MessageCount)| N4Message {
        number: message_type.0,
        message: message_type.name().to_owned(),
        received: count.received,
        duplicates: count.duplicates,
        refused: count.refused,
        sent: count.sent,
        resent: count.resent,
    };
    messages.map(row).collect()
}

fn causes(all: impl Iterator<Item = (Cause, u64)>) -> Vec<N4Cause> {
    let row = |(cause, count): (Cause, u64)| N4Cause {
        cause: cause.value(),
        text: cause.name().to_owned(),
        count,
    };
    all.map(row).collect()
}

/// The endpoint's counters of what was not served, by name.
fn not_served(counters: &Counters) -> BTreeMap<String, u64> {
    let Counters {
        malformed,
        other_version,
        unexpected,
        unmatched_responses,
        unauthorised,
        outside_peers,
        unknown_over_rate,
        unverified,
        throttled,
        ..
    } = *counters;
    table(&[
        ("malformed", malformed),
        ("other_version", other_version),
        ("unexpected", unexpected),
        ("unmatched_responses", unmatched_responses),
        ("unauthorised", unauthorised),
        ("outside_peers", outside_peers),
        ("unknown_source_over_rate", unknown_over_rate),
        ("unverified", unverified),
        ("throttled", throttled),
    ])
}

/// All other counters of the endpoint, by name.
fn counts(counters: &Counters) -> BTreeMap<String, u64> {
    let Counters {
        datagrams,
        answered,
        rejected,
        replayed,
        in_work,
        requests,
        retransmissions,
        unanswered,
        events,
        events_merged,
        events_dropped,
        reports_refused,
        reports_retried,
        reports_unreadable,
        usage_refused,
        usage_unreadable,
        usage_unanswered,
        node_reports,
        paths_unsupervised,
        bundles,
        peer_restarts,
        setups_refused,
        stale_applications,
        doubted_recoveries,
        evicted_associations,
        unreachable_rates,
        misplaced_ies,
        unencodable,
        // Those of `not_served`.
        malformed: _,
        other_version: _,
        unexpected: _,
        unmatched_responses: _,
        unauthorised: _,
        outside_peers: _,
        unknown_over_rate: _,
        unverified: _,
        throttled: _,
    } = *counters;
    table(&[
        ("datagrams", datagrams),
        ("requests_answered", answered),
        ("requests_rejected", rejected),
        ("duplicates_answered", replayed),
        ("duplicates_in_work", in_work),
        ("requests_sent", requests),
        ("retransmissions_sent", retransmissions),
        ("requests_unanswered", unanswered),
        ("events", events),
        ("events_merged", events_merged),
        ("events_dropped", events_dropped),
        ("reports_refused", reports_refused),
        ("reports_retried", reports_retried),
        ("reports_unreadable", reports_unreadable),
        ("usage_refused", usage_refused),
        ("usage_unreadable", usage_unreadable),
        ("usage_unanswered", usage_unanswered),
        ("node_reports", node_reports),
        ("paths_unsupervised", paths_unsupervised),
        ("bundles", bundles),
        ("peer_restarts", peer_restarts),
        ("setups_refused", setups_refused),
        ("stale_applications", stale_applications),
        ("doubted_recoveries", doubted_recoveries),
        ("evicted_associations", evicted_associations),
        ("unreachable_rates", unreachable_rates),
        ("misplaced_ies", misplaced_ies),
        ("unencodable", unencodable),
    ])
}

fn table(all: &[(&str, u64)]) -> BTreeMap<String, u64> {
    let all = all.iter();
    all.map(|(name, count)| ((*name).to_owned(), *count)).collect()
}

/// The applications that PDRs may name.
#[must_use]
pub fn applications(control: &Control) -> ApplicationList {
    let row = |one: n4::ApplicationSummary<'_>| ApplicationRow {
        id: one.id.escape_ascii().to_string(),
        is_configured: one.is_configured,
        flows: one.flows,
        urls: one.urls,
        domains: one.domains,
        expressions: one.expressions,
    };
    ApplicationList {
        applications: control.endpoint().applications().map(row).collect(),
    }
}

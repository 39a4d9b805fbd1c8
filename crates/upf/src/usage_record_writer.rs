//! Usage records of the usage and the ends of sessions that the endpoint reports.
//!
//! Control's thread makes them and hands them to a [`RecordSink`], which never waits: where records go, and what
//! becomes of them when there is no room, is the sink's business.

use std::borrow::Cow;

use flow::{ContentUsage, Nanos};
use n4::{Endpoint, UsageEntry};
use records::{
    Content, EndCause, Entry, Outcome, SessionEnd, SessionLeft, SessionStart, Subject, Unreported, Usage,
    Volumes,
};
use rules::Predefined;
use rules::model::{MeasurementMethod, SessionRules};
use rules::network::Network;
use session::{Moment, Subscriber, UsageRecordEntry, UsageRecordEvent, UsageReport, WallClock};

use super::format;

/// UE addresses, and network instances, that a record names at most: a line has its bound.
const MOST_NAMED: usize = 64;

/// Where usage records go.
pub trait RecordSink: Send {
    /// Takes a record. It does not wait for anything.
    fn put(&mut self, entry: Entry);

    /// The time, in milliseconds since 1970, for records that the sink makes by itself.
    fn set_time(&mut self, _unix_ms: u64) {}

    /// Whether new sessions are to be refused, for there is no room for their records.
    fn refuses_sessions(&mut self) -> bool;
}

/// Control's side of it.
pub(super) struct UsageRecordWriter {
    sink: Box<dyn RecordSink>,
    node: String,
    /// Whether new sessions are refused now.
    refuses: bool,
}

impl UsageRecordWriter {
    pub fn new(node: String, sink: Box<dyn RecordSink>) -> Self {
        Self {
            sink,
            node,
            refuses: false,
        }
    }

    /// Makes records of what the endpoint has counted. Whether there was anything.
    pub fn poll(&mut self, now: Nanos, endpoint: &mut Endpoint, network: &Network) -> bool {
        let wall = endpoint.sessions().wall();
        self.sink.set_time(milliseconds(now.into(), wall));
        let mut busy = false;
        while let Some(usage) = endpoint.poll_usage() {
            let sessions = endpoint.sessions();
            let (predefined, clock) = (sessions.predefined(), sessions.wall());
            self.sink
                .put(entry(usage, &self.node, network, predefined, clock));
            busy = true;
        }
        let refuses = self.sink.refuses_sessions();
        if refuses != self.refuses {
            self.refuses = refuses;
            endpoint.refuse_new_sessions(refuses);
        }
        busy
    }
}

fn entry(
    told: UsageEntry,
    node: &str,
    network: &Network,
    predefined: &Predefined,
    clock: &WallClock,
) -> Entry {
    let subject = subject(&told, node, network);
    let rules = &told.entry.rules;
    match told.entry.event {
        UsageRecordEvent::Content(usage) => {
            Entry::Content(Box::new(content(subject, &usage, predefined, clock)))
        }
        UsageRecordEvent::Usage(report) => Entry::Usage(Box::new(usage(subject, &report, clock))),
        UsageRecordEvent::Unreported { report, why, at } => {
            Entry::Unreported(Box::new(unreported(subject, &report, why, at, clock)))
        }
        UsageRecordEvent::Start {
            start,
            at,
            is_imported,
        } => Entry::SessionStart(Box::new(SessionStart {
            subject,
            time_ms: milliseconds(at, clock),
            start_ms: milliseconds(start, clock),
            imported: is_imported,
            pdrs: rules.pdrs().len() as u32,
            qers: rules.qers().len() as u32,
            urrs: rules.urrs().iter().map(|urr| urr.id.0).collect(),
        })),
        UsageRecordEvent::Left {
            start,
            at,
            reports,
            count,
        } => Entry::SessionLeft(Box::new(SessionLeft {
            subject,
            time_ms: milliseconds(at, clock),
            start_ms: milliseconds(start, clock),
            usage_records: reports,
            volumes: volumes(count),
        })),
        UsageRecordEvent::End {
            cause,
            start,
            end,
            reports,
            count,
        } => Entry::SessionEnd(Box::new(SessionEnd {
            subject,
            cause: end_cause(cause),
            start_ms: milliseconds(start, clock),
            end_ms: milliseconds(end, clock),
            usage_records: reports,
            volumes: volumes(count),
        })),
    }
}

/// The one place that knows what a usage report looks like.
fn usage(subject: Subject, report: &UsageReport, clock: &WallClock) -> Usage {
    Usage {
        subject,
        urr: report.urr.0,
        ur_seqn: report.sequence,
        triggers: report.triggers.names().map(Cow::Borrowed).collect(),
        volumes: volumes(report.count),
        start_ms: milliseconds(report.start, clock),
        end_ms: milliseconds(report.end, clock),
        duration_s: report.duration.map(|seconds| seconds.0.into()),
        events: report
            .method
            .contains(MeasurementMethod::EVENT)
            .then_some(report.count.events),
        first_packet_ms: report.first.map(|first| milliseconds(first, clock)),
        last_packet_ms: report.last.map(|last| milliseconds(last, clock)),
    }
}

fn unreported(
    subject: Subject,
    report: &UsageReport,
    why: session::Unreported,
    at: Moment,
    clock: &WallClock,
) -> Unreported {
    let (outcome, cause) = match why {
        session::Unreported::Refused(cause) => (Outcome::Refused, Some(cause)),
        session::Unreported::Unreadable => (Outcome::Unreadable, None),
        session::Unreported::Unanswered => (Outcome::Unanswered, None),
    };
    Unreported {
        subject,
        urr: report.urr.0,
        ur_seqn: report.sequence,
        triggers: report.triggers.names().map(Cow::Borrowed).collect(),
        volumes: volumes(report.count),
        start_ms: milliseconds(report.start, clock),
        end_ms: milliseconds(report.end, clock),
        time_ms: milliseconds(at, clock),
        outcome,
        cause,
    }
}

fn content(subject: Subject, usage: &ContentUsage, predefined: &Predefined, clock: &WallClock) -> Content {
    let known = predefined.content(usage.content);
    Content {
        subject,
        name: known.map(|content| content.name.to_string()),
        rating_group: known.and_then(|content| content.rating_group),
        service_id: known.and_then(|content| content.service_id),
        volumes: volumes(usage.count),
        start_ms: milliseconds(usage.first.into(), clock),
        end_ms: milliseconds(usage.last.into(), clock),
    }
}

fn volumes(count: flow::UrrCount) -> Volumes {
    Volumes::new(
        [count.ul_octets, count.dl_octets],
        [count.ul_packets, count.dl_packets],
    )
}

pub(super) fn milliseconds(moment: Moment, clock: &WallClock) -> u64 {
    clock.unix_nanos(moment) / 1_000_000
}

const fn end_cause(cause: session::EndCause) -> EndCause {
    match cause {
        session::EndCause::Deleted => EndCause::Deleted,
        session::EndCause::Superseded => EndCause::Superseded,
        session::EndCause::AssociationEnded => EndCause::AssociationEnded,
        session::EndCause::CpRestarted => EndCause::CpRestarted,
        session::EndCause::SetDeleted => EndCause::SetDeleted,
        session::EndCause::Fault => EndCause::Fault,
    }
}

fn subject(told: &UsageEntry, node: &str, network: &Network) -> Subject {
    let UsageRecordEntry {
        seid,
        cp,
        subscriber,
        rules,
        ue_addresses,
        ..
    } = &told.entry;
    let unknown = Subscriber::default();
    let Subscriber {
        imsi,
        imei,
        msisdn,
        nai,
        supi,
        gpsi,
        pei,
        dnn,
        s_nssai,
    } = subscriber.as_deref().unwrap_or(&unknown);
    let text = |text: &Option<Box<str>>| text.as_deref().map(str::to_owned);
    let mut ue: Vec<String> = ue_addresses
        .iter()
        .take(MOST_NAMED)
        .map(|(_, prefix)| format::prefix(prefix))
        .collect();
    ue.dedup();
    Subject {
        node: node.to_owned(),
        smf: told.smf.as_ref().map(ToString::to_string),
        seid: seid.0,
        cp_seid: cp.seid,
        cp_ipv4: cp.ipv4,
        cp_ipv6: cp.ipv6,
        imsi: text(imsi),
        imei: text(imei),
        msisdn: text(msisdn),
        nai: text(nai),
        supi: text(supi),
        gpsi: text(gpsi),
        pei: text(pei),
        dnn: text(dnn),
        s_nssai: *s_nssai,
        ue,
        instances: instances(rules, network),
    }
}

/// The network instances that rules name, each once.
fn instances(rules: &SessionRules, network: &Network) -> Vec<String> {
    let pdrs = rules.pdrs().iter().filter_map(|pdr| pdr.pdi.instance);
    let endpoints = rules.endpoints().iter().filter_map(|one| one.instance);
    let fars = rules.fars().iter().filter_map(|far| far.forwarding?.instance);
    let mut ids: Vec<_> = pdrs.chain(endpoints).chain(fars).collect();
    ids.sort_unstable();
    ids.dedup();
    let named = ids.into_iter().take(MOST_NAMED);
    named.map(|id| format::instance(network, id)).collect()
}

//! One session in full.

use std::net::IpAddr;

use flow::{ContentUsage, UrrCount};
use rules::SessionRules;
use rules::model::{self, BitRates, Gate, Pdr, Qer};
use session::{SessionView, SetId, SetNode, UrrCheckpoint};
use worker::SessionStatus;

use upf::{Control, format, identifiers};

use super::nat::session_nat;
use super::rows::{addresses, date, dnn, imsi, node_of, state};
use crate::values::{self as api, Correlation, Counts, CpFSeid, Rates, SessionDetail, SessionQueue, Tunnel};

/// The unit of a Downlink Data Notification Delay (TS 29.244 §8.2.28), milliseconds.
const DELAY_UNIT_MS: u32 = 50;

/// All of a session. `status` is what its worker says; `None` where it does not have it.
#[must_use]
pub fn session_detail(
    control: &Control,
    session: &SessionView<'_>,
    status: Option<&SessionStatus>,
) -> SessionDetail {
    let rules = session.rules();
    let mut pdrs: Vec<&Pdr> = rules.pdrs().iter().collect();
    pdrs.sort_by_key(|pdr| pdr.precedence);
    let checkpoints = status.and_then(|status| session.usage(&status.counters));
    let checkpoint = |urr| checkpoints.as_ref()?.iter().find(|one| one.urr == urr);
    let endpoints = rules.endpoints().iter();
    let cp = session.cp();
    let cp_addresses = cp.ipv4.map(IpAddr::V4).into_iter().chain(cp.ipv6.map(IpAddr::V6));
    SessionDetail {
        seid: identifiers::seid(session.seid().0),
        state: state(session),
        waiting: session.waiting(),
        worker: control.owner(session.bucket()).0,
        bucket: session.bucket().index() as u16,
        flows: status.map(|status| status.flows),
        node: node_of(control, session),
        cp_f_seid: CpFSeid {
            seid: identifiers::seid(cp.seid),
            addresses: cp_addresses.map(|address| address.to_string()).collect(),
        },
        sets: sets(session.sets()),
        ue: addresses(session),
        imsi: imsi(session),
        dnn: dnn(session),
        tunnels: session
            .tunnels()
            .iter()
            .filter_map(|one| tunnel(control, *one))
            .collect(),
        nat: session_nat(control, session, status),
        queues: queues(control, status),
        pdrs: pdrs.into_iter().map(|one| pdr(control, session, one)).collect(),
        fars: rules
            .fars()
            .iter()
            .map(|one| far(control, rules, one, status))
            .collect(),
        qers: rules
            .qers()
            .iter()
            .map(|one| qer_of(control, session, one))
            .collect(),
        urrs: rules
            .urrs()
            .iter()
            .map(|one| urr(control, one, checkpoint(one.id)))
            .collect(),
        contents: status
            .into_iter()
            .flat_map(|status| &status.contents)
            .map(|usage| content(control, usage))
            .collect(),
        bars: rules.bars().iter().map(bar).collect(),
        endpoints: endpoints
            .map(|one| api::Endpoint {
                id: one.id.0,
                matches: format::endpoint(control.network(), rules, one),
            })
            .collect(),
    }
}

fn tunnel(control: &Control, (local, teid): session::Tunnel) -> Option<Tunnel> {
    let (instance, address) = control.network().local_addresses().get(local.index())?;
    Some(Tunnel {
        teid: identifiers::teid(teid),
        address: address.to_string(),
        instance: format::instance(control.network(), *instance),
    })
}

fn qer_of(control: &Control, session: &SessionView<'_>, one: &Qer) -> api::Qer {
    let sessions = control.endpoint().sessions();
    let correlation = one.correlation.map(|id| Correlation {
        id: id.0,
        sessions: sessions.correlated(session.index(), id),
    });
    qer(one, correlation)
}

fn pdr(control: &Control, session: &SessionView<'_>, pdr: &Pdr) -> api::Pdr {
    let rules = session.rules();
    let far = pdr.far.and_then(|id| rules.far(id));
    let without_far = if pdr.rulebases.is_empty() {
        "drop"
    } else {
        "as the predefined rule says"
    };
    api::Pdr {
        id: pdr.id.0,
        precedence: pdr.precedence.0,
        source: format::source(pdr.pdi.source_interface),
        matches: format::matches(control.network(), rules, &pdr.pdi),
        removes: pdr.outer_header_removal.map(format::removal),
        rulebases: pdr
            .rulebases
            .iter()
            .map(|rulebase| rulebase.name().escape_ascii().to_string())
            .collect(),
        far: pdr.far.map(|id| id.0),
        action: far.map_or(without_far.into(), |far| {
            format::action(control.network(), rules, far)
        }),
        qers: pdr.qers.iter().map(|id| id.0).collect(),
        urrs: pdr.urrs.iter().map(|id| id.0).collect(),
    }
}

/// The queues of a session, as its worker says.
fn queues(control: &Control, status: Option<&SessionStatus>) -> Vec<SessionQueue> {
    let classes = control.network().egress().map(|egress| egress.classes.all());
    let class = |place: u8| {
        let class = classes.and_then(|all| all.get(usize::from(place)));
        class.map_or_else(String::new, |class| class.name.clone())
    };
    let queues = status.into_iter().flat_map(|status| &status.queues);
    queues.map(|queue| SessionQueue::of(queue, class)).collect()
}

fn far(
    control: &Control,
    rules: &SessionRules,
    far: &model::Far,
    status: Option<&SessionStatus>,
) -> api::Far {
    let waiting = status.map(|status| &status.waiting[..]).unwrap_or_default();
    let waiting = waiting.iter().find(|(id, _)| *id == far.id);
    api::Far {
        id: far.id.0,
        apply_action: format::flags(far.action),
        action: format::action(control.network(), rules, far),
        bar: far.bar.map(|id| id.0),
        buffered: waiting.map(|(_, count)| *count),
    }
}

fn urr(control: &Control, urr: &model::Urr, checkpoint: Option<&UrrCheckpoint>) -> api::Urr {
    let volume = |volume: &model::Volume| api::Volume {
        total: volume.total,
        uplink: volume.uplink,
        downlink: volume.downlink,
    };
    api::Urr {
        id: urr.id.0,
        measures: format::methods(urr.method),
        since_last_report: checkpoint.map(|one| counts(one.used())),
        events: checkpoint
            .filter(|_| urr.counts_events())
            .map(|one| one.count.events),
        since: checkpoint.map(|one| date(control, one.since)),
        next_ur_seqn: checkpoint.map(|one| one.next),
        volume_threshold: urr.volume_threshold.as_deref().map(volume),
        volume_quota: urr.volume_quota.as_deref().map(volume),
        time_threshold: urr.time_threshold,
        time_quota: urr.time_quota,
        event_threshold: urr.terms().event_threshold,
        event_quota: urr.terms().event_quota,
    }
}

fn content(control: &Control, usage: &ContentUsage) -> api::ContentCounts {
    let known = control.endpoint().sessions().predefined().content(usage.content);
    api::ContentCounts {
        content: known.map(|content| content.name.to_string()),
        rating_group: known.and_then(|content| content.rating_group),
        service_id: known.and_then(|content| content.service_id),
        counts: counts(usage.count),
        since: date(control, usage.first.into()),
    }
}

fn counts(count: UrrCount) -> Counts {
    Counts {
        uplink_packets: count.ul_packets,
        uplink_octets: count.ul_octets,
        downlink_packets: count.dl_packets,
        downlink_octets: count.dl_octets,
    }
}

fn qer(qer: &Qer, correlation: Option<Correlation>) -> api::Qer {
    let rates = |rates: BitRates| Rates {
        uplink: rates.ul.0,
        downlink: rates.dl.0,
    };
    api::Qer {
        id: qer.id.0,
        correlation,
        uplink_open: qer.gate_ul == Gate::Open,
        downlink_open: qer.gate_dl == Gate::Open,
        mbr: qer.mbr.map(rates),
        gbr: qer.optional.gbr.map(rates),
        qfi: qer.qfi.map(|qfi| qfi.get()),
        rqi: qer.rqi,
        ppi: qer.ppi.map(|ppi| ppi.get()),
        service_class: qer.sci,
    }
}

fn bar(bar: &model::Bar) -> api::Bar {
    api::Bar {
        id: bar.id.0,
        notification_delay_ms: bar
            .notification_delay
            .map(|delay| u32::from(delay) * DELAY_UNIT_MS),
        suggested_packets: bar.extended_packets.or(bar.suggested_packets.map(u16::from)),
    }
}

fn sets(sets: &session::Sets) -> Vec<String> {
    let id = |SetId { kind, node, number }: &SetId| {
        let node = match node {
            SetNode::Ipv4(address) => address.to_string(),
            SetNode::Ipv6(address) => address.to_string(),
            SetNode::Operator(number) => format!("operator's node {number}"),
        };
        let kind = kind
            .map(|kind| format!(" of node type {kind}"))
            .unwrap_or_default();
        format!("FQ-CSID {number} at {node}{kind}")
    };
    let group = sets
        .group
        .iter()
        .map(|group| format!("group {}", group.escape_ascii()));
    let reports = sets.reports_to.map(|to| {
        let both = to.ipv4.map(IpAddr::V4).into_iter().chain(to.ipv6.map(IpAddr::V6));
        let addresses: Vec<String> = both.map(|address| address.to_string()).collect();
        format!("reports to {}", addresses.join(" or "))
    });
    sets.ids.iter().map(id).chain(group).chain(reports).collect()
}

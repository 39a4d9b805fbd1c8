//! The measurements of TS 28.552 for UPFs, as far as they are known: names of the standard, values of the metrics.
//!
//! Names in the text are those that Open5GS gives them: the class of the managed object and the measurement, in lower
//! case, with `fivegs_` before. [`ROWS`] says of each what it counts; docs/reference/ts28552.md has the same.

use std::collections::BTreeMap;

use flow::{SessionGroupId, SessionGroupTotal};
use pfcp::MessageType;
use worker::{PortStats, Stats};

use super::control::GroupCounts;
use super::exposition::{Exposition, Family, Metric};
use super::scrape::Scrape;
use super::slices::forwarded_of;

/// A measurement.
#[derive(Debug)]
pub struct Measurement {
    /// Its name in the standard.
    pub name: &'static str,
    /// The clause of TS 28.552 V18.
    pub clause: &'static str,
    /// Its metric.
    pub metric: Metric,
    /// What it is made of here, and how that differs.
    pub made_of: &'static str,
    write: fn(&Scrape, &mut Family<'_>),
}

const NONE: &[&str] = &[];
const SNSSAI: &[&str] = &["snssai"];

/// All measurements.
pub static ROWS: &[Measurement] = &[
    Measurement {
        name: "GTP.InDataPktN3UPF",
        clause: "5.4.1.1",
        metric: Metric::counter(
            "fivegs_ep_n3_gtp_indatapktn3upf",
            NONE,
            "Incoming GTP data packets on N3.",
        ),
        made_of: "`sluice_user_matched_packets_total{direction=\"uplink\"}`: packets of N9 are not distinguished from \
                  those of N3",
        write: |scrape, family| {
            let sum = sum(scrape, |stats| stats.directions[UPLINK].matched.packets);
            family.sample(&[], sum);
        },
    },
    Measurement {
        name: "GTP.InDataPktN3UPF.SNSSAI",
        clause: "5.4.1.1",
        metric: Metric::counter(
            "fivegs_ep_n3_gtp_indatapktn3upf_snssai",
            SNSSAI,
            "Incoming GTP data packets on N3, by S-NSSAI.",
        ),
        made_of: "`sluice_slice_forwarded_packets_total{direction=\"uplink\"}`: those that left, without those that rules have dropped. Sessions without an S-NSSAI, and those together as `other`, are in no subcounter",
        write: |scrape, family| write_slices(scrape, family, |total| total.packets[UPLINK]),
    },
    Measurement {
        name: "GTP.OutDataPktN3UPF",
        clause: "5.4.1.2",
        metric: Metric::counter(
            "fivegs_ep_n3_gtp_outdatapktn3upf",
            NONE,
            "Outgoing GTP data packets on N3.",
        ),
        made_of: "`sluice_user_forwarded_packets_total{direction=\"downlink\"}`; otherwise as the first",
        write: |scrape, family| {
            let sum = sum(scrape, |stats| stats.directions[DOWNLINK].forwarded.packets);
            family.sample(&[], sum);
        },
    },
    Measurement {
        name: "GTP.OutDataPktN3UPF.SNSSAI",
        clause: "5.4.1.2",
        metric: Metric::counter(
            "fivegs_ep_n3_gtp_outdatapktn3upf_snssai",
            SNSSAI,
            "Outgoing GTP data packets on N3, by S-NSSAI.",
        ),
        made_of: "`sluice_slice_forwarded_packets_total{direction=\"downlink\"}`",
        write: |scrape, family| write_slices(scrape, family, |total| total.packets[DOWNLINK]),
    },
    Measurement {
        name: "GTP.InDataOctN3UPF",
        clause: "5.4.1.3",
        metric: Metric::counter(
            "fivegs_ep_n3_gtp_indataoctn3upf",
            NONE,
            "Octets of incoming GTP data packets on N3.",
        ),
        made_of: "`sluice_user_matched_bytes_total{direction=\"uplink\"}`: the user packets, without GTP-U headers; \
                  otherwise as the first",
        write: |scrape, family| {
            let sum = sum(scrape, |stats| stats.directions[UPLINK].matched.octets);
            family.sample(&[], sum);
        },
    },
    Measurement {
        name: "GTP.InDataOctN3UPF.SNSSAI",
        clause: "5.4.1.3",
        metric: Metric::counter(
            "fivegs_ep_n3_gtp_indataoctn3upf_snssai",
            SNSSAI,
            "Octets of incoming GTP data packets on N3, by S-NSSAI.",
        ),
        made_of: "`sluice_slice_forwarded_bytes_total{direction=\"uplink\"}`: those that left, without those that rules have dropped",
        write: |scrape, family| write_slices(scrape, family, |total| total.octets[UPLINK]),
    },
    Measurement {
        name: "GTP.OutDataOctN3UPF",
        clause: "5.4.1.4",
        metric: Metric::counter(
            "fivegs_ep_n3_gtp_outdataoctn3upf",
            NONE,
            "Octets of outgoing GTP data packets on N3.",
        ),
        made_of: "`sluice_user_forwarded_bytes_total{direction=\"downlink\"}`: the user packets, without GTP-U headers; \
                  otherwise as the first",
        write: |scrape, family| {
            let sum = sum(scrape, |stats| stats.directions[DOWNLINK].forwarded.octets);
            family.sample(&[], sum);
        },
    },
    Measurement {
        name: "GTP.OutDataOctN3UPF.SNSSAI",
        clause: "5.4.1.4",
        metric: Metric::counter(
            "fivegs_ep_n3_gtp_outdataoctn3upf_snssai",
            SNSSAI,
            "Octets of outgoing GTP data packets on N3, by S-NSSAI.",
        ),
        made_of: "`sluice_slice_forwarded_bytes_total{direction=\"downlink\"}`",
        write: |scrape, family| write_slices(scrape, family, |total| total.octets[DOWNLINK]),
    },
    Measurement {
        name: "IP.N6IncLinkUsage.N6RP",
        clause: "5.4.2.1",
        metric: Metric::counter("fivegs_ep_n6_ip_n6inclinkusage", N6, "Octets that came in by N6."),
        made_of: "`sluice_port_received_bytes_total` of ports all of whose network instances have the role `n6` alone: \
                  whole frames; the label `n6rp` is the port",
        write: |scrape, family| write_n6(scrape, family, |port| port.rx.octets),
    },
    Measurement {
        name: "IP.N6OutLinkUsage.N6RP",
        clause: "5.4.2.2",
        metric: Metric::counter("fivegs_ep_n6_ip_n6outlinkusage", N6, "Octets that left by N6."),
        made_of: "`sluice_port_sent_bytes_total` of such ports",
        write: |scrape, family| write_n6(scrape, family, |port| port.tx.octets),
    },
    Measurement {
        name: "SM.N4SessionEstabReq",
        clause: "5.4.3.1",
        metric: Metric::counter(
            "fivegs_upffunction_sm_n4sessionestabreq",
            NONE,
            "Requested N4 session establishments.",
        ),
        made_of: "Session Establishment Requests of `sluice_pfcp_received_messages_total`, without \
                  `sluice_pfcp_received_retransmissions_total`",
        write: |scrape, family| {
            let messages = &scrape.control.n4.messages;
            let ours = messages
                .iter()
                .filter(|one| one.number == MessageType::SESSION_ESTABLISHMENT_REQUEST.0);
            let requests = ours.map(|one| one.received - one.duplicates).sum::<u64>();
            family.sample(&[], requests);
        },
    },
    Measurement {
        name: "SM.N4SessionEstabFail.cause",
        clause: "5.4.3.2",
        metric: Metric::counter(
            "fivegs_upffunction_sm_n4sessionestabfail",
            &["cause"],
            "Failed N4 session establishments.",
        ),
        made_of: "Session Establishment Requests of `sluice_pfcp_refused_requests_total`; the label `cause` is the \
                  number of the PFCP cause",
        write: |scrape, family| {
            let name = MessageType::SESSION_ESTABLISHMENT_REQUEST.name();
            for one in scrape.control.refusals.iter().filter(|one| one.message == name) {
                family.sample(&[&one.cause.to_string()], one.count);
            }
        },
    },
    Measurement {
        name: "SM.N4SessionReport",
        clause: "5.4.3",
        metric: Metric::counter(
            "fivegs_upffunction_sm_n4sessionreport",
            NONE,
            "Requested N4 session reports.",
        ),
        made_of: "Session Report Requests of `sluice_pfcp_sent_messages_total`",
        write: |scrape, family| {
            let messages = &scrape.control.n4.messages;
            let ours = messages
                .iter()
                .filter(|one| one.number == MessageType::SESSION_REPORT_REQUEST.0);
            family.sample(&[], ours.map(|one| one.sent).sum::<u64>());
        },
    },
];

const N6: &[&str] = &["n6rp"];
const UPLINK: usize = 0;
const DOWNLINK: usize = 1;

fn sum(scrape: &Scrape, value: impl Fn(&Stats) -> u64) -> u64 {
    scrape.workers.stats.iter().map(value).sum()
}

/// By slice, all of its data networks together.
fn write_slices(scrape: &Scrape, family: &mut Family<'_>, reading: fn(&SessionGroupTotal) -> u64) {
    let named = |group: &&GroupCounts| !group.slice.is_empty() && group.number != SessionGroupId::OTHERS;
    let mut slices = BTreeMap::<&str, u64>::new();
    for group in scrape.control.groups.iter().filter(named) {
        *slices.entry(&group.slice).or_default() += reading(&forwarded_of(group, &scrape.workers.groups));
    }
    for (slice, sum) in slices {
        family.sample(&[slice], sum);
    }
}

fn write_n6(scrape: &Scrape, family: &mut Family<'_>, value: impl Fn(&PortStats) -> u64) {
    for (place, names) in scrape.control.port_names.iter().enumerate() {
        if names.is_n6 {
            let octets = sum(scrape, |stats| stats.ports.get(place).map_or(0, &value));
            family.sample(&[&names.port], octets);
        }
    }
}

/// Writes all measurements.
pub(super) fn write(to: &mut Exposition, scrape: &Scrape) {
    for row in ROWS {
        (row.write)(scrape, &mut to.family(&row.metric));
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::*;

    /// Run with `SLUICE_GOLDEN=write` to bring the page up to date.
    #[test]
    fn the_page_has_every_measurement() {
        let mut page = String::from(include_str!("ts28552_head.txt"));
        for row in ROWS {
            let labels = row.metric.labels.join("`, `");
            let labels = if labels.is_empty() {
                String::new()
            } else {
                format!("; `{labels}`")
            };
            let _ = writeln!(
                page,
                "| {} | {} | `{}`{labels} | {} |",
                row.clause,
                row.name,
                row.metric.sample_name(),
                row.made_of
            );
        }
        crate::metrics::tests::assert_page("ts28552.md", &page);
    }
}

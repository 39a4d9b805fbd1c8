//! Metrics: the text of a scrape, from what workers publish and what control knows.
//!
//! Nothing is counted for metrics: workers and control have plain counters, which are read when a client asks. No
//! metric has a series for each UE or session; that is what the API is for. What peers name (slices, DNNs, SMFs) is
//! bounded.

mod accelerator;
mod accelerator_node;
mod contents;
mod control;
mod exposition;
mod load;
mod nat;
mod queues;
mod records;
mod scrape;
mod slices;
mod store;
mod ts28552;
mod worker;

pub use accelerator_node::render_accelerator_node;
pub(crate) use control::type_label;
pub use control::{
    ControlLoad, ControlSnapshot, GroupCounts, NeighbourCount, PoolCount, RefusalCount, SmfCount,
};
pub use exposition::{Exposition, Format, Kind, MOST_SERIES, Metric};
pub use load::LoadWindow;
pub use scrape::Scrape;
pub(crate) use slices::forwarded_of;
pub use ts28552::{Measurement, ROWS as TS28552};
pub use worker::{PacketBuffers, PortNames, WorkerSnapshot};

const LOAD: Metric = Metric::gauge(
    "sluice_load_ratio",
    &[],
    "The load, 0 to 1, for scaling: the largest of the busiest worker since the last scrape, control, and sessions \
     over their limit.",
);
const BUSIEST: Metric = Metric::gauge(
    "sluice_busiest_worker_ratio",
    &[],
    "The share of time, 0 to 1, in which the busiest worker worked since the last scrape.",
);
const SERIES: Metric = Metric::gauge(
    "sluice_metrics_series",
    &[],
    "Series of this text before this one.",
);
const OMITTED: Metric = Metric::gauge(
    "sluice_metrics_series_omitted",
    &[],
    "Series that were left out of this text, because there are too many.",
);

/// Room for the series that say how many there are.
const LAST: usize = 2;

/// The text of the metrics.
#[must_use]
pub fn render(format: Format, scrape: &Scrape) -> String {
    write(format, MOST_SERIES, scrape).finish()
}

/// The text of the measurements of TS 28.552.
#[must_use]
pub fn render_ts28552(format: Format, scrape: &Scrape) -> String {
    let mut to = Exposition::new(format, MOST_SERIES);
    ts28552::write(&mut to, scrape);
    to.finish()
}

fn write(format: Format, most: usize, scrape: &Scrape) -> Exposition {
    let mut to = Exposition::new(format, most.saturating_sub(LAST));
    to.single(&LOAD, scrape.load());
    to.single(&BUSIEST, scrape.busiest_worker);
    control::write(&mut to, &scrape.control);
    if let Some(records) = &scrape.records {
        records::write(&mut to, records);
    }
    if let Some(store) = &scrape.store {
        store::write(&mut to, store);
    }
    worker::write(&mut to, &scrape.workers, &scrape.control.port_names);
    slices::write(&mut to, scrape);
    if !scrape.nat_pools.is_empty() {
        nat::write(&mut to, &scrape.nat_pools, &scrape.workers.nat);
    }
    if scrape.workers.egress.iter().any(|worker| worker.queues_limit > 0) {
        queues::write(&mut to, &scrape.workers.egress, &scrape.shapers);
    }
    accelerator::write(&mut to, &scrape.workers.accelerators);
    // Last: of these there may be more than there is room for.
    contents::write(&mut to, &scrape.contents);
    let (series, omitted) = (to.series(), to.omitted());
    to.grow(LAST);
    to.single(&SERIES, series);
    to.single(&OMITTED, omitted);
    to
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fmt::Write;

    use ::nat::mappings::MappingStats;
    use ::worker::{EgressCounts, Holdings, NatCounts, Stats};
    use flow::{SessionGroupId, SessionGroupTotal};

    use super::*;
    use crate::values::{
        ContentRow, N4Message, N4Status, NatPoolRow, PortList, PortRow, RecordsState, RecordsStatus,
        RestoredSessions, ShaperPart, ShaperStatus, StoreState, StoreStatus, UnreportedCounts,
        accelerator_view,
    };

    /// Compares a page of docs/reference with what the code says; `SLUICE_GOLDEN=write` writes it.
    pub(super) fn assert_page(name: &str, page: &str) {
        let path = format!("{}/../../docs/reference/{name}", env!("CARGO_MANIFEST_DIR"));
        if std::env::var_os("SLUICE_GOLDEN").is_some_and(|how| how == "write") {
            std::fs::write(&path, page).unwrap();
        }
        let written = std::fs::read_to_string(&path).unwrap();
        assert_eq!(written, page, "run the test with SLUICE_GOLDEN=write");
    }

    /// A row of a page's table for each metric.
    pub(super) fn add_rows(page: &mut String, metrics: &[&'static Metric]) {
        for metric in metrics {
            let labels = metric.labels.iter().map(|label| format!("`{label}`"));
            let kind = format!("{:?}", metric.kind).to_lowercase();
            let _ = writeln!(
                page,
                "| `{}` | {kind} | {} | {} |",
                metric.sample_name(),
                labels.collect::<Vec<_>>().join(", "),
                metric.help
            );
        }
    }

    fn message() -> N4Message {
        N4Message {
            number: 50,
            message: "Session Establishment Request".into(),
            received: 7,
            duplicates: 2,
            refused: 1,
            sent: 0,
            resent: 0,
        }
    }

    fn scrape(workers: usize) -> Scrape {
        let mut stats = Stats::new(2);
        stats.directions[0].matched.packets = 5;
        stats.ports[1].rx.octets = 100;
        stats.stages[0].ticks = 500;
        let member = PortRow {
            member_of: Some("core".into()),
            ..PortRow::new(0, "a", true)
        };
        let names = |port: &str, is_n6| PortNames {
            port: port.into(),
            network_instance: "internet".into(),
            is_n6,
        };
        Scrape {
            workers: WorkerSnapshot {
                stats: vec![stats; workers],
                holdings: vec![Holdings::default(); workers],
                nat: vec![nat_counts(); workers],
                groups: vec![vec![SessionGroupTotal::default(), group_total()]; workers],
                egress: vec![egress_counts(); workers],
                accelerators: vec![Some(accelerator_view()); workers],
                buffers: vec![PacketBuffers { used: 1, limit: 2 }; workers],
                ticks_per_second: 1_000,
                flow_entries_limit: 100,
            },
            control: ControlSnapshot {
                n4: n4(message()),
                refusals: vec![RefusalCount {
                    message: "Session Establishment Request".into(),
                    cause: 74,
                    count: 1,
                }],
                uptime: 12.5,
                smfs: vec![SmfCount {
                    smf: "smf\"1".into(),
                    is_up: true,
                    sessions: 30,
                    tunnels: 60,
                }],
                smfs_omitted: 0,
                groups: vec![GroupCounts {
                    slice: "1-010203".into(),
                    dnn: "internet".into(),
                    number: SessionGroupId::new(1).unwrap(),
                    sessions: 30,
                    joined: 40,
                }],
                sessions_limit: 100,
                tunnels: 60,
                ue_addresses: 30,
                paths: 2,
                failed_paths: 1,
                pools: vec![PoolCount {
                    pool: "ues".into(),
                    used: 30,
                    limit: 256,
                }],
                neighbours: vec![NeighbourCount {
                    network_instance: "internet".into(),
                    state: "reachable",
                    count: 1,
                }],
                ports: PortList {
                    ports: vec![member, PortRow::new(1, "core", true)],
                },
                port_names: vec![names("a", false), names("core", true)],
                load: ControlLoad::default(),
            },
            records: Some(records()),
            store: Some(store()),
            contents: vec![content("video", Some(100)), content("video", None)],
            nat_pools: vec![nat_pool()],
            shapers: vec![shaper(None), shaper(Some(100_000_000))],
            busiest_worker: 0.2,
        }
    }

    fn egress_counts() -> EgressCounts {
        EgressCounts {
            queues: 3,
            queues_limit: 64,
            ..EgressCounts::default()
        }
    }

    fn group_total() -> SessionGroupTotal {
        SessionGroupTotal {
            packets: [3, 4],
            octets: [300, 4_000],
        }
    }

    fn shaper(rate: Option<u64>) -> ShaperStatus {
        let (kind, name, direction) = match rate {
            None => ("port", "ran", None),
            Some(_) => ("policer", "iot", Some("downlink".into())),
        };
        ShaperStatus {
            kind: kind.into(),
            name: name.into(),
            direction,
            rate,
            sends: 8_000,
            octets: 12_345,
            waiting_sessions: 7,
            workers: vec![ShaperPart {
                rate,
                sends: 8_000,
                waiting_sessions: 7,
            }],
        }
    }

    fn nat_counts() -> NatCounts {
        NatCounts {
            mappings: MappingStats {
                made: 7,
                refused: [1, 2, 3, 4, 5, 6],
                mappings: 5,
                ..MappingStats::default()
            },
            limit: 64,
        }
    }

    fn nat_pool() -> NatPoolRow {
        NatPoolRow {
            name: "cgn".into(),
            instance: "internet".into(),
            slice: None,
            dnn: None,
            smf_only: false,
            deterministic: None,
            addresses: vec!["198.51.100.0-198.51.100.1".into()],
            block: 512,
            filtering: "endpoint_independent".into(),
            unsolicited: None,
            blocks: 252,
            held: 3,
            resting: 1,
            reserved: 0,
            free: 248,
            full_addresses: 0,
            exhausted: 2,
        }
    }

    fn content(name: &str, rating_group: Option<u32>) -> ContentRow {
        ContentRow {
            name: name.into(),
            rating_group,
            service_id: None,
            flows: 1,
            uplink_packets: 2,
            uplink_octets: 3,
            downlink_packets: 4,
            downlink_octets: 5,
        }
    }

    fn n4(message: N4Message) -> N4Status {
        N4Status {
            version: "1.0".into(),
            node: "upf".into(),
            addresses: Vec::new(),
            peers: Vec::new(),
            since: String::new(),
            associations: 1,
            reachable: 1,
            sessions: 30,
            in_work: 0,
            unanswered: 0,
            answers_bytes: 0,
            answers_evicted: 0,
            messages: vec![message],
            refused: Vec::new(),
            refused_by_peers: Vec::new(),
            not_served: [("malformed".to_owned(), 1)].into(),
            counts: [("events".to_owned(), 1)].into(),
        }
    }

    fn store() -> StoreStatus {
        StoreStatus {
            directory: "/var/store".into(),
            state: StoreState::Writing,
            error: None,
            changes: 1,
            records: 2,
            live_octets: 3,
            garbage_octets: 4,
            segments: 1,
            segment_index_octets: 6,
            index_octets: 5,
            reserve_octets: 6,
            held: 0,
            held_octets: 0,
            written_octets: 7,
            compacted_octets: 0,
            syncs: 1,
            failures: 0,
            unreadable: 0,
            sessions: RestoredSessions::default(),
        }
    }

    fn records() -> RecordsStatus {
        RecordsStatus {
            directory: "/var/spool".into(),
            state: RecordsState::Writing,
            error: None,
            written: 1,
            octets: 2,
            held: 3,
            held_most: 4,
            lost: 0,
            files: 1,
            syncs: 1,
            failures: 0,
            unreported: UnreportedCounts::default(),
        }
    }

    #[test]
    fn what_workers_have_forwarded_is_summed_by_slice_and_dnn() {
        let text = render(Format::Prometheus, &scrape(2));
        let labels = "slice=\"1-010203\",dnn=\"internet\"";
        for line in [
            format!("sluice_slice_forwarded_packets_total{{{labels},direction=\"uplink\"}} 6"),
            format!("sluice_slice_forwarded_packets_total{{{labels},direction=\"downlink\"}} 8"),
            format!("sluice_slice_forwarded_bytes_total{{{labels},direction=\"downlink\"}} 8000"),
        ] {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
        // What a worker has not published yet is nothing.
        let mut scrape = scrape(1);
        scrape.workers.groups = vec![Vec::new()];
        let text = render(Format::Prometheus, &scrape);
        assert!(
            text.contains(&format!("packets_total{{{labels},direction=\"uplink\"}} 0")),
            "{text}"
        );
    }

    #[test]
    fn pools_of_public_addresses_are_there_if_there_are_any() {
        let mut scrape = scrape(2);
        let text = render(Format::Prometheus, &scrape);
        for line in [
            "sluice_nat_blocks{pool=\"cgn\",state=\"free\"} 248",
            "sluice_nat_pool_exhausted_total{pool=\"cgn\"} 2",
            "sluice_nat_mappings{worker=\"1\"} 5",
            "sluice_nat_mappings_made_total 14",
            "sluice_nat_mappings_refused_total{reason=\"no_port\"} 4",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
        scrape.nat_pools.clear();
        assert!(!render(Format::Prometheus, &scrape).contains("sluice_nat_"));
    }

    #[test]
    fn queues_and_their_rates_are_there_if_there_are_any() {
        let mut scrape = scrape(2);
        scrape.workers.egress[1].lacking = 3;
        scrape.workers.egress[1].priorities[2].waited = 1_500_000_000;
        let text = render(Format::Prometheus, &scrape);
        let policer = "shaper=\"policer\",name=\"iot\",direction=\"downlink\"";
        let port = "shaper=\"port\",name=\"ran\"";
        for line in [
            "sluice_egress_queues{worker=\"1\"} 3".to_owned(),
            "sluice_egress_queues_lacking 3".to_owned(),
            "sluice_egress_wait_seconds_total{priority=\"2\"} 1.5".to_owned(),
            format!("sluice_egress_shaper_limit_bytes_per_second{{{policer}}} 12500000"),
            format!("sluice_egress_shaper_bytes_total{{{policer}}} 12345"),
            format!("sluice_egress_shaper_bytes_total{{{port}}} 12345"),
            format!("sluice_egress_shaper_waiting_sessions{{{policer}}} 7"),
        ] {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
        let no_limit = format!("sluice_egress_shaper_limit_bytes_per_second{{{port}}}");
        assert!(!text.contains(&no_limit), "{text}");
        scrape.workers.egress = vec![EgressCounts::default(); 2];
        assert!(!render(Format::Prometheus, &scrape).contains("sluice_egress_"));
    }

    #[test]
    fn accelerators_are_there_if_a_worker_has_one() {
        let mut scrape = scrape(3);
        scrape.workers.accelerators[0] = None;
        if let Some(view) = &mut scrape.workers.accelerators[2] {
            (view.is_ready, view.mac, view.load.round_trip) = (false, None, None);
        }
        let text = render(Format::Prometheus, &scrape);
        for line in [
            "sluice_accelerator_up{worker=\"1\"} 1",
            "sluice_accelerator_up{worker=\"2\"} 0",
            "sluice_accelerator_sessions{worker=\"1\"} 12",
            "sluice_accelerator_round_trip_seconds{worker=\"1\"} 0.000031",
            "sluice_accelerator_sessions_left_total 82",
            "sluice_accelerator_home_packets_total{reason=\"shared_rate\"} 6",
            "sluice_accelerator_exceptions_total{reason=\"no_flow\"} 600",
            "sluice_accelerator_discarded_frames_total{reason=\"mac\"} 4",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
        assert!(!text.contains("sluice_accelerator_up{worker=\"0\"}"));
        assert!(!text.contains("sluice_accelerator_round_trip_seconds{worker=\"2\"}"));
        scrape.workers.accelerators = vec![None, None];
        assert!(!render(Format::Prometheus, &scrape).contains("sluice_accelerator_"));
    }

    fn samples(text: &str) -> Vec<&str> {
        text.lines().filter(|line| !line.starts_with('#')).collect()
    }

    #[test]
    fn the_load_is_that_of_what_is_nearest_its_end() {
        assert_eq!(scrape(1).load(), 0.3);
        let text = render(Format::Prometheus, &scrape(1));
        assert!(text.contains("\nsluice_load_ratio 0.3\n"), "{text}");
        assert!(text.contains("sluice_worker_stage_seconds_total{stage=\"rx\",worker=\"0\"} 0.5\n"));
        assert!(text.contains("sluice_smf_sessions{smf=\"smf\\\"1\"} 30\n"));
        let content = "content=\"video\",rating_group=\"100\",direction=\"downlink\"";
        assert!(
            text.contains(&format!("sluice_content_bytes_total{{{content}}} 5\n")),
            "{text}"
        );
    }

    #[test]
    fn no_series_is_written_twice_and_each_family_once() {
        for format in [Format::Prometheus, Format::OpenMetrics] {
            let text = render(format, &scrape(3)) + &render_ts28552(Format::Prometheus, &scrape(3));
            let names = |line: &&str| line.rsplit_once(' ').map(|(name, _)| name.to_owned());
            let all = samples(&text);
            let unique: BTreeSet<String> = all.iter().filter_map(names).collect();
            assert_eq!(unique.len(), all.len());
            let families: Vec<&str> = text.lines().filter(|line| line.starts_with("# TYPE")).collect();
            assert_eq!(families.iter().collect::<BTreeSet<_>>().len(), families.len());
        }
    }

    #[test]
    fn the_number_of_series_has_a_bound() {
        let whole = write(Format::Prometheus, MOST_SERIES, &scrape(2)).finish();
        let cut = write(Format::Prometheus, 100, &scrape(2)).finish();
        assert_eq!(samples(&cut).len(), 100);
        let omitted = samples(&whole).len() - 100;
        assert!(
            cut.ends_with(&format!("sluice_metrics_series_omitted {omitted}\n")),
            "{cut}"
        );
        // As many workers and ports as a large host has fit.
        assert!(samples(&render(Format::Prometheus, &scrape(96))).len() < MOST_SERIES);
    }

    #[test]
    fn measurements_are_made_of_the_metrics() {
        let text = render_ts28552(Format::Prometheus, &scrape(2));
        for line in [
            "fivegs_ep_n3_gtp_indatapktn3upf_total 10",
            "fivegs_ep_n6_ip_n6inclinkusage_total{n6rp=\"core\"} 200",
            "fivegs_upffunction_sm_n4sessionestabreq_total 5",
            "fivegs_upffunction_sm_n4sessionestabfail_total{cause=\"74\"} 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
    }

    /// Run with `SLUICE_GOLDEN=write` to bring the page up to date.
    #[test]
    fn the_page_has_every_metric() {
        let mut page = String::from(include_str!("metrics_head.txt"));
        add_rows(
            &mut page,
            write(Format::Prometheus, MOST_SERIES, &scrape(1)).described(),
        );
        assert_page("metrics.md", &page);
    }
}

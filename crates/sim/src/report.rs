//! Report of a run.

use crate::schedule::Offered;
use crate::tracker::{Counts, Latency, Meter};
use std::time::Duration;

/// Counts of a shard besides user packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Events {
    /// ARP, Neighbour Discovery and ICMP echo that were for the stations.
    pub answered: u64,
    /// GTP-U echo requests answered.
    pub echo_requests: u64,
    /// GTP-U End Markers received.
    pub end_markers: u64,
    /// GTP-U Error Indications received.
    pub error_indications: u64,
    /// Frames on the access side that are neither GTP-U nor anything a gNB answers; malformed ones.
    pub unexpected: u64,
    /// Frames for another MAC address or VLAN.
    pub not_for_us: u64,
    /// Times that a link had no room for a packet that was due.
    pub link_full: u64,
}

impl Events {
    /// Adds the counts of another shard.
    pub fn merge(&mut self, other: &Events) {
        self.answered += other.answered;
        self.echo_requests += other.echo_requests;
        self.end_markers += other.end_markers;
        self.error_indications += other.error_indications;
        self.unexpected += other.unexpected;
        self.not_for_us += other.not_for_us;
        self.link_full += other.link_full;
    }
}

/// Sums of one shard or of several.
#[derive(Debug, Clone, Default)]
pub struct Totals {
    /// User packets to the data network.
    pub uplink: Meter,
    /// User packets to the UEs.
    pub downlink: Meter,
    /// Packets due and sent, uplink.
    pub uplink_offered: Offered,
    /// Packets due and sent, downlink.
    pub downlink_offered: Offered,
    /// Everything else.
    pub events: Events,
}

impl Totals {
    /// Adds the sums of another shard.
    pub fn merge(&mut self, other: &Totals) {
        self.uplink.merge(&other.uplink);
        self.downlink.merge(&other.downlink);
        self.uplink_offered.merge(&other.uplink_offered);
        self.downlink_offered.merge(&other.downlink_offered);
        self.events.merge(&other.events);
    }
}

/// One direction of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DirectionReport {
    /// Packets by result.
    pub counts: Counts,
    /// Packets that did not arrive whole and where they belong.
    pub lost: u64,
    /// Packets that no flow of ours can have sent.
    pub foreign: u64,
    /// Million packets received per second.
    pub mpps: f64,
    /// Gigabits of inner IP packets received per second.
    pub gbps: f64,
    /// Packets due, late and given up.
    pub offered: Offered,
    /// One-way delay.
    pub latency: Latency,
}

impl DirectionReport {
    fn new(meter: &Meter, offered: Offered, time: Duration) -> DirectionReport {
        let per_second = |amount: f64| {
            if time.is_zero() {
                0.0
            } else {
                amount / time.as_secs_f64()
            }
        };
        DirectionReport {
            counts: meter.counts,
            lost: meter.counts.lost(),
            foreign: meter.foreign,
            mpps: per_second(meter.counts.received as f64 / 1e6),
            gbps: per_second(meter.received_octets as f64 * 8.0 / 1e9),
            offered,
            latency: meter.latency(),
        }
    }
}

impl std::fmt::Display for DirectionReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Counts {
            sent,
            received,
            reordered,
            duplicated,
            corrupted,
            misdirected,
            ..
        } = self.counts;
        writeln!(
            f,
            "{:.3} Mpps {:.3} Gbit/s, sent {sent}, received {received}, lost {}",
            self.mpps, self.gbps, self.lost
        )?;
        writeln!(
            f,
            "  reordered {reordered}, duplicated {duplicated}, corrupted {corrupted}, misdirected {misdirected}, \
             foreign {}",
            self.foreign
        )?;
        writeln!(
            f,
            "  due {}, late {}, given up {}",
            self.offered.due, self.offered.late, self.offered.given_up
        )?;
        let us = |ns: u64| ns as f64 / 1e3;
        let Latency {
            p50, p99, p999, max, ..
        } = self.latency;
        write!(
            f,
            "  latency us: p50 {:.1}, p99 {:.1}, p99.9 {:.1}, max {:.1}",
            us(p50),
            us(p99),
            us(p999),
            us(max)
        )
    }
}

/// The outcome of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Report {
    /// Sessions that carried traffic.
    pub sessions: u32,
    /// How long traffic was sent.
    pub time: Duration,
    /// To the data network.
    pub uplink: DirectionReport,
    /// To the UEs.
    pub downlink: DirectionReport,
    /// Everything else.
    pub events: Events,
}

impl Report {
    /// Rates over `time`, of the sums of all shards.
    pub fn new(sessions: u32, time: Duration, totals: &Totals) -> Report {
        Report {
            sessions,
            time,
            uplink: DirectionReport::new(&totals.uplink, totals.uplink_offered, time),
            downlink: DirectionReport::new(&totals.downlink, totals.downlink_offered, time),
            events: totals.events,
        }
    }
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{} sessions, {:.3} s", self.sessions, self.time.as_secs_f64())?;
        writeln!(f, "uplink: {}", self.uplink)?;
        writeln!(f, "downlink: {}", self.downlink)?;
        let Events {
            end_markers,
            error_indications,
            unexpected,
            link_full,
            ..
        } = self.events;
        write!(
            f,
            "end markers {end_markers}, error indications {error_indications}, unexpected frames {unexpected}, \
             link full {link_full}"
        )
    }
}

//! What changes from second to second, in one object: for the page, for `sluice top`, for each that listens to
//! `/v1/live`.
//!
//! An object is made of counts since the start; [`Live::rated`] adds what that is a second since the object before.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use worker::{DirectionStats, Stage, Stats};

use super::drop_advice::drop_advice;
use super::{Association, PortList, PortRow};
use crate::totals::drops;

/// The node in this second.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Live {
    /// When it was made: milliseconds since 1970.
    pub time_ms: u64,
    /// The seconds that rates are of: those since the object before.
    pub interval_s: f64,
    /// Whether the control thread has answered for this object. If not, what it says is that of an earlier one.
    pub control: bool,
    /// Who this is.
    pub node: LiveNode,
    /// Its sessions.
    pub sessions: LiveSessions,
    /// User packets forwarded uplink; octets of IP packets, without tunnels.
    pub uplink: Flow,
    /// User packets forwarded downlink; octets of IP packets, without tunnels.
    pub downlink: Flow,
    /// The network instances, in the order of the configuration.
    pub instances: Vec<LiveInstance>,
    /// The ports, in the order of the configuration.
    pub ports: Vec<LivePort>,
    /// The workers, in the order of their numbers.
    pub workers: Vec<LiveWorker>,
    /// The drop reasons of which there were packets since the start.
    pub drops: Vec<LiveDrop>,
    /// The first SMFs, 64 at most.
    pub smfs: Vec<LiveSmf>,
    /// How many there are in all.
    pub smfs_total: usize,
    /// Ticks of the processor's clock at this moment.
    #[serde(skip)]
    pub clock: u64,
}

/// A count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Rate {
    /// Since the start.
    pub count: u64,
    /// A second, since the object before.
    pub per_s: f64,
}

/// Packets and octets that go one way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Flow {
    /// Packets.
    pub packets: Rate,
    /// Octets.
    pub octets: Rate,
}

/// Who the node is, and how its control thread does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LiveNode {
    /// Its Node ID.
    #[schema(example = "upf.5gc.example")]
    pub node: String,
    /// The version of Sluice.
    pub version: String,
    /// Where N4 is reached.
    #[schema(example = json!(["10.100.0.1:8805"]))]
    pub addresses: Vec<String>,
    /// Since when (RFC 3339): its Recovery Time Stamp.
    pub since: String,
    /// Seconds since then.
    pub uptime_s: u64,
    /// The load of the control thread, 0 to 100 per cent, as SMFs are notified of it (TS 29.244 §6.2.3).
    pub load: u8,
    /// Whether new sessions are refused because there is more to do than can be done.
    pub overloaded: bool,
}

/// Sessions and what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LiveSessions {
    /// How many there are.
    pub now: usize,
    /// How many there may be.
    pub most: usize,
    /// Requests for sessions that wait.
    pub waiting: usize,
    /// Sessions set up.
    pub set_up: Rate,
    /// Set-ups that were refused.
    pub refused: Rate,
    /// Modifications.
    pub modified: Rate,
    /// Sessions that SMFs have deleted.
    pub deleted: Rate,
}

/// A network instance.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LiveInstance {
    /// Its name.
    #[schema(example = "internet")]
    pub instance: String,
    /// What it is used for: n3, n6, n9, n4u.
    #[schema(example = json!(["n6"]))]
    pub roles: Vec<String>,
    /// Its port.
    pub port: String,
    /// Its VLAN; absent where frames are untagged.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(example = "VLAN 200.30")]
    pub vlan: Option<String>,
    /// Its own addresses.
    pub addresses: Vec<String>,
    /// Whether its port has a link.
    pub link: bool,
    /// Other instances are on its port: what is counted is of all of them together.
    pub shares_port: bool,
    /// Frames that came in by its port.
    pub received: Flow,
    /// Frames that left by its port.
    pub sent: Flow,
}

/// A port.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LivePort {
    /// Its name.
    pub port: String,
    /// Whether its link is up; of a LAG, whether any member carries its frames.
    pub link: bool,
    /// Its state, as text.
    pub state: String,
    /// What kind of LAG it is.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub lag: Option<String>,
    /// The LAG that it is a member of.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub member_of: Option<String>,
    /// Frames received; of a LAG, by its members.
    pub received: Flow,
    /// Frames sent.
    pub sent: Flow,
}

/// A worker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LiveWorker {
    /// Its number.
    pub worker: usize,
    /// The share of the time in which it had packets, 0 to 1.
    pub busy: f64,
    /// The stages of a packet's way, in order.
    pub stages: Vec<LiveStage>,
    /// Packets from ports, and from other workers.
    pub received: Rate,
    /// Packets to ports.
    pub sent: Rate,
    /// Packets handed over to other workers.
    pub handed_over: Rate,
    /// Packets dropped.
    pub dropped: Rate,
    /// Packets whose flow entry was found.
    pub flow_hits: Rate,
    /// Packets that were decided about for want of one.
    pub flow_misses: Rate,
    /// Packets that wait in the receive backlog.
    pub backlog: u64,
    /// Packets that wait for a FAR or a next hop.
    pub buffered: u64,
}

/// A stage of a worker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LiveStage {
    /// Its name.
    #[schema(example = "lookup")]
    pub stage: String,
    /// The share of the time that it took, 0 to 1.
    pub share: f64,
    /// Ticks of that clock which it has taken since the start.
    #[serde(skip)]
    pub ticks: u64,
}

/// Packets dropped for one reason.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LiveDrop {
    /// The reason.
    #[schema(example = "meter_red")]
    pub reason: String,
    /// Packets since the start.
    pub count: u64,
    /// Packets a second.
    pub per_s: f64,
    /// The clause or RFC that makes it one.
    #[schema(example = "TS 29.244 §8.2.8")]
    pub clause: String,
    /// The reason in words.
    pub explanation: String,
    /// What an operator can do.
    pub advice: String,
}

/// An SMF.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LiveSmf {
    /// Its Node ID.
    pub node: String,
    /// Where its association was set up from.
    pub peer: String,
    /// Whether it answered the last heartbeat.
    pub reachable: bool,
    /// Since when there is the association (RFC 3339).
    pub since: String,
    /// Its sessions.
    pub sessions: usize,
}

/// The part of the control thread, with counts and without rates.
#[derive(Clone, Debug, Default)]
pub struct LiveControl {
    /// Who this is.
    pub node: LiveNode,
    /// Its sessions.
    pub sessions: LiveSessions,
    /// The instances, each with the place of its port.
    pub instances: Vec<PlacedInstance>,
    /// The ports without counts.
    pub ports: PortList,
    /// The first SMFs.
    pub smfs: Vec<LiveSmf>,
    /// How many there are.
    pub smfs_total: usize,
}

/// An instance, and where its port is among the ports.
#[derive(Clone, Debug, Default)]
pub struct PlacedInstance {
    /// The instance without counts.
    pub instance: LiveInstance,
    /// The place of its port.
    pub port: usize,
}

/// When an object is made.
#[derive(Clone, Copy, Debug)]
pub struct LiveMoment {
    /// Milliseconds since 1970.
    pub time_ms: u64,
    /// Ticks of [`flow::cycles`].
    pub clock: u64,
}

impl Rate {
    /// A count without a rate.
    #[must_use]
    pub const fn of(count: u64) -> Self {
        Self { count, per_s: 0.0 }
    }

    fn rate(&mut self, before: Self, seconds: f64) {
        self.per_s = per_second(self.count, before.count, seconds);
    }
}

/// A tenth is as exact as people read.
fn per_second(now: u64, before: u64, seconds: f64) -> f64 {
    (now.saturating_sub(before) as f64 / seconds * 10.0).round() / 10.0
}

impl Flow {
    const fn of(packets: u64, octets: u64) -> Self {
        Self {
            packets: Rate::of(packets),
            octets: Rate::of(octets),
        }
    }

    fn rate(&mut self, before: &Self, seconds: f64) {
        self.packets.rate(before.packets, seconds);
        self.octets.rate(before.octets, seconds);
    }
}

impl Live {
    /// What there is at `moment`, without rates: what workers have counted, and the last that control has said.
    #[must_use]
    pub fn of(moment: LiveMoment, stats: &[Stats], control: &LiveControl) -> Self {
        let ports = control.ports.clone().with_counts(stats).ports;
        let forwarded = |direction: usize| {
            let counts = stats.iter().map(|stats| stats.directions[direction]);
            let sum = |value: fn(DirectionStats) -> u64| counts.clone().map(value).sum();
            Flow::of(
                sum(|counts| counts.forwarded.packets),
                sum(|counts| counts.forwarded.octets),
            )
        };
        Self {
            time_ms: moment.time_ms,
            interval_s: 0.0,
            control: true,
            node: control.node.clone(),
            sessions: control.sessions,
            uplink: forwarded(0),
            downlink: forwarded(1),
            instances: instances(control, &ports),
            ports: ports.into_iter().map(LivePort::of).collect(),
            workers: stats
                .iter()
                .enumerate()
                .map(|(number, stats)| LiveWorker::of(number, stats))
                .collect(),
            drops: drops(stats)
                .into_iter()
                .map(|(reason, count)| LiveDrop {
                    reason: reason.label().to_owned(),
                    count,
                    per_s: 0.0,
                    clause: reason.clause().to_owned(),
                    explanation: reason.explain().to_owned(),
                    advice: drop_advice(reason).to_owned(),
                })
                .collect(),
            smfs: control.smfs.clone(),
            smfs_total: control.smfs_total,
            clock: moment.clock,
        }
    }

    /// The same with rates since the object `before`.
    #[must_use]
    pub fn rated(mut self, before: &Self) -> Self {
        let seconds = (self.time_ms.saturating_sub(before.time_ms) as f64 / 1e3).max(1e-3);
        let ticks = self.clock.wrapping_sub(before.clock).max(1) as f64;
        self.interval_s = seconds;
        self.uplink.rate(&before.uplink, seconds);
        self.downlink.rate(&before.downlink, seconds);
        self.sessions.rate(&before.sessions, seconds);
        for one in &mut self.instances {
            if let Some(then) = before.instances.iter().find(|then| then.instance == one.instance) {
                one.received.rate(&then.received, seconds);
                one.sent.rate(&then.sent, seconds);
            }
        }
        for one in &mut self.ports {
            if let Some(then) = before.ports.iter().find(|then| then.port == one.port) {
                one.received.rate(&then.received, seconds);
                one.sent.rate(&then.sent, seconds);
            }
        }
        for (one, then) in self.workers.iter_mut().zip(&before.workers) {
            one.rate(then, seconds, ticks);
        }
        for one in &mut self.drops {
            // A reason that was not there before had no packets.
            let then = before.drops.iter().find(|then| then.reason == one.reason);
            one.per_s = per_second(one.count, then.map_or(0, |then| then.count), seconds);
        }
        self
    }
}

fn instances(control: &LiveControl, ports: &[PortRow]) -> Vec<LiveInstance> {
    let all = &control.instances;
    let counted = |placed: &PlacedInstance| {
        let mut one = placed.instance.clone();
        if let Some(port) = ports.get(placed.port) {
            one.link = port.link;
            one.received = Flow::of(port.received, port.received_octets);
            one.sent = Flow::of(port.sent, port.sent_octets);
        }
        one.shares_port = all.iter().filter(|other| other.port == placed.port).count() > 1;
        one
    };
    all.iter().map(counted).collect()
}

impl LiveSessions {
    fn rate(&mut self, before: &Self, seconds: f64) {
        self.set_up.rate(before.set_up, seconds);
        self.refused.rate(before.refused, seconds);
        self.modified.rate(before.modified, seconds);
        self.deleted.rate(before.deleted, seconds);
    }
}

impl LivePort {
    fn of(row: PortRow) -> Self {
        Self {
            received: Flow::of(row.received, row.received_octets),
            sent: Flow::of(row.sent, row.sent_octets),
            port: row.port,
            link: row.link,
            state: row.state,
            lag: row.lag,
            member_of: row.member_of,
        }
    }
}

impl LiveWorker {
    fn of(worker: usize, stats: &Stats) -> Self {
        let stage = |stage: &Stage| LiveStage {
            stage: stage.label().to_owned(),
            share: 0.0,
            ticks: stats.stages[*stage as usize].ticks,
        };
        Self {
            worker,
            busy: 0.0,
            stages: Stage::ALL.iter().map(stage).collect(),
            received: Rate::of(stats.rx() + stats.inbox),
            sent: Rate::of(stats.tx()),
            handed_over: Rate::of(stats.handed_over),
            dropped: Rate::of(stats.drops.iter().sum()),
            flow_hits: Rate::of(stats.hits),
            flow_misses: Rate::of(stats.misses),
            backlog: stats.backlog,
            buffered: stats.buffered,
        }
    }

    fn rate(&mut self, before: &Self, seconds: f64, ticks: f64) {
        for (rate, then) in [
            (&mut self.received, before.received),
            (&mut self.sent, before.sent),
            (&mut self.handed_over, before.handed_over),
            (&mut self.dropped, before.dropped),
            (&mut self.flow_hits, before.flow_hits),
            (&mut self.flow_misses, before.flow_misses),
        ] {
            rate.rate(then, seconds);
        }
        for (stage, then) in self.stages.iter_mut().zip(&before.stages) {
            let share = stage.ticks.wrapping_sub(then.ticks) as f64 / ticks;
            // Counters and clock are not read at the same moment.
            stage.share = (share.clamp(0.0, 1.0) * 1e4).round() / 1e4;
        }
        let busy: f64 = self.stages.iter().map(|stage| stage.share).sum();
        self.busy = (busy.min(1.0) * 1e4).round() / 1e4;
    }
}

impl From<&Association> for LiveSmf {
    fn from(association: &Association) -> Self {
        Self {
            node: association.node.clone(),
            peer: association.peer.clone(),
            reachable: association.reachable,
            since: association.since.clone(),
            sessions: association.sessions,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::DropReason;

    fn stats(packets: u64) -> Stats {
        let mut stats = Stats::new(1);
        stats.ports[0].rx.packets = packets;
        stats.ports[0].rx.octets = 100 * packets;
        stats.directions[0].forwarded.packets = packets;
        stats.drops[DropReason::MeterRed.index()] = packets / 10;
        stats.stages[Stage::Lookup as usize].ticks = 3 * packets;
        stats
    }

    fn control(instances: usize) -> LiveControl {
        let placed = |number: usize| PlacedInstance {
            instance: LiveInstance {
                instance: format!("i{number}"),
                ..LiveInstance::default()
            },
            port: 0,
        };
        LiveControl {
            instances: (0..instances).map(placed).collect(),
            ports: PortList {
                ports: vec![PortRow::new(0, "ran", true)],
            },
            ..LiveControl::default()
        }
    }

    fn live(time_ms: u64, clock: u64, packets: u64, instances: usize) -> Live {
        let moment = LiveMoment { time_ms, clock };
        Live::of(moment, &[stats(packets), stats(0)], &control(instances))
    }

    #[test]
    fn rates_are_those_of_the_interval() {
        let now = live(2_000, 10_000, 1_000, 1).rated(&live(0, 0, 0, 1));
        assert!((now.interval_s - 2.0).abs() < 1e-9);
        assert_eq!(
            now.uplink.packets,
            Rate {
                count: 1_000,
                per_s: 500.0
            }
        );
        assert_eq!(now.instances[0].received.octets.per_s, 50_000.0);
        assert!(now.instances[0].link && !now.instances[0].shares_port);
        assert_eq!(now.ports[0].received, now.instances[0].received);
        let busy: Vec<f64> = now.workers.iter().map(|worker| worker.busy).collect();
        assert_eq!(busy, [0.3, 0.0]);
        let [drop] = &now.drops[..] else {
            panic!("one reason: {:?}", now.drops);
        };
        assert_eq!(
            (drop.reason.as_str(), drop.count, drop.per_s),
            ("meter_red", 100, 50.0)
        );
    }

    #[test]
    fn instances_of_one_port_have_its_counts_and_say_so() {
        let now = live(1_000, 1, 10, 2);
        assert!(now.instances.iter().all(|one| one.shares_port));
        assert_eq!(now.instances[0].received, now.instances[1].received);
    }

    /// A clock that stands still, or counters that began anew, make no rates without bound.
    #[test]
    fn no_rate_is_negative_or_infinite() {
        let now = live(1_000, 5, 0, 1).rated(&live(1_000, 5, 1_000, 1));
        assert_eq!(now.uplink.packets.per_s, 0.0);
        let text = serde_json::to_string(&now).unwrap();
        assert!(!text.contains("null"), "{text}");
        let read: Live = serde_json::from_str(&text).unwrap();
        assert_eq!(read.uplink, now.uplink);
    }
}

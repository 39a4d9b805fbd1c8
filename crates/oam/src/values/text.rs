//! The tables and texts that `sluice show` prints: one function for each answer of the API.

use upf::format::{grouped, rate};

use super::facts::{Facts, list};
use super::table::Table;
use super::{
    Association, AssociationList, Bar, ContentCounts, Correlation, Counts, Far, Pdr, Qer, Rates,
    SessionDetail, SessionList, SessionNat, SessionQueue, SessionRow, SessionState, Urr, Volume,
};

fn state(state: SessionState) -> &'static str {
    match state {
        SessionState::Live => "live",
        SessionState::Changing => "changing",
    }
}

/// The line under a page that is not the last: rows shown, rows in all, where the next page begins.
fn more(shown: usize, total: usize, next: Option<&str>) -> String {
    match next {
        Some(after) => format!(
            "{shown} of {}; the next with --after {after}\n",
            grouped(total as u64)
        ),
        None => String::new(),
    }
}

impl AssociationList {
    /// A table.
    #[must_use]
    pub fn text(&self) -> String {
        if self.total == 0 {
            return "no associations\n".into();
        }
        let heads = [
            "node",
            "peer",
            "here",
            "interface",
            "heartbeat",
            ">sessions",
            ">tunnels",
            "since",
            "set",
        ];
        let mut table = Table::new(heads);
        for association in &self.associations {
            table.row(association.cells());
        }
        let next = self.next.map(|after| after.to_string());
        table.text("") + &more(self.associations.len(), self.total, next.as_deref())
    }
}

impl Association {
    fn cells(&self) -> [String; 9] {
        [
            self.node.clone(),
            self.peer.clone(),
            self.local.clone(),
            self.interface.clone().unwrap_or_else(|| "any".into()),
            if self.reachable { "answered" } else { "silent" }.into(),
            grouped(self.sessions as u64),
            grouped(self.tunnels as u64),
            self.since.clone(),
            self.set.clone().unwrap_or_default(),
        ]
    }
}

impl SessionList {
    /// A table.
    #[must_use]
    pub fn text(&self) -> String {
        if self.sessions.is_empty() {
            return match self.total {
                0 => "no sessions\n".into(),
                total => format!("none of {} sessions\n", grouped(total as u64)),
            };
        }
        let heads = [
            "SEID", "UE", "IMSI", "DNN", "TEID", "SMF", "CP SEID", ">PDRs", ">worker", ">bucket", "state",
        ];
        let mut table = Table::new(heads);
        for row in &self.sessions {
            table.row(row.cells());
        }
        table.text("") + &more(self.sessions.len(), self.total, self.next.as_deref())
    }
}

impl SessionRow {
    fn cells(&self) -> [String; 11] {
        let known = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".into());
        [
            self.seid.clone(),
            list(&self.ue),
            known(&self.imsi),
            known(&self.dnn),
            list(&self.teids),
            self.node.clone(),
            self.cp_seid.clone(),
            self.pdrs.to_string(),
            self.worker.to_string(),
            self.bucket.to_string(),
            state(self.state).into(),
        ]
    }
}

impl SessionDetail {
    fn queues_text(&self) -> String {
        let heads = [
            "direction",
            "class",
            "QER",
            ">waiting",
            ">octets",
            ">first µs",
            ">last µs",
            ">marked",
            "dropped",
        ];
        table("Queues before ports", &self.queues, heads, SessionQueue::cells)
    }

    /// The session as a person reads it.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!("Session {}\n{}", self.seid, self.facts());
        text.push_str(&section(
            "PDRs, in the order in which a packet is held against them",
            || {
                self.pdrs
                    .iter()
                    .map(|pdr| self.pdr(pdr))
                    .collect::<Vec<_>>()
                    .join("\n")
            },
        ));
        text.push_str(&table(
            "FARs",
            &self.fars,
            ["FAR", "apply action", "now", "BAR", ">buffered"],
            Far::cells,
        ));
        let heads = [
            "QER", "uplink", "downlink", "MBR up", "MBR down", "MBR with", "GBR up", "GBR down", "marks",
        ];
        text.push_str(&table("QERs", &self.qers, heads, Qer::cells));
        let heads = [
            "URR",
            "measures",
            ">up packets",
            ">up octets",
            ">down packets",
            ">down octets",
            "since the last report at",
            ">next UR-SEQN",
            "threshold",
            "quota",
        ];
        text.push_str(&table("URRs", &self.urrs, heads, Urr::cells));
        let heads = [
            "content",
            ">rating group",
            ">service",
            ">up packets",
            ">up octets",
            ">down packets",
            ">down octets",
            "since",
        ];
        text.push_str(&table(
            "Contents, since their last record",
            &self.contents,
            heads,
            ContentCounts::cells,
        ));
        text.push_str(&self.queues_text());
        text.push_str(&table(
            "BARs",
            &self.bars,
            ["BAR", ">delay", ">packets"],
            Bar::cells,
        ));
        if !self.endpoints.is_empty() {
            text.push_str(&section("Traffic Endpoints", || {
                let mut facts = Facts::new("  ");
                for endpoint in &self.endpoints {
                    facts.add(&endpoint.id.to_string(), endpoint.matches.iter().cloned());
                }
                facts.text
            }));
        }
        text
    }

    fn facts(&self) -> String {
        let mut facts = Facts::new("  ");
        let waiting = match self.waiting {
            0 => String::new(),
            waiting => format!(", {waiting} requests waiting"),
        };
        facts.add("state", [format!("{}{waiting}", state(self.state))]);
        let flows = match self.flows {
            Some(flows) => format!(", {} flow entries", grouped(flows.into())),
            None => ", which does not have it just now".into(),
        };
        facts.add(
            "owner",
            [format!(
                "worker {}, by bucket {}{flows}",
                self.worker, self.bucket
            )],
        );
        let cp = &self.cp_f_seid;
        facts.add(
            "SMF",
            [format!(
                "{}, CP F-SEID {} at {}",
                self.node,
                cp.seid,
                list(&cp.addresses)
            )],
        );
        if !self.sets.is_empty() {
            facts.add("sets", [list(&self.sets)]);
        }
        facts.add("UE", [list(&self.ue)]);
        facts.add("IMSI", self.imsi.clone());
        facts.add("DNN", self.dnn.clone());
        let tunnels = self.tunnels.iter();
        facts.add(
            "tunnels",
            tunnels.map(|one| format!("TEID {} at {} ({})", one.teid, one.address, one.instance)),
        );
        facts.add("NAT", self.nat.iter().flat_map(SessionNat::lines));
        facts.text
    }

    fn pdr(&self, pdr: &Pdr) -> String {
        let Pdr {
            id,
            precedence,
            source,
            ..
        } = pdr;
        let precedence = match *precedence {
            u32::MAX => "no precedence".into(),
            precedence => format!("precedence {precedence}"),
        };
        let mut facts = Facts::new("    ");
        facts.add("matches", pdr.matches.iter().cloned());
        facts.add("removes", pdr.removes.clone());
        facts.add(
            "activates",
            pdr.rulebases.iter().map(|name| format!("rulebase {name}")),
        );
        let far = pdr.far.map_or("no FAR".into(), |far| format!("FAR {far}"));
        facts.add("then", [format!("{far}: {}", pdr.action)]);
        let qers = self.qers.iter().filter(|qer| pdr.qers.contains(&qer.id));
        facts.add("QoS", qers.map(|qer| format!("QER {}: {}", qer.id, qer.words())));
        if !pdr.urrs.is_empty() {
            facts.add(
                "counted in",
                [list(pdr.urrs.iter().map(|urr| format!("URR {urr}")))],
            );
        }
        format!("  PDR {id}, {precedence}, from {source}\n{}", facts.text)
    }
}

fn section(title: &str, body: impl FnOnce() -> String) -> String {
    format!("\n{title}\n{}", body())
}

/// A section with a table; nothing where there are no rules.
fn table<R, const N: usize>(
    title: &str,
    rules: &[R],
    heads: [&'static str; N],
    cells: impl Fn(&R) -> [String; N],
) -> String {
    let mut table = Table::new(heads);
    rules.iter().for_each(|rule| table.row(cells(rule)));
    if table.is_empty() {
        return String::new();
    }
    section(title, || table.text("  "))
}

impl Far {
    fn cells(&self) -> [String; 5] {
        [
            self.id.to_string(),
            self.apply_action.join(" "),
            self.action.clone(),
            self.bar.map_or("-".into(), |bar| bar.to_string()),
            self.buffered.map_or("-".into(), |count| grouped(count.into())),
        ]
    }
}

fn gate(is_open: bool) -> &'static str {
    if is_open { "open" } else { "closed" }
}

impl Qer {
    fn cells(&self) -> [String; 9] {
        let pair = |rates: Option<Rates>, none: &str| match rates {
            Some(Rates { uplink, downlink }) => [rate(uplink), rate(downlink)],
            None => [none.to_owned(), none.to_owned()],
        };
        let [mbr_up, mbr_down] = pair(self.mbr, "no limit");
        let [gbr_up, gbr_down] = pair(self.gbr, "-");
        [
            self.id.to_string(),
            gate(self.uplink_open).into(),
            gate(self.downlink_open).into(),
            mbr_up,
            mbr_down,
            self.correlation.map_or("-".into(), |one| one.words()),
            gbr_up,
            gbr_down,
            self.marks(),
        ]
    }

    /// What packets are marked with.
    fn marks(&self) -> String {
        let marks = [
            self.qfi.map(|qfi| format!("QFI {qfi}")),
            self.rqi.then(|| "RQI".to_owned()),
            self.ppi.map(|ppi| format!("PPI {ppi}")),
            self.service_class.map(|class| format!("SCI {class}")),
        ];
        list(marks.into_iter().flatten())
    }

    /// All of it on one line, without what goes without saying.
    fn words(&self) -> String {
        let pair = |name: &str, rates: Rates| {
            format!("{name} {} up, {} down", rate(rates.uplink), rate(rates.downlink))
        };
        let gates = match (self.uplink_open, self.downlink_open) {
            (true, true) => None,
            (true, false) => Some("downlink closed".to_owned()),
            (false, true) => Some("uplink closed".to_owned()),
            (false, false) => Some("closed both ways".to_owned()),
        };
        let marks = Some(self.marks())
            .filter(|marks| marks != "-")
            .map(|marks| format!("marked {marks}"));
        let rates = [
            self.mbr.map(|mbr| pair("MBR", mbr)),
            self.correlation.map(|one| format!("MBR with {}", one.words())),
            self.gbr.map(|gbr| pair("GBR", gbr)),
        ];
        let words: Vec<String> = std::iter::once(gates)
            .chain(rates)
            .chain([marks])
            .flatten()
            .collect();
        if words.is_empty() {
            "no limit".into()
        } else {
            words.join("; ")
        }
    }
}

impl Correlation {
    fn words(self) -> String {
        match self.sessions {
            0 => format!("correlation {} in EPC", self.id),
            sessions => format!("correlation {}: {sessions} sessions", self.id),
        }
    }
}

impl Volume {
    fn words(&self) -> String {
        let part =
            |name: &str, octets: Option<u64>| octets.map(|octets| format!("{}{name}", grouped(octets)));
        let parts = [
            part(" octets", self.total),
            part(" up", self.uplink),
            part(" down", self.downlink),
        ];
        list(parts.into_iter().flatten())
    }
}

/// A bound on volume, time and events.
fn bound(volume: Option<Volume>, seconds: Option<u32>, events: Option<u32>) -> String {
    let volume = volume.map(|volume| volume.words());
    let seconds = seconds.map(|seconds| format!("{} s", grouped(seconds.into())));
    let events = events.map(|events| format!("{} events", grouped(events.into())));
    list(volume.into_iter().chain(seconds).chain(events))
}

impl Urr {
    fn cells(&self) -> [String; 10] {
        let count = |read: fn(&Counts) -> u64| {
            let counts = self.since_last_report.as_ref();
            counts.map_or("?".into(), |counts| grouped(read(counts)))
        };
        [
            self.id.to_string(),
            self.events.map_or_else(
                || list(&self.measures),
                |events| format!("{} ({} events)", list(&self.measures), grouped(events)),
            ),
            count(|counts| counts.uplink_packets),
            count(|counts| counts.uplink_octets),
            count(|counts| counts.downlink_packets),
            count(|counts| counts.downlink_octets),
            self.since.clone().unwrap_or("?".into()),
            self.next_ur_seqn.map_or("?".into(), |number| number.to_string()),
            bound(self.volume_threshold, self.time_threshold, self.event_threshold),
            bound(self.volume_quota, self.time_quota, self.event_quota),
        ]
    }
}

impl ContentCounts {
    fn cells(&self) -> [String; 8] {
        let number = |number: Option<u32>| number.map_or("-".into(), |number| number.to_string());
        let counts = &self.counts;
        [
            self.content.clone().unwrap_or("without a counter".into()),
            number(self.rating_group),
            number(self.service_id),
            grouped(counts.uplink_packets),
            grouped(counts.uplink_octets),
            grouped(counts.downlink_packets),
            grouped(counts.downlink_octets),
            self.since.clone(),
        ]
    }
}

impl Bar {
    fn cells(&self) -> [String; 3] {
        let delay = self
            .notification_delay_ms
            .map(|delay| format!("{} ms", grouped(delay.into())));
        let packets = self.suggested_packets.map(|packets| grouped(packets.into()));
        [
            self.id.to_string(),
            delay.unwrap_or("-".into()),
            packets.unwrap_or("-".into()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_say_what_there_is() {
        let volume = |total, uplink| Volume {
            total,
            uplink,
            downlink: None,
        };
        assert_eq!(bound(None, None, None), "-");
        assert_eq!(
            bound(Some(volume(Some(1_000), None)), Some(60), None),
            "1,000 octets, 60 s"
        );
        assert_eq!(bound(Some(volume(None, Some(5))), None, None), "5 up");
        assert_eq!(bound(None, Some(60), Some(3)), "60 s, 3 events");
    }
}

//! One case: its script, step by step.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;

use config::{Bounded, Config};
use serde_json::{Map, Value, json};

use crate::answers::{self, Chosen};
use crate::check::Outcome;
use crate::frames;
use crate::pfcp_octets;
use crate::value::{self, Fault, Fields, Taker};
use crate::world::{World, stations};

/// The SMF that a request is from where the script does not say.
const SMF: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const ACCEPTED: u64 = 1;
const REQUESTS: [(&str, u8); 6] = [
    ("pfd_management_request", 3),
    ("association_setup_request", 5),
    ("association_release_request", 9),
    ("session_establishment_request", 50),
    ("session_modification_request", 52),
    ("session_deletion_request", 54),
];
const ASSOCIATION_SETUP: u8 = 5;
const ESTABLISHMENT: u8 = 50;
const SESSION_REPORT: u8 = 56;
const HEARTBEAT: u8 = 1;

/// Runs the case in this folder.
pub fn run(folder: &Path) -> Result<Outcome, Fault> {
    let mut config = Config::load(&folder.join("sluice.yaml")).map_err(|error| error.to_string())?;
    // Own IPv6 addresses are in use from the start.
    config.neighbours.dad_transmits = Bounded::new(0);
    let file = folder.join("script.yaml");
    let text = std::fs::read_to_string(&file).map_err(|error| format!("script.yaml: {error}"))?;
    let script: Vec<Fields> =
        serde_saphyr::from_str(&text).map_err(|error| format!("script.yaml: {error}"))?;
    let mut case = Case {
        world: World::new(&config)?,
        sessions: BTreeMap::new(),
        teids: BTreeMap::new(),
        chosen: Chosen::default(),
        sequence: 0,
        answers: Vec::new(),
        requests: Vec::new(),
    };
    case.world.wait(std::time::Duration::from_millis(1));
    if script
        .first()
        .is_none_or(|step| !step.contains_key("announcements"))
    {
        case.world.received.clear();
    }
    for (place, step) in script.iter().enumerate() {
        let done = case.step(step);
        done.map_err(|fault| format!("script.yaml: step {}: {fault}", place + 1))?;
    }
    case.finish()
}

/// A session as the SMF knows it.
#[derive(Clone, Copy)]
struct Session {
    cp_seid: u64,
    up_seid: u64,
}

struct Case {
    world: World,
    sessions: BTreeMap<String, Session>,
    /// TEIDs that Sluice chose, by session and PDR.
    teids: BTreeMap<String, u32>,
    chosen: Chosen,
    sequence: u32,
    answers: Vec<Value>,
    requests: Vec<Value>,
}

impl Case {
    fn step(&mut self, step: &Fields) -> Result<(), Fault> {
        let mut words = step.iter();
        let (Some((verb, said)), None) = (words.next(), words.next()) else {
            return Err("a step has one word".into());
        };
        match verb.as_str() {
            "announcements" => {}
            "wait" => {
                let time = value::time(verb, said)?;
                self.world.wait(time);
            }
            "send" => self.send(value::fields(verb, said)?)?,
            _ => {
                let request = REQUESTS.iter().find(|(name, _)| name == verb);
                let (name, kind) = request.ok_or_else(|| format!("{verb}: no step"))?;
                self.request(name, *kind, value::fields(verb, said)?)?;
            }
        }
        self.take_requests()
    }

    fn send(&mut self, said: &Fields) -> Result<(), Fault> {
        let (sending, taker) = frames::sending(said)?;
        let port = self.world.port(&sending.port)?;
        let names = |name: &str| self.teids.get(name).copied();
        let frame = frames::frame(taker, &stations(port), &names)?;
        for _ in 0..sending.times {
            self.world.send(port, &frame)?;
            self.world.now = self.world.now + sending.every;
        }
        Ok(())
    }

    /// Sends a request, with the IEs that every such request has where the script leaves them out.
    fn request(&mut self, name: &str, kind: u8, said: &Fields) -> Result<(), Fault> {
        let mut taker = Taker::new(name, said);
        let from = taker.or("from", IpAddr::V4(SMF), value::ip)?;
        let wanted = taker.or("cause", ACCEPTED, value::number)?;
        let session = taker.maybe("session", |name, value| {
            value::text(name, value).map(str::to_owned)
        })?;
        let mut ies = taker.rest();
        let seid = self.complete(kind, session.as_deref(), from, &mut ies)?;
        self.sequence += 1;
        let octets = pfcp_octets::message(kind, seid, self.sequence, &ies)?;
        let answer = self.world.ask(SocketAddr::new(from, 8805), &octets);
        let answer = answers::read(
            &answer.ok_or_else(|| format!("{name}: no answer"))?,
            &mut self.chosen,
        )?;
        if u64::from(answer.cause) != wanted {
            return Err(format!(
                "{name}: cause {wanted} was to come, and this came: {:?}",
                answer.shown
            ));
        }
        let session = session.unwrap_or_default();
        if let (ESTABLISHMENT, Some(up_seid)) = (kind, answer.up_seid) {
            let cp_seid = self.sessions.len() as u64 + 1;
            self.sessions
                .insert(session.clone(), Session { cp_seid, up_seid });
        }
        for (pdr, teid) in answer.teids {
            self.teids.insert(format!("{session}.{pdr}"), teid);
        }
        let about = if session.is_empty() {
            name.to_owned()
        } else {
            format!("{name} {session}")
        };
        self.answers.push(json!({about: answer.shown}));
        Ok(())
    }

    /// The SEID that the request goes to.
    fn complete(
        &self,
        kind: u8,
        session: Option<&str>,
        from: IpAddr,
        ies: &mut Map<String, Value>,
    ) -> Result<Option<u64>, Fault> {
        let mut default = |name: &str, value: Value| {
            ies.entry(name).or_insert(value);
        };
        if kind < ESTABLISHMENT {
            default("node_id", json!(from));
            if kind == ASSOCIATION_SETUP {
                default("recovery_time_stamp", json!(3_900_000_000_u32));
            }
            return Ok(None);
        }
        let name = session.ok_or("session: which?")?;
        if kind == ESTABLISHMENT {
            default("node_id", json!(from));
            default(
                "cp_f_seid",
                json!({"seid": self.sessions.len() + 1, "ipv4": from}),
            );
            return Ok(Some(0));
        }
        let known = self
            .sessions
            .get(name)
            .ok_or_else(|| format!("session: no session `{name}`"))?;
        Ok(Some(known.up_seid))
    }

    /// Notes what Sluice asks of its own accord, and accepts it.
    fn take_requests(&mut self) -> Result<(), Fault> {
        while let Some(said) = self.world.said() {
            let (shown, header) = answers::request(&said.bytes)?;
            self.requests.push(shown);
            let by_cp_seid = |cp_seid: u64| self.sessions.values().find(|one| one.cp_seid == cp_seid);
            let up_seid = header
                .seid
                .and_then(|seid| by_cp_seid(seid.0))
                .map(|one| one.up_seid);
            // Cause: accepted; or a Recovery Time Stamp.
            let ies = match header.message_type.0 {
                SESSION_REPORT => json!({"hex": "0013 0001 01"}),
                HEARTBEAT => json!({"recovery_time_stamp": 3_900_000_000_u32}),
                other => return Err(format!("a request of type {other}")),
            };
            let (kind, sequence) = (header.message_type.0 + 1, header.sequence.get());
            let response = pfcp_octets::message(kind, up_seid, sequence, value::fields("response", &ies)?)?;
            self.world.receive_response(said.to, &response);
        }
        Ok(())
    }

    fn finish(self) -> Result<Outcome, Fault> {
        let stats = self.world.stats();
        if stats.unaccounted() != 0 {
            return Err(format!("{} packets are not accounted for", stats.unaccounted()));
        }
        let drops: Map<String, Value> = packet::DropReason::ALL
            .into_iter()
            .filter(|reason| stats.dropped(*reason) > 0)
            .map(|reason| (reason.label().to_owned(), stats.dropped(reason).into()))
            .collect();
        let direction = |place: usize| {
            let count = stats.directions[place];
            json!({
                "matched": {"packets": count.matched.packets, "octets": count.matched.octets},
                "forwarded": {"packets": count.forwarded.packets, "octets": count.forwarded.octets},
            })
        };
        let [sessions, tunnels, addresses] = self.world.held();
        let mut counters = json!({
            "answers": self.answers,
            "requests": self.requests,
            "received": stats.rx(),
            "sent": stats.tx(),
            "originated": stats.originated,
            "answered": stats.answered,
            "consumed": stats.consumed,
            "uplink": direction(0),
            "downlink": direction(1),
            "flows": {
                "hits": stats.hits,
                "misses": stats.misses,
                "stale": stats.stale,
                "bypassed": stats.bypassed,
                "installed": stats.installed,
            },
            "drops": drops,
            "held": {"sessions": sessions, "tunnels": tunnels, "ue_addresses": addresses},
        });
        if stats.mirrored + stats.mirrors_lost > 0 {
            counters["mirrors"] = json!({"made": stats.mirrored, "lost": stats.mirrors_lost});
        }
        if stats.duplicated + stats.duplicates_lost > 0 {
            counters["duplicates"] = json!({"made": stats.duplicated, "lost": stats.duplicates_lost});
        }
        let records = self.world.records();
        if !records.is_empty() {
            counters["records"] = serde_json::to_value(records).map_err(|error| error.to_string())?;
        }
        if stats.recirculated > 0 {
            counters["recirculated"] = stats.recirculated.into();
        }
        let dropped = stats.drops;
        let text = serde_json::to_string_pretty(&counters).map_err(|error| error.to_string())?;
        Ok(Outcome {
            ports: self.world.ports,
            sent: self.world.sent,
            received: self.world.received,
            came: self.world.came,
            drops: dropped,
            counters: text + "\n",
        })
    }
}

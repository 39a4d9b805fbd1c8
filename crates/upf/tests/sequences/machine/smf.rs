//! An SMF: its association, its view of its sessions, and requests that it sends again by T1 and N1.
//!
//! It has one request about a session, or one about its association, on the way at a time, and many sessions.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use flow::Nanos;
use pfcp::ie::{FTeid as WireFTeid, UeIpAddress as WireUe};
use pfcp::message::Message;
use pfcp::{Frame, Frames};
use rules::model::{FTeid, UeIpAddress};

use super::model::{Grant, Grants, Session};
use super::op::Op;
use super::plans::Place;
use super::shim::{Datagram, LONGEST, MOST_LOST};
use super::step::Shape;
use super::upf::{N4_UPF, ntp};
use super::wire::{self, Octets, ie};

const T1: Duration = Duration::from_secs(1);
/// Sendings of a request, so that one gets through and its answer back.
const N1: u8 = 2 * MOST_LOST + 2;
/// How long an SMF is away: nothing of before is on its way any more then.
pub const AWAY: Duration = Duration::from_millis(3 * LONGEST);
const HEARTBEAT: Duration = Duration::from_secs(4);
pub const SLOTS: usize = 4;

/// What a request is to come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    Accepted,
    Refused,
    /// It depends on what others do meanwhile.
    Either,
}

/// What a request is for.
#[derive(Clone, Debug)]
pub enum Purpose {
    Setup,
    Update,
    Release,
    Heartbeat,
    Establish(u8, Vec<Op>, Expect),
    Modify(u8, Vec<Op>, Expect),
    Delete(u8),
}

/// A request until it is answered.
#[derive(Clone, Debug)]
struct Asked {
    bytes: Octets,
    purpose: Purpose,
    sent: u8,
    next: Nanos,
}

/// State of its association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// There is none, nor will be before this moment.
    Away(Nanos),
    Asking,
    Up,
}

/// One session's place.
#[derive(Clone, Debug, Default)]
pub struct Slot {
    pub session: Option<Session>,
    pub is_busy: bool,
    /// Packets have come since the request was sent: they may be the next session's, where it is an establishment.
    pub is_overtaken: bool,
}

/// An SMF.
pub struct Smf {
    pub number: u8,
    pub address: SocketAddr,
    pub stage: Stage,
    pub slots: [Slot; SLOTS],
    pub is_deaf: bool,
    /// When the UPF that it is associated with started.
    pub upf_started: Option<u32>,
    /// Whether a heartbeat has been answered since it was last asked for one.
    pub is_sure: bool,
    started: u32,
    sequence: u32,
    asked: BTreeMap<u32, Asked>,
    heartbeat: Nanos,
    /// Answers of the present association: each further one to a request must be the same.
    answers: BTreeMap<(u8, u32), Vec<u8>>,
}

/// What a datagram was.
pub enum Received {
    /// An answer that was waited for, and what it answers.
    Answer(Purpose),
    /// A request of the UPF about the session of this CP SEID: a report.
    Report {
        cp: u64,
        sequence: u32,
    },
    Heartbeat {
        sequence: u32,
    },
    /// An answer that came before.
    Again,
}

impl Smf {
    pub fn new(number: u8) -> Self {
        Self {
            number,
            address: SocketAddr::new(Ipv4Addr::new(127, 0, 0, 2 + number).into(), 8805),
            stage: Stage::Away(Nanos(0)),
            slots: Default::default(),
            is_deaf: false,
            upf_started: None,
            is_sure: false,
            started: ntp(Nanos(0)),
            sequence: 0,
            asked: BTreeMap::new(),
            heartbeat: Nanos(0),
            answers: BTreeMap::new(),
        }
    }

    fn ipv4(&self) -> Ipv4Addr {
        match self.address.ip() {
            IpAddr::V4(address) => address,
            IpAddr::V6(_) => Ipv4Addr::UNSPECIFIED,
        }
    }

    pub fn place(&self, slot: u8) -> Place {
        Place {
            smf: self.number,
            slot,
        }
    }

    /// Whether nothing of its own is on its way.
    pub fn is_quiet(&self) -> bool {
        self.asked.is_empty()
    }

    /// Its association is over, by its own doing or the UPF's; what it had asked is of no interest any more. Answers
    /// the sessions that it gives up.
    pub fn go_away(&mut self, now: Nanos) -> Vec<Session> {
        self.stage = Stage::Away(now + AWAY);
        self.asked.clear();
        self.answers.clear();
        self.upf_started = None;
        self.heartbeat = Nanos(0);
        let slots = std::mem::take(&mut self.slots);
        slots.into_iter().filter_map(|slot| slot.session).collect()
    }

    /// It dies and starts anew: it knows nothing, and counts from the beginning.
    pub fn restart(&mut self, now: Nanos) -> Vec<Session> {
        self.started = ntp(now + AWAY);
        self.sequence = 0;
        self.go_away(now)
    }

    /// The UPF has been away: what was asked is asked as if for the first time.
    pub fn be_patient(&mut self) {
        self.asked.values_mut().for_each(|asked| asked.sent = 1);
    }

    /// When it next has something to do of itself.
    pub fn timeout(&self) -> Option<Nanos> {
        let own = match self.stage {
            Stage::Away(until) => Some(until),
            Stage::Up => Some(self.heartbeat),
            Stage::Asking => None,
        };
        self.asked.values().map(|asked| asked.next).chain(own).min()
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Nanos) -> Vec<Datagram> {
        let mut sent = Vec::new();
        match self.stage {
            Stage::Away(until) if until <= now => sent.push(self.set_up(now)),
            Stage::Up if self.heartbeat <= now => {
                self.heartbeat = now + HEARTBEAT;
                sent.push(self.ask(now, 1, None, &[wire::recovery(self.started)], Purpose::Heartbeat));
            }
            _ => {}
        }
        let address = self.address;
        for asked in self.asked.values_mut().filter(|asked| asked.next <= now) {
            asked.sent += 1;
            assert!(asked.sent <= N1, "no response to {:?}", asked.purpose);
            asked.next = now + T1;
            sent.push(Datagram {
                from: address,
                to: N4_UPF,
                bytes: asked.bytes.clone(),
            });
        }
        sent
    }

    fn ask(&mut self, now: Nanos, kind: u8, seid: Option<u64>, ies: &[Octets], purpose: Purpose) -> Datagram {
        self.sequence += 1;
        let bytes = wire::message(kind, seid, self.sequence, ies);
        let asked = Asked {
            bytes: bytes.clone(),
            purpose,
            sent: 1,
            next: now + T1,
        };
        self.asked.insert(self.sequence, asked);
        Datagram {
            from: self.address,
            to: N4_UPF,
            bytes,
        }
    }

    /// Sets its association up, again if it has one.
    pub fn set_up(&mut self, now: Nanos) -> Datagram {
        self.stage = Stage::Asking;
        let ies = [wire::node_v4(self.ipv4()), wire::recovery(self.started)];
        self.ask(now, 5, None, &ies, Purpose::Setup)
    }

    pub fn update(&mut self, now: Nanos) -> Datagram {
        let ies = [wire::node_v4(self.ipv4()), wire::cp_features(0)];
        self.ask(now, 7, None, &ies, Purpose::Update)
    }

    pub fn release(&mut self, now: Nanos) -> Datagram {
        self.stage = Stage::Asking;
        self.ask(now, 9, None, &[wire::node_v4(self.ipv4())], Purpose::Release)
    }

    /// Asks for a heartbeat now.
    pub fn make_sure(&mut self, now: Nanos) {
        self.is_sure = false;
        self.heartbeat = now;
    }

    pub fn establish(
        &mut self,
        now: Nanos,
        slot: u8,
        shape: Shape,
        ops: Vec<Op>,
        expect: Expect,
    ) -> Datagram {
        let node = match shape {
            Shape::UnknownNode => Ipv4Addr::new(127, 0, 0, 99),
            _ => self.ipv4(),
        };
        let cp = self.place(slot).cp();
        let mut ies = vec![wire::node_v4(node), wire::f_seid(cp, self.address.ip())];
        ies.extend(ops.iter().map(Op::encode));
        let asked = &mut self.slots[usize::from(slot)];
        (asked.is_busy, asked.is_overtaken) = (true, false);
        self.ask(now, 50, Some(0), &ies, Purpose::Establish(slot, ops, expect))
    }

    pub fn modify(&mut self, now: Nanos, slot: u8, ops: Vec<Op>, expect: Expect) -> Option<Datagram> {
        let up = self.slots[usize::from(slot)].session.as_ref()?.up;
        let mut ies = Vec::new();
        for op in &ops {
            if let Op::Rename(cp) = op {
                ies.push(wire::f_seid(*cp, self.address.ip()));
            }
            ies.push(op.encode());
        }
        let flags = ops.iter().fold(0, |flags, op| flags | op.flag());
        if flags != 0 {
            ies.push(ie(49, [flags]));
        }
        self.slots[usize::from(slot)].is_busy = true;
        Some(self.ask(now, 52, Some(up), &ies, Purpose::Modify(slot, ops, expect)))
    }

    pub fn delete(&mut self, now: Nanos, slot: u8) -> Option<Datagram> {
        let up = self.slots[usize::from(slot)].session.as_ref()?.up;
        self.slots[usize::from(slot)].is_busy = true;
        Some(self.ask(now, 54, Some(up), &[], Purpose::Delete(slot)))
    }

    /// A datagram has come.
    pub fn receive(&mut self, frame: &Frame<'_>, bytes: &[u8]) -> Received {
        let (kind, sequence) = (frame.header.message_type.0, frame.header.sequence.get());
        match kind {
            1 => return Received::Heartbeat { sequence },
            56 => {
                let cp = frame.header.seid.map_or(0, |seid| seid.0);
                return Received::Report { cp, sequence };
            }
            _ => {}
        }
        let is_it = |asked: &Asked| asked.bytes[1] + 1 == kind;
        if self.asked.get(&sequence).is_some_and(is_it)
            && let Some(asked) = self.asked.remove(&sequence)
        {
            self.answers.insert((kind, sequence), bytes.to_vec());
            return Received::Answer(asked.purpose);
        }
        if let Some(first) = self.answers.get(&(kind, sequence)) {
            assert_eq!(first, bytes, "every answer to one request is the same");
        }
        Received::Again
    }

    /// An answer to a request of the UPF.
    pub fn answer(&self, kind: u8, cp: u64, sequence: u32) -> Datagram {
        let bytes = if kind == 2 {
            wire::message(2, None, sequence, &[wire::recovery(self.started)])
        } else {
            let known = self.slots.iter().filter_map(|slot| slot.session.as_ref());
            let session = known.into_iter().find(|session| session.cp == cp);
            let cause = if session.is_some() { 1 } else { 65 };
            let up = session.map_or(0, |session| session.up);
            wire::message(kind, Some(up), sequence, &[ie(19, [cause])])
        };
        Datagram {
            from: self.address,
            to: N4_UPF,
            bytes,
        }
    }
}

/// The one message of a datagram.
pub fn frame(bytes: &[u8]) -> Frame<'_> {
    let mut frames = Frames::new(bytes);
    frames.next().expect("a message").expect("a good header")
}

/// What an answer says.
pub struct Reply {
    pub cause: u8,
    pub up: Option<u64>,
    pub grants: Grants,
    /// URR and octets.
    pub usage: Vec<(u32, u64)>,
    pub started: Option<u32>,
}

/// Reads an answer.
pub fn reply(frame: &Frame<'_>) -> Reply {
    let mut reply = Reply {
        cause: 1,
        up: None,
        grants: Grants::default(),
        usage: Vec::new(),
        started: None,
    };
    match Message::decode(frame).expect("a good answer") {
        Message::HeartbeatResponse(answer) => reply.started = Some(answer.recovery_time_stamp.0),
        Message::AssociationSetupResponse(answer) => {
            reply.cause = answer.cause.value();
            reply.started = answer.recovery_time_stamp.map(|stamp| stamp.0);
        }
        Message::AssociationUpdateResponse(answer) => reply.cause = answer.cause.value(),
        Message::AssociationReleaseResponse(answer) => reply.cause = answer.cause.value(),
        Message::SessionEstablishmentResponse(answer) => {
            reply.cause = answer.cause.value();
            reply.up = answer.up_f_seid.map(|own| own.seid.0);
            for one in &answer.created_pdr {
                let ue = one.ue_ip_address.iter().next();
                reply
                    .grants
                    .pdrs
                    .insert(one.pdr_id.0, grant(one.local_f_teid, ue));
            }
            for one in &answer.created_traffic_endpoint {
                let ue = one.ue_ip_address.iter().next();
                let id = one.traffic_endpoint_id.0;
                reply.grants.endpoints.insert(id, grant(one.local_f_teid, ue));
            }
        }
        Message::SessionModificationResponse(answer) => {
            reply.cause = answer.cause.value();
            for one in &answer.created_pdr {
                let ue = one.ue_ip_address.iter().next();
                reply
                    .grants
                    .pdrs
                    .insert(one.pdr_id.0, grant(one.local_f_teid, ue));
            }
            for one in &answer.created_traffic_endpoint {
                let ue = one.ue_ip_address.iter().next();
                let id = one.traffic_endpoint_id.0;
                reply.grants.endpoints.insert(id, grant(one.local_f_teid, ue));
            }
            for one in &answer.usage_report {
                let octets = one.volume_measurement.and_then(|volume| volume.total);
                reply.usage.push((one.urr_id.0, octets.unwrap_or_default()));
            }
        }
        Message::SessionDeletionResponse(answer) => {
            reply.cause = answer.cause.value();
            for one in &answer.usage_report {
                let octets = one.volume_measurement.and_then(|volume| volume.total);
                reply.usage.push((one.urr_id.0, octets.unwrap_or_default()));
            }
        }
        other => panic!("{other:?}"),
    }
    reply
}

fn grant(f_teid: Option<WireFTeid>, ue: Option<WireUe>) -> Grant {
    let f_teid = f_teid.map(|own| match own {
        WireFTeid::Endpoint { teid, ipv4, ipv6 } => FTeid {
            teid: packet::Teid(teid.0),
            ipv4,
            ipv6,
        },
        other => panic!("{other:?}"),
    });
    let ue_ip = ue.map(|ue| UeIpAddress {
        ipv4: ue.ipv4,
        ipv6: ue.ipv6.map(|prefix| (prefix, 64)),
        is_destination: false,
    });
    Grant { f_teid, ue_ip }
}

//! ECN marking for L4S on behalf of the RAN (TS 23.501 §5.37.3, TS 29.244 §5.38.1), as the interpreter keeps account of
//! it: by what all packets so far are due.

use std::collections::BTreeMap;
use std::time::Duration;

use flow::{Direction, Nanos};
use packet::Qfi;
use packet::gtpu::ExtensionType;
use packet::psc::{NewIes, PduSessionContainer};

use super::arrival::{Arrival, Tunnelled};
use super::build::fill_ipv4_checksum;
use super::session::Session;
use crate::model::{OuterHeaderCreation, Pdr, Qer, SessionRules};

/// Who says which packets are marked.
pub enum CongestionMarks<'a> {
    /// Another one keeps account, and this packet's turn has come or has not.
    Turn(bool),
    /// These reports, as of now.
    Reports(&'a mut ReferenceCongestion, Nanos),
}

/// What base stations have reported to a session, and what its packets are due for that.
#[derive(Clone, Debug, Default)]
pub struct ReferenceCongestion {
    /// How long a report holds; `None`: until the next one.
    age: Option<Duration>,
    /// By QoS flow (`None`: all of the session), and direction.
    reported: BTreeMap<(Option<Qfi>, Direction), Reported>,
    /// Packets that have left with a mark.
    pub marked: u64,
}

#[derive(Clone, Copy, Debug)]
struct Reported {
    at: Nanos,
    /// How many of ten thousand packets are marked.
    part: u64,
    /// How many ten thousandths of a mark all packets are due that have left so far.
    due: u64,
}

impl Reported {
    /// Whether one more packet is one more mark.
    const fn is_full(&self) -> bool {
        self.due / 10_000 < (self.due + self.part) / 10_000
    }
}

impl ReferenceCongestion {
    /// Nothing is reported. What is, holds for this long; `None`: until the next report.
    pub fn new(age: Option<Duration>) -> Self {
        Self {
            age,
            ..Self::default()
        }
    }

    fn report(&mut self, qfi: Option<Qfi>, direction: Direction, part: u16, now: Nanos) {
        let fresh = Reported {
            at: now,
            part: 0,
            due: 0,
        };
        let reported = self.reported.entry((qfi, direction)).or_insert(fresh);
        (reported.at, reported.part) = (now, u64::from(part).min(10_000));
    }

    fn of(&mut self, qfi: Option<Qfi>, direction: Direction, now: Nanos) -> Option<&mut Reported> {
        let age = self.age;
        let reported = self.reported.get_mut(&(qfi, direction));
        reported.filter(|reported| age.is_none_or(|age| now <= reported.at + age))
    }

    /// The rules change: another peer has reported nothing, nor has one to a QoS flow that was not marked.
    pub fn change(&mut self, before: &SessionRules, rules: &SessionRules) {
        if peers(before) != peers(rules) {
            self.reported.clear();
        }
        let is_marked = |qfi| rules.qers().iter().any(|qer| marks(qer) && qer.qfi == qfi);
        self.reported.retain(|(qfi, _), _| is_marked(*qfi));
    }
}

/// Where tunnels lead to.
fn peers(rules: &SessionRules) -> Vec<OuterHeaderCreation> {
    let parameters = rules.fars().iter().filter_map(|far| far.forwarding);
    parameters.filter_map(|to| to.outer_header_creation).collect()
}

fn marks(qer: &Qer) -> bool {
    qer.optional.marks_l4s
}

/// A G-PDU of a base station may report: what it says holds from now on. Whether it says anything to a session that
/// heeds it.
pub(super) fn heed_report(
    session: Session<'_>,
    arrival: &Arrival<'_>,
    marking: &mut CongestionMarks<'_>,
) -> bool {
    let Arrival::Tunnel(tunnel) = arrival else {
        return false;
    };
    let marked: Vec<&Qer> = session.rules.qers().iter().filter(|qer| marks(qer)).collect();
    let Some((qfi, ies)) = report_in(tunnel).filter(|_| !marked.is_empty()) else {
        return false;
    };
    if let CongestionMarks::Reports(congestion, now) = marking {
        let parts = [
            (Direction::Uplink, ies.ul_congestion),
            (Direction::Downlink, ies.dl_congestion),
        ];
        for qer in marked
            .iter()
            .filter(|qer| qer.qfi.is_none() || qer.qfi == Some(qfi))
        {
            for (direction, part) in parts {
                if let Some(part) = part {
                    congestion.report(qer.qfi, direction, part, *now);
                }
            }
        }
    }
    true
}

/// What a message reports in its first PDU Session Container.
fn report_in(tunnel: &Tunnelled<'_>) -> Option<(Qfi, NewIes)> {
    let kind = ExtensionType::PDU_SESSION_CONTAINER;
    let container = tunnel.extensions.iter().find(|header| header.kind == kind)?;
    let Ok(PduSessionContainer::Uplink(from_ran)) = PduSessionContainer::parse(container.content) else {
        return None;
    };
    let says = from_ran.new.ul_congestion.or(from_ran.new.dl_congestion);
    says.map(|_| (from_ran.qfi, from_ran.new))
}

/// The QoS flow whose reports a packet is marked by: that of the first of the session's QERs that asks for it and that
/// the packet's PDR names.
fn marked_flow(session: Session<'_>, pdr: &Pdr) -> Option<Option<Qfi>> {
    let mut qers = session.rules.qers().iter();
    let first = qers.find(|qer| marks(qer) && pdr.qers.contains(&qer.id))?;
    Some(first.qfi)
}

/// The user's packet as it leaves marked, if its turn has come: one of a scalable sender, with ECT(1) (RFC 9331 §4.1).
pub(super) fn marked(
    session: Session<'_>,
    pdr: &Pdr,
    direction: Direction,
    user: &[u8],
    marking: &mut CongestionMarks<'_>,
) -> Option<Vec<u8>> {
    let qfi = marked_flow(session, pdr)?;
    let takes_turn = match marking {
        CongestionMarks::Turn(takes_turn) => *takes_turn,
        CongestionMarks::Reports(congestion, now) => congestion.of(qfi, direction, *now)?.is_full(),
    };
    (takes_turn && ecn(user) == Some(1)).then(|| with_ce(user))
}

/// A packet leaves: it is due its part of a mark.
pub(super) fn note_left(
    session: Session<'_>,
    pdr: &Pdr,
    direction: Direction,
    user: &[u8],
    marking: &mut CongestionMarks<'_>,
) {
    let (CongestionMarks::Reports(congestion, now), Some(qfi)) = (marking, marked_flow(session, pdr)) else {
        return;
    };
    let Some(reported) = congestion
        .of(qfi, direction, *now)
        .filter(|_| ecn(user) == Some(1))
    else {
        return;
    };
    let is_marked = reported.is_full();
    reported.due += reported.part;
    congestion.marked += u64::from(is_marked);
}

/// The ECN field (RFC 3168 §5).
fn ecn(user: &[u8]) -> Option<u8> {
    let (first, second) = (user.first()?, user.get(1)?);
    Some(if first >> 4 == 6 {
        second >> 4 & 3
    } else {
        second & 3
    })
}

fn with_ce(user: &[u8]) -> Vec<u8> {
    let mut marked = user.to_vec();
    match marked.first_chunk_mut::<2>() {
        Some([first, second]) if *first >> 4 == 6 => *second |= 0x30,
        Some([first, second]) => {
            *second |= 3;
            let len = usize::from(*first & 0x0f) * 4;
            marked.get_mut(..len).into_iter().for_each(fill_ipv4_checksum);
        }
        None => {}
    }
    marked
}

//! ECN marking for L4S on behalf of the RAN (TS 23.501 §5.37.3, TS 29.244 §5.38.1).
//!
//! A base station that does not mark packets itself says in the PDU Session Container of uplink packets which part of a
//! QoS flow's packets is to be marked, for each direction (TS 38.415 §5.5.2.2). Where a QER asks for it (EML4S), this
//! part of the packets of scalable senders leaves with CE, evenly: what a packet lacks of a mark is carried on to the
//! next. Other packets are never marked. A report that is too old says nothing any more: a base station may have
//! ceased to report.
//!
//! Only sessions with such a QER are here, and a worker without any does nothing. Where a session moves to another
//! worker, what was reported goes along: as it begins to leave, and once more when it has left, since reports may come
//! to either worker meanwhile. The later report of a QoS flow holds.

use std::collections::HashMap;
use std::time::Duration;

use flow::{Blocks, Direction, Nanos, SessionIndex};
use packet::gtpu::{ExtensionType, MessageType};
use packet::psc::{NewIes, PduSessionContainer};
use packet::{DropReason, PacketBuf, Qfi, ecn};
use rules::classifier::Side;
use rules::image::{CongestionReport, MeterShare, ReportedCongestion, SessionImage};
use rules::model::{Far, OuterHeaderCreation};

use crate::burst::batch::BURST;
use crate::burst::descriptor::{Descriptor, Fate, Kind};
use crate::ingress::parse::read_again;
use crate::io::PacketMetadata;
use crate::sessions::Sessions;
use crate::stats::Stats;

/// The field of packets of scalable senders (RFC 9331 §4.1).
const ECT_1: u8 = 0b01;

/// The unit of reports: all packets are 100.00 percent.
const WHOLE: u16 = 10_000;

/// A report of one direction has come. What packets lacked of a mark stays.
fn note(last: &mut Option<CongestionReport>, part: u16, now: Nanos) {
    *last = Some(CongestionReport {
        at: now,
        part: part.min(WHOLE),
        owed: last.map_or(0, |last| last.owed),
    });
}

/// Whether the next packet is marked.
fn takes_next(report: &mut CongestionReport) -> bool {
    report.owed += report.part;
    let takes = report.owed >= WHOLE;
    if takes {
        report.owed -= WHOLE;
    }
    takes
}

/// A QoS flow whose packets are marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MarkedFlow {
    /// `None`: its QERs name none, and all reports of the session are for it.
    qfi: Option<Qfi>,
    /// The slots of its QERs that ask for it.
    qers: u64,
    /// By [`Direction`].
    reports: [Option<CongestionReport>; 2],
}

impl MarkedFlow {
    /// What was reported of this QoS flow elsewhere holds, where it is later.
    fn bring(&mut self, elsewhere: &ReportedCongestion) {
        for (own, other) in self.reports.iter_mut().zip(elsewhere.reports) {
            let at = |report: Option<CongestionReport>| report.map(|report| report.at);
            if at(other) > at(*own) {
                *own = other;
            }
        }
    }
}

/// A session of which some are.
#[derive(Clone, Debug, Default)]
struct MarkedSession {
    flows: Vec<MarkedFlow>,
    /// The tunnels towards its peers: with another base station there is another one.
    towards: Vec<OuterHeaderCreation>,
}

impl MarkedSession {
    fn of(image: &SessionImage) -> Self {
        let mut flows: Vec<MarkedFlow> = Vec::new();
        for (slot, qer) in image.rules.qers().iter().enumerate().take(64) {
            if !qer.optional.marks_l4s {
                continue;
            }
            match flows.iter_mut().find(|flow| flow.qfi == qer.qfi) {
                Some(flow) => flow.qers |= 1 << slot,
                None => flows.push(MarkedFlow {
                    qfi: qer.qfi,
                    qers: 1 << slot,
                    reports: [None; 2],
                }),
            }
        }
        let header = |far: &Far| far.forwarding.as_ref()?.outer_header_creation;
        let towards = match flows[..] {
            [] => Vec::new(),
            _ => image.rules.fars().iter().filter_map(header).collect(),
        };
        Self { flows, towards }
    }

    fn flow(&mut self, qfi: Option<Qfi>) -> Option<&mut MarkedFlow> {
        self.flows.iter_mut().find(|flow| flow.qfi == qfi)
    }

    /// The QoS flow of packets with these QERs: that of the first of them that asks for marks.
    fn flow_of(&mut self, qers: u64) -> Option<&mut MarkedFlow> {
        let first = |flow: &MarkedFlow| (flow.qers & qers).trailing_zeros();
        let flows = self.flows.iter_mut().filter(|flow| flow.qers & qers != 0);
        flows.min_by_key(|flow| first(flow))
    }

    /// What was reported, if anything was.
    fn reported(&self) -> Vec<ReportedCongestion> {
        let is_reported = |flow: &&MarkedFlow| flow.reports != [None; 2];
        let reported = |flow: &MarkedFlow| ReportedCongestion {
            qfi: flow.qfi,
            reports: flow.reports,
        };
        self.flows.iter().filter(is_reported).map(reported).collect()
    }
}

/// The QoS flows that are marked, of all sessions of a worker.
pub(crate) struct RanCongestion {
    /// How long a report holds; `None`: until the next one.
    age: Option<Duration>,
    sessions: HashMap<SessionIndex, MarkedSession, foldhash::quality::RandomState>,
}

impl RanCongestion {
    /// Reports hold for this long; `None`: until the next one.
    pub fn new(age: Option<Duration>) -> Self {
        Self {
            age,
            sessions: HashMap::default(),
        }
    }

    /// Whether no session has any.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// A session has this image from now on, or has ended. What was reported of a QoS flow stays, as long as its
    /// tunnels lead to the same peers, and comes along with the image. Gives what was reported, for the worker that
    /// the session goes to.
    pub fn follow(
        &mut self,
        session: SessionIndex,
        image: Option<&mut SessionImage>,
    ) -> Vec<ReportedCongestion> {
        let Some(image) = image else {
            let ended = (!self.is_empty()).then(|| self.sessions.remove(&session));
            return ended.flatten().unwrap_or_default().reported();
        };
        let brought = image.take_congestion();
        let mut marked = MarkedSession::of(image);
        if marked.flows.is_empty() {
            if !self.is_empty() {
                self.sessions.remove(&session);
            }
            return Vec::new();
        }
        let before = self.sessions.remove(&session);
        let before = before.filter(|before| before.towards == marked.towards);
        for old in before.into_iter().flat_map(|before| before.flows) {
            if let Some(flow) = marked.flow(old.qfi) {
                flow.reports = old.reports;
            }
        }
        for elsewhere in &brought {
            if let Some(flow) = marked.flow(elsewhere.qfi) {
                flow.bring(elsewhere);
            }
        }
        let told = match image.meter_share {
            MeterShare::Leaving => marked.reported(),
            MeterShare::Whole | MeterShare::Arriving => Vec::new(),
        };
        self.sessions.insert(session, marked);
        told
    }

    /// Reads what the packets of a burst report, as they were received. A packet that is there for that alone has no
    /// user packet, and has done its work.
    #[cold]
    #[inline(never)]
    pub fn read_reports<B: PacketBuf + PacketMetadata>(
        &mut self,
        packets: &[B],
        descriptors: &mut [Descriptor],
        sessions: &Sessions,
        stats: &mut Stats,
        now: Nanos,
    ) {
        for (packet, descriptor) in packets.iter().zip(descriptors) {
            let may_report = descriptor
                .tunnel
                .is_some_and(|tunnel| tunnel.has_psc && tunnel.message_type == MessageType::G_PDU);
            let is_dummy = descriptor.fate == Fate::Drop(DropReason::EmptyTunnelPayload);
            // What waited in a buffer was read as it came.
            let is_read = packet.ingress().has_waited();
            if !may_report || is_read || !(is_dummy || descriptor.is_open()) {
                continue;
            }
            let session = of_base_station(descriptor, sessions);
            let Some(marked) = session.and_then(|session| self.sessions.get_mut(&session)) else {
                continue;
            };
            let Some((qfi, report)) = report_of(packet) else {
                continue;
            };
            stats.congestion_reports += 1;
            let parts = [report.ul_congestion, report.dl_congestion];
            for flow in marked
                .flows
                .iter_mut()
                .filter(|flow| flow.qfi.is_none_or(|own| own == qfi))
            {
                for (last, part) in flow.reports.iter_mut().zip(parts) {
                    part.into_iter().for_each(|part| note(last, part, now));
                }
            }
            if is_dummy {
                descriptor.fate = Fate::Consumed;
            }
        }
    }

    /// Marks the packets of a burst that leave, as far as they are to be. Gives which ones: bit n is index n.
    #[cold]
    #[inline(never)]
    pub fn mark<B: PacketBuf + PacketMetadata>(
        &mut self,
        packets: &mut [B],
        descriptors: &[Descriptor],
        blocks: &Blocks,
        stats: &mut Stats,
        now: Nanos,
    ) -> u64 {
        let mut marked = 0_u64;
        for (index, (packet, descriptor)) in packets.iter_mut().zip(descriptors).enumerate() {
            if self.mark_one(packet, descriptor, blocks, now).is_some() {
                marked |= 1 << (index % BURST);
            }
        }
        stats.congestion_marks += u64::from(marked.count_ones());
        marked
    }

    /// Marks a packet, if it is to be.
    fn mark_one<B: PacketBuf + PacketMetadata>(
        &mut self,
        packet: &mut B,
        descriptor: &Descriptor,
        blocks: &Blocks,
        now: Nanos,
    ) -> Option<()> {
        let verdict = &descriptor.verdict;
        let leaves = matches!(descriptor.fate, Fate::Send(_) | Fate::Split(_));
        // A message of a tunnel has no user packet.
        if !leaves || descriptor.kind == Kind::Relayed || !verdict.is_some() || packet.ingress().is_own() {
            return None;
        }
        let direction: Direction = verdict.direction();
        let session = blocks.session_in(verdict.block, direction)?;
        let age = self.age;
        let flow = self.sessions.get_mut(&session)?.flow_of(verdict.qers)?;
        let user = packet.len().checked_sub(descriptor.octets.into())?;
        let report = flow.reports[direction as usize].as_mut()?;
        let is_over = age.is_some_and(|age| now.since(report.at) > age);
        if is_over || ecn::of(packet.data(), user) != ECT_1 || !takes_next(report) {
            return None;
        }
        let asks = packet.asks_udp_checksum().is_some();
        ecn::mark(packet.data_mut(), user, asks).ok()
    }
}

/// The session of a packet that comes up: a peer behind a downlink tunnel is no base station.
fn of_base_station(descriptor: &Descriptor, sessions: &Sessions) -> Option<SessionIndex> {
    let verdict = &descriptor.verdict;
    let (session, direction) = match (verdict.is_some(), descriptor.side) {
        (true, _) => (sessions.of(verdict)?, verdict.direction()),
        // It has no user packet, and so no verdict.
        (false, Side::Tunnel { local, teid, qfi }) => {
            let session = sessions.find(descriptor.side, None).ok()?;
            let classifier = &sessions.at(session)?.classifier;
            (
                session,
                classifier.classify_signalling(local, teid, qfi)?.direction,
            )
        }
        (false, Side::Plain { .. }) => return None,
    };
    (direction == Direction::Uplink).then_some(session)
}

/// What a packet says about the congestion of its QoS flow, if it does.
fn report_of<B: PacketBuf>(packet: &B) -> Option<(Qfi, NewIes)> {
    let gtpu = read_again(packet).ok()?;
    let message = gtpu.message(packet.data()).ok()?;
    let content = message.extensions.find(ExtensionType::PDU_SESSION_CONTAINER)?;
    match PduSessionContainer::parse(content) {
        Ok(PduSessionContainer::Uplink(uplink)) => {
            let reports = uplink.new.ul_congestion.is_some() || uplink.new.dl_congestion.is_some();
            reports.then_some((uplink.qfi, uplink.new))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against the exact product: of any number of packets in a row, as many are marked as the part says, but for
        /// less than one.
        #[test]
        fn a_part_of_any_packets_in_a_row_is_marked_and_no_more(
            part in 0_u16..=12_000, skipped in 0_usize..300, packets in 0_usize..2_000,
        ) {
            let mut report = reported(part);
            let marks: Vec<bool> = (0..skipped + packets).map(|_| takes_next(&mut report)).collect();
            let count = marks[skipped..].iter().filter(|is_marked| **is_marked).count() as u64;
            let (exact, whole) = (packets as u64 * u64::from(part.min(WHOLE)), u64::from(WHOLE));
            prop_assert!(count * whole < exact + whole && exact < (count + 1) * whole, "{count}");
        }
    }

    fn reported(part: u16) -> CongestionReport {
        let mut report = None;
        note(&mut report, part, Nanos::ZERO);
        report.expect("it was noted")
    }

    #[test]
    fn none_and_all_are_marked() {
        let mut none = reported(0);
        assert!((0..100).all(|_| !takes_next(&mut none)));
        let mut all = Some(none);
        note(&mut all, u16::MAX, Nanos::ZERO);
        let mut all = all.expect("it was noted");
        assert!((0..100).all(|_| takes_next(&mut all)));
    }

    /// Reports to two workers that share a session give the same afterwards, whichever has it last.
    #[test]
    fn the_later_report_of_each_direction_holds() {
        let at = |nanos, part| {
            let mut report = None;
            note(&mut report, part, Nanos(nanos));
            report
        };
        let with = |reports| MarkedFlow {
            qfi: None,
            qers: 1,
            reports,
        };
        let (one, other) = ([at(1, 100), at(5, 200)], [at(3, 300), None]);
        for (here, elsewhere) in [(one, other), (other, one)] {
            let mut flow = with(here);
            flow.bring(&ReportedCongestion {
                qfi: None,
                reports: elsewhere,
            });
            assert_eq!(flow.reports, [at(3, 300), at(5, 200)]);
        }
    }
}

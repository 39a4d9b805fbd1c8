//! What is reported and copied of the packets of a burst that trace requests select.

use std::sync::Arc;

use dpi::Protocol;
use flow::{Direction, KeyFields, Nanos, PortId, WorkerId};
use packet::{DropReason, IpTuple, PacketBuf};
use rules::classifier::Side;
use rules::{DetectedFlow, NameSource};
use transport::Adjacencies;

use crate::burst::Burst;
use crate::burst::descriptor::{Deferral, Descriptor, Family, Fate, Kind, PacketFlags, PacketKey};
use crate::egress::fragmentation::Fragmenter;
use crate::egress::path_mtus::PathMtus;
use crate::egress::ports::{OwnPacket, Ports};
use crate::egress::tx_queues::MAX_RECIRCULATIONS;
use crate::ingress::parse::read_again;
use crate::io::{Io, PacketMetadata};
use crate::lookup::flow_tables::Flows;
use crate::nat::NatStage;
use crate::offload::homes::{Homes, Place};
use crate::sessions::{Sessions, Slot};
use crate::slow_path::SlowPath;
use crate::slow_path::inspection::{KnownFlow, Owner, has_payload, query_of};
use crate::stats::Stats;
use crate::trace::copying::CopyTerms;
use crate::trace::report::{
    TraceSource, Traced, TracedDecision, TracedDetection, TracedEnd, TracedFlow, TracedFrame, TracedLookup,
    TracedPlace, TracedSession, TracedTranslation, keep,
};
use crate::trace::request::TraceFilter;
use crate::trace::tracer::{Copied, Head, Pending, Tracer};

/// A port without recirculations and marks.
fn plain_port(port: PortId) -> PortId {
    port.with_recirculations(0)
}

/// Where a burst came from, as reports say it.
#[derive(Clone, Copy)]
pub(crate) struct TraceOrigin {
    /// That of its packets; recirculated ones count their rounds themselves.
    pub source: TraceSource,
    /// Its packets arrive for the first time.
    pub is_first: bool,
}

/// A burst as it is reported.
pub(crate) struct Observed<'a, B> {
    pub worker: WorkerId,
    pub burst: &'a Burst<B>,
    pub sessions: &'a Sessions,
    pub flows: &'a Flows,
    pub slow_path: &'a SlowPath,
    pub fragmenter: &'a Fragmenter<B>,
    pub path_mtus: &'a PathMtus,
    pub nat: Option<&'a NatStage>,
    /// Where sessions are, and the port towards the accelerator.
    pub offload: Option<(&'a Homes, PortId)>,
}

/// Notes what `lookup` found about the packets of a burst.
#[cold]
#[inline(never)]
pub(crate) fn note_lookup(tracer: &mut Tracer, descriptors: &[Descriptor], outdated: u64) {
    for (head, (index, descriptor)) in tracer.heads.iter_mut().zip(descriptors.iter().enumerate()) {
        head.lookup = match descriptor {
            _ if !descriptor.is_open_user() => TracedLookup::None,
            _ if descriptor.verdict.is_some() => TracedLookup::Hit {
                outdated: outdated >> index & 1 == 1,
            },
            _ if descriptor.flags.any(PacketFlags::STALE) => TracedLookup::Stale,
            _ if descriptor.family == Family::None => TracedLookup::None,
            _ => TracedLookup::Miss,
        };
    }
}

/// Reports the packets of a burst that was sent, of which ports rejected some if `has_lost`, and sends their copies.
#[cold]
#[inline(never)]
pub(crate) fn finish<I: Io>(
    tracer: &mut Tracer,
    ports: &mut Ports<I>,
    adjacencies: &Adjacencies,
    stats: &mut Stats,
    has_lost: bool,
) {
    for Pending {
        request, mut traced, ..
    } in tracer.pending.drain(..)
    {
        let sent = match &mut traced.end {
            TracedEnd::Sent {
                frame, port_was_full, ..
            } => Some((frame.port, port_was_full)),
            TracedEnd::GoesBack { port, port_was_full } => Some((*port, port_was_full)),
            _ => None,
        };
        if let Some((port, port_was_full)) = sent {
            let members = ports.lags.members(port).iter();
            let mut all = members.chain([&port]);
            *port_was_full = has_lost && all.any(|port| ports.tx.is_full(*port));
        }
        if let Some(running) = tracer.running.get_mut(request) {
            running.push(traced);
        }
    }
    if !tracer.copies.is_empty() {
        send_copies(tracer, ports, adjacencies, stats);
    }
}

fn send_copies<I: Io>(
    tracer: &mut Tracer,
    ports: &mut Ports<I>,
    adjacencies: &Adjacencies,
    stats: &mut Stats,
) {
    for Copied { request, frame } in tracer.copies.drain(..) {
        let Some(running) = tracer.running.get_mut(request) else {
            continue;
        };
        let copy = running.copies.as_ref().and_then(|wanted| {
            let mut packet = ports.io.alloc()?;
            let port = wanted.to.fill(adjacencies, &mut packet, &frame)?;
            Some(OwnPacket { port, packet })
        });
        match copy {
            Some(copy) => {
                stats.mirrored += 1;
                stats.originated += 1;
                ports.send_own(stats, copy);
            }
            None => {
                stats.mirrors_lost += 1;
                running.lose();
            }
        }
    }
    ports.flush(stats);
}

impl<B: PacketBuf + PacketMetadata> Observed<'_, B> {
    /// Notes what is reported of the packets that requests select. Their fates are final, and they are not sent yet.
    #[cold]
    #[inline(never)]
    pub fn note(&self, tracer: &mut Tracer, origin: TraceOrigin, now: Nanos) {
        let Tracer {
            running,
            heads,
            pending,
            copies,
            ..
        } = tracer;
        for (index, head) in heads.iter().enumerate().take(self.burst.len()) {
            for (request, running) in running.iter_mut().enumerate() {
                let terms = running.terms;
                if running.is_over(now) || !self.is_wanted(&terms.filter, index, head) {
                    continue;
                }
                if let Some(wanted) = &running.copies {
                    let frames = self.frames_wanted((index, head), origin, wanted, terms.snap.into());
                    if frames.iter().any(Option::is_some) && running.admit(now).is_some() {
                        let frames = frames.into_iter().flatten();
                        copies.extend(frames.map(|frame| Copied { request, frame }));
                    }
                } else if let Some(number) = running.admit(now) {
                    let traced = self.traced((index, head), (origin, now), terms.snap.into(), number);
                    pending.push(Pending {
                        request,
                        index,
                        traced,
                    });
                }
            }
        }
    }

    /// What is copied of a packet: as it came in, and as it leaves. A packet that is deferred, recirculated or handed
    /// to another worker comes here several times, and has come in once; what is about the copies themselves is not
    /// copied.
    fn frames_wanted(
        &self,
        (index, head): (usize, &Head),
        source: TraceOrigin,
        wanted: &CopyTerms,
        snap: usize,
    ) -> [Option<Vec<u8>>; 2] {
        let fate = self.burst.descriptors[index].fate;
        if matches!(fate, Fate::HandOver(_)) || wanted.to.is_end_of(&head.frame) {
            return [None, None];
        }
        let has_come = source.is_first;
        [
            (wanted.received && has_come).then(|| head.frame.start(snap).to_vec()),
            wanted.sent.then(|| self.frame_sent(index, snap)).flatten(),
        ]
    }

    /// The first octets of a packet that leaves by a port, as it does.
    fn frame_sent(&self, index: usize, snap: usize) -> Option<Vec<u8>> {
        let (Fate::Send(port) | Fate::Split(port)) = self.burst.descriptors[index].fate else {
            return None;
        };
        let data = self.burst.packets[index].data();
        (port.recirculations() == 0).then(|| data[..data.len().min(snap)].to_vec())
    }

    fn is_wanted(&self, filter: &TraceFilter, index: usize, head: &Head) -> bool {
        let TraceFilter {
            ue,
            teid,
            seid,
            flow,
            port,
        } = *filter;
        let descriptor = &self.burst.descriptors[index];
        let out = match descriptor.fate {
            Fate::Send(port) if port.recirculations() == 0 => Some(plain_port(port)),
            _ => None,
        };
        if port.is_some_and(|port| plain_port(head.ingress) != port && out != Some(port)) {
            return false;
        }
        if ue.is_none() && teid.is_none() && seid.is_none() && flow.is_none() {
            return true;
        }
        let tuple = self.user_tuple(index, head);
        let is_of_flow = |tuple: &IpTuple| {
            let [source, destination] = [tuple.addrs.src(), tuple.addrs.dst()];
            let (from, to) = ((source, tuple.src_port), (destination, tuple.dst_port));
            flow.is_none_or(|flow| flow.is(tuple.proto, from, to))
        };
        if flow.is_some() && !tuple.as_ref().is_some_and(is_of_flow) {
            return false;
        }
        let image = self.slot_of(index).map(|slot| &slot.image);
        if seid.is_some_and(|seid| image.is_none_or(|image| image.seid != seid)) {
            return false;
        }
        if teid.is_some_and(|teid| {
            let came = matches!(descriptor.side, Side::Tunnel { teid: own, .. } if own == teid)
                && matches!(descriptor.kind, Kind::Tunnelled | Kind::Relayed);
            let leaves = || {
                let sent = matches!(descriptor.fate, Fate::Send(_));
                sent && read_again(&self.burst.packets[index]).is_ok_and(|gtpu| gtpu.teid == teid)
            };
            !came && !leaves()
        }) {
            return false;
        }
        ue.is_none_or(|ue| {
            let is_end = tuple.is_some_and(|tuple| tuple.addrs.src() == ue || tuple.addrs.dst() == ue);
            let has =
                || image.is_some_and(|image| image.ue_addresses.iter().any(|(_, own)| own.contains(ue)));
            is_end || has()
        })
    }

    /// What the user packet says, as it came in; of a fragment with the ports of its first one, if they are known.
    fn user_tuple(&self, index: usize, head: &Head) -> Option<IpTuple> {
        let descriptor = &self.burst.descriptors[index];
        if !descriptor.kind.is_user() {
            return None;
        }
        let known = self.burst.keys.tuple(index, descriptor.family, false);
        known.or_else(|| descriptor.tuple(&head.frame.octets).ok())
    }

    /// The session of a packet: that of its decision, or the one that would have had to decide.
    fn slot_of(&self, index: usize) -> Option<&Slot> {
        let descriptor = &self.burst.descriptors[index];
        if !descriptor.kind.is_user() || matches!(descriptor.fate, Fate::HandOver(_)) {
            return None;
        }
        let block = descriptor.verdict.is_some().then_some(descriptor.verdict.block);
        let decided = block.and_then(|block| Some(self.sessions.blocks.get(block)?.session()));
        let destination = self.burst.keys.destination(index, descriptor.family);
        let session = decided.or_else(|| self.sessions.find(descriptor.side, destination).ok())?;
        self.sessions.at(session)
    }

    fn traced(
        &self,
        (index, head): (usize, &Head),
        (source, now): (TraceOrigin, Nanos),
        snap: usize,
        number: u64,
    ) -> Box<Traced> {
        let descriptor = &self.burst.descriptors[index];
        let knows_place = descriptor.kind != Kind::None;
        let decision = self.traced_decision(index);
        let direction = decision.as_ref().map(|decision| decision.direction);
        Box::new(Traced {
            worker: self.worker,
            number,
            time: now,
            source: match source.source {
                TraceSource::Recirculated(_) => TraceSource::Recirculated(head.ingress.recirculations()),
                source => source,
            },
            received: TracedFrame {
                port: plain_port(head.ingress),
                len: head.frame.len,
                octets: head.frame.start(snap).to_vec(),
            },
            instance: knows_place.then_some(descriptor.instance),
            flow: TracedFlow {
                lookup: head.lookup,
                is_postponed: matches!(head.lookup, TracedLookup::Hit { outdated: true })
                    && self.slow_path.has_put_off(index),
                entry: self.entry_of(index),
                detection: self.detection_of(index, head, now).map(Box::new),
                shows_detection: self.slow_path.has_shown(index),
                heeds_resolvers: self.slow_path.inspection.heeds_resolvers(),
            },
            session: self.traced_session(index, direction),
            decision,
            place: self.place_of(index),
            translation: self.translation(index),
            is_yellow: self.burst.outcome.yellow >> index & 1 == 1,
            is_congested: self.burst.outcome.congested >> index & 1 == 1,
            is_answer: head.ingress.is_answer(),
            is_own: head.ingress.is_own(),
            borrowed_ports: descriptor.flags.any(PacketFlags::RESOLVED),
            uses_path_mtus: descriptor.flags.any(PacketFlags::OPENING) && !self.path_mtus.is_empty(),
            end: self.traced_end(index, snap),
            queueing: None,
        })
    }

    /// The flow entry that the next packet like this one finds.
    fn entry_of(&self, index: usize) -> Option<(KeyFields, Direction)> {
        let descriptor = &self.burst.descriptors[index];
        let verdict = &descriptor.verdict;
        let is_there = verdict.is_some()
            && self.flows.has(
                PacketKey {
                    index,
                    keys: &self.burst.keys,
                },
                descriptor,
            );
        is_there.then(|| (descriptor.shape, verdict.direction()))
    }

    /// What its flow is, if it was inspected.
    fn detection_of(&self, index: usize, head: &Head, now: Nanos) -> Option<TracedDetection> {
        let inspection = &self.slow_path.inspection;
        if !inspection.is_on() {
            return None;
        }
        let tuple = self.user_tuple(index, head)?;
        let image = &self.slot_of(index)?.image;
        let direction = self.burst.descriptors[index].verdict.direction();
        let flow = (&tuple, direction == Direction::Uplink);
        let owner = Owner {
            session: image.session,
            seid: image.seid,
        };
        let mut name = None;
        let known = inspection.known_of_flow(owner, flow, now, &mut name)?;
        Some(match known {
            KnownFlow::Unseen => TracedDetection::Unseen,
            KnownFlow::Undecided(None) => TracedDetection::Undecided,
            KnownFlow::Undecided(Some(host)) => TracedDetection::Presumed(*host),
            KnownFlow::Undetected => TracedDetection::Undetected,
            KnownFlow::Found(DetectedFlow {
                protocol: Some(Protocol::Dns),
                ..
            }) => self.query_in(index, head),
            KnownFlow::Found(found) => TracedDetection::Found {
                protocol: found.protocol,
                by_ndpi: match found.protocol {
                    Some(Protocol::Ndpi(protocol)) => inspection.ndpi_name(protocol),
                    _ => None,
                },
                name: found.name.copied(),
                path: found.path.map(<[u8]>::to_vec),
                source: found.source,
            },
        })
    }

    /// What a packet of a flow of DNS asks for.
    fn query_in(&self, index: usize, head: &Head) -> TracedDetection {
        let (descriptor, octets) = (&self.burst.descriptors[index], &head.frame.octets);
        let name = query_of(octets, descriptor);
        match name.is_none() && descriptor.tunnel.is_some() && has_payload(octets, descriptor) {
            true => TracedDetection::Undetected,
            false => TracedDetection::Found {
                protocol: Some(Protocol::Dns),
                by_ndpi: None,
                name,
                path: None,
                source: NameSource::Client,
            },
        }
    }

    fn traced_decision(&self, index: usize) -> Option<TracedDecision> {
        let descriptor = &self.burst.descriptors[index];
        if !descriptor.verdict.is_some() {
            return None;
        }
        let verdict = &descriptor.verdict;
        let image = &self.slot_of(index)?.image;
        let pdr = image.rules.pdrs().get(usize::from(verdict.pdr))?;
        let slots = |mask: u64| (0..64u8).filter(move |slot| mask >> slot & 1 == 1);
        let qers = image.rules.qers();
        Some(TracedDecision {
            pdr: pdr.id,
            direction: verdict.direction(),
            qers: slots(verdict.qers)
                .filter_map(|slot| qers.get(usize::from(slot)))
                .map(|qer| qer.id)
                .collect(),
            urrs: slots(verdict.urrs)
                .filter_map(|slot| image.urr_ids.get(usize::from(slot)).copied())
                .collect(),
        })
    }

    fn place_of(&self, index: usize) -> Option<TracedPlace> {
        let (homes, _) = self.offload?;
        let session = self.slot_of(index)?.image.session;
        Some(match homes.place(session) {
            Place::Home => TracedPlace::Home(homes.why_stays(session)),
            Place::Leaving => TracedPlace::Leaving,
            Place::Opening | Place::Away => TracedPlace::Away,
            Place::Returning => TracedPlace::Returning,
        })
    }

    fn translation(&self, index: usize) -> Option<TracedTranslation> {
        self.nat?.translation(index, &self.burst.keys)
    }

    fn traced_session(&self, index: usize, direction: Option<Direction>) -> Option<TracedSession> {
        let slot = self.slot_of(index)?;
        let image = &slot.image;
        let block = self.sessions.blocks.get(slot.installed.block);
        let stopped = block.map_or(0, |block| match direction {
            Some(direction) => block.stopped(direction),
            None => block.stopped(Direction::Uplink) | block.stopped(Direction::Downlink),
        });
        let is_stopped = |slot: usize| slot < 64 && stopped >> slot & 1 == 1;
        let mut exhausted: Vec<_> = image.urr_ids.iter().enumerate().collect();
        exhausted.retain(|(slot, _)| {
            let mut events = image.event_slots();
            is_stopped(*slot)
                || events.any(|event| usize::from(event.urr) == *slot && is_stopped(event.slot.into()))
        });
        Some(TracedSession {
            session: image.session,
            seid: image.seid,
            rules: Arc::clone(&image.rules),
            counters: self
                .sessions
                .usage(image.session)
                .map(|usage| usage.counters)
                .unwrap_or_default(),
            exhausted: exhausted.into_iter().map(|(_, id)| *id).collect(),
        })
    }

    fn traced_end(&self, index: usize, snap: usize) -> TracedEnd {
        match self.burst.descriptors[index].fate {
            Fate::Send(port)
                if port.recirculations() > 0
                    && self.burst.packets[index].ingress().recirculations() >= MAX_RECIRCULATIONS =>
            {
                TracedEnd::Dropped(DropReason::RecirculationLimit)
            }
            // Nothing else leaves by that port but what goes back.
            Fate::Send(port) if self.offload.is_some_and(|(_, towards)| towards == port) => {
                TracedEnd::GoesBack {
                    port,
                    port_was_full: false,
                }
            }
            Fate::Send(port) | Fate::Split(port) => {
                let mut frame = TracedFrame {
                    port: plain_port(port),
                    len: 0,
                    octets: Vec::new(),
                };
                keep(&mut frame, &self.burst.packets[index], snap);
                TracedEnd::Sent {
                    frame,
                    recirculates: port.recirculations() > 0,
                    in_fragments: self.fragmenter.has(index),
                    port_was_full: false,
                }
            }
            Fate::Drop(reason) => TracedEnd::Dropped(reason),
            Fate::HandOver(worker) => TracedEnd::HandedOver(worker),
            Fate::Consumed => TracedEnd::Consumed,
            Fate::Host(_) => TracedEnd::ToHost,
            Fate::Defer(Deferral::Reassembly) => TracedEnd::Reassembling,
            Fate::Defer(Deferral::FirstFragment(_)) => TracedEnd::Held,
            Fate::Defer(Deferral::Buffer) => TracedEnd::Buffered,
            Fate::Defer(Deferral::Session) => TracedEnd::AwaitsSession,
            Fate::Defer(Deferral::Away(_)) => TracedEnd::AwaitsMove,
            // As `tx` has it.
            Fate::Open
            | Fate::Redirect
            | Fate::Defer(
                Deferral::Host(..) | Deferral::Settling(_) | Deferral::Asking(_) | Deferral::Queue { .. },
            ) => TracedEnd::Dropped(DropReason::UnsupportedAction),
        }
    }
}

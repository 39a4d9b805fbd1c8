//! Telling of single packets: see [`trace`](mod@crate::trace).

use std::sync::Arc;

use flow::{Direction, KeyFields, Nanos, PortId};
use packet::{DropReason, IpTuple, PacketBuf};
use rules::classifier::Side;

use super::{Source, Worker};
use crate::burst::descriptor::{Family, Fate, Kind, PacketFlags};
use crate::egress::tx_queues::MAX_RECIRCULATIONS;
use crate::ingress::parse::read_again;
use crate::io::{Ingress, Io};
use crate::sessions::Slot;
use crate::trace::copying::CopyTerms;
use crate::trace::{
    self, TraceFilter, TraceOrder, TraceSource, Traced, TracedDecision, TracedEnd, TracedFlow, TracedFrame,
    TracedLookup, TracedSession, Tracer,
};

/// A port without laps and marks.
fn plain_port(port: PortId) -> PortId {
    port.at_lap(0)
}

impl<I: Io> Worker<I> {
    /// Carries out an order from now on.
    #[cold]
    pub(super) fn take_trace(&mut self, order: TraceOrder, now: Nanos) {
        self.tidy_traces(now);
        self.tracer
            .get_or_insert_with(|| Box::new(Tracer::new()))
            .take(order, now);
    }

    /// Ends the orders that are over.
    #[cold]
    pub(super) fn tidy_traces(&mut self, now: Nanos) {
        let (events, stats) = (&mut self.events, &mut self.stats);
        let tracer = self.tracer.as_mut();
        if tracer.is_some_and(|tracer| !tracer.tidy(events, stats, now)) {
            self.tracer = None;
        }
    }

    /// The burst is as it came.
    #[cold]
    #[inline(never)]
    pub(super) fn trace_received(&mut self) {
        if let Some(tracer) = &mut self.tracer {
            tracer.keep(&self.burst);
        }
    }

    /// `lookup` has looked.
    #[cold]
    #[inline(never)]
    pub(super) fn trace_looked_up(&mut self, packets: usize, soft: u64) {
        let Some(tracer) = &mut self.tracer else { return };
        let descriptors = self.descriptors[..packets].iter().enumerate();
        for (head, (place, descriptor)) in tracer.heads.iter_mut().zip(descriptors) {
            head.lookup = match descriptor {
                _ if !descriptor.is_open_user() => TracedLookup::None,
                _ if descriptor.verdict.is_some() => TracedLookup::Hit {
                    outdated: soft >> place & 1 == 1,
                },
                _ if descriptor.flags.any(PacketFlags::STALE) => TracedLookup::Stale,
                _ if descriptor.family == Family::None => TracedLookup::None,
                _ => TracedLookup::Miss,
            };
        }
    }

    /// What becomes of the burst is settled, and its packets lie here still: what is to be told of those that are wanted
    /// is noted.
    #[cold]
    #[inline(never)]
    pub(super) fn trace_settled(&mut self, packets: usize, source: Source, now: Nanos) {
        let Some(mut tracer) = self.tracer.take() else {
            return;
        };
        let Tracer {
            running,
            heads,
            pending,
            copies,
        } = &mut *tracer;
        for (place, head) in heads.iter().enumerate().take(packets) {
            for (which, running) in running.iter_mut().enumerate() {
                let terms = running.terms;
                if running.is_over(now) || !self.is_wanted(&terms.filter, place, head) {
                    continue;
                }
                if let Some(wanted) = &running.copies {
                    let frames = self.frames_wanted((place, head), source, wanted, terms.snap.into());
                    if frames.iter().any(Option::is_some) && running.admit(now).is_some() {
                        copies.extend(frames.into_iter().flatten().map(|frame| (which, frame)));
                    }
                } else if let Some(number) = running.admit(now) {
                    let traced = self.traced((place, head), (source, now), terms.snap.into(), number);
                    pending.push((which, traced));
                }
            }
        }
        self.tracer = Some(tracer);
    }

    /// The burst has left, and so many packets found no room then: now it is told, and copies are sent.
    #[cold]
    #[inline(never)]
    pub(super) fn trace_left(&mut self, lost: u64) {
        let Some(mut tracer) = self.tracer.take() else {
            return;
        };
        for (which, mut traced) in tracer.pending.drain(..) {
            if let TracedEnd::Sent {
                frame, port_was_full, ..
            } = &mut traced.end
            {
                let members = self.lags.members(frame.port).iter();
                let mut ports = members.chain([&frame.port]);
                *port_was_full = lost > 0 && ports.any(|port| self.tx.is_full(*port));
            }
            if let Some(running) = tracer.running.get_mut(which) {
                running.tell(traced);
            }
        }
        if !tracer.copies.is_empty() {
            self.send_copies(&mut tracer);
        }
        self.tracer = Some(tracer);
    }

    fn send_copies(&mut self, tracer: &mut Tracer) {
        for (which, frame) in tracer.copies.drain(..) {
            let Some(running) = tracer.running.get_mut(which) else {
                continue;
            };
            let copy = running.copies.as_ref().and_then(|wanted| {
                let mut copy = self.io.alloc()?;
                let port = wanted.to.fill(&self.adjacencies, &mut copy, &frame)?;
                Some((port, copy))
            });
            match copy {
                Some((port, copy)) => {
                    self.stats.mirrored += 1;
                    self.stats.originated += 1;
                    self.send_own(port, copy);
                }
                None => {
                    self.stats.mirrors_lost += 1;
                    running.lose();
                }
            }
        }
        self.tx.flush(&mut self.io, &mut self.stats);
    }

    /// What is copied of a packet: as it came in, and as it leaves. A packet that waits, goes round or goes to another
    /// worker comes here several times, and has come in once; what is about the copies themselves is not copied.
    fn frames_wanted(
        &self,
        (place, head): (usize, &trace::Head),
        source: Source,
        wanted: &CopyTerms,
        snap: usize,
    ) -> [Option<Vec<u8>>; 2] {
        let fate = self.descriptors[place].fate;
        if matches!(fate, Fate::HandOver(_)) || wanted.to.is_end_of(&head.frame) {
            return [None, None];
        }
        let has_come = !matches!(source, Source::Held | Source::Flushed | Source::Round);
        [
            (wanted.received && has_come).then(|| head.frame.start(snap).to_vec()),
            wanted.sent.then(|| self.frame_sent(place, snap)).flatten(),
        ]
    }

    /// The first octets of a packet that leaves by a port, as it does.
    fn frame_sent(&self, place: usize, snap: usize) -> Option<Vec<u8>> {
        let (Fate::Send(port) | Fate::Split(port)) = self.descriptors[place].fate else {
            return None;
        };
        let data = self.burst[place].data();
        (port.lap() == 0).then(|| data[..data.len().min(snap)].to_vec())
    }

    fn is_wanted(&self, filter: &TraceFilter, place: usize, head: &trace::Head) -> bool {
        let TraceFilter {
            ue,
            teid,
            seid,
            flow,
            port,
        } = *filter;
        let descriptor = &self.descriptors[place];
        let out = match descriptor.fate {
            Fate::Send(port) if port.lap() == 0 => Some(plain_port(port)),
            _ => None,
        };
        if port.is_some_and(|port| plain_port(head.ingress) != port && out != Some(port)) {
            return false;
        }
        if ue.is_none() && teid.is_none() && seid.is_none() && flow.is_none() {
            return true;
        }
        let tuple = self.user_tuple(place, head);
        let is_of_flow = |tuple: &IpTuple| {
            let [source, destination] = [tuple.addrs.src(), tuple.addrs.dst()];
            let (from, to) = ((source, tuple.src_port), (destination, tuple.dst_port));
            flow.is_none_or(|flow| flow.is(tuple.proto, from, to))
        };
        if flow.is_some() && !tuple.as_ref().is_some_and(is_of_flow) {
            return false;
        }
        let image = self.slot_of(place).map(|slot| &slot.image);
        if seid.is_some_and(|seid| image.is_none_or(|image| image.seid != seid)) {
            return false;
        }
        if teid.is_some_and(|teid| {
            let came = matches!(descriptor.side, Side::Tunnel { teid: own, .. } if own == teid)
                && matches!(descriptor.kind, Kind::Tunnelled | Kind::Relayed);
            let leaves = || {
                let sent = matches!(descriptor.fate, Fate::Send(_));
                sent && read_again(&self.burst[place]).is_ok_and(|gtpu| gtpu.teid == teid)
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
    fn user_tuple(&self, place: usize, head: &trace::Head) -> Option<IpTuple> {
        let descriptor = &self.descriptors[place];
        if !descriptor.kind.is_user() {
            return None;
        }
        let known = self.keys.tuple(place, descriptor.family, false);
        known.or_else(|| descriptor.tuple(&head.frame.octets).ok())
    }

    /// The session of a packet: that of its decision, or the one that would have had to decide.
    fn slot_of(&self, place: usize) -> Option<&Slot> {
        let descriptor = &self.descriptors[place];
        if !descriptor.kind.is_user() || matches!(descriptor.fate, Fate::HandOver(_)) {
            return None;
        }
        let block = descriptor.verdict.is_some().then_some(descriptor.verdict.block);
        let decided = block.and_then(|block| Some(self.sessions.blocks.get(block)?.session()));
        let destination = self.keys.destination(place, descriptor.family);
        let session = decided.or_else(|| self.sessions.find(descriptor.side, destination).ok())?;
        self.sessions.at(session)
    }

    fn traced(
        &self,
        (place, head): (usize, &trace::Head),
        (source, now): (Source, Nanos),
        snap: usize,
        number: u64,
    ) -> Box<Traced> {
        let descriptor = &self.descriptors[place];
        let knows_place = descriptor.kind != Kind::None;
        let decision = self.traced_decision(place);
        let direction = decision.as_ref().map(|decision| decision.direction);
        Box::new(Traced {
            worker: self.config.id,
            number,
            time: now,
            source: match source {
                Source::Port(_) | Source::Urgent | Source::Backlog(_) => TraceSource::Port,
                Source::Inbox => TraceSource::Inbox,
                Source::Held => TraceSource::Held,
                Source::Reassembled => TraceSource::Reassembled,
                Source::Flushed => TraceSource::Waited,
                Source::Round => TraceSource::Round(head.ingress.lap()),
            },
            received: TracedFrame {
                port: plain_port(head.ingress),
                len: head.frame.len,
                octets: head.frame.start(snap).to_vec(),
            },
            instance: knows_place.then_some(descriptor.instance),
            flow: TracedFlow {
                lookup: head.lookup,
                is_put_off: matches!(head.lookup, TracedLookup::Hit { outdated: true })
                    && self.slow.has_put_off(place),
                entry: self.entry_of(place),
            },
            session: self.traced_session(place, direction),
            decision,
            is_yellow: self.yellow >> place & 1 == 1,
            is_answer: head.ingress.is_answer(),
            borrowed_ports: descriptor.flags.any(PacketFlags::RESOLVED),
            heeds_paths: descriptor.flags.any(PacketFlags::OPENING) && !self.path_mtus.is_empty(),
            end: self.traced_end(place, snap),
        })
    }

    /// The flow entry that the next packet like this one finds.
    fn entry_of(&self, place: usize) -> Option<(KeyFields, Direction)> {
        let descriptor = &self.descriptors[place];
        let verdict = &descriptor.verdict;
        let is_there = verdict.is_some() && self.flows.has(&self.keys, (place, descriptor));
        is_there.then(|| (descriptor.shape, verdict.direction()))
    }

    fn traced_decision(&self, place: usize) -> Option<TracedDecision> {
        let descriptor = &self.descriptors[place];
        if !descriptor.verdict.is_some() {
            return None;
        }
        let (verdict, extension) = self.flows.extended().whole(&descriptor.verdict, place);
        let image = &self.slot_of(place)?.image;
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
            is_translated: extension.is_some(),
        })
    }

    fn traced_session(&self, place: usize, direction: Option<Direction>) -> Option<TracedSession> {
        let slot = self.slot_of(place)?;
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
            is_stopped(*slot) || events.any(|(own, of)| usize::from(of) == *slot && is_stopped(own.into()))
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

    fn traced_end(&self, place: usize, snap: usize) -> TracedEnd {
        match self.descriptors[place].fate {
            Fate::Send(port) if port.lap() > 0 && self.burst[place].ingress().lap() >= MAX_RECIRCULATIONS => {
                TracedEnd::Dropped(DropReason::RecirculationLimit)
            }
            Fate::Send(port) | Fate::Split(port) => {
                let mut frame = TracedFrame {
                    port: plain_port(port),
                    len: 0,
                    octets: Vec::new(),
                };
                trace::keep(&mut frame, &self.burst[place], snap);
                TracedEnd::Sent {
                    frame,
                    goes_round: port.lap() > 0,
                    in_fragments: self.fragmenter.has(place),
                    port_was_full: false,
                }
            }
            Fate::Drop(reason) => TracedEnd::Dropped(reason),
            Fate::HandOver(worker) => TracedEnd::HandedOver(worker),
            Fate::Consumed => TracedEnd::Consumed,
            Fate::Host(_) => TracedEnd::ToHost,
            Fate::Reassemble => TracedEnd::Reassembling,
            Fate::Hold(_) => TracedEnd::Held,
            Fate::Buffer => TracedEnd::Buffered,
            // As `tx` has it.
            Fate::Open | Fate::Redirect => TracedEnd::Dropped(DropReason::UnsupportedAction),
        }
    }
}

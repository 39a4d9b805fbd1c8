//! What an accelerator adds to the worker's work: sessions that are away, and packets that go back with their flow.

use flow::contract::{AnyKey, Backend, Event, Flow, Notice, QueueTokens};
use flow::{ContentId, Direction, ForwardKind, Nanos, SessionIndex, Verdict};
use offload::exception::{MAX_HOPS, Reason};
use packet::PacketBuf;
use rules::classifier::Key;
use rules::image::SessionImage;

use super::state::Worker;
use crate::Command;
use crate::accelerator::cut;
use crate::burst::batch::BURST;
use crate::burst::descriptor::{Deferral, Descriptor, Family, Fate, Keys, Kind};
use crate::egress::queueing::Queueing;
use crate::io::{Exchange, Io, PacketMetadata};
use crate::lookup::flow_tables::Flows;
use crate::offload::counter_places::CounterPlaces;
use crate::offload::eligibility::NetworkNeeds;
use crate::offload::homes::{Household, Place};
use crate::offload::policy::PassingPacket;
use crate::offload::queues::HomeQueues;
use crate::offload::state::Offload;
use crate::offload::stays::Stays;

/// What is taken of the accelerator's reports in a poll.
const NOTICES: usize = 512;

impl<I: Io> Worker<I> {
    /// Takes what the accelerator reports, and gives it what it lacks of the network.
    #[cold]
    pub(super) fn work_offload(&mut self, now: Nanos) {
        let (Some(offload), Some(accelerator)) = (&mut self.offload, self.ports.io.accelerator()) else {
            return;
        };
        let buffers = &self.deferred.buffers;
        let mut household = Household {
            sessions: &mut self.sessions,
            events: &mut self.events,
            waits: &|session| buffers.holds(session),
            queues: self
                .deferred
                .queueing
                .as_deref_mut()
                .map(|queueing| queueing as &mut dyn HomeQueues),
            network: &self.config.network,
        };
        for _ in 0..NOTICES {
            let Some(notice) = accelerator.poll(now) else {
                break;
            };
            match &notice {
                Notice::Event(Event::BackendReset { .. }) => {
                    let can = accelerator.capabilities();
                    offload.homes.meet(&can);
                    let is_partial = offload.homes.is_partial();
                    offload.network.begin(&self.config.network, &can, is_partial);
                }
                Notice::Event(Event::Unreachable) => offload.network.lose(),
                Notice::Reply(reply) if offload.network.take_reply(reply.id, &reply.outcome) => {
                    continue;
                }
                _ => {}
            }
            let counted = offload.homes.take(notice, &mut household, accelerator, now);
            if let (Some(session), Some((awaited, is_there))) = (counted, &mut offload.awaited) {
                *is_there |= session == *awaited;
            }
        }
        offload.homes.work(household.sessions, accelerator);
        offload.network.work(accelerator);
        if self.deferred.away.len() > 0 {
            let homes = &offload.homes;
            self.deferred
                .away
                .meet(|session| !homes.place(session).is_on_its_way());
        }
    }

    /// Whether the next command can be applied: what it is about is here, or its counts are. It is asked for otherwise.
    pub(super) fn may_apply_next(&mut self) -> bool {
        let (Some(offload), Some(accelerator)) = (&mut self.offload, self.ports.io.accelerator()) else {
            return true;
        };
        match self.commands.peek() {
            Ok(Command::Session { change, .. }) => {
                let homes = &mut offload.homes;
                let is_home = homes.recall(change.session(), &self.sessions, accelerator);
                // One whose prefix holds an address of the session may lose flows to it.
                let around = self.sessions.around(change);
                let are_home = around.map(|other| homes.recall(other, &self.sessions, accelerator));
                are_home.fold(is_home, |all, one| all && one)
            }
            Ok(Command::Query { session, .. } | Command::Inspect { session, .. }) => {
                let session = *session;
                match (offload.homes.place(session), offload.awaited) {
                    (Place::Home | Place::Leaving, _) => {}
                    (_, Some((awaited, true))) if awaited == session => {}
                    (Place::Opening | Place::Away, awaited) => {
                        if awaited.is_none_or(|(awaited, _)| awaited != session) {
                            offload.homes.refresh(session, &self.sessions, accelerator);
                            offload.awaited = Some((session, false));
                        }
                        return false;
                    }
                    (Place::Returning, _) => return false,
                }
                offload.awaited = None;
                true
            }
            _ => true,
        }
    }
}

impl<I: Io> Worker<I> {
    /// Has packets of sessions that are away go back with their flow, and notes those of sessions that may leave.
    #[inline(never)]
    pub(super) fn divert(&mut self, now: Nanos) {
        let Some(port) = self.ports.io.accelerator_port() else {
            return;
        };
        if let Some(offload) = &mut self.offload
            && offload.homes.is_partial()
        {
            let (packets, io) = (&self.burst.packets, &self.ports.io);
            let both = packets.iter().zip(&self.burst.descriptors);
            let stay = both.filter(|(packet, descriptor)| {
                descriptor.is_open_user() && descriptor.verdict.is_some() && io.exchange_of(packet).is_some()
            });
            let stays = &mut offload.homes.stats_mut().stays;
            stays[Stays::PartialMode as usize] += stay.count() as u64;
            return;
        }
        for index in 0..self.burst.packets.len() {
            let descriptor = &self.burst.descriptors[index];
            if !descriptor.is_open_user() || !descriptor.verdict.is_some() || descriptor.kind == Kind::Relayed
            {
                continue;
            }
            let Some(session) = self.sessions.of(&descriptor.verdict) else {
                continue;
            };
            let exchange = self.ports.io.exchange_of(&self.burst.packets[index]);
            if exchange.is_some_and(is_answered) {
                continue;
            }
            let place = self.offload.as_ref().map(|offload| offload.homes.place(session));
            match place {
                Some(Place::Home) => self.note_at_home(session, index, now),
                Some(Place::Opening | Place::Away | Place::Returning) => {
                    let fate = match self.passes_there(session, index, now) {
                        true => Fate::Send(port),
                        false => Fate::Defer(Deferral::Away(session)),
                    };
                    let descriptor = &mut self.burst.descriptors[index];
                    descriptor.fate = fate;
                    // Nothing of it is counted here.
                    descriptor.verdict = Verdict::NONE;
                }
                Some(Place::Leaving) | None => {}
            }
        }
    }

    /// A packet of a session at home: the session may leave, if packets of it come from the accelerator.
    fn note_at_home(&mut self, session: SessionIndex, index: usize, now: Nanos) {
        let is_exchanged = self.ports.io.exchange_of(&self.burst.packets[index]).is_some();
        let own = self.ports.io.ports_of_its_own();
        let passing = self.passing_packet(session, index);
        let (Some(offload), Some(accelerator)) = (&mut self.offload, self.ports.io.accelerator()) else {
            return;
        };
        let Offload { homes, network, .. } = &mut **offload;
        if !is_exchanged || !network.is_ready() {
            return homes.note_free(session);
        }
        if self.deferred.buffers.holds(session) {
            homes.note_stays(session, Stays::Waiting);
        } else {
            let interfaces = &self.tables.interfaces;
            let is_behind = |id| {
                interfaces
                    .at(id)
                    .is_some_and(|interface| interface.interface.port.index() >= own)
            };
            let needs = NetworkNeeds {
                clamps: interfaces.clamps,
                is_behind: &is_behind,
                network: &self.config.network,
                shared: network.shared(),
            };
            homes.note_packet((session, &passing), accelerator, &self.sessions, &needs, now);
        }
    }

    /// What the policy looks at of a packet of the burst that has its decision.
    fn passing_packet(&self, session: SessionIndex, index: usize) -> PassingPacket {
        let descriptor = &self.burst.descriptors[index];
        let verdict = &descriptor.verdict;
        let mut packet = PassingPacket {
            octets: descriptor.octets,
            qfi: None,
            instances: [descriptor.instance; 2],
            has_rulebase: true,
        };
        let policy = self.offload.as_ref().map(|offload| offload.homes.policy());
        let policy = policy.filter(|policy| policy.is_selective());
        if let (Some(slot), Some(policy)) = (self.sessions.at(session), policy) {
            packet.has_rulebase = policy.takes(&slot.image.rules);
            let block = &slot.image.block;
            let mark = block.marks.get(usize::from(verdict.marking));
            let forward = block.forwards.get(usize::from(verdict.forward));
            let received = match descriptor.family {
                Family::None => None,
                Family::V4 => Some(self.burst.keys.v4[index % BURST].qfi),
                Family::V6 => Some(self.burst.keys.v6[index % BURST].qfi),
            };
            let received = received.filter(|qfi| *qfi < 64);
            packet.qfi = received.or_else(|| mark.and_then(|mark| mark.qfi()));
            let leaves = forward.filter(|forward| {
                matches!(
                    forward.kind,
                    ForwardKind::Tunnel | ForwardKind::Plain | ForwardKind::Unchanged
                )
            });
            packet.instances[1] = leaves.map_or(descriptor.instance, |forward| forward.egress);
        }
        packet
    }

    /// Whether a packet of a session that is not here passes at the accelerator, with its flow: it is made one that
    /// does. What needs this node has its session come home; it waits until the session is there.
    fn passes_there(&mut self, session: SessionIndex, index: usize, now: Nanos) -> bool {
        let place = self.offload.as_ref().map(|offload| offload.homes.place(session));
        if place.is_none_or(Place::is_on_its_way) {
            return false;
        }
        let flow = self.flow_there(session, index);
        let packet = &self.burst.packets[index];
        // What did not come from there would never come back.
        let may_go = self
            .ports
            .io
            .exchange_of(packet)
            .is_some_and(|exchange| !needs_home(exchange));
        if let Some(flow) = flow.filter(|_| may_go) {
            let packet = &mut self.burst.packets[index];
            if self.ports.io.put_through(packet, session, &flow) {
                return true;
            }
        }
        self.call_home(session, now);
        false
    }

    /// The flow by which a packet that is decided passes at the accelerator.
    pub(super) fn flow_there(&self, session: SessionIndex, index: usize) -> Option<Flow> {
        let descriptor = &self.burst.descriptors[index];
        let flow = flow_of(&self.flows, descriptor, &self.burst.keys, index)?;
        let places = CounterPlaces::of(&self.sessions.at(session)?.image.block);
        Some(Flow {
            urrs: places.of_flow(flow.urrs),
            ..flow
        })
    }

    /// Has a session come home, and stay for a while.
    fn call_home(&mut self, session: SessionIndex, now: Nanos) {
        if let (Some(offload), Some(accelerator)) = (&mut self.offload, self.ports.io.accelerator()) {
            offload.homes.stats_mut().recalled += 1;
            offload.homes.keep(session, now);
            offload.homes.recall(session, &self.sessions, accelerator);
        }
    }
}

/// Whether what an accelerator does not do with a packet is this node's to do, so that its session has to be here. A
/// packet that came back although its flow was given shows that there is no room for it; one of a session that is not
/// there, or has another generation there, comes back while that changes.
const fn needs_home(exchange: Exchange) -> bool {
    match exchange.reason {
        Reason::NoSession | Reason::Stale => exchange.hops >= MAX_HOPS,
        Reason::NoFlow => exchange.hops >= 2,
        _ => true,
    }
}

/// Whether a packet is discarded and its sender gets an answer: here, wherever the session is.
const fn is_answered(exchange: Exchange) -> bool {
    matches!(exchange.reason, Reason::Ttl | Reason::TooLong)
}

/// The flow by whose entry a packet goes; `None` where it has none in the table.
fn flow_of(flows: &Flows, descriptor: &Descriptor, keys: &Keys, index: usize) -> Option<Flow> {
    if descriptor.defect.is_some() || descriptor.flags.lacks_ports() {
        return None;
    }
    let whole = match descriptor.family {
        Family::None => return None,
        Family::V4 => Key::V4(keys.v4[index % BURST]),
        Family::V6 => Key::V6(keys.v6[index % BURST]),
    };
    let key = cut(&whole, descriptor.shape);
    let entry = flows
        .at(&key)
        .filter(|entry| entry.verdict == descriptor.verdict)?;
    let Verdict {
        qers,
        urrs,
        generation,
        forward,
        marking,
        flags,
        ..
    } = entry.verdict;
    Some(Flow {
        key: match key {
            Key::V4(key) => AnyKey::V4(key),
            Key::V6(key) => AnyKey::V6(key),
        },
        qers,
        urrs,
        idle: entry.idle,
        flags,
        forward,
        marking: (marking != Verdict::NO_MARK).then_some(marking),
        nat: None,
        content: ContentId::NONE,
        generation,
    })
}

impl<B: PacketBuf + PacketMetadata> HomeQueues for Queueing<B> {
    fn let_leave(&mut self, image: &SessionImage, now: Nanos) -> [Option<QueueTokens>; 2] {
        Direction::BOTH.map(|direction| {
            let plan = image.egress_queues(direction)?;
            Some(self.empty_at_once(image.session, direction, plan, now))
        })
    }

    fn stands(&self, session: SessionIndex) -> bool {
        self.has_standing_of(session)
    }

    fn go_on(&mut self, image: &SessionImage, direction: Direction, tokens: &QueueTokens, now: Nanos) {
        if let Some(plan) = image.egress_queues(direction) {
            self.set_tokens(image.session, direction, plan, tokens, now);
        }
    }
}

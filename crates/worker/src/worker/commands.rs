//! Control's commands, and what the worker reports of counters.

use std::time::Duration;

use flow::meter::{Chain, Demand, SharedId};
use flow::{Nanos, OpId, PortId, SessionIndex};
use nat::pools::BlockId;
use packet::{DropReason, PacketBuf};
use rules::boxed_option::BoxedOption;
use rules::image::{Buffering, ImmediateActions, MeterShare, SessionChange, SessionImage};
use rules::model::ConnectionPolicy;
use rules::worker_selection::WorkerSelectionChange;
use transport::AdjacencyChange;

use super::receive::deferred_context;
use super::state::Worker;
use crate::control_channel::{MappingsWanted, SessionCount, SessionStatus};
use crate::deferred::buffering::QueueKey;
use crate::deferred::{delivery_status, end_markers, release};
use crate::egress::network_tables::NetworkTables;
use crate::egress::path_mtus::Path;
use crate::egress::ports::OwnPacket;
use crate::io::Io;
use crate::sessions::change::Applied;
use crate::trace::TraceRequest;
use crate::trace::tracer::Tracer;
use crate::{ApplyError, Command, Event, LeaseHolder};

/// How often content counters are looked at, and of how many sessions then; of those that have any, one.
const CONTENTS_EVERY: Duration = Duration::from_millis(1);
const CONTENT_SESSIONS: usize = 64;

impl<I: Io> Worker<I> {
    pub(super) fn apply_commands(&mut self, now: Nanos) -> usize {
        let mut applied = 0;
        while applied < self.config.commands_per_poll && self.events.has_room_for_response() {
            if self.offload.is_some() && !self.may_apply_next() {
                break;
            }
            let Ok(command) = self.commands.pop() else { break };
            self.apply(command, now);
            applied += 1;
            self.recirculate(now);
        }
        applied
    }

    fn apply(&mut self, command: Command, now: Nanos) {
        match command {
            Command::Session { op, change } => {
                let event = self.change(op, change, now);
                self.events.push_response(&mut self.stats, event);
            }
            Command::Drain { op } => {
                self.drains
                    .begin(op, self.stats.inbox + self.ports.io.inbox_len() as u64);
            }
            Command::Fence { op } => {
                let is_lost = std::mem::take(&mut self.exceptions_lost);
                let outcome = if is_lost {
                    Err(ApplyError::TableFull)
                } else {
                    Ok(())
                };
                self.events
                    .push_response(&mut self.stats, Event::Fenced { op, outcome });
            }
            Command::Query { op, session } => {
                self.withdraw_counts(session);
                let outcome = self.sessions.query(session);
                self.events
                    .push_response(&mut self.stats, Event::Queried { op, outcome });
            }
            Command::Inspect {
                question,
                session,
                mappings,
            } => {
                let status = self.status(session, mappings, now).map(Box::new);
                self.events
                    .push_response(&mut self.stats, Event::Inspected { question, status });
            }
            Command::PortBlock { session, block } => self.take_port_block(session, block, now),
            Command::Trace(order) => self.take_trace(*order, now),
            Command::Revalidate => self.revalidate(),
            Command::SelectWorker(change) => self.select_worker(change),
            Command::SharedMeter {
                holder,
                id,
                direction,
                rate,
                burst,
            } => match (holder, &mut self.offload) {
                (LeaseHolder::Worker, _) => {
                    self.apply_rules.shared.set(id, direction, rate, burst);
                }
                (LeaseHolder::Accelerator, Some(offload)) => {
                    offload.network.shared_mut().set(id, direction, rate, burst);
                }
                (LeaseHolder::Accelerator, None) => {}
            },
            Command::SharedDemand { holder, demand } => self.report_shared_demand(holder, demand),
            Command::EgressDemands => self.report_egress_demands(),
            Command::EgressLeases { leases } => self.set_egress_leases(&leases, now),
            Command::CountsRoom(counts) => self.take_counts_room(counts),
            Command::Restoring { is_restoring } => self.deferred.absent.set_restoring(is_restoring),
            Command::Adjacency(change) => self.apply_adjacency(&change, now),
            Command::Lag { port, share } => {
                let member = self.ports.lags.set(port, share);
                self.ports.tx.lead(port, member);
            }
            Command::PathMtu { local, peer, mtu } => self.set_path_mtu(Path { local, peer }, mtu),
            Command::Path { local, peer, is_used } => self.local.echoes.set(Path { local, peer }, is_used),
            Command::OwnAddress {
                instance,
                address,
                is_usable,
            } => self.tables.interfaces.set_usable(instance, address, is_usable),
            Command::Network(tables) => {
                let retired = self.change_network(tables);
                self.events
                    .push_response(&mut self.stats, Event::Network(retired));
            }
            Command::SharedChain { id, chain } => self.set_shared_chain(id, chain),
            Command::Transmit { port, bytes } => self.transmit(port, &bytes),
        }
    }

    fn report_shared_demand(&mut self, holder: LeaseHolder, mut demand: Box<[Demand]>) {
        match (holder, &mut self.offload) {
            (LeaseHolder::Worker, _) => self.apply_rules.shared.take_demand(&mut demand),
            (LeaseHolder::Accelerator, Some(offload)) => {
                offload.network.shared_mut().take_demand(&mut demand);
            }
            (LeaseHolder::Accelerator, None) => {}
        }
        self.events
            .push_response(&mut self.stats, Event::SharedDemand { holder, demand });
    }

    fn set_shared_chain(&mut self, id: SharedId, chain: Chain) {
        self.apply_rules.shared.set_chain(id, chain);
        if let Some(offload) = &mut self.offload {
            offload.network.shared_mut().set_chain(id, chain);
        }
    }

    /// Pushes an event for each counter that has reached a bound, in this poll or in one whose event queue was full.
    #[inline]
    pub(super) fn report_reached(&mut self) {
        while let Some(session) = self.events.next_reached() {
            self.withdraw_counts(session);
            let mut next = 0;
            while let Some(counter) = self.sessions.reached(session, next) {
                if !self.events.has_room() {
                    return self.events.mark_reached(session);
                }
                let event = Event::CounterReached {
                    session,
                    urr: counter.urr,
                    count: counter.count,
                    times: self.sessions.take_times(session, counter.slot),
                    reached: counter.reached,
                };
                self.events.push(&mut self.stats, event);
                next = counter.slot + 1;
            }
        }
    }

    /// Takes the content counters that are due, of some sessions at a time, and pushes their counts.
    #[cold]
    pub(super) fn report_contents(&mut self, now: Nanos) {
        let interval = self.config.content_interval;
        self.contents_due = match interval.is_zero() {
            true => Nanos::MAX,
            false => now + CONTENTS_EVERY,
        };
        if interval.is_zero() || now < Nanos::ZERO + interval || !self.events.has_room() {
            return;
        }
        let (events, stats) = (&mut self.events, &mut self.stats);
        let tell = |session, usage| {
            events.push(stats, Event::Content { session, usage });
            events.has_room()
        };
        self.sessions
            .blocks
            .take_due_contents(CONTENT_SESSIONS, now - interval, tell);
    }

    /// Flows are decided anew, a few at a time; those that an accelerator passes with their sessions.
    fn revalidate(&mut self) {
        self.flows.next_snapshot();
        if let Some(offload) = &mut self.offload {
            offload.homes.recall_all();
        }
    }

    fn set_path_mtu(&mut self, path: Path, mtu: Option<u16>) {
        let least = self.tables.path_mtus.set(path, mtu);
        self.tables.adjacencies.narrow(least);
        if let Some(offload) = &mut self.offload {
            offload.network.note_path_mtu(path.local, path.peer, mtu);
        }
    }

    /// Swaps the tables of the network, and has packets that wait for next hops find theirs anew. Gives what it had.
    #[cold]
    fn change_network(&mut self, mut tables: Box<NetworkTables>) -> Box<NetworkTables> {
        std::mem::swap(&mut self.tables.interfaces, &mut tables.interfaces);
        std::mem::swap(&mut self.tables.routes, &mut tables.routes);
        let fresh = tables.network.access_lists().fresh();
        tables.access.carry_over(&self.access, fresh);
        std::mem::swap(&mut self.access, &mut tables.access);
        std::mem::swap(&mut self.config.network, &mut tables.network);
        if let Some(nat) = &mut self.nat {
            nat.follow(&self.config.network);
        }
        if let Some(queueing) = &mut self.deferred.queueing {
            queueing.follow_network(&self.config.network);
        }
        self.deferred.buffers.release_parked();
        if let Some(offload) = &mut self.offload {
            offload.network.follow(&self.config.network);
            offload.homes.recall_all();
        }
        tables
    }

    fn apply_adjacency(&mut self, change: &AdjacencyChange, now: Nanos) {
        if let Some(offload) = &mut self.offload {
            offload.network.note_adjacency(change, &self.config.network);
        }
        if self.tables.adjacencies.apply(change) {
            let id = change.adjacency.is_some().then_some(change.id);
            if let Some((instance, address)) = change.neighbour {
                self.tables.routes.bind(instance, address, id);
            }
            self.deferred.buffers.meet(change);
            let mut context = deferred_context!(self, now);
            let (signals, mut sender) = context.signals();
            signals.next_hop_changed(&mut sender, change);
        }
    }

    fn transmit(&mut self, port: PortId, bytes: &[u8]) {
        self.stats.originated += 1;
        let Some(mut packet) = self.ports.io.alloc() else {
            return self.stats.drop(DropReason::NoBuffer);
        };
        match packet.append(bytes.len()) {
            Some(room) => {
                room.copy_from_slice(bytes);
                self.ports.send_own(&mut self.stats, OwnPacket { port, packet });
            }
            None => self.stats.drop(DropReason::NoBuffer),
        }
    }

    /// Changes a session, sends the End Markers of the tunnels that it leaves, and settles its buffered packets.
    fn change(&mut self, op: OpId, change: SessionChange, now: Nanos) -> Event {
        let session = change.session();
        let immediate = match &change {
            SessionChange::Replace(_, immediate) => immediate.clone(),
            _ => ImmediateActions::default(),
        };
        let sets_bounds = matches!(change, SessionChange::Bound(..) | SessionChange::Replace(..));
        let is_new = matches!(change, SessionChange::Install(_));
        if let Err(error) = self.prepare_queues(&change, now) {
            return refused(op, change, error);
        }
        self.withdraw_counts(session);
        if let Some(offload) = self.offload.as_mut().filter(|_| is_new) {
            offload.homes.forget(session);
        }
        let mut context = deferred_context!(self, now);
        let markers = end_markers::make(&mut context, session, &immediate.end_markers);
        let mut applied = self.sessions.apply(change, now);
        let before = applied.retired.as_deref().filter(|_| applied.outcome.is_ok());
        self.follow_with_queues(session, before, now);
        let image = self.sessions.image_mut(session);
        let reported = self.ran_congestion.follow(session, image);
        if !reported.is_empty()
            && let Ok(usage) = &mut applied.outcome
        {
            let usage = usage.get_or_insert_default();
            (usage.session, usage.congestion) = (session, reported);
        }
        if self.nat.is_some() && (is_new || applied.retired.is_some()) {
            self.note_public_addresses(session, &mut applied, now);
        }
        if let Some(checkpoints) = &mut self.checkpoints
            && applied.outcome.is_ok()
        {
            checkpoints.note_changed(&self.sessions, session, is_new);
        }
        self.flows.bury(self.sessions.take_revoked());
        if applied.outcome.is_ok() && (is_new || applied.retired.is_some()) {
            self.note_connections(session, applied.retired.as_deref(), now);
        }
        if sets_bounds && self.sessions.reached(session, 0).is_some() {
            self.events.mark_reached(session);
        }
        if applied.outcome.is_ok() {
            for marker in markers {
                self.send_marker(session, marker);
            }
            if self.deferred.absent.len() > 0
                && let Some(slot) = self.sessions.at(session)
            {
                self.deferred.absent.meet(&slot.image);
            }
            let buffers = &mut self.deferred.buffers;
            if let Some(old) = &applied.retired {
                let is_other_workers = self.worker_selection.of_bucket(old.bucket) != self.config.id;
                release::settle_buffered(&self.sessions, buffers, old, &immediate, is_other_workers);
                let mut context = deferred_context!(self, now);
                delivery_status::drop_buffered(&mut context, buffers, immediate.tells_discarded);
            }
            delivery_status::report_thresholds(&mut deferred_context!(self, now), session);
            if sets_bounds {
                release::release_granted(&self.sessions, buffers, session);
            }
            self.deferred.count(&mut self.stats);
        }
        Event::Applied {
            op,
            outcome: applied.outcome,
            retired: applied.retired,
            spent: applied.spent,
        }
    }

    /// A session has another image, or has ended, with what its answers of resolvers have said; this is its image
    /// before, if it had one.
    fn note_connections(&mut self, session: SessionIndex, old: Option<&SessionImage>, now: Nanos) {
        let connections = &mut self.slow_path.connections;
        let Some(slot) = self.sessions.at(session) else {
            self.slow_path.inspection.forget(session);
            return connections.forget(session);
        };
        match old.filter(|old| old.seid == slot.image.seid) {
            None => {
                let may_have_some = slot.image.installation.may_have_connections;
                connections.note_installed(session, may_have_some, now);
            }
            Some(old) => {
                let filtering = |policy: Option<ConnectionPolicy>| policy.map(|policy| policy.filtering);
                let wanted = filtering(slot.classifier.connections());
                if wanted.is_some() && wanted != filtering(old.classifier.connections()) {
                    // Those that it has are not to be found by the new one.
                    connections.forget(session);
                    connections.note_list(session, now);
                }
            }
        }
    }

    /// A change of a session is applied, if nothing is wrong: what the session has of a pool of public addresses
    /// follows, and control gets its mappings where it leaves.
    #[cold]
    fn note_public_addresses(&mut self, session: SessionIndex, applied: &mut Applied, now: Nanos) {
        let (Some(nat), Ok(usage)) = (&mut self.nat, &mut applied.outcome) else {
            return;
        };
        let slot = self.sessions.at(session);
        let leaves = slot.is_none_or(|slot| slot.image.meter_share == MeterShare::Leaving);
        if leaves {
            let mappings = nat.mappings_of(session, now);
            if !mappings.is_empty() {
                let usage = usage.get_or_insert_default();
                (usage.session, usage.mappings) = (session, mappings);
            }
        }
        let before = applied.retired.as_deref();
        match slot {
            Some(slot) => nat.note_session(&slot.image, before, now),
            None => nat.forget(session),
        }
    }

    /// A session has one more port block.
    fn take_port_block(&mut self, session: SessionIndex, block: BlockId, now: Nanos) {
        if let Some(nat) = &mut self.nat {
            nat.take_block(session, block, now);
        }
    }

    /// Changes worker selection. Packets that wait for absent sessions may be another worker's now.
    fn select_worker(&mut self, change: WorkerSelectionChange) {
        if self.deferred.absent.len() > 0 {
            match change {
                WorkerSelectionChange::Bucket { .. } => self.deferred.absent.release_all(),
                WorkerSelectionChange::Exception { key, .. } => self.deferred.absent.meet_key(key),
                WorkerSelectionChange::PortBlock { .. } => {}
            }
        }
        if !self.worker_selection.apply(change) {
            self.stats.exceptions_lost += 1;
            self.exceptions_lost = true;
        }
    }

    /// Takes a list for counts, or gives it back.
    #[cold]
    fn take_counts_room(&mut self, mut counts: Vec<SessionCount>) {
        if let Some(checkpoints) = &mut self.checkpoints {
            for of_one in counts.chunk_by(|a, b| a.session == b.session) {
                checkpoints.look_again(&self.sessions, of_one[0].session);
            }
        }
        counts.clear();
        let kept = match &mut self.checkpoints {
            Some(checkpoints) => checkpoints.take_room(counts),
            None => Err(counts),
        };
        if let Err(counts) = kept {
            self.events
                .push_response(&mut self.stats, Event::Counted { counts });
        }
    }

    /// Something is about to be pushed about a session that counts in the list are older than.
    #[inline]
    fn withdraw_counts(&mut self, session: SessionIndex) {
        if let Some(checkpoints) = &mut self.checkpoints {
            checkpoints.withdraw(&self.sessions, session);
        }
    }

    /// The state of a session here, for an operator; `None` where it is another worker's.
    fn status(&self, session: SessionIndex, wanted: MappingsWanted, now: Nanos) -> Option<SessionStatus> {
        let slot = self.sessions.at(session)?;
        let counters = self.sessions.usage(session).ok()?.counters;
        let forwards = 0..slot.image.rules.fars().len() as u8;
        let buffering = forwards.filter_map(|forward| slot.image.buffering(forward));
        let buffers = &self.deferred.buffers;
        let waiting =
            buffering.map(|Buffering { far, .. }| (far, buffers.waiting(QueueKey { session, far })));
        let offload = self.offload.as_ref();
        let is_away = offload.is_some_and(|offload| offload.homes.place(session).has_left());
        let queueing = self.deferred.queueing.as_ref();
        let mut queues = queueing.map_or_else(Vec::new, |queueing| queueing.status(&slot.image, now));
        queues
            .iter_mut()
            .for_each(|queue| queue.is_at_accelerator = is_away);
        Some(SessionStatus {
            counters,
            contents: self.sessions.contents(session, now),
            waiting: waiting.collect(),
            flows: slot.account.flows,
            nat: self.nat.as_ref().and_then(|nat| nat.status(session, wanted, now)),
            queues,
        })
    }

    /// Carries out a trace request from now on.
    #[cold]
    fn take_trace(&mut self, request: TraceRequest, now: Nanos) {
        self.tidy_traces(now);
        self.tracer
            .get_or_insert_with(|| Box::new(Tracer::new()))
            .take(request, self.next_trace, now);
        self.next_trace += 1;
    }

    /// Ends the trace requests that are over.
    #[cold]
    pub(super) fn tidy_traces(&mut self, now: Nanos) {
        self.report_left_queues(now);
        let (events, stats) = (&mut self.events, &mut self.stats);
        let Some(tracer) = &mut self.tracer else { return };
        let before = tracer.running.len();
        let any_left = tracer.tidy(events, stats, now);
        if tracer.running.len() < before
            && let Some(queueing) = &mut self.deferred.queueing
        {
            queueing.keep_reports_for(|request| tracer.has(request));
        }
        if !any_left {
            self.tracer = None;
        }
    }
}

/// A change is not begun.
fn refused(op: OpId, change: SessionChange, error: ApplyError) -> Event {
    let retired = match change {
        SessionChange::Install(image) | SessionChange::Replace(image, _) => Some(image),
        SessionChange::Bound(..) | SessionChange::Remove(_) => None,
    };
    Event::Applied {
        op,
        outcome: Err(error),
        retired,
        spent: BoxedOption::NONE,
    }
}

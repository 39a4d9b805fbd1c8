//! What Control tells the worker, and what the worker tells it of counters.

use std::time::Duration;

use flow::{Nanos, PortId};
use packet::{DropReason, PacketBuf};
use transport::AdjacencyChange;

use super::Worker;
use crate::io::Io;
use crate::{ApplyError, Command, Event};

/// How often content counters are looked at, and of how many sessions then; of those that have any, one.
const CONTENTS_EVERY: Duration = Duration::from_millis(1);
const CONTENT_SESSIONS: usize = 64;

impl<I: Io> Worker<I> {
    pub(super) fn apply_commands(&mut self, now: Nanos) -> usize {
        let mut applied = 0;
        while applied < self.config.commands_per_poll && self.events.has_room_for_response() {
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
                    .begin(op, self.stats.inbox + self.io.inbox_len() as u64);
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
                let outcome = self.sessions.query(session);
                self.events
                    .push_response(&mut self.stats, Event::Queried { op, outcome });
            }
            Command::Inspect { question, session } => {
                let status = self.inspect(session, now).map(Box::new);
                self.events
                    .push_response(&mut self.stats, Event::Inspected { question, status });
            }
            Command::Trace(order) => self.take_trace(*order, now),
            Command::Revalidate => self.flows.next_snapshot(),
            Command::Steer(change) => {
                if !self.steering.apply(change) {
                    self.stats.exceptions_lost += 1;
                    self.exceptions_lost = true;
                }
            }
            Command::SharedMeter {
                id,
                direction,
                rate,
                burst,
            } => {
                self.shared.set(id, direction, rate, burst);
            }
            Command::SharedDemand { mut demand } => {
                self.shared.take_demand(&mut demand);
                self.events
                    .push_response(&mut self.stats, Event::SharedDemand { demand });
            }
            Command::Adjacency(change) => self.apply_adjacency(&change, now),
            Command::Lag { port, share } => {
                let way = self.lags.set(port, share);
                self.tx.lead(port, way);
            }
            Command::PathMtu { local, peer, mtu } => {
                let least = self.path_mtus.set((local, peer), mtu);
                self.adjacencies.narrow(least);
            }
            Command::Path { local, peer, is_used } => self.echoes.set((local, peer), is_used),
            Command::Transmit { port, bytes } => self.transmit(port, &bytes),
        }
    }

    /// Tells what counters have reached in this poll, or in one before that had no room.
    #[inline]
    pub(super) fn tell_reached(&mut self) {
        while let Some(session) = self.events.next_reached() {
            let mut next = 0;
            while let Some((place, (urr, count), reached)) = self.sessions.reached(session, next) {
                if !self.events.has_room() {
                    return self.events.mark_reached(session);
                }
                let event = Event::CounterReached {
                    session,
                    urr,
                    count,
                    times: self.sessions.take_times(session, place),
                    reached,
                };
                self.events.push(&mut self.stats, event);
                next = place + 1;
            }
        }
    }

    /// Takes content counters whose time has come, some sessions at a time, and tells what they have.
    #[cold]
    pub(super) fn tell_contents(&mut self, now: Nanos) {
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

    fn apply_adjacency(&mut self, change: &AdjacencyChange, now: Nanos) {
        if self.adjacencies.apply(change) {
            let id = change.adjacency.is_some().then_some(change.id);
            if let Some((instance, address)) = change.neighbour {
                self.routes.bind(instance, address, id);
            }
            self.meet(change, now);
        }
    }

    /// Sends a packet of our own, which is of no flow.
    pub(super) fn send_own(&mut self, port: PortId, buf: I::Buf) {
        let port = self.lags.way(port, &buf);
        self.tx.send(&mut self.io, &mut self.stats, port, buf);
    }

    fn transmit(&mut self, port: PortId, bytes: &[u8]) {
        self.stats.originated += 1;
        let Some(mut buf) = self.io.alloc() else {
            return self.stats.drop(DropReason::NoBuffer);
        };
        match buf.append(bytes.len()) {
            Some(room) => {
                room.copy_from_slice(bytes);
                self.send_own(port, buf);
            }
            None => self.stats.drop(DropReason::NoBuffer),
        }
    }
}

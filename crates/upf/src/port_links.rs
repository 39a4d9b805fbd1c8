//! Links of ports, and of LAGs: the workers receive which members carry frames, and the neighbour table which links are
//! down, so that their routers are skipped at once.

use std::collections::VecDeque;

use flow::{Nanos, PortId};
use transport::lag::{Lag, LagConfig, LagShare};
use worker::Command;

use super::neighbours::SharedNeighbours;
use super::workers::Workers;

/// Events that are kept if they are not polled.
const MOST_EVENTS: usize = 256;

/// What happened to a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkEvent {
    /// A port's link, or the first of a LAG's, came up.
    Up(PortId),
    /// A port's link, or the last of a LAG's, went down.
    Down(PortId),
    /// A member carries frames of its LAG from now on, or no more.
    Member {
        /// The LAG.
        lag: PortId,
        /// The member.
        member: PortId,
        /// Whether frames leave by it.
        distributing: bool,
        /// Its state.
        state: &'static str,
    },
}

/// The links of all ports, as they were sent last.
pub struct PortLinks {
    names: Vec<String>,
    lags: Vec<Lag>,
    /// Of each LAG, the share that the workers were sent last.
    sent: Vec<Option<LagShare>>,
    /// By port: up until the port says otherwise; of LAGs and their members: down.
    up: Vec<bool>,
    events: VecDeque<LinkEvent>,
}

impl PortLinks {
    /// Of ports with these names, some of which are LAGs.
    pub(super) fn new(names: Vec<String>, lags: Vec<LagConfig>) -> Self {
        let mut up = vec![true; names.len()];
        for port in lags
            .iter()
            .flat_map(|lag| lag.members.iter().map(|member| member.port).chain([lag.port]))
        {
            if let Some(link) = up.get_mut(port.index()) {
                *link = false;
            }
        }
        Self {
            names,
            sent: vec![None; lags.len()],
            lags: lags.into_iter().map(Lag::new).collect(),
            up,
            events: VecDeque::new(),
        }
    }

    /// The name of a port.
    #[must_use]
    pub fn name(&self, port: PortId) -> String {
        self.names.get(port.index()).cloned().unwrap_or_default()
    }

    /// The name of each port and whether its link is up, in the order of the configuration.
    pub fn ports(&self) -> impl Iterator<Item = (&str, bool)> {
        self.names.iter().map(String::as_str).zip(self.up.iter().copied())
    }

    /// The LAGs.
    #[must_use]
    pub fn lags(&self) -> &[Lag] {
        &self.lags
    }

    pub(super) fn poll_timeout(&self) -> Option<Nanos> {
        self.lags.iter().filter_map(Lag::poll_timeout).min()
    }

    /// Sets the state of a port's link. Returns whether it has changed.
    fn note(&mut self, port: PortId, up: bool) -> bool {
        let Some(link) = self.up.get_mut(port.index()).filter(|link| **link != up) else {
            return false;
        };
        *link = up;
        self.push(if up {
            LinkEvent::Up(port)
        } else {
            LinkEvent::Down(port)
        });
        true
    }

    fn push(&mut self, event: LinkEvent) {
        if self.events.len() >= MOST_EVENTS {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }

    /// The members of the LAG at `place` that began or ceased to send.
    fn push_members(&mut self, place: usize, before: LagShare, now: LagShare) {
        let lag = &self.lags[place];
        let changed = before.distributing ^ now.distributing;
        let members = lag.status().enumerate();
        let members = members.filter(|(member, _)| changed >> member & 1 == 1);
        let events: Vec<_> = members
            .map(|(_, member)| LinkEvent::Member {
                lag: lag.port(),
                member: member.port,
                distributing: member.distributing,
                state: member.words,
            })
            .collect();
        events.into_iter().for_each(|event| self.push(event));
    }

    /// The link of a port is up, or down; nothing happens if it was before.
    pub(super) fn set_link(&mut self, now: Nanos, port: PortId, up: bool, neighbours: &SharedNeighbours) {
        if !self.note(port, up) {
            return;
        }
        let mut is_member = false;
        for lag in &mut self.lags {
            if let Some(place) = lag.place_of(port) {
                lag.set_link(now, place, up);
                is_member = true;
            }
        }
        if !is_member {
            neighbours.at(now).neighbours.set_link(now, port, up);
        }
    }

    /// An LACPDU has come to a member of a LAG.
    pub(super) fn handle_lacp(&mut self, now: Nanos, member: PortId, pdu: &transport::lag::Lacpdu) {
        for lag in &mut self.lags {
            if let Some(place) = lag.place_of(member) {
                lag.handle(now, place, pdu);
            }
        }
    }

    /// What happened to links since the last call; old events are dropped if they are not polled.
    pub(super) fn poll_event(&mut self) -> Option<LinkEvent> {
        self.events.pop_front()
    }

    /// Lets LAGs do what is due, and sends the workers what has changed.
    pub(super) fn poll(&mut self, now: Nanos, workers: &mut Workers, neighbours: &SharedNeighbours) -> bool {
        let mut busy = false;
        for place in 0..self.lags.len() {
            let lag = &mut self.lags[place];
            if lag.poll_timeout().is_some_and(|at| at <= now) {
                lag.handle_timeout(now);
                busy = true;
            }
            while let Some(frame) = self.lags[place].poll_transmit(now) {
                let (port, bytes) = (frame.port, frame.bytes.into());
                workers.send_first(Command::Transmit { port, bytes });
                busy = true;
            }
            busy |= self.announce_share(now, place, workers, neighbours);
        }
        busy
    }

    fn announce_share(
        &mut self,
        now: Nanos,
        place: usize,
        workers: &mut Workers,
        neighbours: &SharedNeighbours,
    ) -> bool {
        let lag = &self.lags[place];
        let (port, share) = (lag.port(), lag.share());
        let before = self.sent[place].replace(share);
        if before == Some(share) {
            return false;
        }
        workers.send_all(|| Command::Lag { port, share });
        let before = before.unwrap_or_default();
        self.push_members(place, before, share);
        let up = share.distributing != 0;
        self.note(port, up);
        let table = &mut neighbours.at(now).neighbours;
        table.set_link(now, port, up);
        if before.distributing != 0 && up && before.distributing & share.distributing == 0 {
            // Other members carry frames than before: switches learn our MAC address at the new port.
            table.announce_on(port);
        }
        true
    }
}

//! What an operator is told of one session. Nothing changes by it.

use flow::{Nanos, SessionIndex};
use rules::image::Buffering;

use super::Worker;
use crate::io::Io;
use crate::link::SessionStatus;

impl<I: Io> Worker<I> {
    /// How a session stands here; `None` where it is another worker's.
    pub(super) fn inspect(&self, session: SessionIndex, now: Nanos) -> Option<SessionStatus> {
        let slot = self.sessions.at(session)?;
        let counters = self.sessions.usage(session).ok()?.counters;
        let forwards = 0..slot.image.rules.fars().len() as u8;
        let buffering = forwards.filter_map(|forward| slot.image.buffering(forward));
        let waiting = buffering.map(|Buffering { far, .. }| (far, self.buffers.waiting((session, far))));
        Some(SessionStatus {
            counters,
            contents: self.sessions.contents(session, now),
            waiting: waiting.collect(),
            flows: slot.account.flows,
        })
    }
}

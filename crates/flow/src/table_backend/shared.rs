//! What becomes of sessions whose giver is gone, where others stay.

use std::collections::HashSet;

use super::TableBackend;
use super::tables::BackendTables;
use crate::SessionIndex;
use crate::contract::{Notice, ObjectId, Request, SharedBackend, Subject};

impl<T: BackendTables> SharedBackend for TableBackend<T> {
    fn share_among(&mut self, sharers: usize) {
        self.tables.share_among(sharers);
    }

    fn assign(&mut self, session: SessionIndex, sharer: usize) {
        self.tables.assign(session, sharer);
    }

    fn end_sessions(&mut self, sessions: &HashSet<SessionIndex>) {
        let is_about_one = |request: &Request| matches!(request.subject, Subject::Session(session) if sessions.contains(&session));
        self.requests.retain(|request| !is_about_one(request));
        for session in sessions {
            // One that was not given yet is not there.
            let _ = self.remove(*session, ObjectId::Session, self.now);
        }
        self.notices.retain(|notice| match notice {
            Notice::Event(event) => event.session().is_none_or(|session| !sessions.contains(&session)),
            Notice::Reply(_) => true,
        });
    }
}

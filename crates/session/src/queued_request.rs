//! Requests of sessions that wait for the one before them.

use crate::ids::{CpFSeid, Ticket};
use crate::rule_changes::Changes;

/// What becomes of a session that is exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Export {
    /// It continues here; the record is a copy of one moment.
    Copy,
    /// It ends here, and nothing is reported of it: who has the record has the session.
    Take,
}

/// A request that waits for the one before it.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) ticket: Ticket,
    pub(crate) request: Request,
}

/// What a request asks of a session.
#[derive(Debug)]
pub(crate) enum Request {
    Modify {
        changes: Box<Changes>,
        cp: Option<CpFSeid>,
    },
    /// A session is to be set up in the place of this one, if this one still has the name `cp` then.
    Supersede {
        changes: Box<Changes>,
        cp: CpFSeid,
    },
    Delete,
    Export(Export),
    /// Charging is to be paused. A request of the user plane's own: its outcome goes to no peer.
    Pause,
    /// The configuration has changed: the session follows. A request of the user plane's own, without a deadline.
    Recompile,
}

//! How a session comes back from a store: at a packet, at the request that is about it, or because it is next.

use flow::Nanos;
use pfcp::Header;
use pfcp::message::Message;
use session::{Seid, is_newest_form};

use crate::absent_lists::AbsentLists;
use crate::absent_sessions::{RecordFault, Reserved, StoredSession};
use crate::endpoint_state::Shared;
use crate::ie_addresses::cp_f_seid;
use crate::node::NodeName;
use crate::node_records::octets_of;
use crate::pfds::Pfds;
use crate::session_transfer::{ImportError, SessionTransfer};

/// What brings sessions back.
pub(crate) struct Restoring<'a> {
    pub(crate) shared: &'a mut Shared,
    pub(crate) transfer: &'a mut SessionTransfer,
    pub(crate) pfds: &'a Pfds,
    pub(crate) absent: &'a mut AbsentLists,
}

/// Whether a request can be served now.
#[derive(Debug)]
pub(crate) enum Service {
    /// It can.
    Now,
    /// It can; the session that it is about could not come back.
    WithoutSession(Seid, ImportError),
    /// It is about all sessions of a peer or of the node, and not all have come; or not all are listed, and it may be
    /// about one of them. Its sender repeats it.
    Later,
}

impl Restoring<'_> {
    /// Has the session come that a request names, if it is yet to come. Gives why it cannot.
    pub(crate) fn prepare_session(&mut self, now: Nanos, header: &Header) -> Option<(Seid, ImportError)> {
        let named = header.seid.map(|seid| Seid(seid.0));
        let seid = named.filter(|seid| self.absent.has(*seid))?;
        self.restore(now, seid).err().map(|error| (seid, error))
    }

    /// Has the session come that a request to set one up takes the place of, if it is yet to come.
    pub(crate) fn prepare(&mut self, now: Nanos, message: &Message<'_>) -> Service {
        if self.absent.is_over() {
            return Service::Now;
        }
        if self.absent.is_listing() {
            return Service::Later;
        }
        let seid = match message {
            Message::SessionEstablishmentRequest(sent) => NodeName::of(sent.node_id)
                .and_then(|node| self.absent.by_owner(&octets_of(&node), cp_f_seid(sent.cp_f_seid))),
            Message::SessionModificationRequest(_) | Message::SessionDeletionRequest(_) => None,
            _ => return Service::Later,
        };
        match seid.map(|seid| (seid, self.restore(now, seid))) {
            Some((seid, Err(error))) => Service::WithoutSession(seid, error),
            Some((_, Ok(()))) | None => Service::Now,
        }
    }

    /// Has a session come, if it is yet to come.
    ///
    /// # Errors
    /// Why it cannot. What has no place here, or is damaged, is given up: it, or what there was before it, would come
    /// back at a later start, when its peer has long ended it. What else cannot be read stays in the store, for another
    /// version or another disk.
    pub(crate) fn restore(&mut self, now: Nanos, seid: Seid) -> Result<(), ImportError> {
        let taken = self.absent.take(seid);
        let Some((Reserved { tunnels, addresses }, stored)) = taken else {
            return Ok(());
        };
        let restored = match stored {
            Ok(StoredSession { record, progress }) => {
                let restored =
                    self.transfer
                        .restore(self.shared, self.pfds, now, (&record, progress.as_deref()));
                if restored.is_ok() && !is_newest_form(&record) {
                    self.shared.sessions.mark(seid);
                }
                restored
            }
            Err(RecordFault::Damaged) => Err(ImportError::Damaged),
            Err(RecordFault::Unreadable) => Err(ImportError::Unreadable),
        };
        if let Err(ImportError::Session(_) | ImportError::NoAssociation(_) | ImportError::Damaged) = restored
        {
            self.shared.sessions.mark(seid);
        }
        self.shared.sessions.give_up_reserved(now, &tunnels, &addresses);
        restored.map(drop)
    }
}

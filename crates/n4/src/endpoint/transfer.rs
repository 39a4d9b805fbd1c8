//! Session transfer, as the endpoint's caller has it: export to another process, import from one.

use flow::Nanos;
use session::{Export, RecordError, Refusal, Seid};

use super::Endpoint;
use crate::association_control::Ended;
use crate::event_log::AssociationEnd;
use crate::session_transfer::{Exported, ImportError, Imported, export_associations, export_node};

impl Endpoint {
    /// From now on nothing is received, and nothing is sent, so that another process can continue the sessions and
    /// peers only see requests that they have to repeat (TS 29.244 §6.4).
    pub fn begin_transfer(&mut self) {
        self.session_transfer.is_transferring = true;
    }

    /// Another process will not continue: this one does. The records of sessions that left are to be imported again.
    pub fn cancel_transfer(&mut self) {
        self.session_transfer.is_transferring = false;
    }

    /// Another process has taken over: associations are forgotten here without a message to their peers. Last usage
    /// that is not acknowledged counts as not accepted.
    pub fn complete_transfer(&mut self, now: Nanos) {
        self.begin_transfer();
        self.control.stop();
        for id in self.shared.associations.ids() {
            let end = Ended {
                why: AssociationEnd::HandedOver,
                sessions: self.shared.sessions.sessions_of(id),
            };
            let (shared, reporting) = (&mut self.shared, &mut self.reporting);
            self.control.drop_association(shared, reporting, now, id, end);
        }
        self.shared.forget_last_usage(now);
        self.shared.transactions.clear_transmits();
    }

    /// The records of the node itself and of the applications that it knows: to be imported before all others.
    ///
    /// # Errors
    /// [`RecordError::TooLong`].
    pub fn export_node(&self) -> Result<Vec<Vec<u8>>, RecordError> {
        export_node(&self.shared, &self.pfds.pfds)
    }

    /// The records of all associations: to be imported before those of their sessions.
    ///
    /// # Errors
    /// [`RecordError::TooLong`].
    pub fn export_associations(&self) -> Result<Vec<Vec<u8>>, RecordError> {
        export_associations(&self.shared)
    }

    /// Makes records of all sessions, given one by one by [`poll_exported`](Self::poll_exported) in about the order of
    /// their SEIDs. Of sessions that are set up meanwhile some are left out: no new ones should come.
    pub fn export_all(&mut self, now: Nanos, how: Export) {
        self.session_transfer.export_all(how);
        self.advance_exports(now);
    }

    /// What came of an export. A few are under way at a time: the rest waits until these are taken.
    pub fn poll_exported(&mut self, now: Nanos) -> Option<Exported> {
        self.advance_exports(now);
        self.session_transfer.poll_exported()
    }

    /// Whether more will come of [`poll_exported`](Self::poll_exported).
    pub fn is_exporting(&self) -> bool {
        self.session_transfer.is_exporting()
    }

    fn advance_exports(&mut self, now: Nanos) {
        while let Some((seid, how)) = self.session_transfer.next_export(&self.shared.sessions) {
            self.export(now, seid, how);
        }
    }

    /// Takes in what the first record of `octets` is of. Gives what it becomes, and the octets behind it.
    ///
    /// # Errors
    /// Why it becomes nothing.
    pub fn import<'o>(&mut self, now: Nanos, octets: &'o [u8]) -> Result<(Imported, &'o [u8]), ImportError> {
        let (shared, pfds) = (&mut self.shared, &mut self.pfds.pfds);
        let imported = self
            .session_transfer
            .import(shared, &mut self.control, pfds, now, octets)?;
        if matches!(imported.0, Imported::Session(_)) {
            self.settle(now);
        }
        Ok(imported)
    }

    /// A session of an [`import`](Self::import) that is live now, or that its worker could not take.
    pub fn poll_imported(&mut self) -> Option<(Seid, Result<(), Refusal>)> {
        self.session_transfer.poll_imported()
    }
}

//! Sessions that leave for another process, and those that come from one, as records.

use flow::Nanos;
use n4::{Exported, ImportError, Imported};
use session::{Export, RecordError, Refusal, Seid};

use super::control::Control;

impl Control {
    /// The records of all associations, to be imported before those of their sessions.
    ///
    /// # Errors
    /// See [`n4::Endpoint::export_associations`].
    pub fn export_associations(&self) -> Result<Vec<Vec<u8>>, RecordError> {
        self.endpoint.export_associations()
    }

    /// Makes a record of one session.
    pub fn export(&mut self, now: Nanos, seid: Seid, how: Export) {
        self.neighbours.set_time(now);
        self.endpoint.export(now, seid, how);
    }

    /// Makes records of all sessions.
    pub fn export_all(&mut self, now: Nanos, how: Export) {
        self.neighbours.set_time(now);
        self.endpoint.export_all(now, how);
    }

    /// What came of an export; see [`n4::Endpoint::poll_exported`].
    pub fn poll_exported(&mut self, now: Nanos) -> Option<Exported> {
        self.neighbours.set_time(now);
        self.endpoint.poll_exported(now)
    }

    /// Whether more will come of [`poll_exported`](Self::poll_exported).
    #[must_use]
    pub fn is_exporting(&self) -> bool {
        self.endpoint.is_exporting()
    }

    /// Takes in what the first record of `octets` is of. Gives what it becomes, and the octets behind it.
    ///
    /// # Errors
    /// Why it becomes nothing.
    pub fn import<'o>(&mut self, now: Nanos, octets: &'o [u8]) -> Result<(Imported, &'o [u8]), ImportError> {
        self.neighbours.set_time(now);
        self.endpoint.import(now, octets)
    }

    /// A session of an import that is live now, or that its worker could not take.
    pub fn poll_imported(&mut self) -> Option<(Seid, Result<(), Refusal>)> {
        self.endpoint.poll_imported()
    }
}

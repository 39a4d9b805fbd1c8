//! Session transfer: export of sessions to another process, and import from one, as records.

use flow::Nanos;
use n4::{Endpoint, ExportError, Exported, ImportError, Imported};
use session::{Export, RecordError, Refusal, Seid, behind_record};

/// All that another process needs to continue as this node: the records of the node, its applications, its associations
/// and its sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeExport {
    /// The records, one behind the other.
    pub octets: Vec<u8>,
    /// How many of them are of sessions.
    pub sessions: u64,
    /// Sessions that have no record, and why.
    pub failed: Vec<(Seid, ExportError)>,
}

/// What records became that were imported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImportCounts {
    /// Associations that there are now.
    pub associations: u64,
    /// Applications that are known now.
    pub applications: u64,
    /// Sessions that workers have yet to confirm: [`SessionTransfer::poll_imported`] gives each.
    pub sessions: u64,
}

/// Export of sessions to another process, and import from one
/// ([`Control::session_transfer`](crate::Control::session_transfer)).
pub struct SessionTransfer<'a> {
    pub(super) endpoint: &'a mut Endpoint,
    /// The export that [`begin_node_export`](Self::begin_node_export) has begun.
    pub(super) node_export: &'a mut Option<NodeExport>,
    pub(super) now: Nanos,
}

impl SessionTransfer<'_> {
    /// Begins the export of the node, which [`poll_node_export`](Self::poll_node_export) gives. With
    /// [`Export::Take`] this process sends nothing to its peers, until [`restore`](Self::restore).
    ///
    /// # Errors
    /// [`RecordError::TooLong`]; nothing has changed then.
    pub fn begin_node_export(&mut self, how: Export) -> Result<(), RecordError> {
        let mut octets = self.endpoint.export_node()?.concat();
        octets.extend(self.endpoint.export_associations()?.concat());
        if how == Export::Take {
            self.endpoint.begin_transfer();
        }
        *self.node_export = Some(NodeExport {
            octets,
            ..NodeExport::default()
        });
        self.export_all(how);
        Ok(())
    }

    /// The export of the node, once all records are made.
    pub fn poll_node_export(&mut self) -> Option<NodeExport> {
        let mut export = self.node_export.take()?;
        while let Some(Exported { seid, record }) = self.poll_exported() {
            match record {
                Ok(octets) => {
                    export.octets.extend(octets);
                    export.sessions += 1;
                }
                Err(error) => export.failed.push((seid, error)),
            }
        }
        if self.is_exporting() {
            *self.node_export = Some(export);
            return None;
        }
        Some(export)
    }

    /// Imports again what [`Export::Take`] exported and no other process has imported. Gives the sessions that cannot
    /// be restored, with the reason.
    pub fn restore(&mut self, octets: &[u8]) -> Vec<ImportError> {
        self.endpoint.cancel_transfer();
        let mut failed = Vec::new();
        self.import_all(octets, |error| match error {
            // The node and its associations have been here all the time.
            ImportError::TooLate => {}
            error => failed.push(error),
        });
        failed
    }

    /// Another process has imported the records; see [`n4::Endpoint::complete_transfer`].
    pub fn complete_transfer(&mut self) {
        self.endpoint.complete_transfer(self.now);
    }

    /// Imports all records of `octets` up to the first invalid envelope; `fails` gets the error of each record that is
    /// not imported. The record of another node ends the import ([`ImportError::OtherNode`]): peers would see a
    /// restart.
    pub fn import_all(&mut self, octets: &[u8], mut fails: impl FnMut(ImportError)) -> ImportCounts {
        let mut taken = ImportCounts::default();
        let mut rest = octets;
        while !rest.is_empty() {
            let behind = match behind_record(rest) {
                Ok(behind) => behind,
                Err(error) => {
                    fails(error.into());
                    break;
                }
            };
            match self.import(rest) {
                Ok((Imported::Association(_), _)) => taken.associations += 1,
                Ok((Imported::Application(_), _)) => taken.applications += 1,
                Ok((Imported::Session(_), _)) => taken.sessions += 1,
                Ok((Imported::Node(_), _)) => {}
                Err(error) => {
                    let is_of_another = matches!(error, ImportError::OtherNode(_));
                    fails(error);
                    if is_of_another {
                        break;
                    }
                }
            }
            rest = behind;
        }
        taken
    }

    /// The records of all associations, to be imported before those of their sessions.
    ///
    /// # Errors
    /// See [`n4::Endpoint::export_associations`].
    pub fn export_associations(&self) -> Result<Vec<Vec<u8>>, RecordError> {
        self.endpoint.export_associations()
    }

    /// Makes a record of one session.
    pub fn export(&mut self, seid: Seid, how: Export) {
        self.endpoint.export(self.now, seid, how);
    }

    /// Makes records of all sessions.
    pub fn export_all(&mut self, how: Export) {
        self.endpoint.export_all(self.now, how);
    }

    /// What came of an export; see [`n4::Endpoint::poll_exported`].
    pub fn poll_exported(&mut self) -> Option<Exported> {
        self.endpoint.poll_exported(self.now)
    }

    /// Whether more will come of [`poll_exported`](Self::poll_exported).
    #[must_use]
    pub fn is_exporting(&self) -> bool {
        self.endpoint.is_exporting()
    }

    /// Imports the first record of `octets`. Gives what it has become, and the octets behind it.
    ///
    /// # Errors
    /// Why it is not imported.
    pub fn import<'o>(&mut self, octets: &'o [u8]) -> Result<(Imported, &'o [u8]), ImportError> {
        self.endpoint.import(self.now, octets)
    }

    /// A session of an import that is live now, or that its worker has refused.
    pub fn poll_imported(&mut self) -> Option<(Seid, Result<(), Refusal>)> {
        self.endpoint.poll_imported()
    }
}

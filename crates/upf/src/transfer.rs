//! Sessions that leave for another process, and those that come from one, as records.

use flow::Nanos;
use n4::{Endpoint, ExportError, Exported, ImportError, Imported};
use session::{Export, RecordError, Refusal, Seid, behind_record};

/// Everything that another process needs to go on: the records of the node, its applications, its associations, its
/// sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Everything {
    /// The records, one behind the other.
    pub octets: Vec<u8>,
    /// How many of them are of sessions.
    pub sessions: u64,
    /// Sessions that have no record, and why.
    pub failed: Vec<(Seid, ExportError)>,
}

/// What became of records that were taken in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TakenIn {
    /// Associations that there are now.
    pub associations: u64,
    /// Applications that are known now.
    pub applications: u64,
    /// Sessions that are on their way to their workers: [`Transfer::poll_imported`] tells of each.
    pub sessions: u64,
}

/// The sessions of a UPF on their way to another process, or from one: [`Control::transfer`](crate::Control::transfer).
pub struct Transfer<'a> {
    pub(super) endpoint: &'a mut Endpoint,
    /// What is made of [`begin_everything`](Self::begin_everything).
    pub(super) everything: &'a mut Option<Everything>,
    pub(super) now: Nanos,
}

impl Transfer<'_> {
    /// Begins to make records of everything, which [`poll_everything`](Self::poll_everything) gives. With
    /// [`Export::Take`] this process sends nothing to its peers, until [`take_back`](Self::take_back).
    ///
    /// # Errors
    /// [`RecordError::TooLong`]; nothing has changed then.
    pub fn begin_everything(&mut self, how: Export) -> Result<(), RecordError> {
        let mut octets = self.endpoint.export_node()?.concat();
        octets.extend(self.endpoint.export_associations()?.concat());
        if how == Export::Take {
            self.endpoint.begin_hand_over();
        }
        *self.everything = Some(Everything {
            octets,
            ..Everything::default()
        });
        self.export_all(how);
        Ok(())
    }

    /// The records of everything, once all of them are made.
    pub fn poll_everything(&mut self) -> Option<Everything> {
        let mut everything = self.everything.take()?;
        while let Some(Exported { seid, record }) = self.poll_exported() {
            match record {
                Ok(octets) => {
                    everything.octets.extend(octets);
                    everything.sessions += 1;
                }
                Err(error) => everything.failed.push((seid, error)),
            }
        }
        if self.is_exporting() {
            *self.everything = Some(everything);
            return None;
        }
        Some(everything)
    }

    /// Takes back what [`Export::Take`] gave: no other process has taken it in. Gives the sessions that have no place any
    /// more, with the reason.
    pub fn take_back(&mut self, octets: &[u8]) -> Vec<ImportError> {
        self.endpoint.end_hand_over();
        let mut failed = Vec::new();
        self.take_in(octets, |error| match error {
            // The node and its associations have been here all the time.
            ImportError::TooLate => {}
            error => failed.push(error),
        });
        failed
    }

    /// Another process has everything; see [`n4::Endpoint::handed_over`].
    pub fn handed_over(&mut self) {
        self.endpoint.handed_over(self.now);
    }

    /// Takes in all records of `octets`, as far as their envelopes are good; `fails` gets the error of each that becomes nothing.
    /// Behind the record of another node there is nothing for this one: its peers would see a restart
    /// ([`ImportError::OtherNode`]).
    pub fn take_in(&mut self, octets: &[u8], mut fails: impl FnMut(ImportError)) -> TakenIn {
        let mut taken = TakenIn::default();
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

    /// Takes in what the first record of `octets` is of. Gives what it becomes, and the octets behind it.
    ///
    /// # Errors
    /// Why it becomes nothing.
    pub fn import<'o>(&mut self, octets: &'o [u8]) -> Result<(Imported, &'o [u8]), ImportError> {
        self.endpoint.import(self.now, octets)
    }

    /// A session of an import that is live now, or that its worker could not take.
    pub fn poll_imported(&mut self) -> Option<(Seid, Result<(), Refusal>)> {
        self.endpoint.poll_imported()
    }
}

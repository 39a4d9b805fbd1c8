//! What of the node, its associations and applications has changed and is to be kept beyond the process; sessions mark
//! their own changes ([`session::Sessions::poll_changed`]).
//!
//! There are few associations and applications: at a change all are compared with what was given last.

use session::{
    ApplicationRecord, AssociationRecord, KeptSession, NodeRecord, ResponseRecord, Seid, UnacknowledgedUsage,
};
use std::collections::{BTreeMap, VecDeque};

use crate::association::Associations;
use crate::config::Config;
use crate::kept_usage::UsagePart;
use crate::node_records::{node_record, record_of};
use crate::pfds::{KnownBy, Pfds};

/// What is to be kept, as it is now, or that it is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kept {
    /// The node itself.
    Node(NodeRecord),
    /// The association with the node of these octets (TS 29.244 §8.2.38).
    Association {
        /// The octets of the peer's Node ID.
        node: Vec<u8>,
        /// `None`: it has ended.
        record: Option<Box<AssociationRecord>>,
    },
    /// An application's Packet Flow Descriptions.
    Application {
        /// The Application ID.
        id: Vec<u8>,
        /// `None`: it has none any more.
        record: Option<Box<ApplicationRecord>>,
    },
    /// The response to the deletion of a session. It comes before the end of the session.
    Response {
        /// The session's SEID.
        seid: Seid,
        /// `None`: it is not repeated any more.
        record: Option<Box<ResponseRecord>>,
    },
    /// Usage of a session that is gone, in one request that is not acknowledged. It comes before the end of the
    /// session.
    LastUsage {
        /// The session's SEID.
        seid: Seid,
        /// Which of the requests about the session.
        part: u16,
        /// `None`: the request has come to its end.
        record: Option<Box<UnacknowledgedUsage>>,
    },
    /// A session.
    Session {
        /// Its SEID.
        seid: Seid,
        /// `None`: it has ended.
        session: Option<Box<KeptSession>>,
    },
}

/// Changes that have not been given.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    is_kept: bool,
    changes: u64,
    node_is_due: bool,
    associations_are_due: bool,
    applications_are_due: bool,
    associations: BTreeMap<Vec<u8>, AssociationRecord>,
    applications: BTreeMap<Vec<u8>, KnownBy>,
    due: VecDeque<Kept>,
}

impl Journal {
    /// From now on changes are given; first all that there is.
    pub(crate) fn begin(&mut self) {
        self.is_kept = true;
        (
            self.node_is_due,
            self.associations_are_due,
            self.applications_are_due,
        ) = (true, true, true);
        self.changes += 1;
    }

    /// Whether changes are given.
    pub(crate) fn is_kept(&self) -> bool {
        self.is_kept
    }

    /// The deletion of a session was responded to; the responses of the sessions in `over` are repeated no more.
    pub(crate) fn responded(&mut self, seid: Seid, record: ResponseRecord, over: Vec<Seid>) {
        let record = Some(Box::new(record));
        self.due.push_back(Kept::Response { seid, record });
        self.responses_over(over);
    }

    /// The responses of these deleted sessions are repeated no more.
    pub(crate) fn responses_over(&mut self, over: Vec<Seid>) {
        let over = over.into_iter().map(|seid| Kept::Response { seid, record: None });
        self.due.extend(over);
        self.changes += 1;
    }

    /// Usage of a session that is gone is on its way; what is in `over` is kept no longer.
    pub(crate) fn usage_kept(
        &mut self,
        (seid, part): UsagePart,
        record: UnacknowledgedUsage,
        over: Vec<UsagePart>,
    ) {
        let record = Some(Box::new(record));
        self.due.push_back(Kept::LastUsage { seid, part, record });
        self.usage_over(over);
    }

    /// This usage is kept no longer.
    pub(crate) fn usage_over(&mut self, over: Vec<UsagePart>) {
        let gone = |(seid, part)| Kept::LastUsage {
            seid,
            part,
            record: None,
        };
        self.due.extend(over.into_iter().map(gone));
        self.changes += 1;
    }

    /// This comes behind what has been given.
    pub(crate) fn give_next(&mut self, kept: Kept) {
        self.due.push_back(kept);
    }

    /// Associations may have begun, changed or ended.
    pub(crate) fn associations_changed(&mut self) {
        if self.is_kept {
            self.associations_are_due = true;
            self.changes += 1;
        }
    }

    /// Applications may have changed.
    pub(crate) fn applications_changed(&mut self) {
        if self.is_kept {
            self.applications_are_due = true;
            self.changes += 1;
        }
    }

    /// How many changes there have been.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// The next of what is to be kept. Associations come before their sessions.
    pub(crate) fn poll(&mut self, config: &Config, associations: &Associations, pfds: &Pfds) -> Option<Kept> {
        if std::mem::take(&mut self.node_is_due) {
            self.due.push_back(Kept::Node(node_record(config)));
        }
        if std::mem::take(&mut self.applications_are_due) {
            let now = pfds.all().map(|(id, known)| (id.to_vec(), known.clone()));
            for (id, known) in differences(&mut self.applications, now.collect()) {
                let record = known.map(|known| Box::new(known.record(&id)));
                self.due.push_back(Kept::Application { id, record });
            }
        }
        if std::mem::take(&mut self.associations_are_due) {
            let now = associations.iter().map(record_of);
            let now = now.map(|record| (record.node.clone(), record));
            for (node, record) in differences(&mut self.associations, now.collect()) {
                let record = record.map(Box::new);
                self.due.push_back(Kept::Association { node, record });
            }
        }
        self.due.pop_front()
    }
}

/// What has changed from `before`, which becomes `now`.
fn differences<V: Clone + PartialEq>(
    before: &mut BTreeMap<Vec<u8>, V>,
    now: BTreeMap<Vec<u8>, V>,
) -> Vec<(Vec<u8>, Option<V>)> {
    let gone = before.keys().filter(|key| !now.contains_key(*key));
    let gone = gone.map(|key| (key.clone(), None));
    let new = now.iter().filter(|(key, value)| before.get(*key) != Some(value));
    let new = new.map(|(key, value)| (key.clone(), Some(value.clone())));
    let all = gone.chain(new).collect();
    *before = now;
    all
}

//! Session records: a session, or an association, as octets that outlive the process (docs/adr/0006).
//!
//! One versioned form for all that needs one: a store, a standby, an upgrade, a bucket that moves to another node. A
//! record names nothing that is of one process alone: network instances go by name, moments by date, associations by
//! Node ID; indexes, slots and counters of workers are not in it. SEIDs, TEIDs and UE addresses are: peers hold on to
//! them. Each record is sealed by itself ([`envelope`]), so that a file of many is read one by one.
//!
//! Values only: [`export`](crate::export) and [`import`](crate::import) make records of sessions and sessions of
//! records.

mod envelope;
mod error;
mod head;
mod plain;
mod progress;
mod session_v1;
mod types;

use usage::WallClock;

use envelope::Kind;
pub use error::{LONGEST_RECORD, RecordError};
pub use head::{KeptSession, SessionHead};
pub use progress::{PacketsProgress, SessionProgress};
pub use types::{
    AnsweredQuery, ApplicationRecord, AssociationRecord, DownlinkMark, Frame, NodeRecord, PendingReports,
    ResponseRecord, SessionRecord, UnacknowledgedUsage,
};

/// Any record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A session.
    Session(Box<SessionRecord>),
    /// An association.
    Association(Box<AssociationRecord>),
    /// The node itself.
    Node(Box<NodeRecord>),
    /// An application.
    Application(Box<ApplicationRecord>),
    /// A response to the deletion of a session.
    Response(Box<ResponseRecord>),
    /// Usage of a session that is gone, which its control plane has not acknowledged.
    Usage(Box<UnacknowledgedUsage>),
}

/// What follows on the record that `octets` begin with, which is whole and undamaged.
///
/// # Errors
/// What is wrong with its envelope.
pub fn behind_record(octets: &[u8]) -> Result<&[u8], RecordError> {
    envelope::open(octets).map(|(_, rest)| rest)
}

/// Whether the record that `octets` begin with has the form that is written now. One of the build before is read, and
/// written anew when that can be done: the build after reads it no more.
pub fn is_newest_form(octets: &[u8]) -> bool {
    envelope::open(octets).is_ok_and(|(sealed, _)| sealed.is_newest())
}

impl Record {
    /// Reads the record that `octets` begin with, and gives what follows on it.
    ///
    /// # Errors
    /// What is wrong with it. Nothing is believed that the check sum does not cover; no more memory is taken than a
    /// small multiple of the record's own length.
    pub fn decode<'o>(octets: &'o [u8], frame: Frame<'_>) -> Result<(Record, &'o [u8]), RecordError> {
        let (sealed, rest) = envelope::open(octets)?;
        let record = match sealed.kind {
            Kind::Session => session_v1::decode(sealed.body, sealed.revision, frame)
                .map(Box::new)
                .map(Record::Session),
            Kind::Association => plain::decode(sealed.body, "association").map(Record::Association),
            Kind::Node => plain::decode(sealed.body, "node").map(Record::Node),
            Kind::Application => plain::application(sealed.body, sealed.revision).map(Record::Application),
            Kind::Response => plain::decode(sealed.body, "response").map(Record::Response),
            Kind::Usage => session_v1::decode_usage(sealed.body, frame.wall)
                .map(Box::new)
                .map(Record::Usage),
        };
        Ok((record?, rest))
    }
}

impl SessionRecord {
    /// The session as octets.
    ///
    /// # Errors
    /// What no live session is: longer than [`LONGEST_RECORD`], or with a network instance that there is not.
    pub fn encode(&self, frame: Frame<'_>) -> Result<Vec<u8>, RecordError> {
        envelope::seal(Kind::Session, |to| session_v1::append(to, self, frame))
    }
}

impl AssociationRecord {
    /// The association as octets.
    ///
    /// # Errors
    /// [`RecordError::TooLong`].
    pub fn encode(&self) -> Result<Vec<u8>, RecordError> {
        envelope::seal(Kind::Association, |to| plain::append(to, self, "association"))
    }
}

impl NodeRecord {
    /// The node as octets.
    ///
    /// # Errors
    /// [`RecordError::TooLong`].
    pub fn encode(&self) -> Result<Vec<u8>, RecordError> {
        envelope::seal(Kind::Node, |to| plain::append(to, self, "node"))
    }
}

impl ApplicationRecord {
    /// The application as octets.
    ///
    /// # Errors
    /// [`RecordError::TooLong`].
    pub fn encode(&self) -> Result<Vec<u8>, RecordError> {
        envelope::seal(Kind::Application, |to| plain::append(to, self, "application"))
    }
}

impl ResponseRecord {
    /// The response as octets.
    ///
    /// # Errors
    /// [`RecordError::TooLong`].
    pub fn encode(&self) -> Result<Vec<u8>, RecordError> {
        envelope::seal(Kind::Response, |to| plain::append(to, self, "response"))
    }

    /// Reads a response.
    ///
    /// # Errors
    /// What is wrong with the record.
    pub fn decode(octets: &[u8]) -> Result<ResponseRecord, RecordError> {
        match envelope::open(octets)?.0 {
            envelope::Sealed {
                kind: Kind::Response,
                body,
                ..
            } => plain::decode(body, "response").map(|record| *record),
            _ => Err(RecordError::Malformed("response")),
        }
    }
}

impl UnacknowledgedUsage {
    /// The usage as octets.
    ///
    /// # Errors
    /// [`RecordError::TooLong`].
    pub fn encode(&self, wall: &WallClock) -> Result<Vec<u8>, RecordError> {
        envelope::seal(Kind::Usage, |to| session_v1::append_usage(to, self, wall))
    }

    /// Reads usage.
    ///
    /// # Errors
    /// What is wrong with the record.
    pub fn decode(octets: &[u8], wall: &WallClock) -> Result<UnacknowledgedUsage, RecordError> {
        match envelope::open(octets)?.0 {
            envelope::Sealed {
                kind: Kind::Usage,
                body,
                ..
            } => session_v1::decode_usage(body, wall),
            _ => Err(RecordError::Malformed("usage")),
        }
    }
}

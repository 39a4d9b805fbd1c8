//! What a record is of.

/// The tables of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Table {
    /// The node itself: one record.
    Node = 1,
    /// Associations, by Node ID (TS 29.244 §8.2.38).
    Association = 2,
    /// Applications with their PFDs, by Application ID (TS 29.244 §8.2.6).
    Application = 3,
    /// Sessions, by local SEID.
    Session = 4,
    /// Usage of sessions since their record, by local SEID.
    Usage = 5,
    /// Responses to deletions of sessions, by local SEID in network order.
    Response = 6,
    /// Usage of sessions that are gone, which is not acknowledged, by local SEID and number, in network order.
    LastUsage = 7,
}

impl Table {
    pub(crate) fn from_number(number: u8) -> Option<Table> {
        [
            Table::Node,
            Table::Association,
            Table::Application,
            Table::Session,
            Table::Usage,
            Table::Response,
            Table::LastUsage,
        ]
        .into_iter()
        .find(|table| *table as u8 == number)
    }
}

/// What a record is of: a table and an identifier in it. There is one value, or none, of each key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// The node itself.
    Node,
    /// An association: the octets of its Node ID.
    Association(Vec<u8>),
    /// An application: the octets of its Application ID.
    Application(Vec<u8>),
    /// A session: its local SEID.
    Session(u64),
    /// What a session has used since its record: its local SEID.
    Usage(u64),
    /// The response to the deletion of a session: the octets of its local SEID.
    Response([u8; 8]),
    /// Usage of a session that is gone, which is not acknowledged: the octets of its local SEID and of the number of
    /// the request.
    LastUsage([u8; 10]),
}

impl Key {
    /// The table.
    pub fn table(&self) -> Table {
        match self {
            Key::Node => Table::Node,
            Key::Association(_) => Table::Association,
            Key::Application(_) => Table::Application,
            Key::Session(_) => Table::Session,
            Key::Usage(_) => Table::Usage,
            Key::Response(_) => Table::Response,
            Key::LastUsage(_) => Table::LastUsage,
        }
    }
}

//! What a table answers and counts.

/// By what a packet of a session leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outbound {
    /// The public address.
    pub public: [u8; 4],
    /// The public port, or the identifier of ICMP queries.
    pub port: u16,
    /// The session should have another block: fewer than an eighth of its ports of this protocol are free, and it may
    /// have more. Only with a new mapping, and not more often than
    /// [`takes_request`](super::Mappings::takes_request) permits.
    pub wants_block: bool,
}

/// To whom a packet from outside goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inbound {
    /// An address of the session that holds the block.
    pub address: [u8; 4],
    /// Its port, or the identifier of its ICMP queries.
    pub port: u16,
    /// The mapping has not sent to the address that it comes from, where that is
    /// [distinguished](super::SessionPolicy::distinguishes_unsolicited).
    pub is_unsolicited: bool,
}

/// Why a packet of a session has no mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Refusal {
    /// The session holds no block, or is not known. See [`Mappings::takes_request`](super::Mappings::takes_request).
    NoBlock,
    /// All its ports of this protocol are mapped. See [`Mappings::takes_request`](super::Mappings::takes_request).
    NoPort,
    /// It has as many mappings as it may.
    TooManyMappings,
    /// It has made as many mappings in this second as it may.
    TooFast,
    /// The worker has no room for a mapping, or for an address that is sent to; or the session has its share of those.
    TableFull,
    /// It is moving to another worker, which makes the mappings from now on.
    Moving,
}

impl Refusal {
    /// All of them, each at its place in [`MappingStats::refused`].
    pub const ALL: [Self; 6] = [
        Self::NoBlock,
        Self::NoPort,
        Self::TooManyMappings,
        Self::TooFast,
        Self::TableFull,
        Self::Moving,
    ];

    /// Its name for operators.
    pub const fn label(self) -> &'static str {
        match self {
            Self::NoBlock => "no_block",
            Self::NoPort => "no_port",
            Self::TooManyMappings => "too_many_mappings",
            Self::TooFast => "too_fast",
            Self::TableFull => "table_full",
            Self::Moving => "moving",
        }
    }
}

/// Why a packet from outside is not let through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsolicited {
    /// No live mapping has this port.
    NoMapping,
    /// The mapping has not sent to the address that it comes from.
    Filtered,
}

/// What a table has counted since it was made, and what is in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MappingStats {
    /// Mappings made by packets.
    pub made: u64,
    /// Mappings taken out since their lifetime was over.
    pub expired: u64,
    /// Mappings that came with sessions of other workers.
    pub imported: u64,
    /// Packets of sessions without mapping, by [`Refusal`].
    pub refused: [u64; Refusal::ALL.len()],
    /// Packets from outside to no live mapping.
    pub unsolicited: u64,
    /// Packets from outside through a live mapping, from addresses that it has not sent to, where these are
    /// distinguished.
    pub unsolicited_admitted: u64,
    /// Packets from outside that the filter did not let through.
    pub filtered: u64,
    /// Mappings in the table; some may be dead.
    pub mappings: usize,
    /// Addresses that they have sent to, as far as that matters.
    pub remotes: usize,
    /// Blocks that sessions hold.
    pub blocks: usize,
}

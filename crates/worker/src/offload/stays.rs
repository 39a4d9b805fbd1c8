//! Why sessions stay with their worker.

/// Why a session's packets pass in software.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Stays {
    /// A FAR buffers, redirects, duplicates, mirrors, or drops what is to be reported.
    Action,
    /// Packets are to be looked into, or pass an access list.
    Inspection,
    /// It has public addresses of a NAT pool.
    Nat,
    /// Contents or events are counted, credit is pooled, inactivity is watched, or something is reported by packet.
    Accounting,
    /// It shares a rate with other sessions of which the accelerator has no lease, or not yet.
    SharedRate,
    /// It is on its way from a worker to another.
    Moving,
    /// Packets leave by a port that is not the accelerator's.
    Port,
    /// The accelerator cannot do something that it needs.
    Capability,
    /// A packet of it needed this node, or the accelerator has refused it, not long ago.
    Refused,
    /// Packets of it wait, as for a next hop that does not answer yet: later ones would leave before them.
    Waiting,
    /// Its packets wait in queues, and the accelerator has none, or not such.
    Queues,
    /// Its queues are below a port, an instance or a policer with a rate, which sessions share.
    SharedShaper,
    /// No session leaves in partial mode.
    PartialMode,
}

impl Stays {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 13] = [
        Self::Action,
        Self::Inspection,
        Self::Nat,
        Self::Accounting,
        Self::SharedRate,
        Self::Moving,
        Self::Port,
        Self::Capability,
        Self::Refused,
        Self::Waiting,
        Self::Queues,
        Self::SharedShaper,
        Self::PartialMode,
    ];

    /// The label of a metric.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Action => "action",
            Self::Inspection => "inspection",
            Self::Nat => "nat",
            Self::Accounting => "accounting",
            Self::SharedRate => "shared_rate",
            Self::Moving => "moving",
            Self::Port => "port",
            Self::Capability => "capability",
            Self::Refused => "refused",
            Self::Waiting => "waiting",
            Self::Queues => "queues",
            Self::SharedShaper => "shared_shaper",
            Self::PartialMode => "partial_mode",
        }
    }
}

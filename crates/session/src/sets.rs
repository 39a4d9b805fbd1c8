//! Sets of SMFs that a session belongs to (TS 29.244 §5.22).

use rules::boxed_option::{Absent, BoxedOption};
use std::net::{Ipv4Addr, Ipv6Addr};

/// The node that made a set of sessions (TS 29.244 §8.2.43).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SetNode {
    /// A global IPv4 address.
    Ipv4(Ipv4Addr),
    /// A global IPv6 address.
    Ipv6(Ipv6Addr),
    /// A number of 32 bits that the operator assigns.
    Operator(u32),
}

/// A fully qualified connection set identifier, one number of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SetId {
    /// The kind of node, 0 to 15, where it is said.
    pub kind: Option<u8>,
    /// The node.
    pub node: SetNode,
    /// The set.
    pub number: u16,
}

/// Addresses that a control plane function is to be reached at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    /// IPv4.
    pub ipv4: Option<Ipv4Addr>,
    /// IPv6.
    pub ipv6: Option<Ipv6Addr>,
}

/// What sets a session belongs to. It goes with the session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sets {
    /// Its FQ-CSIDs.
    pub ids: Vec<SetId>,
    /// Its Group Id (TS 29.244 §8.2.198).
    pub group: Option<Box<[u8]>>,
    /// Where its reports go instead of to its CP F-SEID, by a Session Set Modification.
    pub reports_to: Option<Addresses>,
}

impl Absent for Sets {
    const ABSENT: &'static Self = &Sets {
        ids: Vec::new(),
        group: None,
        reports_to: None,
    };
}

impl From<Sets> for BoxedOption<Sets> {
    fn from(sets: Sets) -> Self {
        let mut boxed = Self::NONE;
        if sets != Sets::default() {
            *boxed.get_or_insert_default() = sets;
        }
        boxed
    }
}

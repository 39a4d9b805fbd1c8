//! Sets that a session belongs to, and changes of who controls it (TS 29.244 §5.22).

use rules::boxed_option::{Absent, BoxedOption};
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::effect::{AssociationId, CpFSeid, Seid};
use crate::sessions::Sessions;

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

impl Sessions {
    /// The sets of a session, to be changed.
    pub fn sets_mut(&mut self, seid: Seid) -> Option<&mut Sets> {
        let index = self.by_seid.get(seid)?;
        self.session_mut(index)
            .map(|session| session.sets.get_or_insert_default())
    }

    /// The control plane knows a session by another F-SEID from now on.
    pub fn rename(&mut self, seid: Seid, cp: CpFSeid) {
        if let Some(index) = self.by_seid.get(seid) {
            self.move_owner(index, cp);
        }
    }

    /// A session belongs to another association from now on. What it holds still counts for the one that set it up.
    pub fn hand_over(&mut self, seid: Seid, to: AssociationId) {
        let Some(index) = self.by_seid.get(seid) else {
            return;
        };
        self.leave_association(index);
        let Some(session) = self.slots.get_mut(index.index()).and_then(Option::as_deref_mut) else {
            return;
        };
        let from = std::mem::replace(&mut session.association, to);
        let cp = session.cp;
        self.correlations.hand_over(index, to);
        for path in &session.live.paths {
            self.paths.add(to, *path);
            self.paths.remove(from, *path);
        }
        self.shares.remove_session(from);
        self.shares.add_session(to);
        if self.by_owner.get(&(from, cp)) == Some(&index) {
            self.by_owner.remove(&(from, cp));
        }
        self.by_owner.insert((to, cp), index);
        self.join_association(index);
    }
}

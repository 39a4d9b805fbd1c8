//! CG-NAT: what control planes choose of public addresses.

use super::Network;
use crate::model::{ChosenNat, DestinationInterface, Far, FarId, SessionRules};

impl Network {
    /// What those FARs of a session choose of public addresses that lead towards data networks, themselves or by the
    /// forwarding policies that they name: the first that chooses any, and the first that chooses otherwise. A session
    /// has one pool, so that there may be no such.
    pub fn nat_choice(&self, rules: &SessionRules) -> (Option<ChosenNat>, Option<FarId>) {
        let mut all = rules.fars().iter().filter_map(|far| self.nat_choice_of(far));
        let first = all.next();
        let differs = |other: &ChosenNat| first.is_some_and(|first| first.choice != other.choice);
        (first, all.find(differs).map(|other| other.far))
    }

    fn nat_choice_of(&self, far: &Far) -> Option<ChosenNat> {
        let to = far.forwarding.as_ref()?;
        if !matches!(
            to.destination,
            DestinationInterface::Core | DestinationInterface::SgiLan
        ) {
            return None;
        }
        let by_policy = || Some((to.policy, self.policy(to.policy?)?.nat?));
        let (policy, choice) = far.optional.nat.map(|choice| (None, choice)).or_else(by_policy)?;
        let far = far.id;
        Some(ChosenNat { far, policy, choice })
    }
}

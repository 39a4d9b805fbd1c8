//! Associations that we set up (TS 29.244 §6.2.6.3): with each control plane function of the configuration, until it
//! has one, whichever side began.
//!
//! A peer that refuses or is silent is asked again after pauses that double; one that has restarted is asked at once,
//! one that no heartbeat reaches after the first pause, one that has released its association after the longest: it
//! wants to be left alone. When both sides ask at once the association is one, and so it is when a peer answers that
//! has not restarted since: its sessions stay. Belongs to the endpoint; says nothing about peers that set up by
//! themselves.

use flow::Nanos;
use pfcp::Frame;
use pfcp::ie::{CpFunctionFeatures, RecoveryTimeStamp};
use pfcp::message::{AssociationSetupRequest, AssociationSetupResponse, Body};
use session::AssociationId;
use std::net::SocketAddr;
use std::time::Duration;

use crate::association::{Association, Introduction, other_addresses, set_name};
use crate::config::Smf;
use crate::endpoint_state::Shared;
use crate::features::bbf_up_function_features;
use crate::node::NodeName;
use crate::own_requests::Purpose;
use crate::transactions::Path;

/// The number that SD-Core's responses have, whatever that of the request.
const FIXED_SEQUENCE: u32 = 1;

/// Where we stand with one control plane function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// It is asked at this moment, unless it has an association then.
    Waits(Nanos),
    /// A request of this number is on its way.
    Asked(u32),
    /// It has an association.
    Done,
    /// It is not configured any more. Requests name targets by place, so that it keeps its.
    Removed,
}

#[derive(Debug)]
struct Target {
    smf: Smf,
    stage: Stage,
    /// Its association, as far as we know.
    association: Option<AssociationId>,
    /// The pause after the next failure.
    pause: Duration,
}

/// The control plane functions that we set up associations with.
#[derive(Debug)]
pub(crate) struct AssociationSetups {
    targets: Vec<Target>,
    first: Duration,
    longest: Duration,
}

impl AssociationSetups {
    pub(crate) fn new(smfs: &[Smf], first: Duration, longest: Duration) -> AssociationSetups {
        let target = |smf: &Smf| Target {
            smf: *smf,
            stage: Stage::Waits(Nanos::ZERO),
            association: None,
            pause: first,
        };
        AssociationSetups {
            targets: smfs.iter().map(target).collect(),
            first,
            longest: longest.max(first),
        }
    }

    /// These are the control plane functions from now on. Those that come are asked at once; associations of those that
    /// go stay.
    pub(crate) fn set_targets(&mut self, now: Nanos, smfs: &[Smf], first: Duration, longest: Duration) {
        (self.first, self.longest) = (first, longest.max(first));
        for target in &mut self.targets {
            if !smfs.contains(&target.smf) {
                target.stage = Stage::Removed;
            } else if let Stage::Waits(at) = &mut target.stage {
                *at = (*at).min(now + self.longest);
            }
            target.pause = target.pause.clamp(self.first, self.longest);
        }
        for smf in smfs {
            let known = self.targets.iter_mut().find(|target| target.smf == *smf);
            match known {
                Some(target) if target.stage == Stage::Removed => target.stage = Stage::Waits(now),
                Some(_) => {}
                None => self.targets.push(Target {
                    smf: *smf,
                    stage: Stage::Waits(now),
                    association: None,
                    pause: first,
                }),
            }
        }
    }

    /// No setup is requested any more.
    pub(crate) fn stop(&mut self) {
        self.targets.clear();
    }

    /// When a setup is to be requested next.
    pub(crate) fn poll_timeout(&self) -> Option<Nanos> {
        let at = |target: &Target| match target.stage {
            Stage::Waits(at) => Some(at),
            Stage::Asked(_) | Stage::Done | Stage::Removed => None,
        };
        self.targets.iter().filter_map(at).min()
    }

    /// A control plane function whose setup is due.
    fn due(&self, now: Nanos) -> Option<usize> {
        let is_due = |target: &Target| matches!(target.stage, Stage::Waits(at) if at <= now);
        self.targets.iter().position(is_due)
    }

    fn target(&self, place: usize) -> Option<&Target> {
        self.targets.get(place)
    }

    fn enter(&mut self, place: usize, stage: Stage) {
        if let Some(target) = self.targets.get_mut(place) {
            target.stage = stage;
        }
    }

    /// The number of the request that an Association Setup Response from `peer` of this number answers.
    pub(crate) fn asked(&self, peer: SocketAddr, sequence: u32) -> u32 {
        let asked = |target: &Target| match target.stage {
            Stage::Asked(asked) if target.smf.address == peer.ip() => Some(asked),
            _ => None,
        };
        let theirs = self.targets.iter().find_map(asked);
        theirs.filter(|_| sequence == FIXED_SEQUENCE).unwrap_or(sequence)
    }

    /// A request came to nothing.
    pub(crate) fn failed(&mut self, now: Nanos, place: usize) {
        let longest = self.longest;
        let asked = |target: &&mut Target| matches!(target.stage, Stage::Asked(_));
        if let Some(target) = self.targets.get_mut(place).filter(asked) {
            target.stage = Stage::Waits(now + target.pause);
            target.pause = target.pause.saturating_mul(2).min(longest);
        }
    }

    /// An association has been set up, by either side.
    pub(crate) fn associated(&mut self, association: &Association) {
        let first = self.first;
        let its =
            |target: &&mut Target| target.stage != Stage::Removed && association.is_at(target.smf.address);
        for target in self.targets.iter_mut().filter(its) {
            target.stage = Stage::Done;
            target.association = Some(association.id);
            target.pause = first;
        }
    }

    /// A peer does not answer heartbeats. It may have restarted and no longer know us.
    pub(crate) fn silent(&mut self, now: Nanos, id: AssociationId) {
        let at = now + self.first;
        self.done(id).for_each(|target| target.stage = Stage::Waits(at));
    }

    /// A peer has restarted.
    pub(crate) fn restarted(&mut self, now: Nanos, id: AssociationId) {
        for target in self.done(id) {
            target.stage = Stage::Waits(now);
            target.association = None;
        }
    }

    /// An association has ended.
    pub(crate) fn ended(&mut self, now: Nanos, id: AssociationId) {
        let at = now + self.longest;
        self.done(id).for_each(|target| target.stage = Stage::Waits(at));
        let its = |target: &&mut Target| target.association == Some(id);
        self.targets
            .iter_mut()
            .filter(its)
            .for_each(|target| target.association = None);
    }

    /// Asks the control plane functions whose time has come, but for those that have an association by now.
    pub(crate) fn handle_timeout(&mut self, shared: &mut Shared, now: Nanos) {
        while let Some(place) = self.due(now) {
            let known = self.target(place).and_then(|target| target.association);
            let association = known.and_then(|id| shared.associations.get(id));
            let stage = match association.filter(|association| association.reachable) {
                Some(_) => Stage::Done,
                None => Stage::Asked(self.request_setup(shared, now, place)),
            };
            self.enter(place, stage);
        }
    }

    /// Sends an Association Setup Request and answers its number.
    fn request_setup(&mut self, shared: &mut Shared, now: Nanos, place: usize) -> u32 {
        let Some(Smf { address, local }) = self.target(place).map(|target| target.smf) else {
            return 0;
        };
        let path = Path {
            from: SocketAddr::new(address, shared.config.peer_port),
            to: local,
        };
        let node = shared.config.node.clone();
        let mut request = AssociationSetupRequest::new(node.as_ie(), shared.recovery());
        request.up_function_features = Some(shared.features_for(address, CpFunctionFeatures::empty()));
        request.bbf_up_function_features = bbf_up_function_features(&shared.network);
        shared.send_request(now, path, None, Purpose::Setup(place), &request)
    }

    /// A peer has responded to an Association Setup Request. Gives what it says of itself, if it has accepted.
    pub(crate) fn responded(
        &mut self,
        shared: &mut Shared,
        now: Nanos,
        place: usize,
        frame: &Frame<'_>,
    ) -> Option<Introduction> {
        let response = AssociationSetupResponse::decode(frame.body).ok();
        let accepted = response.filter(|response| response.cause.is_accepted());
        let introduction = accepted.as_ref().and_then(introduction);
        if introduction.is_none() {
            shared.counters.setups_refused += 1;
            self.failed(now, place);
        }
        introduction
    }

    fn done(&mut self, id: AssociationId) -> impl Iterator<Item = &mut Target> {
        let its = move |target: &&mut Target| target.stage == Stage::Done && target.association == Some(id);
        self.targets.iter_mut().filter(its)
    }
}

/// What a peer says of itself; `None` if it does not say who it is and since when.
fn introduction(response: &AssociationSetupResponse<'_>) -> Option<Introduction> {
    let node = NodeName::of(response.node_id)?;
    let recovery: RecoveryTimeStamp = response.recovery_time_stamp?;
    Some(Introduction {
        others: other_addresses(&node, response.alternative_smf_ip_address.iter()),
        node,
        recovery,
        features: response.cp_function_features,
        set: set_name(response.smf_set_id),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn setups() -> AssociationSetups {
        let smf = Smf {
            address: [192, 0, 2, 1].into(),
            local: "192.0.2.9:8805".parse().unwrap(),
        };
        AssociationSetups::new(&[smf], SECOND * 2, SECOND * 9)
    }

    #[test]
    fn pauses_double_up_to_the_longest() {
        let mut setups = setups();
        let mut now = Nanos::ZERO;
        let mut pauses = Vec::new();
        for _ in 0..5 {
            assert_eq!(setups.due(now), Some(0));
            setups.enter(0, Stage::Asked(7));
            assert_eq!((setups.due(Nanos::MAX), setups.poll_timeout()), (None, None));
            setups.failed(now, 0);
            let at = setups.poll_timeout().unwrap();
            pauses.push(at.since(now).as_secs());
            now = at;
        }
        assert_eq!(pauses, [2, 4, 8, 9, 9]);
    }

    #[test]
    fn only_a_requested_peer_may_respond_with_sequence_number_one() {
        let mut setups = setups();
        let peer = |last: u8| SocketAddr::new([192, 0, 2, last].into(), 8805);
        assert_eq!(setups.asked(peer(1), 1), 1);
        setups.enter(0, Stage::Asked(0x1234));
        assert_eq!(setups.asked(peer(1), 1), 0x1234);
        assert_eq!(setups.asked(peer(1), 2), 2);
        assert_eq!(setups.asked(peer(2), 1), 1);
    }
}

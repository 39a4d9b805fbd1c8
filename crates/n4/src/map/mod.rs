//! From IEs to the rules of [`rules::model`].
//!
//! Pure functions. What this node does not do is refused here, rule by rule, so that "accepted" stays true; optional
//! IEs that only inform (names, priorities, hints) are passed over. What becomes of each IE, and what is accepted and
//! not acted upon yet, is listed in docs/compliance/ts29244-ies.md.

mod allocated;
mod bar;
mod far;
mod packet_rates;
mod pdr;
mod qer;
mod request;
mod subscriber;
mod traffic_endpoint;
mod ue_ip;
mod unsupported;
mod urr;

pub(crate) use allocated::Allocations;
pub(crate) use packet_rates::{last_status, modified_status};
pub(crate) use request::{change_slice, establishment, modification};

use flow::Nanos;
use pfcp::ie::{ApplicationId, Cause, NetworkInstance};
use pfcp::{IeType, Interfaces, Repeated, Restrict};
use rules::model::{Application, UnixSeconds};
use rules::model::{Predefined, Rulebase};
use rules::network::{InstanceId, Network};
use session::WallClock;
use std::borrow::Cow;
use std::cell::Cell;
use std::sync::Arc;

use crate::cause::Reject;
use crate::config::UnknownInstance;
use crate::flow_descriptions::Descriptions;
use crate::pfds::Pfds;

/// What mapping needs to know of the node.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) network: &'a Network,
    pub(crate) unknown_instance: UnknownInstance,
    /// The applications that are known.
    pub(crate) pfds: &'a Pfds,
    /// The flow descriptions that were read before.
    pub(crate) descriptions: &'a Descriptions,
    /// Where UE addresses are given from.
    pub(crate) pools: &'a [session::Pool],
    /// What may be activated by name.
    pub(crate) predefined: &'a Predefined,
    /// The date.
    pub(crate) now: UnixSeconds,
    /// The same on the process's clock.
    pub(crate) clock: Nanos,
    /// Which dates moments of that clock have.
    pub(crate) wall: &'a WallClock,
    /// Over which reference points the peer speaks, and what it can read.
    pub(crate) peer: Peer<'a>,
    /// What the lack of an IE is that is mandatory in a Create PDR: these are mandatory in an Establishment, and
    /// conditional in a Modification, where all that they hold is (TS 29.244 §7.2.3.2).
    pub(crate) missing: Cause,
}

/// Over which reference points a peer speaks, what it can read, and how many IEs have had no place there.
#[derive(Clone, Copy)]
pub(crate) struct Peer<'a> {
    pub(crate) interfaces: Interfaces,
    pub(crate) reads_usage_information: bool,
    pub(crate) misplaced: &'a Cell<usize>,
}

impl Peer<'_> {
    /// A rule or a whole request, without what has no place on the peer's reference points (TS 29.244 §7.6.9); what the
    /// rules of a request hold stays.
    pub(crate) fn own<T: Restrict + Copy>(self, sent: &T) -> Cow<'_, T> {
        match self.interfaces {
            Interfaces::ANY => Cow::Borrowed(sent),
            interfaces => {
                let mut own = *sent;
                let discarded = own.restrict(interfaces);
                self.misplaced.set(self.misplaced.get() + discarded);
                Cow::Owned(own)
            }
        }
    }
}

impl Context<'_> {
    /// The instance that `name` names. Peers send it in DNS labels, as plain text, or empty for none.
    fn instance(
        &self,
        name: Option<NetworkInstance<'_>>,
        rejected: Reject,
    ) -> Result<Option<InstanceId>, Reject> {
        let Some(NetworkInstance(name)) = name.filter(|name| !name.0.is_empty()) else {
            return Ok(None);
        };
        match (self.network.instance_by_name(name), self.unknown_instance) {
            (Some(instance), _) => Ok(Some(instance.id)),
            (None, UnknownInstance::Default) => Ok(None),
            (None, UnknownInstance::Refuse) => Err(rejected.offends(IeType::NETWORK_INSTANCE)),
        }
    }

    /// The application that an IE names. One without PFDs is none that we know (TS 29.244 §8.2.6).
    fn application(
        &self,
        id: Option<ApplicationId<'_>>,
        rejected: Reject,
    ) -> Result<Option<Application>, Reject> {
        let named = id.map(|id| self.pfds.application(id.0));
        let unknown = rejected.offends(IeType::APPLICATION_ID);
        named.map(|known| known.ok_or(unknown)).transpose()
    }

    /// The rulebases with these names, each once. `is_empty_list`: they came as an IE without a name.
    fn rulebases<'n>(
        &self,
        names: impl Iterator<Item = &'n [u8]>,
        is_empty_list: bool,
        rejected: Reject,
    ) -> Result<Vec<Arc<Rulebase>>, Reject> {
        let unknown = rejected.because(Cause::UNKNOWN_PREDEFINED_RULE);
        refuse_if(&[is_empty_list], unknown)?;
        let mut rulebases: Vec<Arc<Rulebase>> = Vec::new();
        for name in names {
            let rulebase = self.predefined.rulebase(name).ok_or(unknown)?;
            if !rulebases.contains(rulebase) {
                rulebases.push(Arc::clone(rulebase));
            }
        }
        Ok(rulebases)
    }
}

/// Refuses a rule, with `reject`, if one of the IEs is there that ask for what this node does not do.
fn refuse_if(unsupported: &[bool], reject: Reject) -> Result<(), Reject> {
    if unsupported.contains(&true) {
        Err(reject)
    } else {
        Ok(())
    }
}

/// Refuses a request with cause 76 (Service not supported) and the first of the IEs that is present.
fn refuse(unsupported: &[(bool, IeType)]) -> Result<(), Reject> {
    match unsupported.iter().find(|(is_present, _)| *is_present) {
        Some((_, ie_type)) => Err(Reject::ie(Cause::SERVICE_NOT_SUPPORTED, *ie_type)),
        None => Ok(()),
    }
}

/// A list in an update: its members; none if it has a null length; `None` if it is absent.
fn list<T, U>(sent: &Repeated<'_, T>, members: impl Iterator<Item = U>) -> Option<Vec<U>> {
    is_present(sent).then(|| members.collect())
}

/// Whether a list is present, if only with a null length.
const fn is_present<T>(sent: &Repeated<'_, T>) -> bool {
    !sent.is_empty() || sent.removes_all()
}

/// The parameter of an Update as the rules take it: absent keeps, null length clears, a value sets.
fn edit<T, U>(sent: Option<pfcp::Edit<T>>, map: impl FnOnce(T) -> U) -> rules::model::Edit<U> {
    match sent {
        None => rules::model::Edit::Keep,
        Some(pfcp::Edit::Remove) => rules::model::Edit::Clear,
        Some(pfcp::Edit::Set(value)) => rules::model::Edit::Set(map(value)),
    }
}

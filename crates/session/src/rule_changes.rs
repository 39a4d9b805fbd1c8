//! What one request changes in a session's rules, free of PFCP's encoding.

use rules::Predefined;
use rules::image::{ImmediateActions, PacketsLeft};
use rules::model::{
    Bar, BarId, BarUpdate, EditError, EditFault, Far, FarId, FarUpdate, LocalPolicy, Pdr, PdrId, PdrUpdate,
    Qer, QerId, QerUpdate, RuleRef, SessionRules, TrafficEndpoint, TrafficEndpointId, TrafficEndpointUpdate,
    UeIpAddress, Urr, UrrId, UrrUpdate,
};
use std::mem::take;
use std::sync::Arc;

use crate::pools::PoolId;
use crate::session_accounting::Subscriber;

/// What gets a value that the user plane allocates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recipient {
    /// A PDR.
    Pdr(PdrId),
    /// A Traffic Endpoint.
    Endpoint(TrafficEndpointId),
}

impl From<PdrId> for Recipient {
    fn from(id: PdrId) -> Recipient {
        Recipient::Pdr(id)
    }
}

impl From<TrafficEndpointId> for Recipient {
    fn from(id: TrafficEndpointId) -> Recipient {
        Recipient::Endpoint(id)
    }
}

impl From<Recipient> for RuleRef {
    fn from(recipient: Recipient) -> RuleRef {
        match recipient {
            Recipient::Pdr(id) => id.into(),
            Recipient::Endpoint(id) => id.into(),
        }
    }
}

/// A request for an F-TEID of the user plane's choice (TS 29.244 §8.2.3, CH = 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choose {
    /// What it is for, among what the same request creates or updates.
    pub to: Recipient,
    /// V4: an IPv4 address is wanted. With neither V4 nor V6 the user plane answers what it likes; with both, what it
    /// has.
    pub ipv4: bool,
    /// V6: an IPv6 address is wanted.
    pub ipv6: bool,
    /// CHOOSE ID: PDRs with the same one share an F-TEID.
    pub id: Option<u8>,
}

/// A request for a UE address of the user plane's choice (TS 29.244 §8.2.62, CHV4 or CHV6).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChooseUeIp {
    /// What it is for, among what the same request creates or updates.
    pub to: Recipient,
    /// CHV4: an IPv4 address is wanted.
    pub ipv4: bool,
    /// CHV6: an IPv6 prefix of this length is wanted; `Some(None)`: of the pool's length.
    pub ipv6: Option<Option<u8>>,
    /// The prefix is wanted, and answered, as bits for delegation (IPv6D, TS 29.244 §5.14).
    pub is_delegated: bool,
    /// The S/D bit.
    pub is_destination: bool,
    /// The pools: none; one for all; or one for IPv4, then one for IPv6 (TS 29.244 Table 7.5.2.2-1).
    pub pools: Vec<PoolId>,
}

/// A UE address that the user plane allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assigned {
    /// What has it.
    pub to: Recipient,
    /// The address.
    pub address: UeIpAddress,
    /// The prefix was wanted as bits for delegation.
    pub is_delegated: bool,
    /// It was an update that asked.
    pub is_update: bool,
}

/// Which URRs are to be reported at once (TS 29.244 §5.2.2.3).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Query {
    /// None.
    #[default]
    Nothing,
    /// These (Query URR); each must exist.
    These(Vec<UrrId>),
    /// All (QAURR); these are named besides, and must exist.
    All(Vec<UrrId>),
}

/// What becomes of charging (NSPOC, TS 29.244 §5.30).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Charging {
    /// All URRs that a Pause of Charging is for stop (SUMPC).
    Paused,
    /// They measure again, whatever stopped them (RUMUC).
    Resumed,
}

/// What a session follows of a configuration that has changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Follow {
    /// Nothing has changed.
    #[default]
    Nothing,
    /// The network: its rules are compiled anew.
    Network,
    /// The network and what is predefined.
    All,
}

/// The changes of one request. They are made in the order of the fields: removals, creations, updates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "the fields are named as the IEs of TS 29.244 Table 7.5.4.1-1"
)]
pub struct Changes {
    pub remove_pdrs: Vec<PdrId>,
    pub remove_fars: Vec<FarId>,
    pub remove_qers: Vec<QerId>,
    pub remove_urrs: Vec<UrrId>,
    pub remove_bars: Vec<BarId>,
    pub remove_endpoints: Vec<TrafficEndpointId>,
    pub create_endpoints: Vec<TrafficEndpoint>,
    pub create_fars: Vec<Far>,
    pub create_qers: Vec<Qer>,
    pub create_urrs: Vec<Urr>,
    pub create_bars: Vec<Bar>,
    pub create_pdrs: Vec<Pdr>,
    pub update_fars: Vec<FarUpdate>,
    pub update_qers: Vec<QerUpdate>,
    pub update_urrs: Vec<UrrUpdate>,
    pub update_bars: Vec<BarUpdate>,
    pub update_endpoints: Vec<TrafficEndpointUpdate>,
    pub update_pdrs: Vec<PdrUpdate>,
    /// F-TEIDs wanted for PDRs and Traffic Endpoints above; their `f_teid` is then ignored.
    pub choose: Vec<Choose>,
    /// UE addresses wanted for PDRs and Traffic Endpoints above, beside those that they name.
    pub choose_ue_ip: Vec<ChooseUeIp>,
    /// What the configuration has for the session's slice and data network; as it is.
    pub local_policy: Option<LocalPolicy>,
    /// User Plane Inactivity Timer, in seconds; 0: none from now on.
    pub inactivity_timer: Option<u32>,
    /// RESTI: the session is restored, with F-TEIDs that it had before (TS 29.244 §5.5.1).
    pub restores: bool,
    /// Whom a session is for, if the request says it.
    pub subscriber: Option<Arc<Subscriber>>,
    /// What becomes of old tunnels and of packets that wait (SNDEM, DROBU).
    pub immediate: ImmediateActions,
    /// Reports wanted, computed before anything above changes.
    pub query: Query,
    /// QERs whose Packet Rate Status is wanted, as it is before anything above changes; each must exist.
    pub query_packets: Vec<QerId>,
    /// What is left of the packet rates of QERs above from the beginning (Packet Rate Status, TS 29.244 §5.4.15.2).
    pub packets: Vec<PacketsLeft>,
    /// What becomes of charging, when all above is done.
    pub charging: Option<Charging>,
    /// What else is to be taken over.
    pub follow: Follow,
}

impl Changes {
    /// Whether no rule changes.
    pub fn leaves_rules(&self) -> bool {
        let Changes {
            remove_pdrs,
            remove_fars,
            remove_qers,
            remove_urrs,
            remove_bars,
            remove_endpoints,
            create_endpoints,
            create_fars,
            create_qers,
            create_urrs,
            create_bars,
            create_pdrs,
            update_fars,
            update_qers,
            update_urrs,
            update_bars,
            update_endpoints,
            update_pdrs,
            choose,
            choose_ue_ip,
            local_policy,
            inactivity_timer,
            restores,
            subscriber,
            immediate,
            query: _,
            query_packets: _,
            packets,
            charging,
            follow,
        } = self;
        let removes_none = remove_pdrs.is_empty()
            && remove_fars.is_empty()
            && remove_qers.is_empty()
            && remove_urrs.is_empty()
            && remove_bars.is_empty()
            && remove_endpoints.is_empty();
        let creates_none = create_endpoints.is_empty()
            && create_fars.is_empty()
            && create_qers.is_empty()
            && create_urrs.is_empty()
            && create_bars.is_empty()
            && create_pdrs.is_empty();
        let updates_none = update_fars.is_empty()
            && update_qers.is_empty()
            && update_urrs.is_empty()
            && update_bars.is_empty()
            && update_endpoints.is_empty()
            && update_pdrs.is_empty();
        let chooses_none = choose.is_empty() && choose_ue_ip.is_empty();
        let says_nothing = local_policy.is_none()
            && inactivity_timer.is_none()
            && !restores
            && subscriber.is_none()
            && *immediate == ImmediateActions::default()
            && packets.is_empty()
            && charging.is_none()
            && *follow == Follow::Nothing;
        removes_none && creates_none && updates_none && chooses_none && says_nothing
    }

    /// Makes the changes, and has the session have instances of those of the `predefined` rules that its PDRs then use.
    /// What is created goes to the session.
    ///
    /// # Errors
    /// The first rule that cannot be created, updated or removed; `rules` is then to be thrown away.
    pub fn make(&mut self, rules: &mut SessionRules, predefined: &Predefined) -> Result<(), EditError> {
        self.check_numbers(predefined)?;
        self.remove(rules)?;
        self.create(rules)?;
        self.update(rules)?;
        if let Some(seconds) = self.inactivity_timer {
            rules.set_inactivity_timer(seconds);
        }
        rules.forget_unused_filters();
        match self.follow {
            Follow::All => rules.renew(predefined),
            Follow::Nothing => rules.instantiate(predefined),
            Follow::Network => {}
        }
        if let Some(charging) = self.charging {
            rules.pause_charging(charging == Charging::Paused);
        }
        Ok(())
    }

    /// No rule is created or changed that has the number of a predefined one (TS 29.244 §5.4.9).
    fn check_numbers(&self, predefined: &Predefined) -> Result<(), EditError> {
        let fars = self.create_fars.iter().map(|far| RuleRef::from(far.id));
        let qers = self.create_qers.iter().map(|qer| RuleRef::from(qer.id));
        let urrs = self.create_urrs.iter().map(|urr| RuleRef::from(urr.id));
        let far_updates = self.update_fars.iter().map(|far| RuleRef::from(far.id));
        let qer_updates = self.update_qers.iter().map(|qer| RuleRef::from(qer.id));
        let urr_updates = self.update_urrs.iter().map(|urr| RuleRef::from(urr.id));
        let created = fars.chain(qers).chain(urrs);
        let mut all = created.chain(far_updates).chain(qer_updates).chain(urr_updates);
        let fault = EditFault::Predefined;
        all.find(|rule| predefined.contains(*rule))
            .map_or(Ok(()), |rule| Err(EditError { rule, fault }))
    }

    fn remove(&self, rules: &mut SessionRules) -> Result<(), EditError> {
        each(&self.remove_pdrs, |id| rules.remove_pdr(*id).map(drop))?;
        each(&self.remove_fars, |id| rules.remove_far(*id).map(drop))?;
        each(&self.remove_qers, |id| rules.remove_qer(*id).map(drop))?;
        each(&self.remove_urrs, |id| rules.remove_urr(*id).map(drop))?;
        each(&self.remove_bars, |id| rules.remove_bar(*id).map(drop))?;
        each(&self.remove_endpoints, |id| rules.remove_endpoint(*id).map(drop))?;
        rules.forget_unused_filters();
        Ok(())
    }

    fn create(&mut self, rules: &mut SessionRules) -> Result<(), EditError> {
        if let Some(policy) = self.local_policy.take() {
            rules.set_local_policy(policy);
        }
        rules.create_fars(take(&mut self.create_fars))?;
        rules.create_qers(take(&mut self.create_qers))?;
        rules.create_urrs(take(&mut self.create_urrs))?;
        each(self.create_bars.drain(..), |bar| rules.create_bar(bar))?;
        each(self.create_endpoints.drain(..), |endpoint| {
            rules.create_endpoint(endpoint)
        })?;
        rules.create_pdrs(take(&mut self.create_pdrs))
    }

    fn update(&mut self, rules: &mut SessionRules) -> Result<(), EditError> {
        each(self.update_fars.drain(..), |far| rules.update_far(far))?;
        each(self.update_qers.drain(..), |qer| rules.update_qer(qer))?;
        each(self.update_urrs.drain(..), |urr| rules.update_urr(urr))?;
        each(self.update_bars.drain(..), |bar| rules.update_bar(bar))?;
        each(self.update_endpoints.drain(..), |endpoint| {
            rules.update_endpoint(endpoint)
        })?;
        each(self.update_pdrs.drain(..), |pdr| rules.update_pdr(pdr))
    }
}

fn each<T>(
    items: impl IntoIterator<Item = T>,
    edit: impl FnMut(T) -> Result<(), EditError>,
) -> Result<(), EditError> {
    items.into_iter().try_for_each(edit)
}

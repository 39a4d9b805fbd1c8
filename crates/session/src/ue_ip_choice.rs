//! UE addresses that the user plane allocates (TS 29.244 §5.21.3.1).
//!
//! All that one request chooses of one pool and family is one address: SMFs set CHOOSE in the uplink and the downlink
//! PDR alike. SMFs name the access network on uplink PDRs; an instance without a pool means the one that the
//! request names elsewhere, or the first that has pools. A later request gets another IPv6 prefix, beside what the PDR
//! or Traffic Endpoint has; the one IPv4 address of a PDU session (TS 23.501 §5.8.2.2) is given once.

use flow::{Bucket, InstanceId, SessionIndex, bucket};
use rules::model::{SessionRules, UeIpAddress, UeIpAddresses};
use rules::prefix::IpPrefix;
use std::net::IpAddr;

use crate::live_session::Live;
use crate::pools::{Pool, PoolId};
use crate::refusal::{Refusal, RuleFault};
use crate::rule_changes::{Assigned, Changes, ChooseUeIp, Recipient};
use crate::slice_workers::AllowedBuckets;
use crate::ue_addresses::{Addresses, Family, NoAddress, UeAddress, WantedBucket};

/// An address that a request has drawn.
#[derive(Debug)]
pub(crate) struct DrawnAddress {
    pools: Vec<PoolId>,
    family: Family,
    prefix: IpPrefix,
}

/// One request's allocations.
pub(crate) struct Assignment<'a> {
    pub(crate) pools: &'a [Pool],
    pub(crate) addresses: &'a mut Addresses,
    pub(crate) session: SessionIndex,
    /// The session's bucket; without one the first address drawn decides.
    pub(crate) bucket: Option<Bucket>,
    /// The buckets that the session may be in.
    pub(crate) allowed: AllowedBuckets<'a>,
    /// What is live before the request.
    pub(crate) live: &'a Live,
    /// Allocated so far, for the response.
    pub(crate) assigned: Vec<Assigned>,
    /// Drawn so far, to be undone if the request fails.
    pub(crate) drawn: Vec<UeAddress>,
    /// What was drawn from which pools.
    pub(crate) shared: Vec<DrawnAddress>,
}

impl Assignment<'_> {
    /// Gives everything in `changes` that wants one its address.
    pub(crate) fn fill(&mut self, changes: &mut Changes) -> Result<(), Refusal> {
        let requests = std::mem::take(&mut changes.choose_ue_ip);
        let named = requests
            .iter()
            .find_map(|request| self.with_pools(instance_of(changes, self.live, request.to)));
        for request in &requests {
            let instance = self
                .with_pools(instance_of(changes, self.live, request.to))
                .or(named);
            let drawn = self.choose(request, instance)?;
            self.put(changes, request, drawn);
        }
        Ok(())
    }

    /// `instance`, if it has pools.
    fn with_pools(&self, instance: Option<InstanceId>) -> Option<InstanceId> {
        instance.filter(|id| self.pools.iter().any(|pool| pool.instance == *id))
    }

    fn choose(&mut self, request: &ChooseUeIp, instance: Option<InstanceId>) -> Result<UeIpAddress, Refusal> {
        let mut chosen = UeIpAddress {
            ipv4: None,
            ipv6: None,
            is_destination: request.is_destination,
        };
        if request.ipv4 {
            chosen.ipv4 = match self.ipv4_of(request.to) {
                Some(known) => Some(known),
                None => v4(self.draw(request, request.pools.first(), instance, Family::Ipv4)?),
            };
        }
        if let Some(len) = request.ipv6 {
            let pool = request
                .pools
                .get(usize::from(request.ipv4))
                .or(request.pools.first());
            chosen.ipv6 = v6(self.draw(request, pool, instance, Family::Ipv6(len))?);
        }
        Ok(chosen)
    }

    /// The IPv4 address that the session has got from a pool for `to` already.
    fn ipv4_of(&self, to: Recipient) -> Option<std::net::Ipv4Addr> {
        let has = ue_ip_of(&self.live.rules, to)
            .iter()
            .flat_map(UeIpAddress::prefixes);
        let mut leased = has.filter(|own| self.live.leases.iter().any(|(_, lease)| lease == own));
        leased.find_map(v4)
    }

    /// The address for a request: the one that the request has got already, or a new one.
    fn draw(
        &mut self,
        request: &ChooseUeIp,
        pool: Option<&PoolId>,
        instance: Option<InstanceId>,
        family: Family,
    ) -> Result<IpPrefix, Refusal> {
        let mut pools = self.pools.iter().filter(|pool| !pool.is_removed());
        let instance = instance.or_else(|| pools.next().map(|pool| pool.instance));
        let of_instance = self
            .pools
            .iter()
            .zip(0..)
            .filter(|(pool, _)| Some(pool.instance) == instance);
        let pools: Vec<PoolId> = match pool {
            Some(pool) => vec![*pool],
            None => of_instance.map(|(_, id)| PoolId(id)).collect(),
        };
        let mut shared = self.shared.iter();
        if let Some(known) = shared.find(|known| known.pools == pools && known.family == family) {
            return Ok(known.prefix);
        }
        let wanted = WantedBucket::new(self.bucket, self.allowed);
        let drawn = self.addresses.draw(&pools, family, wanted, self.session);
        let drawn = drawn.map_err(|fault| match fault {
            NoAddress::NoPool => Refusal::rule(request.to, RuleFault::NoPool),
            NoAddress::Exhausted => Refusal::NoAddress,
        })?;
        let (_, prefix) = drawn;
        let own = self.allowed.nearest(bucket::of_address(prefix.address()));
        self.bucket = self.bucket.or(own);
        self.drawn.push(drawn);
        self.shared.push(DrawnAddress {
            pools,
            family,
            prefix,
        });
        Ok(prefix)
    }

    /// Adds what was chosen to the rule, and to the response. An update keeps the addresses that there are unless it
    /// names others; its response has all that come from pools.
    fn put(&mut self, changes: &mut Changes, request: &ChooseUeIp, mut chosen: UeIpAddress) {
        let entry = |address, is_update| Assigned {
            to: request.to,
            address,
            is_delegated: request.is_delegated,
            is_update,
        };
        if let Some(own) = created(changes, request.to) {
            own.push(chosen);
            return self.assigned.push(entry(chosen, false));
        }
        let Some(own) = updated(changes, request.to) else {
            return;
        };
        let own = own.get_or_insert_with(Vec::new);
        if own.is_empty() {
            own.extend_from_slice(ue_ip_of(&self.live.rules, request.to));
        }
        let is_lease = |prefix: IpPrefix| self.live.leases.iter().any(|(_, lease)| *lease == prefix);
        let leased = own.iter().filter(|ue| ue.prefixes().any(is_lease));
        self.assigned.extend(leased.map(|ue| entry(*ue, true)));
        if own.iter().any(|old| old.ipv4 == chosen.ipv4) {
            chosen.ipv4 = None;
        }
        if chosen.ipv4.is_some() || chosen.ipv6.is_some() {
            own.push(chosen);
            self.assigned.push(entry(chosen, true));
        }
    }
}

fn v4(prefix: IpPrefix) -> Option<std::net::Ipv4Addr> {
    match prefix.address() {
        IpAddr::V4(address) => Some(address),
        IpAddr::V6(_) => None,
    }
}

fn v6(prefix: IpPrefix) -> Option<(std::net::Ipv6Addr, u8)> {
    match prefix.address() {
        IpAddr::V4(_) => None,
        IpAddr::V6(address) => Some((address, prefix.len())),
    }
}

/// The UE addresses that a PDR or Traffic Endpoint has.
fn ue_ip_of(rules: &SessionRules, of: Recipient) -> &[UeIpAddress] {
    match of {
        Recipient::Pdr(id) => rules.pdr(id).map_or(&[], |pdr| &pdr.pdi.ue_ip),
        Recipient::Endpoint(id) => rules.endpoint(id).map_or(&[], |endpoint| &endpoint.ue_ip),
    }
}

/// Where the addresses of what the request creates are.
fn created(changes: &mut Changes, of: Recipient) -> Option<&mut UeIpAddresses> {
    match of {
        Recipient::Pdr(id) => {
            let mut pdrs = changes.create_pdrs.iter_mut();
            pdrs.find(|pdr| pdr.id == id).map(|pdr| &mut pdr.pdi.ue_ip)
        }
        Recipient::Endpoint(id) => {
            let mut endpoints = changes.create_endpoints.iter_mut();
            endpoints
                .find(|endpoint| endpoint.id == id)
                .map(|endpoint| &mut endpoint.ue_ip)
        }
    }
}

/// Where the addresses of what the request updates are.
fn updated(changes: &mut Changes, of: Recipient) -> Option<&mut Option<Vec<UeIpAddress>>> {
    match of {
        Recipient::Pdr(id) => {
            let mut pdrs = changes.update_pdrs.iter_mut();
            let pdi = pdrs.find(|pdr| pdr.id == id)?.pdi.as_mut()?;
            Some(&mut pdi.ue_ip)
        }
        Recipient::Endpoint(id) => {
            let mut endpoints = changes.update_endpoints.iter_mut();
            endpoints
                .find(|endpoint| endpoint.id == id)
                .map(|endpoint| &mut endpoint.ue_ip)
        }
    }
}

/// The network instance that a PDR or Traffic Endpoint names, in the request or before.
fn instance_of(changes: &Changes, live: &Live, of: Recipient) -> Option<InstanceId> {
    let sent = |edit: rules::model::Edit<InstanceId>| match edit {
        rules::model::Edit::Set(instance) => Some(instance),
        _ => None,
    };
    match of {
        Recipient::Pdr(id) => {
            let created = changes.create_pdrs.iter().find(|pdr| pdr.id == id);
            let updated = changes.update_pdrs.iter().find(|pdr| pdr.id == id);
            let updated = updated.and_then(|pdr| sent(pdr.pdi.as_ref()?.instance));
            let before = || live.rules.pdr(id)?.pdi.instance;
            created
                .and_then(|pdr| pdr.pdi.instance)
                .or(updated)
                .or_else(before)
        }
        Recipient::Endpoint(id) => {
            let created = changes.create_endpoints.iter().find(|endpoint| endpoint.id == id);
            let updated = changes.update_endpoints.iter().find(|endpoint| endpoint.id == id);
            let updated = updated.and_then(|endpoint| sent(endpoint.instance));
            let before = || live.rules.endpoint(id)?.instance;
            created
                .and_then(|endpoint| endpoint.instance)
                .or(updated)
                .or_else(before)
        }
    }
}

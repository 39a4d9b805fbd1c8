//! Sessions that a control plane sets up again after our restart without saying so.
//!
//! TS 29.244 §5.5.1 has RESTI for it: a session that is re-established names the F-TEIDs that it had. Some control
//! planes name them and do not set RESTI (the SGW-C of Open5GS). For a time after the start
//! ([`Config::restoration`](crate::Config::restoration)) F-TEIDs are therefore taken that we may have given before: at
//! addresses of ours, held by no session, and in the shape that we draw. That is weaker than it looks: nothing of what
//! was given outlives the process, so any control plane with an association may claim any TEID of that shape, as it may
//! with RESTI at any time. What is no restoration is refused as ever, so that a control plane which chooses F-TEIDs
//! itself gets that refusal from the first session on, and not when the time is over.
//!
//! The shape: TEIDs of one session are in one bucket, that of its first UE address if it had one when the first TEID
//! was drawn ([`Allocation`](crate::f_teid_choice)), or the one that stands for it among those of the slice's workers.
//! A TEID of another origin is in it once in 512 times.

use flow::bucket::of_teid;
use flow::{Bucket, Nanos, SessionIndex, bucket};
use rules::model::FTeid;
use rules::network::Network;
use std::net::IpAddr;

use crate::buckets::BucketTable;
use crate::config::Config;
use crate::prepare::{f_teids_named, prefixes_named};
use crate::rule_changes::Changes;
use crate::session_table::SessionTable;
use crate::tunnels::Tunnels;

/// What F-TEIDs of an establishment are compared with.
pub(crate) struct Restoration<'a> {
    pub(crate) config: &'a Config,
    pub(crate) network: &'a Network,
    pub(crate) buckets: &'a BucketTable,
    pub(crate) table: &'a SessionTable,
    pub(crate) tunnels: &'a Tunnels,
}

impl Restoration<'_> {
    /// Takes an establishment for a restoration if it is early enough and names F-TEIDs that we may have given. It may
    /// replace the session `lost`, and have what that one holds.
    pub(crate) fn mark(&self, now: Nanos, lost: Option<SessionIndex>, changes: &mut Changes) {
        let is_early = now < Nanos::ZERO + self.config.restoration;
        if is_early && !self.config.accept_cp_f_teids && !changes.restores {
            changes.restores = self.names_only_ours(lost, changes);
        }
    }

    fn names_only_ours(&self, lost: Option<SessionIndex>, changes: &Changes) -> bool {
        let chooses = |to| changes.choose.iter().any(|choose| choose.to == to);
        let named = f_teids_named(changes).filter(|(to, _)| !chooses(*to));
        let named: Vec<FTeid> = named.map(|(_, f_teid)| f_teid).collect();
        named.iter().all(|f_teid| self.may_be_free(f_teid, lost)) && self.has_our_shape(&named, changes)
    }

    /// Whether all addresses are ours, and no session but `lost` has the TEID at any of them.
    fn may_be_free(&self, f_teid: &FTeid, lost: Option<SessionIndex>) -> bool {
        let is_free = |address: IpAddr| {
            let local = self.network.local(address);
            local.is_some_and(|(_, local)| {
                let holder = self.tunnels.holder((local, f_teid.teid));
                holder.is_none_or(|holder| Some(holder) == lost || self.table.has_lost(holder))
            })
        };
        f_teid.teid.0 != 0 && f_teid.addresses().next().is_some() && f_teid.addresses().all(is_free)
    }

    /// Whether F-TEIDs are such as we draw for one session: all in one bucket, and a single one in that of a UE address
    /// if the session has any.
    fn has_our_shape(&self, named: &[FTeid], changes: &Changes) -> bool {
        let Some((first, others)) = named.split_first() else {
            return false;
        };
        let bucket: Bucket = of_teid(first.teid.0);
        let is_alone = others.iter().all(|other| other.teid == first.teid);
        let slice = changes.subscriber.as_deref().and_then(|of| of.s_nssai);
        let allowed = self.buckets.allowed(slice);
        let mut homes = prefixes_named(changes)
            .map(|prefix| bucket::of_address(prefix.address()))
            .peekable();
        let is_home = homes.peek().is_none()
            || homes.any(|home| home == bucket || allowed.nearest(home) == Some(bucket));
        others.iter().all(|other| of_teid(other.teid.0) == bucket) && (is_home || !is_alone)
    }
}

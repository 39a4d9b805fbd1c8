//! Sessions as an operator looks for them: in pages, by TEID, by UE address. Each look costs what it answers, however
//! many sessions there are.

use flow::SessionIndex;
use packet::Teid;
use rules::prefix::IpPrefix;
use std::net::IpAddr;

use crate::effect::Seid;
use crate::session::SessionView;
use crate::sessions::Sessions;

impl Sessions {
    /// Sessions in the order of their SEIDs, from the first one behind `after` on.
    pub fn page(&self, after: Option<Seid>) -> impl Iterator<Item = SessionView<'_>> {
        self.by_seid.behind(after).filter_map(|index| self.view(index))
    }

    /// The sessions that have this TEID at one of our addresses.
    pub fn with_teid(&self, teid: Teid) -> impl Iterator<Item = SessionView<'_>> {
        let locals = self.network.gtpu_addresses();
        let holders = locals.filter_map(move |(_, local, _)| self.tunnels.holder((local, teid)));
        self.views(holders)
    }

    /// The sessions that plain packets to this address reach, one for each address space at most.
    pub fn with_ue_address(&self, address: IpAddr) -> impl Iterator<Item = SessionView<'_>> {
        let mut vrfs: Vec<_> = self.network.instances().iter().map(|one| one.vrf).collect();
        vrfs.sort_unstable();
        vrfs.dedup();
        let at = move |vrf| self.addresses.holder_around((vrf, IpPrefix::host(address)));
        self.views(vrfs.into_iter().filter_map(at))
    }

    /// Each of these once, in the order of their SEIDs.
    fn views(&self, indexes: impl Iterator<Item = SessionIndex>) -> impl Iterator<Item = SessionView<'_>> {
        let mut views: Vec<_> = indexes.filter_map(|index| self.view(index)).collect();
        views.sort_by_key(SessionView::seid);
        views.dedup_by_key(|view| view.seid());
        views.into_iter()
    }
}

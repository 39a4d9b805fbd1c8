//! What a worker runs of a session.

use packet::Teid;
use rules::Classifier;
use rules::boxed_option::BoxedOption;
use rules::image::SessionImage;
use rules::model::{SessionRules, UrrId};
use smallvec::SmallVec;
use std::net::IpAddr;
use std::sync::{Arc, LazyLock};

use crate::compact_list::CompactList;
use crate::gtpu_paths::GtpuPath;
use crate::ids::RemoteTunnel;
use crate::tunnels::Tunnel;
use crate::ue_addresses::UeAddress;

/// What a worker runs, as far as control needs it again.
#[derive(Clone, Debug)]
pub(crate) struct Live {
    pub(crate) rules: Arc<SessionRules>,
    /// What was made of their PDRs.
    pub(crate) classifier: Classifier,
    pub(crate) tunnels: CompactList<Tunnel>,
    /// What plain packets reach the session by, and the leases.
    pub(crate) addresses: CompactList<UeAddress>,
    /// UE addresses from our pools; those of many sessions are their SMF's.
    pub(crate) leases: BoxedOption<Vec<UeAddress>>,
    /// Each once.
    pub(crate) paths: CompactList<GtpuPath>,
    pub(crate) generation: u32,
}

impl Default for Live {
    /// Nothing; all that have nothing share the rules of it.
    fn default() -> Live {
        static NO_RULES: LazyLock<Arc<SessionRules>> = LazyLock::new(Arc::default);
        Live {
            rules: Arc::clone(&NO_RULES),
            classifier: Classifier::default(),
            tunnels: CompactList::default(),
            addresses: CompactList::default(),
            leases: BoxedOption::NONE,
            paths: CompactList::default(),
            generation: 0,
        }
    }
}

impl Live {
    /// What `image` runs, with those of `leases` that its rules still name.
    pub(crate) fn of(image: &SessionImage, mut leases: Vec<UeAddress>) -> Live {
        let mut addresses = image.ue_addresses.clone();
        if !leases.is_empty() {
            let named = image.rules.ue_ip_prefixes();
            leases.retain(|(_, lease)| named.binary_search(lease).is_ok());
            addresses.extend(leases.iter().copied());
            addresses.sort_unstable();
            addresses.dedup();
        }
        let mut paths: SmallVec<[GtpuPath; 2]> = SmallVec::new();
        for path in image.block.forwards.iter().filter_map(GtpuPath::of) {
            if let Err(place) = paths.binary_search(&path) {
                paths.insert(place, path);
            }
        }
        Live {
            paths: paths.as_slice().into(),
            rules: Arc::clone(&image.rules),
            classifier: image.classifier.clone(),
            tunnels: image.tunnels.as_slice().into(),
            addresses: addresses.as_slice().into(),
            leases: leases.into(),
            generation: image.classification_generation,
        }
    }

    /// The URRs, in the order of their slots.
    pub(crate) fn urrs(&self) -> impl Iterator<Item = UrrId> + Clone + '_ {
        self.rules.urrs().iter().map(|urr| urr.id)
    }

    /// The tunnels and UE addresses that these have and `after` has not.
    pub(crate) fn without(&self, after: &Live) -> (Vec<Tunnel>, Vec<UeAddress>) {
        let (tunnels, addresses) = (after.tunnels.get(), after.addresses.get());
        let old = self.tunnels.get().into_iter();
        let tunnels = old.filter(|old| !tunnels.contains(old)).collect();
        let old = self.addresses.get().into_iter();
        (tunnels, old.filter(|old| !addresses.contains(old)).collect())
    }

    /// The peers' tunnel endpoints that packets are sent to.
    pub(crate) fn remotes(&self) -> impl Iterator<Item = RemoteTunnel> + '_ {
        let fars = self.rules.fars().iter();
        let headers = fars.filter_map(|far| far.forwarding.and_then(|to| to.outer_header_creation));
        let gtpu = headers.filter(|header| header.kind.is_gtpu() && header.teid != Teid::ZERO);
        gtpu.flat_map(|header| {
            let v4 = header.ipv4.map(IpAddr::V4);
            v4.into_iter()
                .chain(header.ipv6.map(IpAddr::V6))
                .map(move |peer| (peer, header.teid))
        })
    }
}

/// The URRs of both whose counters count in other units in `next`, and the new unit.
pub(crate) fn rescaled(live: &SessionRules, next: &SessionRules) -> Vec<(UrrId, u64)> {
    let both = live
        .urrs()
        .iter()
        .filter_map(|old| Some((old, next.urr(old.id)?)));
    let changed = both.filter(|(old, new)| old.unit() != new.unit());
    changed.map(|(_, new)| (new.id, new.unit())).collect()
}

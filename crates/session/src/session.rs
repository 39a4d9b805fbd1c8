//! One session: what is live in its worker, and the change that is under way.

use flow::{Bounds, Bucket, SessionIndex, UrrCount};
use packet::Teid;
use rules::Classifier;
use rules::boxed_option::BoxedOption;
use rules::image::{DroppedCount, ImmediateActions, PacketsLeft, SessionImage, TokensLeft};
use rules::model::{CorrelationId, FTeid, QerId, SessionRules, UrrId};
use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Arc, LazyLock};

use crate::addresses::UeAddress;
use crate::changes::{Assigned, Changes, Recipient};
use crate::choose::Shared;
use crate::effect::{AssociationId, CpFSeid, Remote, Seid, Ticket, WorkerFault};
use crate::ledger::{Account, Subscriber, Will};
use crate::metering::Metering;
use crate::paths::GtpuPath;
use crate::progress::Role;
use crate::sets::Sets;
use crate::shares::{Charge, Holding};
use crate::transfer::Export;
use crate::tunnels::Tunnel;
use usage::{Renewed, UrrCheckpoint, UsageAccounts, UsageTriggers};

/// What a worker runs, as far as control needs it again.
#[derive(Clone, Debug)]
pub(crate) struct Live {
    pub(crate) rules: Arc<SessionRules>,
    /// What was made of their PDRs.
    pub(crate) classifier: Classifier,
    pub(crate) tunnels: Box<[Tunnel]>,
    /// What plain packets reach the session by, and the leases.
    pub(crate) addresses: Box<[UeAddress]>,
    /// UE addresses from our pools.
    pub(crate) leases: Box<[UeAddress]>,
    /// Each once.
    pub(crate) paths: Box<[GtpuPath]>,
    pub(crate) generation: u32,
}

impl Default for Live {
    /// Nothing; all that have nothing share the rules of it.
    fn default() -> Live {
        static NO_RULES: LazyLock<Arc<SessionRules>> = LazyLock::new(Arc::default);
        Live {
            rules: Arc::clone(&NO_RULES),
            classifier: Classifier::default(),
            tunnels: Box::default(),
            addresses: Box::default(),
            leases: Box::default(),
            paths: Box::default(),
            generation: 0,
        }
    }
}

impl Live {
    /// What `image` runs, with those of `leases` that its rules still name.
    pub(crate) fn of(image: &SessionImage, mut leases: Vec<UeAddress>) -> Live {
        let mut addresses = image.ue_addresses.to_vec();
        if !leases.is_empty() {
            let named = image.rules.ue_ip_prefixes();
            leases.retain(|(_, lease)| named.binary_search(lease).is_ok());
            addresses.extend(&leases);
            addresses.sort_unstable();
            addresses.dedup();
        }
        let mut paths: Vec<GtpuPath> = Vec::new();
        for path in image.block.forwards.iter().filter_map(GtpuPath::of) {
            // Few, and one for most sessions: no more room than that.
            if let Err(place) = paths.binary_search(&path) {
                paths.reserve_exact(1);
                paths.insert(place, path);
            }
        }
        Live {
            paths: paths.into(),
            rules: Arc::clone(&image.rules),
            classifier: image.classifier.clone(),
            tunnels: image.tunnels.as_slice().into(),
            addresses: addresses.into(),
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
        let tunnels = self.tunnels.iter().filter(|old| !after.tunnels.contains(old));
        let addresses = self.addresses.iter().filter(|old| !after.addresses.contains(old));
        (tunnels.copied().collect(), addresses.copied().collect())
    }

    /// The peers' tunnel endpoints that packets are sent to.
    pub(crate) fn remotes(&self) -> impl Iterator<Item = Remote> + '_ {
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

/// A change that is compiled and has what it needs, ready to be applied.
#[derive(Debug, Default)]
pub(crate) struct Prepared {
    pub(crate) live: Live,
    /// What this change allocated, for the response.
    pub(crate) created: Vec<(Recipient, FTeid)>,
    pub(crate) assigned: Vec<Assigned>,
    pub(crate) shared: Shared,
    /// Tunnels that this change took.
    pub(crate) claimed: Vec<Tunnel>,
    /// UE addresses that this change took.
    pub(crate) addresses: Vec<UeAddress>,
    /// What it has in common with other sessions that this change joined.
    pub(crate) joined: Vec<CorrelationId>,
    /// URRs to report when the worker answers the query.
    pub(crate) queried: Vec<(UrrId, UsageTriggers)>,
    /// URRs that end and that others are linked to, which report because of that.
    pub(crate) ended: Vec<UrrId>,
    /// URRs that PDRs name now, and none did before.
    pub(crate) associated: Vec<UrrId>,
    /// QERs whose Packet Rate Status is to be told.
    pub(crate) queried_packets: Vec<QerId>,
    /// URRs that the request removes and creates under one number: the slots of the old ones end.
    pub(crate) fresh: Vec<UrrId>,
    /// The terms of URRs that the request gives anew.
    pub(crate) renewed: Vec<(UrrId, Renewed)>,
    pub(crate) cp: Option<CpFSeid>,
    /// Whom a successor is for, or a session from now on.
    pub(crate) subscriber: Option<Arc<Subscriber>>,
    /// What the worker does for what is replaced.
    pub(crate) immediate: ImmediateActions,
}

impl Prepared {
    /// URRs that PDRs name now, and none did before, begin with the quotas that they were provisioned with.
    pub(crate) fn renew_associated(&mut self) {
        for urr in &self.associated {
            match self.renewed.iter_mut().find(|(id, _)| id == urr) {
                Some((_, known)) => *known = known.associated(),
                None => self.renewed.push((*urr, Renewed::default().associated())),
            }
        }
    }

    /// Whether it takes the counts of before it.
    pub(crate) fn asks_for_counts(&self) -> bool {
        !(self.queried.is_empty() && self.queried_packets.is_empty() && self.ended.is_empty())
    }

    /// What its association is charged for, of a session in this bucket.
    pub(crate) fn takes(&self, bucket: Option<Bucket>) -> Holding {
        Holding::of(&self.claimed, &self.addresses, bucket)
    }
}

/// What is under way.
#[derive(Debug)]
pub(crate) enum Work {
    /// Install.
    Establish(Box<Prepared>),
    /// Replace; or a query alone.
    Modify(Box<Prepared>),
    /// Replace by a session that is set up in the place of this one, under a SEID of its own.
    Supersede(Box<Prepared>, Seid),
    /// Remove.
    Delete,
    /// Read the counters, or remove, to make a record.
    Export(Export),
}

impl Work {
    pub(crate) fn role(&self) -> Role {
        match self {
            Work::Establish(_) => Role::Install,
            Work::Modify(_) | Work::Supersede(..) => Role::Replace,
            Work::Delete | Work::Export(Export::Take) => Role::Remove,
            Work::Export(Export::Copy) => Role::Query,
        }
    }

    pub(crate) fn prepared(&self) -> Option<&Prepared> {
        match self {
            Work::Establish(prepared) | Work::Modify(prepared) | Work::Supersede(prepared, _) => {
                Some(prepared)
            }
            Work::Delete | Work::Export(_) => None,
        }
    }
}

/// A request under way: its operations are with the workers.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) id: u64,
    pub(crate) ticket: Ticket,
    pub(crate) work: Work,
    /// Whether the worker has got rules to apply.
    pub(crate) sent: bool,
    /// Operations not yet answered.
    pub(crate) pending: u32,
    pub(crate) fault: Option<WorkerFault>,
    /// What the URRs had counted when the worker answered the query.
    pub(crate) counted: Vec<(UrrId, UrrCount)>,
    /// The last counts of those whose slots the worker gave up when it did what was sent; `None`: it has not done it.
    pub(crate) ended: Option<Vec<(UrrId, UrrCount)>>,
    /// What is left of packet rates, to be told or recorded.
    pub(crate) packets: Vec<PacketsLeft>,
    /// What the meters of bit rates hold, to be recorded.
    pub(crate) tokens: Vec<TokensLeft>,
    /// What was dropped of URRs that tell of it, to be recorded.
    pub(crate) dropped: Vec<DroppedCount>,
    /// The bounds of its counters that the worker gets with the rules, by slot.
    pub(crate) bounds: Vec<Bounds>,
}

/// Where a session stands.
#[derive(Debug)]
pub(crate) enum State {
    /// Nothing is under way.
    Settled,
    /// A request is.
    Changing(Box<Change>),
    /// A request was given up; the worker is on its way back to what is live.
    RollingBack(Box<RollingBack>),
    /// The session is gone for everybody but the workers that have it.
    Dying(Box<Dying>),
}

/// What a request that was given up had taken: free once the worker runs what is live.
#[derive(Debug)]
pub(crate) struct RollingBack {
    pub(crate) id: u64,
    /// The credit pools that counted in other units meanwhile, and in which.
    pub(crate) units: Vec<(UrrId, u64)>,
    pub(crate) claimed: Vec<Tunnel>,
    pub(crate) addresses: Vec<UeAddress>,
}

/// What a session had that is gone: free once its workers have confirmed the removal, which `pending` have yet to do.
#[derive(Debug)]
pub(crate) struct Dying {
    pub(crate) id: u64,
    pub(crate) pending: u32,
    pub(crate) tunnels: Vec<Tunnel>,
    pub(crate) addresses: Vec<UeAddress>,
    pub(crate) will: Option<Box<Will>>,
}

/// Where a session stands in the move of its bucket ([`moving`](crate::moving)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It does not move.
    #[default]
    Stays,
    /// It is to be installed at the new owner once nothing is under way in it.
    Awaited,
    /// Both workers have it, or will when they have done what they were told.
    Twin,
}

/// A request that waits for the one before it.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) ticket: Ticket,
    pub(crate) request: WaitingRequest,
}

#[derive(Debug)]
pub(crate) enum WaitingRequest {
    Modify {
        changes: Box<Changes>,
        cp: Option<CpFSeid>,
    },
    /// A session is to be set up in the place of this one, if this one still has the name `cp` then.
    Supersede {
        changes: Box<Changes>,
        cp: CpFSeid,
    },
    Delete,
    Export(Export),
    /// Charging is to be paused: of our own, so nobody waits for the outcome.
    Pause,
}

/// What control has of one session. There are very many: what few have, or for a moment, is behind a pointer.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) index: SessionIndex,
    pub(crate) seid: Seid,
    pub(crate) association: AssociationId,
    /// The association that set it up, whose share it is charged to.
    pub(crate) payer: AssociationId,
    pub(crate) sets: BoxedOption<Sets>,
    pub(crate) cp: CpFSeid,
    pub(crate) bucket: Bucket,
    /// Its place among the bucket's sessions.
    pub(crate) place: u32,
    /// Its place among its association's sessions.
    pub(crate) place_of_association: u32,
    pub(crate) phase: Phase,
    /// What counts against its association's share.
    pub(crate) charged: Charge,
    pub(crate) live: Live,
    pub(crate) shared: Shared,
    pub(crate) usage: UsageAccounts,
    pub(crate) account: Account,
    pub(crate) metering: Metering,
    pub(crate) state: State,
    pub(crate) waiting: BoxedOption<VecDeque<Waiting>>,
}

const _: () = assert!(size_of::<Session>() <= 320, "there are very many");

impl Session {
    pub(crate) fn is_dying(&self) -> bool {
        matches!(self.state, State::Dying(_))
    }

    /// What counts against its association's share.
    pub(crate) fn holding(&self) -> Holding {
        self.charged.into()
    }

    /// Takes the request that has waited longest.
    pub(crate) fn next_waiting(&mut self) -> Option<Waiting> {
        let next = self.waiting.as_mut()?.pop_front();
        if self.waiting.is_empty() {
            self.waiting.clear();
        }
        next
    }

    /// Takes a request back that still waits; whether it did.
    pub(crate) fn take_back(&mut self, ticket: Ticket) -> bool {
        let place = self.waiting.iter().position(|waiting| waiting.ticket == ticket);
        if let (Some(place), Some(waiting)) = (place, self.waiting.as_mut()) {
            waiting.remove(place);
        }
        if self.waiting.is_empty() {
            self.waiting.clear();
        }
        place.is_some()
    }

    /// Whether nothing is under way, neither a request nor a move.
    pub(crate) fn is_ready(&self) -> bool {
        matches!(self.state, State::Settled) && self.phase == Phase::Stays
    }

    /// Whether the change with this number is under way.
    pub(crate) fn is_at(&self, id: u64) -> bool {
        matches!(&self.state, State::Changing(change) if change.id == id)
    }

    /// The change with this number, if it is the one under way.
    pub(crate) fn change(&mut self, id: u64) -> Option<&mut Change> {
        match &mut self.state {
            State::Changing(change) if change.id == id => Some(change),
            _ => None,
        }
    }
}

/// A session as an operator sees it.
#[derive(Clone, Copy, Debug)]
pub struct SessionView<'a> {
    session: &'a Session,
}

impl<'a> SessionView<'a> {
    pub(crate) fn new(session: &'a Session) -> SessionView<'a> {
        SessionView { session }
    }

    /// The local SEID.
    pub fn seid(&self) -> Seid {
        self.session.seid
    }

    /// The number that workers know it by.
    pub fn index(&self) -> SessionIndex {
        self.session.index
    }

    /// The association that owns it.
    pub fn association(&self) -> AssociationId {
        self.session.association
    }

    /// The control plane's F-SEID.
    pub fn cp(&self) -> CpFSeid {
        self.session.cp
    }

    /// The sets that it belongs to.
    pub fn sets(&self) -> &'a Sets {
        &self.session.sets
    }

    /// The bucket that it lives in.
    pub fn bucket(&self) -> Bucket {
        self.session.bucket
    }

    /// The rules that are live in the worker.
    pub fn rules(&self) -> &'a SessionRules {
        &self.session.live.rules
    }

    /// The tunnels that lead to it.
    pub fn tunnels(&self) -> &'a [Tunnel] {
        &self.session.live.tunnels
    }

    /// The UE addresses that plain packets reach it by.
    pub fn ue_addresses(&self) -> &'a [UeAddress] {
        &self.session.live.addresses
    }

    /// Where its URRs stand, with what the worker's slots count now. `None` while two workers have the session.
    pub fn usage(&self, counted: &[(UrrId, UrrCount)]) -> Option<Vec<UrrCheckpoint>> {
        (self.session.phase != Phase::Twin).then(|| self.session.usage.checkpoints(counted))
    }

    /// Whom it is for.
    pub fn subscriber(&self) -> Option<&'a Subscriber> {
        self.session.account.subscriber.as_deref()
    }

    /// Requests that wait for the one under way.
    pub fn waiting(&self) -> usize {
        self.session.waiting.len()
    }

    /// Whether a request is under way, or the session on its way to another worker.
    pub fn is_changing(&self) -> bool {
        !matches!(self.session.state, State::Settled) || self.session.phase != Phase::Stays
    }
}

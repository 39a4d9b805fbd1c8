//! All sessions: requests in, effects and outcomes out.
//!
//! Owned by control. Requests of one session are served one after the other; those of different sessions at the same
//! time. A request is prepared on a copy of the rules ([`prepare`](crate::prepare)), applied at the owning worker and
//! responded to when the worker (and, where worker selection changed, every worker) has confirmed
//! ([`apply_change`](crate::apply_change)): "accepted" means live. This file takes requests in and gives effects and
//! outcomes out; `prepare` and `apply_change` do the work on [`ChangeContext`].

use flow::{Bucket, ContentUsage, Nanos, OpId, SessionIndex, WorkerId};
use nat::pools::{BlockId, PortBlock};
use packet::Teid;
use rules::Adjacencies;
use rules::Predefined;
use rules::image::UsageSnapshot;
use rules::model::{CorrelationId, PdrId, UrrId};
use rules::network::Network;
use rules::prefix::IpPrefix;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;
use usage::{UsageReport, WallChange, WallClock};

use crate::bucket_moves::{MoveFault, Moved};
use crate::buckets::BucketTable;
use crate::change_context::ChangeContext;
use crate::commands::Commands;
use crate::config::{Config, Environment};
use crate::correlations::{Correlations, SharedRate};
use crate::effect::{Effect, WorkerFault};
use crate::gtpu_paths::{GtpuPath, PathChange};
use crate::ids::{AssociationId, CpFSeid, Seid, Ticket};
use crate::import::{ImportError, Origin};
use crate::journal::Journal;
use crate::outcome::Outcome;
use crate::pending_change::State;
use crate::pools::{Pool, PoolId};
use crate::port_block_changes::{extend, release};
use crate::port_blocks::{BlockHolder, NatPoolStatus, PortBlockEvent, PortBlockHolders};
use crate::queued_request::{Export, Request, Waiting};
use crate::quotas::{Quotas, ResourceCounts};
use crate::random::Random;
use crate::recompilation::{Recompiled, RecompiledSessions};
use crate::record::SessionRecord;
use crate::release::drop_session;
use crate::request_queue::Requests;
use crate::resources::Resources;
use crate::rule_changes::Changes;
use crate::session::{Session, SessionView};
use crate::session_groups::GroupCount;
use crate::session_table::{SessionTable, TableSeeds};
use crate::sets::Sets;
use crate::slice_workers::SliceWorkers;
use crate::succession::{Departing, Search};
use crate::tunnels::Tunnels;
use crate::ue_addresses::Addresses;
use crate::usage_measurement::{
    CounterReached, HostTime, UsageMeasurement, handle_dropped, handle_end_marker,
};
use crate::usage_record_entry::{EndCause, Unreported, UsageRecordEntry};
use crate::usage_record_queue::{ReportedSession, UsageRecordQueue};

/// How many of what there are, for operators and for tests that look for leaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Sessions that peers can address.
    pub sessions: usize,
    /// Session indexes in use, which includes sessions whose removal a worker has yet to confirm.
    pub indexes: usize,
    /// Tunnels held.
    pub tunnels: usize,
    /// UE addresses held.
    pub addresses: usize,
    /// Correlations of QERs.
    pub correlations: usize,
    /// GTP-U paths in use.
    pub paths: usize,
    /// Operations that workers have yet to answer.
    pub ops: usize,
}

/// All sessions of the node.
pub struct Sessions {
    pub(crate) requests: Requests,
}

impl Sessions {
    /// No sessions. `random` decides every identifier.
    pub fn new(
        config: Config,
        network: Arc<Network>,
        adjacencies: Box<dyn Adjacencies + Send>,
        mut random: Random,
    ) -> Sessions {
        // In this order: recorded cases depend on the numbers drawn.
        let seeds = TableSeeds {
            paths: random.next_u64(),
            owners: random.next_u64(),
            remotes: random.next_u64(),
        };
        let resources = Resources {
            tunnels: Tunnels::new(config.quarantine, random.split()),
            addresses: Addresses::new(&config.pools, &network, random.split()),
            quotas: Quotas::new(
                ResourceCounts([
                    config.worker_tunnels,
                    config.worker_addresses,
                    config.worker_addresses,
                    config.exceptions,
                ]),
                config.max_sessions as usize,
                config.association_percent,
                [random.next_u64(), random.next_u64()],
            ),
            correlations: Correlations::new(network.policers().room(), config.max_correlations),
        };
        let pools = network.nat().pools();
        // What has no pools draws no number for them.
        let of_blocks = match pools.is_empty() {
            true => Random::from_number(0),
            false => random.split(),
        };
        let (quarantine, log) = (config.port_block_quarantine, config.port_block_log);
        let port_blocks = PortBlockHolders::new(pools, quarantine, log, of_blocks);
        let buckets = BucketTable::new(
            config.owners.clone(),
            config.workers,
            config.slice_workers.clone(),
        );
        let context = ChangeContext {
            table: SessionTable::new(config.max_sessions, seeds),
            resources,
            port_blocks,
            journal: Journal::default(),
            commands: Commands::new(buckets, random.next_u64()),
            usage_measurement: UsageMeasurement::new(config.clock_unix, config.traffic_silence),
            usage_records: UsageRecordQueue::new(config.usage_records),
            outcomes: VecDeque::new(),
            recompiled: RecompiledSessions::default(),
            config,
            environment: Environment { network, adjacencies },
            random,
        };
        let requests = Requests::new(context);
        Sessions { requests }
    }

    /// Establishes a session. A session that the same association has under the same F-SEID is superseded: its control
    /// plane has lost it. That session stays live, and can be changed, if the new one is refused. The outcome comes
    /// from [`poll_outcome`](Sessions::poll_outcome).
    pub fn establish(
        &mut self,
        now: Nanos,
        ticket: Ticket,
        association: AssociationId,
        cp: CpFSeid,
        changes: Changes,
    ) {
        self.requests.establish(now, ticket, association, cp, changes);
    }

    /// Changes a session's rules, and its control plane's F-SEID if one is given.
    pub fn modify(&mut self, now: Nanos, ticket: Ticket, seid: Seid, cp: Option<CpFSeid>, changes: Changes) {
        let changes = Box::new(changes);
        let request = Request::Modify { changes, cp };
        self.requests.submit_to(now, seid, Waiting { ticket, request });
    }

    /// Removes a session; the outcome has the final usage of every URR.
    pub fn delete(&mut self, now: Nanos, ticket: Ticket, seid: Seid) {
        let request = Request::Delete;
        self.requests.submit_to(now, seid, Waiting { ticket, request });
    }

    /// Makes a record of a session; it comes with the [`Outcome`] of `ticket`. The record's association and pending
    /// reports are the caller's to fill in.
    pub fn export(&mut self, now: Nanos, ticket: Ticket, seid: Seid, how: Export) {
        let request = Request::Export(how);
        self.requests.submit_to(now, seid, Waiting { ticket, request });
    }

    /// Takes a session in, with all of its numbers. Whether the worker has taken it too is in the [`Outcome`] of
    /// `ticket`.
    ///
    /// # Errors
    /// Which number another session has, or why else the session cannot be taken.
    pub fn import(
        &mut self,
        now: Nanos,
        ticket: Ticket,
        association: AssociationId,
        record: &SessionRecord,
    ) -> Result<(), ImportError> {
        let origin = Origin::OtherProcess;
        self.requests.import(now, ticket, association, record, origin)
    }

    /// Takes a session in that the store of this node has, which need not be kept again; else as
    /// [`import`](Self::import).
    ///
    /// # Errors
    /// As of an import.
    pub fn restore(
        &mut self,
        now: Nanos,
        ticket: Ticket,
        association: AssociationId,
        record: &SessionRecord,
    ) -> Result<(), ImportError> {
        self.requests
            .import(now, ticket, association, record, Origin::Store)
    }

    /// The node downstream has notified the start of a Pause of Charging: measurement stops once nothing else is in
    /// progress in the session (TS 29.244 §5.30). The request has no deadline, since the notification is not repeated.
    pub fn pause_charging(&mut self, now: Nanos, ticket: Ticket, index: SessionIndex) {
        self.requests.pause_charging(now, ticket, index);
    }

    /// A worker has answered an operation ([`Effect`]).
    pub fn applied(&mut self, now: Nanos, op: OpId, result: Result<Option<UsageSnapshot>, WorkerFault>) {
        self.requests.applied(now, op, result);
    }

    /// When [`handle_timeout`](Sessions::handle_timeout) is to be called next.
    pub fn poll_timeout(&self) -> Option<Nanos> {
        self.requests.poll_timeout()
    }

    /// Gives up what is late, and evaluates URRs whose timers have expired.
    pub fn handle_timeout(&mut self, now: Nanos) {
        self.requests.handle_timeout(now);
    }

    /// Moves `bucket` to the worker `to`; the result comes from [`poll_moved`](Sessions::poll_moved). One bucket moves
    /// at a time.
    ///
    /// # Errors
    /// When the move cannot begin.
    pub fn move_bucket(&mut self, now: Nanos, bucket: Bucket, to: WorkerId) -> Result<(), MoveFault> {
        self.requests.move_bucket(now, bucket, to)
    }

    /// Continues a search for the users of what is removed with up to `most` more session indexes. Whether it is over.
    pub fn search(&self, search: &mut Search, departing: &Departing, most: usize) -> bool {
        self.requests.search(search, departing, most)
    }

    /// The first pool that would lose addresses that sessions hold, and how many, if the pools were these, which
    /// [succeed](crate::Pool::succeeding) the ones there are.
    pub fn lost_addresses(&self, pools: &[Pool]) -> Option<(String, usize)> {
        self.requests.lost_addresses(pools)
    }

    /// Requests find what these name from now on; what they do not name is hidden, and nothing else changes.
    pub fn find_names_in(&mut self, network: Arc<Network>, predefined: Arc<Predefined>) {
        self.requests.find_names_in(network, predefined);
    }

    /// From now on all is as these say: `network`, the pools and what is predefined succeed those there are. Of
    /// `config` only these, the deadline and the permission to choose F-TEIDs count. Sessions follow one after the
    /// other: [`poll_recompilation`](Self::poll_recompilation).
    pub fn succeed(&mut self, now: Nanos, network: Arc<Network>, config: &Config) {
        self.requests.succeed(now, network, config);
    }

    /// Has up to `most` more sessions follow what has succeeded, and returns what came of all when the last has. `None`
    /// also where no session has to.
    pub fn poll_recompilation(&mut self, now: Nanos, most: usize) -> Option<Recompiled> {
        self.requests.continue_recompilation(now, most)
    }

    /// A counter has reached a bound, as the worker that has the session notifies. Reports come from
    /// [`poll_usage`](Sessions::poll_usage).
    pub fn counter_reached(&mut self, now: Nanos, index: SessionIndex, event: CounterReached) {
        let ChangeContext {
            table,
            commands,
            usage_measurement,
            usage_records,
            ..
        } = &mut self.requests.context;
        if let Some(session) = table.get_mut(index) {
            usage_measurement.handle_counter(now, session, event, commands, usage_records);
        }
    }

    /// As many downlink packets of a URR as its threshold were dropped.
    pub fn dropped_reached(&mut self, index: SessionIndex, urr: UrrId) {
        if let Some(session) = self.requests.context.table.live_mut(index) {
            handle_dropped(session, urr, &mut self.requests.context.commands);
        }
    }

    /// A session has few public ports left, or none, as its worker notifies: it gets another block, if it may have one
    /// and one is free.
    ///
    /// Not while the session changes: it may have another pool or UE address next, and gets a block for those then. The
    /// worker asks again.
    pub fn port_block_wanted(&mut self, now: Nanos, index: SessionIndex) {
        let context = &mut self.requests.context;
        let session = context.table.get(index);
        if session.is_some_and(|session| matches!(session.state, State::Settled)) {
            extend(context, index, now);
        }
    }

    /// A session needs a block no more, and its worker maps no port of it any more.
    pub fn port_block_returned(&mut self, now: Nanos, index: SessionIndex, block: BlockId) {
        let context = &mut self.requests.context;
        release(context, index, Some(block), now);
        if let Some(seid) = context.table.get(index).map(|session| session.seid) {
            context.journal.mark(seid);
        }
    }

    /// The next port block that a session got or gave back ([`Config::port_block_log`]).
    pub fn poll_port_block_event(&mut self) -> Option<PortBlockEvent> {
        self.requests.context.port_blocks.poll_event()
    }

    /// What sessions have of each pool of public addresses, by its number.
    pub fn nat_status(&mut self, now: Nanos) -> Vec<NatPoolStatus> {
        self.requests.context.port_blocks.status(now)
    }

    /// How often a session was to get a block, and none was free that it may have: by the number of the pool.
    pub fn nat_exhausted(&self) -> &[u64] {
        self.requests.context.port_blocks.exhausted()
    }

    /// The port blocks of a session, in the order in which it got them.
    pub fn port_blocks(&self, index: SessionIndex) -> Vec<PortBlock> {
        self.requests.context.port_blocks.blocks_of(index).collect()
    }

    /// The session that holds a port block.
    pub fn port_block_owner(&self, block: BlockId) -> Option<SessionIndex> {
        self.requests.context.port_blocks.owner(block)
    }

    /// Who holds a port block, as its events say.
    pub fn port_block_holder(&self, block: BlockId) -> Option<&BlockHolder> {
        self.requests.context.port_blocks.holder(block)
    }

    /// An End Marker has come for a PDR (TS 29.244 §5.2.2.5).
    pub fn end_marker_received(&mut self, index: SessionIndex, pdr: PdrId) {
        if let Some(session) = self.requests.context.table.live_mut(index) {
            handle_end_marker(session, pdr, &mut self.requests.context.commands);
        }
    }

    /// A worker reports what a session has counted of a content since its last report.
    pub fn content_counted(&mut self, index: SessionIndex, usage: ContentUsage) {
        if let Some(session) = self.requests.context.table.get_mut(index) {
            self.requests
                .context
                .usage_records
                .enter_contents(session, &[usage]);
        }
    }

    /// This usage report has been added to the one before it ([`UsageReport::absorb`]): the next one of its URR gets
    /// its number, so that the control plane sees no gap.
    ///
    /// [`UsageReport::absorb`]: crate::UsageReport::absorb
    pub fn recall_report(&mut self, seid: Seid, report: &UsageReport) {
        if let Some(session) = self.session_mut(seid) {
            session.usage.recall(report);
        }
        self.mark(seid);
    }

    /// Enters for usage records that the control plane has not accepted usage reports. A session that is gone is
    /// entered by what is known of it.
    pub fn enter_unreported(
        &mut self,
        now: Nanos,
        of: ReportedSession,
        reports: &[UsageReport],
        why: Unreported,
    ) {
        let table = &self.requests.context.table;
        let session = table.seids.get(of.seid).and_then(|index| table.get(index));
        self.requests
            .context
            .usage_records
            .enter_unreported(now, of, session, reports, why);
    }

    /// Removes a session without a request of its control plane, and refuses what waits for it.
    pub fn remove(&mut self, seid: Seid, cause: EndCause) {
        if let Some(index) = self.requests.context.table.seids.get(seid) {
            drop_session(&mut self.requests.context, index, cause);
        }
    }

    /// Removes those sessions of an association that `go` selects, without a request of the association, and refuses
    /// what waits for them. Answers how many.
    pub fn remove_association(
        &mut self,
        association: AssociationId,
        cause: EndCause,
        go: impl Fn(&CpFSeid) -> bool,
    ) -> usize {
        let table = &self.requests.context.table;
        let mut going = table.indexes_of(association);
        going.retain(|index| table.get(*index).is_some_and(|session| go(&session.cp)));
        for index in &going {
            drop_session(&mut self.requests.context, *index, cause);
        }
        going.len()
    }

    /// The sets of SMFs that a session belongs to, to be changed.
    pub fn sets_mut(&mut self, seid: Seid) -> Option<&mut Sets> {
        self.mark(seid);
        self.session_mut(seid)
            .map(|session| session.sets.get_or_insert_default())
    }

    /// The control plane uses another F-SEID for a session from now on.
    pub fn rename(&mut self, seid: Seid, cp: CpFSeid) {
        if let Some(index) = self.requests.context.table.seids.get(seid) {
            self.requests.context.table.change_cp_f_seid(index, cp);
            self.mark(seid);
        }
    }

    /// A session belongs to another association from now on. What it holds still counts against the quota of the one
    /// that established it.
    pub fn hand_over(&mut self, seid: Seid, to: AssociationId) {
        let ChangeContext { table, resources, .. } = &mut self.requests.context;
        let index = table.seids.get(seid);
        let from = index.and_then(|index| table.change_association(index, to));
        if let Some((index, from)) = index.zip(from) {
            resources.correlations.hand_over(index, to);
            resources.quotas.remove_session(from);
            resources.quotas.add_session(to);
            self.mark(seid);
        }
    }

    fn session_mut(&mut self, seid: Seid) -> Option<&mut Session> {
        let index = self.requests.context.table.seids.get(seid)?;
        self.requests.context.table.get_mut(index)
    }

    /// The next command for a worker.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.requests.context.commands.poll()
    }

    /// The next outcome of a request.
    pub fn poll_outcome(&mut self) -> Option<Outcome> {
        self.requests.context.outcomes.pop_front()
    }

    /// The next report that a session makes by itself.
    pub fn poll_usage(&mut self) -> Option<(Seid, UsageReport)> {
        self.requests.context.usage_measurement.poll()
    }

    /// The next usage record entry.
    pub fn poll_usage_record_entry(&mut self) -> Option<UsageRecordEntry> {
        self.requests.context.usage_records.poll()
    }

    /// The result of a bucket move.
    pub fn poll_moved(&mut self) -> Option<Moved> {
        self.requests.moves.poll_result()
    }

    /// A GTP-U path that came into use or went out of use since the last call.
    pub fn poll_path(&mut self) -> Option<PathChange> {
        self.requests.context.table.paths.poll()
    }

    /// A correlated rate that has changed, or the workers that have its sessions. It must reach the workers before the
    /// effects that are to be polled yet.
    pub fn poll_shared_rate(&mut self) -> Option<SharedRate> {
        let ChangeContext {
            table,
            resources,
            commands,
            ..
        } = &mut self.requests.context;
        let buckets = &commands.buckets;
        resources.correlations.poll(|index| {
            let session = table.get(index);
            let owner = session.map(|session| buckets.owner(session.bucket));
            owner
                .into_iter()
                .chain(session.and_then(|session| session.other_owner(buckets)))
        })
    }

    /// The host's clock says that `now` is this many nanoseconds after 1970, read with an uncertainty of `slack`
    /// nanoseconds. Monitoring times that have not come yet come at the moments that now have their dates.
    pub fn follow_wall(&mut self, now: Nanos, host_unix: u64, slack: u64) -> Option<WallChange> {
        let ChangeContext {
            table,
            commands,
            usage_measurement,
            ..
        } = &mut self.requests.context;
        let host = HostTime {
            unix_nanos: host_unix,
            slack,
        };
        usage_measurement.follow_wall(now, host, table, commands)
    }

    /// Moments have the dates that they had in the process before, whose sessions are to come: before any has.
    pub fn resume_wall(&mut self, wall: WallClock) {
        self.requests.context.usage_measurement.resume_wall(wall);
    }

    /// Which dates moments have.
    pub fn wall(&self) -> &WallClock {
        self.requests.context.usage_measurement.wall()
    }

    /// The session with this local SEID.
    pub fn session(&self, seid: Seid) -> Option<SessionView<'_>> {
        self.view(self.requests.context.table.seids.get(seid)?)
    }

    /// The session with this index, unless only workers still have it.
    pub fn view(&self, index: SessionIndex) -> Option<SessionView<'_>> {
        self.requests.context.table.view(index)
    }

    /// The session that sends packets to this tunnel endpoint of a peer, or one of those that do.
    pub fn session_by_remote(&self, peer: IpAddr, teid: Teid) -> Option<SessionView<'_>> {
        self.sessions_by_remote(peer, teid).next()
    }

    /// The sessions that send packets to this tunnel endpoint of a peer.
    pub fn sessions_by_remote(&self, peer: IpAddr, teid: Teid) -> impl Iterator<Item = SessionView<'_>> {
        self.requests.context.table.by_remote((peer, teid))
    }

    /// The sessions of an association, in the order of their indexes. Costs what they are, however many others there
    /// are.
    pub fn of_association(&self, association: AssociationId) -> impl Iterator<Item = SessionView<'_>> {
        let indexes = self.requests.context.table.indexes_of(association).into_iter();
        indexes.filter_map(move |index| self.view(index))
    }

    /// All sessions, in the order of their indexes.
    pub fn iter(&self) -> impl Iterator<Item = SessionView<'_>> {
        self.requests.context.table.iter()
    }

    /// Sessions in the order of their SEIDs, from the first one behind `after` on.
    pub fn page(&self, after: Option<Seid>) -> impl Iterator<Item = SessionView<'_>> {
        let indexes = self.requests.context.table.seids.behind(after);
        indexes.filter_map(|index| self.view(index))
    }

    /// The sessions that have this TEID at one of our addresses.
    pub fn with_teid(&self, teid: Teid) -> impl Iterator<Item = SessionView<'_>> {
        let locals = self.requests.context.environment.network.gtpu_addresses();
        let tunnels = &self.requests.context.resources.tunnels;
        let holders = locals.filter_map(move |(_, local, _)| tunnels.holder((local, teid)));
        self.requests.context.table.views(holders)
    }

    /// The sessions that plain packets to this address reach, one for each address space at most.
    pub fn with_ue_address(&self, address: IpAddr) -> impl Iterator<Item = SessionView<'_>> {
        let instances = self.requests.context.environment.network.instances();
        let mut vrfs: Vec<_> = instances.iter().map(|one| one.vrf).collect();
        vrfs.sort_unstable();
        vrfs.dedup();
        let addresses = &self.requests.context.resources.addresses;
        let at = move |vrf| addresses.holder_around((vrf, IpPrefix::host(address)));
        self.requests.context.table.views(vrfs.into_iter().filter_map(at))
    }

    /// All GTP-U paths that sessions send into.
    pub fn paths(&self) -> impl Iterator<Item = GtpuPath> + '_ {
        self.requests.context.table.paths.all()
    }

    /// Whether any session sends into this GTP-U path.
    pub fn uses_path(&self, path: &GtpuPath) -> bool {
        self.users_of(path).next().is_some()
    }

    /// The associations whose sessions send into a GTP-U path.
    pub fn users_of(&self, path: &GtpuPath) -> impl Iterator<Item = AssociationId> + '_ {
        self.requests.context.table.paths.users(path)
    }

    /// Slices that have workers of their own.
    pub fn slice_workers(&self) -> &SliceWorkers {
        &self.requests.context.config.slice_workers
    }

    /// The worker that owns `bucket`.
    pub fn owner(&self, bucket: Bucket) -> WorkerId {
        self.requests.context.commands.buckets.owner(bucket)
    }

    /// Whether a worker serves all slices whose sessions may be in `bucket`, so that the bucket may move to it.
    pub fn may_own(&self, worker: WorkerId, bucket: Bucket) -> bool {
        self.requests.context.commands.buckets.may_own(worker, bucket)
    }

    /// The bucket that moves.
    pub fn moving_bucket(&self) -> Option<Bucket> {
        self.requests.moves.moving_bucket()
    }

    /// How many sessions `bucket` has.
    pub fn sessions_in(&self, bucket: Bucket) -> usize {
        self.requests.context.table.members(bucket).len()
    }

    /// What is predefined.
    pub fn predefined(&self) -> &Predefined {
        &self.requests.context.config.predefined
    }

    /// How many sessions an association has.
    pub fn sessions_of(&self, association: AssociationId) -> usize {
        self.requests.context.resources.quotas.sessions(association)
    }

    /// How many sessions of an association are removed, and workers have yet to confirm it.
    pub fn dying_of(&self, association: AssociationId) -> usize {
        self.requests.context.table.dying_of(association)
    }

    /// How many tunnels an association's sessions hold.
    pub fn tunnels_of(&self, association: AssociationId) -> usize {
        let quotas = &self.requests.context.resources.quotas;
        let workers = self.requests.context.commands.buckets.workers();
        workers
            .map(|worker| quotas.held(association, worker).tunnels())
            .sum()
    }

    /// How many sessions have the rate of this correlation together with a session, itself among them.
    pub fn correlated(&self, index: SessionIndex, correlation: CorrelationId) -> usize {
        self.requests
            .context
            .resources
            .correlations
            .sessions_with(index, correlation)
    }

    /// Sets how many groups there are that quotas are for ([`Config::association_percent`]).
    pub fn share_among(&mut self, groups: usize) {
        self.requests.context.resources.quotas.among(groups);
    }

    /// Sets which associations are of one group, that has one quota; every other one is a group by itself.
    pub fn unite(&mut self, groups: impl Iterator<Item = Vec<AssociationId>>) {
        self.requests.context.resources.quotas.unite(groups);
    }

    /// How many of what there are.
    pub fn count(&self) -> Count {
        let ChangeContext {
            table,
            resources,
            commands,
            ..
        } = &self.requests.context;
        Count {
            sessions: table.seids.len(),
            indexes: table.indexes.in_use(),
            tunnels: resources.tunnels.held(),
            addresses: resources.addresses.held(),
            correlations: resources.correlations.len(),
            paths: table.paths.len(),
            ops: commands.pending(),
        }
    }

    /// The sessions of each slice and data network.
    pub fn groups(&self) -> impl Iterator<Item = GroupCount> + '_ {
        self.requests.context.table.groups.counts()
    }

    /// How many of a pool's addresses are held, and how many it has.
    pub fn pool_usage(&self, pool: PoolId) -> (u64, u64) {
        self.requests.context.resources.addresses.usage(pool)
    }

    /// Whether of anything that sessions take (their number, room in workers, correlations, a pool's addresses) as much
    /// is taken as `share` says of how much there is. Where that is all, it does not count.
    pub fn is_filled(&self, share: impl Fn(usize) -> usize) -> bool {
        let config = &self.requests.context.config;
        let workers = usize::from(config.workers);
        let pools = (0..config.pools.len()).map(|pool| {
            let (held, all) = self.pool_usage(PoolId(pool as u16));
            let of = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
            (of(held), of(all))
        });
        let count = self.count();
        let tables = [
            (count.indexes, config.max_sessions as usize),
            (count.tunnels, config.worker_tunnels.saturating_mul(workers)),
            (count.addresses, config.worker_addresses.saturating_mul(workers)),
            (count.correlations, usize::from(config.max_correlations)),
        ];
        let is_filled = |(taken, all): (usize, usize)| {
            let part = share(all);
            part < all && taken >= part
        };
        tables.into_iter().chain(pools).any(is_filled)
    }
}

//! Queries of the API's thread to the control thread, over a bounded channel; each query holds the sender of its
//! answer.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use flow::{ContentId, Nanos};
use rtrb::Consumer;
use rules::AdjacencyRef;
use rules::model::Content;
use rules::network::{BoundAccessList, Network};
use session::{Export, Seid};
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::time::{sleep, timeout};
use worker::{TraceItem, TraceTerms};

use crate::configuration::Effect;

use super::inspections::{self, Mappings, Owner, Shown, Waiter};
use super::session_transfer::{Exported, SessionExport};
use crate::metrics::{ControlSnapshot, GroupCounts};
use crate::values::{
    ApplicationList, AssociationList, LiveControl, N4Status, NatPoolRow, NeighbourList, PathList, PortList,
    QueuePlan, RouteList, SessionList, SliceWorkersRow,
};
use crate::views::{self, PublicEndpoint, SessionQuery};
use upf::{Control, MirrorFault, MirrorWanted, identifiers};

/// Queries in the channel at most.
const DEPTH: usize = 32;
/// Queries answered in one turn of the control thread; PFCP is served between turns.
const PER_TURN: usize = 2;
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// Queries that a page of a search is made of, and the time between them.
const PARTS: usize = 20;
const BETWEEN_PARTS: Duration = Duration::from_millis(2);

/// How long an export may take.
const EXPORT_PATIENCE: Duration = Duration::from_secs(120);

/// A query, with the sender of its answer.
enum Query {
    Associations {
        after: Option<u32>,
        most: usize,
        reply: oneshot::Sender<AssociationList>,
    },
    Sessions {
        query: SessionQuery,
        after: Option<Seid>,
        most: usize,
        reply: oneshot::Sender<SessionList>,
    },
    Session {
        seid: Seid,
        reply: oneshot::Sender<Shown>,
    },
    N4 {
        reply: oneshot::Sender<N4Status>,
    },
    Live {
        reply: oneshot::Sender<LiveControl>,
    },
    Metrics {
        reply: oneshot::Sender<Box<ControlSnapshot>>,
    },
    Ports {
        reply: oneshot::Sender<PortList>,
    },
    Trace {
        terms: TraceTerms,
        room: usize,
        reply: oneshot::Sender<Vec<Consumer<TraceItem>>>,
    },
    Mirror {
        terms: TraceTerms,
        wanted: MirrorWanted,
        reply: oneshot::Sender<Mirroring>,
    },
    Paths {
        reply: oneshot::Sender<PathList>,
    },
    AccessLists {
        reply: oneshot::Sender<Vec<BoundAccessList>>,
    },
    SessionGroups {
        reply: oneshot::Sender<(Vec<GroupCounts>, Vec<SliceWorkersRow>)>,
    },
    Queues {
        reply: oneshot::Sender<QueuePlan>,
    },
    Nat {
        reply: oneshot::Sender<Vec<NatPoolRow>>,
    },
    NatOwner {
        endpoint: PublicEndpoint,
        reply: oneshot::Sender<Owner>,
    },
    NatMappings {
        seid: Seid,
        reply: oneshot::Sender<Mappings>,
    },
    Applications {
        reply: oneshot::Sender<ApplicationList>,
    },
    Contents {
        reply: oneshot::Sender<Vec<(Content, ContentId)>>,
    },
    Routes {
        after: Option<u32>,
        most: usize,
        reply: oneshot::Sender<RouteList>,
    },
    Neighbours {
        after: Option<u32>,
        most: usize,
        reply: oneshot::Sender<NeighbourList>,
    },
    Export {
        how: Export,
        reply: oneshot::Sender<Exported>,
    },
    Reconfigure {
        effect: Effect,
        reply: oneshot::Sender<Reconfigured>,
    },
    ExportEnd {
        taken: bool,
        reply: oneshot::Sender<bool>,
    },
}

/// The rings of the workers that mirror, and what keeps the next hop; or why there is no way.
pub(super) type Mirroring = Result<(Vec<Consumer<TraceItem>>, AdjacencyRef), MirrorFault>;

/// The configuration that was asked for is in effect; or why the one before is.
pub(super) type Reconfigured = Result<InEffect, String>;

/// What a configuration has brought.
#[derive(Clone, Debug)]
pub(super) struct InEffect {
    /// The network that is in effect.
    pub(super) network: Arc<Network>,
    /// Sessions that something changed of.
    pub(super) sessions: u64,
    /// Sessions that keep what they had of predefined rules, for want of room.
    pub(super) failed: u64,
}

/// The control thread has not answered in time: it is busy, or has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueryTimeout;

impl fmt::Display for QueryTimeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the control thread has no time for this query now")
    }
}

impl std::error::Error for QueryTimeout {}

/// The client end, for the thread of the API.
#[derive(Clone)]
pub struct QueryClient {
    queries: mpsc::Sender<Query>,
    /// One search at a time.
    searching: Arc<Mutex<()>>,
}

/// The server end, for the control thread.
pub struct QueryServer {
    queries: mpsc::Receiver<Query>,
    /// Queries for a session, by the number of its inspection; bounded by the inspections that Control takes. Clients
    /// that have gone away are removed with the next such query.
    waiting: BTreeMap<u64, Waiter>,
    export: SessionExport,
    /// Who waits for the change of the configuration: there is one at a time.
    reconfiguring: Option<oneshot::Sender<Reconfigured>>,
}

/// A channel of queries: both ends.
#[must_use]
pub fn query_channel() -> (QueryClient, QueryServer) {
    let (sender, queries) = mpsc::channel(DEPTH);
    let server = QueryServer {
        queries,
        waiting: BTreeMap::new(),
        export: SessionExport::default(),
        reconfiguring: None,
    };
    let client = QueryClient {
        queries: sender,
        searching: Arc::default(),
    };
    (client, server)
}

impl QueryClient {
    async fn ask<A>(&self, make: impl FnOnce(oneshot::Sender<A>) -> Query) -> Result<A, QueryTimeout> {
        self.ask_for(PATIENCE, make).await
    }

    async fn ask_for<A>(
        &self,
        patience: Duration,
        make: impl FnOnce(oneshot::Sender<A>) -> Query,
    ) -> Result<A, QueryTimeout> {
        let (reply, answer) = oneshot::channel();
        self.queries.try_send(make(reply)).map_err(|_| QueryTimeout)?;
        timeout(patience, answer)
            .await
            .map_err(|_| QueryTimeout)?
            .map_err(|_| QueryTimeout)
    }

    /// A page of associations.
    ///
    /// # Errors
    /// `QueryTimeout`, as of all queries.
    pub async fn associations(
        &self,
        after: Option<u32>,
        most: usize,
    ) -> Result<AssociationList, QueryTimeout> {
        self.ask(|reply| Query::Associations { after, most, reply }).await
    }

    /// A page of sessions. Where sessions have to be looked at one by one, it is made of several queries, with time
    /// between them that control has for others.
    ///
    /// # Errors
    /// `QueryTimeout`.
    pub async fn sessions(
        &self,
        query: SessionQuery,
        mut after: Option<Seid>,
        most: usize,
    ) -> Result<SessionList, QueryTimeout> {
        if !query.is_search() {
            return self.page_of_sessions(query, after, most).await;
        }
        let _alone = timeout(PATIENCE, self.searching.lock())
            .await
            .map_err(|_| QueryTimeout)?;
        let mut rows = Vec::new();
        for parts in 1.. {
            let mut list = self
                .page_of_sessions(query.clone(), after, most - rows.len())
                .await?;
            rows.append(&mut list.sessions);
            let next = list.next.as_deref().map(identifiers::read_seid);
            let Some(Ok(next)) = next.filter(|_| rows.len() < most && parts < PARTS) else {
                list.sessions = rows;
                return Ok(list);
            };
            after = Some(next);
            sleep(BETWEEN_PARTS).await;
        }
        Err(QueryTimeout)
    }

    async fn page_of_sessions(
        &self,
        query: SessionQuery,
        after: Option<Seid>,
        most: usize,
    ) -> Result<SessionList, QueryTimeout> {
        let make = |reply| Query::Sessions {
            query,
            after,
            most,
            reply,
        };
        self.ask(make).await
    }

    /// N4 as a whole.
    ///
    /// # Errors
    /// `QueryTimeout`.
    pub async fn n4(&self) -> Result<N4Status, QueryTimeout> {
        self.ask(|reply| Query::N4 { reply }).await
    }

    /// What control says of this moment.
    ///
    /// # Errors
    /// `QueryTimeout`.
    pub async fn live(&self) -> Result<LiveControl, QueryTimeout> {
        self.ask(|reply| Query::Live { reply }).await
    }

    /// What metrics show of control.
    ///
    /// # Errors
    /// `QueryTimeout`.
    pub async fn metrics(&self) -> Result<Box<ControlSnapshot>, QueryTimeout> {
        self.ask(|reply| Query::Metrics { reply }).await
    }

    /// The ports and their links.
    ///
    /// # Errors
    /// `QueryTimeout`.
    pub async fn ports(&self) -> Result<PortList, QueryTimeout> {
        self.ask(|reply| Query::Ports { reply }).await
    }

    /// The paths of which an MTU is known.
    ///
    /// # Errors
    /// `QueryTimeout`.
    pub async fn paths(&self) -> Result<PathList, QueryTimeout> {
        self.ask(|reply| Query::Paths { reply }).await
    }

    /// The access lists.
    ///
    /// # Errors
    /// `QueryTimeout`.
    pub async fn access_lists(&self) -> Result<Vec<BoundAccessList>, QueryTimeout> {
        self.ask(|reply| Query::AccessLists { reply }).await
    }

    /// What is configured of queues before ports, and how their rates are kept.
    ///
    /// # Errors
    /// `QueryTimeout`.
    pub async fn queue_plan(&self) -> Result<QueuePlan, QueryTimeout> {
        self.ask(|reply| Query::Queues { reply }).await
    }

    /// The sessions of each slice and DNN.
    ///
    /// # Errors
    /// `QueryTimeout`.
    pub async fn session_groups(&self) -> Result<(Vec<GroupCounts>, Vec<SliceWorkersRow>), QueryTimeout> {
        self.ask(|reply| Query::SessionGroups { reply }).await
    }

    /// The pools of public addresses.
    ///
    /// # Errors
    /// `QueryTimeout`.
    pub async fn nat_pools(&self) -> Result<Vec<NatPoolRow>, QueryTimeout> {
        self.ask(|reply| Query::Nat { reply }).await
    }

    /// The session that has a public address and port.
    ///
    /// # Errors
    /// `QueryTimeout`.
    pub async fn nat_owner(&self, endpoint: PublicEndpoint) -> Result<Owner, QueryTimeout> {
        self.ask(|reply| Query::NatOwner { endpoint, reply }).await
    }

    /// The mappings of a session.
    ///
    /// # Errors
    /// `QueryTimeout`.
    pub async fn nat_mappings(&self, seid: Seid) -> Result<Mappings, QueryTimeout> {
        self.ask(|reply| Query::NatMappings { seid, reply }).await
    }

    /// The applications that PDRs may name.
    ///
    /// # Errors
    /// `QueryTimeout`.
    pub async fn applications(&self) -> Result<ApplicationList, QueryTimeout> {
        self.ask(|reply| Query::Applications { reply }).await
    }

    /// The contents of predefined rules, by name, with their numbers.
    ///
    /// # Errors
    /// `QueryTimeout`.
    pub async fn contents(&self) -> Result<Vec<(Content, ContentId)>, QueryTimeout> {
        self.ask(|reply| Query::Contents { reply }).await
    }

    /// A page of routes.
    ///
    /// # Errors
    /// `QueryTimeout`.
    pub async fn routes(&self, after: Option<u32>, most: usize) -> Result<RouteList, QueryTimeout> {
        self.ask(|reply| Query::Routes { after, most, reply }).await
    }

    /// A page of neighbours.
    ///
    /// # Errors
    /// `QueryTimeout`.
    pub async fn neighbours(&self, after: Option<u32>, most: usize) -> Result<NeighbourList, QueryTimeout> {
        self.ask(|reply| Query::Neighbours { after, most, reply }).await
    }

    /// A session in full.
    ///
    /// # Errors
    /// `QueryTimeout`.
    pub async fn session(&self, seid: Seid) -> Result<Shown, QueryTimeout> {
        self.ask(|reply| Query::Session { seid, reply }).await
    }

    /// Has every worker trace packets: the ring of each, with the given room.
    ///
    /// # Errors
    /// `QueryTimeout`.
    pub async fn trace(
        &self,
        terms: TraceTerms,
        room: usize,
    ) -> Result<Vec<Consumer<TraceItem>>, QueryTimeout> {
        self.ask(|reply| Query::Trace { terms, room, reply }).await
    }

    /// Takes a configuration into effect, however long that takes: it is not known to have failed before.
    ///
    /// # Errors
    /// Why the one before is in effect.
    pub(super) async fn reconfigure(&self, effect: Effect) -> Reconfigured {
        let (reply, answer) = oneshot::channel();
        let query = Query::Reconfigure { effect, reply };
        self.queries
            .try_send(query)
            .map_err(|_| QueryTimeout.to_string())?;
        let ended = |_| "the daemon is ending".to_owned();
        answer.await.map_err(ended)?
    }

    /// Has records made of everything.
    ///
    /// # Errors
    /// `QueryTimeout`.
    pub(super) async fn export(&self, how: Export) -> Result<Exported, QueryTimeout> {
        self.ask_for(EXPORT_PATIENCE, |reply| Query::Export { how, reply })
            .await
    }

    /// Ends an export that takes the sessions along; returns whether one was to be ended.
    ///
    /// # Errors
    /// `QueryTimeout`.
    pub(super) async fn end_export(&self, taken: bool) -> Result<bool, QueryTimeout> {
        self.ask(|reply| Query::ExportEnd { taken, reply }).await
    }

    /// Has every worker copy packets.
    ///
    /// # Errors
    /// `QueryTimeout`.
    pub(super) async fn mirror(
        &self,
        terms: TraceTerms,
        wanted: MirrorWanted,
    ) -> Result<Mirroring, QueryTimeout> {
        let make = |reply| Query::Mirror { terms, wanted, reply };
        self.ask(make).await
    }
}

impl QueryServer {
    /// Whether another process has everything that this one had.
    #[must_use]
    pub fn has_left(&self) -> bool {
        self.export.has_left()
    }

    /// Answers a few queries; returns whether there were any. A client that has gone away gets no answer.
    pub fn serve(&mut self, now: Nanos, control: &mut Control) -> bool {
        let mut busy = self.export.follow(now, control);
        for _ in 0..PER_TURN {
            let Ok(query) = self.queries.try_recv() else {
                break;
            };
            self.answer(now, control, query);
            busy = true;
        }
        while let Some(result) = control.poll_reconfigured() {
            let in_effect = |done: upf::Reconfigured| InEffect {
                network: Arc::clone(control.network()),
                sessions: done.sessions,
                failed: done.failed,
            };
            if let Some(reply) = self.reconfiguring.take() {
                let _ = reply.send(result.map(in_effect).map_err(|error| error.to_string()));
            }
            busy = true;
        }
        while let Some(inspection) = control.poll_inspected() {
            if let Some(waiter) = self.waiting.remove(&inspection.number) {
                waiter.answer(control, &inspection);
            }
            busy = true;
        }
        busy
    }

    fn answer(&mut self, now: Nanos, control: &mut Control, query: Query) {
        if query.is_abandoned() {
            return;
        }
        match query {
            Query::Associations { after, most, reply } => {
                let _ = reply.send(views::associations(control, after, most));
            }
            Query::Sessions {
                query,
                after,
                most,
                reply,
            } => {
                let _ = reply.send(views::sessions(control, &query, after, most));
            }
            Query::N4 { reply } => {
                let _ = reply.send(views::n4(control));
            }
            Query::Live { reply } => {
                let _ = reply.send(views::live(now, control));
            }
            Query::Metrics { reply } => {
                let _ = reply.send(Box::new(views::metrics(now, control)));
            }
            Query::Ports { reply } => {
                let _ = reply.send(views::ports(control));
            }
            Query::Trace { terms, room, reply } => {
                let _ = reply.send(control.trace(&terms, room));
            }
            Query::Mirror { terms, wanted, reply } => {
                let _ = reply.send(control.mirror(&terms, &wanted));
            }
            Query::Paths { reply } => {
                let _ = reply.send(views::paths(control));
            }
            Query::AccessLists { reply } => {
                let _ = reply.send(control.network().access_lists().all().to_vec());
            }
            Query::SessionGroups { reply } => {
                let groups = views::session_groups(control).collect();
                let _ = reply.send((groups, views::slice_workers(control)));
            }
            Query::Queues { reply } => {
                let _ = reply.send(views::queue_plan(control));
            }
            Query::Nat { reply } => {
                let _ = reply.send(views::nat_pools(now, control));
            }
            Query::NatOwner { endpoint, reply } => {
                self.cancel_abandoned(control);
                self.waiting
                    .extend(inspections::begin_owner(control, &endpoint, reply));
            }
            Query::NatMappings { seid, reply } => self.inspect(control, seid, Waiter::NatMappings(reply)),
            Query::Applications { reply } => {
                let _ = reply.send(views::applications(control));
            }
            Query::Contents { reply } => {
                let predefined = control.endpoint().sessions().predefined();
                let contents = predefined.contents().map(|(content, id)| (content.clone(), id));
                let _ = reply.send(contents.collect());
            }
            Query::Routes { after, most, reply } => {
                let _ = reply.send(views::routes(control, after, most));
            }
            Query::Neighbours { after, most, reply } => {
                let _ = reply.send(views::neighbours(control, after, most));
            }
            Query::Reconfigure { effect, reply } => match control.reconfigure(now, &effect.new) {
                Ok(()) => self.reconfiguring = Some(reply),
                Err(error) => drop(reply.send(Err(error.to_string()))),
            },
            Query::Export { how, reply } => self.export.begin(now, control, how, reply),
            Query::ExportEnd { taken, reply } => {
                let _ = reply.send(self.export.end(now, control, taken));
            }
            Query::Session { seid, reply } => self.inspect(control, seid, Waiter::Session(reply)),
        }
    }

    /// Asks the worker of a session for what a client waits for.
    fn inspect(&mut self, control: &mut Control, seid: Seid, waiter: Waiter) {
        self.cancel_abandoned(control);
        self.waiting.extend(inspections::begin(control, seid, waiter));
    }

    /// Cancels the inspections whose clients have gone away.
    fn cancel_abandoned(&mut self, control: &mut Control) {
        self.waiting.retain(|number, waiter| {
            let is_gone = waiter.is_gone();
            if is_gone {
                control.cancel_inspection(*number);
            }
            !is_gone
        });
    }
}

impl Query {
    /// Whether the client has gone away.
    fn is_abandoned(&self) -> bool {
        match self {
            Self::Associations { reply, .. } => reply.is_closed(),
            Self::Sessions { reply, .. } => reply.is_closed(),
            Self::Session { reply, .. } => reply.is_closed(),
            Self::N4 { reply } => reply.is_closed(),
            Self::Live { reply } => reply.is_closed(),
            Self::Metrics { reply } => reply.is_closed(),
            Self::Ports { reply } => reply.is_closed(),
            Self::Trace { reply, .. } => reply.is_closed(),
            Self::Mirror { reply, .. } => reply.is_closed(),
            Self::Paths { reply } => reply.is_closed(),
            Self::AccessLists { reply } => reply.is_closed(),
            Self::SessionGroups { reply } => reply.is_closed(),
            Self::Queues { reply } => reply.is_closed(),
            Self::Nat { reply } => reply.is_closed(),
            Self::NatOwner { reply, .. } => reply.is_closed(),
            Self::NatMappings { reply, .. } => reply.is_closed(),
            Self::Applications { reply } => reply.is_closed(),
            Self::Contents { reply } => reply.is_closed(),
            Self::Routes { reply, .. } => reply.is_closed(),
            Self::Neighbours { reply, .. } => reply.is_closed(),
            Self::Export { reply, .. } => reply.is_closed(),
            Self::Reconfigure { reply, .. } => reply.is_closed(),
            // It takes effect without its client, too.
            Self::ExportEnd { .. } => false,
        }
    }
}

//! Between the API's thread and Control's: questions over a bounded channel, each with the place for its answer.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use flow::Nanos;
use rtrb::Consumer;
use rules::AdjacencyRef;
use session::{Export, Seid};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use worker::{TraceItem, TraceTerms};

use super::leaving::{Exported, Leaving};
use crate::values::{
    AssociationList, N4Status, NeighbourList, PathList, PortList, RouteList, SessionDetail, SessionList,
};
use crate::views::{self, SessionQuery};
use upf::{Control, InspectError, Inspection, MirrorWanted, NoWay};

/// Questions that wait for Control's thread at most.
const DEPTH: usize = 32;
/// Questions answered in one turn of Control's thread; PFCP has its turn between.
const PER_TURN: usize = 2;
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long the records of everything may take.
const EXPORT_PATIENCE: Duration = Duration::from_secs(120);

type Shown = Result<Box<SessionDetail>, InspectError>;

/// A question and where its answer goes.
enum Question {
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
    ExportEnd {
        taken: bool,
        reply: oneshot::Sender<bool>,
    },
}

/// The rings of the workers that mirror, and what keeps the next hop; or why there is no way.
pub(super) type Mirroring = Result<(Vec<Consumer<TraceItem>>, AdjacencyRef), NoWay>;

/// Control's thread does not answer: it is busy, or gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Silent;

impl fmt::Display for Silent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the control thread has no time for this question now")
    }
}

impl std::error::Error for Silent {}

/// The asking end.
#[derive(Clone)]
pub struct Inquiry(mpsc::Sender<Question>);

/// The answering end, which Control's thread has.
pub struct Desk {
    questions: mpsc::Receiver<Question>,
    /// Who waits for a worker's word, by Control's number of the question; no more than Control takes questions. Those
    /// who have gone away leave when the next one asks.
    waiting: BTreeMap<u64, oneshot::Sender<Shown>>,
    leaving: Leaving,
}

/// Both ends.
#[must_use]
pub fn desk() -> (Inquiry, Desk) {
    let (sender, questions) = mpsc::channel(DEPTH);
    let desk = Desk {
        questions,
        waiting: BTreeMap::new(),
        leaving: Leaving::default(),
    };
    (Inquiry(sender), desk)
}

impl Inquiry {
    async fn ask<A>(&self, make: impl FnOnce(oneshot::Sender<A>) -> Question) -> Result<A, Silent> {
        self.ask_for(PATIENCE, make).await
    }

    async fn ask_for<A>(
        &self,
        patience: Duration,
        make: impl FnOnce(oneshot::Sender<A>) -> Question,
    ) -> Result<A, Silent> {
        let (reply, answer) = oneshot::channel();
        self.0.try_send(make(reply)).map_err(|_| Silent)?;
        timeout(patience, answer)
            .await
            .map_err(|_| Silent)?
            .map_err(|_| Silent)
    }

    /// A page of associations.
    ///
    /// # Errors
    /// `Silent`, as for all questions.
    pub async fn associations(&self, after: Option<u32>, most: usize) -> Result<AssociationList, Silent> {
        self.ask(|reply| Question::Associations { after, most, reply })
            .await
    }

    /// A page of sessions.
    ///
    /// # Errors
    /// `Silent`.
    pub async fn sessions(
        &self,
        query: SessionQuery,
        after: Option<Seid>,
        most: usize,
    ) -> Result<SessionList, Silent> {
        let make = |reply| Question::Sessions {
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
    /// `Silent`.
    pub async fn n4(&self) -> Result<N4Status, Silent> {
        self.ask(|reply| Question::N4 { reply }).await
    }

    /// The ports and their links.
    ///
    /// # Errors
    /// `Silent`.
    pub async fn ports(&self) -> Result<PortList, Silent> {
        self.ask(|reply| Question::Ports { reply }).await
    }

    /// The paths of which an MTU is known.
    ///
    /// # Errors
    /// `Silent`.
    pub async fn paths(&self) -> Result<PathList, Silent> {
        self.ask(|reply| Question::Paths { reply }).await
    }

    /// A page of routes.
    ///
    /// # Errors
    /// `Silent`.
    pub async fn routes(&self, after: Option<u32>, most: usize) -> Result<RouteList, Silent> {
        self.ask(|reply| Question::Routes { after, most, reply }).await
    }

    /// A page of neighbours.
    ///
    /// # Errors
    /// `Silent`.
    pub async fn neighbours(&self, after: Option<u32>, most: usize) -> Result<NeighbourList, Silent> {
        self.ask(|reply| Question::Neighbours { after, most, reply })
            .await
    }

    /// A session in full.
    ///
    /// # Errors
    /// `Silent`.
    pub async fn session(&self, seid: Seid) -> Result<Shown, Silent> {
        self.ask(|reply| Question::Session { seid, reply }).await
    }

    /// Has every worker tell of packets: the ring of each, which holds so many.
    ///
    /// # Errors
    /// `Silent`.
    pub async fn trace(&self, terms: TraceTerms, room: usize) -> Result<Vec<Consumer<TraceItem>>, Silent> {
        self.ask(|reply| Question::Trace { terms, room, reply }).await
    }

    /// Has records made of everything.
    ///
    /// # Errors
    /// `Silent`.
    pub(super) async fn export(&self, how: Export) -> Result<Exported, Silent> {
        self.ask_for(EXPORT_PATIENCE, |reply| Question::Export { how, reply })
            .await
    }

    /// Ends an export that takes the sessions along; tells whether one was to be ended.
    ///
    /// # Errors
    /// `Silent`.
    pub(super) async fn end_export(&self, taken: bool) -> Result<bool, Silent> {
        self.ask(|reply| Question::ExportEnd { taken, reply }).await
    }

    /// Has every worker copy packets.
    ///
    /// # Errors
    /// `Silent`.
    pub(super) async fn mirror(&self, terms: TraceTerms, wanted: MirrorWanted) -> Result<Mirroring, Silent> {
        let make = |reply| Question::Mirror { terms, wanted, reply };
        self.ask(make).await
    }
}

impl Desk {
    /// Whether another process has everything that this one had.
    #[must_use]
    pub fn has_left(&self) -> bool {
        self.leaving.has_left()
    }

    /// Answers a few questions; tells whether there were any. Who has gone away meanwhile gets nothing.
    pub fn serve(&mut self, now: Nanos, control: &mut Control) -> bool {
        let mut busy = self.leaving.follow(now, control);
        for _ in 0..PER_TURN {
            let Ok(question) = self.questions.try_recv() else {
                break;
            };
            self.answer(now, control, question);
            busy = true;
        }
        while let Some(inspection) = control.poll_inspected() {
            if let Some(reply) = self.waiting.remove(&inspection.number) {
                let _ = reply.send(shown(control, &inspection));
            }
            busy = true;
        }
        busy
    }

    fn answer(&mut self, now: Nanos, control: &mut Control, question: Question) {
        if question.is_abandoned() {
            return;
        }
        match question {
            Question::Associations { after, most, reply } => {
                let _ = reply.send(views::associations(control, after, most));
            }
            Question::Sessions {
                query,
                after,
                most,
                reply,
            } => {
                let _ = reply.send(views::sessions(control, &query, after, most));
            }
            Question::N4 { reply } => {
                let _ = reply.send(views::n4(control));
            }
            Question::Ports { reply } => {
                let _ = reply.send(views::ports(control));
            }
            Question::Trace { terms, room, reply } => {
                let _ = reply.send(control.trace(&terms, room));
            }
            Question::Mirror { terms, wanted, reply } => {
                let _ = reply.send(control.mirror(&terms, &wanted));
            }
            Question::Paths { reply } => {
                let _ = reply.send(views::paths(control));
            }
            Question::Routes { after, most, reply } => {
                let _ = reply.send(views::routes(control, after, most));
            }
            Question::Neighbours { after, most, reply } => {
                let _ = reply.send(views::neighbours(control, after, most));
            }
            Question::Export { how, reply } => self.leaving.begin(now, control, how, reply),
            Question::ExportEnd { taken, reply } => {
                let _ = reply.send(self.leaving.end(now, control, taken));
            }
            Question::Session { seid, reply } => {
                self.forget_those_gone(control);
                match control.inspect(seid) {
                    Ok(number) => drop(self.waiting.insert(number, reply)),
                    Err(not_shown) => drop(reply.send(Err(not_shown))),
                }
            }
        }
    }

    /// Control need not keep room for answers that nobody waits for any more.
    fn forget_those_gone(&mut self, control: &mut Control) {
        self.waiting.retain(|number, reply| {
            let is_gone = reply.is_closed();
            if is_gone {
                control.cancel_inspection(*number);
            }
            !is_gone
        });
    }
}

/// The session of an inspection in full, unless it has ended meanwhile.
fn shown(control: &Control, inspection: &Inspection) -> Shown {
    let session = control.endpoint().sessions().session(inspection.seid);
    let session = session.ok_or(InspectError::UnknownSession)?;
    let status = inspection.status.as_deref();
    Ok(Box::new(views::session_detail(control, &session, status)))
}

impl Question {
    /// Whether nobody waits for the answer any more.
    fn is_abandoned(&self) -> bool {
        match self {
            Self::Associations { reply, .. } => reply.is_closed(),
            Self::Sessions { reply, .. } => reply.is_closed(),
            Self::Session { reply, .. } => reply.is_closed(),
            Self::N4 { reply } => reply.is_closed(),
            Self::Ports { reply } => reply.is_closed(),
            Self::Trace { reply, .. } => reply.is_closed(),
            Self::Mirror { reply, .. } => reply.is_closed(),
            Self::Paths { reply } => reply.is_closed(),
            Self::Routes { reply, .. } => reply.is_closed(),
            Self::Neighbours { reply, .. } => reply.is_closed(),
            Self::Export { reply, .. } => reply.is_closed(),
            // Whoever asked has gone; what it said holds all the same.
            Self::ExportEnd { .. } => false,
        }
    }
}

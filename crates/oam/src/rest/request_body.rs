//! Bodies of requests: no longer and no slower than they may be. A request that has one gets its turn when all of it
//! has come, so that slow bodies hold up no other answer.

use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http_body_util::Limited;
use hyper::Request;
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use tokio::time::{Sleep, sleep};

use super::connections::{Turn, Turns};

/// Octets of a body, at most: those of a configuration.
pub(super) const LONGEST_BODY: usize = 16 << 20;
/// How long a body may take to arrive.
const PATIENCE: Duration = Duration::from_secs(20);

/// The turn of a request, once it has it.
#[derive(Clone, Default)]
pub(super) struct TurnCell(Arc<Mutex<Option<Turn>>>);

impl TurnCell {
    fn put(&self, turn: Turn) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(turn);
    }
}

/// A body of a request.
pub(super) struct RequestBody {
    body: Limited<Incoming>,
    /// When it has to be there; once it is read.
    until: Option<Pin<Box<Sleep>>>,
    turn: TurnOf,
}

/// How far a request is.
enum TurnOf {
    /// Its body comes; then it wants a turn, if it wants one.
    Comes(Option<(Turns, TurnCell)>),
    /// It waits for its turn.
    Waits(Pin<Box<dyn Future<Output = Turn> + Send>>, TurnCell),
    /// It has it.
    Has,
}

impl RequestBody {
    /// The body of a request that is answered without a turn.
    #[cfg_attr(not(feature = "tls"), expect(dead_code, reason = "there is no TLS"))]
    pub(super) fn new(body: Incoming) -> Self {
        Self::with_turn(body, TurnOf::Comes(None))
    }

    fn with_turn(body: Incoming, turn: TurnOf) -> Self {
        Self {
            body: Limited::new(body, LONGEST_BODY),
            until: None,
            turn,
        }
    }

    /// A request that has its turn as long as the cell is there: now if it has no body, else when that has come.
    pub(super) async fn in_turn(request: Request<Incoming>, turns: Turns) -> (Request<Self>, TurnCell) {
        let cell = TurnCell::default();
        let turn = if request.body().is_end_stream() {
            cell.put(turns.next().await);
            TurnOf::Has
        } else {
            TurnOf::Comes(Some((turns, cell.clone())))
        };
        (request.map(|body| Self::with_turn(body, turn)), cell)
    }

    fn poll_turn(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if let TurnOf::Comes(wanted) = &mut self.turn {
            self.turn = match wanted.take() {
                None => TurnOf::Has,
                Some((turns, cell)) => TurnOf::Waits(Box::pin(turns.next()), cell),
            };
        }
        if let TurnOf::Waits(turn, cell) = &mut self.turn {
            let turn = ready!(turn.as_mut().poll(context));
            cell.put(turn);
            self.turn = TurnOf::Has;
        }
        Poll::Ready(())
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = Box<dyn Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let until = self.until.get_or_insert_with(|| Box::pin(sleep(PATIENCE)));
        let is_late = until.as_mut().poll(context).is_ready();
        if is_late && matches!(self.turn, TurnOf::Comes(_)) {
            return Poll::Ready(Some(Err("the body took too long".into())));
        }
        match ready!(Pin::new(&mut self.body).poll_frame(context)) {
            Some(frame) => Poll::Ready(Some(frame)),
            None => self.poll_turn(context).map(|()| None),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.turn, TurnOf::Has) && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

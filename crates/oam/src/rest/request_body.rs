//! Bodies of requests: no longer and no slower than they may be.

use std::error::Error;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http_body_util::Limited;
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use tokio::time::{Sleep, sleep};

/// Octets of a body, at most: those of a configuration.
pub(super) const LONGEST_BODY: usize = 16 << 20;
/// How long a body may take to arrive.
const PATIENCE: Duration = Duration::from_secs(20);

/// A body of a request.
pub(super) struct RequestBody {
    body: Limited<Incoming>,
    /// When it has to be there; once it is read.
    until: Option<Pin<Box<Sleep>>>,
}

impl RequestBody {
    pub(super) fn new(body: Incoming) -> Self {
        Self {
            body: Limited::new(body, LONGEST_BODY),
            until: None,
        }
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
        if until.as_mut().poll(context).is_ready() {
            return Poll::Ready(Some(Err("the body took too long".into())));
        }
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

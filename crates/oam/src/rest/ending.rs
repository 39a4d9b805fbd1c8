//! The end of a listener. Answers that are made are written, answers without end are ended, and connections are closed:
//! the client that ends the daemon has its answer.

use std::convert::Infallible;
use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{Request, Response};
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use hyper::rt::{Read, Write};
use hyper::server::conn::http1::Connection;
use hyper::service::Service;
use tokio::sync::watch;
use tokio::time::timeout;

/// How long the end waits for peers.
const PATIENCE: Duration = Duration::from_millis(500);

/// By which a listener ends its connections.
pub(super) struct Ending(watch::Sender<bool>);

/// What a connection learns the end from. The end waits until it is dropped.
#[derive(Clone)]
pub(super) struct EndWatch(watch::Receiver<bool>);

impl Ending {
    pub(super) fn new() -> Self {
        Self(watch::Sender::new(false))
    }

    pub(super) fn watch(&self) -> EndWatch {
        EndWatch(self.0.subscribe())
    }

    /// Ends the connections, and waits for them, but not for peers that are slow.
    pub(super) async fn end(&self) {
        self.0.send_replace(true);
        let _ = timeout(PATIENCE, self.0.closed()).await;
    }
}

impl EndWatch {
    /// Returns at the end.
    async fn ended(mut self) {
        // Without the sender there is no listener any more.
        let _ = self.0.wait_for(|is_ended| *is_ended).await;
    }

    /// Serves a connection until the peer, or the listener, ends it.
    pub(super) async fn serve<I, S>(self, connection: Connection<I, S>)
    where
        I: Read + Write + Unpin,
        S: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible>,
    {
        let mut connection = pin!(connection);
        tokio::select! {
            // A peer that goes away is its own affair.
            _ = connection.as_mut() => return,
            () = self.clone().ended() => connection.as_mut().graceful_shutdown(),
        }
        let _ = connection.await;
    }

    /// The same answer, which ends with the listener where its next part is not there by then.
    pub(super) fn bound(self, answer: Response<Body>) -> Response<Body> {
        answer.map(|body| {
            Body::new(UntilEnd {
                body,
                end: Box::pin(self.ended()),
            })
        })
    }
}

struct UntilEnd {
    body: Body,
    end: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl HttpBody for UntilEnd {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let part = Pin::new(&mut self.body).poll_frame(context);
        match part {
            Poll::Pending => self.end.as_mut().poll(context).map(|()| None),
            part @ Poll::Ready(_) => part,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use hyper::server::conn::http1;
    use hyper::service::service_fn;
    use hyper_util::rt::TokioIo;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::sync::{mpsc, oneshot};
    use tokio::task::JoinHandle;

    use super::*;

    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";

    /// A connection whose one answer is given by the test, and its client's end.
    fn connect(end: EndWatch, answer: oneshot::Receiver<Body>) -> (DuplexStream, JoinHandle<()>) {
        let (client, server) = duplex(4096);
        let of_answers = end.clone();
        let answer = std::sync::Mutex::new(Some(answer));
        let service = service_fn(move |_: Request<Incoming>| {
            let end = of_answers.clone();
            let answer = answer.lock().unwrap().take();
            async move {
                let body = answer.unwrap().await.unwrap();
                Ok::<_, Infallible>(end.bound(Response::new(body)))
            }
        });
        let connection = http1::Builder::new().serve_connection(TokioIo::new(server), service);
        (client, tokio::spawn(end.serve(connection)))
    }

    #[tokio::test]
    async fn an_answer_in_the_making_is_written() {
        let ending = Ending::new();
        let (give, answer) = oneshot::channel();
        let (mut client, served) = connect(ending.watch(), answer);
        client.write_all(REQUEST).await.unwrap();
        let ended = tokio::spawn(async move { ending.end().await });
        tokio::task::yield_now().await;
        give.send(Body::from("it is done")).unwrap();
        let mut read = String::new();
        client.read_to_string(&mut read).await.unwrap();
        assert!(
            read.ends_with("it is done") && read.contains("content-length: 10"),
            "{read}"
        );
        ended.await.unwrap();
        served.await.unwrap();
    }

    #[tokio::test]
    async fn an_answer_without_end_ends() {
        let ending = Ending::new();
        let (give, answer) = oneshot::channel();
        let (mut client, served) = connect(ending.watch(), answer);
        let (parts, lines) = mpsc::channel(1);
        client.write_all(REQUEST).await.unwrap();
        give.send(Body::new(crate::rest::trace::Lines::new(lines)))
            .unwrap();
        parts.send(Bytes::from_static(b"a line")).await.unwrap();
        let ended = tokio::spawn(async move { ending.end().await });
        let mut read = String::new();
        client.read_to_string(&mut read).await.unwrap();
        assert!(read.contains("a line") && read.ends_with("0\r\n\r\n"), "{read}");
        ended.await.unwrap();
        served.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_without_a_request_is_closed_and_a_slow_one_not_awaited() {
        let ending = Ending::new();
        let (_give, answer) = oneshot::channel();
        let (mut idle, closed) = connect(ending.watch(), answer);
        let (_never, answer) = oneshot::channel();
        let (mut slow, served) = connect(ending.watch(), answer);
        slow.write_all(REQUEST).await.unwrap();
        tokio::task::yield_now().await;
        let before = tokio::time::Instant::now();
        ending.end().await;
        assert_eq!(before.elapsed(), PATIENCE);
        assert_eq!(idle.read(&mut [0; 1]).await.unwrap(), 0);
        closed.await.unwrap();
        served.abort();
    }
}

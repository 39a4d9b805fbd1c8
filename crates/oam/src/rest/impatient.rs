//! Streams whose peers do not read.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// A stream that fails if it takes nothing for too long: its peer does not read, and holds a place meanwhile.
pub(super) struct Impatient<S> {
    stream: S,
    patience: Duration,
    /// When a write that waits has waited too long.
    until: Option<Pin<Box<Sleep>>>,
}

impl<S> Impatient<S> {
    pub(super) fn new(stream: S, patience: Duration) -> Self {
        Self {
            stream,
            patience,
            until: None,
        }
    }

    /// Passes on how a write went, unless it has waited too long.
    fn bounded<T>(&mut self, done: Poll<io::Result<T>>, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        if done.is_ready() {
            self.until = None;
            return done;
        }
        let patience = self.patience;
        let until = self
            .until
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(Instant::now() + patience)));
        ready!(until.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Impatient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Impatient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.bounded(done, context)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let done = Pin::new(&mut self.stream).poll_flush(context);
        self.bounded(done, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let done = Pin::new(&mut self.stream).poll_shutdown(context);
        self.bounded(done, context)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use tokio::net::UnixStream;

    use super::{AsyncWrite, Duration, Impatient, Pin, io};

    async fn write_all(stream: &mut Impatient<UnixStream>, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let written = poll_fn(|context| Pin::new(&mut *stream).poll_write(context, bytes)).await?;
            bytes = &bytes[written..];
        }
        Ok(())
    }

    async fn count_all(stream: UnixStream) -> usize {
        let (mut count, mut buffer) = (0, [0; 4096]);
        loop {
            stream.readable().await.expect("it can be read");
            match stream.try_read(&mut buffer) {
                Ok(0) => return count,
                Ok(octets) => count += octets,
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
        }
    }

    fn run<F: Future>(body: F) -> F::Output {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().build().expect("a runtime");
        runtime.block_on(body)
    }

    #[test]
    fn a_peer_that_does_not_read_is_given_up() {
        run(async {
            let (ours, _theirs) = UnixStream::pair().expect("a pair");
            let mut ours = Impatient::new(ours, Duration::from_millis(20));
            let answer = vec![0; 16 << 20];
            let error = write_all(&mut ours, &answer).await.expect_err("not read");
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        });
    }

    #[test]
    fn a_peer_that_reads_gets_all_of_it() {
        run(async {
            let (ours, theirs) = UnixStream::pair().expect("a pair");
            let mut ours = Impatient::new(ours, Duration::from_secs(600));
            let reader = tokio::spawn(count_all(theirs));
            write_all(&mut ours, &vec![7; 4 << 20])
                .await
                .expect("it is written");
            drop(ours);
            assert_eq!(reader.await.expect("it ends"), 4 << 20);
        });
    }
}

//! Connections whose peers do not read what they have asked for.
//!
//! What is not read waits in memory and takes one of the places that connections have. A dead machine's connection ends after
//! a quarter of an hour by itself, one of a stopped process never. So anyone who takes nothing for a while is given up.

use std::future::Future;
use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use crate::shared_core::SharedCore;

/// A peer that takes not a single byte for this long is given up. Members have done with an answer after a second.
pub(crate) const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection that ends when its peer has not read for [`WRITE_TIMEOUT`].
pub(crate) struct WriteTimeout<S> {
    stream: S,
    shared: Arc<SharedCore>,
    /// Since the last byte was taken, while there are more.
    waits: Option<Pin<Box<Sleep>>>,
}

impl<S> WriteTimeout<S> {
    /// Those that are given up are counted in the shared core.
    pub(crate) fn new(stream: S, shared: Arc<SharedCore>) -> Self {
        WriteTimeout {
            stream,
            shared,
            waits: None,
        }
    }

    fn bound<T>(
        &mut self,
        context: &mut Context<'_>,
        done: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if done.is_ready() {
            self.waits = None;
            return done;
        }
        let waits = self
            .waits
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(WRITE_TIMEOUT)));
        if waits.as_mut().poll(context).is_pending() {
            return Poll::Pending;
        }
        self.waits = None;
        self.shared.count_stalled_connection();
        Poll::Ready(Err(ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeout<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.bound(context, done)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.bound(context, done)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let done = Pin::new(&mut self.stream).poll_flush(context);
        self.bound(context, done)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let done = Pin::new(&mut self.stream).poll_shutdown(context);
        self.bound(context, done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test(start_paused = true)]
    async fn who_takes_nothing_is_given_up_and_who_is_slow_is_not() {
        let shared = Arc::new(SharedCore::new());
        let (near, mut far) = tokio::io::duplex(64);
        let mut stream = WriteTimeout::new(near, Arc::clone(&shared));
        let slow = tokio::spawn(async move {
            let mut byte = [0; 16];
            for _ in 0..20 {
                tokio::time::sleep(WRITE_TIMEOUT * 9 / 10).await;
                far.read_exact(&mut byte).await.unwrap();
            }
            far
        });
        stream.write_all(&[7; 20 * 16]).await.unwrap();
        assert_eq!(shared.tally().stalled_connections, 0);
        let far = slow.await.unwrap();
        let began = tokio::time::Instant::now();
        let given_up = stream.write_all(&[7; 65]).await.unwrap_err();
        assert_eq!(given_up.kind(), ErrorKind::TimedOut);
        assert!(began.elapsed() >= WRITE_TIMEOUT && began.elapsed() < 2 * WRITE_TIMEOUT);
        assert_eq!(shared.tally().stalled_connections, 1);
        drop(far);
    }
}

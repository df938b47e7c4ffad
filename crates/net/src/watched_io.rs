//! A connection that fails when nothing comes or goes for long: a client that sends a body, or reads an answer, byte by byte
//! or not at all.
//!
//! It is for HTTP, where one connection has many requests and each of them bodies of any length: a time for the
//! whole would cut off large uploads, a time of silence only those that stand still.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use crate::admission::Handle;
use crate::limits;

/// A connection of HTTP whose reads and writes fail after a silence.
#[derive(Debug)]
pub struct WatchedIo<S> {
    io: S,
    silence: Pin<Box<Sleep>>,
    handle: Option<Handle>,
    /// Bytes since the last step.
    moved: usize,
}

impl<S> WatchedIo<S> {
    /// `handle`: of the connection, which is not idle while bytes come and go.
    pub fn new(io: S, handle: Option<Handle>) -> Self {
        WatchedIo { io, silence: Box::pin(sleep(limits::HTTP_IDLE)), handle, moved: 0 }
    }

    /// Bytes that trickle are no step.
    fn moved(&mut self, bytes: usize) {
        self.moved += bytes;
        // `admission` closes the connection that is idle longest; one byte now and then must not keep a place.
        if self.moved >= limits::HTTP_STEP {
            self.moved = 0;
            if let Some(handle) = &self.handle {
                handle.step();
            }
        }
    }

    /// Returns the connection itself, which is watched no longer.
    pub fn into_inner(self) -> S {
        self.io
    }

    fn watch<T>(&mut self, cx: &mut Context<'_>, done: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if done.is_ready() {
            // Any progress, in either direction, begins the silence anew.
            self.silence.set(sleep(limits::HTTP_IDLE));
            return done;
        }
        self.silence.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WatchedIo<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let done = Pin::new(&mut self.io).poll_read(cx, buffer);
        self.moved(buffer.filled().len() - before);
        self.watch(cx, done)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WatchedIo<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.io).poll_write(cx, bytes);
        if let Poll::Ready(Ok(count)) = done {
            self.moved(count);
        }
        self.watch(cx, done)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

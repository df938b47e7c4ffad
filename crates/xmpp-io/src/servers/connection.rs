//! One connection, as its writers see it, and the moving of its bytes.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use crate::streams::Buckets;
use net::admission::Handle;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use super::shared::S2sConnections;

/// A connection, which its task, the machine and the shard share.
#[derive(Default)]
pub(super) struct S2sConnection {
    pub(super) number: u64,
    /// We made it.
    pub(super) is_ours: bool,
    /// The domain that we connect to.
    pub(super) domain: Box<str>,
    /// Parts to be written. The machine bounds them: it is told of each part that is written.
    queue: RefCell<VecDeque<Vec<u8>>>,
    /// Once all is written the connection is closed.
    pub(super) closing: Cell<bool>,
    /// Its last words were not read in time, or it is not wanted before it is made.
    pub(super) given_up: Cell<bool>,
    /// Once all is written TLS begins.
    pub(super) securing: Cell<bool>,
    waker: RefCell<Option<Waker>>,
    /// For an incoming connection: its place in the admission table.
    pub(super) handle: Option<Handle>,
    /// For an incoming connection: its address, and the listener's transport.
    pub(super) source: Option<(IpAddr, &'static str)>,
    pub(super) buckets: Buckets,
}

/// The reason why a task moves no more bytes of a wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// We have closed the stream: all is written, and the peer may take its time to close, too.
    Closed,
    /// The connection has ended, or is given up.
    Broken,
    /// TLS begins on the same socket.
    Secure,
}

impl S2sConnection {
    pub(super) fn accepted(number: u64, handle: Handle, source: (IpAddr, &'static str)) -> S2sConnection {
        S2sConnection { number, handle: Some(handle), source: Some(source), ..S2sConnection::default() }
    }

    pub(super) fn to(domain: Box<str>, number: u64) -> S2sConnection {
        S2sConnection { number, is_ours: true, domain, ..S2sConnection::default() }
    }

    pub(super) fn has_queued(&self) -> bool {
        !self.queue.borrow().is_empty()
    }

    pub(super) fn put(&self, bytes: Vec<u8>) {
        self.queue.borrow_mut().push_back(bytes);
        self.wake();
    }

    pub(super) fn wake(&self) {
        if let Some(waker) = self.waker.borrow().as_ref() {
            waker.wake_by_ref();
        }
    }

    /// Notes the task that `wake` wakes.
    pub(super) fn remember(&self, cx: &Context<'_>) {
        let mut waker = self.waker.borrow_mut();
        match waker.as_mut() {
            Some(old) => old.clone_from(cx.waker()),
            None => *waker = Some(cx.waker().clone()),
        }
    }
}

/// The wire, and how much of the first part that waits is written.
pub(super) struct Wire<S> {
    pub(super) io: S,
    written: usize,
    has_shut: bool,
    /// Nothing is read until then.
    pause: Option<Pin<Box<Sleep>>>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Wire<S> {
    pub(super) fn new(io: S) -> Self {
        Wire { io, written: 0, has_shut: false, pause: None }
    }

    /// Moves bytes until the connection ends. It writes first: TLS begins, or the connection closes, only after all is written; and it reads
    /// only while the shard has room for events.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        shared: &S2sConnections,
        own: &S2sConnection,
    ) -> Poll<End> {
        own.remember(cx);
        let evicted = own.handle.as_ref().map_or(Poll::Pending, |handle| handle.poll_evicted(cx));
        if own.given_up.get() || evicted.is_ready() {
            return Poll::Ready(End::Broken);
        }
        loop {
            match self.poll_write(cx, shared, own) {
                Poll::Ready(Err(_)) => return Poll::Ready(End::Broken),
                Poll::Ready(Ok(())) if own.closing.get() => return Poll::Ready(End::Closed),
                Poll::Ready(Ok(())) if own.securing.get() => return Poll::Ready(End::Secure),
                _ => {}
            }
            let is_deaf = own.closing.get() || own.securing.get();
            if is_deaf || !shared.has_room(cx.waker()) {
                return Poll::Pending;
            }
            if let Some(pause) = &mut self.pause {
                ready!(pause.as_mut().poll(cx));
                self.pause = None;
            }
            let mut scratch = shared.scratch.borrow_mut();
            let mut buffer = ReadBuf::new(&mut scratch);
            match ready!(Pin::new(&mut self.io).poll_read(cx, &mut buffer)) {
                Ok(()) if !buffer.filled().is_empty() => {
                    let wait = shared.heard(own, buffer.filled());
                    self.pause = (!wait.is_zero()).then(|| Box::pin(sleep(wait)));
                }
                Ok(()) | Err(_) => return Poll::Ready(End::Broken),
            }
        }
    }

    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        shared: &S2sConnections,
        own: &S2sConnection,
    ) -> Poll<std::io::Result<()>> {
        loop {
            let mut queue = own.queue.borrow_mut();
            let Some(first) = queue.front() else { break };
            let count = ready!(Pin::new(&mut self.io).poll_write(cx, &first[self.written..]))?;
            if count == 0 {
                return Poll::Ready(Err(std::io::ErrorKind::WriteZero.into()));
            }
            self.written += count;
            if self.written == first.len() {
                self.written = 0;
                queue.pop_front();
                if queue.is_empty() {
                    // An idle connection keeps no queue.
                    queue.shrink_to_fit();
                }
            }
            drop(queue);
            shared.written(own, count);
        }
        Pin::new(&mut self.io).poll_flush(cx)
    }

    /// Says goodbye, and reads on until the other has gone too: closing with unread bytes would reset the connection and
    /// take our last words with it.
    pub(super) fn poll_shutdown(&mut self, cx: &mut Context<'_>, shared: &S2sConnections) -> Poll<()> {
        if !self.has_shut {
            let shut = ready!(Pin::new(&mut self.io).poll_shutdown(cx));
            self.has_shut = true;
            if shut.is_err() {
                return Poll::Ready(());
            }
        }
        loop {
            let mut scratch = shared.scratch.borrow_mut();
            let mut buffer = ReadBuf::new(&mut scratch);
            match ready!(Pin::new(&mut self.io).poll_read(cx, &mut buffer)) {
                Ok(()) if !buffer.filled().is_empty() => {}
                Ok(()) | Err(_) => return Poll::Ready(()),
            }
        }
    }
}

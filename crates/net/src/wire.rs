//! The traffic of an established connection: frames in, queued messages out. TCP and TLS here, WebSocket in
//! `ws`.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use sip::wire::framing::{Frame, FrameFault, Framer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::flow::{Flow, Shared};
use super::settings::CloseReason;

/// The reason why a connection gives no more frames.
pub(super) enum End {
    Closed(CloseReason),
    Fault(FrameFault),
}

/// A connection as the task that owns it drives it.
pub(super) trait Wire {
    /// The next frame. `scratch` is only borrowed: nothing of it may be relied on later.
    fn poll_frame(&mut self, cx: &mut Context<'_>, scratch: &mut [u8]) -> Poll<Result<Frame, End>>;

    /// Writes what is queued on the flow. Ready when all of it is with the kernel.
    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        shared: &Shared,
        flow: &Flow,
    ) -> Poll<Result<(), CloseReason>>;

    /// Memory held by a message that has not come whole; 0: none is begun.
    fn partial(&self) -> usize;

    /// Answers a `Frame::Ping`.
    fn pong() -> Bytes;

    /// Says goodbye. Ready when the peer can know.
    fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<()>;
}

/// Messages cut by Content-Length, over TCP or TLS.
pub(super) struct StreamWire<S> {
    io: S,
    framer: Framer,
    /// Bytes of the flow's first queued message that are written.
    written: usize,
}

/// Messages written with one system call.
const WRITE_BATCH: usize = 16;

impl<S: AsyncRead + AsyncWrite + Unpin> StreamWire<S> {
    pub(super) fn new(io: S) -> Self {
        StreamWire { io, framer: Framer::new(), written: 0 }
    }

    fn poll_write_some(&mut self, cx: &mut Context<'_>, flow: &Flow) -> Poll<io::Result<usize>> {
        let queue = flow.queue.borrow();
        let mut slices = [IoSlice::new(&[]); WRITE_BATCH];
        let mut count = 0;
        for (slice, queued) in slices.iter_mut().zip(queue.iter()) {
            let skip = if count == 0 { self.written } else { 0 };
            *slice = IoSlice::new(&queued.bytes[skip..]);
            count += 1;
        }
        Pin::new(&mut self.io).poll_write_vectored(cx, &slices[..count])
    }
}

/// Takes `written` bytes off the front of the queue; the number of messages that are through.
fn advance(shared: &Shared, flow: &Flow, written: &mut usize, count: usize) -> u64 {
    *written += count;
    let mut done = 0;
    while flow.queue.borrow().front().is_some_and(|first| first.bytes.len() <= *written) {
        let Some(queued) = shared.pop(flow) else { break };
        shared.capture_sent(flow, &queued.bytes);
        *written -= queued.bytes.len();
        done += 1;
    }
    let mut queue = flow.queue.borrow_mut();
    if queue.is_empty() {
        // An idle connection keeps no queue.
        queue.shrink_to_fit();
    }
    done
}

impl<S: AsyncRead + AsyncWrite + Unpin> Wire for StreamWire<S> {
    fn poll_frame(&mut self, cx: &mut Context<'_>, scratch: &mut [u8]) -> Poll<Result<Frame, End>> {
        loop {
            if let Some(frame) = self.framer.next() {
                return Poll::Ready(frame.map_err(End::Fault));
            }
            let mut buffer = ReadBuf::new(scratch);
            let end = match ready!(Pin::new(&mut self.io).poll_read(cx, &mut buffer)) {
                Ok(()) if !buffer.filled().is_empty() => None,
                Ok(()) => Some(CloseReason::Peer),
                // TLS without close_notify: what was framed is whole, so nothing was cut off unseen.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Some(CloseReason::Peer),
                Err(_) => Some(CloseReason::Broken),
            };
            if let Some(reason) = end {
                return Poll::Ready(Err(End::Closed(reason)));
            }
            self.framer.push(buffer.filled());
        }
    }

    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        shared: &Shared,
        flow: &Flow,
    ) -> Poll<Result<(), CloseReason>> {
        while !flow.queue.borrow().is_empty() {
            let Ok(count) = ready!(self.poll_write_some(cx, flow)) else {
                return Poll::Ready(Err(CloseReason::Broken));
            };
            let done = advance(shared, flow, &mut self.written, count);
            shared.count(|counters| counters.stream_messages_out += done);
        }
        let flushed = ready!(Pin::new(&mut self.io).poll_flush(cx));
        Poll::Ready(flushed.map_err(|_| CloseReason::Broken))
    }

    fn partial(&self) -> usize {
        // One line end is a beginning, too, and holds nothing.
        if self.framer.is_between_messages() { 0 } else { self.framer.capacity().max(1) }
    }

    fn pong() -> Bytes {
        Bytes::from_static(b"\r\n")
    }

    fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.io).poll_shutdown(cx).map(|_| ())
    }
}

//! The ways to move bytes and messages over a connection: [`Bytes`] over TCP and TLS, [`Documents`] over WebSocket, and sessions of BOSH
//! (`http::bosh`). `serve` polls a [`Wire`] and knows none of them.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_util::{Sink, Stream as Messages};
use net::ws::Pongs;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::{Error, Message, Utf8Bytes};

use super::shared::C2sConnections;
use super::stream::Stream;

/// Nothing more can be read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ended;

/// A way to move bytes or messages between a connection and its [`Stream`], whose queue it empties.
pub(super) trait Wire {
    /// Gives what came to the stream (`C2sConnections::heard`). One read at a time: the caller asks for room before the next.
    fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        shared: &C2sConnections,
        stream: &Stream,
    ) -> Poll<Result<(), Ended>>;

    /// Writes what waits. Ready when all of it is with the kernel.
    fn poll_write(&mut self, cx: &mut Context<'_>, stream: &Stream) -> Poll<Result<(), Ended>>;

    /// Says goodbye, and reads on until the client has gone too: closing with unread bytes would reset the connection
    /// and take our last words with it.
    fn poll_shutdown(&mut self, cx: &mut Context<'_>, shared: &C2sConnections) -> Poll<()>;
}

/// TCP and TLS.
pub(super) struct Bytes<S> {
    pub(super) io: S,
    /// Written bytes of the first part of the queue.
    written: usize,
    has_shut: bool,
}

impl<S> Bytes<S> {
    pub(super) fn new(io: S) -> Self {
        Bytes { io, written: 0, has_shut: false }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Wire for Bytes<S> {
    fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        shared: &C2sConnections,
        stream: &Stream,
    ) -> Poll<Result<(), Ended>> {
        let mut scratch = shared.scratch.borrow_mut();
        let mut buffer = ReadBuf::new(&mut scratch);
        let read = Pin::new(&mut self.io).poll_read(cx, &mut buffer);
        if read.is_pending() {
            // TLS may have an alert of its own to send, as for a renegotiation (RFC 5246 §7.2.2).
            let _ = Pin::new(&mut self.io).poll_flush(cx);
        }
        match ready!(read) {
            Ok(()) if !buffer.filled().is_empty() => {
                shared.heard(stream, buffer.filled());
                Poll::Ready(Ok(()))
            }
            Ok(()) | Err(_) => Poll::Ready(Err(Ended)),
        }
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, stream: &Stream) -> Poll<Result<(), Ended>> {
        while stream.has_queued() {
            let write = |first: &[u8]| {
                let rest = first.get(self.written..).unwrap_or_default();
                let Poll::Ready(result) = Pin::new(&mut self.io).poll_write(cx, rest) else {
                    return Poll::Pending;
                };
                Poll::Ready(result.map(|count| (count, count == rest.len())))
            };
            let Some(written) = stream.with_first(write) else { break };
            match ready!(written) {
                Ok((_, true)) => {
                    self.written = 0;
                    stream.pop();
                }
                Ok((0, false)) | Err(_) => return Poll::Ready(Err(Ended)),
                Ok((count, false)) => {
                    self.written += count;
                    stream.wrote.set(true);
                }
            }
        }
        // A part that was given up half-way is not missed.
        self.written = 0;
        Pin::new(&mut self.io).poll_flush(cx).map_err(|_| Ended)
    }

    fn poll_shutdown(&mut self, cx: &mut Context<'_>, shared: &C2sConnections) -> Poll<()> {
        if !self.has_shut {
            let shut: io::Result<()> = ready!(Pin::new(&mut self.io).poll_shutdown(cx));
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

/// RFC 7395: a message is a document.
pub(super) struct Documents<S> {
    socket: WebSocketStream<S>,
    pongs: Pongs,
}

impl<S> Documents<S> {
    pub(super) fn new(socket: WebSocketStream<S>) -> Self {
        Documents { socket, pongs: Pongs::default() }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Wire for Documents<S> {
    fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        shared: &C2sConnections,
        stream: &Stream,
    ) -> Poll<Result<(), Ended>> {
        ready!(self.pongs.poll_written(cx, &mut self.socket)).map_err(|_| Ended)?;
        let next = ready!(Pin::new(&mut self.socket).poll_next(cx));
        if let Some(Ok(message)) = &next {
            self.pongs.note(message);
        }
        match next {
            Some(Ok(Message::Text(text))) => shared.heard(stream, text.as_bytes()),
            // RFC 7395 §3.2: text only.
            Some(Ok(Message::Binary(_))) => shared.tell(stream, |c2s, out| c2s.fail("bad-format", out)),
            // A ping is answered by the library; either is a sign of life.
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => shared.heard(stream, b" "),
            Some(Ok(Message::Close(_) | Message::Frame(_))) => {}
            Some(Err(Error::Capacity(_))) => {
                shared.tell(stream, |c2s, out| c2s.fail("policy-violation", out));
            }
            Some(Err(_)) | None => return Poll::Ready(Err(Ended)),
        }
        Poll::Ready(Ok(()))
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, stream: &Stream) -> Poll<Result<(), Ended>> {
        while stream.has_queued() {
            ready!(Pin::new(&mut self.socket).poll_ready(cx)).map_err(|_| Ended)?;
            let Some(document) = stream.pop() else { break };
            let text = Utf8Bytes::try_from(Vec::from(document)).map_err(|_| Ended)?;
            Pin::new(&mut self.socket).start_send(Message::Text(text)).map_err(|_| Ended)?;
        }
        Pin::new(&mut self.socket).poll_flush(cx).map_err(|_| Ended)
    }

    fn poll_shutdown(&mut self, cx: &mut Context<'_>, _shared: &C2sConnections) -> Poll<()> {
        Pin::new(&mut self.socket).poll_close(cx).map(|_| ())
    }
}

//! A connection with TLS whose buffers are there only while bytes are under way (`tls_session`).

use std::borrow::BorrowMut;
use std::io::{self, IoSlice, Read, Write};
use std::pin::Pin;
use std::task::{Context, Poll};

use tls_session::TlsSession;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// TLS over a socket, past its handshake. Its session is in a box, so that a future that has it stays small; but see
/// [`InlineTlsStream`].
#[derive(Debug)]
pub struct TlsStream<S, T = Box<TlsSession>> {
    session: T,
    socket: S,
}

/// The session is in the stream itself.
pub type InlineTlsStream<S> = TlsStream<S, TlsSession>;

impl<S> TlsStream<S> {
    /// Goes on with a session that has shaken hands over this socket.
    pub fn new(session: Box<TlsSession>, socket: S) -> Self {
        TlsStream { session, socket }
    }

    /// The same without a box of the session's own, for an owner that is in a box itself.
    pub fn unboxed(self) -> InlineTlsStream<S> {
        TlsStream { session: *self.session, socket: self.socket }
    }

    /// The session: its version and suite, and the peer's certificates.
    pub fn session(&self) -> &TlsSession {
        &self.session
    }

    /// The session, for what is taken from it once.
    pub fn session_mut(&mut self) -> &mut TlsSession {
        &mut self.session
    }
}

/// A socket as a session reads and writes it: instead of waiting it has the task woken, and would block.
struct Polled<'a, 'b, S> {
    socket: &'a mut S,
    cx: &'a mut Context<'b>,
}

impl<S: AsyncRead + Unpin> Read for Polled<'_, '_, S> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let mut buffer = ReadBuf::new(bytes);
        at_once(Pin::new(&mut *self.socket).poll_read(self.cx, &mut buffer))?;
        Ok(buffer.filled().len())
    }
}

impl<S: AsyncWrite + Unpin> Write for Polled<'_, '_, S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        at_once(Pin::new(&mut *self.socket).poll_write(self.cx, bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        at_once(Pin::new(&mut *self.socket).poll_flush(self.cx))
    }
}

fn at_once<T>(polled: Poll<io::Result<T>>) -> io::Result<T> {
    match polled {
        Poll::Ready(result) => result,
        Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
    }
}

fn polled<T>(result: io::Result<T>) -> Poll<io::Result<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Poll::Pending,
        other => Poll::Ready(other),
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin, T: BorrowMut<TlsSession> + Unpin> AsyncRead for TlsStream<S, T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let TlsStream { session, socket } = &mut *self;
        let read = session.borrow_mut().read(&mut Polled { socket, cx }, buffer.initialize_unfilled());
        polled(read.map(|count| buffer.advance(count)))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin, T: BorrowMut<TlsSession> + Unpin> AsyncWrite for TlsStream<S, T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let TlsStream { session, socket } = &mut *self;
        polled(session.borrow_mut().write(&mut Polled { socket, cx }, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let TlsStream { session, socket } = &mut *self;
        polled(session.borrow_mut().write_vectored(&mut Polled { socket, cx }, slices))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let TlsStream { session, socket } = &mut *self;
        polled(session.borrow_mut().flush(&mut Polled { socket, cx }))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let TlsStream { session, socket } = &mut *self;
        let session = session.borrow_mut();
        session.close();
        match session.flush(&mut Polled { socket, cx }) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Poll::Pending,
            Err(error) => return Poll::Ready(Err(error)),
            Ok(()) => {}
        }
        Pin::new(socket).poll_shutdown(cx)
    }
}

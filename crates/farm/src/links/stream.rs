//! One connection between nodes, plain or TLS, read and written without waiting: a shard writes to it within its turn, and the
//! connection's task waits until it can be read or written.

use std::cell::RefCell;
use std::io::{self, ErrorKind, IoSlice, Read as _, Write as _};
use std::net::SocketAddr;

use rustls::{Connection, Error};
use tokio::io::Interest;
use tokio::net::TcpStream;

use super::encryption::reason_of;

/// Bytes that the socket gives at once, and that wait encrypted for it: a write of a link.
const BUFFER: usize = 64 * 1_024;

/// The label of RFC 9266 §2.
const EXPORTER: &[u8] = b"EXPORTER-Channel-Binding";

/// The connection of a lane.
pub(super) struct LinkStream {
    socket: TcpStream,
    tls: Option<RefCell<Tls>>,
}

/// TLS over the socket.
struct Tls {
    connection: Connection,
    /// Bytes of the socket, of which TLS has not taken those from `taken` to `end` yet.
    received: Box<[u8]>,
    taken: usize,
    end: usize,
    /// More may be readable although the socket has nothing: what came with the handshake, or did not fit into the last read.
    has_more: bool,
}

impl LinkStream {
    pub(super) fn plain(socket: TcpStream) -> LinkStream {
        LinkStream { socket, tls: None }
    }

    /// Performs the handshake of TLS.
    ///
    /// # Errors
    /// Those of the socket, and [`ErrorKind::InvalidData`] with the reason in words.
    pub(super) async fn encrypted(
        socket: TcpStream,
        connection: Result<Connection, Error>,
    ) -> io::Result<LinkStream> {
        let mut connection = connection.map_err(|error| fault(&error))?;
        connection.set_buffer_limit(Some(BUFFER));
        let tls = Tls { connection, received: vec![0; BUFFER].into(), taken: 0, end: 0, has_more: true };
        let stream = LinkStream { socket, tls: Some(RefCell::new(tls)) };
        loop {
            let is_written = stream.flush()?;
            if !is_written {
                stream.socket.writable().await?;
            } else if stream.is_handshaking() {
                stream.socket.readable().await?;
                stream.take_flight()?;
            } else {
                return Ok(stream);
            }
        }
    }

    /// The value that both ends of this encrypted connection share with no other (RFC 9266); none of a plain one.
    pub(super) fn channel(&self) -> Option<[u8; 32]> {
        let tls = self.tls.as_ref()?.borrow();
        tls.connection.export_keying_material([0; 32], EXPORTER, Some(b"")).ok()
    }

    pub(super) fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.socket.peer_addr()
    }

    /// Waits until [`LinkStream::try_read`] may have something.
    pub(super) async fn readable(&self) -> io::Result<()> {
        let has_more = self.tls.as_ref().is_some_and(|tls| tls.borrow().has_more);
        if has_more { Ok(()) } else { self.socket.readable().await }
    }

    /// Waits until the socket takes more.
    pub(super) async fn writable(&self) -> io::Result<()> {
        self.socket.writable().await
    }

    /// Reads what is there; 0 at the end of the connection.
    ///
    /// # Errors
    /// [`ErrorKind::WouldBlock`] if nothing is there, [`ErrorKind::InvalidData`] for a fault of TLS, those of the socket.
    pub(super) fn try_read(&self, out: &mut [u8]) -> io::Result<usize> {
        match &self.tls {
            None => read_some(&self.socket, out),
            Some(tls) => tls.borrow_mut().try_read(&self.socket, out),
        }
    }

    /// Takes bytes of the owner; those of TLS may still wait for the socket, see [`LinkStream::flush`].
    ///
    /// # Errors
    /// [`ErrorKind::WouldBlock`] if it takes none now, those of the socket.
    pub(super) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        let Some(tls) = &self.tls else { return self.socket.try_write(bytes) };
        if !self.flush()? {
            return Err(ErrorKind::WouldBlock.into());
        }
        let count = tls.borrow_mut().connection.writer().write(bytes)?;
        self.flush()?;
        Ok(count)
    }

    /// Gives the socket what TLS has encrypted. False: the socket is full, and some is left.
    ///
    /// # Errors
    /// Those of the socket.
    pub(super) fn flush(&self) -> io::Result<bool> {
        let Some(tls) = &self.tls else { return Ok(true) };
        let connection = &mut tls.borrow_mut().connection;
        while connection.wants_write() {
            match connection.write_tls(&mut Socket(&self.socket)) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    fn is_handshaking(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.borrow().connection.is_handshaking())
    }

    /// Reads a flight of the handshake.
    fn take_flight(&self) -> io::Result<()> {
        let Some(tls) = &self.tls else { return Ok(()) };
        let mut tls = tls.borrow_mut();
        let mut taken = tls.fill(&self.socket);
        // A flight may be longer than what TLS takes at once.
        while tls.taken < tls.end && taken.is_ok() && tls.connection.is_handshaking() {
            taken = tls.fill(&self.socket);
        }
        drop(tls);
        match taken {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(_) => Ok(()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            Err(error) => {
                // The alert tells the peer's operator, too; without room for it the socket's end does.
                let _ = self.flush();
                Err(error)
            }
        }
    }
}

impl Tls {
    fn try_read(&mut self, socket: &TcpStream, out: &mut [u8]) -> io::Result<usize> {
        let mut count = 0;
        self.has_more = false;
        loop {
            match self.connection.reader().read(&mut out[count..]) {
                // The peer has closed the connection, or there is no more room.
                Ok(0) => break,
                Ok(more) => count += more,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    // Bytes at hand are handed over before the socket is asked again.
                    if count > 0 && self.taken == self.end {
                        return Ok(count);
                    }
                    if self.fill(socket)? == 0 {
                        return Ok(count);
                    }
                }
                // TCP ended without an end of TLS: links resume, so nothing is lost with it.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => break,
                Err(error) => return Err(error),
            }
        }
        self.has_more = count > 0 && count == out.len();
        Ok(count)
    }

    /// Gives TLS bytes of the socket, those first that it has given already. 0 at the socket's end.
    fn fill(&mut self, socket: &TcpStream) -> io::Result<usize> {
        if self.taken == self.end {
            let count = read_some(socket, &mut self.received)?;
            (self.taken, self.end) = (0, count);
            if count == 0 {
                return Ok(0);
            }
        }
        let count = self.connection.read_tls(&mut &self.received[self.taken..self.end])?;
        self.taken += count;
        self.connection.process_new_packets().map_err(|error| fault(&error))?;
        Ok(count)
    }
}

/// Reads what the socket has.
fn read_some(socket: &TcpStream, out: &mut [u8]) -> io::Result<usize> {
    let count = socket.try_read(out)?;
    if 0 < count && count < out.len() {
        // The socket is empty: the runtime learns it here, without the read that would only find that out, and the next bytes
        // make the socket readable again (epoll(7), "Do I need to continuously read/write").
        let _ = socket.try_io(Interest::READABLE, || Err::<(), _>(ErrorKind::WouldBlock.into()));
    }
    Ok(count)
}

fn fault(error: &Error) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, reason_of(error).into_string())
}

/// The socket as TLS writes to it.
struct Socket<'a>(&'a TcpStream);

impl io::Write for Socket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn write_vectored(&mut self, bytes: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write_vectored(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

//! One TLS connection without its socket.

use std::fmt;
use std::io::{self, IoSlice, Read, Write};
use std::ops::Deref;
use std::sync::Arc;

use rustls::client::UnbufferedClientConnection;
use rustls::server::UnbufferedServerConnection;
use rustls::{ClientConfig, CommonState, Error, ServerConfig};
use rustls_pki_types::ServerName;
use zeroize::Zeroizing;

use crate::buffers::{self, Pending};
use crate::exporter::{self, Exporter};
use crate::limits;
use crate::records::{self, Processed};

/// TLS of one connection. The caller has the socket, gives it to each call as [`Read`] and [`Write`], and waits when one would block.
///
/// `read` and `write` also go on with a handshake. A caller that computes handshakes elsewhere uses `read_tls`, `advance` and `flush`
/// until [`is_handshaking`](CommonState::is_handshaking) is false.
pub struct TlsSession {
    side: Connection,
    /// Records, and messages of the handshake, that have not come whole.
    incoming: Pending,
    /// Decrypted bytes that the caller had no room for.
    plain: Pending,
    /// Records that the socket has not taken.
    outgoing: Pending,
    /// Plain bytes that wait for the end of the handshake.
    early: Pending,
    exporter: Option<Zeroizing<Vec<u8>>>,
    /// The peer sends nothing more.
    is_closed: bool,
    /// The peer's fault, after which nothing is read or written but the alert.
    fault: Option<Box<Error>>,
}

enum Connection {
    Client(UnbufferedClientConnection),
    Server(UnbufferedServerConnection),
}

impl Connection {
    /// Gives `work` the bytes as records; `incoming` waits for the rest of its record or message. `None`: nothing can be written any more.
    fn encrypted<T>(
        &mut self,
        incoming: &mut [u8],
        bytes: &[u8],
        work: impl FnOnce(&[u8]) -> T,
    ) -> Option<T> {
        buffers::with_written(|records| {
            let is_written = match self {
                Connection::Client(client) => {
                    records::write(client, incoming, records, |traffic, out| traffic.encrypt(bytes, out))
                }
                Connection::Server(server) => {
                    records::write(server, incoming, records, |traffic, out| traffic.encrypt(bytes, out))
                }
            };
            is_written.then(|| work(records))
        })
    }
}

impl fmt::Debug for TlsSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsSession").field("version", &self.protocol_version()).finish_non_exhaustive()
    }
}

impl Deref for TlsSession {
    type Target = CommonState;

    /// The version, suite, protocol and certificates of the session.
    fn deref(&self) -> &CommonState {
        match &self.side {
            Connection::Client(client) => client,
            Connection::Server(server) => server,
        }
    }
}

impl TlsSession {
    /// A session as the client that `config` says, to a server whose certificate is for `name`. The first message waits to be flushed.
    ///
    /// # Errors
    /// The configuration does not allow a session.
    pub fn client(config: Arc<ClientConfig>, name: ServerName<'static>) -> Result<TlsSession, Error> {
        let mut session = TlsSession::new(Connection::Client(UnbufferedClientConnection::new(config, name)?));
        session.advance()?;
        Ok(session)
    }

    /// A session as the server that `config` says.
    ///
    /// # Errors
    /// The configuration does not allow a session.
    pub fn server(config: Arc<ServerConfig>) -> Result<TlsSession, Error> {
        UnbufferedServerConnection::new(config).map(Connection::Server).map(TlsSession::new)
    }

    fn new(side: Connection) -> TlsSession {
        TlsSession {
            side,
            incoming: Pending::default(),
            plain: Pending::default(),
            outgoing: Pending::default(),
            early: Pending::default(),
            exporter: None,
            is_closed: false,
            fault: None,
        }
    }

    /// Something waits for [`flush`](Self::flush).
    pub fn wants_write(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Bytes that are kept here and not in rustls: 0 for a session that is idle.
    pub fn held(&self) -> usize {
        [&self.incoming, &self.plain, &self.outgoing, &self.early]
            .map(|pending| pending.rest().len())
            .iter()
            .sum()
    }

    /// The source of keys that are derived from this session, once; a server has it when its configuration [keeps the
    /// secrets](crate::ExporterSecrets) and TLS 1.3 was agreed.
    pub fn take_exporter(&mut self) -> Option<Exporter> {
        let suite = self.negotiated_cipher_suite()?;
        Exporter::new(suite, &self.exporter.take()?)
    }

    /// Reads of a handshake from a socket, and decrypts nothing: 0 at its end.
    ///
    /// # Errors
    /// As the socket, `WouldBlock` among them; `InvalidData` when the peer's handshake is too long.
    pub fn read_tls(&mut self, io: &mut impl Read) -> io::Result<usize> {
        let held = self.incoming.rest().len();
        if held >= limits::HANDSHAKE {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the handshake is too long"));
        }
        buffers::with_read(|buffer| {
            let room = buffer.len().min(limits::HANDSHAKE - held);
            let count = io.read(&mut buffer[..room])?;
            self.incoming.put(&buffer[..count]);
            Ok(count)
        })
    }

    /// Computes what has come.
    ///
    /// # Errors
    /// The peer's fault; an alert waits to be flushed.
    pub fn advance(&mut self) -> Result<(), Error> {
        let mut incoming = std::mem::take(&mut self.incoming);
        let mut plain = std::mem::take(&mut self.plain);
        let consumed = self.process(incoming.rest_mut(), |heard| plain.put(heard));
        incoming.take(consumed);
        (self.incoming, self.plain) = (incoming, plain);
        self.fault.as_deref().cloned().map_or(Ok(()), Err)
    }

    /// Reads decrypted bytes: 0 once the peer has said that it closes.
    ///
    /// # Errors
    /// As the socket, `WouldBlock` among them; `UnexpectedEof` when it ended without that word; `InvalidData` after a fault of the peer,
    /// which an alert tells.
    pub fn read<S: Read + Write>(&mut self, io: &mut S, out: &mut [u8]) -> io::Result<usize> {
        loop {
            if !self.plain.is_empty() {
                let count = self.plain.rest().len().min(out.len());
                out[..count].copy_from_slice(&self.plain.rest()[..count]);
                self.plain.take(count);
                return Ok(count);
            }
            if self.is_closed || out.is_empty() {
                return Ok(0);
            }
            if let Some(fault) = &self.fault {
                return Err(io::Error::new(io::ErrorKind::InvalidData, (**fault).clone()));
            }
            // Another task may be waiting for the socket to take records, and a socket wakes the task that has written last.
            let may_write = !self.wants_write();
            let count = self.read_once(io, out)?;
            // The answer of a handshake or an alert; what the socket does not take now goes with the next write.
            if may_write {
                let flushed = self.try_flush(io);
                // A peer that has sent a fault may be gone before it reads the alert: the fault is what is reported.
                if self.fault.is_none() {
                    flushed?;
                }
            }
            if count > 0 {
                return Ok(count);
            }
        }
    }

    /// Reads once from the socket; the bytes that went to `out`, which may be none.
    fn read_once(&mut self, io: &mut impl Read, out: &mut [u8]) -> io::Result<usize> {
        let held = self.incoming.rest().len();
        let most = if self.is_handshaking() { limits::HANDSHAKE } else { limits::RECORD };
        if held >= most {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a record is too long"));
        }
        buffers::with_read(|buffer| {
            // A handshake may be longer than the buffer: it waits where it is.
            if held + limits::RECORD > buffer.len() {
                return self.read_behind(io, buffer, out);
            }
            let count = io.read(&mut buffer[held..])?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            buffer[..held].copy_from_slice(self.incoming.rest());
            let input = &mut buffer[..held + count];
            self.incoming = Pending::default();
            let (consumed, filled) = self.decrypt(input, out);
            self.incoming.put(&input[consumed..]);
            Ok(filled)
        })
    }

    /// Reads behind what waits.
    fn read_behind(&mut self, io: &mut impl Read, buffer: &mut [u8], out: &mut [u8]) -> io::Result<usize> {
        let count = io.read(buffer)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.incoming.put(&buffer[..count]);
        let mut incoming = std::mem::take(&mut self.incoming);
        let (consumed, filled) = self.decrypt(incoming.rest_mut(), out);
        incoming.take(consumed);
        self.incoming = incoming;
        Ok(filled)
    }

    /// Decrypts into `out`, and what it has no room for into `plain`: the bytes of `input` that are done with, and the bytes in `out`.
    fn decrypt(&mut self, input: &mut [u8], out: &mut [u8]) -> (usize, usize) {
        let mut filled = 0;
        let mut plain = std::mem::take(&mut self.plain);
        let consumed = self.process(input, |heard| {
            let count = heard.len().min(out.len() - filled);
            out[filled..filled + count].copy_from_slice(&heard[..count]);
            filled += count;
            plain.put(&heard[count..]);
        });
        self.plain = plain;
        (consumed, filled)
    }

    /// Processes what has come: the bytes of it that are done with.
    fn process(&mut self, incoming: &mut [u8], heard: impl FnMut(&[u8])) -> usize {
        // Of another session on this thread, if that one did not come to its end.
        drop(exporter::take_fresh());
        let Processed { consumed, is_closed, result } = buffers::with_written(|records| {
            let done = match &mut self.side {
                Connection::Client(client) => records::process(client, incoming, heard, records),
                Connection::Server(server) => records::process(server, incoming, heard, records),
            };
            self.outgoing.put(records);
            done
        });
        if let Some(secret) = exporter::take_fresh() {
            self.exporter = Some(secret);
        }
        self.is_closed |= is_closed;
        if let Err(fault) = result {
            self.fault.get_or_insert_with(|| Box::new(fault));
            self.early = Pending::default();
        }
        if !self.early.is_empty() && !self.is_handshaking() {
            let early = std::mem::take(&mut self.early);
            // A part of a message is still in `incoming`, where rustls looks for it.
            let incoming = &mut incoming[consumed..];
            if let Some(records) = self.side.encrypted(incoming, early.rest(), <[u8]>::to_vec) {
                self.outgoing.put(&records);
            }
        }
        // Behind a fault or the closure alert nothing is decrypted (RFC 8446 §6.1).
        if self.is_closed || self.fault.is_some() { incoming.len() } else { consumed }
    }

    /// Encrypts plain bytes and writes them; the bytes that are taken. Records that the socket does not take wait for the next call.
    ///
    /// # Errors
    /// As the socket; `WouldBlock` when records of an earlier call still wait; `BrokenPipe` when the session can write no more.
    pub fn write(&mut self, io: &mut impl Write, bytes: &[u8]) -> io::Result<usize> {
        if self.fault.is_some() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        if self.is_handshaking() {
            return self.write_early(io, bytes);
        }
        self.flush(io)?;
        let bytes = &bytes[..bytes.len().min(limits::WRITE)];
        let rest = self
            .side
            .encrypted(self.incoming.rest_mut(), bytes, |records| {
                write_all(io, records).map(|count| records[count..].to_vec())
            })
            .ok_or(io::ErrorKind::BrokenPipe)??;
        self.outgoing.put(&rest);
        Ok(bytes.len())
    }

    /// Writes several pieces as [`write`](Self::write) does; they share records.
    ///
    /// # Errors
    /// As `write`.
    pub fn write_vectored(&mut self, io: &mut impl Write, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut filled = slices.iter().filter(|slice| !slice.is_empty());
        let first = filled.next();
        if filled.next().is_none() {
            return self.write(io, first.map_or(&[][..], |slice| slice));
        }
        buffers::with_gathered(|gathered| {
            for slice in slices {
                let room = limits::WRITE - gathered.len();
                gathered.extend_from_slice(&slice[..slice.len().min(room)]);
            }
            self.write(io, gathered)
        })
    }

    fn write_early(&mut self, io: &mut impl Write, bytes: &[u8]) -> io::Result<usize> {
        let count = bytes.len().min(limits::EARLY.saturating_sub(self.early.rest().len()));
        self.early.put(&bytes[..count]);
        self.try_flush(io)?;
        if count == 0 && !bytes.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(count)
    }

    /// Says that we send nothing more (RFC 8446 §6.1). It waits to be flushed.
    pub fn close(&mut self) {
        if self.is_handshaking() || self.fault.is_some() {
            return;
        }
        buffers::with_written(|records| {
            let incoming = self.incoming.rest_mut();
            match &mut self.side {
                Connection::Client(client) => {
                    records::write(client, incoming, records, |traffic, out| traffic.queue_close_notify(out))
                }
                Connection::Server(server) => {
                    records::write(server, incoming, records, |traffic, out| traffic.queue_close_notify(out))
                }
            };
            self.outgoing.put(records);
        });
    }

    /// Writes the records that wait.
    ///
    /// # Errors
    /// As the socket; `WouldBlock`: some still wait.
    pub fn flush(&mut self, io: &mut impl Write) -> io::Result<()> {
        self.try_flush(io)?;
        if self.wants_write() { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
    }

    fn try_flush(&mut self, io: &mut impl Write) -> io::Result<()> {
        if self.wants_write() {
            let count = write_all(io, self.outgoing.rest())?;
            self.outgoing.take(count);
        }
        Ok(())
    }
}

/// Writes as much as the socket takes now; the bytes that it took.
fn write_all(io: &mut impl Write, bytes: &[u8]) -> io::Result<usize> {
    let mut done = 0;
    while done < bytes.len() {
        match io.write(&bytes[done..]) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

//! The two connections of a user of BOSH: which request goes where is [`BoshSession`]'s; here are sockets and HTTP.
//!
//! XEP-0124: one request waits at the server for news while the other connection carries what the user sends. A request that finds its
//! connection closed opens it again, as HTTP connections may be closed when idle.

use std::io::{self, Read as _};
use std::net::SocketAddr;

use lab_xmpp::{BoshSession, CONNECTIONS, ReceivedPayload, StreamSecurity};

use super::http::{ResponseReader, write_request};
use super::{ConnectionInput, UserConnections, UserLink};
use crate::engine::stream_transport::StreamIo;

/// The connections of one user.
pub(super) struct BoshConnections {
    /// Numbers requests and knows which connection waits for an answer.
    session: BoshSession,
    /// The address of both connections.
    target: SocketAddr,
    wires: [BoshConnection; CONNECTIONS],
    /// The user was informed that it is connected.
    has_begun: bool,
}

/// One of them. A server may close it between two requests; then the next one opens it again.
#[derive(Default)]
struct BoshConnection {
    io: Option<StreamIo>,
    is_connecting: bool,
    /// Bytes that the kernel did not take, or that wait for the connection.
    waiting: Vec<u8>,
    /// Bytes of answers that are not whole.
    answers: ResponseReader,
}

impl BoshConnection {
    /// Sends what waits, once the connection stands.
    fn flush(&mut self) -> io::Result<()> {
        let Some(io) = self.io.as_mut().filter(|_| !self.is_connecting) else { return Ok(()) };
        let done = io.put(&self.waiting)?;
        if done == self.waiting.len() {
            self.waiting = Vec::new();
        } else {
            self.waiting.drain(..done);
        }
        Ok(())
    }
}

impl BoshConnections {
    /// Queues a document for the next request.
    pub(super) fn put(&mut self, document: &[u8]) {
        self.session.put(document);
    }

    /// The number of open sockets.
    pub(super) fn sockets(&self) -> u64 {
        self.wires.iter().map(|wire| u64::from(wire.io.is_some())).sum()
    }

    /// It can do without the connection, until it needs one.
    fn can_spare(&self, which: usize) -> bool {
        self.has_begun && !self.session.waits_at(which)
    }
}

impl UserConnections {
    /// Both at once: the second is there when the first waits for the server, and takes what is to be said.
    pub(super) fn connect_bosh(&mut self, slot: u32, target: SocketAddr) -> io::Result<()> {
        // XEP-0124 §14.1: the first request identifier is random.
        let session = BoshSession::new(1 + self.rng.below(1 << 32));
        let bosh = BoshConnections { session, target, wires: Default::default(), has_begun: false };
        self.lines[slot as usize].link = Some(UserLink::Bosh(Box::new(bosh)));
        (0..CONNECTIONS).try_for_each(|which| self.connect_wire(slot, which))
    }

    fn bosh(&mut self, slot: u32) -> Option<&mut BoshConnections> {
        match &mut self.lines[slot as usize].link {
            Some(UserLink::Bosh(bosh)) => Some(bosh),
            _ => None,
        }
    }

    /// Begins one of the connections; what was read from an earlier one is dropped.
    fn connect_wire(&mut self, slot: u32, which: usize) -> io::Result<()> {
        let Some(target) = self.bosh(slot).map(|bosh| bosh.target) else { return Ok(()) };
        let tcp = self.socket(slot, which, target)?;
        if let Some(bosh) = self.bosh(slot) {
            let wire = &mut bosh.wires[which];
            wire.io = Some(StreamIo::Plain(tcp));
            wire.is_connecting = true;
            wire.answers = ResponseReader::default();
        }
        Ok(())
    }

    /// Sends the requests of the session, as far as a connection is free.
    pub(super) fn send_requests(&mut self, slot: u32) -> io::Result<()> {
        let chat = std::sync::Arc::clone(&self.chat);
        let domain = chat.people.domain();
        while let Some(bosh) = self.bosh(slot) {
            let Some((which, body)) = bosh.session.request(domain) else { break };
            let wire = &mut bosh.wires[which];
            write_request(chat.path(), domain, &body, &mut wire.waiting);
            if wire.io.is_none() {
                self.connect_wire(slot, which)?;
            } else {
                wire.flush()?;
            }
        }
        Ok(())
    }

    /// Sends the final request of a user that leaves, if there is one; a server that does not take it now goes without.
    pub(super) fn send_last_words(&mut self, slot: u32) {
        if self.bosh(slot).is_some_and(|bosh| bosh.session.is_ending()) {
            let _ = self.send_requests(slot);
        }
    }

    pub(super) fn flush_wire(&mut self, slot: u32, which: usize) -> io::Result<()> {
        self.bosh(slot).map_or(Ok(()), |bosh| bosh.wires[which].flush())
    }

    /// A connection that is lost while it waits for an answer ends the session; an idle one is only dropped.
    pub(super) fn hear_wire(&mut self, slot: u32, which: usize) -> ConnectionInput {
        match self.read_wire(slot, which) {
            Ok(heard) => heard,
            Err(error) => {
                let Some(bosh) = self.bosh(slot) else { return ConnectionInput::Closed };
                if !bosh.can_spare(which) {
                    if bosh.wires[which].is_connecting {
                        return ConnectionInput::unreachable(&error);
                    }
                    return ConnectionInput::end(&error);
                }
                self.drop_wire(slot, which);
                ConnectionInput::Nothing
            }
        }
    }

    /// Closes one of the connections; the session goes on.
    fn drop_wire(&mut self, slot: u32, which: usize) {
        let Some(bosh) = self.bosh(slot) else { return };
        let gone = std::mem::take(&mut bosh.wires[which]);
        self.open -= u64::from(gone.io.is_some());
    }

    /// `Err`: the connection is gone.
    fn read_wire(&mut self, slot: u32, which: usize) -> io::Result<ConnectionInput> {
        if self.bosh(slot).is_some_and(|bosh| bosh.wires[which].is_connecting) {
            if !self.finish_wire(slot, which)? {
                return Ok(ConnectionInput::Nothing);
            }
            let is_first = self.bosh(slot).is_some_and(|bosh| which == 0 && !bosh.has_begun);
            if is_first {
                return Ok(ConnectionInput::Connected);
            }
        }
        let Some(UserLink::Bosh(bosh)) = &mut self.lines[slot as usize].link else {
            return Ok(ConnectionInput::Nothing);
        };
        let wire = &mut bosh.wires[which];
        let Some(io) = &mut wire.io else { return Ok(ConnectionInput::Nothing) };
        loop {
            match io.read(&mut self.scratch) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => wire.answers.put(&self.scratch[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(ConnectionInput::Nothing);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            match wire.answers.next() {
                Ok(None) => {}
                // An answer that no request waits for, or nonsense on an idle connection.
                Ok(Some(_)) | Err(_) if !bosh.session.waits_at(which) => {
                    // RFC 9110 §15.5.9: that it was idle for too long.
                    return Err(io::ErrorKind::ConnectionAborted.into());
                }
                Ok(Some(answer)) => {
                    let said = bosh.session.answer(which, answer.status, &answer.body);
                    // The next request opens the connection again.
                    if answer.is_last {
                        self.drop_wire(slot, which);
                    }
                    return Ok(ConnectionInput::Said(said, answer.body.len()));
                }
                Err(what) => return Ok(ConnectionInput::Said(ReceivedPayload::nonsense(what), 0)),
            }
        }
    }

    /// True if the kernel's handshake is over.
    fn finish_wire(&mut self, slot: u32, which: usize) -> io::Result<bool> {
        let Some(bosh) = self.bosh(slot) else { return Ok(false) };
        let wire = &mut bosh.wires[which];
        let Some(StreamIo::Plain(tcp)) = &wire.io else { return Ok(false) };
        if !super::is_connected(tcp)? {
            return Ok(false);
        }
        wire.is_connecting = false;
        let io = wire.io.take();
        let io = match io {
            Some(StreamIo::Plain(tcp)) if self.chat.security == StreamSecurity::Tls => {
                match self.secured(tcp) {
                    Ok(io) => Some(io),
                    Err(error) => {
                        self.open -= 1;
                        return Err(error);
                    }
                }
            }
            other => other,
        };
        let Some(bosh) = self.bosh(slot) else { return Ok(false) };
        bosh.wires[which].io = io;
        bosh.wires[which].flush()?;
        Ok(true)
    }

    /// Informs the user that it is connected.
    pub(super) fn begin(&mut self, slot: u32) {
        if let Some(bosh) = self.bosh(slot) {
            bosh.has_begun = true;
        }
    }
}

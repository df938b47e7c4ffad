//! Users of chat on a shard's thread: their connections, and the loop. The shards of a load are of one process or of
//! several ([`worker_pool`]).
//!
//! A load of users is a run as any other: the same `Setup`, `Progress`, observers, thresholds and plans; its sign-ins and
//! actions are the calls. A user of BOSH writes the documents of a WebSocket: `lab_xmpp::bosh` chooses the connection of each request,
//! HTTP and sockets are here.
//!
//! A turn: wait until something is due, handle events (each input goes to [`UserPool`], which answers with commands in an [`Outbox`]), let due
//! users act, perform the commands, and report once a second. `UserConnections` has the sockets by the slot of the user.

mod bosh;
mod http;
mod shared_memory;
mod source_addresses;
pub(super) mod start;
pub(super) mod worker_pool;
pub(super) mod worker_process;
mod worker_protocol;

use std::io::{self, Read as _};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use lab_sip::stats::{Count, Stats};
use lab_xmpp::{
    ConnectionCommand, HttpTransport, LoadState, Outbox, PoolContext, ReceivedPayload, StreamSecurity,
    UserPool, XmppLoad,
};
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use rustls_pki_types::ServerName;
use stdx::rng::Rng;
use stdx::time::Instant;
use tls_session::TlsSession;

use self::bosh::BoshConnections;

use super::bind;
use super::clock::Clock;
use super::limits::LATE;
use super::name_cache::NameCache;
use super::report::{Reporter, ShardCounts, ShardReport};
use super::shard_hub::{RunPhase, ShardHub};
use super::stream_transport::{ConnectOptions, StreamIo, StreamTransport, TlsStream};
use super::tls::{self, Tls};
use super::token::WAKER;

/// One shard of a load of users.
pub(super) struct ChatShard {
    /// Among the shards of the whole load, those of other processes included.
    pub(super) index: u16,
    /// The phase of the run's end; in a worker process it follows what the run announces.
    pub(super) hub: Arc<ShardHub>,
    pub(super) clock: Clock,
    /// The stage of the load and its sums, the same in all shards and processes.
    pub(super) shared: Arc<LoadState>,
    /// The users, as machines without sockets.
    pub(super) pool: UserPool,
    /// Their connections.
    pub(super) lines: UserConnections,
    pub(super) names: NameCache,
    pub(super) stats: Stats,
    /// Gives the counts to the collector, in a worker process by way of the run's socket.
    pub(super) reporter: Reporter,
    pub(super) reports: SyncSender<ShardReport>,
}

/// A user's connection, by the user's slot.
#[derive(Default)]
struct UserConnection {
    /// `None`: the user is not connected.
    link: Option<UserLink>,
    /// The kernel's handshake is not over.
    is_connecting: bool,
    /// Bytes that the kernel did not take.
    waiting: Vec<u8>,
}

/// The connections of a shard's users and the poll that watches them.
pub(super) struct UserConnections {
    /// By slot, the number of the user within the shard.
    lines: Vec<UserConnection>,
    /// The shard, and how many there are: the user of a line is every `.1`-th, from `.0`.
    place: (u32, u32),
    chat: Arc<XmppLoad>,
    /// `None` for a load without TLS.
    tls: Option<Tls>,
    poll: Poll,
    /// Memory for one read.
    scratch: Box<[u8]>,
    /// Open sockets, for the report.
    open: u64,
    rng: Rng,
    /// Users of BOSH that may have something to send.
    unsent: Vec<u32>,
}

/// A stream of bytes, a WebSocket, or requests.
enum UserLink {
    /// XMPP over TCP (RFC 6120), with TLS or without.
    Bytes(StreamIo),
    /// XMPP over WebSocket (RFC 7395).
    Web(Box<StreamTransport>),
    /// Two HTTP connections (XEP-0124).
    Bosh(Box<BoshConnections>),
}

/// Input of a connection.
enum ConnectionInput {
    /// The connection stands, with TLS and WebSocket where they come first.
    Connected,
    /// So many bytes of the shard's scratch memory.
    Bytes(usize),
    /// Frames of a WebSocket.
    Messages(Vec<Vec<u8>>),
    /// An answer, of so many bytes.
    Said(ReceivedPayload, usize),
    /// Nothing more to read for now.
    Nothing,
    /// The server has closed the connection.
    Closed,
    /// The TCP connection could not be made, and why.
    Unreachable(String),
    /// TLS has failed, and why.
    Untrusted(String),
}

impl ConnectionInput {
    /// The end of a connection by an error: failures of TLS are told apart, as users must not try again with them.
    fn end(error: &io::Error) -> ConnectionInput {
        tls::explain(error).map_or(ConnectionInput::Closed, ConnectionInput::Untrusted)
    }

    fn unreachable(error: &io::Error) -> ConnectionInput {
        ConnectionInput::Unreachable(format!("cannot connect: {error}"))
    }
}

/// Read from a connection at once.
const SCRATCH: usize = 16 << 10;
/// A shard looks whether the run ends at least as often.
const LOOK: Duration = Duration::from_millis(100);
/// The longest time for the stanzas of a sign-out.
const LAST_WORDS: Duration = Duration::from_secs(5);

impl ChatShard {
    /// Turns until all users have left.
    pub(super) fn run(mut self) {
        let mut events = Events::with_capacity(1_024);
        // WebSocket and BOSH carry whole documents instead of a stream (RFC 7395, XEP-0124).
        let is_documents = self.lines.chat.web.is_some();
        let mut out = Outbox { is_documents, ..Outbox::default() };
        let mut hard_since = None;
        loop {
            let planned = self.rest(&mut events);
            let now = self.clock.now();
            if now.since(planned) > LATE {
                self.stats.count(Count::LateTurns);
            }
            match self.hub.phase() {
                RunPhase::Running => {}
                RunPhase::Soft => self.pool.end(now, false),
                RunPhase::Hard => self.pool.end(now, true),
                RunPhase::Gone => break,
            }
            for event in &events {
                if event.token() != WAKER {
                    self.handle_event(event, &mut out);
                }
            }
            self.pool.expire(&mut PoolContext { now, stats: &mut self.stats, out: &mut out });
            self.perform(&mut out);
            self.tell_gauges(now);
            if now >= self.reporter.next() {
                self.report(now, false);
            }
            // A hard end gives users `LAST_WORDS` to sign out, counted from when this shard saw it.
            let is_late = *hard_since.get_or_insert(now) + LAST_WORDS <= now;
            if self.hub.phase() < RunPhase::Hard {
                hard_since = None;
            }
            if self.pool.is_over() || (is_late && self.hub.phase() >= RunPhase::Hard) {
                break;
            }
        }
        let now = self.clock.now();
        self.tell_gauges(now);
        self.report(now, true);
    }

    /// Until something is due or comes; when that should have been.
    fn rest(&mut self, events: &mut Events) -> Instant {
        let now = self.clock.now();
        let planned = self.pool.deadline().min(self.reporter.next()).min(now + LOOK).max(now);
        if self.lines.poll.poll(events, Some(planned.since(now))).is_err() {
            // Interrupted by a signal: an empty turn.
            events.clear();
        }
        planned
    }

    fn handle_event(&mut self, event: &mio::event::Event, out: &mut Outbox) {
        let Some((slot, which)) = self.lines.place_of(event.token()) else { return };
        if event.is_writable() && self.lines.flush(slot, which).is_err() {
            return self.close(slot, out);
        }
        // Until the connection has nothing more: `mio` reports edges.
        loop {
            let heard = self.lines.hear(slot, which);
            let mut turn = PoolContext { now: self.clock.now(), stats: &mut self.stats, out };
            match heard {
                ConnectionInput::Connected => {
                    self.lines.begin(slot);
                    self.pool.handle_connected(slot, &mut turn);
                }
                ConnectionInput::Bytes(count) => {
                    turn.stats.add(Count::BytesReceived, count as u64);
                    self.pool.handle_bytes(slot, &self.lines.scratch[..count], &mut turn);
                }
                ConnectionInput::Messages(messages) => {
                    for message in messages {
                        turn.stats.add(Count::BytesReceived, message.len() as u64);
                        self.pool.handle_message(slot, &message, &mut turn);
                    }
                }
                ConnectionInput::Said(said, count) => {
                    turn.stats.add(Count::BytesReceived, count as u64);
                    self.pool.handle_payload(slot, &said, &mut turn);
                    // The answer has set a connection free for the next request.
                    self.lines.unsent.push(slot);
                }
                ConnectionInput::Nothing => break,
                ConnectionInput::Closed => return self.close(slot, out),
                ConnectionInput::Unreachable(why) => {
                    self.reporter.keep_error(format!("user {slot} of shard {}: {why}", self.index));
                    return self.close(slot, out);
                }
                ConnectionInput::Untrusted(why) => {
                    // A certificate that is refused now is refused the next time, so the user gives up.
                    self.pool.handle_untrusted(slot, &mut turn);
                    self.lines.drop(slot);
                    self.reporter.keep_error(format!("user {slot} of shard {}: {why}", self.index));
                    return self.perform(out);
                }
            }
            self.perform(out);
        }
    }

    /// Drops the connection and tells its user, whose commands the caller performs.
    fn close(&mut self, slot: u32, out: &mut Outbox) {
        self.lines.drop(slot);
        let mut turn = PoolContext { now: self.clock.now(), stats: &mut self.stats, out };
        self.pool.handle_closed(slot, &mut turn);
    }

    /// Performs commands until none are left: a failure produces new ones.
    fn perform(&mut self, out: &mut Outbox) {
        loop {
            self.perform_wants(out);
            // Together, what was written at once.
            let Some(slot) = self.lines.unsent.pop() else { return };
            if let Err(error) = self.lines.send_requests(slot) {
                self.reporter.keep_error(format!("user {slot} of shard {}: {error}", self.index));
                self.close(slot, out);
            }
        }
    }

    /// The commands of a turn in order. A command that fails closes the user's connection.
    fn perform_wants(&mut self, out: &mut Outbox) {
        out.errors.drain(..).for_each(|error| self.reporter.keep_error(error));
        while !out.wants.is_empty() {
            let is_documents = out.is_documents;
            // Swapped out, as handlers called from here write new commands.
            let mut done = std::mem::replace(out, Outbox { is_documents, ..Outbox::default() });
            for (slot, wanted) in done.wants.drain(..) {
                let result = match wanted {
                    ConnectionCommand::Connect => self.lines.connect(slot, self.lines.chat.target),
                    ConnectionCommand::ConnectElsewhere(named) => {
                        let target = self.lines.chat.target;
                        let place = self.names.resolve(&named, target);
                        place.and_then(|place| self.lines.connect(slot, place))
                    }
                    ConnectionCommand::Write(range) => {
                        self.stats.add(Count::BytesSent, range.len() as u64);
                        self.lines.write(slot, &done.bytes[range])
                    }
                    ConnectionCommand::StartTls => self.lines.secure(slot).map(|()| {
                        let mut turn = PoolContext { now: self.clock.now(), stats: &mut self.stats, out };
                        self.pool.handle_secured(slot, &mut turn);
                    }),
                    ConnectionCommand::Close => {
                        // The request that ends a BOSH session is written before the sockets go.
                        self.lines.send_last_words(slot);
                        self.lines.drop(slot);
                        Ok(())
                    }
                };
                if let Err(error) = result {
                    self.reporter.keep_error(format!("user {slot} of shard {}: {error}", self.index));
                    self.close(slot, out);
                }
            }
            // The memory of both is used again.
            if out.wants.is_empty() && out.bytes.is_empty() {
                done.bytes.clear();
                *out = done;
            }
        }
    }

    /// The number of users signed in stands in for the open calls.
    fn tell_gauges(&self, now: Instant) {
        self.hub.tell_open(u64::from(self.shared.signed_in()), now);
    }

    fn report(&mut self, now: Instant, last: bool) {
        let mut counted = ShardCounts {
            shard: self.index,
            stats: &mut self.stats,
            open_sockets: self.lines.open,
            reports: &self.reports,
        };
        self.reporter.hand_over(&mut counted, now, last);
    }
}

/// Why a connection could not even begin.
fn explain(error: &io::Error, target: SocketAddr) -> String {
    match error.raw_os_error() {
        Some(libc::EADDRINUSE | libc::EADDRNOTAVAIL) => format!(
            "out of local ports towards {target}: widen net.ipv4.ip_local_port_range (sysctl), or let the server listen at \
             more addresses and give each a run"
        ),
        _ => bind::explain_socket(error),
    }
}

/// True if the kernel's handshake is over; `Err`: it has failed.
fn is_connected(tcp: &TcpStream) -> io::Result<bool> {
    match (tcp.take_error()?, tcp.peer_addr()) {
        (Some(error), _) => Err(error),
        (None, Ok(_)) => Ok(true),
        (None, Err(error)) if error.kind() == io::ErrorKind::NotConnected => Ok(false),
        (None, Err(error)) => Err(error),
    }
}

impl UserConnections {
    fn new(
        pool: &UserPool,
        place: (u32, u32),
        (chat, tls): (Arc<XmppLoad>, Option<Tls>),
        poll: Poll,
        rng: Rng,
    ) -> UserConnections {
        let lines = (0..pool.users()).map(|_| UserConnection::default()).collect();
        let scratch = vec![0; SCRATCH].into();
        UserConnections { lines, place, chat, tls, poll, scratch, open: 0, rng, unsent: Vec::new() }
    }

    fn connect(&mut self, slot: u32, target: SocketAddr) -> io::Result<()> {
        if self.chat.is_bosh() {
            return self.connect_bosh(slot, target);
        }
        let tcp = self.socket(slot, 0, target)?;
        self.lines[slot as usize] = UserConnection {
            link: Some(UserLink::Bytes(StreamIo::Plain(tcp))),
            is_connecting: true,
            waiting: Vec::new(),
        };
        Ok(())
    }

    /// One of the user's sockets, that begins to connect.
    fn socket(&mut self, slot: u32, which: usize, target: SocketAddr) -> io::Result<TcpStream> {
        let number = self.place.0 + slot * self.place.1;
        let sockets = self.chat.sockets();
        let all = self.chat.people.all().saturating_mul(sockets);
        // BOSH has two sockets a user, and each must have a source port: users are counted by sockets here.
        let number = number.saturating_mul(sockets).saturating_add(u32::from(which > 0));
        let mut tcp = source_addresses::connect(target, all, number)
            .map_err(|error| io::Error::other(explain(&error, target)))?;
        // Token 0 is the waker. Both connections of a user follow: first all first ones, then all second ones.
        let token = Token(1 + which * self.lines.len() + slot as usize);
        self.poll.registry().register(&mut tcp, token, Interest::READABLE | Interest::WRITABLE)?;
        tcp.set_nodelay(true)?;
        self.open += 1;
        Ok(tcp)
    }

    /// The user of a socket, and the connection of that user.
    fn place_of(&self, token: Token) -> Option<(u32, usize)> {
        let at = token.0.checked_sub(1)?;
        let which = at.checked_div(self.lines.len())?;
        Some((u32::try_from(at % self.lines.len()).ok()?, which))
    }

    /// From here on through TLS.
    fn secure(&mut self, slot: u32) -> io::Result<()> {
        let link = match self.lines[slot as usize].link.take() {
            Some(UserLink::Bytes(StreamIo::Plain(tcp))) => match self.secured(tcp) {
                Ok(io) => Some(UserLink::Bytes(io)),
                Err(error) => {
                    self.open -= 1;
                    return Err(error);
                }
            },
            other => other,
        };
        self.lines[slot as usize].link = link;
        Ok(())
    }

    /// The certificate must name the domain of the users, not the host that was connected to.
    fn secured(&self, tcp: TcpStream) -> io::Result<StreamIo> {
        let tls = self.tls.as_ref().ok_or_else(|| io::Error::other("no TLS was prepared"))?;
        let name = ServerName::try_from(self.chat.people.domain().to_owned()).map_err(io::Error::other)?;
        let session = TlsSession::client(Arc::clone(&tls.client), name).map_err(io::Error::other)?;
        Ok(StreamIo::Tls(TlsStream { tls: Box::new(session), tcp }))
    }

    /// Writes, or keeps what the kernel does not take. A user without a connection writes into the void: its pool learns of the end by itself.
    fn write(&mut self, slot: u32, bytes: &[u8]) -> io::Result<()> {
        let line = &mut self.lines[slot as usize];
        let io = match &mut line.link {
            Some(UserLink::Bytes(io)) => io,
            // It keeps what the kernel does not take.
            Some(UserLink::Web(wire)) => return wire.write(bytes, &[bytes.len()]).map(drop),
            Some(UserLink::Bosh(bosh)) => {
                // Requests are made at the end of the turn, so that one carries all that was written.
                bosh.put(bytes);
                if self.unsent.last() != Some(&slot) {
                    self.unsent.push(slot);
                }
                return Ok(());
            }
            None => return Ok(()),
        };
        // Nothing may overtake what waits.
        let done = if line.waiting.is_empty() { io.put(bytes)? } else { 0 };
        line.waiting.extend_from_slice(&bytes[done..]);
        Ok(())
    }

    /// The socket is writable: sends what waits. A connection that is not up has nothing to send.
    fn flush(&mut self, slot: u32, which: usize) -> io::Result<()> {
        let line = &mut self.lines[slot as usize];
        let io = match &mut line.link {
            _ if line.is_connecting => return Ok(()),
            Some(UserLink::Bytes(io)) => io,
            Some(UserLink::Web(wire)) if wire.is_open() => return wire.write(&[], &[]).map(drop),
            Some(UserLink::Bosh(_)) => return self.flush_wire(slot, which),
            Some(UserLink::Web(_)) | None => return Ok(()),
        };
        let done = io.put(&line.waiting)?;
        if done == line.waiting.len() {
            // The memory is given back: with many users it would add up.
            line.waiting = Vec::new();
        } else {
            line.waiting.drain(..done);
        }
        Ok(())
    }

    /// One input of a connection; called until it says `Nothing`.
    fn hear(&mut self, slot: u32, which: usize) -> ConnectionInput {
        if self.lines[slot as usize].is_connecting {
            return self.finish_connecting(slot);
        }
        match &mut self.lines[slot as usize].link {
            None => ConnectionInput::Nothing,
            Some(UserLink::Bosh(_)) => self.hear_wire(slot, which),
            Some(UserLink::Bytes(io)) => loop {
                match io.read(&mut self.scratch) {
                    Ok(0) => return ConnectionInput::Closed,
                    Ok(count) => return ConnectionInput::Bytes(count),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        return ConnectionInput::Nothing;
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return ConnectionInput::end(&error),
                }
            },
            Some(UserLink::Web(wire)) => {
                let was_open = wire.is_open();
                let mut messages = Vec::new();
                match wire.read(&mut self.scratch, |message, _| messages.push(message.to_vec())) {
                    Ok(_) if !was_open && wire.is_open() => ConnectionInput::Connected,
                    // The close comes again with the next look.
                    Ok(_) if !messages.is_empty() => ConnectionInput::Messages(messages),
                    Ok(false) => ConnectionInput::Nothing,
                    Ok(true) => ConnectionInput::Closed,
                    Err(error) => ConnectionInput::end(&error),
                }
            }
        }
    }

    /// The kernel's handshake is over, well or not.
    fn finish_connecting(&mut self, slot: u32) -> ConnectionInput {
        let line = &mut self.lines[slot as usize];
        let Some(UserLink::Bytes(StreamIo::Plain(tcp))) = &line.link else { return ConnectionInput::Nothing };
        match is_connected(tcp) {
            Ok(true) => {}
            Ok(false) => return ConnectionInput::Nothing,
            Err(error) => return ConnectionInput::unreachable(&error),
        }
        line.is_connecting = false;
        // Without WebSocket the stream begins now, after TLS when that comes first (direct TLS).
        let Some(HttpTransport::WebSocket(path)) = &self.chat.web else {
            let is_secured = self.chat.security != StreamSecurity::Tls || self.secure(slot).is_ok();
            return if is_secured { ConnectionInput::Connected } else { ConnectionInput::Closed };
        };
        let Some(UserLink::Bytes(StreamIo::Plain(tcp))) = line.link.take() else {
            return ConnectionInput::Closed;
        };
        let opening = ConnectOptions {
            tls: self.tls.as_ref().filter(|_| self.chat.security == StreamSecurity::Tls),
            web: Some((path, "xmpp")),
            host: self.chat.people.domain(),
        };
        match StreamTransport::connected(tcp, &opening) {
            Ok(wire) => {
                // A server may have answered already.
                let is_open = wire.is_open();
                line.link = Some(UserLink::Web(Box::new(wire)));
                if is_open { ConnectionInput::Connected } else { ConnectionInput::Nothing }
            }
            Err(error) => {
                self.open -= 1;
                ConnectionInput::end(&error)
            }
        }
    }

    /// Closes the user's sockets.
    fn drop(&mut self, slot: u32) {
        let line = std::mem::take(&mut self.lines[slot as usize]);
        self.open -= match &line.link {
            Some(UserLink::Bosh(bosh)) => bosh.sockets(),
            Some(_) => 1,
            None => 0,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Beside its `User`: a thousand bytes of a user are here and in the allocator (`bench/xmpp/run ringer`).
    #[test]
    fn a_line_is_small() {
        assert!(size_of::<UserConnection>() <= 64, "{}", size_of::<UserConnection>());
    }
}

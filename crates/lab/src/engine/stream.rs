//! Connections of one shard: made, accepted, written once a turn.
//!
//! A connection's life: `Waiting` (a lost shared one that is not made again yet), `Connecting`, `Up` (the transport may still be in a TLS or
//! WebSocket handshake), `Down`. Messages are queued by [`StreamConnections::write`] and leave with one write at the end of the turn. The shard
//! reads `ended`, `late` and `exhausted` after each turn and tells the calls.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use lab_sip::call::TransportFault;
use lab_sip::options::{Options, Protocol, Sockets};
use mio::net::{TcpListener, TcpStream};
use mio::{Interest, Registry};
use socket2::{Domain, Socket, Type};
use stdx::slab::{Key, Slab};
use stdx::time::Instant;

use super::handshakes::{Handshake, HandshakeLimits};
use super::limits::STREAM_BACKLOG;
use super::stream_transport::{ConnectOptions, StreamTransport};
use super::tls::Tls;
use super::token::{self, TokenKind};

/// One connection, made or accepted.
struct Connection {
    wire: ConnectionState,
    remote: SocketAddr,
    local: SocketAddr,
    protocol: Protocol,
    /// Messages that wait, and where each ends.
    out: Vec<u8>,
    ends: Vec<usize>,
    /// Messages there ever were: the number of the last one.
    queued: u64,
    /// Those that may not wait for ever, by number.
    waiting: VecDeque<DelayedMessage>,
    calls: u32,
    /// Calls of other shards use it too.
    far: bool,
    /// Made for one call: closed with it.
    own: bool,
}

/// A message that may wait until a time.
struct DelayedMessage {
    sender: Sender,
    number: u64,
    until: Instant,
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let ConnectionState::Up(wire) = &mut self.wire {
            wire.close();
        }
    }
}

enum ConnectionState {
    /// A lost one that is made again, but not before this time (`-reconnect_sleep`).
    Waiting(Socket, Instant),
    Connecting(TcpStream),
    /// TCP stands; messages pass once the transport's own handshakes are over.
    Up(Box<StreamTransport>),
    Down,
}

/// The connections and listeners of one shard.
pub(super) struct StreamConnections {
    options: Arc<Options>,
    tls: Option<Tls>,
    connections: Slab<Connection>,
    listeners: Slab<TcpListener>,
    /// Those that calls share, by target.
    shared: Vec<(SocketAddr, Protocol, Key)>,
    /// Connections of single calls; beyond `-max_socket` more calls share them.
    own: Vec<Key>,
    dirty: Vec<Key>,
    scratch: Vec<u8>,
    /// The place used last in `own` and among our addresses; both are used in turn.
    next: usize,
    /// Connections left of `-max_reconnect`.
    reconnects: u32,
    /// The turn in hand.
    pub(super) now: Instant,
    /// When the last shared connection was lost.
    lost: Option<Instant>,
    /// Those in [`ConnectionState::Waiting`].
    sleeping: Vec<Key>,
    /// `-max_reconnect` is used up and one more was needed.
    pub(super) exhausted: bool,
    /// Connections that ended, to be told to their calls.
    pub(super) ended: Vec<ClosedConnection>,
    /// No message's time to wait is over before this; what left meanwhile makes it too early, never too late.
    impatient: Instant,
    /// Calls whose message waited too long.
    pub(super) late: Vec<Sender>,
    handshakes: HandshakeLimits,
}

/// The call that sends a message, by its shard, and how long the message may wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sender {
    pub(super) shard: u16,
    pub(super) call: Key,
    /// `None`: the message may wait for as long as the connection lives.
    pub(super) patience: Option<Duration>,
}

/// A connection that is no more.
#[derive(Debug)]
pub(super) struct ClosedConnection {
    pub(super) key: Key,
    pub(super) fault: TransportFault,
    /// Calls of this shard that used it.
    pub(super) calls: u32,
    /// Other shards used it.
    pub(super) far: bool,
    /// It was the one to the target for all calls.
    pub(super) shared: bool,
}

/// Read from a connection in one go.
const SCRATCH: usize = 64 << 10;

impl StreamConnections {
    pub(super) fn new(options: Arc<Options>, tls: Option<Tls>) -> StreamConnections {
        let reconnects = options.network.max_reconnect;
        StreamConnections {
            options,
            tls,
            connections: Slab::new(),
            listeners: Slab::new(),
            shared: Vec::new(),
            own: Vec::new(),
            dirty: Vec::new(),
            scratch: Vec::new(),
            next: 0,
            reconnects,
            now: Instant::default(),
            lost: None,
            sleeping: Vec::new(),
            exhausted: false,
            ended: Vec::new(),
            impatient: Instant::FAR_FUTURE,
            late: Vec::new(),
            handshakes: HandshakeLimits::default(),
        }
    }

    pub(super) fn listen(&mut self, listener: std::net::TcpListener, registry: &Registry) -> io::Result<()> {
        let key = self.listeners.insert(TcpListener::from_std(listener));
        let listener = self.listeners.get_mut(key).expect("it was just put there");
        registry.register(listener, token::token(TokenKind::Listener, key), Interest::READABLE)
    }

    /// True if the kernel says when what comes by connections came.
    pub(super) fn are_stamped(&self) -> bool {
        matches!(self.options.network.transport.protocol, Protocol::Udp | Protocol::Tcp)
    }

    pub(super) fn len(&self) -> usize {
        self.connections.len()
    }

    pub(super) fn accept(&mut self, key: Key, registry: &Registry) -> io::Result<()> {
        loop {
            let Some(listener) = self.listeners.get(key) else { return Ok(()) };
            let (tcp, remote) = match listener.accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            };
            let local = tcp.local_addr()?;
            let protocol = self.options.network.transport.protocol;
            let key = self.insert(ConnectionState::Connecting(tcp), remote, local, protocol, false);
            self.watch(key, registry)?;
            let host = remote.ip().to_string();
            self.open(key, &host, false);
        }
    }

    /// The shared connection to `remote`, or one of the call's own.
    pub(super) fn for_call(
        &mut self,
        remote: SocketAddr,
        sockets: Sockets,
        registry: &Registry,
    ) -> io::Result<Key> {
        let protocol = self.options.network.transport.protocol;
        if sockets != Sockets::PerCall {
            return self.connect_shared(protocol, remote, registry);
        }
        if self.connections.len() >= self.options.network.max_sockets && !self.own.is_empty() {
            self.next = (self.next + 1) % self.own.len();
            let key = self.own[self.next];
            self.share(key);
            return Ok(key);
        }
        let key = self.connect(protocol, remote, true, registry)?;
        self.own.push(key);
        self.share(key);
        Ok(key)
    }

    fn connect_shared(
        &mut self,
        protocol: Protocol,
        remote: SocketAddr,
        registry: &Registry,
    ) -> io::Result<Key> {
        let known = self.shared.iter().find(|known| known.0 == remote && known.1 == protocol);
        if let Some((_, _, key)) = known {
            let key = *key;
            self.share(key);
            return Ok(key);
        }
        // A first connection is made at once; one that replaces a lost one counts under `-max_reconnect` and waits `-reconnect_sleep`.
        let key = match self.lost {
            Some(lost) => {
                self.spend()?;
                let socket = self.prepare(remote)?;
                let local = socket.local_addr()?.as_socket().ok_or(io::ErrorKind::AddrNotAvailable)?;
                let begin = lost + self.options.network.reconnect_sleep;
                let key =
                    self.insert(ConnectionState::Waiting(socket, begin), remote, local, protocol, false);
                self.sleeping.push(key);
                key
            }
            None => self.connect(protocol, remote, false, registry)?,
        };
        self.shared.push((remote, protocol, key));
        self.share(key);
        Ok(key)
    }

    /// One of `-max_reconnect`.
    pub(super) fn spend(&mut self) -> io::Result<()> {
        match self.reconnects.checked_sub(1) {
            Some(left) => self.reconnects = left,
            None => {
                self.exhausted = true;
                return Err(io::Error::other("the connections that -max_reconnect allows are used up"));
            }
        }
        Ok(())
    }

    /// When [`StreamConnections::wake`] has something to do.
    pub(super) fn deadline(&self) -> Instant {
        let begins = self.sleeping.iter().filter_map(|key| match &self.connections.get(*key)?.wire {
            ConnectionState::Waiting(_, begin) => Some(*begin),
            _ => None,
        });
        begins.fold(self.impatient.min(self.handshakes.deadline()), Instant::min)
    }

    /// Begins connections that slept, finds messages that waited and handshakes that lasted too long.
    pub(super) fn wake(&mut self, now: Instant, registry: &Registry) {
        self.now = now;
        for key in std::mem::take(&mut self.sleeping) {
            let Some(connection) = self.connections.get_mut(key) else { continue };
            match std::mem::replace(&mut connection.wire, ConnectionState::Down) {
                ConnectionState::Waiting(socket, begin) if begin <= now => {
                    let remote = connection.remote;
                    if self.begin(key, socket, remote, registry).is_err() {
                        self.fail(key, TransportFault::ConnectFailed);
                    }
                }
                other => {
                    connection.wire = other;
                    self.sleeping.push(key);
                }
            }
        }
        if self.impatient <= now {
            self.find_late(now);
        }
        for (handshake, key) in self.handshakes.expire(now) {
            let wire = self.connections.get(key).map(|connection| &connection.wire);
            if matches!(wire, Some(ConnectionState::Up(wire)) if wire.is_in(handshake)) {
                self.fail(key, TransportFault::ConnectFailed);
            }
        }
    }

    /// Their bytes stay: what is behind them in the connection cannot overtake, and part may have left.
    fn find_late(&mut self, now: Instant) {
        self.impatient = Instant::FAR_FUTURE;
        for (_, connection) in self.connections.iter_mut() {
            connection.waiting.retain(|waiting| {
                let is_late = waiting.until <= now;
                if is_late {
                    self.late.push(waiting.sender);
                } else {
                    self.impatient = self.impatient.min(waiting.until);
                }
                !is_late
            });
        }
    }

    fn begin(&mut self, key: Key, socket: Socket, remote: SocketAddr, registry: &Registry) -> io::Result<()> {
        let tcp = start_connecting(socket, remote)?;
        if let Some(connection) = self.connections.get_mut(key) {
            connection.local = tcp.local_addr()?;
            connection.wire = ConnectionState::Connecting(tcp);
        }
        self.watch(key, registry)
    }

    /// `<setdest>`: as `for_call`, by another protocol.
    pub(super) fn connect_as(
        &mut self,
        protocol: Protocol,
        remote: SocketAddr,
        registry: &Registry,
    ) -> io::Result<Key> {
        let key = self.connect(protocol, remote, true, registry)?;
        Ok(key)
    }

    fn connect(
        &mut self,
        protocol: Protocol,
        remote: SocketAddr,
        own: bool,
        registry: &Registry,
    ) -> io::Result<Key> {
        let tcp = start_connecting(self.prepare(remote)?, remote)?;
        let local = tcp.local_addr()?;
        let key = self.insert(ConnectionState::Connecting(tcp), remote, local, protocol, own);
        self.watch(key, registry)?;
        Ok(key)
    }

    /// A socket at an address of ours.
    fn prepare(&mut self, remote: SocketAddr) -> io::Result<Socket> {
        let socket = Socket::new(Domain::for_address(remote), Type::STREAM, None)?;
        socket.set_nonblocking(true)?;
        socket.set_tcp_nodelay(true)?;
        if let Some(device) = &self.options.network.bind_to_device {
            socket.bind_device(Some(device.as_bytes()))?;
        }
        let sources: Vec<&IpAddr> =
            self.options.network.local.iter().filter(|ip| ip.is_ipv4() == remote.is_ipv4()).collect();
        if let Some(ip) = sources.get(self.next % sources.len().max(1)) {
            socket.bind(&SocketAddr::new(**ip, 0).into())?;
        }
        self.next = self.next.wrapping_add(1);
        Ok(socket)
    }

    fn insert(
        &mut self,
        wire: ConnectionState,
        remote: SocketAddr,
        local: SocketAddr,
        protocol: Protocol,
        own: bool,
    ) -> Key {
        let (out, ends) = (Vec::new(), Vec::new());
        let (queued, waiting) = (0, VecDeque::new());
        self.connections.insert(Connection {
            wire,
            remote,
            local,
            protocol,
            out,
            ends,
            queued,
            waiting,
            calls: 0,
            far: false,
            own,
        })
    }

    /// Registers the socket for both directions once: `mio` reports edges, so nothing is registered again when a write blocks.
    fn watch(&mut self, key: Key, registry: &Registry) -> io::Result<()> {
        let Some(Connection { wire: ConnectionState::Connecting(tcp), .. }) = self.connections.get_mut(key)
        else {
            return Ok(());
        };
        let interest = Interest::READABLE | Interest::WRITABLE;
        let watched = registry.register(tcp, token::token(TokenKind::Stream, key), interest);
        if watched.is_err() {
            self.connections.remove(key);
        }
        watched
    }

    pub(super) fn share(&mut self, key: Key) {
        if let Some(connection) = self.connections.get_mut(key) {
            connection.calls += 1;
        }
    }

    /// One call fewer; its own connection is closed after what is queued went. True: it was its own.
    pub(super) fn release(&mut self, key: Key) -> bool {
        let Some(connection) = self.connections.get_mut(key) else { return true };
        connection.calls = connection.calls.saturating_sub(1);
        if connection.calls == 0 && connection.own {
            // Closed by the flush, after what is queued has left.
            self.dirty.push(key);
        }
        connection.own
    }

    pub(super) fn local(&self, key: Key) -> Option<SocketAddr> {
        self.connections.get(key).map(|connection| connection.local)
    }

    pub(super) fn remote(&self, key: Key) -> Option<SocketAddr> {
        self.connections.get(key).map(|connection| connection.remote)
    }

    /// Leaves with the next flush, once the connection is up.
    pub(super) fn write(&mut self, key: Key, bytes: &[u8], sender: Sender) -> Result<(), TransportFault> {
        let connection = self.connections.get_mut(key).ok_or(TransportFault::Closed)?;
        if connection.out.len() > STREAM_BACKLOG {
            return Err(TransportFault::Congestion);
        }
        if connection.out.is_empty() {
            self.dirty.push(key);
        }
        connection.out.extend_from_slice(bytes);
        connection.ends.push(connection.out.len());
        connection.queued += 1;
        if let Some(patience) = sender.patience {
            let until = self.now + patience;
            connection.waiting.push_back(DelayedMessage { sender, number: connection.queued, until });
            self.impatient = self.impatient.min(until);
        }
        Ok(())
    }

    /// As [`StreamConnections::write`], for a call of another shard.
    pub(super) fn write_from_afar(
        &mut self,
        key: Key,
        bytes: &[u8],
        sender: Sender,
    ) -> Result<(), TransportFault> {
        self.used_from_afar(key);
        self.write(key, bytes, sender)
    }

    /// Another shard is to be told of its end.
    pub(super) fn used_from_afar(&mut self, key: Key) {
        if let Some(connection) = self.connections.get_mut(key) {
            connection.far = true;
        }
    }

    /// One write for each connection that has something to say.
    pub(super) fn flush(&mut self) {
        for key in std::mem::take(&mut self.dirty) {
            self.flush_one(key);
        }
    }

    fn flush_one(&mut self, key: Key) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        let ConnectionState::Up(wire) = &mut connection.wire else { return };
        match wire.write(&connection.out, &connection.ends) {
            Ok(done) => {
                connection.out.drain(..done);
                connection.ends.retain_mut(|end| {
                    let stays = *end > done;
                    *end = end.saturating_sub(done);
                    stays
                });
                // The number of messages that the kernel has taken: those are no longer waited for.
                let left = connection.queued - connection.ends.len() as u64;
                while connection.waiting.front().is_some_and(|waiting| waiting.number <= left) {
                    connection.waiting.pop_front();
                }
                if connection.out.is_empty() && connection.own && connection.calls == 0 {
                    self.remove(key);
                }
            }
            Err(_) => self.fail(key, TransportFault::Closed),
        }
    }

    /// The kernel told of it: goes on with connecting, reading and writing. Messages go to `each`.
    pub(super) fn event(
        &mut self,
        key: Key,
        event: &mio::event::Event,
        each: impl FnMut(&[u8], Option<Duration>),
    ) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        if let ConnectionState::Connecting(tcp) = &connection.wire {
            if matches!(tcp.take_error(), Ok(Some(_)) | Err(_)) || event.is_error() {
                return self.fail(key, TransportFault::ConnectFailed);
            }
            if tcp.peer_addr().is_err() {
                return;
            }
            let host = self.host(key);
            self.open(key, &host, true);
        }
        self.read(key, each);
        self.flush_one(key);
    }

    /// The target as the user named it, for certificates and WebSocket.
    fn host(&self, key: Key) -> String {
        let remote = self.connections.get(key).map(|connection| connection.remote);
        match (&self.options.remote, remote) {
            (Some(named), Some(remote))
                if named.address == remote || self.options.network.in_turn.contains(&remote) =>
            {
                named.host.clone()
            }
            (_, Some(remote)) => remote.ip().to_string(),
            (_, None) => String::new(),
        }
    }

    /// TCP stands: begins TLS and WebSocket where the protocol has them. `ours`: we connected, so we are the client in both.
    fn open(&mut self, key: Key, host: &str, ours: bool) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        let protocol = connection.protocol;
        let ConnectionState::Connecting(tcp) = std::mem::replace(&mut connection.wire, ConnectionState::Down)
        else {
            return;
        };
        let is_tls = matches!(protocol, Protocol::Tls | Protocol::Wss);
        let is_web = matches!(protocol, Protocol::Ws | Protocol::Wss);
        let opening = ConnectOptions {
            tls: self.tls.as_ref().filter(|_| is_tls),
            web: is_web.then_some((self.options.network.ws_path.as_str(), "sip")),
            host,
        };
        // Small messages must not wait for each other.
        let _ = tcp.set_nodelay(true);
        // Best effort: without it a message came when it was read.
        let _ = mmsg::want_timestamps(tcp.as_fd());
        let wire = if ours {
            StreamTransport::connected(tcp, &opening)
        } else {
            StreamTransport::accepted(tcp, &opening)
        };
        for (kind, _) in
            [(Handshake::Tls, is_tls), (Handshake::WebSocket, is_web)].iter().filter(|kind| kind.1)
        {
            self.handshakes.begin(self.now, *kind, &self.options.network, key);
        }
        match wire {
            Ok(wire) => connection.wire = ConnectionState::Up(Box::new(wire)),
            Err(_) => self.fail(key, TransportFault::ConnectFailed),
        }
    }

    fn read(&mut self, key: Key, each: impl FnMut(&[u8], Option<Duration>)) {
        self.scratch.resize(SCRATCH, 0);
        let Some(connection) = self.connections.get_mut(key) else { return };
        let ConnectionState::Up(wire) = &mut connection.wire else { return };
        match wire.read(&mut self.scratch, each) {
            Ok(false) => {}
            Ok(true) | Err(_) => self.fail(key, TransportFault::Closed),
        }
    }

    fn fail(&mut self, key: Key, fault: TransportFault) {
        let Some(gone) = self.connections.get(key) else { return };
        let shared = self.shared.iter().any(|shared| shared.2 == key);
        self.ended.push(ClosedConnection { key, fault, calls: gone.calls, far: gone.far, shared });
        self.remove(key);
    }

    fn remove(&mut self, key: Key) {
        // Closing takes it out of the poll as well.
        let Some(gone) = self.connections.remove(key) else { return };
        if gone.own {
            if let Some(at) = self.own.iter().position(|own| *own == key) {
                self.own.swap_remove(at);
            }
        } else if let Some(at) = self.shared.iter().position(|shared| shared.2 == key) {
            self.shared.swap_remove(at);
            self.lost = Some(self.now);
        }
    }
}

/// Begins to connect; success or failure comes with an event.
pub(super) fn start_connecting(socket: Socket, remote: SocketAddr) -> io::Result<TcpStream> {
    match socket.connect(&remote.into()) {
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {}
        other => other?,
    }
    Ok(TcpStream::from_std(socket.into()))
}

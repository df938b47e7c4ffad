//! Sockets of one shard, and which of them a call's messages leave by.
//!
//! The transport option decides: one socket for all calls (`-t u1`, `t1`), one a call (`un`, `tn`), or one for each of our addresses (`ui`).
//! A datagram socket shared by all calls exists once a shard, at the same port; a shared connection exists once in the whole run, at shard 0,
//! and the other shards hand their messages to it (`CallLink::Shared`).

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::sync::Arc;

use lab_sip::call::TransportFault;
use lab_sip::options::{Options, Protocol, Sockets};
use mio::Poll;
use parking_lot::Mutex;
use stdx::slab::Key;

use super::calls::CallLink;
use super::limits::BACKLOG_BYTES;
use super::stream::{Sender, StreamConnections};
use super::token::{self, TokenKind};
use super::udp::{self, SocketUse, UdpSockets};

pub(super) struct ShardSockets {
    pub(super) udp: UdpSockets,
    /// TCP, TLS and WebSocket connections and listeners.
    pub(super) streams: StreamConnections,
    /// Sockets with something to read.
    pub(super) unread: Vec<Key>,
    options: Arc<Options>,
    /// Address and port that messages name as ours.
    local: SocketAddr,
    /// Our number: the first shard has the connection that all calls share.
    shard: u16,
    /// Our end of that connection, for calls of all shards.
    shared_local: Arc<Mutex<Option<SocketAddr>>>,
    /// Bound for all calls, one for each of our addresses.
    shared: Vec<Key>,
    /// One call each; shared once `-max_socket` are open.
    per_call: Vec<Key>,
    /// The place in `shared`, `per_call` or our addresses that was used last; they are used in turn.
    next: usize,
}

impl ShardSockets {
    pub(super) fn new(
        options: Arc<Options>,
        local: SocketAddr,
        streams: StreamConnections,
        shard: u16,
        shared_local: Arc<Mutex<Option<SocketAddr>>>,
    ) -> ShardSockets {
        ShardSockets {
            shard,
            shared_local,
            udp: UdpSockets::new(),
            streams,
            unread: Vec::new(),
            options,
            local,
            shared: Vec::new(),
            per_call: Vec::new(),
            next: 0,
        }
    }

    /// Watches a socket that was bound before the shards started.
    pub(super) fn add_shared(&mut self, socket: std::net::UdpSocket, poll: &Poll) -> io::Result<()> {
        let key = self.udp.add(socket, poll.registry(), |key| token::token(TokenKind::Udp, key))?;
        self.shared.push(key);
        Ok(())
    }

    /// Open sockets and connections, for the report.
    pub(super) fn len(&self) -> usize {
        self.udp.len() + self.streams.len()
    }

    /// The link of a call whose message came another way.
    // Streams have no default: the call connects when it first sends.
    pub(super) fn default_link(&self) -> CallLink {
        self.shared.first().map_or(CallLink::None, |key| CallLink::Udp(*key))
    }

    /// A new outgoing call's; `named` is the target's address, which `-rsa` replaces.
    pub(super) fn link_for_call(&mut self, named: Option<SocketAddr>, poll: &Poll) -> io::Result<CallLink> {
        let transport = self.options.network.transport;
        match (transport.protocol, transport.sockets) {
            // The arms: a socket of its own; the next of our addresses; the connection of shard 0; a connection of this shard.
            (Protocol::Udp, Sockets::PerCall) => self.udp_of_its_own(poll),
            (Protocol::Udp, _) => {
                self.next = (self.next + 1) % self.shared.len().max(1);
                let key = self.shared.get(self.next).copied();
                key.map(CallLink::Udp).ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
            }
            (_, Sockets::Shared | Sockets::PerAddress) if self.shard > 0 => Ok(CallLink::Shared),
            (_, sockets) => {
                let remote = self.options.network.remote_sending.or(named);
                let remote = remote.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
                let key = self.streams.for_call(remote, sockets, poll.registry())?;
                self.note_shared(key, sockets);
                Ok(CallLink::Stream(key))
            }
        }
    }

    /// Publishes our end of the shared connection, the `[local_port]` of calls at all shards.
    fn note_shared(&self, key: Key, sockets: Sockets) {
        if sockets != Sockets::PerCall {
            *self.shared_local.lock() = self.streams.local(key);
        }
    }

    /// The connection that a call of another shard writes to; it keeps no count of such calls.
    pub(super) fn shared_stream(&mut self, target: SocketAddr, poll: &Poll) -> Result<Key, TransportFault> {
        let sockets = self.options.network.transport.sockets;
        let key = self.streams.for_call(target, sockets, poll.registry());
        let key = key.map_err(|_| TransportFault::ConnectFailed)?;
        self.streams.release(key);
        self.note_shared(key, sockets);
        Ok(key)
    }

    /// `-t ui`: the socket at this address of ours.
    pub(super) fn link_from(&self, ip: IpAddr) -> io::Result<CallLink> {
        let at = |key: &&Key| self.udp.local(**key).is_some_and(|local| local.ip() == ip);
        let key = self.shared.iter().find(at).copied();
        key.map(CallLink::Udp)
            .ok_or_else(|| io::Error::other(format!("no socket is bound to {ip} (-ip_field)")))
    }

    /// Beyond `-max_socket` calls share the sockets there are, in turn, as in SIPp.
    fn udp_of_its_own(&mut self, poll: &Poll) -> io::Result<CallLink> {
        if self.udp.len() >= self.options.network.max_sockets && !self.per_call.is_empty() {
            self.next = (self.next + 1) % self.per_call.len();
            let link = CallLink::Udp(self.per_call[self.next]);
            self.share(link);
            return Ok(link);
        }
        let ip = self.source();
        let device = self.options.network.bind_to_device.as_deref();
        let socket =
            udp::bind(SocketAddr::new(ip, 0), SocketUse::Call, self.options.behaviour.buffer_size, device)?;
        let key = self.udp.add(socket, poll.registry(), |key| token::token(TokenKind::Udp, key))?;
        // Its place lets `release` remove it from the list without a search.
        if let Some(socket) = self.udp.get_mut(key) {
            socket.place = self.per_call.len();
        }
        self.per_call.push(key);
        self.share(CallLink::Udp(key));
        Ok(CallLink::Udp(key))
    }

    /// Our addresses in turn.
    fn source(&mut self) -> IpAddr {
        let sources = &self.options.network.local;
        if sources.is_empty() {
            return self.local.ip();
        }
        self.next = (self.next + 1) % sources.len();
        sources[self.next]
    }

    /// One more call uses it.
    pub(super) fn share(&mut self, link: CallLink) {
        match link {
            CallLink::Udp(key) => {
                if let Some(socket) = self.udp.get_mut(key) {
                    socket.users += 1;
                }
            }
            CallLink::Stream(key) => self.streams.share(key),
            CallLink::Far(..) | CallLink::Shared | CallLink::None => {}
        }
    }

    /// One fewer; a socket of one call is closed. True: it was such a one.
    pub(super) fn release(&mut self, link: CallLink) -> bool {
        match link {
            CallLink::Udp(key) => {
                let Some(socket) = self.udp.get_mut(key) else { return true };
                socket.users = socket.users.saturating_sub(1);
                let place = socket.place;
                if socket.users == 0 && self.per_call.get(place) == Some(&key) {
                    self.udp.close(key);
                    self.per_call.swap_remove(place);
                    // `swap_remove` moved the last one here.
                    if let Some(moved) = self.per_call.get(place).and_then(|moved| self.udp.get_mut(*moved)) {
                        moved.place = place;
                    }
                }
                // Also true for a socket that other calls still use: this call has left it.
                !self.shared.contains(&key)
            }
            CallLink::Stream(key) => self.streams.release(key),
            CallLink::Far(..) | CallLink::Shared => false,
            CallLink::None => true,
        }
    }

    /// The values of `[local_ip]` and `[local_port]`.
    pub(super) fn local_of(&self, link: CallLink) -> SocketAddr {
        let bound = match link {
            CallLink::Udp(key) => self.udp.local(key),
            CallLink::Stream(key) => self.streams.local(key),
            CallLink::Shared => *self.shared_local.lock(),
            CallLink::Far(..) | CallLink::None => None,
        };
        let Some(bound) = bound else { return self.local };
        let ip = if bound.ip().is_unspecified() { self.local.ip() } else { bound.ip() };
        SocketAddr::new(ip, bound.port())
    }

    /// `<setdest>`: connections are made anew, datagrams just go elsewhere.
    pub(super) fn redirect(
        &mut self,
        link: CallLink,
        address: SocketAddr,
        protocol: Protocol,
        poll: &Poll,
    ) -> io::Result<CallLink> {
        // A datagram socket reaches every address: the caller changes the destination only.
        if protocol == Protocol::Udp && matches!(link, CallLink::Udp(_)) {
            return Ok(link);
        }
        let new = match protocol {
            Protocol::Udp => self.default_link(),
            _ => CallLink::Stream(self.streams.connect_as(protocol, address, poll.registry())?),
        };
        self.release(link);
        self.share(new);
        Ok(new)
    }

    /// A new connection for a call whose connection was lost. Connections of single calls use up `-max_reconnect`; the shared one is
    /// counted where it is made.
    pub(super) fn reconnect(&mut self, target: SocketAddr, poll: &Poll) -> Result<CallLink, TransportFault> {
        if self.options.network.transport.protocol == Protocol::Udp {
            return Ok(self.default_link());
        }
        let sockets = self.options.network.transport.sockets;
        if sockets == Sockets::PerCall {
            self.streams.spend().map_err(|_| TransportFault::ConnectFailed)?;
        } else if self.shard > 0 {
            return Ok(CallLink::Shared);
        }
        let key = self.streams.for_call(target, sockets, poll.registry());
        key.map(CallLink::Stream).map_err(|_| TransportFault::ConnectFailed)
    }

    /// `bytes[range]` leaves at the end of the turn.
    pub(super) fn send(
        &mut self,
        link: CallLink,
        bytes: &[u8],
        range: Range<usize>,
        to: SocketAddr,
        sender: Sender,
    ) -> Result<(), TransportFault> {
        match link {
            // The kernel has taken nothing for a while: a message more would only wait and be late.
            CallLink::Udp(_) if bytes.len() > BACKLOG_BYTES => Err(TransportFault::Congestion),
            CallLink::Udp(key) if self.udp.queue(key, range.start, range.end, to, sender.call) => Ok(()),
            // Far and shared links are written by their own shards (see `effects`), and a call without a link cannot send.
            CallLink::Udp(_) | CallLink::Far(..) | CallLink::Shared | CallLink::None => {
                Err(TransportFault::CannotSend)
            }
            CallLink::Stream(key) => self.streams.write(key, &bytes[range], sender),
        }
    }

    /// Hands what waits to the kernel; refused datagrams are reported with their calls.
    /// True: nothing refers to `bytes` any more.
    pub(super) fn flush(&mut self, bytes: &[u8], faults: &mut Vec<(Key, TransportFault)>) -> bool {
        self.streams.flush();
        let mut refused = Vec::new();
        let all = self.udp.flush(bytes, &mut refused);
        faults.extend(refused.into_iter().map(|(call, _)| (call, TransportFault::CannotSend)));
        all
    }
}

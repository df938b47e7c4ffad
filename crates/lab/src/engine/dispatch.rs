//! The inputs of a shard: messages go to their calls, arrivals start new calls, effects go to sockets.

use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::AsFd;
use std::time::Duration;

use lab_sip::call::message::{Incoming, StartLine};
use lab_sip::call::render::call_id;
use lab_sip::call::{
    Call, CallContext, CallIdentity, CallOutcome, Effect, ScenarioRole, SendTo, TransportFault,
};
use lab_sip::options::Sockets;
use lab_sip::scenario::model::Role;
use lab_sip::stats::Count;
use lab_sip::trace::Direction;
use mmsg::{BATCH, Receiver};
use stdx::slab::Key;
use stdx::time::Instant;

use super::calls::{CallEntry, CallLink};
use super::limits::BATCHES_A_TURN;
use super::shard::Shard;
use super::shard_hub::{ForwardedConnection, RunPhase};
use super::shell;
use super::stream::Sender;

/// The socket or connection that a message came in by.
#[derive(Debug, Clone, Copy)]
pub(super) enum MessageOrigin {
    Link(CallLink),
    /// From another shard, which has already looked for its call; the connection it has it from.
    Shard(Option<CallLink>),
}

impl Shard {
    /// Batches of one socket. True: it may have more.
    pub(super) fn receive_from(
        &mut self,
        key: Key,
        receiver: &mut Receiver,
        now: Instant,
        wall: Duration,
    ) -> bool {
        let Some(socket) = self.net.udp.handle(key) else { return false };
        for _ in 0..BATCHES_A_TURN {
            let count = receiver.receive(socket.as_fd(), |datagram| {
                if let Some(total) = datagram.drops {
                    let drops = self.net.udp.note_drops(key, total);
                    self.stats.add(Count::ReceiveDrops, drops);
                }
                let received = datagram.received.map_or(now, |stamp| now - wall.saturating_sub(stamp));
                self.handle(
                    datagram.bytes,
                    datagram.remote,
                    received,
                    MessageOrigin::Link(CallLink::Udp(key)),
                );
            });
            match count {
                Ok(BATCH) => {}
                Ok(_) => return false,
                // An ICMP error of an earlier datagram, or nothing there.
                Err(error) => return error.kind() != std::io::ErrorKind::WouldBlock,
            }
        }
        true
    }

    pub(super) fn handle_handed_over(
        &mut self,
        bytes: &[u8],
        from: SocketAddr,
        received: Instant,
        link: Option<CallLink>,
    ) {
        self.dispatch(bytes, from, received, MessageOrigin::Shard(link));
    }

    /// One message as it came from the network.
    pub(super) fn handle(
        &mut self,
        bytes: &[u8],
        from: SocketAddr,
        received: Instant,
        origin: MessageOrigin,
    ) {
        self.rhythm.messages += 1;
        self.stats.count(Count::MessagesReceived);
        self.stats.add(Count::BytesReceived, bytes.len() as u64);
        self.dispatch(bytes, from, received, origin);
    }

    fn dispatch(&mut self, bytes: &[u8], from: SocketAddr, received: Instant, origin: MessageOrigin) {
        let message = match Incoming::parse(bytes) {
            Ok(message) => message,
            Err(_) if is_keepalive(bytes) => return,
            Err(fault) => {
                self.stats.count(Count::Malformed);
                let text = format!("not SIP from {from} ({fault:?}): {}", String::from_utf8_lossy(bytes));
                return self.error(received, text);
            }
        };
        let call_id = self.trimmed(message.call_id);
        // Traced where it came in: a message that is handed over comes through here twice.
        if matches!(origin, MessageOrigin::Link(_)) && self.envs.main.tracer.wants_messages() {
            let transport = self.envs.main.options.network.transport;
            self.envs.main.tracer.message(received, Direction::Received, transport, call_id, bytes);
        }
        let hash = self.hub.keyed.hash(call_id);
        if let Some(key) = self.calls.find(hash, call_id) {
            self.follow(key, origin);
            return self.enter(key, received, |call, ctx| call.handle_message(ctx, &message, from));
        }
        if self.calls.is_dead(hash) {
            return self.stats.count(Count::DeadCallMsgs);
        }
        if let Some(other) = self.other_shard(hash, origin) {
            return self.hand_over(other, bytes, from, received, origin);
        }
        self.handle_stranger(&message, call_id, hash, from, received, origin);
    }

    /// A server answers on the connection that the request came on (RFC 3261 §18.2.2).
    fn follow(&mut self, key: Key, origin: MessageOrigin) {
        let new = match origin {
            MessageOrigin::Link(link @ CallLink::Stream(_)) | MessageOrigin::Shard(Some(link)) => link,
            MessageOrigin::Link(_) | MessageOrigin::Shard(None) => return,
        };
        let Some(entry) = self.calls.get_mut(key) else { return };
        if entry.link == new || !entry.call.identity.incoming || !entry.open {
            return;
        }
        let old = std::mem::replace(&mut entry.link, new);
        self.net.release(old);
        self.net.share(new);
    }

    fn hand_over(
        &mut self,
        to: u16,
        bytes: &[u8],
        from: SocketAddr,
        received: Instant,
        origin: MessageOrigin,
    ) {
        let link = match origin {
            MessageOrigin::Link(CallLink::Stream(key)) => {
                self.net.streams.used_from_afar(key);
                Some(CallLink::Far(self.index, key))
            }
            MessageOrigin::Shard(link) => link,
            MessageOrigin::Link(_) => None,
        };
        self.outgoing[usize::from(to)].put(bytes, from, received, link);
    }

    /// `xxx///id` is a message for `id`: SIPp's way to let several Call-IDs belong to one call.
    fn trimmed<'a>(&self, call_id: &'a [u8]) -> &'a [u8] {
        if self.envs.main.options.call.ignore_call_id_slash || !call_id.contains(&b'/') {
            return call_id;
        }
        memchr::memmem::find(call_id, b"///").map_or(call_id, |at| &call_id[at + 3..])
    }

    fn other_shard(&self, hash: u64, origin: MessageOrigin) -> Option<u16> {
        if matches!(origin, MessageOrigin::Shard(_)) {
            return None;
        }
        let directory = self.hub.directory.as_ref()?;
        directory.find(hash).filter(|owner| *owner != self.index)
    }

    /// A message of no call we know.
    fn handle_stranger(
        &mut self,
        message: &Incoming<'_>,
        call_id: &[u8],
        hash: u64,
        from: SocketAddr,
        received: Instant,
        origin: MessageOrigin,
    ) {
        let which = if self.envs.main.scenario.role == Role::Server {
            Some(ScenarioRole::Main)
        } else if self.envs.receive.is_some() {
            Some(ScenarioRole::Receive)
        } else if self.answers_outside_calls(message) {
            Some(ScenarioRole::OutOfCall)
        } else {
            None
        };
        let phase = self.hub.phase();
        let Some(which) =
            which.filter(|which| phase == RunPhase::Running || *which == ScenarioRole::OutOfCall)
        else {
            return self.out_of_call(message, received);
        };
        if let Some(directory) = &self.hub.directory {
            let owner = directory.claim(hash, self.index);
            if owner != self.index {
                // Its first message came twice, to two sockets.
                return self.hand_over(owner, message.bytes, from, received, origin);
            }
        }
        let link = match origin {
            MessageOrigin::Link(link) => link,
            MessageOrigin::Shard(link) => link.unwrap_or_else(|| self.net.default_link()),
        };
        match self.open_incoming(which, call_id, hash, from, link, received) {
            Some(key) => self.enter(key, received, |call, ctx| call.handle_message(ctx, message, from)),
            None => self.out_of_call(message, received),
        }
    }

    /// `-oocsf` takes every request, `-aa` those it answers within calls too.
    fn answers_outside_calls(&self, message: &Incoming<'_>) -> bool {
        let StartLine::Request { method, .. } = message.start else { return false };
        let usual = matches!(method, b"INFO" | b"NOTIFY" | b"OPTIONS" | b"UPDATE");
        self.envs.out_of_call.is_some() && (self.answers_all || usual)
    }

    fn out_of_call(&mut self, message: &Incoming<'_>, received: Instant) {
        self.stats.count(Count::OutOfCallMsgs);
        let text = format!(
            "Discarding message which can't be mapped to a known call:\n{}",
            String::from_utf8_lossy(message.bytes)
        );
        self.error(received, text);
    }

    fn open_incoming(
        &mut self,
        which: ScenarioRole,
        call_id: &[u8],
        hash: u64,
        from: SocketAddr,
        link: CallLink,
        received: Instant,
    ) -> Option<Key> {
        // An answer outside calls does not hold up the end of the run.
        if which != ScenarioRole::OutOfCall && !self.hub.try_open(received, u64::MAX) {
            return None;
        }
        let number = match which {
            ScenarioRole::OutOfCall => 0,
            _ => match self.hub.take_number() {
                Some(number) => number,
                None => {
                    self.hub.closed();
                    return None;
                }
            },
        };
        self.net.share(link);
        let identity = CallIdentity {
            number,
            call_id: call_id.into(),
            due: received,
            local: self.net.local_of(link),
            remote: from,
            user: 0,
            incoming: true,
            lines: Box::default(),
        };
        let peer = self.envs.main.options.network.remote_sending.unwrap_or(from);
        self.stats.count(if which == ScenarioRole::OutOfCall {
            Count::AutoAnswered
        } else {
            Count::IncomingCall
        });
        let key = self.open(which, identity, hash, peer, link, received);
        self.soft_end_at_total(number);
        Some(key)
    }

    /// `-m`: the last one was started.
    fn soft_end_at_total(&self, number: u64) {
        if number == self.hub.total {
            self.hub.advance(RunPhase::Soft);
        }
    }

    fn open(
        &mut self,
        which: ScenarioRole,
        identity: CallIdentity,
        hash: u64,
        peer: SocketAddr,
        link: CallLink,
        received: Instant,
    ) -> Key {
        let users = self.users.asked();
        let now = received.max(self.turn);
        let mut ctx = CallContext {
            now,
            received,
            env: self.envs.get(which),
            stats: &mut self.stats,
            out: &mut self.out,
            media: &mut self.media,
            rng: &mut self.rng,
            user: self.users.variables(identity.user),
            users,
        };
        let call = Call::start(&mut ctx, identity);
        let entry = CallEntry { call, which, hash, peer, link, armed: Instant::FAR_FUTURE, open: true };
        let key = self.calls.insert(entry);
        self.settle(key, now);
        key
    }

    /// A call is due: it starts, or is counted blocked.
    pub(super) fn arrive(&mut self, now: Instant, due: Instant) {
        let started = self.start_call(now, due, 0);
        // Beyond `-m` nothing is due. Another shard may just have started the last one.
        if started || !self.hub.all_started() {
            self.stats.count(Count::Due);
            self.stats.add(Count::Blocked, u64::from(!started));
        }
    }

    /// False: try again later.
    pub(super) fn arrive_user(&mut self, now: Instant, user: u32) -> bool {
        let started = self.start_call(now, now, user);
        if started {
            self.stats.count(Count::Due);
        }
        started
    }

    fn start_call(&mut self, now: Instant, due: Instant, user: u32) -> bool {
        self.start_named(now, due, user, None).is_some()
    }

    /// An outgoing call that another instance asks for (3PCC), under its Call-ID.
    pub(super) fn open_commanded(&mut self, call_id: &[u8], now: Instant) -> Option<Key> {
        self.start_named(now, now, 0, Some(call_id))
    }

    fn start_named(&mut self, now: Instant, due: Instant, user: u32, given: Option<&[u8]>) -> Option<Key> {
        let limit = self.hub.limit.load(std::sync::atomic::Ordering::Relaxed);
        if !self.hub.try_open(now, limit) {
            return None;
        }
        let (link, lines) = match self.link_for_call(user) {
            Ok(found) => found,
            Err(error) => {
                self.hub.closed();
                self.blocked_by_system(now, &error);
                return None;
            }
        };
        let Some(number) = self.hub.take_number() else {
            self.net.release(link);
            self.hub.closed();
            return None;
        };
        let local = self.net.local_of(link);
        let options = &self.envs.main.options;
        let remote = options.remote.as_ref().map_or(local, |remote| remote.address);
        let peer = options.network.remote_sending.unwrap_or(remote);
        let format = &options.call.call_id_format;
        let call_id =
            given.map_or_else(|| call_id(format, number, local.ip(), self.envs.main.pid), Into::into);
        let hash = self.hub.keyed.hash(&call_id);
        if let Some(directory) = &self.hub.directory {
            directory.claim(hash, self.index);
        }
        let identity = CallIdentity { number, call_id, due, local, remote, user, incoming: false, lines };
        self.stats.count(Count::OutgoingCall);
        self.stats.start_delay.record(now.since(due));
        let key = self.open(ScenarioRole::Main, identity, hash, peer, link, now);
        self.soft_end_at_total(number);
        Some(key)
    }

    /// With `-ip_field` the call's own lines of the injection files say where it calls from.
    fn link_for_call(&mut self, user: u32) -> std::io::Result<(CallLink, Box<[u32]>)> {
        let options = &self.envs.main.options;
        let per_address = options.network.transport.sockets == Sockets::PerAddress;
        let Some(field) = options.injection.ip_field.filter(|_| per_address) else {
            return Ok((self.net.link_for_call(&self.poll)?, Box::default()));
        };
        let files = &self.envs.main.files;
        let lines = files.lines_for_call(user, self.rng.next_u64());
        let source = files.source_address(&lines, field).map_err(std::io::Error::other)?;
        Ok((self.net.link_from(source)?, lines))
    }

    /// Sockets, ports or descriptors ran out: said once, and it marks the run.
    fn blocked_by_system(&mut self, now: Instant, error: &std::io::Error) {
        if self.reporter.limit.is_none() {
            let text = super::bind::explain_socket(error);
            self.error(now, text.clone());
            self.reporter.limit = Some(text);
        }
    }

    /// Does what a call asked for, then forgets it if it is over, or arms its timer.
    pub(super) fn settle(&mut self, key: Key, now: Instant) {
        let mut effects = std::mem::take(&mut self.out.effects);
        for effect in effects.drain(..) {
            self.perform(key, effect, now);
        }
        self.out.effects = effects;
        let Some(entry) = self.calls.get(key) else { return };
        // It does not linger, or did so long enough.
        let is_past = entry.call.deadline <= now || entry.call.deadline == Instant::FAR_FUTURE;
        if entry.call.over && is_past {
            self.close_call(key);
            if let (Some(entry), Some(directory)) = (self.calls.remove(key), &self.hub.directory) {
                directory.remove(entry.hash);
            }
        } else if entry.call.is_mute() {
            self.close_call(key);
            self.calls.bury(key);
        } else {
            self.arm(key);
        }
    }

    /// It no longer counts as open and gives up a socket of its own. It lingers to answer retransmissions.
    pub(super) fn close_call(&mut self, key: Key) {
        let Some(entry) = self.calls.get_mut(key) else { return };
        if std::mem::take(&mut entry.open) {
            if self.net.release(entry.link) {
                entry.link = CallLink::None;
            }
            self.users.free(entry.call.identity.user);
            if entry.which != ScenarioRole::OutOfCall {
                self.hub.closed();
            }
        }
    }

    fn perform(&mut self, key: Key, effect: Effect, now: Instant) {
        match effect {
            Effect::Send { start, end, to, patience } => self.send(key, start..end, to, patience, now),
            Effect::Command { start, end, peer } => self.command(key, start, end, peer.as_deref()),
            Effect::SetDestination { address, protocol } => {
                let Some(entry) = self.calls.get_mut(key) else { return };
                entry.peer = address;
                match self.net.redirect(entry.link, address, protocol, &self.poll) {
                    Ok(link) => entry.link = link,
                    Err(_) => self.faults.push((key, TransportFault::ConnectFailed)),
                }
            }
            Effect::CloseConnection => {
                let Some(entry) = self.calls.get_mut(key) else { return };
                let link = std::mem::replace(&mut entry.link, CallLink::None);
                self.net.release(link);
            }
            Effect::Shell(command) => {
                if let Err(error) = shell::run(&command) {
                    self.error(now, format!("cannot run {command:?}: {error}"));
                }
            }
            Effect::StopGracefully => self.hub.advance(RunPhase::Soft),
            Effect::StopNow => {
                self.hub.stopped_by_scenario.store(true, std::sync::atomic::Ordering::Release);
                self.hub.advance(RunPhase::Hard);
            }
            Effect::Ended { outcome: CallOutcome::Success | CallOutcome::Failure(_) } => self.close_call(key),
        }
    }

    fn send(&mut self, key: Key, bytes: Range<usize>, to: SendTo, patience: Option<Duration>, now: Instant) {
        let Some(entry) = self.calls.get(key) else { return };
        let target = match to {
            SendTo::Flow => entry.peer,
            SendTo::Source(address) => self.envs.main.options.network.remote_sending.unwrap_or(address),
        };
        self.stats.count(Count::MessagesSent);
        self.stats.add(Count::BytesSent, bytes.len() as u64);
        let tracer = &self.envs.main.tracer;
        if tracer.wants_messages() {
            let transport = self.envs.main.options.network.transport;
            let call_id = &entry.call.identity.call_id;
            tracer.message(now, Direction::Sent, transport, call_id, &self.out.bytes[bytes.clone()]);
        }
        let link = match entry.link {
            CallLink::None if entry.open => self.reconnect(key, target),
            CallLink::None => Ok(self.net.default_link()),
            link => Ok(link),
        };
        let sender = Sender { shard: self.index, call: key, patience };
        let sent = link.and_then(|link| {
            let (shard, to) = match link {
                CallLink::Far(shard, connection) => (shard, ForwardedConnection::Connection(connection)),
                CallLink::Shared => (0, ForwardedConnection::Target(target)),
                link => return self.net.send(link, &self.out.bytes, bytes, target, sender),
            };
            self.outgoing[usize::from(shard)].put_write(&self.out.bytes[bytes], to, sender);
            Ok(())
        });
        if let Err(fault) = sent {
            self.faults.push((key, fault));
        }
    }

    /// A call whose connection was closed sends again: a new one is made for it.
    fn reconnect(&mut self, key: Key, target: SocketAddr) -> Result<CallLink, TransportFault> {
        let link = self.net.reconnect(target, &self.poll)?;
        if let Some(entry) = self.calls.get_mut(key) {
            entry.link = link;
        }
        Ok(link)
    }
}

/// Line ends or zeros that keep a NAT open.
fn is_keepalive(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| matches!(byte, b'\r' | b'\n' | 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keepalives_are_told_from_mistakes() {
        assert!(is_keepalive(b"\r\n\r\n") && is_keepalive(b"\0\0\0\0") && !is_keepalive(b"\r\nx"));
    }
}

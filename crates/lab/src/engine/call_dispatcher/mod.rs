//! The calls of one shard: messages go to their calls ([`handle`](CallDispatcher::handle)), arrivals start new calls
//! (`start`), the calls' effects go to sockets (`effects`), and commands to other instances (`commands`). The shard's loop
//! ([`Shard`](super::shard::Shard)) calls it with what is due.

mod commands;
mod effects;
mod start;

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;

use lab_sip::call::message::{Incoming, StartLine};
use lab_sip::call::{Call, CallContext, CallEnv, CallOutbox, ScenarioRole, TransportFault, can_begin};
use lab_sip::rtp::MediaStreams;
use lab_sip::scenario::model::Role;
use lab_sip::stats::{Count, Stats};
use lab_sip::trace::Direction;
use mio::Poll;
use mmsg::{BATCH, Receiver};
use stdx::rng::Rng;
use stdx::slab::Key;
use stdx::time::Instant;
use stdx::wheel::Wheel;

use super::calls::{CallLink, Calls};
use super::clock::TurnClock;
use super::limits::{BATCHES_A_TURN, TICK_MICROS};
use super::report::Reporter;
use super::shard_hub::{InboxContent, RunPhase, ShardHub};
use super::shard_sockets::ShardSockets;
use super::twin::Twins;
use super::user_variables::UserVariables;

/// The socket or connection that a message came in by.
#[derive(Debug, Clone, Copy)]
pub(super) enum MessageOrigin {
    Link(CallLink),
    /// From another shard, which has already looked for its call; the connection it has it from.
    Shard(Option<CallLink>),
}

/// Scenarios of a run.
/// Each with its options, prepared messages and injection files.
pub(super) struct CallEnvs {
    /// `-sf` or `-sn`: calls that are started, or a server's.
    pub(super) main: CallEnv,
    /// Incoming calls beside a main scenario that starts calls.
    pub(super) receive: Option<CallEnv>,
    /// Messages of no call (`-oocsf`, `-aa`).
    pub(super) out_of_call: Option<CallEnv>,
}

impl CallEnvs {
    pub(super) fn get(&self, which: ScenarioRole) -> &CallEnv {
        let wanted = match which {
            ScenarioRole::Main => None,
            ScenarioRole::Receive => self.receive.as_ref(),
            ScenarioRole::OutOfCall => self.out_of_call.as_ref(),
        };
        // A role without a scenario never gets a call, so the fallback is not reached.
        wanted.unwrap_or(&self.main)
    }
}

/// The calls of one shard and the state they share. Messages go to their calls, arrivals start new calls, the calls' effects
/// go to sockets, to the other shards and to the run.
pub(super) struct CallDispatcher {
    /// The shard's place in `ShardHub::doors`.
    pub(super) index: u16,
    /// State that all shards share.
    pub(super) hub: Arc<ShardHub>,
    pub(super) poll: Poll,
    pub(super) envs: CallEnvs,
    /// By key and by Call-ID, those that linger and the dead ones included.
    pub(super) calls: Calls,
    /// One entry for the earliest time of each call; late entries are ignored by `wake_calls`.
    pub(super) timers: Wheel<Key, TICK_MICROS>,
    /// Messages that calls rendered and effects that they asked for in this turn; the bytes stay until the kernel has taken them.
    pub(super) out: CallOutbox,
    pub(super) rng: Rng,
    /// Counts since the last report.
    pub(super) stats: Stats,
    pub(super) media: MediaStreams,
    pub(super) net: ShardSockets,
    /// Connections to other instances (3PCC).
    pub(super) twins: Twins,
    /// `-users`: those of this shard and their variables.
    pub(super) users: UserVariables,
    /// The present turn: its start, and the times of what is read in it.
    pub(super) turn: TurnClock,
    /// Messages received in this turn, media's included.
    pub(super) messages: u64,
    /// The out-of-call scenario was asked for (`-oocsf`): it takes every request, not only what `-aa` answers.
    pub(super) answers_all: bool,
    /// Messages for other shards, by shard.
    pub(super) outgoing: Vec<InboxContent>,
    /// Faults of the transport, which calls are told of at the end of the turn.
    pub(super) faults: Vec<(Key, TransportFault)>,
    /// Gives the counts to the collector once a second.
    pub(super) reporter: Reporter,
}

impl CallDispatcher {
    /// Batches of one socket. True: it may have more.
    pub(super) fn receive_from(&mut self, key: Key, receiver: &mut Receiver) -> bool {
        let Some(socket) = self.net.udp.handle(key) else { return false };
        for _ in 0..BATCHES_A_TURN {
            let count = receiver.receive(socket.as_fd(), |datagram| {
                if let Some(total) = datagram.drops {
                    let drops = self.net.udp.note_drops(key, total);
                    self.stats.add(Count::ReceiveDrops, drops);
                }
                let received = self.turn.received(datagram.received);
                self.handle(
                    datagram.bytes,
                    datagram.remote,
                    received,
                    MessageOrigin::Link(CallLink::Udp(key)),
                );
            });
            match count {
                // A full batch: more may wait. Fewer: the socket is empty.
                Ok(BATCH) => {}
                Ok(_) => return false,
                // An ICMP error of an earlier datagram, or nothing there.
                Err(error) => return error.kind() != std::io::ErrorKind::WouldBlock,
            }
        }
        true
    }

    /// A message that another shard read. That shard has counted it.
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
        self.messages += 1;
        self.stats.count(Count::MessagesReceived);
        self.stats.add(Count::BytesReceived, bytes.len() as u64);
        self.dispatch(bytes, from, received, origin);
    }

    /// The order of the search: own calls, dead calls, calls of other shards, and only then a new call.
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

    /// Gives a message to the shard of its call. A connection it came by is named as ours there, and is kept open for that shard's answers.
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

    /// A message that was handed over is not handed over again: a call that ended meanwhile would send it in circles.
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
        let which = self.scenario_for(message);
        let phase = self.hub.phase();
        let Some(which) =
            // A run that ends takes no new calls, yet still answers outside calls.
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

    /// The scenario that a message of no call begins a call of. A server answers with its main scenario, a client with the one for incoming
    /// calls, and everything else is answered as `-oocsf` or `-aa` say.
    fn scenario_for(&self, message: &Incoming<'_>) -> Option<ScenarioRole> {
        let answers = if self.envs.main.scenario.role == Role::Server {
            Some(ScenarioRole::Main)
        } else {
            self.envs.receive.as_ref().map(|_| ScenarioRole::Receive)
        };
        let is_request = matches!(message.start, StartLine::Request { .. });
        match answers {
            Some(which) if can_begin(&self.envs.get(which).scenario, message) => Some(which),
            _ if self.answers_outside_calls(message) => Some(ScenarioRole::OutOfCall),
            // Nothing answers the request: it begins a call, which fails by it.
            Some(which) if is_request => Some(which),
            _ => None,
        }
    }

    /// `-aa` means INFO, NOTIFY, OPTIONS and UPDATE. A response never begins a call.
    /// `-oocsf` takes every request, `-aa` those it answers within calls too.
    fn answers_outside_calls(&self, message: &Incoming<'_>) -> bool {
        let StartLine::Request { method, .. } = message.start else { return false };
        let usual = matches!(method, b"INFO" | b"NOTIFY" | b"OPTIONS" | b"UPDATE");
        self.envs.out_of_call.is_some() && (self.answers_all || usual)
    }

    /// The words of SIPp, which scripts look for in its error files.
    fn out_of_call(&mut self, message: &Incoming<'_>, received: Instant) {
        self.stats.count(Count::OutOfCallMsgs);
        let text = format!(
            "Discarding message which can't be mapped to a known call:\n{}",
            String::from_utf8_lossy(message.bytes)
        );
        self.error(received, text);
    }

    /// A connection is gone. Its calls fail with the connection, or with `-reconnect_close false` make a new one when they next send: a
    /// request that was not answered is sent again at once.
    pub(super) fn tell_calls_of(&mut self, link: CallLink, fault: TransportFault) {
        let goes_on = fault == TransportFault::Closed && !self.envs.main.options.network.reconnect_close;
        let fault = if goes_on { TransportFault::ConnectionLost } else { fault };
        for key in self.calls.with_link(link) {
            if let Some(entry) = self.calls.get_mut(key) {
                entry.link = CallLink::None;
            }
            self.faults.push((key, fault));
        }
    }

    /// Runs one entry point of a call and does what comes of it. `received` is when its cause came, before the turn or in it; what the call
    /// does happens in this turn.
    pub(super) fn enter(
        &mut self,
        key: Key,
        received: Instant,
        step: impl FnOnce(&mut Call, &mut CallContext<'_>),
    ) {
        let Some(entry) = self.calls.get_mut(key) else { return };
        let user = entry.call.identity.user;
        let users = self.users.asked();
        // A message may have come before the turn began, but the call acts in the turn: its clock does not go back behind it.
        let now = received.max(self.turn.start());
        let mut ctx = CallContext {
            now,
            received,
            env: self.envs.get(entry.which),
            stats: &mut self.stats,
            out: &mut self.out,
            media: &mut self.media,
            rng: &mut self.rng,
            user: self.users.variables(user),
            users,
        };
        step(&mut entry.call, &mut ctx);
        self.settle(key, now);
    }

    /// `<init>`, before any shard runs.
    pub(super) fn initialise(&mut self, now: Instant) -> Result<(), String> {
        let mut ctx = CallContext {
            now,
            received: now,
            env: &self.envs.main,
            stats: &mut self.stats,
            out: &mut self.out,
            media: &mut self.media,
            rng: &mut self.rng,
            user: None,
            users: self.users.asked(),
        };
        lab_sip::call::run_init(&mut ctx)
    }

    /// Makes sure that some wheel entry is early enough.
    pub(super) fn arm(&mut self, key: Key) {
        let Some(entry) = self.calls.get_mut(key) else { return };
        if entry.call.deadline < entry.armed {
            entry.armed = entry.call.deadline;
            self.timers.insert(entry.armed, key);
        }
    }

    /// Into the error trace, and among the last errors that the next interval shows.
    pub(super) fn error(&mut self, now: Instant, text: String) {
        self.envs.main.tracer.error(now, &text);
        self.reporter.keep_error(text);
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

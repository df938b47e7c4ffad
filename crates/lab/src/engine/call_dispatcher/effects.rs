//! The effects of calls: messages to send, destinations, the ends of calls and of the run.
//!
//! A call only says what it wants (`CallEffect`). `settle` performs it after each entry into the call, then decides what becomes of the call.

use std::net::SocketAddr;
use std::ops::Range;
use std::time::Duration;

use lab_sip::call::{CallEffect, CallOutcome, ScenarioRole, SendTo, TransportFault};
use lab_sip::stats::Count;
use lab_sip::trace::Direction;
use stdx::slab::Key;
use stdx::time::Instant;

use super::CallDispatcher;
use crate::engine::calls::CallLink;
use crate::engine::shard_hub::{ForwardedConnection, RunPhase};
use crate::engine::shell;
use crate::engine::stream::Sender;

impl CallDispatcher {
    /// Does what a call asked for, then forgets it if it is over, or arms its timer.
    pub(in crate::engine) fn settle(&mut self, key: Key, now: Instant) {
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
        // Over, but late messages may still come: they are to count as such and not to begin a new call.
        } else if entry.call.is_mute() {
            self.close_call(key);
            self.calls.bury(key);
        } else {
            // The call goes on, or lingers until its deadline.
            self.arm(key);
        }
    }

    /// It no longer counts as open and gives up a socket of its own. It lingers to answer retransmissions.
    pub(in crate::engine) fn close_call(&mut self, key: Key) {
        let Some(entry) = self.calls.get_mut(key) else { return };
        if std::mem::take(&mut entry.open) {
            // True for a socket that was its own: a retransmission that it answers leaves by the default socket.
            if self.net.release(entry.link) {
                entry.link = CallLink::None;
            }
            self.users.free(entry.call.identity.user);
            if entry.which != ScenarioRole::OutOfCall {
                self.hub.closed();
            }
        }
    }

    fn perform(&mut self, key: Key, effect: CallEffect, now: Instant) {
        match effect {
            CallEffect::Send { start, end, to, patience } => self.send(key, start..end, to, patience, now),
            CallEffect::Command { start, end, peer } => self.command(key, start, end, peer.as_deref()),
            CallEffect::SetDestination { address, protocol } => {
                let Some(entry) = self.calls.get_mut(key) else { return };
                // The destination changes also when the connection fails: the call is told and may name another.
                entry.peer = address;
                match self.net.redirect(entry.link, address, protocol, &self.poll) {
                    Ok(link) => entry.link = link,
                    Err(_) => self.faults.push((key, TransportFault::ConnectFailed)),
                }
            }
            CallEffect::CloseConnection => {
                let Some(entry) = self.calls.get_mut(key) else { return };
                // The next message of the call connects again.
                let link = std::mem::replace(&mut entry.link, CallLink::None);
                self.net.release(link);
            }
            CallEffect::Shell(command) => {
                if let Err(error) = shell::run(&command) {
                    self.error(now, format!("cannot run {command:?}: {error}"));
                }
            }
            CallEffect::Verify(command) => self.hub.verify(self.index, key, command),
            CallEffect::StopGracefully => self.hub.advance(RunPhase::Soft),
            CallEffect::StopNow => {
                self.hub.stopped_by_scenario.store(true, std::sync::atomic::Ordering::Release);
                self.hub.advance(RunPhase::Hard);
            }
            CallEffect::Ended { outcome: CallOutcome::Success | CallOutcome::Failure(_) } => {
                self.close_call(key);
            }
        }
    }

    fn send(&mut self, key: Key, bytes: Range<usize>, to: SendTo, patience: Option<Duration>, now: Instant) {
        let Some(entry) = self.calls.get(key) else { return };
        let target = match to {
            // `Flow` is the call's destination; `Source` is where a request came from, which `-rsa` overrides.
            SendTo::Flow => entry.peer,
            SendTo::Source(address) => self.envs.main.options.network.remote_sending.unwrap_or(address),
        };
        // Counted when the call sends, not when the kernel takes it: what is refused is a fault besides.
        self.stats.count(Count::MessagesSent);
        self.stats.add(Count::BytesSent, bytes.len() as u64);
        let tracer = &self.envs.main.tracer;
        if tracer.wants_messages() {
            let transport = self.envs.main.options.network.transport;
            let call_id = &entry.call.identity.call_id;
            tracer.message(now, Direction::Sent, transport, call_id, &self.out.bytes[bytes.clone()]);
        }
        let link = match entry.link {
            // An open call without a connection makes a new one. A closed one that repeats an answer gets no connection for that.
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

//! New calls: those that arrive by the schedule, by a message of the network or by a command of another instance.

use std::net::SocketAddr;

use lab_sip::call::render::{CallIdFacts, call_id};
use lab_sip::call::{Call, CallContext, CallIdentity, ScenarioRole};
use lab_sip::options::Sockets;
use lab_sip::stats::Count;
use stdx::slab::Key;
use stdx::time::Instant;

use super::CallDispatcher;
use crate::engine::bind;
use crate::engine::calls::{CallEntry, CallLink};
use crate::engine::limits::LOAD_CALLS;
use crate::engine::shard_hub::RunPhase;

impl CallDispatcher {
    /// A call that a message of the network begins. `-l` does not hold back incoming calls; `-m` does: `None` once it is reached.
    pub(super) fn open_incoming(
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
        // Answers outside calls have no number: they use up none of `-m`.
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
            // The port that the peer reached us by.
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

    /// Makes the call, runs its first steps (a client sends its first request here) and performs their effects.
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
        let now = received.max(self.turn.start());
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
    pub(in crate::engine) fn arrive(&mut self, now: Instant, due: Instant) {
        let started = self.start_call(now, due, 0);
        // Beyond `-m` nothing is due. Another shard may just have started the last one.
        if started || !self.hub.all_started() {
            self.stats.count(Count::Due);
            self.stats.add(Count::Blocked, u64::from(!started));
        }
    }

    /// Arrivals that were due and were not tried before the time of the run was over, as the shard was too far behind. So many of them mark the
    /// run: its rate is not the one that was asked for.
    pub(in crate::engine) fn miss(&mut self, arrivals: u64) {
        let missed = self.hub.take_missed(arrivals);
        self.stats.add(Count::Due, missed);
        self.stats.add(Count::Blocked, missed);
        if missed >= LOAD_CALLS && self.reporter.limit.is_none() {
            let text = "calls that were due were not started before the time of the run was over: use more --threads, or a lower -r";
            self.reporter.limit = Some(text.to_owned());
        }
    }

    /// False: try again later.
    pub(in crate::engine) fn arrive_user(&mut self, now: Instant, due: Instant, user: u32) -> bool {
        let started = self.start_call(now, due, user);
        if started {
            self.stats.count(Count::Due);
        }
        started
    }

    /// `due` may lie before `now`: the difference is the start delay of the report.
    fn start_call(&mut self, now: Instant, due: Instant, user: u32) -> bool {
        self.start_named(now, due, user, None).is_some()
    }

    /// An outgoing call that another instance asks for (3PCC), under its Call-ID.
    pub(in crate::engine) fn open_commanded(&mut self, call_id: &[u8], now: Instant) -> Option<Key> {
        self.start_named(now, now, 0, Some(call_id))
    }

    /// Takes a place under `-l`, a target, a socket and a number, in this order, and gives back what it has when a later step fails. `None`
    /// counts as blocked.
    fn start_named(&mut self, now: Instant, due: Instant, user: u32, given: Option<&[u8]>) -> Option<Key> {
        let limit = self.hub.limit.load(std::sync::atomic::Ordering::Relaxed);
        if !self.hub.try_open(now, limit) {
            return None;
        }
        let options = &self.envs.main.options;
        let in_turn = match options.network.in_turn.as_slice() {
            [] => None,
            addresses => self.hub.take_turn(addresses),
        };
        let named = in_turn.or(options.remote.as_ref().map(|remote| remote.address));
        let (link, lines) = match self.link_for_call(user, named) {
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
        // 3PCC instances may have no target of their own: commands and received messages name it later.
        let remote = named.unwrap_or(local);
        let peer = options.network.remote_sending.unwrap_or(remote);
        let call_id = match given {
            Some(given) => given.into(),
            None => {
                let facts = CallIdFacts { number, ip: local.ip(), pid: self.envs.main.pid, now };
                call_id(&options.call, &facts, &mut self.rng)
            }
        };
        let hash = self.hub.keyed.hash(&call_id);
        // The answers may arrive at another shard, which looks here for the owner.
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
    fn link_for_call(
        &mut self,
        user: u32,
        named: Option<SocketAddr>,
    ) -> std::io::Result<(CallLink, Box<[u32]>)> {
        let options = &self.envs.main.options;
        let per_address = options.network.transport.sockets == Sockets::PerAddress;
        let Some(field) = options.injection.ip_field.filter(|_| per_address) else {
            return Ok((self.net.link_for_call(named, &self.poll)?, Box::default()));
        };
        let files = &self.envs.main.files;
        let lines = files.lines_for_call(user, self.rng.next_u64());
        let source = files.source_address(&lines, field).map_err(std::io::Error::other)?;
        Ok((self.net.link_from(source)?, lines))
    }

    /// Sockets, ports or descriptors ran out: said once, and it marks the run.
    fn blocked_by_system(&mut self, now: Instant, error: &std::io::Error) {
        if self.reporter.limit.is_none() {
            let text = bind::explain_socket(error);
            self.error(now, text.clone());
            self.reporter.limit = Some(text);
        }
    }
}

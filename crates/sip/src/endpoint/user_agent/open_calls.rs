//! Calls to applications from UDP sources that have proved nothing. Two calls of a network are admitted at a time. Further
//! calls wait with a 100 until the network has acknowledged a response, or their patience is over.

use std::collections::{BTreeMap, HashMap, VecDeque};

use stdx::Instant;
use stdx::slab::Key;
use stdx::source::SourcePrefix;

use super::UserAgent;
use crate::endpoint::context::RequestStage;
use crate::endpoint::lower::LowerView;
use crate::limits;
use crate::session::SessionId;

/// Calls are counted by network, since a forged source can be any address of it. Bounded by
/// `limits::UNPROVED_CALLS`, the waiting of a network by `limits::WAITING_CALLS`.
#[derive(Default)]
pub(crate) struct OpenCalls {
    networks: HashMap<SourcePrefix, NetworkCalls>,
    sessions: HashMap<SessionId, SourcePrefix>,
    waiting: usize,
    /// The networks with a waiting call and a free place of their own, in the order in which they get a place of the
    /// shard. There are some only while the shard has no room.
    turns: BTreeMap<u64, SourcePrefix>,
    last_turn: u64,
}

#[derive(Default)]
struct NetworkCalls {
    /// Calls that have begun; at most `limits::UNPROVED_CALLS_OF_NETWORK`.
    sessions: u8,
    /// Contexts in the stage `Waiting`; those that were cancelled meanwhile are not found any more.
    waiting: VecDeque<Key>,
    /// Its key in [`OpenCalls::turns`].
    turn: Option<u64>,
}

/// A waiting call for which a place was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NextCall {
    network: SourcePrefix,
    key: Key,
}

/// The decision on a call from an unproved source.
enum OpenCallDecision {
    Begins,
    Waits,
    Refused,
}

impl OpenCalls {
    /// Counts the call if it may begin. The caller says with [`OpenCalls::begun`] what has become of it.
    fn admit(&mut self, network: SourcePrefix, key: Key) -> OpenCallDecision {
        let is_full = self.sessions.len() >= limits::UNPROVED_CALLS;
        let calls = self.networks.entry(network).or_default();
        if calls.sessions < limits::UNPROVED_CALLS_OF_NETWORK && !is_full {
            calls.sessions += 1;
            return OpenCallDecision::Begins;
        }
        let factor = if network.is_local() { limits::LOCAL_REQUESTS_FACTOR as usize } else { 1 };
        let is_room = calls.waiting.len() < limits::WAITING_CALLS_OF_NETWORK * factor;
        if is_room && self.waiting < limits::WAITING_CALLS {
            calls.waiting.push_back(key);
            self.waiting += 1;
            self.take_turn(network);
            return OpenCallDecision::Waits;
        }
        self.forget_if_empty(network);
        OpenCallDecision::Refused
    }

    /// A call for which a place was taken has begun, or was refused at once (`None`): then its place is the next call's.
    fn begun(&mut self, network: SourcePrefix, session: Option<SessionId>) -> Option<NextCall> {
        let Some(session) = session else { return self.end_one(network) };
        self.sessions.insert(session, network);
        None
    }

    /// A call is over; the one that takes its place, if there is one.
    fn ended(&mut self, session: SessionId) -> Option<NextCall> {
        let network = self.sessions.remove(&session)?;
        self.end_one(network)
    }

    /// One place is free, of the network and of the shard.
    fn end_one(&mut self, network: SourcePrefix) -> Option<NextCall> {
        if let Some(calls) = self.networks.get_mut(&network) {
            calls.sessions = calls.sessions.saturating_sub(1);
        }
        self.take_turn(network);
        self.forget_if_empty(network);
        self.take_next()
    }

    /// Queues a network for a place of the shard, if it has a waiting call and a place of its own.
    fn take_turn(&mut self, network: SourcePrefix) {
        let Some(calls) = self.networks.get_mut(&network) else { return };
        let may_begin = calls.sessions < limits::UNPROVED_CALLS_OF_NETWORK && !calls.waiting.is_empty();
        if may_begin && calls.turn.is_none() {
            self.last_turn += 1;
            calls.turn = Some(self.last_turn);
            self.turns.insert(self.last_turn, network);
        }
    }

    /// Takes the free place of the shard for the first call of the network whose turn it is.
    fn take_next(&mut self) -> Option<NextCall> {
        let (_, network) = self.turns.pop_first()?;
        let calls = self.networks.get_mut(&network)?;
        calls.turn = None;
        let key = calls.waiting.pop_front()?;
        calls.sessions += 1;
        self.waiting -= 1;
        self.take_turn(network);
        Some(NextCall { network, key })
    }

    /// The network has acknowledged something: nothing of it waits any more.
    fn release(&mut self, network: SourcePrefix) -> VecDeque<Key> {
        let Some(calls) = self.networks.get_mut(&network) else { return VecDeque::new() };
        let waiting = std::mem::take(&mut calls.waiting);
        self.waiting -= waiting.len();
        self.leave_turn(network);
        self.forget_if_empty(network);
        waiting
    }

    /// It has waited long enough, or was cancelled.
    fn give_up(&mut self, network: SourcePrefix, key: Key) {
        let Some(calls) = self.networks.get_mut(&network) else { return };
        let before = calls.waiting.len();
        calls.waiting.retain(|waiting| *waiting != key);
        self.waiting -= before - calls.waiting.len();
        if calls.waiting.is_empty() {
            self.leave_turn(network);
        }
        self.forget_if_empty(network);
    }

    /// The network has no waiting call any more.
    fn leave_turn(&mut self, network: SourcePrefix) {
        let turn = self.networks.get_mut(&network).and_then(|calls| calls.turn.take());
        if let Some(turn) = turn {
            self.turns.remove(&turn);
        }
    }

    fn forget_if_empty(&mut self, network: SourcePrefix) {
        if self.networks.get(&network).is_some_and(|calls| calls.sessions == 0 && calls.waiting.is_empty()) {
            self.networks.remove(&network);
        }
    }
}

impl UserAgent {
    /// An INVITE for an application: begun at once where the source is proved.
    pub(crate) fn begin_open_call(&mut self, lower: &mut LowerView<'_>, key: Key) {
        let Some(context) = lower.contexts.get(key) else { return };
        let address = context.source.remote.ip();
        let is_proved = lower
            .transactions
            .table
            .get(context.server)
            .is_none_or(|transaction| transaction.credit.is_none());
        if is_proved || lower.transactions.proofs.is_network_proved(lower.now, address) {
            let _ = self.start_session(lower, key);
            return;
        }
        let network = SourcePrefix::of(address);
        match self.open_calls.admit(network, key) {
            OpenCallDecision::Begins => {
                self.begin_in_place(lower, NextCall { network, key });
            }
            OpenCallDecision::Waits => {
                lower.set_stage(key, RequestStage::Waiting);
                // The patience of a context outlasts this one.
                if let Some(context) = lower.contexts.get_mut(key) {
                    context.armed = Instant::FAR_FUTURE;
                }
                lower.arm_context(key, lower.now + limits::WAITING_CALL_PATIENCE);
            }
            OpenCallDecision::Refused => self.refuse_open_call(lower, key),
        }
    }

    /// Begins the call for which a place was taken, and in the places of calls that are refused at once those that wait.
    fn begin_in_place(&mut self, lower: &mut LowerView<'_>, call: NextCall) {
        let mut next = Some(call);
        while let Some(NextCall { network, key }) = next {
            let session = self.start_session(lower, key);
            next = self.open_calls.begun(network, session);
        }
    }

    /// 503, and when to try again.
    pub(crate) fn refuse_open_call(&mut self, lower: &mut LowerView<'_>, key: Key) {
        lower.counters.unproved_limited += 1;
        let seconds = limits::EVENTS_RETRY_AFTER.to_string();
        let retry = |reply: &mut crate::wire::Reply| {
            reply.header("Retry-After", seconds.as_bytes());
        };
        lower.finish_with(key, 503, "Service Unavailable", retry);
    }

    /// The request ends without a session: cancelled, perhaps while it waited, or after its patience.
    pub(crate) fn give_up_waiting(&mut self, lower: &mut LowerView<'_>, key: Key) {
        let Some(context) = lower.contexts.get(key) else { return };
        let network = SourcePrefix::of(context.source.remote.ip());
        self.open_calls.give_up(network, key);
    }

    /// Calls of this network waited for a proof.
    /// All waiting calls of the network begin, and count for no limit: its addresses are not forged.
    pub(crate) fn release_open_calls(&mut self, lower: &mut LowerView<'_>, network: SourcePrefix) {
        for key in self.open_calls.release(network) {
            let _ = self.start_session(lower, key);
        }
    }

    /// A session is over, of a proved source or not: the call of its network that waited
    /// longest takes its place.
    pub(crate) fn open_call_ended(&mut self, lower: &mut LowerView<'_>, session: SessionId) {
        if let Some(next) = self.open_calls.ended(session) {
            self.begin_in_place(lower, next);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn network(number: usize) -> SourcePrefix {
        SourcePrefix::from(Ipv4Addr::from_bits(0x0800_0000 + u32::try_from(number).unwrap()))
    }

    fn key(number: u64) -> Key {
        Key::from_u64(number)
    }

    /// Begins a call that must begin.
    fn begin(calls: &mut OpenCalls, network: SourcePrefix, number: u64) {
        assert!(matches!(calls.admit(network, key(number)), OpenCallDecision::Begins));
        assert_eq!(calls.begun(network, Some(SessionId(number))), None);
    }

    fn wait(calls: &mut OpenCalls, network: SourcePrefix, number: u64) {
        assert!(matches!(calls.admit(network, key(number)), OpenCallDecision::Waits));
    }

    #[test]
    fn the_place_of_a_call_that_is_refused_at_once_is_the_next_ones() {
        let (mut calls, here) = (OpenCalls::default(), network(1));
        begin(&mut calls, here, 1);
        begin(&mut calls, here, 2);
        (3..=5).for_each(|number| wait(&mut calls, here, number));
        let next = |number| Some(NextCall { network: here, key: key(number) });
        assert_eq!(calls.ended(SessionId(1)), next(3));
        assert_eq!(calls.begun(here, None), next(4), "the third was refused at once");
        assert_eq!(calls.begun(here, Some(SessionId(4))), None);
        wait(&mut calls, here, 6);
        assert_eq!(calls.ended(SessionId(2)), next(5));
        assert_eq!(calls.begun(here, None), next(6));
        assert_eq!(calls.begun(here, None), None, "none waits");
        assert_eq!(calls.ended(SessionId(4)), None);
        assert!(calls.networks.is_empty() && calls.turns.is_empty() && calls.waiting == 0);
    }

    #[test]
    fn a_call_that_waits_for_room_in_the_shard_begins_when_a_call_of_another_network_ends() {
        let mut calls = OpenCalls::default();
        for number in 0..limits::UNPROVED_CALLS {
            begin(&mut calls, network(number), number as u64);
        }
        let [first, second, gone] = [20_000, 20_001, 20_002].map(network);
        wait(&mut calls, gone, 20_002);
        wait(&mut calls, first, 20_000);
        wait(&mut calls, first, 20_003);
        wait(&mut calls, second, 20_001);
        calls.give_up(gone, key(20_002));
        for (ended, network, number) in [(7, first, 20_000), (8, second, 20_001), (9, first, 20_003)] {
            let next = calls.ended(SessionId(ended));
            assert_eq!(next, Some(NextCall { network, key: key(number) }), "networks take turns");
            assert_eq!(calls.begun(network, Some(SessionId(number))), None);
        }
        assert_eq!(calls.ended(SessionId(10)), None);
        assert!(calls.turns.is_empty() && calls.waiting == 0);
        begin(&mut calls, network(30_000), 30_000);
        wait(&mut calls, network(30_001), 30_001);
        assert_eq!(calls.release(network(30_001)), [key(30_001)]);
        assert_eq!(calls.ended(SessionId(30_000)), None, "a released call waits for no place");
    }
}

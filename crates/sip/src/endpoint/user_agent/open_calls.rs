//! Calls to applications from UDP sources that have proved nothing. Two calls of a network are admitted at a time. Further
//! calls wait with a 100 until the network has acknowledged a response, or their patience is over.

use std::collections::{HashMap, VecDeque};

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
}

#[derive(Default)]
struct NetworkCalls {
    /// Calls that have begun; at most `limits::UNPROVED_CALLS_OF_NETWORK`.
    sessions: u8,
    /// Contexts in the stage `Waiting`; those that were cancelled meanwhile are not found any more.
    waiting: VecDeque<Key>,
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
            return OpenCallDecision::Waits;
        }
        self.forget_if_empty(network);
        OpenCallDecision::Refused
    }

    fn begun(&mut self, network: SourcePrefix, session: Option<SessionId>) {
        match session {
            Some(session) => drop(self.sessions.insert(session, network)),
            // It was refused at once.
            None => drop(self.end_one(network)),
        }
    }

    /// A call is over; the one that takes its place, if there is one.
    fn ended(&mut self, session: SessionId) -> Option<Key> {
        let network = self.sessions.remove(&session)?;
        self.end_one(network)
    }

    fn end_one(&mut self, network: SourcePrefix) -> Option<Key> {
        let calls = self.networks.get_mut(&network)?;
        calls.sessions = calls.sessions.saturating_sub(1);
        let next = calls.waiting.pop_front();
        self.waiting -= usize::from(next.is_some());
        self.forget_if_empty(network);
        next
    }

    /// The network has acknowledged something: nothing of it waits any more.
    fn release(&mut self, network: SourcePrefix) -> VecDeque<Key> {
        let Some(calls) = self.networks.get_mut(&network) else { return VecDeque::new() };
        let waiting = std::mem::take(&mut calls.waiting);
        self.waiting -= waiting.len();
        self.forget_if_empty(network);
        waiting
    }

    /// It has waited long enough, or was cancelled.
    fn give_up(&mut self, network: SourcePrefix, key: Key) {
        let Some(calls) = self.networks.get_mut(&network) else { return };
        let before = calls.waiting.len();
        calls.waiting.retain(|waiting| *waiting != key);
        self.waiting -= before - calls.waiting.len();
        self.forget_if_empty(network);
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
                let session = self.start_session(lower, key);
                self.open_calls.begun(network, session);
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
            self.begin_open_call(lower, next);
        }
    }
}

//! The events of calls for the ledger and for the watchers of accounts: begun, ringing, answered, failed, ended.
//!
//! A call is named by the keyed hash of its Call-ID and its caller's tag, so that a second caller under the same
//! Call-ID has a call of its own. It ends with the BYE of the dialog that was answered (RFC 3261 §15), once the
//! other side has agreed to it: knowledge of a Call-ID ends nothing.

use router::Aor;
use stdx::slab::Key;

use super::{LowerLayers, LowerView};
use crate::endpoint::context::RequestStage;
use crate::endpoint::environment::call_stamp::call_of_dead;
use crate::endpoint::environment::{Environment, Keys};
use crate::endpoint::ladders::begin_ladder;
use crate::endpoint::{CallEvent, CallEventKind, Caller, EndpointEffect};
use crate::proxy::FinalResponse;
use crate::wire::{Message, Method, lossy};

impl Keys {
    /// A call of this caller.
    pub(crate) fn call_of(&self, call_id: &[u8], caller_tag: &[u8]) -> u64 {
        self.call.hash_parts(&[b"call", call_id, caller_tag])
    }

    /// One callee of it.
    fn leg_of(&self, call_id: &[u8], callee_tag: &[u8]) -> u64 {
        self.call.hash_parts(&[b"leg", call_id, callee_tag])
    }
}

impl LowerView<'_> {
    pub(crate) fn note_call(&mut self, key: Key, kind: CallEventKind) {
        let Some(request) = self.contexts.get(key).map(|context| &context.request) else { return };
        let (Some(call_id), Some(caller)) = (request.call_id(), request.from_tag()) else { return };
        self.out.push(EndpointEffect::Call(CallEvent {
            call: self.env.keys.call_of(call_id, caller),
            leg: 0,
            kind,
        }));
    }

    pub(crate) fn note_failed(&mut self, key: Key, status: u16, reason: &str) {
        self.counters.failed += 1;
        self.note_call(key, CallEventKind::Failed { status, reason: reason.into() });
    }

    /// A call that ends before it has gone anywhere. A challenge (RFC 3261 §22.1) is no end: the caller sends its INVITE again.
    /// Tells the ledger of a refused call. Merged and looping requests (§8.2.2.2, §16.3) are copies of a call that has its own events.
    pub(crate) fn note_refused(&mut self, key: Key, status: u16, reason: &str) {
        let Some(context) = self.contexts.get(key) else { return };
        let is_told_elsewhere = matches!(context.stage, RequestStage::Proxying(_) | RequestStage::Session(_));
        if !context.starts_call()
            || status < 300
            || matches!(status, 401 | 407 | 440 | 482)
            || is_told_elsewhere
        {
            return;
        }
        begin_ladder(self, key);
        let Some(context) = self.contexts.get(key) else { return };
        let caller = context.caller.as_ref().and_then(Caller::account);
        let event = refused(&context.request, caller, context.callee.clone(), (status, reason));
        self.note_call(key, event);
    }

    /// The first provisional response with a tag to the INVITE that starts a call.
    pub(crate) fn note_ringing(&mut self, response: &Message) {
        let (Some(call_id), Some(caller)) = (response.call_id(), response.from_tag()) else { return };
        let call = self.env.keys.call_of(call_id, caller);
        let kind = CallEventKind::Ringing { callee_tag: lossy(response.to_tag()) };
        self.out.push(EndpointEffect::Call(CallEvent { call, leg: 0, kind }));
    }

    /// The first 2xx to the INVITE that starts a call.
    pub(crate) fn note_answered(&mut self, response: &Message) {
        let (Some(call_id), Some(caller)) = (response.call_id(), response.from_tag()) else { return };
        let call = self.env.keys.call_of(call_id, caller);
        if self.is_sent_elsewhere {
            let event = CallEvent { call, leg: 0, kind: CallEventKind::Withdrawn };
            return self.out.push(EndpointEffect::Call(event));
        }
        self.counters.answered += 1;
        let leg = self.env.keys.leg_of(call_id, response.to_tag().unwrap_or_default());
        self.answered.insert(call ^ leg, ());
        let kind = CallEventKind::Answered { callee_tag: lossy(response.to_tag()) };
        self.out.push(EndpointEffect::Call(CallEvent { call, leg, kind }));
    }

    /// A BYE had a 2xx.
    pub(crate) fn note_bye_accepted(&mut self, key: Key) {
        let Some(context) = self.contexts.get(key) else { return };
        let (request, RequestStage::Proxying(proxied)) = (&context.request, &context.stage) else { return };
        if request.method() != Method::Bye {
            return;
        }
        let from_caller = proxied.purpose().within.map(|proof| proof.from_caller);
        // It is `None` while the node is alone, and of most calls of a farm.
        let taken_over = from_caller.and_then(|from_caller| taken_over(self.env, request, from_caller));
        let (from, to) = (request.from_tag(), request.to_tag());
        for (is_of_caller, caller, callee) in [(true, from, to), (false, to, from)] {
            if from_caller.is_some_and(|from_caller| from_caller != is_of_caller) {
                continue;
            }
            let Some((call, leg)) = self.env.name_of(request, caller, callee) else { continue };
            if let Some(kind) = &taken_over {
                self.out.push(EndpointEffect::Call(CallEvent { call, leg, kind: kind.clone() }));
            }
            self.out.push(EndpointEffect::Call(CallEvent { call, leg, kind: CallEventKind::Ended }));
            // Without a token of ours either side may have sent it: a name that no call has changes nothing.
            if self.answered.remove(&(call ^ leg)).is_some() {
                break;
            }
        }
    }

    /// A BYE had another final response, or none. RFC 3261 §15.1.1: the dialog is over for its sender after 481, 408
    /// and silence, which counts where the sender has proved to be in it.
    pub(crate) fn note_bye_failed(&mut self, key: Key, outcome: &FinalResponse) {
        let is_over = outcome.response.is_none() || matches!(outcome.status, 408 | 481);
        let is_proved = match self.contexts.get(key).map(|context| &context.stage) {
            Some(RequestStage::Proxying(proxied)) => proxied.purpose().within.is_some(),
            _ => false,
        };
        if is_over && is_proved {
            self.note_bye_accepted(key);
        }
    }
}

impl LowerLayers {
    /// True if the request has the Call-ID and both tags of a call that was answered here and has not ended.
    /// COMPAT(sipp): its built-in uac keeps no Route, which would prove the same.
    pub(crate) fn is_in_known_call(&self, request: &Message) -> bool {
        let (from, to) = (request.from_tag(), request.to_tag());
        let names = [self.env.name_of(request, from, to), self.env.name_of(request, to, from)];
        names.iter().flatten().any(|(call, leg)| self.answered.get(&(call ^ leg)).is_some())
    }
}

impl Environment {
    /// Call and leg of a request, when these are the tags of its caller and its callee.
    pub(crate) fn name_of(
        &self,
        request: &Message,
        caller: Option<&[u8]>,
        callee: Option<&[u8]>,
    ) -> Option<(u64, u64)> {
        let call_id = request.call_id()?;
        Some((self.keys.call_of(call_id, caller?), self.keys.leg_of(call_id, callee?)))
    }
}

/// The event of an INVITE that is refused with this status and reason.
pub(crate) fn refused(
    request: &Message,
    caller: Option<Aor>,
    callee: Option<Aor>,
    (status, reason): (u16, &str),
) -> CallEventKind {
    CallEventKind::Refused {
        call_id: lossy(request.call_id()),
        from: lossy(request.from().map(|address| address.uri)),
        to: lossy(Some(request.uri())),
        caller,
        callee,
        status,
        reason: reason.into(),
    }
}

/// The call that a BYE ends, when the ledger that has it died with its node.
fn taken_over(env: &Environment, request: &Message, from_caller: bool) -> Option<CallEventKind> {
    let stamp = call_of_dead(env, request, from_caller)?;
    let [from, to] = [request.from(), request.to()].map(|address| address.map(|address| address.uri));
    let (caller, callee) = if from_caller { (from, to) } else { (to, from) };
    Some(CallEventKind::TakenOver {
        call_id: lossy(request.call_id()),
        from: lossy(caller),
        to: lossy(callee),
        start: stamp.start,
        answer: stamp.answer.unwrap_or(stamp.start),
    })
}

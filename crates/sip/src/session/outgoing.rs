//! An INVITE of ours: forks, early dialogs, answers, refusals, its end by CANCEL. RFC 3261 §13.2, §9.1; RFC
//! 3262 §4.
//!
//! One INVITE may be answered by several phones. Each provisional response with another To tag is an early
//! dialog of its own, with its own PRACKs; the first 2xx makes the session, and a later one of another fork
//! is acknowledged and ended by a BYE, for 64*T1. A challenged INVITE and one that is refused for its
//! interval are sent again as new transactions of the same session. Also here: the ways of responses to all
//! requests of sessions.

use bytes::Bytes;
use stdx::Instant;
use stdx::rng::Rng;
use stdx::slab::Key;

use super::body::sdp_of;
use super::refresh;
use super::{
    Cause, CommandError, Dialog, Invite, PendingRequest, PendingRequests, RequestPurpose, SDP, Session,
    SessionEffect, SessionEffects, SessionEvent, SessionId, SessionStage, SessionTimer, Sessions, auth,
    describe_request,
};
use crate::endpoint::{CallEventKind, ListedUnder};
use crate::events::{OutgoingRoute, RequestId};
use crate::limits;
use crate::transaction::TIMEOUT;
use crate::wire::{Header, Message, Rewrite, lossy};

/// The number of times that one request is sent again with credentials: a nonce may be stale, and a proxy may
/// ask as well.
pub(super) const CHALLENGES: u8 = 2;

/// Our INVITE that waits for its final response. Boxed in the stage, as sessions that are up have none.
pub(super) struct OutgoingInvite {
    request: u64,
    /// At most `limits::FORK_BRANCHES`.
    early: Vec<EarlyDialog>,
    /// A CANCEL may be sent at once (RFC 3261 §9.1).
    had_response: bool,
    cancel: CancelState,
    /// The value of Reason in the CANCEL; empty for none.
    cancel_reason: Box<str>,
    /// When ringing, or the wait after CANCEL, has been long enough.
    pub(super) deadline: Instant,
}

impl OutgoingInvite {
    /// An INVITE that has no number and no response yet.
    fn new(deadline: Instant) -> Self {
        OutgoingInvite {
            request: 0,
            early: Vec::new(),
            had_response: false,
            cancel: CancelState::No,
            cancel_reason: Box::default(),
            deadline,
        }
    }
}

/// One early dialog of a forked INVITE: RSeq numbers are counted for each (RFC 3262 §4).
struct EarlyDialog {
    dialog: Dialog,
    rseq: u32,
    /// A reliable response has answered our offer.
    has_answer: bool,
}

/// RFC 3261 §9.1: a CANCEL waits for a provisional response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CancelState {
    /// The call is wanted.
    No,
    /// RFC 3261 §9.1: not before a provisional response.
    Wanted,
    /// A final response is awaited, until `OutgoingInvite::deadline`.
    Sent,
}

/// An INVITE of ours whose 2xx may come again, or from further forks, for 64*T1 (RFC 3261 §13.2.2.4). It
/// outlives its session.
pub(super) struct AcknowledgedInvite {
    /// The dialog before a response: those of further forks are made of it.
    base: Dialog,
    parts: AckParts,
    /// By To tag of the 2xx: the ACK, to be sent again as it is.
    acks: Vec<(Box<[u8]>, Bytes, OutgoingRoute)>,
}

/// The parts of an INVITE that each ACK of its 2xx has (RFC 3261 §13.2.2.4).
struct AckParts {
    cseq: u32,
    /// Lines of Authorization and Proxy-Authorization: an ACK cannot be challenged.
    credentials: Vec<(Header, Box<[u8]>)>,
}

impl AckParts {
    fn of(invite: &Message) -> AckParts {
        let lines = |header| invite.header_lines(header).map(move |line| (header, Box::<[u8]>::from(line)));
        let headers = [Header::Authorization, Header::ProxyAuthorization];
        let cseq = invite.cseq().map_or(0, |(number, _)| number);
        AckParts { cseq, credentials: headers.into_iter().flat_map(lines).collect() }
    }

    /// The ACK within that dialog.
    fn ack(&self, dialog: &Dialog) -> (Bytes, OutgoingRoute) {
        let (mut request, onward) = dialog.request_numbered("ACK", self.cseq);
        for (header, line) in &self.credentials {
            request.header(header.as_str(), line);
        }
        (request.finish(), onward)
    }
}

/// The end of a request of ours: the peer's response, or 408 or 503 of our own.
pub(super) struct RequestOutcome<'a> {
    pub(super) status: u16,
    pub(super) response: Option<&'a Message>,
}

impl OutgoingInvite {
    /// True if the request belongs to one of the early dialogs.
    pub(super) fn has_dialog(&self, request: &Message) -> bool {
        self.early.iter().any(|early| early.dialog.is_of(request))
    }

    /// True if the offer of the INVITE is answered in the early dialog that the request belongs to.
    pub(super) fn has_answer_in(&self, request: &Message) -> bool {
        self.early.iter().any(|early| early.has_answer && early.dialog.is_of(request))
    }

    /// The early dialog that the request belongs to.
    pub(super) fn dialog_of(&mut self, request: &Message) -> Option<&mut Dialog> {
        self.early.iter_mut().map(|early| &mut early.dialog).find(|dialog| dialog.is_of(request))
    }
}

impl Sessions {
    /// Places a call.
    ///
    /// # Errors
    /// Too many sessions, no offer, or a target or headers that make no valid message.
    pub(crate) fn invite(
        &mut self,
        now: Instant,
        invite: Invite,
        out: &mut SessionEffects,
    ) -> Result<SessionId, CommandError> {
        // Without an offer the answer to theirs would have to go with the ACK, which is sent at once.
        if self.sessions.len() >= limits::SESSIONS || invite.offer.is_empty() {
            return Err(CommandError::Refused);
        }
        let tag = self.tag();
        let call_id: Box<[u8]> = match &*invite.call_id {
            "" => self.rng.token(limits::TAG_CHARS).into_bytes().into(),
            chosen => chosen.as_bytes().into(),
        };
        let dialog = Dialog::calling(&invite, call_id, tag.clone()).ok_or(CommandError::Refused)?;
        let patience = if invite.timeout.is_zero() { limits::RING_PATIENCE } else { invite.timeout };
        let deadline = now + patience;
        let calling = OutgoingInvite::new(deadline);
        let mut session = Session::new(dialog, SessionStage::Calling(Box::new(calling)));
        session.owns_call_id = true;
        session.login = invite.login.map(Box::new);
        session.local_sdp = invite.offer.clone();
        let (mut request, onward) = session.dialog.request("INVITE");
        describe_request(&mut request);
        if !self.rules.expires.is_zero() {
            request.header("Session-Expires", self.rules.expires.as_secs().to_string().as_bytes());
        }
        for (name, value) in &invite.headers {
            request.header(name, value.as_bytes());
        }
        if !invite.asserted.is_empty() {
            request.header(Header::PAssertedIdentity.as_str(), invite.asserted.as_bytes());
        }
        let mut bytes = request.finish_with(SDP, &invite.offer);
        // Instead of the 70 that the builder writes: the hops that the application's call has left.
        if invite.hops > 0
            && let Ok(message) = Message::parse(bytes.clone())
        {
            let mut rewrite = Rewrite::new(&message);
            rewrite.set(Header::MaxForwards, |text| {
                text.extend_from_slice(invite.hops.to_string().as_bytes());
            });
            bytes = rewrite.finish();
        }
        // Headers of applications must leave it a valid message.
        if Message::parse(bytes.clone()).is_err() {
            return Err(CommandError::Refused);
        }
        let started = started(&session.dialog, &invite.from, &invite.target, invite.listed);
        let key = self.insert(session);
        out.push(started);
        if let Some(session) = self.sessions.get_mut(key) {
            let id = self.requests.send(session, RequestPurpose::Invite, bytes, onward, out);
            session.note_request(id);
        }
        self.arm(key);
        Ok(SessionId(key.to_u64()))
    }

    /// A response to a request of ours. One for a request that has ended, or a repetition, finds nothing and
    /// is ignored.
    pub(crate) fn handle_response(
        &mut self,
        now: Instant,
        id: RequestId,
        response: &Message,
        out: &mut SessionEffects,
    ) {
        if self.acknowledged.contains_key(&id.0) {
            return self.handle_further_success(id.0, response, out);
        }
        if self.messages.contains(id) {
            if response.status() >= 200 {
                let (messages, requests, rng) = (&mut self.messages, &mut self.requests, &mut self.rng);
                messages.handle_final(requests, rng, id, response.status(), Some(response), out);
            }
            return;
        }
        let Some(pending) = self.requests.by_id.get(&id.0) else { return };
        let (key, purpose) = (pending.key, pending.purpose);
        if response.status() < 200 {
            if purpose == RequestPurpose::Invite {
                if let Some(session) = self.sessions.get_mut(key) {
                    session.handle_provisional(now, &mut self.requests, id.0, response, out);
                }
                self.arm(key);
            }
            return;
        }
        let Some(pending) = self.take_request(id) else { return };
        let Some(session) = self.sessions.get_mut(key) else { return };
        let pending = session.prove(&mut self.requests, &mut self.rng, pending, response, out);
        let Some(pending) = pending else { return };
        let end = RequestOutcome { status: response.status(), response: Some(response) };
        self.handle_final(now, id.0, &pending, &end, out);
    }

    /// No response came (408), or it could not be sent (503).
    pub(crate) fn handle_failure(
        &mut self,
        now: Instant,
        id: RequestId,
        status: u16,
        out: &mut SessionEffects,
    ) {
        if self.messages.handle_final(&mut self.requests, &mut self.rng, id, status, None, out) {
            return;
        }
        let Some(pending) = self.take_request(id) else { return };
        self.handle_final(now, id.0, &pending, &RequestOutcome { status, response: None }, out);
    }

    /// The end of a request, by its purpose; also one that a challenge was not answered for.
    fn handle_final(
        &mut self,
        now: Instant,
        id: u64,
        pending: &PendingRequest,
        end: &RequestOutcome<'_>,
        out: &mut SessionEffects,
    ) {
        let key = pending.key;
        let Some(session) = self.sessions.get_mut(key) else { return };
        match pending.purpose {
            RequestPurpose::Invite => self.handle_invite_final(now, id, pending, end, out),
            RequestPurpose::Offer { refresh } => self.handle_offer_final(now, id, pending, end, refresh, out),
            RequestPurpose::Bye => self.remove(key, out),
            RequestPurpose::Refer => {
                let status = end.status;
                session.emit(|session| SessionEvent::ReferAnswered { session, status }, out);
            }
            RequestPurpose::Told(method) => {
                let status = end.status;
                session.emit(|session| SessionEvent::Responded { session, method, status }, out);
            }
            RequestPurpose::Quiet => {}
        }
        let is_in_dialog = !matches!(pending.purpose, RequestPurpose::Invite | RequestPurpose::Bye);
        if is_in_dialog {
            self.check_gone(key, end.status, out);
        }
        self.arm(key);
    }

    /// RFC 5057 §5.1: 481 ends the dialog, 408 leaves only the BYE to be tried.
    fn check_gone(&mut self, key: Key, status: u16, out: &mut SessionEffects) {
        let Some(session) = self.sessions.get_mut(key) else { return };
        match status {
            481 => self.vanish(key, Cause::Gone { status }, out),
            408 => session.leave(&mut self.requests, Cause::Gone { status }, None, out),
            _ => {}
        }
    }

    /// The end of our INVITE: an answer, another try, or the end of the call.
    fn handle_invite_final(
        &mut self,
        now: Instant,
        id: u64,
        pending: &PendingRequest,
        end: &RequestOutcome<'_>,
        out: &mut SessionEffects,
    ) {
        let key = pending.key;
        let success = end.response.filter(|_| (200..300).contains(&end.status));
        if let Some(response) = success {
            return self.handle_answered(now, id, pending, response, out);
        }
        let Some(session) = self.sessions.get_mut(key) else { return };
        if end.status == 422 && session.lengthen(&mut self.requests, pending, end.response, out) {
            return;
        }
        let response = end.response.map(|response| Box::new(response.clone()));
        self.vanish(key, Cause::Failed { status: end.status, response }, out);
    }

    /// The first 2xx makes the session; the other forks' early dialogs end with it (RFC 3261 §13.2.2.4).
    fn handle_answered(
        &mut self,
        now: Instant,
        id: u64,
        pending: &PendingRequest,
        response: &Message,
        out: &mut SessionEffects,
    ) {
        let (key, rules) = (pending.key, self.rules);
        let Some(session) = self.sessions.get_mut(key) else { return };
        let Some(mut dialog) = session.dialog.of_response(response) else {
            return self.vanish(key, Cause::Failed { status: 502, response: None }, out);
        };
        if let SessionStage::Calling(calling) = &session.stage
            && let Some(early) =
                calling.early.iter().find(|early| early.dialog.remote_tag == dialog.remote_tag)
        {
            dialog.confirm(&early.dialog);
        }
        let base = std::mem::replace(&mut session.dialog, dialog);
        session.note_allow(response);
        // Also when the call was given up: the BYE needs the dialog.
        session.stage = SessionStage::Up;
        let was_cancelled = session.has_ended;
        if !was_cancelled {
            session.was_up = true;
            session.refresh = refresh::of_response(now, rules, response);
        }
        let callee_tag = lossy(response.to_tag());
        let answered = session.dialog.call_effect(CallEventKind::Answered { callee_tag });
        self.acknowledge(now, id, pending, base, out);
        let Some(session) = self.sessions.get_mut(key) else { return };
        if was_cancelled {
            // The CANCEL came too late.
            session.stage = SessionStage::Ending;
            return session.send_bye(&mut self.requests, None, out);
        }
        out.push(answered);
        let response = Box::new(response.clone());
        session.emit(|session| SessionEvent::Answered { session, response }, out);
    }

    /// Sends the ACK of a 2xx, and keeps it for the next.
    pub(super) fn acknowledge(
        &mut self,
        now: Instant,
        id: u64,
        pending: &PendingRequest,
        base: Dialog,
        out: &mut SessionEffects,
    ) {
        let Some(session) = self.sessions.get(pending.key) else { return };
        let parts = AckParts::of(&pending.message);
        let (bytes, onward) = parts.ack(&session.dialog);
        let acks = vec![(session.dialog.remote_tag.clone(), bytes.clone(), onward.clone())];
        self.acknowledged.insert(id, AcknowledgedInvite { base, parts, acks });
        self.wheel.insert(now + TIMEOUT, SessionTimer::Acknowledged(id));
        out.push(SessionEffect::Ack { bytes, onward });
    }

    /// A 2xx again: the same ACK. From another fork: an ACK and a BYE.
    fn handle_further_success(&mut self, id: u64, response: &Message, out: &mut SessionEffects) {
        let Some(known) = self.acknowledged.get_mut(&id) else { return };
        let Some(tag) = response.to_tag().filter(|_| (200..300).contains(&response.status())) else { return };
        if let Some((_, bytes, onward)) = known.acks.iter().find(|(acked, ..)| **acked == *tag) {
            return out.push(SessionEffect::Ack { bytes: bytes.clone(), onward: onward.clone() });
        }
        if known.acks.len() >= limits::FORK_BRANCHES {
            return;
        }
        let Some(mut dialog) = known.base.of_response(response) else { return };
        let (ack, onward) = known.parts.ack(&dialog);
        known.acks.push((tag.into(), ack.clone(), onward.clone()));
        out.push(SessionEffect::Ack { bytes: ack, onward });
        // Its answer is not waited for.
        let (request, onward) = dialog.request("BYE");
        let id = RequestId(self.requests.next_id());
        out.push(SessionEffect::Request { id, bytes: request.finish(), onward });
    }

    /// The call rang long enough, or no final response came after the CANCEL.
    pub(super) fn wake_calling(&mut self, now: Instant, key: Key, out: &mut SessionEffects) {
        let Some(session) = self.sessions.get_mut(key) else { return };
        let SessionStage::Calling(calling) = &mut session.stage else { return };
        if calling.deadline > now {
            return;
        }
        match calling.cancel {
            CancelState::No => session.give_up_calling(now, Cause::Timeout, None, out),
            CancelState::Wanted | CancelState::Sent => self.remove(key, out),
        }
    }
}

impl Session {
    /// The number of the INVITE that is under way now.
    pub(super) fn note_request(&mut self, id: u64) {
        if let SessionStage::Calling(calling) = &mut self.stage {
            calling.request = id;
        }
    }

    /// Sends it again with credentials when it was challenged and we have some; else gives it back.
    fn prove(
        &mut self,
        requests: &mut PendingRequests,
        rng: &mut Rng,
        mut pending: PendingRequest,
        response: &Message,
        out: &mut SessionEffects,
    ) -> Option<PendingRequest> {
        let Some(login) = self.login.as_deref().filter(|_| pending.challenges < CHALLENGES) else {
            return Some(pending);
        };
        // A cancelled call is not placed once more.
        if self.has_ended && pending.purpose == RequestPurpose::Invite {
            return Some(pending);
        }
        let number = self.dialog.local_cseq + 1;
        let Some(bytes) = auth::answer(rng, &pending.message, response, login, number) else {
            return Some(pending);
        };
        self.dialog.local_cseq = number;
        pending.challenges += 1;
        requests.send_again(self, pending, bytes, out);
        None
    }

    /// A provisional response: a CANCEL that waited may go out, and the application learns that it rings.
    fn handle_provisional(
        &mut self,
        now: Instant,
        requests: &mut PendingRequests,
        id: u64,
        response: &Message,
        out: &mut SessionEffects,
    ) {
        let SessionStage::Calling(calling) = &mut self.stage else { return };
        calling.had_response = true;
        if calling.cancel == CancelState::Wanted {
            calling.cancel = CancelState::Sent;
            calling.deadline = now + TIMEOUT;
            let reason = std::mem::take(&mut calling.cancel_reason);
            out.push(SessionEffect::Cancel { id: RequestId(id), reason });
        }
        if self.has_ended || response.status() == 100 {
            return;
        }
        if !self.note_early(requests, response, out) {
            return;
        }
        if let Some(tag) = response.to_tag() {
            out.push(self.dialog.call_effect(CallEventKind::Ringing { callee_tag: lossy(Some(tag)) }));
        }
        let response = Box::new(response.clone());
        self.emit(|session| SessionEvent::Ringing { session, response }, out);
    }

    /// The early dialog of a provisional response, and its PRACK. False for one that came before.
    fn note_early(
        &mut self,
        requests: &mut PendingRequests,
        response: &Message,
        out: &mut SessionEffects,
    ) -> bool {
        self.note_allow(response);
        let Some(dialog) = self.dialog.of_response(response) else { return true };
        let SessionStage::Calling(calling) = &mut self.stage else { return false };
        let known = calling.early.iter().position(|early| early.dialog.remote_tag == dialog.remote_tag);
        let index = match known {
            Some(index) => index,
            None if calling.early.len() >= limits::FORK_BRANCHES => return true,
            None => {
                calling.early.push(EarlyDialog { dialog, rseq: 0, has_answer: false });
                calling.early.len() - 1
            }
        };
        let is_reliable = response.lists(Header::Require, "100rel");
        let rseq = response.header_named("RSeq").and_then(crate::wire::parse_number);
        let Some(rseq) = rseq.filter(|_| is_reliable) else { return true };
        let early = &mut calling.early[index];
        // RFC 3262 §4: in order, and each once; the PRACK's own transaction repeats it.
        if early.rseq != 0 && early.rseq.checked_add(1) != Some(rseq) {
            return false;
        }
        early.rseq = rseq;
        early.has_answer |= sdp_of(response).is_some();
        self.dialog.local_cseq += 1;
        let (mut request, onward) = early.dialog.request_numbered("PRACK", self.dialog.local_cseq);
        let number = response.cseq().map_or(0, |(number, _)| number);
        request.header("RAck", format!("{rseq} {number} INVITE").as_bytes());
        requests.send(self, RequestPurpose::Quiet, request.finish(), onward, out);
        true
    }

    /// RFC 4028 §7.3: once more with the interval the peer asks for.
    fn lengthen(
        &mut self,
        requests: &mut PendingRequests,
        pending: &PendingRequest,
        response: Option<&Message>,
        out: &mut SessionEffects,
    ) -> bool {
        let required = response.and_then(refresh::min_se);
        let requested = refresh::session_expires(&pending.message).map(|(seconds, _)| seconds);
        let Some(required) =
            required.filter(|&required| requested.is_some_and(|requested| required > requested))
        else {
            return false;
        };
        if self.has_ended {
            return false;
        }
        self.dialog.local_cseq += 1;
        let number = self.dialog.local_cseq;
        let mut rewrite = Rewrite::new(&pending.message);
        rewrite.set(Header::CSeq, |text| text.extend_from_slice(format!("{number} INVITE").as_bytes()));
        rewrite.set(Header::SessionExpires, |text| text.extend_from_slice(required.to_string().as_bytes()));
        // A second 422, of another server on the way, asks for more than the first.
        rewrite.remove_named(&["Min-SE"]);
        rewrite.append("Min-SE", |text| text.extend_from_slice(required.to_string().as_bytes()));
        let bytes = rewrite.finish();
        let pending = PendingRequest {
            key: pending.key,
            purpose: pending.purpose,
            message: pending.message.clone(),
            onward: pending.onward.clone(),
            challenges: pending.challenges,
        };
        requests.send_again(self, pending, bytes, out);
        true
    }

    /// The call is not wanted any more: it ends here at once, at the peer by CANCEL.
    pub(super) fn give_up_calling(
        &mut self,
        now: Instant,
        cause: Cause,
        reason: Option<&str>,
        out: &mut SessionEffects,
    ) {
        self.exchange.settle(&self.dialog, out);
        let SessionStage::Calling(calling) = &mut self.stage else { return };
        if calling.cancel == CancelState::No {
            // §9.1: a callee that does not answer a CANCEL within 64*T1 is taken to have accepted it.
            calling.deadline = now + TIMEOUT;
            calling.cancel = if calling.had_response { CancelState::Sent } else { CancelState::Wanted };
            let reason = reason.unwrap_or_default().into();
            if calling.had_response {
                out.push(SessionEffect::Cancel { id: RequestId(calling.request), reason });
            } else {
                calling.cancel_reason = reason;
            }
        }
        self.tell_end(cause, out);
    }
}

/// The call's beginning, for the ledger.
fn started(dialog: &Dialog, from: &str, target: &str, listed: ListedUnder) -> SessionEffect {
    let uri = crate::wire::Address::parse(from.as_bytes()).map(|address| address.uri);
    dialog.call_effect(CallEventKind::Started {
        call_id: String::from_utf8_lossy(&dialog.call_id).into(),
        from_tag: dialog.local_tag.clone(),
        from: String::from_utf8_lossy(uri.unwrap_or_default()).into(),
        to: target.into(),
        caller: None,
        callee: None,
        listed,
    })
}

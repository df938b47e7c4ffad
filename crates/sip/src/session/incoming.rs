//! An INVITE of the peer's: rung, answered, refused, cancelled. RFC 3261 §13.3, §9.2; RFC 3262 §3.
//!
//! Two things are repeated here and not by a transaction: a reliable provisional response until its PRACK,
//! and the 2xx until its ACK, both also over TCP, as a proxy in between may change to UDP. While a
//! provisional response with SDP has no PRACK, a 200 has to wait for it (`parked`).

use std::time::Duration;

use bytes::Bytes;
use stdx::Instant;
use stdx::slab::Key;

use super::body::{check_body, sdp_of};
use super::offer::OfferExchange;
use super::refresh;
use super::{
    Cause, CommandError, Dialog, Invited, PendingRequests, ReceivedRequest, Retransmission, SDP, Session,
    SessionContext, SessionEffect, SessionEffects, SessionEvent, SessionId, SessionRules, SessionStage,
    Sessions, describe,
};
use crate::endpoint::{CallEventKind, Caller, ListedUnder, refused};
use crate::events::TxRef;
use crate::limits;
use crate::transaction::T2;
use crate::transport::Source;
use crate::wire::{Header, Message, Reply};

/// Option tags of Require that we support (RFC 3261 §8.2.2.3). Others are answered 420.
const REQUIRE_KNOWN: [&str; 2] = ["100rel", "timer"];

/// The INVITE that waits for its final response.
pub(super) struct IncomingInvite {
    pub(super) transaction: TxRef,
    request: Message,
    source: Source,
    contact: Box<str>,
    /// The last RSeq; the first is random (RFC 3262 §3).
    rseq: u32,
    /// A reliable provisional without its PRACK.
    provisional: Option<ReliableProvisional>,
    /// The answer that waits for that PRACK: SDP and further headers.
    parked: Option<HeldAnswer>,
    /// Our SDP has reached the peer in a reliable provisional.
    pub(super) has_answered_offer: bool,
    /// The last provisional response. `None`: the application has sent none.
    renewal: Option<Renewal>,
    /// The end of the wait for an application that says nothing, or for a caller that may not be there.
    until: Instant,
}

/// A provisional response that is due again (RFC 3261 §13.3.1.1).
struct Renewal {
    status: u16,
    /// Its SDP, which a reliable response does not have a second time (RFC 3262 §5).
    sdp: Bytes,
    at: Instant,
}

/// SDP, and further headers.
type HeldAnswer = (Bytes, Vec<(Box<str>, Box<str>)>);

/// A provisional response that is repeated until its PRACK (RFC 3262 §3).
struct ReliableProvisional {
    repeated: Retransmission,
    rseq: u32,
    has_sdp: bool,
}

/// The response that a PRACK acknowledges (RFC 3262 §7.2); its method is INVITE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RAck {
    rseq: u32,
    cseq: u32,
}

impl RAck {
    /// Reads RAck. `None`: it is missing, malformed, or of another method.
    fn of(prack: &Message) -> Option<RAck> {
        let value = std::str::from_utf8(prack.header_named("RAck")?).ok()?;
        let mut words = value.split_ascii_whitespace();
        let rack = RAck { rseq: words.next()?.parse().ok()?, cseq: words.next()?.parse().ok()? };
        (words.next() == Some("INVITE")).then_some(rack)
    }
}

/// A 2xx of ours that still has no ACK: RFC 3261 §13.3.1.4.
pub(super) struct UnacknowledgedOk {
    pub(super) transaction: TxRef,
    repeated: Retransmission,
    cseq: u32,
    /// It held an offer: the ACK holds the answer.
    is_offer: bool,
    /// It answered the INVITE that made the session.
    pub(super) is_first: bool,
}

impl UnacknowledgedOk {
    pub(super) fn new(
        now: Instant,
        transaction: TxRef,
        request: &Message,
        bytes: Bytes,
        is_first: bool,
    ) -> Self {
        let cseq = request.cseq().map_or(0, |(number, _)| number);
        let is_offer = sdp_of(request).is_none();
        UnacknowledgedOk { transaction, repeated: Retransmission::new(now, bytes), cseq, is_offer, is_first }
    }

    pub(super) fn deadline(&self) -> Instant {
        self.repeated.deadline()
    }

    /// The ACK will hold the answer to an offer of ours.
    pub(super) fn awaits_answer(&self) -> bool {
        self.is_offer
    }
}

impl IncomingInvite {
    pub(super) fn deadline(&self) -> Instant {
        let unacknowledged = self.provisional.as_ref().map(|sent| sent.repeated.deadline());
        let renewal = self.renewal.as_ref().map(|renewal| renewal.at);
        [unacknowledged, renewal].into_iter().flatten().fold(self.until, Instant::min)
    }

    /// Makes a provisional response, which is due again in a minute. `None`: the caller wants reliable ones, and the last
    /// has no PRACK yet (RFC 3262 §3).
    fn make_provisional(&mut self, dialog: &Dialog, now: Instant, status: u16, sdp: &Bytes) -> Option<Bytes> {
        let is_reliable = self.wants_reliable(!sdp.is_empty());
        if is_reliable && self.provisional.is_some() {
            return None;
        }
        let mut reply = response(dialog, self, status);
        if is_reliable {
            self.rseq += 1;
            reply.header("Require", b"100rel").header("RSeq", self.rseq.to_string().as_bytes());
        }
        let bytes = finish(reply, sdp);
        if is_reliable {
            let repeated = Retransmission::new(now, bytes.clone());
            self.provisional =
                Some(ReliableProvisional { repeated, rseq: self.rseq, has_sdp: !sdp.is_empty() });
        }
        let sdp = if is_reliable { Bytes::new() } else { sdp.clone() };
        self.renewal = Some(Renewal { status, sdp, at: now + limits::RING_RENEWAL });
        Some(bytes)
    }

    /// RFC 3261 §13.3.1.1: a provisional response each minute keeps the proxies on the way from ending a call that rings
    /// long; their Timer C counts from the last one.
    fn renew(&mut self, dialog: &Dialog, proved: bool, now: Instant, out: &mut SessionEffects) {
        let Some(Renewal { status, sdp, .. }) = self.renewal.take_if(|renewal| renewal.at <= now) else {
            return;
        };
        if proved {
            self.until = Instant::FAR_FUTURE;
        }
        if let Some(bytes) = self.make_provisional(dialog, now, status, &sdp) {
            out.push(reply_effect(self.transaction, status, bytes));
        }
    }

    /// The RAck of the PRACK that is still to come.
    fn acknowledgement(&self) -> Option<RAck> {
        let rseq = self.provisional.as_ref()?.rseq;
        Some(RAck { rseq, cseq: self.request.cseq()?.0 })
    }

    /// RFC 3262 §3: must be reliable where the caller requires it; we also choose it for SDP, which may get
    /// lost otherwise.
    fn wants_reliable(&self, has_sdp: bool) -> bool {
        let requires = self.request.lists(Header::Require, "100rel");
        requires || has_sdp && self.request.lists(Header::Supported, "100rel")
    }
}

impl Sessions {
    /// An INVITE without To tag that the plan gave to an application. `None`: it was refused at once, and the
    /// call records have the refusal.
    pub(crate) fn handle_invite(
        &mut self,
        now: Instant,
        arrived: &ReceivedRequest<'_>,
        caller: Caller,
        out: &mut SessionEffects,
    ) -> Option<SessionId> {
        let request = arrived.request;
        let tag = self.tag();
        let is_full = self.sessions.len() >= limits::SESSIONS;
        let dialog = match check_invite(is_full, request, arrived, &tag) {
            Ok(dialog) => dialog,
            Err((status, reason, header)) => {
                let mut reply = Reply::new(request, arrived.source.remote, status, reason, Some(&tag));
                if let Some((name, value)) = header {
                    reply.header(name, value.as_bytes());
                }
                out.push(reply_effect(arrived.transaction, status, reply.finish()));
                let kind = refused(request, caller.account(), None, (status, reason));
                let call_id = request.call_id().unwrap_or_default().into();
                out.push(SessionEffect::Call { call_id, local_tag: tag, kind });
                return None;
            }
        };
        let incoming = IncomingInvite {
            transaction: arrived.transaction,
            request: request.clone(),
            source: *arrived.source,
            contact: arrived.contact.into(),
            rseq: u32::try_from(self.rng.below(1 << 20)).unwrap_or(0),
            provisional: None,
            parked: None,
            has_answered_offer: false,
            renewal: None,
            until: now + limits::RING_PATIENCE,
        };
        let (call_id, local_tag) = (dialog.call_id.clone(), dialog.local_tag.clone());
        let mut session = Session::new(dialog, SessionStage::Invited(Box::new(incoming)));
        session.note_allow(request);
        session.proved = arrived.proved;
        let key = self.insert(session);
        let id = SessionId(key.to_u64());
        out.push(SessionEffect::Call { call_id, local_tag, kind: started(request, &caller) });
        let invited = Box::new(Invited {
            request: request.clone(),
            source: *arrived.source,
            caller,
            proved: arrived.proved,
        });
        out.push(SessionEffect::Event(SessionEvent::Invited { session: id, invited }));
        self.arm(key);
        Some(id)
    }

    /// A final refusal; with 3xx and `contacts` a redirection.
    pub(crate) fn reject(
        &mut self,
        id: SessionId,
        status: u16,
        reason: &str,
        headers: &[(Box<str>, Box<str>)],
        out: &mut SessionEffects,
    ) -> Result<(), CommandError> {
        let key = Key::from_u64(id.0);
        let session = self.sessions.get(key).filter(|session| !session.has_ended);
        let session = session.ok_or(CommandError::NoSession)?;
        if !matches!(session.stage, SessionStage::Invited(_)) || !(300..700).contains(&status) {
            return Err(CommandError::NotNow);
        }
        self.refuse_call(key, status, reason, Cause::Local, headers, out);
        Ok(())
    }

    /// Ends an INVITE that has no final response, with the reason for the application.
    pub(super) fn refuse_call(
        &mut self,
        key: Key,
        status: u16,
        reason: &str,
        cause: Cause,
        headers: &[(Box<str>, Box<str>)],
        out: &mut SessionEffects,
    ) {
        let Some(session) = self.sessions.get_mut(key) else { return };
        session.exchange.settle(&session.dialog, out);
        let SessionStage::Invited(incoming) = &session.stage else { return };
        let tag = Some(&*session.dialog.local_tag);
        let mut reply = Reply::new(&incoming.request, incoming.source.remote, status, reason, tag);
        for (name, value) in headers {
            reply.header(name, value.as_bytes());
        }
        out.push(reply_effect(incoming.transaction, status, reply.finish()));
        session.tell_end_as(cause, Some((status, reason)), out);
        self.remove(key, out);
    }

    /// A CANCEL for the INVITE of this transaction: 487, unless it was answered before (RFC 3261 §9.2).
    pub(crate) fn handle_cancel(&mut self, id: SessionId, transaction: TxRef, out: &mut SessionEffects) {
        let key = Key::from_u64(id.0);
        let Some(session) = self.sessions.get_mut(key) else { return };
        match &session.stage {
            SessionStage::Invited(incoming) if incoming.transaction == transaction => {
                self.refuse_call(key, 487, "Request Terminated", Cause::Cancelled, &[], out);
            }
            _ => session.cancel_offer(transaction, out),
        }
    }

    /// RFC 3261 §13.3.1.4: the ACK of our 2xx. One of an older 2xx has another CSeq and is ignored.
    pub(crate) fn handle_ack(&mut self, ack: &Message, out: &mut SessionEffects) {
        let Some(key) = self.find(ack) else { return };
        let Some(session) = self.sessions.get_mut(key) else { return };
        session.proved = true;
        let number = ack.cseq().map(|(number, _)| number);
        let Some(unacked) = session.unacked.take_if(|unacked| Some(unacked.cseq) == number) else { return };
        // Hung up before the ACK: the BYE had to wait for it (RFC 3261 §15).
        if matches!(session.stage, SessionStage::Ending) {
            if unacked.is_first {
                session.send_bye(&mut self.requests, None, out);
            }
            return;
        }
        let sdp = sdp_of(ack).filter(|_| unacked.is_offer);
        if unacked.is_first {
            session.emit(|session| SessionEvent::Confirmed { session, sdp }, out);
        } else if unacked.is_offer {
            session.emit(|session| SessionEvent::OfferAnswered { session, sdp }, out);
        }
    }

    /// The application has not said anything in time, or a provisional response is due again.
    pub(super) fn wake_incoming(&mut self, now: Instant, key: Key, out: &mut SessionEffects) {
        let Some(session) = self.sessions.get_mut(key) else { return };
        let SessionStage::Invited(incoming) = &mut session.stage else { return };
        if incoming.until <= now {
            let status = 480;
            return self.refuse_call(key, status, "Temporarily Unavailable", Cause::Timeout, &[], out);
        }
        let transaction = incoming.transaction;
        let unacknowledged = incoming.provisional.as_mut();
        match unacknowledged.map(|sent| sent.repeated.handle_timer(now, Duration::MAX)) {
            Some(Ok(Some(bytes))) => out.push(reply_effect(transaction, 183, bytes)),
            Some(Ok(None)) | None => {}
            // RFC 3262 §3: the INVITE is then refused with a 5xx.
            Some(Err(())) => {
                return self.refuse_call(key, 504, "Server Time-out", Cause::Unacknowledged, &[], out);
            }
        }
        incoming.renew(&session.dialog, session.proved, now, out);
    }
}

impl Session {
    /// 180, 183 or another 1xx, with early media's SDP or without. Reliable (RFC 3262) where the caller demands
    /// it, and with SDP where it can.
    pub(crate) fn ring(
        &mut self,
        status: u16,
        sdp: Bytes,
        context: &mut SessionContext<'_>,
    ) -> Result<(), CommandError> {
        let SessionStage::Invited(incoming) = &mut self.stage else { return Err(CommandError::NotNow) };
        if !(101..200).contains(&status) || incoming.parked.is_some() {
            return Err(CommandError::NotNow);
        }
        let bytes = incoming.make_provisional(&self.dialog, context.now, status, &sdp);
        let bytes = bytes.ok_or(CommandError::NotNow)?;
        // The application limits its calls itself. An INVITE of an unproved address may have no caller, and holds its
        // session no longer than that of a silent application.
        incoming.until = if self.proved { Instant::FAR_FUTURE } else { context.now + limits::RING_PATIENCE };
        let transaction = incoming.transaction;
        if !sdp.is_empty() {
            self.local_sdp = sdp;
        }
        let callee_tag = self.dialog.local_tag.clone();
        context.out.push(self.dialog.call_effect(CallEventKind::Ringing { callee_tag }));
        context.out.push(reply_effect(transaction, status, bytes));
        Ok(())
    }

    /// 200. Waits for the PRACK of a provisional that held SDP (RFC 3262 §3).
    pub(crate) fn answer(
        &mut self,
        sdp: Bytes,
        headers: Vec<(Box<str>, Box<str>)>,
        context: &mut SessionContext<'_>,
    ) -> Result<(), CommandError> {
        let SessionStage::Invited(incoming) = &mut self.stage else { return Err(CommandError::NotNow) };
        if incoming.parked.is_some() {
            return Err(CommandError::NotNow);
        }
        if matches!(self.exchange, OfferExchange::Peer { .. } | OfferExchange::Ours { .. }) {
            return Err(CommandError::OfferOpen);
        }
        if incoming.provisional.as_ref().is_some_and(|sent| sent.has_sdp) {
            incoming.parked = Some((sdp, headers));
            return Ok(());
        }
        self.answer_now(context.now, context.rules, sdp, &headers, context.out);
        Ok(())
    }

    /// Sends the 200. Provisional responses that are still open are overtaken by it.
    fn answer_now(
        &mut self,
        now: Instant,
        rules: SessionRules,
        sdp: Bytes,
        headers: &[(Box<str>, Box<str>)],
        out: &mut SessionEffects,
    ) {
        let SessionStage::Invited(incoming) = std::mem::replace(&mut self.stage, SessionStage::Up) else {
            return;
        };
        self.overtaken = incoming.acknowledgement();
        let mut reply = response(&self.dialog, &incoming, 200);
        self.refresh = refresh::grant(now, rules, &incoming.request, &mut reply);
        for (name, value) in headers {
            reply.header(name, value.as_bytes());
        }
        let bytes = finish(reply, &sdp);
        let (transaction, request) = (incoming.transaction, &incoming.request);
        self.unacked = Some(Box::new(UnacknowledgedOk::new(now, transaction, request, bytes.clone(), true)));
        if !sdp.is_empty() {
            self.local_sdp = sdp;
        }
        self.was_up = true;
        let callee_tag = self.dialog.local_tag.clone();
        out.push(self.dialog.call_effect(CallEventKind::Answered { callee_tag }));
        out.push(reply_effect(transaction, 200, bytes));
    }

    /// RFC 3262 §3: 200 when it fits a provisional of ours, else 481.
    pub(super) fn handle_prack(
        &mut self,
        now: Instant,
        rules: SessionRules,
        arrived: &ReceivedRequest<'_>,
        out: &mut SessionEffects,
    ) {
        let rack = RAck::of(arrived.request);
        let SessionStage::Invited(incoming) = &mut self.stage else {
            // §3: after a final response, PRACKs of earlier provisional ones are still taken.
            let is_late =
                rack.is_some() && self.overtaken.take_if(|overtaken| Some(*overtaken) == rack).is_some();
            let (status, reason) = if is_late { (200, "OK") } else { (481, "No Such Provisional Response") };
            return self.dialog.reply(arrived, status, reason, out);
        };
        if rack.is_none() || incoming.acknowledgement() != rack {
            return self.dialog.reply(arrived, 481, "No Such Provisional Response", out);
        }
        incoming.has_answered_offer |= incoming.provisional.take().is_some_and(|sent| sent.has_sdp);
        let parked = incoming.parked.take();
        self.dialog.reply(arrived, 200, "OK", out);
        if let Some((sdp, headers)) = parked {
            self.answer_now(now, rules, sdp, &headers, out);
        }
    }

    /// The 2xx is due again, or its ACK never came.
    pub(super) fn wake_unacked(
        &mut self,
        now: Instant,
        requests: &mut PendingRequests,
        out: &mut SessionEffects,
    ) {
        let Some(unacked) = &mut self.unacked else { return };
        match unacked.repeated.handle_timer(now, T2) {
            Ok(Some(bytes)) => out.push(reply_effect(unacked.transaction, 200, bytes)),
            Ok(None) => {}
            // §13.3.1.4: without an ACK the session is ended by a BYE.
            Err(()) => {
                self.unacked = None;
                if matches!(self.stage, SessionStage::Ending) {
                    self.send_bye(requests, None, out);
                } else {
                    self.leave(requests, Cause::Unacknowledged, None, out);
                }
            }
        }
    }
}

/// Checks an INVITE before there is a session: room, extensions, body, interval, dialog, in this order.
#[expect(clippy::type_complexity, reason = "status, reason and a header of the one refusal")]
fn check_invite(
    is_full: bool,
    request: &Message,
    arrived: &ReceivedRequest<'_>,
    tag: &str,
) -> Result<Dialog, (u16, &'static str, Option<(&'static str, String)>)> {
    if is_full {
        let wait = Some(("Retry-After", limits::EVENTS_RETRY_AFTER.to_string()));
        return Err((503, "Service Unavailable", wait));
    }
    if let Some(unknown) = unknown_extensions(request) {
        return Err((420, "Bad Extension", Some(("Unsupported", unknown))));
    }
    check_body(request)?;
    if refresh::is_too_short(request) {
        return Err((422, "Session Interval Too Small", Some(("Min-SE", refresh::MIN_SE.to_string()))));
    }
    Dialog::of_request(request, arrived.source, tag.into()).ok_or((400, "Missing Contact", None))
}

/// The option tags of Require that we do not support; `None`: we support all.
pub(super) fn unknown_extensions(request: &Message) -> Option<String> {
    let is_known = |tag: &&[u8]| REQUIRE_KNOWN.iter().any(|known| tag.eq_ignore_ascii_case(known.as_bytes()));
    let unknown = request.values(Header::Require).filter(|tag| !is_known(tag));
    let unknown: Vec<_> = unknown.map(String::from_utf8_lossy).collect();
    (!unknown.is_empty()).then(|| unknown.join(", "))
}

/// A response within the dialog, up to its body.
fn response(dialog: &Dialog, incoming: &IncomingInvite, status: u16) -> Reply {
    let reason = match status {
        180 => "Ringing",
        181 => "Call Is Being Forwarded",
        182 => "Queued",
        200 => "OK",
        _ => "Session Progress",
    };
    let tag = Some(&*dialog.local_tag);
    let mut reply = Reply::new(&incoming.request, incoming.source.remote, status, reason, tag);
    reply.copy_all(&incoming.request, Header::RecordRoute);
    reply.header("Contact", format!("<{}>", incoming.contact).as_bytes());
    describe(&mut reply);
    reply
}

/// The response with its description, if it has one.
pub(super) fn finish(reply: Reply, sdp: &Bytes) -> Bytes {
    if sdp.is_empty() { reply.finish() } else { reply.finish_with(SDP, sdp) }
}

/// A response to a transaction of the peer's.
pub(super) fn reply_effect(transaction: TxRef, status: u16, bytes: Bytes) -> SessionEffect {
    SessionEffect::Reply { transaction, status, bytes }
}

/// The call's beginning, for the ledger.
fn started(request: &Message, caller: &Caller) -> CallEventKind {
    let text = |bytes: Option<&[u8]>| String::from_utf8_lossy(bytes.unwrap_or_default()).into();
    CallEventKind::Started {
        call_id: text(request.call_id()),
        from_tag: text(request.from_tag()),
        from: text(request.from().map(|a| a.uri)),
        to: text(Some(request.uri())),
        caller: caller.account(),
        callee: None,
        listed: ListedUnder::default(),
    }
}

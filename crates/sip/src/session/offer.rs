//! Offers within a session: re-INVITE and UPDATE, theirs and ours, and glare. RFC 3261 §14, RFC 3311.
//!
//! A session has one offer open at a time, in either direction ([`OfferExchange`]); everything that could
//! break that is refused here, ours by a [`CommandError`], the peer's by 491 or 500. An offer of the peer has
//! a number ([`OfferId`]) that the application answers by, so an answer to an offer that was taken back finds
//! nothing.

use std::time::Duration;

use bytes::Bytes;
use stdx::Instant;
use stdx::rng::Rng;

use super::body::{check_body, sdp_of};
use super::incoming::{UnacknowledgedOk, finish, reply_effect};
use super::outgoing::RequestOutcome;
use super::refresh;
use super::{
    CommandError, Dialog, OfferId, PendingRequest, ReceivedRequest, RequestPurpose, SDP, Session,
    SessionContext, SessionEffects, SessionEvent, SessionRules, SessionStage, Sessions, describe,
    describe_request, dialog_of,
};
use crate::events::TxRef;
use crate::limits;
use crate::transport::Source;
use crate::wire::{Message, Method, Reply};

/// The one offer that may be open (RFC 3264 §4).
pub(super) enum OfferExchange {
    /// No offer is open.
    Idle,
    /// The application decides about it.
    Peer(Box<PeerOffer>),
    /// With the SDP of the offer, which describes the session once it is accepted. `None`: a refresh.
    Ours { request: u64, sdp: Option<Bytes> },
    /// Ours met theirs: nothing is sent before then. A refresh waits by its own timer.
    Crossed { until: Instant },
}

/// An offer of the peer that waits for the application's answer (RFC 3264), with all that the response needs.
pub(super) struct PeerOffer {
    offer: OfferId,
    transaction: TxRef,
    request: Message,
    source: Source,
    contact: Box<str>,
    /// The application's patience.
    until: Instant,
}

impl OfferExchange {
    /// The time at which [`Session::wake_exchange`] has something to do.
    pub(super) fn deadline(&self) -> Instant {
        match self {
            OfferExchange::Peer(peer_offer) => peer_offer.until,
            OfferExchange::Crossed { until } => *until,
            OfferExchange::Idle | OfferExchange::Ours { .. } => Instant::FAR_FUTURE,
        }
    }

    /// Our offer was sent again under another number.
    pub(super) fn note_request(&mut self, id: u64) {
        if let OfferExchange::Ours { request, .. } = self {
            *request = id;
        }
    }

    /// The open requests of the peer are answered: the session ends, or the offer was taken back.
    pub(super) fn settle(&mut self, dialog: &Dialog, out: &mut SessionEffects) {
        if let OfferExchange::Peer(peer_offer) = std::mem::replace(self, OfferExchange::Idle) {
            peer_offer.reply(dialog, 487, "Request Terminated", out);
        }
    }

    /// Takes the peer's offer of that number out.
    fn take_peer(&mut self, offer: OfferId) -> Result<Box<PeerOffer>, CommandError> {
        match std::mem::replace(self, OfferExchange::Idle) {
            OfferExchange::Peer(peer_offer) if peer_offer.offer == offer => Ok(peer_offer),
            other => {
                *self = other;
                Err(CommandError::Stale)
            }
        }
    }
}

impl PeerOffer {
    /// A response without a body.
    fn reply(&self, dialog: &Dialog, status: u16, reason: &str, out: &mut SessionEffects) {
        let tag = Some(&*dialog.local_tag);
        let reply = Reply::new(&self.request, self.source.remote, status, reason, tag);
        out.push(reply_effect(self.transaction, status, reply.finish()));
    }
}

impl Sessions {
    /// The end of our re-INVITE or UPDATE. A success refreshes the target and the timer, and its description
    /// is the answer; a failure leaves the session as it was (RFC 3261 §14.1).
    pub(super) fn handle_offer_final(
        &mut self,
        now: Instant,
        id: u64,
        pending: &PendingRequest,
        end: &RequestOutcome<'_>,
        refresh: bool,
        out: &mut SessionEffects,
    ) {
        let (key, rules) = (pending.key, self.rules);
        let by_invite = pending.message.method() == Method::Invite;
        let Some(session) = self.sessions.get_mut(key) else { return };
        let wait = session.wait_after_glare(&mut self.rng);
        let success = end.response.filter(|_| (200..300).contains(&end.status));
        if let OfferExchange::Ours { request, sdp } = &mut session.exchange
            && *request == id
        {
            // RFC 3261 §14.1: a refused offer leaves the session as it was, and refreshes repeat what holds.
            if let Some(sdp) = sdp.take().filter(|_| success.is_some()) {
                session.local_sdp = sdp;
            }
            session.exchange = OfferExchange::Idle;
        }
        if let Some(response) = success {
            session.note_allow(response);
            session.dialog.refresh_target(response, None);
            if matches!(session.stage, SessionStage::Up) {
                session.refresh = refresh::of_response(now, rules, response);
            }
            if by_invite {
                let base = session.dialog.clone();
                self.acknowledge(now, id, pending, base, out);
                let sdp = sdp_of(response);
                if let Some(session) = self.sessions.get(key) {
                    session.emit(|session| SessionEvent::OfferAnswered { session, sdp }, out);
                }
            }
            return;
        }
        match end.status {
            // The application has offered nothing.
            _ if refresh => {
                // COMPAT(border controllers): UPDATE is refused on the way, although the peer's Allow has it.
                session.peer_allows_update &= !refresh::is_of_method(end.status);
                session.refresh.handle_refusal(now, end);
            }
            // RFC 3261 §14.1.
            491 if matches!(session.exchange, OfferExchange::Idle) => {
                session.exchange = OfferExchange::Crossed { until: now + wait };
            }
            status => session.emit(|session| SessionEvent::OfferRefused { session, status }, out),
        }
    }
}

impl Session {
    /// Offers new media by a re-INVITE. `OfferOpen`: the application has to try again when the open one is
    /// settled.
    pub(crate) fn offer(
        &mut self,
        sdp: &Bytes,
        context: &mut SessionContext<'_>,
    ) -> Result<(), CommandError> {
        if !matches!(self.stage, SessionStage::Up) || sdp.is_empty() {
            return Err(CommandError::NotNow);
        }
        // RFC 3261 §14.1: neither while an INVITE is open, nor before the ACK of one.
        if !matches!(self.exchange, OfferExchange::Idle) || self.unacked.is_some() {
            return Err(CommandError::OfferOpen);
        }
        let expires = self.refresh.header();
        let (mut request, onward) = self.dialog.request("INVITE");
        describe_request(&mut request);
        if let Some(expires) = expires {
            request.header("Session-Expires", expires.as_bytes());
        }
        let bytes = request.finish_with(SDP, sdp);
        let purpose = RequestPurpose::Offer { refresh: false };
        let request = context.requests.send(self, purpose, bytes, onward, context.out);
        self.exchange = OfferExchange::Ours { request, sdp: Some(sdp.clone()) };
        Ok(())
    }

    /// Answers the peer's offer; `sdp` is an offer of ours when the peer made none.
    pub(crate) fn accept_offer(
        &mut self,
        offer: OfferId,
        sdp: Bytes,
        context: &mut SessionContext<'_>,
    ) -> Result<(), CommandError> {
        let peer_offer = self.exchange.take_peer(offer)?;
        let (request, source) = (&peer_offer.request, &peer_offer.source);
        let mut reply = Reply::new(request, source.remote, 200, "OK", Some(&self.dialog.local_tag));
        reply.header("Contact", format!("<{}>", peer_offer.contact).as_bytes());
        describe(&mut reply);
        if let Some(dialog) = dialog_of(self, request) {
            dialog.refresh_target(request, Some(source));
        }
        if matches!(self.stage, SessionStage::Up) {
            self.refresh = refresh::grant(context.now, context.rules, request, &mut reply);
        }
        let bytes = finish(reply, &sdp);
        if !sdp.is_empty() {
            self.local_sdp = sdp;
        }
        if request.method() == Method::Invite {
            let unacked =
                UnacknowledgedOk::new(context.now, peer_offer.transaction, request, bytes.clone(), false);
            self.unacked = Some(Box::new(unacked));
        }
        context.out.push(reply_effect(peer_offer.transaction, 200, bytes));
        Ok(())
    }

    /// 488 and the like: the session stays as it was (RFC 3261 §14.2).
    pub(crate) fn refuse_offer(
        &mut self,
        offer: OfferId,
        status: u16,
        reason: &str,
        context: &mut SessionContext<'_>,
    ) -> Result<(), CommandError> {
        let peer_offer = self.exchange.take_peer(offer)?;
        peer_offer.reply(&self.dialog, status.clamp(300, 699), reason, context.out);
        Ok(())
    }

    /// A re-INVITE or an UPDATE of the peer's. An INVITE without a body asks for an offer of ours, an UPDATE
    /// without one only refreshes.
    pub(super) fn handle_offer(
        &mut self,
        now: Instant,
        rules: SessionRules,
        rng: &mut Rng,
        arrived: &ReceivedRequest<'_>,
        out: &mut SessionEffects,
    ) {
        let request = arrived.request;
        let is_update = request.method() == Method::Update;
        if let Err((status, reason, header)) = check_body(request) {
            let header = header.as_ref().map(|(name, value)| (*name, &**value));
            return self.dialog.reply_with(arrived, (status, reason), header, out);
        }
        if refresh::is_too_short(request) {
            let min_se = refresh::MIN_SE.to_string();
            let header = Some(("Min-SE", &*min_se));
            return self.dialog.reply_with(arrived, (422, "Session Interval Too Small"), header, out);
        }
        let is_offer = !is_update || sdp_of(request).is_some();
        if is_offer && let Some(refusal) = self.refusal(request) {
            return self.refuse_glare(rng, arrived, refusal, out);
        }
        if !is_offer {
            return self.grant_update(now, rules, arrived, out);
        }
        self.note_allow(request);
        let first = self.unacked.take_if(|_| !is_update);
        let offer = OfferId(self.next_token());
        self.exchange = OfferExchange::Peer(Box::new(PeerOffer {
            offer,
            transaction: arrived.transaction,
            request: request.clone(),
            source: *arrived.source,
            contact: arrived.contact.into(),
            until: now + limits::OFFER_PATIENCE,
        }));
        if first.is_some_and(|unacked| unacked.is_first) {
            // Its ACK was lost; a new INVITE says as much.
            self.emit(|session| SessionEvent::Confirmed { session, sdp: None }, out);
        }
        let (sdp, source, proved) = (sdp_of(request), arrived.source.remote.ip(), arrived.proved);
        self.emit(|session| SessionEvent::Offered { session, offer, sdp, source, proved }, out);
    }

    /// RFC 3261 §14.2, RFC 3311 §5.2: 491 when ours is open, 500 when theirs is.
    fn refusal(&self, request: &Message) -> Option<u16> {
        let is_update = request.method() == Method::Update;
        let by_stage = match &self.stage {
            SessionStage::Up => None,
            SessionStage::Ending => Some(481),
            SessionStage::Invited(incoming) if is_update && incoming.has_answered_offer => None,
            SessionStage::Invited(_) => Some(500),
            SessionStage::Calling(calling) if is_update && calling.has_answer_in(request) => None,
            SessionStage::Calling(_) => Some(491),
        };
        let awaits_answer = self.unacked.as_ref().is_some_and(|unacked| unacked.awaits_answer());
        let by_exchange = match self.exchange {
            OfferExchange::Ours { .. } => Some(491),
            OfferExchange::Peer(_) => Some(500),
            OfferExchange::Idle | OfferExchange::Crossed { .. } => awaits_answer.then_some(491),
        };
        by_stage.or(by_exchange)
    }

    /// Refuses an offer that came at the wrong time. The random wait of a 500 keeps two sides from meeting
    /// again (RFC 3261 §14.2).
    fn refuse_glare(
        &self,
        rng: &mut Rng,
        arrived: &ReceivedRequest<'_>,
        status: u16,
        out: &mut SessionEffects,
    ) {
        match status {
            491 => self.dialog.reply(arrived, 491, "Request Pending", out),
            481 => self.dialog.reply(arrived, 481, "Call/Transaction Does Not Exist", out),
            _ => {
                let wait = rng.below(11).to_string();
                let header = Some(("Retry-After", &*wait));
                self.dialog.reply_with(arrived, (500, "Server Internal Error"), header, out);
            }
        }
    }

    /// An UPDATE without an offer: a refresh of target and timer.
    fn grant_update(
        &mut self,
        now: Instant,
        rules: SessionRules,
        arrived: &ReceivedRequest<'_>,
        out: &mut SessionEffects,
    ) {
        let (request, source) = (arrived.request, arrived.source);
        let mut reply = Reply::new(request, source.remote, 200, "OK", Some(&self.dialog.local_tag));
        reply.header("Contact", format!("<{}>", arrived.contact).as_bytes());
        describe(&mut reply);
        if let Some(dialog) = dialog_of(self, request) {
            dialog.refresh_target(request, Some(source));
        }
        if matches!(self.stage, SessionStage::Up) {
            self.refresh = refresh::grant(now, rules, request, &mut reply);
        }
        out.push(reply_effect(arrived.transaction, 200, reply.finish()));
    }

    /// A CANCEL of a re-INVITE.
    pub(super) fn cancel_offer(&mut self, transaction: TxRef, out: &mut SessionEffects) {
        match &self.exchange {
            OfferExchange::Peer(peer_offer) if peer_offer.transaction == transaction => {
                let offer = peer_offer.offer;
                self.exchange.settle(&self.dialog, out);
                self.emit(|session| SessionEvent::OfferWithdrawn { session, offer }, out);
            }
            _ => {}
        }
    }

    /// RFC 3261 §14.1: 2.1 to 4 s for the side that chose the Call-ID, up to 2 s for the other, in units of
    /// 10 ms.
    fn wait_after_glare(&self, rng: &mut Rng) -> Duration {
        let units = if self.owns_call_id { 210 + rng.below(191) } else { rng.below(201) };
        Duration::from_millis(units * 10)
    }

    /// An offer has waited long enough: the application's for its answer, ours for another try.
    pub(super) fn wake_exchange(&mut self, now: Instant, out: &mut SessionEffects) {
        if self.exchange.deadline() > now {
            return;
        }
        match std::mem::replace(&mut self.exchange, OfferExchange::Idle) {
            OfferExchange::Peer(peer_offer) => {
                peer_offer.reply(&self.dialog, 500, "Server Internal Error", out);
                let offer = peer_offer.offer;
                self.emit(|session| SessionEvent::OfferWithdrawn { session, offer }, out);
            }
            OfferExchange::Crossed { .. } => {
                self.emit(|session| SessionEvent::OfferCrossed { session }, out);
            }
            other => self.exchange = other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::{Cause, Invite, SessionEffect};

    /// The last request among these effects, which are drained.
    fn sent(out: &mut SessionEffects) -> (crate::events::RequestId, Message) {
        let requests = out.drain(..).filter_map(|effect| match effect {
            SessionEffect::Request { id, bytes, .. } => Some((id, Message::parse(bytes).unwrap())),
            _ => None,
        });
        requests.last().expect("a request")
    }

    /// A peer without UPDATE answers.
    fn answer(sessions: &mut Sessions, now: Instant, status: u16, out: &mut SessionEffects) -> Message {
        answer_with(sessions, now, status, ("", ""), out)
    }

    /// A peer answers, with another header.
    fn answer_with(
        sessions: &mut Sessions,
        now: Instant,
        status: u16,
        (name, value): (&str, &str),
        out: &mut SessionEffects,
    ) -> Message {
        let (id, request) = sent(out);
        let peer = "192.0.2.1:5060".parse().unwrap();
        let mut reply = Reply::new(&request, peer, status, "Answer", Some("their-tag"));
        reply.header("Contact", b"<sip:bob@192.0.2.1>");
        if !value.is_empty() {
            reply.header(name, value.as_bytes());
        }
        let response = Message::parse(reply.finish_with(SDP, b"v=0 answer")).unwrap();
        sessions.handle_response(now, id, &response, out);
        request
    }

    fn invite() -> Invite {
        Invite {
            target: "sip:bob@192.0.2.1".into(),
            from: "<sip:alice@example.org>".into(),
            offer: "v=0 first".into(),
            ..Invite::default()
        }
    }

    /// Time passes until a request is sent, or no more is to be done.
    fn pass(sessions: &mut Sessions, now: &mut Instant, out: &mut SessionEffects) {
        out.clear();
        while !out.iter().any(|effect| matches!(effect, SessionEffect::Request { .. }))
            && let Some(deadline) = sessions.deadline()
        {
            *now = deadline;
            sessions.expire(*now, out);
        }
    }

    fn is_refusal(effect: &SessionEffect) -> bool {
        matches!(effect, SessionEffect::Event(SessionEvent::OfferRefused { .. }))
    }

    /// RFC 3261 §14.1: a refused offer changes nothing, so the refresh of RFC 4028 §7.4 repeats the description that holds. An
    /// application is told of refusals of its own offers only.
    #[test]
    fn a_refresh_repeats_the_last_offer_that_was_accepted() {
        for refresh_status in [200, 302, 400, 488] {
            let (mut now, mut out) = (Instant::from_unix_seconds(1_800_000_000), Vec::new());
            let mut sessions = Sessions::new(Rng::seeded(1), now);
            let session = sessions.invite(now, invite(), &mut out).unwrap();
            answer(&mut sessions, now, 200, &mut out);
            for (sdp, status) in [("v=0 accepted", 200), ("v=0 refused", 488)] {
                out.clear();
                let offer = |session: &mut Session, context: &mut SessionContext<'_>| {
                    session.offer(&Bytes::from_static(sdp.as_bytes()), context)
                };
                sessions.command(now, session, offer, &mut out).unwrap();
                answer(&mut sessions, now, status, &mut out);
                assert_eq!(out.iter().any(is_refusal), status == 488);
            }
            pass(&mut sessions, &mut now, &mut out);
            let refresh = answer(&mut sessions, now, refresh_status, &mut out);
            assert_eq!((refresh.method(), refresh.body()), (Method::Invite, &b"v=0 accepted"[..]));
            assert!(!out.iter().any(is_refusal), "{refresh_status}");
        }
    }

    /// A call whose peer allows these methods, and the time at which it was answered.
    fn answered(allow: &str, out: &mut SessionEffects) -> (Sessions, Instant) {
        let now = Instant::from_unix_seconds(1_800_000_000);
        let mut sessions = Sessions::new(Rng::seeded(1), now);
        sessions.invite(now, invite(), out).unwrap();
        answer_with(&mut sessions, now, 200, ("Allow", allow), out);
        (sessions, now)
    }

    /// RFC 4028 §10: the refresher follows the rules of the response and retries, and does not retry continuously.
    #[test]
    fn a_refused_refresh_is_tried_again() {
        type Case = (&'static str, &'static [(u16, &'static str)], &'static str);
        let cases: [Case; 8] = [
            ("INVITE", &[], "INVITE 900"),
            ("INVITE", &[(503, ""), (500, ""), (488, "")], "INVITE 900, INVITE 905, INVITE 915, INVITE 935"),
            // RFC 3311 §5.2: the other side's offer is open.
            ("UPDATE", &[(500, "3"), (500, "60")], "UPDATE 900, UPDATE 905, UPDATE 965"),
            ("UPDATE", &[(491, ""), (405, "")], "UPDATE 900, UPDATE 905, INVITE 915"),
            ("UPDATE", &[(501, "")], "UPDATE 900, INVITE 905"),
            ("UPDATE", &[(488, ""), (491, "")], "UPDATE 900, INVITE 905, INVITE 915"),
            // It ends at 1768 s.
            ("INVITE", &[(503, "86400")], "INVITE 900, INVITE 1334"),
            // Without the longer interval that it asks for.
            ("INVITE", &[(422, "")], "INVITE 900, INVITE 905"),
        ];
        for (allow, refusals, expected) in cases {
            let mut out = Vec::new();
            let (mut sessions, begin) = answered(allow, &mut out);
            let (mut now, mut tries) = (begin, Vec::new());
            for (status, wait) in refusals.iter().copied().chain([(200, "")]) {
                pass(&mut sessions, &mut now, &mut out);
                let request = answer_with(&mut sessions, now, status, ("Retry-After", wait), &mut out);
                tries.push(format!("{} {}", request.method(), now.since(begin).as_secs()));
            }
            assert_eq!(tries.join(", "), expected);
            // The session goes on by the last.
            let last = now;
            pass(&mut sessions, &mut now, &mut out);
            assert_eq!(now.since(last).as_secs(), 900, "{expected}");
        }
    }

    #[test]
    fn a_session_ends_in_time_when_all_refreshes_are_refused() {
        let mut out = Vec::new();
        let (mut sessions, begin) = answered("INVITE", &mut out);
        let (mut now, mut tries) = (begin, 0);
        loop {
            pass(&mut sessions, &mut now, &mut out);
            let is_end = |effect: &SessionEffect| {
                matches!(effect, SessionEffect::Event(SessionEvent::Ended { cause: Cause::Expired, .. }))
            };
            if out.iter().any(is_end) {
                break;
            }
            answer(&mut sessions, now, 503, &mut out);
            tries += 1;
        }
        // 5 s later, 10 s later, and so on.
        assert_eq!((now.since(begin).as_secs(), tries), (1_768, 8));
    }
}

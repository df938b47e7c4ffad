//! Requests within a dialog: BYE, INFO, OPTIONS and their order. RFC 3261 §12.2.2, §15.1.2.
//!
//! In: a request whose To tag is one of ours, once its server transaction is made. Each is checked in one
//! order: the dialog's CSeq and target, then Require, then the method. Out: one reply each, at once or
//! (offers) when the application has decided. ACK and CANCEL have no reply and their own ways (`incoming`).

use bytes::Bytes;
use stdx::Instant;
use stdx::slab::Key;

use super::body::ACCEPT;
use super::dialog::DialogFault;
use super::event::content_type_of;
use super::incoming::{reply_effect, unknown_extensions};
use super::{
    ALLOW, Cause, CommandError, ReceivedRequest, RequestPurpose, Session, SessionContext, SessionEffects,
    SessionEvent, SessionStage, Sessions, describe, dialog_of,
};
use crate::limits;
use crate::wire::{Method, Reply};

impl Sessions {
    /// A request, ACK and CANCEL excepted, of a dialog that [`owns`](Self::owns) has found here.
    pub(crate) fn handle_request(
        &mut self,
        now: Instant,
        arrived: &ReceivedRequest<'_>,
        out: &mut SessionEffects,
    ) {
        let request = arrived.request;
        let Some(key) = self.find(request) else { return };
        let Some(session) = self.sessions.get_mut(key) else { return };
        // The To tag is unpredictable, so the sender has received a response of ours.
        session.proved = true;
        // Each dialog has its own numbers.
        let accepted = dialog_of(session, request).map(|dialog| dialog.accept(request));
        if let Some(Err(DialogFault(status, reason))) = accepted {
            return session.dialog.reply(arrived, status, reason, out);
        }
        // RFC 3261 §8.2.2.3, which §12.2.2 has for requests within a dialog as well.
        if let Some(unknown) = unknown_extensions(request) {
            let header = Some(("Unsupported", &*unknown));
            return session.dialog.reply_with(arrived, (420, "Bad Extension"), header, out);
        }
        match request.method() {
            Method::Invite | Method::Update => {
                session.handle_offer(now, self.rules, &mut self.rng, arrived, out);
            }
            Method::Bye => self.handle_bye(key, arrived, out),
            Method::Prack => session.handle_prack(now, self.rules, arrived, out),
            // 200 at once: nothing that the application does with it changes the answer.
            Method::Info => {
                session.dialog.reply(arrived, 200, "OK", out);
                let (content_type, body) = content_of(arrived);
                session.emit(|session| SessionEvent::Info { session, content_type, body }, out);
            }
            Method::Options => session.answer_options(arrived, out),
            Method::Refer => session.handle_refer(arrived, out),
            Method::Notify => session.handle_notify(arrived, out),
            // A MESSAGE among them: no application reads one within a call, and a 200 says that it was delivered (RFC 3428 §7).
            _ => {
                let allow = Some(("Allow", ALLOW));
                session.dialog.reply_with(arrived, (405, "Method Not Allowed"), allow, out);
            }
        }
        self.arm(key);
    }

    /// The peer ends the call (RFC 3261 §15.1.2).
    fn handle_bye(&mut self, key: Key, arrived: &ReceivedRequest<'_>, out: &mut SessionEffects) {
        let Some(session) = self.sessions.get(key) else { return };
        let cause = Cause::HungUp { request: Box::new(arrived.request.clone()) };
        match session.stage {
            // RFC 3261 §15: a callee must not, before it has answered.
            SessionStage::Calling(_) => {
                session.dialog.reply(arrived, 481, "Call/Transaction Does Not Exist", out);
            }
            // The caller ends an early dialog; the INVITE is answered as after a CANCEL.
            SessionStage::Invited(_) => {
                session.dialog.reply(arrived, 200, "OK", out);
                self.refuse_call(key, 487, "Request Terminated", cause, &[], out);
            }
            SessionStage::Up | SessionStage::Ending => {
                session.dialog.reply(arrived, 200, "OK", out);
                self.vanish(key, cause, out);
            }
        }
    }
}

impl Session {
    /// Sends an INFO or MESSAGE within the session; its final response is told by `SessionEvent::Responded`.
    /// A peer that does not answer cannot make them pile up (`limits::SESSION_REQUESTS`).
    pub(crate) fn tell_peer(
        &mut self,
        method: Method,
        content_type: &str,
        body: &Bytes,
        context: &mut SessionContext<'_>,
    ) -> Result<(), CommandError> {
        let under_way = context.requests.by_id.len();
        if !matches!(self.stage, SessionStage::Up) || !matches!(method, Method::Info | Method::Message) {
            return Err(CommandError::NotNow);
        }
        if under_way >= limits::SESSION_REQUESTS {
            return Err(CommandError::Refused);
        }
        let (mut request, onward) = self.dialog.request(method.as_str());
        request.header("User-Agent", crate::wire::PRODUCT.as_bytes());
        let bytes = request.finish_with(content_type, body);
        context.requests.send(self, RequestPurpose::Told(method), bytes, onward, context.out);
        Ok(())
    }

    /// The abilities of the user agent, as in a 200 to INVITE (RFC 3261 §11.2).
    fn answer_options(&self, arrived: &ReceivedRequest<'_>, out: &mut SessionEffects) {
        let tag = Some(&*self.dialog.local_tag);
        let mut reply = Reply::new(arrived.request, arrived.source.remote, 200, "OK", tag);
        describe(&mut reply);
        reply.header("Accept", ACCEPT.as_bytes());
        reply.header("Accept-Encoding", b"identity");
        reply.header("Accept-Language", b"en");
        out.push(reply_effect(arrived.transaction, 200, reply.finish()));
    }
}

/// Content-Type and body of a request; the body shares the request's bytes.
fn content_of(arrived: &ReceivedRequest<'_>) -> (Box<str>, Bytes) {
    let request = arrived.request;
    (content_type_of(request), request.bytes().slice_ref(request.body()))
}

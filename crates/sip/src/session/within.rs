//! Requests within a dialog: BYE, INFO, MESSAGE, OPTIONS and their order. RFC 3261 §12.2.2, §15.1.2.

use bytes::Bytes;
use stdx::Instant;
use stdx::slab::Key;

use super::dialog::DialogFault;
use super::event::content_type_of;
use super::incoming::reply_effect;
use super::{
    ALLOW, Cause, CommandError, ReceivedRequest, RequestPurpose, SDP, SUPPORTED, SessionEffects,
    SessionEvent, SessionId, SessionStage, Sessions, describe,
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
        session.proved = true;
        let dialog = match &mut session.stage {
            SessionStage::Calling(calling) => calling.dialog_of(request),
            _ => Some(&mut session.dialog),
        };
        if let Some(Err(DialogFault(status, reason))) = dialog.map(|dialog| dialog.accept(request)) {
            return self.reply(key, arrived, status, reason, out);
        }
        match request.method() {
            Method::Invite | Method::Update => self.handle_offer(now, key, arrived, out),
            Method::Bye => self.handle_bye(key, arrived, out),
            Method::Prack => self.handle_prack(now, key, arrived, out),
            Method::Info => {
                self.reply(key, arrived, 200, "OK", out);
                let (content_type, body) = content_of(arrived);
                self.emit(key, |session| SessionEvent::Info { session, content_type, body }, out);
            }
            Method::Message => {
                self.reply(key, arrived, 200, "OK", out);
                let (content_type, body) = content_of(arrived);
                self.emit(key, |session| SessionEvent::Message { session, content_type, body }, out);
            }
            Method::Options => self.answer_options(key, arrived, out),
            Method::Refer => self.handle_refer(key, arrived, out),
            Method::Notify => self.handle_notify(key, arrived, out),
            _ => {
                let allow = Some(("Allow", ALLOW));
                self.reply_with(key, arrived, (405, "Method Not Allowed"), allow, out);
            }
        }
        self.arm(key);
    }

    fn handle_bye(&mut self, key: Key, arrived: &ReceivedRequest<'_>, out: &mut SessionEffects) {
        let Some(session) = self.sessions.get(key) else { return };
        let cause = Cause::HungUp { request: Box::new(arrived.request.clone()) };
        match session.stage {
            // RFC 3261 §15: a callee must not, before it has answered.
            SessionStage::Calling(_) => self.reply(key, arrived, 481, "Call/Transaction Does Not Exist", out),
            SessionStage::Invited(_) => {
                self.reply(key, arrived, 200, "OK", out);
                self.refuse_call(key, 487, "Request Terminated", cause, &[], out);
            }
            SessionStage::Up | SessionStage::Ending => {
                self.reply(key, arrived, 200, "OK", out);
                self.vanish(key, cause, out);
            }
        }
    }

    fn answer_options(&mut self, key: Key, arrived: &ReceivedRequest<'_>, out: &mut SessionEffects) {
        let Some(session) = self.sessions.get(key) else { return };
        let tag = Some(&*session.dialog.local_tag);
        let mut reply = Reply::new(arrived.request, arrived.source.remote, 200, "OK", tag);
        describe(&mut reply);
        reply.header("Accept", SDP.as_bytes());
        out.push(reply_effect(arrived.transaction, 200, reply.finish()));
    }

    /// INFO or MESSAGE; its final response is told.
    pub(crate) fn tell_peer(
        &mut self,
        id: SessionId,
        method: Method,
        content_type: &str,
        body: &Bytes,
        out: &mut SessionEffects,
    ) -> Result<(), CommandError> {
        let under_way = self.requests.len();
        let (key, session) = self.get(id)?;
        if !matches!(session.stage, SessionStage::Up) || !matches!(method, Method::Info | Method::Message) {
            return Err(CommandError::NotNow);
        }
        if under_way >= limits::SESSION_REQUESTS {
            return Err(CommandError::Refused);
        }
        let (mut request, onward) = session.dialog.request(method.as_str());
        request.header("User-Agent", crate::wire::PRODUCT.as_bytes());
        let bytes = request.finish_with(content_type, body);
        self.send(key, RequestPurpose::Told(method), bytes, onward, out);
        Ok(())
    }

    pub(super) fn reply(
        &self,
        key: Key,
        arrived: &ReceivedRequest<'_>,
        status: u16,
        reason: &str,
        out: &mut SessionEffects,
    ) {
        self.reply_with(key, arrived, (status, reason), None, out);
    }

    pub(super) fn reply_with(
        &self,
        key: Key,
        arrived: &ReceivedRequest<'_>,
        (status, reason): (u16, &str),
        header: Option<(&str, &str)>,
        out: &mut SessionEffects,
    ) {
        let tag = self.sessions.get(key).map(|session| &*session.dialog.local_tag);
        let mut reply = Reply::new(arrived.request, arrived.source.remote, status, reason, tag);
        if let Some((name, value)) = header {
            reply.header(name, value.as_bytes());
        }
        if status == 200 {
            reply.header("Supported", SUPPORTED.as_bytes());
        }
        out.push(reply_effect(arrived.transaction, status, reply.finish()));
    }
}

fn content_of(arrived: &ReceivedRequest<'_>) -> (Box<str>, Bytes) {
    let request = arrived.request;
    (content_type_of(request), request.bytes().slice_ref(request.body()))
}

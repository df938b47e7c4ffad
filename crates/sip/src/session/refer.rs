//! Transfer: REFER and the NOTIFYs of its implicit subscription, within a session. RFC 3515, RFC 5589.
//!
//! A REFER of the peer waits for the application, is accepted with 202, and is followed by NOTIFYs until one
//! is the last. Of ours only the fact is kept: the peer's NOTIFYs are passed on as they come. The
//! subscription lives no longer than the session.

use super::event::body_of;
use super::incoming::reply_effect;
use super::{
    CommandError, Dialog, ReceivedRequest, ReferId, RequestPurpose, Session, SessionContext, SessionEffects,
    SessionEvent, SessionStage, describe,
};
use crate::events::TxRef;
use crate::limits;
use crate::transport::Source;
use crate::wire::{Address, Header, Message, Params, Reply, Uri};

/// Seconds that the implicit subscription is said to last: longer than a phone rings.
const EXPIRES: u32 = 300;

/// A REFER of the peer's.
pub(super) struct Refer {
    id: ReferId,
    /// RFC 3515 §2.4.6: the CSeq by which the NOTIFYs name it.
    cseq: u32,
    waiting: Option<PendingRefer>,
}

/// A REFER of the peer that waits for the application's answer (RFC 3515 §2.4.2).
struct PendingRefer {
    transaction: TxRef,
    request: Message,
    source: Source,
    contact: Box<str>,
}

/// The transfers of a session.
#[derive(Default)]
pub(super) struct Refers {
    /// REFERs of the peer whose last NOTIFY has not been sent, at most `limits::REFERS`.
    open: Vec<Refer>,
    /// A REFER of ours went out: its NOTIFYs are awaited.
    is_referring: bool,
}

impl Refers {
    /// Takes the request of a REFER that has no answer yet.
    fn accept(&mut self, id: ReferId) -> Result<PendingRefer, CommandError> {
        let known = self.open.iter_mut().find(|known| known.id == id);
        known.and_then(|known| known.waiting.take()).ok_or(CommandError::Stale)
    }

    /// As [`accept`](Self::accept); the REFER is forgotten.
    fn refuse(&mut self, id: ReferId) -> Result<PendingRefer, CommandError> {
        let known = self.open.iter().position(|known| known.id == id && known.waiting.is_some());
        let refer = self.open.swap_remove(known.ok_or(CommandError::Stale)?);
        refer.waiting.ok_or(CommandError::Stale)
    }

    /// The place of a REFER that was accepted.
    fn accepted(&self, id: ReferId) -> Result<usize, CommandError> {
        let known = self.open.iter().position(|known| known.id == id && known.waiting.is_none());
        known.ok_or(CommandError::Stale)
    }

    /// The session ends: REFERs without an answer get one.
    pub(super) fn settle(&mut self, dialog: &Dialog, out: &mut SessionEffects) {
        for waiting in std::mem::take(&mut self.open).into_iter().filter_map(|refer| refer.waiting) {
            waiting.reply(dialog, 487, "Request Terminated", out);
        }
    }
}

impl PendingRefer {
    /// Answers the REFER without a body.
    fn reply(&self, dialog: &Dialog, status: u16, reason: &str, out: &mut SessionEffects) {
        let tag = Some(&*dialog.local_tag);
        let reply = Reply::new(&self.request, self.source.remote, status, reason, tag);
        out.push(reply_effect(self.transaction, status, reply.finish()));
    }
}

impl Session {
    /// 202; the peer is told at once that we try.
    pub(crate) fn accept_refer(
        &mut self,
        refer: ReferId,
        context: &mut SessionContext<'_>,
    ) -> Result<(), CommandError> {
        let waiting = self.refers.accept(refer)?;
        let tag = Some(&*self.dialog.local_tag);
        let mut reply = Reply::new(&waiting.request, waiting.source.remote, 202, "Accepted", tag);
        reply.header("Contact", format!("<{}>", waiting.contact).as_bytes());
        describe(&mut reply);
        context.out.push(reply_effect(waiting.transaction, 202, reply.finish()));
        self.notify_refer(refer, 100, "Trying", false, context)
    }

    /// A final refusal; nothing follows it.
    pub(crate) fn refuse_refer(
        &mut self,
        refer: ReferId,
        status: u16,
        reason: &str,
        context: &mut SessionContext<'_>,
    ) -> Result<(), CommandError> {
        let waiting = self.refers.refuse(refer)?;
        waiting.reply(&self.dialog, status.clamp(300, 699), reason, context.out);
        Ok(())
    }

    /// Reports the progress of the call that the peer asked for; the last time with `over`.
    pub(crate) fn notify_refer(
        &mut self,
        refer: ReferId,
        status: u16,
        reason: &str,
        over: bool,
        context: &mut SessionContext<'_>,
    ) -> Result<(), CommandError> {
        let index = self.refers.accepted(refer)?;
        let cseq = self.refers.open[index].cseq;
        if !matches!(self.stage, SessionStage::Up) {
            return Err(CommandError::NotNow);
        }
        if over {
            self.refers.open.swap_remove(index);
        }
        let (mut request, onward) = self.dialog.request("NOTIFY");
        let state = if over {
            "terminated;reason=noresource".to_owned()
        } else {
            format!("active;expires={EXPIRES}")
        };
        request
            .header("Event", format!("refer;id={cseq}").as_bytes())
            .header("Subscription-State", state.as_bytes());
        // RFC 3420: the status line is enough.
        let body = format!("SIP/2.0 {status} {}\r\n", reason.replace(['\r', '\n'], " "));
        let bytes = request.finish_with("message/sipfrag;version=2.0", body.as_bytes());
        context.requests.send(self, RequestPurpose::Quiet, bytes, onward, context.out);
        Ok(())
    }

    /// Asks the peer to call `target`; RFC 3892's Referred-By when given. The peer's answer and progress come
    /// as events.
    pub(crate) fn refer(
        &mut self,
        target: &str,
        referred_by: Option<&str>,
        context: &mut SessionContext<'_>,
    ) -> Result<(), CommandError> {
        if !matches!(self.stage, SessionStage::Up) {
            return Err(CommandError::NotNow);
        }
        if Uri::parse(target.as_bytes()).is_err() {
            return Err(CommandError::Refused);
        }
        let (mut request, onward) = self.dialog.request("REFER");
        request.header("Refer-To", format!("<{target}>").as_bytes());
        if let Some(referred_by) = referred_by {
            request.header("Referred-By", referred_by.as_bytes());
        }
        self.refers.is_referring = true;
        context.requests.send(self, RequestPurpose::Refer, request.finish(), onward, context.out);
        Ok(())
    }

    /// A REFER of the peer, for the application to decide.
    pub(super) fn handle_refer(&mut self, arrived: &ReceivedRequest<'_>, out: &mut SessionEffects) {
        let request = arrived.request;
        // RFC 3515 §2.4.2: exactly one Refer-To.
        let one = request.count(Header::ReferTo) == 1;
        let target = request.header(Header::ReferTo).filter(|_| one).and_then(Address::parse);
        if target.is_none_or(|target| Uri::parse(target.uri).is_err()) {
            return self.dialog.reply(arrived, 400, "Bad Refer-To", out);
        }
        if !matches!(self.stage, SessionStage::Up) {
            return self.dialog.reply(arrived, 481, "Call/Transaction Does Not Exist", out);
        }
        if self.refers.open.len() >= limits::REFERS {
            return self.dialog.reply(arrived, 486, "Busy Here", out);
        }
        let id = ReferId(self.next_token());
        let waiting = PendingRefer {
            transaction: arrived.transaction,
            request: request.clone(),
            source: *arrived.source,
            contact: arrived.contact.into(),
        };
        let cseq = request.cseq().map_or(0, |(number, _)| number);
        self.refers.open.push(Refer { id, cseq, waiting: Some(waiting) });
        let request = Box::new(request.clone());
        self.emit(|session| SessionEvent::Referred { session, refer: id, request }, out);
    }

    /// A NOTIFY of the peer about a REFER of ours; others are `489` (RFC 6665 §4.1.3).
    pub(super) fn handle_notify(&self, arrived: &ReceivedRequest<'_>, out: &mut SessionEffects) {
        let request = arrived.request;
        let event = request.header(Header::Event).unwrap_or_default();
        let package = event.split(|&b| b == b';').next().unwrap_or_default().trim_ascii();
        if !package.eq_ignore_ascii_case(b"refer") || !self.refers.is_referring {
            return self.dialog.reply(arrived, 489, "Bad Event", out);
        }
        self.dialog.reply(arrived, 200, "OK", out);
        let state = request.header(Header::SubscriptionState).unwrap_or_default();
        let over = Params(state).has("terminated");
        let body = body_of(request).unwrap_or_default();
        self.emit(|session| SessionEvent::ReferProgress { session, body, over }, out);
    }
}

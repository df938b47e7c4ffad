//! The commands by which an application speaks to its sessions.

use bytes::Bytes;
use stdx::Instant;

use super::UserAgent;
use crate::endpoint::lower::LowerView;
use crate::session::{
    CommandError, Invite, MessageId, MessageOut, OfferId, ReferId, Session, SessionContext, SessionEffect,
    SessionId, Sessions,
};
use crate::wire::Method;

/// The commands of an application at one time. Their results come out as effects; a session that has ended takes none.
pub struct SessionCommands<'a> {
    pub(crate) user_agent: &'a mut UserAgent,
    pub(crate) lower: LowerView<'a>,
}

impl SessionCommands<'_> {
    /// Places a call. Events: `Ringing`, `Answered`, and in any case `Ended`.
    pub fn invite(&mut self, invite: Invite) -> Result<SessionId, CommandError> {
        self.with_sessions(|sessions, now, effects| sessions.invite(now, invite, effects))
    }

    /// Sends a MESSAGE outside of any dialog; `MessageAnswered` tells its final status.
    pub fn message(&mut self, text: MessageOut) -> Result<MessageId, CommandError> {
        self.with_sessions(|sessions, _, effects| sessions.message(text, effects))
    }

    /// A provisional response, 101 to 199, to a session that was `Invited`; `sdp` may be empty.
    pub fn ring(&mut self, session: SessionId, status: u16, sdp: Bytes) -> Result<(), CommandError> {
        self.with_session(session, |session, context| session.ring(status, sdp, context))
    }

    /// 200 to a session that was `Invited`; headers of the application's own go with it.
    pub fn answer(
        &mut self,
        session: SessionId,
        sdp: Bytes,
        headers: Vec<(Box<str>, Box<str>)>,
    ) -> Result<(), CommandError> {
        self.with_session(session, |session, context| session.answer(sdp, headers, context))
    }

    /// 3xx to 6xx to a session that was `Invited`; a 3xx has its Contacts among the headers.
    pub fn reject(
        &mut self,
        session: SessionId,
        status: u16,
        reason: &str,
        headers: &[(Box<str>, Box<str>)],
    ) -> Result<(), CommandError> {
        self.with_sessions(|sessions, _, effects| sessions.reject(session, status, reason, headers, effects))
    }

    /// Ends a session in whatever stage: 480, CANCEL or BYE, the last two with a Reason (RFC 3326). Again: nothing.
    pub fn hang_up(&mut self, session: SessionId, reason: Option<&str>) {
        self.with_sessions(|sessions, now, effects| sessions.hang_up(now, session, reason, effects));
    }

    /// A re-INVITE with new SDP.
    pub fn offer(&mut self, session: SessionId, sdp: &Bytes) -> Result<(), CommandError> {
        self.with_session(session, |session, context| session.offer(sdp, context))
    }

    /// Accepts a peer's offer with an answer.
    pub fn accept_offer(
        &mut self,
        session: SessionId,
        offer: OfferId,
        sdp: Bytes,
    ) -> Result<(), CommandError> {
        self.with_session(session, |session, context| session.accept_offer(offer, sdp, context))
    }

    /// Refuses a peer's offer with a status.
    pub fn refuse_offer(
        &mut self,
        session: SessionId,
        offer: OfferId,
        status: u16,
        reason: &str,
    ) -> Result<(), CommandError> {
        self.with_session(session, |session, context| session.refuse_offer(offer, status, reason, context))
    }

    /// INFO or MESSAGE within the session; `Responded` tells the outcome.
    pub fn tell_peer(
        &mut self,
        session: SessionId,
        method: Method,
        content_type: &str,
        body: &Bytes,
    ) -> Result<(), CommandError> {
        self.with_session(session, |session, context| session.tell_peer(method, content_type, body, context))
    }

    /// REFER: the peer shall call `target`. Events: `ReferAnswered`, `ReferProgress`.
    pub fn refer(
        &mut self,
        session: SessionId,
        target: &str,
        referred_by: Option<&str>,
    ) -> Result<(), CommandError> {
        self.with_session(session, |session, context| session.refer(target, referred_by, context))
    }

    /// Accepts a peer's REFER with 202 (RFC 3515).
    pub fn accept_refer(&mut self, session: SessionId, refer: ReferId) -> Result<(), CommandError> {
        self.with_session(session, |session, context| session.accept_refer(refer, context))
    }

    /// Refuses a peer's REFER with a status.
    pub fn refuse_refer(
        &mut self,
        session: SessionId,
        refer: ReferId,
        status: u16,
        reason: &str,
    ) -> Result<(), CommandError> {
        self.with_session(session, |session, context| session.refuse_refer(refer, status, reason, context))
    }

    /// Reports the progress of an accepted REFER's call: a status, and true if it is the last report.
    pub fn notify_refer(
        &mut self,
        session: SessionId,
        refer: ReferId,
        status: u16,
        reason: &str,
        over: bool,
    ) -> Result<(), CommandError> {
        self.with_session(session, |session, context| {
            session.notify_refer(refer, status, reason, over, context)
        })
    }

    fn with_session(
        &mut self,
        id: SessionId,
        command: impl FnOnce(&mut Session, &mut SessionContext<'_>) -> Result<(), CommandError>,
    ) -> Result<(), CommandError> {
        self.with_sessions(|sessions, now, effects| sessions.command(now, id, command, effects))
    }

    fn with_sessions<R>(
        &mut self,
        command: impl FnOnce(&mut Sessions, Instant, &mut Vec<SessionEffect>) -> R,
    ) -> R {
        self.user_agent.with_sessions(&mut self.lower, command)
    }
}

//! The commands by which an application speaks to its sessions.

use bytes::Bytes;
use stdx::Instant;

use super::UserAgent;
use crate::endpoint::lower::LowerView;
use crate::session::{
    CommandError, Invite, MessageId, MessageOut, OfferId, ReferId, SessionEffect, SessionId, Sessions,
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
        self.with_sessions(|sessions, now, effects| sessions.ring(now, session, status, sdp, effects))
    }

    /// 200 to a session that was `Invited`; headers of the application's own go with it.
    pub fn answer(
        &mut self,
        session: SessionId,
        sdp: Bytes,
        headers: Vec<(Box<str>, Box<str>)>,
    ) -> Result<(), CommandError> {
        self.with_sessions(|sessions, now, effects| sessions.answer(now, session, sdp, headers, effects))
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

    /// Ends a session in whatever stage: 480, CANCEL or BYE, the last with a Reason (RFC 3326). Again: nothing.
    pub fn hang_up(&mut self, session: SessionId, reason: Option<&str>) {
        self.with_sessions(|sessions, now, effects| sessions.hang_up(now, session, reason, effects));
    }

    /// A re-INVITE with new SDP.
    pub fn offer(&mut self, session: SessionId, sdp: &Bytes) -> Result<(), CommandError> {
        self.with_sessions(|sessions, _, effects| sessions.offer(session, sdp, effects))
    }

    /// Accepts a peer's offer with an answer.
    pub fn accept_offer(
        &mut self,
        session: SessionId,
        offer: OfferId,
        sdp: Bytes,
    ) -> Result<(), CommandError> {
        self.with_sessions(|sessions, now, effects| sessions.accept_offer(now, session, offer, sdp, effects))
    }

    /// Refuses a peer's offer with a status.
    pub fn refuse_offer(
        &mut self,
        session: SessionId,
        offer: OfferId,
        status: u16,
        reason: &str,
    ) -> Result<(), CommandError> {
        self.with_sessions(|sessions, _, effects| {
            sessions.refuse_offer(session, offer, status, reason, effects)
        })
    }

    /// INFO or MESSAGE within the session; `Responded` tells the outcome.
    pub fn tell_peer(
        &mut self,
        session: SessionId,
        method: Method,
        content_type: &str,
        body: &Bytes,
    ) -> Result<(), CommandError> {
        self.with_sessions(|sessions, _, effects| {
            sessions.tell_peer(session, method, content_type, body, effects)
        })
    }

    /// REFER: the peer shall call `target`. Events: `ReferAnswered`, `ReferProgress`.
    pub fn refer(
        &mut self,
        session: SessionId,
        target: &str,
        referred_by: Option<&str>,
    ) -> Result<(), CommandError> {
        self.with_sessions(|sessions, _, effects| sessions.refer(session, target, referred_by, effects))
    }

    /// Accepts a peer's REFER with 202 (RFC 3515).
    pub fn accept_refer(&mut self, session: SessionId, refer: ReferId) -> Result<(), CommandError> {
        self.with_sessions(|sessions, _, effects| sessions.accept_refer(session, refer, effects))
    }

    /// Refuses a peer's REFER with a status.
    pub fn refuse_refer(
        &mut self,
        session: SessionId,
        refer: ReferId,
        status: u16,
        reason: &str,
    ) -> Result<(), CommandError> {
        self.with_sessions(|sessions, _, effects| {
            sessions.refuse_refer(session, refer, status, reason, effects)
        })
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
        self.with_sessions(|sessions, _, effects| {
            sessions.notify_refer(session, refer, status, reason, over, effects)
        })
    }

    fn with_sessions<R>(
        &mut self,
        command: impl FnOnce(&mut Sessions, Instant, &mut Vec<SessionEffect>) -> R,
    ) -> R {
        self.user_agent.with_sessions(&mut self.lower, command)
    }
}

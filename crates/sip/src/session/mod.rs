//! The user agent that an application has in this server: dialogs and sessions of RFC 3261 §12 to §15, with
//! reliable provisional responses (RFC 3262), UPDATE (3311), REFER (3515) and session timers (4028).
//!
//! One [`Sessions`] a shard, beside the proxy and the notifier: it is told requests and responses that are of its
//! dialogs, and commands of the application; it answers with [`SessionEffect`]s. SDP is handed through unread.
//!
//! The collection finds the `Session` and passes on. A session has its dialog, its stage (`SessionStage`), the one open
//! offer (`OfferExchange`), its timer (`SessionRefresh`) and its transfers (`Refers`); the requests that wait for a
//! response are in `PendingRequests`, MESSAGEs outside of dialogs in `PendingMessages`.

mod auth;
mod body;
mod dialog;
mod event;
mod incoming;
mod message;
mod offer;
mod outgoing;
mod refer;
mod refresh;
mod requests;
mod within;

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use smallvec::SmallVec;
use stdx::Instant;
use stdx::rng::Rng;
use stdx::slab::{Key, Slab};
use stdx::wheel::Wheel;

use crate::endpoint::CallEventKind;
use crate::events::{RequestId, TxRef};
use crate::limits;
use crate::transaction::{T1, TIMEOUT};
use crate::transport::Source;
use crate::wire::{Header, Message, Reply, RequestBuilder};
pub use body::sdp_of;
use dialog::Dialog;
pub use event::{
    Cause, CommandError, Invite, Invited, Login, MessageId, OfferId, ReferId, SessionEffect, SessionEvent,
    SessionId, sipfrag_status,
};
use incoming::{IncomingInvite, RAck, UnacknowledgedOk};
pub use message::MessageOut;
use message::PendingMessages;
use offer::OfferExchange;
use outgoing::{AcknowledgedInvite, OutgoingInvite};
use refer::Refers;
use refresh::SessionRefresh;
use requests::{PendingRequest, PendingRequests, RequestPurpose};

/// Effects in the order in which they are to be performed.
pub(super) type SessionEffects = Vec<SessionEffect>;

/// The settings of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionRules {
    /// The life of a session without a refresh (RFC 4028); at least the 90 s of its §4. Zero: we ask for
    /// none.
    pub expires: Duration,
}

impl Default for SessionRules {
    /// Half an hour, as RFC 4028 §4 recommends.
    fn default() -> Self {
        SessionRules { expires: Duration::from_secs(1_800) }
    }
}

/// The sessions and requests that are held now. All zero when every session has ended and 64*T1 have passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionCounts {
    /// Sessions that have not ended.
    pub sessions: usize,
    /// Requests of ours without a final response.
    pub requests: usize,
    /// INVITEs of ours whose 2xx may come again.
    pub acknowledged: usize,
}

/// The calls that the server itself answers or places, for applications.
pub struct Sessions {
    rules: SessionRules,
    rng: Rng,
    /// The end of our tags: the shard's place in a farm; empty alone.
    tag_end: Box<str>,
    sessions: Slab<Session>,
    /// By our tag, which no two dialogs share.
    by_tag: HashMap<Box<str>, Key>,
    requests: PendingRequests,
    messages: PendingMessages,
    /// INVITEs whose 2xx was acknowledged, by the number of the request.
    acknowledged: HashMap<u64, AcknowledgedInvite>,
    /// Wake-ups of sessions; entries of sessions that have ended find nothing.
    wheel: Wheel<SessionTimer>,
}

/// One session: its dialog, its stage and all that is open in it.
pub(crate) struct Session {
    /// Given by [`Sessions::insert`].
    id: SessionId,
    dialog: Dialog,
    stage: SessionStage,
    /// The credentials for challenges.
    login: Option<Box<Login>>,
    /// The call is ours (RFC 3261 §14.1 tells the two apart).
    owns_call_id: bool,
    /// Our last SDP: a refresh by re-INVITE repeats it.
    local_sdp: Bytes,
    /// Methods the peer's Allow names; none until it said so.
    peer_allows_update: bool,
    exchange: OfferExchange,
    /// The number of the last offer or transfer, so that a late answer is told from a new one.
    last_token: u32,
    /// Our 2xx to an INVITE that still has no ACK.
    unacked: Option<Box<UnacknowledgedOk>>,
    /// Our 2xx overtook the PRACK of a provisional response (RFC 3262 §3).
    overtaken: Option<RAck>,
    refresh: SessionRefresh,
    refers: Refers,
    /// Requests of ours without a final response.
    requests: SmallVec<[u64; 2]>,
    /// Where the last response to a request of ours came from.
    peer: Option<IpAddr>,
    /// The peer is known to receive what goes to its address: until then it is sent no requests.
    proved: bool,
    /// The application has heard of the end.
    has_ended: bool,
    /// Once a 2xx has made it a session; by it the ledger tells ended from failed.
    was_up: bool,
    /// The earliest wheel entry that is outstanding for it.
    armed: Instant,
}

/// The stage of a session; fields that matter in one stage stand in it.
enum SessionStage {
    /// Their INVITE has no final response.
    Invited(Box<IncomingInvite>),
    /// Our INVITE has none.
    Calling(Box<OutgoingInvite>),
    /// There is a dialog, and media may flow.
    Up,
    /// Our BYE waits for the ACK of our 2xx (RFC 3261 §15), or for its own answer.
    Ending,
}

/// Late and repeated ones find nothing due and are ignored.
#[derive(Clone, Copy)]
enum SessionTimer {
    Session(Key),
    Acknowledged(u64),
}

/// A request of the peer's, and the endpoint's knowledge of it.
pub(crate) struct ReceivedRequest<'a> {
    pub(crate) transaction: TxRef,
    pub(crate) request: &'a Message,
    pub(crate) source: &'a Source,
    /// The URI by which the sender reaches the listener it came in by: our Contact.
    pub(crate) contact: &'a str,
    /// The sender is known to receive what goes to its address.
    pub(crate) proved: bool,
}

/// The surroundings of a session while it performs a command.
pub(crate) struct SessionContext<'a> {
    now: Instant,
    rules: SessionRules,
    requests: &'a mut PendingRequests,
    out: &'a mut SessionEffects,
}

impl Sessions {
    /// No sessions yet; `rng` draws tags, Call-IDs and cnonces.
    pub(crate) fn new(rng: Rng, now: Instant) -> Self {
        Sessions {
            rules: SessionRules::default(),
            rng,
            tag_end: "".into(),
            sessions: Slab::new(),
            by_tag: HashMap::new(),
            requests: PendingRequests::default(),
            messages: PendingMessages::default(),
            acknowledged: HashMap::new(),
            wheel: Wheel::new(now),
        }
    }

    /// Settings for sessions from now on.
    pub(crate) fn set_rules(&mut self, rules: SessionRules) {
        self.rules = rules;
    }

    /// The numbers now.
    pub(crate) fn counts(&self) -> SessionCounts {
        SessionCounts {
            sessions: self.sessions.len(),
            requests: self.requests.by_id.len() + self.messages.len(),
            acknowledged: self.acknowledged.len(),
        }
    }

    /// True if the request belongs to a dialog held here.
    pub(crate) fn owns(&self, request: &Message) -> bool {
        self.session_of(request).is_some()
    }

    /// The session whose dialog the request belongs to. Costs nothing while there is none.
    pub(crate) fn session_of(&self, request: &Message) -> Option<SessionId> {
        if self.sessions.is_empty() {
            return None;
        }
        self.find(request).map(|key| SessionId(key.to_u64()))
    }

    /// By To tag; the other half of the dialog's name may be one of several forks'.
    fn find(&self, request: &Message) -> Option<Key> {
        let tag = std::str::from_utf8(request.to_tag()?).ok()?;
        let key = *self.by_tag.get(tag)?;
        let session = self.sessions.get(key)?;
        let is_ours = session.dialog.is_of(request)
            || matches!(&session.stage, SessionStage::Calling(calling) if calling.has_dialog(request));
        is_ours.then_some(key)
    }

    /// When [`expire`](Self::expire) has something to do.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.wheel.deadline()
    }

    /// Performs the timers that are due.
    pub(crate) fn expire(&mut self, now: Instant, out: &mut SessionEffects) {
        if self.wheel.is_empty() {
            return;
        }
        let mut due = Vec::new();
        self.wheel.expire(now, &mut due);
        for timer in due {
            match timer {
                SessionTimer::Session(key) => self.handle_timer(now, key, out),
                SessionTimer::Acknowledged(id) => drop(self.acknowledged.remove(&id)),
            }
        }
    }

    fn handle_timer(&mut self, now: Instant, key: Key, out: &mut SessionEffects) {
        let Some(session) = self.sessions.get_mut(key).filter(|session| session.armed <= now) else { return };
        session.armed = Instant::FAR_FUTURE;
        session.wake_unacked(now, &mut self.requests, out);
        self.wake_incoming(now, key, out);
        self.wake_calling(now, key, out);
        if let Some(session) = self.sessions.get_mut(key) {
            session.wake_exchange(now, out);
            session.wake_refresh(now, &mut self.requests, out);
        }
        self.arm(key);
    }

    /// One wheel entry is outstanding, or more where it had to be woken earlier.
    fn arm(&mut self, key: Key) {
        let Some(session) = self.sessions.get_mut(key) else { return };
        let deadline = session.deadline();
        if deadline < session.armed {
            session.armed = deadline;
            self.wheel.insert(deadline, SessionTimer::Session(key));
        }
    }

    /// The application wants it over, in whatever stage it is. Doing it again does nothing.
    pub(crate) fn hang_up(
        &mut self,
        now: Instant,
        id: SessionId,
        reason: Option<&str>,
        out: &mut SessionEffects,
    ) {
        let key = Key::from_u64(id.0);
        let Some(session) = self.sessions.get_mut(key) else { return };
        match session.stage {
            SessionStage::Invited(_) => {
                self.refuse_call(key, 480, "Temporarily Unavailable", Cause::Local, &[], out);
            }
            SessionStage::Calling(_) => session.give_up_calling(now, Cause::Local, reason, out),
            SessionStage::Up => session.leave(&mut self.requests, Cause::Local, reason, out),
            SessionStage::Ending => {}
        }
        self.arm(key);
    }

    /// It is over on both sides: nothing of it stays but what retransmissions need.
    fn remove(&mut self, key: Key, out: &mut SessionEffects) {
        let Some(session) = self.sessions.remove(key) else { return };
        self.by_tag.remove(&*session.dialog.local_tag);
        for id in session.requests {
            if self.requests.by_id.remove(&id).is_some() {
                out.push(SessionEffect::Forget { id: RequestId(id) });
            }
        }
    }

    /// The dialog is gone on the peer's side.
    fn vanish(&mut self, key: Key, cause: Cause, out: &mut SessionEffects) {
        let Some(session) = self.sessions.get_mut(key) else { return };
        session.exchange.settle(&session.dialog, out);
        session.tell_end(cause, out);
        self.remove(key, out);
    }

    /// A response is about to be handled that came from there.
    pub(crate) fn note_peer(&mut self, id: RequestId, peer: IpAddr) {
        let key = self.requests.by_id.get(&id.0).map(|pending| pending.key);
        if let Some(session) = key.and_then(|key| self.sessions.get_mut(key)) {
            session.peer = Some(peer);
        }
    }

    /// Where the last response to a request of the session came from.
    pub(crate) fn peer_of(&self, session: SessionId) -> Option<IpAddr> {
        self.sessions.get(Key::from_u64(session.0))?.peer
    }

    /// It has its final response.
    fn take_request(&mut self, id: RequestId) -> Option<PendingRequest> {
        let pending = self.requests.by_id.remove(&id.0)?;
        if let Some(session) = self.sessions.get_mut(pending.key) {
            session.requests.retain(|known| *known != id.0);
        }
        Some(pending)
    }

    /// Gives a new session its place and its identifier.
    fn insert(&mut self, session: Session) -> Key {
        let tag = session.dialog.local_tag.clone();
        let key = self.sessions.insert(session);
        if let Some(session) = self.sessions.get_mut(key) {
            session.id = SessionId(key.to_u64());
        }
        self.by_tag.insert(tag, key);
        key
    }

    /// Sends a MESSAGE outside of any dialog.
    pub(crate) fn message(
        &mut self,
        text: MessageOut,
        out: &mut SessionEffects,
    ) -> Result<MessageId, CommandError> {
        self.messages.send(&mut self.requests, &mut self.rng, text, out)
    }

    fn tag(&mut self) -> Box<str> {
        let mut tag = self.rng.token(limits::TAG_CHARS);
        tag.push_str(&self.tag_end);
        tag.into()
    }

    /// New dialogs name the shard that has them.
    pub(crate) fn set_tag_end(&mut self, end: &str) {
        self.tag_end = end.into();
    }

    /// Has a session perform a command, unless it has ended.
    pub(crate) fn command(
        &mut self,
        now: Instant,
        id: SessionId,
        command: impl FnOnce(&mut Session, &mut SessionContext<'_>) -> Result<(), CommandError>,
        out: &mut SessionEffects,
    ) -> Result<(), CommandError> {
        let key = Key::from_u64(id.0);
        let session = self.sessions.get_mut(key).filter(|session| !session.has_ended);
        let session = session.ok_or(CommandError::NoSession)?;
        let mut context = SessionContext { now, rules: self.rules, requests: &mut self.requests, out };
        let done = command(session, &mut context);
        self.arm(key);
        done
    }
}

impl Session {
    /// A session that is up ends from our side: BYE, once our 2xx was acknowledged.
    fn leave(
        &mut self,
        requests: &mut PendingRequests,
        cause: Cause,
        reason: Option<&str>,
        out: &mut SessionEffects,
    ) {
        self.exchange.settle(&self.dialog, out);
        if !matches!(self.stage, SessionStage::Up) {
            return;
        }
        self.stage = SessionStage::Ending;
        // RFC 3261 §15: the callee's BYE waits for the ACK, or for its failing to come.
        let waits = self.unacked.as_ref().is_some_and(|unacked| unacked.is_first);
        if !waits {
            self.unacked = None;
            self.send_bye(requests, reason, out);
        }
        self.tell_end(cause, out);
    }

    fn send_bye(&mut self, requests: &mut PendingRequests, reason: Option<&str>, out: &mut SessionEffects) {
        let (mut request, onward) = self.dialog.request("BYE");
        if let Some(reason) = reason {
            request.header("Reason", reason.as_bytes());
        }
        requests.send(self, RequestPurpose::Bye, request.finish(), onward, out);
    }

    /// Tells the application and the ledger, once.
    fn tell_end(&mut self, cause: Cause, out: &mut SessionEffects) {
        self.tell_end_as(cause, None, out);
    }

    /// As [`tell_end`](Self::tell_end). `refusal`: the final response that the caller got from here.
    fn tell_end_as(&mut self, cause: Cause, refusal: Option<(u16, &str)>, out: &mut SessionEffects) {
        if std::mem::replace(&mut self.has_ended, true) {
            return;
        }
        self.refresh = SessionRefresh::Never;
        let was_up = self.was_up;
        let (call_id, local_tag) = (self.dialog.call_id.clone(), self.dialog.local_tag.clone());
        self.refers.settle(&self.dialog, out);
        let kind = match &cause {
            _ if was_up => CallEventKind::Ended,
            _ if let Some((status, reason)) = refusal => {
                CallEventKind::Failed { status, reason: reason.into() }
            }
            Cause::Failed { status, response } => {
                let reason = response.as_ref().map(|r| String::from_utf8_lossy(r.reason()).into());
                CallEventKind::Failed { status: *status, reason: reason.unwrap_or_default() }
            }
            Cause::Timeout => CallEventKind::Failed { status: 408, reason: "No Answer".into() },
            _ => CallEventKind::Failed { status: 487, reason: "Request Terminated".into() },
        };
        out.push(SessionEffect::Call { call_id, local_tag, kind });
        out.push(SessionEffect::Event(SessionEvent::Ended { session: self.id, cause }));
    }

    fn emit(&self, event: impl FnOnce(SessionId) -> SessionEvent, out: &mut SessionEffects) {
        if !self.has_ended {
            out.push(SessionEffect::Event(event(self.id)));
        }
    }
}

impl Session {
    fn new(dialog: Dialog, stage: SessionStage) -> Self {
        Session {
            id: SessionId(0),
            dialog,
            stage,
            login: None,
            owns_call_id: false,
            peer: None,
            proved: true,
            local_sdp: Bytes::new(),
            peer_allows_update: false,
            exchange: OfferExchange::Idle,
            last_token: 0,
            unacked: None,
            overtaken: None,
            refresh: SessionRefresh::Never,
            refers: Refers::default(),
            requests: SmallVec::new(),
            has_ended: false,
            was_up: false,
            armed: Instant::FAR_FUTURE,
        }
    }

    fn deadline(&self) -> Instant {
        let unacked = self.unacked.as_ref().map_or(Instant::FAR_FUTURE, |unacked| unacked.deadline());
        let stage = match &self.stage {
            SessionStage::Invited(incoming) => incoming.deadline(),
            SessionStage::Calling(calling) => calling.deadline,
            SessionStage::Up | SessionStage::Ending => Instant::FAR_FUTURE,
        };
        unacked.min(stage).min(self.exchange.deadline()).min(self.refresh.deadline())
    }

    fn next_token(&mut self) -> u32 {
        self.last_token += 1;
        self.last_token
    }

    fn note_allow(&mut self, message: &Message) {
        if message.header(Header::Allow).is_some() {
            self.peer_allows_update = message.lists(Header::Allow, "UPDATE");
        }
    }
}

/// The dialog of a request of the peer. Before the answer to our INVITE each fork has one of its own.
fn dialog_of<'a>(session: &'a mut Session, request: &Message) -> Option<&'a mut Dialog> {
    match &mut session.stage {
        SessionStage::Calling(calling) => calling.dialog_of(request),
        _ => Some(&mut session.dialog),
    }
}

/// Something of ours that is repeated until the peer has acknowledged it.
struct Retransmission {
    bytes: Bytes,
    interval: Duration,
    next: Instant,
    end: Instant,
}

impl Retransmission {
    fn new(now: Instant, bytes: Bytes) -> Self {
        Retransmission { bytes, interval: T1, next: now + T1, end: now + TIMEOUT }
    }

    fn deadline(&self) -> Instant {
        self.next.min(self.end)
    }

    /// The bytes that are due now; `Err` when it was repeated long enough. `longest` bounds the interval.
    fn handle_timer(&mut self, now: Instant, longest: Duration) -> Result<Option<Bytes>, ()> {
        if self.end <= now {
            return Err(());
        }
        if self.next > now {
            return Ok(None);
        }
        self.interval = (self.interval * 2).min(longest);
        self.next = now + self.interval;
        Ok(Some(self.bytes.clone()))
    }
}

/// The headers that every response to INVITE or UPDATE of ours has: RFC 3261 table 2.
fn describe(reply: &mut Reply) {
    reply.header("Allow", ALLOW.as_bytes());
    reply.header("Supported", SUPPORTED.as_bytes());
}

fn describe_request(request: &mut RequestBuilder) {
    request.header("Allow", ALLOW.as_bytes());
    request.header("Supported", SUPPORTED.as_bytes());
    request.header("User-Agent", crate::wire::PRODUCT.as_bytes());
}

/// The methods that sessions take, for Allow (RFC 3261 §20.5).
const ALLOW: &str = "INVITE, ACK, CANCEL, BYE, OPTIONS, PRACK, UPDATE, INFO, REFER, NOTIFY";
/// The option tags that sessions support: RFC 3262 and RFC 4028.
const SUPPORTED: &str = "100rel, timer";
const SDP: &str = "application/sdp";

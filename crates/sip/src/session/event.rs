//! Events of a session for its application, the application's commands, and all that a session can cause.

use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use router::Received;

use crate::endpoint::{CallEventKind, Caller, ListedUnder};
use crate::events::{OutgoingRoute, RequestId, TxRef};
use crate::transport::Source;
use crate::wire::{Header, Message, Method};

/// The number of a session: one dialog of ours, from the INVITE to the end. Never used again once ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(pub u64);

/// An offer of the peer's that waits for our answer. One that is withdrawn or answered fits nothing any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OfferId(pub u32);

/// A REFER of the peer's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReferId(pub u32);

/// A MESSAGE of ours outside of dialogs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MessageId(pub u64);

/// An INVITE that came for an application.
#[derive(Clone, Debug)]
pub struct Invited {
    /// Any header may be asked of it; its body is the offer.
    pub request: Message,
    /// The transport and addresses that the INVITE came by.
    pub source: Source,
    /// The caller, as far as it is proved.
    pub caller: Caller,
    /// The caller is known to receive what goes to its address. Until then, or [`SessionEvent::Confirmed`], it may be
    /// another host's, and no media goes there.
    pub proved: bool,
}

/// An event of a session. [`Ended`](SessionEvent::Ended) is the last.
#[derive(Clone, Debug)]
pub enum SessionEvent {
    /// A call came in. The application rings, answers, rejects or redirects it.
    Invited {
        /// The new session.
        session: SessionId,
        /// The INVITE and its origin.
        invited: Box<Invited>,
    },
    /// The peer of our INVITE has said 101 to 199; its body is early media's SDP. Forks each say their own.
    Ringing {
        /// The session that called.
        session: SessionId,
        /// The provisional response.
        response: Box<Message>,
    },
    /// Our INVITE was answered, and acknowledged.
    Answered {
        /// The session that called.
        session: SessionId,
        /// The 2xx; its body is the SDP answer.
        response: Box<Message>,
    },
    /// Our 2xx was acknowledged. `sdp` answers it when it was an offer.
    Confirmed {
        /// The session that was answered.
        session: SessionId,
        /// The body of the ACK.
        sdp: Option<Bytes>,
    },
    /// A re-INVITE or UPDATE wants an answer; without `sdp` the answer is to be an offer.
    Offered {
        /// The session that the offer would change.
        session: SessionId,
        /// The token that the answer carries.
        offer: OfferId,
        /// The peer's offer.
        sdp: Option<Bytes>,
        /// The address that it came from.
        source: IpAddr,
        /// True if that address is known to receive what is sent to it: over UDP it may be forged.
        proved: bool,
    },
    /// The peer took an offer back.
    OfferWithdrawn {
        /// The session that stays as it was.
        session: SessionId,
        /// The token of the offer, which no answer fits any longer.
        offer: OfferId,
    },
    /// Our offer, or a session refresh that was a re-INVITE, was answered.
    OfferAnswered {
        /// The session that has changed.
        session: SessionId,
        /// The peer's answer; `None` for a refresh without SDP.
        sdp: Option<Bytes>,
    },
    /// The session stays as it was.
    OfferRefused {
        /// The session that stays as it was.
        session: SessionId,
        /// The final status of the re-INVITE or UPDATE.
        status: u16,
    },
    /// Our offer met one of the peer's (RFC 3261 §14.1); the random wait is over: offer anew if still wanted.
    OfferCrossed {
        /// The session whose offer met a 491.
        session: SessionId,
    },
    /// An INFO in the dialog (RFC 6086), already answered with 200.
    Info {
        /// The session it came in.
        session: SessionId,
        /// The Content-Type as written.
        content_type: Box<str>,
        /// The body.
        body: Bytes,
    },
    /// The peer asks us to place a call (RFC 3515): Refer-To and Referred-By stand in the request.
    Referred {
        /// The session it came in.
        session: SessionId,
        /// The token that the answer carries.
        refer: ReferId,
        /// The REFER.
        request: Box<Message>,
    },
    /// The final status of a REFER of ours.
    ReferAnswered {
        /// The session that referred its peer.
        session: SessionId,
        /// The final status: 202, or the refusal.
        status: u16,
    },
    /// The progress of the call that our REFER asked for; see [`sipfrag_status`](super::sipfrag_status).
    ReferProgress {
        /// The session that referred its peer.
        session: SessionId,
        /// The body of the NOTIFY: `message/sipfrag` (RFC 3420).
        body: Bytes,
        /// True: Subscription-State is `terminated`, no further progress comes.
        over: bool,
    },
    /// The final response to an INFO or MESSAGE of ours.
    Responded {
        /// The session that sent the request.
        session: SessionId,
        /// INFO or MESSAGE.
        method: Method,
        /// The final status; 408 and 503 are also ours.
        status: u16,
    },
    /// The final response to a MESSAGE outside of dialogs, reported once; 408 and 503 are also ours. It
    /// belongs to no session.
    MessageAnswered {
        /// The number that the send command returned.
        message: MessageId,
        /// The final status.
        status: u16,
    },
    /// Said once, and last.
    Ended {
        /// The session, which is forgotten after this event.
        session: SessionId,
        /// The reason for the end.
        cause: Cause,
    },
}

/// Why a session ended.
#[derive(Clone, Debug)]
pub enum Cause {
    /// The peer's BYE; Reason (RFC 3326) may stand in it.
    HungUp {
        /// The BYE.
        request: Box<Message>,
    },
    /// We ended it, by whatever command.
    Local,
    /// The caller's CANCEL.
    Cancelled,
    /// Our INVITE came to nothing; 408 and 503 are also ours. A 3xx has its contacts in `response`.
    Failed {
        /// The final status of the INVITE.
        status: u16,
        /// The final response; `None` when the status is ours.
        response: Option<Box<Message>>,
    },
    /// No answer came in the time given; of an `Invited` session, its application.
    Timeout,
    /// Our 2xx was never acknowledged, or our reliable provisional never had its PRACK.
    Unacknowledged,
    /// No refresh came (RFC 4028 §10).
    Expired,
    /// The peer has forgotten the dialog, or is gone (RFC 5057): 481 or 408.
    Gone {
        /// The final status of the request in the dialog.
        status: u16,
    },
}

/// The credentials for challenges.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// The `username` of digest credentials.
    pub user: Box<str>,
    /// The password in plain text; never written to a log.
    pub password: Box<str>,
}

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Login({})", self.user)
    }
}

/// A call to be placed.
#[derive(Clone, Debug, Default)]
pub struct Invite {
    /// The Request-URI, and To unless `to` says otherwise.
    pub target: Box<str>,
    /// Route values before the target: the Path of a binding. Comma-separated; may be empty.
    pub path: Box<str>,
    /// Where a binding's phone is reached, whatever its URI says.
    pub received: Option<Received>,
    /// A name-addr without a tag: `"Belfry" <sip:belfry@example.org>`.
    pub from: Box<str>,
    /// A name-addr; the target when empty.
    pub to: Box<str>,
    /// Chosen by the caller when the Call-ID must belong to this shard; made here when empty.
    pub call_id: Box<str>,
    /// Further headers, as they are to stand.
    pub headers: Vec<(Box<str>, Box<str>)>,
    /// SDP; must not be empty.
    pub offer: Bytes,
    /// The credentials for a 401 or 407; `None`: a challenge ends the call.
    pub login: Option<Login>,
    /// No request of the dialog goes to an address of a private network (RFC 6890): the target comes from a document that
    /// others wrote. A binding's `received` is exempt.
    pub public_only: bool,
    /// The target is a binding of an account, which leads neither to a route's system nor to ourselves.
    pub is_binding: bool,
    /// A P-Asserted-Identity (RFC 3325 §9.1) for trusted next hops; the others are not sent it. May be empty.
    pub asserted: Box<str>,
    /// Max-Forwards, so that calls which make calls come to an end (RFC 7332 §4); 70 when zero.
    pub hops: u8,
    /// The time for an answer before the call is cancelled; `limits::RING_PATIENCE` when zero.
    pub timeout: Duration,
    /// The entry in the ledger that the call belongs to.
    pub listed: ListedUnder,
}

/// Why a command has no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandError {
    /// The session has ended, or never was.
    NoSession,
    /// Not in this stage of the session, or not for a peer that does not allow it.
    NotNow,
    /// An offer is open: ours, or the peer's that is to be answered first.
    OfferOpen,
    /// The token fits no open offer or REFER.
    Stale,
    /// A limit was reached, or an argument is not a URI.
    Refused,
}

/// Everything the sessions can cause.
#[derive(Clone, Debug)]
pub enum SessionEffect {
    /// An event for the application.
    Event(SessionEvent),
    /// A response, by the server transaction; a final one ends it, but a 2xx to INVITE may be repeated.
    Reply {
        /// The server transaction to answer.
        transaction: TxRef,
        /// The status of the response.
        status: u16,
        /// The whole response.
        bytes: Bytes,
    },
    /// A request without Via and Contact. Its responses are told to `handle_response`, or one failure to
    /// `handle_failure`.
    Request {
        /// The number that responses and failures carry.
        id: RequestId,
        /// The request, as on the wire but for Via and Contact.
        bytes: Bytes,
        /// The next hop, and the flow when there is one.
        onward: OutgoingRoute,
    },
    /// A request that is not sent, for the peer has not proved its address: answered as if 480 had come.
    Withheld {
        /// The number of the request.
        id: RequestId,
    },
    /// The ACK of a 2xx: in no transaction.
    Ack {
        /// The ACK, as on the wire but for its Via.
        bytes: Bytes,
        /// The next hop, and the flow when there is one.
        onward: OutgoingRoute,
    },
    /// A CANCEL for the INVITE of that number, which has had a provisional response.
    Cancel {
        /// The number of the INVITE.
        id: RequestId,
        /// The value of its Reason (RFC 3326); empty for none.
        reason: Box<str>,
    },
    /// Nothing more is wanted of this request.
    Forget {
        /// The number of the request.
        id: RequestId,
    },
    /// For the ledger.
    Call {
        /// The Call-ID.
        call_id: Box<[u8]>,
        /// The tag of ours: with the Call-ID it names the call.
        local_tag: Box<str>,
        /// The phase that the call has entered.
        kind: CallEventKind,
    },
}

/// A body that is there.
pub(super) fn body_of(message: &Message) -> Option<Bytes> {
    let body = message.body();
    (!body.is_empty()).then(|| message.bytes().slice_ref(body))
}

pub(super) fn content_type_of(message: &Message) -> Box<str> {
    String::from_utf8_lossy(message.header(Header::ContentType).unwrap_or_default()).into()
}

/// The status a `message/sipfrag` tells of (RFC 3420, RFC 3515 §2.4.4).
pub fn sipfrag_status(body: &[u8]) -> Option<u16> {
    let rest =
        body.get(..8).filter(|version| version.eq_ignore_ascii_case(b"SIP/2.0 ")).map(|_| &body[8..])?;
    let digits = std::str::from_utf8(rest.get(..3)?).ok()?;
    digits.parse().ok().filter(|status| (100..700).contains(status))
}

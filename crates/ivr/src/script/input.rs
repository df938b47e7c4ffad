//! The inputs of a script.
//!
//! [`Call`] and [`Plan`] are given once; the others are results and events, for the `handle_*` of the same name.

use std::time::Duration;

use super::CallStatus;
use crate::document::Callback;
use crate::request::{Form, Target};

/// Facts of the call that requests carry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// `CallSid`.
    pub sid: String,
    /// `AccountSid` of the account that owns the number.
    pub account_sid: String,
    /// `From`: number, `client:` name or SIP URI of the caller.
    pub from: String,
    /// `To`: number, `client:` name or SIP URI of the callee.
    pub to: String,
    /// `Direction`.
    pub direction: Direction,
    /// `CallerName`: the display name of the From header field.
    pub caller_name: Option<String>,
    /// `ForwardedFrom`: the number that diverted the call; `None` if it came directly.
    pub forwarded_from: Option<String>,
    /// The sid of the call whose Dial made this leg.
    pub parent_sid: Option<String>,
    /// `2012-04-24` or `2010-04-01`.
    pub api_version: String,
    /// More parameters of every request: `SipHeader_X-…`, `SipCallId`, `CallTimestamp`.
    pub extra: Form,
    /// A call that we made, or a leg, begins when it is answered.
    pub answered: bool,
}

/// The direction of a call, as applications see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// The call came to a number or an account of the server.
    Inbound,
    /// A REST request made the call.
    OutboundApi,
    /// A Dial made the leg.
    OutboundDial,
}

impl Direction {
    /// The direction's name in requests.
    pub fn as_str(self) -> &'static str {
        match self {
            Direction::Inbound => "inbound",
            Direction::OutboundApi => "outbound-api",
            Direction::OutboundDial => "outbound-dial",
        }
    }
}

/// The relation of a document to its call; it decides what the document's end means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The call's own: the call ends.
    Call,
    /// On a callee's leg before it is connected: it is accepted. A hang-up declines.
    Screening,
    /// For a call that waits in a queue, or a room without moderator: it begins again.
    Waiting,
}

/// The settings of the account and the number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The relation of the documents to the call.
    pub role: Role,
    /// The first document.
    pub start: Start,
    /// Asked when a document cannot be had or read.
    pub fallback: Option<Target>,
    /// Events: `initiated`, `ringing`, `answered`, `completed`.
    pub status: Option<Callback>,
    /// RestComm's `enable-200-ok-delay`: a first Dial answers when the callee does.
    pub answer_on_bridge: bool,
    /// The longest duration of the whole call; at most [`crate::limits::CALL_DURATION`].
    pub time_limit: Option<Duration>,
}

/// The first document of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Start {
    /// Absolute.
    Url(Target),
    /// An inline document (`Twiml`), or one that the server holds itself.
    Document(Vec<u8>),
}

/// An application's HTTP response to `Effect::Fetch`, whole.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FetchResponse {
    /// The status code of HTTP; only 200 to 299 bring a document.
    pub status: u16,
    /// The Content-Type with its parameters; `None`: read as XML.
    pub content_type: Option<String>,
    /// The content, with its transfer encoding undone.
    pub body: Vec<u8>,
    /// Where the answer came from, if the client followed redirects.
    pub url: Option<String>,
}

/// The reason why an effect could not be performed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EffectFailure {
    /// One of [`crate::document::code`].
    pub code: u32,
    /// A sentence for the application's author.
    pub text: String,
}

/// A result of a recogniser.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Speech {
    /// All that was recognised so far.
    pub text: String,
    /// False for a partial result; more follow.
    pub is_final: bool,
    /// In thousandths.
    pub confidence: Option<u16>,
}

/// A finished recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    /// `RecordingSid`.
    pub sid: String,
    /// `RecordingUrl`.
    pub url: String,
    /// RestComm's `PublicRecordingUrl`.
    pub public_url: Option<String>,
    /// Zero: nothing but silence, nothing was kept.
    pub duration: Duration,
}

/// An event of a dialled leg.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LegEvent {
    /// The INVITE is on its way.
    Started {
        /// The sid of the leg's call.
        sid: String,
    },
    /// The callee's phone rings (180, 183).
    Ringing,
    /// The callee answered (2xx).
    Answered,
    /// Its document is over: the callee takes the call, or not.
    Screened {
        /// False if the callee's document hung up.
        accepted: bool,
    },
    /// Before it was answered.
    Failed(LegFailure),
    /// After it was answered.
    Ended {
        /// The recording of the connection, if there is one.
        recording: Option<Recorded>,
    },
}

/// The reason why a leg was not connected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LegFailure {
    /// Busy, no-answer, canceled or failed.
    pub status: CallStatus,
    /// The SIP answer's.
    pub code: Option<u16>,
    /// The Reason-Phrase beside `code` (RFC 3261 §7.2); empty without one.
    pub reason: String,
    /// The Call-ID of the leg's INVITE.
    pub call_id: Option<String>,
    /// `X-` headers of the answer.
    pub headers: Form,
}

impl LegFailure {
    /// A failure that no SIP answer caused.
    pub fn without_answer(status: CallStatus) -> LegFailure {
        LegFailure { status, code: None, reason: String::new(), call_id: None, headers: Form::new() }
    }
}

/// An event of a conference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConferenceEvent {
    /// The call is in the room.
    Joined {
        /// The sid of the conference.
        sid: String,
    },
    /// Ended, kicked out, or left.
    Left {
        /// The recording of this participant, if there is one.
        recording: Option<Recorded>,
    },
    /// Full, or not to be had.
    Refused {
        /// A sentence for the application's author.
        reason: String,
    },
}

/// An event of a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueueEvent {
    /// The call waits in the queue.
    Entered {
        /// The sid of the queue.
        sid: String,
    },
    /// Another call has connected to this one.
    Bridged,
    /// The call is no longer in the queue.
    Left(QueueResult),
}

/// The reason why a call left a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueResult {
    /// The connection to the call that took it is over.
    Bridged,
    /// `maxQueueSize` calls wait already.
    Full,
    /// `<Leave>`.
    Leave,
    /// `system-error`: the queue could not take or keep the call.
    Error,
}

/// An event of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamEvent {
    /// The WebSocket is connected.
    Started {
        /// The sid of the stream.
        sid: String,
    },
    /// The WebSocket could not be connected, or broke.
    Failed {
        /// A sentence for the application's author.
        reason: String,
    },
    /// The other side closed the WebSocket.
    Ended,
}

/// A message or mail that was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// `MessageSid`, also `SmsSid`.
    pub sid: String,
    /// `sending`, `sent`, `failed`.
    pub status: String,
}

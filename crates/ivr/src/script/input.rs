//! The inputs of a script.

use std::time::Duration;

use super::CallStatus;
use crate::document::Callback;
use crate::request::{Form, Target};

/// Facts of the call that requests carry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    pub sid: String,
    pub account_sid: String,
    pub from: String,
    pub to: String,
    pub direction: Direction,
    pub caller_name: Option<String>,
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
    Inbound,
    OutboundApi,
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
    pub role: Role,
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
    pub status: u16,
    pub content_type: Option<String>,
    pub body: Vec<u8>,
    /// Where the answer came from, if the client followed redirects.
    pub url: Option<String>,
}

/// The reason why an effect could not be performed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EffectFailure {
    /// One of [`crate::document::code`].
    pub code: u32,
    pub text: String,
}

/// A result of a recogniser.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Speech {
    /// All that was recognised so far.
    pub text: String,
    pub is_final: bool,
    /// In thousandths.
    pub confidence: Option<u16>,
}

/// A finished recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    pub sid: String,
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
        sid: String,
    },
    Ringing,
    Answered,
    /// Its document is over: the callee takes the call, or not.
    Screened {
        accepted: bool,
    },
    /// Before it was answered.
    Failed(LegFailure),
    /// After it was answered.
    Ended {
        recording: Option<Recorded>,
    },
}

/// The reason why a leg was not connected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LegFailure {
    pub status: CallStatus,
    /// The SIP answer's.
    pub code: Option<u16>,
    /// The Reason-Phrase beside `code` (RFC 3261 §7.2); empty without one.
    pub reason: String,
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
    Joined {
        sid: String,
    },
    /// Ended, kicked out, or left.
    Left {
        recording: Option<Recorded>,
    },
    /// Full, or not to be had.
    Refused {
        reason: String,
    },
}

/// An event of a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueueEvent {
    Entered {
        sid: String,
    },
    /// Another call has connected to this one.
    Bridged,
    Left(QueueResult),
}

/// The reason why a call left a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueResult {
    /// The connection to the call that took it is over.
    Bridged,
    Full,
    /// `<Leave>`.
    Leave,
    Error,
}

/// An event of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamEvent {
    Started { sid: String },
    Failed { reason: String },
    Ended,
}

/// A message or mail that was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    pub sid: String,
    /// `sending`, `sent`, `failed`.
    pub status: String,
}

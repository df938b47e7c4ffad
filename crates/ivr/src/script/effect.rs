//! Everything a script can cause.
//!
//! The comments say which input answers an effect. Effects of one input are performed in their order before the next input is given.

use std::time::Duration;

use crate::document::{Address, BridgeRecording, Callback, Conference, Email, Note, Piece, Severity, Track};
use crate::request::{Request, Target};

/// Names one thing that was asked for; its answers carry it. Unique in one script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(pub u32);

/// An order to the caller that drives the script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    // Applications.
    /// Answered by `handle_fetched`.
    Fetch {
        /// Comes back in `handle_fetched`.
        id: Id,
        /// The request for the document.
        request: Request,
    },
    /// A callback: sent once; its answer is ignored.
    Tell {
        /// The callback's request.
        request: Request,
    },
    /// For the call's notifications. URLs and texts of the application may stand in it.
    Notify(Notification),

    // The call.
    /// Answered by `handle_answered`, or `handle_hangup`.
    Answer,
    /// The callee rings, or a first Pause has it so, and the call is not answered yet: tell the caller (180).
    Ring,
    /// The final response to the INVITE; nothing but `Ended` follows.
    Reject(Refusal),
    /// BYE, or CANCEL for a call of ours that is not yet answered.
    Hangup,
    /// Answered by `handle_referred`.
    Refer {
        /// Comes back in `handle_referred`.
        id: Id,
        /// The URI of the Refer-To header field (RFC 3515 §2.1).
        uri: String,
    },

    // Media.
    /// Answered by `handle_prompt`, also after `StopPrompt` (then ignored). At most one at a time.
    Prompt {
        /// Comes back in `handle_prompt`.
        id: Id,
        /// The parts of the prompt, in their order; URLs are absolute.
        pieces: Vec<Piece>,
    },
    /// Ends a prompt before its end.
    StopPrompt {
        /// The id of the `Prompt`.
        id: Id,
    },
    /// Answered by `handle_digit` and `handle_speech`, any number of times.
    Listen {
        /// True if keys are reported.
        digits: bool,
        /// The recogniser's options; `None`: speech is not recognised.
        speech: Option<Box<Recognition>>,
    },
    /// Neither keys nor speech are reported any more.
    StopListening,
    /// Answered by one `handle_recorded`, also after `StopRecording`.
    Record {
        /// Comes back in `handle_recorded`.
        id: Id,
        /// The options of the recording.
        recording: Box<Recording>,
    },
    /// Ends a recording; its result still comes.
    StopRecording {
        /// The id of the `Record`.
        id: Id,
    },
    /// By the configured recogniser, for as long as that takes; the call does not wait.
    Transcribe {
        /// The sid of a finished recording.
        recording_sid: String,
        /// Told of the text; absolute.
        callback: Option<Target>,
    },
    /// The caller's sound goes back to the caller, or no more.
    Echo {
        /// True to begin.
        on: bool,
    },
    /// Answered by `handle_stream`.
    StartStream {
        /// Comes back in `handle_stream`.
        id: Id,
        /// The options of the stream.
        stream: Box<MediaStream>,
    },
    /// Closes a stream's WebSocket.
    StopStream {
        /// The id of the `StartStream`.
        id: Id,
    },

    // Others.
    /// Rings all legs. Each is answered by `handle_leg` until it is over.
    Dial {
        /// The legs to call, at least one.
        legs: Vec<Leg>,
        /// The options of all legs.
        options: Box<DialOptions>,
    },
    /// Performs a document on the leg with a script of its own ([`super::Role::Screening`]); then `LegEvent::Screened`.
    Screen {
        /// The id of the [`Leg`].
        leg: Id,
        /// The URL of the document; absolute.
        target: Target,
    },
    /// The caller and this leg hear each other.
    Bridge {
        /// The id of the [`Leg`].
        leg: Id,
    },
    /// In whatever state it is: CANCEL or BYE. Its `LegEvent::Ended` may follow.
    HangupLeg {
        /// The id of the [`Leg`].
        leg: Id,
    },
    /// Answered by `handle_conference`. URLs are absolute.
    JoinConference {
        /// Comes back in `handle_conference`.
        id: Id,
        /// The room and the terms of joining it.
        conference: Box<Conference>,
        /// The recording of this participant that the Dial asks for.
        record: Option<Box<BridgeRecording>>,
    },
    /// The call leaves the room; `ConferenceEvent::Left` follows.
    LeaveConference {
        /// The id of the `JoinConference`.
        id: Id,
    },
    /// Answered by `handle_queue`. `wait` is performed by a script of its own ([`super::Role::Waiting`]); music without.
    Enqueue {
        /// Comes back in `handle_queue`.
        id: Id,
        /// The name of the queue in its account.
        name: String,
        /// The URL of the wait document; absolute.
        wait: Option<Target>,
        /// The number of waiting calls beyond which the queue refuses. `None`: the queue's own.
        max_size: Option<u32>,
    },
    /// Out of the queue: from the one that waits, or from its wait document, which then has no `id`.
    LeaveQueue {
        /// The id of the `Enqueue`.
        id: Option<Id>,
    },
    /// Answered by `handle_sent`.
    SendMessage {
        /// Comes back in `handle_sent`.
        id: Id,
        /// The message with its addresses.
        message: Box<Message>,
    },
    /// Answered by `handle_sent`.
    SendMail {
        /// Comes back in `handle_sent`.
        id: Id,
        /// The mail as the document has it.
        mail: Box<Email>,
    },

    // The end.
    /// The document is over and the leg is not: it was accepted ([`super::Role::Screening`]), or the music plays on
    /// ([`super::Role::Waiting`]). `Ended` follows.
    Done,
    /// Nothing follows; the script can be dropped.
    Ended(CallStatus),
}

/// A message to the application's author about a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notification {
    /// The consequence for the call.
    pub severity: Severity,
    /// One of [`crate::document::code`].
    pub code: u32,
    /// A sentence for the application's author.
    pub text: String,
    /// The URL of the document that the notification is about.
    pub url: Option<String>,
    /// In that document.
    pub line: Option<u32>,
    /// In that line, in characters from 1.
    pub column: Option<u32>,
}

impl Notification {
    /// A warning about no document.
    pub fn warning(code: u32, text: String) -> Notification {
        Notification { severity: Severity::Warning, code, text, url: None, line: None, column: None }
    }

    /// A note of the reader as a notification about its document.
    pub(super) fn of_note(note: Note, url: Option<String>) -> Notification {
        let Note { line, column, severity, code, text } = note;
        Notification { severity, code, text, url, line: Some(line), column: Some(column) }
    }
}

/// The SIP status with which a call is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// 603.
    Rejected,
    /// 486.
    Busy,
    /// 500: the application gave no document.
    ApplicationError,
}

/// The settings of a recogniser.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recognition {
    /// `language` of the Gather, as written.
    pub language: String,
    /// Phrases that the application expects.
    pub hints: Vec<String>,
    /// Silence that ends speech; None: as the recogniser thinks.
    pub end_of_speech: Option<Duration>,
    /// The longest speech; the recogniser then gives its result.
    pub max_speech: Duration,
    /// True if the application wants `Speech` that is not final.
    pub partial: bool,
}

/// The settings of a recording of the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recording {
    /// A tone is played first.
    pub beep: bool,
    /// Ends after so much silence.
    pub silence: Duration,
    /// Ends after this time, whatever is said.
    pub max_length: Duration,
    /// Silence at both ends is cut off.
    pub trim: bool,
    /// The account that gets the recording as voicemail: a name or an address.
    pub mailbox: Option<String>,
    /// Told when the recording begins, when it is complete, and when there is none; absolute.
    pub status: Option<Callback>,
}

/// One leg to dial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leg {
    /// Comes back in `handle_leg`.
    pub id: Id,
    /// The party to call.
    pub address: Address,
}

/// The options that all legs of a dial share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DialOptions {
    /// The `From` of the legs; `None`: the caller's own.
    pub caller_id: Option<String>,
    /// Two letters of the country whose ringing tone a connected caller hears.
    pub ring_tone: Option<String>,
    /// The recording of the connection; URLs are absolute.
    pub record: Option<BridgeRecording>,
    /// Asked when the callee transfers the call.
    pub refer: Option<Target>,
    /// The time after which the script ends the legs that have not answered.
    pub timeout: Duration,
}

/// A text message to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Number or address of the sender.
    pub from: String,
    /// Number or address of the recipient.
    pub to: String,
    /// The text.
    pub body: String,
    /// Told of the message's delivery.
    pub status: Option<String>,
}

/// A stream of the call's sound to a WebSocket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MediaStream {
    /// The name that the application gave.
    pub name: Option<String>,
    /// Absolute, `ws` or `wss`.
    pub url: String,
    /// The directions that are sent.
    pub track: Track,
    /// Names and values for the first message.
    pub parameters: Vec<(String, String)>,
    /// The caller hears the sound that the WebSocket sends.
    pub two_way: bool,
}

/// The status of a call, as applications see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallStatus {
    /// A call of ours that is not yet on its way.
    Queued,
    /// The status of the event `initiated` only: the call is on its way.
    Initiated,
    /// The callee's phone rings (180).
    Ringing,
    /// The call is answered.
    InProgress,
    /// The call was answered and is over.
    Completed,
    /// The callee was busy (486, 600).
    Busy,
    /// The call could not be connected, or the application gave no document.
    Failed,
    /// The ringing was not answered, or the call was rejected.
    NoAnswer,
    /// The caller, or a REST request, gave up before the answer.
    Canceled,
}

impl CallStatus {
    /// As applications know it.
    pub fn as_str(self) -> &'static str {
        match self {
            CallStatus::Queued => "queued",
            CallStatus::Initiated => "initiated",
            CallStatus::Ringing => "ringing",
            CallStatus::InProgress => "in-progress",
            CallStatus::Completed => "completed",
            CallStatus::Busy => "busy",
            CallStatus::Failed => "failed",
            CallStatus::NoAnswer => "no-answer",
            CallStatus::Canceled => "canceled",
        }
    }
}

//! Everything a script can cause.

use std::time::Duration;

use crate::document::{Address, BridgeRecording, Conference, Email, Note, Piece, Severity, Track};
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
        id: Id,
        request: Request,
    },
    /// A callback: sent once; its answer is ignored.
    Tell {
        request: Request,
    },
    /// For the call's notifications. URLs and texts of the application may stand in it.
    Notify(Notification),

    // The call.
    /// Answered by `handle_answered`, or `handle_hangup`.
    Answer,
    /// The callee rings, or a first Pause has it so, and the call is not answered yet: tell the caller (180).
    Ring,
    Reject(Refusal),
    Hangup,
    /// Answered by `handle_referred`.
    Refer {
        id: Id,
        uri: String,
    },

    // Media.
    /// Answered by `handle_prompt`, also after `StopPrompt` (then ignored). At most one at a time.
    Prompt {
        id: Id,
        pieces: Vec<Piece>,
    },
    StopPrompt {
        id: Id,
    },
    /// Answered by `handle_digit` and `handle_speech`, any number of times.
    Listen {
        digits: bool,
        speech: Option<Box<Recognition>>,
    },
    StopListening,
    /// Answered by one `handle_recorded`, also after `StopRecording`.
    Record {
        id: Id,
        recording: Box<Recording>,
    },
    StopRecording {
        id: Id,
    },
    /// By the configured recogniser, for as long as that takes; the call does not wait.
    Transcribe {
        recording_sid: String,
        callback: Option<Target>,
    },
    Echo {
        on: bool,
    },
    /// Answered by `handle_stream`.
    StartStream {
        id: Id,
        stream: Box<MediaStream>,
    },
    StopStream {
        id: Id,
    },

    // Others.
    /// Rings all legs. Each is answered by `handle_leg` until it is over.
    Dial {
        legs: Vec<Leg>,
        options: Box<DialOptions>,
    },
    /// Performs a document on the leg with a script of its own ([`super::Role::Screening`]); then `LegEvent::Screened`.
    Screen {
        leg: Id,
        target: Target,
    },
    /// The caller and this leg hear each other.
    Bridge {
        leg: Id,
    },
    /// In whatever state it is: CANCEL or BYE. Its `LegEvent::Ended` may follow.
    HangupLeg {
        leg: Id,
    },
    /// Answered by `handle_conference`. URLs are absolute.
    JoinConference {
        id: Id,
        conference: Box<Conference>,
        record: Option<Box<BridgeRecording>>,
    },
    LeaveConference {
        id: Id,
    },
    /// Answered by `handle_queue`. `wait` is performed by a script of its own ([`super::Role::Waiting`]); music without.
    Enqueue {
        id: Id,
        name: String,
        wait: Option<Target>,
        max_size: u32,
    },
    /// Out of the queue: from the one that waits, or from its wait document, which then has no `id`.
    LeaveQueue {
        id: Option<Id>,
    },
    /// Answered by `handle_sent`.
    SendMessage {
        id: Id,
        message: Box<Message>,
    },
    /// Answered by `handle_sent`.
    SendMail {
        id: Id,
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
    pub severity: Severity,
    /// One of [`crate::document::code`].
    pub code: u32,
    pub text: String,
    /// The URL of the document that the notification is about.
    pub url: Option<String>,
    /// In that document.
    pub line: Option<u32>,
}

impl Notification {
    pub(super) fn of_note(note: Note, url: Option<String>) -> Notification {
        let Note { line, severity, code, text } = note;
        Notification { severity, code, text, url, line: Some(line) }
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
    pub language: String,
    pub hints: Vec<String>,
    /// Silence that ends speech; None: as the recogniser thinks.
    pub end_of_speech: Option<Duration>,
    pub max_speech: Duration,
    /// True if the application wants `Speech` that is not final.
    pub partial: bool,
}

/// The settings of a recording of the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recording {
    pub beep: bool,
    /// Ends after so much silence.
    pub silence: Duration,
    pub max_length: Duration,
    pub trim: bool,
}

/// One leg to dial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leg {
    pub id: Id,
    pub address: Address,
}

/// The options that all legs of a dial share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DialOptions {
    pub caller_id: Option<String>,
    /// Two letters of the country whose ringing tone a connected caller hears.
    pub ring_tone: Option<String>,
    pub record: Option<BridgeRecording>,
    /// Asked when the callee transfers the call.
    pub refer: Option<Target>,
}

/// A text message to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    pub from: String,
    pub to: String,
    pub body: String,
    /// Told of the message's delivery.
    pub status: Option<String>,
}

/// A stream of the call's sound to a WebSocket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MediaStream {
    pub name: Option<String>,
    /// Absolute, `ws` or `wss`.
    pub url: String,
    pub track: Track,
    pub parameters: Vec<(String, String)>,
    /// The caller hears the sound that the WebSocket sends.
    pub two_way: bool,
}

/// The status of a call, as applications see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallStatus {
    Queued,
    /// The status of the event `initiated` only: the call is on its way.
    Initiated,
    Ringing,
    InProgress,
    Completed,
    Busy,
    Failed,
    NoAnswer,
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

//! The verbs of a document, typed. Defaults are filled in; URLs stay as written, relative ones too.

use std::time::Duration;

use crate::request::{Method, Target};

/// One verb of a document with its attributes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verb {
    Say(Piece),
    Play(Piece),
    Pause(Duration),
    Gather(Box<Gather>),
    Record(Box<Record>),
    Dial(Box<Dial>),
    Enqueue(Enqueue),
    Leave,
    Redirect(Target),
    Reject {
        busy: bool,
    },
    Hangup,
    Sms(Sms),
    Email(Email),
    Refer(Refer),
    Echo,
    StartStream(Stream),
    /// Without a name: every stream of the call.
    StopStream {
        name: Option<String>,
    },
    ConnectStream {
        stream: Stream,
        action: Option<Target>,
    },
}

/// Items one after another, and all of that again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    pub items: Vec<Item>,
    /// The number of repetitions; 0 repeats for ever.
    pub loops: u32,
}

/// One part of a prompt: speech, sound, digits or silence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    Speech {
        /// Plain text with single blanks.
        text: String,
        voice: Voice,
        /// As written: `en`, `en-GB`, RestComm's `bf`.
        language: String,
    },
    Audio {
        url: String,
    },
    /// Keys to send: `0`-`9`, `*`, `#`, `A`-`D`.
    Digits(String),
    Silence(Duration),
}

/// The voice of a speech item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Voice {
    Man,
    Woman,
}

/// A URL that is told of events, with those it asked for in the table's words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Callback {
    pub target: Target,
    pub events: Vec<&'static str>,
}

/// `<Gather>`: collects digits or speech and sends them to `action`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gather {
    /// None: the current document's URL.
    pub action: Option<String>,
    pub method: Method,
    pub timeout: Duration,
    /// None: `auto`, which leaves the end of speech to the recogniser.
    pub speech_timeout: Option<Duration>,
    pub max_speech: Duration,
    /// Keys that end the input, any of them.
    pub finish_on_key: String,
    pub num_digits: Option<u32>,
    /// Keys with which input may begin; empty: every one.
    pub start_input_key: String,
    pub dtmf: bool,
    pub speech: bool,
    pub partial: Option<Target>,
    pub language: String,
    /// Phrases to expect.
    pub hints: Vec<String>,
    pub barge_in: bool,
    pub action_on_empty_result: bool,
    pub prompt: Vec<Piece>,
}

/// `<Record>`: records the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// None: the current document's URL.
    pub action: Option<String>,
    pub method: Method,
    /// The silence that ends the recording.
    pub timeout: Duration,
    /// Keys that end the recording, any of them.
    pub finish_on_key: String,
    pub max_length: Duration,
    pub play_beep: bool,
    pub trim: bool,
    pub transcribe: Option<Transcribe>,
    pub status: Option<Callback>,
}

/// The transcription of a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transcribe {
    pub callback: Option<Target>,
}

/// `<Dial>`: connects the call to other parties or to a conference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dial {
    /// None: the next verb follows.
    pub action: Option<Target>,
    pub timeout: Duration,
    pub time_limit: Duration,
    pub caller_id: Option<String>,
    pub record: Option<BridgeRecording>,
    pub hangup_on_star: bool,
    /// None: as the account is set up (RestComm's `enable-200-ok-delay`).
    pub answer_on_bridge: Option<bool>,
    /// Two letters of a country.
    pub ring_tone: Option<String>,
    pub sequential: bool,
    pub refer: Option<Target>,
    pub to: Dialed,
}

/// The recording of a dialled connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BridgeRecording {
    pub from_ringing: bool,
    pub dual: bool,
    pub trim: bool,
    /// `inbound`, `outbound` or `both`.
    pub track: String,
    pub status: Option<Callback>,
}

/// The destination of a `<Dial>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Dialed {
    /// Several are rung at once, or in turn when the Dial is sequential.
    Parties(Vec<DialTarget>),
    Conference(Box<Conference>),
}

/// One party that a `<Dial>` rings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DialTarget {
    pub address: Address,
    /// Performed on the callee's leg before it is connected.
    pub screen: Option<Target>,
    pub status: Option<Callback>,
}

/// The address of a party.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    Number {
        number: String,
        /// Sent once it answers, as in [`Item`]s.
        send_digits: Vec<Item>,
    },
    Client {
        name: String,
    },
    Sip {
        /// Without its headers.
        uri: String,
        headers: Vec<(String, String)>,
        username: Option<String>,
        password: Option<String>,
    },
    Uri(String),
    /// The first caller that waits in it.
    Queue(String),
}

/// `<Conference>`: the room and the terms on which the call joins it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conference {
    pub name: String,
    pub muted: bool,
    /// `true`, `false`, `onEnter` or `onExit`.
    pub beep: Beep,
    /// A moderator.
    pub start_on_enter: bool,
    pub end_on_exit: bool,
    /// The sound that is played until a moderator joins: `None` is the built-in music, an empty URL silence.
    pub wait: Option<Target>,
    pub max_participants: u32,
    pub record: bool,
    pub trim: bool,
    /// Sid or label of the call that this one whispers to.
    pub coach: Option<String>,
    pub label: Option<String>,
    pub status: Option<Callback>,
    pub recording_status: Option<Callback>,
}

/// The events of a conference that sound a beep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beep {
    Both,
    Never,
    OnEnter,
    OnExit,
}

/// `<Enqueue>`: puts the call into a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Enqueue {
    pub name: String,
    pub action: Option<Target>,
    /// None: the built-in music.
    pub wait: Option<Target>,
    pub max_size: u32,
}

/// `<Sms>`: sends a text message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sms {
    pub body: String,
    /// None: the caller.
    pub to: Option<String>,
    /// None: the called number.
    pub from: Option<String>,
    pub action: Option<Target>,
    pub status: Option<String>,
}

/// `<Email>`: sends a mail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Email {
    pub to: Vec<String>,
    pub from: String,
    pub cc: Vec<String>,
    pub bcc: Vec<String>,
    pub subject: String,
    pub body: String,
}

/// `<Refer>`: transfers the caller by REFER (RFC 3515).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refer {
    pub uri: String,
    pub action: Option<Target>,
}

/// `<Stream>`: sends the call's sound to a WebSocket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stream {
    pub name: Option<String>,
    /// `ws` or `wss`.
    pub url: String,
    pub track: Track,
    pub status: Option<Target>,
    pub parameters: Vec<(String, String)>,
}

/// The directions of sound that a stream carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Track {
    Inbound,
    Outbound,
    Both,
}

//! The verbs of a document, typed. Defaults are filled in; URLs stay as written, relative ones too.

use std::time::Duration;

use crate::request::{Method, Target};

/// One verb of a document with its attributes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verb {
    /// `<Say>`: speaks a text.
    Say(Piece),
    /// `<Play>`: plays a sound file, or sends digits.
    Play(Piece),
    /// `<Pause>`: waits for `length`.
    Pause(Duration),
    /// `<Gather>`: collects digits or speech.
    Gather(Box<Gather>),
    /// `<Record>`: records the caller.
    Record(Box<Record>),
    /// `<Dial>`: connects the call to other parties or to a conference.
    Dial(Box<Dial>),
    /// `<Enqueue>`: puts the call into a queue.
    Enqueue(Enqueue),
    /// `<Leave>`: takes the call that hears this wait document out of its queue.
    Leave,
    /// `<Redirect>`: goes on with another document.
    Redirect(Target),
    /// `<Reject>`: refuses a call that is not yet answered.
    Reject {
        /// True for `reason="busy"` (486); false for `rejected` (603).
        busy: bool,
    },
    /// `<Hangup>`: ends the call.
    Hangup,
    /// `<Sms>`: sends a text message.
    Sms(Sms),
    /// `<Email>`: sends a mail.
    Email(Email),
    /// `<Refer>`: transfers the caller.
    Refer(Refer),
    /// `<Echo>`: sends the caller's sound back until the call ends.
    Echo,
    /// `<Start><Stream>`: sends the call's sound to a WebSocket while the next verbs are performed.
    StartStream(Stream),
    /// Without a name: every stream of the call.
    StopStream {
        /// The `name` of the `<Stream>`.
        name: Option<String>,
    },
    /// `<Connect><Stream>`: a stream in both directions; the verb lasts until it ends.
    ConnectStream {
        /// The nested `<Stream>`, whose status callback and parameters apply.
        stream: Stream,
        /// Requested once the stream has ended; `None`: the next verb follows.
        action: Option<Target>,
    },
}

/// Items one after another, and all of that again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// The parts of one repetition, in their order.
    pub items: Vec<Item>,
    /// The number of repetitions; 0 repeats for ever.
    pub loops: u32,
}

/// One part of a prompt: speech, sound, digits or silence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// Text for the speech synthesiser.
    Speech {
        /// Plain text with single blanks.
        text: String,
        /// The `voice` of the Say.
        voice: Voice,
        /// As written: `en`, `en-GB`, RestComm's `bf`.
        language: String,
    },
    /// A sound file.
    Audio {
        /// As written in the document; absolute in an effect.
        url: String,
    },
    /// Keys to send: `0`-`9`, `*`, `#`, `A`-`D`.
    Digits(String),
    /// A pause of this length between other parts.
    Silence(Duration),
}

/// The voice of a speech item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Voice {
    /// `man`, the default.
    Man,
    /// `woman`; `alice` is read as it.
    Woman,
}

/// A URL that is told of events, with those it asked for in the table's words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Callback {
    /// The URL of the callback and its method.
    pub target: Target,
    /// The values of the `…Event` attribute; other events cause no request.
    pub events: Vec<&'static str>,
}

/// `<Gather>`: collects digits or speech and sends them to `action`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gather {
    /// None: the current document's URL.
    pub action: Option<String>,
    /// The `method` of the request to `action`.
    pub method: Method,
    /// `timeout`: the wait for the next key, or for speech to begin. It starts when the prompt is over.
    pub timeout: Duration,
    /// None: `auto`, which leaves the end of speech to the recogniser.
    pub speech_timeout: Option<Duration>,
    /// `maxSpeechTime`: the longest speech that is recognised.
    pub max_speech: Duration,
    /// Keys that end the input, any of them.
    pub finish_on_key: String,
    /// `numDigits`: the number of digits that completes the input.
    pub num_digits: Option<u32>,
    /// Keys with which input may begin; empty: every one.
    pub start_input_key: String,
    /// True if `input` has `dtmf`: keys are taken.
    pub dtmf: bool,
    /// True if `input` has `speech`: the recogniser listens.
    pub speech: bool,
    /// `partialResultCallback`: told of each result that is not final.
    pub partial: Option<Target>,
    /// `language` of the speech, as written: `en-US`.
    pub language: String,
    /// Phrases to expect.
    pub hints: Vec<String>,
    /// `bargeIn`: input interrupts the prompt.
    pub barge_in: bool,
    /// `actionOnEmptyResult`: `action` is requested without input, too.
    pub action_on_empty_result: bool,
    /// The nested Say, Play and Pause, played while the verb listens.
    pub prompt: Vec<Piece>,
}

/// `<Record>`: records the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// None: the current document's URL.
    pub action: Option<String>,
    /// The `method` of the request to `action`.
    pub method: Method,
    /// The silence that ends the recording.
    pub timeout: Duration,
    /// Keys that end the recording, any of them.
    pub finish_on_key: String,
    /// `maxLength`: the longest recording.
    pub max_length: Duration,
    /// `playBeep`: a tone before the recording.
    pub play_beep: bool,
    /// True for `trim="trim-silence"`: silence at both ends is cut off.
    pub trim: bool,
    /// The transcription that `transcribe` or `transcribeCallback` asks for.
    pub transcribe: Option<Transcribe>,
    /// `mailbox`: the account that gets the recording as voicemail, as written. Neither Twilio nor RestComm has the attribute.
    pub mailbox: Option<String>,
    /// `recordingStatusCallback` and its events.
    pub status: Option<Callback>,
}

/// The transcription of a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transcribe {
    /// `transcribeCallback`: told of the text.
    pub callback: Option<Target>,
}

/// `<Dial>`: connects the call to other parties or to a conference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dial {
    /// None: the next verb follows.
    pub action: Option<Target>,
    /// `timeout`: the longest ringing.
    pub timeout: Duration,
    /// `timeLimit`: the longest connection.
    pub time_limit: Duration,
    /// `callerId`: the `From` of the new legs; `None`: the caller's own.
    pub caller_id: Option<String>,
    /// The recording of the connection; `None` for `do-not-record`.
    pub record: Option<BridgeRecording>,
    /// `hangupOnStar`: the caller's `*` ends the connection.
    pub hangup_on_star: bool,
    /// None: as the account is set up (RestComm's `enable-200-ok-delay`).
    pub answer_on_bridge: Option<bool>,
    /// Two letters of a country.
    pub ring_tone: Option<String>,
    /// `sequential`: the parties ring one after the other.
    pub sequential: bool,
    /// `referUrl`: requested when the callee transfers the call (REFER, RFC 3515).
    pub refer: Option<Target>,
    /// The parties or the conference.
    pub to: Dialed,
}

/// The recording of a dialled connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BridgeRecording {
    /// The recording begins with the ringing, not with the answer.
    pub from_ringing: bool,
    /// Each party has a channel of its own.
    pub dual: bool,
    /// Silence at both ends is cut off.
    pub trim: bool,
    /// `inbound`, `outbound` or `both`.
    pub track: String,
    /// `recordingStatusCallback` and its events.
    pub status: Option<Callback>,
}

/// The destination of a `<Dial>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Dialed {
    /// Several are rung at once, or in turn when the Dial is sequential.
    Parties(Vec<DialTarget>),
    /// `<Conference>`: the call joins a room.
    Conference(Box<Conference>),
}

/// One party that a `<Dial>` rings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DialTarget {
    /// The noun inside the Dial: Number, Client, Sip, SIP URI or Queue.
    pub address: Address,
    /// Performed on the callee's leg before it is connected. A queue's caller has [`Address::Queue`]'s document instead.
    pub screen: Option<Target>,
    /// `statusCallback` of the noun and its events.
    pub status: Option<Callback>,
}

/// The address of a party.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// `<Number>`: a number that the routes of the server lead to.
    Number {
        /// As written, without blanks around it.
        number: String,
        /// Sent once it answers, as in [`Item`]s.
        send_digits: Vec<Item>,
    },
    /// `<Client>`: an account of the server.
    Client {
        /// The text of the element: the name of the account.
        name: String,
    },
    /// `<Sip>`: a SIP URI.
    Sip {
        /// Without its headers.
        uri: String,
        /// Header fields for the INVITE, from the URI (RFC 3261 §19.1.1); names begin with `X-`.
        headers: Vec<(String, String)>,
        /// `username` for a challenge of the callee's side (RFC 3261 §22).
        username: Option<String>,
        /// `password` for the same challenge.
        password: Option<String>,
    },
    /// `<Uri>`, RestComm's noun: a SIP URI without headers and credentials.
    Uri(String),
    /// A queue: the first caller that waits in it.
    Queue {
        /// Its name in the account.
        name: String,
        /// `url`: a document that this caller hears before the connection.
        document: Option<Target>,
    },
}

/// `<Conference>`: the room and the terms on which the call joins it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conference {
    /// The text of the element: the name of the room in its account.
    pub name: String,
    /// `muted`: the others do not hear this participant.
    pub muted: bool,
    /// `true`, `false`, `onEnter` or `onExit`.
    pub beep: Beep,
    /// A moderator.
    pub start_on_enter: bool,
    /// `endConferenceOnExit`: the room ends when this participant leaves.
    pub end_on_exit: bool,
    /// The sound that is played until a moderator joins: `None` is the built-in music, an empty URL silence.
    pub wait: Option<Target>,
    /// `maxParticipants`: a room that is full refuses the call.
    pub max_participants: u32,
    /// True for `record="record-from-start"`: the whole room is recorded.
    pub record: bool,
    /// Silence at both ends of that recording is cut off.
    pub trim: bool,
    /// Sid or label of the call that this one whispers to.
    pub coach: Option<String>,
    /// `participantLabel`: a name for the participant in REST and `coach`.
    pub label: Option<String>,
    /// `statusCallback` and its events.
    pub status: Option<Callback>,
    /// `recordingStatusCallback` and its events.
    pub recording_status: Option<Callback>,
}

/// The events of a conference that sound a beep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beep {
    /// `true`: on entering and leaving.
    Both,
    /// `false`.
    Never,
    /// `onEnter`.
    OnEnter,
    /// `onExit`.
    OnExit,
}

/// `<Enqueue>`: puts the call into a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Enqueue {
    /// The text of the element: the name of the queue in its account.
    pub name: String,
    /// Requested when the call has left the queue; `None`: the next verb follows.
    pub action: Option<Target>,
    /// None: the built-in music.
    pub wait: Option<Target>,
    /// `maxQueueSize`: a queue that is full refuses the call. None: the size of the queue.
    pub max_size: Option<u32>,
}

/// `<Sms>`: sends a text message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sms {
    /// The text of the message.
    pub body: String,
    /// None: the caller.
    pub to: Option<String>,
    /// None: the called number.
    pub from: Option<String>,
    /// Requested with the result; without it the verb does not wait.
    pub action: Option<Target>,
    /// `statusCallback`: the URL that is told of the delivery.
    pub status: Option<String>,
}

/// `<Email>`: sends a mail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Email {
    /// Addresses of the recipients.
    pub to: Vec<String>,
    /// Address of the sender.
    pub from: String,
    /// Addresses that all recipients see.
    pub cc: Vec<String>,
    /// Addresses that no recipient sees.
    pub bcc: Vec<String>,
    /// The subject line.
    pub subject: String,
    /// The text of the mail.
    pub body: String,
}

/// `<Refer>`: transfers the caller by REFER (RFC 3515).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refer {
    /// The URI of the Refer-To header field.
    pub uri: String,
    /// Requested with the answer to the REFER; `None`: the next verb follows.
    pub action: Option<Target>,
}

/// `<Stream>`: sends the call's sound to a WebSocket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stream {
    /// `name`, by which `<Stop>` finds the stream.
    pub name: Option<String>,
    /// `ws` or `wss`.
    pub url: String,
    /// `track`: the directions that are sent.
    pub track: Track,
    /// `statusCallback`: told of the stream's begin and end.
    pub status: Option<Target>,
    /// Names and values of the nested `<Parameter>` elements, sent in the first message.
    pub parameters: Vec<(String, String)>,
}

/// The directions of sound that a stream carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Track {
    /// `inbound_track`: the sound from the caller.
    Inbound,
    /// `outbound_track`: the sound to the caller.
    Outbound,
    /// `both_tracks`, each in messages of its own.
    Both,
}

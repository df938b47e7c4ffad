//! The requests that the interface makes of the running node. The node implements it; tests have an
//! implementation of their own.
//!
//! In a farm the node passes a request on to the node that has the call, conference or recording ([`crate::live`]).
//!
//! Calls, conferences and recordings are rows of the record: the node writes them as they go on
//! (`store::rest::types`), the interface reads them. Only what lives in the node's memory is asked for here.

use std::borrow::Cow;
use std::io::Read;
use std::net::IpAddr;
use std::pin::Pin;

use serde::{Deserialize, Serialize};
use stdx::Instant;
use stdx::attempts::Cause;
use store::Address;
use store::rest::types::{RestCall, TextMessage};

use crate::chat;
use crate::nodes::NodesAnswered;

/// Time and chance.
pub trait Source: Send + Sync {
    /// Returns the current time.
    fn now(&self) -> Instant;
    /// Unpredictable bytes.
    fn fill_random(&self, bytes: &mut [u8]);
}

/// The verdict on a token of an identity provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IdentityVerdict {
    /// It is this user's, and names this account by its sid.
    Accepted {
        /// The user's address of chat, prepared.
        user: Address,
        /// The sid as the token has it: the account may not be there.
        account: Box<str>,
    },
    /// It is not accepted, or names no account.
    Refused,
    /// No source takes tokens of its issuer: nothing was checked.
    NoSource,
    /// It cannot be checked now: the keys of its issuer are not known.
    Unavailable,
}

/// Called on threads of the blocking pool; an answer should come within a second.
pub trait ControlPlane: Source {
    /// Places a call; its row is in the record, `queued`. From here on the node keeps the row up to date. An error
    /// leaves the call to the interface, which marks it failed.
    fn start_call(&self, call: StartCall) -> Result<(), ControlError>;
    /// All of the change or nothing.
    fn modify_call(&self, sid: &str, change: CallChange) -> Result<(), ControlError>;

    /// Applies all of the change or nothing.
    fn modify_conference(&self, sid: &str, change: ConferenceChange) -> Result<(), ControlError>;
    /// In the order they came. Empty when the conference is over.
    ///
    /// # Errors
    /// `Busy`: this node does not know them at the moment. Another node of a farm that does not answer is left out.
    fn participants(&self, conference: &str) -> Result<Vec<Participant>, ControlError>;
    /// Changes one participant: all of the change or nothing.
    fn modify_participant(
        &self,
        conference: &str,
        call: &str,
        change: ParticipantChange,
    ) -> Result<(), ControlError>;

    /// The waiting calls, the first in line first.
    ///
    /// # Errors
    /// As [`participants`](Self::participants).
    fn queue_members(&self, queue: &str) -> Result<Vec<QueueMember>, ControlError>;
    /// The same, for decisions about the whole queue: is it empty, which call is the first?
    ///
    /// # Errors
    /// `Busy`, too, if another node of the farm does not answer: calls may wait there.
    fn all_queue_members(&self, queue: &str) -> Result<Vec<QueueMember>, ControlError>;
    /// Takes a call out of the queue and goes on with the document. `None`: the first in line.
    fn dequeue(&self, queue: &str, call: Option<&str>, to: Document) -> Result<QueueMember, ControlError>;

    /// Begins to record a live call, under this sid.
    fn start_recording(&self, call: &str, recording: &str, how: &StartRecording) -> Result<(), ControlError>;
    /// Pauses, resumes or stops a recording under way.
    fn modify_recording(&self, sid: &str, change: RecordingChange) -> Result<(), ControlError>;
    /// The recording as a WAV file, of this node or of that node of the farm.
    fn recording(&self, sid: &str, node: &str) -> Result<Audio, EncodeError>;
    /// The same, to be read from this byte on; `length` stays that of the whole file. Beyond its end nothing is left out.
    fn recording_from(&self, sid: &str, node: &str, from: u64) -> Result<Audio, EncodeError> {
        self.recording(sid, node)?.skip(from)
    }
    /// The recording as an MP3 file. Returns at once; the future is polled by a task of the runtime, and dropping it ends
    /// the encoder of this node.
    fn recording_as_mp3(&self, sid: &str, node: &str) -> Encoding;
    /// Deletes the sound, at this node or at that node of the farm. Not an error when it is gone.
    fn remove_recording(&self, sid: &str, node: &str) -> Result<(), EncodeError>;

    /// Sends a text message; its row is in the record, `queued`.
    fn send_message(&self, message: &TextMessage, status_callback: &str) -> Result<(), ControlError>;

    /// Sessions, rooms and accounts of chat, of this node.
    fn chat(&self, ask: chat::Ask) -> Result<chat::Answer, ControlError>;

    /// Does what [`chat`](Self::chat) does at all nodes of the farm where the request concerns all. The nodes are `None` if it was
    /// answered by this one alone, for all.
    fn chat_of_farm(&self, ask: chat::Ask) -> Result<FarmAnswer, ControlError> {
        self.chat(ask).map(|answer| FarmAnswer { answer, nodes: None })
    }

    /// Asks whose token of an identity provider this is, and which account it names. It may wait.
    fn check_identity_token(&self, token: &str) -> IdentityVerdict {
        let _ = token;
        IdentityVerdict::NoSource
    }

    /// The user of a token of an identity provider has signed in as this account, for the first time with this token. For the audit log.
    fn identity_signed_in(&self, from: IpAddr, account: &str, user: &Address) {
        let _ = (from, account, user);
    }

    /// True if the configuration gives the account a role at the console, or makes it an administrator of chat.
    fn is_privileged(&self, account: &Address) -> bool {
        let _ = account;
        false
    }

    /// A request showed a token that is none of that account's, or was refused because too many had. For the log.
    fn sign_in_failed(&self, from: IpAddr, account: &str, cause: Cause);

    /// This account has made, renamed or removed an API key, its own or that of an account below it. For the audit log.
    fn key_changed(&self, account: &str, action: &'static str, key: &str);
}

/// The answer of chat, over the nodes of a farm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FarmAnswer {
    /// The answers of all nodes in one.
    pub answer: chat::Answer,
    /// The nodes that answered; `None`: the node is in no farm, or answers for all.
    pub nodes: Option<NodesAnswered>,
}

/// The reason why the node refuses a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ControlError {
    /// The call is over, or not there yet.
    NotLive,
    /// No call, conference, queue or recording of that sid is live on this node, or on any that was asked.
    NotFound,
    /// Limits of the node are reached.
    Busy,
    /// A value cannot be used; the text says which one and what is expected.
    Invalid(String),
    /// The account may not call from there.
    Caller(String),
    /// The node cannot do this; the text names it.
    Unsupported(Cow<'static, str>),
}

/// The document that a call continues with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Document {
    /// A URL of the application.
    Url {
        /// `Url`: absolute, or a path on this server.
        url: String,
        /// `Method`: `GET` or `POST`.
        method: String,
        /// `FallbackUrl`: fetched when `url` fails; empty for none.
        fallback_url: String,
        /// `FallbackMethod`: `GET` or `POST`.
        fallback_method: String,
    },
    /// `Twiml`: the document itself.
    Inline(String),
    /// The voice URL of an application.
    Application(String),
}

/// The URL that is told of a call's progress.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusCallback {
    /// `StatusCallback`; empty for none.
    pub url: String,
    /// `GET` or `POST`.
    pub method: String,
    /// `initiated`, `ringing`, `answered`, `completed`; empty stands for `completed`.
    pub events: Vec<String>,
}

/// The settings of a recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartRecording {
    /// 1, or 2: what the peer says in the first, what it hears in the second.
    pub channels: u8,
    /// `RecordingTrack`.
    pub track: Track,
    /// Silence at both ends is left out.
    pub trim: bool,
    /// `RecordingStatusCallback` and its companions.
    pub status_callback: StatusCallback,
}

/// The directions of a call that a recording has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Track {
    /// From the peer to this node.
    Inbound,
    /// Both directions.
    Both,
}

/// A change of a recording under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordingChange {
    /// `is_silent`: silence as long as the pause is kept, else nothing.
    Pause {
        /// `PauseBehavior`: true for `silence`, false for `skip`.
        is_silent: bool,
    },
    /// `Status=in-progress`: go on after a pause.
    Resume,
    /// `Status=stopped`: complete the file.
    Stop,
}

/// A call to place.
#[derive(Clone, Debug, PartialEq)]
pub struct StartCall {
    /// As it is in the record.
    pub call: RestCall,
    /// The first document.
    pub document: Document,
    /// `StatusCallback`, `StatusCallbackMethod` and `StatusCallbackEvent`.
    pub status_callback: StatusCallback,
    /// Played once the call is up: digits, `*`, `#`, and `w` for half a second.
    pub send_digits: String,
    /// Seconds to ring.
    pub timeout: u32,
    /// Seconds the call may last.
    pub time_limit: Option<u32>,
    /// From its answer on.
    pub record: Option<StartRecording>,
    /// For a SIP peer that asks for a password.
    pub sip_user: String,
    /// `SipAuthPassword`.
    pub sip_password: String,
    /// Shown instead of `from`.
    pub caller_id: String,
    /// `Enable`, `DetectMessageEnd` or empty.
    pub machine_detection: String,
    /// Put the first one into the account's conference of this name instead of a document.
    pub conference: Option<String>,
    /// The settings of its participation: attributes of a document's `Conference`.
    pub participant: Vec<(&'static str, String)>,
}

/// A change of a live call; `None` leaves a field as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallChange {
    /// The document to continue with: `Url` or `Twiml`.
    pub document: Option<Document>,
    /// `Status`: `canceled` or `completed`.
    pub end: Option<End>,
    /// `Mute`: true to drop the audio that the peer sends.
    pub mute: Option<bool>,
    /// Seconds from now.
    pub time_limit: Option<u32>,
    /// `StatusCallback` and its companions; they replace those of the call.
    pub status_callback: Option<StatusCallback>,
    /// The document is for the other leg of the bridge, too.
    pub move_connected_leg: bool,
}

/// The way to end a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// Only while it rings.
    Cancel,
    /// At any time.
    Complete,
}

/// A change of a conference as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConferenceChange {
    /// Ends the conference: all participants leave.
    pub complete: bool,
    /// A document or sound for all.
    pub announce_url: Option<String>,
    /// `AnnounceMethod`: `GET` or `POST`.
    pub announce_method: String,
}

/// A call in a conference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Participant {
    /// The sid of its call.
    pub call_sid: String,
    /// `Label`: a name that the application gave it; may be empty.
    pub label: String,
    /// True if the others do not receive its audio.
    pub muted: bool,
    /// True if it is on hold: it neither sends to nor receives from the others.
    pub hold: bool,
    /// True if it is audible to one other participant only.
    pub coaching: bool,
    /// `StartConferenceOnEnter`: the conference starts when it enters.
    pub start_conference_on_enter: bool,
    /// `EndConferenceOnExit`: the conference ends when it leaves.
    pub end_conference_on_exit: bool,
    /// `queued`, `connecting`, `ringing`, `connected`, `complete` or `failed`.
    pub status: String,
    /// The time of its entry.
    #[serde(with = "store::types::micros")]
    pub joined_at: Instant,
}

/// A change of one participant; `None` leaves a field as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParticipantChange {
    /// `Muted`.
    pub mute: Option<bool>,
    /// `Hold`.
    pub hold: Option<bool>,
    /// `HoldUrl`: sound or a document for the time on hold; empty for the node's own.
    pub hold_url: String,
    /// `AnnounceUrl`: a document or sound for this participant only.
    pub announce_url: Option<String>,
    /// `EndConferenceOnExit`.
    pub end_conference_on_exit: Option<bool>,
    /// Out of the conference; the call goes on with its next verb.
    pub kick: bool,
}

/// A call that waits in a queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueMember {
    /// The sid of the waiting call.
    pub call_sid: String,
    /// The time of its entry into the queue.
    #[serde(with = "store::types::micros")]
    pub enqueued_at: Instant,
}

/// A file of sound.
pub struct Audio {
    /// The value of Content-Type: `audio/x-wav`, `audio/mpeg`.
    pub media_type: &'static str,
    /// Bytes.
    pub length: u64,
    /// The bytes of the file, `length` of them.
    pub read: Box<dyn Read + Send>,
}

impl Audio {
    /// Leaves out the first bytes by reading them; beyond the end nothing is left out. The length stays that of the whole file.
    ///
    /// # Errors
    /// `Away`: the content breaks off, as that of another node may.
    pub fn skip(mut self, bytes: u64) -> Result<Audio, EncodeError> {
        if bytes < self.length {
            let skipped = std::io::copy(&mut self.read.by_ref().take(bytes), &mut std::io::sink());
            skipped.map_err(|_| EncodeError::Away)?;
        }
        Ok(self)
    }
}

/// A recording that is being converted.
pub type Encoding = Pin<Box<dyn Future<Output = Result<Audio, EncodeError>> + Send>>;

/// The reason why the sound of a recording is not available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EncodeError {
    /// No recording of that sid is complete on its node.
    NotFound,
    /// The configuration names no encoder.
    NoEncoder,
    /// Too many conversions wait.
    Busy,
    /// The encoder failed or took too long; the log has the reason.
    Failed,
    /// The node of the farm, or the store, that has the recording does not answer.
    Away,
}

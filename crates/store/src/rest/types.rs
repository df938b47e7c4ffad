//! The resources themselves. Fields that are empty texts were not given.

use std::fmt;

use serde::{Deserialize, Serialize};
use stdx::Instant;

pub use super::client::Client;
use super::token::TokenVerifier;
use super::{Kind, Resource, Row};
use crate::types::{micros, micros_or_none};

pub(super) fn text(value: &str) -> Option<Box<str>> {
    (!value.is_empty()).then(|| value.into())
}

/// The fields that every resource has.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Common {
    /// Two letters and 32 hexadecimal digits.
    pub sid: String,
    /// The account it belongs to; of an account, itself.
    pub account: String,
    /// `date_created`; microseconds in the body.
    #[serde(with = "micros")]
    pub created_at: Instant,
    /// `date_updated`; microseconds in the body.
    #[serde(with = "micros")]
    pub updated_at: Instant,
}

impl Common {
    /// A row with these fields.
    pub(super) fn row(&self, kind: Kind) -> Row {
        Row::new(kind, &self.sid, &self.account, self.created_at, self.updated_at)
    }
}

/// An address of an application, as `…Url`, `…Method`, `…FallbackUrl`, `…FallbackMethod`, `…ApplicationSid`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Hook {
    /// `…Url`: the first document is fetched from here; empty if the application's URL is used, or none.
    pub url: String,
    /// `GET` or `POST`.
    pub method: String,
    /// `…FallbackUrl`: fetched when the document at `url` cannot be had or is wrong.
    pub fallback_url: String,
    /// `…FallbackMethod`: `GET` or `POST`.
    pub fallback_method: String,
    /// `…ApplicationSid`: an application whose URLs replace these.
    pub application_sid: String,
}

/// An account of the REST interface.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct RestAccount {
    /// Sid, owner and times.
    #[serde(flatten)]
    pub common: Common,
    /// `None`: an account of its own.
    pub parent: Option<String>,
    /// `FriendlyName`.
    pub friendly_name: String,
    /// Signs in as well as the sid; may be empty.
    pub email: String,
    /// `active`, `suspended` or `closed`.
    pub status: String,
    /// Verifies the token that signs in.
    pub token: TokenVerifier,
    /// Signs requests to the account's applications. The account's token unless another key was set: Twilio's libraries
    /// validate with the token.
    pub signing_key: String,
}

impl RestAccount {
    /// True if requests are signed with the account's token. A key of its own is no password for any
    /// interface.
    pub fn is_signed_by_token(&self) -> bool {
        self.token.is_of(&self.signing_key)
    }
}

impl fmt::Debug for RestAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The key may be the token.
        write!(f, "RestAccount({}, hidden)", self.common.sid)
    }
}

impl Resource for RestAccount {
    const KIND: Kind = Kind::Account;

    fn columns(&self) -> Row {
        Row {
            // An account's list is itself and those below it.
            account: self.parent.as_deref().unwrap_or(&self.common.sid).into(),
            parent: self.parent.as_deref().map(Box::from),
            name: text(&self.email),
            status: text(&self.status),
            ..self.common.row(Self::KIND)
        }
    }
}

/// An application: the URLs that calls and messages are handled by.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Application {
    /// Sid, owner and times.
    #[serde(flatten)]
    pub common: Common,
    /// `FriendlyName`.
    pub friendly_name: String,
    /// `VoiceUrl` and its companions.
    pub voice: Hook,
    /// `VoiceCallerIdLookup`: kept and returned, without effect.
    pub voice_caller_id_lookup: bool,
    /// `SmsUrl` and its companions: kept and returned, without effect.
    pub sms: Hook,
    /// `SmsStatusCallback`: the URL that is told of the progress of messages the application sends.
    pub sms_status_callback: String,
    /// `UssdUrl` and its companions (RestComm): kept and returned, without effect.
    pub ussd: Hook,
    /// `rcml_url` of RestComm: the document, when there is no voice URL.
    pub rcml_url: String,
    /// `voice`, `sms` or `ussd`, as RestComm names it.
    pub application_kind: String,
    /// `StatusCallback`: the URL that is told when a call of the application ends.
    pub status_callback: String,
    /// `StatusCallbackMethod`: `GET` or `POST`.
    pub status_callback_method: String,
    /// `MessageStatusCallback`: as Twilio names `sms_status_callback` today.
    pub message_status_callback: String,
}

impl Resource for Application {
    const KIND: Kind = Kind::Application;

    fn columns(&self) -> Row {
        Row { name: text(&self.friendly_name), ..self.common.row(Self::KIND) }
    }
}

/// A number, or a regular expression over numbers, and the application behind it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct IncomingNumber {
    /// Sid, owner and times.
    #[serde(flatten)]
    pub common: Common,
    /// `+1234`, `alice`, or a regular expression.
    pub phone_number: String,
    /// True if `phone_number` is a regular expression.
    pub is_pattern: bool,
    /// `FriendlyName`.
    pub friendly_name: String,
    /// `Local`, `TollFree`, `Mobile`, or empty.
    pub class: String,
    /// `VoiceUrl` and its companions.
    pub voice: Hook,
    /// `VoiceCallerIdLookup`: kept and returned, without effect.
    pub voice_caller_id_lookup: bool,
    /// `SmsUrl` and its companions: kept and returned, without effect.
    pub sms: Hook,
    /// `UssdUrl` and its companions (RestComm): kept and returned, without effect.
    pub ussd: Hook,
    /// `ReferUrl` and its companions (RestComm): kept and returned, without effect.
    pub refer: Hook,
    /// `StatusCallback`: the URL that is told when a call to the number ends.
    pub status_callback: String,
    /// `StatusCallbackMethod`: `GET` or `POST`.
    pub status_callback_method: String,
    /// Not reached through a carrier.
    pub is_sip: bool,
}

impl Resource for IncomingNumber {
    const KIND: Kind = Kind::IncomingNumber;

    fn columns(&self) -> Row {
        Row { name: text(&self.phone_number), ..self.common.row(Self::KIND) }
    }
}

/// A call, from its request on. The node that runs the call replaces the row as it goes on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RestCall {
    /// Sid, owner and times.
    #[serde(flatten)]
    pub common: Common,
    /// `parent_call_sid`: the call whose `Dial` placed this one; empty for other calls.
    pub parent: String,
    /// The caller's number, user or URI.
    pub from: String,
    /// The called number, user or URI.
    pub to: String,
    /// The caller's display name in the INVITE's From (RFC 3261 §20.20).
    pub caller_name: String,
    /// `forwarded_from`: the number that diverted the call; empty where the node does not know one.
    pub forwarded_from: String,
    /// The sid of the [`IncomingNumber`] that was called.
    pub phone_number_sid: String,
    /// `queued`, `ringing`, `in-progress`, `completed`, `busy`, `failed`, `no-answer` or `canceled`.
    pub status: String,
    /// `inbound`, `outbound-api` or `outbound-dial`.
    pub direction: String,
    /// `human`, `machine` and so on, when asked for.
    pub answered_by: String,
    /// When it began to ring.
    #[serde(with = "micros_or_none")]
    pub started_at: Option<Instant>,
    /// The time of the 200 to the INVITE.
    #[serde(with = "micros_or_none")]
    pub answered_at: Option<Instant>,
    /// The time of the BYE, CANCEL or final error.
    #[serde(with = "micros_or_none")]
    pub ended_at: Option<Instant>,
    /// Seconds from answer to end.
    pub duration: Option<u32>,
    /// Seconds from start to answer or end.
    pub ring_duration: Option<u32>,
    /// The Call-ID of the SIP dialog.
    pub sip_call_id: String,
    /// The final SIP status (RFC 3261 §21) of a call that no phone has taken, from a peer or from this node.
    pub sip_response_code: Option<u16>,
    /// The Reason-Phrase beside it.
    pub sip_reason_phrase: String,
    /// The sid of the conference that the call was placed into.
    pub conference_sid: String,
    /// The life of the node of a farm that has the call, by which the row is found when that life is dead; 0 once all is done about the
    /// end of the call, and outside of a farm.
    pub node_life: u32,
    /// The application that another node tells of the end if the call's node dies.
    pub end_callback: Option<EndCallback>,
    /// The call that another node makes in place of this one if its node dies.
    pub redial: Option<Redial>,
}

/// A call in place of one whose node has died: the party is called, and the application is asked anew.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Redial {
    /// The party: a number, or a `sip:` or `client:` address.
    pub to: String,
    /// The caller as the party sees it.
    pub from: String,
    /// The URL of the application's first document.
    pub url: String,
    /// `GET` or `POST`.
    pub method: String,
    /// Asked when `url` gives no document; empty: none.
    pub fallback_url: String,
    /// `GET` or `POST`.
    pub fallback_method: String,
    /// The events of the status callback; empty: there is none.
    pub status_events: Vec<String>,
    /// The URL of the status callback.
    pub status_url: String,
    /// `GET` or `POST`.
    pub status_method: String,
}

/// The status callback about the end of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EndCallback {
    /// Absolute, of HTTP.
    pub url: String,
    /// `GET` or `POST`.
    pub method: String,
    /// `SequenceNumber`: the callbacks before it.
    pub sequence: u32,
}

impl RestCall {
    /// True until it has ended.
    pub fn is_live(&self) -> bool {
        matches!(self.status.as_str(), "queued" | "initiated" | "ringing" | "in-progress")
    }
}

impl Resource for RestCall {
    const KIND: Kind = Kind::Call;

    fn columns(&self) -> Row {
        Row {
            parent: text(&self.parent),
            status: text(&self.status),
            from: text(&self.from),
            to: text(&self.to),
            direction: text(&self.direction),
            name: (self.node_life != 0).then(|| self.node_life.to_string().into()),
            amount: self.duration.map(i64::from),
            ended_at: self.ended_at,
            ..self.common.row(Self::KIND)
        }
    }
}

/// A conference, from its first participant on; only the live node knows its participants.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Conference {
    /// Sid, owner and times.
    #[serde(flatten)]
    pub common: Common,
    /// The name that documents join it by.
    pub friendly_name: String,
    /// `init`, `in-progress` or `completed`.
    pub status: String,
    /// `reason_conference_ended`, in Twilio's words: `last-participant-left` and so on.
    pub reason_ended: String,
    /// `call_sid_ending_conference`: the participant whose leaving ended it.
    pub call_sid_ending: String,
}

impl Resource for Conference {
    const KIND: Kind = Kind::Conference;

    fn columns(&self) -> Row {
        Row { name: text(&self.friendly_name), status: text(&self.status), ..self.common.row(Self::KIND) }
    }
}

/// The data of a recording; the sound is a file of the node that made it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Recording {
    /// Sid, owner and times.
    #[serde(flatten)]
    pub common: Common,
    /// The recorded call; empty for a conference.
    pub call_sid: String,
    /// The recorded conference; empty for a call.
    pub conference_sid: String,
    /// `in-progress`, `paused`, `completed` or `absent`.
    pub status: String,
    /// `RecordVerb`, `DialVerb`, `Conference`, `StartCallRecordingAPI` and so on.
    pub source: String,
    /// Seconds.
    pub duration: Option<u32>,
    /// 1, or 2 with each side in its own channel.
    pub channels: u8,
    /// The time of the first sample.
    #[serde(with = "micros_or_none")]
    pub started_at: Option<Instant>,
    /// Twilio's number of the error that ended an `absent` recording.
    pub error_code: Option<u32>,
    /// The node of a farm that has the sound; empty for a node that is alone, and before the first sample.
    pub node: String,
    /// The account whose voicemail it is, `alice@example.org`; empty: no account's.
    pub to: String,
    /// The caller of voicemail, as applications know it.
    pub from: String,
    /// The time at which the user had heard the voicemail.
    #[serde(with = "micros_or_none")]
    pub heard_at: Option<Instant>,
}

impl Resource for Recording {
    const KIND: Kind = Kind::Recording;

    fn columns(&self) -> Row {
        Row {
            parent: text(&self.call_sid),
            name: text(&self.conference_sid),
            status: text(&self.status),
            amount: self.duration.map(i64::from),
            from: text(&self.from),
            to: text(&self.to),
            // So that unheard voicemail can be counted.
            ended_at: self.heard_at,
            ..self.common.row(Self::KIND)
        }
    }
}

/// Something that went wrong with a call or request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Notification {
    /// Sid, owner and times.
    #[serde(flatten)]
    pub common: Common,
    /// The call that the request was for; may be empty.
    pub call_sid: String,
    /// 0 an error, 1 a warning.
    pub log: u8,
    /// Twilio's number of the error, 0 if there is none.
    pub error_code: u32,
    /// The URL of Twilio's page about the error.
    pub more_info: String,
    /// The error in words.
    pub message_text: String,
    /// The URL of the application that was asked.
    pub request_url: String,
    /// `GET` or `POST`.
    pub request_method: String,
    /// The parameters of the request, form-encoded.
    pub request_variables: String,
    /// The header fields of the application's answer.
    pub response_headers: String,
    /// The application's answer, cut to a bounded length.
    pub response_body: String,
}

impl Resource for Notification {
    const KIND: Kind = Kind::Notification;

    fn columns(&self) -> Row {
        Row {
            parent: text(&self.call_sid),
            name: Some(self.error_code.to_string().into()),
            status: Some(self.log.to_string().into()),
            ..self.common.row(Self::KIND)
        }
    }
}

/// A text message, in or out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TextMessage {
    /// Sid, owner and times.
    #[serde(flatten)]
    pub common: Common,
    /// The sender's number or user.
    pub from: String,
    /// The recipient's number, user or URI.
    pub to: String,
    /// The text.
    pub body: String,
    /// `queued`, `sending`, `sent`, `failed`, `received` and so on.
    pub status: String,
    /// `inbound`, `outbound-api`, `outbound-call` or `outbound-reply`.
    pub direction: String,
    /// The time at which the recipient's side accepted it.
    #[serde(with = "micros_or_none")]
    pub sent_at: Option<Instant>,
    /// Twilio's number of the error, of a message that failed.
    pub error_code: Option<u32>,
    /// The error in words.
    pub error_message: String,
}

impl TextMessage {
    /// A GSM 03.38 message has 160 characters, or 153 a part; one of UCS-2 has 70, or 67 a part. ASCII stands for
    /// the former.
    pub fn segments(&self) -> u32 {
        let (whole, part) = if self.body.is_ascii() { (160, 153) } else { (70, 67) };
        let units = self.body.encode_utf16().count();
        let count = if units <= whole { 1 } else { units.div_ceil(part) };
        u32::try_from(count).unwrap_or(u32::MAX)
    }
}

impl Resource for TextMessage {
    const KIND: Kind = Kind::Message;

    fn columns(&self) -> Row {
        Row {
            from: text(&self.from),
            to: text(&self.to),
            status: text(&self.status),
            direction: text(&self.direction),
            amount: Some(i64::from(self.segments())),
            ..self.common.row(Self::KIND)
        }
    }
}

/// A queue; only the live node knows its waiting calls.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Queue {
    /// Sid, owner and times. The sid follows from the first name: [`super::queue_sid`].
    #[serde(flatten)]
    pub common: Common,
    /// The name that `Enqueue` and `Dial` use.
    pub friendly_name: String,
    /// `MaxSize`: waiting calls at most.
    pub max_size: u32,
    /// The name that the sid follows from; empty: only documents have made the queue.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub first_name: String,
}

impl Resource for Queue {
    const KIND: Kind = Kind::Queue;

    fn columns(&self) -> Row {
        let parent = text(&self.first_name).map(|_| super::REQUESTED.into());
        Row { name: text(&self.friendly_name), parent, ..self.common.row(Self::KIND) }
    }
}

/// A number an account may show as its own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CallerId {
    /// Sid, owner and times.
    #[serde(flatten)]
    pub common: Common,
    /// `FriendlyName`.
    pub friendly_name: String,
    /// The number in E.164 form, `+` first.
    pub phone_number: String,
}

impl Resource for CallerId {
    const KIND: Kind = Kind::CallerId;

    fn columns(&self) -> Row {
        Row { name: text(&self.phone_number), ..self.common.row(Self::KIND) }
    }
}

/// A recording's words as text.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Transcription {
    /// Sid, owner and times.
    #[serde(flatten)]
    pub common: Common,
    /// The sid of the [`Recording`].
    pub recording_sid: String,
    /// `in-progress`, `completed` or `failed`.
    pub status: String,
    /// The recogniser's words; empty until it is `completed`.
    pub text: String,
    /// Seconds of sound.
    pub duration: Option<u32>,
}

impl Resource for Transcription {
    const KIND: Kind = Kind::Transcription;

    fn columns(&self) -> Row {
        Row {
            parent: text(&self.recording_sid),
            status: text(&self.status),
            amount: self.duration.map(i64::from),
            ..self.common.row(Self::KIND)
        }
    }
}

/// A file that a chat client has uploaded to a node of a farm; no resource of the REST interface.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct UploadedFile {
    /// `UP` and the id of the file's URL; the address of its user; times.
    #[serde(flatten)]
    pub common: Common,
    /// The node that has the file in its folder.
    pub node: String,
}

impl Resource for UploadedFile {
    const KIND: Kind = Kind::Upload;

    fn columns(&self) -> Row {
        self.common.row(Self::KIND)
    }
}

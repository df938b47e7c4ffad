//! The voicemail of an account: recordings of callers that applications have put into its mailbox.

use stdx::Instant;

/// A request about an account's own voicemail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VoicemailRequest {
    /// A page of messages, the newest first: `VoicemailReply::Page`.
    List {
        /// Messages that began then or earlier: the `next` of the page before. `None`: the first page.
        until: Option<Instant>,
        /// The most messages of the page.
        max: u32,
    },
    /// A piece of the sound of a message: `VoicemailReply::Sound`.
    Sound {
        /// The message.
        id: Box<str>,
        /// The first byte of the piece.
        offset: u64,
    },
    /// The user has heard a message: `VoicemailReply::Done`.
    Heard {
        /// The message.
        id: Box<str>,
    },
    /// A message and its sound go: `VoicemailReply::Done`.
    Delete {
        /// The message.
        id: Box<str>,
    },
}

/// The answer to a [`VoicemailRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VoicemailReply {
    /// Messages.
    Page(VoicemailPage),
    /// A piece of the sound of one.
    Sound(VoicemailSound),
    /// The change is written.
    Done,
    /// The account has no such message, or its sound is gone.
    NotFound,
}

/// Messages of an account, the newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VoicemailPage {
    /// The messages.
    pub messages: Vec<Voicemail>,
    /// The `until` of the next page; `None`: this is the last one. Messages that began at that time may be on both.
    pub next: Option<Instant>,
    /// Messages of the account that are not heard, on all pages.
    pub unheard: u64,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Voicemail {
    /// The SID of the recording.
    pub id: Box<str>,
    /// The caller, as applications know it: a number, or the user of a SIP URI.
    pub from: Box<str>,
    /// The time at which the recording began.
    pub at: Instant,
    /// Its length, begun ones not counted.
    pub seconds: u32,
    /// The user has heard it.
    pub is_heard: bool,
}

/// A piece of the sound of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VoicemailSound {
    /// Bytes of the whole sound, a WAV file.
    pub size: u64,
    /// The bytes from the offset on, at most `chat::limits::VOICEMAIL_PIECE`; none behind the end.
    pub bytes: Vec<u8>,
}

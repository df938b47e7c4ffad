//! The slow work that calls request of the node: documents, speech, sounds, mails, media streams, recognition. The
//! requests are handed to a [`HelperService`]; each result comes back to the shard as a [`HelperResult`].

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use ivr::document::{Email, Voice};
use ivr::request::Wire;
use ivr::script::{EffectFailure, FetchResponse, Speech};
use media::codec::Codec;
use media::prompt::Prompt;

/// The asking shard, and its number for the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// The shard whose call made the request.
    pub shard: u16,
    /// The shard's own number for the request.
    pub id: u64,
}

/// A recording that a document plays by the URL that REST has for it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PlayedRecording {
    /// Its sid.
    pub sid: Box<str>,
    /// The account in its URL, which need not be that of the recording.
    pub account: Box<str>,
    /// The account of the document.
    pub reader: Box<str>,
    /// Its file, if this node has it.
    pub file: PathBuf,
}

/// The result of a request. Samples are of 8 kHz, one channel.
#[derive(Debug)]
pub enum Done {
    /// A document, or the answer to a callback.
    Fetched(Result<FetchResponse, EffectFailure>),
    /// A decoded prompt, or the reason why there is none.
    Samples(Result<Arc<[i16]>, String>),
    /// Samples as frames of a codec, or the reason why they are not encoded.
    Encoded(Result<Prompt, String>),
    /// The relay has taken a mail, or the reason why it has not.
    Mailed(Result<(), String>),
    /// An event of a media stream; any number of them.
    Stream(MediaStreamEvent),
    /// A recording is complete, or was not kept as wanted; or it cannot be written, and why.
    Written(Result<(), String>),
    /// Recognition of one utterance: any number of words, then one `Over`.
    Heard(RecognitionResult),
    /// The text of a recording.
    Transcribed(Result<String, String>),
}

/// A helper's result, on its way to the shard that asked.
#[derive(Debug)]
pub struct HelperResult {
    pub(crate) ticket: u64,
    pub(crate) done: Done,
}

impl HelperResult {
    /// The result for a ticket of the shard.
    pub fn new(ticket: Ticket, done: Done) -> HelperResult {
        HelperResult { ticket: ticket.id, done }
    }
}

/// The helpers as calls see them. No method waits. Each request has one result ([`Done`]), also when the helpers have
/// no room for it.
pub trait HelperService: Send + Sync {
    /// Requests a document of `http:`, `https:` or, by its name in the folder of documents, `file:`. Answered by
    /// `Done::Fetched`.
    fn fetch(&self, ticket: Ticket, wire: Wire);

    /// Sends a request whose answer is ignored, such as a status callback. `false`: too many of them are open, and it is dropped.
    fn tell(&self, wire: Wire) -> bool;

    /// Requests the sound of a text. Answered by `Done::Samples`.
    fn speech(&self, ticket: Ticket, text: &str, voice: Voice, language: &str);

    /// Requests a file of `http:`, `https:` or, by its name in the folder of prompts, `file:`. Answered by
    /// `Done::Samples`.
    fn audio(&self, ticket: Ticket, url: &str);

    /// Requests the sound of a recording, which the document's account may hear or not. Answered by `Done::Samples`.
    fn recording(&self, ticket: Ticket, recording: PlayedRecording);

    /// Encodes samples of 8 kHz. Answered by `Done::Encoded`.
    fn encode(&self, ticket: Ticket, codec: Codec, samples: Arc<[i16]>);

    /// Sends a mail. Answered by `Done::Mailed`.
    fn mail(&self, ticket: Ticket, mail: Email);

    /// Opens a media stream. Its events come as `Done::Stream`; it stops when the sender is dropped.
    fn stream(&self, ticket: Ticket, opening: Opening) -> Box<dyn StreamSender>;

    /// Recognises one utterance of a caller, its samples at `rate` hertz. Answered by `Done::Heard`.
    ///
    /// # Errors
    /// The reason why it is not recognised; no result follows then.
    fn recognise(
        &self,
        ticket: Ticket,
        language: &str,
        hints: &[String],
        rate: u32,
    ) -> Result<Box<dyn SpeechListener>, String>;

    /// Requests the text of a recording. Answered by `Done::Transcribed`.
    fn transcribe(&self, ticket: Ticket, recording: PathBuf);
}

/// The call's end of a media stream.
pub trait StreamSender: Send {
    /// Queues a message for the application. `false`: the queue is full, and the message is dropped.
    fn try_send(&self, message: StreamOrder) -> bool;
}

/// The sending end of an utterance. Once it is dropped, no results follow.
pub trait SpeechListener: Send {
    /// Queues samples. Samples that a slow recogniser has no room for are lost.
    fn put(&self, samples: &[i16]);

    /// Ends the utterance: no samples follow.
    fn end(&mut self);
}

/// A result of the recognition of an utterance.
#[derive(Debug)]
pub enum RecognitionResult {
    /// Words so far, or the final ones.
    Words(Speech),
    /// Nothing follows.
    Over(Result<(), String>),
}

/// A stream to be opened.
#[derive(Debug)]
pub struct Opening {
    /// The URL of the application's WebSocket: `ws:` or `wss:`.
    pub url: String,
    /// The value of `X-Twilio-Signature`. Empty: unsigned.
    pub signature: String,
    /// The stream's sid.
    pub sid: String,
    /// The account's sid.
    pub account: String,
    /// The call's sid.
    pub call: String,
    /// `inbound`, `outbound`, or both.
    pub tracks: Vec<&'static str>,
    /// The document's own parameters: names and values.
    pub parameters: Vec<(String, String)>,
    /// The call plays the sound that the application sends.
    pub two_way: bool,
}

/// A message of a call for the application of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamOrder {
    /// 20 ms of G.711 µ-law.
    Media {
        /// `inbound` or `outbound`.
        track: &'static str,
        /// The number of the frame in its track, from 1.
        chunk: u64,
        /// Milliseconds since the stream is open.
        at_ms: u64,
        /// The samples, a byte each.
        payload: Bytes,
    },
    /// A key of the caller.
    Digit(char),
    /// The sound before the mark was played, or cleared.
    Mark(Box<str>),
}

/// Events of a stream for its call.
#[derive(Debug)]
pub enum MediaStreamEvent {
    /// The WebSocket is open.
    Opened,
    /// Messages of the application, in their order.
    Said(Vec<StreamMessage>),
    /// Last. An error says what happened.
    Over(Result<(), String>),
}

/// A message of a stream's application.
#[derive(Debug, PartialEq, Eq)]
pub enum StreamMessage {
    /// G.711 µ-law, however much.
    Sound(Vec<u8>),
    /// The application asks to be told once the sound before this mark was played.
    Mark(Box<str>),
    /// Sound that waits is dropped.
    Clear,
    /// The first malformed message; later ones are ignored.
    Nonsense(String),
}

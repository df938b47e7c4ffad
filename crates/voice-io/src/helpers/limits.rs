//! Limits of what is fetched, spoken and decoded, with their reasons and what happens at them.

use std::time::Duration;

/// Requests for documents that are open or wait. More: code 11205 at once.
pub(super) const DOCUMENTS: usize = 4_096;

/// Callbacks, which nothing waits for, that are open or wait. More are dropped and counted. A call makes any number of them, so they have no
/// part of the places for documents.
pub(super) const CALLBACKS: usize = 4_096;

/// Places of each of these kinds for one host and port: a server that answers in a second gets 512 requests of a kind in it. More: as above, for
/// this server only, so that the slow server of one account leaves places for the others.
pub(super) const FETCHES_OF_SERVER: usize = 512;

/// At least between two lines of the log about callbacks that were dropped.
pub(super) const DROPPED_LINES: Duration = Duration::from_mins(1);

/// Prompts asked for and not there yet, of each kind. Further ones are not played, with a notification.
pub(super) const PROMPTS: usize = 8_192;

/// Places of these for files of one host and port. Many calls may wait for one file, which is asked for once, so it is more than of documents.
pub(super) const PROMPTS_OF_SERVER: usize = 2_048;

/// For an answer of an application, redirects and all: Twilio's own. Longer: code 11205.
pub(super) const FETCH_TIMEOUT: Duration = Duration::from_secs(15);

/// For a connection to be made. Longer: code 11205.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Redirects of one request. More: code 11215.
pub(super) const REDIRECTS: usize = 5;

/// Silence after which a connection is closed: Node.js closes after five seconds, and a request must not meet that.
pub(super) const POOL_IDLE: Duration = Duration::from_secs(4);

/// Silent connections kept to one application. More are closed.
pub(super) const POOL_PER_HOST: usize = 256;

/// Bytes of an audio file: an hour of MP3, six minutes of WAV at 44.1 kHz. Larger ones are not played.
pub(super) const AUDIO_FILE: usize = 32 << 20;

/// Bytes of a recording that is transcribed: some four hours of one channel at 8 kHz, all in memory while a place of
/// [`TRANSCRIBERS`] is taken.
pub(super) const TRANSCRIBED_FILE: usize = 256 << 20;

/// Samples of one prompt: an hour at 8 kHz. The rest is not played.
pub(super) const SAMPLES: usize = 3_600 * 8_000;

/// Samples of one file at its own rate, 25 minutes at 44.1 kHz: a small file may claim to hold days of silence. The
/// rest is not played.
pub(super) const DECODED: usize = 64 << 20;

/// Bytes of what a caller did that may choose a document of a folder. Longer: the document itself.
pub(super) const CHOICE: usize = 64;

/// The time for which an audio file without `Cache-Control` is played without asking whether it changed.
pub(super) const AUDIO_FRESH: Duration = Duration::from_secs(1);

/// `Cache-Control` is believed up to this.
pub(super) const AUDIO_FRESH_MOST: Duration = Duration::from_hours(24);

/// Files decoded at the same time. More wait.
pub(super) const DECODERS: usize = 2;

/// Sounds encoded at the same time, each for two seconds at most. More wait.
pub(super) const ENCODERS: usize = 2;

/// Threads for what blocks: names looked up, files read, sounds decoded and encoded. More wait.
pub(super) const BLOCKING: usize = 8;

/// For one text to be spoken: the longest takes a second. Longer: the engine is killed, and the text not spoken.
pub(super) const SPEECH_TIMEOUT: Duration = Duration::from_secs(20);

/// Bytes of a text. More are not spoken; the interpreter's own limit is 4,096 characters.
pub(super) const SPEECH_TEXT: usize = 16 * 1024;

/// Bytes of what an engine tells of its mistakes that are read.
pub(super) const SPEECH_WORDS: u64 = 1_024;

/// Bytes kept decoded of spoken texts, and as many of audio files: an hour of each. The least recently played make
/// room.
pub(super) const CACHE: usize = 64 << 20;

/// Media streams that are open. More: refused with a reason.
pub(super) const STREAMS: usize = 4_096;

/// Messages for one stream that wait to be written, a second of both directions. A slow application loses what is beyond.
pub(super) const STREAM_FRAMES: usize = 128;

/// For one message to be written. Longer: the stream is over.
pub(super) const STREAM_WRITE: Duration = Duration::from_secs(10);

/// For the answer to our close. Longer: the connection is closed without it.
pub(super) const STREAM_GOODBYE: Duration = Duration::from_secs(1);

/// Bytes of one message of an application, 24 s of sound. Larger: the stream is over.
pub(super) const STREAM_MESSAGE: usize = 256 * 1024;

/// Bytes of a mark's name. A longer one is ignored, with a notification.
pub(super) const STREAM_MARK: usize = 256;

/// The interval at which a call is told the messages of its stream's application.
pub(super) const STREAM_TURN: Duration = Duration::from_millis(20);

/// Messages, and bytes, that a call is given at once: more than a second of sound. Beyond, the application waits.
pub(super) const STREAM_TURN_MESSAGES: usize = 64;
pub(super) const STREAM_TURN_BYTES: usize = 64 * 1024;

/// Mails that are on their way to the relay. More: failed at once.
pub(super) const MAILS: usize = 256;

/// For one step with the relay, the connection among them. Longer: the mail fails.
pub(super) const MAIL_STEP: Duration = Duration::from_secs(10);

/// For a whole mail. Longer: it fails.
pub(super) const MAIL_TIME: Duration = Duration::from_secs(30);

/// Bytes of a mail's text: of a document's largest. More: it fails.
pub(super) const MAIL_BYTES: usize = 256 * 1024;

/// Bytes of a subject. More: the mail fails.
pub(super) const MAIL_SUBJECT: usize = 998;

/// Recipients of one mail: RFC 5321 §4.5.3.1.8 has every relay take 100. More: it fails.
pub(super) const MAIL_RECIPIENTS: usize = 100;
/// Callers whose words are recognised at a time: each has a process or a request of its own. Further callers are not
/// understood, with a notification.
pub(super) const RECOGNISERS: usize = 64;

/// Pieces of 200 ms that wait for a recogniser: ten seconds. A slower recogniser loses further pieces.
pub(super) const RECOGNISED_PIECES: usize = 50;

/// For the last word on what was said, counted from its end. Longer: the recogniser is killed.
pub(super) const RECOGNISED_WAIT: Duration = Duration::from_secs(10);

/// Bytes that a recogniser may answer to one utterance, or to one recording. The rest is not read.
pub(super) const RECOGNISED_BYTES: u64 = 256 * 1024;

/// Recordings whose transcription is awaited. More fail at once.
pub(super) const TRANSCRIPTIONS: usize = 1_024;

/// Recordings that are transcribed at a time. More wait.
pub(super) const TRANSCRIBERS: usize = 2;

/// For one recording to be transcribed. Longer: the recogniser is killed, and the transcription failed.
pub(super) const TRANSCRIPTION_WAIT: Duration = Duration::from_mins(10);

/// Events of chat that wait for one application: a minute of 160 a second. More are dropped and counted.
pub(super) const WEBHOOK_QUEUE: usize = 10_000;

/// Bytes of these events: so many of the usual size, about a kilobyte, have room. More are dropped and counted.
pub(super) const WEBHOOK_QUEUE_BYTES: usize = 16 << 20;

/// The pause before an event is tried again. It doubles with each failure.
pub(super) const WEBHOOK_RETRY: Duration = Duration::from_secs(1);

/// The longest such pause.
pub(super) const WEBHOOK_RETRY_MOST: Duration = Duration::from_secs(30);

/// The age up to which an event is tried again: a restart of an application, and of its machine. Older: dropped and counted.
pub(super) const WEBHOOK_PATIENCE: Duration = Duration::from_mins(10);

/// Bytes of an application's answer to an event. It is not used; a longer one is not read to its end.
pub(super) const WEBHOOK_ANSWER: usize = 64 * 1_024;

/// The time that events which wait have when the node ends.
pub(super) const WEBHOOK_LAST: Duration = Duration::from_secs(2);

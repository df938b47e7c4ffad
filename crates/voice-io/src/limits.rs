//! Limits of the node's work for calls, with their reasons and what happens at them. The calls' own are in the crate
//! `voice`.

use std::time::Duration;

/// Times one socket is read in a tick, each for a batch. Speech does not take more.
pub(super) const READS: usize = 8;

/// Recordings of the node that are open: each has a file. One more fails with code 13600.
pub const RECORDINGS: usize = 2_048;

/// Recordings whose account is known without the database: those that may be open, and as many that have just ended, whose rows wait to be
/// written. The account of an older one is read from its row.
pub(super) const RECENT_RECORDINGS: usize = 2 * RECORDINGS;

/// Pieces of 200 ms that wait for the disk: three seconds of 1,000 recordings. A recording that finds no place ends with
/// code 13600.
pub(super) const RECORDED_PIECES: usize = 16_384;

/// Encoders of `[voice] mp3` that run at once: each takes a core. More wait.
pub const ENCODERS: usize = 2;

/// Conversions of recordings that run or wait, a request each. More: 429.
pub const ENCODINGS: usize = 32;

/// For a conversion, and as long for its turn: lame needs a minute for the longest recording. Longer: the encoder is killed,
/// and the request answered 500; one whose turn does not come, 429.
pub const ENCODE_TIME: Duration = Duration::from_secs(120);

/// Bytes of an MP3 file beyond twice its WAV file (which has 128 kbit/s a channel): tags and padding of a short one. More:
/// the encoder is killed, and the request answered 500.
pub(super) const ENCODED_EXTRA: u64 = 1 << 20;

/// Bytes of an encoder's output that are written to the disk at once.
pub(super) const ENCODED_PIECE: usize = 64 * 1024;

/// Bytes of an encoder's errors that are kept for the log.
pub(super) const ENCODER_MESSAGE: u64 = 1_024;

/// The time for the shards' answers to a request of the REST interface. If one is later and no other has the call, the answer is 429: it
/// may be the one that has it.
pub const CONTROL: Duration = Duration::from_secs(1);

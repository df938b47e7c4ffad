//! Limits of programmable voice, with their reasons and what happens at them.

use std::time::Duration;

/// Prompts a shard keeps encoded. Those not played lately make room.
pub(super) const PROMPTS: usize = 1_024;

/// Bytes of one of them: two minutes of G.711. Longer ones are encoded for each call.
pub(super) const PROMPT_CACHED: usize = 1 << 20;

/// Of each key among the sounds of a prompt.
pub(super) const DIGIT_MS: u32 = 160;

/// Ticks made up for when the shard was late; older ones are left out, and the peer conceals them.
pub(super) const LATE_TICKS: u32 = 5;

/// Times one socket is read in a tick, each for a batch. More come from nobody who talks.
pub(super) const READS: usize = 8;

/// Recordings of the node that are open: each has a file. One more fails with code 13600.
pub(super) const RECORDINGS: usize = 2_048;

/// Pieces of 200 ms that wait for the disk: three seconds of 1,000 recordings. A recording that finds no place ends with
/// code 13600.
pub(super) const RECORDED_PIECES: usize = 16_384;

/// Recordings of one leg at a time: a Record verb's, a Dial's or conference's, and one of the REST interface. One more is
/// refused.
pub(super) const RECORDINGS_PER_LEG: usize = 3;

/// The longest recording that no Record verb limits: that of the longest call. What is beyond is not kept.
pub(super) const RECORDING: Duration = ivr::limits::CALL_DURATION;

/// Sound before the beginning of speech that a recogniser gets: words begin softly, and speech is noticed late.
pub(super) const BEFORE_SPEECH_MS: u32 = 500;

/// Silence that ends speech, when the document does not say.
pub(super) const END_OF_SPEECH: Duration = Duration::from_millis(1_000);

/// Characters of a transcription that are kept: as many as fit a row, whatever they are.
pub(super) const TRANSCRIPTION: usize = 8_192;

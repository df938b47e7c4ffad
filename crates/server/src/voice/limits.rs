//! Limits of programmable voice, with their reasons and what happens at them.

use std::time::Duration;

/// Prompts a shard keeps encoded. Those not played lately make room.
pub(super) const PROMPTS: usize = 1_024;

/// Bytes of one of them: two minutes of G.711. Longer ones are encoded for each call.
pub(super) const PROMPT_CACHED: usize = 1 << 20;

/// Of each key among the sounds of a prompt.
pub(super) const DIGIT_MS: u32 = 160;

/// Phases turned at once when the shard was late: the rest follows once what came by SIP meanwhile is done.
pub(super) const TURNS: u32 = 5;

/// How late a phase is made up for, five ticks; what is older is left out, and the peer conceals it.
pub(super) const LATE: Duration = Duration::from_millis(100);

/// How far ahead a script's wake-up is noted. One whose deadline is later is woken once more; of one that is over, the
/// note stays that long: a thousand calls a second leave about a megabyte and a half.
pub(super) const WAKE_AHEAD: Duration = Duration::from_secs(60);

/// Times one socket is read in a tick, each for a batch. More come from nobody who talks.
pub(super) const READS: usize = 8;

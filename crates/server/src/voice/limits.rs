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

/// Bytes of a called number or name that bindings are looked up for. Longer ones are nobody's.
pub(super) const NUMBER: usize = 256;

/// `X-` headers of an INVITE told to its application, and bytes of each value. What is beyond is left out.
pub(super) const TOLD_HEADERS: usize = 32;
pub(super) const TOLD_HEADER: usize = 1_024;

/// Of one call in the record: an application that is wrong in each of its documents fills no disk. More are logged only.
pub(super) const NOTIFICATIONS: u16 = 50;

/// For the shards' answers to a request of the REST interface. Whoever is later does not know the call.
pub(crate) const CONTROL: Duration = Duration::from_secs(1);

/// How long a call rings before the record has it. Nearly all are answered before, and are written once less.
pub(super) const RINGING: Duration = Duration::from_secs(1);

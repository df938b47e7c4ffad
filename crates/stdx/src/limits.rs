//! The numbers that bound what lives here, each with its reason.

/// Microseconds. A timer fires at the first tick at or after its time, so it is late by less than this.
/// The shortest interval of a protocol above is 500 ms; 8 ms is under 2 % of it, and 125 wake-ups a second
/// at most.
pub const TICK_MICROS: u64 = 8_000;

/// Entries a slot of the wheel keeps room for after it was emptied. More is given back to the allocator,
/// so a burst does not hold its memory; less would allocate anew on every tick of a quiet shard.
pub const WHEEL_SLOT_KEEPS: usize = 32;

/// Values a slab allocates at once: growth costs one chunk, never a copy of the values.
pub const SLAB_CHUNK: usize = 1024;

/// Lines a ladder keeps, the last ones; the drawing says how many went before. A
/// reader gives up long before this.
pub const LADDER_ARROWS: usize = 10_000;

/// Characters of a label that a ladder draws; the rest is cut with `…`. Labels may come from a peer.
pub const LADDER_LABEL: usize = 40;

/// Entries under penalty that a full limiter passes over before it gives up one of them all the same: a
/// flood of new sources cannot wash away the penalties at once, and each of them is bounded work.
pub const LIMITER_SPARES: usize = 16;

/// Bytes of an account's name that lists of blocks and logs show. Names of accounts are shorter; those that strangers make
/// up are cut with `…`.
pub const BLOCK_NAME: usize = 128;
/// Keys of attempts to sign in that have ended: more are removed when the next one begins, a few dozen bytes each.
pub const OPEN_ATTEMPTS_KEPT: usize = 1_024;

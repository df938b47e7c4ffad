//! What std lacks: time as a value, timer wheel, slab, bounded containers, keyed hashes. No domain words.

pub mod time;

pub use time::Instant;

//! What std lacks: time as a value, timer wheel, slab, bounded containers, keyed hashes. No domain words.

pub mod hash;
pub mod limits;
pub mod slab;
pub mod time;
pub mod wheel;

pub use time::Instant;

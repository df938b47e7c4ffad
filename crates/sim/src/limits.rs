//! Bounds that stop a simulation that does not end.

/// Steps of a world: packets, wakings and scheduled acts together. The longest worlds of the suite need a
/// few hundred thousand; two nodes that answer each other for ever get here in seconds.
pub const STEPS: u64 = 10_000_000;

/// Times a node may ask to be woken at one and the same instant before it counts as stuck.
pub const WAKINGS_AT_ONCE: u32 = 10_000;

/// Lines of the ladder that a failing world prints, the last ones.
pub const LINES_OF_A_FAILURE: usize = 60;

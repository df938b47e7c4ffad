//! The limits of call records on their way to files, with their reasons.

/// Records that wait for the disk: ten seconds of 1,000 calls that end a second. More: not written, and counted.
pub const QUEUE: usize = 10_000;

/// Records that are written at once: some hundred kilobytes.
pub const BATCH: usize = 1_000;

//! What the calls of one shard are sent from elsewhere, and what they want of their shard.

use super::Posted;

/// One letter for the calls of a shard.
#[derive(Debug)]
pub enum VoiceLetter {
    /// What became of something that a call needs.
    Done(Posted),
}

/// What calls want done besides SIP. Performed by the shard, in order, once the calls are through with their input.
#[derive(Debug)]
pub(crate) enum Wish {
    /// For the calls of a shard; never our own.
    Post { shard: u16, letter: VoiceLetter },
    /// Into the record; nobody waits for it.
    Write(store::Write),
}

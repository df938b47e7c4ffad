//! The numbers that bound what a load of users keeps to account for it, each with its reason.

/// Microseconds. A user acts at the first tick at or after its time, and what is measured counts from that time: this much
/// is ours at most, and below what the system's own waits are precise to.
pub(super) const TICK_MICROS: u64 = 500;

/// Pairs of sender and receiver whose presences are accounted for, over all shards: 4 bytes each, 40 MB in all.
/// When there are more, every n-th user accounts for all presences of its contacts, and the report gives the share.
/// Messages are always accounted for, with 12 bytes a pair.
pub(super) const PRESENCE_PAIRS: u64 = 10_000_000;

/// Contacts of a user whose presences are accounted for: the first ones, as many as a presence has room to name.
pub(super) const PRESENCE_PLACES: u32 = u64::BITS;

/// Refused messages of a shard, by pair, that are told from those that wait. Beyond them what is missing is lost.
pub(super) const REFUSED_PAIRS: usize = 100_000;

/// Users of a shard that send subscription requests at once: enough for any server's cores, and a slow server that
/// grants five a second still answers each within a usual `--timeout`.
pub(super) const ASKING: usize = 64;

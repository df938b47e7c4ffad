//! The parts that join shards, of one process and of a farm of nodes: buckets, which name the owner of an address, the
//! bounded inboxes between shards, and the addresses of shards. Nothing here knows the messages that it carries.

pub mod address;
pub mod bucket;
pub mod inbox;
pub mod shard_map;

pub use address::{Epoch, Life, ShardAddress};
pub use bucket::{BUCKETS, Bucket, CallSlot};
pub use inbox::{Full, Inbox, Outlet, inbox};
pub use shard_map::ShardMap;

//! The parts that join shards, of one process and of a farm of nodes: buckets, which name the owner of an address, the
//! bounded inboxes between shards, and the addresses of shards. Nothing here knows the messages that it carries.
//!
//! A farm's nodes agree through a *council*, a key-value store with compare-and-swap, watches and keys that expire
//! (`server` has it as NATS JetStream). It holds the members ([`membership`]), the lease of each ([`lease`]) and the map
//! ([`map`]). Each bucket that the map gives to a shard is a [`tenure`] there; the database is the fence between
//! owners.

#![warn(missing_docs)]

pub mod address;
pub mod bucket;
pub mod council_queue;
pub mod farm;
pub mod fields;
pub mod figures;
pub mod inbox;
pub mod lease;
pub mod life_draw;
pub mod limits;
pub mod link;
pub mod map;
pub mod member;
pub mod membership;
pub mod plan;
pub mod relay;
pub mod shard_map;
pub mod tenure;

pub use address::{Epoch, Life, ShardAddress};
pub use bucket::{BUCKETS, Bucket, CallSlot};
pub use inbox::{Full, Inbox, Outlet, inbox};
pub use shard_map::ShardMap;

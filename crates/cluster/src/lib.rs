//! The parts of one process that join its shards: buckets, which name the owner of an address, and the bounded inboxes
//! between shards. Nothing here knows the messages that it carries, and nothing reaches another process.

pub mod bucket;
pub mod inbox;

pub use bucket::{BUCKETS, Bucket};
pub use inbox::{Full, Inbox, Outlet, inbox};

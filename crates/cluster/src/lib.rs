//! Buckets, members and the bus. Nothing here knows what it carries.

pub mod bucket;
pub mod inbox;

pub use bucket::{BUCKETS, Bucket};
pub use inbox::{Full, Inbox, Outlet, inbox};

//! The node's part of chat that has sockets and files: the connections of a shard with clients, other servers and
//! components, and the files that users share by HTTP. The streams' protocol is the crate `xmpp`, the features are the crate `chat`; the shard moves events and
//! answers between them.

#![warn(missing_docs)]

pub mod components;
pub mod kinds;
pub mod limits;
pub mod mailbox;
pub mod servers;
pub mod streams;
pub mod uploads;

//! The node's part of chat that has sockets and files: the connections of a shard with clients, other servers and
//! components, the files that users share by HTTP, and the proxy of bytestreams. The streams' protocol is the crate `xmpp`, the features are the crate `chat`; the shard
//! moves events and answers between them.
//!
//! Each kind of connection is built alike. One local task of the shard moves the bytes of one connection and gives them to the state machine of
//! its stream (`xmpp::c2s`, `xmpp::s2s`, `xmpp::component`). The machine's requests become events in a [`mailbox`], which the shard takes in its
//! turn; its answers come back by the number of the connection and are written by the task. Nothing here crosses a thread but work on
//! files; bytestreams have a thread of their own.

#![warn(missing_docs)]

pub mod bytestreams;
pub mod components;
pub mod kinds;
pub mod limits;
pub mod mailbox;
pub mod servers;
pub mod sign_in_limiter;
pub mod streams;
pub mod uploads;

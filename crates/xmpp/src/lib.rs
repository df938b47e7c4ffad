//! XMPP's protocol: XML streams, addresses, stanzas, SASL, and the state of each kind of stream. Bytes and
//! time in, effects out; no clock, no socket, no thread. The crate `chat` handles the stanzas of accounts and
//! rooms.

#![warn(missing_docs)]

pub mod bosh;
pub mod c2s;
pub mod component;
pub mod domain;
mod edge;
pub mod internal;
pub mod jid;
pub mod limits;
pub mod ns;
#[cfg(test)]
mod requirements;
pub mod retraction;
pub mod s2s;
pub mod sasl;
mod specification;
pub mod stanza;
pub mod time;
pub mod xml;

pub use edge::{ConnectionId, Life, ShardAddress};
pub use jid::{Bare, Jid};
pub use specification::{Level, Specification};
pub use xml::Element;

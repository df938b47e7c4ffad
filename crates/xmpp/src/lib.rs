//! XMPP: XML streams, addresses, stanzas. Bytes and time in, effects out; no clock, no socket, no thread.

#![cfg_attr(
    test,
    expect(clippy::duplicate_mod, reason = "every play of the host runs with and without place for rosters")
)]

pub mod bosh;
pub mod c2s;
pub mod compliance;
pub mod component;
pub mod domain;
pub mod host;
pub mod jid;
pub mod limits;
pub mod ns;
pub mod pie;
#[cfg(test)]
mod requirements;
pub mod s2s;
pub mod sasl;
pub mod stanza;
pub mod time;
pub mod xml;

pub use jid::{Bare, Jid};
pub use xml::Element;

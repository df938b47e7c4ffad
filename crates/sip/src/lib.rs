//! SIP as bytes and time in, effects out. Never looks into a body it did not make.
//!
//! - [`wire`]: messages (RFC 3261 §7, §25), the crate `sip-wire`; [`transport`]: packets, sources and targets.
//! - [`transaction`]: the machines of §17; `proxy`: the response context of §16; [`session`]: dialogs of applications.
//! - [`digest`]: authentication; [`registrar`]: REGISTER; [`events`]: SUBSCRIBE, PUBLISH, MESSAGE.
//! - [`resolve`] and [`dns`]: next hops (RFC 3263); [`token`]: branches, tags and route tokens of ours.
//! - [`endpoint`]: one shard's SIP, composed of all these.

#![warn(missing_docs)]

pub mod digest;
pub mod dns;
pub mod endpoint;
pub mod events;
mod keys;
pub mod limits;
mod proxy;
pub mod registrar;
pub mod resolve;
pub mod session;
pub mod token;
pub mod transaction;
pub mod transport;

pub use sip_wire as wire;

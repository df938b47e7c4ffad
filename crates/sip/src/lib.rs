//! SIP as bytes and time in, effects out. Never looks into a body it did not make.

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
pub mod wire;

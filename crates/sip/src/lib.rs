//! SIP as bytes and time in, effects out. Never looks into a body it did not make.

pub mod dns;
pub mod events;
pub mod limits;
pub mod resolve;
pub mod transport;
pub mod wire;

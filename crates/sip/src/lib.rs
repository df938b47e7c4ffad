//! SIP as bytes and time in, effects out. Never looks into a body it did not make.

pub mod digest;
pub mod limits;
pub mod transport;
pub mod wire;

//! Messages as bytes.

pub mod framing;

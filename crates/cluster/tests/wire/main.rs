//! The wire between nodes: golden frames of version 1, and properties of handshake and links.

mod faults;
mod golden;
mod handshakes;
mod pair;
mod transfers;

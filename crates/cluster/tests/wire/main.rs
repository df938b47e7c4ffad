//! The wire between nodes: golden frames and values of each version, and properties of handshake and links.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod any_bytes;
mod faults;
mod golden;
mod handshakes;
mod near_frames;
mod pair;
mod transfers;

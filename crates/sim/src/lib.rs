//! For tests: virtual clock, seeded randomness, lossy networks, worlds, ladder diagrams.
//!
//! A test builds a `World` from a seed, adds nodes, says how bad the network between them is, and lets time
//! run. Nothing sleeps: 32 seconds of virtual time take as long as the work in them.

pub mod farm;
pub mod ladder;
pub mod limits;
pub mod mailbox;
pub mod memory;
pub mod network;
pub mod seeds;
mod settings;
pub mod world;

pub use mailbox::{Mailbox, ReceivedPacket};
pub use memory::{Bound, Counting};
pub use network::Link;
pub use seeds::for_seeds;
pub use settings::settings;
pub use world::{Datagram, Node, NodeId, World};

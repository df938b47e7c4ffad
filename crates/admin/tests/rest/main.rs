//! Every resource through the router, over a real record and a node of the tests' own.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod calls;
mod chat;
mod clients;
mod identities;
mod keys;
mod lists;
mod plane;
mod resources;
mod sign_in;
mod snapshots;
mod world;

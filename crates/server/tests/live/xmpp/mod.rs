//! Chat clients: how they connect and sign in, what they say to each other, and what ends their streams.

mod bounds;
mod chat;
pub(crate) mod client;
mod phones;
mod services;
mod sign_in;

//! Chat clients: how they connect and sign in, what they say to each other, and what ends their streams.

mod bounds;
mod chat;
mod client;
mod limits;
mod operate;
mod services;
mod sign_in;

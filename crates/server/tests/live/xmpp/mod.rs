//! Chat clients: how they connect and sign in, what they say to each other, and what ends their streams.

mod bounds;
mod chat;
mod client;
mod fast;
mod invitations;
mod limits;
mod operate;
mod registration;
mod servers;
mod services;
mod sign_in;

//! Chat clients: how they connect and sign in, what they say to each other, and what ends their streams.

mod bosh;
mod bounds;
mod chat;
mod client;
mod discovery;
mod fast;
mod http;
mod invitations;
mod limits;
mod operate;
mod registration;
mod services;
mod sign_in;
mod uploads;

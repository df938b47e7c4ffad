//! Chat clients and components: how they connect and sign in, what they say to each other, and what ends their streams.

mod app;
mod bosh;
mod bounds;
mod bytestreams;
mod calls;
mod chat;
pub(crate) mod client;
mod components;
mod discovery;
mod external;
mod fast;
mod http;
mod import;
mod invitations;
mod limits;
mod moved;
mod operate;
mod phones;
mod posh;
mod proxies;
mod registration;
mod servers;
mod services;
mod sign_in;
mod slow;
mod uploads;
mod webhooks;

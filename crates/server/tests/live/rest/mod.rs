//! The REST interface of the running binary: bindings that are called at once, live calls that are changed, accounts.

mod accounts;
mod calls;
mod client;
mod messages;
mod outbound;
mod recordings;
mod rooms;
mod site;

pub(crate) use calls::VOICE;

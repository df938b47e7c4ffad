//! Users of an XMPP server, as a load: who they are, whom they know, what they do, and what became of it.
//!
//! [`User`] is one of them, a machine that is given bytes and time and writes bytes; [`Crowd`] is all of a shard with
//! their timers. `engine::chat` has the sockets. Nothing here knows a socket or a clock.

mod act;
mod bosh;
mod crowd;
mod elsewhere;
mod failure;
mod friends;
mod lead;
mod limits;
mod lines;
mod login;
mod mix;
mod model;
mod monitor;
mod note;
mod parting;
mod people;
mod prepare;
mod publish;
mod raw;
mod register;
mod roll;
mod sign_in;
mod stage;
mod talk;
#[cfg(test)]
mod tests;
mod user;
mod waiting;

pub use bosh::{CONNECTIONS, Said, Session};
pub use crowd::{Crowd, Outbox, Turn, Wanted};
pub use elsewhere::Elsewhere;
pub use failure::{Cause, MaxFailures, RETRY_MOST, Retry};
pub use mix::{ACTIONS, Action, Mix};
pub use model::{Chat, Mechanism, Redirect, Security, TIMERS, Think, Timed, Web};
pub use monitor::Monitors;
pub use people::People;
pub use prepare::Format;
pub use raw::Stanza;
pub use roll::Roll;
pub use stage::{Shared, Stage, Words};

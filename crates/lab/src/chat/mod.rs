//! Users of an XMPP server, as a load: who they are, whom they know, what they do, and what became of it.
//!
//! [`User`] is one of them, a machine that is given bytes and time and writes bytes; [`Crowd`] is all of a shard with
//! their timers. `engine::chat` has the sockets. Nothing here knows a socket or a clock.

mod act;
mod crowd;
mod limits;
mod lines;
mod login;
mod mix;
mod model;
mod note;
mod people;
mod stage;
mod talk;
#[cfg(test)]
mod tests;
mod user;
mod waiting;

pub use crowd::{Crowd, Outbox, Turn, Wanted};
pub use login::Cause;
pub use mix::{ACTIONS, Action, Mix};
pub use model::{Chat, Mechanism, Security, TIMERS, Think, Timed};
pub use people::People;
pub use stage::{Shared, Stage};

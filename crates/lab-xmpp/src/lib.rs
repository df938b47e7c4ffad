//! Users of an XMPP server, as a load: who they are, whom they know, what they do, and what became of it.
//!
//! [`User`] is one of them, a machine that is given bytes and time and writes bytes; [`UserPool`] is all of a shard with
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

pub use bosh::{BoshEvent, BoshSession, CONNECTIONS};
pub use crowd::{ConnectionCommand, Outbox, PoolContext, UserPool};
pub use elsewhere::RedirectTarget;
pub use failure::{FailureCause, MaxFailures, RETRY_MOST, Retry};
pub use mix::{ACTIONS, ActionMix, UserAction};
pub use model::{
    HttpTransport, RedirectPolicy, SaslMechanism, StreamSecurity, TIMERS, ThinkTime, TimerName, XmppLoad,
};
pub use monitor::MonitorOptions;
pub use people::UserDirectory;
pub use prepare::ImportFormat;
pub use raw::StanzaTemplate;
pub use roll::AccountFile;
pub use stage::{LoadStage, LoadState, SharedWords};

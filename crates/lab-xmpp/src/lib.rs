//! Users of an XMPP server, as a load: their accounts, their contacts, their actions, and the accounting of their messages.
//!
//! `User` is one user, a machine that is given bytes and time and writes bytes; [`UserPool`] has all users of a
//! shard with their timers. `lab::engine::xmpp_load` has the sockets. No module here reads a clock or opens a
//! socket.
//!
//! [`UserPool`] takes all inputs of a shard and lets its `UserSessions` react; `UserActions` is one user while it acts; `MessageLedger` has skipped and refused
//! messages, `UserTimers` the wheel, `StageLeader` (of the first shard) the decision on the next stage. [`LoadState`] is the state of
//! all shards; with worker processes it lies in memory that they share (`docs/decisions/0015`).

#![warn(missing_docs)]

mod account_file;
mod account_import;
mod actions;
mod bosh;
mod failure;
mod friend_requests;
mod limits;
mod load_state;
mod login;
mod message_ledger;
mod message_mark;
mod mix;
mod model;
mod monitor;
mod publish;
mod receive;
mod redirect;
mod register;
mod sign_in;
mod sign_out;
mod stage_changes;
mod stanza_template;
mod stanzas;
#[cfg(test)]
mod tests;
mod user;
mod user_directory;
mod user_pool;
mod user_sessions;
mod user_timers;
mod waiting_messages;

pub use account_file::AccountFile;
pub use account_import::ImportFormat;
pub use bosh::{BoshSession, CONNECTIONS, ReceivedPayload};
pub use failure::{FailureCause, MaxFailures, RETRY_MOST, Retry};
pub use load_state::{LoadStage, LoadState, SharedWords};
pub use mix::{ACTIONS, ActionMix, UserAction};
pub use model::{
    HttpTransport, RedirectPolicy, SaslMechanism, StreamSecurity, TIMERS, ThinkTime, TimerName, XmppLoad,
};
pub use monitor::MonitorOptions;
pub use redirect::RedirectTarget;
pub use stanza_template::StanzaTemplate;
pub use user_directory::UserDirectory;
pub use user_pool::{ConnectionCommand, Outbox, PoolContext, UserPool};

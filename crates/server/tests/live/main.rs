//! The running server, from outside: real sockets on loopback, phones that speak SIP, a record on disk.
//! Nothing sleeps: everything waits for what must come, with a deadline.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod abuse;
mod call;
mod crowd;
mod database;
mod digest;
mod faults;
mod kill;
mod link;
mod load;
mod open_files;
mod operator;
mod phone;
mod place;
mod presence;
mod registrar;
mod rest;
mod sign_ins;
mod slow;
mod transports;
mod trunks;
mod voice;
mod xmpp;

use std::time::Duration;

pub(crate) use wait::{Deadline, within};

/// For anything that must happen; a busy machine is slow, a broken server silent.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The first answer of `ask`; panics when none comes in [`PATIENCE`].
#[track_caller]
pub(crate) fn until<T>(what: &str, ask: impl FnMut() -> Option<T>) -> T {
    wait::until(what, PATIENCE, ask, String::new)
}

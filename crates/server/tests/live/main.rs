//! The running server, from outside: real sockets on loopback, phones that speak SIP, a record on disk.
//! Nothing sleeps: everything waits for what must come, with a deadline.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod abuse;
mod call;
mod crowd;
mod digest;
mod faults;
mod kill;
mod link;
mod load;
mod operator;
mod phone;
mod place;
mod presence;
mod registrar;
mod rest;
mod sign_ins;
mod slow;
mod transports;
mod voice;
mod xmpp;

use std::time::Duration;

use server::clock::Clock;
use stdx::Instant;

/// For anything that must happen; a busy machine is slow, a broken server silent.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// When to stop waiting.
#[derive(Clone, Copy)]
pub(crate) struct Deadline {
    clock: Clock,
    at: Instant,
}

impl Deadline {
    pub(crate) fn after(patience: Duration) -> Self {
        let clock = Clock::new();
        Deadline { clock, at: clock.now() + patience }
    }

    pub(crate) fn left(&self) -> Option<Duration> {
        let left = self.at.since(self.clock.now());
        (!left.is_zero()).then_some(left)
    }
}

/// Asks until it is so. `ask` itself must take its time (a receive with a timeout, a lock).
#[track_caller]
pub(crate) fn until<T>(what: &str, ask: impl FnMut() -> Option<T>) -> T {
    let Some(answer) = within(PATIENCE, ask) else { panic!("waited in vain until {what}") };
    answer
}

/// The first answer, if one comes in time.
pub(crate) fn within<T>(time: Duration, mut ask: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Deadline::after(time);
    while deadline.left().is_some() {
        if let Some(answer) = ask() {
            return Some(answer);
        }
        std::thread::park_timeout(Duration::from_millis(2));
    }
    None
}

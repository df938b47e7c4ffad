//! The requests that the operating system's signals make of the node.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// A request by signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// SIGHUP: read configuration, routes and certificates again.
    Reload,
    /// SIGTERM or SIGINT: take nothing new, end when the last transaction has.
    Drain,
    /// The second of them: end now.
    Stop,
}

/// Caught from here on; two at once count as one, as signals do.
#[derive(Debug)]
pub struct Signals {
    hangup: Signal,
    terminate: Signal,
    interrupt: Signal,
    /// SIGTERM or SIGINT has come once.
    draining: bool,
}

impl Signals {
    /// Starts to catch the signals.
    pub fn new() -> io::Result<Self> {
        Ok(Signals {
            hangup: signal(SignalKind::hangup())?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            draining: false,
        })
    }

    /// Waits for the next signal.
    pub async fn next(&mut self) -> Order {
        tokio::select! {
            _ = self.hangup.recv() => Order::Reload,
            _ = self.terminate.recv() => self.leave(),
            _ = self.interrupt.recv() => self.leave(),
        }
    }

    fn leave(&mut self) -> Order {
        if std::mem::replace(&mut self.draining, true) { Order::Stop } else { Order::Drain }
    }
}

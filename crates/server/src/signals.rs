//! The requests that the operating system's signals make of the node.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

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

/// While this lives, SIGTERM and SIGINT end the process at once: for a start that waits for other machines on the thread that would handle the
/// signals, while nothing is served that could be lost.
#[derive(Debug)]
pub struct ExitOnSignal {
    /// Its drop ends the thread that waits for the signals.
    _over: oneshot::Sender<()>,
}

impl ExitOnSignal {
    /// `state`: what the node waits for, in its last words.
    ///
    /// # Errors
    /// The system has no thread, or no handler of signals.
    pub fn start(state: &'static str) -> io::Result<ExitOnSignal> {
        let (over, is_over) = oneshot::channel::<()>();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let mut signals = {
            let _runtime = runtime.enter();
            Signals::new()?
        };
        let wait = async move {
            // A configuration that is read again has no node to go to yet.
            while signals.next().await == Order::Reload {}
            tracing::info!("stopped while the node waited for {state}");
            std::process::exit(0);
        };
        std::thread::Builder::new().name("signals".into()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = wait => {}
                    _ = is_over => {}
                }
            });
        })?;
        Ok(ExitOnSignal { _over: over })
    }
}

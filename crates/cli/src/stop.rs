//! Ctrl-C during an import or a copy: it ends after what is whole.
//!
//! A thread with a small runtime waits for the signals, so that code that reads and writes without a runtime
//! only looks at a flag.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::CliError;

/// The first Ctrl-C ends the command after what is being written, the second one the process. A write that failed stops the
/// reading of the input, too.
#[derive(Clone)]
pub(super) struct Stop {
    /// Set for any reason; what reads and writes looks at it.
    stop: Arc<AtomicBool>,
    /// Set by Ctrl-C only, so that the command can say why it ended.
    interrupted: Arc<AtomicBool>,
}

impl Stop {
    /// `stop` is that of the import's or the copy's options.
    pub(super) fn on_interrupt(stop: Arc<AtomicBool>) -> Result<Stop, CliError> {
        let cannot = |error: io::Error| CliError::Other(format!("cannot catch Ctrl-C: {error}"));
        let stop = Stop { stop, interrupted: Arc::default() };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(cannot)?;
        // Registered before the thread starts: from here on Ctrl-C does not end the process by itself.
        let mut interrupts = {
            let _inside = runtime.enter();
            tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt()).map_err(cannot)?
        };
        let flags = stop.clone();
        let wait = move || {
            runtime.block_on(async {
                interrupts.recv().await;
                flags.interrupted.store(true, Ordering::Relaxed);
                flags.stop.store(true, Ordering::Relaxed);
                eprintln!("\nstopping after this batch; Ctrl-C again stops at once");
                interrupts.recv().await;
                // 128 and the number of SIGINT, as shells have it.
                std::process::exit(130);
            });
        };
        std::thread::Builder::new().name("interrupts".into()).spawn(wait).map_err(cannot)?;
        Ok(stop)
    }

    pub(super) fn is_set(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    pub(super) fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// The input of an import, which ends with an error once [`Stop`] is set.
    pub(super) fn guard<'a>(&self, input: impl Read + Send + 'a) -> Box<dyn Read + Send + 'a> {
        Box::new(Stoppable { input, stop: self.clone() })
    }
}

/// Ends the input with an error once it is told to: an end of file would cut the last line.
struct Stoppable<R> {
    input: R,
    stop: Stop,
}

impl<R: Read> Read for Stoppable<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.stop.is_set() {
            return Err(io::Error::other("interrupted"));
        }
        self.input.read(buffer)
    }
}

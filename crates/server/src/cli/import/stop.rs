//! Ctrl-C during an import: it ends after what is whole.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::cli::error::CliError;

/// Set by the first Ctrl-C; the second ends the process as it would have.
#[derive(Clone)]
pub(super) struct Stop(Arc<AtomicBool>);

impl Stop {
    pub(super) fn on_interrupt() -> Result<Stop, CliError> {
        let cannot = |error: io::Error| CliError::Other(format!("cannot catch Ctrl-C: {error}"));
        let stop = Stop(Arc::new(AtomicBool::new(false)));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(cannot)?;
        let mut interrupts = {
            let _inside = runtime.enter();
            tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt()).map_err(cannot)?
        };
        let flag = stop.0.clone();
        let wait = move || {
            runtime.block_on(async {
                interrupts.recv().await;
                flag.store(true, Ordering::Relaxed);
                eprintln!("\nstopping after this batch; Ctrl-C again stops at once");
                interrupts.recv().await;
                std::process::exit(130);
            });
        };
        std::thread::Builder::new().name("interrupts".into()).spawn(wait).map_err(cannot)?;
        Ok(stop)
    }

    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

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

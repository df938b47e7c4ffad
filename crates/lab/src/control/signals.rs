//! Signals: USR1 as `q`, USR2 as `s`; INT and TERM end the run where it stands. The only unsafe code is the installing.
#![expect(unsafe_code, reason = "a handler is installed by the C library alone; it only adds to an atomic")]

use std::sync::atomic::{AtomicU32, Ordering};

use super::{OperatorCommand, obey};
use crate::engine::Run;
use crate::screen::RunHandle;
use crate::session::RunController;

/// How often each arrived and was not yet acted on.
/// SIGUSR1.
static QUIT: AtomicU32 = AtomicU32::new(0);
/// SIGUSR2.
static DUMP: AtomicU32 = AtomicU32::new(0);
/// SIGINT and SIGTERM.
static TERMINATE: AtomicU32 = AtomicU32::new(0);

/// Counts only: nothing else is safe inside a handler.
extern "C" fn count(signal: libc::c_int) {
    let counter = match signal {
        libc::SIGUSR1 => &QUIT,
        libc::SIGUSR2 => &DUMP,
        _ => &TERMINATE,
    };
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Turns counted signals into commands.
pub struct Signals {
    remote: RunHandle,
}

/// Listens, and gives what acts on the signals that arrived.
pub fn install(remote: RunHandle) -> std::io::Result<Signals> {
    listen()?;
    Ok(Signals { remote })
}

/// From here on the signals are counted and wait for [`Signals`]; before, each of them ends the program. SIGPIPE is
/// ignored by Rust's runtime already.
pub fn listen() -> std::io::Result<()> {
    for signal in [libc::SIGUSR1, libc::SIGUSR2, libc::SIGINT, libc::SIGTERM] {
        // SAFETY: a zeroed sigaction is a valid one; the handler only touches atomics, which is async-signal-safe.
        let failed = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            let handler: extern "C" fn(libc::c_int) = count;
            action.sa_sigaction = handler as libc::sighandler_t;
            // System calls go on after a signal; the counters are looked at a few times a second.
            action.sa_flags = libc::SA_RESTART;
            libc::sigemptyset(&raw mut action.sa_mask);
            libc::sigaction(signal, &raw const action, std::ptr::null_mut()) != 0
        };
        if failed {
            return Err(std::io::Error::last_os_error());
        }
    }
    Ok(())
}

impl RunController for Signals {
    fn poll(&mut self, run: &Run) {
        for _ in 0..QUIT.swap(0, Ordering::Relaxed).min(2) {
            obey(run, &self.remote, &OperatorCommand::Quit);
        }
        // A load of users wants two.
        for _ in 0..TERMINATE.swap(0, Ordering::Relaxed).min(2) {
            obey(run, &self.remote, &OperatorCommand::Terminate);
        }
        if DUMP.swap(0, Ordering::Relaxed) > 0 {
            obey(run, &self.remote, &OperatorCommand::DumpScreens);
        }
    }
}

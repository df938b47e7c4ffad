//! Signals: USR1 as `q`, USR2 as `s`, INT and TERM as `q` and then `Q`. The only unsafe code is the installing.
#![allow(unsafe_code, reason = "a handler is installed by the C library alone; it only adds to an atomic")]

use std::sync::atomic::{AtomicU32, Ordering};

use super::{Command, obey};
use crate::engine::Run;
use crate::screen::Remote;
use crate::session::Control;

/// How often each arrived and was not yet acted on.
static QUIT: AtomicU32 = AtomicU32::new(0);
static DUMP: AtomicU32 = AtomicU32::new(0);

/// Counts only: nothing else is safe inside a handler.
extern "C" fn count(signal: libc::c_int) {
    let counter = if signal == libc::SIGUSR2 { &DUMP } else { &QUIT };
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Turns counted signals into commands.
pub struct Signals {
    remote: Remote,
}

/// From here on the signals are ours. SIGPIPE is ignored by Rust's runtime already.
pub fn install(remote: Remote) -> std::io::Result<Signals> {
    for signal in [libc::SIGUSR1, libc::SIGUSR2, libc::SIGINT, libc::SIGTERM] {
        // SAFETY: a zeroed sigaction is a valid one; the handler only touches atomics, which is async-signal-safe.
        let failed = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            let handler: extern "C" fn(libc::c_int) = count;
            action.sa_sigaction = handler as libc::sighandler_t;
            action.sa_flags = libc::SA_RESTART;
            libc::sigemptyset(&raw mut action.sa_mask);
            libc::sigaction(signal, &raw const action, std::ptr::null_mut()) != 0
        };
        if failed {
            return Err(std::io::Error::last_os_error());
        }
    }
    Ok(Signals { remote })
}

impl Control for Signals {
    fn poll(&mut self, run: &Run) {
        for _ in 0..QUIT.swap(0, Ordering::Relaxed).min(2) {
            obey(run, &self.remote, &Command::Quit);
        }
        if DUMP.swap(0, Ordering::Relaxed) > 0 {
            obey(run, &self.remote, &Command::DumpScreens);
        }
    }
}

//! System calls without a safe wrapper: clocks that std does not read, and options of sockets.
#![expect(unsafe_code, reason = "std has no wrapper that reads these clocks or sets these options")]

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd as _};
use std::time::Duration;

/// Time the calling thread was on a processor.
pub(super) fn thread_cpu() -> Duration {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Since some moment that is the same for all processes of the machine.
pub(super) fn monotonic() -> Duration {
    read(libc::CLOCK_MONOTONIC)
}

fn read(clock: libc::clockid_t) -> Duration {
    let mut time = MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: time points at a timespec; zero, which is valid for it, stays there on failure.
    let time = unsafe {
        libc::clock_gettime(clock, time.as_mut_ptr());
        time.assume_init()
    };
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// A socket that is then bound to an address takes its port only when it connects (ip(7), IP_BIND_ADDRESS_NO_PORT), so
/// that a port serves once for each peer and not once for all.
pub(super) fn take_port_late(socket: &impl AsFd) -> io::Result<()> {
    let yes: libc::c_int = 1;
    // SAFETY: the option is an int, and it lives during the call.
    let failed = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_IP,
            libc::IP_BIND_ADDRESS_NO_PORT,
            (&raw const yes).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        ) != 0
    };
    if failed { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// From here on memory comes in pages of 4 KB, in processes that this one starts too. The allocator asks for pages of
/// 2 MB, and what many small things leave free in them counts as used: three of four bytes, with 8,000 users.
pub(super) fn use_small_pages() {
    // SAFETY: it only sets an attribute of this process. A kernel that knows no other pages refuses.
    unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0) };
}

/// This process is killed when the one that started it ends, however it ends.
pub(super) fn die_with(parent: u32) -> io::Result<()> {
    // SAFETY: it only sets an attribute of this process.
    if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // It may have ended just before.
    if std::os::unix::process::parent_id() == parent { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
}

/// Signals from keys and operators go to all processes of a run; only the leading process handles them.
pub(super) fn leave_signals_to_parent() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGUSR1, libc::SIGUSR2] {
        // SAFETY: to ignore a signal runs no code of ours.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_takes_processor_time() {
        let before = thread_cpu();
        let mut sum = 0u64;
        while thread_cpu() == before {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(thread_cpu() > before);
    }
}

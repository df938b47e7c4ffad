//! What the kernel knows of this process and has no safe wrapper: processor time of a thread, limits.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;
use std::time::Duration;

/// Time the calling thread was on a processor.
pub(super) fn thread_cpu() -> Duration {
    let mut time = MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: time points at a timespec; zero, which is valid for it, stays there on failure.
    let time = unsafe {
        libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, time.as_mut_ptr());
        time.assume_init()
    };
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// How many files this process may have open: now, and at most without being root.
pub(super) fn open_files() -> (u64, u64) {
    let mut limit = MaybeUninit::<libc::rlimit>::zeroed();
    // SAFETY: limit points at an rlimit; zero, which is valid for it, stays there on failure.
    let limit = unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, limit.as_mut_ptr());
        limit.assume_init()
    };
    (limit.rlim_cur, limit.rlim_max)
}

/// Raises the limit on open files to `wanted`, as far as it goes; what it is then.
pub(super) fn raise_open_files(wanted: u64) -> u64 {
    let (now, most) = open_files();
    if now < wanted {
        let limit = libc::rlimit { rlim_cur: wanted.min(most), rlim_max: most };
        // SAFETY: limit is an rlimit that lives during the call.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
    }
    open_files().0
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

    #[test]
    fn limits_are_read() {
        let (now, most) = open_files();
        assert!(now > 0 && most >= now);
        assert!(raise_open_files(0) >= now);
    }
}

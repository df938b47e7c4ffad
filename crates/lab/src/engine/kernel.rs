//! What the kernel knows of this process and has no safe wrapper: processor time of a thread.
#![allow(unsafe_code, reason = "std has no wrapper that asks for a thread's processor time")]

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

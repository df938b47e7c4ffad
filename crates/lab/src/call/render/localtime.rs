//! The time zone, asked of the C library: the only other way would be to read the zone files ourselves.
#![allow(unsafe_code)]

/// Seconds that local time is ahead of UTC at a time in seconds since the epoch; 0 if the library does not know.
pub(super) fn offset_at(seconds: u64) -> i64 {
    let Ok(time) = libc::time_t::try_from(seconds) else { return 0 };
    let mut broken_down = std::mem::MaybeUninit::<libc::tm>::zeroed();
    // SAFETY: both pointers are to live values of ours, and `tm` is plain data for which zeroes are a value.
    unsafe {
        if libc::localtime_r(&raw const time, broken_down.as_mut_ptr()).is_null() {
            return 0;
        }
        broken_down.assume_init().tm_gmtoff
    }
}

//! The C library's calendar: which local date and time a second is.
#![expect(
    unsafe_code,
    reason = "localtime_r(3) has no wrapper in std, and the zone files are the C library's to read"
)]

/// A local date and time; `offset` is seconds east of UTC.
pub struct LocalDateTime {
    /// The year, Gregorian.
    pub year: i32,
    /// 1 to 12.
    pub month: i32,
    /// 1 to 31.
    pub day: i32,
    /// 0 to 23.
    pub hour: i32,
    /// 0 to 59.
    pub minute: i32,
    /// 0 to 60, a leap second included.
    pub second: i32,
    /// Seconds east of UTC.
    pub offset: i64,
}

/// The local date and time of a second since the Unix epoch.
pub fn local(unix_seconds: u64) -> LocalDateTime {
    let seconds = libc::time_t::try_from(unix_seconds).unwrap_or(libc::time_t::MAX);
    // SAFETY: a zeroed tm is a valid one; both pointers are to live locals. It stays zero on an error.
    let tm = unsafe {
        let mut tm: libc::tm = std::mem::zeroed();
        libc::localtime_r(&raw const seconds, &raw mut tm);
        tm
    };
    LocalDateTime {
        year: tm.tm_year + 1900,
        month: tm.tm_mon + 1,
        day: tm.tm_mday,
        hour: tm.tm_hour,
        minute: tm.tm_min,
        second: tm.tm_sec,
        offset: tm.tm_gmtoff,
    }
}

//! Leaves the terminal's session: only the wrapper of setsid(2), which the standard library has not.
#![expect(unsafe_code, reason = "setsid(2) has no wrapper in std")]

/// A new session without a terminal; `false` when the process leads a group and so cannot.
pub(super) fn leave_session() -> bool {
    // SAFETY: setsid takes no argument and touches no memory of ours.
    unsafe { libc::setsid() != -1 }
}

//! The limit on open files: raised as far as it goes, and what it allows.
//!
//! Called before a run binds its sockets: `engine::bind` for calls with a socket each, and the workers of a load of users.
#![expect(unsafe_code, reason = "getrlimit(2) and setrlimit(2) have no wrapper in std")]

use std::mem::MaybeUninit;

/// How many files this process may have open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenFileLimit {
    /// In force now.
    pub soft: u64,
    /// The limit to which `soft` may be raised without being root.
    pub hard: u64,
}

/// The limit in force.
pub fn limit() -> OpenFileLimit {
    let mut limit = MaybeUninit::<libc::rlimit>::zeroed();
    // SAFETY: the pointer is to an rlimit's worth of memory; zeroes, which are valid for it, stay there on failure.
    let limit = unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, limit.as_mut_ptr());
        limit.assume_init()
    };
    OpenFileLimit { soft: limit.rlim_cur, hard: limit.rlim_max }
}

/// Raises the soft limit to the hard one; the limit then in force. With `skip` (`-skip_rlimit`) it stays as it is.
pub fn raise(skip: bool) -> OpenFileLimit {
    let before = limit();
    if !skip && before.soft < before.hard {
        let raised = libc::rlimit { rlim_cur: before.hard, rlim_max: before.hard };
        // SAFETY: the pointer is to an rlimit that lives during the call. A refusal leaves the limit as it was.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised) };
    }
    limit()
}

impl OpenFileLimit {
    /// Calls that may be open at once when each has its own sockets and `reserve` files are open besides.
    pub fn calls_allowed(self, sockets_per_call: u64, reserve: u64) -> u64 {
        self.soft.saturating_sub(reserve).checked_div(sockets_per_call).unwrap_or(u64::MAX)
    }

    /// Says which limit stands in the way of `calls` at once, its value and what to set; `None` when none does.
    pub fn objection(self, calls: u64, sockets_per_call: u64, reserve: u64) -> Option<String> {
        let allowed = self.calls_allowed(sockets_per_call, reserve);
        if calls <= allowed {
            return None;
        }
        let wanted = calls.saturating_mul(sockets_per_call).saturating_add(reserve);
        let OpenFileLimit { soft, hard } = self;
        let sockets = if sockets_per_call == 1 { "a socket" } else { "sockets" };
        let how = if wanted <= hard {
            format!("raise it with ulimit -n {wanted}")
        } else {
            format!("as root raise it with ulimit -Hn {wanted} and ulimit -n {wanted}")
        };
        Some(format!(
            "the limit on open files (RLIMIT_NOFILE) is {soft}, at most {hard}: with {sockets} of their own that \
             allows {allowed} calls at once, not {calls}; {how}, or lower -l to {allowed}"
        ))
    }
}

/// As [`OpenFileLimit::calls_allowed`], of the limit in force.
pub fn calls_allowed(sockets_per_call: u64, reserve: u64) -> u64 {
    limit().calls_allowed(sockets_per_call, reserve)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_raised_to_the_highest() {
        let before = limit();
        assert!(before.soft > 0 && before.soft <= before.hard);
        assert_eq!(raise(true).hard, before.hard);
        let after = raise(false);
        assert_eq!(after, OpenFileLimit { soft: before.hard, hard: before.hard });
        assert_eq!(calls_allowed(1, 0), after.soft);
    }

    #[test]
    fn calls_share_the_remaining_file_descriptors() {
        let limit = OpenFileLimit { soft: 1024, hard: 4096 };
        assert_eq!(limit.calls_allowed(1, 24), 1000);
        assert_eq!(limit.calls_allowed(3, 24), 333);
        assert_eq!(limit.calls_allowed(1, 2000), 0);
        assert_eq!(limit.calls_allowed(0, 24), u64::MAX);
    }

    #[test]
    fn the_objection_names_the_limit_its_value_and_the_cure() {
        let limit = OpenFileLimit { soft: 1024, hard: 4096 };
        assert_eq!(limit.objection(1000, 1, 24), None);
        assert_eq!(limit.objection(u64::MAX, 0, 24), None);
        let text = limit.objection(1001, 1, 24).unwrap();
        for part in ["RLIMIT_NOFILE", "is 1024", "allows 1000 calls", "not 1001", "ulimit -n 1025"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let text = limit.objection(2000, 3, 24).unwrap();
        assert!(text.contains("as root") && text.contains("ulimit -Hn 6024"), "{text}");
    }
}

//! For tests with real sockets, threads or programs: waits for a condition until a deadline. The only place where a
//! test pauses; `cargo xtask tidy` finds every other sleep, park or yield in tests.

#![warn(missing_docs)]

use std::fs;
use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

/// The shortest and the longest pause between two looks at a condition: a quick one is noticed at once, and a slow one
/// does not take the processor from the program that it waits for.
const PAUSES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(20));

/// A point in time after which a wait has failed.
#[derive(Clone, Copy, Debug)]
pub struct Deadline(Instant);

impl Deadline {
    /// The deadline `limit` from now.
    pub fn after(limit: Duration) -> Deadline {
        Deadline(now() + limit)
    }

    /// The time until the deadline; `None` once it has passed.
    pub fn left(&self) -> Option<Duration> {
        let left = self.0.saturating_duration_since(now());
        (!left.is_zero()).then_some(left)
    }
}

/// The first `Some` of `ask`, which is called until `limit` has passed, and at least once.
pub fn within<T>(limit: Duration, mut ask: impl FnMut() -> Option<T>) -> Option<T> {
    let began = now();
    loop {
        let asked = now();
        if let Some(answer) = ask() {
            return Some(answer);
        }
        let waited = began.elapsed();
        if waited >= limit {
            return None;
        }
        let pause = (waited / 10).clamp(PAUSES.0, PAUSES.1);
        // A condition that is costly to look at takes half of one core at most.
        std::thread::park_timeout(pause.max(asked.elapsed()).min(limit - waited));
    }
}

/// The first `Some` of `ask`.
///
/// # Panics
/// With `what` and `explain()`, when `limit` passes without one.
#[track_caller]
pub fn until<T>(
    what: &str,
    limit: Duration,
    ask: impl FnMut() -> Option<T>,
    explain: impl FnOnce() -> String,
) -> T {
    let Some(answer) = within(limit, ask) else { panic!("waited {limit:?} for: {what}\n{}", explain()) };
    answer
}

/// The value of `read` once it has stayed the same for `quiet`.
///
/// # Panics
/// With `what`, when the value still changes after `limit`.
#[track_caller]
pub fn settled<T: PartialEq>(what: &str, quiet: Duration, limit: Duration, mut read: impl FnMut() -> T) -> T {
    let mut last = None;
    let mut since = now();
    let ask = || {
        let value = read();
        if last.as_ref() != Some(&value) {
            (last, since) = (Some(value), now());
        }
        (since.elapsed() >= quiet).then_some(())
    };
    until(what, limit, ask, String::new);
    last.expect("the value was read")
}

/// Waits until no thread of a process runs that has got the signal STOP: on a busy machine some run on for a while. A process that has ended
/// does not run.
///
/// # Panics
/// Some run after a minute.
#[track_caller]
pub fn until_stopped(process: &str) {
    let stands = || {
        let Ok(tasks) = fs::read_dir(format!("/proc/{process}/task")) else { return Some(()) };
        let stands = |task: fs::DirEntry| {
            let stat = fs::read_to_string(task.path().join("stat")).unwrap_or_default();
            // The state stands behind the name, which may have blanks and brackets in it (proc_pid_stat(5)).
            let state = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
            state.is_empty() || state.starts_with(['T', 't', 'Z', 'X'])
        };
        tasks.flatten().all(stands).then_some(())
    };
    until("a process to stand still", Duration::from_secs(60), stands, || process.to_owned());
}

/// A call of the kernel, made again when a signal has interrupted it: sockets with a timeout are not begun again by the kernel itself
/// (signal(7)), and the programs that a test has started send it signals when they end.
///
/// # Errors
/// Those of the call, but for [`ErrorKind::Interrupted`].
pub fn uninterrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "sockets, threads and programs run by the wall clock")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_answer_ends_the_wait() {
        let mut asked = 0;
        let answer = within(Duration::from_secs(60), || {
            asked += 1;
            (asked == 3).then_some("ready")
        });
        assert_eq!((answer, asked), (Some("ready"), 3));
    }

    #[test]
    fn a_condition_is_looked_at_once_even_without_time() {
        assert_eq!(within(Duration::ZERO, || Some(1)), Some(1));
        assert_eq!(within(Duration::ZERO, || None::<()>), None);
        assert!(Deadline::after(Duration::ZERO).left().is_none());
    }

    #[test]
    fn a_value_has_settled_when_it_stays_the_same() {
        let mut reads = 0;
        let settled = settled("a counter", Duration::from_millis(5), Duration::from_secs(60), || {
            reads += 1;
            reads.min(4)
        });
        assert_eq!(settled, 4);
    }

    #[test]
    fn only_an_interrupted_call_is_made_again() {
        let mut results =
            vec![Ok(3), Err(ErrorKind::WouldBlock), Err(ErrorKind::Interrupted), Err(ErrorKind::Interrupted)];
        let mut call = || results.pop().expect("a result").map_err(io::Error::from);
        assert_eq!(uninterrupted(&mut call).expect_err("the third").kind(), ErrorKind::WouldBlock);
        assert_eq!(uninterrupted(&mut call).expect("the fourth"), 3);
    }

    #[test]
    #[should_panic(expected = "for: an answer\nthe log")]
    fn a_wait_in_vain_names_the_expected_event() {
        until("an answer", Duration::ZERO, || None::<()>, || "the log".to_owned());
    }
}

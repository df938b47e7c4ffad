//! The time that the tasks of a shard wait from ready to run.
//!
//! Tasks run in the order in which they became ready, and the shard's loop runs between a few dozen of them: with many connections its turns stay
//! short while each connection waits. A task without any work, made ready from time to time, waits as long as they do.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use stdx::Instant;
use tokio::sync::Notify;

use super::shared::C2sConnections;
use crate::sign_in_limiter::DelayedWork;

/// The shortest time between two measurements.
const EVERY: Duration = Duration::from_millis(10);

/// The state of the task without work.
#[derive(Default)]
pub(super) struct TaskProbe {
    /// The time at which it became ready. `None`: it has run since.
    ready: Cell<Option<Instant>>,
    next: Cell<Instant>,
    notify: Notify,
}

impl TaskProbe {
    /// Makes the task ready, unless it is, or was of late.
    pub(super) fn begin(&self, now: Instant) {
        if self.ready.get().is_none() && now >= self.next.get() {
            self.ready.set(Some(now));
            self.next.set(now + EVERY);
            self.notify.notify_one();
        }
    }
}

/// Runs until it is aborted.
pub(super) async fn run(shared: Rc<C2sConnections>) {
    loop {
        shared.probe.notify.notified().await;
        if let Some(ready) = shared.probe.ready.take() {
            shared.handle_delay(DelayedWork::Task, shared.clock().since(ready));
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::task::LocalSet;
    use tokio::time::advance;

    use super::super::alone::WebConnections;
    use super::*;
    use crate::limits;

    /// True if sign-ins are limited when a task waits so long after each of the turns of a second.
    async fn limits_after(wait: Duration) -> bool {
        let folder = tempfile::tempdir().unwrap();
        let connections = WebConnections::new(folder.path()).unwrap();
        let shared = connections.shared();
        let turns = 1 + Duration::from_secs(1).as_millis() / wait.as_millis();
        for _ in 0..turns {
            shared.handle_turn(Duration::ZERO);
            // It sets the clock ahead, and then lets other tasks run.
            advance(wait).await;
        }
        shared.is_limiting()
    }

    #[tokio::test(start_paused = true)]
    async fn sign_ins_are_limited_when_tasks_wait_though_turns_are_short() {
        let limited = async { (limits_after(limits::XMPP_LATE_TURN).await, limits_after(EVERY).await) };
        assert_eq!(LocalSet::new().run_until(limited).await, (true, false));
    }
}

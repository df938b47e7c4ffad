//! Stored data that the node keeps in memory and reads again when it is due: after a notice of a change, or when a read has failed.
//!
//! One task for the plan and one for the numbers of the REST interface: whoever notices a change wakes the task, and a read that fails is
//! repeated until it succeeds, as the database may be away.

use std::fmt::Display;
use std::rc::Rc;
use std::time::Duration;

use anyhow::Result;
use tokio::sync::Notify;
use tokio::task::{spawn_blocking, spawn_local};
use tokio::time::sleep;

use super::operator::Operator;

/// The pause before the database is read again.
pub(super) const READ_AGAIN: Duration = Duration::from_secs(1);

/// Begins to read what is due.
pub(super) fn begin(operator: &Rc<Operator>) {
    // Without the REST interface there are no applications either.
    if let Some(rest) = operator.node.borrow().rest.clone() {
        spawn_local(async move {
            let read = async || {
                let rest = rest.clone();
                // It ends early only with the process.
                spawn_blocking(move || rest.refresh()).await.unwrap_or(Ok(()))
            };
            read_when_due(rest.due(), read).await;
        });
    }
    let operator = Rc::clone(operator);
    spawn_local(async move {
        loop {
            operator.plan_due.notified().await;
            operator.read_plan().await;
        }
    });
}

/// Domains and routes may have changed, or could not be read: they are read again soon.
pub(super) fn set_plan_due(operator: &Operator) {
    // An edge without a database asks other nodes from time to time.
    if !operator.follows_plan() {
        operator.plan_due.notify_one();
    }
}

/// Numbers may have changed: they are read again soon.
pub(super) fn set_numbers_due(operator: &Operator) {
    if let Some(rest) = &operator.node.borrow().rest {
        rest.due().notify_one();
    }
}

/// Makes the plan anew at once. If that fails, it is tried again soon.
///
/// # Errors
/// As `Node::replan`.
pub(super) fn replan(operator: &Operator) -> Result<()> {
    let replanned = operator.node.borrow_mut().replan();
    if replanned.is_err() {
        set_plan_due(operator);
    }
    replanned
}

/// Reads each time that it is due, again until it succeeds.
async fn read_when_due<E: Display>(due: &Notify, read: impl AsyncFn() -> Result<(), E>) {
    loop {
        due.notified().await;
        // Only the first failure is logged: the database may be away for long.
        let mut has_failed = false;
        while let Err(error) = read().await {
            if !has_failed {
                tracing::error!(%error, "cannot reload the numbers; the previous ones stay in use");
            }
            has_failed = true;
            sleep(READ_AGAIN).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_read_that_fails_is_repeated_until_it_succeeds_and_then_waits_for_the_next_change() {
        let (due, reads) = (Notify::new(), Cell::new(0_u64));
        let read = async || {
            reads.set(reads.get() + 1);
            // The database is away for a while.
            if reads.get() < 4 { Err("away") } else { Ok(()) }
        };
        due.notify_one();
        let until = READ_AGAIN * 100;
        assert!(timeout(until, read_when_due(&due, &read)).await.is_err(), "it goes on for ever");
        assert_eq!(reads.get(), 4, "three failures and the success");
        due.notify_one();
        assert!(timeout(until, read_when_due(&due, &read)).await.is_err());
        assert_eq!(reads.get(), 5);
    }
}

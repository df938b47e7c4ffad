//! One file of a user comes at a time: clients that send several at once wait, without their files being read.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::Refusal;
use crate::limits;

/// By user, those with a file that comes or waits.
#[derive(Clone, Debug, Default)]
pub(super) struct UploadQueue(Arc<Mutex<HashMap<Box<str>, UserUploads>>>);

/// The files of one user that come or wait.
#[derive(Debug)]
struct UserUploads {
    /// One permit: the turn.
    turn: Arc<Semaphore>,
    /// Those that wait, and the one whose turn it is.
    count: usize,
}

/// A place in the queue of a user.
#[derive(Debug)]
struct Waiting {
    turns: UploadQueue,
    user: Box<str>,
}

/// The file of a user that comes now.
#[derive(Debug)]
pub(crate) struct UploadPermit {
    // Given back before the place: the queue stays for those that wait.
    _permit: OwnedSemaphorePermit,
    _waiting: Waiting,
}

impl UploadQueue {
    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, UserUploads>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `Waiting`: too many wait already, or those before it take too long.
    pub(super) async fn take(&self, user: &str) -> Result<UploadPermit, Refusal> {
        let (waiting, turn) = self.enter(user)?;
        let permit = timeout(limits::UPLOAD_TURN, turn.acquire_owned()).await;
        let permit = permit.map_err(|_| Refusal::Waiting)?.map_err(|_| Refusal::Broken)?;
        Ok(UploadPermit { _permit: permit, _waiting: waiting })
    }

    fn enter(&self, user: &str) -> Result<(Waiting, Arc<Semaphore>), Refusal> {
        let mut queues = self.lock();
        let queue = queues
            .entry(user.into())
            .or_insert_with(|| UserUploads { turn: Arc::new(Semaphore::new(1)), count: 0 });
        if queue.count >= limits::UPLOADS_OF_USER {
            return Err(Refusal::Waiting);
        }
        queue.count += 1;
        Ok((Waiting { turns: self.clone(), user: user.into() }, Arc::clone(&queue.turn)))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut queues = self.turns.lock();
        if let Some(queue) = queues.get_mut(&self.user) {
            queue.count -= 1;
            if queue.count == 0 {
                queues.remove(&self.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn the_second_file_of_a_user_waits_for_the_first_and_another_users_does_not() {
        let turns = UploadQueue::default();
        let first = turns.take("alice@example.org").await.unwrap();
        let mut second = Box::pin(turns.take("alice@example.org"));
        assert!(timeout(Duration::ZERO, &mut second).await.is_err(), "it waits");
        let other = turns.take("bob@example.org").await.unwrap();
        drop(first);
        let second = second.await.unwrap();
        drop((second, other));
        assert!(turns.lock().is_empty());
    }

    #[tokio::test]
    async fn so_many_files_of_a_user_wait_and_no_more() {
        let turns = UploadQueue::default();
        let first = turns.take("alice@example.org").await.unwrap();
        let places: Vec<_> =
            (1..limits::UPLOADS_OF_USER).map(|_| turns.enter("alice@example.org").unwrap()).collect();
        assert_eq!(turns.take("alice@example.org").await.err(), Some(Refusal::Waiting));
        drop(places);
        drop(first);
        assert!(turns.lock().is_empty());
    }
}

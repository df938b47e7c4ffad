//! The database that the nodes of a farm share, as the agent uses it: claims of buckets, buckets given back, questions about the fence.
//!
//! Calls of the database wait for its server, so they are performed on a thread of their own, one after the other. Requests
//! that wait are merged: of a bucket the newest claim, of questions about the fence the newest. A claim that stands still in a server that is
//! away is therefore never performed after a later one, and no more requests wait than there are buckets.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;

use cluster::farm::Claim;
use cluster::{Bucket, Epoch, Life, ShardAddress};
use stdx::Instant;
use tokio::sync::mpsc;

/// Answers that wait for the agent; the thread of the database then waits, too.
const ANSWERS: usize = 16;

/// The failure of a call of the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DatabaseFault {
    /// The database refuses this life for good.
    Fenced,
    /// The database did not answer; the text says why. Whether the call had an effect is unknown.
    Lost(Box<str>),
}

/// The database's answer to a [`Claim`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimResult {
    /// The shard holds the bucket under this epoch.
    Taken {
        /// The bucket.
        bucket: Bucket,
        /// The epoch of the hold.
        epoch: Epoch,
    },
    /// A later epoch has begun, or the holder lives and has not given the bucket back.
    Refused {
        /// The bucket.
        bucket: Bucket,
        /// The life that holds the bucket.
        holder: Option<Life>,
        /// The bucket's epoch.
        epoch: Epoch,
    },
}

/// A bucket that a shard gives back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GivenBack {
    /// The bucket.
    pub bucket: Bucket,
    /// The shard that holds it.
    pub holder: ShardAddress,
    /// The epoch of the hold.
    pub epoch: Epoch,
}

/// One connection to the shared database, of one life. Its methods wait for the server on the calling thread.
pub trait BucketDatabase: Send {
    /// Asks whether the life may still write.
    ///
    /// # Errors
    /// `Fenced` if it may not.
    fn check(&mut self) -> Result<(), DatabaseFault>;

    /// Fences the dead lives as far as they hold one of the buckets, and takes the buckets. One answer for each claim.
    ///
    /// # Errors
    /// `Fenced` if this life is over; `Lost` if nothing is known of the claims.
    fn take(&mut self, claims: &[Claim], dead: &[Life]) -> Result<Vec<ClaimResult>, DatabaseFault>;

    /// Gives buckets back; those of another holder or a later epoch are passed over.
    ///
    /// # Errors
    /// `Lost` if nothing is known of the buckets.
    fn give(&mut self, given: &[GivenBack]) -> Result<(), DatabaseFault>;
}

/// Connects to the shared database for a life, and enters the life there. Called again after each [`DatabaseFault::Lost`].
pub type OpenDatabase = Box<dyn FnMut(Life) -> Result<Box<dyn BucketDatabase>, DatabaseFault> + Send>;

/// An answer of the database to the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DatabaseEvent {
    /// To a question of this time.
    Unfenced(Instant),
    /// To any request.
    Fenced,
    /// The connection has ended.
    Lost,
    /// To claims.
    Claimed(Vec<ClaimResult>),
    /// To buckets given back.
    Given(Vec<GivenBack>),
}

/// The requests that wait for the thread.
#[derive(Debug, Default)]
struct Requests {
    fence: Option<Instant>,
    given: BTreeMap<Bucket, GivenBack>,
    claims: BTreeMap<Bucket, Claim>,
    /// The dead lives that the farm has agreed on, as of the newest claim.
    dead: Vec<Life>,
    is_closed: bool,
}

impl Requests {
    fn is_empty(&self) -> bool {
        self.fence.is_none() && self.given.is_empty() && self.claims.is_empty() && !self.is_closed
    }
}

#[derive(Default)]
struct Shared {
    requests: Mutex<Requests>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Requests> {
        // Nothing that can panic runs under the lock.
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for requests and takes them all.
    fn next(&self) -> Requests {
        let requests = self.lock();
        let mut requests = self
            .changed
            .wait_while(requests, |requests| requests.is_empty())
            .unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *requests)
    }
}

/// The thread of the database, from the agent's side. The thread ends after it is dropped; a call that waits for the server is not
/// waited for.
pub(crate) struct DatabaseThread {
    shared: Arc<Shared>,
    answers: mpsc::Receiver<DatabaseEvent>,
}

impl fmt::Debug for DatabaseThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DatabaseThread").finish_non_exhaustive()
    }
}

impl DatabaseThread {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(crate) fn start(life: Life, open: OpenDatabase) -> std::io::Result<DatabaseThread> {
        let (sender, answers) = mpsc::channel(ANSWERS);
        let shared = Arc::new(Shared::default());
        let requests = Arc::clone(&shared);
        let worker = Worker { life, open, database: None, answers: sender, is_away: false };
        Builder::new().name("farm-database".to_owned()).spawn(move || worker.run(&requests))?;
        Ok(DatabaseThread { shared, answers })
    }

    /// The next answer; none when the thread has ended.
    pub(crate) async fn answer(&mut self) -> Option<DatabaseEvent> {
        self.answers.recv().await
    }

    pub(crate) fn ask_fence(&self, sent_at: Instant) {
        self.request(|requests| requests.fence = requests.fence.max(Some(sent_at)));
    }

    pub(crate) fn take(&self, claims: Vec<Claim>, dead: Vec<Life>) {
        self.request(|requests| {
            requests.claims.extend(claims.into_iter().map(|claim| (claim.bucket, claim)));
            requests.dead = dead;
        });
    }

    pub(crate) fn give(&self, given: GivenBack) {
        self.request(|requests| {
            requests.given.insert(given.bucket, given);
        });
    }

    fn request(&self, change: impl FnOnce(&mut Requests)) {
        change(&mut self.shared.lock());
        self.shared.changed.notify_one();
    }
}

impl Drop for DatabaseThread {
    fn drop(&mut self) {
        self.request(|requests| requests.is_closed = true);
    }
}

/// The thread's own state.
struct Worker {
    life: Life,
    open: OpenDatabase,
    database: Option<Box<dyn BucketDatabase>>,
    answers: mpsc::Sender<DatabaseEvent>,
    /// The last call failed.
    is_away: bool,
}

impl Worker {
    fn run(mut self, shared: &Shared) {
        loop {
            let requests = shared.next();
            let is_closed = requests.is_closed;
            let answered = self.perform(requests);
            if let Err(fault) = answered
                && self.fail(fault).is_err()
            {
                return;
            }
            if is_closed || self.answers.is_closed() {
                return;
            }
        }
    }

    /// Performs the requests: the question about the fence first, as authority hangs on it. The machine repeats those that a fault
    /// leaves without an answer.
    fn perform(&mut self, requests: Requests) -> Result<(), DatabaseFault> {
        let Requests { fence, given, claims, dead, is_closed: _ } = requests;
        let database = match &mut self.database {
            Some(database) => database,
            none => none.insert((self.open)(self.life)?),
        };
        let mut answers = Vec::new();
        if let Some(sent_at) = fence {
            database.check()?;
            answers.push(DatabaseEvent::Unfenced(sent_at));
        }
        if !given.is_empty() {
            let given: Vec<GivenBack> = given.into_values().collect();
            database.give(&given)?;
            answers.push(DatabaseEvent::Given(given));
        }
        self.answer(answers);
        if !claims.is_empty() {
            let claims: Vec<Claim> = claims.into_values().collect();
            let results =
                self.database.as_mut().map_or(Ok(Vec::new()), |database| database.take(&claims, &dead))?;
            self.answer(vec![DatabaseEvent::Claimed(results)]);
        }
        if std::mem::take(&mut self.is_away) {
            tracing::info!("the database gives buckets to this node again");
        }
        Ok(())
    }

    /// Passes a fault on; an error ends the thread.
    fn fail(&mut self, fault: DatabaseFault) -> Result<(), ()> {
        self.database = None;
        match fault {
            DatabaseFault::Fenced => {
                self.answer(vec![DatabaseEvent::Fenced]);
                Err(())
            }
            DatabaseFault::Lost(reason) => {
                if !std::mem::replace(&mut self.is_away, true) {
                    tracing::warn!(%reason, "the database does not answer: this node takes and gives back no buckets until it does");
                }
                self.answer(vec![DatabaseEvent::Lost]);
                Ok(())
            }
        }
    }

    fn answer(&self, answers: Vec<DatabaseEvent>) {
        for answer in answers {
            // An agent that has ended needs no answer.
            let _ = self.answers.blocking_send(answer);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

    use super::*;

    /// A database that performs a call when the test lets it, and says which calls reach it.
    struct Slow {
        calls: SyncSender<String>,
        permits: Receiver<Result<(), DatabaseFault>>,
    }

    impl Slow {
        fn call(&mut self, text: String) -> Result<(), DatabaseFault> {
            self.calls.send(text).expect("the test reads");
            self.permits.recv().expect("the test permits")
        }
    }

    impl BucketDatabase for Slow {
        fn check(&mut self) -> Result<(), DatabaseFault> {
            self.call("check".to_owned())
        }

        fn take(&mut self, claims: &[Claim], dead: &[Life]) -> Result<Vec<ClaimResult>, DatabaseFault> {
            let names: Vec<String> =
                claims.iter().map(|claim| format!("{}>{}", claim.bucket.number(), claim.after)).collect();
            self.call(format!("take {} of {}", names.join(" "), dead.len()))?;
            let taken =
                |claim: &Claim| ClaimResult::Taken { bucket: claim.bucket, epoch: claim.after.next() };
            Ok(claims.iter().map(taken).collect())
        }

        fn give(&mut self, given: &[GivenBack]) -> Result<(), DatabaseFault> {
            self.call(format!("give {}", given.len()))
        }
    }

    fn bucket(number: u16) -> Bucket {
        Bucket::with_number(number).expect("it is below BUCKETS")
    }

    fn claim(number: u16, after: u64) -> Claim {
        Claim { bucket: bucket(number), holder: ShardAddress::new(Life(7), 0), after: Epoch(after) }
    }

    struct Test {
        thread: DatabaseThread,
        calls: Receiver<String>,
        permits: SyncSender<Result<(), DatabaseFault>>,
    }

    /// A database of one connection.
    fn start() -> Test {
        let (calls, reached) = sync_channel(16);
        let (permits, permitted) = sync_channel(16);
        let mut connection = Some(Slow { calls, permits: permitted });
        let open: OpenDatabase = Box::new(move |_| match connection.take() {
            Some(connection) => Ok(Box::new(connection)),
            None => Err(DatabaseFault::Lost("there is no second connection".into())),
        });
        let thread = DatabaseThread::start(Life(7), open).expect("the system has threads");
        Test { thread, calls: reached, permits }
    }

    fn taken(number: u16, epoch: u64) -> ClaimResult {
        ClaimResult::Taken { bucket: bucket(number), epoch: Epoch(epoch) }
    }

    #[test]
    fn requests_that_wait_are_merged_and_the_fence_comes_first() {
        let mut test = start();
        let at = Instant::from_micros;
        test.thread.take(vec![claim(1, 0)], Vec::new());
        assert_eq!(test.calls.recv().unwrap(), "take 1>0 of 0");
        test.thread.take(vec![claim(1, 0), claim(2, 0)], Vec::new());
        test.thread.ask_fence(at(1));
        test.thread.take(vec![claim(2, 5)], vec![Life(3)]);
        test.thread.ask_fence(at(2));
        let given = GivenBack { bucket: bucket(9), holder: ShardAddress::new(Life(7), 0), epoch: Epoch(1) };
        test.thread.give(given);
        (0..4).for_each(|_| test.permits.send(Ok(())).unwrap());
        let mut answer = || test.thread.answers.blocking_recv();
        assert_eq!(answer(), Some(DatabaseEvent::Claimed(vec![taken(1, 1)])));
        assert_eq!(answer(), Some(DatabaseEvent::Unfenced(at(2))));
        assert_eq!(answer(), Some(DatabaseEvent::Given(vec![given])));
        assert_eq!(answer(), Some(DatabaseEvent::Claimed(vec![taken(1, 1), taken(2, 6)])));
        let calls: Vec<String> = test.calls.try_iter().collect();
        assert_eq!(calls, ["check", "give 1", "take 1>0 2>5 of 1"]);
    }

    #[test]
    fn a_lost_connection_is_told_and_opened_again_by_the_next_request() {
        let mut test = start();
        test.thread.ask_fence(Instant::from_micros(1));
        test.permits.send(Err(DatabaseFault::Lost("cut".into()))).unwrap();
        assert_eq!(test.thread.answers.blocking_recv(), Some(DatabaseEvent::Lost));
        // There is no second connection.
        test.thread.ask_fence(Instant::from_micros(2));
        assert_eq!(test.thread.answers.blocking_recv(), Some(DatabaseEvent::Lost));
    }

    #[test]
    fn a_fenced_life_asks_nothing_more() {
        let mut test = start();
        test.thread.take(vec![claim(1, 0)], Vec::new());
        test.permits.send(Err(DatabaseFault::Fenced)).unwrap();
        assert_eq!(test.thread.answers.blocking_recv(), Some(DatabaseEvent::Fenced));
        assert_eq!(test.thread.answers.blocking_recv(), None);
    }
}

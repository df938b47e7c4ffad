//! Worker processes, as the run sees them. The limit on open files is a process's own, so when a load has more
//! users than one process may have connections, several worker processes of this program share the users. The run
//! itself has no connections: it receives the reports of their shards as it does from threads, and forwards the
//! progress of the end.
//!
//! The order: `parts` decides how many processes are needed, `start_processes` starts them and waits until each has said that it is ready,
//! `start` tells all of them the same time of the first sign-in, `follow` passes on the phases of the end, and the drop kills what is left.

use std::io::{self, BufReader};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;
use std::thread::JoinHandle;

use lab_sip::stats::{Count, Stats};
use lab_xmpp::{LoadStage, LoadState};
use parking_lot::Mutex;
use stdx::time::Instant;

use super::super::StartError;
use super::super::clock::Clock;
use super::super::limits::{WORKER_END, WORKER_START};
use super::super::report::ShardReport;
use super::super::shard_hub::{RunPhase, ShardHub};
use super::super::start::fatal;
use super::worker_protocol::{WorkerCommand, WorkerMessage, WorkerSetup, WorkerShare, hear, say};
use crate::fd;

/// The worker processes of a run.
pub(in crate::engine) struct WorkerPool {
    workers: Vec<Worker>,
    /// The phase that the workers were told last.
    told: RunPhase,
    /// When they were told to end at once.
    hard_since: Option<Instant>,
}

/// One worker.
struct Worker {
    /// `worker 2 of 5 (process 4711)`.
    name: String,
    /// Its shards.
    part: WorkerShare,
    /// Behind a lock, as its reader waits for the process and the run may kill it.
    child: Arc<Mutex<Child>>,
    /// Commands to the worker.
    to: UnixStream,
    /// Messages of the worker, until its reader thread takes them.
    from: Option<BufReader<UnixStream>>,
}

/// The arguments of all workers.
pub(super) struct WorkerArgs<'a> {
    /// The workers read the monotonic clock of the machine, which is the same in all processes.
    pub(super) clock: Clock,
    /// The file of the shared memory.
    pub(super) memory: &'a OwnedFd,
    /// The arguments of `ringer xmpp`: each worker parses them as the run did.
    pub(super) words: &'a [String],
}

/// Reads and handles the messages of one worker.
struct WorkerReader {
    name: String,
    part: WorkerShare,
    child: Arc<Mutex<Child>>,
    from: BufReader<UnixStream>,
    reports: SyncSender<ShardReport>,
    base: ReaderContext,
    /// For each of its shards: its final report came.
    ended: Vec<bool>,
    /// The newest interval it told of.
    tick: u64,
}

/// The parts of the run that all readers share.
#[derive(Clone)]
pub(super) struct ReaderContext {
    /// Where a lost worker makes the run fail.
    pub(super) hub: Arc<ShardHub>,
    pub(super) shared: Arc<LoadState>,
    pub(super) clock: Clock,
    /// The number of users of the whole load.
    pub(super) users: u32,
    /// Counters of the right sizes, for the report of a lost worker.
    pub(super) empty: Stats,
}

impl WorkerPool {
    /// Starts a worker for each part; returns when all of them are ready.
    pub(super) fn start_processes(
        parts: &[WorkerShare],
        args: &WorkerArgs<'_>,
    ) -> Result<WorkerPool, StartError> {
        let mut pool = WorkerPool { workers: Vec::new(), told: RunPhase::Running, hard_since: None };
        for (index, part) in parts.iter().enumerate() {
            let name = format!("worker {} of {}", index + 1, parts.len());
            let worker = Worker::spawn(&name, part, args);
            pool.workers.push(worker.map_err(|error| fatal(format!("{name} cannot be started: {error}")))?);
        }
        // All are started before the first is waited for, so that they prepare at the same time.
        for worker in &mut pool.workers {
            worker.await_ready().map_err(fatal)?;
        }
        Ok(pool)
    }

    /// The load begins: each worker is told, and has a thread here that listens to it.
    pub(super) fn start(
        &mut self,
        at: Instant,
        reports: &SyncSender<ShardReport>,
        base: &ReaderContext,
    ) -> Result<Vec<JoinHandle<()>>, StartError> {
        let mut threads = Vec::new();
        for worker in &mut self.workers {
            let name = &worker.name;
            say(&mut worker.to, &WorkerCommand::Start(at.as_micros()))
                .map_err(|error| fatal(format!("{name} is gone before the load began: {error}")))?;
            let listener = WorkerReader {
                name: worker.name.clone(),
                ended: vec![false; usize::from(worker.part.shards)],
                part: worker.part.clone(),
                child: Arc::clone(&worker.child),
                from: worker.from.take().ok_or_else(|| fatal("a load begins once".to_owned()))?,
                reports: reports.clone(),
                base: base.clone(),
                tick: 0,
            };
            let thread = std::thread::Builder::new().name("listener".to_owned());
            let thread = thread.spawn(move || listener.listen());
            threads.push(thread.map_err(|error| fatal(format!("cannot start a thread: {error}")))?);
        }
        Ok(threads)
    }

    /// Passes on how far the end is. One that is stuck does not keep the run from it.
    pub(in crate::engine) fn follow(&mut self, phase: RunPhase, now: Instant) {
        if phase > self.told {
            self.told = phase;
            for worker in &mut self.workers {
                // One that is gone has been noticed by its listener.
                let _ = say(&mut worker.to, &WorkerCommand::End(phase as u8));
            }
        }
        if phase >= RunPhase::Hard && now.since(*self.hard_since.get_or_insert(now)) >= WORKER_END {
            for worker in &self.workers {
                // One that has ended, and was waited for, is left alone.
                let _ = worker.child.lock().kill();
            }
        }
    }

    /// Shards of all workers.
    pub(in crate::engine) fn threads(&self) -> usize {
        self.workers.iter().map(|worker| usize::from(worker.part.shards)).sum()
    }
}

impl Worker {
    /// Starts this program again as `ringer worker`, with a socket as its standard input, and sends it the setup.
    fn spawn(name: &str, part: &WorkerShare, args: &WorkerArgs<'_>) -> io::Result<Worker> {
        let (mut mine, theirs) = UnixStream::pair()?;
        let child = Command::new(std::env::current_exe()?)
            // The name is for the list of processes.
            .args(["worker", name])
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            // Only the run prints; errors still reach the terminal.
            .stdout(Stdio::null())
            .spawn()?;
        let name = format!("{name} (process {})", child.id());
        let from = mine.try_clone()?;
        // The time-out holds until the worker is ready: under load it may be silent for long.
        from.set_read_timeout(Some(WORKER_START))?;
        let worker = Worker {
            name,
            part: part.clone(),
            child: Arc::new(Mutex::new(child)),
            to: mine.try_clone()?,
            from: Some(BufReader::new(from)),
        };
        let prepare = WorkerSetup {
            part: part.clone(),
            clock: args.clock,
            memory: args.memory.as_raw_fd(),
            parent: std::process::id(),
            words: args.words.to_vec(),
        };
        say(&mut mine, &WorkerCommand::Prepare(prepare))?;
        Ok(worker)
    }

    /// Waits at most `WORKER_START` for the worker's first message.
    fn await_ready(&mut self) -> Result<(), String> {
        let from = self.from.as_mut().ok_or("a worker is ready once")?;
        match hear::<WorkerMessage>(from) {
            Ok(Some(WorkerMessage::Ready)) => {
                let forever = from.get_ref().set_read_timeout(None);
                forever.map_err(|error| format!("{}: {error}", self.name))
            }
            Ok(Some(WorkerMessage::Refused(why))) => Err(format!("{} cannot start: {why}", self.name)),
            Ok(Some(WorkerMessage::Report(_)) | None) => {
                Err(format!("{} ended before it was ready", self.name))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                Err(format!("{} is not ready after {} s", self.name, WORKER_START.as_secs()))
            }
            Err(error) => Err(format!("{} says what is not understood: {error}", self.name)),
        }
    }
}

impl Drop for Worker {
    /// A run that is over, or could not start, leaves no process behind.
    fn drop(&mut self) {
        let mut child = self.child.lock();
        // It may have ended by itself.
        let _ = child.kill();
        let _ = child.wait();
    }
}

impl WorkerReader {
    /// To the last word of its last shard.
    fn listen(mut self) {
        while !self.ended.iter().all(|ended| *ended) {
            match hear::<WorkerMessage>(&mut self.from) {
                Ok(Some(WorkerMessage::Report(report))) => {
                    self.tick = self.tick.max(report.tick);
                    let own = report.shard.checked_sub(self.part.first_shard);
                    if let Some(ended) = own.and_then(|own| self.ended.get_mut(usize::from(own))) {
                        *ended |= report.last;
                        // The run was dropped: no collector reads the report.
                        let _ = self.reports.send(*report);
                    }
                }
                // Said once, before the load; a repetition means nothing.
                Ok(Some(WorkerMessage::Ready | WorkerMessage::Refused(_))) => {}
                // The socket closed before the last report: the process has died.
                Ok(None) => {
                    let status = self.child.lock().wait();
                    let how = status.map_or_else(|error| error.to_string(), |status| status.to_string());
                    return self.tell_loss(&format!("ended ({how})"));
                }
                Err(error) => return self.tell_loss(&format!("is not understood: {error}")),
            }
        }
    }

    /// Its users are gone, and what they had sent and should have heard with them: nothing that is counted from now on
    /// would say anything of the server. So they count as failed and the load ends.
    fn tell_loss(&mut self, how: &str) {
        let ReaderContext { hub, shared, clock, users, .. } = &self.base;
        let lost = self.part.users(*users);
        hub.fatal.store(true, Ordering::Release);
        shared.advance(clock.now(), LoadStage::Leaving);
        let mut error = Some(format!("{} {how}: its {lost} users are lost, and the run ends", self.name));
        for (own, ended) in (0_u16..).zip(&self.ended) {
            if *ended {
                continue;
            }
            let mut stats = self.base.empty.clone();
            let errors = error.take();
            // The loss counts once, in the first shard that had not ended; the others only say that they are over.
            if errors.is_some() {
                stats.add(Count::FailedCall, u64::from(lost));
                stats.add(Count::FailedWorker, u64::from(lost));
            }
            // The run was dropped: no collector reads the report.
            let _ = self.reports.send(ShardReport {
                shard: self.part.first_shard + own,
                tick: self.tick,
                stats,
                open_sockets: 0,
                limit: errors.clone(),
                errors: errors.into_iter().collect(),
                last: true,
            });
        }
    }
}

/// The parts of a load of users with so many sockets each, or one for this process itself; `wanted` are `--workers`.
///
/// # Errors
/// More processes than [`WORKERS`](super::super::limits::WORKERS) would be needed.
pub(super) fn parts(
    (users, sockets): (u32, u32),
    threads: usize,
    wanted: Option<usize>,
    limit: fd::OpenFileLimit,
) -> Result<Vec<WorkerShare>, String> {
    use super::super::limits::{SPARE_DESCRIPTORS, WORKERS};

    let a_process =
        limit.calls_allowed(u64::from(sockets.max(1)), SPARE_DESCRIPTORS + 4 * threads as u64).max(1);
    let needed = u64::from(users).div_ceil(a_process);
    let workers = wanted.map_or(needed, |wanted| wanted as u64);
    if workers < needed || workers > WORKERS {
        return Err(format!(
            "{users} users need {needed} worker processes, as the limit on open files (RLIMIT_NOFILE) is {}: \
             expected --workers from {needed} to {WORKERS}, or a higher limit (ulimit -Hn)",
            limit.soft
        ));
    }
    // No more workers than users, and no more shards than users in each.
    let workers = workers.clamp(1, u64::from(users.max(1)));
    let of_users = usize::try_from(u64::from(users) / workers).unwrap_or(usize::MAX);
    let shards = threads.div_ceil(usize::try_from(workers).unwrap_or(1)).min(of_users).max(1);
    // Shards are numbered in 16 bits.
    let count = |number: u64| u16::try_from(number).map_err(|_| format!("{number} threads are too many"));
    let (shards, workers) = (count(shards as u64)?, count(workers)?);
    let all_shards = count(u64::from(shards) * u64::from(workers))?;
    Ok((0..workers).map(|worker| WorkerShare { first_shard: worker * shards, shards, all_shards }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(files: u64) -> fd::OpenFileLimit {
        fd::OpenFileLimit { soft: files, hard: files }
    }

    #[test]
    fn as_many_processes_as_the_limit_on_open_files_makes_needed() {
        let of = |users, threads, wanted, files| {
            let parts = parts((users, 1), threads, wanted, limit(files)).unwrap();
            let first = parts[0].clone();
            assert!(parts.iter().all(|part| u64::from(part.users(users)) <= files), "{parts:?}");
            (parts.len(), first.shards, first.all_shards)
        };
        assert_eq!(of(100, 2, None, 20_000), (1, 2, 2));
        assert_eq!(of(19_928, 2, None, 20_000), (1, 2, 2), "as many as fit beside what Ringer needs itself");
        assert_eq!(of(19_929, 2, None, 20_000), (2, 1, 2));
        assert_eq!(of(1_020_000, 2, None, 20_000), (52, 1, 52));
        assert_eq!(of(1_020_000, 64, None, 1_048_576), (1, 64, 64));
        assert_eq!(of(100, 8, Some(3), 20_000), (3, 3, 9));
        assert_eq!(of(2, 8, Some(5), 20_000), (2, 1, 2), "no worker without a user");
        let of_bosh = |users| parts((users, 2), 2, None, limit(20_000)).unwrap().len();
        assert_eq!((of_bosh(9_964), of_bosh(9_965)), (1, 2), "two sockets each");
    }

    #[test]
    fn an_impossible_number_of_workers_names_the_expected_range() {
        for (users, wanted, files) in
            [(40_000, Some(1), 20_000), (1_000_000, None, 1_024), (10, Some(300), 20_000)]
        {
            let error = parts((users, 1), 2, wanted, limit(files)).unwrap_err();
            assert!(error.contains("expected --workers from") && error.contains("to 256"), "{error}");
        }
    }
}

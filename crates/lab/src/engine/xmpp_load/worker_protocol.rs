//! The protocol between a run and its worker processes: lines of JSON on a pair of sockets, the worker's standard input.
//!
//! In order: `Prepare`, then `Ready` or `Refused`, then `Start`, then reports, with `End` whenever the phase of the run advances.

use std::io::{self, BufRead, Read as _, Write};
use std::os::fd::RawFd;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::super::clock::Clock;
use super::super::report::ShardReport;
use crate::engine::limits::WORKER_LINE;

/// The part of a load that one worker has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct WorkerShare {
    /// The first of the worker's shards among all of the load, and their number.
    pub(super) first_shard: u16,
    /// The number of its shards.
    pub(super) shards: u16,
    /// The number of shards of the whole load, over all workers.
    pub(super) all_shards: u16,
}

impl WorkerShare {
    /// The number of its users among `of`: those whose number, modulo the number of shards, is one of its shards'.
    pub(super) fn users(&self, of: u32) -> u32 {
        let all = u32::from(self.all_shards.max(1));
        let own = u32::from(self.first_shard)..u32::from(self.first_shard) + u32::from(self.shards);
        own.map(|shard| (of.saturating_sub(shard)).div_ceil(all)).sum()
    }
}

/// To a worker.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum WorkerCommand {
    /// First of all: the part and the arguments.
    Prepare(WorkerSetup),
    /// Microseconds of the run's clock.
    Start(u64),
    /// The progress of the end, as a [`super::RunPhase`].
    End(u8),
}

/// Everything that a worker needs to prepare its part.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct WorkerSetup {
    /// The shards of this worker.
    pub(super) part: WorkerShare,
    /// The run's clock, so that times of all processes agree.
    pub(super) clock: Clock,
    /// The file of the shared memory, as it is inherited.
    pub(super) memory: RawFd,
    /// The process that started the worker; the worker ends with it.
    pub(super) parent: u32,
    /// The words of `ringer xmpp`.
    pub(super) words: Vec<String>,
}

/// From a worker.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum WorkerMessage {
    /// Everything is prepared; the worker waits for the start.
    Ready,
    /// It cannot start, and why.
    Refused(String),
    /// One interval of one shard, as from a thread.
    Report(Box<ShardReport>),
}

/// Writes one line of JSON.
pub(super) fn say<T: Serialize>(to: &mut impl Write, what: &T) -> io::Result<()> {
    let mut line = serde_json::to_vec(what).map_err(io::Error::other)?;
    line.push(b'\n');
    to.write_all(&line)
}

/// The next line; `None` when the other side is gone.
pub(super) fn hear<T: DeserializeOwned>(from: &mut impl BufRead) -> io::Result<Option<T>> {
    let mut line = Vec::new();
    match from.take(WORKER_LINE).read_until(b'\n', &mut line) {
        // It ended before it had read all it was told.
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(None),
        read => read?,
    };
    // A line that is cut short was being said when the other side ended, or is beyond the limit.
    match line.last() {
        Some(b'\n') => serde_json::from_slice(&line).map(Some).map_err(io::Error::other),
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_user_has_one_worker() {
        for (users, shards, workers) in [(10, 1, 3), (20_001, 2, 7), (5, 1, 5), (1_020_000, 1, 52)] {
            let part =
                |worker| WorkerShare { first_shard: worker * shards, shards, all_shards: workers * shards };
            let sum: u32 = (0..workers).map(|worker| part(worker).users(users)).sum();
            assert_eq!(sum, users);
            assert!(
                (0..workers)
                    .all(|worker| part(worker).users(users).abs_diff(users / u32::from(workers)) <= 2)
            );
        }
    }

    #[test]
    fn lines_are_heard_as_they_were_said() {
        let mut wire = Vec::new();
        say(&mut wire, &WorkerCommand::Start(7)).unwrap();
        say(&mut wire, &WorkerCommand::End(1)).unwrap();
        wire.extend_from_slice(b"{\"Sta");
        let mut from = wire.as_slice();
        assert!(matches!(hear(&mut from).unwrap(), Some(WorkerCommand::Start(7))));
        assert!(matches!(hear(&mut from).unwrap(), Some(WorkerCommand::End(1))));
        assert!(hear::<WorkerCommand>(&mut from).unwrap().is_none(), "cut short: the other side is gone");
        assert!(hear::<WorkerCommand>(&mut b"nonsense\n".as_slice()).is_err());
    }
}

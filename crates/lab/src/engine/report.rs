//! The reports of shards to the collector: at each full second since the start, at the same times in all shards.

use std::collections::VecDeque;
use std::sync::mpsc::{SyncSender, TrySendError};
use std::time::Duration;

use lab_sip::stats::{Count, Stats};
use serde::{Deserialize, Serialize};
use stdx::time::Instant;

use super::kernel;
use super::limits::ERRORS_KEPT;
use super::shard::Shard;

/// The unit of all figures over time: screens, CSV and charts have one value a second.
const INTERVAL: Duration = Duration::from_secs(1);

/// One interval of one shard.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ShardReport {
    /// The number of the shard.
    pub(super) shard: u16,
    /// Intervals since the start.
    pub(super) tick: u64,
    /// Counted since its last report.
    pub(super) stats: Stats,
    /// At the time of the report.
    pub(super) open_sockets: u64,
    /// The last errors since the report before.
    pub(super) errors: VecDeque<String>,
    /// Its thread has ended.
    pub(super) last: bool,
    /// Why figures are ours and not the server's.
    pub(super) limit: Option<String>,
}

/// The clock of a shard's reports, and what it keeps between them besides the counters.
#[derive(Debug)]
pub(super) struct Reporter {
    /// When the next report is due.
    next: Instant,
    /// Seconds since the start that are reported.
    tick: u64,
    /// Processor time of the thread up to the last report.
    cpu: Duration,
    /// Counters of the right sizes, which replace those handed over.
    empty: Stats,
    /// The last errors since the last report.
    errors: VecDeque<String>,
    /// The limit of the system that this shard met first; it stays for the whole run.
    pub(super) limit: Option<String>,
}

impl Reporter {
    /// `empty` has a slot for everything.
    pub(super) fn new(started: Instant, empty: Stats) -> Reporter {
        let next = started + INTERVAL;
        Reporter { next, tick: 0, cpu: Duration::ZERO, empty, errors: VecDeque::new(), limit: None }
    }

    pub(super) fn next(&self) -> Instant {
        self.next
    }

    pub(super) fn keep_error(&mut self, text: String) {
        if self.errors.len() == ERRORS_KEPT {
            self.errors.pop_front();
        }
        self.errors.push_back(text);
    }
}

/// The counters of a shard, and its number.
pub(super) struct ShardCounts<'a> {
    pub(super) shard: u16,
    pub(super) stats: &'a mut Stats,
    pub(super) open_sockets: u64,
    pub(super) reports: &'a SyncSender<ShardReport>,
}

impl Reporter {
    /// Hands over what was counted since the last time. A collector that is behind gets it with the next.
    pub(super) fn hand_over(&mut self, counted: &mut ShardCounts<'_>, now: Instant, last: bool) {
        // A shard that was late skips seconds: its report counts for the second that has just ended.
        while self.next <= now {
            self.next = self.next + INTERVAL;
            self.tick += 1;
        }
        let cpu = kernel::thread_cpu();
        let used = cpu.saturating_sub(std::mem::replace(&mut self.cpu, cpu));
        counted.stats.add(Count::CpuMicros, u64::try_from(used.as_micros()).unwrap_or(u64::MAX));
        let report = ShardReport {
            shard: counted.shard,
            tick: self.tick,
            stats: std::mem::replace(counted.stats, self.empty.clone()),
            open_sockets: counted.open_sockets,
            errors: std::mem::take(&mut self.errors),
            last,
            limit: self.limit.clone(),
        };
        // The last report waits for room, as nothing can follow it.
        if last {
            // The run was dropped: no collector reads the report.
            let _ = counted.reports.send(report);
            return;
        }
        if let Err(TrySendError::Full(report)) = counted.reports.try_send(report) {
            counted.stats.merge(&report.stats);
            self.errors = report.errors;
        }
    }
}

impl Shard {
    pub(super) fn report(&mut self, now: Instant, last: bool) {
        let mut counted = ShardCounts {
            shard: self.dispatcher.index,
            stats: &mut self.dispatcher.stats,
            open_sockets: self.dispatcher.net.len() as u64,
            reports: &self.reports,
        };
        self.dispatcher.reporter.hand_over(&mut counted, now, last);
    }
}

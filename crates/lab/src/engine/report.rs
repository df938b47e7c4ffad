//! What a shard tells the collector: at each full second since the start, all of them the same ones.

use std::collections::VecDeque;
use std::sync::mpsc::TrySendError;
use std::time::Duration;

use stdx::time::Instant;

use super::kernel;
use super::limits::ERRORS_KEPT;
use super::shard::Shard;
use crate::stats::{Count, Stats};

const INTERVAL: Duration = Duration::from_secs(1);

/// One interval of one shard.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) shard: u16,
    /// Intervals since the start.
    pub(super) tick: u64,
    pub(super) stats: Stats,
    pub(super) open_sockets: u64,
    pub(super) errors: VecDeque<String>,
    /// Its thread has ended.
    pub(super) last: bool,
    /// Why figures are ours and not the server's.
    pub(super) limit: Option<String>,
}

#[derive(Debug)]
pub(super) struct Reporter {
    next: Instant,
    tick: u64,
    cpu: Duration,
    empty: Stats,
    errors: VecDeque<String>,
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

impl Shard {
    /// Hands over what was counted since the last time. A collector that is behind gets it with the next.
    pub(super) fn report(&mut self, now: Instant, last: bool) {
        while self.reporter.next <= now {
            self.reporter.next = self.reporter.next + INTERVAL;
            self.reporter.tick += 1;
        }
        let cpu = kernel::thread_cpu();
        let used = cpu.saturating_sub(std::mem::replace(&mut self.reporter.cpu, cpu));
        self.stats.add(Count::CpuMicros, u64::try_from(used.as_micros()).unwrap_or(u64::MAX));
        let report = Report {
            shard: self.index,
            tick: self.reporter.tick,
            stats: std::mem::replace(&mut self.stats, self.reporter.empty.clone()),
            open_sockets: self.net.len() as u64,
            errors: std::mem::take(&mut self.reporter.errors),
            last,
            limit: self.reporter.limit.clone(),
        };
        if last {
            // The run was dropped: nobody wants it.
            let _ = self.reports.send(report);
            return;
        }
        if let Err(TrySendError::Full(report)) = self.reports.try_send(report) {
            self.stats.merge(&report.stats);
            self.reporter.errors = report.errors;
        }
    }
}

//! Adds up what the shards counted.
//!
//! Each shard sends one report a second over a bounded channel. Reports of the same second form an interval, which is complete when all shards
//! have reported it, or when a later one shows that a shard is behind. The collector also judges whether Ringer itself was the limit.

use std::collections::{BTreeMap, VecDeque};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use lab_sip::stats::{Count, Durations, Stats};
use stdx::time::Instant;

use super::limits::{ERRORS_KEPT, LATE, LOAD_CALLS, LOAD_PACKETS};
use super::report::ShardReport;
use super::{Gauges, Progress};

/// An interval that not all shards have reported.
#[derive(Default)]
struct OpenInterval {
    /// The sum of the reports so far.
    stats: Stats,
    /// The number of shards that have reported.
    shards: usize,
    /// The most that one shard's thread was on a processor.
    busiest: u64,
}

pub(super) struct Collector {
    /// `None` once the run is dropped: shards that still send then fail at once.
    reports: Option<Receiver<ShardReport>>,
    shards: usize,
    /// Shards whose last report has come.
    ended: usize,
    /// Intervals that are not complete, by the second since the start.
    open: BTreeMap<u64, OpenInterval>,
    /// Open sockets by shard, of its latest report.
    sockets: Vec<u64>,
    /// Counts since the start, or since the last reset.
    total: Stats,
    /// Errors that no interval has shown yet, at most `ERRORS_KEPT`.
    errors: VecDeque<String>,
    /// Interval last told.
    told: u64,
    /// The end of the interval last told; the next begins here.
    told_at: Option<Instant>,
    /// The time from the first interval in which calls were placed or arrived to the end of the last one, without pauses of the operator.
    placing: Duration,
    /// The time since then without an arrival: it belongs to `placing` once another call comes.
    idle: Duration,
    /// The start of what `total` counts, after a reset; `None` before.
    reset_at: Option<Instant>,
    /// The first limit of the system that a shard met, in words.
    limit: Option<String>,
    /// Intervals in which calls started late while a thread was busy.
    overloaded: u64,
    /// The same for packets of media.
    media_overloaded: u64,
}

/// Share of a core: above it a shard has no reserve for bursts.
const BUSY_SHARE: f64 = 0.7;

impl Collector {
    pub(super) fn new(reports: Receiver<ShardReport>, shards: usize, empty: Stats) -> Collector {
        Collector {
            reports: Some(reports),
            shards,
            ended: 0,
            open: BTreeMap::new(),
            sockets: vec![0; shards],
            total: empty,
            errors: VecDeque::new(),
            told: 0,
            told_at: None,
            placing: Duration::ZERO,
            idle: Duration::ZERO,
            reset_at: None,
            limit: None,
            overloaded: 0,
            media_overloaded: 0,
        }
    }

    /// Blocks until a report came, or this long.
    pub(super) fn wait(&mut self, at_most: Duration) {
        let Some(reports) = &self.reports else { return };
        match reports.recv_timeout(at_most) {
            Ok(report) => self.take(report),
            Err(RecvTimeoutError::Timeout) => {}
            // A shard died without a last word; nothing more will come.
            Err(RecvTimeoutError::Disconnected) => self.ended = self.shards,
        }
    }

    /// A report counts for its second, or for the next that was not told: figures are never lost, only late.
    fn take(&mut self, report: ShardReport) {
        let shard = usize::from(report.shard);
        self.sockets[shard] = report.open_sockets;
        self.ended += usize::from(report.last);
        // The first limit explains the others, so it is kept.
        self.limit = self.limit.take().or(report.limit);
        self.errors.extend(report.errors);
        while self.errors.len() > ERRORS_KEPT {
            self.errors.pop_front();
        }
        // One that was late tells more than one interval at once; what comes after the end is the last one's.
        let tick = report.tick + u64::from(report.last);
        let open = self.open.entry(tick.max(self.told + 1)).or_default();
        open.busiest = open.busiest.max(report.stats.counts[Count::CpuMicros]);
        open.stats.merge(&report.stats);
        open.shards += 1;
    }

    pub(super) fn ended(&self) -> bool {
        self.ended == self.shards
    }

    pub(super) fn open_sockets(&self) -> u64 {
        self.sockets.iter().sum()
    }

    pub(super) fn close(&mut self) {
        self.reports = None;
    }

    /// Counters start from zero, in tables of the same size, and so do their times.
    pub(super) fn reset(&mut self) {
        let fresh = Stats::sized(
            self.total.steps.len(),
            self.total.receive_steps.len(),
            self.total.out_of_call_steps.len(),
            self.total.rtds.len(),
            self.total.counters.len(),
        );
        self.total = fresh;
        (self.placing, self.idle) = (Duration::ZERO, Duration::ZERO);
        // The intervals after the one told last are counted from here on.
        self.reset_at = self.told_at;
    }

    /// The oldest interval that all shards have told of, or have passed.
    pub(super) fn progress(&mut self, gauges: Gauges, started: Instant) -> Option<Progress> {
        let (tick, open) = self.open.first_key_value()?;
        // A shard that is two intervals behind is not waited for: its thread may be stuck, and the operator wants to see the rest.
        let passed = self.open.range(tick + 2..).next().is_some();
        if open.shards < self.shards && !passed {
            return None;
        }
        let (tick, open) = self.open.pop_first()?;
        self.told = tick;
        Some(self.tell(open, gauges, started, started + Duration::from_secs(tick)))
    }

    /// Everything that is left, up to now.
    pub(super) fn last_progress(&mut self, gauges: Gauges, started: Instant, now: Instant) -> Progress {
        let mut rest = OpenInterval::default();
        while let Some((_, open)) = self.open.pop_first() {
            rest.stats.merge(&open.stats);
            rest.busiest += open.busiest;
        }
        self.tell(rest, gauges, started, now)
    }

    /// Adds the interval to the totals and judges it.
    fn tell(&mut self, open: OpenInterval, gauges: Gauges, started: Instant, now: Instant) -> Progress {
        let span = now.since(self.told_at.unwrap_or(started));
        self.told_at = Some(now);
        let busiest = Duration::from_micros(open.busiest);
        // Few calls are no load: when one is late, the machine was busy with something else, or the program was still
        // starting. The same goes for a thread that had its core for others.
        let busy = busiest > span.mul_f64(BUSY_SHARE);
        self.overloaded += u64::from(busy && is_late(&open.stats.start_delay, LOAD_CALLS));
        self.media_overloaded += u64::from(busy && is_late(&open.stats.media_delay, LOAD_PACKETS));
        let counts = &open.stats.counts;
        if counts[Count::Due] + counts[Count::IncomingCall] > 0 {
            self.placing += std::mem::take(&mut self.idle) + span;
        } else if !self.placing.is_zero() && !gauges.paused {
            self.idle += span;
        }
        self.total.merge(&open.stats);
        Progress {
            started,
            counted_from: self.reset_at.unwrap_or(started),
            now,
            span,
            placing: self.placing,
            interval: open.stats,
            total: self.total.clone(),
            gauges,
            errors: self.errors.drain(..).collect(),
        }
    }

    /// Reasons the figures are ours.
    pub(super) fn limits(&self, progress: &Progress) -> Vec<String> {
        let mut reasons: Vec<String> = self.limit.iter().cloned().collect();
        if self.overloaded > 0 {
            reasons.push(format!(
                "calls started more than {} ms late while a thread used over {:.0} % of its core, in {} s of the run: \
                 use more --threads, or a lower -r",
                LATE.as_millis(),
                BUSY_SHARE * 100.0,
                self.overloaded
            ));
        }
        let drops = progress.total.counts[Count::ReceiveDrops];
        if drops > 0 {
            reasons.push(format!(
                "{drops} messages were lost at our own sockets: raise net.core.rmem_max, or use more --threads"
            ));
        }
        if self.media_overloaded > 0 {
            reasons.push(format!(
                "media left more than {} ms late while a thread used over {:.0} % of its core, in {} s of the run: \
                 use more --threads",
                LATE.as_millis(),
                BUSY_SHARE * 100.0,
                self.media_overloaded
            ));
        }
        reasons
    }
}

/// The slowest hundredth of at least `load` was late.
fn is_late(delays: &Durations, load: u64) -> bool {
    delays.n >= load && delays.quantile(0.99).is_some_and(|delay| delay > LATE)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use super::*;

    /// Reasons after one interval of a tenth of a second, in which the thread had its core for all of it and so many
    /// calls and packets were late.
    fn reasons(calls: u64, packets: u64, busy: Duration) -> Vec<String> {
        let (sender, reports) = sync_channel(1);
        let mut stats = Stats::default();
        let late = LATE * 2;
        (0..calls).for_each(|_| stats.start_delay.record(late));
        (0..packets).for_each(|_| stats.media_delay.record(late));
        stats.counts[Count::CpuMicros] = u64::try_from(busy.as_micros()).unwrap();
        let last = ShardReport {
            shard: 0,
            tick: 0,
            stats,
            open_sockets: 1,
            errors: VecDeque::new(),
            last: true,
            limit: None,
        };
        sender.send(last).unwrap();
        let mut collector = Collector::new(reports, 1, Stats::default());
        collector.wait(Duration::from_secs(5));
        assert!(collector.ended());
        let started = Instant::from_unix_seconds(1);
        let progress =
            collector.last_progress(Gauges::default(), started, started + Duration::from_millis(100));
        collector.limits(&progress)
    }

    /// The last progress of a run of one shard with so many arrivals in each second; `before` is done before a second is told.
    fn told(due: &[u64], mut before: impl FnMut(usize, &mut Collector, &mut Gauges)) -> Progress {
        let (sender, reports) = sync_channel(due.len());
        let mut collector = Collector::new(reports, 1, Stats::default());
        let mut last = None;
        for (second, due) in due.iter().enumerate() {
            let mut stats = Stats::default();
            stats.add(Count::Due, *due);
            let (tick, errors) = (second as u64 + 1, VecDeque::new());
            let report =
                ShardReport { shard: 0, tick, stats, open_sockets: 1, errors, last: false, limit: None };
            sender.send(report).expect("there is room");
            collector.wait(Duration::from_secs(5));
            let mut gauges = Gauges::default();
            before(second, &mut collector, &mut gauges);
            last = collector.progress(gauges, STARTED);
        }
        last.expect("told")
    }

    const STARTED: Instant = Instant::from_unix_seconds(1);

    #[test]
    fn seconds_without_an_arrival_between_others_are_time_of_placing() {
        let mut due = [0; 110];
        (5..100).step_by(10).for_each(|second| due[second] = 1);
        let progress = told(&due, |_, _, _| {});
        // From the sixth second to the end of the 96th: ten calls.
        assert_eq!(progress.placing, Duration::from_secs(91));
        assert_eq!(progress.total.counts[Count::Due], 10);
        // An operator's pause is no time of placing.
        let progress = told(&due, |second, _, gauges| gauges.paused = (6..15).contains(&second));
        assert_eq!(progress.placing, Duration::from_secs(82));
    }

    #[test]
    fn a_reset_begins_the_times_of_the_counters_anew() {
        let progress = told(&[100; 120], |second, collector, _| {
            if second == 60 {
                collector.reset();
            }
        });
        assert_eq!((progress.placing, progress.total.counts[Count::Due]), (Duration::from_secs(60), 6_000));
        assert_eq!(progress.counted_from, STARTED + Duration::from_secs(60));
        assert_eq!(progress.started, STARTED);
    }

    #[test]
    fn a_few_late_calls_are_no_load_that_ringer_was_the_limit_of() {
        let whole = Duration::from_millis(100);
        assert_eq!(reasons(1, 50, whole), [""; 0]);
        assert_eq!(reasons(LOAD_CALLS - 1, LOAD_PACKETS - 1, whole), [""; 0]);
        let both = reasons(LOAD_CALLS, LOAD_PACKETS, whole);
        assert!(
            both.len() == 2 && both[0].starts_with("calls started") && both[1].starts_with("media left"),
            "{both:?}"
        );
        // A core that others had is no limit of Ringer's.
        assert_eq!(reasons(LOAD_CALLS, LOAD_PACKETS, whole / 2), [""; 0]);
    }
}

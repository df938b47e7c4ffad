//! Watches a run and makes its [`Report`].
//!
//! An observer: it takes a sample each interval and finishes the report at the end. The report is shared, as observers are dropped by the thread
//! that drives the run before the report is written.

use std::sync::{Arc, Mutex};

use lab_report::growth::Series;
use lab_report::model::{self, ArrivalMode, NamedTimes, Report, ReportSample, ReportTotals, TimeSummary};
use lab_report::tables;
use lab_sip::scenario::model::{Expect, Scenario, ScenarioSource, SentKind, StepKind};
use lab_sip::stats::{Count, Durations, Stats, TimerDurations};
use stdx::calendar::Date;
use stdx::time::Instant;

use crate::engine::{Progress, RunEnd, RunOutcome, Setup};
use crate::session::Observer;
use crate::threshold::Threshold;
use crate::unanswered;

use super::machine;
use super::stages::StageReader;

/// A page stays a page: a run of days is thinned to this many samples.
const MAX_SAMPLES: usize = 1_200;

/// Resources of the processes under test, one entry per process name, in a stable order.
pub trait ProcessMeter {
    /// Name, microseconds of processor time since the last call, resident bytes now.
    fn sample(&mut self, at: Instant) -> Vec<(String, u64, u64)>;
}

/// Nothing is watched.
impl ProcessMeter for () {
    fn sample(&mut self, _at: Instant) -> Vec<(String, u64, u64)> {
        Vec::new()
    }
}

/// An observer whose report can be taken when the run has ended.
pub struct Recorder<M> {
    /// Shared with the caller, which reads it after the run.
    report: Arc<Mutex<Report>>,
    /// Measures the watched processes.
    meter: M,
    /// Judged at the end.
    thresholds: Vec<Threshold>,
    /// Readings at the stages of a load of users.
    stages: StageReader,
    /// Memory of each watched process, while there is load.
    memory: Vec<(String, Series)>,
}

impl<M: ProcessMeter> Recorder<M> {
    /// Before the run begins: what the processes have then is not of it.
    pub fn new(title: &str, thresholds: Vec<Threshold>, mut meter: M) -> Self {
        let stages = StageReader::new(&meter.sample(Instant::default()));
        let report = Report {
            tool: format!("ringer {}", env!("CARGO_PKG_VERSION")),
            title: title.to_owned(),
            ..Report::default()
        };
        Recorder { report: Arc::new(Mutex::new(report)), meter, thresholds, stages, memory: Vec::new() }
    }

    /// Filled in by the end of the run.
    pub fn report(&self) -> Arc<Mutex<Report>> {
        Arc::clone(&self.report)
    }

    fn with(&self, change: impl FnOnce(&mut Report)) {
        change(&mut self.report.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
    }

    /// One interval: the watched processes first, so that their figures belong to the interval that has just ended.
    fn record(&mut self, progress: &Progress) {
        let watched = self.meter.sample(progress.now);
        let stages = self.stages.read(progress, &watched);
        self.with(|report| report.stages.extend(stages));
        self.keep_memory(progress, &watched);
        self.with(|report| {
            let span = progress.span.as_secs_f64();
            report.samples.push(sample(progress));
            for (index, (name, cpu_micros, memory)) in watched.into_iter().enumerate() {
                if report.watched.len() <= index {
                    report.watched.push(model::WatchedProcess { name, ..model::WatchedProcess::default() });
                }
                let entry = &mut report.watched[index];
                // A process that came late has no past: zeros keep its samples beside the others.
                entry.cpu.resize(report.samples.len() - 1, 0.0);
                entry.memory.resize(report.samples.len() - 1, 0);
                #[expect(clippy::cast_precision_loss, reason = "microseconds of an interval")]
                let seconds = cpu_micros as f64 / 1e6;
                entry.cpu.push(if span > 0.0 { seconds / span } else { 0.0 });
                entry.memory.push(memory);
                entry.cpu_seconds += seconds;
                entry.peak_memory = entry.peak_memory.max(memory);
            }
            // Thinned at twice the number: each sample is joined once in a while and not at each interval.
            if report.samples.len() > 2 * MAX_SAMPLES {
                report.thin(MAX_SAMPLES);
            }
        });
    }

    /// Users sign in before the load and out after it; calls are load from the first to the last that is placed.
    fn keep_memory(&mut self, progress: &Progress, watched: &[(String, u64, u64)]) {
        let is_load = match progress.gauges.stage {
            "" => !progress.gauges.quitting,
            stage => stage == "load",
        };
        let at = progress.now.since(progress.started).as_secs_f64();
        for (index, (name, _, memory)) in watched.iter().enumerate().filter(|_| is_load) {
            if self.memory.len() <= index {
                self.memory.push((name.clone(), Series::default()));
            }
            self.memory[index].1.push(at, *memory);
        }
    }
}

impl<M: ProcessMeter> Observer for Recorder<M> {
    fn progress(&mut self, _setup: &Setup, progress: &Progress) {
        self.record(progress);
    }

    fn ended(&mut self, setup: &Setup, outcome: &RunOutcome) {
        // A last interval without length would be a sample of nothing.
        if !outcome.progress.span.is_zero() {
            self.record(&outcome.progress);
        }
        let growth: Vec<model::MemoryGrowth> =
            self.memory.iter().filter_map(|(name, series)| series.growth(name)).collect();
        let judge = |threshold: &Threshold| threshold.judge(&outcome.progress, &setup.scenario.rtds, &growth);
        let verdicts: Vec<model::ThresholdResult> = self.thresholds.iter().map(judge).collect();
        self.with(|report| {
            report.thresholds = verdicts;
            report.growth = growth;
            finish(report, setup, outcome);
            report.tables = tables::of(report);
            report.thin(MAX_SAMPLES);
        });
    }
}

/// The interval as rates per second and times in milliseconds.
#[expect(clippy::cast_precision_loss, reason = "counts of one interval")]
pub(super) fn sample(progress: &Progress) -> ReportSample {
    let stats = &progress.interval;
    let span = progress.span.as_secs_f64();
    let rate = |count: u64| if span > 0.0 { count as f64 / span } else { 0.0 };
    let first = stats.rtds.first().cloned().unwrap_or_default();
    let at =
        |durations: &Durations, quantile| durations.quantile(quantile).map(|time| time.as_secs_f64() * 1e3);
    ReportSample {
        at: progress.now.since(progress.started).as_secs_f64(),
        span,
        due: rate(stats.counts[Count::Due]),
        started: rate(stats.counts[Count::OutgoingCall] + stats.counts[Count::IncomingCall]),
        completed: rate(stats.counts[Count::SuccessfulCall]),
        failed: rate(stats.counts[Count::FailedCall]),
        blocked: rate(stats.counts[Count::Blocked]),
        open: progress.gauges.open_calls,
        retransmissions: rate(stats.counts[Count::Retransmissions]),
        p50: at(&first.service, 0.5),
        p90: at(&first.service, 0.9),
        p99: at(&first.service, 0.99),
        max: at(&first.service, 1.0),
        due_p99: at(&first.response, 0.99),
        ringer_cpu: rate(stats.counts[Count::CpuMicros]) / 1e6,
        late_p99: at(&stats.start_delay, 0.99),
    }
}

/// Everything that is known only at the end.
fn finish(report: &mut Report, setup: &Setup, outcome: &RunOutcome) {
    let progress = &outcome.progress;
    let stats = &progress.total;
    // Worker processes of users are given the words alone.
    let program: &[&str] = if setup.chat.is_some() { &["ringer", "xmpp"] } else { &[] };
    let words = setup.options.command_line.iter().cloned();
    report.command_line = program.iter().map(|word| (*word).to_owned()).chain(words).collect();
    report.scenario = scenario_text(&setup.scenario);
    report.arrivals = match setup.options.rate.users {
        _ if setup.chat.is_some() => ArrivalMode::Rate,
        _ if !setup.scenario.starts_calls() => ArrivalMode::Incoming,
        Some(users) => ArrivalMode::Users(users.into()),
        None => ArrivalMode::Rate,
    };
    report.started = rfc3339(progress.started.unix_seconds());
    report.seconds = progress.now.since(progress.started).as_secs_f64();
    report.machine = machine::description();
    report.threads = progress.gauges.threads;
    report.end = match outcome.end {
        RunEnd::Normal => "normal",
        RunEnd::Internal => "internal",
        RunEnd::Timeout => "timeout",
        RunEnd::Terminated => "terminated",
        RunEnd::Failures => "failures",
        RunEnd::NoAccounts => "no accounts",
        RunEnd::Fatal => "fatal",
    }
    .to_owned();
    report.limited_by_ringer.clone_from(&outcome.limited_by_ringer);
    report.totals = totals(progress);
    let timers = |get: fn(&TimerDurations) -> &Durations| -> Vec<TimeSummary> {
        let named = setup.scenario.rtds.iter().zip(&stats.rtds);
        named.map(|(name, timer)| times(name, get(timer))).filter(|times| times.n > 0).collect()
    };
    report.response_times = timers(|timer| &timer.service);
    report.response_from_due = timers(|timer| &timer.response);
    report.call_length = times("call length", &stats.call_length);
    report.start_delay = times("start", &stats.start_delay);
    report.pacing = times("media", &stats.media_delay);
    report.failures = failures(stats);
    let codes = stats.error_codes.iter();
    report.error_codes =
        codes.map(|(code, count)| NamedTimes { name: code.to_string(), count: *count }).collect();
    report.media = media(stats);
    report.chat =
        setup.chat.as_ref().map(|load| chat(stats, load.people.presence_share(), certificate(setup, load)));
    report.steps = steps(&setup.scenario, stats);
    report.errors.clone_from(&progress.errors);
    report.silence = unanswered::reason(setup, progress);
}

/// The scenario as it was read, so that a report can be repeated without its files.
fn scenario_text(scenario: &Scenario) -> model::ScenarioText {
    let source = match &scenario.source {
        ScenarioSource::File(path) => path.display().to_string(),
        ScenarioSource::BuiltIn(name) => format!("built in: {name}"),
    };
    model::ScenarioText { name: scenario.name.clone(), source, text: scenario.text.clone() }
}

/// The rate is that of the time in which calls were placed, not of the whole run.
#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
pub(super) fn totals(progress: &Progress) -> ReportTotals {
    let placing = progress.placing.as_secs_f64();
    let counts = &progress.total.counts;
    ReportTotals {
        due: counts[Count::Due],
        blocked: counts[Count::Blocked],
        started: counts[Count::OutgoingCall],
        incoming: counts[Count::IncomingCall],
        successful: counts[Count::SuccessfulCall],
        failed: counts[Count::FailedCall],
        rate: if placing > 0.0 { counts[Count::SuccessfulCall] as f64 / placing } else { 0.0 },
        peak_open: progress.gauges.peak_open_calls,
        messages_sent: counts[Count::MessagesSent],
        messages_received: counts[Count::MessagesReceived],
        retransmissions: counts[Count::Retransmissions],
        malformed: counts[Count::Malformed],
        out_of_call: counts[Count::OutOfCallMsgs],
        receive_drops: counts[Count::ReceiveDrops],
        ringer_cpu: counts[Count::CpuMicros] as f64 / 1e6,
    }
}

/// A distribution in milliseconds; without values all are 0.
fn times(name: &str, durations: &Durations) -> TimeSummary {
    let millis = |time: Option<std::time::Duration>| time.map_or(0.0, |time| time.as_secs_f64() * 1e3);
    TimeSummary {
        name: name.to_owned(),
        n: durations.n,
        mean: millis(durations.mean()),
        deviation: millis(durations.deviation()),
        min: millis(durations.quantile(0.0)),
        p50: millis(durations.quantile(0.5)),
        p90: millis(durations.quantile(0.9)),
        p95: millis(durations.quantile(0.95)),
        p99: millis(durations.quantile(0.99)),
        p999: millis(durations.quantile(0.999)),
        max: millis(durations.quantile(1.0)),
    }
}

/// Causes that occurred, the most frequent first.
pub(super) fn failures(stats: &Stats) -> Vec<NamedTimes> {
    let mut failures: Vec<NamedTimes> = Count::FAILURES
        .iter()
        .map(|count| NamedTimes { name: format!("{count:?}"), count: stats.counts[*count] })
        .filter(|named| named.count > 0)
        .collect();
    failures.sort_by_key(|named| std::cmp::Reverse(named.count));
    failures
}

/// The accounting of a load of users. The lost, waiting and unseen messages follow from the other counts.
fn chat(stats: &Stats, presence_share: f64, certificate: String) -> model::XmppReport {
    let counts = &stats.counts;
    model::XmppReport {
        sent: counts[Count::ChatSent],
        received: counts[Count::ChatReceived],
        stored: counts[Count::ChatStored],
        refused: counts[Count::ChatRefused],
        waiting: stats.waiting(),
        lost: stats.lost(),
        duplicated: counts[Count::ChatDuplicated],
        reordered: counts[Count::ChatReordered],
        misdelivered: counts[Count::ChatMisdelivered],
        expected: counts[Count::PresenceExpected],
        seen: counts[Count::PresenceSeen],
        unseen: stats.unseen(),
        presence_share,
        redirected: counts[Count::Redirected],
        gave_up: counts[Count::GaveUp],
        registered: counts[Count::Registered],
        already_registered: counts[Count::AlreadyRegistered],
        unregistered: counts[Count::Unregistered],
        certificate,
    }
}

/// In words, because a run with an unverified server should say so.
fn certificate(setup: &Setup, load: &lab_xmpp::XmppLoad) -> String {
    match &setup.options.network.tls.ca {
        _ if load.security == lab_xmpp::StreamSecurity::None => "not asked for: no TLS".to_owned(),
        Some(file) => format!("verified by {}", file.display()),
        None => "not verified: any will do without --tls-ca".to_owned(),
    }
}

/// `None` without RTP. Jitter is kept in microseconds and MOS in thousandths.
#[expect(clippy::cast_precision_loss, reason = "microseconds and thousandths")]
fn media(stats: &Stats) -> Option<model::MediaReport> {
    let media = &stats.media;
    let sent = stats.counts[Count::RtpSent];
    let scaled = |value: Option<u64>| value.map_or(0.0, |value| value as f64 / 1e3);
    (sent > 0 || stats.counts[Count::RtpReceived] > 0).then(|| model::MediaReport {
        streams: media.streams,
        packets_sent: sent,
        packets_received: stats.counts[Count::RtpReceived],
        lost: media.lost,
        reordered: media.reordered,
        duplicates: media.duplicates,
        one_way: media.one_way,
        digits: media.digits,
        jitter_p50: scaled(media.jitter.value_at(0.5)),
        jitter_p99: scaled(media.jitter.value_at(0.99)),
        mos_p50: scaled(media.mos.value_at(0.5)),
        mos_p1: scaled(media.mos.value_at(0.01)),
    })
}

/// The steps that the scenario screen shows.
fn steps(scenario: &Scenario, stats: &Stats) -> Vec<model::StepReport> {
    let steps = scenario.steps.iter().zip(&stats.steps).filter(|(step, _)| !step.screen.hide);
    steps
        .map(|(step, counts)| model::StepReport {
            name: step_name(&step.kind),
            messages: counts.messages,
            retransmissions: counts.retransmissions,
            timeouts: counts.timeouts,
            unexpected: counts.unexpected,
        })
        .collect()
}

/// The kind of a step with an arrow for its direction.
fn step_name(kind: &StepKind) -> String {
    match kind {
        StepKind::Send(send) => match &send.what {
            SentKind::Request(method) => format!("{method} →"),
            SentKind::Response(code) => format!("{code} →"),
        },
        StepKind::Recv(recv) => match &recv.expect {
            Expect::Request(method) => format!("← {method}"),
            Expect::Response(code) => format!("← {code}"),
            Expect::RequestPattern(pattern) | Expect::ResponsePattern(pattern) => {
                format!("← /{}/", pattern.as_str())
            }
        },
        StepKind::Pause(_) => "pause".to_owned(),
        StepKind::TimeWait(time) => format!("timewait {} ms", time.as_millis()),
        StepKind::Nop => "nop".to_owned(),
        StepKind::SendCmd { .. } => "command →".to_owned(),
        StepKind::RecvCmd { .. } => "← command".to_owned(),
    }
}

/// `2026-11-21T10:53:00Z`.
pub(crate) fn rfc3339(unix_seconds: u64) -> String {
    let seconds = unix_seconds % 86_400;
    let Date { year, month, day } = Date::from_unix_seconds(unix_seconds);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z",
        seconds / 3_600,
        seconds / 60 % 60,
        seconds % 60
    )
}

//! A run recorded, and the files made of it.

use std::time::Duration;

use lab_report::{Report, junit, model, page};
use lab_sip::stats::{Count, Stats, TimerDurations};
use stdx::time::Instant;

use super::record::rfc3339;
use super::*;
use crate::engine::{Gauges, Progress, RunEnd, RunOutcome};
use crate::session::Observer as _;

fn interval(second: u64, calls: u64) -> Progress {
    let mut stats = Stats { rtds: vec![TimerDurations::default()], ..Stats::default() };
    stats.add(Count::Due, calls);
    stats.add(Count::OutgoingCall, calls);
    stats.add(Count::SuccessfulCall, calls - 1);
    stats.add(Count::FailedCall, 1);
    stats.add(Count::FailedTimeoutOnRecv, 1);
    stats.add(Count::CpuMicros, 250_000);
    stats.rtds[0].service.record(Duration::from_millis(second));
    Progress {
        started: Instant::from_unix_seconds(1_000),
        now: Instant::from_unix_seconds(1_000 + second),
        span: Duration::from_secs(1),
        interval: stats,
        ..Progress::default()
    }
}

fn report(seconds: u64) -> Report {
    let mut report = Report { title: "calls & <more>".to_owned(), ..Report::default() };
    for second in 1..=seconds {
        report.samples.push(super::record::sample(&interval(second, 100)));
    }
    report
}

#[test]
fn samples_are_rates_and_milliseconds() {
    let report = report(3);
    let last = &report.samples[2];
    assert_eq!((last.at, last.due, last.completed, last.failed), (3.0, 100.0, 99.0, 1.0));
    assert!((last.ringer_cpu - 0.25).abs() < 1e-9);
    assert!((last.p99.expect("one value") - 3.0).abs() < 0.01);
}

#[test]
fn a_long_run_is_thinned_without_losing_its_worst() {
    let mut report = report(1_000);
    report.thin(100);
    assert!(report.samples.len() <= 100 && report.samples.len() > 50);
    let worst = report.samples.iter().filter_map(|sample| sample.max).fold(0.0, f64::max);
    assert!((worst - 1_000.0).abs() < 1.0, "{worst}");
    let calls: f64 = report.samples.iter().map(|sample| sample.due * sample.span).sum();
    assert!((calls - 100_000.0).abs() < 1e-3, "{calls}");
}

#[test]
fn the_page_stands_alone_and_escapes() {
    let mut report = report(5);
    report.command_line = vec!["ringer".into(), "sip".into(), "-s".into(), "a b".into()];
    report.scenario.text = "<scenario/>".to_owned();
    report.limited_by_ringer = vec!["shard 0 used 98 % of its core".to_owned()];
    let page = page("one", &[report]);
    for wanted in [
        "calls &amp; &lt;more&gt;",
        "&lt;scenario/&gt;",
        "ringer sip -s 'a b'",
        "Ringer was the limit",
        "<svg",
    ] {
        assert!(page.contains(wanted), "{wanted} is missing");
    }
    for fetched in ["http://", "https://", "<script src", "<link"] {
        assert!(!page.contains(fetched), "{fetched}");
    }
}

#[test]
fn junit_counts_missed_thresholds_as_failures() {
    let mut report = report(1);
    report.thresholds = vec![
        model::ThresholdResult {
            text: "failed == 0".into(),
            measured: Some("3".into()),
            kept: false,
            judged: true,
        },
        model::ThresholdResult {
            text: "response.p99 < 1s".into(),
            measured: Some("2 ms".into()),
            kept: true,
            judged: true,
        },
        model::ThresholdResult {
            text: "growth < 1%/h".into(),
            measured: Some("too short".into()),
            ..Default::default()
        },
    ];
    let xml = junit(std::slice::from_ref(&report));
    assert!(xml.contains("tests=\"4\" failures=\"1\" errors=\"0\" skipped=\"1\""), "{xml}");
    assert!(xml.contains("<skipped message=\"not judged: too short\"/>"), "{xml}");
    assert!(xml.contains("name=\"response.p99 &lt; 1s\""), "{xml}");
    assert!(!report.passed());
}

#[test]
fn json_reads_back() {
    let report = report(2);
    let text = serde_json::to_string(&report).expect("plain data");
    let back: Report = serde_json::from_str(&text).expect("the written text");
    assert_eq!(back.samples.len(), 2);
    assert!(page("two runs", &[report, back]).contains("<h1>two runs</h1>"));
}

#[test]
fn dates_are_civil() {
    for (unix, text) in [
        (0, "1970-01-01T00:00:00Z"),
        (951_782_400, "2000-02-29T00:00:00Z"),
        (1_795_258_380, "2026-11-21T10:53:00Z"),
    ] {
        assert_eq!(rfc3339(unix), text);
    }
}

#[test]
fn an_ended_run_has_its_totals() {
    let outcome =
        RunOutcome { progress: interval(10, 100), end: RunEnd::Normal, limited_by_ringer: Vec::new() };
    let totals = super::record::totals(&outcome.progress);
    assert_eq!(totals.rate, 0.0, "nothing is in the total yet");
    let mut progress = outcome.progress;
    progress.total = progress.interval.clone();
    progress.placing = Duration::from_secs(10);
    let totals = super::record::totals(&progress);
    assert!((totals.rate - 9.9).abs() < 1e-9);
    let failures = super::record::failures(&progress.total);
    assert_eq!(failures[0].name, "FailedTimeoutOnRecv");
}

/// A process of 100 MiB that takes so many bytes more each second.
struct LeakingProcess {
    bytes: u64,
    a_second: u64,
}

impl ProcessMeter for LeakingProcess {
    fn sample(&mut self, _at: Instant) -> Vec<(String, u64, u64)> {
        self.bytes += self.a_second;
        vec![("server".to_owned(), 1_000, (100 << 20) + self.bytes)]
    }
}

/// A load of users that lasts so many seconds.
fn watched(a_second: u64, seconds: u64) -> Report {
    let words = ["127.0.0.1".to_owned()];
    let (setup, _) = crate::cli::build_xmpp(&words).expect("right");
    let threshold = crate::threshold::Threshold::parse("growth < 1%/h").expect("right");
    let mut recorder = Recorder::new("soak", vec![threshold], LeakingProcess { bytes: 0, a_second });
    let report = recorder.report();
    let mut progress = interval(1, 10);
    for second in 1..=seconds + 20 {
        progress = interval(second, 10);
        let stage = if second <= 10 { "signing in" } else { "load" };
        progress.gauges = Gauges { stage, peak_open_calls: 10, ..Gauges::default() };
        if second > seconds + 10 {
            progress.gauges.stage = "settling";
        }
        recorder.progress(&setup, &progress);
    }
    progress.span = Duration::ZERO;
    recorder.ended(&setup, &RunOutcome { progress, end: RunEnd::Normal, limited_by_ringer: Vec::new() });
    report.lock().expect("no thread panicked").clone()
}

#[test]
fn a_process_that_grows_fails_a_long_run_and_is_drawn() {
    let leaking = watched(1_000, 3_600);
    assert!(!leaking.passed(), "{:?}", leaking.thresholds);
    assert!((leaking.growth[0].per_hour - 3_600_000.0).abs() < 1.0, "{:?}", leaking.growth);
    let page = page("soak", std::slice::from_ref(&leaking));
    for wanted in
        ["Growth of memory after the warm-up", "<td>grows</td>", "trend", "Memory usage", "CPU usage"]
    {
        assert!(page.contains(wanted), "{wanted} is missing");
    }
    // 10 KB a second over the sign-ins and the load, by ten users.
    assert_eq!(leaking.stages[2].processes[0].a_user, Some(361_100.0));
    assert!(watched(0, 3_600).passed());
}

#[test]
fn a_short_run_is_not_judged_and_says_so() {
    let short = watched(1_000, 600);
    let threshold = &short.thresholds[0];
    assert!(short.passed() && !threshold.kept && !threshold.judged && !threshold.is_missed());
    assert!(
        threshold.to_string().starts_with("not judged: growth < 1%/h (too short to tell: 539 s"),
        "{threshold}"
    );
    let page = page("soak", std::slice::from_ref(&short));
    for wanted in ["passed, 1 threshold not judged", "<td class=\"open\">not judged</td>"] {
        assert!(page.contains(wanted), "{wanted} is missing");
    }
    let measured = threshold.measured.as_deref();
    assert!(
        measured.is_some_and(|measured| measured.starts_with("too short to tell: 539 s")),
        "{measured:?}"
    );
}

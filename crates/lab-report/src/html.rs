//! The report as one HTML file that needs nothing beside it.
//!
//! Sections in order: head with verdict and tiles, thresholds, charts, tables, times, failures, media, steps, command line and scenario. A
//! section without content is left out. All text from outside (names, errors, messages) goes through `escape`.

use std::fmt::Write;

use super::chart::{Chart, ChartLine, escape, number};
use super::model::{MemoryGrowth, Report, ReportSample, TimeSummary};
use super::tables;
use crate::shell;

/// The style sheet, also of the page of a comparison.
pub(super) const STYLE: &str = include_str!("report.css");

/// One run, or several: those are compared in a table above their sections.
pub fn page(title: &str, reports: &[Report]) -> String {
    let mut out = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>{0}</title><style>{STYLE}</style></head><body>\n",
        escape(title)
    );
    if reports.len() != 1 {
        let _ = write!(out, "<h1>{}</h1>", escape(title));
        comparison(&mut out, reports);
    }
    for report in reports {
        head(&mut out, report);
        charts(&mut out, report);
        report.tables.iter().for_each(|table| tables::html(&mut out, table));
        times(&mut out, report);
        failures(&mut out, report);
        media(&mut out, report);
        steps(&mut out, report);
        sources(&mut out, report);
    }
    out.push_str("</body></html>\n");
    out
}

/// The names of what a load is made of: sign-ins and actions of users are counted as calls are.
struct LoadNouns {
    /// The tile of the rate.
    completed: &'static str,
    /// The tile of the peak.
    peak: &'static str,
    /// Titles of charts.
    rates: &'static str,
    /// That of the chart of calls (or users) at a time.
    open: &'static str,
    /// The line of the second.
    gauge: &'static str,
    /// Rows of the table of times.
    length: &'static str,
    start: &'static str,
}

const OF_CALLS: LoadNouns = LoadNouns {
    completed: "calls completed a second",
    peak: "peak open",
    rates: "Calls",
    open: "Open calls",
    gauge: "open",
    length: "call length",
    start: "start after due",
};

const OF_USERS: LoadNouns = LoadNouns {
    completed: "sign-ins and actions completed a second",
    peak: "users at once",
    rates: "Sign-ins and actions",
    open: "Users signed in",
    gauge: "signed in",
    length: "length of an action",
    start: "action after due",
};

impl LoadNouns {
    fn of(report: &Report) -> &'static LoadNouns {
        if report.is_of_users() { &OF_USERS } else { &OF_CALLS }
    }
}

/// Ringer's own limit comes before the verdict: such a run neither passed nor missed.
fn head(out: &mut String, report: &Report) {
    let totals = &report.totals;
    let verdict = if !report.limited_by_ringer.is_empty() {
        ("limited", "Ringer was the limit: this run does not count")
    } else if report.passed() {
        ("passed", "passed")
    } else {
        ("missed", "missed")
    };
    let not_judged = match report.not_judged() {
        0 => String::new(),
        1 => ", 1 threshold not judged".to_owned(),
        several => format!(", {several} thresholds not judged"),
    };
    let _ = write!(
        out,
        "<h1>{}</h1><p class=\"verdict {}\">{}{not_judged}</p><p>{} · {} · {:.1} s · {} threads · ended: {}</p>",
        escape(&report.title),
        verdict.0,
        verdict.1,
        escape(&report.started),
        escape(&report.tool),
        report.seconds,
        report.threads,
        escape(&report.end)
    );
    list(out, "Why Ringer was the limit", &report.limited_by_ringer);
    out.push_str("<div class=\"tiles\">");
    let words = LoadNouns::of(report);
    // TCP retransmits below a stream of XMPP, unseen.
    let retransmissions =
        (!report.is_of_users()).then_some(("retransmissions", totals.retransmissions.to_string()));
    let tiles = [
        (words.completed, format!("{:.1}", totals.rate)),
        ("successful", totals.successful.to_string()),
        ("failed", totals.failed.to_string()),
        ("due", totals.due.to_string()),
        ("blocked", totals.blocked.to_string()),
        (words.peak, totals.peak_open.to_string()),
    ];
    let own = [("Ringer's CPU", format!("{:.1} s", totals.ringer_cpu))];
    for (name, value) in tiles.into_iter().chain(retransmissions).chain(own) {
        let _ = write!(out, "<div><b>{value}</b><span>{name}</span></div>");
    }
    out.push_str("</div>\n");
    thresholds(out, report);
}

/// Each threshold as the user wrote it, with the measured value. One that was not judged is neither kept nor missed.
fn thresholds(out: &mut String, report: &Report) {
    if report.thresholds.is_empty() {
        return;
    }
    out.push_str("<h2>Thresholds</h2><table><tr><th>threshold</th><th>measured</th><th></th></tr>");
    for threshold in &report.thresholds {
        let (class, word) = match (threshold.judged, threshold.kept) {
            (false, _) => ("open", "not judged"),
            (true, true) => ("passed", "kept"),
            (true, false) => ("missed", "missed"),
        };
        let _ = write!(
            out,
            "<tr><td><code>{}</code></td><td>{}</td><td class=\"{class}\">{word}</td></tr>",
            escape(&threshold.text),
            escape(threshold.measured.as_deref().unwrap_or("nothing"))
        );
    }
    out.push_str("</table>\n");
}

/// A section of plain texts; nothing when there are none.
fn list(out: &mut String, title: &str, items: &[String]) {
    if items.is_empty() {
        return;
    }
    let _ = write!(out, "<h2>{title}</h2><ul>");
    for item in items {
        let _ = write!(out, "<li>{}</li>", escape(item));
    }
    out.push_str("</ul>\n");
}

/// Every chart has the samples of the report; one without any value is left out.
fn charts(out: &mut String, report: &Report) {
    let at: Vec<f64> = report.samples.iter().map(|sample| sample.at).collect();
    if at.is_empty() {
        return;
    }
    let line = |name, class, get: fn(&ReportSample) -> Option<f64>| ChartLine {
        name,
        class,
        values: report.samples.iter().map(get).collect(),
    };
    let words = LoadNouns::of(report);
    #[expect(clippy::cast_precision_loss, reason = "open calls")]
    let groups = [
        (
            words.rates,
            "per second",
            vec![
                line("offered", "a", |s| Some(s.due)),
                line("started", "b", |s| Some(s.started)),
                line("completed", "c", |s| Some(s.completed)),
                line("failed", "d", |s| Some(s.failed)),
            ],
        ),
        (
            "Response time",
            "ms",
            vec![
                line("p50", "c", |s| s.p50),
                line("p90", "b", |s| s.p90),
                line("p99", "a", |s| s.p99),
                line("max", "f", |s| s.max),
                line("p99 from the due time", "d", |s| s.due_p99),
            ],
        ),
        (words.open, "", vec![line(words.gauge, "a", |s| Some(s.open as f64))]),
        ("Ringer's own CPU", "share of one core", vec![line("CPU", "a", |s| Some(s.ringer_cpu))]),
        ("Ringer's own lateness", "ms", vec![line("start after due, p99", "d", |s| s.late_p99)]),
    ];
    for (title, unit, lines) in groups {
        if lines.iter().all(|line| line.values.iter().all(Option::is_none)) {
            continue;
        }
        out.push_str(&Chart { title, unit, at: &at, lines }.render());
    }
    watched(out, report, &at);
}

/// Two charts for each watched process: its share of a core, and its memory with the fitted line.
#[expect(clippy::cast_precision_loss, reason = "bytes for a chart")]
fn watched(out: &mut String, report: &Report, at: &[f64]) {
    for process in &report.watched {
        let title = format!("CPU of {}", process.name);
        let cpu =
            ChartLine { name: "CPU", class: "a", values: process.cpu.iter().copied().map(Some).collect() };
        out.push_str(&Chart { title: &title, unit: "share of one core", at, lines: vec![cpu] }.render());
        let title = format!("Memory of {}", process.name);
        let memory = process.memory.iter().map(|bytes| Some(*bytes as f64 / 1_048_576.0)).collect();
        let mut lines = vec![ChartLine { name: "resident", class: "b", values: memory }];
        let growth = report.growth.iter().find(|growth| growth.name == process.name);
        lines.extend(growth.map(|growth| trend(growth, at)));
        out.push_str(&Chart { title: &title, unit: "MiB", at, lines }.render());
    }
}

/// The fitted line whose slope is the growth, over the time of the fit.
fn trend<'a>(growth: &MemoryGrowth, at: &[f64]) -> ChartLine<'a> {
    let value = |at: &f64| {
        let since = at - growth.from;
        let is_within = (0.0..=growth.seconds).contains(&since);
        is_within.then(|| (growth.memory + growth.per_hour * since / 3_600.0) / 1_048_576.0)
    };
    ChartLine { name: "trend", class: "d", values: at.iter().map(value).collect() }
}

/// All distributions; those without values have no row.
fn times(out: &mut String, report: &Report) {
    out.push_str(
        "<h2>Times</h2><table><tr><th>ms</th><th>n</th><th>mean</th><th>stdev</th><th>p50</th><th>p90</th><th>p95</th>\
         <th>p99</th><th>p99.9</th><th>max</th></tr>",
    );
    for times in &report.response_times {
        row(out, &format!("response {}", times.name), times);
    }
    for times in &report.response_from_due {
        row(out, &format!("response {}, from the due time", times.name), times);
    }
    let words = LoadNouns::of(report);
    row(out, words.length, &report.call_length);
    row(out, words.start, &report.start_delay);
    row(out, "media after due", &report.pacing);
    out.push_str("</table>\n");
}

/// One distribution of times in milliseconds, with three decimals.
fn row(out: &mut String, name: &str, times: &TimeSummary) {
    if times.n == 0 {
        return;
    }
    let _ = write!(out, "<tr><td>{}</td><td>{}</td>", escape(name), times.n);
    for value in
        [times.mean, times.deviation, times.p50, times.p90, times.p95, times.p99, times.p999, times.max]
    {
        let _ = write!(out, "<td>{value:.3}</td>");
    }
    out.push_str("</tr>");
}

/// Causes with bars relative to the largest, then unexpected answers and the last errors.
fn failures(out: &mut String, report: &Report) {
    let largest = report.failures.iter().map(|named| named.count).max().unwrap_or(0).max(1);
    if !report.failures.is_empty() {
        out.push_str("<h2>Failures by cause</h2><table>");
        for named in &report.failures {
            let width = 100 * named.count / largest;
            let _ = write!(
                out,
                "<tr><td>{}</td><td>{}</td><td class=\"bar\"><i style=\"width:{width}%\"></i></td></tr>",
                escape(&named.name),
                named.count
            );
        }
        out.push_str("</table>\n");
    }
    if !report.error_codes.is_empty() {
        out.push_str("<h2>Answers that were not expected</h2><table>");
        for named in &report.error_codes {
            let _ = write!(out, "<tr><td>{}</td><td>{}</td></tr>", escape(&named.name), named.count);
        }
        out.push_str("</table>\n");
    }
    list(out, "Last errors", &report.errors);
    list(out, "Why nothing came", report.silence.as_slice());
}

/// The totals of all streams of the run.
fn media(out: &mut String, report: &Report) {
    let Some(media) = &report.media else { return };
    out.push_str("<h2>Media</h2><table>");
    for (name, value) in [
        ("packets sent", media.packets_sent.to_string()),
        ("packets received", media.packets_received.to_string()),
        ("streams received", media.streams.to_string()),
        ("lost", media.lost.to_string()),
        ("reordered", media.reordered.to_string()),
        ("duplicates", media.duplicates.to_string()),
        ("calls with media one way only", media.one_way.to_string()),
        ("digits heard", media.digits.to_string()),
        ("jitter, p50 and p99", format!("{:.2} ms, {:.2} ms", media.jitter_p50, media.jitter_p99)),
        ("MOS, middle and worst of a hundred", format!("{:.2}, {:.2}", media.mos_p50, media.mos_p1)),
    ] {
        let _ = write!(out, "<tr><td>{name}</td><td>{value}</td></tr>");
    }
    out.push_str("</table>\n");
}

/// One row a step of the scenario, in its order, summed over all calls.
fn steps(out: &mut String, report: &Report) {
    if report.steps.is_empty() {
        return;
    }
    out.push_str(
        "<h2>Steps</h2><table><tr><th>step</th><th>messages</th><th>retransmissions</th><th>time-outs</th><th>unexpected</th></tr>",
    );
    for step in &report.steps {
        let _ = write!(
            out,
            "<tr><td><code>{}</code></td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            escape(&step.name),
            step.messages,
            step.retransmissions,
            step.timeouts,
            step.unexpected
        );
    }
    out.push_str("</table>\n");
}

/// The command line and the scenario: enough to repeat the run.
fn sources(out: &mut String, report: &Report) {
    let _ = write!(
        out,
        "<h2>Command line</h2><pre>{}</pre><h2>Scenario</h2><details><summary>{} ({})</summary><pre>{}</pre></details>",
        escape(&shell::join(&report.command_line)),
        escape(&report.scenario.name),
        escape(&report.scenario.source),
        escape(&report.scenario.text)
    );
}

/// One row a run, for pages of several.
fn comparison(out: &mut String, reports: &[Report]) {
    let rate = if reports.iter().all(Report::is_of_users) { "done/s" } else { "calls/s" };
    let _ = write!(
        out,
        "<table><tr><th>run</th><th>{rate}</th><th>ok</th><th>failed</th><th>blocked</th><th>p50 ms</th><th>p99 ms</th>\
         <th>max ms</th><th>peak open</th><th>Ringer's CPU, s</th><th>watched CPU, s</th><th></th></tr>",
    );
    for report in reports {
        let first = report.response_times.first().cloned().unwrap_or_default();
        let watched: f64 = report.watched.iter().map(|watched| watched.cpu_seconds).sum();
        let word = if report.passed() { "passed" } else { "missed" };
        let _ = write!(
            out,
            "<tr><td>{}<br><small>{}</small></td><td>{:.1}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>\
             <td>{}</td><td>{:.1}</td><td>{watched:.1}</td><td class=\"{word}\">{word}</td></tr>",
            escape(&report.title),
            escape(&report.started),
            report.totals.rate,
            report.totals.successful,
            report.totals.failed,
            report.totals.blocked,
            number(first.p50),
            number(first.p99),
            number(first.max),
            report.totals.peak_open,
            report.totals.ringer_cpu
        );
    }
    out.push_str("</table>\n");
}

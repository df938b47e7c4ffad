//! The page of a comparison: verdict, figures, and both runs in each plot.
//!
//! Made of the same tables and charts as a report's page. The time axis is that of the longer run.

use std::fmt::Write;

use super::chart::{Chart, ChartLine, escape};
use super::compare::{Change, Comparison};
use super::html::STYLE;
use super::model::{Report, ReportSample};

/// One file that needs nothing beside it; a section for each pair of runs.
pub fn comparison_page(pairs: &[(Comparison, &Report, &Report)]) -> String {
    let mut out = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>Comparison</title><style>{STYLE}</style></head><body>\n"
    );
    for (comparison, before, after) in pairs {
        head(&mut out, comparison, before, after);
        figures(&mut out, comparison);
        charts(&mut out, before, after);
    }
    out.push_str("</body></html>\n");
    out
}

/// Titles, verdict, and when, with what and where each run took place.
fn head(out: &mut String, comparison: &Comparison, before: &Report, after: &Report) {
    let class = match comparison.worse().next() {
        _ if !comparison.not_comparable.is_empty() => "open",
        Some(_) => "missed",
        None => "passed",
    };
    let _ = write!(
        out,
        "<h1>{} → {}</h1><p class=\"verdict {class}\">{}</p>",
        escape(&comparison.titles[0]),
        escape(&comparison.titles[1]),
        escape(&comparison.verdict())
    );
    for (which, report) in [("first", before), ("second", after)] {
        let _ = write!(
            out,
            "<p>{which}: {} · {} · {:.1} s · {}</p>",
            escape(&report.started),
            escape(&report.tool),
            report.seconds,
            escape(&report.machine)
        );
    }
    if !comparison.not_comparable.is_empty() {
        out.push_str("<h2>Not comparable</h2><ul>");
        for reason in &comparison.not_comparable {
            let _ = write!(out, "<li>{}</li>", escape(reason));
        }
        out.push_str("</ul>\n");
    }
}

/// The table; only the cell of the verdict is coloured.
fn figures(out: &mut String, comparison: &Comparison) {
    let table = comparison.table();
    out.push_str("<table><tr>");
    for cell in &table.head {
        let _ = write!(out, "<th>{}</th>", escape(cell));
    }
    out.push_str("</tr>");
    for (row, figure) in table.measured.iter().zip(&comparison.figures) {
        let class = match figure.change {
            Change::Worse => "missed",
            Change::Better => "passed",
            Change::Missing => "open",
            Change::Same | Change::NotJudged => "",
        };
        out.push_str("<tr>");
        for (column, cell) in row.iter().enumerate() {
            let class = if column + 1 == row.len() { class } else { "" };
            let _ = write!(out, "<td class=\"{class}\">{}</td>", escape(cell));
        }
        out.push_str("</tr>");
    }
    out.push_str("</table>\n");
}

/// The value of a sample that a chart shows.
type SampleValue = fn(&ReportSample) -> Option<f64>;

/// Both runs in each chart; a chart without any value is left out.
fn charts(out: &mut String, before: &Report, after: &Report) {
    let longer = if before.samples.len() >= after.samples.len() { before } else { after };
    let at: Vec<f64> = longer.samples.iter().map(|sample| sample.at).collect();
    if at.is_empty() {
        return;
    }
    #[expect(clippy::cast_precision_loss, reason = "open calls")]
    let open: SampleValue = |sample| Some(sample.open as f64);
    let plots: [(&str, &str, SampleValue); 6] = [
        ("Completed", "per second", |sample| Some(sample.completed)),
        ("Failed", "per second", |sample| Some(sample.failed)),
        ("Response time, p50", "ms", |sample| sample.p50),
        ("Response time, p99", "ms", |sample| sample.p99),
        ("Open", "", open),
        ("Ringer's own CPU", "share of one core", |sample| Some(sample.ringer_cpu)),
    ];
    for (title, unit, get) in plots {
        let line = |name, class, report: &Report| ChartLine {
            name,
            class,
            values: along(&report.samples, &at, get),
        };
        let lines = vec![line("first", "a", before), line("second", "d", after)];
        if lines.iter().any(|line| line.values.iter().any(Option::is_some)) {
            out.push_str(&Chart { title, unit, at: &at, lines }.render());
        }
    }
}

/// The values of a run at the times of another: that of the interval that a time falls into, none after its end.
fn along(samples: &[ReportSample], at: &[f64], get: SampleValue) -> Vec<Option<f64>> {
    let mut next = 0;
    let mut value = |at: &f64| {
        // Ends of intervals differ by what the clock of a run was late.
        while samples.get(next).is_some_and(|sample| sample.at < at - sample.span / 2.0) {
            next += 1;
        }
        samples.get(next).and_then(get)
    };
    at.iter().map(&mut value).collect()
}

#[cfg(test)]
mod tests {
    use super::super::compare::compare;
    use super::*;

    fn run(title: &str, seconds: u32, value: f64) -> Report {
        let sample = |at: u32| ReportSample {
            at: f64::from(at) + 0.01,
            span: 1.0,
            completed: value,
            p99: Some(value),
            ..ReportSample::default()
        };
        Report { title: title.to_owned(), samples: (1..=seconds).map(sample).collect(), ..Report::default() }
    }

    #[test]
    fn both_runs_are_in_each_plot() {
        let (before, after) = (run("a <b>", 30, 2.0), run("after", 10, 3.0));
        let page = comparison_page(&[(compare(&before, &after, 0.05), &before, &after)]);
        assert!(page.contains("a &lt;b&gt; → after"), "{page}");
        assert!(page.contains("<h2>Not comparable</h2>"), "too short and without machines");
        let figures = page.matches("<figure>").count();
        assert_eq!(figures, 5, "all but the p50, which neither has");
        assert_eq!(page.matches("<title>first</title>").count(), figures);
        assert_eq!(page.matches("<title>second</title>").count(), figures);
    }

    #[test]
    fn a_run_is_drawn_along_the_times_of_a_longer_one() {
        let at: Vec<f64> = (1..=6).map(f64::from).collect();
        let drawn = along(&run("x", 4, 7.0).samples, &at, |sample| Some(sample.completed));
        assert_eq!(drawn, [Some(7.0), Some(7.0), Some(7.0), Some(7.0), None, None]);
        assert_eq!(along(&[], &at, |sample| sample.p50), [None; 6]);
    }
}

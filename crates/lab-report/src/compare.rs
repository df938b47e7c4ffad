//! Two runs of the same load beside each other: each figure with its difference, and whether it got worse.
//!
//! The order: [`compare`] gathers figures by kind (totals, times, media, users, processes), each with the direction that is better; then reasons
//! are collected why the runs may not be compared. Both are told: figures of runs that are not comparable are still shown, but not judged.

use serde::Serialize;

use super::model::{ArrivalMode, Report, ReportSample, ReportTable, TimeSummary};

/// A difference of a time below this is noise of timers and scheduling, whatever its share (milliseconds).
const TIME_FLOOR: f64 = 0.1;
/// Runs shorter than this have too few values for percentiles (seconds).
const SHORTEST: f64 = 10.0;
/// Below this a 99th percentile is a matter of a single call.
const FEWEST: u64 = 100;
/// Offered rates that differ by more than this share are different loads.
const SAME_RATE: f64 = 0.02;

/// The direction in which a figure gets better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BetterWhen {
    /// A rate, a quality.
    Higher,
    /// A time, a number of failures.
    Lower,
    /// Neither: a property of the load.
    Neutral,
}

/// The verdict on one figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// Within the tolerance, or neither good nor bad.
    Same,
    /// Better by more than the tolerance.
    Better,
    /// Worse by more than the tolerance.
    Worse,
    /// One of the runs does not have the figure.
    Missing,
    /// The runs are not comparable: the difference says nothing about the system under test.
    NotJudged,
}

/// One figure of both runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComparedFigure {
    /// The name, as thresholds have it where they know it.
    pub name: String,
    /// `ms`, `%`, `calls/s`.
    pub unit: &'static str,
    /// The value of the first run.
    pub before: Option<f64>,
    /// The value of the second run.
    pub after: Option<f64>,
    /// The difference as a share of the first value; `None` when that is 0 or a value is missing.
    pub share: Option<f64>,
    /// The direction in which a figure gets better.
    pub better: BetterWhen,
    /// The verdict.
    pub change: Change,
}

/// Two runs compared.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// The titles of the runs.
    pub titles: [String; 2],
    /// Why the figures may not be compared; empty when they may.
    pub not_comparable: Vec<String>,
    /// The figures, in the order of the table.
    pub figures: Vec<ComparedFigure>,
    /// The share up to which a figure counts as unchanged.
    pub tolerance: f64,
}

/// Compares two runs; `tolerance` is a share, 0.05 for 5 %.
pub fn compare(before: &Report, after: &Report, tolerance: f64) -> Comparison {
    let mut list = FigureList { figures: Vec::new(), tolerance };
    list.totals(before, after);
    list.times(before, after);
    list.media(before, after);
    list.users(before, after);
    list.processes(before, after);
    let not_comparable = not_comparable(before, after);
    if !not_comparable.is_empty() {
        list.judge_none();
    }
    Comparison {
        titles: [before.title.clone(), after.title.clone()],
        not_comparable,
        figures: list.figures,
        tolerance,
    }
}

impl Comparison {
    /// The figures that got worse.
    pub fn worse(&self) -> impl Iterator<Item = &ComparedFigure> {
        self.figures.iter().filter(|figure| figure.change == Change::Worse)
    }

    /// A table for the terminal and the page.
    pub fn table(&self) -> ReportTable {
        let row = |figure: &ComparedFigure| {
            let cell = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), number);
            let difference = match (figure.before, figure.after) {
                (Some(before), Some(after)) => signed(after - before),
                _ => "–".to_owned(),
            };
            let share =
                figure.share.map_or_else(|| "–".to_owned(), |share| format!("{:+.1} %", share * 100.0));
            let word = match figure.change {
                Change::Same => "",
                Change::Better => "better",
                Change::Worse => "WORSE",
                Change::Missing => "not in both",
                Change::NotJudged => "not judged",
            };
            let name = if figure.unit.is_empty() {
                figure.name.clone()
            } else {
                format!("{}, {}", figure.name, figure.unit)
            };
            vec![name, cell(figure.before), cell(figure.after), difference, share, word.to_owned()]
        };
        ReportTable {
            head: ["figure", "first", "second", "difference", "share", ""].map(str::to_owned).to_vec(),
            measured: self.figures.iter().map(row).collect(),
            ..ReportTable::default()
        }
    }

    /// The verdict in one sentence.
    pub fn verdict(&self) -> String {
        if !self.not_comparable.is_empty() {
            return "not judged: the runs are not comparable".to_owned();
        }
        let tolerance = format!("{:.1} %", self.tolerance * 100.0).replace(".0 %", " %");
        match self.worse().count() {
            0 => format!("nothing got worse by more than {tolerance}"),
            1 => format!("1 figure got worse by more than {tolerance}"),
            several => format!("{several} figures got worse by more than {tolerance}"),
        }
    }
}

/// Three decimals below a hundred, one below ten thousand.
fn number(value: f64) -> String {
    let text = match value.abs() {
        size if size >= 10_000.0 => format!("{value:.0}"),
        size if size >= 100.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    };
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

fn signed(value: f64) -> String {
    let text = number(value);
    if value > 0.0 && text != "0" { format!("+{text}") } else { text }
}

/// One figure of a time.
type TimeFigure = fn(&TimeSummary) -> f64;

/// The figures while they are gathered.
struct FigureList {
    figures: Vec<ComparedFigure>,
    /// The share up to which a figure counts as unchanged.
    tolerance: f64,
}

impl FigureList {
    /// Adds a figure unless neither run has it. Times have a floor below which a difference is noise.
    fn add(&mut self, name: &str, unit: &'static str, better: BetterWhen, values: [Option<f64>; 2]) {
        let [before, after] = values;
        if before.is_none() && after.is_none() {
            return;
        }
        let floor = if unit == "ms" { TIME_FLOOR } else { 0.0 };
        let (share, change) = match (before, after) {
            (Some(before), Some(after)) => {
                let share = (before != 0.0).then(|| (after - before) / before.abs());
                (share, self.change(before, after, better, floor))
            }
            _ => (None, Change::Missing),
        };
        self.figures.push(ComparedFigure {
            name: name.to_owned(),
            unit,
            before,
            after,
            share,
            better,
            change,
        });
    }

    /// Withdraws the verdicts: the runs are not comparable.
    fn judge_none(&mut self) {
        for figure in self.figures.iter_mut().filter(|figure| figure.change != Change::Missing) {
            figure.change = Change::NotJudged;
        }
    }

    /// A change must exceed both the tolerance and the floor.
    fn change(&self, before: f64, after: f64, better: BetterWhen, floor: f64) -> Change {
        let difference = after - before;
        if better == BetterWhen::Neutral || difference.abs() <= (before.abs() * self.tolerance).max(floor) {
            return Change::Same;
        }
        let is_better = (difference > 0.0) == (better == BetterWhen::Higher);
        if is_better { Change::Better } else { Change::Worse }
    }

    /// Rates are judged, loads are not: the offered rate and the peak are properties of the load.
    fn totals(&mut self, before: &Report, after: &Report) {
        let both = |get: &dyn Fn(&Report) -> f64| [Some(get(before)), Some(get(after))];
        let unit = if before.is_of_users() { "done/s" } else { "calls/s" };
        self.add("rate", unit, BetterWhen::Higher, both(&|report| report.totals.rate));
        self.add("offered rate", unit, BetterWhen::Neutral, both(&offered));
        self.add(
            "failed",
            "% of all",
            BetterWhen::Lower,
            both(&|report| share(report, report.totals.failed)),
        );
        self.add(
            "blocked",
            "% of all",
            BetterWhen::Lower,
            both(&|report| share(report, report.totals.blocked)),
        );
        if !before.is_of_users() {
            let again = |report: &Report| share(report, report.totals.retransmissions);
            self.add("retransmissions", "% of calls", BetterWhen::Lower, both(&again));
        }
        #[expect(clippy::cast_precision_loss, reason = "open calls")]
        self.add("peak open", "", BetterWhen::Neutral, both(&|report| report.totals.peak_open as f64));
    }

    fn times(&mut self, before: &Report, after: &Report) {
        self.named_times("response.", &before.response_times, &after.response_times);
        self.named_times("from due.", &before.response_from_due, &after.response_from_due);
        let length = [Some(&before.call_length), Some(&after.call_length)];
        let means = length.map(|times| times.filter(|times| times.n > 0).map(|times| times.mean));
        self.add("length.mean", "ms", BetterWhen::Neutral, means);
    }

    /// Every counter of either run, by name.
    fn named_times(&mut self, prefix: &str, before: &[TimeSummary], after: &[TimeSummary]) {
        let added = after.iter().filter(|times| before.iter().all(|known| known.name != times.name));
        for name in before.iter().chain(added).map(|times| &times.name) {
            let find = |list: &[TimeSummary]| list.iter().find(|times| times.name == *name).cloned();
            let both = [find(before), find(after)];
            let figures: [(&str, TimeFigure); 5] = [
                ("mean", |times| times.mean),
                ("p50", |times| times.p50),
                ("p90", |times| times.p90),
                ("p99", |times| times.p99),
                ("max", |times| times.max),
            ];
            for (figure, get) in figures {
                // The largest of all values says little: it is shown and not judged.
                let better = if figure == "max" { BetterWhen::Neutral } else { BetterWhen::Lower };
                let values = both.each_ref().map(|times| times.as_ref().map(get));
                self.add(&format!("{prefix}{name}.{figure}"), "ms", better, values);
            }
        }
    }

    /// Only of runs that received media.
    fn media(&mut self, before: &Report, after: &Report) {
        let both = |get: fn(&super::model::MediaReport) -> f64| {
            [before, after].map(|report| report.media.as_ref().filter(|media| media.streams > 0).map(get))
        };
        #[expect(clippy::cast_precision_loss, reason = "packets")]
        let lost = |media: &super::model::MediaReport| {
            100.0 * media.lost as f64 / (media.lost + media.packets_received).max(1) as f64
        };
        self.add("loss", "% of packets", BetterWhen::Lower, both(lost));
        self.add("jitter.p99", "ms", BetterWhen::Lower, both(|media| media.jitter_p99));
        self.add("mos, middle", "", BetterWhen::Higher, both(|media| media.mos_p50));
        self.add("mos, worst of a hundred", "", BetterWhen::Higher, both(|media| media.mos_p1));
    }

    /// The accounting of a load of users.
    fn users(&mut self, before: &Report, after: &Report) {
        #[expect(clippy::cast_precision_loss, reason = "messages of a run")]
        let both = |get: fn(&super::model::XmppReport) -> u64| {
            [before, after].map(|report| report.chat.as_ref().map(|chat| get(chat) as f64))
        };
        self.add("lost", "messages", BetterWhen::Lower, both(|chat| chat.lost));
        self.add("duplicated", "messages", BetterWhen::Lower, both(|chat| chat.duplicated));
        self.add("reordered", "messages", BetterWhen::Lower, both(|chat| chat.reordered));
        self.add("misdelivered", "messages", BetterWhen::Lower, both(|chat| chat.misdelivered));
        self.add("unseen", "presences", BetterWhen::Lower, both(|chat| chat.unseen));
    }

    /// Processes under `--watch`, by position: their names have process ids.
    #[expect(clippy::cast_precision_loss, reason = "bytes and calls")]
    fn processes(&mut self, before: &Report, after: &Report) {
        for (index, first) in before.watched.iter().enumerate() {
            let second = after.watched.get(index);
            let name = first.name.split(" (").next().unwrap_or(&first.name);
            // By the successful calls, so that runs of different length compare.
            let cpu = |report: &Report, process: &super::model::WatchedProcess| {
                let done = report.totals.successful;
                (done > 0).then(|| 1e6 * process.cpu_seconds / done as f64)
            };
            let cpus = [cpu(before, first), second.and_then(|process| cpu(after, process))];
            self.add(&format!("{name}: processor time"), "µs of a call", BetterWhen::Lower, cpus);
            let memory = [Some(first), second].map(|process| Some(process?.peak_memory as f64 / 1_048_576.0));
            self.add(&format!("{name}: memory, most"), "MiB", BetterWhen::Lower, memory);
        }
    }
}

/// Per cent of all calls of the run, in whichever direction they went.
#[expect(clippy::cast_precision_loss, reason = "calls")]
fn share(report: &Report, count: u64) -> f64 {
    let all = report.totals.started.max(report.totals.due).max(report.totals.incoming).max(1);
    100.0 * count as f64 / all as f64
}

/// Arrivals a second, from the first to the last: calls that were due, or came in.
fn offered(report: &Report) -> f64 {
    let arrivals = |sample: &ReportSample| match report.arrivals {
        ArrivalMode::Incoming => sample.started,
        ArrivalMode::Rate | ArrivalMode::Users(_) => sample.due,
    };
    let has_some = |sample: &ReportSample| arrivals(sample) > 0.0;
    let first = report.samples.iter().position(has_some).unwrap_or_default();
    let end = report.samples.iter().rposition(has_some).map_or(first, |last| last + 1);
    let offering = &report.samples[first..end];
    // The first and last interval are cut by the start and the end of the load.
    let inner = if offering.len() > 3 { &offering[1..offering.len() - 1] } else { offering };
    let seconds: f64 = inner.iter().map(|sample| sample.span).sum();
    let due: f64 = inner.iter().map(|sample| arrivals(sample) * sample.span).sum();
    if seconds > 0.0 { due / seconds } else { 0.0 }
}

/// Every reason in words. The texts of the scenarios are compared, not their names.
fn not_comparable(before: &Report, after: &Report) -> Vec<String> {
    let mut reasons = Vec::new();
    if before.is_of_users() != after.is_of_users() {
        reasons.push("one run is of calls, the other of users".to_owned());
    } else if before.scenario.text != after.scenario.text {
        reasons.push(format!(
            "the scenarios differ: {} and {}",
            scenario(before),
            if scenario(before) == scenario(after) {
                "another text of it".to_owned()
            } else {
                scenario(after)
            }
        ));
    }
    reasons.extend(other_load(before, after));
    match (before.machine.as_str(), after.machine.as_str()) {
        (first, second) if first == second => {}
        ("", _) | (_, "") => reasons.push("one report does not name its machine".to_owned()),
        (first, second) => reasons.push(format!("the machines differ: {first}; {second}")),
    }
    if before.threads != after.threads {
        reasons.push(format!(
            "the numbers of Ringer's threads differ: {} and {}",
            before.threads, after.threads
        ));
    }
    for (which, report) in [("first", before), ("second", after)] {
        let done = report.totals.successful + report.totals.failed;
        if report.seconds < SHORTEST || done < FEWEST {
            reasons.push(format!(
                "the {which} run is too short: {:.1} s and {done} {}, expected at least {SHORTEST} s and {FEWEST}",
                report.seconds,
                if report.is_of_users() { "sign-ins and actions" } else { "calls" }
            ));
        }
        if !report.limited_by_ringer.is_empty() {
            reasons.push(format!("Ringer was the limit of the {which} run"));
        }
    }
    reasons
}

/// Loads differ in their rate, or where the rate is an outcome in the number of users.
fn other_load(before: &Report, after: &Report) -> Option<String> {
    let words = |report: &Report| match report.arrivals {
        ArrivalMode::Rate => "at a rate",
        ArrivalMode::Users(_) => "when users were free",
        ArrivalMode::Incoming => "from the other end",
    };
    match (before.arrivals, after.arrivals) {
        (ArrivalMode::Users(first), ArrivalMode::Users(second)) => {
            (first != second).then(|| format!("the numbers of users differ: {first} and {second}"))
        }
        (ArrivalMode::Rate, ArrivalMode::Rate) | (ArrivalMode::Incoming, ArrivalMode::Incoming) => {
            let (first, second) = (offered(before), offered(after));
            let differ = (first - second).abs() > SAME_RATE * first.max(second);
            let (first, second) = (number(first), number(second));
            differ.then(|| format!("the offered rates differ: {first} and {second} a second"))
        }
        _ => Some(format!("calls began {} in one run and {} in the other", words(before), words(after))),
    }
}

/// The best name that the report has.
fn scenario(report: &Report) -> String {
    let named = [&report.scenario.name, &report.scenario.source, &report.title];
    named.into_iter().find(|text| !text.is_empty()).cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::model::{MediaReport, ReportTotals, ScenarioText};
    use super::*;

    fn run(rate: f64, p99: f64, failed: u64) -> Report {
        let sample =
            |at: u32| ReportSample { at: at.into(), span: 1.0, due: rate, ..ReportSample::default() };
        Report {
            title: format!("{rate} calls/s"),
            machine: "2 processors".to_owned(),
            seconds: 20.0,
            threads: 2,
            scenario: ScenarioText { name: "uac".to_owned(), ..ScenarioText::default() },
            totals: ReportTotals {
                rate,
                started: 1_000,
                successful: 1_000 - failed,
                failed,
                ..ReportTotals::default()
            },
            response_times: vec![TimeSummary {
                name: "1".to_owned(),
                n: 1_000,
                mean: 2.0,
                p99,
                ..TimeSummary::default()
            }],
            samples: (1..=20).map(sample).collect(),
            ..Report::default()
        }
    }

    fn worse(comparison: &Comparison) -> Vec<&str> {
        comparison.worse().map(|figure| figure.name.as_str()).collect()
    }

    #[test]
    fn a_run_beside_itself_is_the_same() {
        let same = compare(&run(50.0, 4.0, 0), &run(50.0, 4.0, 0), 0.05);
        assert!(same.figures.iter().all(|figure| figure.change == Change::Same), "{same:?}");
        assert_eq!(
            (same.not_comparable.len(), same.verdict().as_str()),
            (0, "nothing got worse by more than 5 %")
        );
    }

    #[test]
    fn the_offered_rate_counts_the_seconds_between_arrivals() {
        let mut slow = run(0.0, 4.0, 0);
        slow.samples =
            (0..100).map(|at| ReportSample { at: at.into(), span: 1.0, ..Default::default() }).collect();
        (5..100).step_by(5).for_each(|at| slow.samples[at].due = 1.0);
        assert!((offered(&slow) - 0.2).abs() < 0.01, "{}", offered(&slow));
        assert_eq!(offered(&run(0.0, 4.0, 0)), 0.0);
    }

    #[test]
    fn a_worse_figure_is_marked_by_its_direction() {
        let slower = compare(&run(50.0, 4.0, 0), &run(50.0, 4.3, 3), 0.05);
        assert_eq!(worse(&slower), ["failed", "response.1.p99"]);
        let table = super::super::tables::text(&slower.table());
        let lines: Vec<String> =
            table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert!(lines.contains(&"failed, % of all 0 0.3 +0.3 – WORSE".to_owned()), "{table}");
        assert!(lines.contains(&"response.1.p99, ms 4 4.3 +0.3 +7.5 % WORSE".to_owned()), "{table}");
        let back = compare(&run(50.0, 4.3, 3), &run(50.0, 4.0, 0), 0.05);
        assert_eq!(worse(&back), Vec::<&str>::new());
        assert_eq!(back.figures.iter().filter(|figure| figure.change == Change::Better).count(), 2);
        assert!(
            worse(&compare(&run(50.0, 4.0, 0), &run(50.0, 4.3, 0), 0.10)).is_empty(),
            "within the tolerance"
        );
        assert!(worse(&compare(&run(50.0, 0.2, 0), &run(50.0, 0.25, 0), 0.05)).is_empty(), "noise of timers");
        let mut lower = run(50.0, 4.0, 0);
        lower.totals.rate = 40.0;
        assert_eq!(worse(&compare(&run(50.0, 4.0, 0), &lower, 0.05)), ["rate"]);
    }

    #[test]
    fn runs_that_differ_in_more_than_their_outcome_are_not_comparable() {
        let first = run(50.0, 4.0, 0);
        let reason = |change: fn(&mut Report)| {
            let mut second = run(50.0, 4.0, 0);
            change(&mut second);
            compare(&first, &second, 0.05).not_comparable.join("; ")
        };
        type ReportChange = fn(&mut Report);
        let cases: [(ReportChange, &str); 7] = [
            (|second| second.scenario.text = "<scenario/>".to_owned(), "the scenarios differ"),
            (
                |second| second.samples.iter_mut().for_each(|it| it.due = 60.0),
                "the offered rates differ: 50 and 60",
            ),
            (|second| second.machine = "8 processors".to_owned(), "the machines differ"),
            (|second| second.machine.clear(), "does not name its machine"),
            (|second| second.seconds = 3.0, "the second run is too short: 3.0 s and 1000 calls"),
            (|second| second.limited_by_ringer.push("late".to_owned()), "Ringer was the limit of the second"),
            (|second| second.chat = Some(Default::default()), "one run is of calls, the other of users"),
        ];
        for (change, wanted) in cases {
            let said = reason(change);
            assert!(said.contains(wanted), "{wanted}: {said}");
        }
    }

    #[test]
    fn runs_of_users_differ_by_their_number_and_not_by_their_rate() {
        let of = |users: u64, rate: f64| Report { arrivals: ArrivalMode::Users(users), ..run(rate, 4.0, 0) };
        // Each user's call takes longer at a slower server, so fewer begin.
        let slower = compare(&of(100, 50.0), &of(100, 45.0), 0.05);
        assert_eq!((slower.not_comparable.len(), worse(&slower)), (0, vec!["rate"]));
        let more = compare(&of(100, 50.0), &of(120, 50.0), 0.05);
        assert_eq!(more.not_comparable, ["the numbers of users differ: 100 and 120"]);
        let other = compare(&of(100, 50.0), &run(50.0, 4.0, 0), 0.05);
        assert_eq!(
            other.not_comparable,
            ["calls began when users were free in one run and at a rate in the other"]
        );
    }

    #[test]
    fn runs_of_a_server_differ_by_the_calls_that_came_in() {
        let of = |rate: f64| {
            let mut report = Report { arrivals: ArrivalMode::Incoming, ..run(rate, 4.0, 0) };
            for sample in &mut report.samples {
                (sample.started, sample.due) = (rate, 0.0);
            }
            report
        };
        assert!(compare(&of(100.0), &of(99.0), 0.05).not_comparable.is_empty());
        let other = compare(&of(100.0), &of(1_000.0), 0.05);
        assert_eq!(other.not_comparable, ["the offered rates differ: 100 and 1000 a second"]);
    }

    #[test]
    fn figures_of_runs_that_are_not_comparable_are_shown_and_not_judged() {
        let (first, mut second) = (run(50.0, 4.0, 0), run(50.0, 8.0, 30));
        second.machine = "8 processors".to_owned();
        let compared = compare(&first, &second, 0.05);
        assert_eq!(worse(&compared), Vec::<&str>::new());
        assert!(compared.figures.iter().all(|figure| figure.change == Change::NotJudged), "{compared:?}");
        assert!(compared.table().measured.iter().any(|row| row[1] == "4" && row[2] == "8"), "{compared:?}");
        assert_eq!(compared.verdict(), "not judged: the runs are not comparable");
    }

    #[test]
    fn a_figure_of_one_run_alone_is_shown_and_not_judged() {
        let (first, mut second) = (run(50.0, 4.0, 0), run(50.0, 4.0, 0));
        second.media = Some(MediaReport { streams: 3, mos_p50: 4.3, ..MediaReport::default() });
        second.response_times[0].name = "2".to_owned();
        let compared = compare(&first, &second, 0.05);
        assert!(compared.worse().next().is_none());
        let missing = compared.figures.iter().filter(|figure| figure.change == Change::Missing);
        assert_eq!(missing.count(), 10 + 4);
        assert!(compared.table().measured.iter().any(|row| row[1] == "–" && row[5] == "not in both"));
    }
}

//! Drawing, from what is known to cells; no terminal, no state.
//!
//! `LiveScreen` calls [`overview`] for the live view and [`text`] for one of SIPp's screens. From top to bottom: a head line, three tables
//! (calls, causes of failures, times), four sparklines, the last errors, and the line of keys or of a message.

use std::time::Duration;

use lab_sip::stats::{Count, Durations};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Gauge, Paragraph, Row, Sparkline, Table};

use super::history::{History, HistoryPoint};
use crate::engine::{Progress, Setup};
use crate::unanswered;

/// The values of the set-up that the screen shows.
pub(super) struct SetupNames<'a> {
    /// The scenario's name, or the title of a load of users.
    pub(super) scenario: &'a str,
    /// Address and port of the target; a dash for a server.
    pub(super) remote: &'a str,
    /// The name of the first response-time counter.
    pub(super) rtd: &'a str,
    /// Sign-ins and actions of users are counted as calls.
    pub(super) is_of_users: bool,
}

/// The figure of a point that a sparkline shows.
type PointFigure = fn(&HistoryPoint) -> u64;

const KEYS: &str = " + - * / rate   p pause   q stop   1-9 SIPp's screens   0 this   s dump   c command ";

/// The live view. `line` is a command being typed or the answer to one; without it the notice of a silent peer stands there.
pub(super) fn overview(
    frame: &mut Frame<'_>,
    setup: &Setup,
    progress: &Progress,
    history: &History,
    line: &str,
) {
    let remote =
        setup.options.remote.as_ref().map_or_else(|| "–".to_owned(), |remote| remote.address.to_string());
    let names = SetupNames {
        scenario: &setup.scenario.name,
        remote: &remote,
        rtd: setup.scenario.rtds.first().map_or("", String::as_str),
        is_of_users: setup.chat.is_some(),
    };
    let notice = unanswered::notice(setup, progress);
    panels(
        frame,
        &names,
        progress,
        history,
        if line.is_empty() { notice.as_deref().unwrap_or("") } else { line },
    );
}

/// One of SIPp's screens as it is, and the lowest line when there is something in it.
pub(super) fn text(frame: &mut Frame<'_>, text: &str, line: &str) {
    let [screen, foot] =
        Layout::vertical([Constraint::Min(0), Constraint::Length(u16::from(!line.is_empty()))])
            .areas(frame.area());
    frame.render_widget(Paragraph::new(text), screen);
    frame.render_widget(Paragraph::new(line).bold(), foot);
}

/// The view from plain values, so that tests can draw it without a set-up.
pub(super) fn panels(
    frame: &mut Frame<'_>,
    names: &SetupNames<'_>,
    progress: &Progress,
    history: &History,
    line: &str,
) {
    let [head, middle, sparks, errors, foot] = Layout::vertical([
        Constraint::Length(3),
        Constraint::Length(10),
        Constraint::Min(6),
        Constraint::Length(5),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    self::head(frame, head, names, progress);
    let [calls, causes, times] = Layout::horizontal([
        Constraint::Percentage(34),
        Constraint::Percentage(33),
        Constraint::Percentage(33),
    ])
    .areas(middle);
    self::calls(frame, calls, names, progress);
    self::causes(frame, causes, progress);
    self::times(frame, times, names.rtd, progress);
    self::sparks(frame, sparks, names, history);
    let lines: Vec<Line<'_>> =
        progress.errors.iter().rev().take(3).map(|error| Line::from(error.as_str())).collect();
    frame.render_widget(Paragraph::new(lines).block(Block::bordered().title("last errors")), errors);
    let line = if line.is_empty() { Paragraph::new(KEYS).dark_gray() } else { Paragraph::new(line).bold() };
    frame.render_widget(line, foot);
}

/// State, scenario, target, time since the start, and the rate that is asked for.
fn head(frame: &mut Frame<'_>, area: Rect, names: &SetupNames<'_>, progress: &Progress) {
    let gauges = &progress.gauges;
    let state = match (gauges.quitting, gauges.paused) {
        (true, _) => Span::styled(" ending ", Style::new().black().on_yellow()),
        (false, true) => Span::styled(" paused ", Style::new().black().on_yellow()),
        (false, false) => Span::styled(" running ", Style::new().black().on_green()),
    };
    let unit = if names.is_of_users { "sign-ins/s" } else { "calls/s" };
    let line = Line::from(vec![
        state,
        Span::from(format!(" {} → {}  ", names.scenario, names.remote)),
        Span::from(clock(progress.now.since(progress.started))).bold(),
        Span::from(format!("  {:.1} {unit} wanted  {} threads", gauges.target_rate, gauges.threads)),
    ]);
    frame.render_widget(Paragraph::new(line).block(Block::bordered().title("ringer")), area);
}

/// Counts of the last second and of the whole run; failed and blocked calls are red. Below them the open calls as a share of the limit.
fn calls(frame: &mut Frame<'_>, area: Rect, names: &SetupNames<'_>, progress: &Progress) {
    let title = if names.is_of_users { "sign-ins and actions" } else { "calls" };
    let block = Block::bordered().title(title);
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let [table, gauge] = Layout::vertical([Constraint::Min(1), Constraint::Length(1)]).areas(inner);
    let (now, all) = (&progress.interval.counts, &progress.total.counts);
    let span = progress.span.as_secs_f64();
    let rows = [
        ("due", Count::Due),
        ("started", Count::OutgoingCall),
        ("arrived", Count::IncomingCall),
        ("successful", Count::SuccessfulCall),
        ("failed", Count::FailedCall),
        ("blocked", Count::Blocked),
        ("sent again", Count::Retransmissions),
    ]
    .map(|(name, count)| {
        let bad = matches!(count, Count::FailedCall | Count::Blocked) && all[count] > 0;
        let style = if bad { Style::new().fg(Color::Red) } else { Style::new() };
        Row::new([name.to_owned(), per_second(now[count], span), all[count].to_string()]).style(style)
    });
    let widths = [Constraint::Length(10), Constraint::Length(10), Constraint::Min(6)];
    frame.render_widget(Table::new(rows, widths), table);
    let (open, limit) = (progress.gauges.open_calls, progress.gauges.limit.max(1));
    #[expect(clippy::cast_precision_loss, reason = "a share of a bar")]
    let share = (open as f64 / limit as f64).clamp(0.0, 1.0);
    let label = format!("{open} open, peak {}, limit {limit}", progress.gauges.peak_open_calls);
    frame.render_widget(Gauge::default().ratio(share).label(label).gauge_style(Color::Blue), gauge);
}

/// Causes of failures, the most frequent first.
fn causes(frame: &mut Frame<'_>, area: Rect, progress: &Progress) {
    let all = &progress.total.counts;
    let mut causes: Vec<(String, u64)> = Count::FAILURES
        .iter()
        .map(|count| (format!("{count:?}").trim_start_matches("Failed").to_owned(), all[*count]))
        .filter(|(_, n)| *n > 0)
        .collect();
    causes.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    let rows = causes.into_iter().map(|(name, n)| Row::new([name, n.to_string()]));
    let table = Table::new(rows, [Constraint::Min(10), Constraint::Length(10)])
        .block(Block::bordered().title("failures by cause"));
    frame.render_widget(table, area);
}

/// Quantiles of the first counter: of the last second, of the run, and of the run counted from when calls were due.
fn times(frame: &mut Frame<'_>, area: Rect, rtd: &str, progress: &Progress) {
    let none = Durations::default();
    let of = |stats: &lab_sip::stats::Stats, due: bool| {
        let timer = stats.rtds.first();
        timer.map_or_else(
            || none.clone(),
            |timer| if due { timer.response.clone() } else { timer.service.clone() },
        )
    };
    let (now, all, due) =
        (of(&progress.interval, false), of(&progress.total, false), of(&progress.total, true));
    let rows =
        [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999), ("max", 1.0)].map(|(name, quantile)| {
            let cell =
                |durations: &Durations| durations.quantile(quantile).map_or_else(|| "–".to_owned(), millis);
            Row::new([name.to_owned(), cell(&now), cell(&all), cell(&due)])
        });
    let widths = [Constraint::Length(6), Constraint::Min(8), Constraint::Min(8), Constraint::Min(8)];
    let table = Table::new(rows, widths)
        .header(Row::new(["ms", "now", "all", "from due"]).dark_gray())
        .block(Block::bordered().title(format!("response time {rtd}")));
    frame.render_widget(table, area);
}

/// As many seconds as the panels are wide.
fn sparks(frame: &mut Frame<'_>, area: Rect, names: &SetupNames<'_>, history: &History) {
    let open = if names.is_of_users { "signed in" } else { "open calls" };
    let panels: [(&str, PointFigure, Color); 4] = [
        ("completed/s", |point| point.completed, Color::Green),
        ("failed/s", |point| point.failed, Color::Red),
        (open, |point| point.open, Color::Blue),
        ("p99, µs", |point| point.p99, Color::Magenta),
    ];
    let areas: [Rect; 4] = Layout::horizontal([Constraint::Ratio(1, 4); 4]).areas(area);
    for ((name, get, colour), area) in panels.into_iter().zip(areas) {
        // Without the two columns of the border.
        let values = history.last(usize::from(area.width.saturating_sub(2)), get);
        let peak = values.iter().max().copied().unwrap_or(0);
        let block = Block::bordered().title(format!("{name} (peak {peak})"));
        frame.render_widget(Sparkline::default().data(values).style(colour).block(block), area);
    }
}

fn per_second(count: u64, span: f64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "a count of one interval")]
    let rate = if span > 0.0 { count as f64 / span } else { 0.0 };
    format!("{rate:.1}/s")
}

fn millis(time: Duration) -> String {
    format!("{:.2}", time.as_secs_f64() * 1e3)
}

fn clock(elapsed: Duration) -> String {
    let seconds = elapsed.as_secs();
    format!("{}:{:02}:{:02}", seconds / 3_600, seconds / 60 % 60, seconds % 60)
}

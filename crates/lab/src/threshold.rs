//! Thresholds of a run: `failed == 0`, `response.p99 < 200ms`, `rate >= 781.6`, `retransmissions < 0.2%`.
//!
//! `Recorder` judges them at the end of a run by the totals. Parsing checks figure, comparison and bound, so that a mistake is told before the
//! run; a figure of which nothing was measured is missed.

use std::time::Duration;

use lab_report::growth::GrowthLimit;
use lab_report::model::{MemoryGrowth, ThresholdResult};
use lab_sip::stats::{Count, Durations};

use crate::engine::Progress;

/// `figure comparison bound`.
#[derive(Debug, Clone, PartialEq)]
pub struct Threshold {
    /// As written, for reports.
    text: String,
    rule: ThresholdRule,
}

/// The two kinds of rules.
#[derive(Debug, Clone, PartialEq)]
enum ThresholdRule {
    /// A figure of the run against a number.
    Figure {
        figure: ThresholdFigure,
        compare: Comparison,
        /// Plain number; seconds for times; a fraction for `%`.
        bound: f64,
    },
    /// No watched process may surely grow by more.
    Growth(GrowthLimit),
}

/// The figures that a threshold may name; `FIGURES` has their words.
#[derive(Debug, Clone, PartialEq)]
enum ThresholdFigure {
    /// Share of calls that failed of those that ended, or their number.
    Failed,
    /// The same as a share of the calls that ended.
    FailedShare,
    /// Arrivals that could not start.
    Blocked,
    /// Successful calls a second of the time in which calls were placed.
    Rate,
    /// Retransmissions per message sent.
    Retransmissions,
    /// The same as a share of the messages sent.
    RetransmissionShare,
    /// A quantile of a response-time counter (`response`, `response.<name>`), of call length or media.
    Time { of: ThresholdTimer, quantile: Quantile },
    /// MOS of received media at the 1st percentile, and loss of all received packets.
    Mos,
    /// Share of packets that did not arrive, of those that were expected.
    MediaLoss,
    /// Calls in which only one side received media.
    OneWay,
    /// For users: messages that did not arrive, and those that arrived in another order, twice or at the wrong user.
    Lost,
    /// Presences that a contact who was there did not see.
    Unseen,
    /// Another count of a load of users.
    Chat(Count),
}

/// The distribution that a quantile is taken of.
#[derive(Debug, Clone, PartialEq)]
enum ThresholdTimer {
    /// The counter's name; the first one without.
    Response(Option<String>),
    /// The worst of all counters that counted.
    EveryResponse,
    /// Length of calls.
    CallLength,
    /// Lateness of media packets that left.
    MediaDelay,
    /// Jitter of received streams.
    Jitter,
}

/// The figure of a distribution.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Quantile {
    Mean,
    /// Between 0 and 1: 0.99 for `p99`.
    At(f64),
    Max,
}

/// The sign between figure and bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Equal,
    Below,
    AtMost,
    Above,
    AtLeast,
}

/// Figures a threshold may name, for error messages and the manual.
pub const FIGURES: &[(&str, &str)] = &[
    ("failed", "calls that failed; with a bound in %, of those that ended"),
    ("blocked", "arrivals that could not start"),
    ("rate", "successful calls per second of the time in which calls were placed"),
    ("retransmissions", "messages sent again; with a bound in %, of all sent"),
    (
        "response",
        "first response-time counter: .mean, .p50, .p90, .p95, .p99, .p999, .max (also .p100); response.NAME.p99 for another, response.*.p99 for the worst of all",
    ),
    ("length", "call length, the same quantiles"),
    ("pacing", "how late media packets left, the same quantiles"),
    ("jitter", "of received streams, the same quantiles"),
    ("mos", "the worst of a hundred received streams"),
    ("loss", "received media packets lost, a bound in %"),
    ("one_way", "calls whose media went only one way"),
    ("lost", "messages between users that neither arrived nor were refused"),
    ("duplicated", "messages that arrived twice"),
    ("reordered", "messages that another of the same sender overtook"),
    ("misdelivered", "messages that came to another user"),
    ("unseen", "presences that a contact who was there did not see"),
    ("growth", "of a watched process's memory, an hour: 1%/h, 2MiB/h; missed when it surely grew by more"),
];

impl Threshold {
    /// `Err` says what was expected.
    pub fn parse(text: &str) -> Result<Threshold, String> {
        let (left, compare, right) = split(text)?;
        let rule = if left == "growth" {
            if !matches!(compare, Comparison::Below | Comparison::AtMost) {
                return Err(format!("threshold {text:?}: expected growth < BOUND"));
            }
            ThresholdRule::Growth(GrowthLimit::parse(right)?)
        } else {
            let (bound, share) = bound(right)?;
            ThresholdRule::Figure { figure: figure(left, share)?, compare, bound }
        };
        Ok(Threshold { text: text.trim().to_owned(), rule })
    }

    /// True if it needs processes that are watched.
    pub fn is_of_growth(&self) -> bool {
        matches!(self.rule, ThresholdRule::Growth(_))
    }

    /// The threshold as written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// `rtds` are the scenario's counters by index.
    pub fn judge(&self, progress: &Progress, rtds: &[String], growth: &[MemoryGrowth]) -> ThresholdResult {
        let (measured, kept) = match &self.rule {
            // A figure of which nothing was measured is missed.
            ThresholdRule::Figure { figure, compare, bound } => {
                let measured = figure.measure(progress, rtds);
                let kept = measured.is_some_and(|value| compare.holds(value, *bound));
                (measured.map(|value| figure.show(value)), Some(kept))
            }
            ThresholdRule::Growth(limit) => {
                let (measured, kept) = limit.judge(growth);
                (Some(measured), kept)
            }
        };
        let (kept, judged) = (kept.unwrap_or(false), kept.is_some());
        ThresholdResult { text: self.text.clone(), measured, kept, judged }
    }
}

/// Figure, comparison and bound; both texts without blanks.
fn split(text: &str) -> Result<(&str, Comparison, &str), String> {
    // Two-character signs first, or `<=` would be read as `<`.
    let signs = [
        ("==", Comparison::Equal),
        ("<=", Comparison::AtMost),
        (">=", Comparison::AtLeast),
        ("<", Comparison::Below),
        (">", Comparison::Above),
        ("=", Comparison::Equal),
    ];
    signs
        .into_iter()
        .find_map(|(sign, compare)| {
            text.split_once(sign).map(|(left, right)| (left.trim(), compare, right.trim()))
        })
        .ok_or_else(|| format!("threshold {text:?}: expected FIGURE < BOUND (or <=, >, >=, ==)"))
}

/// The bound in its base unit and whether it was a percentage.
fn bound(text: &str) -> Result<(f64, bool), String> {
    // "s" comes last, as all others but "%" end with it.
    let units = [("ms", 1e-3), ("us", 1e-6), ("µs", 1e-6), ("%", 1e-2), ("s", 1.0)];
    let (digits, scale, share) = units
        .into_iter()
        .find_map(|(unit, scale)| text.strip_suffix(unit).map(|digits| (digits, scale, unit == "%")))
        .unwrap_or((text, 1.0, false));
    let value: f64 =
        digits.trim().replace('_', "").parse().map_err(|_| {
            format!("bound {text:?}: expected a number, with us, ms, s or % where it has a unit")
        })?;
    if !value.is_finite() {
        return Err(format!("bound {text:?} is not finite"));
    }
    Ok((value * scale, share))
}

/// The figure of a name; with `share` the bound is a percentage, which some figures count differently.
fn figure(text: &str, share: bool) -> Result<ThresholdFigure, String> {
    let mut words = text.split('.');
    let name = words.next().unwrap_or_default();
    let rest: Vec<&str> = words.collect();
    let timed = |of| Ok(ThresholdFigure::Time { of, quantile: quantile(rest.last().copied())? });
    match (name, rest.as_slice()) {
        ("failed", []) if share => Ok(ThresholdFigure::FailedShare),
        ("failed", []) => Ok(ThresholdFigure::Failed),
        ("blocked", []) => Ok(ThresholdFigure::Blocked),
        ("rate", []) => Ok(ThresholdFigure::Rate),
        ("retransmissions", []) if share => Ok(ThresholdFigure::RetransmissionShare),
        ("retransmissions", []) => Ok(ThresholdFigure::Retransmissions),
        ("mos", []) => Ok(ThresholdFigure::Mos),
        ("loss", []) => Ok(ThresholdFigure::MediaLoss),
        ("one_way", []) => Ok(ThresholdFigure::OneWay),
        ("lost", []) => Ok(ThresholdFigure::Lost),
        ("unseen", []) => Ok(ThresholdFigure::Unseen),
        ("duplicated", []) => Ok(ThresholdFigure::Chat(Count::ChatDuplicated)),
        ("reordered", []) => Ok(ThresholdFigure::Chat(Count::ChatReordered)),
        ("misdelivered", []) => Ok(ThresholdFigure::Chat(Count::ChatMisdelivered)),
        ("response", ["*", _]) => timed(ThresholdTimer::EveryResponse),
        ("response", [_]) => timed(ThresholdTimer::Response(None)),
        // A name may have points in it, as `monitor.message`.
        ("response", [name @ .., _]) if !name.is_empty() => {
            timed(ThresholdTimer::Response(Some(name.join("."))))
        }
        ("length", [_]) => timed(ThresholdTimer::CallLength),
        ("pacing", [_]) => timed(ThresholdTimer::MediaDelay),
        ("jitter", [_]) => timed(ThresholdTimer::Jitter),
        _ => {
            let known: Vec<&str> = FIGURES.iter().map(|(name, _)| *name).collect();
            Err(format!(
                "figure {text:?}: expected one of {} (times with .mean, .p99, .max)",
                known.join(", ")
            ))
        }
    }
}

/// `mean`, `max`, or `p` and a percentile: `p5`, `p50`, `p100`, and from `p99` on with decimals whose point is not written, as `p999`.
fn quantile(word: Option<&str>) -> Result<Quantile, String> {
    let word = word.unwrap_or_default();
    match word {
        "mean" => return Ok(Quantile::Mean),
        "max" => return Ok(Quantile::Max),
        _ => {}
    }
    word.strip_prefix('p')
        .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
        .and_then(percentile)
        .ok_or_else(|| format!("{word:?}: expected mean, max, p50, p90, p95, p99, p999"))
}

/// The digits behind `p`. Three and more are only a percentile above 99 without its point; other tools write the largest value as `p100`.
fn percentile(digits: &str) -> Option<Quantile> {
    match digits.len() {
        1 | 2 => digits.parse().ok().map(|percent: f64| Quantile::At(percent / 100.0)),
        _ if digits == "100" => Some(Quantile::Max),
        _ if digits.starts_with("99") => format!("0.{digits}").parse().ok().map(Quantile::At),
        _ => None,
    }
}

impl Comparison {
    fn holds(self, value: f64, bound: f64) -> bool {
        match self {
            #[expect(clippy::float_cmp, reason = "bounds that are compared for equality are whole counts")]
            Comparison::Equal => value == bound,
            Comparison::Below => value < bound,
            Comparison::AtMost => value <= bound,
            Comparison::Above => value > bound,
            Comparison::AtLeast => value >= bound,
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
fn number(count: u64) -> f64 {
    count as f64
}

/// `None` when the whole is 0: nothing was measured.
fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| number(part) / number(whole))
}

impl ThresholdFigure {
    /// The value in the base unit of its bound; `None`: nothing was measured.
    fn measure(&self, progress: &Progress, rtds: &[String]) -> Option<f64> {
        let stats = &progress.total;
        let counts = &stats.counts;
        let ended = counts[Count::SuccessfulCall] + counts[Count::FailedCall];
        match self {
            ThresholdFigure::Failed => Some(number(counts[Count::FailedCall])),
            ThresholdFigure::FailedShare => ratio(counts[Count::FailedCall], ended),
            ThresholdFigure::Blocked => Some(number(counts[Count::Blocked])),
            ThresholdFigure::Rate => {
                let placing = progress.placing.as_secs_f64();
                (placing > 0.0).then(|| number(counts[Count::SuccessfulCall]) / placing)
            }
            ThresholdFigure::Retransmissions => Some(number(counts[Count::Retransmissions])),
            ThresholdFigure::RetransmissionShare => {
                ratio(counts[Count::Retransmissions], counts[Count::MessagesSent])
            }
            ThresholdFigure::Time { of, quantile } => quantile.of(of, stats, rtds),
            // The histogram has thousandths of MOS.
            ThresholdFigure::Mos => stats.media.mos.value_at(0.01).map(|mos| number(mos) / 1e3),
            ThresholdFigure::MediaLoss => ratio(stats.media.lost, stats.media.packets + stats.media.lost),
            ThresholdFigure::OneWay => Some(number(stats.media.one_way)),
            ThresholdFigure::Lost => Some(number(stats.lost())),
            ThresholdFigure::Unseen => Some(number(stats.unseen())),
            ThresholdFigure::Chat(count) => Some(number(counts[*count])),
        }
    }

    /// The value with its unit, for reports.
    fn show(&self, value: f64) -> String {
        match self {
            ThresholdFigure::Time { .. } => format!("{:.3} ms", value * 1e3),
            ThresholdFigure::FailedShare
            | ThresholdFigure::RetransmissionShare
            | ThresholdFigure::MediaLoss => {
                format!("{:.3} %", value * 1e2)
            }
            ThresholdFigure::Rate => format!("{value:.1}/s"),
            ThresholdFigure::Mos => format!("{value:.2}"),
            ThresholdFigure::Failed
            | ThresholdFigure::Blocked
            | ThresholdFigure::Retransmissions
            | ThresholdFigure::OneWay
            | ThresholdFigure::Lost
            | ThresholdFigure::Unseen
            | ThresholdFigure::Chat(_) => format!("{value:.0}"),
        }
    }
}

impl Quantile {
    /// Seconds.
    fn of(self, of: &ThresholdTimer, stats: &lab_sip::stats::Stats, rtds: &[String]) -> Option<f64> {
        let durations = match of {
            ThresholdTimer::Response(name) => {
                let index = match name {
                    Some(name) => rtds.iter().position(|rtd| rtd == name)?,
                    None => 0,
                };
                &stats.rtds.get(index)?.service
            }
            ThresholdTimer::EveryResponse => {
                let all = stats.rtds.iter().filter_map(|timer| self.of_durations(&timer.service));
                return all.max_by(f64::total_cmp);
            }
            ThresholdTimer::CallLength => &stats.call_length,
            ThresholdTimer::MediaDelay => &stats.media_delay,
            ThresholdTimer::Jitter => return self.of_histogram(&stats.media.jitter),
        };
        self.of_durations(durations)
    }

    fn of_durations(self, durations: &Durations) -> Option<f64> {
        match self {
            Quantile::Mean => durations.mean().map(|mean: Duration| mean.as_secs_f64()),
            _ => self.of_histogram(&durations.histogram),
        }
    }

    fn of_histogram(self, histogram: &lab_sip::stats::Histogram) -> Option<f64> {
        // Histograms of times have microseconds.
        let micros = match self {
            Quantile::Max => histogram.max(),
            Quantile::At(quantile) => histogram.value_at(quantile),
            // The middle stands for the mean where only the histogram is kept.
            Quantile::Mean => histogram.value_at(0.5),
        };
        micros.map(|micros| number(micros) / 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stdx::time::Instant;

    fn progress() -> Progress {
        let mut progress = Progress {
            started: Instant::from_unix_seconds(100),
            now: Instant::from_unix_seconds(115),
            placing: Duration::from_secs(10),
            ..Progress::default()
        };
        progress.total.add(Count::SuccessfulCall, 990);
        progress.total.add(Count::FailedCall, 10);
        progress.total.add(Count::MessagesSent, 3_000);
        progress.total.add(Count::Retransmissions, 3);
        progress.total.rtds.resize(2, lab_sip::stats::TimerDurations::default());
        for millis in 1..=100 {
            progress.total.rtds[1].service.record(Duration::from_millis(millis));
        }
        progress
    }

    fn judge(text: &str) -> ThresholdResult {
        let rtds = ["1".to_owned(), "monitor.setup".to_owned()];
        Threshold::parse(text).expect(text).judge(&progress(), &rtds, &[])
    }

    #[test]
    fn figures_are_compared_in_their_units() {
        for (text, kept) in [
            ("failed == 10", true),
            ("failed == 0", false),
            ("failed <= 1%", true),
            ("failed < 1 %", false),
            ("rate >= 99", true),
            ("rate>99", false),
            ("retransmissions < 0.2%", true),
            ("retransmissions <= 3", true),
            ("response.monitor.setup.p99 < 100ms", true),
            ("response.monitor.setup.p99 < 98000us", false),
            ("response.monitor.setup.mean <= 0.0505s", true),
            ("response.monitor.setup.max < 101 ms", true),
            ("blocked == 0", true),
            ("response.*.max < 101ms", true),
            ("response.*.mean < 50ms", false),
            ("response.monitor.setup.p100 < 100ms", false),
            ("response.monitor.setup.p100 < 101ms", true),
            ("response.monitor.setup.p5 < 10ms", true),
            ("response.monitor.setup.p01 < 3ms", true),
            ("response.monitor.setup.p1 < 3ms", true),
            ("response.monitor.setup.p10 > 8ms", true),
            ("response.monitor.setup.p999 > 98ms", true),
        ] {
            assert_eq!(judge(text).kept, kept, "{text}: {}", judge(text));
        }
    }

    #[test]
    fn a_threshold_without_a_measurement_is_missed() {
        let verdict = judge("response.p99 < 1s");
        assert!(!verdict.kept, "{verdict}");
        assert!(verdict.is_missed());
        assert_eq!(verdict.to_string(), "MISSED: response.p99 < 1s (measured nothing)");
        assert!(!judge("response.nobody.p99 < 1s").kept);
    }

    #[test]
    fn growth_that_cannot_be_told_is_not_judged() {
        let verdict = judge("growth < 1%/h");
        assert!(!verdict.judged && !verdict.kept && !verdict.is_missed());
        assert_eq!(
            verdict.to_string(),
            "not judged: growth < 1%/h (nothing: no process was watched for long enough)"
        );
    }

    #[test]
    fn mistakes_name_the_expected_input() {
        for (text, says) in [
            ("failed", "expected FIGURE < BOUND"),
            ("failed < many", "expected a number"),
            ("fail == 0", "expected one of failed"),
            ("response.q99 < 1s", "expected mean, max, p50"),
            ("response.p < 1s", "expected mean, max, p50"),
            ("response.p101 < 1s", "expected mean, max, p50"),
            ("response.p250 < 1s", "expected mean, max, p50"),
            ("response < 1s", "expected one of"),
            ("failed < nan", "not finite"),
            ("growth < 1", "expected 1%/h"),
            ("growth == 0%/h", "expected growth < BOUND"),
        ] {
            let error = Threshold::parse(text).expect_err(text);
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}

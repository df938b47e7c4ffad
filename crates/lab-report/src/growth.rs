//! Whether a process under load grows: a line through its memory, and how sure its slope is.
//!
//! The recorder of a run (`lab::report`) feeds a [`Series`] for each watched process, a sample an interval; at the end the report has its [`MemoryGrowth`], and
//! thresholds `growth < …` are judged by the lower end of the interval of confidence: only sure growth is a failure.
//!
//! Memory comes in steps, so one sample says little that the one before did not say; the error of the slope is that of
//! independent samples, widened by how much neighbours resemble each other.

use crate::model::MemoryGrowth;

/// Points a series keeps; a longer one has coarser points.
const POINTS: usize = 600;
/// The first tenth of a load is warm-up: caches fill, allocators find their size.
const WARM_UP: f64 = 0.1;
/// Seconds of load without its warm-up that it takes to tell. The published test asks for an hour without growth; in less than
/// half of one a step of an allocator looks like growth.
pub const SHORTEST: f64 = 1_800.0;
/// Fewer points make no line.
const FEWEST: usize = 10;

const HOUR: f64 = 3_600.0;

/// Memory of one process over a load. At most `2 * POINTS` points, however long it takes.
#[derive(Debug, Clone)]
pub struct Series {
    /// Seconds from the start of the run, bytes: means of `width` samples.
    points: Vec<(f64, f64)>,
    /// Samples a point; doubles when the series is full.
    width: u32,
    /// Samples of the next point, and their sums.
    count: u32,
    sum: (f64, f64),
}

impl Default for Series {
    fn default() -> Self {
        Series { points: Vec::new(), width: 1, count: 0, sum: (0.0, 0.0) }
    }
}

impl Series {
    /// `at`: seconds from the start of the run. A process that is not there has no bytes, and no sample.
    pub fn push(&mut self, at: f64, bytes: u64) {
        if bytes == 0 {
            return;
        }
        #[expect(clippy::cast_precision_loss, reason = "bytes of memory")]
        let bytes = bytes as f64;
        self.sum = (self.sum.0 + at, self.sum.1 + bytes);
        self.count += 1;
        if self.count < self.width {
            return;
        }
        let width = f64::from(self.width);
        self.points.push((self.sum.0 / width, self.sum.1 / width));
        (self.count, self.sum) = (0, (0.0, 0.0));
        // Full: neighbours are merged in pairs, so the series covers twice the time with as many points.
        if self.points.len() == 2 * POINTS {
            let middle = |pair: &[(f64, f64)]| ((pair[0].0 + pair[1].0) / 2.0, (pair[0].1 + pair[1].1) / 2.0);
            self.points = self.points.chunks_exact(2).map(middle).collect();
            self.width *= 2;
        }
    }

    /// `None` when there are too few samples for any line.
    pub fn growth(&self, name: &str) -> Option<MemoryGrowth> {
        let (first, last) = (self.points.first()?.0, self.points.last()?.0);
        let warm = first + (last - first) * WARM_UP;
        let points: Vec<(f64, f64)> = self.points.iter().copied().filter(|(at, _)| *at >= warm).collect();
        let line = FittedLine::through(&points)?;
        let from = points.first()?.0;
        let seconds = last - from;
        Some(MemoryGrowth {
            name: name.to_owned(),
            from,
            seconds,
            memory: line.at(from),
            per_hour: line.slope * HOUR,
            low: (line.slope - line.margin) * HOUR,
            high: (line.slope + line.margin) * HOUR,
            is_too_short: seconds < SHORTEST,
        })
    }
}

/// Least squares.
struct FittedLine {
    /// The means of time and bytes, through which the line goes.
    middle: (f64, f64),
    /// Bytes a second.
    slope: f64,
    /// Half of the 95 % interval of the slope.
    margin: f64,
}

impl FittedLine {
    /// The line, with the error of its slope from the autocorrelation of what is left beside it.
    fn through(points: &[(f64, f64)]) -> Option<FittedLine> {
        if points.len() < FEWEST {
            return None;
        }
        #[expect(clippy::cast_precision_loss, reason = "at most 2 * POINTS")]
        let n = points.len() as f64;
        let middle = (
            points.iter().map(|point| point.0).sum::<f64>() / n,
            points.iter().map(|point| point.1).sum::<f64>() / n,
        );
        let spread: f64 = points.iter().map(|point| (point.0 - middle.0).powi(2)).sum();
        // All samples at one time.
        if spread <= 0.0 {
            return None;
        }
        let along: f64 = points.iter().map(|point| (point.0 - middle.0) * (point.1 - middle.1)).sum();
        let mut line = FittedLine { middle, slope: along / spread, margin: 0.0 };
        let off: Vec<f64> = points.iter().map(|point| point.1 - line.at(point.0)).collect();
        let squares: f64 = off.iter().map(|off| off * off).sum();
        if squares > 0.0 {
            // Autocorrelation at distance one. A negative one would make the error too small and is not believed.
            let beside: f64 = off.windows(2).map(|pair| pair[0] * pair[1]).sum();
            let likeness = (beside / squares).clamp(0.0, 0.99);
            // As many independent samples say as much.
            let worth = (n * (1.0 - likeness) / (1.0 + likeness)).max(4.0);
            // Two degrees of freedom go into the line itself.
            let variance = squares / n * worth / (worth - 2.0);
            line.margin = student(worth - 2.0) * (variance / (spread / n) / worth).sqrt();
        }
        Some(line)
    }

    fn at(&self, at: f64) -> f64 {
        self.middle.1 + self.slope * (at - self.middle.0)
    }
}

/// The 97.5 % quantile of Student's t with so many degrees of freedom, from 2 on, to a few per cent (Fisher's expansion).
fn student(freedom: f64) -> f64 {
    let z = 1.959_964_f64;
    let first = (z.powi(3) + z) / 4.0;
    let second = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0;
    let third = (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / 384.0;
    z + first / freedom + second / freedom.powi(2) + third / freedom.powi(3)
}

/// `growth < 1%/h`, `growth < 2MiB/h`: what no watched process may surely exceed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum GrowthLimit {
    /// Share of the process's memory after the warm-up, per hour.
    Share(f64),
    /// Bytes an hour.
    Bytes(f64),
}

/// Longer names first: "KiB" ends in "B".
const UNITS: [(&str, f64); 4] = [("KiB", 1024.0), ("MiB", 1_048_576.0), ("GiB", 1_073_741_824.0), ("B", 1.0)];

impl GrowthLimit {
    /// The text right of `growth <`.
    pub fn parse(text: &str) -> Result<GrowthLimit, String> {
        let expected = || format!("bound {text:?}: expected 1%/h, or a size an hour as 500KiB/h, 2MiB/h");
        let amount = text.strip_suffix("/h").ok_or_else(expected)?.trim();
        let number = |digits: &str| {
            let value = digits.trim().replace('_', "").parse::<f64>().ok();
            value.filter(|value| value.is_finite() && *value >= 0.0).ok_or_else(expected)
        };
        if let Some(digits) = amount.strip_suffix('%') {
            return number(digits).map(|share| GrowthLimit::Share(share / 100.0));
        }
        let unit = UNITS.iter().find_map(|(unit, scale)| Some((amount.strip_suffix(unit)?, scale)));
        let (digits, scale) = unit.ok_or_else(expected)?;
        number(digits).map(|size| GrowthLimit::Bytes(size * scale))
    }

    /// The measured growth as text, and the verdict: the limit is missed only when a process surely grew by more. `None`: it
    /// cannot be judged, because the load was too short or no process was watched.
    pub fn judge(self, growth: &[MemoryGrowth]) -> (String, Option<bool>) {
        let told: Vec<&MemoryGrowth> = growth.iter().filter(|growth| !growth.is_too_short).collect();
        // The lower end of the interval less the limit: above 0 the growth is sure to be too much.
        let excess = |growth: &MemoryGrowth| match self {
            GrowthLimit::Share(share) => growth.low - share * growth.memory,
            GrowthLimit::Bytes(bytes) => growth.low - bytes,
        };
        let worst = told.into_iter().max_by(|a, b| excess(a).total_cmp(&excess(b)));
        match worst {
            Some(worst) => (format!("{}: {}", worst.name, worst.rate()), Some(excess(worst) <= 0.0)),
            None if growth.is_empty() => ("nothing: no process was watched for long enough".to_owned(), None),
            None => (growth[0].too_short(), None),
        }
    }
}

impl MemoryGrowth {
    /// `+1.20 %/h (+0.90 to +1.50), +1.0 MiB/h`
    pub fn rate(&self) -> String {
        let share = |bytes: f64| bytes / self.memory.max(1.0) * 100.0;
        format!(
            "{:+.2} %/h ({:+.2} to {:+.2}), {}/h",
            share(self.per_hour),
            share(self.low),
            share(self.high),
            size(self.per_hour)
        )
    }

    /// The words for growth or shrinking, or the reason why there is no verdict.
    pub fn finding(&self) -> String {
        if self.is_too_short {
            self.too_short()
        } else if self.low > 0.0 {
            "grows".to_owned()
        } else if self.high < 0.0 {
            "shrinks".to_owned()
        } else {
            "no growth that could be told from none".to_owned()
        }
    }

    fn too_short(&self) -> String {
        format!(
            "too short to tell: {:.0} s after the warm-up, expected at least {SHORTEST:.0} s",
            self.seconds
        )
    }
}

/// With its sign.
fn size(bytes: f64) -> String {
    let unit = UNITS[..3].iter().rev().find(|(_, scale)| bytes.abs() >= *scale);
    unit.map_or_else(|| format!("{bytes:+.0} B"), |(unit, scale)| format!("{:+.2} {unit}", bytes / scale))
}

#[cfg(test)]
mod tests {
    use super::*;
    use stdx::rng::Rng;

    const MIB: f64 = 1_048_576.0;

    /// A sample a second, in MiB.
    fn series(seconds: u32, memory: impl Fn(f64, &mut Rng) -> f64) -> MemoryGrowth {
        let mut rng = Rng::seeded(7);
        let mut series = Series::default();
        for second in 0..seconds {
            let at = f64::from(second);
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some MiB")]
            series.push(at, (memory(at, &mut rng) * MIB) as u64);
        }
        assert!(series.points.len() < 2 * POINTS);
        series.growth("x").expect("enough samples")
    }

    /// From -1 to 1.
    fn noise(rng: &mut Rng) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a thousand")]
        let share = rng.below(2_001) as f64 / 1_000.0;
        share - 1.0
    }

    fn keeps(limit: &str, growth: &MemoryGrowth) -> bool {
        GrowthLimit::parse(limit).expect(limit).judge(std::slice::from_ref(growth)).1.expect("long enough")
    }

    #[test]
    fn a_flat_series_with_noise_does_not_grow() {
        let growth = series(3_600, |_, rng| 100.0 + 5.0 * noise(rng));
        assert!(growth.low < 0.0 && growth.high > 0.0, "{growth:?}");
        assert!(keeps("0%/h", &growth));
        assert_eq!(growth.finding(), "no growth that could be told from none");
    }

    #[test]
    fn a_slow_leak_is_found_under_its_noise() {
        let growth = series(4 * 3_600, |at, rng| 100.0 + 3.0 * at / 3_600.0 + 2.0 * noise(rng));
        assert!((growth.per_hour / MIB - 3.0).abs() < 0.2, "{growth:?}");
        assert!(growth.low / MIB < 3.0 && growth.high / MIB > 3.0, "{growth:?}");
        assert!(!keeps("1%/h", &growth) && !keeps("2MiB/h", &growth));
        assert!(keeps("4%/h", &growth) && keeps("4MiB/h", &growth));
        assert_eq!(growth.finding(), "grows");
    }

    /// As allocators take it from the system.
    #[test]
    fn a_leak_in_steps_is_a_leak() {
        let growth = series(3_600, |at, _| 100.0 + 4.0 * (at / 240.0).floor());
        assert!((growth.per_hour / MIB - 60.0).abs() < 3.0, "{growth:?}");
        assert!(!keeps("1%/h", &growth), "{growth:?}");
    }

    #[test]
    fn growth_during_the_warm_up_does_not_count() {
        let growth = series(3_600, |at, rng| if at < 300.0 { at / 3.0 } else { 100.0 } + noise(rng));
        assert!(growth.from >= 359.0 && keeps("0%/h", &growth), "{growth:?}");
    }

    #[test]
    fn one_late_step_is_not_taken_for_a_trend() {
        let growth = series(3_600, |at, rng| if at < 2_000.0 { 100.0 } else { 100.5 } + 0.2 * noise(rng));
        assert!(keeps("1%/h", &growth), "{growth:?}");
    }

    #[test]
    fn a_short_load_is_not_judged() {
        let growth = series(60, |at, _| 100.0 + at);
        assert!(growth.is_too_short);
        let (measured, kept) = GrowthLimit::parse("1%/h").unwrap().judge(&[growth]);
        assert_eq!(kept, None);
        assert!(measured.starts_with("too short to tell: 53 s"), "{measured}");
        let (measured, kept) = GrowthLimit::Share(0.0).judge(&[]);
        assert!(kept.is_none() && measured.contains("no process was watched"), "{measured}");
    }

    #[test]
    fn days_of_samples_stay_a_thousand_points() {
        let growth = series(48 * 3_600, |at, rng| 100.0 + 0.5 * at / 3_600.0 + noise(rng));
        assert!((growth.per_hour / MIB - 0.5).abs() < 0.01, "{growth:?}");
        assert!(growth.low > 0.0);
    }

    #[test]
    fn the_process_that_grows_most_is_named() {
        let flat = series(3_600, |_, rng| 100.0 + noise(rng));
        let leak = MemoryGrowth { name: "leak".to_owned(), ..series(3_600, |at, _| 100.0 + at / 100.0) };
        let (measured, kept) = GrowthLimit::parse("1 %/h").unwrap().judge(&[flat.clone(), leak, flat]);
        assert!(kept == Some(false) && measured.starts_with("leak: +"), "{measured}");
        assert!(measured.ends_with("+36.00 MiB/h"), "{measured}");
    }

    #[test]
    fn a_process_that_is_not_there_has_no_memory() {
        let mut series = Series::default();
        (0..100).for_each(|at| series.push(f64::from(at), 0));
        assert_eq!(series.growth("x"), None);
    }

    #[test]
    fn the_interval_is_that_of_tables() {
        for (freedom, table) in [(2.0, 4.303), (5.0, 2.571), (10.0, 2.228), (30.0, 2.042), (1e6, 1.960)] {
            let t = student(freedom);
            assert!((t / table - 1.0).abs() < 0.05, "{freedom}: {t}");
        }
    }

    #[test]
    fn mistakes_name_the_expected_input() {
        for text in ["1%", "1", "many%/h", "-1%/h", "1MB/h", "1%/min", "nan%/h"] {
            assert!(GrowthLimit::parse(text).unwrap_err().contains("expected 1%/h"), "{text}");
        }
        assert_eq!(GrowthLimit::parse("1.5 KiB/h"), Ok(GrowthLimit::Bytes(1_536.0)));
        assert_eq!(GrowthLimit::parse("0.5%/h"), Ok(GrowthLimit::Share(0.005)));
    }
}

//! Line charts as SVG: what a report needs and no more. No script, no font, nothing fetched.
//!
//! A chart is a `<figure>`: caption, grid, one path a line, and a legend with the last value of each. Coordinates are those of the view box; the
//! page scales it to its width.

use std::fmt::Write;

/// One line.
pub(super) struct ChartLine<'a> {
    /// Shown in the legend and as the path's tooltip.
    pub(super) name: &'a str,
    /// A class of the page's style sheet: `a` to `f`.
    pub(super) class: &'a str,
    /// One value a sample; a gap where nothing was measured.
    pub(super) values: Vec<Option<f64>>,
}

/// One diagram; all lines share both axes.
pub(super) struct Chart<'a> {
    pub(super) title: &'a str,
    /// The unit of the vertical axis, which begins at 0.
    pub(super) unit: &'a str,
    /// Seconds, by sample.
    pub(super) at: &'a [f64],
    pub(super) lines: Vec<ChartLine<'a>>,
}

/// The view box, in units of SVG.
const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 220.0;
/// Room for the numbers of the axes.
const LEFT: f64 = 64.0;
const BOTTOM: f64 = 24.0;
const TOP: f64 = 8.0;
/// Half the width of a tick's label.
const HALF_LABEL: f64 = 24.0;

impl Chart<'_> {
    /// The figure as HTML.
    pub(super) fn render(&self) -> String {
        let peak =
            self.lines.iter().flat_map(|line| line.values.iter().flatten()).copied().fold(0.0, f64::max);
        let top = round_up(peak);
        let end = self.at.last().copied().unwrap_or(1.0).max(1e-3);
        let mut out = format!(
            "<figure><figcaption>{} <small>{}</small></figcaption><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">",
            escape(self.title),
            escape(self.unit),
            escape(self.title)
        );
        grid(&mut out, top, end);
        for line in &self.lines {
            self.path(&mut out, line, top, end);
        }
        out.push_str("</svg><p class=\"legend\">");
        for line in &self.lines {
            let last = line.values.iter().rev().flatten().next();
            let last = last.map_or_else(String::new, |value| format!(" {}", number(*value)));
            let _ = write!(out, "<span class=\"{}\">{}<b>{last}</b></span> ", line.class, escape(line.name));
        }
        out.push_str("</p></figure>\n");
        out
    }

    /// One line; a sample without a value interrupts it.
    fn path(&self, out: &mut String, line: &ChartLine<'_>, top: f64, end: f64) {
        let mut data = String::new();
        let mut drawing = false;
        for (at, value) in self.at.iter().zip(&line.values) {
            let Some(value) = value else {
                drawing = false;
                continue;
            };
            let x = LEFT + (WIDTH - LEFT) * at / end;
            let y = TOP + (HEIGHT - BOTTOM - TOP) * (1.0 - value / top);
            let _ = write!(data, "{}{x:.1} {y:.1}", if drawing { "L" } else { "M" });
            drawing = true;
        }
        let _ = write!(
            out,
            "<path class=\"{}\" d=\"{data}\"><title>{}</title></path>",
            line.class,
            escape(line.name)
        );
    }
}

/// Five horizontal lines with their values, and the ticks of the time axis.
fn grid(out: &mut String, top: f64, end: f64) {
    for step in 0..=4 {
        let share = f64::from(step) / 4.0;
        let y = TOP + (HEIGHT - BOTTOM - TOP) * (1.0 - share);
        let _ = write!(
            out,
            "<line x1=\"{LEFT}\" x2=\"{WIDTH}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/><text class=\"y\" x=\"{:.0}\" y=\"{:.1}\">{}</text>",
            LEFT - 6.0,
            y + 4.0,
            number(top * share)
        );
    }
    for at in ticks(end) {
        let x = LEFT + (WIDTH - LEFT) * at / end;
        // The text of a tick at the right edge stays inside.
        let anchor = if x > WIDTH - HALF_LABEL { "end" } else { "middle" };
        let _ = write!(
            out,
            "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.0}\" y2=\"{:.0}\"/><text text-anchor=\"{anchor}\" x=\"{x:.1}\" y=\"{:.0}\">{}</text>",
            HEIGHT - BOTTOM,
            HEIGHT - BOTTOM + 4.0,
            HEIGHT - 6.0,
            clock(at, end)
        );
    }
}

/// Between two ticks of a time axis: what divides seconds, minutes, hours and days without a rest.
const STEPS: [f64; 20] = [
    0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1_800.0, 3_600.0,
    7_200.0, 10_800.0, 21_600.0, 43_200.0,
];
const DAY: f64 = 86_400.0;
/// Spaces between ticks, at most: labels as `10:00:00` still stand apart.
const SPACES: f64 = 6.0;

/// Seconds, from 0 on at even distances, none beyond the end.
fn ticks(end: f64) -> Vec<f64> {
    let fits = STEPS.into_iter().find(|step| end / step <= SPACES);
    let step = fits.unwrap_or_else(|| (end / SPACES / DAY).ceil() * DAY);
    let ticks = (0..=SPACES as u32).map(|index| f64::from(index) * step);
    // A run of 60.0 s lasts a little less in binary.
    ticks.take_while(|at| *at <= end * (1.0 + 1e-9)).collect()
}

/// The next 1, 2 or 5 with zeros, so that the axis has readable numbers.
fn round_up(peak: f64) -> f64 {
    if peak <= 0.0 || !peak.is_finite() {
        return 1.0;
    }
    let magnitude = 10_f64.powf(peak.log10().floor());
    [1.0, 2.0, 4.0, 5.0, 10.0]
        .into_iter()
        .map(|step| step * magnitude)
        .find(|top| *top >= peak)
        .unwrap_or(peak)
}

/// Three significant digits, thousands as k, M, G.
pub(super) fn number(value: f64) -> String {
    let (value, suffix) = match value.abs() {
        v if v >= 1e9 => (value / 1e9, "G"),
        v if v >= 1e6 => (value / 1e6, "M"),
        v if v >= 1e4 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let text = match value.abs() {
        // Three digits: whole numbers from 100 on, one decimal from 10 on.
        v if v >= 100.0 || v.fract() == 0.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v >= 0.01 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    };
    format!("{text}{suffix}")
}

/// A tick's label, in the form that suits its whole axis.
fn clock(seconds: f64, end: f64) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a run's length")]
    let whole = seconds.round() as u64;
    match end {
        // Ticks closer than a second need their tenths.
        end if end < SPACES => format!("{seconds:.1} s"),
        end if end <= 120.0 => format!("{whole} s"),
        end if end < 7_200.0 => format!("{}:{:02}", whole / 60, whole % 60),
        _ => format!("{}:{:02}:{:02}", whole / 3_600, whole / 60 % 60, whole % 60),
    }
}

/// For text and attributes of HTML.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            // XML 1.0 has no control characters but these, and JUnit readers stop at one.
            '\t' | '\n' | '\r' => out.push(character),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_at_readable_numbers() {
        for (peak, top) in
            [(0.0, 1.0), (0.7, 1.0), (1.0, 1.0), (3.1, 4.0), (781.6, 1000.0), (6568.4, 10_000.0)]
        {
            assert!((round_up(peak) - top).abs() < 1e-9, "{peak}: {}", round_up(peak));
        }
        assert_eq!(number(6_568.4), "6568");
        assert_eq!(number(32_816_231.0), "32.8M");
    }

    #[test]
    fn time_axes_have_even_ticks_with_exact_labels() {
        for (end, labels) in [
            (0.45, "0.0 s, 0.1 s, 0.2 s, 0.3 s, 0.4 s"),
            (3.0, "0.0 s, 0.5 s, 1.0 s, 1.5 s, 2.0 s, 2.5 s, 3.0 s"),
            (10.0, "0 s, 2 s, 4 s, 6 s, 8 s, 10 s"),
            (50.1, "0 s, 10 s, 20 s, 30 s, 40 s, 50 s"),
            (119.9, "0 s, 30 s, 60 s, 90 s"),
            (125.0, "0:00, 0:30, 1:00, 1:30, 2:00"),
            (2_049.0, "0:00, 10:00, 20:00, 30:00"),
            (7_200.0, "0:00:00, 0:30:00, 1:00:00, 1:30:00, 2:00:00"),
            (172_800.0, "0:00:00, 12:00:00, 24:00:00, 36:00:00, 48:00:00"),
            (2_592_000.0, "0:00:00, 120:00:00, 240:00:00, 360:00:00, 480:00:00, 600:00:00, 720:00:00"),
        ] {
            let shown: Vec<String> = ticks(end).into_iter().map(|at| clock(at, end)).collect();
            assert_eq!(shown.join(", "), labels, "{end}");
        }
        for tenths in 1..100_000_u32 {
            let end = f64::from(tenths) / 10.0;
            let ticks = ticks(end);
            assert!((2..=7).contains(&ticks.len()) || end < 0.2, "{end}: {ticks:?}");
            assert!(ticks.iter().all(|at| *at <= end + 1e-6), "{end}: {ticks:?}");
        }
    }

    #[test]
    fn gaps_break_the_line() {
        let chart = Chart {
            title: "a<b",
            unit: "ms",
            at: &[1.0, 2.0, 3.0, 4.0],
            lines: vec![ChartLine {
                name: "p99",
                class: "a",
                values: vec![Some(1.0), None, Some(2.0), Some(1.0)],
            }],
        };
        let svg = chart.render();
        assert_eq!(svg.matches('M').count() - svg.matches("Max").count(), 2, "{svg}");
        assert!(svg.contains("a&lt;b"));
    }
}

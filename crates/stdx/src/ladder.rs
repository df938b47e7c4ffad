//! Messages between peers, drawn as lines of text.

use std::fmt;
use std::time::Duration;

use crate::Instant;
use crate::limits::{LADDER_ARROWS, LADDER_LABEL};
use crate::ring::Ring;

/// Collects arrows between named columns; `Display` draws them, earliest first:
///
/// ```text
///       0ms  alice ──INVITE──▶ bob
///      20ms  alice ◀──100───── bob
///      40ms  alice ✗──180───── bob
///   2_020ms  alice ◀──200───── bob
/// ```
///
/// The column named first stands left. Times are milliseconds since `start`.
#[derive(Clone, Debug)]
pub struct Ladder {
    start: Instant,
    columns: Vec<Box<str>>,
    lines: Ring<LadderLine>,
    /// Lines that made room for later ones.
    forgotten: u64,
}

/// The outcome of the message that an arrow stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageFate {
    /// Drawn `▶`.
    Arrives,
    /// Drawn `✗`.
    Lost,
    /// The network delivered it twice. Drawn `▶▶`.
    Doubled,
}

#[derive(Clone, Debug)]
struct LadderLine {
    at: Instant,
    kind: LadderLineKind,
}

#[derive(Clone, Debug)]
enum LadderLineKind {
    Arrow { from: usize, to: usize, label: Box<str>, fate: MessageFate },
    Note { column: usize, text: Box<str> },
}

impl Ladder {
    /// An empty ladder, whose times count from `start`.
    pub fn new(start: Instant) -> Self {
        Ladder { start, columns: Vec::new(), lines: Ring::new(LADDER_ARROWS), forgotten: 0 }
    }

    /// Gives a name its place before its first arrow does.
    pub fn column(&mut self, name: &str) -> &mut Self {
        self.column_of(name);
        self
    }

    /// Adds a message from one column to another.
    pub fn arrow(&mut self, at: Instant, from: &str, to: &str, label: &str, fate: MessageFate) {
        let (from, to) = (self.column_of(from), self.column_of(to));
        self.push(at, LadderLineKind::Arrow { from, to, label: printable(label), fate });
    }

    /// A word beside a column: a timer, a decision, a failure.
    pub fn note(&mut self, at: Instant, column: &str, text: &str) {
        let column = self.column_of(column);
        self.push(at, LadderLineKind::Note { column, text: printable(text) });
    }

    /// True without lines.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Lines kept.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Forgets the lines, keeps the columns, and counts time from `start`.
    pub fn restart(&mut self, start: Instant) {
        self.start = start;
        self.lines = Ring::new(LADDER_ARROWS);
        self.forgotten = 0;
    }

    /// The whole drawing; every line ends with a line feed.
    pub fn render(&self) -> String {
        self.to_string()
    }

    fn column_of(&mut self, name: &str) -> usize {
        let name = printable(name);
        self.columns.iter().position(|known| *known == name).unwrap_or_else(|| {
            self.columns.push(name);
            self.columns.len() - 1
        })
    }

    fn push(&mut self, at: Instant, kind: LadderLineKind) {
        let oldest = self.lines.push_over(LadderLine { at, kind });
        self.forgotten += u64::from(oldest.is_some());
    }

    fn widths(&self) -> Widths {
        let mut widths = Widths { time: "2_020ms".len() + 2, name: 0, label: 0 };
        for line in self.lines.iter() {
            widths.time = widths.time.max(millis(line.at.since(self.start)).len());
            if let LadderLineKind::Arrow { from, to, label, .. } = &line.kind {
                widths.name = widths.name.max(width(&self.columns[*from.min(to)]));
                widths.label = widths.label.max(width(label));
            }
        }
        widths
    }

    fn draw(&self, line: &LadderLine, widths: &Widths) -> String {
        let time = millis(line.at.since(self.start));
        let picture = match &line.kind {
            LadderLineKind::Note { column, text } => {
                format!("{} · {text}", padded(&self.columns[*column], widths.name))
            }
            LadderLineKind::Arrow { from, to, label, fate } => {
                let left = padded(&self.columns[*from.min(to)], widths.name);
                let right = &self.columns[*from.max(to)];
                format!("{left} {} {right}", arrow(from <= to, label, widths.label, *fate))
            }
        };
        format!("{time:>width$}  {picture}", width = widths.time)
    }
}

impl fmt::Display for Ladder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths = self.widths();
        let mut lines: Vec<&LadderLine> = self.lines.iter().collect();
        lines.sort_by_key(|line| line.at);
        if self.forgotten > 0 {
            writeln!(f, "{:>width$}  {} earlier", "…", self.forgotten, width = widths.time)?;
        }
        lines.into_iter().try_for_each(|line| writeln!(f, "{}", self.draw(line, &widths)))
    }
}

struct Widths {
    time: usize,
    name: usize,
    label: usize,
}

/// The shaft is filled up at its tail, so that heads and names stand below each other.
fn arrow(rightward: bool, label: &str, label_width: usize, fate: MessageFate) -> String {
    let fill = "─".repeat(label_width - width(label) + 2);
    match (rightward, fate) {
        (true, MessageFate::Arrives) => format!("──{label}{fill}▶"),
        (true, MessageFate::Lost) => format!("──{label}{fill}✗"),
        (true, MessageFate::Doubled) => format!("─{label}{fill}▶▶"),
        (false, MessageFate::Arrives) => format!("◀──{label}{fill}"),
        (false, MessageFate::Lost) => format!("✗──{label}{fill}"),
        (false, MessageFate::Doubled) => format!("◀◀─{label}{fill}"),
    }
}

/// `2_020ms`
fn millis(duration: Duration) -> String {
    let digits = duration.as_millis().to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push('_');
        }
        text.push(digit);
    }
    text + "ms"
}

fn width(text: &str) -> usize {
    text.chars().count()
}

fn padded(text: &str, to: usize) -> String {
    format!("{text}{}", " ".repeat(to.saturating_sub(width(text))))
}

/// Labels may come from a peer: no control character reaches a terminal, and no line grows without end.
fn printable(text: &str) -> Box<str> {
    let mut clean: String =
        text.chars().take(LADDER_LABEL).map(|c| if c.is_control() { '·' } else { c }).collect();
    if text.chars().nth(LADDER_LABEL).is_some() {
        clean.push('…');
    }
    clean.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Instant = Instant::from_unix_seconds(1_800_000_000);

    fn at(millis: u64) -> Instant {
        START + Duration::from_millis(millis)
    }

    fn text(lines: &[&str]) -> String {
        lines.iter().map(|line| format!("{line}\n")).collect()
    }

    #[test]
    fn draws_arrows_with_times_and_fates() {
        let mut ladder = Ladder::new(START);
        ladder.arrow(at(0), "alice", "bob", "INVITE", MessageFate::Arrives);
        ladder.arrow(at(20), "bob", "alice", "100", MessageFate::Arrives);
        ladder.arrow(at(40), "bob", "alice", "180", MessageFate::Lost);
        ladder.arrow(at(2_020), "bob", "alice", "200", MessageFate::Doubled);
        ladder.arrow(at(1_002_020), "alice", "bob", "ACK", MessageFate::Lost);
        let picture = [
            "        0ms  alice ──INVITE──▶ bob",
            "       20ms  alice ◀──100───── bob",
            "       40ms  alice ✗──180───── bob",
            "    2_020ms  alice ◀◀─200───── bob",
            "1_002_020ms  alice ──ACK─────✗ bob",
        ];
        assert_eq!(ladder.render(), text(&picture));
    }

    #[test]
    fn columns_notes_and_order_of_time() {
        let mut ladder = Ladder::new(START);
        ladder.column("alice").column("belfry").column("bob");
        ladder.arrow(at(30), "bob", "belfry", "200", MessageFate::Arrives);
        ladder.arrow(at(10), "alice", "belfry", "BYE", MessageFate::Arrives);
        ladder.arrow(at(20), "belfry", "bob", "BYE", MessageFate::Arrives);
        ladder.note(at(25), "bob", "rings");
        let picture = [
            "     10ms  alice  ──BYE──▶ belfry",
            "     20ms  belfry ──BYE──▶ bob",
            "     25ms  bob    · rings",
            "     30ms  belfry ◀──200── bob",
        ];
        assert_eq!(ladder.render(), text(&picture));
        ladder.restart(at(40));
        assert!(ladder.is_empty());
    }

    #[test]
    fn text_of_a_peer_cannot_control_the_terminal() {
        let mut ladder = Ladder::new(START);
        let long = "x".repeat(500);
        ladder.arrow(at(0), "a", "b", "\u{1b}[2J\r\n", MessageFate::Arrives);
        ladder.arrow(at(0), "a", "b", &long, MessageFate::Arrives);
        let picture = ladder.render();
        assert!(picture.contains("──·[2J··"));
        assert!(picture.lines().all(|line| line.chars().count() < 80));
    }

    #[test]
    fn keeps_the_last_lines() {
        let mut ladder = Ladder::new(START);
        for _ in 0..LADDER_ARROWS + 3 {
            ladder.arrow(at(0), "a", "b", "OPTIONS", MessageFate::Arrives);
        }
        assert_eq!(ladder.len(), LADDER_ARROWS);
        assert!(ladder.render().starts_with("        …  3 earlier\n"));
    }
}

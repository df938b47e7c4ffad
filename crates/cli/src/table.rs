//! Columns for people.
//!
//! All tables of the commands are printed by [`Table`]; the functions below write figures and times in the one way that the commands share.

use std::io::{self, Write};

use stdx::calendar::Date;

/// Rows under headings, columns as wide as their widest cell. Numbers stand right.
pub(super) struct Table {
    /// The first row is the headings.
    rows: Vec<Vec<String>>,
    /// Columns that hold numbers.
    right: &'static [usize],
}

impl Table {
    /// `right`: columns that hold numbers.
    pub(super) fn new(headings: &[&str], right: &'static [usize]) -> Self {
        let headings = headings.iter().map(|heading| heading.to_uppercase()).collect();
        Table { rows: vec![headings], right }
    }

    /// Control characters become dots (`printable`).
    pub(super) fn row(&mut self, cells: impl IntoIterator<Item = impl Into<String>>) {
        self.rows.push(cells.into_iter().map(|cell| printable(&cell.into())).collect());
    }

    pub(super) fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let width = |column: usize| {
            // Columns of the terminal, not characters: names may be in wide scripts.
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| console::measure_text_width(cell)).max().unwrap_or(0)
        };
        let widths: Vec<_> = (0..self.rows.first().map_or(0, Vec::len)).map(width).collect();
        for row in &self.rows {
            let mut line = String::new();
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                let gap = " ".repeat(width - console::measure_text_width(cell));
                let cell = if self.right.contains(&column) { gap + cell } else { format!("{cell}{gap}") };
                line.push_str(&cell);
                line.push_str("  ");
            }
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// Names and addresses may come from a peer; none of them speaks to the terminal.
pub(super) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '·' } else { c }).collect()
}

/// `1 234 567`.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(digit);
    }
    out
}

/// `2026-11-21 09:00:00`, UTC.
pub(super) fn date(unix_seconds: u64) -> String {
    let second = unix_seconds % 86_400;
    let Date { year, month, day } = Date::from_unix_seconds(unix_seconds);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
}

/// `1d 02:03:04`, `02:03:04` or `3:04`.
pub(super) fn elapsed(seconds: u64) -> String {
    let (days, hours, minutes, rest) =
        (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    match (days, hours) {
        (0, 0) => format!("{minutes}:{rest:02}"),
        (0, _) => format!("{hours:02}:{minutes:02}:{rest:02}"),
        _ => format!("{days}d {hours:02}:{minutes:02}:{rest:02}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_peers_cannot_speak_to_the_terminal() {
        let mut table = Table::new(&["name", "n"], &[1]);
        table.row(["Zoë", "7"]);
        table.row(["\u{1b}[2J", "1 000"]);
        let mut out = Vec::new();
        table.print(&mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "NAME      N\nZoë       7\n·[2J  1 000\n");
    }

    #[test]
    fn figures_read_well() {
        assert_eq!((grouped(0), grouped(1_234_567)), ("0".into(), "1 234 567".into()));
        assert_eq!(date(0), "1970-01-01 00:00:00");
        assert_eq!(date(951_782_400), "2000-02-29 00:00:00");
        assert_eq!(date(1_795_251_599), "2026-11-21 08:59:59");
        assert_eq!((elapsed(64), elapsed(93_784)), ("1:04".into(), "1d 02:03:04".into()));
    }
}

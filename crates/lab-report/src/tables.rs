//! Tables for people: what watched processes used at the stages of a load, and how they grew; on the terminal and on the page.
//!
//! A [`ReportTable`] is text cells; [`text`] lays it out for the terminal and [`html`] for the page. Rows of published figures and rows of the
//! run are kept apart, so that the page can tell them by colour.

use std::fmt::Write as _;

use super::chart::escape;
use super::model::{Report, ReportTable, StageProcess};

/// The stages of the published tests of chat.
const STAGES: [&str; 3] = ["initial", "login", "final"];

/// The tables of every report, for any kind of load.
pub fn of(report: &Report) -> Vec<ReportTable> {
    let mut tables = stages(report);
    tables.extend(growth(report));
    tables.extend(accounts(report));
    tables
}

/// The accounting of a load of users: messages and presences.
pub fn accounts(report: &Report) -> Option<ReportTable> {
    let chat = report.chat.as_ref()?;
    let share = match chat.presence_share {
        share if share < 1.0 => format!(" (a sample: {:.1} % of all)", share * 100.0),
        _ => String::new(),
    };
    let rows = [
        ("messages sent".to_owned(), chat.sent),
        ("received".to_owned(), chat.received),
        ("of these, had waited for their receiver".to_owned(), chat.stored),
        ("still stored for who did not come back".to_owned(), chat.waiting),
        ("refused".to_owned(), chat.refused),
        ("lost".to_owned(), chat.lost),
        ("received twice".to_owned(), chat.duplicated),
        ("received out of order".to_owned(), chat.reordered),
        ("came to another user".to_owned(), chat.misdelivered),
        (format!("presences that were to be seen{share}"), chat.expected),
        ("seen".to_owned(), chat.seen),
        ("not seen".to_owned(), chat.unseen),
    ];
    // Counters that are zero in most runs.
    let others = [
        ("times that users were sent to another host", chat.redirected),
        ("users who gave up", chat.gave_up),
        ("accounts made", chat.registered),
        ("accounts that were there already", chat.already_registered),
        ("accounts removed", chat.unregistered),
    ];
    let others = others.into_iter().filter(|(_, count)| *count > 0);
    let others = others.map(|(name, count)| vec![name.to_owned(), count.to_string()]);
    let rows = rows.into_iter().map(|(name, count)| vec![name, count.to_string()]);
    let certificate = vec!["certificate".to_owned(), chat.certificate.clone()];
    Some(ReportTable {
        title: "Messages and presence".to_owned(),
        head: ["", "number"].map(str::to_owned).to_vec(),
        measured: rows.chain(others).chain([certificate]).collect(),
        ..ReportTable::default()
    })
}

/// Memory and processor time, a row a process; nothing when no process was watched.
fn stages(report: &Report) -> Vec<ReportTable> {
    let processes: Vec<&str> = report.watched.iter().map(|watched| watched.name.as_str()).collect();
    if processes.is_empty() || report.stages.is_empty() {
        return Vec::new();
    }
    let head = |last: &[&str]| {
        let words = ["process", "initial", "login", "final"].iter().chain(last);
        words.map(|word| (*word).to_owned()).collect()
    };
    let rows = |cell: fn(&StageProcess) -> String, last: Option<fn(&Report, &str) -> String>| {
        let row = |name: &&str| {
            let cells = STAGES.iter().map(|stage| reading(report, stage, name).map_or_else(dash, cell));
            let own = std::iter::once((*name).to_owned());
            own.chain(cells).chain(last.map(|last| last(report, name))).collect()
        };
        processes.iter().map(row).collect()
    };
    vec![
        ReportTable {
            title: "Memory usage".to_owned(),
            head: head(&["a user"]),
            measured: rows(memory, Some(footprint)),
            ..ReportTable::default()
        },
        ReportTable {
            title: "CPU usage".to_owned(),
            head: head(&[]),
            measured: rows(cpu, None),
            ..ReportTable::default()
        },
    ]
}

/// A row for each watched process; nothing without any.
pub fn growth(report: &Report) -> Option<ReportTable> {
    let row = |growth: &super::model::MemoryGrowth| {
        let over = format!("{:.0} s", growth.seconds);
        let rate = if growth.is_too_short { dash() } else { growth.rate() };
        vec![growth.name.clone(), over, rate, growth.finding()]
    };
    let words = ["process", "over", "an hour, with 95 % certainty", "finding"];
    (!report.growth.is_empty()).then(|| ReportTable {
        title: "Growth of memory after the warm-up".to_owned(),
        head: words.map(str::to_owned).to_vec(),
        measured: report.growth.iter().map(row).collect(),
        ..ReportTable::default()
    })
}

/// The resources of one process at a stage.
pub fn reading<'a>(report: &'a Report, stage: &str, process: &str) -> Option<&'a StageProcess> {
    let stage = report.stages.iter().find(|known| known.name == stage)?;
    stage.processes.iter().find(|reading| reading.name == process)
}

/// In the unit of the published tests.
pub fn memory(reading: &StageProcess) -> String {
    format!("{} KB", reading.memory / 1024)
}

/// Per cent of one core.
pub fn cpu(reading: &StageProcess) -> String {
    format!("{:.1} %", reading.cpu * 100.0)
}

/// As the published test computes it: what came since before the first sign-in, by the users.
pub fn footprint(report: &Report, process: &str) -> String {
    let bytes = reading(report, "final", process).and_then(|reading| reading.a_user);
    bytes.map_or_else(dash, |bytes| format!("{:.3} KB", bytes / 1024.0))
}

/// The cell of a figure that was not measured.
pub fn dash() -> String {
    "–".to_owned()
}

/// After an empty line and its title, if it has one; columns as wide as their widest cell, the first to the left.
pub fn text(table: &ReportTable) -> String {
    let rows = || std::iter::once(&table.head).chain(&table.rows).chain(&table.measured);
    let widths: Vec<usize> = (0..table.head.len())
        .map(|column| rows().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max())
        .map(Option::unwrap_or_default)
        .collect();
    let mut out = String::new();
    if !table.title.is_empty() {
        let _ = writeln!(out, "\n{}", table.title);
    }
    for row in rows() {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            // Writing to a string cannot fail.
            let _ = match column {
                0 => write!(line, "{cell:<width$}"),
                _ => write!(line, "  {cell:>width$}"),
            };
        }
        let _ = writeln!(out, "{}", line.trim_end());
    }
    out
}

/// Rows of this run stand out.
pub(super) fn html(out: &mut String, table: &ReportTable) {
    // The first of a plan's tables has its title in its head.
    if !table.title.is_empty() {
        let _ = write!(out, "<h2>{}</h2>", escape(&table.title));
    }
    out.push_str("<table><tr>");
    for cell in &table.head {
        let _ = write!(out, "<th>{}</th>", escape(cell));
    }
    out.push_str("</tr>");
    let is_mixed = !table.rows.is_empty();
    let rows = table.rows.iter().map(|row| (row, false)).chain(table.measured.iter().map(|row| (row, true)));
    for (row, is_measured) in rows {
        out.push_str(if is_measured && is_mixed { "<tr class=\"measured\">" } else { "<tr>" });
        for cell in row {
            let _ = write!(out, "<td>{}</td>", escape(cell));
        }
        out.push_str("</tr>");
    }
    out.push_str("</table>\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{MemoryGrowth, StageReading, WatchedProcess};

    fn report() -> Report {
        let stage = |name: &str, memory: u64, a_user| StageReading {
            name: name.to_owned(),
            users: 100,
            processes: vec![StageProcess { name: "belfry (7)".to_owned(), memory, cpu: 0.25, a_user }],
            ..StageReading::default()
        };
        Report {
            watched: vec![WatchedProcess { name: "belfry (7)".to_owned(), ..WatchedProcess::default() }],
            stages: vec![
                stage("initial", 10 << 20, None),
                stage("login", 12 << 20, None),
                stage("final", 13 << 20, Some(8_760.5)),
            ],
            growth: vec![MemoryGrowth {
                name: "belfry (7)".to_owned(),
                seconds: 2_000.0,
                memory: 13e6,
                per_hour: 130_000.0,
                low: -10_000.0,
                high: 270_000.0,
                ..MemoryGrowth::default()
            }],
            ..Report::default()
        }
    }

    #[test]
    fn stages_and_growth_are_tables() {
        let texts: Vec<String> = of(&report()).iter().map(text).collect();
        assert_eq!(
            texts.concat(),
            "\nMemory usage\n\
             process      initial     login     final    a user\n\
             belfry (7)  10240 KB  12288 KB  13312 KB  8.555 KB\n\
             \nCPU usage\n\
             process     initial   login   final\n\
             belfry (7)   25.0 %  25.0 %  25.0 %\n\
             \nGrowth of memory after the warm-up\n\
             process       over               an hour, with 95 % certainty                                 finding\n\
             belfry (7)  2000 s  +1.00 %/h (-0.08 to +2.08), +126.95 KiB/h  no growth that could be told from none\n"
        );
        assert!(of(&Report::default()).is_empty());
    }

    #[test]
    fn measured_rows_stand_out_beside_published_ones() {
        let row = |text: &str| vec![text.to_owned()];
        let table = ReportTable {
            title: "a & b".to_owned(),
            head: row("component"),
            rows: vec![row("theirs <1>")],
            measured: vec![row("ours")],
        };
        let mut page = String::new();
        html(&mut page, &table);
        assert!(page.contains("a &amp; b") && page.contains("theirs &lt;1&gt;"), "{page}");
        assert_eq!(page.matches("class=\"measured\"").count(), 1, "{page}");
        html(&mut page, &ReportTable { title: String::new(), ..table });
        assert_eq!(page.matches("<h2>").count(), 1, "no title, no heading: {page}");
    }
}

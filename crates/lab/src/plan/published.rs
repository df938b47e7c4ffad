//! Published figures beside measured ones: the tables of a plan's published test.
//!
//! A published table keeps its columns; our figures follow below it, a row for each watched process. A figure that the run did not measure
//! is a dash.

use lab_report::Report;
use lab_report::model::{ReportTable, StageReading};
use lab_report::tables::{accounts, cpu, dash, footprint, growth, memory, reading};

use super::model::{PublishedFigure, PublishedTable, PublishedTest};

/// The seed's tables with the run's figures, then what every report has.
pub(super) fn tables(seed: &PublishedTest, report: &Report) -> Vec<ReportTable> {
    let mut tables: Vec<ReportTable> = Vec::new();
    if !seed.row.is_empty() {
        let row = |row: &super::model::PublishedRow| {
            vec![row.label.clone(), row.value.clone(), measured(report, row.measured)]
        };
        tables.push(ReportTable {
            title: String::new(),
            head: [&seed.title, "published", "measured"].map(str::to_owned).to_vec(),
            rows: seed.row.iter().map(row).collect(),
            measured: Vec::new(),
        });
    }
    tables.extend(seed.table.iter().map(|table| filled(table, report)));
    tables.extend(growth(report));
    tables.extend(accounts(report));
    tables
}

/// A row of ours for each watched process, or one for the run, below the published ones.
fn filled(table: &PublishedTable, report: &Report) -> ReportTable {
    let mut processes: Vec<&str> = report.watched.iter().map(|watched| watched.name.as_str()).collect();
    // Tables without a column for the process have one row for the whole run.
    if processes.is_empty() || !table.measured.contains(&PublishedFigure::Process) {
        processes = vec!["nothing (--watch)"];
    }
    let row = |process: &&str| table.measured.iter().map(|what| of_process(report, *what, process)).collect();
    ReportTable {
        title: table.title.clone(),
        head: table.head.clone(),
        rows: table.rows.clone(),
        measured: processes.iter().map(row).collect(),
    }
}

/// The figure of one process where it is a process's own, otherwise that of the run.
fn of_process(report: &Report, what: PublishedFigure, process: &str) -> String {
    let at = |stage: &str, cell: fn(&lab_report::model::StageProcess) -> String| {
        reading(report, stage, process).map_or_else(dash, cell)
    };
    match what {
        PublishedFigure::Process => format!("measured: {process}"),
        PublishedFigure::MemoryInitial => at("initial", memory),
        PublishedFigure::MemoryLogin => at("login", memory),
        PublishedFigure::MemoryFinal => at("final", memory),
        PublishedFigure::CpuInitial => at("initial", cpu),
        PublishedFigure::CpuLogin => at("login", cpu),
        PublishedFigure::CpuFinal => at("final", cpu),
        PublishedFigure::Footprint => footprint(report, process),
        other => measured(report, other),
    }
}

/// The sum over all watched processes.
#[expect(clippy::cast_precision_loss, reason = "counts and bytes for people")]
fn measured(report: &Report, what: PublishedFigure) -> String {
    let totals = &report.totals;
    match what {
        PublishedFigure::TotalTime => {
            format!("{}:{:02} min", report.seconds as u64 / 60, report.seconds as u64 % 60)
        }
        PublishedFigure::TotalCalls => totals.started.to_string(),
        PublishedFigure::CallsPerSecond => format!("{:.1}", totals.rate),
        PublishedFigure::FailedCalls => totals.failed.to_string(),
        PublishedFigure::Retransmissions => {
            format!("{:.3} %", totals.retransmissions as f64 / totals.messages_sent.max(1) as f64 * 100.0)
        }
        PublishedFigure::MeanResponse => {
            report.response_times.first().map_or_else(dash, |times| format!("{:.2} ms", times.mean))
        }
        PublishedFigure::PeakOpenCalls => totals.peak_open.to_string(),
        // Without a watched process a sum would be 0, which is not what was measured.
        _ if report.watched.is_empty() && what.is_of_processes() => dash(),
        PublishedFigure::Cpu => {
            let seconds: f64 = report.watched.iter().map(|watched| watched.cpu_seconds).sum();
            format!("{:.2} %", seconds / report.seconds.max(1e-3) * 100.0)
        }
        PublishedFigure::CpuPeak => {
            let peak = |cpu: &[f64]| cpu.iter().copied().fold(0.0, f64::max);
            format!("{:.1} %", report.watched.iter().map(|one| peak(&one.cpu)).sum::<f64>() * 100.0)
        }
        PublishedFigure::Memory => {
            let bytes: u64 = report.watched.iter().map(|watched| watched.peak_memory).sum();
            format!("{:.1} MiB", bytes as f64 / 1_048_576.0)
        }
        PublishedFigure::MemoryInitial => memory_at(report, "initial"),
        PublishedFigure::MemoryLogin => memory_at(report, "login"),
        PublishedFigure::MemoryFinal => memory_at(report, "final"),
        PublishedFigure::CpuInitial => cpu_at(report, "initial"),
        PublishedFigure::CpuLogin => cpu_at(report, "login"),
        PublishedFigure::CpuFinal => cpu_at(report, "final"),
        PublishedFigure::Footprint => {
            let bytes =
                stage(report, "final").map(|stage| stage.processes.iter().filter_map(|one| one.a_user));
            bytes.map_or_else(dash, |bytes| format!("{:.3} KB", bytes.sum::<f64>() / 1024.0))
        }
        PublishedFigure::MessageLatency => latency(report, "message"),
        PublishedFigure::PresenceLatency => latency(report, "presence"),
        PublishedFigure::AuthenticationLatency => latency(report, "authentication"),
        PublishedFigure::LostMessages => report.chat.as_ref().map_or_else(dash, |chat| chat.lost.to_string()),
        PublishedFigure::Process | PublishedFigure::Nothing => dash(),
    }
}

/// A reading of the watched processes at a stage, if there was any.
fn stage<'a>(report: &'a Report, name: &str) -> Option<&'a StageReading> {
    report.stages.iter().find(|stage| stage.name == name && !stage.processes.is_empty())
}

/// Sum over the watched processes, KB.
fn memory_at(report: &Report, name: &str) -> String {
    let sum = |stage: &StageReading| stage.processes.iter().map(|process| process.memory).sum::<u64>();
    stage(report, name).map_or_else(dash, |stage| format!("{} KB", sum(stage) / 1024))
}

/// Sum over the watched processes, per cent of one core.
fn cpu_at(report: &Report, name: &str) -> String {
    let sum = |stage: &StageReading| stage.processes.iter().map(|process| process.cpu).sum::<f64>();
    stage(report, name).map_or_else(dash, |stage| format!("{:.1} %", sum(stage) * 100.0))
}

/// The latency of the users; beside it that of the monitors, if there were any, to which the published figures belong.
fn latency(report: &Report, timer: &str) -> String {
    let mean = |name: &str| {
        let found = report.response_from_due.iter().find(|times| times.name == name && times.n > 0);
        found.map(|times| format!("{:.5} s", times.mean / 1e3))
    };
    let own = mean(timer).unwrap_or_else(dash);
    match mean(&format!("monitor.{timer}")) {
        Some(monitors) => format!("{own}, monitors {monitors}"),
        None => own,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Plan, SHIPPED};
    use lab_report::model::{StageProcess, WatchedProcess};
    use lab_report::tables::text;

    fn seed(plan: &str) -> PublishedTest {
        let (_, shipped) = SHIPPED.iter().find(|(name, _)| *name == plan).expect("shipped");
        Plan::parse(shipped, plan).expect("right").seed.expect("published")
    }

    fn report() -> Report {
        let stage = |name: &str, kilobytes: u64| StageReading {
            name: name.to_owned(),
            processes: vec![StageProcess {
                name: "belfry (7)".to_owned(),
                memory: kilobytes * 1024,
                cpu: 0.125,
                a_user: (name == "final").then_some(2_048.0),
            }],
            ..StageReading::default()
        };
        Report {
            watched: vec![WatchedProcess {
                name: "belfry (7)".to_owned(),
                cpu: vec![0.5, 0.75],
                ..WatchedProcess::default()
            }],
            stages: vec![stage("initial", 100), stage("login", 200), stage("final", 300)],
            ..Report::default()
        }
    }

    #[test]
    fn both_tables_of_the_first_test_stand_beside_ours() {
        let tables = tables(&seed("jabber-100k"), &report());
        let texts: Vec<String> = tables.iter().map(text).collect();
        let all = texts.concat();
        for wanted in [
            "Jabber XCP Router (jabberd)   60928 KB  509952 KB   916480 KB  8.555 KB",
            "Oracle Server                 10592 KB  537600 KB  1050624 KB         –",
            "measured: belfry (7)            100 KB     200 KB      300 KB  2.000 KB",
            "Maximum CPU usage                    72 %    75.0 %",
        ] {
            assert!(all.contains(wanted), "{wanted}\n{all}");
        }
        let cpu = &tables[2];
        assert_eq!(cpu.rows.len(), 8);
        assert_eq!(cpu.measured, [["measured: belfry (7)", "12.5 %", "12.5 %", "12.5 %"]]);
    }

    #[test]
    fn the_table_of_the_second_test_stands_beside_ours() {
        let tables = tables(&seed("jabber-1m"), &report());
        let table = tables.iter().find(|table| table.rows.len() == 6).expect("six steps");
        assert_eq!(table.rows[5][0], "1,020,000");
        assert_eq!(table.measured[0].len(), table.head.len());
        assert_eq!(table.measured[0][1..4], ["measured: belfry (7)", "300 KB", "12.5 %"]);
    }

    #[test]
    fn a_report_without_watched_processes_names_the_flag() {
        let tables = tables(&seed("jabber-100k"), &Report::default());
        assert_eq!(tables[1].measured[0][0], "measured: nothing (--watch)");
        assert!(tables[1].measured[0][1..].iter().all(|cell| cell == "–"));
    }
}

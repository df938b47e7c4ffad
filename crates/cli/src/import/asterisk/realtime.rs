//! The realtime tables of Asterisk (`ps_endpoints`, `ps_auths`, `ps_aors`), as a dump in SQL or as CSV. Each row is the section of pjsip.conf with its
//! `id` as the name: the columns have the names of the settings.

use std::collections::VecDeque;
use std::path::Path;

use super::config::{Section, Sections};
use super::dialplan::DialPlan;
use super::{Line, Reading};
use crate::import::foreign::ForeignPiece;
use crate::import::row_files::RowFormat;
use crate::import::rows::Row;

/// The tables that are read.
pub(in crate::import) const TABLES: &[&str] = &["ps_endpoints", "ps_auths", "ps_aors"];

/// Their files in a folder of CSV.
pub(in crate::import) const FOLDER: &[&str] = &["ps_endpoints.csv", "ps_auths.csv", "ps_aors.csv"];

/// The beginnings of lines that a dump in SQL has and pjsip.conf has not.
const SQL: [&str; 14] = [
    "--", "/*", "set ", "create ", "insert ", "begin", "pragma ", "drop ", "use ", "copy ", "start ",
    "lock ", "alter ", "\\",
];

/// Rows of Asterisk's tables, until the last is known: an endpoint may stand before its auth.
pub(in crate::import) struct Realtime {
    sections: Sections,
    /// All that is kept is larger than it may be.
    is_too_large: bool,
    domain: Box<str>,
}

impl Realtime {
    pub(in crate::import) fn new(domain: &str) -> Realtime {
        Realtime { sections: Sections::default(), is_too_large: false, domain: domain.into() }
    }
}

impl RowFormat for Realtime {
    // A file of CSV does not say its table: the columns do.
    fn row(&mut self, row: &Row, _domain: &str, _out: &mut VecDeque<ForeignPiece>) {
        let kind = match &*row.table {
            "ps_endpoints" => "endpoint",
            "ps_auths" => "auth",
            "ps_aors" => "aor",
            _ if row.has("aors") => "endpoint",
            _ if row.has("auth_type") || row.has("username") => "auth",
            _ => "aor",
        };
        let line = Line::unpacked(row.line);
        let section = Section::of_row(row.get("id"), line, kind, |column| row.get(column));
        if !self.is_too_large && self.sections.add(section).is_err() {
            self.is_too_large = true;
        }
    }

    fn end(&mut self, out: &mut VecDeque<ForeignPiece>) {
        if self.is_too_large {
            let limit = crate::limits::IMPORT_CONFIG >> 20;
            let what = format!(
                "more than {limit} MiB of endpoints; expected fewer: what is behind them is not taken"
            );
            out.push_back(ForeignPiece::Bad { line: 0, what });
        }
        Reading { sections: &self.sections, domain: &self.domain, out }.all(&DialPlan::default());
    }
}

/// True if a file that begins so has rows of tables and not sections.
pub(in crate::import) fn are_rows(beginning: &[u8]) -> bool {
    let text = String::from_utf8_lossy(beginning).to_lowercase();
    let text = text.trim_start_matches('\u{feff}');
    let first = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with(';'));
    first.is_some_and(|line| SQL.iter().any(|word| line.starts_with(word)) || is_heading(line))
}

/// `id,transport,aors,…`, also with quotes, semicolons or tabs.
fn is_heading(line: &str) -> bool {
    let mut columns = line.split([',', ';', '\t']).map(|column| column.trim_matches(['"', '`', ' ']));
    columns.next() == Some("id") && columns.next().is_some()
}

/// True for a folder with tables and without pjsip.conf.
pub(in crate::import) fn is_folder_of_tables(folder: &Path) -> bool {
    !folder.join("pjsip.conf").exists() && FOLDER.iter().any(|name| folder.join(name).is_file())
}

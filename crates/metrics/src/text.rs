//! Lines of the exposition and of the page that all metrics share.

use std::fmt::Write as _;

use super::Kind;

/// The two lines before the values of a metric.
pub(crate) fn head(out: &mut String, name: &str, kind: Kind, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {}", kind.name());
}

/// The value of a label as the text format wants it.
pub(crate) fn escaped(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// A row of a table of the page.
pub(crate) fn row(page: &mut String, name: &str, kind: Kind, help: &str) {
    let _ = writeln!(page, "| `{name}` | {} | {help} |", kind.name());
}

//! The fields of log lines are those that `docs/logging.md` describes: an operator who collects lines by a field finds it there.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result};

use crate::source::Source;

const PAGE: &str = "docs/logging.md";

/// The heading of the page's table of fields.
const HEADING: &str = "## Fields";

const MACROS: [&str; 5] = ["error", "warn", "info", "debug", "trace"];

pub(super) fn findings(root: &Path, sources: &[Source]) -> Result<Vec<String>> {
    let page = std::fs::read_to_string(root.join(PAGE)).with_context(|| format!("no {PAGE}"))?;
    let mut used = BTreeMap::new();
    for source in sources.iter().filter(|source| source.path.contains("/src/") && !source.is_test()) {
        for field in fields(source) {
            used.entry(field).or_insert_with(|| source.path.clone());
        }
    }
    Ok(compare(&described(&page), &used))
}

fn compare(described: &BTreeSet<String>, used: &BTreeMap<String, String>) -> Vec<String> {
    let mut findings: Vec<String> = used
        .iter()
        .filter(|(field, _)| !described.contains(*field))
        .map(|(field, path)| {
            format!("{path}: the log field `{field}` is not in {PAGE}: describe it there, or use one that is")
        })
        .collect();
    let unused = described.iter().filter(|field| !used.contains_key(*field));
    findings.extend(unused.map(|field| format!("{PAGE}: no line has the field `{field}`: remove it there")));
    findings
}

/// The names in the first column of the table of fields.
fn described(page: &str) -> BTreeSet<String> {
    let table = page.split_once(HEADING).map_or("", |(_, rest)| rest);
    let table = table.split("\n## ").next().unwrap_or_default();
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    rows.map(|(name, _)| name.to_owned()).collect()
}

/// The fields that the lines of a source have.
fn fields(source: &Source) -> BTreeSet<String> {
    let code = &source.code;
    let mut fields = BTreeSet::new();
    for name in MACROS {
        let call = format!("tracing::{name}!(");
        for (at, _) in code.match_indices(&call) {
            for argument in arguments(&code[at + call.len()..]) {
                fields.extend(field(argument).map(str::to_owned));
            }
        }
    }
    fields
}

/// The arguments of a call, up to its closing parenthesis. Strings are blank in `code`, so every comma and bracket counts.
fn arguments(code: &str) -> Vec<&str> {
    let (mut found, mut begin, mut depth) = (Vec::new(), 0, 0_usize);
    for (at, character) in code.char_indices() {
        match character {
            ')' | ']' | '}' if depth == 0 => {
                found.push(&code[begin..at]);
                break;
            }
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                found.push(&code[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    found
}

/// The field of an argument: `name`, `%name` and `?name` (of `a.name` the last part), or what is before `=`. `None`: the text of the
/// line, or its target.
fn field(argument: &str) -> Option<&str> {
    let argument = argument.trim();
    let name = match argument.split_once('=') {
        Some((name, _)) => name.trim(),
        None => argument.trim_start_matches(['%', '?']),
    };
    let is_name = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_lowercase())
            && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    };
    name.rsplit('.').next().filter(|_| name.split('.').all(is_name))
}

#[test]
fn fields_are_found_in_all_their_forms() {
    let text = r#"
        fn one() {
            tracing::warn!(
                target: "belfry::one", %error, first = call(1, "a, b"),
                // A comment, with a comma.
                ?third, "what {happened}", 
            );
            tracing::info!("no field = here");
            tracing::debug!(peer.remote, status, "text");
        }
    "#;
    let found = fields(&Source::new("crates/a/src/b.rs", text));
    assert_eq!(found.into_iter().collect::<Vec<_>>(), ["error", "first", "remote", "status", "third"]);
}

#[test]
fn a_field_that_is_missing_on_either_side_is_found() {
    let page = "## Every line\n| `level` | x |\n## Fields\n| `error` | x |\n| `gone` | x |\n## More\n| `other` | x |\n";
    let used = ["error", "new"].map(|name| (name.to_owned(), "a.rs".to_owned())).into();
    let findings = compare(&described(page), &used);
    assert_eq!(findings.len(), 2, "{findings:?}");
    assert!(findings[0].contains("a.rs: the log field `new`") && findings[1].contains("the field `gone`"));
}

//! The tests that `docs/security.md` names exist: a defence whose test was renamed or removed is a claim only.

use std::path::Path;

use anyhow::{Context, Result};

const PAGE: &str = "docs/security.md";

pub(super) fn findings(root: &Path) -> Result<Vec<String>> {
    let page = std::fs::read_to_string(root.join(PAGE)).with_context(|| format!("no {PAGE}"))?;
    let read = |file: &str| std::fs::read_to_string(root.join("crates").join(file)).ok();
    Ok(missing(&page, read))
}

/// Names stand in backticks: `<crate>/<path>.rs::test`, and `::test` of the file named before it.
fn missing(page: &str, read: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let mut findings = Vec::new();
    for (number, line) in page.lines().enumerate() {
        let mut source: Option<String> = None;
        for (file, test) in line.split('`').skip(1).step_by(2).filter_map(|word| word.rsplit_once("::")) {
            if !file.is_empty() && !file.ends_with(".rs") {
                continue;
            }
            if !file.is_empty() {
                source = read(file);
            }
            let is_there = source.as_ref().is_some_and(|source| source.contains(&format!("fn {test}(")));
            if !is_there {
                findings.push(format!("{PAGE}:{}: there is no test {file}::{test}", number + 1));
            }
        }
    }
    findings
}

#[test]
fn a_test_that_is_not_there_is_found() {
    let read = |file: &str| (file == "a/b.rs").then(|| "#[test]\nfn one() {}\n".to_owned());
    assert_eq!(missing("| `a/b.rs::one`, `::one`, `wire::check` |", read), [""; 0]);
    assert_eq!(missing("`a/b.rs::one`, `::two`", read), ["docs/security.md:1: there is no test ::two"]);
    assert_eq!(missing("\n`a/c.rs::one`", read), ["docs/security.md:2: there is no test a/c.rs::one"]);
}

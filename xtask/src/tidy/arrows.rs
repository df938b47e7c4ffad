//! Which crate may use which: the table in ARCHITECTURE.md, held against every manifest.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::words::CORES;

/// What no core links: these bring sockets, threads, a clock or a runtime.
const NOT_IN_CORES: [&str; 9] = [
    "axum",
    "hickory-resolver",
    "libc",
    "rusqlite",
    "rustls",
    "socket2",
    "tokio",
    "tokio-rustls",
    "tracing-subscriber",
];

/// For tests; never among the dependencies of what is shipped.
const TEST_ONLY: &str = "sim";

type Names = BTreeSet<String>;

pub(crate) fn findings(root: &Path) -> Result<Vec<String>> {
    let table = parse_table(&fs::read_to_string(root.join("ARCHITECTURE.md")).context("ARCHITECTURE.md")?)?;
    let mut findings = Vec::new();
    for entry in fs::read_dir(root.join("crates")).context("crates")? {
        let folder = entry?;
        let name = folder.file_name().to_string_lossy().into_owned();
        let manifest = folder.path().join("Cargo.toml");
        if manifest.is_file() {
            let text = fs::read_to_string(&manifest).with_context(|| manifest.display().to_string())?;
            findings.extend(check(&name, &text, &table)?);
        }
    }
    findings.sort();
    Ok(findings)
}

/// Crate to the crates it may use, from the rows ``| `crate` | what | may use | … |``.
fn parse_table(architecture: &str) -> Result<BTreeMap<String, Names>> {
    let rows: Vec<Vec<&str>> = architecture
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| line.split('|').map(str::trim).collect())
        .collect();
    let all: Names = rows.iter().filter_map(|row| ticked(row[1]).next()).map(str::to_owned).collect();
    let mut table = BTreeMap::new();
    for row in rows.iter().filter(|row| row.len() > 4) {
        let Some(name) = ticked(row[1]).next() else { continue };
        table.insert(name.to_owned(), allowed(row[3], &all));
    }
    if table.is_empty() {
        bail!("ARCHITECTURE.md: no table of crates with the columns crate, what it is, may use, must never");
    }
    Ok(table)
}

fn allowed(cell: &str, all: &Names) -> Names {
    match cell {
        "all" => all.iter().filter(|name| *name != TEST_ONLY).cloned().collect(),
        "the cores" => CORES.iter().map(|name| (*name).to_owned()).collect(),
        _ => ticked(cell).map(str::to_owned).collect(),
    }
}

/// What stands between backticks.
fn ticked(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

fn check(name: &str, manifest: &str, table: &BTreeMap<String, Names>) -> Result<Vec<String>> {
    let place = format!("crates/{name}/Cargo.toml");
    let Some(allowed) = table.get(name) else {
        return Ok(vec![format!("{place}: `{name}` has no row in ARCHITECTURE.md's table")]);
    };
    let manifest: toml::Table = manifest.parse().with_context(|| place.clone())?;
    let mut findings = Vec::new();
    for used in dependencies(&manifest, "dependencies") {
        if table.contains_key(used) && !allowed.contains(used) {
            findings.push(format!("{place}: `{name}` may not use `{used}` (ARCHITECTURE.md)"));
        }
        if CORES.contains(&name) && NOT_IN_CORES.contains(&used) {
            findings
                .push(format!("{place}: `{used}` in a core: sockets, clock and runtime belong to `server`"));
        }
    }
    // A core's tests may drive it through the simulator, and nothing beyond.
    let is_core = CORES.contains(&name);
    for used in dependencies(&manifest, "dev-dependencies").filter(|_| is_core) {
        if used == "server" || NOT_IN_CORES.contains(&used) {
            findings.push(format!("{place}: `{used}` in a core's tests: use virtual time (`sim`)"));
        }
    }
    Ok(findings)
}

fn dependencies<'a>(manifest: &'a toml::Table, section: &str) -> impl Iterator<Item = &'a str> {
    manifest
        .get(section)
        .and_then(toml::Value::as_table)
        .into_iter()
        .flat_map(|table| table.keys().map(String::as_str))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAP: &str = "
| crate | what it is | may use | must never |
|---|---|---|---|
| `stdx` | time | – | know `sip` |
| `sip` | wire | `stdx` | – |
| `server` | the binary | all | – |
| `sim` | for tests | the cores | be linked |
";

    fn check_one(name: &str, manifest: &str) -> Vec<String> {
        check(name, manifest, &parse_table(MAP).unwrap()).unwrap()
    }

    #[test]
    fn arrows_follow_the_table() {
        assert_eq!(check_one("sip", "[dependencies]\nstdx.workspace = true\nbytes = '1'").len(), 0);
        assert_eq!(check_one("stdx", "[dependencies]\nsip.workspace = true").len(), 1);
        assert_eq!(check_one("sip", "[dependencies]\ntokio = '1'").len(), 1);
        assert_eq!(check_one("sip", "[dev-dependencies]\nsim.workspace = true").len(), 0);
    }

    #[test]
    fn the_simulator_is_not_shipped() {
        assert_eq!(check_one("server", "[dependencies]\nsip.workspace = true").len(), 0);
        assert_eq!(check_one("server", "[dependencies]\nsim.workspace = true").len(), 1);
    }

    #[test]
    fn a_crate_needs_a_row() {
        assert_eq!(check_one("common", "[dependencies]").len(), 1);
    }
}

//! Compares the table of crates in ARCHITECTURE.md, and the uses that it allows, with every manifest.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::source::Source;

use super::words::CORES;

/// Crates that no core links: they bring sockets, threads, a clock or a runtime.
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
const TEST_ONLY: [&str; 4] = ["golden", "page-commands", "sim", "wait"];

/// The crate of the binary `belfry`.
const SHIPPED: &str = "server";

/// The most that these crates may use of ours, whatever the table allows. None of them uses a runtime.
const AT_MOST: [(&str, &[&str]); 11] = [
    ("bytestreams", &["stdx"]),
    ("muc", &["stdx", "xmpp"]),
    ("privilege", &["stdx", "xmpp"]),
    ("pubsub", &["stdx", "xmpp"]),
    ("chat", &["stdx", "xmpp", "bytestreams", "muc", "privilege", "pubsub"]),
    ("voice", &["stdx", "router", "sip", "media", "ivr", "call", "store", "admin"]),
    ("lab-sip", &["stdx", "sip", "media", "mmsg", "lab-xmpp"]),
    ("lab-xmpp", &["stdx", "xmpp", "lab-sip"]),
    ("lab-record", &["media"]),
    ("lab-report", &[]),
    (
        "lab",
        &[
            "allocator",
            "stdx",
            "sip",
            "xmpp",
            "media",
            "mmsg",
            "tls-session",
            "lab-record",
            "lab-report",
            "lab-sip",
            "lab-xmpp",
        ],
    ),
];

const RUNTIMES: [&str; 3] = ["tokio", "tokio-rustls", "hyper"];

type Names = BTreeSet<String>;

pub(crate) fn findings(root: &Path, sources: &[Source]) -> Result<Vec<String>> {
    let table = parse_table(&fs::read_to_string(root.join("ARCHITECTURE.md")).context("ARCHITECTURE.md")?)?;
    let mut findings = Vec::new();
    let mut manifests = BTreeMap::new();
    for entry in fs::read_dir(root.join("crates")).context("crates")? {
        let folder = entry?;
        let name = folder.file_name().to_string_lossy().into_owned();
        let manifest = folder.path().join("Cargo.toml");
        if manifest.is_file() {
            let text = fs::read_to_string(&manifest).with_context(|| manifest.display().to_string())?;
            findings.extend(check(&name, &text, &table)?);
            manifests.insert(name, text.parse().with_context(|| manifest.display().to_string())?);
        }
    }
    findings.extend(linked_into_belfry(&manifests));
    for (name, manifest) in &manifests {
        findings.extend(unused(name, manifest, sources));
    }
    findings.sort();
    Ok(findings)
}

/// Dependencies that no source of the crate names: each costs a build, and hides which crate needs it.
fn unused(name: &str, manifest: &toml::Table, sources: &[Source]) -> Vec<String> {
    let own: Vec<&Source> = sources.iter().filter(|source| source.crate_name() == Some(name)).collect();
    let is_shipped = |source: &&&Source| source.path.contains("/src/") || source.path.ends_with("/build.rs");
    let mut findings = Vec::new();
    for (section, is_dev) in [("dependencies", false), ("dev-dependencies", true)] {
        for used in dependencies(manifest, section) {
            let word = if used == "md-5" { "md5".to_owned() } else { used.replace('-', "_") };
            let names = |source: &&Source| source.lines_with(&word).next().is_some();
            if !own.iter().filter(|source| is_dev || is_shipped(source)).any(names) {
                findings.push(format!(
                    "crates/{name}/Cargo.toml: `{used}` of {section} is used nowhere: remove it"
                ));
            }
        }
    }
    findings
}

/// The load lab and what is for tests are not linked into the server, not even through another crate.
fn linked_into_belfry(manifests: &BTreeMap<String, toml::Table>) -> Vec<String> {
    let mut linked = BTreeSet::from([SHIPPED]);
    let mut open = vec![SHIPPED];
    while let Some(manifest) = open.pop().and_then(|name| manifests.get(name)) {
        open.extend(dependencies(manifest, "dependencies").filter(|used| linked.insert(used)));
    }
    let is_foreign = |name: &&&str| TEST_ONLY.contains(name) || **name == "lab" || name.starts_with("lab-");
    let found = linked.iter().filter(is_foreign);
    found.map(|name| format!("crates/{SHIPPED}/Cargo.toml: `belfry` links `{name}`")).collect()
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
        "all" => all.iter().filter(|name| !TEST_ONLY.contains(&name.as_str())).cloned().collect(),
        "the cores" => CORES.iter().map(|name| (*name).to_owned()).collect(),
        _ => ticked(cell).map(str::to_owned).collect(),
    }
}

/// The words between backticks.
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
        if let Some((_, at_most)) = AT_MOST.iter().find(|(it, _)| *it == name) {
            if table.contains_key(used) && !at_most.contains(&used) {
                findings
                    .push(format!("{place}: `{name}` may not use `{used}`, whatever ARCHITECTURE.md says"));
            } else if RUNTIMES.contains(&used) {
                findings.push(format!("{place}: `{name}` may not use `{used}`: no runtime"));
            }
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
    fn the_lab_is_not_linked_into_the_server() {
        let manifests = |of_store: &str| {
            let crates = [("server", "store.workspace = true"), ("store", of_store), ("lab-sip", "")];
            let table = |text: &str| format!("[dependencies]\n{text}").parse().unwrap();
            crates.map(|(name, text)| (name.to_owned(), table(text))).into()
        };
        assert_eq!(linked_into_belfry(&manifests("csv = '1'")), [""; 0]);
        let found = linked_into_belfry(&manifests("lab-sip.workspace = true"));
        assert_eq!(found, ["crates/server/Cargo.toml: `belfry` links `lab-sip`"]);
    }

    #[test]
    fn a_dependency_is_used() {
        let sources = [
            Source::new("crates/sip/src/a.rs", "use stdx::Slab; // bytes"),
            Source::new("crates/sip/tests/b.rs", "use proptest::prelude::*; use bytes::Bytes;"),
        ];
        let manifest =
            "[dependencies]\nstdx = '1'\nbytes = '1'\n[dev-dependencies]\nproptest = '1'\nsim = '1'";
        let found = unused("sip", &manifest.parse().unwrap(), &sources);
        let expected = ["`bytes` of dependencies", "`sim` of dev-dependencies"];
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found.iter().zip(expected).all(|(found, expected)| found.contains(expected)), "{found:?}");
    }

    #[test]
    fn some_crates_have_a_ceiling() {
        let map = format!("{MAP}| `voice` | calls | `chat` | – |\n| `chat` | rooms | – | – |\n");
        let check = |manifest: &str| check("voice", manifest, &parse_table(&map).unwrap()).unwrap();
        assert_eq!(check("[dependencies]\nchat = '1'").len(), 1);
        // As one of the voice's own and as one of a core.
        assert_eq!(check("[dependencies]\ntokio = '1'").len(), 2);
        assert_eq!(check("[dependencies]\nbytes = '1'").len(), 0);
    }

    #[test]
    fn a_crate_needs_a_row() {
        assert_eq!(check_one("common", "[dependencies]").len(), 1);
    }
}

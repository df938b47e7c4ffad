//! RFC 3261 requirement by requirement, as far as a registrar, a proxy and a user agent server are concerned:
//! `docs/compliance-sip.md` is made of these rows. `BLESS=1 cargo test -p sim --test calls table` writes it.

mod proxy;
mod registrar;
mod uas;

use std::fmt::Write;
use std::path::Path;

/// One requirement.
struct Row {
    section: &'static str,
    demand: &'static str,
    proof: Proof,
}

/// The check of a requirement.
enum Proof {
    /// Here.
    Body(fn()),
    /// By a test of its own: `path::name`, below `crates`.
    Test(&'static str),
}

const fn body(section: &'static str, demand: &'static str, body: fn()) -> Row {
    Row { section, demand, proof: Proof::Body(body) }
}

const fn test(section: &'static str, demand: &'static str, path: &'static str) -> Row {
    Row { section, demand, proof: Proof::Test(path) }
}

const PARTS: [(&str, &str, &[Row]); 3] = [
    ("User agent server", "uas", uas::ROWS),
    ("Registrar", "registrar", registrar::ROWS),
    ("Proxy", "proxy", proxy::ROWS),
];

fn rows() -> impl Iterator<Item = &'static Row> {
    PARTS.iter().flat_map(|(_, _, rows)| rows.iter())
}

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

#[test]
fn every_row_holds() {
    for row in rows() {
        if let Proof::Body(body) = row.proof {
            // Shown when the body panics.
            println!("§{} {}", row.section, row.demand);
            body();
        }
    }
}

#[test]
fn every_named_test_exists() {
    for row in rows() {
        if let Proof::Test(path) = row.proof {
            let (file, name) = path.split_once("::").unwrap();
            let text = std::fs::read_to_string(root().join("crates").join(file)).unwrap();
            let start = format!("fn {name}()");
            let is_there = text.split("#[test]").any(|rest| rest.trim_start().starts_with(&start));
            assert!(is_there, "§{}: no test {path}", row.section);
        }
    }
}

const HEAD: &str = "# SIP: RFC 3261, requirement by requirement

Made by the code (`crates/sim/tests/calls/table`). Each row is a requirement of a user agent server (§8.2), a registrar (§10.3) or a
proxy (§16) with the test that proves it. Where a row says that we do something else than the text, [deviations/sip.md](deviations/sip.md) has
the reason.
";

fn page() -> String {
    let mut page = String::from(HEAD);
    for (title, file, rows) in PARTS {
        write!(page, "\n## {title}\n\n| section | requirement | test |\n|---|---|---|\n").unwrap();
        for row in rows {
            let proof = match row.proof {
                Proof::Body(_) => format!("`crates/sim/tests/calls/table/{file}.rs`"),
                Proof::Test(path) => format!("`crates/{path}`"),
            };
            writeln!(page, "| {} | {} | {proof} |", row.section, row.demand).unwrap();
        }
    }
    page
}

#[test]
fn the_page_is_committed() {
    let path = root().join("docs/compliance-sip.md");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, page()).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == page(),
        "BLESS=1 cargo test -p sim --test calls table writes docs/compliance-sip.md"
    );
}

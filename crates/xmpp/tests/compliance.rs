//! `docs/compliance.md` says what the features say of themselves. `BLESS=1 cargo test -p xmpp --test compliance` writes it.

use std::collections::BTreeMap;
use std::path::Path;

use xmpp::host::{Level, specifications};

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// By name; the files of one that several have.
fn page() -> String {
    let mut rows: BTreeMap<(&str, &str), Vec<String>> = BTreeMap::new();
    for found in specifications() {
        let level = match found.level {
            Level::Complete => "complete",
            Level::Partial => "partial",
        };
        rows.entry((found.name, found.version)).or_default().push(format!(
            "| {} | {} | {} | {level} | `{}` | {} |",
            found.name, found.title, found.version, found.file, found.note
        ));
    }
    let mut page = String::from(
        "# XMPP: what is built\n\nMade by the code: each feature says what it is of which specification. A level is of the \
         server's side.\n\n| specification | title | version | level | file | note |\n|---|---|---|---|---|---|\n",
    );
    for row in rows.values().flatten() {
        page.push_str(row);
        page.push('\n');
    }
    page
}

#[test]
fn the_page_is_what_is_built() {
    let path = root().join("docs/compliance.md");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, page()).expect("docs is a folder that can be written to");
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(
        committed,
        page(),
        "docs/compliance.md is out of date: BLESS=1 cargo test -p xmpp --test compliance"
    );
}

#[test]
fn each_specification_has_its_file() {
    for found in specifications() {
        assert!(root().join(found.file).exists(), "{}: no {}", found.name, found.file);
    }
}

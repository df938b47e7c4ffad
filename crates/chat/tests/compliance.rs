//! `docs/compliance.md` and `belfry.doap` say what is built. `BLESS=1 cargo test -p chat --test compliance` writes them.

use std::fmt::Write;
use std::path::Path;

use chat::compliance::{self, Need, SUITE, TABLES, UNTESTED};
use xmpp::{Level, Specification};

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn word(level: Level) -> &'static str {
    match level {
        Level::Complete => "complete",
        Level::Partial => "partial",
    }
}

const HEAD: &str = "# XMPP: what is built

Made by the code (`crates/chat/src/compliance.rs` and each feature's own file). A level is of the server's side; a version is
that of the text that was built from. `belfry.doap`, at the root of the repository, says the same to machines.

| specification | title | version | level | file | test | note |
|---|---|---|---|---|---|---|
";

const UNTESTED_HEAD: &str = "
## Requirements without a test

";

const SUITE_HEAD: &str = "
## The compliance suites of 2023 (XEP-0479, version 0.1.0)

What a server has to have in each category. Advanced has all of Core.

| category | level | feature | by | here |
|---|---|---|---|---|
";

fn page() -> String {
    let mut page = String::from(HEAD);
    for found in compliance::all() {
        let tests: Vec<String> =
            compliance::tests(found.name).iter().map(|file| format!("`{file}`")).collect();
        let Specification { name, title, version, level, file, note } = found;
        let level = word(*level);
        writeln!(
            page,
            "| {name} | {title} | {version} | {level} | `{file}` | {} | {note} |",
            tests.join(" ")
        )
        .expect("a string takes all");
    }
    page.push_str(UNTESTED_HEAD);
    for (name, section, demand) in UNTESTED {
        writeln!(page, "- {name} §{section}: {demand}").expect("a string takes all");
    }
    if UNTESTED.is_empty() {
        page.push_str("None of the specifications that are tested requirement by requirement.\n");
    }
    let tables = TABLES.join(", ");
    writeln!(page, "\nTested requirement by requirement: {tables}. Others have tests of what they are for, and no list of what lacks one.")
        .expect("a string takes all");
    page.push_str(SUITE_HEAD);
    for need in SUITE {
        let level = if need.is_advanced { "Advanced" } else { "Core" };
        let by = need.by.join(", ");
        let Need { category, feature, .. } = need;
        writeln!(page, "| {category} | {level} | {feature} | {by} | {} |", met(need))
            .expect("a string takes all");
    }
    page
}

/// The lowest level of the specifications that meet it.
fn met(need: &Need) -> String {
    let all = compliance::all();
    let level = |name: &&str| all.iter().find(|found| *found.name == **name).map(|found| found.level);
    let missing: Vec<&str> = need.by.iter().filter(|name| level(name).is_none()).copied().collect();
    if !missing.is_empty() {
        return format!("**missing: {}**", missing.join(", "));
    }
    let partial: Vec<&str> =
        need.by.iter().filter(|name| level(name) == Some(Level::Partial)).copied().collect();
    if partial.is_empty() { "met".into() } else { format!("partial: {}", partial.join(", ")) }
}

const DOAP_HEAD: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<!-- Made by the code: BLESS=1 cargo test -p chat --test compliance -->
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://usefulinc.com/ns/doap#" xmlns:xmpp="https://linkmauve.fr/ns/xmpp-doap#" xmlns:schema="https://schema.org/">
  <Project xml:lang="en">
    <name>Belfry</name>
    <shortdesc>Telephone exchange and chat server</shortdesc>
    <description>SIP registrar, proxy and programmable voice, and XMPP on the same accounts</description>
    <os>Linux</os>
    <programming-language>Rust</programming-language>
    <license rdf:resource="https://spdx.org/licenses/Apache-2.0.html"/>
    <license rdf:resource="https://spdx.org/licenses/MIT.html"/>
    <category rdf:resource="https://linkmauve.fr/ns/xmpp-doap#category-xmpp"/>
    <category rdf:resource="https://linkmauve.fr/ns/xmpp-doap#category-server"/>
"#;

fn doap() -> String {
    let mut doap = String::from(DOAP_HEAD);
    let mut all = compliance::all();
    // One entry each: a specification in several files has the lowest level of them.
    all.sort_by_key(|found| (found.name, found.level == Level::Complete));
    all.dedup_by_key(|found| found.name);
    for found in &all {
        if let Some(number) = found.name.strip_prefix("RFC ") {
            let at = format!("https://www.rfc-editor.org/rfc/rfc{number}");
            writeln!(doap, "    <implements rdf:resource=\"{at}\"/>").expect("a string takes all");
        }
    }
    for found in &all {
        let Some(number) = found.name.strip_prefix("XEP-") else { continue };
        let note = match found.note {
            "" => String::new(),
            note => {
                let escaped = xmpp::xml::escape(note);
                format!("        <xmpp:note>{escaped}</xmpp:note>\n")
            }
        };
        write!(
            doap,
            "    <implements>\n      <xmpp:SupportedXep>\n        <xmpp:xep rdf:resource=\"https://xmpp.org/extensions/xep-{number}.html\"/>\n        <xmpp:status>{}</xmpp:status>\n        <xmpp:version>{}</xmpp:version>\n{note}      </xmpp:SupportedXep>\n    </implements>\n",
            word(found.level),
            found.version,
        )
        .expect("a string takes all");
    }
    doap.push_str("  </Project>\n</rdf:RDF>\n");
    doap
}

fn check(name: &str, expected: &str) {
    let path = root().join(name);
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, expected).expect("the repository can be written to");
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == expected, "{name} is out of date: BLESS=1 cargo test -p chat --test compliance");
}

#[test]
fn the_compliance_page_is_up_to_date() {
    check("docs/compliance.md", &page());
}

#[test]
fn the_doap_file_is_up_to_date() {
    let doap = doap();
    check("belfry.doap", &doap);
    // Ours to read at least: without what a stream must not have.
    let body = doap.split_once("-->\n").expect("the comment is there").1;
    let prefixes = xmpp::xml::Prefixes::of_default("");
    let read = xmpp::xml::parse(body.trim().as_bytes(), &prefixes).expect("it is XML");
    let project = read.first().expect("it has a project");
    assert!(project.elements().filter(|child| child.name() == "implements").count() > 50);
}

#[test]
fn each_specification_has_its_file_and_its_test() {
    for found in compliance::all() {
        assert!(root().join(found.file).exists(), "{}: no {}", found.name, found.file);
        let tests = compliance::tests(found.name);
        assert!(!tests.is_empty(), "{}: name its test in compliance::TESTS", found.name);
        for file in tests {
            assert!(root().join(&file).exists(), "{}: no {file}", found.name);
        }
    }
}

#[test]
fn levels_say_why_they_are_partial() {
    for found in compliance::all() {
        assert!(found.level == Level::Complete || !found.note.is_empty(), "{}: what is missing?", found.name);
    }
}

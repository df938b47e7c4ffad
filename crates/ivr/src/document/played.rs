//! Checks that every verb and attribute of the language occurs in a play, so that each is tested.
//!
//! A play is a test of `tests/plays` that performs a document with a script.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::lexicon::{NOUNS, SPOKEN, VERBS};

/// The verbs and attributes that occur in no play, with the reason.
const UNPLAYED: &[(&str, &str, &str)] = &[];

/// Elements that are written in the plays, with the attributes they are given there.
fn played() -> BTreeMap<String, BTreeSet<String>> {
    let mut played: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/plays");
    for file in std::fs::read_dir(folder).expect("the plays are there") {
        let source = std::fs::read_to_string(file.expect("a play").path()).expect("a play is text");
        // Documents are literals: two escapes of Rust's stand between them and XML.
        let source = source.replace("\\\n", " ").replace("\\\"", "\"");
        for tag in source.split('<').skip(1) {
            let end = tag.find(|c: char| !c.is_ascii_alphabetic() && c != '-').unwrap_or(tag.len());
            let (name, rest) = tag.split_at(end);
            played.entry(name.to_owned()).or_default().extend(attributes(rest));
        }
    }
    played
}

/// The attribute names of ` a='b' c="d">…`.
fn attributes(mut rest: &str) -> Vec<String> {
    let mut names = Vec::new();
    while let Some((name, more)) = rest.trim_start().split_once('=') {
        let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphabetic() || "-:".contains(c));
        let quote = more.chars().next().filter(|c| "'\"".contains(*c));
        let (true, Some(quote)) = (is_name, quote) else { break };
        let Some((_, after)) = more[1..].split_once(quote) else { break };
        names.push(name.to_owned());
        rest = after;
    }
    names
}

#[test]
fn every_verb_noun_and_attribute_is_in_a_play() {
    let played = played();
    let mut missing = Vec::new();
    for entry in [VERBS, NOUNS, SPOKEN].into_iter().flatten() {
        let Some(given) = played.get(entry.name) else {
            missing.push(format!("<{}>", entry.name));
            continue;
        };
        for attribute in entry.attributes {
            let is_excepted =
                UNPLAYED.iter().any(|(of, name, _)| (*of, *name) == (entry.name, attribute.name));
            if given.contains(attribute.name) == is_excepted {
                let why = if is_excepted { "is in a play, and excepted" } else { "is in no play" };
                missing.push(format!("{} of <{}> {why}", attribute.name, entry.name));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn attributes_are_found_as_they_are_written() {
    assert_eq!(attributes(" a='b c' xml:lang=\"d\"/>e='f'"), ["a", "xml:lang"]);
    assert!(attributes("> a='b'").is_empty());
}

//! Every word of the scenario language stands in a scenario of the corpus, or here with the reason why not.

use std::collections::BTreeSet;

use interop::compare;
use lab_sip::scenario::{self, WordKind};

/// Attributes as `element.attribute`, keywords in brackets.
#[rustfmt::skip]
const EXCEPTIONS: &[(&str, &str)] = &[
    ("recvCmd.optional", "SIPp refuses a scenario that waits for nothing else; the engine's own tests have it"),
    ("pauserestore.variable", "neither tool goes on after a time that is past; with `value` they do"),
];

#[test]
fn every_word_is_in_a_scenario() {
    let texts = texts();
    let mut missing: BTreeSet<String> = BTreeSet::new();
    for word in scenario::words() {
        if !texts.iter().any(|text| stands_in(word.kind, word.of, word.name, text)) {
            missing.insert(label(word.kind, word.of, word.name));
        }
    }
    let excepted: BTreeSet<String> = EXCEPTIONS.iter().map(|(name, _)| (*name).to_owned()).collect();
    let forgotten: Vec<&String> = missing.difference(&excepted).collect();
    assert!(forgotten.is_empty(), "in no scenario of the corpus: {forgotten:#?}");
    let needless: Vec<&String> = excepted.difference(&missing).collect();
    assert!(needless.is_empty(), "excepted though a scenario has them: {needless:#?}");
}

#[test]
fn every_built_in_scenario_is_in_a_case() {
    let cases: Vec<String> = compare::cases()
        .iter()
        .map(|name| {
            let path = compare::corpus().join(format!("{name}.case"));
            std::fs::read_to_string(path).expect("a case is text")
        })
        .collect();
    for name in scenario::BUILT_IN_NAMES {
        let words = format!(" {name} ");
        let is_run = cases.iter().any(|case| case.contains(&words));
        assert!(is_run, "{name} is in no case");
    }
}

/// Scenarios of the corpus and those built in, which cases run too.
fn texts() -> Vec<String> {
    let files = std::fs::read_dir(compare::corpus()).expect("the corpus is part of the sources");
    files
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let is_scenario = path.extension().is_some_and(|extension| extension == "xml");
            is_scenario.then(|| std::fs::read_to_string(&path).expect("a scenario is text"))
        })
        .chain(scenario::BUILT_IN_NAMES.iter().filter_map(|name| scenario::built_in(name)).map(str::to_owned))
        .collect()
}

fn label(kind: WordKind, of: &str, name: &str) -> String {
    match kind {
        WordKind::Element | WordKind::Action => format!("<{name}>"),
        WordKind::Attribute => format!("{of}.{name}"),
        WordKind::Keyword => format!("[{name}]"),
    }
}

fn stands_in(kind: WordKind, of: &str, name: &str, text: &str) -> bool {
    match kind {
        WordKind::Element | WordKind::Action => tags(text, name).next().is_some(),
        WordKind::Attribute if of.is_empty() => text.contains(&format!(" {name}=\"")),
        WordKind::Attribute => tags(text, of).any(|tag| tag.contains(&format!(" {name}=\""))),
        WordKind::Keyword => {
            let start = match name {
                "fieldN" => "[field0",
                "$name" => "[$",
                "last_Name:" => "[last_Via:",
                "last_Name.value" => "[last_From.value",
                name => &format!("[{name}"),
            };
            text.match_indices(start).any(|(at, _)| {
                let after = text[at + start.len()..].chars().next();
                start.ends_with('$') || after.is_none_or(|next| !next.is_alphanumeric() && next != '_')
            })
        }
    }
}

/// The tags of that name, with their attributes.
fn tags<'t>(text: &'t str, name: &str) -> impl Iterator<Item = &'t str> {
    let start = format!("<{name}");
    let positions: Vec<usize> = text.match_indices(&start).map(|(at, _)| at).collect();
    let length = start.len();
    positions.into_iter().filter_map(move |at| {
        let tag = &text[at..];
        let next = tag[length..].chars().next()?;
        (!next.is_alphanumeric() && next != '_')
            .then(|| &tag[..tag.find('>').map_or(tag.len(), |end| end + 1)])
    })
}

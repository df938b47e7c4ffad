//! The schema for editors: it is what the code makes, and every scenario of the repository follows it. The check reads the
//! committed file and knows the parts of XSD that it uses.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::super::builtin::{BUILT_IN_NAMES, built_in};
use super::super::language_words::{WordKind, words};
use super::super::schema::scenario_schema;
use super::super::xml::{self, Element};

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/scenario.xsd")
}

#[test]
fn the_committed_schema_is_up_to_date() {
    let made = scenario_schema();
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path(), &made).expect("the schema is written");
    }
    let committed = std::fs::read_to_string(path()).unwrap_or_default();
    assert!(committed == made, "docs/scenario.xsd is old; write it anew: BLESS=1 cargo test -p lab-sip");
    // XML 1.0 §2.5; our own reader forgives it, an editor does not.
    let comments = made.split("<!--").skip(1).filter_map(|rest| rest.split("-->").next());
    let broken: Vec<&str> = comments.filter(|comment| comment.contains("--")).collect();
    assert!(broken.is_empty(), "two hyphens in a comment: {broken:?}");
}

/// An attribute's values, or `None` for any.
type Values = Option<Vec<String>>;

/// The schema's rule for one element.
#[derive(Debug, Default)]
struct Rule {
    children: Vec<String>,
    attributes: BTreeMap<String, Values>,
}

fn attribute(element: &Element, name: &str) -> Option<String> {
    let found = element.attributes.iter().find(|attribute| attribute.name == name)?;
    Some(String::from_utf8_lossy(&found.value).into_owned())
}

/// All elements below this one.
fn below<'a>(element: &'a Element, name: &str, found: &mut Vec<&'a Element>) {
    for child in &element.children {
        if child.name == name {
            found.push(child);
        }
        below(child, name, found);
    }
}

fn all<'a>(element: &'a Element, name: &str) -> Vec<&'a Element> {
    let mut found = Vec::new();
    below(element, name, &mut found);
    found
}

fn rules(schema: &str) -> BTreeMap<String, Rule> {
    let document = xml::read(schema.as_bytes()).expect("the schema is XML");
    let mut rules = BTreeMap::new();
    for element in document.root.children.iter().filter(|element| element.name == "xs:element") {
        let mut rule = Rule::default();
        rule.children
            .extend(all(element, "xs:element").into_iter().filter_map(|child| attribute(child, "ref")));
        for declared in all(element, "xs:attribute") {
            let values = match attribute(declared, "type").as_deref() {
                Some("bool") => Some(vec!["true".to_owned(), "false".to_owned()]),
                Some("xs:string") => None,
                _ => Some(
                    all(declared, "xs:enumeration")
                        .into_iter()
                        .filter_map(|word| attribute(word, "value"))
                        .collect(),
                ),
            };
            rule.attributes.insert(attribute(declared, "name").expect("named"), values);
        }
        rules.insert(attribute(element, "name").expect("named"), rule);
    }
    rules
}

fn faults(rules: &BTreeMap<String, Rule>, element: &Element, found: &mut Vec<String>) {
    let Some(rule) = rules.get(&element.name) else { return };
    for attribute in &element.attributes {
        let value = String::from_utf8_lossy(&attribute.value).into_owned();
        match rule.attributes.get(&attribute.name) {
            None => found.push(format!("{}: {}= in <{}>", attribute.line, attribute.name, element.name)),
            Some(Some(values)) if !values.contains(&value) => {
                found.push(format!("{}: {}=\"{value}\"", attribute.line, attribute.name));
            }
            Some(_) => {}
        }
    }
    for child in &element.children {
        if !rule.children.contains(&child.name) {
            found.push(format!("{}: <{}> in <{}>", child.line, child.name, element.name));
        }
        faults(rules, child, found);
    }
}

fn committed_rules() -> BTreeMap<String, Rule> {
    rules(&std::fs::read_to_string(path()).expect("the schema is there"))
}

fn faults_of(rules: &BTreeMap<String, Rule>, text: &[u8]) -> Vec<String> {
    let document = xml::read(text).expect("XML");
    let mut found = Vec::new();
    if document.root.name != "scenario" {
        found.push(format!("<{}> at the top", document.root.name));
    }
    faults(rules, &document.root, &mut found);
    found
}

/// Scenario files below a folder.
fn scenarios(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            if path.file_name().is_some_and(|name| name != "target") {
                scenarios(&path, found);
            }
        } else if path.extension().is_some_and(|extension| extension == "xml") {
            let is_scenario =
                std::fs::read(&path).is_ok_and(|text| memchr::memmem::find(&text, b"<scenario").is_some());
            if is_scenario {
                found.push(path);
            }
        }
    }
}

/// Cases that put SIPp's leniency itself to the test.
const LENIENT: &[&str] = &[];

#[test]
fn every_scenario_of_the_repository_follows_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = Vec::new();
    for folder in ["crates", "tests", "bench", "examples"] {
        scenarios(&root.join(folder), &mut files);
    }
    assert!(files.len() > 60, "{}", files.len());
    let rules = committed_rules();
    let is_lenient = |path: &PathBuf| LENIENT.iter().any(|name| path.ends_with(name));
    let mut found = Vec::new();
    for path in files.iter().filter(|path| !is_lenient(path)) {
        let text = std::fs::read(path).expect("readable");
        found.extend(faults_of(&rules, &text).into_iter().map(|fault| format!("{}:{fault}", path.display())));
    }
    for name in BUILT_IN_NAMES {
        found.extend(faults_of(&rules, built_in(name).expect("built in").as_bytes()));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn it_has_every_word_of_the_language_and_refuses_others() {
    let rules = committed_rules();
    for word in words() {
        match word.kind {
            WordKind::Element => {
                assert!(rules["scenario"].children.iter().any(|it| it == word.name), "{word:?}");
            }
            WordKind::Action => {
                assert!(rules["action"].children.iter().any(|it| it == word.name), "{word:?}");
            }
            WordKind::Attribute if word.of.is_empty() => {
                assert!(rules["send"].attributes.contains_key(word.name), "{word:?}");
            }
            WordKind::Attribute => assert!(rules[word.of].attributes.contains_key(word.name), "{word:?}"),
            WordKind::Keyword => {}
        }
    }
    for (text, fault) in [
        ("<scenario>\n<recv respnse='200'/></scenario>", "2: respnse= in <recv>"),
        ("<scenario><receive/></scenario>", "1: <receive> in <scenario>"),
        ("<scenario><nop><action><play/></action></nop></scenario>", "1: <play> in <action>"),
        ("<scenario><nop><ereg/></nop></scenario>", "1: <ereg> in <nop>"),
        ("<scenario><recv optional='maybe'/></scenario>", "1: optional=\"maybe\""),
        ("<scenario><recv rrs='yes'/></scenario>", "1: rrs=\"yes\""),
        ("<plan/>", "<plan> at the top"),
    ] {
        assert_eq!(faults_of(&rules, text.as_bytes()), [fault], "{text}");
    }
}

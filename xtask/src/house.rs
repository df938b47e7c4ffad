//! `cargo xtask house`: figures of how the code reads, from the sources. They are a mirror and no gate; `cargo xtask
//! tidy` is the gate. `--json` has the same figures with the place of every finding, `--list KIND` the places of one kind.

use std::collections::BTreeMap;

use anyhow::Result;
use serde::Serialize;

use crate::comments::{Comment, comments};
use crate::source::{Source, has_word};
use crate::syntax;
use crate::types;

/// Rows of the tables of types.
const TOP: usize = 12;

/// Words with which a clause without a main clause begins ("What does not fit", "Of a phase those that …").
const HEADLESS: [&str; 13] = [
    "What",
    "Whatever",
    "Which",
    "Whichever",
    "Who",
    "Whoever",
    "Whom",
    "Whose",
    "Of",
    "Nobody",
    "Somebody",
    "Anybody",
    "Everybody",
];

/// "To whom", "By what": a preposition before a pronoun is no better.
const PREPOSITIONS: [&str; 16] = [
    "About", "After", "Against", "At", "Before", "Behind", "By", "For", "From", "In", "On", "Through", "To",
    "Under", "With", "Without",
];
const PRONOUNS: [&str; 4] = ["whom", "what", "which", "whose"];

/// Words that name no thing of the field.
const PERSONS: [&str; 8] =
    ["nobody", "somebody", "anybody", "everybody", "whoever", "whomever", "someone", "anyone"];

/// Programs, connections and callers are not men.
const HE: [&str; 4] = ["he", "his", "him", "himself"];

/// A line of a source file that a figure counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Place {
    path: String,
    line: usize,
    text: String,
}

/// The figures of one crate, or of all.
#[derive(Debug, Default, PartialEq, Serialize)]
pub(crate) struct Figures {
    files: usize,
    /// Lines of code, comments and tests that are not empty.
    lines: usize,
    /// Lines of files of tests, which `lines` includes.
    test_lines: usize,
    comment_lines: usize,
    /// Those in files of tests, which `comment_lines` includes.
    test_comment_lines: usize,
    doc_comments: usize,
    headless: Vec<Place>,
    persons: Vec<Place>,
    he: Vec<Place>,
    public_items: usize,
    undocumented: Vec<Place>,
}

/// A type with many methods.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct LargeType {
    name: String,
    methods: usize,
    files: usize,
    /// Functions beside its methods that have a parameter `&mut` of it.
    borrowers: usize,
}

/// A name that several types have.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct SharedName {
    name: String,
    modules: Vec<String>,
}

#[derive(Debug, Serialize)]
pub(crate) struct House {
    crates: BTreeMap<String, Figures>,
    largest_types: Vec<LargeType>,
    shared_names: Vec<SharedName>,
}

pub(crate) fn measure(sources: &[Source]) -> Result<House> {
    let mut crates: BTreeMap<String, Figures> = BTreeMap::new();
    for source in sources {
        let folder = source.crate_name().or_else(|| source.path.split('/').next()).unwrap_or_default();
        crates.entry(folder.to_owned()).or_default().add(source)?;
    }
    let (largest_types, shared_names) = measure_types(sources)?;
    Ok(House { crates, largest_types, shared_names })
}

fn measure_types(sources: &[Source]) -> Result<(Vec<LargeType>, Vec<SharedName>)> {
    let types = types::types(sources)?;
    let mut largest: Vec<LargeType> = types
        .iter()
        .map(|it| LargeType {
            name: it.full_name(),
            methods: it.methods,
            files: it.files.len(),
            borrowers: it.borrowers,
        })
        .collect();
    largest.sort_by(|a, b| b.methods.cmp(&a.methods).then_with(|| a.name.cmp(&b.name)));
    largest.truncate(TOP);
    let mut by_name: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for found in &types {
        by_name.entry(&found.name).or_default().push(found.module.clone());
    }
    let mut shared: Vec<SharedName> = by_name
        .into_iter()
        .filter(|(_, modules)| modules.len() > 1)
        .map(|(name, modules)| SharedName { name: name.to_owned(), modules })
        .collect();
    shared.sort_by(|a, b| b.modules.len().cmp(&a.modules.len()).then_with(|| a.name.cmp(&b.name)));
    Ok((largest, shared))
}

impl Figures {
    fn add(&mut self, source: &Source) -> Result<()> {
        let lines = source.text.lines().filter(|line| !line.trim().is_empty()).count();
        self.files += 1;
        self.lines += lines;
        if source.is_test() {
            self.test_lines += lines;
        }
        for comment in comments(source) {
            self.add_comment(&comment, &source.path, source.is_test());
        }
        if source.module_path().is_some() && !source.is_test() {
            for item in syntax::parse(source)?.public {
                self.public_items += 1;
                if !item.is_documented {
                    self.undocumented.push(Place {
                        path: source.path.clone(),
                        line: item.line,
                        text: item.name,
                    });
                }
            }
        }
        Ok(())
    }

    fn add_comment(&mut self, comment: &Comment, path: &str, is_test: bool) {
        let place =
            |line: usize, text: &str| Place { path: path.to_owned(), line, text: text.trim().to_owned() };
        if !comment.is_trailing {
            self.comment_lines += comment.text.len();
            self.test_comment_lines += if is_test { comment.text.len() } else { 0 };
        }
        if comment.is_doc() {
            self.doc_comments += 1;
            let first = comment.text.first().map_or("", String::as_str);
            if is_headless(first) {
                self.headless.push(place(comment.line, first));
            }
        }
        for (line, text) in comment.numbered() {
            let words = without_code(text).to_lowercase();
            let has_any = |list: &[&str]| list.iter().any(|word| has_word(&words, word));
            if has_any(&PERSONS) {
                self.persons.push(place(line, text));
            }
            if has_any(&HE) {
                self.he.push(place(line, text));
            }
        }
    }

    fn add_all(&mut self, other: &Figures) {
        self.files += other.files;
        self.lines += other.lines;
        self.test_lines += other.test_lines;
        self.comment_lines += other.comment_lines;
        self.test_comment_lines += other.test_comment_lines;
        self.doc_comments += other.doc_comments;
        self.headless.extend_from_slice(&other.headless);
        self.persons.extend_from_slice(&other.persons);
        self.he.extend_from_slice(&other.he);
        self.public_items += other.public_items;
        self.undocumented.extend_from_slice(&other.undocumented);
    }
}

/// Whether the sentence has no main clause: it begins with a relative or interrogative pronoun, or with a genitive.
pub(crate) fn is_headless(text: &str) -> bool {
    let mut words = text.split(|c: char| !c.is_alphanumeric());
    let (first, second) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    HEADLESS.contains(&first) || PREPOSITIONS.contains(&first) && PRONOUNS.contains(&second)
}

/// The text with blanks for what stands in backticks.
fn without_code(text: &str) -> String {
    let pieces = text.split('`').enumerate();
    pieces.map(|(index, piece)| if index % 2 == 0 { piece } else { " " }).collect()
}

impl House {
    fn total(&self) -> Figures {
        let mut total = Figures::default();
        self.crates.values().for_each(|figures| total.add_all(figures));
        total
    }

    /// The places of one kind, one a line; `None` for an unknown kind.
    pub(crate) fn list(&self, kind: &str) -> Option<String> {
        let total = self.total();
        let places = match kind {
            "headless" => total.headless,
            "persons" => total.persons,
            "he" => total.he,
            "undocumented" => total.undocumented,
            _ => return None,
        };
        let line = |place: Place| format!("{}:{}: {}\n", place.path, place.line, place.text);
        Some(places.into_iter().map(line).collect())
    }

    pub(crate) fn table(&self) -> String {
        let mut lines = vec![row(&[
            "crate",
            "files",
            "lines",
            "of tests",
            "comments",
            "in code",
            "docs",
            "headless",
            "nobody …",
            "he …",
            "public",
            "documented",
        ])];
        let total = self.total();
        let all = self.crates.iter().map(|(name, figures)| (name.as_str(), figures));
        for (name, it) in all.chain([("all", &total)]) {
            let documented = it.public_items - it.undocumented.len();
            lines.push(row(&[
                name,
                &it.files.to_string(),
                &it.lines.to_string(),
                &it.test_lines.to_string(),
                &percent(it.comment_lines, it.lines),
                &percent(it.comment_lines - it.test_comment_lines, it.lines - it.test_lines),
                &it.doc_comments.to_string(),
                &it.headless.len().to_string(),
                &it.persons.len().to_string(),
                &it.he.len().to_string(),
                &it.public_items.to_string(),
                &percent(documented, it.public_items),
            ]));
        }
        lines.push(
            "\nMethods of a type, in how many files, and other functions that take it by `&mut`".to_owned(),
        );
        lines.extend(
            self.largest_types
                .iter()
                .map(|it| format!("{:>5} {:>4} {:>4}  {}", it.methods, it.files, it.borrowers, it.name)),
        );
        lines.push(format!("\nNames of several types: {}", self.shared_names.len()));
        lines.extend(self.shared_names.iter().take(TOP).map(|it| {
            let modules: Vec<&str> = it.modules.iter().map(String::as_str).collect();
            format!("{:>5}  {}: {}", modules.len(), it.name, modules.join(", "))
        }));
        lines.push(
            "\ncomments: their share of all lines, in code without files of tests; headless: doc comments that begin \
             with What, Who, Of …;\nnobody …, he …: lines of comments with these words.\n`--list headless|persons|he|undocumented` shows the places, `--json` everything."
                .to_owned(),
        );
        lines.join("\n") + "\n"
    }
}

fn row(cells: &[&str]) -> String {
    let (name, figures) = cells.split_first().expect("a row has a name");
    let figures: String = figures.iter().map(|cell| format!("{cell:>11}")).collect();
    format!("{name:<10}{figures}")
}

fn percent(part: usize, of: usize) -> String {
    (part * 100 + of / 2).checked_div(of).map_or_else(|| "–".to_owned(), |percent| format!("{percent} %"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "//! A module.\n\n/// What does not fit.\npub struct A;\n\n/// `Of` is code.\n// Nobody and he.\npub struct B;\n\
        // `nobody` is code; the cache is not\npub fn c() {}\n";

    fn house() -> House {
        measure(&[
            Source::new("crates/sip/src/a.rs", TEXT),
            Source::new("crates/sip/src/b.rs", "pub(crate) struct A;\nimpl A { fn a() {} }\n"),
            Source::new("crates/sip/tests/c.rs", "// A type.\nstruct A;\n"),
        ])
        .unwrap()
    }

    #[test]
    fn sentences_without_a_main_clause_are_found() {
        for headless in ["What fits", "Of a phase", "Whoever asks", "To whom it goes", "By what it is known"]
        {
            assert!(is_headless(headless), "{headless}");
        }
        for good in
            ["The legs of", "Whether it is there", "Says what", "How many", "one which", "`What` is a type"]
        {
            assert!(!is_headless(good), "{good}");
        }
    }

    #[test]
    fn figures_of_a_crate() {
        let house = house();
        let figures = &house.crates["sip"];
        assert_eq!((figures.files, figures.lines, figures.test_lines), (3, 12, 2));
        assert_eq!((figures.comment_lines, figures.test_comment_lines, figures.doc_comments), (6, 1, 3));
        assert_eq!((figures.public_items, figures.undocumented.len()), (3, 1));
        assert_eq!((figures.headless.len(), figures.persons.len(), figures.he.len()), (1, 1, 1));
        assert_eq!(house.list("headless").unwrap(), "crates/sip/src/a.rs:3: What does not fit.\n");
        assert_eq!(house.list("persons").unwrap(), "crates/sip/src/a.rs:7: Nobody and he.\n");
        assert!(house.list("others").is_none());
    }

    #[test]
    fn types_of_one_name_and_large_types_are_listed() {
        let house = house();
        let shared =
            SharedName { name: "A".to_owned(), modules: vec!["sip::a".to_owned(), "sip::b".to_owned()] };
        assert_eq!(house.shared_names, [shared]);
        assert_eq!(
            house.largest_types[0],
            LargeType { name: "sip::b::A".to_owned(), methods: 1, files: 1, borrowers: 0 }
        );
        assert!(house.table().contains("Names of several types: 1"));
        assert!(serde_json::to_string(&house).unwrap().contains("\"headless\":[{"));
    }
}

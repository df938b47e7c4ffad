//! `docs/glossary.md`: every type that it names exists, every planned one does not yet, and no type's name has one of its
//! forbidden words.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};

use crate::types::WorkspaceType;

use super::exceptions::{AllFound, count};

pub(super) const PAGE: &str = "docs/glossary.md";
pub(super) const NAMES: &str = "xtask/exceptions/names.txt";
pub(super) const PLANNED: &str = "xtask/exceptions/planned.txt";

/// The page's two tables.
#[derive(Debug)]
pub(super) struct Glossary {
    /// Full names of types, or a bare name for a planned one, with their lines.
    types: Vec<(usize, String)>,
    /// Forbidden words; the value is whether the word may be part of a longer name.
    forbidden: BTreeMap<String, bool>,
}

impl Glossary {
    pub(super) fn read(root: &Path) -> Result<Glossary> {
        Glossary::parse(&fs::read_to_string(root.join(PAGE)).context(PAGE)?)
    }

    /// Rows `| term | meaning | types |` and, after the heading "Forbidden", `| word | where | instead |`.
    fn parse(text: &str) -> Result<Glossary> {
        let mut glossary = Glossary { types: Vec::new(), forbidden: BTreeMap::new() };
        let mut is_forbidden = false;
        for (index, line) in text.lines().enumerate() {
            if line.starts_with('#') {
                is_forbidden = line.contains("Forbidden");
            }
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            let [_, first, middle, last, ""] = cells[..] else { continue };
            if !is_forbidden {
                glossary.types.extend(ticked(last).map(|name| (index + 1, name.to_owned())));
                continue;
            }
            for word in ticked(first) {
                let may_be_part = match middle {
                    "any name" => false,
                    "whole name" => true,
                    _ => bail!("{PAGE}:{}: neither `any name` nor `whole name`: {middle}", index + 1),
                };
                glossary.forbidden.insert(word.to_owned(), may_be_part);
            }
        }
        if glossary.types.is_empty() || glossary.forbidden.is_empty() {
            bail!("{PAGE}: no table of terms, or none of forbidden words");
        }
        Ok(glossary)
    }

    /// Types on the page that do not exist where the page says.
    pub(super) fn missing(&self, types: &[WorkspaceType]) -> Vec<String> {
        let mut findings = Vec::new();
        for (line, name) in self.types.iter().filter(|(_, name)| name.contains("::")) {
            if types.iter().any(|it| it.full_name() == *name) {
                continue;
            }
            let hint = match places(types, name.rsplit("::").next().unwrap_or_default()).as_slice() {
                [] => "there is none of that name".to_owned(),
                places => format!("there is {}", places.join(", ")),
            };
            findings.push(format!("{PAGE}:{line}: there is no type {name}; {hint}"));
        }
        findings
    }

    /// Bare names, which are planned; those that exist by now are findings of their own.
    pub(super) fn planned(&self, types: &[WorkspaceType]) -> (AllFound, Vec<String>) {
        let mut planned = AllFound::new();
        let mut findings = Vec::new();
        for (line, name) in self.types.iter().filter(|(_, name)| !name.contains("::")) {
            let places = places(types, name);
            if places.is_empty() {
                let text = || format!("there is no type {name}, and {PLANNED} does not announce it");
                count(&mut planned, (name.clone(), PAGE.to_owned()), *line, text);
            } else {
                findings.push(format!(
                    "{PAGE}:{line}: {name} exists by now: write {} (`cargo xtask tidy --shrink`)",
                    places.join(" or ")
                ));
            }
        }
        (planned, findings)
    }

    /// The page with the full names of types that have moved or come to exist, where these are not in doubt.
    pub(super) fn rewrite(&self, text: &str, types: &[WorkspaceType]) -> String {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        for (line, name) in &self.types {
            if let Some(place) = new_place(types, name) {
                lines[line - 1] = lines[line - 1].replace(&format!("`{name}`"), &format!("`{place}`"));
            }
        }
        lines.join("\n") + "\n"
    }

    /// Types whose name is a forbidden word or has one in it.
    pub(super) fn forbidden(&self, types: &[WorkspaceType]) -> AllFound {
        let mut found = AllFound::new();
        for it in types {
            let words = words(&it.name);
            let is_bad = |(word, may_be_part): (&String, &bool)| {
                *word == it.name || !may_be_part && words.contains(&word.as_str())
            };
            if self.forbidden.iter().any(is_bad) {
                let text = || format!("{}: a forbidden word; {PAGE} says what to write instead", it.name);
                count(&mut found, (it.name.clone(), it.path.clone()), it.line, text);
            }
        }
        found
    }
}

/// The only type of the name, or of several the only one whose module is called as before.
fn new_place(types: &[WorkspaceType], name: &str) -> Option<String> {
    let (module, own) = name.rsplit_once("::").unwrap_or(("", name));
    let places = places(types, own);
    if places.iter().any(|place| place == name) {
        return None;
    }
    if let [place] = places.as_slice() {
        return Some(place.clone());
    }
    let ending = format!("::{}::{own}", module.rsplit("::").next().unwrap_or_default());
    let mut alike = places.into_iter().filter(|place| place.ends_with(&ending));
    alike.next().filter(|_| alike.next().is_none())
}

fn places(types: &[WorkspaceType], name: &str) -> Vec<String> {
    types.iter().filter(|it| it.name == name).map(WorkspaceType::full_name).collect()
}

/// The words between backticks.
fn ticked(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// The words of a name in camel case.
fn words(name: &str) -> Vec<&str> {
    let starts: Vec<usize> =
        name.char_indices().filter(|(_, c)| c.is_ascii_uppercase()).map(|(index, _)| index).collect();
    let ends = starts.iter().skip(1).copied().chain([name.len()]);
    starts.iter().zip(ends).map(|(start, end)| &name[*start..end]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Source;
    use crate::types::types;

    const TEXT: &str = "
| term | meaning | types |
|---|---|---|
| effect | an order | `sip::endpoint::Effect` |
| cache | accounts | `sip::Gone` |
| context | of a response | `ResponseContext` |
| queue | of writes | `WriteQueue` |

## Forbidden words

| word | where | instead |
|---|---|---|
| `Letter` | any name | `ShardMessage` |
| `Parts` | whole name | `ShardDeps` |
";

    fn all() -> Vec<WorkspaceType> {
        let text = "enum Effect {} struct WriteQueue; struct XmppLetter; struct Parts; struct PartsList; struct Letters;";
        types(&[Source::new("crates/sip/src/endpoint.rs", text)]).unwrap()
    }

    #[test]
    fn every_type_on_the_page_exists_or_is_planned() {
        let glossary = Glossary::parse(TEXT).unwrap();
        let missing = glossary.missing(&all());
        assert_eq!(missing, ["docs/glossary.md:5: there is no type sip::Gone; there is none of that name"]);
        let (planned, findings) = glossary.planned(&all());
        assert_eq!(planned.keys().map(|key| key.0.as_str()).collect::<Vec<_>>(), ["ResponseContext"]);
        assert!(
            findings[0].contains("WriteQueue exists by now: write sip::endpoint::WriteQueue"),
            "{findings:?}"
        );
        assert!(glossary.rewrite(TEXT, &all()).contains("| of writes | `sip::endpoint::WriteQueue` |"));
    }

    #[test]
    fn a_type_that_has_moved_is_followed_unless_in_doubt() {
        let sources = [
            Source::new("crates/chat/src/effect.rs", "struct Ticket; struct Host;"),
            Source::new("crates/store/src/service.rs", "struct Ticket; struct Host; struct Gone;"),
        ];
        let types = types(&sources).unwrap();
        let new = |name: &str| new_place(&types, name);
        assert_eq!(new("xmpp::host::effect::Ticket").as_deref(), Some("chat::effect::Ticket"));
        assert_eq!(new("sip::Gone").as_deref(), Some("store::service::Gone"));
        assert_eq!((new("chat::effect::Ticket"), new("xmpp::host::Host")), (None, None));
        // The second table says what to write, and stays as it is.
        let text = TEXT.replace("`ShardMessage`", "`WriteQueue`");
        let rewritten = Glossary::parse(&text).unwrap().rewrite(&text, &all());
        assert!(rewritten.contains("| `Letter` | any name | `WriteQueue` |"), "{rewritten}");
    }

    #[test]
    fn forbidden_words_are_found_in_names() {
        let found = Glossary::parse(TEXT).unwrap().forbidden(&all());
        assert_eq!(found.keys().map(|key| key.0.as_str()).collect::<Vec<_>>(), ["Parts", "XmppLetter"]);
    }

    #[test]
    fn names_are_cut_into_words() {
        assert_eq!(words("XmppLetter"), ["Xmpp", "Letter"]);
        assert_eq!(words("Handler"), ["Handler"]);
    }
}

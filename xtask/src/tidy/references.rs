//! A comment or a page that names a page below `docs`, a Markdown file or a source file names one that is there. A path
//! may begin anywhere: at the workspace, at the crate, at a folder of it, or beside the file that names it.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

use crate::comments::comments;
use crate::source::Source;

use super::exceptions::{AllFound, count};

pub(super) const LIST: &str = "xtask/exceptions/references.txt";

/// Folders without files of ours, by name.
const SKIPPED: [&str; 5] = ["target", ".git", "node_modules", "corpus", "artifacts"];

/// Every file of the workspace and every way to name it.
pub(super) struct Files {
    paths: Vec<String>,
    endings: HashSet<String>,
}

impl Files {
    pub(super) fn read(root: &Path) -> Result<Files> {
        let mut paths = Vec::new();
        collect(root, "", &mut paths)?;
        Ok(Files::new(paths))
    }

    fn new(paths: Vec<String>) -> Files {
        let slashes = |path: &str| path.match_indices('/').map(|(index, _)| index + 1).collect::<Vec<_>>();
        let endings = paths
            .iter()
            .flat_map(|path| [0].into_iter().chain(slashes(path)).map(|from| path[from..].to_owned()))
            .collect();
        Files { paths, endings }
    }

    fn has(&self, name: &str) -> bool {
        let name = name.trim_start_matches("../").trim_start_matches("./");
        // `docs/decisions/0020` and `docs/deviations` are enough of a name.
        self.endings.contains(name)
            || name.starts_with("docs/") && self.paths.iter().any(|path| path.starts_with(name))
    }

    fn pages(&self) -> impl Iterator<Item = &String> {
        self.paths.iter().filter(|path| path.ends_with(".md"))
    }
}

fn collect(root: &Path, folder: &str, into: &mut Vec<String>) -> Result<()> {
    for entry in fs::read_dir(root.join(folder)).with_context(|| folder.to_owned())? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
        if entry.file_type()?.is_file() {
            into.push(path);
        } else if entry.file_type()?.is_dir() && !SKIPPED.contains(&name.as_str()) {
            collect(root, &path, into)?;
        }
    }
    Ok(())
}

/// References that lead nowhere, of all comments and pages.
pub(super) fn found(root: &Path, sources: &[Source], files: &Files) -> Result<AllFound> {
    let mut found = AllFound::new();
    for source in sources {
        for comment in comments(source) {
            comment.numbered().for_each(|(line, text)| check(files, &source.path, line, text, &mut found));
        }
    }
    for page in files.pages() {
        let text = fs::read_to_string(root.join(page)).with_context(|| page.clone())?;
        let lines = text.lines().enumerate();
        lines.for_each(|(index, line)| check(files, page, index + 1, line, &mut found));
    }
    Ok(found)
}

fn check(files: &Files, path: &str, line: usize, text: &str, found: &mut AllFound) {
    let names = file_names(text).filter(|name| !files.has(name)).map(str::to_owned);
    let documents = documents(text).filter(|name| !files.has(&format!("{name}.md"))).map(str::to_owned);
    for name in names.chain(documents) {
        let key = (name.clone(), path.to_owned());
        count(found, key, line, || format!("names {name}, which is not in the repository"));
    }
}

/// Words that are paths of pages and sources; addresses of the web are none.
fn file_names(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_alphanumeric() || "_./-<>*{}$".contains(c)))
        .map(|word| word.trim_end_matches(['.', '/', '-']))
        .filter(|word| !word.starts_with('/') && !word.contains(['<', '>', '*', '{', '}', '$']))
        .filter(|word| is_file_name(word))
}

fn is_file_name(word: &str) -> bool {
    let named = |ending: &str| word.strip_suffix(ending).is_some_and(|stem| !stem.is_empty());
    named(".md") || named(".rs") || word.starts_with("docs/")
}

/// Names in capitals before a section sign are documents of our own. RFC 3261 and XEP-0045 have numbers.
fn documents(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices(" §").filter_map(|(index, _)| {
        let word = text[..index].rsplit(|c: char| !c.is_alphanumeric()).next()?;
        (word.len() >= 4 && word.chars().all(|c| c.is_ascii_uppercase())).then_some(word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_that_are_there_may_be_named() {
        let paths = ["docs/decisions/0020-a-source.md", "crates/sip/src/wire/mod.rs", "README.md"];
        let files = Files::new(paths.map(str::to_owned).into());
        let check_one = |text: &str| {
            let mut found = AllFound::new();
            check(&files, "crates/sip/src/a.rs", 3, text, &mut found);
            found.into_keys().map(|key| key.0).collect::<Vec<_>>()
        };
        for good in [
            "see `docs/decisions/0020`, wire/mod.rs and README.md.",
            "`sip/src/wire/mod.rs`; ../README.md; RFC 3261 §17; https://example.com/gone.md, XEP-0045 §7",
            "docs/decisions, `<name>.rs`, *.md",
        ] {
            assert_eq!(check_one(good), [""; 0], "{good}");
        }
        assert_eq!(check_one("`docs/gone.md` (DESIGN §2)"), ["DESIGN", "docs/gone.md"]);
        assert_eq!(
            check_one("sip/src/wire.rs, docs/decisions/0021"),
            ["docs/decisions/0021", "sip/src/wire.rs"]
        );
    }
}

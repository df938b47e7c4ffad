//! The documentation as a site (`docs/decisions/0087-documentation-as-a-site.md`), checked without building it: `docs/SUMMARY.md` names every
//! page of `docs` once, each page has one heading of the first level, links and their anchors resolve within `docs`, and nothing outside
//! of code looks like markup, which a browser would swallow.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, Result};

const FOLDER: &str = "docs";
const SUMMARY: &str = "SUMMARY.md";

pub(super) fn findings(root: &Path) -> Result<Vec<String>> {
    let folder = root.join(FOLDER);
    let mut pages = BTreeMap::new();
    read(&folder, &folder, &mut pages)?;
    let has_file = |path: &Path| folder.join(path).is_file();
    Ok(check(&pages, has_file))
}

/// The pages by their paths below `docs`.
fn read(folder: &Path, at: &Path, pages: &mut BTreeMap<PathBuf, String>) -> Result<()> {
    for entry in fs::read_dir(at).with_context(|| at.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            read(folder, &path, pages)?;
        } else if path.extension().is_some_and(|extension| extension == "md") {
            let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            pages.insert(path.strip_prefix(folder)?.to_owned(), text);
        }
    }
    Ok(())
}

fn check(pages: &BTreeMap<PathBuf, String>, has_file: impl Fn(&Path) -> bool) -> Vec<String> {
    let mut findings = Vec::new();
    let parsed: BTreeMap<&Path, Page> =
        pages.iter().map(|(path, text)| (&**path, Page::parse(text))).collect();
    let summary = parsed.get(Path::new(SUMMARY));
    let listed: Vec<&str> =
        summary.iter().flat_map(|page| &page.links).map(|(_, target)| &**target).collect();
    for (path, page) in parsed.iter().filter(|(path, _)| **path != Path::new(SUMMARY)) {
        let name = path.display();
        match listed.iter().filter(|target| Path::new(target) == *path).count() {
            1 => {}
            count => findings.push(format!("docs/{SUMMARY} names {name} {count} times: name it once")),
        }
        if page.titles != 1 {
            findings
                .push(format!("docs/{name} has {} headings of the first level: one is right", page.titles));
        }
    }
    for (path, page) in &parsed {
        let place = |line: usize| format!("docs/{}:{line}", path.display());
        for (line, target) in &page.links {
            if let Some(fault) = fault_of_link(path, target, &parsed, &has_file) {
                findings.push(format!("{}: the link to {target} {fault}", place(*line)));
            }
        }
        for (line, markup) in &page.markup {
            findings.push(format!(
                "{}: {markup} outside of code is markup: write it in backquotes, or \\<",
                place(*line)
            ));
        }
    }
    findings
}

fn fault_of_link(
    from: &Path,
    target: &str,
    pages: &BTreeMap<&Path, Page>,
    has_file: impl Fn(&Path) -> bool,
) -> Option<String> {
    if ["http://", "https://", "mailto:", "xmpp:", "sip:"].iter().any(|scheme| target.starts_with(scheme)) {
        return None;
    }
    let (path, anchor) = target.split_once('#').map_or((target, None), |(path, anchor)| (path, Some(anchor)));
    let path = match path {
        "" => from.to_owned(),
        path => match within(from, path) {
            Some(path) => path,
            None => return Some("leads out of docs: the site does not have it".into()),
        },
    };
    let Some(page) = pages.get(&*path) else {
        return (!has_file(&path)).then(|| "leads nowhere".into());
    };
    let anchor = anchor?;
    (!page.anchors.contains(anchor)).then(|| format!("names a heading that {} does not have", path.display()))
}

/// A relative path, from the page that has it. None: it leads out of the folder.
fn within(from: &Path, path: &str) -> Option<PathBuf> {
    let mut to = from.parent().unwrap_or(Path::new("")).to_owned();
    for part in Path::new(path).components() {
        match part {
            Component::Normal(part) => to.push(part),
            Component::ParentDir if to.pop() => {}
            Component::CurDir => {}
            _ => return None,
        }
    }
    Some(to)
}

#[derive(Debug, Default, PartialEq)]
struct Page {
    /// Headings of the first level.
    titles: usize,
    anchors: HashSet<String>,
    /// With their lines.
    links: Vec<(usize, String)>,
    /// Words that look like tags, with their lines.
    markup: Vec<(usize, String)>,
}

impl Page {
    fn parse(text: &str) -> Page {
        let mut page = Page::default();
        let mut is_fenced = false;
        for (index, line) in text.lines().enumerate() {
            if line.trim_start().starts_with("```") {
                is_fenced = !is_fenced;
                continue;
            }
            if is_fenced || line.starts_with("    ") && !line.trim_start().starts_with(['-', '*']) {
                continue;
            }
            if let Some(heading) = line.strip_prefix('#') {
                page.titles += usize::from(heading.starts_with(' '));
                page.add_anchor(heading.trim_start_matches('#').trim());
            }
            let line = without_code(line);
            page.links.extend(links(&line).map(|target| (index + 1, target.to_owned())));
            page.markup.extend(markup(&line).map(|word| (index + 1, word.to_owned())));
        }
        page
    }

    /// Adds an anchor as mdBook makes it: a second heading of the same words has `-1` behind it.
    fn add_anchor(&mut self, heading: &str) {
        let anchor = slug(heading);
        let mut unique = anchor.clone();
        let mut count = 0;
        while !self.anchors.insert(unique) {
            count += 1;
            unique = format!("{anchor}-{count}");
        }
    }
}

fn slug(heading: &str) -> String {
    let letters = heading.chars().filter_map(|c| match c {
        c if c.is_alphanumeric() || c == '_' || c == '-' => Some(c.to_lowercase().next().unwrap_or(c)),
        c if c.is_whitespace() => Some('-'),
        _ => None,
    });
    letters.collect()
}

/// The text of a line outside of backquotes.
fn without_code(line: &str) -> String {
    let parts: Vec<&str> = line.split('`').collect();
    // An odd number of backquotes: the last one begins code that the next line ends.
    parts.iter().step_by(2).copied().collect::<Vec<_>>().join("code")
}

fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split_once(')').map(|(target, _)| target))
}

/// Tags. Addresses in angle brackets and comments are none.
fn markup(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices('<').filter_map(|(at, _)| {
        let rest = &line[at + 1..];
        let is_escaped = line[..at].ends_with('\\');
        let is_tag = rest.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/');
        let word = rest.split('>').next().unwrap_or_default();
        (is_tag && !is_escaped && rest.contains('>') && !word.contains("://"))
            .then(|| &line[at..at + word.len() + 2])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(pages: &[(&str, &str)]) -> Vec<String> {
        let pages = pages.iter().map(|(path, text)| (PathBuf::from(path), (*text).to_owned())).collect();
        check(&pages, |path| path == Path::new("a.png"))
    }

    #[test]
    fn a_good_site_has_no_findings() {
        let page = "# A page\n\n[b](b/b.md#two-words) ![x](a.png) <https://a.test/> `<pid>` \\<pid> [up](#a-page)\n\n\
            ```\n# no title\n[none](gone.md)\n```\n\n    [none](gone.md) <pid>\n";
        let other = "# B\n\n## Two words\n\n[a](../a.md) [out](https://a.test/a_(b))\n";
        assert_eq!(
            found(&[(SUMMARY, "- [A](a.md)\n  - [B](b/b.md)\n"), ("a.md", page), ("b/b.md", other)]),
            [""; 0]
        );
    }

    #[test]
    fn each_fault_is_found_with_its_place() {
        let page = "text\n\n[1](gone.md) [2](b.md#none) [3](../README.md) <pid>\n";
        let told = found(&[(SUMMARY, "- [B](b.md)\n- [B](b.md)\n"), ("a.md", page), ("b.md", "# B\n# C\n")]);
        let expected = [
            "docs/SUMMARY.md names a.md 0 times",
            "docs/a.md has 0 headings",
            "docs/SUMMARY.md names b.md 2 times",
            "docs/b.md has 2 headings",
            "docs/a.md:3: the link to gone.md leads nowhere",
            "docs/a.md:3: the link to b.md#none names a heading",
            "docs/a.md:3: the link to ../README.md leads out of docs",
            "docs/a.md:3: <pid> outside of code",
        ];
        assert_eq!(told.len(), expected.len(), "{told:#?}");
        for (told, expected) in told.iter().zip(expected) {
            assert!(told.starts_with(expected), "{told}");
        }
    }

    #[test]
    fn anchors_are_those_of_mdbook() {
        assert_eq!(slug("Sign-in from the company's directory"), "sign-in-from-the-companys-directory");
        let page = Page::parse("# A\n## `[xmpp]` and more\n## A\n");
        assert!(
            ["a", "xmpp-and-more", "a-1"].iter().all(|anchor| page.anchors.contains(*anchor)),
            "{page:?}"
        );
    }
}

//! Lists of what a check still allows. They only shrink: an entry that is no longer needed fails the check, and
//! `cargo xtask tidy --shrink` drops it. Nothing adds an entry but a person.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

/// The excepted thing, such as a type's name, and the file it stands in.
pub(super) type Key = (String, String);

/// A finding that an entry may allow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// How often, or how much.
    pub(super) number: usize,
    pub(super) line: usize,
    /// The finding after `path:line: `.
    pub(super) text: String,
}

pub(super) type AllFound = BTreeMap<Key, Found>;

/// Counts one more finding of the key; the first one's line and text stay.
pub(super) fn count(found: &mut AllFound, key: Key, line: usize, text: impl FnOnce() -> String) {
    found.entry(key).and_modify(|it| it.number += 1).or_insert_with(|| Found {
        number: 1,
        line,
        text: text(),
    });
}

/// A file of lines `name path number`; lines that begin with `#` are comments.
#[derive(Debug)]
pub(super) struct Exceptions {
    /// Relative to the workspace.
    file: &'static str,
    comments: Vec<String>,
    entries: BTreeMap<Key, usize>,
}

impl Exceptions {
    pub(super) fn read(root: &Path, file: &'static str) -> Result<Exceptions> {
        Exceptions::parse(file, &fs::read_to_string(root.join(file)).context(file)?)
    }

    fn parse(file: &'static str, text: &str) -> Result<Exceptions> {
        let mut exceptions = Exceptions { file, comments: Vec::new(), entries: BTreeMap::new() };
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            if line.starts_with('#') {
                exceptions.comments.push(line.to_owned());
                continue;
            }
            let parts: Vec<&str> = line.split_whitespace().collect();
            let [name, path, number] = parts[..] else {
                anyhow::bail!("{file}: not a name, a path and a number: {line}");
            };
            let number = number.parse().with_context(|| format!("{file}: no number in: {line}"))?;
            exceptions.entries.insert((name.to_owned(), path.to_owned()), number);
        }
        Ok(exceptions)
    }

    /// The findings that no entry allows, and the entries that are not needed as they are.
    pub(super) fn check(&self, found: &AllFound) -> Vec<String> {
        let mut findings = Vec::new();
        for (key, it) in found {
            if self.entries.get(key).is_none_or(|allowed| *allowed < it.number) {
                findings.push(format!("{}:{}: {}", key.1, it.line, it.text));
            }
        }
        for ((name, path), allowed) in &self.entries {
            let needed = found.get(&(name.clone(), path.clone())).map_or(0, |it| it.number);
            if needed < *allowed {
                findings.push(format!(
                    "{}: {name} {path}: {allowed} is more than is needed, {needed}: `cargo xtask tidy --shrink`",
                    self.file
                ));
            }
        }
        findings
    }

    /// Drops what is not needed and lowers numbers. An entry whose file has moved follows it: to a file with a finding of
    /// the same name that has no entry and is no worse.
    pub(super) fn shrink(&mut self, found: &AllFound) {
        let gone: Vec<(Key, usize)> =
            self.entries.extract_if(.., |key, _| !found.contains_key(key)).collect();
        for (key, allowed) in &mut self.entries {
            *allowed = found[key].number.min(*allowed);
        }
        for ((name, _), allowed) in gone {
            let moved = found
                .iter()
                .find(|(key, it)| key.0 == name && it.number <= allowed && !self.entries.contains_key(*key));
            if let Some((key, it)) = moved {
                self.entries.insert(key.clone(), it.number);
            }
        }
    }

    pub(super) fn write(&self, root: &Path) -> Result<()> {
        fs::write(root.join(self.file), self.text()).context(self.file)
    }

    fn text(&self) -> String {
        let entries = self.entries.iter().map(|((name, path), number)| format!("{name} {path} {number}"));
        self.comments.iter().cloned().chain(entries).map(|line| line + "\n").collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(all: &[(&str, &str, usize)]) -> AllFound {
        let one = |(name, path, number): &(&str, &str, usize)| {
            let it = Found { number: *number, line: 7, text: format!("{name} {number}") };
            ((name.to_string(), path.to_string()), it)
        };
        all.iter().map(one).collect()
    }

    #[test]
    fn findings_pass_only_with_an_entry_that_is_needed() {
        let list = Exceptions::parse("list", "# why\nHost a.rs 50\n").unwrap();
        assert_eq!(list.check(&found(&[("Host", "a.rs", 50)])), [""; 0]);
        assert_eq!(list.check(&found(&[("Host", "a.rs", 51)])), ["a.rs:7: Host 51"]);
        let other = list.check(&found(&[("Host", "a.rs", 50), ("Other", "b.rs", 1)]));
        assert_eq!(other, ["b.rs:7: Other 1"]);
        let fewer = list.check(&found(&[("Host", "a.rs", 49)]));
        assert!(fewer[0].starts_with("list: Host a.rs: 50 is more than is needed, 49"), "{fewer:?}");
        assert!(list.check(&found(&[]))[0].contains("needed, 0"));
    }

    #[test]
    fn entries_shrink_and_follow_moves_and_none_is_added() {
        let mut list = Exceptions::parse("list", "# why\nA a.rs 3\nB b.rs 3\nC c.rs 3\nD d.rs 3\n").unwrap();
        list.shrink(&found(&[
            ("A", "a.rs", 2),
            ("B", "new/b.rs", 3),
            ("C", "new/c.rs", 4),
            ("E", "e.rs", 1),
        ]));
        assert_eq!(list.text(), "# why\nA a.rs 2\nB new/b.rs 3\n");
    }
}

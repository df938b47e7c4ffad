//! Reads a file's tables key by key. One call per key says its name, default, meaning; the same calls
//! make the reference in `docs/configuration.md`, so the two cannot differ.
//!
//! A [`Reader`] has the whole file as a table; [`Reader::section`] takes one section out of it, and the methods of [`Section`] one key each: `key`
//! with a default, `optional`, `list`, `tables` for tables with secrets, `file` for files that must be there. [`Section::finish`] reports what was
//! not asked for. A mistake never ends the reading: the default goes on in the place of the value, and all mistakes are reported together.

use std::fmt::Write as _;
use std::ops::{Range, RangeInclusive};
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::mistake::{Mistake, place};
use super::value::Value;

/// One reading of a text.
/// Invariant: `root` shrinks with each section that is taken, so an entry that is left at the end is one that
/// no code asks for.
pub(super) struct Reader<'a> {
    text: &'a str,
    /// The folder that relative paths start from; `Some` when files have to exist.
    folder: Option<&'a Path>,
    /// Sections and keys that have not been taken out yet.
    root: DeTable<'a>,
    /// The sections that were asked for, for the names of unknown ones.
    sections: Vec<&'static str>,
    /// The number of syntax mistakes, which come first. Any other mistake may follow from them.
    unreadable: usize,
    /// Section, key and place of each value that was read, for mistakes that are found later.
    places: Vec<(&'static str, &'static str, Range<usize>)>,
    /// In any order; sorted by their places at the end.
    pub(super) mistakes: Vec<Mistake>,
    /// All keys in the order of the calls.
    pub(super) reference: Vec<KeyDoc>,
}

/// One key as the reference shows it.
#[derive(Clone, Debug)]
pub struct KeyDoc {
    /// The section, without brackets.
    pub section: &'static str,
    /// The name of the key in its section.
    pub name: &'static str,
    /// The values that are accepted.
    pub form: String,
    /// As it would stand in the file; `None` when there is none.
    pub default: Option<String>,
    /// The effect of the key, in sentences.
    pub doc: &'static str,
    /// True if its value is shown to no one.
    pub is_secret: bool,
}

impl<'a> Reader<'a> {
    pub(super) fn new(text: &'a str, folder: Option<&'a Path>) -> Self {
        // Keys with a mistake of syntax are left out, and the others can still be read.
        // An operator who has three mistakes sees three, not one after each attempt.
        let (root, errors) = DeTable::parse_recoverable(text);
        let mistakes: Vec<_> = errors.iter().map(|error| syntax(text, error)).collect();
        Reader {
            text,
            folder,
            root: root.into_inner(),
            sections: Vec::new(),
            unreadable: mistakes.len(),
            places: Vec::new(),
            mistakes,
            reference: Vec::new(),
        }
    }

    /// One with a dot in its name is read before the one around it.
    /// A section that is absent reads as an empty one, so that its keys get their defaults and stand in the
    /// reference.
    pub(super) fn section<'r>(&'r mut self, name: &'static str) -> Section<'r, 'a> {
        self.sections.push(name);
        let found = match name.split_once('.') {
            Some((outer, inner)) => self.root.get_mut(outer).and_then(|outer| match outer.get_mut() {
                DeValue::Table(table) => table.remove(inner),
                _ => None,
            }),
            None => self.root.remove(name),
        };
        let span = found.as_ref().map_or(0..0, Spanned::span);
        let table = match found.map(Spanned::into_inner) {
            Some(DeValue::Table(table)) => table,
            // Only two levels are known; `[a.b.c]` stays in the inner table and is an unknown key there.
            None => DeTable::default(),
            Some(_) => {
                let (what, expected) = (format!("`{name}` is a value"), format!("a section, [{name}]"));
                self.mistakes.push(Mistake::at(self.text, &span, what, expected));
                DeTable::default()
            }
        };
        Section { reader: self, name, span, table, keys: Vec::new() }
    }

    /// A mistake of several sections, at the first of these keys (section and name) that the file has, else at its beginning.
    pub(super) fn mistake(&mut self, keys: &[(&str, &str)], what: String, expected: &str) {
        let span = keys.iter().find_map(|(section, name)| self.place(section, name)).cloned();
        self.mistakes.push(Mistake::at(self.text, &span.unwrap_or_default(), what, expected.into()));
    }

    /// The place of a value that was read. `None`: the file does not have the key.
    fn place(&self, section: &str, name: &str) -> Option<&Range<usize>> {
        let place = self.places.iter().find(|place| (place.0, place.1) == (section, name));
        place.map(|(_, _, span)| span)
    }

    /// Reports entries that are left at the top as unknown.
    pub(super) fn finish(mut self) -> (Vec<Mistake>, Vec<KeyDoc>) {
        for (key, value) in &self.root {
            let name = key.get_ref();
            let kind = if value.get_ref().is_table() { "section" } else { "key outside of a section" };
            let outermost = |section: &&&str| !section.contains('.');
            let sections: Vec<&str> = self.sections.iter().filter(outermost).copied().collect();
            let expected = expected_name(name, &sections);
            let what = format!("unknown {kind} `{name}`");
            self.mistakes.push(Mistake::at(self.text, &key.span(), what, expected));
        }
        // The parser drops a broken key, so a required key may seem to be missing and a known one unknown.
        // Those of syntax were put first in `new`, and are all that is certain.
        if self.unreadable > 0 {
            self.mistakes.truncate(self.unreadable);
        }
        self.mistakes.sort_by_key(|mistake| (mistake.line, mistake.column));
        (self.mistakes, self.reference)
    }
}

/// One `[section]`; absent ones read as empty.
pub(super) struct Section<'r, 'a> {
    reader: &'r mut Reader<'a>,
    name: &'static str,
    /// The place of the section, for mistakes that are of no key.
    span: Range<usize>,
    /// Keys that have not been taken out yet.
    table: DeTable<'a>,
    /// The keys that were asked for, for the names of unknown ones.
    keys: Vec<&'static str>,
}

impl<'a> Section<'_, 'a> {
    /// A key with a default, which also stands in for a value that cannot be read.
    pub(super) fn key<T: Value>(&mut self, name: &'static str, default: T, doc: &'static str) -> T {
        self.document(name, T::EXPECTED.into(), Some(default.show()), doc);
        self.take(name).unwrap_or(default)
    }

    /// A key with limits.
    /// A value outside of them is a mistake, and the default goes on in its place so that later checks meet a
    /// value that is possible.
    pub(super) fn key_in<T: Value + PartialOrd>(
        &mut self,
        name: &'static str,
        default: T,
        within: RangeInclusive<T>,
        doc: &'static str,
    ) -> T {
        let bounds = format!("{} to {}", within.start().show(), within.end().show());
        self.document(name, format!("{}; {bounds}", T::EXPECTED), Some(default.show()), doc);
        match self.take::<T>(name) {
            Some(value) if within.contains(&value) => value,
            Some(value) => {
                self.mistake(name, format!("`{name}` is {}", value.show()), bounds);
                default
            }
            None => default,
        }
    }

    /// A key without a default. `None`: it is not there, or cannot be read.
    pub(super) fn optional<T: Value>(&mut self, name: &'static str, doc: &'static str) -> Option<T> {
        self.document(name, T::EXPECTED.into(), None, doc);
        self.take(name)
    }

    /// A text that is a secret: as [`optional`](Self::optional), but no mistake shows its value.
    pub(super) fn secret(&mut self, name: &'static str, doc: &'static str) -> Option<Box<str>> {
        let expected = <Box<str> as Value>::EXPECTED;
        self.document(name, expected.into(), None, doc);
        if let Some(key) = self.reader.reference.last_mut() {
            key.is_secret = true;
        }
        let value = self.remove(name)?;
        let read = Value::read(value.get_ref());
        if read.is_none() {
            self.mistake(name, format!("`{name}` is of another kind"), expected);
        }
        read
    }

    /// An array; each entry's mistake has its own place.
    pub(super) fn list<T: Value>(
        &mut self,
        name: &'static str,
        default: Vec<T>,
        doc: &'static str,
    ) -> Vec<T> {
        let shown: Vec<_> = default.iter().map(Value::show).collect();
        self.document(
            name,
            format!("an array, each {}", T::EXPECTED),
            Some(format!("[{}]", shown.join(", "))),
            doc,
        );
        let Some(value) = self.remove(name) else { return default };
        let Some(entries) = value.get_ref().as_array() else {
            self.not(name, &value, "an array: [ … ]");
            return default;
        };
        // A bad entry is left out and reported; the others count, so that checks over the whole list still find
        // their mistakes.
        entries.iter().filter_map(|entry| self.read(name, entry)).collect()
    }

    /// An array of tables. The content of a table is never shown, for it may hold secrets: `read` names the mistake and
    /// the expected form.
    /// The folder is passed on for files that have to exist; `None`: the text is from no file.
    pub(super) fn tables<T>(
        &mut self,
        name: &'static str,
        form: &'static str,
        doc: &'static str,
        read: impl Fn(&DeTable<'_>, Option<&Path>) -> Result<T, (String, String)>,
    ) -> Vec<T> {
        self.document(name, format!("an array, each {form}"), Some("[]".into()), doc);
        let Some(value) = self.remove(name) else { return Vec::new() };
        let Some(entries) = value.get_ref().as_array() else {
            // `not` would quote the value, with the secrets in it.
            self.mistake(name, format!("`{name}` is no array"), format!("an array, each {form}"));
            return Vec::new();
        };
        let (text, folder) = (self.reader.text, self.reader.folder);
        let mut tables = Vec::new();
        for entry in entries.iter() {
            let table = entry.get_ref().as_table().ok_or_else(|| ("it is no table".into(), form.into()));
            match table.and_then(|table| read(table, folder)) {
                Ok(table) => tables.push(table),
                Err((what, expected)) => {
                    let what = format!("`{name}`: {what}");
                    self.reader.mistakes.push(Mistake::at(text, &entry.span(), what, expected));
                }
            }
        }
        tables
    }

    /// A file that is only read, and has to be there.
    /// It is opened and closed again: a file may exist and yet be closed to the user of the node. The path that
    /// is returned is as written; `Config::resolve_paths` makes it count from the folder.
    pub(super) fn file(&mut self, name: &'static str, doc: &'static str) -> Option<PathBuf> {
        let path: PathBuf = self.optional(name, doc)?;
        if let Some(folder) = self.reader.folder
            && let Err(error) = std::fs::File::open(folder.join(&path))
        {
            let what = format!("`{name}` names {}, which cannot be read ({error})", path.display());
            self.mistake(name, what, "a file this user may read");
        }
        Some(path)
    }

    /// A mistake at the value of a key, or at the section when the key is not there.
    pub(super) fn mistake(&mut self, name: &str, what: impl Into<String>, expected: impl Into<String>) {
        let span = self.reader.place(self.name, name).unwrap_or(&self.span);
        let mistake = Mistake::at(self.reader.text, span, what.into(), expected.into());
        self.reader.mistakes.push(mistake);
    }

    /// Reports keys that are left in the table as unknown.
    pub(super) fn finish(self) {
        for key in self.table.keys() {
            let name = key.get_ref();
            let what = format!("unknown key `{name}` in [{}]", self.name);
            let expected = expected_name(name, &self.keys);
            self.reader.mistakes.push(Mistake::at(self.reader.text, &key.span(), what, expected));
        }
    }

    /// Notes the key for the reference; also one that the file does not have.
    fn document(&mut self, name: &'static str, form: String, default: Option<String>, doc: &'static str) {
        self.keys.push(name);
        // The calls are the same for an empty text, so the page needs no file (`reference::keys`).
        self.reader.reference.push(KeyDoc { section: self.name, name, form, default, doc, is_secret: false });
    }

    /// Takes the value out and keeps its place, for mistakes that are found later.
    fn remove(&mut self, name: &'static str) -> Option<Spanned<DeValue<'a>>> {
        let value = self.table.remove(name)?;
        self.reader.places.push((self.name, name, value.span()));
        Some(value)
    }

    /// Takes the value out and reads it; a value of another kind is a mistake.
    fn take<T: Value>(&mut self, name: &'static str) -> Option<T> {
        let value = self.remove(name)?;
        self.read(name, &value)
    }

    fn read<T: Value>(&mut self, name: &str, value: &Spanned<DeValue<'_>>) -> Option<T> {
        let read = T::read(value.get_ref());
        if read.is_none() {
            self.not(name, value, T::EXPECTED);
        }
        read
    }

    /// The mistake of a value of another kind, with the first 60 characters of it, without the user information of URLs.
    /// Not for keys of tables ([`tables`](Self::tables)) nor for secrets ([`secret`](Self::secret)).
    fn not(&mut self, name: &str, value: &Spanned<DeValue<'_>>, expected: &str) {
        // Before it is cut: the `@` may stand beyond the end.
        let written: String =
            without_user_info(&self.reader.text[value.span()], &['"', '\'', '\n']).chars().take(60).collect();
        let what = format!("`{name}` is {written}");
        self.reader.mistakes.push(Mistake::at(self.reader.text, &value.span(), what, expected.into()));
    }
}

/// The text with `***` in the place of what stands between the scheme and the host of its URLs, which may be a password (RFC 3986 §3.2.1). `ends`: the
/// characters that end a URL in this text.
pub(super) fn without_user_info(text: &str, ends: &[char]) -> String {
    let mut parts = text.split("://");
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for rest in parts {
        // An `@` in a path hides more than it must. A password may hold any other character by mistake.
        let end = rest.find(ends).unwrap_or(rest.len());
        let from = rest[..end].rfind('@').unwrap_or(0);
        shown += if from > 0 { "://***" } else { "://" };
        shown += &rest[from..];
    }
    shown
}

/// The parser's error as a mistake.
fn syntax(text: &str, error: &toml::de::Error) -> Mistake {
    // An error without a place, as of an unexpected end, is shown at the end of the text.
    let at = error.span().unwrap_or(text.len()..text.len());
    // The parser says what it met in the first line and, where it knows, what it expected in the second.
    let message = error.message();
    let (what, expected) = message.split_once(", expected ").unwrap_or((message, "TOML: key = value"));
    let (line, column) = place(text, at.start);
    Mistake { line, column, what: what.trim().into(), expected: expected.trim().into() }
}

/// The name that was probably meant, else all there are.
fn expected_name(found: &str, known: &[&str]) -> String {
    let nearest = known.iter().map(|name| (distance(found, name), *name)).min();
    match nearest {
        // Two letters for short names, a third of the letters for long ones: more would guess at random.
        Some((distance, name)) if distance <= 2.max(name.len() / 3) => format!("perhaps `{name}`"),
        _ => {
            let mut all = String::from("one of ");
            for (index, name) in known.iter().enumerate() {
                let _ = write!(all, "{}{name}", if index == 0 { "" } else { ", " });
            }
            all
        }
    }
}

/// Letters to change, add, take away or exchange with their neighbours (Damerau). Names are short.
fn distance(a: &str, b: &str) -> usize {
    // The first letters are enough: a key of thousands of letters resembles no known key.
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().take(64).collect(), b.chars().collect());
    let (mut before, mut last) = (Vec::new(), (0..=b.len()).collect::<Vec<usize>>());
    for (i, from) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, to) in b.iter().enumerate() {
            let change = last[j] + usize::from(from != to);
            let mut least = change.min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && a[i - 1] == *to && b[j - 1] == *from {
                least = least.min(before[j - 1] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

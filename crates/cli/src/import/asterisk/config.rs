//! Files of Asterisk: sections with values, templates, comments and includes.
//!
//! Only those values are kept that an account is made of.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::{Line, bad};
use crate::error::CliError;
use crate::import::files::cannot_read;
use crate::import::foreign::ForeignPiece;
use crate::limits;

/// The values of pjsip.conf that are kept.
const KEYS: [&str; 13] = [
    "type",
    "auth_type",
    "username",
    "password",
    "md5_cred",
    "password_digest",
    "realm",
    "auth",
    "outbound_auth",
    "aors",
    "callerid",
    "mailboxes",
    "default_realm",
];

/// A section, with the values of its templates before its own.
#[derive(Clone, Debug, Default)]
pub(super) struct Section {
    pub(super) name: Box<str>,
    pub(super) line: Line,
    /// True for what other sections are made of, and nothing by itself.
    is_template: bool,
    values: Vec<(&'static str, Box<str>)>,
}

impl Section {
    /// The section that a row of a table stands for. `get`: the value of a column, empty where there is none.
    pub(super) fn of_row<'a>(
        name: &str,
        line: Line,
        kind: &str,
        get: impl Fn(&'static str) -> &'a str,
    ) -> Section {
        let columns = KEYS.into_iter().filter(|key| *key != "type").map(|key| (key, get(key)));
        let values = [("type", kind)].into_iter().chain(columns);
        let values = values.filter(|(_, value)| !value.is_empty()).map(|(key, value)| (key, value.into()));
        Section { name: name.into(), line, is_template: false, values: values.collect() }
    }

    /// The last value of that name; empty if there is none.
    pub(super) fn get(&self, key: &str) -> &str {
        self.values.iter().rev().find(|(name, _)| *name == key).map_or("", |(_, value)| value)
    }

    /// All values of that name.
    pub(super) fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.values.iter().filter(move |(name, _)| *name == key).map(|(_, value)| &**value)
    }

    fn size(&self) -> usize {
        size_of::<Section>() + self.values.iter().map(|(_, value)| value.len() + 32).sum::<usize>()
    }
}

/// Takes the lines of a file in turn, with the list of what is not taken.
type EachLine<'a> = dyn FnMut(ConfigLine, &mut Vec<ForeignPiece>) -> Result<(), CliError> + 'a;

/// A line of a file, without comments and with its place.
pub(super) struct ConfigLine {
    pub(super) line: Line,
    pub(super) text: String,
}

/// Reads files with what they include.
pub(super) struct ConfigFiles {
    /// `None`: standard input, which includes nothing.
    folder: Option<PathBuf>,
    /// The files that were read, for messages.
    pub(super) names: Vec<PathBuf>,
    pub(super) bytes: u64,
    /// Faults that do not end the import.
    pub(super) bad: Vec<ForeignPiece>,
}

impl ConfigFiles {
    pub(super) fn new(folder: Option<PathBuf>) -> ConfigFiles {
        ConfigFiles { folder, names: Vec::new(), bytes: 0, bad: Vec::new() }
    }

    /// Gives the lines of a file, and at an include those of the included one.
    pub(super) fn read(
        &mut self,
        name: &Path,
        input: Box<dyn Read + Send>,
        each: &mut EachLine<'_>,
    ) -> Result<(), CliError> {
        self.read_at(name, input, 0, each)
    }

    fn read_at(
        &mut self,
        name: &Path,
        input: Box<dyn Read + Send>,
        depth: usize,
        each: &mut EachLine<'_>,
    ) -> Result<(), CliError> {
        let mut bytes = Vec::new();
        let read = input.take(limits::IMPORT_CONFIG as u64 + 1).read_to_end(&mut bytes);
        read.map_err(|error| cannot_read(name, &error))?;
        self.bytes += bytes.len() as u64;
        if self.bytes > limits::IMPORT_CONFIG as u64 {
            return Err(too_large(name));
        }
        let file = self.names.len() as u32;
        self.names.push(name.into());
        let mut in_comment = false;
        for (number, text) in bytes.split(|byte| *byte == b'\n').enumerate() {
            let line = Line { file, number: number as u32 + 1 };
            if text.len() > limits::IMPORT_CONFIG_LINE {
                let limit = limits::IMPORT_CONFIG_LINE >> 10;
                self.bad.push(bad(line, format!("a line of more than {limit} KiB; expected a setting")));
                continue;
            }
            let Ok(text) = std::str::from_utf8(text) else {
                self.bad.push(bad(line, "bytes that are not UTF-8; expected a file saved as UTF-8".into()));
                continue;
            };
            let text = without_comments(text, &mut in_comment);
            let text = text.trim();
            if let Some((how, file)) = include(text) {
                self.include(line, (how, file), depth, each)?;
            } else if !text.is_empty() {
                each(ConfigLine { line, text: text.into() }, &mut self.bad)?;
            }
        }
        Ok(())
    }

    /// An include leads to a file in the same folder or below, as those of XEP-0227 do.
    fn include(
        &mut self,
        line: Line,
        (how, file): (&str, &str),
        depth: usize,
        each: &mut EachLine<'_>,
    ) -> Result<(), CliError> {
        let what = format!("{how} of {file:?}");
        let refused =
            |expected: &str| bad(line, format!("{what}; expected {expected}, so import that by itself"));
        let Some(folder) = self.folder.clone() else {
            self.bad.push(refused("the file's name instead of -"));
            return Ok(());
        };
        if how == "#exec" || file.contains(['*', '?']) {
            self.bad.push(refused("an include of one file"));
            return Ok(());
        }
        if depth >= limits::IMPORT_INCLUDES || self.names.len() >= limits::IMPORT_TABLES {
            let depth = limits::IMPORT_INCLUDES;
            self.bad.push(refused(&format!(
                "files of {depth} within each other at most, and less than a thousand"
            )));
            return Ok(());
        }
        let path = match folder.join(file).canonicalize() {
            Ok(path) => path,
            Err(_) if how == "#tryinclude" => return Ok(()),
            Err(error) => {
                self.bad.push(bad(line, format!("{what}: {error}; expected a file that is there")));
                return Ok(());
            }
        };
        if !path.starts_with(&folder) {
            self.bad.push(refused("a file in the folder of the first one or below"));
            return Ok(());
        }
        let input = File::open(&path).map_err(|error| cannot_read(&path, &error))?;
        self.read_at(&path, Box::new(input), depth + 1, each)
    }
}

pub(super) fn too_large(name: &Path) -> CliError {
    let limit = limits::IMPORT_CONFIG >> 20;
    CliError::Other(format!("{}: more than {limit} MiB; expected files with fewer sections", name.display()))
}

/// The file that a line includes, and the word for it.
fn include(text: &str) -> Option<(&str, &str)> {
    let (how, rest) = text.split_once(char::is_whitespace)?;
    let is_one = ["#include", "#tryinclude", "#exec"].contains(&how);
    is_one.then(|| (how, rest.trim().trim_matches(['"', '<', '>'])))
}

/// The line without `; comment` and `;-- comment --;`; a semicolon after a backslash is one of the value.
fn without_comments(text: &str, in_comment: &mut bool) -> String {
    let mut kept = String::new();
    let mut rest = text;
    loop {
        if *in_comment {
            let Some(end) = rest.find("--;") else { return kept };
            rest = &rest[end + 3..];
            *in_comment = false;
        }
        let Some(at) = rest.find(';') else {
            kept.push_str(rest);
            return kept;
        };
        if let Some(before) = rest[..at].strip_suffix('\\') {
            kept.push_str(before);
            kept.push(';');
            rest = &rest[at + 1..];
            continue;
        }
        kept.push_str(&rest[..at]);
        if !rest[at..].starts_with(";--") || rest[at..].starts_with(";---") {
            return kept;
        }
        *in_comment = true;
        rest = &rest[at + 3..];
    }
}

/// `key = value` or `key => value`.
pub(super) fn setting(text: &str) -> Option<(&str, &str)> {
    let (key, value) = text.split_once('=')?;
    Some((key.trim(), value.strip_prefix('>').unwrap_or(value).trim()))
}

/// The sections of pjsip.conf while they are read.
#[derive(Default)]
pub(super) struct Sections {
    pub(super) done: Vec<Section>,
    current: Option<Section>,
    /// Templates by name; also sections that others are made of though they are none.
    templates: HashMap<Box<str>, usize>,
    size: usize,
}

impl Sections {
    /// Takes a line of pjsip.conf.
    pub(super) fn line(&mut self, line: ConfigLine, faults: &mut Vec<ForeignPiece>) -> Result<(), CliError> {
        let ConfigLine { line, text } = line;
        if let Some(header) = text.strip_prefix('[') {
            self.end()?;
            match header.split_once(']') {
                Some((name, options)) => self.begin(line, name.trim(), options.trim(), faults),
                None => faults.push(bad(line, format!("{text}; expected [name]"))),
            }
            return Ok(());
        }
        let Some(current) = &mut self.current else { return Ok(()) };
        if let Some((key, value)) = setting(&text)
            && let Some(key) = KEYS.into_iter().find(|known| key.eq_ignore_ascii_case(known))
            && current.values.len() <= limits::IMPORT_SECTION
        {
            current.values.push((key, value.into()));
        }
        Ok(())
    }

    /// `[name](options)`: `!` for a template, `+` for more of the section before, names of templates.
    fn begin(&mut self, line: Line, name: &str, options: &str, faults: &mut Vec<ForeignPiece>) {
        let mut section = Section { name: name.into(), line, ..Section::default() };
        let options = options.trim_start_matches('(').trim_end_matches(')');
        for option in options.split(',').map(str::trim).filter(|option| !option.is_empty()) {
            match option {
                "!" => section.is_template = true,
                "+" => match self.templates.remove(name) {
                    Some(at) => section = std::mem::take(&mut self.done[at]),
                    None => {
                        faults.push(bad(line, format!("[{name}](+); expected a section [{name}] before")));
                    }
                },
                template => match self.templates.get(template) {
                    // One more than fits tells later that there were too many.
                    Some(at) => {
                        let room =
                            limits::IMPORT_SECTION + 1 - section.values.len().min(limits::IMPORT_SECTION + 1);
                        section.values.extend(self.done[*at].values.iter().take(room).cloned());
                    }
                    None => {
                        faults.push(bad(
                            line,
                            format!("[{name}]({template}); expected a template [{template}] before"),
                        ));
                    }
                },
            }
        }
        self.current = Some(section);
    }

    /// Ends the section that is being read.
    pub(super) fn end(&mut self) -> Result<(), CliError> {
        self.current.take().map_or(Ok(()), |section| self.add(section))
    }

    /// Keeps a section.
    ///
    /// # Errors
    /// All sections together are larger than they may be.
    pub(super) fn add(&mut self, section: Section) -> Result<(), CliError> {
        self.size += section.size();
        if self.size > limits::IMPORT_CONFIG {
            return Err(too_large(Path::new("all sections together")));
        }
        self.templates.insert(section.name.clone(), self.done.len());
        self.done.push(section);
        Ok(())
    }

    /// The sections that are of that type, in their order; not templates.
    pub(super) fn of<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Section> {
        let is_of = move |section: &&Section| !section.is_template && section.get("type") == kind;
        self.done.iter().filter(is_of)
    }

    /// True if there is a section that accounts are made of.
    pub(super) fn are_of_asterisk(&self) -> bool {
        ["endpoint", "auth", "aor", "registration"].into_iter().any(|kind| self.of(kind).next().is_some())
    }

    /// Sections with more values than one may have.
    pub(super) fn overfull(&self) -> impl Iterator<Item = &Section> {
        self.done.iter().filter(|section| section.values.len() > limits::IMPORT_SECTION)
    }
}

//! Mistakes in a configuration: the mistake, its position, and the expected value.
//!
//! [`Mistake`]s are made by the reader of the file only; [`ConfigError`] is all that callers of this crate see.
//! Their text is the whole message for the operator: `belfry check-config` and a start that fails print it as
//! it is.

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;

/// One mistake. Lines and columns count from 1; columns are characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The line of the mistake.
    pub line: usize,
    /// The column of its first character.
    pub column: usize,
    /// The mistake, with the value that is wrong unless it is a secret.
    pub what: String,
    /// The values that are right.
    pub expected: String,
}

impl Mistake {
    /// At the beginning of a span of bytes.
    pub(super) fn at(text: &str, span: &Range<usize>, what: String, expected: String) -> Self {
        let (line, column) = place(text, span.start);
        Mistake { line, column, what, expected }
    }
}

/// Line and column of a byte.
/// An offset within a character counts as the beginning of that character.
pub(super) fn place(text: &str, offset: usize) -> (usize, usize) {
    let before = &text[..text.floor_char_boundary(offset)];
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}; expected {}", self.line, self.column, self.what, self.expected)
    }
}

/// Why there is no configuration.
#[derive(Debug)]
pub enum ConfigError {
    /// The file cannot be read.
    Unreadable {
        /// The file that was named.
        file: PathBuf,
        /// The error of the system.
        error: std::io::Error,
    },
    /// In the order of their places; never empty.
    Mistakes {
        /// The file with the mistakes.
        file: PathBuf,
        /// All mistakes, at least one.
        mistakes: Vec<Mistake>,
    },
    /// It is not for several processes.
    Processes {
        /// The file; none: defaults.
        file: Option<PathBuf>,
        /// The reason and the remedy.
        what: String,
    },
}

/// One line a mistake: `file:line:column: what; expected …`.
impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigError::Unreadable { file, error } => {
                write!(f, "{}: cannot be read: {error}", file.display())
            }
            ConfigError::Processes { file: Some(file), what } => write!(f, "{}: {what}", file.display()),
            ConfigError::Processes { file: None, what } => f.write_str(what),
            ConfigError::Mistakes { file, mistakes } => {
                for (index, mistake) in mistakes.iter().enumerate() {
                    let break_ = if index == 0 { "" } else { "\n" };
                    write!(f, "{break_}{}:{mistake}", file.display())?;
                }
                Ok(())
            }
        }
    }
}

impl std::error::Error for ConfigError {}

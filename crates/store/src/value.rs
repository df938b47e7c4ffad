//! A value of a row, whichever database it is in.
//!
//! Rows that are copied, backed up or built by `rest` and `xmpp` pass as these, so that one piece of code serves both databases.

use std::borrow::Cow;
use std::fmt;

/// A value as SQLite has it. PostgreSQL's booleans are the integers 0 and 1.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    Null,
    Integer(i64),
    Text(Cow<'a, str>),
    Bytes(Cow<'a, [u8]>),
}

impl<'a> Value<'a> {
    pub(crate) fn text(text: &'a str) -> Self {
        Value::Text(Cow::Borrowed(text))
    }

    pub(crate) fn as_text(&self) -> Option<&str> {
        match self {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// An integer, or NULL for none.
    pub(crate) fn number(number: Option<impl Into<i64>>) -> Self {
        number.map_or(Value::Null, |number| Value::Integer(number.into()))
    }
}

/// Verifiers and secrets are values, too.
impl fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Value(hidden)")
    }
}

//! Lines of values with a delimiter: CSV (RFC 4180), tabs as `mysql --batch` and COPY of PostgreSQL write them, db_text of Kamailio.

use std::io::Read;

use super::scanner::Scanner;
use super::{Columns, Raw, RowsError, Values};

/// The separation of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// Values may stand in quotes, and a quote in them is doubled.
    Csv(u8),
    /// A backslash escapes; `\N` is NULL, and so is NULL where the flag says it (`mysql --batch`).
    Tabs { null_word: bool },
    /// A backslash escapes; nothing is NULL.
    DbText,
}

impl Style {
    fn delimiter(self) -> u8 {
        match self {
            Style::Csv(delimiter) => delimiter,
            Style::Tabs { .. } => b'\t',
            Style::DbText => b':',
        }
    }
}

/// The columns of a line of headings. `None`: it is none.
pub(super) fn headings(line: &str) -> Option<(Style, Columns)> {
    let line = line.trim_end();
    // db_text: `username(str) domain(str,null)`.
    let declared = |part: &str| {
        let (name, kind) = part.split_once('(')?;
        let is_name =
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let kinds = ["int", "str", "string", "double", "blob", "time", "bigint"];
        let kind = kind.strip_suffix(')')?.split(',').next()?;
        (is_name && kinds.contains(&kind)).then(|| name.to_lowercase().into_boxed_str())
    };
    if let Some(columns) = line.split_ascii_whitespace().map(declared).collect::<Option<Vec<_>>>()
        && !columns.is_empty()
    {
        return Some((Style::DbText, columns.into()));
    }
    let style = if line.contains('\t') {
        Style::Tabs { null_word: true }
    } else {
        Style::Csv(if line.contains(',') { b',' } else { b';' })
    };
    let name = |name: &str| name.trim().trim_matches(['"', '`']).to_lowercase().into_boxed_str();
    let columns: Columns = line.split(char::from(style.delimiter())).map(name).collect();
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b' ');
    let are_names = columns.iter().all(|column| column.bytes().all(is_name));
    // Tables of Asterisk have an id in any case, and other tables of it no user.
    let is_of_asterisk = columns.len() > 1 && &*columns[0] == "id";
    let has_users = columns.iter().any(|column| column.ends_with("username"));
    (are_names && (has_users || is_of_asterisk)).then_some((style, columns))
}

/// The next line of values. `None`: the input has ended.
pub(super) fn next<R: Read>(
    scanner: &mut Scanner<R>,
    style: Style,
    columns: &Columns,
) -> Result<Option<Raw>, RowsError> {
    while matches!(scanner.peek()?, Some(b'\n' | b'\r')) {
        scanner.next()?;
    }
    if scanner.peek()?.is_none() {
        return Ok(None);
    }
    let line = scanner.line;
    let mut values = Values::new(true);
    while !value(scanner, style, &mut values)? {}
    Ok(Some(Raw { table: "".into(), line, columns: columns.clone(), is_wanted: true, values }))
}

/// Reads one value. True: the line ends behind it.
pub(super) fn value<R: Read>(
    scanner: &mut Scanner<R>,
    style: Style,
    values: &mut Values,
) -> Result<bool, RowsError> {
    if matches!(style, Style::Csv(_)) && scanner.take(b'"')? {
        quoted(scanner, values)?;
    }
    let (mut is_null, mut is_escaped) = (false, false);
    let is_last = loop {
        match scanner.next()? {
            None | Some(b'\n') => break true,
            Some(b'\r') if scanner.peek()? == Some(b'\n') => {}
            Some(byte) if byte == style.delimiter() => break false,
            Some(b'\\') if !matches!(style, Style::Csv(_)) => {
                is_escaped = true;
                match scanner.next()? {
                    None => {}
                    Some(b'N') if matches!(style, Style::Tabs { .. }) && values.value.is_empty() => {
                        is_null = true;
                    }
                    Some(byte) => values.push(escaped(byte)),
                }
            }
            Some(byte) => values.push(byte),
        }
    };
    is_null |= style == Style::Tabs { null_word: true } && !is_escaped && values.value == b"NULL";
    values.end(is_null);
    Ok(is_last)
}

/// The rest of a value in quotes, up to the last one.
fn quoted<R: Read>(scanner: &mut Scanner<R>, values: &mut Values) -> Result<(), RowsError> {
    let line = scanner.line;
    loop {
        match scanner.next()? {
            None => {
                let found = "a quote that does not end".into();
                return Err(RowsError::At { line, found, expected: "a whole file: it has been cut short" });
            }
            Some(b'"') if !scanner.take(b'"')? => return Ok(()),
            Some(byte) => values.push(byte),
        }
    }
}

/// The character that stands behind a backslash.
pub(super) fn escaped(byte: u8) -> u8 {
    match byte {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'0' => 0,
        b'b' => 8,
        b'Z' => 26,
        other => other,
    }
}

//! Rows of a dump in SQL, as mysqldump, pg_dump and the shell of SQLite write it.
//!
//! Only INSERT, COPY and the columns of CREATE TABLE are read; all other statements are passed over.

use std::collections::HashMap;
use std::io::Read;
use std::sync::Arc;

use super::delimited::{self, Style, escaped};
use super::scanner::Scanner;
use super::{Columns, Raw, RowsError, Values, table_name};
use crate::limits;

/// The place in the dump.
pub(super) struct Sql {
    /// The columns of the tables that the dump makes: an INSERT may leave them out.
    tables: HashMap<Arc<str>, Columns>,
    /// A backslash in quotes escapes: in MySQL, and not in PostgreSQL and SQLite, whose dumps say so before.
    escapes: bool,
    /// The statement whose rows are being read.
    rows: Option<Rows>,
}

/// A statement with rows.
struct Rows {
    table: Arc<str>,
    columns: Columns,
    /// Lines of COPY, until `\.`; else tuples, until a semicolon.
    is_copy: bool,
}

const WHOLE: &str = "a whole file: it has been cut short";

impl Sql {
    pub(super) fn new() -> Sql {
        Sql { tables: HashMap::new(), escapes: true, rows: None }
    }

    /// The next row. `None`: the dump has ended.
    pub(super) fn next<R: Read>(
        &mut self,
        scanner: &mut Scanner<R>,
        wanted: &[&str],
    ) -> Result<Option<Raw>, RowsError> {
        loop {
            let Some(rows) = &self.rows else {
                if !self.statement(scanner)? {
                    return Ok(None);
                }
                continue;
            };
            let mut values = Values::new(wanted.contains(&&*rows.table));
            let line = match rows.is_copy {
                true => copied(scanner, &mut values)?,
                false => tuple(scanner, self.escapes, &mut values)?,
            };
            let Some(line) = line else {
                self.rows = None;
                continue;
            };
            let (table, columns, is_wanted) = (rows.table.clone(), rows.columns.clone(), values.is_kept);
            return Ok(Some(Raw { table, line, columns, is_wanted, values }));
        }
    }

    /// Reads a statement to its end, or to its rows. False: there is none.
    fn statement<R: Read>(&mut self, scanner: &mut Scanner<R>) -> Result<bool, RowsError> {
        loop {
            space(scanner)?;
            match scanner.peek()? {
                None => return Ok(false),
                Some(b';') => drop(scanner.next()?),
                // A command of psql has a line of its own.
                Some(b'\\') => scanner.skip_line()?,
                Some(_) => break,
            }
        }
        match &*word(scanner)?.to_ascii_uppercase() {
            b"INSERT" | b"REPLACE" => self.insert(scanner)?,
            b"COPY" => self.copy(scanner)?,
            b"CREATE" => self.create(scanner)?,
            first => {
                let is_known = matches!(first, b"SET" | b"PRAGMA");
                let text = skip(scanner, self.escapes)?.to_ascii_lowercase();
                // pg_dump says that strings are those of the standard; only SQLite has pragmas.
                let is_standard = text.starts_with("standard_conforming_strings = on") || first == b"PRAGMA";
                if is_known && is_standard {
                    self.escapes = false;
                }
            }
        }
        Ok(true)
    }

    /// `INSERT INTO table [(columns)] VALUES`, up to the first tuple.
    fn insert<R: Read>(&mut self, scanner: &mut Scanner<R>) -> Result<(), RowsError> {
        let line = scanner.line;
        let mut table = name(scanner)?;
        while matches!(&*table.to_ascii_uppercase(), b"INTO" | b"IGNORE" | b"OR" | b"DELAYED") {
            table = name(scanner)?;
        }
        let table = table_name(&table);
        space(scanner)?;
        let columns = match scanner.take(b'(')? {
            true => Some(names(scanner, false)?),
            false => self.tables.get(&table).cloned(),
        };
        let values = name(scanner)?;
        if !values.eq_ignore_ascii_case(b"VALUES") {
            // INSERT … SELECT and the like.
            skip(scanner, self.escapes)?;
            return Ok(());
        }
        let Some(columns) = columns else {
            let found = format!("rows of a table {table} whose columns are not named before");
            return Err(RowsError::At {
                line,
                found,
                expected: "a dump with CREATE TABLE, or with names of columns",
            });
        };
        self.rows = Some(Rows { table, columns, is_copy: false });
        Ok(())
    }

    /// `COPY table (columns) FROM stdin;` and the end of its line.
    fn copy<R: Read>(&mut self, scanner: &mut Scanner<R>) -> Result<(), RowsError> {
        let table = table_name(&name(scanner)?);
        space(scanner)?;
        if !scanner.take(b'(')? {
            skip(scanner, self.escapes)?;
            return Ok(());
        }
        let columns = names(scanner, false)?;
        let rest = skip(scanner, self.escapes)?.to_ascii_lowercase();
        if rest.trim_start().starts_with("from stdin") {
            scanner.skip_line()?;
            self.rows = Some(Rows { table, columns, is_copy: true });
        }
        Ok(())
    }

    /// `CREATE TABLE table (…);`
    fn create<R: Read>(&mut self, scanner: &mut Scanner<R>) -> Result<(), RowsError> {
        if !name(scanner)?.eq_ignore_ascii_case(b"TABLE") {
            skip(scanner, self.escapes)?;
            return Ok(());
        }
        let mut table = name(scanner)?;
        while matches!(&*table.to_ascii_uppercase(), b"IF" | b"NOT" | b"EXISTS") {
            table = name(scanner)?;
        }
        space(scanner)?;
        if scanner.take(b'(')? {
            let columns = names(scanner, true)?;
            if self.tables.len() < limits::IMPORT_TABLES {
                self.tables.insert(table_name(&table), columns);
            }
        }
        skip(scanner, self.escapes)?;
        Ok(())
    }
}

/// Passes over white space and comments.
fn space<R: Read>(scanner: &mut Scanner<R>) -> Result<(), RowsError> {
    loop {
        match scanner.peek()? {
            Some(byte) if byte.is_ascii_whitespace() => drop(scanner.next()?),
            Some(b'#') => scanner.skip_line()?,
            Some(b'-') => {
                scanner.next()?;
                if !scanner.take(b'-')? {
                    return Ok(());
                }
                scanner.skip_line()?;
            }
            Some(b'/') => {
                let line = scanner.line;
                scanner.next()?;
                if !scanner.take(b'*')? {
                    return Ok(());
                }
                loop {
                    match scanner.next()? {
                        None => return Err(unfinished(line, "a comment")),
                        Some(b'*') if scanner.take(b'/')? => break,
                        Some(_) => {}
                    }
                }
            }
            _ => return Ok(()),
        }
    }
}

fn unfinished(line: u64, what: &str) -> RowsError {
    RowsError::At { line, found: format!("{what} that does not end"), expected: WHOLE }
}

/// Letters, digits, underscores and dots; empty if something else stands here. Of a long one the beginning.
fn word<R: Read>(scanner: &mut Scanner<R>) -> Result<Vec<u8>, RowsError> {
    let mut word = Vec::new();
    while let Some(byte) = scanner.peek()? {
        if !(byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'$') || byte >= 128) {
            break;
        }
        scanner.next()?;
        if word.len() < limits::IMPORT_TABLE_NAME {
            word.push(byte);
        }
    }
    Ok(word)
}

/// A word, or names in quotes with dots between them.
fn name<R: Read>(scanner: &mut Scanner<R>) -> Result<Vec<u8>, RowsError> {
    space(scanner)?;
    let mut name = Vec::new();
    loop {
        match scanner.peek()? {
            Some(quote @ (b'`' | b'"' | b'[')) => {
                let line = scanner.line;
                let end = if quote == b'[' { b']' } else { quote };
                scanner.next()?;
                loop {
                    match scanner.next()? {
                        None => return Err(unfinished(line, "a name")),
                        Some(byte) if byte == end => break,
                        Some(byte) if name.len() < limits::IMPORT_TABLE_NAME => name.push(byte),
                        Some(_) => {}
                    }
                }
            }
            _ => {
                let word = word(scanner)?;
                if word.is_empty() {
                    return Ok(name);
                }
                name.extend(word);
            }
        }
        match scanner.peek()? {
            Some(b'.') => {
                scanner.next()?;
                name.push(b'.');
            }
            Some(b'`' | b'"') if name.ends_with(b".") => {}
            _ => return Ok(name),
        }
        if name.len() > 4 * limits::IMPORT_TABLE_NAME {
            name.truncate(limits::IMPORT_TABLE_NAME);
        }
    }
}

/// The names of columns up to the closing bracket; `are_declared`: with their types, and with keys and constraints between them, which are
/// no columns.
fn names<R: Read>(scanner: &mut Scanner<R>, are_declared: bool) -> Result<Columns, RowsError> {
    const OTHERS: [&[u8]; 11] = [
        b"PRIMARY",
        b"KEY",
        b"UNIQUE",
        b"CONSTRAINT",
        b"INDEX",
        b"FOREIGN",
        b"FULLTEXT",
        b"CHECK",
        b"SPATIAL",
        b"EXCLUDE",
        b"LIKE",
    ];
    let line = scanner.line;
    let mut names: Vec<Box<str>> = Vec::new();
    loop {
        space(scanner)?;
        let is_quoted = matches!(scanner.peek()?, Some(b'`' | b'"' | b'['));
        let name = name(scanner)?;
        let is_other = are_declared && !is_quoted && OTHERS.contains(&&*name.to_ascii_uppercase());
        if !is_other && !name.is_empty() && names.len() < limits::IMPORT_COLUMNS {
            names.push(String::from_utf8_lossy(&name).to_lowercase().into());
        }
        // The rest of the declaration.
        let mut depth = 0_u64;
        loop {
            match scanner.next()? {
                None => return Err(unfinished(line, "a list of columns")),
                Some(b'(') => depth += 1,
                Some(b')') if depth == 0 => return Ok(names.into()),
                Some(b')') => depth -= 1,
                Some(b',') if depth == 0 => break,
                Some(quote @ (b'\'' | b'"' | b'`')) => {
                    string(scanner, quote, true, &mut Values::new(false))?;
                }
                Some(_) => {}
            }
        }
    }
}

/// Passes over the rest of a statement, and returns its beginning.
fn skip<R: Read>(scanner: &mut Scanner<R>, escapes: bool) -> Result<String, RowsError> {
    space(scanner)?;
    let mut text = Vec::new();
    loop {
        let byte = scanner.next()?;
        if let Some(byte) = byte
            && text.len() < limits::IMPORT_TABLE_NAME
        {
            text.push(byte);
        }
        match byte {
            None | Some(b';') => return Ok(String::from_utf8_lossy(&text).into_owned()),
            Some(quote @ (b'\'' | b'"' | b'`')) => {
                string(scanner, quote, escapes && quote == b'\'', &mut Values::new(false))?;
            }
            Some(b'$') => dollars(scanner)?,
            Some(_) => {}
        }
    }
}

/// The rest of `$tag$…$tag$` of PostgreSQL, if it is one: bodies of functions, with semicolons.
fn dollars<R: Read>(scanner: &mut Scanner<R>) -> Result<(), RowsError> {
    let line = scanner.line;
    let mut tag = Vec::new();
    while let Some(byte) = scanner.peek()?.filter(|byte| byte.is_ascii_alphanumeric() || *byte == b'_') {
        scanner.next()?;
        if tag.len() < limits::IMPORT_TABLE_NAME {
            tag.push(byte);
        }
    }
    if !scanner.take(b'$')? {
        return Ok(());
    }
    tag.push(b'$');
    // After each dollar the tag may follow; what does not fit may be the dollar of another.
    let mut at = None;
    loop {
        let Some(byte) = scanner.next()? else { return Err(unfinished(line, "a text in dollars")) };
        at = match at {
            Some(at) if tag[at] == byte && at + 1 == tag.len() => return Ok(()),
            Some(at) if tag[at] == byte => Some(at + 1),
            _ if byte == b'$' => Some(0),
            _ => None,
        };
    }
}

/// The rest of a text in quotes.
fn string<R: Read>(
    scanner: &mut Scanner<R>,
    quote: u8,
    escapes: bool,
    values: &mut Values,
) -> Result<(), RowsError> {
    let line = scanner.line;
    loop {
        match scanner.next()? {
            None => return Err(unfinished(line, "a text in quotes")),
            Some(b'\\') if escapes => match scanner.next()? {
                None => return Err(unfinished(line, "a text in quotes")),
                Some(byte) => values.push(escaped(byte)),
            },
            Some(byte) if byte == quote => {
                if !scanner.take(quote)? {
                    return Ok(());
                }
                values.push(quote);
            }
            Some(byte) => values.push(byte),
        }
    }
}

/// The next tuple of an INSERT, and its line. `None`: the statement has ended.
fn tuple<R: Read>(
    scanner: &mut Scanner<R>,
    escapes: bool,
    values: &mut Values,
) -> Result<Option<u64>, RowsError> {
    loop {
        match scanner.peek()? {
            Some(b'(') => break,
            Some(b',') => drop(scanner.next()?),
            Some(byte) if byte.is_ascii_whitespace() => drop(scanner.next()?),
            None => return Err(unfinished(scanner.line, "an INSERT")),
            Some(_) => {
                // The semicolon, or ON DUPLICATE KEY and the like before it.
                skip(scanner, escapes)?;
                return Ok(None);
            }
        }
    }
    let line = scanner.line;
    scanner.next()?;
    let (mut is_text, mut depth) = (false, 0_u64);
    // The bytes before a quote: how many, and the last.
    let mut before = (0_u64, 0);
    loop {
        match scanner.next()? {
            None => return Err(unfinished(line, "a row")),
            Some(b'\'') => {
                // The prefix says how it is to be read: E'…' of PostgreSQL has escapes, _binary '…' and N'…' are as without.
                let has_escapes = before.0 == 1 && before.1 == b'E';
                values.value.clear();
                string(scanner, b'\'', escapes || has_escapes, values)?;
                is_text = true;
            }
            Some(b'(') => {
                depth += 1;
                values.is_computed = true;
            }
            Some(byte @ (b',' | b')')) if depth == 0 => {
                let is_null = !is_text && values.value.eq_ignore_ascii_case(b"NULL");
                values.end(is_null);
                (is_text, before) = (false, (0, 0));
                if byte == b')' {
                    return Ok(Some(line));
                }
            }
            Some(b')') => depth -= 1,
            Some(byte) if is_text || byte.is_ascii_whitespace() => {}
            Some(byte) => {
                before = (before.0 + 1, byte.to_ascii_uppercase());
                values.push(byte);
            }
        }
    }
}

/// The next line of COPY, and its number. `None`: `\.` has ended it.
fn copied<R: Read>(scanner: &mut Scanner<R>, values: &mut Values) -> Result<Option<u64>, RowsError> {
    let line = scanner.line;
    if scanner.peek()?.is_none() {
        return Err(unfinished(line, "a COPY"));
    }
    if scanner.look_ahead()?.starts_with(b"\\.") {
        scanner.skip_line()?;
        return Ok(None);
    }
    while !delimited::value(scanner, Style::Tabs { null_word: false }, values)? {}
    Ok(Some(line))
}

//! Accounts of a file, one per line: the users of a load that has no name pattern.
//!
//! A file may have millions of lines, and every worker process reads it: names and passwords stand in one text, and an account is 12 bytes of places in it.

use std::collections::HashMap;

use xmpp::Bare;

/// All of a file, with 16 bytes an account beside its own text: every worker process has them.
#[derive(Debug)]
pub struct AccountFile {
    /// Name, password and nick of one after another.
    text: String,
    /// In the order of the file; an account's place is the number of its user less `--first`.
    accounts: Vec<AccountSpan>,
    /// Places of the accounts by their names.
    by_name: Vec<u32>,
}

/// Bytes of [`AccountFile::text`]: where it begins, and the lengths of its parts.
#[derive(Debug, Clone, Copy)]
struct AccountSpan {
    /// The first byte of the name; password and nick follow without a separator.
    start: u32,
    name: u16,
    password: u16,
    nick: u16,
}

/// First fields of a heading line, as spreadsheets and `ringer xmpp accounts` write it.
const HEADINGS: [&str; 4] = ["account", "name", "user", "username"];

impl AccountFile {
    /// Lines of name, password and perhaps a nick for rooms, with `,` or `;` between them: whichever the first line has first.
    /// Names may be followed by `@` and the domain; empty lines are none.
    ///
    /// # Errors
    /// The fault, with file and line.
    pub fn parse(text: &str, file: &str, domain: &str) -> Result<AccountFile, String> {
        let at = |line: usize, what: String| format!("{file}:{line}: {what}");
        let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
        let separator = first.chars().find(|c| matches!(c, ',' | ';')).unwrap_or(',');
        let mut roll = AccountFile { text: String::new(), accounts: Vec::new(), by_name: Vec::new() };
        let mut lines: HashMap<String, usize> = HashMap::new();
        let mut is_first = true;
        for (line, whole) in (1..).zip(text.lines()).filter(|(_, whole)| !whole.trim().is_empty()) {
            let fields = fields(whole, separator).map_err(|what| at(line, what))?;
            if std::mem::replace(&mut is_first, false) && are_headings(&fields) {
                continue;
            }
            let name = name(&fields[0], domain).map_err(|what| at(line, what))?;
            let (password, nick) = match &fields[1..] {
                [password] => (password, ""),
                [password, nick] => (password, nick.as_str()),
                _ => {
                    return Err(at(
                        line,
                        format!("expected NAME{separator}PASSWORD, perhaps {separator}NICK"),
                    ));
                }
            };
            if let Some(earlier) = lines.insert(name.clone(), line) {
                return Err(at(
                    line,
                    format!("{name:?} stands in line {earlier} already: expected each user once"),
                ));
            }
            roll.push(&name, password, nick).map_err(|what| at(line, what))?;
        }
        let name_of = |place: &u32| roll.name(*place);
        let mut by_name: Vec<u32> = (0..roll.len()).collect();
        by_name.sort_unstable_by(|one, other| name_of(one).cmp(name_of(other)));
        Ok(AccountFile { by_name, ..roll })
    }

    /// Lengths have 16 bits and places 32: longer parts and larger files are refused.
    fn push(&mut self, name: &str, password: &str, nick: &str) -> Result<(), String> {
        let length = |what: &str, text: &str| {
            u16::try_from(text.len())
                .map_err(|_| format!("a {what} of {} bytes: expected 65535 at most", text.len()))
        };
        let account = AccountSpan {
            start: u32::try_from(self.text.len()).map_err(|_| "expected 4 GiB of accounts at most")?,
            name: length("name", name)?,
            password: length("password", password)?,
            nick: length("nick", nick)?,
        };
        self.accounts.push(account);
        [name, password, nick].iter().for_each(|part| self.text.push_str(part));
        Ok(())
    }

    /// The number of accounts.
    pub fn len(&self) -> u32 {
        u32::try_from(self.accounts.len()).unwrap_or(u32::MAX)
    }

    /// The file has no accounts.
    pub fn is_empty(&self) -> bool {
        self.accounts.is_empty()
    }

    /// Name, password and nick of the account at this place; the nick is empty when the file has none.
    fn parts(&self, place: u32) -> (&str, &str, &str) {
        let Some(account) = self.accounts.get(place as usize) else { return ("", "", "") };
        let (name, rest) = self.text[account.start as usize..].split_at(usize::from(account.name));
        let (password, rest) = rest.split_at(usize::from(account.password));
        (name, password, &rest[..usize::from(account.nick)])
    }

    pub(super) fn name(&self, place: u32) -> &str {
        self.parts(place).0
    }

    pub(super) fn password(&self, place: u32) -> &str {
        self.parts(place).1
    }

    /// The name, where the file has no other.
    pub(super) fn nick(&self, place: u32) -> &str {
        match self.parts(place) {
            (name, _, "") => name,
            (_, _, nick) => nick,
        }
    }

    /// The place of an account by its name.
    pub(super) fn place(&self, name: &str) -> Option<u32> {
        let found = self.by_name.binary_search_by(|place| self.name(*place).cmp(name)).ok()?;
        self.by_name.get(found).copied()
    }
}

/// A first line of `account,password` or the like is no account.
fn are_headings(fields: &[String]) -> bool {
    let is =
        |place: usize, word: &str| fields.get(place).is_some_and(|field| field.eq_ignore_ascii_case(word));
    HEADINGS.iter().any(|heading| is(0, heading)) && is(1, "password")
}

/// As servers write it (RFC 7622 §3.3), so that it is known again, and needs no escape in XML.
fn name(field: &str, domain: &str) -> Result<String, String> {
    let local = match field.split_once('@') {
        Some((local, of)) if of == domain => local,
        Some((_, of)) => return Err(format!("{field:?} is of {of}: expected a user of {domain} (--domain)")),
        None => field,
    };
    let address = Bare::new(Some(local), domain).ok();
    let prepared = address.as_ref().and_then(Bare::local).filter(|local| !local.is_empty());
    prepared
        .map(str::to_owned)
        .ok_or_else(|| format!("{field:?} is no name of a user: expected one as in an address"))
}

/// RFC 4180 §2: a field in quotes may have the separator in it, and quotes twice.
fn fields(line: &str, separator: char) -> Result<Vec<String>, String> {
    let mut fields = Vec::new();
    let mut rest = line;
    loop {
        let Some(quoted) = rest.strip_prefix('"') else {
            let (field, after) =
                rest.split_once(separator).map_or((rest, None), |(field, rest)| (field, Some(rest)));
            fields.push(field.to_owned());
            match after {
                Some(after) => rest = after,
                None => return Ok(fields),
            }
            continue;
        };
        let end = end_of_quoted(quoted).ok_or("a quote without its end: expected \" after the field")?;
        fields.push(quoted[..end].replace("\"\"", "\""));
        let after = &quoted[end + 1..];
        match after.strip_prefix(separator) {
            Some(after) => rest = after,
            None if after.is_empty() => return Ok(fields),
            None => {
                return Err(format!(
                    "{after:?} after a field in quotes: expected {separator:?} or the line's end"
                ));
            }
        }
    }
}

/// The position of the quote that ends the field.
fn end_of_quoted(text: &str) -> Option<usize> {
    let mut at = 0;
    loop {
        at += text[at..].find('"')?;
        if !text[at + 1..].starts_with('"') {
            return Some(at);
        }
        at += 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<AccountFile, String> {
        AccountFile::parse(text, "users.csv", "d")
    }

    #[test]
    fn lines_are_accounts() {
        for (text, accounts) in [
            ("zoe,secret\n\namy,p;w,The Amy\r\n", [("zoe", "secret", "zoe"), ("amy", "p;w", "The Amy")]),
            ("zoe;a,b\namy;x;\n", [("zoe", "a,b", "zoe"), ("amy", "x", "amy")]),
            ("account,password\nZoe@d,\"q\"\"r,\"\namy,", [("zoe", "q\"r,", "zoe"), ("amy", "", "amy")]),
        ] {
            let roll = parsed(text).unwrap();
            let read = [0, 1].map(|place| (roll.name(place), roll.password(place), roll.nick(place)));
            assert_eq!((roll.len(), read), (2, accounts), "{text}");
            assert_eq!([roll.place("zoe"), roll.place("amy"), roll.place("bob")], [Some(0), Some(1), None]);
        }
    }

    #[test]
    fn mistakes_name_file_and_line() {
        for (text, says) in [
            ("amy,x\nbob", "users.csv:2: expected NAME,PASSWORD, perhaps ,NICK"),
            ("amy;x\nbob;y;z;", "users.csv:2: expected NAME;PASSWORD"),
            ("amy,x\n\nbob,y\nAmy,z", "users.csv:4: \"amy\" stands in line 1 already"),
            ("a b,x", "users.csv:1: \"a b\" is no name of a user"),
            (",x", "users.csv:1: \"\" is no name of a user"),
            ("amy@other,x", "users.csv:1: \"amy@other\" is of other: expected a user of d"),
            ("amy,\"x", "users.csv:1: a quote without its end"),
            ("amy,\"x\"y", "users.csv:1: \"y\" after a field in quotes"),
        ] {
            let error = parsed(text).expect_err(text);
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}

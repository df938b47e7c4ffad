//! Filters of searches (RFC 4515). A filter is read once, from the configuration; a user's name is put into the values of
//! what was read, so that no character of it can be a part of the filter.

use super::ber::{self, OCTETS};
use super::groups::{GroupSettings, MemberForm};
use super::text::{Names, Piece, pieces};
use crate::limits;

/// A filter with places for a user's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterTemplate {
    text: Box<str>,
    root: Filter,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Filter {
    /// `&` or `|`, by its tag.
    Set(u8, Vec<Filter>),
    Not(Box<Filter>),
    /// An attribute compared with a value, by the tag of the comparison.
    Compare(u8, Box<str>, Vec<Piece>),
    /// The value's parts between asterisks; the first and the last may be empty.
    Substrings(Box<str>, Vec<Vec<Piece>>),
    Present(Box<str>),
    /// `attribute:dn:rule:=value`.
    Extensible {
        attribute: Option<Box<str>>,
        rule: Option<Box<str>>,
        of_dn: bool,
        value: Vec<Piece>,
    },
}

// Tags of RFC 4511 §4.5.1.7.
const AND: u8 = 0xa0;
const OR: u8 = 0xa1;
const NOT: u8 = 0xa2;
const EQUAL: u8 = 0xa3;
const SUBSTRINGS: u8 = 0xa4;
const AT_LEAST: u8 = 0xa5;
const AT_MOST: u8 = 0xa6;
const PRESENT: u8 = 0x87;
const LIKE: u8 = 0xa8;
const EXTENSIBLE: u8 = 0xa9;

impl FilterTemplate {
    /// Reads a filter, as `(&(objectClass=person)(uid={user}))`.
    ///
    /// # Errors
    /// The mistake.
    pub fn parse(text: &str) -> Result<FilterTemplate, String> {
        let (root, rest) = parse(text.trim(), 0)?;
        if !rest.is_empty() {
            return Err(format!("{rest:?} follows the filter"));
        }
        if !root.names_user() {
            return Err("no {user} in a value".into());
        }
        Ok(FilterTemplate { text: text.into(), root })
    }

    /// The filter as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Appends the filter for a user, as a search has it.
    pub(super) fn encode(&self, names: Names<'_>, out: &mut Vec<u8>) {
        self.root.encode(names, out);
    }
}

/// The filter of groups: without a place for a user's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupFilter {
    root: Filter,
}

/// `LDAP_MATCHING_RULE_TRANSITIVE_EVAL` of Active Directory ([MS-ADTS] §3.1.1.3.4.4.3).
const NESTED: &str = "1.2.840.113556.1.4.1941";

impl GroupFilter {
    /// Reads a filter, as `(objectClass=groupOfNames)`.
    ///
    /// # Errors
    /// The mistake.
    pub fn parse(text: &str) -> Result<GroupFilter, String> {
        if text.contains('{') {
            return Err("a place for a name: members are found by `member`".into());
        }
        match parse(text.trim(), 0)? {
            (root, "") => Ok(GroupFilter { root }),
            (_, rest) => Err(format!("{rest:?} follows the filter")),
        }
    }

    /// Appends the filter of those groups that have this member, as a search has it. `member`: the distinguished name or
    /// the name of a user, which is a value and no part of the filter, whatever is in it.
    pub(super) fn encode(&self, groups: &GroupSettings, member: &str, out: &mut Vec<u8>) {
        let value = vec![Piece::Bytes(member.as_bytes().to_vec())];
        let attribute = groups.member.clone();
        let has_member = match groups.member_form {
            MemberForm::Name | MemberForm::User => Filter::Compare(EQUAL, attribute, value),
            MemberForm::NestedName => Filter::Extensible {
                attribute: Some(attribute),
                rule: Some(NESTED.into()),
                of_dn: false,
                value,
            },
        };
        let names = Names { user: "", domain: "" };
        Filter::Set(AND, vec![self.root.clone(), has_member]).encode(names, out);
    }
}

impl Filter {
    fn names_user(&self) -> bool {
        match self {
            Filter::Set(_, filters) => filters.iter().any(Filter::names_user),
            // An entry that is *not* the user's is never what is meant.
            Filter::Not(_) | Filter::Present(_) => false,
            Filter::Compare(_, _, value) | Filter::Extensible { value, .. } => value.contains(&Piece::User),
            Filter::Substrings(_, parts) => parts.iter().any(|part| part.contains(&Piece::User)),
        }
    }

    fn encode(&self, names: Names<'_>, out: &mut Vec<u8>) {
        match self {
            Filter::Set(tag, filters) => ber::put_with(out, *tag, |out| {
                filters.iter().for_each(|filter| filter.encode(names, out));
            }),
            Filter::Not(filter) => ber::put_with(out, NOT, |out| filter.encode(names, out)),
            Filter::Compare(tag, attribute, value) => ber::put_with(out, *tag, |out| {
                ber::put(out, OCTETS, attribute.as_bytes());
                ber::put(out, OCTETS, &filled(value, names));
            }),
            Filter::Substrings(attribute, parts) => ber::put_with(out, SUBSTRINGS, |out| {
                ber::put(out, OCTETS, attribute.as_bytes());
                ber::put_with(out, ber::SEQUENCE, |out| put_parts(parts, names, out));
            }),
            Filter::Present(attribute) => ber::put(out, PRESENT, attribute.as_bytes()),
            Filter::Extensible { attribute, rule, of_dn, value } => ber::put_with(out, EXTENSIBLE, |out| {
                for (tag, text) in [(0x81, rule), (0x82, attribute)] {
                    if let Some(text) = text {
                        ber::put(out, tag, text.as_bytes());
                    }
                }
                ber::put(out, 0x83, &filled(value, names));
                if *of_dn {
                    ber::put(out, 0x84, &[0xff]);
                }
            }),
        }
    }
}

/// `initial`, `any` and `final` of RFC 4511 §4.5.1.7.2; the empty parts of the ends are left out.
fn put_parts(parts: &[Vec<Piece>], names: Names<'_>, out: &mut Vec<u8>) {
    for (at, part) in parts.iter().enumerate().filter(|(_, part)| !part.is_empty()) {
        let tag = match at {
            0 => 0x80,
            _ if at + 1 == parts.len() => 0x82,
            _ => 0x81,
        };
        ber::put(out, tag, &filled(part, names));
    }
}

fn filled(value: &[Piece], names: Names<'_>) -> Vec<u8> {
    value.iter().flat_map(|piece| names.bytes(piece).0).copied().collect()
}

fn parse(text: &str, depth: usize) -> Result<(Filter, &str), String> {
    if depth > limits::FILTER_DEPTH {
        return Err(format!("more than {} levels", limits::FILTER_DEPTH));
    }
    let inner = text.strip_prefix('(').ok_or_else(|| format!("{text:?} does not begin with ("))?;
    let (filter, rest) = match inner.as_bytes().first() {
        Some(b'&') => parse_set(AND, &inner[1..], depth)?,
        Some(b'|') => parse_set(OR, &inner[1..], depth)?,
        Some(b'!') => {
            let (filter, rest) = parse(&inner[1..], depth + 1)?;
            (Filter::Not(Box::new(filter)), rest)
        }
        // RFC 4515 §3: parentheses of values are escaped.
        _ => {
            let end = inner.find(['(', ')']).ok_or("a parenthesis that is not closed")?;
            (parse_item(&inner[..end])?, &inner[end..])
        }
    };
    let rest = rest.strip_prefix(')').ok_or_else(|| format!("no ) before {rest:?}"))?;
    Ok((filter, rest))
}

fn parse_set(tag: u8, mut rest: &str, depth: usize) -> Result<(Filter, &str), String> {
    let mut filters = Vec::new();
    while rest.starts_with('(') {
        let (filter, after) = parse(rest, depth + 1)?;
        filters.push(filter);
        rest = after;
    }
    if filters.is_empty() {
        return Err("& or | without a filter".into());
    }
    Ok((Filter::Set(tag, filters), rest))
}

fn parse_item(text: &str) -> Result<Filter, String> {
    let (attribute, value) = text.split_once('=').ok_or_else(|| format!("no = in {text:?}"))?;
    if let Some(attribute) = attribute.strip_suffix(':') {
        return parse_extensible(attribute, value);
    }
    let (tag, attribute) = match attribute.as_bytes().last() {
        Some(b'>') => (AT_LEAST, &attribute[..attribute.len() - 1]),
        Some(b'<') => (AT_MOST, &attribute[..attribute.len() - 1]),
        Some(b'~') => (LIKE, &attribute[..attribute.len() - 1]),
        _ => (EQUAL, attribute),
    };
    let attribute = described(attribute)?;
    if tag == EQUAL && value == "*" {
        return Ok(Filter::Present(attribute));
    }
    if tag == EQUAL && value.contains('*') {
        let parts = value.split('*').map(parse_value).collect::<Result<Vec<_>, _>>()?;
        let inner = &parts[1..parts.len() - 1];
        if inner.iter().any(Vec::is_empty) {
            return Err(format!("two asterisks beside each other in {text:?}"));
        }
        return Ok(Filter::Substrings(attribute, parts));
    }
    Ok(Filter::Compare(tag, attribute, parse_value(value)?))
}

fn parse_extensible(left: &str, value: &str) -> Result<Filter, String> {
    let mut parts = left.split(':');
    let attribute = parts.next().filter(|attribute| !attribute.is_empty()).map(described).transpose()?;
    let (mut of_dn, mut rule) = (false, None);
    for part in parts {
        match part {
            "dn" if !of_dn && rule.is_none() => of_dn = true,
            _ if rule.is_none() => rule = Some(described(part)?),
            _ => return Err(format!("more than one rule in {left:?}")),
        }
    }
    if attribute.is_none() && rule.is_none() {
        return Err("neither an attribute nor a rule before :=".into());
    }
    Ok(Filter::Extensible { attribute, rule, of_dn, value: parse_value(value)? })
}

/// A name or a number of an attribute, with options (RFC 4512 §2.5).
fn described(attribute: &str) -> Result<Box<str>, String> {
    let is_known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b';');
    if attribute.is_empty() || !attribute.bytes().all(is_known) {
        return Err(format!("{attribute:?} is no attribute"));
    }
    Ok(attribute.into())
}

/// RFC 4515 §3: `\` and two hexadecimal digits are a byte.
fn parse_value(text: &str) -> Result<Vec<Piece>, String> {
    let mut value = pieces(text.as_bytes())?;
    for piece in &mut value {
        if let Piece::Bytes(bytes) = piece {
            *bytes =
                unescaped(bytes).ok_or_else(|| format!("\\ without two hexadecimal digits in {text:?}"))?;
        }
    }
    Ok(value)
}

fn unescaped(bytes: &[u8]) -> Option<Vec<u8>> {
    let (mut out, mut rest) = (Vec::with_capacity(bytes.len()), bytes);
    while let Some((first, after)) = rest.split_first() {
        if *first == b'\\' {
            let digits = std::str::from_utf8(after.get(..2)?).ok()?;
            if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                return None;
            }
            out.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &after[2..];
        } else {
            out.push(*first);
            rest = after;
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(text: &str, user: &str) -> Vec<u8> {
        let mut out = Vec::new();
        let names = Names { user, domain: "example.net" };
        FilterTemplate::parse(text).unwrap().encode(names, &mut out);
        out
    }

    /// The encoded filter of one comparison.
    fn equality(attribute: &str, value: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        ber::put_with(&mut out, EQUAL, |out| {
            ber::put(out, OCTETS, attribute.as_bytes());
            ber::put(out, OCTETS, value);
        });
        out
    }

    #[test]
    fn a_name_with_any_characters_is_one_value() {
        // The attacks of CWE-90: each would match another's entry, or any, if it were pasted into the text.
        for user in ["alice", "*", "a*", "*)(uid=*", "alice)(|(uid=*)", "\\2a", "x\0y", "(", "&", "{domain}"]
        {
            assert_eq!(encoded("(uid={user})", user), equality("uid", user.as_bytes()), "{user}");
        }
        let mut expected = Vec::new();
        ber::put_with(&mut expected, SUBSTRINGS, |out| {
            ber::put(out, OCTETS, b"mail");
            ber::put_with(out, ber::SEQUENCE, |out| ber::put(out, 0x80, b"*@"));
        });
        assert_eq!(
            encoded("(mail={user}@*)", "*"),
            expected,
            "the filter's asterisk is one, the name's is not"
        );
    }

    #[test]
    fn filters_are_encoded_as_the_rfc_says() {
        let class = equality("objectClass", b"person");
        let user = equality("uid", b"alice");
        let mut expected = Vec::new();
        ber::put_with(&mut expected, AND, |out| {
            out.extend_from_slice(&class);
            ber::put_with(out, OR, |out| {
                out.extend_from_slice(&user);
                out.extend_from_slice(&equality("mail", b"alice@example.net"));
            });
            ber::put_with(out, NOT, |out| ber::put(out, PRESENT, b"locked"));
        });
        let text = "(&(objectClass=person)(|(uid={user})(mail={user}@{domain}))(!(locked=*)))";
        assert_eq!(encoded(text, "alice"), expected);
        let mut expected = Vec::new();
        ber::put_with(&mut expected, EXTENSIBLE, |out| {
            ber::put(out, 0x81, b"1.2.840.113556.1.4.1941");
            ber::put(out, 0x82, b"memberOf");
            ber::put(out, 0x83, b"cn=(x),alice");
        });
        let text = "(memberOf:1.2.840.113556.1.4.1941:=cn=\\28x\\29,{user})";
        assert_eq!(encoded(text, "alice"), expected);
        assert_eq!(encoded("(uid>={user})", "a")[0], AT_LEAST);
        assert_eq!(encoded("(uid<={user})", "a")[0], AT_MOST);
        assert_eq!(encoded("(uid~={user})", "a")[0], LIKE);
    }

    #[test]
    fn mistakes_of_filters_are_named() {
        for (text, expected) in [
            ("", "does not begin with ("),
            ("uid={user}", "does not begin with ("),
            ("(uid={user}", "not closed"),
            ("(uid={user}))", "follows the filter"),
            ("(&)", "without a filter"),
            ("(uid)", "no ="),
            ("(u id={user})", "no attribute"),
            ("(uid=\\zz{user})", "hexadecimal"),
            ("(uid={name})", "brace"),
            ("(uid=alice)", "no {user}"),
            ("(!(uid={user}))", "no {user}"),
            ("(uid={user}**x)", "two asterisks"),
            ("(:={user})", "neither an attribute nor a rule"),
        ] {
            let mistake = FilterTemplate::parse(text).unwrap_err();
            assert!(mistake.contains(expected), "{text}: {mistake}");
        }
        let deep = format!("{}(uid={{user}}){}", "(!".repeat(40), ")".repeat(40));
        assert!(FilterTemplate::parse(&deep).unwrap_err().contains("levels"));
    }
}

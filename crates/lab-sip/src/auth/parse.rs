//! Challenges and credentials read as leniently as they are written.
//!
//! Nothing is rejected: a parameter without a scheme before it is dropped, and of two with one name the first counts.

use super::Secrets;

/// One challenge, or credentials: a scheme and its parameters, quotes off, escapes as they stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Parameters<'a> {
    /// As written: `Digest`, `Basic`.
    scheme: &'a [u8],
    /// Names and values in order.
    named: Vec<(&'a [u8], &'a [u8])>,
}

impl<'a> Parameters<'a> {
    pub(super) fn is_digest(&self) -> bool {
        self.scheme.eq_ignore_ascii_case(b"Digest")
    }

    /// The first of that name.
    pub(super) fn get(&self, name: &str) -> Option<&'a [u8]> {
        let found = self.named.iter().find(|(known, _)| known.eq_ignore_ascii_case(name.as_bytes()));
        found.map(|(_, value)| *value)
    }
}

/// The challenges of a value, which may hold several with commas between (RFC 7235 §4.1).
pub(super) fn challenges(value: &[u8]) -> Vec<Parameters<'_>> {
    let mut all: Vec<Parameters<'_>> = Vec::new();
    for item in items(value) {
        let equals = memchr::memchr(b'=', item);
        let before = item[..equals.unwrap_or(item.len())].trim_ascii_end();
        let name = match before.iter().position(u8::is_ascii_whitespace) {
            // A scheme and its first parameter, or a scheme with a token of its own.
            Some(space) => {
                all.push(Parameters { scheme: &before[..space], named: Vec::new() });
                before[space..].trim_ascii_start()
            }
            None if equals.is_none() => {
                all.push(Parameters { scheme: before, named: Vec::new() });
                continue;
            }
            None => before,
        };
        if let (Some(last), Some(equals)) = (all.last_mut(), equals) {
            last.named.push((name, unquoted(item[equals + 1..].trim_ascii())));
        }
    }
    all
}

/// Pieces between commas that are not in quotes, white space off, empty ones left out.
fn items(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(value);
    std::iter::from_fn(move || {
        let text = rest?;
        let mut quoted = false;
        let mut escaped = false;
        let comma = text.iter().position(|byte| {
            match byte {
                _ if escaped => escaped = false,
                b'\\' if quoted => escaped = true,
                b'"' => quoted = !quoted,
                b',' => return !quoted,
                _ => {}
            }
            false
        });
        rest = comma.map(|at| &text[at + 1..]);
        Some(text[..comma.unwrap_or(text.len())].trim_ascii())
    })
    .filter(|item| !item.is_empty())
}

/// Without the quotes; a missing closing quote is forgiven.
fn unquoted(value: &[u8]) -> &[u8] {
    let Some(inner) = value.strip_prefix(b"\"") else { return value };
    inner.strip_suffix(b"\"").unwrap_or(inner)
}

/// The text of `[authentication …]` out of an injection file, brackets or not: values bare, in quotes with
/// backslashes, or in hexadecimal after `0x`.
pub fn parse_keyword(text: &[u8]) -> Secrets {
    Secrets {
        username: keyword_parameter(text, b"username="),
        password: keyword_parameter(text, b"password="),
        aka_k: keyword_parameter(text, b"aka_K="),
        aka_op: keyword_parameter(text, b"aka_OP="),
        aka_amf: keyword_parameter(text, b"aka_AMF="),
    }
}

/// `None` when absent or empty.
fn keyword_parameter(text: &[u8], name: &[u8]) -> Option<Vec<u8>> {
    // The first place of the name in the text, as SIPp searches.
    let start = memchr::memmem::find(text, name)? + name.len();
    let value = &text[start..];
    let value = if let Some(hex) = value.strip_prefix(b"0x") {
        let digits: Vec<u8> = hex.iter().copied().take_while(u8::is_ascii_hexdigit).collect();
        digits
            .chunks(2)
            .map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | hex_value(*digit)))
            .collect()
    } else if let Some(quoted) = value.strip_prefix(b"\"") {
        unescape(quoted)
    } else {
        // A bare value ends with white space or with the bracket of the keyword.
        value.iter().copied().take_while(|byte| matches!(byte, 33..=126) && *byte != b']').collect()
    };
    Some(value).filter(|value: &Vec<u8>| !value.is_empty())
}

fn hex_value(digit: u8) -> u8 {
    char::from(digit).to_digit(16).map_or(0, |value| value as u8)
}

/// Up to the closing quote.
fn unescape(quoted: &[u8]) -> Vec<u8> {
    let mut value = Vec::new();
    let mut bytes = quoted.iter().copied();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => break,
            b'\\' => value.extend(bytes.next()),
            byte => value.push(byte),
        }
    }
    value
}

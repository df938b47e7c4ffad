//! Byte-level helpers shared by the parsers.

/// Without leading and trailing linear white space, folded line ends included.
#[inline]
pub fn trim(value: &[u8]) -> &[u8] {
    match value {
        // Most texts have none.
        [first, .., last] if *first > b' ' && *last > b' ' => value,
        _ => trim_end(trim_start(value)),
    }
}

pub(crate) fn trim_start(mut value: &[u8]) -> &[u8] {
    while let [first, rest @ ..] = value {
        if !is_lws(*first) {
            break;
        }
        value = rest;
    }
    value
}

pub(crate) fn trim_end(mut value: &[u8]) -> &[u8] {
    while let [rest @ .., last] = value {
        if !is_lws(*last) {
            break;
        }
        value = rest;
    }
    value
}

pub(crate) fn is_lws(byte: u8) -> bool {
    // Most bytes that are asked for are of a text.
    byte <= b' ' && matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

/// A part of a message for reports; bytes that are not UTF-8 are replaced.
pub fn lossy(part: Option<&[u8]>) -> Box<str> {
    let part = part.unwrap_or_default();
    // Nearly all are UTF-8, which is found out in a third of the time that a replacement takes.
    std::str::from_utf8(part).map_or_else(|_| String::from_utf8_lossy(part).into(), Box::from)
}

/// Compares without regard to ASCII case.
pub fn eq_ignore_case(a: &[u8], b: &str) -> bool {
    a.eq_ignore_ascii_case(b.as_bytes())
}

/// Decimal digits only, leading zeros allowed, within `u32`; anything else is `None`.
pub fn parse_number(digits: &[u8]) -> Option<u32> {
    if digits.is_empty() {
        return None;
    }
    let mut value = 0u64;
    for digit in digits {
        let digit = digit.wrapping_sub(b'0');
        value = value * 10 + u64::from(digit);
        if digit > 9 || value > u64::from(u32::MAX) {
            return None;
        }
    }
    u32::try_from(value).ok()
}

/// RFC 3261 §25.1 `token`.
pub(crate) fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(|&b| TOKEN_BYTE[usize::from(b)])
}

static TOKEN_BYTE: [bool; 256] = {
    let mut bytes = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        bytes[byte] = is_token_byte(byte as u8);
        byte += 1;
    }
    bytes
};

/// Below, eight bytes at a time are done before `memchr` has begun.
const SHORT: usize = 32;

/// The first place of a byte in a text of some words.
pub(crate) fn position(byte: u8, text: &[u8]) -> Option<usize> {
    if text.len() > SHORT { memchr::memchr(byte, text) } else { early_position([byte], text) }
}

/// The first place of either byte in a text of some words.
pub(crate) fn position_of_two(a: u8, b: u8, text: &[u8]) -> Option<usize> {
    if text.len() > SHORT { memchr::memchr2(a, b, text) } else { early_position([a, b], text) }
}

/// The first place of any of these bytes, which is near the beginning of the text, or the text is short.
pub fn early_position<const N: usize>(bytes: [u8; N], text: &[u8]) -> Option<usize> {
    let (words, rest) = text.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let found = bytes.iter().fold(0, |found, &byte| found | marks_of(byte, word));
        if found != 0 {
            return Some(8 * index + found.trailing_zeros() as usize / 8);
        }
    }
    match text.last_chunk() {
        // The last eight bytes begin in the word before, which has none of those that are looked for.
        Some(last) if !rest.is_empty() => {
            let word = u64::from_le_bytes(*last);
            let found = bytes.iter().fold(0, |found, &byte| found | marks_of(byte, word));
            (found != 0).then(|| text.len() - 8 + found.trailing_zeros() as usize / 8)
        }
        Some(_) => None,
        None => rest.iter().position(|byte| bytes.contains(byte)),
    }
}

/// The highest bit of the first byte of `word` that is `byte`; bytes behind it may have theirs too.
fn marks_of(byte: u8, word: u64) -> u64 {
    const LOW: u64 = u64::from_le_bytes([1; 8]);
    const HIGH: u64 = u64::from_le_bytes([0x80; 8]);
    let zero_where_equal = word ^ (LOW * u64::from(byte));
    zero_where_equal.wrapping_sub(LOW) & !zero_where_equal & HIGH
}

const fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(byte, b'-' | b'.' | b'!' | b'%' | b'*' | b'_' | b'+' | b'`' | b'\'' | b'~')
}

/// Makes a header value harmless in place: a CR or LF that does not fold (white space after it) would end the
/// line and start one of the sender's choosing; it becomes a space. Values taken from a parsed message have
/// only folds in them, unescaped and computed ones may have anything.
pub(crate) fn defuse(value: &mut [u8]) {
    let Some(first) = memchr::memchr2(b'\r', b'\n', value) else { return };
    for at in first..value.len() {
        let folds = |at: usize| matches!(value.get(at..at + 2), Some([b'\n', b' ' | b'\t']));
        let is_kept = match value[at] {
            b'\n' => folds(at),
            b'\r' => folds(at + 1),
            _ => true,
        };
        if !is_kept {
            value[at] = b' ';
        }
    }
}

/// Appends a URI for a request line, where a space or a control byte would end it: those are escaped.
pub(crate) fn write_uri(out: &mut Vec<u8>, uri: &[u8]) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    if !uri.iter().any(|&byte| byte <= b' ' || byte == 0x7f) {
        return out.extend_from_slice(uri);
    }
    for &byte in uri {
        if byte <= b' ' || byte == 0x7f {
            out.extend([b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        } else {
            out.push(byte);
        }
    }
}

/// Appends a number in decimal digits.
pub fn write_number(out: &mut Vec<u8>, number: usize) {
    let (mut digits, mut start, mut rest) = ([0; 20], 20, number);
    loop {
        start -= 1;
        digits[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            return out.extend_from_slice(&digits[start..]);
        }
    }
}

/// The end of a quoted string that starts at `bytes[0] == '"'`: index after the closing quote.
pub fn quoted_end(bytes: &[u8]) -> Option<usize> {
    let mut at = 1;
    loop {
        at += early_position([b'"', b'\\'], bytes.get(at..)?)?;
        if bytes[at] == b'"' {
            return Some(at + 1);
        }
        at += 2;
    }
}

/// The first `needle` outside quotes and angle brackets.
pub(crate) fn find_outside(bytes: &[u8], needle: u8) -> Option<usize> {
    // Most texts have none, and most of the others nothing before it that opens.
    let mut found = position(needle, bytes)?;
    let mut from = 0;
    while let Some(open) = position_of_two(b'"', b'<', &bytes[from..found]) {
        let rest = &bytes[from + open..];
        from += open + if rest[0] == b'"' { quoted_end(rest)? } else { position(b'>', rest)? + 1 };
        if found < from {
            found = from + position(needle, &bytes[from..])?;
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_byte_is_found_where_it_stands(text in "[:;a-c\\x00\\x7f\\u{80}-\\u{bf}]{0,60}") {
            let text = text.as_bytes();
            let first = |wanted: &[u8]| text.iter().position(|byte| wanted.contains(byte));
            prop_assert_eq!(position(b':', text), first(b":"));
            prop_assert_eq!(position_of_two(b':', b';', text), first(b":;"));
            prop_assert_eq!(early_position([b';'], text), first(b";"));
        }

        #[test]
        fn a_number_is_written_and_read(number: u32) {
            let mut text = Vec::new();
            write_number(&mut text, number as usize);
            prop_assert_eq!(String::from_utf8_lossy(&text), number.to_string());
            prop_assert_eq!(parse_number(&text), Some(number));
            text.push(b'0');
            prop_assert_eq!(parse_number(&text), number.checked_mul(10));
        }
    }

    #[test]
    fn a_value_cannot_end_its_line() {
        for (value, harmless) in [
            ("plain", "plain"),
            ("folded\r\n here\n\tand here", "folded\r\n here\n\tand here"),
            ("a\r\nTo: evil", "a  To: evil"),
            ("a\nb\rc", "a b c"),
            ("a\r \r\r\n b\r\n", "a   \r\n b  "),
        ] {
            let mut bytes = value.as_bytes().to_vec();
            defuse(&mut bytes);
            assert_eq!(bytes, harmless.as_bytes(), "{value:?}");
        }
    }

    #[test]
    fn numbers_have_digits_only() {
        for (text, number) in [
            ("0068", Some(68)),
            ("4294967295", Some(u32::MAX)),
            ("00000000000000000001", Some(1)),
            ("4294967296", None),
            ("99999999999999999999999", None),
            ("-1", None),
            ("+1", None),
            ("1 ", None),
            ("", None),
        ] {
            assert_eq!(parse_number(text.as_bytes()), number, "{text:?}");
        }
    }
}

//! Byte-level helpers shared by the parsers.

/// Without leading and trailing linear white space, folded line ends included.
pub fn trim(mut value: &[u8]) -> &[u8] {
    while let [first, rest @ ..] = value {
        if !is_lws(*first) {
            break;
        }
        value = rest;
    }
    while let [rest @ .., last] = value {
        if !is_lws(*last) {
            break;
        }
        value = rest;
    }
    value
}

pub(crate) fn is_lws(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

pub fn eq_ignore_case(a: &[u8], b: &str) -> bool {
    a.eq_ignore_ascii_case(b.as_bytes())
}

/// Decimal digits only, within `u32`; anything else is `None`.
pub fn parse_number(digits: &[u8]) -> Option<u32> {
    if digits.is_empty() || digits.len() > 10 {
        return None;
    }
    let mut value: u64 = 0;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        value = value * 10 + u64::from(digit - b'0');
    }
    u32::try_from(value).ok()
}

/// RFC 3261 §25.1 `token`.
pub(crate) fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(|&b| is_token_byte(b))
}

pub(crate) fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-.!%*_+`'~".contains(&byte)
}

/// The end of a quoted string that starts at `bytes[0] == '"'`: index after the closing quote.
pub(crate) fn quoted_end(bytes: &[u8]) -> Option<usize> {
    let mut at = 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return Some(at + 1),
            _ => at += 1,
        }
    }
    None
}

/// The first `wanted` outside quotes and angle brackets.
pub(crate) fn find_outside(bytes: &[u8], wanted: u8) -> Option<usize> {
    let mut at = 0;
    let mut in_angle = false;
    while at < bytes.len() {
        match bytes[at] {
            byte if byte == wanted && !in_angle => return Some(at),
            b'"' if !in_angle => match quoted_end(&bytes[at..]) {
                Some(length) => {
                    at += length;
                    continue;
                }
                None => return None,
            },
            b'<' => in_angle = true,
            b'>' => in_angle = false,
            _ => {}
        }
        at += 1;
    }
    None
}

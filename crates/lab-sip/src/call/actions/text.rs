//! Percent encoding, trimming and comparing of variables.

/// Digits of a percent escape, in upper case (RFC 3986 §2.1).
const HEX: &[u8; 16] = b"0123456789ABCDEF";

/// Letters, digits and `-_.~` stand for themselves.
pub(super) fn url_encode(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for &byte in text {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            out.push(byte);
        } else {
            out.extend([b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        }
    }
    out
}

/// `+` is a blank; a `%` without two hexadecimal digits after it stays as it is.
pub(super) fn url_decode(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        let digit = |at: usize| text.get(at).and_then(|digit| char::from(*digit).to_digit(16));
        match (byte, digit(at + 1), digit(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                out.push((high * 16 + low) as u8);
                at += 3;
            }
            _ => {
                out.push(if byte == b'+' { b' ' } else { byte });
                at += 1;
            }
        }
    }
    out
}

/// Without the blanks of C's `isspace` at both ends.
pub(super) fn trim(text: &[u8]) -> Vec<u8> {
    let blank = |byte: &u8| byte.is_ascii_whitespace() || *byte == b'\x0b';
    let start = text.iter().position(|byte| !blank(byte)).unwrap_or(text.len());
    let end = text.iter().rposition(|byte| !blank(byte)).map_or(start, |last| last + 1);
    text[start..end].to_vec()
}

/// As C's `strcmp` on most systems: that of the first bytes which differ, 0 when none does.
pub(super) fn difference(left: &[u8], right: &[u8]) -> i32 {
    let at = left.iter().zip(right).take_while(|(left, right)| left == right).count();
    let byte = |text: &[u8]| text.get(at).map_or(0, |byte| i32::from(*byte));
    byte(left) - byte(right)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_encoded_text_decodes_back() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(url_encode(b"a b/\xff~"), b"a%20b%2F%FF~");
        assert_eq!(url_decode(&url_encode(&all)), all);
    }

    #[test]
    fn a_stray_percent_stays() {
        assert_eq!(url_decode(b"100%, %4, %zz%41%"), b"100%, %4, %zzA%");
        assert_eq!(url_decode(b"a+b%2B"), b"a b+");
    }

    #[test]
    fn blanks_at_both_ends_go() {
        assert_eq!(trim(b" \t\r\n\x0b\x0ca b\n "), b"a b");
        assert_eq!(trim(b" \n"), b"");
    }

    #[test]
    fn texts_differ_by_their_first_different_bytes() {
        assert_eq!(difference(b"abc", b"abz"), -23);
        assert_eq!(difference(b"abz", b"abc"), 23);
        assert_eq!(difference(b"ab", b"ab"), 0);
        assert_eq!(difference(b"abc", b"ab"), 99);
        assert_eq!(difference(b"", b"a"), -97);
        assert_eq!(difference(b"\xff", b"a"), 158);
    }
}

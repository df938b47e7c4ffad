//! Percent encoding of variables.

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

/// A `%` without two hexadecimal digits after it stays as it is.
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
                out.push(byte);
                at += 1;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(url_encode(b"a b/\xff~"), b"a%20b%2F%FF~");
        assert_eq!(url_decode(&url_encode(&all)), all);
    }

    #[test]
    fn a_stray_percent_stays() {
        assert_eq!(url_decode(b"100%, %4, %zz%41%"), b"100%, %4, %zzA%");
    }
}

//! Bytes as pairs of hexadecimal digits.

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Lower case, two characters a byte.
pub fn encode(bytes: &[u8]) -> String {
    bytes.iter().flat_map(|byte| digits(*byte)).map(char::from).collect()
}

/// Appends what `encode` returns.
pub fn encode_into(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend(bytes.iter().flat_map(|byte| digits(*byte)));
}

/// Either case. `None` for an odd length or a character that is no digit.
pub fn decode(text: impl AsRef<[u8]>) -> Option<Vec<u8>> {
    let mut bytes = vec![0; text.as_ref().len() / 2];
    decode_to(text.as_ref(), &mut bytes).then_some(bytes)
}

/// As `decode`, and `None` also when the length is not exactly `N` bytes.
pub fn decode_array<const N: usize>(text: impl AsRef<[u8]>) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    decode_to(text.as_ref(), &mut bytes).then_some(bytes)
}

fn decode_to(text: &[u8], bytes: &mut [u8]) -> bool {
    text.len() == bytes.len() * 2
        && text.chunks_exact(2).zip(bytes).all(|(pair, byte)| match (value(pair[0]), value(pair[1])) {
            (Some(high), Some(low)) => {
                *byte = high << 4 | low;
                true
            }
            _ => false,
        })
}

fn digits(byte: u8) -> [u8; 2] {
    [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]
}

fn value(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| value as u8)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_pairs_of_digits_are_bytes() {
        assert_eq!(decode("00fFa0"), Some(vec![0, 255, 160]));
        assert_eq!(decode(""), Some(vec![]));
        assert_eq!(decode("0"), None);
        assert_eq!(decode("0g"), None);
        assert_eq!(decode("+1"), None);
        assert_eq!(decode_array::<2>("0102"), Some([1, 2]));
        assert_eq!(decode_array::<2>("010203"), None);
        assert_eq!(decode_array::<2>("01"), None);
    }

    proptest! {
        #[test]
        fn encoded_bytes_decode_to_the_same_bytes(bytes in prop::collection::vec(any::<u8>(), 0..50)) {
            let text = encode(&bytes);
            prop_assert_eq!(text.to_lowercase(), &text[..]);
            let mut appended = Vec::new();
            encode_into(&bytes, &mut appended);
            prop_assert_eq!(&appended, text.as_bytes());
            prop_assert_eq!(decode(&text), Some(bytes.clone()));
            prop_assert_eq!(decode(text.to_uppercase()), Some(bytes));
        }

        #[test]
        fn anything_may_be_tried(text in prop::collection::vec(any::<u8>(), 0..20)) {
            let _ = decode(&text);
        }
    }
}

//! Short words that we put into messages and know again: branches, tags, route tokens.

/// Letters and digits that survive every case-folding peer.
const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// Characters of a token: five bits each.
pub const LENGTH: usize = 13;

/// The token of a number.
pub fn text(value: u64) -> [u8; LENGTH] {
    std::array::from_fn(|index| ALPHABET[(value >> (5 * index) & 31) as usize])
}

/// Appends the token of a number.
pub fn write(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&text(value));
}

/// The token of a number, as a string.
pub fn to_string(value: u64) -> String {
    std::str::from_utf8(&text(value)).expect("the alphabet is ASCII").to_owned()
}

/// `None` for anything [`write`] does not write.
pub fn parse(text: &[u8]) -> Option<u64> {
    let text: &[u8; LENGTH] = text.try_into().ok()?;
    let mut value = 0u64;
    for (index, letter) in text.iter().enumerate() {
        let digit = u64::from(match letter {
            b'a'..=b'z' => letter - b'a',
            b'2'..=b'7' => letter - b'2' + 26,
            _ => return None,
        });
        // The thirteenth character carries four bits.
        if index == 12 && digit > 15 {
            return None;
        }
        value |= digit << (5 * index);
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_token_reads_back() {
        for value in [0, 1, 31, 32, u64::MAX, 0x0123_4567_89ab_cdef] {
            assert_eq!(super::parse(super::to_string(value).as_bytes()), Some(value));
        }
        assert_eq!(super::parse(b"zzzzzzzzzzzzz"), None);
    }
}

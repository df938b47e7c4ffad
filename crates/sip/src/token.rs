//! Short words that we put into messages and know again: branches, tags, route tokens.

/// Letters and digits that survive every case-folding peer.
const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// Thirteen characters for 64 bits.
pub fn write(out: &mut Vec<u8>, mut value: u64) {
    for _ in 0..13 {
        out.push(ALPHABET[(value & 31) as usize]);
        value >>= 5;
    }
}

/// The token of a number, as a string.
pub fn to_string(value: u64) -> String {
    let mut out = Vec::with_capacity(13);
    write(&mut out, value);
    out.into_iter().map(char::from).collect()
}

/// `None` for anything [`write`] does not write.
pub fn parse(text: &[u8]) -> Option<u64> {
    if text.len() != 13 {
        return None;
    }
    let mut value = 0u64;
    for (index, letter) in text.iter().enumerate() {
        let digit = ALPHABET.iter().position(|known| known == letter)? as u64;
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

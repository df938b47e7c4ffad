//! Short words that we put into messages and know again: branches, tags, route tokens.

/// Letters and digits that survive every case-folding peer.
const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// The five bits of a character, or [`UNKNOWN`].
static DIGITS: [u8; 256] = {
    let mut digits = [UNKNOWN; 256];
    let mut digit = 0;
    while digit < ALPHABET.len() {
        digits[ALPHABET[digit] as usize] = digit as u8;
        digit += 1;
    }
    digits
};

const UNKNOWN: u8 = 0x80;

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
    let digits = text.map(|letter| DIGITS[usize::from(letter)]);
    let is_known = digits.iter().fold(0, |all, digit| all | digit) & UNKNOWN == 0;
    let value = digits.iter().rev().fold(0u64, |value, &digit| value << 5 | u64::from(digit));
    // The thirteenth character carries four bits.
    (is_known && digits[LENGTH - 1] < 16).then_some(value)
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_token_reads_back() {
        for value in [0, 1, 31, 32, u64::MAX, 0x0123_4567_89ab_cdef] {
            assert_eq!(super::parse(super::to_string(value).as_bytes()), Some(value));
        }
        for text in
            [&b"zzzzzzzzzzzzz"[..], b"aaaaaaaaaaaaq", b"aaaaa1aaaaaaa", b"aaaaaAaaaaaaa", b"aaaaaaaaaaaa"]
        {
            assert_eq!(super::parse(text), None);
        }
    }
}

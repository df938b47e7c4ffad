//! Decimal numbers without a formatter in between.
//!
//! A message has many numbers, and a formatter would be called for each of them.

/// Appends the digits of a number.
pub(super) fn write_u64(out: &mut Vec<u8>, number: u64) {
    let mut digits = [0; 20];
    let start = digits_of(&mut digits, number);
    out.extend_from_slice(&digits[start..]);
}

/// With a minus sign where it is negative.
pub(super) fn write_i64(out: &mut Vec<u8>, number: i64) {
    if number < 0 {
        out.push(b'-');
    }
    write_u64(out, number.unsigned_abs());
}

/// Puts a number right-aligned over the `width` bytes at `at`; one that needs more pushes the rest on.
/// Negative ones are written as 0: no length is negative.
pub(super) fn write_padded(out: &mut Vec<u8>, at: usize, width: usize, number: i64) {
    let mut digits = [0; 20];
    let start = digits_of(&mut digits, u64::try_from(number).unwrap_or(0));
    let digits = &digits[start..];
    match width.checked_sub(digits.len()) {
        Some(padding) => {
            out[at..at + padding].fill(b' ');
            out[at + padding..at + width].copy_from_slice(digits);
        }
        None => {
            out.splice(at..at + width, digits.iter().copied());
        }
    }
}

/// Writes the digits to the end of the buffer and gives the place of the first.
fn digits_of(digits: &mut [u8; 20], mut number: u64) -> usize {
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return at;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_whole() {
        let mut out = Vec::new();
        for number in [0, 7, -7, 10, i64::MAX, i64::MIN] {
            out.clear();
            write_i64(&mut out, number);
            assert_eq!(out, number.to_string().into_bytes());
        }
    }

    #[test]
    fn a_length_keeps_its_columns_until_it_needs_more() {
        for (number, expected) in
            [(0, "<    0>"), (129, "<  129>"), (-3, "<    0>"), (99_999, "<99999>"), (123_456, "<123456>")]
        {
            let mut out = b"<.....>".to_vec();
            write_padded(&mut out, 1, 5, number);
            assert_eq!(String::from_utf8_lossy(&out), expected);
        }
    }
}

//! The part of BER that LDAP uses (RFC 4511 §5.1): definite lengths, tags of one byte.

/// Tag of a BOOLEAN.
pub(super) const BOOLEAN: u8 = 0x01;
/// Tag of an INTEGER.
pub(super) const INTEGER: u8 = 0x02;
/// Tag of an OCTET STRING.
pub(super) const OCTETS: u8 = 0x04;
/// Tag of an ENUMERATED.
pub(super) const ENUMERATED: u8 = 0x0a;
/// Tag of a SEQUENCE.
pub(super) const SEQUENCE: u8 = 0x30;
/// Tag of a SET.
pub(super) const SET: u8 = 0x31;

/// Bytes that are no BER of LDAP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// Appends an element.
pub(super) fn put(out: &mut Vec<u8>, tag: u8, content: &[u8]) {
    out.push(tag);
    let length = content.len();
    if let Some(short) = u8::try_from(length).ok().filter(|short| *short < 0x80) {
        out.push(short);
    } else {
        let bytes = length.to_be_bytes();
        let first = bytes.iter().position(|byte| *byte != 0).unwrap_or(bytes.len() - 1);
        let count = bytes.len() - first;
        // At most eight.
        out.push(0x80 | count.to_le_bytes()[0]);
        out.extend_from_slice(&bytes[first..]);
    }
    out.extend_from_slice(content);
}

/// Appends an element whose content `fill` makes.
pub(super) fn put_with(out: &mut Vec<u8>, tag: u8, fill: impl FnOnce(&mut Vec<u8>)) {
    let mut content = Vec::new();
    fill(&mut content);
    put(out, tag, &content);
}

/// Appends a whole number as an element of that tag.
pub(super) fn put_number(out: &mut Vec<u8>, tag: u8, number: u32) {
    let bytes = i64::from(number).to_be_bytes();
    // The fewest bytes whose first bit is the sign (X.690 §8.3.2).
    let first = (0..bytes.len() - 1).find(|at| bytes[*at] != 0 || bytes[*at + 1] >= 0x80);
    put(out, tag, &bytes[first.unwrap_or(bytes.len() - 1)..]);
}

/// The length of the element that bytes begin with, header included. `Ok(None)`: its header is not whole.
pub(super) fn whole_length(bytes: &[u8]) -> Result<Option<usize>, Malformed> {
    let (Some(tag), Some(first)) = (bytes.first(), bytes.get(1)) else { return Ok(None) };
    if tag & 0x1f == 0x1f {
        return Err(Malformed);
    }
    if *first < 0x80 {
        return Ok(Some(2 + usize::from(*first)));
    }
    let count = usize::from(first & 0x7f);
    if !(1..=4).contains(&count) {
        return Err(Malformed);
    }
    let Some(length) = bytes.get(2..2 + count) else { return Ok(None) };
    let length = length.iter().fold(0_usize, |sum, byte| sum << 8 | usize::from(*byte));
    length.checked_add(2 + count).map(Some).ok_or(Malformed)
}

/// Reads elements one after the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct BerReader<'a>(&'a [u8]);

impl<'a> BerReader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> BerReader<'a> {
        BerReader(bytes)
    }

    /// True if no element follows.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next element: its tag and content.
    pub(super) fn next(&mut self) -> Result<(u8, &'a [u8]), Malformed> {
        let length = whole_length(self.0)?.ok_or(Malformed)?;
        let (element, rest) = self.0.split_at_checked(length).ok_or(Malformed)?;
        let header = if element[1] < 0x80 { 2 } else { 2 + usize::from(element[1] & 0x7f) };
        self.0 = rest;
        Ok((element[0], &element[header..]))
    }

    /// The content of the next element, which has that tag.
    pub(super) fn expect(&mut self, tag: u8) -> Result<&'a [u8], Malformed> {
        match self.next()? {
            (found, content) if found == tag => Ok(content),
            _ => Err(Malformed),
        }
    }

    /// The next element as a number that is not negative.
    pub(super) fn number(&mut self, tag: u8) -> Result<u32, Malformed> {
        let content = self.expect(tag)?;
        if content.is_empty() || content[0] >= 0x80 || content.len() > 5 {
            return Err(Malformed);
        }
        let number = content.iter().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
        u32::try_from(number).map_err(|_| Malformed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_read_as_they_are_written() {
        for length in [0, 1, 0x7f, 0x80, 0xff, 0x100, 70_000] {
            let content = vec![7; length];
            let mut out = Vec::new();
            put(&mut out, OCTETS, &content);
            put_number(&mut out, INTEGER, 5);
            let mut reader = BerReader::new(&out);
            assert_eq!(reader.next(), Ok((OCTETS, &content[..])), "{length}");
            assert_eq!(reader.number(INTEGER), Ok(5));
            assert_eq!(reader.next(), Err(Malformed), "nothing follows");
        }
    }

    #[test]
    fn numbers_have_the_fewest_bytes() {
        for (number, bytes) in [
            (0, &[2, 1, 0][..]),
            (127, &[2, 1, 127]),
            (128, &[2, 2, 0, 128]),
            (u32::MAX, &[2, 5, 0, 255, 255, 255, 255]),
        ] {
            let mut out = Vec::new();
            put_number(&mut out, INTEGER, number);
            assert_eq!(out, bytes, "{number}");
            assert_eq!(BerReader::new(&out).number(INTEGER), Ok(number));
        }
    }

    #[test]
    fn bytes_that_are_no_ber_are_refused() {
        for bytes in [&[0x30, 0x80, 0, 0][..], &[0x1f, 1, 0], &[0x30, 0x85, 1, 1, 1, 1, 1], &[0x30, 0xff]] {
            assert_eq!(whole_length(bytes), Err(Malformed), "{bytes:?}");
        }
        for bytes in [&[][..], &[0x30], &[0x30, 0x82, 1]] {
            assert_eq!(whole_length(bytes), Ok(None), "{bytes:?}");
            assert_eq!(BerReader::new(bytes).next(), Err(Malformed), "{bytes:?}");
        }
        assert_eq!(BerReader::new(&[4, 5, 1, 2]).next(), Err(Malformed), "cut");
        assert_eq!(BerReader::new(&[2, 1, 0x80]).number(INTEGER), Err(Malformed), "negative");
    }
}

//! Numbered fields, the form of all that nodes of different versions tell each other: each field is its number, its length
//! and its bytes, numbers in LEB128. A reader skips numbers that it does not know and gives absent ones a default, so that a
//! version may add fields without a thought of the last one. A number never changes its meaning.

use std::fmt;

/// The reason why bytes from a peer, the council or the database cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Corrupt {
    /// The thing that was read, e.g. `map`.
    pub thing: &'static str,
    /// The fault, e.g. `a field is longer than the rest`.
    pub fault: &'static str,
}

impl fmt::Display for Corrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cannot be read: {}", self.thing, self.fault)
    }
}

impl std::error::Error for Corrupt {}

/// The longest number: 64 bits, 7 a byte.
const VARINT_BYTES: usize = 10;

/// Appends a number, 7 bits a byte, least first.
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}

/// Takes a number from the front of the bytes; none if they end before it or it has more than 64 bits.
pub fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value: u64 = 0;
    for place in 0..VARINT_BYTES {
        let (&byte, rest) = bytes.split_first()?;
        let bits = u64::from(byte & 0x7f);
        let shifted = bits << (7 * place);
        if shifted >> (7 * place) != bits {
            return None;
        }
        (*bytes, value) = (rest, value | shifted);
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// Appends a field of bytes.
pub fn put_bytes(out: &mut Vec<u8>, number: u64, bytes: &[u8]) {
    put_varint(out, number);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends a field that is a number.
pub fn put_number(out: &mut Vec<u8>, number: u64, value: u64) {
    let mut bytes = Vec::with_capacity(VARINT_BYTES);
    put_varint(&mut bytes, value);
    put_bytes(out, number, &bytes);
}

/// Reads the fields of one thing in their order.
pub struct Fields<'a> {
    thing: &'static str,
    rest: &'a [u8],
}

/// One field with its number.
#[derive(Clone, Copy)]
pub struct Field<'a> {
    thing: &'static str,
    /// The field's number.
    pub number: u64,
    /// The field's bytes.
    pub bytes: &'a [u8],
}

impl<'a> Fields<'a> {
    /// The fields of `thing`, which has at most `most` bytes.
    ///
    /// # Errors
    /// [`Corrupt`] if there are more bytes.
    pub fn new(thing: &'static str, bytes: &'a [u8], most: usize) -> Result<Fields<'a>, Corrupt> {
        let fields = Fields { thing, rest: bytes };
        if bytes.len() > most { Err(fields.corrupt("it is too long")) } else { Ok(fields) }
    }

    /// The next field, none at the end.
    ///
    /// # Errors
    /// [`Corrupt`] if the bytes end within a field.
    #[expect(clippy::should_implement_trait, reason = "an iterator cannot fail")]
    pub fn next(&mut self) -> Result<Option<Field<'a>>, Corrupt> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let number = take_varint(&mut self.rest).ok_or(self.corrupt("a field has no number"))?;
        let length = take_varint(&mut self.rest).ok_or(self.corrupt("a field has no length"))?;
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length > self.rest.len() {
            return Err(self.corrupt("a field is longer than the rest"));
        }
        let (bytes, rest) = self.rest.split_at(length);
        self.rest = rest;
        Ok(Some(Field { thing: self.thing, number, bytes }))
    }

    /// A fault of this thing.
    pub fn corrupt(&self, fault: &'static str) -> Corrupt {
        Corrupt { thing: self.thing, fault }
    }
}

impl Field<'_> {
    /// The field as a number that fits.
    ///
    /// # Errors
    /// [`Corrupt`] if it is no number, is followed by more bytes or does not fit.
    pub fn value<N: TryFrom<u64>>(&self) -> Result<N, Corrupt> {
        let corrupt = || Corrupt { thing: self.thing, fault: "a field is not a number of its size" };
        let mut bytes = self.bytes;
        let value = take_varint(&mut bytes).filter(|_| bytes.is_empty()).ok_or_else(corrupt)?;
        N::try_from(value).map_err(|_| corrupt())
    }

    /// The field as text of at most `most` bytes.
    ///
    /// # Errors
    /// [`Corrupt`] if it is longer or not UTF-8.
    pub fn text(&self, most: usize) -> Result<Box<str>, Corrupt> {
        let corrupt = Corrupt { thing: self.thing, fault: "a field is too long or not UTF-8" };
        if self.bytes.len() > most {
            return Err(corrupt);
        }
        std::str::from_utf8(self.bytes).map(Box::from).map_err(|_| corrupt)
    }

    /// The field as bytes of a known length.
    ///
    /// # Errors
    /// [`Corrupt`] if it has another length.
    pub fn array<const N: usize>(&self) -> Result<[u8; N], Corrupt> {
        self.bytes
            .try_into()
            .map_err(|_| Corrupt { thing: self.thing, fault: "a field has another length than its form" })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn unknown_fields_are_passed_over() {
        let mut bytes = Vec::new();
        put_number(&mut bytes, 99, 7);
        put_bytes(&mut bytes, 2, b"x");
        let mut fields = Fields::new("test", &bytes, 100).unwrap();
        let mut found = Vec::new();
        while let Some(field) = fields.next().unwrap() {
            if field.number == 2 {
                found = field.bytes.to_vec();
            }
        }
        assert_eq!(found, b"x");
    }

    #[test]
    fn a_number_of_more_than_64_bits_is_none() {
        assert_eq!(take_varint(&mut &[0xff; 9][..]), None);
        let mut eleven = vec![0x80; 10];
        eleven.push(0);
        assert_eq!(take_varint(&mut &eleven[..]), None);
        let mut beyond = vec![0xff; 9];
        beyond.push(0x02);
        assert_eq!(take_varint(&mut &beyond[..]), None);
    }

    proptest! {
        #[test]
        fn numbers_come_back(value: u64) {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, value);
            let mut rest = &bytes[..];
            prop_assert_eq!(take_varint(&mut rest), Some(value));
            prop_assert!(rest.is_empty());
        }

        #[test]
        fn any_bytes_end_in_fields_or_a_fault(bytes: Vec<u8>) {
            let mut fields = Fields::new("test", &bytes, 1_000).unwrap();
            let mut length = 0;
            while let Ok(Some(field)) = fields.next() {
                length += field.bytes.len();
            }
            prop_assert!(length <= bytes.len());
        }
    }
}

//! The name of a transfer.

use sha1::{Digest as _, Sha1};

/// The SHA-1 of the stream's id, the requester's and the target's full address, which both ends give as the domain that they want to
/// connect to (XEP-0065 §5.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StreamHash([u8; StreamHash::BYTES]);

impl StreamHash {
    const BYTES: usize = 20;

    /// Hexadecimal digits of a hash.
    pub(crate) const DIGITS: u8 = 40;

    /// The name of the transfer with that id. The addresses are prepared ones.
    pub fn of(sid: &str, requester: &str, target: &str) -> StreamHash {
        let hash = Sha1::new().chain_update(sid).chain_update(requester).chain_update(target).finalize();
        StreamHash(hash.into())
    }

    /// Reads 40 hexadecimal digits. `None`: that is no hash.
    pub fn parse(digits: &[u8]) -> Option<StreamHash> {
        let (pairs, []) = digits.as_chunks::<2>() else { return None };
        let mut bytes = [0; StreamHash::BYTES];
        if pairs.len() != bytes.len() {
            return None;
        }
        for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
            *byte = (digit(*high)? << 4) | digit(*low)?;
        }
        Some(StreamHash(bytes))
    }

    /// Forty digits in lower case.
    pub fn to_hex(self) -> String {
        stdx::hex::encode(&self.0)
    }
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_that_of_sid_requester_and_target_in_this_order() {
        // As `printf ... | sha1sum` has it.
        let hash = StreamHash::of("vxf9n471bn46", "romeo@montague.lit/orchard", "juliet@capulet.lit/balcony");
        assert_eq!(hash.to_hex(), "01494a7e04f11decb0c82b29d36d172e55ebe7a9");
        assert_eq!(StreamHash::parse(hash.to_hex().as_bytes()), Some(hash));
        assert_eq!(StreamHash::parse(hash.to_hex().to_uppercase().as_bytes()), Some(hash));
        let other =
            StreamHash::of("vxf9n471bn46", "juliet@capulet.lit/balcony", "romeo@montague.lit/orchard");
        assert_ne!(other, hash);
    }

    #[test]
    fn only_forty_hexadecimal_digits_are_a_hash() {
        for digits in
            ["", "0", "example.org", &"0".repeat(39), &"0".repeat(41), &"0".repeat(42), &"g".repeat(40)]
        {
            assert_eq!(StreamHash::parse(digits.as_bytes()), None, "{digits}");
        }
    }
}

//! Hashes under a secret key: outsiders can neither choose colliding values nor forge a short check value.

use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};

use siphasher::{sip, sip128};

/// One secret of 16 bytes. Tables and shards hash with SipHash-1-3; `mac` uses SipHash-2-4, the variant its
/// authors recommend where the value itself travels. Equal on every machine for equal keys and bytes.
#[derive(Clone)]
pub struct Keyed {
    key: [u8; 16],
}

impl Keyed {
    /// A hash under this key. A secret key keeps peers from choosing collisions.
    pub const fn new(key: [u8; 16]) -> Self {
        Keyed { key }
    }

    /// 64 bits of SipHash-1-3.
    pub fn hash(&self, bytes: &[u8]) -> u64 {
        sip::SipHasher13::new_with_key(&self.key).hash(bytes)
    }

    /// Every part counts with its length: `["ab", "c"]` and `["a", "bc"]` differ.
    pub fn hash_parts(&self, parts: &[&[u8]]) -> u64 {
        let hasher = sip::SipHasher13::new_with_key(&self.key);
        let mut room = [0; SHORT];
        match join(parts, &mut room) {
            Some(joined) => hasher.hash(joined),
            None => finish_parts(hasher, parts),
        }
    }

    /// 128 bits of SipHash-1-3.
    pub fn hash128(&self, bytes: &[u8]) -> u128 {
        sip128::SipHasher13::new_with_key(&self.key).hash(bytes).as_u128()
    }

    /// A check value that only holders of the key can make, over parts that count with their lengths.
    /// Compare it with `ct_eq`.
    pub fn mac(&self, parts: &[&[u8]]) -> u64 {
        let hasher = sip::SipHasher24::new_with_key(&self.key);
        let mut room = [0; SHORT];
        match join(parts, &mut room) {
            Some(joined) => hasher.hash(joined),
            None => finish_parts(hasher, parts),
        }
    }
}

impl fmt::Debug for Keyed {
    /// The key is a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keyed")
    }
}

/// Bytes of parts and their lengths that are joined before they are hashed: those of a nonce or a tag are about 100.
const SHORT: usize = 256;

/// The parts, each behind its length, in one slice: one write to a hasher costs less than many small ones. `None`: there
/// are too many bytes.
fn join<'a>(parts: &[&[u8]], room: &'a mut [u8; SHORT]) -> Option<&'a [u8]> {
    let mut end = 0;
    for part in parts {
        let (length, text) = room.get_mut(end..end + 8 + part.len())?.split_at_mut(8);
        length.copy_from_slice(&(part.len() as u64).to_le_bytes());
        text.copy_from_slice(part);
        end += 8 + part.len();
    }
    Some(&room[..end])
}

fn finish_parts(mut hasher: impl Hasher, parts: &[&[u8]]) -> u64 {
    for part in parts {
        hasher.write(&(part.len() as u64).to_le_bytes());
        hasher.write(part);
    }
    hasher.finish()
}

/// For tables whose keys come from [`Keyed::hash_parts`]: the key is its own hash.
pub type HashedKeys = BuildHasherDefault<HashedKey>;

/// Passes a key of eight bytes through.
#[derive(Clone, Copy, Debug, Default)]
pub struct HashedKey(u64);

impl Hasher for HashedKey {
    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("only u64 keys are hashes already");
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn keyed() -> Keyed {
        Keyed::new(std::array::from_fn(|index| index as u8))
    }

    /// The vector in appendix A of Aumasson and Bernstein, "SipHash: a fast short-input PRF".
    #[test]
    fn the_paper_agrees_on_siphash_2_4() {
        let message: Vec<u8> = (0..15).collect();
        let hasher = sip::SipHasher24::new_with_key(&keyed().key);
        assert_eq!(hasher.hash(&message), 0xa129_ca61_49be_45e5);
    }

    proptest! {
        /// Tokens of a release before are verified by this one, so joined parts hash as those that are written one by one.
        #[test]
        fn joined_parts_hash_as_parts(parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..120), 0..6)) {
            let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
            let keyed = keyed();
            let streamed = finish_parts(sip::SipHasher13::new_with_key(&keyed.key), &parts);
            prop_assert_eq!(keyed.hash_parts(&parts), streamed);
            let streamed = finish_parts(sip::SipHasher24::new_with_key(&keyed.key), &parts);
            prop_assert_eq!(keyed.mac(&parts), streamed);
        }
    }

    #[test]
    fn parts_are_told_apart() {
        let keyed = keyed();
        assert_ne!(keyed.hash_parts(&[b"ab", b"c"]), keyed.hash_parts(&[b"a", b"bc"]));
        assert_ne!(keyed.hash_parts(&[b"", b"a"]), keyed.hash_parts(&[b"a"]));
        assert_ne!(keyed.mac(&[b"ab", b"c"]), keyed.mac(&[b"a", b"bc"]));
        assert_ne!(keyed.mac(&[b"a"]), keyed.hash_parts(&[b"a"]));
    }

    #[test]
    fn keys_matter_and_are_not_printed() {
        assert_ne!(keyed().hash(b"a"), Keyed::new([0; 16]).hash(b"a"));
        assert_ne!(keyed().hash128(b"a"), Keyed::new([0; 16]).hash128(b"a"));
        assert_eq!(format!("{:?}", keyed()), "Keyed");
    }

    proptest! {
        #[test]
        fn streaming_equals_one_piece(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let mut whole = (bytes.len() as u64).to_le_bytes().to_vec();
            whole.extend_from_slice(&bytes);
            prop_assert_eq!(keyed().hash_parts(&[&bytes]), keyed().hash(&whole));
        }
    }
}

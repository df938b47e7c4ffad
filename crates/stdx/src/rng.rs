//! A generator for tags, branches, jitter and simulations. Secrets (keys, passwords, tokens that are
//! worth stealing for long) come from the operating system instead.

use std::fmt;
use std::hash::Hasher;

use siphasher::sip::SipHasher24;

/// Lower-case base32 of RFC 4648 §6: 5 bits a character, and no protocol wants one escaped.
const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
const BITS_PER_CHAR: usize = 5;
const CHARS_PER_DRAW: usize = u64::BITS as usize / BITS_PER_CHAR;

/// SipHash-2-4 of a counter under a secret key: outputs reveal neither the key nor other outputs. Seeded from
/// the operating system by the server, from a number by tests.
#[derive(Clone)]
pub struct Rng {
    key: [u8; 16],
    nonce: [u8; 16],
    counter: u64,
}

impl Rng {
    /// The same numbers for the same seed, on every machine: for tests.
    pub fn seeded(seed: u64) -> Self {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        Rng::from_seed(bytes)
    }

    /// The first half is the secret key, the second separates generators under one key.
    pub fn from_seed(seed: [u8; 32]) -> Self {
        let (mut key, mut nonce) = ([0; 16], [0; 16]);
        key.copy_from_slice(&seed[..16]);
        nonce.copy_from_slice(&seed[16..]);
        Rng { key, nonce, counter: 0 }
    }

    /// 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        let mut hasher = SipHasher24::new_with_key(&self.key);
        hasher.write(&self.nonce);
        hasher.write(&self.counter.to_le_bytes());
        self.counter = self.counter.wrapping_add(1);
        hasher.finish()
    }

    /// A generator of its own for a part of the program; its numbers tell nothing of this one's.
    pub fn fork(&mut self) -> Rng {
        let mut seed = [0; 32];
        self.fill(&mut seed);
        Rng::from_seed(seed)
    }

    /// 0 to `n - 1`; 0 when `n` is 0. The bias is below `n` in 2^64.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(n)) >> 64) as u64
    }

    /// True in `per_mille` of a thousand cases.
    pub fn chance(&mut self, per_mille: u32) -> bool {
        self.below(1_000) < u64::from(per_mille)
    }

    /// Fills the slice with random bytes.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next_u64().to_le_bytes()[..chunk.len()]);
        }
    }

    /// Appends `n_chars` characters of lower-case base32, 5 bits each.
    pub fn write_token(&mut self, out: &mut Vec<u8>, n_chars: usize) {
        let mut left = n_chars;
        while left > 0 {
            let draw = self.next_u64();
            let take = left.min(CHARS_PER_DRAW);
            out.extend((0..take).map(|place| ALPHABET[(draw >> (place * BITS_PER_CHAR)) as usize % 32]));
            left -= take;
        }
    }

    /// The same as a string of its own.
    pub fn token(&mut self, n_chars: usize) -> String {
        let mut out = Vec::with_capacity(n_chars);
        self.write_token(&mut out, n_chars);
        out.into_iter().map(char::from).collect()
    }
}

/// Numbers from one that is an argument: SplitMix64 (Steele, Lea, Flood 2014). It is quick and guessable, for choices that
/// may be known.
#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// A generator whose sequence depends on the seed alone.
    pub fn new(seed: u64) -> Self {
        SplitMix64(seed)
    }

    /// 0 to `n - 1`; 0 when `n` is 0. The bias is below 2^-32 for `n` below 2^32.
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)).checked_rem(n).unwrap_or(0)
    }
}

impl fmt::Debug for Rng {
    /// The key is a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Rng")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

    use super::*;

    #[test]
    fn a_seed_is_a_sequence() {
        let draw = |seed| {
            let mut rng = Rng::seeded(seed);
            (0..1_000).map(|_| rng.next_u64()).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        assert_eq!(draw(1).into_iter().collect::<HashSet<_>>().len(), 1_000);
    }

    /// The first outputs of the reference implementation for the seed 0.
    #[test]
    fn split_mix_is_the_published_one() {
        let mut numbers = SplitMix64::new(0);
        assert_eq!(numbers.below(u64::MAX), 0xe220_a839_7b1d_cdaf);
        assert_eq!(numbers.below(u64::MAX), 0x6e78_9e6a_a1b9_65f4);
        assert_eq!(numbers.below(0), 0);
    }

    #[test]
    fn a_fork_goes_its_own_way() {
        let mut rng = Rng::seeded(1);
        let mut fork = rng.fork();
        assert_ne!(rng.next_u64(), fork.next_u64());
        assert_eq!(format!("{rng:?}"), "Rng");
    }

    #[test]
    fn every_face_of_a_die_comes_up_about_as_often() {
        let mut rng = Rng::seeded(3);
        let mut faces = [0u32; 6];
        for _ in 0..60_000 {
            faces[rng.below(6) as usize] += 1;
        }
        assert!(faces.iter().all(|count| (9_500..10_500).contains(count)), "{faces:?}");
        assert_eq!(rng.below(0), 0);
        assert!(!rng.chance(0) && rng.chance(1_000));
    }

    proptest! {
        #[test]
        fn tokens_have_their_length_and_alphabet(seed: u64, length in 0usize..100) {
            let mut out = b"z9hG4bK".to_vec();
            Rng::seeded(seed).write_token(&mut out, length);
            prop_assert_eq!(out.len(), 7 + length);
            prop_assert!(out[7..].iter().all(|byte| ALPHABET.contains(byte)));
        }

        #[test]
        fn fill_reaches_the_last_byte(seed: u64, length in 0usize..70) {
            let mut rng = Rng::seeded(seed);
            let mut seen = vec![0u8; length];
            let mut bytes = vec![0u8; length];
            for _ in 0..8 {
                rng.fill(&mut bytes);
                seen.iter_mut().zip(&bytes).for_each(|(seen, byte)| *seen |= byte);
            }
            prop_assert!(seen.iter().all(|byte| *byte != 0));
        }
    }
}

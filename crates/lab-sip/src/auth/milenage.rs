//! Milenage (3GPP TS 35.206) as far as a subscriber needs it to answer AKAv1-MD5: f1, f2 and f5.
//!
//! The network sends RAND and AUTN in the nonce. f5 gives the key that hides the sequence number in AUTN, f1 proves that the network knows
//! the subscriber's key, and f2 gives RES, the password of the digest. The other functions (keys for encryption) are not needed.

use aes::Aes128;
use aes::cipher::{BlockCipherEncrypt, KeyInit};

/// The block of AES-128, on which Milenage is built (3GPP TS 35.206).
type Block = [u8; 16];

/// The functions f1 to f5 of one subscriber (3GPP TS 35.206).
pub(super) struct Milenage {
    cipher: Aes128,
    /// OPc: the operator's constant under the subscriber's key.
    operator: Block,
}

impl Milenage {
    /// `operator` is OP; OPc is made of it here.
    pub(super) fn new(key: &Block, operator: &Block) -> Milenage {
        let cipher = Aes128::new(&(*key).into());
        let operator = xor(encrypt(&cipher, *operator), operator);
        Milenage { cipher, operator }
    }

    /// RES, when AUTN (SQN ⊕ AK, AMF, MAC) proves that the network knows the key.
    pub(super) fn answer(&self, random: &Block, token: &Block) -> Option<[u8; 8]> {
        let (result, anonymity) = self.f2_f5(random);
        let mut sequence = [0; 6];
        for (index, byte) in sequence.iter_mut().enumerate() {
            *byte = token[index] ^ anonymity[index];
        }
        let mac = self.f1(random, &sequence, [token[6], token[7]]);
        (mac == token[8..]).then_some(result)
    }

    /// The network's proof, over the sequence number and the AMF (`field`).
    /// MAC-A.
    fn f1(&self, random: &Block, sequence: &[u8; 6], field: [u8; 2]) -> [u8; 8] {
        let mut input = [0; 16];
        for half in input.chunks_exact_mut(8) {
            half[..6].copy_from_slice(sequence);
            half[6..].copy_from_slice(&field);
        }
        // r1 is 64 bits, c1 zero.
        let rotated = rotate(xor(input, &self.operator), 8);
        let out = xor(encrypt(&self.cipher, xor(rotated, &self.temp(random))), &self.operator);
        *out.first_chunk().expect("a block has eight bytes")
    }

    /// RES and AK: r2 is 0, c2 one.
    fn f2_f5(&self, random: &Block) -> ([u8; 8], [u8; 6]) {
        let mut input = xor(self.temp(random), &self.operator);
        input[15] ^= 1;
        let out = xor(encrypt(&self.cipher, input), &self.operator);
        (
            *out.last_chunk().expect("a block has eight bytes"),
            *out.first_chunk().expect("a block has six bytes"),
        )
    }

    /// The block that all functions begin with: RAND under the key.
    fn temp(&self, random: &Block) -> Block {
        encrypt(&self.cipher, xor(*random, &self.operator))
    }
}

fn encrypt(cipher: &Aes128, block: Block) -> Block {
    let mut block = block.into();
    cipher.encrypt_block(&mut block);
    block.into()
}

fn xor(mut block: Block, with: &Block) -> Block {
    block.iter_mut().zip(with).for_each(|(byte, other)| *byte ^= other);
    block
}

/// To the left by whole bytes.
fn rotate(mut block: Block, bytes: usize) -> Block {
    block.rotate_left(bytes);
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block<const N: usize>(hex: &str) -> [u8; N] {
        stdx::hex::decode_array(hex).unwrap()
    }

    /// 3GPP TS 35.208 §4.3 to §5.3, test sets 1 to 3: K, RAND, SQN, AMF, OP, OPc, f1, f2, f5.
    const SETS: [[&str; 9]; 3] = [
        [
            "465b5ce8b199b49faa5f0a2ee238a6bc",
            "23553cbe9637a89d218ae64dae47bf35",
            "ff9bb4d0b607",
            "b9b9",
            "cdc202d5123e20f62b6d676ac72cb318",
            "cd63cb71954a9f4e48a5994e37a02baf",
            "4a9ffac354dfafb3",
            "a54211d5e3ba50bf",
            "aa689c648370",
        ],
        [
            "0396eb317b6d1c36f19c1c84cd6ffd16",
            "c00d603103dcee52c4478119494202e8",
            "fd8eef40df7d",
            "af17",
            "ff53bade17df5d4e793073ce9d7579fa",
            "53c15671c60a4b731c55b4a441c0bde2",
            "5df5b31807e258b0",
            "d3a628ed988620f0",
            "c47783995f72",
        ],
        [
            "fec86ba6eb707ed08905757b1bb44b8f",
            "9f7c8d021accf4db213ccff0c7f71a6a",
            "9d0277595ffc",
            "725c",
            "dbc59adcb6f9a0ef735477b7fadf8374",
            "1006020f0a478bf6b699f15c062e42b3",
            "9cabc3e99baf7281",
            "8011c48c0c214ed2",
            "33484dc2136b",
        ],
    ];

    #[test]
    fn the_standard_agrees() {
        for [key, random, sequence, field, operator, derived, f1, f2, f5] in SETS {
            let milenage = Milenage::new(&block(key), &block(operator));
            assert_eq!(milenage.operator, block(derived));
            assert_eq!(milenage.f1(&block(random), &block(sequence), block(field)), block(f1));
            assert_eq!(milenage.f2_f5(&block(random)), (block(f2), block(f5)));
        }
    }

    #[test]
    fn only_the_network_that_knows_the_key_is_answered() {
        for [key, random, sequence, field, operator, _, f1, f2, f5] in SETS {
            let milenage = Milenage::new(&block(key), &block(operator));
            let mut token = [0; 16];
            let hidden =
                block::<6>(sequence).iter().zip(block::<6>(f5)).map(|(a, b)| a ^ b).collect::<Vec<_>>();
            token[..6].copy_from_slice(&hidden);
            token[6..8].copy_from_slice(&block::<2>(field));
            token[8..].copy_from_slice(&block::<8>(f1));
            assert_eq!(milenage.answer(&block(random), &token), Some(block(f2)));
            for byte in 0..16 {
                let mut forged = token;
                forged[byte] ^= 1;
                assert_eq!(milenage.answer(&block(random), &forged), None, "byte {byte}");
            }
        }
    }
}

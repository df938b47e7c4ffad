//! Session keys, the cipher in counter mode and the tag (RFC 3711 §4).

use aes::cipher::consts::U16;
use aes::cipher::{Array, BlockCipherEncrypt, BlockSizeUser, KeyInit};
use aes::{Aes128, Aes192, Aes256};
use hmac::{Hmac, Mac};
use sha1::Sha1;

/// Bytes of the master salt and of the session salt: 112 bits (RFC 3711 §8.2).
const SALT_LEN: usize = 14;
/// Bytes of the session authentication key: 160 bits (RFC 3711 §5.2).
const AUTH_LEN: usize = 20;

/// Bytes of the longest encryption key (RFC 6188 §2).
const KEY_LEN: usize = 32;

/// AES by the length of its key. The longer ones are rare, and their round keys do not take room in every context.
#[expect(
    clippy::large_enum_variant,
    reason = "nearly every context has the largest, and uses it for each packet"
)]
enum BlockCipher {
    Aes128(Aes128),
    Aes192(Box<Aes192>),
    Aes256(Box<Aes256>),
}

impl BlockCipher {
    /// `key`: 16, 24 or 32 bytes.
    fn new(key: &[u8]) -> BlockCipher {
        const FITS: &str = "the suite's master key has the length that the suite says";
        match key.len() {
            16 => BlockCipher::Aes128(Aes128::new_from_slice(key).expect(FITS)),
            24 => BlockCipher::Aes192(Box::new(Aes192::new_from_slice(key).expect(FITS))),
            _ => BlockCipher::Aes256(Box::new(Aes256::new_from_slice(key).expect(FITS))),
        }
    }

    fn keystream(&self, iv: [u8; 16], bytes: &mut [u8]) {
        match self {
            BlockCipher::Aes128(cipher) => keystream(cipher, iv, bytes),
            BlockCipher::Aes192(cipher) => keystream(&**cipher, iv, bytes),
            BlockCipher::Aes256(cipher) => keystream(&**cipher, iv, bytes),
        }
    }
}

/// The session keys of RTP or of RTCP.
pub(super) struct Keys {
    cipher: BlockCipher,
    salt: [u8; SALT_LEN],
    hmac: Hmac<Sha1>,
}

impl Keys {
    /// `label`: of the first of the three keys, 0 for RTP and 3 for RTCP (RFC 3711 §4.3.2).
    pub(super) fn derive(master: &[u8], label: u8) -> Keys {
        let (key, auth, salt) = session(master, label);
        Keys {
            cipher: BlockCipher::new(&key[..master.len() - SALT_LEN]),
            salt,
            hmac: Hmac::new_from_slice(&auth).expect("a MAC takes keys of every length"),
        }
    }

    /// Encrypts or decrypts: the keystream of the packet (RFC 3711 §4.1.1) over `bytes`.
    pub(super) fn cipher(&self, ssrc: u32, index: u64, bytes: &mut [u8]) {
        let mut iv = [0; 16];
        iv[..SALT_LEN].copy_from_slice(&self.salt);
        xor(&mut iv[4..8], &ssrc.to_be_bytes());
        xor(&mut iv[8..14], &index.to_be_bytes()[2..]);
        self.cipher.keystream(iv, bytes);
    }

    /// Over the packet and its roll-over counter (RFC 3711 §4.2).
    pub(super) fn tag(&self, packet: &[u8], roc: u32) -> [u8; 20] {
        let mut hmac = self.hmac.clone();
        hmac.update(packet);
        hmac.update(&roc.to_be_bytes());
        hmac.finalize().into_bytes().into()
    }

    /// The initialisation vector of RTCP, which carries its index itself.
    pub(super) fn tag_alone(&self, packet: &[u8]) -> [u8; 20] {
        let mut hmac = self.hmac.clone();
        hmac.update(packet);
        hmac.finalize().into_bytes().into()
    }
}

/// The session keys of RTP or RTCP from the master key: label + 0 encrypts, + 1 authenticates, + 2 salts (RFC 3711
/// §4.3). The key that encrypts is as long as the master key, which also derives it (RFC 6188 §3); the rest of its room
/// is zero.
fn session(master: &[u8], label: u8) -> ([u8; KEY_LEN], [u8; AUTH_LEN], [u8; SALT_LEN]) {
    let (master_key, master_salt) = master.split_at(master.len() - SALT_LEN);
    let cipher = BlockCipher::new(master_key);
    let derive = |label: u8, out: &mut [u8]| {
        let mut iv = [0; 16];
        iv[..SALT_LEN].copy_from_slice(master_salt);
        iv[7] ^= label;
        cipher.keystream(iv, out);
    };
    let (mut key, mut auth, mut salt) = ([0; KEY_LEN], [0; AUTH_LEN], [0; SALT_LEN]);
    derive(label, &mut key[..master_key.len()]);
    derive(label + 1, &mut auth);
    derive(label + 2, &mut salt);
    (key, auth, salt)
}

/// The last two bytes of `iv` count the blocks: no datagram has more than they can.
fn keystream<Cipher>(cipher: &Cipher, mut iv: [u8; 16], bytes: &mut [u8])
where
    Cipher: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16>,
{
    for (counter, chunk) in (0_u16..=u16::MAX).zip(bytes.chunks_mut(16)) {
        iv[14..].copy_from_slice(&counter.to_be_bytes());
        let mut block = Array::from(iv);
        cipher.encrypt_block(&mut block);
        xor(chunk, &block);
    }
}

fn xor(bytes: &mut [u8], with: &[u8]) {
    for (byte, with) in bytes.iter_mut().zip(with) {
        *byte ^= with;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
        let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        digits.chunks(2).map(pair).collect()
    }

    /// RFC 3711 B.2.
    #[test]
    fn the_keystream_is_that_of_the_rfc() {
        let key: [u8; 16] = bytes("2B7E151628AED2A6ABF7158809CF4F3C").try_into().unwrap();
        let iv = bytes("F0F1F2F3F4F5F6F7F8F9FAFBFCFD0000").try_into().unwrap();
        let mut stream = vec![0; 0xff02 * 16];
        keystream(&Aes128::new(&Array::from(key)), iv, &mut stream);
        let start = "E03EAD0935C95E80E166B16DD92B4EB4 D23513162B02D0F72A43A2FE4A5F97AB 41E95B3BB0A2E8DD477901E4FCA894C0";
        assert_eq!(stream[..48], bytes(start));
        let end = "EC8CDF7398607CB0F2D21675EA9EA1E4 362B7C3C6773516318A077D7FC5073AE 6A2CC3787889374FBEB4C81B17BA6C44";
        assert_eq!(stream[0xfeff * 16..0xff02 * 16], bytes(end));
    }

    /// RFC 3711 B.3.
    #[test]
    fn the_session_keys_are_those_of_the_rfc() {
        let master = bytes("E1F97A0D3E018BE0D64FA32C06DE4139 0EC675AD498AFEEBB6960B3AABE6");
        let (key, auth, salt) = session(&master, 0);
        assert_eq!(key[..16], bytes("C61E7A93744F39EE10734AFE3FF7A087"));
        assert_eq!(salt[..], bytes("30CBBC08863D8C85D49DB34A9AE1"));
        assert_eq!(auth[..], bytes("CEBE321F6FF7716B6FD4AB49AF256A156D38BAA4"));
    }

    /// RFC 6188 §7.1 and §7.2: AES-256.
    #[test]
    fn the_long_keys_are_those_of_the_rfc() {
        let key = bytes("57f82fe3613fd170a85ec93c40b1f092 2ec4cb0dc025b58272147cc438944a98");
        let iv = bytes("f0f1f2f3f4f5f6f7f8f9fafbfcfd0000").try_into().unwrap();
        let mut stream = vec![0; 48];
        BlockCipher::new(&key).keystream(iv, &mut stream);
        let start = "92bdd28a93c3f52511c677d08b5515a4 9da71b2378a854f67050756ded165bac 63c4868b7096d88421b563b8c94c9a31";
        assert_eq!(stream, bytes(start));

        let master =
            "f0f04914b513f2763a1b1fa130f10e29 98f6f6e43e4309d1e622a0e332b9f1b6 3b04803de51ee7c96423ab5b78d2";
        let (key, auth, salt) = session(&bytes(master), 0);
        assert_eq!(key[..], bytes("5ba1064e30ec51613cad926c5a28ef73 1ec7fb397f70a960653caf06554cd8c4"));
        assert_eq!(salt[..], bytes("fa31791685ca444a9e07c6c64e93"));
        assert_eq!(auth[..], bytes("fd9c32d39ed5fbb5a9dc96b30818454d1313dc05"));
    }
}

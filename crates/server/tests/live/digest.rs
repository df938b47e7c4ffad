//! The client's half of RFC 7616.

use md5::{Digest, Md5};
use sha2::Sha256;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hash {
    Md5,
    Sha256,
}

impl Hash {
    fn name(self) -> &'static str {
        match self {
            Hash::Md5 => "MD5",
            Hash::Sha256 => "SHA-256",
        }
    }

    fn hex(self, text: &str) -> String {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        match self {
            Hash::Md5 => hex(&Md5::digest(text)),
            Hash::Sha256 => hex(&Sha256::digest(text)),
        }
    }
}

/// The value of Authorization or Proxy-Authorization for the challenge of our algorithm.
pub(crate) fn answer<'a>(
    hash: Hash,
    challenges: impl Iterator<Item = &'a [u8]>,
    (user, password): (&str, &str),
    (method, uri): (&str, &str),
) -> String {
    let challenges: Vec<String> = challenges.map(|line| String::from_utf8_lossy(line).into_owned()).collect();
    let algorithm = format!("algorithm={}", hash.name());
    let found = challenges.iter().find(|line| line.split(", ").any(|part| part == algorithm));
    let challenge = found.unwrap_or_else(|| panic!("no {algorithm} in {challenges:?}"));
    let (realm, nonce) = (quoted(challenge, "realm"), quoted(challenge, "nonce"));
    let ha1 = hash.hex(&format!("{user}:{realm}:{password}"));
    let ha2 = hash.hex(&format!("{method}:{uri}"));
    let response = hash.hex(&format!("{ha1}:{nonce}:00000001:0a4f113b:auth:{ha2}"));
    format!(
        "Digest username=\"{user}\", realm=\"{realm}\", nonce=\"{nonce}\", uri=\"{uri}\", \
         response=\"{response}\", algorithm={}, cnonce=\"0a4f113b\", qop=auth, nc=00000001",
        hash.name()
    )
}

fn quoted<'a>(challenge: &'a str, name: &str) -> &'a str {
    let at = challenge.find(&format!("{name}=\"")).unwrap() + name.len() + 2;
    challenge[at..].split('"').next().unwrap()
}

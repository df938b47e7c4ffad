//! SCRAM (RFC 5802, 7677) with channel binding, and the hash of the offered mechanisms (XEP-0474).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha512};

use super::{Context, Failure, Identity, Step};

/// The hash functions of SCRAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hash {
    /// SHA-1.
    Sha1,
    /// SHA-256.
    Sha256,
    /// SHA-512.
    Sha512,
}

/// The keys that a server stores instead of a password: enough to check a proof, not to make one.
#[derive(Clone, PartialEq, Eq)]
pub struct Keys {
    /// The salt of the password.
    pub salt: Box<[u8]>,
    /// The number of iterations of PBKDF2.
    pub iterations: u32,
    /// The `StoredKey` of RFC 5802 §3.
    pub stored: Box<[u8]>,
    /// The `ServerKey` of RFC 5802 §3.
    pub server: Box<[u8]>,
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Keys({} iterations)", self.iterations)
    }
}

/// Runs one expression with the type of the hash.
macro_rules! with_hash {
    ($hash:expr, $type:ident => $body:expr) => {
        match $hash {
            Hash::Sha1 => {
                type $type = Sha1;
                $body
            }
            Hash::Sha256 => {
                type $type = Sha256;
                $body
            }
            Hash::Sha512 => {
                type $type = Sha512;
                $body
            }
        }
    };
}

impl Hash {
    pub(super) fn name(self) -> &'static str {
        match self {
            Hash::Sha1 => "SHA-1",
            Hash::Sha256 => "SHA-256",
            Hash::Sha512 => "SHA-512",
        }
    }

    pub(super) fn mac(self, key: &[u8], message: &[u8]) -> Vec<u8> {
        with_hash!(self, D => {
            let mut mac = Hmac::<D>::new_from_slice(key).expect("HMAC takes keys of any length");
            mac.update(message);
            mac.finalize().into_bytes().to_vec()
        })
    }

    pub(super) fn digest(self, message: &[u8]) -> Vec<u8> {
        with_hash!(self, D => D::digest(message).to_vec())
    }

    /// RFC 5802's `Hi`: PBKDF2 with a block of one hash.
    pub(super) fn iterate(self, password: &[u8], salt: &[u8], iterations: u32) -> Vec<u8> {
        with_hash!(self, D => {
            let keyed = Hmac::<D>::new_from_slice(password).expect("HMAC takes keys of any length");
            let round = |message: &[u8]| {
                let mut mac = keyed.clone();
                mac.update(message);
                mac.finalize().into_bytes()
            };
            let mut last = round(&[salt, &1_u32.to_be_bytes()].concat());
            let mut sum = last.to_vec();
            for _ in 1..iterations {
                last = round(&last);
                sum.iter_mut().zip(&last).for_each(|(sum, byte)| *sum ^= byte);
            }
            sum
        })
    }
}

/// The keys of a password. Slow on purpose.
pub fn derive(hash: Hash, password: &str, salt: &[u8], iterations: u32) -> Keys {
    // A password that cannot be prepared was stored as typed, too.
    let prepared = stringprep::saslprep(password).unwrap_or(password.into());
    let salted = hash.iterate(prepared.as_bytes(), salt, iterations);
    let stored = hash.digest(&hash.mac(&salted, b"Client Key"));
    let server = hash.mac(&salted, b"Server Key");
    Keys { salt: salt.into(), iterations, stored: stored.into(), server: server.into() }
}

#[derive(Debug)]
pub(super) struct Scram {
    hash: Hash,
    user: Box<str>,
    /// `n,,`, `y,,` or `p=NAME,,` and the binding's data.
    header: Vec<u8>,
    first: Box<str>,
    client_nonce: Box<str>,
    nonce: String,
    server_first: String,
    keys: Option<Keys>,
    /// The keys are those of an unknown account.
    is_unknown: bool,
}

impl Scram {
    pub(super) fn first(hash: Hash, plus: bool, message: &[u8], context: &Context) -> Result<Scram, Failure> {
        let text = std::str::from_utf8(message).map_err(|_| Failure::MalformedRequest)?;
        let mut parts = text.splitn(3, ',');
        let (Some(flag), Some(authorized), Some(bare)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(Failure::MalformedRequest);
        };
        let mut header = format!("{flag},{authorized},").into_bytes();
        match (flag, flag.strip_prefix("p=")) {
            (_, Some(name)) if plus => {
                let data = context.bindings.find(name).ok_or(Failure::MalformedRequest)?;
                header.extend_from_slice(data);
            }
            ("n", _) if !plus => {}
            // The client assumes that we do not support channel binding: the -PLUS mechanisms were removed from the list on the way.
            ("y", _) if !plus && context.bindings.is_empty() => {}
            ("y", _) if !plus => return Err(Failure::NotAuthorized),
            _ => return Err(Failure::MalformedRequest),
        }
        let mut fields = bare.split(',');
        // RFC 5802 §5.1: `m=` before the name is an extension that has to be understood; none is, so it fails here.
        let user = fields.next().and_then(|field| field.strip_prefix("n=")).and_then(name);
        let nonce =
            fields.next().and_then(|field| field.strip_prefix("r=")).filter(|nonce| !nonce.is_empty());
        let (Some(user), Some(nonce)) = (user, nonce) else { return Err(Failure::MalformedRequest) };
        if let Some(authorized) = authorized.strip_prefix("a=") {
            let authorized = name(authorized).ok_or(Failure::MalformedRequest)?;
            super::is_self(&authorized, &user, context)?;
        } else if !authorized.is_empty() {
            return Err(Failure::MalformedRequest);
        }
        Ok(Scram {
            hash,
            user,
            header,
            first: bare.into(),
            client_nonce: nonce.into(),
            nonce: String::new(),
            server_first: String::new(),
            keys: None,
            is_unknown: false,
        })
    }

    pub(super) fn user(&self) -> &str {
        &self.user
    }

    pub(super) fn hash(&self) -> Hash {
        self.hash
    }

    pub(super) fn has_challenged(&self) -> bool {
        !self.server_first.is_empty()
    }

    pub(super) fn challenge(&mut self, keys: Keys, is_known: bool, context: &Context) -> Vec<u8> {
        self.nonce = format!("{}{}", self.client_nonce, context.nonce);
        let (salt, iterations) = (STANDARD.encode(&keys.salt), keys.iterations);
        self.server_first = format!("r={},s={salt},i={iterations}", self.nonce);
        if !context.offered.is_empty() {
            let hash = self.hash.digest(offered(context).as_bytes());
            self.server_first.push_str(",h=");
            self.server_first.push_str(&STANDARD.encode(hash));
        }
        (self.keys, self.is_unknown) = (Some(keys), !is_known);
        self.server_first.clone().into_bytes()
    }

    pub(super) fn finish(self, message: &[u8]) -> Result<Step, Failure> {
        let text = std::str::from_utf8(message).map_err(|_| Failure::MalformedRequest)?;
        let (without_proof, proof) = text.rsplit_once(",p=").ok_or(Failure::MalformedRequest)?;
        let proof = STANDARD.decode(proof).map_err(|_| Failure::IncorrectEncoding)?;
        let mut fields = without_proof.split(',');
        let (Some(binding), Some(nonce)) = (
            fields.next().and_then(|field| field.strip_prefix("c=")),
            fields.next().and_then(|field| field.strip_prefix("r=")),
        ) else {
            return Err(Failure::MalformedRequest);
        };
        let keys = self.keys.ok_or(Failure::NotAuthorized)?;
        // RFC 5802 §5 and §6: the binding and both nonces are those of this exchange, or the message is of another
        // one.
        if binding != STANDARD.encode(&self.header) || nonce != self.nonce {
            return Err(Failure::NotAuthorized);
        }
        let signed = format!("{},{},{without_proof}", self.first, self.server_first);
        let signature = self.hash.mac(&keys.stored, signed.as_bytes());
        if proof.len() != signature.len() {
            return Err(Failure::NotAuthorized);
        }
        // RFC 5802 §3: proof and signature give the ClientKey, whose hash is the StoredKey.
        let client: Vec<u8> = proof.iter().zip(&signature).map(|(proof, byte)| proof ^ byte).collect();
        // An unknown account costs as much work as others.
        if !stdx::ct_eq(&self.hash.digest(&client), &keys.stored) || self.is_unknown {
            return Err(Failure::NotAuthorized);
        }
        let last = format!("v={}", STANDARD.encode(self.hash.mac(&keys.server, signed.as_bytes())));
        Ok(Step::Success { user: Identity::User(self.user), last: Some(last.into_bytes()) })
    }
}

/// The text that XEP-0474 hashes: the mechanisms, sorted and joined by `0x1e`, then `0x1f` and the bindings likewise.
fn offered(context: &Context) -> String {
    let mut mechanisms = context.offered.clone();
    mechanisms.sort_unstable();
    let mut bindings: Vec<&str> = context.bindings.names().collect();
    bindings.sort_unstable();
    let mut text = mechanisms.join("\u{1e}");
    if !bindings.is_empty() {
        text.push('\u{1f}');
        text.push_str(&bindings.join("\u{1e}"));
    }
    text
}

/// `=2C` and `=3D` are the only escapes.
fn name(text: &str) -> Option<Box<str>> {
    let mut name = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('=') {
        name.push_str(&rest[..at]);
        name.push(match rest.get(at..at + 3)? {
            "=2C" => ',',
            "=3D" => '=',
            _ => return None,
        });
        rest = &rest[at + 3..];
    }
    name.push_str(rest);
    (!name.is_empty()).then(|| name.into())
}

#[cfg(test)]
pub(super) mod testing {
    use super::*;

    /// The proof by which a client shows that it knows the password.
    pub(in super::super) fn proof(hash: Hash, password: &str, keys: &Keys, signed: &str) -> String {
        let salted = hash.iterate(password.as_bytes(), &keys.salt, keys.iterations);
        let client = hash.mac(&salted, b"Client Key");
        let signature = hash.mac(&keys.stored, signed.as_bytes());
        STANDARD.encode(client.iter().zip(&signature).map(|(key, byte)| key ^ byte).collect::<Vec<u8>>())
    }
}

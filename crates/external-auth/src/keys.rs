//! The keys of an issuer of tokens: a set of JSON web keys (RFC 7517). The type of a key decides the algorithm that it
//! verifies (RFC 8725 §3.1): the header of a token, which a stranger can write, decides nothing.

use aws_lc_rs::hmac;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;

use crate::limits;

/// The algorithms of signatures that are accepted (RFC 7518 §3.1, RFC 8037 §3.1). `none` is not among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Algorithm {
    Rs256,
    Es256,
    EdDsa,
    Hs256,
}

impl Algorithm {
    pub(crate) fn parse(name: &str) -> Option<Algorithm> {
        match name {
            "RS256" => Some(Algorithm::Rs256),
            "ES256" => Some(Algorithm::Es256),
            "EdDSA" => Some(Algorithm::EdDsa),
            "HS256" => Some(Algorithm::Hs256),
            _ => None,
        }
    }
}

/// One key, which verifies signatures of one algorithm.
pub(crate) struct VerifyingKey {
    id: Option<Box<str>>,
    material: Material,
}

enum Material {
    Rsa {
        n: Vec<u8>,
        e: Vec<u8>,
    },
    /// An uncompressed point.
    P256(Vec<u8>),
    Ed25519(Vec<u8>),
    Secret(Box<hmac::Key>),
}

/// The members of a key that matter here; RFC 7517 §4, RFC 7518 §6.
#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<Box<str>>,
    alg: Option<String>,
    #[serde(rename = "use")]
    usage: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
    k: Option<String>,
}

#[derive(Deserialize)]
struct JwkSet {
    keys: Vec<serde_json::Value>,
}

/// The usable keys of a set. Keys of other types and for other purposes are passed over (RFC 7517 §5).
///
/// # Errors
/// No set, or no usable key in it.
pub(crate) fn read(text: &[u8]) -> Result<Vec<VerifyingKey>, String> {
    if text.len() > limits::KEY_SET {
        return Err(format!("more than {} bytes", limits::KEY_SET));
    }
    // The error would show a part of the text, which may be a secret.
    let set: JwkSet = serde_json::from_slice(text).map_err(|_| "no set of JSON web keys (RFC 7517)")?;
    let read = |value| serde_json::from_value::<Jwk>(value).ok().and_then(VerifyingKey::read);
    let keys: Vec<VerifyingKey> = set.keys.into_iter().filter_map(read).take(limits::KEYS).collect();
    if keys.is_empty() {
        return Err("no key for RS256, ES256, EdDSA or HS256".into());
    }
    Ok(keys)
}

impl VerifyingKey {
    fn read(jwk: Jwk) -> Option<VerifyingKey> {
        let bytes = |text: &Option<String>| URL_SAFE_NO_PAD.decode(text.as_deref()?).ok();
        let material = match (&*jwk.kty, jwk.crv.as_deref()) {
            ("RSA", _) => Material::Rsa { n: bytes(&jwk.n)?, e: bytes(&jwk.e)? },
            ("EC", Some("P-256")) => {
                let (x, y) = (bytes(&jwk.x)?, bytes(&jwk.y)?);
                // RFC 7518 §6.2.1.2: of the full length.
                let is_whole = x.len() == 32 && y.len() == 32;
                Material::P256(is_whole.then(|| [&[4][..], &x, &y].concat())?)
            }
            ("OKP", Some("Ed25519")) => Material::Ed25519(bytes(&jwk.x)?),
            ("oct", _) => {
                // RFC 7518 §3.2: not shorter than the hash.
                let secret = bytes(&jwk.k).filter(|secret| secret.len() >= 32)?;
                Material::Secret(Box::new(hmac::Key::new(hmac::HMAC_SHA256, &secret)))
            }
            _ => return None,
        };
        let key = VerifyingKey { id: jwk.kid, material };
        let is_ours = jwk.alg.is_none_or(|alg| Algorithm::parse(&alg) == Some(key.algorithm()));
        let is_to_sign = jwk.usage.is_none_or(|usage| usage == "sig");
        (is_ours && is_to_sign).then_some(key)
    }

    pub(crate) fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    pub(crate) fn algorithm(&self) -> Algorithm {
        match self.material {
            Material::Rsa { .. } => Algorithm::Rs256,
            Material::P256(_) => Algorithm::Es256,
            Material::Ed25519(_) => Algorithm::EdDsa,
            Material::Secret(_) => Algorithm::Hs256,
        }
    }

    /// True if the signature of the message is this key's.
    pub(crate) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        match &self.material {
            Material::Rsa { n, e } => {
                let key = RsaPublicKeyComponents { n, e };
                key.verify(&RSA_PKCS1_2048_8192_SHA256, message, signature).is_ok()
            }
            Material::P256(point) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, signature).is_ok()
            }
            Material::Ed25519(key) => {
                UnparsedPublicKey::new(&ED25519, key).verify(message, signature).is_ok()
            }
            Material::Secret(key) => hmac::verify(key, message, signature).is_ok(),
        }
    }
}

//! The permission of a slot, signed: the client brings it along with the file (XEP-0363 §5, `Authorization`).

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use stdx::Instant;

/// One file of exactly that size and type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(super) id: Box<str>,
    pub(super) owner: Box<str>,
    pub(super) name: Box<str>,
    pub(super) kind: Box<str>,
    pub(crate) size: u64,
    pub(super) until: Instant,
}

impl Grant {
    /// `CONTENT.SIGNATURE`.
    pub(super) fn sign(&self, key: &[u8; 32]) -> String {
        let seconds = self.until.unix_seconds();
        // No control characters are in any of these.
        let text =
            format!("{}\n{}\n{}\n{}\n{}\n{seconds}", self.id, self.owner, self.name, self.kind, self.size);
        let signature = mac(key, text.as_bytes()).finalize().into_bytes();
        format!("{}.{}", BASE64_URL_SAFE_NO_PAD.encode(text), BASE64_URL_SAFE_NO_PAD.encode(signature))
    }

    /// `None`: it is not signed with our key.
    pub(super) fn read(token: &str, key: &[u8; 32]) -> Option<Grant> {
        let (text, signature) = token.split_once('.')?;
        let text = BASE64_URL_SAFE_NO_PAD.decode(text).ok()?;
        let signature = BASE64_URL_SAFE_NO_PAD.decode(signature).ok()?;
        mac(key, &text).verify_slice(&signature).ok()?;
        let text = String::from_utf8(text).ok()?;
        let mut lines = text.split('\n');
        let mut line = || lines.next().map(Box::<str>::from);
        let (id, owner, name, kind) = (line()?, line()?, line()?, line()?);
        let (size, until) = (line()?.parse().ok()?, line()?.parse().ok()?);
        Some(Grant { id, owner, name, kind, size, until: Instant::from_unix_seconds(until) })
    }
}

fn mac(key: &[u8; 32], text: &[u8]) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    mac.update(text);
    mac
}

//! GRUUs (RFC 5627): a URI that reaches one instance of an address, and one that does not reveal the address.
//!
//! A temporary GRUU holds its address and instance itself, encrypted, so none are kept. It is good as long as
//! the instance stays registered under the same Call-ID (RFC 5627 §3.1.2); the binding says whether it is.

use std::fmt::Write;

use router::{Aor, Binding};
use sha2::{Digest, Sha256};
use stdx::Instant;
use stdx::hash::Keyed;

use crate::keys;
use crate::wire::{Uri, unescape};

/// The user part of a temporary GRUU begins with it (RFC 5627 §3.1.2).
const PREFIX: &[u8] = b"tgruu.";

/// The tag before the encrypted text.
const TAG: usize = 8;

/// Time, hash of the Call-ID, length of the address.
const HEAD: usize = 8 + 4 + 2;

/// Where a request to a GRUU goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// As in the URI: of a public GRUU it may be an alias.
    pub aor: Aor,
    /// The `+sip.instance` value (RFC 5626 §4.1), without quotes.
    pub instance: Box<str>,
    /// The Call-ID that registered a temporary GRUU.
    registration: Option<u32>,
}

/// Makes and reads temporary GRUUs.
#[derive(Debug)]
pub struct Gruus {
    tag_key: Keyed,
    stream_key: [u8; 16],
}

impl Gruus {
    /// `secret` is the endpoint's; all nodes that share it read each other's.
    pub fn new(secret: &[u8; 32]) -> Self {
        Gruus {
            tag_key: Keyed::new(keys::derive(secret, "gruu tag")),
            stream_key: keys::derive(secret, "gruu stream"),
        }
    }

    /// RFC 5627 §3.1.2: another one at every call, and an observer can tell neither the account nor that two belong together.
    pub fn temporary(&self, now: Instant, aor: &str, binding: &Binding) -> String {
        let mut text = Vec::with_capacity(HEAD + aor.len() + binding.contact.instance.len());
        text.extend_from_slice(&now.as_micros().to_be_bytes());
        text.extend_from_slice(&self.registration(&binding.call_id).to_be_bytes());
        text.extend_from_slice(&u16::try_from(aor.len()).unwrap_or(u16::MAX).to_be_bytes());
        text.extend_from_slice(aor.as_bytes());
        text.extend_from_slice(binding.contact.instance.as_bytes());
        let tag = self.tag_key.mac(&[&text]).to_be_bytes();
        self.encrypt(tag, &mut text);
        let domain = aor.rsplit_once('@').map_or(aor, |(_, domain)| domain);
        format!("sip:tgruu.{}{}@{domain};gr", stdx::hex::encode(&tag), stdx::hex::encode(&text))
    }

    /// Address and instance when `uri` is a GRUU; whether such a binding exists is for the router to say.
    /// `None` also for a temporary GRUU that is not ours.
    pub fn resolve(&self, uri: &Uri<'_>) -> Option<Instance> {
        if !uri.is_sip() {
            return None;
        }
        let gr = uri.params.get("gr")?;
        if gr.is_empty() {
            return self.resolve_temporary(uri.user?.strip_prefix(PREFIX)?);
        }
        let instance = String::from_utf8(unescape(gr)).ok()?;
        let aor = format!("{}@{}", uri.user_decoded()?, uri.host_lower());
        Some(Instance { aor: aor.into(), instance: instance.into(), registration: None })
    }

    fn resolve_temporary(&self, hex: &[u8]) -> Option<Instance> {
        let mut bytes = stdx::hex::decode(hex).filter(|bytes| bytes.len() >= TAG + HEAD)?;
        let mut text = bytes.split_off(TAG);
        let tag = std::array::from_fn(|index| bytes[index]);
        self.encrypt(tag, &mut text);
        if !stdx::ct_eq(&self.tag_key.mac(&[&text]).to_be_bytes(), &tag) {
            return None;
        }
        let (head, names) = text.split_at(HEAD);
        let registration = u32::from_be_bytes(std::array::from_fn(|index| head[8 + index]));
        let aor_end = usize::from(u16::from_be_bytes([head[12], head[13]]));
        let (aor, instance) = std::str::from_utf8(names).ok()?.split_at_checked(aor_end)?;
        Some(Instance { aor: aor.into(), instance: instance.into(), registration: Some(registration) })
    }

    /// True if a binding of the resolved address is the one that is meant.
    pub fn reaches(&self, instance: &Instance, binding: &Binding) -> bool {
        binding.contact.instance == instance.instance
            && instance.registration.is_none_or(|id| id == self.registration(&binding.call_id))
    }

    fn registration(&self, call_id: &str) -> u32 {
        (self.tag_key.mac(&[b"registration", call_id.as_bytes()]) >> 32) as u32
    }

    /// Counter mode over SHA-256, started by the tag of the text itself, so that no two texts share a stream.
    /// Its own inverse.
    fn encrypt(&self, tag: [u8; TAG], text: &mut [u8]) {
        for (counter, block) in text.chunks_mut(32).enumerate() {
            let stream = Sha256::new()
                .chain_update(self.stream_key)
                .chain_update(tag)
                .chain_update((counter as u64).to_be_bytes())
                .finalize();
            block.iter_mut().zip(stream).for_each(|(byte, mask)| *byte ^= mask);
        }
    }
}

/// RFC 5627 §3.1.1: the address with its instance in `gr`.
pub fn public(aor: &str, instance: &str) -> String {
    let (user, domain) = aor.rsplit_once('@').unwrap_or(("", aor));
    let mut out = String::with_capacity(aor.len() + instance.len() + 16);
    out.push_str("sip:");
    // RFC 3261 §25.1: user-unreserved, param-unreserved.
    push_escaped(&mut out, user, b"&=+$,;?/");
    let _ = write!(out, "@{domain};gr=");
    push_escaped(&mut out, instance, b"[]/:&+$");
    out
}

fn push_escaped(out: &mut String, text: &str, allowed: &[u8]) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.!~*'()".contains(&byte) || allowed.contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
}

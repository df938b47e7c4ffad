//! Server dialback (XEP-0220): keys, and the two elements.

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

use super::S2sSettings;
use super::stream::Fault;
use crate::stanza::{Condition, StanzaError};
use crate::xml::escape_into;
use crate::{Element, Jid, ns};

/// Nothing is remembered of a key, so any shard knows its own.
fn mac(secret: &[u8], receiving: &str, originating: &str, id: &str) -> Option<Hmac<Sha256>> {
    // XEP-0185 §2: the digest of the secret in hexadecimal digits is the key of the HMAC.
    let key = stdx::hex::encode(&Sha256::digest(secret));
    let mut mac = Hmac::<Sha256>::new_from_slice(key.as_bytes()).ok()?;
    mac.update(format!("{receiving} {originating} {id}").as_bytes());
    Some(mac)
}

/// XEP-0185: the key that proves that `originating` is ours, on the stream of that id with `receiving`.
pub fn key(secret: &[u8], receiving: &str, originating: &str, id: &str) -> String {
    let mac = mac(secret, receiving, originating, id);
    mac.map(|mac| stdx::hex::encode(&mac.finalize().into_bytes())).unwrap_or_default()
}

/// True if we made that key; in constant time.
pub(super) fn is_ours(secret: &[u8], receiving: &str, originating: &str, id: &str, key: &str) -> bool {
    let bytes = stdx::hex::decode(key.trim());
    let mac = mac(secret, receiving, originating, id);
    mac.zip(bytes).is_some_and(|(mac, bytes)| mac.verify_slice(&bytes).is_ok())
}

/// A server's verdict about a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The key is valid.
    Valid,
    /// The key is not valid.
    Invalid,
    /// Nothing could be said (XEP-0220 §2.5).
    Error(Condition),
}

/// One of the two elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Dialback<'a> {
    pub(super) name: &'static str,
    pub(super) from: &'a str,
    pub(super) to: &'a str,
    /// The id of the stream that is asked about; of `verify` only.
    pub(super) id: Option<&'a str>,
}

impl Dialback<'_> {
    fn begin(&self, out: &mut Vec<u8>) {
        // With the prefix: old servers know it by that only.
        out.extend_from_slice(format!("<db:{}", self.name).as_bytes());
        let attributes = [("from", Some(self.from)), ("to", Some(self.to)), ("id", self.id)];
        for (name, value) in attributes.iter().filter_map(|(name, value)| Some((name, (*value)?))) {
            out.extend_from_slice(format!(" {name}='").as_bytes());
            escape_into(value, out);
            out.push(b'\'');
        }
    }

    /// The question: a key.
    pub(super) fn ask(&self, key: &str, out: &mut Vec<u8>) {
        self.begin(out);
        out.push(b'>');
        escape_into(key, out);
        out.extend_from_slice(format!("</db:{}>", self.name).as_bytes());
    }

    pub(super) fn answer(&self, verdict: Verdict, out: &mut Vec<u8>) {
        self.begin(out);
        match verdict {
            Verdict::Valid => out.extend_from_slice(b" type='valid'/>"),
            Verdict::Invalid => out.extend_from_slice(b" type='invalid'/>"),
            Verdict::Error(condition) => {
                out.extend_from_slice(b" type='error'>");
                // In the stream's default namespace.
                StanzaError::from(condition).element().write(ns::CLIENT, out);
                out.extend_from_slice(format!("</db:{}>", self.name).as_bytes());
            }
        }
    }
}

/// The two domains of an element, prepared.
pub(super) fn addresses(element: &Element) -> Option<(Box<str>, Box<str>)> {
    let domain = |name: &str| {
        let jid = Jid::parse(element.attr(name)?).ok()?;
        // Domains only.
        (jid.as_str() == jid.domain()).then(|| Box::from(jid.domain()))
    };
    Some((domain("from")?, domain("to")?))
}

/// The verdict in an answer; `None` of a question.
pub(super) fn verdict(element: &Element) -> Option<Verdict> {
    match element.attr("type")? {
        "valid" => Some(Verdict::Valid),
        "error" => Some(Verdict::Error(condition(element))),
        _ => Some(Verdict::Invalid),
    }
}

/// Answers whether a key is ours (XEP-0220 §2.3).
pub(super) fn answer_verify(
    settings: &S2sSettings,
    verify: &Element,
    out: &mut Vec<u8>,
) -> Result<(), Fault> {
    let (from, to) = addresses(verify).ok_or(("improper-addressing", "expected two domains"))?;
    if verify.attr("type").is_some() {
        return Err(("invalid-from", "an answer to no question"));
    }
    let id = verify.attr("id").ok_or(("bad-format", "expected the id of a stream"))?;
    let is_ours = || is_ours(&settings.secret, &from, &to, id, &verify.content());
    let verdict = match () {
        () if !settings.is_local(&to) => Verdict::Error(Condition::ItemNotFound),
        // No other server has received a stream for a domain of ours.
        () if settings.is_local(&from) => Verdict::Error(Condition::NotAllowed),
        () if is_ours() => Verdict::Valid,
        () => Verdict::Invalid,
    };
    Dialback { name: "verify", from: &to, to: &from, id: Some(id) }.answer(verdict, out);
    Ok(())
}

fn condition(element: &Element) -> Condition {
    let error = element.elements().find(|child| child.name() == "error");
    match error.and_then(Element::first).map(Element::name) {
        Some("item-not-found") => Condition::ItemNotFound,
        Some("remote-connection-failed" | "remote-server-not-found") => Condition::RemoteServerNotFound,
        Some("remote-server-timeout") => Condition::RemoteServerTimeout,
        Some("policy-violation") => Condition::PolicyViolation,
        Some("not-authorized") => Condition::NotAuthorized,
        Some("resource-constraint") => Condition::ResourceConstraint,
        Some("forbidden" | "not-allowed") => Condition::NotAllowed,
        _ => Condition::UndefinedCondition,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_of_its_stream_and_its_domains() {
        // The example of XEP-0185 §3.
        let key_of = key(b"s3cr3tf0rd14lb4ck", "xmpp.example.com", "example.org", "D60000229F");
        assert_eq!(key_of, "37c69b1cf07a3f67c04a5ef5902fa5114f2c76fe4a2686482ba5b89323075643");
        let right = key(&[7; 32], "xmpp.example.com", "example.org", "D60000229F");
        assert!(is_ours(&[7; 32], "xmpp.example.com", "example.org", "D60000229F", &right));
        assert!(!is_ours(&[8; 32], "xmpp.example.com", "example.org", "D60000229F", &right));
        assert!(!is_ours(&[7; 32], "xmpp.example.com", "example.net", "D60000229F", &right));
        assert!(!is_ours(&[7; 32], "xmpp.example.com", "example.org", "other", &right));
        assert!(!is_ours(&[7; 32], "xmpp.example.com", "example.org", "D60000229F", "no digits"));
    }
}

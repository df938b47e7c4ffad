//! Credentials in a file: the password, or keys of SCRAM (XEP-0227 §4.3).
//!
//! Keys are imported as they are, so users keep their passwords without the server ever knowing them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use xmpp::sasl::{Hash, Keys, Secret};
use xmpp::{Element, ns};

use super::user::{Fault, fault};
use crate::limits;

/// The credentials of a user; at least one of the two is present.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// The password as plain text.
    pub password: Option<Secret>,
    /// One of each hash at most.
    pub keys: Vec<(Hash, Keys)>,
}

/// The mechanisms whose keys are read, by the names of the IANA registry.
pub(super) const MECHANISMS: [(&str, Hash); 3] =
    [("SCRAM-SHA-1", Hash::Sha1), ("SCRAM-SHA-256", Hash::Sha256), ("SCRAM-SHA-512", Hash::Sha512)];

const EXPECTED: &str =
    "iter-count, salt, server-key and stored-key of SCRAM-SHA-1, SCRAM-SHA-256 or SCRAM-SHA-512, in base64";

/// The length of a hash's output, in bytes.
fn length(hash: Hash) -> usize {
    match hash {
        Hash::Sha1 => 20,
        Hash::Sha256 => 32,
        Hash::Sha512 => 64,
    }
}

impl Credentials {
    /// The credentials of a `<user>`. Of several keys for one hash the last counts; a user without credentials is refused.
    pub(super) fn read(user: &Element) -> Result<Credentials, Fault> {
        let mut credentials = Credentials { password: None, keys: Vec::new() };
        for element in user.elements().filter(|child| child.is("scram-credentials", ns::PIE_SCRAM)) {
            let (hash, keys) = read_keys(element).ok_or_else(not_keys)?;
            credentials.keys.retain(|(known, _)| *known != hash);
            credentials.keys.push((hash, keys));
        }
        match user.attr("password").filter(|password| !password.is_empty()) {
            // COMPAT(ejabberd before 22): keys in the place of a password.
            Some(text) if text.starts_with("scram:") => {
                let (hash, keys) = old_keys(&text["scram:".len()..]).ok_or_else(not_keys)?;
                credentials.keys.push((hash, keys));
            }
            Some(text) => credentials.password = Some(Secret(text.into())),
            None => {}
        }
        if credentials.password.is_none() && credentials.keys.is_empty() {
            return Err(fault(
                "no password",
                "a password, or <scram-credentials xmlns='urn:xmpp:pie:0#scram'>",
            ));
        }
        Ok(credentials)
    }
}

/// The fault of keys that cannot be read.
fn not_keys() -> Fault {
    fault("keys of SCRAM that are none", EXPECTED)
}

/// The keys of one `<scram-credentials/>`.
fn read_keys(element: &Element) -> Option<(Hash, Keys)> {
    let hash = element.attr("mechanism")?;
    let (_, hash) = *MECHANISMS.iter().find(|(name, _)| *name == hash)?;
    let text = |name: &str| element.content_of(name, ns::PIE_SCRAM);
    let (stored, server) = (text("stored-key")?, text("server-key")?);
    Some((hash, keys(hash, (&text("iter-count")?, &text("salt")?), (&stored, &server))?))
}

/// Keys as old versions of ejabberd write them: `[sha256,|sha512,]STORED,SERVER,SALT,ITERATIONS`.
fn old_keys(text: &str) -> Option<(Hash, Keys)> {
    let (hash, rest) = match text.split_once(',')? {
        ("sha256", rest) => (Hash::Sha256, rest),
        ("sha512", rest) => (Hash::Sha512, rest),
        _ => (Hash::Sha1, text),
    };
    let parts: Vec<&str> = rest.split(',').collect();
    let [stored, server, salt, iterations] = parts[..] else { return None };
    Some((hash, keys(hash, (iterations, salt), (stored, server))?))
}

/// Keys from their texts, if all have the lengths of the hash and the limits of the store.
fn keys(hash: Hash, (iterations, salt): (&str, &str), (stored, server): (&str, &str)) -> Option<Keys> {
    let decode = |text: &str| STANDARD.decode(text.split_ascii_whitespace().collect::<String>()).ok();
    let (mut salt, mut stored, mut server) = (decode(salt)?, decode(stored)?, decode(server)?);
    // COMPAT(ejabberd): it has them in base64 already, and writes that in base64.
    if stored.len() != length(hash) {
        let again = |bytes: Vec<u8>| STANDARD.decode(bytes).ok();
        (salt, stored, server) = (again(salt)?, again(stored)?, again(server)?);
    }
    let iterations: u32 = iterations.trim().parse().ok()?;
    let fits = stored.len() == length(hash)
        && server.len() == length(hash)
        // As much as the store keeps.
        && (1..=64).contains(&salt.len())
        && (1..=limits::PIE_ITERATIONS).contains(&iterations);
    let [salt, stored, server] = [salt, stored, server].map(Box::from);
    fits.then_some(Keys { salt, iterations, stored, server })
}

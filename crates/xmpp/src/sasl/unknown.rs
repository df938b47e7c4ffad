//! The challenge for an unknown account, which is indistinguishable from that of an existing one (RFC 5802 §9).
//!
//! Everything is a keyed hash of the address: the same after a restart and at every node that has the secret.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Context, Hash, Keys};
use crate::{Jid, limits};

/// The parameters of keys that a challenge shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyParameters {
    /// The number of iterations of PBKDF2.
    pub iterations: u32,
    /// Bytes.
    pub salt: usize,
}

/// The parameters of keys that this server derives.
const OWN: KeyParameters = KeyParameters { iterations: limits::SCRAM_ITERATIONS, salt: 16 };

/// Accounts whose keys have the same parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccountProfile {
    /// `None`: they have no keys of that hash, and are asked for such as an account is that is not there.
    pub sha1: Option<KeyParameters>,
    /// The keys of SCRAM-SHA-256.
    pub sha256: Option<KeyParameters>,
    /// The keys of SCRAM-SHA-512.
    pub sha512: Option<KeyParameters>,
    /// Nothing but keys proves their password, which takes as long as making them.
    pub only_keys: bool,
    /// The number of accounts with this profile.
    pub accounts: u64,
}

impl AccountProfile {
    fn look(&self, hash: Hash) -> KeyParameters {
        match hash {
            Hash::Sha1 => self.sha1,
            Hash::Sha256 => self.sha256,
            Hash::Sha512 => self.sha512,
        }
        .unwrap_or(OWN)
    }
}

/// The profiles of each domain's accounts. The accounts of other domains have the parameters of this server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnknownAccounts(Arc<HashMap<Box<str>, Vec<AccountProfile>>>);

impl UnknownAccounts {
    /// The profiles of the accounts of each domain.
    pub fn new(domains: impl IntoIterator<Item = (Box<str>, Vec<AccountProfile>)>) -> UnknownAccounts {
        UnknownAccounts(Arc::new(domains.into_iter().collect()))
    }

    /// The same with other profiles of the accounts of a domain.
    #[must_use]
    pub fn with(&self, domain: &str, profiles: Vec<AccountProfile>) -> UnknownAccounts {
        let mut all = HashMap::clone(&self.0);
        all.insert(domain.into(), profiles);
        UnknownAccounts(Arc::new(all))
    }

    /// The profile of an account that is not there: each as often as it is among those that are, and for the same address
    /// nearly always the same when those change.
    fn of(&self, secret: &[u8; 32], address: &str, domain: &str) -> Option<&AccountProfile> {
        let profiles = self.0.get(domain)?.iter().filter(|profile| profile.accounts > 0);
        // Rendezvous hashing with weights.
        let score = |profile: &AccountProfile| {
            let of = |look: Option<KeyParameters>| {
                look.map_or(0, |look| u64::from(look.iterations) << 8 | look.salt as u64)
            };
            let [a, b, c] = [profile.sha1, profile.sha256, profile.sha512].map(of);
            let only = u8::from(profile.only_keys);
            let text = format!("profile\0{address}\0{a} {b} {c} {only}");
            let hash = Hash::Sha256.mac(secret, text.as_bytes());
            let number = hash.iter().take(6).fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
            // 48 bits and a count of accounts fit exactly.
            #[expect(clippy::cast_precision_loss, reason = "both are below 2^52")]
            let (number, weight) = (number as f64, profile.accounts.min(1 << 50) as f64);
            ((number + 1.0) / 281_474_976_710_657.0).ln() / weight
        };
        profiles.max_by(|one, other| score(one).total_cmp(&score(other)))
    }

    /// True if the check of a password for this address, which has no account, is to take as long as one
    /// against keys alone.
    pub fn only_keys(&self, secret: &[u8; 32], user: &str, domain: &str) -> bool {
        self.of(secret, &address(user, domain), domain).is_some_and(|profile| profile.only_keys)
    }
}

/// As all spellings of it are kept.
fn address(user: &str, domain: &str) -> Box<str> {
    match Jid::new(Some(user), domain, None) {
        Ok(jid) => jid.as_str().into(),
        Err(_) => format!("{user}@{domain}").into(),
    }
}

/// Keys of that hash for an account that is not there. No proof fits them.
pub(super) fn keys(hash: Hash, user: &str, context: &Context) -> Keys {
    let address = address(user, &context.domain);
    let look = context.looks.of(&context.secret, &address, &context.domain);
    let look = look.map_or(OWN, |profile| profile.look(hash));
    let make = |what: &str| {
        let text = format!("{what}\0{}\0{address}", hash.name());
        Hash::Sha512.mac(&context.secret, text.as_bytes())
    };
    let salt = make("salt").into_iter().cycle().take(look.salt).collect();
    let [stored, server] = ["stored", "server"].map(|what| hash.digest(&make(what)).into());
    Keys { salt, iterations: look.iterations, stored, server }
}

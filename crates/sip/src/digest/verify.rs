//! Verifies a digest response, in the same time and with the same answer for every kind of error.

use std::net::IpAddr;

use stdx::Instant;
use stdx::hash::Keyed;

use super::algorithm::{Ha1s, Hash, Hex, hash_hex};
use super::challenge::challenge_value;
use super::credentials::{Credentials, Qop};
use super::nonce::{NonceScope, NonceSettings, NonceUse, NonceVerdict, Nonces};
use crate::keys;

/// The algorithms and lifetimes of digest authentication.
#[derive(Clone, Debug)]
pub struct DigestSettings {
    /// Offered in this order (RFC 8760 §2.4: the client takes the first it knows), and nothing else is
    /// accepted. COMPAT(sipp 3.6): it looks at the first only and knows MD5 only. COMPAT(baresip 1.0): it gives
    /// up when any of them is not MD5.
    pub hashes: Vec<Hash>,
    /// The lifetime of nonces, and the number of them whose use is counted.
    pub nonces: NonceSettings,
    /// Refuse credentials whose `uri` is not the Request-URI. Off, for RFC 3261 §22.4 item 5 lets both
    /// differ, and SIPp and proxies on the way make them differ.
    pub same_uri: bool,
}

impl Default for DigestSettings {
    fn default() -> Self {
        DigestSettings {
            hashes: vec![Hash::Sha256, Hash::Sha512_256, Hash::Md5],
            nonces: NonceSettings::default(),
            same_uri: false,
        }
    }
}

/// The values that a response is verified with, besides the credentials.
#[derive(Clone, Copy, Debug)]
pub struct DigestRequest<'a> {
    /// The realm of the challenge, unquoted.
    pub realm: &'a str,
    /// The method as written in the request line: A2 begins with it (RFC 7616 §3.4.3).
    pub method: &'a [u8],
    /// The Request-URI as written; compared with `uri` only under [`DigestSettings::same_uri`].
    pub request_uri: &'a [u8],
    /// The request's Call-ID, to which the nonce is bound.
    pub call_id: &'a [u8],
    /// The address that the request came from.
    pub source: IpAddr,
    /// The number of the CSeq header.
    pub cseq: u32,
    /// The body, which `auth-int` protects.
    pub body: &'a [u8],
}

impl<'a> DigestRequest<'a> {
    /// `None` when the request lacks Call-ID or CSeq, which no checked request does.
    pub fn of(
        request: &'a crate::wire::Message,
        realm: &'a str,
        source: IpAddr,
    ) -> Option<DigestRequest<'a>> {
        Some(DigestRequest {
            realm,
            method: request.method_name(),
            request_uri: request.uri(),
            call_id: request.call_id()?,
            source,
            cseq: request.cseq()?.0,
            body: request.body(),
        })
    }

    fn scope(&self) -> NonceScope<'a> {
        NonceScope { realm: self.realm, call_id: self.call_id, source: self.source }
    }
}

/// Credentials whose nonce is genuine and has not been used with their count.
#[derive(Clone, Debug)]
pub struct InspectedCredentials {
    credentials: Credentials,
    nonce_use: NonceUse,
}

impl InspectedCredentials {
    /// The name of the account that the client claims to be.
    pub fn username(&self) -> &str {
        &self.credentials.username
    }
}

/// The result of verifying a digest response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The response fits the HA1, and its nonce is fresh.
    Accepted,
    /// Challenge again with `stale=true`: the client retries without asking its user.
    Stale,
    /// Wrong password, no such account, disabled, or an algorithm that was not offered: the answer does not tell which.
    Wrong,
}

/// One shard's challenger.
#[derive(Debug)]
pub struct Authenticator {
    settings: DigestSettings,
    nonces: Nonces,
    /// Makes up the verifiers of accounts that do not exist.
    made_up: Keyed,
}

impl Authenticator {
    /// `secret` is the endpoint's: the keys here are derived from it. `started`: when the process began;
    /// nonces from before are stale.
    pub fn new(secret: [u8; 32], settings: DigestSettings, started: Instant) -> Self {
        let nonces = Nonces::new(keys::derive(&secret, "nonces"), settings.nonces, started);
        let made_up = Keyed::new(keys::derive(&secret, "made-up verifiers"));
        Authenticator { settings, nonces, made_up }
    }

    /// Header values in the order they are to stand, one line each, all with the same fresh nonce.
    pub fn challenges(&mut self, now: Instant, scope: NonceScope<'_>, stale: bool) -> Vec<String> {
        let nonce = self.nonces.issue(now, scope);
        self.settings.hashes.iter().map(|&hash| challenge_value(hash, scope.realm, &nonce, stale)).collect()
    }

    /// The checks that do not need the account. `Ok` leads to [`verify`](Self::verify).
    pub fn inspect(
        &self,
        now: Instant,
        credentials: Credentials,
        question: DigestRequest<'_>,
    ) -> Result<InspectedCredentials, Verdict> {
        let is_offered = self.settings.hashes.contains(&credentials.algorithm.hash);
        let is_uri_right = !self.settings.same_uri || credentials.uri == question.request_uri;
        if !is_offered || !is_uri_right || credentials.realm != question.realm.as_bytes() {
            return Err(Verdict::Wrong);
        }
        let count = count_of(&credentials, &question);
        match self.nonces.check(now, &credentials.nonce, question.scope(), count) {
            NonceVerdict::Good(nonce_use) => Ok(InspectedCredentials { credentials, nonce_use }),
            // A forged nonce may be one from before a restart: its owner deserves a silent retry, and a
            // forger learns nothing by one.
            NonceVerdict::Stale | NonceVerdict::Forged | NonceVerdict::Replayed => Err(Verdict::Stale),
        }
    }

    /// `account` is `None` when there is none or it may not sign in; that costs the same time.
    pub fn verify(
        &mut self,
        now: Instant,
        inspected: &InspectedCredentials,
        question: DigestRequest<'_>,
        account: Option<&Ha1s>,
    ) -> Verdict {
        let InspectedCredentials { credentials, nonce_use } = inspected;
        let hash = credentials.algorithm.hash;
        let made_up = self.made_up(&credentials.username);
        let ha1 = account.map_or(&made_up[..hash.length()], |account| account.of(hash));
        let is_right = response_is_right(credentials, question, ha1);
        if !is_right || account.is_none() {
            return Verdict::Wrong;
        }
        if self.nonces.spend(now, *nonce_use) { Verdict::Accepted } else { Verdict::Stale }
    }

    /// Takes back the use of these credentials.
    pub fn give_back(&mut self, credentials: &Credentials, question: DigestRequest<'_>) {
        let count = count_of(credentials, &question);
        self.nonces.give_back(&credentials.nonce, question.scope(), count);
    }

    /// For the metrics: nonces whose counts are remembered.
    pub fn nonces_in_use(&self) -> usize {
        self.nonces.in_use()
    }

    /// A verifier without a password, the same for a name every time; the beginning of it for shorter hashes.
    fn made_up(&self, username: &str) -> [u8; 32] {
        let seed = self.made_up.mac(&[username.as_bytes()]).to_be_bytes();
        std::array::from_fn(|index| seed[index % 8] ^ index as u8)
    }
}

/// The count of a use. Without qop nothing in the response counts; CSeq, which must grow within a Call-ID, stands in. It may start at 0,
/// which no count does.
fn count_of(credentials: &Credentials, question: &DigestRequest<'_>) -> u32 {
    match credentials.qop {
        Qop::None => question.cseq.saturating_add(1),
        Qop::Auth | Qop::AuthInt => credentials.nonce_count().unwrap_or(0),
    }
}

/// RFC 7616 §3.4.1 to §3.4.3.
fn response_is_right(credentials: &Credentials, question: DigestRequest<'_>, ha1: &[u8]) -> bool {
    let hash = credentials.algorithm.hash;
    let (nonce, cnonce, nc) = (&*credentials.nonce, &*credentials.cnonce, &*credentials.nc);
    let mut ha1 = Hex::of(ha1);
    if credentials.algorithm.session {
        ha1 = hash_hex(hash, &[ha1.as_bytes(), nonce, cnonce]);
    }
    let (method, uri) = (question.method, &*credentials.uri);
    let ha2 = match credentials.qop {
        Qop::AuthInt => {
            let body = hash_hex(hash, &[question.body]);
            hash_hex(hash, &[method, uri, body.as_bytes()])
        }
        Qop::None | Qop::Auth => hash_hex(hash, &[method, uri]),
    };
    let (ha1, ha2) = (ha1.as_bytes(), ha2.as_bytes());
    let expected = match credentials.qop {
        Qop::None => hash_hex(hash, &[ha1, nonce, ha2]),
        Qop::Auth => hash_hex(hash, &[ha1, nonce, nc, cnonce, b"auth", ha2]),
        Qop::AuthInt => hash_hex(hash, &[ha1, nonce, nc, cnonce, b"auth-int", ha2]),
    };
    let mut received = [0; super::algorithm::HEX_MAX];
    let Some(received) = received.get_mut(..credentials.response.len()) else { return false };
    received.copy_from_slice(&credentials.response);
    // RFC 7616 §3.4: LHEX is lower case. COMPAT(phones): some write capitals.
    received.make_ascii_lowercase();
    stdx::ct_eq(expected.as_bytes(), received)
}

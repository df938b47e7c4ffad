//! JSON web tokens (RFC 7519) as compact JWS (RFC 7515), checked as RFC 8725 advises: the key decides the algorithm, and
//! issuer, audience and times are always checked.

use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};
use stdx::Instant;
use tokio::sync::{Mutex, Semaphore};
use tokio::task::spawn_blocking;

use crate::http::{cause, client};
use crate::keys::{self, Algorithm, VerifyingKey};
use crate::settings::{JwtSettings, KeySource};
use crate::token::{TokenUser, claim_at};
use crate::{SourceFailure, limits};

/// An issuer of tokens.
pub(crate) struct TokenSource {
    settings: JwtSettings,
    /// For keys at a URL.
    client: Option<reqwest::Client>,
    keys: RefCell<KeySet>,
    /// Held while keys are read, so that they are read once for all tokens that wait.
    reading: Mutex<()>,
    /// The place of the one reader of a file.
    file_reading: Arc<Semaphore>,
}

#[derive(Default)]
struct KeySet {
    keys: Rc<[VerifyingKey]>,
    /// The time at which they were read. `None`: never.
    read_at: Option<Instant>,
    /// The time of the last try.
    tried_at: Option<Instant>,
}

/// A token that is of the right form: its parts, and nothing of them verified.
struct Unverified<'a> {
    algorithm: Algorithm,
    key_id: Option<Box<str>>,
    message: &'a [u8],
    signature: Vec<u8>,
    claims: &'a str,
}

impl TokenSource {
    /// # Errors
    /// A file of authorities that cannot be used.
    pub(crate) fn new(settings: &JwtSettings) -> Result<TokenSource> {
        let client = match settings.keys {
            KeySource::Url(_) => Some(client(settings.authorities.as_deref())?),
            KeySource::File(_) => None,
        };
        let keys = RefCell::new(KeySet::default());
        let file_reading = Arc::new(Semaphore::new(1));
        Ok(TokenSource { settings: settings.clone(), client, keys, reading: Mutex::new(()), file_reading })
    }

    /// The user named by the token, at this domain. `None`: the token is not accepted.
    pub(crate) async fn check(
        &self,
        now: Instant,
        domain: &str,
        token: &str,
    ) -> Result<Option<TokenUser>, SourceFailure> {
        let Some(token) = read(token) else { return Ok(None) };
        let keys = self.keys_for(now, token.key_id.as_deref()).await?;
        let claims = verify(&token, &keys);
        Ok(claims.and_then(|claims| user_of(&self.settings, &self.settings.audience, (now, domain), &claims)))
    }

    /// The user named by an ID token of the provider, which was asked for with this nonce (OpenID Connect Core 1.0 §3.1.3.7). `None`: it is
    /// not accepted.
    pub(crate) async fn check_id_token(
        &self,
        now: Instant,
        domain: &str,
        (client, nonce): (&str, &str),
        token: &str,
    ) -> Result<Option<TokenUser>, SourceFailure> {
        let Some(token) = read(token) else { return Ok(None) };
        let keys = self.keys_for(now, token.key_id.as_deref()).await?;
        let claims = verify(&token, &keys).filter(|claims| is_asked_for(claims, client, nonce));
        Ok(claims.and_then(|claims| user_of(&self.settings, client, (now, domain), &claims)))
    }

    /// The keys, read again if they are old or the key is unknown; at most once in `limits::KEYS_AGAIN`.
    async fn keys_for(
        &self,
        now: Instant,
        key_id: Option<&str>,
    ) -> Result<Rc<[VerifyingKey]>, SourceFailure> {
        if self.is_stale(now, key_id) {
            let _one = self.reading.lock().await;
            // Another token may have caused it meanwhile.
            if self.is_stale(now, key_id) {
                self.keys.borrow_mut().tried_at = Some(now);
                match self.read_keys().await {
                    Ok(keys) => {
                        let mut known = self.keys.borrow_mut();
                        (known.keys, known.read_at) = (keys.into(), Some(now));
                    }
                    Err(failure) => tracing::warn!(%failure, "keys of tokens cannot be read"),
                }
            }
        }
        let known = self.keys.borrow();
        match known.read_at {
            Some(read_at) if now.since(read_at) < limits::KEYS_USABLE => Ok(Rc::clone(&known.keys)),
            _ => Err(self.failure("there are no keys to check tokens with")),
        }
    }

    fn is_stale(&self, now: Instant, key_id: Option<&str>) -> bool {
        let known = self.keys.borrow();
        if known.tried_at.is_some_and(|tried_at| now.since(tried_at) < limits::KEYS_AGAIN) {
            return false;
        }
        let is_known = |id: &str| known.keys.iter().any(|key| key.id() == Some(id));
        let is_old = known.read_at.is_none_or(|read_at| now.since(read_at) >= limits::KEYS_FRESH);
        is_old || key_id.is_some_and(|id| !is_known(id))
    }

    async fn read_keys(&self) -> Result<Vec<VerifyingKey>, SourceFailure> {
        let text = match (&self.settings.keys, &self.client) {
            (KeySource::Url(url), Some(client)) => self.fetch(client, url).await?,
            (KeySource::Url(_), None) => return Err(self.failure("no client of HTTP")),
            (KeySource::File(file), _) => self.read_file(file.clone()).await?,
        };
        keys::read(&text).map_err(|mistake| self.failure(&mistake))
    }

    /// Reads the file beside the thread of the sources: a file system of another machine may not answer. One at a time, also when the sign-in that
    /// has caused it is over.
    async fn read_file(&self, file: PathBuf) -> Result<Vec<u8>, SourceFailure> {
        let place = Arc::clone(&self.file_reading).try_acquire_owned();
        let place = place.map_err(|_| self.failure("they are still being read"))?;
        let read = spawn_blocking(move || {
            let text = std::fs::read(file);
            drop(place);
            text
        });
        match read.await {
            Ok(text) => text.map_err(|error| self.failure(&error.to_string())),
            Err(error) => Err(self.failure(&error.to_string())),
        }
    }

    async fn fetch(&self, client: &reqwest::Client, url: &str) -> Result<Vec<u8>, SourceFailure> {
        let unread = |error: reqwest::Error| self.failure(&cause(&error));
        let mut response = client.get(url).send().await.map_err(unread)?;
        if response.status() != reqwest::StatusCode::OK {
            return Err(self.failure(&format!("the status is {}", response.status())));
        }
        let mut text = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(unread)? {
            text.extend_from_slice(&chunk);
            if text.len() > limits::KEY_SET {
                return Err(self.failure(&format!("more than {} bytes", limits::KEY_SET)));
            }
        }
        Ok(text)
    }

    fn failure(&self, what: &str) -> SourceFailure {
        let keys = match &self.settings.keys {
            KeySource::File(file) => file.display().to_string(),
            KeySource::Url(url) => url.to_string(),
        };
        SourceFailure(format!("the keys of tokens at {keys}: {what}"))
    }
}

/// RFC 7515 §5.2, steps 1 to 7. `None`: no token that could be accepted.
fn read(token: &str) -> Option<Unverified<'_>> {
    let mut parts = token.split('.');
    let (header, claims, signature) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() || token.len() > limits::TOKEN {
        return None;
    }
    let header: Map<String, Value> = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(header).ok()?).ok()?;
    // RFC 7515 §4.1.11: extensions that are not understood make a token invalid. None is.
    if header.contains_key("crit") {
        return None;
    }
    let key_id = match header.get("kid") {
        None => None,
        Some(Value::String(id)) => Some(id.as_str().into()),
        Some(_) => return None,
    };
    Some(Unverified {
        algorithm: Algorithm::parse(header.get("alg")?.as_str()?)?,
        key_id,
        message: &token.as_bytes()[..token.len() - signature.len() - 1],
        signature: URL_SAFE_NO_PAD.decode(signature).ok()?,
        claims,
    })
}

/// The claims of a token that one of the keys has signed. A token that names a key is verified with keys of that name
/// only; a key is used for its own algorithm only.
fn verify(token: &Unverified<'_>, keys: &[VerifyingKey]) -> Option<Map<String, Value>> {
    let is_named = |key: &&VerifyingKey| token.key_id.is_none() || key.id() == token.key_id.as_deref();
    let fits = |key: &&VerifyingKey| key.algorithm() == token.algorithm;
    let mut keys = keys.iter().filter(is_named).filter(fits);
    if !keys.any(|key| key.verifies(token.message, &token.signature)) {
        return None;
    }
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(token.claims).ok()?).ok()
}

/// `iss` of a token, of which nothing is verified: it tells which source to ask.
pub(crate) fn claimed_issuer(token: &str) -> Option<Box<str>> {
    let claims = URL_SAFE_NO_PAD.decode(read(token)?.claims).ok()?;
    let claims: Map<String, Value> = serde_json::from_slice(&claims).ok()?;
    claims.get("iss")?.as_str().map(Box::from)
}

/// OpenID Connect Core 1.0 §3.1.3.7, steps 5 and 11: of several audiences the authorized party is this client, and the nonce is that of the request.
fn is_asked_for(claims: &Map<String, Value>, client: &str, nonce: &str) -> bool {
    let is_ours = |claim: &Value| claim.as_str() == Some(client);
    let is_shared = claims.get("aud").and_then(Value::as_array).is_some_and(|all| all.len() > 1);
    let is_for_client = claims.get("azp").map_or(!is_shared, is_ours);
    let given = claims.get("nonce").and_then(Value::as_str).unwrap_or_default();
    is_for_client && stdx::ct_eq(given.as_bytes(), nonce.as_bytes())
}

/// RFC 7519 §4.1. A claim of the wrong type is not an absent one: it is refused.
fn user_of(
    settings: &JwtSettings,
    audience: &str,
    (now, domain): (Instant, &str),
    claims: &Map<String, Value>,
) -> Option<TokenUser> {
    if claims.get("iss")?.as_str()? != &*settings.issuer {
        return None;
    }
    let is_for_us = match claims.get("aud")? {
        Value::String(one) => one == audience,
        Value::Array(all) => all.iter().any(|one| one.as_str() == Some(audience)),
        _ => false,
    };
    // Seconds may have a fraction (RFC 7519 §2: NumericDate).
    let (now, leeway) = (now.as_micros() as f64 / 1e6, settings.leeway.as_secs_f64());
    let end = claims.get("exp")?.as_f64()? + leeway;
    let is_over = now >= end;
    let is_begun = match claims.get("nbf") {
        None => true,
        Some(begin) => now + leeway >= begin.as_f64()?,
    };
    if !is_for_us || is_over || !is_begun {
        return None;
    }
    let name = claims.get(&*settings.user_claim)?.as_str()?;
    // A provider may name users by their addresses: of this domain only.
    let user = match name.rsplit_once('@') {
        Some((user, of)) if of.eq_ignore_ascii_case(domain) => user,
        Some(_) => return None,
        None => name,
    };
    if user.is_empty() || user.len() > limits::USER {
        return None;
    }
    // Behind all times that can be told: no end.
    let ends_at = Duration::try_from_secs_f64(end)
        .map_or(Instant::FAR_FUTURE, |since_epoch| Instant::default() + since_epoch);
    let role = settings.roles.as_ref().and_then(|roles| roles.role_of(claims));
    let account = settings.account_claim.as_ref().and_then(|claim| claim_at(claims, claim)?.as_str());
    Some(TokenUser { name: user.into(), role, account: account.map(Box::from), ends_at })
}

#[cfg(test)]
#[path = "jwt_tests.rs"]
mod tests;

//! Who calls, who registers: digest authentication of RFC 3261 §22 over [`crate::digest`].
//!
//! A request without credentials is challenged without a transaction where that is safe; one with them waits
//! for the account's verifiers. Wrong passwords, absent accounts and disabled ones look alike.

use stdx::Instant;
use stdx::slab::Key;

use super::receive::reply_target;
use super::{Account, Caller, Effect, Endpoint, Outbox, Stage};
use crate::digest::{Answer, NonceScope, Question, Verdict, find};
use crate::transport::{Source, Transmit};
use crate::wire::{Address, Header, Message, Method, Reply, Uri};

/// An address the request claims as its sender's.
pub(super) struct Claim {
    pub(super) user: Box<str>,
    /// One of our domains: the realm.
    pub(super) domain: Box<str>,
}

impl Endpoint {
    /// A REGISTER without credentials costs a nonce and nothing else (RFC 3261 §8.2.7, stateless UAS).
    pub(super) fn challenge_without_state(
        &mut self,
        now: Instant,
        request: &Message,
        source: &Source,
    ) -> Option<Transmit> {
        if request.method() != Method::Register || request.header(Header::Authorization).is_some() {
            return None;
        }
        let claim = self.claim(request)?;
        let tag = self.tag_of(request);
        let mut reply = Reply::new(request, source.remote, 401, "Unauthorized", Some(&tag));
        self.write_challenges(now, &mut reply, request, source, &claim.domain, false);
        Some(Transmit { target: reply_target(request, source), bytes: reply.finish(), report: None })
    }

    /// To of a REGISTER, From of anything else, when the domain is ours.
    pub(super) fn claim(&self, request: &Message) -> Option<Claim> {
        let is_register = request.method() == Method::Register;
        let address: Address<'_> = if is_register { request.to()? } else { request.from()? };
        let uri = address.parsed_uri().ok()?;
        let user: Box<str> = uri.user_decoded()?.into();
        let host = uri.host_lower();
        if self.settings.serves(&host) {
            return Some(Claim { user, domain: host.into() });
        }
        // A phone that was told only our address registers in the first domain.
        let default = self.settings.domains.first().filter(|_| is_register && self.is_us(&uri))?;
        Some(Claim { user, domain: default.clone() })
    }

    /// The plan says that this caller must prove who it is.
    pub(super) fn authenticate(&mut self, now: Instant, key: Key, own_routes: usize, out: &mut Outbox) {
        let Some(context) = self.contexts.get(key) else { return };
        let Some(claim) = self.claim(&context.request) else {
            return self.finish(now, key, 403, "Forbidden", out);
        };
        let (header, _) = headers(&context.request);
        if self.is_penalised(now, key) {
            return self.finish(now, key, 403, "Forbidden", out);
        }
        match find(&context.request, header, &claim.domain) {
            None
            | Some(Err(
                crate::digest::CredentialsError::NotDigest | crate::digest::CredentialsError::NotOffered,
            )) => {
                self.challenge(now, key, &claim.domain, false, out);
            }
            Some(Err(crate::digest::CredentialsError::Malformed)) => {
                self.finish(now, key, 400, "Bad Credentials", out);
            }
            Some(Ok(credentials)) => {
                let verdict = Question::of(&context.request, &claim.domain, context.source.remote.ip())
                    .map_or(Err(Verdict::Wrong), |question| {
                        self.authenticator.inspect(now, &credentials, question)
                    });
                match verdict {
                    Ok(()) => {
                        self.set_stage(key, Stage::Authenticating { own_routes });
                        let Claim { user, domain } = claim;
                        out.push(Effect::Account { id: Self::ask_id(key), user, domain });
                    }
                    Err(verdict) => self.refuse(now, key, &claim.domain, verdict, out),
                }
            }
        }
    }

    /// The account is there, or is not. Both take the same time.
    pub(super) fn verify(
        &mut self,
        now: Instant,
        key: Key,
        own_routes: usize,
        account: Option<Account>,
        out: &mut Outbox,
    ) {
        let Some(context) = self.contexts.get(key) else { return };
        let Some(claim) = self.claim(&context.request) else { return };
        let (header, _) = headers(&context.request);
        let Some(Ok(credentials)) = find(&context.request, header, &claim.domain) else { return };
        let source = context.source.remote.ip();
        let Some(question) = Question::of(&context.request, &claim.domain, source) else { return };
        let matching =
            account.filter(|account| !account.disabled && is_name_of(&credentials.username, &account.aor));
        let ha1s = matching.as_ref().map(|account| &account.ha1s);
        match self.authenticator.verify(now, &credentials, question, ha1s) {
            Verdict::Accepted => {
                let Some(account) = matching else { return };
                self.limiter.succeed(context.source.remote.ip());
                self.accepted(now, key, own_routes, account, out);
            }
            verdict => self.refuse(now, key, &claim.domain, verdict, out),
        }
    }

    fn accepted(&mut self, now: Instant, key: Key, own_routes: usize, account: Account, out: &mut Outbox) {
        let Some(context) = self.contexts.get(key) else { return };
        if context.request.method() == Method::Register {
            return self.register(now, key, account, out);
        }
        self.set_stage(key, Stage::Planning { own_routes });
        self.plan(key, Caller::Account(account.aor), out);
    }

    fn refuse(&mut self, now: Instant, key: Key, realm: &str, verdict: Verdict, out: &mut Outbox) {
        let Some(context) = self.contexts.get(key) else { return };
        let remote = context.source.remote;
        if verdict == Verdict::Wrong {
            self.counters.authentication_failures += 1;
            self.limiter.fail(now, remote.ip());
            out.push(Effect::AuthenticationFailed { source: remote });
        }
        match verdict.answer(self.is_penalised(now, key)) {
            Some(Answer::Challenge { stale }) => self.challenge(now, key, realm, stale, out),
            Some(Answer::Forbid) | None => self.finish(now, key, 403, "Forbidden", out),
        }
    }

    /// Whether the source has been wrong so often that it must wait.
    fn is_penalised(&self, now: Instant, key: Key) -> bool {
        let source = self.contexts.get(key).map(|context| context.source.remote.ip());
        source.is_some_and(|source| !self.limiter.penalty(now, source).is_pass())
    }

    fn challenge(&mut self, now: Instant, key: Key, realm: &str, stale: bool, out: &mut Outbox) {
        self.counters.challenged += 1;
        let Some(context) = self.contexts.get(key) else { return };
        let request = context.request.clone();
        let (status, reason) = match headers(&request) {
            (Header::Authorization, _) => (401, "Unauthorized"),
            _ => (407, "Proxy Authentication Required"),
        };
        let tag = self.tag_of(&request);
        let (server, source) = (context.server, context.source);
        let mut reply = Reply::new(&request, source.remote, status, reason, Some(&tag));
        self.write_challenges(now, &mut reply, &request, &source, realm, stale);
        self.respond(now, server, status, reply.finish(), out);
        self.close(key);
    }

    fn write_challenges(
        &mut self,
        now: Instant,
        reply: &mut Reply,
        request: &Message,
        source: &Source,
        realm: &str,
        stale: bool,
    ) {
        let (_, name) = headers(request);
        let call_id = request.call_id().unwrap_or_default();
        let scope = NonceScope { realm, call_id, source: source.remote.ip() };
        for value in self.authenticator.challenges(now, scope, stale) {
            reply.header(name.as_str(), value.as_bytes());
        }
    }
}

/// Where credentials stand and where the challenge goes: a registrar is a UAS, a proxy is a proxy (§22.2, §22.3).
fn headers(request: &Message) -> (Header, Header) {
    match request.method() {
        Method::Register | Method::Subscribe | Method::Publish => {
            (Header::Authorization, Header::WwwAuthenticate)
        }
        _ => (Header::ProxyAuthorization, Header::ProxyAuthenticate),
    }
}

/// Phones put `alice` or `alice@example.com` into `username`; the verifiers are of the first.
fn is_name_of(username: &str, aor: &str) -> bool {
    let (user, _) = aor.rsplit_once('@').unwrap_or((aor, ""));
    username == user
}

/// The Request-URI's domain must be ours (RFC 3261 §10.3 step 1).
pub(super) fn is_for_us(endpoint: &Endpoint, request: &Message) -> bool {
    let Ok(uri) = Uri::parse(request.uri()) else { return false };
    endpoint.is_us(&uri) || endpoint.settings.serves(&uri.host_lower())
}

//! Who calls, who registers: digest authentication of RFC 3261 §22 over [`crate::digest`].
//!
//! A request without credentials is challenged without a transaction where that is safe; one with them waits
//! for the account's verifiers. Wrong passwords, absent accounts and disabled ones look alike.

use std::time::Duration;

use stdx::Instant;
use stdx::attempts::{Attempt, Block, Cause, Subject, retry_after, without_port};
use stdx::slab::Key;

use super::{Account, Context, Credit, Effect, Endpoint, Outbox, Stage};
use crate::digest::{NonceScope, Question, Verdict, find};
use crate::transport::{Source, Transport};
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
    ) -> Option<bytes::Bytes> {
        if request.method() != Method::Register {
            return None;
        }
        self.challenge_alone(now, request, source)
    }

    /// The challenge of a request that claims to be of ours and brings no credentials.
    pub(super) fn challenge_alone(
        &mut self,
        now: Instant,
        request: &Message,
        source: &Source,
    ) -> Option<bytes::Bytes> {
        if request.header(headers(request).0).is_some() {
            return None;
        }
        let claim = self.claim(request)?;
        let is_proved = request.top_via().is_some_and(|via| self.is_proved(now, source, &via));
        let credit = (!is_proved).then(|| Credit::new(request.bytes().len()));
        let challenge = Challenge { realm: &claim.domain, stale: false, room: credit.map(Credit::left) };
        Some(self.challenge_response(now, request, source, &challenge))
    }

    /// Whether the request shows a nonce that only its source was told.
    pub(super) fn has_genuine_nonce(&self, now: Instant, request: &Message, source: &Source) -> bool {
        let Some(claim) = self.claim(request) else { return false };
        let Some(Ok(credentials)) = find(request, headers(request).0, &claim.domain) else { return false };
        Question::of(request, &claim.domain, source.remote.ip())
            .is_some_and(|question| self.authenticator.inspect(now, &credentials, question).is_ok())
    }

    /// To of a REGISTER, From of anything else, when the domain is ours.
    pub(super) fn claim(&self, request: &Message) -> Option<Claim> {
        let is_register = request.method() == Method::Register;
        let address: Address<'_> = if is_register { request.to()? } else { request.from()? };
        let uri = address.parsed_uri().ok()?;
        let user: Box<str> = uri.user_decoded()?.into();
        let host = uri.host_lower();
        if let Some(domain) = self.settings.served(&host) {
            return Some(Claim { user, domain: domain.into() });
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
                    Ok(()) => self.look_at_credentials(now, key, own_routes, claim, out),
                    // Without a nonce that is bound to the source nothing is counted: the source may be forged.
                    Err(verdict) => {
                        self.challenge(now, key, &claim.domain, verdict == Verdict::Stale, out);
                    }
                }
            }
        }
    }

    /// The nonce is genuine: the credentials are looked at, unless there were too many wrong ones before.
    fn look_at_credentials(
        &mut self,
        now: Instant,
        key: Key,
        own_routes: usize,
        claim: Claim,
        out: &mut Outbox,
    ) {
        self.prove_by_nonce(now, key, out);
        let Some(context) = self.contexts.get(key) else { return };
        if let Some(wait) = self.attempts.wait(now, &attempt_of(context, &claim)) {
            out.push(failed(context, &claim, Cause::TooManyAttempts));
            return self.finish_paced(now, key, wait, out);
        }
        self.set_stage(key, Stage::Authenticating { own_routes });
        let Claim { user, domain } = claim;
        out.push(Effect::Account { id: Self::ask_id(key), user, domain });
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
        let cause = if matching.is_some() { Cause::WrongPassword } else { Cause::UnknownAccount };
        let ha1s = matching.as_ref().map(|account| &account.ha1s);
        match self.authenticator.verify(now, &credentials, question, ha1s) {
            Verdict::Accepted => {
                let Some(account) = matching else { return };
                self.attempts.succeed(now, &attempt_of(context, &claim));
                self.accepted(now, key, own_routes, account, out);
            }
            verdict => self.refuse(now, key, &claim, (verdict, cause), out),
        }
    }

    fn accepted(&mut self, now: Instant, key: Key, own_routes: usize, account: Account, out: &mut Outbox) {
        let Some(context) = self.contexts.get(key) else { return };
        if context.request.method() == Method::Register {
            return self.register(now, key, account, out);
        }
        self.plan_for(now, key, (account.aor, account.limits), own_routes, out);
    }

    fn refuse(
        &mut self,
        now: Instant,
        key: Key,
        claim: &Claim,
        (verdict, cause): (Verdict, Cause),
        out: &mut Outbox,
    ) {
        let Some(context) = self.contexts.get(key) else { return };
        if verdict == Verdict::Wrong {
            self.counters.authentication_failures += 1;
            self.attempts.fail(now, &attempt_of(context, claim));
            out.push(failed(context, claim, cause));
        }
        self.challenge(now, key, &claim.domain, verdict == Verdict::Stale, out);
    }

    /// Sources and accounts whose attempts are paced.
    pub fn blocks(&self, now: Instant) -> Vec<Block> {
        self.attempts.blocks(now)
    }

    /// Forgets the failures of a source or for an account. The blocks that were in force.
    pub fn lift_block(&mut self, now: Instant, subject: &Subject) -> usize {
        self.attempts.lift(now, subject)
    }

    /// There were too many wrong passwords before: these credentials are not looked at.
    fn finish_paced(&mut self, now: Instant, key: Key, wait: Duration, out: &mut Outbox) {
        self.counters.authentication_paced += 1;
        let seconds = retry_after(wait).to_string();
        let retry = |reply: &mut Reply| {
            reply.header("Retry-After", seconds.as_bytes());
        };
        self.finish_with(now, key, 503, "Service Unavailable", retry, out);
    }

    /// The nonce is bound to the source: it was received there.
    fn prove_by_nonce(&mut self, now: Instant, key: Key, out: &mut Outbox) {
        let Some(context) = self.contexts.get(key) else { return };
        let Some(transaction) = self.table.get(context.server) else { return };
        if context.source.transport == Transport::Udp {
            let address = transaction.target.remote;
            // A phone that refreshes has mostly proved itself before.
            self.note_receipt(now, address, out);
        }
    }

    fn challenge(&mut self, now: Instant, key: Key, realm: &str, stale: bool, out: &mut Outbox) {
        self.counters.challenged += 1;
        let Some(context) = self.contexts.get(key) else { return };
        let (request, source) = (context.request.clone(), context.source);
        let credit = self.table.get(context.server).and_then(|transaction| transaction.credit);
        let challenge = Challenge { realm, stale, room: credit.map(Credit::left) };
        let response = self.challenge_response(now, &request, &source, &challenge);
        let (status, _) = challenge_status(&request);
        self.refuse_or_answer(now, key, status, response, out);
    }

    /// 401 or 407, with as many of the algorithms as there is room for.
    fn challenge_response(
        &mut self,
        now: Instant,
        request: &Message,
        source: &Source,
        challenge: &Challenge<'_>,
    ) -> bytes::Bytes {
        let (_, name) = headers(request);
        let (status, reason) = challenge_status(request);
        let tag = self.tag_of(request, source);
        let mut reply = Reply::new(request, source.remote, status, reason, Some(&tag));
        let call_id = request.call_id().unwrap_or_default();
        let scope = NonceScope { realm: challenge.realm, call_id, source: source.remote.ip() };
        let values = self.authenticator.challenges(now, scope, challenge.stale);
        let length = |value: &String| name.as_str().len() + b": \r\n".len() + value.len();
        let mut excess = match challenge.room {
            Some(room) => {
                let all: usize = values.iter().map(length).sum();
                (reply.len() + all + LAST_LINES).saturating_sub(room)
            }
            None => 0,
        };
        // The strongest is offered first, the one that every phone knows last (RFC 8760 §2.4): what is left out stands
        // between the two, then before the last.
        let last = values.len().saturating_sub(1);
        let mut left_out = vec![false; values.len()];
        for index in (1..last).rev().chain((last > 0).then_some(0)) {
            if excess > 0 {
                left_out[index] = true;
                excess = excess.saturating_sub(length(&values[index]));
            }
        }
        for (value, _) in values.iter().zip(left_out).filter(|(_, left_out)| !left_out) {
            reply.header(name.as_str(), value.as_bytes());
        }
        reply.finish()
    }
}

fn failed(context: &Context, claim: &Claim, cause: Cause) -> Effect {
    let (user, domain) = (claim.user.clone(), claim.domain.clone());
    Effect::AuthenticationFailed { source: context.source, user, domain, cause }
}

/// A connection's port is another each time; a phone's UDP port stays.
fn attempt_of<'a>(context: &Context, claim: &'a Claim) -> Attempt<'a> {
    let remote = context.source.remote;
    let is_udp = context.source.transport == Transport::Udp;
    let source = if is_udp { remote } else { without_port(remote.ip()) };
    Attempt { source, user: &claim.user, domain: &claim.domain }
}

/// `Content-Length: 0` and the empty line.
const LAST_LINES: usize = 21;

/// What a challenge says, and how long the response with it may be.
struct Challenge<'a> {
    realm: &'a str,
    stale: bool,
    room: Option<usize>,
}

fn challenge_status(request: &Message) -> (u16, &'static str) {
    match headers(request) {
        (Header::Authorization, _) => (401, "Unauthorized"),
        _ => (407, "Proxy Authentication Required"),
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

//! Authentication of callers and registering clients: digest of RFC 3261 §22 over [`crate::digest`].
//!
//! A request without credentials is challenged without a transaction where that is safe; one with them waits
//! for the account's verifiers. Wrong passwords, absent accounts and disabled ones look alike.

use std::time::Duration;

use stdx::Instant;
use stdx::attempts::{Attempt, Attempts, Block, Cause, Subject, retry_after, without_port};
use stdx::slab::Key;

use super::context::{RequestContext, RequestStage};
use super::environment::{ClaimedSender, Environment, is_unclaimed_anonymous_call};
use super::lower::{LowerView, ask_id};
use super::transactions::SourceCredit;
use super::{Account, Caller, EndpointEffect};
use crate::digest::{
    Authenticator, CredentialsError, DigestRequest, InspectedCredentials, NonceScope, Verdict, find,
};
use crate::transport::{Source, Transport};
use crate::wire::{Header, Message, Method, Reply};

/// Digest authentication of senders, and the pace of their passwords.
pub(crate) struct Authentication {
    authenticator: Authenticator,
    attempts: Attempts,
}

impl Authentication {
    pub(crate) fn new(authenticator: Authenticator, attempts: Attempts) -> Self {
        Authentication { authenticator, attempts }
    }

    /// A REGISTER without credentials costs a nonce and nothing else (RFC 3261 §8.2.7, stateless UAS).
    pub(crate) fn challenge_without_state(
        &mut self,
        lower: &mut LowerView<'_>,
        request: &Message,
        source: &Source,
    ) -> Option<bytes::Bytes> {
        if request.method() != Method::Register {
            return None;
        }
        self.challenge_alone(lower, request, source)
    }

    /// The challenge of a request that claims to be of ours and brings no credentials.
    pub(crate) fn challenge_alone(
        &mut self,
        lower: &mut LowerView<'_>,
        request: &Message,
        source: &Source,
    ) -> Option<bytes::Bytes> {
        if request.header(headers(request).0).is_some() {
            return None;
        }
        let claim = lower.env.claim(request)?;
        let is_proved =
            request.top_via().is_some_and(|via| lower.transactions.is_proved(lower.now, source, &via));
        let credit = (!is_proved).then(|| SourceCredit::new(request.bytes().len()));
        let challenge =
            Challenge { realm: &claim.domain, stale: false, room: credit.map(SourceCredit::left) };
        Some(self.challenge_response(lower, request, source, &challenge))
    }

    /// True if a new request is looked at: those of unproved networks are paced (`docs/decisions/0020`), and a nonce that
    /// only its source was told proves the source as well.
    pub(crate) fn admits(&self, lower: &mut LowerView<'_>, request: &Message, source: &Source) -> bool {
        let Some(via) = request.top_via() else { return false };
        lower.transactions.is_proved(lower.now, source, &via)
            || lower.transactions.proofs.admits(lower.now, source.remote.ip())
            || self.has_genuine_nonce(lower.env, lower.now, request, source)
    }

    /// True if the request shows a nonce that only its source was told.
    fn has_genuine_nonce(&self, env: &Environment, now: Instant, request: &Message, source: &Source) -> bool {
        let Some(claim) = env.claim(request) else { return false };
        let Some(Ok(credentials)) = find(request, headers(request).0, &claim.domain) else { return false };
        DigestRequest::of(request, &claim.domain, source.remote.ip())
            .is_some_and(|question| self.authenticator.inspect(now, credentials, question).is_ok())
    }

    /// The plan says that this caller must authenticate.
    pub(crate) fn authenticate(&mut self, lower: &mut LowerView<'_>, key: Key, own_routes: usize) {
        let Some(context) = lower.contexts.get(key) else { return };
        let Some(claim) = lower.env.claim(&context.request) else {
            return lower.finish(key, 403, "Forbidden");
        };
        self.authenticate_claim(lower, key, own_routes, claim);
    }

    /// Asks an anonymous caller for an account, where a stranger has no way to the destination: an account may have one. It tells of
    /// itself by its credentials then (RFC 3261 §22.3). Not a trunk's caller, who has no account here.
    pub(crate) fn challenge_anonymous(&mut self, lower: &mut LowerView<'_>, key: Key) -> bool {
        let Some(context) = lower.contexts.get(key) else { return false };
        let is_asked = !matches!(context.caller, Some(Caller::Account(_)))
            && context.request.to_tag().is_none()
            && is_unclaimed_anonymous_call(lower.env, &context.request)
            && !lower.env.trust().is_of_trunk(&context.source);
        let realm = lower.env.settings.domains.first().filter(|_| is_asked).cloned();
        let Some(realm) = realm else { return false };
        lower.release(key);
        self.challenge(lower, key, &realm, false);
        true
    }

    /// As [`authenticate`](Self::authenticate), where the claim is known.
    pub(crate) fn authenticate_claim(
        &mut self,
        lower: &mut LowerView<'_>,
        key: Key,
        own_routes: usize,
        claim: ClaimedSender,
    ) {
        let Some(context) = lower.contexts.get(key) else { return };
        let (header, _) = headers(&context.request);
        match find(&context.request, header, &claim.domain) {
            None | Some(Err(CredentialsError::NotDigest | CredentialsError::NotOffered)) => {
                self.challenge(lower, key, &claim.domain, false);
            }
            Some(Err(CredentialsError::Malformed)) => lower.finish(key, 400, "Bad Credentials"),
            Some(Ok(credentials)) => {
                let inspected =
                    DigestRequest::of(&context.request, &claim.domain, context.source.remote.ip())
                        .ok_or(Verdict::Wrong)
                        .and_then(|question| self.authenticator.inspect(lower.now, credentials, question));
                match inspected {
                    Ok(credentials) => self.look_at_credentials(lower, key, own_routes, claim, credentials),
                    // Without a nonce that is bound to the source nothing is counted: the source may be forged.
                    Err(verdict) => {
                        self.challenge(lower, key, &claim.domain, verdict == Verdict::Stale);
                    }
                }
            }
        }
    }

    /// The nonce is genuine: the credentials are looked at, unless there were too many wrong ones before.
    fn look_at_credentials(
        &mut self,
        lower: &mut LowerView<'_>,
        key: Key,
        own_routes: usize,
        claim: ClaimedSender,
        credentials: InspectedCredentials,
    ) {
        self.prove_by_nonce(lower, key);
        let Some(context) = lower.contexts.get(key) else { return };
        if let Some(wait) = self.attempts.wait(lower.now, &attempt_of(context, &claim)) {
            lower.out.push(failed(context, &claim, Cause::TooManyAttempts));
            return self.finish_paced(lower, key, wait);
        }
        let ClaimedSender { user, domain } = claim.clone();
        let credentials = Box::new(credentials);
        lower.set_stage(key, RequestStage::Authenticating { own_routes, claim, credentials });
        lower.out.push(EndpointEffect::Account { id: ask_id(key), user, domain });
    }

    /// The account is there, or is not. Both take the same time.
    pub(crate) fn verify(
        &mut self,
        lower: &mut LowerView<'_>,
        key: Key,
        account: Option<Account>,
    ) -> Option<Account> {
        let context = lower.contexts.get(key)?;
        let RequestStage::Authenticating { claim, credentials, .. } = &context.stage else { return None };
        let source = context.source.remote.ip();
        let question = DigestRequest::of(&context.request, &claim.domain, source)?;
        let matching =
            account.filter(|account| !account.disabled && is_name_of(credentials.username(), &account.aor));
        let cause = if matching.is_some() { Cause::WrongPassword } else { Cause::UnknownAccount };
        let ha1s = matching.as_ref().map(|account| &account.ha1s);
        match self.authenticator.verify(lower.now, credentials, question, ha1s) {
            Verdict::Accepted => {
                let account = matching?;
                self.attempts.succeed(lower.now, &attempt_of(context, claim));
                Some(account)
            }
            verdict => {
                let claim = claim.clone();
                self.refuse(lower, key, &claim, (verdict, cause));
                None
            }
        }
    }

    fn refuse(
        &mut self,
        lower: &mut LowerView<'_>,
        key: Key,
        claim: &ClaimedSender,
        (verdict, cause): (Verdict, Cause),
    ) {
        let Some(context) = lower.contexts.get(key) else { return };
        if verdict == Verdict::Wrong {
            lower.counters.authentication_failures += 1;
            self.attempts.fail(lower.now, &attempt_of(context, claim));
            lower.out.push(failed(context, claim, cause));
        }
        self.challenge(lower, key, &claim.domain, verdict == Verdict::Stale);
    }

    /// A request whose credentials were right goes to another worker, and may come back: they are as unused as before.
    pub(crate) fn give_back(&mut self, env: &Environment, context: &RequestContext) {
        let RequestContext { request, source, caller: Some(Caller::Account(_)), .. } = context else {
            return;
        };
        let Some(claim) = env.claim(request) else { return };
        let Some(Ok(credentials)) = find(request, headers(request).0, &claim.domain) else { return };
        if let Some(question) = DigestRequest::of(request, &claim.domain, source.remote.ip()) {
            self.authenticator.give_back(&credentials, question);
        }
    }

    /// Sources and accounts whose attempts are paced.
    pub(crate) fn blocks(&self, now: Instant) -> Vec<Block> {
        self.attempts.blocks(now)
    }

    /// Forgets the failures of a source or for an account. The blocks that were in force.
    pub(crate) fn lift_block(&mut self, now: Instant, subject: &Subject) -> usize {
        self.attempts.lift(now, subject)
    }

    /// There were too many wrong passwords before: these credentials are not looked at.
    fn finish_paced(&mut self, lower: &mut LowerView<'_>, key: Key, wait: Duration) {
        lower.counters.authentication_paced += 1;
        let seconds = retry_after(wait).to_string();
        let retry = |reply: &mut Reply| {
            reply.header("Retry-After", seconds.as_bytes());
        };
        lower.finish_with(key, 503, "Service Unavailable", retry);
    }

    /// The nonce is bound to the source: it was received there.
    fn prove_by_nonce(&mut self, lower: &mut LowerView<'_>, key: Key) {
        let Some(context) = lower.contexts.get(key) else { return };
        let Some(transaction) = lower.transactions.table.get(context.server) else { return };
        if context.source.transport == Transport::Udp {
            let address = transaction.target().remote;
            // A phone that refreshes has mostly proved itself before.
            lower.transactions.note_receipt(lower.now, address);
        }
    }

    fn challenge(&mut self, lower: &mut LowerView<'_>, key: Key, realm: &str, stale: bool) {
        lower.counters.challenged += 1;
        let Some(context) = lower.contexts.get(key) else { return };
        let (request, source) = (context.request.clone(), context.source);
        let transaction = lower.transactions.table.get(context.server);
        let room =
            transaction.and_then(|transaction| transaction.credit.as_ref()).map(|credit| credit.left());
        let challenge = Challenge { realm, stale, room };
        let response = self.challenge_response(lower, &request, &source, &challenge);
        let (status, _) = challenge_status(&request);
        lower.refuse_or_answer(key, status, response);
    }

    /// 401 or 407, with as many of the algorithms as there is room for.
    fn challenge_response(
        &mut self,
        lower: &mut LowerView<'_>,
        request: &Message,
        source: &Source,
        challenge: &Challenge<'_>,
    ) -> bytes::Bytes {
        let (_, name) = headers(request);
        let (status, reason) = challenge_status(request);
        let tag = lower.env.tag_of(request, source);
        let mut reply = Reply::new(request, source.remote, status, reason, Some(&tag));
        let call_id = request.call_id().unwrap_or_default();
        let scope = NonceScope { realm: challenge.realm, call_id, source: source.remote.ip() };
        let values = self.authenticator.challenges(lower.now, scope, challenge.stale);
        let length = |value: &String| name.as_str().len() + b": \r\n".len() + value.len();
        let mut excess = match challenge.room {
            Some(room) => {
                let all: usize = values.iter().map(length).sum();
                (reply.len() + all + LAST_LINES).saturating_sub(room)
            }
            None => 0,
        };
        // The strongest is offered first, the one that every phone knows last (RFC 8760 §2.4): omitted ones
        // stand between the two, then before the last.
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

fn failed(context: &RequestContext, claim: &ClaimedSender, cause: Cause) -> EndpointEffect {
    let (user, domain) = (claim.user.clone(), claim.domain.clone());
    EndpointEffect::AuthenticationFailed { source: context.source, user, domain, cause }
}

/// A connection's port is another each time; a phone's UDP port stays.
fn attempt_of<'a>(context: &RequestContext, claim: &'a ClaimedSender) -> Attempt<'a> {
    let remote = context.source.remote;
    let is_udp = context.source.transport == Transport::Udp;
    let source = if is_udp { remote } else { without_port(remote.ip()) };
    Attempt { source, user: &claim.user, domain: &claim.domain }
}

/// `Content-Length: 0` and the empty line.
const LAST_LINES: usize = 21;

/// The contents of a challenge, and the longest response that may carry it.
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

//! Signs clients in and makes their accounts: the requests of a shard's streams of the store, and the answers to the
//! streams. Passwords and keys are here, tokens in `tokens`, other sources in `external`, accounts in `registration`.
//!
//! A sign-in by password: `find` (paced guesses are refused unseen) → `XmppEffect::Account` → `handle_account` → `sign_in`, which checks the
//! credential here if that is cheap, and otherwise beside the shard (`XmppEffect::Prove` → `handle_written` → `proved`) → the stream asks for a
//! session → `handle_signed_in`.

use std::net::IpAddr;
use std::sync::Arc;

use cluster::Bucket;
use external_auth::{Credential, Hidden};
use stdx::Instant;
use stdx::attempts::OpenAttempt;
use store::access::AccessLoaded;
use store::{Account, Address, StoreError, WriteDone};
use xmpp::c2s::{C2s, FailedAttempt, NewToken, Outbox, Registration, TokenWork};
use xmpp::sasl::{CredentialAnswer, CredentialQuery, Hash, Secret};
use xmpp::{Bare, Jid};
use xmpp_io::streams::http::invitation::InvitationQuery;
use xmpp_io::streams::{C2sEvent, Streams};

use super::super::pending::{Asker, PendingRequests};
use super::super::{Unavailable, XmppEffect, sign_in};
use super::external::{ExternalSignIn, VerdictCounts};
use super::registration::NewContacts;
use super::{Access, Claim, TokenKey};

/// A stream's request under way.
#[derive(Debug)]
pub(in crate::xmpp) enum ClientRequest {
    /// Reads the account of a name for its credentials.
    SignIn { stream: u64, find: CredentialQuery, domain: Box<str> },
    /// Keys of SCRAM that are made after a sign-in by password; the stream does not wait for them.
    Keys { address: Box<str> },
    /// A password of an account that came with keys of SCRAM only.
    Proving {
        stream: u64,
        account: Box<Address>,
        /// If not, the client is told the same.
        is_there: bool,
        /// Until the outcome counts.
        open: OpenAttempt,
    },
    /// The tokens of a client of that account.
    Tokens { stream: u64, name: Box<str>, key: TokenKey, agent: Box<str> },
    /// The account whose tokens are to be changed.
    TokenWork { stream: u64, work: Box<TokenWork> },
    /// Tokens are written at the end of a sign-in, which waits for it.
    TokensWritten { stream: u64, new: Option<NewToken>, was_used: bool },
    /// An invitation that a client has named before it registers.
    Invited { stream: u64, domain: Box<str> },
    /// The page of an invitation.
    InvitationPage(Box<InvitationQuery>),
    /// A sign-in by a source outside the database.
    External(Box<ExternalSignIn>),
    /// First the account of the name, which must not exist, then the invitation or the reservation of the name is read.
    Registering { stream: u64, registration: Box<Registration> },
    /// The account is being made.
    Registered { stream: u64, user: Bare, inviter: Option<Box<str>> },
}

/// Counters since the start of the shard.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::xmpp) struct ClientAccessCounts {
    pub(in crate::xmpp) sign_ins: u64,
    pub(in crate::xmpp) sign_in_failures: u64,
    /// Accounts that people made for themselves.
    pub(in crate::xmpp) registrations: u64,
    /// Verdicts of sources outside the database.
    pub(in crate::xmpp) verdicts: VerdictCounts,
}

/// The streams of the shard, and the effects for it.
pub(in crate::xmpp) struct AccessContext<'a> {
    pub(in crate::xmpp) now: Instant,
    pub(in crate::xmpp) streams: &'a mut Streams,
    pub(in crate::xmpp) outbox: &'a mut Vec<XmppEffect>,
}

impl AccessContext<'_> {
    pub(super) fn tell(&mut self, stream: u64, act: impl FnOnce(&mut C2s, &mut Outbox)) {
        self.streams.tell(stream, act);
    }
}

/// Authentication and registration of the clients whose streams the shard has.
pub(in crate::xmpp) struct ClientAccess {
    pub(super) access: Arc<Access>,
    pub(super) pending: PendingRequests<ClientRequest>,
    pub(super) counts: ClientAccessCounts,
}

impl ClientAccess {
    pub(in crate::xmpp) fn new(access: Arc<Access>) -> ClientAccess {
        let pending = PendingRequests::new(Asker::Clients);
        ClientAccess { access, pending, counts: ClientAccessCounts::default() }
    }

    pub(in crate::xmpp) fn counts(&self) -> ClientAccessCounts {
        self.counts
    }

    /// The settings and attempts of all shards.
    pub(in crate::xmpp) fn access(&self) -> &Access {
        &self.access
    }

    /// A stream asks for an account's credentials.
    pub(in crate::xmpp) fn find(
        &mut self,
        cx: &mut AccessContext<'_>,
        stream: u64,
        find: CredentialQuery,
        domain: Box<str>,
    ) {
        let Some(known) = cx.streams.get(stream) else { return };
        if let CredentialQuery::Proof { user } = &find {
            return self.prove(cx, stream, &Claim::new(known.peer(), user, &domain));
        }
        // The latency of the last attempt counts.
        known.begin_sign_in(cx.now);
        // Credentials of a client that guesses are not looked at, right or wrong.
        if self.access.wait(cx.now, &Claim::new(known.peer(), find.user(), &domain)).is_some() {
            return cx.tell(stream, |c2s, out| c2s.handle_found(CredentialAnswer::Unavailable, out));
        }
        if let (CredentialQuery::Bearer { token, .. }, true) =
            (&find, self.access.source_of(&domain).is_some())
        {
            // The token names the user, and cannot be guessed.
            let sign_in = ExternalSignIn::by_token(stream, domain);
            return self.ask_source(cx, sign_in, Credential::Token(Hidden(token.0.clone())));
        }
        // A name that no address can have is answered like an unknown one.
        let Ok(jid) = Jid::new(Some(find.user()), &domain, None) else {
            return cx.tell(stream, |c2s, out| c2s.handle_found(CredentialAnswer::NoAccount, out));
        };
        let user: Box<str> = jid.local().unwrap_or_default().into();
        if let (CredentialQuery::Password { password, .. }, true) =
            (&find, self.access.source_of(&domain).is_some())
        {
            let claim = Claim::new(known.peer(), find.user(), &domain);
            let Some(open) = self.access.begin(cx.now, &claim) else {
                return cx.tell(stream, |c2s, out| c2s.handle_found(CredentialAnswer::Unavailable, out));
            };
            let credential =
                Credential::Password { user: user.clone(), password: Hidden(password.0.clone()) };
            let sign_in = ExternalSignIn::by_password(stream, (user, domain), password.clone(), Some(open));
            return self.ask_source(cx, sign_in, credential);
        }
        if let (CredentialQuery::Keys { hash, .. }, Some(file)) =
            (&find, self.access.accounts_of_file(&domain))
        {
            let keys = file.keys(&user).filter(|_| *hash == Hash::Sha256);
            let sign_in = ExternalSignIn::by_keys(stream, (user, domain), keys);
            return self.look_up(cx, Box::new(sign_in));
        }
        let id = self.pending.insert(ClientRequest::SignIn { stream, find, domain: domain.clone() });
        cx.outbox.push(XmppEffect::Account { id, user, domain });
    }

    /// A stream has a client's proof of keys that it was challenged for. Others may have failed since: many challenges taken first are paced as tries
    /// one after another.
    fn prove(&self, cx: &mut AccessContext<'_>, stream: u64, claim: &Claim<'_>) {
        let may = self.access.wait(cx.now, claim).is_none();
        let answer = if may { CredentialAnswer::Proof } else { CredentialAnswer::Unavailable };
        cx.tell(stream, |c2s, out| c2s.handle_found(answer, out));
    }

    /// An attempt to sign in has failed.
    pub(in crate::xmpp) fn handle_failed(
        &mut self,
        now: Instant,
        peer: (IpAddr, &'static str),
        domain: &str,
        failed: &FailedAttempt,
    ) {
        self.counts.sign_in_failures += 1;
        self.access.fail(now, &Claim::new(peer, &failed.user, domain), failed.cause);
    }

    /// Handles the attempts that have failed by an input of this part, before the next one: others are compared with what they leave.
    pub(in crate::xmpp) fn handle_failures(&mut self, now: Instant, failures: Vec<C2sEvent>) {
        for failure in failures {
            if let C2sEvent::Failed { peer, domain, failed } = failure {
                self.handle_failed(now, peer, &domain, &failed);
            }
        }
    }

    /// A stream asks for a session. Notes the bucket of its account, whose owner has the host that serves the stream from
    /// now on. `None`: the stream is gone.
    pub(in crate::xmpp) fn handle_signed_in(
        &mut self,
        cx: &mut AccessContext<'_>,
        stream: u64,
        user: &Jid,
    ) -> Option<Bucket> {
        let bucket = Bucket::of(user.bare_str());
        let stream = cx.streams.get(stream)?;
        // Once for each stream: a sign-in is counted once, however often the client asks for a session.
        if stream.bucket.replace(bucket).is_none() {
            stream.establish();
            self.counts.sign_ins += 1;
            cx.streams.count_sign_in(&stream);
            // After a sign-in by an alias, the proof is kept under the alias. Anonymous clients have proved nothing.
            if let Some(claimed) = stream.claimed() {
                // A token names its user where the client does not.
                let claimed = if claimed.is_empty() { user.local().unwrap_or_default() } else { &*claimed };
                let claim = Claim::new(stream.peer(), claimed, user.domain());
                self.access.attempts.succeed(cx.now, &claim.attempt());
            }
        }
        Some(bucket)
    }

    /// Handles the account of an address; `Ok(None)`: it has no account.
    pub(in crate::xmpp) fn handle_account(
        &mut self,
        cx: &mut AccessContext<'_>,
        id: u64,
        found: Result<Option<&Account>, Unavailable>,
    ) {
        match self.pending.remove(id) {
            Some(ClientRequest::SignIn { stream, find, domain }) => {
                self.sign_in(cx, stream, find, &domain, found);
            }
            Some(ClientRequest::TokenWork { stream, work }) => self.token_work(cx, stream, *work, found),
            Some(ClientRequest::External(sign_in)) => self.account_looked_up(cx, *sign_in, found),
            Some(ClientRequest::Registering { stream, registration }) => {
                self.name_looked_up(cx, stream, registration, found);
            }
            _ => {}
        }
    }

    /// Handles the database's answer about tokens and invitations; `None`: the database is unavailable.
    pub(in crate::xmpp) fn handle_loaded(
        &mut self,
        cx: &mut AccessContext<'_>,
        id: u64,
        loaded: Option<AccessLoaded>,
    ) {
        if let Some(request) = self.pending.remove(id) {
            self.loaded(cx, request, loaded);
        }
    }

    /// Gives a read to the part that asked; `None`: the database is unavailable, or takes nothing now.
    fn loaded(&mut self, cx: &mut AccessContext<'_>, request: ClientRequest, loaded: Option<AccessLoaded>) {
        match request {
            ClientRequest::Tokens { stream, name, key, agent } => {
                let known = match loaded {
                    Some(AccessLoaded::Tokens(rows)) => key.known(cx.now, &agent, rows),
                    _ => CredentialAnswer::Unavailable,
                };
                cx.tell(stream, |c2s, out| c2s.handle_found_as(known, &name, out));
            }
            ClientRequest::Invited { stream, domain } => {
                super::registration::invitation_read(cx, stream, &domain, loaded);
            }
            ClientRequest::InvitationPage(query) => {
                let answer = super::invitation_page::answer(cx, query.token(), loaded);
                query.answer(answer);
            }
            ClientRequest::Registering { stream, registration } => {
                self.registration_checked(cx, stream, *registration, loaded);
            }
            _ => {}
        }
    }

    /// Handles the outcome of a write. Returns the contacts that an account has been made with.
    pub(in crate::xmpp) fn handle_written(
        &mut self,
        cx: &mut AccessContext<'_>,
        id: u64,
        result: Result<WriteDone, StoreError>,
    ) -> Option<NewContacts> {
        let request = self.pending.remove(id)?;
        self.written(cx, request, result)
    }

    /// The store or the shard takes nothing now.
    pub(in crate::xmpp) fn handle_refused(&mut self, cx: &mut AccessContext<'_>, id: u64) {
        match self.pending.remove(id) {
            Some(
                request @ (ClientRequest::Tokens { .. }
                | ClientRequest::Invited { .. }
                | ClientRequest::InvitationPage(_)
                | ClientRequest::Registering { .. }),
            ) => self.loaded(cx, request, None),
            Some(request) => {
                // No account was made, so that there are no contacts.
                self.written(cx, request, Err(StoreError::Closed));
            }
            None => {}
        }
    }

    /// Gives the outcome of a write to the part that asked.
    fn written(
        &mut self,
        cx: &mut AccessContext<'_>,
        request: ClientRequest,
        result: Result<WriteDone, StoreError>,
    ) -> Option<NewContacts> {
        match request {
            ClientRequest::Keys { address } if result.is_ok() => {
                cx.outbox.push(XmppEffect::Forget { address });
            }
            ClientRequest::Proving { stream, account, is_there, open } => {
                proved(cx, stream, (&account, is_there), &result);
                drop(open);
            }
            ClientRequest::External(sign_in) => self.account_made(cx, *sign_in, result),
            ClientRequest::TokensWritten { stream, new, was_used } => {
                super::tokens::tokens_done(cx, stream, new, was_used, &result);
            }
            ClientRequest::Registered { stream, user, inviter } => {
                return self.registered(cx, stream, (user, inviter), result);
            }
            _ => {}
        }
        None
    }

    /// Answers a stream's question for credentials with the account of the name, or with a stand-in that takes as long to check.
    fn sign_in(
        &mut self,
        cx: &mut AccessContext<'_>,
        stream: u64,
        find: CredentialQuery,
        domain: &str,
        found: Result<Option<&Account>, Unavailable>,
    ) {
        // The client has not waited: to check its password, beside the shard or here, would only delay others.
        let Some(peer) = cx.streams.get(stream).map(|stream| stream.peer()) else { return };
        let Ok(found) = found else {
            return cx.tell(stream, |c2s, out| c2s.handle_found(CredentialAnswer::Unavailable, out));
        };
        // Others may have failed while the account was read, or be checked beside the shard.
        let is_password = matches!(find, CredentialQuery::Password { .. });
        let begin = || self.access.begin(cx.now, &Claim::new(peer, find.user(), domain));
        let open = is_password.then(begin).flatten();
        if is_password && open.is_none() {
            return cx.tell(stream, |c2s, out| c2s.handle_found(CredentialAnswer::Unavailable, out));
        }
        let account = sign_in::account_of(found, domain).filter(|account| {
            // Digests of a source outside expire; tokens and certificates do not depend on them.
            let is_of_password =
                matches!(find, CredentialQuery::Password { .. } | CredentialQuery::Keys { .. });
            !is_of_password || !account.verifiers.are_expired(cx.now)
        });
        // For an account that is not there as much is done as for others: the time tells nothing either.
        let slow = match account {
            Some(account) => !account.verifiers.are_of_password(),
            None => !self.access.digests || cx.streams.only_keys(find.user(), domain),
        };
        // Cloned only where the work leaves the shard.
        let known = || account.cloned().unwrap_or_else(|| sign_in::unknown_account(find.user(), domain));
        match &find {
            CredentialQuery::Tokens { agent, .. } => {
                return self.find_tokens(cx, stream, &known(), agent.clone());
            }
            CredentialQuery::Password { password, .. } if slow => {
                // Each password has one.
                let Some(open) = open else { return };
                return self.prove_beside(cx, stream, (known(), account.is_some()), (password.clone(), open));
            }
            _ => {}
        }
        let known = sign_in::check(&find, account);
        let is_right = known == CredentialAnswer::Password(true);
        cx.tell(stream, |c2s, out| match account {
            Some(account) => c2s.handle_found_as(known, &account.name, out),
            None => c2s.handle_found(known, out),
        });
        if let (CredentialQuery::Password { password, .. }, Some(account), true) = (find, account, is_right)
            && sign_in::wants_keys(account)
        {
            let address = format!("{}@{}", account.name, account.domain).into();
            let id = self.pending.insert(ClientRequest::Keys { address });
            cx.outbox.push(XmppEffect::Derive { id, account: Box::new(account.clone()), password });
        }
    }

    /// Has a password compared beside the shard, as that takes its time.
    fn prove_beside(
        &mut self,
        cx: &mut AccessContext<'_>,
        stream: u64,
        (account, is_there): (Account, bool),
        (password, open): (Secret, OpenAttempt),
    ) {
        let (account, learns) = (Box::new(account), self.access.digests);
        let proving = ClientRequest::Proving { stream, account: Box::new(account.address()), is_there, open };
        let id = self.pending.insert(proving);
        cx.outbox.push(XmppEffect::Prove { id, account, password, learns, stream });
    }
}

/// Answers a sign-in whose password was compared, beside the shard, with the keys of an account that has no other verifiers, or of a stand-in.
fn proved(
    cx: &mut AccessContext<'_>,
    stream: u64,
    (account, is_there): (&Address, bool),
    result: &Result<WriteDone, StoreError>,
) {
    let known = match result {
        // None: there is another password since.
        Ok(WriteDone::Changed { rows }) => CredentialAnswer::Password(*rows > 0),
        Err(StoreError::NotFound { .. }) => CredentialAnswer::Password(false),
        Ok(_) | Err(_) => CredentialAnswer::Unavailable,
    };
    cx.outbox.push(XmppEffect::Forget { address: account.to_string().into() });
    cx.tell(stream, |c2s, out| match is_there {
        true => c2s.handle_found_as(known, &account.user, out),
        false => c2s.handle_found(known, out),
    });
}

//! Sign-in by a source outside the database (`external_auth`): the source is asked first, then the account is looked up, and
//! made where there is none. Nothing here waits: each answer goes on where the question was asked.
//!
//! In: a credential of a stream; out: effects (ask the source, look up, write) and one answer to the stream.
//! Invariant: each sign-in gets exactly one answer, and a source that cannot be asked (`Unavailable`) is told
//! apart from one that refuses: only the latter is a wrong password.

use std::time::Duration;

use control::{Family, KindCount};
use external_auth::{Credential, Query, ScramSha256Keys, Verdict};
use stdx::Instant;
use stdx::attempts::OpenAttempt;
use store::{Account, AccountLimits, Address, NewAccount, StoreError, Verifiers, Write, WriteDone};
use xmpp::Jid;
use xmpp::sasl::{CredentialAnswer, Keys, Secret};

use super::super::{Unavailable, XmppEffect, sign_in};
use super::clients::{AccessContext, ClientAccess, ClientRequest};

/// A sign-in that waits for the source, for the account, or until the account is made.
#[derive(Debug)]
pub(in crate::xmpp) struct ExternalSignIn {
    stream: u64,
    /// Prepared. Empty until a token's verdict names the user.
    user: Box<str>,
    domain: Box<str>,
    proof: ExternalProof,
    /// Until the outcome counts. Tokens and keys of files need none: the first cannot be guessed, and proofs by the second are paced by themselves.
    _open: Option<OpenAttempt>,
    /// Another client of the user made the account meanwhile. It is looked up once more, and not made again if it is gone.
    was_made_by_other: bool,
}

/// The proof of a client that it is the user.
#[derive(Debug)]
enum ExternalProof {
    Password(Secret),
    Token,
    /// The keys that the client will prove the password by. `None`: the file has none of this name, which the client is not to learn.
    Keys(Option<Keys>),
}

impl ExternalSignIn {
    pub(super) fn by_password(
        stream: u64,
        (user, domain): (Box<str>, Box<str>),
        password: Secret,
        open: Option<OpenAttempt>,
    ) -> Self {
        let proof = ExternalProof::Password(password);
        ExternalSignIn { stream, user, domain, proof, _open: open, was_made_by_other: false }
    }

    pub(super) fn by_token(stream: u64, domain: Box<str>) -> Self {
        let proof = ExternalProof::Token;
        ExternalSignIn { stream, user: "".into(), domain, proof, _open: None, was_made_by_other: false }
    }

    /// By keys of a file. The account is made before the client has proved anything: there are no more such accounts than lines of the file, and the
    /// proof is the last step of the exchange.
    pub(super) fn by_keys(
        stream: u64,
        (user, domain): (Box<str>, Box<str>),
        keys: Option<&ScramSha256Keys>,
    ) -> Self {
        let proof = ExternalProof::Keys(keys.map(|keys| Keys {
            salt: keys.salt.clone(),
            iterations: keys.iterations,
            stored: keys.stored.into(),
            server: keys.server.into(),
        }));
        ExternalSignIn { stream, user, domain, proof, _open: None, was_made_by_other: false }
    }

    /// The source does not know the user.
    fn is_unknown(&self) -> bool {
        matches!(self.proof, ExternalProof::Keys(None))
    }

    /// The answer to a credential that the source has accepted.
    fn right(&self) -> CredentialAnswer {
        match &self.proof {
            ExternalProof::Password(_) => CredentialAnswer::Password(true),
            ExternalProof::Token => CredentialAnswer::User(self.user.clone()),
            ExternalProof::Keys(Some(keys)) => CredentialAnswer::Keys(keys.clone()),
            ExternalProof::Keys(None) => CredentialAnswer::NoAccount,
        }
    }

    /// The source does not accept the credential, or the account may not sign in.
    fn refuse(&self, cx: &mut AccessContext<'_>) {
        match self.proof {
            // Whether the user is unknown or the password is wrong, no source tells. For limits and logs it is a wrong one.
            ExternalProof::Password(_) => cx.tell(self.stream, |c2s, out| {
                c2s.handle_found_as(CredentialAnswer::Password(false), &self.user, out);
            }),
            ExternalProof::Token | ExternalProof::Keys(_) => {
                cx.tell(self.stream, |c2s, out| c2s.handle_found(CredentialAnswer::NoAccount, out));
            }
        }
    }

    /// The source or the database could not answer: the client may try again.
    fn give_up(&self, cx: &mut AccessContext<'_>) {
        cx.tell(self.stream, |c2s, out| c2s.handle_found(CredentialAnswer::Unavailable, out));
    }

    fn accept(&self, cx: &mut AccessContext<'_>) {
        cx.tell(self.stream, |c2s, out| c2s.handle_found_as(self.right(), &self.user, out));
    }

    fn address(&self) -> Box<str> {
        format!("{}@{}", self.user, self.domain).into()
    }
}

/// Verdicts of sources since the start of the shard.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::xmpp) struct VerdictCounts {
    accepted: u64,
    refused: u64,
    unavailable: u64,
}

impl VerdictCounts {
    fn count(&mut self, verdict: &Verdict) {
        *match verdict {
            Verdict::Accepted(_) => &mut self.accepted,
            Verdict::Refused => &mut self.refused,
            Verdict::Unavailable => &mut self.unavailable,
        } += 1;
    }

    /// For metrics: those that there were.
    pub(in crate::xmpp) fn kinds(self) -> impl Iterator<Item = KindCount> {
        let kinds =
            [("accepted", self.accepted), ("refused", self.refused), ("unavailable", self.unavailable)];
        kinds.into_iter().filter(|(_, count)| *count > 0).map(|(kind, count)| KindCount {
            family: Family::ExternalSignIns,
            kind: kind.into(),
            count,
        })
    }
}

/// The digests of a password that a source has accepted, for as long as the configuration says. `None`: they are not kept.
fn digests(sign_in: &ExternalSignIn, keep: Duration, now: Instant) -> Option<Verifiers> {
    let ExternalProof::Password(password) = &sign_in.proof else { return None };
    let password = (!keep.is_zero()).then_some(password)?;
    Some(Verifiers::from_password(&sign_in.user, &sign_in.domain, &password.0).expiring_at(now + keep))
}

/// True if these take the place of the account's verifiers: not of those of a password that the operator has set, for
/// phones, and not again and again while they are fresh.
fn replaces(new: &Verifiers, old: &Verifiers, keep: Duration, now: Instant) -> bool {
    match old.expires_at() {
        Some(end) if old.sha256 == new.sha256 => end <= now + keep / 2,
        Some(_) => true,
        None => !old.are_of_password(),
    }
}

impl ClientAccess {
    /// Asks the source of the stream's domain.
    pub(super) fn ask_source(
        &mut self,
        cx: &mut AccessContext<'_>,
        sign_in: ExternalSignIn,
        credential: Credential,
    ) {
        // The number comes back with the verdict; a stream that has gone meanwhile is not found then.
        let query = Box::new(Query { now: cx.now, domain: sign_in.domain.clone(), credential });
        let id = self.pending.insert(ClientRequest::External(Box::new(sign_in)));
        cx.outbox.push(XmppEffect::Authenticate { id, query });
    }

    /// Handles the verdict of a source.
    pub(in crate::xmpp) fn handle_verdict(&mut self, cx: &mut AccessContext<'_>, id: u64, verdict: Verdict) {
        let Some(ClientRequest::External(mut sign_in)) = self.pending.remove(id) else { return };
        self.counts.verdicts.count(&verdict);
        match verdict {
            Verdict::Unavailable => sign_in.give_up(cx),
            Verdict::Refused => sign_in.refuse(cx),
            Verdict::Accepted(user) => {
                // A token names its user as its issuer spells the name; prepared, two spellings are one account
                // (RFC 7622 §3.3).
                let jid = Jid::new(Some(&user), &sign_in.domain, None).ok();
                let Some(user) = jid.as_ref().and_then(Jid::local) else {
                    tracing::warn!(
                        domain = &*sign_in.domain,
                        "a token names a user who can have no XMPP address"
                    );
                    return sign_in.refuse(cx);
                };
                sign_in.user = user.into();
                self.look_up(cx, sign_in);
            }
        }
    }

    pub(super) fn look_up(&mut self, cx: &mut AccessContext<'_>, sign_in: Box<ExternalSignIn>) {
        let (user, domain) = (sign_in.user.clone(), sign_in.domain.clone());
        let id = self.pending.insert(ClientRequest::External(sign_in));
        cx.outbox.push(XmppEffect::Account { id, user, domain });
    }

    /// Handles the account of a user that a source has accepted.
    pub(super) fn account_looked_up(
        &mut self,
        cx: &mut AccessContext<'_>,
        sign_in: ExternalSignIn,
        found: Result<Option<&Account>, Unavailable>,
    ) {
        match found {
            Err(Unavailable) => sign_in.give_up(cx),
            // The look-up was for its time alone: a challenge for an unknown user comes as late as another.
            Ok(_) if sign_in.is_unknown() => sign_in.refuse(cx),
            // Made and removed within moments: to go on in a circle would help no client.
            Ok(None) if sign_in.was_made_by_other => sign_in.give_up(cx),
            Ok(None) => self.make_account(cx, sign_in),
            Ok(Some(account)) => {
                let own = sign_in::account_of(Some(account), &sign_in.domain);
                // The source has vouched for this name; an alias would sign the user in as another account.
                let Some(own) = own.filter(|own| own.name == sign_in.user) else {
                    let is_alias = account.name != sign_in.user || account.domain != sign_in.domain;
                    tracing::info!(
                        address = &*sign_in.address(),
                        disabled = account.disabled,
                        is_alias,
                        "a source accepts a user who may not sign in here"
                    );
                    return sign_in.refuse(cx);
                };
                self.refresh_digests(cx, &sign_in, own);
                sign_in.accept(cx);
            }
        }
    }

    /// Makes the account of a user who signs in for the first time. Its password stays with the source: the account has digests of it for phones
    /// if the configuration keeps them, and otherwise verifiers that no password fits.
    fn make_account(&mut self, cx: &mut AccessContext<'_>, sign_in: ExternalSignIn) {
        let keep =
            self.access.source_of(&sign_in.domain).map_or(Duration::ZERO, |source| source.keep_digests);
        let mut unknown = [0; 32];
        let (Ok(address), Ok(())) =
            (Address::new(&sign_in.user, &sign_in.domain), getrandom::fill(&mut unknown))
        else {
            tracing::warn!(address = &*sign_in.address(), "no account can be made at this address");
            return sign_in.give_up(cx);
        };
        let verifiers = digests(&sign_in, keep, cx.now);
        let file = self.access.accounts_of_file(&sign_in.domain);
        let account = NewAccount {
            address,
            display_name: file.map_or("".into(), |file| file.display_name(&sign_in.user).into()),
            verifiers: verifiers.unwrap_or_else(|| Verifiers::without_password(&unknown)),
            limits: AccountLimits::default(),
            created_at: cx.now,
        };
        let id = self.pending.insert(ClientRequest::External(Box::new(sign_in)));
        cx.outbox.push(XmppEffect::Write { id, write: Write::AddAccount(Box::new(account)) });
    }

    /// Handles the outcome of the write that makes an account.
    pub(super) fn account_made(
        &mut self,
        cx: &mut AccessContext<'_>,
        mut sign_in: ExternalSignIn,
        result: Result<WriteDone, StoreError>,
    ) {
        // The cache may say that this account does not exist.
        cx.outbox.push(XmppEffect::Forget { address: sign_in.address() });
        match result {
            Ok(_) => {
                tracing::info!(
                    account = &*sign_in.address(),
                    "an account was made at the first sign-in by a source"
                );
                sign_in.accept(cx);
            }
            Err(StoreError::Exists { .. }) => {
                // Two clients of a new user at once: the second write finds the account of the first.
                sign_in.was_made_by_other = true;
                self.look_up(cx, Box::new(sign_in));
            }
            Err(error) => {
                tracing::warn!(%error, account = &*sign_in.address(), "an account could not be made");
                sign_in.give_up(cx);
            }
        }
    }

    /// Writes the digests of the password for phones, if they are kept. The sign-in does not wait for it: the digests are a cache of what the source has
    /// accepted. A crash before the write leaves those of before, as if the user had not signed in with chat yet: a phone with the old password gets in until
    /// the next sign-in, which compares again, or the end of `keep_digests`.
    fn refresh_digests(&mut self, cx: &mut AccessContext<'_>, sign_in: &ExternalSignIn, account: &Account) {
        let Some(keep) = self.access.source_of(&sign_in.domain).map(|source| source.keep_digests) else {
            return;
        };
        let Some(new) = digests(sign_in, keep, cx.now) else { return };
        if replaces(&new, &account.verifiers, keep, cx.now) {
            let id = self.pending.insert(ClientRequest::Keys { address: sign_in.address() });
            // `of` is the state that was compared: a password that was set meanwhile stays.
            let (account, of) = (account.address(), account.verifiers.sha256);
            cx.outbox
                .push(XmppEffect::Write { id, write: Write::LearnPassword { account, of, verifiers: new } });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::from_unix_seconds(1_700_000_000);
    const KEEP: Duration = Duration::from_hours(30 * 24);

    fn of(password: &str) -> ExternalSignIn {
        ExternalSignIn::by_password(1, ("alice".into(), "example.org".into()), Secret(password.into()), None)
    }

    #[test]
    fn digests_are_kept_only_where_the_configuration_says_so() {
        assert!(digests(&of("secret"), Duration::ZERO, NOW).is_none());
        assert!(digests(&ExternalSignIn::by_token(1, "example.org".into()), KEEP, NOW).is_none());
        let kept = digests(&of("secret"), KEEP, NOW).unwrap();
        assert_eq!(kept.sha256, Verifiers::from_password("alice", "example.org", "secret").sha256);
        assert!(!kept.are_expired(NOW) && kept.are_expired(NOW + KEEP));
    }

    #[test]
    fn digests_are_renewed_in_time_and_never_take_the_place_of_a_password_of_the_operator() {
        let new = |at| digests(&of("secret"), KEEP, at).unwrap();
        let none = Verifiers::without_password(&[7; 32]);
        assert!(replaces(&new(NOW), &none, KEEP, NOW), "the account had none");
        assert!(!replaces(&new(NOW), &new(NOW), KEEP, NOW), "they are fresh");
        let later = NOW + KEEP * 2 / 3;
        assert!(replaces(&new(later), &new(NOW), KEEP, later), "more than half of their time is over");
        let other = digests(&of("another"), KEEP, NOW).unwrap();
        assert!(replaces(&new(NOW), &other, KEEP, NOW), "the password was changed in the directory");
        let of_operator = Verifiers::from_password("alice", "example.org", "phone");
        assert!(!replaces(&new(NOW), &of_operator, KEEP, NOW));
    }

    #[test]
    fn a_sign_in_shows_no_password() {
        assert!(!format!("{:?}", of("hush")).contains("hush"));
    }
}

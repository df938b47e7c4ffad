//! Accounts that people make for themselves, and what they change of them (XEP-0077, XEP-0445).

use std::collections::HashSet;

use sha2::{Digest, Sha256};
use stdx::Instant;
use store::access::{AccessLoaded, AccessRead, Invitation};
use store::{Account, Address, StoreError, Write, WriteDone};
use xmpp::Bare;
use xmpp::c2s::{InvitationGrant, Registration};
use xmpp::sasl::Secret;
use xmpp::stanza::{Condition, StanzaError};

use super::super::{PendingRead, Unavailable, Xmpp, XmppEffect};
use super::Claim;
use crate::message::Ended;
use crate::message::XmppShardMessage;

/// An account that the shard makes: keys and all, off its thread.
#[derive(Debug)]
pub(crate) struct NewAccount {
    pub(crate) address: Address,
    pub(crate) password: Secret,
    pub(crate) invitation: Option<[u8; 32]>,
}

/// The hash of an invitation's token, as the database has it.
pub(crate) fn hash_of(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

fn later() -> StanzaError {
    StanzaError::new(Condition::ResourceConstraint, "not now: try again later")
}

fn taken() -> StanzaError {
    StanzaError::new(Condition::Conflict, "this name is taken")
}

fn not_invited() -> StanzaError {
    StanzaError::new(Condition::ItemNotFound, "the invitation is unknown, used, or too old")
}

/// For an account of that domain, now.
fn is_good(invitation: &Invitation, domain: &str, now: Instant) -> bool {
    invitation.registers && *invitation.domain == *domain && invitation.expires_at > now
}

impl Xmpp {
    /// Checks an invitation (XEP-0445 §4).
    pub(crate) fn invited(
        &mut self,
        now: Instant,
        stream: u64,
        token: &str,
        domain: Box<str>,
        outbox: &mut Vec<XmppEffect>,
    ) {
        let Some(known) = self.streams.get(stream) else { return };
        let claim = Claim::new(known.peer(), "", &domain);
        if self.access.wait(now, &claim).is_some() {
            self.streams.tell(stream, |c2s, out| c2s.handle_invited(Err(later()), out));
            return;
        }
        let id = self.ask(PendingRead::Invited { stream, domain });
        outbox.push(XmppEffect::Access { id, read: AccessRead::Invitation { hash: hash_of(token) } });
    }

    pub(crate) fn invitation_read(
        &mut self,
        now: Instant,
        stream: u64,
        domain: &str,
        read: Option<AccessLoaded>,
    ) {
        let invited = match read {
            Some(AccessLoaded::Invitation(found)) => {
                match found.filter(|found| is_good(found, domain, now)) {
                    Some(found) => Ok(InvitationGrant { user: found.name }),
                    None => Err(not_invited()),
                }
            }
            _ => Err(later()),
        };
        self.streams.tell(stream, |c2s, out| c2s.handle_invited(invited, out));
    }

    fn refuse_registration(&mut self, stream: u64, error: StanzaError) {
        self.streams.tell(stream, |c2s, out| c2s.handle_registered(Err(error), out));
    }

    pub(crate) fn register(
        &mut self,
        stream: u64,
        registration: Box<Registration>,
        outbox: &mut Vec<XmppEffect>,
    ) {
        let is_reserved = self.access.registration.reserved.contains(&registration.user);
        if is_reserved {
            let error = StanzaError::new(Condition::NotAcceptable, "nobody may take this name");
            return self.refuse_registration(stream, error);
        }
        if let Some(fault) = self.access.password_fault(&registration.password.0) {
            let error = StanzaError::new(Condition::NotAcceptable, &fault);
            return self.refuse_registration(stream, error);
        }
        let (user, domain) = (registration.user.clone(), registration.domain.clone());
        let id = self.ask(PendingRead::Registering { stream, registration });
        outbox.push(XmppEffect::Account { id, user, domain });
    }

    pub(crate) fn name_looked_up(
        &mut self,
        now: Instant,
        stream: u64,
        registration: Box<Registration>,
        found: Result<Option<&Account>, Unavailable>,
        outbox: &mut Vec<XmppEffect>,
    ) {
        match found {
            Err(Unavailable) => return self.refuse_registration(stream, later()),
            Ok(Some(_)) => return self.refuse_registration(stream, taken()),
            Ok(None) => {}
        }
        let read = match &registration.invitation {
            Some(token) => AccessRead::Invitation { hash: hash_of(token) },
            // The name may be reserved for an invited user.
            None => {
                let (domain, name) = (registration.domain.clone(), registration.user.clone());
                AccessRead::Reserved { domain, name, now }
            }
        };
        let id = self.ask(PendingRead::Registering { stream, registration });
        outbox.push(XmppEffect::Access { id, read });
    }

    pub(crate) fn registration_checked(
        &mut self,
        now: Instant,
        stream: u64,
        registration: Registration,
        read: Option<AccessLoaded>,
        outbox: &mut Vec<XmppEffect>,
    ) {
        let inviter = match read {
            // The write looks once more, for all that registers meanwhile.
            Some(AccessLoaded::Invitation(found)) => {
                match found.filter(|found| is_good(found, &registration.domain, now)) {
                    Some(invitation) => invitation.inviter,
                    None => return self.refuse_registration(stream, not_invited()),
                }
            }
            Some(AccessLoaded::Reserved(false)) => None,
            Some(AccessLoaded::Reserved(true)) => return self.refuse_registration(stream, taken()),
            _ => return self.refuse_registration(stream, later()),
        };
        let Some(known) = self.streams.get(stream) else { return };
        if registration.invitation.is_none() && !self.access.may_make(now, known.remote) {
            tracing::debug!(source = %known.remote, "too many accounts of one source");
            let error = StanzaError::new(
                Condition::ResourceConstraint,
                "too many accounts were made from your address: try again in an hour",
            );
            return self.refuse_registration(stream, error);
        }
        let Registration { user, domain, password, invitation } = registration;
        let Ok(address) = Address::new(&user, &domain) else {
            return self.refuse_registration(stream, Condition::NotAcceptable.into());
        };
        let Ok(bare) = Bare::new(Some(&user), &domain) else {
            return self.refuse_registration(stream, Condition::NotAcceptable.into());
        };
        let invitation = invitation.map(|token| hash_of(&token));
        let id = self.ask(PendingRead::Registered { stream, user: bare, inviter });
        outbox.push(XmppEffect::MakeAccount {
            id,
            account: Box::new(NewAccount { address, password, invitation }),
        });
    }

    pub(crate) fn registered(
        &mut self,
        now: Instant,
        stream: u64,
        (user, inviter): (Bare, Option<Box<str>>),
        result: Result<WriteDone, StoreError>,
        outbox: &mut Vec<XmppEffect>,
    ) {
        let done = match result {
            Ok(_) => Ok(()),
            Err(StoreError::Exists { .. }) => Err(taken()),
            Err(StoreError::NotFound { .. }) => Err(not_invited()),
            Err(error) => {
                tracing::warn!(%error, "an account could not be made");
                Err(later())
            }
        };
        if done.is_ok() {
            // The cache may say that this account does not exist.
            outbox.push(XmppEffect::Forget { address: user.as_str().into() });
            self.registrations += 1;
            tracing::info!(account = user.as_str(), invited_by = inviter.as_deref(), "an account was made");
            if let Some(inviter) = inviter.and_then(|inviter| Bare::parse(&inviter).ok()) {
                self.befriend(now, &user, &inviter, outbox);
            }
        }
        self.streams.tell(stream, |c2s, out| c2s.handle_registered(done, out));
    }

    /// XEP-0401 §5.4: the invited user and the inviter become contacts of each other.
    fn befriend(&mut self, now: Instant, invited: &Bare, inviter: &Bare, outbox: &mut Vec<XmppEffect>) {
        let owner = self.owner(invited.as_str());
        let (invited, inviter) = (invited.clone(), inviter.clone());
        self.send(now, owner, XmppShardMessage::Invited { invited, inviter }, outbox);
    }

    /// A user changes the password, or removes the account. The host waits for the answer.
    pub(crate) fn change_account(
        &mut self,
        now: Instant,
        ticket: chat::Ticket,
        user: &Bare,
        password: Option<Secret>,
        outbox: &mut Vec<XmppEffect>,
    ) {
        let address = user.local().and_then(|local| Address::new(local, user.domain()).ok());
        let Some(address) = address else {
            let missing = Err(chat::StoreFailure::NotFound);
            return self
                .tell_host(now, outbox, |host, out| host.handle_store_reply(now, ticket, missing, out));
        };
        let id = self.ask(PendingRead::AccountChanged { ticket, address: address.clone() });
        match password {
            Some(password) => {
                outbox.push(XmppEffect::SetPassword { id, account: Box::new(address), password });
            }
            None => outbox.push(XmppEffect::Write { id, write: Write::RemoveAccount { account: address } }),
        }
    }

    pub(crate) fn account_changed(
        &mut self,
        now: Instant,
        (ticket, address): (chat::Ticket, Address),
        result: Result<WriteDone, StoreError>,
        outbox: &mut Vec<XmppEffect>,
    ) {
        if result.is_ok() {
            // Its aliases are cached, too.
            let id = self.ask(PendingRead::Aliases);
            outbox.push(XmppEffect::Aliases { id, account: Box::new(address.clone()) });
            outbox.push(XmppEffect::Forget { address: address.to_string().into() });
        }
        let done = super::super::record::done_of(result);
        self.tell_host(now, outbox, |host, out| host.handle_store_reply(now, ticket, done, out));
    }

    /// Ends the sessions of accounts that were changed, disabled or removed.
    pub(crate) fn end_sessions(&mut self, now: Instant, ended: &Ended, outbox: &mut Vec<XmppEffect>) {
        let own = ended.accounts.iter().filter(|account| self.owner(account) == self.shard);
        let own: Vec<Bare> = own.filter_map(|account| Bare::parse(account).ok()).collect();
        if !own.is_empty() {
            let contacts = super::super::record::contacts_of(ended.roster.clone());
            self.tell_host(now, outbox, |host, out| {
                for user in &own {
                    host.end_account(now, user, ended.ending, &contacts, out);
                }
            });
        }
        // Those that have signed in and have no session yet, at whichever shard.
        let accounts: HashSet<&str> = ended.accounts.iter().map(|account| &**account).collect();
        self.streams.close_where(|jid| accounts.contains(jid.bare_str()), ended.ending.condition());
    }
}

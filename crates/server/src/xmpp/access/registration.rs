//! Accounts that people make for themselves (XEP-0077, XEP-0445).
//!
//! The steps, each of which may refuse: `register` (reserved names, the password), `name_looked_up` (is the name free), `registration_checked`
//! (the invitation, or whether the name is kept for an invited user; accounts of one source in an hour), `registered` (the write, which
//! checks name and invitation again in its transaction).

use chat_store::invitation::hash_of;
use stdx::Instant;
use store::access::{AccessLoaded, AccessRead, Invitation};
use store::{Account, Address, StoreError, WriteDone};
use xmpp::Bare;
use xmpp::c2s::{InvitationGrant, Registration};
use xmpp::sasl::Secret;
use xmpp::stanza::{Condition, StanzaError};

use super::super::{Unavailable, XmppEffect};
use super::Claim;
use super::clients::{AccessContext, ClientAccess, ClientRequest};

/// An account that the shard makes: keys and all, off its thread.
#[derive(Debug)]
pub(crate) struct NewAccount {
    pub(crate) address: Address,
    pub(crate) password: Secret,
    /// The hash of the token, which the write uses up.
    pub(crate) invitation: Option<[u8; 32]>,
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

/// An account was made by invitation: it and the inviter become contacts of each other (XEP-0401 §5.4).
#[derive(Debug)]
pub(in crate::xmpp) struct NewContacts {
    pub(in crate::xmpp) invited: Bare,
    pub(in crate::xmpp) inviter: Bare,
}

impl ClientAccess {
    /// Checks an invitation (XEP-0445 §4).
    pub(in crate::xmpp) fn invited(
        &mut self,
        cx: &mut AccessContext<'_>,
        stream: u64,
        token: &str,
        domain: Box<str>,
    ) {
        let Some(known) = cx.streams.get(stream) else { return };
        let claim = Claim::new(known.peer(), "", &domain);
        if self.access.wait(cx.now, &claim).is_some() {
            return cx.tell(stream, |c2s, out| c2s.handle_invited(Err(later()), out));
        }
        let id = self.pending.insert(ClientRequest::Invited { stream, domain });
        cx.outbox.push(XmppEffect::Access { id, read: AccessRead::Invitation { hash: hash_of(token) } });
    }

    /// A client asks for an account. The stream is answered once it is made or refused.
    pub(in crate::xmpp) fn register(
        &mut self,
        cx: &mut AccessContext<'_>,
        stream: u64,
        registration: Box<Registration>,
    ) {
        let is_reserved = self.access.registration.reserved.contains(&registration.user);
        if is_reserved {
            let error = StanzaError::new(Condition::NotAcceptable, "this name is reserved");
            return refuse(cx, stream, error);
        }
        if let Some(fault) = self.access.password_fault(&registration.password.0) {
            let error = StanzaError::new(Condition::NotAcceptable, &fault);
            return refuse(cx, stream, error);
        }
        let (user, domain) = (registration.user.clone(), registration.domain.clone());
        let id = self.pending.insert(ClientRequest::Registering { stream, registration });
        cx.outbox.push(XmppEffect::Account { id, user, domain });
    }

    /// Handles the account of the name, which must not exist; then reads the invitation, or whether the name is kept for an invited user.
    pub(super) fn name_looked_up(
        &mut self,
        cx: &mut AccessContext<'_>,
        stream: u64,
        registration: Box<Registration>,
        found: Result<Option<&Account>, Unavailable>,
    ) {
        match found {
            Err(Unavailable) => return refuse(cx, stream, later()),
            Ok(Some(_)) => return refuse(cx, stream, taken()),
            Ok(None) => {}
        }
        let read = match &registration.invitation {
            Some(token) => AccessRead::Invitation { hash: hash_of(token) },
            // The name may be reserved for an invited user.
            None => {
                let (domain, name) = (registration.domain.clone(), registration.user.clone());
                AccessRead::Reserved { domain, name, now: cx.now }
            }
        };
        let id = self.pending.insert(ClientRequest::Registering { stream, registration });
        cx.outbox.push(XmppEffect::Access { id, read });
    }

    /// Handles that read, and has the account made. Only accounts without invitation are limited by their source.
    pub(super) fn registration_checked(
        &mut self,
        cx: &mut AccessContext<'_>,
        stream: u64,
        registration: Registration,
        read: Option<AccessLoaded>,
    ) {
        let inviter = match read {
            // The write looks once more, for all that registers meanwhile.
            Some(AccessLoaded::Invitation(found)) => {
                match found.filter(|found| is_good(found, &registration.domain, cx.now)) {
                    Some(invitation) => invitation.inviter,
                    None => return refuse(cx, stream, not_invited()),
                }
            }
            Some(AccessLoaded::Reserved(false)) => None,
            Some(AccessLoaded::Reserved(true)) => return refuse(cx, stream, taken()),
            _ => return refuse(cx, stream, later()),
        };
        let Some(known) = cx.streams.get(stream) else { return };
        if registration.invitation.is_none() && !self.access.may_make(cx.now, known.remote) {
            tracing::debug!(source = %known.remote, "too many accounts of one source");
            let error = StanzaError::new(
                Condition::ResourceConstraint,
                "too many accounts were made from your address: try again in an hour",
            );
            return refuse(cx, stream, error);
        }
        let Registration { user, domain, password, invitation } = registration;
        let Ok(address) = Address::new(&user, &domain) else {
            return refuse(cx, stream, Condition::NotAcceptable.into());
        };
        let Ok(bare) = Bare::new(Some(&user), &domain) else {
            return refuse(cx, stream, Condition::NotAcceptable.into());
        };
        let invitation = invitation.map(|token| hash_of(&token));
        let id = self.pending.insert(ClientRequest::Registered { stream, user: bare, inviter });
        let account = Box::new(NewAccount { address, password, invitation });
        cx.outbox.push(XmppEffect::MakeAccount { id, account });
    }

    /// Handles the outcome of the write. Returns the contacts that an invitation makes.
    pub(super) fn registered(
        &mut self,
        cx: &mut AccessContext<'_>,
        stream: u64,
        (user, inviter): (Bare, Option<Box<str>>),
        result: Result<WriteDone, StoreError>,
    ) -> Option<NewContacts> {
        let done = match result {
            Ok(_) => Ok(()),
            Err(StoreError::Exists { .. }) => Err(taken()),
            Err(StoreError::NotFound { .. }) => Err(not_invited()),
            Err(error) => {
                tracing::warn!(%error, "an account could not be made");
                Err(later())
            }
        };
        let mut contacts = None;
        if done.is_ok() {
            // The cache may say that this account does not exist.
            cx.outbox.push(XmppEffect::Forget { address: user.as_str().into() });
            self.counts.registrations += 1;
            tracing::info!(account = user.as_str(), invited_by = inviter.as_deref(), "an account was made");
            let inviter = inviter.and_then(|inviter| Bare::parse(&inviter).ok());
            contacts = inviter.map(|inviter| NewContacts { invited: user, inviter });
        }
        cx.tell(stream, |c2s, out| c2s.handle_registered(done, out));
        contacts
    }
}

/// Handles the database's answer about an invitation.
pub(super) fn invitation_read(
    cx: &mut AccessContext<'_>,
    stream: u64,
    domain: &str,
    read: Option<AccessLoaded>,
) {
    let invited = match read {
        Some(AccessLoaded::Invitation(found)) => match found.filter(|found| is_good(found, domain, cx.now)) {
            Some(found) => Ok(InvitationGrant { user: found.name }),
            None => Err(not_invited()),
        },
        _ => Err(later()),
    };
    cx.tell(stream, |c2s, out| c2s.handle_invited(invited, out));
}

fn refuse(cx: &mut AccessContext<'_>, stream: u64, error: StanzaError) {
    cx.tell(stream, |c2s, out| c2s.handle_registered(Err(error), out));
}

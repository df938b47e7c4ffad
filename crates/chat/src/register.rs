//! Changes by users of their own accounts: a new password and the removal (XEP-0077 §3.2 and §3.3). The
//! creation of accounts, before authentication, is in `c2s::register`.
//!
//! The requests come to the domain, as XEP-0077 has it, or to the account; `route` handles both at the host of the
//! account. The store changes the credentials or removes the account with all its rows; then sessions end
//! (`Host::end_account`, which the driver calls too when the operator has made the change).

use std::sync::Arc;

use stdx::Instant;
use stdx::slab::Key;
use xmpp::c2s::register_value;
use xmpp::sasl::Secret;
use xmpp::stanza::{self, Condition, StanzaError};
use xmpp::{Bare, Element, Level, Specification, ns};

use super::account_memory::AccountMemory;
use super::blocking::Blocklist;
use super::change_queue::not_written;
use super::effect::{Access, AccountData, RosterItem};
use super::feature::{Feature, IqHandler, IqReply, IqRequest, IqTarget, IqView};
use super::iq_effect::IqEffect;
use super::store_requests::StoreRequests;
use super::user::AccountState;
use super::{Host, Outbox};
use crate::{connection, departed, outgoing, presence, roster};

pub(super) const FEATURE: Feature = Feature {
    specifications: &[Specification {
        name: "XEP-0077",
        title: "In-Band Registration",
        version: "2.4",
        level: Level::Complete,
        file: "crates/chat/src/register.rs",
        note: "accounts are made in crates/xmpp/src/c2s/register.rs; off unless configured, but for the password",
    }],
    account: &[],
    server: &[ns::REGISTER],
    handles: &[
        IqHandler { at: IqTarget::Own, name: "query", ns: ns::REGISTER, run: register },
        IqHandler { at: IqTarget::Server, name: "query", ns: ns::REGISTER, run: register },
    ],
};

/// The rights of users over their accounts.
#[derive(Clone, Debug, Default)]
pub struct AccountSettings {
    /// Users may change their passwords (XEP-0077 §3.3).
    pub may_change_password: bool,
    /// Users may remove their accounts (XEP-0077 §3.2).
    pub may_remove: bool,
    /// The fewest bytes of a new password.
    pub min_password: usize,
    /// Domains whose passwords another service has: they are changed there.
    pub external: Vec<Box<str>>,
}

/// The reason why all sessions of an account end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionEndReason {
    /// Another password: the old credentials are void.
    Changed,
    /// The account was disabled.
    Disabled,
    /// The account was removed.
    Removed,
}

impl SessionEndReason {
    /// RFC 6120 §4.9.3.16 and §4.9.3.12; XEP-0077 §3.2.
    pub fn condition(self) -> &'static str {
        match self {
            SessionEndReason::Changed => "reset",
            SessionEndReason::Disabled | SessionEndReason::Removed => "not-authorized",
        }
    }
}

/// A change that a user makes of the account itself.
pub(super) enum AccountRequest {
    /// The account is removed.
    Remove,
    /// The account gets another password.
    SetPassword(Secret),
}

/// The handler of a request, for the domain and for the account.
fn register(view: &mut IqView<'_>, iq: &IqRequest<'_>) -> IqReply {
    check(view, iq).unwrap_or_else(IqReply::Error)
}

/// Checks a request against the settings: only a session of the account itself may make it.
fn check(view: &IqView<'_>, iq: &IqRequest<'_>) -> Result<IqReply, StanzaError> {
    let refused = |condition, text| Err(StanzaError::new(condition, text));
    let user = iq.from.bare();
    let is_ours =
        iq.session.is_some() && iq.to.domain() == user.domain() && !view.accounts.is_anonymous(&user);
    let (Some(key), Some(local), true) = (iq.session, user.local(), is_ours) else {
        return refused(Condition::NotAllowed, "only who has an account here changes it");
    };
    let child = |name: &'static str| Element::new(name, ns::REGISTER);
    if !iq.is_set {
        let query = child("query").child(child("registered")).child(child("username").text(local));
        return Ok(IqReply::Result(Some(query.child(child("password")))));
    }
    if iq.payload.get("remove", ns::REGISTER).is_some() {
        // §3.2: it stands alone, so that no account is removed by mistake.
        if iq.payload.elements().count() > 1 {
            return Err(Condition::BadRequest.into());
        }
        if !view.settings.accounts.may_remove {
            return refused(Condition::NotAllowed, "accounts are removed by the operator");
        }
        return Ok(IqReply::Perform(IqEffect::Register(key, AccountRequest::Remove)));
    }
    if view.settings.accounts.external.iter().any(|domain| **domain == *user.domain()) {
        return refused(
            Condition::NotAllowed,
            "passwords of this domain are changed by the service that has them",
        );
    }
    if !view.settings.accounts.may_change_password {
        return refused(Condition::NotAllowed, "passwords are changed by the operator");
    }
    // XEP-0077 §3.3 wants the name too: a client shows by it which account it means.
    let username = register_value(iq.payload, "username");
    let (Some(username), Some(password)) = (username, register_value(iq.payload, "password")) else {
        return refused(Condition::BadRequest, "username and password are needed");
    };
    if *username != *local {
        return refused(Condition::NotAllowed, "this username belongs to another account");
    }
    if password.len() < view.settings.accounts.min_password {
        return refused(Condition::NotAcceptable, "the password is too short");
    }
    Ok(IqReply::Perform(IqEffect::Register(key, AccountRequest::SetPassword(Secret(password)))))
}

/// Changes or removes the account of the session that asks, which gets the answer before it may end. Other
/// sessions end in either case: they hold credentials that are void.
pub(super) fn perform(
    store: &mut StoreRequests,
    (key, iq): (Key, &IqRequest<'_>),
    request: AccountRequest,
    out: &mut Outbox,
) {
    let (user, iq) = (iq.from.bare(), iq.iq.clone());
    let is_removal = matches!(request, AccountRequest::Remove);
    let access = match request {
        AccountRequest::Remove => Access::Remove { user: user.clone() },
        AccountRequest::SetPassword(password) => Access::Password { user: user.clone(), password },
    };
    store.access(access, out, move |host, now, result, out| {
        if let Err(error) = result {
            return outgoing::refuse(&iq, &not_written(error), out);
        }
        host.deliver(now, &[key], stanza::result(&iq, None), out);
        if is_removal {
            departed::tell_departed(&mut host.store, &user, out);
            return host.end_account(now, &user, SessionEndReason::Removed, &[], out);
        }
        // Clients that signed in by the old password need the new one (RFC 6120 §4.9.3.16).
        for other in host.accounts.keys_of(&user, |_| true).into_iter().filter(|other| *other != key) {
            connection::end_session(
                host,
                now,
                other,
                Some(SessionEndReason::Changed.condition().into()),
                out,
            );
        }
    });
}

/// Takes the data of an account that was removed out of memory: later writes for it would belong to the next account of that
/// name.
fn take_data(accounts: &mut AccountMemory, user: &Bare) -> Option<Box<AccountData>> {
    let known = accounts.users.get_mut(user).filter(|known| matches!(known.state, AccountState::Ready(_)));
    let state = known.map(|known| std::mem::replace(&mut known.state, AccountState::Absent));
    accounts.weigh(user);
    match state {
        Some(AccountState::Ready(data)) => Some(data),
        _ => None,
    }
}

impl Host {
    /// Ends the sessions of an account, those that wait to be resumed too. The contacts of a removed one are told: those that are in memory, else
    /// `kept`, which the store had. Rooms and nodes forget it by `HostAction::Departed`.
    pub fn end_account(
        &mut self,
        now: Instant,
        user: &Bare,
        ending: SessionEndReason,
        kept: &[(Bare, RosterItem)],
        out: &mut Outbox,
    ) {
        let keys = self.accounts.keys_of(user, |_| true);
        if ending == SessionEndReason::Removed {
            let data = take_data(&mut self.accounts, user);
            let contacts = data.as_ref().map_or(kept, |data| &data.roster[..]);
            tell_contacts_of_removed(self, now, user, contacts, out);
            // Its sessions end without data, so nothing else tells the members of its groups.
            let groups = Arc::clone(&self.accounts.groups);
            let blocked = Blocklist::new(data.as_ref().map(|data| &data.blocked[..]).unwrap_or_default());
            for (contact, subscription) in groups.contacts(user) {
                if subscription.has_from() && !blocked.has(contact.as_jid()) {
                    presence::send_unavailable(&self.accounts, &self.phones, user, contact.as_str(), out);
                }
            }
        }
        for key in keys {
            connection::end_session(self, now, key, Some(ending.condition().into()), out);
        }
    }
}

/// Tells the contacts of a removed account that all subscriptions have ended (RFC 6121 §3.2 and §3.3). Any host may do so: `roster` is the
/// store's where the account's own host is another node's.
pub fn tell_contacts_of_removed(
    host: &mut Host,
    now: Instant,
    user: &Bare,
    roster: &[(Bare, RosterItem)],
    out: &mut Outbox,
) {
    for (contact, item) in roster {
        host.roster.end_subscriptions(&host.accounts, (user, contact), item);
        roster::perform(host, now, (user, contact), out);
    }
}

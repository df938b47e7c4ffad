//! Changes by users of their own accounts: a new password and the removal (XEP-0077 §3.2 and §3.3). The
//! creation of accounts, before authentication, is in `c2s::register`.

use stdx::Instant;
use stdx::slab::Key;
use xmpp::c2s::register_value;
use xmpp::sasl::Secret;
use xmpp::stanza::{self, Condition, StanzaError};
use xmpp::{Bare, Element, Level, Specification, ns};

use super::change_queue::not_written;
use super::effect::{Access, RosterItem};
use super::feature::{Feature, IqHandler, IqHandlerFn, IqReply, IqRequest, IqTarget};
use super::user::AccountState;
use super::{Host, Outbox};
use crate::{connection, departed, roster};

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
        IqHandler { at: IqTarget::Own, name: "query", ns: ns::REGISTER, run: IqHandlerFn::Host(register) },
        IqHandler { at: IqTarget::Server, name: "query", ns: ns::REGISTER, run: IqHandlerFn::Host(register) },
    ],
};

/// The rights of users over their accounts.
#[derive(Clone, Debug, Default)]
pub struct AccountSettings {
    /// Users may change their passwords (XEP-0077 §3.3).
    pub may_change_password: bool,
    /// Users may remove their accounts (XEP-0077 §3.2).
    pub may_remove: bool,
    /// Bytes.
    pub min_password: usize,
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

fn register(host: &mut Host, now: Instant, iq: &IqRequest<'_>, out: &mut Outbox) -> IqReply {
    match asked(host, now, iq, out) {
        Ok(answer) => answer,
        Err(error) => IqReply::Error(error),
    }
}

fn asked(
    host: &mut Host,
    now: Instant,
    iq: &IqRequest<'_>,
    out: &mut Outbox,
) -> Result<IqReply, StanzaError> {
    let refused = |condition, text| Err(StanzaError::new(condition, text));
    let user = iq.from.bare();
    let is_ours =
        iq.session.is_some() && iq.to.domain() == user.domain() && !host.accounts.is_anonymous(&user);
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
        if !host.settings.accounts.may_remove {
            return refused(Condition::NotAllowed, "accounts are removed by the operator");
        }
        remove_account(host, key, iq.iq.clone(), user, out);
        return Ok(IqReply::Later);
    }
    if !host.settings.accounts.may_change_password {
        return refused(Condition::NotAllowed, "passwords are changed by the operator");
    }
    let username = register_value(iq.payload, "username");
    let (Some(username), Some(password)) = (username, register_value(iq.payload, "password")) else {
        return refused(Condition::BadRequest, "username and password are needed");
    };
    if *username != *local {
        return refused(Condition::NotAllowed, "this is somebody else's username");
    }
    if password.len() < host.settings.accounts.min_password {
        return refused(Condition::NotAcceptable, "the password is too short");
    }
    set_password(host, now, key, iq.iq.clone(), (user, Secret(password)), out);
    Ok(IqReply::Later)
}

fn set_password(
    host: &mut Host,
    _now: Instant,
    key: Key,
    iq: Element,
    (user, password): (Bare, Secret),
    out: &mut Outbox,
) {
    let access = Access::Password { user: user.clone(), password };
    host.store.access(access, out, move |host, now, result, out| {
        if let Err(error) = result {
            return host.refuse(&iq, &not_written(error), out);
        }
        host.deliver(now, key, stanza::result(&iq, None), out);
        // Clients that signed in by the old password need the new one (RFC 6120 §4.9.3.16).
        for other in host.accounts.keys_of(&user, |_| true).into_iter().filter(|other| *other != key) {
            connection::close_session(host, now, other, SessionEndReason::Changed.condition(), out);
        }
    });
}

fn remove_account(host: &mut Host, key: Key, iq: Element, user: Bare, out: &mut Outbox) {
    host.store.access(Access::Remove { user: user.clone() }, out, move |host, now, result, out| {
        if let Err(error) = result {
            return host.refuse(&iq, &not_written(error), out);
        }
        host.deliver(now, key, stanza::result(&iq, None), out);
        host.end_account(now, &user, SessionEndReason::Removed, &[], out);
    });
}

fn unfriend_all(host: &mut Host, now: Instant, user: &Bare, kept: &[(Bare, RosterItem)], out: &mut Outbox) {
    departed::tell_departed(&mut host.store, user, out);
    let known =
        host.accounts.users.get_mut(user).filter(|known| matches!(known.state, AccountState::Ready(_)));
    // Later writes for this account would belong to the next one of that name.
    let here = known.map(|known| std::mem::replace(&mut known.state, AccountState::Absent));
    host.accounts.weigh(user);
    let roster = match &here {
        Some(AccountState::Ready(data)) => &data.roster[..],
        _ => kept,
    };
    for (contact, item) in roster {
        roster::handle_removed(host, now, (user, contact), item, out);
    }
}

impl Host {
    /// Its sessions end, those that wait to be resumed too; the contacts of one that is no more are told: those it has
    /// in memory, else `kept`, which the store had.
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
            unfriend_all(self, now, user, kept, out);
        }
        for key in keys {
            connection::close_session(self, now, key, ending.condition(), out);
        }
    }
}

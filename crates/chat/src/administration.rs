//! Commands of administrators about accounts (XEP-0133 §4.1 to §4.10, §4.13 to §4.22). Those that change one
//! do it as the operator's commands do; sessions of a removed account end.
//!
//! The table [`COMMANDS`] has a function for each; `commands` has the forms and runs the function with the
//! submitted one. A function checks the form and returns the first step, whose continuation gets the store's
//! reply. The right to run commands was checked before (`HostSettings::admins`); that the accounts are of the
//! command's domain is checked here, in every function by way of [`account`].

use std::collections::HashSet;

use stdx::Instant;
use xmpp::sasl::Secret;
use xmpp::stanza::{Condition, StanzaError};
use xmpp::{Bare, Element, Jid, ns, time};

use super::commands::{self, Command, CommandEffect, CommandResult, Field, Form, MAX, field, form, value};
use super::effect::{AccountData, AccountList, Accounts, HostAction, OnlineFilter, SessionState};
use crate::limits;

/// The fields that name accounts; the registry of XEP-0133 §8.2 has their names. The last part says whether a
/// field is required.
const ONE: Field = ("accountjid", "jid-single", "The account's address", true);
const MANY: Field = ("accountjids", "jid-multi", "The accounts' addresses", true);
const PASSWORD: Field = ("password", "text-private", "Password", true);

/// The commands in the order in which service discovery lists them. `node` is the end of the command's node
/// (`http://jabber.org/protocol/admin#…`).
pub(super) const COMMANDS: &[Command] = &[
    Command {
        node: "add-user",
        name: "Add an account",
        fields: &[
            ONE,
            PASSWORD,
            ("password-verify", "text-private", "Password again", true),
            ("given_name", "text-single", "Given name", false),
            ("surname", "text-single", "Family name", false),
        ],
        run: add,
    },
    Command {
        node: "change-user-password",
        name: "Change an account's password",
        fields: &[ONE, PASSWORD],
        run: set_password,
    },
    Command { node: "delete-user", name: "Delete accounts", fields: &[MANY], run: delete },
    Command { node: "disable-user", name: "Disable accounts", fields: &[MANY], run: disable },
    Command { node: "get-active-users", name: "List active users", fields: MAX, run: list_active },
    Command { node: "get-active-users-num", name: "Count active users", fields: &[], run: count_active },
    Command {
        node: "get-disabled-users-list",
        name: "List disabled accounts",
        fields: MAX,
        run: list_disabled,
    },
    Command {
        node: "get-disabled-users-num",
        name: "Count disabled accounts",
        fields: &[],
        run: count_disabled,
    },
    Command { node: "get-idle-users", name: "List idle users", fields: MAX, run: list_idle },
    Command { node: "get-idle-users-num", name: "Count idle users", fields: &[], run: count_idle },
    Command { node: "get-registered-users-list", name: "List accounts", fields: MAX, run: list_registered },
    Command { node: "get-registered-users-num", name: "Count accounts", fields: &[], run: count_registered },
    Command {
        node: "get-user-lastlogin",
        name: "When an account was here last",
        fields: &[MANY],
        run: last_here,
    },
    Command { node: "get-user-roster", name: "An account's contacts", fields: &[MANY], run: roster },
    Command { node: "reenable-user", name: "Enable accounts again", fields: &[MANY], run: enable },
    Command { node: "user-stats", name: "An account's figures", fields: &[ONE], run: figures },
];

/// An account of the domain that the command is for.
fn account(form: &Form, text: &str) -> Result<Bare, StanzaError> {
    let jid = Jid::parse(text).map_err(|_| StanzaError::from(Condition::JidMalformed))?;
    if jid.local().is_none() {
        return Err(Condition::JidMalformed.into());
    }
    // A command is sent to a domain and acts on that domain's accounts: an administrator sees which domain a change is for.
    if jid.domain() != form.domain.domain() {
        return Err(StanzaError::new(Condition::NotAllowed, "not an address of this domain"));
    }
    Ok(jid.bare())
}

/// The one account of a form. A form without it is `jid-malformed`.
fn one(form: &Form) -> Result<Bare, StanzaError> {
    account(form, form.of("accountjid").first().map(|text| &**text).unwrap_or_default())
}

/// The accounts of a form that changes several, in its order, at most `limits::ACCOUNTS_AT_ONCE`.
fn many(form: &Form) -> Result<Vec<Bare>, StanzaError> {
    let mut accounts =
        form.of("accountjids").iter().map(|text| account(form, text)).collect::<Result<Vec<_>, _>>()?;
    // An account that is named twice would fail the second time.
    let mut named = HashSet::new();
    accounts.retain(|user| named.insert(user.clone()));
    if accounts.len() > limits::ACCOUNTS_AT_ONCE {
        return Err(StanzaError::new(Condition::PolicyViolation, "too many accounts at once"));
    }
    Ok(accounts)
}

/// The account that a command is about, with the field that names it: §4.10 has `accountjid`, §4.8 and §4.9 have
/// `accountjids`. The text shows answers for one account only, so one account is asked about at a time.
fn looked_at(form: &Form) -> Result<(Bare, &'static str, &'static str), StanzaError> {
    match form.of("accountjids") {
        [] => Ok((one(form)?, ONE.0, ONE.1)),
        [single] => Ok((account(form, single)?, MANY.0, MANY.1)),
        _ => Err(StanzaError::new(Condition::FeatureNotImplemented, "ask about one account at a time")),
    }
}

/// The first value of a field; empty without the field.
fn text_of(form: &Form, var: &str) -> Box<str> {
    form.of(var).first().cloned().unwrap_or_default()
}

/// Changes an account; the command is done then.
fn change(change: Accounts) -> CommandEffect {
    CommandEffect::Accounts(change, Box::new(|form, _| Ok(CommandEffect::Complete(form.done()))))
}

/// §4.1. The password is typed twice, and compared here as no client has to.
fn add(form: &Form) -> CommandResult {
    let user = one(form)?;
    let password = text_of(form, "password");
    if password != text_of(form, "password-verify") {
        return Err(StanzaError::new(Condition::BadRequest, "the passwords are not the same"));
    }
    let names = [text_of(form, "given_name"), text_of(form, "surname")];
    let name = names.iter().filter(|name| !name.is_empty()).map(|name| &**name).collect::<Vec<_>>().join(" ");
    Ok(change(Accounts::Add { user, password: Secret(password), name: name.into() }))
}

/// Sessions that signed in by the old password end, as after any change of it.
fn set_password(form: &Form) -> CommandResult {
    let user = one(form)?;
    Ok(change(Accounts::Password { user, password: Secret(text_of(form, "password")) }))
}

/// §4.2: with their data; sessions end with the write.
fn delete(form: &Form) -> CommandResult {
    Ok(change_accounts(form, many(form)?, 0, |user| Accounts::Remove { user }))
}

/// §4.3: they cannot sign in, and keep their data.
fn disable(form: &Form) -> CommandResult {
    Ok(change_accounts(form, many(form)?, 0, |user| Accounts::Disable { user, disabled: true }))
}

fn enable(form: &Form) -> CommandResult {
    Ok(change_accounts(form, many(form)?, 0, |user| Accounts::Disable { user, disabled: false }))
}

fn count_registered(form: &Form) -> CommandResult {
    count_accounts(form, false, "registeredusersnum")
}

fn list_registered(form: &Form) -> CommandResult {
    list_accounts(form, false, "registereduserjids")
}

fn count_disabled(form: &Form) -> CommandResult {
    count_accounts(form, true, "disabledusersnum")
}

fn list_disabled(form: &Form) -> CommandResult {
    list_accounts(form, true, "disableduserjids")
}

fn count_active(form: &Form) -> CommandResult {
    commands::count_users(form, OnlineFilter::Active, "activeusersnum")
}

fn list_active(form: &Form) -> CommandResult {
    commands::list_users(form, OnlineFilter::Active, "activeuserjids")
}

fn count_idle(form: &Form) -> CommandResult {
    commands::count_users(form, OnlineFilter::Idle, "idleusersnum")
}

/// §4.22 names the field as that of active users, and there is no other in the registry (§8.2).
fn list_idle(form: &Form) -> CommandResult {
    commands::list_users(form, OnlineFilter::Idle, "activeuserjids")
}

/// The time at which an account was here last (§4.9): now, if it has a session.
fn last_here(form: &Form) -> CommandResult {
    look_at_account(form, |now, data, sessions| {
        let last = match (data.last_seen.as_ref(), sessions.is_empty()) {
            (_, false) => time::stamp(now),
            (Some((at, _)), true) => time::stamp(*at),
            (None, true) => String::new(),
        };
        form_of(field("lastlogin", "text-single").child(value(&last)))
    })
}

/// The contacts of an account (§4.8).
fn roster(form: &Form) -> CommandResult {
    look_at_account(form, |_, data, _| {
        let listed = data.roster.iter().filter(|(_, item)| item.is_listed);
        let items = listed.map(|(contact, item)| item.element(contact));
        form_of(Element::new("query", ns::ROSTER).children(items))
    })
}

/// The figures of an account: contacts, sessions, messages that wait (§4.10).
fn figures(form: &Form) -> CommandResult {
    look_at_account(form, |_, data, sessions| {
        let listed = data.roster.iter().filter(|(_, item)| item.is_listed).count();
        let resources = sessions.iter().filter_map(|session| session.jid.resource()).map(value);
        // §4.10 has several resources in a field that is `text-single` in the registry: of a result, types may be left out
        // (XEP-0004 §3.2).
        let resources = Element::new("field", ns::DATA).with("var", "onlineresources").children(resources);
        form_of(field("rostersize", "text-single").child(value(&listed.to_string())))
            .child(resources)
            .child(field(WAITING, "text-single").child(value(&data.offline.to_string())))
    })
}

/// A field that no form of XEP-0133 has: its name says so, as XEP-0068 §3.3 has it.
const WAITING: &str = "{urn:belfry:admin}offlinemessages";

/// A form of a result with a first field.
fn form_of(first: Element) -> Element {
    form("result").child(first)
}

/// Changes one account after the other, each by its own request: after one that fails the later ones stay
/// unchanged, and the answer is that error.
fn change_accounts(
    form: &Form,
    users: Vec<Bare>,
    done: usize,
    change: fn(Bare) -> Accounts,
) -> CommandEffect {
    match users.get(done).cloned() {
        Some(user) => {
            let next = move |form: &Form, _| Ok(change_accounts(form, users, done + 1, change));
            CommandEffect::Accounts(change(user), Box::new(next))
        }
        // The sessions of a disabled account end with the write, however it was made.
        None => CommandEffect::Complete(form.done()),
    }
}

/// Counts the accounts of the domain. The store counts, so no list is read.
fn count_accounts(form: &Form, is_disabled: bool, var: &'static str) -> CommandResult {
    // §4.13 to §4.15 have no `max_items`; a form with one that is no number is refused all the same.
    form.max_items()?;
    let ask = Accounts::List { domain: form.domain.domain().into(), is_disabled, max: 0 };
    let count = move |form: &Form, listed: AccountList| {
        let field = field(var, "text-single").child(value(&listed.total.to_string()));
        Ok(CommandEffect::Complete(form.done().child(form_of(field))))
    };
    Ok(CommandEffect::Accounts(ask, Box::new(count)))
}

/// Lists the accounts of the domain, as many as the form asks for.
fn list_accounts(form: &Form, is_disabled: bool, var: &'static str) -> CommandResult {
    let ask = Accounts::List { domain: form.domain.domain().into(), is_disabled, max: form.max_items()? };
    let list = move |form: &Form, listed: AccountList| {
        let users = listed.accounts.iter().map(|user| value(user.as_str()));
        Ok(CommandEffect::Complete(form.done().child(form_of(field(var, "jid-multi").children(users)))))
    };
    Ok(CommandEffect::Accounts(ask, Box::new(list)))
}

/// Answers a command with a description of an account, its data and its sessions. Two steps: the store reads
/// the account, then all hosts are asked for its sessions, as another host than this one may own it.
fn look_at_account(
    form: &Form,
    describe: fn(Instant, &AccountData, &[SessionState]) -> Element,
) -> CommandResult {
    let (user, var, kind) = looked_at(form)?;
    let owner = user.clone();
    let read = move |now, data: Box<AccountData>| {
        let jid = Some(owner.clone().into_jid());
        let action = HostAction::Sessions { jid, max: limits::ONLINE_LIST };
        Ok(CommandEffect::act(action, move |form, acted| {
            let account = field(var, kind).child(value(owner.as_str()));
            let mut description = describe(now, &data, &acted.described);
            description.push(account);
            Ok(form.done().child(description))
        }))
    };
    Ok(CommandEffect::ReadAccount(user, Box::new(read)))
}

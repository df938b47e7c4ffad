//! Commands of administrators about accounts (XEP-0133 §4.1 to §4.10, §4.13 to §4.22). Those that change one do it as the
//! operator's commands do; sessions of a removed account end.

use stdx::Instant;
use xmpp::sasl::Secret;
use xmpp::stanza::{Condition, StanzaError};
use xmpp::{Bare, Element, Jid, ns, time};

use super::commands::{Command, Field, Form, MAX, field, form, value};
use super::effect::{
    AccountData, AccountList, AccountRefusal, Accounts, HostAction, Load, OnlineFilter, SessionState,
    StoreFailure, StoreReply,
};
use super::{Host, Outbox};
use crate::{commands, limits};

const ONE: Field = ("accountjid", "jid-single", "The account's address", true);
const MANY: Field = ("accountjids", "jid-multi", "The accounts' addresses", true);
const PASSWORD: Field = ("password", "text-private", "Password", true);

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
    if jid.domain() != form.domain.domain() {
        return Err(StanzaError::new(Condition::NotAllowed, "not an address of this domain"));
    }
    Ok(jid.bare())
}

fn one(form: &Form) -> Result<Bare, StanzaError> {
    account(form, form.of("accountjid").first().map(|text| &**text).unwrap_or_default())
}

fn many(form: &Form) -> Result<Vec<Bare>, StanzaError> {
    let mut accounts =
        form.of("accountjids").iter().map(|text| account(form, text)).collect::<Result<Vec<_>, _>>()?;
    accounts.dedup();
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

fn text_of(form: &Form, var: &str) -> Box<str> {
    form.of(var).first().cloned().unwrap_or_default()
}

fn add(host: &mut Host, _now: Instant, form: &Form, out: &mut Outbox) {
    let user = match one(form) {
        Ok(user) => user,
        Err(error) => return host.refuse(&form.iq, &error, out),
    };
    let password = text_of(form, "password");
    if password != text_of(form, "password-verify") {
        let error = StanzaError::new(Condition::BadRequest, "the passwords are not the same");
        return host.refuse(&form.iq, &error, out);
    }
    let names = [text_of(form, "given_name"), text_of(form, "surname")];
    let name = names.iter().filter(|name| !name.is_empty()).map(|name| &**name).collect::<Vec<_>>().join(" ");
    let ask = Accounts::Add { user, password: Secret(password), name: name.into() };
    administer(host, ask, form, out, |host, _, form, out| host.answer(&form.iq, Ok(Some(form.done())), out));
}

fn set_password(host: &mut Host, _now: Instant, form: &Form, out: &mut Outbox) {
    let user = match one(form) {
        Ok(user) => user,
        Err(error) => return host.refuse(&form.iq, &error, out),
    };
    let ask = Accounts::Password { user, password: Secret(text_of(form, "password")) };
    // Sessions that signed in by the old password end, as after any change of it.
    administer(host, ask, form, out, |host, _, form, out| host.answer(&form.iq, Ok(Some(form.done())), out));
}

fn delete(host: &mut Host, _now: Instant, form: &Form, out: &mut Outbox) {
    for_each_account(host, form, out, |user| Accounts::Remove { user });
}

fn disable(host: &mut Host, _now: Instant, form: &Form, out: &mut Outbox) {
    for_each_account(host, form, out, |user| Accounts::Disable { user, disabled: true });
}

fn enable(host: &mut Host, _now: Instant, form: &Form, out: &mut Outbox) {
    for_each_account(host, form, out, |user| Accounts::Disable { user, disabled: false });
}

fn count_registered(host: &mut Host, _now: Instant, form: &Form, out: &mut Outbox) {
    list_accounts(host, form, out, (false, "registeredusersnum"), false);
}

fn list_registered(host: &mut Host, _now: Instant, form: &Form, out: &mut Outbox) {
    list_accounts(host, form, out, (false, "registereduserjids"), true);
}

fn count_disabled(host: &mut Host, _now: Instant, form: &Form, out: &mut Outbox) {
    list_accounts(host, form, out, (true, "disabledusersnum"), false);
}

fn list_disabled(host: &mut Host, _now: Instant, form: &Form, out: &mut Outbox) {
    list_accounts(host, form, out, (true, "disableduserjids"), true);
}

fn count_active(host: &mut Host, _now: Instant, form: &Form, out: &mut Outbox) {
    commands::count_users(host, form, out, (OnlineFilter::Active, "activeusersnum"));
}

fn list_active(host: &mut Host, _now: Instant, form: &Form, out: &mut Outbox) {
    commands::list_users(host, form, out, (OnlineFilter::Active, "activeuserjids"));
}

fn count_idle(host: &mut Host, _now: Instant, form: &Form, out: &mut Outbox) {
    commands::count_users(host, form, out, (OnlineFilter::Idle, "idleusersnum"));
}

/// §4.22 names the field as that of active users, and there is no other in the registry (§8.2).
fn list_idle(host: &mut Host, _now: Instant, form: &Form, out: &mut Outbox) {
    commands::list_users(host, form, out, (OnlineFilter::Idle, "activeuserjids"));
}

/// §4.9. An account with a session was last active now.
fn last_here(host: &mut Host, _now: Instant, form: &Form, out: &mut Outbox) {
    look_at_account(host, form, out, |now, data, sessions| {
        let last = match (data.last_seen.as_ref(), sessions.is_empty()) {
            (_, false) => time::stamp(now),
            (Some((at, _)), true) => time::stamp(*at),
            (None, true) => String::new(),
        };
        form_of(field("lastlogin", "text-single").child(value(&last)))
    });
}

/// §4.8.
fn roster(host: &mut Host, _now: Instant, form: &Form, out: &mut Outbox) {
    look_at_account(host, form, out, |_, data, _| {
        let listed = data.roster.iter().filter(|(_, item)| item.is_listed);
        let items = listed.map(|(contact, item)| item.element(contact));
        form_of(Element::new("query", ns::ROSTER).children(items))
    });
}

/// §4.10.
fn figures(host: &mut Host, _now: Instant, form: &Form, out: &mut Outbox) {
    look_at_account(host, form, out, |_, data, sessions| {
        let listed = data.roster.iter().filter(|(_, item)| item.is_listed).count();
        let resources = sessions.iter().filter_map(|session| session.jid.resource()).map(value);
        // §4.10 has several resources in a field that is `text-single` in the registry: of a result, types may be left out
        // (XEP-0004 §3.2).
        let resources = Element::new("field", ns::DATA).with("var", "onlineresources").children(resources);
        form_of(field("rostersize", "text-single").child(value(&listed.to_string())))
            .child(resources)
            .child(field(WAITING, "text-single").child(value(&data.offline.to_string())))
    });
}

/// In no form of XEP-0133: as XEP-0068 §3.3 has it, the name says so.
const WAITING: &str = "{urn:belfry:admin}offlinemessages";

fn form_of(first: Element) -> Element {
    form("result").child(first)
}

fn error_of(not_done: &AccountRefusal) -> StanzaError {
    match not_done {
        AccountRefusal::Exists => {
            StanzaError::new(Condition::Conflict, "there is such an account, or another name like it")
        }
        AccountRefusal::Invalid(why) => StanzaError::new(Condition::NotAcceptable, why),
    }
}

fn store_failure(error: StoreFailure) -> StanzaError {
    match error {
        StoreFailure::NotFound => Condition::ItemNotFound.into(),
        StoreFailure::Unavailable | StoreFailure::Beyond => {
            StanzaError::new(Condition::ResourceConstraint, "not now: try again later")
        }
    }
}

/// `then` goes on when it is done.
fn administer(
    host: &mut Host,
    ask: Accounts,
    form: &Form,
    out: &mut Outbox,
    then: impl FnOnce(&mut Host, AccountList, &Form, &mut Outbox) + 'static,
) {
    let form = form.clone();
    host.store.load(Load::Accounts(Box::new(ask)), out, move |host, _, result, out| match result {
        Ok(StoreReply::Accounts(Ok(listed))) => then(host, listed, &form, out),
        Ok(StoreReply::Accounts(Err(not_done))) => host.refuse(&form.iq, &error_of(&not_done), out),
        Ok(_) => host.refuse(&form.iq, &Condition::InternalServerError.into(), out),
        Err(error) => host.refuse(&form.iq, &store_failure(error), out),
    });
}

/// One after the other: the accounts after one that fails stay unchanged.
fn for_each_account(host: &mut Host, form: &Form, out: &mut Outbox, ask: fn(Bare) -> Accounts) {
    match many(form) {
        Ok(users) => change_accounts(host, users, 0, form, out, ask),
        Err(error) => host.refuse(&form.iq, &error, out),
    }
}

fn change_accounts(
    host: &mut Host,
    users: Vec<Bare>,
    done: usize,
    form: &Form,
    out: &mut Outbox,
    ask: fn(Bare) -> Accounts,
) {
    match users.get(done).cloned() {
        Some(user) => administer(host, ask(user), form, out, move |host, _, form, out| {
            change_accounts(host, users, done + 1, form, out, ask);
        }),
        // The sessions of a disabled account end with the write, however it was made.
        None => host.answer(&form.iq, Ok(Some(form.done())), out),
    }
}

fn list_accounts(
    host: &mut Host,
    form: &Form,
    out: &mut Outbox,
    (is_disabled, var): (bool, &'static str),
    is_list: bool,
) {
    let max = match form.max_items() {
        Ok(max) if is_list => max,
        Ok(_) => 0,
        Err(error) => return host.refuse(&form.iq, &error, out),
    };
    let ask = Accounts::List { domain: form.domain.domain().into(), is_disabled, max };
    administer(host, ask, form, out, move |host, listed, form, out| {
        let field = match is_list {
            true => field(var, "jid-multi").children(listed.accounts.iter().map(|user| value(user.as_str()))),
            false => field(var, "text-single").child(value(&listed.total.to_string())),
        };
        host.answer(&form.iq, Ok(Some(form.done().child(form_of(field)))), out);
    });
}

/// Answers a command with a description of an account, its data and its sessions.
fn look_at_account(
    host: &mut Host,
    form: &Form,
    out: &mut Outbox,
    tell: fn(Instant, &AccountData, &[SessionState]) -> Element,
) {
    let (user, var, kind) = match looked_at(form) {
        Ok(user) => user,
        Err(error) => return host.refuse(&form.iq, &error, out),
    };
    let form = form.clone();
    host.store.load(Load::User { user: user.clone() }, out, move |host, now, result, out| {
        let data = match result {
            Ok(StoreReply::User(Some(data))) => data,
            Ok(_) => return host.refuse(&form.iq, &Condition::ItemNotFound.into(), out),
            Err(error) => return host.refuse(&form.iq, &store_failure(error), out),
        };
        let who = Some(user.clone().into_jid());
        let act = HostAction::Sessions { who, max: limits::ONLINE_LIST };
        commands::act_everywhere(host, act, &form, out, move |form, acted| {
            let account = field(var, kind).child(value(user.as_str()));
            let mut told = tell(now, &data, &acted.described);
            told.push(account);
            Ok(form.done().child(told))
        });
    });
}

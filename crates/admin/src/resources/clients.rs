//! Clients: phones of an account. Each is an account of the record, which signs in with its login.
//!
//! A client is two rows: of the resources, and of the accounts. One transaction makes both, and one removes both, whichever interface removes the
//! account. A change of the account is written as the client's (`Write::OfClient`): it fails where the address has another account by now.

use store::rest::types::Client;
use store::rest::{Kind, Resource as _, RestFilter};
use store::{Account, AccountLimits, Address, Loaded, NewAccount, Read, Write};

use crate::fault::Fault;
use crate::paging::{self, PAGING};
use crate::table::{Answer, Context, Parameter, Route, Shape};
use crate::value::Value;

use super::{
    NONE, check_operator, choice, created, hook, int, last, method_value, own, set_hook, text, updated, uri,
    version,
};

const FIELDS: &[Parameter] = &[text("FriendlyName"), text("Password"), choice("Status", &["0", "1"])];
/// The largest limit that can be set; more is no limit.
const MOST: u32 = 1_000_000;
/// `Deny` may be repeated: numbers, prefixes and globs, as `belfry account set --deny` takes them.
const LIMITS: &[Parameter] =
    &[int("MaxContacts", 0, MOST), int("MaxCalls", 0, MOST), int("MaxRate", 0, MOST), text("Deny")];
const LOGIN: &[Parameter] = &[text("Login")];
const VOICE: &[Parameter] = hook!("Voice");

pub(crate) const ROUTES: &[Route] = &[
    Route {
        method: "GET",
        path: "/Accounts/{AccountSid}/Clients",
        summary: "Clients, by login when one is given",
        parameters: &[LOGIN, PAGING],
        answer: Shape::List("clients", example),
        handler: list,
    },
    Route {
        method: "POST",
        path: "/Accounts/{AccountSid}/Clients",
        summary: "Make a client, which may sign in at once",
        parameters: &[LOGIN, FIELDS, VOICE],
        answer: Shape::Item(201, "Client", example),
        handler: create,
    },
    Route {
        method: "GET",
        path: "/Accounts/{AccountSid}/Clients/{Sid}",
        summary: "A client",
        parameters: NONE,
        answer: Shape::Item(200, "Client", example),
        handler: |context| Ok(item(context, 200, &own(context, last(context))?)),
    },
    Route {
        method: "POST",
        path: "/Accounts/{AccountSid}/Clients/{Sid}",
        summary: "Change a client's name, password, status or application",
        parameters: &[FIELDS, VOICE],
        answer: Shape::Item(200, "Client", example),
        handler: update,
    },
    Route {
        method: "DELETE",
        path: "/Accounts/{AccountSid}/Clients/{Sid}",
        summary: "Delete a client; it signs in no more",
        parameters: NONE,
        answer: Shape::Nothing,
        handler: delete,
    },
    Route {
        method: "GET",
        path: "/Accounts/{AccountSid}/Clients/{Sid}/Limits",
        summary: "How many calls a client may have and place, and what it may not call",
        parameters: NONE,
        answer: Shape::Item(200, "Limits", example_limits),
        handler: |context| {
            let client: Client = own(context, last(context))?;
            limits_item(context, &client, &limits_of(context, &client)?)
        },
    },
    Route {
        method: "POST",
        path: "/Accounts/{AccountSid}/Clients/{Sid}/Limits",
        summary: "Change these limits, as the first account; what is given empty is no limit",
        parameters: &[LIMITS],
        answer: Shape::Item(200, "Limits", example_limits),
        handler: set_limits,
    },
];

fn list(context: &Context<'_>) -> Result<Answer, Fault> {
    let filter = RestFilter {
        name: context.text("Login").map(Box::from),
        ..paging::of_account(context, Kind::Client)
    };
    paging::rows(context, filter, ("clients", "Client"), |context, client| render(Some(context), client))
}

/// The address of the client's SIP account.
fn address(client: &Client) -> Result<Address, Fault> {
    Ok(client.address()?)
}

/// Writes to the client's account.
fn write(context: &Context<'_>, client: &Client, write: Write) -> Result<(), Fault> {
    let write = Write::OfClient { sid: client.common.sid.as_str().into(), write: Box::new(write) };
    Ok(context.state.repository.write(write).map(drop)?)
}

/// Accounts with a role at the console, and administrators of chat, are changed with the token of the first account only: with the password of
/// one an account below it, or a lost key, would have its rights.
fn check_may_change(context: &Context<'_>, client: &Client) -> Result<(), Fault> {
    let is_operator = context.signer.parent.is_none() && !context.is_by_key;
    if is_operator || !context.state.control.is_privileged(&address(client)?) {
        return Ok(());
    }
    let why = format!("{} has a role at this server: only the first account changes it", client.login);
    Err(Fault::new(403, 20403, why))
}

/// The client, which REST shows, and the SIP account, which signs in.
fn create(context: &Context<'_>) -> Result<Answer, Fault> {
    let required =
        |name| context.text(name).ok_or_else(|| Fault::invalid(20400, format!("{name} is required")));
    let (login, password) = (required("Login")?, required("Password")?);
    let mut client = Client {
        common: context.state.common("CL", &context.account),
        login: login.to_owned(),
        domain: context.state.domain.to_string(),
        friendly_name: login.to_owned(),
        status: "1".into(),
        ..Client::default()
    };
    check_may_change(context, &client)?;
    change(context, &mut client)?;
    let account = NewAccount {
        display_name: client.friendly_name.as_str().into(),
        ..with_password(context, &client, password)?
    };
    let add = Write::AddClient {
        row: Box::new(client.row()?),
        account: Box::new(account),
        disabled: client.status == "0",
    };
    context.state.repository.write(add)?;
    Ok(item(context, 201, &client))
}

/// Phones prove it by its hashes, chat clients by keys of SCRAM.
fn with_password(context: &Context<'_>, client: &Client, password: &str) -> Result<NewAccount, Fault> {
    let made_at = client.common.created_at;
    let mut account = NewAccount::with_password(address(client)?, password, made_at)?;
    account.verifiers = account.verifiers.with_scram(&(context.state.keys)(password));
    Ok(account)
}

/// Sets the fields of the client's own row whose parameters are given.
fn change(context: &Context<'_>, client: &mut Client) -> Result<(), Fault> {
    context.set("FriendlyName", &mut client.friendly_name);
    if let Some(status) = context.text("Status") {
        status.clone_into(&mut client.status);
    }
    set_hook(context, "Voice", &mut client.voice, &client.common.account)
}

/// The SIP account is written before the client's row: if its write is refused, the row still shows what is in force.
fn update(context: &Context<'_>) -> Result<Answer, Fault> {
    let mut client: Client = own(context, last(context))?;
    check_may_change(context, &client)?;
    let before = client.clone();
    change(context, &mut client)?;
    let disabled = changed_status(context, &before)?;
    if let Some(password) = context.text("Password") {
        let NewAccount { address: account, verifiers, .. } = with_password(context, &client, password)?;
        write(context, &client, Write::SetVerifiers { account, verifiers })?;
    }
    if client.friendly_name != before.friendly_name {
        let display_name = client.friendly_name.as_str().into();
        write(context, &client, Write::SetDisplayName { account: address(&client)?, display_name })?;
    }
    if let Some(disabled) = disabled {
        write(context, &client, Write::SetDisabled { account: address(&client)?, disabled })?;
    }
    client.common.updated_at = context.state.now();
    context.state.replace(&client)?;
    Ok(item(context, 200, &client))
}

/// Whether to disable or enable the account; `None`: it is as `Status` asks, or that is not given. One that an operator has disabled, and not
/// this interface, stays so.
fn changed_status(context: &Context<'_>, before: &Client) -> Result<Option<bool>, Fault> {
    let Some(status) = context.text("Status") else { return Ok(None) };
    let account = account_of(context, before)?;
    if account.disabled && before.status == "1" {
        let why = "The operator of this server has disabled the client's account";
        check_operator(context, why)?;
    }
    let disabled = status == "0";
    Ok((disabled != account.disabled).then_some(disabled))
}

/// The SIP account and the client go together.
fn delete(context: &Context<'_>) -> Result<Answer, Fault> {
    let client: Client = own(context, last(context))?;
    check_may_change(context, &client)?;
    match write(context, &client, Write::RemoveAccount { account: address(&client)? }) {
        // A version before left the client when its account was removed: the address may have another account by now.
        Err(fault) if fault.status == 404 => context.state.remove(Kind::Client, &client.common.sid)?,
        done => done?,
    }
    Ok(Answer::Nothing)
}

/// The client's SIP account. 404 where it is gone, or the address has another one by now.
fn account_of(context: &Context<'_>, client: &Client) -> Result<Account, Fault> {
    let Address { user, domain } = address(client)?;
    match context.state.repository.read(Read::Account { user, domain })? {
        // An alias has the name of another account.
        Loaded::Account(Some(account))
            if *account.name == client.login && client.is_made_with(account.created_at) =>
        {
            Ok(*account)
        }
        _ => Err(Fault::not_found(&client.login)),
    }
}

/// The limits are fields of the SIP account, which `belfry account set` changes, too.
fn limits_of(context: &Context<'_>, client: &Client) -> Result<AccountLimits, Fault> {
    Ok(account_of(context, client)?.limits)
}

/// Fraud control is the operator's: an account that was taken over must not lift the limits of its own phones.
fn set_limits(context: &Context<'_>) -> Result<Answer, Fault> {
    check_operator(context, "Limits of clients are set by the first account")?;
    let client: Client = own(context, last(context))?;
    let mut limits = limits_of(context, &client)?;
    let set = |name: &str, limit: &mut Option<u32>| {
        // Given empty, a parameter removes the limit.
        if context.given(name).is_some() {
            *limit = context.int(name);
        }
    };
    set("MaxContacts", &mut limits.max_contacts);
    set("MaxCalls", &mut limits.max_calls);
    set("MaxRate", &mut limits.max_rate);
    if context.given("Deny").is_some() {
        let patterns = context.all("Deny").map(str::trim).filter(|pattern| !pattern.is_empty());
        limits.deny = patterns.map(Box::from).collect();
    }
    if let Some(wrong) = limits.deny.iter().find(|pattern| !is_pattern(pattern)) {
        return Err(Fault::invalid(
            20400,
            format!("Deny: expected a number, a prefix or a glob, not {wrong:?}"),
        ));
    }
    write(context, &client, Write::SetLimits { account: address(&client)?, limits: limits.clone() })?;
    limits_item(context, &client, &limits)
}

/// No regular expressions: they would be compiled for each call.
fn is_pattern(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_alphanumeric() || "+*?-._".contains(c))
}

fn limits_item(context: &Context<'_>, client: &Client, limits: &AccountLimits) -> Result<Answer, Fault> {
    Ok(Answer::Item(200, "Limits", render_limits(Some(context), client, limits)))
}

/// No limit is null.
fn render_limits(context: Option<&Context<'_>>, client: &Client, limits: &AccountLimits) -> Value {
    let number = |limit: Option<u32>| limit.map_or(Value::Null, |limit| Value::Text(limit.to_string()));
    Value::Object(vec![
        ("client_sid", Value::text(&client.common.sid)),
        ("account_sid", Value::text(&client.common.account)),
        ("max_contacts", number(limits.max_contacts)),
        ("max_calls", number(limits.max_calls)),
        ("max_rate", number(limits.max_rate)),
        ("deny", Value::text(&limits.deny.join(","))),
        uri(context, &format!("/Clients/{}/Limits", client.common.sid)),
    ])
}

fn example_limits() -> Value {
    render_limits(None, &Client::default(), &AccountLimits::default())
}

fn item(context: &Context<'_>, status: u16, client: &Client) -> Answer {
    Answer::Item(status, "Client", render(Some(context), client))
}

fn render(context: Option<&Context<'_>>, client: &Client) -> Value {
    let Client { common, voice, .. } = client;
    Value::Object(vec![
        ("sid", Value::text(&common.sid)),
        created(common),
        updated(common),
        ("account_sid", Value::text(&common.account)),
        version(context),
        ("friendly_name", Value::text(&client.friendly_name)),
        ("login", Value::text(&client.login)),
        ("status", Value::text(&client.status)),
        ("voice_url", Value::text(&voice.url)),
        ("voice_method", method_value(&voice.method)),
        ("voice_fallback_url", Value::text(&voice.fallback_url)),
        ("voice_fallback_method", method_value(&voice.fallback_method)),
        ("voice_application_sid", Value::text(&voice.application_sid)),
        uri(context, &format!("/Clients/{}", common.sid)),
    ])
}

fn example() -> Value {
    render(None, &Client::default())
}

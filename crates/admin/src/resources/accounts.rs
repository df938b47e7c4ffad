//! Accounts and sub-accounts. A token is shown once: when the account is made, or given a new one.
//!
//! A tree: each account is made by the one above it, which also changes its status. The account of the signer can be read and renamed, but not
//! suspended, by itself.

use store::rest::types::{Common, RestAccount};
use store::rest::{Kind, RestFilter};

use crate::fault::Fault;
use crate::first::{new_account, set_token};
use crate::limits;
use crate::paging::{self, PAGING};
use crate::service;
use crate::table::{Answer, Context, Parameter, Route, Shape};
use crate::value::Value;

use super::{NONE, choice, created, last, text, updated};

/// Twilio's words.
const STATUS: &[&str] = &["active", "suspended", "closed"];

/// COMPAT(RestComm): `Password` and `Auth_Token` belong to its own accounts; a new token is asked for by `RenewToken`.
const CREATE: &[Parameter] = &[text("FriendlyName"), text("EmailAddress"), text("SigningKey")];
const UPDATE: &[Parameter] = &[
    text("FriendlyName"),
    text("EmailAddress"),
    choice("Status", STATUS),
    super::flag("RenewToken"),
    text("SigningKey"),
];
const LIST: &[Parameter] = &[text("FriendlyName"), choice("Status", STATUS)];

pub(crate) const ROUTES: &[Route] = &[
    Route {
        method: "GET",
        path: "/Accounts",
        summary: "The account that signs in, and those below it",
        parameters: &[LIST, PAGING],
        answer: Shape::List("accounts", example),
        handler: list,
    },
    Route {
        method: "POST",
        path: "/Accounts",
        summary: "Make a sub-account; the answer shows its token, once",
        parameters: &[CREATE],
        answer: Shape::Item(201, "Account", example),
        handler: create,
    },
    Route {
        method: "GET",
        path: "/Accounts/{AccountSid}",
        summary: "An account, by sid or e-mail address",
        parameters: NONE,
        answer: Shape::Item(200, "Account", example),
        handler: |context| Ok(item(context, 200, &context.account, None)),
    },
    Route {
        method: "POST",
        path: "/Accounts/{AccountSid}",
        summary: "Rename, suspend, close, or give a new token",
        parameters: &[UPDATE],
        answer: Shape::Item(200, "Account", example),
        handler: update,
    },
    Route {
        method: "DELETE",
        path: "/Accounts/{AccountSid}",
        summary: "Close a sub-account",
        parameters: NONE,
        answer: Shape::Nothing,
        handler: close,
    },
];

/// The account itself and its sub-accounts, as Twilio's list has them.
fn list(context: &Context<'_>) -> Result<Answer, Fault> {
    let filter = RestFilter {
        status: context.text("Status").map(Box::from),
        ..paging::of_account(context, Kind::Account)
    };
    let names = ("accounts", "Account");
    if let Some(name) = context.text("FriendlyName") {
        // Not a column: an account has few sub-accounts.
        let (rows, _) = context.state.list(filter)?;
        let accounts =
            rows.iter().map(store::rest::Resource::from_row).collect::<Result<Vec<RestAccount>, _>>()?;
        let named: Vec<RestAccount> =
            accounts.into_iter().filter(|account| account.friendly_name == name).collect();
        return Ok(paging::slice(context, &named, names, |_, account| render(Some(context), account, None)));
    }
    paging::rows(context, filter, names, |context, account: &RestAccount| {
        render(Some(context), account, None)
    })
}

/// A sub-account of the signer. Its token is in this answer only: the database has a verifier of it.
fn create(context: &Context<'_>) -> Result<Answer, Fault> {
    let signer = &context.signer;
    // The accounts above the new one are counted: sign-in visits each of them at every request.
    let mut above = signer.parent.clone();
    for _ in 0..limits::MAX_DEPTH - 1 {
        let Some(parent) = above else { break };
        above = context.state.get::<RestAccount>(&parent)?.and_then(|account| account.parent);
    }
    if above.is_some() {
        let most = limits::MAX_DEPTH;
        return Err(Fault::invalid(20400, format!("Accounts stand at most {most} above one another")));
    }
    let name = context.text("FriendlyName").unwrap_or("SubAccount");
    let (mut account, token) = new_account(&*context.state.control, Some(&signer.common.sid), name);
    set_email(context, &mut account)?;
    set_signing_key(context, &mut account, false)?;
    context.state.insert(&account)?;
    Ok(item(context, 201, &account, Some(&token)))
}

/// The e-mail address signs in like the sid, so it contains no colon: that ends the name in Basic authentication
/// (RFC 7617 §2).
fn set_email(context: &Context<'_>, account: &mut RestAccount) -> Result<(), Fault> {
    context.set("EmailAddress", &mut account.email);
    if !account.email.is_empty() && (!account.email.contains('@') || account.email.contains(':')) {
        return Err(Fault::invalid(20400, "EmailAddress: expected name@domain"));
    }
    Ok(())
}

/// Name, e-mail address, status, token and signing key: each only if it is given.
fn update(context: &Context<'_>) -> Result<Answer, Fault> {
    let mut account = context.account.clone();
    context.set("FriendlyName", &mut account.friendly_name);
    set_email(context, &mut account)?;
    if let Some(status) = context.text("Status") {
        set_status(context, &mut account, status)?;
    }
    let renews = context.flag("RenewToken") == Some(true);
    set_signing_key(context, &mut account, renews)?;
    let token = renews.then(|| service::token(&*context.state.control));
    if let Some(token) = &token {
        set_token(&mut account, token, &*context.state.control);
        // An empty key asks for the token to sign, and this is the only moment at which the token is known.
        if context.given("SigningKey") == Some("") {
            token.clone_into(&mut account.signing_key);
        }
    }
    account.common.updated_at = context.state.now();
    context.state.replace(&account)?;
    Ok(item(context, 200, &account, token.as_deref()))
}

/// A key of its own instead of the token. Empty: the token again, which the record has only where it signs.
fn set_signing_key(context: &Context<'_>, account: &mut RestAccount, renews: bool) -> Result<(), Fault> {
    let Some(key) = context.given("SigningKey") else { return Ok(()) };
    if key.is_empty() {
        let has_token = renews || account.is_signed_by_token();
        let message =
            "SigningKey is empty: the token signs again only with RenewToken=true, as it is not stored";
        return if has_token { Ok(()) } else { Err(Fault::invalid(20400, message)) };
    }
    let is_good = key.bytes().all(|byte| byte.is_ascii_graphic()) && limits::SIGNING_KEY.contains(&key.len());
    if !is_good {
        let (least, most) = (limits::SIGNING_KEY.start(), limits::SIGNING_KEY.end());
        return Err(Fault::invalid(
            20400,
            format!("SigningKey: expected {least} to {most} visible ASCII characters"),
        ));
    }
    key.clone_into(&mut account.signing_key);
    Ok(())
}

/// An account cannot change its own status, and a closed account stays closed.
fn set_status(context: &Context<'_>, account: &mut RestAccount, status: &str) -> Result<(), Fault> {
    if account.common.sid == context.signer.common.sid && status != account.status {
        return Err(Fault::new(403, 20006, "An account's own status is changed by its parent"));
    }
    if account.status == "closed" && status != "closed" {
        return Err(Fault::invalid(20400, "A closed account stays closed"));
    }
    status.clone_into(&mut account.status);
    Ok(())
}

/// RestComm's DELETE closes an account: its rows stay, and its calls, messages and sign-ins are refused.
fn close(context: &Context<'_>) -> Result<Answer, Fault> {
    debug_assert_eq!(last(context), context.variables[0]);
    let mut account = context.account.clone();
    set_status(context, &mut account, "closed")?;
    account.common.updated_at = context.state.now();
    context.state.replace(&account)?;
    Ok(Answer::Nothing)
}

/// The answer with one account.
fn item(context: &Context<'_>, status: u16, account: &RestAccount, token: Option<&str>) -> Answer {
    Answer::Item(status, "Account", render(Some(context), account, token))
}

/// The fields of `subresource_uris` and the names of their collections.
const BELOW: [(&str, &str); 15] = [
    ("applications", "Applications"),
    ("available_phone_numbers", "AvailablePhoneNumbers"),
    ("balance", "Balance"),
    ("calls", "Calls"),
    ("clients", "Clients"),
    ("conferences", "Conferences"),
    ("incoming_phone_numbers", "IncomingPhoneNumbers"),
    ("keys", "Keys"),
    ("messages", "Messages"),
    ("notifications", "Notifications"),
    ("outgoing_caller_ids", "OutgoingCallerIds"),
    ("queues", "Queues"),
    ("recordings", "Recordings"),
    ("signing_keys", "SigningKeys"),
    ("transcriptions", "Transcriptions"),
];

/// The fields of Twilio's Account and of RestComm's, so that clients of either read it. `token` is given only when it
/// is new.
fn render(context: Option<&Context<'_>>, account: &RestAccount, token: Option<&str>) -> Value {
    let sid = &account.common.sid;
    let owner = account.parent.as_deref().unwrap_or(sid);
    let uri = |rest: &str| context.map_or(String::new(), |context| context.uri_of(sid, rest));
    let below = BELOW.iter().map(|(field, name)| (*field, Value::Text(uri(&format!("/{name}"))))).collect();
    Value::Object(vec![
        ("sid", Value::text(sid)),
        ("friendly_name", Value::text(&account.friendly_name)),
        ("email_address", Value::text(&account.email)),
        ("owner_account_sid", Value::text(owner)),
        ("type", Value::Text("Full".into())),
        ("status", Value::text(&account.status)),
        ("auth_token", token.map_or(Value::Null, Value::text)),
        // The token is shown once, and so is a key that is the token.
        (
            "signing_key",
            if account.is_signed_by_token() { Value::Null } else { Value::text(&account.signing_key) },
        ),
        created(&account.common),
        updated(&account.common),
        ("uri", Value::Text(uri(""))),
        ("subresource_uris", Value::Object(below)),
    ])
}

fn example() -> Value {
    let account = RestAccount {
        common: Common::default(),
        parent: None,
        friendly_name: String::new(),
        email: String::new(),
        status: String::new(),
        token: store::rest::token::TokenVerifier::of_no_token(),
        signing_key: String::new(),
    };
    render(None, &account, None)
}

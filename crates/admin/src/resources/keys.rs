//! API keys: a name and a secret that sign in for the account beside its token, one for each program, so that one of them can be withdrawn
//! alone. A secret is shown once: when its key is made.
//!
//! Twilio calls keys that are made here "standard": they reach everything of their account but accounts and keys (`sign_in`). `SigningKeys` is its older
//! name of the same resource.

use store::rest::key::ApiKey;
use store::rest::token::TokenVerifier;
use store::rest::types::Common;
use store::rest::{Kind, RestFilter};

use crate::fault::Fault;
use crate::first::salt;
use crate::limits;
use crate::paging;
use crate::service;
use crate::table::{Answer, Context, Parameter, Route, Shape};
use crate::value::Value;

use super::{NONE, PAGE, created, last, own, text, updated};

const FIELDS: &[Parameter] = &[text("FriendlyName")];

const fn create_route(path: &'static str) -> Route {
    Route {
        method: "POST",
        path,
        summary: "Make an API key; the answer shows its secret, once",
        parameters: &[FIELDS],
        answer: Shape::Item(201, "NewKey", new_example),
        handler: create,
    }
}

const fn get_route(path: &'static str) -> Route {
    Route {
        method: "GET",
        path,
        summary: "An API key, without its secret",
        parameters: NONE,
        answer: Shape::Item(200, "Key", example),
        handler: |context| Ok(Answer::Item(200, "Key", render(&own(context, last(context))?, None))),
    }
}

const fn update_route(path: &'static str) -> Route {
    Route {
        method: "POST",
        path,
        summary: "Rename an API key",
        parameters: &[FIELDS],
        answer: Shape::Item(200, "Key", example),
        handler: update,
    }
}

const fn delete_route(path: &'static str) -> Route {
    Route {
        method: "DELETE",
        path,
        summary: "Delete an API key, which signs in no more",
        parameters: NONE,
        answer: Shape::Nothing,
        handler: |context| {
            let key: ApiKey = own(context, last(context))?;
            context.state.remove(Kind::ApiKey, &key.common.sid)?;
            note(context, "RemoveKey", &key);
            Ok(Answer::Nothing)
        },
    }
}

/// The operations, in the order of the description.
pub(crate) const ROUTES: &[Route] = &[
    Route {
        method: "GET",
        path: "/Accounts/{AccountSid}/Keys",
        summary: "API keys of the account, newest first",
        parameters: PAGE,
        answer: Shape::List("keys", example),
        handler: |context| list(context, ("keys", "Key")),
    },
    create_route("/Accounts/{AccountSid}/Keys"),
    get_route("/Accounts/{AccountSid}/Keys/{Sid}"),
    update_route("/Accounts/{AccountSid}/Keys/{Sid}"),
    delete_route("/Accounts/{AccountSid}/Keys/{Sid}"),
    Route {
        method: "GET",
        path: "/Accounts/{AccountSid}/SigningKeys",
        summary: "The same keys by Twilio's older name",
        parameters: PAGE,
        answer: Shape::List("signing_keys", example),
        handler: |context| list(context, ("signing_keys", "SigningKey")),
    },
    create_route("/Accounts/{AccountSid}/SigningKeys"),
    get_route("/Accounts/{AccountSid}/SigningKeys/{Sid}"),
    update_route("/Accounts/{AccountSid}/SigningKeys/{Sid}"),
    delete_route("/Accounts/{AccountSid}/SigningKeys/{Sid}"),
];

fn list(context: &Context<'_>, names: (&'static str, &'static str)) -> Result<Answer, Fault> {
    let filter = paging::of_account(context, Kind::ApiKey);
    paging::rows(context, filter, names, |_, key: &ApiKey| render(key, None))
}

/// The secret is in this answer only: the database has a verifier of it.
fn create(context: &Context<'_>) -> Result<Answer, Fault> {
    let counted = RestFilter { limit: 1, ..paging::of_account(context, Kind::ApiKey) };
    if context.state.list(counted)?.1 >= limits::MAX_KEYS {
        let most = limits::MAX_KEYS;
        return Err(Fault::invalid(20400, format!("The account has {most} keys already: delete one first")));
    }
    let secret = service::token(&*context.state.control);
    let mut key = ApiKey {
        common: context.state.common("SK", &context.account),
        friendly_name: String::new(),
        secret: TokenVerifier::new(&secret, salt(&*context.state.control)),
    };
    set_name(context, &mut key)?;
    context.state.insert(&key)?;
    note(context, "AddKey", &key);
    Ok(Answer::Item(201, "Key", render(&key, Some(&secret))))
}

fn update(context: &Context<'_>) -> Result<Answer, Fault> {
    let mut key: ApiKey = own(context, last(context))?;
    set_name(context, &mut key)?;
    key.common.updated_at = context.state.now();
    context.state.replace(&key)?;
    note(context, "SetKey", &key);
    Ok(Answer::Item(200, "Key", render(&key, None)))
}

/// A change of what can sign in is in the audit log, with the key's sid and never its secret.
fn note(context: &Context<'_>, action: &'static str, key: &ApiKey) {
    context.state.control.key_changed(&context.signer.common.sid, action, &key.common.sid);
}

fn set_name(context: &Context<'_>, key: &mut ApiKey) -> Result<(), Fault> {
    context.set("FriendlyName", &mut key.friendly_name);
    let most = limits::KEY_NAME;
    if key.friendly_name.chars().count() > most {
        return Err(Fault::invalid(20400, format!("FriendlyName is longer than {most} characters")));
    }
    Ok(())
}

/// Twilio's fields. `secret` is there only when it is new.
fn render(key: &ApiKey, secret: Option<&str>) -> Value {
    let mut fields = vec![
        ("sid", Value::text(&key.common.sid)),
        ("friendly_name", Value::text(&key.friendly_name)),
        created(&key.common),
        updated(&key.common),
    ];
    fields.extend(secret.map(|secret| ("secret", Value::text(secret))));
    Value::Object(fields)
}

fn no_key() -> ApiKey {
    ApiKey { common: Common::default(), friendly_name: String::new(), secret: TokenVerifier::of_no_token() }
}

fn example() -> Value {
    render(&no_key(), None)
}

fn new_example() -> Value {
    render(&no_key(), Some(""))
}

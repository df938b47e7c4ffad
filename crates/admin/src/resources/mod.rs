//! The resources, one file each: parameters, handlers, and how a resource is written.
//!
//! Every file has the same parts: parameters (`const … : &[Parameter]`), `ROUTES`, handlers, `change` for what a POST may set, `item` and `render`
//! for the answer, and `example` for the OpenAPI document. `COMPAT(RestComm)` marks a behaviour that only RestComm has.

pub(crate) mod accounts;
pub(crate) mod applications;
pub(crate) mod balance;
pub(crate) mod caller_ids;
pub(crate) mod calls;
pub(crate) mod chat;
pub(crate) mod clients;
pub(crate) mod conferences;
pub(crate) mod events;
pub(crate) mod keys;
pub(crate) mod messages;
pub(crate) mod notifications;
pub(crate) mod numbers;
pub(crate) mod participants;
pub(crate) mod queues;
pub(crate) mod recordings;
pub(crate) mod transcriptions;
pub(crate) mod usage;

use stdx::Instant;
use store::rest::types::{Application, Common, Hook};
use store::rest::{Resource, Row};

use crate::date;
use crate::fault::Fault;
use crate::paging;
use crate::table::{Context, Kind, Parameter, Route};
use crate::value::Value;

/// All operations of both bases. The first path that matches is taken: fixed segments stand before variables, as
/// `IncomingPhoneNumbers/Local` before `IncomingPhoneNumbers/{Sid}`.
pub(crate) const TABLES: &[&[Route]] = &[
    accounts::ROUTES,
    applications::ROUTES,
    numbers::ROUTES,
    numbers::AVAILABLE,
    calls::ROUTES,
    conferences::ROUTES,
    participants::ROUTES,
    recordings::ROUTES,
    queues::ROUTES,
    notifications::ROUTES,
    messages::ROUTES,
    clients::ROUTES,
    caller_ids::ROUTES,
    usage::ROUTES,
    transcriptions::ROUTES,
    balance::ROUTES,
    events::ROUTES,
    keys::ROUTES,
];

/// No parameters.
pub(crate) const NONE: &[&[Parameter]] = &[];
/// Only those of paging.
pub(crate) const PAGE: &[&[Parameter]] = &[paging::PAGING];

// The parameters of the tables, one function for each kind of value.
pub(crate) const fn text(name: &'static str) -> Parameter {
    Parameter { name, kind: Kind::Text }
}

pub(crate) const fn url(name: &'static str) -> Parameter {
    Parameter { name, kind: Kind::Url }
}

pub(crate) const fn method(name: &'static str) -> Parameter {
    Parameter { name, kind: Kind::Method }
}

pub(crate) const fn flag(name: &'static str) -> Parameter {
    Parameter { name, kind: Kind::Bool }
}

pub(crate) const fn int(name: &'static str, min: u32, max: u32) -> Parameter {
    Parameter { name, kind: Kind::Int { min, max } }
}

pub(crate) const fn day(name: &'static str) -> Parameter {
    Parameter { name, kind: Kind::Date }
}

pub(crate) const fn choice(name: &'static str, of: &'static [&'static str]) -> Parameter {
    Parameter { name, kind: Kind::Choice(of) }
}

/// A parameter of Twilio's that this server refuses by its name.
pub(crate) const fn unsupported(name: &'static str) -> Parameter {
    Parameter { name, kind: Kind::Unsupported(&[]) }
}

/// The same, where `false` asks for nothing.
pub(crate) const fn unsupported_flag(name: &'static str) -> Parameter {
    Parameter { name, kind: Kind::Unsupported(&["false"]) }
}

/// The parameters of a hook: `VoiceUrl` and its companions.
macro_rules! hook {
    ($prefix:literal) => {
        &[
            $crate::resources::url(concat!($prefix, "Url")),
            $crate::resources::method(concat!($prefix, "Method")),
            $crate::resources::url(concat!($prefix, "FallbackUrl")),
            $crate::resources::method(concat!($prefix, "FallbackMethod")),
            $crate::resources::text(concat!($prefix, "ApplicationSid")),
        ]
    };
}
pub(crate) use hook;

/// Changes what is given of a hook of a resource that belongs to this account.
///
/// # Errors
/// The account has no application of the sid that is given.
pub(crate) fn set_hook(
    context: &Context<'_>,
    prefix: &str,
    hook: &mut Hook,
    owner: &str,
) -> Result<(), Fault> {
    context.set(&format!("{prefix}Url"), &mut hook.url);
    set_method(context, &format!("{prefix}Method"), &mut hook.method);
    context.set(&format!("{prefix}FallbackUrl"), &mut hook.fallback_url);
    set_method(context, &format!("{prefix}FallbackMethod"), &mut hook.fallback_method);
    let name = format!("{prefix}ApplicationSid");
    // One that was given before and is deleted since hinders no other change.
    if let Some(sid) = context.text(&name).filter(|sid| *sid != hook.application_sid) {
        check_application(context, &name, sid, owner)?;
    }
    context.set(&name, &mut hook.application_sid);
    Ok(())
}

/// An application of another account answers nothing, so naming it is a mistake. The code is Twilio's.
pub(crate) fn check_application(
    context: &Context<'_>,
    name: &str,
    sid: &str,
    owner: &str,
) -> Result<(), Fault> {
    let found: Option<Application> = context.state.get(sid)?;
    if found.is_some_and(|application| application.common.account == owner) {
        return Ok(());
    }
    Err(Fault::invalid(21218, format!("{name} {sid:?} is invalid: the account has no such application")))
}

/// Methods are accepted in any case, as at Twilio, and kept in capitals.
pub(crate) fn set_method(context: &Context<'_>, name: &str, field: &mut String) {
    if let Some(method) = context.given(name) {
        *field = method.to_ascii_uppercase();
    }
}

/// `POST` unless something else was given.
pub(crate) fn method_value(method: &str) -> Value {
    Value::text(if method.is_empty() { "POST" } else { method })
}

/// Twilio's JSON and XML have dates as RFC 2822 §3.3 writes them.
pub(crate) fn date_value(at: Option<Instant>) -> Value {
    at.map_or(Value::Null, |at| Value::Text(date::rfc2822(at)))
}

/// Twilio's field for the time of creation.
pub(crate) fn created(common: &Common) -> (&'static str, Value) {
    ("date_created", date_value(Some(common.created_at)))
}

/// Twilio's field for the time of the last write.
pub(crate) fn updated(common: &Common) -> (&'static str, Value) {
    ("date_updated", date_value(Some(common.updated_at)))
}

/// Twilio's fields, which its libraries expect: nothing has a price here.
pub(crate) fn price() -> [(&'static str, Value); 2] {
    [("price", Value::Null), ("price_unit", Value::Text("USD".into()))]
}

/// The paths of what belongs to a resource, for `subresource_uris`.
pub(crate) fn subresources(
    below: &str,
    context: Option<&Context<'_>>,
    names: &[(&'static str, &str)],
) -> Value {
    let uri = |name: &str| match context {
        Some(context) => Value::Text(context.uri(&format!("{below}/{name}"))),
        None => Value::Text(String::new()),
    };
    Value::Object(names.iter().map(|(field, name)| (*field, uri(name))).collect())
}

/// A resource of the context's account, by the path's last variable or another.
pub(crate) fn own<T: Resource>(context: &Context<'_>, sid: &str) -> Result<T, Fault> {
    let found: Option<T> = context.state.get(sid)?;
    let of_account = |row: &Row| *row.account == *context.account.common.sid;
    found.filter(|resource| of_account(&resource.columns())).ok_or_else(|| Fault::not_found(sid))
}

/// Requests that concern all accounts are reserved for the first account, which has no parent.
fn check_operator(context: &Context<'_>, why: &str) -> Result<(), Fault> {
    if context.signer.parent.is_some() { Err(Fault::new(403, 20403, why)) } else { Ok(()) }
}

/// Calls and messages of a suspended account are refused to its parents, too.
pub(crate) fn check_active(context: &Context<'_>) -> Result<(), Fault> {
    match context.account.status.as_str() {
        "active" => Ok(()),
        status => Err(Fault::new(403, 10001, format!("Account {} is {status}", context.account.common.sid))),
    }
}

/// The sid that ends the path.
pub(crate) fn last<'a>(context: &Context<'a>) -> &'a str {
    context.variables.last().copied().unwrap_or_default()
}

/// The version a resource shows, and its path; empty in an example.
pub(crate) fn version(context: Option<&Context<'_>>) -> (&'static str, Value) {
    (
        "api_version",
        context.map_or(Value::Text(String::new()), |context| Value::Text(context.base().version().into())),
    )
}

/// The path of the resource itself.
pub(crate) fn uri(context: Option<&Context<'_>>, rest: &str) -> (&'static str, Value) {
    ("uri", context.map_or(Value::Text(String::new()), |context| Value::Text(context.uri(rest))))
}

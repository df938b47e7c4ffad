//! Applications: hooks under a name, for numbers and calls to share.
//!
//! A hook with an application's sid takes its URLs from there when a call or message comes, so a change of the application counts for all its
//! numbers.

use store::rest::types::Application;
use store::rest::{Kind, RestFilter};

use crate::fault::Fault;
use crate::paging::{self, PAGING};
use crate::table::{Answer, Context, Parameter, Route, Shape};
use crate::value::Value;

use super::{
    NONE, created, flag, hook, last, method, method_value, own, set_hook, set_method, text, unsupported_flag,
    updated, uri, url, version,
};

const FIELDS: &[Parameter] = &[
    text("FriendlyName"),
    flag("VoiceCallerIdLookup"),
    url("StatusCallback"),
    method("StatusCallbackMethod"),
    url("SmsStatusCallback"),
    url("MessageStatusCallback"),
    url("RcmlUrl"),
    text("Kind"),
];
const VOICE: &[Parameter] = hook!("Voice");
const SMS: &[Parameter] = hook!("Sms");
const USSD: &[Parameter] = hook!("Ussd");
/// A parameter that Twilio documents and this server refuses.
const UNSUPPORTED: &[Parameter] = &[unsupported_flag("PublicApplicationConnectEnabled")];
const LIST: &[Parameter] = &[text("FriendlyName")];

/// The operations, in the order of the description. POST to a resource changes it, as Twilio has no PUT.
pub(crate) const ROUTES: &[Route] = &[
    Route {
        method: "GET",
        path: "/Accounts/{AccountSid}/Applications",
        summary: "Applications, by name when one is given",
        parameters: &[LIST, PAGING],
        answer: Shape::List("applications", example),
        handler: list,
    },
    Route {
        method: "POST",
        path: "/Accounts/{AccountSid}/Applications",
        summary: "Make an application",
        parameters: &[FIELDS, VOICE, SMS, USSD, UNSUPPORTED],
        answer: Shape::Item(201, "Application", example),
        handler: create,
    },
    Route {
        method: "GET",
        path: "/Accounts/{AccountSid}/Applications/{Sid}",
        summary: "An application",
        parameters: NONE,
        answer: Shape::Item(200, "Application", example),
        handler: |context| Ok(item(context, 200, &own(context, last(context))?)),
    },
    Route {
        method: "POST",
        path: "/Accounts/{AccountSid}/Applications/{Sid}",
        summary: "Change what is given of an application",
        parameters: &[FIELDS, VOICE, SMS, USSD, UNSUPPORTED],
        answer: Shape::Item(200, "Application", example),
        handler: update,
    },
    Route {
        method: "DELETE",
        path: "/Accounts/{AccountSid}/Applications/{Sid}",
        summary: "Delete an application",
        parameters: NONE,
        answer: Shape::Nothing,
        handler: delete,
    },
];

/// `FriendlyName` matches as a whole, as at Twilio.
fn list(context: &Context<'_>) -> Result<Answer, Fault> {
    let filter = RestFilter {
        name: context.text("FriendlyName").map(Box::from),
        ..paging::of_account(context, Kind::Application)
    };
    paging::rows(context, filter, ("applications", "Application"), |context, found| {
        render(Some(context), found)
    })
}

fn create(context: &Context<'_>) -> Result<Answer, Fault> {
    let common = context.state.common("AP", &context.account);
    // Twilio accepts an application without a name.
    let mut application =
        Application { common, friendly_name: "Application".into(), ..Application::default() };
    change(context, &mut application)?;
    context.state.insert(&application)?;
    Ok(item(context, 201, &application))
}

fn update(context: &Context<'_>) -> Result<Answer, Fault> {
    let mut application: Application = own(context, last(context))?;
    change(context, &mut application)?;
    application.common.updated_at = context.state.now();
    context.state.replace(&application)?;
    Ok(item(context, 200, &application))
}

fn delete(context: &Context<'_>) -> Result<Answer, Fault> {
    let application: Application = own(context, last(context))?;
    context.state.remove(Kind::Application, &application.common.sid)?;
    Ok(Answer::Nothing)
}

/// Sets the fields whose parameters are given; an empty value clears one.
fn change(context: &Context<'_>, application: &mut Application) -> Result<(), Fault> {
    context.set("FriendlyName", &mut application.friendly_name);
    let owner = &application.common.account;
    set_hook(context, "Voice", &mut application.voice, owner)?;
    set_hook(context, "Sms", &mut application.sms, owner)?;
    set_hook(context, "Ussd", &mut application.ussd, owner)?;
    if let Some(lookup) = context.flag("VoiceCallerIdLookup") {
        application.voice_caller_id_lookup = lookup;
    }
    context.set("StatusCallback", &mut application.status_callback);
    set_method(context, "StatusCallbackMethod", &mut application.status_callback_method);
    context.set("SmsStatusCallback", &mut application.sms_status_callback);
    context.set("MessageStatusCallback", &mut application.message_status_callback);
    context.set("RcmlUrl", &mut application.rcml_url);
    context.set("Kind", &mut application.application_kind);
    Ok(())
}

/// The answer of all operations on one application.
fn item(context: &Context<'_>, status: u16, application: &Application) -> Answer {
    Answer::Item(status, "Application", render(Some(context), application))
}

/// The fields of Twilio's Application, and RestComm's.
pub(crate) fn render(context: Option<&Context<'_>>, application: &Application) -> Value {
    let Application { common, voice, sms, ussd, .. } = application;
    Value::Object(vec![
        ("sid", Value::text(&common.sid)),
        created(common),
        updated(common),
        ("account_sid", Value::text(&common.account)),
        ("friendly_name", Value::text(&application.friendly_name)),
        version(context),
        ("voice_url", Value::text(&voice.url)),
        ("voice_method", method_value(&voice.method)),
        ("voice_fallback_url", Value::text(&voice.fallback_url)),
        ("voice_fallback_method", method_value(&voice.fallback_method)),
        ("voice_caller_id_lookup", Value::Bool(application.voice_caller_id_lookup)),
        ("status_callback", Value::text(&application.status_callback)),
        ("status_callback_method", method_value(&application.status_callback_method)),
        ("sms_url", Value::text(&sms.url)),
        ("sms_method", method_value(&sms.method)),
        ("sms_fallback_url", Value::text(&sms.fallback_url)),
        ("sms_fallback_method", method_value(&sms.fallback_method)),
        ("sms_status_callback", Value::text(&application.sms_status_callback)),
        ("message_status_callback", Value::text(&application.message_status_callback)),
        ("ussd_url", Value::text(&ussd.url)),
        ("rcml_url", Value::text(&application.rcml_url)),
        ("kind", Value::text(&application.application_kind)),
        uri(context, &format!("/Applications/{}", common.sid)),
    ])
}

fn example() -> Value {
    render(None, &Application::default())
}

//! Incoming phone numbers: what answers when a number is called. And the numbers one could buy: none.
//!
//! A number is a row with hooks; the node reads all of them again when one changes (`admin::numbers`). Only the first account binds numbers, because
//! a binding takes calls from whatever else would have answered.

use store::rest::types::IncomingNumber;
use store::rest::{Kind, Resource as _, RestFilter};

use crate::fault::Fault;
use crate::limits;
use crate::numbers::Number;
use crate::paging::{self, PAGING};
use crate::sign_in;
use crate::table::{Answer, Context, Kind as Of, Parameter, Route, Shape};
use crate::value::Value;

use super::{
    NONE, PAGE, created, flag, hook, last, method, method_value, own, set_hook, set_method, text,
    unsupported, updated, uri, url, version,
};

const FIELDS: &[Parameter] = &[
    text("PhoneNumber"),
    text("AreaCode"),
    text("FriendlyName"),
    flag("VoiceCallerIdLookup"),
    url("StatusCallback"),
    method("StatusCallbackMethod"),
    flag("isSIP"),
];
/// The account that the number is given to.
const OWNER: &[Parameter] = &[text("AccountSid")];
// The four hooks: calls, text messages, USSD, and REFER during a call.
const VOICE: &[Parameter] = hook!("Voice");
const SMS: &[Parameter] = hook!("Sms");
const USSD: &[Parameter] = hook!("Ussd");
const REFER: &[Parameter] = hook!("Refer");
/// Parameters that Twilio documents and this server refuses.
const UNSUPPORTED: &[Parameter] = &[
    Parameter { name: "VoiceReceiveMode", kind: Of::Unsupported(&["voice"]) },
    Parameter { name: "EmergencyStatus", kind: Of::Unsupported(&["Inactive"]) },
    unsupported("EmergencyAddressSid"),
    unsupported("TrunkSid"),
    unsupported("IdentitySid"),
    unsupported("AddressSid"),
    unsupported("BundleSid"),
];
/// The parameters of a new binding.
const ALL: &[&[Parameter]] = &[FIELDS, VOICE, SMS, USSD, REFER, UNSUPPORTED];
/// The parameters of a change.
const CHANGED: &[&[Parameter]] = &[FIELDS, OWNER, VOICE, SMS, USSD, REFER, UNSUPPORTED];
const LIST: &[Parameter] = &[text("PhoneNumber"), text("FriendlyName")];

/// `Local`, `TollFree` and `Mobile` list the bindings that were made under that path; the plain path lists all.
const fn list_route(path: &'static str) -> Route {
    Route {
        method: "GET",
        path,
        summary: "Bound numbers, by a part of the number, where `*` is any digit",
        parameters: &[LIST, PAGING],
        answer: Shape::List("incoming_phone_numbers", example),
        handler: list,
    }
}

const fn create_route(path: &'static str) -> Route {
    Route {
        method: "POST",
        path,
        summary: "Bind a number, a SIP name, or a regular expression over them",
        parameters: ALL,
        answer: Shape::Item(201, "IncomingPhoneNumber", example),
        handler: create,
    }
}

pub(crate) const ROUTES: &[Route] = &[
    list_route("/Accounts/{AccountSid}/IncomingPhoneNumbers"),
    create_route("/Accounts/{AccountSid}/IncomingPhoneNumbers"),
    list_route("/Accounts/{AccountSid}/IncomingPhoneNumbers/Local"),
    create_route("/Accounts/{AccountSid}/IncomingPhoneNumbers/Local"),
    list_route("/Accounts/{AccountSid}/IncomingPhoneNumbers/TollFree"),
    create_route("/Accounts/{AccountSid}/IncomingPhoneNumbers/TollFree"),
    list_route("/Accounts/{AccountSid}/IncomingPhoneNumbers/Mobile"),
    create_route("/Accounts/{AccountSid}/IncomingPhoneNumbers/Mobile"),
    Route {
        method: "GET",
        path: "/Accounts/{AccountSid}/IncomingPhoneNumbers/{Sid}",
        summary: "A bound number",
        parameters: NONE,
        answer: Shape::Item(200, "IncomingPhoneNumber", example),
        handler: |context| Ok(item(context, 200, &own(context, last(context))?)),
    },
    Route {
        method: "POST",
        path: "/Accounts/{AccountSid}/IncomingPhoneNumbers/{Sid}",
        summary: "Change what is given of a binding; with AccountSid the number is that account's from now on",
        parameters: CHANGED,
        answer: Shape::Item(200, "IncomingPhoneNumber", example),
        handler: update,
    },
    Route {
        method: "DELETE",
        path: "/Accounts/{AccountSid}/IncomingPhoneNumbers/{Sid}",
        summary: "Unbind a number",
        parameters: NONE,
        answer: Shape::Nothing,
        handler: delete,
    },
];

const fn available(path: &'static str) -> Route {
    Route {
        method: "GET",
        path,
        summary: "Numbers for sale: an empty list, for no carrier is asked",
        parameters: PAGE,
        answer: Shape::List("available_phone_numbers", || Value::Object(Vec::new())),
        handler: |context| {
            let names = ("available_phone_numbers", "AvailablePhoneNumber");
            Ok(paging::slice(context, &[], names, |_, (): &()| Value::Null))
        },
    }
}

/// Twilio's kinds of numbers. No country has any, so that none is listed and none is found by its code.
pub(crate) const AVAILABLE: &[Route] = &[
    Route {
        method: "GET",
        path: "/Accounts/{AccountSid}/AvailablePhoneNumbers",
        summary: "Countries with numbers for sale: an empty list, for no carrier is asked",
        parameters: PAGE,
        answer: Shape::List("countries", || Value::Object(Vec::new())),
        handler: |context| {
            Ok(paging::slice(context, &[], ("countries", "Country"), |_, (): &()| Value::Null))
        },
    },
    available("/Accounts/{AccountSid}/AvailablePhoneNumbers/{Country}/Local"),
    available("/Accounts/{AccountSid}/AvailablePhoneNumbers/{Country}/TollFree"),
    available("/Accounts/{AccountSid}/AvailablePhoneNumbers/{Country}/Mobile"),
    available("/Accounts/{AccountSid}/AvailablePhoneNumbers/{Country}/National"),
    available("/Accounts/{AccountSid}/AvailablePhoneNumbers/{Country}/SharedCost"),
    available("/Accounts/{AccountSid}/AvailablePhoneNumbers/{Country}/Voip"),
    available("/Accounts/{AccountSid}/AvailablePhoneNumbers/{Country}/MachineToMachine"),
];

/// `Local`, `TollFree` or `Mobile`, when the path ends so.
fn class(context: &Context<'_>) -> &'static str {
    let classes = ["Local", "TollFree", "Mobile"];
    let last = context.request.segments.last().map_or("", String::as_str);
    classes.into_iter().find(|class| *class == last).unwrap_or_default()
}

/// The signs that people write into numbers are passed over. Twilio's filter is a part of a number, in which `*` stands for any
/// digit; here also for itself, as names have it.
fn has_part(number: &IncomingNumber, part: &str) -> bool {
    let sign = |c: &char| !matches!(c, ' ' | '(' | ')');
    let part: Vec<char> = part.chars().filter(sign).collect();
    let whole: Vec<char> = number.phone_number.chars().filter(sign).collect();
    let fits =
        |(wanted, there): (&char, &char)| wanted == there || (*wanted == '*' && there.is_ascii_digit());
    part.is_empty() || whole.windows(part.len()).any(|window| part.iter().zip(window).all(fits))
}

/// Numbers of an account, by a part of the number, by name and by class.
fn list(context: &Context<'_>) -> Result<Answer, Fault> {
    let names = ("incoming_phone_numbers", "IncomingPhoneNumber");
    let filter = paging::of_account(context, Kind::IncomingNumber);
    let (part, class, name) = (context.text("PhoneNumber"), class(context), context.text("FriendlyName"));
    if part.is_none() && class.is_empty() && name.is_none() {
        return paging::rows(context, filter, names, |context, found| render(Some(context), found));
    }
    // No column has these: an account has some hundred numbers at most.
    let (rows, _) = context.state.list(filter)?;
    let numbers = rows.iter().map(IncomingNumber::from_row).collect::<Result<Vec<IncomingNumber>, _>>()?;
    let fits = |number: &IncomingNumber| {
        (class.is_empty() || number.class == class)
            && name.is_none_or(|name| number.friendly_name == name)
            && part.is_none_or(|part| has_part(number, part))
    };
    let found: Vec<IncomingNumber> = numbers.into_iter().filter(fits).collect();
    Ok(paging::slice(context, &found, names, |_, number| render(Some(context), number)))
}

/// Twilio's purchase of a number; here the number is bound to the application that answers it.
fn create(context: &Context<'_>) -> Result<Answer, Fault> {
    if context.text("PhoneNumber").is_none() {
        // Twilio picks a number of the area for sale; no carrier is asked here, so there is none.
        return Err(match context.text("AreaCode") {
            Some(code) => Fault::invalid(21452, format!("No phone numbers found in area code {code}")),
            None => Fault::invalid(21421, "PhoneNumber is missing"),
        });
    }
    super::check_operator(context, NOT_GIVEN)?;
    let common = context.state.common("PN", &context.account);
    let class = class(context).to_owned();
    let mut number = IncomingNumber { common, class, ..IncomingNumber::default() };
    change(context, &mut number)?;
    if number.friendly_name.is_empty() {
        // Twilio's default is the number, formatted.
        number.friendly_name.clone_from(&number.phone_number);
    }
    // Counted after the text was checked.
    if number.is_pattern {
        check_patterns(context)?;
    }
    taken(&number, context.state.insert(&number))?;
    Ok(item(context, 201, &number))
}

/// A bound number, name or pattern takes calls from their callee: other accounts, phones, targets of routes.
const NOT_GIVEN: &str = "Only the first account binds numbers; it gives them to others by AccountSid";

/// Every pattern is tried for every call that no exact number takes, so there is a limit for all accounts together.
fn check_patterns(context: &Context<'_>) -> Result<(), Fault> {
    let (rows, _) = context.state.list(RestFilter::all(Kind::IncomingNumber))?;
    let mut patterns = 0;
    for row in &rows {
        patterns += usize::from(IncomingNumber::from_row(row)?.is_pattern);
    }
    if patterns >= limits::MAX_PATTERNS {
        let most = limits::MAX_PATTERNS;
        return Err(Fault::invalid(20400, format!("There are {most} patterns already")));
    }
    Ok(())
}

/// Names Twilio's code for a number that another binding has.
fn taken(number: &IncomingNumber, done: Result<(), Fault>) -> Result<(), Fault> {
    done.map_err(|fault| match fault.status {
        409 => Fault::invalid(
            21422,
            format!("PhoneNumber {} is not available: it is bound already", number.phone_number),
        ),
        _ => fault,
    })
}

/// Owners change the application of a number, but the number itself only the operator: see `NOT_GIVEN`.
fn update(context: &Context<'_>) -> Result<Answer, Fault> {
    let mut number: IncomingNumber = own(context, last(context))?;
    let (before, was_pattern) = (number.phone_number.clone(), number.is_pattern);
    if let Some(owner) = context.text("AccountSid") {
        // As at Twilio: an account gives its numbers to those below it, and takes them back. Applications that are given beside it are the
        // new owner's.
        let signer = (&context.signer, context.is_by_key);
        number.common.account = sign_in::target(context.state, signer, owner)?.common.sid;
    }
    change(context, &mut number)?;
    if number.phone_number != before {
        super::check_operator(context, NOT_GIVEN)?;
    }
    if number.is_pattern && !was_pattern {
        check_patterns(context)?;
    }
    number.common.updated_at = context.state.now();
    taken(&number, context.state.replace(&number))?;
    Ok(item(context, 200, &number))
}

/// Only the binding goes; the application that answered stays.
fn delete(context: &Context<'_>) -> Result<Answer, Fault> {
    let number: IncomingNumber = own(context, last(context))?;
    context.state.remove(Kind::IncomingNumber, &number.common.sid)?;
    Ok(Answer::Nothing)
}

/// Sets the fields whose parameters are given; an empty URL removes a hook.
fn change(context: &Context<'_>, number: &mut IncomingNumber) -> Result<(), Fault> {
    if let Some(text) = context.text("PhoneNumber") {
        let wrong = |why| Fault::invalid(21421, format!("PhoneNumber {text:?} is invalid: {why}"));
        (number.phone_number, number.is_pattern) = match Number::parse(text).map_err(wrong)? {
            Number::Exact(exact) => (exact, false),
            Number::Pattern(pattern) => (pattern, true),
        };
    }
    context.set("FriendlyName", &mut number.friendly_name);
    let owner = &number.common.account;
    set_hook(context, "Voice", &mut number.voice, owner)?;
    set_hook(context, "Sms", &mut number.sms, owner)?;
    set_hook(context, "Ussd", &mut number.ussd, owner)?;
    set_hook(context, "Refer", &mut number.refer, owner)?;
    if let Some(lookup) = context.flag("VoiceCallerIdLookup") {
        number.voice_caller_id_lookup = lookup;
    }
    if let Some(is_sip) = context.flag("isSIP") {
        number.is_sip = is_sip;
    }
    context.set("StatusCallback", &mut number.status_callback);
    set_method(context, "StatusCallbackMethod", &mut number.status_callback_method);
    Ok(())
}

fn item(context: &Context<'_>, status: u16, number: &IncomingNumber) -> Answer {
    Answer::Item(status, "IncomingPhoneNumber", render(Some(context), number))
}

/// Twilio's object. Calls and texts work with every number.
fn capabilities() -> Value {
    let able = |name, able| (name, Value::Bool(able));
    Value::Object(vec![able("voice", true), able("sms", true), able("mms", false), able("fax", false)])
}

pub(crate) fn render(context: Option<&Context<'_>>, number: &IncomingNumber) -> Value {
    let IncomingNumber { common, voice, sms, ussd, refer, .. } = number;
    Value::Object(vec![
        ("sid", Value::text(&common.sid)),
        ("account_sid", Value::text(&common.account)),
        ("friendly_name", Value::text(&number.friendly_name)),
        ("phone_number", Value::text(&number.phone_number)),
        ("voice_url", Value::text(&voice.url)),
        ("voice_method", method_value(&voice.method)),
        ("voice_fallback_url", Value::text(&voice.fallback_url)),
        ("voice_fallback_method", method_value(&voice.fallback_method)),
        ("voice_caller_id_lookup", Value::Bool(number.voice_caller_id_lookup)),
        ("voice_application_sid", Value::text(&voice.application_sid)),
        created(common),
        updated(common),
        ("sms_url", Value::text(&sms.url)),
        ("sms_method", method_value(&sms.method)),
        ("sms_fallback_url", Value::text(&sms.fallback_url)),
        ("sms_fallback_method", method_value(&sms.fallback_method)),
        ("sms_application_sid", Value::text(&sms.application_sid)),
        ("ussd_url", Value::text(&ussd.url)),
        ("ussd_method", method_value(&ussd.method)),
        ("ussd_fallback_url", Value::text(&ussd.fallback_url)),
        ("ussd_fallback_method", method_value(&ussd.fallback_method)),
        ("ussd_application_sid", Value::text(&ussd.application_sid)),
        ("refer_url", Value::text(&refer.url)),
        ("refer_method", method_value(&refer.method)),
        ("refer_application_sid", Value::text(&refer.application_sid)),
        ("address_requirements", Value::Text("none".into())),
        ("beta", Value::Bool(false)),
        ("capabilities", capabilities()),
        ("origin", Value::Text("belfry".into())),
        ("status_callback", Value::text(&number.status_callback)),
        ("status_callback_method", method_value(&number.status_callback_method)),
        version(context),
        uri(context, &format!("/IncomingPhoneNumbers/{}", common.sid)),
    ])
}

/// For the description of the interface.
fn example() -> Value {
    render(None, &IncomingNumber::default())
}

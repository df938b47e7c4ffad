//! Calls: placed, listed, changed while they are up, deleted when they are over.
//!
//! A call has a row that the node keeps up to date; `place` makes it and hands the call to the node. A change of a live call goes to the node, and
//! the answer is the row afterwards. `participants` places its calls with the same functions.

use store::rest::types::{Conference, RestCall};
use store::rest::{Kind, RestFilter};

use crate::control::{
    CallChange, ControlError, Document, End, StartCall, StartRecording, StatusCallback, Track,
};
use crate::fault::Fault;
use crate::limits::MAX_TONES;
use crate::paging::{self, PAGING};
use crate::request::Base;
use crate::table::{Answer, Context, Kind as Of, Parameter, Route, Shape};
use crate::value::Value;

use super::{
    NONE, choice, created, date_value, day, flag, int, last, method, own, participants, price, subresources,
    text, unsupported, unsupported_flag, updated, uri, url, version,
};

/// Seconds a call rings, when nothing is said.
const TIMEOUT: u32 = 60;

/// The document of a call.
const DOCUMENT: &[Parameter] = &[
    url("Url"),
    method("Method"),
    url("FallbackUrl"),
    method("FallbackMethod"),
    Parameter { name: "Twiml", kind: Of::Document },
    text("ApplicationSid"),
];
/// The callback of a call's events, and the limit of its time.
const CALLBACK: &[Parameter] = &[
    url("StatusCallback"),
    method("StatusCallbackMethod"),
    text("StatusCallbackEvent"),
    int("TimeLimit", 1, 86_400),
];
/// The parameters of a call that is placed.
pub(super) const CREATE: &[Parameter] = &[
    text("To"),
    text("From"),
    text("CallerId"),
    text("SendDigits"),
    int("Timeout", 1, 600),
    flag("Record"),
    text("SipAuthUsername"),
    text("SipAuthPassword"),
    text("Username"),
    text("Password"),
    choice("MachineDetection", &["Enable", "DetectMessageEnd"]),
];
/// The settings of a recording, for every request that may begin one.
pub(super) const RECORD: &[Parameter] = &[
    choice("RecordingChannels", &["mono", "dual"]),
    choice("RecordingTrack", &["inbound", "both"]),
    choice("Trim", &["trim-silence", "do-not-trim"]),
    url("RecordingStatusCallback"),
    method("RecordingStatusCallbackMethod"),
    text("RecordingStatusCallbackEvent"),
];
/// Parameters of a call that Twilio documents and this server refuses.
pub(super) const UNSUPPORTED: &[Parameter] = &[
    unsupported("MachineDetectionTimeout"),
    unsupported("MachineDetectionSpeechThreshold"),
    unsupported("MachineDetectionSpeechEndThreshold"),
    unsupported("MachineDetectionSilenceTimeout"),
    unsupported("Byoc"),
    unsupported("CallReason"),
    unsupported("CallToken"),
    unsupported("ClientNotificationUrl"),
];
const ASYNC_DETECTION: &[Parameter] = &[
    unsupported_flag("AsyncAmd"),
    unsupported("AsyncAmdStatusCallback"),
    unsupported("AsyncAmdStatusCallbackMethod"),
];
const UPDATE: &[Parameter] =
    &[choice("Status", &["canceled", "completed", "cancelled"]), flag("Mute"), flag("MoveConnectedCallLeg")];
/// Twilio's words, and `initiated`, which this node has between `queued` and `ringing`.
const STATUS: &[&str] = &[
    "queued",
    "initiated",
    "ringing",
    "in-progress",
    "canceled",
    "completed",
    "failed",
    "busy",
    "no-answer",
];
const LIST: &[Parameter] = &[
    text("To"),
    text("From"),
    choice("Status", STATUS),
    text("ParentCallSid"),
    day("StartTime"),
    day("StartTime<"),
    day("StartTime>"),
    day("EndTime"),
    day("EndTime<"),
    day("EndTime>"),
];

pub(crate) const ROUTES: &[Route] = &[
    Route {
        method: "GET",
        path: "/Accounts/{AccountSid}/Calls",
        summary: "Calls, newest first, with filters",
        parameters: &[LIST, PAGING],
        answer: Shape::List("calls", example),
        handler: list,
    },
    Route {
        method: "POST",
        path: "/Accounts/{AccountSid}/Calls",
        summary: "Place a call",
        parameters: &[CREATE, RECORD, DOCUMENT, CALLBACK, UNSUPPORTED, ASYNC_DETECTION],
        answer: Shape::Item(201, "Call", example),
        handler: create,
    },
    Route {
        method: "GET",
        path: "/Accounts/{AccountSid}/Calls/{Sid}",
        summary: "A call",
        parameters: NONE,
        answer: Shape::Item(200, "Call", example),
        handler: |context| Ok(item(context, 200, &own(context, last(context))?)),
    },
    Route {
        method: "POST",
        path: "/Accounts/{AccountSid}/Calls/{Sid}",
        summary: "Change a live call: another document, cancel, complete, mute",
        parameters: &[UPDATE, DOCUMENT, CALLBACK],
        answer: Shape::Item(200, "Call", example),
        handler: update,
    },
    Route {
        method: "DELETE",
        path: "/Accounts/{AccountSid}/Calls/{Sid}",
        summary: "Delete the record of a call that is over",
        parameters: NONE,
        answer: Shape::Nothing,
        handler: delete,
    },
];

/// Filters are columns of the row, so that pages come from the database.
fn list(context: &Context<'_>) -> Result<Answer, Fault> {
    let text = |name| context.text(name).map(Box::from);
    let mut filter = RestFilter {
        from: text("From"),
        to: text("To"),
        status: text("Status"),
        parent: text("ParentCallSid"),
        ..paging::of_account(context, Kind::Call)
    };
    let (start, end) = (paging::range(context, "StartTime"), paging::range(context, "EndTime"));
    (filter.created_from, filter.created_to) = start;
    match context.base() {
        Base::Twilio | Base::Belfry => (filter.ended_from, filter.ended_to) = end,
        // COMPAT(RestComm): the two bound the time a call was made, from one day to the other.
        Base::Restcomm => {
            filter.created_from = start.0;
            filter.created_to = end.1.or(if context.text("StartTime<").is_some() { start.1 } else { None });
        }
    }
    paging::rows(context, filter, ("calls", "Call"), |context, call| render(Some(context), call))
}

/// `None` when nothing was given.
fn document(context: &Context<'_>) -> Result<Option<Document>, Fault> {
    // Twilio: with an application, `Url` and `Twiml` are ignored.
    if let Some(sid) = context.text("ApplicationSid") {
        super::check_application(context, "ApplicationSid", sid, &context.account.common.sid)?;
        return Ok(Some(Document::Application(sid.to_owned())));
    }
    // Twilio's Call resource: `Twiml` is ignored where `Url` is given, too (its warning 32019).
    let Some(url) = context.text("Url") else {
        return Ok(context.text("Twiml").map(|document| Document::Inline(document.to_owned())));
    };
    // Twilio's default is POST.
    let method = |name| context.text(name).unwrap_or("POST").to_ascii_uppercase();
    Ok(Some(Document::Url {
        url: url.to_owned(),
        method: method("Method"),
        fallback_url: context.text("FallbackUrl").unwrap_or_default().to_owned(),
        fallback_method: method("FallbackMethod"),
    }))
}

/// `{prefix}`, `{prefix}Method` and `{prefix}Event`; events come one by one, or in one text with blanks or commas.
fn callback(
    context: &Context<'_>,
    names: [&'static str; 3],
    events: &[&str],
) -> Result<StatusCallback, Fault> {
    let [url, method, event] = names;
    let given =
        context.all(event).flat_map(|value| value.split([' ', ','])).filter(|value| !value.is_empty());
    let given: Vec<String> = given.map(str::to_owned).collect();
    if let Some(unknown) = given.iter().find(|given| !events.contains(&given.as_str())) {
        return Err(Fault::invalid(21626, format!("{event} {unknown:?}: expected {}", events.join(", "))));
    }
    Ok(StatusCallback {
        url: context.text(url).unwrap_or_default().to_owned(),
        method: context.text(method).unwrap_or("POST").to_ascii_uppercase(),
        events: given,
    })
}

/// The parameters of a call's callback.
const CALL: [&str; 3] = ["StatusCallback", "StatusCallbackMethod", "StatusCallbackEvent"];
/// The values of `StatusCallbackEvent` (Twilio's Call resource).
const CALL_EVENTS: &[&str] = &["initiated", "ringing", "answered", "completed"];
/// The parameters of a recording's callback.
const RECORDING: [&str; 3] =
    ["RecordingStatusCallback", "RecordingStatusCallbackMethod", "RecordingStatusCallbackEvent"];
/// The values of `RecordingStatusCallbackEvent` (Twilio's Recording resource).
const RECORDING_EVENTS: &[&str] = &["in-progress", "completed", "absent"];

/// Twilio's `POST Calls`: exactly one of `ApplicationSid`, `Url` and `Twiml` is used, in this order.
fn create(context: &Context<'_>) -> Result<Answer, Fault> {
    let Some(document) = document(context)? else {
        return Err(Fault::invalid(21205, "Url, Twiml or ApplicationSid is required"));
    };
    let call = place(context, document, None)?;
    Ok(item(context, 201, &call))
}

/// Places a call to a document, or into a conference.
pub(super) fn place(
    context: &Context<'_>,
    document: Document,
    conference: Option<&Conference>,
) -> Result<RestCall, Fault> {
    super::check_active(context)?;
    let to = context.text("To").ok_or_else(|| Fault::invalid(21201, "No 'To' number is specified"))?;
    let from =
        context.text("From").ok_or_else(|| Fault::invalid(21213, "'From' phone number is required"))?;
    // The addresses become header fields of the INVITE and of requests to the application.
    check_address(to, 21211, "To")?;
    check_address(from, 21212, "From")?;
    let send_digits = context.text("SendDigits").unwrap_or_default();
    let is_tone = |c| matches!(c, '0'..='9' | '*' | '#' | 'w' | 'W' | 'A'..='D');
    if send_digits.len() > MAX_TONES || !send_digits.chars().all(is_tone) {
        return Err(Fault::invalid(
            21206,
            format!("SendDigits: expected at most {MAX_TONES} digits, *, # and w"),
        ));
    }
    let call = RestCall {
        common: context.state.common("CA", &context.account),
        from: from.to_owned(),
        to: to.to_owned(),
        status: "queued".into(),
        direction: "outbound-api".into(),
        conference_sid: conference.map(|conference| conference.common.sid.clone()).unwrap_or_default(),
        ..RestCall::default()
    };
    let record = recording_options(context)?;
    // COMPAT(RestComm): it says Username and Password, Twilio SipAuthUsername and SipAuthPassword.
    let credential = |name, old| context.text(name).or(context.text(old)).unwrap_or_default().to_owned();
    let start = StartCall {
        call: call.clone(),
        document,
        status_callback: callback(context, CALL, CALL_EVENTS)?,
        send_digits: send_digits.to_owned(),
        timeout: context.int("Timeout").unwrap_or(TIMEOUT),
        time_limit: context.int("TimeLimit"),
        record: (context.flag("Record") == Some(true)).then_some(record),
        sip_user: credential("SipAuthUsername", "Username"),
        sip_password: credential("SipAuthPassword", "Password"),
        caller_id: context.text("CallerId").unwrap_or_default().to_owned(),
        machine_detection: context.text("MachineDetection").unwrap_or_default().to_owned(),
        conference: conference.map(|conference| conference.friendly_name.clone()),
        participant: conference.map(|_| participants::attributes(context)).unwrap_or_default(),
    };
    // The row comes first: the node replaces it while the call goes on, and callbacks name its sid.
    context.state.insert(&call)?;
    // The node did not take the call and will not write its row.
    if let Err(error) = context.state.control.start_call(start) {
        let now = context.state.now();
        let mut failed = RestCall { status: "failed".into(), ended_at: Some(now), ..call };
        failed.common.updated_at = now;
        context.state.replace(&failed)?;
        return Err(error.into());
    }
    Ok(call)
}

/// Those of `RECORD`.
pub(super) fn recording_options(context: &Context<'_>) -> Result<StartRecording, Fault> {
    Ok(StartRecording {
        channels: if context.text("RecordingChannels") == Some("dual") { 2 } else { 1 },
        track: if context.text("RecordingTrack") == Some("inbound") { Track::Inbound } else { Track::Both },
        trim: context.text("Trim") == Some("trim-silence"),
        status_callback: callback(context, RECORDING, RECORDING_EVENTS)?,
    })
}

/// A number, `client:name`, `sip:…`, `sips:…`, or a name; never what could break a header.
fn check_address(address: &str, code: u32, name: &str) -> Result<(), Fault> {
    let good =
        address.len() <= 1_024 && !address.contains(|c: char| c.is_control() || matches!(c, '<' | '>' | '"'));
    let sip = address.starts_with("sip:") || address.starts_with("sips:");
    if good && (sip || !address.contains('@')) {
        return Ok(());
    }
    Err(Fault::invalid(code, format!("'{name}' {address:?} is no number, client: or sip: address")))
}

/// Twilio's `POST Calls/{Sid}`. `cancelled` is accepted beside Twilio's `canceled`.
fn update(context: &Context<'_>) -> Result<Answer, Fault> {
    let call: RestCall = own(context, last(context))?;
    let end =
        context.text("Status").map(|status| if status == "completed" { End::Complete } else { End::Cancel });
    let change = CallChange {
        document: document(context)?,
        end,
        mute: context.flag("Mute"),
        time_limit: context.int("TimeLimit"),
        status_callback: match context.given("StatusCallback") {
            Some(_) => Some(callback(context, CALL, CALL_EVENTS)?),
            None => None,
        },
        move_connected_leg: context.flag("MoveConnectedCallLeg") == Some(true),
    };
    // An update without a change is most likely a misspelt parameter: unknown ones are passed over.
    if change == CallChange::default() {
        return Err(Fault::invalid(
            20400,
            "Nothing to change is given: Url, Twiml, Status, Mute or TimeLimit",
        ));
    }
    // Twilio's code and words, which its libraries' users search for.
    if !call.is_live() {
        return Err(Fault::invalid(21220, "Call is not in-progress. Cannot redirect."));
    }
    // The row may be behind the call: the node checks again, and answers `NotLive` if it is ending, or has it no more.
    context.state.control.modify_call(&call.common.sid, change).map_err(|error| match error {
        ControlError::NotFound => ControlError::NotLive,
        error => error,
    })?;
    // The node has its own copy, and may have written it.
    Ok(item(context, 200, &own(context, &call.common.sid)?))
}

/// A live call's row would be written again by the node, so only the rows of finished calls are deleted.
fn delete(context: &Context<'_>) -> Result<Answer, Fault> {
    let call: RestCall = own(context, last(context))?;
    if call.is_live() {
        return Err(Fault::new(409, 20009, "Cannot delete call because it's still in progress."));
    }
    context.state.remove(Kind::Call, &call.common.sid)?;
    Ok(Answer::Nothing)
}

/// The answer with one call.
pub(super) fn item(context: &Context<'_>, status: u16, call: &RestCall) -> Answer {
    Answer::Item(status, "Call", render(Some(context), call))
}

/// The fields of Twilio's Call, then RestComm's and our own. `price` is null: calls have no price here.
fn render(context: Option<&Context<'_>>, call: &RestCall) -> Value {
    let path = format!("/Calls/{}", call.common.sid);
    let [price, unit] = price();
    Value::Object(vec![
        ("sid", Value::text(&call.common.sid)),
        created(&call.common),
        updated(&call.common),
        ("parent_call_sid", Value::text(&call.parent)),
        ("account_sid", Value::text(&call.common.account)),
        ("to", Value::text(&call.to)),
        ("to_formatted", Value::text(&call.to)),
        ("from", Value::text(&call.from)),
        ("from_formatted", Value::text(&call.from)),
        ("phone_number_sid", Value::text(&call.phone_number_sid)),
        ("status", Value::text(&call.status)),
        ("start_time", date_value(call.started_at)),
        ("end_time", date_value(call.ended_at)),
        ("duration", Value::figure(call.duration)),
        ("ring_duration", Value::figure(call.ring_duration)),
        price,
        unit,
        ("direction", Value::text(&call.direction)),
        ("answered_by", Value::text(&call.answered_by)),
        version(context),
        ("forwarded_from", Value::text(&call.forwarded_from)),
        ("caller_name", Value::text(&call.caller_name)),
        ("queue_time", Value::Text("0".into())),
        ("conference_sid", Value::text(&call.conference_sid)),
        ("sip_call_id", Value::text(&call.sip_call_id)),
        ("sip_response_code", response_code(context, call)),
        ("sip_reason_phrase", Value::text(&call.sip_reason_phrase)),
        uri(context, &path),
        (
            "subresource_uris",
            subresources(
                &path,
                context,
                &[("events", "Events"), ("notifications", "Notifications"), ("recordings", "Recordings")],
            ),
        ),
    ])
}

/// A number also in an example, whose types the OpenAPI document has.
fn response_code(context: Option<&Context<'_>>, call: &RestCall) -> Value {
    let code = call.sip_response_code.or(context.is_none().then_some(0));
    code.map_or(Value::Null, |code| Value::Int(i64::from(code)))
}

fn example() -> Value {
    render(None, &RestCall::default())
}

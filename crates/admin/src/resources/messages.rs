//! Text messages, as Twilio's `Messages` and RestComm's `SMS/Messages`.
//!
//! The row is made here, the message is sent by the node, and the node writes the row's further states.

use store::rest::types::TextMessage;
use store::rest::{Kind, RestFilter};

use crate::fault::Fault;
use crate::limits;
use crate::numbers::dialled;
use crate::paging::{self, PAGING};
use crate::table::{Answer, Context, Kind as Of, Parameter, Route, Shape};
use crate::value::Value;

use super::{
    NONE, choice, created, date_value, day, last, own, price, subresources, text, unsupported,
    unsupported_flag, updated, uri, url, version,
};

const CREATE: &[Parameter] = &[text("To"), text("From"), text("Body"), url("StatusCallback")];
/// Parameters that Twilio documents and this server refuses.
const UNSUPPORTED: &[Parameter] = &[
    unsupported("MediaUrl"),
    unsupported("MessagingServiceSid"),
    unsupported("ContentSid"),
    unsupported("ContentVariables"),
    unsupported("ApplicationSid"),
    unsupported("MaxPrice"),
    unsupported_flag("ProvideFeedback"),
    unsupported("Attempt"),
    unsupported("ValidityPeriod"),
    unsupported_flag("ForceDelivery"),
    Parameter { name: "ContentRetention", kind: Of::Unsupported(&["retain"]) },
    Parameter { name: "AddressRetention", kind: Of::Unsupported(&["retain"]) },
    unsupported_flag("SmartEncoded"),
    unsupported("PersistentAction"),
    unsupported("TrafficType"),
    unsupported_flag("ShortenUrls"),
    unsupported("ScheduleType"),
    unsupported("SendAt"),
    unsupported_flag("SendAsMms"),
    Parameter { name: "RiskCheck", kind: Of::Unsupported(&["disable"]) },
];
/// `Status` cancels a message that waits for its time at Twilio; none does here.
const REDACT: &[Parameter] = &[text("Body"), unsupported("Status")];
/// Twilio's words.
const STATUS: &[&str] = &[
    "accepted",
    "scheduled",
    "canceled",
    "queued",
    "sending",
    "sent",
    "failed",
    "delivered",
    "undelivered",
    "receiving",
    "received",
    "read",
    "partially_delivered",
];
const LIST: &[Parameter] = &[
    text("To"),
    text("From"),
    choice("Status", STATUS),
    day("DateSent"),
    day("DateSent<"),
    day("DateSent>"),
];

// Each operation has two paths: Twilio's, and `SMS/Messages` of RestComm and of Twilio's older libraries.
const fn list_route(path: &'static str) -> Route {
    Route {
        method: "GET",
        path,
        summary: "Messages, newest first, with filters",
        parameters: &[LIST, PAGING],
        answer: Shape::List("messages", example),
        handler: list,
    }
}

const fn create_route(path: &'static str) -> Route {
    Route {
        method: "POST",
        path,
        summary: "Send a message",
        parameters: &[CREATE, UNSUPPORTED],
        answer: Shape::Item(201, "Message", example),
        handler: create,
    }
}

const fn get_route(path: &'static str) -> Route {
    Route {
        method: "GET",
        path,
        summary: "A message",
        parameters: NONE,
        answer: Shape::Item(200, "Message", example),
        handler: |context| Ok(item(context, 200, &own(context, last(context))?)),
    }
}

const fn update_route(path: &'static str) -> Route {
    Route {
        method: "POST",
        path,
        summary: "Remove the text of a message: its Body is given, and empty",
        parameters: &[REDACT],
        answer: Shape::Item(200, "Message", example),
        handler: redact,
    }
}

const fn media_route(path: &'static str) -> Route {
    Route {
        method: "GET",
        path,
        summary: "Media of a message: an empty list, for messages are texts",
        parameters: &[PAGING],
        answer: Shape::List("media_list", || Value::Object(Vec::new())),
        handler: |context| {
            own::<TextMessage>(context, &context.request.segments[context.request.segments.len() - 2])?;
            Ok(paging::slice(context, &[], ("media_list", "Media"), |_, (): &()| Value::Null))
        },
    }
}

const fn delete_route(path: &'static str) -> Route {
    Route {
        method: "DELETE",
        path,
        summary: "Delete a message",
        parameters: NONE,
        answer: Shape::Nothing,
        handler: |context| {
            let message: TextMessage = own(context, last(context))?;
            context.state.remove(Kind::Message, &message.common.sid)?;
            Ok(Answer::Nothing)
        },
    }
}

/// The operations under both paths; the handlers tell them apart by [`family`].
pub(crate) const ROUTES: &[Route] = &[
    list_route("/Accounts/{AccountSid}/Messages"),
    create_route("/Accounts/{AccountSid}/Messages"),
    get_route("/Accounts/{AccountSid}/Messages/{Sid}"),
    update_route("/Accounts/{AccountSid}/Messages/{Sid}"),
    delete_route("/Accounts/{AccountSid}/Messages/{Sid}"),
    media_route("/Accounts/{AccountSid}/Messages/{Sid}/Media"),
    list_route("/Accounts/{AccountSid}/SMS/Messages"),
    create_route("/Accounts/{AccountSid}/SMS/Messages"),
    get_route("/Accounts/{AccountSid}/SMS/Messages/{Sid}"),
    update_route("/Accounts/{AccountSid}/SMS/Messages/{Sid}"),
    delete_route("/Accounts/{AccountSid}/SMS/Messages/{Sid}"),
    media_route("/Accounts/{AccountSid}/SMS/Messages/{Sid}/Media"),
];

/// `SMS/` where the path has it, and the element's name there.
fn family(context: &Context<'_>) -> (&'static str, &'static str) {
    if context.request.segments.get(2).is_some_and(|segment| segment == "SMS") {
        ("/SMS/Messages", "SMSMessage")
    } else {
        ("/Messages", "Message")
    }
}

fn list(context: &Context<'_>) -> Result<Answer, Fault> {
    let text = |name| context.text(name).map(Box::from);
    // Messages are sent when they are made, so DateSent filters by the time of creation, which has an index.
    let (created_from, created_to) = paging::range(context, "DateSent");
    // As they are kept.
    let number = |name| context.text(name).map(|text| dialled(text).into());
    let filter = RestFilter {
        from: number("From"),
        to: number("To"),
        status: text("Status"),
        created_from,
        created_to,
        ..paging::of_account(context, Kind::Message)
    };
    let names = ("messages", family(context).1);
    paging::rows(context, filter, names, |context, message| render(Some(context), message))
}

/// Twilio's `POST Messages`, with its codes for what is missing.
fn create(context: &Context<'_>) -> Result<Answer, Fault> {
    // A suspended account reads, and sends nothing.
    super::check_active(context)?;
    let required = |name, code, what: &str| context.text(name).ok_or_else(|| Fault::invalid(code, what));
    let to = required("To", 21604, "'To' phone number is required")?;
    let from = required("From", 21603, "'From' phone number is required")?;
    let body = required("Body", 21602, "Message body is required")?;
    // Twilio counts characters, not bytes or segments.
    if body.chars().count() > limits::MAX_MESSAGE {
        let most = limits::MAX_MESSAGE;
        return Err(Fault::invalid(21617, format!("The message body exceeds {most} characters")));
    }
    let message = TextMessage {
        common: context.state.common("SM", &context.account),
        from: dialled(from),
        to: dialled(to),
        body: body.to_owned(),
        // Twilio's first state; the request is answered before the message is sent.
        status: "queued".into(),
        direction: "outbound-api".into(),
        ..TextMessage::default()
    };
    // The row comes first: the node replaces it when the recipient's side has answered.
    context.state.insert(&message)?;
    let callback = context.text("StatusCallback").unwrap_or_default();
    // The node did not take the message and will not write its row.
    if let Err(error) = context.state.control.send_message(&message, callback) {
        let mut failed = TextMessage { status: "failed".into(), ..message };
        failed.common.updated_at = context.state.now();
        // The row stays, so that the failed attempt is in the list.
        context.state.replace(&failed)?;
        return Err(error.into());
    }
    Ok(item(context, 201, &message))
}

/// Twilio's redaction. The node writes the row of a message that is under way, with its text, so it has to be over.
fn redact(context: &Context<'_>) -> Result<Answer, Fault> {
    let mut message: TextMessage = own(context, last(context))?;
    match context.given("Body") {
        Some("") => {}
        Some(_) => {
            return Err(Fault::invalid(
                20400,
                "Body: expected nothing, which removes the text of the message",
            ));
        }
        None => return Err(Fault::invalid(20400, "Nothing to change is given: Body, which has to be empty")),
    }
    if matches!(&*message.status, "queued" | "sending") {
        return Err(Fault::new(409, 20009, "Cannot redact message because it's still in progress."));
    }
    message.body.clear();
    message.common.updated_at = context.state.now();
    context.state.replace(&message)?;
    Ok(item(context, 200, &message))
}

fn item(context: &Context<'_>, status: u16, message: &TextMessage) -> Answer {
    Answer::Item(status, family(context).1, render(Some(context), message))
}

/// The fields of Twilio's Message. `num_media` is 0, and there are no media: messages are texts.
fn render(context: Option<&Context<'_>>, message: &TextMessage) -> Value {
    let path = format!("{}/{}", context.map_or("/Messages", |context| family(context).0), message.common.sid);
    let [price, unit] = price();
    Value::Object(vec![
        ("sid", Value::text(&message.common.sid)),
        created(&message.common),
        updated(&message.common),
        ("date_sent", date_value(message.sent_at)),
        ("account_sid", Value::text(&message.common.account)),
        ("messaging_service_sid", Value::Null),
        ("from", Value::text(&message.from)),
        ("to", Value::text(&message.to)),
        ("body", Value::Text(message.body.clone())),
        ("status", Value::text(&message.status)),
        ("num_segments", Value::Text(message.segments().to_string())),
        ("num_media", Value::Text("0".into())),
        ("direction", Value::text(&message.direction)),
        version(context),
        price,
        unit,
        ("error_code", message.error_code.map_or(Value::Null, |code| Value::Int(i64::from(code)))),
        ("error_message", Value::text(&message.error_message)),
        uri(context, &path),
        ("subresource_uris", subresources(&path, context, &[("media", "Media")])),
    ])
}

fn example() -> Value {
    render(None, &TextMessage::default())
}

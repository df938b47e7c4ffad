//! Notifications: what went wrong with calls and requests to applications.
//!
//! They are written by the node (`voice`) as a call goes on: errors and warnings about documents and requests. Here they are only read and deleted.

use store::rest::types::{Notification, RestCall};
use store::rest::{Kind, RestFilter};

use crate::fault::Fault;
use crate::paging::{self, PAGING};
use crate::table::{Answer, Context, Parameter, Route, Shape};
use crate::value::Value;

use super::{NONE, created, date_value, day, last, own, updated, uri, version};

const LIST: &[Parameter] = &[
    super::int("Log", 0, 1),
    super::int("ErrorCode", 0, 99_999),
    day("MessageDate"),
    day("MessageDate<"),
    day("MessageDate>"),
    day("StartTime"),
    day("EndTime"),
];

const fn get_route(path: &'static str) -> Route {
    Route {
        method: "GET",
        path,
        summary: "A notification, with the request and the response",
        parameters: NONE,
        answer: Shape::Item(200, "Notification", example),
        handler: |context| {
            let found = notification(context)?;
            Ok(Answer::Item(200, "Notification", render(Some(context), &found)))
        },
    }
}

/// The operations, in the order of the description.
pub(crate) const ROUTES: &[Route] = &[
    Route {
        method: "GET",
        path: "/Accounts/{AccountSid}/Notifications",
        summary: "Notifications, newest first, with filters",
        parameters: &[LIST, PAGING],
        answer: Shape::List("notifications", example),
        handler: |context| list(context, None),
    },
    Route {
        method: "GET",
        path: "/Accounts/{AccountSid}/Calls/{CallSid}/Notifications",
        summary: "Notifications of a call",
        parameters: &[LIST, PAGING],
        answer: Shape::List("notifications", example),
        handler: |context| {
            // A call of another account is not found, and so are its notifications.
            let call: RestCall = own(context, last(context))?;
            list(context, Some(call.common.sid.into()))
        },
    },
    get_route("/Accounts/{AccountSid}/Calls/{CallSid}/Notifications/{Sid}"),
    get_route("/Accounts/{AccountSid}/Notifications/{Sid}"),
    Route {
        method: "DELETE",
        path: "/Accounts/{AccountSid}/Notifications/{Sid}",
        summary: "Delete a notification",
        parameters: NONE,
        answer: Shape::Nothing,
        handler: |context| {
            let found: Notification = own(context, last(context))?;
            context.state.remove(Kind::Notification, &found.common.sid)?;
            Ok(Answer::Nothing)
        },
    },
];

/// The notification of the path, which is its call's where the path names one.
fn notification(context: &Context<'_>) -> Result<Notification, Fault> {
    let found: Notification = own(context, last(context))?;
    match context.variables[..] {
        [_, call, sid] if found.call_sid != call => Err(Fault::not_found(sid)),
        _ => Ok(found),
    }
}

/// Log, ErrorCode and MessageDate are Twilio's filters.
fn list(context: &Context<'_>, call: Option<Box<str>>) -> Result<Answer, Fault> {
    // A notification is never sent later than it is made: its date is that of its creation.
    let (mut created_from, mut created_to) = paging::range(context, "MessageDate");
    let date = |name| context.text(name).and_then(crate::date::parse);
    // COMPAT(RestComm): StartTime and EndTime bound the list.
    created_from = created_from.or(date("StartTime").map(|(start, _)| start));
    created_to = created_to.or(date("EndTime").map(|(_, end)| end));
    let filter = RestFilter {
        parent: call,
        // The columns of rows are general; here `status` has the level and `name` the code.
        status: context.text("Log").map(Box::from),
        name: context.text("ErrorCode").map(Box::from),
        created_from,
        created_to,
        ..paging::of_account(context, Kind::Notification)
    };
    let names = ("notifications", "Notification");
    paging::rows(context, filter, names, |context, found| render(Some(context), found))
}

fn render(context: Option<&Context<'_>>, found: &Notification) -> Value {
    // Rows of other writers may lack the link; it follows from the code.
    let more_info = if found.more_info.is_empty() && found.error_code > 0 {
        format!("https://www.twilio.com/docs/errors/{}", found.error_code)
    } else {
        found.more_info.clone()
    };
    Value::Object(vec![
        ("sid", Value::text(&found.common.sid)),
        ("account_sid", Value::text(&found.common.account)),
        version(context),
        ("call_sid", Value::text(&found.call_sid)),
        created(&found.common),
        updated(&found.common),
        ("message_date", date_value(Some(found.common.created_at))),
        // Twilio writes both numbers as texts.
        ("log", Value::Text(found.log.to_string())),
        ("error_code", Value::Text(found.error_code.to_string())),
        ("more_info", Value::text(&more_info)),
        ("message_text", Value::text(&found.message_text)),
        ("request_url", Value::text(&found.request_url)),
        ("request_method", Value::text(&found.request_method)),
        ("request_variables", Value::text(&found.request_variables)),
        ("response_headers", Value::text(&found.response_headers)),
        ("response_body", Value::text(&found.response_body)),
        uri(context, &format!("/Notifications/{}", found.common.sid)),
    ])
}

fn example() -> Value {
    render(None, &Notification::default())
}

//! The events of a call: requests to its applications, each with the answer.
//!
//! The node keeps a request only where something was wrong with it or with the answer, as a notification: those are the events.

use store::rest::types::{Notification, RestCall};
use store::rest::{Kind, Resource as _, RestFilter};

use crate::fault::Fault;
use crate::paging;
use crate::table::{Answer, Context, Route, Shape};
use crate::value::Value;

use super::{PAGE, date_value, last, own};

/// The one operation.
pub(crate) const ROUTES: &[Route] = &[Route {
    method: "GET",
    path: "/Accounts/{AccountSid}/Calls/{CallSid}/Events",
    summary: "Requests to the call's applications that are kept, each with its answer: those that went wrong",
    parameters: PAGE,
    answer: Shape::List("events", example),
    handler: list,
}];

fn list(context: &Context<'_>) -> Result<Answer, Fault> {
    // A call of another account is not found, and so are its events.
    let call: RestCall = own(context, last(context))?;
    let filter = RestFilter {
        parent: Some(call.common.sid.into()),
        ascending: true,
        ..paging::of_account(context, Kind::Notification)
    };
    let (rows, _) = context.state.list(filter)?;
    let kept = rows.iter().map(Notification::from_row).collect::<Result<Vec<_>, _>>()?;
    // Others of its notifications are about no request: a call that no phone took, a document that was given inline.
    let requests: Vec<Notification> = kept.into_iter().filter(|kept| !kept.request_url.is_empty()).collect();
    Ok(paging::slice(context, &requests, ("events", "Event"), |_, kept| render(kept)))
}

/// `request` and `response` as Twilio's Event has them, with the fields that notifications have.
fn render(kept: &Notification) -> Value {
    let request = vec![
        ("method", Value::text(&kept.request_method)),
        ("url", Value::text(&kept.request_url)),
        ("parameters", Value::text(&kept.request_variables)),
    ];
    let response = vec![
        ("date_created", date_value(Some(kept.common.created_at))),
        ("response_headers", Value::text(&kept.response_headers)),
        ("response_body", Value::text(&kept.response_body)),
    ];
    Value::Object(vec![("request", Value::Object(request)), ("response", Value::Object(response))])
}

fn example() -> Value {
    render(&Notification::default())
}

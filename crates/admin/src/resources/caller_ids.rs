//! Outgoing caller ids: numbers an account may show. The server does not verify them by a call: the operator
//! vouches.
//!
//! Invariant: each row is one exact number, as a caller id is shown to peers. The name by which rows are found
//! is that number.

use store::rest::types::CallerId;
use store::rest::{Kind, Resource as _, RestFilter};

use crate::fault::Fault;
use crate::numbers::Number;
use crate::paging::{self, PAGING};
use crate::table::{Answer, Context, Kind as Of, Parameter, Route, Shape};
use crate::value::Value;

use super::{NONE, created, last, own, text, unsupported, updated, uri};

const CREATE: &[Parameter] = &[text("PhoneNumber"), text("FriendlyName")];
/// Parameters of the call by which Twilio verifies a number. This server makes no such call.
const UNSUPPORTED: &[Parameter] = &[
    Parameter { name: "CallDelay", kind: Of::Unsupported(&["0"]) },
    unsupported("Extension"),
    unsupported("StatusCallback"),
    unsupported("StatusCallbackMethod"),
];
const UPDATE: &[Parameter] = &[text("FriendlyName")];

/// The operations, in the order of the description.
pub(crate) const ROUTES: &[Route] = &[
    Route {
        method: "GET",
        path: "/Accounts/{AccountSid}/OutgoingCallerIds",
        summary: "Caller ids, by number and by name when they are given",
        parameters: &[CREATE, PAGING],
        answer: Shape::List("outgoing_caller_ids", example),
        handler: list,
    },
    Route {
        method: "POST",
        path: "/Accounts/{AccountSid}/OutgoingCallerIds",
        summary: "Add a caller id",
        parameters: &[CREATE, UNSUPPORTED],
        answer: Shape::Item(201, "OutgoingCallerId", example),
        handler: create,
    },
    Route {
        method: "GET",
        path: "/Accounts/{AccountSid}/OutgoingCallerIds/{Sid}",
        summary: "A caller id",
        parameters: NONE,
        answer: Shape::Item(200, "OutgoingCallerId", example),
        handler: |context| Ok(item(context, 200, &own(context, last(context))?)),
    },
    Route {
        method: "POST",
        path: "/Accounts/{AccountSid}/OutgoingCallerIds/{Sid}",
        summary: "Rename a caller id",
        parameters: &[UPDATE],
        answer: Shape::Item(200, "OutgoingCallerId", example),
        handler: update,
    },
    Route {
        method: "DELETE",
        path: "/Accounts/{AccountSid}/OutgoingCallerIds/{Sid}",
        summary: "Delete a caller id",
        parameters: NONE,
        answer: Shape::Nothing,
        handler: |context| {
            let found: CallerId = own(context, last(context))?;
            context.state.remove(Kind::CallerId, &found.common.sid)?;
            Ok(Answer::Nothing)
        },
    },
];

/// A caller id is one number: a regular expression, which a bound number may be, is refused.
fn number(text: &str) -> Result<String, Fault> {
    match Number::parse(text) {
        Ok(Number::Exact(number)) => Ok(number),
        _ => Err(Fault::invalid(21421, format!("PhoneNumber {text:?} is invalid"))),
    }
}

fn list(context: &Context<'_>) -> Result<Answer, Fault> {
    let name = context.text("PhoneNumber").map(number).transpose()?.map(String::into);
    let filter = RestFilter { name, ..paging::of_account(context, Kind::CallerId) };
    let names = ("outgoing_caller_ids", "OutgoingCallerId");
    if let Some(name) = context.text("FriendlyName") {
        // Not a column: the operator has vouched for each caller id.
        let (rows, _) = context.state.list(filter)?;
        let mut found = rows.iter().map(CallerId::from_row).collect::<Result<Vec<CallerId>, _>>()?;
        found.retain(|found| found.friendly_name == name);
        return Ok(paging::slice(context, &found, names, |_, found| render(Some(context), found)));
    }
    paging::rows(context, filter, names, |context, found| render(Some(context), found))
}

fn create(context: &Context<'_>) -> Result<Answer, Fault> {
    let Some(text) = context.text("PhoneNumber") else {
        return Err(Fault::invalid(21421, "PhoneNumber is missing"));
    };
    let phone_number = number(text)?;
    // Twilio calls the number and asks for a code; here the operator of the node is the proof.
    super::check_operator(context, "Caller ids are vouched for by the first account")?;
    let found = CallerId {
        // Twilio's prefix of numbers, bound ones and caller ids alike.
        common: context.state.common("PN", &context.account),
        friendly_name: context.text("FriendlyName").unwrap_or(&phone_number).to_owned(),
        phone_number,
    };
    context.state.insert(&found)?;
    Ok(item(context, 201, &found))
}

fn update(context: &Context<'_>) -> Result<Answer, Fault> {
    let mut found: CallerId = own(context, last(context))?;
    // The number cannot be changed: it is what was vouched for.
    context.set("FriendlyName", &mut found.friendly_name);
    found.common.updated_at = context.state.now();
    context.state.replace(&found)?;
    Ok(item(context, 200, &found))
}

fn item(context: &Context<'_>, status: u16, found: &CallerId) -> Answer {
    Answer::Item(status, "OutgoingCallerId", render(Some(context), found))
}

fn render(context: Option<&Context<'_>>, found: &CallerId) -> Value {
    Value::Object(vec![
        ("sid", Value::text(&found.common.sid)),
        created(&found.common),
        updated(&found.common),
        ("account_sid", Value::text(&found.common.account)),
        ("friendly_name", Value::text(&found.friendly_name)),
        ("phone_number", Value::text(&found.phone_number)),
        uri(context, &format!("/OutgoingCallerIds/{}", found.common.sid)),
    ])
}

fn example() -> Value {
    render(None, &CallerId::default())
}

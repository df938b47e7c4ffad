//! Conferences: what is and was, and an end or announcement for all of one.
//!
//! Rows are written by the node that has the conference; a change goes there.

use store::rest::types::Conference;
use store::rest::{Kind, RestFilter};

use crate::control::ConferenceChange;
use crate::fault::Fault;
use crate::paging::{self, PAGING};
use crate::table::{Answer, Context, Parameter, Route, Shape};
use crate::value::Value;

use super::{
    NONE, choice, created, day, last, method, own, subresources, text, unsupported, updated, uri, url,
    version,
};

const LIST: &[Parameter] = &[
    choice("Status", &["init", "in-progress", "completed"]),
    text("FriendlyName"),
    day("DateCreated"),
    day("DateCreated<"),
    day("DateCreated>"),
    unsupported("DateUpdated"),
    unsupported("DateUpdated<"),
    unsupported("DateUpdated>"),
];
const UPDATE: &[Parameter] =
    &[choice("Status", &["completed"]), url("AnnounceUrl"), method("AnnounceMethod")];

/// The operations, in the order of the description. Participants have a file of their own.
pub(crate) const ROUTES: &[Route] = &[
    Route {
        method: "GET",
        path: "/Accounts/{AccountSid}/Conferences",
        summary: "Conferences, newest first, with filters",
        parameters: &[LIST, PAGING],
        answer: Shape::List("conferences", example),
        handler: list,
    },
    Route {
        method: "GET",
        path: "/Accounts/{AccountSid}/Conferences/{Sid}",
        summary: "A conference",
        parameters: NONE,
        answer: Shape::Item(200, "Conference", example),
        handler: |context| Ok(item(context, &own(context, last(context))?)),
    },
    Route {
        method: "POST",
        path: "/Accounts/{AccountSid}/Conferences/{Sid}",
        summary: "End a conference, or announce something to it",
        parameters: &[UPDATE],
        answer: Shape::Item(200, "Conference", example),
        handler: update,
    },
];

fn list(context: &Context<'_>) -> Result<Answer, Fault> {
    let (created_from, created_to) = paging::range(context, "DateCreated");
    let filter = RestFilter {
        status: context.text("Status").map(Box::from),
        name: context.text("FriendlyName").map(Box::from),
        created_from,
        created_to,
        ..paging::of_account(context, Kind::Conference)
    };
    paging::rows(context, filter, ("conferences", "Conference"), |context, found| {
        render(Some(context), found)
    })
}

/// Only a live conference changes; its row is written by the node.
fn update(context: &Context<'_>) -> Result<Answer, Fault> {
    let conference: Conference = own(context, last(context))?;
    let change = ConferenceChange {
        // `completed` is the only value that the parameter may have.
        complete: context.text("Status").is_some(),
        announce_url: context.text("AnnounceUrl").map(str::to_owned),
        announce_method: context.text("AnnounceMethod").unwrap_or("POST").to_ascii_uppercase(),
    };
    if !change.complete && change.announce_url.is_none() {
        return Err(Fault::invalid(20400, "Nothing to change is given: Status or AnnounceUrl"));
    }
    // The row may be behind: the node refuses a conference that has ended since.
    if conference.status == "completed" {
        return Err(Fault::invalid(20400, "The conference is over"));
    }
    // Asks the node that has it, and all others if this one has not.
    context.state.control.modify_conference(&conference.common.sid, change)?;
    // Read again: the node may have written the end already.
    Ok(item(context, &own(context, &conference.common.sid)?))
}

fn item(context: &Context<'_>, conference: &Conference) -> Answer {
    Answer::Item(200, "Conference", render(Some(context), conference))
}

/// Twilio's Conference. `region` is a constant: there are no regions here.
fn render(context: Option<&Context<'_>>, conference: &Conference) -> Value {
    let path = format!("/Conferences/{}", conference.common.sid);
    Value::Object(vec![
        ("sid", Value::text(&conference.common.sid)),
        ("account_sid", Value::text(&conference.common.account)),
        created(&conference.common),
        updated(&conference.common),
        version(context),
        ("friendly_name", Value::text(&conference.friendly_name)),
        ("region", Value::Text("local".into())),
        ("status", Value::text(&conference.status)),
        ("reason_conference_ended", Value::text(&conference.reason_ended)),
        ("call_sid_ending_conference", Value::text(&conference.call_sid_ending)),
        uri(context, &path),
        (
            "subresource_uris",
            subresources(&path, context, &[("participants", "Participants"), ("recordings", "Recordings")]),
        ),
    ])
}

fn example() -> Value {
    render(None, &Conference::default())
}

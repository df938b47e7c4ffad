//! Transcriptions of recordings.
//!
//! Rows are written by the node once a recording has been understood; here they are only read and deleted. The
//! parent of a row is its recording, so the list of one recording is a search by an index.

use store::rest::types::{Recording, Transcription};
use store::rest::{Kind, RestFilter};

use crate::fault::Fault;
use crate::paging;
use crate::table::{Answer, Context, Route, Shape};
use crate::value::Value;

use super::{NONE, PAGE, created, last, own, price, updated, uri, version};

const fn get_route(path: &'static str) -> Route {
    Route {
        method: "GET",
        path,
        summary: "A transcription",
        parameters: NONE,
        answer: Shape::Item(200, "Transcription", example),
        handler: |context| {
            let found = transcription(context)?;
            Ok(Answer::Item(200, "Transcription", render(Some(context), &found)))
        },
    }
}

const fn delete_route(path: &'static str) -> Route {
    Route {
        method: "DELETE",
        path,
        summary: "Delete a transcription",
        parameters: NONE,
        answer: Shape::Nothing,
        handler: |context| {
            let found = transcription(context)?;
            // The recording stays.
            context.state.remove(Kind::Transcription, &found.common.sid)?;
            Ok(Answer::Nothing)
        },
    }
}

/// The operations; `openapi` makes the description of the interface of the same entries.
pub(crate) const ROUTES: &[Route] = &[
    Route {
        method: "GET",
        path: "/Accounts/{AccountSid}/Transcriptions",
        summary: "Transcriptions, newest first",
        parameters: PAGE,
        answer: Shape::List("transcriptions", example),
        handler: |context| list(context, None),
    },
    Route {
        method: "GET",
        path: "/Accounts/{AccountSid}/Recordings/{RecordingSid}/Transcriptions",
        summary: "Transcriptions of a recording",
        parameters: PAGE,
        answer: Shape::List("transcriptions", example),
        handler: |context| {
            // The recording must be the account's own: else the list would show that a foreign one exists.
            let recording: Recording = own(context, last(context))?;
            list(context, Some(recording.common.sid.into()))
        },
    },
    get_route("/Accounts/{AccountSid}/Recordings/{RecordingSid}/Transcriptions/{Sid}"),
    delete_route("/Accounts/{AccountSid}/Recordings/{RecordingSid}/Transcriptions/{Sid}"),
    get_route("/Accounts/{AccountSid}/Transcriptions/{Sid}"),
    delete_route("/Accounts/{AccountSid}/Transcriptions/{Sid}"),
];

/// The transcription of the path, which is its recording's where the path names one.
fn transcription(context: &Context<'_>) -> Result<Transcription, Fault> {
    let found: Transcription = own(context, last(context))?;
    match context.variables[..] {
        [_, recording, sid] if found.recording_sid != recording => Err(Fault::not_found(sid)),
        _ => Ok(found),
    }
}

fn list(context: &Context<'_>, recording: Option<Box<str>>) -> Result<Answer, Fault> {
    let filter = RestFilter { parent: recording, ..paging::of_account(context, Kind::Transcription) };
    let names = ("transcriptions", "Transcription");
    paging::rows(context, filter, names, |context, found| render(Some(context), found))
}

/// Twilio's Transcription. `type` is a constant: there is one way to transcribe.
fn render(context: Option<&Context<'_>>, found: &Transcription) -> Value {
    // Present for Twilio's libraries; nothing is charged here.
    let [price, unit] = price();
    Value::Object(vec![
        ("sid", Value::text(&found.common.sid)),
        created(&found.common),
        updated(&found.common),
        ("account_sid", Value::text(&found.common.account)),
        version(context),
        ("status", Value::text(&found.status)),
        ("type", Value::Text("fast".into())),
        ("recording_sid", Value::text(&found.recording_sid)),
        ("duration", Value::figure(found.duration)),
        ("transcription_text", Value::text(&found.text)),
        price,
        unit,
        uri(context, &format!("/Transcriptions/{}", found.common.sid)),
    ])
}

fn example() -> Value {
    render(None, &Transcription::default())
}

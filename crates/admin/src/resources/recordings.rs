//! Recordings: what is known of them, their sound, and recording a live call.
//!
//! A recording is a row here and a file at the node that made it. The suffix of the path decides between the row and the sound.

use store::rest::types::{Conference, Recording, RestCall};
use store::rest::{Kind, Resource as _, RestFilter};

use crate::control::{ControlError, EncodeError, RecordingChange};
use crate::fault::Fault;
use crate::limits;
use crate::paging::{self, PAGING};
use crate::request::{Base, Format};
use crate::table::{Answer, Context, Parameter, Route, Shape};
use crate::value::Value;

use super::{
    NONE, PAGE, calls, choice, created, date_value, day, last, own, price, subresources, text, updated, uri,
    version,
};

/// `<` and `>` belong to the names, as Twilio has them: up to a day and from a day on.
const LIST: &[Parameter] =
    &[text("CallSid"), text("ConferenceSid"), day("DateCreated"), day("DateCreated<"), day("DateCreated>")];
/// The change of a recording under way.
const UPDATE: &[Parameter] = &[
    choice("Status", &["paused", "in-progress", "stopped"]),
    // Twilio's default is silence.
    choice("PauseBehavior", &["silence", "skip"]),
];

/// In the place of a sid, below a call or a conference: its recording that is under way.
const CURRENT: &str = "Twilio.CURRENT";

const fn get_route(path: &'static str) -> Route {
    Route {
        method: "GET",
        path,
        summary: "A recording; with .wav or .mp3 its sound",
        parameters: NONE,
        answer: Shape::Item(200, "Recording", example),
        handler: get,
    }
}

const fn delete_route(path: &'static str) -> Route {
    Route {
        method: "DELETE",
        path,
        summary: "Delete a recording and its sound",
        parameters: NONE,
        answer: Shape::Nothing,
        handler: delete,
    }
}

const fn update_route(path: &'static str, summary: &'static str) -> Route {
    Route {
        method: "POST",
        path,
        summary,
        parameters: &[UPDATE],
        answer: Shape::Item(200, "Recording", example),
        handler: update,
    }
}

pub(crate) const ROUTES: &[Route] = &[
    Route {
        method: "GET",
        path: "/Accounts/{AccountSid}/Recordings",
        summary: "Recordings, newest first, with filters",
        parameters: &[LIST, PAGING],
        answer: Shape::List("recordings", example),
        handler: list,
    },
    get_route("/Accounts/{AccountSid}/Recordings/{Sid}"),
    delete_route("/Accounts/{AccountSid}/Recordings/{Sid}"),
    Route {
        method: "GET",
        path: "/Accounts/{AccountSid}/Calls/{CallSid}/Recordings",
        summary: "Recordings of a call",
        parameters: PAGE,
        answer: Shape::List("recordings", example),
        handler: of_call,
    },
    Route {
        method: "POST",
        path: "/Accounts/{AccountSid}/Calls/{CallSid}/Recordings",
        summary: "Begin to record a live call",
        parameters: &[calls::RECORD],
        answer: Shape::Item(201, "Recording", example),
        handler: start,
    },
    get_route("/Accounts/{AccountSid}/Calls/{CallSid}/Recordings/{Sid}"),
    delete_route("/Accounts/{AccountSid}/Calls/{CallSid}/Recordings/{Sid}"),
    update_route(
        "/Accounts/{AccountSid}/Calls/{CallSid}/Recordings/{Sid}",
        "Pause, resume or stop the recording of a live call",
    ),
    Route {
        method: "GET",
        path: "/Accounts/{AccountSid}/Conferences/{ConferenceSid}/Recordings",
        summary: "Recordings of a conference",
        parameters: PAGE,
        answer: Shape::List("recordings", example),
        handler: of_conference,
    },
    get_route("/Accounts/{AccountSid}/Conferences/{ConferenceSid}/Recordings/{Sid}"),
    delete_route("/Accounts/{AccountSid}/Conferences/{ConferenceSid}/Recordings/{Sid}"),
    update_route(
        "/Accounts/{AccountSid}/Conferences/{ConferenceSid}/Recordings/{Sid}",
        "Pause, resume or stop the recording of a live conference",
    ),
];

/// The filters of the query; without one, all recordings of the account.
fn list(context: &Context<'_>) -> Result<Answer, Fault> {
    let (created_from, created_to) = paging::range(context, "DateCreated");
    let filter = RestFilter {
        parent: context.text("CallSid").map(Box::from),
        name: context.text("ConferenceSid").map(Box::from),
        created_from,
        created_to,
        ..paging::of_account(context, Kind::Recording)
    };
    page(context, filter)
}

/// A page of recordings.
fn page(context: &Context<'_>, filter: RestFilter) -> Result<Answer, Fault> {
    paging::rows(context, filter, ("recordings", "Recording"), |context, found| render(Some(context), found))
}

/// The call's sid is in the column `parent`.
fn of_call(context: &Context<'_>) -> Result<Answer, Fault> {
    let call: RestCall = own(context, last(context))?;
    let parent = Some(call.common.sid.into());
    page(context, RestFilter { parent, ..paging::of_account(context, Kind::Recording) })
}

/// The conference's sid is in the column `name`: `parent` has the call's.
fn of_conference(context: &Context<'_>) -> Result<Answer, Fault> {
    let conference: Conference = own(context, last(context))?;
    let name = Some(conference.common.sid.into());
    page(context, RestFilter { name, ..paging::of_account(context, Kind::Recording) })
}

/// The recording of the path, which is its call's or conference's where the path names one.
fn recording(context: &Context<'_>) -> Result<Recording, Fault> {
    // Paths with two variables name the recording alone.
    let [_, parent, sid] = context.variables[..] else { return own(context, last(context)) };
    let is_of_conference = context.request.segments.get(2).is_some_and(|segment| segment == "Conferences");
    if sid == CURRENT {
        return current(context, parent, is_of_conference);
    }
    let recording: Recording = own(context, sid)?;
    let of = if is_of_conference { &recording.conference_sid } else { &recording.call_sid };
    if of == parent { Ok(recording) } else { Err(Fault::not_found(sid)) }
}

/// The newest one of a call or conference that is under way, paused or not.
fn current(context: &Context<'_>, parent: &str, is_of_conference: bool) -> Result<Recording, Fault> {
    let mut newest: Option<Recording> = None;
    // A filter has one status, so there are two reads.
    for status in ["in-progress", "paused"] {
        let (call, conference) = if is_of_conference { (None, Some(parent)) } else { (Some(parent), None) };
        let filter = RestFilter {
            parent: call.map(Box::from),
            name: conference.map(Box::from),
            status: Some(status.into()),
            limit: 1,
            ..paging::of_account(context, Kind::Recording)
        };
        for row in &context.state.list(filter)?.0 {
            let found = Recording::from_row(row)?;
            if newest.as_ref().is_none_or(|newest| newest.common.created_at < found.common.created_at) {
                newest = Some(found);
            }
        }
    }
    newest.ok_or_else(|| Fault::new(404, 20404, format!("No recording of {parent} is under way")))
}

/// Its file is still written: neither completed nor failed.
fn is_under_way(recording: &Recording) -> bool {
    matches!(recording.status.as_str(), "in-progress" | "paused")
}

/// The row, or the sound of its node.
fn get(context: &Context<'_>) -> Result<Answer, Fault> {
    let recording = recording(context)?;
    match context.request.format {
        // Twilio's Recording resource: without a suffix it is the sound; RestComm's is the row.
        Format::Xml if context.base() == Base::Twilio && !context.request.has_suffix => {}
        Format::Json | Format::Xml => return Ok(item(context, 200, &recording)),
        // Converting takes seconds: the future is awaited by the runtime, not by this thread of the pool.
        Format::Mp3 => {
            let encoding = context.state.control.recording_as_mp3(&recording.common.sid, &recording.node);
            return Ok(Answer::Encoding(encoding));
        }
        Format::Wav => {}
    }
    let Recording { common, node, .. } = &recording;
    match context.state.control.recording(&common.sid, node) {
        Ok(sound) => Ok(Answer::Audio(sound)),
        Err(EncodeError::NotFound) => Err(Fault::not_found(&common.sid)),
        Err(error) => Err(error.into()),
    }
}

/// Twilio's `POST Recordings` below a live call.
fn start(context: &Context<'_>) -> Result<Answer, Fault> {
    let call: RestCall = own(context, last(context))?;
    // A call that rings has no audio yet; Twilio's code is that of a change of a call that is not up.
    if call.status != "in-progress" {
        return Err(Fault::invalid(21220, "Call is not in-progress. Cannot record."));
    }
    let how = calls::recording_options(context)?;
    let common = context.state.common("RE", &context.account);
    let recording = Recording {
        call_sid: call.common.sid,
        status: "in-progress".into(),
        source: "StartCallRecordingAPI".into(),
        channels: how.channels,
        started_at: Some(common.created_at),
        common,
        ..Recording::default()
    };
    let Recording { common, call_sid, .. } = &recording;
    // The row comes first: the node replaces it when the recording ends.
    context.state.insert(&recording)?;
    if let Err(error) = context.state.control.start_recording(call_sid, &common.sid, &how) {
        // Nothing was recorded, so no row stays that would never end.
        context.state.remove(Kind::Recording, &common.sid)?;
        return Err(error.into());
    }
    Ok(item(context, 201, &recording))
}

/// Pause, resume or stop. The node that records makes the change; the row follows with the node's own write.
fn update(context: &Context<'_>) -> Result<Answer, Fault> {
    let recording = recording(context)?;
    let Some(status) = context.text("Status") else {
        return Err(Fault::invalid(20400, "Status is required"));
    };
    let change = match status {
        "paused" => RecordingChange::Pause { is_silent: context.text("PauseBehavior") != Some("skip") },
        "in-progress" => RecordingChange::Resume,
        // `stopped`: the table of parameters lets no other word through.
        _ => RecordingChange::Stop,
    };
    let sid = &recording.common.sid;
    context.state.control.modify_recording(sid, change)?;
    // The node's own write may not be on disk yet: a change that is made shows, and an end that has come already.
    let recording: Recording = own(context, sid)?;
    let is_over = !is_under_way(&recording);
    let status = if is_over { recording.status.clone() } else { status.to_owned() };
    Ok(item(context, 200, &Recording { status, ..recording }))
}

/// The file goes first: a row without a file is a missing recording, a file without a row would stay for ever.
fn delete(context: &Context<'_>) -> Result<Answer, Fault> {
    let recording = recording(context)?;
    // Its file is still written, and the node would write the row again at its end.
    if is_under_way(&recording) && !is_abandoned(context, &recording)? {
        return Err(Fault::new(409, 20009, "Cannot delete recording because it's still in progress."));
    }
    context.state.control.remove_recording(&recording.common.sid, &recording.node)?;
    context.state.remove(Kind::Recording, &recording.common.sid)?;
    Ok(Answer::Nothing)
}

/// True if no node has the recording any more, as the one that had it was killed: its call has been over for a while, and no node knows it.
fn is_abandoned(context: &Context<'_>, recording: &Recording) -> Result<bool, Fault> {
    let call: Option<RestCall> = context.state.get(&recording.call_sid)?;
    let now = context.state.now();
    let is_over =
        |call: &RestCall| call.ended_at.is_some_and(|ended| now.since(ended) >= limits::RECORDING_ENDS);
    if call.is_some_and(|call| call.is_live() || !is_over(&call)) {
        return Ok(false);
    }
    match context.state.control.modify_recording(&recording.common.sid, RecordingChange::Stop) {
        Ok(()) => Ok(false),
        Err(ControlError::NotFound) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

fn item(context: &Context<'_>, status: u16, recording: &Recording) -> Answer {
    Answer::Item(status, "Recording", render(Some(context), recording))
}

/// The fields of Twilio's Recording, and RestComm's `file_uri`, the path of `media_url`.
pub(crate) fn render(context: Option<&Context<'_>>, recording: &Recording) -> Value {
    let Recording { common, .. } = recording;
    let path = format!("/Recordings/{}", common.sid);
    // WAV is what the node writes; MP3 depends on an encoder.
    let file = context.map_or(String::new(), |context| {
        format!("{}/Accounts/{}{path}.wav", context.base().prefix(), common.account)
    });
    let [price, unit] = price();
    Value::Object(vec![
        ("sid", Value::text(&common.sid)),
        ("account_sid", Value::text(&common.account)),
        version(context),
        ("call_sid", Value::text(&recording.call_sid)),
        ("conference_sid", Value::text(&recording.conference_sid)),
        created(common),
        updated(common),
        ("start_time", date_value(recording.started_at)),
        ("duration", Value::figure(recording.duration)),
        ("channels", Value::Int(i64::from(recording.channels.max(1)))),
        ("source", Value::text(&recording.source)),
        ("status", Value::text(&recording.status)),
        ("error_code", recording.error_code.map_or(Value::Null, |code| Value::Int(i64::from(code)))),
        price,
        unit,
        ("encryption_details", Value::Null),
        uri(context, &path),
        ("file_uri", Value::Text(file.clone())),
        // As at Twilio a whole URL, which applications give on.
        (
            "media_url",
            Value::Text(format!("{}{file}", context.map_or("", |context| &context.state.public_url))),
        ),
        ("subresource_uris", subresources(&path, context, &[("transcriptions", "Transcriptions")])),
    ])
}

fn example() -> Value {
    render(None, &Recording::default())
}

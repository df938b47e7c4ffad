//! Participants of a live conference: listed, called in, muted, held, put out.
//!
//! They are in the memory of the node that has the conference, so nothing here is a row of the database, except the conference and the call that is
//! placed.

use stdx::Instant;
use store::rest::types::{Common, Conference};
use store::rest::{Kind as Rows, Resource as _, RestFilter};

use crate::control::{Document, Participant, ParticipantChange};
use crate::fault::Fault;
use crate::paging::{self, PAGING};
use crate::request::encode;
use crate::table::{Answer, Context, Kind, Parameter, Route, Shape};
use crate::value::Value;

use super::{
    calls, choice, date_value, flag, last, method, own, text, unsupported, unsupported_flag, uri, url,
};

const LIST: &[Parameter] = &[flag("Muted"), flag("Hold"), flag("Coaching")];
const CREATE: &[Parameter] = &[
    url("StatusCallback"),
    method("StatusCallbackMethod"),
    text("StatusCallbackEvent"),
    super::int("TimeLimit", 1, 86_400),
    text("Label"),
    flag("Muted"),
    choice("Beep", &["true", "false", "onEnter", "onExit"]),
    flag("StartConferenceOnEnter"),
    flag("EndConferenceOnExit"),
    url("WaitUrl"),
    choice("WaitMethod", &["GET", "POST"]),
];
/// Parameters that Twilio documents and this server refuses.
const UNSUPPORTED: &[Parameter] = &[
    unsupported_flag("Coaching"),
    unsupported("CallSidToCoach"),
    // Twilio's default: what a callee says before it answers is heard.
    Parameter { name: "EarlyMedia", kind: Kind::Unsupported(&["true"]) },
    unsupported("MaxParticipants"),
    Parameter { name: "ConferenceRecord", kind: Kind::Unsupported(&["false", "do-not-record"]) },
    unsupported("ConferenceTrim"),
    unsupported("ConferenceStatusCallback"),
    unsupported("ConferenceStatusCallbackMethod"),
    unsupported("ConferenceStatusCallbackEvent"),
    unsupported("ConferenceRecordingStatusCallback"),
    unsupported("ConferenceRecordingStatusCallbackMethod"),
    unsupported("ConferenceRecordingStatusCallbackEvent"),
    unsupported("Region"),
    unsupported("JitterBufferSize"),
    unsupported("CallerDisplayName"),
    unsupported("AmdStatusCallback"),
    unsupported("AmdStatusCallbackMethod"),
];
const UNSUPPORTED_UPDATE: &[Parameter] = &[
    unsupported_flag("Coaching"),
    unsupported("CallSidToCoach"),
    Parameter { name: "HoldMethod", kind: Kind::Unsupported(&["POST"]) },
    Parameter { name: "AnnounceMethod", kind: Kind::Unsupported(&["POST"]) },
    unsupported("WaitUrl"),
    unsupported("WaitMethod"),
    unsupported_flag("BeepOnExit"),
];
/// A parameter of Twilio's, and the attribute of `<Conference>` that has its meaning.
const ATTRIBUTES: &[(&str, &str)] = &[
    ("Label", "participantLabel"),
    ("Muted", "muted"),
    ("Beep", "beep"),
    ("StartConferenceOnEnter", "startConferenceOnEnter"),
    ("EndConferenceOnExit", "endConferenceOnExit"),
    ("WaitUrl", "waitUrl"),
    ("WaitMethod", "waitMethod"),
];
const UPDATE: &[Parameter] = &[
    flag("Muted"),
    flag("Mute"),
    flag("Hold"),
    url("HoldUrl"),
    url("AnnounceUrl"),
    flag("EndConferenceOnExit"),
];

pub(crate) const ROUTES: &[Route] = &[
    Route {
        method: "GET",
        path: "/Accounts/{AccountSid}/Conferences/{ConferenceSid}/Participants",
        summary: "Who is in a conference, in the order they came",
        parameters: &[LIST, PAGING],
        answer: Shape::List("participants", example),
        handler: list,
    },
    Route {
        method: "POST",
        path: "/Accounts/{AccountSid}/Conferences/{ConferenceSid}/Participants",
        summary: "Call a participant into a conference, by its sid or name",
        parameters: &[calls::CREATE, calls::RECORD, CREATE, calls::UNSUPPORTED, UNSUPPORTED],
        answer: Shape::Item(201, "Participant", example),
        handler: create,
    },
    Route {
        method: "GET",
        path: "/Accounts/{AccountSid}/Conferences/{ConferenceSid}/Participants/{CallSid}",
        summary: "A participant, by call or label",
        parameters: super::NONE,
        answer: Shape::Item(200, "Participant", example),
        handler: |context| item(context, &conference(context)?, last(context)),
    },
    Route {
        method: "POST",
        path: "/Accounts/{AccountSid}/Conferences/{ConferenceSid}/Participants/{CallSid}",
        summary: "Mute or hold a participant, or announce something to it",
        parameters: &[UPDATE, UNSUPPORTED_UPDATE],
        answer: Shape::Item(200, "Participant", example),
        handler: update,
    },
    Route {
        method: "DELETE",
        path: "/Accounts/{AccountSid}/Conferences/{ConferenceSid}/Participants/{CallSid}",
        summary: "Put a participant out; its call goes on",
        parameters: super::NONE,
        answer: Shape::Nothing,
        handler: kick,
    },
];

/// The conference of the path.
fn conference(context: &Context<'_>) -> Result<Conference, Fault> {
    own(context, context.variables[1])
}

/// Twilio's filters, over the participants in the node's memory.
fn list(context: &Context<'_>) -> Result<Answer, Fault> {
    let conference = conference(context)?;
    let wanted = |flag: Option<bool>, is: bool| flag.is_none_or(|wanted| wanted == is);
    let (muted, hold, coaching) = (context.flag("Muted"), context.flag("Hold"), context.flag("Coaching"));
    let mut all = context.state.control.participants(&conference.common.sid)?;
    all.retain(|one| wanted(muted, one.muted) && wanted(hold, one.hold) && wanted(coaching, one.coaching));
    let render = |_, one: &Participant| render(Some(context), &conference, one);
    Ok(paging::slice(context, &all, ("participants", "Participant"), render))
}

/// The conference of the path by its sid, or the one under way by its name, as Twilio has it. Without one a conference of that name
/// begins with the call; it has no sid yet.
fn conference_or_new(context: &Context<'_>) -> Result<Conference, Fault> {
    let name = context.variables[1];
    let digits = name.strip_prefix("CF").unwrap_or_default();
    let is_sid = digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_sid || context.state.get::<Conference>(name)?.is_some() {
        return conference(context);
    }
    for status in ["in-progress", "init"] {
        let filter = RestFilter {
            status: Some(status.into()),
            name: Some(name.into()),
            limit: 1,
            ..paging::of_account(context, Rows::Conference)
        };
        if let Some(row) = context.state.list(filter)?.0.first() {
            let conference = Conference::from_row(row)?;
            // Without a participant at any node it has ended with its node.
            if !context.state.control.participants(&conference.common.sid)?.is_empty() {
                return Ok(conference);
            }
        }
    }
    let common = Common { account: context.account.common.sid.clone(), ..Common::default() };
    Ok(Conference { common, friendly_name: name.to_owned(), ..Conference::default() })
}

/// Twilio's `POST Participants`: a call whose first document is the conference.
fn create(context: &Context<'_>) -> Result<Answer, Fault> {
    let conference = conference_or_new(context)?;
    if conference.status == "completed" {
        return Err(Fault::invalid(20400, "The conference is over"));
    }
    // The conference replaces the document; `StartCall` needs one.
    let document = Document::Inline(String::new());
    let call = calls::place(context, document, Some(&conference))?;
    // The call has not entered yet, so the node does not list it: the answer repeats what was asked, with Twilio's
    // defaults.
    let participant = Participant {
        call_sid: call.common.sid,
        label: context.text("Label").unwrap_or_default().to_owned(),
        muted: context.flag("Muted").unwrap_or(false),
        hold: false,
        coaching: false,
        start_conference_on_enter: context.flag("StartConferenceOnEnter").unwrap_or(true),
        end_conference_on_exit: context.flag("EndConferenceOnExit").unwrap_or(false),
        status: "queued".into(),
        joined_at: call.common.created_at,
    };
    Ok(Answer::Item(201, "Participant", render(Some(context), &conference, &participant)))
}

/// As they were asked for.
pub(super) fn attributes(context: &Context<'_>) -> Vec<(&'static str, String)> {
    let given = |(asked, name): &(&str, &'static str)| Some((*name, context.text(asked)?.to_owned()));
    ATTRIBUTES.iter().filter_map(given).collect()
}

/// The change goes to the node, and the answer is the participant afterwards.
fn update(context: &Context<'_>) -> Result<Answer, Fault> {
    let conference = conference(context)?;
    let change = ParticipantChange {
        // COMPAT(RestComm): it says Mute, Twilio Muted.
        mute: context.flag("Muted").or(context.flag("Mute")),
        hold: context.flag("Hold"),
        hold_url: context.text("HoldUrl").unwrap_or_default().to_owned(),
        announce_url: context.text("AnnounceUrl").map(str::to_owned),
        end_conference_on_exit: context.flag("EndConferenceOnExit"),
        kick: false,
    };
    let call = find(context, &conference, last(context))?.call_sid;
    context.state.control.modify_participant(&conference.common.sid, &call, change)?;
    item(context, &conference, &call)
}

/// Twilio's DELETE: the call leaves the conference and continues with its next verb.
fn kick(context: &Context<'_>) -> Result<Answer, Fault> {
    let conference = conference(context)?;
    let call = find(context, &conference, last(context))?.call_sid;
    let change = ParticipantChange { kick: true, ..ParticipantChange::default() };
    context.state.control.modify_participant(&conference.common.sid, &call, change)?;
    Ok(Answer::Nothing)
}

/// Twilio: a label may stand in the place of the call's sid.
fn find(context: &Context<'_>, conference: &Conference, name: &str) -> Result<Participant, Fault> {
    let all = context.state.control.participants(&conference.common.sid)?;
    let is = |one: &Participant| one.call_sid == name || (!one.label.is_empty() && one.label == name);
    all.into_iter().find(is).ok_or_else(|| Fault::not_found(name))
}

/// The answer with one participant, as the node has it now.
fn item(context: &Context<'_>, conference: &Conference, name: &str) -> Result<Answer, Fault> {
    let participant = find(context, conference, name)?;
    Ok(Answer::Item(200, "Participant", render(Some(context), conference, &participant)))
}

fn render(context: Option<&Context<'_>>, conference: &Conference, one: &Participant) -> Value {
    let common = &conference.common;
    let joined = date_value(Some(one.joined_at));
    // A conference that begins with its participant has no sid yet.
    let mut of = common.sid.clone();
    if of.is_empty() {
        encode(&conference.friendly_name, &mut of);
    }
    Value::Object(vec![
        ("account_sid", Value::text(&common.account)),
        ("call_sid", Value::text(&one.call_sid)),
        ("label", Value::text(&one.label)),
        // Coaching is set by documents, and the node does not report the coached call.
        ("call_sid_to_coach", Value::Null),
        ("coaching", Value::Bool(one.coaching)),
        ("conference_sid", Value::text(&common.sid)),
        ("date_created", joined.clone()),
        ("date_updated", joined),
        ("end_conference_on_exit", Value::Bool(one.end_conference_on_exit)),
        ("start_conference_on_enter", Value::Bool(one.start_conference_on_enter)),
        ("muted", Value::Bool(one.muted)),
        ("hold", Value::Bool(one.hold)),
        ("status", Value::text(&one.status)),
        ("queue_time", Value::Null),
        uri(context, &format!("/Conferences/{of}/Participants/{}", one.call_sid)),
    ])
}

fn example() -> Value {
    let participant = Participant {
        call_sid: String::new(),
        label: String::new(),
        muted: false,
        hold: false,
        coaching: false,
        start_conference_on_enter: true,
        end_conference_on_exit: false,
        status: String::new(),
        joined_at: Instant::default(),
    };
    render(None, &Conference::default(), &participant)
}

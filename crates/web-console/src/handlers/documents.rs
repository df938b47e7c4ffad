//! The test of a document: the steps of a call that is not made.
//!
//! `ivr::dry_run` performs the documents; the first one, and with `follow` the next ones, are fetched by the client of calls, which reaches what
//! calls may reach. Callbacks are shown and not sent.

use admin::ManagedResources;
use ivr::document::{Item, Piece};
use ivr::dry_run::{Behaviour, DryRun, Progress, Step};
use ivr::request::{Form, Request, Target};
use ivr::script::{Call, CallStatus, Direction, Plan, Start};
use serde_json::{Value, json};
use store::rest::types::RestAccount;
use voice::numbers::{self, plan_of, plan_of_binding};

use super::applications::with_resources;
use super::{Answer, Context};
use crate::fault::Fault;
use crate::limits;
use crate::parameters::Values;

/// The caller that applications are told when the request names none: a number that no carrier gives out.
const CALLER: &str = "+15550100";

/// The SID of the call that is not made.
const CALL: &str = "CA00000000000000000000000000000000";

/// The call to test, and the key that signs its requests.
struct Tested {
    plan: Plan,
    to: String,
    account: String,
    signing_key: String,
}

pub(super) async fn test(context: &Context<'_>) -> Result<Answer, Fault> {
    let place = context.state.document_tests.clone().try_acquire_owned();
    let _place = place.map_err(|_| Fault::busy())?;
    let values = &context.values;
    let subject = [values.text("number"), "a document"].into_iter().find(|text| !text.is_empty());
    let tested = tested(context).await;
    // Requests to applications go out in the operator's name. A URL may have a password in it.
    context.audit(subject.unwrap_or_default(), tested.as_ref().err());
    let Tested { plan, to, account, signing_key } = tested?;
    let call = Call {
        sid: CALL.to_owned(),
        account_sid: account,
        from: values.some_text("from").unwrap_or(CALLER).to_owned(),
        to,
        direction: Direction::Inbound,
        caller_name: None,
        forwarded_from: None,
        parent_sid: None,
        api_version: admin::Base::Twilio.version().to_owned(),
        extra: Form::new(),
        answered: false,
    };
    let mut run = DryRun::new(call, plan, behaviour(values)?);
    let end = perform(context, &mut run, &signing_key).await;
    let steps: Vec<Value> = run.steps().iter().map(describe).collect();
    Ok(Answer::Json(json!({ "steps": steps, "end": end })))
}

/// Runs to the end of the call, or to a document that is not fetched. The reason of the end.
async fn perform(context: &Context<'_>, run: &mut DryRun, signing_key: &str) -> &'static str {
    let follow = context.values.flag("follow");
    let mut fetched = 0;
    loop {
        let Progress::Wanted(request) = run.advance() else { return "over" };
        // The first document is what is tested, unless it is in the request.
        let is_first = fetched == 0 && context.values.some_text("document").is_none();
        if !follow && !is_first {
            return "next";
        }
        if fetched >= limits::TESTED_DOCUMENTS {
            return "documents";
        }
        let Some(source) = &context.state.applications.documents else { return "unreachable" };
        fetched += 1;
        run.handle_fetched(source.fetch(request.to_wire(signing_key)).await);
    }
}

/// The first document of the request: itself, or its URL, or that of a number.
async fn tested(context: &Context<'_>) -> Result<Tested, Fault> {
    let values = &context.values;
    let given = ["document", "url", "number"].map(|name| values.some_text(name));
    let start = match given {
        [Some(document), None, None] => Start::Document(document.as_bytes().to_vec()),
        [None, Some(url), None] => Start::Url(target(url, values.text("method"))?),
        [None, None, Some(number)] => return of_number(context, number.trim().to_owned()).await,
        _ => return Err(Fault::invalid("expected one of document, url and number")),
    };
    // Requests are signed with the key of the first account. Without applications at this node nothing is fetched.
    let account = with_resources(context, ManagedResources::first).await.ok();
    let (account, signing_key) = account.map(key_of).unwrap_or_default();
    Ok(Tested { plan: plan_of(start), to: "+15550199".to_owned(), account, signing_key })
}

fn key_of(account: RestAccount) -> (String, String) {
    (account.common.sid, account.signing_key)
}

/// The documents and callbacks of a number, as a call to it gets them.
async fn of_number(context: &Context<'_>, sid: String) -> Result<Tested, Fault> {
    let (number, application, account) = with_resources(context, move |all| all.number(&sid)).await?;
    let plan = plan_of_binding(&number, application.as_ref())
        .ok_or_else(|| Fault::invalid(format!("{} has no usable URL of a document", number.phone_number)))?;
    let (account, signing_key) = key_of(account);
    Ok(Tested { plan, to: number.phone_number, account, signing_key })
}

/// A URL of the request.
fn target(url: &str, method: &str) -> Result<Target, Fault> {
    numbers::target(url, method)
        .ok_or_else(|| Fault::invalid("url: expected an absolute URL of HTTP, as https://example.net/voice"))
}

fn behaviour(values: &Values) -> Result<Behaviour, Fault> {
    let inputs = values.texts("inputs").to_vec();
    if inputs.len() > limits::TEST_INPUTS {
        return Err(Fault::invalid(format!("inputs: expected at most {}", limits::TEST_INPUTS)));
    }
    let dial = match values.text("dial") {
        "" | "completed" => CallStatus::Completed,
        "busy" => CallStatus::Busy,
        "no-answer" => CallStatus::NoAnswer,
        "failed" => CallStatus::Failed,
        _ => return Err(Fault::invalid("dial: expected completed, busy, no-answer or failed")),
    };
    Ok(Behaviour { inputs, dial })
}

/// A step in JSON: `kind`, and what belongs to it.
fn describe(step: &Step) -> Value {
    match step {
        Step::Request(request) => asked("request", request),
        Step::Callback(request) => asked("callback", request),
        Step::Document { url, length } => json!({ "kind": "document", "url": url, "length": length }),
        Step::Note(note) => json!({
            "kind": "note", "severity": note.severity.as_str(), "code": note.code, "text": note.text,
            "url": note.url.as_ref().filter(|url| !url.is_empty()), "line": note.line, "column": note.column,
        }),
        Step::Answer => json!({ "kind": "answer" }),
        Step::Ring => json!({ "kind": "ring" }),
        Step::Refuse(status) => json!({ "kind": "refuse", "status": status }),
        Step::Prompt(pieces) => {
            json!({ "kind": "prompt", "pieces": pieces.iter().map(piece).collect::<Vec<_>>() })
        }
        Step::Listen { keys, speech } => json!({ "kind": "listen", "keys": keys, "speech": speech }),
        Step::Keys(keys) => json!({ "kind": "keys", "text": keys }),
        Step::Speech(text) => json!({ "kind": "speech", "text": text }),
        Step::NoInput => json!({ "kind": "no_input" }),
        Step::Record(recording) => json!({
            "kind": "record", "seconds": recording.max_length.as_secs(), "silence": recording.silence.as_secs(),
            "beep": recording.beep, "mailbox": recording.mailbox,
        }),
        Step::Dial { to, caller_id, is_recorded } => {
            json!({ "kind": "dial", "to": to, "caller_id": caller_id, "recorded": is_recorded })
        }
        Step::DialOutcome(status) => json!({ "kind": "dial_outcome", "status": status.as_str() }),
        Step::Screen { url } => json!({ "kind": "screen", "url": url }),
        Step::Connected => json!({ "kind": "connected" }),
        Step::Conference { name } => json!({ "kind": "conference", "name": name }),
        Step::Queue { name } => json!({ "kind": "queue", "name": name }),
        Step::Message { from, to, body } => {
            json!({ "kind": "message", "from": from, "to": to, "text": body })
        }
        Step::Mail { to, subject } => json!({ "kind": "mail", "to": to, "text": subject }),
        Step::Refer { uri } => json!({ "kind": "refer", "to": uri }),
        Step::Stream { url, two_way } => json!({ "kind": "stream", "url": url, "two_way": two_way }),
        Step::Echo => json!({ "kind": "echo" }),
        Step::Hangup => json!({ "kind": "hangup" }),
        Step::Ended(status) => json!({ "kind": "ended", "status": status.as_str() }),
        Step::TooLong => json!({ "kind": "too_long" }),
    }
}

fn asked(kind: &str, request: &Request) -> Value {
    let form: Vec<Value> =
        request.form.iter().map(|(name, value)| json!({ "name": name, "value": value })).collect();
    json!({ "kind": kind, "method": request.method.as_str(), "url": request.url, "form": form })
}

fn piece(piece: &Piece) -> Value {
    let items = piece.items.iter().map(|item| match item {
        Item::Speech { text, language, .. } => {
            json!({ "kind": "speech", "text": text, "language": language })
        }
        Item::Audio { url } => json!({ "kind": "audio", "text": url }),
        Item::Digits(keys) => json!({ "kind": "digits", "text": keys }),
        Item::Silence(length) => json!({ "kind": "silence", "seconds": length.as_secs_f64() }),
    });
    json!({ "items": items.collect::<Vec<_>>(), "loops": piece.loops })
}

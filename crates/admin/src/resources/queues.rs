//! Queues and their waiting calls.
//!
//! A queue is a row with a name and a size; the calls in it are in the memory of the nodes. In a farm the callers of one queue may wait at several
//! nodes.

use store::rest::types::Queue;
use store::rest::{Kind, queue_sid};

use crate::control::{Document, QueueMember};
use crate::fault::Fault;
use crate::limits;
use crate::paging;
use crate::table::{Answer, Context, Parameter, Route, Shape};
use crate::value::Value;

use super::{NONE, PAGE, created, date_value, int, last, method, own, subresources, text, updated, uri, url};

const FIELDS: &[Parameter] = &[text("FriendlyName"), int("MaxSize", 1, limits::MAX_QUEUE)];
const DEQUEUE: &[Parameter] = &[url("Url"), method("Method")];

/// The operations, in the order of the description. `{CallSid}` may be `Front` in those on members.
pub(crate) const ROUTES: &[Route] = &[
    Route {
        method: "GET",
        path: "/Accounts/{AccountSid}/Queues",
        summary: "Queues",
        parameters: PAGE,
        answer: Shape::List("queues", example),
        handler: |context| {
            let filter = paging::of_account(context, Kind::Queue);
            paging::rows(context, filter, ("queues", "Queue"), |context, found| render(Some(context), found))
        },
    },
    Route {
        method: "POST",
        path: "/Accounts/{AccountSid}/Queues",
        summary: "Make a queue",
        parameters: &[FIELDS],
        answer: Shape::Item(201, "Queue", example),
        handler: create,
    },
    Route {
        method: "GET",
        path: "/Accounts/{AccountSid}/Queues/{Sid}",
        summary: "A queue, with its length and average waiting time",
        parameters: NONE,
        answer: Shape::Item(200, "Queue", example),
        handler: |context| Ok(item(context, 200, &own(context, last(context))?)),
    },
    Route {
        method: "POST",
        path: "/Accounts/{AccountSid}/Queues/{Sid}",
        summary: "Rename a queue, or change how many may wait",
        parameters: &[FIELDS],
        answer: Shape::Item(200, "Queue", example),
        handler: update,
    },
    Route {
        method: "DELETE",
        path: "/Accounts/{AccountSid}/Queues/{Sid}",
        summary: "Delete an empty queue",
        parameters: NONE,
        answer: Shape::Nothing,
        handler: delete,
    },
    Route {
        method: "GET",
        path: "/Accounts/{AccountSid}/Queues/{QueueSid}/Members",
        summary: "Who waits, the first in line first",
        parameters: PAGE,
        answer: Shape::List("queue_members", member_example),
        handler: members,
    },
    Route {
        method: "GET",
        path: "/Accounts/{AccountSid}/Queues/{QueueSid}/Members/{CallSid}",
        summary: "A waiting caller, or Front",
        parameters: NONE,
        answer: Shape::Item(200, "QueueMember", member_example),
        handler: member,
    },
    Route {
        method: "POST",
        path: "/Accounts/{AccountSid}/Queues/{QueueSid}/Members/{CallSid}",
        summary: "Take one out, or Front, and go on with a document",
        parameters: &[DEQUEUE],
        answer: Shape::Item(200, "QueueMember", member_example),
        handler: dequeue,
    },
];

/// A queue that a document has made already is a conflict (409): both have the same sid.
fn create(context: &Context<'_>) -> Result<Answer, Fault> {
    let Some(name) = context.text("FriendlyName") else {
        return Err(Fault::invalid(20002, "FriendlyName is required"));
    };
    let mut common = context.state.common("QU", &context.account);
    let mut first_name = name.to_owned();
    let before = context.state.get::<Queue>(&queue_sid(&common.account, name))?;
    if before.is_some_and(|queue| queue.friendly_name != name) {
        // A queue that has another name now has the sid, and keeps it.
        first_name = format!("{name} {}", common.sid);
    }
    // Documents name the same queue.
    common.sid = queue_sid(&common.account, &first_name);
    let max_size = context.int("MaxSize").unwrap_or(limits::QUEUE_SIZE);
    let queue = Queue { common, friendly_name: name.to_owned(), max_size, first_name };
    context.state.insert(&queue)?;
    Ok(item(context, 201, &queue))
}

/// A new name does not change the sid, which follows from the first one. Shards know of both before the answer is sent.
fn update(context: &Context<'_>) -> Result<Answer, Fault> {
    let mut queue: Queue = own(context, last(context))?;
    if queue.first_name.is_empty() {
        // A document has made it.
        queue.first_name.clone_from(&queue.friendly_name);
    }
    if let Some(name) = context.text("FriendlyName") {
        name.clone_into(&mut queue.friendly_name);
    }
    queue.max_size = context.int("MaxSize").unwrap_or(queue.max_size);
    queue.common.updated_at = context.state.now();
    context.state.replace(&queue)?;
    Ok(item(context, 200, &queue))
}

/// Twilio deletes empty queues only.
fn delete(context: &Context<'_>) -> Result<Answer, Fault> {
    let queue: Queue = own(context, last(context))?;
    // The calls at the nodes are asked for, as the row has no count of them.
    if !context.state.control.all_queue_members(&queue.common.sid)?.is_empty() {
        return Err(Fault::new(409, 20409, "Calls wait in the queue"));
    }
    context.state.remove(Kind::Queue, &queue.common.sid)?;
    Ok(Answer::Nothing)
}

/// The calls in the order of the line.
fn members(context: &Context<'_>) -> Result<Answer, Fault> {
    let queue: Queue = own(context, last(context))?;
    let all = context.state.control.queue_members(&queue.common.sid)?;
    let render = |index, one: &QueueMember| render_member(Some(context), &queue.common.sid, index, one);
    Ok(paging::slice(context, &all, ("queue_members", "QueueMember"), render))
}

/// Twilio: `Front` stands for the first call.
fn member(context: &Context<'_>) -> Result<Answer, Fault> {
    let queue: Queue = own(context, context.variables[1])?;
    let name = last(context);
    let control = &context.state.control;
    let is_front = name == "Front";
    let all = if is_front {
        control.all_queue_members(&queue.common.sid)?
    } else {
        control.queue_members(&queue.common.sid)?
    };
    let index =
        if is_front { 0 } else { all.iter().position(|one| one.call_sid == name).unwrap_or(all.len()) };
    // An empty queue has no front either.
    let one = all.get(index).ok_or_else(|| Fault::not_found(name))?;
    Ok(Answer::Item(200, "QueueMember", render_member(Some(context), &queue.common.sid, index, one)))
}

/// Twilio's `POST Members/{CallSid}`: the call leaves the queue and continues with the document at `Url`.
fn dequeue(context: &Context<'_>) -> Result<Answer, Fault> {
    let queue: Queue = own(context, context.variables[1])?;
    let Some(url) = context.text("Url") else { return Err(Fault::invalid(21205, "Url is required")) };
    let document = Document::Url {
        url: url.to_owned(),
        method: context.text("Method").unwrap_or("POST").to_ascii_uppercase(),
        fallback_url: String::new(),
        fallback_method: String::new(),
    };
    let name = last(context);
    let call = (name != "Front").then_some(name);
    let one = context.state.control.dequeue(&queue.common.sid, call, document)?;
    Ok(Answer::Item(200, "QueueMember", render_member(Some(context), &queue.common.sid, 0, &one)))
}

fn item(context: &Context<'_>, status: u16, queue: &Queue) -> Answer {
    Answer::Item(status, "Queue", render(Some(context), queue))
}

/// Size and waiting time are those of the moment.
fn render(context: Option<&Context<'_>>, queue: &Queue) -> Value {
    let path = format!("/Queues/{}", queue.common.sid);
    // One question to the nodes for each queue of a list: pages are short. The figures are for display: a node that is busy does not
    // fail the request, which may have made the queue already.
    let members = context
        .and_then(|context| context.state.control.queue_members(&queue.common.sid).ok())
        .unwrap_or_default();
    let now = context.map_or(stdx::Instant::default(), |context| context.state.now());
    let waited: u64 = members.iter().map(|one| now.since(one.enqueued_at).as_secs()).sum();
    let average = waited.checked_div(members.len() as u64).unwrap_or(0);
    let int = |figure: u64| Value::Int(i64::try_from(figure).unwrap_or(i64::MAX));
    Value::Object(vec![
        ("sid", Value::text(&queue.common.sid)),
        ("account_sid", Value::text(&queue.common.account)),
        ("friendly_name", Value::text(&queue.friendly_name)),
        ("current_size", int(members.len() as u64)),
        ("average_wait_time", int(average)),
        ("max_size", Value::Int(i64::from(queue.max_size))),
        created(&queue.common),
        updated(&queue.common),
        uri(context, &path),
        ("subresource_uris", subresources(&path, context, &[("members", "Members")])),
    ])
}

/// `index`: the place in line, from 0.
fn render_member(context: Option<&Context<'_>>, queue: &str, index: usize, one: &QueueMember) -> Value {
    let now = context.map_or(one.enqueued_at, |context| context.state.now());
    let seconds = |figure| Value::Int(i64::try_from(figure).unwrap_or(i64::MAX));
    Value::Object(vec![
        ("call_sid", Value::text(&one.call_sid)),
        ("queue_sid", Value::text(queue)),
        ("date_enqueued", date_value(Some(one.enqueued_at))),
        ("position", seconds(index as u64 + 1)),
        ("wait_time", seconds(now.since(one.enqueued_at).as_secs())),
        uri(context, &format!("/Queues/{queue}/Members/{}", one.call_sid)),
    ])
}

fn example() -> Value {
    render(None, &Queue::default())
}

fn member_example() -> Value {
    render_member(
        None,
        "",
        0,
        &QueueMember { call_sid: String::new(), enqueued_at: stdx::Instant::default() },
    )
}

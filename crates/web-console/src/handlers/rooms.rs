//! Rooms of chat, conferences, and queues of calls.

use admin::chat::{Answer as ChatAnswer, Ask as ChatAsk};
use control::{Request, Response};
use serde_json::json;

use super::applications::with_resources;
use super::{Answer, Context};
use crate::fault::Fault;
use crate::room_routes::RoomOperation;

/// Performs a request about rooms.
pub(super) async fn perform(context: &Context<'_>, operation: RoomOperation) -> Result<Answer, Fault> {
    match operation {
        RoomOperation::ChatRooms => chat_rooms(context).await,
        RoomOperation::ChatRoom => chat_room(context).await,
        RoomOperation::Conferences => conferences(context).await,
        RoomOperation::Conference => {
            let sid = context.variable().to_owned();
            let shown = with_resources(context, move |resources| resources.conference(&sid)).await?;
            Ok(Answer::Json(json!({ "conference": shown.room, "members": shown.members })))
        }
        RoomOperation::EndConference => {
            let sid = context.variable().to_owned();
            let done = with_resources(context, move |resources| resources.end_conference(&sid)).await;
            changed(context, context.variable(), done)
        }
        RoomOperation::KickMember => {
            let (sid, call) = of_member(context);
            let done = with_resources(context, move |resources| resources.kick_member(&sid, &call)).await;
            changed(context, &context.variables.join(" "), done)
        }
        RoomOperation::Queues => queues(context).await,
        RoomOperation::Queue => {
            let sid = context.variable().to_owned();
            let shown = with_resources(context, move |resources| resources.queue(&sid)).await?;
            Ok(Answer::Json(json!({ "queue": shown.room, "members": shown.members })))
        }
        RoomOperation::RemoveWaitingCall => {
            let (sid, call) = of_member(context);
            let done = with_resources(context, move |resources| resources.remove_waiting(&sid, &call)).await;
            changed(context, &context.variables.join(" "), done)
        }
    }
}

async fn chat_rooms(context: &Context<'_>) -> Result<Answer, Fault> {
    let domain = context.values.some_text("domain").map(str::trim);
    let domain = domain.unwrap_or(&context.settings.settings.default_domain).to_owned();
    match context.state.node.ask(Request::Chat(ChatAsk::Rooms { domain })).await? {
        (Response::Chat(ChatAnswer::Rooms(mut rooms)), nodes) => {
            let total = rooms.len();
            rooms.sort_by(|a, b| b.occupants.cmp(&a.occupants).then_with(|| a.address.cmp(&b.address)));
            rooms.truncate(context.values.limit() as usize);
            Ok(Answer::Json(json!({ "rooms": rooms, "total": total, "nodes": nodes })))
        }
        _ => Err(Fault::unexpected()),
    }
}

async fn chat_room(context: &Context<'_>) -> Result<Answer, Fault> {
    let room = context.variable().trim().to_owned();
    match context.state.node.ask_one(Request::Chat(ChatAsk::Room { room })).await? {
        Response::Chat(ChatAnswer::Room(room)) => Ok(Answer::Json(json!({ "room": room }))),
        _ => Err(Fault::unexpected()),
    }
}

async fn conferences(context: &Context<'_>) -> Result<Answer, Fault> {
    let limit = context.values.limit();
    let page = with_resources(context, move |resources| resources.conferences(limit)).await?;
    let now = context.state.now().as_micros();
    Ok(Answer::Json(json!({ "conferences": page.rows, "total": page.total, "now": now })))
}

async fn queues(context: &Context<'_>) -> Result<Answer, Fault> {
    let (page, limit) = (context.values.small("page").unwrap_or(0), context.values.limit());
    let shown = (u64::from(page) + 1) * u64::from(limit);
    let page = with_resources(context, move |resources| resources.queues(page, limit)).await?;
    let has_more = page.total > shown;
    Ok(Answer::Json(json!({ "queues": page.rows, "total": page.total, "has_more": has_more })))
}

/// The variables of a path: the conference or queue, and the call.
fn of_member(context: &Context<'_>) -> (String, String) {
    (context.variable().to_owned(), context.variables.get(1).cloned().unwrap_or_default())
}

/// A change that was made or refused, with its line in the log.
fn changed(context: &Context<'_>, subject: &str, done: Result<(), Fault>) -> Result<Answer, Fault> {
    context.audit(subject, done.as_ref().err());
    done.map(|()| Answer::Json(json!({ "rows": 1 })))
}

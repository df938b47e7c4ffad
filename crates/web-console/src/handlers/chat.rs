//! Sessions of chat.

use admin::NodesAnswered;
use admin::chat::{Answer as ChatAnswer, Ask as ChatAsk, Session};
use control::{Request, Response};
use serde_json::json;

use super::{Answer, Context};
use crate::fault::Fault;
use crate::limits;

/// Sessions that were asked for.
pub(super) struct ListedSessions {
    pub(super) sessions: Vec<Session>,
    /// The number of all that match.
    total: u64,
    nodes: Option<NodesAnswered>,
}

pub(super) async fn sessions_of(context: &Context<'_>, jid: Option<String>) -> Result<ListedSessions, Fault> {
    let most = Some(limits::MAX_PAGE);
    match context.state.node.ask(Request::Chat(ChatAsk::Sessions { who: jid, most })).await? {
        (Response::Chat(ChatAnswer::Sessions { mut sessions, total, .. }), nodes) => {
            sessions.truncate(limits::MAX_PAGE as usize);
            Ok(ListedSessions { sessions, total, nodes })
        }
        _ => Err(Fault::unexpected()),
    }
}

pub(super) async fn sessions(context: &Context<'_>) -> Result<Answer, Fault> {
    let jid = context.values.some_text("address").map(|text| full_address(context, text));
    let ListedSessions { sessions, total, nodes } = sessions_of(context, jid).await?;
    Ok(Answer::Json(json!({ "sessions": sessions, "total": total, "nodes": nodes })))
}

pub(super) async fn end(context: &Context<'_>) -> Result<Answer, Fault> {
    let jid = full_address(context, context.variable());
    context.perform(Request::Chat(ChatAsk::End { who: jid.clone() }), &jid).await
}

/// A name without a domain is of the default domain.
fn full_address(context: &Context<'_>, text: &str) -> String {
    let text = text.trim();
    if text.contains('@') {
        text.to_owned()
    } else {
        format!("{text}@{}", context.settings.settings.default_domain)
    }
}

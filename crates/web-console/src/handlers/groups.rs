//! Shared roster groups, as this node has them.

use control::{Request, Response, RosterGroupPage, RosterGroupQuery};
use serde_json::json;

use super::{Answer, Context};
use crate::fault::Fault;

/// A page of all groups.
pub(super) async fn list(context: &Context<'_>) -> Result<Answer, Fault> {
    let RosterGroupPage { groups, total, .. } = page(context, None).await?;
    let has_more = is_full(context, groups.len());
    Ok(Answer::Json(json!({ "groups": groups, "total": total, "has_more": has_more })))
}

/// One group with a page of its members.
pub(super) async fn show(context: &Context<'_>) -> Result<Answer, Fault> {
    let RosterGroupPage { groups, members, .. } = page(context, Some(context.variable())).await?;
    let group = groups.into_iter().next().ok_or_else(Fault::not_found)?;
    let has_more = is_full(context, members.len());
    Ok(Answer::Json(json!({ "group": group, "members": members, "has_more": has_more })))
}

async fn page(context: &Context<'_>, name: Option<&str>) -> Result<RosterGroupPage, Fault> {
    let query = RosterGroupQuery {
        name: name.map(Into::into),
        after: context.values.text("after").into(),
        limit: context.values.limit(),
    };
    match context.state.node.ask_one(Request::RosterGroups(query)).await? {
        Response::RosterGroups(page) => Ok(page),
        _ => Err(Fault::unexpected()),
    }
}

/// True if there may be rows behind this page.
fn is_full(context: &Context<'_>, rows: usize) -> bool {
    rows >= context.values.limit() as usize
}

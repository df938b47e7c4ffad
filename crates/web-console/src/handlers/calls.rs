//! Records of calls, and the end of a call.

use admin::NodesAnswered;
use control::{Ask, Listing, Request, Response};
use serde_json::json;
use stdx::Instant;
use store::{CallFilter, CallRecord};

use super::{Answer, Context};
use crate::fault::Fault;
use crate::limits;

pub(super) async fn list(context: &Context<'_>) -> Result<Answer, Fault> {
    let limit = context.values.limit();
    let (calls, nodes) = read(context, limit).await?;
    let has_more = calls.len() as u64 >= u64::from(limit);
    Ok(Answer::Json(json!({ "calls": calls, "has_more": has_more, "nodes": nodes })))
}

pub(super) async fn csv(context: &Context<'_>) -> Result<Answer, Fault> {
    let (calls, _) = read(context, limits::CSV_ROWS).await?;
    Ok(Answer::Csv(call_files::csv::calls(&calls)))
}

async fn read(context: &Context<'_>, limit: u32) -> Result<(Vec<CallRecord>, Option<NodesAnswered>), Fault> {
    let values = &context.values;
    let account = match values.some_text("account") {
        // A SID of an account of the REST interface is no address.
        Some(sid) if sid.starts_with("AC") && !sid.contains('@') => Some(sid.into()),
        Some(text) => Some(context.address(text)?.to_string().into()),
        None => None,
    };
    let filter = CallFilter {
        account,
        call_id: values.some_text("call_id").map(Into::into),
        ended_until: values.number("until").map(Instant::from_micros),
        limit,
    };
    match context.state.node.ask(Request::Ask(Ask::Calls(filter))).await? {
        (Response::Listing(Listing::Calls(calls)), nodes) => Ok((calls, nodes)),
        _ => Err(Fault::unexpected()),
    }
}

pub(super) async fn end(context: &Context<'_>) -> Result<Answer, Fault> {
    let call = context.values.text("call");
    context.perform(Request::EndCall { call: call.into() }, call).await
}

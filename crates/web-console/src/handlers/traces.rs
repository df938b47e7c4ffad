//! Traces of accounts: begun, read and ended by one operator each.

use std::time::Duration;

use axum::http::StatusCode;
use control::{Request, Response};
use serde_json::json;
use store::Address;

use super::accounts::find;
use super::{Answer, Context};
use crate::fault::Fault;
use crate::limits;
use crate::sign_in::prepared;
use crate::traces::{TooMany, TraceOrder};

pub(super) async fn begin(context: &Context<'_>) -> Result<Answer, Fault> {
    let account = match traced_account(context).await {
        Ok(account) => account,
        Err(fault) => {
            context.audit(context.values.text("account"), Some(&fault));
            return Err(fault);
        }
    };
    // Whole messages of an administrator of chat have the passwords that it sets (XEP-0133 §4.6).
    context.check_may_change(&account).await?;
    // An address without an account may be another spelling of one that has a role: A-labels, or capitals.
    let prepared = prepared(&account.user, &account.domain).filter(|prepared| *prepared != account);
    if let Some(prepared) = prepared {
        context.check_may_change(&prepared).await?;
    }
    let result = try_begin(context, &account).await;
    context.audit(&account.to_string(), result.as_ref().err());
    result
}

/// The account by its own address, also where an alias is given: messages are traced of accounts.
async fn traced_account(context: &Context<'_>) -> Result<Address, Fault> {
    let text = context.values.text("account");
    match find(context, text).await {
        Ok(account) => Ok(account.address),
        Err(fault) if fault.status == StatusCode::NOT_FOUND && context.values.flag("any") => {
            context.address(text)
        }
        Err(fault) => Err(fault),
    }
}

async fn try_begin(context: &Context<'_>, account: &Address) -> Result<Answer, Fault> {
    let (state, values) = (context.state, &context.values);
    let too_many = || Fault::new(StatusCode::TOO_MANY_REQUESTS, "too many traces are on; end one of them");
    if !state.traces.have_room() {
        return Err(too_many());
    }
    let seconds = values.number("seconds").unwrap_or(limits::TRACE_SECONDS).max(1);
    let order = TraceOrder {
        by: context.user.session.account.clone(),
        account: account.clone(),
        call_id: values.some_text("call_id").map(|id| id.trim().into()),
        time: Duration::from_secs(seconds),
    };
    let lines = state.node.trace(account.clone(), values.flag("full")).await?.ok_or_else(too_many)?;
    let name = stdx::hex::encode(&state.random()[..16]);
    state.traces.begin(state.now(), &name, order, lines).map_err(|TooMany| too_many())?;
    Ok(Answer::Json(json!({ "trace": name })))
}

pub(super) fn show(context: &Context<'_>) -> Result<Answer, Fault> {
    let since = context.values.number("since").unwrap_or(0);
    let by = &context.user.session.account;
    context.state.traces.page(context.variable(), by, since).map(Answer::Json).ok_or_else(Fault::not_found)
}

/// The messages of a call: those that a trace of this account saw, or those that the nodes remember of each call, whichever are more.
pub(super) async fn ladder(context: &Context<'_>) -> Result<Answer, Fault> {
    let (by, call_id) = (&context.user.session.account, context.values.text("call_id").trim());
    let request = Request::CallMessages { call_id: call_id.into() };
    let (Response::CallMessages(call), nodes) = context.state.node.ask(request).await? else {
        return Err(Fault::unexpected());
    };
    let traced = context.state.traces.ladder(call_id, by);
    let is_traced = traced.lines.len() >= call.lines.len();
    let lines = if is_traced { &traced.lines } else { &call.lines };
    let shown = lines.len().min(limits::LADDER_LINES);
    Ok(Answer::Json(json!({
        "lines": &lines[..shown],
        "has_more": shown < lines.len() || is_traced && traced.has_more,
        "missed": if is_traced { traced.missed } else { call.left_out },
        "remembered": {
            "since": call.since,
            "most_calls": call.most_calls,
            "most_per_second": call.most_per_second,
            "not_begun": call.not_begun,
            "forgotten": call.forgotten,
        },
        "nodes": nodes,
    })))
}

pub(super) fn end(context: &Context<'_>) -> Result<Answer, Fault> {
    let ended = context.state.traces.end(context.variable(), &context.user.session.account);
    let account = ended.ok_or_else(Fault::not_found)?;
    context.audit(&account.to_string(), None);
    Ok(Answer::Json(json!({ "rows": 1 })))
}

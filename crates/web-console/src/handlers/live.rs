//! Calls and registrations that there are now, and their end.

use control::{RegistrationQuery, Request, Response};
use serde_json::json;

use super::{Answer, Context};
use crate::fault::Fault;

pub(super) async fn calls(context: &Context<'_>) -> Result<Answer, Fault> {
    let account = context.values.some_text("account").map(|text| context.address(text)).transpose()?;
    let account = account.map(|account| account.to_string().into());
    match context.state.node.ask(Request::OpenCalls { account }).await? {
        (Response::OpenCalls(list), nodes) => {
            let now = context.state.now().as_micros();
            Ok(Answer::Json(json!({ "calls": list.calls, "total": list.total, "now": now, "nodes": nodes })))
        }
        _ => Err(Fault::unexpected()),
    }
}

pub(super) async fn registrations(context: &Context<'_>) -> Result<Answer, Fault> {
    let limit = context.values.limit();
    let query = RegistrationQuery {
        prefix: context.values.text("prefix").trim().trim_start_matches("sip:").into(),
        after: context.values.text("after").into(),
        limit,
    };
    match context.state.node.ask(Request::Registrations(query)).await? {
        (Response::Registrations(page), nodes) => {
            let has_more = page.addresses.len() as u64 >= u64::from(limit);
            let (addresses, total) = (page.addresses, page.total);
            Ok(Answer::Json(
                json!({ "addresses": addresses, "total": total, "has_more": has_more, "nodes": nodes }),
            ))
        }
        _ => Err(Fault::unexpected()),
    }
}

pub(super) async fn end_registration(context: &Context<'_>) -> Result<Answer, Fault> {
    let account = context.address(context.values.text("address"))?;
    let subject = account.to_string();
    let contact = context.values.text("contact").into();
    context.perform(Request::EndRegistration { account, contact }, &subject).await
}

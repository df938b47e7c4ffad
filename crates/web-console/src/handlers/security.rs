//! Addresses and accounts whose sign-ins are slowed down.

use control::{Request, Response};
use serde_json::json;

use super::{Answer, Context};
use crate::fault::Fault;

pub(super) async fn blocks(context: &Context<'_>) -> Result<Answer, Fault> {
    match context.state.node.ask(Request::Blocks).await? {
        (Response::Blocks(list), nodes) => {
            let now = context.state.now().as_micros();
            Ok(Answer::Json(
                json!({ "blocks": list.blocks, "total": list.total, "now": now, "nodes": nodes }),
            ))
        }
        _ => Err(Fault::unexpected()),
    }
}

pub(super) async fn lift(context: &Context<'_>) -> Result<Answer, Fault> {
    let subject = context.values.text("subject");
    context.perform(Request::LiftBlock { subject: subject.into() }, subject).await
}

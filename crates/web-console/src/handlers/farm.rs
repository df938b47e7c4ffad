//! The farm, and the configuration of this node.

use control::{Request, Response};
use serde_json::json;

use super::{Answer, Context};
use crate::fault::Fault;

pub(super) async fn farm(context: &Context<'_>) -> Result<Answer, Fault> {
    let Response::Farm(farm) = context.state.node.ask_one(Request::Farm).await? else {
        return Err(Fault::unexpected());
    };
    match context.state.node.ask_one(Request::Status).await? {
        Response::Status(status) => {
            Ok(Answer::Json(json!({ "farm": farm, "certificate": status.node.certificate })))
        }
        _ => Err(Fault::unexpected()),
    }
}

pub(super) async fn map(context: &Context<'_>) -> Result<Answer, Fault> {
    match context.state.node.ask_one(Request::FarmMap).await? {
        Response::FarmMap(map) => Ok(Answer::Json(json!({ "map": map }))),
        _ => Err(Fault::unexpected()),
    }
}

pub(super) async fn drain(context: &Context<'_>) -> Result<Answer, Fault> {
    let name = context.values.text("node");
    context.perform(Request::DrainFarmNode { name: name.into() }, name).await
}

pub(super) async fn reload(context: &Context<'_>) -> Result<Answer, Fault> {
    context.perform(Request::Reload, "configuration").await
}

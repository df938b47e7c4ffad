//! The farm, and the configuration of this node.

use control::{ConfigReport, Request, Response};
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

async fn report(context: &Context<'_>) -> Result<ConfigReport, Fault> {
    match context.state.node.ask_one(Request::ConfigReport).await? {
        Response::ConfigReport(report) => Ok(*report),
        _ => Err(Fault::unexpected()),
    }
}

pub(super) async fn configuration(context: &Context<'_>) -> Result<Answer, Fault> {
    let ConfigReport { file, keys, .. } = report(context).await?;
    Ok(Answer::Json(json!({ "file": file, "keys": keys })))
}

pub(super) async fn check(context: &Context<'_>) -> Result<Answer, Fault> {
    let report = report(context).await;
    context.audit("configuration", report.as_ref().err());
    let ConfigReport { file, mistakes, warnings, needs_restart, .. } = report?;
    Ok(Answer::Json(json!({
        "file": file, "good": mistakes.is_empty(), "mistakes": mistakes, "warnings": warnings,
        "needs_restart": needs_restart,
    })))
}

//! The state of the node now, and the figures of the graphs. Bounded: the page asks each second.

use control::{CertificateStatus, NodeState, Request, Response, Status};
use serde_json::{Value, json};

use super::{Answer, Context};
use crate::fault::Fault;
use crate::limits;

pub(super) async fn overview(context: &Context<'_>) -> Result<Answer, Fault> {
    let since = context.values.number("since").unwrap_or(0);
    let Response::Status(status) = context.state.node.ask_one(Request::Status).await? else {
        return Err(Fault::unexpected());
    };
    let history = context.state.history().since(since);
    Ok(Answer::Json(json!({ "now": now(&status), "history": history })))
}

/// The parts of the state that the overview shows; `belfry status --json` has all.
fn now(status: &Status) -> Value {
    let node = &status.node;
    let down = node.targets.iter().filter(|target| !target.up).count();
    json!({
        "version": status.version,
        "pid": status.pid,
        "uptime_seconds": status.uptime_seconds,
        "draining": node.state == NodeState::Draining,
        "domains": node.domains,
        "services": node.services,
        "shards": node.shards.len(),
        "store": node.store,
        "council_away": node.council_away,
        "farm": node.farm.as_ref().map(|farm| &farm.farm),
        "targets": node.targets.iter().take(limits::TARGETS).collect::<Vec<_>>(),
        "targets_down": down,
        "sign_in_failures": node.sign_in_failures,
        "admissions": node.admissions,
        "certificate": node.certificate.as_ref().map(certificate),
        "panics": status.sum(|shard| shard.panics),
        "calls_total": status.sum(|shard| shard.calls_started),
        "calls_answered": status.sum(|shard| shard.calls_answered),
        "calls_failed": status.sum(|shard| shard.calls_failed),
        "application_calls": status.sum(|shard| shard.voice_calls),
        "rooms": status.sum(|shard| shard.xmpp_rooms),
        "connections": status.sum(|shard| shard.connections + shard.xmpp_connections),
        "transactions": status.sum(|shard| shard.transactions),
    })
}

/// The end of the certificate, and in `trouble` a condition that needs an operator's attention.
fn certificate(status: &CertificateStatus) -> Value {
    let mut value = json!(status);
    value["trouble"] = json!(status.trouble());
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_shown_with_its_end_and_its_trouble_once_it_ends_soon() {
        let mut status = Status::default();
        assert_eq!(now(&status)["certificate"], Value::Null);
        let mut certificate = CertificateStatus {
            name: "a.test".into(),
            ends_at: Some(1_800_000_000),
            ends_in_seconds: Some(30 * 86_400),
            ..CertificateStatus::default()
        };
        status.node.certificate = Some(certificate.clone());
        let shown = now(&status)["certificate"].clone();
        assert_eq!((&shown["ends_at"], &shown["trouble"]), (&json!(1_800_000_000_u64), &Value::Null));
        certificate = CertificateStatus { ends_in_seconds: Some(5 * 86_400), ends_soon: true, ..certificate };
        status.node.certificate = Some(certificate);
        let trouble = &now(&status)["certificate"]["trouble"];
        assert_eq!(trouble, "the certificate of a.test ends in 5 days");
    }
}

//! The operator's view of a node, from the numbers that its parts put up.

use control::{AdmissionStatus, BindingRow, CommandAudit, Listening, SignInFailureCount};
use logging::Identity;
use logging::sign_in_failures::Service;
use net::admission::Admission;
use stdx::Instant;
use stdx::attempts::Cause;

use super::{Node, listening};

/// The line of the log that says that the node is up, and where.
pub(super) fn announce(node: &Node, services: &[Listening]) {
    let config = &node.shared.config;
    let at = |service: &str| {
        let found = services.iter().find(|listening| &*listening.service == service);
        found.map(|listening| listening.at.join(" "))
    };
    // One line with all addresses: the first thing to look for in a log.
    let file = config.file.as_ref().map_or("none: defaults".into(), |file| file.display().to_string());
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        config = file,
        data = %config.server.data.display(),
        shards = config.server.shards,
        listen = at(listening::SIP),
        chat = at(listening::CHAT),
        servers = at(listening::SERVERS),
        components = at(listening::COMPONENTS),
        bytestreams = at(listening::BYTESTREAMS),
        domains = node.shared.domains.join(" "),
        metrics = at(listening::METRICS),
        rest = at(listening::REST),
        console = at(listening::CONSOLE),
        "belfry is up"
    );
}

/// A change that a command made over the control socket, as a line of the audit log.
pub(super) fn audit(change: CommandAudit<'_>) {
    let CommandAudit { uid, pid, action, subject, refused } = change;
    tracing::info!(
        target: "belfry::audit",
        uid,
        pid,
        action,
        // A string, so that it is quoted and escaped.
        subject = &*Identity(subject).to_string(),
        refused = refused.map(|kind| format!("{kind:?}")),
        "command"
    );
}

/// The connections in progress and refused, by the kind of listener.
pub(super) fn admissions(node: &Node) -> Vec<AdmissionStatus> {
    let status = |(service, admission): (&str, &Admission)| AdmissionStatus {
        service: service.into(),
        in_progress: admission.in_progress() as u64,
        evicted: admission.evicted(),
        refused: admission.refused(),
        closed_listeners: admission.closed_listeners(),
        listener_closures: admission.closures(),
        unaccepted: admission.unaccepted(),
    };
    node.shared.admissions.all().into_iter().map(status).collect()
}

/// Failed sign-ins by service and cause, without those that there were none of.
pub(super) fn sign_in_failures(node: &Node) -> Vec<SignInFailureCount> {
    let count = |(service, cause, count): (Service, Cause, u64)| SignInFailureCount {
        service: service.name().into(),
        cause: cause.name().into(),
        count,
    };
    node.shared.failures.counts().filter(|(_, _, count)| *count > 0).map(count).collect()
}

/// A binding as commands and REST list it. `received`: transport and address that its REGISTER came from.
pub(super) fn binding_row(binding: router::Binding, now: Instant) -> BindingRow {
    let from = |received: router::Received| {
        let transport = sip::transport::via_token(received.transport).to_lowercase();
        format!("{transport}:{}", received.remote).into()
    };
    BindingRow {
        q: binding.contact.q,
        expires_in_seconds: binding.expires_at.since(now).as_secs(),
        received: binding.contact.received.map(from),
        contact: binding.contact.uri,
        user_agent: binding.contact.user_agent,
    }
}

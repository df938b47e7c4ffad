//! The routing plan's words and the endpoint's: same meaning, two crates that do not know each other.

use call::{Denied, Plan, PlanRequest as Question, SourceProof};
use sip::endpoint::{Caller, Decision, PlanRequest};
use sip::transport::is_reliable;
use stdx::Instant;

/// Whether callers that claim an account of ours must prove it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallerProof {
    Required,
    Waived,
}

/// Where a request goes, and whether its caller must first prove who it is.
pub(crate) fn decide(
    now: Instant,
    plan: &Plan,
    request: &PlanRequest,
    proof: CallerProof,
    random: u64,
    down: &call::DownTargets,
) -> Decision {
    // What a trunk says of its callers is worth no more than what a stranger says, unless it is in the trust domain.
    let must_prove = request.claims.is_some() && !request.is_trusted && proof == CallerProof::Required;
    let caller = match &request.caller {
        Caller::Account(aor) => call::Caller::Account(aor),
        Caller::Stranger if must_prove => return Decision::Authenticate,
        Caller::Stranger => trunk_of(plan, request).unwrap_or(call::Caller::Stranger),
    };
    if denies(request) {
        return Decision::Deny;
    }
    let question = Question { user: &request.user, host: &request.host, port: request.port, caller };
    match plan.decide(&question, random, down) {
        call::Decision::Local { user, domain } => Decision::Local { user, domain },
        call::Decision::Targets { route, .. } if request.starts_call && !plan.takes_call(&route, now) => {
            Decision::TooFast
        }
        call::Decision::Targets { user, groups, .. } => {
            // Targets of one priority are alternatives, not to ring at once: each is a group of its own.
            let targets = groups.iter().flat_map(|group| &group.targets);
            Decision::Targets(targets.map(|target| vec![uri_of(target, &user)]).collect())
        }
        call::Decision::Refuse { code: 403, reason: call::DENIED } => Decision::Deny,
        call::Decision::Refuse { code, reason } => Decision::Refuse { status: code, reason: reason.into() },
    }
}

/// The route whose target has sent a request, and how well that is known.
pub(crate) fn trunk_of<'p>(plan: &'p Plan, request: &PlanRequest) -> Option<call::Caller<'p>> {
    let proof = if is_reliable(request.transport) { SourceProof::Handshake } else { SourceProof::Datagram };
    plan.trunk_of(request.source, proof)
}

/// Whether the caller's own limits keep it from there. Patterns were checked when they were given.
fn denies(request: &PlanRequest) -> bool {
    let deny = request.limits.as_ref().map(|limits| &limits.deny).filter(|deny| !deny.is_empty());
    deny.is_some_and(|deny| {
        // A list that cannot be read denies all: it was there to deny something.
        Denied::new(deny).map_or(true, |denied| denied.covers(&request.user))
    })
}

/// The Request-URI for a target: `sip:user@target`.
pub(crate) fn uri_of(target: &call::Target, user: &str) -> Box<str> {
    let user = sip::wire::escape_user(user);
    if user.is_empty() { format!("sip:{target}").into() } else { format!("sip:{user}@{target}").into() }
}

//! The routing plan's words and the endpoint's: same meaning, two crates that do not know each other.

use call::{Plan, PlanRequest as Question};
use sip::endpoint::{Caller, Decision, PlanRequest};

/// Whether callers that claim an account of ours must prove it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallerProof {
    Required,
    Waived,
}

/// Where a request goes, and whether its caller must first prove who it is.
pub(crate) fn decide(
    plan: &Plan,
    request: &PlanRequest,
    proof: CallerProof,
    random: u64,
    down: &call::DownTargets,
) -> Decision {
    let trunk = plan.trunk_of(request.source);
    let caller = match (&request.caller, trunk) {
        (Caller::Account(aor), _) => call::Caller::Account(aor),
        (Caller::Stranger, Some(trunk)) => call::Caller::Trunk(trunk),
        (Caller::Stranger, None) if request.claims.is_some() && proof == CallerProof::Required => {
            return Decision::Authenticate;
        }
        (Caller::Stranger, None) => call::Caller::Stranger,
    };
    let question = Question { user: &request.user, host: &request.host, port: request.port, caller };
    match plan.decide(&question, random, down) {
        call::Decision::Local { user, domain } => Decision::Local { user, domain },
        call::Decision::Targets { user, groups, .. } => {
            // Targets of one priority are alternatives, not to ring at once: each is a group of its own.
            let targets = groups.iter().flat_map(|group| &group.targets);
            Decision::Targets(targets.map(|target| vec![uri_of(target, &user)]).collect())
        }
        call::Decision::Refuse { code, reason } => Decision::Refuse { status: code, reason: reason.into() },
    }
}

/// The Request-URI for a target: `sip:user@target`.
pub(crate) fn uri_of(target: &call::Target, user: &str) -> Box<str> {
    let user = sip::wire::escape_user(user);
    if user.is_empty() { format!("sip:{target}").into() } else { format!("sip:{user}@{target}").into() }
}

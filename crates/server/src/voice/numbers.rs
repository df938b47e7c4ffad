//! Which application answers which number, and for whom.

use std::collections::HashMap;
use std::sync::Arc;

use sip::endpoint::{Caller, Decision, PlanRequest};

use crate::config::{Number, Voice};
use crate::shard::CallerProof;

/// The numbers of all shards; read-only once made.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    by_user: HashMap<Box<str>, Arc<Number>>,
    open: bool,
}

impl Numbers {
    /// Of two entries for one number the first counts.
    pub(super) fn new(config: &Voice) -> Numbers {
        let mut by_user = HashMap::new();
        for number in &config.numbers {
            by_user.entry(number.number.clone()).or_insert_with(|| Arc::new(number.clone()));
        }
        Numbers { by_user, open: config.open }
    }

    /// With or without a `+`.
    pub(super) fn get(&self, user: &str) -> Option<&Arc<Number>> {
        self.by_user.get(user.strip_prefix('+').unwrap_or(user))
    }

    /// Whether an application answers that address.
    pub(super) fn answers(&self, plan: &call::Plan, user: &str, host: &str, port: Option<u16>) -> bool {
        self.get(user).is_some() && (host.is_empty() || plan.domain_of(host, port).is_some())
    }

    /// `None`: no number of an application; the routing plan decides.
    pub(super) fn decide(
        &self,
        plan: &call::Plan,
        proof: CallerProof,
        request: &PlanRequest,
    ) -> Option<Decision> {
        self.answers(plan, &request.user, &request.host, request.port).then_some(())?;
        // A Dial or the REST interface calls this number: the request left by the socket it came in by. Nobody else sends
        // from there, and the kernel takes no datagram from outside that names an address of its own as its source.
        let is_ours = plan.is_own(request.source);
        let is_known = is_ours
            || matches!(request.caller, Caller::Account(_))
            || plan.trunk_of(request.source).is_some();
        Some(if is_known || self.open {
            Decision::Agent
        } else if request.claims.is_some() && proof == CallerProof::Required {
            Decision::Authenticate
        } else {
            Decision::Refuse { status: 403, reason: "Forbidden".into() }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(open: bool) -> Numbers {
        let method = ivr::request::Method::Post;
        let number = Number { number: "1234".into(), url: "http://a/".into(), method, fallback: None };
        Numbers::new(&Voice { numbers: vec![number], open, ..Voice::default() })
    }

    fn plan() -> call::Plan {
        let settings = call::PlanSettings {
            domains: vec!["example.test".into()],
            local: vec!["127.0.0.1:5060".parse().unwrap()],
            ..Default::default()
        };
        call::Plan::new(&settings, Vec::new()).unwrap()
    }

    fn ask(numbers: &Numbers, user: &str, host: &str, caller: Caller, claims: bool) -> Option<Decision> {
        let request = PlanRequest {
            user: user.into(),
            host: host.into(),
            port: None,
            caller,
            claims: claims.then(|| "example.test".into()),
            source: "127.0.0.9:5060".parse().unwrap(),
        };
        numbers.decide(&plan(), CallerProof::Required, &request)
    }

    #[test]
    fn a_call_of_our_own_reaches_a_closed_number_and_its_neighbour_does_not() {
        for (source, expected) in [("127.0.0.1:5060", true), ("127.0.0.1:5061", false)] {
            let request = PlanRequest {
                user: "1234".into(),
                host: "example.test".into(),
                port: None,
                caller: Caller::Stranger,
                claims: None,
                source: source.parse().unwrap(),
            };
            let decision = numbers(false).decide(&plan(), CallerProof::Required, &request);
            assert_eq!(decision == Some(Decision::Agent), expected, "{source}");
        }
    }

    #[test]
    fn a_number_is_reached_in_a_domain_of_ours_or_at_our_address_with_or_without_plus() {
        let numbers = numbers(true);
        for (user, host) in [("1234", "example.test"), ("+1234", "127.0.0.1"), ("1234", "")] {
            assert_eq!(
                ask(&numbers, user, host, Caller::Stranger, false),
                Some(Decision::Agent),
                "{user}@{host}"
            );
        }
        for (user, host) in [("1234", "elsewhere.test"), ("12345", "example.test"), ("", "127.0.0.1")] {
            assert_eq!(ask(&numbers, user, host, Caller::Stranger, false), None, "{user}@{host}");
        }
    }

    #[test]
    fn strangers_reach_open_numbers_only() {
        let closed = numbers(false);
        let decide = |caller, claims| ask(&closed, "1234", "example.test", caller, claims);
        assert!(matches!(decide(Caller::Stranger, false), Some(Decision::Refuse { status: 403, .. })));
        assert_eq!(decide(Caller::Stranger, true), Some(Decision::Authenticate));
        assert_eq!(decide(Caller::Account("a@example.test".into()), true), Some(Decision::Agent));
    }
}

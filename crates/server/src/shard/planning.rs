//! Where a request goes: puts the requests of the endpoint (`RoutePlanner::decide`) and of calls of applications
//! (`RoutePlanner::resolve`) to `call::Plan`, and its decisions into the words of the asker. `sip`, `voice` and `call` do not know each
//! other. All is decided inline, without the store.
//!
//! The order for a request of the endpoint: numbers of applications, whether the plan is known at all, whether the caller has to
//! authenticate, the destinations that its account may not call, the plan, the rate of the route.

use std::sync::Arc;

use ::voice::{Address, CallerStanding, Destination, Purpose, Resolved, Voice};
use call::{Denied, DownTargets, Plan, PlanRequest as Question, SourceProof};
use router::AskId;
use sip::endpoint::{Caller, Decision, PlanRequest};
use sip::transport::is_reliable;
use stdx::Instant;

/// The proof required of callers that claim an account of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallerProof {
    /// Digest credentials, or a trusted source (`[sip] authenticate_calls`).
    Required,
    /// None: a From header is believed.
    Waived,
}

/// The routing plan as one shard decides by it.
pub(super) struct RoutePlanner {
    plan: Arc<Plan>,
    proof: CallerProof,
    /// Targets that do not answer their probes.
    down: Arc<DownTargets>,
}

/// The way of an application's call or message.
#[derive(Debug)]
pub(super) enum Resolution {
    /// An account of ours, whose bindings are to be looked up.
    Account { user: Box<str>, domain: Box<str> },
    /// The destinations to try one after the other; none for an address elsewhere to which no route leads. Or the status of a refusal.
    Resolved(Resolved),
    /// A call that the route does not take.
    Refused {
        reason: &'static str,
        /// By the route's denied destinations; else by its rate. The two have counters of their own.
        is_denied: bool,
    },
}

impl RoutePlanner {
    pub(super) fn new(plan: Arc<Plan>, proof: CallerProof) -> RoutePlanner {
        RoutePlanner { plan, proof, down: Arc::default() }
    }

    pub(super) fn plan(&self) -> &Plan {
        &self.plan
    }

    pub(super) fn set_plan(&mut self, plan: Arc<Plan>) {
        self.plan = plan;
    }

    pub(super) fn set_proof(&mut self, proof: CallerProof) {
        self.proof = proof;
    }

    pub(super) fn set_down(&mut self, down: Arc<DownTargets>) {
        self.down = down;
    }

    /// Decides a request of the endpoint: by the numbers of applications, else by the plan.
    pub(super) fn decide(
        &self,
        now: Instant,
        id: AskId,
        request: &PlanRequest,
        voice: Option<&Voice>,
    ) -> Decision {
        // The draw among weights: the same question is decided in the same way.
        let random = stdx::hash::Keyed::new(*b"weights of plans").hash(&id.0.to_le_bytes());
        let caller = CallerStanding {
            is_proof_required: self.proof == CallerProof::Required,
            is_trunk: &|| trunk_of(&self.plan, request).is_some(),
        };
        voice
            .and_then(|voice| voice.decide(&self.plan, request, caller))
            .unwrap_or_else(|| decide(now, &self.plan, request, self.proof, random, &self.down))
    }

    /// Resolves the target of an application's call or message, as for an account's. `ticket` draws among weights. Messages are not
    /// counted by the rate of a route.
    pub(super) fn resolve(
        &self,
        now: Instant,
        ticket: u64,
        address: &Address,
        purpose: Purpose,
    ) -> Resolution {
        if self.plan.is_awaited() {
            return Resolution::Resolved(Err(503));
        }
        let default = self.plan.default_domain();
        if purpose == Purpose::Mailbox {
            // An account of a domain that is served here, though its calls may be routed or answered by an application.
            let domain = match &*address.host {
                "" => default,
                host => self.plan.domain_of(host, address.port),
            };
            let account =
                |domain: &str| Resolution::Account { user: address.user.clone(), domain: domain.into() };
            return domain.map_or(Resolution::Resolved(Err(404)), account);
        }
        let question = Question {
            user: &address.user,
            host: if address.host.is_empty() { default.unwrap_or_default() } else { &address.host },
            port: address.port,
            caller: call::Caller::Account(""),
        };
        match self.plan.decide(&question, ticket, &self.down) {
            call::Decision::Local { user, domain } => Resolution::Account { user, domain },
            call::Decision::Targets { route, .. }
                if purpose == Purpose::Call && !self.plan.takes_call(&route, now) =>
            {
                Resolution::Refused { reason: "too many calls a second by this route", is_denied: false }
            }
            call::Decision::Targets { user, groups, .. } => {
                // Targets of one priority are alternatives, not to ring at once.
                let targets = groups.iter().flat_map(|group| &group.targets);
                let reach = |target| Destination {
                    uri: uri_of(target, &user),
                    path: "".into(),
                    received: None,
                    public_only: false,
                    is_binding: false,
                };
                Resolution::Resolved(Ok(targets.map(|target| vec![reach(target)]).collect()))
            }
            call::Decision::Refuse { code: 403, reason: call::DENIED } if purpose == Purpose::Call => {
                Resolution::Refused { reason: "the route denies the destination", is_denied: true }
            }
            // A host that is none of ours, to which no route leads.
            call::Decision::Refuse { .. }
                if !address.host.is_empty() && self.plan.domain_of(&address.host, address.port).is_none() =>
            {
                Resolution::Resolved(Ok(Vec::new()))
            }
            call::Decision::Refuse { code, .. } => Resolution::Resolved(Err(code)),
        }
    }
}

/// Decides the targets of a request, and whether its caller must first authenticate.
pub(crate) fn decide(
    now: Instant,
    plan: &Plan,
    request: &PlanRequest,
    proof: CallerProof,
    random: u64,
    down: &DownTargets,
) -> Decision {
    if plan.is_awaited() {
        return Decision::Unavailable;
    }
    // A trunk's claims about its callers are worth no more than a stranger's, unless the trunk is in the
    // trust domain.
    let must_prove = request.claims.is_some() && !request.is_trusted && proof == CallerProof::Required;
    let caller = match &request.caller {
        Caller::Account(aor) => call::Caller::Account(aor),
        Caller::Stranger if must_prove => return Decision::Authenticate,
        // An authenticated account is never taken for a trunk, whatever address it calls from.
        Caller::Stranger => trunk_of(plan, request).unwrap_or(call::Caller::Stranger),
    };
    // Before the plan: a route must not lead where the account may not call.
    if denies(request) {
        return Decision::Deny;
    }
    let question = Question { user: &request.user, host: &request.host, port: request.port, caller };
    match plan.decide(&question, random, down) {
        call::Decision::Local { user, domain } => Decision::Local { user, domain },
        // Requests within a call are not counted: only the first one costs the route.
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

/// The route whose system has sent a request, and how well that is known.
pub(crate) fn trunk_of<'p>(plan: &'p Plan, request: &PlanRequest) -> Option<call::Caller<'p>> {
    let proof = match &request.tls_names {
        Some(names) => SourceProof::Certificate(names),
        // A TCP handshake shows that the address receives; a UDP source can be forged.
        None if is_reliable(request.transport) => SourceProof::Handshake,
        None => SourceProof::Datagram,
    };
    plan.trunk_of(request.source, proof)
}

/// True if the caller's own limits deny the destination. Patterns were checked when they were given.
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

#[cfg(test)]
mod tests {
    use sip::endpoint::CallLimits;
    use sip::transport::Transport;

    use super::*;

    const NOW: Instant = Instant::from_unix_seconds(1_700_000_000);
    const TRUNK: &str = "198.51.100.1:5080";

    /// Calls abroad go to a carrier; one number of it rings Bob.
    fn plan(policy: &store::RoutePolicy) -> Plan {
        let route = |name: &str, pattern: &str, target: &str| store::Route {
            id: 0,
            name: name.into(),
            pattern: control::routes::parse_pattern(pattern).unwrap(),
            targets: vec![control::routes::parse_target(target).unwrap()],
            open: false,
            probe: false,
            strip: 0,
            prefix: "".into(),
            policy: policy.clone(),
            created_at: Instant::default(),
        };
        let abroad = route("abroad", "prefix:00", "sip:198.51.100.1:5080");
        let did = route("did", "number:4930123", "account:bob@example.test");
        let routes = [abroad, did].map(|route| control::routes::to_plan(&route).unwrap());
        let settings =
            call::PlanSettings { domains: vec!["example.test".into()], ..call::PlanSettings::default() };
        Plan::new(&settings, routes.into()).unwrap()
    }

    fn request(user: &str, transport: Transport) -> PlanRequest {
        PlanRequest {
            user: user.into(),
            host: "example.test".into(),
            port: None,
            caller: Caller::Stranger,
            claims: None,
            source: TRUNK.parse().unwrap(),
            transport,
            tls_names: None,
            is_trusted: false,
            starts_call: true,
            limits: None,
        }
    }

    fn ask(plan: &Plan, request: &PlanRequest) -> Decision {
        decide(NOW, plan, request, CallerProof::Required, 1, &call::DownTargets::default())
    }

    #[test]
    fn nothing_is_decided_before_the_plan_is_known() {
        let settings = call::PlanSettings {
            domains: vec!["example.test".into()],
            is_awaited: true,
            ..call::PlanSettings::default()
        };
        let plan = Plan::new(&settings, Vec::new()).unwrap();
        for transport in [Transport::Udp, Transport::Tls] {
            assert_eq!(ask(&plan, &request("4930123", transport)), Decision::Unavailable);
        }
        let planner = RoutePlanner::new(Arc::new(plan), CallerProof::Waived);
        let address = Address { user: "4930123".into(), host: "".into(), port: None };
        let resolution = planner.resolve(NOW, 1, &address, Purpose::Call);
        assert!(matches!(resolution, Resolution::Resolved(Err(503))), "{resolution:?}");
    }

    #[test]
    fn a_mailbox_is_an_account_of_a_local_domain_and_no_route_changes_that() {
        let settings =
            call::PlanSettings { domains: vec!["example.test".into()], ..call::PlanSettings::default() };
        let planner =
            RoutePlanner::new(Arc::new(Plan::new(&settings, Vec::new()).unwrap()), CallerProof::Waived);
        let resolve = |host: &str| {
            let address = Address { user: "alice".into(), host: host.into(), port: None };
            format!("{:?}", planner.resolve(NOW, 1, &address, Purpose::Mailbox))
        };
        let account = "Account { user: \"alice\", domain: \"example.test\" }";
        assert_eq!([resolve(""), resolve("EXAMPLE.test")], [account, account]);
        assert_eq!(resolve("elsewhere.test"), "Resolved(Err(404))");
    }

    fn bob() -> Decision {
        Decision::Local { user: "bob".into(), domain: "example.test".into() }
    }

    #[test]
    fn a_trunk_over_udp_reaches_accounts_and_over_a_connection_other_trunks_too() {
        let plan = plan(&store::RoutePolicy::default());
        let is_relayed = |transport| matches!(ask(&plan, &request("00900", transport)), Decision::Targets(_));
        assert_eq!(ask(&plan, &request("4930123", Transport::Udp)), bob());
        assert!(!is_relayed(Transport::Udp), "an address can be forged");
        assert!(is_relayed(Transport::Tcp), "a handshake cannot");
        let by_address = store::RoutePolicy { by_address: true, ..store::RoutePolicy::default() };
        let plan = self::plan(&by_address);
        assert!(matches!(ask(&plan, &request("00900", Transport::Udp)), Decision::Targets(_)));
    }

    /// RFC 5922 §7.1.
    #[test]
    fn a_trunk_is_known_by_its_certificate_from_any_address() {
        let certificates = vec!["sip.carrier.example".into()];
        let plan = plan(&store::RoutePolicy { certificates, ..store::RoutePolicy::default() });
        let mut request = request("00900", Transport::Tls);
        let is_relayed = |request: &PlanRequest| matches!(ask(&plan, request), Decision::Targets(_));
        assert!(!is_relayed(&request), "its address proves nothing any more");
        request.source = "203.0.113.77:40000".parse().unwrap();
        request.tls_names = Some(["other.example".into()].into());
        assert!(!is_relayed(&request), "another name");
        request.tls_names = Some(["other.example".into(), "sip.carrier.example".into()].into());
        assert!(is_relayed(&request));
    }

    /// Any peer can write any From, a carrier's customers among them.
    #[test]
    fn a_trunk_that_claims_a_domain_of_ours_must_prove_it_unless_it_is_trusted() {
        let plan = plan(&store::RoutePolicy::default());
        let mut request = request("4930123", Transport::Udp);
        request.claims = Some("example.test".into());
        assert_eq!(ask(&plan, &request), Decision::Authenticate);
        request.is_trusted = true;
        assert_eq!(ask(&plan, &request), bob());
        request.is_trusted = false;
        let waived = decide(NOW, &plan, &request, CallerProof::Waived, 1, &call::DownTargets::default());
        assert_eq!(waived, bob());
    }

    #[test]
    fn denied_destinations_and_rates_are_refused_by_name() {
        let policy = store::RoutePolicy {
            deny: vec!["00882*".into()],
            max_rate: Some(2),
            ..store::RoutePolicy::default()
        };
        let plan = plan(&policy);
        let mut request = request("00900", Transport::Udp);
        request.caller = Caller::Account("alice@example.test".into());
        let is_sent = |request: &PlanRequest| matches!(ask(&plan, request), Decision::Targets(_));
        assert!(is_sent(&request) && is_sent(&request));
        assert_eq!(ask(&plan, &request), Decision::TooFast);
        // An ACK, or a MESSAGE, is no call.
        request.starts_call = false;
        assert!(is_sent(&request));
        let denied = |user: &str, deny: &[&str]| {
            let deny = deny.iter().map(|&pattern| pattern.into()).collect();
            let limits = Some(Arc::new(CallLimits { deny, ..CallLimits::default() }));
            ask(&plan, &PlanRequest { user: user.into(), limits, ..request.clone() }) == Decision::Deny
        };
        assert!(denied("008821", &[]), "by the route");
        assert!(denied("00-900-1", &["00900*"]) && denied("bob", &["b?b"]), "by the account");
        assert!(!denied("00901", &["00900*"]));
    }
}

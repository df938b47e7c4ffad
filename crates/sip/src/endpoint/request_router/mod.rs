//! The targets of a new request: ourselves, the other side of a dialog, an account, or a route.
//! RFC 3261 §16.3 to §16.5.

mod allowance;
mod chat;
mod secure;

use router::{Answer, AskId, Binding, Query, bound_targets};
use stdx::slab::Key;

pub(crate) use self::allowance::AdmissionSide;
pub use self::allowance::CallLimits;
use self::chat::ChatOffers;
use self::secure::{is_sips, refuse_sips, secure_targets};
use super::authentication::Authentication;
use super::context::{RequestContext, RequestStage};
use super::effect::{Account, Caller, Decision, ListedUnder, PlanRequest};
use super::environment::loops::route_after;
use super::ladders::begin_ladder;
use super::lower::{LowerView, ask_id, unsupported};
use super::proxy_core::ProxyCore;
use super::registrar_front::RegistrarFront;
use super::{CallEventKind, EndpointEffect};
use crate::events::Package;
use crate::limits;
use crate::proxy::{Destination, ForwardingPurpose, TargetSearch};
use crate::registrar::RETRY_AFTER;
use crate::registrar::gruu::Instance;
use crate::wire::{Header, Message, Method, Reply, Scheme, lossy};

/// Option tags a proxy needs no code for: they pass through us (§16.3 step 5 asks about Proxy-Require only). `sec-agree` is none
/// of them: RFC 3329 §2.3.1 has a proxy that knows it answer 494 with a list of its own.
const PROXY_REQUIRE_KNOWN: &[&str] = &["path", "outbound", "gruu"];

/// The part of an endpoint that determines the targets of a request.
pub(crate) struct RequestRouter {
    pub(crate) authentication: Authentication,
    pub(crate) registrar: RegistrarFront,
    chat: ChatOffers,
    /// Taken by the endpoint after each event.
    handover: Option<Handover>,
}

/// A request that is not forwarded goes to another part of the endpoint.
pub(crate) enum Handover {
    /// To the event notifier: within a subscription of ours, or for this account.
    Notifier { request: Key, aor: router::Aor },
    /// To the user agent of applications.
    UserAgent { request: Key },
}

impl RequestRouter {
    pub(crate) fn new(authentication: Authentication, registrar: RegistrarFront) -> Self {
        RequestRouter { authentication, registrar, chat: ChatOffers::new(), handover: None }
    }

    /// The request that another part of the endpoint answers, once.
    pub(crate) fn take_handover(&mut self) -> Option<Handover> {
        self.handover.take()
    }

    /// Restores what a strict router changed, and refuses a request that needs an extension that we do not have (RFC 3261
    /// §16.3 step 5).
    pub(crate) fn refuses_extensions(&mut self, lower: &mut LowerView<'_>, key: Key) -> bool {
        restore_route(lower, key);
        let Some(context) = lower.contexts.get(key) else { return true };
        let unsupported = unsupported(&context.request, Header::ProxyRequire, PROXY_REQUIRE_KNOWN);
        let is_refused = !unsupported.is_empty();
        if is_refused {
            let list = unsupported.join(&b", "[..]);
            let add = |reply: &mut Reply| {
                reply.header("Unsupported", &list);
            };
            lower.finish_with(key, 420, "Bad Extension", add);
        }
        is_refused
    }

    /// Tells requests within a dialog, for ourselves and for the registrar from those for the routing plan.
    pub(crate) fn dispatch(&mut self, lower: &mut LowerView<'_>, key: Key, is_in_subscription: bool) {
        let Some(context) = lower.contexts.get(key) else { return };
        let request = &context.request;
        let own = lower.env.own_routes(request);
        let beyond = route_after(request, own.count).is_some();
        let method = request.method();
        let Ok(uri) = request.request_uri() else {
            return lower.finish(key, 400, "Bad Request-URI");
        };
        let to_us = lower.env.listeners.is_us(&uri);
        if is_in_subscription {
            self.handover = Some(Handover::Notifier { request: key, aor: "".into() });
            return;
        }
        // RFC 3261 §12.2.1.1: the remote target is where the user agent listens, whatever domain and port it names.
        // It is not looked up, but for a GRUU of ours (RFC 5627 §6.1).
        let is_elsewhere = own.flow().is_some() || beyond || !(to_us || lower.env.is_own_gruu(&uri));
        if let Some(within) = own.within.filter(|_| is_elsewhere) {
            return ProxyCore::new(lower).forward_in_dialog(key, own.count, &within);
        }
        let is_for_us = || to_us || lower.env.settings.serves(uri.host);
        if method == Method::Register {
            // RFC 3261 §10.3 step 1: the domain of the Request-URI must be ours.
            let is_for_us = is_for_us();
            return self.begin_register(lower, key, is_for_us);
        }
        let names_us = uri.user.is_none() && is_for_us();
        if names_us && method == Method::Options {
            return lower.answer_options(key);
        }
        if request.max_forwards() == Some(Some(0)) {
            lower.counters.too_many_hops += 1;
            return lower.finish(key, 483, "Too Many Hops");
        }
        if names_us && request.to_tag().is_some() {
            // RFC 3261 §12.2.2: our Contact has no user, so this was a dialog of ours.
            return lower.finish(key, 481, "Call/Transaction Does Not Exist");
        }
        if names_us {
            return lower.finish(key, 404, "Not Found");
        }
        if beyond {
            // A Route that we did not write leads elsewhere: we are no open relay.
            lower.counters.refused_relay += 1;
            return lower.finish(key, 403, "Relaying Denied");
        }
        lower.set_stage(key, RequestStage::Planning { own_routes: own.count });
        self.plan(lower, key, Caller::Stranger);
    }

    /// Asks where the request goes. A caller is a stranger until it has proved to be an account.
    pub(crate) fn plan(&mut self, lower: &mut LowerView<'_>, key: Key, caller: Caller) {
        let Some(context) = lower.contexts.get_mut(key) else { return };
        context.caller = Some(caller.clone());
        let is_second = std::mem::take(&mut context.claim_withheld);
        context.claim_withheld =
            !is_second && caller == Caller::Stranger && is_options_without_credentials(&context.request);
        let Some(context) = lower.contexts.get(key) else { return };
        let claims = match caller {
            Caller::Stranger if !context.claim_withheld => lower.env.claim(&context.request),
            Caller::Stranger | Caller::Account(_) => None,
        };
        let claims = claims.map(|claim| claim.domain);
        let Ok(uri) = context.request.request_uri() else { return };
        let host = if uri.scheme == Scheme::Tel { String::new() } else { uri.host_lower() };
        let request = PlanRequest {
            user: uri.user_decoded().unwrap_or_default().into(),
            host: host.into(),
            port: uri.port,
            caller,
            claims,
            source: context.source.remote,
            transport: context.source.transport,
            tls_names: lower.env.trust().tls_names(&context.source).cloned(),
            is_trusted: lower.env.trust().trusts_source(&context.source),
            starts_call: context.starts_call(),
            limits: context.limits.clone(),
        };
        lower.out.push(EndpointEffect::Plan { id: ask_id(key), request });
    }

    /// A CANCEL cannot be challenged (RFC 3261 §22.1): it goes where the INVITE of the account that it claims went. The branch
    /// that it knows is its proof, as for any CANCEL (§9.2).
    fn plan_claimed(&mut self, lower: &mut LowerView<'_>, key: Key) {
        let Some(context) = lower.contexts.get(key) else { return };
        let is_second = matches!(context.caller, Some(Caller::Account(_)));
        match lower.env.claim(&context.request).filter(|_| !is_second) {
            Some(claim) => {
                let aor = format!("{}@{}", claim.user, claim.domain);
                self.plan(lower, key, Caller::Account(aor.into()));
            }
            None => lower.finish(key, 481, "Call/Transaction Does Not Exist"),
        }
    }

    /// A CANCEL whose INVITE is not here, in a farm.
    pub(crate) fn dispatch_cancel(&mut self, lower: &mut LowerView<'_>, key: Key) {
        let Some(context) = lower.contexts.get(key) else { return };
        let request = &context.request;
        let own = lower.env.own_routes(request);
        let is_beyond = route_after(request, own.count).is_some();
        if let Some(within) = &own.within {
            lower.answer_early(key, (200, "OK"));
            return ProxyCore::new(lower).forward_in_dialog(key, own.count, within);
        }
        let names_us =
            request.request_uri().is_ok_and(|uri| uri.user.is_none() && lower.env.listeners.is_us(&uri));
        if is_beyond || names_us || request.to_tag().is_some() || request.max_forwards() == Some(Some(0)) {
            return lower.finish(key, 481, "Call/Transaction Does Not Exist");
        }
        lower.set_stage(key, RequestStage::Planning { own_routes: own.count });
        self.plan(lower, key, Caller::Stranger);
    }

    pub(crate) fn handle_plan(&mut self, lower: &mut LowerView<'_>, id: AskId, decision: Decision) {
        let key = Key::from_u64(id.0);
        let Some(&RequestStage::Planning { own_routes }) = lower.contexts.get(key).map(|c| &c.stage) else {
            return;
        };
        let is_refused = matches!(decision, Decision::Refuse { .. } | Decision::Deny);
        if is_refused && lower.contexts.get(key).is_some_and(|context| context.claim_withheld) {
            // Perhaps an account may where a stranger may not.
            return self.plan(lower, key, Caller::Stranger);
        }
        let method = lower.contexts.get(key).map(|context| context.request.method());
        let (is_ack, is_cancel) = (method == Some(Method::Ack), method == Some(Method::Cancel));
        match decision {
            Decision::Authenticate if is_cancel => self.plan_claimed(lower, key),
            ref decision if is_cancel && (decision.is_failure() || *decision == Decision::Agent) => {
                lower.finish(key, 481, "Call/Transaction Does Not Exist");
            }
            Decision::Agent => self.handover = Some(Handover::UserAgent { request: key }),
            ref decision if is_ack && (decision.is_failure() || *decision == Decision::Authenticate) => {
                ProxyCore::new(lower).finish_ack(key, None);
            }
            Decision::Targets(groups) if is_ack => {
                let first = groups.into_iter().flatten().next().map(|uri| destination_of_route(&uri));
                ProxyCore::new(lower).finish_ack(key, first.as_ref());
            }
            Decision::Local { user, domain } => {
                // RFC 5627 §6.1: a GRUU names one phone of the account.
                let gruu = lower
                    .contexts
                    .get(key)
                    .and_then(|context| self.registrar.gruus.resolve(&context.request.request_uri().ok()?));
                if let Some(instance) = gruu {
                    return self.find_instance(lower, key, own_routes, instance);
                }
                lower.set_stage(key, RequestStage::Finding { own_routes });
                lower.out.push(EndpointEffect::Account { id, user, domain });
            }
            Decision::Targets(groups) => {
                let groups = groups
                    .into_iter()
                    .map(|group| group.iter().map(|uri| destination_of_route(uri)).collect())
                    .collect();
                let search = TargetSearch::Failover { redirects: lower.env.settings.failover_on_redirect };
                self.fork(lower, key, groups, own_routes, search);
            }
            Decision::Authenticate => self.authentication.authenticate(lower, key, own_routes),
            Decision::Refuse { status, reason } => self.refuse(lower, key, status, &reason),
            Decision::Unavailable => unavailable(lower, key),
            Decision::Deny => {
                lower.counters.refused_destinations += 1;
                lower.finish(key, 403, "Destination Denied");
            }
            Decision::TooFast => {
                lower.counters.refused_by_limit += 1;
                lower.finish(key, 403, "Too Many Calls By This Route");
            }
        }
    }

    /// The plan refuses a request.
    fn refuse(&mut self, lower: &mut LowerView<'_>, key: Key, status: u16, reason: &str) {
        // The route, or a domain elsewhere, may be open to accounts.
        let is_perhaps_open = matches!(status, 403 | 404);
        if !is_perhaps_open || !self.authentication.challenge_anonymous(lower, key) {
            lower.finish(key, status, reason);
        }
    }

    /// The store's word on an account: the caller's, when the request waits for a password to be checked,
    /// else the callee's.
    pub(crate) fn handle_account(
        &mut self,
        lower: &mut LowerView<'_>,
        id: AskId,
        account: Result<Option<Account>, StoreUnavailable>,
    ) {
        let key = Key::from_u64(id.0);
        let Some(context) = lower.contexts.get(key) else { return };
        let Ok(account) = account else {
            // RFC 3261 §21.5.4: temporarily unable to process the request.
            let wait = RETRY_AFTER.to_string();
            let retry = |reply: &mut Reply| {
                reply.header("Retry-After", wait.as_bytes());
            };
            return lower.finish_with(key, 503, "Service Unavailable", retry);
        };
        match context.stage {
            RequestStage::Authenticating { own_routes, .. } => {
                if let Some(account) = self.authentication.verify(lower, key, account) {
                    self.accepted(lower, key, own_routes, account);
                }
            }
            RequestStage::Finding { own_routes } => self.locate(lower, key, own_routes, account),
            _ => {}
        }
    }

    fn locate(&mut self, lower: &mut LowerView<'_>, key: Key, own_routes: usize, account: Option<Account>) {
        // A disabled account is as absent as one that never was: no answer tells which.
        let account = account.filter(|account| !account.disabled);
        let is_trunk =
            lower.contexts.get(key).is_some_and(|context| lower.env.trust().is_of_trunk(&context.source));
        let is_stranger = !is_trunk && lower.is_of_stranger(key);
        let (aor, limits) = match account {
            Some(account) => {
                if let Some(context) = lower.contexts.get_mut(key) {
                    context.callee = Some(account.aor.clone());
                }
                (account.aor, account.limits)
            }
            // Strangers do not learn which accounts there are: an absent one is looked for like any other.
            None if is_stranger => (self.absent_aor(lower, key), None),
            None => return lower.finish(key, 404, "Not Found"),
        };
        if !self.asks_for_callee(lower, key, (&aor, limits.as_ref()), own_routes) {
            self.locate_account(lower, key, own_routes, aor);
        }
    }

    pub(crate) fn locate_account(
        &mut self,
        lower: &mut LowerView<'_>,
        key: Key,
        own_routes: usize,
        aor: router::Aor,
    ) {
        let instance = lower.contexts.get_mut(key).and_then(|context| context.gruu.take());
        lower.set_stage(key, RequestStage::Locating { own_routes, instance });
        if is_for_notifier(lower, key) {
            self.handover = Some(Handover::Notifier { request: key, aor });
            return;
        }
        lower.out.push(EndpointEffect::Ask { id: ask_id(key), query: Query::Lookup { aor } });
    }

    /// The address that a request names, where there is no account.
    fn absent_aor(&self, lower: &mut LowerView<'_>, key: Key) -> router::Aor {
        let uri = lower.contexts.get(key).and_then(|context| context.request.request_uri().ok());
        uri.map_or_else(Box::default, |uri| {
            format!("{}@{}", uri.user_decoded().unwrap_or_default(), uri.host_lower()).into()
        })
    }

    pub(crate) fn locate_instance(
        &mut self,
        lower: &mut LowerView<'_>,
        key: Key,
        own_routes: usize,
        instance: Instance,
    ) {
        let aor = instance.aor.clone();
        lower.set_stage(key, RequestStage::Locating { own_routes, instance: Some(instance) });
        lower.out.push(EndpointEffect::Ask { id: ask_id(key), query: Query::Lookup { aor } });
    }

    pub(crate) fn handle_answer(&mut self, lower: &mut LowerView<'_>, id: AskId, answer: Answer) {
        let key = Key::from_u64(id.0);
        let Some(context) = lower.contexts.get(key) else { return };
        match (&context.stage, answer) {
            (RequestStage::Locating { own_routes, instance }, Answer::Bindings(mut bindings)) => {
                let own_routes = *own_routes;
                match instance {
                    Some(instance) => {
                        bindings.retain(|binding| self.registrar.gruus.reaches(instance, binding));
                    }
                    // Phones of an account that was disabled are not rung.
                    None if context.callee.is_none() => bindings.clear(),
                    None => {}
                }
                let is_for_account = instance.is_none();
                self.located(lower, key, own_routes, bindings, is_for_account);
            }
            (RequestStage::Admitting { .. }, Answer::Admitted(admitted)) => {
                self.handle_admitted(lower, key, admitted);
            }
            (RequestStage::Offering { .. }, Answer::Offered(offered)) => self.offered(lower, key, offered),
            (RequestStage::Registering { .. }, Answer::Registered(result)) => {
                self.registrar.finish_register(lower, key, result);
            }
            (
                RequestStage::Locating { .. }
                | RequestStage::Admitting { .. }
                | RequestStage::Offering { .. }
                | RequestStage::Registering { .. },
                Answer::Unavailable,
            ) => unavailable(lower, key),
            // An answer to a request that was cancelled meanwhile.
            _ => {}
        }
    }

    pub(crate) fn ring_bindings(
        &mut self,
        lower: &mut LowerView<'_>,
        key: Key,
        own_routes: usize,
        bindings: Vec<Binding>,
    ) {
        if bindings.is_empty() {
            return self.finish_without_binding(lower, key);
        }
        self.fork(lower, key, groups_by_q(bindings), own_routes, TargetSearch::Fork);
    }

    /// No binding: a MESSAGE is kept for later, a call is not.
    fn finish_without_binding(&mut self, lower: &mut LowerView<'_>, key: Key) {
        let Some(context) = lower.contexts.get(key) else { return };
        if context.request.method() == Method::Message {
            return match &context.callee {
                Some(aor) => self.handover = Some(Handover::Notifier { request: key, aor: aor.clone() }),
                // Only strangers get here: they were told what they are told of an account that is not there now.
                None => lower.finish(key, 480, "Temporarily Unavailable"),
            };
        }
        self.finish_without_target(lower, key);
    }

    /// RFC 3261 §16.5: an empty set of targets.
    fn finish_without_target(&mut self, lower: &mut LowerView<'_>, key: Key) {
        // To an account the plan may give another way than to a stranger.
        if self.authentication.challenge_anonymous(lower, key) {
            return;
        }
        match lower.contexts.get(key).is_some_and(|context| is_sips(context.request.uri())) {
            true => refuse_sips(lower, key),
            false => lower.finish(key, 480, "Temporarily Unavailable"),
        }
    }

    /// Starts the proxy part: every target rings, first group first.
    pub(crate) fn fork(
        &mut self,
        lower: &mut LowerView<'_>,
        key: Key,
        groups: Vec<Vec<Destination>>,
        own_routes: usize,
        search: TargetSearch,
    ) {
        let Some(context) = lower.contexts.get(key) else { return };
        let groups = if is_sips(context.request.uri()) { secure_targets(groups) } else { groups };
        if groups.iter().all(Vec::is_empty) {
            return self.finish_without_target(lower, key);
        }
        let method = context.request.method();
        if method == Method::Ack {
            let first = groups.into_iter().flatten().next();
            return ProxyCore::new(lower).finish_ack(key, first.as_ref());
        }
        if method == Method::Cancel {
            return ProxyCore::new(lower).forward_cancel(key, groups, own_routes);
        }
        let Some(context) = lower.contexts.get(key) else { return };
        let record_route = matches!(method, Method::Invite | Method::Subscribe | Method::Refer);
        let starts_call = method == Method::Invite && context.request.to_tag().is_none();
        if starts_call {
            let event = started(context);
            begin_ladder(lower, key);
            lower.note_call(key, event);
        }
        let purpose = ForwardingPurpose { own_routes, record_route, starts_call, within: None, search };
        ProxyCore::new(lower).begin_proxying(key, groups, purpose);
    }

    fn begin_register(&mut self, lower: &mut LowerView<'_>, key: Key, is_for_us: bool) {
        lower.counters.registers += 1;
        // Before the credentials are looked at: those of a copy were used by the first one.
        if lower.refuse_merged(key) {
            return;
        }
        let Some(context) = lower.contexts.get(key) else { return };
        let Some(claim) = lower.env.claim(&context.request).filter(|_| is_for_us) else {
            // §10.3 step 1 would have us proxy it; we are no open relay.
            return lower.finish(key, 404, "Domain Not Served");
        };
        self.authentication.authenticate_claim(lower, key, 0, claim);
    }

    fn accepted(&mut self, lower: &mut LowerView<'_>, key: Key, own_routes: usize, account: Account) {
        let Some(context) = lower.contexts.get(key) else { return };
        if context.request.method() == Method::Register {
            return self.registrar.register(lower, key, account);
        }
        self.plan_for(lower, key, (account.aor, account.limits), own_routes);
    }
}

/// No node of the farm, or no database, has answered for the address in time, or told of the plan (RFC 3261 §21.5.4).
pub(super) fn unavailable(lower: &mut LowerView<'_>, key: Key) {
    if lower.contexts.get(key).is_some_and(|context| context.request.method() == Method::Ack) {
        return ProxyCore::new(lower).finish_ack(key, None);
    }
    lower.finish_with(key, 503, "Service Unavailable", |reply| {
        reply.header("Retry-After", limits::UNAVAILABLE_RETRY_AFTER.to_string().as_bytes());
    });
}

/// The account could not be read; the request is answered 503 with Retry-After.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreUnavailable;

fn restore_route(lower: &mut LowerView<'_>, key: Key) {
    let Some(context) = lower.contexts.get(key) else { return };
    let restored = lower.env.restore_strictly_routed(&context.request);
    if let (Some(restored), Some(context)) = (restored, lower.contexts.get_mut(key)) {
        context.request = restored;
    }
}

/// An OPTIONS costs and tells no more than one of a stranger, and monitors have no password (RFC 3261 §11): only where
/// strangers are refused is its sender asked for one.
fn is_options_without_credentials(request: &Message) -> bool {
    request.method() == Method::Options
        && request.to_tag().is_none()
        && request.header(Header::ProxyAuthorization).is_none()
}

/// True if the request is for the account's event notifier, and no phone: every PUBLISH, and a SUBSCRIBE
/// to a package that we serve.
fn is_for_notifier(lower: &LowerView<'_>, key: Key) -> bool {
    lower.contexts.get(key).is_some_and(|context| match context.request.method() {
        Method::Publish => true,
        Method::Subscribe => Package::of(&context.request).is_some(),
        _ => false,
    })
}

fn started(context: &RequestContext) -> CallEventKind {
    let request = &context.request;
    CallEventKind::Started {
        call_id: lossy(request.call_id()),
        from_tag: lossy(request.from_tag()),
        from: lossy(request.from().map(|a| a.uri)),
        to: lossy(Some(request.uri())),
        caller: context.caller.as_ref().and_then(Caller::account),
        callee: context.callee.clone(),
        listed: ListedUnder::default(),
    }
}

fn destination_of_route(uri: &str) -> Destination {
    Destination { trusted: true, ..Destination::new(uri.as_bytes(), None) }
}

/// RFC 3261 §16.6: equal q in parallel, lower q after higher. RFC 5626 §7: the flows of one instance are one target.
fn groups_by_q(bindings: Vec<Binding>) -> Vec<Vec<Destination>> {
    let mut groups: Vec<(u16, Vec<Destination>)> = Vec::new();
    for target in bound_targets(bindings).into_iter().take(limits::FORK_BRANCHES) {
        let target_q = target.binding.contact.q;
        let other_flows = target.other_flows.into_iter().map(Destination::of_binding).collect();
        let destination = Destination { other_flows, ..Destination::of_binding(target.binding) };
        match groups.last_mut() {
            Some((q, group)) if *q == target_q => group.push(destination),
            _ => groups.push((target_q, vec![destination])),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

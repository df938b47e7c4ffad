//! A new request: is it for us, within a dialog, for one of our accounts, or for somebody's route?
//! RFC 3261 §16.3 to §16.5.

use router::{Answer, Binding, Query};
use stdx::Instant;
use stdx::slab::Key;

use super::effect::{Account, Caller, Decision, ListedUnder, PlanRequest};
use super::routing::route_after;
use super::{CallEventKind, Context, Effect, Endpoint, Outbox, Stage};
use crate::events::ASK_BIT;
use crate::proxy::{Destination, Purpose, Search};
use crate::registrar::gruu::Instance;
use crate::wire::{Header, Message, Method, Scheme, Uri};

/// Option tags a proxy needs no code for: they pass through us (§16.3 step 5 asks about Proxy-Require only).
const PROXY_REQUIRE_KNOWN: &[&str] = &["path", "outbound", "gruu", "sec-agree"];

impl Endpoint {
    pub(super) fn dispatch(&mut self, now: Instant, key: Key, out: &mut Outbox) {
        self.restore_route(key);
        let Some(context) = self.contexts.get(key) else { return };
        let request = &context.request;
        let unsupported = Self::unsupported(request, Header::ProxyRequire, PROXY_REQUIRE_KNOWN);
        if !unsupported.is_empty() {
            let list = unsupported.join(&b", "[..]);
            let add = |reply: &mut crate::wire::Reply| {
                reply.header("Unsupported", &list);
            };
            return self.finish_with(now, key, 420, "Bad Extension", add, out);
        }
        if self.take_by_session(now, key, out) {
            return;
        }
        let Some(context) = self.contexts.get(key) else { return };
        let request = &context.request;
        let own = self.own_routes(request);
        let beyond = route_after(request, own.count).is_some();
        let method = request.method();
        let Ok(uri) = Uri::parse(request.uri()) else {
            return self.finish(now, key, 400, "Bad Request-URI", out);
        };
        let to_us = self.is_us(&uri);
        if self.is_notifiers(request) {
            return self.give_to_notifier(now, key, out);
        }
        // RFC 3261 §12.2.1.1: the remote target is where the user agent listens, whatever domain and port it names.
        // It is not looked up, but for a GRUU of ours (RFC 5627 §6.1).
        let is_elsewhere = own.flow().is_some() || beyond || !(to_us || self.is_own_gruu(&uri));
        if let Some(within) = own.within.filter(|_| is_elsewhere) {
            return self.forward_in_dialog(now, key, own.count, &within, out);
        }
        let names_us = uri.user.is_none() && (to_us || self.settings.serves(&uri.host_lower()));
        if names_us && method == Method::Options {
            return self.answer_options(now, key, out);
        }
        if method == Method::Register {
            return self.begin_register(now, key, out);
        }
        if request.max_forwards() == Some(Some(0)) {
            self.counters.too_many_hops += 1;
            return self.finish(now, key, 483, "Too Many Hops", out);
        }
        if names_us && request.to_tag().is_some() {
            // RFC 3261 §12.2.2: our Contact has no user, so this was a dialog of ours.
            return self.finish(now, key, 481, "Call/Transaction Does Not Exist", out);
        }
        if names_us {
            return self.finish(now, key, 404, "Not Found", out);
        }
        if beyond {
            // A Route that we did not write leads elsewhere: we are no open relay.
            self.counters.refused_relay += 1;
            return self.finish(now, key, 403, "Relaying Denied", out);
        }
        self.set_stage(key, Stage::Planning { own_routes: own.count });
        self.plan(key, Caller::Stranger, out);
    }

    fn restore_route(&mut self, key: Key) {
        let Some(context) = self.contexts.get(key) else { return };
        let restored = self.restore_strictly_routed(&context.request);
        if let (Some(restored), Some(context)) = (restored, self.contexts.get_mut(key)) {
            context.request = restored;
        }
    }

    /// Asks where the request goes. A caller is a stranger until it has proved to be somebody.
    pub(super) fn plan(&mut self, key: Key, caller: Caller, out: &mut Outbox) {
        let Some(context) = self.contexts.get_mut(key) else { return };
        context.caller = Some(caller.clone());
        let is_second = std::mem::take(&mut context.claim_withheld);
        context.claim_withheld =
            !is_second && caller == Caller::Stranger && is_options_without_credentials(&context.request);
        let Some(context) = self.contexts.get(key) else { return };
        let claims = match caller {
            Caller::Stranger if !context.claim_withheld => self.claim(&context.request),
            Caller::Stranger | Caller::Account(_) => None,
        };
        let claims = claims.map(|claim| claim.domain);
        let Ok(uri) = Uri::parse(context.request.uri()) else { return };
        let host = if uri.scheme == Scheme::Tel { String::new() } else { uri.host_lower() };
        let request = PlanRequest {
            user: uri.user_decoded().unwrap_or_default().into(),
            host: host.into(),
            port: uri.port,
            caller,
            claims,
            source: context.source.remote,
            transport: context.source.transport,
            tls_names: self.tls_names(&context.source).cloned(),
            is_trusted: self.trusts_source(&context.source),
            starts_call: context.starts_call(),
            limits: context.limits.clone(),
        };
        out.push(Effect::Plan { id: Self::ask_id(key), request });
    }

    pub fn handle_plan(&mut self, now: Instant, id: router::AskId, decision: Decision, out: &mut Outbox) {
        let key = Key::from_u64(id.0);
        let Some(&Stage::Planning { own_routes }) = self.contexts.get(key).map(|c| &c.stage) else { return };
        let is_refused = matches!(decision, Decision::Refuse { .. } | Decision::Deny);
        if is_refused && self.contexts.get(key).is_some_and(|context| context.claim_withheld) {
            // Perhaps an account may where a stranger may not.
            return self.plan(key, Caller::Stranger, out);
        }
        let is_ack = self.contexts.get(key).is_some_and(|context| context.request.method() == Method::Ack);
        match decision {
            Decision::Agent => self.give_to_agent(now, key, out),
            Decision::Authenticate | Decision::Refuse { .. } | Decision::Deny | Decision::TooFast
                if is_ack =>
            {
                self.finish_ack(now, key, None, out);
            }
            Decision::Targets(groups) if is_ack => {
                let first = groups.into_iter().flatten().next().map(|uri| destination_of_route(&uri));
                self.finish_ack(now, key, first.as_ref(), out);
            }
            Decision::Local { user, domain } => {
                // RFC 5627 §6.1: a GRUU names one phone of the account.
                let gruu = self
                    .contexts
                    .get(key)
                    .and_then(|context| self.gruus.resolve(&Uri::parse(context.request.uri()).ok()?));
                if let Some(instance) = gruu {
                    return self.find_instance(key, own_routes, instance, out);
                }
                self.set_stage(key, Stage::Finding { own_routes });
                out.push(Effect::Account { id, user, domain });
            }
            Decision::Targets(groups) => {
                let groups = groups
                    .into_iter()
                    .map(|group| group.iter().map(|uri| destination_of_route(uri)).collect())
                    .collect();
                let search = Search::Failover { redirects: self.settings.failover_on_redirect };
                self.fork(now, key, groups, own_routes, search, out);
            }
            Decision::Authenticate => self.authenticate(now, key, own_routes, out),
            Decision::Refuse { status, reason } => self.finish(now, key, status, &reason, out),
            Decision::Deny => {
                self.counters.refused_destinations += 1;
                self.finish(now, key, 403, "Destination Denied", out);
            }
            Decision::TooFast => {
                self.counters.refused_by_limit += 1;
                self.finish(now, key, 403, "Too Many Calls By This Route", out);
            }
        }
    }

    /// The store's word on an account: the caller's, when the request waits for a password to be checked,
    /// else the callee's.
    pub fn handle_account(
        &mut self,
        now: Instant,
        id: router::AskId,
        account: Result<Option<Account>, StoreUnavailable>,
        out: &mut Outbox,
    ) {
        let key = Key::from_u64(id.0);
        let Some(context) = self.contexts.get(key) else { return };
        let Ok(account) = account else {
            return self.finish(now, key, 500, "Server Internal Error", out);
        };
        match context.stage {
            Stage::Authenticating { own_routes } => self.verify(now, key, own_routes, account, out),
            Stage::Finding { own_routes } => self.locate(now, key, own_routes, account, out),
            _ => {}
        }
    }

    fn locate(
        &mut self,
        now: Instant,
        key: Key,
        own_routes: usize,
        account: Option<Account>,
        out: &mut Outbox,
    ) {
        // A disabled account is as absent as one that never was: nobody learns which.
        let account = account.filter(|account| !account.disabled);
        let is_trunk = self.contexts.get(key).is_some_and(|context| self.is_of_trunk(&context.source));
        let is_stranger = !is_trunk && self.is_of_stranger(key);
        let (aor, limits) = match account {
            Some(account) => {
                if let Some(context) = self.contexts.get_mut(key) {
                    context.callee = Some(account.aor.clone());
                }
                (account.aor, account.limits)
            }
            // Strangers do not learn which accounts there are: an absent one is looked for like any other.
            None if is_stranger => (self.absent_aor(key), None),
            None => return self.finish(now, key, 404, "Not Found", out),
        };
        if !self.asks_for_callee(now, key, (&aor, limits.as_ref()), own_routes, out) {
            self.locate_account(now, key, own_routes, aor, out);
        }
    }

    pub(super) fn locate_account(
        &mut self,
        now: Instant,
        key: Key,
        own_routes: usize,
        aor: router::Aor,
        out: &mut Outbox,
    ) {
        let instance = self.contexts.get_mut(key).and_then(|context| context.gruu.take());
        self.set_stage(key, Stage::Locating { own_routes, instance });
        if self.take_by_agent(now, key, &aor, out) {
            return;
        }
        out.push(Effect::Ask { id: Self::ask_id(key), query: Query::Lookup { aor } });
    }

    /// Whether the sender is no account of ours, as far as is known.
    pub(super) fn is_of_stranger(&self, key: Key) -> bool {
        self.sender_of(key).is_none()
    }

    /// The address that a request names, where there is no account.
    fn absent_aor(&self, key: Key) -> router::Aor {
        let uri = self.contexts.get(key).and_then(|context| Uri::parse(context.request.uri()).ok());
        uri.map_or_else(Box::default, |uri| {
            format!("{}@{}", uri.user_decoded().unwrap_or_default(), uri.host_lower()).into()
        })
    }

    pub(super) fn locate_instance(
        &mut self,
        key: Key,
        own_routes: usize,
        instance: Instance,
        out: &mut Outbox,
    ) {
        let aor = instance.aor.clone();
        self.set_stage(key, Stage::Locating { own_routes, instance: Some(instance) });
        out.push(Effect::Ask { id: Self::ask_id(key), query: Query::Lookup { aor } });
    }

    pub fn handle_answer(&mut self, now: Instant, id: router::AskId, answer: Answer, out: &mut Outbox) {
        if id.0 & ASK_BIT != 0 {
            return self.handle_agent_answer(now, id, answer, out);
        }
        let key = Key::from_u64(id.0);
        let Some(context) = self.contexts.get(key) else { return };
        match (&context.stage, answer) {
            (Stage::Locating { own_routes, instance }, Answer::Bindings(mut bindings)) => {
                let own_routes = *own_routes;
                match instance {
                    Some(instance) => bindings.retain(|binding| self.gruus.reaches(instance, binding)),
                    // Phones of an account that was disabled are not rung.
                    None if context.callee.is_none() => bindings.clear(),
                    None => {}
                }
                let is_for_account = instance.is_none();
                self.located(now, key, own_routes, bindings, is_for_account, out);
            }
            (Stage::Admitting { .. }, Answer::Admitted(admitted)) => {
                self.handle_admitted(now, key, admitted, out);
            }
            (Stage::Offering { .. }, Answer::Offered(offered)) => self.offered(now, key, offered, out),
            (Stage::Registering { .. }, Answer::Registered(result)) => {
                self.finish_register(now, key, result, out);
            }
            // An answer to a request that was cancelled meanwhile.
            _ => {}
        }
    }

    pub(super) fn ring_bindings(
        &mut self,
        now: Instant,
        key: Key,
        own_routes: usize,
        bindings: Vec<Binding>,
        out: &mut Outbox,
    ) {
        if bindings.is_empty() {
            return self.nobody_there(now, key, out);
        }
        self.fork(now, key, groups_by_q(bindings), own_routes, Search::Fork, out);
    }

    /// No binding: a MESSAGE is kept for later, a call is not.
    fn nobody_there(&mut self, now: Instant, key: Key, out: &mut Outbox) {
        let Some(context) = self.contexts.get(key) else { return };
        if context.request.method() == Method::Message {
            return match &context.callee {
                Some(_) => self.keep_message(now, key, out),
                // Only strangers get here: they were told what they are told of an account that is not there now.
                None => self.finish(now, key, 480, "Temporarily Unavailable", out),
            };
        }
        self.finish(now, key, 480, "Temporarily Unavailable", out);
    }

    /// Starts the proxy part: every target rings, first group first.
    pub(super) fn fork(
        &mut self,
        now: Instant,
        key: Key,
        groups: Vec<Vec<Destination>>,
        own_routes: usize,
        search: Search,
        out: &mut Outbox,
    ) {
        if groups.iter().all(Vec::is_empty) {
            return self.finish(now, key, 480, "Temporarily Unavailable", out);
        }
        let Some(context) = self.contexts.get(key) else { return };
        let method = context.request.method();
        if method == Method::Ack {
            let first = groups.into_iter().flatten().next();
            return self.finish_ack(now, key, first.as_ref(), out);
        }
        let Some(context) = self.contexts.get(key) else { return };
        let record_route = matches!(method, Method::Invite | Method::Subscribe | Method::Refer);
        let starts_call = method == Method::Invite && context.request.to_tag().is_none();
        if starts_call {
            let event = started(context);
            self.note_call(key, event, out);
        }
        let purpose = Purpose { own_routes, record_route, starts_call, within: None, search };
        self.begin_proxying(now, key, groups, purpose, out);
    }

    pub(super) fn set_stage(&mut self, key: Key, stage: Stage) {
        if let Some(context) = self.contexts.get_mut(key) {
            context.stage = stage;
        }
    }
}

/// The record could not be read; the request is answered 500 and may be tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreUnavailable;

/// An OPTIONS costs and tells no more than one of a stranger, and monitors have no password (RFC 3261 §11): only where
/// strangers are refused is its sender asked for one.
fn is_options_without_credentials(request: &Message) -> bool {
    request.method() == Method::Options
        && request.to_tag().is_none()
        && request.header(Header::ProxyAuthorization).is_none()
}

fn started(context: &Context) -> CallEventKind {
    let text = |bytes: Option<&[u8]>| String::from_utf8_lossy(bytes.unwrap_or_default()).into();
    let request = &context.request;
    CallEventKind::Started {
        call_id: text(request.call_id()),
        from_tag: text(request.from_tag()),
        from: text(request.from().map(|a| a.uri)),
        to: text(Some(request.uri())),
        caller: context.caller.as_ref().and_then(Caller::account),
        callee: context.callee.clone(),
        listed: ListedUnder::default(),
    }
}

fn destination_of_route(uri: &str) -> Destination {
    Destination { trusted: true, ..Destination::new(uri.as_bytes(), None) }
}

/// RFC 3261 §16.6: equal q in parallel, lower q after higher. One entry per instance (RFC 5626 §7): the
/// router already lists the newest flow of each first.
fn groups_by_q(bindings: Vec<Binding>) -> Vec<Vec<Destination>> {
    let mut groups: Vec<(u16, Vec<Destination>)> = Vec::new();
    for binding in bindings.into_iter().take(crate::limits::FORK_BRANCHES) {
        let contact = binding.contact;
        let destination = Destination {
            uri: contact.uri.into_boxed_bytes(),
            path: contact.path,
            received: contact.received,
            is_binding: true,
            trusted: false,
        };
        match groups.last_mut() {
            Some((q, group)) if *q == contact.q => group.push(destination),
            _ => groups.push((contact.q, vec![destination])),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

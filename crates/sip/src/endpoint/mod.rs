//! One shard's SIP: transport rules (RFC 3261 §18), transactions, the proxy, and the front of registrar and
//! event notifier. Inputs are `handle_*`; everything it causes is an [`Effect`].

mod agent;
mod allowance;
#[cfg(test)]
mod allowance_tests;
mod authenticate;
#[cfg(test)]
mod border_tests;
mod call_events;
mod chat;
mod counters;
mod dialog_route;
mod dispatch;
mod effect;
mod forward;
mod identity;
mod merged;
mod open_calls;
mod proof;
mod proxy_core;
mod receive;
mod register;
mod resolution;
mod respond;
mod route_token;
mod routing;
mod sessions;
mod settings;
#[cfg(test)]
mod tests;
mod trust;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use router::AskId;
use stdx::Instant;
use stdx::attempts::Attempts;
use stdx::cache::Cache;
use stdx::hash::{HashedKeys, Keyed};
use stdx::rate::Limiter;
use stdx::rng::Rng;
use stdx::slab::{Key, Slab};
use stdx::source::SourcePrefix;
use stdx::wheel::Wheel;

pub use allowance::CallLimits;
pub(crate) use call_events::refused;
pub use counters::Counters;
pub use dispatch::StoreUnavailable;
pub use effect::{
    Account, CallEvent, CallEventKind, Caller, Decision, Effect, ListedUnder, Outbox, PlanRequest,
    TraceEvent, Traced,
};
use open_calls::OpenCalls;
pub(crate) use proof::Credit;
use proof::Proofs;
use resolution::Resolving;
use sessions::OwnRequest;
pub use settings::{Listener, Settings};
pub use trust::{RouteCertificate, RoutePeer, RoutePeers, Trust};

use crate::digest::Authenticator;
use crate::dns::{DnsFault, DnsRecord};
use crate::events::{EventEffect, Notifier};
use crate::limits;
use crate::proxy::{ResponseContext, ResponseEdit};
use crate::registrar::gruu::{Gruus, Instance};
use crate::resolve::{ResolveEffect, Resolver};
use crate::session::{SessionId, Sessions};
use crate::transaction::Table;
use crate::transport::{FlowId, Source, TlsNames};
use crate::wire::Message;

/// The SIP of one shard. Sans IO: the caller owns sockets, clock, store and bus.
pub struct Endpoint {
    settings: Settings,
    /// Each listener's texts for Via and Record-Route, in the order of `settings.listeners`.
    texts: Vec<ListenerText>,
    keys: Keys,
    table: Table<User>,
    contexts: Slab<Context>,
    wheel: Wheel<Timer>,
    due: Vec<Timer>,
    resolver: Resolver,
    resolved: Vec<ResolveEffect>,
    /// By the resolution's number.
    resolutions: HashMap<u64, Resolving>,
    next_resolution: u64,
    /// Bytes of messages that wait for their resolution.
    waiting_bytes: usize,
    /// Peers that took a request by UDP and not by TCP.
    tcp_refusals: Cache<SocketAddr, ()>,
    authenticator: Authenticator,
    proofs: Proofs,
    open_calls: OpenCalls,
    attempts: Attempts,
    /// How many MESSAGEs of strangers were taken for an account without a phone, by source and account.
    messages_of_strangers: Limiter<(SourcePrefix, u64)>,
    gruus: Gruus,
    /// MESSAGEs that chat clients were offered, by account, Call-ID and CSeq.
    offered: Cache<u64, ()>,
    /// Dialogs of calls that were answered and have not ended.
    answered: Cache<u64, ()>,
    /// Server transactions of requests that we answer as a user agent, by From tag, Call-ID and CSeq.
    merging: Cache<u64, Key, HashedKeys>,
    notifier: Notifier,
    event_effects: Vec<EventEffect>,
    sessions: Sessions,
    /// Requests of sessions on their way.
    own: HashMap<u64, OwnRequest>,
    /// Names of the certificates that peers have shown, by their connections.
    certified: HashMap<FlowId, TlsNames>,
    counters: Counters,
    traced: Vec<Box<str>>,
    intake: Intake,
}

/// Whether new work is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intake {
    Open,
    /// The shard is behind: new requests get 503, requests within dialogs pass.
    Overloaded,
    /// The process is leaving: the same answer, for another reason.
    Draining,
}

/// Texts made once, copied into messages.
struct ListenerText {
    sent_protocol: Vec<u8>,
    uri: Vec<u8>,
}

/// Keyed hashes, one for each purpose, all from the one secret.
struct Keys {
    branch: Keyed,
    route: Keyed,
    call: Keyed,
}

/// A request for which we owe a final response.
#[derive(Debug)]
pub(crate) struct Context {
    /// Its server transaction.
    server: Key,
    request: Message,
    source: Source,
    caller: Option<Caller>,
    /// The limits of the account that is the caller, when it has any.
    limits: Option<Arc<CallLimits>>,
    /// Who has this call counted, though it has not begun: an account, and whether it is the caller.
    admitted: Vec<(router::Aor, bool)>,
    /// The account it is for, once known.
    callee: Option<router::Aor>,
    /// The one phone that its GRUU names, while the account is looked up.
    gruu: Option<Instance>,
    stage: Stage,
    /// The plan was asked without the domain that the sender claims.
    claim_withheld: bool,
    /// The earliest wheel entry that is outstanding for it.
    armed: Instant,
}

/// What the request waits for. One question is open at a time, so the context's key is the question's id.
#[derive(Debug)]
enum Stage {
    /// The account whose password the request claims to know.
    Authenticating { own_routes: usize },
    /// The routing plan. `own_routes` Route values are ours and come off.
    Planning { own_routes: usize },
    /// Whether the caller, or the callee, may have one more call.
    Admitting { own_routes: usize, side: allowance::Admitting },
    /// The account that the Request-URI names.
    Finding { own_routes: usize },
    /// The bindings of that account.
    Locating { own_routes: usize, instance: Option<Instance> },
    /// Chat clients have the word on a MESSAGE; these phones get it, too.
    Offering { own_routes: usize, bindings: Vec<router::Binding> },
    /// The router's word on a REGISTER.
    Registering { aor: router::Aor },
    /// Targets are tried.
    Proxying(Box<ResponseContext>),
    /// The event notifier's answer.
    Agent,
    /// An acknowledgement from the source's network, before an application gets the call.
    Waiting,
    /// The answer of a session's application, which has patience of its own.
    Session(SessionId),
}

/// Who hears what a transaction has to tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum User {
    Context(Key),
    /// A client transaction whose context is done: further 2xx go straight up (RFC 6026 §7.2).
    Late {
        server: Key,
        edit: ResponseEdit,
    },
    /// A request of our own, by the number its maker gave it.
    Probe(u64),
    Notifier(u64),
    Session(u64),
    Nobody,
}

impl User {
    /// Whether responses go on to somebody else.
    fn forwards(self) -> bool {
        matches!(self, User::Context(_) | User::Late { .. })
    }
}

#[derive(Clone, Copy, Debug)]
enum Timer {
    Transaction(Key),
    Context(Key),
}

impl Endpoint {
    pub fn new(settings: Settings, now: Instant) -> Self {
        let texts = settings.listeners.iter().map(ListenerText::new).collect();
        Endpoint {
            texts,
            keys: Keys::new(&settings.secret),
            table: Table::new(settings.table_seed),
            contexts: Slab::new(),
            wheel: Wheel::new(now),
            due: Vec::new(),
            resolver: Resolver::new(resolver_settings(&settings)),
            resolved: Vec::new(),
            resolutions: HashMap::new(),
            next_resolution: 0,
            waiting_bytes: 0,
            tcp_refusals: Cache::new(limits::TCP_REFUSALS),
            authenticator: Authenticator::new(settings.secret, settings.digest.clone(), now),
            proofs: Proofs::new(derived(&settings.secret, "tags shown"), settings.unproved_requests),
            open_calls: OpenCalls::default(),
            attempts: Attempts::new(derived(&settings.secret, "attempts"), &limits::WRONG_PASSWORDS),
            messages_of_strangers: Limiter::new(limits::MESSAGES_OF_STRANGER),
            gruus: Gruus::new(&settings.secret),
            offered: Cache::new(limits::OFFERED),
            answered: Cache::new(limits::ANSWERED_CALLS),
            merging: Cache::of_hashes(limits::MERGING),
            notifier: Notifier::new(settings.events.clone(), Rng::from_seed(notifier_seed(&settings)), now),
            event_effects: Vec::new(),
            sessions: Sessions::new(Rng::from_seed(session_seed(&settings)), now),
            own: HashMap::new(),
            certified: HashMap::new(),
            counters: Counters::default(),
            traced: Vec::new(),
            intake: Intake::Open,
            settings,
        }
    }

    /// Fires every timer that is due.
    pub fn expire(&mut self, now: Instant, out: &mut Outbox) {
        let mut due = std::mem::take(&mut self.due);
        self.wheel.expire(now, &mut due);
        for timer in due.drain(..) {
            match timer {
                Timer::Transaction(key) => self.handle_transaction_timer(now, key, out),
                Timer::Context(key) => self.handle_context_timer(now, key, out),
            }
        }
        self.due = due;
        self.expire_notifier(now, out);
        self.expire_sessions(now, out);
    }

    /// When to call [`expire`](Self::expire) at the latest.
    pub fn deadline(&self) -> Option<Instant> {
        [self.wheel.deadline(), self.notifier.deadline(), self.sessions.deadline()]
            .into_iter()
            .flatten()
            .min()
    }

    pub fn handle_dns(
        &mut self,
        now: Instant,
        id: u64,
        result: Result<Vec<DnsRecord>, DnsFault>,
        out: &mut Outbox,
    ) {
        let mut resolved = std::mem::take(&mut self.resolved);
        self.resolver.handle_answer(now, id, result, &mut resolved);
        self.perform_resolved(now, resolved, out);
    }

    pub fn set_intake(&mut self, intake: Intake) {
        self.intake = intake;
    }

    /// Messages of these accounts are copied out as [`Effect::Trace`].
    pub fn set_traced(&mut self, accounts: Vec<Box<str>>) {
        self.traced = accounts;
    }

    /// What a reload may change: domains, registrar rules, whether calls are authenticated.
    pub fn reload(&mut self, settings: Settings) {
        self.notifier.set_rules(settings.events.clone());
        if settings.unproved_requests != self.settings.unproved_requests {
            self.proofs.set_rate(settings.unproved_requests);
        }
        self.settings = Settings { listeners: std::mem::take(&mut self.settings.listeners), ..settings };
    }

    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Transactions and contexts that live now.
    pub fn load(&self) -> (usize, usize) {
        (self.table.len(), self.contexts.len())
    }

    fn ask_id(context: Key) -> AskId {
        AskId(context.to_u64())
    }
}

impl ListenerText {
    fn new(listener: &Listener) -> Self {
        ListenerText {
            sent_protocol: listener.sent_protocol().into_bytes(),
            uri: listener.uri().into_bytes(),
        }
    }
}

impl Keys {
    fn new(secret: &[u8; 32]) -> Self {
        let derive = |purpose: &str| derived(secret, purpose);
        Keys { branch: derive("branches"), route: derive("routes"), call: derive("calls") }
    }
}

fn derived(secret: &[u8; 32], purpose: &str) -> Keyed {
    Keyed::new(crate::keys::derive(secret, purpose))
}

/// Another than the notifier's: tags of both are looked up by themselves.
fn session_seed(settings: &Settings) -> [u8; 32] {
    let mut seed = notifier_seed(settings);
    seed[30] ^= 0xff;
    seed
}

/// Of this process and shard alone: its tags must not be those of another.
fn notifier_seed(settings: &Settings) -> [u8; 32] {
    let mut seed = settings.secret;
    for (byte, own) in seed.iter_mut().zip(settings.table_seed) {
        *byte ^= own;
    }
    seed[31] ^= settings.edge.shard.to_le_bytes()[0];
    seed
}

fn resolver_settings(settings: &Settings) -> crate::resolve::Settings {
    let mut transports = Vec::new();
    for listener in &settings.listeners {
        if !transports.contains(&listener.transport) {
            transports.push(listener.transport);
        }
    }
    crate::resolve::Settings {
        transports,
        ipv4: settings.listeners.iter().any(|l| l.addr.is_ipv4()),
        ipv6: settings.listeners.iter().any(|l| l.addr.is_ipv6()),
    }
}

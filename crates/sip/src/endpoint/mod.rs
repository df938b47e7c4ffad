//! One shard's SIP. The endpoint takes what arrives ([`receive`]) and passes it to its parts: transactions
//! ([`transactions`]), the choice of targets ([`request_router`]), the proxy core ([`proxy_core`]), the registrar's front
//! ([`registrar_front`]), the event notifier ([`event_front`]) and the user agent of applications ([`user_agent`]). Inputs are
//! `handle_*`; everything it causes is an [`EndpointEffect`].
//!
//! From below: `environment` is read by all and changed by no message; `transactions` has the table, its timers and the
//! proofs of UDP sources; `lower` has the requests that are owed a final response, resolutions, responses and call events. A
//! `LowerView` is these layers while one event is handled. Above them, beside each other and without knowledge of each
//! other, stand request router, proxy core, event front, user agent and probes.
//!
//! A wheel entry is never cancelled: a late one finds a state that ignores it. A transaction has at most one outstanding entry that
//! is early enough, and arms again when that fires early.

mod account_calls;
#[cfg(test)]
mod allowance_tests;
mod authentication;
#[cfg(test)]
mod border_tests;
mod context;
mod cores;
mod counters;
mod effect;
mod environment;
mod event_front;
mod ladders;
mod lower;
mod probe;
mod proxy_core;
mod receive;
mod registrar_front;
mod request_router;
mod settings;
mod shared_response;
mod takeover;
#[cfg(test)]
mod tests;
mod traced_account;
mod transactions;
mod user_agent;
mod waiting_requests;

use std::net::{IpAddr, SocketAddr};

use router::{Answer, AskId, Binding, Push, Received, WaitingMessage};
use stdx::Instant;
use stdx::attempts::{Attempts, Block, Subject};
use stdx::cache::Cache;
use stdx::hash::Keyed;
use stdx::rng::Rng;
use stdx::slab::{Key, Slab};
use stdx::wheel::Wheel;

pub use self::account_calls::AccountCalls;
use self::authentication::Authentication;
pub(crate) use self::context::{RequestContext, RequestStage, TransactionUser};
use self::cores::Cores;
pub use self::counters::Counters;
pub use self::effect::{
    Account, CallEvent, CallEventKind, Caller, Decision, EndpointEffect, EndpointOutbox, ListedUnder,
    PlanRequest, TraceEvent, Traced,
};
use self::environment::Environment;
pub use self::environment::trust::{RouteCertificate, RoutePeer, RoutePeers, Trust};
use self::event_front::EventFront;
pub use self::event_front::watch_again;
use self::ladders::CallLadders;
pub use self::ladders::{CallLadder, LadderCounts, LadderMessage, Passage, ladder_of, remember_calls};
use self::lower::{LowerLayers, ResolutionOwner, Resolutions, first_hop};
pub(crate) use self::lower::{refused, retry_after};
use self::proxy_core::ProxyCore;
use self::registrar_front::RegistrarFront;
use self::request_router::RequestRouter;
pub use self::request_router::{CallLimits, StoreUnavailable};
pub use self::settings::{EndpointSettings, Listener};
pub use self::shared_response::{
    ResponseHandling, SharedResponse, forget_off_slot, handle_packet_off_slot, handle_shared_response,
    has_ended, has_transaction, share_moved_calls,
};
pub use self::traced_account::TracedAccount;
pub(crate) use self::transactions::SourceCredit;
use self::transactions::{SourceProofs, Transactions};
use self::user_agent::UserAgent;
pub use self::user_agent::commands::SessionCommands;
pub use self::waiting_requests::take_waiting;
use crate::digest::Authenticator;
use crate::dns::{DnsFault, DnsRecord};
use crate::events::Notifier;
use crate::limits;
use crate::registrar::gruu::Gruus;
use crate::session::{SessionCounts, SessionId, SessionRules, Sessions};
use crate::transaction::TransactionTable;
use crate::transport::{FlowId, TlsNames};

/// The SIP of one shard. Sans IO: the caller owns sockets, clock, store and bus.
pub struct Endpoint {
    lower: LowerLayers,
    cores: Cores,
    intake: Intake,
    /// Empty between events.
    due: Vec<Key>,
}

/// The acceptance of new requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intake {
    /// New requests are accepted.
    Open,
    /// The shard is behind: new requests get 503, requests within dialogs pass.
    Overloaded,
    /// The process is leaving: the same answer, for another reason.
    Draining,
}

impl Endpoint {
    /// An endpoint without transactions.
    pub fn new(settings: EndpointSettings, now: Instant) -> Self {
        let secret = settings.secret;
        let proofs = SourceProofs::new(derived(&secret, "tags shown"), settings.unproved_requests);
        let attempts = Attempts::new(derived(&secret, "attempts"), &limits::WRONG_PASSWORDS);
        let authenticator = Authenticator::new(secret, settings.digest.clone(), now);
        let authentication = Authentication::new(authenticator, attempts);
        let notifier = Notifier::new(settings.events.clone(), Rng::from_seed(notifier_seed(&settings)), now);
        let sessions = Sessions::new(Rng::from_seed(session_seed(&settings)), now);
        let resolutions = Resolutions::new(resolver_settings(&settings));
        let table = TransactionTable::new(settings.table_seed);
        let ladders = CallLadders::new(derived(&secret, "call ladders"));
        let transactions = Transactions::new(table, proofs, ladders, now);
        Endpoint {
            lower: LowerLayers {
                env: Environment::new(settings),
                transactions,
                contexts: Slab::new(),
                context_timers: Wheel::new(now),
                resolutions,
                answered: Cache::of_hashes(limits::ANSWERED_CALLS),
                merging: Cache::of_hashes(limits::MERGING),
                settled: Cache::of_hashes(limits::SETTLED_BRANCHES),
                counters: Counters::default(),
                is_off_slot: false,
            },
            cores: Cores {
                router: RequestRouter::new(authentication, RegistrarFront::new(Gruus::new(&secret))),
                events: EventFront::new(notifier),
                user_agent: UserAgent::new(sessions),
            },
            intake: Intake::Open,
            due: Vec::new(),
        }
    }

    /// Fires every timer that is due.
    pub fn expire(&mut self, now: Instant, out: &mut EndpointOutbox) {
        let mut due = std::mem::take(&mut self.due);
        self.lower.transactions.expire(now, &mut due);
        for key in due.drain(..) {
            self.handle_transaction_timer(now, key, out);
        }
        self.lower.context_timers.expire(now, &mut due);
        for key in due.drain(..) {
            self.cores.handle_context_timer(&mut self.lower.at(now, out), key);
        }
        self.due = due;
        self.cores.events.expire_notifier(&mut self.lower.at(now, out));
        self.cores.user_agent.expire_sessions(&mut self.lower.at(now, out));
    }

    /// When to call [`expire`](Self::expire) at the latest.
    pub fn deadline(&self) -> Option<Instant> {
        let lower = [self.lower.transactions.deadline(), self.lower.context_timers.deadline()];
        let upper = [self.cores.events.notifier.deadline(), self.cores.user_agent.sessions.deadline()];
        lower.into_iter().chain(upper).flatten().min()
    }

    /// The answer to an [`EndpointEffect::Dns`].
    pub fn handle_dns(
        &mut self,
        now: Instant,
        id: u64,
        result: Result<Vec<DnsRecord>, DnsFault>,
        out: &mut EndpointOutbox,
    ) {
        let mut finished = Vec::new();
        self.lower.resolutions.handle_dns(now, id, result, &mut finished, out);
        let lower = &mut self.lower.at(now, out);
        for (owner, result) in finished {
            match owner {
                ResolutionOwner::Branch(key, index) => {
                    ProxyCore::new(lower).handle_resolved(key, index, result);
                }
                ResolutionOwner::Own(id) => self.cores.user_agent.handle_own_resolved(lower, id, result),
                ResolutionOwner::Waiting(waiting) => match *waiting {
                    lower::UnresolvedMessage::Ack(ack) => {
                        ProxyCore::new(lower).transmit_resolved_ack(&ack, first_hop(result));
                    }
                    lower::UnresolvedMessage::SessionAck { ack, onward } => {
                        user_agent::transmit_resolved_ack(lower, &ack, &onward, first_hop(result));
                    }
                    lower::UnresolvedMessage::Probe { id, target } => {
                        probe::send_probe(lower, id, &target, first_hop(result));
                    }
                    lower::UnresolvedMessage::Notifier { id, request, onward } => {
                        self.cores.events.send_notifiers_request(
                            lower,
                            id,
                            request,
                            &onward,
                            first_hop(result),
                        );
                    }
                },
            }
        }
    }

    /// The routing plan's answer to an [`EndpointEffect::Plan`].
    pub fn handle_plan(&mut self, now: Instant, id: AskId, decision: Decision, out: &mut EndpointOutbox) {
        self.cores.router.handle_plan(&mut self.lower.at(now, out), id, decision);
        self.cores.hand_over(&mut self.lower.at(now, out));
    }

    /// The store's answer to an [`EndpointEffect::Account`].
    pub fn handle_account(
        &mut self,
        now: Instant,
        id: AskId,
        account: Result<Option<Account>, StoreUnavailable>,
        out: &mut EndpointOutbox,
    ) {
        self.cores.router.handle_account(&mut self.lower.at(now, out), id, account);
        self.cores.hand_over(&mut self.lower.at(now, out));
    }

    /// The router's answer to an [`EndpointEffect::Ask`].
    pub fn handle_answer(&mut self, now: Instant, id: AskId, answer: Answer, out: &mut EndpointOutbox) {
        let lower = &mut self.lower.at(now, out);
        if id.0 & crate::events::ASK_BIT != 0 {
            return self.cores.events.handle_agent_answer(lower, id, answer);
        }
        self.cores.router.handle_answer(lower, id, answer);
        self.cores.hand_over(&mut self.lower.at(now, out));
    }

    /// A change that the router sends unasked.
    pub fn handle_push(&mut self, now: Instant, push: Push, out: &mut EndpointOutbox) {
        self.cores.events.handle_push(&mut self.lower.at(now, out), push);
    }

    /// Every subscription ends: its watcher shall subscribe elsewhere.
    pub fn end_subscriptions(&mut self, now: Instant, out: &mut EndpointOutbox) {
        self.cores.events.end_subscriptions(&mut self.lower.at(now, out));
    }

    /// A text of a chat client for the phones of an account. [`EndpointEffect::TextOutcome`] has its result.
    pub fn text(
        &mut self,
        now: Instant,
        id: u64,
        bindings: &[Binding],
        words: &WaitingMessage,
        out: &mut EndpointOutbox,
    ) {
        self.cores.events.text(&mut self.lower.at(now, out), id, bindings, words);
    }

    /// Sends an OPTIONS to a route's target; [`EndpointEffect::ProbeOutcome`] has its result.
    pub fn probe(&mut self, now: Instant, id: u64, target: &str, out: &mut EndpointOutbox) {
        probe::probe(&mut self.lower.at(now, out), id, target);
    }

    /// The commands of applications for their sessions.
    pub fn sessions<'a>(&'a mut self, now: Instant, out: &'a mut EndpointOutbox) -> SessionCommands<'a> {
        SessionCommands { user_agent: &mut self.cores.user_agent, lower: self.lower.at(now, out) }
    }

    /// Replaces the rules for session timers and calls of applications.
    pub fn set_session_rules(&mut self, rules: SessionRules) {
        self.cores.user_agent.sessions.set_rules(rules);
    }

    /// The address that answered the session's last request of ours: the signalling's own.
    pub fn peer_of(&self, session: SessionId) -> Option<IpAddr> {
        self.cores.user_agent.sessions.peer_of(session)
    }

    /// The sessions and their requests now; all zero at rest.
    pub fn session_counts(&self) -> SessionCounts {
        self.cores.user_agent.counts()
    }

    /// Where this endpoint reaches itself.
    pub fn own_address(&self) -> Option<Received> {
        self.lower.env.listeners.own_address()
    }

    /// The address is known by other means to receive what is sent to it.
    pub fn trust_source(&mut self, now: Instant, address: SocketAddr) {
        self.lower.transactions.proofs.prove(now, address);
    }

    /// A peer has shown a certificate of these names on a connection, and it was verified. It counts until
    /// [`forget_certificate`](Self::forget_certificate).
    pub fn note_certificate(&mut self, flow: FlowId, names: TlsNames) {
        self.lower.env.certified.insert(flow, names);
    }

    /// The connection is closed.
    pub fn forget_certificate(&mut self, flow: FlowId) {
        self.lower.env.certified.remove(&flow);
    }

    /// Sources and accounts whose attempts are paced.
    pub fn blocks(&self, now: Instant) -> Vec<Block> {
        self.cores.router.authentication.blocks(now)
    }

    /// Forgets the failures of a source or for an account. The blocks that were in force.
    pub fn lift_block(&mut self, now: Instant, subject: &Subject) -> usize {
        self.cores.router.authentication.lift_block(now, subject)
    }

    /// A call that an application places meets a limit of a route.
    pub fn count_refused_call(&mut self, is_denied: bool) {
        if is_denied {
            self.lower.counters.refused_destinations += 1;
        } else {
            self.lower.counters.refused_by_limit += 1;
        }
    }

    /// Sets the acceptance of new requests.
    pub fn set_intake(&mut self, intake: Intake) {
        self.intake = intake;
    }

    /// Messages of these accounts are copied out as [`EndpointEffect::Trace`].
    pub fn set_traced(&mut self, accounts: Vec<TracedAccount>) {
        self.lower.transactions.traced = accounts;
    }

    /// Takes the settings that a reload may change: domains, registrar rules, whether calls are authenticated.
    pub fn reload(&mut self, settings: EndpointSettings) {
        self.cores.events.notifier.set_rules(settings.events.clone());
        if settings.unproved_requests != self.lower.env.settings.unproved_requests {
            self.lower.transactions.proofs.set_rate(settings.unproved_requests);
        }
        self.lower.env.reload(settings);
    }

    /// The counters so far.
    pub fn counters(&self) -> Counters {
        let unproved_withheld = self.lower.transactions.withheld();
        Counters { unproved_withheld, ..self.lower.counters.clone() }
    }

    /// Transactions and contexts that live now.
    pub fn load(&self) -> (usize, usize) {
        (self.lower.transactions.table.len(), self.lower.contexts.len())
    }
}

fn derived(secret: &[u8; 32], purpose: &str) -> Keyed {
    Keyed::new(crate::keys::derive(secret, purpose))
}

/// A seed that differs from the notifier's: tags of both are looked up by themselves.
fn session_seed(settings: &EndpointSettings) -> [u8; 32] {
    let mut seed = notifier_seed(settings);
    seed[30] ^= 0xff;
    seed
}

/// The seed of this process and shard alone: its tags must not be those of another.
fn notifier_seed(settings: &EndpointSettings) -> [u8; 32] {
    let mut seed = settings.secret;
    for (byte, own) in seed.iter_mut().zip(settings.table_seed) {
        *byte ^= own;
    }
    seed[31] ^= settings.edge.shard.to_le_bytes()[0];
    seed
}

fn resolver_settings(settings: &EndpointSettings) -> crate::resolve::ResolverSettings {
    let mut transports = Vec::new();
    for listener in &settings.listeners {
        if !transports.contains(&listener.transport) {
            transports.push(listener.transport);
        }
    }
    crate::resolve::ResolverSettings {
        transports,
        ipv4: settings.listeners.iter().any(|l| l.addr.is_ipv4()),
        ipv6: settings.listeners.iter().any(|l| l.addr.is_ipv6()),
    }
}

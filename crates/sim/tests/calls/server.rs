//! A whole shard without sockets: the real endpoint and the real router, and a plan, accounts and DNS that the
//! test writes down.

use std::collections::HashMap;
use std::net::SocketAddr;

use bytes::Bytes;
use call::{CallRecord, EndedBy, Ledger, LedgerSettings};
use router::{AskId, FlowId, Life, Router, RouterSettings, ShardAddress, WaitingMessage};
use sim::{Datagram, Node};
use sip::digest::Ha1s;
use sip::dns::{DnsData, DnsFault, DnsQuery, DnsRecord};
use sip::endpoint::{
    Account, AccountCalls, CallEventKind, Decision, Endpoint, EndpointEffect, EndpointOutbox,
    EndpointSettings, Listener, PlanRequest, SharedResponse, TraceEvent, handle_packet_off_slot,
};
use sip::events::{EventRules, WatchPolicy};
use sip::session::SessionEvent;
use sip::transport::{Packet, Source, Transmit, Transport};
use stdx::Instant;

use super::address;

pub(crate) const DOMAIN: &str = "example.test";
const EDGE: ShardAddress = ShardAddress { life: Life(1), shard: 0 };

type Plan = Box<dyn Fn(&PlanRequest) -> Decision>;
/// An application's handler of its sessions' events.
type App = Box<dyn FnMut(Instant, &SessionEvent, &mut Endpoint, &mut EndpointOutbox)>;

pub struct Server {
    pub endpoint: Endpoint,
    pub router: Router,
    plan: Plan,
    accounts: HashMap<String, Account>,
    dns: HashMap<DnsQuery, Vec<DnsRecord>>,
    /// Targets to which sending fails at once.
    pub unreachable: Vec<(Transport, SocketAddr)>,
    pub calls: Vec<CallEventKind>,
    account_calls: AccountCalls,
    pub ledger: Ledger,
    pub records: Vec<CallRecord>,
    pub events: Vec<SessionEvent>,
    app: Option<App>,
    /// Questions to the store wait for `catch_up`.
    pub is_slow: bool,
    /// Questions to DNS do.
    pub is_dns_slow: bool,
    pub traces: Vec<TraceEvent>,
    pub probed: Vec<u16>,
    /// Responses that other nodes have not got yet.
    pub shared: Vec<SharedResponse>,
    /// Messages for connections that other nodes hold.
    pub for_other_nodes: Vec<Transmit>,
    /// The next packet is for a worker at another node that cannot be reached.
    pub is_off_slot: bool,
    edge: ShardAddress,
    asked: EndpointOutbox,
    listeners: Vec<Listener>,
    store: Vec<WaitingMessage>,
    /// Peers of connections; a flow's number is its place.
    flows: Vec<SocketAddr>,
}

/// UDP at `10.0.0.<host>:5060` and TCP at port 5062 there.
pub(crate) fn settings(host: u8) -> EndpointSettings {
    EndpointSettings {
        listeners: vec![
            Listener::new(Transport::Udp, address(host)),
            Listener::new(Transport::Tcp, SocketAddr::new(address(host).ip(), 5062)),
        ],
        domains: vec![DOMAIN.into()],
        secret: [host; 32],
        table_seed: [3; 16],
        events: EventRules { watching: WatchPolicy::Accounts, ..EventRules::default() },
        ..sim::settings(EDGE, &[])
    }
}

impl Server {
    pub fn new(settings: EndpointSettings, plan: impl Fn(&PlanRequest) -> Decision + 'static) -> Self {
        let start = Instant::from_unix_seconds(1_800_000_000);
        Server {
            listeners: settings.listeners.clone(),
            edge: settings.edge,
            endpoint: Endpoint::new(settings, start),
            router: Router::new(RouterSettings::default(), [4; 16], start),
            plan: Box::new(plan),
            accounts: HashMap::new(),
            dns: HashMap::new(),
            unreachable: Vec::new(),
            calls: Vec::new(),
            account_calls: AccountCalls::new(1_000),
            ledger: Ledger::new(LedgerSettings::default(), start),
            records: Vec::new(),
            events: Vec::new(),
            app: None,
            is_slow: false,
            is_dns_slow: false,
            traces: Vec::new(),
            probed: Vec::new(),
            shared: Vec::new(),
            for_other_nodes: Vec::new(),
            is_off_slot: false,
            asked: Vec::new(),
            store: Vec::new(),
            flows: Vec::new(),
        }
    }

    /// As after a call that was acknowledged: what is sent to the other hosts is not held back.
    pub fn trusting_its_peers(mut self, now: Instant) -> Self {
        (1..=9).for_each(|host| self.endpoint.trust_source(now, address(host)));
        self
    }

    pub fn with_account(mut self, user: &str, disabled: bool) -> Self {
        let ha1s = Ha1s::compute(user, DOMAIN, "secret");
        let aor = format!("{user}@{DOMAIN}");
        let account = Account { aor: aor.clone().into(), ha1s, disabled, max_contacts: 10, limits: None };
        self.accounts.insert(aor, account);
        self
    }

    pub fn with_dns(mut self, query: DnsQuery, data: Vec<DnsData>) -> Self {
        self.dns.insert(query, data.into_iter().map(|data| DnsRecord { ttl: 300, data }).collect());
        self
    }

    pub fn with_app(
        mut self,
        app: impl FnMut(Instant, &SessionEvent, &mut Endpoint, &mut EndpointOutbox) + 'static,
    ) -> Self {
        self.app = Some(Box::new(app));
        self
    }

    /// The application does something of its own accord.
    pub fn command<R>(
        &mut self,
        now: Instant,
        out: &mut Vec<Datagram>,
        act: impl FnOnce(&mut Endpoint, &mut EndpointOutbox) -> R,
    ) -> R {
        let mut effects = Vec::new();
        let result = act(&mut self.endpoint, &mut effects);
        self.settle(now, effects, out);
        result
    }

    /// The store and DNS answer all they were asked.
    pub fn catch_up(&mut self, now: Instant, out: &mut Vec<Datagram>) {
        (self.is_slow, self.is_dns_slow) = (false, false);
        let asked = std::mem::take(&mut self.asked);
        self.settle(now, asked, out);
    }

    fn settle(&mut self, now: Instant, mut effects: EndpointOutbox, out: &mut Vec<Datagram>) {
        while !effects.is_empty() {
            for effect in std::mem::take(&mut effects) {
                self.perform(now, effect, &mut effects, out);
            }
        }
    }

    fn perform(
        &mut self,
        now: Instant,
        effect: EndpointEffect,
        more: &mut EndpointOutbox,
        out: &mut Vec<Datagram>,
    ) {
        match effect {
            EndpointEffect::Transmit(transmit) => self.transmit(now, transmit, more, out),
            EndpointEffect::Account { .. } if self.is_slow => self.asked.push(effect),
            EndpointEffect::Account { id, user, domain } => {
                let account = self.accounts.get(&format!("{user}@{domain}")).cloned();
                self.endpoint.handle_account(now, id, Ok(account), more);
            }
            EndpointEffect::Plan { id, request } => {
                let decision = (self.plan)(&request);
                self.endpoint.handle_plan(now, id, decision, more);
            }
            EndpointEffect::Ask { id, query } => {
                let mut effects = Vec::new();
                self.router.handle_query(now, EDGE, id, query, &mut effects);
                self.settle_router(now, effects, more);
            }
            EndpointEffect::Dns { .. } if self.is_dns_slow => self.asked.push(effect),
            EndpointEffect::Dns { id, query } => {
                let answer = self.dns.get(&query).cloned().ok_or(DnsFault::NoName);
                self.endpoint.handle_dns(now, id, answer, more);
            }
            EndpointEffect::ShareResponse(shared) => self.shared.push(shared),
            EndpointEffect::Call(event) => {
                let kind = for_ledger(event.kind.clone());
                let ledgers = call::CallEvent { key: event.call, leg: event.leg, kind };
                self.ledger.handle_event(now, ledgers, &mut self.records);
                for query in self.account_calls.handle_event(now, &event, |_| None) {
                    let mut effects = Vec::new();
                    self.router.handle_query(now, EDGE, AskId(0), query, &mut effects);
                    self.settle_router(now, effects, more);
                }
                self.calls.push(event.kind);
            }
            EndpointEffect::Session(event) => {
                if let Some(app) = &mut self.app {
                    app(now, &event, &mut self.endpoint, more);
                }
                self.events.push(event);
            }
            EndpointEffect::Trace(trace) => self.traces.push(trace),
            EndpointEffect::ProbeOutcome { status, .. } => self.probed.push(status),
            EndpointEffect::TextOutcome { .. } | EndpointEffect::AuthenticationFailed { .. } => {}
        }
    }

    fn settle_router(&mut self, now: Instant, effects: Vec<router::Effect>, out: &mut EndpointOutbox) {
        for effect in effects {
            let mut more = Vec::new();
            match effect {
                router::Effect::Answer { id, answer, .. } => {
                    self.endpoint.handle_answer(now, id, answer, out);
                }
                router::Effect::Push { push, .. } => self.endpoint.handle_push(now, push, out),
                router::Effect::WriteBinding { ticket, .. } => {
                    self.router.handle_written(now, ticket, Ok(1), &mut more);
                }
                router::Effect::ForgetBinding { .. } => {}
                router::Effect::KeepMessage { ticket, mut message } => {
                    message.id = 1 + self.store.last().map_or(0, |last| last.id);
                    self.store.push(*message);
                    self.router.handle_written(now, ticket, Ok(1), &mut more);
                }
                // This server has no chat.
                router::Effect::Presence { .. } => {}
                router::Effect::ForgetMessage { id, .. } => self.store.retain(|message| message.id != id),
                router::Effect::LoadKept { aor } => {
                    self.router.handle_kept(now, &aor, Ok(self.store.clone()), &mut more);
                }
            }
            self.settle_router(now, more, out);
        }
    }

    fn transmit(
        &mut self,
        now: Instant,
        transmit: Transmit,
        more: &mut EndpointOutbox,
        out: &mut Vec<Datagram>,
    ) {
        if transmit.target.flow.is_some_and(|flow| flow.edge != self.edge) {
            return self.for_other_nodes.push(transmit);
        }
        let target = transmit.target;
        let remote = match target.flow {
            Some(flow) => self.flows[usize::try_from(flow.number).unwrap()],
            None => target.remote,
        };
        if self.unreachable.contains(&(target.transport, remote)) {
            if let Some(report) = transmit.report {
                self.endpoint.handle_send_failed(now, report, more);
            }
            return;
        }
        assert!(
            target.transport != Transport::Udp || transmit.bytes.len() < 1_500 || target.flow.is_none(),
            "a datagram too long"
        );
        out.push((target.local.unwrap(), remote, transmit.bytes));
    }

    /// Another node sends on a connection that this one holds.
    pub fn transmit_for_other_node(&mut self, now: Instant, transmit: Transmit, out: &mut Vec<Datagram>) {
        let mut effects = Vec::new();
        self.transmit(now, transmit, &mut effects, out);
        self.settle(now, effects, out);
    }

    /// A packet that came to this node or to another one of its farm.
    pub fn handle_packet(&mut self, now: Instant, packet: Packet, out: &mut Vec<Datagram>) {
        let mut effects = Vec::new();
        match self.is_off_slot {
            true => handle_packet_off_slot(&mut self.endpoint, now, packet, &mut effects),
            false => self.endpoint.handle_packet(now, packet, &mut effects),
        }
        self.settle(now, effects, out);
    }

    pub fn source(&mut self, from: SocketAddr, to: SocketAddr) -> Source {
        let listener = self.listeners.iter().find(|listener| listener.addr == to).unwrap();
        let flow = (listener.transport != Transport::Udp).then(|| {
            let known = self.flows.iter().position(|peer| *peer == from).unwrap_or_else(|| {
                self.flows.push(from);
                self.flows.len() - 1
            });
            FlowId { edge: self.edge, number: known as u64 }
        });
        Source { transport: listener.transport, local: to, remote: from, flow }
    }
}

/// The same event in the ledger's words.
fn for_ledger(kind: CallEventKind) -> call::CallEventKind {
    match kind {
        CallEventKind::Started { call_id, from, to, .. } => {
            call::CallEventKind::Started { call_id, from, to, account: None, callee: None }
        }
        CallEventKind::Refused { call_id, from, to, caller, callee, status: code, reason } => {
            let account = caller;
            call::CallEventKind::Refused { call_id, from, to, account, callee, code, reason }
        }
        CallEventKind::Ringing { .. } => call::CallEventKind::Ringing,
        CallEventKind::Answered { .. } => call::CallEventKind::Answered,
        CallEventKind::Failed { status: code, reason } => call::CallEventKind::Failed { code, reason },
        CallEventKind::Withdrawn => call::CallEventKind::Withdrawn,
        CallEventKind::TakenOver { call_id, from, to, start, answer } => {
            call::CallEventKind::TakenOver { call_id, from, to, start, answer }
        }
        CallEventKind::Ended => call::CallEventKind::Ended { by: EndedBy::Caller, reason: "BYE".into() },
    }
}

impl Node for Server {
    fn handle(
        &mut self,
        now: Instant,
        from: SocketAddr,
        to: SocketAddr,
        bytes: &[u8],
        out: &mut Vec<Datagram>,
    ) {
        let packet = Packet { bytes: Bytes::copy_from_slice(bytes), source: self.source(from, to) };
        self.handle_packet(now, packet, out);
    }

    fn wake(&mut self, now: Instant, out: &mut Vec<Datagram>) {
        let (mut effects, mut routed) = (Vec::new(), Vec::new());
        self.endpoint.expire(now, &mut effects);
        self.router.expire(now, &mut routed);
        self.settle_router(now, routed, &mut effects);
        self.settle(now, effects, out);
    }

    fn deadline(&self) -> Option<Instant> {
        [self.endpoint.deadline(), self.router.deadline()].into_iter().flatten().min()
    }
}

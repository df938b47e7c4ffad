//! Performs the effects of the cores: by the sockets, the store, the bus, or another core of this shard.

use std::sync::{Arc, LazyLock};

use ::voice::CallerStanding;
use cluster::Bucket;
use router::{AskId, Push, Query, ShardAddress};
use sip::endpoint::{
    Account, CallEvent, CallLimits, Decision, EndpointEffect, PlanRequest, StoreUnavailable,
};
use sip::transport::Transmit;
use stdx::Instant;
use stdx::attempts::account_name;
use store::{Loaded, Read, StoreError, Ticket, Write, WriteDone};

use super::request_origin::RequestOrigin;
use super::{Shard, calls, farm, planning};
use crate::message::ShardMessage;
use crate::sign_in_failures::{Failure, Service};

/// Tickets for reads of the store; the router numbers its writes itself, in another table.
impl Shard {
    /// Performs effects until none are left: an answer at hand is given at once and may ask more.
    pub(super) fn settle(&mut self, now: Instant) {
        loop {
            let mut effects = std::mem::take(&mut self.scratch.effects);
            let mut router_effects = std::mem::take(&mut self.scratch.router_effects);
            let mut health_effects = std::mem::take(&mut self.scratch.health_effects);
            if effects.is_empty() && router_effects.is_empty() && health_effects.is_empty() {
                break;
            }
            for effect in effects.drain(..) {
                self.perform(now, effect);
            }
            for effect in router_effects.drain(..) {
                self.perform_router(now, effect);
            }
            for effect in health_effects.drain(..) {
                self.perform_health(now, effect);
            }
            give_back(&mut self.scratch.effects, effects);
            give_back(&mut self.scratch.router_effects, router_effects);
            give_back(&mut self.scratch.health_effects, health_effects);
        }
        self.write_records();
    }

    fn perform(&mut self, now: Instant, effect: EndpointEffect) {
        match effect {
            EndpointEffect::Transmit(transmit) => self.transmit(now, transmit),
            EndpointEffect::Account { id, user, domain } => self.find_account(now, id, user, domain),
            EndpointEffect::Plan { id, request } => self.plan(now, id, &request),
            EndpointEffect::Ask { id, query } => self.ask(now, id, query),
            EndpointEffect::Dns { id, query } => self.io.lookup(id, &query),
            EndpointEffect::Call(event) => self.note_call(now, event),
            // The reader may have gone; the shard is told so a moment later.
            EndpointEffect::Trace(event) => drop(self.parts.traces.send(std::sync::Arc::new(event))),
            EndpointEffect::Session(event) => self.session_event(now, event),
            EndpointEffect::TextOutcome { id, texted } => self.texted(now, id, Some(texted)),
            EndpointEffect::ProbeOutcome { id, status } => self.handle_probed(id, status),
            EndpointEffect::AuthenticationFailed { source, user, domain, cause } => {
                let transport = sip::transport::via_token(source.transport).to_ascii_lowercase();
                let (service, account) = (Service::Sip, account_name(&user, &domain));
                let (address, transport) = (source.remote.ip(), &*transport);
                self.parts
                    .failures
                    .note(now, &Failure { service, transport, address, account: &account, cause });
            }
        }
    }

    fn transmit(&mut self, now: Instant, transmit: Transmit) {
        match transmit.target.flow {
            // Another shard holds the connection.
            Some(flow) if flow.edge != self.parts.edge => {
                if self.parts.map.has(flow.edge) {
                    let message = ShardMessage::Transmit { transmit, from: self.parts.edge };
                    self.post[usize::from(flow.edge.shard)].push(message.into());
                } else if farm::is_at_other_node(self, flow.edge) {
                    farm::transmit_at_node(self, now, flow.edge, &transmit);
                } else if let Some(report) = transmit.report {
                    // The connection ended with the life of the process that held it.
                    self.parts.endpoint.handle_send_failed(now, report, &mut self.scratch.effects);
                }
            }
            _ => self.io.send(transmit),
        }
    }

    fn plan(&mut self, now: Instant, id: AskId, request: &PlanRequest) {
        let random = stdx::hash::Keyed::new(*b"weights of plans").hash(&id.0.to_le_bytes());
        let parts = &self.parts;
        let caller = CallerStanding {
            is_proof_required: parts.proof == planning::CallerProof::Required,
            is_trunk: &|| planning::trunk_of(&parts.plan, request).is_some(),
        };
        let decision: Decision = parts
            .voice
            .as_ref()
            .and_then(|voice| voice.calls.decide(&parts.plan, request, caller))
            .unwrap_or_else(|| planning::decide(now, &parts.plan, request, parts.proof, random, &self.down));
        self.parts.endpoint.handle_plan(now, id, decision, &mut self.scratch.effects);
    }

    pub(super) fn ask(&mut self, now: Instant, id: AskId, query: Query) {
        let owner = self.parts.map.owner(Bucket::of(query.aor()));
        let from = self.parts.edge;
        if owner == from {
            self.query(now, from, id, query);
        } else {
            self.post[usize::from(owner.shard)].push(ShardMessage::Ask { from, id, query }.into());
        }
    }

    pub(super) fn find_account(&mut self, now: Instant, id: AskId, user: Box<str>, domain: Box<str>) {
        let address = format!("{user}@{domain}");
        if let Some(known) = self.accounts.get(now, &address) {
            if let RequestOrigin::Xmpp(ask) = RequestOrigin::of(id.0) {
                let known = known.clone();
                return self.xmpp_account(now, ask, Some(&known));
            }
            let account = known.as_deref().map(|found| self.parts.account(found));
            return self.account_found(now, id, Ok(account));
        }
        self.last_ticket += 1;
        let ticket = self.last_ticket;
        if !self.accounts.wait(&address, id, ticket) {
            return;
        }
        let to = Ticket { sink: self.parts.edge.shard, id: ticket };
        if self.parts.store.read(Read::Account { user, domain }, to).is_err() {
            self.give_account(now, ticket, None);
        }
    }

    /// Ends the wait for an account; `None` when it could not be read.
    fn give_account(&mut self, now: Instant, ticket: u64, known: Option<&super::accounts::CachedAccount>) {
        let account = known.map(|known| known.as_deref().map(|found| self.parts.account(found)));
        let Some(waiting) = self.accounts.loaded(now, ticket, known.cloned()) else { return };
        for id in waiting {
            if let RequestOrigin::Xmpp(ask) = RequestOrigin::of(id.0) {
                self.xmpp_account(now, ask, known);
                continue;
            }
            let result = account.clone().ok_or(StoreUnavailable);
            self.account_found(now, id, result);
        }
    }

    pub(super) fn handle_loaded(&mut self, now: Instant, done: Vec<(u64, Result<Loaded, StoreError>)>) {
        for (ticket, result) in done {
            if let RequestOrigin::Xmpp(ask) = RequestOrigin::of(ticket) {
                self.xmpp_loaded(now, ask, result);
                continue;
            }
            if let Some(aor) = self.kept_reads.remove(&ticket) {
                let messages = match result {
                    Ok(Loaded::KeptMessages(messages)) => messages.into_iter().map(kept_for_router).collect(),
                    _ => Vec::new(),
                };
                self.parts.router.handle_kept(now, &aor, messages, &mut self.scratch.router_effects);
                continue;
            }
            match result {
                Ok(Loaded::Account(account)) => self.give_account(now, ticket, Some(&account)),
                Ok(_) => {}
                Err(error) => {
                    tracing::error!(%error, "an account could not be read");
                    self.give_account(now, ticket, None);
                }
            }
        }
    }

    pub(super) fn handle_written(&mut self, now: Instant, done: Vec<(u64, Result<WriteDone, StoreError>)>) {
        for (ticket, result) in done {
            if let RequestOrigin::Xmpp(ask) = RequestOrigin::of(ticket) {
                self.xmpp_written(now, ask, result);
                continue;
            }
            let result = result.map(|done| row_of(&done)).map_err(|_| router::WriteFailed);
            self.parts.router.handle_written(now, ticket, result, &mut self.scratch.router_effects);
        }
    }

    fn perform_router(&mut self, now: Instant, effect: router::Effect) {
        match effect {
            router::Effect::Answer { to, id, answer } if to == self.parts.edge => {
                self.give_answer(now, id, answer);
            }
            router::Effect::Answer { to, id, answer } => {
                self.send_answer(now, to, ShardMessage::Answer { id, answer });
            }
            router::Effect::Push { to, push } if to == self.parts.edge => {
                self.push(now, push);
            }
            router::Effect::Push { to, push } => self.send_answer(now, to, ShardMessage::Push(push)),
            router::Effect::WriteBinding { ticket, row } => {
                self.write(now, ticket, Write::Binding(binding_for_store(now, row)));
            }
            router::Effect::ForgetBinding { row } => {
                // Refused when the store is far behind: the row is then deleted by its age.
                let _ = self.parts.store.write(Write::ForgetBindings { rows: [row].into() }, None);
            }
            router::Effect::KeepMessage { ticket, message } => {
                self.write(now, ticket, Write::Keep(Box::new(kept_for_store(*message))));
            }
            router::Effect::ForgetMessage { aor, id } => {
                // Refused when the store is far behind: the message is then delivered once more, not lost.
                let _ = self.parts.store.write(Write::ForgetMessage { aor, id }, None);
            }
            router::Effect::Presence { aor, presence } => self.phones_changed(now, &aor, &presence),
            router::Effect::LoadKept { aor } => self.load_kept(now, aor),
        }
    }

    pub(super) fn push(&mut self, now: Instant, push: Push) {
        self.parts.endpoint.handle_push(now, push, &mut self.scratch.effects);
    }

    fn send_answer(&mut self, now: Instant, to: ShardAddress, message: ShardMessage) {
        // A shard of a life that is over waits for nothing.
        if self.parts.map.has(to) {
            self.parts.outlets[usize::from(to.shard)].answer_all(&mut vec![message.into()]);
        } else if farm::is_at_other_node(self, to) {
            farm::answer_at_node(self, now, to, &message);
        }
    }

    fn write(&mut self, now: Instant, ticket: u64, write: Write) {
        let to = Ticket { sink: self.parts.edge.shard, id: ticket };
        if self.parts.store.write(write, to).is_err() {
            let failed = Err(router::WriteFailed);
            self.parts.router.handle_written(now, ticket, failed, &mut self.scratch.router_effects);
        }
    }

    fn load_kept(&mut self, now: Instant, aor: Box<str>) {
        self.last_ticket += 1;
        let to = Ticket { sink: self.parts.edge.shard, id: self.last_ticket };
        if self.parts.store.read(Read::KeptMessages { aor: aor.clone() }, to).is_ok() {
            self.kept_reads.insert(self.last_ticket, aor);
        } else {
            self.parts.router.handle_kept(now, &aor, Vec::new(), &mut self.scratch.router_effects);
        }
    }

    fn note_call(&mut self, now: Instant, event: CallEvent) {
        for query in self.account_calls.handle_event(&event) {
            // This query has no answer.
            self.ask(now, AskId(0), query);
        }
        self.parts.ledger.handle_event(now, calls::for_ledger(event), &mut self.scratch.records);
    }

    pub(super) fn write_records(&mut self) {
        let mut records = std::mem::take(&mut self.scratch.records);
        for record in records.drain(..) {
            let write = Write::Call(Box::new(calls::for_store(record)));
            if self.parts.records && self.parts.store.write(write, None).is_err() {
                self.parts.board.count_lost_record();
            }
        }
        self.scratch.records = records;
    }

    fn perform_health(&mut self, now: Instant, effect: call::HealthEffect) {
        match effect {
            call::HealthEffect::Probe { target, probe } => {
                self.last_ticket += 1;
                let uri = planning::uri_of(&target, "");
                self.probes.insert(self.last_ticket, (target, probe));
                self.parts.endpoint.probe(now, self.last_ticket, &uri, &mut self.scratch.effects);
            }
            call::HealthEffect::Down(down) => {
                self.parts.board.set_down(down.iter().map(ToString::to_string).collect());
                for outlet in &self.parts.outlets {
                    outlet.answer_all(&mut vec![ShardMessage::Down(down.clone()).into()]);
                }
            }
        }
    }

    fn handle_probed(&mut self, id: u64, status: u16) {
        let Some((target, probe)) = self.probes.remove(&id) else { return };
        // Any answer is a sign of life, but for "overloaded" and our own "no answer".
        let alive = !matches!(status, 408 | 503);
        if let Some(health) = &mut self.parts.health {
            health.handle_probe_result(&target, probe, alive, &mut self.scratch.health_effects);
        }
    }
}

impl super::ShardDeps {
    fn account(&self, found: &store::Account) -> Account {
        let limit = found.limits.max_contacts.map(|count| count as usize);
        let ha1s = ha1s_of(&found.verifiers);
        Account {
            aor: format!("{}@{}", found.name, found.domain).into(),
            disabled: found.disabled || ha1s.is_none(),
            ha1s: ha1s.unwrap_or(sip::digest::Ha1s { md5: [0; 16], sha256: [0; 32], sha512_256: [0; 32] }),
            max_contacts: limit.unwrap_or(self.default_max_contacts),
            limits: call_limits(&found.limits),
        }
    }
}

/// The digests that a phone's password is checked against. For an account with SCRAM keys only they are
/// random: no password fits, not even for a reader of the database. `None`: the system gives no randomness.
fn ha1s_of(verifiers: &store::Verifiers) -> Option<sip::digest::Ha1s> {
    static UNKNOWN: LazyLock<Option<[u8; 32]>> = LazyLock::new(|| {
        let mut unknown = [0; 32];
        getrandom::fill(&mut unknown).ok().map(|()| unknown)
    });
    if !verifiers.are_of_password() {
        let unknown = (*UNKNOWN)?;
        let mut md5 = [0; 16];
        md5.copy_from_slice(&unknown[..16]);
        return Some(sip::digest::Ha1s { md5, sha256: unknown, sha512_256: unknown });
    }
    let (md5, sha256, sha512_256) = (verifiers.md5, verifiers.sha256, verifiers.sha512_256);
    Some(sip::digest::Ha1s { md5, sha256, sha512_256 })
}

/// `None` if the account has no limits: the check is skipped.
fn call_limits(limits: &store::AccountLimits) -> Option<Arc<CallLimits>> {
    let store::AccountLimits { max_calls, max_rate, deny, .. } = limits;
    let limits = CallLimits { max_calls: *max_calls, max_rate: *max_rate, deny: deny.clone() };
    (limits != CallLimits::default()).then(|| Arc::new(limits))
}

/// Puts a drained buffer back, unless new effects came meanwhile: then both are kept, in order.
fn give_back<T>(place: &mut Vec<T>, mut empty: Vec<T>) {
    if place.is_empty() {
        *place = empty;
    } else {
        empty.append(place);
        *place = empty;
    }
}

/// The number that the record gave to what it wrote for a router.
fn row_of(done: &WriteDone) -> i64 {
    match done {
        WriteDone::Logged { seq } => *seq,
        WriteDone::Added { id } => *id,
        WriteDone::Changed { .. } | WriteDone::Removed { .. } => 0,
    }
}

fn binding_for_store(now: Instant, row: router::BindingRow) -> store::BindingWrite {
    store::BindingWrite {
        bucket: Bucket::of(&row.aor).number(),
        aor: row.aor,
        written_at: now,
        replaces: row.replaces,
        empties: row.empties,
        record: row.record,
    }
}

fn kept_for_store(message: router::WaitingMessage) -> store::WaitingMessage {
    store::WaitingMessage {
        id: message.id,
        aor: message.aor,
        from: message.from,
        content_type: message.content_type,
        body: message.body,
        sent_at: message.sent_at,
    }
}

fn kept_for_router(message: store::WaitingMessage) -> router::WaitingMessage {
    router::WaitingMessage {
        id: message.id,
        aor: message.aor,
        from: message.from,
        content_type: message.content_type,
        body: message.body,
        sent_at: message.sent_at,
    }
}

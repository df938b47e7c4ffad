//! Performs the effects of the cores: by the sockets, the store, the inboxes of other shards, the links to other nodes, or another core
//! of this shard. Gives results of the store back to the core that asked (`handle_loaded`, `handle_written`).
//!
//! `Shard::turn` calls `Shard::settle` when all inputs of the turn are in, and again after the messages are handed over. Effects of the
//! endpoint, the router and the probes gather until then; those of voice and chat are performed at once (`with_voice`, `with_xmpp`).

use cluster::{Bucket, Epoch};
use logging::sign_in_failures::{Failure, Service};
use router::{AskId, Push, Query, ReadFailed, ShardAddress};
use sip::endpoint::{EndpointEffect, StoreUnavailable};
use sip::transport::Transmit;
use stdx::Instant;
use stdx::attempts::account_name;
use stdx::outage::Held;
use store::{Loaded, StoreError, Write, WriteDone};

use super::accounts::{CachedAccount, EndedRead, HeldQuestion, Question};
use super::media_first::{ShardMedia, work_off};
use super::node_links::node_links;
use super::probes::ProbeEffect;
use super::request_origin::RequestOrigin;
use super::sip_relay::sip_relay;
use super::{Shard, buckets, edge_accounts, farm};
use crate::message::ShardMessage;
use crate::xmpp::Unavailable;

impl Shard {
    /// Performs effects until none are left: an answer at hand is given at once and may ask more. Returns the time after them.
    pub(super) fn settle(&mut self, mut now: Instant) -> Instant {
        loop {
            let scratch = &mut self.scratch;
            self.probes.take_effects(&mut scratch.probe_effects);
            let is_settled = scratch.effects.is_empty()
                && scratch.router_effects.is_empty()
                && scratch.probe_effects.is_empty();
            // The answers of reads that the store refuses are effects, too.
            if is_settled && !flush_accounts(self, now) {
                break;
            }
            let mut effects = std::mem::take(&mut self.scratch.effects);
            let mut router_effects = std::mem::take(&mut self.scratch.router_effects);
            let mut probe_effects = std::mem::take(&mut self.scratch.probe_effects);
            // An INVITE that an application answers is several effects, and opens sockets.
            let mut media = ShardMedia(self);
            now = work_off(&mut media, now, effects.drain(..), |shard, now, effect| {
                shard.0.perform(now, effect);
            });
            now = work_off(&mut media, now, router_effects.drain(..), |shard, now, effect| {
                shard.0.perform_router(now, effect);
            });
            for effect in probe_effects.drain(..) {
                self.perform_probe(now, effect);
            }
            give_back(&mut self.scratch.effects, effects);
            give_back(&mut self.scratch.router_effects, router_effects);
            self.scratch.probe_effects = probe_effects;
        }
        self.records.write();
        now
    }

    fn perform(&mut self, now: Instant, effect: EndpointEffect) {
        match effect {
            EndpointEffect::Transmit(transmit) => self.transmit(now, transmit),
            EndpointEffect::Account { id, user, domain } => self.find_account(now, id, user, domain),
            EndpointEffect::Plan { id, request } => {
                let voice = self.voice.as_ref().map(|voice| &voice.calls);
                let decision = self.planner.decide(now, id, &request, voice);
                self.parts.endpoint.handle_plan(now, id, decision, &mut self.scratch.effects);
            }
            EndpointEffect::Ask { id, query } => {
                self.records.note_query(&query);
                self.ask(now, id, query);
            }
            EndpointEffect::ShareResponse(shared) => sip_relay(self).share_response(now, &shared),
            EndpointEffect::Dns { id, query } => self.io.lookup(now, id, &query),
            EndpointEffect::Call(event) => {
                let lister = buckets::lister(self.farm.as_ref(), self.parts.edge.life);
                let changed = self.records.handle_event(now, event, lister);
                report_calls(self, now, changed);
            }
            // The reader may have gone; the shard is told so a moment later.
            EndpointEffect::Trace(event) => drop(self.parts.traces.send(std::sync::Arc::new(event))),
            EndpointEffect::Session(event) => {
                self.with_voice(now, |voice, world| voice.handle_event(now, event, world));
            }
            EndpointEffect::TextOutcome { id, texted } => {
                self.with_xmpp(now, |xmpp, outbox| xmpp.handle_texted(now, id, Some(texted), outbox));
            }
            EndpointEffect::ProbeOutcome { id, status } => self.probes.handle_outcome(id, status),
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

    /// Sends a message by the shard that holds the connection of its target, or by this one's sockets. A failure is reported to the
    /// endpoint if the message has a number for it.
    fn transmit(&mut self, now: Instant, transmit: Transmit) {
        match transmit.target.flow {
            // Another shard holds the connection.
            Some(flow) if flow.edge != self.parts.edge => {
                if self.parts.map.has(flow.edge) {
                    let message = ShardMessage::Transmit { transmit, from: self.parts.edge };
                    self.post[usize::from(flow.edge.shard)].push(message.into());
                } else if farm::is_at_other_node(self, flow.edge) {
                    sip_relay(self).transmit(now, flow.edge, &transmit);
                } else if let Some(report) = transmit.report {
                    // The connection ended with the life of the process that held it.
                    self.parts.endpoint.handle_send_failed(now, report, &mut self.scratch.effects);
                }
            }
            _ => self.io.send(transmit),
        }
    }

    /// Puts a query to the owner of its address: performed at once if that is this shard, else sent with the turn's messages. The answer
    /// comes by `give_answer`. Where nodes share a database, `OpenQuestions` numbers the query anew and asks again until its patience ends.
    pub(super) fn ask(&mut self, now: Instant, id: AskId, query: Query) {
        if buckets::is_shared(self) {
            return buckets::drive(self, now, |driver| driver.ask(now, id, query));
        }
        let owner = self.parts.map.owner(Bucket::of(query.aor()));
        let from = self.parts.edge;
        if owner == from {
            self.query(now, from, id, query);
        } else {
            self.post[usize::from(owner.shard)].push(ShardMessage::Ask { from, id, query }.into());
        }
    }

    /// Finds an account: in the cache, as it was read before while the database is away, or by a read that all askers of the address
    /// share. `id` names the asker (`RequestOrigin`): `Xmpp::handle_account` for chat, `account_found` for the others. Both may be called
    /// before this returns.
    pub(super) fn find_account(&mut self, now: Instant, id: AskId, user: Box<str>, domain: Box<str>) {
        // Chat has waits of its own, and an edge lets its requests wait itself.
        let may_wait = !matches!(RequestOrigin::of(id.0), RequestOrigin::Xmpp(_) | RequestOrigin::Account(_));
        find_account_for(self, now, Question { id, arrived: now, may_wait }, user, domain);
    }

    /// Ends the wait for an account; `None` when it could not be read. The endpoint and calls of applications then get the account as
    /// it was read before, if it is still in the cache; chat and edges get an error (see `find_account`).
    pub(super) fn give_account(&mut self, now: Instant, ticket: u64, known: Option<&CachedAccount>) {
        if let Some(ended) = self.reads.handle_account(now, ticket, known.cloned()) {
            end_read(self, now, ended, known);
        }
    }

    /// Gives results of reads to the parts that asked. Tickets of chat are marked. The others come from one counter
    /// (`StoreReads::next_ticket`): the part that began the read has the ticket in its table.
    pub(super) fn handle_loaded(&mut self, now: Instant, done: Vec<(u64, Result<Loaded, StoreError>)>) {
        for (ticket, result) in done {
            if let RequestOrigin::Xmpp(ask) = RequestOrigin::of(ticket) {
                self.with_xmpp(now, |xmpp, outbox| xmpp.handle_loaded(now, ask, result, outbox));
                continue;
            }
            let Some(result) = buckets::take_loaded(self, now, ticket, result) else { continue };
            if let Some(aor) = self.reads.take_kept(ticket) {
                let messages = match result {
                    Ok(Loaded::KeptMessages(messages)) => {
                        Ok(messages.into_iter().map(kept_for_router).collect())
                    }
                    Ok(_) => Err(ReadFailed),
                    Err(error) => {
                        if let Some(failures) = self.reads.log.handle_failure(now) {
                            tracing::error!(%error, failures, "kept messages could not be read; the next REGISTER of their address tries again");
                        }
                        Err(ReadFailed)
                    }
                };
                self.parts.router.handle_kept(now, &aor, messages, &mut self.scratch.router_effects);
                continue;
            }
            match result {
                Ok(Loaded::Account(account)) => {
                    self.reads.log.end();
                    self.give_account(now, ticket, Some(&account));
                }
                Ok(_) => {}
                Err(error) => {
                    if let Some(failures) = self.reads.log.handle_failure(now) {
                        tracing::error!(%error, failures, "an account could not be read; requests for others that were not read before wait for some seconds");
                    }
                    self.give_account(now, ticket, None);
                }
            }
        }
    }

    /// Gives results of writes to chat, whose tickets are marked, or to the router, which counts its tickets itself.
    pub(super) fn handle_written(&mut self, now: Instant, done: Vec<(u64, Result<WriteDone, StoreError>)>) {
        for (ticket, result) in done {
            if let RequestOrigin::Xmpp(ask) = RequestOrigin::of(ticket) {
                self.with_xmpp(now, |xmpp, outbox| xmpp.handle_written(now, ask, result, outbox));
                continue;
            }
            let effects = &mut self.scratch.router_effects;
            if let Err(StoreError::Unreachable { .. }) = result {
                self.parts.router.handle_unreachable(now, ticket, effects);
                continue;
            }
            let result = result.map(|done| row_of(&done)).map_err(|_| router::WriteFailed);
            self.parts.router.handle_written(now, ticket, result, effects);
        }
        buckets::handle_written(self, now);
    }

    fn perform_router(&mut self, now: Instant, effect: router::Effect) {
        match effect {
            router::Effect::Answer { to, id, answer } if to == self.parts.edge => {
                if buckets::is_shared(self) {
                    return buckets::drive(self, now, |driver| driver.handle_answer(now, id, answer));
                }
                self.give_answer(now, id, answer);
            }
            router::Effect::Answer { to, id, answer } => {
                self.send_answer(now, to, ShardMessage::Answer { id, answer });
            }
            // Dropped: another node may own the address by now, and its router tells the edges.
            router::Effect::Push { .. } if !buckets::may_push(self, now) => {}
            router::Effect::Push { to, push } if to == self.parts.edge => handle_push(self, now, push),
            router::Effect::Push { to, push } => self.send_answer(now, to, ShardMessage::Push(push)),
            router::Effect::WriteBinding { ticket, row } => {
                let epoch = buckets::epoch_of(self, &row.aor);
                let write = Write::Binding(binding_for_store(now, row, epoch));
                self.parts.write(now, ticket, write, &mut self.scratch.router_effects);
            }
            router::Effect::ForgetBinding { row } => {
                // Refused when the store is far behind: the row is then deleted by its age.
                let _ = self.parts.store.write(Write::ForgetBindings { rows: [row].into() }, None);
            }
            router::Effect::KeepMessage { ticket, message } => {
                let write = Write::Keep(Box::new(kept_for_store(*message)));
                self.parts.write(now, ticket, write, &mut self.scratch.router_effects);
            }
            router::Effect::ForgetMessage { aor, id } => {
                // Refused when the store is far behind: the message is then delivered once more, not lost.
                let _ = self.parts.store.write(Write::ForgetMessage { aor, id }, None);
            }
            // Presence of an address's phones.
            router::Effect::Presence { aor, presence } => {
                self.with_xmpp(now, |xmpp, outbox| {
                    if let Some(user) = xmpp.accounts().find(&aor) {
                        xmpp.handle_presence(now, &user, &presence, outbox);
                    }
                });
            }
            router::Effect::LoadKept { aor } => {
                if let Err(aor) = self.reads.read_kept(aor) {
                    tracing::warn!(
                        "the database is too busy to read kept messages; the next REGISTER of their address tries again"
                    );
                    let effects = &mut self.scratch.router_effects;
                    self.parts.router.handle_kept(now, &aor, Err(ReadFailed), effects);
                }
            }
        }
    }

    /// Sends an answer or news of the router to another shard, past the bound of its inbox: the asker waits for it.
    fn send_answer(&mut self, now: Instant, to: ShardAddress, message: ShardMessage) {
        // A shard of a life that is over waits for nothing.
        if self.parts.map.has(to) {
            self.parts.outlets[usize::from(to.shard)].answer_all(&mut vec![message.into()]);
        } else if farm::is_at_other_node(self, to) {
            node_links(self).send_or_drop(now, to, &message);
        }
    }

    fn perform_probe(&mut self, now: Instant, effect: ProbeEffect) {
        match effect {
            ProbeEffect::Probe { id, uri } => {
                self.parts.endpoint.probe(now, id, &uri, &mut self.scratch.effects);
            }
            // Every shard plans by the same targets, this one too, which has no other way to learn them.
            ProbeEffect::Down(down) => {
                self.parts.board.set_down(down.iter().map(ToString::to_string).collect());
                for outlet in &self.parts.outlets {
                    outlet.answer_all(&mut vec![ShardMessage::Down(down.clone()).into()]);
                }
            }
        }
    }
}

/// Answers the questions that have waited for a read of an account, and reads the accounts of those that it releases.
fn end_read(shard: &mut Shard, now: Instant, loaded: EndedRead, known: Option<&CachedAccount>) {
    let current = known.map(|known| known.as_deref().map(|found| shard.parts.account(found)));
    let outdated = || loaded.outdated.map(|outdated| Some(shard.parts.account(&outdated)));
    let account = current.clone().or_else(outdated);
    for id in loaded.waiting {
        if let RequestOrigin::Xmpp(ask) = RequestOrigin::of(id.0) {
            let found = known.map(|known| known.as_deref()).ok_or(Unavailable);
            shard.with_xmpp(now, |xmpp, outbox| xmpp.handle_account(now, ask, found, outbox));
            continue;
        }
        let is_of_edge = matches!(RequestOrigin::of(id.0), RequestOrigin::Account(_));
        let account = if is_of_edge { &current } else { &account };
        shard.account_found(now, id, account.clone().ok_or(StoreUnavailable));
    }
    for held in loaded.released {
        find_held(shard, now, held);
    }
}

fn find_account_for(shard: &mut Shard, now: Instant, question: Question, user: Box<str>, domain: Box<str>) {
    let id = question.id;
    let address = format!("{user}@{domain}");
    if let Some(known) = shard.reads.accounts().get(now, &address) {
        if let RequestOrigin::Xmpp(ask) = RequestOrigin::of(id.0) {
            let known = known.clone();
            let found = Ok(known.as_deref());
            shard.with_xmpp(now, |xmpp, outbox| xmpp.handle_account(now, ask, found, outbox));
            return;
        }
        let account = known.as_deref().map(|found| shard.parts.account(found));
        return shard.account_found(now, id, Ok(account));
    }
    // Chat reads more than the account for a sign-in, so that an outdated one would not get it further. An edge has outdated ones
    // of its own, whose age it knows.
    if question.may_wait
        && let Some(outdated) = shard.reads.outdated_account(now, &address)
    {
        let account = shard.parts.account(&outdated);
        edge_accounts::ask_owners(shard, now);
        return shard.account_found(now, id, Ok(Some(account)));
    }
    if shard.reads.accounts().hold(now, &address, question) {
        return;
    }
    shard.reads.read_account(question, &address, user, domain);
    edge_accounts::ask_owners(shard, now);
}

/// Gives the store the reads of accounts that the turn has asked for. True if it refused one: its questions are answered.
fn flush_accounts(shard: &mut Shard, now: Instant) -> bool {
    let refused = shard.reads.flush_accounts(now);
    let is_any = !refused.is_empty();
    for ended in refused {
        end_read(shard, now, ended, None);
    }
    is_any
}

/// Reads accounts again that requests wait for while the database is away, and ends the waits that have lasted long enough: with the
/// account as it was read before if the read is slow, else without one.
pub(super) fn expire_held(shard: &mut Shard, now: Instant) {
    while let Some((ids, known)) = shard.reads.accounts().expire_slow(now) {
        let account = known.as_deref().map(|found| shard.parts.account(found));
        for id in ids {
            shard.account_found(now, id, Ok(account.clone()));
        }
    }
    while let Some(id) = shard.reads.accounts().expire(now) {
        shard.account_found(now, id, Err(StoreUnavailable));
    }
    if let Some(held) = shard.reads.accounts().take_try(now) {
        find_held(shard, now, held);
    }
}

fn find_held(shard: &mut Shard, now: Instant, held: Held<HeldQuestion>) {
    let Held { arrived, request: (id, address) } = held;
    let (user, domain) = address.rsplit_once('@').unwrap_or((&address, ""));
    let question = Question { id, arrived, may_wait: true };
    find_account_for(shard, now, question, user.into(), domain.into());
}

/// Handles news of a router for this shard.
pub(super) fn handle_push(shard: &mut Shard, now: Instant, push: Push) {
    match push {
        Push::Watched { owner, aors } => {
            let changed = shard.records.handle_watched(now, owner, aors);
            report_calls(shard, now, changed);
        }
        Push::AccountChanged { aor } => shard.reads.accounts().forget(aor.as_deref()),
        push => shard.parts.endpoint.handle_push(now, push, &mut shard.scratch.effects),
    }
}

/// Tells the owners of addresses of their calls. These queries have no answer.
fn report_calls(shard: &mut Shard, now: Instant, changed: Vec<Query>) {
    for query in changed {
        shard.ask(now, AskId(0), query);
    }
}

/// Puts a drained buffer back for its memory. Effects that came meanwhile move into it, in order.
fn give_back<T>(place: &mut Vec<T>, mut empty: Vec<T>) {
    if place.is_empty() {
        *place = empty;
    } else {
        empty.append(place);
        *place = empty;
    }
}

/// The number that the store gave to a row of the router: its place in the log of bindings, or the id of a kept message. The other
/// results answer writes that the router does not wait for.
fn row_of(done: &WriteDone) -> i64 {
    match done {
        WriteDone::Logged { seq } => *seq,
        WriteDone::Added { id } => *id,
        WriteDone::Changed { .. } | WriteDone::Removed { .. } | WriteDone::ClientAdded { .. } => 0,
    }
}

fn binding_for_store(now: Instant, row: router::BindingRow, epoch: Epoch) -> store::BindingWrite {
    store::BindingWrite {
        bucket: Bucket::of(&row.aor).number(),
        aor: row.aor,
        epoch: epoch.0,
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
        expires_at: message.expires_at,
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
        expires_at: message.expires_at,
    }
}

//! The shard's calls of applications (`voice::Voice`): their inputs, their effects, and results of helper threads.
//!
//! A target that an application calls is resolved in steps, each of which may be the last: the application's own numbers, the plan,
//! the account, its limit of calls, its bindings (`resolve` → `account_found` → `admitted` → `give_answer` → `resolved`). A refusal is the
//! status that a caller by SIP would get.

use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use ::voice::{
    Address, Destination, Done, HelperResult, Purpose, Resolved, Ticket, Voice, VoiceEffect, World,
};
use cluster::Outlet;
use router::{Answer, AskId, Binding, BoundTarget, Query, bound_targets};
use sip::endpoint::{Account, StoreUnavailable};
use stdx::Instant;
use voice_io::helpers::Deliver;
use voice_io::{Order, ShardVoice, VoiceShardMessage};

use super::node_links::node_links;
use super::planning::Resolution;
use super::request_origin::{RequestOrigin, of_voice};
use super::{Shard, edge_accounts};
use crate::message::{InboxMessage, LocalMessage, ShardMessage};
use crate::xmpp::operator::voicemail::Mailboxes;

/// Posts what the helpers have done to the shard that asked.
pub(crate) struct HelperResults(pub(crate) Vec<Outlet<InboxMessage>>);

impl Deliver for HelperResults {
    fn deliver(&self, ticket: Ticket, done: Done) {
        if let Some(outlet) = self.0.get(usize::from(ticket.shard)) {
            let done = VoiceShardMessage::Done(HelperResult::new(ticket, done));
            outlet.answer_all(&mut vec![LocalMessage::Voice(done).into()]);
        }
    }
}

/// Hangs up all calls, as the node ends next.
pub(super) fn hang_up(shard: &mut Shard, done: &SyncSender<()>) {
    let now = shard.parts.clock.now();
    shard.with_voice(now, |voice, world| voice.hang_up_all(now, world));
    // The asker waits for a limited time.
    let _ = done.try_send(());
}

impl Shard {
    /// Gives the calls of applications an input and performs their effects at once, which may be inputs of them again. Does nothing where
    /// there is no programmable voice.
    pub(super) fn with_voice(&mut self, now: Instant, act: impl FnOnce(&mut Voice, &mut World<'_>)) {
        let Some(ShardVoice { calls, ports }) = &mut self.voice else { return };
        let mut outbox = std::mem::take(&mut self.scratch.outbox);
        let mut world = World {
            endpoint: &mut self.parts.endpoint,
            out: &mut self.scratch.effects,
            outbox: &mut outbox,
            sockets: ports,
        };
        act(calls, &mut world);
        for effect in outbox.drain(..) {
            self.grant(now, effect);
        }
        self.scratch.outbox = outbox;
    }

    fn grant(&mut self, now: Instant, effect: VoiceEffect) {
        match effect {
            VoiceEffect::Post { to, message } if to.life == self.parts.edge.life => {
                if let Some(post) = self.post.get_mut(usize::from(to.shard)) {
                    post.push(ShardMessage::Room(message).into());
                }
            }
            VoiceEffect::Post { to, message } => {
                node_links(self).send_or_drop(now, to, &ShardMessage::Room(message));
            }
            // Not awaited: a call does not wait for its record. While the database is away, the store keeps the write.
            VoiceEffect::Write(write) => {
                if self.parts.store.write(write, None).is_err() {
                    self.parts.board.count_lost_records(1);
                }
            }
            VoiceEffect::Voicemail(row) => {
                let board = Arc::clone(&self.parts.board);
                match Mailboxes::new(&self.parts.chat).put(row) {
                    Ok(written) => drop(tokio::task::spawn_local(async move {
                        if written.await.is_err() {
                            board.count_lost_records(1);
                        }
                    })),
                    Err(_) => board.count_lost_records(1),
                }
            }
            VoiceEffect::Keep { ticket, message } => {
                self.ask(now, AskId(of_voice(ticket)), Query::Keep(message));
            }
            VoiceEffect::Resolve { ticket, address, purpose } => self.resolve(now, ticket, &address, purpose),
            VoiceEffect::CallChanged { aor, call } => {
                // 0: no answer comes.
                self.ask(now, AskId(0), Query::CallChanged { aor, call });
            }
        }
    }

    /// Resolves the target of an application's call or message: by the routing plan, as for an account's.
    fn resolve(&mut self, now: Instant, ticket: u64, address: &Address, purpose: Purpose) {
        let plan = self.planner.plan();
        let is_called = purpose != Purpose::Mailbox;
        if is_called && self.voice.as_ref().is_some_and(|voice| voice.calls.answers(plan, address)) {
            // A number of an application is called through the network stack, like any peer: so it has a
            // transaction, a dialog and a record of its own.
            let own = self.parts.endpoint.own_address().map(|received| Destination {
                uri: format!("sip:{}@{}", sip::wire::escape_user(&address.user), received.remote).into(),
                path: "".into(),
                received: Some(received),
                public_only: false,
                is_binding: false,
            });
            // Without a UDP listener there is no way back to ourselves that proves itself.
            return self.resolved(now, ticket, own.map(|own| vec![vec![own]]).ok_or(503));
        }
        match self.planner.resolve(now, ticket, address, purpose) {
            Resolution::Account { user, domain } => {
                self.find_account(now, AskId(of_voice(ticket)), user, domain);
            }
            Resolution::Resolved(resolved) => self.resolved(now, ticket, resolved),
            Resolution::Refused { reason, is_denied } => {
                self.parts.endpoint.count_refused_call(is_denied);
                self.with_voice(now, |voice, world| voice.call_refused(now, ticket, reason, world));
                self.resolved(now, ticket, Err(403));
            }
        }
    }

    /// Handles the router's decision about one more call of the account.
    fn admitted(&mut self, now: Instant, id: AskId, ticket: u64, is_admitted: bool) {
        let mut aor = None;
        self.with_voice(now, |voice, world| aor = voice.handle_admitted(ticket, is_admitted, world));
        match aor {
            Some(aor) => self.ask(now, id, Query::Lookup { aor }),
            None => {
                if !is_admitted {
                    self.parts.endpoint.count_refused_call(false);
                }
                // RFC 3261 §21.4.24, as a caller gets it that is no application.
                self.resolved(now, ticket, Err(486));
            }
        }
    }

    /// Ends what `resolve` began: destinations, or the status of a refusal.
    fn resolved(&mut self, now: Instant, ticket: u64, resolved: Resolved) {
        self.with_voice(now, |voice, world| voice.handle_resolved(now, ticket, resolved, world));
    }

    /// Gives an account to the part that waits for it. The bindings of a call's target are looked up next, after the admission of one more
    /// call if the account has a limit. A disabled account is answered as one that does not exist.
    pub(super) fn account_found(
        &mut self,
        now: Instant,
        id: AskId,
        result: Result<Option<Account>, StoreUnavailable>,
    ) {
        let ticket = match RequestOrigin::of(id.0) {
            RequestOrigin::Voice(ticket) => ticket,
            RequestOrigin::Account(number) => {
                let Some(farm) = &mut self.farm else { return };
                let answer = farm.edges.handle_account(number, result);
                return self.scratch.router_effects.extend(answer);
            }
            _ => return self.parts.endpoint.handle_account(now, id, result, &mut self.scratch.effects),
        };
        match result {
            Ok(Some(account)) if !account.disabled => {
                let Account { aor, limits, .. } = account;
                let max_calls = limits.and_then(|limits| limits.max_calls);
                let mut admission = None;
                self.with_voice(now, |voice, _| {
                    voice.account_known(ticket, &aor);
                    admission = max_calls.and_then(|most| voice.admission_of(ticket, &aor, most));
                });
                match admission {
                    Some(admission) => self.ask(now, id, Query::Admit(Box::new(admission))),
                    None => self.ask(now, id, Query::Lookup { aor }),
                }
            }
            Ok(_) => self.resolved(now, ticket, Err(404)),
            Err(StoreUnavailable) => self.resolved(now, ticket, Err(500)),
        }
    }

    /// Gives an owner's answer to the part that asked, which the number tells.
    pub(super) fn give_answer(&mut self, now: Instant, id: AskId, answer: Answer) {
        let ticket = match RequestOrigin::of(id.0) {
            RequestOrigin::Voice(ticket) => ticket,
            RequestOrigin::Operator(number) => return self.operator_changes.handle_answer(number, answer),
            RequestOrigin::Account(ticket) => return edge_accounts::handle_answer(self, now, ticket, answer),
            _ => return self.parts.endpoint.handle_answer(now, id, answer, &mut self.scratch.effects),
        };
        let bindings = match answer {
            Answer::Bindings(bindings) => bindings,
            Answer::Admitted(admitted) => return self.admitted(now, id, ticket, admitted.is_ok()),
            Answer::Kept(result) => {
                return self.with_voice(now, |voice, world| voice.handle_kept(now, ticket, result, world));
            }
            Answer::Unavailable => return self.resolved(now, ticket, Err(503)),
            _ => return,
        };
        // RFC 3261 §21.4.18: the account exists, but no phone is registered.
        self.resolved(now, ticket, if bindings.is_empty() { Err(480) } else { Ok(groups_of(bindings)) });
    }
}

/// All phones at once; of an instance one flow (RFC 5626 §7), and the others in the groups behind, for the case that it cannot be
/// reached.
fn groups_of(bindings: Vec<Binding>) -> Vec<Vec<Destination>> {
    let reach = |binding: Binding| Destination {
        uri: binding.contact.uri,
        path: binding.contact.path,
        received: binding.contact.received,
        public_only: false,
        is_binding: true,
    };
    let mut groups: Vec<Vec<Destination>> = Vec::new();
    for BoundTarget { binding, other_flows } in bound_targets(bindings) {
        for (place, flow) in std::iter::once(binding).chain(other_flows).enumerate() {
            if groups.len() == place {
                groups.push(Vec::new());
            }
            groups[place].push(reach(flow));
        }
    }
    groups
}

/// Handles a message for the calls of applications of one shard.
pub(super) fn handle_message(
    voice: &mut Voice,
    now: Instant,
    message: VoiceShardMessage,
    world: &mut World<'_>,
) {
    match message {
        VoiceShardMessage::Done(result) => voice.handle_result(now, result, world),
        VoiceShardMessage::Room(message) => voice.handle_room_message(now, message, world),
        VoiceShardMessage::Control(Order { request, answer }) => {
            // The request may have timed out, so that its receiver is gone.
            let _ = answer.try_send(voice.handle_request(now, request, world));
        }
        VoiceShardMessage::Tell(callback) => ::voice::lost_calls::send(voice, callback),
        VoiceShardMessage::Redial(placing) => ::voice::redial::place(voice, now, *placing, world),
        VoiceShardMessage::Numbers(numbers) => voice.set_numbers(numbers),
    }
}

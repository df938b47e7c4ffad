//! Routes stanzas and effects: from clients to hosts, from hosts to clients, other hosts and the database.

use chat::phones::PhoneEvent;
use chat::{Effect, Host, Load, StoreFailure, StoreReply};
use cluster::{Bucket, ShardAddress};
use stdx::Instant;
use store::Write;
use xmpp::ConnectionId;
use xmpp::s2s::{Recipient, ShardMessage};
use xmpp::sasl::{CredentialAnswer, CredentialQuery};
use xmpp::stanza::{self, Condition};
use xmpp::{Element, Jid, c2s, ns};

use super::access::Claim;
use super::servers::Servers;
use super::servers::{self, Event as ServerEvent};
use super::streams::Event;
use super::{PendingRead, Xmpp, XmppEffect, record, shard_requests};
use crate::message::{LocalXmppMessage, StreamCondition, XmppShardMessage};

impl Xmpp {
    /// The shard that owns an address.
    pub(super) fn owner(&self, bare: &str) -> ShardAddress {
        self.map.owner(Bucket::of(bare))
    }

    pub(super) fn handle_event(&mut self, now: Instant, event: Event, outbox: &mut Vec<XmppEffect>) {
        let shard = self.shard;
        let edge_of = |connection| ConnectionId { shard, connection };
        match event {
            Event::Find { stream, find, domain } => self.find(now, stream, find, domain, outbox),
            Event::Tokens { stream, work } => self.tokens(stream, work, outbox),
            Event::Invited { stream, token, domain } => self.invited(now, stream, &token, domain, outbox),
            Event::Register { stream, registration } => self.register(stream, registration, outbox),
            Event::Bind { stream, request } => {
                let edge = edge_of(stream);
                let Some(owner) = self.set_owner(now, stream, &request.user) else { return };
                self.send(now, owner, XmppShardMessage::Bind { edge, request }, outbox);
            }
            Event::Resume { stream, user, id, seen } => {
                let edge = edge_of(stream);
                let Some(owner) = self.set_owner(now, stream, &user) else { return };
                self.send(now, owner, XmppShardMessage::Resume { edge, user, id, seen }, outbox);
            }
            Event::Stanza { stream, element } => {
                let edge = edge_of(stream);
                let Some(owner) = self.host_of(stream, &element) else { return };
                self.send(now, owner, XmppShardMessage::Stanza { edge, element }, outbox);
            }
            Event::Nonza { stream, element } => {
                let Some(owner) = self.host_of(stream, &element) else { return };
                self.send(now, owner, XmppShardMessage::Nonza { edge: edge_of(stream), element }, outbox);
            }
            Event::Bosh { shard, call } if self.map.has(shard) => {
                outbox.push(XmppEffect::Bosh { shard, call });
            }
            Event::Bosh { call, .. } => call.refuse(),
            Event::Failed { peer, domain, failed } => {
                self.sign_in_failures += 1;
                self.access.fail(now, &Claim::new(peer, &failed.user, &domain), failed.cause);
            }
            Event::Drained { stream } => {
                let edge = edge_of(stream);
                let bucket = self.streams.get(stream).and_then(|stream| stream.bucket.get());
                let Some(owner) = bucket.map(|bucket| self.map.owner(bucket)) else { return };
                self.send(now, owner, XmppShardMessage::Drained { edge }, outbox);
            }
            Event::Gone { stream, bucket, in_order } => {
                let owner = self.map.owner(bucket);
                self.send(now, owner, XmppShardMessage::Gone { edge: edge_of(stream), in_order }, outbox);
            }
        }
    }

    fn find(
        &mut self,
        now: Instant,
        stream: u64,
        find: CredentialQuery,
        domain: Box<str>,
        outbox: &mut Vec<XmppEffect>,
    ) {
        let Some(known) = self.streams.get(stream) else { return };
        // Credentials of a client that guesses are not looked at, right or wrong.
        if self.access.wait(now, &Claim::new(known.peer(), find.user(), &domain)).is_some() {
            self.streams.tell(stream, |c2s, out| c2s.handle_found(CredentialAnswer::Unavailable, out));
            return;
        }
        let Ok(jid) = Jid::new(Some(find.user()), &domain, None) else {
            self.streams.tell(stream, |c2s, out| c2s.handle_found(CredentialAnswer::NoAccount, out));
            return;
        };
        let user = jid.local().unwrap_or_default().into();
        let id = self.ask(PendingRead::SignIn { stream, find, domain: domain.clone() });
        outbox.push(XmppEffect::Account { id, user, domain });
    }

    /// Notes the bucket of the stream's account. Its owner, which is returned, has the host that serves the stream from now
    /// on.
    fn set_owner(&mut self, now: Instant, stream: u64, user: &Jid) -> Option<ShardAddress> {
        let bucket = Bucket::of(user.bare_str());
        let stream = self.streams.get(stream)?;
        if stream.bucket.replace(bucket).is_none() {
            stream.establish();
            self.sign_ins += 1;
            self.streams.count_sign_in(&stream);
            // After a sign-in by an alias, the proof is kept under the alias. Anonymous clients have proved nothing.
            if let Some(claimed) = stream.claimed() {
                let claim = Claim::new(stream.peer(), &claimed, user.domain());
                self.access.attempts.succeed(now, &claim.attempt());
            }
        }
        Some(self.map.owner(bucket))
    }

    /// The owner of a stanza's sender. The stream may be gone already: its last stanzas count as well.
    fn host_of(&self, stream: u64, element: &Element) -> Option<ShardAddress> {
        let known = self.streams.get(stream).and_then(|stream| stream.bucket.get());
        known
            .map(|bucket| self.map.owner(bucket))
            .or_else(|| Some(self.owner(Jid::parse(element.attr("from")?).ok()?.bare_str())))
    }

    /// A shard of a life that is over has no inbox: what is for it fails as in a full one.
    pub(super) fn send(
        &mut self,
        now: Instant,
        to: ShardAddress,
        message: XmppShardMessage,
        outbox: &mut Vec<XmppEffect>,
    ) {
        if to == self.shard {
            self.handle_message(now, message, outbox);
        } else if self.map.has(to) {
            self.post[usize::from(to.shard)].push(message);
        } else {
            self.take_back(now, vec![message], outbox);
        }
    }

    pub(crate) fn handle_message(
        &mut self,
        now: Instant,
        message: XmppShardMessage,
        outbox: &mut Vec<XmppEffect>,
    ) {
        match message {
            XmppShardMessage::Bound { edge, bound } => self.bound(edge, *bound),
            XmppShardMessage::Deliver { edge, element } => self.deliver(edge, &element),
            XmppShardMessage::Close { edge, condition } => {
                self.streams.tell(edge.connection, |c2s, out| c2s.fail(condition.name(), out));
            }
            XmppShardMessage::Flush { edge } => self.streams.flush(edge.connection),
            XmppShardMessage::Bind { edge, request } => {
                self.tell_host(now, outbox, |host, out| host.handle_bind(now, edge, &request, out));
            }
            XmppShardMessage::Resume { edge, user, id, seen } => {
                self.tell_host(now, outbox, |host, out| {
                    host.handle_resume(now, edge, (&user, &id, seen), out);
                });
            }
            XmppShardMessage::Stanza { edge, element } => {
                self.tell_host(now, outbox, |host, out| host.handle_stanza(now, edge, element, out));
            }
            XmppShardMessage::Nonza { edge, element } => {
                self.tell_host(now, outbox, |host, out| host.handle_nonza(now, edge, &element, out));
            }
            XmppShardMessage::Gone { edge, in_order } => {
                self.tell_host(now, outbox, |host, out| host.handle_gone(now, edge, in_order, out));
            }
            XmppShardMessage::Drained { edge } => {
                self.tell_host(now, outbox, |host, out| host.handle_drained(now, edge, out));
            }
            XmppShardMessage::Routed(element) => {
                self.tell_host(now, outbox, |host, out| host.handle_routed(now, *element, out));
            }
            message @ (XmppShardMessage::AttachOutcome { .. }
            | XmppShardMessage::Detached { .. }
            | XmppShardMessage::ToComponent { .. }) => self.handle_component_message(now, message, outbox),
            XmppShardMessage::Said { from, to, words } => {
                let event = PhoneEvent::Sent { from, to, words };
                self.tell_host(now, outbox, |host, out| host.handle_phone(now, event, out));
            }
            XmppShardMessage::Act { from, id, act } => self.act(now, (from, id), &act, outbox),
            XmppShardMessage::HostActionResult { id, answer } => self.acted(now, id, *answer, outbox),
            XmppShardMessage::Reply { token, answer } => self.reply(&token, *answer),
            XmppShardMessage::Invited { invited, inviter } => {
                self.tell_host(now, outbox, |host, out| host.befriend_both(now, &invited, &inviter, out));
            }
            XmppShardMessage::Befriend { user, contact } => {
                self.tell_host(now, outbox, |host, out| host.befriend(now, &user, &contact, out));
            }
            XmppShardMessage::Servers(message) => pass_to_servers(self.servers.as_mut(), *message),
        }
    }

    pub(crate) fn handle_local_message(
        &mut self,
        now: Instant,
        message: LocalXmppMessage,
        outbox: &mut Vec<XmppEffect>,
    ) {
        match message {
            LocalXmppMessage::Bosh(call) => self.streams.deliver_call(*call),
            LocalXmppMessage::Operate { act, answer } => self.operate(now, &act, answer, outbox),
            LocalXmppMessage::Question { iq, answer } => self.question(now, *iq, answer, outbox),
            LocalXmppMessage::Administered { id, result } => self.administered(now, id, *result, outbox),
        }
    }

    fn bound(&mut self, edge: ConnectionId, bound: c2s::Bound) {
        let is_managed = match &bound {
            c2s::Bound::Session { inline, .. } => inline.iter().any(begins_management),
            c2s::Bound::Resumed { .. } => {
                self.counted.resumed += 1;
                true
            }
            _ => false,
        };
        if let Some(stream) = self.streams.get(edge.connection) {
            stream.is_managed.set(is_managed);
        }
        self.streams.tell(edge.connection, |c2s, out| c2s.handle_bound(bound, out));
    }

    fn deliver(&mut self, edge: ConnectionId, element: &Element) {
        if begins_management(element)
            && let Some(stream) = self.streams.get(edge.connection)
        {
            stream.is_managed.set(true);
        }
        self.counted.sent.count(element.name());
        self.streams.tell(edge.connection, |c2s, out| c2s.write(element, out));
    }

    /// Lets the host handle an input, and performs its effects. A panic there is our bug, and costs that input only.
    pub(super) fn tell_host(
        &mut self,
        now: Instant,
        outbox: &mut Vec<XmppEffect>,
        act: impl FnOnce(&mut Host, &mut chat::Outbox),
    ) {
        let mut effects = std::mem::take(&mut self.effects);
        let host = &mut self.host;
        let acts = std::panic::AssertUnwindSafe(|| act(host, &mut effects));
        if std::panic::catch_unwind(acts).is_err() {
            self.panics += 1;
            tracing::error!("a stanza made the XMPP core panic: it was dropped; please report what is above");
        }
        self.todo.extend(effects.drain(..));
        self.effects = effects;
        // This call is within `perform`: the outer loop takes these effects in their order.
        if std::mem::replace(&mut self.is_working, true) {
            return;
        }
        while let Some(effect) = self.todo.pop_front() {
            self.perform(now, effect, outbox);
        }
        self.is_working = false;
    }

    fn perform(&mut self, now: Instant, effect: Effect, outbox: &mut Vec<XmppEffect>) {
        match effect {
            Effect::Bound { edge, bound } => {
                self.send(now, edge.shard, XmppShardMessage::Bound { edge, bound: Box::new(bound) }, outbox);
            }
            Effect::Deliver { edge, element } => {
                self.send(now, edge.shard, XmppShardMessage::Deliver { edge, element }, outbox);
            }
            Effect::Flush { edge } => self.send(now, edge.shard, XmppShardMessage::Flush { edge }, outbox),
            Effect::Close { edge, condition } => {
                let condition = StreamCondition::named(condition);
                self.send(now, edge.shard, XmppShardMessage::Close { edge, condition }, outbox);
            }
            Effect::Route(element) => {
                self.counted.fan_out += u64::from(element.name() == "presence");
                self.route(now, element, outbox);
            }
            Effect::Load { ticket, load: Load::User { user } } => {
                let (name, domain) = (user.local().unwrap_or_default().into(), user.domain().into());
                let id = self.ask(PendingRead::User { ticket, user });
                outbox.push(XmppEffect::Account { id, user: name, domain });
            }
            Effect::Load { ticket, load: Load::Slot { user, name, size, kind } } => {
                let uploads = self.streams.uploads();
                let slot = uploads.and_then(|uploads| uploads.slot(now, &user, &name, size, &kind));
                let loaded =
                    slot.map(|slot| StoreReply::Slot(Box::new(slot))).ok_or(StoreFailure::Unavailable);
                self.tell_host(now, outbox, |host, out| host.handle_store_reply(now, ticket, loaded, out));
            }
            Effect::Load { ticket, load: Load::Act(act) } => self.ask_all_for_host(now, ticket, *act, outbox),
            Effect::Load { ticket, load: Load::Accounts(ask) } => {
                let id = self.ask(PendingRead::Record { ticket });
                outbox.push(XmppEffect::Accounts { id, ask });
            }
            Effect::Load { ticket, load } => match record::read_of(load) {
                Some(read) => {
                    let id = self.ask(PendingRead::Record { ticket });
                    outbox.push(XmppEffect::Read { id, read });
                }
                None => {
                    let unavailable = Err(StoreFailure::Unavailable);
                    self.tell_host(now, outbox, |host, out| {
                        host.handle_store_reply(now, ticket, unavailable, out);
                    });
                }
            },
            Effect::Befriend { user, contact } => {
                let owner = self.owner(user.as_str());
                self.send(now, owner, XmppShardMessage::Befriend { user, contact }, outbox);
            }
            Effect::Access { ticket, access } => self.host_access(now, ticket, access, outbox),
            Effect::Change { ticket, change } => {
                self.counted.change(&change);
                let id = self.ask(PendingRead::Record { ticket });
                outbox.push(XmppEffect::Write { id, write: Write::Xmpp(record::write_of(now, change)) });
            }
            effect => self.perform_for_phones(effect, outbox),
        }
    }

    pub(super) fn route(&mut self, now: Instant, element: Box<Element>, outbox: &mut Vec<XmppEffect>) {
        // A stanza without a valid address cannot be routed.
        let Ok(Some(to)) = stanza::to(&element) else { return };
        if let Some((shard, token)) = shard_requests::reply_of(&element, &to) {
            return self.send(now, shard, XmppShardMessage::Reply { token, answer: element }, outbox);
        }
        if self.host.settings().is_ours(to.domain()) {
            let owner = self.owner(to.bare_str());
            return self.send(now, owner, XmppShardMessage::Routed(element), outbox);
        }
        let Some(element) = self.route_to_component(now, &to, element, outbox) else { return };
        if self.servers.is_some() {
            return self.send_abroad(now, ShardMessage::Outbound { element }, outbox);
        }
        if let Some(answer) = servers::refuse(&element) {
            self.route_answer(now, answer, outbox);
        }
    }

    /// Sends to the shard that is responsible for that server.
    fn send_abroad(&mut self, now: Instant, message: ShardMessage, outbox: &mut Vec<XmppEffect>) {
        let shard = match message.recipient() {
            Recipient::Owner(domain) => self.owner(&domain),
            Recipient::Shard(shard) => shard,
        };
        self.send(now, shard, XmppShardMessage::Servers(Box::new(message)), outbox);
    }

    /// Handles events of other servers since the last turn, and due timers. Returns how many there were.
    pub(super) fn turn_servers(&mut self, now: Instant, outbox: &mut Vec<XmppEffect>) -> usize {
        let Some(servers) = &mut self.servers else { return 0 };
        if servers.deadline().is_some_and(|deadline| deadline <= now) {
            servers.expire();
        }
        let mut events = Vec::new();
        servers.take_events(&mut events);
        let count = events.len();
        for event in events {
            match event {
                ServerEvent::Deliver(element) => self.deliver_from_abroad(now, element, outbox),
                ServerEvent::Send(message) => self.send_abroad(now, message, outbox),
            }
        }
        count
    }

    /// To an address of ours, and never on to another server.
    fn deliver_from_abroad(&mut self, now: Instant, element: Box<Element>, outbox: &mut Vec<XmppEffect>) {
        let Ok(Some(to)) = stanza::to(&element) else { return };
        if self.servers.as_ref().is_some_and(|servers| servers.is_local(to.domain())) {
            self.route(now, element, outbox);
        }
    }

    /// Routes an answer to its requester; without an address it is dropped.
    pub(super) fn route_answer(&mut self, now: Instant, answer: Element, outbox: &mut Vec<XmppEffect>) {
        let Ok(Some(to)) = stanza::to(&answer) else { return };
        if self.host.settings().is_local(to.domain()) {
            let owner = self.owner(to.bare_str());
            self.send(now, owner, XmppShardMessage::Routed(Box::new(answer)), outbox);
        } else if let Some(element) = self.route_to_component(now, &to, Box::new(answer), outbox)
            && self.servers.is_some()
        {
            self.send_abroad(now, ShardMessage::Outbound { element }, outbox);
        }
    }

    /// Messages that found a shard's inbox full. Returned messages are to be sent all the same: each ends or
    /// answers something, and there is never more of them than was asked for.
    pub(crate) fn take_back(
        &mut self,
        now: Instant,
        messages: Vec<XmppShardMessage>,
        outbox: &mut Vec<XmppEffect>,
    ) -> Vec<XmppShardMessage> {
        let mut kept = Vec::new();
        for message in messages {
            match message {
                XmppShardMessage::Bind { edge, .. } => {
                    let refused = c2s::Bound::Refused(Condition::ResourceConstraint.into());
                    self.bound(edge, refused);
                }
                XmppShardMessage::Resume { edge, .. } => {
                    let reason = Element::new("resource-constraint", ns::STANZA_ERRORS);
                    let failed = Element::new("failed", ns::SM).child(reason);
                    self.bound(edge, c2s::Bound::NotResumed { failed });
                }
                XmppShardMessage::Stanza { element, .. } => self.refuse_busy(now, &element, outbox),
                XmppShardMessage::Routed(element) | XmppShardMessage::ToComponent { element, .. } => {
                    self.refuse_busy(now, &element, outbox);
                }
                // A copy: the message itself goes its own way.
                XmppShardMessage::Said { .. } => {}
                XmppShardMessage::Act { id, .. } => self.not_asked(now, id, outbox),
                XmppShardMessage::Servers(message) => match *message {
                    ShardMessage::Outbound { element } | ShardMessage::Over { element, .. } => {
                        self.refuse_busy(now, &element, outbox);
                    }
                    // The other server asks again when nothing comes, or does without.
                    ShardMessage::Verify { .. } | ShardMessage::Offer { .. } => {}
                    message => kept.push(XmppShardMessage::Servers(Box::new(message))),
                },
                message => kept.push(message),
            }
        }
        kept
    }

    pub(super) fn refuse_busy(&mut self, now: Instant, element: &Element, outbox: &mut Vec<XmppEffect>) {
        if stanza::may_be_refused(element) && element.name() != "presence" {
            let answer = stanza::refusal(element, &Condition::ResourceConstraint.into());
            self.route_answer(now, answer, outbox);
        }
    }
}

/// A node without federation has no machine for such messages.
fn pass_to_servers(servers: Option<&mut Servers>, message: ShardMessage) {
    if let Some(servers) = servers {
        servers.handle_message(message);
    }
}

/// From then on stanzas are counted (XEP-0198 §3).
fn begins_management(element: &Element) -> bool {
    element.is("enabled", ns::SM) || element.is("resumed", ns::SM)
}

//! Routes stanzas and effects: from clients to hosts, from hosts to clients, other hosts and the database.
//!
//! The way in: `Xmpp::turn` takes the events of clients' streams (`handle_event`), which become messages to the owner of the account
//! (`send`). The shard that owns it handles them (`handle_message`) by its host (`tell_host`), whose effects `perform` turns into messages,
//! reads, writes and routed stanzas. A message whose receiver is this shard takes the same way without a queue.
//!
//! Recursion is bounded: an effect of the host that is an input of the host again is queued by `HostDriver`,
//! and only a message to this very shard is handled within the call.

use std::sync::Arc;

use chat::effect::HostAction;
use chat::phones::PhoneEvent;
use chat::{Effect, Host, Load, StoreFailure, StoreReply};
use chat_owners::{MessageTarget, Way};
use cluster::{Bucket, Life, ShardAddress};
use router::Offer;
use sip::events::TextOutcome;
use stdx::Instant;
use xmpp::ConnectionId;
use xmpp::s2s::{Outcome, ShardMessage};
use xmpp::stanza::Condition;
use xmpp::{Bare, Element, c2s, ns};
use xmpp_io::components::ComponentUpdate;
use xmpp_io::servers::S2sEvent;
use xmpp_io::streams::C2sEvent;

use super::access::{AccessContext, ClientAccess};
use super::announcing;
use super::farm;
use super::host_requests::HostReply;
use super::operator::nodes;
use super::phones::{self, ChatAccounts, OfferedMessage, Offering, PendingWatch, SentCopy};
use super::shard_requests::Requester;
use super::stanza_router::AddressedMessage;
use super::{Xmpp, XmppEffect};
use super::{bytestreams, privileged, remote, rtbl, shedding};
use crate::message::{LocalXmppMessage, StreamCondition, XmppShardMessage};
use shard_message::ActAnswer;

impl Xmpp {
    /// Handles an event of a client's stream of this shard: requests of sign-in go to [`ClientAccess`], those of a session to the owner of
    /// its account.
    pub(super) fn handle_event(&mut self, now: Instant, event: C2sEvent, outbox: &mut Vec<XmppEffect>) {
        if announcing::take_event(self, now, &event, outbox) {
            return;
        }
        let shard = self.queues.own();
        let edge_of = |connection| ConnectionId { shard, connection };
        match event {
            C2sEvent::Find { stream, find, domain } => {
                shedding::find(self, now, stream, (find, domain), outbox);
            }
            C2sEvent::Tokens { stream, work } => {
                self.with_clients(now, outbox, |clients, cx| clients.tokens(cx, stream, work));
            }
            C2sEvent::Invited { stream, token, domain } => {
                self.with_clients(now, outbox, |clients, cx| clients.invited(cx, stream, &token, domain));
            }
            C2sEvent::Invitation(query) => {
                self.with_clients(now, outbox, |clients, cx| clients.invitation_shown(cx, query));
            }
            C2sEvent::Register { stream, registration } => {
                self.with_clients(now, outbox, |clients, cx| clients.register(cx, stream, registration));
            }
            C2sEvent::Bind { stream, request } => {
                let edge = edge_of(stream);
                let Some(bucket) = self.host_of(now, stream, &request.user, outbox) else { return };
                self.shedding.handle_bind(now, stream, self.queues.way(bucket.into()));
                self.announcer.handle_bind(&self.queues, stream, bucket, &request);
                self.send(now, bucket, XmppShardMessage::Bind { edge, request }, outbox);
            }
            C2sEvent::Resume { stream, user, id, seen } => {
                let edge = edge_of(stream);
                let Some(bucket) = self.host_of(now, stream, &user, outbox) else { return };
                self.send(now, bucket, XmppShardMessage::Resume { edge, user, id, seen }, outbox);
            }
            C2sEvent::Stanza { stream, element } => {
                let edge = edge_of(stream);
                let Some(bucket) = self.streams.bucket_of(stream, &element) else { return };
                self.send(now, bucket, XmppShardMessage::Stanza { edge, element }, outbox);
            }
            C2sEvent::Nonza { stream, element } => {
                let Some(bucket) = self.streams.bucket_of(stream, &element) else { return };
                self.send(now, bucket, XmppShardMessage::Nonza { edge: edge_of(stream), element }, outbox);
            }
            C2sEvent::Bosh { shard, call } if self.queues.map().has(shard) => {
                outbox.push(XmppEffect::Bosh { shard, call });
            }
            C2sEvent::Bosh { call, .. } => call.refuse(),
            C2sEvent::Failed { peer, domain, failed } => {
                self.clients.handle_failed(now, peer, &domain, &failed);
            }
            C2sEvent::Drained { stream } => {
                let bucket = self.streams.get(stream).and_then(|stream| stream.bucket.get());
                let Some(bucket) = bucket else { return };
                self.send(now, bucket, XmppShardMessage::Drained { edge: edge_of(stream) }, outbox);
            }
            C2sEvent::Gone { stream, bucket, in_order } => {
                self.send(now, bucket, XmppShardMessage::Gone { edge: edge_of(stream), in_order }, outbox);
            }
        }
    }

    /// Lets the access of clients handle an input.
    pub(super) fn with_clients<T>(
        &mut self,
        now: Instant,
        outbox: &mut Vec<XmppEffect>,
        act: impl FnOnce(&mut ClientAccess, &mut AccessContext<'_>) -> T,
    ) -> T {
        let clients = &mut self.clients;
        let (done, failures) =
            self.streams.with_failures(|streams| act(clients, &mut AccessContext { now, streams, outbox }));
        self.clients.handle_failures(now, failures);
        done
    }

    /// The bucket of the account of a stream that asks for a session.
    fn host_of(
        &mut self,
        now: Instant,
        stream: u64,
        user: &xmpp::Jid,
        outbox: &mut Vec<XmppEffect>,
    ) -> Option<Bucket> {
        self.with_clients(now, outbox, |clients, cx| clients.handle_signed_in(cx, stream, user))
    }

    /// A shard of a life that is over has no inbox: what is for it fails as in a full one.
    pub(super) fn send(
        &mut self,
        now: Instant,
        to: impl Into<MessageTarget>,
        message: XmppShardMessage,
        outbox: &mut Vec<XmppEffect>,
    ) {
        let target = to.into();
        match self.queues.way(target) {
            Way::Own => self.handle_message(now, message, outbox),
            Way::Shard(to) => self.queues.push(to, message),
            Way::Node(to) => farm::send_to_node(self, now, to, message, outbox),
            Way::Wait => farm::wait(self, now, target, message, outbox),
            Way::Nowhere => drop(self.take_back(now, vec![message], outbox)),
        }
    }

    /// Sends the outcome of a decision about a stanza's way.
    pub(super) fn send_addressed(
        &mut self,
        now: Instant,
        addressed: Option<AddressedMessage>,
        outbox: &mut Vec<XmppEffect>,
    ) {
        if let Some(addressed) = addressed {
            remote::send(self, now, addressed, outbox);
        }
    }

    /// Handles a message as its receiver: as the owner of an address for its host, or as the shard of a connection. In a farm
    /// `farm::handle_message` comes before it.
    pub(crate) fn handle_message(
        &mut self,
        now: Instant,
        message: XmppShardMessage,
        outbox: &mut Vec<XmppEffect>,
    ) {
        match message {
            XmppShardMessage::Bind { edge, request } => shedding::bind(self, now, edge, &request, outbox),
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
                announcing::end_session(self, now, (edge, in_order), outbox);
            }
            XmppShardMessage::Drained { edge } => {
                self.tell_host(now, outbox, |host, out| host.handle_drained(now, edge, out));
            }
            XmppShardMessage::Routed(element) => {
                let sources = &self.host.get().settings().rtbl;
                for AddressedMessage { to, message } in
                    rtbl::copies_of_notification(&element, sources, &self.queues)
                {
                    self.send(now, to, message, outbox);
                }
                self.tell_host(now, outbox, |host, out| host.handle_routed(now, *element, out));
            }
            message @ (XmppShardMessage::AttachOutcome { .. }
            | XmppShardMessage::Detached { .. }
            | XmppShardMessage::ToComponent { .. }
            | XmppShardMessage::Outbound { .. }
            | XmppShardMessage::OutboundOutcome { .. }) => {
                remote::handle_message(self, now, message, outbox);
            }
            XmppShardMessage::Said { from, to, words } => self.tell_host(now, outbox, |host, out| {
                host.handle_phone(now, PhoneEvent::Sent { from, to, words }, out);
            }),
            XmppShardMessage::Act { from, id, act } => self.act(now, (from, id), &act, outbox),
            XmppShardMessage::HostActionResult { id, answer } => {
                let reply = self.shard_requests.handle_result(id, *answer);
                self.answer_host(now, reply, outbox);
            }
            XmppShardMessage::Reply { token, answer } => self.handle_reply(now, &token, *answer, outbox),
            XmppShardMessage::Invited { invited, inviter } => {
                self.tell_host(now, outbox, |host, out| host.befriend_both(now, &invited, &inviter, out));
            }
            XmppShardMessage::Befriend { user, contact } => {
                self.tell_host(now, outbox, |host, out| host.befriend(now, (&user, &contact), None, out));
            }
            XmppShardMessage::Servers(message) => self.router.handle_server_message(*message),
            message => announcing::handle_message(self, now, message, outbox),
        }
    }

    /// Handles a message of this process: of operators, links and tasks beside the shard.
    pub(crate) fn handle_local_message(
        &mut self,
        now: Instant,
        message: LocalXmppMessage,
        outbox: &mut Vec<XmppEffect>,
    ) {
        match message {
            LocalXmppMessage::Bosh(call) => self.streams.deliver_call(*call),
            LocalXmppMessage::Operate { act, answer } => {
                self.ask_all(now, Requester::Operator(answer), &act, outbox);
            }
            LocalXmppMessage::Question { iq, answer } => {
                if let Some(iq) = self.shard_requests.question(self.queues.own(), *iq, answer) {
                    self.route(now, Box::new(iq), outbox);
                }
            }
            LocalXmppMessage::Returned { to, is_dead, message } => {
                farm::handle_returned(self, now, (to, is_dead), *message, outbox);
            }
            LocalXmppMessage::Authenticated { id, verdict } => {
                self.with_clients(now, outbox, |clients, cx| clients.handle_verdict(cx, id, verdict));
            }
            LocalXmppMessage::Administered { id, result } => {
                let reply = self.host_requests.handle_administered(id, *result);
                self.answer_host(now, reply, outbox);
            }
        }
    }

    /// Lets the host handle an input, and performs its effects.
    pub(super) fn tell_host(
        &mut self,
        now: Instant,
        outbox: &mut Vec<XmppEffect>,
        act: impl FnOnce(&mut Host, &mut chat::Outbox),
    ) {
        self.rtbl.update_host(&mut self.host);
        if self.host.handle(act) {
            while let Some(effect) = self.host.next_effect() {
                self.perform(now, effect, outbox);
            }
        }
    }

    /// Gives the host the answer to a request, if there is one.
    pub(super) fn answer_host(
        &mut self,
        now: Instant,
        reply: Option<HostReply>,
        outbox: &mut Vec<XmppEffect>,
    ) {
        if let Some(HostReply { ticket, result }) = reply {
            self.tell_host(now, outbox, |host, out| host.handle_store_reply(now, ticket, result, out));
        }
    }

    /// Performs an effect of the host. Requests that are answered at once give the host an input, whose effects are performed after those
    /// that wait already (`HostDriver`).
    fn perform(&mut self, now: Instant, effect: Effect, outbox: &mut Vec<XmppEffect>) {
        match effect {
            Effect::Bound { edge, bound } => {
                self.shedding.handle_answered(now, edge, &bound);
                if let Some(announced) = announcing::resumed_session(self, edge, &bound) {
                    self.send(now, edge.shard, announced, outbox);
                }
                self.send(now, edge.shard, XmppShardMessage::Bound { edge, bound: Box::new(bound) }, outbox);
            }
            Effect::Deliver { edge, element } => {
                self.send(now, edge.shard, XmppShardMessage::Deliver { edge, element }, outbox);
            }
            Effect::Handled(came) => self.counted.message_handling.record(now.since(came)),
            // After all elements of one input, so that the stream writes them to its socket at once.
            Effect::Flush { edge } => self.send(now, edge.shard, XmppShardMessage::Flush { edge }, outbox),
            Effect::Close { edge, condition, detail } => {
                let condition = StreamCondition::named(condition);
                self.send(now, edge.shard, XmppShardMessage::Close { edge, condition, detail }, outbox);
            }
            Effect::Route(element) => {
                self.counted.fan_out += u64::from(element.name() == "presence");
                self.route(now, element, outbox);
            }
            Effect::Load { ticket, load: Load::Slot { user, name, size, kind } } => {
                let uploads = self.streams.uploads();
                let slot = uploads.and_then(|uploads| uploads.slot(now, &user, &name, size, &kind));
                let result =
                    slot.map(|slot| StoreReply::Slot(Box::new(slot))).ok_or(StoreFailure::Unavailable);
                self.answer_host(now, Some(HostReply { ticket, result }), outbox);
            }
            Effect::Load { ticket, load: Load::Activate(activation) } => {
                let result = bytestreams::activate(self, &activation);
                self.answer_host(now, Some(HostReply { ticket, result }), outbox);
            }
            Effect::Load { ticket, load: Load::Act(act) }
                if self.queues.own().life == Life::default() || !nodes::concerns_all_nodes(&act) =>
            {
                self.ask_all(now, Requester::Host(ticket), &Arc::new(*act), outbox);
            }
            Effect::Load { ticket, load } => {
                let reply = self.host_requests.load(ticket, load, outbox);
                self.answer_host(now, reply, outbox);
            }
            Effect::Event(event) => self.webhooks.iter().for_each(|webhooks| webhooks.post(&event)),
            Effect::Befriend { user, contact } => {
                let owner = Bucket::of(user.as_str());
                self.send(now, owner, XmppShardMessage::Befriend { user, contact }, outbox);
            }
            Effect::Access { ticket, access } => {
                let reply = self.host_requests.access(now, ticket, access, outbox);
                self.answer_host(now, reply, outbox);
            }
            Effect::Change { ticket, change } => {
                self.counted.change(&change);
                self.host_requests.change(now, ticket, change, outbox);
            }
            effect => outbox.extend(self.phones.handle_effect(effect).map(XmppEffect::Phone)),
        }
    }

    /// Sends a stanza on its way, which its `to` decides.
    pub(super) fn route(&mut self, now: Instant, element: Box<Element>, outbox: &mut Vec<XmppEffect>) {
        let is_foreign =
            self.queues.shared().is_some() && remote::is_foreign(self.host.get().settings(), &element);
        let report = is_foreign.then(|| chat::report_of_refused(&element)).flatten();
        let addressed = self.router.route(self.host.get().settings(), element);
        let report = remote::report_of_ended(report, addressed.as_ref());
        self.send_addressed(now, addressed, outbox);
        if let Some(report) = report {
            self.route(now, Box::new(report), outbox);
        }
    }

    /// Handles components' events since the last turn. Returns how many there were.
    pub(super) fn turn_components(&mut self, now: Instant, outbox: &mut Vec<XmppEffect>) -> usize {
        let events = self.router.components.take_events();
        let count = events.len();
        for event in events {
            let (shard, failures) = (self.queues.own(), &self.clients.access().failures);
            match self.router.components.handle_event(now, shard, event, failures) {
                Some(ComponentUpdate::Attached { edge, domain }) => {
                    for shard in remote::shards_of_farm(&self.queues) {
                        let attached = XmppShardMessage::AttachOutcome { edge, domain: domain.clone() };
                        self.send(now, shard, attached, outbox);
                    }
                    for element in privileged::advertisement(self.host.get().settings(), &domain) {
                        let element = Box::new(element);
                        let told = XmppShardMessage::ToComponent { edge, element };
                        self.send(now, edge.shard, told, outbox);
                    }
                }
                Some(ComponentUpdate::Detached { edge, domain }) => {
                    for shard in remote::shards_of_farm(&self.queues) {
                        let detached = XmppShardMessage::Detached { edge, domain: domain.clone() };
                        self.send(now, shard, detached, outbox);
                    }
                }
                Some(ComponentUpdate::Unsent(stanzas)) => {
                    // RFC 6120 §8.3.3.19: without another connection each sender is told, but for presence.
                    stanzas.into_iter().for_each(|stanza| self.route(now, Box::new(stanza), outbox));
                }
                Some(ComponentUpdate::Stanza(mut element)) => {
                    privileged::prepare(self.host.get().settings(), &mut element);
                    self.route(now, Box::new(element), outbox);
                }
                None => {}
            }
        }
        count
    }

    /// Handles events of other servers since the last turn, and due timers. Returns how many there were.
    pub(super) fn turn_servers(&mut self, now: Instant, outbox: &mut Vec<XmppEffect>) -> usize {
        let events = self.router.take_server_events(now);
        let count = events.len();
        for event in events {
            if let S2sEvent::Outcome(receipt, outcome) = event {
                remote::report(self, now, receipt, outcome, outbox);
                continue;
            }
            let addressed = self.router.handle_server_event(self.host.get().settings(), event);
            self.send_addressed(now, addressed, outbox);
        }
        count
    }

    /// Asks the hosts of all shards; the answers are added up.
    fn ask_all(
        &mut self,
        now: Instant,
        asker: Requester,
        act: &Arc<HostAction>,
        outbox: &mut Vec<XmppEffect>,
    ) {
        // Each answer comes back to this shard with the number; the last one completes the request.
        let from = self.queues.own();
        let id = self.shard_requests.begin(asker, self.queues.map().shards());
        for shard in self.queues.map().all() {
            self.send(now, shard, XmppShardMessage::Act { from, id, act: Arc::clone(act) }, outbox);
        }
    }

    /// This shard's part of what is asked of all.
    fn act(
        &mut self,
        now: Instant,
        (from, id): (ShardAddress, u64),
        act: &HostAction,
        outbox: &mut Vec<XmppEffect>,
    ) {
        let mut answer = ActAnswer::default();
        self.tell_host(now, outbox, |host, out| answer.acted = host.act(now, act, out));
        if let HostAction::Sessions { jid, max } = act {
            answer.connections = self.streams.connections(jid.as_ref(), *max as usize);
        }
        self.send(now, from, XmppShardMessage::HostActionResult { id, answer: Box::new(answer) }, outbox);
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
                    let bound = Box::new(refused);
                    self.send(now, edge.shard, XmppShardMessage::Bound { edge, bound }, outbox);
                }
                XmppShardMessage::Resume { edge, .. } => {
                    let reason = Element::new("resource-constraint", ns::STANZA_ERRORS);
                    let failed = Element::new("failed", ns::SM).child(reason);
                    let bound = Box::new(c2s::Bound::NotResumed { failed });
                    self.send(now, edge.shard, XmppShardMessage::Bound { edge, bound }, outbox);
                }
                XmppShardMessage::Restore { edge, .. } => {
                    let (condition, detail) = (StreamCondition::named(farm::MOVED), None);
                    self.send(now, edge.shard, XmppShardMessage::Close { edge, condition, detail }, outbox);
                }
                // The host has not counted it (XEP-0198): the stream of another node's client ends.
                XmppShardMessage::Stanza { edge, .. } if edge.shard.life != self.queues.own().life => {
                    let (condition, detail) = (StreamCondition::named("resource-constraint"), None);
                    self.send(now, edge.shard, XmppShardMessage::Close { edge, condition, detail }, outbox);
                }
                XmppShardMessage::Stanza { element, .. } => self.refuse_busy(now, &element, outbox),
                XmppShardMessage::Routed(element) | XmppShardMessage::ToComponent { element, .. } => {
                    self.refuse_busy(now, &element, outbox);
                }
                XmppShardMessage::Outbound { receipt, .. } => {
                    remote::handle_outcome(self, now, receipt, Outcome::Untaken, outbox);
                }
                // A copy: the message itself goes its own way.
                XmppShardMessage::Said { .. } => {}
                XmppShardMessage::Act { id, .. } => {
                    let reply = self.shard_requests.handle_refused(id);
                    self.answer_host(now, reply, outbox);
                }
                XmppShardMessage::Servers(message) => match *message {
                    ShardMessage::Over { receipt: Some(receipt), .. } => {
                        remote::report(self, now, receipt, Outcome::Untaken, outbox);
                    }
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

    /// Answers a stanza that found its queue full. Its sender has the answer, so it is handled (XEP-0198 §4).
    fn refuse_busy(&mut self, now: Instant, element: &Element, outbox: &mut Vec<XmppEffect>) {
        if let Some(report) = chat::report_of_refused(element) {
            self.route(now, Box::new(report), outbox);
        }
        let answer = self.router.refuse_busy(self.host.get().settings(), element);
        self.send_addressed(now, answer, outbox);
    }

    /// A message of a phone for an account of this shard.
    pub(crate) fn handle_offer(
        &mut self,
        now: Instant,
        to: Offering,
        offer: &Offer,
        outbox: &mut Vec<XmppEffect>,
    ) {
        match self.phones.handle_offer(ChatAccounts::new(self.host.get()), to, offer) {
            Ok(OfferedMessage { event, copy }) => {
                if let Some(SentCopy { from, to, words }) = copy {
                    let owner = Bucket::of(from.as_str());
                    self.send(now, owner, XmppShardMessage::Said { from, to, words }, outbox);
                }
                self.tell_host(now, outbox, |host, out| host.handle_phone(now, event, out));
            }
            Err(effect) => outbox.push(XmppEffect::Phone(effect)),
        }
    }

    /// A phone's watch of an account of this shard.
    pub(crate) fn handle_watch(
        &mut self,
        now: Instant,
        watcher: &str,
        watch: PendingWatch,
        outbox: &mut Vec<XmppEffect>,
    ) {
        match self.phones.handle_watch(ChatAccounts::new(self.host.get()), watcher, watch) {
            Ok(event) => self.tell_host(now, outbox, |host, out| host.handle_phone(now, event, out)),
            Err(effect) => outbox.push(XmppEffect::Phone(effect)),
        }
    }

    /// Handles the presence of an account's phones.
    pub(crate) fn handle_presence(
        &mut self,
        now: Instant,
        user: &Bare,
        presence: &router::Presence,
        outbox: &mut Vec<XmppEffect>,
    ) {
        let event = phones::changed(user, presence);
        self.tell_host(now, outbox, |host, out| host.handle_phone(now, event, out));
    }

    /// Handles the outcome of a message to a phone. `None`: there was no phone.
    pub(crate) fn handle_texted(
        &mut self,
        now: Instant,
        id: u64,
        texted: Option<TextOutcome>,
        outbox: &mut Vec<XmppEffect>,
    ) {
        let reply = self.phones.handle_texted(id, texted);
        self.answer_host(now, Some(reply), outbox);
    }

    /// Handles the answer to a question of this shard: of an operator, for block lists, or for the features of delegated namespaces.
    fn handle_reply(&mut self, now: Instant, token: &str, answer: Element, outbox: &mut Vec<XmppEffect>) {
        let own = self.queues.own();
        for request in self.rtbl.handle_reply(now, own, (token, &answer), &mut self.host) {
            self.route(now, Box::new(request), outbox);
        }
        if token == privileged::NESTED {
            self.tell_host(now, outbox, |host, _| host.components().handle_nested_answer(now, &answer));
        }
        self.shard_requests.handle_reply(token, answer);
    }
}

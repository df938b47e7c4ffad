//! Who gets what: from clients to hosts, from hosts to clients, other hosts and the record.

use chat::{Effect, Host, Load, StoreFailure, StoreReply};
use cluster::Bucket;
use stdx::Instant;
use store::Write;
use xmpp::ConnectionId;
use xmpp::s2s::{Recipient, ShardMessage};
use xmpp::sasl::{CredentialAnswer, CredentialQuery};
use xmpp::stanza::{self, Condition};
use xmpp::{Element, Jid, c2s, ns};

use super::access::Claim;
use super::servers::{self, Event as ServerEvent};
use super::streams::Event;
use super::{Asked, Wish, Xmpp, XmppLetter, ask, record};

impl Xmpp {
    /// Who owns an address.
    pub(super) fn owner(&self, bare: &str) -> u16 {
        Bucket::of(bare).shard(self.shards)
    }

    fn edge(&self, stream: u64) -> ConnectionId {
        ConnectionId { shard: self.shard, connection: stream }
    }

    pub(super) fn handle_event(&mut self, now: Instant, event: Event, wishes: &mut Vec<Wish>) {
        match event {
            Event::Find { stream, find, domain } => self.find(now, stream, find, domain, wishes),
            Event::Tokens { stream, work } => self.tokens(stream, work, wishes),
            Event::Invited { stream, token, domain } => self.invited(now, stream, &token, domain, wishes),
            Event::Register { stream, registration } => self.register(stream, registration, wishes),
            Event::Bind { stream, request } => {
                let edge = self.edge(stream);
                let Some(owner) = self.settle(now, stream, &request.user) else { return };
                self.send(now, owner, XmppLetter::Bind { edge, request }, wishes);
            }
            Event::Resume { stream, user, id, seen } => {
                let edge = self.edge(stream);
                let Some(owner) = self.settle(now, stream, &user) else { return };
                self.send(now, owner, XmppLetter::Resume { edge, user, id, seen }, wishes);
            }
            Event::Stanza { stream, element } => {
                let edge = self.edge(stream);
                let Some(owner) = self.host_of(stream, &element) else { return };
                self.send(now, owner, XmppLetter::Stanza { edge, element }, wishes);
            }
            Event::Nonza { stream, element } => {
                let Some(owner) = self.host_of(stream, &element) else { return };
                self.send(now, owner, XmppLetter::Nonza { edge: self.edge(stream), element }, wishes);
            }
            Event::Bosh { shard, call } if shard < self.shards => {
                self.send(now, shard, XmppLetter::Bosh(call), wishes);
            }
            Event::Bosh { call, .. } => call.refuse(),
            Event::Failed { peer, domain, failed } => {
                self.sign_in_failures += 1;
                self.access.fail(now, &Claim::new(peer, &failed.user, &domain), failed.cause);
            }
            Event::Drained { stream } => {
                let edge = self.edge(stream);
                let Some(owner) = self.streams.get(stream).and_then(|stream| stream.host.get()) else {
                    return;
                };
                self.send(now, owner, XmppLetter::Drained { edge }, wishes);
            }
            Event::Gone { stream, host, in_order } => {
                self.send(now, host, XmppLetter::Gone { edge: self.edge(stream), in_order }, wishes);
            }
        }
    }

    fn find(
        &mut self,
        now: Instant,
        stream: u64,
        find: CredentialQuery,
        domain: Box<str>,
        wishes: &mut Vec<Wish>,
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
        let id = self.ask(Asked::SignIn { stream, find, domain: domain.clone() });
        wishes.push(Wish::Account { id, user, domain });
    }

    /// Notes whose host the stream has from now on.
    fn settle(&mut self, now: Instant, stream: u64, user: &Jid) -> Option<u16> {
        let owner = self.owner(user.bare_str());
        let stream = self.streams.get(stream)?;
        if stream.host.replace(owner).is_none() {
            stream.establish();
            self.sign_ins += 1;
            self.streams.count_sign_in(&stream);
            // By an alias, it is the alias that is known from there. Anonymous clients have proved nothing.
            if let Some(claimed) = stream.claimed() {
                let claim = Claim::new(stream.peer(), &claimed, user.domain());
                self.access.attempts.succeed(now, &claim.attempt());
            }
        }
        Some(owner)
    }

    /// Of a stream that may be gone already: its last stanzas are as good as the others.
    fn host_of(&self, stream: u64, element: &Element) -> Option<u16> {
        let known = self.streams.get(stream).and_then(|stream| stream.host.get());
        known.or_else(|| Some(self.owner(Jid::parse(element.attr("from")?).ok()?.bare_str())))
    }

    pub(super) fn send(&mut self, now: Instant, shard: u16, letter: XmppLetter, wishes: &mut Vec<Wish>) {
        if shard == self.shard {
            self.handle_letter(now, letter, wishes);
        } else if let Some(post) = self.post.get_mut(usize::from(shard)) {
            post.push(letter);
        }
    }

    pub(crate) fn handle_letter(&mut self, now: Instant, letter: XmppLetter, wishes: &mut Vec<Wish>) {
        match letter {
            XmppLetter::Bound { edge, bound } => self.bound(edge, *bound),
            XmppLetter::Deliver { edge, element } => self.deliver(edge, &element),
            XmppLetter::Close { edge, condition } => {
                self.streams.tell(edge.connection, |c2s, out| c2s.fail(condition, out));
            }
            XmppLetter::Flush { edge } => self.streams.flush(edge.connection),
            XmppLetter::Bosh(call) => self.streams.deliver_call(*call),
            XmppLetter::Bind { edge, request } => {
                self.tell_host(now, wishes, |host, out| host.handle_bind(now, edge, &request, out));
            }
            XmppLetter::Resume { edge, user, id, seen } => {
                self.tell_host(now, wishes, |host, out| {
                    host.handle_resume(now, edge, (&user, &id, seen), out);
                });
            }
            XmppLetter::Stanza { edge, element } => {
                self.tell_host(now, wishes, |host, out| host.handle_stanza(now, edge, element, out));
            }
            XmppLetter::Nonza { edge, element } => {
                self.tell_host(now, wishes, |host, out| host.handle_nonza(now, edge, &element, out));
            }
            XmppLetter::Gone { edge, in_order } => {
                self.tell_host(now, wishes, |host, out| host.handle_gone(now, edge, in_order, out));
            }
            XmppLetter::Drained { edge } => {
                self.tell_host(now, wishes, |host, out| host.handle_drained(now, edge, out));
            }
            XmppLetter::Routed(element) => {
                self.tell_host(now, wishes, |host, out| host.handle_routed(now, *element, out));
            }
            letter @ (XmppLetter::AttachOutcome { .. }
            | XmppLetter::Detached { .. }
            | XmppLetter::ToComponent { .. }) => self.handle_component_letter(now, letter, wishes),
            XmppLetter::Said { from, to, words } => {
                self.tell_host(now, wishes, |host, out| host.handle_said(now, from, to, words, out));
            }
            XmppLetter::Act { from, id, act } => self.act(now, (from, id), &act, wishes),
            XmppLetter::HostActionResult { id, answer } => self.acted(now, id, *answer, wishes),
            XmppLetter::Operate { act, answer } => self.operate(now, &act, answer, wishes),
            XmppLetter::Question { iq, answer } => self.question(now, *iq, answer, wishes),
            XmppLetter::Administered { id, result } => self.administered(now, id, *result, wishes),
            XmppLetter::Reply { token, answer } => self.reply(&token, *answer),
            XmppLetter::Invited { invited, inviter } => {
                self.tell_host(now, wishes, |host, out| host.befriend_both(now, &invited, &inviter, out));
            }
            XmppLetter::Befriend { user, contact } => {
                self.tell_host(now, wishes, |host, out| host.befriend(now, &user, &contact, out));
            }
            XmppLetter::Servers(letter) => {
                if let Some(servers) = &mut self.servers {
                    servers.handle_letter(*letter);
                }
            }
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

    /// Lets the host work and does all that comes of it. A panic there is our bug; it costs what it was about.
    pub(super) fn tell_host(
        &mut self,
        now: Instant,
        wishes: &mut Vec<Wish>,
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
        // Who is at work already does these in their turn.
        if std::mem::replace(&mut self.is_working, true) {
            return;
        }
        while let Some(effect) = self.todo.pop_front() {
            self.perform(now, effect, wishes);
        }
        self.is_working = false;
    }

    fn perform(&mut self, now: Instant, effect: Effect, wishes: &mut Vec<Wish>) {
        match effect {
            Effect::Bound { edge, bound } => {
                self.send(now, edge.shard, XmppLetter::Bound { edge, bound: Box::new(bound) }, wishes);
            }
            Effect::Deliver { edge, element } => {
                self.send(now, edge.shard, XmppLetter::Deliver { edge, element }, wishes);
            }
            Effect::Flush { edge } => self.send(now, edge.shard, XmppLetter::Flush { edge }, wishes),
            Effect::Close { edge, condition } => {
                self.send(now, edge.shard, XmppLetter::Close { edge, condition }, wishes);
            }
            Effect::Route(element) => {
                self.counted.fan_out += u64::from(element.name() == "presence");
                self.route(now, element, wishes);
            }
            Effect::Load { ticket, load: Load::User { user } } => {
                let (name, domain) = (user.local().unwrap_or_default().into(), user.domain().into());
                let id = self.ask(Asked::User { ticket, user });
                wishes.push(Wish::Account { id, user: name, domain });
            }
            Effect::Load { ticket, load: Load::Slot { user, name, size, kind } } => {
                let uploads = self.streams.uploads();
                let slot = uploads.and_then(|uploads| uploads.slot(now, &user, &name, size, &kind));
                let loaded =
                    slot.map(|slot| StoreReply::Slot(Box::new(slot))).ok_or(StoreFailure::Unavailable);
                self.tell_host(now, wishes, |host, out| host.handle_store_reply(now, ticket, loaded, out));
            }
            Effect::Load { ticket, load: Load::Act(act) } => self.ask_all_for_host(now, ticket, *act, wishes),
            Effect::Load { ticket, load: Load::Accounts(ask) } => {
                let id = self.ask(Asked::Record { ticket });
                wishes.push(Wish::Accounts { id, ask });
            }
            Effect::Load { ticket, load } => match record::read_of(load) {
                Some(read) => {
                    let id = self.ask(Asked::Record { ticket });
                    wishes.push(Wish::Read { id, read });
                }
                None => {
                    let unavailable = Err(StoreFailure::Unavailable);
                    self.tell_host(now, wishes, |host, out| {
                        host.handle_store_reply(now, ticket, unavailable, out);
                    });
                }
            },
            Effect::Befriend { user, contact } => {
                let owner = self.owner(user.as_str());
                self.send(now, owner, XmppLetter::Befriend { user, contact }, wishes);
            }
            Effect::Access { ticket, access } => self.host_access(now, ticket, access, wishes),
            Effect::Change { ticket, change } => {
                self.counted.change(&change);
                let id = self.ask(Asked::Record { ticket });
                wishes.push(Wish::Write { id, write: Write::Xmpp(record::write_of(now, change)) });
            }
            effect => self.perform_for_phones(effect, wishes),
        }
    }

    pub(super) fn route(&mut self, now: Instant, element: Box<Element>, wishes: &mut Vec<Wish>) {
        // Without an address it is nobody's.
        let Ok(Some(to)) = stanza::to(&element) else { return };
        if let Some((shard, token)) = ask::reply_of(&element, &to) {
            return self.send(now, shard, XmppLetter::Reply { token, answer: element }, wishes);
        }
        if self.host.settings().is_ours(to.domain()) {
            let owner = self.owner(to.bare_str());
            return self.send(now, owner, XmppLetter::Routed(element), wishes);
        }
        let Some(element) = self.route_to_component(now, &to, element, wishes) else { return };
        if self.servers.is_some() {
            return self.send_abroad(now, ShardMessage::Outbound { element }, wishes);
        }
        if let Some(answer) = servers::refuse(&element) {
            self.route_answer(now, answer, wishes);
        }
    }

    /// To whoever has to do with that server.
    fn send_abroad(&mut self, now: Instant, letter: ShardMessage, wishes: &mut Vec<Wish>) {
        let shard = match letter.recipient() {
            Recipient::Owner(domain) => self.owner(&domain),
            Recipient::Shard(shard) => shard,
        };
        self.send(now, shard, XmppLetter::Servers(Box::new(letter)), wishes);
    }

    /// What other servers said since the last turn, and what is due. How much it was.
    pub(super) fn turn_servers(&mut self, now: Instant, wishes: &mut Vec<Wish>) -> usize {
        let Some(servers) = &mut self.servers else { return 0 };
        if servers.deadline().is_some_and(|deadline| deadline <= now) {
            servers.expire();
        }
        let mut events = Vec::new();
        servers.take_events(&mut events);
        let count = events.len();
        for event in events {
            match event {
                ServerEvent::Deliver(element) => self.deliver_from_abroad(now, element, wishes),
                ServerEvent::Send(letter) => self.send_abroad(now, letter, wishes),
            }
        }
        count
    }

    /// To an address of ours, and never on to another server.
    fn deliver_from_abroad(&mut self, now: Instant, element: Box<Element>, wishes: &mut Vec<Wish>) {
        let Ok(Some(to)) = stanza::to(&element) else { return };
        if self.servers.as_ref().is_some_and(|servers| servers.is_local(to.domain())) {
            self.route(now, element, wishes);
        }
    }

    /// To whoever asked; an answer to nobody is dropped.
    pub(super) fn route_answer(&mut self, now: Instant, answer: Element, wishes: &mut Vec<Wish>) {
        let Ok(Some(to)) = stanza::to(&answer) else { return };
        if self.host.settings().is_local(to.domain()) {
            let owner = self.owner(to.bare_str());
            self.send(now, owner, XmppLetter::Routed(Box::new(answer)), wishes);
        } else if let Some(element) = self.route_to_component(now, &to, Box::new(answer), wishes)
            && self.servers.is_some()
        {
            self.send_abroad(now, ShardMessage::Outbound { element }, wishes);
        }
    }

    /// Letters that found a shard's inbox full. What is given back is to be sent all the same: it ends or answers
    /// something, and there is never more of it than was asked for.
    pub(crate) fn take_back(
        &mut self,
        now: Instant,
        letters: Vec<XmppLetter>,
        wishes: &mut Vec<Wish>,
    ) -> Vec<XmppLetter> {
        let mut kept = Vec::new();
        for letter in letters {
            match letter {
                XmppLetter::Bind { edge, .. } => {
                    let refused = c2s::Bound::Refused(Condition::ResourceConstraint.into());
                    self.bound(edge, refused);
                }
                XmppLetter::Resume { edge, .. } => {
                    let reason = Element::new("resource-constraint", ns::STANZA_ERRORS);
                    let failed = Element::new("failed", ns::SM).child(reason);
                    self.bound(edge, c2s::Bound::NotResumed { failed });
                }
                XmppLetter::Stanza { element, .. } => self.refuse_busy(now, &element, wishes),
                XmppLetter::Routed(element) | XmppLetter::ToComponent { element, .. } => {
                    self.refuse_busy(now, &element, wishes);
                }
                // A copy: the message itself goes its own way.
                XmppLetter::Said { .. } => {}
                // Dropped, it is answered "try again".
                XmppLetter::Bosh(_) => {}
                XmppLetter::Act { id, .. } => self.not_asked(now, id, wishes),
                XmppLetter::Servers(letter) => match *letter {
                    ShardMessage::Outbound { element } | ShardMessage::Over { element, .. } => {
                        self.refuse_busy(now, &element, wishes);
                    }
                    // The other server asks again when nothing comes, or does without.
                    ShardMessage::Verify { .. } | ShardMessage::Offer { .. } => {}
                    letter => kept.push(XmppLetter::Servers(Box::new(letter))),
                },
                letter => kept.push(letter),
            }
        }
        kept
    }

    pub(super) fn refuse_busy(&mut self, now: Instant, element: &Element, wishes: &mut Vec<Wish>) {
        if stanza::may_be_refused(element) && element.name() != "presence" {
            let answer = stanza::refusal(element, &Condition::ResourceConstraint.into());
            self.route_answer(now, answer, wishes);
        }
    }
}

/// From then on stanzas are counted (XEP-0198 §3).
fn begins_management(element: &Element) -> bool {
    element.is("enabled", ns::SM) || element.is("resumed", ns::SM)
}

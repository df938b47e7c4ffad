//! MESSAGE between phones and chat clients of the same accounts (RFC 7572): offered to those who chat, and words of theirs.

use router::{Binding, KeptMessage, Offered};
use stdx::Instant;
use stdx::slab::Key;
use stdx::source::SourcePrefix;

use super::{Caller, Effect, Endpoint, Outbox, Stage, User};
use crate::events::offer_query;
use crate::wire::{Method, Reply, Uri};

impl Endpoint {
    /// Words of chat for the phones of an account. [`Effect::Texted`] tells what became of them.
    pub fn text(
        &mut self,
        now: Instant,
        id: u64,
        bindings: &[Binding],
        words: &KeptMessage,
        out: &mut Outbox,
    ) {
        let mut effects = std::mem::take(&mut self.event_effects);
        self.notifier.text(id, bindings, words, &mut effects);
        self.perform_events(now, effects, out);
    }

    /// Where the phones of an account are is known: a MESSAGE for all of them is for chat clients, too.
    pub(super) fn located(
        &mut self,
        now: Instant,
        key: Key,
        own_routes: usize,
        bindings: Vec<Binding>,
        is_for_account: bool,
        out: &mut Outbox,
    ) {
        let Some(context) = self.contexts.get(key) else { return };
        let is_message = context.request.method() == Method::Message
            && context.request.to_tag().is_none()
            && is_for_account;
        if is_message
            && bindings.is_empty()
            && self.is_of_stranger(key)
            && !self.accept_of_stranger(now, key, out)
        {
            return self.finish(now, key, 480, "Temporarily Unavailable", out);
        }
        let Some(context) = self.contexts.get(key) else { return };
        let offer = context.callee.as_deref().filter(|_| self.settings.events.chat && is_message);
        let query = offer.and_then(|aor| {
            let sender = self.sender_of(key);
            offer_query(now, &context.request, aor, sender.as_deref(), !bindings.is_empty())
        });
        let query = query.filter(|_| self.is_offered_first(now, key));
        let Some(query) = query else { return self.ring_bindings(now, key, own_routes, bindings, out) };
        self.set_stage(key, Stage::Offering { own_routes, bindings });
        out.push(Effect::Ask { id: Self::ask_id(key), query });
    }

    /// A stranger's MESSAGE that no phone takes: 202 at once, whether or not there is such an account and whatever becomes
    /// of it, so that neither status nor time tell which accounts there are. False when the stranger has sent enough.
    fn accept_of_stranger(&mut self, now: Instant, key: Key, out: &mut Outbox) -> bool {
        let Some(sender) = self.stranger_and_account(key) else { return false };
        if !self.messages_of_strangers.penalty(now, sender).is_pass() {
            return false;
        }
        self.messages_of_strangers.fail(now, sender);
        self.answer_early(now, key, (202, "Accepted"), out);
        true
    }

    fn stranger_and_account(&self, key: Key) -> Option<(SourcePrefix, u64)> {
        let context = self.contexts.get(key)?;
        let user = Uri::parse(context.request.uri()).ok()?.user_decoded().unwrap_or_default();
        Some((SourcePrefix::of(context.source.remote.ip()), self.keys.call.hash(user.as_bytes())))
    }

    /// A phone may say that it is where we are, and a MESSAGE come back for the same account: chat has it already. All that
    /// carries one Call-ID comes to this shard.
    fn is_offered_first(&mut self, now: Instant, key: Key) -> bool {
        let Some(context) = self.contexts.get(key) else { return false };
        let (request, aor) = (&context.request, context.callee.as_deref().unwrap_or_default());
        let call_id = request.call_id().unwrap_or_default();
        let number = request.cseq().map_or(0, |(number, _)| number);
        let parts = [aor.as_bytes(), call_id, &number.to_be_bytes()];
        let message = self.keys.call.hash_parts(&parts);
        if self.offered.get_at(now, &message).is_some() {
            return false;
        }
        self.offered.insert_until(now + crate::limits::OFFERED_FOR, message, ());
        true
    }

    /// Who has proved to have sent it, or need not prove it.
    pub(super) fn sender_of(&self, key: Key) -> Option<Box<str>> {
        let context = self.contexts.get(key)?;
        match &context.caller {
            Some(Caller::Account(aor)) => Some(aor.clone()),
            _ if context.claim_withheld => None,
            // The plan let the claim stand: a trunk, or an operator who asks nobody for proof.
            _ => {
                let claim = self.claim(&context.request)?;
                Some(format!("{}@{}", claim.user, claim.domain).into())
            }
        }
    }

    /// What chat clients say to it. Phones get it in any case; what they say matters to the sender only when nobody has
    /// it yet.
    pub(super) fn offered(&mut self, now: Instant, key: Key, offered: Offered, out: &mut Outbox) {
        let Some(context) = self.contexts.get_mut(key) else { return };
        let Stage::Offering { own_routes, bindings } = &mut context.stage else { return };
        let (own_routes, bindings) = (*own_routes, std::mem::take(bindings));
        // What a chat client has at once fills nothing.
        if offered == Offered::Delivered
            && let Some(sender) = self.stranger_and_account(key)
        {
            self.messages_of_strangers.succeed(sender);
        }
        match offered {
            Offered::Refused => self.finish(now, key, 480, "Temporarily Unavailable", out),
            Offered::Delivered if bindings.is_empty() => self.finish(now, key, 200, "OK", out),
            Offered::Delivered => {
                self.answer_early(now, key, (200, "OK"), out);
                self.ring_bindings(now, key, own_routes, bindings, out);
            }
            Offered::Nobody => self.ring_bindings(now, key, own_routes, bindings, out),
            _ if !bindings.is_empty() => self.ring_bindings(now, key, own_routes, bindings, out),
            // RFC 3428 §7.
            Offered::Kept => self.finish(now, key, 202, "Accepted", out),
            Offered::Unsupported => {
                let accept = |reply: &mut Reply| {
                    reply.header("Accept", b"text/plain, message/cpim, application/im-iscomposing+xml");
                };
                self.finish_with(now, key, 415, "Unsupported Media Type", accept, out);
            }
            Offered::Busy => {
                let retry = |reply: &mut Reply| {
                    reply.header("Retry-After", crate::limits::EVENTS_RETRY_AFTER.to_string().as_bytes());
                };
                self.finish_with(now, key, 503, "Service Unavailable", retry, out);
            }
        }
    }

    /// A final response before the phones have it. Their answers find a transaction that has said its last word.
    fn answer_early(&mut self, now: Instant, key: Key, (status, reason): (u16, &str), out: &mut Outbox) {
        let Some(context) = self.contexts.get(key) else { return };
        let tag = self.tag_of(&context.request, &context.source);
        let reply = Reply::new(&context.request, context.source.remote, status, reason, Some(&tag)).finish();
        let server = context.server;
        // The context goes on without it, however soon it ends.
        if let Some(transaction) = self.table.get_mut(server) {
            transaction.user = User::Nobody;
        }
        self.respond(now, server, status, reply, out);
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use router::{Answer, Contact, Edge, Query};

    use super::*;
    use crate::digest::Ha1s;
    use crate::endpoint::{Account, Decision, Settings};
    use crate::transport::{Packet, Source, Transport};
    use crate::wire::Message;

    const US: &str = "127.0.0.1:5060";
    const NOW: Instant = Instant::from_unix_seconds(1_700_000_000);

    fn message(headers: &str) -> String {
        format!(
            "MESSAGE sip:bob@example.test SIP/2.0\r\nVia: SIP/2.0/UDP 127.0.0.1:5071;branch=z9hG4bK-1\r\n\
             From: <sip:alice@example.test>;tag=1\r\nTo: <sip:bob@example.test>\r\nCSeq: 1 MESSAGE\r\n\
             {headers}Max-Forwards: 70\r\nContent-Length: 2\r\n\r\nhi"
        )
    }

    fn binding() -> Binding {
        Binding {
            contact: Contact {
                uri: "sip:bob@127.0.0.1:5072".into(),
                q: 1_000,
                expires: 600,
                instance: "".into(),
                reg_id: 0,
                path: "".into(),
                user_agent: "".into(),
                received: None,
            },
            expires_at: NOW + std::time::Duration::from_secs(600),
            call_id: "r".into(),
            cseq: 1,
        }
    }

    /// What is sent when that comes, in the first words of each message, and what chat was offered.
    fn receive(chat: bool, headers: &str, phones: &[Binding], offered: Offered) -> (Vec<String>, usize) {
        let mut settings = Settings::for_tests(Edge { node: 0, shard: 0 }, US.parse().unwrap());
        settings.events.chat = chat;
        let mut endpoint = Endpoint::new(settings, NOW);
        let source = Source {
            transport: Transport::Udp,
            local: US.parse().unwrap(),
            remote: "127.0.0.1:5071".parse().unwrap(),
            flow: None,
        };
        let (mut out, mut sent, mut offers) = (Outbox::new(), Vec::new(), 0);
        endpoint.handle_packet(NOW, Packet { bytes: Bytes::from(message(headers)), source }, &mut out);
        while !out.is_empty() {
            for effect in std::mem::take(&mut out) {
                match effect {
                    Effect::Plan { id, request } => {
                        let local = Decision::Local { user: request.user, domain: request.host };
                        endpoint.handle_plan(NOW, id, local, &mut out);
                    }
                    Effect::Account { id, .. } => {
                        let ha1s = Ha1s { md5: [0; 16], sha256: [0; 32], sha512_256: [0; 32] };
                        let aor = "bob@example.test".into();
                        let account = Account { aor, ha1s, disabled: false, max_contacts: 1, limits: None };
                        endpoint.handle_account(NOW, id, Ok(Some(account)), &mut out);
                    }
                    Effect::Ask { id, query } => {
                        let answer = match query {
                            Query::Lookup { .. } => Answer::Bindings(phones.to_vec()),
                            Query::Offer(offer) => {
                                assert_eq!(offer.sender.as_deref(), Some("alice@example.test"));
                                assert_eq!(offer.has_phones, !phones.is_empty());
                                offers += 1;
                                Answer::Offered(offered)
                            }
                            Query::Keep(_) => Answer::Kept(Ok(())),
                            other => panic!("{other:?}"),
                        };
                        endpoint.handle_answer(NOW, id, answer, &mut out);
                    }
                    Effect::Transmit(transmit) => {
                        let message = Message::parse(transmit.bytes).unwrap();
                        let line = String::from_utf8_lossy(message.start_line()).into_owned();
                        sent.push(line.split(' ').take(2).collect::<Vec<_>>().join(" "));
                    }
                    _ => {}
                }
            }
        }
        (sent, offers)
    }

    #[test]
    fn a_message_is_offered_to_chat_and_forked_to_phones() {
        const FORKED: &str = "MESSAGE sip:bob@127.0.0.1:5072";
        let call = "Call-ID: c\r\n";
        for (offered, alone, with_phone) in [
            (Offered::Delivered, "SIP/2.0 200", &["SIP/2.0 200", FORKED][..]),
            (Offered::Kept, "SIP/2.0 202", &[FORKED]),
            (Offered::Nobody, "SIP/2.0 202", &[FORKED]),
            (Offered::Unsupported, "SIP/2.0 415", &[FORKED]),
            (Offered::Busy, "SIP/2.0 503", &[FORKED]),
            (Offered::Refused, "SIP/2.0 480", &["SIP/2.0 480"]),
        ] {
            assert_eq!(receive(true, call, &[], offered), (vec![alone.to_owned()], 1), "{offered:?}");
            let (sent, offers) = receive(true, call, &[binding()], offered);
            assert_eq!(
                (&sent[..], offers),
                (&with_phone.iter().map(ToString::to_string).collect::<Vec<_>>()[..], 1)
            );
        }
    }

    #[test]
    fn chat_is_not_asked_where_there_is_none_nor_for_its_own_words() {
        assert_eq!(
            receive(false, "Call-ID: c\r\n", &[], Offered::Delivered),
            (vec!["SIP/2.0 202".into()], 0)
        );
        let of_chat = "Call-ID: c@chat\r\n";
        assert_eq!(receive(true, of_chat, &[], Offered::Delivered), (vec!["SIP/2.0 202".into()], 0));
    }
}

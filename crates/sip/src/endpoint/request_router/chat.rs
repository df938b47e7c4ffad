//! MESSAGE between phones and chat clients of the same accounts (RFC 7572): MESSAGEs offered to chat clients,
//! and those that chat clients send.

use router::{Binding, Offered};
use stdx::cache::Cache;
use stdx::rate::Limiter;
use stdx::slab::Key;
use stdx::source::SourcePrefix;

use super::RequestRouter;
use crate::endpoint::EndpointEffect;
use crate::endpoint::context::RequestStage;
use crate::endpoint::lower::{LowerView, ask_id};
use crate::events::offer_query;
use crate::limits;
use crate::wire::{Method, Reply};

/// The MESSAGEs that were offered to chat clients, and the rate of those of strangers.
pub(crate) struct ChatOffers {
    /// By account, Call-ID and CSeq.
    offered: Cache<u64, ()>,
    /// MESSAGEs of strangers that were taken for an account without a phone, by source and account.
    messages_of_strangers: Limiter<(SourcePrefix, u64)>,
}

impl ChatOffers {
    pub(crate) fn new() -> Self {
        ChatOffers {
            offered: Cache::new(limits::OFFERED),
            messages_of_strangers: Limiter::new(limits::MESSAGES_OF_STRANGER),
        }
    }
}

impl RequestRouter {
    /// Where the phones of an account are is known: a MESSAGE for all of them is for chat clients, too.
    pub(crate) fn located(
        &mut self,
        lower: &mut LowerView<'_>,
        key: Key,
        own_routes: usize,
        bindings: Vec<Binding>,
        is_for_account: bool,
    ) {
        let Some(context) = lower.contexts.get(key) else { return };
        let is_message = context.request.method() == Method::Message
            && context.request.to_tag().is_none()
            && is_for_account;
        if is_message
            && bindings.is_empty()
            && lower.is_of_stranger(key)
            && !self.accept_of_stranger(lower, key)
        {
            return lower.finish(key, 480, "Temporarily Unavailable");
        }
        let Some(context) = lower.contexts.get(key) else { return };
        let offer = context.callee.as_deref().filter(|_| lower.env.settings.events.chat && is_message);
        let query = offer.and_then(|aor| {
            let sender = lower.sender_of(key);
            offer_query(lower.now, &context.request, aor, sender.as_deref(), !bindings.is_empty())
        });
        let query = query.filter(|_| self.is_offered_first(lower, key));
        // Without an offer the MESSAGE goes on as any request: to phones, or it is kept.
        let Some(query) = query else { return self.ring_bindings(lower, key, own_routes, bindings) };
        // The bindings wait in the stage: they are not looked up again after the answer.
        lower.set_stage(key, RequestStage::Offering { own_routes, bindings });
        lower.out.push(EndpointEffect::Ask { id: ask_id(key), query });
    }

    /// A stranger's MESSAGE that no phone takes: 202 at once, whether or not there is such an account and whatever becomes
    /// of it, so that neither status nor time tell which accounts there are. False when the stranger has sent enough.
    fn accept_of_stranger(&mut self, lower: &mut LowerView<'_>, key: Key) -> bool {
        let Some(sender) = self.stranger_and_account(lower, key) else { return false };
        if !self.chat.messages_of_strangers.penalty(lower.now, sender).is_pass() {
            return false;
        }
        self.chat.messages_of_strangers.fail(lower.now, sender);
        lower.answer_early(key, (202, "Accepted"));
        true
    }

    /// The key by which a stranger's messages are counted: its network, and the account as the request names
    /// it, whether or not it exists.
    fn stranger_and_account(&self, lower: &mut LowerView<'_>, key: Key) -> Option<(SourcePrefix, u64)> {
        let context = lower.contexts.get(key)?;
        // By the name in the request, since an account need not exist.
        let user = context.request.request_uri().ok()?.user_decoded().unwrap_or_default();
        Some((SourcePrefix::of(context.source.remote.ip()), lower.env.keys.call.hash(user.as_bytes())))
    }

    /// A phone may say that it is where we are, and a MESSAGE come back for the same account: chat has it already. All that
    /// carries one Call-ID comes to this shard.
    fn is_offered_first(&mut self, lower: &mut LowerView<'_>, key: Key) -> bool {
        let Some(context) = lower.contexts.get(key) else { return false };
        let (request, aor) = (&context.request, context.callee.as_deref().unwrap_or_default());
        let call_id = request.call_id().unwrap_or_default();
        let number = request.cseq().map_or(0, |(number, _)| number);
        let parts = [aor.as_bytes(), call_id, &number.to_be_bytes()];
        let message = lower.env.keys.call.hash_parts(&parts);
        if self.chat.offered.get_at(lower.now, &message).is_some() {
            return false;
        }
        // Before the answer comes, so that the copy of a loop is not offered meanwhile.
        self.chat.offered.insert_until(lower.now + crate::limits::OFFERED_FOR, message, ());
        true
    }

    /// The chat clients' answer. Phones get the MESSAGE in any case; their answer matters to the sender only when no client has
    /// it yet.
    pub(crate) fn offered(&mut self, lower: &mut LowerView<'_>, key: Key, offered: Offered) {
        let Some(context) = lower.contexts.get_mut(key) else { return };
        let RequestStage::Offering { own_routes, bindings } = &mut context.stage else { return };
        let (own_routes, bindings) = (*own_routes, std::mem::take(bindings));
        // A message that a chat client has at once takes no room.
        if offered == Offered::Delivered
            && let Some(sender) = self.stranger_and_account(lower, key)
        {
            self.chat.messages_of_strangers.succeed(sender);
        }
        match offered {
            Offered::Refused => lower.finish(key, 480, "Temporarily Unavailable"),
            Offered::Delivered if bindings.is_empty() => lower.finish(key, 200, "OK"),
            Offered::Delivered => {
                lower.answer_early(key, (200, "OK"));
                self.ring_bindings(lower, key, own_routes, bindings);
            }
            Offered::NoClient => self.ring_bindings(lower, key, own_routes, bindings),
            _ if !bindings.is_empty() => self.ring_bindings(lower, key, own_routes, bindings),
            // RFC 3428 §7.
            Offered::Kept => lower.finish(key, 202, "Accepted"),
            Offered::Unsupported => {
                let accept = |reply: &mut Reply| {
                    reply.header("Accept", b"text/plain, message/cpim, application/im-iscomposing+xml");
                };
                lower.finish_with(key, 415, "Unsupported Media Type", accept);
            }
            Offered::Busy => {
                let retry = |reply: &mut Reply| {
                    reply.header("Retry-After", crate::limits::EVENTS_RETRY_AFTER.to_string().as_bytes());
                };
                lower.finish_with(key, 503, "Service Unavailable", retry);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use router::{Answer, Contact, Life, Query, ShardAddress};

    use super::*;
    use crate::digest::Ha1s;
    use crate::endpoint::{Account, Decision, EndpointSettings};
    use crate::endpoint::{Endpoint, EndpointOutbox};
    use crate::transport::{Packet, Source, Transport};
    use crate::wire::Message;
    use stdx::Instant;

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

    /// The first words of each message that is sent, and the number of offers to chat.
    fn receive(chat: bool, headers: &str, phones: &[Binding], offered: Offered) -> (Vec<String>, usize) {
        receive_from(chat, headers, &Answer::Bindings(phones.to_vec()), offered)
    }

    /// Does what `receive` does, with the owner's answer to the lookup.
    fn receive_from(chat: bool, headers: &str, found: &Answer, offered: Offered) -> (Vec<String>, usize) {
        let has_phones = matches!(found, Answer::Bindings(phones) if !phones.is_empty());
        let mut settings =
            EndpointSettings::for_tests(ShardAddress { life: Life(0), shard: 0 }, US.parse().unwrap());
        settings.events.chat = chat;
        let mut endpoint = Endpoint::new(settings, NOW);
        let source = Source {
            transport: Transport::Udp,
            local: US.parse().unwrap(),
            remote: "127.0.0.1:5071".parse().unwrap(),
            flow: None,
        };
        let (mut out, mut sent, mut offers) = (EndpointOutbox::new(), Vec::new(), 0);
        endpoint.handle_packet(NOW, Packet { bytes: Bytes::from(message(headers)), source }, &mut out);
        while !out.is_empty() {
            for effect in std::mem::take(&mut out) {
                match effect {
                    EndpointEffect::Plan { id, request } => {
                        let local = Decision::Local { user: request.user, domain: request.host };
                        endpoint.handle_plan(NOW, id, local, &mut out);
                    }
                    EndpointEffect::Account { id, .. } => {
                        let ha1s = Ha1s { md5: [0; 16], sha256: [0; 32], sha512_256: [0; 32] };
                        let aor = "bob@example.test".into();
                        let account = Account { aor, ha1s, disabled: false, max_contacts: 1, limits: None };
                        endpoint.handle_account(NOW, id, Ok(Some(account)), &mut out);
                    }
                    EndpointEffect::Ask { id, query } => {
                        let answer = match query {
                            Query::Lookup { .. } => found.clone(),
                            Query::Offer(offer) => {
                                assert_eq!(offer.sender.as_deref(), Some("alice@example.test"));
                                assert_eq!(offer.has_phones, has_phones);
                                offers += 1;
                                Answer::Offered(offered)
                            }
                            Query::Keep(_) => Answer::Kept(Ok(())),
                            other => panic!("{other:?}"),
                        };
                        endpoint.handle_answer(NOW, id, answer, &mut out);
                    }
                    EndpointEffect::Transmit(transmit) => {
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
            (Offered::NoClient, "SIP/2.0 202", &[FORKED]),
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

    /// RFC 3261 §21.5.4: no node of a farm has the address just now.
    #[test]
    fn a_request_for_an_address_without_an_owner_may_be_tried_again() {
        let (sent, offers) = receive_from(true, "Call-ID: c\r\n", &Answer::Unavailable, Offered::Delivered);
        assert_eq!((sent, offers), (vec!["SIP/2.0 503".to_owned()], 0));
    }

    #[test]
    fn a_node_without_chat_and_a_chat_text_do_not_ask_chat() {
        assert_eq!(
            receive(false, "Call-ID: c\r\n", &[], Offered::Delivered),
            (vec!["SIP/2.0 202".into()], 0)
        );
        let of_chat = "Call-ID: c@chat\r\n";
        assert_eq!(receive(true, of_chat, &[], Offered::Delivered), (vec!["SIP/2.0 202".into()], 0));
    }
}

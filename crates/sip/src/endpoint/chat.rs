//! MESSAGE between phones and chat clients of the same accounts (RFC 7572): offered to those who chat, and words of theirs.

use router::{Binding, KeptMessage, Offered};
use stdx::Instant;
use stdx::slab::Key;

use super::{Caller, Effect, Endpoint, Outbox, Stage, User};
use crate::events::offer_query;
use crate::wire::{Method, Reply};

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
        let offer = context.callee.as_deref().filter(|_| self.settings.events.chat && is_message);
        let query = offer.and_then(|aor| {
            let sender = self.sender_of(key);
            offer_query(now, &context.request, aor, sender.as_deref(), !bindings.is_empty())
        });
        let Some(query) = query else { return self.ring_bindings(now, key, own_routes, bindings, out) };
        self.set_stage(key, Stage::Offering { own_routes, bindings });
        out.push(Effect::Ask { id: Self::ask_id(key), query });
    }

    /// Who has proved to have sent it, or need not prove it.
    pub(super) fn sender_of(&self, key: Key) -> Option<Box<str>> {
        let context = self.contexts.get(key)?;
        match &context.caller {
            Some(Caller::Account(aor)) => Some(aor.clone()),
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
        match offered {
            Offered::Refused => self.finish(now, key, 480, "Temporarily Unavailable", out),
            Offered::Delivered if bindings.is_empty() => self.finish(now, key, 200, "OK", out),
            Offered::Delivered => {
                self.answer_early(now, key, out);
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

    /// 200 before the phones have it. Their answers find a transaction that has said its last word.
    fn answer_early(&mut self, now: Instant, key: Key, out: &mut Outbox) {
        let Some(context) = self.contexts.get(key) else { return };
        let tag = self.tag_of(&context.request);
        let reply = Reply::new(&context.request, context.source.remote, 200, "OK", Some(&tag)).finish();
        let server = context.server;
        // The context goes on without it, however soon it ends.
        if let Some(transaction) = self.table.get_mut(server) {
            transaction.user = User::Nobody;
        }
        self.respond(now, server, 200, reply, out);
    }
}

//! The shard between chat and phones: the effects of `xmpp::phones`, performed by the router and the endpoint of the same shard.

use router::{Answer, AskId, Offer, Presence, Query, ShardAddress, Topic};
use sip::events::TextOutcome;
use stdx::Instant;

use super::Shard;
use super::request_origin::RequestOrigin;
use crate::xmpp::{Offering, PendingWatch, PhoneEffect, kept_of};

impl Shard {
    /// A question for the owner of an address, which this shard is. Messages are chat's to take first.
    pub(super) fn query(&mut self, now: Instant, from: ShardAddress, id: AskId, query: Query) {
        let is_of_voice = matches!(RequestOrigin::of(id.0), RequestOrigin::Voice(_));
        let (to, offer) = match query {
            Query::Offer(offer) if self.xmpp.is_some() => (Offering::Edge { edge: from, id }, *offer),
            // An application's message to a user without a phone here.
            Query::Keep(message) if self.xmpp.is_some() && is_of_voice => {
                let offer = Offer { message: (*message).clone(), sender: None, has_phones: false };
                (Offering::Keep { edge: from, id, message }, offer)
            }
            Query::WatchByConsent { watcher, aor, topic, watch, until } if self.xmpp.is_some() => {
                let watch = Query::Watch { aor, topic, watch, until };
                self.with_xmpp(now, |xmpp, outbox| {
                    xmpp.handle_watch(now, &watcher, PendingWatch { edge: from, id, query: watch }, outbox);
                });
                return;
            }
            query => {
                if let Query::Watch { aor, topic: Topic::Presence, .. } = &query {
                    self.refresh_chat(now, aor);
                }
                self.parts.router.handle_query(now, from, id, query, &mut self.scratch.router_effects);
                return;
            }
        };
        self.with_xmpp(now, |xmpp, outbox| xmpp.handle_offer(now, to, &offer, outbox));
    }

    /// The router is told of chat presence while there are watchers: a new watcher needs the current state.
    fn refresh_chat(&mut self, now: Instant, aor: &str) {
        if let Some(adapter) = &self.xmpp {
            let chat = Query::ChatChanged { aor: aor.into(), chat: adapter.xmpp.chat_of(aor) };
            let (edge, effects) = (self.parts.edge, &mut self.scratch.router_effects);
            self.parts.router.handle_query(now, edge, AskId(0), chat, effects);
        }
    }

    pub(super) fn grant_phone(&mut self, now: Instant, effect: PhoneEffect) {
        match effect {
            PhoneEffect::Ask { user } => {
                let presence = self.parts.router.presence(now, user.as_str());
                self.with_xmpp(now, |xmpp, outbox| xmpp.handle_presence(now, &user, &presence, outbox));
            }
            PhoneEffect::Show { user } => {
                let Some(adapter) = &self.xmpp else { return };
                // A client that has gone is forgotten, watched or not.
                if !adapter.xmpp.is_available(&user) || self.parts.router.is_presence_watched(user.as_str()) {
                    let chat = adapter.xmpp.chat_of(user.as_str());
                    // This query has no answer.
                    self.ask(now, AskId(0), Query::ChatChanged { aor: user.as_str().into(), chat });
                }
            }
            PhoneEffect::Text { id, words } => {
                let bindings = self.bindings(words.aor.clone());
                if bindings.is_empty() {
                    self.texted(now, id, None);
                } else {
                    self.parts.endpoint.text(now, id, &bindings, &words, &mut self.scratch.effects);
                }
            }
            PhoneEffect::Watched { watch: PendingWatch { edge, id, query }, is_given: true } => {
                self.query(now, edge, id, query);
            }
            PhoneEffect::Watched { watch: PendingWatch { edge, id, query }, is_given: false } => {
                if let Query::Watch { aor, topic, watch, .. } = query {
                    let unwatch = Query::Unwatch { aor, topic, watch };
                    let effects = &mut self.scratch.router_effects;
                    self.parts.router.handle_query(now, edge, AskId(0), unwatch, effects);
                }
                self.answer_later(edge, id, Answer::WatchRefused);
            }
            PhoneEffect::Offered { to: Offering::Edge { edge, id }, offered } => {
                self.answer_later(edge, id, Answer::Offered(offered));
            }
            PhoneEffect::Offered { to: Offering::Keep { edge, id, message }, offered } => {
                match kept_of(offered) {
                    Some(kept) => self.answer_later(edge, id, Answer::Kept(kept)),
                    None => {
                        let effects = &mut self.scratch.router_effects;
                        self.parts.router.handle_query(now, edge, id, Query::Keep(message), effects);
                    }
                }
            }
        }
    }

    /// As the router answers.
    fn answer_later(&mut self, to: ShardAddress, id: AskId, answer: Answer) {
        self.scratch.router_effects.push(router::Effect::Answer { to, id, answer });
    }

    pub(super) fn texted(&mut self, now: Instant, id: u64, texted: Option<TextOutcome>) {
        self.with_xmpp(now, |xmpp, outbox| xmpp.handle_texted(now, id, texted, outbox));
    }

    /// Presence of an address's phones, from the router.
    pub(super) fn phones_changed(&mut self, now: Instant, aor: &str, presence: &Presence) {
        self.with_xmpp(now, |xmpp, outbox| {
            if let Some(user) = xmpp.account_of(aor) {
                xmpp.handle_presence(now, &user, presence, outbox);
            }
        });
    }
}

//! The shard between chat and phones: the effects of `xmpp::phones`, performed by the router and the endpoint of the same shard.

use router::{Answer, AskId, Offer, Query, ShardAddress, Topic};
use stdx::Instant;

use super::request_origin::RequestOrigin;
use super::{Shard, edge_accounts};
use crate::xmpp::{Offering, PendingWatch, PhoneEffect, kept_of};

impl Shard {
    /// Performs a query as the owner of its address, for the shard `from`, which gets the answer under `id`. Chat gets offered messages and
    /// watches that need consent first, and answers by `PhoneEffect`; questions of edges about accounts go to `edge_accounts`; all others
    /// are the router's.
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
            Query::Account { aor } => return edge_accounts::handle_question(self, now, from, id, &aor),
            query => {
                // The router is told of chat presence while there are watchers: a new watcher needs the current state.
                if let (Query::Watch { aor, topic: Topic::Presence, .. }, Some(adapter)) =
                    (&query, &self.xmpp)
                {
                    let chat = Query::ChatChanged {
                        aor: aor.clone(),
                        chat: adapter.xmpp.accounts().presence_of(aor),
                    };
                    let (edge, effects) = (self.parts.edge, &mut self.scratch.router_effects);
                    self.parts.router.handle_query(now, edge, AskId(0), chat, effects);
                }
                self.parts.router.handle_query(now, from, id, query, &mut self.scratch.router_effects);
                return;
            }
        };
        self.with_xmpp(now, |xmpp, outbox| xmpp.handle_offer(now, to, &offer, outbox));
    }

    /// Performs an effect of chat about the phones of its users.
    pub(super) fn grant_phone(&mut self, now: Instant, effect: PhoneEffect) {
        match effect {
            PhoneEffect::Ask { user } => {
                let presence = self.parts.router.presence(now, user.as_str());
                self.with_xmpp(now, |xmpp, outbox| xmpp.handle_presence(now, &user, &presence, outbox));
            }
            PhoneEffect::Show { user } => {
                let Some(adapter) = &self.xmpp else { return };
                // A client that has gone is forgotten, watched or not.
                if !adapter.xmpp.accounts().is_available(&user)
                    || self.parts.router.is_presence_watched(user.as_str())
                {
                    let chat = adapter.xmpp.accounts().presence_of(user.as_str());
                    // This query has no answer.
                    self.ask(now, AskId(0), Query::ChatChanged { aor: user.as_str().into(), chat });
                }
            }
            PhoneEffect::Text { id, words } => {
                let bindings = self.parts.bindings(words.aor.clone());
                if bindings.is_empty() {
                    self.with_xmpp(now, |xmpp, outbox| xmpp.handle_texted(now, id, None, outbox));
                } else {
                    self.parts.endpoint.text(now, id, &bindings, &words, &mut self.scratch.effects);
                }
            }
            PhoneEffect::Watched { watch: PendingWatch { edge, id, query }, is_given: true } => {
                self.query(now, edge, id, query);
            }
            PhoneEffect::Watched { watch: PendingWatch { edge, id, query }, is_given: false } => {
                // A watch of this number that was allowed before ends.
                if let Query::Watch { aor, topic, watch, .. } = query {
                    let unwatch = Query::Unwatch { aor, topic, watch };
                    let effects = &mut self.scratch.router_effects;
                    self.parts.router.handle_query(now, edge, AskId(0), unwatch, effects);
                }
                let refused = router::Effect::Answer { to: edge, id, answer: Answer::WatchRefused };
                self.scratch.router_effects.push(refused);
            }
            // As the router answers.
            PhoneEffect::Offered { to: Offering::Edge { edge, id }, offered } => {
                let answer = Answer::Offered(offered);
                self.scratch.router_effects.push(router::Effect::Answer { to: edge, id, answer });
            }
            PhoneEffect::Offered { to: Offering::Keep { edge, id, message }, offered } => {
                let effects = &mut self.scratch.router_effects;
                match kept_of(offered) {
                    Some(kept) => {
                        effects.push(router::Effect::Answer { to: edge, id, answer: Answer::Kept(kept) });
                    }
                    // Chat does not take it: the router keeps it for the phones of the address.
                    None => self.parts.router.handle_query(now, edge, id, Query::Keep(message), effects),
                }
            }
        }
    }
}

//! Asking for presence, granting it and taking it back (RFC 6121 §3).

use stdx::Instant;
use stdx::slab::Key;
use xmpp::stanza::{Condition, StanzaError};
use xmpp::{Bare, Element, Jid, ns};

use super::super::change_queue::too_many;
use super::super::effect::RosterItem;
use super::super::session::Session;
use super::super::{Host, Outbox};
use super::subscription::{SubscriptionAction, SubscriptionState, SubscriptionStep};
use super::typed;
use crate::limits;

/// A stanza of one of these kinds, from or for an account of ours.
struct SubscriptionRequest {
    user: Bare,
    contact: Bare,
    act: SubscriptionAction,
    presence: Element,
}

impl Host {
    /// From a session of ours (RFC 6121 §3.1.2, §3.1.5, §3.2.2, §3.3.2, §3.4.2).
    pub(super) fn subscription_from(
        &mut self,
        now: Instant,
        key: Key,
        to: &Jid,
        act: SubscriptionAction,
        mut presence: Element,
        out: &mut Outbox,
    ) {
        let Some(session) = self.accounts.sessions.get(key) else { return };
        let (jid, contact) = (session.jid.clone(), to.bare());
        if contact == jid.bare() {
            return;
        }
        presence.set("to", contact.as_str());
        if session.is_anonymous {
            let error = StanzaError::new(Condition::NotAllowed, "anonymous accounts have no contacts");
            return self.refuse_presence(&presence, &error, out);
        }
        let refused = bounded(&presence, act);
        let request = SubscriptionRequest { user: jid.bare(), contact, act, presence };
        let has_turn = self.queue_change(now, &jid.bare(), out, move |host, now, out| {
            host.subscribe_out(now, request, &jid, out);
        });
        if has_turn.is_err() {
            self.refuse_presence(&refused, &too_many(), out);
        }
    }

    fn subscribe_out(&mut self, now: Instant, request: SubscriptionRequest, jid: &Jid, out: &mut Outbox) {
        let SubscriptionRequest { user, contact, act, mut presence } = request;
        let Some(data) = self.accounts.data(&user) else { return };
        let known = data.contact(&contact).cloned();
        let before = SubscriptionState::of(known.as_ref());
        let step = before.outbound(act);
        if known.is_none() && step.state != before && data.roster.len() >= limits::CONTACTS {
            let error = StanzaError::new(Condition::PolicyViolation, "too many contacts: remove some");
            return self.refuse_presence(&presence, &error, out);
        }
        // §3.1.2: contacts subscribe to people, not to their devices.
        presence.set("from", user.as_str());
        if step.state == before {
            if step.passes {
                self.route(presence, out);
            }
            return;
        }
        let is_wanted = matches!(act, SubscriptionAction::Subscribe | SubscriptionAction::Subscribed);
        let (item, is_visible) = moved(known, step, None, is_wanted);
        let jid = jid.clone();
        self.write_contact(
            now,
            &user.clone(),
            (contact.clone(), item),
            is_visible,
            out,
            move |host, now, result, out| {
                if let Err(error) = result {
                    presence.set("from", jid.as_str());
                    return host.refuse_presence(&presence, &error, out);
                }
                if step.passes {
                    host.route(presence, out);
                }
                if is_visible {
                    host.push_contact(now, &user, &contact, out);
                }
                host.tell_of_change(&user, &contact, before, step.state, out);
                if step.state.from && !before.from {
                    host.pubsub_let_in(now, &user, &contact, out);
                }
            },
        );
    }

    /// For an account of ours (RFC 6121 §3.1.3, §3.1.6, §3.2.3, §3.3.3).
    pub(super) fn subscription_to(
        &mut self,
        now: Instant,
        user: &Bare,
        contact: Bare,
        act: SubscriptionAction,
        mut presence: Element,
        out: &mut Outbox,
    ) {
        if contact == *user {
            return;
        }
        presence.set("from", contact.as_str());
        presence.set("to", user.as_str());
        if act == SubscriptionAction::Subscribe && self.preauthenticate(user, &contact, &presence, out) {
            return;
        }
        self.subscription_in(now, user, contact, act, presence, out);
    }

    /// No invitation speaks for it.
    pub(crate) fn subscription_in(
        &mut self,
        now: Instant,
        user: &Bare,
        contact: Bare,
        act: SubscriptionAction,
        presence: Element,
        out: &mut Outbox,
    ) {
        if self.accounts.is_anonymous(user) {
            return self.presence_to_nobody(contact.as_jid(), user.as_jid(), &presence, out);
        }
        let refused = bounded(&presence, act);
        let request = SubscriptionRequest { user: user.clone(), contact, act, presence };
        let has_turn =
            self.queue_change(now, user, out, move |host, now, out| host.subscribe_in(now, request, out));
        if has_turn.is_err() {
            self.refuse_presence(&refused, &too_many(), out);
        }
    }

    /// As if one of the user's sessions had asked.
    pub(crate) fn subscribe_for(&mut self, now: Instant, user: &Bare, contact: &Bare, out: &mut Outbox) {
        let presence = typed(user, contact.as_jid(), SubscriptionAction::Subscribe.as_str());
        let (jid, contact, act) = (user.as_jid().clone(), contact.clone(), SubscriptionAction::Subscribe);
        let request = SubscriptionRequest { user: user.clone(), contact, act, presence };
        // A refused change is left to the user.
        let _ = self
            .queue_change(now, user, out, move |host, now, out| host.subscribe_out(now, request, &jid, out));
    }

    fn subscribe_in(&mut self, now: Instant, request: SubscriptionRequest, out: &mut Outbox) {
        let SubscriptionRequest { user, contact, act, presence } = request;
        // The user may have blocked the contact meanwhile: an early grant would show the presence that the
        // user hides.
        if self.blocks_incoming(&user, contact.as_jid()) {
            return;
        }
        let Some(data) = self.accounts.data(&user) else { return };
        let known = data.contact(&contact).cloned();
        let before = SubscriptionState::of(known.as_ref());
        let step = before.inbound(act);
        if step.state == before {
            if step.is_approved {
                self.approve(&user, &contact, out);
            }
            return;
        }
        let is_new_request = step.state.pending_in && !before.pending_in;
        if is_new_request {
            let asking = data.roster.iter().filter(|(_, item)| item.asked.is_some()).count();
            let is_full = known.is_none() && data.roster.len() >= limits::CONTACTS;
            if is_full || asking >= limits::CONTACTS_ASKING {
                let error = StanzaError::new(Condition::ResourceConstraint, "too many ask already");
                return self.refuse_presence(&presence, &error, out);
            }
        }
        let asked = is_new_request.then(|| Box::new(bounded(&presence, act)));
        let (item, is_visible) = moved(known, step, asked, false);
        self.write_contact(
            now,
            &user.clone(),
            (contact.clone(), item),
            is_visible,
            out,
            move |host, now, result, out| {
                if let Err(error) = result {
                    return host.refuse_presence(&presence, &error, out);
                }
                if step.passes {
                    let keys = host.accounts.keys_of(&user, |session: &Session| match act {
                        SubscriptionAction::Subscribe => session.is_available(),
                        _ => session.is_interested,
                    });
                    host.deliver_to_all(now, &keys, presence, out);
                }
                if is_visible {
                    host.push_contact(now, &user, &contact, out);
                }
                if step.is_approved {
                    host.approve(&user, &contact, out);
                    host.pubsub_let_in(now, &user, &contact, out);
                } else {
                    host.tell_of_change(&user, &contact, before, step.state, out);
                }
            },
        );
    }

    /// §3.1.3: in the name of the user, who granted it before.
    fn approve(&mut self, user: &Bare, contact: &Bare, out: &mut Outbox) {
        self.route(typed(user, contact.as_jid(), "subscribed"), out);
        self.send_presences(user, contact.as_str(), out);
    }

    /// §3.1.5: a contact that may see the user now gets the presence; §3.2.2 and §3.3.3: a contact that may
    /// not any more gets unavailable presence.
    fn tell_of_change(
        &self,
        user: &Bare,
        contact: &Bare,
        before: SubscriptionState,
        after: SubscriptionState,
        out: &mut Outbox,
    ) {
        let is_blocked = self.blocks_incoming(user, contact.as_jid());
        match (before.from, after.from) {
            _ if is_blocked => {}
            (false, true) => self.send_presences(user, contact.as_str(), out),
            (true, false) => self.send_unavailable(user, contact.as_str(), out),
            _ => {}
        }
    }

    /// §2.5.2: the subscriptions end on the other side as well.
    pub(crate) fn contact_removed(
        &mut self,
        user: &Bare,
        contact: &Bare,
        item: &RosterItem,
        out: &mut Outbox,
    ) {
        let before = SubscriptionState::of(Some(item));
        for (act, is_due) in [
            (SubscriptionAction::Unsubscribe, before.to || before.pending_out),
            (SubscriptionAction::Unsubscribed, before.from || before.pending_in),
        ] {
            if is_due {
                self.route(typed(user, contact.as_jid(), act.as_str()), out);
            }
        }
        self.tell_of_change(user, contact, before, SubscriptionState::default(), out);
    }
}

/// The contact after a step; none, when nothing is left of it. And whether clients see a difference.
fn moved(
    known: Option<RosterItem>,
    step: SubscriptionStep,
    asked: Option<Box<Element>>,
    is_wanted: bool,
) -> (Option<RosterItem>, bool) {
    let before = known.unwrap_or_default();
    let mut item = before.clone();
    item.asked = asked.or(item.asked);
    step.state.write(&mut item);
    // A contact that is granted presence or asked for it is listed in the roster; a mere requester is not
    // (§3.1.3).
    item.is_listed |= is_wanted;
    let seen = |item: &RosterItem| (item.is_listed, item.subscription, item.ask, item.approved);
    let is_visible = seen(&before) != seen(&item);
    ((item.is_listed || item.asked.is_some()).then_some(item), is_visible)
}

/// As it is kept: whole when it is of a decent size.
fn bounded(presence: &Element, act: SubscriptionAction) -> Element {
    if presence.to_bytes(ns::CLIENT).len() <= limits::SUBSCRIPTION_REQUEST {
        return presence.clone();
    }
    let status = presence.content_of("status", ns::CLIENT).map(|text| {
        let words: String = text.chars().take(limits::SUBSCRIPTION_REQUEST / 8).collect();
        Element::new("status", ns::CLIENT).text(words)
    });
    Element::new("presence", ns::CLIENT)
        .with("type", act.as_str())
        .with_opt("id", presence.attr("id"))
        .with_opt("from", presence.attr("from"))
        .with_opt("to", presence.attr("to"))
        .children(status)
}

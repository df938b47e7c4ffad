//! Asking for presence, granting it and taking it back (RFC 6121 §3).

use stdx::Instant;
use stdx::slab::Key;
use xmpp::stanza::{Condition, StanzaError};
use xmpp::{Bare, Element, Jid, ns};

use super::super::account_memory::AccountMemory;
use super::super::change_queue::too_many;
use super::super::effect::RosterItem;
use super::super::phones::Phones;
use super::super::pubsub::PubSubEvent;
use super::super::session::Session;
use super::super::{Host, Outbox};
use super::subscription::{SubscriptionAction, SubscriptionState, SubscriptionStep};
use super::typed;
use crate::{blocking, change_queue, invite, limits, presence, roster};

/// A stanza of one of these kinds, from or for an account of ours.
struct SubscriptionRequest {
    user: Bare,
    contact: Bare,
    act: SubscriptionAction,
    presence: Element,
}

/// From a session of ours (RFC 6121 §3.1.2, §3.1.5, §3.2.2, §3.3.2, §3.4.2).
pub(crate) fn subscription_from(
    host: &mut Host,
    now: Instant,
    key: Key,
    to: &Jid,
    act: SubscriptionAction,
    mut presence: Element,
    out: &mut Outbox,
) {
    let Some(session) = host.accounts.sessions.get(key) else { return };
    let (jid, contact) = (session.jid.clone(), to.bare());
    if contact == jid.bare() {
        return;
    }
    presence.set("to", contact.as_str());
    if session.is_anonymous {
        let error = StanzaError::new(Condition::NotAllowed, "anonymous accounts have no contacts");
        return presence::refuse(host, &presence, &error, out);
    }
    let refused = bounded(&presence, act);
    let request = SubscriptionRequest { user: jid.bare(), contact, act, presence };
    let has_turn = change_queue::queue(host, now, &jid.bare(), out, move |host, now, out| {
        subscribe_out(host, now, request, &jid, out);
    });
    if has_turn.is_err() {
        presence::refuse(host, &refused, &too_many(), out);
    }
}

fn subscribe_out(host: &mut Host, now: Instant, request: SubscriptionRequest, jid: &Jid, out: &mut Outbox) {
    let SubscriptionRequest { user, contact, act, mut presence } = request;
    let Some(data) = host.accounts.data(&user) else { return };
    let known = data.contact(&contact).cloned();
    let before = SubscriptionState::of(known.as_ref());
    let step = before.outbound(act);
    if known.is_none() && step.state != before && data.roster.len() >= limits::CONTACTS {
        let error = StanzaError::new(Condition::PolicyViolation, "too many contacts: remove some");
        return presence::refuse(host, &presence, &error, out);
    }
    // §3.1.2: contacts subscribe to people, not to their devices.
    presence.set("from", user.as_str());
    if step.state == before {
        if step.passes {
            host.route(presence, out);
        }
        return;
    }
    let is_wanted = matches!(act, SubscriptionAction::Subscribe | SubscriptionAction::Subscribed);
    let (item, is_visible) = moved(known, step, None, is_wanted);
    let jid = jid.clone();
    roster::write_contact(
        host,
        now,
        &user.clone(),
        (contact.clone(), item),
        is_visible,
        out,
        move |host, now, result, out| {
            if let Err(error) = result {
                presence.set("from", jid.as_str());
                return presence::refuse(host, &presence, &error, out);
            }
            if step.passes {
                host.route(presence, out);
            }
            if is_visible {
                roster::push_contact(host, now, &user, &contact, out);
            }
            tell_of_change(&host.accounts, &host.phones, &user, &contact, before, step.state, out);
            if step.state.from && !before.from {
                let event = PubSubEvent::ContactAdded { user: &user, contact: &contact };
                host.tell_pubsub(now, event, out);
            }
        },
    );
}

/// For an account of ours (RFC 6121 §3.1.3, §3.1.6, §3.2.3, §3.3.3).
pub(crate) fn subscription_to(
    host: &mut Host,
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
    if act == SubscriptionAction::Subscribe && invite::preauthenticate(host, user, &contact, &presence, out) {
        return;
    }
    subscription_in(host, now, user, contact, act, presence, out);
}

/// No invitation speaks for it.
pub(crate) fn subscription_in(
    host: &mut Host,
    now: Instant,
    user: &Bare,
    contact: Bare,
    act: SubscriptionAction,
    presence: Element,
    out: &mut Outbox,
) {
    if host.accounts.is_anonymous(user) {
        return presence::answer_without_account(host, contact.as_jid(), user.as_jid(), &presence, out);
    }
    let refused = bounded(&presence, act);
    let request = SubscriptionRequest { user: user.clone(), contact, act, presence };
    let has_turn = change_queue::queue(host, now, user, out, move |host, now, out| {
        subscribe_in(host, now, request, out);
    });
    if has_turn.is_err() {
        presence::refuse(host, &refused, &too_many(), out);
    }
}

/// As if one of the user's sessions had asked.
pub(crate) fn subscribe_for(host: &mut Host, now: Instant, user: &Bare, contact: &Bare, out: &mut Outbox) {
    let presence = typed(user, contact.as_jid(), SubscriptionAction::Subscribe.as_str());
    let (jid, contact, act) = (user.as_jid().clone(), contact.clone(), SubscriptionAction::Subscribe);
    let request = SubscriptionRequest { user: user.clone(), contact, act, presence };
    // A refused change is left to the user.
    let _ = change_queue::queue(host, now, user, out, move |host, now, out| {
        subscribe_out(host, now, request, &jid, out);
    });
}

fn subscribe_in(host: &mut Host, now: Instant, request: SubscriptionRequest, out: &mut Outbox) {
    let SubscriptionRequest { user, contact, act, presence } = request;
    // The user may have blocked the contact meanwhile: an early grant would show the presence that the
    // user hides.
    if blocking::blocks_incoming(&host.accounts, &user, contact.as_jid()) {
        return;
    }
    let Some(data) = host.accounts.data(&user) else { return };
    let known = data.contact(&contact).cloned();
    let before = SubscriptionState::of(known.as_ref());
    let step = before.inbound(act);
    if step.state == before {
        if step.is_approved {
            approve(host, &user, &contact, out);
        }
        return;
    }
    let is_new_request = step.state.pending_in && !before.pending_in;
    if is_new_request {
        let asking = data.roster.iter().filter(|(_, item)| item.asked.is_some()).count();
        let is_full = known.is_none() && data.roster.len() >= limits::CONTACTS;
        if is_full || asking >= limits::CONTACTS_ASKING {
            let error = StanzaError::new(Condition::ResourceConstraint, "too many ask already");
            return presence::refuse(host, &presence, &error, out);
        }
    }
    let asked = is_new_request.then(|| Box::new(bounded(&presence, act)));
    let (item, is_visible) = moved(known, step, asked, false);
    roster::write_contact(
        host,
        now,
        &user.clone(),
        (contact.clone(), item),
        is_visible,
        out,
        move |host, now, result, out| {
            if let Err(error) = result {
                return presence::refuse(host, &presence, &error, out);
            }
            if step.passes {
                let keys = host.accounts.keys_of(&user, |session: &Session| match act {
                    SubscriptionAction::Subscribe => session.is_available(),
                    _ => session.is_interested,
                });
                presence::deliver_to_all(host, now, &keys, presence, out);
            }
            if is_visible {
                roster::push_contact(host, now, &user, &contact, out);
            }
            if step.is_approved {
                approve(host, &user, &contact, out);
                let event = PubSubEvent::ContactAdded { user: &user, contact: &contact };
                host.tell_pubsub(now, event, out);
            } else {
                tell_of_change(&host.accounts, &host.phones, &user, &contact, before, step.state, out);
            }
        },
    );
}

/// §3.1.3: in the name of the user, who granted it before.
fn approve(host: &mut Host, user: &Bare, contact: &Bare, out: &mut Outbox) {
    host.route(typed(user, contact.as_jid(), "subscribed"), out);
    presence::send_presences(&host.accounts, &host.phones, user, contact.as_str(), out);
}

/// §2.5.2: the subscriptions end on the other side as well.
pub(crate) fn contact_removed(
    host: &mut Host,
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
            host.route(typed(user, contact.as_jid(), act.as_str()), out);
        }
    }
    tell_of_change(&host.accounts, &host.phones, user, contact, before, SubscriptionState::default(), out);
}

/// §3.1.5: a contact that may see the user now gets the presence; §3.2.2 and §3.3.3: a contact that may
/// not any more gets unavailable presence.
fn tell_of_change(
    accounts: &AccountMemory,
    phones: &Phones,
    user: &Bare,
    contact: &Bare,
    before: SubscriptionState,
    after: SubscriptionState,
    out: &mut Outbox,
) {
    let is_blocked = blocking::blocks_incoming(accounts, user, contact.as_jid());
    match (before.from, after.from) {
        _ if is_blocked => {}
        (false, true) => presence::send_presences(accounts, phones, user, contact.as_str(), out),
        (true, false) => presence::send_unavailable(accounts, phones, user, contact.as_str(), out),
        _ => {}
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

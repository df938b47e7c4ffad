//! Asking for presence, granting it and taking it back (RFC 6121 §3).
//!
//! Each stanza takes a turn in the account's queue of changes, so it is judged by the state that the one before left. The
//! roster is written first; only then the stanza goes on, and roster pushes and presence follow from the new state.
//!
//! `presence` has the stanzas read (`SubscriptionRequest`) and `roster::queue_subscription` queue them, `Roster::send` and
//! `Roster::receive` decide by the table of `presence::subscription` and write, `handle_sent` and `handle_received` follow
//! the write.

use stdx::slab::Key;
use xmpp::stanza::{self, Condition, StanzaError};
use xmpp::{Bare, Element, Jid, ns};

use super::super::Outbox;
use super::super::account_memory::AccountMemory;
use super::super::effect::{AccountData, RosterItem};
use super::super::presence::subscription::{SubscriptionAction, SubscriptionState, SubscriptionStep};
use super::super::presence::typed;
use super::super::session::Session;
use super::super::store_requests::StoreRequests;
use super::{ContactCause, Roster, RosterAction, RosterEffect};
use crate::{blocking, invite, limits, presence};

/// A subscription stanza of an account of ours.
pub(in super::super) struct SentSubscription {
    act: SubscriptionAction,
    presence: Element,
    /// The session that sent it, or the account in whose name it is sent: the address of its refusal.
    sender: Jid,
}

impl SentSubscription {
    /// A request in the name of the account, as if one of its sessions had asked.
    pub(in super::super) fn subscribe(user: &Bare, contact: &Bare) -> SentSubscription {
        let act = SubscriptionAction::Subscribe;
        let presence = typed(user, contact.as_jid(), act.as_str());
        SentSubscription { act, presence, sender: user.as_jid().clone() }
    }
}

/// A subscription stanza for an account of ours.
pub(in super::super) struct ReceivedSubscription {
    act: SubscriptionAction,
    presence: Element,
}

/// The state of a subscription before a stanza, and the consequence of that.
#[derive(Clone, Copy)]
pub(super) struct SubscriptionChange {
    pub(super) before: SubscriptionState,
    pub(super) step: SubscriptionStep,
}

impl Roster {
    /// A subscription stanza that the account sends has its turn (RFC 6121 §3.1.2, §3.1.5, §3.2.2, §3.3.2, §3.4.2). One that changes nothing is
    /// routed at once if the table passes it on; else the roster is written first.
    pub(super) fn send(
        &mut self,
        accounts: &AccountMemory,
        data: &AccountData,
        (user, contact): (&Bare, &Bare),
        mut request: SentSubscription,
    ) {
        let act = request.act;
        let known = data.contact(contact);
        let before = SubscriptionState::of(known);
        let step = before.outbound(act);
        // A subscription by a shared group is neither asked for nor given up; clients get the contact as it is.
        let is_shared = is_shared(accounts, (user, contact), act);
        if is_shared && (act == SubscriptionAction::Subscribe || step.state == before) {
            return self.push_contact(accounts, user, contact);
        }
        if known.is_none() && step.state != before && data.roster.len() >= limits::CONTACTS {
            let error = StanzaError::new(Condition::PolicyViolation, "too many contacts: remove some");
            return self.refuse_presence(&request.presence, &error);
        }
        // §3.1.2: contacts subscribe to people, not to their devices.
        request.presence.set("from", user.as_str());
        if step.state == before {
            if step.passes {
                self.effects.push(RosterEffect::Send(request.presence));
            }
            return;
        }
        let is_wanted = matches!(act, SubscriptionAction::Subscribe | SubscriptionAction::Subscribed);
        let item = moved(known.cloned(), step, None, is_wanted);
        let cause = ContactCause::Sent(request, SubscriptionChange { before, step });
        self.write(data, (user, contact), item, cause);
    }

    /// The contact of a subscription stanza of the account is written, and the stanza goes on. False: it is
    /// not written, and the sender gets the error.
    pub(super) fn handle_sent(
        &mut self,
        request: SentSubscription,
        change: SubscriptionChange,
        result: Result<(), StanzaError>,
    ) -> bool {
        let SentSubscription { mut presence, sender, .. } = request;
        if let Err(error) = result {
            presence.set("from", sender.as_str());
            self.refuse_presence(&presence, &error);
            return false;
        }
        if change.step.passes {
            self.effects.push(RosterEffect::Send(presence));
        }
        true
    }

    /// A subscription stanza for the account has its turn (RFC 6121 §3.1.3, §3.1.6, §3.2.3, §3.3.3).
    pub(super) fn receive(
        &mut self,
        accounts: &AccountMemory,
        data: &AccountData,
        (user, contact): (&Bare, &Bare),
        request: ReceivedSubscription,
    ) {
        // The user may have blocked the contact meanwhile: an early grant would show the presence that the
        // user hides.
        if blocking::blocks_incoming(accounts, user, contact.as_jid()) {
            return;
        }
        let known = data.contact(contact);
        let before = SubscriptionState::of(known);
        let step = before.inbound(request.act);
        // A member of a shared group that may see the account needs no answer of the user.
        let is_granted = request.act == SubscriptionAction::Subscribe
            && accounts.groups.subscription(user, contact).has_from();
        if is_granted && !step.is_approved {
            return self.approve(user, contact);
        }
        if step.state == before {
            if step.is_approved {
                self.approve(user, contact);
            }
            return;
        }
        let is_new_request = step.state.pending_in && !before.pending_in;
        // Strangers can cause these entries, so they have a limit of their own: a full roster of them would leave no place for
        // contacts.
        if is_new_request {
            let asking = data.roster.iter().filter(|(_, item)| item.asked.is_some()).count();
            let is_full = known.is_none() && data.roster.len() >= limits::CONTACTS;
            if is_full || asking >= limits::CONTACTS_ASKING {
                let error = StanzaError::new(Condition::ResourceConstraint, "too many ask already");
                return self.refuse_presence(&request.presence, &error);
            }
        }
        let asked = is_new_request.then(|| Box::new(bounded(&request.presence, request.act)));
        let item = moved(known.cloned(), step, asked, false);
        let cause = ContactCause::Received(request, SubscriptionChange { before, step });
        self.write(data, (user, contact), item, cause);
    }

    /// The contact of a subscription stanza for the account is written, and clients get the stanza: a request
    /// all that are available, other stanzas those that asked for the roster. False: it is not written.
    pub(super) fn handle_received(
        &mut self,
        accounts: &AccountMemory,
        (user, contact): (&Bare, &Bare),
        request: ReceivedSubscription,
        change: SubscriptionChange,
        result: Result<(), StanzaError>,
    ) -> bool {
        let ReceivedSubscription { act, presence } = request;
        if let Err(error) = result {
            self.refuse_presence(&presence, &error);
            return false;
        }
        // The end of a subscription that a shared group gives as well is none for the user.
        let shared = accounts.groups.subscription(user, contact);
        let goes_on = match act {
            SubscriptionAction::Subscribe | SubscriptionAction::Subscribed => false,
            SubscriptionAction::Unsubscribe => shared.has_from(),
            SubscriptionAction::Unsubscribed => shared.has_to(),
        };
        if change.step.passes && !goes_on {
            let keys = accounts.keys_of(user, |session: &Session| match act {
                SubscriptionAction::Subscribe => session.is_available(),
                _ => session.is_interested,
            });
            self.effects.push(RosterEffect::Deliver(keys, presence));
        }
        true
    }

    /// Answers a request in the name of the user, who has granted it before (§3.1.3), and shows the presence.
    pub(super) fn approve(&mut self, user: &Bare, contact: &Bare) {
        let granted = typed(user, contact.as_jid(), "subscribed");
        self.effects.extend([RosterEffect::Send(granted), RosterEffect::SendPresences]);
    }

    /// A contact was removed: the subscriptions end on its side as well (§2.5.2).
    pub(in super::super) fn end_subscriptions(
        &mut self,
        accounts: &AccountMemory,
        (user, contact): (&Bare, &Bare),
        item: &RosterItem,
    ) {
        let before = SubscriptionState::of(Some(item));
        for (act, is_due) in [
            (SubscriptionAction::Unsubscribe, before.to || before.pending_out),
            (SubscriptionAction::Unsubscribed, before.from || before.pending_in),
        ] {
            if is_due {
                self.effects.push(RosterEffect::Send(typed(user, contact.as_jid(), act.as_str())));
            }
        }
        self.show_change(accounts, (user, contact), before, SubscriptionState::default());
    }

    /// §3.1.5: a contact that may see the user now gets the presence; §3.2.2 and §3.3.3: a contact that may
    /// not any more gets unavailable presence.
    pub(super) fn show_change(
        &mut self,
        accounts: &AccountMemory,
        (user, contact): (&Bare, &Bare),
        before: SubscriptionState,
        after: SubscriptionState,
    ) {
        let is_blocked = blocking::blocks_incoming(accounts, user, contact.as_jid());
        let is_shared = accounts.groups.subscription(user, contact).has_from();
        match (before.from, after.from) {
            _ if is_blocked || is_shared => {}
            (false, true) => self.effects.push(RosterEffect::SendPresences),
            (true, false) => self.effects.push(RosterEffect::SendUnavailable),
            _ => {}
        }
    }

    /// Answers a stanza by an error, unless it may not be answered.
    fn refuse_presence(&mut self, presence: &Element, error: &StanzaError) {
        if stanza::may_be_refused(presence) && presence.attr("from").is_some() {
            self.effects.push(RosterEffect::Send(stanza::refusal(presence, error)));
        }
    }
}

/// True if a shared group gives the subscription that a stanza of the account is about.
fn is_shared(accounts: &AccountMemory, (user, contact): (&Bare, &Bare), act: SubscriptionAction) -> bool {
    let shared = accounts.groups.subscription(user, contact);
    match act {
        SubscriptionAction::Subscribe | SubscriptionAction::Unsubscribe => shared.has_to(),
        SubscriptionAction::Subscribed | SubscriptionAction::Unsubscribed => shared.has_from(),
    }
}

/// The change of a contact that a subscription stanza asks for, at an account whose data are in memory.
pub(in super::super) struct SubscriptionRequest {
    pub(in super::super) user: Bare,
    pub(in super::super) contact: Bare,
    pub(in super::super) action: RosterAction,
    /// The stanza as it is refused if the change cannot wait for its turn.
    pub(in super::super) stanza: Element,
}

impl SubscriptionRequest {
    /// Reads a subscription stanza of a session of ours. `None`: it has no effect, or is refused already.
    pub(in super::super) fn of_session(
        accounts: &AccountMemory,
        (key, to): (Key, &Jid),
        act: SubscriptionAction,
        mut presence: Element,
        out: &mut Outbox,
    ) -> Option<SubscriptionRequest> {
        let session = accounts.sessions.get(key)?;
        let (sender, contact) = (session.jid.clone(), to.bare());
        let user = sender.bare();
        // Presence of one's own account comes without a subscription.
        if contact == user {
            return None;
        }
        // A subscription is between accounts, whichever resource was addressed.
        presence.set("to", contact.as_str());
        if session.is_anonymous {
            let error = StanzaError::new(Condition::NotAllowed, "anonymous accounts have no contacts");
            presence::refuse(&presence, &error, out);
            return None;
        }
        let stanza = bounded(&presence, act);
        let action = RosterAction::Send(SentSubscription { act, presence, sender });
        Some(SubscriptionRequest { user, contact, action, stanza })
    }

    /// Reads a subscription stanza for an account of ours (RFC 6121 §3.1.3, §3.1.6, §3.2.3, §3.3.3). `None`: it has no effect, or has the token
    /// of an invitation, which is looked into first.
    pub(in super::super) fn of_contact(
        (accounts, store): (&AccountMemory, &mut StoreRequests),
        (user, contact): (&Bare, Bare),
        act: SubscriptionAction,
        mut presence: Element,
        out: &mut Outbox,
    ) -> Option<SubscriptionRequest> {
        // No other server speaks for this account, and the account needs no subscription to itself.
        if contact == *user {
            return None;
        }
        presence.set("from", contact.as_str());
        presence.set("to", user.as_str());
        let is_request = act == SubscriptionAction::Subscribe;
        if is_request && invite::preauthenticate(store, user, &contact, &presence, out) {
            return None;
        }
        SubscriptionRequest::without_token(accounts, (user, contact), act, presence, out)
    }

    /// Reads a subscription stanza for an account of ours: no invitation speaks for it.
    pub(in super::super) fn without_token(
        accounts: &AccountMemory,
        (user, contact): (&Bare, Bare),
        act: SubscriptionAction,
        presence: Element,
        out: &mut Outbox,
    ) -> Option<SubscriptionRequest> {
        if accounts.is_anonymous(user) {
            // An account for a while has no contacts.
            if act == SubscriptionAction::Subscribe {
                presence::decline(contact.as_jid(), user.as_jid(), out);
            }
            return None;
        }
        let stanza = bounded(&presence, act);
        let action = RosterAction::Receive(ReceivedSubscription { act, presence });
        Some(SubscriptionRequest { user: user.clone(), contact, action, stanza })
    }
}

/// The contact after a step; none, when nothing is left of it. And whether clients see a difference, which
/// decides about a push and a new version.
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

/// A request as it is kept: whole up to the limit of its size, else the addresses with the first words of its status. An eighth of the limit in
/// characters leaves room for four bytes of each, and as many for the rest.
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

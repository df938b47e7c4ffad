//! The stanzas that users receive in a session.
//!
//! Messages and presences are accounted for by their marks, requests by their ids. Everything that is not of the load is answered as a client must and
//! otherwise ignored.

use lab_sip::stats::Count;
use stdx::time::Instant;
use xmpp::{Element, ns};

use super::failure::FailureCause;
use super::limits::PRESENCE_PLACES;
use super::message_ledger::MessageOrder;
use super::message_mark::{DIRECTED, MessageMark};
use super::model::TimerName;
use super::stanzas;
use super::user_pool::{PoolContext, UserPool};
use super::user_sessions::UserSessions;

/// That there is no such thing; the second of a vCard only (XEP-0054 §3.3).
const ABSENT: [&str; 2] = ["item-not-found", "service-unavailable"];

impl UserSessions {
    /// One entry of the roster.
    pub(super) fn update_contact(&mut self, slot: u32, item: &Element) {
        let me = self.users[slot as usize].number;
        let other = item.attr("jid").and_then(|jid| self.chat.people.number(jid));
        let Some(place) = other.and_then(|other| self.chat.people.place(me, other)) else { return };
        let user = &mut self.users[slot as usize];
        let contact = &mut user.contacts[place as usize];
        let is_friend = item.attr("subscription") == Some("both");
        // Counts in both directions: a server may take a subscription back.
        match (contact.is_friend, is_friend) {
            (false, true) => {
                user.friends += 1;
                self.shared.make_friend();
            }
            (true, false) => user.friends -= 1,
            _ => {}
        }
        contact.is_friend = is_friend;
        let is_monitor = self.chat.people.is_monitor(me);
        if user.friends == self.chat.people.contacts() && !user.is_befriended && !is_monitor {
            user.is_befriended = true;
            self.shared.befriend();
        }
    }
}

impl UserPool {
    /// One stanza of a session.
    pub(super) fn handle_stanza(&mut self, slot: u32, stanza: &Element, ctx: &mut PoolContext<'_>) {
        match stanza.name() {
            "message" => self.handle_chat_message(slot, stanza, ctx),
            "presence" => self.handle_presence(slot, stanza, ctx),
            "iq" => self.handle_iq(slot, stanza, ctx),
            _ => {}
        }
    }

    /// An error for a message of ours, the reflection of a room message, or a message to account for.
    fn handle_chat_message(&mut self, slot: u32, message: &Element, ctx: &mut PoolContext<'_>) {
        let id = message.attr("id").and_then(|id| id.strip_prefix('m'));
        let is_mine = id.is_some_and(|number| number.parse::<u32>().is_ok());
        match message.attr("type") {
            Some("error") if is_mine => {
                ctx.stats.count(Count::ChatRefused);
                self.record_refused_message(slot, message.attr("from"));
                self.sessions.shared.arrived();
            }
            Some("groupchat") => {
                let number = self.sessions.users.get(slot as usize).map(|user| user.number);
                if let Some(note) = MessageMark::of(message).filter(|note| Some(note.from) == number) {
                    ctx.time(TimerName::Room, note.due, note.sent);
                }
            }
            _ => {
                if let Some(note) = MessageMark::of(message) {
                    let has_waited = message.get("delay", ns::DELAY).is_some();
                    self.account_for_message(slot, &note, has_waited, ctx);
                }
            }
        }
    }

    /// Once, and in order.
    fn account_for_message(
        &mut self,
        slot: u32,
        note: &MessageMark,
        has_waited: bool,
        ctx: &mut PoolContext<'_>,
    ) {
        // The server kept it from an earlier run, which has told of it.
        if note.sent < self.began {
            return;
        }
        let me = self.sessions.users[slot as usize].number;
        let Some(place) = self.sessions.chat.people.place(me, note.from) else {
            return ctx.stats.count(Count::ChatMisdelivered);
        };
        let contact = &mut self.sessions.users[slot as usize].contacts[place as usize];
        match self.ledger.handle_message(me, place, contact, note.number) {
            MessageOrder::InOrder => {}
            MessageOrder::Reordered => ctx.stats.count(Count::ChatReordered),
            MessageOrder::Duplicate => return ctx.stats.count(Count::ChatDuplicated),
        }
        ctx.stats.count(Count::ChatReceived);
        self.sessions.shared.arrived();
        if has_waited {
            ctx.stats.count(Count::ChatStored);
        } else if self.sessions.is_monitor(slot) {
            self.sessions.handle_monitor_message(slot, note, ctx);
        } else {
            ctx.time(TimerName::Message, note.due, note.sent);
        }
    }

    /// A room's presence, a subscription request, or a contact's presence to account for.
    fn handle_presence(&mut self, slot: u32, presence: &Element, ctx: &mut PoolContext<'_>) {
        let from = presence.attr("from").unwrap_or_default();
        let Some(from) = self.sessions.chat.people.number(from) else {
            return self.handle_room_presence(slot, from, presence, ctx);
        };
        match presence.attr("type") {
            Some("subscribe") => self.accept_subscription(slot, from, ctx),
            None | Some("unavailable") => {
                let me = self.sessions.users[slot as usize].number;
                let Some(note) = MessageMark::of(presence).filter(|note| note.from == from) else { return };
                if note.number == DIRECTED {
                    ctx.stats.count(Count::PresenceSeen);
                    return ctx.time(TimerName::Presence, note.due, note.sent);
                }
                let Some(place) = self.sessions.chat.people.place(me, from) else { return };
                let Some(seen) = self.sessions.users[slot as usize].seen.get_mut(place as usize) else {
                    return;
                };
                // The server repeats presences to a contact that signs in later.
                if note.number <= *seen {
                    return;
                }
                *seen = note.number;
                let mine = self.sessions.chat.people.place(from, me).filter(|place| *place < PRESENCE_PLACES);
                if mine.is_some_and(|mine| note.seen_by >> mine & 1 == 1) {
                    ctx.stats.count(Count::PresenceSeen);
                    if self.sessions.is_monitor(slot) {
                        self.sessions.handle_monitor_presence(slot, &note, ctx);
                    } else {
                        ctx.time(TimerName::Presence, note.due, note.sent);
                    }
                }
            }
            _ => {}
        }
    }

    /// The user that created a room unlocks it; users that came while it was locked join again.
    fn handle_room_presence(&mut self, slot: u32, from: &str, presence: &Element, ctx: &mut PoolContext<'_>) {
        let Some(room) =
            from.split('/').next().filter(|room| room.ends_with(&self.sessions.chat.rooms_domain))
        else {
            return;
        };
        let status = |code: &str| {
            let user = presence.get("x", ns::MUC_USER);
            user.is_some_and(|user| user.elements().any(|status| status.attr("code") == Some(code)))
        };
        // §7.6, §7.2.2: this presence is the receiver's own.
        if status("110") && presence.attr("type").is_none() {
            self.handle_self_presence(slot, ctx);
        }
        if status("201") {
            ctx.write(slot, |out| stanzas::unlock(out, room));
        }
        let is_locked =
            || presence.elements().any(|error| error.get("item-not-found", ns::STANZA_ERRORS).is_some());
        if presence.attr("type") == Some("error") && is_locked() {
            self.sessions.actions(slot).join_room(ctx);
        } else if presence.attr("type") == Some("error")
            && self.sessions.users[slot as usize].take_join().is_some()
        {
            self.sessions.quote_refusal(slot, presence, ctx);
            ctx.fail(FailureCause::of_stanza_error(presence));
        }
    }

    /// The user has entered the room, or has its new nick.
    fn handle_self_presence(&mut self, slot: u32, ctx: &mut PoolContext<'_>) {
        if let Some(asked) = self.sessions.users[slot as usize].take_join() {
            ctx.stats.count(Count::SuccessfulCall);
            ctx.time(TimerName::RoomJoin, asked.due, asked.sent);
        }
    }

    /// Grants the subscription and asks for the same, unless this one is the answer to such a request.
    fn accept_subscription(&mut self, slot: u32, from: u32, ctx: &mut PoolContext<'_>) {
        let people = &self.sessions.chat.people;
        let me = self.sessions.users[slot as usize].number;
        let to = people.address(from);
        ctx.write(slot, |out| stanzas::subscription(out, "subscribed", &to));
        // The user with the lower number asked first; the other one asks back, so that both become mutual.
        if from < me {
            ctx.write(slot, |out| stanzas::subscription(out, "subscribe", &to));
        }
    }

    /// Responses, roster pushes, and requests of others: pings and block lists are answered, all else is refused.
    fn handle_iq(&mut self, slot: u32, iq: &Element, ctx: &mut PoolContext<'_>) {
        let id = iq.attr("id").unwrap_or_default();
        match iq.attr("type") {
            Some("result" | "error") => self.handle_iq_response(slot, iq, id, ctx),
            Some("set") if iq.get("query", ns::ROSTER).is_some() => {
                let items = iq.get("query", ns::ROSTER).map(|query| query.elements().cloned().collect());
                let items: Vec<Element> = items.unwrap_or_default();
                let friends = self.sessions.users[slot as usize].friends;
                for item in &items {
                    self.sessions.update_contact(slot, item);
                }
                self.sessions.check_pair_roster(slot, ctx);
                if self.sessions.users[slot as usize].friends > friends {
                    self.sessions.continue_friend_requests(slot, ctx);
                }
                ctx.write(slot, |out| stanzas::answer(out, (id, iq.attr("from")), true));
            }
            _ => {
                let known = [("ping", ns::PING), ("block", ns::BLOCKING), ("unblock", ns::BLOCKING)];
                let is_known = known.iter().any(|(name, ns)| iq.get(name, ns).is_some());
                ctx.write(slot, |out| stanzas::answer(out, (id, iq.attr("from")), is_known));
            }
        }
    }

    /// The response to the user's request; others are late or of an earlier session.
    fn handle_iq_response(&mut self, slot: u32, iq: &Element, id: &str, ctx: &mut PoolContext<'_>) {
        let user = &mut self.sessions.users[slot as usize];
        let number = id.strip_prefix('i').and_then(|id| id.parse::<u32>().ok());
        let Some(asked) = user.asked.filter(|asked| Some(asked.id) == number) else { return };
        if self.handle_unregistered(slot, iq, ctx) {
            return;
        }
        let user = &mut self.sessions.users[slot as usize];
        user.asked = None;
        user.patience = Instant::FAR_FUTURE;
        match asked.then {
            Some(action) => return self.handle_node_response(slot, asked, action, iq, ctx),
            None if asked.timed == TimerName::Pubsub => self.handle_missing_node(iq),
            None => {}
        }
        // A vCard does not exist before its user sets one. A pubsub node has been created, and raw stanzas
        // are the operator's own.
        let may_be_absent = !matches!(asked.timed, TimerName::Pubsub | TimerName::Raw);
        let is_absent = ABSENT.iter().any(|name| {
            let is_other = *name == "item-not-found" || asked.timed == TimerName::Vcard;
            is_other && iq.elements().any(|error| error.get(name, ns::STANZA_ERRORS).is_some())
        });
        if iq.attr("type") == Some("result") || (may_be_absent && is_absent) {
            ctx.stats.count(Count::SuccessfulCall);
            ctx.time(asked.timed, asked.due, asked.sent);
        } else {
            self.sessions.quote_refusal(slot, iq, ctx);
            ctx.fail(FailureCause::of_stanza_error(iq));
        }
    }
}

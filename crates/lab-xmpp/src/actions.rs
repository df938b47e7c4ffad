//! The actions of users: messages, presences, rooms and requests.
//!
//! [`UserActions::start_action`] draws an action from the mix and writes its stanza. Messages and presences are done when they are sent and are accounted
//! for where they arrive (`receive`); requests are done with their response. An action that cannot be performed counts as blocked.

use std::time::Duration;

use lab_sip::stats::Count;
use stdx::rng::Rng;
use stdx::time::Instant;
use xmpp::ns;

use super::limits::PRESENCE_PLACES;
use super::load_state::LoadState;
use super::message_mark::{DIRECTED, MessageMark};
use super::mix::UserAction;
use super::model::{TimerName, XmppLoad};
use super::stanzas;
use super::user::{PendingRequest, User, UserState};
use super::user_pool::PoolContext;
use super::user_sessions::UserSessions;
use super::user_timers::{UserTimer, UserTimers};

/// The number of draws for a contact that must be signed in.
const DRAWS: usize = 8;

/// In their order for a user's changes.
const SHOWS: [&str; 4] = ["away", "", "dnd", "chat"];

/// One user while it performs an action. The driver gets stanzas; the user's state and timers change.
pub(super) struct UserActions<'a> {
    /// The place of the user in the shard.
    pub(super) slot: u32,
    pub(super) user: &'a mut User,
    /// The options of the load.
    pub(super) load: &'a XmppLoad,
    /// Presence of all users, the stage, sums.
    pub(super) state: &'a LoadState,
    pub(super) rng: &'a mut Rng,
    pub(super) timers: &'a mut UserTimers,
}

impl UserSessions {
    /// The user at this slot, for its next action.
    pub(super) fn actions(&mut self, slot: u32) -> UserActions<'_> {
        UserActions {
            slot,
            user: &mut self.users[slot as usize],
            load: &self.chat,
            state: &self.shared,
            rng: &mut self.rng,
            timers: &mut self.timers,
        }
    }
}

impl UserActions<'_> {
    /// The next action, and when the one after it is due: from the due time, so that a late one delays no other.
    pub(super) fn start_action(&mut self, ctx: &mut PoolContext<'_>) {
        let due = self.user.due;
        ctx.stats.count(Count::Due);
        ctx.stats.start_delay.record(ctx.now.since(due));
        let action = self.load.mix.draw(self.rng);
        let next = due + self.load.think.draw(self.rng).max(Duration::from_millis(1));
        self.schedule(next);
        let done = match action {
            UserAction::Message | UserAction::MessageOnline | UserAction::MessageOffline => {
                self.send_message(action, due, ctx)
            }
            UserAction::Presence => {
                let show = SHOWS[self.user.presences as usize % SHOWS.len()];
                self.send_presence(show, due, ctx);
                true
            }
            UserAction::PresenceDirected => self.send_directed_presence(due, ctx),
            // No stanza is expected to be seen by the user from now on; it signs out when the stanzas under way must have arrived.
            UserAction::Logout => {
                let user = &mut *self.user;
                user.phase = UserState::Leaving;
                self.state.mark_leaving(user.number);
                ctx.stats.count(Count::OutgoingCall);
                self.schedule(ctx.now + self.state.settling());
                return;
            }
            UserAction::Room => self.send_room_message(due, ctx),
            UserAction::Raw => return self.send_template(due, ctx),
            other => return self.start_request(other, due, ctx),
        };
        ctx.stats.count(if done { Count::OutgoingCall } else { Count::Blocked });
        if done {
            ctx.stats.count(Count::SuccessfulCall);
        }
    }

    /// `false`: no contact of the user satisfies the condition.
    pub(super) fn send_message(
        &mut self,
        action: UserAction,
        due: Instant,
        ctx: &mut PoolContext<'_>,
    ) -> bool {
        let Some(place) = self.draw_contact(action, ctx) else { return false };
        self.send_message_to(place, (due, ctx.now), ctx);
        true
    }

    /// The place of a random contact that satisfies the condition.
    pub(super) fn draw_contact(&mut self, action: UserAction, ctx: &PoolContext<'_>) -> Option<u32> {
        let user = &*self.user;
        let places = u32::try_from(user.contacts.len()).unwrap_or_default();
        if places == 0 {
            return None;
        }
        let first = u32::try_from(self.rng.below(u64::from(places))).unwrap_or_default();
        // Starts at a random place and goes around, so that each contact that satisfies the condition may be drawn.
        (first..first + places).map(|place| place % places).find(|place| {
            let contact = self.load.people.contact(user.number, *place);
            match action {
                UserAction::MessageOnline => self.state.sees(contact, ctx.now),
                UserAction::MessageOffline => self.state.is_away(contact),
                _ => true,
            }
        })
    }

    /// `times`: when it was due and sent, of what the message is part of.
    fn send_message_to(&mut self, place: u32, times: (Instant, Instant), ctx: &mut PoolContext<'_>) {
        let load = self.load;
        let user = &mut *self.user;
        let to = load.people.contact(user.number, place);
        let contact = &mut user.contacts[place as usize];
        contact.sent += 1;
        let (due, sent) = times;
        let note =
            MessageMark { from: user.number, number: contact.sent, due, sent, ..MessageMark::default() };
        let to = load.people.address(to);
        let body = "x".repeat(load.body);
        ctx.write(self.slot, |out| stanzas::message(out, (&to, "chat"), &body, &note));
        ctx.stats.count(Count::ChatSent);
        ctx.stats.count(Count::MessagesSent);
        self.state.sent();
    }

    /// A monitor's reply to its partner, with the times of the partner's message.
    pub(super) fn reply_to_partner(&mut self, note: &MessageMark, ctx: &mut PoolContext<'_>) {
        self.send_message_to(0, (note.due, note.sent), ctx);
    }

    /// Presence for one random user that is signed in; `false` when none of the drawn ones is.
    fn send_directed_presence(&mut self, due: Instant, ctx: &mut PoolContext<'_>) -> bool {
        let people = &self.load.people;
        let me = self.user.number;
        let drawn = std::iter::repeat_with(|| self.rng.below(u64::from(people.count()))).take(DRAWS);
        let mut drawn = drawn.filter_map(|number| u32::try_from(number).ok());
        let there = drawn.find(|other| *other != me && self.state.sees(*other, ctx.now));
        let Some(to) = there.map(|other| people.address(other)) else {
            return false;
        };
        let note = MessageMark { from: me, number: DIRECTED, due, sent: ctx.now, seen_by: 1 };
        ctx.write(self.slot, |out| stanzas::directed(out, &to, &note));
        ctx.stats.count(Count::PresenceExpected);
        ctx.stats.count(Count::MessagesSent);
        true
    }

    /// Presence for all contacts; it lists those that are signed in and so must see it.
    pub(super) fn send_presence(&mut self, show: &str, due: Instant, ctx: &mut PoolContext<'_>) {
        let people = &self.load.people;
        let user = &mut *self.user;
        let mut seen_by = 0_u64;
        for (place, contact) in (0_u32..).zip(&user.contacts) {
            let other = people.contact(user.number, place);
            // Only presences that a contact accounts for are expected: with many users they are a sample.
            let is_looked_for = place < PRESENCE_PLACES && people.looks_for_presence(other);
            if contact.is_friend && is_looked_for && self.state.sees(other, ctx.now) {
                seen_by |= 1 << place;
            }
        }
        user.presences += 1;
        let note = MessageMark { from: user.number, number: user.presences, due, sent: ctx.now, seen_by };
        ctx.write(self.slot, |out| stanzas::presence(out, show, &note));
        ctx.stats.add(Count::PresenceExpected, u64::from(seen_by.count_ones()));
        ctx.stats.count(Count::MessagesSent);
    }

    /// The user's room; `None` when the load has no rooms or no actions in them.
    fn room(&self, number: u32) -> Option<String> {
        let rooms = self.load.rooms;
        let is_wanted = rooms > 0 && self.load.mix.has(UserAction::Room);
        is_wanted.then(|| format!("ringer{}@{}", number % rooms, self.load.rooms_domain))
    }

    /// Enters the user's room after each sign-in.
    pub(super) fn join_room(&mut self, ctx: &mut PoolContext<'_>) {
        let number = self.user.number;
        if let Some(room) = self.room(number) {
            let nick = self.load.people.nick(number);
            ctx.write(self.slot, |out| stanzas::join(out, &room, &nick));
            ctx.stats.count(Count::MessagesSent);
        }
    }

    /// Timed by its own reflection from the room.
    fn send_room_message(&mut self, due: Instant, ctx: &mut PoolContext<'_>) -> bool {
        let number = self.user.number;
        let Some(room) = self.room(number) else { return false };
        let user = &mut *self.user;
        user.room_messages += 1;
        let note = MessageMark {
            from: number,
            number: user.room_messages,
            due,
            sent: ctx.now,
            ..MessageMark::default()
        };
        let body = "x".repeat(self.load.body);
        ctx.write(self.slot, |out| stanzas::message(out, (&room, "groupchat"), &body, &note));
        ctx.stats.count(Count::MessagesSent);
        true
    }

    /// A question; while another one of the user waits for its answer this one cannot be asked.
    fn start_request(&mut self, action: UserAction, due: Instant, ctx: &mut PoolContext<'_>) {
        let user = &mut *self.user;
        if user.asked.is_some() {
            return ctx.stats.count(Count::Blocked);
        }
        let id = user.next_id();
        let mut then = None;
        let timed = match action {
            UserAction::PubsubPublish | UserAction::PubsubGet => {
                let may_ask = self.state.has_node() || self.state.may_make_node(ctx.now, self.load.patience);
                // The node is created by one user at a time; others cannot ask before it exists.
                then = may_ask.then(|| self.write_node_request(action, id, ctx)).flatten();
                may_ask.then_some(TimerName::Pubsub)
            }
            _ => self.send_request(action, id, ctx),
        };
        let Some(timed) = timed else { return ctx.stats.count(Count::Blocked) };
        self.user.asked = Some(PendingRequest { id, timed, due, sent: ctx.now, then });
        ctx.stats.count(Count::OutgoingCall);
        ctx.stats.count(Count::MessagesSent);
        self.set_response_deadline(ctx.now + self.load.patience);
    }

    /// Returns the timer of the response; `None`: the action needs a room, and the load has none.
    fn send_request(&mut self, action: UserAction, id: u32, ctx: &mut PoolContext<'_>) -> Option<TimerName> {
        let people = &self.load.people;
        let number = self.user.number;
        Some(match action {
            UserAction::RosterGet => {
                ctx.write(self.slot, |out| stanzas::roster_get(out, format_args!("i{id}")));
                TimerName::Roster
            }
            UserAction::RosterAdd | UserAction::RosterRename | UserAction::RosterRemove => {
                self.write_roster_change(action, id, ctx);
                TimerName::Roster
            }
            UserAction::Block | UserAction::Unblock => {
                self.write_blocking_change(action, id, ctx);
                TimerName::Block
            }
            UserAction::RoomNick | UserAction::RoomRejoin => {
                let room = self.room(number)?;
                let nick = people.nick(number);
                ctx.write(self.slot, |out| match action {
                    UserAction::RoomNick => stanzas::change_nick(out, &room, &format!("{nick}-{id}")),
                    _ => {
                        stanzas::leave_room(out, &room, &nick);
                        stanzas::join(out, &room, &nick);
                    }
                });
                TimerName::RoomJoin
            }
            UserAction::VcardSet => {
                let name = people.name(number);
                ctx.write(self.slot, |out| stanzas::vcard_set(out, id, &name));
                TimerName::Vcard
            }
            UserAction::VcardLookup => {
                let other = u32::try_from(self.rng.below(u64::from(people.count()))).unwrap_or_default();
                ctx.write(self.slot, |out| stanzas::vcard_get(out, id, &people.address(other)));
                TimerName::Vcard
            }
            UserAction::VcardGet => {
                ctx.write(self.slot, |out| stanzas::vcard_get(out, id, &people.address(number)));
                TimerName::Vcard
            }
            other => self.write_request(other, id, ctx),
        })
    }

    /// Requests that affect no other user.
    fn write_request(&self, action: UserAction, id: u32, ctx: &mut PoolContext<'_>) -> TimerName {
        let domain = self.load.people.domain();
        ctx.write(self.slot, |out| match action {
            UserAction::Ping => stanzas::ping(out, id, domain),
            UserAction::Disco => stanzas::disco(out, id, domain, ns::DISCO_INFO),
            UserAction::DiscoItems => stanzas::disco(out, id, domain, ns::DISCO_ITEMS),
            UserAction::PepPublish => stanzas::pep_publish(out, id),
            UserAction::PepGet => stanzas::pep_get(out, id),
            _ => stanzas::archive(out, id),
        });
        match action {
            UserAction::Ping => TimerName::Ping,
            UserAction::Disco | UserAction::DiscoItems => TimerName::Disco,
            UserAction::PepPublish | UserAction::PepGet => TimerName::Pep,
            _ => TimerName::Archive,
        }
    }

    /// The entry names an address that is no user of the load, so that no user gets a subscription request.
    fn write_roster_change(&mut self, action: UserAction, id: u32, ctx: &mut PoolContext<'_>) {
        let extra = format!("ringer-extra@{}", self.load.people.domain());
        let user = &mut *self.user;
        // To remove what is not there is an error.
        let removes = action == UserAction::RosterRemove && user.has_extra;
        user.has_extra = !removes;
        let name = format!("Extra {id}");
        ctx.write(self.slot, |out| stanzas::roster_set(out, id, &extra, (!removes).then_some(&*name)));
    }

    /// The address is no user of the load, so that no stanza of the load is blocked.
    fn write_blocking_change(&mut self, action: UserAction, id: u32, ctx: &mut PoolContext<'_>) {
        let stranger = format!("ringer-blocked@{}", self.load.people.domain());
        let user = &mut *self.user;
        // Some servers refuse to unblock an address that is not blocked.
        let unblocks = action == UserAction::Unblock && user.has_blocked;
        user.has_blocked = !unblocks;
        let wanted = if unblocks { "unblock" } else { "block" };
        ctx.write(self.slot, |out| stanzas::blocking(out, id, wanted, &stranger));
    }

    /// Sets the user's next due time.
    fn schedule(&mut self, due: Instant) {
        self.user.due = due;
        self.timers.insert(due, UserTimer::Due(self.slot));
    }

    /// The user fails when nothing has come by then.
    pub(super) fn set_response_deadline(&mut self, patience: Instant) {
        self.user.patience = patience;
        self.timers.insert(patience, UserTimer::Response(self.slot));
    }
}

//! What users do.

use std::time::Duration;

use stdx::time::Instant;

use super::crowd::{Crowd, Turn};
use super::limits::PRESENCE_PLACES;
use super::lines;
use super::mix::Action;
use super::model::Timed;
use super::note::Note;
use super::stage::SETTLED;
use super::user::{Asked, Phase};
use crate::stats::Count;

/// In their order for a user's changes.
const SHOWS: [&str; 4] = ["away", "", "dnd", "chat"];

impl Crowd {
    /// The next action, and when the one after it is due: from the due time, so that a late one delays no other.
    pub(super) fn do_something(&mut self, slot: u32, turn: &mut Turn<'_>) {
        let due = self.users[slot as usize].due;
        turn.stats.count(Count::Due);
        turn.stats.start_delay.record(turn.now.since(due));
        let action = self.chat.mix.draw(&mut self.rng);
        let next = due + self.chat.think.draw(&mut self.rng).max(Duration::from_millis(1));
        self.wake_at(slot, next);
        let done = match action {
            Action::Message => self.say_message(slot, due, turn),
            Action::Presence => {
                let show = SHOWS[self.users[slot as usize].presences as usize % SHOWS.len()];
                self.say_presence(slot, show, due, turn);
                true
            }
            Action::Logout => {
                let user = &mut self.users[slot as usize];
                user.phase = Phase::Leaving;
                self.shared.vanish(user.number);
                turn.stats.count(Count::OutgoingCall);
                self.wake_at(slot, turn.now + Duration::from_micros(SETTLED));
                return;
            }
            Action::Room => self.say_in_room(slot, due, turn),
            other => return self.ask(slot, other, due, turn),
        };
        turn.stats.count(if done { Count::OutgoingCall } else { Count::Blocked });
        if done {
            turn.stats.count(Count::SuccessfulCall);
        }
    }

    /// `false`: he knows nobody.
    fn say_message(&mut self, slot: u32, due: Instant, turn: &mut Turn<'_>) -> bool {
        let chat = &self.chat;
        let user = &mut self.users[slot as usize];
        let places = u64::from(chat.people.contacts());
        if places == 0 {
            return false;
        }
        let place = u32::try_from(self.rng.below(places)).unwrap_or_default();
        let to = chat.people.contact(user.number, place);
        let contact = &mut user.contacts[place as usize];
        contact.sent += 1;
        let note = Note { from: user.number, number: contact.sent, due, sent: turn.now, ..Note::default() };
        let to = format!("{}@{}", chat.people.name(to), chat.people.domain());
        let body = "x".repeat(chat.body);
        turn.write(slot, |out| lines::message(out, (&to, "chat"), &body, &note));
        turn.stats.count(Count::ChatSent);
        turn.stats.count(Count::MessagesSent);
        self.shared.sent();
        true
    }

    /// To all friends; who of them is there to see it is written into it.
    pub(super) fn say_presence(&mut self, slot: u32, show: &str, due: Instant, turn: &mut Turn<'_>) {
        let people = &self.chat.people;
        let user = &mut self.users[slot as usize];
        let mut seen_by = 0_u64;
        for (place, contact) in (0_u32..).zip(&user.contacts) {
            let other = people.contact(user.number, place);
            let is_looked_for = place < PRESENCE_PLACES && people.looks_for_presence(other);
            if contact.is_friend && is_looked_for && self.shared.sees(other, turn.now) {
                seen_by |= 1 << place;
            }
        }
        user.presences += 1;
        let note = Note { from: user.number, number: user.presences, due, sent: turn.now, seen_by };
        turn.write(slot, |out| lines::presence(out, show, &note));
        turn.stats.add(Count::PresenceExpected, u64::from(seen_by.count_ones()));
        turn.stats.count(Count::MessagesSent);
    }

    fn room(&self, number: u32) -> Option<String> {
        let rooms = self.chat.rooms;
        let is_wanted = rooms > 0 && self.chat.mix.has(Action::Room);
        is_wanted.then(|| format!("ringer{}@{}", number % rooms, self.chat.rooms_domain))
    }

    pub(super) fn enter_room(&mut self, slot: u32, turn: &mut Turn<'_>) {
        let number = self.users[slot as usize].number;
        if let Some(room) = self.room(number) {
            let nick = self.chat.people.name(number);
            turn.write(slot, |out| lines::join(out, &room, &nick));
            turn.stats.count(Count::MessagesSent);
        }
    }

    fn say_in_room(&mut self, slot: u32, due: Instant, turn: &mut Turn<'_>) -> bool {
        let number = self.users[slot as usize].number;
        let Some(room) = self.room(number) else { return false };
        let user = &mut self.users[slot as usize];
        user.room_messages += 1;
        let note = Note { from: number, number: user.room_messages, due, sent: turn.now, ..Note::default() };
        let body = "x".repeat(self.chat.body);
        turn.write(slot, |out| lines::message(out, (&room, "groupchat"), &body, &note));
        turn.stats.count(Count::MessagesSent);
        true
    }

    /// A question; while another one of the user waits for its answer this one cannot be asked.
    fn ask(&mut self, slot: u32, action: Action, due: Instant, turn: &mut Turn<'_>) {
        let people = &self.chat.people;
        let user = &mut self.users[slot as usize];
        if user.asked.is_some() {
            return turn.stats.count(Count::Blocked);
        }
        let id = user.next_id();
        let address = |number| format!("{}@{}", people.name(number), people.domain());
        // Somebody who is no user of the load, so that nobody is asked for anything.
        let extra = format!("ringer-extra@{}", people.domain());
        let timed = match action {
            Action::RosterAdd | Action::RosterRename => {
                let name = format!("Extra {id}");
                user.has_extra = true;
                turn.write(slot, |out| lines::roster_set(out, id, &extra, Some(&name)));
                Timed::Roster
            }
            // To remove what is not there is an error.
            Action::RosterRemove if !user.has_extra => {
                user.has_extra = true;
                turn.write(slot, |out| lines::roster_set(out, id, &extra, Some("Extra")));
                Timed::Roster
            }
            Action::RosterRemove => {
                user.has_extra = false;
                turn.write(slot, |out| lines::roster_set(out, id, &extra, None));
                Timed::Roster
            }
            Action::VcardSet => {
                let name = people.name(user.number);
                turn.write(slot, |out| lines::vcard_set(out, id, &name));
                Timed::Vcard
            }
            Action::Archive => {
                turn.write(slot, |out| lines::archive(out, id));
                Timed::Archive
            }
            _ => {
                // His own: another's may not be there yet, which is an error.
                let of = address(user.number);
                turn.write(slot, |out| lines::vcard_get(out, id, &of));
                Timed::Vcard
            }
        };
        user.asked = Some(Asked { id, timed, due, sent: turn.now });
        turn.stats.count(Count::OutgoingCall);
        turn.stats.count(Count::MessagesSent);
        self.wait_until(slot, turn.now + self.chat.patience);
    }

    /// Asks everybody who is no friend yet and whose number is higher: the others ask us.
    pub(super) fn befriend(&mut self, slot: u32, turn: &mut Turn<'_>) {
        if !self.chat.befriend {
            return;
        }
        let people = &self.chat.people;
        let user = &self.users[slot as usize];
        for (place, contact) in (0_u32..).zip(&user.contacts) {
            let other = people.contact(user.number, place);
            if !contact.is_friend && other > user.number {
                let to = format!("{}@{}", people.name(other), people.domain());
                turn.write(slot, |out| lines::subscription(out, "subscribe", &to));
            }
        }
    }
}

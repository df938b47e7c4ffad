//! Occupants of rooms that clients of one shard see, while the host of the room is at another node. If that node dies, its next host must know
//! them: an occupant whose leaving was lost with the dead host would stay on the screens of all others. All clients of the shard in a room
//! see about the same, so each room is kept once; an occupant that has left for one client is kept for some time, as the others may not have
//! been told yet. Too many names do no harm: nothing changes for a client that is told of the leaving of an occupant that it does not see.
//!
//! The shard of the connections passes it all presence for clients ([`SeenOccupants::handle_delivered`]), and sends what
//! [`SeenOccupants::announce`] returns to the next hosts.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};

use stdx::Instant;
use xmpp::{Bare, Element, Jid, ns};

use crate::limits::{SEEN_BYTES, SEEN_GONE};
pub use ::muc::seen::is_announcement as announces_seen;

/// Bytes of a nickname in the table beside its text, about.
const NICK_HEAD: usize = 64;

/// The occupants that the clients of one shard see, by room.
#[derive(Debug, Default)]
pub struct SeenOccupants {
    rooms: HashMap<Bare, SeenRoom>,
    /// The rooms of each stream.
    rooms_of: HashMap<u64, Vec<Bare>>,
    /// Occupants that have left, the first first.
    gone: VecDeque<(Instant, Bare, Box<str>)>,
    /// Bytes of all nicknames, for the limit.
    bytes: usize,
}

/// A room with clients of this shard.
#[derive(Debug, Default)]
struct SeenRoom {
    /// The streams of these clients, with their nicknames and full addresses once the room has let them in.
    streams: HashMap<u64, Option<(Box<str>, Jid)>>,
    /// The nicknames, and when an occupant has left.
    nicks: HashMap<Box<str>, Option<Instant>>,
}

/// The address of the occupant of which a presence for a client tells.
pub fn occupant_of(presence: &Element) -> Option<Jid> {
    let is_told = presence.name() == "presence"
        && matches!(presence.attr("type"), None | Some("unavailable"))
        && presence.get("x", ns::MUC_USER).is_some();
    let from = xmpp::stanza::from(presence).ok().flatten();
    from.filter(|from| is_told && from.resource().is_some())
}

impl SeenOccupants {
    /// The client of this stream gets a presence of this occupant ([`occupant_of`]).
    pub fn handle_delivered(&mut self, now: Instant, stream: u64, occupant: &Jid, presence: &Element) {
        self.forget_gone(now);
        let (room, nick) = (occupant.bare(), occupant.resource().unwrap_or_default());
        let has_code = |code| {
            let x = presence.get("x", ns::MUC_USER);
            x.is_some_and(|x| x.elements().any(|status| status.attr("code") == Some(code)))
        };
        if presence.attr("type").is_none() {
            // XEP-0045 §7.2.2: 110 stands in a client's own presence.
            let session = xmpp::stanza::to(presence).ok().flatten().filter(|_| has_code("110"));
            return self.insert(stream, room, (nick, session));
        }
        // XEP-0045 §7.14: its own; with 303 it has another nickname (§7.6).
        if has_code("110") && !has_code("303") {
            return self.leave(stream, &room);
        }
        let Some(seen) = self.rooms.get_mut(&room) else { return };
        if let Some(left @ None) = seen.nicks.get_mut(nick) {
            *left = Some(now);
            self.gone.push_back((now, room, nick.into()));
        }
    }

    fn insert(&mut self, stream: u64, room: Bare, (nick, session): (&str, Option<Jid>)) {
        let seen = self.rooms.entry(room.clone()).or_default();
        if let Some(left) = seen.nicks.get_mut(nick) {
            *left = None;
        } else if self.bytes + nick.len() + NICK_HEAD <= SEEN_BYTES {
            self.bytes += nick.len() + NICK_HEAD;
            seen.nicks.insert(nick.into(), None);
        }
        let own = seen.streams.entry(stream).or_insert_with(|| {
            self.rooms_of.entry(stream).or_default().push(room);
            None
        });
        if let Some(session) = session {
            *own = Some((nick.into(), session));
        }
    }

    /// The stream is gone.
    pub fn remove(&mut self, stream: u64) {
        for room in self.rooms_of.remove(&stream).unwrap_or_default() {
            self.leave_room(stream, &room);
        }
    }

    /// The client of this stream is not in that room any more.
    fn leave(&mut self, stream: u64, room: &Bare) {
        if let Some(rooms) = self.rooms_of.get_mut(&stream) {
            rooms.retain(|known| known != room);
            if rooms.is_empty() {
                self.rooms_of.remove(&stream);
            }
        }
        self.leave_room(stream, room);
    }

    fn leave_room(&mut self, stream: u64, room: &Bare) {
        let Some(seen) = self.rooms.get_mut(room) else { return };
        seen.streams.remove(&stream);
        if seen.streams.is_empty() {
            self.bytes -= seen.nicks.keys().map(|nick| nick.len() + NICK_HEAD).sum::<usize>();
            self.rooms.remove(room);
        }
    }

    /// Forgets occupants that have left long ago.
    fn forget_gone(&mut self, now: Instant) {
        while self.gone.front().is_some_and(|(at, _, _)| *at + SEEN_GONE <= now) {
            let Some((at, room, nick)) = self.gone.pop_front() else { return };
            let Some(seen) = self.rooms.get_mut(&room) else { continue };
            // It may have come back.
            if seen.nicks.get(&nick) == Some(&Some(at)) {
                seen.nicks.remove(&nick);
                self.bytes -= nick.len() + NICK_HEAD;
            }
        }
    }

    /// The stanzas for the next hosts of these rooms, whose hosts are dead.
    pub fn announce(&mut self, now: Instant, is_lost: impl Fn(&str) -> bool) -> Vec<Element> {
        self.forget_gone(now);
        let lost = self.rooms.iter().filter(|(room, _)| is_lost(room.as_str()));
        lost.flat_map(|(room, seen)| {
            let all = seen.nicks.keys().map(|nick| (&**nick, None));
            let own = seen.streams.values().flatten().map(|(nick, session)| (&**nick, Some(session)));
            ::muc::seen::announcements(room, all.chain(own))
        })
        .collect()
    }
}

//! The rooms and queues of one shard, as a machine: its inputs are events of members and the time, its
//! outputs are events for members. A member that is not heard of for a while is removed, whatever messages
//! are lost.
//!
//! A conference is a [`Room`] for as long as it has members. A queue ([`Queue`]) holds those that wait; when
//! a caller and a taker meet, both leave it for a room of two. Invariants: `members` has each member once, in
//! the room or queue that `At` names; a room or queue without members does not stay.
//!
//! When the farm's map gives a room another home, or the home dies, its members move there, each with its status (`Join::again`), of
//! which the next home makes the room; the home before lets them go without a word (`RoomEvent::Moved`).

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use admin::control::{ConferenceChange, ControlError, Participant, ParticipantChange, QueueMember};
use ivr::request::{Method, Target, Wire};
use ivr::script::Start;
use media::codec::Codec;
use media::session::FrameSource;
use router::{Life, ShardAddress};
use stdx::Instant;
use stdx::rng::Rng;
use store::Write;
use store::rest::queue_sid;

use super::super::limits;
use super::callbacks;
use super::frames::{self, Sound};
use super::link_members::{LinkMembers, LinkPlace};
use super::message::{Join, LeaveReason, MemberStatus, Name, RoomEvent, RoomTarget};
use super::moved::conference_of;
use super::pair::{connect_pair, expire_document};
use super::queue::Queue;
use super::recorder::go_on_recording;
use super::room::Room;

/// An effect of a home.
#[derive(Debug)]
pub(super) enum Out {
    /// For that shard, of a member.
    Tell(ShardAddress, RoomEvent),
    /// A status callback.
    Callback(Wire),
    /// A row for the database.
    Write(Write),
}

/// Effects in the order in which they are to be performed.
pub(super) type Outbox = Vec<Out>;

/// An account and a name in it: names of different accounts do not meet.
type Key = (Box<str>, Box<str>);

/// The place of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Room(u64),
    Queue(u64),
}

/// A member as the index has it.
struct IndexedMember {
    at: At,
    /// The time when its shard last spoke of it.
    heard: Instant,
    /// The place of a member of another node, held until the member leaves.
    _place: Option<LinkPlace>,
}

/// The rooms and queues, and the index of their members.
pub(super) struct RoomHome {
    own: ShardAddress,
    rng: Rng,
    /// The number given last, of rooms and queues alike.
    last: u64,
    rooms: BTreeMap<u64, Room>,
    queues: BTreeMap<u64, Queue>,
    /// Conferences only: a connection of a queue has no name.
    rooms_by_name: HashMap<Key, u64>,
    queues_by_name: HashMap<Key, u64>,
    /// All members of the rooms and queues.
    members: HashMap<Name, IndexedMember>,
    /// Those of other nodes in rooms of all shards of this one.
    remote: Arc<LinkMembers>,
    /// The next time when the members here are told their status.
    next: Instant,
}

impl RoomHome {
    pub(super) fn new(own: ShardAddress, rng: Rng, remote: Arc<LinkMembers>) -> RoomHome {
        RoomHome {
            own,
            rng,
            last: 0,
            rooms: BTreeMap::new(),
            queues: BTreeMap::new(),
            rooms_by_name: HashMap::new(),
            queues_by_name: HashMap::new(),
            members: HashMap::new(),
            remote,
            next: Instant::default(),
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.members.is_empty()
    }

    pub(super) fn members(&self) -> usize {
        self.members.len()
    }

    pub(super) fn rooms(&self) -> usize {
        self.rooms.len()
    }

    pub(super) fn queues(&self) -> usize {
        self.queues.len()
    }

    /// A number for a new room or queue, never used again.
    fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    fn random(&mut self) -> u128 {
        u128::from(self.rng.next_u64()) << 64 | u128::from(self.rng.next_u64())
    }

    /// Handles an event of a member's shard. Sound comes by [`RoomHome::said`].
    pub(super) fn handle(&mut self, now: Instant, from: ShardAddress, event: RoomEvent, out: &mut Outbox) {
        let name = |number| Name { shard: from, number };
        match event {
            RoomEvent::Join(join) => self.join(now, from, *join, out),
            RoomEvent::Leave { number } => self.leave(now, name(number), false, out),
            RoomEvent::RecordingEnded { sid, recording } => {
                // A member may not have heard yet that its conference has become another.
                let is_it = |room: &&mut Room| *room.sid() == sid || room.absorbed.contains(&sid);
                if let Some(room) = self.rooms.values_mut().find(is_it) {
                    go_on_recording(room, recording, out);
                }
            }
            // It goes on at another home: neither the application nor the other members are told.
            RoomEvent::Moved { number } => self.remove(name(number), |room, name| room.let_go(now, name)),
            RoomEvent::Alive { numbers } => {
                // A member that only its own shard knows: the Join was lost, or the room is over. It is told
                // so, and leaves.
                for number in numbers {
                    match self.members.get_mut(&name(number)) {
                        Some(member) => member.heard = now,
                        None => {
                            out.push(Out::Tell(from, RoomEvent::Gone { number, why: LeaveReason::Over }));
                        }
                    }
                }
            }
            RoomEvent::Said(sound) => {
                for (number, piece) in frames::pieces(&sound) {
                    let name = name(number);
                    if let Some(frames) = self.room_of(name).and_then(|room| room.frames(name)) {
                        frames.push(&sound, piece);
                    }
                }
            }
            RoomEvent::Announced { number } => {
                if let Some(room) = self.room_of(name(number)) {
                    room.announcement_over(now, name(number), out);
                    connect_pair(room, out);
                }
            }
            // These events are for members; `Rooms` delivers them there.
            RoomEvent::Standing { .. }
            | RoomEvent::Known { .. }
            | RoomEvent::Gone { .. }
            | RoomEvent::Announce { .. }
            | RoomEvent::Heard(_) => {}
        }
    }

    fn room_of(&mut self, name: Name) -> Option<&mut Room> {
        match self.members.get(&name)?.at {
            At::Room(number) => self.rooms.get_mut(&number),
            At::Queue(_) => None,
        }
    }

    /// Puts a new member into the conference or queue that it names, or tells it why not.
    fn join(&mut self, now: Instant, from: ShardAddress, join: Join, out: &mut Outbox) {
        let (name, number) = (join.name(from), join.number);
        // A member joins once: its number is never used again.
        if self.members.contains_key(&name) {
            return;
        }
        let place = match self.place_for(from) {
            Ok(place) => place,
            Err(reason) => {
                let why = LeaveReason::Refused(reason);
                return out.push(Out::Tell(from, RoomEvent::Gone { number, why }));
            }
        };
        self.admit(now, name, join, out);
        if let Some(member) = self.members.get_mut(&name) {
            member._place = place;
        }
    }

    /// Puts a new member into the conference or queue that it names, unless that is full.
    fn admit(&mut self, now: Instant, name: Name, join: Join, out: &mut Outbox) {
        let Name { shard: from, number } = name;
        if join.again.as_ref().is_some_and(|again| again.with.is_some()) {
            return self.rejoin_pair(now, name, &join, out);
        }
        match &join.place {
            RoomTarget::Conference(conference) => {
                let conference = conference.clone();
                self.join_conference(now, name, &join, &conference, out);
            }
            RoomTarget::Queue { name: queue, max_size } => {
                let (queue, max_size) = (queue.clone(), *max_size);
                let at = self.queue(now, &join, &queue, max_size, out);
                let Some(found) = self.queues.get_mut(&at) else { return };
                if found.enter(now, name, join, max_size) {
                    self.insert(now, name, At::Queue(at));
                    self.serve(now, at, out);
                } else {
                    out.push(Out::Tell(from, RoomEvent::Gone { number, why: LeaveReason::Full }));
                    self.drop_queue(at);
                }
            }
            RoomTarget::First { queue, .. } => {
                let queue = queue.clone();
                let at = self.queue(now, &join, &queue, limits::QUEUE_SIZE, out);
                let Some(found) = self.queues.get_mut(&at) else { return };
                found.take(now, name, join);
                self.insert(now, name, At::Queue(at));
                self.serve(now, at, out);
            }
        }
    }

    fn insert(&mut self, now: Instant, name: Name, at: At) {
        self.members.insert(name, IndexedMember { at, heard: now, _place: None });
    }

    /// The place of one more member of that shard, if there is room for it.
    fn place_for(&self, from: ShardAddress) -> Result<Option<LinkPlace>, String> {
        // Each member costs a tick and a share of a mix, so the sum is bounded, not the number of rooms.
        if self.members.len() >= limits::MEMBERS {
            return Err("there are too many in conferences and queues".to_owned());
        }
        if from.life == self.own.life {
            return Ok(None);
        }
        let place = self.remote.place(from.life);
        place.map(Some).ok_or_else(|| "there are too many of that node in conferences and queues".to_owned())
    }

    /// The first member makes the conference; each later one may still be refused (`maxParticipants`).
    fn join_conference(
        &mut self,
        now: Instant,
        name: Name,
        join: &Join,
        conference: &ivr::document::Conference,
        out: &mut Outbox,
    ) {
        let key: Key = (join.owner.account.clone(), conference.name.as_str().into());
        let number = match self.rooms_by_name.get(&key) {
            Some(number) => *number,
            None => {
                let (number, random) = (self.number(), self.random());
                let room = match &join.again {
                    Some(again) => conference_of(again, join, conference),
                    None => {
                        let sid = ivr::sid::new(ivr::sid::CONFERENCE, random).into();
                        Room::conference(now, join, sid, conference, out)
                    }
                };
                self.rooms.insert(number, room);
                self.rooms_by_name.insert(key, number);
                number
            }
        };
        let Some(room) = self.rooms.get_mut(&number) else { return };
        match room.join(now, name, join, conference, out) {
            Ok(()) => self.insert(now, name, At::Room(number)),
            Err(reason) => {
                let why = LeaveReason::Refused(reason);
                out.push(Out::Tell(name.shard, RoomEvent::Gone { number: name.number, why }));
                // A new room that refused its first member.
                if room.is_empty() {
                    room.end(now, "last-participant-left", None, out);
                    self.drop_room(number);
                }
            }
        }
    }

    /// Takes one of the two of a queue's connection, whose home was another shard: the first makes the room, and the second
    /// finds it.
    fn rejoin_pair(&mut self, now: Instant, name: Name, join: &Join, out: &mut Outbox) {
        let waits = self.rooms.iter_mut().find(|(_, room)| room.awaits(join));
        let number = match waits {
            Some((number, room)) => {
                room.complete(now, name, join, out);
                *number
            }
            None => {
                let number = self.number();
                let Some(room) = Room::half_of_pair(now, name, join, out) else { return };
                self.rooms.insert(number, room);
                number
            }
        };
        self.insert(now, name, At::Room(number));
    }

    /// The number of the account's queue of that name, which is made where there is none. Its sid is derived
    /// from the name, so the row in the record outlasts this queue and is found again.
    fn queue(&mut self, now: Instant, join: &Join, name: &str, max_size: u32, out: &mut Outbox) -> u64 {
        let key: Key = (join.owner.account.clone(), name.into());
        if let Some(number) = self.queues_by_name.get(&key) {
            return *number;
        }
        let number = self.number();
        let sid = queue_sid(&join.owner.account, name);
        out.extend(callbacks::queue_row(&join.owner, &sid, name, max_size, now).map(Out::Write));
        self.queues.insert(number, Queue::new(sid.into()));
        self.queues_by_name.insert(key, number);
        number
    }

    /// Connects waiting callers with takers, and tells all that still wait their new position. Removes the
    /// queue when none does.
    fn serve(&mut self, now: Instant, at: u64, out: &mut Outbox) {
        while let Some(queue) = self.queues.get_mut(&at) {
            let sid = Arc::clone(&queue.sid);
            let Some((waited, took)) = queue.pair(now) else { break };
            let number = self.number();
            // Both keep their numbers: their shards know them as the same members throughout.
            for (name, _) in [&waited, &took] {
                if let Some(member) = self.members.get_mut(name) {
                    member.at = At::Room(number);
                }
            }
            self.rooms.insert(number, Room::pair(now, sid, &waited, &took, out));
        }
        if let Some(queue) = self.queues.get(&at) {
            out.extend(queue.standings().map(|(name, standing)| {
                let standing = Box::new(standing);
                Out::Tell(name.shard, RoomEvent::Standing { number: name.number, standing })
            }));
        }
        self.drop_queue(at);
    }

    /// Removes a queue in which none waits.
    fn drop_queue(&mut self, at: u64) {
        if self.queues.get(&at).is_some_and(Queue::is_empty) {
            self.queues.remove(&at);
            self.queues_by_name.retain(|_, number| *number != at);
        }
    }

    /// Removes a room that has ended, with all its memberships. Nothing happens while it has members.
    fn drop_room(&mut self, number: u64) {
        if self.rooms.get(&number).is_none_or(|room| !room.is_empty()) {
            return;
        }
        let key = self.rooms.remove(&number).and_then(|room| room.key());
        if let Some(key) = key {
            self.rooms_by_name.remove(&key);
        }
        self.members.retain(|_, member| member.at != At::Room(number));
    }

    /// A member leaves. `kicked`: by a request of the REST interface, which is the reason that a callback
    /// names.
    fn leave(&mut self, now: Instant, name: Name, kicked: bool, out: &mut Outbox) {
        self.remove(name, |room, name| room.leave(now, name, kicked, out));
    }

    /// Removes a member; `from_room` removes it from its room.
    fn remove(&mut self, name: Name, from_room: impl FnOnce(&mut Room, Name)) {
        match self.members.remove(&name).map(|member| member.at) {
            Some(At::Room(number)) => {
                if let Some(room) = self.rooms.get_mut(&number) {
                    from_room(room, name);
                }
                self.drop_room(number);
            }
            Some(At::Queue(number)) => {
                if let Some(queue) = self.queues.get_mut(&number) {
                    queue.leave(name);
                }
                self.drop_queue(number);
            }
            None => {}
        }
    }

    /// Removes the members of nodes that have died.
    pub(super) fn end_lives(&mut self, now: Instant, is_dead: impl Fn(Life) -> bool, out: &mut Outbox) {
        let has_ended = |name: &&Name| is_dead(name.shard.life);
        let ended: Vec<Name> = self.members.keys().filter(has_ended).copied().collect();
        for name in ended {
            self.leave(now, name, false, out);
        }
    }

    /// Removes members that were not heard of for too long, and tells the others their status: a message
    /// for each shard with members, once a second.
    pub(super) fn expire(&mut self, now: Instant, out: &mut Outbox) {
        if now < self.next {
            return;
        }
        self.next = now + limits::ROOM_KNOWN;
        let is_lost = |member: &IndexedMember| now.since(member.heard) > limits::ROOM_LOST;
        let lost: Vec<Name> =
            self.members.iter().filter(|(_, member)| is_lost(member)).map(|(name, _)| *name).collect();
        for name in lost {
            self.leave(now, name, false, out);
            out.push(Out::Tell(name.shard, RoomEvent::Gone { number: name.number, why: LeaveReason::Over }));
        }
        self.expire_moved(now, out);
        self.rooms.values_mut().for_each(|room| expire_document(room, now, out));
        // By shard, so that a conference of hundreds is a few messages a second.
        let mut shards: BTreeMap<ShardAddress, Vec<(u64, MemberStatus)>> = BTreeMap::new();
        let rooms = self.rooms.values().flat_map(Room::standings);
        for (name, standing) in rooms.chain(self.queues.values().flat_map(Queue::standings)) {
            shards.entry(name.shard).or_default().push((name.number, standing));
        }
        for (shard, members) in shards {
            for standings in members.chunks(limits::ROOM_STANDINGS) {
                out.push(Out::Tell(shard, RoomEvent::Known { standings: standings.to_vec() }));
            }
        }
    }

    /// Ends connections of a queue of which one half has not come from the home before.
    fn expire_moved(&mut self, now: Instant, out: &mut Outbox) {
        let mut ended = Vec::new();
        for (number, room) in &mut self.rooms {
            if room.expire_moved(now, out) {
                ended.push(*number);
            }
        }
        ended.into_iter().for_each(|number| self.drop_room(number));
    }

    /// Takes the sound of a member of this shard in this tick. Sound of other shards comes as
    /// `RoomEvent::Said`.
    pub(super) fn said(&mut self, number: u64, codec: Codec, rate: u32, samples: &[i16]) {
        let name = Name { shard: self.own, number };
        if let Some(room) = self.room_of(name) {
            room.said(name, codec, rate, samples);
        }
    }

    /// A tick of all rooms; `sounds`: for each other shard what its members hear.
    pub(super) fn mix(&mut self, now: Instant, sounds: &mut BTreeMap<ShardAddress, Sound>, out: &mut Outbox) {
        for room in self.rooms.values_mut() {
            room.mix(now, self.own, sounds, out);
        }
    }

    /// The sound for a member of this shard.
    pub(super) fn feed(&mut self, number: u64) -> FrameSource<'_> {
        let name = Name { shard: self.own, number };
        self.room_of(name).map_or(FrameSource::None, |room| room.feed(name))
    }

    // Requests of the REST interface.

    /// The number of a conference; connections of queues share the sid of their queue and are not found.
    fn room_by_sid(&self, sid: &str) -> Result<u64, ControlError> {
        let found = self.rooms.iter().find(|(_, room)| **room.sid() == *sid && room.key().is_some());
        found.map(|(number, _)| *number).ok_or(ControlError::NotFound)
    }

    /// The members of a conference, in the order they came.
    pub(super) fn participants(&self, sid: &str) -> Result<Vec<Participant>, ControlError> {
        let number = self.room_by_sid(sid)?;
        Ok(self.rooms.get(&number).map(Room::participants).unwrap_or_default())
    }

    /// Announces a document to all members, ends the conference, or both.
    pub(super) fn modify_conference(
        &mut self,
        now: Instant,
        sid: &str,
        change: ConferenceChange,
        out: &mut Outbox,
    ) -> Result<(), ControlError> {
        let number = self.room_by_sid(sid)?;
        let Some(room) = self.rooms.get_mut(&number) else { return Err(ControlError::NotFound) };
        if let Some(url) = change.announce_url.filter(|url| !url.is_empty()) {
            let method = Method::parse(&change.announce_method).unwrap_or_default();
            room.announce(&Target { url, method }, out);
        }
        if change.complete {
            room.end(now, "conference-ended-via-api", None, out);
            self.drop_room(number);
        }
        Ok(())
    }

    /// Changes one member, and removes it if the change says so.
    pub(super) fn modify_participant(
        &mut self,
        now: Instant,
        (sid, call): (&str, &str),
        change: ParticipantChange,
        out: &mut Outbox,
    ) -> Result<(), ControlError> {
        let number = self.room_by_sid(sid)?;
        let room = self.rooms.get_mut(&number).ok_or(ControlError::NotFound)?;
        if let Some(name) = room.change(now, call, change, out).ok_or(ControlError::NotFound)? {
            self.leave(now, name, true, out);
            let gone = RoomEvent::Gone { number: name.number, why: LeaveReason::Over };
            out.push(Out::Tell(name.shard, gone));
        }
        Ok(())
    }

    /// The number of a queue with callers or takers; a queue that is only a row is not found.
    fn queue_by_sid(&self, sid: &str) -> Result<u64, ControlError> {
        let found = self.queues.iter().find(|(_, queue)| *queue.sid == *sid);
        found.map(|(number, _)| *number).ok_or(ControlError::NotFound)
    }

    /// The callers that wait, the first in line first.
    pub(super) fn queue_members(&self, sid: &str) -> Result<Vec<QueueMember>, ControlError> {
        let number = self.queue_by_sid(sid)?;
        Ok(self.queues.get(&number).map(Queue::members).unwrap_or_default())
    }

    /// Takes a caller out of the queue; its script goes on with `to`. `call`: its sid; `None`: the first in
    /// line.
    pub(super) fn dequeue(
        &mut self,
        now: Instant,
        (sid, call): (&str, Option<&str>),
        to: Start,
        out: &mut Outbox,
    ) -> Result<QueueMember, ControlError> {
        let number = self.queue_by_sid(sid)?;
        let queue = self.queues.get_mut(&number).ok_or(ControlError::NotFound)?;
        let (name, member) = queue.remove(call).ok_or(ControlError::NotFound)?;
        self.members.remove(&name);
        let gone = RoomEvent::Gone { number: name.number, why: LeaveReason::Redirected(to) };
        out.push(Out::Tell(name.shard, gone));
        self.serve(now, number, out);
        Ok(member)
    }
}

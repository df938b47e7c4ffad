//! Rooms: conferences, and the two of a queue's connection. A room lives on the shard that its name hashes to, in a farm of any node; members of
//! other shards send it what they hear on every tick, and get back what they are to hear.
//!
//! A member's shard and the room's home exchange messages, one a tick with the sound of all members of one shard. Each side repeats
//! every second (`ROOM_KNOWN`) that a member is present; a member that was not mentioned for five (`ROOM_LOST`) has left,
//! whatever messages are lost (`docs/decisions/0009`). In a farm the map names the homes ([`RoomHomes`]), and a room follows it
//! (`docs/decisions/0094-conferences-and-queues-of-a-farm.md`).

mod callbacks;
mod control;
mod frames;
mod home;
mod link_members;
mod member;
pub mod message;
mod moved;
#[cfg(test)]
mod moved_tests;
mod pair;
mod queue;
mod recorder;
mod room;
#[cfg(test)]
mod shard_tests;
#[cfg(test)]
mod sound_tests;
#[cfg(test)]
mod tests;
mod wait;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use ivr::script::Id;
use media::codec::Codec;
use media::session::{FrameSource, MediaSession};
use router::{Life, ShardAddress};
use stdx::Instant;
use stdx::hash::Keyed;
use stdx::rng::Rng;
use stdx::slab::Key;

use super::calls::Calls;
use super::queue_rows::QueueRows;
use super::record::Recordings;
use super::{Voice, VoiceEffect, World, limits};
use frames::Sound;
use home::{Out, RoomHome};
pub(super) use link_members::LinkMembers;
use member::RoomMemberLeg;
pub use message::RoomMessage;
use message::{LeaveReason, RoomEvent};

/// A leg's place in a room. Its number is the member's number at this shard, so it names the membership, not
/// the leg: a leg that leaves and comes back has another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RoomMembership {
    pub(super) number: u64,
}

/// The homes of the rooms of a farm, as its map says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoomHomes {
    /// The home by the hash of a room's name. Empty: each node has rooms of its own.
    pub homes: Vec<ShardAddress>,
    /// The nodes that are dead by the agreement of the farm: members of theirs are in no room. A node that only this one does not
    /// see, or does not see yet, is none of them.
    pub dead: BTreeSet<Life>,
}

impl RoomHomes {
    /// The home of a room, for a shard of a node with so many of them. Every shard of the node computes the same, and every node of a farm that
    /// has read the same map; so a name has one room.
    fn home_of(&self, hash: u64, own: ShardAddress, shards: u16) -> ShardAddress {
        let of = |count: usize| usize::try_from(hash % count.max(1) as u64).unwrap_or(0);
        let shard = || u16::try_from(of(usize::from(shards))).unwrap_or(0);
        let in_farm = self.homes.get(of(self.homes.len())).copied();
        in_farm.unwrap_or_else(|| ShardAddress::new(own.life, shard()))
    }
}

/// The source of a seated leg's sound while no prompt plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Silence,
    Music,
    Room,
}

/// The rooms of one shard, and what its legs send to and get from those of other shards. Both halves exchange
/// the same events whether they are on one shard or on two, so the code has one way.
pub(super) struct Rooms {
    own: ShardAddress,
    /// The shards of this node.
    shards: u16,
    homes: RoomHomes,
    /// The rooms of which this shard is the home.
    home: RoomHome,
    /// The legs of this shard in rooms of any shard, by number.
    seats: BTreeMap<u64, RoomMemberLeg>,
    /// The number of a membership, by the actor and what it asked for.
    by_effect: HashMap<(Key, Id), u64>,
    /// The number given last. Never used twice, so a late event about an old membership finds nothing.
    last: u64,
    /// For other shards: what their rooms get from us, and their members.
    said: BTreeMap<ShardAddress, Sound>,
    heard: BTreeMap<ShardAddress, Sound>,
    /// Events for our own rooms and members, with their senders; `is_settling` while a caller further up the stack delivers them.
    local: VecDeque<(ShardAddress, RoomEvent)>,
    is_settling: bool,
    /// Effects of `home` that `send_outs` has not sent yet.
    outs: Vec<Out>,
    /// The built-in music and the place in it. All that wait hear the same place.
    music: Vec<i16>,
    music_at: usize,
    /// The next time when the homes are told which members are present.
    next: Instant,
    /// The node ends: all legs are hung up one after the other, and no recording begins on one that is still there.
    pub(super) is_ending: bool,
}

/// The key stands in the program: nodes of a farm compute equal hashes.
const SHARDS: Keyed = Keyed::new(*b"belfry's rooms!!");
/// The sample rate of the music, in Hz.
const MUSIC_RATE: u32 = 8_000;
const MUSIC_FRAME: usize = (MUSIC_RATE * media::limits::FRAME_MS / 1000) as usize;

impl Rooms {
    /// `remote`: shared by all shards of the node.
    pub(super) fn new(own: ShardAddress, shards: u16, rng: Rng, remote: Arc<LinkMembers>) -> Rooms {
        Rooms {
            own,
            shards,
            homes: RoomHomes::default(),
            home: RoomHome::new(own, rng, remote),
            seats: BTreeMap::new(),
            by_effect: HashMap::new(),
            last: 0,
            said: BTreeMap::new(),
            heard: BTreeMap::new(),
            local: VecDeque::new(),
            is_settling: false,
            outs: Vec::new(),
            music: music(),
            music_at: 0,
            next: Instant::default(),
            is_ending: false,
        }
    }

    /// Nothing that needs ticks: neither members here nor rooms with members of other shards.
    pub(super) fn is_idle(&self) -> bool {
        self.home.is_idle() && self.seats.is_empty()
    }

    /// The numbers of rooms, of queues, of their members, and of legs that are or want to be members.
    pub(super) fn counts(&self) -> [u64; 4] {
        [self.home.rooms(), self.home.queues(), self.home.members(), self.seats.len()]
            .map(|count| count as u64)
    }

    /// Takes the sound that one leg received in this tick. A member that does not hear the room, such as one
    /// on hold, is not heard there either.
    pub(super) fn put(&mut self, _leg: Key, seat: RoomMembership, media: &MediaSession) {
        let format = (media.negotiated().audio.codec, media.rate());
        put_frame(self, seat.number, format, media.received_samples());
    }

    /// Between the last `put` of a tick and its first `feed`.
    pub(super) fn mix(&mut self, now: Instant) {
        self.music_at = (self.music_at + MUSIC_FRAME) % self.music.len().max(1);
        self.home.mix(now, &mut self.heard, &mut self.outs);
    }

    /// The sound for a leg. A member of another shard's room hears the oldest frame that waits.
    pub(super) fn feed(&mut self, _leg: Key, seat: RoomMembership) -> FrameSource<'_> {
        let Some(seated) = self.seats.get_mut(&seat.number) else { return FrameSource::None };
        match seated.source {
            Source::Silence => FrameSource::None,
            Source::Music => {
                let samples = self.music.get(self.music_at..self.music_at + MUSIC_FRAME).unwrap_or_default();
                FrameSource::Samples { rate: MUSIC_RATE, samples }
            }
            Source::Room if seated.home == self.own => self.home.feed(seat.number),
            Source::Room => seated.frames.next(),
        }
    }
}

/// The hash that names a room's home. Accounts do not share names.
fn hash(kind: &str, account: &str, name: &str) -> u64 {
    SHARDS.hash_parts(&[kind.as_bytes(), account.as_bytes(), name.as_bytes()])
}

/// The built-in music: a broken chord that goes on and on.
fn music() -> Vec<i16> {
    const NOTES: [f64; 8] = [261.6, 329.6, 392.0, 523.3, 392.0, 329.6, 293.7, 246.9];
    let note = |frequency| media::tone::tone(frequency, 2_500, MUSIC_RATE, 500);
    let mut music: Vec<i16> = NOTES.into_iter().flat_map(note).collect();
    music.truncate(music.len() / MUSIC_FRAME * MUSIC_FRAME);
    music
}

/// The parts of the shard that rooms use besides their own state.
pub(super) struct RoomParts<'a, 'w> {
    pub(super) calls: &'a mut Calls,
    pub(super) recordings: &'a mut Recordings,
    /// The names and sizes of queues that requests have set.
    queues: &'a QueueRows,
    pub(super) world: &'a mut World<'w>,
}

impl Voice {
    /// Gives rooms an input, and performs the effects that scripts order then.
    pub(super) fn with_rooms<T>(
        &mut self,
        now: Instant,
        world: &mut World<'_>,
        act: impl FnOnce(&mut Rooms, &mut RoomParts<'_, '_>) -> T,
    ) -> T {
        let Voice { rooms, calls, recordings, numbers, .. } = self;
        let parts = &mut RoomParts { calls, recordings, queues: &numbers.queues, world: &mut *world };
        let done = act(rooms, parts);
        self.perform_queued(now, world);
        done
    }

    /// A message between a conference or queue and its members, from another shard.
    pub fn handle_room_message(&mut self, now: Instant, message: RoomMessage, world: &mut World<'_>) {
        self.calls.start_ticks(now, &self.rooms);
        self.with_rooms(now, world, |rooms, parts| {
            rooms.local.push_back((message.from, message.event));
            rooms.settle_rooms(now, parts);
        });
    }
}

/// The sound of a muted member stays here. The room learns with an empty frame, once a second, in which codec and rate it mixes
/// for that member.
fn put_frame(rooms: &mut Rooms, number: u64, (codec, rate): (Codec, u32), samples: &[i16]) {
    let seated = rooms.seats.get_mut(&number).filter(|seated| seated.source == Source::Room);
    let Some(seated) = seated else { return };
    if seated.home == rooms.own {
        return rooms.home.said(number, codec, rate, samples);
    }
    let (is_muted, is_known) = (seated.is_muted(), seated.spoke_in == Some((codec, rate)));
    seated.spoke_in = Some((codec, rate));
    if is_muted && is_known {
        return;
    }
    let sound = rooms.said.entry(seated.home).or_default();
    sound.put(number, codec, rate, if is_muted { &[] } else { samples });
}

/// The farm's map has changed: members of nodes that have died leave their rooms, and members whose rooms have another home go on there.
pub fn set_room_homes(voice: &mut Voice, now: Instant, homes: RoomHomes, world: &mut World<'_>) {
    if voice.rooms.homes == homes {
        return;
    }
    voice.rooms.homes = homes;
    if voice.rooms.is_idle() {
        return;
    }
    voice.with_rooms(now, world, |rooms, parts| {
        let homes = &rooms.homes;
        rooms.home.end_lives(now, |life| homes.dead.contains(&life), &mut rooms.outs);
        rooms.move_seats(now, parts);
    });
}

impl Rooms {
    /// Sends an event to a room or a member on any shard. [`Rooms::settle_rooms`] delivers those of this
    /// shard: never at once, as the sender is in the middle of its own change.
    fn post_event(&mut self, to: ShardAddress, event: RoomEvent, parts: &mut RoomParts<'_, '_>) {
        if to == self.own {
            self.local.push_back((to, event));
        } else {
            let message = RoomMessage { from: self.own, event };
            parts.world.outbox.push(VoiceEffect::Post { to, message });
        }
    }

    /// Delivers events between rooms and members of this shard, in order, until none is left. A script that
    /// is told of one may cause more; the call that this makes returns at once, and the loop further up the
    /// stack goes on with them.
    fn settle_rooms(&mut self, now: Instant, parts: &mut RoomParts<'_, '_>) {
        if std::mem::replace(&mut self.is_settling, true) {
            return;
        }
        loop {
            self.send_outs(parts);
            let Some((from, event)) = self.local.pop_front() else { break };
            self.handle_event(now, from, event, parts);
        }
        self.is_settling = false;
    }

    /// Gives an event to its room, or to the member that has its room there: a home that the member has moved from has no word about it.
    fn handle_event(
        &mut self,
        now: Instant,
        from: ShardAddress,
        event: RoomEvent,
        parts: &mut RoomParts<'_, '_>,
    ) {
        let has_home =
            |rooms: &Rooms, number| rooms.seats.get(&number).is_some_and(|seated| seated.home == from);
        match event {
            RoomEvent::Known { standings } => {
                for (number, standing) in standings {
                    self.is_known(now, from, (number, standing), parts);
                }
            }
            RoomEvent::Standing { number, standing } => {
                if has_home(self, number) {
                    self.stands(now, number, *standing, parts);
                }
            }
            RoomEvent::Gone { number, why } => {
                if has_home(self, number) {
                    self.is_out(now, number, why, parts);
                }
            }
            RoomEvent::Announce { number, target } => {
                if has_home(self, number) {
                    self.announce(now, number, target, parts);
                }
            }
            RoomEvent::Heard(sound) => {
                for (number, piece) in frames::pieces(&sound) {
                    let seated = self.seats.get_mut(&number);
                    let hears =
                        |seated: &&mut RoomMemberLeg| seated.source == Source::Room && seated.home == from;
                    if let Some(seated) = seated.filter(hears) {
                        seated.frames.push(&sound, piece);
                    }
                }
            }
            other => self.home.handle(now, from, other, &mut self.outs),
        }
    }

    /// Sends the effects of `home`, in order.
    fn send_outs(&mut self, parts: &mut RoomParts<'_, '_>) {
        for out in std::mem::take(&mut self.outs) {
            match out {
                Out::Tell(shard, event) => self.post_event(shard, event, parts),
                Out::Callback(wire) => parts.calls.helper_requests.tell(wire),
                Out::Write(write) => parts.world.outbox.push(VoiceEffect::Write(write)),
            }
        }
    }

    /// After each tick: the sound of it, and once a second which members are there.
    pub(super) fn tick_rooms(&mut self, now: Instant, parts: &mut RoomParts<'_, '_>) {
        if self.is_idle() {
            return;
        }
        for (shard, sound) in std::mem::take(&mut self.said) {
            self.post_event(shard, RoomEvent::Said(Arc::new(sound)), parts);
        }
        for (shard, sound) in
            std::mem::take(&mut self.heard).into_iter().filter(|(_, sound)| !sound.is_empty())
        {
            self.post_event(shard, RoomEvent::Heard(Arc::new(sound)), parts);
        }
        for seated in self.seats.values().filter(|seated| seated.source == Source::Room) {
            // The description may have come, or changed, after the leg was seated.
            let leg = parts.calls.legs.get_mut(seated.leg);
            if let Some(media) = leg.and_then(|leg| leg.media.as_mut()) {
                media.listen_decoded(true);
            }
        }
        if now >= self.next {
            self.next = now + limits::ROOM_KNOWN;
            self.tell_homes(now, parts);
        }
        self.home.expire(now, &mut self.outs);
        self.settle_rooms(now, parts);
    }

    /// Tells the homes which members are present. Members whose home has been silent for too long leave their
    /// room: the shard, or the messages to it, are overloaded, or its node is gone, and the script goes on without the room.
    fn tell_homes(&mut self, now: Instant, parts: &mut RoomParts<'_, '_>) {
        let mut homes: BTreeMap<ShardAddress, Vec<u64>> = BTreeMap::new();
        let (mut lost, mut moving) = (Vec::new(), Vec::new());
        for (number, seated) in &mut self.seats {
            // A frame that was lost is made good.
            seated.spoke_in = None;
            let has_leg = parts.calls.legs.get(seated.leg).is_some();
            let patience =
                if seated.home.life == self.own.life { limits::ROOM_LOST } else { limits::ROOM_MOVES };
            if !has_leg || now.since(seated.known_at) > patience {
                lost.push(*number);
            } else if seated.is_moving {
                moving.push(*number);
            } else {
                homes.entry(seated.home).or_default().push(*number);
            }
        }
        for number in lost {
            if let Some(home) = self.seats.get(&number).map(|seated| seated.home) {
                self.post_event(home, RoomEvent::Leave { number }, parts);
            }
            self.is_out(now, number, LeaveReason::Refused("the room does not answer".to_owned()), parts);
        }
        moving.into_iter().for_each(|number| self.rejoin(number, parts));
        for (home, numbers) in homes {
            self.post_event(home, RoomEvent::Alive { numbers }, parts);
        }
    }
}

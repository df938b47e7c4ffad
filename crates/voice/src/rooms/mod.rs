//! Rooms: conferences, and the two of a queue's connection. A room lives on the shard that its name hashes to; members of
//! other shards send it what they hear on every tick, and get back what they are to hear.
//!
//! A member's shard and the room's home exchange messages, one a tick with the sound of all members of one shard. Each side repeats
//! every second (`ROOM_KNOWN`) that a member is present; a member that was not mentioned for five (`ROOM_LOST`) has left,
//! whatever messages are lost (`docs/decisions/0009`).

mod callbacks;
mod control;
mod frames;
mod home;
mod member;
mod message;
mod queue;
mod room;
#[cfg(test)]
mod shard_tests;
#[cfg(test)]
mod sound_tests;
#[cfg(test)]
mod tests;
mod wait;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use ivr::script::Id;
use media::session::{FrameSource, MediaSession};
use stdx::Instant;
use stdx::hash::Keyed;
use stdx::rng::Rng;
use stdx::slab::Key;

use super::calls::Calls;
use super::record::Recordings;
use super::{Voice, VoiceEffect, World, limits};
use frames::Sound;
use home::{Out, RoomHome};
use member::RoomMemberLeg;
pub use message::RoomMessage;
use message::{LeaveReason, Name, RoomEvent};

/// A leg's place in a room. Its number is the member's number at this shard, so it names the membership, not
/// the leg: a leg that leaves and comes back has another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RoomMembership {
    /// The shard of the room.
    pub(super) home: u16,
    pub(super) number: u64,
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
    shard: u16,
    shards: u16,
    /// The rooms whose names hash to this shard.
    home: RoomHome,
    /// The legs of this shard in rooms of any shard, by number.
    seats: BTreeMap<u64, RoomMemberLeg>,
    /// The number of a membership, by the actor and what it asked for.
    by_effect: HashMap<(Key, Id), u64>,
    /// The number given last. Never used twice, so a late event about an old membership finds nothing.
    last: u64,
    /// For each shard: what its rooms get from us, and its members.
    said: Vec<Sound>,
    heard: Vec<Sound>,
    /// Events between our own rooms and members; `is_settling` while a caller further up the stack delivers them.
    local: VecDeque<RoomEvent>,
    is_settling: bool,
    /// Effects of `home` that `send_outs` has not sent yet.
    outs: Vec<Out>,
    /// The built-in music and the place in it. All that wait hear the same place.
    music: Vec<i16>,
    music_at: usize,
    /// The next time when the homes are told which members are present.
    next: Instant,
}

const SHARDS: Keyed = Keyed::new(*b"belfry's rooms!!");
/// The sample rate of the music, in Hz.
const MUSIC_RATE: u32 = 8_000;
const MUSIC_FRAME: usize = (MUSIC_RATE * media::limits::FRAME_MS / 1000) as usize;

impl Rooms {
    pub(super) fn new(shard: u16, shards: u16, rng: Rng) -> Rooms {
        let sounds = || (0..shards).map(|_| Sound::default()).collect();
        Rooms {
            shard,
            shards,
            home: RoomHome::new(shard, rng),
            seats: BTreeMap::new(),
            by_effect: HashMap::new(),
            last: 0,
            said: sounds(),
            heard: sounds(),
            local: VecDeque::new(),
            is_settling: false,
            outs: Vec::new(),
            music: music(),
            music_at: 0,
            next: Instant::default(),
        }
    }

    /// The shard of an account's conference or queue. Every shard computes the same, so a name has one room;
    /// accounts do not share names.
    fn home_of(&self, kind: &str, account: &str, name: &str) -> u16 {
        let hash = SHARDS.hash_parts(&[kind.as_bytes(), account.as_bytes(), name.as_bytes()]);
        u16::try_from(hash % u64::from(self.shards.max(1))).unwrap_or(0)
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
        if !self.seats.get(&seat.number).is_some_and(|seated| seated.source == Source::Room) {
            return;
        }
        if seat.home == self.shard {
            self.home.said(seat.number, media);
        } else if let Some(sound) = self.said.get_mut(usize::from(seat.home)) {
            let codec = media.negotiated().audio.codec;
            sound.put(seat.number, codec, media.rate(), media.received_samples());
        }
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
            Source::Room if seat.home == self.shard => self.home.feed(seat.number),
            Source::Room => seated.frames.next(),
        }
    }
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
        let Voice { rooms, calls, recordings, .. } = self;
        let done = act(rooms, &mut RoomParts { calls, recordings, world: &mut *world });
        self.perform_queued(now, world);
        done
    }

    /// A message between a conference or queue and its members, from another shard.
    pub fn handle_room_message(&mut self, now: Instant, message: RoomMessage, world: &mut World<'_>) {
        self.calls.start_ticks(now, &self.rooms);
        self.with_rooms(now, world, |rooms, parts| rooms.handle_message(now, message, parts));
    }
}

impl Rooms {
    /// Sends an event to a room or a member on any shard. [`Rooms::settle_rooms`] delivers those of this
    /// shard: never at once, as the sender is in the middle of its own change.
    fn post_note(&mut self, shard: u16, note: RoomEvent, parts: &mut RoomParts<'_, '_>) {
        if shard == self.shard {
            self.local.push_back(note);
        } else {
            parts.world.outbox.push(VoiceEffect::Post { shard, message: RoomMessage(note) });
        }
    }

    /// A message between a conference or queue and its members, from another shard.
    fn handle_message(&mut self, now: Instant, message: RoomMessage, parts: &mut RoomParts<'_, '_>) {
        self.local.push_back(message.0);
        self.settle_rooms(now, parts);
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
            let Some(note) = self.local.pop_front() else { break };
            match note {
                RoomEvent::Standing { number, standing } => self.stands(now, number, standing, parts),
                RoomEvent::Known { home, standings } => {
                    for (number, standing) in standings {
                        self.is_known(now, home, (number, standing), parts);
                    }
                }
                RoomEvent::Gone { number, why } => self.is_out(now, number, why, parts),
                RoomEvent::Announce { number, target } => self.announce(now, number, target, parts),
                RoomEvent::Heard { sound } => {
                    for (number, piece) in frames::pieces(&sound) {
                        let seated = self.seats.get_mut(&number);
                        if let Some(seated) = seated.filter(|seated| seated.source == Source::Room) {
                            seated.frames.push(&sound, piece);
                        }
                    }
                }
                other => self.home.handle(now, other, &mut self.outs),
            }
        }
        self.is_settling = false;
    }

    /// Sends the effects of `home`, in order.
    fn send_outs(&mut self, parts: &mut RoomParts<'_, '_>) {
        for out in std::mem::take(&mut self.outs) {
            match out {
                Out::Tell(name, note) => self.post_note(name.shard, note, parts),
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
        for shard in 0..self.shards {
            let at = usize::from(shard);
            if !self.said[at].is_empty() {
                let sound = Arc::new(std::mem::take(&mut self.said[at]));
                self.post_note(shard, RoomEvent::Said { shard: self.shard, sound }, parts);
            }
            if !self.heard[at].is_empty() {
                let sound = Arc::new(std::mem::take(&mut self.heard[at]));
                self.post_note(shard, RoomEvent::Heard { sound }, parts);
            }
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
    /// room: the shard, or the messages to it, are overloaded, and the script goes on without the room.
    fn tell_homes(&mut self, now: Instant, parts: &mut RoomParts<'_, '_>) {
        let mut homes: BTreeMap<u16, Vec<u64>> = BTreeMap::new();
        let mut lost = Vec::new();
        for (number, seated) in &self.seats {
            let has_leg = parts.calls.legs.get(seated.leg).is_some();
            if !has_leg || now.since(seated.known_at) > limits::ROOM_LOST {
                lost.push(*number);
            } else {
                homes.entry(seated.home).or_default().push(*number);
            }
        }
        for number in lost {
            if let Some(home) = self.seats.get(&number).map(|seated| seated.home) {
                self.post_note(home, RoomEvent::Leave(self.name(number)), parts);
            }
            self.is_out(now, number, LeaveReason::Refused("the room does not answer".to_owned()), parts);
        }
        for (home, numbers) in homes {
            self.post_note(home, RoomEvent::Alive { shard: self.shard, numbers }, parts);
        }
    }
}

impl Rooms {
    fn name(&self, number: u64) -> Name {
        Name { shard: self.shard, number }
    }
}

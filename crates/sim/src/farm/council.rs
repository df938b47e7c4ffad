//! A council: members' keys that expire, and the map with compare-and-swap. It can show old values and forget keys.

use std::collections::BTreeMap;
use std::time::Duration;

use cluster::Life;
use cluster::farm::Revision;
use cluster::map::FarmMap;
use cluster::member::Member;
use stdx::Instant;

/// The time for which a key lives after it was written.
const KEY_LIFE: Duration = Duration::from_secs(4);

/// A question of a node, or a write.
#[derive(Clone, Debug)]
pub enum CouncilRequest {
    /// Write the node's key; the time is the node's own.
    Announce { sent_at: Instant, member: Box<Member> },
    /// Read all members.
    ReadMembers,
    /// Read one member; the time is the node's own.
    ReadMember { life: Life, asked_at: Instant },
    /// Read the map.
    ReadMap,
    /// Write the map if its revision is this one.
    SwapMap { expected: Revision, map: Box<FarmMap> },
}

/// An answer of the council, or a notice of a change.
#[derive(Clone, Debug)]
pub enum CouncilAnswer {
    /// The key is written.
    Renewed { sent_at: Instant },
    /// A member's key was read or written.
    Announced(Box<Member>),
    /// All members have been announced.
    MembersRead,
    /// One member's key, or none.
    MemberRead { life: Life, asked_at: Instant, member: Option<Box<Member>> },
    /// A key has expired or was forgotten.
    KeyGone(Life),
    /// The node watches the council again: all that there is follows.
    WatchBegun,
    /// The map as it was read.
    Map(Revision, Option<Box<FarmMap>>),
    /// The map was written.
    MapWritten(Revision, Box<FarmMap>),
    /// The result of a swap.
    Swapped(Option<Revision>),
}

/// The keys of the council.
#[derive(Default)]
pub struct Council {
    members: BTreeMap<Life, (Box<Member>, Instant)>,
    map: Option<(Revision, Box<FarmMap>)>,
    /// The value of the map before, for old reads.
    before: Option<(Revision, Box<FarmMap>)>,
    revision: u64,
    lives: u32,
    /// Reads may show what was, absent keys included.
    pub is_stale: bool,
}

impl Council {
    /// The next life. The counter is never forgotten: in a farm it follows the clock.
    pub fn next_life(&mut self) -> Life {
        self.lives += 1;
        Life(self.lives)
    }

    /// Performs a request. `answers` go to the asker, `notices` to all.
    pub fn handle(
        &mut self,
        now: Instant,
        request: CouncilRequest,
        answers: &mut Vec<CouncilAnswer>,
        notices: &mut Vec<CouncilAnswer>,
    ) {
        match request {
            CouncilRequest::Announce { sent_at, member } => {
                self.members.insert(member.life, (member.clone(), now + KEY_LIFE));
                answers.push(CouncilAnswer::Renewed { sent_at });
                notices.push(CouncilAnswer::Announced(member));
            }
            CouncilRequest::ReadMembers => {
                let all = self.members.values().map(|(member, _)| CouncilAnswer::Announced(member.clone()));
                answers.extend(all);
                answers.push(CouncilAnswer::MembersRead);
            }
            CouncilRequest::ReadMember { life, asked_at } => {
                let member =
                    self.members.get(&life).filter(|_| !self.is_stale).map(|(member, _)| member.clone());
                answers.push(CouncilAnswer::MemberRead { life, asked_at, member });
            }
            CouncilRequest::ReadMap => answers.push(self.read_map()),
            CouncilRequest::SwapMap { expected, map } => {
                let revision = self.swap(expected, &map);
                answers.push(CouncilAnswer::Swapped(revision));
                notices.extend(revision.map(|revision| CouncilAnswer::MapWritten(revision, map)));
            }
        }
    }

    /// All that a watch which begins now shows.
    pub fn shown(&self) -> Vec<CouncilAnswer> {
        let members = self.members.values().map(|(member, _)| CouncilAnswer::Announced(member.clone()));
        let map = self.map.clone().map(|(revision, map)| CouncilAnswer::MapWritten(revision, map));
        members.chain(map).collect()
    }

    fn read_map(&self) -> CouncilAnswer {
        let shown = if self.is_stale { &self.before } else { &self.map };
        let (revision, map) =
            shown.clone().map_or((Revision(0), None), |(revision, map)| (revision, Some(map)));
        CouncilAnswer::Map(revision, map)
    }

    /// The map passes through its form in bytes, as it does in the farm.
    fn swap(&mut self, expected: Revision, map: &FarmMap) -> Option<Revision> {
        let current = self.map.as_ref().map_or(Revision(0), |(revision, _)| *revision);
        if current != expected {
            return None;
        }
        self.revision += 1;
        let map = FarmMap::decode(&map.encode()).expect("a node writes maps that can be read");
        self.before = self.map.replace((Revision(self.revision), Box::new(map)));
        Some(Revision(self.revision))
    }

    /// Removes keys whose time is over.
    pub fn expire(&mut self, now: Instant, notices: &mut Vec<CouncilAnswer>) {
        let over: Vec<Life> =
            self.members.iter().filter(|(_, (_, until))| *until <= now).map(|(life, _)| *life).collect();
        for life in over {
            self.members.remove(&life);
            notices.push(CouncilAnswer::KeyGone(life));
        }
    }

    /// Forgets the keys of all members, as after a restart without its files.
    pub fn forget_members(&mut self, notices: &mut Vec<CouncilAnswer>) {
        notices.extend(self.members.keys().map(|life| CouncilAnswer::KeyGone(*life)));
        self.members.clear();
    }

    /// Forgets the map. Revisions begin anew, so that an old one may be a new one's.
    pub fn forget_map(&mut self) {
        self.map = None;
        self.revision = 0;
    }

    /// The lives that have a key.
    pub fn members(&self) -> impl Iterator<Item = Life> + '_ {
        self.members.keys().copied()
    }
}

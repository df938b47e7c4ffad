//! Ticks of legs by phase: the 20 ms are cut into ten, so that a shard's turn is short and a request does not
//! wait behind the media of all calls. A leg keeps its phase, with one exception: legs that hear each other
//! are turned together, so that one sends what the other received in the same turn.
//!
//! Only the order and the times are here; `tick` moves the sound. Invariants: each leg has one tick in each
//! round of ten phases, it is in one lane, and a leg's ticks are 20 ms apart unless its phase changes.
//! `docs/decisions/0010` has the measurements.

use std::time::Duration;

use stdx::Instant;
use stdx::slab::{Key, Slab};

use super::leg::{Leg, Partner};

/// The time between two ticks of a leg: one frame of sound.
pub(super) const TICK: Duration = Duration::from_millis(media::limits::FRAME_MS as u64);

/// Phases of a tick.
const PHASES: usize = 10;

/// The time between two phases: 2 ms.
const SLOT: Duration = Duration::from_micros(TICK.as_micros() as u64 / PHASES as u64);

/// The phase of all legs in rooms: a mix needs the sound of all members, so they are turned at once. The
/// phase also comes round without legs, as rooms have members of other shards.
pub(super) const ROOMS: u8 = 0;

/// A phase with fewer legs takes the next one: each phase in use is a wake-up every 20 ms.
const FEW: usize = 32;

/// The legs of one shard by phase, and which phase is next.
#[derive(Default)]
pub(super) struct Phases {
    /// The legs of each phase. A leg that is gone stays until its phase is taken.
    lanes: [Vec<Key>; PHASES],
    next: usize,
    /// When that is.
    due: Instant,
}

impl Phases {
    /// The first of some legs is here.
    pub(super) fn start(&mut self, now: Instant) {
        // Keys of legs that are gone: nothing has taken them since the last leg ended.
        self.lanes.iter_mut().for_each(Vec::clear);
        self.next = 0;
        self.due = now + TICK;
    }

    /// The phase of a new leg: the first with room below `FEW`, then the one with the fewest legs.
    pub(super) fn add(&mut self, leg: Key) -> u8 {
        let lens = || self.lanes.iter().map(Vec::len).enumerate();
        let first = lens().find(|(_, len)| *len < FEW);
        let (phase, _) = first.or_else(|| lens().min_by_key(|(_, len)| *len)).unwrap_or_default();
        self.lanes[phase].push(leg);
        phase as u8
    }

    /// When the next phase is due that has legs.
    pub(super) fn deadline(&self) -> Instant {
        let ahead = (0..PHASES).find(|ahead| self.is_used((self.next + ahead) % PHASES)).unwrap_or(0);
        self.due + SLOT * ahead as u32
    }

    /// True if the phase has something to do.
    fn is_used(&self, phase: usize) -> bool {
        phase == usize::from(ROOMS) || !self.lanes[phase].is_empty()
    }

    /// The next phase that is due and has legs. Called until it returns `None`; one that is late gives its
    /// phases one after the other.
    pub(super) fn due(&mut self, now: Instant) -> Option<u8> {
        while self.due <= now {
            let phase = self.next;
            self.next = (phase + 1) % PHASES;
            self.due = self.due + SLOT;
            if self.is_used(phase) {
                return Some(phase as u8);
            }
        }
        None
    }

    /// When more than `late` is to be made up for, all of it is left out: whole rounds, so that every leg misses as
    /// much and keeps its phase. Returns the number of rounds.
    pub(super) fn give_up(&mut self, now: Instant, late: Duration) -> u64 {
        if now < self.due + late {
            return 0;
        }
        let rounds = now.since(self.due).as_millis() / TICK.as_millis() + 1;
        let rounds = u32::try_from(rounds).unwrap_or(u32::MAX);
        self.due = self.due + TICK * rounds;
        u64::from(rounds)
    }

    /// Takes the legs of a phase, to be given back. Legs that are gone are left out, and legs that belong to another
    /// phase by now move there, for their next tick.
    pub(super) fn take(&mut self, phase: u8, legs: &mut Slab<Leg>) -> Vec<Key> {
        let mut lane = std::mem::take(&mut self.lanes[usize::from(phase)]);
        lane.retain(|&key| {
            let Some(home) = home(key, legs) else { return false };
            if home == phase {
                return true;
            }
            if let Some(leg) = legs.get_mut(key) {
                leg.phase = home;
                self.lanes[usize::from(home)].push(key);
            }
            false
        });
        lane
    }

    /// Ends [`Phases::take`]. No leg may be added to this phase in between: its place would be overwritten.
    pub(super) fn give_back(&mut self, phase: u8, lane: Vec<Key>) {
        self.lanes[usize::from(phase)] = lane;
    }
}

/// The phase that a leg belongs to. When two legs hear each other, the one with the later phase moves; as phases of
/// pairs only become earlier, they come to rest. `None`: the leg is gone.
fn home(key: Key, legs: &Slab<Leg>) -> Option<u8> {
    let leg = legs.get(key)?;
    Some(match leg.partner {
        Partner::None | Partner::Echo => leg.phase,
        Partner::Leg(other) => legs.get(other).map_or(leg.phase, |other| other.phase.min(leg.phase)),
        Partner::Seat(_) => ROOMS,
    })
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::HashMap;
    use std::net::{IpAddr, Ipv4Addr};
    use std::sync::Arc;

    use sip::session::SessionId;
    use stdx::rng::Rng;

    use super::*;
    use crate::Owner;

    pub(crate) fn start() -> Instant {
        Instant::from_unix_seconds(1_800_000_000)
    }

    pub(crate) fn leg() -> Leg {
        let owner = Arc::new(Owner { account: "AC".into(), signing_key: "".into() });
        let mut rng = Rng::from_seed([7; 32]);
        Leg::new(SessionId(1), "CA".into(), owner, IpAddr::V4(Ipv4Addr::LOCALHOST), &mut rng)
    }

    /// Legs whose media only counts: how many frames it heard, and which of its partner's it said.
    struct World {
        phases: Phases,
        legs: Slab<Leg>,
        now: Instant,
        turns: HashMap<Key, Vec<Instant>>,
        heard: HashMap<Key, u64>,
        said: HashMap<Key, Vec<u64>>,
    }

    impl World {
        fn new(legs: usize) -> (World, Vec<Key>) {
            let mut world = World {
                phases: Phases::default(),
                legs: Slab::new(),
                now: start(),
                turns: HashMap::new(),
                heard: HashMap::new(),
                said: HashMap::new(),
            };
            world.phases.start(world.now);
            let keys = (0..legs).map(|_| world.add()).collect();
            (world, keys)
        }

        fn add(&mut self) -> Key {
            let key = self.legs.insert(leg());
            self.legs.get_mut(key).unwrap().phase = self.phases.add(key);
            key
        }

        fn hear_each_other(&mut self, a: Key, b: Key) {
            self.legs.get_mut(a).unwrap().partner = Partner::Leg(b);
            self.legs.get_mut(b).unwrap().partner = Partner::Leg(a);
        }

        fn phase(&self, key: Key) -> u8 {
            self.legs.get(key).unwrap().phase
        }

        /// To `until`; each turn begins up to `late` after it was due.
        fn run(&mut self, until: Instant, late: impl Fn(u64) -> Duration) {
            let mut turn = 0;
            while self.phases.deadline() <= until {
                self.now = self.now.max(self.phases.deadline() + late(turn));
                turn += 1;
                while let Some(phase) = self.phases.due(self.now) {
                    self.turn(phase);
                }
            }
        }

        fn turn(&mut self, phase: u8) {
            let lane = self.phases.take(phase, &mut self.legs);
            for &key in &lane {
                self.turns.entry(key).or_default().push(self.now);
                *self.heard.entry(key).or_default() += 1;
            }
            for &key in &lane {
                if let Partner::Leg(other) = self.legs.get(key).unwrap().partner {
                    let frame = self.heard.get(&other).copied().unwrap_or_default();
                    self.said.entry(key).or_default().push(frame);
                }
            }
            self.phases.give_back(phase, lane);
        }
    }

    const ON_TIME: fn(u64) -> Duration = |_| Duration::ZERO;

    #[test]
    fn every_leg_has_a_tick_each_twenty_milliseconds_and_no_turn_has_all() {
        let (mut world, keys) = World::new(1_000);
        world.run(start() + TICK * 101, ON_TIME);
        for key in &keys {
            let turns = &world.turns[key];
            assert!(turns.len() >= 100 && turns.windows(2).all(|two| two[1].since(two[0]) == TICK));
        }
        assert!(world.phases.lanes.iter().all(|lane| lane.len() == 100), "a tenth each");
    }

    #[test]
    fn few_legs_are_one_wake_up_a_tick() {
        let (mut world, keys) = World::new(FEW);
        assert!(keys.iter().all(|key| world.phase(*key) == 0));
        let first = world.phases.deadline();
        assert!(world.phases.due(first).is_some());
        assert_eq!(world.phases.deadline(), first + TICK);
        world.add();
        assert_eq!(world.phases.deadline(), first + SLOT, "one more takes the next phase");
    }

    #[test]
    fn two_that_hear_each_other_lose_no_frame_and_say_none_twice_however_late_the_shard_is() {
        let (mut world, keys) = World::new(500);
        let pairs = [(keys[40], keys[470]), (keys[330], keys[65]), (keys[1], keys[2])];
        pairs.iter().for_each(|(a, b)| world.hear_each_other(*a, *b));
        world.run(start() + TICK * 1_002, |turn| Duration::from_micros(turn * 7_919 % 47_000));
        for (a, b) in pairs {
            assert_eq!(world.phase(a), world.phase(b));
            for key in [a, b] {
                let said = &world.said[&key];
                assert!(said.len() >= 1_000, "{}", said.len());
                // From their meeting on: each frame once, in order, and in the tick in which it was heard.
                assert!(said[3..].windows(2).all(|two| two[1] == two[0] + 1), "{said:?}");
                let heard = world.heard[&if key == a { b } else { a }];
                assert_eq!(said.last(), Some(&heard));
            }
        }
    }

    #[test]
    fn all_of_a_room_are_turned_at_once() {
        let (mut world, keys) = World::new(400);
        let seat = crate::rooms::RoomMembership { number: 1 };
        for key in &keys[100..140] {
            world.legs.get_mut(*key).unwrap().partner = Partner::Seat(seat);
        }
        world.run(start() + TICK * 3, ON_TIME);
        assert!(keys[100..140].iter().all(|key| world.phase(*key) == ROOMS));
        assert_eq!(world.phases.lanes.iter().map(Vec::len).sum::<usize>(), 400, "no leg twice, no leg lost");
    }

    #[test]
    fn a_leg_that_is_gone_leaves_its_phase() {
        let (mut world, keys) = World::new(64);
        world.legs.remove(keys[40]);
        world.run(start() + TICK * 2, ON_TIME);
        assert_eq!(world.phases.lanes.iter().map(Vec::len).sum::<usize>(), 63);
        assert!(!world.turns.contains_key(&keys[40]));
    }

    #[test]
    fn rounds_that_are_given_up_are_whole_ones() {
        let (mut world, keys) = World::new(200);
        let (before, late) = (world.phases.deadline(), TICK * 3);
        assert_eq!(world.phases.give_up(before + late - Duration::from_micros(1), late), 0, "is made up for");
        assert_eq!(world.phases.give_up(before + late + SLOT * 3, late), 4);
        assert_eq!(world.phases.deadline(), before + TICK * 4);
        world.run(before + TICK * 10, ON_TIME);
        let phase = u32::from(world.phase(keys[150]));
        assert_eq!(world.turns[&keys[150]][0], before + TICK * 4 + SLOT * phase, "its phase is the same");
    }
}

//! A hierarchical timer wheel: millions of timers, days ahead, never cancelled. A timer that no longer
//! matters fires and finds a state that ignores it.

use crate::Instant;
use crate::limits::{TICK_MICROS as USUAL_TICK_MICROS, WHEEL_SLOT_KEEPS};

const BITS: usize = 8;
const SLOTS: usize = 1 << BITS;
/// 2^64 microseconds are at most 2^56 ticks of [`FINEST_MICROS`]: seven digits of eight bits name any of them.
const LEVELS: usize = 7;
const FINEST_MICROS: u64 = 256;

/// Timers by tick. An entry lies on the level of the highest digit in which its tick differs from the
/// current one, and falls to a lower level when the wheel gets there: at most `LEVELS - 1` times, once or
/// twice for anything within nine minutes. Costs 16 to 24 bytes an entry for an eight-byte token.
///
/// A tick is `TICK_MICROS` long, 256 at least: measurements need a finer one than mere time-outs.
pub struct Wheel<T, const TICK_MICROS: u64 = USUAL_TICK_MICROS> {
    levels: Box<[WheelLevel<T>; LEVELS]>,
    /// Every tick before this one has fired.
    current: u64,
    len: usize,
}

struct WheelLevel<T> {
    slots: [Vec<Entry<T>>; SLOTS],
    occupied: [u64; SLOTS / 64],
}

#[derive(Clone, Copy)]
struct Entry<T> {
    tick: u64,
    token: T,
}

impl<T: Copy, const TICK_MICROS: u64> Wheel<T, TICK_MICROS> {
    /// A wheel without timers that begins at `now`.
    pub fn new(now: Instant) -> Self {
        const { assert!(TICK_MICROS >= FINEST_MICROS, "a tick is 256 us or longer") };
        let current = now.as_micros() / TICK_MICROS;
        Wheel { levels: Box::new(std::array::from_fn(|_| WheelLevel::new())), current, len: 0 }
    }

    /// Fires at `at` or less than one tick later; in the next `expire` when `at` has passed.
    pub fn insert(&mut self, at: Instant, token: T) {
        self.len += 1;
        self.place(Entry { tick: at.as_micros().div_ceil(TICK_MICROS), token });
    }

    /// Appends the tokens that are due, earliest tick first.
    pub fn expire(&mut self, now: Instant, out: &mut Vec<T>) {
        let target = now.as_micros() / TICK_MICROS;
        while let Some(next) = self.next().filter(|next| next.tick <= target) {
            self.current = self.current.max(next.tick);
            if next.level == 0 {
                self.len -= self.levels[0].fire(next.slot, out);
            } else {
                self.cascade(&next);
            }
        }
        self.current = self.current.max(target);
    }

    /// When `expire` next has something to do: the tick of the earliest timer, or the earlier boundary at
    /// which timers far away move closer. Never later than the tick of a timer.
    pub fn deadline(&self) -> Option<Instant> {
        self.next().map(|next| Instant::from_micros(next.tick.saturating_mul(TICK_MICROS)))
    }

    /// The number of timers.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True without timers.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn place(&mut self, entry: Entry<T>) {
        let tick = entry.tick.max(self.current);
        let highest = 63 - ((tick ^ self.current) | 1).leading_zeros() as usize;
        let level = highest / BITS;
        self.levels[level].push(digit(tick, level), entry);
    }

    /// The earliest occupied slot: everything on a level is earlier than anything on the levels above.
    fn next(&self) -> Option<NextDeadline> {
        (0..LEVELS).find_map(|level| {
            let slot = self.levels[level].first_from(digit(self.current, level))?;
            let below = level * BITS;
            let block = self.current >> (below + BITS) << (below + BITS);
            Some(NextDeadline { level, slot, tick: block | (slot as u64) << below })
        })
    }

    fn cascade(&mut self, next: &NextDeadline) {
        for entry in self.levels[next.level].take(next.slot) {
            self.place(entry);
        }
    }
}

struct NextDeadline {
    level: usize,
    slot: usize,
    tick: u64,
}

impl<T> WheelLevel<T> {
    fn new() -> Self {
        WheelLevel { slots: std::array::from_fn(|_| Vec::new()), occupied: [0; SLOTS / 64] }
    }

    /// Grows by half instead of doubling: that is what keeps an entry under 24 bytes.
    fn push(&mut self, slot: usize, entry: Entry<T>) {
        let entries = &mut self.slots[slot];
        if entries.len() == entries.capacity() {
            entries.reserve_exact((entries.len() / 2).max(2));
        }
        entries.push(entry);
        self.occupied[slot / 64] |= 1 << (slot % 64);
    }

    fn first_from(&self, slot: usize) -> Option<usize> {
        let mut mask = u64::MAX << (slot % 64);
        for word in slot / 64..self.occupied.len() {
            let found = self.occupied[word] & mask;
            if found != 0 {
                return Some(word * 64 + found.trailing_zeros() as usize);
            }
            mask = u64::MAX;
        }
        None
    }

    fn fire(&mut self, slot: usize, out: &mut Vec<T>) -> usize {
        let before = out.len();
        let entries = &mut self.slots[slot];
        out.extend(entries.drain(..).map(|entry| entry.token));
        if entries.capacity() > WHEEL_SLOT_KEEPS {
            *entries = Vec::new();
        }
        self.occupied[slot / 64] &= !(1 << (slot % 64));
        out.len() - before
    }

    fn take(&mut self, slot: usize) -> Vec<Entry<T>> {
        self.occupied[slot / 64] &= !(1 << (slot % 64));
        std::mem::take(&mut self.slots[slot])
    }
}

fn digit(tick: u64, level: usize) -> usize {
    (tick >> (level * BITS)) as usize % SLOTS
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    const START: u64 = 1_800_000_000_000_000;

    fn at(micros: u64) -> Instant {
        Instant::from_micros(START + micros)
    }

    fn expired<const TICK: u64>(wheel: &mut Wheel<u64, TICK>, now: Instant) -> Vec<u64> {
        let mut out = Vec::new();
        wheel.expire(now, &mut out);
        out
    }

    #[test]
    fn a_timer_fires_at_its_tick_and_not_before() {
        let mut wheel: Wheel<u64> = Wheel::new(at(0));
        wheel.insert(at(20_000), 7);
        assert_eq!(wheel.deadline(), Some(at(24_000)));
        assert!(expired(&mut wheel, at(23_999)).is_empty());
        assert_eq!(expired(&mut wheel, at(24_000)), [7]);
        assert_eq!(wheel.deadline(), None);
    }

    #[test]
    fn a_timer_in_the_past_fires_next() {
        let mut wheel: Wheel<u64> = Wheel::new(at(5_000_000));
        wheel.insert(at(0), 1);
        wheel.insert(at(5_000_000), 2);
        assert!(wheel.deadline().is_some_and(|deadline| deadline <= at(5_000_000)));
        assert_eq!(expired(&mut wheel, at(5_000_000)), [1, 2]);
        assert!(wheel.is_empty());
    }

    #[test]
    fn the_end_of_time_is_a_place() {
        let mut wheel: Wheel<u64> = Wheel::new(at(0));
        wheel.insert(Instant::FAR_FUTURE, 1);
        assert!(expired(&mut wheel, at(0) + Duration::from_secs(10 * 365 * 86_400)).is_empty());
        assert_eq!(wheel.len(), 1);
        assert!(wheel.deadline().is_some());
    }

    #[test]
    fn an_entry_costs_at_most_24_bytes_and_nothing_once_it_fired() {
        let mut wheel: Wheel<u64> = Wheel::new(at(0));
        for token in 0..300_000u64 {
            wheel.insert(at(token * 100), token);
        }
        assert_eq!(size_of::<Entry<u64>>(), 16);
        assert!(room(&wheel) * size_of::<Entry<u64>>() <= 300_000 * 24);
        assert_eq!(expired(&mut wheel, at(300_000 * 100)).len(), 300_000);
        assert!(room(&wheel) <= LEVELS * SLOTS * WHEEL_SLOT_KEEPS);
    }

    fn room(wheel: &Wheel<u64>) -> usize {
        wheel.levels.iter().flat_map(|level| &level.slots).map(Vec::capacity).sum()
    }

    #[derive(Clone, Debug)]
    enum Step {
        Insert(u64),
        Backdate(u64),
        Advance(u64),
        ToDeadline,
    }

    fn span() -> impl Strategy<Value = u64> {
        prop_oneof![0..20_000u64, 0..40_000_000u64, 0..5_000_000_000u64, 0..2_000_000_000_000u64]
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => span().prop_map(Step::Insert),
            1 => span().prop_map(Step::Backdate),
            2 => span().prop_map(Step::Advance),
            2 => Just(Step::ToDeadline),
        ]
    }

    /// A map from tick to tokens, with which the wheel must agree after each step.
    struct Model<const TICK: u64> {
        wheel: Wheel<u64, TICK>,
        timers: BTreeMap<(u64, u64), u64>,
        now: u64,
        tokens: u64,
    }

    impl<const TICK: u64> Model<TICK> {
        fn insert(&mut self, micros: u64) {
            self.tokens += 1;
            let tick = (START + micros).div_ceil(TICK);
            self.timers.insert((tick, self.tokens), START + micros);
            self.wheel.insert(at(micros), self.tokens);
        }

        fn advance(&mut self, micros: u64) {
            self.now = micros;
            let mut fired = Vec::new();
            self.wheel.expire(at(micros), &mut fired);
            fired.sort_unstable();
            let now = (START + micros) / TICK;
            let later = self.timers.split_off(&(now + 1, 0));
            let mut expected: Vec<u64> =
                std::mem::replace(&mut self.timers, later).into_keys().map(|(_, token)| token).collect();
            expected.sort_unstable();
            assert_eq!(fired, expected);
        }

        fn check_deadline(&self) {
            let earliest = self.timers.keys().next().map(|(tick, _)| tick * TICK);
            match (earliest, self.wheel.deadline()) {
                (None, None) => {}
                (Some(earliest), Some(deadline)) => {
                    let floor = (START + self.now) / TICK * TICK;
                    assert!(deadline.as_micros() <= earliest.max(floor));
                }
                other => panic!("model and wheel disagree: {other:?}"),
            }
            assert_eq!(self.wheel.len(), self.timers.len());
        }
    }

    fn agrees<const TICK: u64>(steps: &[Step]) {
        let wheel = Wheel::<u64, TICK>::new(at(0));
        let mut model = Model { wheel, timers: BTreeMap::new(), now: 0, tokens: 0 };
        for step in steps {
            match step {
                Step::Insert(span) => model.insert(model.now + span),
                Step::Backdate(span) => model.insert(model.now.saturating_sub(*span)),
                Step::Advance(span) => model.advance(model.now + span),
                Step::ToDeadline => {
                    if let Some(deadline) = model.wheel.deadline() {
                        model.advance((deadline.as_micros().saturating_sub(START)).max(model.now));
                    }
                }
            }
            model.check_deadline();
        }
    }

    proptest! {
        #[test]
        fn agrees_with_a_sorted_map(steps in prop::collection::vec(step(), 1..200)) {
            agrees::<USUAL_TICK_MICROS>(&steps);
            agrees::<1_000>(&steps);
            agrees::<FINEST_MICROS>(&steps);
        }
    }
}

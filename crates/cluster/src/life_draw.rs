//! The drawing of a life: a number of the council that no other start of a node gets, even if the council loses its files.
//!
//! The council's counter says which number is next, and a key of the number's own is made for it: of two nodes that want one number the
//! first makes the key. Swaps of the counter alone would not do, as the revisions of new files begin anew, and a swap of before the loss may
//! succeed after it. Lives also follow the clock, eight numbers a second, so that a council
//! without its files goes on above the lives that it gave before. A life is used only when the clock has passed it and
//! the files that it was drawn from are still the same: the first draw from later files then reads a later clock, and its number is
//! greater. `farm::council` performs the steps; `sim` plays them with councils that lose their files (`crates/sim/tests/farm/lives.rs`).
//!
//! Nodes whose clocks differ by more than [`LIFE_AHEAD`] have the counter alone; members that return to a council
//! raise it to their own lives.

use crate::address::Life;
use crate::limits::LIFE_AHEAD;

/// The counter of lives as it was read, in the council's files of that moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LifeCounter {
    /// A number that the files were given when they were made: other files have another one.
    pub files: i128,
    /// The last life; none if no node has drawn one from these files.
    pub last: Option<Life>,
}

/// The next step of a draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LifeStep {
    /// Read the counter and then the clock: [`LifeDraw::handle_read`].
    Read,
    /// Make the key of this life, if there is none: [`LifeDraw::handle_claimed`].
    Claim(Life),
    /// Replace the counter as it was last read by this life: [`LifeDraw::handle_swapped`].
    Swap(Life),
    /// Ask again when the clock has passed this life: [`LifeDraw::expire`].
    Wait(Life),
    /// The life is the node's.
    Done(Life),
}

/// The phase of a draw.
#[derive(Clone, Copy, Debug)]
enum Phase {
    Reading,
    Claiming {
        files: i128,
        life: Life,
    },
    Swapping {
        files: i128,
        life: Life,
    },
    Waiting {
        files: i128,
        life: Life,
    },
    /// The counter is read once more.
    Confirming {
        files: i128,
        life: Life,
    },
}

/// One draw of a life. It begins with [`LifeStep::Read`].
#[derive(Debug)]
pub struct LifeDraw {
    phase: Phase,
    /// Lives below are taken, whatever the counter says.
    least: u32,
}

impl Default for LifeDraw {
    fn default() -> LifeDraw {
        LifeDraw { phase: Phase::Reading, least: 0 }
    }
}

impl LifeDraw {
    /// The council has this counter. `clock`: the life of this moment, read after the counter.
    pub fn handle_read(&mut self, counter: LifeCounter, clock: Life) -> LifeStep {
        let LifeCounter { files, last } = counter;
        if let Phase::Confirming { files: drawn_from, life } = self.phase
            && drawn_from == files
        {
            return LifeStep::Done(life);
        }
        // The life 0 is that of nodes outside a farm.
        let next = last.map_or(0, |last| last.0).saturating_add(1);
        let life = Life(next.max(clock.0).max(self.least));
        self.phase = Phase::Claiming { files, life };
        LifeStep::Claim(life)
    }

    /// The key of the life has been made, or another node has made it before.
    pub fn handle_claimed(&mut self, is_done: bool) -> LifeStep {
        match self.phase {
            Phase::Claiming { files, life } if is_done => {
                self.phase = Phase::Swapping { files, life };
                LifeStep::Swap(life)
            }
            Phase::Claiming { life, .. } => self.read_above(life),
            _ => self.read_above(Life(0)),
        }
    }

    /// The counter has been replaced, or another write came before.
    pub fn handle_swapped(&mut self, is_done: bool, clock: Life) -> LifeStep {
        match self.phase {
            Phase::Swapping { files, life } if is_done => {
                self.phase = Phase::Waiting { files, life };
                self.expire(clock)
            }
            Phase::Swapping { life, .. } => self.read_above(life),
            _ => self.read_above(Life(0)),
        }
    }

    fn read_above(&mut self, taken: Life) -> LifeStep {
        self.least = self.least.max(taken.0.saturating_add(1));
        self.phase = Phase::Reading;
        LifeStep::Read
    }

    /// The clock is here now.
    pub fn expire(&mut self, clock: Life) -> LifeStep {
        let Phase::Waiting { files, life } = self.phase else { return LifeStep::Read };
        // A counter that is further ahead follows another node's clock.
        if clock <= life && life.0 - clock.0 <= LIFE_AHEAD {
            return LifeStep::Wait(life);
        }
        self.phase = Phase::Confirming { files, life };
        LifeStep::Read
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counter(files: i128, last: Option<u32>) -> LifeCounter {
        LifeCounter { files, last: last.map(Life) }
    }

    #[test]
    fn a_life_is_used_when_the_clock_has_passed_it_and_its_files_are_there() {
        let mut draw = LifeDraw::default();
        assert_eq!(draw.handle_read(counter(1, Some(104)), Life(100)), LifeStep::Claim(Life(105)));
        assert_eq!(draw.handle_claimed(true), LifeStep::Swap(Life(105)));
        assert_eq!(draw.handle_swapped(true, Life(100)), LifeStep::Wait(Life(105)));
        assert_eq!(draw.expire(Life(105)), LifeStep::Wait(Life(105)));
        assert_eq!(draw.expire(Life(106)), LifeStep::Read);
        // Others have drawn meanwhile.
        assert_eq!(draw.handle_read(counter(1, Some(109)), Life(106)), LifeStep::Done(Life(105)));
    }

    #[test]
    fn a_life_of_lost_files_is_drawn_again() {
        let mut draw = LifeDraw::default();
        draw.handle_read(counter(1, None), Life(100));
        draw.handle_claimed(true);
        draw.handle_swapped(true, Life(100));
        draw.expire(Life(101));
        assert_eq!(draw.handle_read(counter(2, Some(100)), Life(101)), LifeStep::Claim(Life(101)));
        assert_eq!(draw.handle_claimed(true), LifeStep::Swap(Life(101)));
        assert_eq!(draw.handle_swapped(false, Life(101)), LifeStep::Read);
        assert_eq!(draw.handle_read(counter(2, Some(101)), Life(101)), LifeStep::Claim(Life(102)));
        assert_eq!(draw.handle_claimed(false), LifeStep::Read);
        // A swap of before the loss may have set the counter back.
        assert_eq!(draw.handle_read(counter(2, Some(90)), Life(101)), LifeStep::Claim(Life(103)));
    }

    #[test]
    fn a_counter_that_follows_the_clock_of_another_node_is_not_waited_for() {
        let mut draw = LifeDraw::default();
        let ahead = 100 + LIFE_AHEAD;
        draw.handle_read(counter(1, Some(ahead)), Life(100));
        assert_eq!(draw.handle_claimed(true), LifeStep::Swap(Life(ahead + 1)));
        assert_eq!(draw.handle_swapped(true, Life(100)), LifeStep::Read);
    }
}

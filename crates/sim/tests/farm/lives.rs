//! Lives are unique, whenever the council loses its files.

use std::collections::BTreeSet;

use cluster::Life;
use cluster::life_draw::{LifeCounter, LifeDraw, LifeStep};
use sim::for_seeds;
use stdx::rng::Rng;

/// The council's counter, which its files may be lost with.
#[derive(Default)]
struct Files {
    number: i128,
    last: Option<Life>,
    revision: u64,
    claims: BTreeSet<Life>,
}

impl Files {
    fn lose(&mut self) {
        *self = Files { number: self.number + 1, ..Files::default() };
    }

    /// A compare-and-swap: the revisions of new files begin anew, so an old one may be a new one's.
    fn swap(&mut self, expected: u64, life: Life) -> bool {
        let is_done = self.revision == expected;
        if is_done {
            (self.revision, self.last) = (expected + 1, Some(life));
        }
        is_done
    }
}

/// A node that starts. Its requests and their answers take their time, so others come between.
struct Starter {
    draw: LifeDraw,
    step: LifeStep,
    /// The revision that was last read, and the files' number, which is read first.
    read: u64,
    files: Option<i128>,
}

impl Starter {
    fn new() -> Starter {
        Starter { draw: LifeDraw::default(), step: LifeStep::Read, read: 0, files: None }
    }

    /// One request, or one look at the clock.
    fn advance(&mut self, files: &mut Files, clock: Life) {
        self.step = match self.step {
            LifeStep::Read => match self.files.take() {
                None => {
                    self.files = Some(files.number);
                    LifeStep::Read
                }
                Some(number) => {
                    self.read = files.revision;
                    self.draw.handle_read(LifeCounter { files: number, last: files.last }, clock)
                }
            },
            LifeStep::Claim(life) => self.draw.handle_claimed(files.claims.insert(life)),
            LifeStep::Swap(life) => {
                let is_done = files.swap(self.read, life);
                self.draw.handle_swapped(is_done, clock)
            }
            LifeStep::Wait(_) => self.draw.expire(clock),
            LifeStep::Done(life) => LifeStep::Done(life),
        };
        if let LifeStep::Done(life) = self.step
            && clock > life
        {
            files.claims.remove(&life);
        }
    }
}

#[test]
fn no_life_comes_twice_whenever_the_council_loses_its_files() {
    for_seeds(0..100, |seed| {
        let mut random = Rng::seeded(seed);
        let (mut files, mut starters, mut lives) = (Files::default(), Vec::new(), BTreeSet::new());
        let mut count = 0;
        // Several starts and losses within each eighth of a second; in the end all that have started get their lives.
        for moment in 0..30_000 {
            let clock = Life(1_000 + moment / 100);
            match random.next_u64() % 60 {
                0 if moment < 1_000 => files.lose(),
                1..4 if moment < 1_000 => {
                    starters.push(Starter::new());
                    count += 1;
                }
                _ if starters.is_empty() => {}
                _ => {
                    let at = (random.next_u64() % starters.len() as u64) as usize;
                    starters[at].advance(&mut files, clock);
                    if let LifeStep::Done(life) = starters[at].step {
                        assert!(lives.insert(life), "life {life} came twice");
                        starters.swap_remove(at);
                    }
                }
            }
        }
        assert_eq!((lives.len(), starters.len()), (count, 0), "every node has a life of its own");
    });
}

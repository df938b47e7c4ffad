//! Detects that a shard does not keep up. A queue that only grows answers nothing in time, so new work is
//! refused first, and requests within a dialog still pass (`sip::endpoint::Intake`).

use std::time::Duration;

use sip::endpoint::Intake;
use stdx::Instant;
use stdx::latency::LatencyHistogram;

/// A turn longer than this means that packets wait longer than the network takes.
const LONG_TURN: Duration = Duration::from_millis(100);
/// A turn over so many messages has left others in the kernel: one batch of one socket (`mmsg::BATCH`).
const FULL_TURN: usize = 64;
/// The time that every turn must be long or full before new work is refused: longer than a burst. No turn counts for more than
/// [`LONG_TURN`]: where the whole process stood still (its machine was stopped, other programs had the processors), one turn is as long
/// as that, and what waits meanwhile is answered sooner than those who were refused would come back.
const PATIENCE: Duration = Duration::from_millis(500);

/// The lag of one shard, from which `Shard::run` sets the intake of the endpoint after each turn.
#[derive(Debug, Default)]
pub(super) struct Load {
    /// The time of the last turns in a row that were long or full.
    behind_for: Duration,
    /// Set by `Command::Drain`, and never unset.
    draining: bool,
    /// Lengths of turns with messages, for metrics. Others take no time worth knowing, and there are many.
    turns: LatencyHistogram,
}

impl Load {
    /// Handles the end of a turn. Returns the shard's intake from now on: one turn that is neither long nor full opens it again.
    pub(super) fn weigh(&mut self, began: Instant, ended: Instant, messages: usize) -> Intake {
        let turn = ended.since(began);
        if messages > 0 {
            self.turns.record(turn);
        }
        // Either sign will do: few slow messages delay the others as much as many quick ones.
        self.behind_for = match turn >= LONG_TURN || messages >= FULL_TURN {
            true => self.behind_for + turn.min(LONG_TURN),
            false => Duration::ZERO,
        };
        match (self.draining, self.behind_for > PATIENCE) {
            // Stronger than overload: a node that drains takes nothing new, however idle it is.
            (true, _) => Intake::Draining,
            (false, true) => Intake::Overloaded,
            (false, false) => Intake::Open,
        }
    }

    /// Lengths of turns with messages.
    pub(super) fn turns(&self) -> &LatencyHistogram {
        &self.turns
    }

    pub(super) fn drain(&mut self) {
        self.draining = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Turns of 10 ms over `messages` each, for so long; the intake after the last.
    fn run(load: &mut Load, now: &mut Instant, turns: u32, messages: usize) -> Intake {
        let mut intake = Intake::Open;
        for _ in 0..turns {
            let began = *now;
            *now = *now + 10 * MS;
            intake = load.weigh(began, *now, messages);
        }
        intake
    }

    #[test]
    fn full_turns_for_half_a_second_refuse_new_work_until_one_is_not() {
        let (mut load, mut now) = (Load::default(), Instant::from_unix_seconds(1));
        assert_eq!(run(&mut load, &mut now, 50, FULL_TURN), Intake::Open, "a burst");
        assert_eq!(run(&mut load, &mut now, 2, FULL_TURN), Intake::Overloaded);
        assert_eq!(run(&mut load, &mut now, 1, 3), Intake::Open);
    }

    #[test]
    fn long_turns_count_like_full_ones_and_draining_stays() {
        let (mut load, start) = (Load::default(), Instant::from_unix_seconds(1));
        let mut intakes =
            (0..6).map(|turn| load.weigh(start + turn * LONG_TURN, start + (turn + 1) * LONG_TURN, 1));
        assert!(intakes.by_ref().take(5).all(|intake| intake == Intake::Open));
        assert_eq!(intakes.next(), Some(Intake::Overloaded));
        drop(intakes);
        load.drain();
        assert_eq!(load.weigh(start, start + MS, 0), Intake::Draining);
        assert_eq!(
            (load.turns().count(), load.turns().buckets()[6]),
            (6, 6),
            "turns without messages do not count"
        );
    }

    #[test]
    fn a_process_that_stood_still_refuses_nothing() {
        let (mut load, start) = (Load::default(), Instant::from_unix_seconds(1));
        let awake = start + 50 * LONG_TURN;
        assert_eq!(load.weigh(start, awake, 1), Intake::Open);
        // All that came meanwhile is read in full batches.
        let mut now = awake;
        assert_eq!(run(&mut load, &mut now, 40, FULL_TURN), Intake::Open);
        assert_eq!(run(&mut load, &mut now, 1, FULL_TURN), Intake::Overloaded);
    }
}

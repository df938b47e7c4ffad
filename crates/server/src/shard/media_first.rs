//! Sound before signalling. A packet of sound has its time, and an INVITE may wait for a few milliseconds, so a shard looks between two
//! pieces of signalling if media is due, and performs its phases first (`voice::Voice::expire`).
//!
//! `Shard::turn` begins with the media that is due; `Shard::receive`, `Shard::read_messages` and `Shard::settle` work off their messages and
//! effects by [`work_off`]. A flood of signalling delays a phase by one piece, and media that takes a whole core leaves signalling a fifth of it.

use stdx::Instant;

use super::Shard;

/// Signalling has a fourth of the time that media has had before media is due again: without it, calls of an overloaded shard would never end.
const SHARE: u32 = 4;

/// The time until which media waits for signalling.
#[derive(Debug, Default)]
pub(super) struct MediaShare {
    pauses_until: Instant,
}

/// The media of a shard, for the pieces of signalling that borrow the shard from it.
pub(super) struct ShardMedia<'a>(pub(super) &'a mut Shard);

/// A shard as this module sees it.
pub(super) trait MediaShard {
    fn now(&self) -> Instant;
    /// When media is due; `None` without any.
    fn media_deadline(&self) -> Option<Instant>;
    fn expire_media(&mut self, now: Instant);
    fn share(&mut self) -> &mut MediaShare;
}

/// Works on pieces of signalling one after the other, and on media that is due between two of them. `now` is the time of the first piece;
/// the time after the last one is returned.
pub(super) fn work_off<S: MediaShard, P>(
    shard: &mut S,
    mut now: Instant,
    pieces: impl Iterator<Item = P>,
    mut work: impl FnMut(&mut S, Instant, P),
) -> Instant {
    for piece in pieces {
        work(shard, now, piece);
        // A shard without calls of applications does not read the clock for each piece.
        let Some(deadline) = shard.media_deadline() else { continue };
        now = shard.now();
        if deadline.max(shard.share().pauses_until) <= now {
            now = expire(shard, now);
        }
    }
    now
}

/// Works on the media that is due at the beginning of a turn, before all else. Returns the time after it.
pub(super) fn begin_turn(shard: &mut impl MediaShard, now: Instant) -> Instant {
    match shard.media_deadline() {
        Some(deadline) if deadline <= now => expire(shard, now),
        _ => now,
    }
}

fn expire(shard: &mut impl MediaShard, began: Instant) -> Instant {
    shard.expire_media(began);
    let ended = shard.now();
    shard.share().pauses_until = ended + ended.since(began) / SHARE;
    ended
}

impl MediaShard for ShardMedia<'_> {
    fn now(&self) -> Instant {
        self.0.parts.clock.now()
    }

    fn media_deadline(&self) -> Option<Instant> {
        self.0.voice.as_ref().and_then(|voice| voice.calls.deadline())
    }

    fn expire_media(&mut self, now: Instant) {
        if self.0.voice.as_mut().is_some_and(|voice| voice.receive(now)) {
            self.0.with_voice(now, |voice, world| voice.expire(now, world));
        }
    }

    fn share(&mut self) -> &mut MediaShare {
        &mut self.0.media_share
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const PIECE: Duration = Duration::from_micros(150);
    const PHASE: Duration = Duration::from_millis(2);

    /// A shard in virtual time. A phase of media is due every 2 ms, as of `voice::phases`.
    struct Machine {
        now: Instant,
        due: Instant,
        share: MediaShare,
        /// The time that a phase takes.
        takes: Duration,
        phases: u32,
        pieces: u32,
        latest: Duration,
    }

    impl Machine {
        fn new(takes: Duration) -> Machine {
            let now = Instant::from_unix_seconds(1_000);
            let (share, latest) = (MediaShare::default(), Duration::ZERO);
            Machine { now, due: now + PHASE, share, takes, phases: 0, pieces: 0, latest }
        }

        /// Turns with a full batch each, for so long.
        fn flood(&mut self, span: Duration) {
            let end = self.now + span;
            while self.now < end {
                let now = begin_turn(self, self.now);
                work_off(self, now, 0..64, |machine, _, _| {
                    machine.now = machine.now + PIECE;
                    machine.pieces += 1;
                });
            }
        }
    }

    impl MediaShard for Machine {
        fn now(&self) -> Instant {
            self.now
        }

        fn media_deadline(&self) -> Option<Instant> {
            Some(self.due)
        }

        fn expire_media(&mut self, now: Instant) {
            self.latest = self.latest.max(now.since(self.due));
            self.now = now + self.takes;
            self.phases += 1;
            self.due = self.due + PHASE;
        }

        fn share(&mut self) -> &mut MediaShare {
            &mut self.share
        }
    }

    #[test]
    fn a_flood_of_signalling_delays_a_phase_by_one_piece() {
        let mut machine = Machine::new(Duration::from_micros(600));
        machine.flood(Duration::from_secs(20));
        assert!(machine.latest <= PIECE, "{:?}", machine.latest);
        assert!(machine.phases >= 9_990, "{}", machine.phases);
        // The rest of the time is for signalling.
        let signalling = PIECE * machine.pieces;
        assert!(signalling >= Duration::from_millis(13_900), "{signalling:?}");
    }

    #[test]
    fn media_that_takes_a_whole_core_leaves_signalling_a_fifth() {
        let mut machine = Machine::new(Duration::from_micros(2_500));
        machine.flood(Duration::from_secs(20));
        let signalling = PIECE * machine.pieces;
        assert!(signalling >= Duration::from_secs(4), "{signalling:?}");
    }
}

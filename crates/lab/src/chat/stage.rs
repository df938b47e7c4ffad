//! What all shards of a load know of each other: who is there, and how far the load is.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use stdx::time::Instant;

/// In this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Stage {
    /// Users come, at the given rate.
    SigningIn,
    /// They make friends.
    Befriending,
    Load,
    /// No new actions; who is away comes back for what waits.
    RollCall,
    /// What is on its way may arrive.
    Settling,
    Leaving,
}

const STAGES: [Stage; 6] =
    [Stage::SigningIn, Stage::Befriending, Stage::Load, Stage::RollCall, Stage::Settling, Stage::Leaving];

impl Stage {
    pub fn name(self) -> &'static str {
        match self {
            Stage::SigningIn => "signing in",
            Stage::Befriending => "making friends",
            Stage::Load => "load",
            Stage::RollCall => "roll-call",
            Stage::Settling => "settling",
            Stage::Leaving => "leaving",
        }
    }
}

/// One for all shards.
#[derive(Debug)]
pub struct Shared {
    stage: AtomicU8,
    /// When the stage began, microseconds.
    began: AtomicU64,
    /// Since when each user can be seen; 0: he cannot.
    there: Box<[AtomicU64]>,
    /// How many are signed in, and how many of them have all their friends.
    signed_in: AtomicU32,
    befriended: AtomicU32,
    /// Messages sent and arrived or refused, over all shards, so that the end need not wait its whole time.
    pub open_messages: AtomicU64,
}

impl Shared {
    pub fn new(users: u32, now: Instant) -> Shared {
        Shared {
            stage: AtomicU8::new(0),
            began: AtomicU64::new(now.as_micros()),
            there: (0..users).map(|_| AtomicU64::new(0)).collect(),
            signed_in: AtomicU32::new(0),
            befriended: AtomicU32::new(0),
            open_messages: AtomicU64::new(0),
        }
    }

    pub fn stage(&self) -> Stage {
        let stage = usize::from(self.stage.load(Ordering::Acquire));
        STAGES.get(stage).copied().unwrap_or(Stage::Leaving)
    }

    pub fn began(&self) -> Instant {
        Instant::from_micros(self.began.load(Ordering::Acquire))
    }

    /// Stages never go back.
    pub fn advance(&self, now: Instant, stage: Stage) {
        if self.stage() < stage {
            self.began.store(now.as_micros(), Ordering::Release);
            self.stage.fetch_max(stage as u8, Ordering::AcqRel);
        }
    }

    pub fn come(&self, user: u32, now: Instant) {
        self.signed_in.fetch_add(1, Ordering::AcqRel);
        self.appear(user, now);
    }

    /// The session ended.
    pub fn go(&self, user: u32) {
        self.vanish(user);
        self.signed_in.fetch_sub(1, Ordering::AcqRel);
    }

    fn appear(&self, user: u32, now: Instant) {
        self.put_there(user, now.as_micros());
    }

    /// From now on nothing is expected to be seen by him.
    pub fn vanish(&self, user: u32) {
        self.put_there(user, 0);
    }

    /// Who is missed stays so.
    fn put_there(&self, user: u32, value: u64) {
        if let Some(there) = self.there.get(user as usize) {
            let unless_missed = |old| (old != MISSED).then_some(value);
            let _ = there.fetch_update(Ordering::AcqRel, Ordering::Acquire, unless_missed);
        }
    }

    /// He did not come to the roll-call.
    pub fn miss(&self, user: u32) {
        self.put_there(user, MISSED);
    }

    pub fn is_missed(&self, user: u32) -> bool {
        self.there.get(user as usize).is_some_and(|there| there.load(Ordering::Acquire) == MISSED)
    }

    /// Whether he has been there for so long that what is sent now reaches him.
    pub fn sees(&self, user: u32, now: Instant) -> bool {
        let since = self.there.get(user as usize).map_or(0, |there| there.load(Ordering::Acquire));
        since > 0 && since.saturating_add(SETTLED) <= now.as_micros()
    }

    pub fn signed_in(&self) -> u32 {
        self.signed_in.load(Ordering::Acquire)
    }

    pub fn befriend(&self) {
        self.befriended.fetch_add(1, Ordering::AcqRel);
    }

    pub fn befriended(&self) -> u32 {
        self.befriended.load(Ordering::Acquire)
    }
}

/// Microseconds after which who came is there for everybody, and that who leaves stays after he is no longer expected.
pub(super) const SETTLED: u64 = 2_000_000;

/// In place of the time since when a user is there. No time is that late.
const MISSED: u64 = u64::MAX;

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn stages_go_on_only() {
        let start = Instant::from_unix_seconds(1);
        let shared = Shared::new(2, start);
        shared.advance(start + Duration::from_secs(5), Stage::Load);
        shared.advance(start + Duration::from_secs(9), Stage::SigningIn);
        assert_eq!((shared.stage(), shared.began()), (Stage::Load, start + Duration::from_secs(5)));
    }

    #[test]
    fn who_just_came_is_not_expected_to_see() {
        let start = Instant::from_unix_seconds(1);
        let shared = Shared::new(2, start);
        shared.come(1, start);
        assert!(!shared.sees(1, start + Duration::from_millis(1_999)));
        assert!(shared.sees(1, start + Duration::from_secs(2)));
        assert!(!shared.sees(0, start + Duration::from_secs(2)) && !shared.sees(7, start));
        shared.vanish(1);
        assert!(!shared.sees(1, start + Duration::from_secs(9)));
        shared.go(1);
        assert_eq!(shared.signed_in(), 0);
    }

    #[test]
    fn who_is_missed_stays_so() {
        let start = Instant::from_unix_seconds(1);
        let shared = Shared::new(2, start);
        shared.miss(1);
        shared.come(1, start);
        assert!(shared.is_missed(1) && !shared.is_missed(0) && !shared.is_missed(7));
        assert!(!shared.sees(1, start + Duration::from_secs(9)), "nothing is expected of him");
        shared.vanish(1);
        assert!(shared.is_missed(1));
    }
}

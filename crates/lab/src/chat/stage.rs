//! What all shards of a load know of each other: who is there, and how far the load is.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use stdx::time::Instant;

/// In this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Stage {
    /// Accounts are made; only when that was asked for.
    Registering,
    /// Users come, at the given rate.
    SigningIn,
    /// They make friends.
    Befriending,
    Load,
    /// No new actions; who is away comes back for what waits.
    RollCall,
    /// What is on its way may arrive.
    Settling,
    /// Accounts are removed; only when that was asked for.
    Unregistering,
    Leaving,
}

const STAGES: [Stage; 8] = [
    Stage::Registering,
    Stage::SigningIn,
    Stage::Befriending,
    Stage::Load,
    Stage::RollCall,
    Stage::Settling,
    Stage::Unregistering,
    Stage::Leaving,
];

impl Stage {
    pub fn name(self) -> &'static str {
        match self {
            Stage::Registering => "registering",
            Stage::SigningIn => "signing in",
            Stage::Befriending => "making friends",
            Stage::Load => "load",
            Stage::RollCall => "roll-call",
            Stage::Settling => "settling",
            Stage::Unregistering => "unregistering",
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
    /// Since when each user can be seen; 0: he is away, [`LEAVING`]: he goes.
    there: Box<[AtomicU64]>,
    /// Who has been told that he has an account, or that he gets none.
    registered: AtomicU32,
    /// How many are signed in, and how many of them have all their friends.
    signed_in: AtomicU32,
    befriended: AtomicU32,
    /// Who has failed so often that he stays away.
    given_up: AtomicU32,
    /// Messages sent and arrived or refused, over all shards, so that the end need not wait its whole time.
    pub open_messages: AtomicU64,
}

impl Shared {
    pub fn new(users: u32, now: Instant) -> Shared {
        Shared {
            stage: AtomicU8::new(0),
            began: AtomicU64::new(now.as_micros()),
            there: (0..users).map(|_| AtomicU64::new(0)).collect(),
            registered: AtomicU32::new(0),
            signed_in: AtomicU32::new(0),
            befriended: AtomicU32::new(0),
            given_up: AtomicU32::new(0),
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
        self.mark(user, now.as_micros());
    }

    /// The session ended.
    pub fn go(&self, user: u32) {
        self.mark(user, 0);
        self.signed_in.fetch_sub(1, Ordering::AcqRel);
    }

    /// From now on nothing is expected to be seen by him.
    pub fn vanish(&self, user: u32) {
        self.mark(user, LEAVING);
    }

    fn mark(&self, user: u32, since: u64) {
        if let Some(there) = self.there.get(user as usize) {
            there.store(since, Ordering::Release);
        }
    }

    /// Whether he has been there for so long that what is sent now reaches him.
    pub fn sees(&self, user: u32, now: Instant) -> bool {
        let since = self.there.get(user as usize).map_or(0, |there| there.load(Ordering::Acquire));
        since > 0 && since.saturating_add(SETTLED) <= now.as_micros()
    }

    pub fn signed_in(&self) -> u32 {
        self.signed_in.load(Ordering::Acquire)
    }

    /// He has signed out, or never was in.
    pub fn is_away(&self, user: u32) -> bool {
        self.there.get(user as usize).is_some_and(|there| there.load(Ordering::Acquire) == 0)
    }

    pub fn register(&self) {
        self.registered.fetch_add(1, Ordering::AcqRel);
    }

    pub fn registered(&self) -> u32 {
        self.registered.load(Ordering::Acquire)
    }

    pub fn give_up(&self) {
        self.given_up.fetch_add(1, Ordering::AcqRel);
    }

    /// Who is signed in or has given up: nobody else is waited for.
    pub fn settled(&self) -> u32 {
        self.signed_in() + self.given_up.load(Ordering::Acquire)
    }

    pub fn befriend(&self) {
        self.befriended.fetch_add(1, Ordering::AcqRel);
    }

    pub fn befriended(&self) -> u32 {
        self.befriended.load(Ordering::Acquire)
    }
}

/// Later than any time at which somebody came, so that nobody counts on him.
const LEAVING: u64 = u64::MAX;

/// Microseconds after which who came is there for everybody, and that who leaves stays after he is no longer expected.
pub(super) const SETTLED: u64 = 2_000_000;

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
}

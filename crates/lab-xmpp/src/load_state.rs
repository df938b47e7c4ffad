//! State that all shards of a load share: the stage of the load, and the presence of each user.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use stdx::time::Instant;

/// In this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum LoadStage {
    /// Accounts are made; only when that was asked for.
    Registering,
    /// Users come, at the given rate.
    SigningIn,
    /// They make friends.
    Befriending,
    /// Users perform the actions of the mix, for [`XmppLoad::length`](crate::XmppLoad::length).
    Load,
    /// No new actions; absent users come back for their stored messages.
    RollCall,
    /// Messages under way may arrive.
    Settling,
    /// Accounts are removed; only when that was asked for.
    Unregistering,
    /// All users sign out for good; the run is over when the last has.
    Leaving,
}

/// In the order of their numbers.
const STAGES: [LoadStage; 8] = [
    LoadStage::Registering,
    LoadStage::SigningIn,
    LoadStage::Befriending,
    LoadStage::Load,
    LoadStage::RollCall,
    LoadStage::Settling,
    LoadStage::Unregistering,
    LoadStage::Leaving,
];

impl LoadStage {
    /// The name in progress lines and reports.
    pub fn name(self) -> &'static str {
        match self {
            LoadStage::Registering => "registering",
            LoadStage::SigningIn => "signing in",
            LoadStage::Befriending => "making friends",
            LoadStage::Load => "load",
            LoadStage::RollCall => "roll-call",
            LoadStage::Settling => "settling",
            LoadStage::Unregistering => "unregistering",
            LoadStage::Leaving => "leaving",
        }
    }
}

/// The memory of a [`LoadState`]'s numbers: this process's own, or shared by several.
pub trait SharedWords: Send + Sync {
    /// The numbers, all zero at first.
    fn words(&self) -> &[AtomicU64];
}

impl SharedWords for Box<[AtomicU64]> {
    fn words(&self) -> &[AtomicU64] {
        self
    }
}

/// One for all shards. All of it is atomic words at fixed places, so that it may lie in memory that processes share.
pub struct LoadState {
    words: Box<dyn SharedWords>,
}

/// Indexes of the words. Words that change with each message are a cache line away from those that all shards read often.
const STAGE: usize = 0;
/// When the stage began, microseconds.
const BEGAN: usize = 1;
/// Numbers of users that are signed in, and of those that have all their contacts.
const SIGNED_IN: usize = 2;
const BEFRIENDED: usize = 3;
/// The number of users that have ever been signed in.
const MET: usize = 4;
/// The number of users that have given up after too many failures.
const GIVEN_UP: usize = 5;
/// The number of users that have an account or were refused one.
const REGISTERED: usize = 6;
/// Entries of rosters that became mutual: how far the making of friends is.
const FRIENDS: usize = 7;
/// Messages sent that have not arrived and were not refused, over all shards, so that the end need not wait its whole
/// time.
const OPEN_MESSAGES: usize = 8;
/// The time at which a user began to create the load's pubsub node, microseconds; 0: no user does; or [`IS_THERE`].
const NODE: usize = 9;
/// The longest delay of a stanza or sign-in so far, over all shards, microseconds.
const SLOWEST: usize = 10;
/// From this index on, the time since which each user is visible to others; 0: absent; or [`LEAVING`] or [`MISSED`].
const THERE: usize = 16;

impl LoadState {
    /// In this process's memory.
    pub fn new(users: u32, now: Instant) -> LoadState {
        let words: Box<[AtomicU64]> = (0..LoadState::size(users)).map(|_| AtomicU64::new(0)).collect();
        let shared = LoadState::over(Box::new(words));
        shared.begin(now);
        shared
    }

    /// Over words that begin as zeros, at least [`LoadState::size`] of them.
    pub fn over(words: Box<dyn SharedWords>) -> LoadState {
        assert!(words.words().len() >= THERE, "as many words as were asked for");
        LoadState { words }
    }

    /// The number of words for this number of users.
    pub fn size(users: u32) -> usize {
        THERE + users as usize
    }

    /// The load begins now.
    pub fn begin(&self, now: Instant) {
        self.word(BEGAN).store(now.as_micros(), Ordering::Release);
    }

    fn word(&self, place: usize) -> &AtomicU64 {
        &self.words.words()[place]
    }

    /// The word of a user's presence; `None` for a number beyond the load.
    fn there(&self, user: u32) -> Option<&AtomicU64> {
        self.words.words().get(THERE + user as usize)
    }

    /// The present stage.
    pub fn stage(&self) -> LoadStage {
        let stage = usize::try_from(self.word(STAGE).load(Ordering::Acquire)).unwrap_or(usize::MAX);
        STAGES.get(stage).copied().unwrap_or(LoadStage::Leaving)
    }

    /// The time at which the present stage began.
    pub fn began(&self) -> Instant {
        Instant::from_micros(self.word(BEGAN).load(Ordering::Acquire))
    }

    /// Stages never go back.
    pub fn advance(&self, now: Instant, stage: LoadStage) {
        // The time first: a shard that sees the new stage must not see the old beginning.
        if self.stage() < stage {
            self.begin(now);
            self.word(STAGE).fetch_max(stage as u64, Ordering::AcqRel);
        }
    }

    /// The user has signed in.
    pub fn mark_present(&self, user: u32, now: Instant) {
        self.word(SIGNED_IN).fetch_add(1, Ordering::AcqRel);
        self.put_there(user, now.as_micros());
    }

    /// The session ended.
    pub fn mark_absent(&self, user: u32) {
        self.put_there(user, 0);
        self.word(SIGNED_IN).fetch_sub(1, Ordering::AcqRel);
    }

    /// From now on no stanza is expected to be seen by this user.
    pub fn mark_leaving(&self, user: u32) {
        self.put_there(user, LEAVING);
    }

    /// A missed user stays missed.
    fn put_there(&self, user: u32, value: u64) {
        if let Some(there) = self.there(user) {
            let unless_missed = |old| (old != MISSED).then_some(value);
            let _ = there.fetch_update(Ordering::AcqRel, Ordering::Acquire, unless_missed);
        }
    }

    /// The user did not come back for the roll-call.
    pub fn mark_missed(&self, user: u32) {
        self.put_there(user, MISSED);
    }

    /// The user missed the roll-call.
    pub fn is_missed(&self, user: u32) -> bool {
        self.there(user).is_some_and(|there| there.load(Ordering::Acquire) == MISSED)
    }

    /// The user has been signed in for so long that a stanza sent now reaches it.
    pub fn sees(&self, user: u32, now: Instant) -> bool {
        let since = self.there(user).map_or(0, |there| there.load(Ordering::Acquire));
        since > 0 && since.saturating_add(micros(self.settling())) <= now.as_micros()
    }

    /// A stanza or a sign-in took so long.
    pub fn note_delay(&self, delay: Duration) {
        self.word(SLOWEST).fetch_max(micros(delay), Ordering::AcqRel);
    }

    /// The time after which a new session is visible to all users, and which a session lasts beyond the last stanza expected
    /// of it. A server that is slow gets more of it: what it delivers late is late, not missing.
    pub fn settling(&self) -> Duration {
        let slowest = Duration::from_micros(self.word(SLOWEST).load(Ordering::Acquire));
        (SETTLING_DELAYS * slowest).clamp(SETTLED, LONGEST_SETTLING)
    }

    /// The number of users that are signed in.
    pub fn signed_in(&self) -> u32 {
        u32::try_from(self.word(SIGNED_IN).load(Ordering::Acquire)).unwrap_or(u32::MAX)
    }

    /// A user signed in for the first time.
    pub fn count_first_sign_in(&self) {
        self.word(MET).fetch_add(1, Ordering::AcqRel);
    }

    /// The number of users that have ever been signed in.
    pub fn ever_signed_in(&self) -> u32 {
        u32::try_from(self.word(MET).load(Ordering::Acquire)).unwrap_or(u32::MAX)
    }

    /// The user has signed out, or was never signed in.
    pub fn is_away(&self, user: u32) -> bool {
        self.there(user).is_some_and(|there| there.load(Ordering::Acquire) == 0)
    }

    /// A registration has ended, with or without an account.
    pub fn register(&self) {
        self.word(REGISTERED).fetch_add(1, Ordering::AcqRel);
    }

    /// The number of registrations that have ended.
    pub fn registered(&self) -> u32 {
        u32::try_from(self.word(REGISTERED).load(Ordering::Acquire)).unwrap_or(u32::MAX)
    }

    /// A user gives up after too many failures.
    pub fn give_up(&self) {
        self.word(GIVEN_UP).fetch_add(1, Ordering::AcqRel);
    }

    /// The number of users that are signed in or have given up: no other user is waited for.
    pub fn settled(&self) -> u32 {
        let given_up = self.word(GIVEN_UP).load(Ordering::Acquire);
        self.signed_in() + u32::try_from(given_up).unwrap_or(u32::MAX / 2)
    }

    /// A user has all its contacts.
    pub fn befriend(&self) {
        self.word(BEFRIENDED).fetch_add(1, Ordering::AcqRel);
    }

    /// A roster entry became mutual.
    pub fn make_friend(&self) {
        self.word(FRIENDS).fetch_add(1, Ordering::AcqRel);
    }

    /// The number of roster entries that became mutual.
    pub fn friends(&self) -> u64 {
        self.word(FRIENDS).load(Ordering::Acquire)
    }

    /// The number of users that have all their contacts.
    pub fn befriended(&self) -> u32 {
        u32::try_from(self.word(BEFRIENDED).load(Ordering::Acquire)).unwrap_or(u32::MAX)
    }

    /// True: the caller creates the node, and no other user does so within `patience`. Simultaneous requests
    /// would conflict: ejabberd aborts some.
    pub fn may_make_node(&self, now: Instant, patience: Duration) -> bool {
        let unless_made = |since: u64| {
            let is_free = since == 0 || since.saturating_add(micros(patience)) <= now.as_micros();
            is_free.then_some(now.as_micros())
        };
        self.word(NODE).fetch_update(Ordering::AcqRel, Ordering::Acquire, unless_made).is_ok()
    }

    /// The pubsub node of the load exists.
    pub fn has_node(&self) -> bool {
        self.word(NODE).load(Ordering::Acquire) == IS_THERE
    }

    /// It is there, or it is not: then the next one makes it.
    pub fn set_node_exists(&self, is_there: bool) {
        self.word(NODE).store(if is_there { IS_THERE } else { 0 }, Ordering::Release);
    }

    /// A message is on its way.
    pub fn sent(&self) {
        self.word(OPEN_MESSAGES).fetch_add(1, Ordering::AcqRel);
    }

    /// It arrived, or was refused.
    pub fn arrived(&self) {
        self.word(OPEN_MESSAGES).fetch_sub(1, Ordering::AcqRel);
    }

    /// Nothing is on its way.
    pub fn is_quiet(&self) -> bool {
        self.word(OPEN_MESSAGES).load(Ordering::Acquire) == 0
    }
}

impl std::fmt::Debug for LoadState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Shared({} users in, {})", self.signed_in(), self.stage().name())
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// In place of the time since when a node is made.
const IS_THERE: u64 = u64::MAX;

/// Later than any time of a sign-in, so that no stanza is expected to be seen by the user.
const LEAVING: u64 = u64::MAX;

/// [`LoadState::settling`] of a server that answers at once.
const SETTLED: Duration = Duration::from_secs(2);

/// [`LoadState::settling`] of the slowest server: as long as the end waits for what is under way, if no flag says otherwise.
const LONGEST_SETTLING: Duration = Duration::from_secs(30);

/// [`LoadState::settling`] in relation to the longest delay so far: a stanza may wait behind others that do.
const SETTLING_DELAYS: u32 = 3;

/// In place of the time since when a user is there. No time is that late.
const MISSED: u64 = u64::MAX - 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_go_on_only() {
        let start = Instant::from_unix_seconds(1);
        let shared = LoadState::new(2, start);
        shared.advance(start + Duration::from_secs(5), LoadStage::Load);
        shared.advance(start + Duration::from_secs(9), LoadStage::SigningIn);
        assert_eq!((shared.stage(), shared.began()), (LoadStage::Load, start + Duration::from_secs(5)));
    }

    #[test]
    fn a_user_that_just_came_is_not_expected_to_see_stanzas() {
        let start = Instant::from_unix_seconds(1);
        let shared = LoadState::new(2, start);
        shared.mark_present(1, start);
        assert!(!shared.sees(1, start + Duration::from_millis(1_999)));
        assert!(shared.sees(1, start + Duration::from_secs(2)));
        assert!(!shared.sees(0, start + Duration::from_secs(2)) && !shared.sees(7, start));
        // A server that took three seconds for something may take longer for this.
        shared.note_delay(Duration::from_secs(3));
        assert!(!shared.sees(1, start + Duration::from_millis(8_999)));
        assert!(shared.sees(1, start + Duration::from_secs(9)));
        shared.mark_leaving(1);
        assert!(!shared.sees(1, start + Duration::from_secs(99)));
        shared.mark_absent(1);
        assert_eq!(shared.signed_in(), 0);
    }

    #[test]
    fn one_makes_the_node() {
        let (start, patience) = (Instant::from_unix_seconds(1), Duration::from_secs(5));
        let shared = LoadState::new(2, start);
        assert!(shared.may_make_node(start, patience) && !shared.has_node());
        assert!(!shared.may_make_node(start + Duration::from_secs(4), patience), "another does");
        assert!(shared.may_make_node(start + Duration::from_secs(5), patience), "that user is gone");
        shared.set_node_exists(true);
        assert!(shared.has_node() && !shared.may_make_node(start + Duration::from_secs(99), patience));
        shared.set_node_exists(false);
        assert!(shared.may_make_node(start + Duration::from_secs(99), patience));
    }

    #[test]
    fn a_missed_user_stays_missed() {
        let start = Instant::from_unix_seconds(1);
        let shared = LoadState::new(2, start);
        shared.mark_missed(1);
        shared.mark_present(1, start);
        assert!(shared.is_missed(1) && !shared.is_missed(0) && !shared.is_missed(7));
        assert!(!shared.sees(1, start + Duration::from_secs(9)), "a missed user is not seen");
        shared.mark_leaving(1);
        assert!(shared.is_missed(1));
    }
}

//! The changes of a load from one stage to the next, which the first shard decides for all.
//!
//! Only the leader decides; every shard sees the new stage in [`LoadState`] and enters it by itself (`UserPool::expire`).

use std::time::Duration;

use stdx::time::Instant;

use super::load_state::{LoadStage, LoadState};
use super::model::XmppLoad;
use super::user_pool::UserPool;

/// Time between two decisions of the leader.
pub(super) const LOOK: Duration = Duration::from_millis(100);
/// The stage of friend requests ends when no request was granted for this long: a slow server answers one request of every user first.
const FRIENDLESS: Duration = Duration::from_secs(120);
/// The longest roll-call.
const ROLL_CALL: Duration = Duration::from_secs(60);
/// Time in which every user that comes back has tried twice or more.
const UNREACHABLE: Duration = Duration::from_secs(10);

/// Decides when the next stage begins. The first shard has it, for all shards.
#[derive(Debug)]
pub(super) struct StageLeader {
    /// The number of mutual roster entries, and the time of its last change.
    friends: (u64, Instant),
}

impl StageLeader {
    pub(super) fn new(now: Instant) -> StageLeader {
        StageLeader { friends: (0, now) }
    }

    /// The stage that follows the present one, when that is over.
    pub(super) fn next_stage(
        &mut self,
        now: Instant,
        load: &XmppLoad,
        state: &LoadState,
    ) -> Option<LoadStage> {
        if self.friends.0 != state.friends() {
            self.friends = (state.friends(), now);
        }
        let passed = now.since(state.began());
        let (all, present) = (load.people.count(), state.signed_in());
        let is_settled = passed >= state.settling();
        let is_done = match state.stage() {
            LoadStage::Registering => {
                state.registered() + state.settled() >= load.people.all()
                    || passed >= load.registration_limit()
            }
            LoadStage::SigningIn => {
                let ramp = Duration::from_secs(1).div_f64(load.logins.max(1e-6)).mul_f64(f64::from(all));
                // Users that cannot sign in do not delay the others.
                state.settled() >= all || passed >= ramp + 2 * load.patience
            }
            LoadStage::Befriending => {
                let is_stuck = now.since(self.friends.1).min(passed) >= FRIENDLESS;
                !load.befriend || state.befriended() >= all || is_stuck
            }
            LoadStage::Load => passed >= load.length,
            LoadStage::RollCall => is_roll_call_complete(passed, load, state),
            LoadStage::Settling => present == 0 || (state.is_quiet() && is_settled) || passed >= load.settle,
            LoadStage::Unregistering => present == 0 || passed >= load.registration_limit(),
            LoadStage::Leaving => false,
        };
        is_done.then(|| match state.stage() {
            LoadStage::Registering => LoadStage::SigningIn,
            // A load without users measures nothing.
            LoadStage::SigningIn if present == 0 => LoadStage::Leaving,
            LoadStage::SigningIn => LoadStage::Befriending,
            LoadStage::Befriending => LoadStage::Load,
            LoadStage::Load => LoadStage::RollCall,
            LoadStage::RollCall => LoadStage::Settling,
            LoadStage::Settling if load.unregister => LoadStage::Unregistering,
            LoadStage::Settling | LoadStage::Unregistering | LoadStage::Leaving => LoadStage::Leaving,
        })
    }
}

/// All users that can be waited for are signed in.
fn is_roll_call_complete(passed: Duration, load: &XmppLoad, state: &LoadState) -> bool {
    // No message waits for a user that was never signed in, unless messages were sent to that user.
    let wanted = if state.is_quiet() { state.ever_signed_in() } else { load.people.all() };
    let is_settled = passed >= state.settling() + Duration::from_secs(1);
    match state.signed_in() {
        // No user was ever signed in.
        0 if wanted == 0 => passed >= 2 * LOOK,
        // No user can sign in: the server is unreachable.
        0 if passed >= load.return_span() + UNREACHABLE => true,
        _ => (is_settled && state.settled() >= wanted) || passed >= ROLL_CALL,
    }
}

impl XmppLoad {
    /// The time in which absent users come back for the roll-call: no faster than they signed in.
    pub(super) fn return_span(&self) -> Duration {
        let all = f64::from(self.people.count());
        Duration::from_secs_f64((all / self.logins.max(1e-6)).min(20.0))
    }

    /// Time from one registration to the next, and from one removal to the next.
    pub(super) fn registration_gap(&self) -> Duration {
        Duration::from_secs(1).div_f64(self.registrations.max(1e-6))
    }

    /// The longest time of a stage in which all users register, or remove their accounts: all of them at that rate, and two response
    /// times.
    pub(super) fn registration_limit(&self) -> Duration {
        self.registration_gap().mul_f64(f64::from(self.people.all())) + 2 * self.patience
    }
}

impl UserPool {
    /// Ends the load early: with a roll-call (`SoftQuit`) or without.
    pub fn end(&self, now: Instant, hard: bool) {
        self.sessions.shared.advance(now, if hard { LoadStage::Leaving } else { LoadStage::RollCall });
    }
}

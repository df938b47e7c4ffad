//! When the next stage of a load begins, which the first shard says for all.

use std::time::Duration;

use stdx::time::Instant;

use super::load_state::{LoadStage, SETTLED};
use super::user_pool::UserPool;

/// How often the leader looks.
pub(super) const LOOK: Duration = Duration::from_millis(100);
/// Users make friends for as long as any are made within this: a slow server has one of each user to answer before.
const FRIENDLESS: Duration = Duration::from_secs(120);
/// The roll-call waits no longer.
const ROLL_CALL: Duration = Duration::from_secs(60);
/// In which each of those who come back has tried to twice or more.
const NOBODY: Duration = Duration::from_secs(10);

impl UserPool {
    pub(super) fn lead(&mut self, now: Instant) {
        if self.made.0 != self.shared.friends() {
            self.made = (self.shared.friends(), now);
        }
        let (shared, chat) = (&self.shared, &self.chat);
        let passed = now.since(shared.began());
        let (all, present) = (chat.people.count(), shared.signed_in());
        let is_settled = passed >= Duration::from_micros(SETTLED);
        let is_done = match shared.stage() {
            LoadStage::Registering => {
                let told = shared.registered() + shared.settled();
                told >= chat.people.all() || passed >= self.registering_may_last()
            }
            LoadStage::SigningIn => {
                let ramp = Duration::from_secs(1).div_f64(chat.logins.max(1e-6)).mul_f64(f64::from(all));
                // Who cannot get in does not keep the others from working.
                shared.settled() >= all || passed >= ramp + 2 * chat.patience
            }
            LoadStage::Befriending => {
                let is_stuck = now.since(self.made.1).min(passed) >= FRIENDLESS;
                !chat.befriend || shared.befriended() >= all || is_stuck
            }
            LoadStage::Load => passed >= chat.length,
            LoadStage::RollCall => self.is_called(passed),
            LoadStage::Settling => present == 0 || (shared.is_quiet() && is_settled) || passed >= chat.settle,
            LoadStage::Unregistering => present == 0 || passed >= self.registering_may_last(),
            LoadStage::Leaving => false,
        };
        if is_done {
            let next = match shared.stage() {
                LoadStage::Registering => LoadStage::SigningIn,
                // A load of nobody tells nothing.
                LoadStage::SigningIn if present == 0 => LoadStage::Leaving,
                LoadStage::SigningIn => LoadStage::Befriending,
                LoadStage::Befriending => LoadStage::Load,
                LoadStage::Load => LoadStage::RollCall,
                LoadStage::RollCall => LoadStage::Settling,
                LoadStage::Settling if chat.unregister => LoadStage::Unregistering,
                LoadStage::Settling | LoadStage::Unregistering | LoadStage::Leaving => LoadStage::Leaving,
            };
            shared.advance(now, next);
        }
    }

    /// Whether all are there who can be waited for.
    fn is_called(&self, passed: Duration) -> bool {
        let shared = &self.shared;
        // For who never was there nothing waits, unless something was sent to him.
        let wanted = if shared.is_quiet() { shared.met() } else { self.chat.people.all() };
        let is_settled = passed >= Duration::from_micros(SETTLED) + Duration::from_secs(1);
        match shared.signed_in() {
            // Nobody ever was.
            0 if wanted == 0 => passed >= 2 * LOOK,
            // The server is gone, it seems.
            0 if passed >= self.return_span() + NOBODY => true,
            _ => (is_settled && shared.settled() >= wanted) || passed >= ROLL_CALL,
        }
    }

    /// In which those who are away come back for the roll-call: no faster than they came.
    pub(super) fn return_span(&self) -> Duration {
        let all = f64::from(self.chat.people.count());
        Duration::from_secs_f64((all / self.chat.logins.max(1e-6)).min(20.0))
    }

    /// Ends the load early: with a roll-call (`SoftQuit`) or without.
    pub fn end(&self, now: Instant, hard: bool) {
        self.shared.advance(now, if hard { LoadStage::Leaving } else { LoadStage::RollCall });
    }
}

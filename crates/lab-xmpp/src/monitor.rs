//! Pairs of users beside the load that repeat the same steps at a fixed pace, so that their times can be compared
//! from run to run: the published tests' monitors.
//!
//! A pair sits in one shard. Its steps: sign out and in, a message and its reply, a presence; one step every `MonitorOptions::every`. A step is timed from
//! its due time, and one that cannot begin is left out.

use std::time::Duration;

use lab_sip::stats::Count;
use stdx::time::Instant;

use super::failure::FailureCause;
use super::load_state::LoadStage;
use super::message_mark::MessageMark;
use super::mix::UserAction;
use super::model::TimerName;
use super::user::UserState;
use super::user_pool::PoolContext;
use super::user_sessions::UserSessions;

/// In this order, over and over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MonitorStep {
    /// The first of the two signs out and in.
    Authentication,
    /// A message to the partner, which answers.
    Message,
    /// Seen by the partner.
    Presence,
}

impl MonitorStep {
    fn next(self) -> MonitorStep {
        match self {
            MonitorStep::Authentication => MonitorStep::Message,
            MonitorStep::Message => MonitorStep::Presence,
            MonitorStep::Presence => MonitorStep::Authentication,
        }
    }
}

/// Two neighbours in the pool. The first acts, the second answers.
#[derive(Debug)]
pub(super) struct MonitorPair {
    /// The slot of the first of the two.
    pub(super) slot: u32,
    /// The next step, or the one under way.
    step: MonitorStep,
    /// The step is under way.
    is_busy: bool,
    /// The due time of `step`.
    due: Instant,
    /// Both are in and know each other.
    has_begun: bool,
}

/// The pace and number of monitors; `pairs` is 0 for none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MonitorOptions {
    /// The number of pairs, over all shards.
    pub pairs: u32,
    /// Time from one step of a pair to the next.
    pub every: Duration,
}

impl MonitorPair {
    pub(super) fn new(slot: u32) -> MonitorPair {
        MonitorPair {
            slot,
            step: MonitorStep::Authentication,
            is_busy: false,
            due: Instant::FAR_FUTURE,
            has_begun: false,
        }
    }
}

impl UserSessions {
    /// Monitors have the last slots of a shard.
    pub(super) fn is_monitor(&self, slot: u32) -> bool {
        self.pairs.first().is_some_and(|pair| slot >= pair.slot)
    }

    /// The index of the pair that the slot belongs to.
    fn pair_of(&self, slot: u32) -> Option<usize> {
        let first = self.pairs.first()?.slot;
        slot.checked_sub(first).map(|place| place as usize / 2)
    }

    /// After the ramp, so that they meet the load as it is.
    pub(super) fn begin_monitoring(&mut self, now: Instant) {
        for pair in 0..self.pairs.len() {
            let slot = self.pairs[pair].slot;
            self.schedule_user(slot, now);
            self.schedule_user(slot + 1, now);
        }
    }

    /// A user of the pair signed in, or its roster has the other one as mutual.
    pub(super) fn check_pair_roster(&mut self, slot: u32, ctx: &mut PoolContext<'_>) {
        let Some(index) = self.pair_of(slot) else { return };
        let first = self.pairs[index].slot;
        let is_ready = |slot: u32| {
            let user = &self.users[slot as usize];
            matches!(user.phase, UserState::In) && user.contacts[0].is_friend
        };
        if !(is_ready(first) && is_ready(first + 1)) {
            return;
        }
        let pair = &self.pairs[index];
        if !pair.has_begun && self.stage == LoadStage::Load {
            // Until each counts on the other.
            let due = ctx.now + self.shared.settling().max(self.chat.monitors.every);
            let pair = &mut self.pairs[index];
            pair.has_begun = true;
            pair.due = due;
            self.schedule_pair(index, due);
        } else if pair.is_busy && pair.step == MonitorStep::Authentication && slot == first {
            self.complete_pair_step(index, ctx);
        }
    }

    /// The pair's next step is due.
    pub(super) fn expire_pair(&mut self, index: usize, ctx: &mut PoolContext<'_>) {
        let pair = &self.pairs[index];
        // One that is busy goes on when it is done; late timers come for nothing.
        if pair.is_busy || pair.due > ctx.now || self.stage != LoadStage::Load {
            return;
        }
        let (slot, step, due) = (pair.slot, pair.step, pair.due);
        let partner = self.users[slot as usize + 1].number;
        if !(matches!(self.users[slot as usize].phase, UserState::In) && self.shared.sees(partner, ctx.now)) {
            // One of them fell out, and comes back by itself.
            ctx.stats.count(Count::Due);
            ctx.stats.count(Count::Blocked);
            return self.skip_pair_step(index, ctx.now);
        }
        self.pairs[index].is_busy = true;
        match step {
            // It counts as a sign-in.
            MonitorStep::Authentication => self.sign_out_and_in(slot, due, ctx),
            MonitorStep::Message => {
                self.wait_for_partner(slot, due, ctx);
                self.actions(slot).send_message(UserAction::Message, due, ctx);
            }
            MonitorStep::Presence => {
                self.wait_for_partner(slot, due, ctx);
                self.actions(slot).send_presence("away", due, ctx);
            }
        }
    }

    /// The step counts as begun; the partner has as long as any answer may take.
    fn wait_for_partner(&mut self, slot: u32, due: Instant, ctx: &mut PoolContext<'_>) {
        ctx.stats.count(Count::Due);
        ctx.stats.count(Count::OutgoingCall);
        ctx.stats.start_delay.record(ctx.now.since(due));
        self.set_response_deadline(slot, ctx.now + self.chat.patience);
    }

    /// Without the wait of an ordinary sign-out: the time of the sign-in is measured.
    fn sign_out_and_in(&mut self, slot: u32, due: Instant, ctx: &mut PoolContext<'_>) {
        self.write_sign_out(slot, ctx);
        self.end_session(slot, ctx);
        self.users[slot as usize].due = due;
        self.handle_due(slot, ctx);
    }

    /// The step has succeeded: the next one is due by the fixed pace.
    fn complete_pair_step(&mut self, index: usize, ctx: &mut PoolContext<'_>) {
        let pair = &mut self.pairs[index];
        pair.is_busy = false;
        pair.step = pair.step.next();
        let slot = pair.slot;
        self.users[slot as usize].patience = Instant::FAR_FUTURE;
        let due = self.pairs[index].due + self.chat.monitors.every;
        if due + self.chat.patience < ctx.now {
            return self.skip_pair_step(index, ctx.now);
        }
        // A step that took longer makes the next begin late, and its time counts from when it was due.
        self.pairs[index].due = due;
        self.schedule_pair(index, due);
    }

    /// Steps that could not begin are left out, so that no storm follows an outage.
    fn skip_pair_step(&mut self, index: usize, now: Instant) {
        let every = self.chat.monitors.every;
        let mut due = self.pairs[index].due;
        while due <= now {
            due = due + every;
        }
        self.pairs[index].due = due;
        self.schedule_pair(index, due);
    }

    /// The partner answers a message; the answer ends the step.
    pub(super) fn handle_monitor_message(
        &mut self,
        slot: u32,
        note: &MessageMark,
        ctx: &mut PoolContext<'_>,
    ) {
        let Some(index) = self.pair_of(slot) else { return };
        let pair = &self.pairs[index];
        if slot != pair.slot {
            // The reply has the first user's times: they span its due time to its receiving the answer.
            return self.actions(slot).reply_to_partner(note, ctx);
        }
        if pair.is_busy && pair.step == MonitorStep::Message && pair.due == note.due {
            ctx.time(TimerName::MonitorMessage, note.due, note.sent);
            ctx.stats.count(Count::SuccessfulCall);
            self.complete_pair_step(index, ctx);
        }
    }

    /// The partner has seen it.
    pub(super) fn handle_monitor_presence(
        &mut self,
        slot: u32,
        note: &MessageMark,
        ctx: &mut PoolContext<'_>,
    ) {
        let Some(index) = self.pair_of(slot) else { return };
        let pair = &self.pairs[index];
        let is_awaited = pair.is_busy && pair.step == MonitorStep::Presence && pair.due == note.due;
        if slot != pair.slot && is_awaited {
            ctx.time(TimerName::MonitorPresence, note.due, note.sent);
            ctx.stats.count(Count::SuccessfulCall);
            self.complete_pair_step(index, ctx);
        }
    }

    /// The step of the pair got no answer in time.
    pub(super) fn handle_partner_timeout(&mut self, slot: u32, ctx: &mut PoolContext<'_>) {
        let Some(index) = self.pair_of(slot).filter(|index| self.pairs[*index].is_busy) else { return };
        ctx.fail(FailureCause::Timeout);
        let pair = &mut self.pairs[index];
        pair.is_busy = false;
        pair.step = pair.step.next();
        self.skip_pair_step(index, ctx.now);
    }

    /// A user whose session ends in the middle of a message or presence step has failed with the session.
    pub(super) fn abort_pair_step(&mut self, slot: u32, now: Instant) {
        let Some(index) = self.pair_of(slot) else { return };
        let pair = &mut self.pairs[index];
        if pair.is_busy && pair.step != MonitorStep::Authentication {
            pair.is_busy = false;
            self.skip_pair_step(index, now);
        }
    }
}

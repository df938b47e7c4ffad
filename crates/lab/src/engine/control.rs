//! The state of a run that may change while it goes on: rate, limit, users, the end.
//!
//! `Run` has the one copy and changes it under a lock; the shards follow by the hub (limits, phase) and by commands (schedule, users).

use std::sync::atomic::Ordering;
use std::time::Duration;

use lab_sip::options::RateOptions;
use lab_sip::scenario::Scenario;
use lab_sip::scenario::model::{Pause, StepKind};
use stdx::time::Instant;

use super::schedule::{CallRate, Schedule};
use super::shard_hub::{RunPhase, ShardCommand, ShardHub};
use super::{RunChange, Setup};

/// The run's own copy of what its shards follow.
pub(super) struct RunControl {
    /// The options of the rate, with all changes so far.
    rate: RateOptions,
    /// Milliseconds that a call of the scenario lasts, by its pauses and timewait.
    call_length: u64,
    /// `-l` was given.
    limit_is_set: bool,
    /// A load of users, which account for every message before they leave.
    has_users_of_chat: bool,
    /// Nothing is placed; the rate is kept for the end of the pause.
    pub(super) paused: bool,
    /// The schedule that the shards follow.
    schedule: Schedule,
    /// The time of the next step of `-rate_increase`.
    next_increase: Instant,
    /// The counters are to be cleared: the run takes this with its next turn.
    pub(super) reset: bool,
}

impl RunControl {
    pub(super) fn new(setup: &Setup, start: Instant) -> RunControl {
        let rate = setup.options.rate.clone();
        let schedule = Schedule::new(start, pace(&rate));
        let next_increase = start + rate.interval;
        RunControl {
            call_length: call_length(&setup.scenario, setup.options.call.pause),
            limit_is_set: rate.limit.is_some(),
            has_users_of_chat: setup.chat.is_some(),
            paused: false,
            schedule,
            next_increase,
            reset: false,
            rate,
        }
    }

    pub(super) fn schedule(&self) -> Schedule {
        self.schedule
    }

    /// Calls a second asked for now.
    pub(super) fn target_rate(&self) -> f64 {
        if self.rate.users.is_some() { 0.0 } else { self.schedule.pace().per_second() }
    }

    /// Calls that may be open: `-l`, the users, or three times what the rate needs, as SIPp has it.
    pub(super) fn limit(&self) -> u64 {
        if let Some(limit) = self.rate.limit.filter(|_| self.limit_is_set) {
            return limit;
        }
        if let Some(users) = self.rate.users {
            return u64::from(users);
        }
        // A period of 0 would divide by zero; a nanosecond makes the limit huge instead.
        let period = self.rate.period.as_secs_f64().max(1e-9);
        #[expect(clippy::cast_precision_loss, reason = "milliseconds of one call")]
        let open = 3.0 * self.rate.calls * (self.call_length as f64 / 1e3) / period;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
        let open = open as u64;
        open.max(1)
    }

    /// 0 without `-users`.
    pub(super) fn users(&self) -> u32 {
        self.rate.users.unwrap_or(0)
    }

    /// Changes the numbers here, then tells the shards.
    pub(super) fn apply(&mut self, change: &RunChange, now: Instant, hub: &ShardHub) {
        match *change {
            RunChange::Rate(calls) => {
                self.rate.calls = calls.max(0.0);
                self.follow(now, hub);
            }
            RunChange::Step(by) => self.step(by, now, hub),
            RunChange::Pause(paused) => {
                self.paused = paused;
                self.follow(now, hub);
            }
            RunChange::Limit(limit) => {
                self.rate.limit = Some(limit);
                self.limit_is_set = true;
                hub.limit.store(limit, Ordering::Relaxed);
            }
            RunChange::Users(users) => self.set_users(users, hub),
            RunChange::SoftQuit => hub.advance(RunPhase::Soft),
            RunChange::HardQuit => hub.advance(RunPhase::Hard),
            RunChange::Terminate if self.has_users_of_chat => {
                hub.advance(if hub.phase() == RunPhase::Running { RunPhase::Soft } else { RunPhase::Hard });
            }
            RunChange::Terminate => hub.terminate(),
            RunChange::ResetStats => self.reset = true,
        }
    }

    /// The keys: with `-users` they change the number of users, otherwise the rate, from where `-rate_increase` has brought it.
    fn step(&mut self, by: f64, now: Instant, hub: &ShardHub) {
        match self.rate.users {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
            Some(users) => self.set_users((f64::from(users) + by) as u32, hub),
            None => {
                self.rate.calls = (self.rate.calls + by).max(0.0);
                self.follow(now, hub);
            }
        }
    }

    fn set_users(&mut self, users: u32, hub: &ShardHub) {
        self.rate.users = Some(users);
        hub.users.store(users, Ordering::Relaxed);
        // The number of users is the limit of open calls unless `-l` was given.
        hub.limit.store(self.limit(), Ordering::Relaxed);
        hub.command(ShardCommand::Users(users));
    }

    /// Gives shards the schedule for the rate of now. The limit follows too, as it depends on the rate without `-l`.
    fn follow(&mut self, now: Instant, hub: &ShardHub) {
        let pace = if self.paused { CallRate::STOPPED } else { pace(&self.rate) };
        self.schedule.change(now, pace);
        hub.paused.store(self.paused, Ordering::Relaxed);
        hub.limit.store(self.limit(), Ordering::Relaxed);
        hub.command(ShardCommand::Schedule(self.schedule));
    }

    /// `-rate_increase` at every `-rate_interval`, up to `-rate_max`.
    pub(super) fn tick(&mut self, now: Instant, hub: &ShardHub) {
        let Some(increase) = self.rate.increase else { return };
        // Several steps at once after a long wait, so that the rate is what the time says.
        while now >= self.next_increase {
            self.next_increase = self.next_increase + self.rate.interval.max(Duration::from_millis(1));
            let (wanted, most) = (self.rate.calls + increase, self.rate.max.unwrap_or(f64::INFINITY));
            if wanted > most && self.rate.quit_at_max {
                return hub.advance(RunPhase::Soft);
            }
            self.rate.calls = wanted.min(most);
            self.follow(now, hub);
        }
    }
}

fn pace(rate: &RateOptions) -> CallRate {
    CallRate::new(rate.calls, rate.period)
}

/// SIPp's longest pause and timewait, by which a call's length is reckoned: its lengths are C `int`s.
const LONGEST_MS: f64 = 2_147_483_647.0;

/// By its pauses and the timewait at its end, at least a second. As in SIPp a distribution counts with the length that 99 of 100 pauses do not
/// exceed.
fn call_length(scenario: &Scenario, default_pause: Duration) -> u64 {
    let whole = |length: Duration| u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and the bound")]
    let length = |step: &StepKind| match step {
        StepKind::Pause(Pause::Default) => whole(default_pause),
        StepKind::Pause(Pause::For(distribution)) => distribution.quantile_99().clamp(0.0, LONGEST_MS) as u64,
        StepKind::TimeWait(length) => whole(*length),
        // What a variable holds is not known before the call.
        _ => 0,
    };
    let lengths: u64 = scenario.steps.iter().map(|step| length(&step.kind)).fold(0, u64::saturating_add);
    lengths.max(whole(default_pause)).max(1_000)
}

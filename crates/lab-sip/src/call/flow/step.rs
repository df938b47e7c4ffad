//! Steps one after the other, until one of them waits.
//!
//! [`run`] is the loop: skip what a condition excludes, perform the step, and go on by `next` (`advance`) unless the step waits. Pauses, messages
//! and commands wait; everything else passes at once.

use std::borrow::Cow;

use stdx::time::Instant;

use super::super::message::Incoming;
use super::{
    Call, CallContext, Count, Duration, NONE, command, complain, count_step, debug, fail, finish, pause,
    receive, send, step_name,
};
use crate::call::VariableValue;
use crate::call::actions::value::{is_set, with};
use crate::call::actions::{self, ActionResult};
use crate::scenario::model::{ConditionSense, RecvStep, ScenarioStep, StepIndex, StepKind};

/// A scenario that loops without waiting gives the others their turn after this many steps.
pub(super) const MAX_STEPS_A_TURN: usize = 1_000;
/// SIPp's clock has this resolution, and so has a loop that never waits.
const YIELD: Duration = Duration::from_millis(1);

/// The state of a step after it was performed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StepProgress {
    Done,
    /// The position was set by the step itself.
    Moved,
    Waits,
}

/// Runs the scenario until a step waits or the call is over.
pub(super) fn run(call: &mut Call, ctx: &mut CallContext<'_>) {
    let env = ctx.env;
    if std::mem::take(&mut call.flow.flags.yields) {
        call.flow.receive_by = Instant::FAR_FUTURE;
    }
    for _ in 0..MAX_STEPS_A_TURN {
        if call.over {
            return;
        }
        let Some(step) = env.scenario.steps.get(call.position) else {
            finish(call, ctx);
            return;
        };
        let progressed = if skipped(call, ctx, step) { StepProgress::Done } else { one(call, ctx, step) };
        match progressed {
            StepProgress::Done => advance(call, ctx),
            StepProgress::Moved => {}
            StepProgress::Waits => return,
        }
    }
    // So many steps without a wait: the call is woken again after the others.
    call.flow.flags.yields = true;
    call.flow.receive_by = ctx.now + YIELD;
}

/// One step. The hold of commands comes first, then that of a pause, then the step itself.
fn one(call: &mut Call, ctx: &mut CallContext<'_>, step: &ScenarioStep) -> StepProgress {
    if call.flow.commands > 0 {
        return StepProgress::Waits;
    }
    if call.flow.paused_until != Instant::FAR_FUTURE {
        if ctx.now < call.flow.paused_until {
            return StepProgress::Waits;
        }
        call.flow.paused_until = Instant::FAR_FUTURE;
        debug(call, ctx, "the pause is over", b"");
        return StepProgress::Done;
    }
    match &step.kind {
        StepKind::Send(message) => send::scenario_message(call, ctx, step, message),
        StepKind::Recv(recv) => wait_to_receive(call, ctx, step, Some(recv)),
        StepKind::RecvCmd { .. } => wait_to_receive(call, ctx, step, None),
        StepKind::Pause(length) => {
            let length = pause::length(call, ctx, length);
            enter_pause(call, ctx, step, length)
        }
        StepKind::TimeWait(length) => {
            call.flow.flags.in_timewait = true;
            enter_pause(call, ctx, step, *length)
        }
        StepKind::Nop => {
            keep_books(call, ctx, step);
            count_step(ctx, call.position, |counts| counts.messages += 1);
            act(call, ctx, step, None)
        }
        StepKind::SendCmd { dest, .. } => command::send(call, ctx, step, dest.as_deref()),
    }
}

/// `condexec` and `condexec_inverse`.
fn skipped(call: &Call, ctx: &CallContext<'_>, step: &ScenarioStep) -> bool {
    step.flow
        .condition
        .is_some_and(|(variable, sense)| is_set(call, ctx, variable) != (sense == ConditionSense::Set))
}

/// The actions of a pause run when it begins.
fn enter_pause(
    call: &mut Call,
    ctx: &mut CallContext<'_>,
    step: &ScenarioStep,
    length: Duration,
) -> StepProgress {
    call.flow.paused_until = ctx.now + length;
    if ctx.env.tracer.wants_call_debug() {
        debug(call, ctx, &format!("pauses for {} ms", length.as_millis()), b"");
    }
    count_step(ctx, call.position, |counts| counts.messages += 1);
    keep_books(call, ctx, step);
    match act(call, ctx, step, None) {
        // The pause itself is still to come.
        StepProgress::Done if ctx.now < call.flow.paused_until => StepProgress::Waits,
        StepProgress::Done => {
            call.flow.paused_until = Instant::FAR_FUTURE;
            StepProgress::Done
        }
        other => other,
    }
}

/// `recv` and `recvCmd`: waits, for as long as the step or `-recv_timeout` allows.
fn wait_to_receive(
    call: &mut Call,
    ctx: &mut CallContext<'_>,
    step: &ScenarioStep,
    recv: Option<&RecvStep>,
) -> StepProgress {
    if let Some(bytes) = call.flow.queued.take()
        && let Ok(message) = Incoming::parse(&bytes)
    {
        receive::queued(call, ctx, &message);
        // Its consequences have run already.
        return if call.over { StepProgress::Waits } else { StepProgress::Moved };
    }
    if command::take_early(call, ctx) {
        return if call.over { StepProgress::Waits } else { StepProgress::Moved };
    }
    if call.flow.receive_by == Instant::FAR_FUTURE {
        if let Some(timeout) = patience(call, ctx, recv) {
            call.flow.receive_by = ctx.now + timeout;
        }
        return StepProgress::Waits;
    }
    if ctx.now < call.flow.receive_by {
        return StepProgress::Waits;
    }
    call.flow.receive_by = Instant::FAR_FUTURE;
    count_step(ctx, call.position, |counts| counts.timeouts += 1);
    match step.flow.on_timeout {
        Some(to) if to < ctx.env.scenario.steps.len() => {
            complain(call, ctx, "nothing came in time, going to its ontimeout label");
            go(call, ctx, to);
            StepProgress::Moved
        }
        // A label at the very end of the scenario ends the call as one without a label does.
        _ => {
            let place = step_name(ctx, call.position);
            let text = format!(
                "receive timeout on message {place} without label to jump to (ontimeout attribute): aborting call"
            );
            complain(call, ctx, &text);
            fail(call, ctx, Count::FailedTimeoutOnRecv);
            StepProgress::Waits
        }
    }
}

/// `timeout_variable`, `timeout` or `-recv_timeout`. A variable that holds no number from 1 up sets no limit.
fn patience(call: &Call, ctx: &CallContext<'_>, recv: Option<&RecvStep>) -> Option<Duration> {
    if let Some(variable) = recv.and_then(|recv| recv.timeout_variable) {
        let milliseconds = with(call, ctx, variable, VariableValue::to_number)?;
        return (milliseconds >= 1.0).then(|| Duration::from_millis(milliseconds as u64));
    }
    recv.and_then(|recv| recv.timeout).or(ctx.env.options.timers.recv_timeout)
}

/// The state of a call in a step, in SIPp's words.
pub(super) fn expectation(step: &ScenarioStep) -> Cow<'static, str> {
    use crate::scenario::model::Expect;

    match &step.kind {
        StepKind::Recv(recv) => match &recv.expect {
            Expect::Request(method) => format!("while expecting '{method}'").into(),
            Expect::Response(code) => format!("while expecting '{code}'").into(),
            Expect::RequestPattern(pattern) | Expect::ResponsePattern(pattern) => {
                format!("while expecting '{}'", pattern.as_str()).into()
            }
        },
        StepKind::RecvCmd { .. } => "while expecting command".into(),
        StepKind::Pause(_) | StepKind::TimeWait(_) => "while pausing".into(),
        StepKind::SendCmd { .. } => "while sending command".into(),
        StepKind::Send(_) | StepKind::Nop => "while sending".into(),
    }
}

/// Runs the actions of a step in order.
pub(super) fn act(
    call: &mut Call,
    ctx: &mut CallContext<'_>,
    step: &ScenarioStep,
    message: Option<&Incoming<'_>>,
) -> StepProgress {
    let (mut jump, mut hold) = (None, None);
    for action in &step.actions {
        match actions::perform(call, ctx, action, message) {
            ActionResult::Continue => {}
            ActionResult::Jump(to) => jump = Some(to),
            ActionResult::PauseUntil(end) => call.flow.paused_until = end,
            ActionResult::HoldUntil(end) => hold = Some(end),
            ActionResult::HoldForCommand => call.flow.commands += 1,
            ActionResult::StopCall => {
                super::end(call, ctx, super::CallOutcome::Failure(Count::FailedCallRejected));
                return StepProgress::Waits;
            }
            // SIPp goes on with the scenario, so that the peer sees a whole call, and counts the failure at its end.
            ActionResult::Fail(count) => {
                call.flow.failure = Some(count);
                break;
            }
        }
    }
    if let Some(to) = jump {
        go(call, ctx, to);
        return StepProgress::Moved;
    }
    match hold {
        Some(end) if ctx.now < end => {
            call.flow.paused_until = end;
            StepProgress::Waits
        }
        _ if call.flow.commands > 0 => {
            // The step is done as soon as its commands and its pause, if it is one, have ended.
            if call.flow.paused_until == Instant::FAR_FUTURE {
                call.flow.paused_until = ctx.now;
            }
            StepProgress::Waits
        }
        _ => StepProgress::Done,
    }
}

/// To the step that follows, by `next`, `test` and `chance`.
pub(super) fn advance(call: &mut Call, ctx: &mut CallContext<'_>) {
    let env = ctx.env;
    let to = match env.scenario.steps.get(call.position) {
        Some(step) => following(call, ctx, step, call.position),
        None => call.position,
    };
    go(call, ctx, to);
}

/// The next step: `next` only if its `test` is set and its `chance` comes true.
pub(super) fn following(
    call: &Call,
    ctx: &mut CallContext<'_>,
    step: &ScenarioStep,
    at: StepIndex,
) -> StepIndex {
    let Some(next) = step.flow.next else {
        return at + 1;
    };
    if step.flow.test.is_some_and(|variable| !is_set(call, ctx, variable)) {
        return at + 1;
    }
    if step.flow.chance.is_some_and(|chance| !happens(ctx, chance)) {
        return at + 1;
    }
    next
}

/// Enters a step; the time to wait for a message begins anew.
pub(super) fn go(call: &mut Call, ctx: &mut CallContext<'_>, to: StepIndex) {
    count_step(ctx, call.position, |counts| counts.left += 1);
    count_step(ctx, to, |counts| counts.entered += 1);
    call.position = to;
    call.flow.flags.has_moved = true;
    call.flow.receive_by = Instant::FAR_FUTURE;
}

/// True with this probability.
pub(super) fn happens(ctx: &mut CallContext<'_>, probability: f64) -> bool {
    // 53 bits fill a double's mantissa.
    let draw = (ctx.rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
    draw < probability
}

/// True if this message is one of those dropped on purpose.
pub(super) fn loses(ctx: &mut CallContext<'_>, at: StepIndex) -> bool {
    let own = ctx.env.scenario.steps.get(at).and_then(|step| step.flow.lost);
    let probability = own.unwrap_or(ctx.env.options.behaviour.lost / 100.0);
    let loses = probability > 0.0 && happens(ctx, probability);
    if loses {
        count_step(ctx, at, |counts| counts.lost += 1);
    }
    loses
}

/// Counters and response times of a step.
pub(super) fn keep_books(call: &mut Call, ctx: &mut CallContext<'_>, step: &ScenarioStep) {
    let timing = &step.timing;
    if let Some(counter) = timing.counter {
        *slot(ctx.stats.counters_of(ctx.env.which), counter) += 1;
    }
    for rtd in &timing.start {
        if let Some(timer) = call.flow.timers.get_mut(usize::from(*rtd)) {
            timer.start = ctx.now;
            // Only the first request is due with the call: in a loop that comes back to its step, the time since then is the call's age.
            timer.from_due = call.position == 0 && !call.flow.flags.has_moved;
        }
    }
    for rtd in &timing.stop {
        let Some(timer) = call.flow.timers.get_mut(usize::from(*rtd)) else {
            continue;
        };
        if timer.done {
            continue;
        }
        timer.done = !timing.repeat;
        // The service time counts from the sending; the response time from when the call was due, so that a late start of ours counts against us.
        let service = ctx.received.since(timer.start);
        let response = if timer.from_due { ctx.received.since(call.identity.due) } else { service };
        let slot = slot(ctx.stats.rtds_of(ctx.env.which), *rtd);
        slot.service.record(service);
        slot.response.record(response);
        if ctx.env.tracer.wants_response_times() {
            let micros = u64::try_from(service.as_micros()).unwrap_or(u64::MAX);
            let name = ctx.env.scenario.rtds.get(usize::from(*rtd)).map_or("", String::as_str);
            ctx.env.tracer.response_time(ctx.now, micros, name);
        }
    }
}

/// The place of a counter, made when a run's tables are shorter.
fn slot<T: Clone + Default>(slots: &mut Vec<T>, at: u16) -> &mut T {
    let at = usize::from(at);
    if slots.len() <= at {
        slots.resize(at + 1, T::default());
    }
    &mut slots[at]
}

/// A step as the progress notes it.
pub(super) fn note(at: StepIndex) -> u32 {
    u32::try_from(at).unwrap_or(NONE)
}

//! The run of a scenario: where a call stands, what it waits for, and how it ends.
//!
//! The parts: `step` goes from step to step until one waits; `send` and `receive` are the steps with messages; `unexpected` handles messages
//! without a step and tells the peer of an early end (`defaults`); `dialog` keeps parts of messages; `command` is 3PCC; `sdp` tells the media.
//! Every entry point ends with `settle`, which computes the next wake-up.
//!
//! A call asks for one wake-up at a time, and keeps of a message only the parts that its scenario reads.

mod command;
mod defaults;
mod dialog;
mod pause;
mod receive;
mod sdp;
mod send;
mod sources;
mod step;
#[cfg(test)]
mod tests;
mod unexpected;

use std::net::SocketAddr;
use std::time::Duration;

use smallvec::SmallVec;
use stdx::time::Instant;

use super::actions::{self, ActionResult};
use super::message::Incoming;
use super::{
    Call, CallContext, CallEffect, CallEnv, CallIdentity, CallOutcome, ScenarioRole, Transaction,
    TransportFault, VariableValue,
};
use crate::scenario::Scenario;
use crate::scenario::model::{Scope, StepIndex, VarRef};
use crate::stats::{Count, StepCounts};

/// No step.
const NONE: u32 = u32::MAX;

/// Timers, retransmission and what matching needs.
#[derive(Debug)]
pub(super) struct CallProgress {
    /// When the call began, for its length.
    started: Instant,
    /// End of the pause it is in; `FAR_FUTURE` without one.
    paused_until: Instant,
    /// When the step in hand has waited long enough; `FAR_FUTURE` until it waits. With `CallFlags::yields` the time of the call's next turn.
    receive_by: Instant,
    /// When the unanswered message goes out again.
    retransmit_at: Instant,
    /// The message that is sent again until something answers it.
    unanswered: Option<Box<PendingRetransmission>>,
    /// Hash of the last message consumed, 0 for none: the same again is a retransmission.
    consumed: u64,
    /// The step that consumed it.
    consumed_step: u32,
    /// The send that followed it: what a retransmission of it is answered with.
    answer_step: u32,
    /// The last step that sent.
    sent_step: u32,
    /// CSeq of the last INVITE received; 0 before there was one. Its ACK must have the same.
    invite_cseq: u32,
    /// Hash of the last INVITE received, 0 for none: the same again is a retransmission, whatever was received since.
    invite: u64,
    /// Code of the last response received, for the way a call is aborted; 0 without.
    last_code: u16,
    /// The confirmed dialog that this end's INVITE made, for the BYE of a call that is aborted.
    dialog: Option<Box<DialogParts>>,
    /// Facts of the call that need a bit each.
    flags: CallFlags,
    /// A check failed: the scenario goes on, and the call counts as failed when it ends (as in SIPp).
    failure: Option<Count>,
    /// Response-time counters, by index of `Scenario::rtds`.
    timers: SmallVec<[RunningTimer; 1]>,
    /// Commands of `<exec verify>` that have not ended: the call stays in its step.
    commands: u32,
    /// An unexpected message that `_unexp.main` will look at once it waits for one, or one that came before a command
    /// had ended.
    queued: Option<Box<[u8]>>,
    /// Parts that few calls have, and then one allocation.
    rare: Option<Box<RareProgress>>,
}

/// Parts of the progress that few calls have.
#[derive(Debug, Default)]
struct RareProgress {
    /// 3PCC: commands that came before their `<recvCmd>` was reached.
    early_commands: command::EarlyCommands,
    /// Sources of requests from elsewhere than the peer, whose responses go there; `None` while there was none.
    sources: Option<sources::RequestSources>,
    /// `-reconnect_close false`: the last request, until a response to it comes. A new connection carries it once more.
    unanswered_request: Option<Box<[u8]>>,
}

/// The parts of a dialog from which a request within it is built (RFC 3261 §12.1.2 and §12.2.1.1).
#[derive(Debug)]
struct DialogParts {
    /// From, To, Contact and Record-Route of the 2xx that made it.
    answer: Box<[u8]>,
    /// The Contact of a later target refresh (§12.2).
    refreshed: Option<Box<[u8]>>,
    /// The highest CSeq of a request of this end that has an answer.
    cseq: u32,
}

/// A message that is sent again until something answers it.
#[derive(Debug)]
struct PendingRetransmission {
    /// As it was sent: a retransmission is the same, byte by byte.
    bytes: Box<[u8]>,
    /// The time until the next attempt; it doubles.
    delay: Duration,
    /// Retransmissions so far.
    count: u32,
    /// INVITE and other requests differ in the longest delay and the number of retransmissions.
    is_invite: bool,
}

/// Facts of a call, false at first.
#[derive(Debug, Clone, Copy, Default)]
struct CallFlags {
    /// An ACK was sent or received.
    established: bool,
    /// A 200 came and was not acknowledged yet.
    ack_pending: bool,
    /// In `<timewait>`: the scenario is through.
    in_timewait: bool,
    /// Anything was received.
    has_received: bool,
    /// The call has left its first step; a loop may come back to it.
    has_moved: bool,
    /// The call gave others their turn amid its steps: `receive_by` is no time to wait for a message.
    yields: bool,
}

/// A response-time counter of one call.
#[derive(Debug, Clone, Copy)]
struct RunningTimer {
    /// When it began to count.
    start: Instant,
    /// Started with the call, so the time it was late counts as the peer sees it.
    from_due: bool,
    /// It has its value and does not repeat.
    done: bool,
}

/// Begins a call and runs it up to its first wait.
pub(super) fn start(ctx: &mut CallContext<'_>, identity: CallIdentity) -> Call {
    let mut call = fresh(ctx, identity);
    count_step(ctx, 0, |step| step.entered += 1);
    debug(&call, ctx, "the call starts", b"");
    step::run(&mut call, ctx);
    settle(&mut call);
    call
}

pub(super) fn handle_message(
    call: &mut Call,
    ctx: &mut CallContext<'_>,
    message: &Incoming<'_>,
    from: SocketAddr,
) {
    sources::note(call, ctx, message, from);
    // After the end only retransmissions are answered.
    if call.over {
        receive::after_the_end(call, ctx, message);
        return;
    }
    receive::message(call, ctx, message);
    settle(call);
}

pub(super) fn can_begin(scenario: &Scenario, message: &Incoming<'_>) -> bool {
    // `_unexp.main` handles any message, also the first.
    scenario.label(unexpected::LABEL).is_some() || receive::can_begin(scenario, message)
}

pub(super) fn handle_command(call: &mut Call, ctx: &mut CallContext<'_>, bytes: &[u8], peer: Option<&str>) {
    if call.over {
        return;
    }
    command::received(call, ctx, bytes, peer);
    settle(call);
}

pub(super) fn handle_wake(call: &mut Call, ctx: &mut CallContext<'_>) {
    // A wake-up for a deadline that has moved since.
    if ctx.now < call.deadline {
        return;
    }
    if call.over {
        // No peer asks any more: the call may be forgotten.
        call.deadline = Instant::FAR_FUTURE;
        return;
    }
    // The retransmission first: it may be the last, and then ends the call or moves it.
    if call.flow.retransmit_at <= ctx.now {
        send::retransmit(call, ctx);
    }
    step::run(call, ctx);
    settle(call);
}

pub(super) fn handle_fault(call: &mut Call, ctx: &mut CallContext<'_>, fault: TransportFault) {
    if call.over {
        return;
    }
    let count = match fault {
        TransportFault::ConnectFailed => Count::FailedTcpConnect,
        // The scenario is through: nothing is lost with the connection.
        TransportFault::Closed if call.flow.flags.in_timewait => {
            finish(call, ctx);
            return;
        }
        TransportFault::ConnectionLost => {
            send::on_new_connection(call, ctx);
            return;
        }
        TransportFault::Closed => Count::FailedTcpClosed,
        TransportFault::CannotSend => Count::FailedCannotSendMessage,
        TransportFault::Congestion => Count::FailedOutboundCongestion,
        TransportFault::SendTimeout => Count::FailedTimeoutOnSend,
        TransportFault::CommandNotSent => Count::FailedCmdNotSent,
    };
    tell_fault(call, ctx, fault);
    if fault == TransportFault::CommandNotSent {
        // The peer of the call itself can still be told.
        fail(call, ctx, count);
        return;
    }
    // Nothing more can be sent, so no BYE either.
    end(call, ctx, CallOutcome::Failure(count));
}

pub(super) fn handle_command_end(call: &mut Call, ctx: &mut CallContext<'_>, verdict: Result<(), &str>) {
    if call.over {
        return;
    }
    call.flow.commands = call.flow.commands.saturating_sub(1);
    if let Err(reason) = verdict {
        complain(call, ctx, &format!("the command of <exec verify> failed: {reason}"));
        call.flow.failure = Some(Count::FailedCallRejected);
    }
    step::run(call, ctx);
    settle(call);
}

pub(super) fn abort(call: &mut Call, ctx: &mut CallContext<'_>, why: Count) {
    if call.over {
        return;
    }
    if call.flow.flags.in_timewait {
        // The scenario is through, and so is the dialog.
        finish(call, ctx);
        return;
    }
    fail(call, ctx, why);
}

pub(super) fn abandon(call: &mut Call, ctx: &mut CallContext<'_>) {
    // In `<timewait>` the dialog has ended.
    if !call.over && !call.flow.flags.in_timewait && ctx.env.options.call.defaults.bye {
        unexpected::tell_peer(call, ctx);
    }
}

pub(super) fn run_init(ctx: &mut CallContext<'_>) -> Result<(), String> {
    let env = ctx.env;
    if env.scenario.init.is_empty() {
        return Ok(());
    }
    // `<init>` runs before any call: it has no peer, no number and no Call-ID.
    let nowhere = SocketAddr::from(([0, 0, 0, 0], 0));
    let identity = CallIdentity {
        number: 0,
        call_id: Box::default(),
        due: ctx.now,
        local: nowhere,
        remote: nowhere,
        user: 0,
        incoming: false,
        lines: Box::default(),
    };
    let mut call = fresh(ctx, identity);
    let mut at = 0;
    // A jump back without an end would hang the start of the run.
    for _ in 0..step::MAX_STEPS_A_TURN {
        let Some(step) = env.scenario.init.get(at) else {
            return Ok(());
        };
        call.position = at;
        at = step::following(&call, ctx, step, at);
        for action in &step.actions {
            match actions::perform(&mut call, ctx, action, None) {
                ActionResult::Continue | ActionResult::PauseUntil(_) | ActionResult::HoldUntil(_) => {}
                ActionResult::Jump(to) => at = to,
                ActionResult::HoldForCommand => {
                    // The command was asked for already: it must not run.
                    ctx.out.effects.pop();
                    let line = action.line;
                    return Err(format!(
                        "line {line}: <exec verify> in <init>, where no call waits: expected command="
                    ));
                }
                ActionResult::StopCall => return Ok(()),
                ActionResult::Fail(count) => {
                    return Err(format!("line {}: {count:?} in <init>", action.line));
                }
            }
        }
    }
    Err(format!("<init> does not end: more than {} steps", step::MAX_STEPS_A_TURN))
}

/// A call before its first step.
fn fresh(ctx: &mut CallContext<'_>, mut identity: CallIdentity) -> Call {
    let scenario = &ctx.env.scenario;
    let mut lines = std::mem::take(&mut identity.lines);
    if lines.is_empty() && !ctx.env.files.is_empty() {
        lines = ctx.env.files.lines_for_call(identity.user, ctx.rng.next_u64());
    }
    Call {
        position: 0,
        deadline: Instant::FAR_FUTURE,
        over: false,
        cseq: ctx.env.options.call.base_cseq,
        peer_tag: Box::default(),
        variables: vec![VariableValue::Unset; scenario.variables.call.len()].into_boxed_slice(),
        lines,
        last_received: None,
        routes: None,
        challenge: None,
        transactions: vec![Transaction::default(); scenario.transactions.len()].into_boxed_slice(),
        flow: CallProgress::new(ctx.now, scenario.rtds.len()),
        identity,
    }
}

impl CallProgress {
    fn new(now: Instant, timers: usize) -> CallProgress {
        let timer = RunningTimer { start: now, from_due: true, done: false };
        CallProgress {
            started: now,
            paused_until: Instant::FAR_FUTURE,
            receive_by: Instant::FAR_FUTURE,
            retransmit_at: Instant::FAR_FUTURE,
            unanswered: None,
            consumed: 0,
            consumed_step: NONE,
            answer_step: NONE,
            sent_step: NONE,
            invite_cseq: 0,
            invite: 0,
            last_code: 0,
            dialog: None,
            flags: CallFlags::default(),
            failure: None,
            timers: SmallVec::from_elem(timer, timers),
            commands: 0,
            queued: None,
            rare: None,
        }
    }

    /// The message that was sent needs no more repeating.
    fn answered(&mut self) {
        self.retransmit_at = Instant::FAR_FUTURE;
        self.unanswered = None;
    }
}

impl Call {
    /// `pauserestore`: the pause that an unexpected message broke off goes on, in milliseconds since the run
    /// started as `_unexp.pausedaddr` holds them. 0: the call was not in a pause.
    pub fn restore_pause(&mut self, env: &CallEnv, milliseconds: f64) {
        if milliseconds > 0.0 {
            self.flow.paused_until = env.started + Duration::from_secs_f64((milliseconds / 1e3).min(1e9));
        }
    }
}

/// The one time to be woken.
fn settle(call: &mut Call) {
    if !call.over {
        let flow = &call.flow;
        // A command's end wakes the call itself.
        let held =
            if flow.commands > 0 { Instant::FAR_FUTURE } else { flow.paused_until.min(flow.receive_by) };
        call.deadline = held.min(flow.retransmit_at);
    }
}

/// The scenario came to its end.
fn finish(call: &mut Call, ctx: &mut CallContext<'_>) {
    let outcome = call.flow.failure.map_or(CallOutcome::Success, CallOutcome::Failure);
    end(call, ctx, outcome);
}

/// Ends the call as failed, telling the peer as `-default_behaviors` says.
fn fail(call: &mut Call, ctx: &mut CallContext<'_>, why: Count) {
    if ctx.env.options.call.defaults.bye {
        unexpected::tell_peer(call, ctx);
    }
    end(call, ctx, CallOutcome::Failure(why));
}

/// Judges the RTP patterns of a call that succeeded: a pattern that came back too badly fails it.
fn judge_media(call: &Call, ctx: &mut CallContext<'_>, outcome: CallOutcome) -> CallOutcome {
    let media = &ctx.env.options.media;
    if outcome != CallOutcome::Success || !ctx.env.scenario.needs.media {
        return outcome;
    }
    let mut report = Vec::new();
    let verdict = ctx.media.verdict(call.identity.number, &mut report);
    if media.rtpcheck_debug || media.srtpcheck_debug {
        for line in report {
            let text = format!("rtpcheck of call {}: {line}", call.identity.number);
            ctx.env.tracer.log(ctx.now, text.as_bytes());
        }
    }
    match verdict {
        Ok(()) => outcome,
        Err(why) => {
            complain(call, ctx, &format!("rtpcheck: {why}"));
            CallOutcome::Failure(Count::FailedRtpCheck)
        }
    }
}

/// The one place where a call ends: counted once, told once.
fn end(call: &mut Call, ctx: &mut CallContext<'_>, outcome: CallOutcome) {
    if call.over {
        return;
    }
    let outcome = judge_media(call, ctx, outcome);
    call.over = true;
    // As in SIPp an answer outside calls is no call of the run's.
    let counted = ctx.env.which != ScenarioRole::OutOfCall;
    match outcome {
        // Errors there are in the error log.
        _ if !counted => {}
        CallOutcome::Success => ctx.stats.count(Count::SuccessfulCall),
        CallOutcome::Failure(why) => {
            ctx.stats.count(Count::FailedCall);
            if why != Count::FailedCall {
                ctx.stats.count(why);
            }
            if ctx.env.tracer.wants_call_debug() {
                let text = format!("step {}: the call ends: {why:?}", call.position);
                ctx.env.tracer.call_debug(ctx.now, &call.identity.call_id, &text);
            }
        }
    }
    ctx.env.tracer.end_call_debug(&call.identity.call_id, outcome != CallOutcome::Success);
    count_step(ctx, call.position, |step| step.left += 1);
    if counted {
        ctx.stats.call_length.record(ctx.now.since(call.flow.started));
    }
    if ctx.env.scenario.needs.media || ctx.env.options.media.measure {
        ctx.media.close(ctx.now, call.identity.number, ctx.stats);
    }
    forget(call);
    let linger = ctx.env.options.call.dead_call_wait;
    call.deadline = if linger.is_zero() { Instant::FAR_FUTURE } else { ctx.now + linger };
    ctx.out.effects.push(CallEffect::Ended { outcome });
}

/// Calls linger by the hundred thousand: only what a retransmission is answered with stays.
fn forget(call: &mut Call) {
    let flow = &mut call.flow;
    flow.answered();
    flow.queued = None;
    if let Some(rare) = &mut flow.rare {
        **rare = RareProgress { sources: rare.sources.take(), ..RareProgress::default() };
    }
    flow.dialog = None;
    flow.timers = SmallVec::new();
    // After `<timewait>` the peer had its time to ask again.
    if flow.answer_step == NONE || flow.flags.in_timewait {
        flow.answer_step = NONE;
        flow.rare = None;
        call.last_received = None;
        call.variables = Box::default();
        call.lines = Box::default();
        call.routes = None;
        call.challenge = None;
        call.transactions = Box::default();
        call.peer_tag = Box::default();
    }
}

pub(super) fn is_mute(call: &Call) -> bool {
    call.over && call.flow.answer_step == NONE
}

/// Changes the counts of a step, of the scenario that this call runs.
fn count_step(ctx: &mut CallContext<'_>, step: StepIndex, change: impl FnOnce(&mut StepCounts)) {
    let steps = match ctx.env.which {
        ScenarioRole::Main => &mut ctx.stats.steps,
        ScenarioRole::Receive => &mut ctx.stats.receive_steps,
        ScenarioRole::OutOfCall => &mut ctx.stats.out_of_call_steps,
    };
    // A position at the end of the scenario is no step.
    if let Some(counts) = steps.get_mut(step) {
        change(counts);
    }
}

/// A line for `-trace_err`: which call, what, where in the scenario.
fn complain(call: &Call, ctx: &mut CallContext<'_>, what: &str) {
    let call_id = String::from_utf8_lossy(&call.identity.call_id);
    complain_as_sipp(call, ctx, &format!("Call-Id: {call_id}, {what}"));
}

/// The same in a sentence of SIPp's, which names the Call-ID itself: scripts look for it.
fn complain_as_sipp(call: &Call, ctx: &mut CallContext<'_>, sentence: &str) {
    ctx.stats.count(Count::Warnings);
    let line = ctx.env.scenario.steps.get(call.position).map_or(0, |step| step.line);
    let text = format!("{sentence} (call {}, step {}, line {line})", call.identity.number, call.position);
    ctx.env.tracer.error(ctx.now, &text);
    if ctx.env.tracer.wants_call_debug() && !call.over {
        ctx.env.tracer.call_debug(ctx.now, &call.identity.call_id, &text);
    }
}

/// A line for `-trace_calldebug`, made only when it is wanted.
fn debug(call: &Call, ctx: &CallContext<'_>, what: &str, bytes: &[u8]) {
    // Events after the end belong to no call that failed.
    if ctx.env.tracer.wants_call_debug() && !call.over {
        let between = if bytes.is_empty() { "" } else { "\n" };
        let text = format!("step {}: {what}{between}{}", call.position, String::from_utf8_lossy(bytes));
        ctx.env.tracer.call_debug(ctx.now, &call.identity.call_id, &text);
    }
}

/// The fault in words, for the error log.
fn tell_fault(call: &Call, ctx: &mut CallContext<'_>, fault: TransportFault) {
    let what = match fault {
        TransportFault::ConnectFailed => "the connection was refused or timed out",
        TransportFault::Closed | TransportFault::ConnectionLost => {
            let word = ctx.env.options.network.transport.via_word();
            let text = format!("The remote peer closed the {word} connection, failing 1 call");
            return complain_as_sipp(call, ctx, &text);
        }
        TransportFault::CannotSend => "the message could not be sent",
        TransportFault::Congestion => "the connection takes no more bytes",
        TransportFault::SendTimeout => {
            let place = step_name(ctx, call.flow.sent_step as usize);
            let text = format!("send timeout on message {place}: aborting call");
            return complain(call, ctx, &text);
        }
        TransportFault::CommandNotSent => "the other instance (3PCC) cannot be reached",
    };
    complain(call, ctx, what);
}

/// A step as SIPp's error log names it: the scenario and the index.
fn step_name(ctx: &CallContext<'_>, at: StepIndex) -> String {
    format!("{}:{at}", ctx.env.scenario.name)
}

/// A variable as a number; 0 when it holds none.
fn number_of(call: &Call, ctx: &CallContext<'_>, variable: VarRef) -> f64 {
    let number = |value: Option<&VariableValue>| match value {
        Some(VariableValue::Number(number)) => *number,
        Some(VariableValue::Text(text)) => {
            std::str::from_utf8(text).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0.0)
        }
        Some(VariableValue::Bool(true)) => 1.0,
        _ => 0.0,
    };
    let slot = usize::from(variable.slot);
    match variable.scope {
        Scope::Call => number(call.variables.get(slot)),
        Scope::User => number(ctx.user.as_ref().and_then(|values| values.get(slot))),
        Scope::Global => number(ctx.env.globals.read().get(slot)),
    }
}

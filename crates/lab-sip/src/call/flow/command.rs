//! 3PCC: commands to and from the twin, or from named peers.
//!
//! [`send`] is a step; [`received`] is called with each command that comes for the call. A command is text with header lines, found by its Call-ID,
//! and actions look into it as into a SIP message.

use std::collections::VecDeque;

use stdx::time::Instant;

use super::step::{StepProgress, act, advance, expectation, go, keep_books, run};
use super::{Call, CallContext, CallEffect, CallOutcome, Count, complain, count_step, end, fail};
use crate::call::message::{Incoming, StartLine};
use crate::call::render;
use crate::scenario::model::{Optional, ScenarioStep, StepIndex, StepKind};

/// Commands that may wait for their `<recvCmd>`: more than the other instances send ahead of the network.
const EARLY_COMMANDS: usize = 8;

/// Commands that overtook the message or pause before their `<recvCmd>`, with the names of their senders, in order.
pub(super) type EarlyCommands = VecDeque<(Box<[u8]>, Option<Box<str>>)>;

/// `<sendCmd>`: the twin, or the peer `dest` of extended 3PCC.
pub(super) fn send(
    call: &mut Call,
    ctx: &mut CallContext<'_>,
    step: &ScenarioStep,
    dest: Option<&str>,
) -> StepProgress {
    // As with messages: what is unanswered comes first.
    if call.flow.unanswered.is_some() {
        return StepProgress::Waits;
    }
    let mut bytes = std::mem::take(&mut ctx.out.bytes);
    let start = bytes.len();
    let at = call.position;
    let made = render::message(call, ctx, at, &mut bytes);
    let length = bytes.len();
    ctx.out.bytes = bytes;
    if let Err(why) = made {
        ctx.out.bytes.truncate(start);
        complain(call, ctx, &why);
        end(call, ctx, CallOutcome::Failure(Count::FailedCmdNotSent));
        return StepProgress::Waits;
    }
    ctx.out.effects.push(CallEffect::Command { start, end: length, peer: dest.map(str::to_owned) });
    count_step(ctx, call.position, |counts| counts.messages += 1);
    keep_books(call, ctx, step);
    act(call, ctx, step, None)
}

/// A command for this call: the next `<recvCmd>` takes it, at once or when the call comes to it. `internal-cmd: abort_call` is the other
/// side's end.
pub(super) fn received(call: &mut Call, ctx: &mut CallContext<'_>, bytes: &[u8], peer: Option<&str>) {
    let env = ctx.env;
    if value(bytes, b"internal-cmd") == Some(b"abort_call") {
        complain(call, ctx, "the other side of the 3PCC call gave up");
        fail(call, ctx, Count::FailedCall);
        return;
    }
    let Some((at, src)) = place(call, ctx) else {
        if keep_early(call, ctx, bytes, peer) {
            return;
        }
        let state = env.scenario.steps.get(call.position).map_or("at the end".into(), expectation);
        let text =
            format!("unexpected control message received {state} (index {}): aborting call", call.position);
        reject(call, ctx, &text);
        return;
    };
    // Extended 3PCC: the sender names itself in the command.
    let sender = value(bytes, b"From").and_then(|name| std::str::from_utf8(name).ok()).or(peer);
    if let Some(src) = src
        && sender != Some(src)
    {
        let sender = sender.unwrap_or("");
        reject(
            call,
            ctx,
            &format!("unexpected sender '{sender}' of the control message, expecting '{src}': aborting call"),
        );
        return;
    }
    let step = &env.scenario.steps[at];
    count_step(ctx, at, |counts| counts.messages += 1);
    keep_books(call, ctx, step);
    // Line ends at the end of a command belong to the transport.
    let text = bytes.trim_ascii_end();
    let call_id = call.identity.call_id.clone();
    let message = as_message(text, &call_id);
    if env.scenario.needs.last_message {
        call.last_received = Some(text.into());
    }
    match act(call, ctx, step, Some(&message)) {
        StepProgress::Waits => {}
        StepProgress::Moved => run(call, ctx),
        StepProgress::Done => {
            // A command ends a pause that the call was in, as a message does.
            call.flow.paused_until = Instant::FAR_FUTURE;
            if call.position != at {
                go(call, ctx, at);
            }
            advance(call, ctx);
            run(call, ctx);
        }
    }
}

/// Actions look into a command as they look into a message.
fn as_message<'a>(text: &'a [u8], call_id: &'a [u8]) -> Incoming<'a> {
    Incoming {
        bytes: text,
        start: StartLine::Request { method: b"", uri: b"" },
        call_id,
        cseq_number: 0,
        cseq_method: b"",
        branch: b"",
        via: None,
        from: None,
        to: None,
        body: memchr::memmem::find(text, b"\r\n\r\n").map_or(text.len(), |at| at + 4),
    }
}

/// The first `recvCmd` from here, past what is optional and past `nop`.
fn place<'a>(call: &Call, ctx: &CallContext<'a>) -> Option<(StepIndex, Option<&'a str>)> {
    let steps: &'a [ScenarioStep] = &ctx.env.scenario.steps;
    for (at, step) in steps.iter().enumerate().skip(call.position) {
        match &step.kind {
            StepKind::RecvCmd { src, .. } => return Some((at, src.as_deref())),
            StepKind::Nop => {}
            StepKind::Recv(recv) if recv.optional != Optional::No => {}
            _ => return None,
        }
    }
    None
}

/// Keeps a command for a `<recvCmd>` that the call has not come to. `false`: it will come to none, or too many wait already.
fn keep_early(call: &mut Call, ctx: &CallContext<'_>, bytes: &[u8], peer: Option<&str>) -> bool {
    let steps = &ctx.env.scenario.steps;
    let takes_command = |step: &ScenarioStep| matches!(step.kind, StepKind::RecvCmd { .. });
    let ahead = steps.get(call.position..).unwrap_or_default();
    // Behind a step that goes back, a `<recvCmd>` that has passed comes again.
    let first = ahead.iter().filter_map(|step| step.flow.next).min().unwrap_or(call.position);
    if !steps.iter().skip(first.min(call.position)).any(takes_command) {
        return false;
    }
    let early = &mut call.flow.rare.get_or_insert_default().early_commands;
    if early.len() == EARLY_COMMANDS {
        return false;
    }
    early.push_back((bytes.into(), peer.map(Box::from)));
    true
}

/// The call has come to a `<recvCmd>`: a command that came before takes effect now. `false`: none did.
pub(super) fn take_early(call: &mut Call, ctx: &mut CallContext<'_>) -> bool {
    if call.flow.rare.is_none() || place(call, ctx).is_none() {
        return false;
    }
    let Some((bytes, peer)) = call.flow.rare.as_mut().and_then(|rare| rare.early_commands.pop_front()) else {
        return false;
    };
    received(call, ctx, &bytes, peer.as_deref());
    true
}

/// A command that no step waits for fails the call.
fn reject(call: &mut Call, ctx: &mut CallContext<'_>, text: &str) {
    count_step(ctx, call.position, |counts| counts.unexpected += 1);
    complain(call, ctx, text);
    end(call, ctx, CallOutcome::Failure(Count::FailedCallRejected));
}

/// The first word after `name:` at the start of a line.
fn value<'a>(bytes: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    bytes.split(|byte| *byte == b'\n').find_map(|line| {
        let colon = memchr::memchr(b':', line)?;
        if !line[..colon].trim_ascii().eq_ignore_ascii_case(name) {
            return None;
        }
        line[colon + 1..].trim_ascii().split(u8::is_ascii_whitespace).next()
    })
}

//! Messages the scenario has no step for, and the end of a call before its time.
//!
//! The order in [`handle`]: the scenario's own label, then default behaviours (BYE, CANCEL, PING, `-aa`), then the failure of the call. Default
//! answers depend on `-default_behaviors`; [`tell_peer`] ends the dialog when a call fails.

use stdx::time::Instant;

use super::defaults::{DefaultAnswer, template};
use super::step::{expectation, go, run};
use super::{
    Call, CallContext, CallEffect, CallOutcome, Count, complain, complain_as_sipp, count_step, debug, dialog,
    end, fail, receive, send, sources,
};
use crate::call::message::{Incoming, StartLine};
use crate::call::{VariableValue, render};
use crate::scenario::model::{Scope, StepKind, VarRef};

/// The label that receives unexpected messages in a scenario, and the variables that hold their origin.
pub(super) const LABEL: &str = "_unexp.main";
/// SIPp's variable for the step that an unexpected message interrupted.
const RETURN: &str = "_unexp.retaddr";
/// SIPp's variable for the end of the pause that an unexpected message interrupted.
const PAUSED: &str = "_unexp.pausedaddr";

/// A message that no step expects: the scenario's label `_unexp.main` handles it, or a default answer, or the call fails.
pub(super) fn handle(call: &mut Call, ctx: &mut CallContext<'_>, message: &Incoming<'_>, may_jump: bool) {
    if let Some(label) = ctx.env.scenario.label(LABEL) {
        if may_jump && jump(call, ctx, message, label) {
            return;
        }
        spoil(call, ctx, message);
        return;
    }
    let auto_answer = ctx.env.options.call.auto_answer;
    match message.method() {
        b"BYE" | b"CANCEL" => hung_up(call, ctx, message),
        b"PING" => ping(call, ctx, message),
        b"INFO" | b"NOTIFY" | b"OPTIONS" | b"UPDATE" if auto_answer => {
            let before = call.last_received.take();
            answer(call, ctx, message);
            call.last_received = before;
            ctx.stats.count(Count::AutoAnswered);
        }
        _ => spoil(call, ctx, message),
    }
}

/// To `_unexp.main`; `false` when the call is there already.
fn jump(call: &mut Call, ctx: &mut CallContext<'_>, message: &Incoming<'_>, label: usize) -> bool {
    if let Some(variable) = variable(ctx, RETURN) {
        // The label has been entered and has not returned.
        if super::number_of(call, ctx, variable) != 0.0 {
            return false;
        }
        set(call, variable, call.position as f64);
    }
    if let Some(variable) = variable(ctx, PAUSED) {
        let paused_until = call.flow.paused_until;
        let milliseconds = if paused_until == Instant::FAR_FUTURE {
            0.0
        } else {
            paused_until.since(ctx.env.started).as_secs_f64() * 1e3
        };
        set(call, variable, milliseconds);
    }
    call.flow.paused_until = Instant::FAR_FUTURE;
    go(call, ctx, label);
    run(call, ctx);
    let waits =
        ctx.env.scenario.steps.get(call.position).is_some_and(|step| matches!(step.kind, StepKind::Recv(_)));
    // The message goes to the label's first `<recv>`, at once or when it is reached.
    if call.over {
    } else if waits {
        receive::queued(call, ctx, message);
    } else {
        call.flow.queued = Some(message.bytes.into());
    }
    true
}

/// A variable of the call by its name.
fn variable(ctx: &CallContext<'_>, name: &str) -> Option<VarRef> {
    let slot = ctx.env.scenario.variables.call.iter().position(|known| known == name)?;
    Some(VarRef { scope: Scope::Call, slot: u16::try_from(slot).ok()? })
}

/// A number into a variable of the call.
fn set(call: &mut Call, variable: VarRef, number: f64) {
    if let Some(value) = call.variables.get_mut(usize::from(variable.slot)) {
        *value = VariableValue::Number(number);
    }
}

/// The peer ends the call before the scenario does.
fn hung_up(call: &mut Call, ctx: &mut CallContext<'_>, message: &Incoming<'_>) {
    let defaults = ctx.env.options.call.defaults;
    count_unexpected(call, ctx, message);
    let call_id = String::from_utf8_lossy(&call.identity.call_id);
    let method = String::from_utf8_lossy(message.method());
    let text = format!("{} call on an unexpected {method} for call: {call_id}", verdict(ctx));
    complain_as_sipp(call, ctx, &text);
    if !defaults.abort_unexpected {
        return;
    }
    if defaults.bye {
        answer(call, ctx, message);
    }
    tell_twin(call, ctx);
    end(call, ctx, CallOutcome::Failure(Count::FailedUnexpectedMessage));
}

/// A PING ends its call, well.
fn ping(call: &mut Call, ctx: &mut CallContext<'_>, message: &Incoming<'_>) {
    if !ctx.env.options.call.defaults.ping_reply {
        return;
    }
    answer(call, ctx, message);
    tell_twin(call, ctx);
    ctx.stats.count(Count::AutoAnswered);
    end(call, ctx, CallOutcome::Success);
}

/// The message fails the call, unless `-default_behaviors -abortunexp`.
fn spoil(call: &mut Call, ctx: &mut CallContext<'_>, message: &Incoming<'_>) {
    count_unexpected(call, ctx, message);
    let call_id = String::from_utf8_lossy(&call.identity.call_id);
    let text = format!(
        "{} call on unexpected message for Call-Id '{call_id}': {} (index {}), received '{}'",
        verdict(ctx),
        ctx.env.scenario.steps.get(call.position).map_or("at the end".into(), expectation),
        call.position,
        String::from_utf8_lossy(message.bytes)
    );
    complain_as_sipp(call, ctx, &text);
    if !ctx.env.options.call.defaults.abort_unexpected {
        return;
    }
    tell_twin(call, ctx);
    dialog::keep_whole(call, message);
    fail(call, ctx, Count::FailedUnexpectedMessage);
}

/// The first word of SIPp's sentences about unexpected messages.
fn verdict(ctx: &CallContext<'_>) -> &'static str {
    if ctx.env.options.call.defaults.abort_unexpected { "Aborting" } else { "Continuing" }
}

/// Counted at the step, and for a response by its code.
fn count_unexpected(call: &Call, ctx: &mut CallContext<'_>, message: &Incoming<'_>) {
    count_step(ctx, call.position, |counts| counts.unexpected += 1);
    if let StartLine::Response { code } = message.start {
        *ctx.stats.error_codes.entry(code).or_default() += 1;
        ctx.env.tracer.error_code(ctx.now, code);
    }
}

/// A 200 to this message.
fn answer(call: &mut Call, ctx: &mut CallContext<'_>, message: &Incoming<'_>) {
    dialog::keep_whole(call, message);
    own_message(call, ctx, DefaultAnswer::Ok);
}

/// Ends the dialog towards the peer as far as it got: an ACK to a refusal, ACK and BYE to an answer, CANCEL, or BYE.
/// As in SIPp only for calls that we placed.
pub(super) fn tell_peer(call: &mut Call, ctx: &mut CallContext<'_>) {
    if call.identity.incoming
        || call.position == 0
        || !call.flow.flags.has_received
        || call.last_received.is_none()
    {
        return;
    }
    // BYE for an established dialog, and where the last request was no INVITE.
    if call.flow.flags.established || !send::last_was_invite(call, ctx) {
        own_message(call, ctx, DefaultAnswer::Bye);
    // A refusal was received and not acknowledged.
    } else if call.flow.last_code >= 400 {
        own_message(call, ctx, DefaultAnswer::Ack);
    } else if call.flow.flags.ack_pending {
        call.flow.flags.ack_pending = false;
        own_message(call, ctx, DefaultAnswer::Ack);
        own_message(call, ctx, DefaultAnswer::Bye);
    } else {
        own_message(call, ctx, DefaultAnswer::Cancel);
    }
}

/// 3PCC: the other leg ends too.
fn tell_twin(call: &mut Call, ctx: &mut CallContext<'_>) {
    if call.position == 0 {
        return;
    }
    let options = &ctx.env.options.three_pcc;
    let mut peers = Vec::new();
    if options.master.is_some() || options.slave.is_some() {
        // Extended: all that this call has commanded.
        for step in ctx.env.scenario.steps.iter().take(call.position) {
            if let StepKind::SendCmd { dest: Some(dest), .. } = &step.kind
                && !peers.contains(&Some(dest))
            {
                peers.push(Some(dest));
            }
        }
    } else if options.twin.is_some() {
        peers.push(None);
    }
    if peers.is_empty() {
        return;
    }
    if let Some((start, end)) = made(call, ctx, DefaultAnswer::ThreePccAbort, false) {
        let to = |peer: Option<&String>| CallEffect::Command { start, end, peer: peer.cloned() };
        ctx.out.effects.extend(peers.into_iter().map(to));
    }
}

/// Sends a default message.
fn own_message(call: &mut Call, ctx: &mut CallContext<'_>, which: DefaultAnswer) {
    if let Some((start, end)) = made(call, ctx, which, true) {
        debug(call, ctx, "sends on its own", &ctx.out.bytes[start..end]);
        let patience = ctx.env.options.timers.send_timeout;
        let to = sources::destination(call, &ctx.out.bytes[start..end]);
        ctx.out.effects.push(CallEffect::Send { start, end, to, patience });
    }
}

/// Renders a default message into the outbox; `crlf`: SIP's line ends.
fn made(
    call: &mut Call,
    ctx: &mut CallContext<'_>,
    which: DefaultAnswer,
    crlf: bool,
) -> Option<(usize, usize)> {
    let env = ctx.env;
    let in_dialog = if which == DefaultAnswer::Bye { dialog::bye(call) } else { None };
    let template = template(which, &env.scenario.defaults, in_dialog);
    let mut text = Vec::with_capacity(512);
    let rendered = render::message_text(call, ctx, &template, render::NO_STEP, &mut text);
    if let Err(why) = rendered {
        complain(call, ctx, &why);
        return None;
    }
    let start = ctx.out.bytes.len();
    if crlf {
        append_with_crlf(&text, &mut ctx.out.bytes);
    } else {
        ctx.out.bytes.extend_from_slice(&text);
    }
    Some((start, ctx.out.bytes.len()))
}

/// Lines end as SIP wants it, however the template ends them; the empty line is there.
fn append_with_crlf(text: &[u8], out: &mut Vec<u8>) {
    for line in text.trim_ascii().split(|byte| *byte == b'\n') {
        out.extend_from_slice(line.strip_suffix(b"\r").unwrap_or(line));
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"\r\n");
}

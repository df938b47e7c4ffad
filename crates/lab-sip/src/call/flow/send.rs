//! Sent messages: those of the scenario, and their retransmissions until an answer comes.
//!
//! A message is rendered into the outbox, remembered if it is to be sent again, and becomes an effect. [`retransmit`] is called when its time is
//! over, [`again`] when the peer repeats its question.

use super::step::{StepProgress, act, go, keep_books, loses, note};
use super::{
    Call, CallContext, CallEffect, CallOutcome, Count, NONE, PendingRetransmission, complain,
    complain_as_sipp, count_step, debug, end, fail, sources,
};
use crate::call::message::{Incoming, top_branch};
use crate::call::{SendTo, ServerTransaction, render};
use crate::scenario::model::{ScenarioStep, SendStep, SentKind, StepIndex, StepKind};

/// RFC 3261 §17.1.1.2: the interval doubles.
const BACKOFF: u32 = 2;

/// A `<send>` step. It waits while the message before it is unanswered.
pub(super) fn scenario_message(
    call: &mut Call,
    ctx: &mut CallContext<'_>,
    step: &ScenarioStep,
    message: &SendStep,
) -> StepProgress {
    // The next message waits until the one before it was answered.
    if call.flow.unanswered.is_some() {
        return StepProgress::Waits;
    }
    let at = call.position;
    keep_books(call, ctx, step);
    let method = match &message.what {
        SentKind::Request(method) => &**method,
        SentKind::Response(_) => "",
    };
    // A new request has the next CSeq; ACK and CANCEL have that of their INVITE (RFC 3261 §17.1.1.3, §9.1).
    if !matches!(method, "" | "ACK" | "CANCEL") {
        call.cseq = call.cseq.wrapping_add(1);
    }
    let Some((start, end)) = rendered(call, ctx, at) else {
        return StepProgress::Waits;
    };
    if method == "ACK" {
        call.flow.flags.established = true;
        call.flow.flags.ack_pending = false;
    }
    after_sending(call, ctx, message, (start, end));
    // Its actions look into what was sent.
    let sent = (!step.actions.is_empty()).then(|| ctx.out.bytes[start..end].to_vec());
    if loses(ctx, at) {
        ctx.out.bytes.truncate(start);
    } else {
        let patience = message.timeout.or(ctx.env.options.timers.send_timeout);
        let to = sources::destination(call, &ctx.out.bytes[start..end]);
        ctx.out.effects.push(CallEffect::Send { start, end, to, patience });
    }
    count_step(ctx, at, |counts| counts.messages += 1);
    let sent = sent.as_deref().and_then(|bytes| Incoming::parse(bytes).ok());
    act(call, ctx, step, sent.as_ref())
}

/// Retransmission, transactions, and what a repeated question is answered with.
fn after_sending(
    call: &mut Call,
    ctx: &mut CallContext<'_>,
    message: &SendStep,
    (start, end): (usize, usize),
) {
    let at = call.position;
    let bytes = &ctx.out.bytes[start..end];
    let is_invite = matches!(&message.what, SentKind::Request(method) if &**method == "INVITE");
    if let Some(transaction) = message.start_txn.and_then(|name| call.transactions.get_mut(usize::from(name)))
    {
        *transaction = super::Transaction {
            branch: top_branch(bytes).into(),
            is_invite,
            ..super::Transaction::default()
        };
    }
    if let Some(transaction) = message.ack_txn.and_then(|name| call.transactions.get_mut(usize::from(name))) {
        transaction.ack_step = Some(at);
    }
    if let Some(kept) = message.response_txn.and_then(|name| kept_request(call, usize::from(name))) {
        kept.answer_step = Some(at);
    }
    let flow = &mut call.flow;
    flow.sent_step = note(at);
    // A request is answered by the last response to it, a response by what followed it at once (its ACK).
    if flow.consumed != 0 && (flow.answer_step == NONE || matches!(message.what, SentKind::Response(_))) {
        flow.answer_step = note(at);
    }
    let timers = &ctx.env.options.timers;
    if let Some(delay) = message.retrans
        // Over TCP and TLS the transport repeats.
        && !ctx.env.options.network.transport.is_reliable()
        && !timers.no_retransmission
    {
        flow.retransmit_at = ctx.now + delay;
        flow.unanswered =
            Some(Box::new(PendingRetransmission { bytes: bytes.into(), delay, count: 0, is_invite }));
    }
    let network = &ctx.env.options.network;
    // A server has no address of the peer to connect to.
    if !network.reconnect_close
        && network.transport.is_reliable()
        && !call.identity.incoming
        && matches!(&message.what, SentKind::Request(method) if &**method != "ACK")
    {
        flow.rare.get_or_insert_default().unanswered_request = Some(bytes.into());
    }
}

/// Appends a step's message to the outbox. `None`: it cannot be made, and the call is over.
fn rendered(call: &mut Call, ctx: &mut CallContext<'_>, at: StepIndex) -> Option<(usize, usize)> {
    let mut bytes = std::mem::take(&mut ctx.out.bytes);
    let start = bytes.len();
    let made = in_transaction(call, ctx, at, |call, ctx| render::message(call, ctx, at, &mut bytes));
    let length = bytes.len();
    ctx.out.bytes = bytes;
    match made {
        Ok(()) => {
            debug(call, ctx, "sends", &ctx.out.bytes[start..length]);
            Some((start, length))
        }
        Err(why) => {
            ctx.out.bytes.truncate(start);
            complain(call, ctx, &why);
            end(call, ctx, CallOutcome::Failure(Count::FailedCannotSendMessage));
            None
        }
    }
}

/// Renders with the keywords of the message received last. `response_txn` makes them those of the request that is answered.
fn in_transaction<T>(
    call: &mut Call,
    ctx: &mut CallContext<'_>,
    at: StepIndex,
    render: impl FnOnce(&mut Call, &mut CallContext<'_>) -> T,
) -> T {
    let answered = match ctx.env.scenario.steps.get(at).map(|step| &step.kind) {
        Some(StepKind::Send(send)) => send.response_txn.map(usize::from),
        _ => None,
    };
    let Some(slot) = answered else { return render(call, ctx) };
    // Swapped for the rendering: no copy of the message is made.
    let Some(request) = kept_request(call, slot).map(|kept| std::mem::take(&mut kept.bytes)) else {
        return render(call, ctx);
    };
    let last = call.last_received.replace(request);
    let rendered = render(call, ctx);
    let request = std::mem::replace(&mut call.last_received, last).unwrap_or_default();
    if let Some(kept) = kept_request(call, slot) {
        kept.bytes = request;
    }
    rendered
}

fn kept_request(call: &mut Call, slot: usize) -> Option<&mut ServerTransaction> {
    call.transactions.get_mut(slot)?.server.as_deref_mut()
}

/// Sends a step's message once more, made anew from what the call remembers.
pub(super) fn again(call: &mut Call, ctx: &mut CallContext<'_>, at: StepIndex) {
    if let Some((start, end)) = rendered(call, ctx, at) {
        let patience = ctx.env.options.timers.send_timeout;
        let to = sources::destination(call, &ctx.out.bytes[start..end]);
        ctx.out.effects.push(CallEffect::Send { start, end, to, patience });
    }
}

/// `-reconnect_close false`: a connection that ended may have lost the request, which the next one carries once more.
pub(super) fn on_new_connection(call: &mut Call, ctx: &mut CallContext<'_>) {
    let rare = call.flow.rare.as_mut();
    let Some(request) = rare.and_then(|rare| rare.unanswered_request.take()) else { return };
    let start = ctx.out.bytes.len();
    ctx.out.bytes.extend_from_slice(&request);
    let (end, patience) = (ctx.out.bytes.len(), ctx.env.options.timers.send_timeout);
    ctx.out.effects.push(CallEffect::Send { start, end, to: SendTo::Flow, patience });
    debug(call, ctx, "sends again, as its connection ended before an answer came", b"");
}

/// A response, provisional or final: its request was not lost.
pub(super) fn note_response(call: &mut Call, message: &Incoming<'_>) {
    let Some(rare) = &mut call.flow.rare else { return };
    if rare.unanswered_request.as_ref().is_some_and(|sent| top_branch(sent) == message.branch) {
        rare.unanswered_request = None;
    }
}

/// The time for an answer is over: once more, or the end.
pub(super) fn retransmit(call: &mut Call, ctx: &mut CallContext<'_>) {
    let timers = &ctx.env.options.timers;
    let Some(unanswered) = call.flow.unanswered.as_mut() else {
        call.flow.answered();
        return;
    };
    unanswered.count += 1;
    let allowed =
        if unanswered.is_invite { timers.max_invite_retrans } else { timers.max_non_invite_retrans };
    if unanswered.count > allowed.min(timers.max_retrans.unwrap_or(u32::MAX)) {
        give_up(call, ctx);
        return;
    }
    unanswered.delay = unanswered.delay.saturating_mul(BACKOFF);
    // RFC 3261 §17.1.2.2: T2 bounds all but INVITE.
    if !unanswered.is_invite {
        unanswered.delay = unanswered.delay.min(timers.t2);
    }
    call.flow.retransmit_at = ctx.now + unanswered.delay;
    let at = call.flow.sent_step as usize;
    let start = ctx.out.bytes.len();
    ctx.out.bytes.extend_from_slice(&unanswered.bytes);
    if loses(ctx, at) {
        ctx.out.bytes.truncate(start);
    } else {
        let end = ctx.out.bytes.len();
        let to = sources::destination(call, &ctx.out.bytes[start..end]);
        ctx.out.effects.push(CallEffect::Send { start, end, to, patience: timers.send_timeout });
        debug(call, ctx, "sends again, for want of an answer", b"");
    }
    count_step(ctx, at, |counts| counts.retransmissions += 1);
    ctx.stats.count(Count::Retransmissions);
}

/// The last retransmission has no answer either: to the label of `ontimeout`, or the end.
fn give_up(call: &mut Call, ctx: &mut CallContext<'_>) {
    let env = ctx.env;
    let at = call.flow.sent_step as usize;
    call.flow.answered();
    count_step(ctx, at, |counts| counts.timeouts += 1);
    let label = env.scenario.steps.get(at).and_then(|step| step.flow.on_timeout);
    match label {
        Some(to) if to < env.scenario.steps.len() => {
            complain(call, ctx, "no answer to the last message, going to its ontimeout label");
            call.flow.paused_until = stdx::time::Instant::FAR_FUTURE;
            go(call, ctx, to);
        }
        _ => {
            let call_id = String::from_utf8_lossy(&call.identity.call_id);
            let text = format!("Aborting call on UDP retransmission timeout for Call-ID '{call_id}'");
            complain_as_sipp(call, ctx, &text);
            fail(call, ctx, Count::FailedMaxUdpRetrans);
        }
    }
}

/// True if the call's last message was an INVITE.
pub(super) fn last_was_invite(call: &Call, ctx: &CallContext<'_>) -> bool {
    call.flow.sent_step != NONE
        && ctx.env.scenario.steps.get(call.flow.sent_step as usize).is_some_and(|step| {
            matches!(&step.kind, crate::scenario::model::StepKind::Send(send)
                if matches!(&send.what, SentKind::Request(method) if &**method == "INVITE"))
        })
}

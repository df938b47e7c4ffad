//! Received messages: the step that a message is for, and the parts of it that the step keeps.
//!
//! The order for each message: ignored in a pause (`-pause_msg_ign`); a late ACK ignored, and the CSeq of others checked; a retransmission of the last message answered
//! again; a kept request answered again; then a step is searched (`place`), forwards over optional steps and backwards over old ones; the
//! step consumes it, or it is unexpected.

use std::cmp::Ordering;

use stdx::time::Instant;

use super::step::{StepProgress, act, advance, keep_books, loses, note, run};
use super::{
    Call, CallContext, CallOutcome, Count, NONE, complain, count_step, debug, dialog, end, sdp, send,
    unexpected,
};
use crate::call::actions::value::is_set;
use crate::call::message::{Incoming, StartLine};
use crate::call::{ServerTransaction, Transaction};
use crate::options::RetransmissionCheck;
use crate::scenario::Scenario;
use crate::scenario::model::{Expect, Optional, RecvStep, ScenarioStep, SentKind, StepIndex, StepKind};

/// The match of a message with the scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MessageMatch {
    /// This step consumes it.
    Step(StepIndex),
    /// The final answer to an INVITE again: the ACK of this step goes out again.
    AcknowledgeAgain(StepIndex),
    /// An old provisional, or a final answer again: nothing to do.
    Ignored,
    /// No step expects it.
    Nowhere,
}

pub(super) fn message(call: &mut Call, ctx: &mut CallContext<'_>, message: &Incoming<'_>) {
    receive(call, ctx, message, true);
}

/// A message that `_unexp.main` was entered for; unexpected again, it is unexpected for good.
pub(super) fn queued(call: &mut Call, ctx: &mut CallContext<'_>, message: &Incoming<'_>) {
    receive(call, ctx, message, false);
}

/// `may_jump`: an unexpected message may enter `_unexp.main`.
fn receive(call: &mut Call, ctx: &mut CallContext<'_>, message: &Incoming<'_>, may_jump: bool) {
    let env = ctx.env;
    let in_pause =
        matches!(env.scenario.steps.get(call.position).map(|step| &step.kind), Some(StepKind::Pause(_)));
    if in_pause && env.options.call.ignore_during_pause {
        return;
    }
    call.flow.flags.has_received = true;
    debug(call, ctx, "receives", message.bytes);
    if is_late_ack(call, ctx, message) {
        return;
    }
    if !acknowledges_right_invite(call, ctx, message) {
        complain(call, ctx, "the CSeq of the ACK is not that of its INVITE");
        end(call, ctx, CallOutcome::Failure(Count::FailedCall));
        return;
    }
    // Without To nothing can be answered or matched.
    if message.to.is_none() {
        unexpected::handle(call, ctx, message, false);
        return;
    }
    let hash = fingerprint(ctx, message);
    if hash != 0 && hash == call.flow.consumed {
        repeated(call, ctx);
        return;
    }
    if answered_before(call, ctx, hash) || is_late_invite(call, ctx, message, hash) {
        return;
    }
    note_dialog(call, message, hash);
    if ctx.env.options.call.defaults.bye {
        dialog::keep_dialog(call, message);
    }
    match place(call, &env.scenario, message, hash) {
        MessageMatch::Step(at) => consume(call, ctx, message, at, hash),
        MessageMatch::AcknowledgeAgain(at) => send::again(call, ctx, at),
        MessageMatch::Ignored => {}
        MessageMatch::Nowhere if call.flow.commands > 0 && kept_for_later(call, message) => {}
        MessageMatch::Nowhere => unexpected::handle(call, ctx, message, may_jump),
    }
}

/// While a command of `<exec verify>` runs, one message is kept for the step after it; its repetitions change nothing.
fn kept_for_later(call: &mut Call, message: &Incoming<'_>) -> bool {
    match &call.flow.queued {
        Some(kept) => **kept == *message.bytes,
        None => {
            call.flow.queued = Some(message.bytes.into());
            true
        }
    }
}

/// Any message after the end is counted; a repeated question gets its answer again.
pub(super) fn after_the_end(call: &mut Call, ctx: &mut CallContext<'_>, message: &Incoming<'_>) {
    ctx.stats.count(Count::DeadCallMsgs);
    let hash = fingerprint(ctx, message);
    if hash != 0 && hash == call.flow.consumed && call.flow.answer_step != NONE {
        send::again(call, ctx, call.flow.answer_step as usize);
        ctx.stats.count(Count::Retransmissions);
    }
}

/// The last message consumed came again. The message sent after it is retransmitted; if none was sent, the
/// scenario has not come so far and the repetition changes nothing.
fn repeated(call: &mut Call, ctx: &mut CallContext<'_>) {
    let received_at = call.flow.consumed_step as usize;
    if loses(ctx, received_at) {
        return;
    }
    count_step(ctx, received_at, |counts| counts.retransmissions += 1);
    if call.flow.answer_step != NONE {
        let at = call.flow.answer_step as usize;
        send::again(call, ctx, at);
        count_step(ctx, at, |counts| counts.retransmissions += 1);
        ctx.stats.count(Count::Retransmissions);
    }
}

/// A request that `start_txn` kept came again: the last response to it goes out again (RFC 3261 §17.2), whatever the
/// scenario has received since. Without a response yet the repetition changes nothing.
fn answered_before(call: &mut Call, ctx: &mut CallContext<'_>, hash: u64) -> bool {
    let kept = call.transactions.iter().filter_map(|transaction| transaction.server.as_deref());
    let Some(kept) = kept.into_iter().find(|kept| hash != 0 && kept.hash == hash) else {
        return false;
    };
    if let Some(at) = kept.answer_step {
        send::again(call, ctx, at);
        count_step(ctx, at, |counts| counts.retransmissions += 1);
        ctx.stats.count(Count::Retransmissions);
    }
    true
}

/// An INVITE that was answered comes once more after its ACK or after a later INVITE, as when a copy of it was under way
/// through another server. Its transaction absorbs it (RFC 6026 §7.1), also where a step waits for the next INVITE. Only for the
/// loose check: SIPp's default takes it for a new message.
fn is_late_invite(call: &Call, ctx: &CallContext<'_>, message: &Incoming<'_>, hash: u64) -> bool {
    if hash == 0 || !is_loose(ctx) || message.method() != b"INVITE" {
        return false;
    }
    match message.cseq_number.cmp(&call.flow.invite_cseq) {
        Ordering::Less => true,
        // A client that tries again with the same number and other headers gets the step that waits for it.
        Ordering::Equal => {
            hash == call.flow.invite || place(call, &ctx.env.scenario, message, hash) == MessageMatch::Nowhere
        }
        Ordering::Greater => false,
    }
}

/// The ACK of an earlier INVITE: each copy of a 2xx has one (RFC 3261 §13.2.2.4), and the last may come after the next INVITE.
fn is_late_ack(call: &Call, ctx: &CallContext<'_>, message: &Incoming<'_>) -> bool {
    is_loose(ctx) && message.method() == b"ACK" && message.cseq_number < call.flow.invite_cseq
}

/// True if a retransmission is told by its transaction.
fn is_loose(ctx: &CallContext<'_>) -> bool {
    ctx.env.options.timers.retransmission_check == RetransmissionCheck::Loose
}

/// RFC 3261 §17.1.1.3: the ACK has the CSeq number of its INVITE. Checked unless `-default_behaviors -cseq`.
fn acknowledges_right_invite(call: &Call, ctx: &CallContext<'_>, message: &Incoming<'_>) -> bool {
    !ctx.env.options.call.defaults.check_cseq
        || message.method() != b"ACK"
        || call.flow.invite_cseq == 0
        || call.flow.invite_cseq == message.cseq_number
}

/// Updates the dialog from any message, expected or not.
fn note_dialog(call: &mut Call, message: &Incoming<'_>, hash: u64) {
    match message.start {
        StartLine::Response { code } => {
            call.flow.last_code = code;
            dialog::keep_peer_tag(call, message);
            send::note_response(call, message);
        }
        StartLine::Request { method, .. } => {
            call.flow.last_code = 0;
            if method == b"ACK" {
                call.flow.flags.established = true;
            } else if method == b"INVITE" {
                call.flow.invite_cseq = message.cseq_number;
                call.flow.invite = hash;
            }
        }
    }
}

/// The step that a message belongs to: forward through optional steps to the first mandatory one, then back.
fn place(call: &Call, scenario: &Scenario, message: &Incoming<'_>, hash: u64) -> MessageMatch {
    for (at, step) in scenario.steps.iter().enumerate().skip(call.position) {
        if matches(call, scenario, at, step, message) {
            return MessageMatch::Step(at);
        }
        if optional(step) == Optional::No {
            break;
        }
    }
    // Backwards: optional steps without a mandatory one between may still take it, global ones always; a mandatory step that has passed knows the
    // message as an old one.
    let mut contiguous = true;
    for (at, step) in scenario.steps.iter().enumerate().take(call.position).rev() {
        let optional = optional(step);
        contiguous &= optional != Optional::No;
        if !matches(call, scenario, at, step, message) {
            continue;
        }
        if contiguous || optional == Optional::Global {
            return MessageMatch::Step(at);
        }
        if let Some(place) = old(call, scenario, at, step, message, hash) {
            return place;
        }
    }
    if is_late_provisional(call, scenario, message) { MessageMatch::Ignored } else { MessageMatch::Nowhere }
}

/// A provisional response that a network let arrive after the final one: a client transaction that has its final
/// response drops it (RFC 3261 §17.1.1.2), whether the scenario names it or not.
fn is_late_provisional(call: &Call, scenario: &Scenario, message: &Incoming<'_>) -> bool {
    if !matches!(message.code(), 100..200) {
        return false;
    }
    // An older transaction, which is over.
    if message.cseq_number < call.cseq {
        return true;
    }
    for step in scenario.steps.iter().take(call.position).rev() {
        match &step.kind {
            StepKind::Send(send) => match &send.what {
                // The request of the transaction in hand, and no final response since: the provisional is not late.
                SentKind::Request(method) if !matches!(&**method, "ACK" | "CANCEL") => return false,
                _ => {}
            },
            StepKind::Recv(RecvStep { expect: Expect::Response(200..), .. }) => return true,
            _ => {}
        }
    }
    false
}

/// A message that an earlier step has consumed already.
fn old(
    call: &Call,
    scenario: &Scenario,
    at: StepIndex,
    step: &ScenarioStep,
    message: &Incoming<'_>,
    hash: u64,
) -> Option<MessageMatch> {
    let StepKind::Recv(recv) = &step.kind else {
        return None;
    };
    // The ACK of a 2xx comes again with each copy of the 2xx (RFC 3261 §13.2.2.4).
    if message.method() == b"ACK" {
        return Some(MessageMatch::Ignored);
    }
    if let Some(name) = recv.response_txn {
        let transaction = call.transactions.get(usize::from(name))?;
        return match (message.code(), transaction.ack_step) {
            (100..200, _) => Some(MessageMatch::Ignored),
            (_, Some(ack)) => Some(MessageMatch::AcknowledgeAgain(ack)),
            _ => (transaction.completed && transaction.answer == hash).then_some(MessageMatch::Ignored),
        };
    }
    // The final answer of an INVITE that was acknowledged: the ACK was lost (RFC 3261 §13.2.2.4).
    let next_is_ack = scenario.steps.get(at + 1).is_some_and(|next| {
        matches!(&next.kind, StepKind::Send(send) if matches!(&send.what, SentKind::Request(method) if &**method == "ACK"))
    });
    (message.code() != 0 && message.cseq_method == b"INVITE" && next_is_ack)
        .then_some(MessageMatch::AcknowledgeAgain(at + 1))
}

/// Says if the search may go on past this step.
fn optional(step: &ScenarioStep) -> Optional {
    match &step.kind {
        StepKind::Recv(recv) => recv.optional,
        StepKind::RecvCmd { optional: true, .. } => Optional::Yes,
        _ => Optional::No,
    }
}

/// True if the step expects the message: responses by code, method and transaction, requests by their method.
fn matches(
    call: &Call,
    scenario: &Scenario,
    at: StepIndex,
    step: &ScenarioStep,
    message: &Incoming<'_>,
) -> bool {
    let StepKind::Recv(recv) = &step.kind else {
        return false;
    };
    names(recv, message) && (message.code() == 0 || answers(call, scenario, at, recv, message))
}

/// The step names the message's method or code.
fn names(recv: &RecvStep, message: &Incoming<'_>) -> bool {
    match (&recv.expect, message.start) {
        (Expect::Request(wanted), StartLine::Request { method, .. }) => wanted.as_bytes() == method,
        (Expect::RequestPattern(pattern), StartLine::Request { method, .. }) => {
            pattern.captures(method).is_some()
        }
        (Expect::Response(wanted), StartLine::Response { code }) => *wanted == code,
        (Expect::ResponsePattern(pattern), StartLine::Response { code }) => {
            pattern.captures(code.to_string().as_bytes()).is_some()
        }
        _ => false,
    }
}

/// A call can begin with the message: one of the first steps, up to the first mandatory `<recv>`, expects it. As in
/// `answers`, a response is taken by the very first step only: nothing was sent that it could answer.
pub(super) fn can_begin(scenario: &Scenario, message: &Incoming<'_>) -> bool {
    for (at, step) in scenario.steps.iter().enumerate() {
        let StepKind::Recv(recv) = &step.kind else { continue };
        let is_possible = message.code() == 0 || (at == 0 && recv.response_txn.is_none());
        if is_possible && names(recv, message) {
            return true;
        }
        if recv.optional == Optional::No {
            return false;
        }
    }
    false
}

/// The response belongs to a request of this scenario: by its transaction where the step names one, else by its method.
fn answers(call: &Call, scenario: &Scenario, at: StepIndex, recv: &RecvStep, message: &Incoming<'_>) -> bool {
    if let Some(name) = recv.response_txn {
        return call.transactions.get(usize::from(name)).is_some_and(|transaction| {
            !transaction.branch.is_empty() && *transaction.branch == *message.branch
        });
    }
    // SIPp looks for the method in all methods of the sends above, joined. It therefore also takes a part of one,
    // and so do we; what would match across two of them no peer sends.
    at == 0
        || scenario.steps.iter().take(at).any(|step| {
            matches!(&step.kind, StepKind::Send(send) if matches!(&send.what, SentKind::Request(method)
                if memchr::memmem::find(method.as_bytes(), message.cseq_method).is_some()))
        })
}

/// The step takes the message.
fn consume(call: &mut Call, ctx: &mut CallContext<'_>, message: &Incoming<'_>, at: StepIndex, hash: u64) {
    let env = ctx.env;
    let step = &env.scenario.steps[at];
    let StepKind::Recv(recv) = &step.kind else {
        return;
    };
    // Lost on purpose: as if the network had dropped it.
    if loses(ctx, at) {
        return;
    }
    sdp::hand_over(call, ctx, recv, message);
    note_answer(call, recv, message, hash);
    keep_books(call, ctx, step);
    count_step(ctx, at, |counts| counts.messages += 1);
    // `advance_state="false"`: the message is looked into, and the call stays as it was.
    let before = if recv.advance_state { None } else { Some(call.last_received.take()) };
    dialog::keep_message(call, ctx, message);
    // `rrs` and `auth` come first, so that an action may already use what they keep.
    dialog::keep_routes(call, ctx, recv, message);
    dialog::keep_challenge(call, ctx, recv, message);
    let pause = call.flow.paused_until;
    let acted = act(call, ctx, step, Some(message));
    if call.over {
        return;
    }
    quench(call, ctx, message, at);
    if let Some(before) = before {
        call.last_received = before;
        // The call stays in the step that it is in, which this one does not hold.
        if acted == StepProgress::Waits {
            call.flow.paused_until = pause;
        }
        if acted == StepProgress::Moved {
            run(call, ctx);
        }
        return;
    }
    keep_request(call, recv, message, hash);
    remember(call, at, hash);
    // A step that is held is over when its hold is.
    if acted == StepProgress::Waits {
        return stand_at(call, ctx, at);
    }
    if acted == StepProgress::Moved {
        // A jump breaks off the pause the call was in, but not one that `pauserestore` has just set.
        if call.flow.paused_until == pause {
            call.flow.paused_until = Instant::FAR_FUTURE;
        }
        run(call, ctx);
        return;
    }
    // An optional step whose `test` is not set leaves the call where it is.
    if recv.optional == Optional::No || step.flow.test.is_none_or(|variable| is_set(call, ctx, variable)) {
        call.flow.paused_until = Instant::FAR_FUTURE;
        stand_at(call, ctx, at);
        advance(call, ctx);
        run(call, ctx);
    }
}

/// The call is in this step, whether it was there or passed optional ones.
fn stand_at(call: &mut Call, ctx: &mut CallContext<'_>, at: StepIndex) {
    if call.position != at {
        super::step::go(call, ctx, at);
    }
}

/// `start_txn`: the request is there when its response is sent, whatever came in between.
fn keep_request(call: &mut Call, recv: &RecvStep, message: &Incoming<'_>, hash: u64) {
    if let Some(transaction) = recv.start_txn.and_then(|name| call.transactions.get_mut(usize::from(name))) {
        let kept = ServerTransaction { bytes: message.bytes.into(), hash, answer_step: None };
        *transaction = Transaction { server: Some(Box::new(kept)), ..Transaction::default() };
    }
}

/// The message is the one whose retransmission is answered from now on.
fn remember(call: &mut Call, at: StepIndex, hash: u64) {
    call.flow.consumed = hash;
    call.flow.consumed_step = note(at);
    call.flow.answer_step = NONE;
}

/// The state of the transaction and of the CSeq after a message.
fn note_answer(call: &mut Call, recv: &RecvStep, message: &Incoming<'_>, hash: u64) {
    let transaction = recv.response_txn.and_then(|name| call.transactions.get_mut(usize::from(name)));
    if let Some(transaction) = transaction {
        transaction.completed = message.code() >= 200;
        transaction.answer = hash;
    }
    if message.code() == 200 {
        call.flow.flags.ack_pending = true;
    }
    if message.code() == 0 {
        call.cseq = call.cseq.max(message.cseq_number);
    }
}

/// The received message may answer the one that is being retransmitted.
fn quench(call: &mut Call, ctx: &mut CallContext<'_>, message: &Incoming<'_>, at: StepIndex) {
    // Only a message that the scenario expects after the one that was sent can answer it.
    let later = call.flow.sent_step == NONE || at > call.flow.sent_step as usize;
    let Some(unanswered) = call.flow.unanswered.as_mut().filter(|_| later) else {
        return;
    };
    match message.start {
        StartLine::Request { method: b"ACK" | b"CANCEL" | b"BYE" | b"PRACK", .. } => call.flow.answered(),
        StartLine::Request { .. } => {}
        // RFC 3261 §17.1.2.2: a provisional answer to a non-INVITE slows the retransmissions to T2.
        StartLine::Response { code: 0..200 } if message.cseq_method != b"INVITE" => {
            let t2 = ctx.env.options.timers.t2;
            unanswered.delay = t2;
            call.flow.retransmit_at = ctx.now + t2;
        }
        StartLine::Response { .. } => call.flow.answered(),
    }
}

/// Tells a message from its retransmission; 0 where the transport retransmits by itself.
fn fingerprint(ctx: &CallContext<'_>, message: &Incoming<'_>) -> u64 {
    let options = &ctx.env.options;
    if options.network.transport.is_reliable() || options.timers.no_retransmission {
        return 0;
    }
    let hash = match options.timers.retransmission_check {
        // The whole message, so that one changed byte makes it a new message, as SIPp does by default.
        RetransmissionCheck::Full => mix(0, message.bytes),
        RetransmissionCheck::Loose => {
            let mut hash = mix(0, message.call_id);
            hash = mix(hash, message.to.unwrap_or_default());
            hash = mix(hash, message.from.unwrap_or_default());
            hash = mix(hash, message.cseq_method) ^ u64::from(message.cseq_number);
            if message.code() != 0 {
                hash = mix(hash, message.start_text());
            }
            mix(hash, message.body())
        }
    };
    hash.max(1)
}

/// A folded multiplication per eight bytes: a peer that finds a collision deceives its own call only.
pub(super) fn mix(seed: u64, bytes: &[u8]) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let fold = |hash: u64, word: u64| {
        let product = u128::from(hash ^ word) * u128::from(ODD);
        (product as u64) ^ ((product >> 64) as u64)
    };
    let word = |chunk: &[u8]| u64::from_le_bytes(chunk.try_into().expect("eight bytes")) ^ (ODD << 1);
    let mut hash = fold(seed ^ ODD, bytes.len() as u64 ^ (ODD >> 1));
    // Four at once: one multiplication need not wait for the other.
    let mut lanes = [hash, hash ^ 1, hash ^ 2, hash ^ 3];
    let mut blocks = bytes.chunks_exact(32);
    for block in &mut blocks {
        for (lane, chunk) in lanes.iter_mut().zip(block.chunks_exact(8)) {
            *lane = fold(*lane, word(chunk));
        }
    }
    hash = lanes.into_iter().fold(hash, fold);
    let mut chunks = blocks.remainder().chunks_exact(8);
    for chunk in &mut chunks {
        hash = fold(hash, word(chunk));
    }
    // The rest is filled with zeros; the length is part of the hash.
    let mut last = [0; 8];
    let rest = chunks.remainder();
    last[..rest.len()].copy_from_slice(rest);
    fold(hash, u64::from_le_bytes(last))
}

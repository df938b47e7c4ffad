//! Actions that speak to the call's media.
//!
//! Texts are rendered here; files, codecs and streams are the media's own (`crate::rtp`).

use std::time::Duration;

use stdx::time::Instant;

use super::{ActionError, ActionResult, rendered, value};
use crate::call::{Call, CallContext, VariableValue};
use crate::rtp::{MediaCommand, Requirement};
use crate::scenario::action::{ActionKind, EchoVerb, RtpCheck, RtpStream};
use crate::scenario::template::Template;
use crate::stats::Count;

/// Does nothing for an action of another kind.
pub(super) fn perform(
    call: &mut Call,
    ctx: &mut CallContext<'_>,
    kind: &ActionKind,
) -> Result<(), ActionError> {
    let command = match kind {
        ActionKind::Play { kind, file } => MediaCommand::Play { kind: *kind, file: text(call, ctx, file)? },
        ActionKind::PlayDtmf(digits) => MediaCommand::PlayDtmf(text(call, ctx, digits)?),
        // Any number but 0 turns it on.
        ActionKind::RtpEcho(on) => MediaCommand::EchoCall(value::operand(call, ctx, *on) != 0.0),
        ActionKind::RtpStream(stream) => match stream {
            RtpStream::File(spec) => MediaCommand::Stream(text(call, ctx, spec)?),
            RtpStream::Pause => MediaCommand::PauseStream,
            RtpStream::Resume => MediaCommand::ResumeStream,
            RtpStream::Pattern { video, spec } => {
                MediaCommand::Pattern { video: *video, spec: text(call, ctx, spec)? }
            }
            RtpStream::PausePattern { video } => MediaCommand::PausePattern { video: *video },
            RtpStream::ResumePattern { video } => MediaCommand::ResumePattern { video: *video },
            // Not the media's: it holds the call (`wait`).
            RtpStream::Wait { .. } => return Ok(()),
        },
        ActionKind::EchoControl(control) => {
            let video = control.video;
            match control.verb {
                EchoVerb::Start => MediaCommand::EchoStart { video, spec: text(call, ctx, &control.spec)? },
                EchoVerb::Update => MediaCommand::EchoUpdate { video, spec: text(call, ctx, &control.spec)? },
                EchoVerb::Stop => MediaCommand::EchoStop { video },
            }
        }
        _ => return Ok(()),
    };
    ctx.media.command(ctx.now, call.identity.number, &command)?;
    Ok(())
}

/// Holds the call until its streams have been played. One that plays for ever, or is paused, is waited for only as long
/// as `timeout` says.
pub(super) fn wait(
    call: &Call,
    ctx: &CallContext<'_>,
    timeout: Option<Duration>,
) -> Result<ActionResult, ActionError> {
    let Some(end) = ctx.media.streams_end(call.identity.number) else { return Ok(ActionResult::Continue) };
    let end = timeout.map_or(end, |timeout| end.min(ctx.now + timeout));
    if end == Instant::FAR_FUTURE {
        let why =
            "rtp_stream: the stream that is waited for has no end: pause, or loops below 0, without timeout=";
        return Err(ActionError::Warning(why.to_owned()));
    }
    Ok(ActionResult::HoldUntil(end))
}

/// The verdict is assigned, or fails the call with what was missed.
pub(super) fn check(call: &mut Call, ctx: &mut CallContext<'_>, check: &RtpCheck) -> Result<(), ActionError> {
    let dtmf = check.dtmf.as_ref().map(|digits| text(call, ctx, digits)).transpose()?;
    let requirement = Requirement {
        video: check.video,
        min_packets: check.min_packets,
        max_packets: check.max_packets,
        max_loss: check.max_loss,
        max_jitter: check.max_jitter,
        max_reordered: check.max_reordered,
        min_mos: check.min_mos,
        dtmf,
        min_speech: check.min_speech,
        max_silence: check.max_silence,
        two_way: check.two_way,
    };
    let verdict = ctx.media.check(ctx.now, call.identity.number, &requirement);
    if let Some(to) = check.assign_to {
        value::set(call, ctx, to, VariableValue::Number(f64::from(u8::from(verdict.is_ok()))));
        return Ok(());
    }
    verdict.map_err(|reason| ActionError::Failed(Count::FailedRtpCheck, format!("rtpcheck: {reason}")))
}

/// Puts received media into variables; nothing for an action of another kind.
pub(super) fn assign(call: &mut Call, ctx: &mut CallContext<'_>, kind: &ActionKind) {
    match kind {
        ActionKind::RtpStats { video, packets, payload_type, payload } => {
            let received = ctx.media.received(call.identity.number, *video);
            #[expect(clippy::cast_precision_loss, reason = "packets of a call are far below 2^53")]
            let count = received.packets as f64;
            // -1 without a packet: no payload type is negative.
            let (number, bytes) =
                received.first.map_or((-1.0, Box::default()), |(number, bytes)| (number.into(), bytes));
            value::set(call, ctx, *packets, VariableValue::Number(count));
            if let Some(to) = payload_type {
                value::set(call, ctx, *to, VariableValue::Number(number));
            }
            if let Some(to) = payload {
                value::set(call, ctx, *to, VariableValue::Text(hexadecimal(&bytes)));
            }
        }
        ActionKind::RtpDtmf { to, payload_type } => {
            let digits = ctx.media.event_digits(call.identity.number, *payload_type);
            value::set(call, ctx, *to, VariableValue::Text(digits.into_bytes().into()));
        }
        _ => {}
    }
}

/// Two digits a byte, in lower case.
fn hexadecimal(bytes: &[u8]) -> Box<[u8]> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes.iter().flat_map(|byte| [byte >> 4, byte & 0xf].map(|half| DIGITS[usize::from(half)])).collect()
}

/// The rendered text of a template.
fn text(call: &mut Call, ctx: &mut CallContext<'_>, template: &Template) -> Result<String, ActionError> {
    Ok(String::from_utf8_lossy(&rendered(call, ctx, template)?).into_owned())
}

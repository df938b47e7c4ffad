//! Actions that speak to the call's media.

use super::{Trouble, rendered, value};
use crate::call::{Call, Ctx, Value};
use crate::rtp::{Command, Requirement};
use crate::scenario::action::{ActionKind, EchoVerb, RtpCheck, RtpStream};
use crate::scenario::template::Template;
use crate::stats::Count;

/// Does nothing for an action of another kind.
pub(super) fn perform(call: &mut Call, ctx: &mut Ctx<'_>, kind: &ActionKind) -> Result<(), Trouble> {
    let command = match kind {
        ActionKind::Play { kind, file } => Command::Play { kind: *kind, file: text(call, ctx, file)? },
        ActionKind::PlayDtmf(digits) => Command::PlayDtmf(text(call, ctx, digits)?),
        ActionKind::RtpEcho(on) => Command::EchoCall(value::operand(call, ctx, *on) != 0.0),
        ActionKind::RtpStream(stream) => match stream {
            RtpStream::File(spec) => Command::Stream(text(call, ctx, spec)?),
            RtpStream::Pause => Command::PauseStream,
            RtpStream::Resume => Command::ResumeStream,
            RtpStream::Pattern { video, spec } => {
                Command::Pattern { video: *video, spec: text(call, ctx, spec)? }
            }
            RtpStream::PausePattern { video } => Command::PausePattern { video: *video },
            RtpStream::ResumePattern { video } => Command::ResumePattern { video: *video },
        },
        ActionKind::EchoControl(control) => {
            let video = control.video;
            match control.verb {
                EchoVerb::Start => Command::EchoStart { video, spec: text(call, ctx, &control.spec)? },
                EchoVerb::Update => Command::EchoUpdate { video, spec: text(call, ctx, &control.spec)? },
                EchoVerb::Stop => Command::EchoStop { video },
            }
        }
        _ => return Ok(()),
    };
    ctx.media.command(ctx.now, call.identity.number, &command)?;
    Ok(())
}

/// The verdict is assigned, or fails the call with what was missed.
pub(super) fn check(call: &mut Call, ctx: &mut Ctx<'_>, check: &RtpCheck) -> Result<(), Trouble> {
    let dtmf = check.dtmf.as_ref().map(|digits| text(call, ctx, digits)).transpose()?;
    let wanted = Requirement {
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
    let verdict = ctx.media.check(ctx.now, call.identity.number, &wanted);
    if let Some(to) = check.assign_to {
        value::set(call, ctx, to, Value::Number(f64::from(u8::from(verdict.is_ok()))));
        return Ok(());
    }
    verdict.map_err(|reason| Trouble::Failed(Count::FailedRtpCheck, format!("rtpcheck: {reason}")))
}

fn text(call: &mut Call, ctx: &mut Ctx<'_>, template: &Template) -> Result<String, Trouble> {
    Ok(String::from_utf8_lossy(&rendered(call, ctx, template)?).into_owned())
}

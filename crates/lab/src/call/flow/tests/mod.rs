//! Calls in virtual time: two scenarios that talk to each other over a network that loses, doubles and reorders.

mod failures;
mod matching;
mod world;

use super::super::message::header_lines;
use super::{Call, Ctx};
use crate::scenario::model::StepKind;
use crate::scenario::template::{Keyword, Part, Template};

/// Renders what the tests' scenarios use, where the renderer left nothing.
pub(super) fn stand_in(call: &Call, ctx: &Ctx<'_>, at: usize, out: &mut Vec<u8>, start: usize) {
    let Some(StepKind::Send(send)) = ctx.env.scenario.steps.get(at).map(|step| &step.kind) else {
        return;
    };
    if out.len() > start {
        return;
    }
    let mut text = Vec::new();
    render(call, ctx, &send.message, at, &mut text);
    for line in text.split(|byte| *byte == b'\n') {
        out.extend_from_slice(line);
        out.extend_from_slice(b"\r\n");
    }
}

pub(super) fn stand_in_text(call: &Call, ctx: &Ctx<'_>, template: &Template, out: &mut Vec<u8>) {
    if out.is_empty() {
        render(call, ctx, template, call.position, out);
    }
}

fn render(call: &Call, ctx: &Ctx<'_>, template: &Template, at: usize, out: &mut Vec<u8>) {
    let last = call.last_received.as_deref().unwrap_or_default();
    for part in &template.parts {
        match part {
            Part::Text(text) => out.extend_from_slice(text),
            Part::Keyword(Keyword::CallId) => out.extend_from_slice(&call.identity.call_id),
            Part::Keyword(Keyword::Cseq(offset)) => {
                out.extend_from_slice((i64::from(call.cseq) + i64::from(*offset)).to_string().as_bytes());
            }
            Part::Keyword(Keyword::Branch(offset)) => {
                let step = at as i64 + i64::from(*offset);
                out.extend_from_slice(format!("z9hG4bK-{}-{step}", call.identity.number).as_bytes());
            }
            Part::Keyword(Keyword::PeerTagParam) => out.extend_from_slice(&call.peer_tag),
            Part::Keyword(Keyword::Last(name)) => {
                out.extend_from_slice(header_lines(last, name).next().unwrap_or_default());
            }
            Part::Keyword(Keyword::LastRequestUri) => out.extend_from_slice(b"sip:uas@127.0.0.2"),
            Part::Keyword(Keyword::Transport) => out.extend_from_slice(b"UDP"),
            Part::Keyword(Keyword::LocalIp) => {
                out.extend_from_slice(call.identity.local.ip().to_string().as_bytes());
            }
            Part::Keyword(Keyword::LocalPort(_)) => {
                out.extend_from_slice(call.identity.local.port().to_string().as_bytes());
            }
            Part::Keyword(Keyword::LastCseqNumber(offset)) => {
                let number =
                    crate::call::message::Incoming::parse(last).map_or(0, |message| message.cseq_number);
                out.extend_from_slice((i64::from(number) + i64::from(*offset)).to_string().as_bytes());
            }
            Part::Keyword(other) => {
                panic!("the stand-in does not know {other:?} ({})", ctx.env.scenario.name)
            }
        }
    }
}

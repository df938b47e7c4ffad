//! The parts of messages that a scenario's calls must keep, found by looking at every step, action and template.
//!
//! A call keeps the last message, routes and challenges only if a step, an action or a keyword of its scenario uses them, as calls may be open by the
//! hundred thousand.

use super::super::action::{Action, ActionKind, RtpStream, SearchIn, StrOperand};
use super::super::model::{DefaultMessages, Needs, ScenarioStep, StepKind};
use super::super::template::{Keyword, Template, TemplatePart};

/// The needs of all steps, actions and default messages.
pub(super) fn of(steps: &[ScenarioStep], init: &[ScenarioStep], defaults: &DefaultMessages) -> Needs {
    let mut needs = Needs::default();
    for step in steps.iter().chain(init) {
        of_step(&mut needs, step);
    }
    let defaults = [
        &defaults.three_pcc_abort,
        &defaults.ack,
        &defaults.ack2,
        &defaults.bye,
        &defaults.cancel,
        &defaults.ok,
    ];
    defaults.into_iter().flatten().for_each(|message| of_template(&mut needs, message));
    needs
}

fn of_step(needs: &mut Needs, step: &ScenarioStep) {
    match &step.kind {
        StepKind::Send(send) => of_template(needs, &send.message),
        StepKind::SendCmd { message, .. } => of_template(needs, message),
        StepKind::Recv(recv) => {
            needs.routes |= recv.rrs;
            needs.challenge |= recv.auth;
        }
        StepKind::Pause(_) | StepKind::TimeWait(_) | StepKind::Nop | StepKind::RecvCmd { .. } => {}
    }
    step.actions.iter().for_each(|action| of_action(needs, action));
}

fn of_action(needs: &mut Needs, action: &Action) {
    match &action.kind {
        ActionKind::Ereg(ereg) => needs.last_message |= !matches!(ereg.search_in, SearchIn::Variable(_)),
        ActionKind::VerifyAuth { username, password, .. } => {
            needs.last_message = true;
            of_all(needs, &[username, password]);
        }
        ActionKind::Log(text)
        | ActionKind::Warning(text)
        | ActionKind::Error(text)
        | ActionKind::AssignStr { value: text, .. }
        | ActionKind::Command(text)
        | ActionKind::Verify(text)
        | ActionKind::Index { file: text, .. } => of_template(needs, text),
        ActionKind::Lookup { file, key, .. } => of_all(needs, &[file, key]),
        ActionKind::Insert { file, value } => of_all(needs, &[file, value]),
        ActionKind::Replace { file, line, value } => of_all(needs, &[file, line, value]),
        ActionKind::SetDest { host, port, protocol } => of_all(needs, &[host, port, protocol]),
        ActionKind::StrCmp(strcmp) => {
            if let StrOperand::Value(text) = &strcmp.with {
                of_template(needs, text);
            }
        }
        _ => of_media(needs, &action.kind),
    }
}

/// Actions of media, and the texts in them.
fn of_media(needs: &mut Needs, kind: &ActionKind) {
    let text = match kind {
        ActionKind::Play { file: text, .. }
        | ActionKind::PlayDtmf(text)
        | ActionKind::RtpStream(RtpStream::File(text) | RtpStream::Pattern { spec: text, .. }) => Some(text),
        ActionKind::RtpStream(_)
        | ActionKind::RtpEcho(_)
        | ActionKind::RtpStats { .. }
        | ActionKind::RtpDtmf { .. } => None,
        ActionKind::EchoControl(control) => Some(&control.spec),
        ActionKind::RtpCheck(check) => check.dtmf.as_ref(),
        _ => return,
    };
    needs.media = true;
    if let Some(text) = text {
        of_template(needs, text);
    }
}

fn of_all(needs: &mut Needs, templates: &[&Template]) {
    templates.iter().for_each(|template| of_template(needs, template));
}

fn of_template(needs: &mut Needs, template: &Template) {
    for part in &template.parts {
        if let TemplatePart::Keyword(keyword) = part {
            of_keyword(needs, keyword);
        }
    }
}

/// Keywords that read what a call has kept.
fn of_keyword(needs: &mut Needs, keyword: &Keyword) {
    match keyword {
        Keyword::Last(_)
        | Keyword::LastValue(_)
        | Keyword::LastMessage
        | Keyword::LastRequestUri
        | Keyword::LastCseqNumber(_) => {
            needs.last_message = true;
        }
        Keyword::MediaPort(_)
        | Keyword::AutoMediaPort(_)
        | Keyword::RtpStreamAudioPort(_)
        | Keyword::RtpStreamVideoPort(_)
        | Keyword::Crypto(_) => needs.media = true,
        Keyword::Routes | Keyword::NextUrl => needs.routes = true,
        Keyword::Field { line: Some(line), .. } => of_template(needs, line),
        Keyword::File(name) => of_template(needs, name),
        Keyword::Authentication(params) => {
            needs.challenge = true;
            let all = [&params.username, &params.password, &params.aka_k, &params.aka_op, &params.aka_amf];
            all.into_iter().flatten().for_each(|value| of_template(needs, value));
        }
        _ => {}
    }
}

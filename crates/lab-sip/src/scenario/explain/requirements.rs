//! The parts that a scenario takes from outside: flags, injection files, keys, media files.
//!
//! The scenario is gone through once, from its role to the keywords in its texts. Nothing is opened or looked up: a file is listed whether or not it
//! is there.

use super::super::action::{ActionKind, RtpStream};
use super::super::model::{Pause, Role, Scenario, ScenarioStep, StepKind};
use super::super::template::{Keyword, Template, TemplatePart};
use super::template_text::shown;
use super::{Requirement, starts_calls};

/// In the order of need: the target, values, files.
pub(super) fn of(scenario: &Scenario) -> Vec<Requirement> {
    let mut found = FoundRequirements::default();
    if starts_calls(scenario.role) {
        found.add("HOST:PORT", "the target of the calls", true, 0);
    }
    match scenario.role {
        Role::ControllerA | Role::ControllerB => {
            found.add("-3pcc HOST:PORT", "the address of the other instance", true, 0);
        }
        Role::Client | Role::Server => {}
    }
    for name in &scenario.variables.global {
        found.add(
            &format!("-set {name} VALUE"),
            "the first value of a variable that all calls share",
            false,
            0,
        );
    }
    for name in &scenario.variables.user {
        found.add("-users N", &format!("`{name}` is a variable of one user"), false, 0);
    }
    for step in scenario.init.iter().chain(&scenario.steps) {
        found.step(scenario, step);
    }
    found.list
}

/// The list while it grows.
#[derive(Default)]
struct FoundRequirements {
    list: Vec<Requirement>,
}

impl FoundRequirements {
    /// Adds a thing unless the same use of it is listed; so the line is that of the first use.
    fn add(&mut self, what: &str, why: &str, required: bool, line: u32) {
        if self.list.iter().all(|known| known.what != what || known.why != why) {
            self.list.push(Requirement { what: what.to_owned(), why: why.to_owned(), required, line });
        }
    }

    /// Texts of the step itself, then those of its actions.
    fn step(&mut self, scenario: &Scenario, step: &ScenarioStep) {
        match &step.kind {
            StepKind::Send(send) => self.template(&send.message, step.line),
            StepKind::SendCmd { message, .. } => self.template(message, step.line),
            StepKind::Pause(Pause::Default) => self.add("-d TIME", "the length of pauses", false, step.line),
            _ => {}
        }
        for action in &step.actions {
            self.action(scenario, &action.kind, action.line);
        }
    }

    /// Actions that use a file, a command or a text with keywords; others need nothing from outside.
    fn action(&mut self, scenario: &Scenario, kind: &ActionKind, line: u32) {
        let variables = &scenario.variables;
        match kind {
            ActionKind::Play { file, .. } => self.capture(&shown(file, variables), line),
            ActionKind::RtpStream(RtpStream::File(file)) => {
                self.add(&shown(file, variables), "a media file that is played", true, line);
            }
            ActionKind::Index { file, .. }
            | ActionKind::Lookup { file, .. }
            | ActionKind::Insert { file, .. }
            | ActionKind::Replace { file, .. } => {
                let flag = format!("-inf {}", shown(file, variables));
                self.add(&flag, "an injection file that actions use", true, line);
            }
            ActionKind::Log(text)
            | ActionKind::Warning(text)
            | ActionKind::Error(text)
            | ActionKind::AssignStr { value: text, .. }
            | ActionKind::PlayDtmf(text) => self.template(text, line),
            ActionKind::Command(text) | ActionKind::Verify(text) => {
                self.template(text, line);
                self.add("a shell", "a command that calls run", true, line);
            }
            _ => {}
        }
    }

    /// A capture that is played. SIPp's own are in the program; a file of that name is played instead where there is one (`rtp::files`).
    fn capture(&mut self, name: &str, line: u32) {
        if media::pcap::built_in(name).is_some() {
            self.add(name, "a media file that is played; Ringer has one of this name built in", false, line);
        } else {
            self.add(name, "a media file that is played", true, line);
        }
    }

    /// The texts between keywords need nothing.
    fn template(&mut self, template: &Template, line: u32) {
        for part in &template.parts {
            if let TemplatePart::Keyword(keyword) = part {
                self.keyword(keyword, line);
            }
        }
    }

    /// Keywords whose value comes from the command line or from an injection file. The line number of `[fieldN]` and the name of `[file]` are
    /// templates themselves.
    fn keyword(&mut self, keyword: &Keyword, line: u32) {
        match keyword {
            Keyword::Field { field, file, line: of_line } => {
                let file = file.as_deref().unwrap_or("FILE");
                self.add(
                    &format!("-inf {file}"),
                    &format!("[field{field}], a value of each call's line"),
                    true,
                    line,
                );
                if let Some(of_line) = of_line {
                    self.template(of_line, line);
                }
            }
            Keyword::File(name) => self.template(name, line),
            Keyword::Key(name) => {
                self.add(&format!("-key {name} VALUE"), &format!("the value of [{name}]"), true, line);
            }
            Keyword::Service => {
                self.add("-s NAME", "[service], the number or user that is called", false, line);
            }
            Keyword::Authentication(params) => {
                if params.username.is_none() {
                    self.add("-au NAME", "the user of [authentication]", false, line);
                }
                if params.password.is_none() {
                    self.add("-ap PASSWORD", "the password of [authentication]", false, line);
                }
            }
            Keyword::TdmMap => self.add("-tdmmap MAP", "the circuits of [tdmmap]", true, line),
            _ => {}
        }
    }
}

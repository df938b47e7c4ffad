//! Tests of the language: each word of it, its lenience, its mistakes.

mod actions;
mod builtin;
mod corpus;
mod elements;
mod keywords;
mod mistakes;
mod never_panics;
mod pages;
mod schema;
mod xml;

use std::path::PathBuf;

use super::action::ActionKind;
use super::compile::{CompiledScenario, compile_text};
use super::model::{Scenario, ScenarioSource, ScenarioStep, StepKind};
use super::template::{Template, TemplatePart};

/// Compiles the inside of a `<scenario>`; its first line is line 1.
fn compiled(inside: &str) -> CompiledScenario {
    compile_text(format!("<scenario name='t'>{inside}</scenario>").as_bytes(), source())
        .unwrap_or_else(|errors| panic!("{}", errors.iter().map(|e| format!("{e}\n")).collect::<String>()))
}

fn scenario(inside: &str) -> Scenario {
    compiled(inside).scenario
}

fn first(inside: &str) -> ScenarioStep {
    scenario(inside).steps.remove(0)
}

fn warnings(inside: &str) -> Vec<String> {
    compiled(inside).warnings.iter().map(|warning| format!("{}: {}", warning.line, warning.message)).collect()
}

/// All mistakes as `line: message`.
fn mistakes(text: &str) -> Vec<String> {
    match compile_text(text.as_bytes(), source()) {
        Ok(compiled) => panic!("compiles: {:?}", compiled.scenario),
        Err(errors) => errors.iter().map(|error| format!("{}: {}", error.line, error.message)).collect(),
    }
}

/// The only action of a `nop`, and the names of the call's variables.
fn action(xml: &str) -> (ActionKind, Vec<String>) {
    let mut scenario = scenario(&format!("<nop><action>{xml}</action></nop><recv request='X'/>"));
    (scenario.steps[0].actions.remove(0).kind, scenario.variables.call)
}

fn message(inside: &str) -> Template {
    match first(inside).kind {
        StepKind::Send(send) => send.message,
        StepKind::SendCmd { message, .. } => message,
        other => panic!("no message: {other:?}"),
    }
}

/// Literals as they are, keywords as `{…}`.
fn shown(template: &Template) -> String {
    template
        .parts
        .iter()
        .map(|part| match part {
            TemplatePart::Text(text) => super::xml::text(text),
            TemplatePart::Keyword(keyword) => format!("{{{keyword:?}}}"),
        })
        .collect()
}

fn source() -> ScenarioSource {
    ScenarioSource::File(PathBuf::from("dir/t.xml"))
}

//! `ringer sip --explain FILE`: a scenario in words, step by step, for people and (as JSON) for programs.
//!
//! `explain` compiles the text as a run would. Of a scenario that compiles it makes the steps (`steps`, with `actions` and `template_text` for
//! their parts), then the list of things that the scenario needs from outside (`requirements`). `Display` writes the result for people, serde for
//! programs.

mod actions;
mod requirements;
mod steps;
mod template_text;
#[cfg(test)]
mod tests;

use std::fmt;

use serde::Serialize;

use super::check::{counted, role_name, summary};
use super::compile::{CompileError, CompiledScenario, compile_text};
use super::model::{Role, Scenario, ScenarioSource};

/// A scenario in words, or the mistakes that keep it from being one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// The path, or the built-in's name.
    pub file: String,
    /// True if the scenario would run.
    pub valid: bool,
    /// The `name` attribute.
    pub name: String,
    /// `client`, `server`, `3PCC controller A` or `3PCC controller B`; empty when the scenario is not valid.
    pub role: String,
    /// `client, 9 steps, 2 variables`; empty when the scenario is not valid.
    pub summary: String,
    /// The steps in order.
    pub steps: Vec<ExplainedStep>,
    /// Steps of `<init>`, which run once before the first call.
    pub init: Vec<ExplainedStep>,
    /// Flags, files and values that the scenario needs or takes from outside.
    pub requirements: Vec<Requirement>,
    /// Mistakes: the scenario does not run with them.
    pub mistakes: Vec<LineNote>,
    /// Oddities: parts that have no effect or that SIPp would not take.
    pub warnings: Vec<LineNote>,
}

/// One step in words.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ExplainedStep {
    /// The number of the step from 0, as `[msg_index]` and `<jump>` count.
    pub number: usize,
    /// The line of its tag, from 1.
    pub line: u32,
    /// The element's name.
    pub element: String,
    /// The names of the labels before the step.
    pub labels: Vec<String>,
    /// The effect of the step.
    pub text: String,
    /// Conditions, timers, branches and actions.
    pub details: Vec<String>,
}

/// Something that the scenario takes from outside.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Requirement {
    /// The flag or the thing: `-inf FILE`, `-key NAME VALUE`.
    pub what: String,
    /// The use that the scenario makes of it.
    pub why: String,
    /// True if a run cannot begin without it.
    pub required: bool,
    /// The first line that uses it; 0 for the whole file.
    pub line: u32,
}

/// A mistake or a warning with its line.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct LineNote {
    /// The line from 1; 0 for the whole file.
    pub line: u32,
    /// The text that was found, and the text that was expected.
    pub text: String,
}

/// Compiles the text and puts it in words.
pub fn explain(bytes: &[u8], source: ScenarioSource) -> Explanation {
    let file = match &source {
        ScenarioSource::File(path) => path.display().to_string(),
        ScenarioSource::BuiltIn(name) => (*name).to_owned(),
    };
    match compile_text(bytes, source) {
        Ok(CompiledScenario { scenario, warnings }) => explained(file, &scenario, notes(&warnings)),
        Err(errors) => Explanation { file, mistakes: notes(&errors), ..Explanation::default() },
    }
}

impl Explanation {
    /// The explanation of a file that could not be read at all.
    pub fn unreadable(file: String, why: String) -> Explanation {
        Explanation { file, mistakes: vec![LineNote { line: 0, text: why }], ..Explanation::default() }
    }
}

/// For a scenario that compiled. Warnings of the compiler and notes on parts that are not SIPp's go in one list by line.
fn explained(file: String, scenario: &Scenario, mut warnings: Vec<LineNote>) -> Explanation {
    steps::not_of_sipp(scenario, &mut warnings);
    warnings.sort_by_key(|note| note.line);
    Explanation {
        file,
        valid: true,
        name: scenario.name.clone(),
        role: role_name(scenario.role).to_owned(),
        summary: summary(scenario),
        steps: steps::explained(scenario, &scenario.steps, true),
        init: steps::explained(scenario, &scenario.init, false),
        requirements: requirements::of(scenario),
        mistakes: Vec::new(),
        warnings,
    }
}

fn notes(errors: &[CompileError]) -> Vec<LineNote> {
    errors.iter().map(|error| LineNote { line: error.line, text: error.message.clone() }).collect()
}

/// The first sentence: what the scenario is for.
fn purpose(role: &str) -> &'static str {
    match role {
        "client" => "starts calls",
        "server" => "answers calls that the peer starts",
        _ => "takes commands from or gives them to another instance (third-party call control)",
    }
}

/// Mistakes in the form `FILE:LINE: TEXT`, which editors turn into links; otherwise the parts that are not empty.
impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = |line: u32| if line == 0 { self.file.clone() } else { format!("{}:{line}", self.file) };
        if !self.valid {
            for mistake in &self.mistakes {
                writeln!(f, "{}: {}", at(mistake.line), mistake.text)?;
            }
            return writeln!(f, "{}: not valid, {}", self.file, counted(self.mistakes.len(), "mistake"));
        }
        let name = if self.name.is_empty() { String::new() } else { format!("\"{}\", ", self.name) };
        writeln!(f, "{}: {name}{}: {}", self.file, self.summary, purpose(&self.role))?;
        if !self.init.is_empty() {
            writeln!(f, "\nOnce, before the first call:")?;
            self.init.iter().try_for_each(|step| write!(f, "{step}"))?;
        }
        writeln!(f, "\nEach call:")?;
        self.steps.iter().try_for_each(|step| write!(f, "{step}"))?;
        if !self.requirements.is_empty() {
            writeln!(f, "\nFrom outside:")?;
        }
        for requirement in &self.requirements {
            let word = if requirement.required { "needs" } else { "takes" };
            let line = match requirement.line {
                0 => String::new(),
                line => format!(" (line {line})"),
            };
            writeln!(f, "  {word} {}: {}{line}", requirement.what, requirement.why)?;
        }
        if !self.warnings.is_empty() {
            writeln!(f, "\nWithout effect, or not SIPp's:")?;
        }
        self.warnings.iter().try_for_each(|warning| writeln!(f, "  {}: {}", at(warning.line), warning.text))
    }
}

impl fmt::Display for ExplainedStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for label in &self.labels {
            writeln!(f, "  label `{label}`:")?;
        }
        writeln!(f, "{:>4}. {} (line {})", self.number, self.text, self.line)?;
        self.details.iter().try_for_each(|detail| writeln!(f, "      - {detail}"))
    }
}

/// True if the first message of a call is ours.
fn starts_calls(role: Role) -> bool {
    matches!(role, Role::Client | Role::ControllerA)
}

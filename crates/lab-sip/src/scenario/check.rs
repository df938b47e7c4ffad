//! `ringer sip --check -sf FILE`: what a person wants to know of a scenario before a call is made.

use std::fmt;
use std::path::Path;

use super::compile::{CompileError, CompiledScenario, compile_file};
use super::model::{Role, Scenario};

/// Prints as one line for a good scenario, then its warnings; or as one line a mistake.
#[derive(Debug)]
pub struct CheckReport {
    /// The path as the caller wrote it.
    file: String,
    /// The scenario with its warnings, or all mistakes.
    outcome: Result<CompiledScenario, Vec<CompileError>>,
}

/// Compiles and makes no call.
pub fn check(path: &Path) -> CheckReport {
    CheckReport { file: path.display().to_string(), outcome: compile_file(path) }
}

impl CheckReport {
    /// True if the scenario would run. Warnings do not count.
    pub fn is_ok(&self) -> bool {
        self.outcome.is_ok()
    }
}

impl fmt::Display for CheckReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.outcome {
            Ok(CompiledScenario { scenario, warnings }) => {
                writeln!(f, "{}: {}", self.file, summary(scenario))?;
                warnings.iter().try_for_each(|warning| writeln!(f, "{warning} (warning)"))
            }
            Err(errors) => {
                errors.iter().try_for_each(|error| writeln!(f, "{error}"))?;
                // A file that cannot be read has no mistakes to count.
                if let [CompileError { line: 0, .. }] = &errors[..] {
                    return Ok(());
                }
                writeln!(f, "{}: {}", self.file, counted(errors.len(), "mistake"))
            }
        }
    }
}

/// `client, 9 steps, 2 variables`: what a scenario that is right consists of.
pub fn summary(scenario: &Scenario) -> String {
    let role = role_name(scenario.role);
    let variables = &scenario.variables;
    let variables = variables.call.len() + variables.user.len() + variables.global.len();
    let mut text = format!("{role}, {}", counted(scenario.steps.len(), "step"));
    for (count, what) in [
        (scenario.labels.len(), "label"),
        (variables, "variable"),
        (scenario.transactions.len(), "transaction"),
        (scenario.rtds.len(), "response-time counter"),
    ] {
        if count > 0 {
            text = format!("{text}, {}", counted(count, what));
        }
    }
    if scenario.needs.media {
        text.push_str(", with media");
    }
    text
}

/// The role in words.
pub(super) fn role_name(role: Role) -> &'static str {
    match role {
        Role::Client => "client",
        Role::Server => "server",
        Role::ControllerA => "3PCC controller A",
        Role::ControllerB => "3PCC controller B",
    }
}

/// `1 mistake`, `2 mistakes`.
pub fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_are_counted_and_a_file_that_is_not_there_has_none() {
        let folder = std::env::temp_dir();
        let missing = folder.join(format!("no-scenario-{}.xml", std::process::id()));
        let report = check(&missing);
        assert!(!report.is_ok());
        let text = report.to_string();
        assert!(text.contains(": cannot be read: ") && text.lines().count() == 1, "{text}");
        let errors = [(2, "one"), (3, "two")].map(|(line, message)| CompileError {
            file: "a.xml".into(),
            line,
            message: message.into(),
        });
        let report = CheckReport { file: "a.xml".into(), outcome: Err(errors.into()) };
        assert_eq!(report.to_string(), "a.xml:2: one\na.xml:3: two\na.xml: 2 mistakes\n");
    }
}

//! The screens of variables and of TDM circuits.

use std::fmt::Write as _;

use super::tdm::TdmMap;
use crate::engine::{Progress, Setup};

/// Names by scope, and how many actions each step has.
pub(super) fn screen(setup: &Setup) -> String {
    let mut text =
        String::from("------------------------------ Variables Screen ------- [1-9]: Change Screen --\n");
    let variables = &setup.scenario.variables;
    let scopes = [("Call", &variables.call), ("User", &variables.user), ("Global", &variables.global)];
    if scopes.iter().all(|(_, names)| names.is_empty()) {
        text.push_str("  No variables defined\n");
    }
    for (scope, names) in scopes.into_iter().filter(|(_, names)| !names.is_empty()) {
        let _ = writeln!(text, "  {scope} variables: {}", names.join(", "));
    }
    for (index, step) in setup.scenario.steps.iter().enumerate().filter(|(_, s)| !s.actions.is_empty()) {
        let _ = writeln!(text, "  Message [{index}] (line {}): {} actions", step.line, step.actions.len());
    }
    text
}

/// The range of circuits. Calls take them in turn, so only their number is known here.
pub(super) fn circuits(setup: &Setup, progress: &Progress) -> String {
    let mut text =
        String::from("------------------------------ TDM map Screen --------- [1-9]: Change Screen --\n");
    match setup.options.behaviour.tdmmap.as_deref().map(TdmMap::parse) {
        Some(Ok(map)) => {
            let used = progress.gauges.open_calls.min(map.circuits());
            let _ = writeln!(text, "  TDM Circuits in use:  {used}/{}", map.circuits());
            let _ = writeln!(
                text,
                "  {}-{} {} {}-{} {}-{}",
                map.slots.0,
                map.slots.1,
                map.fixed,
                map.trunks.0,
                map.trunks.1,
                map.channels.0,
                map.channels.1
            );
        }
        _ => text.push_str("  No TDM map defined\n"),
    }
    text
}

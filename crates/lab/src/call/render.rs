//! Templates to bytes.

use std::sync::Arc;

use super::{Call, Ctx, Env};
use crate::options::Options;
use crate::scenario::Scenario;
use crate::scenario::template::Template;

/// The scenario's templates with the run's constants folded in (`[service]`, `[transport]`, `[pid]`, one local address, …),
/// by step and, for actions, by step and action.
#[derive(Debug, Default)]
pub struct Prepared {}

impl Prepared {
    /// An unknown keyword that is no `-key` either is an error that names it, its file and line.
    pub fn new(_scenario: &Scenario, _options: &Options) -> Result<Prepared, String> {
        Ok(Prepared {})
    }
}

/// Appends the message of a `send` step to `out`. Line ends become CRLF, `[len]` the length of the body.
pub fn message(_call: &mut Call, _ctx: &mut Ctx<'_>, _step: usize, _out: &mut Vec<u8>) -> Result<(), String> {
    Ok(())
}

/// Appends a plain text (log line, file name, command).
pub fn text(
    _call: &mut Call,
    _ctx: &mut Ctx<'_>,
    _template: &Template,
    _out: &mut Vec<u8>,
) -> Result<(), String> {
    Ok(())
}

/// Exposed for `Env` building.
pub fn prepare(scenario: &Arc<Scenario>, options: &Options) -> Result<Prepared, String> {
    Prepared::new(scenario, options)
}

#[expect(dead_code, reason = "replaced with the machine")]
fn unused(_env: &Env) {}

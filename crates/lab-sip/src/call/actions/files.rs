//! Actions on injection files. A file or line that is not there stops the run: every call would miss it.

use std::path::Path;

use super::{ActionError, rendered, value};
use crate::call::{Call, CallContext, VariableValue};
use crate::scenario::action::ActionKind;
use crate::scenario::template::Template;

/// Does nothing for an action of another kind.
pub(super) fn perform(
    call: &mut Call,
    ctx: &mut CallContext<'_>,
    kind: &ActionKind,
) -> Result<(), ActionError> {
    match kind {
        ActionKind::Index { file, field } => {
            let file = find(call, ctx, file)?;
            ctx.env.files.index(file, *field).map_err(ActionError::Fatal)
        }
        ActionKind::Lookup { to, file, key } => {
            let file = find(call, ctx, file)?;
            let key = rendered(call, ctx, key)?;
            let line = ctx.env.files.lookup(file, &key).map_err(ActionError::Fatal)?;
            // -1 says that there is no such key: a field of that line is empty.
            value::set(call, ctx, *to, VariableValue::Number(line.map_or(-1.0, f64::from)));
            Ok(())
        }
        ActionKind::Insert { file, value } => {
            let file = find(call, ctx, file)?;
            let line = rendered(call, ctx, value)?;
            ctx.env.files.insert(file, &line).map_err(ActionError::Fatal)
        }
        ActionKind::Replace { file, line, value } => {
            let file = find(call, ctx, file)?;
            let line = line_number(&rendered(call, ctx, line)?)?;
            let value = rendered(call, ctx, value)?;
            ctx.env.files.replace(file, line, &value).map_err(ActionError::Fatal)
        }
        _ => Ok(()),
    }
}

/// The file by its name, which may be rendered from variables.
fn find(call: &mut Call, ctx: &mut CallContext<'_>, file: &Template) -> Result<usize, ActionError> {
    let name = rendered(call, ctx, file)?;
    let name = String::from_utf8_lossy(&name);
    let found = ctx.env.files.find(Path::new(&*name));
    found.ok_or_else(|| ActionError::Fatal(format!("no injection file '{name}' was given with -inf")))
}

/// From 0, written as a variable writes it: `3.000000`, and nothing for 0.
fn line_number(text: &[u8]) -> Result<u32, ActionError> {
    let number = VariableValue::Text(text.into())
        .to_number()
        .filter(|line| (0.0..=f64::from(u32::MAX)).contains(line));
    let number = number.map(|number| number as u32);
    number.ok_or_else(|| {
        ActionError::Fatal(format!("replace: '{}' is not a line", String::from_utf8_lossy(text)))
    })
}

//! The templates in an action, so that all can be checked before the first call.

use crate::scenario::action::{ActionKind, RtpStream, StrOperand};
use crate::scenario::template::Template;

pub(super) fn templates_of(kind: &ActionKind) -> Vec<&Template> {
    match kind {
        ActionKind::Log(one)
        | ActionKind::Warning(one)
        | ActionKind::Error(one)
        | ActionKind::AssignStr { value: one, .. }
        | ActionKind::Index { file: one, .. }
        | ActionKind::Command(one)
        | ActionKind::Verify(one)
        | ActionKind::Play { file: one, .. }
        | ActionKind::PlayDtmf(one) => vec![one],
        ActionKind::StrCmp(compare) => match &compare.with {
            StrOperand::Value(value) => vec![value],
            StrOperand::Variable(_) => Vec::new(),
        },
        ActionKind::Lookup { file, key, .. } => vec![file, key],
        ActionKind::Insert { file, value } => vec![file, value],
        ActionKind::Replace { file, line, value } => vec![file, line, value],
        ActionKind::VerifyAuth { username, password, .. } => vec![username, password],
        ActionKind::SetDest { host, port, protocol } => vec![host, port, protocol],
        ActionKind::RtpStream(RtpStream::File(spec) | RtpStream::Pattern { spec, .. }) => vec![spec],
        ActionKind::EchoControl(control) => vec![&control.spec],
        ActionKind::RtpCheck(check) => check.dtmf.iter().collect(),
        ActionKind::Ereg(_)
        | ActionKind::Assign { .. }
        | ActionKind::Arithmetic { .. }
        | ActionKind::ToDouble { .. }
        | ActionKind::Sample { .. }
        | ActionKind::Test(_)
        | ActionKind::Trim(_)
        | ActionKind::UrlEncode(_)
        | ActionKind::UrlDecode(_)
        | ActionKind::Jump(_)
        | ActionKind::PauseRestore(_)
        | ActionKind::GetTimeOfDay { .. }
        | ActionKind::CloseCon
        | ActionKind::StepNumber { .. }
        | ActionKind::RtpEcho(_)
        | ActionKind::Internal(_)
        | ActionKind::RtpStats { .. }
        | ActionKind::RtpDtmf { .. }
        | ActionKind::RtpStream(_) => Vec::new(),
    }
}

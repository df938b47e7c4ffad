//! `<action>`: what a step does beside its message.

use super::message::Incoming;
use super::{Call, Ctx};
use crate::scenario::action::Action;
use crate::scenario::model::StepIndex;
use crate::stats::Count;

/// What the flow does after an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    Continue,
    /// `jump`, `pauserestore`: go there, the remaining actions are not run.
    Jump(StepIndex),
    /// `int_cmd="stop_call"`.
    StopCall,
    /// A check failed: the call fails, counted under this.
    Fail(Count),
}

/// `message` is the one just received, if the step is a `recv`.
pub fn perform(
    _call: &mut Call,
    _ctx: &mut Ctx<'_>,
    _action: &Action,
    _message: Option<&Incoming<'_>>,
) -> After {
    After::Continue
}

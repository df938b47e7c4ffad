//! `<action>`: what a step does beside its message.

mod media;
mod search;
mod text;
pub mod value;

use super::message::Incoming;
use super::{Call, Ctx, Effect, Value, render};
use crate::scenario::action::{
    Action, ActionKind, Arithmetic, Check, Compare, Internal, Operand, StrCmp, StrOperand, Test,
};
use crate::scenario::model::{StepIndex, VarRef};
use crate::scenario::template::Template;
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
pub fn perform(call: &mut Call, ctx: &mut Ctx<'_>, action: &Action, message: Option<&Incoming<'_>>) -> After {
    match attempt(call, ctx, &action.kind, message) {
        Ok(after) => after,
        Err(explanation) => {
            warn(ctx, &format!("line {}: {explanation}", action.line));
            After::Continue
        }
    }
}

/// `Err` is a warning: it is told, and the call goes on.
fn attempt(
    call: &mut Call,
    ctx: &mut Ctx<'_>,
    kind: &ActionKind,
    message: Option<&Incoming<'_>>,
) -> Result<After, String> {
    match kind {
        ActionKind::Ereg(ereg) => return Ok(search::ereg(call, ctx, ereg, message)),
        ActionKind::Test(test) => return Ok(compare(call, ctx, test)),
        ActionKind::StrCmp(strcmp) => return compare_text(call, ctx, strcmp),
        ActionKind::Log(template) => {
            let text = rendered(call, ctx, template)?;
            ctx.env.tracer.log(ctx.now, &text);
        }
        ActionKind::Warning(template) => {
            let text = rendered(call, ctx, template)?;
            warn(ctx, &String::from_utf8_lossy(&text));
        }
        ActionKind::Error(template) => {
            let text = rendered(call, ctx, template)?;
            ctx.env.tracer.error(ctx.now, &String::from_utf8_lossy(&text));
            ctx.stats.count(Count::FatalErrors);
            ctx.out.effects.push(Effect::StopNow);
            return Ok(After::StopCall);
        }
        ActionKind::Assign { to, value } => {
            let number = value::operand(call, ctx, *value);
            value::set(call, ctx, *to, Value::Number(number));
        }
        ActionKind::AssignStr { to, value } => {
            let text = rendered(call, ctx, value)?;
            value::set(call, ctx, *to, Value::Text(text.into_boxed_slice()));
        }
        ActionKind::Arithmetic { to, operation, value } => arithmetic(call, ctx, *to, *operation, *value)?,
        ActionKind::ToDouble { to, from } => {
            let number = value::with(call, ctx, *from, Value::to_number)
                .ok_or("todouble: the text is not a number")?;
            value::set(call, ctx, *to, Value::Number(number));
        }
        ActionKind::Sample { to, distribution } => {
            let number = distribution.sample(ctx.rng);
            value::set(call, ctx, *to, Value::Number(number));
        }
        ActionKind::Trim(variable) => {
            let trimmed = value::with(call, ctx, *variable, |value| value.as_text().trim_ascii().into());
            value::set(call, ctx, *variable, Value::Text(trimmed));
        }
        ActionKind::UrlEncode(variable) => {
            let text = value::with(call, ctx, *variable, |value| text::url_encode(value.as_text()));
            value::set(call, ctx, *variable, Value::Text(text.into_boxed_slice()));
        }
        ActionKind::UrlDecode(variable) => {
            let text = value::with(call, ctx, *variable, |value| text::url_decode(value.as_text()));
            value::set(call, ctx, *variable, Value::Text(text.into_boxed_slice()));
        }
        ActionKind::Jump(to) => {
            let step = value::operand(call, ctx, *to);
            if step < 0.0 || !step.is_finite() {
                return Err(format!("jump: there is no step {step}"));
            }
            return Ok(After::Jump(step as StepIndex));
        }
        ActionKind::GetTimeOfDay { seconds, micros } => {
            let since = wall_clock()
                .duration_since(std::time::UNIX_EPOCH)
                .map_err(|_| "gettimeofday: the clock is before 1970".to_owned())?;
            value::set(call, ctx, *seconds, Value::Number(since.as_secs() as f64));
            value::set(call, ctx, *micros, Value::Number(f64::from(since.subsec_micros())));
        }
        ActionKind::CloseCon => ctx.out.effects.push(Effect::CloseConnection),
        ActionKind::Command(template) => {
            let text = rendered(call, ctx, template)?;
            ctx.out.effects.push(Effect::Shell(String::from_utf8_lossy(&text).into_owned()));
        }
        ActionKind::RtpCheck(check) => return media::check(call, ctx, check),
        ActionKind::Internal(internal) => return Ok(stop(ctx, *internal)),
        media if media::perform(call, ctx, media)? => {}
        _ => return Err("this action is not supported yet; it did nothing".to_owned()),
    }
    Ok(After::Continue)
}

/// `gettimeofday` is the calendar's time, which the lab's own clock does not have.
#[expect(clippy::disallowed_methods, reason = "the action asks for the calendar's time")]
fn wall_clock() -> std::time::SystemTime {
    std::time::SystemTime::now()
}

fn warn(ctx: &mut Ctx<'_>, text: &str) {
    ctx.stats.count(Count::Warnings);
    ctx.env.tracer.error(ctx.now, text);
}

fn rendered(call: &mut Call, ctx: &mut Ctx<'_>, template: &Template) -> Result<Vec<u8>, String> {
    let mut text = Vec::new();
    render::text(call, ctx, template, &mut text)?;
    Ok(text)
}

fn stop(ctx: &mut Ctx<'_>, internal: Internal) -> After {
    match internal {
        Internal::StopCall => After::StopCall,
        Internal::StopGracefully => {
            ctx.out.effects.push(Effect::StopGracefully);
            After::Continue
        }
        Internal::StopNow => {
            ctx.out.effects.push(Effect::StopNow);
            After::Continue
        }
    }
}

fn arithmetic(
    call: &mut Call,
    ctx: &mut Ctx<'_>,
    to: VarRef,
    operation: Arithmetic,
    by: Operand,
) -> Result<(), String> {
    let left = value::with(call, ctx, to, Value::as_operand);
    let right = value::operand(call, ctx, by);
    let result = match operation {
        Arithmetic::Add => left + right,
        Arithmetic::Subtract => left - right,
        Arithmetic::Multiply => left * right,
        Arithmetic::Divide if right == 0.0 => return Err("divide: division by zero".to_owned()),
        Arithmetic::Divide => left / right,
    };
    value::set(call, ctx, to, Value::Number(result));
    Ok(())
}

#[expect(clippy::float_cmp, reason = "the scenario asks for exactly this")]
fn holds(left: f64, compare: Compare, right: f64) -> bool {
    match compare {
        Compare::Equal => left == right,
        Compare::NotEqual => left != right,
        Compare::GreaterThan => left > right,
        Compare::LessThan => left < right,
        Compare::GreaterThanEqual => left >= right,
        Compare::LessThanEqual => left <= right,
    }
}

fn compare(call: &mut Call, ctx: &mut Ctx<'_>, test: &Test) -> After {
    let left = value::with(call, ctx, test.variable, Value::as_operand);
    let outcome = holds(left, test.compare, value::operand(call, ctx, test.value));
    if let Some(to) = test.assign_to {
        value::set(call, ctx, to, Value::Bool(outcome));
    }
    checked(test.check, outcome, Count::FailedTestDoesntMatch, Count::FailedTestShouldntMatch)
}

/// Assigns a number as strcmp gives it: 0 when equal, below 0 when the variable sorts first.
fn compare_text(call: &mut Call, ctx: &mut Ctx<'_>, strcmp: &StrCmp) -> Result<After, String> {
    let right: Vec<u8> = match &strcmp.with {
        StrOperand::Value(template) => rendered(call, ctx, template)?,
        StrOperand::Variable(variable) => value::with(call, ctx, *variable, |value| value.as_text().to_vec()),
    };
    let order = value::with(call, ctx, strcmp.variable, |value| value.as_text().cmp(&right));
    if let Some(to) = strcmp.assign_to {
        value::set(call, ctx, to, Value::Number(f64::from(order as i8)));
    }
    Ok(checked(strcmp.check, order.is_eq(), Count::FailedStrcmpDoesntMatch, Count::FailedStrcmpShouldntMatch))
}

fn checked(check: Check, outcome: bool, missed: Count, unwanted: Count) -> After {
    match check {
        Check::MustMatch if !outcome => After::Fail(missed),
        Check::MustNotMatch if outcome => After::Fail(unwanted),
        _ => After::Continue,
    }
}

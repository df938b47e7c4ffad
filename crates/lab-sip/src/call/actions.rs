//! `<action>`: what a step does beside its message.
//!
//! `flow::step::act` performs the actions of a step in order and follows the [`ActionResult`]. An action changes variables and media at once;
//! everything outside the call becomes an effect in `ctx.out`.

mod files;
mod media;
mod search;
#[cfg(test)]
mod tests;
mod text;
pub mod value;

use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::time::Duration;

use stdx::time::Instant;

use super::message::Incoming;
use super::{Call, CallContext, CallEffect, VariableValue, render};
use crate::auth;
use crate::scenario::action::{
    Action, ActionCheck, ActionKind, Arithmetic, CompareOperator, InternalCommand, Operand, RtpStream,
    StrCmp, StrOperand, VariableTest,
};
use crate::scenario::model::{StepIndex, VarRef};
use crate::scenario::template::Template;
use crate::stats::Count;

/// The step of the flow that follows an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActionResult {
    /// The next step of the scenario.
    Continue,
    /// `jump`: go there once the remaining actions have run.
    Jump(StepIndex),
    /// `pauserestore`: the pause lasts until then (`FAR_FUTURE`: there is none).
    PauseUntil(Instant),
    /// `rtp_stream="wait"`: the call stays in this step until then.
    HoldUntil(Instant),
    /// `exec verify`: the call stays in this step until the command has ended.
    HoldForCommand,
    /// `int_cmd="stop_call"`.
    StopCall,
    /// A check failed: the call fails, counted under this.
    Fail(Count),
}

/// `message` is the one just received, if the step is a `recv`.
pub fn perform(
    call: &mut Call,
    ctx: &mut CallContext<'_>,
    action: &Action,
    message: Option<&Incoming<'_>>,
) -> ActionResult {
    let line = action.line;
    match attempt(call, ctx, &action.kind, message) {
        Ok(after) => after,
        Err(ActionError::Warning(explanation)) => {
            warn(ctx, &format!("line {line}: {explanation}"));
            ActionResult::Continue
        }
        Err(ActionError::Failed(count, explanation)) => {
            warn(ctx, &format!("line {line}: {explanation}"));
            ActionResult::Fail(count)
        }
        Err(ActionError::Fatal(explanation)) => fatal(ctx, &format!("line {line}: {explanation}")),
    }
}

/// The reason why an action could not be completed.
#[derive(Debug, PartialEq)]
enum ActionError {
    /// It is told, and the call goes on.
    Warning(String),
    /// A check that fails the call.
    Failed(Count, String),
    /// The scenario makes no sense: the run stops.
    Fatal(String),
}

impl From<String> for ActionError {
    fn from(explanation: String) -> ActionError {
        ActionError::Warning(explanation)
    }
}

/// One action. An error is told by [`perform`] with the line of the action.
fn attempt(
    call: &mut Call,
    ctx: &mut CallContext<'_>,
    kind: &ActionKind,
    message: Option<&Incoming<'_>>,
) -> Result<ActionResult, ActionError> {
    match kind {
        ActionKind::Ereg(ereg) => search::ereg(call, ctx, ereg, message)?,
        ActionKind::Test(test) => compare(call, ctx, test)?,
        ActionKind::StrCmp(strcmp) => compare_text(call, ctx, strcmp)?,
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
            return Ok(fatal(ctx, &String::from_utf8_lossy(&text)));
        }
        ActionKind::Assign { .. }
        | ActionKind::AssignStr { .. }
        | ActionKind::Arithmetic { .. }
        | ActionKind::ToDouble { .. }
        | ActionKind::Sample { .. }
        | ActionKind::Trim(_)
        | ActionKind::UrlEncode(_)
        | ActionKind::UrlDecode(_)
        | ActionKind::StepNumber { .. }
        | ActionKind::GetTimeOfDay { .. } => compute(call, ctx, kind)?,
        ActionKind::Jump(to) => return jump(call, ctx, *to),
        ActionKind::PauseRestore(until) => return Ok(restored_pause(call, ctx, *until)),
        ActionKind::CloseCon => ctx.out.effects.push(CallEffect::CloseConnection),
        ActionKind::Command(template) => {
            let text = rendered(call, ctx, template)?;
            ctx.out.effects.push(CallEffect::Shell(String::from_utf8_lossy(&text).into_owned()));
        }
        ActionKind::Verify(command) => return verify_by_command(call, ctx, command),
        ActionKind::RtpCheck(check) => media::check(call, ctx, check)?,
        ActionKind::RtpStream(RtpStream::Wait { timeout }) => return media::wait(call, ctx, *timeout),
        ActionKind::Internal(internal) => return Ok(stop(ctx, *internal)),
        ActionKind::VerifyAuth { to, username, password } => {
            verify(call, ctx, message, *to, (username, password))?;
        }
        ActionKind::SetDest { host, port, protocol } => set_destination(call, ctx, host, port, protocol)?,
        ActionKind::Index { .. }
        | ActionKind::Lookup { .. }
        | ActionKind::Insert { .. }
        | ActionKind::Replace { .. } => files::perform(call, ctx, kind)?,
        ActionKind::RtpStats { .. } | ActionKind::RtpDtmf { .. } => media::assign(call, ctx, kind),
        ActionKind::Play { .. }
        | ActionKind::PlayDtmf(_)
        | ActionKind::RtpEcho(_)
        | ActionKind::RtpStream(_)
        | ActionKind::EchoControl(_) => media::perform(call, ctx, kind)?,
    }
    Ok(ActionResult::Continue)
}

/// Actions that put a value into a variable; nothing for the others.
fn compute(call: &mut Call, ctx: &mut CallContext<'_>, kind: &ActionKind) -> Result<(), ActionError> {
    match kind {
        ActionKind::StepNumber { to } => {
            let position = u32::try_from(call.position).unwrap_or(u32::MAX);
            value::set(call, ctx, *to, VariableValue::Number(f64::from(position)));
        }
        ActionKind::Assign { to, value } => {
            let number = value::operand(call, ctx, *value);
            value::set(call, ctx, *to, VariableValue::Number(number));
        }
        ActionKind::AssignStr { to, value } => {
            let text = rendered(call, ctx, value)?;
            value::set(call, ctx, *to, VariableValue::Text(text.into_boxed_slice()));
        }
        ActionKind::Arithmetic { to, operation, value } => arithmetic(call, ctx, *to, *operation, *value)?,
        ActionKind::ToDouble { to, from } => {
            let number = value::with(call, ctx, *from, VariableValue::to_number)
                .ok_or_else(|| "todouble: the variable holds no number".to_owned())?;
            value::set(call, ctx, *to, VariableValue::Number(number));
        }
        ActionKind::Sample { to, distribution } => {
            let number = distribution.sample(ctx.rng);
            value::set(call, ctx, *to, VariableValue::Number(number));
        }
        ActionKind::Trim(variable) => change_text(call, ctx, *variable, text::trim),
        ActionKind::UrlEncode(variable) => change_text(call, ctx, *variable, text::url_encode),
        ActionKind::UrlDecode(variable) => change_text(call, ctx, *variable, text::url_decode),
        ActionKind::GetTimeOfDay { seconds, micros } => get_time_of_day(call, ctx, *seconds, *micros)?,
        _ => {}
    }
    Ok(())
}

fn get_time_of_day(
    call: &mut Call,
    ctx: &mut CallContext<'_>,
    seconds: VarRef,
    micros: VarRef,
) -> Result<(), ActionError> {
    let since = wall_clock()
        .duration_since(std::time::UNIX_EPOCH)
        .map_err(|_| "gettimeofday: the clock is before 1970".to_owned())?;
    value::set(call, ctx, seconds, VariableValue::Number(since.as_secs() as f64));
    value::set(call, ctx, micros, VariableValue::Number(f64::from(since.subsec_micros())));
    Ok(())
}

/// `gettimeofday` is the calendar's time, which the lab's own clock does not have.
#[expect(clippy::disallowed_methods, reason = "the action asks for the calendar's time")]
fn wall_clock() -> std::time::SystemTime {
    std::time::SystemTime::now()
}

/// Replaces the text of a variable.
fn change_text(call: &mut Call, ctx: &mut CallContext<'_>, variable: VarRef, change: fn(&[u8]) -> Vec<u8>) {
    let text = value::with(call, ctx, variable, |value| change(value.as_text()));
    value::set(call, ctx, variable, VariableValue::Text(text.into_boxed_slice()));
}

/// The operand is cut to a whole number. The number of steps itself is the end of the scenario.
fn jump(call: &Call, ctx: &CallContext<'_>, to: Operand) -> Result<ActionResult, ActionError> {
    let step = value::operand(call, ctx, to).trunc();
    let last = ctx.env.scenario.steps.len();
    if !(0.0..=last as f64).contains(&step) {
        return Err(ActionError::Fatal(format!("jump: there is no step {step}, they are 0 to {last}")));
    }
    let step = step as StepIndex;
    if step == call.position {
        return Err(ActionError::Fatal(format!("jump: step {step} jumps to itself and would never end")));
    }
    Ok(ActionResult::Jump(step))
}

/// `pauserestore`: the operand is a time of `[clock_tick]`, as `_unexp.pausedaddr` has it.
fn restored_pause(call: &Call, ctx: &CallContext<'_>, until: Operand) -> ActionResult {
    let milliseconds = value::operand(call, ctx, until);
    ActionResult::PauseUntil(pause_end(ctx.env.started, milliseconds))
}

/// The end of a pause that `[clock_tick]` counts; 0 stands for no pause.
fn pause_end(started: Instant, milliseconds: f64) -> Instant {
    if milliseconds >= 1.0 {
        // Beyond what a clock shows in a century nothing waits.
        started + Duration::from_micros((milliseconds * 1e3).min(4e15) as u64)
    } else {
        Instant::FAR_FUTURE
    }
}

/// The command's end fails the call or lets it go on.
fn verify_by_command(
    call: &mut Call,
    ctx: &mut CallContext<'_>,
    command: &Template,
) -> Result<ActionResult, ActionError> {
    let text = rendered(call, ctx, command)?;
    ctx.out.effects.push(CallEffect::Verify(String::from_utf8_lossy(&text).into_owned()));
    Ok(ActionResult::HoldForCommand)
}

/// Checks the password by the message's first Authorization.
fn verify(
    call: &mut Call,
    ctx: &mut CallContext<'_>,
    message: Option<&Incoming<'_>>,
    to: VarRef,
    (username, password): (&Template, &Template),
) -> Result<(), ActionError> {
    let username = rendered(call, ctx, username)?;
    let password = rendered(call, ctx, password)?;
    let proved = message.is_some_and(|message| {
        let authorization = message.header_values("Authorization").next();
        authorization.is_some_and(|authorization| {
            auth::verify(&username, &password, message.method(), authorization, message.body())
        })
    });
    value::set(call, ctx, to, VariableValue::Bool(proved));
    Ok(())
}

/// The protocol must be the run's: its sockets are bound before the first call.
fn set_destination(
    call: &mut Call,
    ctx: &mut CallContext<'_>,
    host: &Template,
    port: &Template,
    protocol: &Template,
) -> Result<(), ActionError> {
    let mut text = |template| -> Result<String, ActionError> {
        Ok(String::from_utf8_lossy(&rendered(call, ctx, template)?).trim().to_owned())
    };
    let (host, port, protocol) = (text(host)?, text(port)?, text(protocol)?);
    let Ok(port) = port.parse::<u16>() else {
        return Err(ActionError::Fatal(format!("setdest: '{port}' is not a port")));
    };
    let transport = ctx.env.options.network.transport;
    if !protocol.eq_ignore_ascii_case(transport.via_word()) {
        let own = transport.via_word();
        return Err(ActionError::Fatal(format!(
            "setdest: the run speaks {own}, a call cannot speak '{protocol}'"
        )));
    }
    let address = resolve(&host, port).map_err(ActionError::Fatal)?;
    call.keep_sources();
    ctx.out.effects.push(CallEffect::SetDestination { address, protocol: transport.protocol });
    Ok(())
}

/// An address as it is written, or the first the resolver gives; as in SIPp the call waits for it.
fn resolve(host: &str, port: u16) -> Result<SocketAddr, String> {
    let literal = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    if let Ok(ip) = literal.parse::<IpAddr>() {
        return Ok(SocketAddr::new(ip, port));
    }
    let found = (host, port).to_socket_addrs().map_err(|error| format!("setdest: {host}: {error}"))?.next();
    found.ok_or_else(|| format!("setdest: {host} has no address"))
}

/// A mistake of the scenario that every call would meet: the run stops.
fn fatal(ctx: &mut CallContext<'_>, text: &str) -> ActionResult {
    ctx.env.tracer.error(ctx.now, text);
    ctx.stats.count(Count::FatalErrors);
    ctx.out.effects.push(CallEffect::StopNow);
    ActionResult::StopCall
}

/// Counted, and a line of the error log.
fn warn(ctx: &mut CallContext<'_>, text: &str) {
    ctx.stats.count(Count::Warnings);
    ctx.env.tracer.error(ctx.now, text);
}

fn rendered(call: &mut Call, ctx: &mut CallContext<'_>, template: &Template) -> Result<Vec<u8>, ActionError> {
    let mut text = Vec::new();
    render::text(call, ctx, template, &mut text)?;
    Ok(text)
}

/// `int_cmd`: the end of the call, or of the run softly or at once.
fn stop(ctx: &mut CallContext<'_>, internal: InternalCommand) -> ActionResult {
    match internal {
        InternalCommand::StopCall => ActionResult::StopCall,
        InternalCommand::StopGracefully => {
            ctx.out.effects.push(CallEffect::StopGracefully);
            ActionResult::Continue
        }
        InternalCommand::StopNow => {
            ctx.out.effects.push(CallEffect::StopNow);
            ActionResult::Continue
        }
    }
}

/// A division by zero leaves the variable as it is and warns, as in SIPp.
fn arithmetic(
    call: &mut Call,
    ctx: &mut CallContext<'_>,
    to: VarRef,
    operation: Arithmetic,
    by: Operand,
) -> Result<(), ActionError> {
    let left = value::with(call, ctx, to, VariableValue::as_operand);
    let right = value::operand(call, ctx, by);
    let result = match operation {
        Arithmetic::Add => left + right,
        Arithmetic::Subtract => left - right,
        Arithmetic::Multiply => left * right,
        Arithmetic::Divide if right == 0.0 => return Err("divide: division by zero".to_owned().into()),
        Arithmetic::Divide => left / right,
    };
    value::set(call, ctx, to, VariableValue::Number(result));
    Ok(())
}

impl CompareOperator {
    fn sign(self) -> &'static str {
        match self {
            CompareOperator::Equal => "==",
            CompareOperator::NotEqual => "!=",
            CompareOperator::GreaterThan => ">",
            CompareOperator::LessThan => "<",
            CompareOperator::GreaterThanEqual => ">=",
            CompareOperator::LessThanEqual => "<=",
        }
    }
}

#[expect(clippy::float_cmp, reason = "the scenario asks for exactly this")]
fn holds(left: f64, compare: CompareOperator, right: f64) -> bool {
    match compare {
        CompareOperator::Equal => left == right,
        CompareOperator::NotEqual => left != right,
        CompareOperator::GreaterThan => left > right,
        CompareOperator::LessThan => left < right,
        CompareOperator::GreaterThanEqual => left >= right,
        CompareOperator::LessThanEqual => left <= right,
    }
}

/// A check that failed assigns nothing.
fn compare(call: &mut Call, ctx: &mut CallContext<'_>, test: &VariableTest) -> Result<(), ActionError> {
    let left = value::with(call, ctx, test.variable, VariableValue::as_operand);
    let right = value::operand(call, ctx, test.value);
    let outcome = holds(left, test.compare, right);
    checked(test.check, outcome, Count::FailedTestDoesntMatch, Count::FailedTestShouldntMatch, || {
        format!("test: {left} {} {right} is {outcome}", test.compare.sign())
    })?;
    if let Some(to) = test.assign_to {
        value::set(call, ctx, to, VariableValue::Bool(outcome));
    }
    Ok(())
}

/// Assigns 0 when both are equal, else the difference of the first bytes that differ; the check is for equality.
fn compare_text(call: &mut Call, ctx: &mut CallContext<'_>, strcmp: &StrCmp) -> Result<(), ActionError> {
    let right: Vec<u8> = match &strcmp.with {
        StrOperand::Value(template) => rendered(call, ctx, template)?,
        StrOperand::Variable(variable) => value::with(call, ctx, *variable, |value| value.as_text().to_vec()),
    };
    let difference =
        value::with(call, ctx, strcmp.variable, |value| text::difference(value.as_text(), &right));
    let (missed, unwanted) = (Count::FailedStrcmpDoesntMatch, Count::FailedStrcmpShouldntMatch);
    checked(strcmp.check, difference == 0, missed, unwanted, || {
        format!("strcmp: the difference to '{}' is {difference}", String::from_utf8_lossy(&right))
    })?;
    if let Some(to) = strcmp.assign_to {
        value::set(call, ctx, to, VariableValue::Number(f64::from(difference)));
    }
    Ok(())
}

/// `check_it` and `check_it_inverse`: which counter a failed check has.
fn checked(
    check: ActionCheck,
    outcome: bool,
    missed: Count,
    unwanted: Count,
    explanation: impl FnOnce() -> String,
) -> Result<(), ActionError> {
    match check {
        ActionCheck::MustMatch if !outcome => Err(ActionError::Failed(missed, explanation())),
        ActionCheck::MustNotMatch if outcome => Err(ActionError::Failed(unwanted, explanation())),
        _ => Ok(()),
    }
}

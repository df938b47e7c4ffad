//! `<action>`: what a step does beside its message.

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
use super::{Call, Ctx, Effect, Value, render};
use crate::auth;
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
    /// `jump`: go there once the remaining actions have run.
    Jump(StepIndex),
    /// `pauserestore`: the pause lasts until then (`FAR_FUTURE`: there is none).
    PauseUntil(Instant),
    /// `int_cmd="stop_call"`.
    StopCall,
    /// A check failed: the call fails, counted under this.
    Fail(Count),
}

/// `message` is the one just received, if the step is a `recv`.
pub fn perform(call: &mut Call, ctx: &mut Ctx<'_>, action: &Action, message: Option<&Incoming<'_>>) -> After {
    let line = action.line;
    match attempt(call, ctx, &action.kind, message) {
        Ok(after) => after,
        Err(Trouble::Warning(explanation)) => {
            warn(ctx, &format!("line {line}: {explanation}"));
            After::Continue
        }
        Err(Trouble::Failed(count, explanation)) => {
            warn(ctx, &format!("line {line}: {explanation}"));
            After::Fail(count)
        }
        Err(Trouble::Fatal(explanation)) => fatal(ctx, &format!("line {line}: {explanation}")),
    }
}

/// What keeps an action from its end.
#[derive(Debug, PartialEq)]
enum Trouble {
    /// It is told, and the call goes on.
    Warning(String),
    /// A check that fails the call.
    Failed(Count, String),
    /// The scenario makes no sense: the run stops.
    Fatal(String),
}

impl From<String> for Trouble {
    fn from(explanation: String) -> Trouble {
        Trouble::Warning(explanation)
    }
}

fn attempt(
    call: &mut Call,
    ctx: &mut Ctx<'_>,
    kind: &ActionKind,
    message: Option<&Incoming<'_>>,
) -> Result<After, Trouble> {
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
        ActionKind::PauseRestore(until) => {
            let milliseconds = value::operand(call, ctx, *until);
            return Ok(After::PauseUntil(pause_end(ctx.env.started, milliseconds)));
        }
        ActionKind::CloseCon => ctx.out.effects.push(Effect::CloseConnection),
        ActionKind::Command(template) => {
            let text = rendered(call, ctx, template)?;
            ctx.out.effects.push(Effect::Shell(String::from_utf8_lossy(&text).into_owned()));
        }
        ActionKind::RtpCheck(check) => media::check(call, ctx, check)?,
        ActionKind::Internal(internal) => return Ok(stop(ctx, *internal)),
        ActionKind::VerifyAuth { to, username, password } => {
            verify(call, ctx, message, *to, (username, password))?;
        }
        ActionKind::SetDest { host, port, protocol } => set_destination(call, ctx, host, port, protocol)?,
        ActionKind::Index { .. }
        | ActionKind::Lookup { .. }
        | ActionKind::Insert { .. }
        | ActionKind::Replace { .. } => files::perform(call, ctx, kind)?,
        ActionKind::Play { .. }
        | ActionKind::PlayDtmf(_)
        | ActionKind::RtpEcho(_)
        | ActionKind::RtpStream(_)
        | ActionKind::EchoControl(_) => media::perform(call, ctx, kind)?,
    }
    Ok(After::Continue)
}

/// Actions that put a value into a variable; nothing for the others.
fn compute(call: &mut Call, ctx: &mut Ctx<'_>, kind: &ActionKind) -> Result<(), Trouble> {
    match kind {
        ActionKind::StepNumber { to } => {
            let position = u32::try_from(call.position).unwrap_or(u32::MAX);
            value::set(call, ctx, *to, Value::Number(f64::from(position)));
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
                .ok_or_else(|| "todouble: the variable holds no number".to_owned())?;
            value::set(call, ctx, *to, Value::Number(number));
        }
        ActionKind::Sample { to, distribution } => {
            let number = distribution.sample(ctx.rng);
            value::set(call, ctx, *to, Value::Number(number));
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
    ctx: &mut Ctx<'_>,
    seconds: VarRef,
    micros: VarRef,
) -> Result<(), Trouble> {
    let since = wall_clock()
        .duration_since(std::time::UNIX_EPOCH)
        .map_err(|_| "gettimeofday: the clock is before 1970".to_owned())?;
    value::set(call, ctx, seconds, Value::Number(since.as_secs() as f64));
    value::set(call, ctx, micros, Value::Number(f64::from(since.subsec_micros())));
    Ok(())
}

/// `gettimeofday` is the calendar's time, which the lab's own clock does not have.
#[expect(clippy::disallowed_methods, reason = "the action asks for the calendar's time")]
fn wall_clock() -> std::time::SystemTime {
    std::time::SystemTime::now()
}

fn change_text(call: &mut Call, ctx: &mut Ctx<'_>, variable: VarRef, change: fn(&[u8]) -> Vec<u8>) {
    let text = value::with(call, ctx, variable, |value| change(value.as_text()));
    value::set(call, ctx, variable, Value::Text(text.into_boxed_slice()));
}

/// The operand is cut to a whole number. The number of steps itself is the end of the scenario.
fn jump(call: &Call, ctx: &Ctx<'_>, to: Operand) -> Result<After, Trouble> {
    let step = value::operand(call, ctx, to).trunc();
    let last = ctx.env.scenario.steps.len();
    if !(0.0..=last as f64).contains(&step) {
        return Err(Trouble::Fatal(format!("jump: there is no step {step}, they are 0 to {last}")));
    }
    let step = step as StepIndex;
    if step == call.position {
        return Err(Trouble::Fatal(format!("jump: step {step} jumps to itself and would never end")));
    }
    Ok(After::Jump(step))
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

/// Whether the message's first Authorization proves the password.
fn verify(
    call: &mut Call,
    ctx: &mut Ctx<'_>,
    message: Option<&Incoming<'_>>,
    to: VarRef,
    (username, password): (&Template, &Template),
) -> Result<(), Trouble> {
    let username = rendered(call, ctx, username)?;
    let password = rendered(call, ctx, password)?;
    let proved = message.is_some_and(|message| {
        let authorization = message.header_values("Authorization").next();
        authorization.is_some_and(|authorization| {
            auth::verify(&username, &password, message.method(), authorization, message.body())
        })
    });
    value::set(call, ctx, to, Value::Bool(proved));
    Ok(())
}

fn set_destination(
    call: &mut Call,
    ctx: &mut Ctx<'_>,
    host: &Template,
    port: &Template,
    protocol: &Template,
) -> Result<(), Trouble> {
    let mut text = |template| -> Result<String, Trouble> {
        Ok(String::from_utf8_lossy(&rendered(call, ctx, template)?).trim().to_owned())
    };
    let (host, port, protocol) = (text(host)?, text(port)?, text(protocol)?);
    let Ok(port) = port.parse::<u16>() else {
        return Err(Trouble::Fatal(format!("setdest: '{port}' is not a port")));
    };
    let transport = ctx.env.options.network.transport;
    if !protocol.eq_ignore_ascii_case(transport.via_word()) {
        let own = transport.via_word();
        return Err(Trouble::Fatal(format!(
            "setdest: the run speaks {own}, a call cannot speak '{protocol}'"
        )));
    }
    let address = resolve(&host, port).map_err(Trouble::Fatal)?;
    ctx.out.effects.push(Effect::SetDestination { address, protocol: transport.protocol });
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

fn fatal(ctx: &mut Ctx<'_>, text: &str) -> After {
    ctx.env.tracer.error(ctx.now, text);
    ctx.stats.count(Count::FatalErrors);
    ctx.out.effects.push(Effect::StopNow);
    After::StopCall
}

fn warn(ctx: &mut Ctx<'_>, text: &str) {
    ctx.stats.count(Count::Warnings);
    ctx.env.tracer.error(ctx.now, text);
}

fn rendered(call: &mut Call, ctx: &mut Ctx<'_>, template: &Template) -> Result<Vec<u8>, Trouble> {
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
) -> Result<(), Trouble> {
    let left = value::with(call, ctx, to, Value::as_operand);
    let right = value::operand(call, ctx, by);
    let result = match operation {
        Arithmetic::Add => left + right,
        Arithmetic::Subtract => left - right,
        Arithmetic::Multiply => left * right,
        Arithmetic::Divide if right == 0.0 => return Err("divide: division by zero".to_owned().into()),
        Arithmetic::Divide => left / right,
    };
    value::set(call, ctx, to, Value::Number(result));
    Ok(())
}

impl Compare {
    fn sign(self) -> &'static str {
        match self {
            Compare::Equal => "==",
            Compare::NotEqual => "!=",
            Compare::GreaterThan => ">",
            Compare::LessThan => "<",
            Compare::GreaterThanEqual => ">=",
            Compare::LessThanEqual => "<=",
        }
    }
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

/// A check that failed assigns nothing.
fn compare(call: &mut Call, ctx: &mut Ctx<'_>, test: &Test) -> Result<(), Trouble> {
    let left = value::with(call, ctx, test.variable, Value::as_operand);
    let right = value::operand(call, ctx, test.value);
    let outcome = holds(left, test.compare, right);
    checked(test.check, outcome, Count::FailedTestDoesntMatch, Count::FailedTestShouldntMatch, || {
        format!("test: {left} {} {right} is {outcome}", test.compare.sign())
    })?;
    if let Some(to) = test.assign_to {
        value::set(call, ctx, to, Value::Bool(outcome));
    }
    Ok(())
}

/// Assigns 0 when both are equal, else the difference of the first bytes that differ; the check is for equality.
fn compare_text(call: &mut Call, ctx: &mut Ctx<'_>, strcmp: &StrCmp) -> Result<(), Trouble> {
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
        value::set(call, ctx, to, Value::Number(f64::from(difference)));
    }
    Ok(())
}

fn checked(
    check: Check,
    outcome: bool,
    missed: Count,
    unwanted: Count,
    explanation: impl FnOnce() -> String,
) -> Result<(), Trouble> {
    match check {
        Check::MustMatch if !outcome => Err(Trouble::Failed(missed, explanation())),
        Check::MustNotMatch if outcome => Err(Trouble::Failed(unwanted, explanation())),
        _ => Ok(()),
    }
}

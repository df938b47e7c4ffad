//! The scenario screen: each step and how many calls were there.
//!
//! A client's messages go from left to right, a server's from right to left, so that both sides of a call look alike.

use std::fmt::Write as _;

use lab_sip::scenario::Scenario;
use lab_sip::scenario::model::{Distribution, Expect, Pause, ScenarioStep, SentKind, StepKind};
use lab_sip::stats::{Count, StepCounts};

use crate::engine::{Progress, Setup};

/// The head, then a line for each step that is not hidden.
pub(super) fn screen(setup: &Setup, progress: &Progress) -> String {
    let mut text =
        String::from("------------------------------ Scenario Screen -------- [1-9]: Change Screen --\n");
    head(&mut text, setup, progress);
    text.push_str("\n                                 Messages  Retrans   Timeout   Unexpected-Msg\n");
    let client = setup.scenario.starts_calls();
    for (index, step) in setup.scenario.steps.iter().enumerate() {
        if step.screen.hide {
            continue;
        }
        let counts = progress.total.steps.get(index).copied().unwrap_or_default();
        text.push_str(&line(setup, step, counts, client));
        text.push('\n');
        if step.screen.crlf {
            text.push('\n');
        }
    }
    text
}

/// Rates, times and counts above the steps. Places of SIPp's scheduler figures have threads, blocked arrivals and drops.
fn head(text: &mut String, setup: &Setup, progress: &Progress) {
    let options = &setup.options;
    let gauges = &progress.gauges;
    let counts = &progress.total.counts;
    let seconds = progress.now.since(progress.started).as_secs_f64();
    let total = counts[Count::IncomingCall] + counts[Count::OutgoingCall];
    let port = gauges.local.map_or(0, |local| local.port());
    let word = options.network.transport.via_word();
    if setup.scenario.starts_calls() {
        let remote = options.remote.as_ref().map_or_else(String::new, |remote| remote.address.to_string());
        let rate = match options.rate.users {
            Some(_) => format!("{} users", gauges.users),
            None => format!(
                "{:.1}({} ms)/{:.3}s",
                gauges.target_rate * options.rate.period.as_secs_f64(),
                options.call.pause.as_millis(),
                options.rate.period.as_secs_f64()
            ),
        };
        text.push_str("  Call rate (length)   Port   Total-time  Total-calls  Remote-host\n");
        let _ = writeln!(text, "  {rate:<19}   {port:<5}{seconds:>10.2} s{total:>13}  {remote}({word})");
    } else {
        text.push_str("  Port   Total-time  Total-calls  Transport\n");
        let _ = writeln!(text, "  {port:<5}{seconds:>10.2} s{total:>13}  {word}");
    }
    text.push('\n');
    let interval = &progress.interval.counts;
    let fresh = interval[Count::IncomingCall] + interval[Count::OutgoingCall];
    let first = match options.rate.total {
        Some(limit) if total >= limit => format!("Call limit {limit} hit, 0.0 s period"),
        _ => format!("{fresh} new calls during {:.3} s period", progress.span.as_secs_f64()),
    };
    let _ = writeln!(text, "  {first:<40}0 ms scheduler resolution");
    let peak = gauges.peak_at.since(progress.started).as_secs();
    let left = if setup.scenario.starts_calls() {
        format!("{} calls (limit {})", gauges.open_calls, gauges.limit)
    } else {
        format!("{} calls", gauges.open_calls)
    };
    let _ = writeln!(text, "  {left:<40}Peak was {} calls, after {peak} s", gauges.peak_open_calls);
    let left = format!("{} threads", gauges.threads);
    let _ = writeln!(text, "  {left:<40}{} arrivals blocked", counts[Count::Blocked]);
    let left = format!("{} dead call msg (discarded)", counts[Count::DeadCallMsgs]);
    let _ = writeln!(text, "  {left:<40}{} out-of-call msg (discarded)", counts[Count::OutOfCallMsgs]);
    let left = format!("{} open sockets", gauges.open_sockets);
    let _ = writeln!(
        text,
        "  {left:<40}{} datagrams dropped, {} malformed",
        counts[Count::ReceiveDrops],
        counts[Count::Malformed]
    );
}

/// One step.
fn line(setup: &Setup, step: &ScenarioStep, counts: StepCounts, client: bool) -> String {
    let shown = |name: &str| step.screen.display.clone().unwrap_or_else(|| name.to_owned());
    match &step.kind {
        StepKind::Send(send) => {
            let name = match &send.what {
                SentKind::Request(method) => shown(method),
                SentKind::Response(code) => shown(&code.to_string()),
            };
            let arrow = if client { "---------->" } else { "<----------" };
            // Only a message that is retransmitted can time out.
            let timeout = send.retrans.map(|_| counts.timeouts);
            columns(&side(&name, arrow, client), step, counts, timeout, None)
        }
        StepKind::Recv(recv) => {
            let name = shown(&expected(&recv.expect));
            let arrow = if client { "<----------" } else { "---------->" };
            columns(&side(&name, arrow, client), step, counts, Some(counts.timeouts), Some(counts.unexpected))
        }
        StepKind::Pause(pause) => {
            let name = shown("Pause");
            let left = format!("{name:>12} [{:>9}]", pause_text(setup, pause));
            format!("{left:<33}{:<30}{:<9}", counts.messages, counts.unexpected)
        }
        StepKind::TimeWait(wait) => {
            let left = format!("{:>12} [{:>9}]", shown("TimeWait"), format!("{}ms", wait.as_millis()));
            format!("{left:<33}{:<30}{:<9}", counts.messages, counts.unexpected)
        }
        StepKind::Nop => {
            let name = step.screen.display.clone().unwrap_or_else(|| "[ NOP ]".to_owned());
            format!("              {name}              ")
        }
        StepKind::SendCmd { .. } => {
            format!("{:<33}{:<30}{:<9}", "    [ Send Command ]", counts.messages, "")
        }
        StepKind::RecvCmd { .. } => {
            format!("{:<33}{:<30}{:<9}", "    [ Received Command ]", counts.messages, "")
        }
    }
}

/// The method, code or pattern of a `<recv>`, as it is shown.
pub(crate) fn expected(expect: &Expect) -> String {
    match expect {
        Expect::Request(method) => method.to_string(),
        Expect::Response(code) => code.to_string(),
        Expect::RequestPattern(pattern) | Expect::ResponsePattern(pattern) => pattern.as_str().to_owned(),
    }
}

/// Name and arrow, mirrored for a server.
fn side(name: &str, arrow: &str, client: bool) -> String {
    if client { format!("{name:>12} {arrow}") } else { format!("  {arrow} {name:<10}") }
}

/// The counts of a step in SIPp's columns, padded to 79 characters.
fn columns(
    left: &str,
    step: &ScenarioStep,
    counts: StepCounts,
    timeout: Option<u64>,
    unexpected: Option<u64>,
) -> String {
    let cell = |value: Option<u64>| value.map_or_else(String::new, |value| value.to_string());
    let rtd = rtd(step);
    let line = format!(
        "{left}  {rtd:<6} {:<9} {:<9} {:<9} {:<9}",
        counts.messages,
        counts.retransmissions,
        cell(timeout),
        cell(unexpected)
    );
    format!("{line:<79}")
}

/// Begin or end of a response-time counter, numbered from 1. A step has room for one.
fn rtd(step: &ScenarioStep) -> String {
    if let Some(index) = step.timing.start.first() {
        return format!("B-RTD{}", index + 1);
    }
    step.timing.stop.first().map_or_else(String::new, |index| format!("E-RTD{}", index + 1))
}

/// A pause as its distribution is written in SIPp's screens.
fn pause_text(setup: &Setup, pause: &Pause) -> String {
    match pause {
        Pause::Default => format!("{}ms", setup.options.call.pause.as_millis()),
        Pause::Variable(variable) => format!("${}", variable_name(&setup.scenario, *variable)),
        Pause::For(distribution) => match *distribution {
            Distribution::Fixed(value) => format!("{value}ms"),
            Distribution::Uniform { min, max } => format!("{min}ms/{max}ms"),
            Distribution::Normal { mean, stdev } => format!("N({mean},{stdev})"),
            Distribution::LogNormal { mean, stdev } => format!("LN({mean},{stdev})"),
            Distribution::Exponential { mean } => format!("Exp({mean})"),
            Distribution::Weibull { lambda, k } => format!("Wb({lambda},{k})"),
            Distribution::Pareto { k, x_m } => format!("P({k},{x_m})"),
            Distribution::GeneralisedPareto { shape, scale, location } => {
                format!("GP({shape},{scale},{location})")
            }
            Distribution::Gamma { k, theta } => format!("G({k},{theta})"),
            Distribution::NegativeBinomial { p, n } => format!("NB({p},{n})"),
        },
    }
}

/// The name of a variable in its scope.
fn variable_name(scenario: &Scenario, variable: lab_sip::scenario::model::VarRef) -> &str {
    use lab_sip::scenario::model::Scope;

    let names = match variable.scope {
        Scope::Call => &scenario.variables.call,
        Scope::User => &scenario.variables.user,
        Scope::Global => &scenario.variables.global,
    };
    names.get(usize::from(variable.slot)).map_or("?", String::as_str)
}

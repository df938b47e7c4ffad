//! Steps in words: what is sent or expected, timers, conditions and branches.
//!
//! Each step gets one sentence, then details in a fixed order: what belongs to its kind, the flow, the counters, its actions. Attributes at their
//! defaults are not mentioned.

use std::time::Duration;

use super::super::action::ActionKind;
use super::super::model::{
    ConditionSense, Distribution, Expect, Optional, Pause, RecvStep, Scenario, ScenarioStep, SendStep,
    SentKind, StepIndex, StepKind,
};
use super::template_text::{first_line, shown, variable};
use super::{ExplainedStep, LineNote, actions};

/// `of_calls`: the steps of calls, which labels refer to; otherwise those of `<init>`.
pub(super) fn explained(scenario: &Scenario, steps: &[ScenarioStep], of_calls: bool) -> Vec<ExplainedStep> {
    let one = |(number, step): (usize, &ScenarioStep)| {
        let labels = scenario.labels.iter().filter(|(_, at)| of_calls && *at == number);
        let mut details = kind_details(scenario, step);
        details.extend(flow_details(scenario, step));
        details.extend(timing_details(scenario, step));
        details.extend(step.actions.iter().map(|action| actions::text(action, &scenario.variables)));
        ExplainedStep {
            number,
            line: step.line,
            element: element(&step.kind).to_owned(),
            labels: labels.map(|(name, _)| name.clone()).collect(),
            text: text(scenario, step),
            details,
        }
    };
    steps.iter().enumerate().map(one).collect()
}

/// Parts of the language that SIPp stops at.
pub(super) fn not_of_sipp(scenario: &Scenario, notes: &mut Vec<LineNote>) {
    let actions = scenario.init.iter().chain(&scenario.steps).flat_map(|step| &step.actions);
    for action in actions.filter(|action| matches!(action.kind, ActionKind::RtpCheck(_))) {
        let text = "<rtpcheck> is Ringer's own: SIPp does not run this scenario".to_owned();
        notes.push(LineNote { line: action.line, text });
    }
}

/// As the element is spelt in a file.
fn element(kind: &StepKind) -> &'static str {
    match kind {
        StepKind::Send(_) => "send",
        StepKind::Recv(_) => "recv",
        StepKind::Pause(_) => "pause",
        StepKind::TimeWait(_) => "timewait",
        StepKind::Nop => "nop",
        StepKind::SendCmd { .. } => "sendCmd",
        StepKind::RecvCmd { .. } => "recvCmd",
    }
}

/// The sentence. Of a request its first line is shown, of a response the code and the reason phrase without `SIP/2.0`.
fn text(scenario: &Scenario, step: &ScenarioStep) -> String {
    let variables = &scenario.variables;
    match &step.kind {
        StepKind::Send(send) => match &send.what {
            SentKind::Request(_) => format!("sends {}", first_line(&send.message, variables)),
            SentKind::Response(code) => {
                let line = first_line(&send.message, variables);
                let reason = line.splitn(3, ' ').nth(2).unwrap_or_default();
                format!("sends {code} {reason}").trim_end().to_owned()
            }
        },
        StepKind::Recv(recv) => received(recv),
        StepKind::Pause(pause) => match pause {
            Pause::Default => "pauses as long as -d says (not at all without -d)".to_owned(),
            Pause::For(distribution) => format!("pauses {}", drawn(distribution, " ms")),
            Pause::Variable(of) => {
                format!("pauses as many milliseconds as {} says", variable(variables, *of))
            }
        },
        StepKind::TimeWait(time) => {
            format!("ends the call, and answers retransmissions of the peer for {}", millis(*time))
        }
        StepKind::Nop if step.actions.is_empty() => "does nothing".to_owned(),
        StepKind::Nop => "only acts".to_owned(),
        StepKind::SendCmd { message, dest } => {
            let to = dest.as_deref().unwrap_or("the twin instance");
            format!("sends a command to {to}: {}", shown(message, variables))
        }
        StepKind::RecvCmd { src, optional } => {
            let from = src.as_deref().unwrap_or("the other instance");
            if *optional {
                format!("may receive a command of {from}")
            } else {
                format!("waits for a command of {from}")
            }
        }
    }
}

/// The message that a `<recv>` is for, and whether the call may go on without it.
fn received(recv: &RecvStep) -> String {
    let what = match &recv.expect {
        Expect::Request(method) => format!("a request {method}"),
        Expect::Response(code) => format!("a response {code}"),
        Expect::RequestPattern(_) => "a request whose method matches a regular expression".to_owned(),
        Expect::ResponsePattern(_) => "a response whose code matches a regular expression".to_owned(),
    };
    match recv.optional {
        Optional::No => format!("waits for {what}"),
        Optional::Yes => format!("may receive {what}; a later step's message skips this one"),
        Optional::Global => format!("may receive {what}, here and at any later step"),
    }
}

/// Attributes that only one kind of step has.
fn kind_details(scenario: &Scenario, step: &ScenarioStep) -> Vec<String> {
    match &step.kind {
        StepKind::Send(send) => sent_details(scenario, send),
        StepKind::Recv(recv) => received_details(scenario, recv),
        _ => Vec::new(),
    }
}

/// Retransmission, timeout and transactions of a `<send>`.
fn sent_details(scenario: &Scenario, send: &SendStep) -> Vec<String> {
    let mut details = Vec::new();
    if let Some(t1) = send.retrans {
        details
            .push(format!("over UDP sent again after {}, then twice that, until it is answered", millis(t1)));
    }
    if let Some(timeout) = send.timeout {
        details.push(format!("may wait {} to be sent", millis(timeout)));
    }
    for (slot, words) in [
        (send.start_txn, "opens the transaction"),
        (send.ack_txn, "is the ACK of the transaction"),
        (send.response_txn, "answers the request of the transaction"),
    ] {
        details.extend(slot.map(|slot| format!("{words} `{}`", transaction(scenario, slot))));
    }
    details
}

/// Timeout, transactions and switches of a `<recv>`. A timeout in milliseconds goes before one in a variable.
fn received_details(scenario: &Scenario, recv: &RecvStep) -> Vec<String> {
    let mut details = Vec::new();
    match (recv.timeout, recv.timeout_variable) {
        (Some(timeout), _) => details.push(format!("waits {} at most", millis(timeout))),
        (None, Some(of)) => {
            let name = variable(&scenario.variables, of);
            details.push(format!("waits as many milliseconds as {name} says at most"));
        }
        (None, None) => {}
    }
    if let Some(slot) = recv.response_txn {
        details.push(format!("only a response of the transaction `{}`", transaction(scenario, slot)));
    }
    if let Some(slot) = recv.start_txn {
        details.push(format!("the request is kept as the transaction `{}`", transaction(scenario, slot)));
    }
    for (is_so, words) in [
        (recv.rrs, "keeps the route set and the peer's Contact for [routes] and [next_url]"),
        (recv.auth, "keeps the challenge for [authentication]"),
        (!recv.advance_state, "leaves the call at its present step"),
        (recv.ignore_sdp, "does not redirect media by this message's SDP"),
    ] {
        if is_so {
            details.push(words.to_owned());
        }
    }
    details
}

/// Condition, intended loss and branches, which all kinds of steps can have.
fn flow_details(scenario: &Scenario, step: &ScenarioStep) -> Vec<String> {
    let flow = &step.flow;
    let mut details = Vec::new();
    let name = |of| variable(&scenario.variables, of);
    if let Some((of, sense)) = flow.condition {
        let word = if sense == ConditionSense::Set { "is set" } else { "is not set" };
        details.push(format!("only if {} {word}", name(of)));
    }
    if let Some(lost) = flow.lost {
        details
            .push(format!("dropped on purpose in {:.4} % of all cases", lost * 100.0).replace(".0000", ""));
    }
    if let Some(next) = flow.next {
        let mut text = format!("then goes to {}", place(scenario, next));
        if let Some(of) = flow.test {
            text = format!("{text} if {} is set", name(of));
        }
        if let Some(chance) = flow.chance {
            text = format!("{text} with probability {chance}");
        }
        if matches!(&step.kind, StepKind::Recv(recv) if recv.optional != Optional::No) {
            text.push_str(", when it came");
        }
        details.push(text);
    }
    if let Some(next) = flow.on_timeout {
        details.push(format!("when its time is over, goes to {}", place(scenario, next)));
    }
    details
}

/// Response-time counters and plain counters. Slots are looked up, so a reader sees the names of the file.
fn timing_details(scenario: &Scenario, step: &ScenarioStep) -> Vec<String> {
    let timing = &step.timing;
    let names = |slots: &[u16]| -> String {
        let named = slots.iter().filter_map(|slot| scenario.rtds.get(usize::from(*slot)));
        named.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
    };
    let mut details = Vec::new();
    if !timing.start.is_empty() {
        details.push(format!("starts the response-time counter {}", names(&timing.start)));
    }
    if !timing.stop.is_empty() {
        let again = if timing.repeat { ", each time it is reached" } else { "" };
        details.push(format!("stops the response-time counter {}{again}", names(&timing.stop)));
    }
    let counter = timing.counter.and_then(|slot| scenario.counters.get(usize::from(slot)));
    details.extend(counter.map(|name| format!("counts one more of `{name}`")));
    details
}

/// `step 4 (label `again`)`, or the end.
fn place(scenario: &Scenario, at: StepIndex) -> String {
    let label = scenario.labels.iter().find(|(_, step)| *step == at).map(|(name, _)| name.as_str());
    let label = label.map_or_else(String::new, |name| format!(" (label `{name}`)"));
    if at >= scenario.steps.len() { format!("the end{label}") } else { format!("step {at}{label}") }
}

/// The name behind a slot; `?` cannot appear for a scenario that compiled.
fn transaction(scenario: &Scenario, slot: u16) -> &str {
    scenario.transactions.get(usize::from(slot)).map_or("?", String::as_str)
}

/// `2 s`, `500 ms`.
pub(super) fn millis(time: Duration) -> String {
    match time.as_millis() {
        0 => "0 ms".to_owned(),
        whole if whole.is_multiple_of(1_000) => format!("{} s", whole / 1_000),
        whole => format!("{whole} ms"),
    }
}

/// A value of a distribution in words.
pub(super) fn drawn(distribution: &Distribution, unit: &str) -> String {
    match *distribution {
        Distribution::Fixed(value) => format!("{value}{unit}"),
        Distribution::Uniform { min, max } => format!("{min} to {max}{unit}, each as likely"),
        Distribution::Normal { mean, stdev } => {
            format!("{mean}{unit} on average (normal distribution, standard deviation {stdev})")
        }
        Distribution::LogNormal { mean, stdev } => {
            format!(
                "a log-normal time{} (mean {mean}, standard deviation {stdev} of the logarithm)",
                of(unit)
            )
        }
        Distribution::Exponential { mean } => format!("{mean}{unit} on average (exponential distribution)"),
        Distribution::Weibull { lambda, k } => {
            format!("a Weibull value{} (lambda {lambda}, k {k})", of(unit))
        }
        Distribution::Pareto { k, x_m } => format!("a Pareto value{} (k {k}, x_m {x_m})", of(unit)),
        Distribution::GeneralisedPareto { shape, scale, location } => {
            format!(
                "a generalised Pareto value{} (shape {shape}, scale {scale}, location {location})",
                of(unit)
            )
        }
        Distribution::Gamma { k, theta } => format!("a gamma value{} (k {k}, theta {theta})", of(unit)),
        Distribution::NegativeBinomial { p, n } => {
            format!("a negative binomial value{} (p {p}, n {n})", of(unit))
        }
    }
}

/// ` in ms` for a unit with its leading blank; nothing for a number without one.
fn of(unit: &str) -> String {
    if unit.is_empty() { String::new() } else { format!(" in{unit}") }
}

//! Commands: `send`, `recv`, `pause`, `timewait`, `nop`, `sendCmd`, `recvCmd`, and what all of them have.
//!
//! [`step`] makes one step of one element: its kind with the attributes of that kind, and then the attributes that every step may have
//! (timing, screen, flow) and its actions.

use std::time::Duration;

use super::super::lexicon::{
    ACTIONS, COMMON, DISTRIBUTION_ATTRIBUTES, DISTRIBUTIONS, ElementDoc, ElementName, nearest,
};
use super::super::model::{
    ConditionSense, Distribution, Expect, Optional, Pause, RecvStep, ScenarioStep, ScreenHints, SendStep,
    SentKind, StepFlow, StepIndex, StepKind, Timing,
};
use super::super::template::{Template, TemplatePart};
use super::super::xml::Element;
use super::actions;
use super::context::{CompileContext, ElementNode, Labels, TransactionUsage};
use crate::regex::Regex;

/// A step that could not be made is still counted, so that the labels below it are right: it becomes a `nop`.
pub(super) fn step(
    context: &mut CompileContext,
    element: &Element,
    doc: &ElementDoc,
    at: StepIndex,
    labels: &mut Labels,
) -> ScenarioStep {
    let node = node(element, doc);
    context.warn_unknown_attributes(node);
    let kind = match doc.id {
        ElementName::Send => send(context, node),
        ElementName::Recv => recv(context, node),
        ElementName::Pause => pause(context, node),
        ElementName::TimeWait => Some(time_wait(context, node)),
        ElementName::SendCmd => send_cmd(context, node),
        ElementName::RecvCmd => recv_cmd(context, node),
        _ => Some(StepKind::Nop),
    };
    let timing = timing(context, node);
    let actions = actions_of(context, element);
    let screen = screen(context, node);
    let flow = flow(context, node, at, labels, doc.id == ElementName::TimeWait);
    ScenarioStep { line: element.line, kind: kind.unwrap_or(StepKind::Nop), flow, timing, screen, actions }
}

/// The element with the tables of its attributes.
fn node<'a>(element: &'a Element, doc: &ElementDoc) -> ElementNode<'a> {
    let distributed = if doc.id == ElementName::Pause { DISTRIBUTION_ATTRIBUTES } else { &[] };
    ElementNode::new(element, [doc.attributes, COMMON, distributed])
}

/// The message is cut at its keywords; its first word decides whether it is a request or a response.
fn send(context: &mut CompileContext, node: ElementNode<'_>) -> Option<StepKind> {
    let retrans = duration(context, node, "retrans");
    let timeout = duration(context, node, "timeout");
    let (trimmed, line) = context.cdata(node.element)?;
    let message = context.cut(&trimmed.into_message(), line)?;
    let what = match sent_kind(&message) {
        Ok(what) => what,
        Err(problem) => {
            context.error(line, problem);
            return None;
        }
    };
    let method = match &what {
        SentKind::Request(method) => Some(method.as_ref()),
        SentKind::Response(_) => None,
    };
    let response_txn = answered_transaction(context, node, method);
    let (start_txn, ack_txn) = sent_transactions(context, node, method);
    Some(StepKind::Send(SendStep { message, what, retrans, timeout, start_txn, ack_txn, response_txn }))
}

/// `response_txn` of a `<send>`: the transaction whose request a `<recv>` kept.
fn answered_transaction(
    context: &mut CompileContext,
    node: ElementNode<'_>,
    method: Option<&str>,
) -> Option<u16> {
    let value = node.get("response_txn")?;
    if method.is_some() {
        context.error(
            value.line,
            "response_txn= on a request: in <send> it is for a response; expected start_txn or ack_txn",
        );
        return None;
    }
    transaction(context, &value.text(), value.line, |uses| uses.answered += 1)
}

/// `start_txn` and `ack_txn`; the first excludes the second.
fn sent_transactions(
    context: &mut CompileContext,
    node: ElementNode<'_>,
    method: Option<&str>,
) -> (Option<u16>, Option<u16>) {
    if let Some(value) = node.get("start_txn") {
        match method {
            None => context.error(value.line, "start_txn= on a response: only a request opens a transaction"),
            Some("ACK") => context.error(value.line, "start_txn= on an ACK: expected ack_txn"),
            Some(method) => {
                let slot = transaction(context, &value.text(), value.line, |uses| {
                    uses.started += 1;
                    uses.invite |= method == "INVITE";
                });
                return (slot, None);
            }
        }
    } else if let Some(value) = node.get("ack_txn") {
        if method != Some("ACK") {
            context.error(value.line, "ack_txn= is for an ACK only");
            return (None, None);
        }
        return (None, transaction(context, &value.text(), value.line, |uses| uses.acks += 1));
    }
    (None, None)
}

/// The slot of a transaction, with a note of this use.
fn transaction(
    context: &mut CompileContext,
    name: &str,
    line: u32,
    note: impl FnOnce(&mut TransactionUsage),
) -> Option<u16> {
    // `$` and `,` are the signs of a variable and of a list.
    if name.is_empty() || name.contains(['$', ',']) {
        context.error(line, format!("`{name}` is no name of a transaction: expected one without $ and ,"));
        return None;
    }
    let Some(slot) = context.transactions.slot(name) else {
        context.error(line, "more than 65,536 transactions");
        return None;
    };
    let uses = &mut context.transaction_uses;
    // A new slot is always the next one, so one entry more is enough; its line is that of the first use.
    if uses.len() <= usize::from(slot) {
        uses.push(TransactionUsage { line, ..TransactionUsage::default() });
    }
    note(&mut uses[usize::from(slot)]);
    Some(slot)
}

/// Method or status code out of the first literal.
fn sent_kind(message: &Template) -> Result<SentKind, String> {
    const EXPECTED: &str = "a message must begin with a method (`INVITE sip:…`) or `SIP/2.0 CODE`, written out and \
                            not as a keyword";
    // A keyword at the start would leave open until the call whether it is a request.
    let Some(TemplatePart::Text(literal)) = message.parts.first() else { return Err(EXPECTED.to_owned()) };
    let Some(space) = memchr::memchr(b' ', literal) else { return Err(EXPECTED.to_owned()) };
    let first = super::super::xml::text(&literal[..space]);
    if first.is_empty() || first.contains(['\r', '\n']) {
        return Err(EXPECTED.to_owned());
    }
    if first != "SIP/2.0" {
        return Ok(SentKind::Request(first.into()));
    }
    let code = literal[space..].trim_ascii_start();
    let digits = code.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let ends = code.get(digits).is_none_or(u8::is_ascii_whitespace);
    let number = std::str::from_utf8(&code[..digits]).ok().and_then(|digits| digits.parse::<u16>().ok());
    match number {
        Some(code @ 100..=699) if ends => Ok(SentKind::Response(code)),
        _ => Err("no status code after SIP/2.0: expected a number from 100 to 699, written out".to_owned()),
    }
}

/// Attributes are all read before the first mistake returns, so that each is reported.
fn recv(context: &mut CompileContext, node: ElementNode<'_>) -> Option<StepKind> {
    let optional = optional(context, node);
    let advance_state = context.boolean(node, "advance_state").unwrap_or(true);
    if !advance_state && optional == Optional::No {
        context.error(node.line(), "advance_state=\"false\" is only for an optional <recv>");
    }
    let timeout = duration(context, node, "timeout");
    let timeout_variable = context.variable_of(node, "timeout_variable");
    if timeout_variable.is_some() && node.get("timeout").is_some() {
        context.error(node.line(), "<recv> with both timeout= and timeout_variable=: expected one of them");
    }
    let rrs = context.boolean(node, "rrs").unwrap_or(false);
    let auth = context.boolean(node, "auth").unwrap_or(false);
    let ignore_sdp = context.boolean(node, "ignoresdp").unwrap_or(false);
    let expect = expect(context, node);
    let response_txn = match node.get("response_txn") {
        Some(value) if node.get("response").is_none() => {
            context.error(value.line, "response_txn= is for a received response: expected response= too");
            None
        }
        Some(value) => transaction(context, &value.text(), value.line, |uses| uses.responses += 1),
        None => None,
    };
    let start_txn = match node.get("start_txn") {
        Some(value) if node.get("request").is_none() => {
            context.error(value.line, "start_txn= on <recv> keeps a request: expected request= too");
            None
        }
        Some(value) => transaction(context, &value.text(), value.line, |uses| uses.kept += 1),
        None => None,
    };
    let expect = expect?;
    Some(StepKind::Recv(RecvStep {
        expect,
        optional,
        timeout,
        timeout_variable,
        start_txn,
        rrs,
        auth,
        response_txn,
        advance_state,
        ignore_sdp,
    }))
}

/// `request=` or `response=`, with `regexp_match` a pattern.
fn expect(context: &mut CompileContext, node: ElementNode<'_>) -> Option<Expect> {
    let pattern = context.boolean(node, "regexp_match").unwrap_or(false);
    let value = match (node.get("response"), node.get("request")) {
        (Some(value), None) | (None, Some(value)) => value,
        (None, None) => {
            context.error(node.line(), "<recv> with neither response= nor request=: expected one of them");
            return None;
        }
        (Some(_), Some(_)) => {
            context.error(node.line(), "<recv> with both response= and request=: expected one of them");
            return None;
        }
    };
    let written = value.text();
    // A plain code stays a code with `regexp_match` too.
    let code = written.trim().parse::<u16>().ok().filter(|code| (100..=699).contains(code));
    match (value.name, code) {
        ("response", Some(code)) => return Some(Expect::Response(code)),
        ("response", None) if !pattern => {
            context
                .error(value.line, format!("response=\"{written}\": expected a status code from 100 to 699"));
            return None;
        }
        ("request", _) if written.is_empty() => {
            context.error(value.line, "request=\"\": expected a method");
            return None;
        }
        ("request", _) if !pattern => return Some(Expect::Request(written.into())),
        _ => {}
    }
    match Regex::new(&written) {
        Ok(regex) if value.name == "request" => Some(Expect::RequestPattern(regex)),
        Ok(regex) => Some(Expect::ResponsePattern(regex)),
        Err(problem) => {
            context.error(
                value.line,
                format!("{}=\"{written}\" is no regular expression: {problem}", value.name),
            );
            None
        }
    }
}

/// `global`: the message may come at any later time.
fn optional(context: &mut CompileContext, node: ElementNode<'_>) -> Optional {
    let Some(value) = node.get("optional") else { return Optional::No };
    match value.text().as_str() {
        "true" => Optional::Yes,
        "global" => Optional::Global,
        "false" => Optional::No,
        other => {
            context.error(value.line, format!("optional=\"{other}\": expected true, false or global"));
            Optional::No
        }
    }
}

/// In this order: a variable, a distribution by name, a distribution by its attribute, `min` and `max`, `milliseconds`; else `-d`.
fn pause(context: &mut CompileContext, node: ElementNode<'_>) -> Option<StepKind> {
    // Accepted without effect; only its spelling is checked.
    context.boolean(node, "sanity_check");
    if node.get("variable").is_some() {
        return context
            .variable_of(node, "variable")
            .map(|variable| StepKind::Pause(Pause::Variable(variable)));
    }
    // The distribution's name as an attribute, such as `normal="true"`; its parameters are the same.
    const SHORT: [&str; 6] = ["normal", "exponential", "lognormal", "weibull", "pareto", "gamma"];
    let pause = if let Some(value) = node.get("distribution") {
        Pause::For(distribution(context, node, &value.text())?)
    } else if let Some(name) = SHORT.into_iter().find(|name| node.get(name).is_some()) {
        Pause::For(distribution(context, node, name)?)
    } else if node.get("min").is_some() || node.get("max").is_some() {
        Pause::For(distribution(context, node, "uniform")?)
    } else if node.get("milliseconds").is_some() {
        Pause::For(Distribution::Fixed(context.double(node, "milliseconds")?))
    } else {
        Pause::Default
    };
    Some(StepKind::Pause(pause))
}

/// The distribution of `<pause>` or `<sample>`, whose tables both hold the distributions' attributes.
pub(super) fn distribution(
    context: &mut CompileContext,
    node: ElementNode<'_>,
    name: &str,
) -> Option<Distribution> {
    let Some(doc) = DISTRIBUTIONS.iter().find(|doc| doc.name == name) else {
        let names = super::list(DISTRIBUTIONS.iter().map(|doc| doc.name));
        context.error(node.line(), format!("distribution `{name}` is not known: expected one of {names}"));
        return None;
    };
    // No distribution has more than three parameters; their order is that of the lexicon's table.
    let mut values = [0.0; 3];
    let mut complete = true;
    for (value, parameter) in values.iter_mut().zip(doc.parameters) {
        let read = context.required(node, parameter).and_then(|_| context.double(node, parameter));
        complete &= read.is_some();
        *value = read.unwrap_or_default();
    }
    let [first, second, third] = values;
    complete.then_some(match doc.name {
        "uniform" => Distribution::Uniform { min: first, max: second },
        "normal" => Distribution::Normal { mean: first, stdev: second },
        "lognormal" => Distribution::LogNormal { mean: first, stdev: second },
        "exponential" => Distribution::Exponential { mean: first },
        "weibull" => Distribution::Weibull { lambda: first, k: second },
        "pareto" => Distribution::Pareto { k: first, x_m: second },
        "gpareto" => Distribution::GeneralisedPareto { shape: first, scale: second, location: third },
        "gamma" => Distribution::Gamma { k: first, theta: second },
        "negbin" => Distribution::NegativeBinomial { p: first, n: second },
        _ => Distribution::Fixed(first),
    })
}

/// `<timewait>`: the last step.
fn time_wait(context: &mut CompileContext, node: ElementNode<'_>) -> StepKind {
    if node.get("milliseconds").is_none() {
        context.warn(node.line(), "<timewait> without milliseconds= waits for nothing (SIPp takes -d)");
    }
    let milliseconds = context.double(node, "milliseconds").unwrap_or_default();
    StepKind::TimeWait(Duration::try_from_secs_f64(milliseconds / 1000.0).unwrap_or_default())
}

/// A command to another instance (third-party call control). Unlike that of `<send>`, its first line may be anything.
fn send_cmd(context: &mut CompileContext, node: ElementNode<'_>) -> Option<StepKind> {
    let (trimmed, line) = context.cdata(node.element)?;
    let message = context.cut(&trimmed.bytes, line)?;
    Some(StepKind::SendCmd { message, dest: node.get("dest").map(|value| value.text()) })
}

/// `optional="global"` means the same as `true` here.
fn recv_cmd(context: &mut CompileContext, node: ElementNode<'_>) -> Option<StepKind> {
    let optional = optional(context, node) != Optional::No;
    Some(StepKind::RecvCmd { src: node.get("src").map(|value| value.text()), optional })
}

/// Milliseconds; 0 is as if it were not written.
fn duration(context: &mut CompileContext, node: ElementNode<'_>, name: &'static str) -> Option<Duration> {
    context.unsigned(node, name).filter(|&milliseconds| milliseconds > 0).map(Duration::from_millis)
}

/// Response-time counters that the step starts and stops, and a counter that it adds to.
fn timing(context: &mut CompileContext, node: ElementNode<'_>) -> Timing {
    let stop = rtds(context, node, "rtd");
    let start = rtds(context, node, "start_rtd");
    let repeat = context.boolean(node, "repeat_rtd").unwrap_or(false);
    if node.get("repeat_rtd").is_some() && stop.is_empty() {
        context.error(node.line(), "repeat_rtd= without rtd=: expected the counter that it is about");
    }
    let counter = node.get("counter").and_then(|value| {
        let name = value.text();
        if name.is_empty() || name.contains(['$', ',']) {
            context.error(value.line, format!("counter=\"{name}\": expected a name without $ and ,"));
            return None;
        }
        context.counters.slot(&name)
    });
    Timing { start, stop, repeat, counter }
}

/// Names by commas; `true` is SIPp's name of the first counter.
fn rtds(context: &mut CompileContext, node: ElementNode<'_>, name: &'static str) -> Vec<u16> {
    let Some(value) = node.get(name) else { return Vec::new() };
    let written = value.text();
    let names = written.split(',').map(str::trim).filter(|name| !name.is_empty() && *name != "false");
    let names = names.map(|name| if name == "true" { "1" } else { name });
    // Names that are new get the next slot; too many of them are left out.
    names.filter_map(|name| context.rtds.slot(name)).collect()
}

/// How the scenario screen shows the step. `hiderest` lasts until the next one.
fn screen(context: &mut CompileContext, node: ElementNode<'_>) -> ScreenHints {
    if let Some(hide) = context.boolean(node, "hiderest") {
        context.hide = hide;
    }
    ScreenHints {
        crlf: node.get("crlf").is_some(),
        hide: context.boolean(node, "hide").unwrap_or(context.hide),
        display: node.get("display").map(|value| value.text()),
    }
}

/// Conditions and jumps. `test` and `chance` need a `next` to act on.
fn flow(
    context: &mut CompileContext,
    node: ElementNode<'_>,
    at: StepIndex,
    labels: &mut Labels,
    last: bool,
) -> StepFlow {
    let mut flow = StepFlow::default();
    if let Some(variable) = context.variable_of(node, "condexec") {
        let inverse = context.boolean(node, "condexec_inverse").unwrap_or(false);
        flow.condition = Some((variable, if inverse { ConditionSense::NotSet } else { ConditionSense::Set }));
    }
    // Labels may come later in the file: they are looked up when all steps are there.
    for name in ["next", "ontimeout"] {
        match node.get(name) {
            Some(value) if last => {
                context.error(value.line, format!("{name}= on <timewait>: nothing comes after it"));
            }
            Some(value) => labels.want(at, value),
            None => {}
        }
    }
    // Without `next` neither has a place to go, and both are ignored.
    if node.get("next").is_some() {
        flow.test = context.variable_of(node, "test");
        flow.chance = context.double(node, "chance");
        if flow.chance.is_some_and(|chance| !(0.0..=1.0).contains(&chance)) {
            context.error(node.line(), "chance= out of range: expected a number from 0 to 1");
        }
    }
    // SIPp counts in per cent; beyond a hundred is always.
    flow.lost = context.double(node, "lost").map(|percent| (percent / 100.0).clamp(0.0, 1.0));
    flow
}

/// The actions of the first child only, as in SIPp.
fn actions_of(context: &mut CompileContext, element: &Element) -> Vec<super::super::action::Action> {
    let mut list = Vec::new();
    for (position, child) in element.children.iter().enumerate() {
        let line = child.line;
        if child.name == "action" && position == 0 {
            list.extend(child.children.iter().filter_map(|child| actions::action(context, child)));
        // SIPp looks at the first child alone; everything else only warns, with the likely intention.
        } else if child.name == "action" {
            context.warn(
                line,
                format!("an <action> that is not the first in <{}> is ignored, as in SIPp", element.name),
            );
        } else if ACTIONS.iter().any(|doc| doc.name == child.name) {
            context.warn(line, format!("<{}> outside <action> is ignored, as in SIPp", child.name));
        } else {
            let hint =
                nearest(&child.name, ["action"].into_iter()).map_or("", |_| "; did you mean <action>?");
            let message = format!("<{}> in <{}> is ignored, as in SIPp{hint}", child.name, element.name);
            context.warn(line, message);
        }
    }
    list
}

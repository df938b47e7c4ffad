//! The elements of `<action>`.
//!
//! One function an action or group of actions. Each reads its attributes by [`CompileContext`], which notes mistakes; `None` means that a mistake
//! was noted. Attributes that an action does not have only warn, as SIPp ignores them.

use std::time::Duration;

use super::super::action::{
    Action, ActionCheck, ActionKind, Arithmetic, CompareOperator, EchoControl, EchoVerb, Ereg,
    InternalCommand, Operand, PlayKind, RtpCheck, RtpStream, SearchIn, StrCmp, StrOperand, VariableTest,
};
use super::super::lexicon::{ACTIONS, ActionName, DISTRIBUTION_ATTRIBUTES, nearest};
use super::super::model::VarRef;
use super::super::xml::Element;
use super::context::{AttributeValue, CompileContext, ElementNode};
use super::steps;
use crate::regex::Regex;

/// The payload type that SIPp's `play_dtmf` sends events with.
const DTMF_TYPE: u8 = 96;

/// One child of `<action>`.
pub(super) fn action(context: &mut CompileContext, element: &Element) -> Option<Action> {
    let Some(doc) = ACTIONS.iter().find(|doc| doc.name == element.name) else {
        let names = || ACTIONS.iter().map(|doc| doc.name);
        let hint = nearest(&element.name, names()).map_or_else(
            || format!("expected one of {}", super::list(names())),
            |near| format!("did you mean <{near}>?"),
        );
        context.error(element.line, format!("<{}> is no action: {hint}", element.name));
        return None;
    };
    // `<sample>` may have the attributes of all distributions; the named one decides which are required.
    let distributed = if doc.id == ActionName::Sample { DISTRIBUTION_ATTRIBUTES } else { &[] };
    let node = ElementNode::new(element, [doc.attributes, distributed, &[]]);
    context.warn_unknown_attributes(node);
    kind(context, node, doc.id).map(|kind| Action { line: element.line, kind })
}

/// The action by its name in the lexicon.
fn kind(context: &mut CompileContext, node: ElementNode<'_>, name: ActionName) -> Option<ActionKind> {
    Some(match name {
        ActionName::Ereg => ActionKind::Ereg(Box::new(ereg(context, node)?)),
        ActionName::Log => ActionKind::Log(context.required_template(node, "message")?),
        ActionName::Warning => ActionKind::Warning(context.required_template(node, "message")?),
        ActionName::Error => ActionKind::Error(context.required_template(node, "message")?),
        ActionName::Assign => {
            let (to, value) = target_and_operand(context, node)?;
            ActionKind::Assign { to, value }
        }
        ActionName::Add => arithmetic(context, node, Arithmetic::Add)?,
        ActionName::Subtract => arithmetic(context, node, Arithmetic::Subtract)?,
        ActionName::Multiply => arithmetic(context, node, Arithmetic::Multiply)?,
        ActionName::Divide => arithmetic(context, node, Arithmetic::Divide)?,
        ActionName::Sample => sample(context, node)?,
        ActionName::Test => ActionKind::Test(Box::new(test(context, node)?)),
        ActionName::StrCmp => ActionKind::StrCmp(Box::new(strcmp(context, node)?)),
        ActionName::Jump => ActionKind::Jump(operand(context, node)?),
        ActionName::PauseRestore => ActionKind::PauseRestore(operand(context, node)?),
        ActionName::RtpEcho => ActionKind::RtpEcho(operand(context, node)?),
        ActionName::CloseCon => ActionKind::CloseCon,
        ActionName::Exec => exec(context, node)?,
        ActionName::RtpStats => rtp_stats(context, node)?,
        ActionName::RtpDtmf => rtp_dtmf(context, node)?,
        ActionName::RtpCheck => ActionKind::RtpCheck(Box::new(rtpcheck(context, node)?)),
        // Ringer's own `<index assign_to=>` gives the number of the step; SIPp's has a file.
        ActionName::Index if node.get("file").is_none() => {
            ActionKind::StepNumber { to: context.required_variable(node, "assign_to")? }
        }
        ActionName::Index | ActionName::Lookup | ActionName::Insert | ActionName::Replace => {
            injection(context, node, name)?
        }
        _ => on_variables(context, node, name)?,
    })
}

/// The rest: each reads or writes variables and little else.
fn on_variables(context: &mut CompileContext, node: ElementNode<'_>, name: ActionName) -> Option<ActionKind> {
    Some(match name {
        ActionName::AssignStr => ActionKind::AssignStr {
            to: context.required_variable(node, "assign_to")?,
            value: context.required_template(node, "value")?,
        },
        ActionName::ToDouble => ActionKind::ToDouble {
            to: context.required_variable(node, "assign_to")?,
            from: context.required_variable(node, "variable")?,
        },
        ActionName::Trim => ActionKind::Trim(context.required_variable(node, "assign_to")?),
        ActionName::UrlEncode => ActionKind::UrlEncode(context.required_variable(node, "variable")?),
        ActionName::UrlDecode => ActionKind::UrlDecode(context.required_variable(node, "variable")?),
        ActionName::GetTimeOfDay => {
            let value = context.required(node, "assign_to")?;
            let [seconds, micros] = variables(context, value)[..] else {
                context.error(
                    value.line,
                    "<gettimeofday> gives two numbers: expected assign_to=\"seconds,microseconds\"",
                );
                return None;
            };
            ActionKind::GetTimeOfDay { seconds, micros }
        }
        ActionName::VerifyAuth => ActionKind::VerifyAuth {
            to: context.required_variable(node, "assign_to")?,
            username: context.required_template(node, "username")?,
            password: context.required_template(node, "password")?,
        },
        ActionName::SetDest => ActionKind::SetDest {
            host: context.required_template(node, "host")?,
            port: context.required_template(node, "port")?,
            protocol: context.required_template(node, "protocol")?,
        },
        _ => return None,
    })
}

/// Actions on injection files.
fn injection(context: &mut CompileContext, node: ElementNode<'_>, name: ActionName) -> Option<ActionKind> {
    // Asked for with `?` only after the others are read, so that mistakes in several attributes are all reported.
    let file = context.required_template(node, "file");
    Some(match name {
        ActionName::Index => {
            // `unsigned` says nothing about an attribute that is missing.
            context.required(node, "field")?;
            let field = context.unsigned(node, "field")?;
            let field = u32::try_from(field).map_err(|_| context.error(node.line(), "field= is too large"));
            ActionKind::Index { file: file?, field: field.ok()? }
        }
        ActionName::Lookup => {
            let to = context.required_variable(node, "assign_to");
            let key = context.required_template(node, "key");
            ActionKind::Lookup { to: to?, file: file?, key: key? }
        }
        ActionName::Insert => {
            ActionKind::Insert { value: context.required_template(node, "value")?, file: file? }
        }
        // `<replace>`.
        _ => {
            let line = context.required_template(node, "line");
            let value = context.required_template(node, "value");
            ActionKind::Replace { file: file?, line: line?, value: value? }
        }
    })
}

/// `assign_to="a,b"`: each name, declared or new.
fn variables(context: &mut CompileContext, value: AttributeValue<'_>) -> Vec<VarRef> {
    let mut list = Vec::new();
    for name in value.text().split(',') {
        match context.variable(name.trim(), value.line) {
            Ok(variable) => list.push(variable),
            Err(message) => context.error(value.line, format!("{}=: {message}", value.name)),
        }
    }
    list
}

/// `value=` or `variable=`, exactly one of them.
fn operand(context: &mut CompileContext, node: ElementNode<'_>) -> Option<Operand> {
    match (node.get("value"), node.get("variable")) {
        (Some(_), None) => context.double(node, "value").map(Operand::Value),
        (None, Some(_)) => context.variable_of(node, "variable").map(Operand::Variable),
        (both, _) => {
            let found =
                if both.is_some() { "both value= and variable=" } else { "neither value= nor variable=" };
            context.error(node.line(), format!("<{}> with {found}: expected one of them", node.element.name));
            None
        }
    }
}

/// `assign_to=` with `value=` or `variable=`. Both are read before either returns, so that both mistakes are told.
fn target_and_operand(context: &mut CompileContext, node: ElementNode<'_>) -> Option<(VarRef, Operand)> {
    let to = context.required_variable(node, "assign_to");
    let value = operand(context, node);
    Some((to?, value?))
}

/// A division by a written 0 is a mistake now; one by a variable warns at run time.
fn arithmetic(
    context: &mut CompileContext,
    node: ElementNode<'_>,
    operation: Arithmetic,
) -> Option<ActionKind> {
    let (to, value) = target_and_operand(context, node)?;
    if operation == Arithmetic::Divide && value == Operand::Value(0.0) {
        context.error(node.line(), "<divide> by zero: expected another value=");
        return None;
    }
    Some(ActionKind::Arithmetic { to, operation, value })
}

/// A random number into a variable, by the distributions that `<pause>` has too.
fn sample(context: &mut CompileContext, node: ElementNode<'_>) -> Option<ActionKind> {
    let to = context.required_variable(node, "assign_to");
    let name = context.required(node, "distribution")?.text();
    let distribution = steps::distribution(context, node, &name)?;
    Some(ActionKind::Sample { to: to?, distribution })
}

/// `check_it` and `check_it_inverse`, of which one may be true.
fn check(context: &mut CompileContext, node: ElementNode<'_>) -> ActionCheck {
    let must = context.boolean(node, "check_it");
    let must_not = context.boolean(node, "check_it_inverse");
    if must.is_some() && must_not.is_some() {
        context
            .error(node.line(), format!("<{}> with both check_it= and check_it_inverse=", node.element.name));
    }
    // For the outcome, `false` is as if the attribute were not written.
    match (must, must_not) {
        (Some(true), _) => ActionCheck::MustMatch,
        (_, Some(true)) => ActionCheck::MustNotMatch,
        _ => ActionCheck::No,
    }
}

/// `assign_to` may be missing where the outcome is checked on the spot.
fn target_unless_checked(
    context: &mut CompileContext,
    node: ElementNode<'_>,
    check: ActionCheck,
) -> Option<VarRef> {
    if check == ActionCheck::No {
        context.required_variable(node, "assign_to")
    } else {
        context.variable_of(node, "assign_to")
    }
}

/// The expression is compiled here, so that a mistake is told before the run.
fn ereg(context: &mut CompileContext, node: ElementNode<'_>) -> Option<Ereg> {
    let check = check(context, node);
    let search_in = search_in(context, node);
    let assign_to = match node.get("assign_to") {
        Some(value) => variables(context, value),
        None if check == ActionCheck::No => {
            context.error(node.line(), "<ereg> without assign_to= or check_it=: its outcome goes nowhere");
            Vec::new()
        }
        None => Vec::new(),
    };
    let value = context.required(node, "regexp")?;
    let written = value.text();
    let regex = match Regex::new(&written) {
        Ok(regex) => regex,
        Err(problem) => {
            context.error(value.line, format!("regexp=\"{written}\" is no regular expression: {problem}"));
            return None;
        }
    };
    Some(Ereg { regex, search_in: search_in?, check, assign_to })
}

/// The part of the message that is searched; the whole message without `search_in=`.
fn search_in(context: &mut CompileContext, node: ElementNode<'_>) -> Option<SearchIn> {
    let case_independent = context.boolean(node, "case_indep").unwrap_or(false);
    // A header begins its line, said or not.
    context.boolean(node, "start_line");
    let Some(value) = node.get("search_in") else { return Some(SearchIn::Message) };
    match value.text().as_str() {
        "msg" => Some(SearchIn::Message),
        "body" => Some(SearchIn::Body),
        "var" => context.required_variable(node, "variable").map(SearchIn::Variable),
        "hdr" => {
            let name = context.required(node, "header")?.text().into_boxed_str();
            if name.is_empty() {
                context.error(
                    value.line,
                    "search_in=\"hdr\" with an empty header=: expected a name such as `From:`",
                );
                return None;
            }
            // SIPp's spelling has one r; both are taken.
            let written = if node.get("occurrence").is_some() { "occurrence" } else { "occurence" };
            let occurrence = context.integer(node, written).unwrap_or(1);
            // 0 and less mean the first header, as 1 does.
            let occurrence = u32::try_from(occurrence.max(1)).unwrap_or(u32::MAX);
            Some(SearchIn::Header { name, occurrence, case_independent })
        }
        other => {
            context.error(value.line, format!("search_in=\"{other}\": expected msg, hdr, body or var"));
            None
        }
    }
}

/// A comparison of numbers.
fn test(context: &mut CompileContext, node: ElementNode<'_>) -> Option<VariableTest> {
    let check = check(context, node);
    let assign_to = target_unless_checked(context, node, check);
    let variable = context.required_variable(node, "variable");
    let value = match (node.get("value"), node.get("variable2")) {
        (Some(_), None) => context.double(node, "value").map(Operand::Value),
        (None, Some(_)) => context.variable_of(node, "variable2").map(Operand::Variable),
        _ => {
            context.error(node.line(), "<test>: expected one of value= and variable2=");
            None
        }
    };
    let compare = context.required(node, "compare")?;
    let written = compare.text();
    let compare = match written.as_str() {
        "equal" => CompareOperator::Equal,
        "not_equal" => CompareOperator::NotEqual,
        "greater_than" => CompareOperator::GreaterThan,
        "less_than" => CompareOperator::LessThan,
        "greater_than_equal" => CompareOperator::GreaterThanEqual,
        "less_than_equal" => CompareOperator::LessThanEqual,
        _ => {
            let message = format!(
                "compare=\"{written}\": expected equal, not_equal, greater_than, less_than, greater_than_equal or \
                 less_than_equal"
            );
            context.error(compare.line, message);
            return None;
        }
    };
    Some(VariableTest { variable: variable?, compare, value: value?, assign_to, check })
}

/// A comparison of texts.
fn strcmp(context: &mut CompileContext, node: ElementNode<'_>) -> Option<StrCmp> {
    let check = check(context, node);
    let assign_to = target_unless_checked(context, node, check);
    let variable = context.required_variable(node, "variable");
    let with = match (node.get("value"), node.get("variable2")) {
        (Some(value), None) => context.template_of(value).map(StrOperand::Value),
        (None, Some(_)) => context.variable_of(node, "variable2").map(StrOperand::Variable),
        _ => {
            context.error(node.line(), "<strcmp>: expected one of value= and variable2=");
            None
        }
    };
    Some(StrCmp { variable: variable?, with: with?, assign_to, check })
}

/// The attribute says what is executed; of several attributes the first in this order counts.
fn exec(context: &mut CompileContext, node: ElementNode<'_>) -> Option<ActionKind> {
    if let Some(value) = node.get("command") {
        return context.template_of(value).map(ActionKind::Command);
    }
    if let Some(value) = node.get("verify") {
        return context.template_of(value).map(ActionKind::Verify);
    }
    if let Some(value) = node.get("int_cmd") {
        return Some(ActionKind::Internal(internal(context, value)));
    }
    let captures = [
        ("play_pcap_audio", PlayKind::Audio),
        ("play_pcap_image", PlayKind::Image),
        ("play_pcap_video", PlayKind::Video),
        ("play_pcap_text", PlayKind::Text),
    ];
    for (name, kind) in captures {
        if let Some(value) = node.get(name) {
            return context.template_of(value).map(|file| ActionKind::Play { kind, file });
        }
    }
    if let Some(value) = node.get("play_dtmf") {
        return context.template_of(value).map(ActionKind::PlayDtmf);
    }
    if let Some(value) = node.get("rtp_stream") {
        if value.bytes == b"wait" {
            let timeout = context.unsigned(node, "timeout").map(Duration::from_millis);
            return Some(ActionKind::RtpStream(RtpStream::Wait { timeout }));
        }
        return rtp_stream(context, value).map(ActionKind::RtpStream);
    }
    if let Some(value) = node.get("rtp_echo") {
        return echo_control(context, value).map(ActionKind::EchoControl);
    }
    context.error(
        node.line(),
        "<exec> says nothing to do: expected command=, verify=, int_cmd=, play_pcap_audio=, play_pcap_image=, \
         play_pcap_video=, play_pcap_text=, play_dtmf=, rtp_stream= or rtp_echo=",
    );
    None
}

/// SIPp takes an unknown word for `stop_call`.
fn internal(context: &mut CompileContext, value: AttributeValue<'_>) -> InternalCommand {
    match value.bytes {
        b"stop_now" => InternalCommand::StopNow,
        b"stop_gracefully" => InternalCommand::StopGracefully,
        b"stop_call" => InternalCommand::StopCall,
        _ => {
            let message = format!(
                "int_cmd=\"{}\" is taken for stop_call, as in SIPp: expected stop_call, stop_gracefully or stop_now",
                value.text()
            );
            context.warn(value.line, message);
            InternalCommand::StopCall
        }
    }
}

/// `pause`, `resume`, a pattern, or a file.
fn rtp_stream(context: &mut CompileContext, value: AttributeValue<'_>) -> Option<RtpStream> {
    let pattern = |rest: &'static [u8]| value.bytes.strip_prefix(rest);
    Some(match value.bytes {
        b"pause" => RtpStream::Pause,
        b"resume" => RtpStream::Resume,
        b"pauseapattern" => RtpStream::PausePattern { video: false },
        b"pausevpattern" => RtpStream::PausePattern { video: true },
        b"resumeapattern" => RtpStream::ResumePattern { video: false },
        b"resumevpattern" => RtpStream::ResumePattern { video: true },
        _ => {
            if let Some(rest) = pattern(b"apattern") {
                RtpStream::Pattern { video: false, spec: context.cut(after_comma(rest), value.line)? }
            } else if let Some(rest) = pattern(b"vpattern") {
                RtpStream::Pattern { video: true, spec: context.cut(after_comma(rest), value.line)? }
            } else {
                RtpStream::File(context.template_of(value)?)
            }
        }
    })
}

/// The parameters after the word, if there are any. They may hold keywords, so they stay a template until the call runs.
fn after_comma(rest: &[u8]) -> &[u8] {
    rest.strip_prefix(b",").unwrap_or(rest)
}

/// `rtp_echo="startaudio,…"`.
fn echo_control(context: &mut CompileContext, value: AttributeValue<'_>) -> Option<EchoControl> {
    let verbs: [(&[u8], EchoVerb, bool); 6] = [
        (b"startaudio", EchoVerb::Start, false),
        (b"updateaudio", EchoVerb::Update, false),
        (b"stopaudio", EchoVerb::Stop, false),
        (b"startvideo", EchoVerb::Start, true),
        (b"updatevideo", EchoVerb::Update, true),
        (b"stopvideo", EchoVerb::Stop, true),
    ];
    for (word, verb, video) in verbs {
        if let Some(rest) = value.bytes.strip_prefix(word) {
            return Some(EchoControl { verb, video, spec: context.cut(after_comma(rest), value.line)? });
        }
    }
    let message = format!(
        "rtp_echo=\"{}\": expected startaudio, updateaudio, stopaudio, startvideo, updatevideo or stopvideo",
        value.text()
    );
    context.error(value.line, message);
    None
}

/// One to three variables: packets, the first payload type, the first payload.
fn rtp_stats(context: &mut CompileContext, node: ElementNode<'_>) -> Option<ActionKind> {
    let video = match node.get("media") {
        None => false,
        Some(value) => match value.bytes {
            b"audio" => false,
            b"video" => true,
            _ => {
                context.error(value.line, format!("media=\"{}\": expected audio or video", value.text()));
                return None;
            }
        },
    };
    let value = context.required(node, "assign_to")?;
    let names = variables(context, value);
    let (packets, payload_type, payload) = match names[..] {
        [packets] => (packets, None, None),
        [packets, payload_type] => (packets, Some(payload_type), None),
        [packets, payload_type, payload] => (packets, Some(payload_type), Some(payload)),
        _ => {
            context.error(
                value.line,
                "<rtp_stats> gives one to three values: expected assign_to=\"packets,payload_type,payload\"",
            );
            return None;
        }
    };
    Some(ActionKind::RtpStats { video, packets, payload_type, payload })
}

/// The digits received as events of one payload type.
fn rtp_dtmf(context: &mut CompileContext, node: ElementNode<'_>) -> Option<ActionKind> {
    let to = context.required_variable(node, "assign_to");
    let payload_type = match node.get("payload_type") {
        None => DTMF_TYPE,
        Some(value) => {
            let number = context.unsigned(node, "payload_type")?;
            match u8::try_from(number).ok().filter(|number| *number < 128) {
                Some(number) => number,
                None => {
                    let message = format!("payload_type=\"{number}\": expected 0 to 127 (RFC 3550 §5.1)");
                    context.error(value.line, message);
                    return None;
                }
            }
        }
    };
    Some(ActionKind::RtpDtmf { to: to?, payload_type })
}

/// Without any requirement it would always succeed, which is a mistake.
fn rtpcheck(context: &mut CompileContext, node: ElementNode<'_>) -> Option<RtpCheck> {
    let audio = context.boolean(node, "audio");
    // `audio="false"` alone means video.
    let video = context.boolean(node, "video").unwrap_or(audio == Some(false));
    if video && audio == Some(true) {
        context.error(
            node.line(),
            "<rtpcheck> looks at one stream: expected audio= or video=, and a second <rtpcheck>",
        );
        return None;
    }
    let dtmf = match node.get("dtmf") {
        Some(value) => Some(context.template_of(value)?),
        None => None,
    };
    let check = RtpCheck {
        video,
        min_packets: context.unsigned(node, "min_packets"),
        max_packets: context.unsigned(node, "max_packets"),
        max_loss: context.double(node, "max_loss"),
        max_jitter: context.double(node, "max_jitter"),
        max_reordered: context.unsigned(node, "max_reordered"),
        min_mos: context.double(node, "min_mos"),
        dtmf,
        min_speech: context.unsigned(node, "min_speech").or_else(|| context.unsigned(node, "speech")),
        max_silence: context.unsigned(node, "max_silence"),
        two_way: context.boolean(node, "two_way"),
        assign_to: context.variable_of(node, "assign_to"),
    };
    // Attributes that choose the stream or take the verdict require nothing of it.
    let demands = node
        .element
        .attributes
        .iter()
        .filter(|a| !matches!(a.name.as_str(), "audio" | "video" | "assign_to"));
    if demands.count() == 0 {
        context.error(
            node.line(),
            "<rtpcheck> demands nothing: expected min_packets=, max_loss=, dtmf= or another",
        );
        return None;
    }
    Some(check)
}

//! Actions in words.
//!
//! One phrase per action, in the third person with the step as its subject. The match over the kinds is spread over three functions for its length
//! alone; each hands kinds that it does not know to the next.

use super::super::action::{
    Action, ActionCheck, ActionKind, Arithmetic, CompareOperator, EchoVerb, Ereg, InternalCommand, Operand,
    PlayKind, RtpCheck, RtpStream, SearchIn, StrCmp, StrOperand, VariableTest,
};
use super::super::model::{VarRef, Variables};
use super::steps::{drawn, millis};
use super::template_text::{shown, variable};

/// Values, texts and the flow; called for each action of a step.
pub(super) fn text(action: &Action, variables: &Variables) -> String {
    let name = |of: &VarRef| variable(variables, *of);
    let operand = |of: &Operand| match of {
        Operand::Value(value) => value.to_string(),
        Operand::Variable(of) => variable(variables, *of),
    };
    match &action.kind {
        ActionKind::Ereg(ereg) => searched(ereg, variables),
        ActionKind::Log(text) => format!("logs \"{}\"", shown(text, variables)),
        ActionKind::Warning(text) => format!("warns \"{}\"", shown(text, variables)),
        ActionKind::Error(text) => format!("ends the run with the error \"{}\"", shown(text, variables)),
        ActionKind::Assign { to, value } => format!("{} = {}", name(to), operand(value)),
        ActionKind::AssignStr { to, value } => format!("{} = \"{}\"", name(to), shown(value, variables)),
        ActionKind::Arithmetic { to, operation, value } => {
            let sign = match operation {
                Arithmetic::Add => '+',
                Arithmetic::Subtract => '−',
                Arithmetic::Multiply => '×',
                Arithmetic::Divide => '÷',
            };
            format!("{0} = {0} {sign} {1}", name(to), operand(value))
        }
        ActionKind::ToDouble { to, from } => format!("{} = the number in {}", name(to), name(from)),
        ActionKind::Sample { to, distribution } => format!("{} = {}", name(to), drawn(distribution, "")),
        ActionKind::Test(test) => compared(test, variables),
        ActionKind::StrCmp(strcmp) => texts_compared(strcmp, variables),
        ActionKind::Trim(of) => format!("removes the blanks at both ends of {}", name(of)),
        ActionKind::UrlEncode(of) => format!("escapes {} for a URL", name(of)),
        ActionKind::UrlDecode(of) => format!("removes the URL escapes of {}", name(of)),
        ActionKind::Jump(to) => format!("goes to the step with the number {}", operand(to)),
        ActionKind::PauseRestore(end) => format!("continues the pause that ends at {}", operand(end)),
        ActionKind::GetTimeOfDay { seconds, micros } => {
            format!("{} and {} = the time in seconds and microseconds", name(seconds), name(micros))
        }
        ActionKind::StepNumber { to } => format!("{} = the number of this step", name(to)),
        other => of_files_and_media(other, variables),
    }
}

/// Files of values, the peer's address, commands of the shell, the end of a call or a run.
fn of_files_and_media(kind: &ActionKind, variables: &Variables) -> String {
    let name = |of: &VarRef| variable(variables, *of);
    match kind {
        ActionKind::Index { file, field } => {
            format!("indexes {} by its field {field}", shown(file, variables))
        }
        ActionKind::Lookup { to, file, key } => {
            format!(
                "{} = the line of {} with \"{}\"",
                name(to),
                shown(file, variables),
                shown(key, variables)
            )
        }
        ActionKind::Insert { file, value } => {
            format!("appends \"{}\" to {}", shown(value, variables), shown(file, variables))
        }
        ActionKind::Replace { file, line, .. } => {
            format!("replaces line {} of {}", shown(line, variables), shown(file, variables))
        }
        ActionKind::VerifyAuth { to, username, .. } => format!(
            "{} = whether the received credentials are those of \"{}\"",
            name(to),
            shown(username, variables)
        ),
        ActionKind::SetDest { host, port, protocol } => format!(
            "sends the rest of the call to {}:{} by {}",
            shown(host, variables),
            shown(port, variables),
            shown(protocol, variables)
        ),
        ActionKind::CloseCon => "closes the connection of the call".to_owned(),
        ActionKind::RtpEcho(Operand::Value(0.0)) => "sends received media back no longer".to_owned(),
        ActionKind::RtpEcho(_) => "sends received media back".to_owned(),
        ActionKind::Command(command) => format!("runs `{}` without waiting", shown(command, variables)),
        ActionKind::Verify(command) => {
            format!("runs `{}`; the call fails unless it succeeds", shown(command, variables))
        }
        ActionKind::Internal(command) => match command {
            InternalCommand::StopCall => "aborts the call",
            InternalCommand::StopGracefully => "starts no more calls",
            InternalCommand::StopNow => "ends the run at once",
        }
        .to_owned(),
        other => of_media(other, variables),
    }
}

/// Media that are sent, echoed or checked.
fn of_media(kind: &ActionKind, variables: &Variables) -> String {
    let name = |of: &VarRef| variable(variables, *of);
    match kind {
        ActionKind::Play { kind, file } => {
            let medium = match kind {
                PlayKind::Audio => "audio",
                PlayKind::Video => "video",
                PlayKind::Image => "image",
                PlayKind::Text => "text",
            };
            format!("plays the capture {} as {medium}, and goes on at once", shown(file, variables))
        }
        ActionKind::PlayDtmf(digits) => format!("sends the digits {}", shown(digits, variables)),
        ActionKind::RtpStream(stream) => streamed(stream, variables),
        ActionKind::EchoControl(echo) => {
            let medium = if echo.video { "video" } else { "audio" };
            match echo.verb {
                EchoVerb::Start => format!("sends received {medium} back from now on"),
                EchoVerb::Update => format!("changes how received {medium} is sent back"),
                EchoVerb::Stop => format!("sends received {medium} back no longer"),
            }
        }
        ActionKind::RtpStats { packets, .. } => {
            format!("{} = the number of RTP packets received", name(packets))
        }
        ActionKind::RtpDtmf { to, .. } => format!("{} = the digits received", name(to)),
        ActionKind::RtpCheck(check) => media_checked(check),
        _ => "acts".to_owned(),
    }
}

/// `<ereg>`: the place, the variables for the match and its groups, and the consequence. The expression itself is not shown.
fn searched(ereg: &Ereg, variables: &Variables) -> String {
    let place = match &ereg.search_in {
        SearchIn::Message => "the message".to_owned(),
        SearchIn::Header { name, occurrence: 1, .. } => format!("the header {name}"),
        SearchIn::Header { name, occurrence, .. } => format!("header number {occurrence} of {name}"),
        SearchIn::Body => "the body".to_owned(),
        SearchIn::Variable(of) => variable(variables, *of),
    };
    let names: Vec<String> = ereg.assign_to.iter().map(|of| variable(variables, *of)).collect();
    let into = if names.is_empty() { String::new() } else { format!(", into {}", names.join(", ")) };
    format!("looks for a regular expression in {place}{into}{}", checked(ereg.check, "it matches"))
}

/// The consequence of a comparison for the call; `holds` is the outcome as a clause.
fn checked(check: ActionCheck, holds: &str) -> String {
    match check {
        ActionCheck::No => String::new(),
        ActionCheck::MustMatch => format!("; the call fails unless {holds}"),
        ActionCheck::MustNotMatch => format!("; the call fails if {holds}"),
    }
}

fn compared(test: &VariableTest, variables: &Variables) -> String {
    let sign = match test.compare {
        CompareOperator::Equal => "=",
        CompareOperator::NotEqual => "≠",
        CompareOperator::GreaterThan => ">",
        CompareOperator::LessThan => "<",
        CompareOperator::GreaterThanEqual => "≥",
        CompareOperator::LessThanEqual => "≤",
    };
    let right = match test.value {
        Operand::Value(value) => value.to_string(),
        Operand::Variable(of) => variable(variables, of),
    };
    let into = test.assign_to.map_or_else(String::new, |of| format!(", into {}", variable(variables, of)));
    format!(
        "tests {} {sign} {right}{into}{}",
        variable(variables, test.variable),
        checked(test.check, "it holds")
    )
}

fn texts_compared(strcmp: &StrCmp, variables: &Variables) -> String {
    let right = match &strcmp.with {
        StrOperand::Value(text) => format!("\"{}\"", shown(text, variables)),
        StrOperand::Variable(of) => variable(variables, *of),
    };
    let into = strcmp.assign_to.map_or_else(String::new, |of| format!(", into {}", variable(variables, of)));
    format!(
        "compares the text {} with {right}{into}{}",
        variable(variables, strcmp.variable),
        checked(strcmp.check, "they are equal")
    )
}

/// `<exec rtp_stream=…>` in its forms.
fn streamed(stream: &RtpStream, variables: &Variables) -> String {
    let medium = |video: &bool| if *video { "video" } else { "audio" };
    match stream {
        RtpStream::File(spec) => format!("streams {}", shown(spec, variables)),
        RtpStream::Pause => "pauses the stream".to_owned(),
        RtpStream::Resume => "continues the stream".to_owned(),
        RtpStream::Pattern { video, spec } => {
            format!("sends the {} pattern {}", medium(video), shown(spec, variables))
        }
        RtpStream::PausePattern { video } => format!("pauses the {} pattern", medium(video)),
        RtpStream::ResumePattern { video } => format!("continues the {} pattern", medium(video)),
        RtpStream::Wait { timeout: None } => "waits until its streams have been played".to_owned(),
        RtpStream::Wait { timeout: Some(timeout) } => {
            format!("waits until its streams have been played, {} at most", millis(*timeout))
        }
    }
}

/// `<rtpcheck>`: only limits that are given are told; `#` in the words stands for the limit.
fn media_checked(check: &RtpCheck) -> String {
    let mut wanted = Vec::new();
    let mut want = |value: Option<String>, words: &str| {
        wanted.extend(value.map(|value| words.replace('#', &value)));
    };
    want(check.min_packets.map(|value| value.to_string()), "at least # packets");
    want(check.max_packets.map(|value| value.to_string()), "at most # packets");
    want(check.max_loss.map(|value| value.to_string()), "at most # % lost");
    want(check.max_jitter.map(|value| value.to_string()), "a jitter of at most # ms");
    want(check.max_reordered.map(|value| value.to_string()), "at most # reordered");
    want(check.min_mos.map(|value| value.to_string()), "a MOS of at least #");
    want(check.dtmf.as_ref().map(|_| String::new()), "the given digits");
    want(check.min_speech.map(|value| value.to_string()), "# ms of sound");
    want(check.max_silence.map(|value| value.to_string()), "at most # ms of silence in a row");
    want(
        check.two_way.map(|so| if so { "both directions" } else { "one direction" }.to_owned()),
        "media in #",
    );
    let end =
        if check.assign_to.is_some() { "the verdict goes into a variable" } else { "else the call fails" };
    format!("requires of the received media: {}; {end}", wanted.join(", "))
}

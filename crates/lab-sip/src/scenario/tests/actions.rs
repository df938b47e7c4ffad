//! Every action.

use super::super::action::{
    ActionCheck, ActionKind, Arithmetic, CompareOperator, EchoVerb, InternalCommand, Operand, PlayKind,
    RtpStream, SearchIn, StrOperand,
};
use super::super::model::{Distribution, Scope, VarRef};
use super::{action, scenario, shown, warnings};

fn var(slot: u16) -> VarRef {
    VarRef { scope: Scope::Call, slot }
}

fn kind(xml: &str) -> ActionKind {
    action(xml).0
}

#[test]
fn ereg_searches() {
    let ereg = |xml: &str| match kind(xml) {
        ActionKind::Ereg(ereg) => *ereg,
        other => panic!("{other:?}"),
    };
    let plain = ereg("<ereg regexp='a(b)(c)' assign_to='x, y,z'/>");
    assert_eq!((plain.regex.as_str(), plain.check), ("a(b)(c)", ActionCheck::No));
    assert_eq!(plain.assign_to, [var(0), var(1), var(2)]);
    assert!(matches!(plain.search_in, SearchIn::Message));
    assert!(matches!(
        ereg("<ereg regexp='a' search_in='msg' check_it='true'/>").search_in,
        SearchIn::Message
    ));
    assert!(matches!(ereg("<ereg regexp='a' search_in='body' assign_to='x'/>").search_in, SearchIn::Body));
    let inverse =
        ereg("<ereg regexp='a' search_in='var' variable='v' check_it_inverse='true' assign_to='x'/>");
    assert!(
        matches!((inverse.search_in, inverse.check), (SearchIn::Variable(v), ActionCheck::MustNotMatch) if v == var(0))
    );
}

#[test]
fn ereg_headers_in_both_spellings() {
    for (xml, expected) in [("occurrence='2'", 2), ("occurence='3'", 3), ("", 1)] {
        let ActionKind::Ereg(ereg) = kind(&format!(
            "<ereg regexp='a' search_in='hdr' header='From:' {xml} case_indep='true' start_line='true' assign_to='x'/>"
        )) else {
            panic!("no ereg")
        };
        let SearchIn::Header { name, occurrence, case_independent } = ereg.search_in else {
            panic!("no header")
        };
        assert_eq!((&*name, occurrence, case_independent), ("From:", expected, true));
    }
}

#[test]
fn messages() {
    let ActionKind::Log(log) = kind("<log message='a &lt;[pid]&gt;'/>") else { panic!("no log") };
    assert_eq!(shown(&log), "a <{Pid}>");
    assert!(matches!(kind("<warning message='x'/>"), ActionKind::Warning(_)));
    assert!(matches!(kind("<error message='x'/>"), ActionKind::Error(_)));
}

#[test]
fn assignments_and_sums() {
    assert!(matches!(
        kind("<assign assign_to='a' value='1.5'/>"),
        ActionKind::Assign { value: Operand::Value(1.5), .. }
    ));
    assert!(matches!(
        kind("<assign assign_to='a' variable='b'/>"),
        ActionKind::Assign { value: Operand::Variable(b), .. } if b == var(1)
    ));
    for (name, expected) in [
        ("add", Arithmetic::Add),
        ("subtract", Arithmetic::Subtract),
        ("multiply", Arithmetic::Multiply),
        ("divide", Arithmetic::Divide),
    ] {
        let kind = kind(&format!("<{name} assign_to='a' value='2'/>"));
        assert!(matches!(kind, ActionKind::Arithmetic { operation, .. } if operation == expected), "{name}");
    }
    assert!(matches!(kind("<assignstr assign_to='a' value='[pid]'/>"), ActionKind::AssignStr { .. }));
    assert!(
        matches!(kind("<todouble assign_to='a' variable='b'/>"), ActionKind::ToDouble { from, .. } if from == var(1))
    );
    assert!(matches!(
        kind("<sample assign_to='a' distribution='gamma' k='1' theta='2'/>"),
        ActionKind::Sample { distribution: Distribution::Gamma { k: 1.0, theta: 2.0 }, .. }
    ));
}

#[test]
fn comparisons() {
    for (name, expected) in [
        ("equal", CompareOperator::Equal),
        ("not_equal", CompareOperator::NotEqual),
        ("greater_than", CompareOperator::GreaterThan),
        ("less_than", CompareOperator::LessThan),
        ("greater_than_equal", CompareOperator::GreaterThanEqual),
        ("less_than_equal", CompareOperator::LessThanEqual),
    ] {
        let ActionKind::Test(test) =
            kind(&format!("<test assign_to='r' variable='a' compare='{name}' value='1'/>"))
        else {
            panic!("no test")
        };
        assert_eq!((test.compare, test.assign_to, test.variable), (expected, Some(var(0)), var(1)));
    }
    let ActionKind::Test(test) = kind("<test variable='a' compare='equal' variable2='b' check_it='true'/>")
    else {
        panic!("no test")
    };
    assert_eq!(
        (test.value, test.check, test.assign_to),
        (Operand::Variable(var(1)), ActionCheck::MustMatch, None)
    );
    let ActionKind::StrCmp(strcmp) = kind("<strcmp assign_to='r' variable='a' value='x'/>") else {
        panic!("no strcmp")
    };
    assert!(matches!(strcmp.with, StrOperand::Value(text) if shown(&text) == "x"));
    let ActionKind::StrCmp(strcmp) = kind("<strcmp variable='a' variable2='b' check_it_inverse='true'/>")
    else {
        panic!("no strcmp")
    };
    assert!(matches!((strcmp.with, strcmp.check), (StrOperand::Variable(_), ActionCheck::MustNotMatch)));
}

#[test]
fn actions_on_one_variable() {
    assert!(matches!(kind("<trim assign_to='a'/>"), ActionKind::Trim(_)));
    assert!(matches!(kind("<urlencode variable='a'/>"), ActionKind::UrlEncode(_)));
    assert!(matches!(kind("<urldecode variable='a'/>"), ActionKind::UrlDecode(_)));
    assert!(matches!(
        kind("<gettimeofday assign_to='s,us'/>"),
        ActionKind::GetTimeOfDay { seconds, micros } if (seconds, micros) == (var(0), var(1))
    ));
}

#[test]
fn control() {
    assert!(matches!(kind("<jump value='3'/>"), ActionKind::Jump(Operand::Value(3.0))));
    assert!(matches!(kind("<jump variable='a'/>"), ActionKind::Jump(Operand::Variable(_))));
    assert!(matches!(kind("<pauserestore variable='a'/>"), ActionKind::PauseRestore(Operand::Variable(_))));
    assert!(matches!(kind("<index assign_to='v'/>"), ActionKind::StepNumber { .. }));
    assert!(matches!(kind("<closecon/>"), ActionKind::CloseCon));
    assert!(matches!(kind("<rtp_echo value='1'/>"), ActionKind::RtpEcho(Operand::Value(1.0))));
    assert!(matches!(kind("<setdest host='h' port='[field0]' protocol='udp'/>"), ActionKind::SetDest { .. }));
    assert!(matches!(
        kind("<verifyauth assign_to='a' username='u' password='p'/>"),
        ActionKind::VerifyAuth { .. }
    ));
}

#[test]
fn injection_files() {
    assert!(matches!(kind("<index file='a.csv' field='2'/>"), ActionKind::Index { field: 2, .. }));
    assert!(matches!(kind("<lookup assign_to='l' file='a.csv' key='[$k]'/>"), ActionKind::Lookup { .. }));
    assert!(matches!(kind("<insert file='a.csv' value='x;y'/>"), ActionKind::Insert { .. }));
    assert!(matches!(kind("<replace file='a.csv' line='1' value='x;y'/>"), ActionKind::Replace { .. }));
}

#[test]
fn received_media_goes_into_variables() {
    assert!(matches!(
        kind("<rtp_stats assign_to='a,b,c' media='video'/>"),
        ActionKind::RtpStats { video: true, packets, payload_type: Some(number), payload: Some(bytes) }
            if (packets, number, bytes) == (var(0), var(1), var(2))
    ));
    assert!(matches!(
        kind("<rtp_stats assign_to='a'/>"),
        ActionKind::RtpStats { video: false, payload_type: None, payload: None, .. }
    ));
    let digits = |xml: &str| match kind(xml) {
        ActionKind::RtpDtmf { to, payload_type } => (to, payload_type),
        other => panic!("{other:?}"),
    };
    assert_eq!(digits("<rtp_dtmf assign_to='a'/>"), (var(0), 96));
    assert_eq!(digits("<rtp_dtmf assign_to='a' payload_type='101'/>"), (var(0), 101));
}

#[test]
fn exec_commands() {
    assert!(matches!(kind("<exec command='echo [pid]'/>"), ActionKind::Command(_)));
    assert!(matches!(kind("<exec verify='test [$k] = 1'/>"), ActionKind::Verify(_)));
    for (name, expected) in [
        ("stop_call", InternalCommand::StopCall),
        ("stop_gracefully", InternalCommand::StopGracefully),
        ("stop_now", InternalCommand::StopNow),
    ] {
        assert!(
            matches!(kind(&format!("<exec int_cmd='{name}'/>")), ActionKind::Internal(found) if found == expected)
        );
    }
    let odd = "<nop><action><exec int_cmd='stop'/></action></nop><recv request='X'/>";
    assert!(warnings(odd)[0].contains("taken for stop_call"));
}

#[test]
fn exec_plays() {
    for (name, expected) in [
        ("play_pcap_audio", PlayKind::Audio),
        ("play_pcap_video", PlayKind::Video),
        ("play_pcap_image", PlayKind::Image),
        ("play_pcap_text", PlayKind::Text),
    ] {
        let kind = kind(&format!("<exec {name}='a.pcap'/>"));
        assert!(
            matches!(&kind, ActionKind::Play { kind, file } if *kind == expected && shown(file) == "a.pcap")
        );
    }
    assert!(matches!(kind("<exec play_dtmf='123#,80'/>"), ActionKind::PlayDtmf(_)));
}

#[test]
fn exec_streams() {
    let stream = |value: &str| match kind(&format!("<exec rtp_stream='{value}'/>")) {
        ActionKind::RtpStream(stream) => stream,
        other => panic!("{other:?}"),
    };
    assert!(
        matches!(stream("a.wav,-1,8,PCMA/8000"), RtpStream::File(file) if shown(&file) == "a.wav,-1,8,PCMA/8000")
    );
    assert!(matches!(stream("pause"), RtpStream::Pause));
    assert!(matches!(stream("resume"), RtpStream::Resume));
    assert!(matches!(stream("wait"), RtpStream::Wait { timeout: None }));
    let ActionKind::RtpStream(RtpStream::Wait { timeout }) = kind("<exec rtp_stream='wait' timeout='250'/>")
    else {
        panic!("no wait")
    };
    assert_eq!(timeout, Some(std::time::Duration::from_millis(250)));
    assert!(matches!(
        stream("apattern,1,0,8,PCMA/8000"),
        RtpStream::Pattern { video: false, spec } if shown(&spec) == "1,0,8,PCMA/8000"
    ));
    assert!(matches!(stream("vpattern,2,0,99,H264/90000"), RtpStream::Pattern { video: true, .. }));
    assert!(matches!(stream("pauseapattern"), RtpStream::PausePattern { video: false }));
    assert!(matches!(stream("pausevpattern"), RtpStream::PausePattern { video: true }));
    assert!(matches!(stream("resumeapattern"), RtpStream::ResumePattern { video: false }));
    assert!(matches!(stream("resumevpattern"), RtpStream::ResumePattern { video: true }));
}

#[test]
fn exec_echoes() {
    for (word, verb, video) in [
        ("startaudio", EchoVerb::Start, false),
        ("updateaudio", EchoVerb::Update, false),
        ("stopaudio", EchoVerb::Stop, false),
        ("startvideo", EchoVerb::Start, true),
        ("updatevideo", EchoVerb::Update, true),
        ("stopvideo", EchoVerb::Stop, true),
    ] {
        let ActionKind::EchoControl(control) = kind(&format!("<exec rtp_echo='{word},8,PCMA/8000'/>")) else {
            panic!("no echo")
        };
        assert_eq!(
            (control.verb, control.video, shown(&control.spec).as_str()),
            (verb, video, "8,PCMA/8000")
        );
    }
}

#[test]
fn media_can_be_demanded() {
    let ActionKind::RtpCheck(check) = kind(
        "<rtpcheck audio='yes' min_packets='50' max_packets='60' max_loss='1' max_jitter='20' max_reordered='0' \
         min_mos='4' dtmf='5' speech='1000' max_silence='300' two_way='false' assign_to='ok'/>",
    ) else {
        panic!("no check")
    };
    assert_eq!((check.video, check.min_packets, check.max_packets), (false, Some(50), Some(60)));
    assert_eq!((check.max_loss, check.max_jitter, check.min_mos), (Some(1.0), Some(20.0), Some(4.0)));
    assert_eq!((check.max_reordered, check.min_speech, check.max_silence), (Some(0), Some(1000), Some(300)));
    assert_eq!((check.two_way, check.assign_to), (Some(false), Some(var(0))));
    assert_eq!(check.dtmf.map(|digits| shown(&digits)).as_deref(), Some("5"));
    assert!(
        matches!(kind("<rtpcheck video='true' min_speech='5'/>"), ActionKind::RtpCheck(check) if check.video)
    );
}

#[test]
fn media_and_messages_are_needed_by_the_actions_that_use_them() {
    let needs = |xml: &str| scenario(&format!("<recv request='X'><action>{xml}</action></recv>")).needs;
    assert!(needs("<exec play_pcap_audio='a'/>").media && needs("<rtpcheck min_packets='1'/>").media);
    assert!(needs("<rtp_stats assign_to='a'/>").media && needs("<rtp_dtmf assign_to='a'/>").media);
    assert!(needs("<exec verify='test [last_Via:]'/>").last_message);
    assert!(needs("<ereg regexp='a' assign_to='b'/>").last_message);
    assert!(!needs("<ereg regexp='a' search_in='var' variable='v' assign_to='b'/>").last_message);
    assert!(needs("<log message='[last_Via:]'/>").last_message);
    assert!(needs("<log message='[authentication]'/>").challenge);
}

#[test]
fn only_a_leading_action_counts() {
    let text = "<recv request='X'><!-- c --><action><log message='a'/></action><action><log message='b'/></action></recv>";
    assert_eq!(scenario(text).steps[0].actions.len(), 1);
    assert_eq!(warnings(text), ["1: an <action> that is not the first in <recv> is ignored, as in SIPp"]);
}

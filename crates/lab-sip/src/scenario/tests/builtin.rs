//! The scenarios that come with the program.

use super::super::builtin::{BUILT_IN_NAMES, built_in};
use super::super::compile::compile_text;
use super::super::model::{Role, Scenario, ScenarioSource, StepKind};
use super::super::template::{Keyword, TemplatePart};

fn built(name: &'static str) -> Scenario {
    let text = built_in(name).expect("it is built in");
    let compiled = compile_text(text.as_bytes(), ScenarioSource::BuiltIn(name)).expect("it compiles");
    compiled.scenario
}

#[test]
fn all_compile_with_the_expected_roles() {
    let roles: Vec<(&str, Role)> = BUILT_IN_NAMES.iter().map(|&name| (name, built(name).role)).collect();
    let expected = [
        ("uac", Role::Client),
        ("uas", Role::Server),
        ("regexp", Role::Client),
        ("3pcc-C-A", Role::ControllerA),
        ("3pcc-C-B", Role::ControllerB),
        ("3pcc-A", Role::Server),
        ("3pcc-B", Role::Server),
        ("branchc", Role::Client),
        ("branchs", Role::Server),
        ("uac_pcap", Role::Client),
        ("ooc_default", Role::Server),
        ("ooc_dummy", Role::Server),
    ];
    assert_eq!(roles, expected);
}

/// One letter a step, in order.
fn flow(name: &'static str) -> String {
    let letter = |kind: &StepKind| match kind {
        StepKind::Send(_) => 's',
        StepKind::Recv(_) => 'r',
        StepKind::Pause(_) => 'p',
        StepKind::TimeWait(_) => 'w',
        StepKind::Nop => 'n',
        StepKind::SendCmd { .. } => 'S',
        StepKind::RecvCmd { .. } => 'R',
    };
    built(name).steps.iter().map(|step| letter(&step.kind)).collect()
}

#[test]
fn flows_are_those_of_sipp() {
    assert_eq!(flow("uac"), "srrrrspsr");
    assert_eq!(flow("uas"), "rssrrsw");
    assert_eq!(flow("branchc"), "srrsrrrrrspsrp");
    assert_eq!(flow("branchs"), "rsrssssrrsw");
    assert_eq!(flow("uac_pcap"), "srrrsnpnpsr");
    assert_eq!(flow("3pcc-C-A"), "srrrrSRspsr");
    assert_eq!(flow("3pcc-C-B"), "RsrrrrsSpsr");
    assert_eq!(flow("3pcc-A"), "rsrrsw");
}

/// RFC 3261 §12.1.1: what makes a dialog copies Record-Route from the request.
#[test]
fn servers_copy_record_route_into_the_answers_to_an_invite() {
    for (name, count) in [("uas", 2), ("branchs", 2), ("3pcc-A", 1), ("3pcc-B", 1)] {
        let copies = |kind: &StepKind| match kind {
            StepKind::Send(send) => {
                let recorded = TemplatePart::Keyword(Keyword::Last("Record-Route:".into()));
                send.message.parts.contains(&recorded)
            }
            _ => false,
        };
        assert_eq!(built(name).steps.iter().filter(|step| copies(&step.kind)).count(), count, "{name}");
    }
}

#[test]
fn needs_follow_from_use() {
    assert!(built("uas").needs.last_message);
    assert!(!built("uac").needs.last_message);
    assert!(built("uac_pcap").needs.media);
    assert!(!built("ooc_default").needs.media);
}

#[test]
fn statistics_are_those_of_sipp() {
    let uac = built("uac");
    assert_eq!(uac.response_times, [10, 20, 30, 40, 50, 100, 150, 200]);
    assert_eq!(uac.call_lengths, [10, 50, 100, 500, 1000, 5000, 10000]);
    assert_eq!((uac.rtds.as_slice(), &uac.steps[4].timing.stop), (["1".to_owned()].as_slice(), &vec![0]));
}

#[test]
fn an_unknown_name_is_none() {
    assert_eq!(built_in("uax"), None);
}

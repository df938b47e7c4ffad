//! Actions that compare, and calls that fail by them.

use proptest::prelude::*;

use super::*;
use crate::regex::Regex;
use crate::scenario::action::{Ereg, RtpCheck, SearchIn};

fn ereg(regexp: &str, search_in: SearchIn, check: ActionCheck) -> ActionKind {
    let regex = Regex::new(regexp).expect("it compiles");
    ActionKind::Ereg(Box::new(Ereg { regex, search_in, check, assign_to: vec![var(0), var(1), var(2)] }))
}

fn header(name: &str, occurrence: u32, case_independent: bool) -> SearchIn {
    SearchIn::Header { name: name.into(), occurrence, case_independent }
}

#[test]
fn ereg_assigns_the_match_and_its_parts() {
    let mut world = World::new();
    world.quiet(ereg("CSeq: ([0-9]+) ([A-Z]+)", SearchIn::Message, ActionCheck::No));
    assert_eq!(*world.call.variables, [text("CSeq: 7 INVITE"), text("7"), text("INVITE")]);
    world.quiet(ereg("[0-9]+", SearchIn::Body, ActionCheck::MustMatch));
    assert_eq!(*world.value(0), text("12"));
    world.quiet(ereg("^1", SearchIn::Variable(var(0)), ActionCheck::MustMatch));
    assert_eq!(*world.value(0), text("1"));
}

#[test]
fn a_group_that_did_not_match_keeps_its_variable() {
    let mut world = World::new();
    for slot in 0..3 {
        world.put(slot, text("old"));
    }
    world.quiet(ereg("(zz)|(CSeq)", SearchIn::Message, ActionCheck::No));
    assert_eq!(*world.call.variables, [text("CSeq"), text("old"), text("CSeq")]);
    world.quiet(ereg("nowhere", SearchIn::Message, ActionCheck::No));
    assert_eq!(*world.value(0), text("CSeq"));
}

#[test]
fn a_header_is_chosen_by_name_case_place_and_number() {
    for (search_in, found) in [
        (header("Via:", 1, false), " one"),
        (header("Via:", 0, false), " one"),
        (header("Via:", 2, false), " four"),
        (header("VIA:", 2, true), " two"),
        (header("Via:", 3, false), " five"),
        (header("CSeq", 1, false), ": 7 INVITE"),
    ] {
        let mut world = World::new();
        world.quiet(ereg(".*", search_in.clone(), ActionCheck::MustMatch));
        assert_eq!(*world.value(0), text(found), "{search_in:?}");
    }
}

#[test]
fn a_header_that_is_not_there_is_empty_text() {
    for name in ["X-None:", "Subject:"] {
        let mut world = World::new();
        world.quiet(ereg(".*", header(name, 1, false), ActionCheck::No));
        assert_eq!(*world.value(0), text(""), "{name}");
        let missing = world.run(ereg(".*", header(name, 1, false), ActionCheck::MustMatch));
        assert_eq!(missing, ActionResult::Fail(Count::FailedRegexpHdrNotFound));
        assert!(world.told().contains(name));
        // An expression that matches nothing at all matches the nothing that was found.
        let unwanted = world.run(ereg("x*", header(name, 1, false), ActionCheck::MustNotMatch));
        assert_eq!(unwanted, ActionResult::Fail(Count::FailedRegexpShouldntMatch));
        world.quiet(ereg("x", header(name, 1, false), ActionCheck::MustNotMatch));
    }
}

#[test]
fn ereg_checks_both_ways() {
    let mut world = World::new();
    let missed = world.run(ereg("nowhere", SearchIn::Message, ActionCheck::MustMatch));
    assert_eq!(missed, ActionResult::Fail(Count::FailedRegexpDoesntMatch));
    assert!(world.told().contains("'nowhere' does not match"));
    let unwanted = world.run(ereg("INV", SearchIn::Message, ActionCheck::MustNotMatch));
    assert_eq!(unwanted, ActionResult::Fail(Count::FailedRegexpShouldntMatch));
    assert_eq!(*world.value(0), text("INV"));
    assert_eq!(world.count(Count::Warnings), 2);
    let without = world.on(ereg("a", SearchIn::Message, ActionCheck::MustMatch), None);
    assert_eq!(without, ActionResult::Fail(Count::FailedRegexpDoesntMatch));
}

#[test]
fn test_compares_numbers() {
    for (compare, holds) in [
        (CompareOperator::Equal, [false, true, false]),
        (CompareOperator::NotEqual, [true, false, true]),
        (CompareOperator::GreaterThan, [false, false, true]),
        (CompareOperator::LessThan, [true, false, false]),
        (CompareOperator::GreaterThanEqual, [false, true, true]),
        (CompareOperator::LessThanEqual, [true, true, false]),
    ] {
        for (left, holds) in [1.0, 2.0, 3.0].into_iter().zip(holds) {
            let mut world = World::new();
            world.put(0, VariableValue::Number(left));
            world.put(1, VariableValue::Number(2.0));
            for value in [Operand::Value(2.0), Operand::Variable(var(1))] {
                let assign_to = Some(var(2));
                let test =
                    VariableTest { variable: var(0), compare, value, assign_to, check: ActionCheck::No };
                world.quiet(ActionKind::Test(Box::new(test)));
                assert_eq!(*world.value(2), VariableValue::Bool(holds), "{left} {compare:?} 2");
            }
        }
    }
}

#[test]
fn test_checks_both_ways_and_assigns_nothing_then() {
    let mut world = World::new();
    world.put(0, VariableValue::Number(2.0));
    let test = |value, check| {
        let value = Operand::Value(value);
        let assign_to = Some(var(1));
        ActionKind::Test(Box::new(VariableTest {
            variable: var(0),
            compare: CompareOperator::Equal,
            value,
            assign_to,
            check,
        }))
    };
    assert_eq!(
        world.run(test(3.0, ActionCheck::MustMatch)),
        ActionResult::Fail(Count::FailedTestDoesntMatch)
    );
    assert_eq!(
        world.run(test(2.0, ActionCheck::MustNotMatch)),
        ActionResult::Fail(Count::FailedTestShouldntMatch)
    );
    assert_eq!(*world.value(1), VariableValue::Unset);
    assert!(world.told().contains("test: 2 == 2 is true"));
    world.quiet(test(2.0, ActionCheck::MustMatch));
    assert_eq!(*world.value(1), VariableValue::Bool(true));
    world.quiet(test(3.0, ActionCheck::MustNotMatch));
    assert_eq!(*world.value(1), VariableValue::Bool(false));
}

#[test]
fn strcmp_assigns_the_difference_and_checks_for_equality() {
    let mut world = World::new();
    world.put(0, text("abc"));
    world.put(1, text("abz"));
    let strcmp = |with, check| {
        ActionKind::StrCmp(Box::new(StrCmp { variable: var(0), with, assign_to: Some(var(2)), check }))
    };
    let value = |text| StrOperand::Value(lit(text));
    world.quiet(strcmp(StrOperand::Variable(var(1)), ActionCheck::No));
    assert_eq!(*world.value(2), VariableValue::Number(-23.0));
    world.quiet(strcmp(value("abc"), ActionCheck::MustMatch));
    assert_eq!(*world.value(2), VariableValue::Number(0.0));
    world.quiet(strcmp(value("ab"), ActionCheck::MustNotMatch));
    assert_eq!(*world.value(2), VariableValue::Number(99.0));
    assert_eq!(
        world.run(strcmp(value("x"), ActionCheck::MustMatch)),
        ActionResult::Fail(Count::FailedStrcmpDoesntMatch)
    );
    let unwanted = world.run(strcmp(value("abc"), ActionCheck::MustNotMatch));
    assert_eq!(unwanted, ActionResult::Fail(Count::FailedStrcmpShouldntMatch));
    assert_eq!(*world.value(2), VariableValue::Number(99.0));
}

#[test]
fn rtpcheck_asks_for_all_and_fails_or_assigns() {
    let mut world = World::new();
    let check = RtpCheck {
        video: true,
        min_packets: Some(1),
        max_packets: Some(2),
        max_loss: Some(3.0),
        max_jitter: Some(4.0),
        max_reordered: Some(5),
        min_mos: Some(4.1),
        dtmf: Some(lit("12#")),
        min_speech: Some(6),
        max_silence: Some(7),
        two_way: Some(false),
        assign_to: None,
    };
    world.quiet(ActionKind::RtpCheck(Box::new(check.clone())));
    let wanted = Requirement {
        video: true,
        min_packets: Some(1),
        max_packets: Some(2),
        max_loss: Some(3.0),
        max_jitter: Some(4.0),
        max_reordered: Some(5),
        min_mos: Some(4.1),
        dtmf: Some("12#".to_owned()),
        min_speech: Some(6),
        max_silence: Some(7),
        two_way: Some(false),
    };
    assert_eq!(world.media.asked, [wanted]);

    world.media.missed = Some("2 packets of 50");
    let failed = world.run(ActionKind::RtpCheck(Box::new(check.clone())));
    assert_eq!(failed, ActionResult::Fail(Count::FailedRtpCheck));
    assert_eq!(world.told(), "line 3: rtpcheck: 2 packets of 50");

    let assigning = RtpCheck { assign_to: Some(var(0)), ..check };
    world.quiet(ActionKind::RtpCheck(Box::new(assigning.clone())));
    assert_eq!(*world.value(0), VariableValue::Number(0.0));
    world.media.missed = None;
    world.quiet(ActionKind::RtpCheck(Box::new(assigning)));
    assert_eq!(*world.value(0), VariableValue::Number(1.0));
}

proptest! {
    #[test]
    fn any_bytes_may_be_searched(
        bytes in proptest::collection::vec(any::<u8>(), 0..3000),
        pattern in prop::sample::select(vec!["(.)(.*)", "[[:digit:]]+$", "a|(b)c", "x*", "plain", "^$"]),
        name in "[a-zV:]{0,3}",
        flags in 0u8..8,
        occurrence in 0u32..4,
    ) {
        let mut world = World::new();
        let mut message = b"BYE sip:a SIP/2.0\r\nCall-ID: 1\r\nCSeq: 1 BYE\r\nVia:".to_vec();
        message.extend_from_slice(&bytes);
        let places = [
            SearchIn::Message,
            SearchIn::Body,
            header(&name, occurrence, flags & 1 != 0),
            SearchIn::Variable(var(0)),
        ];
        for place in places {
            let check = if flags & 4 == 0 { ActionCheck::No } else { ActionCheck::MustMatch };
            world.on(ereg(pattern, place, check), Some(&message));
        }
    }
}

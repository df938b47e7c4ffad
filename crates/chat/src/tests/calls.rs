//! The calls of an account, for its own clients.

use super::super::effect::{CallHistoryPage, CallHistoryQuery, PastCall};
use super::pubsub::ask;
use super::*;
use crate::limits;

/// The calls in the store.
#[derive(Default)]
pub(super) struct Calls {
    /// The newest end first.
    pub(super) of: HashMap<Bare, Vec<PastCall>>,
    pub(super) is_partial: bool,
}

impl Calls {
    pub(super) fn page(&self, user: &Bare, query: CallHistoryQuery) -> CallHistoryPage {
        let all = self.of.get(user).map(Vec::as_slice).unwrap_or_default();
        let mut calls = all.iter().filter(|call| query.until.is_none_or(|until| call.ended_at <= until));
        let page: Vec<PastCall> = calls.by_ref().take(query.max as usize).cloned().collect();
        let next = calls.next().map(|call| call.ended_at);
        CallHistoryPage { calls: page, next, is_partial: self.is_partial }
    }
}

const ALICE: &str = "alice@example.org";
const BOB: &str = "bob@example.org";

/// A call of bob's that ended so many seconds after the start of the world.
fn call(id: &str, seconds: u64) -> PastCall {
    PastCall {
        id: id.into(),
        with: "sip:bob@example.org".into(),
        is_incoming: true,
        started_at: START,
        answered_at: None,
        ended_at: START + Duration::from_secs(seconds),
        code: 487,
    }
}

/// A world in which alice has these calls.
fn world(calls: Vec<PastCall>) -> (HostWorld, u64) {
    let mut world = HostWorld::new(&[ALICE, BOB]);
    world.store.calls.of.insert(Bare::parse(ALICE).unwrap(), calls);
    let alice = world.sign_in("alice@example.org/desk");
    (world, alice)
}

fn calls(set: &str) -> String {
    format!("<calls xmlns='urn:belfry:calls:0'>{set}</calls>")
}

fn set(inner: &str) -> String {
    calls(&format!("<set xmlns='http://jabber.org/protocol/rsm'>{inner}</set>"))
}

#[test]
fn an_account_reads_its_calls_with_their_outcomes() {
    let answered = PastCall { answered_at: Some(START + Duration::from_secs(3)), code: 200, ..call("1", 63) };
    let (mut world, alice) = world(vec![answered, call("2", 20)]);
    let answer = ask(&mut world, alice, "get", ALICE, &calls(""));
    let first = "<call id='1' direction='incoming' with='sip:bob@example.org' start='2027-01-15T08:00:00.000Z' \
                 seconds='60' outcome='answered' code='200'/>";
    let second = "<call id='2' direction='incoming' with='sip:bob@example.org' start='2027-01-15T08:00:00.000Z' \
                  outcome='missed' code='487'/>";
    assert!(
        answer.contains(&format!("<calls xmlns='urn:belfry:calls:0'>{first}{second}</calls>")),
        "{answer}"
    );
    // Without an address it is the account of the session, too.
    let request = format!("<iq type='get' id='q'>{}</iq>", calls(""));
    world.say(alice, &request);
    assert!(world.hear(alice).concat().contains(first));
}

#[test]
fn every_final_status_has_a_word_for_either_side() {
    for (code, incoming, outgoing) in [
        (0, "missed", "no-answer"),
        (408, "missed", "no-answer"),
        (480, "missed", "no-answer"),
        (487, "missed", "cancelled"),
        (486, "busy", "busy"),
        (600, "busy", "busy"),
        (603, "declined", "declined"),
        (404, "unknown", "unknown"),
        (488, "failed", "failed"),
        (503, "failed", "failed"),
    ] {
        let other = PastCall { code, is_incoming: false, ..call("2", 1) };
        let (mut world, alice) = world(vec![PastCall { code, ..call("1", 2) }, other]);
        let answer = ask(&mut world, alice, "get", ALICE, &calls(""));
        let words = answer.split("outcome='").skip(1).map(|rest| rest.split('\'').next().unwrap());
        assert_eq!(words.collect::<Vec<_>>(), [incoming, outgoing], "{code}");
    }
}

#[test]
fn pages_follow_one_another_and_are_bounded() {
    let number = u64::from(limits::CALLS_PAGE_MAX) + 20;
    let (mut world, alice) = world((0..number).rev().map(|at| call(&at.to_string(), at)).collect());
    let count = |answer: &str| answer.matches("<call ").count();
    let first = ask(&mut world, alice, "get", ALICE, &calls(""));
    assert_eq!(count(&first), limits::CALLS_PAGE as usize);
    let first = ask(&mut world, alice, "get", ALICE, &set("<max>1000</max>"));
    assert_eq!(count(&first), limits::CALLS_PAGE_MAX as usize);
    let last = first.split("<last>").nth(1).and_then(|rest| rest.split('<').next()).unwrap();
    let second = set(&format!("<max>100</max><after>{last}</after>"));
    let second = ask(&mut world, alice, "get", ALICE, &second);
    assert_eq!(count(&second), 20);
    assert!(second.contains("<call id='0'") && !second.contains("<set"), "the last page: {second}");
}

#[test]
fn a_page_of_long_addresses_ends_before_it_is_too_large_for_its_client() {
    let long =
        |at: u64| PastCall { with: "&".repeat(512).into(), id: "'".repeat(512).into(), ..call("", at) };
    let (mut world, alice) = world((0..100).rev().map(long).collect());
    let (mut seen, mut after) = (0, String::new());
    for _ in 0..100 {
        let answer = ask(&mut world, alice, "get", ALICE, &set(&format!("<max>100</max>{after}")));
        assert!(answer.contains("type='result'") && answer.len() < limits::STANZA, "{}", answer.len());
        seen += answer.matches("<call ").count();
        let Some(last) = answer.split("<last>").nth(1).and_then(|rest| rest.split('<').next()) else { break };
        after = format!("<after>{last}</after>");
    }
    assert_eq!(seen, 100);
}

#[test]
fn the_calls_of_another_account_are_not_shown() {
    let (mut world, alice) = world(vec![call("1", 1)]);
    let bob = world.sign_in("bob@example.org/desk");
    for to in [ALICE, "alice@example.org/desk", "example.org"] {
        world.say(bob, &format!("<iq type='get' id='q' to='{to}'>{}</iq>", calls("")));
        // The client of alice is asked itself: bob may ask a client anything, and the server does not answer for it.
        let heard = world.hear(bob).concat();
        assert!(!heard.contains("<call ") && !heard.contains("type='result'"), "{to}: {heard}");
    }
    world.hear(alice);
    let answer = ask(&mut world, bob, "get", BOB, &calls(""));
    assert!(answer.contains("<calls xmlns='urn:belfry:calls:0'/>"), "{answer}");
    // Another server asks, also in the name of alice.
    world.arrive(&format!("<iq type='get' id='q' from='eve@x.org/1' to='{ALICE}'>{}</iq>", calls("")));
    let sent = world.sent_abroad().concat();
    assert!(sent.contains("service-unavailable") && !sent.contains("<call "), "{sent}");
    let loads = world.store.loads.iter().filter(|load| matches!(load, Load::Calls { .. }));
    assert_eq!(loads.count(), 1, "a refused request costs no read");
}

#[test]
fn bad_queries_are_answered() {
    let (mut world, alice) = world(vec![call("1", 1)]);
    for (inner, condition) in [
        ("<max>many</max>", "bad-request"),
        ("<max>0</max>", "bad-request"),
        ("<max>-1</max>", "bad-request"),
        ("<before/>", "feature-not-implemented"),
        ("<index>3</index>", "feature-not-implemented"),
        ("<after>yesterday</after>", "item-not-found"),
        ("<after>99999999999999999999999</after>", "item-not-found"),
    ] {
        let answer = ask(&mut world, alice, "get", ALICE, &set(inner));
        assert!(answer.contains("type='error'") && answer.contains(condition), "{inner}: {answer}");
    }
    let answer = ask(&mut world, alice, "set", ALICE, &calls(""));
    assert!(answer.contains("bad-request"), "{answer}");
    let first = ask(&mut world, alice, "get", ALICE, &set("<after/>"));
    assert!(first.contains("<call id='1'"), "an empty `after` is the first page: {first}");
}

#[test]
fn an_answer_without_some_nodes_says_so_and_one_of_no_store_is_an_error() {
    let (mut world, alice) = world(vec![call("1", 1)]);
    world.store.calls.is_partial = true;
    let answer = ask(&mut world, alice, "get", ALICE, &calls(""));
    assert!(answer.contains("<calls xmlns='urn:belfry:calls:0' partial='true'>"), "{answer}");
    world.store.is_broken = true;
    let answer = ask(&mut world, alice, "get", ALICE, &calls(""));
    assert!(answer.contains("resource-constraint") && answer.contains("type='wait'"), "{answer}");
}

/// A stranger chooses both with any bytes.
#[test]
fn no_caller_breaks_the_stream_of_the_callee_by_its_call_id() {
    let strange = PastCall { with: "sip:\u{ffff}@example.org".into(), ..call("1\u{0}\u{1b}2", 1) };
    let (mut world, alice) = world(vec![strange]);
    let answer = ask(&mut world, alice, "get", ALICE, &calls(""));
    assert!(answer.contains("id='1\u{fffd}\u{fffd}2'"), "{answer}");
    assert!(answer.contains("with='sip:\u{fffd}@example.org'"), "{answer}");
}

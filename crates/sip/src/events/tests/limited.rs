//! Limits, and input that clients do not send.

use proptest::prelude::*;

use super::*;

#[test]
fn one_watcher_has_so_many() {
    let mut world = World::new();
    for _ in 0..limits::SUBSCRIPTIONS_PER_WATCHER {
        assert!(world.request("SUBSCRIBE", "Event: presence", "").contains(" 200 "));
    }
    assert!(world.request("SUBSCRIBE", "Event: presence", "").contains(" 403 Too Many Subscriptions"));
    assert_eq!(world.notifier.counters().limited, 1);
    world.account = Some("carol@a.test");
    assert!(world.request("SUBSCRIBE", "Event: presence", "").contains(" 200 "));
}

#[test]
fn refreshing_leaves_no_timers_behind() {
    let mut world = World::new();
    world.request("SUBSCRIBE", "Event: presence", "");
    world.answer(Answer::State(presence(true)));
    world.result(200);
    for _ in 0..50 {
        world.again("SUBSCRIBE", "Event: presence");
        world.answer(Answer::State(presence(true)));
        world.result(200);
    }
    world.wait(Duration::from_secs(12));
    assert_eq!(world.notifier.wheel.len(), 1);
    assert_eq!(world.notifier.counts().asked, 0);
}

#[test]
fn a_shard_waits_for_so_many_answers() {
    let mut world = World { account: Some(AOR), ..World::new() };
    let headers = "Event: presence\nSIP-If-Match: a";
    for _ in 0..limits::ASKED {
        world.request("PUBLISH", headers, "");
    }
    insta::assert_snapshot!(world.request("PUBLISH", headers, ""), @"reply 16385: 503 Service Unavailable; Retry-After: 30");
    insta::assert_snapshot!(world.request("SUBSCRIBE", "Event: reg", ""), @"reply 16386: 503 Service Unavailable; Retry-After: 30");
}

fn odd_line() -> impl Strategy<Value = String> {
    let name = prop_oneof![
        Just("Event"),
        Just("Accept"),
        Just("Expires"),
        Just("Contact"),
        Just("Record-Route"),
        Just("SIP-If-Match"),
        Just("Content-Type"),
        Just("Require"),
    ];
    let value = prop_oneof![
        "presence(;id=[a-z<>\";=]{0,6})?",
        "[0-9]{0,11}",
        "<sip:[a-z@:;<>=.]{0,12}>",
        "[ -~]{0,20}",
        Just("presence".to_owned())
    ];
    (name, value).prop_map(|(name, value)| format!("{name}: {value}"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    /// Every request has exactly one final response; our messages are valid SIP; nothing is left behind.
    #[test]
    fn any_request_is_answered_once(
        lines in prop::collection::vec(odd_line(), 0..5),
        method in prop_oneof![Just("SUBSCRIBE"), Just("PUBLISH"), Just("MESSAGE")],
        status in 200u16..700,
    ) {
        let mut world = World { account: Some(AOR), ..World::new() };
        let mut text = world.request(method, &lines.join("\n"), "");
        while !world.asked.is_empty() || !world.sent.is_empty() {
            while let Some((_, query)) = world.asked.first() {
                let answer = match query {
                    Query::Watch { .. } => Answer::State(presence(true)),
                    Query::Keep(_) => Answer::Kept(Ok(())),
                    _ => Answer::Published(Err(router::PublishRefused::TooMany)),
                };
                text.push_str(&world.answer(answer));
            }
            if let Some((_, request)) = world.sent.first() {
                let mut bytes = request.bytes().to_vec();
                let at = request.start_line().len() + 2;
                bytes.splice(at..at, *b"Via: SIP/2.0/UDP us;branch=z9hG4bK1\r\n");
                let whole = Message::parse(bytes.into()).unwrap();
                prop_assert_eq!(crate::wire::check_request(&whole), Ok(()));
                text.push_str(&world.result(status));
            }
        }
        prop_assert_eq!(text.lines().filter(|line| line.starts_with("reply")).count(), 1, "{}", text);
        text.push_str(&world.wait(Duration::from_secs(4_000)));
        prop_assert_eq!(world.notifier.counts(), EventCounts::default());
        prop_assert!(world.notifier.wheel.is_empty() && world.notifier.by_watcher.is_empty());
    }
}

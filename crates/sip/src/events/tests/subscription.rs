use super::*;

const PRESENCE: &str = "Event: presence\nExpires: 600";

/// RFC 6665 §4.2: 200, NOTIFY, change, refresh, end.
#[test]
fn a_subscription_lives_and_ends() {
    let mut world = World::new();
    insta::assert_snapshot!(world.request("SUBSCRIBE", PRESENCE, ""), @r#"
    reply 1: 200 OK; Contact: <sip:192.0.2.1:5060>; Expires: 600
    ask Watch alice@a.test Presence until 1289691540
    "#);
    insta::assert_snapshot!(world.answer(Answer::State(presence(false))), @r#"
    send NOTIFY sip:bob@192.0.2.9 to sip:bob@192.0.2.9; CSeq: 1 NOTIFY; Contact: <sip:192.0.2.1:5060>; Event: presence; Subscription-State: active;expires=600; Content-Type: application/pidf+xml
      | <?xml version="1.0" encoding="UTF-8"?>
      | <presence xmlns="urn:ietf:params:xml:ns:pidf" entity="sip:alice@a.test">
      |   <tuple id="registered">
      |     <status><basic>closed</basic></status>
      |     <contact>sip:alice@a.test</contact>
      |   </tuple>
      | </presence>
    "#);
    assert_eq!(world.result(200), "");
    world.wait(Duration::from_secs(100));
    insta::assert_snapshot!(world.push(presence(true)), @r#"
    send NOTIFY sip:bob@192.0.2.9 to sip:bob@192.0.2.9; CSeq: 2 NOTIFY; Contact: <sip:192.0.2.1:5060>; Event: presence; Subscription-State: active;expires=500; Content-Type: application/pidf+xml
      | <?xml version="1.0" encoding="UTF-8"?>
      | <presence xmlns="urn:ietf:params:xml:ns:pidf" entity="sip:alice@a.test">
      |   <tuple id="registered">
      |     <status><basic>open</basic></status>
      |     <contact>sip:alice@a.test</contact>
      |   </tuple>
      | </presence>
    "#);
    assert_eq!(world.result(200), "");
    insta::assert_snapshot!(world.again("SUBSCRIBE", "Event: presence\nExpires: 600"), @r#"
    reply 2: 200 OK; Contact: <sip:192.0.2.1:5060>; Expires: 600
    ask Watch alice@a.test Presence until 1289691640
    "#);
    insta::assert_snapshot!(world.answer(Answer::State(presence(true))), @r#"
    send NOTIFY sip:bob@192.0.2.9 to sip:bob@192.0.2.9; CSeq: 3 NOTIFY; Contact: <sip:192.0.2.1:5060>; Event: presence; Subscription-State: active;expires=600; Content-Type: application/pidf+xml
      | <?xml version="1.0" encoding="UTF-8"?>
      | <presence xmlns="urn:ietf:params:xml:ns:pidf" entity="sip:alice@a.test">
      |   <tuple id="registered">
      |     <status><basic>open</basic></status>
      |     <contact>sip:alice@a.test</contact>
      |   </tuple>
      | </presence>
    "#);
    world.result(200);
    insta::assert_snapshot!(world.again("SUBSCRIBE", "Event: presence\nExpires: 0"), @r#"
    reply 3: 200 OK; Contact: <sip:192.0.2.1:5060>; Expires: 0
    ask Unwatch alice@a.test Presence
    send NOTIFY sip:bob@192.0.2.9 to sip:bob@192.0.2.9; CSeq: 4 NOTIFY; Contact: <sip:192.0.2.1:5060>; Event: presence; Subscription-State: terminated;reason=timeout; Content-Type: application/pidf+xml
      | <?xml version="1.0" encoding="UTF-8"?>
      | <presence xmlns="urn:ietf:params:xml:ns:pidf" entity="sip:alice@a.test">
      |   <tuple id="registered">
      |     <status><basic>open</basic></status>
      |     <contact>sip:alice@a.test</contact>
      |   </tuple>
      | </presence>
    "#);
    assert_eq!(world.notifier.counts(), EventCounts::default());
    assert!(world.notifier.by_tag.is_empty() && world.notifier.by_watcher.is_empty());
}

/// RFC 3261 §19.1.1, table 1: a Contact may have a method, a Request-URI may not.
#[test]
fn a_notify_goes_to_a_request_uri() {
    let mut world = World::new();
    let contact = "Contact: <sip:bob@192.0.2.9;method=SUBSCRIBE?Subject=x>";
    world.request("SUBSCRIBE", &format!("{PRESENCE}\n{contact}"), "");
    let sent = world.answer(Answer::State(presence(true)));
    assert!(sent.starts_with("send NOTIFY sip:bob@192.0.2.9 to "), "{sent}");
}

/// The whole NOTIFY as it goes out, but for the Via (RFC 3261 §12.2.1.1).
#[test]
fn a_notify_is_a_request_in_its_dialog() {
    let mut world = World::new();
    world.request("SUBSCRIBE", "Event: presence;id=7\nRecord-Route: <sip:p1.test;lr>, <sip:p2.test;lr>", "");
    world.answer(Answer::State(presence(true)));
    let (_, notify) = &world.sent[0];
    let text = std::str::from_utf8(notify.bytes()).unwrap().replace("\r\n", "\n");
    insta::assert_snapshot!(text, @r#"
    NOTIFY sip:bob@192.0.2.9 SIP/2.0
    Route: <sip:p1.test;lr>
    Route: <sip:p2.test;lr>
    Max-Forwards: 70
    From: <sip:alice@a.test>;tag=nsxsfvylfbeohjry
    To: "Bob" <sip:bob@a.test>;tag=bob1
    Call-ID: c1@192.0.2.9
    CSeq: 1 NOTIFY
    Contact: <sip:192.0.2.1:5060>
    Event: presence;id=7
    Subscription-State: active;expires=3600
    User-Agent: Belfry/0.1.0
    Content-Type: application/pidf+xml
    Content-Length: 242

    <?xml version="1.0" encoding="UTF-8"?>
    <presence xmlns="urn:ietf:params:xml:ns:pidf" entity="sip:alice@a.test">
      <tuple id="registered">
        <status><basic>open</basic></status>
        <contact>sip:alice@a.test</contact>
      </tuple>
    </presence>
    "#);
}

#[test]
fn a_strict_router_gets_the_request_uri() {
    let mut world = World::new();
    world.request("SUBSCRIBE", "Event: presence\nRecord-Route: <sip:p1.test>, <sip:p2.test;lr>", "");
    let notify = world.answer(Answer::State(presence(true)));
    insta::assert_snapshot!(notify.lines().next().unwrap(), @"send NOTIFY sip:p1.test to sip:p2.test;lr by Udp 192.0.2.9:5060; Route: <sip:p2.test;lr>; Route: <sip:bob@192.0.2.9>; CSeq: 1 NOTIFY; Contact: <sip:192.0.2.1:5060>; Event: presence; Subscription-State: active;expires=3600; Content-Type: application/pidf+xml");
}

#[test]
fn it_goes_back_by_connection_and_through_a_nat() {
    for (from, contact) in [
        (source(Transport::Tcp, "192.0.2.9:40001"), "sip:bob@192.0.2.9;transport=tcp"),
        (source(Transport::Udp, "198.51.100.4:1024"), "sip:bob@10.0.0.9"),
        (source(Transport::Udp, "192.0.2.9:1024"), "sip:bob@192.0.2.9:5070"),
        (source(Transport::Udp, "192.0.2.9:1024"), "sip:bob@phone.test"),
    ] {
        let mut world = World { source: from, ..World::new() };
        world.request("SUBSCRIBE", &format!("Event: presence\nContact: <{contact}>"), "");
        let notify = world.answer(Answer::State(presence(true)));
        let back = notify.split(';').find(|part| part.contains(" by "));
        // A Contact at the host that sent it is believed. A name may lead to any host.
        assert_eq!(back.is_some(), contact != "sip:bob@192.0.2.9:5070", "{contact}");
    }
}

#[test]
fn a_fetch_gets_one_notify() {
    let mut world = World::new();
    insta::assert_snapshot!(world.request("SUBSCRIBE", "Event: presence\nExpires: 0", ""), @r#"
    reply 1: 200 OK; Contact: <sip:192.0.2.1:5060>; Expires: 0
    ask Watch alice@a.test Presence until 1289690940
    "#);
    insta::assert_snapshot!(world.answer(Answer::State(presence(true))), @r#"
    send NOTIFY sip:bob@192.0.2.9 to sip:bob@192.0.2.9; CSeq: 1 NOTIFY; Contact: <sip:192.0.2.1:5060>; Event: presence; Subscription-State: terminated;reason=timeout; Content-Type: application/pidf+xml
      | <?xml version="1.0" encoding="UTF-8"?>
      | <presence xmlns="urn:ietf:params:xml:ns:pidf" entity="sip:alice@a.test">
      |   <tuple id="registered">
      |     <status><basic>open</basic></status>
      |     <contact>sip:alice@a.test</contact>
      |   </tuple>
      | </presence>
    "#);
    assert_eq!(world.notifier.counts(), EventCounts::default());
    assert_eq!(world.result(481), "");
}

#[test]
fn it_expires_by_itself() {
    let mut world = World::new();
    world.request("SUBSCRIBE", PRESENCE, "");
    world.answer(Answer::State(presence(true)));
    world.result(200);
    assert_eq!(world.wait(Duration::from_millis(599_900)), "");
    let end = world.wait(Duration::from_millis(200));
    insta::assert_snapshot!(end.lines().next().unwrap(), @"send NOTIFY sip:bob@192.0.2.9 to sip:bob@192.0.2.9; CSeq: 2 NOTIFY; Contact: <sip:192.0.2.1:5060>; Event: presence; Subscription-State: terminated;reason=timeout; Content-Type: application/pidf+xml");
    assert_eq!(world.notifier.counts().subscriptions, 0);
}

/// RFC 6665 §4.2.2, and one second between two NOTIFYs: changes in between are merged.
#[test]
fn changes_during_an_open_notify_are_merged() {
    let mut world = World::new();
    world.request("SUBSCRIBE", PRESENCE, "");
    assert!(world.answer(Answer::State(presence(false))).contains("closed"));
    assert_eq!(world.push(presence(true)), "", "one NOTIFY at a time");
    assert_eq!(world.push(presence(false)), "");
    assert_eq!(world.push(presence(true)), "");
    assert_eq!(world.result(200), "", "not within a second");
    assert_eq!(world.wait(Duration::from_millis(900)), "");
    assert!(world.wait(Duration::from_millis(110)).contains("open"));
    world.wait(Duration::from_secs(2));
    assert_eq!(world.result(200), "");
    assert_eq!(world.push(presence(true)), "", "no change, no NOTIFY");
    assert!(world.push(presence(false)).contains("closed"), "at once when the last is long ago");
}

#[test]
fn a_481_to_a_notify_removes_the_subscription() {
    for status in [408, 481, 404, 501] {
        let mut world = World::new();
        world.request("SUBSCRIBE", PRESENCE, "");
        world.answer(Answer::State(presence(true)));
        assert_eq!(world.result(status), "ask Unwatch alice@a.test Presence\n");
        assert_eq!(world.notifier.counts().subscriptions, 0);
    }
    let mut world = World::new();
    world.request("SUBSCRIBE", PRESENCE, "");
    world.answer(Answer::State(presence(true)));
    assert_eq!(world.result(500), "", "a passing fault ends nothing");
    assert_eq!(world.notifier.counts().subscriptions, 1);
}

#[test]
fn a_silent_router_ends_the_subscription() {
    let mut world = World::new();
    world.request("SUBSCRIBE", PRESENCE, "");
    insta::assert_snapshot!(world.wait(Duration::from_millis(11_010)), @r#"
    ask Unwatch alice@a.test Presence
    send NOTIFY sip:bob@192.0.2.9 to sip:bob@192.0.2.9; CSeq: 1 NOTIFY; Contact: <sip:192.0.2.1:5060>; Event: presence; Subscription-State: terminated;reason=probation;retry-after=30
    "#);
    // Its answer comes too late.
    assert_eq!(world.answer(Answer::State(presence(true))), "");
}

#[test]
fn a_node_that_leaves_asks_to_subscribe_elsewhere() {
    let mut world = World::new();
    world.request("SUBSCRIBE", PRESENCE, "");
    world.answer(Answer::State(presence(true)));
    let mut out = Vec::new();
    world.notifier.drain(world.now, &mut out);
    assert!(world.show(out).contains("Subscription-State: terminated;reason=deactivated"));
    assert_eq!(world.result(200), "");
}

#[test]
fn a_request_outside_any_dialog_gets_481() {
    let mut world = World::new();
    world.request("SUBSCRIBE", PRESENCE, "");
    world.answer(Answer::State(presence(true)));
    let ours = world.last_to.clone();
    let tell = |world: &mut World, to: &str, lines: &str| world.request_to("SUBSCRIBE", to, lines, "");
    insta::assert_snapshot!(tell(&mut world, "<sip:alice@a.test>;tag=other", PRESENCE), @"reply 2: 481 Subscription Does Not Exist");
    // Another event in the same dialog.
    insta::assert_snapshot!(tell(&mut world, &ours, "Event: dialog"), @"reply 3: 481 Subscription Does Not Exist");
    insta::assert_snapshot!(tell(&mut world, &ours, "Event: presence;id=2"), @"reply 4: 481 Subscription Does Not Exist");
    // Another's account.
    world.account = Some("eve@a.test");
    insta::assert_snapshot!(tell(&mut world, &ours, PRESENCE), @"reply 5: 403 Forbidden");
    // RFC 3261 §12.2.2.
    world.account = Some("bob@a.test");
    world.transaction = 0;
    insta::assert_snapshot!(tell(&mut world, &ours, PRESENCE), @"reply 1: 500 CSeq Out Of Order");
}

#[test]
fn bad_subscriptions_get_their_answer() {
    let mut world = World::new();
    let mut tell = |lines: &str| world.request("SUBSCRIBE", lines, "");
    insta::assert_snapshot!(tell("Expires: 600"), @"reply 1: 489 Bad Event; Allow-Events: presence, dialog, message-summary, reg");
    insta::assert_snapshot!(tell("Event: presence.winfo"), @"reply 2: 489 Bad Event; Allow-Events: presence, dialog, message-summary, reg");
    insta::assert_snapshot!(tell("Event: presence\nAccept: text/plain, application/cpim-pidf+xml"), @"reply 3: 406 Not Acceptable; Accept: application/pidf+xml");
    insta::assert_snapshot!(tell("Event: presence\nExpires: 59"), @"reply 4: 423 Interval Too Brief; Min-Expires: 60");
    insta::assert_snapshot!(tell("Event: presence\nExpires: soon"), @"reply 5: 400 Bad Expires");
    insta::assert_snapshot!(tell("Event: presence\nRequire: eventlist"), @"reply 6: 420 Bad Extension; Unsupported: eventlist");
    insta::assert_snapshot!(tell("Event: presence\nContact: *"), @"reply 7: 400 Bad Contact");
    insta::assert_snapshot!(tell("Event: presence\nContact: <sip:b@b>, <sip:c@c>"), @"reply 8: 400 Bad Contact");
    insta::assert_snapshot!(tell("Event: message-summary"), @"reply 9: 403 Forbidden");
    insta::assert_snapshot!(tell("Event: reg"), @"reply 10: 403 Forbidden");
    assert_eq!(world.notifier.counts(), EventCounts::default());
    world.account = None;
    insta::assert_snapshot!(world.request("SUBSCRIBE", "Event: dialog", ""), @"reply 11: 403 Forbidden");
    insta::assert_snapshot!(world.request("SUBSCRIBE", "Event: presence", ""), @"reply 12: 403 Forbidden");
    world.notifier.set_rules(EventRules { strangers_see_presence: true, ..EventRules::default() });
    let accepted = world.request("SUBSCRIBE", "o: Presence\nExpires: 99999\nAccept: application/*", "");
    insta::assert_snapshot!(accepted, @r#"
    reply 13: 200 OK; Contact: <sip:192.0.2.1:5060>; Expires: 3600
    ask Watch alice@a.test Presence until 1289694540
    "#);
}

fn moved(world: &mut World, has_moved: bool) -> String {
    let mut out = Vec::new();
    super::super::subscribe::watch_again(&mut world.notifier, world.now, |_| has_moved, &mut out);
    world.show(out)
}

/// In a farm a watch does not move with its address: the new owner is asked until it answers, and only news is told.
#[test]
fn a_subscription_watches_at_the_new_owner_of_its_address() {
    let mut world = World::new();
    world.request("SUBSCRIBE", PRESENCE, "");
    world.answer(Answer::State(presence(false)));
    world.result(200);
    world.wait(Duration::from_secs(10));
    assert_eq!(moved(&mut world, false), "");
    insta::assert_snapshot!(moved(&mut world, true), @"ask Watch alice@a.test Presence until 1289691540");
    assert_eq!(world.answer(Answer::Unavailable), "");
    insta::assert_snapshot!(world.wait(Duration::from_millis(11_010)), @"ask Watch alice@a.test Presence until 1289691540");
    assert_eq!(world.answer(Answer::State(presence(false))), "", "no news");
    moved(&mut world, true);
    assert!(world.answer(Answer::State(presence(true))).contains("<basic>open</basic>"));
}

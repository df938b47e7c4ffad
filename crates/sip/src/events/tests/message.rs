use router::{KeepRefused, WaitingMessage};

use super::*;

const TEXT: &str = "Content-Type: text/plain";

fn kept() -> Box<WaitingMessage> {
    Box::new(WaitingMessage {
        id: 42,
        aor: AOR.into(),
        from: "sip:bob@a.test".into(),
        content_type: "text/plain".into(),
        body: b"Watson, come here.".as_slice().into(),
        sent_at: Instant::from_unix_seconds(1_289_690_940),
        expires_at: None,
    })
}

fn deliver(world: &mut World, bindings: Vec<Binding>) -> String {
    let mut out = Vec::new();
    world.notifier.handle_push(world.now, Push::Deliver { bindings, message: kept() }, &mut out);
    world.show(out)
}

/// RFC 3428 §7.
#[test]
fn a_message_without_reachable_contact_is_stored() {
    let mut world = World::new();
    insta::assert_snapshot!(world.request("MESSAGE", TEXT, "Watson, come here."), @r#"ask Keep for alice@a.test from sip:bob@a.test text/plain "Watson, come here." at 1289690940"#);
    insta::assert_snapshot!(world.answer(Answer::Kept(Ok(()))), @"reply 1: 202 Accepted");
    for (refused, status) in
        [(KeepRefused::TooMany, " 480"), (KeepRefused::TooLarge, " 413"), (KeepRefused::StoreFailed, " 500")]
    {
        world.request("MESSAGE", TEXT, "again");
        let reply = world.answer(Answer::Kept(Err(refused)));
        assert!(reply.contains(status), "{reply}");
    }
}

#[test]
fn a_message_that_must_not_wait_is_not_stored() {
    let mut world = World::new();
    let mut tell = |lines: &str, body: &str| world.request("MESSAGE", lines, body);
    insta::assert_snapshot!(tell("Content-Type: application/im-iscomposing+xml", "<x/>"), @"reply 1: 480 Temporarily Unavailable");
    insta::assert_snapshot!(tell(&format!("{TEXT}\nExpires: 0"), "now or never"), @"reply 2: 480 Temporarily Unavailable");
    insta::assert_snapshot!(tell(TEXT, &"x".repeat(limits::KEPT_MESSAGE_BYTES + 1)), @"reply 3: 413 Request Entity Too Large");
    insta::assert_snapshot!(tell(&format!("{TEXT}\nContent-Encoding: gzip"), "x"), @"reply 4: 480 Temporarily Unavailable");
}

/// RFC 3261 §19.1.1, table 1: a Contact may have headers and a method, a Request-URI may not.
#[test]
fn a_kept_message_goes_to_a_request_uri() {
    let mut world = World::new();
    let sent = deliver(&mut world, vec![binding("sip:alice@192.0.2.7:5070;method=INVITE;line=1?Subject=x")]);
    assert!(sent.starts_with("send MESSAGE sip:alice@192.0.2.7:5070;line=1 to "), "{sent}");
}

/// RFC 3428 §4: Expires counts from Date, and goes with the message.
#[test]
fn a_kept_message_has_its_expires() {
    let mut world = World::new();
    let asked = world.request("MESSAGE", &format!("{TEXT}\nExpires: 60"), "for a minute");
    assert!(asked.trim_end().ends_with("until 1289691000"), "{asked}");
    let asked = world.request("MESSAGE", &format!("{TEXT}\nExpires: soon"), "for ever");
    assert!(!asked.contains("until"), "{asked}");
    let message = WaitingMessage { expires_at: Some(Instant::from_unix_seconds(1_289_691_000)), ..*kept() };
    let bindings = vec![binding("sip:alice@192.0.2.7:5070")];
    let mut out = Vec::new();
    world.notifier.handle_push(world.now, Push::Deliver { bindings, message: Box::new(message) }, &mut out);
    world.show(out);
    let text = std::str::from_utf8(world.sent[0].1.bytes()).unwrap();
    assert!(text.contains("Date: Sat, 13 Nov 2010 23:29:00 GMT\r\nExpires: 60\r\n"), "{text}");
}

/// The whole MESSAGE as it goes out, but for the Via.
#[test]
fn it_is_delivered_with_the_date_it_was_sent() {
    let mut world = World::new();
    world.now = world.now + Duration::from_secs(86_400);
    assert_ne!(deliver(&mut world, vec![binding("sip:alice@192.0.2.7:5070")]), "");
    let text = std::str::from_utf8(world.sent[0].1.bytes()).unwrap().replace("\r\n", "\n");
    insta::assert_snapshot!(text, @r#"
    MESSAGE sip:alice@192.0.2.7:5070 SIP/2.0
    Max-Forwards: 70
    From: <sip:bob@a.test>;tag=nsxsfvylfbeohjry
    To: <sip:alice@a.test>
    Call-ID: 6gd5bc5qmpeswzjr
    CSeq: 1 MESSAGE
    Date: Sat, 13 Nov 2010 23:29:00 GMT
    User-Agent: Belfry/0.1.0
    Content-Type: text/plain
    Content-Length: 18

    Watson, come here.
    "#);
    insta::assert_snapshot!(world.result(200), @r#"ask Delivered { aor: "alice@a.test", message: 42 }"#);
    assert_eq!(world.notifier.counts(), EventCounts::default());
}

#[test]
fn every_contact_gets_it_and_one_is_enough() {
    let mut world = World::new();
    let mut through_proxy = binding("sip:alice@10.0.0.1");
    through_proxy.contact.path = "<sip:edge.test;lr>, <sip:inner.test;lr>".into();
    let mut on_connection = binding("sip:alice@10.0.0.2;transport=tcp");
    let from = source(Transport::Tcp, "192.0.2.44:40000");
    on_connection.contact.received =
        Some(Received { transport: from.transport, local: from.local, remote: from.remote, flow: from.flow });
    let sent = deliver(&mut world, vec![through_proxy, on_connection]);
    insta::assert_snapshot!(sent, @r#"
    send MESSAGE sip:alice@10.0.0.1 to sip:edge.test;lr; Route: <sip:edge.test;lr>; Route: <sip:inner.test;lr>; CSeq: 1 MESSAGE; Date: Sat, 13 Nov 2010 23:29:00 GMT; Content-Type: text/plain
      | Watson, come here.
    send MESSAGE sip:alice@10.0.0.2;transport=tcp to sip:alice@10.0.0.2;transport=tcp by Tcp 192.0.2.44:40000; CSeq: 1 MESSAGE; Date: Sat, 13 Nov 2010 23:29:00 GMT; Content-Type: text/plain
      | Watson, come here.
    "#);
    assert_eq!(world.result(480), "");
    assert_eq!(world.result(200), "ask Delivered { aor: \"alice@a.test\", message: 42 }\n");
}

fn flow(uri: &str, reg_id: u32, second: u64) -> Binding {
    let mut flow = binding(uri);
    (flow.contact.instance, flow.contact.reg_id) = ("urn:uuid:1".into(), reg_id);
    flow.expires_at = flow.expires_at + Duration::from_secs(second);
    flow
}

/// RFC 5626 §7: one flow of an instance at a time, and the next one when it has failed.
#[test]
fn two_flows_of_one_instance_get_it_one_after_the_other() {
    for (first, is_tried) in [(408, true), (430, true), (486, false), (503, false)] {
        let mut world = World::new();
        let sent =
            deliver(&mut world, vec![flow("sip:alice@192.0.2.7", 1, 0), flow("sip:alice@192.0.2.8", 2, 1)]);
        assert_eq!(sent.matches("send MESSAGE").count(), 1, "{sent}");
        assert!(sent.starts_with("send MESSAGE sip:alice@192.0.2.8 "), "{sent}");
        let then = world.result(first);
        assert_eq!(then.starts_with("send MESSAGE sip:alice@192.0.2.7 "), is_tried, "{first}: {then}");
        if is_tried {
            assert_eq!(world.result(200), "ask Delivered { aor: \"alice@a.test\", message: 42 }\n");
        }
        assert_eq!(world.notifier.counts(), EventCounts::default());
    }
    let mut world = World::new();
    text(&mut world, &[flow("sip:alice@192.0.2.7", 1, 0), flow("sip:alice@192.0.2.8", 2, 1)]);
    assert!(world.result(408).starts_with("send MESSAGE sip:alice@192.0.2.7 "));
    assert_eq!(world.result(408), "text 9: Failed\n");
    assert_eq!(world.notifier.counts(), EventCounts::default());
}

#[test]
fn a_refusal_for_good_ends_it_and_a_passing_one_does_not() {
    for (statuses, is_over) in
        [([408, 503], false), ([408, 415], true), ([603, 480], true), ([486, 404], false)]
    {
        let mut world = World::new();
        deliver(&mut world, vec![binding("sip:alice@192.0.2.7"), binding("sip:alice@192.0.2.8")]);
        assert_eq!(world.result(statuses[0]), "");
        assert_eq!(!world.result(statuses[1]).is_empty(), is_over, "{statuses:?}");
        assert_eq!(world.notifier.counts(), EventCounts::default());
    }
}

/// Words of chat for two phones.
fn text(world: &mut World, bindings: &[Binding]) -> String {
    let mut out = Vec::new();
    world.notifier.text(9, bindings, &kept(), &mut out);
    world.show(out)
}

#[test]
fn a_chat_text_is_accepted_refused_or_to_be_retried() {
    let phones = || vec![binding("sip:alice@192.0.2.7"), binding("sip:alice@192.0.2.8")];
    for (statuses, reason) in [
        (&[200][..], "text 9: Taken\n"),
        (&[486, 202], "text 9: Taken\n"),
        (&[408, 503], "text 9: Failed\n"),
        (&[405, 408], "text 9: Refused\n"),
    ] {
        let mut world = World::new();
        assert_eq!(text(&mut world, &phones()).lines().filter(|line| line.starts_with("send")).count(), 2);
        let last = statuses.iter().map(|status| world.result(*status)).last();
        assert_eq!(last.as_deref(), Some(reason), "{statuses:?}");
        assert_eq!(world.notifier.counts().deliveries, 0);
    }
    assert_eq!(text(&mut World::new(), &[]), "text 9: Failed\n", "no phone is there");
}

#[test]
fn a_chat_text_is_not_offered_to_chat_again() {
    let mut world = World::new();
    text(&mut world, &[binding("sip:alice@192.0.2.1:5060")]);
    let offered =
        |request: &Message| offer_query(world.now, request, AOR, Some("bob@a.test"), true).is_some();
    assert!(!offered(&world.sent[0].1));
    let of_phone = |lines: &str| {
        let text =
            format!("MESSAGE sip:{AOR} SIP/2.0\r\nFrom: <sip:bob@a.test>\r\nCall-ID: c\r\n{lines}\r\nhi");
        Message::parse(Bytes::from(text)).unwrap()
    };
    assert!(offered(&of_phone("Content-Type: text/plain\r\n")));
    assert!(!offered(&of_phone("Content-Type: text/plain\r\nExpires: 0\r\n")), "it has expired");
    assert!(!offered(&of_phone("Content-Encoding: gzip\r\n")), "it cannot be read");
    let long = format!(
        "MESSAGE sip:{AOR} SIP/2.0\r\nFrom: <sip:b@a>\r\n\r\n{}",
        "x".repeat(limits::KEPT_MESSAGE_BYTES + 1)
    );
    assert!(!offered(&Message::parse(Bytes::from(long)).unwrap()));
}

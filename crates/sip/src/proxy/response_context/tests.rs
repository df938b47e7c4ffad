use super::*;

const NOW: Instant = Instant::from_unix_seconds(1_700_000_000);

fn context(groups: &[&[&str]], is_invite: bool) -> ResponseContext {
    let destination = |uri: &&str| Destination::new(uri.as_bytes(), None);
    let groups = groups.iter().map(|group| group.iter().map(destination).collect()).collect();
    let timer_c = Duration::from_secs(181);
    let request = ForwardedRequest { purpose: ForwardingPurpose::default(), is_invite, breadth: 60, timer_c };
    ResponseContext::new(request, groups)
}

fn hop() -> Hop {
    Hop { transport: Transport::Udp, addr: "127.0.0.1:5072".parse().unwrap(), tls_name: None }
}

fn response(status: u16) -> Message {
    let text = format!("SIP/2.0 {status} Reason\r\nCSeq: 1 INVITE\r\n\r\n");
    Message::parse(Bytes::from(text)).unwrap()
}

/// The effects of one event, each by its name.
fn names(act: impl FnOnce(&mut ProxyEffects)) -> Vec<String> {
    let mut effects = ProxyEffects::new();
    act(&mut effects);
    let name = |effect: &ProxyEffect| format!("{effect:?}").split([' ', '(']).next().unwrap().to_owned();
    effects.iter().map(name).collect()
}

fn send(context: &mut ResponseContext, branch: usize, client: u64) {
    assert_eq!(names(|out| context.handle_resolved(NOW, branch, Ok(vec![hop()]), false, out)), ["Send"]);
    context.handle_sent(branch, Key::from_u64(client), None);
}

#[test]
fn a_lower_q_is_tried_after_the_group_has_failed() {
    let mut context = context(&[&["sip:a@x", "sip:b@x"], &["sip:c@x"]], true);
    assert_eq!(names(|out| context.start(NOW, out)), ["Resolve", "Resolve"]);
    send(&mut context, 0, 1);
    send(&mut context, 1, 2);
    let busy = response(486);
    assert_eq!(context.open_attempts().collect::<Vec<_>>(), [(0, 1), (1, 1), (2, 1)]);
    assert!(names(|out| context.handle_response(NOW, Key::from_u64(1), &busy, out)).is_empty());
    // Its outcome is known.
    assert_eq!(context.open_attempts().collect::<Vec<_>>(), [(1, 1), (2, 1)]);
    assert_eq!(names(|out| context.handle_response(NOW, Key::from_u64(2), &busy, out)), ["Resolve"]);
    assert_eq!(names(|out| context.handle_unsupported_uri(NOW, 2, out)), ["Respond"]);
}

/// RFC 3261 §16.5: a target is added once, also when a later group names it again.
#[test]
fn a_target_is_tried_once() {
    let mut context =
        context(&[&["sip:a@x", "sip:b@x", "sip:a@x"], &["sip:b@x"], &["sip:c@x", "sip:a@x"]], true);
    assert_eq!(names(|out| context.start(NOW, out)), ["Resolve", "Resolve"]);
    assert_eq!(names(|out| context.handle_unsupported_uri(NOW, 0, out)), [""; 0]);
    assert_eq!(names(|out| context.handle_unsupported_uri(NOW, 1, out)), ["Resolve"]);
    assert_eq!(context.branch(2).unwrap().destination, Destination::new(b"sip:c@x", None));
    assert_eq!(names(|out| context.handle_unsupported_uri(NOW, 2, out)), ["Respond"]);
}

/// RFC 3261 §9.1: a CANCEL waits for a provisional response.
#[test]
fn a_cancel_waits_for_a_provisional_response() {
    let mut context = context(&[&["sip:a@x"]], true);
    assert_eq!(names(|out| context.start(NOW, out)), ["Resolve"]);
    send(&mut context, 0, 1);
    assert_eq!(names(|out| context.cancel(NOW, b"", out)), ["Arm"]);
    let ringing = names(|out| context.handle_response(NOW, Key::from_u64(1), &response(180), out));
    assert_eq!(ringing, ["Cancel", "Forward"]);
    assert_eq!(names(|out| context.handle_timer(NOW + TIMEOUT, out)), ["Forget", "Respond"]);
}

/// RFC 4320 §4.2: a timed-out non-INVITE is not answered.
#[test]
fn a_timed_out_non_invite_is_not_answered() {
    let mut context = context(&[&["sip:a@x"]], false);
    assert_eq!(names(|out| context.start(NOW, out)), ["Resolve"]);
    send(&mut context, 0, 1);
    let failed = names(|out| {
        context.handle_failure(NOW, Key::from_u64(1), (hop().addr, Transport::Udp), 408, out);
    });
    assert_eq!(failed, ["HopFailed", "TimedOut"]);
}

fn with_other_flows(is_invite: bool) -> ResponseContext {
    let flow = |uri: &str| Destination::new(uri.as_bytes(), None);
    let first = Destination { other_flows: vec![flow("sip:b@x"), flow("sip:c@x")], ..flow("sip:a@x") };
    let mut context = context(&[], is_invite);
    context.waiting = vec![vec![first], vec![flow("sip:low@x")]].into();
    context
}

fn uri_of(context: &ResponseContext, branch: usize) -> &[u8] {
    &context.branch(branch).unwrap().destination.uri
}

/// RFC 5626 §7: after 430, or without any response, another flow of the instance takes the place of the branch.
#[test]
fn a_flow_that_failed_is_replaced_by_another_of_its_instance() {
    for is_invite in [true, false] {
        let mut context = with_other_flows(is_invite);
        assert_eq!(names(|out| context.start(NOW, out)), ["Resolve"]);
        send(&mut context, 0, 1);
        let hop = (hop().addr, Transport::Udp);
        let failed = names(|out| context.handle_failure(NOW, Key::from_u64(1), hop, 503, out));
        assert_eq!(
            (failed, uri_of(&context, 0)),
            (vec!["HopFailed".into(), "Resolve".into()], &b"sip:b@x"[..])
        );
        send(&mut context, 0, 2);
        assert_eq!(context.branch(0).unwrap().attempt, 2, "a copy with a branch of its own");
        let failed = names(|out| context.handle_response(NOW, Key::from_u64(2), &response(430), out));
        assert_eq!((failed, uri_of(&context, 0)), (vec!["Resolve".into()], &b"sip:c@x"[..]));
        send(&mut context, 0, 3);
        // It was the last one: the next group is that of a lower q.
        let failed = names(|out| context.handle_response(NOW, Key::from_u64(3), &response(430), out));
        assert_eq!((failed, uri_of(&context, 1)), (vec!["Resolve".into()], &b"sip:low@x"[..]));
    }
}

/// RFC 5626 §7: an instance that has answered gets no second copy.
#[test]
fn an_instance_that_has_answered_gets_no_other_copy() {
    for status in [302, 404, 408, 480, 486, 500, 503] {
        let mut context = with_other_flows(true);
        assert_eq!(names(|out| context.start(NOW, out)), ["Resolve"]);
        send(&mut context, 0, 1);
        assert_eq!(
            names(|out| context.handle_response(NOW, Key::from_u64(1), &response(status), out)),
            ["Resolve"]
        );
        assert_eq!(
            (uri_of(&context, 0), uri_of(&context, 1)),
            (&b"sip:a@x"[..], &b"sip:low@x"[..]),
            "{status}"
        );
    }
    let mut context = with_other_flows(true);
    assert_eq!(names(|out| context.start(NOW, out)), ["Resolve"]);
    send(&mut context, 0, 1);
    context.cancel(NOW, b"", &mut ProxyEffects::new());
    let late = names(|out| context.handle_response(NOW, Key::from_u64(1), &response(430), out));
    assert_eq!(late, ["Respond"], "cancelled");
}

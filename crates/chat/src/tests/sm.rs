//! Acknowledgements and resumption (XEP-0198).

use super::*;

const ALICE: &str = "alice@example.org/desk";
const ENABLE: &str = "<enable xmlns='urn:xmpp:sm:3' resume='true'/>";
const ASK: &str = "<r xmlns='urn:xmpp:sm:3'/>";

fn world() -> HostWorld {
    HostWorld::new(&["alice@example.org", "bob@example.org"])
}

/// Signs in, enables, is available. The client's number and the session's id.
fn managed(world: &mut HostWorld, jid: &str) -> (u64, String) {
    let client = world.sign_in(jid);
    world.say(client, ENABLE);
    let enabled = world.hear(client).pop().unwrap();
    world.say(client, "<presence/>");
    world.hear(client);
    (client, value(&enabled, "id"))
}

fn value(xml: &str, name: &str) -> String {
    let (_, rest) = xml.split_once(&format!(" {name}='")).unwrap_or_else(|| panic!("no {name} in {xml}"));
    rest.split_once('\'').unwrap().0.to_owned()
}

fn ack(world: &mut HostWorld, client: u64, h: u32) {
    world.say(client, &format!("<a xmlns='urn:xmpp:sm:3' h='{h}'/>"));
}

fn from_abroad(world: &mut HostWorld, to: &str, body: &str) {
    world.arrive(&format!("<message type='chat' from='eve@x.org/1' to='{to}'><body>{body}</body></message>"));
}

fn bodies(heard: &[String]) -> Vec<&str> {
    let body = |xml: &'_ String| -> Option<std::ops::Range<usize>> {
        let start = xml.find("<body>")? + 6;
        Some(start..start + xml[start..].find("</body>")?)
    };
    heard.iter().filter_map(|xml| body(xml).map(|range| &xml[range])).collect()
}

#[test]
fn it_is_enabled_once_and_its_counts_are_told() {
    let mut world = world();
    let alice = world.sign_in(ALICE);
    world.say(alice, ASK);
    assert!(world.hear(alice)[0].contains("unexpected-request"));
    world.say(alice, ENABLE);
    let enabled = world.hear(alice).pop().unwrap();
    assert!(enabled.contains("resume='true'") && enabled.contains("max='300'"), "{enabled}");
    assert!(!enabled.contains("location"), "{enabled}");
    world.say(alice, ENABLE);
    assert!(world.hear(alice)[0].contains("unexpected-request"));
    world.say(alice, "<presence/>");
    world.say(alice, "<iq type='get' id='1'><ping xmlns='urn:xmpp:ping'/></iq>");
    world.hear(alice);
    world.say(alice, ASK);
    assert_eq!(world.hear(alice), ["<a xmlns='urn:xmpp:sm:3' h='2'/>"]);
    world.say(alice, "<resume xmlns='urn:xmpp:sm:3' previd='x' h='0'/>");
    assert!(world.hear(alice)[0].contains("unexpected-request"));
}

#[test]
fn without_resumption_there_is_no_id_and_a_lost_session_is_over() {
    let mut world = world();
    let alice = world.sign_in(ALICE);
    world.say(alice, "<enable xmlns='urn:xmpp:sm:3'/>");
    assert_eq!(world.hear(alice), ["<enabled xmlns='urn:xmpp:sm:3'/>"]);
    world.lose(alice);
    assert_eq!(world.host.accounts().session_count(), 0);
    // An anonymous client cannot resume: it has no identity to prove.
    let guest = world.sign_in_as("guest@example.org/x", true);
    world.say(guest, ENABLE);
    assert_eq!(world.hear(guest), ["<enabled xmlns='urn:xmpp:sm:3'/>"]);
}

#[test]
fn with_bind_2_it_is_enabled_inline() {
    let mut world = world();
    let enable = Element::new("enable", ns::SM).with("resume", "true");
    let alice = world.sign_in_with(ALICE, false, vec![enable]);
    let Bound::Session { inline, .. } = &world.bound[&alice] else { panic!() };
    assert!(inline.len() == 2 && inline[0].is("enabled", ns::SM) && inline[0].attr("id").is_some());
}

#[test]
fn a_message_is_acknowledged_only_once_it_is_stored() {
    let mut world = world();
    let (alice, _) = managed(&mut world, ALICE);
    world.is_slow = true;
    world.say(alice, "<message to='bob@example.org' type='chat'><body>hi</body></message>");
    world.say(alice, ASK);
    // Its presence counts.
    assert_eq!(world.hear(alice), ["<a xmlns='urn:xmpp:sm:3' h='1'/>"]);
    world.wait(Duration::from_millis(40));
    while !world.unwritten.is_empty() {
        assert!(world.hear(alice).is_empty() && world.handled.is_empty());
        world.write();
    }
    assert_eq!(world.handled, [Duration::from_millis(40)], "the latency is told once");
    assert_eq!(world.hear(alice), ["<a xmlns='urn:xmpp:sm:3' h='2'/>"]);
    assert_eq!(world.store.messages.offline.len(), 1);
}

/// Alice's session has said something that is on its way to the store, and its connection is lost.
fn with_a_message_on_its_way() -> (HostWorld, String) {
    let mut world = world();
    let (alice, id) = managed(&mut world, ALICE);
    world.is_slow = true;
    world.say(alice, "<message to='bob@example.org' type='chat'><body>hi</body></message>");
    world.lose(alice);
    (world, id)
}

fn handled_at_resumption(world: &HostWorld, client: u64) -> Option<&str> {
    match world.bound.get(&client)? {
        Bound::Resumed { resumed, .. } => resumed.attr("h"),
        bound => panic!("{bound:?}"),
    }
}

#[test]
fn a_session_is_resumed_when_the_stanzas_of_its_client_are_stored() {
    let (mut world, id) = with_a_message_on_its_way();
    let again = world.resume("alice@example.org", &id, 1);
    while !world.unwritten.is_empty() {
        assert_eq!(handled_at_resumption(&world, again), None, "the client would forget the message");
        world.write();
    }
    assert_eq!(handled_at_resumption(&world, again), Some("2"));
    from_abroad(&mut world, ALICE, "1");
    assert_eq!(bodies(&world.hear(again)), ["1"]);
}

#[test]
fn a_client_that_comes_back_does_not_wait_for_a_slow_record_for_ever() {
    let (mut world, id) = with_a_message_on_its_way();
    let lost = world.resume("alice@example.org", &id, 1);
    world.lose(lost);
    let again = world.resume("alice@example.org", &id, 1);
    assert_eq!(world.host.deadline(), Some(world.now + crate::limits::SM_RESUME_PATIENCE));
    world.wait(crate::limits::SM_RESUME_PATIENCE);
    // The message may be lost with this process, so the client keeps it, and sends it again.
    assert_eq!(handled_at_resumption(&world, again), Some("1"));
    assert_eq!(handled_at_resumption(&world, lost), None, "its connection was gone");
    assert!(world.closed.is_empty());
    world.say(again, "<message to='bob@example.org' type='chat'><body>hi</body></message>");
    world.say(again, ASK);
    while !world.unwritten.is_empty() {
        assert_eq!(world.hear(again).iter().filter(|xml| xml.contains("h='2'")).count(), 0);
        world.write();
    }
    assert_eq!(world.hear(again), ["<a xmlns='urn:xmpp:sm:3' h='2'/>"]);
    assert_eq!(world.store.messages.offline.len(), 2, "better twice than never");
}

fn say_to_bob(world: &mut HostWorld, client: u64, text: &str) {
    let message =
        format!("<message id='{text}' to='bob@example.org' type='chat'><body>{text}</body></message>");
    world.say(client, &message);
}

/// The database is away: its answers come when it is back.
#[test]
fn messages_are_refused_and_not_delivered_once_the_database_has_been_away_for_long() {
    let mut world = world();
    let (alice, _) = managed(&mut world, ALICE);
    let (bob, _) = managed(&mut world, "bob@example.org/x");
    world.is_slow = true;
    say_to_bob(&mut world, alice, "first");
    assert_eq!(bodies(&world.hear(bob)), ["first"], "it is delivered at once");
    say_to_bob(&mut world, alice, "second");
    assert_eq!(bodies(&world.hear(bob)), ["second"]);
    world.wait(crate::limits::MESSAGE_WRITE_PATIENCE);
    world.hear(alice);
    say_to_bob(&mut world, alice, "third");
    let heard = world.hear(alice);
    assert!(
        heard[0].contains("id='third'")
            && heard[0].contains("<error type='wait'")
            && heard[0].contains("resource-constraint"),
        "{heard:?}"
    );
    from_abroad(&mut world, "bob@example.org", "fourth");
    assert!(world.sent_abroad()[0].contains("resource-constraint"));
    assert!(bodies(&world.hear(bob)).is_empty());
    // A message that is not stored is not refused.
    world.say(alice, "<message to='bob@example.org/x' type='chat'><composing xmlns='http://jabber.org/protocol/chatstates'/></message>");
    assert_eq!(world.hear(bob).iter().filter(|xml| xml.contains("composing")).count(), 1);
    world.hear(alice);
    world.say(alice, ASK);
    assert_eq!(world.hear(alice), ["<a xmlns='urn:xmpp:sm:3' h='1'/>"], "its presence only");
    while !world.unwritten.is_empty() {
        world.write();
    }
    assert_eq!(world.hear(alice), ["<a xmlns='urn:xmpp:sm:3' h='5'/>"]);
    assert_eq!(world.host.store.message_writes.len(), 0, "nothing stays of it");
    world.is_slow = false;
    say_to_bob(&mut world, alice, "fifth");
    assert_eq!(bodies(&world.hear(bob)), ["fifth"]);
}

#[test]
fn so_many_messages_wait_for_the_database_and_further_ones_are_refused() {
    let mut world = world();
    let alice = world.sign_in(ALICE);
    let bob = world.sign_in("bob@example.org/x");
    world.say(bob, "<presence/>");
    world.is_slow = true;
    // Each is written into both archives.
    for number in 0..crate::limits::MESSAGE_WRITES / 2 {
        say_to_bob(&mut world, alice, &number.to_string());
    }
    assert!(world.hear(alice).iter().all(|xml| !xml.contains("error")));
    say_to_bob(&mut world, alice, "more");
    let heard = world.hear(alice);
    assert!(heard.len() == 1 && heard[0].contains("resource-constraint"), "{heard:?}");
}

#[test]
fn the_sender_of_a_message_that_was_delivered_and_not_archived_is_told() {
    let mut world = world();
    world.keep_rosters();
    let (alice, _) = managed(&mut world, ALICE);
    let (bob, _) = managed(&mut world, "bob@example.org/x");
    // The accounts are read while the store still works.
    world.is_slow = true;
    say_to_bob(&mut world, alice, "m");
    assert_eq!(bodies(&world.hear(bob)), ["m"]);
    world.store.is_broken = true;
    while !world.unwritten.is_empty() {
        world.write();
    }
    let heard = world.hear(alice);
    assert!(
        heard.iter().any(|xml| xml.contains("id='m'") && xml.contains("may have been delivered")),
        "{heard:?}"
    );
    world.say(alice, ASK);
    assert_eq!(world.hear(alice), ["<a xmlns='urn:xmpp:sm:3' h='2'/>"], "the error is its answer");
}

#[test]
fn a_message_that_cannot_be_stored_is_refused_and_counts_as_handled() {
    let mut world = world();
    let (alice, _) = managed(&mut world, ALICE);
    // Bob's account is read while the store still works.
    let bob = world.sign_in("bob@example.org/x");
    world.store.is_broken = true;
    world.say(alice, "<message id='m' to='bob@example.org' type='chat'><body>hi</body></message>");
    let heard = world.hear(alice);
    assert!(heard[0].contains("type='error'") && heard[0].contains("resource-constraint"), "{heard:?}");
    for (number, to) in
        ["ghost@example.org", "@", "bob@elsewhere.net", "example.org", "x@conference.example.org"]
            .iter()
            .enumerate()
    {
        world.say(alice, &format!("<message to='{to}' type='chat'><body>hi</body></message>"));
        world.hear(alice);
        world.say(alice, ASK);
        let expected = format!("<a xmlns='urn:xmpp:sm:3' h='{}'/>", number + 3);
        assert_eq!(world.hear(alice), [expected], "{to}");
    }
    world.lose(bob);
}

#[test]
fn clients_neither_see_nor_forge_internal_marks() {
    let mut world = world();
    let (alice, _) = managed(&mut world, ALICE);
    let (bob, _) = managed(&mut world, "bob@example.org/x");
    world.say(alice, "<message to='bob@example.org/x'><body>1</body></message>");
    world.say(
        alice,
        "<message to='eve@x.org' xmlns:m='urn:belfry:handled' m:mark='1.1'><body>1</body></message>",
    );
    world.say(
        alice,
        "<iq type='get' id='1' to='bob@example.org/x' xmlns:m='urn:belfry:handled' m:mark='1.1'><q xmlns='urn:x'/></iq>",
    );
    let mut seen = world.hear(bob);
    world.tell(|host, now, out| host.handle_gone(now, edge(bob), true, out));
    world.is_slow = true;
    world.say(alice, "<message to='bob@example.org'><body>2</body></message>");
    seen.extend(world.sent_abroad());
    assert_eq!(bodies(&seen), ["1", "1"]);
    assert!(seen.iter().all(|xml| !xml.contains("mark")), "{seen:?}");
    let key = world.host.accounts.by_edge[&edge(alice)];
    let mark = ack::new_ack_token(ShardAddress::default(), key, 5);
    // More often than anything is waited for.
    for _ in 0..5 {
        world.say(alice, &format!(
            "<iq type='get' id='1' to='x.org' xmlns:m='urn:belfry:handled' m:mark='{mark}'><q xmlns='urn:x'/></iq>"
        ));
        world.arrive(&format!(
            "<message from='eve@x.org/1' to='bob@example.org' xmlns:m='urn:belfry:handled' m:mark='{mark}'/>"
        ));
        world.arrive(&format!(
            "<handled xmlns='urn:belfry:handled' from='x.org' to='{ALICE}' mark='{mark}'/>"
        ));
    }
    world.say(alice, ASK);
    assert!(!world.unwritten.is_empty());
    assert_eq!(world.hear(alice).pop().unwrap(), "<a xmlns='urn:xmpp:sm:3' h='4'/>");
}

#[test]
fn a_message_is_followed_by_a_question_and_others_only_after_many() {
    let mut world = world();
    let (alice, _) = managed(&mut world, ALICE);
    ack(&mut world, alice, 1);
    from_abroad(&mut world, ALICE, "1");
    from_abroad(&mut world, ALICE, "2");
    let heard = world.hear(alice);
    assert_eq!(heard.iter().filter(|xml| *xml == ASK).count(), 1, "{heard:?}");
    assert_eq!(heard[1], ASK);
    // There is one more to ask for.
    ack(&mut world, alice, 2);
    assert_eq!(world.hear(alice), [ASK]);
    ack(&mut world, alice, 3);
    assert!(world.hear(alice).is_empty());
    for _ in 0..crate::limits::SM_ASK_AFTER {
        world.say(alice, "<iq type='get' id='1'><ping xmlns='urn:xmpp:ping'/></iq>");
    }
    assert_eq!(world.hear(alice).iter().filter(|xml| *xml == ASK).count(), 1);
}

#[test]
fn a_client_that_acknowledges_more_than_was_sent_is_cut_off() {
    for (ack, condition) in [("h='4'", "undefined-condition"), ("h='-1'", "bad-format"), ("", "bad-format")] {
        let mut world = world();
        let (alice, _) = managed(&mut world, ALICE);
        from_abroad(&mut world, ALICE, "1");
        world.say(alice, &format!("<a xmlns='urn:xmpp:sm:3' {ack}/>"));
        assert_eq!(world.closed, [(alice, condition)]);
        assert_eq!(world.host.accounts().session_count(), 0);
        // XEP-0198 §6: the stream error includes the number that is too high, and the number of stanzas that were sent.
        let details: &[&str] = match condition {
            "undefined-condition" => {
                &["<handled-count-too-high xmlns='urn:xmpp:sm:3' h='4' send-count='2'/>"]
            }
            _ => &[],
        };
        assert_eq!(world.details, details);
    }
}

/// A count that is less than the one before acknowledges nothing that was not sent.
#[test]
fn an_acknowledgement_that_is_taken_back_is_not_too_high() {
    let mut world = world();
    let (alice, _) = managed(&mut world, ALICE);
    ack(&mut world, alice, 1);
    ack(&mut world, alice, 0);
    assert_eq!(world.closed, [(alice, "undefined-condition")]);
    assert!(world.details.is_empty());
}

/// XEP-0198 §6 speaks of any `h`, that of `<resume/>` too. The session waits for a client that counts rightly.
#[test]
fn a_resumption_with_more_than_there_was_ends_the_new_stream() {
    let mut world = world();
    let (alice, id) = managed(&mut world, ALICE);
    from_abroad(&mut world, ALICE, "1");
    world.hear(alice);
    world.lose(alice);
    let wrong = world.resume("alice@example.org", &id, 3);
    assert_eq!(world.closed, [(wrong, "undefined-condition")]);
    assert_eq!(world.details, ["<handled-count-too-high xmlns='urn:xmpp:sm:3' h='3' send-count='2'/>"]);
    assert!(!world.bound.contains_key(&wrong));
    world.lose(wrong);
    let right = world.resume("alice@example.org", &id, 1);
    assert!(matches!(world.bound[&right], Bound::Resumed { .. }));
    assert_eq!(bodies(&world.hear(right)), ["1"]);
}

#[test]
fn counts_wrap() {
    let mut world = world();
    let (alice, id) = managed(&mut world, ALICE);
    ack(&mut world, alice, 1);
    let key = world.host.accounts.by_edge[&edge(alice)];
    let sm = world.host.accounts.sessions.get_mut(key).unwrap().sm.as_mut().unwrap();
    (sm.sent, sm.received) = (u64::from(u32::MAX) - 1, u64::from(u32::MAX) - 1);
    for body in ["1", "2", "3"] {
        from_abroad(&mut world, ALICE, body);
        world.say(alice, "<message to='bob@example.org' type='chat'><body>hi</body></message>");
    }
    world.say(alice, ASK);
    assert_eq!(world.hear(alice).pop().unwrap(), "<a xmlns='urn:xmpp:sm:3' h='1'/>");
    // 2^32 - 1 and 0.
    ack(&mut world, alice, 0);
    world.hear(alice);
    world.lose(alice);
    let again = world.resume("alice@example.org", &id, 0);
    assert_eq!(bodies(&world.hear(again)), ["3"]);
}

#[test]
fn a_session_sleeps_and_goes_on_where_it_was() {
    let mut world = world();
    let (alice, id) = managed(&mut world, ALICE);
    from_abroad(&mut world, ALICE, "1");
    from_abroad(&mut world, ALICE, "2");
    world.lose(alice);
    from_abroad(&mut world, ALICE, "3");
    from_abroad(&mut world, "alice@example.org", "4");
    world.wait(Duration::from_secs(299));
    let again = world.resume("alice@example.org", &id, 2);
    let Bound::Resumed { jid, resumed } = &world.bound[&again] else { panic!() };
    assert_eq!(jid.as_str(), ALICE);
    assert_eq!((resumed.attr("previd"), resumed.attr("h")), (Some(&*id), Some("1")));
    let heard = world.hear(again);
    assert_eq!(bodies(&heard), ["2", "3", "4"]);
    assert_eq!(heard.last().unwrap(), ASK);
    assert!(world.store.messages.offline.is_empty());
    ack(&mut world, again, 5);
    // It does not end at the time it would have ended.
    world.wait(Duration::from_secs(300));
    from_abroad(&mut world, ALICE, "5");
    assert_eq!(bodies(&world.hear(again)), ["5"]);
}

#[test]
fn a_session_that_is_not_resumed_ends_and_its_messages_are_kept() {
    let mut world = world();
    let (alice, id) = managed(&mut world, ALICE);
    world.say(alice, "<presence to='eve@x.org/1'/>");
    world.lose(alice);
    let gone_at = world.now;
    from_abroad(&mut world, ALICE, "1");
    world.arrive(&format!("<iq type='get' id='q' from='eve@x.org/1' to='{ALICE}'><q xmlns='urn:x'/></iq>"));
    world
        .arrive(&format!("<message type='groupchat' from='r@x.org/n' to='{ALICE}'><body>g</body></message>"));
    world.sent_abroad();
    world.wait(Duration::from_secs(300));
    assert_eq!(world.host.accounts().session_count(), 0);
    let sent = world.sent_abroad();
    assert!(
        sent.iter().any(|xml| xml.contains("type='unavailable'") && xml.contains("eve@x.org/1")),
        "{sent:?}"
    );
    assert!(sent.iter().any(|xml| xml.starts_with("<iq") && xml.contains("service-unavailable")), "{sent:?}");
    let kept: Vec<Instant> = world.store.messages.offline.iter().map(|(_, _, at, _)| *at).collect();
    assert_eq!(kept, [gone_at]);
    // A client that resumes too late learns the number of handled stanzas.
    let late = world.resume("alice@example.org", &id, 1);
    let Bound::NotResumed { failed } = &world.bound[&late] else { panic!() };
    assert_eq!(failed.attr("h"), Some("2"));
    assert!(failed.get("item-not-found", ns::STANZA_ERRORS).is_some());
}

#[test]
fn unacknowledged_messages_go_to_sessions_that_have_not_had_them() {
    let mut world = world();
    let (phone, _) = managed(&mut world, "alice@example.org/phone");
    let desk = world.sign_in(ALICE);
    world.say(desk, "<presence/>");
    let copied =
        world.sign_in_with("alice@example.org/laptop", false, vec![Element::new("enable", ns::CARBONS)]);
    world.say(copied, "<presence/>");
    world.hear(copied);
    world.lose(phone);
    world.wait(Duration::from_secs(1));
    from_abroad(&mut world, "alice@example.org", "to all");
    from_abroad(&mut world, "alice@example.org/phone", "to one");
    world.wait(Duration::from_secs(100));
    let late = world.sign_in("alice@example.org/late");
    world.say(late, "<presence/>");
    assert_eq!(bodies(&world.hear(desk)), ["to all"]);
    assert_eq!(bodies(&world.hear(copied)), ["to all", "to one"]);
    world.wait(Duration::from_secs(200));
    assert!(bodies(&world.hear(copied)).is_empty());
    assert_eq!(bodies(&world.hear(desk)), ["to one"]);
    let heard = world.hear(late);
    assert_eq!(bodies(&heard), ["to all", "to one"]);
    assert!(heard.last().unwrap().contains("urn:xmpp:delay"), "{heard:?}");
    assert!(world.store.messages.offline.is_empty());
}

/// XEP-0198 §5: "a server SHOULD treat unacknowledged stanzas in the same way that it would treat a stanza sent to an unavailable resource". The
/// other session takes messages now, and did not when this one came.
#[test]
fn an_unacknowledged_message_goes_to_a_session_that_could_not_have_had_it() {
    const CARBONS: &str = "<iq type='set' id='c'><enable xmlns='urn:xmpp:carbons:2'/></iq>";
    for (before, to, after) in [
        (CARBONS.replace("enable", "disable"), "alice@example.org", "<presence/>"),
        ("<presence><priority>-1</priority></presence>".to_owned(), "alice@example.org", "<presence/>"),
        ("<presence/>".to_owned(), "alice@example.org/phone", CARBONS),
    ] {
        let mut world = world();
        let (phone, _) = managed(&mut world, "alice@example.org/phone");
        let desk = world.sign_in(ALICE);
        world.say(desk, &before);
        world.lose(phone);
        world.wait(Duration::from_secs(1));
        from_abroad(&mut world, to, "1");
        world.wait(Duration::from_secs(1));
        world.say(desk, after);
        assert!(bodies(&world.hear(desk)).is_empty(), "{before}");
        world.wait(Duration::from_secs(300));
        assert_eq!(bodies(&world.hear(desk)), ["1"], "{before}");
        assert!(world.store.messages.offline.is_empty(), "{before}");
    }
}

#[test]
fn a_dead_connection_is_taken_over() {
    let mut world = world();
    let (alice, id) = managed(&mut world, ALICE);
    from_abroad(&mut world, ALICE, "1");
    world.hear(alice);
    let again = world.resume("alice@example.org", &id, 1);
    assert!(matches!(world.bound[&again], Bound::Resumed { .. }));
    assert_eq!(world.closed, [(alice, "conflict")]);
    assert_eq!(bodies(&world.hear(again)), ["1"]);
    // The end of the old connection has no effect.
    world.lose(alice);
    from_abroad(&mut world, ALICE, "2");
    assert_eq!(bodies(&world.hear(again)), ["2"]);
    assert!(world.hear(alice).is_empty());
}

#[test]
fn a_session_of_another_user_cannot_be_resumed() {
    let mut world = world();
    let (alice, id) = managed(&mut world, ALICE);
    for (user, id) in [("bob@example.org", &*id), ("alice@example.org", "x")] {
        let thief = world.resume(user, id, 0);
        let Bound::NotResumed { failed } = &world.bound[&thief] else { panic!("{user}") };
        assert_eq!(failed.attr("h"), None);
    }
    assert!(world.closed.is_empty());
    from_abroad(&mut world, ALICE, "1");
    assert_eq!(bodies(&world.hear(alice)), ["1"]);
    // Nor learns of one that has ended.
    world.tell(|host, now, out| host.handle_gone(now, edge(alice), true, out));
    let thief = world.resume("bob@example.org", &id, 0);
    let Bound::NotResumed { failed } = &world.bound[&thief] else { panic!() };
    assert_eq!(failed.attr("h"), None);
}

#[test]
fn sessions_end_in_the_order_of_their_deadlines() {
    let mut world = world();
    let long = managed(&mut world, ALICE).0;
    let short = world.sign_in("alice@example.org/short");
    world.say(short, "<enable xmlns='urn:xmpp:sm:3' resume='1' max='10'/>");
    assert!(world.hear(short)[0].contains("max='10'"));
    world.lose(long);
    world.lose(short);
    assert_eq!(world.host.deadline(), Some(START + Duration::from_secs(10)));
    world.wait(Duration::from_secs(10));
    assert_eq!(world.host.accounts().session_count(), 1);
    assert_eq!(world.host.deadline(), Some(START + Duration::from_secs(300)));
}

#[test]
fn a_client_that_acknowledges_nothing_gets_no_more_and_after_a_minute_its_session_ends() {
    let mut world = world();
    let (alice, _) = managed(&mut world, ALICE);
    for number in 0..crate::limits::SM_QUEUE + 10 {
        from_abroad(&mut world, ALICE, &number.to_string());
    }
    // Its own presence is among those that were sent.
    let heard = world.hear(alice);
    assert_eq!(bodies(&heard).len(), crate::limits::SM_QUEUE - 1);
    assert!(world.closed.is_empty(), "others cannot end it");
    ack(&mut world, alice, 1);
    assert_eq!(bodies(&world.hear(alice)).len(), 1, "one more may go");
    world.wait(crate::limits::SM_PATIENCE + Duration::from_secs(1));
    from_abroad(&mut world, ALICE, "last");
    assert_eq!(
        (&world.closed[..], world.host.accounts().session_count()),
        (&[(alice, "resource-constraint")][..], 0)
    );
    let kept = world.store.messages.offline.len();
    assert!(kept >= crate::limits::OFFLINE as usize, "{kept}: as many as may wait");
}

#[test]
fn a_session_that_sleeps_is_not_ended_by_messages_of_others() {
    let mut world = world();
    let (alice, id) = managed(&mut world, ALICE);
    world.lose(alice);
    let total = crate::limits::SM_QUEUE + 500;
    for number in 0..total {
        from_abroad(&mut world, ALICE, &number.to_string());
    }
    let resumed = world.resume("alice@example.org", &id, 1);
    let mut had = 0;
    let mut all: Vec<usize> = Vec::new();
    loop {
        let heard = world.hear(resumed);
        had += heard.iter().filter(|xml| xml.starts_with("<message")).count();
        all.extend(bodies(&heard).iter().map(|body| body.parse::<usize>().unwrap()));
        if heard.is_empty() {
            break;
        }
        ack(&mut world, resumed, u32::try_from(1 + had).unwrap());
    }
    assert_eq!(all, (0..total).collect::<Vec<_>>(), "once each, in order");
}

#[test]
fn a_client_that_outruns_the_record_is_cut_off() {
    let mut world = world();
    let (alice, _) = managed(&mut world, ALICE);
    world.is_slow = true;
    for _ in 0..=crate::limits::SM_UNHANDLED {
        world.say(alice, "<message to='bob@example.org' type='chat'><body>hi</body></message>");
    }
    assert_eq!(world.closed, [(alice, "resource-constraint")]);
}

/// For any losses and acknowledgements, every message arrives, in order, and none twice to a client that
/// counts.
#[test]
fn every_message_arrives_once_and_in_order() {
    for seed in 0..200_u64 {
        let mut random = stdx::rng::Rng::from_seed([seed as u8; 32]);
        let mut world = world();
        let (mut client, id) = managed(&mut world, ALICE);
        let (mut seen, mut got, mut sent) = (1_u32, Vec::new(), 0);
        for _ in 0..60 {
            match random.next_u64() % 5 {
                0 | 1 => {
                    from_abroad(&mut world, ALICE, &sent.to_string());
                    sent += 1;
                }
                2 => {
                    let heard = world.hear(client);
                    seen += heard.iter().filter(|xml| xml.starts_with("<message")).count() as u32;
                    got.extend(bodies(&heard).into_iter().map(|body| body.parse::<usize>().unwrap()));
                }
                3 => ack(&mut world, client, seen),
                _ => {
                    // Stanzas on the wire are lost.
                    world.hear(client);
                    if random.next_u64().is_multiple_of(2) {
                        world.lose(client);
                    }
                    client = world.resume("alice@example.org", &id, seen);
                    assert!(matches!(world.bound[&client], Bound::Resumed { .. }), "seed {seed}");
                }
            }
        }
        got.extend(bodies(&world.hear(client)).into_iter().map(|body| body.parse::<usize>().unwrap()));
        assert_eq!(got, (0..sent).collect::<Vec<_>>(), "seed {seed}");
    }
}

/// The stanzas that the host routes when the store performs its requests.
fn routed(world: &mut HostWorld, act: impl FnOnce(&mut Host, Instant, &mut Outbox)) -> Vec<Element> {
    let mut todo = Outbox::new();
    act(&mut world.host, world.now, &mut todo);
    let mut routed = Vec::new();
    while !todo.is_empty() {
        let mut out = Outbox::new();
        for effect in todo {
            let (ticket, answer) = match effect {
                Effect::Route(element) => {
                    routed.push(*element);
                    continue;
                }
                Effect::Load { ticket, load } => (ticket, world.store.load(&load)),
                Effect::Change { ticket, change } => (ticket, world.store.change(change)),
                _ => continue,
            };
            world.host.handle_store_reply(world.now, ticket, answer, &mut out);
        }
        todo = out;
    }
    routed
}

#[test]
fn another_host_tells_when_it_has_stored_a_message() {
    let (mut here, mut there) = (world(), world());
    let (alice, _) = managed(&mut here, ALICE);
    let prefixes = xmpp::xml::Prefixes::of_default(ns::CLIENT);
    let message =
        format!("<message from='{ALICE}' to='bob@example.org' type='chat'><body>hi</body></message>");
    let message = xmpp::xml::parse(message.as_bytes(), &prefixes).unwrap();
    let sent = routed(&mut here, |host, now, out| host.handle_stanza(now, edge(alice), message, out));
    here.say(alice, ASK);
    assert_eq!(here.hear(alice).pop().unwrap(), "<a xmlns='urn:xmpp:sm:3' h='1'/>");
    let [message] = <[Element; 1]>::try_from(sent).unwrap();
    let told = routed(&mut there, |host, now, out| host.handle_routed(now, message, out));
    assert_eq!(there.store.messages.offline.len(), 1);
    let [told] = <[Element; 1]>::try_from(told).unwrap();
    assert_eq!(told.attr("to"), Some(ALICE));
    here.tell(|host, now, out| host.handle_routed(now, told, out));
    assert_eq!(here.hear(alice), ["<a xmlns='urn:xmpp:sm:3' h='2'/>"]);
}

/// The shard of the sender, in a farm, keeps it until another node has given it to a stream.
#[test]
fn a_message_for_another_server_is_acknowledged_in_a_farm_when_its_outcome_is_known() {
    let mut world = world();
    crate::ownership::share_addresses(&mut world.host);
    let (alice, _) = managed(&mut world, ALICE);
    let prefixes = xmpp::xml::Prefixes::of_default(ns::CLIENT);
    let message = format!("<message from='{ALICE}' to='eve@x.org' type='chat'><body>hi</body></message>");
    let message = xmpp::xml::parse(message.as_bytes(), &prefixes).unwrap();
    let sent = routed(&mut world, |host, now, out| host.handle_stanza(now, edge(alice), message, out));
    let mut sent = sent.into_iter().find(|element| element.attr("to") == Some("eve@x.org")).unwrap();
    world.say(alice, ASK);
    assert_eq!(world.hear(alice).pop().unwrap(), "<a xmlns='urn:xmpp:sm:3' h='1'/>");
    let report = crate::take_report(&mut sent).unwrap();
    assert!(!sent.to_string().contains("mark"), "other servers see nothing of it: {sent}");
    world.tell(|host, now, out| host.handle_routed(now, report, out));
    assert_eq!(world.hear(alice), ["<a xmlns='urn:xmpp:sm:3' h='2'/>"]);
}

/// A session's key and a message's number may be the same at the owner that an address has after a restart.
#[test]
fn a_mark_of_another_life_acknowledges_no_message() {
    const NUMBER: u64 = 2;
    let here = ShardAddress::new(xmpp::Life(2), 0);
    let mut world = world();
    world.host = Host::new(Arc::new(settings()), here, [1; 32]);
    let (alice, _) = managed(&mut world, ALICE);
    world.is_slow = true;
    world.say(alice, "<message to='bob@example.org' type='chat'><body>hi</body></message>");
    let key = world.host.accounts.by_edge[&edge(alice)];
    let report = |world: &mut HostWorld, host: ShardAddress| {
        let mark = ack::new_ack_token(host, key, NUMBER);
        // Two things are awaited: her archive and the way of the message.
        for _ in 0..2 {
            let told =
                Element::new("handled", xmpp::internal::NS).with("to", ALICE).with("mark", mark.clone());
            world.tell(|host, now, out| host.handle_routed(now, told, out));
        }
        world.say(alice, ASK);
        world.hear(alice).pop().unwrap()
    };
    for other in [ShardAddress::new(xmpp::Life(1), 0), ShardAddress::new(xmpp::Life(2), 1)] {
        assert_eq!(report(&mut world, other), "<a xmlns='urn:xmpp:sm:3' h='1'/>", "{other}");
    }
    assert_eq!(report(&mut world, here), "<a xmlns='urn:xmpp:sm:3' h='2'/>");
}

/// The number of Alice's messages, after her presence, in the last acknowledgement.
fn acknowledged(world: &mut HostWorld, alice: u64) -> usize {
    let answer = world.hear(alice).into_iter().rfind(|xml| xml.starts_with("<a ")).unwrap();
    value(&answer, "h").parse::<usize>().unwrap() - 1
}

fn is_stored_for_bob(world: &HostWorld, body: &str) -> bool {
    let stored = &world.store.messages;
    let archived = stored.archive.iter().filter(|(owner, _)| owner.local() == Some("bob"));
    let mut stanzas =
        stored.offline.iter().map(|(.., stanza)| stanza).chain(archived.map(|(_, (.., stanza))| stanza));
    stanzas.any(|stanza| stanza.content_of("body", ns::CLIENT).is_some_and(|text| text == body))
}

/// If the server dies at any moment, messages that clients take for delivered and that did not come back are not lost.
#[test]
fn an_acknowledged_message_is_delivered_or_stored() {
    for seed in 0..100_u64 {
        let mut random = stdx::rng::Rng::from_seed([seed as u8 + 1; 32]);
        let mut world = world();
        let (alice, _) = managed(&mut world, ALICE);
        let (mut bob, mut id) = managed(&mut world, "bob@example.org/x");
        world.is_slow = true;
        let (mut sent, mut checked, mut heard) = (0, 0, Vec::<String>::new());
        for step in 0..80 {
            match random.next_u64() % 6 {
                0 | 1 => {
                    let to = ["bob@example.org", "bob@example.org/x"][step % 2];
                    world.say(
                        alice,
                        &format!(
                            "<message id='n{sent}.' to='{to}' type='chat'><body>n{sent}.</body></message>"
                        ),
                    );
                    sent += 1;
                }
                2 | 3 if !world.unwritten.is_empty() => world.write(),
                4 => world.lose(bob),
                _ => {
                    bob = world.resume("bob@example.org", &id, 1);
                    if !matches!(world.bound[&bob], Bound::Resumed { .. }) {
                        (bob, id) = managed(&mut world, "bob@example.org/x");
                    }
                }
            }
            if step == 50 {
                world.wait(Duration::from_secs(300));
            }
            // A message that is refused, since writes have waited for long, comes back to her.
            heard.extend(world.hear(alice).into_iter().filter(|xml| xml.contains("type='error'")));
            world.say(alice, ASK);
            let others: Vec<u64> = world.got.keys().copied().filter(|client| *client != alice).collect();
            others.into_iter().for_each(|client| heard.extend(world.hear(client)));
            let acknowledged = acknowledged(&mut world, alice);
            for number in checked..acknowledged {
                let body = format!("n{number}.");
                assert!(
                    is_stored_for_bob(&world, &body) || heard.iter().any(|xml| xml.contains(&body)),
                    "seed {seed} step {step}: message {number} is nowhere"
                );
            }
            checked = checked.max(acknowledged);
        }
        // In the end all is handled.
        while !world.unwritten.is_empty() {
            world.write();
        }
        world.say(alice, ASK);
        assert_eq!(acknowledged(&mut world, alice), sent, "seed {seed}");
    }
}

#[test]
fn an_idle_session_is_small() {
    assert!(size_of::<crate::session::Session>() <= 208, "{}", size_of::<crate::session::Session>());
    assert!(size_of::<crate::sm::Sm>() <= 200, "{}", size_of::<crate::sm::Sm>());
}

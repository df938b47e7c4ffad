//! Messages for accounts without a session (XEP-0160, XEP-0013), and the rules of RFC 6121 §8.5.

use super::*;

const BODY: &str = "<body>hi</body>";

fn world() -> HostWorld {
    HostWorld::new(&["alice@example.org", "bob@example.org"])
}

fn send(world: &mut HostWorld, to: &str, kind: &str, inner: &str) {
    world.arrive(&format!("<message id='m' from='eve@x.org/1' to='{to}' type='{kind}'>{inner}</message>"));
}

fn kept(world: &HostWorld) -> usize {
    world.store.messages.offline.len()
}

#[test]
fn a_message_waits_for_a_session_that_takes_messages() {
    let mut world = world();
    send(&mut world, "alice@example.org", "chat", "<body>1</body>");
    send(&mut world, "alice@example.org/gone", "chat", "<body>2</body>");
    world.now = START + Duration::from_secs(100);
    let alice = world.sign_in("alice@example.org/desk");
    world.say(alice, "<presence><priority>-1</priority></presence>");
    world.say(alice, "<presence to='eve@x.org'/>");
    assert_eq!(world.hear(alice).iter().filter(|xml| xml.starts_with("<message")).count(), 0);
    world.say(alice, "<presence/>");
    let heard: Vec<_> = world.hear(alice).into_iter().filter(|xml| xml.starts_with("<message")).collect();
    assert_eq!(heard.len(), 2);
    let delay = "<delay xmlns='urn:xmpp:delay' from='example.org' stamp='2027-01-15T08:00:00.000Z'/>";
    assert!(heard[0].contains(">1<") && heard[0].contains(delay), "{heard:?}");
    assert!(heard[1].contains(">2<") && heard[1].contains(delay), "{heard:?}");
    assert_eq!(kept(&world), 0);
    // They come once.
    let phone = world.sign_in("alice@example.org/phone");
    world.say(phone, "<presence/>");
    assert!(world.hear(phone).iter().all(|xml| xml.starts_with("<presence")));
}

/// XEP-0203 §2: clients believe the time that their own server adds.
#[test]
fn a_delay_in_the_name_of_the_server_is_the_servers() {
    let mut world = world();
    let delay =
        |by: &str| format!("<delay xmlns='urn:xmpp:delay' from='{by}' stamp='2020-01-01T00:00:00Z'/>");
    let forged: String = ["example.org", "EXAMPLE.org", "example.org/x", "alice@example.org"]
        .iter()
        .map(|by| delay(by))
        .collect();
    let kept = ["x.org", "bob@example.org"].map(delay).concat();
    send(&mut world, "alice@example.org", "chat", &format!("{BODY}{forged}{kept}"));
    world.now = START + Duration::from_secs(100);
    let alice = world.sign_in("alice@example.org/desk");
    world.say(alice, "<presence/>");
    send(&mut world, "alice@example.org/desk", "chat", &format!("{BODY}{forged}{kept}"));
    let heard: Vec<_> = world.hear(alice).into_iter().filter(|xml| xml.starts_with("<message")).collect();
    let true_one = "<delay xmlns='urn:xmpp:delay' from='example.org' stamp='2027-01-15T08:00:00.000Z'/>";
    assert_eq!(heard.len(), 2);
    for (xml, ours) in heard.iter().zip([1, 0]) {
        assert_eq!((xml.matches("<delay").count(), xml.matches(true_one).count()), (2 + ours, ours), "{xml}");
        assert!(xml.contains(&kept), "{xml}");
    }
    // A node of the account says itself how old its item is.
    let own = format!(
        "<message to='alice@example.org/desk' from='alice@example.org'>{}</message>",
        delay("alice@example.org")
    );
    world.arrive(&own);
    assert!(world.hear(alice)[0].contains("<delay"));
}

/// The table of RFC 6121 §8.5.4 for an account without an available session, and XEP-0160 §3.
#[test]
fn only_messages_worth_keeping_are_kept() {
    for to in ["alice@example.org", "alice@example.org/gone"] {
        for (kind, inner, is_kept, is_refused) in [
            ("chat", BODY, true, false),
            ("normal", BODY, true, false),
            ("normal", "<x xmlns='jabber:x:conference' jid='r@x.org'/>", true, false),
            ("chat", "<received xmlns='urn:xmpp:receipts' id='1'/>", true, false),
            ("chat", "<composing xmlns='http://jabber.org/protocol/chatstates'/>", false, false),
            ("chat", "<x xmlns='urn:x'/><store xmlns='urn:xmpp:hints'/>", true, false),
            ("chat", "<body>hi</body><no-store xmlns='urn:xmpp:hints'/>", false, false),
            ("chat", "<body>hi</body><no-permanent-store xmlns='urn:xmpp:hints'/>", true, false),
            ("groupchat", BODY, false, true),
            ("headline", BODY, false, false),
            ("error", BODY, false, false),
        ] {
            // RFC 6121 §8.5.3.2.1: for a resource that is not there, chat only.
            let is_returned = kind == "normal" && to.contains('/');
            let (is_kept, is_refused) = (is_kept && !is_returned, is_refused || is_returned);
            let mut world = world();
            send(&mut world, to, kind, inner);
            assert_eq!(kept(&world), usize::from(is_kept), "{to} {kind} {inner}");
            assert_eq!(world.abroad.len(), usize::from(is_refused), "{to} {kind} {inner}");
        }
    }
}

/// The rest of that table: one session takes messages, another does not.
#[test]
fn messages_go_where_the_table_says() {
    for (to, kind, desk, quiet, is_refused) in [
        ("alice@example.org", "chat", 1, 0, false),
        ("alice@example.org", "normal", 1, 0, false),
        ("alice@example.org", "headline", 1, 0, false),
        ("alice@example.org", "groupchat", 0, 0, true),
        ("alice@example.org", "error", 0, 0, false),
        ("alice@example.org/quiet", "chat", 0, 1, false),
        ("alice@example.org/quiet", "groupchat", 0, 1, false),
        ("alice@example.org/quiet", "headline", 0, 1, false),
        ("alice@example.org/quiet", "error", 0, 1, false),
        ("alice@example.org/gone", "chat", 1, 0, false),
        ("alice@example.org/gone", "normal", 0, 0, true),
        ("alice@example.org/gone", "groupchat", 0, 0, true),
        ("alice@example.org/gone", "headline", 0, 0, false),
        ("alice@example.org/gone", "error", 0, 0, false),
    ] {
        let mut world = world();
        let clients = ["desk", "quiet"].map(|name| world.sign_in(&format!("alice@example.org/{name}")));
        world.say(clients[0], "<presence/>");
        world.say(clients[1], "<presence><priority>-5</priority></presence>");
        for client in clients {
            world.hear(client);
        }
        send(&mut world, to, kind, BODY);
        assert_eq!(clients.map(|client| world.hear(client).len()), [desk, quiet], "{to} {kind}");
        assert_eq!(world.abroad.len(), usize::from(is_refused), "{to} {kind}");
        assert_eq!(kept(&world), 0, "{to} {kind}");
    }
}

#[test]
fn a_message_over_the_limit_of_kept_messages_is_refused() {
    let mut world = world();
    for _ in 0..crate::limits::OFFLINE {
        send(&mut world, "alice@example.org", "chat", BODY);
    }
    assert!(world.abroad.is_empty());
    send(&mut world, "alice@example.org", "chat", BODY);
    assert!(world.sent_abroad()[0].contains("service-unavailable"));
    assert_eq!(kept(&world), crate::limits::OFFLINE as usize);
}

#[test]
fn a_message_that_cannot_be_kept_is_refused() {
    let mut world = world();
    let alice = world.sign_in("alice@example.org/desk");
    world.store.is_broken = true;
    send(&mut world, "alice@example.org", "chat", BODY);
    assert!(world.sent_abroad()[0].contains("resource-constraint"));
    let guest = world.sign_in_as("guest@example.org/x", true);
    assert_eq!(world.closed, [(guest, "internal-server-error")]);
    world.store.is_broken = false;
    world.sign_in_as("guest@example.org/x", true);
    send(&mut world, "guest@example.org", "chat", BODY);
    assert!(world.sent_abroad()[0].contains("service-unavailable"));
    world.lose(alice);
}

#[test]
fn messages_that_cannot_be_read_now_come_with_the_next_presence() {
    let mut world = world();
    send(&mut world, "alice@example.org", "chat", BODY);
    let alice = world.sign_in("alice@example.org/desk");
    world.store.is_broken = true;
    world.say(alice, "<presence/>");
    assert!(world.hear(alice).iter().all(|xml| xml.starts_with("<presence")));
    world.store.is_broken = false;
    world.say(alice, "<presence/>");
    assert!(world.hear(alice).iter().any(|xml| xml.starts_with("<message")));
}

#[test]
fn a_client_that_comes_while_a_message_is_written_gets_it() {
    let mut world = world();
    world.is_slow = true;
    send(&mut world, "alice@example.org", "chat", BODY);
    let alice = world.sign_in("alice@example.org/desk");
    world.say(alice, "<presence/>");
    world.hear(alice);
    while !world.unwritten.is_empty() {
        world.write();
    }
    assert_eq!(world.hear(alice).len(), 1);
    assert_eq!(kept(&world), 0);
}

fn ask(world: &mut HostWorld, client: u64, kind: &str, inner: &str) -> Vec<String> {
    world.say(client, &format!("<iq type='{kind}' id='o'>{inner}</iq>"));
    world.hear(client)
}

const NODE: &str = "http://jabber.org/protocol/offline";

#[test]
fn a_client_may_choose_among_its_messages() {
    let mut world = world();
    for number in 1..=3 {
        send(&mut world, "alice@example.org", "chat", &format!("<body>{number}</body>"));
    }
    let alice = world.sign_in("alice@example.org/desk");
    let info = ask(
        &mut world,
        alice,
        "get",
        &format!("<query xmlns='http://jabber.org/protocol/disco#info' node='{NODE}'/>"),
    );
    assert!(info[0].contains("number_of_messages") && info[0].contains("<value>3</value>"), "{info:?}");
    let items = ask(
        &mut world,
        alice,
        "get",
        &format!("<query xmlns='http://jabber.org/protocol/disco#items' node='{NODE}'/>"),
    );
    assert!(
        items[0].contains("<item jid='alice@example.org' node='00000000000000000002' name='eve@x.org/1'/>"),
        "{items:?}"
    );
    world.say(alice, "<presence/>");
    assert_eq!(world.hear(alice).len(), 1);
    let view =
        |number: u64| format!("<offline xmlns='{NODE}'><item action='view' node='{number:020}'/></offline>");
    let heard = ask(&mut world, alice, "get", &view(2));
    assert!(
        heard.len() == 2
            && heard[0].contains("<body>2</body>")
            && heard[0].contains(&format!("<offline xmlns='{NODE}'>")),
        "{heard:?}"
    );
    assert!(ask(&mut world, alice, "get", &view(9))[0].contains("item-not-found"));
    let remove = |number: u64| view(number).replace("view", "remove");
    assert!(ask(&mut world, alice, "set", &remove(2))[0].contains("type='result'"));
    assert!(ask(&mut world, alice, "set", &remove(2))[0].contains("item-not-found"));
    let fetched = ask(&mut world, alice, "get", &format!("<offline xmlns='{NODE}'><fetch/></offline>"));
    assert_eq!(fetched.len(), 3);
    assert!(
        ask(&mut world, alice, "set", &format!("<offline xmlns='{NODE}'><purge/></offline>"))[0]
            .contains("type='result'")
    );
    assert_eq!(kept(&world), 0);
    assert!(ask(&mut world, alice, "set", &format!("<offline xmlns='{NODE}'/>"))[0].contains("bad-request"));
}

#[test]
fn other_users_cannot_reach_kept_messages_and_a_broken_record_is_reported() {
    let mut world = world();
    send(&mut world, "alice@example.org", "chat", BODY);
    let bob = world.sign_in("bob@example.org/x");
    let alice = world.sign_in("alice@example.org/desk");
    // XEP-0030 §8: of a stranger the items are an empty set.
    for (xmlns, answer) in [
        ("http://jabber.org/protocol/disco#info", "service-unavailable".to_owned()),
        (
            "http://jabber.org/protocol/disco#items",
            format!("<query xmlns='http://jabber.org/protocol/disco#items' node='{NODE}'/>"),
        ),
    ] {
        world.say(
            bob,
            &format!(
                "<iq type='get' id='o' to='alice@example.org'><query xmlns='{xmlns}' node='{NODE}'/></iq>"
            ),
        );
        assert!(world.hear(bob)[0].contains(&answer));
    }
    world.say(
        bob,
        &format!(
            "<iq type='set' id='o' to='alice@example.org'><offline xmlns='{NODE}'><purge/></offline></iq>"
        ),
    );
    assert!(world.hear(bob)[0].contains("service-unavailable"));
    world.store.is_broken = true;
    for (kind, inner) in
        [("get", "<fetch/>"), ("set", "<purge/>"), ("set", "<item action='remove' node='1'/>")]
    {
        let heard = ask(&mut world, alice, kind, &format!("<offline xmlns='{NODE}'>{inner}</offline>"));
        assert!(heard.len() == 1 && heard[0].contains("resource-constraint"), "{inner}: {heard:?}");
    }
    assert_eq!(kept(&world), 1);
}

#[test]
fn much_that_waited_comes_in_portions() {
    let long = "x".repeat(200 << 10);
    for acknowledges in [true, false] {
        let mut world = world();
        for _ in 0..30 {
            send(&mut world, "alice@example.org", "chat", &format!("<body>{long}</body>"));
        }
        let alice = world.sign_in("alice@example.org/desk");
        if acknowledges {
            world.say(alice, "<enable xmlns='urn:xmpp:sm:3'/>");
        }
        world.say(alice, "<presence/>");
        // Its presence, and the messages.
        let (mut seen, mut heard) = (0, world.hear(alice));
        while acknowledges && heard.iter().any(|xml| xml.starts_with("<message")) {
            let fresh = heard
                .iter()
                .filter(|xml| xml.starts_with("<message") || xml.starts_with("<presence"))
                .count();
            assert!(fresh <= 6, "{fresh}");
            seen += fresh;
            world.say(alice, &format!("<a xmlns='urn:xmpp:sm:3' h='{seen}'/>"));
            heard = world.hear(alice);
        }
        if !acknowledges {
            seen = heard.len();
        }
        assert_eq!((seen, kept(&world)), (31, 0));
        assert!(world.closed.is_empty());
    }
}

#[test]
fn a_message_being_delivered_is_not_delivered_again() {
    let mut world = world();
    send(&mut world, "alice@example.org", "chat", BODY);
    let alice = world.sign_in("alice@example.org/desk");
    world.is_slow = true;
    world.say(alice, "<presence/>");
    world.say(alice, "<presence><show>away</show></presence>");
    assert_eq!(world.hear(alice).iter().filter(|xml| xml.starts_with("<message")).count(), 1);
}

#[test]
fn an_account_is_counted_while_its_messages_are_written() {
    let mut world = world();
    let alice = Bare::parse("alice@example.org").unwrap();
    world.is_slow = true;
    send(&mut world, "alice@example.org", "chat", BODY);
    while !world.unwritten.is_empty() {
        assert!(world.host.accounts.users.contains_key(&alice));
        world.write();
    }
    assert!(!world.host.accounts.users.contains_key(&alice));
}

//! Sessions that bind while they sign in.

use xmpp::c2s::UserAgent;

use super::*;

/// Signs in as alice by Bind 2; the connection's number.
fn bind(world: &mut HostWorld, connection: u64, agent: Option<&str>) -> u64 {
    let agent = agent.map(|id| Box::new(UserAgent { id: Some(id.into()), ..UserAgent::default() }));
    let request = BindRequest {
        user: Jid::parse("alice@example.org").unwrap(),
        is_anonymous: false,
        resource: None,
        tag: Some("T".into()),
        agent,
        is_bind2: true,
        can_move: false,
        inline: Vec::new(),
    };
    world.tell(|host, now, out| host.handle_bind(now, edge(connection), &request, out));
    connection
}

fn bound(world: &mut HostWorld, connection: u64) -> String {
    match world.bound.get(&connection) {
        Some(Bound::Session { jid, inline }) => {
            assert!(jid.as_str().starts_with("alice@example.org/T"), "{jid}");
            inline.iter().map(ToString::to_string).collect()
        }
        other => panic!("{other:?}"),
    }
}

/// A client that comes back after its connection was lost is one session, not two.
#[test]
fn at_the_limit_a_client_takes_its_own_place_again() {
    let mut world = HostWorld::new(&USERS);
    let sessions = SessionLimit { most: 2, ends_oldest: false };
    world.host =
        Host::new(Arc::new(HostSettings { sessions, ..settings() }), ShardAddress::default(), [1; 32]);
    let other = world.sign_in("alice@example.org/x");
    let old = bind(&mut world, 90, Some("phone"));
    let new = bind(&mut world, 91, Some("phone"));
    bound(&mut world, new);
    assert_eq!(world.closed, [(old, "conflict")]);
    // The resource is free.
    bind(&mut world, 92, Some("tablet"));
    assert!(
        matches!(&world.bound[&92], Bound::Refused(error) if error.condition == xmpp::stanza::Condition::ResourceConstraint)
    );
    assert!(
        world.host.accounts.session_of(&Jid::parse("alice@example.org/x").unwrap()).is_some(),
        "{other} stays"
    );
}

const USERS: [&str; 2] = ["alice@example.org", "bob@example.org"];

#[test]
fn a_client_learns_the_range_of_its_archive_and_reads_waiting_messages_there() {
    let mut world = HostWorld::new(&USERS);
    let bob = world.sign_in("bob@example.org/x");
    world.say(bob, "<message type='chat' to='alice@example.org'><body>hi</body></message>");
    assert_eq!(world.store.messages.offline.len(), 1);
    let alice = bind(&mut world, 90, None);
    let inline = bound(&mut world, alice);
    assert!(inline.contains("<metadata xmlns='urn:xmpp:mam:2'><start id="), "{inline}");
    world.say(alice, "<presence/>");
    let heard = world.hear(alice).join("\n");
    assert!(!heard.contains("<body>hi"), "{heard}");
    assert_eq!(world.store.messages.offline.len(), 0);
}

#[test]
fn a_message_in_no_archive_goes_on_waiting() {
    let mut world = HostWorld::new(&USERS);
    let first = world.sign_in("alice@example.org/x");
    let prefs = "<prefs xmlns='urn:xmpp:mam:2' default='never'><always/><never/></prefs>";
    world.say(first, &format!("<iq type='set' id='p'>{prefs}</iq>"));
    world.tell(|host, now, out| host.handle_gone(now, edge(first), true, out));
    let bob = world.sign_in("bob@example.org/x");
    world.say(bob, "<message type='chat' to='alice@example.org'><body>hi</body></message>");
    let alice = bind(&mut world, 90, None);
    bound(&mut world, alice);
    world.say(alice, "<presence/>");
    assert!(world.hear(alice).join("").contains("<body>hi"));
}

/// The sender may want that no archive has a message, an import has no archive, and archives are cut: such a message waits on, also
/// where the account's preferences are to keep all.
#[test]
fn of_the_waiting_messages_those_that_are_archived_are_removed() {
    let chat = |inner: &str| format!("<message type='chat' to='alice@example.org'>{inner}</message>");
    let mut world = HostWorld::new(&USERS);
    let bob = world.sign_in("bob@example.org/x");
    world.say(bob, &chat("<body>old</body>"));
    // Its entry is deleted once it is old enough (`archive_keep`).
    world.store.messages.archive.clear();
    world.say(bob, &chat("<body>archived</body>"));
    world.say(bob, &chat("<body>hint</body><no-permanent-store xmlns='urn:xmpp:hints'/>"));
    let imported = Element::new("message", ns::CLIENT)
        .with("from", "bob@example.org/x")
        .with("to", "alice@example.org")
        .child(Element::new("body", ns::CLIENT).text("imported"));
    let user = Bare::parse("alice@example.org").unwrap();
    world.store.messages.apply(&Change::Offline {
        user: user.clone(),
        at: START,
        stanza: Box::new(imported),
    });
    assert_eq!(world.store.messages.offline.len(), 4);
    // Until the next sign-in the account is read again, and what waits is counted.
    world.host = Host::new(Arc::new(settings()), ShardAddress::default(), [1; 32]);
    let alice = bind(&mut world, 90, None);
    bound(&mut world, alice);
    assert_eq!(world.store.messages.offline.len(), 3);
    world.say(alice, "<presence/>");
    let heard = world.hear(alice).join("\n");
    for (body, comes) in [("old", true), ("archived", false), ("hint", true), ("imported", true)] {
        assert_eq!(heard.contains(&format!("<body>{body}</body>")), comes, "{body}: {heard}");
    }
    assert_eq!(world.store.messages.offline.len(), 0);
}

/// The client is available before the store has answered.
#[test]
fn messages_in_no_archive_come_to_a_client_that_is_quick() {
    let mut world = HostWorld::new(&USERS);
    let bob = world.sign_in("bob@example.org/x");
    for inner in ["<body>archived</body>", "<body>hint</body><no-permanent-store xmlns='urn:xmpp:hints'/>"] {
        world.say(bob, &format!("<message type='chat' to='alice@example.org'>{inner}</message>"));
    }
    world.keep_rosters();
    world.is_slow = true;
    let alice = bind(&mut world, 90, None);
    world.say(alice, "<presence/>");
    while !world.unwritten.is_empty() {
        world.write();
    }
    let heard = world.hear(alice).join("\n");
    assert!(heard.contains("<body>hint") && !heard.contains("<body>archived"), "{heard}");
    assert_eq!(world.store.messages.offline.len(), 0);
}

#[test]
fn the_same_client_has_one_session() {
    let mut world = HostWorld::new(&USERS);
    let first = bind(&mut world, 90, Some("phone"));
    let desk = bind(&mut world, 91, Some("desk"));
    let nameless = bind(&mut world, 92, None);
    assert!(world.closed.is_empty());
    bind(&mut world, 93, None);
    bind(&mut world, 94, Some("phone"));
    assert_eq!(world.closed, [(first, "conflict")]);
    assert_eq!(world.host.accounts().session_count(), 4);
    let _ = (desk, nameless);
}

#[test]
fn a_stanza_before_the_answer_to_the_bind_comes_after_it() {
    let mut world = HostWorld::new(&USERS);
    let mut out = Outbox::new();
    let request = BindRequest {
        user: Jid::parse("alice@example.org").unwrap(),
        is_anonymous: false,
        resource: None,
        tag: None,
        agent: None,
        is_bind2: true,
        can_move: false,
        inline: Vec::new(),
    };
    world.host.handle_bind(START, edge(7), &request, &mut out);
    assert!(!out.iter().any(|effect| matches!(effect, Effect::Bound { .. })), "the archive is asked first");
    let key = world.host.accounts.by_edge[&edge(7)];
    let ping = Element::new("message", ns::CLIENT).with("id", "early");
    world.host.deliver(START, &[key], ping, &mut out);
    assert!(!out.iter().any(|effect| matches!(effect, Effect::Deliver { .. })));
    // The earlier request is answered now.
    world.tell(|_, _, all| *all = out);
    assert_eq!(world.hear(7).len(), 1);
    world.bound.remove(&7).unwrap();
}

//! Every cell of RFC 6121 §8.5.4: which message and which question goes where.

use super::*;

const KINDS: [&str; 5] = ["normal", "chat", "groupchat", "headline", "error"];

/// Sessions of alice's by their priorities; `desk` is the first, `phone` the second.
fn world(priorities: &[i8]) -> (HostWorld, Vec<u64>) {
    let mut world = HostWorld::new(&["alice@example.org"]);
    let mut clients = Vec::new();
    for (name, priority) in ["desk", "phone"].iter().zip(priorities) {
        let client = world.sign_in(&format!("alice@example.org/{name}"));
        world.say(client, &format!("<presence><priority>{priority}</priority></presence>"));
        clients.push(client);
    }
    clients.iter().for_each(|client| drop(world.hear(*client)));
    (world, clients)
}

/// `D` with the numbers of the sessions that got it, `O` kept, `E` refused, `S` nothing at all.
fn outcome(priorities: &[i8], to: &str, kind: &str) -> String {
    let (mut world, clients) = world(priorities);
    let kind = if kind == "normal" { String::new() } else { format!(" type='{kind}'") };
    world.arrive(&format!("<message{kind} from='bob@other.example/x' to='{to}'><body>hi</body></message>"));
    let mut outcome = String::new();
    for (number, client) in clients.iter().enumerate() {
        match world.hear(*client).len() {
            0 => {}
            1 => outcome.push_str(&format!("D{number}")),
            more => panic!("{more} copies"),
        }
    }
    outcome.push_str(&"O".repeat(world.store.messages.offline.len()));
    for answer in world.sent_abroad() {
        assert!(answer.contains("<service-unavailable"), "{answer}");
        outcome.push('E');
    }
    if outcome.is_empty() { "S".into() } else { outcome }
}

fn check(what: &str, priorities: &[i8], to: &str, expected: [&str; 5]) {
    let got = KINDS.map(|kind| outcome(priorities, to, kind));
    assert_eq!(got, expected, "{what}: {KINDS:?}");
}

#[test]
fn messages_go_where_the_table_says() {
    let (bare, full, gone) = ("alice@example.org", "alice@example.org/desk", "alice@example.org/gone");
    // §8.5.1: an error or silence, and an error goes to senders that may have mistyped.
    check("no such account, bare", &[], "ghost@example.org", ["E", "E", "E", "E", "S"]);
    check("no such account, full", &[], "ghost@example.org/x", ["E", "E", "E", "E", "S"]);
    check("no session available, bare", &[], bare, ["O", "O", "E", "S", "S"]);
    // §8.5.3.2.1: a message of another type than chat is ignored or answered by an error, here the latter.
    check("no session available, full", &[], gone, ["E", "O", "E", "S", "S"]);
    check("negative only, bare", &[-1], bare, ["O", "O", "E", "S", "S"]);
    check("negative only, its full", &[-1], full, ["D0", "D0", "D0", "D0", "D0"]);
    check("negative only, another full", &[-1], gone, ["E", "O", "E", "S", "S"]);
    check("one, bare", &[0], bare, ["D0", "D0", "E", "D0", "S"]);
    check("one, its full", &[0], full, ["D0", "D0", "D0", "D0", "D0"]);
    check("one, another full", &[0], gone, ["E", "D0", "E", "S", "S"]);
    // §8.5.2.1.1: "deliver the message to all of the non-negative available resources".
    check("two, bare", &[5, 1], bare, ["D0D1", "D0D1", "E", "D0D1", "S"]);
    check("two, one negative, bare", &[-1, 1], bare, ["D1", "D1", "E", "D1", "S"]);
    check("two, a full one", &[5, 1], full, ["D0", "D0", "D0", "D0", "D0"]);
    check("two, another full", &[5, 1], gone, ["E", "D0D1", "E", "S", "S"]);
}

/// RFC 6121 §8.5.3.2.1: a message that comes back was not delivered, so the archive does not have it.
#[test]
fn a_normal_message_for_an_absent_resource_is_in_no_archive() {
    let (mut world, _) = world(&[0]);
    let message = "<message from='bob@other.example/x' to='alice@example.org/gone'><body>hi</body></message>";
    world.arrive(message);
    assert!(world.sent_abroad()[0].contains("<service-unavailable"));
    assert!(world.store.messages.archive.is_empty());
    world.arrive(&message.replace("/gone", "/desk"));
    assert_eq!(world.store.messages.archive.len(), 1);
}

#[test]
fn questions_and_presence_go_where_the_table_says() {
    for (priorities, to, expected) in [
        (&[][..], "ghost@example.org", "service-unavailable"),
        (&[], "alice@example.org/desk", "service-unavailable"),
        (&[0], "alice@example.org/gone", "service-unavailable"),
        // §8.5.2.1.3: the server answers for the account, which has no such thing.
        (&[0], "alice@example.org", "service-unavailable"),
        (&[0], "alice@example.org/desk", "delivered"),
        (&[-1], "alice@example.org/desk", "delivered"),
    ] {
        let (mut world, clients) = world(priorities);
        world.arrive(&format!(
            "<iq type='get' id='1' from='bob@other.example/x' to='{to}'><q xmlns='urn:x'/></iq>"
        ));
        let delivered: usize = clients.iter().map(|client| world.hear(*client).len()).sum();
        let answers = world.sent_abroad();
        match expected {
            "delivered" => assert!(delivered == 1 && answers.is_empty(), "{to}: {answers:?}"),
            condition => assert!(delivered == 0 && answers[0].contains(condition), "{to}: {answers:?}"),
        }
        // An answer without a question is ignored.
        world.arrive(&format!("<iq type='result' id='1' from='bob@other.example/x' to='{to}'/>"));
        assert!(world.sent_abroad().is_empty());
    }
    // §8.5.2.1.2, §8.5.2.2.2 and §8.5.3.2.2: to all available sessions, to the one, or to none.
    for (priorities, to, expected) in [
        (&[][..], "alice@example.org", 0),
        (&[0, -1], "alice@example.org", 2),
        (&[0, -1], "alice@example.org/phone", 1),
        (&[0], "alice@example.org/gone", 0),
        (&[], "ghost@example.org", 0),
    ] {
        let (mut world, clients) = world(priorities);
        world.arrive(&format!("<presence from='bob@other.example/x' to='{to}'/>"));
        let delivered: usize = clients.iter().map(|client| world.hear(*client).len()).sum();
        assert_eq!((delivered, world.sent_abroad().len()), (expected, 0), "{to}");
    }
}

/// RFC 6120 §10.3 and §8.1.2.1: a stanza without an address is for the account or for all its subscribers.
#[test]
fn a_stanza_without_an_address_is_for_the_account() {
    let (mut world, clients) = world(&[0, 0]);
    world.say(clients[0], "<message type='chat'><body>note to myself</body></message>");
    for client in &clients {
        assert_eq!(world.hear(*client).len(), 1, "as any message to the account");
    }
    world.say(clients[0], "<iq type='get' id='1'><ping xmlns='urn:xmpp:ping'/></iq>");
    assert!(world.hear(clients[0])[0].contains("type='result'"));
}

/// RFC 5233: a message for a subaddress is for its account.
#[test]
fn a_message_for_an_address_with_a_detail_is_for_the_account() {
    let (mut world, clients) = world(&[0]);
    let send = |world: &mut HostWorld, to: &str, xml: &str| {
        world.arrive(&xml.replace("TO", &format!("from='bob@other.example/x' to='{to}' id='1'")));
        (world.hear(clients[0]), world.sent_abroad())
    };
    let words = "<message TO type='chat'><body>hi</body></message>";
    for to in ["alice+shop@example.org", "alice+shop@example.org/desk", "alice+a+b@example.org/gone"] {
        let (heard, _) = send(&mut world, to, words);
        assert!(heard.len() == 1 && heard[0].contains(&format!("type='to' jid='{to}'")), "{to}: {heard:?}");
    }
    for to in ["+shop@example.org", "alice+@example.org", "ghost+shop@example.org"] {
        let (heard, answers) = send(&mut world, to, words);
        assert!(heard.is_empty() && answers[0].contains("<service-unavailable"), "{to}: {answers:?}");
    }
    // IQ requests and presence have to be answered from the address itself, which has no account.
    let (heard, answers) =
        send(&mut world, "alice+shop@example.org", "<iq TO type='get'><q xmlns='urn:x'/></iq>");
    assert!(heard.is_empty() && answers[0].contains("<service-unavailable"));
    let (heard, answers) = send(&mut world, "alice+shop@example.org", "<presence TO type='subscribe'/>");
    assert!(heard.is_empty() && answers.is_empty(), "{answers:?}");
    let (heard, answers) = send(&mut world, "alice+shop@example.org", "<presence TO type='probe'/>");
    assert!(heard.is_empty() && answers[0].contains("unsubscribed"), "{answers:?}");
    // An account of that name receives its own messages.
    world.store.users.insert(Bare::parse("alice+shop@example.org").unwrap(), AccountData::default());
    let (heard, answers) = send(&mut world, "alice+shop@example.org", words);
    assert!(heard.is_empty() && answers.is_empty());
    assert_eq!(world.store.messages.offline[0].0.as_str(), "alice+shop@example.org");
}

//! Rooms as signed-in clients have them: presence, archive and the end of a session in one piece.

use super::super::*;

const ROOM: &str = "coven@conference.example.org";

#[test]
fn clients_of_ours_enter_talk_and_are_gone_when_their_connection_is() {
    let mut world = HostWorld::new(&["alice@example.org", "bob@example.org"]);
    let alice = world.sign_in("alice@example.org/desk");
    let bob = world.sign_in("bob@example.org/phone");
    world.say(
        alice,
        &format!("<presence to='{ROOM}/a'><x xmlns='http://jabber.org/protocol/muc'/></presence>"),
    );
    let heard = world.hear(alice);
    assert!(heard.len() == 2 && heard[0].contains("201"), "{heard:?}");
    let field = "<field var='muc#roomconfig_persistentroom'><value>1</value></field>";
    let form = format!("<x xmlns='jabber:x:data' type='submit'>{field}</x>");
    let query = format!("<query xmlns='http://jabber.org/protocol/muc#owner'>{form}</query>");
    world.say(alice, &format!("<iq id='c' type='set' to='{ROOM}'>{query}</iq>"));
    assert!(world.hear(alice).last().unwrap().contains("result"));
    world
        .say(bob, &format!("<presence to='{ROOM}/b'><x xmlns='http://jabber.org/protocol/muc'/></presence>"));
    let heard = world.hear(bob);
    assert!(heard.len() == 3 && heard[1].contains("110"), "{heard:?}");
    world.hear(alice);
    world.say(bob, &format!("<message type='groupchat' to='{ROOM}'><body>hi</body></message>"));
    for client in [alice, bob] {
        let heard = world.hear(client);
        assert!(heard.len() == 1 && heard[0].contains("<body>hi</body>"), "{heard:?}");
    }
    let kept = world
        .store
        .changes
        .iter()
        .filter(|change| matches!(change, Change::Archive { owner, .. } if owner.as_str() == ROOM));
    assert_eq!(kept.count(), 1);
    world.tell(|host, now, out| host.handle_gone(now, edge(bob), true, out));
    let heard = world.hear(alice);
    assert!(heard.len() == 1 && heard[0].contains("unavailable") && heard[0].contains("/b'"), "{heard:?}");
}

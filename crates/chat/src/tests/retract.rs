//! Retracted messages leave the archive (XEP-0424).

use super::*;

const EVE: &str = "eve@x.org/1";

fn said(world: &mut HostWorld, from: &str, id: &str, inside: &str) {
    world.arrive(&format!(
        "<message type='chat' id='{id}' from='{from}' to='alice@example.org'>{inside}</message>"
    ));
}

fn retract(id: &str) -> String {
    format!("<retract id='{id}' xmlns='urn:xmpp:message-retract:1'/><body>took something back</body>")
}

fn archived(world: &HostWorld) -> Vec<String> {
    let all = world.store.messages.archive.iter();
    all.map(|(_, (.., stanza))| String::from_utf8(stanza.to_bytes(ns::CLIENT)).unwrap()).collect()
}

#[test]
fn a_tombstone_stands_for_a_message_that_its_sender_retracted() {
    let mut world = HostWorld::new(&["alice@example.org"]);
    said(&mut world, EVE, "m1", "<body>secret</body>");
    said(&mut world, EVE, "m2", "<body>other</body><origin-id xmlns='urn:xmpp:sid:0' id='o2'/>");
    world.wait(Duration::from_secs(60));
    // A user cannot retract another's message, nor one by an id that it does not have.
    said(&mut world, "mal@x.org/1", "r0", &retract("m1"));
    said(&mut world, EVE, "r1", &retract("m2"));
    assert!(archived(&world)[0].contains("secret") && archived(&world)[1].contains("other"));
    said(&mut world, "eve@x.org/2", "r2", &retract("m1"));
    said(&mut world, EVE, "r3", &retract("o2"));
    let all = archived(&world);
    assert_eq!(
        all[0],
        "<message from='eve@x.org/1' to='alice@example.org' id='m1' type='chat'>\
         <retracted xmlns='urn:xmpp:message-retract:1' stamp='2027-01-15T08:01:00.000Z'/></message>"
    );
    assert!(all[1].contains("id='o2'") && all[1].contains("<retracted") && !all[1].contains("other"));
    assert_eq!(all.len(), 6, "the retractions are archived (§5)");
    assert!(all[5].contains("<retract "));
    // A retraction is not taken back.
    said(&mut world, EVE, "r4", &retract("r3"));
    assert!(archived(&world)[5].contains("<retract "));
}

#[test]
fn a_users_own_sent_message_is_retracted_too() {
    let mut world = HostWorld::new(&["alice@example.org"]);
    let alice = world.sign_in("alice@example.org/desk");
    world.say(alice, "<message type='chat' id='m1' to='eve@x.org'><body>secret</body></message>");
    said(&mut world, EVE, "m1", "<body>hers</body>");
    let phone = world.sign_in("alice@example.org/phone");
    world.say(phone, &format!("<message type='chat' id='r' to='eve@x.org'>{}</message>", retract("m1")));
    let all = archived(&world);
    assert!(all[0].contains("<retracted") && !all[0].contains("secret"), "{}", all[0]);
    assert!(all[1].contains("hers"), "of two of that name her own: {}", all[1]);
    world.say(alice, "<iq type='get' id='d'><query xmlns='http://jabber.org/protocol/disco#info'/></iq>");
    let told = world.hear(alice).pop().unwrap();
    assert!(told.contains("'urn:xmpp:message-retract:1'") && told.contains("retract:1#tombstone"), "{told}");
}

//! The small questions: software version and time (XEP-0092, XEP-0202).

use super::*;

fn ask(world: &mut HostWorld, client: u64, kind: &str, to: &str, payload: &str) -> String {
    world.say(client, &format!("<iq type='{kind}' id='q' to='{to}'>{payload}</iq>"));
    let mut heard = world.hear(client);
    assert_eq!(heard.len(), 1, "{heard:?}");
    heard.remove(0)
}

#[test]
fn the_server_tells_its_software_and_its_time() {
    let mut world = HostWorld::new(&["alice@example.org", "bob@example.org"]);
    let alice = world.sign_in("alice@example.org/desk");
    let version = "<query xmlns='jabber:iq:version'/>";
    let told = ask(&mut world, alice, "get", "example.org", version);
    assert!(told.contains("<name>Belfry</name><version>1</version>") && !told.contains("<os>"), "{told}");
    let time = "<time xmlns='urn:xmpp:time'/>";
    let told = ask(&mut world, alice, "get", "example.org", time);
    assert!(told.contains("<tzo>+00:00</tzo><utc>2027-01-15T08:00:00.000Z</utc>"), "{told}");
    for payload in [version, time] {
        assert!(ask(&mut world, alice, "set", "example.org", payload).contains("<bad-request"));
        assert!(ask(&mut world, alice, "get", "bob@example.org", payload).contains("<service-unavailable"));
    }
}

#[test]
fn the_session_of_old_clients_is_answered_and_counted() {
    let mut world = HostWorld::new(&["alice@example.org", "bob@example.org"]);
    let alice = world.sign_in("alice@example.org/desk");
    world.say(alice, "<enable xmlns='urn:xmpp:sm:3'/>");
    world.hear(alice);
    let session = "<session xmlns='urn:ietf:params:xml:ns:xmpp-session'/>";
    world.say(alice, &format!("<iq type='set' id='q'>{session}</iq>"));
    let heard = world.hear(alice).concat();
    assert!(heard.contains("type='result'") && heard.contains("id='q'"), "{heard}");
    let answer = ask(&mut world, alice, "set", "example.org", session);
    assert!(answer.contains("type='result'") && answer.contains("from='example.org'"), "{answer}");
    assert!(ask(&mut world, alice, "get", "example.org", session).contains("<bad-request"));
    assert!(ask(&mut world, alice, "set", "bob@example.org", session).contains("<service-unavailable"));
    world.say(alice, "<r xmlns='urn:xmpp:sm:3'/>");
    let heard = world.hear(alice).concat();
    assert!(heard.contains("<a xmlns='urn:xmpp:sm:3' h='4'/>"), "{heard}");
}

//! The last activity of accounts (XEP-0012).

use super::effect::{RosterItem, Subscription};
use super::*;

const QUERY: &str = "<query xmlns='jabber:iq:last'/>";

fn world() -> HostWorld {
    let mut world = HostWorld::new(&["alice@example.org"]);
    let store = world.store.users.get_mut(&Bare::parse("alice@example.org").unwrap()).unwrap();
    let item = RosterItem { subscription: Subscription::From, ..Default::default() };
    store.roster.push((Bare::parse("bob@x.org").unwrap(), item));
    world
}

fn ask(world: &mut HostWorld, from: &str, to: &str) -> String {
    world.arrive(&format!("<iq type='get' id='l' from='{from}' to='{to}'>{QUERY}</iq>"));
    world.sent_abroad().pop().unwrap_or_default()
}

#[test]
fn a_server_tells_since_when_it_is() {
    let mut world = world();
    world.now = START + Duration::from_secs(123_456);
    assert!(ask(&mut world, "eve@x.org/1", "example.org").contains("seconds='123456'"));
    world.arrive(&format!("<iq type='set' id='l' from='eve@x.org/1' to='example.org'>{QUERY}</iq>"));
    assert!(world.sent_abroad()[0].contains("bad-request"));
}

#[test]
fn a_subscriber_learns_when_a_user_left_and_its_last_status() {
    let mut world = world();
    assert!(ask(&mut world, "bob@x.org/1", "alice@example.org").contains("item-not-found"));
    let alice = world.sign_in("alice@example.org/desk");
    world.say(alice, "<presence/>");
    world.now = START + Duration::from_secs(10);
    assert!(ask(&mut world, "bob@x.org/1", "alice@example.org").contains("seconds='0'"));
    world.say(alice, "<presence type='unavailable'><status>Heading Home</status></presence>");
    world.now = START + Duration::from_secs(913);
    let told = ask(&mut world, "bob@x.org/1", "alice@example.org");
    assert!(told.contains("seconds='903'>Heading Home</query>"), "{told}");
    assert!(ask(&mut world, "eve@x.org/1", "alice@example.org").contains("forbidden"));
    world.say(alice, &format!("<iq type='get' id='l' to='alice@example.org'>{QUERY}</iq>"));
    assert!(world.hear(alice).pop().unwrap().contains("seconds='903'"));
    world.say(alice, &format!("<iq type='set' id='l' to='alice@example.org'>{QUERY}</iq>"));
    assert!(world.hear(alice).pop().unwrap().contains("bad-request"));
}

#[test]
fn only_subscribers_may_ask_a_client() {
    let mut world = world();
    let alice = world.sign_in("alice@example.org/desk");
    assert!(ask(&mut world, "eve@x.org/1", "alice@example.org/desk").contains("forbidden"));
    assert!(world.hear(alice).is_empty());
    ask(&mut world, "bob@x.org/1", "alice@example.org/desk");
    assert!(world.hear(alice)[0].contains("jabber:iq:last"));
}

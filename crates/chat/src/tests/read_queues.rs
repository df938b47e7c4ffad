//! The limits on concurrent reads of one address.

use super::*;
use crate::limits;

const ALICE: &str = "alice@example.org";

fn vcard(world: &mut HostWorld, client: u64, id: usize) {
    world.say(
        client,
        &format!("<iq type='get' id='{id}' to='bob@example.org'><vCard xmlns='vcard-temp'/></iq>"),
    );
}

fn world() -> (HostWorld, u64, u64) {
    let mut world = HostWorld::new(&[ALICE, "bob@example.org"]);
    let [alice, bob] = ["alice@example.org/a", "bob@example.org/b"].map(|jid| world.sign_in(jid));
    // Both records are in memory, in `tests_without_rosters` too.
    world.keep_rosters();
    for client in [alice, bob] {
        vcard(&mut world, client, 0);
        world.hear(client);
    }
    world.reads_slowly = true;
    (world, alice, bob)
}

#[test]
fn one_account_has_a_few_reads_under_way_and_the_others_wait() {
    let (mut world, alice, bob) = world();
    for id in 0..100 {
        vcard(&mut world, alice, id);
    }
    assert_eq!(world.unread.len(), limits::READS_UNDER_WAY);
    vcard(&mut world, bob, 0);
    assert_eq!(world.unread.len(), limits::READS_UNDER_WAY + 1, "another's read does not wait for them");
    world.read();
    while !world.unread.is_empty() {
        assert!(world.unread.len() <= limits::READS_UNDER_WAY + 1);
        world.read();
    }
    assert_eq!((world.hear(alice).len(), world.hear(bob).len()), (100, 1), "each question has its answer");
    assert_eq!(world.host.store.reads.len(), 0);
}

#[test]
fn reads_beyond_those_that_may_wait_are_refused() {
    let (mut world, alice, _) = world();
    for id in 0..limits::READS_UNDER_WAY + limits::READS_WAITING + 5 {
        vcard(&mut world, alice, id);
    }
    while !world.unread.is_empty() {
        world.read();
    }
    let heard = world.hear(alice);
    assert_eq!(heard.len(), limits::READS_UNDER_WAY + limits::READS_WAITING + 5);
    let refused = heard.iter().filter(|heard| heard.contains("resource-constraint")).count();
    assert_eq!(refused, 5);
    assert_eq!(world.host.store.reads.len(), 0);
}

#[test]
fn archive_preferences_that_cannot_be_read_archive_nothing() {
    let mut world = HostWorld::new(&[ALICE, "bob@example.org"]);
    let owner = Bare::parse(ALICE).unwrap();
    let node: Box<str> = crate::user::NODES[0].into();
    world.store.items.insert((owner, node), vec![("current".into(), START, Element::new("unreadable", ""))]);
    let alice = world.sign_in("alice@example.org/a");
    world.say(alice, "<message to='bob@example.org' type='chat'><body>hi</body></message>");
    let archived = world.store.changes.iter().filter_map(|change| match change {
        Change::Archive { owner, .. } => Some(owner.as_str()),
        _ => None,
    });
    assert!(archived.into_iter().all(|owner| owner != ALICE));
}

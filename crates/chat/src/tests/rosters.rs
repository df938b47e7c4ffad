//! Rosters that are let go of while their accounts are signed in.

use super::effect::{RosterItem, Subscription};
use super::*;

const ALICE: &str = "alice@example.org";
const BOB: &str = "bob@example.org";

fn friends(world: &mut HostWorld) -> [u64; 2] {
    let item = |version| RosterItem {
        subscription: Subscription::Both,
        is_listed: true,
        version,
        ..RosterItem::default()
    };
    for (user, contact) in [(ALICE, BOB), (BOB, ALICE)] {
        let store = world.store.users.get_mut(&Bare::parse(user).unwrap()).unwrap();
        store.roster.push((Bare::parse(contact).unwrap(), item(1)));
        store.roster_version = 1;
    }
    let clients = [world.sign_in("alice@example.org/desk"), world.sign_in("bob@example.org/phone")];
    for client in clients {
        world.say(client, "<presence/>");
    }
    for client in clients {
        world.hear(client);
    }
    clients
}

fn world() -> HostWorld {
    let mut world = HostWorld::new(&[ALICE, BOB]);
    world.keep_rosters();
    world
}

fn bound(world: &mut HostWorld, most: usize) {
    let settings = world.host.settings().clone();
    world.host.reload(Arc::new(HostSettings { rosters: RosterMemory(most), ..settings }));
}

fn is_here(world: &HostWorld, user: &str) -> bool {
    world.host.accounts.data(&Bare::parse(user).unwrap()).is_some()
}

#[test]
fn the_roster_unused_for_longest_is_dropped() {
    let mut world = world();
    let [_, bob] = friends(&mut world);
    let both = world.host.accounts().roster_bytes();
    assert!(both > 0 && is_here(&world, ALICE) && is_here(&world, BOB));
    bound(&mut world, both - 1);
    // Bob's private data is read, and the eviction passes by: both rosters were used since its last round.
    for number in 0..3 {
        world.say(bob, &format!("<iq type='get' id='{number}'><query xmlns='jabber:iq:private'><x xmlns='urn:{number}'/></query></iq>"));
    }
    assert!(!is_here(&world, ALICE) && is_here(&world, BOB));
    assert_eq!(world.host.accounts().rosters_dropped(), 1);
    assert!(world.host.accounts().roster_bytes() < both);
}

/// There is no place for any roster, and that is seen with the next thing that they say.
fn let_go(world: &mut HostWorld, friends: [u64; 2]) {
    bound(world, 0);
    for client in friends {
        world.say(
            client,
            "<iq type='get' id='1'><query xmlns='jabber:iq:private'><x xmlns='urn:x'/></query></iq>",
        );
        world.hear(client);
    }
    assert!(!is_here(world, ALICE), "{} bytes", world.host.accounts().roster_bytes());
}

#[test]
fn contacts_are_told_of_a_removal_though_the_roster_is_away() {
    let mut world = world();
    let [alice, bob] = friends(&mut world);
    let user = Bare::parse(ALICE).unwrap();
    let kept = world.store.users[&user].roster.clone();
    let_go(&mut world, [alice, bob]);
    world.store.users.remove(&user);
    world.store.changes.clear();
    let ending = crate::register::SessionEndReason::Removed;
    world.tell(|host, now, out| host.end_account(now, &user, ending, &kept, out));
    assert_eq!(world.closed, [(alice, "not-authorized")]);
    let heard = world.hear(bob).join("\n");
    assert!(heard.contains("type='unavailable' from='alice@example.org/desk'"), "{heard}");
    let bobs = &world.store.users[&Bare::parse(BOB).unwrap()].roster;
    assert_eq!(bobs[0].1.subscription, Subscription::None, "it is ended on bob's side too");
    let is_hers =
        |change: &Change| matches!(change, Change::LastSeen { user, .. } if user.local() == Some("alice"));
    assert!(!world.store.changes.iter().any(is_hers), "nothing is written of who is no more");
}

#[test]
fn an_end_is_told_when_the_roster_is_here_again() {
    let mut world = world();
    let [alice, bob] = friends(&mut world);
    let_go(&mut world, [alice, bob]);
    assert_eq!(world.host.accounts().roster_bytes(), 0);
    world.reads_slowly = true;
    world.lose(alice);
    assert!(world.hear(bob).is_empty(), "alice's contacts are not known yet");
    while !world.unread.is_empty() {
        world.read();
    }
    let heard = world.hear(bob).concat();
    assert!(heard.contains("type='unavailable'") && heard.contains("alice@example.org/desk"), "{heard}");
    let seen = |change: &Change| matches!(change, Change::LastSeen { user, .. } if user.as_str() == ALICE);
    assert!(world.store.changes.iter().any(seen), "{:?}", world.store.changes);
}

#[test]
fn a_session_stays_when_its_dropped_roster_cannot_be_read_again() {
    let mut world = world();
    let [alice, bob] = friends(&mut world);
    bound(&mut world, 0);
    world
        .say(alice, "<iq type='get' id='1'><query xmlns='jabber:iq:private'><x xmlns='urn:x'/></query></iq>");
    world.hear(alice);
    world.store.is_broken = true;
    world.say(alice, "<iq type='get' id='2'><query xmlns='jabber:iq:roster'/></iq>");
    let heard = world.hear(alice).concat();
    assert!(heard.contains("id='2'") && heard.contains("resource-constraint"), "{heard}");
    assert!(world.closed.is_empty());
    world.store.is_broken = false;
    world.say(alice, "<presence><show>away</show></presence>");
    assert!(world.hear(bob).concat().contains("<show>away</show>"));
}

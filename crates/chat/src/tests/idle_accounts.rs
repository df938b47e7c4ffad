//! Accounts that stay in memory for a while, and stanzas that wait for one.

use super::*;
use crate::limits;

fn user_loads(world: &HostWorld) -> usize {
    world.store.loads.iter().filter(|load| matches!(load, Load::User { .. })).count()
}

#[test]
fn a_thousand_messages_to_an_absent_user_read_the_account_once() {
    let mut world = HostWorld::new(&["alice@example.org"]);
    for number in 0..1_000 {
        world.arrive(&format!(
            "<message from='bob@other.example' to='alice@example.org' type='chat'><body>{number}</body></message>"
        ));
    }
    assert_eq!(world.store.loads.len(), 2, "the account, its phones: {:?}", world.store.loads);
    assert_eq!(world.store.messages.offline.len(), 1_000);
    assert!(world.sent_abroad().is_empty());
    // The next is one too many, which is known without reading.
    world.arrive("<message from='bob@other.example' to='alice@example.org' id='x'><body>1</body></message>");
    assert!(world.sent_abroad()[0].contains("service-unavailable"));
    // After signing in, Alice has all of them, and changes made meanwhile are in the same data.
    let alice = world.sign_in("alice@example.org/desk");
    world.say(alice, "<presence/>");
    assert_eq!(world.hear(alice).iter().filter(|heard| heard.contains("<body>")).count(), 1_000);
    assert_eq!(user_loads(&world), 1);
}

#[test]
fn a_record_rests_for_some_minutes_and_no_longer() {
    let mut world = HostWorld::new(&["alice@example.org"]);
    let words = "<message from='bob@other.example' to='alice@example.org'><body>1</body></message>";
    world.arrive(words);
    world.wait(limits::IDLE_ACCOUNT_FOR - Duration::from_secs(1));
    world.arrive(words);
    assert_eq!(user_loads(&world), 1);
    world.wait(limits::IDLE_ACCOUNT_FOR);
    world.arrive(words);
    assert_eq!(user_loads(&world), 2);
    // An account that was changed by its operator is read again.
    world.host.forget_accounts(Some(&Bare::parse("alice@example.org").unwrap()));
    world.arrive(words);
    assert_eq!(user_loads(&world), 3);
}

#[test]
fn unknown_and_anonymous_accounts_are_not_cached() {
    let mut world = HostWorld::new(&[]);
    let words = "<message from='bob@other.example' to='eve@example.org' id='1'><body>1</body></message>";
    world.arrive(words);
    assert!(world.sent_abroad()[0].contains("service-unavailable"));
    let eve = world.sign_in_as("eve@example.org/x", true);
    world.say(eve, "<presence/>");
    world.lose(eve);
    assert_eq!(world.host.accounts.idle.len(), 0);
    world.store.users.insert(Bare::parse("eve@example.org").unwrap(), AccountData::default());
    world.arrive(words);
    assert_eq!(world.store.messages.offline.len(), 1, "the account was made meanwhile");
    assert_eq!(world.host.accounts.idle.len(), 1);
}

#[test]
fn the_one_used_least_recently_makes_place() {
    let users: Vec<String> = (0..=limits::IDLE_ACCOUNTS).map(|n| format!("u{n}@example.org")).collect();
    let mut world = HostWorld::new(&users.iter().map(String::as_str).collect::<Vec<_>>());
    let mut write = |user: &str| {
        world.arrive(&format!("<message from='b@other.example' to='{user}'><body>1</body></message>"));
        (user_loads(&world), world.host.accounts.idle.len())
    };
    for user in &users[..limits::IDLE_ACCOUNTS] {
        write(user);
    }
    assert_eq!(write(&users[0]), (limits::IDLE_ACCOUNTS, limits::IDLE_ACCOUNTS), "it is here");
    assert_eq!(write(&users[limits::IDLE_ACCOUNTS]), (limits::IDLE_ACCOUNTS + 1, limits::IDLE_ACCOUNTS));
    assert_eq!(write(&users[0]).0, limits::IDLE_ACCOUNTS + 1, "it was used lately");
    assert_eq!(write(&users[1]).0, limits::IDLE_ACCOUNTS + 2, "it made place");
}

#[test]
fn the_stanzas_that_wait_for_an_account_are_bounded() {
    let mut world = HostWorld::new(&["alice@example.org"]);
    world.reads_slowly = true;
    let message = |n: usize| {
        format!(
            "<message id='m{n}' from='bob@other.example' to='alice@example.org'><body>{n}</body></message>"
        )
    };
    for number in 0..limits::USER_WAITING {
        world.arrive(&message(number));
    }
    assert!(world.sent_abroad().is_empty());
    world.arrive(&message(limits::USER_WAITING));
    world.arrive("<presence type='subscribe' from='bob@other.example' to='alice@example.org'/>");
    world.arrive("<presence from='bob@other.example/x' to='alice@example.org'/>");
    let refused = world.sent_abroad();
    assert_eq!(refused.len(), 2, "presence is not answered: {refused:?}");
    assert!(refused.iter().all(|answer| answer.contains("resource-constraint")), "{refused:?}");
    // Its own session's stanzas wait in the same line.
    let alice = world.sign_in("alice@example.org/desk");
    world.say(alice, "<iq type='get' id='1'><ping xmlns='urn:xmpp:ping'/></iq>");
    let heard = world.hear(alice);
    assert!(heard.len() == 1 && heard[0].contains("resource-constraint"), "{heard:?}");
    while !world.unread.is_empty() {
        world.read();
    }
    assert_eq!(world.store.messages.offline.len(), limits::USER_WAITING);
}

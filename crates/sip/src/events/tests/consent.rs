//! Consent to subscriptions.

use router::Answer;

use super::*;

const SUBSCRIBE: &str = "o: presence\nExpires: 600";

fn world(watching: WatchPolicy, chat: bool) -> World {
    World::with(EventRules { watching, chat, ..EventRules::default() })
}

fn status(reply: &str) -> &str {
    reply.split(": ").nth(1).unwrap().split(' ').next().unwrap()
}

#[test]
fn another_account_is_watched_as_the_policy_says() {
    for (watching, chat, expected) in [
        (WatchPolicy::Accounts, false, "200"),
        (WatchPolicy::Accounts, true, "200"),
        (WatchPolicy::Contacts, true, "200"),
        (WatchPolicy::Contacts, false, "403"),
        (WatchPolicy::Owner, true, "403"),
    ] {
        for package in ["presence", "dialog"] {
            let mut world = world(watching, chat);
            let reply = world.request("SUBSCRIBE", &format!("o: {package}\nExpires: 600"), "");
            assert_eq!(status(&reply), expected, "{watching:?} {chat} {package}: {reply}");
        }
    }
}

#[test]
fn an_account_may_always_watch_itself() {
    for watching in [WatchPolicy::Accounts, WatchPolicy::Contacts, WatchPolicy::Owner] {
        for package in ["presence", "dialog", "reg", "message-summary"] {
            let mut world = world(watching, true);
            world.account = Some("alice@a.test");
            let reply = world.request("SUBSCRIBE", &format!("o: {package}\nExpires: 600"), "");
            assert_eq!(status(&reply), "200", "{watching:?} {package}: {reply}");
            assert!(!reply.contains("by consent"), "{reply}");
        }
    }
}

#[test]
fn a_subscription_without_consent_ends_with_a_first_notify_without_state() {
    let mut world = world(WatchPolicy::Contacts, true);
    let accepted = world.request("SUBSCRIBE", SUBSCRIBE, "");
    assert!(accepted.contains("by consent to bob@a.test"), "{accepted}");
    let (id, _) = world.asked.remove(0);
    let mut out = Vec::new();
    world.notifier.handle_answer(world.now, id, Answer::WatchRefused, &mut out);
    let notifies: Vec<_> = out
        .iter()
        .filter_map(|effect| match effect {
            EventEffect::Request { bytes, .. } => Some(String::from_utf8_lossy(bytes).into_owned()),
            _ => None,
        })
        .collect();
    assert_eq!(notifies.len(), 1);
    assert!(notifies[0].contains("Subscription-State: terminated;reason=rejected\r\n"), "{}", notifies[0]);
    assert!(notifies[0].ends_with("\r\n\r\n"), "no document: {}", notifies[0]);
    assert_eq!(world.notifier.counts().subscriptions, 0);
}

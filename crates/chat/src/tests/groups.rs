//! Shared roster groups, demand by demand. The cast: Alice and Bob of the office, Carol of support, seen by the office, and Eve, who is in
//! no group.

use super::effect::{RosterItem, Subscription};
use super::*;
use crate::groups::{SharedGroup, SharedGroups};

const OFFICE: &str = "office";
const CLIENTS: [&str; 4] = ["alice", "bob", "carol", "eve"];

fn bare(name: &str) -> Bare {
    Bare::parse(&format!("{name}@example.org")).unwrap()
}

fn group(name: &str, label: &str, members: &[&str], shown_to: &[&str]) -> SharedGroup {
    SharedGroup {
        name: name.into(),
        label: label.into(),
        members: members.iter().map(|member| bare(member)).collect(),
        shown_to: shown_to.iter().map(|name| (*name).into()).collect(),
    }
}

fn office() -> SharedGroup {
    group(OFFICE, "The Office", &["bob", "alice"], &[OFFICE])
}

fn reload(world: &mut HostWorld, groups: Vec<SharedGroup>) {
    let settings = world.host.settings().clone();
    let groups = Arc::new(SharedGroups::new(groups));
    world.host.reload(Arc::new(HostSettings { groups, ..settings }));
    world.wait(Duration::ZERO);
}

/// All are signed in, have their rosters and are available.
fn world(groups: Vec<SharedGroup>) -> (HostWorld, [u64; 4]) {
    let (mut world, clients) = signed_in(groups, &[]);
    for client in clients {
        roster(&mut world, client);
        world.say(client, "<presence/>");
    }
    world.got.clear();
    (world, clients)
}

/// All are signed in; these items are in Alice's own roster.
fn signed_in(groups: Vec<SharedGroup>, own: &[(&str, RosterItem)]) -> (HostWorld, [u64; 4]) {
    let mut world =
        HostWorld::new(&CLIENTS.map(|name| format!("{name}@example.org")).each_ref().map(|x| &**x));
    let store = world.store.users.get_mut(&bare("alice")).unwrap();
    store.roster.extend(own.iter().map(|(name, item)| (bare(name), item.clone())));
    reload(&mut world, groups);
    let clients = CLIENTS.map(|name| world.sign_in(&format!("{name}@example.org/desk")));
    (world, clients)
}

/// Alice and Bob share the office, and Bob is a contact of her own, too. Both are available.
fn with_own_contact() -> (HostWorld, u64, u64) {
    let own = RosterItem { subscription: Subscription::Both, ..item("Bobby", &[]) };
    let (mut world, [alice, bob, ..]) = signed_in(vec![office()], &[("bob", own)]);
    for client in [alice, bob] {
        roster(&mut world, client);
        world.say(client, "<presence/>");
    }
    world.got.clear();
    (world, alice, bob)
}

fn roster_since(world: &mut HostWorld, client: u64, ver: &str) -> String {
    world.say(client, &format!("<iq type='get' id='r'><query xmlns='jabber:iq:roster' ver='{ver}'/></iq>"));
    world.hear(client).pop().unwrap()
}

fn roster(world: &mut HostWorld, client: u64) -> String {
    roster_since(world, client, "none")
}

fn set(world: &mut HostWorld, client: u64, item: &str) -> Vec<String> {
    world.say(client, &format!("<iq type='set' id='s'><query xmlns='jabber:iq:roster'>{item}</query></iq>"));
    world.hear(client)
}

fn version(text: &str) -> String {
    let (_, rest) = text.split_once("ver='").unwrap();
    rest.split_once('\'').unwrap().0.to_owned()
}

fn item(name: &str, groups: &[&str]) -> RosterItem {
    RosterItem {
        name: Some(name.into()),
        groups: groups.iter().map(|group| (*group).into()).collect(),
        is_listed: true,
        ..RosterItem::default()
    }
}

fn has(stanzas: &[String], parts: &[&str]) -> bool {
    stanzas.iter().any(|stanza| parts.iter().all(|part| stanza.contains(part)))
}

const BOB_SHARED: &str = "<item jid='bob@example.org' subscription='both'><group>The Office</group></item>";

#[test]
fn members_are_in_each_others_rosters_with_both_under_the_label() {
    let (mut world, [alice, bob, carol, eve]) = signed_in(vec![office()], &[]);
    assert_eq!(roster(&mut world, alice).matches("<item").count(), 1);
    assert!(roster(&mut world, alice).contains(BOB_SHARED));
    assert!(roster(&mut world, bob).contains("jid='alice@example.org' subscription='both'"));
    for other in [carol, eve] {
        assert!(!roster(&mut world, other).contains("<item"));
    }
    assert!(world.store.changes.is_empty(), "nothing of it is stored");
}

#[test]
fn a_members_own_item_keeps_its_name_and_groups_and_gets_the_label() {
    let own = RosterItem { ask: true, ..item("Bobby", &["Friends", "The Office"]) };
    let (mut world, [alice, ..]) = signed_in(vec![office()], &[("bob", own), ("eve", item("Eve", &[]))]);
    let heard = roster(&mut world, alice);
    let expected = "<item jid='bob@example.org' name='Bobby' subscription='both'>\
                    <group>Friends</group><group>The Office</group></item>";
    assert!(heard.contains(expected), "{heard}");
    assert!(heard.contains("<item jid='eve@example.org' name='Eve' subscription='none'/>"), "{heard}");
    assert_eq!(heard.matches("<item").count(), 2);
}

#[test]
fn presence_flows_both_ways_from_sign_in_to_the_end() {
    let (mut world, [alice, bob, _, eve]) = signed_in(vec![office()], &[]);
    world.say(alice, "<presence/>");
    world.hear(alice);
    world.say(bob, "<presence><show>away</show></presence>");
    assert!(has(&world.hear(bob), &["from='alice@example.org/desk'"]), "a probe is answered");
    assert!(has(&world.hear(alice), &["from='bob@example.org/desk'", "<show>away</show>"]));
    assert!(world.hear(eve).is_empty());
    world.say(eve, "<presence to='alice@example.org' type='probe'/>");
    assert!(world.hear(eve).is_empty(), "no group is shared with Eve");
    world.tell(|host, now, out| host.handle_gone(now, edge(bob), true, out));
    assert!(has(&world.hear(alice), &["from='bob@example.org/desk'", "type='unavailable'"]));
}

#[test]
fn changes_to_a_shared_contact_are_stored_without_the_label() {
    let (mut world, [alice, ..]) = world(vec![office()]);
    let before = version(&roster(&mut world, alice));
    let heard = set(
        &mut world,
        alice,
        "<item jid='bob@example.org' name='Bobby'><group>Friends</group><group>The Office</group></item>",
    );
    let shown = "name='Bobby' subscription='both'><group>Friends</group><group>The Office</group></item>";
    assert!(heard.len() == 2 && heard[0].contains(shown), "{heard:?}");
    assert_ne!(version(&heard[0]), before);
    let Change::Roster { item: Some(item), .. } = &world.store.changes[0] else { panic!() };
    assert_eq!((&item.groups[..], item.subscription), (&["Friends".into()][..], Subscription::None));
    let current = version(&heard[0]);
    assert!(!roster_since(&mut world, alice, &current).contains("query"), "the push had the version");
}

#[test]
fn a_shared_contact_that_is_removed_comes_back_and_its_presence_goes_on() {
    for own in [false, true] {
        let items = [("bob", RosterItem { subscription: Subscription::Both, ..item("Bobby", &[]) })];
        let items = if own { &items[..] } else { &[] };
        let (mut world, [alice, bob, ..]) = signed_in(vec![office()], items);
        for client in [alice, bob] {
            roster(&mut world, client);
            world.say(client, "<presence/>");
        }
        world.got.clear();
        let heard = set(&mut world, alice, "<item jid='bob@example.org' subscription='remove'/>");
        assert!(heard.len() == 2 && heard[0].contains(BOB_SHARED), "{own}: {heard:?}");
        assert!(heard[1].contains("type='result'"), "{own}: {heard:?}");
        assert!(!has(&world.hear(bob), &["unavailable"]), "{own}");
        assert_eq!(world.store.changes.len(), usize::from(own), "only what was stored is removed");
        world.say(alice, "<presence><show>dnd</show></presence>");
        assert!(has(&world.hear(bob), &["<show>dnd</show>"]), "{own}");
    }
    let (mut world, [alice, ..]) = world(vec![office()]);
    let heard = set(&mut world, alice, "<item jid='eve@example.org' subscription='remove'/>");
    assert!(heard[0].contains("item-not-found"), "{heard:?}");
}

#[test]
fn subscriptions_of_a_group_are_neither_asked_for_nor_ended_by_stanzas() {
    let (mut world, [alice, bob, ..]) = world(vec![office()]);
    for kind in ["subscribe", "unsubscribe", "unsubscribed"] {
        world.say(alice, &format!("<presence to='bob@example.org' type='{kind}'/>"));
        let heard = world.hear(alice);
        assert!(heard.len() == 1 && heard[0].contains(BOB_SHARED), "{kind}: {heard:?}");
        assert!(world.hear(bob).is_empty(), "{kind}");
    }
    assert!(world.store.changes.is_empty());
    // A host that does not know the group yet, or another server in its place.
    world.arrive("<presence from='bob@example.org' to='alice@example.org' type='subscribe'/>");
    let heard = world.hear(bob);
    assert!(has(&heard, &["from='alice@example.org/desk'"]), "the request was granted: {heard:?}");
    for kind in ["unsubscribe", "unsubscribed"] {
        world.arrive(&format!("<presence from='bob@example.org' to='alice@example.org' type='{kind}'/>"));
        assert!(world.hear(alice).is_empty(), "{kind}");
    }
    world.say(alice, "<presence><show>dnd</show></presence>");
    world.say(bob, "<presence><show>xa</show></presence>");
    assert!(has(&world.hear(bob), &["<show>dnd</show>"]));
    assert!(has(&world.hear(alice), &["<show>xa</show>"]));
}

#[test]
fn the_end_of_an_own_subscription_beside_a_shared_one_is_stored_and_hides_nothing() {
    let (mut world, alice, bob) = with_own_contact();
    world.say(alice, "<presence to='bob@example.org' type='unsubscribed'/>");
    assert!(has(&world.hear(alice), &["name='Bobby' subscription='both'"]));
    assert!(world.hear(bob).is_empty());
    let Change::Roster { item: Some(item), .. } = &world.store.changes[0] else { panic!() };
    assert_eq!(item.subscription, Subscription::To);
    world.arrive("<presence from='bob@example.org' to='alice@example.org' type='unsubscribed'/>");
    assert!(!has(&world.hear(alice), &["type='unsubscribed'"]), "the user goes on to see Bob");
}

#[test]
fn a_group_that_is_shown_to_another_is_seen_one_way() {
    let support = group("support", "Help", &["carol"], &["support", OFFICE]);
    let (mut world, [alice, _, carol, eve]) = world(vec![office(), support]);
    let heard = roster(&mut world, alice);
    assert!(heard.contains("<item jid='carol@example.org' subscription='to'><group>Help</group></item>"));
    assert!(!roster(&mut world, carol).contains("<item"), "viewers of a group are not in its roster");
    world.say(carol, "<presence><show>chat</show></presence>");
    assert!(has(&world.hear(alice), &["from='carol@example.org/desk'", "<show>chat</show>"]));
    world.say(alice, "<presence><show>dnd</show></presence>");
    assert!(!has(&world.hear(carol), &["dnd"]));
    world.say(carol, "<presence to='alice@example.org' type='probe'/>");
    assert!(world.hear(carol).is_empty());
    assert!(world.hear(eve).is_empty());
}

#[test]
fn a_client_with_the_current_version_gets_nothing_and_with_one_of_other_groups_the_roster() {
    let (mut world, [alice, _, _, eve]) = signed_in(vec![office()], &[]);
    let first = version(&roster(&mut world, alice));
    assert!(!roster_since(&mut world, alice, &first).contains("query"));
    assert_eq!(
        version(&roster(&mut world, eve)),
        "0",
        "accounts in no group have the version of their own roster"
    );
    reload(&mut world, vec![group(OFFICE, "The Office", &["alice", "bob", "carol"], &[OFFICE])]);
    let heard = roster_since(&mut world, alice, &first);
    assert!(heard.contains("carol@example.org") && version(&heard) != first, "{heard}");
    // The same groups in a process that is started again, or at another node.
    let again = SharedGroups::new(vec![office()]);
    assert_eq!(first, format!("0-{:016x}", again.version(&bare("alice")).unwrap()));
    reload(&mut world, Vec::new());
    assert!(!roster_since(&mut world, alice, &first).contains("<item"));
}

#[test]
fn other_groups_are_pushed_to_clients_and_presence_begins_and_ends() {
    let (mut world, [alice, bob, carol, eve]) = world(vec![office()]);
    reload(&mut world, vec![group(OFFICE, "Staff", &["alice", "carol"], &[OFFICE])]);
    let heard = world.hear(alice);
    let pushes: Vec<&String> = heard.iter().filter(|stanza| stanza.contains("jabber:iq:roster")).collect();
    assert_eq!(pushes.len(), 2, "{heard:?}");
    assert!(pushes[0].contains("<item jid='bob@example.org' subscription='remove'/>"));
    assert!(pushes[1].contains("jid='carol@example.org' subscription='both'><group>Staff</group>"));
    assert_eq!(version(pushes[0]), "", "a client that is lost here has no version");
    assert!(has(&heard, &["from='carol@example.org/desk'"]));
    let heard = world.hear(bob);
    assert!(has(&heard, &["jid='alice@example.org' subscription='remove'"]), "{heard:?}");
    assert!(has(&heard, &["from='alice@example.org/desk'", "type='unavailable'"]), "{heard:?}");
    let heard = world.hear(carol);
    assert!(has(&heard, &["jid='alice@example.org' subscription='both'"]), "{heard:?}");
    assert!(has(&heard, &["<presence", "from='alice@example.org/desk'"]), "{heard:?}");
    assert!(world.hear(eve).is_empty());
    let last = roster(&mut world, alice);
    assert!(!roster_since(&mut world, alice, &version(&last)).contains("query"));
    // The same groups again: nothing has changed.
    reload(&mut world, vec![group(OFFICE, "Staff", &["carol", "alice", "alice"], &[OFFICE])]);
    assert!(world.got.is_empty(), "{:?}", world.got);
}

#[test]
fn a_contact_of_its_own_keeps_its_subscription_when_the_group_ends() {
    let (mut world, alice, bob) = with_own_contact();
    reload(&mut world, Vec::new());
    let heard = world.hear(alice);
    assert!(has(&heard, &["<item jid='bob@example.org' name='Bobby' subscription='both'/>"]), "{heard:?}");
    assert!(!has(&world.hear(bob), &["from='alice@example.org/desk'", "unavailable"]));
}

#[test]
fn a_change_of_too_many_contacts_waits_for_the_next_roster_get() {
    let (mut world, [alice, bob, ..]) = world(vec![office()]);
    let mut large = office();
    let more = (0..=crate::limits::GROUP_CHANGES).map(|n| bare(&format!("m{n}")));
    large.members.extend(more);
    reload(&mut world, vec![large]);
    assert!(world.got.is_empty());
    let heard = set(&mut world, alice, "<item jid='eve@example.org'/>");
    assert_eq!(version(&heard[0]), "", "the client has no version that is whole: {heard:?}");
    let whole = roster(&mut world, alice);
    assert_eq!(whole.matches("<item").count(), crate::limits::GROUP_CHANGES + 3);
    let heard = set(&mut world, alice, "<item jid='eve@example.org' name='Eve'/>");
    assert!(version(&heard[0]).starts_with("2-"), "{heard:?}");
    world.hear(bob);
}

#[test]
fn a_large_change_is_told_some_accounts_at_a_time() {
    let names: Vec<String> = (0..60).map(|n| format!("m{n}")).collect();
    let mut world = HostWorld::new(
        &names
            .iter()
            .map(|name| format!("{name}@example.org"))
            .collect::<Vec<_>>()
            .iter()
            .map(|name| &**name)
            .collect::<Vec<_>>(),
    );
    let clients: Vec<u64> =
        names.iter().map(|name| world.sign_in(&format!("{name}@example.org/desk"))).collect();
    for client in &clients {
        roster(&mut world, *client);
        world.say(*client, "<presence/>");
    }
    world.got.clear();
    let settings = world.host.settings().clone();
    let members: Vec<&str> = names.iter().map(|name| &**name).collect();
    let groups = Arc::new(SharedGroups::new(vec![group("all", "All", &members, &["all"])]));
    world.host.reload(Arc::new(HostSettings { groups, ..settings }));
    let mut parts = 0;
    // The pause between two parts.
    let pause = Duration::from_millis(20);
    while world.host.deadline().is_some_and(|at| at <= world.now + pause) {
        world.wait(pause);
        parts += 1;
    }
    // Data that are read again come one account after the other anyway.
    assert!(parts > 1 || HAS_NO_ROSTERS);
    for client in clients {
        let heard = world.hear(client);
        assert_eq!(heard.iter().filter(|stanza| stanza.contains("<item")).count(), 59, "{heard:?}");
    }
}

#[test]
fn a_blocked_member_sees_nothing() {
    let (mut world, [alice, bob, ..]) = world(vec![office()]);
    let change = |name: &str| {
        format!(
            "<iq type='set' id='b'><{name} xmlns='urn:xmpp:blocking'><item jid='bob@example.org'/></{name}></iq>"
        )
    };
    world.say(alice, &change("block"));
    assert!(has(&world.hear(bob), &["from='alice@example.org/desk'", "type='unavailable'"]));
    world.say(alice, "<presence><show>dnd</show></presence>");
    world.say(bob, "<presence><show>xa</show></presence>");
    world.say(bob, "<presence to='alice@example.org' type='probe'/>");
    assert!(!has(&world.hear(bob), &["from='alice@example.org"]));
    assert!(!has(&world.hear(alice), &["<show>xa</show>"]));
    reload(&mut world, vec![SharedGroup { label: "Staff".into(), ..office() }]);
    assert!(!has(&world.hear(bob), &["<presence"]));
    world.say(alice, &change("unblock"));
    assert!(has(&world.hear(bob), &["from='alice@example.org/desk'", "<show>dnd</show>"]));
    assert!(has(&world.hear(alice), &["from='bob@example.org/desk'", "<show>xa</show>"]));
}

#[test]
fn nodes_for_subscribers_and_for_groups_of_the_roster_are_open_to_members() {
    let (mut world, [alice, bob, _, eve]) = world(vec![office()]);
    let field = |var: &str, value: &str| format!("<field var='pubsub#{var}'><value>{value}</value></field>");
    for (node, options) in [
        ("urn:p", field("access_model", "presence")),
        ("urn:g", field("access_model", "roster") + &field("roster_groups_allowed", "The Office")),
        ("urn:h", field("access_model", "roster") + &field("roster_groups_allowed", "Another")),
    ] {
        let form = field("FORM_TYPE", "")
            .replace("pubsub#FORM_TYPE", "FORM_TYPE")
            .replace("<value></value>", "<value>http://jabber.org/protocol/pubsub#publish-options</value>");
        world.say(
            alice,
            &format!(
                "<iq type='set' id='p'><pubsub xmlns='http://jabber.org/protocol/pubsub'><publish node='{node}'>\
                 <item id='a'><t xmlns='urn:t'/></item></publish><publish-options>\
                 <x xmlns='jabber:x:data' type='submit'>{form}{options}</x></publish-options></pubsub></iq>"
            ),
        );
        let heard = world.hear(alice);
        assert!(has(&heard, &["type='result'"]), "{node}: {heard:?}");
        for (client, may) in [(bob, node != "urn:h"), (eve, false)] {
            world.hear(client);
            world.say(client, &format!("<iq type='get' id='g' to='alice@example.org'><pubsub xmlns='http://jabber.org/protocol/pubsub'><items node='{node}'/></pubsub></iq>"));
            let heard = world.hear(client);
            assert_eq!(has(&heard, &["type='result'", "urn:t"]), may, "{node} {client}: {heard:?}");
        }
    }
}

#[test]
fn archives_of_contacts_keep_messages_with_members() {
    let (mut world, [alice, ..]) = world(vec![office()]);
    world.say(
        alice,
        "<iq type='set' id='p'><prefs xmlns='urn:xmpp:mam:2' default='roster'><always/><never/></prefs></iq>",
    );
    world.store.changes.clear();
    for to in ["bob", "eve"] {
        world.say(alice, &format!("<message to='{to}@example.org' type='chat'><body>{to}</body></message>"));
    }
    let kept = world.store.changes.iter().filter_map(|change| match change {
        Change::Archive { owner, stanza, .. } if *owner == bare("alice") => {
            stanza.attr("to").map(String::from)
        }
        _ => None,
    });
    assert_eq!(kept.collect::<Vec<_>>(), ["bob@example.org"]);
}

#[test]
fn members_see_the_end_of_an_account_that_is_removed() {
    let (mut world, [_, bob, ..]) = world(vec![office()]);
    world.store.users.remove(&bare("alice"));
    world.tell(|host, now, out| {
        host.end_account(now, &bare("alice"), crate::SessionEndReason::Removed, &[], out);
    });
    assert!(has(&world.hear(bob), &["from='alice@example.org/desk'", "type='unavailable'"]));
}

#[test]
fn a_sign_in_in_a_large_group_costs_one_presence_and_one_probe_for_each_other_member() {
    let mut large = office();
    large.members.extend((0..9_998).map(|n| bare(&format!("m{n}"))));
    let (mut world, [alice, ..]) = signed_in(vec![large], &[]);
    let mut out = Outbox::new();
    let presence = Element::new("presence", ns::CLIENT).with("from", "alice@example.org/desk");
    world.host.handle_stanza(world.now, edge(alice), presence, &mut out);
    if HAS_NO_ROSTERS {
        // The account's data are read again first.
        return;
    }
    let sent = out.iter().filter(|effect| matches!(effect, Effect::Route(_))).count();
    assert_eq!(sent, 2 * 9_999);
    assert!(out.len() < sent + 10, "{}", out.len());
}

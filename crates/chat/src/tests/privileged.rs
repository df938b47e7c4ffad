//! Privileged components (XEP-0356): what `gate.example.org` may do for accounts, and what it may not.

use privilege::{PresenceAccess, Privileges, RequestAccess};

use super::effect::{RosterItem, Subscription};
use super::*;

const ALICE: &str = "alice@example.org";
const BOB: &str = "bob@example.org";
const GATE: &str = "gate.example.org";
const BOTH: RequestAccess = RequestAccess { get: true, set: true };

fn all() -> Privileges {
    Privileges {
        component: GATE.into(),
        roster: BOTH,
        roster_pushes: true,
        messages: true,
        presence: PresenceAccess::Roster,
        requests: vec![("http://jabber.org/protocol/pubsub".into(), BOTH), ("urn:x".into(), BOTH)],
        delegations: Vec::new(),
    }
}

/// Alice knows `romeo@example.net` and sees his presence.
fn world(privileges: Privileges) -> HostWorld {
    let mut world = HostWorld::new(&[ALICE, BOB]);
    let settings = world.host.settings().clone();
    world.host.reload(Arc::new(HostSettings { privileges: vec![privileges], ..settings }));
    let item = RosterItem { subscription: Subscription::To, is_listed: true, ..RosterItem::default() };
    let alice = world.store.users.get_mut(&Bare::parse(ALICE).unwrap()).unwrap();
    alice.roster.push((Bare::parse("romeo@example.net").unwrap(), item));
    world
}

/// An iq of the component to an account, and the answer.
fn ask(world: &mut HostWorld, from: &str, to: &str, kind: &str, payload: &str) -> String {
    world.arrive(&format!("<iq type='{kind}' id='o' from='{from}' to='{to}'>{payload}</iq>"));
    let sent = world.sent_abroad();
    let is_answer = |stanza: &&String| stanza.starts_with("<iq") && stanza.contains("id='o'");
    sent.iter().find(is_answer).unwrap_or_else(|| panic!("no answer to {payload}: {sent:?}")).clone()
}

fn wrapped(kind: &str, attributes: &str, payload: &str) -> String {
    format!(
        "<privileged_iq xmlns='urn:xmpp:privilege:2'><iq xmlns='jabber:client' type='{kind}' id='i'{attributes}>\
         {payload}</iq></privileged_iq>"
    )
}

/// A message in the name of an account, as the shard of the component's connection passes it on to the account.
fn send(world: &mut HostWorld, to: &str, inside: &str) -> Vec<String> {
    world.arrive(&format!(
        "<message id='m' from='{GATE}' to='{to}'><privilege xmlns='urn:xmpp:privilege:2'>\
         <forwarded xmlns='urn:xmpp:forward:0'>{inside}</forwarded></privilege></message>"
    ));
    world.sent_abroad()
}

fn text(from: &str, to: &str) -> String {
    format!(
        "<message xmlns='jabber:client' type='chat' id='t' from='{from}' to='{to}'><body>hi</body></message>"
    )
}

const GET: &str = "<query xmlns='jabber:iq:roster'/>";

#[test]
fn a_component_reads_a_roster_if_it_may() {
    let mut world = world(all());
    let answer = ask(&mut world, GATE, ALICE, "get", GET);
    assert!(answer.contains("type='result'") && answer.contains("jid='romeo@example.net'"), "{answer}");
    assert!(
        answer.contains("from='alice@example.org'") && answer.contains("to='gate.example.org'"),
        "{answer}"
    );
    // §4.3: "MUST return a <forbidden/> error if it is not the case".
    for roster in ["none", "set"] {
        let roster = RequestAccess::parse(roster).unwrap();
        let mut world = self::world(Privileges { roster, presence: PresenceAccess::None, ..all() });
        let answer = ask(&mut world, GATE, ALICE, "get", GET);
        assert!(answer.contains("type='error'") && answer.contains("<forbidden "), "{answer}");
    }
}

#[test]
fn no_other_entity_reads_a_roster() {
    let mut world = world(all());
    // Of another component, of another server, of an address of the component that is not the component.
    for from in ["other.example.org", "example.net", "eve@gate.example.org"] {
        let answer = ask(&mut world, from, ALICE, "get", GET);
        assert!(answer.contains("type='error'") && !answer.contains("romeo"), "{from}: {answer}");
    }
    let bob = world.sign_in("bob@example.org/phone");
    world.say(bob, &format!("<iq type='get' id='q' to='{ALICE}'>{GET}</iq>"));
    let heard = world.hear(bob).concat();
    assert!(heard.contains("type='error'") && !heard.contains("romeo"), "{heard}");
    // An account that there is not.
    let answer = ask(&mut world, GATE, "carol@example.org", "get", GET);
    assert!(answer.contains("type='error'"), "{answer}");
}

#[test]
fn a_component_sets_its_contacts_with_their_subscriptions() {
    let mut world = world(all());
    let alice = world.sign_in("alice@example.org/desk");
    world.say(alice, &format!("<iq type='get' id='r'>{GET}</iq>"));
    world.say(alice, "<presence/>");
    world.hear(alice);
    world.sent_abroad();
    let item = "<query xmlns='jabber:iq:roster'><item jid='pal@gate.example.org' name='Pal' subscription='both'>\
                <group>Gate</group></item></query>";
    world.arrive(&format!("<iq type='set' id='o' from='{GATE}' to='{ALICE}'>{item}</iq>"));
    let sent = world.sent_abroad();
    let has = |what: &[&str]| {
        assert!(
            sent.iter().any(|stanza| what.iter().all(|what| stanza.contains(what))),
            "{what:?}: {sent:?}"
        );
    };
    has(&["<iq", "type='result'", "id='o'"]);
    // The contact sees Alice from now on and is asked for its presence; the component gets the push, too (§4.4).
    has(&["<presence", "to='pal@gate.example.org'", "from='alice@example.org/desk'"]);
    has(&["<presence", "type='probe'", "to='pal@gate.example.org'"]);
    has(&[
        "<iq",
        "type='set'",
        "from='alice@example.org'",
        "to='gate.example.org'",
        "jid='pal@gate.example.org'",
    ]);
    let push = world.hear(alice).concat();
    assert!(push.contains("jid='pal@gate.example.org'") && push.contains("subscription='both'"), "{push}");
    // Taken back.
    let item =
        "<query xmlns='jabber:iq:roster'><item jid='pal@gate.example.org' subscription='none'/></query>";
    let answer = ask(&mut world, GATE, ALICE, "set", item);
    assert!(answer.contains("type='result'"), "{answer}");
    let item =
        "<query xmlns='jabber:iq:roster'><item jid='pal@gate.example.org' subscription='remove'/></query>";
    let answer = ask(&mut world, GATE, ALICE, "set", item);
    assert!(answer.contains("type='result'"), "{answer}");
    assert!(!ask(&mut world, GATE, ALICE, "get", GET).contains("pal@"));
}

#[test]
fn a_set_that_cannot_be_is_refused() {
    let item =
        "<query xmlns='jabber:iq:roster'><item jid='pal@gate.example.org' subscription='all'/></query>";
    let mut world = world(all());
    let answer = ask(&mut world, GATE, ALICE, "set", item);
    assert!(answer.contains("<bad-request "), "{answer}");
    // One item (RFC 6121 §2.1.5), and not the account itself.
    let items = "<query xmlns='jabber:iq:roster'><item jid='a@b'/><item jid='c@d'/></query>";
    assert!(ask(&mut world, GATE, ALICE, "set", items).contains("<bad-request "));
    let own = "<query xmlns='jabber:iq:roster'><item jid='alice@example.org'/></query>";
    assert!(ask(&mut world, GATE, ALICE, "set", own).contains("<not-allowed "));
    let mut world = self::world(Privileges { roster: RequestAccess { get: true, set: false }, ..all() });
    assert!(ask(&mut world, GATE, ALICE, "set", item).contains("<forbidden "));
}

#[test]
fn a_client_sets_no_subscription() {
    let mut world = world(all());
    let alice = world.sign_in("alice@example.org/desk");
    world.say(
        alice,
        "<iq type='set' id='q'><query xmlns='jabber:iq:roster'><item jid='pal@gate.example.org' subscription='both'/></query></iq>",
    );
    let sent = world.sent_abroad().concat();
    assert!(sent.contains("subscription='none'") && !sent.contains("subscription='both'"), "{sent}");
}

#[test]
fn pushes_go_to_components_that_may_read_and_want_them() {
    let set = "<query xmlns='jabber:iq:roster'><item jid='pal@example.net'/></query>";
    for (roster, roster_pushes, is_pushed) in
        [("both", true, true), ("get", true, true), ("set", true, false), ("both", false, false)]
    {
        let roster = RequestAccess::parse(roster).unwrap();
        let mut world = world(Privileges { roster, roster_pushes, presence: PresenceAccess::None, ..all() });
        let alice = world.sign_in("alice@example.org/desk");
        world.say(alice, &format!("<iq type='set' id='q'>{set}</iq>"));
        let sent = world.sent_abroad().concat();
        assert_eq!(sent.contains("pal@example.net"), is_pushed, "{roster:?} {roster_pushes}: {sent}");
    }
}

#[test]
fn a_message_in_an_accounts_name_is_as_one_of_its_sessions() {
    let mut world = world(all());
    let alice = world.sign_in("alice@example.org/desk");
    world.say(alice, "<iq type='set' id='c'><enable xmlns='urn:xmpp:carbons:2'/></iq>");
    let bob = world.sign_in("bob@example.org/phone");
    world.say(bob, "<presence/>");
    world.hear(alice);
    world.hear(bob);
    world.sent_abroad();
    assert!(send(&mut world, ALICE, &text(ALICE, BOB)).is_empty());
    let heard = world.hear(bob).concat();
    assert!(heard.contains("from='alice@example.org'") && heard.contains("<body>hi</body>"), "{heard}");
    assert!(!heard.contains("privilege"), "{heard}");
    // Alice's client has a copy with the id of the archive, as of a message that another client of hers has sent.
    let copy = world.hear(alice).concat();
    assert!(copy.contains("<sent xmlns='urn:xmpp:carbons:2'>") && copy.contains("<stanza-id "), "{copy}");
    let archived =
        |change: &&Change| matches!(change, Change::Archive { owner, .. } if owner.as_str() == ALICE);
    assert_eq!(world.store.changes.iter().filter(archived).count(), 1);
    // In the name of the server.
    let sent = send(&mut world, "example.org", &text("example.org", "romeo@example.net"));
    assert!(sent.concat().contains("from='example.org'"), "{sent:?}");
}

#[test]
fn messages_that_may_not_be_sent_are_refused_and_not_sent() {
    let refused = |world: &mut HostWorld, to: &str, inside: &str, condition: &str| {
        let sent = send(world, to, inside);
        assert_eq!(sent.len(), 1, "{inside}: {sent:?}");
        let has = |what: &str| assert!(sent[0].contains(what), "{inside}: {what}: {sent:?}");
        ["<message", "type='error'", "id='m'", "to='gate.example.org'"].into_iter().for_each(has);
        has(&format!("<{condition} "));
    };
    let mut world = world(all());
    for from in ["alice@example.org/desk", "bob@example.org", "romeo@example.net"] {
        refused(&mut world, ALICE, &text(from, "julia@example.net"), "forbidden");
    }
    refused(&mut world, ALICE, "<message xmlns='jabber:client' from='alice@example.org'/>", "bad-request");
    refused(&mut world, "example.org", &text("carol@example.org", "julia@example.net"), "forbidden");
    // An account that there is not.
    refused(
        &mut world,
        "carol@example.org",
        &text("carol@example.org", "julia@example.net"),
        "service-unavailable",
    );
    // An address that Alice has blocked.
    let alice = world.sign_in("alice@example.org/desk");
    world.say(
        alice,
        "<iq type='set' id='b'><block xmlns='urn:xmpp:blocking'><item jid='julia@example.net'/></block></iq>",
    );
    refused(&mut world, ALICE, &text(ALICE, "julia@example.net"), "not-acceptable");
    let mut world = self::world(Privileges { messages: false, ..all() });
    refused(&mut world, ALICE, &text(ALICE, "julia@example.net"), "forbidden");
    refused(&mut world, "example.org", &text("example.org", "julia@example.net"), "forbidden");
}

#[test]
fn an_entity_without_privileges_sends_nothing_for_others() {
    let mut world = world(all());
    let bob = world.sign_in("bob@example.org/phone");
    let inside = text(ALICE, "julia@example.net");
    for to in ["example.org", ALICE] {
        world.say(
            bob,
            &format!(
                "<message id='m' to='{to}'><privilege xmlns='urn:xmpp:privilege:2'>\
                 <forwarded xmlns='urn:xmpp:forward:0'>{inside}</forwarded></privilege></message>"
            ),
        );
        world.say(
            bob,
            &format!("<iq type='get' id='o' to='{ALICE}'>{}</iq>", wrapped("get", "", "<q xmlns='urn:x'/>")),
        );
        assert!(world.sent_abroad().is_empty(), "{to}");
    }
    assert!(world.hear(bob).iter().any(|stanza| stanza.contains("<service-unavailable ")));
}

#[test]
fn a_request_in_an_accounts_name_is_answered_to_the_component() {
    let mut world = world(all());
    let publish = "<pubsub xmlns='http://jabber.org/protocol/pubsub'><publish node='n'><item id='1'><x xmlns='urn:x'/></item></publish></pubsub>";
    let answer = ask(&mut world, GATE, ALICE, "set", &wrapped("set", "", publish));
    for what in ["type='result'", "from='alice@example.org'", "<forwarded ", "id='i'", "<publish node='n'>"] {
        assert!(answer.contains(what), "{what}: {answer}");
    }
    // The component cannot do more than the account, and learns why.
    let get = "<pubsub xmlns='http://jabber.org/protocol/pubsub'><items node='none'/></pubsub>";
    let own = " from='alice@example.org' to='alice@example.org'";
    let answer = ask(&mut world, GATE, ALICE, "get", &wrapped("get", own, get));
    assert_eq!(
        (answer.matches("<item-not-found ").count(), answer.contains("<privilege ")),
        (2, true),
        "{answer}"
    );
    // Nothing stays behind.
    assert_eq!(world.host.privileged.deadline().map(|at| at > world.now), Some(true));
    world.wait(Duration::from_secs(61));
    assert!(world.sent_abroad().is_empty());
    assert_eq!(world.host.privileged.deadline(), None);
}

#[test]
fn a_request_to_another_server_comes_back_or_ends_in_time() {
    let mut world = world(all());
    let request = wrapped("get", " to='room@example.net'", "<q xmlns='urn:x'/>");
    world.arrive(&format!("<iq type='get' id='o' from='{GATE}' to='{ALICE}'>{request}</iq>"));
    let sent = world.sent_abroad();
    assert!(
        sent[0].contains("from='alice@example.org'") && sent[0].contains("to='room@example.net'"),
        "{sent:?}"
    );
    let id = |sent: &str| sent.split("id='").nth(1).unwrap().split('\'').next().unwrap().to_owned();
    let id = id(&sent[0]);
    // Another server that guesses the id.
    world.arrive(&format!("<iq type='result' id='{id}' from='eve@example.net' to='{ALICE}'/>"));
    assert!(world.sent_abroad().is_empty());
    world.arrive(&format!(
        "<iq type='result' id='{id}' from='room@example.net' to='{ALICE}'><q xmlns='urn:x'/></iq>"
    ));
    let sent = world.sent_abroad().concat();
    assert!(
        sent.contains("to='gate.example.org'") && sent.contains("id='o'") && sent.contains("id='i'"),
        "{sent}"
    );
    world.arrive(&format!("<iq type='get' id='o' from='{GATE}' to='{ALICE}'>{request}</iq>"));
    world.sent_abroad();
    world.wait(Duration::from_secs(60));
    let sent = world.sent_abroad().concat();
    assert!(sent.contains("<remote-server-timeout ") && sent.contains("to='gate.example.org'"), "{sent}");
}

#[test]
fn requests_without_a_permission_are_refused() {
    let mut world = world(all());
    for (attributes, payload, condition) in [
        ("", "<q xmlns='urn:y'/>", "forbidden"),
        (" from='bob@example.org'", "<q xmlns='urn:x'/>", "forbidden"),
        (" from='alice@example.org/desk'", "<q xmlns='urn:x'/>", "forbidden"),
        ("", "<q xmlns='urn:x'/><q xmlns='urn:x'/>", "bad-request"),
        ("", "", "bad-request"),
    ] {
        let answer = ask(&mut world, GATE, ALICE, "get", &wrapped("get", attributes, payload));
        assert!(answer.contains(&format!("<{condition} ")) && !answer.contains("<privilege "), "{answer}");
    }
    let answer = ask(&mut world, GATE, ALICE, "get", &wrapped("set", "", "<q xmlns='urn:x'/>"));
    assert!(answer.contains("<bad-request "), "{answer}");
    let mut world = self::world(Privileges { requests: Vec::new(), ..all() });
    let answer = ask(&mut world, GATE, ALICE, "get", &wrapped("get", "", "<q xmlns='urn:x'/>"));
    assert!(answer.contains("<forbidden "), "{answer}");
}

#[test]
fn a_component_gets_the_first_presence_of_a_session_and_its_end() {
    for (presence, is_shown) in
        [(PresenceAccess::None, false), (PresenceAccess::ManagedEntity, true), (PresenceAccess::Roster, true)]
    {
        let mut world = world(Privileges { presence, ..all() });
        let alice = world.sign_in("alice@example.org/desk");
        let told = |world: &mut HostWorld| {
            let sent = world.sent_abroad();
            sent.into_iter()
                .filter(|sent| sent.contains("<presence") && sent.contains("to='gate.example.org'"))
                .count()
        };
        world.say(alice, "<presence/>");
        assert_eq!(told(&mut world), usize::from(is_shown), "{presence:?}");
        // Later presence of the same session is no news (0.4: "only initial").
        world.say(alice, "<presence><show>away</show></presence>");
        assert_eq!(told(&mut world), 0);
        world.say(alice, "<presence type='unavailable'/>");
        assert_eq!(told(&mut world), usize::from(is_shown), "{presence:?}");
        // Directed presence is for its addressee.
        world.say(alice, "<presence to='romeo@example.net'/>");
        assert_eq!(told(&mut world), 0);
    }
}

#[test]
fn presence_of_contacts_is_for_components_that_get_rosters_and_comes_once() {
    for (presence, is_shown) in [(PresenceAccess::ManagedEntity, false), (PresenceAccess::Roster, true)] {
        let mut world = world(Privileges { presence, ..all() });
        let arrive = |world: &mut HostWorld, attributes: &str| {
            world.arrive(&format!("<presence from='romeo@example.net/orchard' to='{ALICE}'{attributes}/>"));
            let sent = world.sent_abroad();
            sent.iter().filter(|sent| sent.contains("to='gate.example.org'")).count()
        };
        // §6.3: also while the account has no session.
        assert_eq!(arrive(&mut world, ""), usize::from(is_shown));
        // §8: once.
        assert_eq!(arrive(&mut world, ""), 0);
        assert_eq!(arrive(&mut world, " type='unavailable'"), usize::from(is_shown));
        // Of no contact: nothing.
        world.arrive(&format!("<presence from='eve@example.net/den' to='{ALICE}'/>"));
        assert!(!world.sent_abroad().concat().contains("to='gate.example.org'"));
        // §6.1: no other type of presence.
        world.arrive(&format!("<presence type='subscribe' from='romeo@example.net' to='{ALICE}'/>"));
        assert!(!world.sent_abroad().concat().contains("to='gate.example.org'"));
    }
}

#[test]
fn a_component_that_connects_later_gets_the_presence_that_there_is() {
    let mut world = world(all());
    let settings = world.host.settings().clone();
    let sessions = SessionLimit { most: 1_000, ends_oldest: false };
    world.host.reload(Arc::new(HostSettings { sessions, ..settings }));
    let count = crate::limits::COMPONENT_PRESENCES + 1;
    for number in 0..count {
        let bob = world.sign_in(&format!("bob@example.org/{number}"));
        world.say(bob, "<presence/>");
        if number % 50 == 0 {
            // A session that is not available.
            world.sign_in(&format!("alice@example.org/{number}"));
        }
    }
    world.sent_abroad();
    world.tell(|host, now, _| host.components().handle_attached(now, GATE));
    let mut shown = Vec::new();
    for _ in 0..5 {
        world.wait(Duration::from_millis(20));
        shown.push(world.sent_abroad().len());
    }
    assert_eq!(shown.iter().sum::<usize>(), count, "{shown:?}");
    assert!(shown[0] <= crate::limits::COMPONENT_PRESENCES, "{shown:?}");
    assert_eq!(world.host.privileged.deadline(), None);
    // A component without the permission gets nothing.
    world.tell(|host, now, _| host.components().handle_attached(now, "other.example.org"));
    assert_eq!(world.host.privileged.deadline(), None);
}

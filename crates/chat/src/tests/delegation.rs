//! Namespaces that the component `gate.example.org` answers in place of the server (XEP-0355).

use privilege::{Delegation, Privileges};

use super::*;

const ALICE: &str = "alice@example.org";
const GATE: &str = "gate.example.org";

fn world() -> HostWorld {
    let delegation = |namespace: &str, attributes: &[&str]| Delegation {
        namespace: namespace.into(),
        attributes: attributes.iter().map(|name| (*name).into()).collect(),
    };
    let privileges = Privileges {
        component: GATE.into(),
        delegations: vec![delegation("urn:x", &[]), delegation("jabber:iq:private", &["node"])],
        ..Privileges::default()
    };
    let mut world = HostWorld::new(&[ALICE, "bob@example.org"]);
    let settings = world.host.settings().clone();
    world.host.reload(Arc::new(HostSettings { privileges: vec![privileges], ..settings }));
    world
}

/// The request that went to the component, and its id.
fn forwarded(world: &mut HostWorld) -> (String, String) {
    let sent = world.sent_abroad();
    let [request] = &sent[..] else { panic!("{sent:?}") };
    assert!(request.starts_with("<iq") && request.contains("to='gate.example.org'"), "{request}");
    let id = request.split("id='delegation:").nth(1).unwrap().split('\'').next().unwrap();
    (request.clone(), format!("delegation:{id}"))
}

/// The component's answer, as the shard of its connection passes it on to the account or domain that was asked.
fn answer(world: &mut HostWorld, id: &str, to: &str, kind: &str, inside: &str) {
    world.arrive(&format!(
        "<iq type='{kind}' id='{id}' from='{GATE}' to='{to}'><delegation xmlns='urn:xmpp:delegation:2'>\
         <forwarded xmlns='urn:xmpp:forward:0'>{inside}</forwarded></delegation></iq>"
    ));
}

#[test]
fn a_request_of_a_delegated_namespace_is_answered_by_the_component() {
    let mut world = world();
    let alice = world.sign_in("alice@example.org/desk");
    for (to, asked, from) in [
        ("", ALICE, ""),
        (" to='alice@example.org'", ALICE, " from='alice@example.org'"),
        (" to='bob@example.org'", "bob@example.org", " from='bob@example.org'"),
        (" to='example.org'", "example.org", ""),
    ] {
        world.say(alice, &format!("<iq type='get' id='q'{to}><query xmlns='urn:x' node='n'/></iq>"));
        let (request, id) = forwarded(&mut world);
        assert!(request.contains("from='example.org'") && request.contains("type='set'"), "{request}");
        let inside = "<delegation xmlns='urn:xmpp:delegation:2'><forwarded xmlns='urn:xmpp:forward:0'>";
        assert!(request.contains(inside) && request.contains("from='alice@example.org/desk'"), "{request}");
        assert!(id.ends_with(&format!(":{asked}")), "{id}");
        assert_eq!(world.hear(alice).concat(), "");
        let inner = format!(
            "<iq xmlns='jabber:client' type='result' id='q'{from} to='alice@example.org/desk'><query xmlns='urn:x'>!</query></iq>"
        );
        answer(&mut world, &id, asked, "result", &inner);
        let heard = world.hear(alice).concat();
        assert!(
            heard.contains("type='result'") && heard.contains("id='q'") && heard.contains('!'),
            "{to}: {heard}"
        );
    }
}

#[test]
fn the_server_answers_requests_outside_the_filter_and_of_the_component() {
    let mut world = world();
    let alice = world.sign_in("alice@example.org/desk");
    world
        .say(alice, "<iq type='get' id='q'><query xmlns='jabber:iq:private'><x xmlns='urn:y'/></query></iq>");
    let heard = world.hear(alice).concat();
    assert!(heard.contains("type='result'"), "without the attribute: {heard}");
    assert_eq!(world.sent_abroad(), [""; 0]);
    world.say(
        alice,
        "<iq type='get' id='q'><query xmlns='jabber:iq:private' node='n'><x xmlns='urn:y'/></query></iq>",
    );
    forwarded(&mut world);
    world
        .arrive(&format!("<iq type='get' id='o' from='{GATE}' to='example.org'><query xmlns='urn:x'/></iq>"));
    let sent = world.sent_abroad().concat();
    assert!(sent.contains("id='o'") && sent.contains("<service-unavailable "), "{sent}");
}

#[test]
fn a_stranger_cannot_answer_for_the_component() {
    let mut world = world();
    let alice = world.sign_in("alice@example.org/desk");
    world.say(alice, "<iq type='get' id='q'><query xmlns='urn:x'/></iq>");
    let (_, id) = forwarded(&mut world);
    let inner = "<iq xmlns='jabber:client' type='result' id='q' to='alice@example.org/desk'/>";
    for from in ["example.net", "other.example.org", "eve@gate.example.org"] {
        world.arrive(&format!(
            "<iq type='result' id='{id}' from='{from}' to='{ALICE}'><delegation xmlns='urn:xmpp:delegation:2'>\
             <forwarded xmlns='urn:xmpp:forward:0'>{inner}</forwarded></delegation></iq>"
        ));
    }
    assert_eq!(world.hear(alice).concat(), "");
    answer(&mut world, &id, ALICE, "error", "");
    let heard = world.hear(alice).concat();
    assert!(heard.contains("type='error'") && heard.contains("<service-unavailable "), "{heard}");
}

#[test]
fn delegated_namespaces_are_features() {
    let mut world = world();
    let alice = world.sign_in("alice@example.org/desk");
    for to in ["example.org", ALICE] {
        world.say(
            alice,
            &format!(
                "<iq type='get' id='q' to='{to}'><query xmlns='http://jabber.org/protocol/disco#info'/></iq>"
            ),
        );
        let heard = world.hear(alice).concat();
        for var in ["urn:xmpp:delegation:2", "urn:x"] {
            assert_eq!(heard.matches(&format!("<feature var='{var}'/>")).count(), 1, "{to}: {heard}");
        }
    }
}

/// Answers the questions of the server about the features of delegated namespaces; returns their nodes.
fn answer_questions(world: &mut HostWorld, answer: impl Fn(&str) -> String) -> Vec<String> {
    let mut nodes = Vec::new();
    loop {
        world.tell(|host, now, out| host.expire(now, out));
        let sent = world.sent_abroad();
        let [question] = &sent[..] else { return nodes };
        assert!(question.contains("from='example.org' to='gate.example.org'"), "{question}");
        let of = |name: &str| {
            question.split(&format!(" {name}='")).nth(1).unwrap().split('\'').next().unwrap().to_owned()
        };
        let (id, node) = (of("id"), of("node"));
        let query = format!(
            "<query xmlns='http://jabber.org/protocol/disco#info' node='{node}'>{}</query>",
            answer(&node)
        );
        let answer = format!("<iq type='result' id='{id}' from='{GATE}' to='example.org'>{query}</iq>");
        let answer = parse(&answer);
        assert!(privilege::asker_of_answer(&answer).is_some());
        world.tell(|host, now, _| host.components().handle_nested_answer(now, &answer));
        nodes.push(node);
    }
}

fn parse(text: &str) -> Element {
    xmpp::xml::parse(text.as_bytes(), &xmpp::xml::Prefixes::of_default(ns::CLIENT)).unwrap()
}

/// The description of an address.
fn described(world: &mut HostWorld, client: u64, to: &str) -> String {
    world.say(
        client,
        &format!(
            "<iq type='get' id='q' to='{to}'><query xmlns='http://jabber.org/protocol/disco#info'/></iq>"
        ),
    );
    world.hear(client).concat()
}

#[test]
fn features_of_the_component_are_among_those_of_the_server_and_of_accounts_while_it_is_connected() {
    let mut world = world();
    let alice = world.sign_in("alice@example.org/desk");
    let before = ["example.org", ALICE].map(|to| described(&mut world, alice, to));
    world.tell(|host, now, _| host.components().handle_attached(now, GATE));
    let nodes = answer_questions(&mut world, |node| {
        let at = if node.contains(":bare:") { "account" } else { "server" };
        format!(
            "<identity category='store' type='{at}'/><feature var='urn:x#of-{at}'/><feature var='jabber:iq:private'/>"
        )
    });
    assert_eq!(
        nodes,
        [
            "urn:xmpp:delegation:2::urn:x",
            "urn:xmpp:delegation:2::jabber:iq:private",
            "urn:xmpp:delegation:2:bare:urn:x",
            "urn:xmpp:delegation:2:bare:jabber:iq:private",
        ]
    );
    for (to, own, other) in [("example.org", "server", "account"), (ALICE, "account", "server")] {
        let told = described(&mut world, alice, to);
        for part in [
            &format!("<identity category='store' type='{own}'/>"),
            &format!("<feature var='urn:x#of-{own}'/>"),
            "<feature var='urn:x'/>",
            "<feature var='jabber:iq:private'/>",
            "<feature var='urn:xmpp:delegation:2'/>",
        ] {
            assert_eq!(told.matches(part).count(), 1, "{to} {part}: {told}");
        }
        assert!(!told.contains(&format!("#of-{other}")), "{to}: {told}");
    }
    // Another component goes, then this one.
    world.tell(|host, _, _| host.components().retain(|component| component == GATE));
    assert!(described(&mut world, alice, ALICE).contains("urn:x#of-account"));
    world.tell(|host, _, _| host.components().retain(|_| false));
    for (to, before) in ["example.org", ALICE].into_iter().zip(before) {
        assert_eq!(described(&mut world, alice, to), before);
    }
}

#[test]
fn features_of_the_servers_own_give_way_to_those_of_the_component() {
    const PUBSUB: &str = "http://jabber.org/protocol/pubsub";
    let mut world = world();
    let mut settings = world.host.settings().clone();
    settings.privileges[0].delegations =
        vec![Delegation { namespace: PUBSUB.into(), attributes: vec!["node".into()] }];
    world.host.reload(Arc::new(settings));
    let alice = world.sign_in("alice@example.org/desk");
    assert!(described(&mut world, alice, ALICE).contains("pubsub#auto-create"));
    world.tell(|host, now, _| host.components().handle_attached(now, GATE));
    // It has no node for the server's own address.
    answer_questions(&mut world, |node| match node.contains(":bare:") {
        true => {
            format!("<identity category='pubsub' type='pep' name='Gate'/><feature var='{PUBSUB}#publish'/>")
        }
        false => "<feature/>".to_owned(),
    });
    let told = described(&mut world, alice, ALICE);
    assert!(told.contains("name='Gate'") && told.contains("pubsub#publish"), "{told}");
    assert_eq!(told.matches("category='pubsub'").count(), 1, "{told}");
    assert!(told.contains(&format!("<feature var='{PUBSUB}'/>")), "{told}");
    assert!(!told.contains("auto-create"), "{told}");
    // A hash would not fit for long, so stream features have none.
    assert!(crate::caps::of_server(world.host.settings()).is_none());
}

//! The service of the proxy of bytestreams; its connections are tested in the crate `bytestreams`.

use ::bytestreams::{ActivationFault, StreamHash};

use super::pubsub::ask;
use super::*;
use crate::bytestreams::BytestreamSettings;

const ALICE: &str = "alice@example.org";
const PROXY: &str = "proxy.example.org";
const NS: &str = "http://jabber.org/protocol/bytestreams";

fn world() -> (HostWorld, u64) {
    let mut world = HostWorld::new(&[ALICE]);
    let proxy = BytestreamSettings { label: "proxy".into(), host: "files.example.org".into(), port: 7777 };
    let settings = HostSettings { bytestreams: Some(proxy), ..settings() };
    world.host = Host::new(Arc::new(settings), ShardAddress::default(), [1; 32]);
    let alice = world.sign_in("alice@example.org/desk");
    (world, alice)
}

fn activate(sid: &str, target: &str) -> String {
    format!("<query xmlns='{NS}' sid='{sid}'><activate>{target}</activate></query>")
}

#[test]
fn clients_find_the_proxy_and_its_address() {
    let (mut world, alice) = world();
    let disco = |kind: &str| format!("<query xmlns='http://jabber.org/protocol/disco#{kind}'/>");
    let items = ask(&mut world, alice, "get", "example.org", &disco("items"));
    assert!(items.contains("<item jid='proxy.example.org' name='File transfer'/>"), "{items}");
    // XEP-0065 §6.1.
    let info = ask(&mut world, alice, "get", PROXY, &disco("info"));
    assert!(info.contains("<identity category='proxy' type='bytestreams' name='File transfer'/>"), "{info}");
    assert!(info.contains(&format!("<feature var='{NS}'/>")), "{info}");
    assert!(ask(&mut world, alice, "get", PROXY, &disco("items")).contains("disco#items'/>"));
    // §6.2.
    let found = ask(&mut world, alice, "get", PROXY, &format!("<query xmlns='{NS}'/>"));
    let streamhost = "<streamhost jid='proxy.example.org' host='files.example.org' port='7777'/>";
    assert!(found.contains("type='result'") && found.contains(streamhost), "{found}");
}

#[test]
fn a_transfer_is_activated_by_the_address_that_the_stanza_is_from() {
    let (mut world, alice) = world();
    let answer = ask(&mut world, alice, "set", PROXY, &activate("s", "Bob@Elsewhere.org/home"));
    assert!(answer.contains("type='result'"), "{answer}");
    let activated = world.store.loads.iter().find_map(|load| match load {
        Load::Activate(activation) => Some(activation),
        _ => None,
    });
    let activation = activated.unwrap();
    // §5.3.2: of prepared addresses.
    assert_eq!(activation.hash, StreamHash::of("s", "alice@example.org/desk", "bob@elsewhere.org/home"));
    for (fault, condition) in [
        (ActivationFault::Unknown, "item-not-found"),
        (ActivationFault::OneEnd, "not-allowed"),
        (ActivationFault::TooMany, "resource-constraint"),
    ] {
        world.store.activation = Some(fault);
        let answer = ask(&mut world, alice, "set", PROXY, &activate("s", "bob@elsewhere.org/home"));
        assert!(answer.contains(condition), "{answer}");
    }
    world.store.is_broken = true;
    let answer = ask(&mut world, alice, "set", PROXY, &activate("s", "bob@elsewhere.org/home"));
    assert!(answer.contains("type='error'"), "{answer}");
}

#[test]
fn requests_that_are_wrong_are_refused() {
    let (mut world, alice) = world();
    let long = "x".repeat(crate::limits::SID + 1);
    for payload in [
        activate("", "bob@example.org/1"),
        activate(&long, "bob@example.org/1"),
        activate("s", "@"),
        activate("s", ""),
        format!("<query xmlns='{NS}' sid='s'/>"),
        format!("<query xmlns='{NS}'><activate>bob@example.org/1</activate></query>"),
    ] {
        assert!(ask(&mut world, alice, "set", PROXY, &payload).contains("bad-request"), "{payload}");
    }
    let other = ask(&mut world, alice, "get", PROXY, "<query xmlns='jabber:iq:roster'/>");
    assert!(other.contains("service-unavailable"), "{other}");
    let account = ask(&mut world, alice, "get", "a@proxy.example.org", &format!("<query xmlns='{NS}'/>"));
    assert!(account.contains("service-unavailable"), "{account}");
    world.say(alice, "<message to='proxy.example.org'><body>hello</body></message>");
    assert!(world.hear(alice).pop().is_some_and(|answer| answer.contains("service-unavailable")));
    assert!(world.store.loads.iter().all(|load| !matches!(load, Load::Activate(_))));
}

#[test]
fn accounts_of_other_servers_use_no_proxy_of_ours() {
    let (mut world, _) = world();
    for (kind, payload) in
        [("get", format!("<query xmlns='{NS}'/>")), ("set", activate("s", "alice@example.org/desk"))]
    {
        world.arrive(&format!(
            "<iq type='{kind}' id='1' from='eve@elsewhere.org/1' to='{PROXY}'>{payload}</iq>"
        ));
        let sent = world.sent_abroad();
        assert!(sent[0].contains("forbidden"), "{sent:?}");
    }
    // Strangers may ask for its identity.
    let info = "<query xmlns='http://jabber.org/protocol/disco#info'/>";
    world.arrive(&format!("<iq type='get' id='1' from='eve@elsewhere.org/1' to='{PROXY}'>{info}</iq>"));
    assert!(world.sent_abroad()[0].contains("category='proxy'"));
}

#[test]
fn without_a_proxy_its_address_is_none_of_ours() {
    let mut world = HostWorld::new(&[ALICE]);
    let alice = world.sign_in("alice@example.org/desk");
    let items = "<query xmlns='http://jabber.org/protocol/disco#items'/>";
    assert!(!ask(&mut world, alice, "get", "example.org", items).contains("proxy"));
    assert!(!world.host.settings().is_ours(PROXY));
}

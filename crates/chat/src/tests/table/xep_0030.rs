//! XEP-0030: the answers of accounts and domains.

use super::*;

fn info(to: &str, node: &str) -> String {
    iq("get", to, &format!("<query xmlns='http://jabber.org/protocol/disco#info'{node}/>"))
}

fn items(to: &str, node: &str) -> String {
    iq("get", to, &format!("<query xmlns='http://jabber.org/protocol/disco#items'{node}/>"))
}

fn publish(node: &str) -> String {
    let item = "<item id='i'><x xmlns='urn:x'/></item>";
    let publish = format!("<publish node='{node}'>{item}</publish>");
    iq("set", ALICE, &format!("<pubsub xmlns='http://jabber.org/protocol/pubsub'>{publish}</pubsub>"))
}

const NOT_FOUND: &[&str] = &["type='error'", "<item-not-found"];

const UNAVAILABLE: &[&str] = &["type='error'", "type='cancel'", "<service-unavailable"];

#[test]
fn identities_and_features_of_an_address() {
    play(&[
        row(
            "3.1",
            "an entity MUST have an identity with category and type, and the feature disco#info: a domain",
        )
        .when("alice", info("example.org", ""))
        .told(&[
            "type='result'",
            "from='example.org'",
            "<identity category='server' type='im'",
            "<feature var='http://jabber.org/protocol/disco#info'/>",
        ]),
        row("3.1", "an account").when("alice", info(ALICE, "")).told(&[
            "type='result'",
            "<identity category='account' type='registered'/>",
            "<feature var='http://jabber.org/protocol/disco#info'/>",
        ]),
        row("3.1", "a service").when("alice", info("conference.example.org", "")).told(&[
            "type='result'",
            "<identity category='conference' type='text'",
            "<feature var='http://jabber.org/protocol/disco#info'/>",
        ]),
        row("3.2", "the answer MUST have the node of the question")
            .after("alice", publish("n"))
            .when("alice", info(ALICE, " node='n'"))
            .told(&["type='result'", "node='n'", "<identity"]),
        row("7", "a node that is not there: item-not-found")
            .when("alice", info(ALICE, " node='none'"))
            .told(NOT_FOUND),
        row("7", "nor at a domain").when("alice", info("example.org", " node='none'")).told(NOT_FOUND),
        row("7", "nor at a service")
            .when("alice", info("pubsub.example.org", " node='none'"))
            .told(NOT_FOUND),
    ]);
}

#[test]
fn items_of_an_address() {
    play(&[
        row("4.1", "each item MUST have an address").when("alice", items("example.org", "")).told(&[
            "type='result'",
            "<item jid='conference.example.org'",
            "<item jid='pubsub.example.org'",
        ]),
        row("4.1", "an entity without items MUST return an empty query")
            .when("alice", items(ALICE, ""))
            .told(&["type='result'", "<query xmlns='http://jabber.org/protocol/disco#items'/>"]),
        row("4.1", "items have the node by which they are asked about")
            .after("alice", publish("n"))
            .when("alice", items(ALICE, ""))
            .told(&["type='result'", "<item jid='alice@example.org' node='n'"]),
        row("4.2", "the answer MUST have the node of the question")
            .after("alice", publish("n"))
            .when("alice", items(ALICE, " node='n'"))
            .told(&["type='result'", "node='n'"]),
        row("7", "a node that is not there: item-not-found")
            .when("alice", items("example.org", " node='none'"))
            .told(NOT_FOUND),
    ]);
}

#[test]
fn answers_to_strangers() {
    play(&[
        row("8", "1a: disco#info of an account that is not there MUST be service-unavailable")
            .when("eve", info("ghost@example.org", ""))
            .told(UNAVAILABLE),
        row("8", "1b: of one whose presence the asking entity may not have")
            .when("eve", info(ALICE, ""))
            .told(UNAVAILABLE),
        row("8", "with a node too")
            .after("alice", publish("n"))
            .when("eve", info(ALICE, " node='n'"))
            .told(UNAVAILABLE),
        row("7", "neither not-allowed nor forbidden, which would tell that there is such an account")
            .when("eve", info(ALICE, ""))
            .told(&["<service-unavailable", "!<not-allowed", "!<forbidden"]),
        row("7", "nor for its items").when("eve", items(ALICE, "")).told(&[
            "type='result'",
            "!<not-allowed",
            "!<forbidden",
        ]),
        row("8", "2a: disco#items of an account that is not there MUST be an empty set")
            .when("eve", items("ghost@example.org", ""))
            .told(&["type='result'", "<query xmlns='http://jabber.org/protocol/disco#items'/>"]),
        row("8", "\"no matter if the request specifies a node or not\"")
            .when("eve", items("ghost@example.org", " node='n'"))
            .told(&["type='result'", "node='n'", "!<item"]),
        row("8", "2b: of one whose presence the asking entity may not have")
            .after("alice", publish("n"))
            .when("eve", items(ALICE, ""))
            .told(&["type='result'", "<query xmlns='http://jabber.org/protocol/disco#items'/>", "!<item"]),
        row("8", "3: who is subscribed gets the information")
            .when("bob", info(ALICE, ""))
            .told(&["type='result'", "<identity category='account' type='registered'/>"]),
        row("8", "4: and the items")
            .after("alice", publish("n"))
            .when("bob", items(ALICE, ""))
            .told(&["type='result'", "node='n'"]),
        row("8", "a question for a resource that is not there: service-unavailable")
            .when("eve", info("alice@example.org/gone", ""))
            .told(UNAVAILABLE),
    ]);
}

/// §3.1: an entity MUST NOT have two identities of the same category, type and language (but different names).
#[test]
fn no_address_has_two_identities_of_one_kind() {
    const ROOM: &str = "hall@conference.example.org";
    let mut world = stage();
    let settings = HostSettings {
        uploads: Some(crate::upload::UploadSettings { max_size: 1, per_day: 1 }),
        ..world.host.settings().clone()
    };
    world.host.reload(Arc::new(settings));
    world.say(1, &publish("n"));
    world.say(1, &format!("<presence to='{ROOM}/nick'><x xmlns='{}'/></presence>", ns::MUC));
    for (to, node) in [
        ("example.org", ""),
        (ALICE, ""),
        (ALICE, " node='n'"),
        ("conference.example.org", ""),
        (ROOM, ""),
        ("pubsub.example.org", ""),
    ] {
        world.got.clear();
        world.say(1, &info(to, node));
        let answer = world.got[&1].last().unwrap().first().unwrap();
        let identities = answer.elements().filter(|child| child.is("identity", ns::DISCO_INFO));
        let kinds = identities.map(|identity| {
            ["category", "type", "xml:lang"].map(|name| identity.attr(name).unwrap_or_default())
        });
        let mut kinds: Vec<_> = kinds.collect();
        let count = kinds.len();
        kinds.sort_unstable();
        kinds.dedup();
        assert!(count > 0 && kinds.len() == count, "{to}{node}: {answer}");
    }
}

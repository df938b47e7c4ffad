//! Nodes of a service (XEP-0060): created by users, read by the entities that their owner admits.

use super::*;

const SERVICE: &str = "pubsub.example.org";
const PUBSUB: &str = "http://jabber.org/protocol/pubsub";

struct Cast {
    world: HostWorld,
    alice: u64,
    bob: u64,
}

fn cast() -> Cast {
    let mut world = HostWorld::new(&["alice@example.org", "bob@example.org"]);
    let [alice, bob] = ["alice", "bob"].map(|user| {
        let client = world.sign_in(&format!("{user}@example.org/desk"));
        world.say(client, "<presence/>");
        client
    });
    let mut cast = Cast { world, alice, bob };
    cast.hear(alice);
    cast.hear(bob);
    cast
}

impl Cast {
    fn hear(&mut self, client: u64) -> Vec<String> {
        self.world.hear(client)
    }

    fn ask(&mut self, client: u64, kind: &str, payload: &str) -> String {
        self.world.say(client, &format!("<iq type='{kind}' id='q' to='{SERVICE}'>{payload}</iq>"));
        let heard = self.hear(client);
        let answers: Vec<&String> = heard.iter().filter(|heard| heard.starts_with("<iq")).collect();
        assert_eq!(answers.len(), 1, "{heard:?}");
        answers[0].clone()
    }

    fn set(&mut self, client: u64, part: &str) -> String {
        self.ask(client, "set", &format!("<pubsub xmlns='{PUBSUB}'>{part}</pubsub>"))
    }

    fn own(&mut self, client: u64, kind: &str, part: &str) -> String {
        self.ask(client, kind, &format!("<pubsub xmlns='{PUBSUB}#owner'>{part}</pubsub>"))
    }

    fn publish(&mut self, client: u64, id: &str) -> String {
        self.set(client, &format!("<publish node='news'><item id='{id}'><x xmlns='urn:x'/></item></publish>"))
    }
}

fn configure(field: &str, value: &str) -> String {
    let kind = "<field var='FORM_TYPE'><value>http://jabber.org/protocol/pubsub#node_config</value></field>";
    let field = format!("<field var='pubsub#{field}'><value>{value}</value></field>");
    format!("<configure><x xmlns='jabber:x:data' type='submit'>{kind}{field}</x></configure>")
}

#[test]
fn a_service_shows_its_identity_and_its_nodes() {
    let mut cast = cast();
    let alice = cast.alice;
    cast.world.say(
        alice,
        "<iq type='get' id='i' to='example.org'><query xmlns='http://jabber.org/protocol/disco#items'/></iq>",
    );
    assert!(cast.hear(alice)[0].contains(&format!("jid='{SERVICE}'")));
    let info = "<query xmlns='http://jabber.org/protocol/disco#info'/>";
    let told = cast.ask(alice, "get", info);
    assert!(
        told.contains("category='pubsub' type='service'") && told.contains("pubsub#access-open"),
        "{told}"
    );
    assert!(!told.contains("access-presence") && !told.contains("auto-create"), "{told}");
    assert!(cast.set(alice, "<create node='news'/>").contains("type='result'"));
    assert!(cast.publish(alice, "1").contains("type='result'"));
    let items = "<query xmlns='http://jabber.org/protocol/disco#items'/>";
    assert!(cast.ask(alice, "get", items).contains("node='news'"));
    let of_node = |what: &str| what.replace("/>", " node='news'/>");
    let told = cast.ask(alice, "get", &of_node(info));
    assert!(told.contains("type='leaf'") && told.contains("pubsub#meta-data"), "{told}");
    assert!(cast.ask(alice, "get", &of_node(items)).contains("name='1'"));
    assert!(cast.ask(alice, "get", "<ping xmlns='urn:xmpp:ping'/>").contains("type='result'"));
    assert!(cast.ask(alice, "get", "<x xmlns='urn:x'/>").contains("<service-unavailable"));
    for to in [format!("who@{SERVICE}"), format!("{SERVICE}/x")] {
        cast.world.say(alice, &format!("<iq type='get' id='i' to='{to}'><ping xmlns='urn:xmpp:ping'/></iq>"));
        assert!(cast.hear(alice)[0].contains("<item-not-found"));
    }
    cast.world.say(alice, &format!("<message id='m' to='{SERVICE}'><body>hi</body></message>"));
    assert!(cast.hear(alice)[0].contains("<service-unavailable"));
}

#[test]
fn the_creator_of_a_node_owns_it_and_subscribers_get_published_items() {
    let mut cast = cast();
    let (alice, bob) = (cast.alice, cast.bob);
    assert!(cast.set(alice, "<create node='news'/>").contains("type='result'"));
    assert!(cast.set(bob, "<create node='news'/>").contains("<conflict"));
    // Publishing creates no node here, and only publishers publish.
    assert!(
        cast.set(bob, "<publish node='other'><item><x xmlns='urn:x'/></item></publish>")
            .contains("<item-not-found")
    );
    assert!(cast.publish(bob, "0").contains("<forbidden"));
    assert!(cast.publish(alice, "1").contains("type='result'"));
    let subscribe = |user: &str| format!("<subscribe node='news' jid='{user}@example.org'/>");
    assert!(cast.set(bob, &subscribe("alice")).contains("invalid-jid"));
    cast.world.say(
        bob,
        &format!(
            "<iq type='set' id='s' to='{SERVICE}'><pubsub xmlns='{PUBSUB}'>{}</pubsub></iq>",
            subscribe("bob")
        ),
    );
    let heard = cast.hear(bob).join("");
    assert!(
        heard.contains("subscription='subscribed'") && heard.contains("item id='1'"),
        "the newest: {heard}"
    );
    assert!(cast.publish(alice, "2").contains("type='result'"));
    let heard = cast.hear(bob);
    assert!(
        heard.len() == 1
            && heard[0].contains(&format!("from='{SERVICE}'"))
            && heard[0].contains("publisher='alice@example.org'"),
        "{heard:?}"
    );
    // Others of another server too.
    cast.world.arrive(&format!("<iq type='set' id='e' from='eve@x.org/1' to='{SERVICE}'><pubsub xmlns='{PUBSUB}'><subscribe node='news' jid='eve@x.org'/></pubsub></iq>"));
    cast.world.sent_abroad();
    cast.publish(alice, "3");
    assert!(cast.world.sent_abroad()[0].contains("item id='3'"));
    cast.world.arrive(&format!("<iq type='set' id='e' from='eve@x.org/1' to='{SERVICE}'><pubsub xmlns='{PUBSUB}'><create node='hers'/></pubsub></iq>"));
    assert!(cast.world.sent_abroad()[0].contains("<forbidden"), "nodes are for those of this server");
    cast.hear(bob);
    // The end.
    assert!(cast.own(bob, "set", "<delete node='news'/>").contains("<forbidden"));
    assert!(cast.own(alice, "set", "<purge node='news'/>").contains("type='result'"));
    assert!(cast.own(alice, "set", "<delete node='news'/>").contains("type='result'"));
    let heard = cast.hear(bob).join("");
    assert!(heard.contains("<purge node='news'/>") && heard.contains("<delete node='news'/>"), "{heard}");
}

#[test]
fn owners_let_others_in_and_the_last_owner_stays() {
    let mut cast = cast();
    let (alice, bob) = (cast.alice, cast.bob);
    let set = |user: &str, what: &str| {
        format!(
            "<affiliations node='news'><affiliation jid='{user}@example.org' affiliation='{what}'/></affiliations>"
        )
    };
    let form = configure("access_model", "whitelist");
    cast.ask(alice, "set", &format!("<pubsub xmlns='{PUBSUB}'><create node='news'/>{form}</pubsub>"));
    let items = format!("<pubsub xmlns='{PUBSUB}'><items node='news'/></pubsub>");
    assert!(cast.ask(bob, "get", &items).contains("closed-node"));
    assert!(cast.own(bob, "set", &set("bob", "member")).contains("<forbidden"));
    assert!(cast.own(alice, "set", &set("bob", "member")).contains("type='result'"));
    assert!(cast.ask(bob, "get", &items).contains("type='result'"));
    assert!(cast.own(alice, "set", &set("bob", "publisher")).contains("type='result'"));
    assert!(cast.publish(bob, "1").contains("type='result'"));
    assert!(cast.own(alice, "set", &set("alice", "none")).contains("<not-acceptable"), "the last owner");
    assert!(cast.own(alice, "set", &set("bob", "owner")).contains("type='result'"));
    assert!(cast.own(alice, "set", &set("alice", "none")).contains("type='result'"));
    assert!(cast.own(alice, "get", "<affiliations node='news'/>").contains("<forbidden"));
    let told = cast.own(bob, "get", "<affiliations node='news'/>");
    assert!(
        told.contains("jid='bob@example.org' affiliation='owner'")
            && !told.contains(&format!("jid='{SERVICE}'"))
    );
    // Access models that depend on a roster are not for a service.
    let form = configure("access_model", "presence").replace("<configure>", "<configure node='news'>");
    assert!(cast.own(bob, "set", &form).contains("<not-acceptable"));
    assert!(cast.own(alice, "get", "<default/>").contains("<value>open</value>"));
}

#[test]
fn each_access_model_that_the_form_offers_can_be_chosen() {
    let mut cast = cast();
    let alice = cast.alice;
    cast.ask(alice, "set", &format!("<pubsub xmlns='{PUBSUB}'><create node='news'/></pubsub>"));
    for question in ["<default/>", "<configure node='news'/>"] {
        let form = cast.own(alice, "get", question);
        let offers = |word: &str| form.contains(&format!("<option><value>{word}</value></option>"));
        assert_eq!(["open", "whitelist", "authorize"].map(offers), [true; 3], "{form}");
        assert_eq!(["presence", "roster"].map(offers), [false; 2], "{form}");
        assert!(!form.contains("pubsub#roster_groups_allowed"), "{form}");
    }
    for word in ["open", "whitelist", "authorize"] {
        let form = configure("access_model", word).replace("<configure>", "<configure node='news'>");
        assert!(cast.own(alice, "set", &form).contains("type='result'"), "{word}");
    }
}

#[test]
fn a_subscriber_that_needs_approval_waits_for_an_owner() {
    let mut cast = cast();
    let (alice, bob) = (cast.alice, cast.bob);
    let form = configure("access_model", "authorize");
    cast.ask(alice, "set", &format!("<pubsub xmlns='{PUBSUB}'><create node='news'/>{form}</pubsub>"));
    let pending = cast.set(bob, "<subscribe node='news' jid='bob@example.org'/>");
    assert!(pending.contains("subscription='pending'"));
    let question = cast.hear(alice).pop().unwrap();
    assert!(
        question.contains("pubsub#subscribe_authorization")
            && question.contains(&format!("from='{SERVICE}'"))
    );
    let field = |var: &str, value: &str| format!("<field var='{var}'><value>{value}</value></field>");
    let answer = field("FORM_TYPE", "http://jabber.org/protocol/pubsub#subscribe_authorization")
        + &field("pubsub#node", "news")
        + &field("pubsub#subscriber_jid", "bob@example.org")
        + &field("pubsub#allow", "1");
    let answer =
        format!("<message to='{SERVICE}'><x xmlns='jabber:x:data' type='submit'>{answer}</x></message>");
    // A subscriber cannot approve its own subscription.
    cast.world.say(bob, &answer);
    assert!(cast.hear(bob).is_empty());
    cast.world.say(alice, &answer);
    assert!(cast.hear(bob)[0].contains("subscription='subscribed'"));
}

#[test]
fn nodes_of_one_user_have_a_bound() {
    let mut cast = cast();
    let (alice, bob) = (cast.alice, cast.bob);
    for _ in 0..crate::limits::NODES {
        assert!(cast.set(alice, "<create/>").contains("type='result'"));
    }
    assert!(cast.set(alice, "<create/>").contains("<resource-constraint"));
    assert!(cast.set(bob, "<create/>").contains("type='result'"));
}

#[test]
fn a_removed_account_owns_no_node_and_is_subscribed_to_none() {
    let mut cast = cast();
    let (alice, bob) = (cast.alice, cast.bob);
    assert!(cast.set(alice, "<create node='news'/>").contains("result"));
    assert!(cast.set(bob, "<subscribe node='news' jid='bob@example.org'/>").contains("subscribed"));
    let field = |var: &str, value: &str| format!("<field var='pubsub#{var}'><value>{value}</value></field>");
    let open = [
        field("node_type", "collection"),
        field("children_association_policy", "whitelist"),
        field("children_association_whitelist", "bob@example.org"),
    ];
    let form = format!("<x xmlns='jabber:x:data' type='submit'>{}</x>", open.concat());
    let create = format!("<create node='all'/><configure>{form}</configure>");
    assert!(cast.set(alice, &create).contains("type='result'"));
    // The store removes the account from its rows, and hosts remove it from memory.
    let leave = |cast: &mut Cast, user: &str| {
        let user = Bare::parse(user).unwrap();
        for config in cast.world.store.nodes.values_mut() {
            if let Some(without) = crate::without_user(config, &user) {
                *config = without;
            }
        }
        let act = crate::effect::HostAction::Departed { user };
        cast.world.tell(|host, now, out| drop(host.act(now, &act, out)));
    };
    leave(&mut cast, "bob@example.org");
    assert!(!cast.set(bob, "<unsubscribe node='news' jid='bob@example.org'/>").contains("type='result'"));
    let form = format!("<x xmlns='jabber:x:data' type='submit'>{}</x>", field("collection", "all"));
    let create = format!("<create node='mine'/><configure>{form}</configure>");
    assert!(
        cast.set(bob, &create).contains("forbidden"),
        "a collection does not know a new account of the name"
    );
    leave(&mut cast, "alice@example.org");
    let delete = "<delete node='news'/>";
    assert!(cast.own(alice, "set", delete).contains("forbidden"), "a new account of the name owns nothing");
}

#[test]
fn one_account_does_not_fill_a_node_with_its_subscriptions() {
    let mut cast = cast();
    let (alice, bob) = (cast.alice, cast.bob);
    cast.set(alice, "<create node='news'/>");
    for number in 0..crate::limits::SUBSCRIPTIONS_OF_USER {
        let subscribe = format!("<subscribe node='news' jid='bob@example.org/{number}'/>");
        assert!(cast.set(bob, &subscribe).contains("type='result'"));
    }
    let more = cast.set(bob, "<subscribe node='news' jid='bob@example.org/more'/>");
    assert!(more.contains("too-many-subscriptions"), "{more}");
    assert!(cast.set(alice, "<subscribe node='news' jid='alice@example.org'/>").contains("type='result'"));
}

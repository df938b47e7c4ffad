//! XEP-0248: collections of a service's nodes. Alice owns the collection `blogs` and the nodes in it.

use super::*;

const SERVICE: &str = "pubsub.example.org";
const PUBSUB: &str = "http://jabber.org/protocol/pubsub";
const BOB: u64 = 2;

fn set(part: &str) -> String {
    iq("set", SERVICE, &format!("<pubsub xmlns='{PUBSUB}'>{part}</pubsub>"))
}

fn get(part: &str) -> String {
    iq("get", SERVICE, &format!("<pubsub xmlns='{PUBSUB}'>{part}</pubsub>"))
}

fn owner(kind: &str, part: &str) -> String {
    iq(kind, SERVICE, &format!("<pubsub xmlns='{PUBSUB}#owner'>{part}</pubsub>"))
}

fn disco(kind: &str, node: &str) -> String {
    iq("get", SERVICE, &format!("<query xmlns='http://jabber.org/protocol/disco#{kind}'{node}/>"))
}

fn form(kind: &str, fields: &[(&str, &[&str])]) -> String {
    let field = |(var, values): &(&str, &[&str])| {
        let values: String = values.iter().map(|value| format!("<value>{value}</value>")).collect();
        format!("<field var='{var}'>{values}</field>")
    };
    let name = format!("{PUBSUB}#{kind}");
    let kind = field(&("FORM_TYPE", &[name.as_str()]));
    let fields: String = fields.iter().map(field).collect();
    format!("<x xmlns='jabber:x:data' type='submit'>{kind}{fields}</x>")
}

/// Creates a node with that configuration.
fn create(node: &str, fields: &[(&str, &[&str])]) -> String {
    set(&format!("<create node='{node}'/><configure>{}</configure>", form("node_config", fields)))
}

fn configure(node: &str, fields: &[(&str, &[&str])]) -> String {
    owner("set", &format!("<configure node='{node}'>{}</configure>", form("node_config", fields)))
}

fn associate(node: &str, collection: &str) -> String {
    owner("set", &format!("<collection node='{collection}'><associate node='{node}'/></collection>"))
}

fn dissociate(node: &str, collection: &str) -> String {
    owner("set", &format!("<collection node='{collection}'><dissociate node='{node}'/></collection>"))
}

fn subscribe(user: &str, node: &str, options: &[(&str, &[&str])]) -> String {
    let options = match options.is_empty() {
        true => String::new(),
        false => format!("<options>{}</options>", form("subscribe_options", options)),
    };
    set(&format!("<subscribe node='{node}' jid='{user}@example.org'/>{options}"))
}

fn publish(node: &str, id: &str) -> String {
    set(&format!("<publish node='{node}'><item id='{id}'><x xmlns='urn:x'/></item></publish>"))
}

const COLLECTION: &[(&str, &[&str])] = &[("pubsub#node_type", &["collection"])];
const IN_BLOGS: &[(&str, &[&str])] = &[("pubsub#collection", &["blogs"])];
const ITEMS: &[(&str, &[&str])] = &[("pubsub#subscription_type", &["items"])];
const ALL_ITEMS: &[(&str, &[&str])] =
    &[("pubsub#subscription_type", &["items"]), ("pubsub#subscription_depth", &["all"])];
const ALL_LEVELS: &[(&str, &[&str])] = &[("pubsub#subscription_depth", &["all"])];

/// A row with the collection.
fn collected(section: &'static str, demand: &'static str) -> Row {
    row(section, demand).after("alice", create("blogs", COLLECTION))
}

/// A row with the collection and a node in it.
fn filled(section: &'static str, demand: &'static str) -> Row {
    collected(section, demand).after("alice", create("musings", IN_BLOGS))
}

/// A row with a collection in the collection, and a node in that.
fn nested(section: &'static str, demand: &'static str) -> Row {
    collected(section, demand)
        .after(
            "alice",
            create("royal", &[("pubsub#node_type", &["collection"]), ("pubsub#collection", &["blogs"])]),
        )
        .after("alice", create("musings", &[("pubsub#collection", &["royal"])]))
}

const BOB_MAY: &[(&str, &[&str])] = &[
    ("pubsub#children_association_policy", &["whitelist"]),
    ("pubsub#children_association_whitelist", &["bob@example.org"]),
];

const DONE: &[&str] = &["type='result'", "!<error"];
const FORBIDDEN: &[&str] = &["type='error'", "<error type='auth'><forbidden"];
const NOT_FOUND: &[&str] = &["type='error'", "<item-not-found"];
const INVALID: &[&str] = &["<error type='cancel'><not-allowed", "<invalid-options "];
const FULL: &[&str] = &["<error type='cancel'><not-allowed", "<max-nodes-exceeded "];
const CONFLICT: &[&str] = &["<error type='cancel'><conflict"];
const HEADER: &str =
    "<headers xmlns='http://jabber.org/protocol/shim'><header name='Collection'>blogs</header></headers>";

#[test]
fn discovering() {
    play(&[
        row("5.1", "a service with collections MUST have the feature")
            .when("bob", disco("info", ""))
            .told(&["<feature var='http://jabber.org/protocol/pubsub#collections'/>", "!multi-collections"]),
        row("5.1", "an account has none")
            .when("bob", iq("get", ALICE, "<query xmlns='http://jabber.org/protocol/disco#info'/>"))
            .told(&["type='result'", "!pubsub#collections"]),
        filled("5.2", "the root has the nodes of the first level")
            .when("bob", disco("items", ""))
            .told(&["<item jid='pubsub.example.org' node='blogs'/>", "!musings"]),
        filled("5.2", "a collection has its nodes")
            .when("bob", disco("items", " node='blogs'"))
            .told(&["node='blogs'>", "<item jid='pubsub.example.org' node='musings'/>"]),
        filled("5.2", "not those that the user may not know of")
            .after("alice", configure("musings", &[("pubsub#access_model", &["whitelist"])]))
            .when("bob", disco("items", " node='blogs'"))
            .told(&["type='result'", "!musings"]),
        filled("5.2", "of a collection that the user may not read")
            .after("alice", configure("blogs", &[("pubsub#access_model", &["whitelist"])]))
            .when("bob", disco("items", " node='blogs'"))
            .told(&["<not-allowed", "!musings"]),
        collected("14.4", "a collection MUST have the identity pubsub/collection")
            .when("bob", disco("info", " node='blogs'"))
            .told(&["<identity category='pubsub' type='collection'/>", "!leaf"]),
    ]);
}

#[test]
fn subscribing() {
    play(&[
        collected("6.1.2", "the answer MUST say that the entity is subscribed")
            .when("bob", subscribe("bob", "blogs", &[]))
            .told(&["<subscription node='blogs' jid='bob@example.org' subscription='subscribed'>"]),
        collected("6.1", "by default the type is `nodes` and the depth 1")
            .after("bob", subscribe("bob", "blogs", &[]))
            .when("bob", get("<options node='blogs' jid='bob@example.org'/>"))
            .told(&[
                "<field var='pubsub#subscription_type' type='list-single'><value>nodes</value><option><value>items</value>",
                "<field var='pubsub#subscription_depth' type='text-single'><value>1</value></field>",
            ]),
        filled("6.1", "a leaf has no such options")
            .after("bob", subscribe("bob", "musings", &[]))
            .when("bob", get("<options node='musings' jid='bob@example.org'/>"))
            .told(&["pubsub#deliver", "!subscription_type"]),
        collected("6.1.1", "with options")
            .when("bob", subscribe("bob", "blogs", ALL_ITEMS))
            .told(&["subscription='subscribed'", "<value>items</value>", "<value>all</value>"]),
        collected("6.1", "a type that is none: invalid-options")
            .when("bob", subscribe("bob", "blogs", &[("pubsub#subscription_type", &["stars"])]))
            .told(&["<bad-request", "<invalid-options "]),
        collected("6.1", "a depth that is none: invalid-options")
            .when("bob", subscribe("bob", "blogs", &[("pubsub#subscription_depth", &["-1"])]))
            .told(&["<bad-request", "<invalid-options "]),
        row("6.1", "the root has no subscriptions: it has no name")
            .when("bob", set("<subscribe jid='bob@example.org'/>"))
            .told(&["<bad-request", "<nodeid-required "]),
        filled("6.2.3", "items are not read by the collection: feature-not-implemented")
            .when("bob", get("<items node='blogs'/>"))
            .told(&["<feature-not-implemented", "feature='retrieve-items'"]),
        collected("4.1", "nor published to it")
            .when("alice", publish("blogs", "1"))
            .told(&["<feature-not-implemented", "feature='publish'"]),
    ]);
}

#[test]
fn notifications_about_items() {
    play(&[
        filled("5.3.1", "an item of a node, with the node and the collection in a header")
            .after("alice", subscribe("alice", "blogs", ITEMS))
            .when("alice", publish("musings", "1"))
            .told(&["<items node='musings'><item id='1'", HEADER]),
        filled("5.3.1", "an item that is retracted")
            .after("alice", subscribe("alice", "blogs", ITEMS))
            .after("alice", publish("musings", "1"))
            .when("alice", set("<retract node='musings'><item id='1'/></retract>"))
            .told(&["<items node='musings'><retract id='1'/></items>", HEADER]),
        filled("5.3.1", "and a purge")
            .after("alice", subscribe("alice", "blogs", ITEMS))
            .when("alice", owner("set", "<purge node='musings'/>"))
            .told(&["<purge node='musings'/>", HEADER]),
        filled("5.3.1", "the node decides about payloads")
            .after("alice", configure("musings", &[("pubsub#deliver_payloads", &["0"])]))
            .after("alice", configure("blogs", &[("pubsub#deliver_payloads", &["1"])]))
            .after("alice", subscribe("alice", "blogs", ITEMS))
            .when("alice", publish("musings", "1"))
            .told(&["<items node='musings'><item id='1' publisher='alice@example.org'/></items>", HEADER]),
        filled("6.1", "of type `nodes`: no items")
            .after("alice", subscribe("alice", "blogs", &[]))
            .when("alice", publish("musings", "1"))
            .told(&["type='result'", "!<message"]),
        nested("6.1", "of depth 1: no items of deeper nodes")
            .after("alice", subscribe("alice", "blogs", ITEMS))
            .when("alice", publish("musings", "1"))
            .told(&["type='result'", "!<message"]),
        nested("6.1", "of all levels")
            .after("alice", subscribe("alice", "blogs", ALL_ITEMS))
            .when("alice", publish("musings", "1"))
            .told(&["<items node='musings'><item id='1'", HEADER]),
    ]);
}

#[test]
fn notifications_about_nodes() {
    play(&[
        collected("5.3.1", "a node that is created in the collection")
            .after("alice", subscribe("alice", "blogs", &[]))
            .when("alice", create("musings", IN_BLOGS))
            .told(&["<create node='musings'/>", HEADER]),
        nested("5.3.1", "a node that is deleted, some levels below")
            .after("alice", subscribe("alice", "blogs", ALL_LEVELS))
            .when("alice", owner("set", "<delete node='musings'/>"))
            .told(&["<delete node='musings'/>", HEADER]),
        filled("5.3.1", "a node that is configured")
            .after("alice", subscribe("alice", "blogs", &[]))
            .when("alice", configure("musings", &[("pubsub#notify_config", &["1"])]))
            .told(&["<configuration node='musings'>", HEADER]),
        collected("7.2.1", "a collection MUST have `notify_config`")
            .after("alice", subscribe("alice", "blogs", &[]))
            .when("alice", configure("blogs", &[("pubsub#notify_config", &["1"])]))
            .told(&["<configuration node='blogs'>", "pubsub#node_type", "!<header"]),
        collected("5.3.2", "a node that is associated")
            .after("alice", create("musings", &[]))
            .after("alice", subscribe("alice", "blogs", &[]))
            .when("alice", associate("musings", "blogs"))
            .told(&["<collection node='blogs'><associate node='musings'/></collection>"]),
        filled("5.3.2", "a node that is dissociated")
            .after("alice", subscribe("alice", "blogs", &[]))
            .when("alice", dissociate("musings", "blogs"))
            .told(&["<collection node='blogs'><dissociate node='musings'/></collection>"]),
        filled("5.3.2", "by a form of the collection, too")
            .after("alice", subscribe("alice", "blogs", &[]))
            .when("alice", configure("blogs", &[("pubsub#children", &[])]))
            .told(&["<collection node='blogs'><dissociate node='musings'/></collection>"]),
    ]);
}

#[test]
fn configuring() {
    play(&[
        row("7.1", "a new collection").when("bob", create("blogs", COLLECTION)).told(DONE),
        row("7.1", "a node is a leaf if nothing else is said")
            .after("alice", create("musings", &[]))
            .when("alice", owner("get", "<configure node='musings'/>"))
            .told(&[
                "<field var='pubsub#node_type' type='list-single'><value>leaf</value>",
                "<field var='pubsub#collection' type='text-multi'><value/></field>",
                "!children",
            ]),
        filled("7.2.1", "a collection MUST have these fields, and §8.3 both ends of an association")
            .when("alice", owner("get", "<configure node='blogs'/>"))
            .told(&[
                "<field var='pubsub#node_type' type='list-single'><value>collection</value>",
                "<field var='pubsub#collection'",
                "<field var='pubsub#children_max' type='text-single'><value>200</value>",
                "<field var='pubsub#children_association_policy' type='list-single'><value>owners</value>",
                "<field var='pubsub#children_association_whitelist'",
                "<field var='pubsub#children' type='text-multi'><value>musings</value></field>",
                "!persist_items",
            ]),
        filled("8.3", "the node, too")
            .when("alice", owner("get", "<configure node='musings'/>"))
            .told(&["<field var='pubsub#collection' type='text-multi'><value>blogs</value></field>"]),
        collected("7.2.2", "children by the form of the collection")
            .after("alice", create("musings", &[]))
            .after("alice", configure("blogs", &[("pubsub#children", &["musings"])]))
            .when("alice", owner("get", "<configure node='musings'/>"))
            .told(&["<field var='pubsub#collection' type='text-multi'><value>blogs</value></field>"]),
        filled("7.2.1", "an empty value is the root")
            .after("alice", configure("musings", &[("pubsub#collection", &[""])]))
            .when("bob", disco("items", ""))
            .told(&["node='blogs'", "node='musings'"]),
        row("7.2.2", "a new collection with children")
            .after("alice", create("musings", &[]))
            .after(
                "alice",
                create("blogs", &[("pubsub#node_type", &["collection"]), ("pubsub#children", &["musings"])]),
            )
            .when("bob", disco("items", " node='blogs'"))
            .told(&["node='musings'"]),
    ]);
}

#[test]
fn policies_of_collections() {
    play(&[
        collected("7.2.3.2", "others' collections are closed at first: forbidden")
            .when("bob", create("musings", IN_BLOGS))
            .told(FORBIDDEN),
        collected("7.2.1", "and open by their policy")
            .after("alice", configure("blogs", &[("pubsub#children_association_policy", &["all"])]))
            .when("bob", create("musings", IN_BLOGS))
            .told(DONE),
        collected("7.2.1", "or by a list of accounts")
            .after("alice", configure("blogs", BOB_MAY))
            .when("bob", create("musings", IN_BLOGS))
            .told(DONE),
        collected("7.2.3.2", "a collection does not take nodes of others: forbidden")
            .after("bob", create("musings", &[]))
            .when("alice", configure("blogs", &[("pubsub#children", &["musings"])]))
            .told(FORBIDDEN),
    ]);
}

#[test]
fn configurations_that_cannot_be() {
    play(&[
        row("7.2.3.1", "a leaf has no children: not-allowed, invalid-options")
            .after("alice", create("musings", &[]))
            .after("alice", create("news", &[]))
            .when("alice", configure("news", &[("pubsub#children", &["musings"])]))
            .told(INVALID),
        row("7.2.3.1", "from the other side, too")
            .after("alice", create("musings", &[]))
            .when("alice", create("news", &[("pubsub#collection", &["musings"])]))
            .told(INVALID),
        row("7.2.3", "a collection that is not there: item-not-found")
            .when("alice", create("musings", IN_BLOGS))
            .told(NOT_FOUND),
        filled("7.2.3.3", "more than `children_max`: not-allowed, max-nodes-exceeded")
            .after("alice", configure("blogs", &[("pubsub#children_max", &["1"])]))
            .when("alice", create("news", IN_BLOGS))
            .told(FULL),
        filled("7.2.3.3", "from the other side, too")
            .after("alice", create("news", &[]))
            .when(
                "alice",
                configure(
                    "blogs",
                    &[("pubsub#children_max", &["1"]), ("pubsub#children", &["musings", "news"])],
                ),
            )
            .told(FULL),
        collected("7.2.3.4", "a collection does not become a leaf: not-allowed, invalid-options")
            .when("alice", configure("blogs", &[("pubsub#node_type", &["leaf"])]))
            .told(INVALID),
        row("7.2.4", "nor a leaf a collection, as it may")
            .after("alice", create("news", &[]))
            .when("alice", configure("news", COLLECTION))
            .told(INVALID),
        nested("7.2.3.5", "a cycle: not-allowed, invalid-options")
            .when("alice", configure("blogs", &[("pubsub#collection", &["royal"])]))
            .told(INVALID),
        collected("7.2.3.5", "of one node, too")
            .when("alice", configure("blogs", &[("pubsub#children", &["blogs"])]))
            .told(INVALID),
        filled("5.1", "a node in several collections: feature-not-implemented")
            .after("alice", create("more", COLLECTION))
            .when("alice", configure("musings", &[("pubsub#collection", &["blogs", "more"])]))
            .told(&["<feature-not-implemented", "feature='multi-collections'"]),
    ]);
}

#[test]
fn deleting() {
    play(&[
        filled("7.3", "a collection is deleted")
            .when("alice", owner("set", "<delete node='blogs'/>"))
            .told(DONE),
        filled("8.2", "its nodes stay, in the root")
            .after("alice", owner("set", "<delete node='blogs'/>"))
            .when("bob", disco("items", ""))
            .told(&["node='musings'", "!blogs"]),
        filled("8.2", "and are not in a later collection of that name")
            .after("alice", owner("set", "<delete node='blogs'/>"))
            .after("alice", create("blogs", COLLECTION))
            .when("bob", disco("items", " node='blogs'"))
            .told(&["type='result'", "!musings"]),
        row("7.3.3.1", "the root: not-allowed")
            .when("alice", owner("set", "<delete/>"))
            .told(&["<error type='cancel'><not-allowed"]),
    ]);
}

#[test]
fn associating() {
    play(&[
        collected("7.4.2", "success is an empty result")
            .after("alice", create("musings", &[]))
            .when("alice", associate("musings", "blogs"))
            .told(DONE),
        collected("7.4", "the node is in the collection then")
            .after("alice", create("musings", &[]))
            .after("alice", associate("musings", "blogs"))
            .when("bob", disco("items", " node='blogs'"))
            .told(&["node='musings'"]),
        filled("7.4", "a node that is there already").when("alice", associate("musings", "blogs")).told(DONE),
        filled("7.4", "a node of another collection: conflict")
            .after("alice", create("more", COLLECTION))
            .when("alice", associate("musings", "more"))
            .told(CONFLICT),
        collected("7.4.3.1", "another's node: forbidden")
            .after("bob", create("musings", &[]))
            .when("alice", associate("musings", "blogs"))
            .told(FORBIDDEN),
        collected("7.4.3.1", "another's collection: forbidden")
            .after("bob", create("musings", &[]))
            .when("bob", associate("musings", "blogs"))
            .told(FORBIDDEN),
        filled("7.4.3.2", "more than `children_max`: not-allowed, max-nodes-exceeded")
            .after("alice", configure("blogs", &[("pubsub#children_max", &["1"])]))
            .after("alice", create("news", &[]))
            .when("alice", associate("news", "blogs"))
            .told(FULL),
        nested("7.4.3.3", "a cycle: not-allowed, invalid-options")
            .when("alice", associate("blogs", "royal"))
            .told(INVALID),
        filled("7.5.2", "a node is taken out").when("alice", dissociate("musings", "blogs")).told(DONE),
        filled("7.5", "and is in the root then")
            .after("alice", dissociate("musings", "blogs"))
            .when("bob", disco("items", ""))
            .told(&["node='musings'"]),
        collected("7.5.3.1", "one that is not in it: bad-request")
            .after("alice", create("musings", &[]))
            .when("alice", dissociate("musings", "blogs"))
            .told(&["<error type='modify'><bad-request"]),
        filled("7.5.3.2", "by a stranger: forbidden")
            .when("bob", dissociate("musings", "blogs"))
            .told(FORBIDDEN),
        collected("7.4", "two changes at once: bad-request")
            .when(
                "alice",
                owner(
                    "set",
                    "<collection node='blogs'><associate node='a'/><associate node='b'/></collection>",
                ),
            )
            .told(&["<bad-request"]),
        row("7.4", "a collection that is not there: item-not-found")
            .when("alice", associate("musings", "blogs"))
            .told(NOT_FOUND),
    ]);
}

/// §7.1.3.1: "If the service does not support collection nodes, it MUST respond with a feature-not-implemented error".
#[test]
fn an_account_has_no_collections() {
    let mut world = stage();
    let own = |kind: &str, part: &str| {
        format!("<iq id='q' type='set'><pubsub xmlns='{PUBSUB}{kind}'>{part}</pubsub></iq>")
    };
    let configured = |fields: &[(&str, &[&str])]| {
        own("", &format!("<create node='n'/><configure>{}</configure>", form("node_config", fields)))
    };
    let refused = "feature='collections'";
    for (stanza, is_refused) in [
        (configured(COLLECTION), true),
        (configured(IN_BLOGS), true),
        (own("#owner", "<collection node='n'><associate node='m'/></collection>"), true),
        // A form that has the fields of a leaf in the root.
        (configured(&[("pubsub#node_type", &["leaf"]), ("pubsub#collection", &[""])]), false),
    ] {
        world.say(1, &stanza);
        let heard = world.hear(1).concat();
        assert_eq!(heard.contains(refused), is_refused, "{stanza}: {heard}");
        assert_eq!(heard.contains("type='result'"), !is_refused, "{heard}");
    }
}

/// Security (§11.1): "only the access model of the collection node itself is used". Here each node keeps its own.
#[test]
fn a_collection_opens_no_node_to_its_subscribers() {
    for (node, between, gets) in [
        ("open", "open", true),
        ("whitelist", "open", false),
        ("authorize", "open", false),
        ("open", "whitelist", false),
    ] {
        let mut world = stage();
        let access = |model: &'static str| ("pubsub#access_model", [model]);
        let (node, between) = (access(node), access(between));
        world.say(1, &create("blogs", COLLECTION));
        let fields: &[(&str, &[&str])] = &[
            ("pubsub#node_type", &["collection"]),
            ("pubsub#collection", &["blogs"]),
            (between.0, &between.1),
        ];
        world.say(1, &create("royal", fields));
        world.say(1, &create("musings", &[("pubsub#collection", &["royal"]), (node.0, &node.1)]));
        world.say(BOB, &subscribe("bob", "blogs", ALL_ITEMS));
        world.got.clear();
        world.say(1, &publish("musings", "1"));
        assert!(world.hear(1).concat().contains("type='result'"));
        let heard = world.hear(BOB);
        assert_eq!(heard.len(), usize::from(gets), "{node:?} {between:?}: {heard:?}");
        assert!(!gets || heard[0].contains(HEADER), "{heard:?}");
    }
}

/// A subscription of the node and one of its collection are two: each gets the item once.
#[test]
fn each_subscription_gets_an_item_once() {
    let mut world = stage();
    world.say(1, &create("blogs", COLLECTION));
    world.say(1, &create("musings", IN_BLOGS));
    world.say(BOB, &subscribe("bob", "musings", &[]));
    world.say(BOB, &subscribe("bob", "blogs", ITEMS));
    world.say(BOB, &subscribe("bob", "blogs", ALL_ITEMS));
    world.got.clear();
    world.say(1, &publish("musings", "1"));
    let heard = world.hear(BOB);
    assert_eq!(heard.len(), 2, "{heard:?}");
    assert_eq!(heard.iter().filter(|message| message.contains(HEADER)).count(), 1, "{heard:?}");
}

/// §8.2. None names a collection that is not there, whenever the node stops.
#[test]
fn the_nodes_of_a_collection_leave_it_before_it_is_deleted() {
    let mut world = stage();
    world.say(1, &create("blogs", COLLECTION));
    world.say(1, &create("musings", IN_BLOGS));
    world.say(1, &create("news", IN_BLOGS));
    world.got.clear();
    world.is_slow = true;
    world.say(1, &owner("set", "<delete node='blogs'/>"));
    let waiting: Vec<String> = world
        .unwritten
        .iter()
        .map(|(_, change)| match change {
            Change::Node { node, config, .. } => format!("{node} {}", config.is_some()),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(waiting, ["musings true", "news true"]);
    // Another request waits until all is written.
    world.say(BOB, &disco("items", ""));
    world.write();
    assert_eq!(world.unwritten.len(), 1, "all nodes go first");
    world.write();
    assert_eq!(world.hear(BOB), [""; 0]);
    assert_eq!(world.unwritten.len(), 1, "the collection itself");
    world.is_slow = false;
    world.write();
    assert!(world.hear(1).concat().contains("type='result'"));
    let items = world.hear(BOB).concat();
    assert!(items.contains("musings") && items.contains("news") && !items.contains("blogs"), "{items}");
}

//! XEP-0060: the service of a domain, whose nodes belong to the users that make them. Alice owns the node `news`; the nodes
//! of accounts are in `pubsub.rs`.

mod options;

use super::*;

const SERVICE: &str = "pubsub.example.org";
const PUBSUB: &str = "http://jabber.org/protocol/pubsub";

fn ask(kind: &str, part: &str) -> String {
    iq(kind, SERVICE, &format!("<pubsub xmlns='{PUBSUB}'>{part}</pubsub>"))
}

fn set(part: &str) -> String {
    ask("set", part)
}

fn get(part: &str) -> String {
    ask("get", part)
}

fn owner(kind: &str, part: &str) -> String {
    iq(kind, SERVICE, &format!("<pubsub xmlns='{PUBSUB}#owner'>{part}</pubsub>"))
}

fn info(node: &str) -> String {
    iq("get", SERVICE, &format!("<query xmlns='http://jabber.org/protocol/disco#info'{node}/>"))
}

fn items(node: &str) -> String {
    iq("get", SERVICE, &format!("<query xmlns='http://jabber.org/protocol/disco#items'{node}/>"))
}

fn publish(id: &str) -> String {
    set(&format!("<publish node='news'><item id='{id}'><x xmlns='urn:x'>{id}</x></item></publish>"))
}

fn subscribe(user: &str) -> String {
    set(&format!("<subscribe node='news' jid='{user}@example.org'/>"))
}

fn form(fields: &[(&str, &str)]) -> String {
    let field = |(var, value): &(&str, &str)| format!("<field var='{var}'><value>{value}</value></field>");
    let kind = field(&("FORM_TYPE", "http://jabber.org/protocol/pubsub#node_config"));
    let fields: String = fields.iter().map(field).collect();
    format!("<x xmlns='jabber:x:data' type='submit'>{kind}{fields}</x>")
}

fn affiliate(user: &str, affiliation: &str) -> String {
    let item = format!("<affiliation jid='{user}@example.org' affiliation='{affiliation}'/>");
    owner("set", &format!("<affiliations node='news'>{item}</affiliations>"))
}

fn set_subscription(user: &str, state: &str) -> String {
    let item = format!("<subscription jid='{user}@example.org' subscription='{state}'/>");
    owner("set", &format!("<subscriptions node='news'>{item}</subscriptions>"))
}

/// A row after Alice has made the node, with that configuration.
fn with_node(section: &'static str, demand: &'static str, fields: &[(&str, &str)]) -> Row {
    let configure = format!("<configure>{}</configure>", form(fields));
    row(section, demand).after("alice", set(&format!("<create node='news'/>{configure}")))
}

fn noded(section: &'static str, demand: &'static str) -> Row {
    with_node(section, demand, &[])
}

const DONE: &[&str] = &["type='result'", "!<error"];
const FORBIDDEN: &[&str] = &["type='error'", "<error type='auth'><forbidden"];
const NOT_FOUND: &[&str] = &["type='error'", "<error type='cancel'><item-not-found"];
const NODE_REQUIRED: &[&str] = &[
    "<error type='modify'><bad-request",
    "<nodeid-required xmlns='http://jabber.org/protocol/pubsub#errors'/>",
];

#[test]
fn discovering() {
    play(&[
        row("5.1", "the service MUST have the identity pubsub/service and the feature of the protocol")
            .when("bob", info(""))
            .told(&[
                "<identity category='pubsub' type='service'",
                "<feature var='http://jabber.org/protocol/pubsub'/>",
            ]),
        row("5.1", "and the features that are built: `publish` and `subscribe` at least")
            .when("bob", info(""))
            .told(&[
                "var='http://jabber.org/protocol/pubsub#publish'",
                "var='http://jabber.org/protocol/pubsub#subscribe'",
            ]),
        row("9", "an account with nodes MUST have the feature `pubsub-on-a-jid`")
            .when("bob", iq("get", ALICE, "<query xmlns='http://jabber.org/protocol/disco#info'/>"))
            .told(&["var='http://jabber.org/protocol/pubsub#pubsub-on-a-jid'"]),
        row("9", "and a service has not").when("bob", info("")).told(&["type='result'", "!pubsub-on-a-jid"]),
        noded("5.2", "the nodes of the first level")
            .when("bob", items(""))
            .told(&["<item jid='pubsub.example.org' node='news'"]),
        with_node("5.2", "not those that the user may not know of", &[("pubsub#access_model", "whitelist")])
            .when("bob", items(""))
            .told(&["type='result'", "!news"]),
        noded("5.3", "a node MUST have the identity pubsub/leaf and the feature of the protocol")
            .when("bob", info(" node='news'"))
            .told(&[
                "node='news'",
                "<identity category='pubsub' type='leaf'",
                "<feature var='http://jabber.org/protocol/pubsub'/>",
            ]),
        with_node("5.4", "meta-data: the title among them", &[("pubsub#title", "What is new")])
            .when("bob", info(" node='news'"))
            .told(&[
                "<value>http://jabber.org/protocol/pubsub#meta-data</value>",
                "pubsub#title",
                "What is new",
            ]),
        noded("5.5", "items have the service's address and their id as a name")
            .after("alice", publish("1"))
            .when("bob", items(" node='news'"))
            .told(&["<item jid='pubsub.example.org' name='1'", "! node='1'"]),
        row("5.5", "of a node that is not there").when("bob", items(" node='none'")).told(NOT_FOUND),
    ]);
}

#[test]
fn discovering_ones_own_subscriptions_and_affiliations() {
    play(&[
        noded("5.6", "a user's subscriptions, with their nodes")
            .after("bob", subscribe("bob"))
            .when("bob", get("<subscriptions/>"))
            .told(&["<subscription ", "node='news'", "jid='bob@example.org'", "subscription='subscribed'"]),
        noded("5.6", "to one node")
            .after("bob", subscribe("bob"))
            .when("bob", get("<subscriptions node='news'/>"))
            .told(&["<subscriptions node='news'>", "subscription='subscribed'"]),
        noded("5.6", "without any the answer MUST be an empty list")
            .when("bob", get("<subscriptions/>"))
            .told(&["type='result'", "<subscriptions/>"]),
        noded("5.7", "a user's affiliations").when("alice", get("<affiliations/>")).told(&[
            "<affiliation ",
            "node='news'",
            "affiliation='owner'",
        ]),
        noded("5.7", "without any the answer MUST be an empty list")
            .when("bob", get("<affiliations/>"))
            .told(&["type='result'", "<affiliations/>"]),
    ]);
}

#[test]
fn subscribing() {
    play(&[
        noded("6.1.2", "the answer MUST have the node, the address and the state")
            .when("bob", subscribe("bob"))
            .told(&["<subscription node='news' jid='bob@example.org' subscription='subscribed'>"]),
        noded("6.1.2", "a full address of the user may be subscribed")
            .when("bob", set("<subscribe node='news' jid='bob@example.org/desk'/>"))
            .told(&["jid='bob@example.org/desk'"]),
        noded("6.1.3.1", "another's address: bad-request, invalid-jid")
            .when("bob", subscribe("alice"))
            .told(&["<error type='modify'><bad-request", "<invalid-jid "]),
        noded("6.1.3.1", "none: bad-request, invalid-jid")
            .when("bob", set("<subscribe node='news'/>"))
            .told(&["<bad-request", "<invalid-jid "]),
        with_node(
            "6.1.3.4",
            "a whitelist: not-allowed, closed-node",
            &[("pubsub#access_model", "whitelist")],
        )
        .when("bob", subscribe("bob"))
        .told(&["<error type='cancel'><not-allowed", "<closed-node "]),
        with_node(
            "6.1.3.7",
            "one that waits: not-authorized, pending-subscription",
            &[("pubsub#access_model", "authorize")],
        )
        .after("bob", subscribe("bob"))
        .when("bob", subscribe("bob"))
        .told(&["<error type='auth'><not-authorized", "<pending-subscription "]),
        noded("6.1.3.8", "an outcast: forbidden")
            .after("alice", affiliate("bob", "outcast"))
            .when("bob", subscribe("bob"))
            .told(FORBIDDEN),
        row("6.1.3.12", "a node that is not there: item-not-found")
            .when("bob", subscribe("bob"))
            .told(NOT_FOUND),
        with_node(
            "6.1.4",
            "a subscription that an owner has to approve is pending",
            &[("pubsub#access_model", "authorize")],
        )
        .when("bob", subscribe("bob"))
        .told(&["subscription='pending'"]),
        noded("6.1.6", "a second subscription of an address is the first")
            .after("bob", subscribe("bob"))
            .when("bob", subscribe("bob"))
            .told(&["subscription='subscribed'"]),
        noded("6.1.7", "a new subscriber gets the newest item")
            .after("alice", publish("1"))
            .when("bob", subscribe("bob"))
            .told(&["<message ", "from='pubsub.example.org'", "<items node='news'><item id='1'"]),
    ]);
}

#[test]
fn unsubscribing() {
    play(&[
        noded("6.2.1", "an unsubscription gets a result")
            .after("bob", subscribe("bob"))
            .when("bob", set("<unsubscribe node='news' jid='bob@example.org'/>"))
            .told(DONE),
        noded("6.2.3.2", "not subscribed: unexpected-request, not-subscribed")
            .when("bob", set("<unsubscribe node='news' jid='bob@example.org'/>"))
            .told(&["<unexpected-request", "<not-subscribed "]),
        noded("6.2.3.3", "another's subscription: forbidden")
            .after("bob", subscribe("bob"))
            .when("eve", set("<unsubscribe node='news' jid='bob@example.org'/>"))
            .told(FORBIDDEN),
        row("6.2.3.4", "a node that is not there: item-not-found")
            .when("bob", set("<unsubscribe node='news' jid='bob@example.org'/>"))
            .told(NOT_FOUND),
        noded("6.2.3.5", "a subscription id where there are none is ignored")
            .after("bob", subscribe("bob"))
            .when("bob", set("<unsubscribe node='news' jid='bob@example.org' subid='1'/>"))
            .told(DONE),
    ]);
}

#[test]
fn reading() {
    play(&[
        noded("6.5.2", "all items, with their payload")
            .after("alice", publish("1"))
            .after("alice", publish("2"))
            .when("bob", get("<items node='news'/>"))
            .told(&["<items node='news'>", "<item id='2'", "<x xmlns='urn:x'>2</x>", "<item id='1'"]),
        noded("6.5.3", "a node without items: an empty list")
            .when("bob", get("<items node='news'/>"))
            .told(&["type='result'", "<items node='news'/>"]),
        noded("6.5.7", "the newest of them")
            .after("alice", publish("1"))
            .after("alice", publish("2"))
            .when("bob", get("<items node='news' max_items='1'/>"))
            .told(&["<item id='2'", "!<item id='1'"]),
        noded("6.5.8", "one of them")
            .after("alice", publish("1"))
            .after("alice", publish("2"))
            .when("bob", get("<items node='news'><item id='1'/></items>"))
            .told(&["<item id='1'", "!<item id='2'"]),
        with_node(
            "6.5.9.3",
            "of a node that needs a subscription: not-authorized, not-subscribed",
            &[("pubsub#access_model", "authorize")],
        )
        .when("bob", get("<items node='news'/>"))
        .told(&["<error type='auth'><not-authorized", "<not-subscribed "]),
        with_node(
            "6.5.9.8",
            "of a whitelist: not-allowed, closed-node",
            &[("pubsub#access_model", "whitelist")],
        )
        .when("bob", get("<items node='news'/>"))
        .told(&["<error type='cancel'><not-allowed", "<closed-node "]),
        noded("6.5.9.10", "an outcast: forbidden")
            .after("alice", affiliate("bob", "outcast"))
            .when("bob", get("<items node='news'/>"))
            .told(FORBIDDEN),
        with_node(
            "6.5.9.4",
            "of a node that keeps none: feature-not-implemented, persistent-items",
            &[("pubsub#persist_items", "0")],
        )
        .when("bob", get("<items node='news'/>"))
        .told(&["<feature-not-implemented", "feature='persistent-items'"]),
        row("6.5.9.11", "a node that is not there: item-not-found")
            .when("bob", get("<items node='news'/>"))
            .told(NOT_FOUND),
        noded("6.5.9.12", "items that are not there: an empty list")
            .when("bob", get("<items node='news'><item id='1'/></items>"))
            .told(&["type='result'", "<items node='news'/>"]),
        row("6.5", "without a node: bad-request, nodeid-required")
            .when("bob", get("<items/>"))
            .told(NODE_REQUIRED),
    ]);
}

#[test]
fn publishing() {
    let publishes = |inside: &str| set(&format!("<publish node='news'>{inside}</publish>"));
    play(&[
        noded("7.1.2", "the answer has the node and the item's id")
            .when("alice", publish("1"))
            .told(&["type='result'", "<publish node='news'><item id='1'/></publish>"]),
        noded("7.1.2", "an id of the service's where the publisher gives none")
            .when("alice", publishes("<item><x xmlns='urn:x'/></item>"))
            .told(&["<publish node='news'><item id='", "!id=''"]),
        noded("7.1.2", "an item of a known id replaces it")
            .after("alice", publish("1"))
            .after("alice", publishes("<item id='1'><y xmlns='urn:y'/></item>"))
            .when("bob", get("<items node='news'/>"))
            .told(&["<item id='1'", "<y xmlns='urn:y'/>", "!urn:x"]),
        noded("7.1.2.1", "subscribers get the item and its payload")
            .after("alice", subscribe("alice"))
            .when("alice", publish("1"))
            .told(&[
                "<message ",
                "from='pubsub.example.org'",
                "<event xmlns='http://jabber.org/protocol/pubsub#event'><items node='news'><item id='1'",
                "<x xmlns='urn:x'>1</x>",
            ]),
        with_node(
            "7.1.2.2",
            "without the payload where the node says so",
            &[("pubsub#deliver_payloads", "0")],
        )
        .after("alice", subscribe("alice"))
        .when("alice", publish("1"))
        .told(&["<items node='news'><item id='1'", "!<x xmlns='urn:x'>"]),
    ]);
}

#[test]
fn faults_of_publishing() {
    let publishes = |inside: &str| set(&format!("<publish node='news'>{inside}</publish>"));
    play(&[
        noded("7.1.3.1", "a user who may not: forbidden").when("bob", publish("1")).told(FORBIDDEN),
        row("7.1.3.3", "a node that is not there: item-not-found")
            .when("alice", publish("1"))
            .told(NOT_FOUND),
        noded("7.1.3.4", "a payload that is too large: not-acceptable, payload-too-big")
            .when(
                "alice",
                publishes(&format!("<item><x xmlns='urn:x'>{}</x></item>", "x".repeat(crate::limits::ITEM))),
            )
            .told(&["<error type='modify'><not-acceptable", "<payload-too-big "]),
        noded("7.1.3.5", "two payloads: bad-request, invalid-payload")
            .when("alice", publishes("<item><x xmlns='urn:x'/><y xmlns='urn:y'/></item>"))
            .told(&["<error type='modify'><bad-request", "<invalid-payload "]),
        noded("7.1.3.6", "no item: bad-request, item-required")
            .when("alice", publishes(""))
            .told(&["<bad-request", "<item-required "]),
        noded("7.1.3.6", "no payload: bad-request, payload-required")
            .when("alice", publishes("<item id='1'/>"))
            .told(&["<bad-request", "<payload-required "]),
        with_node(
            "7.1.3.6",
            "an item where there has to be none: bad-request, item-forbidden",
            &[("pubsub#persist_items", "0"), ("pubsub#deliver_payloads", "0")],
        )
        .when("alice", publish("1"))
        .told(&["<bad-request", "<item-forbidden "]),
        row("7.1.3", "no node: bad-request, nodeid-required")
            .when("alice", set("<publish><item><x xmlns='urn:x'/></item></publish>"))
            .told(NODE_REQUIRED),
    ]);
}

#[test]
fn retracting() {
    let retract = |attributes: &str, inside: &str| set(&format!("<retract{attributes}>{inside}</retract>"));
    let one = || retract(" node='news'", "<item id='1'/>");
    play(&[
        noded("7.2.2", "the answer is a result, and the item is gone")
            .after("alice", publish("1"))
            .when("alice", one())
            .told(DONE),
        noded("7.2.2", "it is not read any more")
            .after("alice", publish("1"))
            .after("alice", one())
            .when("bob", get("<items node='news'/>"))
            .told(&["type='result'", "!<item "]),
        noded("7.2.2.1", "subscribers hear of it where the publisher asks for that")
            .after("alice", subscribe("alice"))
            .after("alice", publish("1"))
            .when("alice", retract(" node='news' notify='true'", "<item id='1'/>"))
            .told(&["<items node='news'><retract id='1'/></items>"]),
        noded("7.2.3.1", "a user who may not: forbidden")
            .after("alice", publish("1"))
            .when("bob", one())
            .told(FORBIDDEN),
        row("7.2.3.2", "a node that is not there: item-not-found").when("alice", one()).told(NOT_FOUND),
        noded("7.2.3.2", "an item that is not there: item-not-found").when("alice", one()).told(NOT_FOUND),
        row("7.2.3.3", "no node: bad-request, nodeid-required")
            .when("alice", retract("", "<item id='1'/>"))
            .told(NODE_REQUIRED),
        noded("7.2.3.4", "no item: bad-request, item-required")
            .when("alice", retract(" node='news'", ""))
            .told(&["<bad-request", "<item-required "]),
        with_node(
            "7.2.3.5",
            "a node that keeps none: feature-not-implemented, persistent-items",
            &[("pubsub#persist_items", "0")],
        )
        .when("alice", one())
        .told(&["<feature-not-implemented", "feature='persistent-items'"]),
    ]);
}

#[test]
fn making() {
    play(&[
        row("8.1.1", "the answer is a result, and MUST NOT have the name that was asked for")
            .when("alice", set("<create node='news'/>"))
            .told(&["type='result'", "!<create", "!<error"]),
        row("8.1.2", "the creator of a node is its owner")
            .after("bob", set("<create node='news'/>"))
            .when("bob", get("<affiliations/>"))
            .told(&["node='news' affiliation='owner'"]),
        row("8.1.1", "a node without a name gets one, and the answer MUST have it")
            .when("alice", set("<create/>"))
            .told(&["type='result'", "<create node='"]),
        noded("8.1.1", "a name that is taken: conflict")
            .when("bob", set("<create node='news'/>"))
            .told(&["<error type='cancel'><conflict"]),
        with_node("8.1.3", "a node is made with a configuration", &[("pubsub#title", "What is new")])
            .when("alice", owner("get", "<configure node='news'/>"))
            .told(&["var='pubsub#title'", "<value>What is new</value>"]),
        row("8.1.3", "one that cannot be: not-acceptable")
            .when(
                "alice",
                set(&format!(
                    "<create node='news'/><configure>{}</configure>",
                    form(&[("pubsub#access_model", "presence")])
                )),
            )
            .told(&["<error type='modify'><not-acceptable"]),
        row("8.1.3", "and then there is no node")
            .after(
                "alice",
                set(&format!(
                    "<create node='news'/><configure>{}</configure>",
                    form(&[("pubsub#access_model", "presence")])
                )),
            )
            .when("alice", info(" node='news'"))
            .told(NOT_FOUND),
    ]);
}

#[test]
fn configuring() {
    let submit = |fields: &[(&str, &str)]| {
        owner("set", &format!("<configure node='news'>{}</configure>", form(fields)))
    };
    let cancel =
        || owner("set", "<configure node='news'><x xmlns='jabber:x:data' type='cancel'/></configure>");
    play(&[
        noded("8.2.1", "an owner gets the form")
            .when("alice", owner("get", "<configure node='news'/>"))
            .told(&[
                "<configure node='news'><x xmlns='jabber:x:data' type='form'>",
                "http://jabber.org/protocol/pubsub#node_config",
                "pubsub#access_model",
            ]),
        noded("8.2.3", "others do not: forbidden")
            .when("bob", owner("get", "<configure node='news'/>"))
            .told(FORBIDDEN),
        row("8.2.3", "no node: bad-request, nodeid-required")
            .when("alice", owner("get", "<configure/>"))
            .told(NODE_REQUIRED),
        row("8.2.3", "a node that is not there: item-not-found")
            .when("alice", owner("get", "<configure node='news'/>"))
            .told(NOT_FOUND),
        noded("8.2.4", "the form that is filled in is answered by a result")
            .when("alice", submit(&[("pubsub#title", "T")]))
            .told(DONE),
        noded("8.2.4", "fields that are not in it stay as they are")
            .after("alice", submit(&[("pubsub#title", "T")]))
            .after("alice", submit(&[("pubsub#max_items", "5")]))
            .when("alice", owner("get", "<configure node='news'/>"))
            .told(&["<value>T</value>", "!<value>5</value><value>"]),
        noded("8.2.4", "a form that is canceled changes nothing").when("alice", cancel()).told(DONE),
        noded("8.2.5", "others do not fill it in: forbidden")
            .when("bob", submit(&[("pubsub#title", "T")]))
            .told(FORBIDDEN),
        noded("8.2.5", "a value that cannot be: not-acceptable")
            .when("alice", submit(&[("pubsub#access_model", "nobody")]))
            .told(&["<error type='modify'><not-acceptable"]),
        with_node("8.2.5", "subscribers hear of it where the node says so", &[("pubsub#notify_config", "1")])
            .after("alice", subscribe("alice"))
            .when("alice", submit(&[("pubsub#title", "T")]))
            .told(&[
                "<event xmlns='http://jabber.org/protocol/pubsub#event'><configuration node='news'>",
                "<value>T</value>",
            ]),
        row("8.3", "the configuration that a new node has")
            .when("alice", owner("get", "<default/>"))
            .told(&["<default><x xmlns='jabber:x:data' type='form'>", "pubsub#access_model"]),
    ]);
}

#[test]
fn emptying_and_deleting() {
    let delete = || owner("set", "<delete node='news'/>");
    let purge = || owner("set", "<purge node='news'/>");
    play(&[
        noded("8.4.2", "the answer is a result").when("alice", delete()).told(DONE),
        noded("8.4.2", "the node is gone")
            .after("alice", delete())
            .when("alice", info(" node='news'"))
            .told(NOT_FOUND),
        noded("8.4.2", "subscribers hear of it")
            .after("alice", subscribe("alice"))
            .when("alice", delete())
            .told(&["<event xmlns='http://jabber.org/protocol/pubsub#event'><delete node='news'/></event>"]),
        noded("8.4.2", "and where it went to")
            .after("alice", subscribe("alice"))
            .when(
                "alice",
                owner("set", "<delete node='news'><redirect uri='xmpp:p.example.net?;node=n'/></delete>"),
            )
            .told(&["<delete node='news'><redirect uri='xmpp:p.example.net?;node=n'/></delete>"]),
        noded("8.4.3", "others do not delete: forbidden").when("bob", delete()).told(FORBIDDEN),
        row("8.4.3", "a node that is not there: item-not-found").when("alice", delete()).told(NOT_FOUND),
        noded("8.5.2", "the answer is a result")
            .after("alice", publish("1"))
            .when("alice", purge())
            .told(DONE),
        noded("8.5.2", "the items are gone, the node is there")
            .after("alice", publish("1"))
            .after("alice", purge())
            .when("bob", get("<items node='news'/>"))
            .told(&["type='result'", "<items node='news'/>"]),
        with_node(
            "8.5.2",
            "subscribers hear of it where the node says so",
            &[("pubsub#notify_retract", "1")],
        )
        .after("alice", subscribe("alice"))
        .after("alice", publish("1"))
        .when("alice", purge())
        .told(&["<purge node='news'/>"]),
        noded("8.5.3", "others do not purge: forbidden").when("bob", purge()).told(FORBIDDEN),
        with_node(
            "8.5.3",
            "a node that keeps none: feature-not-implemented, persistent-items",
            &[("pubsub#persist_items", "0")],
        )
        .when("alice", purge())
        .told(&["<feature-not-implemented", "feature='persistent-items'"]),
        row("8.5.3", "a node that is not there: item-not-found").when("alice", purge()).told(NOT_FOUND),
    ]);
}

#[test]
fn subscribers_of_a_node() {
    let list = || owner("get", "<subscriptions node='news'/>");
    play(&[
        noded("8.8.1.1", "an owner gets the list").after("bob", subscribe("bob")).when("alice", list()).told(
            &[
                "<subscriptions node='news'>",
                "<subscription jid='bob@example.org' subscription='subscribed'/>",
            ],
        ),
        noded("8.8.1.3", "others do not: forbidden").when("bob", list()).told(FORBIDDEN),
        row("8.8.1.3", "a node that is not there: item-not-found").when("alice", list()).told(NOT_FOUND),
        noded("8.8.2.1", "an owner subscribes a user")
            .after("alice", set_subscription("bob", "subscribed"))
            .when("alice", list())
            .told(&["jid='bob@example.org' subscription='subscribed'"]),
        noded("8.8.2.3", "others do not: forbidden")
            .when("bob", set_subscription("bob", "subscribed"))
            .told(FORBIDDEN),
        noded("8.8.2.3", "a state that is none: bad-request")
            .when("alice", set_subscription("bob", "friendly"))
            .told(&["<error type='modify'><bad-request"]),
        noded("8.8.4", "the user hears of it")
            .when("alice", set_subscription("alice", "subscribed"))
            .told(&["<subscription node='news' jid='alice@example.org' subscription='subscribed'/>"]),
    ]);
}

#[test]
fn elsewhere() {
    check_named(&[
        (
            "8.6",
            "an owner is asked about a subscription, and answers by the form",
            "chat/src/tests/pubsub_service.rs::a_subscriber_that_needs_approval_waits_for_an_owner",
        ),
        (
            "8.6",
            "the answer of others changes nothing, at an account too",
            "chat/src/tests/pubsub.rs::an_owner_answers_by_the_form_it_was_sent",
        ),
        (
            "7.1.2.1",
            "subscribers of other servers get items",
            "chat/src/tests/pubsub_service.rs::the_creator_of_a_node_owns_it_and_subscribers_get_published_items",
        ),
        (
            "7.1.5",
            "publish-options are preconditions",
            "chat/src/tests/pubsub.rs::publish_options_are_met_or_the_item_is_refused",
        ),
        (
            "6.5.4",
            "a part of the items, with the rest to be asked for",
            "chat/src/tests/pubsub.rs::items_come_by_id_by_number_and_in_pages",
        ),
        (
            "4.5",
            "each access model lets in the users that it names",
            "chat/src/tests/pubsub.rs::each_access_model_lets_in_only_its_readers",
        ),
        (
            "4.1",
            "each affiliation may do what the table says",
            "chat/src/tests/pubsub.rs::affiliations_and_publish_models_decide_the_right_to_publish",
        ),
    ]);
}

#[test]
fn affiliations_of_a_node() {
    let list = || owner("get", "<affiliations node='news'/>");
    play(&[
        noded("8.9.1.1", "an owner gets the list").when("alice", list()).told(&[
            "<affiliations node='news'>",
            "<affiliation jid='alice@example.org' affiliation='owner'/>",
        ]),
        noded("8.9.1.3", "others do not: forbidden").when("bob", list()).told(FORBIDDEN),
        row("8.9.1.3", "a node that is not there: item-not-found").when("alice", list()).told(NOT_FOUND),
        noded("8.9.2.1", "an owner sets an affiliation")
            .after("alice", affiliate("bob", "publisher"))
            .when("bob", publish("1"))
            .told(DONE),
        noded("8.9.2.1", "and takes it back")
            .after("alice", affiliate("bob", "publisher"))
            .after("alice", affiliate("bob", "none"))
            .when("bob", publish("1"))
            .told(FORBIDDEN),
        noded("8.9.2.1", "an outcast is subscribed no more")
            .after("bob", subscribe("bob"))
            .after("alice", affiliate("bob", "outcast"))
            .when("alice", owner("get", "<subscriptions node='news'/>"))
            .told(&["type='result'", "!bob"]),
        noded("8.9.2.3", "others do not: forbidden").when("bob", affiliate("bob", "owner")).told(FORBIDDEN),
        noded("8.9.2.3", "an affiliation that is none: bad-request")
            .when("alice", affiliate("bob", "king"))
            .told(&["<error type='modify'><bad-request"]),
        noded("8.9.2.3", "the last owner stays one: not-acceptable")
            .when("alice", affiliate("alice", "none"))
            .told(&["<error type='modify'><not-acceptable"]),
    ]);
}

/// Parts of the specification that are optional, and not built.
#[test]
fn optional_parts() {
    let command = "<command xmlns='http://jabber.org/protocol/commands' action='execute' \
                   node='http://jabber.org/protocol/pubsub#get-pending'/>";
    play(&[
        row("6.1.3.3", "access by the groups of a roster: a service has no roster")
            .when(
                "alice",
                set(&format!(
                    "<create node='news'/><configure>{}</configure>",
                    form(&[("pubsub#access_model", "roster")])
                )),
            )
            .told(&["<error type='modify'><not-acceptable"]),
        noded("6.1.3.5", "no subscription has to be paid for")
            .when("bob", subscribe("bob"))
            .told(&["subscription='subscribed'", "!payment-required"]),
        noded("6.1.6", "an address has one subscription, so there are no subscription ids")
            .after("bob", subscribe("bob"))
            .when("bob", subscribe("bob"))
            .told(&["subscription='subscribed'", "!subid"]),
        noded("8.2", "items have no time after which they are removed: the form has no such field")
            .when("alice", owner("get", "<configure node='news'/>"))
            .told(&["type='form'", "!item_expire"]),
        with_node(
            "8.7",
            "requests that wait are in the list of subscriptions",
            &[("pubsub#access_model", "authorize")],
        )
        .after("bob", subscribe("bob"))
        .when("alice", owner("get", "<subscriptions node='news'/>"))
        .told(&["jid='bob@example.org' subscription='pending'"]),
        noded("8.7", "the command `get-pending` is not there")
            .when("alice", iq("set", SERVICE, command))
            .told(&["type='error'", "<error type='cancel'>", "<service-unavailable"]),
    ]);
}

#[test]
fn several_changes_at_once() {
    let twice = |what: &str, values: [&str; 2]| {
        let items = values.map(|value| format!("<{what} jid='bob@example.org' {what}='{value}'/>"));
        format!("<{what}s node='news'>{}</{what}s>", items.concat())
    };
    let subscriptions = || {
        let one = "<subscription jid='bob@example.org' subscription='subscribed'/>";
        let other = "<subscription jid='eve@example.org' subscription='friendly'/>";
        owner("set", &format!("<subscriptions node='news'>{one}{other}</subscriptions>"))
    };
    let affiliations = || {
        let one = "<affiliation jid='bob@example.org' affiliation='publisher'/>";
        let other = "<affiliation jid='eve@example.org' affiliation='king'/>";
        owner("set", &format!("<affiliations node='news'>{one}{other}</affiliations>"))
    };
    play(&[
        noded("8.8.2.4", "subscriptions of which one cannot be are refused")
            .when("alice", subscriptions())
            .told(&["<error type='modify'><bad-request"]),
        noded("8.8.2.4", "and none is changed")
            .after("alice", subscriptions())
            .when("alice", owner("get", "<subscriptions node='news'/>"))
            .told(&["type='result'", "<subscriptions node='news'/>"]),
        noded("8.8.2.4", "several of one address, which have no subscription ids: bad-request")
            .when("alice", owner("set", &twice("subscription", ["subscribed", "none"])))
            .told(&["<error type='modify'><bad-request"]),
        noded("8.9.2.4", "several affiliations of one entity: bad-request")
            .when("alice", owner("set", &twice("affiliation", ["publisher", "none"])))
            .told(&["<error type='modify'><bad-request"]),
        noded("8.9.2.4", "affiliations of which one cannot be are refused")
            .when("alice", affiliations())
            .told(&["<error type='modify'><bad-request"]),
        noded("8.9.2.4", "and none is changed")
            .after("alice", affiliations())
            .when("alice", owner("get", "<affiliations node='news'/>"))
            .told(&["type='result'", "jid='alice@example.org' affiliation='owner'", "!bob"]),
    ]);
}

/// The numbers of the clients of `stage`.
const OWNER: u64 = 1;
const BOB: u64 = 2;

fn stage_with_node() -> HostWorld {
    let mut world = stage();
    world.say(OWNER, &set("<create node='news'/>"));
    world.hear(OWNER);
    world
}

/// §7.1.2: "each event notification SHOULD have an 'id'", which is another one for each stanza.
#[test]
fn each_notification_has_an_id_of_its_own() {
    let mut world = stage_with_node();
    world.say(BOB, &subscribe("bob"));
    world.hear(BOB);
    world.say(OWNER, &publish("1"));
    world.say(OWNER, &publish("2"));
    world.say(BOB, &set("<unsubscribe node='news' jid='bob@example.org'/>"));
    // The newest item comes with a subscription (§6.1.7).
    world.say(BOB, &subscribe("bob"));
    let got = world.got.remove(&BOB).unwrap_or_default();
    let messages = got.iter().filter(|stanza| stanza.name() == "message");
    let mut ids: Vec<&str> = messages.map(|message| message.attr("id").unwrap_or_default()).collect();
    assert_eq!(ids.len(), 3, "{got:?}");
    ids.sort_unstable();
    ids.dedup();
    assert!(ids.len() == 3 && ids.iter().all(|id| !id.is_empty()), "{ids:?}");
}

/// §8.9.4 (MAY): the user is not told.
#[test]
fn a_change_of_an_affiliation_is_told_to_its_owner_only() {
    let mut world = stage_with_node();
    world.say(OWNER, &affiliate("bob", "publisher"));
    assert!(world.hear(OWNER).concat().contains("type='result'"));
    assert_eq!(world.hear(BOB), [""; 0]);
}

/// §9.1: subscriptions by presence are for services with a roster. Those of accounts are in `pep.rs`.
#[test]
fn presence_subscribes_to_no_node_of_a_service() {
    let mut world = stage_with_node();
    let caps = "<c xmlns='http://jabber.org/protocol/caps' hash='sha-1' node='urn:x' ver='x'/>";
    world.say(BOB, &format!("<presence to='{SERVICE}'>{caps}</presence>"));
    world.hear(BOB);
    world.say(OWNER, &publish("1"));
    assert!(world.hear(OWNER).concat().contains("type='result'"));
    assert_eq!(world.hear(BOB), [""; 0]);
}

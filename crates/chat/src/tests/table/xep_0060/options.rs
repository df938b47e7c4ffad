//! XEP-0060 §6.3, §6.4, §12.4 and §12.17: options of subscriptions, of a service's nodes and of an account's.

use super::super::super::pubsub as account;
use super::*;

/// A submitted form of options.
fn submit(fields: &[(&str, &[&str])]) -> String {
    let field = |(var, values): &(&str, &[&str])| {
        let values: String = values.iter().map(|value| format!("<value>{value}</value>")).collect();
        format!("<field var='{var}'>{values}</field>")
    };
    let kind = field(&("FORM_TYPE", &["http://jabber.org/protocol/pubsub#subscribe_options"]));
    let fields: String = fields.iter().map(field).collect();
    format!("<x xmlns='jabber:x:data' type='submit'>{kind}{fields}</x>")
}

fn get_options(user: &str) -> String {
    get(&format!("<options node='news' jid='{user}@example.org'/>"))
}

fn set_form(user: &str, form: &str) -> String {
    set(&format!("<options node='news' jid='{user}@example.org'>{form}</options>"))
}

fn set_options(user: &str, fields: &[(&str, &[&str])]) -> String {
    set_form(user, &submit(fields))
}

/// A request to subscribe, with options.
fn subscribe_with(user: &str, options: &str) -> String {
    set(&format!("<subscribe node='news' jid='{user}@example.org'/>{options}"))
}

/// A row after Bob has subscribed to the node.
fn subscribed(section: &'static str, demand: &'static str) -> Row {
    noded(section, demand).after("bob", subscribe("bob"))
}

/// A row after Alice has subscribed to her own node, so that she gets the events of what she does.
fn subscribed_owner(section: &'static str, demand: &'static str) -> Row {
    noded(section, demand).after("alice", subscribe("alice"))
}

fn presence(inside: &str) -> String {
    format!("<presence to='{SERVICE}'>{inside}</presence>")
}

fn gone() -> String {
    format!("<presence type='unavailable' to='{SERVICE}'/>")
}

/// The reason why options are refused, a field, and its values.
type Refused = (&'static str, &'static str, &'static [&'static str]);

const SILENT: &[(&str, &[&str])] = &[("pubsub#deliver", &["0"])];
const TEMPORARY: &[(&str, &[&str])] = &[("pubsub#expire", &["presence"])];
const CHATTY: &[(&str, &[&str])] = &[("pubsub#show-values", &["chat", "online"])];
const NOT_SUBSCRIBED: &[&str] = &["type='error'", "<unexpected-request", "<not-subscribed "];
const INVALID: &[&str] = &["<error type='modify'><bad-request", "<invalid-options "];
const BAD_REQUEST: &[&str] = &["<error type='modify'><bad-request", "!invalid-options"];

#[test]
fn reading_options() {
    play(&[
        row("6.3.1", "a service with options MUST have the feature").when("bob", info("")).told(&[
            "var='http://jabber.org/protocol/pubsub#leased-subscription'",
            "var='http://jabber.org/protocol/pubsub#retrieve-default-sub'",
            "var='http://jabber.org/protocol/pubsub#subscription-options'",
        ]),
        noded("6.1.5", "the answer to a subscription says that there are options, and that none is required")
            .when("bob", subscribe("bob"))
            .told(&["subscription='subscribed'><subscribe-options/></subscription>", "!<required"]),
        subscribed("6.3.3", "the answer MUST be the options: a form with the registered fields")
            .when("bob", get_options("bob"))
            .told(&[
                "type='result'",
                "<options node='news' jid='bob@example.org'><x xmlns='jabber:x:data' type='form'>",
                "type='hidden'><value>http://jabber.org/protocol/pubsub#subscribe_options</value>",
                "<field var='pubsub#deliver' type='boolean'><value>1</value></field>",
                "<field var='pubsub#expire' type='text-single'/>",
                "<field var='pubsub#show-values' type='list-multi'><value>away</value>",
                "<option><value>away</value></option>",
            ]),
        with_node("6.3.3", "of a subscription that waits, too", &[("pubsub#access_model", "authorize")])
            .after("bob", subscribe("bob"))
            .when("bob", get_options("bob"))
            .told(&["type='result'", "pubsub#deliver"]),
        subscribed("6.3.4.1", "another's options: forbidden").when("eve", get_options("bob")).told(FORBIDDEN),
        subscribed("6.3.4.1", "for the owner of the node, too")
            .when("alice", get_options("bob"))
            .told(FORBIDDEN),
        subscribed("6.3.4.1", "nor may others set them")
            .when("eve", set_options("bob", SILENT))
            .told(FORBIDDEN),
        noded("6.3.4.2", "not subscribed: unexpected-request, not-subscribed")
            .when("bob", get_options("bob"))
            .told(NOT_SUBSCRIBED),
        noded("6.3.4.2", "when they are set, too")
            .when("bob", set_options("bob", SILENT))
            .told(NOT_SUBSCRIBED),
        subscribed("6.3.4.2", "another address of the same account")
            .when("bob", get("<options node='news' jid='bob@example.org/desk'/>"))
            .told(NOT_SUBSCRIBED),
        subscribed("6.3.4.3", "no address: bad-request, jid-required")
            .when("bob", get("<options node='news'/>"))
            .told(&["<error type='modify'><bad-request", "<jid-required "]),
        subscribed("6.3.4.3", "no node: bad-request, nodeid-required, as there is no root collection")
            .when("bob", get("<options jid='bob@example.org'/>"))
            .told(NODE_REQUIRED),
        subscribed("6.3.4.5", "a subscription id where there are none is ignored")
            .when("bob", get("<options node='news' jid='bob@example.org' subid='1'/>"))
            .told(&["type='result'", "pubsub#deliver", "!subid"]),
        row("6.3.4.7", "a node that is not there: item-not-found")
            .when("bob", get_options("bob"))
            .told(NOT_FOUND),
    ]);
}

#[test]
fn reading_default_options() {
    play(&[
        row("6.4.2", "the options that a new subscription has").when("bob", get("<default/>")).told(&[
            "<default><x xmlns='jabber:x:data' type='result'>",
            "pubsub#deliver",
            "<value>1</value>",
        ]),
        noded("6.4.2", "that a new subscription of a node has")
            .when("bob", get("<default node='news'/>"))
            .told(&["<default node='news'><x xmlns='jabber:x:data' type='result'>", "pubsub#deliver"]),
        row("6.4", "of a node that is not there").when("bob", get("<default node='news'/>")).told(NOT_FOUND),
    ]);
}

#[test]
fn setting_options() {
    const IMPOSSIBLE: [Refused; 6] = [
        ("a boolean that is none", "pubsub#deliver", &["perhaps"]),
        ("an end that is no date", "pubsub#expire", &["tomorrow"]),
        ("an end that is over", "pubsub#expire", &["2006-02-28T11:59:00Z"]),
        ("a presence that is none", "pubsub#show-values", &["chat", "busy"]),
        ("no presence at all", "pubsub#show-values", &[]),
        ("a form of another type", "FORM_TYPE", &["http://jabber.org/protocol/pubsub#node_config"]),
    ];
    let refused = IMPOSSIBLE.map(|(demand, field, values)| {
        subscribed("6.3.6.2", demand).when("bob", set_options("bob", &[(field, values)])).told(INVALID)
    });
    play(&refused);
    let other_form = |kind: &str| format!("<x xmlns='jabber:x:data' type='{kind}'/>");
    play(&[
        subscribed("6.3.6.1", "the form that is filled in is answered by a result")
            .when("bob", set_options("bob", SILENT))
            .told(&["type='result'", "!<options"]),
        subscribed("6.3.6.1", "the options are these from now on")
            .after("bob", set_options("bob", SILENT))
            .when("bob", get_options("bob"))
            .told(&["<field var='pubsub#deliver' type='boolean'><value>0</value></field>"]),
        subscribed("6.3.6.1", "options that the form does not have stay as they are")
            .after("bob", set_options("bob", SILENT))
            .after("bob", set_options("bob", CHATTY))
            .when("bob", get_options("bob"))
            .told(&[
                "<value>0</value>",
                "type='list-multi'><value>chat</value><value>online</value><option>",
            ]),
        subscribed("6.3.6.1", "fields that the form does not have are ignored: digests are not built")
            .when("bob", set_options("bob", &[("pubsub#digest", &["1"]), ("pubsub#deliver", &["1"])]))
            .told(DONE),
        subscribed("6.3.6.1", "a form that is canceled changes nothing")
            .when("bob", set_form("bob", &other_form("cancel")))
            .told(DONE),
        subscribed("6.3.6.2", "no form at all").when("bob", set_form("bob", "")).told(INVALID),
        subscribed("6.3.6.2", "a form that is not filled in")
            .when("bob", set_form("bob", &other_form("form")))
            .told(INVALID),
        subscribed("6.3.6.2", "and nothing of the form is set")
            .after("bob", set_options("bob", &[("pubsub#deliver", &["0"]), ("pubsub#expire", &["tomorrow"])]))
            .when("bob", get_options("bob"))
            .told(&["<field var='pubsub#deliver' type='boolean'><value>1</value></field>"]),
    ]);
}

#[test]
fn subscribing_with_options() {
    let options = |fields: &[(&str, &[&str])]| format!("<options>{}</options>", submit(fields));
    play(&[
        noded("6.3.7", "the answer has the subscription and the resulting options, a form of type `result`")
            .when("bob", subscribe_with("bob", &options(SILENT)))
            .told(&[
                "<subscription node='news' jid='bob@example.org' subscription='subscribed'>",
                "<options><x xmlns='jabber:x:data' type='result'>",
                "<field var='pubsub#deliver' type='boolean'><value>0</value></field>",
            ]),
        noded("6.3.7", "the subscription has these options")
            .after("bob", subscribe_with("bob", &options(SILENT)))
            .when("bob", get_options("bob"))
            .told(&["<field var='pubsub#deliver' type='boolean'><value>0</value></field>"]),
        noded("6.3.7", "`<options/>` MUST NOT have a node")
            .when("bob", subscribe_with("bob", "<options node='news'/>"))
            .told(BAD_REQUEST),
        noded("6.3.7", "or an address")
            .when("bob", subscribe_with("bob", "<options jid='bob@example.org'/>"))
            .told(BAD_REQUEST),
        subscribed("6.3.7", "it MUST follow `<subscribe/>`")
            .when(
                "bob",
                set("<options node='news' jid='bob@example.org'/><subscribe node='news' jid='bob@example.org'/>"),
            )
            .told(BAD_REQUEST),
        noded("6.3.7", "options that cannot be are refused")
            .when("bob", subscribe_with("bob", &options(&[("pubsub#deliver", &["perhaps"])])))
            .told(INVALID),
        noded("6.3.7", "and there is no subscription then")
            .after("bob", subscribe_with("bob", &options(&[("pubsub#deliver", &["perhaps"])])))
            .when("bob", get("<subscriptions/>"))
            .told(&["type='result'", "<subscriptions/>"]),
        subscribed("6.1.6", "a second subscription of an address is the first, with these options")
            .after("bob", subscribe_with("bob", &options(SILENT)))
            .when("bob", get_options("bob"))
            .told(&["<field var='pubsub#deliver' type='boolean'><value>0</value></field>"]),
        noded("6.1.7", "a subscriber that wants no events does not get the newest item")
            .after("alice", publish("1"))
            .when("bob", subscribe_with("bob", &options(SILENT)))
            .told(&["subscription='subscribed'", "!<event"]),
    ]);
}

#[test]
fn delivering_by_options() {
    play(&[
        subscribed_owner("12.2", "notifications adhere to the options: none without `pubsub#deliver`")
            .after("alice", set_options("alice", SILENT))
            .when("alice", publish("1"))
            .told(&["type='result'", "!<event"]),
        subscribed_owner("12.2", "and all with it again")
            .after("alice", set_options("alice", SILENT))
            .after("alice", set_options("alice", &[("pubsub#deliver", &["1"])]))
            .when("alice", publish("1"))
            .told(&[
                "<event xmlns='http://jabber.org/protocol/pubsub#event'><items node='news'><item id='1'",
            ]),
        subscribed_owner("16.4.2", "with `pubsub#show-values` none in another presence")
            .after("alice", set_options("alice", CHATTY))
            .after("alice", presence("<show>dnd</show>"))
            .when("alice", publish("1"))
            .told(&["type='result'", "!<event"]),
        subscribed_owner("16.4.2", "and all in one of these")
            .after("alice", set_options("alice", CHATTY))
            .after("alice", presence("<show>dnd</show>"))
            .after("alice", presence(""))
            .when("alice", publish("1"))
            .told(&["<item id='1'"]),
        subscribed_owner("16.4.2", "none after the presence has ended")
            .after("alice", set_options("alice", CHATTY))
            .after("alice", presence(""))
            .after("alice", gone())
            .when("alice", publish("1"))
            .told(&["type='result'", "!<event"]),
        subscribed_owner("16.4.2", "a presence that the service does not know keeps nothing back")
            .after("alice", set_options("alice", CHATTY))
            .when("alice", publish("1"))
            .told(&["<item id='1'"]),
    ]);
}

#[test]
fn bodies_of_events() {
    let entry = "<publish node='news'><item id='1'><entry xmlns='http://www.w3.org/2005/Atom'>\
                 <title>Alone</title></entry></item></publish>";
    let entry = || set(entry);
    let with_body: &[(&str, &[&str])] = &[("pubsub#include_body", &["1"])];
    let atom = |section, demand| {
        with_node(section, demand, &[("pubsub#type", "http://www.w3.org/2005/Atom")])
            .after("alice", subscribe("alice"))
    };
    play(&[
        atom("12.7", "a node whose payload is understood has the option")
            .when("alice", get_options("alice"))
            .told(&["<field var='pubsub#include_body' type='boolean'><value>0</value></field>"]),
        subscribed_owner("12.7", "other nodes MUST NOT have it")
            .when("alice", get_options("alice"))
            .told(&["pubsub#deliver", "!include_body"]),
        atom("12.7", "with it an event has a body beside the payload")
            .after("alice", set_options("alice", with_body))
            .when("alice", entry())
            .told(&["<body>Alone</body><event ", "<title>Alone</title>"]),
        atom("12.7", "without it an event has none")
            .when("alice", entry())
            .told(&["<title>Alone</title>", "!<body"]),
        atom("12.7", "nor has one whose payload is not understood")
            .after("alice", set_options("alice", with_body))
            .when("alice", publish("1"))
            .told(&["<item id='1'", "!<body"]),
        with_node("12.7", "the newest item has one too", &[("pubsub#type", "http://www.w3.org/2005/Atom")])
            .after("alice", entry())
            .when("alice", subscribe_with("alice", &format!("<options>{}</options>", submit(with_body))))
            .told(&["<body>Alone</body><event "]),
    ]);
}

#[test]
fn temporary_subscriptions() {
    let temporary = |section, demand| {
        subscribed(section, demand).after("bob", presence("")).after("bob", set_options("bob", TEMPORARY))
    };
    play(&[
        subscribed("12.4", "a subscription may end with the presence")
            .after("bob", presence(""))
            .when("bob", set_options("bob", TEMPORARY))
            .told(DONE),
        temporary("12.4", "its options say so")
            .when("bob", get_options("bob"))
            .told(&["<field var='pubsub#expire' type='text-single'><value>presence</value></field>"]),
        temporary("12.4", "it is as it was while the presence changes")
            .after("bob", presence("<show>away</show>"))
            .when("bob", get("<subscriptions/>"))
            .told(&["subscription='subscribed'"]),
        temporary("12.4", "it ends when the presence does")
            .after("bob", gone())
            .when("bob", get("<subscriptions/>"))
            .told(&["type='result'", "<subscriptions/>"]),
        temporary("12.4", "also with the session, whose server sends the end")
            .after("bob", "<presence type='unavailable'/>")
            .when("bob", get_options("bob"))
            .told(NOT_SUBSCRIBED),
        temporary("12.4", "and does not come back with the next presence")
            .after("bob", gone())
            .after("bob", presence(""))
            .when("bob", get_options("bob"))
            .told(NOT_SUBSCRIBED),
        subscribed("12.4", "without a presence that could end: bad-request, invalid-options")
            .when("bob", set_options("bob", TEMPORARY))
            .told(INVALID),
    ]);
}

/// The numbers of the clients of `stage`.
const ALICE: u64 = 1;
const BOB: u64 = 2;

fn say(world: &mut HostWorld, client: u64, xml: &str) -> String {
    world.say(client, xml);
    world.hear(client).concat()
}

/// Alice's node, to which Bob is subscribed with a lease of an hour.
fn leased() -> HostWorld {
    let mut world = stage_with_node();
    let end = xmpp::time::stamp(world.now + HOUR);
    let options = format!("<options>{}</options>", submit(&[("pubsub#expire", &[&end])]));
    let told = say(&mut world, BOB, &subscribe_with("bob", &options));
    assert!(told.contains(&format!("<value>{end}</value>")), "{told}");
    world
}

const HOUR: Duration = Duration::from_secs(3_600);

/// The host has been started again, and its clients have signed in.
fn restart(world: &mut HostWorld) -> [u64; 2] {
    world.host = Host::new(Arc::new(settings()), ShardAddress::default(), [2; 32]);
    ["alice@example.org/new", "bob@example.org/new"].map(|jid| {
        let client = world.sign_in(jid);
        world.say(client, "<presence/>");
        world.hear(client);
        client
    })
}

/// §12.17: "expire old or stale subscriptions".
#[test]
fn a_subscription_is_gone_after_its_lease() {
    let mut world = leased();
    say(&mut world, ALICE, &publish("1"));
    assert!(world.hear(BOB).concat().contains("<item id='1'"));
    world.wait(HOUR - Duration::from_millis(1));
    say(&mut world, ALICE, &publish("2"));
    assert!(world.hear(BOB).concat().contains("<item id='2'"));
    world.wait(Duration::from_millis(1));
    say(&mut world, ALICE, &publish("3"));
    assert_eq!(world.hear(BOB), [""; 0]);
    assert!(say(&mut world, BOB, &get("<subscriptions/>")).contains("<subscriptions/>"));
    assert!(say(&mut world, BOB, &get_options("bob")).contains("<not-subscribed "));
    let list = say(&mut world, ALICE, &owner("get", "<subscriptions node='news'/>"));
    assert!(list.contains("<subscriptions node='news'/>"), "{list}");
    // A new subscription is not the old one.
    assert!(say(&mut world, BOB, &subscribe("bob")).contains("<item id='3'"));
    assert!(
        say(&mut world, BOB, &get_options("bob")).contains("<field var='pubsub#expire' type='text-single'/>")
    );
}

/// §12.17: "When the subscriber wants to renew the lease, it would get the current subscription options, change the value of the
/// \"pubsub#expire\" field, and submit the new subscription options back".
#[test]
fn a_lease_is_renewed_and_has_a_longest_time() {
    let mut world = leased();
    let expire = |at: Instant| set_options("bob", &[("pubsub#expire", &[&xmpp::time::stamp(at)])]);
    let later = expire(world.now + 2 * HOUR);
    assert!(say(&mut world, BOB, &later).contains("type='result'"));
    world.wait(HOUR);
    assert!(say(&mut world, BOB, &get("<subscriptions/>")).contains("subscription='subscribed'"));
    let longest = ::pubsub::limits::SUBSCRIPTION_LEASE;
    let far = expire(world.now + longest + HOUR);
    assert!(say(&mut world, BOB, &far).contains("type='result'"));
    let told = say(&mut world, BOB, &get_options("bob"));
    assert!(told.contains(&xmpp::time::stamp(world.now + longest)), "{told}");
    // A form without a value takes the end away.
    assert!(say(&mut world, BOB, &set_options("bob", &[("pubsub#expire", &[])])).contains("type='result'"));
    world.wait(longest);
    assert!(say(&mut world, BOB, &get("<subscriptions/>")).contains("subscription='subscribed'"));
}

/// An expired subscription counts as none: for the right to publish, and for the limit of subscriptions.
#[test]
fn an_ended_subscription_gives_no_right_and_takes_no_place() {
    let mut world = leased();
    let configure =
        format!("<configure node='news'>{}</configure>", form(&[("pubsub#publish_model", "subscribers")]));
    say(&mut world, ALICE, &owner("set", &configure));
    assert!(say(&mut world, BOB, &publish("1")).contains("type='result'"));
    let end = xmpp::time::stamp(world.now + HOUR);
    let options = format!("<options>{}</options>", submit(&[("pubsub#expire", &[&end])]));
    let one_more = |world: &mut HostWorld, number: usize| {
        let subscribe = format!("<subscribe node='news' jid='bob@example.org/{number}'/>{options}");
        say(world, BOB, &set(&subscribe))
    };
    for number in 1..crate::limits::SUBSCRIPTIONS_OF_USER {
        assert!(one_more(&mut world, number).contains("subscription='subscribed'"));
    }
    assert!(one_more(&mut world, 0).contains("too-many-subscriptions"));
    world.wait(HOUR);
    assert!(say(&mut world, BOB, &publish("2")).contains("<forbidden"));
    assert!(say(&mut world, BOB, &subscribe("bob")).contains("subscription='subscribed'"));
}

/// Options are in the store: a lease is, and a subscription that ends with a presence ends with the process that knew it.
#[test]
fn options_outlive_a_restart() {
    let mut world = leased();
    say(&mut world, ALICE, &subscribe("alice"));
    say(&mut world, ALICE, &set_options("alice", SILENT));
    let [alice, bob] = restart(&mut world);
    let told = say(&mut world, alice, &publish("1"));
    assert!(told.contains("type='result'") && !told.contains("<event"), "{told}");
    assert!(world.hear(bob).concat().contains("<item id='1'"));
    world.wait(HOUR);
    let [_, bob] = restart(&mut world);
    assert!(say(&mut world, bob, &get_options("bob")).contains("<not-subscribed "));
    world.say(bob, &presence(""));
    say(&mut world, bob, &subscribe_with("bob", &format!("<options>{}</options>", submit(TEMPORARY))));
    assert!(say(&mut world, bob, &get_options("bob")).contains("<value>presence</value>"));
    let [_, bob] = restart(&mut world);
    assert!(say(&mut world, bob, &get_options("bob")).contains("<not-subscribed "));
    world.say(bob, &presence(""));
    assert!(say(&mut world, bob, &get_options("bob")).contains("<not-subscribed "));
}

/// The options of a subscription that waits are those that it has when an owner has approved it, in either way.
#[test]
fn options_stay_when_a_subscription_is_approved() {
    for by_form in [true, false] {
        let mut world = stage();
        let authorize = form(&[("pubsub#access_model", "authorize")]);
        say(&mut world, ALICE, &set(&format!("<create node='news'/><configure>{authorize}</configure>")));
        let options = format!("<options>{}</options>", submit(SILENT));
        assert!(say(&mut world, BOB, &subscribe_with("bob", &options)).contains("subscription='pending'"));
        if by_form {
            let kind = "http://jabber.org/protocol/pubsub#subscribe_authorization";
            let fields = [
                ("FORM_TYPE", kind),
                ("pubsub#node", "news"),
                ("pubsub#subscriber_jid", "bob@example.org"),
                ("pubsub#allow", "1"),
            ];
            let field = |(var, value)| format!("<field var='{var}'><value>{value}</value></field>");
            let form: String = fields.map(field).concat();
            let form = format!("<x xmlns='jabber:x:data' type='submit'>{form}</x>");
            world.say(ALICE, &format!("<message to='{SERVICE}'>{form}</message>"));
        } else {
            say(&mut world, ALICE, &set_subscription("bob", "subscribed"));
        }
        assert!(world.hear(BOB).concat().contains("subscription='subscribed'"));
        say(&mut world, ALICE, &publish("1"));
        assert_eq!(world.hear(BOB), [""; 0], "{by_form}");
    }
}

/// The presence of other servers' clients is not kept: their forms have no option that depends on it.
#[test]
fn a_subscriber_of_another_server_has_no_options_by_presence() {
    let mut world = stage_with_node();
    let mut ask = |kind: &str, inside: &str| {
        let pubsub = format!("<pubsub xmlns='{PUBSUB}'>{inside}</pubsub>");
        world.arrive(&format!("<iq id='q' type='{kind}' from='eve@x.org/1' to='{SERVICE}'>{pubsub}</iq>"));
        world.sent_abroad().concat()
    };
    ask("set", "<subscribe node='news' jid='eve@x.org'/>");
    let told = ask("get", "<options node='news' jid='eve@x.org'/>");
    assert!(told.contains("pubsub#expire") && !told.contains("pubsub#show-values"), "{told}");
    let set = |fields| format!("<options node='news' jid='eve@x.org'>{}</options>", submit(fields));
    assert!(ask("set", &set(TEMPORARY)).contains("<invalid-options "));
    assert!(ask("set", &set(SILENT)).contains("type='result'"));
    // A presence changes nothing of it.
    world.arrive(&format!("<presence from='eve@x.org/1' to='{SERVICE}'/>"));
    say(&mut world, ALICE, &publish("1"));
    assert_eq!(world.sent_abroad(), [""; 0]);
}

/// §12.17 at an account (XEP-0163): leases and delivery are as at a service. Presence is not: there clients ask by their features
/// for the events that they want (§9.2), whatever the options of a subscription.
#[test]
fn an_accounts_node_has_options_without_presence() {
    let (mut world, alice, bob, eve) = account::world();
    account::create(&mut world, alice, "n", &[("access_model", "open")]);
    world.say(eve, "<presence/>");
    account::set(&mut world, eve, account::ALICE, "<subscribe node='n' jid='eve@example.org'/>");
    let options = |inside: &str| format!("<options node='n' jid='eve@example.org'>{inside}</options>");
    let told = account::get(&mut world, eve, account::ALICE, &options(""));
    assert!(told.contains("pubsub#expire") && !told.contains("pubsub#show-values"), "{told}");
    let told = account::set(&mut world, eve, account::ALICE, &options(&submit(TEMPORARY)));
    account::is_error(&told, "bad-request", "invalid-options");
    let end = xmpp::time::stamp(world.now + HOUR);
    let lease = options(&submit(&[("pubsub#expire", &[&end])]));
    assert!(account::set(&mut world, eve, account::ALICE, &lease).contains("type='result'"));
    account::publish(&mut world, alice, "n", "a");
    assert_eq!(account::events(&mut world, eve).len(), 1);
    world.wait(HOUR);
    account::publish(&mut world, alice, "n", "b");
    assert!(account::events(&mut world, eve).is_empty());
    // Bob's client asks by its features.
    account::appear(&mut world, bob, &["n"]);
    let silent = format!("<options>{}</options>", submit(SILENT));
    let subscribe = format!("<subscribe node='n' jid='bob@example.org'/>{silent}");
    assert!(account::set(&mut world, bob, account::ALICE, &subscribe).contains("subscription='subscribed'"));
    account::events(&mut world, bob);
    account::publish(&mut world, alice, "n", "c");
    assert_eq!(account::events(&mut world, bob).len(), 1);
}

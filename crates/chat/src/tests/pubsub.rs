//! Nodes of accounts: access, storage, and notifications.

use super::effect::{RosterItem, Subscription};
use super::*;

pub(super) const ALICE: &str = "alice@example.org";
const BOB: &str = "bob@example.org";
pub(super) const EVE: &str = "eve@example.org";
pub(super) const SPACE: &str = "http://jabber.org/protocol/pubsub";

/// Bob is subscribed to Alice's presence and is in a roster group of hers; Eve is a stranger to her.
pub(super) fn world() -> (HostWorld, u64, u64, u64) {
    let mut world = HostWorld::new(&[ALICE, BOB, EVE]);
    let mut know = |user: &str, contact: &str, groups: &[&str]| {
        let groups = groups.iter().map(|group| Box::from(*group)).collect();
        let subscription = Subscription::Both;
        let item = RosterItem { subscription, is_listed: true, groups, ..Default::default() };
        let store = world.store.users.get_mut(&Bare::parse(user).unwrap()).unwrap();
        store.roster.push((Bare::parse(contact).unwrap(), item));
    };
    know(ALICE, BOB, &["friends"]);
    know(BOB, ALICE, &[]);
    let clients = ["alice@example.org/desk", "bob@example.org/phone", "eve@example.org/den"];
    let [alice, bob, eve] = clients.map(|jid| world.sign_in(jid));
    (world, alice, bob, eve)
}

pub(super) fn set(world: &mut HostWorld, client: u64, to: &str, inner: &str) -> String {
    ask(world, client, "set", to, &format!("<pubsub xmlns='{SPACE}'>{inner}</pubsub>"))
}

pub(super) fn get(world: &mut HostWorld, client: u64, to: &str, inner: &str) -> String {
    ask(world, client, "get", to, &format!("<pubsub xmlns='{SPACE}'>{inner}</pubsub>"))
}

pub(super) fn own(world: &mut HostWorld, client: u64, kind: &str, inner: &str) -> String {
    ask(world, client, kind, ALICE, &format!("<pubsub xmlns='{SPACE}#owner'>{inner}</pubsub>"))
}

/// The answer alone; other stanzas stay in the queue.
pub(super) fn ask(world: &mut HostWorld, client: u64, kind: &str, to: &str, payload: &str) -> String {
    world.say(client, &format!("<iq type='{kind}' id='q' to='{to}'>{payload}</iq>"));
    let got = world.got.entry(client).or_default();
    let at = got.iter().position(|element| element.name() == "iq" && element.attr("id") == Some("q"));
    let answer = got.remove(at.unwrap_or_else(|| panic!("no answer to {payload}: {got:?}")));
    String::from_utf8(answer.to_bytes(ns::CLIENT)).unwrap()
}

fn form(kind: &str, fields: &[(&str, &str)]) -> String {
    let fields: String = fields
        .iter()
        .map(|(var, value)| format!("<field var='pubsub#{var}'><value>{value}</value></field>"))
        .collect();
    format!(
        "<x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE' type='hidden'>\
         <value>{SPACE}#{kind}</value></field>{fields}</x>"
    )
}

pub(super) fn create(world: &mut HostWorld, alice: u64, node: &str, fields: &[(&str, &str)]) {
    let configure = format!("<configure>{}</configure>", form("node_config", fields));
    let answer = set(world, alice, ALICE, &format!("<create node='{node}'/>{configure}"));
    assert!(answer.contains("type='result'"), "{answer}");
}

pub(super) fn publish(world: &mut HostWorld, client: u64, node: &str, id: &str) -> String {
    let item = format!("<item id='{id}'><t xmlns='urn:t'>{id}</t></item>");
    set(world, client, ALICE, &format!("<publish node='{node}'>{item}</publish>"))
}

pub(super) fn configure(world: &mut HostWorld, alice: u64, node: &str, fields: &[(&str, &str)]) -> String {
    own(world, alice, "set", &format!("<configure node='{node}'>{}</configure>", form("node_config", fields)))
}

pub(super) fn is_error(answer: &str, condition: &str, detail: &str) {
    assert!(answer.contains("type='error'") && answer.contains(&format!("<{condition} ")), "{answer}");
    assert!(answer.contains(detail), "{detail}: {answer}");
    if !detail.is_empty() {
        assert!(answer.contains("http://jabber.org/protocol/pubsub#errors"), "{answer}");
    }
}

/// Makes a client available that announces interest in these nodes.
pub(super) fn appear(world: &mut HostWorld, client: u64, nodes: &[&str]) {
    let features: String = nodes.iter().map(|node| format!("<feature var='{node}+notify'/>")).collect();
    let info = format!("<identity category='client' type='pc'/>{features}");
    let mut sorted: Vec<String> = nodes.iter().map(|node| format!("{node}+notify<")).collect();
    sorted.sort();
    let text = format!("client/pc//<{}", sorted.concat());
    let ver = base64::Engine::encode(
        &base64::prelude::BASE64_STANDARD,
        <sha1::Sha1 as sha1::Digest>::digest(text.as_bytes()),
    );
    world.say(
        client,
        &format!("<presence><c xmlns='http://jabber.org/protocol/caps' hash='sha-1' node='urn:c' ver='{ver}'/></presence>"),
    );
    let got = world.got.get(&client).cloned().unwrap_or_default();
    for iq in got.iter().filter(|element| element.name() == "iq" && element.attr("type") == Some("get")) {
        let (id, asker) = (iq.attr("id").unwrap(), iq.attr("from").unwrap());
        world.say(
            client,
            &format!("<iq type='result' id='{id}' to='{asker}'><query xmlns='http://jabber.org/protocol/disco#info'>{info}</query></iq>"),
        );
    }
}

/// Events only, since it was asked last.
pub(super) fn events(world: &mut HostWorld, client: u64) -> Vec<String> {
    let heard = world.hear(client);
    heard.into_iter().filter(|stanza| stanza.contains("pubsub#event")).collect()
}

#[test]
fn each_access_model_lets_in_only_its_readers() {
    for (access, bob_reads, eve_reads) in [
        ("open", "", ""),
        ("presence", "", "presence-subscription-required"),
        ("roster", "", "not-in-roster-group"),
        ("whitelist", "closed-node", "closed-node"),
        ("authorize", "not-subscribed", "not-subscribed"),
    ] {
        let (mut world, alice, bob, eve) = world();
        create(&mut world, alice, "n", &[("access_model", access), ("roster_groups_allowed", "friends")]);
        publish(&mut world, alice, "n", "a");
        for (client, refused) in [(alice, ""), (bob, bob_reads), (eve, eve_reads)] {
            let answer = get(&mut world, client, ALICE, "<items node='n'/>");
            match refused {
                "" => assert!(answer.contains("<item id='a'>"), "{access}: {answer}"),
                "closed-node" => is_error(&answer, "not-allowed", refused),
                _ => is_error(&answer, "not-authorized", refused),
            }
        }
        // Members are let in by all of them.
        own(
            &mut world,
            alice,
            "set",
            "<affiliations node='n'><affiliation jid='eve@example.org' affiliation='member'/></affiliations>",
        );
        assert!(get(&mut world, eve, ALICE, "<items node='n'/>").contains("<item id='a'>"), "{access}");
        own(
            &mut world,
            alice,
            "set",
            "<affiliations node='n'><affiliation jid='eve@example.org' affiliation='outcast'/></affiliations>",
        );
        is_error(&get(&mut world, eve, ALICE, "<items node='n'/>"), "forbidden", "");
    }
}

#[test]
fn publish_options_are_met_or_the_item_is_refused() {
    let (mut world, alice, bob, _) = world();
    let publish = |world: &mut HostWorld, fields: &[(&str, &str)]| {
        let options = format!("<publish-options>{}</publish-options>", form("publish-options", fields));
        let item = "<publish node='secret'><item id='current'><s xmlns='urn:s'/></item></publish>";
        set(world, alice, ALICE, &format!("{item}{options}"))
    };
    let private = [("persist_items", "true"), ("access_model", "whitelist")];
    assert!(publish(&mut world, &private).contains("type='result'"));
    assert!(publish(&mut world, &private).contains("type='result'"));
    is_error(&get(&mut world, bob, ALICE, "<items node='secret'/>"), "not-allowed", "closed-node");
    for other in [[("access_model", "open")], [("unheard_of", "1")], [("max_items", "0")]] {
        is_error(&publish(&mut world, &other), "conflict", "precondition-not-met");
    }
    // As some clients have it: a form without a type counts as submitted, one of another type does not.
    let typed = |world: &mut HostWorld, kind: &str| {
        let form = form("publish-options", &[("access_model", "open")]).replace(" type='submit'", kind);
        let item = "<publish node='secret'><item id='current'><s xmlns='urn:s'/></item></publish>";
        set(world, alice, ALICE, &format!("{item}<publish-options>{form}</publish-options>"))
    };
    is_error(&typed(&mut world, ""), "conflict", "precondition-not-met");
    is_error(&typed(&mut world, " type='form'"), "bad-request", "");
    let (mut fresh, ..) = self::world();
    is_error(&publish(&mut fresh, &[("unheard_of", "1")]), "conflict", "precondition-not-met");
    assert!(fresh.store.nodes.is_empty());
}

#[test]
fn faults_of_publishing() {
    let (mut world, alice, bob, _) = world();
    create(&mut world, alice, "n", &[]);
    create(&mut world, alice, "event", &[("persist_items", "0"), ("deliver_payloads", "0")]);
    let big = "x".repeat(crate::limits::ITEM);
    let long = "x".repeat(crate::limits::NODE_NAME + 1);
    let t = "<t xmlns='urn:t'/>";
    for (publish, condition, detail) in [
        (format!("<publish><item>{t}</item></publish>"), "bad-request", "nodeid-required"),
        ("<publish node='n'/>".to_owned(), "bad-request", "item-required"),
        ("<publish node='n'><item/></publish>".to_owned(), "bad-request", "payload-required"),
        (format!("<publish node='n'><item>{t}{t}</item></publish>"), "bad-request", "invalid-payload"),
        (
            format!("<publish node='n'><item>{t}</item><item>{t}</item></publish>"),
            "bad-request",
            "invalid-payload",
        ),
        (format!("<publish node='event'><item>{t}</item></publish>"), "bad-request", "item-forbidden"),
        (
            format!("<publish node='n'><item><t xmlns='urn:t'>{big}</t></item></publish>"),
            "not-acceptable",
            "payload-too-big",
        ),
        (format!("<publish node='n'><item id='{long}'>{t}</item></publish>"), "not-acceptable", ""),
        (format!("<publish node='{long}'><item>{t}</item></publish>"), "not-acceptable", ""),
        (format!("<publish node='private:x'><item>{t}</item></publish>"), "not-acceptable", ""),
        (format!("<publish node='vcard-temp'><item>{t}</item></publish>"), "not-acceptable", ""),
    ] {
        is_error(&set(&mut world, alice, ALICE, &publish), condition, detail);
    }
    is_error(&self::publish(&mut world, bob, "n", "a"), "forbidden", "");
    is_error(&self::publish(&mut world, bob, "none", "a"), "item-not-found", "");
    assert!(set(&mut world, alice, ALICE, "<publish node='event'/>").contains("type='result'"));
    assert!(world.store.items.is_empty());
}

#[test]
fn affiliations_and_publish_models_decide_the_right_to_publish() {
    let (mut world, alice, bob, eve) = world();
    create(&mut world, alice, "n", &[("access_model", "open"), ("max_items", "max")]);
    let affiliate = |world: &mut HostWorld, affiliation: &str| {
        let item = format!("<affiliation jid='{BOB}' affiliation='{affiliation}'/>");
        own(world, alice, "set", &format!("<affiliations node='n'>{item}</affiliations>"));
    };
    for (affiliation, may_publish, may_retract, may_read) in [
        ("publisher", true, true, true),
        ("publish-only", true, false, false),
        ("member", false, false, true),
        ("outcast", false, false, false),
    ] {
        affiliate(&mut world, affiliation);
        assert_eq!(publish(&mut world, bob, "n", "b").contains("result"), may_publish, "{affiliation}");
        let answer = set(&mut world, bob, ALICE, "<retract node='n'><item id='b'/></retract>");
        assert_eq!(answer.contains("result"), may_retract, "{affiliation}");
        let answer = get(&mut world, bob, ALICE, "<items node='n'/>");
        assert_eq!(answer.contains("result"), may_read, "{affiliation}");
    }
    affiliate(&mut world, "none");
    configure(&mut world, alice, "n", &[("publish_model", "subscribers")]);
    is_error(&publish(&mut world, eve, "n", "e"), "forbidden", "");
    set(&mut world, eve, ALICE, &format!("<subscribe node='n' jid='{EVE}'/>"));
    assert!(publish(&mut world, eve, "n", "e").contains("result"));
    configure(&mut world, alice, "n", &[("publish_model", "open")]);
    assert!(publish(&mut world, bob, "n", "o").contains("result"));
    // The publisher of the item is visible.
    assert!(get(&mut world, alice, ALICE, "<items node='n'/>").contains("publisher='eve@example.org'"));
}

#[test]
fn items_are_taken_back_and_nodes_emptied_and_deleted() {
    let (mut world, alice, bob, _) = world();
    create(&mut world, alice, "n", &[("max_items", "5")]);
    appear(&mut world, bob, &["n"]);
    for id in ["a", "b", "c"] {
        publish(&mut world, alice, "n", id);
    }
    events(&mut world, bob);
    let retract = |inner: &str| format!("<retract {inner}</retract>");
    for (retract, condition, detail) in [
        (retract("><item id='a'/>"), "bad-request", "nodeid-required"),
        (retract("node='n'>"), "bad-request", "item-required"),
        (retract("node='n'><item/>"), "bad-request", "item-required"),
        (retract("node='none'><item id='a'/>"), "item-not-found", ""),
        (retract("node='n'><item id='z'/>"), "item-not-found", ""),
    ] {
        is_error(&set(&mut world, alice, ALICE, &retract), condition, detail);
    }
    is_error(&set(&mut world, bob, ALICE, &retract("node='n'><item id='a'/>")), "forbidden", "");
    assert!(events(&mut world, bob).is_empty());
    assert!(set(&mut world, alice, ALICE, &retract("node='n'><item id='a'/>")).contains("result"));
    assert!(events(&mut world, bob)[0].contains("<items node='n'><retract id='a'/></items>"));
    configure(&mut world, alice, "n", &[("notify_retract", "0")]);
    set(&mut world, alice, ALICE, &retract("node='n'><item id='b'/>"));
    assert!(events(&mut world, bob).is_empty());
    configure(&mut world, alice, "n", &[("notify_retract", "1")]);

    for (verb, event) in [("purge", "<purge node='n'/>"), ("delete", "<delete node='n'/>")] {
        is_error(&own(&mut world, bob, "set", &format!("<{verb} node='n'/>")), "forbidden", "");
        is_error(&own(&mut world, alice, "set", &format!("<{verb} node='none'/>")), "item-not-found", "");
        is_error(&own(&mut world, alice, "set", &format!("<{verb}/>")), "bad-request", "nodeid-required");
        assert!(own(&mut world, alice, "set", &format!("<{verb} node='n'/>")).contains("result"));
        assert!(events(&mut world, bob)[0].contains(event));
        assert!(world.store.items.is_empty());
    }
    assert!(world.store.nodes.is_empty());
    is_error(&get(&mut world, alice, ALICE, "<items node='n'/>"), "item-not-found", "");
    create(&mut world, alice, "event", &[("persist_items", "0")]);
    is_error(
        &own(&mut world, alice, "set", "<purge node='event'/>"),
        "feature-not-implemented",
        "persistent-items",
    );
    is_error(
        &get(&mut world, alice, ALICE, "<items node='event'/>"),
        "feature-not-implemented",
        "persistent-items",
    );
}

#[test]
fn items_come_by_id_by_number_and_in_pages() {
    let (mut world, alice, ..) = world();
    create(&mut world, alice, "n", &[("max_items", "4")]);
    for id in ["1", "2", "3", "4", "5"] {
        publish(&mut world, alice, "n", id);
    }
    let mut ids = |inner: &str, rest: &str| {
        let answer = get(&mut world, alice, ALICE, &format!("<items node='n'{inner}</items>{rest}"));
        let ids: String = answer.split("<item id='").skip(1).map(|part| &part[..1]).collect();
        (ids, answer)
    };
    let rsm = |inner: &str| format!("<set xmlns='http://jabber.org/protocol/rsm'>{inner}</set>");
    assert_eq!(ids(">", "").0, "5432");
    assert_eq!(ids(" max_items='2'>", "").0, "54");
    assert_eq!(ids("><item id='3'/><item id='9'/>", "").0, "3");
    let (none, answer) = ids("><item id='9'/>", "");
    assert!(none.is_empty() && answer.contains("<items node='n'/>"), "{answer}");
    is_error(&ids(" max_items='x'>", "").1, "bad-request", "");
    let (page, answer) = ids(">", &rsm("<max>2</max>"));
    assert_eq!(page, "54");
    assert!(answer.contains("<first index='0'>5</first><last>4</last><count>4</count>"), "{answer}");
    assert_eq!(ids(">", &rsm("<max>2</max><after>4</after>")).0, "32");
    assert_eq!(ids(">", &rsm("<max>2</max><before/>")).0, "32");
    assert_eq!(ids(">", &rsm("<max>2</max><before>3</before>")).0, "54");
    assert_eq!(ids(">", &rsm("<max>9</max><index>3</index>")).0, "2");
    let (page, answer) = ids(">", &rsm("<max>0</max>"));
    assert!(page.is_empty() && answer.contains("<count>4</count>"), "{answer}");
    is_error(&ids(">", &rsm("<after>9</after>")).1, "item-not-found", "");
    is_error(&ids(">", &rsm("<max>x</max>")).1, "bad-request", "");
}

#[test]
fn an_answer_has_a_bound() {
    let (mut world, alice, ..) = world();
    create(&mut world, alice, "n", &[("max_items", "max")]);
    let big = "x".repeat(crate::limits::ITEMS_ANSWER / 3);
    for id in 0..5 {
        let item = format!("<publish node='n'><item id='{id}'><t xmlns='urn:t'>{big}</t></item></publish>");
        set(&mut world, alice, ALICE, &item);
    }
    let answer = get(&mut world, alice, ALICE, "<items node='n'/>");
    assert!(answer.len() < crate::limits::STANZA && answer.contains("<count>5</count>"));
    assert!(answer.contains("<first index='0'>4</first><last>3</last>"), "{}", &answer[..200]);
}

#[test]
fn an_owner_makes_and_configures_nodes() {
    let (mut world, alice, bob, _) = world();
    let create_it = |inner: &str| format!("<create{inner}/>");
    assert!(set(&mut world, alice, ALICE, &create_it(" node='n'")).contains("type='result'"));
    is_error(&set(&mut world, alice, ALICE, &create_it(" node='n'")), "conflict", "");
    is_error(&set(&mut world, bob, ALICE, &create_it(" node='m'")), "forbidden", "");
    is_error(&set(&mut world, alice, ALICE, &create_it(" node='private:x'")), "not-acceptable", "");
    assert!(set(&mut world, alice, ALICE, &create_it("")).contains("<create node='"));
    let answer = own(&mut world, alice, "get", "<configure node='n'/>");
    for part in [
        "var='pubsub#access_model' type='list-single'><value>presence</value><option><value>open</value>",
        "var='pubsub#max_items' type='text-single'><value>1</value>",
    ] {
        assert!(answer.contains(part), "{part}: {answer}");
    }
    let default = own(&mut world, alice, "get", "<default/>");
    assert!(default.contains("pubsub#access_model"), "{default}");
    is_error(&own(&mut world, bob, "get", "<default/>"), "forbidden", "");
    is_error(&own(&mut world, bob, "get", "<configure node='n'/>"), "forbidden", "");
    is_error(&own(&mut world, alice, "get", "<configure/>"), "bad-request", "nodeid-required");
    is_error(&own(&mut world, alice, "get", "<configure node='none'/>"), "item-not-found", "");
    is_error(&configure(&mut world, bob, "n", &[]), "forbidden", "");
    for wrong in [("access_model", "nobody"), ("max_items", "1001"), ("persist_items", "perhaps")] {
        is_error(&configure(&mut world, alice, "n", &[wrong]), "not-acceptable", "");
    }
    is_error(&own(&mut world, alice, "set", "<configure node='n'/>"), "bad-request", "");
    let other = form("subscribe_options", &[]);
    is_error(
        &own(&mut world, alice, "set", &format!("<configure node='n'>{other}</configure>")),
        "bad-request",
        "",
    );
    let cancel = "<configure node='n'><x xmlns='jabber:x:data' type='cancel'/></configure>";
    assert!(own(&mut world, alice, "set", cancel).contains("result"));

    appear(&mut world, bob, &["n"]);
    assert!(configure(&mut world, alice, "n", &[("notify_config", "1"), ("title", "T")]).contains("result"));
    let heard = events(&mut world, bob);
    assert!(
        heard[0].contains("<configuration node='n'>") && heard[0].contains("<value>T</value>"),
        "{heard:?}"
    );
    // It is what the store has.
    world.host = Host::new(Arc::new(settings()), ShardAddress::default(), [2; 32]);
    let alice = world.sign_in("alice@example.org/new");
    assert!(own(&mut world, alice, "get", "<configure node='n'/>").contains("<value>T</value>"));
}

#[test]
fn nodes_have_a_number() {
    let (mut world, alice, ..) = world();
    for n in 0..crate::limits::NODES {
        create(&mut world, alice, &format!("n{n}"), &[]);
    }
    is_error(&set(&mut world, alice, ALICE, "<create node='more'/>"), "resource-constraint", "");
    is_error(&publish(&mut world, alice, "more", "a"), "resource-constraint", "");
    assert!(publish(&mut world, alice, "n0", "a").contains("result"));
}

#[test]
fn an_owner_lets_in_a_user_that_asks() {
    let (mut world, alice, bob, eve) = world();
    for client in [alice, eve] {
        world.say(client, "<presence/>");
    }
    create(&mut world, alice, "n", &[("access_model", "authorize")]);
    let subscribe = "<subscribe node='n' jid='eve@example.org'/>";
    assert!(set(&mut world, eve, ALICE, subscribe).contains("subscription='pending'"));
    let heard = world.hear(alice);
    assert!(heard.iter().any(|stanza| stanza.contains("subscribe_authorization")), "{heard:?}");
    is_error(&set(&mut world, eve, ALICE, subscribe), "not-authorized", "pending-subscription");
    publish(&mut world, alice, "n", "a");
    assert!(events(&mut world, eve).is_empty());
    is_error(&own(&mut world, bob, "get", "<subscriptions node='n'/>"), "forbidden", "");
    assert!(own(&mut world, alice, "get", "<subscriptions node='n'/>").contains("subscription='pending'"));
    let state = |state: &str| {
        let item = format!("<subscription jid='eve@example.org' subscription='{state}'/>");
        format!("<subscriptions node='n'>{item}</subscriptions>")
    };
    is_error(&own(&mut world, alice, "set", &state("friendly")), "bad-request", "");
    is_error(&own(&mut world, eve, "set", &state("subscribed")), "forbidden", "");
    assert!(own(&mut world, alice, "set", &state("subscribed")).contains("result"));
    assert!(events(&mut world, eve)[0].contains("subscription='subscribed'"));
    publish(&mut world, alice, "n", "b");
    assert!(events(&mut world, eve)[0].contains("<item id='b'>"));
    own(&mut world, alice, "set", &state("none"));
    assert!(events(&mut world, eve)[0].contains("subscription='none'"));
}

#[test]
fn an_owner_answers_by_the_form_it_was_sent() {
    let (mut world, alice, _, eve) = world();
    for client in [alice, eve] {
        world.say(client, "<presence/>");
    }
    create(&mut world, alice, "n", &[("access_model", "authorize")]);
    let subscribe = "<subscribe node='n' jid='eve@example.org'/>";
    let answer = |allow: &str| {
        let fields = [("node", "n"), ("subscriber_jid", EVE), ("allow", allow)];
        format!("<message to='{ALICE}'>{}</message>", form("subscribe_authorization", &fields))
    };
    world.say(alice, &answer("true"));
    assert!(events(&mut world, eve).is_empty());
    for (allow, state) in [("false", "none"), ("true", "subscribed")] {
        assert!(set(&mut world, eve, ALICE, subscribe).contains("pending"));
        // Only the owner can approve a subscription.
        world.say(eve, &answer("true"));
        assert!(events(&mut world, eve).is_empty());
        world.hear(alice);
        world.say(alice, &answer(allow));
        assert!(world.hear(alice).is_empty());
        assert!(events(&mut world, eve)[0].contains(&format!("subscription='{state}'")), "{allow}");
    }
    publish(&mut world, alice, "n", "a");
    assert!(events(&mut world, eve)[0].contains("<item id='a'>"));
}

#[test]
fn affiliations_are_the_owners_to_say() {
    let (mut world, alice, bob, _) = world();
    create(&mut world, alice, "n", &[]);
    let set_it = |inner: &str| format!("<affiliations node='n'><affiliation {inner}/></affiliations>");
    for (inner, condition) in [
        ("jid='bob@example.org' affiliation='king'", "bad-request"),
        ("affiliation='member'", "bad-request"),
        ("jid='bob@example.org' affiliation='owner'", "not-acceptable"),
        ("jid='alice@example.org' affiliation='none'", "not-acceptable"),
    ] {
        is_error(&own(&mut world, alice, "set", &set_it(inner)), condition, "");
    }
    let member = set_it("jid='bob@example.org' affiliation='publisher'");
    is_error(&own(&mut world, bob, "set", &member), "forbidden", "");
    is_error(&own(&mut world, bob, "get", "<affiliations node='n'/>"), "forbidden", "");
    own(&mut world, alice, "set", &member);
    let list = own(&mut world, alice, "get", "<affiliations node='n'/>");
    for part in ["affiliation='owner'", "jid='bob@example.org' affiliation='publisher'"] {
        assert!(list.contains(part), "{list}");
    }
    assert!(get(&mut world, bob, ALICE, "<affiliations/>").contains("affiliation='publisher'"));
}

#[test]
fn a_request_without_a_known_action_is_a_bad_one() {
    let (mut world, alice, ..) = world();
    for wrong in ["", "<what/>", "<publish node='n'/>"] {
        is_error(&get(&mut world, alice, ALICE, wrong), "bad-request", "");
    }
}

#[test]
fn a_record_that_fails_is_told() {
    let (mut world, alice, bob, _) = world();
    world.store.is_broken = true;
    is_error(&publish(&mut world, alice, "n", "a"), "resource-constraint", "");
    world.store.is_broken = false;
    create(&mut world, alice, "n", &[]);
    appear(&mut world, bob, &["n"]);
    world.hear(bob);
    world.store.is_broken = true;
    for request in [
        "<publish node='n'><item><t xmlns='urn:t'/></item></publish>",
        "<retract node='n'><item id='a'/></retract>",
        "<create node='m'/>",
        "<publish node='m'><item><t xmlns='urn:t'/></item></publish>",
    ] {
        is_error(&set(&mut world, alice, ALICE, request), "resource-constraint", "");
    }
    is_error(&get(&mut world, alice, ALICE, "<items node='n'/>"), "resource-constraint", "");
    is_error(&own(&mut world, alice, "set", "<purge node='n'/>"), "resource-constraint", "");
    world.store.is_broken = false;
    // Nothing of it happened, and the node is still what it was.
    assert!(events(&mut world, bob).is_empty());
    assert!(own(&mut world, alice, "get", "<configure node='n'/>").contains("result"));
    is_error(&own(&mut world, alice, "get", "<configure node='m'/>"), "item-not-found", "");
}

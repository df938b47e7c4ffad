//! Nodes, rooms and archives as the record keeps them, whichever shard has them.

use cluster::Bucket;
use sip::transport::Transport::{Tcp, Tls};
use xmpp::ns;

use super::client::Client;
use crate::phone::DOMAIN;
use crate::place::Place;
use crate::until;

/// One name for each of the two shards that own accounts.
fn names() -> [String; 2] {
    let owned = |shard: u16| {
        let mut names = (0..).map(|number| format!("user{number}"));
        names.find(|name| Bucket::of(&format!("{name}@{DOMAIN}")).shard(2) == shard).unwrap()
    };
    [owned(0), owned(1)]
}

/// The answer to a question; what comes before it is passed over.
fn ask(client: &mut Client, kind: &str, to: &str, payload: &str) -> String {
    client.say(&format!("<iq type='{kind}' id='q' to='{to}'>{payload}</iq>"));
    loop {
        let stanza = client.hear();
        if stanza.name() == "iq" && stanza.attr("id") == Some("q") {
            return stanza.to_string();
        }
    }
}

#[test]
fn a_pubsub_node_is_available_to_all_users_and_survives_a_restart() {
    let [one, two] = names();
    let place = Place::new("").with_accounts(&[&one, &two]).with_xmpp("");
    let mut node = place.start();
    let service = format!("pubsub.{DOMAIN}");
    let space = ns::PUBSUB;
    let set = |client: &mut Client, part: &str| {
        ask(client, "set", &service, &format!("<pubsub xmlns='{space}'>{part}</pubsub>"))
    };
    let mut writer = Client::sign_in(&place, Tls, &one, "a");
    let mut reader = Client::sign_in(&place, Tcp, &two, "b");
    let items = ask(&mut reader, "get", DOMAIN, &format!("<query xmlns='{}'/>", ns::DISCO_ITEMS));
    assert!(items.contains(&service), "{items}");
    assert!(set(&mut writer, "<create node='news'/>").contains("type='result'"));
    let subscribe = format!("<subscribe node='news' jid='{}'/>", reader.jid);
    let subscribed = set(&mut reader, &subscribe);
    assert!(subscribed.contains("subscription='subscribed'"), "{subscribed}");
    let publish = "<publish node='news'><item id='1'><x xmlns='urn:x'>words</x></item></publish>";
    assert!(set(&mut writer, publish).contains("type='result'"));
    let notification = reader.hear();
    assert_eq!(notification.attr("from"), Some(&*service));
    assert!(notification.to_string().contains("words"), "{notification}");
    let jid = reader.jid.clone();
    let options = |form: &str| format!("<options node='news' jid='{jid}'>{form}</options>");
    let silent =
        "<x xmlns='jabber:x:data' type='submit'><field var='pubsub#deliver'><value>0</value></field></x>";
    assert!(set(&mut reader, &options(silent)).contains("type='result'"));
    drop((writer, reader));
    node.stop();
    let mut node = place.start();
    let mut reader = Client::sign_in(&place, Tls, &two, "b");
    let get = format!("<pubsub xmlns='{space}'>{}</pubsub>", options(""));
    let kept = ask(&mut reader, "get", &service, &get);
    assert!(kept.contains("var='pubsub#deliver' type='boolean'><value>0</value>"), "{kept}");
    let read = format!("<pubsub xmlns='{space}'><items node='news'/></pubsub>");
    let items = ask(&mut reader, "get", &service, &read);
    assert!(items.contains("words") && items.contains(&format!("{one}@{DOMAIN}")), "{items}");
    let mine = set(&mut reader, "<create node='news'/>");
    assert!(mine.contains("<conflict"), "{mine}");
    assert_eq!(node.board().faults(), (0, 0, 0));
    node.stop();
}

#[test]
fn a_room_is_listed_with_its_history_without_retracted_messages() {
    let [one, two] = names();
    let place = Place::new("").with_accounts(&[&one, &two]).with_xmpp("");
    let mut node = place.start();
    let (house, room) = (format!("conference.{DOMAIN}"), format!("cave@conference.{DOMAIN}"));
    let mut owner = Client::sign_in(&place, Tls, &one, "a");
    let mut other = Client::sign_in(&place, Tls, &two, "b");
    owner.say(&format!("<presence to='{room}/owner'><x xmlns='{}'/></presence>", ns::MUC));
    let field = |var: &str, value: &str| format!("<field var='{var}'><value>{value}</value></field>");
    let config =
        field("muc#roomconfig_roomname", "A Dark Cave") + &field("muc#roomconfig_persistentroom", "1");
    let form = format!("<x xmlns='jabber:x:data' type='submit'>{config}</x>");
    let configured =
        ask(&mut owner, "set", &room, &format!("<query xmlns='{}'>{form}</query>", ns::MUC_OWNER));
    assert!(configured.contains("type='result'"), "{configured}");
    let params = field("FORM_TYPE", "urn:xmpp:channel-search:0:search-params") + &field("q", "dark cave");
    let search = format!(
        "<search xmlns='{}'><x xmlns='jabber:x:data' type='submit'>{params}</x></search>",
        ns::CHANNEL_SEARCH
    );
    let found = ask(&mut other, "get", &house, &search);
    assert!(found.contains(&format!("address='{room}'")) && found.contains("A Dark Cave"), "{found}");
    // A message and its retraction: both archives have a tombstone.
    other
        .say(&format!("<message type='chat' id='m1' to='{one}@{DOMAIN}/a'><body>regretted</body></message>"));
    while owner.hear().content_of("body", ns::CLIENT).as_deref() != Some("regretted") {}
    let archive = format!("<query xmlns='{}'/>", ns::MAM);
    let read = |client: &mut Client| {
        client.say(&format!("<iq type='set' id='m'>{archive}</iq>"));
        let mut all = String::new();
        loop {
            let stanza = client.hear();
            if stanza.attr("id") == Some("m") && stanza.name() == "iq" {
                return all;
            }
            all.push_str(&stanza.to_string());
        }
    };
    for client in [&mut owner, &mut other] {
        until("both have it", || read(client).contains("regretted").then_some(()));
    }
    other.say(&format!(
        "<message type='chat' id='m2' to='{one}@{DOMAIN}/a'><retract id='m1' xmlns='{}'/></message>",
        ns::RETRACT
    ));
    while owner.hear().get("retract", ns::RETRACT).is_none() {}
    for client in [&mut owner, &mut other] {
        until("the tombstone is written", || (!read(client).contains("regretted")).then_some(()));
        assert!(read(client).contains("<retracted"), "{}", client.jid);
    }
    assert_eq!(node.board().faults(), (0, 0, 0));
    node.stop();
}

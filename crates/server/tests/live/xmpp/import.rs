//! Accounts of another server: its users sign in here, and know each other.

use sip::transport::Transport::Tls;
use xmpp::sasl::{Hash, derive, encode};
use xmpp::{Element, ns};

use super::client::Client;
use super::registration::{ask, is_done, operate};
use crate::phone::{DOMAIN, PASSWORD};
use crate::place::Place;

fn import(place: &Place, users: &str) -> String {
    let file = place.path("export.xml");
    let text = format!(
        "<?xml version='1.0'?><server-data xmlns='urn:xmpp:pie:0'><host jid='{DOMAIN}'>{users}</host></server-data>"
    );
    std::fs::write(&file, text).unwrap();
    operate(place, &["account", "import", file.to_str().unwrap()])
}

/// Waits for available presence from that account; skips other stanzas.
fn hear_presence(client: &mut Client, from: &str) -> Element {
    loop {
        let stanza = client.hear();
        let is_from = stanza.attr("from").is_some_and(|jid| jid.starts_with(from));
        if stanza.name() == "presence" && stanza.attr("type").is_none() && is_from {
            return stanza;
        }
    }
}

#[test]
fn imported_contacts_have_presence_and_get_offline_messages() {
    let place = Place::new("").with_xmpp("");
    let user = |name: &str, contact: &str, more: &str| {
        format!(
            "<user name='{name}' password='{PASSWORD}'><query xmlns='jabber:iq:roster'>\
             <item jid='{contact}@{DOMAIN}' name='My {contact}' subscription='both'><group>Friends</group></item></query>\
             {more}</user>"
        )
    };
    let waits = format!(
        "<offline-messages><message xmlns='jabber:client' from='bob@{DOMAIN}/old' to='alice@{DOMAIN}' type='chat'>\
         <body>Are you there?</body></message></offline-messages>\
         <vCard xmlns='vcard-temp'><FN>Alice Liddell</FN></vCard>\
         <presence from='carol@{DOMAIN}' type='subscribe'/>"
    );
    import(&place, &(user("alice", "bob", &waits) + &user("bob", "alice", "")));
    let node = place.spawn();
    let mut alice = Client::sign_in(&place, Tls, "alice", "x");
    let answer = ask(&mut alice, "get", &format!("alice@{DOMAIN}"), "<query xmlns='jabber:iq:roster'/>");
    let items: Vec<_> = answer.get("query", ns::ROSTER).unwrap().elements().collect();
    assert_eq!(items.len(), 1, "a mere request is in no list: {answer}");
    assert_eq!((items[0].attr("name"), items[0].attr("subscription")), (Some("My bob"), Some("both")));
    assert_eq!(items[0].content_of("group", ns::ROSTER).unwrap(), "Friends");
    let vcard = ask(&mut alice, "get", &format!("alice@{DOMAIN}"), "<vCard xmlns='vcard-temp'/>");
    assert!(vcard.to_string().contains("Alice Liddell"), "{vcard}");
    alice.say("<presence xmlns='jabber:client'/>");
    let (mut asked, mut waited) = (false, false);
    while !(asked && waited) {
        let stanza = alice.hear();
        asked |= stanza.attr("type") == Some("subscribe")
            && stanza.attr("from") == Some(&format!("carol@{DOMAIN}"));
        waited |= stanza.content_of("body", ns::CLIENT).as_deref() == Some("Are you there?");
    }
    let mut bob = Client::sign_in(&place, Tls, "bob", "x");
    bob.say("<presence xmlns='jabber:client'><show>dnd</show></presence>");
    let seen = hear_presence(&mut alice, "bob@");
    assert_eq!(seen.content_of("show", ns::CLIENT).unwrap(), "dnd");
    hear_presence(&mut bob, "alice@");
    node.kill();
}

#[test]
fn an_account_imported_with_scram_keys_signs_in_by_scram_and_plain() {
    let place = Place::new("").with_xmpp("");
    let keys = derive(Hash::Sha256, "her own", b"some salt", 5_000);
    let output = import(
        &place,
        &format!(
            "<user name='alice'><scram-credentials xmlns='urn:xmpp:pie:0#scram' mechanism='SCRAM-SHA-256'>\
             <iter-count>5000</iter-count><salt>{}</salt><server-key>{}</server-key><stored-key>{}</stored-key>\
             </scram-credentials></user>",
            encode(&keys.salt),
            encode(&keys.server),
            encode(&keys.stored)
        ),
    );
    assert!(output.contains("phones cannot register"), "{output}");
    let node = place.spawn();
    let fresh = || {
        let mut client = Client::connect(&place, Tls);
        client.open();
        client
    };
    assert!(fresh().scram("alice", "her own", None).is("success", ns::SASL));
    assert!(fresh().scram("alice", "not hers", None).is("failure", ns::SASL));
    assert!(fresh().plain("alice", "not hers").is("failure", ns::SASL));
    let mut client = fresh();
    assert!(client.plain("alice", "her own").is("success", ns::SASL));
    client.open();
    client.bind("x");
    is_done(&ask(&mut client, "get", DOMAIN, "<ping xmlns='urn:xmpp:ping'/>"));
    node.kill();
}

//! Messages between signed-in clients on the same and on different shards.

use cluster::Bucket;
use sip::transport::Transport::{Tcp, Tls, Wss};
use xmpp::ns;

use super::client::Client;
use crate::phone::DOMAIN;
use crate::place::Place;

/// One name for each of the two shards that own accounts.
fn names() -> [String; 2] {
    let owned = |shard: u16| {
        let mut names = (0..).map(|number| format!("user{number}"));
        names.find(|name| Bucket::of(&format!("{name}@{DOMAIN}")).shard(2) == shard).unwrap()
    };
    [owned(0), owned(1)]
}

#[test]
fn messages_go_between_accounts_of_different_shards() {
    let [one, two] = names();
    let place = Place::new("").with_accounts(&[&one, &two]).with_xmpp("");
    let mut node = place.start();
    // Enough connections that each shard holds some of either account.
    let ways = [Tcp, Tls, Wss, Tcp, Tls, Wss];
    let sign_in = |user: &str| -> Vec<Client> {
        let ways = ways.iter().enumerate();
        ways.map(|(number, way)| Client::sign_in(&place, *way, user, &format!("r{number}"))).collect()
    };
    let (mut ones, mut twos) = (sign_in(&one), sign_in(&two));
    for (number, (from, to)) in ones.iter_mut().zip(&mut twos).enumerate() {
        let body = format!("message {number} &lt;&amp;");
        from.message(&to.jid, &body);
        let stanza = to.hear();
        assert_eq!(stanza.attr("from"), Some(&*from.jid));
        assert_eq!(stanza.content_of("body", ns::CLIENT).as_deref(), Some(&*format!("message {number} <&")));
        to.message(&from.jid, "back");
        assert_eq!(from.hear().attr("from"), Some(&*to.jid));
    }
    assert_eq!(node.board().faults(), (0, 0, 0));
    node.stop();
}

#[test]
fn stanzas_keep_their_order() {
    let [one, two] = names();
    let place = Place::new("").with_accounts(&[&one, &two]).with_xmpp("");
    let mut node = place.start();
    let mut from = Client::sign_in(&place, Tls, &one, "a");
    let mut to = Client::sign_in(&place, Tls, &two, "b");
    for number in 0..500 {
        from.message(&to.jid, &number.to_string());
    }
    for number in 0..500 {
        let stanza = to.hear();
        assert_eq!(stanza.content_of("body", ns::CLIENT).as_deref(), Some(&*number.to_string()));
    }
    node.stop();
}

/// RFC 6120 §4.4: a stream stays open for the stanzas on their way to a client that closes it.
#[test]
fn a_client_that_closes_its_stream_gets_the_stanzas_of_before() {
    let [one, two] = names();
    let place = Place::new("").with_accounts(&[&one, &two]).with_xmpp("");
    let mut node = place.start();
    for user in [&one, &two] {
        for way in [Tcp, Tls, Wss] {
            let mut client = Client::sign_in(&place, way, user, "a");
            let to = client.jid.clone();
            // Until the account's data is read, a message waits for it, and is stored for the next session.
            client.message(&to, "before");
            assert_eq!(client.hear().content_of("body", ns::CLIENT).as_deref(), Some("before"));
            let message = format!("<message xmlns='jabber:client' to='{to}'><body>once</body></message>");
            match way {
                Wss => {
                    client.say(&message);
                    client.say("<close xmlns='urn:ietf:params:xml:ns:xmpp-framing'/>");
                }
                _ => client.say(&format!("{message}</stream:stream>")),
            }
            let delivered = client.hear();
            assert_eq!(delivered.content_of("body", ns::CLIENT).as_deref(), Some("once"), "{way:?}");
            let end = client.hear_or_end();
            assert!(end.as_ref().is_none_or(|end| end.is("close", ns::FRAMING)), "{way:?}: {end:?}");
        }
    }
    assert_eq!(node.board().faults(), (0, 0, 0));
    node.stop();
}

/// XEP-0313 §3: a client that has a message and asks its archive at once finds it there.
#[test]
fn a_message_is_in_the_archive_as_soon_as_it_is_delivered() {
    let [one, two] = names();
    let place = Place::new("").with_accounts(&[&one, &two]).with_xmpp("");
    let mut node = place.start();
    let mut from = Client::sign_in(&place, Tls, &one, "a");
    let mut to = Client::sign_in(&place, Tls, &two, "b");
    for number in 0..100 {
        from.message(&to.jid, &number.to_string());
        let id = to.hear().get("stanza-id", ns::SID).and_then(|id| id.attr("id").map(str::to_owned)).unwrap();
        to.say(&format!(
            "<iq xmlns='jabber:client' type='set' id='q'><query xmlns='{mam}'><set xmlns='{rsm}'><max>1</max>\
             <before/></set></query></iq>",
            mam = ns::MAM,
            rsm = ns::RSM,
        ));
        let found = to.hear();
        let result = found.get("result", ns::MAM);
        assert_eq!(result.and_then(|result| result.attr("id")), Some(&*id), "message {number}: {found}");
        assert!(to.hear().get("fin", ns::MAM).is_some());
    }
    assert_eq!(node.board().faults(), (0, 0, 0));
    node.stop();
}

#[test]
fn a_message_without_a_recipient_is_returned_as_an_error() {
    let place = Place::new("").with_accounts(&["alice", "bob"]).with_xmpp("");
    let mut node = place.start();
    let mut alice = Client::sign_in(&place, Tls, "alice", "a");
    for (to, condition) in [
        ("nobody@example.test", "service-unavailable"),
        ("bob@elsewhere.test", "remote-server-not-found"),
        ("@", "jid-malformed"),
    ] {
        alice.message(to, "hello");
        let answer = alice.hear();
        assert_eq!(answer.attr("type"), Some("error"), "{answer}");
        assert!(answer.to_string().contains(condition), "{to}: {answer}");
    }
    alice.say("<iq xmlns='jabber:client' type='get' id='x' to='bob@example.test/none'><ping xmlns='urn:xmpp:ping'/></iq>");
    assert!(alice.hear().to_string().contains("service-unavailable"));
    node.stop();
}

#[test]
fn the_newer_session_of_a_resource_ends_the_older() {
    let place = Place::new("").with_accounts(&["alice"]).with_xmpp("");
    let mut node = place.start();
    let mut old = Client::sign_in(&place, Tls, "alice", "a");
    let _new = Client::sign_in(&place, Tls, "alice", "a");
    assert_eq!(old.end(), "conflict");
    node.stop();
}

#[test]
fn clients_are_told_of_a_restart_and_sign_in_again() {
    let place = Place::new("").with_accounts(&["alice", "bob"]).with_xmpp("");
    let mut node = place.start();
    let mut alice = Client::sign_in(&place, Tcp, "alice", "a");
    let mut bob = Client::sign_in(&place, Wss, "bob", "b");
    std::thread::scope(|scope| {
        scope.spawn(|| node.stop());
        assert_eq!(alice.end(), "system-shutdown");
        assert_eq!(bob.end(), "system-shutdown");
    });
    drop((alice, bob));
    let mut node = place.start();
    let mut alice = Client::sign_in(&place, Tcp, "alice", "a");
    let mut bob = Client::sign_in(&place, Tls, "bob", "b");
    alice.message(&bob.jid, "again");
    assert_eq!(bob.hear().attr("from"), Some(&*alice.jid));
    node.stop();
}

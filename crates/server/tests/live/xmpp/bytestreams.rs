//! Files through the proxy (XEP-0065): two clients, sockets, and connections that are not theirs.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::thread;

use bytestreams::StreamHash;
use sip::transport::Transport::{Tcp, Tls};
use xmpp::ns;

use super::client::Client;
use crate::phone::DOMAIN;
use crate::place::Place;
use crate::voice::sum;
use crate::{PATIENCE, until};

/// The answer to a request.
fn ask(client: &mut Client, kind: &str, to: &str, payload: &str) -> xmpp::Element {
    client.say(&format!("<iq xmlns='jabber:client' type='{kind}' id='b' to='{to}'>{payload}</iq>"));
    client.hear()
}

fn activate(client: &mut Client, sid: &str, target: &str) -> xmpp::Element {
    let space = ns::BYTESTREAMS;
    let query = format!("<query xmlns='{space}' sid='{sid}'><activate>{target}</activate></query>");
    ask(client, "set", &format!("proxy.{DOMAIN}"), &query)
}

/// Sends both messages of a handshake.
fn send_handshake(place: &Place, domain: &str) -> TcpStream {
    let mut stream = TcpStream::connect(place.bytestreams()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let length = u8::try_from(domain.len()).unwrap();
    stream.write_all(&[&[5, 1, 0, 5, 1, 0, 3, length][..], domain.as_bytes(), &[0, 0]].concat()).unwrap();
    stream
}

/// A connection that is told that it is connected.
fn connect(place: &Place, hash: StreamHash) -> TcpStream {
    let mut stream = send_handshake(place, &hash.to_hex());
    let mut reply = [0; 2 + 47];
    stream.read_exact(&mut reply).unwrap();
    assert_eq!(reply[..7], [5, 0, 5, 0, 0, 3, 40]);
    assert_eq!(&reply[7..47], hash.to_hex().as_bytes());
    stream
}

#[test]
fn a_file_goes_through_the_proxy_once_its_requester_has_activated_it() {
    let place = Place::new("").with_accounts(&["alice", "bob"]).with_xmpp("").with_bytestreams("");
    let mut node = place.start();
    let mut alice = Client::sign_in(&place, Tls, "alice", "a");
    let mut bob = Client::sign_in(&place, Tcp, "bob", "b");
    let (requester_jid, target_jid) = (alice.jid.clone(), bob.jid.clone());
    let found =
        ask(&mut alice, "get", &format!("proxy.{DOMAIN}"), &format!("<query xmlns='{}'/>", ns::BYTESTREAMS));
    let host = found.get("query", ns::BYTESTREAMS).and_then(|query| query.get("streamhost", ns::BYTESTREAMS));
    let host = host.unwrap_or_else(|| panic!("{found}"));
    let told = format!("{}:{}", host.attr("host").unwrap(), host.attr("port").unwrap());
    assert_eq!(told, place.bytestreams().to_string());

    let hash = StreamHash::of("s1", &requester_jid, &target_jid);
    assert!(activate(&mut alice, "s1", &target_jid).to_string().contains("item-not-found"));
    let mut target = connect(&place, hash);
    assert!(activate(&mut alice, "s1", &target_jid).to_string().contains("not-allowed"), "one end");
    let mut requester = connect(&place, hash);
    // The same stream as its target would name it, and as another one would: neither is the requester.
    assert!(activate(&mut bob, "s1", &requester_jid).to_string().contains("item-not-found"));
    assert!(activate(&mut bob, "s1", &target_jid).to_string().contains("item-not-found"));
    assert_eq!(activate(&mut alice, "s1", &target_jid).attr("type"), Some("result"));

    let content: Vec<u8> = (0..1 << 20).map(|number: u32| (number % 251) as u8).collect();
    let sent = content.clone();
    let send = move || {
        requester.write_all(&sent).unwrap();
        requester.shutdown(Shutdown::Write).unwrap();
        let mut thanks = String::new();
        requester.read_to_string(&mut thanks).unwrap();
        thanks
    };
    let sending = thread::Builder::new().spawn(send).unwrap();
    let mut got = Vec::new();
    target.read_to_end(&mut got).unwrap();
    assert!(got == content, "{} bytes", got.len());
    target.write_all(b"thanks").unwrap();
    drop(target);
    assert_eq!(sending.join().unwrap(), "thanks");
    let bytes = content.len() as u64 + 6;
    until("it is counted", || (sum(&node, |shard| shard.xmpp.bytestreams.bytes) == bytes).then_some(()));
    until("and over", || (sum(&node, |shard| shard.xmpp.bytestreams.active) == 0).then_some(()));
    assert_eq!(sum(&node, |shard| shard.xmpp.bytestreams.transfers), 1);
    node.stop();
}

#[test]
fn strangers_get_nothing_of_the_proxy() {
    let place = Place::new("").with_accounts(&["alice", "bob"]).with_xmpp("").with_bytestreams("");
    let mut node = place.start();
    let mut alice = Client::sign_in(&place, Tls, "alice", "a");
    let closed = |mut stream: TcpStream| {
        let mut replies = Vec::new();
        // A connection that is reset is closed as well.
        let _ = stream.read_to_end(&mut replies);
        replies
    };
    assert_eq!(
        closed(send_handshake(&place, "example.org")),
        [5, 0, 5, 2, 0, 1, 0, 0, 0, 0, 0, 0],
        "no relay to anywhere"
    );
    let mut web = TcpStream::connect(place.bytestreams()).unwrap();
    web.set_read_timeout(Some(PATIENCE)).unwrap();
    web.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    assert!(closed(web).is_empty());
    // A hash that no client activates joins nothing, and a third connection of a stream is refused.
    let bob = format!("bob@{DOMAIN}/b");
    let hash = StreamHash::of("s", &alice.jid, &bob);
    let stranger = connect(&place, StreamHash::of("other", &alice.jid, &bob));
    let (_first, second) = (connect(&place, hash), connect(&place, hash));
    assert_eq!(closed(send_handshake(&place, &hash.to_hex()))[..4], [5, 0, 5, 2]);
    drop(second);
    let waiting = |count| (sum(&node, |shard| shard.xmpp.bytestreams.waiting) == count).then_some(());
    until("the end that left is forgotten", || waiting(2));
    assert!(activate(&mut alice, "s", &bob).to_string().contains("not-allowed"));
    drop(stranger);
    assert_eq!(sum(&node, |shard| shard.xmpp.bytestreams.transfers), 0);
    until("refused ones are counted", || {
        (sum(&node, |shard| shard.xmpp.bytestreams.refused) == 3).then_some(())
    });
    node.stop();
}

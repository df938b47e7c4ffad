//! Events of chat for applications: an application gets them in their order, signed, also if it was away.

use std::io::{BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use interop::HttpRequest;
use serde_json::Value;
use sip::transport::Transport::{Tcp, Tls};

use super::client::Client;
use crate::phone::DOMAIN;
use crate::place::Place;
use crate::voice::sum;
use crate::{PATIENCE, until};

/// An application that answers its first request with 503 and all others with 204.
fn application() -> (SocketAddr, Receiver<HttpRequest>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (seen, requests) = sync_channel(100);
    // Ends with the process: it owns nothing but its socket.
    let run = move || {
        let mut status = "503 Service Unavailable";
        for stream in listener.incoming().flatten() {
            serve(stream, &mut status, &seen);
        }
    };
    std::thread::Builder::new().spawn(run).unwrap();
    (address, requests)
}

/// One request on each connection.
fn serve(mut stream: TcpStream, status: &mut &'static str, seen: &SyncSender<HttpRequest>) {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let Some(request) = HttpRequest::read(&mut reader) else { return };
    assert_eq!(request.method, "POST");
    seen.send(request).unwrap();
    let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    stream.write_all(answer.as_bytes()).unwrap();
    *status = "204 No Content";
}

#[test]
fn an_application_gets_signed_events_in_their_order_and_texts_only_if_told_so() {
    let (address, requests) = application();
    let place = Place::new("").with_accounts(&["alice", "bob"]).with_xmpp(&format!(
        "webhooks = [\
         {{ url = \"http://{address}/some?k=1\", events = [\"session_begin\", \"message\"], secret = \"hush\" }},\
         {{ url = \"http://{address}/texts\", events = [\"message\"], secret = \"hush\", bodies = true }}]"
    ));
    let mut node = place.start();
    let next = || {
        let request = requests.recv_timeout(PATIENCE).expect("an event");
        let url = format!("http://{address}{}", request.target);
        let signature = request.header("x-twilio-signature");
        assert!(ivr::signature::verify("hush", &url, &[], signature), "{url} {signature}");
        assert!(request.header("content-type").starts_with("application/json"), "{request:?}");
        let event: Value = serde_json::from_slice(&request.body).unwrap();
        (request.target.split("bodySHA256").next().unwrap().to_owned(), event)
    };
    let mut alice = Client::sign_in(&place, Tls, "alice", "a");
    let (path, first) = next();
    assert_eq!((&*path, &first["event"]), ("/some?k=1&", &Value::from("session_begin")));
    assert_eq!(first["from"], format!("alice@{DOMAIN}/a"));
    // Refused for now, and sent again with the same id.
    assert_eq!(next().1, first);
    let mut bob = Client::sign_in(&place, Tcp, "bob", "b");
    assert_eq!(next().1["from"], format!("bob@{DOMAIN}/b"));
    bob.say("<presence xmlns='jabber:client'/>");
    assert_eq!(bob.hear().name(), "presence");
    alice.message(&bob.jid, "hello");
    assert_eq!(bob.hear().name(), "message");
    let mut both = [next(), next()];
    both.sort_by(|one, other| one.0.cmp(&other.0));
    let [(some, without), (texts, with)] = both;
    assert_eq!((&*some, &*texts), ("/some?k=1&", "/texts?"));
    for event in [&without, &with] {
        assert_eq!((&event["event"], &event["type"]), (&Value::from("message"), &Value::from("chat")));
        assert_eq!((&event["from"], &event["to"]), (&Value::from(&*alice.jid), &Value::from(&*bob.jid)));
    }
    assert_eq!((without.get("body"), &with["body"]), (None, &Value::from("hello")));
    until("all are counted", || {
        let figures = (
            sum(&node, |shard| shard.xmpp.webhooks.sent),
            sum(&node, |shard| shard.xmpp.webhooks.dropped + shard.xmpp.webhooks.queued),
        );
        (figures == (4, 0)).then_some(())
    });
    assert_eq!(node.board().faults(), (0, 0, 0));
    node.stop();
}

//! Behind a reverse proxy: limits count the client that the proxy names, if the proxy is trusted.

use sip::transport::Transport::{Ws, Wss};
use xmpp::xml::{Prefixes, parse};

use super::bosh::{body, condition};
use super::http::Http;
use crate::place::Place;
use crate::until;
use crate::voice::sum;

const BEGIN: &str = "rid='1' to='example.test' wait='1' hold='1' ver='1.6' xmpp:version='1.0'";

fn place(trusted: &str) -> Place {
    let more = format!("[limits]\nconnections_per_source = 2\n[xmpp.web]\ntrusted_proxies = [{trusted}]");
    Place::with_shards(1, "").with_accounts(&["alice"]).with_xmpp(&more)
}

/// The outcome of a new session of that client; `None` when its connection finds no place.
fn begin(place: &Place, client: &str) -> Option<String> {
    let mut http = Http::try_connect(place, Wss)?;
    let forwarded = format!("X-Forwarded-For: {client}\r\n");
    http.say("POST", "/bosh", &forwarded, body(BEGIN, "").as_bytes());
    let answer = parse(&http.try_hear(true)?.body, &Prefixes::default()).ok()?;
    let is_begun = answer.attr("sid").is_some();
    Some(if is_begun { "begun".to_owned() } else { condition(&answer).to_owned() })
}

fn upgrade(place: &Place, client: &str) -> (Http, u16) {
    let mut http = Http::connect(place, Ws);
    let headers = format!(
        "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: xmpp\r\nX-Forwarded-For: {client}\r\n"
    );
    let status = http.ask("GET", "/ws", &headers, b"").status;
    (http, status)
}

#[test]
fn sessions_count_for_the_client_that_a_trusted_proxy_names() {
    let place = place("\"127.0.0.0/8\"");
    let mut node = place.start();
    for client in ["203.0.113.1", "203.0.113.2", "2001:db8::1"] {
        for expected in ["begun", "begun", "policy-violation"] {
            assert_eq!(begin(&place, &format!("198.51.100.7, {client}")).unwrap(), expected, "{client}");
        }
    }
    let first = upgrade(&place, "203.0.113.3");
    let second = upgrade(&place, "203.0.113.3");
    assert_eq!((first.1, second.1, upgrade(&place, "203.0.113.3").1), (101, 101, 503));
    until("all four are counted", || (sum(&node, |shard| shard.xmpp.refused) == 4).then_some(()));
    // One that goes makes place for the next, and others have theirs.
    assert_eq!(upgrade(&place, "203.0.113.4").1, 101);
    drop(first);
    until("there is place again", || (upgrade(&place, "203.0.113.3").1 == 101).then_some(()));
    node.stop();
}

#[test]
fn a_client_named_by_an_untrusted_proxy_is_ignored() {
    let place = place("\"10.0.0.0/8\"");
    let mut node = place.start();
    let first = until("the first begins", || begin(&place, "203.0.113.1"));
    assert_eq!(first, "begun");
    // One session, and the connection of the next: there is no place for a second session, whichever client
    // the header names.
    let next = until("a connection has place", || begin(&place, "203.0.113.2"));
    assert_eq!(next, "policy-violation");
    node.stop();
}

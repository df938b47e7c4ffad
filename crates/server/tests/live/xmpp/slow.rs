//! Slow and silent connections to XMPP: the others are served. A client that sends too much is read more
//! slowly.

use std::time::Duration;

use interop::Ports;
use sip::transport::Transport::{self, Tcp, Tls, Ws, Wss};
use xmpp::ns;

use super::bosh::Bosh;
use super::client::Client;
use super::http::Http;
use super::uploads::slot;
use crate::crowd::{is_answered, others_are_served};
use crate::place::Place;
use crate::until;

fn clients_are_served(transport: Transport, bytes: [u8; 2]) {
    let place = Place::new("").with_accounts(&["alice"]).with_xmpp("");
    let _node = place.spawn();
    others_are_served(place.xmpp_at(transport), bytes, || {
        drop(Client::sign_in(&place, transport, "alice", "a"));
    });
}

#[test]
fn five_thousand_slow_connections_of_tcp_keep_no_client_out() {
    clients_are_served(Tcp, *b"<s");
}

#[test]
fn five_thousand_slow_connections_of_tls_keep_no_client_out() {
    clients_are_served(Tls, [0x16, 0x03]);
}

#[test]
fn five_thousand_slow_connections_of_websocket_keep_no_client_out() {
    clients_are_served(Wss, [0x16, 0x03]);
}

#[test]
fn five_thousand_slow_connections_of_http_keep_no_client_from_bosh_and_files() {
    let place = Place::new("").with_accounts(&["alice"]).with_xmpp("");
    let _node = place.spawn();
    others_are_served(place.xmpp_at(Ws), *b"PO", || {
        let answer = Http::connect(&place, Ws).ask("GET", "/upload/none", "", b"");
        assert_eq!(answer.status, 404);
    });
    others_are_served(place.xmpp_at(Wss), [0x16, 0x03], || drop(Bosh::sign_in(&place, "alice", "web")));
}

#[test]
fn five_thousand_slow_connections_keep_neither_servers_nor_components_out() {
    let ports = Ports::reserve(2);
    let (servers, components) = (ports.first(), ports.first() + 1);
    let more = format!(
        "component_listen = [\"tcp:127.0.0.1:{components}\"]\n\
         components = [{{ domain = \"echo.example.test\", secret = \"hush\" }}]\n\
         [xmpp.federation]\nlisten = [\"tcp:127.0.0.1:{servers}\"]"
    );
    let place = Place::new("").with_accounts(&["alice"]).with_xmpp(&more);
    let _node = place.spawn();
    let at = |port: u16| std::net::SocketAddr::from(([127, 0, 0, 1], port));
    others_are_served(at(servers), *b"<s", || {
        let header = "<stream:stream xmlns='jabber:server' xmlns:stream='http://etherx.jabber.org/streams' \
             from='two.test' to='example.test' version='1.0'>";
        is_answered(at(servers), header, "stream:features");
    });
    others_are_served(at(components), *b"<s", || {
        let header = "<stream:stream xmlns='jabber:component:accept' \
             xmlns:stream='http://etherx.jabber.org/streams' to='echo.example.test'>";
        is_answered(at(components), header, "id=");
    });
}

#[test]
fn a_stanza_that_trickles_and_never_ends_is_ended() {
    let place = Place::new("").with_accounts(&["alice"]).with_xmpp("idle = \"1s\"");
    let mut node = place.start();
    let mut alice = Client::sign_in(&place, Tcp, "alice", "a");
    alice.say("<message xmlns='jabber:client'><body>");
    until("the server has enough", || alice.try_say("x").is_err().then_some(()));
    node.stop();
}

#[test]
fn guesses_of_a_source_are_counted_over_all_shards() {
    let place = Place::with_shards(4, "").with_accounts(&["alice"]).with_xmpp("");
    let mut node = place.start();
    let begun = crate::Deadline::after(crate::PATIENCE);
    let (mut looked_at, mut refused) = (0, 0);
    // The kernel decides which shard gets a connection.
    until("enough guesses were refused", || {
        let mut client = Client::connect(&place, Tls);
        client.open();
        for _ in 0..4 {
            match client.plain("alice", "guess").get("temporary-auth-failure", ns::SASL) {
                Some(_) => refused += 1,
                None => looked_at += 1,
            }
        }
        (refused >= 24).then_some(())
    });
    let took = crate::PATIENCE - begun.left().unwrap_or_default();
    // Beyond the free ones each guess is followed by a second of refusals at least, at every shard.
    let most = u64::from(sip::limits::WRONG_BY_PAIR.free_failures) + 1 + took.as_secs() + 1;
    assert!(looked_at <= most, "{looked_at} guesses were looked at within {took:?}");
    node.stop();
}

#[test]
fn a_file_that_trickles_is_ended_and_the_next_of_its_user_waits_for_it() {
    let place = Place::new("").with_accounts(&["alice"]).with_xmpp("sign_in = \"5s\"");
    let mut node = place.start();
    let mut alice = Client::sign_in(&place, Tls, "alice", "a");
    let (first, second) =
        (slot(&place, &mut alice, "a", 5_000, "text/plain"), slot(&place, &mut alice, "b", 2, "text/plain"));
    let mut slow = Http::connect(&place, Ws);
    let head = |slot: &super::uploads::Slot, size| {
        format!(
            "PUT {} HTTP/1.1\r\nHost: x\r\nAuthorization: {}\r\nContent-Type: text/plain\r\nContent-Length: {size}\r\n\r\n",
            slot.path, slot.token
        )
    };
    slow.say_raw(format!("{}x", head(&first, 5_000)).as_bytes());
    let coming = place.path("data/uploads/coming");
    until("it comes", || std::fs::read_dir(&coming).ok()?.next().map(drop));
    let begun = crate::Deadline::after(crate::PATIENCE);
    let mut next = Http::connect(&place, Ws);
    next.say_raw(format!("{}ok", head(&second, 2)).as_bytes());
    assert_eq!(next.hear(true).status, 201);
    let took = crate::PATIENCE - begun.left().unwrap_or_default();
    assert!(took > Duration::from_millis(500), "it had to wait for its turn: {took:?}");
    assert_eq!(slow.hear(true).status, 408);
    node.stop();
}

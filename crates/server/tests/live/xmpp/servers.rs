//! Two nodes that speak with each other, and what others try at the port for servers.

use std::io::{Read, Write};
use std::net::TcpStream;

use interop::{Dns, free_port};
use net::clock::Clock;
use server::node::Node;
use sip::transport::Transport::Tls;
use store::types::{Address, NewAccount};
use xmpp::{Element, ns};

use super::client::Client;
use crate::PATIENCE;
use crate::phone::PASSWORD;
use crate::place::Place;
use crate::until;
use crate::voice::sum;

pub(super) const ONE: &str = "one.test";
pub(super) const TWO: &str = "two.test";

/// A node that serves `domain` for `user`; `federation` is that section.
fn place(domain: &str, user: &str, federation: &str) -> Place {
    place_with("", domain, user, federation)
}

/// As [`place`]; `sip` is for that section.
pub(super) fn place_with(sip: &str, domain: &str, user: &str, federation: &str) -> Place {
    let place = Place::new(sip).with_xmpp("");
    let file = place.path("belfry.toml");
    let text = std::fs::read_to_string(&file).unwrap().replace("example.test", domain);
    std::fs::write(file, format!("{text}\n[xmpp.federation]\n{federation}\n")).unwrap();
    let mut admin = place.admin();
    admin.ensure_domain(domain, Clock::new().now()).unwrap();
    let address = Address::new(user, domain).unwrap();
    admin.add_account(NewAccount::with_password(address, PASSWORD, Clock::new().now()).unwrap()).unwrap();
    place
}

/// Two nodes, whose users are alice and bob; `ways` is `tcp:` or `tls:`, `more` goes into the first's section.
pub(super) struct Both {
    pub(super) places: [Place; 2],
    pub(super) nodes: [Node; 2],
}

impl Both {
    fn start(way: &str, more: &str) -> Both {
        let ports = [free_port(), free_port()];
        let direct = if way == "tls" { "tls:" } else { "" };
        let section = |own: usize, other: &str, more: &str| {
            let there = ports[1 - own];
            format!(
                "listen = [\"{way}:127.0.0.1:{}\"]\nroutes = [\"{other}={direct}127.0.0.1:{there}\", \
                 \"*.{other}={direct}127.0.0.1:{there}\"]\n{more}",
                ports[own]
            )
        };
        let places = [place(ONE, "alice", &section(0, TWO, more)), place(TWO, "bob", &section(1, ONE, ""))];
        Both::of(places)
    }

    pub(super) fn of(places: [Place; 2]) -> Both {
        let nodes = [places[0].start(), places[1].start()];
        Both { places, nodes }
    }

    pub(super) fn clients(&self) -> (Client, Client) {
        let alice = Client::sign_in_to(ONE, &self.places[0], Tls, "alice", "a");
        (alice, Client::sign_in_to(TWO, &self.places[1], Tls, "bob", "b"))
    }

    pub(super) fn stop(mut self) {
        for node in &mut self.nodes {
            assert_eq!(node.board().faults(), (0, 0, 0));
            node.stop();
        }
    }
}

fn hears(client: &mut Client, body: &str) -> Element {
    loop {
        let stanza = client.hear();
        if stanza.content_of("body", ns::CLIENT).as_deref() == Some(body) {
            return stanza;
        }
    }
}

pub(super) fn chat(both: &Both) {
    let (mut alice, mut bob) = both.clients();
    alice.message("bob@two.test/b", "hello &lt;you&gt;");
    let stanza = hears(&mut bob, "hello <you>");
    assert_eq!(stanza.attr("from"), Some("alice@one.test/a"));
    for number in 0..50 {
        bob.message("alice@one.test/a", &number.to_string());
        alice.message("bob@two.test/b", &number.to_string());
    }
    for number in 0..50 {
        assert_eq!(hears(&mut alice, &number.to_string()).attr("from"), Some("bob@two.test/b"));
        hears(&mut bob, &number.to_string());
    }
}

#[test]
fn users_of_two_nodes_chat_after_starttls() {
    let both = Both::start("tcp", "");
    chat(&both);
    until("it is counted", || (sum(&both.nodes[0], |s| s.xmpp.servers.stanzas_out) >= 51).then_some(()));
    assert_eq!(sum(&both.nodes[0], |shard| shard.xmpp.servers.faults), 0);
    both.stop();
}

#[test]
fn users_of_two_nodes_chat_over_direct_tls() {
    let both = Both::start("tls", "");
    chat(&both);
    both.stop();
}

#[test]
fn servers_find_each_other_by_dns() {
    let ports = [free_port(), free_port()];
    let names = [Dns::start(ports[1]), Dns::start(ports[0])];
    let made = |own: usize, domain: &str, user: &str| {
        let sip = format!("nameservers = [\"127.0.0.1:{}\"]", names[own].port);
        place_with(&sip, domain, user, &format!("listen = [\"tcp:127.0.0.1:{}\"]", ports[own]))
    };
    let both = Both::of([made(0, ONE, "alice"), made(1, TWO, "bob")]);
    chat(&both);
    both.stop();
}

#[test]
fn a_reload_changes_the_servers_that_are_federated_with() {
    let mut both = Both::start("tcp", "");
    let (mut alice, mut bob) = both.clients();
    bob.message("alice@one.test/a", "hello");
    hears(&mut alice, "hello");
    let file = both.places[0].path("belfry.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("{text}\nblock = [\"two.test\"]\n")).unwrap();
    both.nodes[0].reconfigure(both.places[0].config()).unwrap();
    until("the streams are closed", || {
        (sum(&both.nodes[0], |s| s.xmpp.servers.incoming + s.xmpp.servers.outgoing) == 0).then_some(())
    });
    alice.message("bob@two.test/b", "hello");
    assert!(alice.hear().to_string().contains("not-allowed"));
    std::fs::write(&file, text).unwrap();
    both.nodes[0].reconfigure(both.places[0].config()).unwrap();
    alice.message("bob@two.test/b", "again");
    hears(&mut bob, "again");
    both.stop();
}

#[test]
fn contacts_and_rooms_are_on_either_node() {
    let both = Both::start("tcp", "");
    let (mut alice, mut bob) = both.clients();
    for client in [&mut alice, &mut bob] {
        client.say("<iq xmlns='jabber:client' type='get' id='r'><query xmlns='jabber:iq:roster'/></iq>");
        client.say("<presence xmlns='jabber:client'/>");
    }
    alice.say("<presence xmlns='jabber:client' type='subscribe' to='bob@two.test'/>");
    let presence_of = |client: &mut Client, from: &str, kind: Option<&str>| loop {
        let stanza = client.hear();
        let is_it = stanza.name() == "presence" && stanza.attr("type") == kind;
        if is_it && stanza.attr("from").is_some_and(|known| known.starts_with(from)) {
            return stanza;
        }
    };
    presence_of(&mut bob, "alice@one.test", Some("subscribe"));
    bob.say("<presence xmlns='jabber:client' type='subscribed' to='alice@one.test'/>");
    presence_of(&mut alice, "bob@two.test", Some("subscribed"));
    presence_of(&mut alice, "bob@two.test/b", None);
    let join = |client: &mut Client, nick: &str| {
        client.say(&format!(
            "<presence xmlns='jabber:client' to='tea@conference.two.test/{nick}'>\
             <x xmlns='http://jabber.org/protocol/muc'/></presence>"
        ));
    };
    join(&mut bob, "bob");
    presence_of(&mut bob, "tea@conference.two.test/bob", None);
    bob.say(
        "<iq xmlns='jabber:client' type='set' id='c' to='tea@conference.two.test'>\
         <query xmlns='http://jabber.org/protocol/muc#owner'><x xmlns='jabber:x:data' type='submit'/></query></iq>",
    );
    join(&mut alice, "alice");
    presence_of(&mut alice, "tea@conference.two.test/bob", None);
    presence_of(&mut alice, "tea@conference.two.test/alice", None);
    alice.say(
        "<message xmlns='jabber:client' type='groupchat' to='tea@conference.two.test'><body>cake?</body></message>",
    );
    let stanza = hears(&mut bob, "cake?");
    assert_eq!(stanza.attr("from"), Some("tea@conference.two.test/alice"));
    hears(&mut alice, "cake?");
    both.stop();
}

#[test]
fn a_stanza_that_cannot_be_routed_is_returned_as_an_error() {
    let dead = free_port();
    let closed =
        format!("listen = [\"tcp:127.0.0.1:{}\"]\nroutes = [\"dead.test=127.0.0.1:{dead}\"]", free_port());
    let place = place(ONE, "alice", &format!("{closed}\nblock = [\"*.blocked.test\"]"));
    let mut node = place.start();
    let mut alice = Client::sign_in_to(ONE, &place, Tls, "alice", "a");
    for (to, condition) in [("x@dead.test", "remote-server-timeout"), ("x@very.blocked.test", "not-allowed")]
    {
        alice.message(to, "hello");
        let answer = alice.hear();
        assert_eq!((answer.attr("type"), answer.attr("from")), (Some("error"), Some(to)), "{answer}");
        assert!(answer.to_string().contains(condition), "{to}: {answer}");
    }
    until("it is counted", || (sum(&node, |shard| shard.xmpp.servers.returned) == 2).then_some(()));
    node.stop();
}

#[test]
fn a_closed_policy_federates_with_no_server() {
    let both = Both::start("tcp", "policy = \"closed\"");
    let (mut alice, mut bob) = both.clients();
    alice.message("bob@two.test", "hello");
    assert!(alice.hear().to_string().contains("not-allowed"));
    bob.message("alice@one.test", "hello");
    let answer = bob.hear().to_string();
    assert!(answer.contains("remote-server-not-found") && answer.contains("policy-violation"), "{answer}");
    both.stop();
}

/// Bytes to the port for servers; all that comes back until it closes.
fn raw(port: u16, text: &str) -> String {
    let mut socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.write_all(text.as_bytes()).unwrap();
    let mut answer = Vec::new();
    // It may be reset after the last word.
    let _ = socket.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn a_peer_that_is_no_server_gets_a_stream_error() {
    let port = free_port();
    let listen = format!("listen = [\"tcp:127.0.0.1:{port}\"]\nauthorize = \"1s\"");
    let place = place(ONE, "alice", &listen);
    let mut node = place.start();
    let header = |to: &str| {
        format!(
            "<stream:stream xmlns='jabber:server' xmlns:stream='http://etherx.jabber.org/streams' \
             from='evil.test' to='{to}' version='1.0'>"
        )
    };
    for (text, condition) in [
        (header("elsewhere.test"), "host-unknown"),
        (header(ONE).replace("jabber:server", "jabber:client"), "invalid-namespace"),
        (header(ONE) + "<message from='x@evil.test' to='alice@one.test'/>", "policy-violation"),
        ("GET / HTTP/1.1\r\n\r\n".into(), "not-well-formed"),
        (format!("<{}", "x".repeat(20_000)), "policy-violation"),
        // Half a stream, and nothing more.
        (header(ONE), "connection-timeout"),
        (String::new(), "connection-timeout"),
    ] {
        let answer = raw(port, &text);
        assert!(answer.contains(&format!("<{condition} ")), "{text}: {answer}");
    }
    until("all are gone", || (sum(&node, |shard| shard.xmpp.servers.incoming) == 0).then_some(()));
    assert_eq!(sum(&node, |shard| shard.xmpp.servers.faults), 7);
    assert_eq!(node.board().faults(), (0, 0, 0));
    node.stop();
}

#[test]
fn a_server_that_claims_a_foreign_domain_is_refused() {
    let both = Both::start("tcp", "require_tls = false");
    let port = both.places[0].config().federation.listen[0].address.port();
    // two.test is asked, and made no such key.
    let answer = raw(
        port,
        "<stream:stream xmlns='jabber:server' xmlns:db='jabber:server:dialback' from='two.test' to='one.test' \
         xmlns:stream='http://etherx.jabber.org/streams' version='1.0'>\
         <db:result from='two.test' to='one.test'>0123456789abcdef</db:result>\
         <message from='bob@two.test' to='alice@one.test'><body>forged</body></message>",
    );
    // A stanza before the answer ends the stream, too.
    assert!(answer.contains("<not-authorized "), "{answer}");
    let answer = raw(
        port,
        "<stream:stream xmlns='jabber:server' xmlns:db='jabber:server:dialback' from='two.test' to='one.test' \
         xmlns:stream='http://etherx.jabber.org/streams' version='1.0'>\
         <db:result from='two.test' to='one.test'>0123456789abcdef</db:result>",
    );
    assert!(answer.contains("<db:result from='one.test' to='two.test' type='invalid'/>"), "{answer}");
    until("it is counted", || (sum(&both.nodes[0], |s| s.xmpp.servers.refused) >= 1).then_some(()));
    both.stop();
}

/// A stream of a server that shows a key for its domain; what comes back until it is closed.
fn show_key(port: u16, domain: &str) -> String {
    raw(
        port,
        &format!(
            "<stream:stream xmlns='jabber:server' xmlns:db='jabber:server:dialback' from='{domain}' to='one.test' \
             xmlns:stream='http://etherx.jabber.org/streams' version='1.0'>\
             <db:result from='{domain}' to='one.test'>0123456789abcdef</db:result>"
        ),
    )
}

/// XEP-0220 §2.4: the domain's own server says `invalid`, or cannot be asked.
#[test]
fn a_server_that_does_not_prove_its_domain_is_a_failed_sign_in() {
    let [here, there, closed] = [free_port(), free_port(), free_port()];
    let section = format!(
        "listen = [\"tcp:127.0.0.1:{here}\"]\nrequire_tls = false\nauthorize = \"2s\"\n\
         routes = [\"two.test=127.0.0.1:{there}\", \"gone.test=127.0.0.1:{closed}\"]"
    );
    let one = place(ONE, "alice", &section);
    let two = place(
        TWO,
        "bob",
        &format!("listen = [\"tcp:127.0.0.1:{there}\"]\nroutes = [\"one.test=127.0.0.1:{here}\"]"),
    );
    let mut other = two.start();
    let node = one.spawn();
    assert!(show_key(here, TWO).contains("type='invalid'"));
    assert!(show_key(here, "gone.test").contains("type='error'"));
    for (cause, domain) in [("wrong-secret", TWO), ("unverified", "gone.test")] {
        let line = format!(
            "sign-in failed address=127.0.0.1 service=servers transport=tcp cause={cause} account=\"{domain}\""
        );
        until(&line, || node.log().contains(&line).then_some(()));
        let mut socket = TcpStream::connect(one.http()).unwrap();
        socket.write_all(b"GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
        let mut metrics = String::new();
        socket.read_to_string(&mut metrics).unwrap();
        let counter = format!("belfry_sign_in_failures_total{{service=\"servers\",cause=\"{cause}\"}} 1\n");
        assert!(metrics.contains(&counter), "{counter}: {metrics}");
    }
    other.stop();
}

#[test]
fn connections_of_one_source_have_a_bound() {
    let port = free_port();
    let listen = format!("listen = [\"tcp:127.0.0.1:{port}\"]\n[limits]\nconnections_per_source = 3");
    let place = place(ONE, "alice", &listen);
    let mut node = place.start();
    let open: Vec<TcpStream> = (0..20).map(|_| TcpStream::connect(("127.0.0.1", port)).unwrap()).collect();
    until("the others are refused", || {
        (sum(&node, |shard| shard.xmpp.server_connections_refused) == 17).then_some(())
    });
    assert!(sum(&node, |shard| shard.xmpp.servers.incoming) <= 3);
    drop(open);
    node.stop();
}

#[test]
fn a_server_that_sends_too_much_is_read_slowly_and_nothing_is_lost() {
    let both = Both::start("tcp", "stanzas_per_second = 100");
    let (mut alice, mut bob) = both.clients();
    // A burst of five seconds passes; the rest takes one more.
    for number in 0..600 {
        bob.message(&alice.jid, &number.to_string());
    }
    for number in 0..600 {
        hears(&mut alice, &number.to_string());
    }
    until("a pause is counted", || (sum(&both.nodes[0], |shard| shard.xmpp.server_pauses) > 0).then_some(()));
    both.stop();
}

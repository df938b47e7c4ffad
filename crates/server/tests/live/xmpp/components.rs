//! External components (XEP-0114): their connections, the stanzas that reach them, and the ends of their
//! streams.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use cluster::Bucket;
use interop::Ports;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use server::node::Node;
use sha1::{Digest, Sha1};
use sha2::Sha256;
use sip::transport::Transport::{Tcp, Tls, Wss};
use socket2::{Domain, Socket, Type};
use xmpp::xml::{Frame, Framer, Prefixes, parse, parse_header};
use xmpp::{Element, ns};

use super::client::Client;
use crate::link::Stream;
use crate::phone::DOMAIN;
use crate::place::Place;
use crate::voice::sum;
use crate::{Deadline, PATIENCE, until};

/// A node where two components may connect, in the clear and by TLS.
struct World {
    place: Place,
    node: Node,
    ports: Ports,
}

impl World {
    fn new(users: &[&str], more: &str) -> World {
        World::granting(users, more, "")
    }

    /// The component `echo` has these permissions.
    fn granting(users: &[&str], more: &str, permissions: &str) -> World {
        let ports = Ports::reserve(2);
        let sections = format!(
            "{more}\ncomponent_listen = [\"tcp:127.0.0.1:{}\", \"tls:127.0.0.1:{}\"]\ncomponents = [\
             {{ domain = \"echo.{DOMAIN}\", secret = \"hush\"{permissions} }}, {{ domain = \"other.{DOMAIN}\", secret = \"else\" }}]",
            ports.first(),
            ports.first() + 1
        );
        let place = Place::new("").with_accounts(users).with_xmpp(&sections);
        World { node: place.start(), place, ports }
    }

    fn connect(&self) -> Component {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        // A small receive buffer makes a peer that does not read block the sender early.
        socket.set_recv_buffer_size(16 * 1024).unwrap();
        let at = SocketAddr::from(([127, 0, 0, 1], self.ports.first()));
        socket.connect(&at.into()).unwrap();
        let tcp = TcpStream::from(socket);
        Component::over(Box::new(tcp.try_clone().unwrap()), tcp)
    }

    fn connect_tls(&self) -> Component {
        let tcp = TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], self.ports.first() + 1))).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(self.place.path("data/cert.pem")).unwrap()).unwrap();
        let trust = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        let name = ServerName::try_from("localhost").unwrap();
        let connection = ClientConnection::new(Arc::new(trust), name).unwrap();
        Component::over(Box::new(StreamOwned::new(connection, tcp.try_clone().unwrap())), tcp)
    }

    /// It has proved to be the component and is reached.
    fn attach(&self) -> Component {
        self.connect().attached("echo", "hush")
    }

    /// As told by all shards.
    fn wait_for(&self, connections: u64) {
        until("so many components are attached", || {
            (sum(&self.node, |shard| shard.xmpp.components) == connections).then_some(())
        });
    }
}

/// One stream of a component.
struct Component {
    io: Box<dyn Stream>,
    tcp: TcpStream,
    framer: Framer,
    prefixes: Prefixes,
    id: String,
    inbox: VecDeque<Element>,
}

impl Component {
    fn over(io: Box<dyn Stream>, tcp: TcpStream) -> Component {
        let (framer, prefixes) = (Framer::new(), Prefixes::default());
        Component { io, tcp, framer, prefixes, id: String::new(), inbox: VecDeque::new() }
    }

    fn say(&mut self, xml: &str) {
        self.io.write_all(xml.as_bytes()).and_then(|()| self.io.flush()).unwrap();
    }

    fn open(&mut self, domain: &str) {
        self.say(&format!(
            "<stream:stream xmlns='jabber:component:accept' xmlns:stream='http://etherx.jabber.org/streams' \
             to='{domain}'>"
        ));
    }

    fn prove(&mut self, secret: &str) {
        let deadline = Deadline::after(PATIENCE);
        while self.id.is_empty() {
            let left = deadline.left().expect("a header");
            assert!(self.read(left), "no header");
        }
        let proof = stdx::hex::encode(&Sha1::digest(format!("{}{secret}", self.id)));
        self.say(&format!("<handshake>{proof}</handshake>"));
    }

    #[track_caller]
    fn attached(mut self, name: &str, secret: &str) -> Component {
        self.open(&format!("{name}.{DOMAIN}"));
        self.prove(secret);
        let answer = self.hear();
        assert!(answer.is("handshake", ns::COMPONENT), "{answer}");
        self
    }

    /// Returns true while the stream is open.
    fn read(&mut self, patience: Duration) -> bool {
        self.tcp.set_read_timeout(Some(patience)).unwrap();
        let mut buffer = [0; 16_384];
        match self.io.read(&mut buffer) {
            Ok(0) => return false,
            Ok(count) => self.framer.put(&buffer[..count]),
            Err(error) => return matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        }
        while let Some(frame) = self.framer.next(usize::MAX).unwrap() {
            match frame {
                Frame::Header(range) => {
                    let (header, prefixes) = parse_header(self.framer.bytes(range)).unwrap();
                    self.id = header.attr("id").unwrap().to_owned();
                    self.prefixes = prefixes;
                }
                Frame::Stanza(range) => {
                    self.inbox.push_back(parse(self.framer.bytes(range), &self.prefixes).unwrap());
                }
                Frame::Whitespace => {}
                Frame::Close => return true,
            }
        }
        true
    }

    /// The next element. `None`: the server closed.
    #[track_caller]
    fn hear_or_end(&mut self) -> Option<Element> {
        let deadline = Deadline::after(PATIENCE);
        while self.inbox.is_empty() {
            let left = deadline.left().expect("something comes");
            if !self.read(left) {
                break;
            }
        }
        self.inbox.pop_front()
    }

    #[track_caller]
    fn hear(&mut self) -> Element {
        self.hear_or_end().expect("the stream goes on")
    }

    /// The next stanza, if it is here already or comes soon.
    fn hear_soon(&mut self) -> Option<Element> {
        if self.inbox.is_empty() {
            self.read(Duration::from_millis(20));
        }
        self.inbox.pop_front()
    }

    /// The stream error that ends it.
    #[track_caller]
    fn end(&mut self) -> String {
        let mut last = None;
        while let Some(element) = self.hear_or_end() {
            last = Some(element);
        }
        let error = last.expect("a last word");
        assert!(error.is("error", ns::STREAM), "{error}");
        error.first().unwrap().name().to_owned()
    }
}

/// Names of so many accounts of each of the two shards.
fn names(count: usize) -> Vec<String> {
    let owned = |shard: u16| {
        let names = (0..).map(|number| format!("user{number}"));
        let owned = names.filter(move |name| Bucket::of(&format!("{name}@{DOMAIN}")).shard(2) == shard);
        owned.take(count)
    };
    owned(0).chain(owned(1)).collect()
}

#[test]
fn a_component_and_users_of_all_shards_talk() {
    let names = names(1);
    let users: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut world = World::new(&users, "");
    // So many that either shard most likely has some, and one by TLS.
    let mut components: Vec<Component> = (0..6).map(|_| world.attach()).collect();
    components.push(world.connect_tls().attached("echo", "hush"));
    world.wait_for(7);
    for (number, user) in users.iter().enumerate() {
        let mut client = Client::sign_in(&world.place, [Tcp, Wss][number], user, "r");
        for (number, component) in components.iter_mut().enumerate() {
            let from = format!("bot{number}@echo.{DOMAIN}/x");
            component.say(&format!(
                "<message type='chat' from='{from}' to='{}'><body>{number} &lt;&amp;</body></message>",
                client.jid
            ));
            let stanza = client.hear();
            assert_eq!(stanza.attr("from"), Some(&*from), "{stanza}");
            assert_eq!(stanza.content_of("body", ns::CLIENT).as_deref(), Some(&*format!("{number} <&")));
        }
        // A question to an address of the component's, and its answer.
        client.say(&format!(
            "<iq xmlns='jabber:client' type='get' id='q' to='x@echo.{DOMAIN}/y'><query xmlns='jabber:iq:version'/></iq>"
        ));
        let asked = until("one of them is asked", || {
            let mut all = components.iter_mut();
            let (asked, component) = all.find_map(|one| one.hear_soon().map(|asked| (asked, one)))?;
            let to = &client.jid;
            component.say(&format!("<iq type='result' id='q' from='x@echo.{DOMAIN}/y' to='{to}'/>"));
            Some(asked)
        });
        assert_eq!(asked.attr("from"), Some(&*client.jid), "{asked}");
        assert!(asked.is("iq", ns::COMPONENT) && asked.get("query", ns::VERSION).is_some(), "{asked}");
        let answer = client.hear();
        assert_eq!((answer.attr("type"), answer.attr("id")), (Some("result"), Some("q")), "{answer}");
    }
    drop(components);
    world.wait_for(0);
    assert_eq!(world.node.board().faults(), (0, 0, 0));
    world.node.stop();
}

#[test]
fn a_user_stays_with_one_connection_until_it_goes() {
    let mut world = World::new(&["alice"], "");
    let mut components: Vec<Component> = (0..4).map(|_| world.attach()).collect();
    world.wait_for(4);
    // From three resources, to several addresses.
    let mut clients: Vec<Client> =
        ["a", "b", "c"].map(|resource| Client::sign_in(&world.place, Tls, "alice", resource)).into();
    let mut meets = |components: &mut Vec<Component>| {
        for (number, client) in clients.iter_mut().enumerate() {
            client.message(&format!("x{number}@echo.{DOMAIN}"), "hello");
        }
        let place =
            until("one of them has it", || components.iter_mut().position(|one| one.hear_soon().is_some()));
        for _ in 1..clients.len() {
            assert_eq!(components[place].hear().name(), "message", "as the first");
        }
        place
    };
    let first = meets(&mut components);
    assert_eq!(meets(&mut components), first);
    drop(components.remove(first));
    world.wait_for(3);
    meets(&mut components);
    world.node.stop();
}

#[test]
fn a_stanza_to_a_disconnected_component_is_returned_as_an_error() {
    let mut world = World::new(&["alice"], "");
    let mut alice = Client::sign_in(&world.place, Tls, "alice", "a");
    let to = format!("x@echo.{DOMAIN}");
    let is_refused = |alice: &mut Client| {
        alice.message(&to, "hello");
        let answer = alice.hear();
        assert_eq!((answer.attr("type"), answer.attr("from")), (Some("error"), Some(&*to)), "{answer}");
        let error = answer.get("error", ns::CLIENT).unwrap();
        assert!(error.get("service-unavailable", ns::STANZA_ERRORS).is_some(), "{answer}");
        assert_eq!(error.attr("type"), Some("wait"), "{answer}");
    };
    is_refused(&mut alice);
    let mut echo = world.attach();
    alice.message(&to, "hello");
    assert_eq!(echo.hear().content_of("body", ns::COMPONENT).as_deref(), Some("hello"));
    // Another component and another server are told, too.
    for to in [format!("x@other.{DOMAIN}"), "x@elsewhere.invalid".to_owned()] {
        echo.say(&format!("<message from='x@echo.{DOMAIN}' to='{to}' id='m'><body>hi</body></message>"));
        let answer = echo.hear();
        assert_eq!((answer.attr("type"), answer.attr("from")), (Some("error"), Some(&*to)), "{answer}");
    }
    let mut other = world.connect().attached("other", "else");
    world.wait_for(2);
    echo.say(&format!("<message from='x@echo.{DOMAIN}' to='y@other.{DOMAIN}'><body>hi</body></message>"));
    assert_eq!(other.hear().attr("from"), Some(&*format!("x@echo.{DOMAIN}")));
    echo.say("</stream:stream>");
    world.wait_for(1);
    is_refused(&mut alice);
    world.node.stop();
}

#[test]
fn a_contact_at_a_component_is_seen_and_sees() {
    let mut world = World::new(&["alice"], "");
    let mut echo = world.attach();
    world.wait_for(1);
    let mut alice = Client::sign_in(&world.place, Tls, "alice", "a");
    alice.say("<iq xmlns='jabber:client' type='get' id='r'><query xmlns='jabber:iq:roster'/></iq>");
    assert_eq!(alice.hear().attr("id"), Some("r"));
    alice.say("<presence xmlns='jabber:client'/>");
    assert_eq!(alice.hear().name(), "presence", "her own");
    let contact = format!("bob@echo.{DOMAIN}");
    alice.say(&format!("<presence xmlns='jabber:client' type='subscribe' to='{contact}'/>"));
    let asked = echo.hear();
    assert_eq!((asked.attr("type"), asked.attr("from")), (Some("subscribe"), Some("alice@example.test")));
    echo.say(&format!(
        "<presence type='subscribed' from='{contact}' to='alice@{DOMAIN}'/>\
         <presence from='{contact}/irc' to='alice@{DOMAIN}'><show>away</show></presence>"
    ));
    until("alice sees the user", || {
        let stanza = alice.hear();
        let is_seen = stanza.name() == "presence" && stanza.attr("from") == Some(&*format!("{contact}/irc"));
        is_seen.then(|| assert_eq!(stanza.content_of("show", ns::CLIENT).as_deref(), Some("away")))
    });
    world.node.stop();
}

#[test]
fn a_component_with_a_wrong_secret_is_closed_and_counted() {
    let mut world = World::new(&[], "");
    for (domain, secret, condition) in [
        (format!("echo.{DOMAIN}"), "else", "not-authorized"),
        (format!("other.{DOMAIN}"), "hush", "not-authorized"),
        (format!("nobody.{DOMAIN}"), "hush", "host-unknown"),
        (DOMAIN.to_owned(), "hush", "host-unknown"),
    ] {
        let mut component = world.connect();
        component.open(&domain);
        component.prove(secret);
        assert_eq!(component.end(), condition, "{domain}");
    }
    let mut client = world.connect();
    client.say("<stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' to='example.test'>");
    assert_eq!(client.end(), "invalid-namespace");
    until("they are counted", || {
        (sum(&world.node, |shard| shard.xmpp.components_refused) == 5).then_some(())
    });
    world.wait_for(0);
    world.node.stop();
}

#[test]
fn an_address_that_guesses_is_barred_even_with_the_right_secret() {
    let mut world = World::new(&[], "");
    until("it is barred", || {
        // The right secret takes one failure back: all shards count together.
        for _ in 0..3 {
            let mut component = world.connect();
            component.open(&format!("echo.{DOMAIN}"));
            component.prove("guess");
            assert_eq!(component.end(), "not-authorized");
        }
        let mut component = world.connect();
        component.open(&format!("echo.{DOMAIN}"));
        component.prove("hush");
        let answer = component.hear();
        answer.is("error", ns::STREAM).then(|| assert_eq!(answer.first().unwrap().name(), "policy-violation"))
    });
    world.node.stop();
}

#[test]
fn a_component_that_sends_from_another_domain_is_closed() {
    let mut world = World::new(&["alice"], "");
    for from in [format!("alice@{DOMAIN}"), format!("x@other.{DOMAIN}"), DOMAIN.to_owned()] {
        let mut echo = world.attach();
        echo.say(&format!("<message from='{from}' to='alice@{DOMAIN}'><body>hi</body></message>"));
        assert_eq!(echo.end(), "invalid-from", "{from}");
    }
    world.wait_for(0);
    world.node.stop();
}

#[test]
fn connections_of_a_component_have_a_limit() {
    let mut world = World::new(&[], "");
    let most = xmpp::limits::COMPONENT_CONNECTIONS;
    let all: Vec<Component> = (0..most).map(|_| world.attach()).collect();
    world.wait_for(most as u64);
    let mut one_more = world.connect();
    one_more.open(&format!("echo.{DOMAIN}"));
    one_more.prove("hush");
    assert_eq!(one_more.end(), "conflict");
    drop(all);
    world.wait_for(0);
    drop(world.attach());
    world.node.stop();
}

#[test]
fn a_component_that_does_not_read_for_long_is_closed() {
    let mut world = World::new(&["alice"], "idle = \"2s\"");
    let echo = world.attach();
    world.wait_for(1);
    let mut alice = Client::sign_in(&world.place, Tls, "alice", "a");
    let body = "x".repeat(200_000);
    until("it is closed", || {
        alice.message(&format!("x@echo.{DOMAIN}"), &body);
        (sum(&world.node, |shard| shard.xmpp.component_overflows) == 1).then_some(())
    });
    world.wait_for(0);
    drop(echo);
    assert_eq!(world.node.board().faults(), (0, 0, 0));
    world.node.stop();
}

/// RFC 6120 §8.3.3.19.
#[test]
fn stanzas_that_wait_for_a_component_when_it_dies_are_returned_as_errors() {
    let mut world = World::new(&["alice"], "");
    let echo = world.attach();
    world.wait_for(1);
    let mut alice = Client::sign_in(&world.place, Tls, "alice", "a");
    // It reads nothing, and its queue gets full: the messages of before that wait in it, but for what the kernel took.
    let body = "x".repeat(100_000);
    let to = format!("x@echo.{DOMAIN}");
    let busy = until("the queue is full", || {
        alice.message(&to, &body);
        // Something comes, whether the message is answered or not.
        alice.say("<iq type='get' id='p'><ping xmlns='urn:xmpp:ping'/></iq>");
        let answer = alice.hear();
        (answer.name() == "message").then_some(answer)
    });
    let condition = |answer: &Element| {
        assert_eq!(answer.attr("type"), Some("error"), "{answer}");
        answer.get("error", ns::CLIENT).unwrap().first().unwrap().name().to_owned()
    };
    assert_eq!(condition(&busy), "resource-constraint");
    drop(echo);
    let returned = until("a message that waited is returned", || {
        let answer = alice.hear();
        let is_returned = answer.name() == "message" && condition(&answer) == "service-unavailable";
        is_returned.then_some(answer)
    });
    assert_eq!(returned.attr("from"), Some(&*to));
    world.wait_for(0);
    assert_eq!(world.node.board().faults(), (0, 0, 0));
    world.node.stop();
}

#[test]
fn a_component_without_a_handshake_in_time_is_closed_and_others_stay() {
    let mut world = World::new(&["alice"], "sign_in = \"1s\"");
    let mut echo = world.attach();
    let mut silent = world.connect();
    let mut half = world.connect();
    half.open(&format!("echo.{DOMAIN}"));
    assert_eq!(silent.end(), "connection-timeout");
    assert_eq!(half.end(), "connection-timeout");
    echo.say(&format!(
        "<iq type='get' id='p' from='echo.{DOMAIN}' to='{DOMAIN}'><ping xmlns='urn:xmpp:ping'/></iq>"
    ));
    assert_eq!(echo.hear().attr("type"), Some("result"));
    world.node.stop();
}

#[test]
fn components_are_discovered_and_told_of_the_end() {
    let mut world = World::new(&["alice"], "");
    let mut echo = world.attach();
    let mut alice = Client::sign_in(&world.place, Tls, "alice", "a");
    alice.say(&format!(
        "<iq xmlns='jabber:client' type='get' id='d' to='{DOMAIN}'>\
         <query xmlns='http://jabber.org/protocol/disco#items'/></iq>"
    ));
    let items = alice.hear().to_string();
    for name in ["echo", "other"] {
        assert!(items.contains(&format!("<item jid='{name}.{DOMAIN}'/>")), "{items}");
    }
    std::thread::scope(|scope| {
        scope.spawn(|| world.node.stop());
        assert_eq!(echo.end(), "system-shutdown");
    });
}

#[test]
fn a_component_that_sends_too_much_is_read_slowly_and_nothing_is_lost() {
    let mut world = World::new(&[], "component_stanzas_per_second = 100");
    let mut echo = world.attach();
    world.wait_for(1);
    let ping = "<iq type='get' id='p' from='bot@echo.example.test' to='example.test'><ping xmlns='urn:xmpp:ping'/></iq>";
    // A burst of five seconds passes; the rest takes one more.
    echo.say(&ping.repeat(600));
    for _ in 0..600 {
        assert_eq!(echo.hear().attr("type"), Some("result"));
    }
    until("it had to wait", || (sum(&world.node, |shard| shard.xmpp.component_pauses) > 0).then_some(()));
    world.node.stop();
}

/// Changes the block list of this server.
fn list(admin: &mut Client, part: &str) {
    let pubsub = format!("<pubsub xmlns='{}'>{part}</pubsub>", ns::PUBSUB);
    admin.say(&format!("<iq type='set' id='l' to='pubsub.{DOMAIN}'>{pubsub}</iq>"));
    let answer = admin.hear();
    assert_eq!((answer.attr("id"), answer.attr("type")), (Some("l"), Some("result")), "{answer}");
}

/// An item of a list, with a report as public lists have it.
fn listed(address: &str) -> String {
    let report = "<report xmlns='urn:xmpp:reporting:1' reason='urn:xmpp:reporting:spam'/>";
    format!("<item id='{}'>{report}</item>", stdx::hex::encode(&Sha256::digest(address)))
}

/// `spam` of the component is refused in rooms of both shards, and `good` is not. Others than users of this server cannot make rooms, and are
/// told so.
fn are_refused_in_rooms(echo: &mut Component) {
    for number in 0..8 {
        for (from, is_listed) in [("spam", true), ("good", false)] {
            let room = format!("room{number}@conference.{DOMAIN}/nick");
            let x = format!("<x xmlns='{}'/>", ns::MUC);
            echo.say(&format!("<presence from='{from}@echo.{DOMAIN}/x' to='{room}'>{x}</presence>"));
            let answer = echo.hear().to_string();
            assert_eq!(answer.contains("a block list"), is_listed, "{answer}");
        }
    }
}

#[test]
fn an_address_of_a_block_list_is_refused_at_all_shards_as_soon_as_it_is_listed() {
    let names = names(1);
    let users: Vec<&str> = names.iter().map(String::as_str).collect();
    let more = format!("block_lists = [{{ service = \"pubsub.{DOMAIN}\", strangers = true }}]");
    let mut world = World::new(&users, &more);
    let mut echo = world.attach();
    let mut clients = users.iter().map(|user| Client::sign_in(&world.place, Tls, user, "a"));
    let (mut one, mut two) = (clients.next().unwrap(), clients.next().unwrap());
    // The list comes later than the server: it is asked for again.
    let field = |var: &str, value: &str| format!("<field var='{var}'><value>{value}</value></field>");
    let fields = field("FORM_TYPE", "http://jabber.org/protocol/pubsub#node_config")
        + &field("pubsub#max_items", "10");
    let form = format!("<configure><x xmlns='jabber:x:data' type='submit'>{fields}</x></configure>");
    list(&mut one, &format!("<create node='muc_bans_sha256'/>{form}"));
    let spam = listed(&format!("spam@echo.{DOMAIN}"));
    list(&mut one, &format!("<publish node='muc_bans_sha256'>{spam}</publish>"));
    let entries = |count: u64| {
        until("the list has so many entries", || {
            (sum(&world.node, |shard| shard.xmpp.rtbl.entries) == count).then_some(())
        });
    };
    entries(1);
    let said = |from: &str, client: &Client| {
        let to = client.jid.split('/').next().unwrap();
        format!("<message type='chat' from='{from}@echo.{DOMAIN}/x' to='{to}'><body>hi</body></message>")
    };
    let delivered = |echo: &mut Component, from: &str, client: &mut Client| {
        echo.say(&said(from, client));
        assert_eq!(client.hear().name(), "message", "{from} to {}", client.jid);
    };
    let refused = |echo: &mut Component, from: &str, client: &Client| {
        echo.say(&said(from, client));
        let answer = echo.hear().to_string();
        assert!(answer.contains("<forbidden"), "{from} to {}: {answer}", client.jid);
    };
    for client in [&mut one, &mut two] {
        client.say("<presence xmlns='jabber:client'/>");
        assert_eq!(client.hear().name(), "presence");
        refused(&mut echo, "spam", client);
        delivered(&mut echo, "good", client);
    }
    let domain = listed(&format!("echo.{DOMAIN}"));
    list(&mut one, &format!("<publish node='muc_bans_sha256'>{domain}</publish>"));
    entries(2);
    refused(&mut echo, "good", &one);
    refused(&mut echo, "good", &two);
    list(&mut one, &format!("<retract node='muc_bans_sha256'>{domain}</retract>"));
    entries(1);
    delivered(&mut echo, "good", &mut one);
    delivered(&mut echo, "good", &mut two);
    are_refused_in_rooms(&mut echo);
    until("all refusals are counted", || {
        (sum(&world.node, |shard| shard.xmpp.rtbl.refused) == 12).then_some(())
    });
    assert_eq!(world.node.board().faults(), (0, 0, 0));
    world.node.stop();
}

impl Component {
    /// The stanza with this id; others before it are passed over.
    #[track_caller]
    fn hear_answer(&mut self, id: &str) -> Element {
        until("the answer", || {
            let stanza = self.hear();
            (stanza.attr("id") == Some(id)).then_some(stanza)
        })
    }

    /// A message in the name of an account to itself, so that its client hears it.
    fn send_for(&mut self, component: &str, account: &str) {
        self.say(&format!(
            "<message from='{component}' to='{DOMAIN}' id='m'><privilege xmlns='urn:xmpp:privilege:2'>\
             <forwarded xmlns='urn:xmpp:forward:0'><message xmlns='jabber:client' from='{account}' to='{account}' type='chat'>\
             <body>for you</body></message></forwarded></privilege></message>"
        ));
    }

    /// A message, a contact and an item in the name of an account.
    fn act_for(&mut self, account: &str, client: &mut Client) {
        let own = format!("echo.{DOMAIN}");
        self.send_for(&own, account);
        let message = client.hear();
        assert_eq!(message.attr("from"), Some(account), "{message}");
        assert_eq!(message.content_of("body", ns::CLIENT).as_deref(), Some("for you"));
        let roster =
            format!("<query xmlns='jabber:iq:roster'><item jid='pal@{own}' subscription='both'/></query>");
        self.say(&format!("<iq type='set' id='s' from='{own}' to='{account}'>{roster}</iq>"));
        let answer = self.hear_answer("s");
        assert_eq!(answer.attr("type"), Some("result"), "{answer}");
        let publish = "<pubsub xmlns='http://jabber.org/protocol/pubsub'><publish node='n'><item id='1'>\
                       <x xmlns='urn:x'/></item></publish></pubsub>";
        self.say(&format!(
            "<iq type='set' id='p' from='{own}' to='{account}'><privileged_iq xmlns='urn:xmpp:privilege:2'>\
             <iq xmlns='jabber:client' type='set' id='i' from='{account}'>{publish}</iq></privileged_iq></iq>"
        ));
        let answer = self.hear_answer("p");
        let forwarded =
            answer.get("privilege", ns::PRIVILEGE).and_then(|it| it.get("forwarded", ns::FORWARD));
        let inner = forwarded.and_then(Element::first).unwrap_or_else(|| panic!("{answer}"));
        assert_eq!((inner.attr("type"), inner.attr("id")), (Some("result"), Some("i")), "{answer}");
    }
}

#[test]
fn a_privileged_component_acts_for_accounts_of_all_shards() {
    let names = names(1);
    let users: Vec<&str> = names.iter().map(String::as_str).collect();
    let permissions = ", roster = \"both\", messages = true, presence = \"managed_entity\", \
                       requests = { \"http://jabber.org/protocol/pubsub\" = \"both\" }";
    let mut world = World::granting(&users, "", permissions);
    let sign_in = |user: &&str| {
        let mut client = Client::sign_in(&world.place, Tls, user, "r");
        client.say("<presence xmlns='jabber:client'/>");
        assert_eq!(client.hear().name(), "presence", "its own");
        client
    };
    let mut clients: Vec<Client> = users.iter().map(sign_in).collect();
    let mut echo = world.attach();
    let told = echo.hear();
    assert_eq!(told.attr("from"), Some(DOMAIN), "{told}");
    let privilege = told.get("privilege", ns::PRIVILEGE).unwrap_or_else(|| panic!("{told}"));
    let named: Vec<_> = privilege.elements().map(|perm| perm.attr("access").unwrap()).collect();
    assert_eq!(named, ["roster", "message", "presence", "iq"], "{told}");
    // The presence that there is, from the hosts of both shards.
    for _ in &clients {
        let presence = echo.hear();
        assert_eq!(presence.name(), "presence", "{presence}");
    }
    for (user, client) in users.iter().zip(&mut clients) {
        echo.act_for(&format!("{user}@{DOMAIN}"), client);
    }
    // The other component has no permission.
    let mut other = world.connect().attached("other", "else");
    let (own, account) = (format!("other.{DOMAIN}"), format!("{}@{DOMAIN}", users[0]));
    let roster = "<query xmlns='jabber:iq:roster'/>";
    other.say(&format!("<iq type='get' id='g' from='{own}' to='{account}'>{roster}</iq>"));
    let answer = other.hear();
    assert_eq!((answer.attr("id"), answer.attr("type")), (Some("g"), Some("error")), "{answer}");
    other.send_for(&own, &account);
    let answer = other.hear_answer("m");
    let error = answer.get("error", ns::COMPONENT).unwrap_or_else(|| panic!("{answer}"));
    assert!(error.get("forbidden", ns::STANZA_ERRORS).is_some(), "{answer}");
    assert_eq!(world.node.board().faults(), (0, 0, 0));
    world.node.stop();
}

impl Component {
    /// Answers the next delegated request; returns the address that was asked.
    fn answer_delegated(&mut self) -> String {
        let request = self.hear();
        let forwarded =
            request.get("delegation", ns::DELEGATION).and_then(|it| it.get("forwarded", ns::FORWARD));
        let inner = forwarded.and_then(Element::first).unwrap_or_else(|| panic!("{request}"));
        assert_eq!((request.attr("from"), request.attr("type")), (Some(DOMAIN), Some("set")), "{request}");
        let attribute = |element: &Element, name: &str| element.attr(name).unwrap_or_default().to_owned();
        let (id, own) = (attribute(&request, "id"), attribute(&request, "to"));
        let (asked, client) = (attribute(inner, "id"), attribute(inner, "from"));
        self.say(&format!(
            "<iq type='result' id='{id}' from='{own}' to='{DOMAIN}'><delegation xmlns='urn:xmpp:delegation:2'>\
             <forwarded xmlns='urn:xmpp:forward:0'><iq xmlns='jabber:client' type='result' id='{asked}' to='{client}'>\
             <x xmlns='urn:x' by='{own}'/></iq></forwarded></delegation></iq>"
        ));
        attribute(inner, "to")
    }

    /// The message about delegated namespaces, and beside it the questions of each shard for the features of the one namespace, at two nodes:
    /// answered.
    fn hear_delegations(&mut self, shards: usize) -> Element {
        let (mut told, mut asked) = (None, Vec::new());
        while told.is_none() || asked.len() < 2 * shards {
            let stanza = self.hear();
            let Some(node) = stanza.get("query", ns::DISCO_INFO).and_then(|query| query.attr("node")) else {
                told = Some(stanza);
                continue;
            };
            let of = |name: &str| stanza.attr(name).unwrap_or_default();
            assert_eq!((of("type"), of("from")), ("get", DOMAIN), "{stanza}");
            let kind = if node.contains(":bare:") { "account" } else { "server" };
            let query = format!(
                "<query xmlns='{}' node='{node}'><feature var='urn:x#of-{kind}'/></query>",
                ns::DISCO_INFO
            );
            asked.push(node.to_owned());
            let (id, own) = (of("id").to_owned(), of("to").to_owned());
            self.say(&format!("<iq type='result' id='{id}' from='{own}' to='{DOMAIN}'>{query}</iq>"));
        }
        for node in ["urn:xmpp:delegation:2::urn:x", "urn:xmpp:delegation:2:bare:urn:x"] {
            assert_eq!(asked.iter().filter(|asked| *asked == node).count(), shards, "{asked:?}");
        }
        told.expect("the loop ends with it")
    }
}

/// Waits until an address announces a feature, or does so no longer.
#[track_caller]
fn announces(client: &mut Client, to: &str, feature: &str, is_there: bool) {
    until("the address announces it", || {
        let query = format!("<query xmlns='{}'/>", ns::DISCO_INFO);
        client.say(&format!("<iq xmlns='jabber:client' type='get' id='i' to='{to}'>{query}</iq>"));
        (client.hear().to_string().contains(&format!("'{feature}'")) == is_there).then_some(())
    });
}

#[test]
fn a_component_answers_requests_of_a_delegated_namespace_at_all_shards() {
    let names = names(1);
    let users: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut world = World::granting(&users, "", ", delegations = { \"urn:x\" = [\"node\"] }");
    let mut clients: Vec<Client> =
        users.iter().map(|user| Client::sign_in(&world.place, Tls, user, "r")).collect();
    let mut echo = world.attach();
    let told = echo.hear_delegations(2);
    let delegated = told.get("delegation", ns::DELEGATION).and_then(Element::first);
    let delegated = delegated.unwrap_or_else(|| panic!("{told}"));
    assert_eq!((told.attr("from"), delegated.attr("namespace")), (Some(DOMAIN), Some("urn:x")), "{told}");
    assert_eq!(delegated.first().and_then(|attribute| attribute.attr("name")), Some("node"), "{told}");
    for (user, client) in users.iter().zip(&mut clients) {
        announces(client, DOMAIN, "urn:x#of-server", true);
        announces(client, &format!("{user}@{DOMAIN}"), "urn:x#of-account", true);
    }
    // Each asks its own account, the others', and the server.
    let mut asked: Vec<String> = users.iter().map(|user| format!("{user}@{DOMAIN}")).collect();
    asked.push(DOMAIN.to_owned());
    for client in &mut clients {
        for to in &asked {
            client.say(&format!(
                "<iq xmlns='jabber:client' type='get' id='q' to='{to}'><x xmlns='urn:x' node='n'/></iq>"
            ));
            assert_eq!(echo.answer_delegated(), *to);
            let answer = client.hear();
            assert_eq!((answer.attr("type"), answer.attr("id")), (Some("result"), Some("q")), "{answer}");
            assert_eq!(answer.attr("from"), Some(&**to), "{answer}");
            assert!(answer.get("x", "urn:x").is_some_and(|x| x.attr("by").is_some()), "{answer}");
        }
        client.say("<iq xmlns='jabber:client' type='get' id='p'><x xmlns='urn:x'/></iq>");
        let answer = client.hear();
        assert_eq!(
            (answer.attr("type"), answer.attr("id")),
            (Some("error"), Some("p")),
            "the filter: {answer}"
        );
    }
    // Without the component the client is told so at once. Shards tell their figures now and then: the one is seen before its end.
    world.wait_for(1);
    drop(echo);
    world.wait_for(0);
    for (user, client) in users.iter().zip(&mut clients) {
        announces(client, DOMAIN, "urn:x#of-server", false);
        announces(client, &format!("{user}@{DOMAIN}"), "urn:x#of-account", false);
    }
    clients[0].say("<iq xmlns='jabber:client' type='get' id='q'><x xmlns='urn:x' node='n'/></iq>");
    let answer = clients[0].hear();
    let error = answer.get("error", ns::CLIENT).unwrap_or_else(|| panic!("{answer}"));
    assert!(error.get("service-unavailable", ns::STANZA_ERRORS).is_some(), "{answer}");
    assert_eq!(world.node.board().faults(), (0, 0, 0));
    world.node.stop();
}

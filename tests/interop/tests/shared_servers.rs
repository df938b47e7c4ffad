//! Other servers and components of a farm: Prosody and a component of slixmpp, with a farm of three real nodes on one PostgreSQL database.

use std::collections::BTreeSet;
use std::time::Duration;

use interop::{
    DOMAIN, Farm, Follower, Nats, NatsRelease, Prosody, TcpWay, free_port, new_postgres_database,
    run_slixmpp_component, wait_until,
};

const PEER: &str = "prosody.test";

/// So many that each of three nodes owns some of their buckets.
const USERS: usize = 6;

/// Messages from each client to the peer's user.
const FLOOD: usize = 30;

/// A farm, and where clients and other servers connect to each node.
struct Ours {
    farm: Farm,
    clients: Vec<u16>,
}

/// `more` has lines of `[xmpp]` for each node.
fn ours(nats: &Nats, more: &[String], federation: &[String]) -> Ours {
    let clients: Vec<u16> = (0..3).map(|_| free_port()).collect();
    let section = |node: usize| {
        format!(
            "[xmpp]\nlisten = [\"tcp:127.0.0.1:{}\"]\n{}\n{}\n",
            clients[node], more[node], federation[node]
        )
    };
    let sections: Vec<String> = (0..3).map(section).collect();
    let farm = Farm::with_chat_sections(nats, &new_postgres_database(), USERS, &sections);
    Ours { farm, clients }
}

impl Ours {
    fn sign_in(&self) -> Vec<Follower> {
        let certificate = self.farm.nodes[0].certificate();
        let client = |user: usize| {
            let mut client = Follower::new(&format!("user{user}"), "secret", &certificate);
            // Not at the first node, which a test may kill; the owners of the accounts are any.
            client.sign_in(self.clients[1 + user % 2]);
            client
        };
        (0..USERS).map(client).collect()
    }

    /// The nodes that have made a stream to the peer.
    fn connected(&self) -> Vec<usize> {
        let remote = format!("remote=\"{PEER}\"");
        let has_connected = |node: &usize| {
            let tail = self.farm.nodes[*node].tail();
            tail.lines().any(|line| line.contains("connected to another server") && line.contains(&remote))
        };
        (0..self.farm.nodes.len()).filter(has_connected).collect()
    }
}

/// A farm that speaks with a Prosody, whose connections come by a balancer.
fn with_prosody(nats: &Nats) -> (Ours, Prosody, TcpWay) {
    let servers: Vec<u16> = (0..3).map(|_| free_port()).collect();
    let balancer = TcpWay::to_first_of(servers.clone());
    let prosody = Prosody::start(PEER, &["bob"], balancer.port, None);
    let port = prosody.server;
    let federation = |server: &u16| {
        format!(
            "[xmpp.federation]\nlisten = [\"tcp:127.0.0.1:{server}\"]\n\
             routes = [\"{PEER}=tcp:127.0.0.1:{port}\", \"*.{PEER}=tcp:127.0.0.1:{port}\"]"
        )
    };
    let federation: Vec<String> = servers.iter().map(federation).collect();
    (ours(nats, &[const { String::new() }; 3], &federation), prosody, balancer)
}

/// Texts of each client's flood in the order of their first arrival.
fn are_in_order(heard: &[String], client: usize) -> BTreeSet<usize> {
    let prefix = format!("flood{client}-");
    let mut seen = BTreeSet::new();
    for number in heard.iter().filter_map(|text| text.strip_prefix(&prefix)?.parse::<usize>().ok()) {
        let is_new = seen.insert(number);
        assert!(!is_new || seen.last() == Some(&number), "{number} of client {client} is late: {heard:?}");
    }
    seen
}

#[test]
fn one_node_has_the_stream_to_another_server_and_its_death_moves_it() {
    let nats = Nats::start(NatsRelease::Current);
    let (mut ours, prosody, _balancer) = with_prosody(&nats);
    let mut bob = Follower::of_peer(&format!("bob@{PEER}"), "secret");
    bob.sign_in(prosody.client);
    let mut clients = ours.sign_in();

    // Whichever node has the account, its messages go by one stream.
    for (number, client) in clients.iter_mut().enumerate() {
        client.say(&bob.address, &format!("hello-{number}"));
        bob.hears(&format!("hello-{number}"));
        bob.say(&client.address, &format!("answer-{number}"));
        client.hears(&format!("answer-{number}"));
    }
    let with_stream = ours.connected();
    assert_eq!(with_stream.len(), 1, "{}", prosody.tail());

    for (number, client) in clients.iter_mut().enumerate() {
        client.order(&format!("flood flood{number} {FLOOD} {}", bob.address));
    }
    bob.hears("flood1-0");
    // The owner dies while it has messages. Clients whose connection was there are not counted.
    let owner = with_stream[0];
    ours.farm.nodes[owner].kill();
    let living: Vec<usize> = (0..3).filter(|node| *node != owner).collect();
    ours.farm.wait_for_shares_at(2, &living);

    let is_counted = |user: &usize| 1 + user % 2 != owner;
    let counted: Vec<usize> = (0..USERS).filter(is_counted).collect();
    let staying: Vec<usize> = counted.into_iter().filter(|user| clients[*user].is_connected()).collect();
    assert!(!staying.is_empty(), "streams of living nodes go on");
    let mut heard = vec!["flood1-0".to_owned()];
    let peer = &mut bob;
    wait_until(
        "the messages of clients that are still connected",
        Duration::from_secs(90),
        || {
            heard.extend(peer.heard("flood"));
            let is_whole = |user: &usize| are_in_order(&heard, *user).len() == FLOOD;
            staying.iter().all(is_whole)
        },
        || prosody.tail(),
    );
    for user in staying {
        clients[user].say(&bob.address, &format!("afterwards-{user}"));
        bob.hears(&format!("afterwards-{user}"));
    }
}

/// Runs a script of a component for each user: the component at one of two nodes of a farm, the user at one of three. `more`: keys of the
/// component.
fn run_in_farm(script: &str, domain: &str, more: &str) {
    let nats = Nats::start(NatsRelease::Current);
    let listen = [free_port(), free_port(), free_port()];
    let known = format!("components = [{{ domain = \"{domain}\", secret = \"hush\"{more} }}]");
    let sections = listen.map(|port| format!("component_listen = [\"tcp:127.0.0.1:{port}\"]\n{known}"));
    let ours = ours(&nats, &sections, &[const { String::new() }; 3]);
    let certificate = ours.farm.nodes[0].certificate();
    for user in 0..USERS {
        let account = (&*format!("user{user}"), "secret");
        let (port, at) = (ours.clients[user % 3], listen[user % 2]);
        run_slixmpp_component(script, port, &certificate, account, at, (domain, "hush"));
    }
}

#[test]
fn a_component_at_one_node_is_reached_from_all() {
    run_in_farm("slixmpp/component.py", &format!("echo.{DOMAIN}"), "");
}

/// XEP-0356: the owners of the accounts grant it, the connection is wherever the component has made it.
#[test]
fn a_privileged_component_at_one_node_acts_for_accounts_of_all() {
    let privileges = ", roster = \"both\", messages = true, presence = \"managed_entity\", \
                      requests = { \"http://jabber.org/protocol/pubsub\" = \"both\" }";
    run_in_farm("slixmpp/privilege.py", &format!("gate.{DOMAIN}"), privileges);
}

//! The real node, from start to end.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command};

use interop::PostgresServer;

use super::node::get;
use super::place::Place;

/// A node that listens at ports the system chose.
fn place() -> Place {
    let place = Place::new();
    place.write(
        "belfry.toml",
        "[server]\ndata = \"data\"\nshards = 2\n\
         [sip]\nlisten = [\"udp:127.0.0.1:0\", \"tcp:127.0.0.1:0\"]\ndomains = [\"example.test\"]\n\
         [http]\nlisten = \"127.0.0.1:0\"\n[log]\nformat = \"json\"\n",
    );
    place
}

/// Its log, one JSON object a line.
struct Served {
    child: Child,
    log: std::io::Lines<BufReader<std::process::ChildStderr>>,
}

impl Served {
    fn start(place: &Place) -> Self {
        let mut served = Served::begin(place);
        served.wait_for("belfry is up");
        served
    }

    fn begin(place: &Place) -> Self {
        let mut child = place.command(&["serve"]).spawn().unwrap();
        let log = BufReader::new(child.stderr.take().unwrap()).lines();
        Served { child, log }
    }

    fn wait_for(&mut self, words: &str) -> serde_json::Value {
        for line in self.log.by_ref() {
            let line = line.unwrap();
            if line.contains(words) {
                return serde_json::from_str(&line).unwrap();
            }
        }
        panic!("the node ended without {words:?}");
    }

    fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // Ended already, when all went well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_node_serves_reloads_and_drains() {
    let place = place();
    let mut node = Served::start(&place);
    place.belfry_with(&["account", "add", "alice", "--password-stdin"], "secret\n").good();
    let first = node.wait_for("belfry::audit");
    assert_eq!(
        first["action"], "AddAccount",
        "the domain is there already, and no command was to add it: {first}"
    );
    place.belfry(&["route", "add", "gw", "prefix:+49", "sip:127.0.0.1:9", "--probe"]).good();
    place.belfry(&["domain", "add", "other.test"]).good();
    let line = node.wait_for("\"subject\":\"other.test\"");
    let uid = std::os::unix::fs::MetadataExt::uid(&place.path(".").metadata().unwrap());
    assert_eq!((&line["target"], &line["action"]), (&"belfry::audit".into(), &"AddDomain".into()), "{line}");
    assert_eq!(line["uid"], uid, "the user of this test: {line}");
    assert!(line["pid"].is_number() && line.get("refused").is_none(), "{line}");
    let status = place.belfry(&["status"]).good();
    assert!(status.contains("domains        example.test other.test"), "{status}");
    let shown = place.belfry(&["account", "show", "alice"]).good();
    assert!(shown.contains("registered   nowhere"), "{shown}");

    place.belfry(&["calls", "end", "CA12"]).failed(1, "no open call of an application has the SID CA12");
    let kick = place.belfry(&["farm", "status"]);
    kick.failed(1, "this node is in no farm: [farm] name is not set in its configuration");

    place.belfry(&["serve"]).failed(1, "a node runs there already; see it with: belfry status");

    place.write("belfry.toml", "[sip]\nlisten = 5\n");
    node.signal("-HUP");
    let error = node.wait_for("not reloaded");
    assert!(error["message"].as_str().unwrap().contains("belfry.toml:2:10: `listen` is 5"), "{error}");

    node.signal("-TERM");
    node.wait_for("drained");
    assert_eq!(node.child.wait().unwrap().code(), Some(0));
    assert!(!place.path("data/control.sock").exists());
}

#[test]
fn acknowledged_writes_survive_a_kill() {
    let place = place();
    let node = Served::start(&place);
    place.belfry_with(&["account", "add", "alice", "--password-stdin"], "secret\n").good();
    node.signal("-KILL");
    drop(node);
    let _node = Served::start(&place);
    assert!(place.belfry(&["account", "list"]).good().contains("alice@example.test"));
}

#[test]
fn a_port_in_use_is_named() {
    let place = Place::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    for (section, words) in [
        (
            format!("[http]\nlisten = \"127.0.0.1:{port}\"\n[sip]\nlisten = [\"udp:127.0.0.1:0\"]\n"),
            "check [http] listen",
        ),
        (
            format!("[http]\nlisten = \"127.0.0.1:0\"\n[sip]\nlisten = [\"tcp:127.0.0.1:{port}\"]\n"),
            "another program has it, ss -lntup shows which; end it, or change the address in the configuration",
        ),
    ] {
        place.write("belfry.toml", &format!("[server]\ndata = \"data\"\nshards = 1\n{section}"));
        let output = place.belfry(&["serve"]);
        assert!(output.err.contains(&format!("127.0.0.1:{port}")), "{output:?}");
        output.failed(1, words);
    }
}

/// An address at which no process listens.
fn closed() -> std::net::SocketAddr {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// A configuration whose HTTP listens at this address, with more sections.
fn place_with(http: std::net::SocketAddr, more: &str) -> Place {
    let place = place();
    let own = std::fs::read_to_string(place.path("belfry.toml")).unwrap();
    let own = own.replace("[http]\nlisten = \"127.0.0.1:0\"", &format!("[http]\nlisten = \"{http}\""));
    place.write("belfry.toml", &(own + more));
    place
}

/// A node that waits says so to balancers and commands.
fn says_that_it_waits(place: &Place, http: std::net::SocketAddr, waits: &str) {
    for path in ["/health", "/metrics", "/v1/xmpp/sessions"] {
        let (code, body) = get(http, path);
        assert!(code == 503 && body.starts_with(waits), "{path}: {code} {body}");
    }
    for command in [&["status"][..], &["farm", "status"], &["account", "list"], &["drain"]] {
        place.belfry(command).failed(1, waits);
    }
}

/// A node of a farm waits for the council before it serves anything, and a signal ends it then, too.
#[test]
fn a_node_that_waits_for_its_council_says_so_and_is_ended_by_a_signal() {
    for signal in ["-TERM", "-INT"] {
        let (council, http) = (closed(), closed());
        let farm = format!(
            "[farm]\nname = \"test\"\nnode = \"n\"\ncouncil = [\"nats://{council}\"]\nsecret = \"secret\"\n"
        );
        let place = place_with(http, &farm);
        place.write("secret", &"5".repeat(64));
        let mut node = Served::begin(&place);
        node.wait_for("check [farm] council");
        says_that_it_waits(
            &place,
            http,
            &format!("the node waits for the farm's council at nats://{council}"),
        );
        node.signal("-HUP");
        node.signal(signal);
        node.wait_for("stopped while the node waited for the farm's council");
        assert_eq!(node.child.wait().unwrap().code(), Some(0), "{signal}");
    }
}

/// A machine starts its services in any order.
#[test]
fn a_node_that_waits_for_its_database_says_so_and_starts_once_it_is_there() {
    let mut server = PostgresServer::start(&[]);
    let http = closed();
    let place = place_with(http, &format!("[store]\nurl = \"{}\"\n", server.new_database(&[])));
    server.kill();
    let mut node = Served::begin(&place);
    node.wait_for("the node waits for its database");
    says_that_it_waits(
        &place,
        http,
        "the node waits for its database, and serves nothing before that is there: ",
    );
    server.start_again();
    node.wait_for("belfry is up");
    place.belfry_with(&["account", "add", "alice", "--password-stdin"], "secret\n").good();
}

#[test]
fn a_node_that_waits_for_its_database_is_ended_by_a_signal_and_one_that_has_none_ends_by_itself() {
    let server = PostgresServer::start(&[]);
    let http = closed();
    let place = place_with(http, &format!("[store]\nurl = \"postgres://u:hush@{}/x\"\n", closed()));
    let mut node = Served::begin(&place);
    node.wait_for("the node waits for its database");
    let (_, body) = get(http, "/health");
    assert!(!body.contains("hush"), "{body}");
    node.signal("-TERM");
    node.wait_for("stopped while the node waited for its database");
    assert_eq!(node.child.wait().unwrap().code(), Some(0));
    let place = place_with(http, &format!("[store]\nurl = \"{}\"\n", server.url("none")));
    place.belfry(&["serve"]).failed(1, "does not exist");
}

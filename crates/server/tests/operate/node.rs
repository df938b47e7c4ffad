//! Commands that speak to a running node.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;

use super::fake::{Event, FakeNode};
use super::place::Place;

#[test]
fn commands_change_the_database_through_a_running_node() {
    let place = Place::new();
    let node = FakeNode::start(place.config());
    place.belfry_with(&["account", "add", "alice", "--password-stdin"], "secret\n").good();
    // The domain of the configuration, then the account.
    assert_eq!([node.next_event(), node.next_event()], [Event::Wrote, Event::Wrote]);
    place
        .belfry_with(&["account", "add", "alice", "--password-stdin"], "secret\n")
        .failed(1, "account alice@example.test exists already");
    let shown = place.belfry(&["account", "show", "alice"]).good();
    assert!(shown.contains("sip:alice@192.0.2.1  0.500        1:30  its contact  phone"), "{shown}");
    place.belfry(&["route", "add", "r", "regex:(", "sip:gw.test"]).failed(1, "regex parse error");
    place.belfry(&["route", "add", "r", "number:1", "sip:gw.test"]).good();
    assert!(place.belfry(&["route", "list"]).good().contains("number:1"));
}

#[test]
fn an_import_beside_a_running_node_notifies_it_at_the_end() {
    let place = Place::new();
    let node = FakeNode::start(place.config());
    place.belfry_with(&["account", "import", "-"], "a,1\nb,2\n").good();
    assert_eq!(node.next_event(), Event::AccountsChanged);
    assert_eq!(place.belfry(&["account", "list", "--json"]).good().lines().count(), 2);
}

#[test]
fn status_reads_well_and_is_complete_as_json() {
    let place = Place::new();
    let _node = FakeNode::start(place.config());
    let status = place.belfry(&["status"]).good();
    for line in [
        "listening      udp:127.0.0.1:5060",
        "chat at        tcp:127.0.0.1:5222 ws:127.0.0.1:5280",
        "REST at        http://127.0.0.1:8080/restcomm/",
        "calls          3 up, 1 being set up",
        "drops          1 234 datagrams by the kernel: raise [sip] udp_receive_buffer and net.core.rmem_max",
        "targets        1 of 1 do not answer: 192.0.2.7:5060",
    ] {
        assert!(status.lines().any(|found| found == line), "{line}\n{status}");
    }
    assert!(status.starts_with("belfry "), "{status}");
    let json = place.belfry(&["status", "--json"]).good();
    let status: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(status["state"], "running");
    assert_eq!(status["shards"][1]["calls_up"], 3);
    assert_eq!(status["rates"][0]["name"], "calls");
    assert!(status["resident_bytes"].as_u64().unwrap() > 1 << 20);
}

#[test]
fn registrations_are_listed_page_by_page_and_of_one_address() {
    let place = Place::new();
    let _node = FakeNode::start(place.config());
    let shown = place.belfry(&["registrations", "--limit", "2"]).good();
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(
        lines,
        [
            "ADDRESS                CONTACT              FROM         EXPIRES IN  AGENT",
            "user0000@example.test  sip:alice@192.0.2.1  its contact        1:30  phone",
            "user0001@example.test  sip:alice@192.0.2.1  its contact        1:30  phone",
            "2 of 1 500 registered addresses",
            "more with: --after user0001@example.test, or --limit N",
        ]
    );
    let next = place.belfry(&["registrations", "-n", "1", "--after", "user0001"]).good();
    assert!(next.contains("\nuser0002@example.test  "), "{next}");
    // More than the node gives at once.
    let all = place.belfry(&["registrations", "--limit", "9999", "--json"]).good();
    let addresses: Vec<serde_json::Value> =
        all.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(addresses.len(), 1_500);
    assert_eq!(addresses[1_499]["address"], "user1499@example.test");
    assert_eq!(addresses[0]["contacts"][0]["expires_in_seconds"], 90);
    let one = place.belfry(&["registrations", "sip:user0007@example.test"]).good();
    assert!(one.lines().count() == 2 && one.contains("user0007@example.test  sip:alice@"), "{one}");
    assert_eq!(place.belfry(&["registrations", "user"]).good(), "user@example.test is not registered\n");
    place.belfry(&["registrations", "--limit", "0"]).failed(2, "0 is not in 1..");
    place.belfry(&["registrations", "alice", "--after", "bob"]).failed(2, "cannot be used with");
}

#[test]
fn status_can_be_watched() {
    let place = Place::new();
    let _node = FakeNode::start(place.config());
    let mut child = place.command(&["status", "--watch", "--json"]).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let uptimes: Vec<_> = lines
        .take(2)
        .map(|line| serde_json::from_str::<serde_json::Value>(&line.unwrap()).unwrap())
        .map(|status| status["uptime_seconds"].as_u64().unwrap())
        .collect();
    assert!(uptimes[0] < uptimes[1], "{uptimes:?}");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn reload_names_settings_that_need_a_restart_and_drain_fails_the_health_check() {
    let place = Place::new();
    let node = FakeNode::start(place.config());
    assert_eq!(place.belfry(&["reload"]).good(), "reloaded\nafter a restart only: sip.listen\n");
    assert_eq!(get(node.http, "/health"), (200, "ok\n".into()));
    assert_eq!(place.belfry(&["drain"]).good(), "draining\n");
    assert_eq!(get(node.http, "/health"), (503, "draining\n".into()));
    let (code, metrics) = get(node.http, "/metrics");
    assert_eq!(code, 200);
    for line in [
        "belfry_calls_up{shard=\"1\"} 3",
        "belfry_draining 1",
        "belfry_target_up{target=\"192.0.2.7:5060\"} 0",
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line}\n{metrics}");
    }
    assert_eq!(get(node.http, "/secrets").0, 404);
}

#[test]
fn a_trace_is_drawn_as_a_ladder_and_ends_on_request() {
    let place = Place::new();
    place.belfry_with(&["account", "add", "alice", "--password-stdin"], "secret\n").good();
    let node = FakeNode::start(place.config());
    let drawn = place.belfry(&["trace", "alice", "--count", "2"]).good();
    assert_eq!(node.next_event(), Event::Trace("alice@example.test".into()));
    assert!(drawn.contains("udp:192.0.2.1:5060 ──INVITE──▶ belfry"), "{drawn}");
    assert!(drawn.contains("udp:192.0.2.1:5060 ◀──180 (INVITE)── belfry"), "{drawn}");
    let timed = place.belfry(&["trace", "alice", "--for", "100ms", "--json"]).good();
    assert_eq!(timed.lines().count(), 2, "{timed}");
    let full = place.belfry(&["trace", "alice", "--count", "1", "--full"]).good();
    assert!(full.contains("│ INVITE sip:bob@example.test SIP/2.0"), "{full}");
    assert!(full.contains("response=***") && !full.contains("5ec4e7"), "{full}");
}

#[test]
fn the_messages_of_a_call_are_drawn_and_a_call_without_says_why() {
    let place = Place::new();
    let _node = FakeNode::start(place.config());
    let drawn = place.belfry(&["calls", "ladder", "c1"]).good();
    let lines: Vec<_> = drawn.lines().collect();
    let picture = [
        "2027-01-15 08:00:00  Call-ID c1",
        "        0ms  192.0.2.1:5060 ──INVITE──▶ belfry",
        "        3ms  belfry         ──INVITE──▶ 192.0.2.2:5060",
        "       20ms  belfry         ◀──486 (INVITE)── 192.0.2.2:5060",
    ];
    assert_eq!(lines, picture);
    let json = place.belfry(&["calls", "ladder", "c1", "--json"]).good();
    assert_eq!(json.lines().count(), 3, "{json}");
    place.belfry(&["calls", "ladder", "c2"]).failed(1, "at most 10 calls a second: 7 calls came faster");
}

#[test]
fn drain_can_wait_for_the_end() {
    let place = Place::new();
    let node = FakeNode::start(place.config());
    let mut child = place.command(&["drain", "--wait"]).spawn().unwrap();
    assert_eq!(node.next_event(), Event::Drain);
    assert!(child.try_wait().unwrap().is_none(), "the node still runs");
    drop(node);
    assert!(child.wait().unwrap().success());
}

#[test]
fn the_signal_sighup_reloads() {
    let place = Place::new();
    let node = FakeNode::start(place.config());
    let pid = std::process::id().to_string();
    assert!(std::process::Command::new("kill").args(["-HUP", &pid]).status().unwrap().success());
    assert_eq!(node.events.recv(), Ok(Event::Reload));
}

#[test]
fn two_nodes_do_not_share_a_socket_but_a_dead_one_leaves_it() {
    let place = Place::new();
    let socket = place.path("data/control.sock");
    std::fs::create_dir(place.path("data")).unwrap();
    // Left by a node that died.
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    let node = FakeNode::start(place.config());
    assert_eq!(std::fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    place.belfry(&["status"]).good();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let second = runtime.block_on(server::operate::AdminListeners::open(&place.config()));
    let error = second.unwrap_err().to_string();
    assert!(error.contains("a node runs there already"), "{error}");
    drop(node);
    assert!(!socket.exists());
    place.belfry(&["status"]).failed(69, "no node answers");
}

/// Status and body.
pub(super) fn get(at: std::net::SocketAddr, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(at).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head[9..12].parse().unwrap(), body.to_owned())
}

#[test]
fn blocks_read_well_and_are_lifted_by_name() {
    let place = Place::new();
    let node = FakeNode::start(place.config());
    let shown = place.belfry(&["blocks"]).good();
    let lines: Vec<_> = shown.lines().collect();
    assert!(lines[0].starts_with("SERVICE  ADDRESS        ACCOUNT"), "{shown}");
    let row = "sip      2001:db8::/64  al·ice@example.test  12 failed sign-ins  2027-01-15 08:00:00";
    assert!(lines[1].starts_with(row), "{shown}");
    assert!(lines[2].starts_with("xmpp     all            al·ice@example.test"), "{shown}");
    assert_eq!(lines[3], "the last 2 of 7");
    let json = place.belfry(&["blocks", "--json"]).good();
    let first: serde_json::Value = serde_json::from_str(json.lines().next().unwrap()).unwrap();
    assert_eq!(first["refused_until"], 1_800_000_002_000_000_u64);
    assert_eq!(place.belfry(&["blocks", "lift", "192.0.2.1"]).good(), "lifted 2\n");
    assert_eq!(node.next_event(), Event::LiftBlock("192.0.2.1".into()));
    place
        .belfry(&["blocks", "lift", "bob"])
        .failed(1, "nothing of bob is blocked; `belfry blocks` lists what is");
    place.belfry(&["blocks", "lift"]).failed(2, "required");
    assert_eq!(node.next_event(), Event::LiftBlock("bob".into()));
    assert_eq!(place.belfry(&["calls", "end", "CA1"]).good(), "ended\n");
    assert_eq!(node.next_event(), Event::EndCall("CA1".into()));
    place.belfry(&["status", "--farm"]).failed(1, "this node is in no farm");
}

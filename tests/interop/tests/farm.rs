//! A farm of real nodes under SIPp: calls are shared, and go on when a node dies or leaves.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use interop::{Farm, Nats, NatsRelease, Sipp};

/// One farm at a time: three nodes, two SIPps and a NATS server keep two cores busy enough.
fn alone() -> MutexGuard<'static, ()> {
    static FARM: Mutex<()> = Mutex::new(());
    // A test that failed leaves nothing behind.
    FARM.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Calls of half a second, so that some are in every phase when something happens.
fn call(farm: &Farm, calls: u32, rate: u32) -> Sipp {
    Sipp::calling("-uac", farm.port, "bob", calls, rate)
}

#[test]
fn three_nodes_share_the_calls_of_one_address() {
    let _alone = alone();
    let nats = Nats::start(NatsRelease::Debian);
    let callee = Sipp::answering("-uas", 300);
    let farm = Farm::start(&nats, 3, "bob", callee.port);
    call(&farm, 300, 50).succeeds();
    // The figures are published twice a second.
    let all = || farm.calls().iter().sum::<u64>() == 300;
    interop::wait_until("300 calls at three nodes", Duration::from_secs(20), all, || {
        format!("{:?}", farm.calls())
    });
    let calls = farm.calls();
    assert!(calls.iter().all(|calls| *calls > 50), "{calls:?}");
}

#[test]
fn a_node_that_leaves_takes_no_call_with_it() {
    let _alone = alone();
    let nats = Nats::start(NatsRelease::Current);
    let callee = Sipp::answering("-uas", 600);
    let mut farm = Farm::start(&nats, 3, "bob", callee.port);
    let caller = call(&farm, 600, 50);
    farm.nodes[1].run(&["drain", "--wait"]);
    farm.nodes[1].kill();
    farm.wait_for_shares(2);
    caller.succeeds();
    farm.nodes[1].start();
    farm.wait_for_shares(3);
}

#[test]
fn calls_and_new_ones_go_on_while_the_council_is_away() {
    let _alone = alone();
    let mut nats = Nats::start(NatsRelease::Current);
    let callee = Sipp::answering("-uas", 600);
    let farm = Farm::start(&nats, 2, "bob", callee.port);
    let caller = call(&farm, 600, 40);
    let node = &farm.nodes[0];
    assert!(node.health().ends_with("\r\nok\n"), "{}", node.health());
    assert!(!node.run(&["status"]).contains("council"));
    nats.kill();
    let says_so = || node.health().contains("\r\nok\nthe farm's council is away: ");
    interop::wait_until("/health to say it", Duration::from_secs(20), says_so, || node.health());
    assert!(node.health().starts_with("HTTP/1.0 200 "), "{}", node.health());
    let is_in_status = || node.run(&["status"]).contains("farm           the council is away (");
    interop::wait_until("belfry status to say it", Duration::from_secs(20), is_in_status, || node.tail());
    let (code, error) = node.fails(&["farm", "drain", "n1"]);
    assert_eq!(code, 1);
    assert!(error.contains("the council is away") && error.contains("belfry drain"), "{error}");
    caller.succeeds();
    nats.start_again();
    farm.wait_for_shares(2);
    let is_back = || node.health().ends_with("\r\nok\n");
    interop::wait_until("/health to be as before", Duration::from_secs(20), is_back, || node.health());
}

#[test]
fn the_calls_of_a_node_that_is_killed_are_taken_over() {
    let _alone = alone();
    let nats = Nats::start(NatsRelease::Debian);
    let callee = Sipp::answering("-uas", 1_000);
    let mut farm = Farm::start(&nats, 3, "bob", callee.port);
    call(&farm, 100, 50).succeeds();
    farm.nodes[2].kill();
    farm.wait_for_shares(2);
    // All call slots are at the two that live.
    call(&farm, 200, 50).succeeds();
    farm.nodes[2].start();
    farm.wait_for_shares(3);
    call(&farm, 200, 50).succeeds();
}

#[test]
fn a_node_shows_all_nodes_and_the_map_and_drains_another() {
    let _alone = alone();
    let nats = Nats::start(NatsRelease::Debian);
    let mut farm = Farm::start(&nats, 2, "bob", 5_999);
    let node = &farm.nodes[0];
    let nodes = node.run(&["farm", "nodes"]);
    assert!(nodes.contains("n0 (this)") && nodes.contains("n1") && nodes.contains("serving"), "{nodes}");
    let rows: Vec<serde_json::Value> = node
        .run(&["farm", "nodes", "--json"])
        .lines()
        .map(|line| serde_json::from_str(line).expect("a line is an object"))
        .collect();
    assert!(rows.len() == 2 && rows.iter().all(|row| row["weight"] == 100 && row["shards"] == 2), "{rows:?}");
    let map = node.run(&["farm", "map"]);
    assert!(map.contains("n0 (this)  call slots  2 048  0-"), "{map}");
    let map: serde_json::Value =
        serde_json::from_str(&node.run(&["farm", "map", "--json"])).expect("one object");
    for what in ["call_slots", "buckets"] {
        let ranges = map[what].as_array().expect("a list");
        let count = |range: &serde_json::Value| {
            range["last"].as_u64().expect("a number") - range["first"].as_u64().expect("a number") + 1
        };
        assert_eq!(ranges.iter().map(count).sum::<u64>(), 4_096, "{what}");
    }
    let (code, error) = node.fails(&["farm", "drain", "n7"]);
    assert_eq!(code, 1);
    assert!(error.contains("there is no node n7 in the farm; it has n0, n1"), "{error}");
    assert_eq!(node.run(&["farm", "drain", "n1"]), "n1 is draining\n");
    let (_, error) = node.fails(&["farm", "drain", "n1"]);
    assert!(error.contains("the node n1 is draining already"), "{error}");
    assert_eq!(farm.nodes[1].ended(Duration::from_secs(60)), Some(0));
    farm.wait_for_shares(1);
    // The request was for that life only.
    farm.nodes[1].start();
    farm.wait_for_shares(2);
}

#[test]
fn a_node_of_a_taken_name_or_with_another_secret_does_not_start() {
    let _alone = alone();
    let nats = Nats::start(NatsRelease::Current);
    let farm = Farm::start(&nats, 1, "bob", 5_999);
    let (code, error) = farm.prepare(&nats, "n0", true).fails(&["serve"]);
    assert_eq!(code, 1);
    assert!(error.contains("a live node of the farm has this name"), "{error}");
    let (code, error) = farm.prepare(&nats, "n1", false).fails(&["serve"]);
    assert_eq!(code, 1);
    assert!(error.contains("with another secret: copy the farm's secret to this node"), "{error}");
    farm.wait_for_shares(1);
}

/// Each call rings for a third of a second: the node that is killed has some in every phase of their setup. Calls are up for a second: an ACK
/// that dies with the node is sent again when the callee repeats its 200, after T1 (RFC 3261 §13.3.1.4), and a BYE before it would be out of turn.
#[test]
fn calls_that_are_set_up_at_a_node_that_is_killed_are_answered_and_end() {
    let _alone = alone();
    let nats = Nats::start(NatsRelease::Current);
    let callee = Sipp::answering_nodes("answer-late.xml", 800);
    let mut farm = Farm::start(&nats, 3, "bob", callee.port);
    let caller = Sipp::calling_for(Duration::from_secs(1), "dialog.xml", farm.port, "bob", 800, 50);
    let begun = || farm.calls().iter().sum::<u64>() > 200;
    interop::wait_until("the first calls", Duration::from_secs(30), begun, || format!("{:?}", farm.calls()));
    farm.nodes[1].kill();
    caller.succeeds();
    callee.succeeds();
    farm.wait_for_shares(2);
}

/// The node that is asked shows the messages of all nodes, each with the name of the node that works on its call.
#[test]
fn a_trace_shows_the_messages_of_all_nodes() {
    let _alone = alone();
    let nats = Nats::start(NatsRelease::Debian);
    let callee = Sipp::answering("-uas", 600);
    let farm = Farm::start(&nats, 3, "bob", callee.port);
    let trace = |arguments: &[&str]| {
        let all = [&["trace", "bob@127.0.0.1", "--any", "--json", "--for", "60s"], arguments].concat();
        let lines = farm.nodes[1].run(&all);
        let read = |line: &str| serde_json::from_str(line).expect("a line is an object");
        lines.lines().map(read).collect::<Vec<serde_json::Value>>()
    };
    let (of_farm, of_node) = std::thread::scope(|scope| {
        let of_farm = scope.spawn(|| trace(&["--count", "400"]));
        let of_node = scope.spawn(|| trace(&["--count", "50", "--this-node", "--full"]));
        // 13 messages a call at the nodes that work on them: enough also if a trace begins late.
        let caller = call(&farm, 200, 25);
        let lines = (of_farm.join().expect("a trace"), of_node.join().expect("a trace"));
        caller.succeeds();
        lines
    });
    assert_eq!((of_farm.len(), of_node.len()), (400, 50));
    let mut nodes_of_call: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for line in &of_farm {
        let (call, node) = (line["call_id"].as_str().expect("a Call-ID"), line["node"].as_str());
        nodes_of_call.entry(call).or_default().insert(node.expect("the node's name"));
    }
    let nodes: BTreeSet<&str> = nodes_of_call.values().flatten().copied().collect();
    assert_eq!(nodes, BTreeSet::from(["n0", "n1", "n2"]));
    // The way of a packet from one node to the other is not shown.
    assert!(nodes_of_call.values().all(|nodes| nodes.len() == 1), "{nodes_of_call:?}");
    assert!(of_node.iter().all(|line| line.get("node").is_none() && line["message"].is_string()));
}

/// Each node has a database of its own with the records of its calls; commands at any node show those of all.
#[test]
fn commands_at_any_node_show_the_calls_and_the_state_of_all_nodes() {
    let _alone = alone();
    let nats = Nats::start(NatsRelease::Debian);
    let callee = Sipp::answering("-uas", 60);
    let farm = Farm::start(&nats, 3, "bob", callee.port);
    call(&farm, 60, 30).succeeds();
    let [first, second, third] = &farm.nodes[..] else { panic!("three nodes") };
    let listed = |node: &interop::Node, scope: &[&str]| {
        let calls = node.run(&[&["calls", "-n", "1000", "--json"], scope].concat());
        let id = |line: &str| {
            let call: serde_json::Value = serde_json::from_str(line).expect("a line is an object");
            call["call_id"].as_str().expect("a Call-ID").to_owned()
        };
        calls.lines().map(id).collect::<BTreeSet<String>>()
    };
    // A record is written a moment after its BYE.
    let all = || listed(third, &[]).len() == 60;
    interop::wait_until("60 calls of three nodes", Duration::from_secs(20), all, || third.run(&["calls"]));
    let own: Vec<_> = farm.nodes.iter().map(|node| listed(node, &["--this-node"])).collect();
    assert!(own.iter().all(|calls| !calls.is_empty() && calls.len() < 60), "{own:?}");
    assert_eq!(own.iter().map(BTreeSet::len).sum::<usize>(), 60);
    assert_eq!(own.iter().flatten().cloned().collect::<BTreeSet<String>>(), listed(first, &[]));
    let table = first.run(&["calls", "-n", "5"]);
    assert!(table.lines().count() > 5 && table.ends_with("\n3 of 3 nodes answered\n"), "{table}");
    let status = second.run(&["status", "--farm"]);
    assert!(status.starts_with("3 of 3 nodes answered\n"), "{status}");
    for node in ["n0 ", "n1 ", "n2 "] {
        assert!(status.lines().any(|line| line.starts_with(node) && line.contains("running")), "{status}");
    }
    assert!(first.run(&["blocks"]).ends_with("3 of 3 nodes answered\n"));
    // It stands still and is not known to be dead yet.
    second.signal("STOP");
    let status = first.run(&["status", "--farm"]);
    second.signal("CONT");
    assert!(status.starts_with("2 of 3 nodes answered (n1 did not)\n"), "{status}");
}

/// A call of an application is known at its node alone.
#[test]
fn a_call_of_an_application_is_ended_from_any_node() {
    let _alone = alone();
    let nats = Nats::start(NatsRelease::Debian);
    let (sid, token) = ("ACae6e420f425248d6a26948c17a9e2acf", "a token of the test");
    let application = interop::document_at("<Response><Say>hello</Say><Pause length='120'/></Response>");
    let voice = format!(
        "[voice]\nmedia = \"127.0.0.1\"\nmedia_ports = \"31000-31999\"\nopen = true\nallow_private = true\n\
         auth_token = \"{token}\"\nnumbers = [{{ number = \"1234\", url = \"http://{application}/\" }}]\n"
    );
    let farm = Farm::with_sections(&nats, 2, &voice);
    let caller = Sipp::holding(farm.port, "1234", Duration::from_secs(60));
    let calls_of = |node: &interop::Node| {
        let url = format!("http://127.0.0.1:{}/2010-04-01/Accounts/{sid}/Calls.json", node.http);
        let output = std::process::Command::new("curl")
            .args(["--silent", "--user", &format!("{sid}:{token}"), &url])
            .output()
            .expect("curl");
        let page: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let text = |name: &str| page["calls"][0][name].as_str().map(str::to_owned);
        Some((text("sid")?, text("status")?))
    };
    let mut found = None;
    let is_live = || {
        found = farm.nodes.iter().enumerate().find_map(|(number, node)| {
            calls_of(node).filter(|(_, status)| status == "in-progress").map(|(call, _)| (number, call))
        });
        found.is_some()
    };
    interop::wait_until("the call of the application", Duration::from_secs(20), is_live, || {
        format!("{:?}", farm.nodes.iter().map(calls_of).collect::<Vec<_>>())
    });
    let (number, call) = found.expect("it was waited for");
    let (owner, other) = (&farm.nodes[number], &farm.nodes[1 - number]);
    let (_, error) = other.fails(&["calls", "end", "CA00000000000000000000000000000000"]);
    assert!(error.contains("no open call of an application has the SID"), "{error}");
    // The other node lists it with its node and the name by which it is ended.
    let open = other.run(&["calls", "open", "--json"]);
    let open: serde_json::Value = serde_json::from_str(&open).expect("one call");
    assert_eq!(
        (&open["sid"], &open["node"]),
        (&call.as_str().into(), &format!("n{number}").into()),
        "{open}"
    );
    assert_eq!(open["state"], "answered");
    let table = other.run(&["calls", "open"]);
    assert!(table.ends_with("1 of 1 open calls\n2 of 2 nodes answered\n"), "{table}");
    assert_eq!(other.run(&["calls", "end", &call]), "ended\n");
    let has_ended = || calls_of(owner).is_some_and(|(_, status)| status == "completed");
    interop::wait_until("the end of the call", Duration::from_secs(20), has_ended, || owner.tail());
    drop(caller);
}

/// The kernel gives a node new connections only while it has file descriptors for them.
#[test]
fn a_node_without_room_for_connections_leaves_them_to_the_others_and_comes_back() {
    const FILES: u32 = 200;
    let _alone = alone();
    let nats = Nats::start(NatsRelease::Debian);
    let mut farm = Farm::start(&nats, 1, "bob", 5_999);
    farm.add_with_open_files(&nats, FILES);
    let small = &farm.nodes[1];
    let closed = || small.metric("belfry_listeners_closed");
    // Twice as many as fit if the kernel gives each node half of them.
    let mut connections: Vec<TcpStream> =
        (0..4 * FILES).map(|number| connection(farm.port, number)).collect();
    assert!(small.metric("belfry_listener_closures_total") > 0, "{}", small.metrics());
    interop::wait_until(
        "the listener to be closed",
        Duration::from_secs(20),
        || closed() > 0,
        || small.tail(),
    );
    assert!(small.tail().contains("no room for more connections"), "{}", small.tail());
    assert_eq!(small.metric("belfry_connections_no_place_total"), 0);
    connections.iter_mut().enumerate().for_each(|(number, connection)| is_answered(connection, number));
    drop(connections);
    interop::wait_until(
        "the listeners to be open",
        Duration::from_secs(20),
        || closed() == 0,
        || small.tail(),
    );
    let accepted = || small.metric("belfry_connections_accepted_total");
    let before = accepted();
    let again: Vec<TcpStream> = (0..64).map(|number| connection(farm.port, number)).collect();
    // The figures are published twice a second.
    let has_some = || accepted() > before;
    interop::wait_until("connections at the node that came back", Duration::from_secs(20), has_some, || {
        small.metrics()
    });
    drop(again);
}

/// Nodes that share a machine leave it alone while they have nothing to do. Measured: 20 to 30 a second; a timer or a link that
/// wakes without end has hundreds.
#[test]
fn an_idle_node_of_a_farm_wakes_seldom() {
    const MEASURED: Duration = Duration::from_secs(5);
    let _alone = alone();
    let nats = Nats::start(NatsRelease::Debian);
    let farm = Farm::start(&nats, 3, "bob", 5_999);
    let before: Vec<u64> = farm.nodes.iter().map(|node| wake_ups(node.id())).collect();
    let (began, measured) = (uptime(), wait::Deadline::after(MEASURED));
    interop::wait_until("the measurement", 4 * MEASURED, || measured.left().is_none(), String::new);
    for (node, before) in farm.nodes.iter().zip(before) {
        let woken = (wake_ups(node.id()) - before) as f64 / (uptime() - began);
        assert!(woken < 80.0, "{woken} wake-ups a second");
    }
}

/// The machine's time in seconds (`proc_uptime(5)`).
fn uptime() -> f64 {
    let text = std::fs::read_to_string("/proc/uptime").expect("the kernel says it");
    text.split(' ').next().and_then(|seconds| seconds.parse().ok()).expect("a number")
}

/// The times that threads of a process have waited for something, and so were woken (`proc_pid_status(5)`).
fn wake_ups(process: u32) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).expect("the process runs");
    let of_task = |task: std::io::Result<std::fs::DirEntry>| {
        // A thread may end meanwhile.
        let status = std::fs::read_to_string(task.ok()?.path().join("status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
        line.trim().parse::<u64>().ok()
    };
    tasks.filter_map(of_task).sum()
}

/// A connection that a node has answered a request on.
fn connection(port: u16, number: u32) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("a node accepts the connection");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a time that is not zero");
    is_answered(&mut stream, number as usize);
    stream
}

/// The connection is open: a node answers an OPTIONS on it.
fn is_answered(stream: &mut TcpStream, number: usize) {
    let local = stream.local_addr().expect("a connected socket");
    let request = format!(
        "OPTIONS sip:127.0.0.1 SIP/2.0\r\nVia: SIP/2.0/TCP {local};branch=z9hG4bK{number}.{}\r\nFrom: <sip:a@{local}>;tag=1\r\n\
         To: <sip:127.0.0.1>\r\nCall-ID: {number}@{local}\r\nCSeq: 1 OPTIONS\r\nMax-Forwards: 70\r\nContent-Length: 0\r\n\r\n",
        local.port()
    );
    stream.write_all(request.as_bytes()).expect("the connection is open");
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        let mut bytes = [0; 2_048];
        let count = stream.read(&mut bytes).expect("an answer");
        assert!(count > 0, "connection {number} was closed: {}", String::from_utf8_lossy(&answer));
        answer.extend_from_slice(&bytes[..count]);
    }
}

//! Certificates by ACME, with Pebble as the authority, and OpenSSL and curl as clients that trust it alone.

use std::io::{BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use interop::{Farm, HttpRequest, Nats, NatsRelease, Node, Pebble, certificate_shown, free_port, wait_until};
use serde_json::Value;

const DOMAIN: &str = interop::DOMAIN;
/// For an order beside a busy machine.
const ORDER: Duration = Duration::from_secs(60);

/// A node with chat, which orders from `pebble`, and the ports of its XMPP and HTTPS.
fn node(pebble: &Pebble, profile: &str, keys: &str) -> (Node, u16, u16) {
    let (xmpp, web) = (free_port(), free_port());
    let sections = format!(
        "[xmpp]\nlisten = [\"tcp:127.0.0.1:{xmpp}\", \"wss:127.0.0.1:{web}\"]\n[acme]\n{}{keys}",
        pebble.keys(profile)
    );
    (Node::prepare().with_sections(&sections), xmpp, web)
}

fn certificate(node: &Node) -> Value {
    let status = node.try_json(&["status", "--json"]).unwrap_or_default();
    status["certificate"].clone()
}

fn explain(node: &Node, pebble: &Pebble) -> String {
    format!("{}\n{}\n{}", certificate(node), node.tail(), pebble.tail())
}

fn wait_for_certificate(node: &Node, pebble: &Pebble) {
    let is_ordered = || certificate(node)["source"] == "acme";
    wait_until("a certificate of the authority", ORDER, is_ordered, || explain(node, pebble));
}

/// True if curl, which trusts this root alone, gets a page.
fn is_https_trusted(port: u16, root: &Path) -> bool {
    let output = Command::new("curl")
        .args(["-sS", "--max-time", "20", "--cacert"])
        .arg(root)
        .args(["--resolve", &format!("{DOMAIN}:{port}:127.0.0.1")])
        .arg(format!("https://{DOMAIN}:{port}/.well-known/host-meta"))
        .output()
        .expect("curl is installed");
    output.status.success() && String::from_utf8_lossy(&output.stdout).contains("XRD")
}

#[test]
fn a_certificate_by_http_is_in_use_at_all_listeners_without_a_restart_once_the_authority_is_there() {
    let pebble = Pebble::prepare();
    let (node, xmpp, web) = node(&pebble, "default", &format!("listen = \"127.0.0.1:{}\"\n", pebble.http));
    let node = node.started();
    // The authority is away: the node serves, and says why it has nothing better than its own.
    let is_told = || certificate(&node)["order_failure"].is_string();
    wait_until("a failed order", ORDER, is_told, || explain(&node, &pebble));
    assert_eq!(certificate(&node)["source"], "self_signed");
    assert!(
        node.health().contains("\nclients see a certificate that the node made for itself"),
        "{}",
        node.health()
    );
    assert_eq!(node.metric("belfry_certificate_order_failed"), 1);
    let pid = node.id();

    let pebble = pebble.started();
    wait_for_certificate(&node, &pebble);
    let root = pebble.root();
    assert!(is_https_trusted(web, &root), "{}", explain(&node, &pebble));
    let by_starttls = ["-starttls", "xmpp", "-xmpphost", DOMAIN];
    let chat = certificate_shown(xmpp, DOMAIN, &root, &by_starttls).unwrap();
    assert_eq!(certificate_shown(node.tls, DOMAIN, &root, &[]).unwrap(), chat, "SIP shows the same");
    assert_eq!(node.id(), pid);
    assert!(node.is_healthy(), "{}", node.health());
    assert_eq!(node.metric("belfry_certificate_order_failed"), 0);
    let left = node.metric("belfry_certificate_expiry_seconds");
    assert!((89 * 86_400..=90 * 86_400).contains(&left), "{left}");

    let file = node.certificate().with_file_name("acme");
    let folder = std::fs::read_dir(file).unwrap().next().unwrap().unwrap().path();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    assert_eq!(mode(&folder.join("certificate.pem")), 0o600);
    assert_eq!(mode(&folder.join("account.json")), 0o600);
}

#[test]
fn a_certificate_by_tls_alpn_is_renewed_before_its_end_without_a_restart() {
    let pebble = Pebble::prepare().started();
    let keys = format!("challenge = \"tls-alpn-01\"\nlisten = \"127.0.0.1:{}\"\n", pebble.tls);
    let (node, _, _) = node(&pebble, "brief", &keys);
    let node = node.started();
    wait_for_certificate(&node, &pebble);
    let root = pebble.root();
    let first = certificate_shown(node.tls, DOMAIN, &root, &[]).unwrap();
    let (ends, pid) = (certificate(&node)["ends_at"].as_u64().unwrap(), node.id());
    let is_renewed = || certificate(&node)["ends_at"].as_u64().is_some_and(|end| end > ends);
    wait_until("the renewal", ORDER, is_renewed, || explain(&node, &pebble));
    let second = certificate_shown(node.tls, DOMAIN, &root, &[]).unwrap();
    assert_ne!(first, second);
    assert_eq!(node.id(), pid);
}

#[test]
fn a_certificate_of_an_earlier_start_is_used_and_not_ordered_again() {
    let pebble = Pebble::prepare().started();
    let (node, _, _) = node(&pebble, "default", &format!("listen = \"127.0.0.1:{}\"\n", pebble.http));
    let mut node = node.started();
    wait_for_certificate(&node, &pebble);
    let root = pebble.root();
    let first = certificate_shown(node.tls, DOMAIN, &root, &[]).unwrap();
    node.kill();
    node.start();
    assert_eq!(certificate_shown(node.tls, DOMAIN, &root, &[]).unwrap(), first);
    let next = certificate(&node)["next_order_seconds"].as_u64().unwrap();
    assert!(next > 50 * 86_400, "{next}");
}

#[test]
fn a_refused_order_names_the_name_and_the_reason_and_waits() {
    let pebble = Pebble::prepare().started();
    // The authority asks at a port where nothing listens.
    let (node, _, _) = node(&pebble, "default", &format!("listen = \"127.0.0.1:{}\"\n", free_port()));
    let node = node.started();
    let is_told = || certificate(&node)["order_failure"].is_string();
    wait_until("a refused order", ORDER, is_told, || explain(&node, &pebble));
    let status = certificate(&node);
    let reason = status["order_failure"].as_str().unwrap();
    assert!(reason.contains(DOMAIN) && reason.contains("refused"), "{reason}");
    let next = status["next_order_seconds"].as_u64().unwrap();
    assert!((200..=400).contains(&next), "{status}");
    assert!(node.tail().contains("no certificate could be ordered"), "{}", node.tail());
    let shown = node.run(&["status"]);
    assert!(
        shown.contains("made by the node itself") && shown.contains("the next order is due in"),
        "{shown}"
    );
}

/// A balancer at the port at which the authority asks, which may choose any node: it asks all nodes that are there, and notes answers that differ.
fn balance(port: u16, nodes: &'static [u16]) -> Arc<Mutex<Vec<String>>> {
    let listener = TcpListener::bind(("127.0.0.1", port)).expect("the port is free");
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let noted = Arc::clone(&asked);
    let serve = move || {
        for stream in listener.incoming().flatten() {
            let mut reader = BufReader::new(stream);
            let Some(request) = HttpRequest::read(&mut reader) else { continue };
            let answers: Vec<String> = nodes.iter().filter_map(|node| ask(*node, &request.target)).collect();
            let content = |answer: &String| {
                let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
                format!("{} {body}", head.split(' ').nth(1).unwrap_or_default())
            };
            let contents: Vec<String> = answers.iter().map(content).collect();
            noted.lock().expect("nothing panics with it").push(contents.join(" | "));
            // One of another node than the first, if there is one.
            let answer = answers.last().cloned().unwrap_or_default();
            let _ = reader.get_mut().write_all(answer.as_bytes());
        }
    };
    std::thread::Builder::new().name("balancer".into()).spawn(serve).expect("a thread starts");
    asked
}

/// A balancer that knows nothing of TLS: it passes each connection on to the next node in turn, and notes the node and the bytes of its answer.
fn balance_connections(port: u16, nodes: &'static [u16]) -> Arc<Mutex<Vec<(u16, usize)>>> {
    let listener = TcpListener::bind(("127.0.0.1", port)).expect("the port is free");
    let passed: Arc<Mutex<Vec<(u16, usize)>>> = Arc::default();
    let noted = Arc::clone(&passed);
    let serve = move || {
        for (client, node) in listener.incoming().flatten().zip(nodes.iter().copied().cycle()) {
            let noted = Arc::clone(&noted);
            let pass = move || {
                let bytes = pass_on(client, node).unwrap_or_default();
                noted.lock().expect("nothing panics with it").push((node, bytes));
            };
            std::thread::Builder::new().name("connection".into()).spawn(pass).expect("a thread starts");
        }
    };
    std::thread::Builder::new().name("balancer".into()).spawn(serve).expect("a thread starts");
    passed
}

/// Passes bytes on in both directions until both have ended; those that the node has sent.
fn pass_on(client: TcpStream, node: u16) -> std::io::Result<usize> {
    let server = TcpStream::connect(("127.0.0.1", node))?;
    let (mut from_client, mut to_server) = (client.try_clone()?, server.try_clone()?);
    let up = move || {
        let _ = std::io::copy(&mut from_client, &mut to_server);
        let _ = to_server.shutdown(Shutdown::Write);
    };
    std::thread::Builder::new().name("requests".into()).spawn(up)?;
    let (mut from_server, mut to_client) = (server, client);
    let bytes = std::io::copy(&mut from_server, &mut to_client)?;
    // The other direction ends, too, when the authority keeps its side open.
    let _ = to_client.shutdown(Shutdown::Both);
    Ok(usize::try_from(bytes).unwrap_or_default())
}

/// None: nothing listens there.
fn ask(port: u16, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {DOMAIN}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

#[test]
fn one_node_of_a_farm_orders_all_answer_the_authority_and_use_the_certificate_and_another_renews_it() {
    let (pebble, nats) = (Pebble::prepare().started(), Nats::start(NatsRelease::Debian));
    let ports: &'static [u16] = vec![free_port(), free_port()].leak();
    let asked = balance(pebble.http, ports);
    let mut farm = Farm::with_sections(&nats, 0, "");
    for (number, port) in ports.iter().enumerate() {
        let acme = format!("[acme]\n{}listen = \"127.0.0.1:{port}\"\n", pebble.keys("brief"));
        let node = farm.prepare(&nats, &format!("n{number}"), true).with_sections(&acme);
        farm.nodes.push(node.started());
    }
    let explain = |farm: &Farm| {
        let nodes: Vec<String> = farm.nodes.iter().map(|node| explain(node, &pebble)).collect();
        format!("{}\n{:?}", nodes.join("\n"), asked.lock().unwrap())
    };
    let root = || pebble.root();
    let shown = |node: &Node, root: &Path| certificate_shown(node.tls, DOMAIN, root, &[]);
    let is_ordered = || farm.nodes.iter().all(|node| certificate(node)["source"] == "acme");
    wait_until("a certificate at both nodes", ORDER, is_ordered, || explain(&farm));
    let root = root();
    let is_same = || {
        let [first, second] = [&farm.nodes[0], &farm.nodes[1]].map(|node| shown(node, &root));
        first.is_ok() && first == second
    };
    wait_until("the same certificate at both nodes", ORDER, is_same, || explain(&farm));
    {
        let asked = asked.lock().unwrap();
        let is_of_both = |answers: &String| {
            let (first, second) = answers.split_once(" | ").unwrap_or_default();
            first == second && first.starts_with("200 ")
        };
        assert!(!asked.is_empty() && asked.iter().all(is_of_both), "{asked:?}\n{}", explain(&farm));
    }
    let issued = "a certificate was issued and is in use";
    let orders = |node: &Node| node.tail().matches(issued).count();
    let orderer = usize::from(orders(&farm.nodes[1]) > 0);
    assert!(orders(&farm.nodes[orderer]) > 0, "{}", explain(&farm));
    farm.nodes[orderer].kill();
    let other = &farm.nodes[1 - orderer];
    let ends = certificate(other)["ends_at"].as_u64().unwrap();
    let is_renewed = || certificate(other)["ends_at"].as_u64().is_some_and(|end| end > ends);
    wait_until("the renewal by the node that is left", ORDER, is_renewed, || explain(&farm));
    assert!(shown(other, &root).is_ok());
}

/// RFC 8737 §3: any node shows the certificate of the challenge, also of an order that is another's.
#[test]
fn any_node_of_a_farm_shows_the_challenge_certificate_of_the_order_of_one() {
    let (pebble, nats) = (Pebble::prepare(), Nats::start(NatsRelease::Debian));
    let ports: &'static [u16] = vec![free_port(), free_port()].leak();
    let passed = balance_connections(pebble.tls, ports);
    let mut farm = Farm::with_sections(&nats, 0, "");
    for (number, port) in ports.iter().enumerate() {
        let keys = pebble.keys("default");
        let acme = format!("[acme]\n{keys}challenge = \"tls-alpn-01\"\nlisten = \"127.0.0.1:{port}\"\n");
        let node = farm.prepare(&nats, &format!("n{number}"), true).with_sections(&acme);
        farm.nodes.push(node.started());
    }
    // Not before: a node that is alone would order alone.
    let pebble = pebble.started();
    let explain = || {
        let nodes: Vec<String> = farm.nodes.iter().map(|node| explain(node, &pebble)).collect();
        format!("{}\n{:?}", nodes.join("\n"), passed.lock().unwrap())
    };
    let is_ordered = || farm.nodes.iter().all(|node| certificate(node)["source"] == "acme");
    wait_until("a certificate at both nodes", ORDER, is_ordered, explain);
    let issued = "a certificate was issued and is in use";
    let orders: usize = farm.nodes.iter().map(|node| node.tail().matches(issued).count()).sum();
    assert_eq!(orders, 1, "{}", explain());
    // The authority asks several times for each name. An alert is some bytes, a certificate hundreds.
    let has_shown =
        |port: &u16| passed.lock().unwrap().iter().any(|(node, bytes)| node == port && *bytes > 300);
    wait_until("a certificate of the challenge by each", ORDER, || ports.iter().all(has_shown), explain);
    let root = pebble.root();
    let shown = |number: usize| certificate_shown(farm.nodes[number].tls, DOMAIN, &root, &[]);
    wait_until("the same certificate at both", ORDER, || shown(0).is_ok() && shown(0) == shown(1), explain);
}

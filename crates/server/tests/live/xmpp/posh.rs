//! Two nodes with certificates of their own making, which the web servers of their domains vouch for (RFC 7711).

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use interop::{Authority, free_port};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::ResolvesServerCertUsingSni;
use rustls::sign::CertifiedKey;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use sha2::{Digest as _, Sha256};

use super::servers::{Both, ONE, TWO, chat, place_with};
use crate::place::Place;
use crate::until;
use crate::voice::sum;

const PATH: &str = "/.well-known/posh/xmpp-server.json";
/// The web server to which two.test refers.
const HOSTING: &str = "hosting.test";

#[derive(Default)]
struct State {
    /// A status, header fields and a body for each host and path.
    answers: HashMap<String, (&'static str, String, String)>,
    /// Hosts and paths that were asked for.
    asked: Vec<String>,
    connections: usize,
}

/// The web servers of all domains, with certificates of the authority. It ends with the process.
struct Web {
    port: u16,
    state: Arc<Mutex<State>>,
}

impl Web {
    fn start(authority: &Authority) -> Web {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let mut names = ResolvesServerCertUsingSni::new();
        for name in [ONE, TWO, HOSTING] {
            let files = authority.certify(name);
            let chain =
                CertificateDer::pem_file_iter(files.certificate).unwrap().map(Result::unwrap).collect();
            let key = PrivateKeyDer::from_pem_file(files.key).unwrap();
            names.add(name, CertifiedKey::from_der(chain, key, &provider).unwrap()).unwrap();
        }
        let config =
            ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config = Arc::new(config.with_no_client_auth().with_cert_resolver(Arc::new(names)));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let web = Web { port: listener.local_addr().unwrap().port(), state: Arc::default() };
        let state = Arc::clone(&web.state);
        let run = move || {
            for socket in listener.incoming().flatten() {
                lock(&state).connections += 1;
                let connection =
                    ServerConnection::new(Arc::clone(&config)).expect("a configuration of servers");
                // A client that refuses the certificate ends the connection.
                let _ = serve(socket, connection, &state);
            }
        };
        std::thread::Builder::new().spawn(run).unwrap();
        web
    }

    fn publish(&self, address: &str, status: &'static str, headers: &str, body: String) {
        lock(&self.state).answers.insert(address.to_owned(), (status, headers.to_owned(), body));
    }

    /// Vouches for the certificate that a node shows.
    fn vouch(&self, address: &str, place: &Place) {
        let certificate =
            CertificateDer::from_pem_file(place.path("data/cert.pem")).expect("the node's certificate");
        self.publish(address, "200 OK", "Content-Type: application/json\r\n", document(&certificate));
    }

    fn asked(&self) -> Vec<String> {
        lock(&self.state).asked.clone()
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn serve(socket: TcpStream, connection: ServerConnection, state: &Mutex<State>) -> std::io::Result<()> {
    socket.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut stream = BufReader::new(StreamOwned::new(connection, socket));
    let (mut line, mut path, mut host) = (String::new(), String::new(), String::new());
    while stream.read_line(&mut line)? > 2 {
        if path.is_empty() {
            path = line.split(' ').nth(1).unwrap_or_default().to_owned();
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("host:") {
            host = value.trim().to_owned();
        }
        line.clear();
    }
    let address = format!("{host}{path}");
    let (status, headers, body) = {
        let mut state = lock(state);
        state.asked.push(address.clone());
        state.answers.get(&address).cloned().unwrap_or(("404 Not Found", String::new(), String::new()))
    };
    let length = body.len();
    let stream = stream.get_mut();
    write!(
        stream,
        "HTTP/1.1 {status}\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )?;
    stream.flush()?;
    stream.conn.send_close_notify();
    stream.flush()
}

fn document(certificate: &[u8]) -> String {
    let fingerprint = BASE64_STANDARD.encode(Sha256::digest(certificate));
    format!(r#"{{"fingerprints":[{{"sha-256":"{fingerprint}"}}],"expires":600}}"#)
}

/// Nodes with a demand of certificates, which know the web servers and their authority.
fn nodes(authority: &Authority, web: &Web) -> Both {
    let ports = [free_port(), free_port()];
    let web_routes = [ONE, TWO, HOSTING].map(|name| format!("\"{name}=127.0.0.1:{}\"", web.port)).join(", ");
    let made = |own: usize, domain: &str, user: &str, other: &str| {
        let section = format!(
            "listen = [\"tcp:127.0.0.1:{}\"]\nroutes = [\"{other}=127.0.0.1:{}\"]\nrequire_certificate = true\n\
             posh_routes = [{web_routes}]\n[tls]\nca = {:?}",
            ports[own],
            ports[1 - own],
            authority.certificate()
        );
        place_with("", domain, user, &section)
    };
    Both::of([made(0, ONE, "alice", TWO), made(1, TWO, "bob", ONE)])
}

/// One domain's web server has the document, the other's refers to a third, which redirects.
#[test]
fn web_servers_prove_the_certificates_that_two_nodes_have_made_for_themselves() {
    let authority = Authority::new();
    let web = Web::start(&authority);
    let both = nodes(&authority, &web);
    web.vouch(&format!("{ONE}{PATH}"), &both.places[0]);
    let there = format!(r#"{{"url":"https://{HOSTING}/posh/two.json","expires":600}}"#);
    web.publish(&format!("{TWO}{PATH}"), "200 OK", "", there);
    web.publish(&format!("{HOSTING}/posh/two.json"), "302 Found", "Location: /two.json\r\n", String::new());
    web.vouch(&format!("{HOSTING}/two.json"), &both.places[1]);
    chat(&both);
    for node in &both.nodes {
        until("POSH has proved the other", || {
            (sum(node, |shard| shard.xmpp.servers.posh_proved) >= 1).then_some(())
        });
        assert_eq!(sum(node, |shard| shard.xmpp.servers.posh_failures), 0);
    }
    let asked = web.asked();
    for address in [
        format!("{ONE}{PATH}"),
        format!("{TWO}{PATH}"),
        format!("{HOSTING}/posh/two.json"),
        format!("{HOSTING}/two.json"),
    ] {
        assert!(asked.contains(&address), "{address}: {asked:?}");
    }
    both.stop();
}

/// The fingerprint of another certificate, a document without an end, one over HTTP, and none.
#[test]
fn a_document_that_does_not_prove_the_certificate_leaves_the_servers_apart() {
    let authority = Authority::new();
    for (status, headers, body) in [
        ("200 OK", "", document(b"another certificate")),
        ("200 OK", "", "{}".to_owned()),
        ("200 OK", "", " ".repeat(100_000)),
        ("302 Found", "Location: http://two.test/posh.json\r\n", String::new()),
        ("302 Found", "Location: /.well-known/posh/xmpp-server.json\r\n", String::new()),
        ("404 Not Found", "", String::new()),
    ] {
        let web = Web::start(&authority);
        let both = nodes(&authority, &web);
        web.publish(&format!("{TWO}{PATH}"), status, headers, body.clone());
        let (mut alice, _bob) = both.clients();
        alice.message("bob@two.test/b", "hello");
        let answer = alice.hear().to_string();
        assert!(answer.contains("remote-server-not-found"), "{status} {headers}: {answer}");
        assert!(answer.contains("no valid certificate"), "{status} {headers}: {answer}");
        let of_two = web.asked().into_iter().filter(|address| address.starts_with(TWO)).count();
        assert!((1..=4).contains(&of_two), "{status} {headers}: {:?}", web.asked());
        both.stop();
    }
}

/// A web server whose own certificate is not of the authority, and one to which a document leads in the node's own network.
#[test]
fn no_web_server_is_believed_without_its_certificate_or_asked_in_a_private_network() {
    let (authority, other) = (Authority::new(), Authority::new());
    let web = Web::start(&other);
    let both = nodes(&authority, &web);
    web.vouch(&format!("{TWO}{PATH}"), &both.places[1]);
    let (mut alice, _bob) = both.clients();
    alice.message("bob@two.test/b", "hello");
    assert!(alice.hear().to_string().contains("no valid certificate"));
    assert_eq!(web.asked(), Vec::<String>::new());
    both.stop();

    let inner = Web::start(&authority);
    for host in ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]"] {
        let web = Web::start(&authority);
        let both = nodes(&authority, &web);
        let there = format!(r#"{{"url":"https://{host}:{}/posh.json","expires":600}}"#, inner.port);
        web.publish(&format!("{TWO}{PATH}"), "200 OK", "", there.clone());
        web.publish(&format!("{ONE}{PATH}"), "200 OK", "", there);
        let (mut alice, _bob) = both.clients();
        alice.message("bob@two.test/b", "hello");
        assert!(alice.hear().to_string().contains("no valid certificate"), "{host}");
        assert!(!web.asked().is_empty(), "{host}");
        both.stop();
    }
    assert_eq!(lock(&inner.state).connections, 0, "nothing was sent into the private network");
}

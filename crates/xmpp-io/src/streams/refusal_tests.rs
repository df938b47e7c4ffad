//! Clients that open streams while their shard does not keep up, over sockets.

use std::rc::Rc;
use std::time::Duration;

use sip::transport::Transport;
use stdx::Instant;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::LocalSet;

use super::alone::WebConnections;
use super::serve;
use super::shared::C2sConnections;
use crate::limits;
use crate::sign_in_limiter::DelayedWork;

const HEADER: &str = "<stream:stream to='a.test' xmlns='jabber:client' \
     xmlns:stream='http://etherx.jabber.org/streams' version='1.0'>";

/// A client's connection, accepted by the shard as one of that transport.
async fn connect(shared: &Rc<C2sConnections>, transport: Transport) -> TcpStream {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (socket, remote) = listener.accept().await.unwrap();
    serve::accept(shared, socket, remote.ip(), transport);
    client
}

/// The shard's turns have been late for a while. Its clock is set ahead, so that the limit lets none begin for the time of the test.
fn fall_behind(shared: &C2sConnections) {
    let mut limiter = shared.limiter.borrow_mut();
    let (start, step) = (Instant::from_unix_seconds(600), limits::XMPP_LATE_FOR / 10);
    (0..=10).for_each(|turn| {
        limiter.handle_delay(start + step * turn, DelayedWork::Turn, limits::XMPP_LATE_TURN);
    });
    assert!(limiter.is_limiting());
}

/// Reads from the server up to these words.
async fn hear(client: &mut TcpStream, until: &str) -> String {
    let mut heard = String::new();
    while !heard.contains(until) {
        let mut piece = [0; 1_024];
        let count = client.read(&mut piece).await.unwrap();
        assert!(count > 0, "closed after {heard}");
        heard.push_str(std::str::from_utf8(&piece[..count]).unwrap());
    }
    heard
}

async fn hear_all(client: &mut TcpStream) -> String {
    let mut heard = String::new();
    client.read_to_string(&mut heard).await.unwrap();
    heard
}

async fn refuse_streams() {
    let folder = tempfile::tempdir().unwrap();
    let connections = WebConnections::new(folder.path()).unwrap();
    let shared = connections.shared();
    let mut early = connect(shared, Transport::Tcp).await;
    early.write_all(HEADER.as_bytes()).await.unwrap();
    hear(&mut early, "</stream:features>").await;
    fall_behind(shared);
    // RFC 6120 §4.9.3.17, after a header (§4.9.1.2).
    let mut late = connect(shared, Transport::Tcp).await;
    late.write_all(HEADER.as_bytes()).await.unwrap();
    let heard = hear_all(&mut late).await;
    assert!(heard.contains("<stream:stream ") && heard.contains("<resource-constraint "), "{heard}");
    assert!(!heard.contains("features"), "{heard}");
    // No handshake.
    let mut late = connect(shared, Transport::Tls).await;
    assert_eq!(hear_all(&mut late).await, "");
    // A sign-in that has begun goes on.
    let auth = "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='ANONYMOUS'>=</auth>";
    early.write_all(auth.as_bytes()).await.unwrap();
    hear(&mut early, "<success ").await;
    let counters = shared.counts.counters();
    assert_eq!((counters.shed, counters.faults), (2, 0));
}

#[tokio::test]
async fn a_shard_that_is_behind_refuses_streams_before_tls_and_sasl() {
    let local = LocalSet::new();
    let test = local.run_until(refuse_streams());
    tokio::time::timeout(Duration::from_secs(30), test).await.unwrap();
}

//! Users at sockets that are no server: redirects, trust in certificates, and the failures that end a run.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::thread::JoinHandle;

use super::*;
use crate::cli::build_xmpp;

const ELSEWHERE: &str = "<stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' id='1' \
    version='1.0'><stream:error><see-other-host xmlns='urn:ietf:params:xml:ns:xmpp-streams'>";

fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    (listener, address)
}

fn peer_thread<T: Send + 'static>(serve: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    std::thread::Builder::new().name("peer".to_owned()).spawn(serve).expect("a thread")
}

fn users(target: SocketAddr, more: &str) -> Run {
    let line = format!("{target} --domain d --contacts 0 --threads 1 --timeout 2 --for 1 {more}");
    let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    Run::start(build_xmpp(&words).expect("right words").0).expect("it starts")
}

/// The outcome of the run, and all its errors.
fn end_with_errors(run: &mut Run) -> (RunOutcome, Vec<String>) {
    let mut errors = Vec::new();
    loop {
        match run.next(Duration::from_secs(1)) {
            Event::Nothing => {}
            Event::Progress(progress) => errors.extend(progress.errors),
            Event::Ended(ended) => {
                errors.extend(ended.progress.errors.clone());
                return (*ended, errors);
            }
        }
    }
}

#[test]
fn a_redirected_user_connects_to_the_other_host() {
    let (first, target) = listener();
    let (second, other) = listener();
    let sends_away = peer_thread(move || {
        let (mut client, _) = first.accept().expect("a user");
        let text =
            format!("{ELSEWHERE}localhost:{}</see-other-host></stream:error></stream:stream>", other.port());
        client.write_all(text.as_bytes()).expect("the user listens");
    });
    let run = users(target, "--users 1 --tls none");
    let (mut client, _) = second.accept().expect("the user was sent here");
    let mut header = [0; 64];
    let count = client.read(&mut header).expect("the user speaks first");
    assert!(header[..count].starts_with(b"<?xml"), "a new stream begins");
    sends_away.join().expect("it did");
    drop(run);
}

#[test]
fn a_run_with_too_many_failures_ends_early() {
    let (listener, target) = listener();
    drop(listener);
    let mut run = users(target, "--users 5 --tls none --for 600 --retry 1s --give-up 2 --max-failures 4");
    let outcome = end(&mut run);
    let counts = &outcome.progress.total.counts;
    assert_eq!(outcome.end, RunEnd::Failures);
    assert_eq!((counts[Count::FailedTcpConnect], counts[Count::GaveUp]), (10, 5));
}

#[test]
fn a_certificate_of_an_unknown_authority_is_a_cause_of_its_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let (ours, theirs) = (folder.path().join("ours"), folder.path().join("theirs"));
    let [_, theirs] = [&ours, &theirs].map(|place| {
        std::fs::create_dir(place).expect("a folder");
        certified(options("127.0.0.1", Protocol::Tls, Sockets::Shared, 1), place)
    });
    let (listener, target) = listener();
    let server = crate::engine::tls::Tls::load(&theirs.network.tls, true).expect("a certificate");
    let server = server.server.expect("its own");
    let serves = peer_thread(move || {
        let (client, _) = listener.accept().expect("a user");
        let tls = rustls::ServerConnection::new(server).expect("a server");
        rustls::StreamOwned::new(tls, client).read(&mut [0; 64]).is_ok_and(|count| count > 0)
    });
    let ca = ours.join("c.pem");
    let mut run = users(target, &format!("--users 1 --tls direct --give-up 1 --tls-ca {}", ca.display()));
    let (outcome, errors) = end_with_errors(&mut run);
    assert_eq!(outcome.progress.total.counts[Count::FailedTls], 1);
    assert!(errors.iter().any(|error| error.contains("--tls-ca FILE")), "{errors:?}");
    assert!(!serves.join().expect("it served"), "nothing is sent to an untrusted server");
}

/// One request of BOSH: what its body is, with the connection to answer by.
fn request_of(client: &mut std::net::TcpStream) -> String {
    let mut text = String::new();
    let mut piece = [0; 4_096];
    while !text.contains("</body>") && !text.ends_with("/>") {
        let count = client.read(&mut piece).expect("the user speaks");
        assert!(count > 0, "the user left after {text:?}");
        text += std::str::from_utf8(&piece[..count]).expect("text");
    }
    assert!(text.starts_with("POST /bind HTTP/1.1\r\nHost: d\r\n"), "{text}");
    text
}

fn answer(client: &mut std::net::TcpStream, attributes: &str, inside: &str) {
    let body = format!(
        "<body xmlns='http://jabber.org/protocol/httpbind' xmlns:stream='http://etherx.jabber.org/streams' {attributes}>{inside}</body>"
    );
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
    client.write_all((head + &body).as_bytes()).expect("the user listens");
}

/// The second is there from the start, and takes what the first cannot: it waits for the server.
#[test]
fn a_user_of_bosh_has_two_connections() {
    let (listener, target) = listener();
    let serves = peer_thread(move || {
        let (mut first, _) = listener.accept().expect("a user");
        let (mut second, _) = listener.accept().expect("the user's other connection");
        let creation = request_of(&mut first);
        assert!(creation.contains("hold='1'") && creation.contains("to='d'"), "{creation}");
        // The server does not offer mechanisms yet: the user's next body comes by the other connection.
        answer(&mut first, "sid='a&amp;b'", "");
        let poll = request_of(&mut second);
        assert!(poll.contains("sid='a&amp;b'") && poll.ends_with("></body>"), "{poll}");
        answer(
            &mut second,
            "",
            "<stream:features><mechanisms xmlns='urn:ietf:params:xml:ns:xmpp-sasl'>\
            <mechanism>PLAIN</mechanism></mechanisms></stream:features>",
        );
        let auth = request_of(&mut first);
        assert!(auth.contains("mechanism='PLAIN'"), "{auth}");
        answer(&mut first, "type='terminate' condition='policy-violation'", "");
    });
    let mut run = users(target, "--users 1 --tls none --bosh /bind --mechanism PLAIN --give-up 1");
    let (outcome, errors) = end_with_errors(&mut run);
    serves.join().expect("it was asked as it should be");
    assert_eq!(outcome.progress.total.counts[Count::FailedThrottled], 1);
    assert!(errors.iter().any(|error| error == "user0's session ends, policy-violation"), "{errors:?}");
}

//! Connections: how many, which one answers leave by, and what follows when they end.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};

use stdx::slab::Key;
use stdx::time::Instant;

use super::*;
use crate::engine::clock::Clock;
use crate::engine::stream::{Sender, StreamConnections};
use crate::engine::tls::Tls;

fn tcp(threads: usize) -> Options {
    options("127.0.0.1", Protocol::Tcp, Sockets::Shared, threads)
}

/// One header section.
fn head(stream: &mut BufReader<TcpStream>) -> String {
    let mut text = String::new();
    while !text.ends_with("\r\n\r\n") {
        assert!(stream.read_line(&mut text).expect("a line") > 0, "ended after {text}");
    }
    text
}

fn request(method: &str, id: usize) -> String {
    let cseq = if method == "ACK" { "1 ACK".to_owned() } else { format!("1 {method}") };
    format!(
        "{method} sip:a SIP/2.0\r\nVia: SIP/2.0/TCP b;branch=z9hG4bK{method}{id}\r\nFrom: <sip:b>;tag=1\r\n\
         To: <sip:a>\r\nCall-ID: {id}@b\r\nCSeq: {cseq}\r\nContent-Length: 0\r\n\r\n"
    )
}

#[test]
fn all_threads_share_one_connection() {
    for (protocol, threads) in [(Protocol::Tcp, 3), (Protocol::Tls, 2), (Protocol::Ws, 2)] {
        let (called, _) = both("127.0.0.1", protocol, Sockets::Shared, threads);
        assert_eq!(called.progress.gauges.open_sockets, 1, "{protocol:?}");
        assert_eq!(called.progress.gauges.threads, threads);
    }
}

#[test]
fn a_server_answers_where_it_was_asked() {
    let mut server = Run::start(setup("uas", tcp(3))).unwrap();
    let address = server.gauges().local.unwrap();
    let connect = || {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        BufReader::new(stream)
    };
    let mut first = connect();
    // Of six connections some belong to other threads than the first.
    for id in 0..6 {
        let mut other = connect();
        first.get_mut().write_all(request("INVITE", id).as_bytes()).unwrap();
        while !head(&mut first).starts_with("SIP/2.0 200") {}
        let end = request("ACK", id) + &request("BYE", id);
        other.get_mut().write_all(end.as_bytes()).unwrap();
        let answer = head(&mut other);
        assert!(answer.starts_with("SIP/2.0 200") && answer.contains("CSeq: 1 BYE"), "{answer}");
    }
    server.change(RunChange::SoftQuit);
    assert_eq!(end(&mut server).progress.total.counts[Count::SuccessfulCall], 6);
}

#[test]
fn a_connection_is_made_again_after_a_while_and_not_for_ever() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = caller(tcp(2), listener.local_addr().unwrap());
    client.rate.total = None;
    client.network.max_reconnect = 2;
    client.network.reconnect_sleep = Duration::from_millis(150);
    let mut run = Run::start(setup("uac", client)).unwrap();
    let accepts = move || {
        let clock = Clock::new();
        let mut times = Vec::new();
        for _ in 0..3 {
            let (stream, _) = listener.accept().unwrap();
            times.push(clock.now());
            // Something was asked before it is closed.
            head(&mut BufReader::new(stream));
        }
        times
    };
    let accepted = std::thread::Builder::new().spawn(accepts).unwrap();
    let (mut errors, outcome) = (Vec::new(), loop_to_end(&mut run));
    errors.extend(outcome.1);
    let times = accepted.join().unwrap();
    assert!(times.windows(2).all(|pair| pair[1].since(pair[0]) >= Duration::from_millis(140)), "{times:?}");
    assert_eq!(outcome.0.end, RunEnd::Fatal);
    assert!(errors.iter().any(|error| error.contains("-max_reconnect allows (2)")), "{errors:?}");
    let counts = &outcome.0.progress.total.counts;
    assert!(counts[Count::FailedTcpClosed] >= 3, "{counts:?}");
}

/// The end, and all errors told on the way.
fn loop_to_end(run: &mut Run) -> (Box<RunOutcome>, Vec<String>) {
    let mut errors = Vec::new();
    for _ in 0..600 {
        match run.next(Duration::from_millis(100)) {
            Event::Ended(outcome) => {
                errors.extend(outcome.progress.errors.iter().cloned());
                return (outcome, errors);
            }
            Event::Progress(progress) => errors.extend(progress.errors),
            Event::Nothing => {}
        }
    }
    panic!("the run does not end: {run:?}");
}

#[test]
fn without_reconnect_close_calls_outlive_their_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = caller(tcp(2), listener.local_addr().unwrap());
    client.rate.total = Some(1);
    client.network.reconnect_close = false;
    client.network.reconnect_sleep = Duration::from_millis(20);
    let mut setup = setup("uac", client);
    setup.scenario = outside::scenario(
        r#"<scenario name="twice"><send><![CDATA[
          OPTIONS sip:a SIP/2.0
          Via: SIP/2.0/TCP [local_ip]:[local_port];branch=[branch]
          From: <sip:m>;tag=1
          To: <sip:a>
          Call-ID: [call_id]
          CSeq: [cseq] OPTIONS
          Content-Length: 0
        ]]></send><pause milliseconds="300"/><send><![CDATA[
          OPTIONS sip:b SIP/2.0
          Via: SIP/2.0/TCP [local_ip]:[local_port];branch=[branch]
          From: <sip:m>;tag=1
          To: <sip:a>
          Call-ID: [call_id]
          CSeq: [cseq] OPTIONS
          Content-Length: 0
        ]]></send><pause milliseconds="300"/></scenario>"#,
    );
    let mut run = Run::start(setup).unwrap();
    let (stream, _) = listener.accept().unwrap();
    let mut stream = BufReader::new(stream);
    assert!(head(&mut stream).starts_with("OPTIONS sip:a"));
    drop(stream);
    let (stream, _) = listener.accept().unwrap();
    let mut stream = BufReader::new(stream);
    // No answer to the first has come: the connection may have lost it.
    assert!(head(&mut stream).starts_with("OPTIONS sip:a"));
    assert!(head(&mut stream).starts_with("OPTIONS sip:b"));
    let outcome = end(&mut run);
    assert_eq!((outcome.end, outcome.progress.total.counts[Count::FailedCall]), (RunEnd::Normal, 0));
}

/// `-reconnect_close false`: a request without an answer is sent once more, and one with an answer is not.
#[test]
fn a_request_that_a_connection_lost_is_sent_on_the_next() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = caller(tcp(2), listener.local_addr().unwrap());
    client.rate.total = Some(1);
    client.network.reconnect_close = false;
    client.network.max_reconnect = 5;
    client.network.reconnect_sleep = Duration::from_millis(20);
    let mut setup = setup("uac", client);
    let options = |to: &str| {
        format!(
            r#"<send><![CDATA[
              OPTIONS sip:{to} SIP/2.0
              Via: SIP/2.0/TCP [local_ip]:[local_port];branch=[branch]
              From: <sip:m>;tag=1
              To: <sip:a>
              Call-ID: [call_id]
              CSeq: [cseq] OPTIONS
              Content-Length: 0
            ]]></send><recv response="200"/>"#
        )
    };
    let pause = r#"<pause milliseconds="400"/>"#;
    setup.scenario = outside::scenario(&format!(
        r#"<scenario name="failover">{}{pause}{}</scenario>"#,
        options("a"),
        options("b")
    ));
    let mut run = Run::start(setup).unwrap();
    let accept = || BufReader::new(listener.accept().unwrap().0);
    let answer = |stream: &mut BufReader<TcpStream>, request: &str| {
        let headers = &request[request.find("\r\n").unwrap()..];
        stream.get_mut().write_all(format!("SIP/2.0 200 OK{headers}").as_bytes()).unwrap();
    };
    let lost = head(&mut accept());
    assert!(lost.starts_with("OPTIONS sip:a"), "{lost}");
    let mut second = accept();
    assert_eq!(head(&mut second), lost);
    answer(&mut second, &lost);
    drop(second);
    let mut third = accept();
    let last = head(&mut third);
    assert!(last.starts_with("OPTIONS sip:b"), "{last}");
    answer(&mut third, &last);
    let outcome = end(&mut run);
    let counts = &outcome.progress.total.counts;
    assert_eq!((outcome.end, counts[Count::SuccessfulCall]), (RunEnd::Normal, 1), "{counts:?}");
}

/// A listener that takes no more connections: each new one waits.
struct Full {
    address: SocketAddr,
    _listener: socket2::Socket,
    _taken: Vec<TcpStream>,
}

impl Full {
    fn new() -> Full {
        let listener = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        listener.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        listener.listen(0).unwrap();
        let address = listener.local_addr().unwrap().as_socket().unwrap();
        let connect = || TcpStream::connect_timeout(&address, Duration::from_millis(200)).ok();
        let taken = std::iter::from_fn(connect).take(10).collect();
        Full { address, _listener: listener, _taken: taken }
    }
}

#[test]
fn a_message_may_wait_only_as_long_as_it_was_told() {
    let listener = Full::new();
    let mut client = caller(tcp(2), listener.address);
    client.rate.total = Some(2);
    client.timers.send_timeout = Some(Duration::from_millis(150));
    let counts = end(&mut Run::start(setup("uac", client)).unwrap()).progress.total.counts;
    assert_eq!(counts[Count::FailedTimeoutOnSend], 2, "{counts:?}");
}

#[test]
fn a_message_may_wait_as_long_as_its_step_says_instead() {
    let listener = Full::new();
    for all in [None, Some(Duration::from_secs(60))] {
        let mut client = caller(tcp(2), listener.address);
        client.rate.total = Some(2);
        client.timers.send_timeout = all;
        let mut setup = setup("uac", client);
        setup.scenario = outside::scenario(
            r#"<scenario name="impatient"><send timeout="150"><![CDATA[
              OPTIONS sip:a SIP/2.0
              Via: SIP/2.0/TCP [local_ip]:[local_port];branch=[branch]
              From: <sip:m>;tag=1
              To: <sip:a>
              Call-ID: [call_id]
              CSeq: [cseq] OPTIONS
              Content-Length: 0
            ]]></send><recv response="200"/></scenario>"#,
        );
        let counts = end(&mut Run::start(setup).unwrap()).progress.total.counts;
        assert_eq!(counts[Count::FailedTimeoutOnSend], 2, "{all:?}: {counts:?}");
    }
}

#[test]
fn late_senders_are_told_in_any_order_and_senders_that_left_are_not() {
    let mut poll = mio::Poll::new().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut streams = StreamConnections::new(Arc::new(tcp(1)), None);
    let key = streams.for_call(listener.local_addr().unwrap(), Sockets::Shared, poll.registry()).unwrap();
    let by = |call, patience: Option<u64>| Sender {
        shard: 0,
        call: Key::from_u64(call),
        patience: patience.map(Duration::from_millis),
    };
    let at = |millis| Instant::default() + Duration::from_millis(millis);
    let told = |streams: &mut StreamConnections| -> Vec<u64> {
        std::mem::take(&mut streams.late).iter().map(|sender| sender.call.to_u64()).collect()
    };
    for sender in [by(1, None), by(2, Some(300)), by(3, Some(100)), by(4, Some(500))] {
        streams.write(key, b"x", sender).unwrap();
    }
    assert_eq!(streams.deadline(), at(100));
    streams.wake(at(150), poll.registry());
    assert_eq!(told(&mut streams), [3]);
    assert_eq!(streams.deadline(), at(300));
    streams.wake(at(300), poll.registry());
    assert_eq!(told(&mut streams), [2]);
    // The connection comes up: all bytes leave, in their order.
    let mut events = mio::Events::with_capacity(8);
    poll.poll(&mut events, Some(Duration::from_secs(10))).unwrap();
    for event in &events {
        streams.event(key, event, |_, _| {});
    }
    let mut bytes = [0; 4];
    listener.accept().unwrap().0.read_exact(&mut bytes).unwrap();
    streams.wake(at(5_000), poll.registry());
    assert_eq!((told(&mut streams), streams.deadline()), (Vec::new(), Instant::FAR_FUTURE));
}

#[test]
fn tls_ends_with_a_word() {
    let directory = tempfile::tempdir().unwrap();
    let server = certified(options("127.0.0.1", Protocol::Tls, Sockets::Shared, 1), directory.path());
    let mut server = Run::start(setup("uas", server)).unwrap();
    let config = Tls::load(&lab_sip::options::TlsOptions::default(), false).unwrap().client;
    let name = rustls_pki_types::ServerName::try_from("localhost").unwrap();
    let mut tls = rustls::ClientConnection::new(config, name).unwrap();
    let mut stream = TcpStream::connect(server.gauges().local.unwrap()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut both = rustls::Stream::new(&mut tls, &mut stream);
    both.write_all(request("INVITE", 1).as_bytes()).unwrap();
    let mut bytes = [0; 8_192];
    assert!(both.read(&mut bytes).unwrap() > 0);
    server.change(RunChange::HardQuit);
    end(&mut server);
    // Without the farewell this is an error of an unexpected end.
    while both.read(&mut bytes).unwrap() > 0 {}
}

/// `-tls_handshake_timeout` and `-ws_handshake_timeout`: a peer that takes the connection and then says nothing.
#[test]
fn a_handshake_that_does_not_end_is_given_up() {
    let limit = Some(Duration::from_millis(100));
    for protocol in [Protocol::Tls, Protocol::Ws] {
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let own = options("127.0.0.1", protocol, Sockets::PerCall, 1);
        let mut client = caller(own, silent.local_addr().unwrap());
        client.rate.total = Some(1);
        (client.network.tls_handshake, client.network.ws_handshake) = (limit, limit);
        let outcome = end(&mut Run::start(setup("uac", client)).unwrap());
        let counts = &outcome.progress.total.counts;
        assert_eq!(counts[Count::FailedTcpConnect], 1, "{protocol:?}: {counts:?}");

        let directory = tempfile::tempdir().unwrap();
        let own = options("127.0.0.1", protocol, Sockets::Shared, 1);
        let mut server = certified(own, directory.path());
        (server.network.tls_handshake, server.network.ws_handshake) = (limit, limit);
        let mut server = Run::start(setup("uas", server)).unwrap();
        let mut stream = TcpStream::connect(server.gauges().local.unwrap()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let closed = stream.read_to_end(&mut Vec::new());
        assert!(closed.is_ok(), "{protocol:?}: {closed:?}");
        server.change(RunChange::SoftQuit);
        assert_eq!(end(&mut server).end, RunEnd::Normal);
    }
}

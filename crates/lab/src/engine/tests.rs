//! Whole runs on loopback: both ends in one process, over every transport.

mod control;
mod ends;
mod outside;
mod streams;
mod twins;
mod xmpp_load;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use lab_sip::inject::InjectionFiles;
use lab_sip::options::{ArrivalPattern, Options, Protocol, RemoteTarget, Sockets, Transport};
use lab_sip::scenario::model::ScenarioSource;
use lab_sip::scenario::{built_in, compile_text};
use lab_sip::stats::Count;

use super::{Event, Run, RunChange, RunEnd, RunOutcome, Setup};

fn setup(name: &'static str, options: Options) -> Setup {
    let text = built_in(name).expect("it comes with the program");
    let compiled = compile_text(text.as_bytes(), ScenarioSource::BuiltIn(name)).expect("it compiles");
    Setup {
        options: Arc::new(options),
        scenario: Arc::new(compiled.scenario),
        receive: None,
        out_of_call: None,
        files: Arc::new(InjectionFiles::load(&[], &[]).expect("no files")),
        receive_files: None,
        tracer: lab_sip::trace::Tracer::default(),
        chat: None,
    }
}

fn options(ip: &str, protocol: Protocol, sockets: Sockets, threads: usize) -> Options {
    let mut options = Options { threads: Some(threads), ..Options::default() };
    options.network.local = vec![ip.parse().expect("an address")];
    options.network.local_port = Some(0);
    options.network.transport = Transport { protocol, sockets };
    options.call.dead_call_wait = Duration::from_millis(200);
    options
}

/// Calls `remote`, 200 calls at 500 a second.
fn caller(mut options: Options, remote: SocketAddr) -> Options {
    options.remote = Some(RemoteTarget { host: remote.ip().to_string(), address: remote });
    options.rate.calls = 500.0;
    options.rate.total = Some(200);
    options.timers.global = Some(Duration::from_secs(30));
    options
}

fn end(run: &mut Run) -> Box<RunOutcome> {
    for _ in 0..600 {
        if let Event::Ended(outcome) = run.next(Duration::from_millis(100)) {
            return outcome;
        }
    }
    panic!("the run does not end: {run:?}");
}

fn certified(mut options: Options, directory: &std::path::Path) -> Options {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
    let (cert, key) = (directory.join("c.pem"), directory.join("k.pem"));
    std::fs::write(&cert, made.cert.pem()).expect("written");
    std::fs::write(&key, made.signing_key.serialize_pem()).expect("written");
    options.network.tls.cert = Some(cert);
    options.network.tls.key = Some(key);
    options
}

/// Both ends of 200 calls; every one succeeds on both sides.
fn both(
    ip: &str,
    protocol: Protocol,
    sockets: Sockets,
    threads: usize,
) -> (Box<RunOutcome>, Box<RunOutcome>) {
    let directory = tempfile::tempdir().expect("a directory");
    let server = certified(options(ip, protocol, Sockets::Shared, threads), directory.path());
    let mut server = Run::start(setup("uas", server)).expect("a server");
    let remote = server.gauges().local.expect("it listens");
    let client = caller(options(ip, protocol, sockets, threads), remote);
    let mut client = Run::start(setup("uac", client)).expect("a client");
    let called = end(&mut client);
    server.change(RunChange::SoftQuit);
    let answered = end(&mut server);
    let what = format!("{protocol:?} {sockets:?} {threads}: {:?}", called.progress.total.counts);
    assert_eq!(called.end, RunEnd::Normal, "{what}");
    assert_eq!(called.progress.total.counts[Count::SuccessfulCall], 200, "{what}");
    assert_eq!(called.progress.total.counts[Count::OutgoingCall], 200, "{what}");
    let total = &answered.progress.total;
    assert_eq!(total.counts[Count::SuccessfulCall], 200, "{what} and {:?}", total.counts);
    assert_eq!(total.counts[Count::OutOfCallMsgs], 0, "{what}");
    assert!(total.counts[Count::MessagesReceived] >= 600 && total.counts[Count::CpuMicros] > 0);
    (called, answered)
}

#[test]
fn udp_with_one_socket() {
    let (called, _) = both("127.0.0.1", Protocol::Udp, Sockets::Shared, 1);
    assert_eq!(called.progress.total.start_delay.n, 200);
    assert_eq!(called.progress.total.counts[Count::Due], 200);
}

#[test]
fn udp_with_three_threads_at_one_port() {
    both("127.0.0.1", Protocol::Udp, Sockets::Shared, 3);
}

#[test]
fn udp_with_a_socket_a_call() {
    let (called, _) = both("127.0.0.1", Protocol::Udp, Sockets::PerCall, 2);
    // Sockets of single calls are closed again.
    assert!(called.progress.gauges.open_sockets <= 2, "{}", called.progress.gauges.open_sockets);
}

#[test]
fn udp_over_ipv6() {
    both("::1", Protocol::Udp, Sockets::Shared, 1);
}

#[test]
fn tcp() {
    both("127.0.0.1", Protocol::Tcp, Sockets::Shared, 1);
    both("::1", Protocol::Tcp, Sockets::PerCall, 2);
}

#[test]
fn tls() {
    both("127.0.0.1", Protocol::Tls, Sockets::Shared, 1);
    both("127.0.0.1", Protocol::Tls, Sockets::PerCall, 1);
}

#[test]
fn websocket() {
    both("127.0.0.1", Protocol::Ws, Sockets::Shared, 1);
    both("127.0.0.1", Protocol::Wss, Sockets::PerCall, 1);
}

#[test]
fn several_source_addresses() {
    let mut server =
        Run::start(setup("uas", options("127.0.0.1", Protocol::Udp, Sockets::Shared, 1))).unwrap();
    let remote = server.gauges().local.unwrap();
    let mut client = caller(options("127.0.0.1", Protocol::Udp, Sockets::PerAddress, 1), remote);
    client.network.local.push(IpAddr::from([127, 0, 0, 2]));
    client.rate.arrivals = ArrivalPattern::Poisson;
    let called = end(&mut Run::start(setup("uac", client)).unwrap());
    server.change(RunChange::HardQuit);
    assert_eq!(called.progress.total.counts[Count::SuccessfulCall], 200);
    assert_eq!(called.progress.gauges.open_sockets, 2);
    assert_eq!(end(&mut server).end, RunEnd::Internal);
}

/// A peer that never answers: calls stay open.
fn silent() -> (std::net::UdpSocket, SocketAddr) {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

#[test]
fn arrivals_beyond_the_limit_are_counted() {
    let (_socket, remote) = silent();
    let mut client = caller(options("127.0.0.1", Protocol::Udp, Sockets::Shared, 2), remote);
    client.rate.limit = Some(5);
    client.rate.total = None;
    let mut run = Run::start(setup("uac", client)).unwrap();
    let progress = loop {
        if let Event::Progress(progress) = run.next(Duration::from_secs(2)) {
            break progress;
        }
    };
    let counts = &progress.total.counts;
    assert_eq!(counts[Count::OutgoingCall], 5);
    assert_eq!(counts[Count::Due], counts[Count::Blocked] + 5);
    assert!((450..=510).contains(&counts[Count::Due]), "{}", counts[Count::Due]);
    assert_eq!((progress.gauges.open_calls, progress.gauges.peak_open_calls), (5, 5));
    run.change(RunChange::HardQuit);
    let outcome = end(&mut run);
    assert_eq!((outcome.end, outcome.progress.gauges.open_calls), (RunEnd::Internal, 0));
    assert_eq!(outcome.progress.total.counts[Count::FailedStopped], 5);
}

#[test]
fn the_time_out_ends_a_run() {
    let (_socket, remote) = silent();
    let mut client = caller(options("127.0.0.1", Protocol::Udp, Sockets::Shared, 1), remote);
    client.timers.global = Some(Duration::from_millis(300));
    client.timers.global_is_error = true;
    assert_eq!(end(&mut Run::start(setup("uac", client)).unwrap()).end, RunEnd::Timeout);
}

#[test]
fn a_refused_connection_fails_its_calls() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let remote = taken.local_addr().unwrap();
    drop(taken);
    let mut client = caller(options("127.0.0.1", Protocol::Tcp, Sockets::PerCall, 1), remote);
    client.rate.total = Some(3);
    let outcome = end(&mut Run::start(setup("uac", client)).unwrap());
    let counts = &outcome.progress.total.counts;
    assert_eq!(counts[Count::FailedTcpConnect] + counts[Count::Blocked], 3, "{counts:?}");
}

#[test]
fn users_call_again_and_again() {
    let mut server =
        Run::start(setup("uas", options("127.0.0.1", Protocol::Udp, Sockets::Shared, 1))).unwrap();
    let remote = server.gauges().local.unwrap();
    let mut client = caller(options("127.0.0.1", Protocol::Udp, Sockets::Shared, 2), remote);
    client.rate.users = Some(3);
    client.rate.total = Some(30);
    let outcome = end(&mut Run::start(setup("uac", client)).unwrap());
    assert_eq!(outcome.progress.total.counts[Count::SuccessfulCall], 30);
    assert!(outcome.progress.gauges.peak_open_calls <= 3);
    server.change(RunChange::SoftQuit);
    assert_eq!(end(&mut server).end, RunEnd::Normal);
}

/// `-users` with `-r`: calls begin at the rate until all users have one, and also if they end before that.
#[test]
fn users_begin_at_the_rate_that_was_given() {
    // The third user's call begins while the first has its own, and the fourth call is the first user's second; calls of
    // 10 ms are never three at once.
    for (pause, fourth) in [(500, 500), (10, 300)] {
        let (socket, remote) = outside::peer();
        let mut client = caller(options("127.0.0.1", Protocol::Udp, Sockets::Shared, 2), remote);
        client.rate.users = Some(3);
        (client.rate.calls, client.rate.is_given) = (10.0, true);
        client.rate.total = Some(6);
        let mut setup = setup("uac", client);
        setup.scenario = ends::lasting(&format!(r#"<pause milliseconds="{pause}"/>"#));
        let clock = super::clock::Clock::new();
        let began = clock.now();
        let mut run = Run::start(setup).unwrap();
        let times: Vec<u128> = (0..6)
            .map(|_| {
                outside::next(&socket);
                clock.now().since(began).as_millis()
            })
            .collect();
        for (time, least) in times.iter().zip([0, 100, 200, fourth]) {
            assert!(*time >= least, "{pause}: {times:?}");
        }
        assert_eq!(end(&mut run).progress.total.counts[Count::SuccessfulCall], 6);
    }
}

#[test]
fn a_client_without_a_target_and_a_server_without_a_certificate_say_so() {
    let error = Run::start(setup("uac", Options::default())).unwrap_err();
    assert!(error.message.contains("HOST:PORT") && error.exit == 255);
    let mut server = options("127.0.0.1", Protocol::Tls, Sockets::Shared, 1);
    server.network.tls.cert = Some("/nowhere.pem".into());
    assert!(Run::start(setup("uas", server)).unwrap_err().message.contains("/nowhere.pem"));
}

#[test]
fn strangers_are_out_of_call_and_rubbish_is_malformed() {
    let (socket, remote) = silent();
    let client = caller(options("127.0.0.1", Protocol::Udp, Sockets::Shared, 1), remote);
    let mut run = Run::start(setup("uac", client)).unwrap();
    let local = run.gauges().local.unwrap();
    let stranger = b"OPTIONS sip:a SIP/2.0\r\nVia: SIP/2.0/UDP b;branch=z9hG4bK1\r\nCall-ID: stranger\r\nCSeq: 1 OPTIONS\r\n\r\n";
    for bytes in [&stranger[..], b"rubbish", b"\r\n\r\n"] {
        socket.send_to(bytes, local).unwrap();
    }
    let progress = loop {
        if let Event::Progress(progress) = run.next(Duration::from_secs(2)) {
            break progress;
        }
    };
    assert_eq!(progress.total.counts[Count::OutOfCallMsgs], 1);
    assert_eq!(progress.total.counts[Count::Malformed], 1);
    assert!(progress.errors.iter().any(|error| error.contains("rubbish")), "{:?}", progress.errors);
}

/// `-round_robin`: in turn, whichever thread starts a call. At the end of a run each of the three threads may have taken a turn for a call beyond `-m`.
#[test]
fn calls_take_the_addresses_of_the_target_in_turn() {
    for (protocol, sockets) in [(Protocol::Udp, Sockets::Shared), (Protocol::Tcp, Sockets::PerCall)] {
        let start = || Run::start(setup("uas", options("127.0.0.1", protocol, Sockets::Shared, 1))).unwrap();
        let mut servers = [start(), start()];
        let addresses: Vec<SocketAddr> =
            servers.iter().map(|server| server.gauges().local.expect("it listens")).collect();
        let mut client = caller(options("127.0.0.1", protocol, sockets, 3), addresses[0]);
        client.network.in_turn = addresses;
        let called = end(&mut Run::start(setup("uac", client)).unwrap());
        assert_eq!(called.progress.total.counts[Count::SuccessfulCall], 200, "{protocol:?}");
        let answered = servers.each_mut().map(|server| {
            server.change(RunChange::SoftQuit);
            end(server).progress.total.counts[Count::SuccessfulCall]
        });
        assert!(answered.iter().all(|calls| calls.abs_diff(100) < 3), "{protocol:?}: {answered:?}");
        assert_eq!(answered.iter().sum::<u64>(), 200, "{protocol:?}");
    }
}

//! The ends of runs, and changes while they go on.

use super::outside::{peer, scenario};
use super::*;
use crate::engine::clock::Clock;

/// Calls that send one message, then stay for as long as `rest` says.
pub(super) fn lasting(rest: &str) -> Arc<lab_sip::scenario::Scenario> {
    scenario(&format!(
        r#"<scenario name="lasting"><send><![CDATA[
          OPTIONS sip:a SIP/2.0
          Via: SIP/2.0/UDP [local_ip]:[local_port];branch=[branch]
          From: <sip:m>;tag=1
          To: <sip:a>
          Call-ID: [call_id]
          CSeq: 1 OPTIONS
          Content-Length: 0
        ]]></send>{rest}</scenario>"#
    ))
}

fn started(rest: &str, change: impl FnOnce(&mut Options)) -> (Run, std::net::UdpSocket) {
    let (socket, remote) = peer();
    let mut client = caller(options("127.0.0.1", Protocol::Udp, Sockets::Shared, 2), remote);
    client.rate.total = Some(4);
    change(&mut client);
    let mut setup = setup("uac", client);
    setup.scenario = lasting(rest);
    (Run::start(setup).unwrap(), socket)
}

/// Progress until it is as wanted.
fn until(run: &mut Run, wanted: impl Fn(&crate::engine::Progress) -> bool) -> Box<crate::engine::Progress> {
    for _ in 0..30 {
        if let Event::Progress(progress) = run.next(Duration::from_secs(2))
            && wanted(&progress)
        {
            return progress;
        }
    }
    panic!("it never is: {run:?}");
}

#[test]
fn the_time_out_lets_open_calls_end() {
    let (mut run, _socket) = started(r#"<pause milliseconds="1200"/>"#, |options| {
        options.rate.total = None;
        options.rate.calls = 20.0;
        options.timers.global = Some(Duration::from_millis(400));
    });
    let outcome = end(&mut run);
    let counts = &outcome.progress.total.counts;
    assert_eq!((outcome.end, counts[Count::FailedCall]), (RunEnd::Timeout, 0));
    assert!((7..=10).contains(&counts[Count::SuccessfulCall]), "{counts:?}");
}

#[test]
fn a_soft_end_waits_for_calls_in_timewait_and_a_hard_one_does_not() {
    let rest = r#"<timewait milliseconds="1500"/>"#;
    let (mut run, socket) = started(rest, |_| {});
    super::outside::next(&socket);
    let clock = Clock::new();
    let began = clock.now();
    run.change(RunChange::SoftQuit);
    let outcome = end(&mut run);
    let took = clock.now().since(began);
    assert!(took >= Duration::from_millis(1_300), "{took:?}");
    assert_eq!((outcome.end, outcome.progress.total.counts[Count::FailedCall]), (RunEnd::Normal, 0));

    let (mut run, socket) = started(rest, |_| {});
    for _ in 0..4 {
        super::outside::next(&socket);
    }
    let began = clock.now();
    run.change(RunChange::HardQuit);
    let outcome = end(&mut run);
    let took = clock.now().since(began);
    assert!(took < Duration::from_millis(1_300), "{took:?}");
    let counts = &outcome.progress.total.counts;
    // Their scenario was through: they succeeded.
    assert_eq!(
        (outcome.end, counts[Count::SuccessfulCall], counts[Count::FailedCall]),
        (RunEnd::Internal, 4, 0)
    );
}

/// A million calls a second are more than a shard starts.
#[test]
fn arrivals_that_are_overdue_at_the_end_are_blocked_and_mark_the_run() {
    for timeout in [false, true] {
        let (mut run, _socket) = started("", |options| {
            options.rate.total = None;
            options.rate.calls = 1_000_000.0;
            let length = Some(Duration::from_millis(200));
            *(if timeout { &mut options.timers.global } else { &mut options.rate.duration }) = length;
        });
        let outcome = end(&mut run);
        let counts = &outcome.progress.total.counts;
        assert_eq!(counts[Count::Due], 200_000, "{counts:?}");
        assert_eq!(counts[Count::Due], counts[Count::OutgoingCall] + counts[Count::Blocked]);
        let limits = &outcome.limited_by_ringer;
        assert!(
            limits.iter().any(|reason| reason.contains("were not started before the time")),
            "{limits:?}"
        );
    }
}

/// A load that is carried has no calls left at its end, and after `q` none is due.
#[test]
fn a_load_that_is_carried_has_no_arrivals_left_at_its_end() {
    let (mut run, _socket) = started("", |options| {
        options.rate.total = None;
        options.rate.calls = 500.0;
        options.rate.duration = Some(Duration::from_millis(600));
    });
    let counts = end(&mut run).progress.total.counts;
    assert_eq!((counts[Count::Due], counts[Count::OutgoingCall], counts[Count::Blocked]), (300, 300, 0));
    let (mut run, _socket) = started("", |options| {
        options.rate.total = None;
        options.rate.duration = Some(Duration::from_secs(60));
    });
    until(&mut run, |_| true);
    run.change(RunChange::SoftQuit);
    assert_eq!(end(&mut run).progress.total.counts[Count::Blocked], 0);
}

/// `-m 0`.
#[test]
fn a_run_of_no_calls_is_over_at_once() {
    let (mut run, socket) = started("", |options| {
        options.rate.total = Some(0);
        options.timers.global = None;
    });
    let outcome = end(&mut run);
    assert_eq!((outcome.end, outcome.progress.total.counts[Count::OutgoingCall]), (RunEnd::Normal, 0));
    socket.set_nonblocking(true).unwrap();
    assert!(socket.recv(&mut [0; 64]).is_err(), "nothing is sent");
}

#[test]
fn users_come_and_go_while_calls_run() {
    let (mut run, _socket) = started(r#"<pause milliseconds="100"/>"#, |options| {
        options.rate.total = None;
        options.rate.users = Some(2);
    });
    let progress = until(&mut run, |_| true);
    assert_eq!((progress.gauges.peak_open_calls, progress.gauges.users), (2, 2));
    run.change(RunChange::Users(7));
    let progress = until(&mut run, |progress| progress.gauges.peak_open_calls == 7);
    assert_eq!(progress.gauges.users, 7);
    run.change(RunChange::Users(1));
    until(&mut run, |progress| progress.gauges.open_calls <= 1);
    run.change(RunChange::SoftQuit);
    let outcome = end(&mut run);
    assert_eq!((outcome.end, outcome.progress.total.counts[Count::FailedCall]), (RunEnd::Normal, 0));
}

#[test]
fn paused_users_begin_no_calls_until_the_pause_ends() {
    for rate in [None, Some(100.0)] {
        let (mut run, _socket) = started(r#"<pause milliseconds="10"/>"#, |options| {
            options.rate.total = None;
            options.rate.users = Some(2);
            if let Some(rate) = rate {
                (options.rate.calls, options.rate.is_given) = (rate, true);
            }
        });
        let begun = |progress: &crate::engine::Progress| progress.interval.counts[Count::OutgoingCall];
        until(&mut run, |progress| begun(progress) > 0);
        run.change(RunChange::Pause(true));
        let progress = until(&mut run, |progress| begun(progress) == 0);
        assert!(progress.gauges.paused && progress.gauges.open_calls == 0, "{:?}", progress.gauges);
        run.change(RunChange::Pause(false));
        until(&mut run, |progress| begun(progress) > 0);
        run.change(RunChange::SoftQuit);
        assert_eq!(end(&mut run).end, RunEnd::Normal);
    }
}

#[test]
fn counters_begin_anew_and_the_run_goes_on() {
    let (mut run, _socket) = started("", |options| {
        options.rate.total = None;
        options.rate.calls = 100.0;
    });
    let before = until(&mut run, |progress| progress.total.counts[Count::SuccessfulCall] >= 150);
    run.change(RunChange::ResetStats);
    let after = until(&mut run, |_| true);
    let (before, after) = (&before.total.counts, &after.total.counts);
    assert!(after[Count::SuccessfulCall] < before[Count::SuccessfulCall], "{after:?}");
    run.change(RunChange::SoftQuit);
    assert_eq!(end(&mut run).end, RunEnd::Normal);
}

#[test]
fn the_last_interval_is_as_long_as_it_was() {
    let (mut run, _socket) =
        started(r#"<pause milliseconds="1300"/>"#, |options| options.rate.calls = 1_000.0);
    let (mut spans, mut calls) = (Duration::ZERO, 0);
    let outcome = loop {
        match run.next(Duration::from_secs(2)) {
            Event::Progress(progress) => {
                spans += progress.span;
                calls += progress.interval.counts[Count::SuccessfulCall];
            }
            Event::Ended(outcome) => break outcome,
            Event::Nothing => {}
        }
    };
    let last = &outcome.progress;
    assert!((Duration::from_millis(200)..Duration::from_millis(900)).contains(&last.span), "{:?}", last.span);
    assert_eq!(spans + last.span, last.now.since(last.started));
    assert_eq!(calls + last.interval.counts[Count::SuccessfulCall], 4);
    assert_eq!(last.gauges.threads, 2);
}

/// Bytes that no parser should take, among them pieces of real messages.
const RUBBISH: [&[u8]; 7] = [
    b"rubbish",
    b"INVITE",
    b"INVITE sip:a SIP/2.0\r\nVia\r\n\r\n",
    b"SIP/2.0 banana\r\n\r\n",
    b"\xff\xfe\x00\x01",
    b"BYE sip:a SIP/2.0\r\nCSeq: 1 BYE\r\n\r\n",
    b"\0\0\0\0x",
];

#[test]
fn rubbish_is_counted_and_shown_and_harms_no_call() {
    let (socket, _) = peer();
    let mut server =
        Run::start(setup("uas", options("127.0.0.1", Protocol::Udp, Sockets::Shared, 1))).unwrap();
    let local = server.gauges().local.unwrap();
    let mut client =
        Run::start(setup("uac", caller(options("127.0.0.1", Protocol::Udp, Sockets::Shared, 1), local)))
            .unwrap();
    let caller = client.gauges().local.unwrap();
    for bytes in RUBBISH {
        socket.send_to(bytes, local).unwrap();
        socket.send_to(bytes, caller).unwrap();
    }
    let called = end(&mut client);
    assert_eq!(called.progress.total.counts[Count::SuccessfulCall], 200);
    let progress = until(&mut server, |progress| progress.total.counts[Count::Malformed] > 0);
    assert!(progress.errors.iter().any(|error| error.contains("rubbish")), "{:?}", progress.errors);
    server.change(RunChange::SoftQuit);
    let answered = end(&mut server);
    for outcome in [&called, &answered] {
        let counts = &outcome.progress.total.counts;
        assert_eq!(counts[Count::Malformed], RUBBISH.len() as u64, "{counts:?}");
        assert_eq!(counts[Count::FailedCall], 0);
    }
}

#[test]
fn rubbish_on_a_connection_is_counted_and_the_next_message_is_read() {
    use std::io::{Read, Write};

    let mut server =
        Run::start(setup("uas", options("127.0.0.1", Protocol::Tcp, Sockets::Shared, 1))).unwrap();
    let mut stream = std::net::TcpStream::connect(server.gauges().local.unwrap()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let invite = "INVITE sip:a SIP/2.0\r\nVia: SIP/2.0/TCP b;branch=z9hG4bK1\r\nFrom: <sip:b>;tag=1\r\nTo: <sip:a>\r\n\
                  Call-ID: 1\r\nCSeq: 1 INVITE\r\nContent-Length: 0\r\n\r\n";
    stream.write_all(format!("no SIP at all\r\nof any kind\r\n\r\n{invite}").as_bytes()).unwrap();
    let mut bytes = [0; 4_096];
    let count = stream.read(&mut bytes).unwrap();
    assert!(bytes[..count].starts_with(b"SIP/2.0 180"), "{}", String::from_utf8_lossy(&bytes[..count]));
    // Longer than any message: the connection is of no use, the run is.
    let mut endless = std::net::TcpStream::connect(server.gauges().local.unwrap()).unwrap();
    let _ = endless.write_all(&vec![b'x'; 2 << 20]);
    server.change(RunChange::HardQuit);
    let outcome = end(&mut server);
    assert_eq!(outcome.progress.total.counts[Count::Malformed], 1);
    assert_eq!(outcome.end, RunEnd::Internal);
}

//! Messages that belong to no call: arrivals beyond `-m`, messages of strangers, addresses taken from a file.

use std::net::UdpSocket;

use lab_sip::scenario::Scenario;

use super::*;

pub(super) fn scenario(text: &str) -> Arc<Scenario> {
    Arc::new(compile_text(text.as_bytes(), ScenarioSource::BuiltIn("test")).expect("it compiles").scenario)
}

fn udp(threads: usize) -> Options {
    options("127.0.0.1", Protocol::Udp, Sockets::Shared, threads)
}

/// A peer whose waits end.
pub(super) fn peer() -> (UdpSocket, SocketAddr) {
    let (socket, address) = silent();
    socket.set_read_timeout(Some(Duration::from_secs(10))).expect("a wait");
    (socket, address)
}

pub(super) fn next(socket: &UdpSocket) -> (String, SocketAddr) {
    let mut bytes = [0; 4_096];
    let (count, from) = socket.recv_from(&mut bytes).expect("a message");
    (String::from_utf8_lossy(&bytes[..count]).into_owned(), from)
}

fn stranger(method: &str, id: &str) -> String {
    format!(
        "{method} sip:a SIP/2.0\r\nVia: SIP/2.0/UDP b;branch=z9hG4bK{id}\r\nFrom: <sip:b>;tag=1\r\nTo: <sip:a>\r\n\
         Call-ID: {id}\r\nCSeq: 1 {method}\r\nContent-Length: 0\r\n\r\n"
    )
}

#[test]
fn beyond_the_last_call_nothing_is_due_or_blocked() {
    let server = Run::start(setup("uas", udp(1))).unwrap();
    let mut client = caller(udp(2), server.gauges().local.unwrap());
    client.rate.calls = 20_000.0;
    client.rate.total = Some(300);
    client.rate.limit = Some(100_000);
    let outcome = end(&mut Run::start(setup("uac", client)).unwrap());
    server.change(RunChange::HardQuit);
    let counts = &outcome.progress.total.counts;
    assert_eq!((counts[Count::OutgoingCall], counts[Count::Due], counts[Count::Blocked]), (300, 300, 0));
}

#[test]
fn auto_answer_reaches_strangers() {
    let (socket, remote) = peer();
    let mut client = caller(udp(1), remote);
    client.call.auto_answer = true;
    client.rate.calls = 0.0;
    let mut run = Run::start(setup("uac", client)).unwrap();
    let local = run.gauges().local.unwrap();
    socket.send_to(stranger("MESSAGE", "left").as_bytes(), local).unwrap();
    for method in ["OPTIONS", "INFO", "NOTIFY", "UPDATE"] {
        socket.send_to(stranger(method, method).as_bytes(), local).unwrap();
        let (answer, _) = next(&socket);
        assert!(answer.starts_with("SIP/2.0 200") && answer.contains(&format!("1 {method}")), "{answer}");
    }
    // The answers' wait for retransmissions does not hold up the end.
    run.change(RunChange::SoftQuit);
    let counts = end(&mut run).progress.total.counts;
    assert_eq!((counts[Count::AutoAnswered], counts[Count::OutOfCallMsgs]), (4, 1));
    assert_eq!((counts[Count::IncomingCall], counts[Count::SuccessfulCall]), (0, 0));
}

#[test]
fn a_server_answers_strangers_outside_calls_too() {
    let (socket, _) = peer();
    let mut server = udp(1);
    server.call.auto_answer = true;
    server.rate.total = Some(1);
    let mut run = Run::start(setup("uas", server)).unwrap();
    let local = run.gauges().local.unwrap();
    for id in ["1", "2", "3"] {
        socket.send_to(stranger("OPTIONS", id).as_bytes(), local).unwrap();
        let (answer, _) = next(&socket);
        assert!(answer.starts_with("SIP/2.0 200") && answer.contains("1 OPTIONS"), "{answer}");
    }
    for (method, codes) in [("INVITE", &["180", "200"][..]), ("ACK", &[]), ("BYE", &["200"])] {
        socket.send_to(stranger(method, "call").as_bytes(), local).unwrap();
        for code in codes {
            let (answer, _) = next(&socket);
            assert!(answer.starts_with(&format!("SIP/2.0 {code}")), "{answer}");
        }
    }
    let counts = end(&mut run).progress.total.counts;
    let calls = (counts[Count::IncomingCall], counts[Count::SuccessfulCall]);
    assert_eq!((counts[Count::AutoAnswered], calls), (3, (1, 1)), "{counts:?}");
}

#[test]
fn a_response_that_begins_no_scenario_begins_no_call() {
    let (socket, _) = peer();
    let mut server = udp(1);
    server.rate.total = Some(1);
    let mut setup = setup("uas", server);
    setup.scenario = scenario(r#"<scenario name="of responses"><recv response="200"/></scenario>"#);
    let mut run = Run::start(setup).unwrap();
    let local = run.gauges().local.unwrap();
    for code in ["404 Not Found", "200 OK"] {
        let response = stranger("OPTIONS", code).replace("OPTIONS sip:a SIP/2.0", &format!("SIP/2.0 {code}"));
        socket.send_to(response.as_bytes(), local).unwrap();
    }
    let counts = end(&mut run).progress.total.counts;
    let calls = (counts[Count::IncomingCall], counts[Count::SuccessfulCall]);
    assert_eq!((counts[Count::OutOfCallMsgs], calls), (1, (1, 1)), "{counts:?}");
}

#[test]
fn a_label_for_unexpected_messages_comes_before_the_auto_answer() {
    let (socket, _) = peer();
    let mut server = udp(1);
    server.call.auto_answer = true;
    server.rate.total = Some(1);
    let mut setup = setup("uas", server);
    setup.scenario = scenario(
        r#"<scenario name="label"><recv request="INVITE"/><label id="_unexp.main"/><recv request="OPTIONS"/>
        <send><![CDATA[
          SIP/2.0 202 Accepted
          [last_Via:]
          [last_From:]
          [last_To:]
          [last_Call-ID:]
          [last_CSeq:]
          Content-Length: 0
        ]]></send></scenario>"#,
    );
    let mut run = Run::start(setup).unwrap();
    socket.send_to(stranger("OPTIONS", "1").as_bytes(), run.gauges().local.unwrap()).unwrap();
    let (answer, _) = next(&socket);
    assert!(answer.starts_with("SIP/2.0 202"), "{answer}");
    assert_eq!(end(&mut run).progress.total.counts[Count::SuccessfulCall], 1);
}

/// RFC 3261 §18.2.2.
#[test]
fn a_response_goes_where_its_request_came_from() {
    let ((first, address), (second, _), (third, _)) = (peer(), peer(), peer());
    let start = |told: Option<SocketAddr>| {
        let mut server = udp(1);
        server.network.remote_sending = told;
        let run = Run::start(setup("uas", server)).unwrap();
        let local = run.gauges().local.unwrap();
        (run, local)
    };
    let (mut run, local) = start(None);
    first.send_to(stranger("INVITE", "call").as_bytes(), local).unwrap();
    assert!(next(&first).0.starts_with("SIP/2.0 180") && next(&first).0.starts_with("SIP/2.0 200"));
    second.send_to(stranger("ACK", "call").as_bytes(), local).unwrap();
    // The third repeats the request of the second.
    let bye = stranger("BYE", "call").replace("z9hG4bKcall", "z9hG4bKbye");
    for socket in [&second, &third] {
        socket.send_to(bye.as_bytes(), local).unwrap();
        let (answer, _) = next(socket);
        assert!(answer.starts_with("SIP/2.0 200") && answer.contains("1 BYE"), "{answer}");
    }
    run.change(RunChange::SoftQuit);
    assert_eq!(end(&mut run).progress.total.counts[Count::SuccessfulCall], 1);

    // `-rsa` says where everything goes.
    let (run, local) = start(Some(address));
    second.send_to(stranger("INVITE", "told").as_bytes(), local).unwrap();
    assert!(next(&first).0.starts_with("SIP/2.0 180") && next(&first).0.starts_with("SIP/2.0 200"));
    third.send_to(stranger("ACK", "told").as_bytes(), local).unwrap();
    third.send_to(stranger("BYE", "told").as_bytes(), local).unwrap();
    assert!(next(&first).0.contains("1 BYE"));
    run.change(RunChange::HardQuit);
}

#[test]
fn a_default_answer_goes_where_its_request_came_from() {
    let ((socket, remote), (other, _)) = (peer(), peer());
    let mut client = caller(udp(1), remote);
    client.rate.total = Some(1);
    let mut run = Run::start(setup("uac", client)).unwrap();
    let (invite, from) = next(&socket);
    let id = invite.lines().find_map(|line| line.strip_prefix("Call-ID: ")).unwrap();
    other.send_to(stranger("BYE", id).as_bytes(), from).unwrap();
    let (answer, _) = next(&other);
    assert!(answer.starts_with("SIP/2.0 200") && answer.contains("1 BYE"), "{answer}");
    assert_eq!(end(&mut run).progress.total.counts[Count::FailedUnexpectedMessage], 1);
}

#[test]
fn the_out_of_call_scenario_takes_every_request_and_keeps_its_own_books() {
    let (socket, remote) = peer();
    let mut client = caller(udp(2), remote);
    client.rate.calls = 0.0;
    client.scenario.out_of_call = Some(lab_sip::options::ScenarioName::BuiltIn("test".to_owned()));
    let mut setup = setup("uac", client);
    setup.out_of_call = Some(scenario(
        r#"<scenario name="strangers"><recv request="MESSAGE" start_rtd="w" counter="c"/>
        <send rtd="w"><![CDATA[
          SIP/2.0 202 Accepted
          [last_Via:]
          [last_From:]
          [last_To:]
          [last_Call-ID:]
          [last_CSeq:]
          Content-Length: 0
        ]]></send></scenario>"#,
    ));
    let mut run = Run::start(setup).unwrap();
    let local = run.gauges().local.unwrap();
    socket.send_to(stranger("MESSAGE", "1").as_bytes(), local).unwrap();
    assert!(next(&socket).0.starts_with("SIP/2.0 202"));
    // A response that belongs to no call is never answered.
    socket
        .send_to(
            stranger("MESSAGE", "2").replace("MESSAGE sip:a SIP/2.0", "SIP/2.0 200 OK").as_bytes(),
            local,
        )
        .unwrap();
    socket.send_to(stranger("MESSAGE", "3").as_bytes(), local).unwrap();
    assert!(next(&socket).0.contains("Call-ID: 3"));
    run.change(RunChange::SoftQuit);
    let total = end(&mut run).progress.total;
    assert_eq!(total.out_of_call_steps[0].messages, 2);
    assert_eq!((total.out_of_call.rtds[0].service.n, &total.out_of_call.counters[..]), (2, &[2][..]));
    assert_eq!((total.counts[Count::OutOfCallMsgs], total.counts[Count::SuccessfulCall]), (1, 0));
    assert!(total.rtds.iter().all(|timer| timer.service.n == 0));
}

#[test]
fn a_message_after_the_end_of_its_call_is_counted_for_a_while() {
    let (socket, remote) = peer();
    let mut client = caller(udp(1), remote);
    client.rate.total = None;
    client.rate.calls = 1.0;
    client.call.dead_call_wait = Duration::from_secs(20);
    let mut run = Run::start(setup("uac", client)).unwrap();
    let (invite, from) = next(&socket);
    let refusal = invite
        .replacen(invite.lines().next().unwrap(), "SIP/2.0 486 Busy", 1)
        .replace("\r\nTo: ", "\r\nTo: \"b\" ");
    let refusal = &refusal[..refusal.find("Content-Type").unwrap_or(refusal.len())];
    let refusal = format!("{refusal}Content-Length: 0\r\n\r\n");
    socket.send_to(refusal.as_bytes(), from).unwrap();
    let (ack, _) = next(&socket);
    assert!(ack.starts_with("ACK"), "{ack}");
    socket.send_to(refusal.as_bytes(), from).unwrap();
    let progress = loop {
        if let Event::Progress(progress) = run.next(Duration::from_secs(2)) {
            break progress;
        }
    };
    let counts = &progress.total.counts;
    assert_eq!((counts[Count::DeadCallMsgs], counts[Count::OutOfCallMsgs]), (1, 0), "{counts:?}");
    assert_eq!(counts[Count::FailedUnexpectedMessage], 1);
}

#[test]
fn a_call_leaves_from_the_address_of_its_line() {
    let (socket, remote) = peer();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("sources.csv");
    std::fs::write(&file, "SEQUENTIAL\nann;127.0.0.3\nbob;127.0.0.4\neve;127.0.0.3\n").unwrap();
    let mut client = caller(options("127.0.0.1", Protocol::Udp, Sockets::PerAddress, 1), remote);
    client.injection.files = vec![file.clone()];
    client.injection.ip_field = Some(1);
    client.rate.total = Some(3);
    let mut setup = setup("uac", client);
    setup.files = Arc::new(InjectionFiles::load(&[file], &[]).unwrap());
    setup.scenario = scenario(
        r#"<scenario name="sources"><send><![CDATA[
          OPTIONS sip:[field0]@[local_ip] SIP/2.0
          Via: SIP/2.0/UDP [local_ip]:[local_port];branch=[branch]
          From: <sip:[field0]@[field1]>;tag=1
          To: <sip:a>
          Call-ID: [call_id]
          CSeq: 1 OPTIONS
          Content-Length: 0
        ]]></send></scenario>"#,
    );
    let mut run = Run::start(setup).unwrap();
    // Sockets leave their messages in no order of theirs.
    let mut seen = Vec::new();
    for _ in 0..3 {
        let (request, from) = next(&socket);
        assert!(request.contains(&format!("UDP {from}")), "{request}");
        seen.push(request.lines().next().unwrap().to_owned());
        assert!(seen.last().unwrap().ends_with(&format!("@{} SIP/2.0", from.ip())), "{request}");
    }
    seen.sort();
    let wanted = [("ann", 3), ("bob", 4), ("eve", 3)];
    assert_eq!(seen, wanted.map(|(user, ip)| format!("OPTIONS sip:{user}@127.0.0.{ip} SIP/2.0")));
    assert_eq!(end(&mut run).progress.total.counts[Count::SuccessfulCall], 3);
}

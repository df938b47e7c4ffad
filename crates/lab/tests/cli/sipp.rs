//! Ends of runs, exit codes and defaults that scripts written for SIPp rely on.

use std::net::UdpSocket;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::program::{Place, SIPP_RINGER, address};

/// A call that sends one request and then waits for a message that never comes.
const WAITING: &str = "<scenario name=\"waiting\">\n<send><![CDATA[\nOPTIONS sip:a SIP/2.0\n\
    Via: SIP/2.0/UDP [local_ip]:[local_port];branch=[branch]\nFrom: <sip:b>;tag=1\nTo: <sip:a>\n\
    Call-ID: [call_id]\nCSeq: 1 OPTIONS\nContent-Length: 0\n\n]]></send>\n<recv response=\"200\"/>\n</scenario>\n";

/// A port that nothing answers at.
fn silent() -> (UdpSocket, u16) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let port = socket.local_addr().expect("bound").port();
    (socket, port)
}

#[test]
fn the_time_out_ends_a_run_after_all_its_calls_have_started() {
    let place = Place::new();
    let (_uas, server) = place.uas("");
    let own = address();
    let paused =
        place.run(&format!("sip -sn uac {server}:5060 -i {own} -m 1 -d 1h -timeout 1 -timeout_error"));
    assert_eq!(paused.code, Some(255), "{paused:?}");
    assert!(paused.err.contains("-timeout"), "the reason is told: {paused:?}");
    let (_socket, port) = silent();
    place.write("waiting.xml", WAITING);
    let waiting = format!("sip -sf waiting.xml 127.0.0.1:{port} -i {own} -m 1 -timeout 1");
    let error = place.run(&format!("{waiting} -timeout_error"));
    assert_eq!(error.code, Some(255), "{error:?}");
    // Without -timeout_error calls come to their own end, also those of -m.
    let ends = place.run(&format!("{waiting} -recv_timeout 2500"));
    assert_eq!(ends.code, Some(1), "{ends:?}");
}

#[test]
fn the_time_out_lets_the_last_call_end_well() {
    let place = Place::new();
    let (_uas, server) = place.uas("");
    let said = place.run(&format!("sip -sn uac {server}:5060 -i {} -m 1 -d 2000 -timeout 1", address()));
    assert_eq!(said.code, Some(0), "{said:?}");
}

#[test]
fn one_signal_ends_a_run_with_open_calls() {
    let place = Place::new();
    for signal in ["TERM", "INT"] {
        let (mut uas, server) = place.uas("");
        let mut uac = place.start(&format!("sip -sn uac {server}:5060 -i {} -r 50 -d 1h -l 20", address()));
        uac.heard(" 20 open");
        uac.signal(signal);
        let said = uac.end();
        assert_eq!(said.code, Some(0), "{signal}: no call has failed: {said:?}");
        assert!(said.out.contains("Statistics Screen") && said.out.contains("Test Terminated"), "{said:?}");
        // The other end was told: its calls came to their end.
        uas.heard(" 20 ok");
        uas.signal(signal);
        assert_eq!(uas.end().code, Some(0), "{signal}");
    }
}

#[test]
fn one_signal_ends_a_call_that_was_never_answered() {
    let place = Place::new();
    let (socket, port) = silent();
    place.write("waiting.xml", WAITING);
    let uac = place.start(&format!("sip -sf waiting.xml 127.0.0.1:{port} -i {} -m 1", address()));
    wait::uninterrupted(|| socket.recv(&mut [0; 2_048])).expect("the request");
    uac.signal("TERM");
    assert_eq!(uac.end().code, Some(0));
}

#[test]
fn the_control_socket_is_at_the_address_of_i() {
    let place = Place::new();
    for to in [address(), "127.0.0.1".to_owned()] {
        let own = if to == "127.0.0.1" { address() } else { to.clone() };
        // A control port of this process alone, below those that the system gives away.
        let port = 30_000 + (std::process::id() % 1_000) as u16;
        let mut uas = place.start(&format!("sip -sn uas -i {own} -p 5060 --threads 1 -cp {port}"));
        uas.heard("cps");
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        socket.send_to(b"Q", (to.as_str(), port)).expect("sent");
        let said = uas.end();
        assert_eq!(said.code, Some(97), "{to}: {said:?}");
    }
}

#[test]
fn printing_is_99_and_a_mistake_255() {
    let place = Place::new();
    for (words, code) in [
        ("-h", 99),
        ("-help", 99),
        ("--help", 99),
        ("-h stat", 99),
        ("-v", 99),
        ("-sd uac", 99),
        ("", 99),
        // Ringer's own; SIPp has no such flag.
        ("--version", 0),
        ("-zz", 255),
        ("-sn uac 127.0.0.1 -m", 255),
        ("-sn uac 127.0.0.1 -r fast", 255),
        ("-sd moon", 255),
    ] {
        let said = place.run_as(SIPP_RINGER, words);
        assert_eq!(said.code, Some(code), "{words}: {said:?}");
        let own = place.run(&format!("sip {words}"));
        assert_eq!(own.code, Some(code), "ringer sip {words}: {own:?}");
    }
}

/// SIPp's regression tests look for them.
#[test]
fn the_version_names_the_features() {
    let place = Place::new();
    let said = place.run("sip -v");
    assert!(said.out.starts_with("SIPp v3.7.3-TLS-PCAP-RTPSTREAM (ringer "), "{said:?}");
    assert!(place.run("sip --version").out.starts_with("ringer "));
}

#[test]
fn a_run_of_no_calls_ends_well() {
    let place = Place::new();
    let (_socket, port) = silent();
    let said = place.run(&format!("sip -sn uac 127.0.0.1:{port} -i {} -m 0", address()));
    assert_eq!(said.code, Some(0), "{said:?}");
}

/// Scripts look for these sentences.
#[test]
fn the_error_log_has_the_sentences_of_sipp() {
    let place = Place::new();
    place.write("waiting.xml", WAITING);
    let errors = |words: &str| {
        let _ = std::fs::remove_file(place.path().join("errors.txt"));
        let words = words.replace("{own}", &address());
        let said = place.run(&format!("sip {words} -m 1 -timeout 20 -trace_err -error_file errors.txt"));
        assert_eq!(said.code, Some(1), "{words}: {said:?}");
        std::fs::read_to_string(place.path().join("errors.txt")).expect(&words)
    };
    let (_socket, port) = silent();
    let text = errors(&format!("-sf waiting.xml 127.0.0.1:{port} -i {{own}} -recv_timeout 300 -cid_str a%u"));
    let sentence = "Call-Id: a1, receive timeout on message waiting:1 without label to jump to (ontimeout \
                    attribute): aborting call (call 1, step 1, line ";
    assert!(text.contains(sentence), "{text}");
    let text = errors(&format!("-sn uac 127.0.0.1:{port} -i {{own}} -max_retrans 0 -cid_str b%u"));
    assert!(text.contains("Aborting call on UDP retransmission timeout for Call-ID 'b1'"), "{text}");

    let (socket, port) = silent();
    let bye = std::thread::Builder::new().spawn(move || {
        let mut bytes = [0; 2_048];
        let (count, from) = wait::uninterrupted(|| socket.recv_from(&mut bytes)).expect("the request");
        let request = String::from_utf8_lossy(&bytes[..count]).into_owned();
        socket.send_to(request.replace("OPTIONS", "BYE").as_bytes(), from).expect("sent");
    });
    let bye = bye.expect("a thread");
    let text = errors(&format!("-sf waiting.xml 127.0.0.1:{port} -i {{own}} -cid_str c%u"));
    assert!(text.contains("Aborting call on an unexpected BYE for call: c1"), "{text}");
    bye.join().expect("it was asked");

    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    let close = std::thread::Builder::new().spawn(move || {
        let (mut stream, _) = wait::uninterrupted(|| listener.accept()).expect("a connection");
        std::io::Read::read(&mut stream, &mut [0; 64]).expect("a request");
    });
    let close = close.expect("a thread");
    let text = errors(&format!("-sf waiting.xml 127.0.0.1:{port} -i {{own}} -t t1"));
    assert!(text.contains("The remote peer closed the TCP connection, failing 1 call"), "{text}");
    close.join().expect("it was asked");
}

#[test]
fn flags_that_contradict_the_files_end_the_run_before_it_starts() {
    let place = Place::new();
    place.write("users.csv", "USERS\na;b\n");
    for (words, code, wanted) in [
        ("-set moon 1", 1, "Can not set the global variable moon, because it does not exist"),
        ("-users 2 -inf users.csv", 255, "users.csv has only 1 line, yet -users asks for 2"),
        ("-t ui", 255, "-t ui needs -inf"),
    ] {
        let (_socket, port) = silent();
        let said = place.run(&format!("sip -sn uac 127.0.0.1:{port} -i {} -m 1 {words}", address()));
        assert_eq!(said.code, Some(code), "{words}: {said:?}");
        assert!(said.err.contains(wanted), "{words}: {said:?}");
    }
    let checked = place.run("sip --check -sn uac -set moon 1");
    assert_eq!(checked.code, Some(255), "{checked:?}");
    assert!(checked.err.contains("global variable moon"), "{checked:?}");
}

#[test]
fn a_scenario_that_is_never_closed_runs_with_a_warning() {
    let place = Place::new();
    let (_uas, server) = place.uas("");
    let closed = place.run("sip -sd uac").out;
    let open = closed.replace("</scenario>", "");
    assert_ne!(open, closed);
    place.write("open.xml", &open);
    let said = place.run(&format!("sip -sf open.xml {server}:5060 -i {} -m 1", address()));
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(
        said.err.contains("warning: open.xml:") && said.err.contains("<scenario> is never closed"),
        "{said:?}"
    );
    let checked = place.run("sip --check -sf open.xml");
    assert_eq!(checked.code, Some(0), "{checked:?}");
}

#[test]
fn response_times_are_in_a_file_named_as_sipps() {
    let place = Place::new();
    let (_uas, server) = place.uas("");
    std::fs::create_dir(place.path().join("folder")).expect("made");
    place.write("folder/one.two.xml", &place.run("sip -sd uac").out);
    let uac = place.start(&format!(
        "sip -sf folder/one.two.xml {server}:5060 -i {} -m 1 -trace_rtt -stf other.csv",
        address()
    ));
    let name = format!("one.two_{}_rtt.csv", uac.id());
    assert_eq!(uac.end().code, Some(0));
    let text = std::fs::read_to_string(place.path().join(&name)).expect(&name);
    assert_eq!(text.lines().next(), Some("Date_ms;response_time_ms;rtd_no"));
    assert_eq!(text.lines().count(), 2, "{text}");
}

/// A name server for one look-up: it has no NAPTR records, and an SRV record for each of these hosts at port 5060.
fn name_server(targets: Vec<String>) -> (JoinHandle<()>, u16) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    socket.set_read_timeout(Some(Duration::from_secs(60))).expect("a positive timeout");
    let port = socket.local_addr().expect("bound").port();
    let serve = move || {
        for has_records in [false, true] {
            let mut answer = vec![0; 512];
            let (length, from) = wait::uninterrupted(|| socket.recv_from(&mut answer)).expect("a question");
            answer.truncate(length);
            (answer[2], answer[3]) = (0x81, 0x80);
            for target in targets.iter().filter(|_| has_records) {
                answer[7] += 1;
                // RFC 2782: priority 1, weight 1, the port, and the target as labels.
                let labels: Vec<u8> = target
                    .split('.')
                    .flat_map(|label| {
                        [&[u8::try_from(label.len()).expect("short")], label.as_bytes()].concat()
                    })
                    .chain([0])
                    .collect();
                answer.extend([0xc0, 12, 0, 33, 0, 1, 0, 0, 0, 60, 0]);
                answer.push(u8::try_from(6 + labels.len()).expect("short"));
                answer.extend([0, 1, 0, 1, 0x13, 0xc4]);
                answer.extend(labels);
            }
            socket.send_to(&answer, from).expect("sent");
        }
    };
    (std::thread::Builder::new().spawn(serve).expect("a thread"), port)
}

/// RFC 3263: the servers of a name are found by its SRV records, and `-round_robin` calls them in turn.
#[test]
fn calls_go_to_the_servers_that_dns_names_in_turn() {
    let place = Place::new();
    let servers = [place.uas(""), place.uas("")];
    let (dns, port) = name_server(servers.iter().map(|(_, address)| address.clone()).collect());
    let own = address();
    let said =
        place.run(&format!("sip -sn uac sip.test --dns 127.0.0.1:{port} -round_robin -i {own} -m 10 -r 50"));
    assert_eq!(said.code, Some(0), "{said:?}");
    dns.join().expect("two questions came");
    for (mut uas, address) in servers {
        uas.heard(" 5 ok");
        uas.signal("INT");
        assert_eq!(uas.end().code, Some(0), "{address}");
    }
}

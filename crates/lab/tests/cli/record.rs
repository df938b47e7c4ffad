//! `ringer record`: captures of calls, and their two scenarios played against each other.

use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::program::{Place, address};

/// A datagram of a capture: milliseconds, from, to, payload.
type Datagram = (u64, SocketAddr, SocketAddr, Vec<u8>);

/// A classic capture of raw IP.
fn pcap(datagrams: &[Datagram]) -> Vec<u8> {
    let mut file =
        [&0xa1b2_c3d4_u32.to_le_bytes()[..], &[2, 0, 4, 0], &[0; 8], &65_535_u32.to_le_bytes()].concat();
    file.extend(101_u32.to_le_bytes());
    for (at, source, destination, payload) in datagrams {
        let (SocketAddr::V4(source), SocketAddr::V4(destination)) = (source, destination) else {
            panic!("IPv4")
        };
        let length = (28 + payload.len()) as u32;
        file.extend(((at / 1_000) as u32).to_le_bytes());
        file.extend(((at % 1_000 * 1_000) as u32).to_le_bytes());
        file.extend([length.to_le_bytes(), length.to_le_bytes()].concat());
        file.extend([0x45, 0]);
        file.extend((length as u16).to_be_bytes());
        file.extend([0, 0, 0, 0, 64, 17, 0, 0]);
        file.extend(source.ip().octets());
        file.extend(destination.ip().octets());
        file.extend([source.port().to_be_bytes(), destination.port().to_be_bytes()].concat());
        file.extend(((length - 20) as u16).to_be_bytes());
        file.extend([0, 0]);
        file.extend(payload);
    }
    file
}

/// Passes datagrams between a caller and a server until it gets an empty one, and keeps them as a capture would.
struct Relay {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<Datagram>>>,
    thread: std::thread::JoinHandle<()>,
}

impl Relay {
    fn start(server: SocketAddr) -> Relay {
        let socket = UdpSocket::bind((address(), 5060)).expect("a port");
        let own = socket.local_addr().expect("bound");
        let seen: Arc<Mutex<Vec<Datagram>>> = Arc::default();
        let kept = Arc::clone(&seen);
        let passes = move || {
            let mut buffer = [0; 65_536];
            let mut caller = None;
            while let Ok((length, from)) = socket.recv_from(&mut buffer) {
                if length == 0 {
                    return;
                }
                let to = if from == server { caller } else { Some(server) };
                caller = if from == server { caller } else { Some(from) };
                let Some(to) = to else { continue };
                let mut seen = kept.lock().expect("no thread panicked");
                // Times are of no matter here: a datagram each 20 ms.
                let at = 20 * seen.len() as u64;
                // The caller speaks to the relay, and the recording is of the server.
                let text = String::from_utf8_lossy(&buffer[..length]);
                let text = text.replace(&own.to_string(), &server.to_string());
                let (from_end, to_end) = if from == server { (server, to) } else { (from, server) };
                seen.push((at, from_end, to_end, text.into_bytes()));
                socket.send_to(&buffer[..length], to).expect("sent");
            }
        };
        let thread = std::thread::Builder::new().name("relay".to_owned()).spawn(passes).expect("a thread");
        Relay { address: own, seen, thread }
    }

    fn end(self) -> Vec<Datagram> {
        let socket = UdpSocket::bind((address(), 0)).expect("a port");
        socket.send_to(&[], self.address).expect("sent");
        self.thread.join().expect("it ended well");
        std::mem::take(&mut self.seen.lock().expect("no thread panicked"))
    }
}

/// Plays `call.caller.xml` and `call.callee.xml` of this place against each other, three calls.
fn plays(place: &Place) {
    let server = address();
    let mut callee =
        place.start(&format!("sip -sf call.callee.xml -i {server} -p 5060 --threads 1 -m 3 --measure"));
    callee.heard("cps");
    let caller = place.run(&format!(
        "sip -sf call.caller.xml {server}:5060 -i {} -m 3 -r 10 -au me -ap secret -trace_err",
        address()
    ));
    assert_eq!(caller.code, Some(0), "{caller:?}\n{}", place.read("call.caller.xml"));
    assert!(caller.err.contains("calls: 3 ok of 3 (100.00 %), 0 failed"), "{caller:?}");
    let callee = callee.end();
    assert_eq!(callee.code, Some(0), "{callee:?}\n{}", place.read("call.callee.xml"));
    assert!(callee.err.contains("calls: 3 ok of 3 (100.00 %), 0 failed"), "{callee:?}");
}

/// Ten packets of the caller behind its ACK, between the ports of both SDPs.
fn add_media(seen: &mut Vec<Datagram>, server: SocketAddr) {
    let port = |from_server: bool| -> u16 {
        let of_end = seen.iter().filter(|(_, from, ..)| (*from == server) == from_server);
        let texts = of_end.map(|(.., payload)| String::from_utf8_lossy(payload).into_owned());
        let mut lines = texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>());
        let line = lines.find(|line| line.starts_with("m=audio"));
        line.and_then(|line| line.split(' ').nth(1)?.parse().ok()).expect("an m= line")
    };
    let (to, from) = (SocketAddr::new(server.ip(), port(true)), port(false));
    let caller = seen.iter().map(|(_, from, ..)| *from).find(|from| *from != server).expect("a caller");
    let acknowledged = seen.iter().position(|(.., text)| text.starts_with(b"ACK ")).expect("an ACK");
    let begin = seen[acknowledged].0;
    for number in 0..10_u16 {
        let mut packet = vec![0x80, 0];
        packet.extend(number.to_be_bytes());
        packet.extend([(u32::from(number) * 160).to_be_bytes(), [0, 0, 0, 7]].concat());
        packet.extend([0xff; 160]);
        let at = begin + 1 + u64::from(number);
        seen.insert(
            acknowledged + 1 + usize::from(number),
            (at, SocketAddr::new(caller.ip(), from), to, packet),
        );
    }
}

#[test]
fn a_call_of_ringers_own_is_recorded_and_played_by_both_its_scenarios() {
    let place = Place::new();
    let (_uas, server) = place.uas("");
    let server: SocketAddr = format!("{server}:5060").parse().expect("an address");
    let relay = Relay::start(server);
    let said = place.run(&format!("sip -sn uac {} -i {} -m 1 -d 100", relay.address, address()));
    assert_eq!(said.code, Some(0), "{said:?}");
    let mut seen = relay.end();
    add_media(&mut seen, server);
    // A retransmission, as a capture has them.
    let again = seen[0].clone();
    seen.insert(1, again);
    std::fs::write(place.path().join("call.pcap"), pcap(&seen)).expect("written");

    let listed = place.run("record call.pcap --list");
    assert_eq!(listed.code, Some(0), "{listed:?}");
    assert!(listed.out.contains("INVITE") && listed.out.contains("200"), "{listed:?}");
    let said = place.run("record call.pcap");
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(said.out.lines().filter(|line| !line.starts_with("note: ")).count(), 3, "{said:?}");
    assert!(said.out.contains("note: left out: ") && said.out.contains(" retransmission"), "{said:?}");
    let caller = place.read("call.caller.xml");
    for wanted in [
        "INVITE sip:service@[remote_ip]:[remote_port] SIP/2.0",
        "branch=[branch]",
        "Call-ID: [call_id]",
        "CSeq: [cseq] BYE",
        "c=IN IP[media_ip_type] [media_ip]",
        "m=audio [auto_media_port] RTP/AVP 0",
        "<exec play_pcap_audio=\"call.caller.audio.pcap\"/>",
        "<recv response=\"180\" optional=\"true\"",
        "[peer_tag_param]",
    ] {
        assert!(caller.contains(wanted), "{wanted} is missing: {caller}");
    }
    let (_, below) = caller.split_once("<scenario").expect("a scenario");
    assert!(!below.contains("127."), "no address of the recording is left but in the comment: {caller}");
    assert!(place.read("call.callee.xml").contains("<rtp_echo value=\"1\"/>"), "it sends back what it hears");
    plays(&place);
}

/// Texts of a call between two addresses; `>`: from the caller. `CALLER` and `CALLEE` stand for the addresses.
fn call(texts: &[(&str, &str)]) -> Vec<Datagram> {
    let (caller, callee) = ("10.1.1.1:5062".parse().expect("right"), "10.1.1.2:5060".parse().expect("right"));
    let datagram = |(index, (direction, text)): (usize, &(&str, &str))| {
        let mut lines: Vec<&str> = text.lines().map(str::trim).collect();
        lines.extend(["Call-ID: one@10.1.1.1", "Content-Length: 0", "", ""]);
        let text = lines.join("\r\n").replace("CALLER", "10.1.1.1:5062").replace("CALLEE", "10.1.1.2:5060");
        let (from, to) = if *direction == ">" { (caller, callee) } else { (callee, caller) };
        (60 * index as u64, from, to, text.into_bytes())
    };
    texts.iter().enumerate().map(datagram).collect()
}

const VIA: &str = "Via: SIP/2.0/UDP CALLER;branch=z9hG4bK1;rport";

fn recorded(texts: &[(&str, &str)]) -> Place {
    let place = Place::new();
    std::fs::write(place.path().join("call.pcap"), pcap(&call(texts))).expect("written");
    let said = place.run("record call.pcap");
    assert_eq!(said.code, Some(0), "{said:?}");
    place
}

#[test]
fn a_call_with_a_challenge_that_the_callee_ends_is_played() {
    let ends = "From: <sip:a@CALLER>;tag=1\nTo: <sip:b@CALLEE>";
    let invite = |branch: u8, cseq: u8, more: &str| {
        format!(
            "INVITE sip:b@CALLEE SIP/2.0\nVia: SIP/2.0/UDP CALLER;branch=z9hG4bK{branch}\n{ends}\nCSeq: {cseq} INVITE\n\
             Contact: <sip:a@CALLER;transport=udp>\n{more}Max-Forwards: 70"
        )
    };
    let answer = |line: &str, branch: u8, cseq: u8, more: &str| {
        format!(
            "SIP/2.0 {line}\nVia: SIP/2.0/UDP CALLER;branch=z9hG4bK{branch}\n{ends};tag=2\nCSeq: {cseq} INVITE\n{more}Server: x"
        )
    };
    let credentials = "Authorization: Digest username=\"a\", realm=\"r\", nonce=\"n\", uri=\"sip:b\", response=\"0123456789abcdef\"\n";
    let challenge = "WWW-Authenticate: Digest realm=\"r\", nonce=\"n\"\n";
    let contact = "Contact: <sip:b@CALLEE>\nRecord-Route: <sip:CALLEE;lr>\n";
    let texts = [
        (">", invite(1, 7, "")),
        ("<", answer("401 Unauthorized", 1, 7, challenge)),
        (
            ">",
            format!(
                "ACK sip:b@CALLEE SIP/2.0\nVia: SIP/2.0/UDP CALLER;branch=z9hG4bK1\n{ends};tag=2\nCSeq: 7 ACK"
            ),
        ),
        (">", invite(2, 8, credentials)),
        ("<", answer("100 Trying", 2, 8, "")),
        ("<", answer("180 Ringing", 2, 8, contact)),
        ("<", answer("200 OK", 2, 8, contact)),
        (
            ">",
            format!(
                "ACK sip:b@CALLEE SIP/2.0\nVia: SIP/2.0/UDP CALLER;branch=z9hG4bK3\nRoute: <sip:CALLEE;lr>\n{ends};tag=2\nCSeq: 8 ACK"
            ),
        ),
        (
            "<",
            "BYE sip:a@CALLER SIP/2.0\nVia: SIP/2.0/UDP CALLEE;branch=z9hG4bK4\nFrom: <sip:b@CALLEE>;tag=2\n\
             To: <sip:a@CALLER>;tag=1\nCSeq: 1 BYE"
                .to_owned(),
        ),
        (
            ">",
            "SIP/2.0 200 OK\nVia: SIP/2.0/UDP CALLEE;branch=z9hG4bK4\nFrom: <sip:b@CALLEE>;tag=2\n\
             To: <sip:a@CALLER>;tag=1\nCSeq: 1 BYE"
                .to_owned(),
        ),
    ];
    let texts: Vec<(&str, &str)> =
        texts.iter().map(|(direction, text)| (*direction, text.as_str())).collect();
    let place = recorded(&texts);
    let (caller, callee) = (place.read("call.caller.xml"), place.read("call.callee.xml"));
    assert!(caller.contains("<recv response=\"401\" auth=\"true\"/>"), "{caller}");
    assert!(caller.contains("    [authentication]\n") && !caller.contains("0123456789abcdef"), "{caller}");
    assert!(caller.contains("ACK [next_url] SIP/2.0") && caller.contains("    [routes]\n"), "{caller}");
    assert!(callee.contains("BYE [next_url] SIP/2.0") && callee.contains("To: [$caller]"), "{callee}");
    plays(&place);
}

#[test]
fn a_call_that_is_cancelled_is_played() {
    let ends = "From: <sip:a@CALLER>;tag=1\nTo: <sip:b@CALLEE>";
    let sent = |line: &str, cseq: &str| format!("{line}\n{VIA}\n{ends}\nCSeq: {cseq}\nMax-Forwards: 70");
    let answer = |line: &str, cseq: &str| format!("SIP/2.0 {line}\n{VIA}\n{ends};tag=2\nCSeq: {cseq}");
    let texts = [
        (">", sent("INVITE sip:b@CALLEE SIP/2.0", "1 INVITE\nContact: <sip:a@CALLER>")),
        ("<", answer("180 Ringing", "1 INVITE")),
        (">", sent("CANCEL sip:b@CALLEE SIP/2.0", "1 CANCEL")),
        ("<", answer("200 OK", "1 CANCEL")),
        ("<", answer("487 Request Terminated", "1 INVITE")),
        (">", format!("ACK sip:b@CALLEE SIP/2.0\n{VIA}\n{ends};tag=2\nCSeq: 1 ACK")),
    ];
    let texts: Vec<(&str, &str)> =
        texts.iter().map(|(direction, text)| (*direction, text.as_str())).collect();
    let place = recorded(&texts);
    let callee = place.read("call.callee.xml");
    assert!(callee.contains("<recv request=\"INVITE\" rrs=\"true\" start_txn=\"t0\"/>"), "{callee}");
    assert!(callee.contains("response_txn=\"t0\""), "the 487 is the INVITE's: {callee}");
    plays(&place);
}

#[test]
fn calls_are_chosen_by_number_or_call_id_and_damage_is_told() {
    let place = Place::new();
    let first = call(&[(
        ">",
        &format!("OPTIONS sip:CALLEE SIP/2.0\n{VIA}\nFrom: <sip:a@h>;tag=1\nTo: <sip:b@h>\nCSeq: 1 OPTIONS"),
    )]);
    let mut both = first.clone();
    let text = String::from_utf8(first[0].3.clone()).expect("text").replace("one@", "two@");
    both.push((9_000, first[0].1, first[0].2, text.into_bytes()));
    let file = pcap(&both);
    std::fs::write(place.path().join("two.pcap"), &file).expect("written");
    let said = place.run("record two.pcap");
    assert_eq!(said.code, Some(255), "{said:?}");
    assert!(
        said.err.contains("two.pcap has 2 calls: choose one with --call N")
            && said.err.contains("two@10.1.1.1"),
        "{said:?}"
    );
    for (words, file) in [
        ("--call 2 --name b", "b.caller.xml"),
        ("--call-id one@10.1.1.1 --name c", "c.callee.xml"),
        ("--all", "two-2.caller.xml"),
        ("--call 2 --out new/folder", "new/folder/two.caller.xml"),
    ] {
        let said = place.run(&format!("record two.pcap {words}"));
        assert!(said.code == Some(0) && said.out.contains(file), "{said:?}");
        assert!(place.path().join(file).is_file(), "{file}");
    }
    for words in ["--call 3", "--call-id three"] {
        assert_eq!(place.run(&format!("record two.pcap {words}")).code, Some(255), "{words}");
    }
    std::fs::write(place.path().join("cut.pcap"), &file[..file.len() - 5]).expect("written");
    let said = place.run("record cut.pcap");
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(
        said.out.contains("note: the file is damaged at byte ") && said.out.contains("cut.caller.xml"),
        "{said:?}"
    );
}

/// The time that the recording waited is the time that the scenario waits.
#[test]
fn pauses_are_kept_unless_they_are_not_wanted() {
    let ends = "From: <sip:a@h>;tag=1\nTo: <sip:b@h>";
    let mut datagrams = call(&[
        (">", &format!("OPTIONS sip:b@CALLEE SIP/2.0\n{VIA}\n{ends}\nCSeq: 1 OPTIONS")),
        ("<", &format!("SIP/2.0 200 OK\n{VIA}\n{ends};tag=2\nCSeq: 1 OPTIONS")),
        (
            ">",
            &format!("OPTIONS sip:b@CALLEE SIP/2.0\n{}\n{ends}\nCSeq: 2 OPTIONS", VIA.replace("bK1", "bK2")),
        ),
        ("<", &format!("SIP/2.0 200 OK\n{}\n{ends};tag=2\nCSeq: 2 OPTIONS", VIA.replace("bK1", "bK2"))),
    ]);
    let waited = Duration::from_millis(1_700);
    datagrams[2].0 += waited.as_millis() as u64;
    datagrams[3].0 += waited.as_millis() as u64;
    let place = Place::new();
    std::fs::write(place.path().join("call.pcap"), pcap(&datagrams)).expect("written");
    assert_eq!(place.run("record call.pcap").code, Some(0));
    assert!(
        place.read("call.caller.xml").contains("<pause milliseconds=\"1760\"/>"),
        "{}",
        place.read("call.caller.xml")
    );
    assert_eq!(place.run("record call.pcap --no-pauses").code, Some(0));
    assert!(!place.read("call.caller.xml").contains("<pause"));
    plays(&place);
}

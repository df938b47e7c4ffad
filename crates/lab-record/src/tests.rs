//! Captures to scenarios: whatever is captured, both scenarios compile.

use std::time::Duration;

use lab_sip::scenario::compile_text;
use lab_sip::scenario::model::ScenarioSource;
use media::pcap::Writer;
use proptest::prelude::*;

use super::*;

/// A capture of datagrams between the ports 5060 and 5062 of one address.
fn capture(texts: &[(bool, &str)]) -> Vec<u8> {
    let mut writer = Writer::new();
    for (index, (is_from_caller, text)) in texts.iter().enumerate() {
        let (source, destination) = if *is_from_caller { (5062, 5060) } else { (5060, 5062) };
        let text = text.replace('\n', "\r\n");
        writer.udp(Duration::from_millis(20 * index as u64), source, destination, text.as_bytes());
    }
    writer.finish()
}

fn options() -> RecordOptions {
    RecordOptions { name: "t".to_owned(), pauses: true, media: true }
}

/// Both scenarios of the only call, as texts.
fn both(file: &[u8]) -> [String; 2] {
    let calls = recorded_calls(&read_capture(file).expect("a capture"));
    assert_eq!(calls.len(), 1);
    let recorded = scenarios(&calls[0], file, &options());
    [recorded.caller, recorded.callee].map(|file| String::from_utf8(file.bytes).expect("text"))
}

fn mistakes(text: &str) -> Vec<String> {
    match compile_text(text.as_bytes(), ScenarioSource::File("t.xml".into())) {
        Ok(compiled) => compiled.warnings.iter().map(ToString::to_string).collect(),
        Err(errors) => errors.iter().map(ToString::to_string).collect(),
    }
}

const HEAD: &str =
    "Via: SIP/2.0/UDP 127.0.0.1:5062;branch=z9hG4bK1\nFrom: <sip:a@h>;tag=1\nCall-ID: 7\nMax-Forwards: 70\n";

fn response(line: &str, cseq: &str, more: &str) -> String {
    format!("SIP/2.0 {line}\n{HEAD}To: <sip:b@h>;tag=2\nCSeq: {cseq}\n{more}Content-Length: 0\n\n")
}

#[test]
fn acknowledged_provisional_responses_keep_their_transactions_apart() {
    let sdp = "v=0\no=- 1 1 IN IP4 127.0.0.1\ns=-\nc=IN IP4 127.0.0.1\nt=0 0\nm=audio 4000 RTP/AVP 0\n";
    let invite = format!(
        "INVITE sip:b@127.0.0.1:5060 SIP/2.0\n{HEAD}To: <sip:b@h>\nCSeq: 1 INVITE\nContact: <sip:a@127.0.0.1:5062>\n\
         Content-Type: application/sdp\nContent-Length: {}\n\n{sdp}",
        sdp.replace('\n', "\r\n").len()
    );
    let contact = "Contact: <sip:b@127.0.0.1:5060>\n";
    let reliable =
        response("183 Session Progress", "1 INVITE", &format!("Require: 100rel\nRSeq: 9\n{contact}"));
    let prack = format!(
        "PRACK sip:b@h SIP/2.0\n{}To: <sip:b@h>;tag=2\nCSeq: 2 PRACK\nRAck: 9 1 INVITE\nContent-Length: 0\n\n",
        HEAD.replace("bK1", "bK2")
    );
    let ack = format!(
        "ACK sip:b@h SIP/2.0\n{}To: <sip:b@h>;tag=2\nCSeq: 1 ACK\nContent-Length: 0\n\n",
        HEAD.replace("bK1", "bK3")
    );
    let texts = [
        (true, invite.as_str()),
        (false, &reliable),
        (true, &prack),
        (false, &response("200 OK", "2 PRACK", "")),
        (false, &response("200 OK", "1 INVITE", contact)),
        (true, &ack),
    ];
    let [caller, callee] = both(&capture(&texts));
    assert_eq!((mistakes(&caller), mistakes(&callee)), (Vec::new(), Vec::new()), "{caller}\n{callee}");
    for wanted in [
        "RAck: [last_RSeq.value] [last_CSeq.value]",
        "PRACK [next_url] SIP/2.0",
        "CSeq: [cseq-1] ACK",
        "<recv response=\"183\" rrs=\"true\"/>",
        "m=audio [auto_media_port] RTP/AVP 0",
    ] {
        assert!(caller.contains(wanted), "{wanted}: {caller}");
    }
    assert!(callee.contains("<recv request=\"INVITE\" rrs=\"true\" start_txn=\"t0\"/>"), "{callee}");
    assert_eq!(callee.matches("response_txn=\"t0\"").count(), 1, "the answer behind the PRACK: {callee}");
}

#[test]
fn a_message_with_a_body_of_any_text_is_sent_as_it_was() {
    let body = "[call_id] ]]> \\x41\n  é \n";
    let length = body.replace('\n', "\r\n").len();
    let message = format!(
        "MESSAGE sip:b@h SIP/2.0\n{HEAD}To: <sip:b@h>\nCSeq: 1 MESSAGE\nContent-Type: text/plain\nContent-Length: {length}\n\n{body}"
    );
    let [caller, callee] =
        both(&capture(&[(true, &message), (false, &response("202 Accepted", "1 MESSAGE", ""))]));
    assert_eq!((mistakes(&caller), mistakes(&callee)), (Vec::new(), Vec::new()), "{caller}");
    assert!(caller.contains("\\x5Bcall_id] ]]\\x3E \\x5Cx41\n    \\x20\\x20é\\x20\n"), "{caller}");
}

#[test]
fn media_is_extracted_and_the_silent_end_sends_it_back() {
    let sdp = |port: u16| format!("v=0\nc=IN IP4 127.0.0.1\nm=audio {port} RTP/AVP 0\n");
    let body = |port: u16| {
        let sdp = sdp(port);
        format!("Content-Type: application/sdp\nContent-Length: {}\n\n{sdp}", sdp.replace('\n', "\r\n").len())
    };
    let invite = format!("INVITE sip:b@h SIP/2.0\n{HEAD}To: <sip:b@h>\nCSeq: 1 INVITE\n{}", body(4_000));
    let answer = format!("SIP/2.0 200 OK\n{HEAD}To: <sip:b@h>;tag=2\nCSeq: 1 INVITE\n{}", body(4_100));
    let mut writer = Writer::new();
    let datagrams = [(5_062, 5_060, &invite), (5_060, 5_062, &answer)];
    for (index, (source, destination, text)) in datagrams.into_iter().enumerate() {
        let text = text.replace('\n', "\r\n");
        writer.udp(Duration::from_millis(index as u64), source, destination, text.as_bytes());
    }
    let rtp = [&[0x80, 0, 0, 1][..], &[0; 20]].concat();
    let rtcp = [&[0x80, 200, 0, 1][..], &[0; 20]].concat();
    for (at, port, packet) in [(30, 4_100, &rtp), (31, 4_100, &rtcp), (50, 4_100, &rtp), (50, 4_200, &rtp)] {
        writer.udp(Duration::from_millis(at), 4_000, port, packet);
    }
    let file = writer.finish();
    let calls = recorded_calls(&read_capture(&file).expect("a capture"));
    let recorded = scenarios(&calls[0], &file, &options());
    assert_eq!(recorded.media.len(), 1);
    assert_eq!(recorded.media[0].name, "t.caller.audio.pcap");
    let played = media::pcap::Capture::parse(&recorded.media[0].bytes).expect("a capture");
    assert_eq!((played.packets.len(), played.duration()), (2, Duration::from_millis(20)));
    let text = |file: &RecordedFile| String::from_utf8(file.bytes.clone()).expect("text");
    assert!(text(&recorded.caller).contains("play_pcap_audio=\"t.caller.audio.pcap\""));
    assert!(text(&recorded.callee).contains("<rtp_echo value=\"1\"/>"));
    let without = scenarios(&calls[0], &file, &RecordOptions { media: false, ..options() });
    assert!(without.media.is_empty() && !text(&without.callee).contains("rtp_echo"));
}

#[test]
fn a_note_is_given_once() {
    let message =
        format!("MESSAGE sip:b@h SIP/2.0\n{HEAD}To: <sip:b@h>\nCSeq: 1 MESSAGE\nContent-Length: 0\n\n");
    let [first, second, third] = [("200 OK", "7 INFO"), ("404 Not Found", "8 INFO"), ("200 OK", "9 INFO")]
        .map(|(line, cseq)| response(line, cseq, ""));
    let file = capture(&[(true, &message), (false, &first), (false, &second), (false, &third)]);
    let calls = recorded_calls(&read_capture(&file).expect("a capture"));
    let notes = scenarios(&calls[0], &file, &options()).notes;
    let left_out = notes.iter().filter(|note| note.contains("that the capture does not have"));
    assert_eq!(left_out.count(), 2, "{notes:?}");
}

/// Ports are used again: media of a later call to the same addresses is not the first call's.
#[test]
fn media_after_the_end_of_a_call_is_another_calls() {
    let sdp = "v=0\r\nc=IN IP4 127.0.0.1\r\nm=audio 4000 RTP/AVP 0\r\n";
    let invite = format!(
        "INVITE sip:b@h SIP/2.0\n{HEAD}To: <sip:b@h>\nCSeq: 1 INVITE\nContent-Type: application/sdp\nContent-Length: {}\n\n",
        sdp.len()
    );
    let bye = format!("BYE sip:b@h SIP/2.0\n{HEAD}To: <sip:b@h>;tag=2\nCSeq: 2 BYE\nContent-Length: 0\n\n");
    for (end, count) in [(Some(bye), 2), (None, 3)] {
        let mut writer = Writer::new();
        let invite = invite.replace('\n', "\r\n") + sdp;
        writer.udp(Duration::ZERO, 5_062, 5_060, invite.as_bytes());
        let rtp = [&[0x80, 0, 0, 1][..], &[0; 20]].concat();
        writer.udp(Duration::from_millis(50), 4_100, 4_000, &rtp);
        if let Some(bye) = end {
            writer.udp(Duration::from_secs(10), 5_062, 5_060, bye.replace('\n', "\r\n").as_bytes());
        }
        for seconds in [10, 30] {
            writer.udp(Duration::from_millis(seconds * 1_000 + 90), 4_100, 4_000, &rtp);
        }
        let file = writer.finish();
        let calls = recorded_calls(&read_capture(&file).expect("a capture"));
        let recorded = scenarios(&calls[0], &file, &options());
        let played = media::pcap::Capture::parse(&recorded.media[0].bytes).expect("a capture");
        assert_eq!(played.packets.len(), count);
    }
}

#[test]
fn only_responses_are_no_call_and_other_hops_are_left_out() {
    let only = capture(&[(false, &response("200 OK", "1 INVITE", ""))]);
    assert!(recorded_calls(&read_capture(&only).expect("a capture")).is_empty());
    let request =
        format!("OPTIONS sip:b@h SIP/2.0\n{HEAD}To: <sip:b@h>\nCSeq: 1 OPTIONS\nContent-Length: 0\n\n")
            .replace('\n', "\r\n");
    let mut writer = Writer::new();
    writer.udp(Duration::ZERO, 5_062, 5_060, request.as_bytes());
    writer.udp(Duration::ZERO, 5_062, 5_060, request.as_bytes());
    writer.udp(Duration::ZERO, 5_060, 5_080, request.as_bytes());
    let calls = recorded_calls(&read_capture(&writer.finish()).expect("a capture"));
    assert_eq!((calls[0].messages.len(), calls[0].retransmissions, calls[0].elsewhere), (1, 1, 1));
}

/// A line of a message as strangers may write it.
fn any_line() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("Contact: <sip:a@127.0.0.1:5062;transport=udp>".to_owned()),
        Just("Contact: *".to_owned()),
        Just("Record-Route: <sip:p;lr>".to_owned()),
        Just("Authorization: Digest".to_owned()),
        Just("To: <sip:b@h>;tag=2".to_owned()),
        Just("Via: SIP/2.0/UDP".to_owned()),
        "[ -~\\t]{0,30}",
        "[A-Z][a-z-]{0,8}: [^\\r\\n]{0,30}",
    ]
}

proptest! {
    #[test]
    fn any_capture_makes_scenarios_that_compile(
        messages in prop::collection::vec(
            (any::<bool>(), any::<bool>(), 0..4_usize, 1..4_u32, prop::collection::vec(any_line(), 0..5), "[^\\x00]{0,40}"),
            1..8,
        ),
    ) {
        let methods = ["INVITE", "ACK", "CANCEL", "BYE"];
        let texts: Vec<(bool, String)> = messages
            .iter()
            .map(|(is_from_caller, is_request, method, number, lines, body)| {
                let method = methods[*method];
                let start = if *is_request { format!("{method} sip:b@h SIP/2.0") } else { "SIP/2.0 200 OK".to_owned() };
                let lines = lines.join("\n");
                (*is_from_caller, format!("{start}\nCall-ID: 7\nCSeq: {number} {method}\n{lines}\nX: y\n\n{body}"))
            })
            .collect();
        let texts: Vec<(bool, &str)> = texts.iter().map(|(is_from_caller, text)| (*is_from_caller, text.as_str())).collect();
        let file = capture(&texts);
        for call in recorded_calls(&read_capture(&file).expect("a capture")) {
            let recorded = scenarios(&call, &file, &options());
            for file in [recorded.caller, recorded.callee] {
                let compiled = compile_text(&file.bytes, ScenarioSource::File("t.xml".into()));
                let text = String::from_utf8_lossy(&file.bytes).into_owned();
                // A scenario without one of our own or the peer's messages has nothing to play.
                prop_assert!(compiled.is_ok(), "{:?}\n{text}", compiled.err());
            }
        }
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut file = capture(&[(true, "OPTIONS sip:b SIP/2.0\nCall-ID: 1\nCSeq: 1 OPTIONS\n\n")]);
        file.extend(bytes);
        let sip = read_capture(&file).expect("one message is whole");
        prop_assert!(!sip.messages.is_empty());
    }
}

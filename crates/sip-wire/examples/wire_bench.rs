//! Nanoseconds for a proxy's work on every request: `cargo run --release -p sip-wire --example wire_bench`.

use std::fmt::Write;
use std::hint::black_box;
use std::io::Write as _;
use std::time::Duration;

use bytes::Bytes;
use sip_wire::{Header, Message, Reply, Rewrite, Values, Via, check_request};

const INVITE: &str = "INVITE sip:bob@192.0.2.20:5060;transport=udp SIP/2.0\r\n\
    Via: SIP/2.0/UDP 192.0.2.10:5060;rport;branch=z9hG4bK-524287-1---0f3eb40b11f97a9c\r\n\
    Max-Forwards: 70\r\n\
    Contact: <sip:alice@192.0.2.10:5060;transport=udp>\r\n\
    To: \"Bob\" <sip:bob@example.com>\r\n\
    From: \"Alice\" <sip:alice@example.com>;tag=5e00e125\r\n\
    Call-ID: wSSsR1c-lUjKuRhxr0iEKA..@192.0.2.10\r\n\
    CSeq: 1 INVITE\r\n\
    Allow: INVITE, ACK, CANCEL, BYE, NOTIFY, REFER, MESSAGE, OPTIONS, INFO, SUBSCRIBE\r\n\
    Content-Type: application/sdp\r\n\
    User-Agent: Phone 5.6.1\r\n\
    Content-Length: 145\r\n\r\n\
    v=0\r\no=alice 53655765 2353687637 IN IP4 192.0.2.10\r\ns=-\r\nc=IN IP4 192.0.2.10\r\nt=0 0\r\n\
    m=audio 6000 RTP/AVP 8 0\r\na=rtpmap:8 PCMA/8000\r\na=sendrecv\r\n";

const ROUNDS: u32 = 200_000;
const BATCHES: u32 = 9;

fn main() {
    let bytes = Bytes::from_static(INVITE.as_bytes());
    let message = Message::parse(bytes.clone()).expect("it is well formed");
    check_request(&message).expect("it is well formed");
    let mut table = format!("a request of {} bytes, best of {BATCHES} batches\n", bytes.len());
    let mut measure = |name: &str, work: &mut dyn FnMut()| {
        let _ = writeln!(table, "{name:<28}{:>7.0} ns", nanoseconds(work));
    };
    measure("parse", &mut || {
        black_box(Message::parse(black_box(bytes.clone()))).ok();
    });
    measure("check", &mut || {
        black_box(check_request(black_box(&message))).ok();
    });
    measure("parse, check", &mut || {
        let message = Message::parse(black_box(bytes.clone())).expect("it is well formed");
        black_box(check_request(&message)).ok();
        black_box(message);
    });
    measure("rewrite", &mut || {
        black_box(forward(black_box(&message)));
    });
    measure("parse, check, rewrite", &mut || {
        let message = Message::parse(black_box(bytes.clone())).expect("it is well formed");
        black_box(check_request(&message)).ok();
        black_box(forward(&message));
    });
    measure("reply", &mut || {
        let source = ([192, 0, 2, 10], 5060).into();
        black_box(Reply::new(black_box(&message), source, 100, "Trying", None).finish());
    });
    print!("{table}");
}

/// The changes of a proxy (RFC 3261 §16.6).
fn forward(message: &Message) -> Bytes {
    let mut rewrite = Rewrite::new(message);
    rewrite.push_front(Header::Via, |text| {
        text.extend_from_slice(b"SIP/2.0/UDP 192.0.2.1:5060;branch=z9hG4bK5b0a1c9e7f3d2b4a.0");
    });
    let top = message.header(Header::Via).and_then(|line| Values::new(line).next());
    if let Some((value, via)) = top.and_then(|value| Some((value, Via::parse(value)?))) {
        rewrite.replace(value, |text| {
            text.extend_from_slice(value);
            let _ = write!(text, ";received=192.0.2.10;rport={}", via.port.unwrap_or(5060));
        });
    }
    if let Some(Some(hops)) = message.max_forwards() {
        rewrite.set(Header::MaxForwards, |text| {
            let _ = write!(text, "{}", hops.saturating_sub(1));
        });
    }
    rewrite.set_uri(b"sip:bob@198.51.100.7:41234;ob");
    rewrite.push_front(Header::RecordRoute, |text| {
        text.extend_from_slice(b"<sip:192.0.2.1:5060;lr;t=6d1f0c>");
    });
    rewrite.finish()
}

fn nanoseconds(work: &mut dyn FnMut()) -> f64 {
    let best = (0..BATCHES).map(|_| time_batch(work)).min().unwrap_or_default();
    best.as_secs_f64() * 1e9 / f64::from(ROUNDS)
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time; nothing links it")]
fn time_batch(work: &mut dyn FnMut()) -> Duration {
    let start = std::time::Instant::now();
    for _ in 0..ROUNDS {
        work();
    }
    start.elapsed()
}

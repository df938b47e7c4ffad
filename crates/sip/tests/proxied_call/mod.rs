//! The datagrams of SIPp's built-in scenario through a proxy: INVITE, 180, 200, ACK, BYE, 200.

use bytes::Bytes;
use sip::wire::{Header, Message};
use stdx::Instant;

pub(crate) const US: &str = "192.0.2.1:5060";
pub(crate) const ALICE: &str = "192.0.2.10:5060";
pub(crate) const BOB: &str = "192.0.2.20:5060";
pub(crate) const START: Instant = Instant::from_unix_seconds(1_800_000_000);
pub(crate) const BODY: &str = "v=0\r\no=user1 53655765 2353687637 IN IP4 192.0.2.10\r\ns=-\r\nc=IN IP4 192.0.2.10\r\nt=0 0\r\n\
                    m=audio 6000 RTP/AVP 0\r\na=rtpmap:0 PCMU/8000\r\n";

/// A request of the caller; `lines` are more header lines.
pub(crate) fn request(method: &str, to: &str, number: u64, lines: &str, body: &str) -> String {
    let tag = if method == "INVITE" { "" } else { ";tag=4711SIPpTag01" };
    let cseq = if method == "BYE" { 2 } else { 1 };
    format!(
        "{method} sip:{to} SIP/2.0\r\nVia: SIP/2.0/UDP {ALICE};branch=z9hG4bK-4711-{number}-{method}\r\n{lines}\
         From: sipp <sip:sipp@{ALICE}>;tag=4711SIPpTag00{number}\r\nTo: service <sip:service@{US}>{tag}\r\n\
         Call-ID: {number}-4711@192.0.2.10\r\nCSeq: {cseq} {method}\r\nContact: sip:sipp@{ALICE}\r\nMax-Forwards: 70\r\n\
         Subject: Performance Test\r\nContent-Type: application/sdp\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// The callee's answer to a forwarded request.
pub(crate) fn answer(request: &Bytes, status: u16, body: &str) -> String {
    let request = Message::parse(request.clone()).unwrap();
    let mut text = format!("SIP/2.0 {status} Said\r\n");
    let copied = [Header::Via, Header::RecordRoute, Header::From, Header::To, Header::CallId, Header::CSeq];
    for header in copied {
        for value in request.header_lines(header) {
            text += &format!("{}: {}", header.as_str(), String::from_utf8_lossy(value));
            let tag = header == Header::To && request.to_tag().is_none();
            text += if tag { ";tag=4711SIPpTag01\r\n" } else { "\r\n" };
        }
    }
    text + &format!("Contact: <sip:{BOB};transport=UDP>\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

//! How long the INVITE of SIPp's `uac` takes: an aim of the design, shown with `--nocapture` on a release build.

use super::tests::{World, fixed};
use crate::scenario::template::{Keyword, TemplatePart};

/// A template of `[…]`-free literals and the keywords of the built-in scenario, in its order.
fn invite() -> Vec<TemplatePart> {
    use Keyword::*;
    let text = |text: &str| TemplatePart::Text(text.as_bytes().into());
    let via = || vec![TemplatePart::Keyword(LocalIp), text(":"), TemplatePart::Keyword(LocalPort(0))];
    let remote = || vec![TemplatePart::Keyword(RemoteIp), text(":"), TemplatePart::Keyword(RemotePort(0))];
    [
        vec![text("INVITE sip:"), TemplatePart::Keyword(Service), text("@")],
        remote(),
        vec![text(" SIP/2.0\r\nVia: SIP/2.0/"), TemplatePart::Keyword(Transport), text(" ")],
        via(),
        vec![text(";branch="), TemplatePart::Keyword(Branch(0)), text("\r\nFrom: sipp <sip:sipp@")],
        via(),
        vec![
            text(">;tag="),
            TemplatePart::Keyword(Pid),
            text("SIPpTag00"),
            TemplatePart::Keyword(CallNumber(0)),
        ],
        vec![
            text("\r\nTo: "),
            TemplatePart::Keyword(Service),
            text(" <sip:"),
            TemplatePart::Keyword(Service),
            text("@"),
        ],
        remote(),
        vec![text(">\r\nCall-ID: "), TemplatePart::Keyword(CallId)],
        vec![text("\r\nCSeq: 1 INVITE\r\nContact: sip:sipp@")],
        via(),
        vec![text("\r\nMax-Forwards: 70\r\nSubject: Performance Test\r\nContent-Type: application/sdp\r\n")],
        vec![
            text("Content-Length: "),
            TemplatePart::Keyword(Len(0)),
            text("\r\n\r\nv=0\r\no=user1 53655765 2353687637 IN IP"),
        ],
        vec![
            TemplatePart::Keyword(LocalIpType),
            text(" "),
            TemplatePart::Keyword(LocalIp),
            text("\r\ns=-\r\nc=IN IP"),
        ],
        vec![
            TemplatePart::Keyword(MediaIpType),
            text(" "),
            TemplatePart::Keyword(MediaIp),
            text("\r\nt=0 0\r\nm=audio "),
        ],
        vec![TemplatePart::Keyword(MediaPort(0)), text(" RTP/AVP 0\r\na=rtpmap:0 PCMU/8000\r\n")],
    ]
    .concat()
}

#[test]
fn an_invite_takes_no_second_allocation() {
    let mut world = World::new(&invite(), &fixed());
    let mut out = Vec::with_capacity(2_048);
    let address = out.as_ptr();
    let rounds = 20_000;
    let elapsed = {
        let timer = crate::call::render::tests::stopwatch();
        for _ in 0..rounds {
            out.clear();
            world.message(&mut out).unwrap();
        }
        timer()
    };
    assert_eq!(out.as_ptr(), address);
    let text = String::from_utf8(out).unwrap();
    assert!(
        text.starts_with("INVITE sip:service@127.0.0.1:5070 SIP/2.0\r\nVia: SIP/2.0/UDP 127.0.0.9:5060;")
    );
    let (_, body) = text.split_once("\r\n\r\n").unwrap();
    assert!(text.contains(&format!("\r\nContent-Length:   {}\r\n\r\n", body.len())), "{text}");
    println!("{} bytes in {} ns", text.len(), elapsed.as_nanos() / rounds);
}

//! RFC 3261 §8.2: what the server answers itself.

use bytes::Bytes;
use sip::endpoint::{Decision, Endpoint, EndpointOutbox};
use sip::session::SessionEvent;
use stdx::Instant;

use super::{Row, body, test};
use crate::raw::{Peer, Raw, header};
use crate::server::{self, Server};
use crate::session_world::{ANSWER, NO_HEADERS, agent, answers};
use crate::{SERVER, Scene, address, bob, to_bob};

pub(super) const ROWS: &[Row] = &[
    body("8.2.1", "A method that is known and not supported is answered 405, with Allow", unsupported_method),
    body(
        "11.2",
        "A 200 to OPTIONS has Allow, Accept, Accept-Encoding, Accept-Language and Supported, also within a dialog",
        options_tell,
    ),
    body("8.2.2.1", "A To of an unknown scheme is no reason to refuse", foreign_to),
    test(
        "8.2.2.1",
        "A Request-URI that names no address here is answered 404",
        "sim/tests/calls/accounts.rs::other_domains_are_not_ours",
    ),
    test(
        "8.2.2.2",
        "A request without a To tag that came before by another way is answered 482",
        "sim/tests/calls/accounts.rs::a_merged_request_is_refused_by_the_notifier_and_forwarded_by_the_proxy",
    ),
    test(
        "8.2.2.3",
        "An unknown option tag in Require is answered 420, with Unsupported",
        "sim/tests/calls/waits.rs::the_server_answers_for_itself",
    ),
    body("8.2.2.3", "Within a dialog, too", require_in_dialog),
    body("8.2.2.3", "Require in a CANCEL is ignored", require_in_cancel),
    test(
        "8.2.3",
        "A body of a type or encoding that is not understood is answered 415, with Accept",
        "sip/src/events/tests/publish.rs::bad_publications_get_their_answer",
    ),
    body(
        "8.2.3",
        "An INVITE with an encoded body is answered 415, with Accept-Encoding, also within a dialog",
        encoded_body,
    ),
    body("8.2.3", "A body that is optional and not understood is ignored", optional_body),
    body("8.2.3", "A description in multipart/mixed is found (RFC 5621 §3.1)", multipart_body),
    body(
        "8.2.4",
        "No extension is applied that Supported does not list: 100rel, timer",
        extensions_of_sessions,
    ),
    body("8.2.4", "Nor in a registrar's 200: gruu, path, outbound", super::registrar::extensions),
    body("8.2.6.1", "No provisional response to a request other than INVITE", no_provisional),
    body("8.2.6.1", "A 100 copies Timestamp", timestamp_in_100),
    body("8.2.6.2", "From, Call-ID, CSeq and all Via values are copied, in their order", copied_headers),
    body("8.2.6.2", "A To tag of the request is copied", copied_to_tag),
    body("8.2.6.2", "Without one, To is copied and gets a tag", added_to_tag),
    test(
        "8.2.6.2",
        "All responses to a request have one To tag, but for 100",
        "sim/tests/calls/cancels.rs::our_own_answers_have_one_tag",
    ),
    test(
        "8.2.7",
        "A stateless response has the same tag for every copy of its request",
        "sim/tests/calls/routes.rs::our_tags_do_not_change",
    ),
    test(
        "8.2.7",
        "A stateless UAS repeats nothing and ignores the ACK",
        "sip/tests/amplification.rs::a_refused_invite_is_answered_once_and_leaves_nothing",
    ),
];

const OPTIONS: Raw<'_> = Raw {
    method: "OPTIONS",
    uri: "sip:10.0.0.1",
    route: "",
    from: "<sip:x@elsewhere.test>;tag=x",
    to: "<sip:10.0.0.1>",
    call_id: "c",
    contact: "",
    lines: "",
};

fn asked(raw: Raw<'_>) -> (Scene, Vec<String>) {
    let mut scene = Scene::new(1, to_bob, vec![]);
    let mut peer = Peer::new(&mut scene, 8);
    peer.send(&mut scene, raw);
    let received = peer.received(&scene);
    (scene, received)
}

fn unsupported_method() {
    let mut scene = Scene::build(1, Server::new(server::settings(1), |_| Decision::Agent), vec![]);
    let mut peer = Peer::new(&mut scene, 8);
    peer.send(&mut scene, Raw { method: "REFER", uri: "sip:100@10.0.0.1", ..OPTIONS });
    let answer = peer.last(&scene, "SIP/2.0 405 ");
    assert!(header(&answer, "Allow").contains("INVITE"), "{answer}");
}

fn options_tell() {
    let (_, received) = asked(OPTIONS);
    let (mut scene, mut peer, to) = answered();
    let for_agent = Raw { method: "OPTIONS", call_id: "other", to: "<sip:100@10.0.0.1>", ..INVITE };
    let mut answers = received;
    for raw in [for_agent, Raw { method: "OPTIONS", to: &to, ..INVITE }] {
        peer.send(&mut scene, raw);
        answers.push(peer.last(&scene, "SIP/2.0 200 "));
    }
    for answer in &answers {
        assert!(header(answer, "CSeq").ends_with(" OPTIONS"), "{answer}");
        assert_eq!(header(answer, "Accept-Encoding"), "identity");
        for name in ["Allow", "Accept", "Accept-Language", "Supported"] {
            assert!(!header(answer, name).is_empty(), "{name}: {answer}");
        }
    }
}

fn foreign_to() {
    let (_, received) = asked(Raw { to: "<urn:service:sos>", ..OPTIONS });
    assert!(received[0].starts_with("SIP/2.0 200 "), "{received:?}");
}

fn require_in_cancel() {
    let mut scene = Scene::new(1, to_bob, vec![bob().answering(&[(0, 180)])]);
    let peer = Peer::new(&mut scene, 8);
    for (method, lines) in [("INVITE", "Contact: <sip:x@10.0.0.8>\r\n"), ("CANCEL", "Require: wings\r\n")] {
        let text = format!(
            "{method} sip:bob@10.0.0.1 SIP/2.0\r\nVia: SIP/2.0/UDP 10.0.0.8:5060;branch=z9hG4bK-1\r\nMax-Forwards: 70\r\n\
             From: <sip:x@elsewhere.test>;tag=x\r\nTo: <sip:bob@10.0.0.1>\r\nCall-ID: c\r\nCSeq: 1 {method}\r\n{lines}\
             Content-Length: 0\r\n\r\n"
        );
        scene.world.send(peer.id, address(8), SERVER, text);
        scene.run(100);
    }
    peer.last(&scene, "SIP/2.0 487 ");
    let of_cancel = peer.received(&scene).into_iter().find(|text| text.contains("CSeq: 1 CANCEL")).unwrap();
    assert!(of_cancel.starts_with("SIP/2.0 200 "), "{of_cancel}");
}

fn no_provisional() {
    let (mut scene, received) = asked(OPTIONS);
    scene.run(5_000);
    assert!(received.len() == 1 && received[0].starts_with("SIP/2.0 200 "), "{received:?}");
}

fn timestamp_in_100() {
    let mut scene = Scene::new(1, to_bob, vec![bob().answering(&[(900, 200)])]);
    let mut peer = Peer::new(&mut scene, 8);
    let invite = Raw {
        method: "INVITE",
        uri: "sip:bob@10.0.0.1",
        contact: "<sip:x@10.0.0.8>",
        lines: "Timestamp: 54.3\r\n",
        ..OPTIONS
    };
    peer.send(&mut scene, invite);
    assert_eq!(header(&peer.last(&scene, "SIP/2.0 100 "), "Timestamp"), "54.3");
}

fn copied_headers() {
    let behind = "SIP/2.0/TCP 192.0.2.1:5070;branch=z9hG4bK-b, SIP/2.0/UDP 192.0.2.2;branch=z9hG4bK-c";
    let lines = format!("Via: {behind}\r\n");
    let (_, received) = asked(Raw { lines: &lines, ..OPTIONS });
    let vias: Vec<_> = received[0].lines().filter_map(|line| line.strip_prefix("Via: ")).collect();
    let values = vias.join(", ");
    assert!(values.starts_with("SIP/2.0/UDP 10.0.0.8:5060;") && values.ends_with(behind), "{values}");
    for (name, value) in [("From", OPTIONS.from), ("Call-ID", "c"), ("CSeq", "1 OPTIONS")] {
        assert_eq!(header(&received[0], name), value);
    }
}

fn copied_to_tag() {
    let to = "\"Server\" <sip:10.0.0.1>;tag=theirs";
    let (_, received) = asked(Raw { method: "BYE", to, ..OPTIONS });
    assert!(received[0].starts_with("SIP/2.0 481 "), "{received:?}");
    assert_eq!(header(&received[0], "To"), to);
}

fn added_to_tag() {
    let (_, received) = asked(OPTIONS);
    let to = header(&received[0], "To");
    assert!(to.strip_prefix("<sip:10.0.0.1>;tag=").is_some_and(|tag| tag.len() >= 4), "{to}");
}

const INVITE: Raw<'_> =
    Raw { method: "INVITE", uri: "sip:100@10.0.0.1", contact: "<sip:x@10.0.0.8>", ..OPTIONS };

/// A peer whose INVITE an application has answered, and the To of the dialog.
fn answered() -> (Scene, Peer, String) {
    let mut scene = Scene::build(1, agent(1).with_app(answers), vec![]);
    let mut peer = Peer::new(&mut scene, 8);
    peer.send(&mut scene, INVITE);
    let to = header(&peer.last(&scene, "SIP/2.0 200 "), "To");
    (scene, peer, to)
}

fn require_in_dialog() {
    let (mut scene, mut peer, to) = answered();
    for method in ["INVITE", "UPDATE", "INFO", "BYE"] {
        peer.send(&mut scene, Raw { method, to: &to, lines: "Require: timer, wings\r\n", ..INVITE });
        let refused = peer.last(&scene, "SIP/2.0 420 ");
        assert_eq!(header(&refused, "Unsupported"), "wings", "{refused}");
        assert!(header(&refused, "CSeq").ends_with(method), "{refused}");
    }
    peer.send(&mut scene, Raw { method: "BYE", to: &to, ..INVITE });
    assert!(
        header(&peer.last(&scene, "SIP/2.0 200 "), "CSeq").ends_with("BYE"),
        "the session was still there"
    );
}

fn encoded_body() {
    let (mut scene, mut peer, to) = answered();
    let lines = "Content-Type: application/sdp\r\nContent-Encoding: gzip\r\n";
    for raw in [Raw { lines, call_id: "other", ..INVITE }, Raw { lines, to: &to, ..INVITE }] {
        peer.send_body(&mut scene, raw, "\u{1f}x");
        let refused = peer.last(&scene, "SIP/2.0 415 ");
        assert_eq!(header(&refused, "Accept-Encoding"), "identity", "{refused}");
        assert_eq!(header(&refused, "Call-ID"), raw.call_id);
    }
}

/// The events of an application whose peer sent an INVITE with this body, and the response.
fn invited_with(lines: &str, text: &str) -> (Option<Bytes>, String) {
    let mut scene = Scene::build(1, agent(1).with_app(answers), vec![]);
    let mut peer = Peer::new(&mut scene, 8);
    peer.send_body(&mut scene, Raw { lines, ..INVITE }, text);
    let sdp = scene.server().events.iter().find_map(|event| match event {
        SessionEvent::Invited { invited, .. } => sip::session::sdp_of(&invited.request),
        _ => None,
    });
    (sdp, peer.last(&scene, "SIP/2.0 "))
}

fn optional_body() {
    let optional = "Content-Type: application/isup\r\nContent-Disposition: signal;handling=optional\r\n";
    let (sdp, answer) = invited_with(optional, "\u{1}");
    assert!(sdp.is_none() && answer.starts_with("SIP/2.0 200 "), "{answer}");
    let required = "Content-Type: application/isup\r\nContent-Disposition: signal\r\n";
    let (_, answer) = invited_with(required, "\u{1}");
    assert!(answer.starts_with("SIP/2.0 415 "), "{answer}");
    assert_eq!(header(&answer, "Accept"), "application/sdp, multipart/mixed");
}

fn multipart_body() {
    let parts = |handling: &str| {
        format!(
            "--a b\r\nContent-Type: application/isup;version=itu-t92+\r\nContent-Disposition: signal{handling}\r\n\r\n\
             \u{1}\r\n--a b \r\ncontent-type: Application/SDP\r\n\r\nv=0 offer\r\n\r\n--a b--\r\n"
        )
    };
    let lines = "MIME-Version: 1.0\r\nContent-Type: multipart/mixed;boundary=\"a b\"\r\n";
    for handling in ["", ";handling=optional"] {
        let (sdp, answer) = invited_with(lines, &parts(handling));
        assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
        assert_eq!(sdp.as_deref(), Some(&b"v=0 offer\r\n"[..]));
    }
    let (_, answer) = invited_with(lines, &parts(";handling=required"));
    assert!(answer.starts_with("SIP/2.0 415 "), "{answer}");
}

/// The responses of an application that sends early media and then answers, to an INVITE with these lines.
fn answered_with_early_media(lines: &str) -> Vec<String> {
    let app = |now: Instant, event: &SessionEvent, endpoint: &mut Endpoint, out: &mut EndpointOutbox| {
        if let SessionEvent::Invited { session, .. } = event {
            let sdp = || Bytes::from_static(ANSWER);
            endpoint.sessions(now, out).ring(*session, 183, sdp()).unwrap();
            endpoint.sessions(now, out).answer(*session, sdp(), NO_HEADERS).unwrap();
        }
    };
    let mut scene = Scene::build(1, agent(1).with_app(app), vec![]);
    let mut peer = Peer::new(&mut scene, 8);
    let invite =
        Raw { method: "INVITE", uri: "sip:100@10.0.0.1", contact: "<sip:x@10.0.0.8>", lines, ..OPTIONS };
    peer.send(&mut scene, invite);
    peer.received(&scene)
}

/// RFC 3262 §3 and RFC 4028 §9: a provisional response is reliable, and the peer has to refresh, only where it supports that.
fn extensions_of_sessions() {
    let find = |texts: &[String], start: &str| {
        let found = texts.iter().find(|text| text.starts_with(start));
        found.unwrap_or_else(|| panic!("no {start} in {texts:#?}")).clone()
    };
    let plain = answered_with_early_media("Session-Expires: 1800\r\n");
    let (early, answer) = (find(&plain, "SIP/2.0 183 "), find(&plain, "SIP/2.0 200 "));
    assert!(!early.contains("\r\nRequire:") && !early.contains("\r\nRSeq:"), "{early}");
    assert!(!answer.contains("\r\nRequire:") && !answer.contains("refresher=uac"), "{answer}");
    let reliable = answered_with_early_media("Supported: 100rel\r\n");
    assert_eq!(header(&find(&reliable, "SIP/2.0 183 "), "Require"), "100rel");
    let timed = answered_with_early_media("Supported: timer\r\nSession-Expires: 1800\r\n");
    let answer = find(&timed, "SIP/2.0 200 ");
    assert_eq!(header(&answer, "Require"), "timer");
    assert!(header(&answer, "Session-Expires").ends_with(";refresher=uac"), "{answer}");
}

//! RFC 3261 §16: the proxy.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use sim::Mailbox;
use sip::endpoint::{EndpointSettings, Listener};
use sip::transport::Transport;

use super::{Row, body, test};
use crate::raw::{Peer, Raw, contact, header, record_routes, route_of_request, route_of_response};
use crate::server::{self, Server};
use crate::{SERVER, Scene, accounts, address, bob, targets, to_bob};

pub(super) const ROWS: &[Row] = &[
    body("16.3 step 1", "Unknown methods and headers are no fault", unknown_method),
    body("16.3 step 2", "A Request-URI of an unknown scheme is answered 416", unknown_scheme),
    test("16.3 step 3", "Max-Forwards 0 is answered 483", "sim/tests/calls/routes.rs::max_forwards"),
    test(
        "16.3 step 3",
        "An OPTIONS with Max-Forwards 0 may be answered",
        "sim/tests/calls/waits.rs::the_server_answers_for_itself",
    ),
    test("16.3 step 4", "A loop is answered 482", "sim/tests/calls/routes.rs::a_loop_is_found"),
    test("16.3 step 4", "A spiral passes", "sim/tests/calls/routes.rs::a_spiral_passes"),
    body(
        "16.3 step 5",
        "An unknown option tag in Proxy-Require is answered 420, with Unsupported",
        proxy_require,
    ),
    test(
        "16.3 step 6",
        "Credentials are checked before a request is forwarded",
        "sim/tests/calls/accounts.rs::a_caller_that_claims_a_local_account_must_authenticate",
    ),
    test(
        "16.4",
        "What a strict router has put into the Request-URI is put back",
        "sim/tests/calls/routes.rs::a_strict_router_before_us",
    ),
    body("16.4", "An maddr in the Request-URI that names the proxy is stripped", own_maddr),
    body("16.4", "A Route value that names the proxy is removed", own_route),
    test(
        "16.5",
        "An address that does not exist here is answered 404",
        "sim/tests/calls/accounts.rs::accounts_are_told_that_an_account_is_not_there",
    ),
    test(
        "16.5",
        "An empty target set is answered 480",
        "sim/tests/calls/accounts.rs::a_phone_registers_and_is_called",
    ),
    body(
        "16.5",
        "An maddr that names another host is not followed: the Request-URI is judged without it",
        foreign_maddr,
    ),
    body("16.5", "A target is added once", targets_once),
    body("16.6 step 1", "All headers are copied in their order, and the body as it is", copied),
    body("16.6 step 2", "The Request-URI is the target's", new_request_uri),
    body("16.6 step 2", "What a Request-URI may not have is removed: headers and method", request_uri_parts),
    test("16.6 step 3", "Max-Forwards is one less, or 70", "sim/tests/calls/routes.rs::max_forwards"),
    test(
        "16.6 step 4",
        "Record-Route has a URI with lr for either side",
        "sim/tests/calls/routes.rs::udp_calls_tcp",
    ),
    body(
        "16.6 step 4, RFC 5630 §5.3",
        "A request to a sips URI goes by TLS alone, and its Record-Route is a sips URI there",
        sips_by_tls,
    ),
    body(
        "16.6 step 4, RFC 5630 §5.3",
        "Where no target is reached by TLS, a request to a sips URI is answered 480, with Warning 380",
        sips_without_tls,
    ),
    test(
        "16.6 step 6",
        "The first Route of a strict router becomes the Request-URI",
        "sim/tests/calls/dialog_routes.rs::route_sets_through_other_proxies",
    ),
    test(
        "16.6 step 7",
        "Addresses of the next hop are tried one after the other",
        "sim/tests/calls/routes.rs::the_second_address_is_tried_when_the_first_is_silent",
    ),
    body("16.6 step 8", "A Via with a branch of its own for every copy", branches),
    body("16.6 step 9", "Content-Length is added on a stream", content_length),
    test(
        "16.6 step 11, 16.8",
        "Timer C ends a ringing branch",
        "sim/tests/calls/forks.rs::a_silent_phone_is_408_and_timer_c_ends_a_ring_without_end",
    ),
    test(
        "16.7 step 1",
        "A response to no transaction goes nowhere",
        "sim/tests/calls/routes.rs::stray_responses_are_dropped",
    ),
    body("16.7 step 3", "The topmost Via is removed, the others stay", via_removed),
    body("16.7 step 5", "A 100 is not forwarded, another provisional response is", provisional),
    test(
        "16.7 step 5",
        "Every 2xx to an INVITE is forwarded",
        "sim/tests/calls/forks.rs::a_second_2xx_reaches_the_caller",
    ),
    test(
        "16.7 step 6",
        "The best response is forwarded when all are final",
        "sim/tests/calls/forks.rs::the_best_answer_is_the_callers",
    ),
    test(
        "16.7 step 6",
        "503 becomes 500",
        "sim/tests/calls/routes.rs::the_second_address_is_tried_after_503_and_after_a_transport_error",
    ),
    test(
        "21.5.4",
        "A target of a route that answers 503 with Retry-After gets no other requests for that time, five minutes at most, as long as there is another target",
        "sim/tests/calls/forks.rs::a_gateway_that_says_when_to_come_again_gets_no_calls_until_then",
    ),
    test(
        "21.5.4",
        "A 503 without Retry-After counts as a 500",
        "sim/tests/calls/forks.rs::a_gateway_that_does_not_say_when_to_come_again_gets_the_next_call",
    ),
    test(
        "16.7 step 7",
        "Challenges of all branches are passed on",
        "sim/tests/calls/forks.rs::every_challenge_is_passed_on",
    ),
    test(
        "16.7 step 8",
        "Record-Route is rewritten where the sides differ",
        "sim/tests/calls/dialog_routes.rs::two_record_route_values_work_both_ways",
    ),
    test(
        "16.7 step 10",
        "After a 2xx the other branches are cancelled",
        "sim/tests/calls/forks.rs::the_first_2xx_wins_and_the_others_are_cancelled",
    ),
    test(
        "16.9",
        "A transport error counts as 503",
        "sim/tests/calls/routes.rs::the_second_address_is_tried_after_503_and_after_a_transport_error",
    ),
    test(
        "16.9",
        "So does a target whose URI names an unknown transport",
        "sim/tests/calls/routes.rs::a_target_by_an_unknown_transport_is_not_asked_by_another",
    ),
    test("16.10", "A CANCEL ends the branches", "sim/tests/calls/cancels.rs::while_it_rings"),
    body("16.10", "A CANCEL without a context goes nowhere: it is answered 481", cancel_without_context),
    body(
        "16.11",
        "A request is forwarded by a transaction, once, and its response is repeated",
        one_transaction,
    ),
    body("16.11", "An ACK to a 2xx is forwarded statelessly: each copy, with the same branch", stateless_ack),
];

const INVITE: Raw<'_> = Raw {
    method: "INVITE",
    uri: "sip:bob@10.0.0.1",
    route: "",
    from: "<sip:x@elsewhere.test>;tag=x",
    to: "<sip:bob@10.0.0.1>",
    call_id: "c",
    contact: "<sip:x@10.0.0.8:5060>",
    lines: "",
};

/// The caller at host 8 and bob at host 3, after the caller has sent this.
fn asked(raw: Raw<'_>) -> (Scene, Peer, Peer) {
    let mut scene = Scene::new(1, to_bob, vec![]);
    let (mut caller, bob) = (Peer::new(&mut scene, 8), Peer::new(&mut scene, 3));
    caller.send(&mut scene, raw);
    (scene, caller, bob)
}

fn unknown_method() {
    let (scene, _, bob) = asked(Raw { method: "NEWMETHOD", lines: "NewFangled: a;b=\"c\"\r\n", ..INVITE });
    assert_eq!(header(&bob.last(&scene, "NEWMETHOD sip:bob@10.0.0.3:5060 "), "NewFangled"), "a;b=\"c\"");
}

fn unknown_scheme() {
    let (scene, caller, bob) = asked(Raw { uri: "nobodyKnowsThisScheme:totallyopaquecontent", ..INVITE });
    caller.last(&scene, "SIP/2.0 416 ");
    assert_eq!(bob.received(&scene), [""; 0]);
}

fn proxy_require() {
    // RFC 3329 §2.3.1: a proxy that says it has sec-agree answers 494, and we do not.
    for (required, unsupported) in [("path, wings", "wings"), ("sec-agree", "sec-agree")] {
        let lines = format!("Proxy-Require: {required}\r\n");
        let (scene, caller, bob) = asked(Raw { lines: &lines, ..INVITE });
        assert_eq!(header(&caller.last(&scene, "SIP/2.0 420 "), "Unsupported"), unsupported);
        assert_eq!(bob.received(&scene), [""; 0]);
    }
}

fn own_route() {
    let (scene, _, bob) = asked(Raw { route: "<sip:10.0.0.1:5060;lr>", ..INVITE });
    assert!(!bob.last(&scene, "INVITE").contains("\r\nRoute:"));
}

fn copied() {
    let lines =
        "X-A: 1\r\nSubject: one\r\nX-A: 2, 3\r\nx-b:  folded\r\n  line\r\nContent-Type: text/plain\r\n";
    let (scene, _, bob) = asked(Raw { lines, ..INVITE });
    let invite = bob.last(&scene, "INVITE");
    assert!(invite.contains(lines), "{invite}");
    let places: Vec<_> =
        ["From: ", "To: ", "Call-ID: ", "CSeq: ", "Contact: "].map(|name| invite.find(name)).into();
    assert!(places.is_sorted() && places[0].is_some(), "{invite}");
}

fn new_request_uri() {
    let (scene, _, bob) = asked(INVITE);
    let invite = bob.last(&scene, "INVITE sip:bob@10.0.0.3:5060 SIP/2.0\r\n");
    assert_eq!(header(&invite, "To"), "<sip:bob@10.0.0.1>");
}

/// §19.1.1, table 1. The Contact of a binding may have them.
fn request_uri_parts() {
    let odd = "sip:bob@10.0.0.3:5060;method=REFER;line=1?Subject=x&Route=%3Csip:10.0.0.4;lr%3E";
    let mut scene = Scene::new(1, move |_: &_| targets(&[&[odd]]), vec![]);
    let (mut caller, callee) = (Peer::new(&mut scene, 8), Peer::new(&mut scene, 3));
    for method in ["INVITE", "MESSAGE"] {
        caller.send(&mut scene, Raw { method, ..INVITE });
        callee.last(&scene, &format!("{method} sip:bob@10.0.0.3:5060;line=1 SIP/2.0\r\n"));
    }
    let mut scene = Scene::build(1, accounts::server(), vec![bob()]);
    let contact = "Contact: <sip:odd@10.0.0.3:5060;method=INVITE?Subject=x>\r\n";
    let ok = accounts::ask(&mut scene, "REGISTER", "sip:example.test", contact, "secret");
    assert!(ok.contains("<sip:odd@10.0.0.3:5060;method=INVITE?Subject=x>;expires="), "{ok}");
    scene.call("sip:bob@example.test");
    scene.run(500);
    let requests = &scene.callee(0).requests;
    let is_rung = requests.iter().any(|text| text.starts_with("INVITE sip:odd@10.0.0.3:5060 SIP/2.0\r\n"));
    assert!(is_rung, "{requests:#?}");
}

fn targets_once() {
    let twice =
        |_: &_| targets(&[&["sip:bob@10.0.0.3:5060", "sip:bob@10.0.0.3:5060"], &["sip:bob@10.0.0.3:5060"]]);
    let mut scene = Scene::new(1, twice, vec![]);
    let (mut caller, bob) = (Peer::new(&mut scene, 8), Peer::new(&mut scene, 3));
    caller.send(&mut scene, INVITE);
    // A repetition of one branch has its Via.
    let received = bob.received(&scene);
    let branches: BTreeSet<String> = received.iter().map(|invite| header(invite, "Via")).collect();
    assert_eq!(branches.len(), 1, "{received:#?}");
}

fn branches() {
    let both = |_: &_| targets(&[&["sip:bob@10.0.0.3:5060", "sip:carol@10.0.0.4:5060"]]);
    let mut scene = Scene::new(1, both, vec![]);
    let (mut caller, bob, carol) =
        (Peer::new(&mut scene, 8), Peer::new(&mut scene, 3), Peer::new(&mut scene, 4));
    caller.send(&mut scene, INVITE);
    let branch = |peer: &Peer| {
        let via = header(&peer.last(&scene, "INVITE"), "Via");
        via.split(";branch=").nth(1).unwrap().split(';').next().unwrap().to_owned()
    };
    let (one, other) = (branch(&bob), branch(&carol));
    assert!(one.starts_with("z9hG4bK") && other.starts_with("z9hG4bK") && one != other, "{one} {other}");
}

fn via_removed() {
    let (mut scene, caller, bob) = asked(INVITE);
    let invite = bob.last(&scene, "INVITE");
    bob.respond(&mut scene, &invite, "486 Busy Here", "b", "", "");
    let answer = caller.last(&scene, "SIP/2.0 486 ");
    let vias: Vec<_> = answer.lines().filter(|line| line.starts_with("Via: ")).collect();
    assert!(vias.len() == 1 && vias[0].contains("10.0.0.8:5060"), "{answer}");
}

fn provisional() {
    let (mut scene, caller, bob) = asked(INVITE);
    let invite = bob.last(&scene, "INVITE");
    bob.respond(&mut scene, &invite, "100 Trying Hard", "", "", "");
    bob.respond(&mut scene, &invite, "183 Session Progress", "b", "", "");
    caller.last(&scene, "SIP/2.0 183 ");
    assert!(caller.received(&scene).iter().all(|text| !text.starts_with("SIP/2.0 100 Trying Hard")));
}

fn own_maddr() {
    // The address of record is found by its domain, and the phone gets its own URI.
    let mut scene = Scene::build(1, accounts::server(), vec![bob()]);
    assert!(accounts::register(&mut scene, "secret").starts_with("SIP/2.0 200 "));
    scene.call("sip:bob@example.test:5060;maddr=10.0.0.1;transport=udp");
    scene.run(2_000);
    assert_eq!(scene.status(), 200);
    let (scene, _, bob) = asked(Raw { uri: "sip:bob@10.0.0.1;maddr=10.0.0.1", ..INVITE });
    let invite = bob.last(&scene, "INVITE sip:bob@10.0.0.3:5060 SIP/2.0\r\n");
    assert!(!invite.contains("maddr"), "{invite}");
    let uri = "sip:10.0.0.1;maddr=10.0.0.1";
    let (scene, caller, _) = asked(Raw { method: "OPTIONS", uri, contact: "", ..INVITE });
    caller.last(&scene, "SIP/2.0 200 ");
}

/// The text makes it the only target. Any caller could have us send anywhere.
fn foreign_maddr() {
    let mut scene = Scene::build(1, accounts::server(), vec![bob()]);
    assert!(accounts::register(&mut scene, "secret").starts_with("SIP/2.0 200 "));
    let victim = Peer::new(&mut scene, 8);
    scene.call("sip:bob@example.test;maddr=10.0.0.8");
    scene.run(2_000);
    assert_eq!((scene.status(), victim.received(&scene)), (200, Vec::new()));
    scene.call("sip:bob@elsewhere.test;maddr=10.0.0.8");
    scene.run(2_000);
    assert_eq!((scene.status(), victim.received(&scene)), (404, Vec::new()));
}

/// §20.14: a datagram may leave it out, a stream must not.
fn content_length() {
    let by_tcp = |_: &_| targets(&[&["sip:bob@10.0.0.3:5060;transport=tcp"]]);
    let mut scene = Scene::new(1, by_tcp, vec![]);
    let (caller, bob) = (Peer::new(&mut scene, 8), Peer::new(&mut scene, 3));
    let message = "MESSAGE sip:bob@10.0.0.1 SIP/2.0\r\nVia: SIP/2.0/UDP 10.0.0.8:5060;branch=z9hG4bK-1\r\n\
                   Max-Forwards: 70\r\nFrom: <sip:x@elsewhere.test>;tag=x\r\nTo: <sip:bob@10.0.0.1>\r\n\
                   Call-ID: c\r\nCSeq: 1 MESSAGE\r\nContent-Type: text/plain\r\n\r\nhello";
    scene.world.send(caller.id, caller.addr, SERVER, message);
    scene.run(100);
    let forwarded = bob.last(&scene, "MESSAGE");
    assert!(header(&forwarded, "Via").starts_with("SIP/2.0/TCP "), "{forwarded}");
    assert_eq!(header(&forwarded, "Content-Length"), "5");
    assert!(forwarded.ends_with("\r\n\r\nhello"), "{forwarded}");
}

fn cancel_without_context() {
    let (scene, caller, bob) = asked(Raw { method: "CANCEL", contact: "", ..INVITE });
    caller.last(&scene, "SIP/2.0 481 ");
    assert_eq!(bob.received(&scene), [""; 0]);
}

const TLS: SocketAddr = SocketAddr::new(SERVER.ip(), 5061);
const SIPS_INVITE: Raw<'_> = Raw { uri: "sips:bob@example.test", to: "<sips:bob@example.test>", ..INVITE };

fn settings_with_tls() -> EndpointSettings {
    let mut settings = server::settings(1);
    settings.listeners.push(Listener::new(Transport::Tls, TLS));
    settings
}

/// The phone registers as bob, by the transport of its address.
fn register_phone(scene: &mut Scene, phone: &mut Peer, to: SocketAddr, contact: &str) {
    let register = Raw {
        method: "REGISTER",
        uri: "sip:example.test",
        from: "<sip:bob@example.test>;tag=r",
        to: "<sip:bob@example.test>",
        call_id: contact,
        contact,
        ..Raw::default()
    };
    phone.send_to(scene, to, register);
    let challenge = phone.last(scene, "SIP/2.0 401 ");
    let lines = accounts::credentials(&challenge, "bob", "secret", "REGISTER", "sip:example.test");
    phone.send_to(scene, to, Raw { lines: &lines, ..register });
    phone.last(scene, "SIP/2.0 200 ");
}

fn sips_without_tls() {
    let server = Server::new(settings_with_tls(), accounts::plan).with_account("bob", false);
    let mut scene = Scene::build(1, server, vec![]);
    let (mut caller, mut phone) = (Peer::new(&mut scene, 8), Peer::new(&mut scene, 3));
    let refusal = |scene: &mut Scene, caller: &mut Peer, call_id: &str| {
        caller.send(scene, Raw { call_id, ..SIPS_INVITE });
        header(&caller.last(scene, "SIP/2.0 480 "), "Warning")
    };
    // The same before there is a phone: a stranger learns nothing of it.
    let expected = "380 10.0.0.1:5060 \"SIPS Not Allowed\"";
    assert_eq!(refusal(&mut scene, &mut caller, "c0"), expected);
    register_phone(&mut scene, &mut phone, SERVER, "<sip:bob@10.0.0.3:5060>");
    assert_eq!(refusal(&mut scene, &mut caller, "c1"), expected);
    assert!(phone.received(&scene).iter().all(|text| !text.starts_with("INVITE")));
    // A phone by TLS beside it is the only one that is called.
    let mut secure = Peer::at(&mut scene, SocketAddr::new(address(4).ip(), 5061));
    register_phone(&mut scene, &mut secure, TLS, "<sips:bob@10.0.0.4:5061>");
    caller.send(&mut scene, Raw { call_id: "c2", ..SIPS_INVITE });
    let invite = secure.last(&scene, "INVITE sips:bob@10.0.0.4:5061 SIP/2.0\r\n");
    assert!(header(&invite, "Via").starts_with("SIP/2.0/TLS 10.0.0.1:5061;"), "{invite}");
    assert!(phone.received(&scene).iter().all(|text| !text.starts_with("INVITE")));
}

fn sips_by_tls() {
    let by_tls = |_: &_| targets(&[&["sip:bob@10.0.0.3:5060"], &["sip:bob@10.0.0.4:5061;transport=tls"]]);
    let mut scene = Scene::with(1, settings_with_tls(), by_tls, vec![]);
    let (mut caller, clear) = (Peer::new(&mut scene, 8), Peer::new(&mut scene, 3));
    let mut secure = Peer::at(&mut scene, SocketAddr::new(address(4).ip(), 5061));
    caller.send(&mut scene, SIPS_INVITE);
    assert_eq!(clear.received(&scene), [""; 0]);
    let invite = secure.last(&scene, "INVITE sips:bob@10.0.0.4:5061;transport=tcp SIP/2.0\r\n");
    let routes = record_routes(&invite);
    assert!(routes[0].starts_with("<sips:10.0.0.1:5061;lr;t="), "{routes:?}");
    assert!(routes[1].starts_with("<sip:10.0.0.1:5060;lr;t="), "the caller came by UDP: {routes:?}");
    // By these the callee's requests come back.
    secure.respond(&mut scene, &invite, "200 OK", "b", "", "Contact: <sips:bob@10.0.0.4:5061>\r\n");
    let ok = caller.last(&scene, "SIP/2.0 200 ");
    let (from, to) = (header(&ok, "To"), header(&ok, "From"));
    let (uri, route) = (contact(&invite), route_of_request(&invite));
    let bye =
        Raw { method: "BYE", uri: &uri, route: &route, from: &from, to: &to, call_id: "c", ..Raw::default() };
    secure.send_to(&mut scene, TLS, bye);
    assert!(!caller.last(&scene, "BYE ").contains("\r\nRoute:"));
}

/// The packets that the peer has, with repetitions.
fn count(scene: &Scene, peer: &Peer) -> usize {
    scene.world.node::<Mailbox>(peer.id).letters().len()
}

fn one_transaction() {
    let mut scene = Scene::new(1, to_bob, vec![]);
    let (caller, bob) = (Peer::new(&mut scene, 8), Peer::new(&mut scene, 3));
    let message = "MESSAGE sip:bob@10.0.0.1 SIP/2.0\r\nVia: SIP/2.0/UDP 10.0.0.8:5060;branch=z9hG4bK-1\r\n\
                   Max-Forwards: 70\r\nFrom: <sip:x@elsewhere.test>;tag=x\r\nTo: <sip:bob@10.0.0.1>\r\n\
                   Call-ID: c\r\nCSeq: 1 MESSAGE\r\nContent-Length: 0\r\n\r\n";
    for _ in 0..3 {
        scene.world.send(caller.id, caller.addr, SERVER, message);
    }
    // Less than Timer E of our own transaction.
    scene.run(100);
    assert_eq!(count(&scene, &bob), 1);
    let forwarded = bob.last(&scene, "MESSAGE");
    bob.respond(&mut scene, &forwarded, "200 OK", "b", "", "");
    let (before, answers) = (count(&scene, &bob), count(&scene, &caller));
    scene.world.send(caller.id, caller.addr, SERVER, message);
    scene.run(100);
    assert_eq!((count(&scene, &bob), count(&scene, &caller)), (before, answers + 1));
}

fn stateless_ack() {
    let (mut scene, caller, bob) = asked(INVITE);
    let invite = bob.last(&scene, "INVITE");
    bob.respond(&mut scene, &invite, "200 OK", "b", "", "Contact: <sip:bob@10.0.0.3:5060>\r\n");
    let ok = caller.last(&scene, "SIP/2.0 200 ");
    let ack = format!(
        "ACK {} SIP/2.0\r\nVia: SIP/2.0/UDP 10.0.0.8:5060;branch=z9hG4bK-ack\r\nMax-Forwards: 70\r\nRoute: {}\r\n\
         From: {}\r\nTo: {}\r\nCall-ID: c\r\nCSeq: 1 ACK\r\nContent-Length: 0\r\n\r\n",
        contact(&ok),
        route_of_response(&ok),
        header(&ok, "From"),
        header(&ok, "To"),
    );
    let before = count(&scene, &bob);
    for _ in 0..2 {
        scene.world.send(caller.id, caller.addr, SERVER, ack.clone());
    }
    scene.run(100);
    let acks = &scene.world.node::<Mailbox>(bob.id).letters()[before..];
    assert!(acks.len() == 2 && acks[0].bytes == acks[1].bytes, "{acks:?}");
    assert!(header(&acks[0].text(), "Via").contains(";branch=z9hG4bK"), "{acks:?}");
}

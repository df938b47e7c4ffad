//! RFC 3261 §16: the proxy.

use std::collections::BTreeSet;

use super::{Row, body, none, test};
use crate::raw::{Peer, Raw, header};
use crate::{Scene, targets, to_bob};

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
        "sim/tests/calls/accounts.rs::who_claims_to_be_ours_proves_it",
    ),
    test(
        "16.4",
        "What a strict router has put into the Request-URI is put back",
        "sim/tests/calls/routes.rs::a_strict_router_before_us",
    ),
    none(
        "16.4",
        "An maddr in the Request-URI that names the proxy is stripped",
        "it is judged as any other host",
    ),
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
    body("16.5", "A target is added once", targets_once),
    body("16.6 step 1", "All headers are copied in their order, and the body as it is", copied),
    body("16.6 step 2", "The Request-URI is the target's", new_request_uri),
    test("16.6 step 3", "Max-Forwards is one less, or 70", "sim/tests/calls/routes.rs::max_forwards"),
    test(
        "16.6 step 4",
        "Record-Route has a URI with lr for either side",
        "sim/tests/calls/routes.rs::udp_calls_tcp",
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
    none("16.6 step 9", "Content-Length is added on a stream", "seen in live tests only"),
    test(
        "16.6 step 11, 16.8",
        "Timer C ends a ringing branch",
        "sim/tests/calls/forks.rs::who_never_answers_is_408_and_timer_c_ends_a_ring_without_end",
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
    test("16.10", "A CANCEL ends the branches", "sim/tests/calls/cancels.rs::while_it_rings"),
    none(
        "16.10",
        "A CANCEL without a context is forwarded",
        "answered 481: nothing is forwarded statelessly",
    ),
    none("16.11", "Stateless proxying", "every request has a transaction, but an ACK to a 2xx"),
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
    let (scene, caller, bob) = asked(Raw { lines: "Proxy-Require: path, wings\r\n", ..INVITE });
    assert_eq!(header(&caller.last(&scene, "SIP/2.0 420 "), "Unsupported"), "wings");
    assert_eq!(bob.received(&scene), [""; 0]);
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

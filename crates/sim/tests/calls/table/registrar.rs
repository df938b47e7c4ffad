//! RFC 3261 §10.3: the registrar.

use super::{Row, body, test};
use crate::raw::{Peer, Raw, header};
use crate::{Scene, accounts, bob};

pub(super) const ROWS: &[Row] = &[
    body("10.3", "Record-Route in a REGISTER is ignored, and none is in the response", record_route),
    test(
        "10.3",
        "Requests for one address are processed one after the other, each wholly or not at all",
        "router/tests/router/location.rs::concurrent_registers_see_each_other",
    ),
    test(
        "10.3 step 1",
        "A domain that is not served is not registered in",
        "sim/tests/calls/accounts.rs::other_domains_are_not_ours",
    ),
    test(
        "10.3 step 2",
        "An unknown option tag in Require is answered 420",
        "sip/src/registrar/tests.rs::unknown_extensions_are_named",
    ),
    test(
        "10.3 step 3",
        "The user agent is authenticated",
        "sim/tests/calls/accounts.rs::wrong_passwords_are_slowed_down_and_the_right_one_gets_in",
    ),
    body("10.3 step 4", "An account changes no bindings but its own", other_account),
    test(
        "10.3 step 5",
        "An address of record that is not valid is not registered",
        "sim/tests/calls/accounts.rs::the_unknown_look_like_the_mistaken",
    ),
    body("10.3 step 5", "The address of record loses URI parameters and escapes", canonical_form),
    test(
        "10.3 step 6",
        "Without a Contact nothing changes, and the bindings are listed",
        "sip/src/registrar/tests.rs::no_contact_is_a_query",
    ),
    test(
        "10.3 step 6",
        "`*` with other contacts, or an interval other than 0, is answered 400",
        "sip/src/registrar/tests.rs::a_star_stands_alone_and_removes",
    ),
    test(
        "10.3 step 6",
        "`*` removes every binding, unless the CSeq is not higher under its Call-ID",
        "router/tests/router/location.rs::remove_all_removes_all",
    ),
    test(
        "10.3 step 7",
        "The interval is that of the parameter, then that of Expires, then the registrar's",
        "sip/src/registrar/tests.rs::intervals_are_granted",
    ),
    body(
        "10.3 step 7",
        "No interval is longer than it was asked for, or than the registrar's longest",
        granted,
    ),
    test(
        "10.3 step 7",
        "423 with Min-Expires is for less than an hour only",
        "sip/src/registrar/tests.rs::an_hour_is_never_too_brief",
    ),
    test(
        "10.3 step 7",
        "A binding under the same Call-ID needs a higher CSeq",
        "router/tests/router/location.rs::the_same_call_id_needs_a_higher_cseq",
    ),
    test(
        "10.3 step 7",
        "A request fails as a whole",
        "router/tests/router/location.rs::one_contact_out_of_order_spoils_the_whole_request",
    ),
    test(
        "10.3 step 7",
        "Contacts are compared by the rules of §19.1.4",
        "router/src/contact.rs::equal_uris_have_equal_keys",
    ),
    test(
        "10.3 step 7",
        "A failure of the database is answered 503, and nothing is bound",
        "router/tests/router/location.rs::a_failed_write_changes_nothing_and_nothing_builds_on_it",
    ),
    body("10.3 step 8", "The 200 lists every binding with its interval, and has a Date", listed),
    body("10.3", "A 3rd-party registration needs the credentials of the address of record", third_party),
];

fn scene() -> Scene {
    Scene::build(1, accounts::server(), vec![bob()])
}

/// A REGISTER with bob's password, for an address as the test writes it.
fn register_to(scene: &mut Scene, to: &str, lines: &str) -> String {
    register_raw(scene, Raw { to, ..REGISTER }, lines)
}

const REGISTER: Raw<'_> = Raw {
    method: "REGISTER",
    uri: "sip:example.test",
    route: "",
    from: "<sip:bob@example.test>;tag=x",
    to: "<sip:bob@example.test>",
    call_id: "c",
    contact: "<sip:bob@10.0.0.8:5060>",
    lines: "",
};

/// The request, and again with bob's password; `lines` stand in the second one.
fn register_raw(scene: &mut Scene, raw: Raw<'_>, lines: &str) -> String {
    let mut peer = Peer::new(scene, 8);
    register_by(scene, &mut peer, raw, lines)
}

fn register_by(scene: &mut Scene, peer: &mut Peer, raw: Raw<'_>, lines: &str) -> String {
    peer.send(scene, raw);
    let challenge = peer.last(scene, "SIP/2.0 401");
    let credentials = accounts::credentials(&challenge, "bob", "secret", "REGISTER", "sip:example.test");
    peer.send(scene, Raw { lines: &(credentials + lines), ..raw });
    peer.last(scene, "SIP/2.0")
}

fn record_route() {
    let mut scene = scene();
    let lines = "Record-Route: <sip:10.0.0.9;lr>\r\n";
    let ok = register_to(&mut scene, "<sip:bob@example.test>", lines);
    assert!(ok.starts_with("SIP/2.0 200 ") && !ok.contains("Record-Route"), "{ok}");
    let phone = Peer::new(&mut scene, 8);
    scene.call("sip:bob@example.test");
    scene.run(100);
    assert!(!phone.last(&scene, "INVITE").contains("\r\nRoute:"));
}

fn other_account() {
    let mut scene = scene();
    let answer = register_to(&mut scene, "<sip:alice@example.test>", "");
    assert!(answer.starts_with("SIP/2.0 401 "), "{answer}");
    scene.call("sip:alice@example.test");
    scene.run(1_000);
    assert_eq!(scene.status(), 480);
}

fn canonical_form() {
    let mut scene = scene();
    let ok = register_to(&mut scene, "<sip:%62ob@EXAMPLE.test;user=phone>", "");
    assert!(ok.starts_with("SIP/2.0 200 "), "{ok}");
    let phone = Peer::new(&mut scene, 8);
    scene.call("sip:bob@example.test");
    scene.run(100);
    phone.last(&scene, "INVITE");
}

fn listed() {
    let mut scene = scene();
    let ok = register_to(&mut scene, "<sip:bob@example.test>", "Expires: 300\r\n");
    assert!(ok.contains("<sip:bob@10.0.0.8:5060>;expires=300\r\n"), "{ok}");
    assert!(header(&ok, "Date").ends_with(" GMT"), "{ok}");
    let both = accounts::register(&mut scene, "secret");
    for contact in ["<sip:bob@10.0.0.8:5060>;expires=", "<sip:bob@10.0.0.3:5060>;expires=60"] {
        assert!(both.contains(contact), "{both}");
    }
}

/// Also where the time is no whole second, with which a binding ends.
fn granted() {
    for millis in [0, 1, 250, 500, 999] {
        let mut scene = scene();
        scene.run(millis);
        let (mut peer, mut other) = (Peer::new(&mut scene, 8), None);
        for (asked, granted) in [(60, 60), (61, 61), (3_599, 3_599), (3_600, 3_600), (100_000, 3_600)] {
            let contact = format!("<sip:bob@10.0.0.8:5060;line={asked}>");
            let raw = Raw { contact: &contact, ..REGISTER };
            let ok = register_by(&mut scene, &mut peer, raw, &format!("Expires: {asked}\r\n"));
            assert!(ok.contains(&format!("{contact};expires={granted}\r\n")), "{millis}: {ok}");
            // Those of other requests have no more left than they were granted.
            if let Some((contact, granted)) = other.replace((contact, granted)) {
                let left = ok.split_once(&format!("{contact};expires=")).unwrap().1.lines().next().unwrap();
                assert!((granted - 2..=granted).contains(&left.parse().unwrap()), "{millis}: {ok}");
            }
        }
    }
}

/// §10.2: the From of a third party is not the To.
fn third_party() {
    let mut scene = scene();
    let from = "<sip:secretary@elsewhere.test>;tag=x";
    let ok = register_raw(&mut scene, Raw { from, ..REGISTER }, "");
    assert!(ok.starts_with("SIP/2.0 200 ") && ok.contains("<sip:bob@10.0.0.8:5060>"), "{ok}");
    let mut scene = self::scene();
    let to = "<sip:alice@example.test>";
    let refused = register_raw(&mut scene, Raw { from, to, ..REGISTER }, "");
    assert!(refused.starts_with("SIP/2.0 401 "), "{refused}");
}

/// RFC 5627 §5.2, RFC 3327 §5.3 and RFC 5626 §6: each only for a user agent that supports it.
pub(super) fn extensions() {
    let instance = "\"<urn:uuid:00000000-0000-1000-8000-000a95a0e128>\"";
    let contact = format!("<sip:bob@10.0.0.8:5060>;reg-id=1;+sip.instance={instance}");
    let registered = |lines: &str| {
        let mut scene = scene();
        let ok = register_raw(&mut scene, Raw { contact: &contact, ..REGISTER }, lines);
        assert!(ok.starts_with("SIP/2.0 200 "), "{ok}");
        ok
    };
    let plain = registered("");
    for extension in ["gruu=", "Path:", "Require:", "Flow-Timer:"] {
        assert!(!plain.contains(extension), "{extension} in {plain}");
    }
    assert!(registered("Supported: gruu\r\n").contains(";pub-gruu="));
    assert_eq!(header(&registered("Supported: outbound, path\r\n"), "Require"), "outbound");
}

//! The texts that peers keep for us and any node of a farm reads: parameters of our Via, Record-Route and Contact, tags and nonces. A
//! node must read those of the version before, and write what that version reads.

use golden::Golden;
use router::{FlowId, Life, Received, ShardAddress};
use stdx::Instant;

use super::Environment;
use super::call_stamp::{CallStamp, call_stamp_text, parse_call_stamp};
use super::response_route::{ResponseRoute, response_route_of_other_life, write_response_route};
use super::route_token::{
    CertifiedContact, DialogId, FlowText, RemoteTarget, Token, TokenKind, target_proof, write_certified,
};
use crate::digest::{NonceScope, NonceSettings, NonceVerdict, Nonces};
use crate::endpoint::EndpointSettings;
use crate::proxy::{ResponseEdit, WayBack};
use crate::transport::{Source, Transport};
use crate::wire::{Message, Uri, Via};

/// The version whose forms these are, and the one before it, which is the same until there is a second one.
const VERSIONS: (u16, u16) = (1, 1);

const CALL_ID: &[u8] = b"1-4711@192.0.2.9";
const CALLER_TAG: &[u8] = b"a1";
const TARGET: &[u8] = b"sip:bob@192.0.2.7:5062";
const DIALOG: DialogId<'static> = DialogId { call_id: CALL_ID, remote_tag: b"b2", local_tag: CALLER_TAG };
const ROUTES: [&[u8]; 1] = [b"<sip:proxy.example.net;lr>"];

fn kept() -> Golden {
    Golden::new(env!("CARGO_MANIFEST_DIR"), "src/endpoint/environment/golden", VERSIONS.1)
}

/// The node that wrote the texts, and the one that reads them and counts it as dead.
const WRITER: ShardAddress = ShardAddress { life: Life(28_163_498), shard: 3 };
const READER: ShardAddress = ShardAddress { life: Life(28_163_499), shard: 0 };

fn environment(edge: ShardAddress) -> Environment {
    let settings = EndpointSettings::for_tests(edge, "127.0.0.1:5060".parse().unwrap());
    let mut environment = Environment::new(settings);
    environment.dead_lives = Some([WRITER.life].into());
    environment
}

fn at(millis: u64) -> Instant {
    Instant::from_micros(1_800_000_000_000_000 + millis * 1_000)
}

fn received(remote: &str, flow: Option<u64>) -> Received {
    Received {
        transport: Transport::Udp,
        local: "127.0.0.1:5060".parse().unwrap(),
        remote: remote.parse().unwrap(),
        flow: flow.map(|number| FlowId { edge: WRITER, number }),
    }
}

fn invite() -> Message {
    let text = "INVITE sip:bob@example.test SIP/2.0\r\n\
        Via: SIP/2.0/UDP 192.0.2.9:5060;branch=z9hG4bK1\r\nMax-Forwards: 70\r\n\
        From: <sip:alice@192.0.2.9>;tag=a1\r\nTo: <sip:bob@example.test>\r\n\
        Call-ID: 1-4711@192.0.2.9\r\nCSeq: 1 INVITE\r\nContent-Length: 0\r\n\r\n";
    Message::parse(text.into()).unwrap()
}

/// A way back of each kind.
fn response_routes() -> [(&'static str, ResponseRoute); 3] {
    let route = |edit, is_only| ResponseRoute {
        downstream: received("192.0.2.7:5062", None),
        upstream: received("[2001:db8::9]:5060", Some(77)),
        edit,
        is_only,
    };
    let record_route = ResponseEdit::RecordRoute { token: 1 << 60, way: WayBack::Checked };
    let contact = ResponseEdit::Contact { known: 7, way: WayBack::Followed };
    [
        ("via-plain", route(ResponseEdit::None, true)),
        ("via-record-route", route(record_route, true)),
        ("via-contact", route(contact, false)),
    ]
}

fn call_stamps() -> [(&'static str, CallStamp); 2] {
    let stamp = CallStamp { life: WRITER.life, start: at(0), answer: None };
    [("call-begun", stamp), ("call-answered", CallStamp { answer: Some(at(2_500)), ..stamp })]
}

fn tokens() -> [(&'static str, TokenKind); 2] {
    [("route-of-request", TokenKind::Request), ("route-of-response", TokenKind::Response)]
}

fn nonce_scope() -> NonceScope<'static> {
    NonceScope { realm: "example.test", call_id: CALL_ID, source: [192, 0, 2, 9].into() }
}

fn nonces() -> Nonces {
    Nonces::new([9; 16], NonceSettings::default(), at(0))
}

fn check(name: &str, text: &[u8]) {
    kept().check(&format!("{name}.txt"), std::str::from_utf8(text).unwrap());
}

#[test]
fn released_forms_are_closed() {
    kept().assert_released_are_closed();
}

#[test]
fn each_text_is_written_as_in_its_file() {
    let env = environment(WRITER);
    for (name, route) in response_routes() {
        let mut via = Vec::new();
        let branch = env.branch_of(&invite(), 0, 0);
        env.write_via(&mut via, 0, &branch);
        write_response_route(&env, &mut via, &branch, &route);
        check(name, &via);
    }
    for (name, stamp) in call_stamps() {
        check(name, &call_stamp_text(&env, &stamp, CALL_ID, CALLER_TAG));
    }
    let flow = FlowText::of(&received("192.0.2.7:5062", Some(5)), &env.listeners.all).unwrap();
    for (name, kind) in tokens() {
        let mut uri = b"sip:127.0.0.1:5060;lr".to_vec();
        let routes = ROUTES.iter().copied();
        Token::new(&env.keys.route, kind, &DIALOG, flow.as_bytes(), routes, &RemoteTarget::of(TARGET))
            .write_params(&mut uri, flow.as_bytes());
        check(name, &uri);
    }
    let mut contact = Vec::new();
    let proof = target_proof(&env.keys.route, &DIALOG, flow.as_bytes(), &RemoteTarget::of(TARGET));
    write_certified(&mut contact, TARGET, proof, flow.as_bytes());
    check("contact", &contact);
    let source = Source {
        transport: Transport::Udp,
        local: "127.0.0.1:5060".parse().unwrap(),
        remote: "192.0.2.9:5060".parse().unwrap(),
        flow: None,
    };
    check("to-tag", env.tag_of(&invite(), &source).as_bytes());
    check("nonce", nonces().issue(at(1), nonce_scope()).as_bytes());
}

/// Texts as a node of the version before wrote them, at another node of this one.
#[test]
fn texts_of_the_version_before_are_read() {
    let env = environment(READER);
    let files = kept().files(VERSIONS.0);
    let text = |name: &str| files[&format!("{name}.txt")].as_bytes();
    for (name, route) in response_routes() {
        let via = Via::parse(text(name)).unwrap();
        assert_eq!(response_route_of_other_life(&env, &via), Some(route), "{name}");
    }
    for (name, stamp) in call_stamps() {
        assert_eq!(parse_call_stamp(&env, text(name), CALL_ID, CALLER_TAG), Some(stamp), "{name}");
    }
    for (name, kind) in tokens() {
        let uri = Uri::parse(text(name)).unwrap();
        let token = Token::parse(&uri).unwrap();
        let flow = uri.params.get("f").unwrap();
        assert_eq!(token.kind, kind);
        assert!(token.fits(&env.keys.route, &DIALOG, flow, ROUTES.iter().copied()), "{name}");
        let way = FlowText::parse(flow, &env.listeners.all);
        assert_eq!(way, Some(received("192.0.2.7:5062", Some(5))), "{name}");
    }
    let contact = CertifiedContact::of(&env.keys.route, &DIALOG, text("contact")).unwrap();
    assert_eq!(contact.uri, TARGET);
    let verdict = nonces().check(at(2), text("nonce"), nonce_scope(), 1);
    assert!(matches!(verdict, NonceVerdict::Good(_)), "{verdict:?}");
}

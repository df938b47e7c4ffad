//! Accounts: registrations, calls, and the answers to them.

use std::sync::Arc;

use sip::digest::Ha1s;
use sip::endpoint::{Caller, Decision, EndpointSettings, Intake, PlanRequest, RoutePeer, RoutePeers};

use crate::phone::Phone;
use crate::raw::{Peer, Raw, header};
use crate::server::{self, DOMAIN, Server};
use crate::{SERVER, Scene, address, bob, carol, targets};

/// Our accounts are looked up; a caller that claims one must prove it; requests to other domains are not
/// relayed.
pub(crate) fn plan(request: &PlanRequest) -> Decision {
    if request.claims.is_some() {
        Decision::Authenticate
    } else if &*request.host == DOMAIN {
        Decision::Local { user: request.user.clone(), domain: request.host.clone() }
    } else {
        Decision::Refuse { status: 404, reason: "Not Found".into() }
    }
}

/// With accounts for alice, bob, and one that is disabled.
pub(crate) fn server() -> Server {
    Server::new(server::settings(1), plan)
        .with_account("alice", false)
        .with_account("bob", false)
        .with_account("gone", true)
}

fn scene() -> Scene {
    Scene::build(1, server(), vec![bob()])
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The credentials that answer the SHA-256 challenge in `refusal` (RFC 7616 §3.4).
pub(crate) fn credentials(refusal: &str, user: &str, password: &str, method: &str, uri: &str) -> String {
    let (name, challenge) = refusal
        .lines()
        .filter_map(|line| line.split_once("-Authenticate: "))
        .find(|(_, challenge)| challenge.contains("SHA-256,"))
        .unwrap();
    let header = if name == "WWW" { "Authorization" } else { "Proxy-Authorization" };
    let nonce = challenge.split_once("nonce=\"").unwrap().1.split_once('"').unwrap().0;
    // H over three parts with colons between them is what an HA1 is.
    let hash = |a: &str, b: &str, c: &str| hex(&Ha1s::compute(a, b, c).sha256);
    let (scheme, rest) = uri.split_once(':').unwrap();
    let ha2 = hash(method, scheme, rest);
    let response = hash(&hash(user, DOMAIN, password), &format!("{nonce}:00000001:c:auth"), &ha2);
    format!(
        "{header}: Digest username=\"{user}\", realm=\"{DOMAIN}\", nonce=\"{nonce}\", uri=\"{uri}\", \
         algorithm=SHA-256, qop=auth, nc=00000001, cnonce=\"c\", response=\"{response}\"\r\n"
    )
}

/// Sends the request as a phone does, challenge and all, and returns the last answer.
pub(crate) fn ask(scene: &mut Scene, method: &'static str, uri: &str, lines: &str, password: &str) -> String {
    ask_at(1_000, scene, method, uri, lines, password)
}

/// As `ask`, so many milliseconds after each request.
fn ask_at(
    pace: u64,
    scene: &mut Scene,
    method: &'static str,
    uri: &str,
    lines: &str,
    password: &str,
) -> String {
    let (uri, lines, id) = (uri.to_owned(), lines.to_owned(), scene.callees[0]);
    let send = |scene: &mut Scene, uri: String, lines: String| {
        scene.world.act(id, move |phone: &mut Phone, now, out| phone.request(now, method, &uri, &lines, out));
        scene.run(pace);
        scene.callee(0).finals.last().unwrap().1.clone()
    };
    let first = send(scene, uri.clone(), lines.clone());
    if !first.starts_with("SIP/2.0 401 ") && !first.starts_with("SIP/2.0 407 ") {
        return first;
    }
    let credentials = credentials(&first, "bob", password, method, &uri);
    send(scene, uri, credentials + &lines)
}

/// The first callee registers as bob.
pub(crate) fn register(scene: &mut Scene, password: &str) -> String {
    ask(scene, "REGISTER", "sip:example.test", "Expires: 600\r\n", password)
}

#[test]
fn a_phone_registers_and_is_called() {
    let mut scene = scene();
    scene.call("sip:bob@example.test");
    scene.run(1_000);
    assert_eq!(scene.status(), 480, "no phone is there");
    let ok = register(&mut scene, "secret");
    assert!(ok.starts_with("SIP/2.0 200 "), "{ok}");
    assert!(ok.contains("<sip:bob@10.0.0.3:5060>;expires="), "{ok}");
    scene.call("sip:bob@example.test");
    scene.run(2_000);
    assert_eq!(scene.status(), 200);
    scene.hang_up();
    scene.rest();
}

#[test]
fn a_phone_behind_nat_is_called_where_it_registered_from() {
    let mut scene = scene();
    let phone = scene.callees[0];
    scene.world.node_mut::<Phone>(phone).inside = "192.168.7.7:5060".parse().unwrap();
    assert!(register(&mut scene, "secret").starts_with("SIP/2.0 200 "));
    scene.call("sip:bob@example.test");
    scene.run(2_000);
    assert_eq!(scene.status(), 200);
    assert!(scene.callee(0).calls[0].acknowledged, "the ACK finds it too");
    scene.hang_up();
    scene.run(1_000);
    assert!(scene.callee(0).calls[0].ended);
    scene.rest();
}

/// A wrong password is challenged again; one source that goes on is answered 503 unread, and never for long.
#[test]
fn wrong_passwords_are_slowed_down_and_the_right_one_gets_in() {
    let mut scene = scene();
    let mut refused = 0;
    for _ in 0..40 {
        let answer = ask_at(50, &mut scene, "REGISTER", "sip:example.test", "", "wrong");
        let is_paced = answer.starts_with("SIP/2.0 503 ");
        assert!(is_paced || answer.starts_with("SIP/2.0 401 "), "{answer}");
        assert_eq!(is_paced, answer.contains("Retry-After: "), "{answer}");
        refused += usize::from(is_paced);
    }
    assert!(refused > 10, "{refused} of 40");
    scene.run(2_000);
    assert!(register(&mut scene, "secret").starts_with("SIP/2.0 200 "));
    scene.rest();
}

/// Answers do not reveal which accounts exist: unknown, disabled and wrong password get the same.
#[test]
fn the_unknown_look_like_the_mistaken() {
    let shape = |user: &'static str, password: &str| {
        let mut scene = scene();
        let phone = scene.callees[0];
        scene.world.node_mut::<Phone>(phone).name = user;
        let uri = "sip:example.test".to_owned();
        let mut send = |lines: String| {
            let uri = uri.clone();
            scene.world.act(phone, move |phone: &mut Phone, now, out| {
                phone.request(now, "REGISTER", &uri, &lines, out);
            });
            scene.run(1_000);
            scene.callee(0).finals.last().unwrap().1.clone()
        };
        let first = send(String::new());
        let answer = send(credentials(&first, user, password, "REGISTER", "sip:example.test"));
        // Names of headers, and the status: the values differ for each request.
        answer.lines().map(|line| line.split([':', '=']).next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let wrong = shape("bob", "wrong");
    assert!(wrong[0].starts_with("SIP/2.0 401 "), "{wrong:?}");
    assert_eq!(shape("nobody", "secret"), wrong);
    assert_eq!(shape("gone", "secret"), wrong);
}

#[test]
fn a_caller_that_claims_a_local_account_must_authenticate() {
    let mut scene = scene();
    let from = "From: <sip:alice@example.test>;tag=1\r\n";
    let call = |scene: &mut Scene, lines: String| {
        scene.world.act(scene.alice, move |phone: &mut Phone, now, out| {
            phone.call_with(now, "sip:bob@example.test", &lines, out);
        });
        scene.run(2_000);
        scene.alice().finals.last().map(|(_, text)| text.clone()).unwrap_or_default()
    };
    let refusal = call(&mut scene, from.into());
    assert!(refusal.starts_with("SIP/2.0 407 "), "{refusal}");
    register(&mut scene, "secret");
    // A nonce is for one Call-ID.
    let lines = credentials(&refusal, "alice", "secret", "INVITE", "sip:bob@example.test");
    call(&mut scene, format!("{from}Call-ID: call-alice-1\r\n{lines}"));
    assert_eq!(scene.status(), 200);
    scene.hang_up();
    scene.run(1_000);
    // Bob's password does not authenticate alice.
    let refusal = call(&mut scene, format!("{from}Call-ID: third\r\n"));
    let lines = credentials(&refusal, "bob", "secret", "INVITE", "sip:bob@example.test");
    call(&mut scene, format!("{from}Call-ID: third\r\n{lines}"));
    assert_eq!(scene.status(), 407);
    scene.rest();
}

/// Numbers are an account's to call, by a gateway at host 4 that is trusted.
fn scene_with_gateway() -> Scene {
    let plan = |request: &PlanRequest| match &request.caller {
        Caller::Account(_) if request.user.starts_with("00") => targets(&[&["sip:0049@10.0.0.4:5060"]]),
        _ => plan(request),
    };
    let peer = RoutePeer {
        host: "10.0.0.4".into(),
        port: Some(5060),
        transport: None,
        is_trusted: true,
        has_certificate: false,
    };
    let route_peers = Arc::new(RoutePeers::new(vec![peer], vec![]));
    let server = Server::new(EndpointSettings { route_peers, ..server::settings(1) }, plan);
    let server = server.with_account("alice", false).with_account("bob", false);
    Scene::build(1, server, vec![bob(), carol()])
}

const ANONYMOUS: &str = "From: \"Anonymous\" <sip:anonymous@anonymous.invalid>;tag=1\r\nPrivacy: id\r\n";
const GATEWAY_URI: &str = "sip:0049@example.test";

/// A call without the caller's number, and its final status. The last refusal is what it returns.
fn call_anonymously(scene: &mut Scene, uri: &'static str, call_id: &str, lines: &str) -> (u16, String) {
    let lines = format!("{ANONYMOUS}Call-ID: {call_id}\r\n{lines}");
    scene.world.act(scene.alice, move |phone: &mut Phone, now, out| phone.call_with(now, uri, &lines, out));
    scene.run(2_000);
    let refusal = scene.alice().finals.last().map(|(_, text)| text.clone()).unwrap_or_default();
    (scene.status(), refusal)
}

/// RFC 3323 §4.1.1.3, RFC 3325 §5 and §6: a phone that withholds its number says to its proxy alone whose it is.
#[test]
fn an_anonymous_caller_proves_its_account_by_preferred_identity() {
    let mut scene = scene_with_gateway();
    let preferred = "P-Preferred-Identity: \"Alice\" <sip:alice@example.test>\r\n";
    let (status, refusal) = call_anonymously(&mut scene, GATEWAY_URI, "one", preferred);
    assert_eq!(status, 407, "{refusal}");
    let lines = credentials(&refusal, "bob", "secret", "INVITE", GATEWAY_URI);
    let (status, refusal) = call_anonymously(&mut scene, GATEWAY_URI, "one", &(lines + preferred));
    assert_eq!(status, 407, "another account's password: {refusal}");
    assert!(scene.callee(1).requests.is_empty());
    let lines = credentials(&refusal, "alice", "secret", "INVITE", GATEWAY_URI);
    let (status, refusal) = call_anonymously(&mut scene, GATEWAY_URI, "one", &(lines + preferred));
    assert_eq!(status, 200, "{refusal}");
    let invite = &scene.callee(1).requests[0];
    assert!(invite.contains("\r\nP-Asserted-Identity: <sip:alice@example.test>\r\n"), "{invite}");
    assert!(invite.contains(ANONYMOUS), "{invite}");
    assert!(!invite.contains("P-Preferred") && !invite.contains("Proxy-Authorization"), "{invite}");
    scene.hang_up();
    // A claim beside another From is none: the caller is called by its From.
    let lines = format!("From: <sip:x@elsewhere.test>;tag=1\r\n{preferred}");
    scene.world.act(scene.alice, move |phone: &mut Phone, now, out| {
        phone.call_with(now, GATEWAY_URI, &lines, out);
    });
    scene.run(1_000);
    assert_eq!(scene.status(), 480);
    scene.rest();
}

/// RFC 3261 §22.3: without another word the account is that of the credentials, for which a refused caller is asked.
#[test]
fn an_anonymous_caller_proves_its_account_by_credentials_alone() {
    let mut scene = scene_with_gateway();
    let (status, refusal) = call_anonymously(&mut scene, GATEWAY_URI, "one", "");
    assert_eq!((status, header(&refusal, "CSeq").ends_with("INVITE")), (407, true), "{refusal}");
    for (user, password) in [("alice", "wrong"), ("nobody", "secret")] {
        let lines = credentials(&refusal, user, password, "INVITE", GATEWAY_URI);
        assert_eq!(call_anonymously(&mut scene, GATEWAY_URI, "one", &lines).0, 407, "{user}");
    }
    assert_eq!(scene.server().endpoint.counters().authentication_failures, 2);
    let lines = credentials(&refusal, "alice", "secret", "INVITE", GATEWAY_URI);
    let (status, refusal) = call_anonymously(&mut scene, GATEWAY_URI, "one", &lines);
    assert_eq!(status, 200, "{refusal}");
    let invite = &scene.callee(1).requests[0];
    assert!(invite.contains("\r\nP-Asserted-Identity: <sip:alice@example.test>\r\n"), "{invite}");
    scene.hang_up();
    // A caller of a trunk has no account here.
    let gateway = scene.callees[1];
    scene.world.act(gateway, |phone: &mut Phone, now, out| {
        phone.call_with(now, "sip:alice@example.test", ANONYMOUS, out);
    });
    scene.run(1_000);
    assert_eq!(scene.callee(1).calls.last().unwrap().status, 480);
    scene.rest();
}

#[test]
fn an_anonymous_caller_stays_anonymous_to_the_callee() {
    let mut scene = scene_with_gateway();
    assert!(register(&mut scene, "secret").starts_with("SIP/2.0 200 "));
    let uri = "sip:bob@example.test";
    let preferred = "P-Preferred-Identity: <sip:alice@example.test>\r\n";
    let (_, refusal) = call_anonymously(&mut scene, uri, "one", preferred);
    let lines = credentials(&refusal, "alice", "secret", "INVITE", uri);
    assert_eq!(call_anonymously(&mut scene, uri, "one", &(lines + preferred)).0, 200);
    let invite = scene.callee(0).requests.iter().find(|text| text.starts_with("INVITE ")).unwrap();
    assert!(invite.contains(ANONYMOUS), "{invite}");
    assert!(!invite.contains("alice@example.test") && !invite.contains("username"), "{invite}");
    scene.hang_up();
    scene.rest();
}

#[test]
fn other_domains_are_not_ours() {
    for uri in ["sip:bob@other.test", "sip:10.0.0.1"] {
        let mut scene = scene();
        scene.call(uri);
        scene.run(1_000);
        assert_eq!(scene.status(), 404, "{uri}");
        scene.rest();
    }
    let mut scene = scene();
    let answer = ask(&mut scene, "REGISTER", "sip:other.test", "", "secret");
    assert!(answer.starts_with("SIP/2.0 404 "), "{answer}");
}

/// An account without a phone, none, and one that is disabled: the same answer at the same time.
#[test]
fn strangers_do_not_learn_which_accounts_there_are() {
    for method in ["INVITE", "MESSAGE", "SUBSCRIBE", "OPTIONS", "PUBLISH", "INFO"] {
        let answers = ["bob", "nobody", "gone"].map(|user| {
            let mut scene = scene();
            let text = format!(
                "{method} sip:{user}@example.test SIP/2.0\r\nVia: SIP/2.0/UDP 10.0.0.2;branch=z9hG4bK-m\r\n\
                 Max-Forwards: 70\r\nFrom: <sip:carol@elsewhere.test>;tag=1\r\nTo: <sip:user@example.test>\r\n\
                 Call-ID: m\r\nCSeq: 1 {method}\r\nContact: <sip:carol@10.0.0.2>\r\nEvent: presence\r\n\
                 Content-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello"
            );
            scene.world.send(scene.alice, address(2), SERVER, text);
            scene.run(2_000);
            scene.world.ladder()
        });
        assert_eq!(answers[0], answers[1], "{method}");
        assert_eq!(answers[0], answers[2], "{method}");
        let status = if method == "MESSAGE" { "◀──202 " } else { "◀──4" };
        assert!(answers[0].contains(status), "{method}: {}", answers[0]);
    }
}

/// RFC 3261 §11: monitors ask with OPTIONS, and write a From of the domain that they ask, without a password. They
/// learn what any stranger learns, and reach what any stranger reaches.
#[test]
fn options_from_a_domain_of_ours_need_no_password() {
    let mut scene = scene();
    assert!(register(&mut scene, "secret").starts_with("SIP/2.0 200 "));
    let mut monitor = Peer::new(&mut scene, 8);
    for (method, from, uri, status) in [
        ("OPTIONS", "sipsak", "sip:example.test", "200"),
        ("OPTIONS", "sipsak", "sip:bob@example.test", "200"),
        ("OPTIONS", "bob", "sip:bob@example.test", "200"),
        ("OPTIONS", "sipsak", "sip:alice@example.test", "480"),
        ("OPTIONS", "sipsak", "sip:nobody@example.test", "480"),
        // An account may reach more than a stranger.
        ("OPTIONS", "bob", "sip:x@elsewhere.test", "407"),
        ("INVITE", "sipsak", "sip:bob@example.test", "407"),
        ("MESSAGE", "sipsak", "sip:bob@example.test", "407"),
    ] {
        let (from, call_id) = (format!("<sip:{from}@example.test>;tag=x"), format!("{method}-{from}-{uri}"));
        let to = format!("<{uri}>");
        let raw = Raw {
            method,
            uri,
            from: &from,
            to: &to,
            call_id: &call_id,
            contact: "<sip:x@10.0.0.8>",
            ..Raw::default()
        };
        monitor.send(&mut scene, raw);
        let answer = monitor.last(&scene, "SIP/2.0 ");
        assert!(answer.starts_with(&format!("SIP/2.0 {status} ")), "{method} {uri}: {answer}");
    }
    let answer = ask(&mut scene, "OPTIONS", "sip:x@elsewhere.test", "", "secret");
    assert!(answer.starts_with("SIP/2.0 404 "), "an account, by its password: {answer}");
    scene.rest();
}

/// RFC 3261 §7 and §21.4.1: the empty line belongs to a message. Without it a request is told so.
#[test]
fn a_datagram_without_its_empty_line_is_answered_or_counted() {
    const HEAD: &str = "Via: SIP/2.0/UDP 10.0.0.8:5060;branch=z9hG4bK-1;rport\r\nMax-Forwards: 70\r\n\
                        From: <sip:x@elsewhere.test>;tag=x\r\nTo: <sip:bob@example.test>\r\nCall-ID: c\r\n";
    for (text, is_answered) in [
        (
            format!("OPTIONS sip:bob@example.test SIP/2.0\r\n{HEAD}CSeq: 1 OPTIONS\r\nContent-Length: 0\r\n"),
            true,
        ),
        (format!("INVITE sip:bob@example.test SIP/2.0\r\n{HEAD}CSeq: 1 INVITE"), true),
        (format!("INVITE sip:bob@example.test SIP/2.0\n{}CSeq: 1 INVITE\n", HEAD.replace('\r', "")), true),
        (format!("ACK sip:bob@example.test SIP/2.0\r\n{HEAD}CSeq: 1 ACK\r\n"), false),
        (format!("SIP/2.0 200 OK\r\n{HEAD}CSeq: 1 INVITE\r\n"), false),
        ("OPTIONS sip:bob@example.test SIP/2.0\r\nMax-Forwards: 70\r\n".to_owned(), false),
        ("OPTIONS sip:bob@example.test SIP/2.0".to_owned(), false),
    ] {
        let mut scene = scene();
        let peer = Peer::new(&mut scene, 8);
        scene.world.send(peer.id, peer.addr, SERVER, text.clone());
        scene.run(500);
        let expected: &[&str] = if is_answered { &["SIP/2.0 400 Missing Empty Line"] } else { &[] };
        let received = peer.received(&scene);
        let lines: Vec<_> = received.iter().filter_map(|text| text.lines().next()).collect();
        assert_eq!(lines, expected, "{text}");
        let counters = scene.server().endpoint.counters();
        let counts = (counters.malformed, counters.unfinished, counters.unparsable);
        assert_eq!(counts, (u64::from(is_answered), u64::from(!is_answered), 0), "{text}");
        scene.rest();
    }
}

#[test]
fn accounts_are_told_that_an_account_is_not_there() {
    for uri in ["sip:nobody@example.test", "sip:gone@example.test"] {
        let mut scene = scene();
        let answer = ask(&mut scene, "MESSAGE", uri, "", "secret");
        assert!(answer.starts_with("SIP/2.0 404 "), "{uri}: {answer}");
    }
}

#[test]
fn a_stranger_leaves_a_few_messages_and_no_more() {
    let mut scene = scene();
    for number in 0..30 {
        for user in ["bob", "nobody"] {
            let text = format!(
                "MESSAGE sip:{user}@example.test SIP/2.0\r\nVia: SIP/2.0/UDP 10.0.0.2;branch=z9hG4bK-{user}{number}\r\n\
                 Max-Forwards: 70\r\nFrom: <sip:carol@elsewhere.test>;tag=1\r\nTo: <sip:{user}@example.test>\r\n\
                 Call-ID: {user}{number}\r\nCSeq: 1 MESSAGE\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello"
            );
            scene.world.send(scene.alice, address(2), SERVER, text);
        }
        scene.run(100);
    }
    let ladder = scene.world.ladder();
    assert_eq!(
        (ladder.matches("202 MESSAGE").count(), ladder.matches("480 MESSAGE").count()),
        (10, 50),
        "{ladder}"
    );
    assert_eq!(scene.server().router.counts().kept_messages, 5);
}

#[test]
fn a_message_waits_for_its_phone() {
    let mut scene = scene();
    let text = "MESSAGE sip:bob@example.test SIP/2.0\r\nVia: SIP/2.0/UDP 10.0.0.2;branch=z9hG4bK-m\r\nMax-Forwards: 70\r\n\
                From: <sip:carol@elsewhere.test>;tag=1\r\nTo: <sip:bob@example.test>\r\nCall-ID: m\r\nCSeq: 1 MESSAGE\r\n\
                Content-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello";
    scene.world.send(scene.alice, address(2), SERVER, text);
    scene.run(1_000);
    assert!(scene.world.ladder().contains("◀──202 MESSAGE──"), "{}", scene.world.ladder());
    assert!(register(&mut scene, "secret").starts_with("SIP/2.0 200 "));
    scene.run(1_000);
    let delivered = scene.callee(0).requests.iter().find(|text| text.starts_with("MESSAGE ")).unwrap();
    assert!(delivered.ends_with("\r\n\r\nhello"), "{delivered}");
    assert_eq!(scene.server().router.counts().kept_messages, 0);
    scene.rest();
}

#[test]
fn presence_is_told() {
    let mut scene = scene();
    let ok = ask(
        &mut scene,
        "SUBSCRIBE",
        "sip:alice@example.test",
        "Event: presence\r\nExpires: 600\r\n",
        "secret",
    );
    assert!(ok.starts_with("SIP/2.0 200 "), "{ok}");
    scene.run(2_000);
    let notify = |scene: &Scene, number: usize| {
        let mut all = scene.callee(0).requests.iter().filter(|text| text.starts_with("NOTIFY "));
        all.nth(number).cloned().unwrap_or_default()
    };
    assert!(notify(&scene, 0).contains("<basic>closed</basic>"), "{}", notify(&scene, 0));
    // Alice's phone comes.
    let alice = scene.alice;
    let send = |scene: &mut Scene, lines: String| {
        scene.world.act(alice, move |phone: &mut Phone, now, out| {
            phone.request(now, "REGISTER", "sip:example.test", &lines, out);
        });
        scene.run(2_000);
    };
    send(&mut scene, String::new());
    let challenge = scene.alice().finals[0].1.clone();
    send(&mut scene, credentials(&challenge, "alice", "secret", "REGISTER", "sip:example.test"));
    assert!(notify(&scene, 1).contains("<basic>open</basic>"), "{}", scene.world.ladder());
    scene.rest();
}

/// RFC 4235 §3.7.1 and §4.1.1: lamps blink while a phone rings, and its call can be picked up by its tags (RFC 3891).
#[test]
fn a_watcher_sees_a_phone_ring() {
    let mut scene = scene();
    assert!(register(&mut scene, "secret").starts_with("SIP/2.0 200 "));
    let lines = "Event: dialog\r\nExpires: 600\r\n";
    let ok = ask(&mut scene, "SUBSCRIBE", "sip:bob@example.test", lines, "secret");
    assert!(ok.starts_with("SIP/2.0 200 "), "{ok}");
    scene.call("sip:bob@example.test");
    scene.run(3_000);
    scene.hang_up();
    scene.run(1_000);
    let requests = &scene.callee(0).requests;
    let between = |text: &str, start: &str, end: char| {
        let rest = text.split_once(start).map(|(_, rest)| rest)?;
        rest.split(end).next().map(ToOwned::to_owned)
    };
    let notified = requests.iter().filter(|text| text.starts_with("NOTIFY "));
    let dialogs: Vec<_> = notified
        .filter_map(|text| {
            let state = between(text, "<state>", '<')?;
            Some((state, between(text, " local-tag=\"", '"'), between(text, " remote-tag=\"", '"')))
        })
        .collect();
    let bye = requests.iter().find(|text| text.starts_with("BYE ")).unwrap();
    let tag = |name: &str| header(bye, name).split_once(";tag=").map(|(_, tag)| tag.to_owned());
    let (to, from) = (tag("To"), tag("From"));
    assert!(to.is_some() && from.is_some(), "{bye}");
    let expected = [("trying", &None), ("early", &to), ("confirmed", &to), ("terminated", &to)];
    assert_eq!(dialogs, expected.map(|(state, local)| (state.to_owned(), local.clone(), from.clone())));
    scene.rest();
}

/// New work is refused first; calls that are up go on.
#[test]
fn overload_and_draining_spare_existing_calls() {
    for (intake, wait) in
        [(Intake::Overloaded, "Retry-After: 5\r\n"), (Intake::Draining, "Retry-After: 30\r\n")]
    {
        let mut scene = scene();
        register(&mut scene, "secret");
        scene.call("sip:bob@example.test");
        scene.run(2_000);
        assert_eq!(scene.status(), 200);
        scene.world.node_mut::<Server>(scene.server).endpoint.set_intake(intake);
        scene.call("sip:bob@example.test");
        scene.run(1_000);
        assert_eq!(scene.status(), 503);
        assert!(scene.alice().finals[0].1.contains(wait));
        scene.world.act(scene.alice, |phone: &mut Phone, now, out| phone.hang_up(now, 0, out));
        scene.run(1_000);
        assert!(scene.callee(0).calls[0].ended);
        scene.rest();
    }
}

/// RFC 3261 §16.7 step 5: the bindings of an address are tried by q whatever the first ones say, but for 6xx.
#[test]
fn a_binding_of_lower_q_rings_after_any_refusal_but_6xx() {
    for (status, calls) in [(302, 2), (404, 2), (480, 2), (486, 2), (500, 2), (603, 1)] {
        let mut scene = Scene::build(1, server(), vec![bob().answering(&[(0, status)])]);
        let second = "Expires: 600\r\nContact: <sip:bob2@10.0.0.3:5060>;q=0.5\r\n";
        assert!(
            ask(&mut scene, "REGISTER", "sip:example.test", second, "secret").starts_with("SIP/2.0 200 ")
        );
        scene.call("sip:bob@example.test");
        scene.run(2_000);
        assert_eq!((scene.status(), scene.callee(0).calls.len()), (status, calls));
        scene.rest();
    }
}

/// A made-up To tag is no reason to take a request while new work is refused; stray ACKs are new work, too.
#[test]
fn a_to_tag_is_no_pass_through_overload_and_drain() {
    for intake in [Intake::Overloaded, Intake::Draining] {
        let mut scene = scene();
        register(&mut scene, "secret");
        let mut stranger = Peer::new(&mut scene, 8);
        scene.world.node_mut::<Server>(scene.server).endpoint.set_intake(intake);
        for method in ["INVITE", "MESSAGE", "BYE", "ACK"] {
            for route in ["", "<sip:10.0.0.1;lr>", "<sip:10.0.0.1;lr;t=raaaaaaaaaaaaaaaaaaaaaaaaaa>"] {
                let raw = Raw {
                    method,
                    uri: "sip:bob@example.test",
                    route,
                    from: "<sip:x@elsewhere.test>;tag=x",
                    to: "<sip:bob@example.test>;tag=made-up",
                    call_id: "c",
                    contact: "<sip:x@10.0.0.8>",
                    ..Raw::default()
                };
                stranger.send(&mut scene, raw);
            }
        }
        assert!(scene.callee(0).calls.is_empty() && scene.callee(0).requests.is_empty());
        let received = stranger.received(&scene);
        assert_eq!(received.len(), 9, "{received:#?}");
        assert!(received.iter().all(|text| text.starts_with("SIP/2.0 503 ")));
        assert_eq!(scene.server().endpoint.counters().shed, 12);
        scene.rest();
    }
}

#[test]
fn a_merged_register_is_refused() {
    let mut scene = Scene::build(1, server(), vec![]);
    let mut phone = Peer::new(&mut scene, 3);
    let register = Raw {
        method: "REGISTER",
        uri: "sip:example.test",
        from: "<sip:bob@example.test>;tag=x",
        to: "<sip:bob@example.test>",
        call_id: "c",
        contact: "<sip:bob@10.0.0.3:5060>",
        ..Raw::default()
    };
    phone.send(&mut scene, register);
    let challenge = phone.last(&scene, "SIP/2.0 401");
    let lines = credentials(&challenge, "bob", "secret", "REGISTER", "sip:example.test");
    let mut answers = Vec::new();
    for _ in 0..2 {
        phone.send_copy(&mut scene, Raw { lines: &lines, ..register });
        answers.push(phone.last(&scene, "SIP/2.0")[..11].to_owned());
    }
    assert_eq!(answers, ["SIP/2.0 200", "SIP/2.0 482"]);
    scene.rest();
}

/// RFC 3261 §8.2.2.2: one request by two ways is answered once where we are the user agent server.
#[test]
fn a_merged_request_is_refused_by_the_notifier_and_forwarded_by_the_proxy() {
    let mut scene = scene();
    register(&mut scene, "secret");
    let mut stranger = Peer::new(&mut scene, 8);
    let subscribe = Raw {
        method: "SUBSCRIBE",
        uri: "sip:bob@example.test",
        from: "<sip:x@elsewhere.test>;tag=x",
        to: "<sip:bob@example.test>",
        call_id: "c",
        contact: "<sip:x@10.0.0.8:5060>",
        lines: "Event: presence\r\nExpires: 600\r\n",
        ..Raw::default()
    };
    for (method, merged) in [("SUBSCRIBE", true), ("PUBLISH", true), ("INVITE", false)] {
        stranger.send_copy(&mut scene, Raw { method, ..subscribe });
        let first = stranger.last(&scene, "SIP/2.0");
        stranger.send_copy(&mut scene, Raw { method, ..subscribe });
        let second = stranger.last(&scene, "SIP/2.0");
        assert!(!first.starts_with("SIP/2.0 482 "), "{first}");
        assert_eq!(second.starts_with("SIP/2.0 482 "), merged, "{second}");
        // Another request of the same dialogs, or of another client, is none.
        stranger.send_copy(&mut scene, Raw { method, from: "<sip:y@elsewhere.test>;tag=y", ..subscribe });
        assert!(!stranger.last(&scene, "SIP/2.0").starts_with("SIP/2.0 482 "));
    }
}

/// COMPAT(sipp): its built-in uac keeps no Route. The tags of a call that was answered are as good.
#[test]
fn an_answered_call_without_routes_passes_through_overload_and_drain() {
    for intake in [Intake::Overloaded, Intake::Draining] {
        let mut scene = scene();
        register(&mut scene, "secret");
        scene.call("sip:bob@example.test");
        scene.run(2_000);
        scene.world.node_mut::<Server>(scene.server).endpoint.set_intake(intake);
        let bye = |scene: &mut Scene| {
            scene.world.act(scene.alice, |phone: &mut Phone, now, out| {
                phone.calls[0].routes.clear();
                phone.calls[0].target = "sip:bob@example.test".into();
                phone.hang_up(now, 0, out);
            });
            scene.run(1_000);
            scene.alice().finals.last().unwrap().0
        };
        assert_eq!(bye(&mut scene), 200);
        assert!(scene.callee(0).calls[0].ended);
        assert_eq!(bye(&mut scene), 503, "it is over");
        scene.rest();
    }
}

/// RFC 5626 §5.3: a phone whose connection is gone is not there.
#[test]
fn a_connection_that_is_gone_is_a_phone_that_is_gone() {
    let mut scene = scene();
    let phone = scene.callees[0];
    scene.world.node_mut::<Phone>(phone).proxy.set_port(5062);
    assert!(register(&mut scene, "secret").starts_with("SIP/2.0 200 "));
    scene.call("sip:bob@example.test");
    scene.run(2_000);
    assert_eq!(scene.status(), 200);
    scene.hang_up();
    scene.run(1_000);
    let lost = (sip::transport::Transport::Tcp, address(3));
    scene.world.node_mut::<Server>(scene.server).unreachable.push(lost);
    scene.call("sip:bob@example.test");
    scene.run(2_000);
    assert_eq!(scene.status(), 480);
    scene.rest();
}

/// RFC 5627 §6.1: a callee may name itself by an address of ours; requests of the call find its phone.
#[test]
fn a_contact_of_our_own_domain_is_looked_up() {
    let mut scene = scene();
    register(&mut scene, "secret");
    scene.call("sip:bob@example.test");
    scene.run(2_000);
    scene.world.node_mut::<Phone>(scene.alice).calls[0].target = "sip:bob@example.test".into();
    scene.hang_up();
    scene.run(1_000);
    assert!(scene.callee(0).calls[0].ended, "{}", scene.world.ladder());
    scene.rest();
}

//! Identities at the border of the trust domain.

use std::net::SocketAddr;

use bytes::Bytes;
use proptest::prelude::*;
use router::{Life, ShardAddress};
use stdx::Instant;

use std::sync::Arc;

use super::*;
use crate::transport::Source;
use crate::transport::{Packet, Transport};
use crate::wire::Message;

const US: &str = "192.0.2.1:5060";
const PHONE: &str = "198.51.100.7:5060";
const STRANGER: &str = "203.0.113.9:5060";
/// In `[sip] trusted`.
const TRUSTED: &str = "10.1.2.3:5060";
/// The target of a route that is trusted.
const TRUNK: &str = "192.0.2.50:5080";

const NAMES: &[&str] = &[
    "P-Asserted-Identity",
    "P-Preferred-Identity",
    "Remote-Party-ID",
    "Diversion",
    "History-Info",
    "P-Charge-Info",
    "P-Asserted-Service",
    "P-Charging-Vector",
    "P-Access-Network-Info",
    "P-Served-User",
];

struct World {
    endpoint: Endpoint,
    now: Instant,
    /// The caller that the plan finds.
    caller: Caller,
    target: &'static str,
    branch: usize,
}

impl World {
    fn new(caller: Caller, target: &'static str) -> Self {
        let now = Instant::from_unix_seconds(1_700_000_000);
        let mut settings =
            EndpointSettings::for_tests(ShardAddress { life: Life(0), shard: 0 }, US.parse().unwrap());
        settings.trust.networks = vec!["10.0.0.0/8".parse().unwrap()];
        settings.trust.names = vec!["proxy.example".into()];
        let named = |name: &str, is_trusted| RouteCertificate { name: name.into(), is_trusted };
        let certificates = vec![named("Trusted.example", true), named("trunk.example", false)];
        let peer = |host: &str, port, is_trusted| RoutePeer {
            host: host.into(),
            port: Some(port),
            transport: None,
            is_trusted,
            has_certificate: false,
        };
        let peers = vec![peer("192.0.2.50", 5080, true), peer("203.0.113.9", 5060, false)];
        settings.route_peers = Arc::new(RoutePeers::new(peers, certificates));
        let mut endpoint = Endpoint::new(settings, now);
        // Its INVITEs are short, and the answers long.
        [PHONE, TRUSTED].iter().for_each(|source| endpoint.trust_source(now, source.parse().unwrap()));
        World { endpoint, now, caller, target, branch: 0 }
    }

    fn account(target: &'static str) -> Self {
        World::new(Caller::Account("al ice@example.test".into()), target)
    }

    /// The messages that a received one causes, with their destinations.
    fn receive(&mut self, from: &str, text: String) -> Vec<(SocketAddr, String)> {
        let remote = from.parse().unwrap();
        self.receive_by(
            Source { transport: Transport::Udp, local: US.parse().unwrap(), remote, flow: None },
            text,
        )
    }

    fn receive_by(&mut self, source: Source, text: String) -> Vec<(SocketAddr, String)> {
        let (mut out, mut sent) = (EndpointOutbox::new(), Vec::new());
        self.endpoint.handle_packet(self.now, Packet { bytes: Bytes::from(text), source }, &mut out);
        while !out.is_empty() {
            for effect in std::mem::take(&mut out) {
                match effect {
                    EndpointEffect::Transmit(transmit) => {
                        let text = String::from_utf8(transmit.bytes.to_vec()).unwrap();
                        sent.push((transmit.target.remote, text));
                    }
                    EndpointEffect::Plan { id, .. } => {
                        let context = self.endpoint.lower.contexts.get_mut(Key::from_u64(id.0)).unwrap();
                        context.caller = Some(self.caller.clone());
                        let decision =
                            Decision::Targets(vec![vec![format!("sip:bob@{}", self.target).into()]]);
                        self.endpoint.handle_plan(self.now, id, decision, &mut out);
                    }
                    _ => {}
                }
            }
        }
        sent
    }

    /// The INVITE as it leaves.
    fn forward(&mut self, from: &str, headers: &str) -> String {
        self.branch += 1;
        let n = self.branch;
        let sent = self.receive(
            from,
            format!(
                "INVITE sip:bob@{US} SIP/2.0\r\nVia: SIP/2.0/UDP {from};branch=z9hG4bK-{n}\r\n\
                 From: <sip:alice@example.test>;tag=1\r\nTo: <sip:bob@{US}>\r\nCall-ID: c{n}\r\nCSeq: 1 INVITE\r\n\
                 Contact: <sip:a@{from}>\r\n{headers}Max-Forwards: 70\r\nContent-Length: 0\r\n\r\n"
            ),
        );
        assert_eq!(sent.len(), 1, "{sent:?}");
        assert_eq!(sent[0].0.to_string(), self.target);
        sent.into_iter().next().unwrap().1
    }

    /// The 200 to that INVITE as its sender gets it.
    fn answer(&mut self, forwarded: &str, headers: &str) -> String {
        let message = Message::parse(Bytes::from(forwarded.to_owned())).unwrap();
        let line = |name: &str, header| -> String {
            message
                .header_lines(header)
                .map(|value| format!("{name}: {}\r\n", String::from_utf8_lossy(value)))
                .collect()
        };
        use crate::wire::Header;
        let copied = [("Via", Header::Via), ("From", Header::From), ("To", Header::To)]
            .map(|(name, header)| line(name, header))
            .concat();
        let (call_id, cseq) = (line("Call-ID", Header::CallId), line("CSeq", Header::CSeq));
        let target = self.target;
        let sent = self.receive(
            target,
            format!("SIP/2.0 200 OK\r\n{copied}{call_id}{cseq}{headers}Contact: <sip:b@{target}>\r\nContent-Length: 0\r\n\r\n"),
        );
        assert_eq!(sent.len(), 1, "{sent:?}");
        sent.into_iter().next().unwrap().1
    }
}

fn all_identities() -> String {
    NAMES.iter().map(|name| format!("{name}: <sip:boss@example.test>\r\n")).collect()
}

fn names_in(text: &str) -> Vec<&'static str> {
    let lower = text.to_ascii_lowercase();
    let is_in = |name: &&&str| lower.contains(&format!("\r\n{}:", name.to_ascii_lowercase()));
    NAMES.iter().filter(is_in).copied().collect()
}

#[test]
fn identities_of_the_untrusted_go_nowhere() {
    for target in [STRANGER, TRUSTED, TRUNK] {
        let mut world = World::new(Caller::Stranger, target);
        let forwarded = world.forward(PHONE, &all_identities());
        assert_eq!(names_in(&forwarded), [""; 0], "to {target}");
    }
    // Nor those of a trunk that no route calls trusted, nor of the trusted one's neighbour at another port.
    for from in [STRANGER, "192.0.2.50:5081"] {
        let forwarded = World::new(Caller::Stranger, TRUSTED).forward(from, &all_identities());
        assert_eq!(names_in(&forwarded), [""; 0], "from {from}");
    }
}

#[test]
fn identities_of_the_trusted_stay_and_those_for_the_trust_domain_alone_stay_in_it() {
    for from in [TRUSTED, TRUNK] {
        let inside = World::new(Caller::Stranger, TRUSTED).forward(from, &all_identities());
        assert_eq!(names_in(&inside), NAMES, "from {from}");
        let outside = World::new(Caller::Stranger, STRANGER).forward(from, &all_identities());
        let kept = ["P-Asserted-Identity", "Remote-Party-ID", "Diversion", "History-Info", "P-Charge-Info"];
        assert_eq!(names_in(&outside), kept, "from {from}");
    }
}

/// RFC 5922 §7.1: a connection is believed what its certificate proves, for as long as it lasts, and nothing else.
#[test]
fn identities_of_a_peer_with_a_trusted_certificate_are_kept() {
    let flow = |number| FlowId { edge: ShardAddress { life: Life(0), shard: 0 }, number };
    let by = |number| Source {
        transport: Transport::Tls,
        local: US.parse().unwrap(),
        remote: "203.0.113.77:40000".parse().unwrap(),
        flow: Some(flow(number)),
    };
    let mut world = World::new(Caller::Stranger, TRUSTED);
    let is_taken = |world: &mut World, source: Source| {
        world.branch += 1;
        let n = world.branch;
        let text = format!(
            "INVITE sip:bob@{US} SIP/2.0\r\nVia: SIP/2.0/TLS 203.0.113.77;branch=z9hG4bK-{n}\r\n\
             From: <sip:a@x.example>;tag=1\r\nTo: <sip:bob@{US}>\r\nCall-ID: c{n}\r\nCSeq: 1 INVITE\r\n\
             Contact: <sip:a@203.0.113.77;transport=tls>\r\nP-Asserted-Identity: <sip:boss@x.example>\r\n\
             Max-Forwards: 70\r\nContent-Length: 0\r\n\r\n"
        );
        let sent = world.receive_by(source, text);
        let invite = sent.iter().find(|(_, text)| text.starts_with("INVITE")).unwrap();
        (invite.1.contains("P-Asserted-Identity"), world.endpoint.lower.env.trust().is_of_trunk(&source))
    };
    for (number, name, expected) in [
        (1, "trusted.example", (true, true)),
        (2, "trunk.example", (false, true)),
        (3, "other.example", (false, false)),
        (4, "proxy.example", (true, true)),
    ] {
        assert_eq!(is_taken(&mut world, by(number)), (false, false), "{name}: nothing is shown yet");
        world.endpoint.note_certificate(flow(number), ["x.example".into(), name.into()].into());
        assert_eq!(is_taken(&mut world, by(number)), expected, "{name}");
    }
    world.endpoint.forget_certificate(flow(1));
    assert_eq!(is_taken(&mut world, by(1)), (false, false), "the connection is closed");
}

/// The identity headers of an application's call, and the targets of its bindings.
fn own_invite(target: &str, is_binding: bool) -> Option<String> {
    let mut world = World::new(Caller::Stranger, STRANGER);
    let invite = crate::session::Invite {
        target: format!("sip:bob@{target}").into(),
        from: "<sip:4930@example.test>".into(),
        offer: Bytes::from_static(b"v=0\r\n"),
        asserted: "<sip:4930@example.test>".into(),
        is_binding,
        ..Default::default()
    };
    let mut out = EndpointOutbox::new();
    world.endpoint.sessions(world.now, &mut out).invite(invite).unwrap();
    out.into_iter().find_map(|effect| match effect {
        EndpointEffect::Transmit(transmit) => Some(String::from_utf8(transmit.bytes.to_vec()).unwrap()),
        _ => None,
    })
}

#[test]
fn an_application_call_is_asserted_to_trusted_peers_only() {
    let asserted = "\r\nP-Asserted-Identity: <sip:4930@example.test>\r\n";
    for (target, expected) in [(TRUSTED, true), (TRUNK, true), (STRANGER, false)] {
        let invite = own_invite(target, false).unwrap();
        assert_eq!(invite.contains(asserted), expected, "{invite}");
        assert_eq!(invite.contains("P-Asserted"), expected, "{invite}");
    }
}

#[test]
fn no_call_of_an_application_goes_to_a_binding_that_leads_to_a_route_or_to_ourselves() {
    for target in [TRUNK, US] {
        assert_eq!(own_invite(target, true), None, "{target}");
        assert!(own_invite(target, false).is_some(), "{target}");
    }
    assert!(own_invite("203.0.113.77:5060", true).is_some());
}

/// RFC 3325 §9.3, RFC 3323 §4.2 and §5.3.
#[test]
fn privacy_keeps_identities_from_the_untrusted_only() {
    for (privacy, kept) in [
        ("id", false),
        ("ID;critical", false),
        ("user", false),
        ("critical; header", false),
        ("none", true),
        ("none;id", true),
        ("session", true),
    ] {
        let headers =
            format!("Privacy: {privacy}\r\nP-Asserted-Identity: <sip:boss@example.test>\r\nSubject: s\r\n");
        let outside = World::new(Caller::Stranger, STRANGER).forward(TRUSTED, &headers);
        assert_eq!(outside.contains("P-Asserted-Identity"), kept, "{privacy}: {outside}");
        assert_eq!(outside.contains("Subject"), privacy != "user", "{privacy}");
        assert!(outside.contains("Privacy: "), "others down the line honour it, too");
        let inside = World::new(Caller::Stranger, TRUNK).forward(TRUSTED, &headers);
        assert!(inside.contains("P-Asserted-Identity: <sip:boss@example.test>"), "{privacy}");
    }
}

/// RFC 3323 §5.3, RFC 3261 §7.3.3: in the long and in the compact form.
#[test]
fn no_form_of_a_header_that_names_its_user_reaches_the_untrusted() {
    for name in [
        "Subject",
        "s",
        "User-Agent",
        "Call-Info",
        "Organization",
        "Reply-To",
        "In-Reply-To",
        "Referred-By",
        "REFERRED-BY",
        "b",
        "B",
        "b ",
    ] {
        for (privacy, kept) in [("user", false), ("id", true)] {
            let headers = format!("Privacy: {privacy}\r\n{name}: <sip:boss@example.test>\r\n");
            let outside = World::new(Caller::Stranger, STRANGER).forward(TRUSTED, &headers);
            assert_eq!(outside.contains("boss"), kept, "{name}, {privacy}: {outside}");
            let inside = World::new(Caller::Stranger, TRUNK).forward(TRUSTED, &headers);
            assert!(inside.contains("boss"), "{name}, {privacy}: {inside}");
        }
    }
}

#[test]
fn an_account_is_asserted_to_trusted_peers_only() {
    let asserted = "\r\nP-Asserted-Identity: <sip:al%20ice@example.test>\r\n";
    let forged = "P-Asserted-Identity: <sip:boss@example.test>\r\nPrivacy: id\r\n";
    for target in [TRUSTED, TRUNK] {
        let forwarded = World::account(target).forward(PHONE, forged);
        assert!(forwarded.contains(asserted) && forwarded.contains("Privacy: id"), "{forwarded}");
        assert_eq!(forwarded.matches("P-Asserted-Identity").count(), 1, "{forwarded}");
        assert_eq!(names_in(&World::new(Caller::Stranger, target).forward(PHONE, "")), [""; 0]);
    }
    assert_eq!(names_in(&World::account(STRANGER).forward(PHONE, forged)), [""; 0]);
}

#[test]
fn identities_in_responses_are_judged_by_the_callee() {
    for (target, from, private, kept) in [
        (STRANGER, PHONE, false, false),
        (STRANGER, TRUSTED, false, false),
        (TRUNK, PHONE, false, true),
        (TRUNK, PHONE, true, false),
        (TRUNK, TRUSTED, true, true),
    ] {
        let mut world = World::new(Caller::Stranger, target);
        let forwarded = world.forward(from, "");
        let privacy = if private { "Privacy: id\r\n" } else { "" };
        let headers = format!("{privacy}{}", all_identities());
        for turn in ["first", "repeated"] {
            let answer = world.answer(&forwarded, &headers);
            assert_eq!(answer.contains("P-Asserted-Identity"), kept, "{target} {from} {private} {turn}");
            assert_eq!(answer.contains("P-Charging-Vector"), from == TRUSTED && target == TRUNK, "{answer}");
        }
    }
}

/// RFC 3261 §22.3.
#[test]
fn credentials_for_us_are_not_forwarded_and_others_are() {
    let line = |name: &str, realm: &str| {
        format!(
            "{name}: Digest username=\"a\", realm={realm}, nonce=\"n\", uri=\"sip:b\", response=\"{}\"\r\n",
            "0".repeat(32)
        )
    };
    for name in ["Proxy-Authorization", "Authorization", "proxy-authorization"] {
        let ours =
            [line(name, "\"example.test\""), line(name, "example.test"), line(name, "\"EXAMPLE.test\"")];
        let other = line(name, "\"carrier.example\"");
        let broken = format!("{name}: Digest \"\r\n");
        let basic = format!("{name}: Basic YTpi\r\n");
        let headers = format!("{}{other}{basic}{broken}", ours.concat());
        for target in [STRANGER, TRUNK] {
            let forwarded = World::account(target).forward(PHONE, &headers);
            assert!(!forwarded.to_ascii_lowercase().contains("realm=\"example.test"), "{forwarded}");
            assert!(!forwarded.contains("realm=example.test") && !forwarded.contains(&broken), "{forwarded}");
            assert!(forwarded.contains(&other) && forwarded.contains(&basic), "{forwarded}");
        }
    }
}

impl World {
    /// Where calls of the account go when that is registered; `None`: it is refused.
    fn register(&mut self, from: &str, contact: &str) -> Option<router::Contact> {
        let text = format!(
            "REGISTER sip:example.test SIP/2.0\r\nVia: SIP/2.0/UDP {from};branch=z9hG4bK-r\r\n\
             From: <sip:a@example.test>;tag=1\r\nTo: <sip:a@example.test>\r\nCall-ID: r\r\nCSeq: 1 REGISTER\r\n\
             Contact: <sip:{contact}>\r\nContent-Length: 0\r\n\r\n"
        );
        let source = Source {
            transport: Transport::Udp,
            local: US.parse().unwrap(),
            remote: from.parse().unwrap(),
            flow: None,
        };
        let request = Message::parse(Bytes::from(text)).unwrap();
        let key =
            self.endpoint.lower.contexts.insert(RequestContext::new(Key::from_u64(0), request, source, 0));
        let ha1s = crate::digest::Ha1s { md5: [0; 16], sha256: [0; 32], sha512_256: [0; 32] };
        let aor = "a@example.test".into();
        let account = Account { aor, ha1s, disabled: false, max_contacts: 5, limits: None };
        let mut out = EndpointOutbox::new();
        let lower = &mut self.endpoint.lower.at(self.now, &mut out);
        self.endpoint.cores.router.registrar.register(lower, key, account);
        let Some(EndpointEffect::Ask { query: router::Query::Register(register), .. }) = out.pop() else {
            return None;
        };
        match register.change {
            router::Change::Update(contacts) => contacts.into_iter().next(),
            other => panic!("{other:?}"),
        }
    }
}

/// Toll fraud: calls of the account would leave by the route, or come back to us for ever.
#[test]
fn no_binding_leads_to_a_route_or_to_ourselves() {
    let mut world = World::account(STRANGER);
    let way = |world: &mut World, from: &str, contact: &str| {
        let contact = world.register(from, contact)?;
        Some(contact.received.map(|received| received.remote.to_string()))
    };
    let back = Some(Some(PHONE.to_owned()));
    for contact in ["+1900@192.0.2.50:5080", "+1900@192.0.2.50", "a@192.0.2.1:5060", "a@phone.example"] {
        assert_eq!(
            way(&mut world, PHONE, contact),
            back,
            "{contact}: by the way it came, to the phone itself"
        );
    }
    assert_eq!(way(&mut world, PHONE, "a@198.51.100.7:5099"), Some(None), "another port of its own");
    // A forger who knows a password sends from the trunk's address, which a route leads to, or from ours.
    assert_eq!(way(&mut world, TRUNK, "+1900@10.0.0.1"), None);
    assert_eq!(way(&mut world, TRUNK, "+1900@192.0.2.50:5080"), None);
    assert_eq!(way(&mut world, US, "a@192.0.2.1:5060"), None);
    // Nor does a trusted proxy bind an account to them.
    assert_eq!(way(&mut world, TRUSTED, "+1900@192.0.2.50:9"), None);
    assert_eq!(way(&mut world, TRUSTED, "a@192.0.2.1:5060"), None);
    assert_eq!(way(&mut world, TRUSTED, "a@198.51.100.77"), Some(None));
}

/// A route may be newer than a binding, and a name may resolve to anything.
#[test]
fn a_binding_that_leads_to_a_route_is_not_called() {
    for (uri, is_called) in
        [("sip:+1900@192.0.2.50:5080", false), ("sip:a@192.0.2.1:5060", false), ("sip:a@198.51.100.7", true)]
    {
        let mut world = World::account(STRANGER);
        let mut contact = world.register(PHONE, "a@198.51.100.7").unwrap();
        contact.uri = uri.into();
        let (expires_at, call_id) = (Instant::FAR_FUTURE, "r".into());
        let binding = router::Binding { contact, expires_at, call_id, cseq: 1 };
        let source = Source {
            transport: Transport::Udp,
            local: US.parse().unwrap(),
            remote: PHONE.parse().unwrap(),
            flow: None,
        };
        let text = format!(
            "INVITE sip:a@example.test SIP/2.0\r\nVia: SIP/2.0/UDP {PHONE};branch=z9hG4bK-i\r\n\
             From: <sip:b@b.test>;tag=1\r\nTo: <sip:a@example.test>\r\nCall-ID: i\r\nCSeq: 1 INVITE\r\n\
             Contact: <sip:b@{PHONE}>\r\nContent-Length: 0\r\n\r\n"
        );
        let request = Message::parse(Bytes::from(text)).unwrap();
        let key =
            world.endpoint.lower.contexts.insert(RequestContext::new(Key::from_u64(0), request, source, 0));
        let mut out = EndpointOutbox::new();
        let lower = &mut world.endpoint.lower.at(world.now, &mut out);
        world.endpoint.cores.router.ring_bindings(lower, key, 0, vec![binding]);
        let is_sent = out.iter().any(|effect| matches!(effect, EndpointEffect::Transmit(_)));
        assert_eq!(is_sent, is_called, "{uri}");
    }
}

/// A name in the case, with the white space and the folding that a forger likes.
fn forged_line() -> impl Strategy<Value = String> {
    let name = prop::sample::select(NAMES).prop_flat_map(|name| {
        prop::collection::vec(any::<bool>(), name.len()).prop_map(move |upper| {
            let letter = |(letter, upper): (char, &bool)| {
                if *upper { letter.to_ascii_uppercase() } else { letter.to_ascii_lowercase() }
            };
            name.chars().zip(&upper).map(letter).collect::<String>()
        })
    });
    let blank = || "[ \t]{0,3}";
    let fold = prop::sample::select(vec!["", "\r\n ", "\r\n\t", "\n  "]);
    let end = prop::sample::select(vec!["\r\n", "\n"]);
    (name, blank(), blank(), fold, "<sip:forged-[a-z]{1,8}@example\\.test>", end).prop_map(
        |(name, before, after, fold, value, end)| format!("{name}{before}:{after}{fold}{value}{end}"),
    )
}

proptest! {
    #[test]
    fn no_spelling_of_an_identity_survives(lines in prop::collection::vec(forged_line(), 1..5)) {
        let mut world = World::new(Caller::Stranger, TRUNK);
        let forwarded = world.forward(PHONE, &lines.concat());
        prop_assert_eq!(names_in(&forwarded.replace(['\t', ' '], "")), [""; 0]);
        prop_assert!(!forwarded.contains("forged"), "{}", forwarded);
        let mut world = World::new(Caller::Stranger, STRANGER);
        let forwarded = world.forward(PHONE, "");
        let answer = world.answer(&forwarded, &lines.concat());
        prop_assert_eq!(names_in(&answer.replace(['\t', ' '], "")), [""; 0]);
        prop_assert!(!answer.contains("forged"), "{}", answer);
    }
}

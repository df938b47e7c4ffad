use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;
use router::{Binding, Contact, FlowId, Life, Received, RegisterRefused, ShardAddress, Transport};
use stdx::Instant;

use super::gruu::Gruus;
use super::*;
use crate::wire::{DateText, Reply, Uri};

const NOW: Instant = Instant::from_unix_seconds(1_289_690_940);
const AOR: &str = "bob@biloxi.com";
const INSTANCE: &str = "urn:uuid:00000000-0000-1000-8000-000A95A0E128";

fn udp(remote: &str) -> Source {
    Source {
        transport: Transport::Udp,
        local: "192.0.2.1:5060".parse().unwrap(),
        remote: remote.parse().unwrap(),
        flow: None,
    }
}

fn tcp(remote: &str) -> Source {
    let flow = FlowId { edge: ShardAddress { life: Life(1), shard: 2 }, number: 3 };
    Source { transport: Transport::Tcp, flow: Some(flow), ..udp(remote) }
}

/// The REGISTER of RFC 3261 §24.1 with other header lines.
fn register(lines: &str) -> Message {
    with_via("Via: SIP/2.0/UDP 192.0.2.4:5060;branch=z9hG4bKnashds7\n", lines)
}

fn with_via(via: &str, lines: &str) -> Message {
    let text = format!(
        "REGISTER sip:registrar.biloxi.com SIP/2.0\n{via}Max-Forwards: 70\n\
         To: Bob <sip:bob@biloxi.com>\nFrom: Bob <sip:bob@biloxi.com>;tag=456248\n\
         Call-ID: 843817637684230@998sdasdh09\nCSeq: 1826 REGISTER\n{lines}Content-Length: 0\n\n"
    );
    Message::parse(Bytes::from(text.replace('\n', "\r\n"))).unwrap()
}

/// A trusted proxy stands before us where there is a Path, and nowhere else.
fn parse(request: &Message, source: &Source) -> Result<Register, RegisterRefusal> {
    parse_from(request, source, request.count(Header::Path) > 0)
}

fn parse_from(request: &Message, source: &Source, is_trusted: bool) -> Result<Register, RegisterRefusal> {
    parse_by(request, source, &RegistrarRules::default(), is_trusted)
}

/// The operator lets bindings lead to 10.9.0.0/16. A route leads to 192.0.2.66:5060 and to carrier.example.
fn parse_by(
    request: &Message,
    source: &Source,
    rules: &RegistrarRules,
    is_trusted: bool,
) -> Result<Register, RegisterRefusal> {
    let networks = ["10.9.0.0/16".parse().unwrap()];
    let is_forbidden = |host: &[u8], port: u16| {
        matches!((host, port), (b"192.0.2.66" | b"10.9.0.66", 5060) | (b"carrier.example", _))
    };
    let reach = ContactReach { networks: &networks, is_trusted, is_forbidden: &is_forbidden };
    parse_register(request, source, AOR.into(), rules, &reach)
}

fn contacts(request: &Message, source: &Source) -> Vec<Contact> {
    match parse(request, source).unwrap().change {
        Change::Update(contacts) => contacts,
        other => panic!("{other:?}"),
    }
}

fn contact_of(lines: &str) -> Contact {
    contacts(&register(lines), &udp("192.0.2.4:5060")).remove(0)
}

fn refusal_of(lines: &str) -> RegisterRefusal {
    parse(&register(lines), &udp("192.0.2.4:5060")).unwrap_err()
}

/// RFC 3261 §24.1, F1 of the registration example.
#[test]
fn the_registration_of_rfc_3261() {
    let request = register("Contact: <sip:bob@192.0.2.4>\nExpires: 7200\nUser-Agent: phone\n");
    let register = parse(&request, &udp("192.0.2.4:5060")).unwrap();
    let expected = Contact {
        uri: "sip:bob@192.0.2.4".into(),
        q: 1000,
        // 7200 asked, an hour granted.
        expires: 3600,
        instance: "".into(),
        reg_id: 0,
        path: "".into(),
        user_agent: "phone".into(),
        received: None,
    };
    assert_eq!(
        register,
        Register {
            aor: AOR.into(),
            call_id: "843817637684230@998sdasdh09".into(),
            cseq: 1826,
            change: Change::Update(vec![expected]),
            max_contacts: 10,
        }
    );
}

#[test]
fn no_contact_is_a_query() {
    assert_eq!(parse(&register(""), &udp("192.0.2.4:5060")).unwrap().change, Change::None);
}

/// RFC 3261 §10.3 step 6.
#[test]
fn a_star_stands_alone_and_removes() {
    let star = |lines| parse(&register(lines), &udp("192.0.2.4:5060")).map(|register| register.change);
    assert_eq!(star("Contact: *\nExpires: 0\n"), Ok(Change::RemoveAll));
    for bad in [
        "Contact: *\n",
        "Contact: *\nExpires: 60\n",
        "Contact: *\nExpires: x\n",
        "Contact: *, <sip:a@b>\nExpires: 0\n",
        "Contact: <sip:a@b>\nContact: *\nExpires: 0\n",
        "Contact: *;expires=0\nExpires: 0\n",
    ] {
        assert_eq!(star(bad).unwrap_err().status, 400, "{bad}");
    }
}

/// RFC 3261 §10.3 step 7 and §20.10: the parameter wins, an invalid number counts as an hour.
#[test]
fn intervals_are_granted() {
    let granted = |lines: &str| contact_of(lines).expires;
    assert_eq!(granted("Contact: <sip:a@b>;expires=120\nExpires: 600\n"), 120);
    assert_eq!(granted("Contact: <sip:a@b>\nExpires: 600\n"), 600);
    assert_eq!(granted("Contact: <sip:a@b>\n"), 3600);
    assert_eq!(granted("Contact: <sip:a@b>;expires=soon\nExpires: 600\n"), 3600);
    assert_eq!(granted("Contact: <sip:a@b>;expires=10000000000000000\n"), 3600);
    assert_eq!(granted("Contact: <sip:a@b>;expires=0\n"), 0);
    assert_eq!(granted("Contact: <sip:a@b>\nExpires: 0\n"), 0);
    assert_eq!(granted("Contact: <sip:a@b>;expires=60\n"), 60);
    let refusal = refusal_of("Contact: <sip:a@b>;expires=59\n");
    assert_eq!((refusal.status, refusal.header), (423, Some(("Min-Expires", "60".to_owned()))));
}

/// RFC 3261 §10.3 step 7: an hour is never too brief, whatever the operator wants.
#[test]
fn an_hour_is_never_too_brief() {
    let rules = RegistrarRules { min_expires: 7200, max_expires: 86_400, ..RegistrarRules::default() };
    let ask = |lines| parse_by(&register(lines), &udp("192.0.2.4:5060"), &rules, false);
    assert!(ask("Contact: <sip:a@b>;expires=3600\n").is_ok());
    assert_eq!(ask("Contact: <sip:a@b>;expires=3599\n").unwrap_err().status, 423);
}

#[test]
fn preference_is_in_thousandths() {
    for (q, expected) in
        [("1", 1000), ("1.000", 1000), ("0", 0), ("0.", 0), ("0.5", 500), ("0.07", 70), ("0.123", 123)]
    {
        assert_eq!(contact_of(&format!("Contact: <sip:a@b>;q={q}\n")).q, expected, "{q}");
    }
    // Invalid qvalues are ignored.
    for q in ["1.001", "2", "0.1234", "-1", ".5", "\"0.5\""] {
        assert_eq!(contact_of(&format!("Contact: <sip:a@b>;q={q}\n")).q, 1000, "{q}");
    }
}

/// RFC 4475 §3.1.2.3 regescrt, §3.1.1.9 cparam01 and §3.1.1.10 cparam02: escapes stay as they are; a parameter
/// belongs to the header without brackets and to the URI within.
#[test]
fn contacts_of_the_torture_tests() {
    let uri = |lines: &str| contact_of(lines).uri;
    assert_eq!(
        uri("m: <sip:cal%6Cer@host5.example.net;%6C%72;n%61me=v%61lue%25%34%31>\n"),
        "sip:cal%6Cer@host5.example.net;%6C%72;n%61me=v%61lue%25%34%31".into()
    );
    assert_eq!(
        uri("Contact: sip:+19725552222@gw1.example.net;unknownparam\n"),
        "sip:+19725552222@gw1.example.net".into()
    );
    assert_eq!(
        uri("Contact: <sip:+19725552222@gw1.example.net;unknownparam>\n"),
        "sip:+19725552222@gw1.example.net;unknownparam".into()
    );
}

/// Contacts that we could not call ourselves are other people's business (RFC 3261 §10.2.1 allows any URI).
#[test]
fn other_schemes_are_kept() {
    let lines = "Contact: <mailto:bob@biloxi.com>;q=0.1, <tel:+12015550123>;q=0.2, <im:bob@biloxi.com>\n";
    let found = contacts(&register(lines), &tcp("192.0.2.4:49152"));
    let uris: Vec<&str> = found.iter().map(|contact| &*contact.uri).collect();
    assert_eq!(uris, ["mailto:bob@biloxi.com", "tel:+12015550123", "im:bob@biloxi.com"]);
    assert!(found.iter().all(|contact| contact.received.is_none()));
}

#[test]
fn bad_contacts_are_refused() {
    let long = "a".repeat(limit());
    for (lines, status) in [
        ("Contact: <sip:a@b\n".to_owned(), 400),
        ("Contact: <>\n".to_owned(), 400),
        ("Contact: bob\n".to_owned(), 400),
        ("Contact: <sip:a b@c>\n".to_owned(), 400),
        (format!("Contact: <sip:{long}@b>\n"), 400),
        (format!("Contact: <sip:a@b>;+sip.instance=\"<{long}x>\"\n"), 400),
        ("Contact: <sip:bob@biloxi.com;gr=urn:x>\n".to_owned(), 403),
        ("Contact: <sip:a@b>\n".repeat(11), 403),
        ("Contact: <sip:a@b>;expires=0\n".repeat(33), 403),
    ] {
        assert_eq!(refusal_of(&lines).status, status, "{lines:.80}");
    }
    // Removals do not count as contacts.
    let many = contacts(&register(&"Contact: <sip:a@b>;expires=0\n".repeat(11)), &udp("192.0.2.4:5060"));
    assert_eq!(many.len(), 11);
}

fn limit() -> usize {
    crate::limits::CONTACT_BYTES
}

/// RFC 3261 §8.2.2.3.
#[test]
fn unknown_extensions_are_named() {
    let refusal = refusal_of("Require: path, wings, Outbound\nRequire: fins\nContact: <sip:a@b>\n");
    assert_eq!((refusal.status, refusal.header), (420, Some(("Unsupported", "wings, fins".to_owned()))));
}

/// Where a request for the client must go: (Via, Contact, source) and whether the source is kept.
#[test]
fn the_source_is_kept_behind_nat() {
    let kept = |via: &str, contact: &str, remote: &str| {
        let via = format!("Via: SIP/2.0/UDP {via};branch=z9hG4bK1\n");
        let request = with_via(&via, &format!("Contact: <sip:bob@{contact}>\n"));
        contacts(&request, &udp(remote)).remove(0).received.map(|received| received.remote)
    };
    let nat: SocketAddr = "198.51.100.7:31999".parse().unwrap();
    assert_eq!(kept("10.0.0.5:5060;rport", "10.0.0.5:5060", "198.51.100.7:31999"), Some(nat));
    assert_eq!(kept("10.0.0.5:5060", "10.0.0.5:5060", "198.51.100.7:31999"), Some(nat));
    // STUN told the client its address, but this NAT maps each peer to another port.
    assert_eq!(kept("198.51.100.7:30000;rport", "198.51.100.7:30000", "198.51.100.7:31999"), Some(nat));
    assert_eq!(kept("phone.lan;rport", "phone.invalid", "198.51.100.7:31999"), Some(nat));
    // Via is the source: the client knows its address and means another. It may say so within the operator's networks only.
    assert_eq!(kept("198.51.100.7;rport", "10.9.8.7:5080", "198.51.100.7:5060"), None);
    let source = "198.51.100.7:5060".parse().ok();
    assert_eq!(kept("198.51.100.7;rport", "203.0.113.9:5080", "198.51.100.7:5060"), source);
    assert_eq!(kept("198.51.100.7;rport", "phone.example", "198.51.100.7:5060"), source);
    assert_eq!(
        kept("198.51.100.7;rport", "198.51.100.7:5060;maddr=203.0.113.9", "198.51.100.7:5060"),
        source
    );
    // Contact is the source, or the client listens at another port than it sends from.
    assert_eq!(kept("10.0.0.5:5060;rport", "198.51.100.7:31999", "198.51.100.7:31999"), None);
    assert_eq!(kept("198.51.100.7;rport", "198.51.100.7:5080", "198.51.100.7:5060"), None);
    assert_eq!(kept("198.51.100.7", "198.51.100.7", "198.51.100.7:31999"), None);
    assert_eq!(kept("[2001:db8::9]:5070;rport", "[2001:db8::9]:5070", "[2001:db8::9]:5070"), None);
}

/// RFC 5626 §5.3, RFC 7118 §5: a connection is the only way back; behind a proxy it is the proxy's.
#[test]
fn requests_to_a_binding_reuse_its_connection() {
    let source = tcp("192.0.2.4:49152");
    let request = register("Contact: <sip:bob@192.0.2.4:49152;transport=tcp>\n");
    let expected =
        Received { transport: Transport::Tcp, local: source.local, remote: source.remote, flow: source.flow };
    assert_eq!(contacts(&request, &source)[0].received, Some(expected));
    let relayed = with_via(
        "Via: SIP/2.0/TCP proxy.example;branch=z9hG4bK2\nVia: SIP/2.0/UDP 10.0.0.5;branch=z9hG4bK1\n",
        "Contact: <sip:bob@10.0.0.5>\n",
    );
    // Calls go back by the proxy that relayed the REGISTER, as if it had added a Path; the Contact of
    // a trusted one is taken as it is.
    assert_eq!(contacts(&relayed, &source)[0].received, Some(expected));
    let Change::Update(trusted) = parse_from(&relayed, &source, true).unwrap().change else { panic!() };
    assert_eq!(trusted[0].received, None);
    let pathed = register("Contact: <sip:bob@10.0.0.5>\nPath: <sip:p.example;lr>\n");
    assert_eq!(contacts(&pathed, &source)[0].received, None);
}

/// RFC 3263 §4.1: no other transport is used in place of the one that a URI names. The client has just used one with us.
#[test]
fn a_contact_by_an_unknown_transport_is_called_where_its_register_came_from() {
    let source = udp("192.0.2.4:5060");
    for (transport, is_direct) in
        [("", true), (";transport=UDP", true), (";transport=sctp", false), (";transport=", false)]
    {
        let request = register(&format!("Contact: <sip:bob@192.0.2.4:5060{transport}>\n"));
        let received = contacts(&request, &source)[0].received;
        assert_eq!(received.is_none(), is_direct, "{transport}");
        assert!(received.is_none_or(|received| received.remote == source.remote));
    }
}

/// Toll fraud: we call the bound Contacts, and a carrier knows us by our address.
#[test]
fn no_binding_leads_out_by_a_route() {
    let bind = |contact: &str, is_trusted| {
        let request = register(&format!("Contact: <sip:{contact}>\n"));
        let parsed = parse_from(&request, &udp("192.0.2.4:5060"), is_trusted);
        parsed.map_err(|refusal| refusal.status).map(|register| match register.change {
            Change::Update(contacts) => contacts[0].received.is_none(),
            other => panic!("{other:?}"),
        })
    };
    for (contact, untrusted, trusted) in [
        ("+1900@192.0.2.66", Ok(false), Err(403)),
        ("+1900@192.0.2.4;maddr=192.0.2.66", Ok(false), Err(403)),
        ("+1900@carrier.example", Ok(false), Err(403)),
        ("+1900@10.9.0.66", Err(403), Err(403)),
        ("bob@10.9.0.67", Ok(true), Ok(true)),
        ("bob@192.0.2.4:5070", Ok(true), Ok(true)),
    ] {
        assert_eq!(bind(contact, false), untrusted, "{contact}");
        assert_eq!(bind(contact, true), trusted, "{contact}");
    }
    // One that is there already may be removed.
    let request = register("Contact: <sip:+1900@10.9.0.66>;expires=0\n");
    assert!(parse_from(&request, &udp("192.0.2.4:5060"), false).is_ok());
}

#[test]
fn a_path_is_taken_from_trusted_proxies_only() {
    let request = register("Contact: <sip:bob@192.0.2.4>\nPath: <sip:p.example;lr>\n");
    assert_eq!(
        parse_from(&request, &udp("192.0.2.4:5060"), false).unwrap_err(),
        RegisterRefusal::path_of_untrusted()
    );
    assert!(parse_from(&request, &udp("192.0.2.4:5060"), true).is_ok());
}

/// RFC 3327 §5.5.2, kept in order even when the client does not list `path`.
#[test]
fn path_is_kept_in_order() {
    let lines = "Contact: <sip:bob@192.0.2.4>\nPath: <sip:P3.EXAMPLEHOME.COM;lr>,<sip:P1.EXAMPLEVISITED.COM;lr>\n\
                 Path: <sip:P0.example;lr>\n";
    let path = &*contact_of(lines).path;
    assert_eq!(path, "<sip:P3.EXAMPLEHOME.COM;lr>, <sip:P1.EXAMPLEVISITED.COM;lr>, <sip:P0.example;lr>");
    for bad in ["Path: <tel:+1>\n", "Path: \"x\n", &format!("Path: <sip:{}@b;lr>\n", "a".repeat(limit()))] {
        assert_eq!(refusal_of(&format!("Contact: <sip:a@b>\n{bad}")).status, 400, "{bad}");
    }
}

/// RFC 5626 §9.1: the register of its example, direct and through an edge proxy.
#[test]
fn outbound_needs_a_first_hop_that_knows_it() {
    let contact = format!("Contact: <sip:line1@192.0.2.4>;reg-id=1;+sip.instance=\"<{INSTANCE}>\"\n");
    let direct = contact_of(&format!("Supported: path, outbound\n{contact}"));
    assert_eq!((&*direct.instance, direct.reg_id), (INSTANCE, 1));
    // Without the option tag, or an instance, a reg-id means nothing.
    assert_eq!(contact_of(&contact).reg_id, 0);
    assert_eq!(contact_of("Supported: outbound\nContact: <sip:a@b>;reg-id=1\n").reg_id, 0);

    let vias =
        "Via: SIP/2.0/UDP ep1.example.com;branch=z9hG4bK2\nVia: SIP/2.0/UDP 10.0.0.5;branch=z9hG4bK1\n";
    let through = |path: &str| {
        let request = with_via(vias, &format!("Supported: path, outbound\n{path}{contact}"));
        parse(&request, &udp("192.0.2.9:5060")).map(|_| ()).map_err(|refusal| refusal.status)
    };
    assert_eq!(through(""), Err(439));
    assert_eq!(through("Path: <sip:ep1.example.com;lr>\n"), Err(439));
    assert_eq!(through("Path: <sip:core.example;lr;ob>, <sip:ep1.example.com;lr>\n"), Err(439));
    assert_eq!(through("Path: <sip:core.example;lr>, <sip:VskztcQ@ep1.example.com;lr;ob>\n"), Ok(()));
    let two = format!("Supported: outbound\n{contact}{}", contact.replace("reg-id=1", "reg-id=2"));
    assert_eq!(refusal_of(&two).status, 400);
}

fn binding(contact: Contact, seconds: u64) -> Binding {
    let expires_at = NOW + Duration::from_secs(seconds);
    Binding { contact, expires_at, call_id: "call-1".into(), cseq: 1 }
}

fn ok(request: &Message, bindings: &[Binding], service_route: &str) -> String {
    let source = "192.0.2.4:5060".parse().unwrap();
    let mut reply = Reply::new(request, source, 200, "OK", Some("2493k59kd"));
    let gruus = Gruus::new(&[9; 32]);
    let mut date = DateText::default();
    let date = date.of(NOW);
    let settings = OkSettings { aor: AOR, gruus: &gruus, service_route, flow_timer: 120, date };
    write_ok(&mut reply, request, bindings, NOW, &settings);
    String::from_utf8(reply.finish().to_vec()).unwrap().replace("\r\n", "\n")
}

/// RFC 3261 §24.1 F2, with the interval that was granted.
#[test]
fn a_plain_200() {
    let request = register("Contact: <sip:bob@192.0.2.4>\n");
    let mut other = contact_of("Contact: <sip:bob@phone2>;q=0.25\n");
    other.instance = INSTANCE.into();
    let bindings = [
        binding(contact_of("Contact: <sip:bob@192.0.2.4>\n"), 3600),
        binding(other, 59),
        binding(contact_of("Contact: <sip:bob@gone>\n"), 0),
    ];
    insta::assert_snapshot!(ok(&request, &bindings, ""), @r#"
    SIP/2.0 200 OK
    Via: SIP/2.0/UDP 192.0.2.4:5060;branch=z9hG4bKnashds7
    From: Bob <sip:bob@biloxi.com>;tag=456248
    To: Bob <sip:bob@biloxi.com>;tag=2493k59kd
    Call-ID: 843817637684230@998sdasdh09
    CSeq: 1826 REGISTER
    Contact: <sip:bob@192.0.2.4>;expires=3600
    Contact: <sip:bob@phone2>;expires=59;q=0.250;+sip.instance="<urn:uuid:00000000-0000-1000-8000-000A95A0E128>"
    Supported: path, outbound, gruu
    Date: Sat, 13 Nov 2010 23:29:00 GMT
    Content-Length: 0
    "#);
}

/// RFC 5626 §9.1, RFC 3327 §5.5.2, RFC 3608 §6.
#[test]
fn a_200_with_everything() {
    let request = register(&format!(
        "Supported: path, outbound\nPath: <sip:P1.EXAMPLEVISITED.COM;lr>\n\
         Contact: <sip:line1@192.0.2.4>;reg-id=1;+sip.instance=\"<{INSTANCE}>\"\n"
    ));
    let found = contacts(&request, &udp("192.0.2.4:5060")).remove(0);
    insta::assert_snapshot!(ok(&request, &[binding(found, 1800)], "<sip:orig.biloxi.com;lr>"), @r#"
    SIP/2.0 200 OK
    Via: SIP/2.0/UDP 192.0.2.4:5060;branch=z9hG4bKnashds7
    From: Bob <sip:bob@biloxi.com>;tag=456248
    To: Bob <sip:bob@biloxi.com>;tag=2493k59kd
    Call-ID: 843817637684230@998sdasdh09
    CSeq: 1826 REGISTER
    Contact: <sip:line1@192.0.2.4>;expires=1800;+sip.instance="<urn:uuid:00000000-0000-1000-8000-000A95A0E128>";reg-id=1
    Path: <sip:P1.EXAMPLEVISITED.COM;lr>
    Service-Route: <sip:orig.biloxi.com;lr>
    Require: outbound
    Flow-Timer: 120
    Supported: path, outbound, gruu
    Date: Sat, 13 Nov 2010 23:29:00 GMT
    Content-Length: 0
    "#);
}

/// RFC 5627 §9.1.
#[test]
fn gruus_are_given_to_clients_that_support_them() {
    let request =
        register(&format!("Supported: gruu\nContact: <sip:bob@192.0.2.4>;+sip.instance=\"<{INSTANCE}>\"\n"));
    let found = binding(contacts(&request, &udp("192.0.2.4:5060")).remove(0), 60);
    let text = ok(&request, std::slice::from_ref(&found), "");
    let uri_of = |name: &str| text.split(&format!("{name}=\"")).nth(1).unwrap().split('"').next().unwrap();
    let gruus = Gruus::new(&[9; 32]);
    assert_eq!(uri_of("pub-gruu"), format!("sip:bob@biloxi.com;gr={INSTANCE}"));
    for name in ["pub-gruu", "temp-gruu"] {
        let resolved = gruus.resolve(&Uri::parse(uri_of(name).as_bytes()).unwrap()).unwrap();
        assert_eq!((&*resolved.aor, &*resolved.instance), (AOR, INSTANCE), "{name}");
        assert!(gruus.reaches(&resolved, &found));
        // RFC 5627 §3.1.2: registered again under another Call-ID, temporary ones end.
        let again = Binding { call_id: "call-2".into(), ..found.clone() };
        assert_eq!(gruus.reaches(&resolved, &again), name == "pub-gruu");
    }
    assert!(!uri_of("temp-gruu").contains("bob"));
}

#[test]
fn temporary_gruus_cannot_be_made_up() {
    let found = binding(contact_of("Contact: <sip:bob@192.0.2.4>\n"), 60);
    let gruus = Gruus::new(&[9; 32]);
    let first = gruus.temporary(NOW, AOR, &found);
    assert_ne!(first, gruus.temporary(NOW + Duration::from_micros(1), AOR, &found));
    let resolves = |gruus: &Gruus, text: &str| gruus.resolve(&Uri::parse(text.as_bytes()).unwrap()).is_some();
    assert!(resolves(&gruus, &first));
    assert!(!resolves(&Gruus::new(&[8; 32]), &first));
    for at in "sip:tgruu.".len()..first.find('@').unwrap() {
        let mut changed = first.clone();
        let digit = if &first[at..=at] == "0" { "1" } else { "0" };
        changed.replace_range(at..=at, digit);
        assert!(!resolves(&gruus, &changed), "{at}");
    }
    for other in ["sip:bob@biloxi.com", "sip:tgruu.00@biloxi.com;gr", "sip:biloxi.com;gr", "tel:+1;gr=x"] {
        assert!(!resolves(&gruus, other), "{other}");
    }
}

#[test]
fn the_routers_refusals_have_answers() {
    let answer = |refused| {
        let refusal = RegisterRefusal::from(refused);
        (refusal.status, refusal.header.map(|(name, _)| name))
    };
    assert_eq!(answer(RegisterRefused::OutOfOrder), (500, None));
    assert_eq!(answer(RegisterRefused::TooManyContacts), (403, None));
    assert_eq!(answer(RegisterRefused::StoreFailed), (503, Some("Retry-After")));
}

proptest! {
    #[test]
    fn any_contact_may_be_tried(
        value in "[ -~]{0,30}(<sip:[ -~]{0,20}>)?(;(q|expires|reg-id|\\+sip.instance)=[ -~]{0,12}){0,3}",
        expires in "[ -~]{0,12}",
        path in "[ -~]{0,20}",
    ) {
        let lines = format!(
            "Supported: outbound, gruu\nContact: {value}\nExpires: {expires}\nPath: {path}\n"
        );
        let request = register(&lines);
        if let Ok(found) = parse(&request, &tcp("192.0.2.4:49152"))
            && let Change::Update(contacts) = found.change
        {
            for contact in contacts {
                prop_assert!(contact.q <= 1000 && contact.expires <= 3600);
                ok(&request, &[binding(contact, 60)], "");
            }
        }
    }

    #[test]
    fn gruus_read_back(user in "[ -?A-~äø]{1,12}", instance in "[!-~]{1,60}") {
        let aor = format!("{user}@biloxi.com");
        let mut contact = contact_of("Contact: <sip:bob@192.0.2.4>\n");
        contact.instance = instance.as_str().into();
        let found = binding(contact, 60);
        let gruus = Gruus::new(&[9; 32]);
        for text in [super::gruu::public(&aor, &instance), gruus.temporary(NOW, &aor, &found)] {
            let resolved = gruus.resolve(&Uri::parse(text.as_bytes()).unwrap()).unwrap();
            prop_assert_eq!((&*resolved.aor, &*resolved.instance), (&*aor, &*instance));
        }
    }
}

//! Properties of the wire layer that hold for any input.

use bytes::Bytes;
use proptest::prelude::*;
use sip_wire::{
    Address, Header, Message, Params, ParseError, Reply, RequestBuilder, Rewrite, Uri, Values, Via,
    check_request, check_response, eq_ignore_case, has_one_via, parse_date, parse_ip, parse_number, unescape,
};

const HEADERS: [Header; 12] = [
    Header::Via,
    Header::From,
    Header::To,
    Header::CallId,
    Header::CSeq,
    Header::Contact,
    Header::Route,
    Header::RecordRoute,
    Header::MaxForwards,
    Header::ContentLength,
    Header::Require,
    Header::Other,
];

/// Compact names and their long ones (RFC 3261 §7.3.3 and the IANA list).
const COMPACT: [(&str, &str); 14] = [
    ("c", "Content-Type"),
    ("e", "Content-Encoding"),
    ("f", "From"),
    ("i", "Call-ID"),
    ("k", "Supported"),
    ("l", "Content-Length"),
    ("m", "Contact"),
    ("o", "Event"),
    ("r", "Refer-To"),
    ("s", "Subject"),
    ("t", "To"),
    ("u", "Allow-Events"),
    ("v", "Via"),
    ("x", "Session-Expires"),
];

/// Calls everything that looks at bytes.
fn look_at_all(bytes: &[u8]) {
    let _ =
        (Uri::parse(bytes).map(|uri| look_at_uri(&uri)), parse_ip(bytes), parse_date(bytes), unescape(bytes));
    if let Some(address) = Address::parse(bytes) {
        let _ = (address.tag(), address.parsed_uri().map(|uri| look_at_uri(&uri)));
    }
    if let Some(via) = Via::parse(bytes) {
        look_at_via(&via);
    }
    for param in Params(bytes).iter() {
        let _ = (param.name.len(), Params(bytes).unquoted(&String::from_utf8_lossy(param.name)));
    }
    assert!(Values::new(bytes).map(<[u8]>::len).sum::<usize>() <= bytes.len());
    if let Ok(message) = Message::parse(Bytes::copy_from_slice(bytes)) {
        look_at_message(&message);
    }
}

/// The parameters that are found when a Via is parsed are those that are found one by one.
fn look_at_via(via: &Via<'_>) {
    let _ = (via.has_magic_branch(), via.received());
    let port = |value| parse_number(value).and_then(|port| u16::try_from(port).ok());
    assert_eq!(via.branch(), via.params.get("branch").filter(|branch| !branch.is_empty()));
    assert_eq!(via.rport(), via.params.get("rport").map(port));
}

fn look_at_uri(uri: &Uri<'_>) {
    assert!(uri.equals(uri), "a URI equals itself: {:?}", String::from_utf8_lossy(uri.raw));
    let _ = (uri.user_decoded(), uri.host_lower(), uri.host_ip(), uri.is_loose_router(), uri.number());
    let _ = uri.number_param("isub");
    if let Some(aor) = uri.aor() {
        let again = format!("sip:{aor}");
        let again = Uri::parse(again.as_bytes()).expect("an AOR is a URI's text");
        assert_eq!(again.aor(), Some(aor));
    }
}

fn look_at_message(message: &Message) {
    let _ = (message.kind(), message.method(), message.method_name(), message.status(), message.reason());
    let _ = (message.uri(), message.start_line(), message.body(), message.content_length());
    let others = message.values(Header::Via).skip(1).filter_map(Via::parse);
    assert!(message.vias().eq(message.top_via().into_iter().chain(others)));
    assert_eq!(has_one_via(message), message.values(Header::Via).count() == 1);
    let _ = (message.top_via(), message.from(), message.to(), message.from_tag(), message.to_tag());
    let _ = (message.call_id(), message.cseq(), message.max_forwards());
    let _ = (message.header_named("X-Odd"), message.lists(Header::Require, "100rel"));
    let _ = (check_request(message), check_response(message));
    for header in HEADERS {
        let _ = (message.header(header), message.count(header), message.values(header).count());
    }
    assert_eq!(Rewrite::new(message).finish(), message.bytes(), "nothing edited, nothing changed");
    edit_and_answer(message);
}

fn edit_and_answer(message: &Message) {
    for header in HEADERS {
        let mut rewrite = Rewrite::new(message);
        rewrite.push_front(header, |text| text.extend_from_slice(b"<sip:first>"));
        rewrite.remove_first_values(header, 2);
        let _ = rewrite.finish();
        let mut rewrite = Rewrite::new(message);
        rewrite.remove_last_value(header);
        rewrite.ensure_content_length();
        rewrite.set_uri(b"sip:a@b");
        let _ = rewrite.finish();
        let mut rewrite = Rewrite::new(message);
        rewrite.remove_all(header);
        rewrite.remove_first_value(header);
        let _ = rewrite.finish();
    }
    let source = ([192, 0, 2, 1], 5060).into();
    let mut reply = Reply::new(message, source, 400, "Bad Request", Some("t"));
    reply.copy_all(message, Header::RecordRoute);
    let reply = Message::parse(reply.finish()).expect("our own text is a message");
    assert_eq!((reply.status(), reply.body()), (400, &b""[..]));
    if check_request(message).is_ok() {
        check_response(&reply).expect("a good request has a good reply");
        assert_eq!((reply.call_id(), reply.cseq()), (message.call_id(), message.cseq()));
        assert_eq!(reply.count(Header::Via), message.count(Header::Via));
        let ack = RequestBuilder::from_invite("ACK", message, b"<sip:b@b>;tag=1");
        let _ = Message::parse(ack).expect("our own text is a message");
    }
}

/// Bytes that look like SIP often enough to get far.
fn sip_like() -> impl Strategy<Value = Vec<u8>> {
    let pieces = prop::sample::select(vec![
        &b"INVITE sip:a@b SIP/2.0\r\n"[..],
        b"SIP/2.0 200 OK\r\n",
        b"Via: SIP/2.0/UDP [::1]:5060;branch=z9hG4bK1;rport\r\n",
        b"v:SIP/2.0/TCP a;received=1.2.3.4,",
        b"From: \"A \\\" B\" <sip:a:b@c;lr?x=%41>;tag=1\r\n",
        b"t: <tel:+1-2;phone-context=a>\r\n",
        b"Call-ID: x\r\n",
        b"CSeq: 1 INVITE\r\n",
        b"Content-Length: 0\r\n",
        b"l:3\r\n",
        b"Max-Forwards: 0\r\n",
        b"Route: <sip:p1;lr>, <sip:p2;lr>\r\n",
        b"Contact: *\r\n",
        b"sip:%00@",
        b"\r\n",
        b"\r\n ",
        b"\r",
        b"\n",
        b"\0",
        b"<",
        b">",
        b"\"",
        b"\\",
        b",",
        b";",
        b"=",
        b":",
        b"@",
        b"?",
        b"[",
        b"]",
        b"%4",
        b" ",
    ]);
    let piece =
        prop_oneof![4 => pieces.prop_map(<[u8]>::to_vec), 1 => prop::collection::vec(any::<u8>(), 0..6)];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

/// White space that may stand wherever white space may, folded or not.
fn lws() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["", " ", "\t", "  ", "\r\n ", " \r\n\t", "\n "])
}

fn sip_uri() -> impl Strategy<Value = (String, [String; 5], Option<u16>)> {
    let user = "[a-zA-Z0-9_.!~*'()&=+$,;?/-]{1,12}(%[0-9A-F]{2}){0,2}";
    let host = prop_oneof![
        "[a-z0-9][a-z0-9-]{0,8}(\\.[a-z]{1,5}){0,3}",
        Just("[2001:db8::1]".to_owned()),
        Just("192.0.2.1".to_owned())
    ];
    let port = prop::option::of(1..=u16::MAX);
    let params = "(;[a-z]{1,6}(=[a-zA-Z0-9._-]{1,6})?){0,3}";
    let headers = "([a-z]{1,4}=[a-z%@]{0}[a-z]{0,4}(&[a-z]{1,4}=[a-z]{0,3}){0,2})?";
    let scheme = prop::sample::select(vec!["sip", "sips", "SIP"]);
    (scheme, user, host, port, params, headers).prop_map(|(scheme, user, host, port, params, headers)| {
        let mut text = format!("{scheme}:{user}@{host}");
        port.iter().for_each(|port| text += &format!(":{port}"));
        text += &params;
        if !headers.is_empty() {
            text += &format!("?{headers}");
        }
        (text, [scheme.to_owned(), user, host, params, headers], port)
    })
}

proptest! {
    #[test]
    fn a_parameter_is_found_by_name_as_in_the_list(
        text in "([aA]?[bB]?[ \t]?(=[ ]?(\"[a;\\\\]?\"|[a=<>]{0,2})?)?[ \r\n]{0,2};?){0,4}",
        name in "[ab]{1,2}",
    ) {
        let params = Params(text.as_bytes());
        let listed = params.iter().find(|param| eq_ignore_case(param.name, &name));
        prop_assert_eq!(params.get(&name), listed.map(|param| param.value.unwrap_or_default()));
    }

    #[test]
    fn a_via_has_the_branch_and_the_rport_of_its_text(
        params in "(;[ ]?(branch|rport|RPort|n)?x?[ \t]?(=[ ]?(\"[a;\\\\]?\"|5060|99999|z9hG4bK1|[a=<>]{0,2})?)?[ \t]{0,2}){0,5}",
    ) {
        let text = format!("SIP/2.0/UDP host{params}");
        if let Some(via) = Via::parse(text.as_bytes()) {
            look_at_via(&via);
        }
    }

    #[test]
    fn ipv4_addresses_are_those_of_the_standard_library(text in "(([0-9]{1,3}|25[0-9])\\.){0,4}[0-9.x]{0,4}") {
        let address = text.parse::<std::net::Ipv4Addr>().ok().map(std::net::IpAddr::from);
        prop_assert_eq!(parse_ip(text.as_bytes()), address);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    #[test]
    fn any_bytes_are_looked_at_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        look_at_all(&bytes);
    }

    #[test]
    fn bytes_like_sip_are_looked_at_without_panic(bytes in sip_like()) {
        look_at_all(&bytes);
    }

    #[test]
    fn a_uri_comes_apart_as_it_was_put_together((text, [_, user, host, params, headers], port) in sip_uri()) {
        let uri = Uri::parse(text.as_bytes()).unwrap();
        prop_assert_eq!(uri.user, Some(user.as_bytes()));
        prop_assert_eq!(uri.host, host.as_bytes());
        prop_assert_eq!(uri.port, port);
        prop_assert_eq!(uri.params.0, params.strip_prefix(';').unwrap_or(&params).as_bytes());
        prop_assert_eq!(uri.headers, headers.as_bytes());
        look_at_uri(&uri);
        // Host and scheme in other case, parameters and headers turned round: still equal where each stands once.
        let other = text.replacen(&host, &host.to_uppercase(), 1);
        prop_assert!(uri.equals(&Uri::parse(other.as_bytes()).unwrap()) || user.contains(&host));
    }

    #[test]
    fn a_header_that_was_set_reads_back(
        (uri, _, _) in sip_uri(),
        via in "[a-z]{1,8}(\\.[a-z]{1,4})?",
        hops in 0u8..=255,
        route in "<sip:[a-z]{1,6};lr>",
    ) {
        let text = "INVITE sip:old@old SIP/2.0\r\nv: SIP/2.0/UDP a, SIP/2.0/UDP b\r\nMax-Forwards : 70\r\nf:<sip:a@a>\r\n\
                    Route: <sip:gone>\r\n\tX\r\nX-Kept:  as \r\n it was\r\nl: 4\r\n\r\nbodyand more";
        let message = Message::parse(Bytes::from(text)).unwrap();
        let mut rewrite = Rewrite::new(&message);
        rewrite.set_uri(uri.as_bytes());
        rewrite.push_front(Header::Via, |text| text.extend_from_slice(format!("SIP/2.0/TCP {via}").as_bytes()));
        rewrite.set(Header::MaxForwards, |text| text.extend_from_slice(hops.to_string().as_bytes()));
        rewrite.remove_all(Header::Route);
        rewrite.push_front(Header::Route, |text| text.extend_from_slice(route.as_bytes()));
        let edited = Message::parse(rewrite.finish()).unwrap();
        prop_assert_eq!(edited.uri(), uri.as_bytes());
        prop_assert_eq!(edited.top_via().unwrap().host, via.as_bytes());
        prop_assert_eq!(edited.values(Header::Via).count(), 3);
        prop_assert_eq!(edited.max_forwards(), Some(Some(hops)));
        prop_assert_eq!(edited.values(Header::Route).collect::<Vec<_>>(), [route.as_bytes()]);
        prop_assert_eq!(edited.header_named("X-Kept"), Some(&b"as \r\n it was"[..]));
        prop_assert_eq!(edited.body(), b"body");
    }

    #[test]
    fn a_pasted_value_never_makes_a_header(value in sip_like()) {
        let message = Message::parse(Bytes::from("OPTIONS sip:a@b SIP/2.0\r\nX-A: 1\r\n\r\n")).unwrap();
        let mut rewrite = Rewrite::new(&message);
        rewrite.set_uri(&value);
        rewrite.append("X-B", |text| text.extend_from_slice(&value));
        let Ok(edited) = Message::parse(rewrite.finish()) else { panic!("still a message") };
        prop_assert_eq!(edited.count(Header::Other), 2);
        prop_assert_eq!(edited.start_line().iter().filter(|&&b| b == b' ').count(), 2);
    }

    #[test]
    fn folding_changes_no_value(
        w in prop::collection::vec(lws(), 24),
        sp in prop::collection::vec(prop::sample::select(vec![" ", "\t", "\r\n ", "\n\t "]), 3),
    ) {
        let [a, b, c, d, e, f, g, h] = [w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7]];
        let text = format!(
            "OPTIONS sip:x@y SIP/2.0\r\n\
             Via:{a}SIP{b}/{c}2.0{d}/{e}UDP{}h.test{f}:{g}5061{h};{a}branch{b}={c}z9hG4bK1{d};{e}rport{f},{g}SIP/2.0/TCP j{h}\r\n\
             From:{a}\"A, <B>;\"{b}<sip:a@b;p=1>{c};{d}tag{e}={f}1{g}\r\n\
             To:{b}sip:c@d{c};{d}x{e}\r\n\
             CSeq:{g}0042{}OPTIONS{h}\r\n\
             Call-ID:{a}id@h{b}\r\nMax-Forwards:{c}9{d}\r\nContent-Length:{e}0{f}\r\n\
             Route:{g}<sip:p1;lr>{h},{a}<sip:p2;lr>{b};{c}q{d}={e}\"x;y\"{f}\r\n\r\n",
            sp[0], sp[1],
        );
        let message = Message::parse(Bytes::from(text)).unwrap();
        prop_assert_eq!(check_request(&message), Ok(()));
        let via = message.top_via().unwrap();
        prop_assert_eq!((via.transport, via.host, via.port), (&b"UDP"[..], &b"h.test"[..], Some(5061)));
        prop_assert_eq!((via.branch(), via.rport()), (Some(&b"z9hG4bK1"[..]), Some(None)));
        prop_assert_eq!(message.values(Header::Via).count(), 2);
        let from = message.from().unwrap();
        prop_assert_eq!((from.display, from.uri), (&b"\"A, <B>;\""[..], &b"sip:a@b;p=1"[..]));
        prop_assert_eq!(message.from_tag(), Some(&b"1"[..]));
        prop_assert_eq!(message.to().unwrap().uri, b"sip:c@d");
        prop_assert!(message.to().unwrap().params.has("x"));
        prop_assert_eq!(message.cseq(), Some((42, &b"OPTIONS"[..])));
        prop_assert_eq!((message.call_id(), message.max_forwards()), (Some(&b"id@h"[..]), Some(Some(9))));
        let last = message.values(Header::Route).last().and_then(Address::parse).unwrap();
        prop_assert_eq!(last.params.unquoted("q"), Some(&b"x;y"[..]));
    }
}

#[test]
fn compact_and_long_names_are_equal() {
    for (compact, long) in COMPACT {
        let header = Header::from_bytes(long.as_bytes());
        assert_ne!(header, Header::Other, "{long}");
        for name in [compact, &compact.to_uppercase(), &long.to_uppercase(), &long.to_lowercase()] {
            assert_eq!(Header::from_bytes(name.as_bytes()), header, "{name}");
        }
        assert!(eq_ignore_case(header.as_str().as_bytes(), long));
    }
}

/// Lines that two readers would read differently, and our response to them.
#[test]
fn ambiguous_lines_are_refused() {
    let verdict = |line: &str| {
        let text = format!(
            "OPTIONS sip:x@y SIP/2.0\r\nVia: SIP/2.0/UDP h;branch=z9hG4bK1\r\nFrom: <sip:a@b>;tag=1\r\n\
             To: <sip:c@d>\r\nCall-ID: i\r\nCSeq: 1 OPTIONS\r\n{line}\r\n\r\n"
        );
        check_request(&Message::parse(Bytes::from(text)).unwrap()).err().map(|fault| fault.reason)
    };
    assert_eq!(verdict("X-Fine  : yes"), None);
    assert_eq!(verdict("X-Quoted-Nul: \"\\\0\""), None);
    assert_eq!(verdict("X-Lf-Only: a\nX-Lf: b"), None);
    assert_eq!(verdict("no colon"), Some("Bad Header Line"));
    assert_eq!(verdict(": no name"), Some("Bad Header Line"));
    assert_eq!(verdict("X Y: two words"), Some("Bad Header Line"));
    assert_eq!(verdict("X: a\rTo: <sip:evil@e>"), Some("Bad Header Line"));
    assert_eq!(verdict("X: a\r\r\nY: b"), Some("Bad Header Line"));
    assert_eq!(verdict("\rX: a"), Some("Bad Header Line"));
    assert_eq!(verdict("X: a\r\n b\rc"), Some("Bad Header Line"), "in a continuation line");
    assert_eq!(verdict("Content-Length: 0\r\nl: 0"), Some("Repeated Header"));
    assert_eq!(verdict("Content-Length: 99999999999999999999"), Some("Bad Content-Length"));
    assert_eq!(verdict("Content-Length: -1"), Some("Bad Content-Length"));
    assert_eq!(verdict("Content-Length: +0"), Some("Bad Content-Length"));
    assert_eq!(verdict("Content-Length: 0x0"), Some("Bad Content-Length"));
    assert_eq!(verdict("Content-Length:"), Some("Bad Content-Length"));
    assert_eq!(verdict("Content-Length: 1"), Some("Body Shorter Than Content-Length"));
    assert_eq!(verdict("Max-Forwards: 256"), Some("Bad Max-Forwards"));
    assert_eq!(verdict("CSeq: 2 OPTIONS"), Some("Repeated Header"));
}

#[test]
fn a_folded_start_line_is_not_sip() {
    let text = "OPTIONS sip:x@y SIP/2.0\r\n Via: SIP/2.0/UDP h;branch=z9hG4bK1\r\nCSeq: 1 OPTIONS\r\n\r\n";
    assert_eq!(Message::parse(Bytes::from(text)).unwrap_err(), ParseError::NotSip);
}

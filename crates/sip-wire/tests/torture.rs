//! Every message of RFC 4475 and RFC 5118 with our verdict on it and the values that must be read from it.
//!
//! The verdict is that of the wire: the message is well formed enough for a transaction and for forwarding
//! (RFC 3261 §16.3 step 1). Where a later layer answers, the row says which.

#![expect(clippy::unwrap_used, reason = "a test helper that panics is a failed test")]

use std::fs;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use sip_wire::{
    Address, Fault, Header, Message, ParseError, Rewrite, Uri, Via, check_request, check_response,
};

/// The verdict of the wire layer.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Verdict {
    Accept,
    /// Answered so.
    Reject(u16, &'static str),
    /// A response that must be ignored; responses are not answered.
    Drop(&'static str),
    NotSip(ParseError),
}

use Verdict::{Accept, Drop, NotSip, Reject};

struct Row {
    name: &'static str,
    verdict: Verdict,
    /// The component that answers what the wire accepts, or the reason for a deviation.
    note: &'static str,
    /// Questions to [`read`] and their answers.
    reads: &'static [(&'static str, &'static str)],
}

const fn row(
    name: &'static str,
    verdict: Verdict,
    note: &'static str,
    reads: &'static [(&'static str, &'static str)],
) -> Row {
    Row { name, verdict, note, reads }
}

#[rustfmt::skip]
const RFC_4475: &[Row] = &[
    // §3.1.1 Valid messages.
    row("wsinv", Accept, "§3.1.1.1: folding, white space, compact forms, leading zeros", &[
        ("method", "INVITE"), ("cseq", "9 INVITE"), ("max-forwards", "68"),
        ("uri", "sip:vivekg@chair-dnrc.example.com;unknownparam"),
        ("to.uri", "sip:vivekg@chair-dnrc.example.com"), ("to.tag", "1918181833n"),
        ("from.display", r#""J Rosenberg \\\"""#), ("from.uri", "sip:jdrosen@example.com"), ("from.tag", "98asjd8"),
        ("call-id", "wsinv.ndaksdj@192.0.2.1"),
        ("vias", "3"), ("via 0", "UDP 192.0.2.2 390skdjuw"),
        ("via 1", "TCP spindle.example.com z9hG4bK9ikj8"), ("via 2", "UDP 192.168.255.111 z9hG4bK30239"),
        ("header Subject", ""),
        ("other NewFangledHeader", "newfangled value\r\n continued newfangled value"),
        ("other UnknownHeaderWithUnusualValue", ";;,,;;,;"),
        ("routes", "1"), ("contact 0", "sip:jdrosen@example.com"), ("contact 0 q", "0.33"),
        ("contact 0 newparam", "newvalue"), ("contact 0 secondparam", ""), ("body", "150"),
    ]),
    row("intmeth", Accept, "§3.1.1.2; the endpoint answers 405 or 501 where the URI is ours", &[
        ("method", "!interesting-Method0123456789_*+`.%indeed'~"),
        ("uri.user", "1_unusual.URI~(to-be!sure)&isn't+it$/crazy?,/;;*"),
        ("uri.password", "&it+has=1,weird!*pas$wo~d_too.(doesn't-it)"), ("uri.host", "example.com"),
        ("via 0", "TCP host1.example.com z9hG4bK-.!%66*_+`'~"),
        ("to.display", "\"BEL:\\\u{7} NUL:\\\0 DEL:\\\u{7f}\""),
        ("from.display", "token1~` token2'+_ token3*%!.-"), ("from.uri", "sip:mundane@example.com"),
        ("from.tag", "_token~1'+`*%!-."), ("call-id", "intmeth.word%ZK-!.*_+'@word`~)(><:\\/\"][?}{"),
        ("cseq", "139122385 !interesting-Method0123456789_*+`.%indeed'~"), ("max-forwards", "255"),
        ("other extensionHeader-!.%*+_`'~", "\u{feff}大停電"),
    ]),
    row("esc01", Accept, "§3.1.1.3: the embedded URI is only a user part", &[
        ("uri.user", "sips%3Auser%40example.com"), ("uri.aor", "sips%3Auser%40example.com@example.net"),
        ("uri.host", "example.net"), ("to.aor", "user@example.com"),
        ("from.aor", "I%20have%20spaces@example.net"),
        ("contact 0", "sip:cal%6Cer@host5.example.net;%6C%72;n%61me=v%61lue%25%34%31"),
    ]),
    row("escnull", Accept, "§3.1.1.4: a NUL in a name stays escaped and shortens nothing", &[
        ("to.aor", "null-%00-null@example.com"), ("contacts", "2"),
        ("contact 0", "sip:%00@host5.example.com"), ("contact 1", "sip:%00%00@host5.example.com"),
    ]),
    row("esc02", Accept, "§3.1.1.5: no method we know; the endpoint answers where the URI is ours", &[
        ("method", "RE%47IST%45R"), ("to.display", "\"%Z%45\""), ("contacts", "2"),
        ("other C%6Fntact", "<sip:alias2@host2.example.com>"), ("via 0", "TCP host.example.com z9hG4bK209%fzsnel234"),
    ]),
    row("lwsdisp", Accept, "§3.1.1.6: no white space before '<'", &[
        ("from.display", "caller"), ("from.uri", "sip:caller@example.com"), ("from.tag", "323"),
    ]),
    row("longreq", Accept, "§3.1.1.7", &[
        ("vias", "34"), ("via 0", "TCP sip33.example.com "), ("cseq", "3882340 INVITE"), ("body", "150"),
        ("to.uri.port", "6000"), ("contacts", "1"),
    ]),
    row("dblreq", Accept, "§3.1.1.8: the second request of the datagram is dropped, never forwarded", &[
        ("method", "REGISTER"), ("body", "0"), ("call-id", "dblreq.0ha0isndaksdj99sdfafnl3lk233412"),
    ]),
    row("semiuri", Accept, "§3.1.1.9", &[
        ("uri.user", "user;par=u%40example.net"), ("uri.host", "example.com"), ("values Accept", "6"),
    ]),
    row("transports", Accept, "§3.1.1.10", &[
        ("vias", "5"), ("via 1", "SCTP t2.example.com z9hG4bKklasjdhf"),
        ("via 3", "UNKNOWN t4.example.com z9hG4bKasd0f3en"), ("call-id", "transports.kijh4akdnaqjkwendsasfdj"),
    ]),
    row("mpart01", Accept, "§3.1.1.11: a body with NULs", &[
        ("method", "MESSAGE"), ("body", "553"), ("header Content-Type", "multipart/mixed;boundary=7a9cbec02ceef655"),
    ]),
    row("unreason", Accept, "§3.1.1.12", &[
        ("status", "200"), ("reason", "= 2**3 * 5**2 но сто девяносто девять - простое"), ("cseq", "35 INVITE"),
    ]),
    row("noreason", Accept, "§3.1.1.13", &[("status", "100"), ("reason", "")]),
    // §3.1.2 Invalid messages.
    row("badinv01", Reject(400, "Bad Via"), "§3.1.2.1", &[]),
    row("clerr", Reject(400, "Body Shorter Than Content-Length"), "§3.1.2.2, as a datagram; a stream waits for the rest", &[]),
    row("ncl", Reject(400, "Bad Content-Length"), "§3.1.2.3", &[("body", "152")]),
    row("scalar02", Reject(400, "Bad CSeq"), "§3.1.2.4", &[("contact 0 expires", "280297596632815")]),
    row("scalarlg", Drop("Bad CSeq"), "§3.1.2.5: discarded", &[("status", "503")]),
    row("quotbal", Reject(400, "Bad To"), "§3.1.2.6", &[]),
    row("ltgtruri", Reject(400, "Bad Request-URI"), "§3.1.2.7", &[]),
    row("lwsruri", Reject(400, "Bad Request Line"), "§3.1.2.8", &[]),
    row("lwsstart", Reject(400, "Bad Request Line"), "§3.1.2.9", &[]),
    row("trws", Reject(400, "Bad Request Line"), "§3.1.2.10", &[]),
    row("escruri", Reject(400, "Headers In Request-URI"), "§3.1.2.11", &[]),
    row("baddate", Accept, "§3.1.2.12: a proxy does not read Date (docs/deviations/sip.md); readers of it get none", &[
        ("date", "none"),
    ]),
    row("regbadct", Accept, "§3.1.2.13: the registrar answers 400, for the Contact cannot be read", &[("contact 0", "unreadable")]),
    row("badaspec", Accept, "§3.1.2.14: the white space is skipped (docs/deviations/sip.md)", &[
        ("to.uri", "sip:t.watson@example.org"), ("to.display", "\"Watson, Thomas\""),
    ]),
    row("baddn", Accept, "§3.1.2.15: a proxy does not read display names (docs/deviations/sip.md)", &[
        ("from.display", "Bell, Alexander"), ("from.uri", "sip:a.g.bell@example.com"), ("from.tag", "43"),
    ]),
    row("badvers", Reject(505, "Version Not Supported"), "§3.1.2.16", &[]),
    row("mismatch01", Reject(400, "CSeq Method Mismatch"), "§3.1.2.17", &[]),
    row("mismatch02", Reject(400, "CSeq Method Mismatch"), "§3.1.2.18: 501 would do as well", &[]),
    row("bigcode", NotSip(ParseError::NotSip), "§3.1.2.19: discarded", &[]),
    // §3.2 Transaction layer.
    row("badbranch", Accept, "§3.2.1: matched by the rules of RFC 2543, as no branch stands behind the cookie", &[
        ("via 0", "UDP 192.0.2.1 z9hG4bK"), ("via 0 magic", "false"),
    ]),
    // §3.3 Application layer.
    row("insuf", Reject(400, "Missing Call-ID"), "§3.3.1", &[]),
    row("unkscm", Reject(416, "Unsupported URI Scheme"), "§3.3.2", &[]),
    row("novelsc", Reject(416, "Unsupported URI Scheme"), "§3.3.3", &[]),
    row("unksm2", Accept, "§3.3.4: the registrar answers 400 or 416 for the To", &[
        ("to.uri", "isbn:2983792873"), ("to.aor", "none"), ("from.uri", "http://www.example.com"),
    ]),
    row("bext01", Accept, "§3.3.5: the proxy answers 420 with Unsupported", &[("values Proxy-Require", "2"), ("values Require", "2")]),
    row("invut", Accept, "§3.3.6: the called endpoint answers 415", &[("body", "40")]),
    row("regaut01", Accept, "§3.3.7: the registrar answers 401", &[("header Authorization", "NoOneKnowsThisScheme opaque-data=here")]),
    row("multi01", Reject(400, "Repeated Header"), "§3.3.8", &[]),
    row("mcl01", Reject(400, "Repeated Header"), "§3.3.9", &[]),
    row("bcast", Accept, "§3.3.10: the endpoint drops it, for the top Via is not ours", &[("via 1", "UDP 255.255.255.255 z9hG4bK1saber23")]),
    row("zeromf", Accept, "§3.3.11: the proxy answers 483, or the OPTIONS itself", &[("max-forwards", "0")]),
    row("cparam01", Accept, "§3.3.12: the registrar keeps a URI without the parameter", &[
        ("contact 0", "sip:+19725552222@gw1.example.net"), ("contact 0 unknownparam", ""),
    ]),
    row("cparam02", Accept, "§3.3.13: the registrar keeps a URI with the parameter", &[
        ("contact 0", "sip:+19725552222@gw1.example.net;unknownparam"), ("contact 0 unknownparam", "none"),
    ]),
    row("regescrt", Accept, "§3.3.14: the registrar keeps the header in the URI", &[
        ("contact 0", "sip:user@example.com?Route=%3Csip:sip.example.com%3E"),
    ]),
    row("sdp01", Accept, "§3.3.15: the called endpoint answers 406", &[("body", "150")]),
    row("inv2543", Accept, "§3.3.16: no tag, no branch, no Max-Forwards, no Content-Length", &[
        ("from.tag", "none"), ("max-forwards", "none"), ("body", "105"), ("via 0 magic", "false"),
        ("to.uri", "sip:+16505552222@ss1.example.net"),
    ]),
];

#[rustfmt::skip]
const RFC_5118: &[Row] = &[
    row("ipv6-good", Accept, "§4.1", &[("uri.host", "[2001:db8::10]"), ("via 0", "UDP [2001:db8::9:1] z9hG4bKas3-111")]),
    row("ipv6-bad", Reject(400, "Bad Request-URI"), "§4.2", &[]),
    row("port-ambiguous", Accept, "§4.3: the port is part of the address", &[("uri.host", "[2001:db8::10:5070]"), ("uri.port", "none")]),
    row("port-unambiguous", Accept, "§4.4", &[("uri.host", "[2001:db8::10]"), ("uri.port", "5070")]),
    row("via-received-param-with-delim", Accept, "§4.5", &[("via 0 received", "2001:db8::9:255")]),
    row("via-received-param-no-delim", Accept, "§4.5", &[("via 0 received", "2001:db8::9:255")]),
    row("ipv6-in-sdp", Accept, "§4.6: bodies are not read", &[("contact 0", "sip:caller@[2001:db8::20]"), ("body", "251")]),
    row("mult-ip-in-header", Accept, "§4.7", &[
        ("vias", "3"), ("via 0", "UDP [2001:db8::9:1]:6050 z9hG4bKas3-111"),
        ("via 2", "TCP [2001:db8::9:255] z9hG4bK451jj"), ("via 2 received", "192.0.2.200"),
    ]),
    row("mult-ip-in-sdp", Accept, "§4.8: bodies are not read", &[("body", "189")]),
    row("ipv4-mapped-ipv6", Accept, "§4.9", &[("via 0", "UDP [::ffff:192.0.2.10]:19823 z9hG4bKbh19"), ("contact 0", "sip:ted@[::ffff:192.0.2.2]")]),
    row("ipv6-bug-abnf-3-colons", Accept, "§4.10: read as two colons, forwarded as written", &[
        ("uri.host", "[2001:db8:::192.0.2.1]"), ("uri.ip", "2001:db8::c000:201"),
    ]),
    row("ipv6-correct-abnf-2-colons", Accept, "§4.10", &[("uri.ip", "2001:db8::c000:201")]),
];

/// Messages that fuzzing once broke.
#[rustfmt::skip]
const FOUND: &[Row] = &[
    row("folded-start", NotSip(ParseError::NotSip), "an edit made the first header continue what was pasted before it", &[]),
    row("one-space", NotSip(ParseError::NotSip), "a request line without a URI had no place to set one", &[]),
];

#[test]
fn rfc_4475() {
    play("rfc4475", RFC_4475);
}

#[test]
fn rfc_5118() {
    play("rfc5118", RFC_5118);
}

#[test]
fn found() {
    play("found", FOUND);
}

fn play(set: &str, rows: &[Row]) {
    let folder = vectors().join(set);
    let files = fs::read_dir(&folder).unwrap().count();
    assert_eq!(files, rows.len(), "a row for each file of {set}");
    for row in rows {
        let bytes = Bytes::from(fs::read(folder.join(row.name).with_extension("dat")).unwrap());
        let context = format!("{} ({})", row.name, row.note);
        let message = match Message::parse(bytes) {
            Ok(message) => message,
            Err(error) => {
                assert_eq!(NotSip(error), row.verdict, "{context}");
                continue;
            }
        };
        assert_eq!(verdict(&message), row.verdict, "{context}");
        for (question, answer) in row.reads {
            assert_eq!(read(&message, question), *answer, "{question} of {context}");
        }
        assert_eq!(Rewrite::new(&message).finish(), message.bytes(), "{context}");
    }
}

fn vectors() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors")
}

fn verdict(message: &Message) -> Verdict {
    let is_request = message.is_request();
    match if is_request { check_request(message) } else { check_response(message) } {
        Ok(()) => Accept,
        Err(Fault { status, reason }) if is_request => Reject(status, reason),
        Err(Fault { reason, .. }) => Drop(reason),
    }
}

fn read(message: &Message, question: &str) -> String {
    let words: Vec<&str> = question.split(' ').collect();
    match words[..] {
        ["method"] => text(message.method_name()),
        ["status"] => message.status().to_string(),
        ["reason"] => text(message.reason()),
        ["cseq"] => message.cseq().map_or(none(), |(number, method)| format!("{number} {}", text(method))),
        ["call-id"] => text(message.call_id().unwrap()),
        ["max-forwards"] => message.max_forwards().map_or(none(), |hops| hops.unwrap().to_string()),
        ["body"] => message.body().len().to_string(),
        ["date"] => message
            .header(Header::Date)
            .and_then(sip_wire::parse_date)
            .map_or(none(), |date| date.unix_seconds().to_string()),
        ["vias"] => message.values(Header::Via).count().to_string(),
        ["routes"] => message.values(Header::Route).count().to_string(),
        ["contacts"] => message.values(Header::Contact).count().to_string(),
        ["header", name] => text(message.header(Header::from_bytes(name.as_bytes())).unwrap()),
        ["other", name] => text(message.header_named(name).unwrap()),
        ["values", name] => message.values(Header::from_bytes(name.as_bytes())).count().to_string(),
        ["via", index, ref rest @ ..] => {
            let value = message.values(Header::Via).nth(index.parse().unwrap()).unwrap();
            read_via(&Via::parse(value).unwrap(), rest)
        }
        ["contact", index, ref rest @ ..] => {
            let value = message.values(Header::Contact).nth(index.parse().unwrap()).unwrap();
            Address::parse(value).map_or("unreadable".into(), |address| read_address(&address, rest))
        }
        [path] => match path.split_once('.') {
            Some(("from", part)) => read_address(&message.from().unwrap(), &[part]),
            Some(("to", part)) => read_address(&message.to().unwrap(), &[part]),
            Some(("uri", part)) => read_uri(&Uri::parse(message.uri()).unwrap(), part),
            _ => text(message.uri()),
        },
        _ => panic!("no such question: {question}"),
    }
}

fn read_via(via: &Via<'_>, rest: &[&str]) -> String {
    match rest {
        [] => {
            let port = via.port.map_or(String::new(), |port| format!(":{port}"));
            let branch = text(via.branch().unwrap_or_default());
            format!("{} {}{port} {branch}", text(via.transport), text(via.host))
        }
        ["magic"] => via.has_magic_branch().to_string(),
        ["received"] => sip_wire::parse_ip(via.received().unwrap()).unwrap().to_string(),
        _ => panic!("no such question of a Via: {rest:?}"),
    }
}

fn read_address(address: &Address<'_>, rest: &[&str]) -> String {
    match rest {
        [] | ["uri"] => text(address.uri),
        ["display"] => text(address.display),
        ["tag"] => address.tag().map_or(none(), text),
        ["aor"] => address.parsed_uri().unwrap().aor().unwrap_or(none()),
        ["uri.port"] => read_uri(&address.parsed_uri().unwrap(), "port"),
        [param] => address.params.get(param).map_or(none(), text),
        _ => panic!("no such question of an address: {rest:?}"),
    }
}

fn read_uri(uri: &Uri<'_>, part: &str) -> String {
    match part {
        "user" => text(uri.user.unwrap()),
        "password" => text(uri.password.unwrap()),
        "host" => text(uri.host),
        "port" => uri.port.map_or(none(), |port| port.to_string()),
        "ip" => uri.host_ip().map_or(none(), |ip| ip.to_string()),
        "aor" => uri.aor().unwrap_or(none()),
        _ => panic!("no such part of a URI: {part}"),
    }
}

fn none() -> String {
    "none".into()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

//! The scenarios of plans and benches for calls between accounts, at a server that is slow.

use super::world::Endpoint;
use crate::options::Options;
use crate::scenario::Scenario;
use crate::scenario::compile_text;
use crate::scenario::model::ScenarioSource;
use crate::stats::Count;

const ID: &str = "1@host";

/// Answers a second challenge, too.
const OF_FARMS: &str = "bench/farm/scenarios/account-call.xml";
const SCENARIOS: [&str; 3] = [OF_FARMS, "bench/scenarios/call.xml", "crates/lab/plans/call.xml"];

/// The scenario, with the fields of one line of an injection file.
fn scenario(file: &str) -> Scenario {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let text = std::fs::read_to_string(format!("{folder}/{file}")).unwrap();
    let fields = [
        ("[field0]", "alice"),
        ("[field1]", "example.test"),
        ("[field2]", "[authentication username=alice password=secret]"),
        ("[field3]", "bob"),
    ];
    let text = fields.into_iter().fold(text, |text, (field, value)| text.replace(field, value));
    let compiled = compile_text(text.as_bytes(), ScenarioSource::BuiltIn("account-call")).unwrap();
    assert!(compiled.warnings.is_empty(), "{:?}", compiled.warnings);
    compiled.scenario
}

/// A response to a request as it was sent.
fn respond(request: &str, status: &str, more: &str) -> String {
    let copied =
        |line: &&str| ["Via:", "From:", "To:", "Call-ID:", "CSeq:"].iter().any(|name| line.starts_with(name));
    let tag = |line: &str| match line.starts_with("To:") && !line.contains(";tag=") {
        true => format!("{line};tag=peer\r\n"),
        false => format!("{line}\r\n"),
    };
    let copied: String = request.lines().filter(copied).map(tag).collect();
    format!("SIP/2.0 {status}\r\n{copied}{more}Content-Length: 0\r\n\r\n")
}

fn challenge(request: &str, nonce: &str) -> String {
    let digest = format!("Digest realm=\"example.test\", nonce=\"{nonce}\", algorithm=MD5, qop=\"auth\"");
    respond(request, "407 Proxy Authentication Required", &format!("Proxy-Authenticate: {digest}\r\n"))
}

/// The call until its first challenge was answered: the first INVITE and the second.
fn challenged(file: &str) -> (Endpoint, String, String) {
    let mut end = Endpoint::new(scenario(file), Options::default());
    end.start(ID);
    let first = end.sent[0].clone();
    end.deliver(challenge(&first, "1").as_bytes());
    let second = end.sent[2].clone();
    assert!(second.contains("nonce=\"1\""), "{second}");
    assert_eq!(end.said(), ["INVITE", "ACK", "INVITE"]);
    (end, first, second)
}

/// The callee answers this INVITE, and the call ends.
fn expect_success(mut end: Endpoint, invite: &str) {
    end.deliver(respond(invite, "200 OK", "Contact: <sip:bob@127.0.0.2>\r\n").as_bytes());
    let bye = end.sent.last().unwrap().clone();
    assert_eq!(end.said(), ["ACK", "BYE"]);
    end.deliver(respond(&bye, "200 OK", "").as_bytes());
    assert_eq!(end.count(Count::SuccessfulCall), 1);
    end.assert_books();
}

/// RFC 3261 §8.2.7: a server without state challenges a repeated INVITE with another nonce. §17.1.1.2: the caller's transaction has its final
/// response, and acknowledges the second one.
#[test]
fn an_invite_that_is_challenged_twice_is_placed_once() {
    for file in SCENARIOS {
        let (mut end, first, second) = challenged(file);
        end.deliver(challenge(&first, "2").as_bytes());
        assert_eq!(end.said(), ["ACK"], "{file}");
        end.deliver(respond(&second, "180 Ringing", "").as_bytes());
        end.deliver(challenge(&first, "3").as_bytes());
        assert_eq!(end.said(), ["ACK"], "{file}");
        expect_success(end, &second);
    }
}

/// An INVITE without a challenge, as of a server that knows its callers.
#[test]
fn an_invite_that_is_not_challenged_is_placed() {
    for file in &SCENARIOS[1..] {
        let mut end = Endpoint::new(scenario(file), Options::default());
        end.start(ID);
        let first = end.sent[0].clone();
        assert_eq!(end.said(), ["INVITE"]);
        expect_success(end, &first);
    }
}

/// RFC 7616 §3.3: the nonce is older than the node.
#[test]
fn an_invite_with_a_stale_nonce_is_challenged_again() {
    let (mut end, first, second) = challenged(OF_FARMS);
    end.deliver(challenge(&second, "2").as_bytes());
    let third = end.sent[1].clone();
    assert!(third.contains("nonce=\"2\""), "{third}");
    assert_eq!(end.said(), ["ACK", "INVITE"]);
    end.deliver(challenge(&first, "3").as_bytes());
    assert_eq!(end.said(), ["ACK"]);
    expect_success(end, &third);
}

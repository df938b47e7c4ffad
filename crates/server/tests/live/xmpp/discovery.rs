//! Discovery of connection addresses (XEP-0156), contact addresses (XEP-0157) and relays (XEP-0215).

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use sha2::{Digest as _, Sha256};
use sip::transport::Transport::{Tls, Ws, Wss};
use xmpp::ns;

use super::client::Client;
use super::http::Http;
use crate::place::Place;
use crate::until;
use crate::voice::sum;

#[test]
fn a_browser_finds_where_to_connect() {
    let place = Place::new("").with_xmpp("");
    let mut node = place.start();
    for (transport, scheme) in [(Wss, "s"), (Ws, "")] {
        let mut http = Http::connect(&place, transport);
        let answer = http.ask(
            "GET",
            "/.well-known/host-meta",
            "Host: example.test\r\nOrigin: https://any.test\r\n",
            b"",
        );
        assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/xrd+xml")));
        assert_eq!(answer.header("access-control-allow-origin"), Some("*"), "XEP-0156 §5");
        let expected =
            format!("<Link rel='urn:xmpp:alt-connections:websocket' href='ws{scheme}://example.test/ws'/>");
        assert!(answer.text().contains(&expected), "{}", answer.text());
        let answer = http.ask("GET", "/.well-known/host-meta.json", "Host: example.test:443\r\n", b"");
        let links: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!(links["links"][1]["rel"], "urn:xmpp:alt-connections:xbosh");
        assert_eq!(links["links"][1]["href"], format!("http{scheme}://example.test:443/bosh"));
        // By no name of ours: the address that was configured.
        let answer = http.ask("GET", "/.well-known/host-meta", "Host: evil.test\r\n", b"");
        let expected = format!("wss://{}/ws", place.xmpp_at(Wss));
        assert!(answer.text().contains(&expected) && !answer.text().contains("evil"), "{}", answer.text());
        let answer = http.ask("HEAD", "/.well-known/host-meta", "", b"");
        assert_eq!((answer.status, answer.body.len()), (200, 0));
        assert_eq!(http.ask("PUT", "/.well-known/host-meta", "", b"x").status, 405);
    }
    node.stop();
    let place = Place::new("").with_xmpp("[xmpp.web]\npublic_url = \"https://chat.example.test/xmpp/\"\n");
    let mut node = place.start();
    let answer =
        Http::connect(&place, Ws).ask("GET", "/.well-known/host-meta", "Host: example.test\r\n", b"");
    assert!(answer.text().contains("'wss://chat.example.test/xmpp/ws'"), "{}", answer.text());
    node.stop();
}

/// RFC 7711 §3.1 and §4: the certificate that the streams show, of which the fingerprint is SHA-256 over DER, in Base64.
#[test]
fn the_certificate_of_the_streams_is_told_over_https() {
    let place = Place::new("").with_xmpp("");
    let mut node = place.start();
    let certificate = std::fs::read(place.path("data/cert.pem")).expect("the certificate");
    let certificate = CertificateDer::from_pem_slice(&certificate).expect("a certificate");
    let fingerprint = BASE64_STANDARD.encode(Sha256::digest(&certificate));
    let mut http = Http::connect(&place, Wss);
    for service in ["client", "server"] {
        let path = format!("/.well-known/posh/xmpp-{service}.json");
        let answer = http.ask("GET", &path, "Host: hosted.test\r\nOrigin: https://any.test\r\n", b"");
        assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
        assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
        let document: serde_json::Value = serde_json::from_slice(&answer.body).expect("JSON");
        assert_eq!(document["fingerprints"], serde_json::json!([{ "sha-256": fingerprint }]));
        assert!(document["expires"].as_u64().is_some_and(|seconds| seconds > 0), "{document}");
        assert_eq!(http.ask("PUT", &path, "", b"x").status, 405);
    }
    assert_eq!(http.ask("GET", "/.well-known/posh/sip.json", "", b"").status, 404);
    node.stop();
}

#[test]
fn unknown_paths_methods_and_origins_are_refused_and_counted() {
    let place = Place::with_shards(1, "").with_xmpp("websocket_origins = [\"https://chat.example.test\"]\n");
    let mut node = place.start();
    let mut http = Http::connect(&place, Ws);
    assert_eq!(http.ask("GET", "/", "", b"").status, 404);
    assert_eq!(http.ask("GET", "/../../etc/passwd", "", b"").status, 404);
    assert_eq!(http.ask("DELETE", "/bosh", "", b"").status, 405);
    assert_eq!(http.ask("GET", "/bosh", "", b"").status, 200, "for people who look");
    let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                   Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n";
    assert_eq!(http.ask("GET", "/ws", upgrade, b"").status, 400, "without a subprotocol");
    let xmpp = format!("{upgrade}Sec-WebSocket-Protocol: xmpp\r\n");
    assert_eq!(http.ask("GET", "/ws", &format!("{xmpp}Origin: https://evil.test\r\n"), b"").status, 403);
    let evil = http.ask("POST", "/bosh", "Origin: https://evil.test\r\n", b"<body/>");
    assert_eq!((evil.status, evil.header("access-control-allow-origin")), (403, None));
    let preflight = http.ask("OPTIONS", "/bosh", "Origin: https://chat.example.test\r\n", b"");
    assert_eq!(preflight.header("access-control-allow-origin"), Some("https://chat.example.test"));
    assert_eq!(preflight.header("access-control-allow-methods"), Some("post, options"));
    until("they are counted", || (sum(&node, |shard| shard.xmpp.http_refused) == 6).then_some(()));
    until("and all", || (sum(&node, |shard| shard.xmpp.http_requests) == 8).then_some(()));
    // Heads that never end, and what is no HTTP.
    let mut long = Http::connect(&place, Ws);
    long.say_raw(format!("GET / HTTP/1.1\r\nX: {}", "x".repeat(20_000)).as_bytes());
    assert_eq!(long.hear(true).status, 431);
    let mut wrong = Http::connect(&place, Ws);
    wrong.say_raw(b"<stream:stream>\r\n\r\n");
    assert_eq!(wrong.hear(true).status, 400);
    until("they are counted", || (sum(&node, |shard| shard.xmpp.handshake_failures) == 2).then_some(()));
    assert_eq!(http.ask("GET", "/ws", &xmpp, b"").status, 101, "and the connection has lived through it");
    node.stop();
}

#[test]
fn a_slow_request_is_closed() {
    let place = Place::with_shards(1, "").with_xmpp("sign_in = \"1s\"\n");
    let mut node = place.start();
    let mut silent = Http::connect(&place, Ws);
    let mut half = Http::connect(&place, Wss);
    half.say_raw(b"POST /bosh HTTP/1.1\r\nHost: x\r\n");
    let mut slow = Http::connect(&place, Wss);
    slow.say_raw(b"POST /bosh HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n<body");
    assert_eq!(slow.hear(true).status, 408);
    assert!(silent.try_hear(true).is_none_or(|answer| answer.status == 408));
    assert!(half.try_hear(true).is_none_or(|answer| answer.status == 408));
    until("nothing is left", || (sum(&node, |shard| shard.xmpp.connections) == 0).then_some(()));
    until("they are counted", || (sum(&node, |shard| shard.xmpp.handshake_failures) == 2).then_some(()));
    node.stop();
}

#[test]
fn contact_addresses_and_relays_are_advertised() {
    let place = Place::new("").with_accounts(&["alice"]).with_xmpp(
        "[xmpp.contacts]\nabuse = [\"mailto:abuse@example.test\"]\n\
         [[xmpp.services]]\ntype = \"turn\"\nhost = \"turn.example.test\"\nport = 3478\ntransport = \"udp\"\nsecret = \"shared\"\n\
         [[xmpp.services]]\ntype = \"stun\"\nhost = \"192.0.2.1\"\n",
    );
    let mut node = place.start();
    let mut alice = Client::sign_in(&place, Tls, "alice", "a");
    alice.say("<iq xmlns='jabber:client' type='get' id='1' to='example.test'><query xmlns='http://jabber.org/protocol/disco#info'/></iq>");
    let info = alice.hear().to_string();
    assert!(
        info.contains("abuse-addresses") && info.contains("<value>mailto:abuse@example.test</value>"),
        "{info}"
    );
    assert!(info.contains("urn:xmpp:extdisco:2") && info.contains("urn:xmpp:http:upload:0"), "{info}");
    alice.say("<iq xmlns='jabber:client' type='get' id='2' to='example.test'><services xmlns='urn:xmpp:extdisco:2'/></iq>");
    let answer = alice.hear();
    let services: Vec<_> = answer.get("services", ns::EXTDISCO).unwrap().elements().collect();
    assert_eq!(services.len(), 2, "{answer}");
    assert_eq!((services[0].attr("port"), services[0].attr("restricted")), (Some("3478"), Some("true")));
    assert!(services[0].attr("username").unwrap().ends_with(":alice@example.test"), "{answer}");
    assert_eq!(services[1].attr("password"), None);
    node.stop();
}

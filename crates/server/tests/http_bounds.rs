//! For any bytes that an unauthenticated HTTP client sends, kept memory, peak memory, bytes sent, work and
//! time are bounded by a small multiple of the bytes received, at each kind of listener.

#![expect(unreachable_pub, reason = "the client is shared with a fuzz target")]

mod web;

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use sim::{Bound, Counting};
use web::{Cost, KINDS, Kind, Meter, World};

#[global_allocator]
static ALLOCATOR: Counting = Counting::new();

struct Allocated;

impl Meter for Allocated {
    fn now(&self) -> usize {
        ALLOCATOR.bytes()
    }

    fn reset_peak(&self) {
        ALLOCATOR.reset_peak();
    }

    fn peak(&self) -> usize {
        ALLOCATOR.peak()
    }

    fn total(&self) -> usize {
        ALLOCATOR.total()
    }
}

/// A head in a buffer, a body until it is whole. A session of BOSH is begun with 200 bytes and has a stream of its own.
const KEPT: Bound = Bound { per_byte: 16, besides: 256 << 10 };
/// The most at any time: chunks of one byte each are collected, and then put together.
const PEAK: Bound = Bound { per_byte: 24, besides: 256 << 10 };
/// The shortest request has 16 bytes, and its answer is a head and a line. Besides, once a connection, the OpenAPI document.
const SENT: Bound = Bound { per_byte: 24, besides: 192 << 10 };
/// All that was ever allocated, as a measure of work: the shortest request costs 7,000 bytes of boxed futures and headers.
const WORK: Bound = Bound { per_byte: 480, besides: 512 << 10 };
/// After the last byte: a body may take 30 seconds, and a connection may be silent for 75.
const SILENCE: Duration = Duration::from_secs(110);

fn check(world: &World, kind: Kind, text: &[u8], length: usize, reads: bool) {
    let pieces: Vec<&[u8]> = text.chunks(length.max(1)).collect();
    let cost = world.run(kind, &pieces, reads, &Allocated);
    let begin = String::from_utf8_lossy(&text[..text.len().min(200)]).into_owned();
    let Cost { heard, sent, kept, peak, work, silence, is_gone } = cost;
    for (name, bound, figure) in
        [("kept", &KEPT, kept), ("peak", &PEAK, peak), ("sent", &SENT, sent), ("work", &WORK, work)]
    {
        assert!(bound.holds(figure, heard, 1), "{kind:?}: {name} {figure} of {heard}: {begin}");
    }
    assert!(is_gone && silence <= SILENCE, "{kind:?}: there after {silence:?}: {begin}");
}

const REST: &str = "/2010-04-01/Accounts/AC00000000000000000000000000000001/Calls.json";

fn get(path: &str, headers: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a.test\r\n{headers}\r\n")
}

fn post(path: &str, kind: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nHost: a.test\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n{body}"
    )
}

const FORM: &str = "application/x-www-form-urlencoded";

/// The text as often as it takes to have so many bytes.
fn times(text: &str, size: usize) -> String {
    text.repeat(size / text.len() + 1)
}

/// Many requests, one behind the other.
fn pipelines(size: usize) -> Vec<String> {
    let begin = "<body xmlns='http://jabber.org/protocol/httpbind' rid='1' to='a.test' wait='60' hold='1' ver='1.6' \
        content='text/xml; charset=utf-8'/>";
    let one = [
        "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.0\r\n\r\n",
        "GET / HTTP/1.1\n\n",
        "A /v1/ HTTP/1.1\n\n",
        "GET /openapi.json HTTP/1.1\r\n\r\n",
        "HEAD /openapi.json HTTP/1.1\r\n\r\n",
        "GET /v1/a HTTP/1.1\r\n\r\n",
        "GET /a HTTP/1.1\r\n\r\n",
        "BREW /2010-04-01/a HTTP/1.1\r\n\r\n",
        "GET /.well-known/host-meta HTTP/1.1\r\n\r\n",
        "OPTIONS /bosh HTTP/1.1\r\nOrigin: http://evil.test\r\n\r\n",
        &get(REST, "Authorization: Basic YTpi\r\n"),
        &get(REST, "Expect: 100-continue\r\nContent-Length: 0\r\n"),
        &post("/bosh", "text/xml", begin),
        &post("/bosh", "text/xml", "<body/>"),
    ];
    one.map(|one| times(one, size)).into()
}

/// Requests to the console, which answers for its own hosts only.
fn console(size: usize) -> Vec<String> {
    let get = |path: &str, headers: &str| format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n");
    let post = |path: &str, body: &str| {
        let length = body.len();
        format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        )
    };
    let sign_in = "/v1/admin/session";
    let pipelined = [
        get("/", ""),
        get("/js/accounts.js", ""),
        get("/nothing", ""),
        get("/v1/admin/overview", "Cookie: belfry_console=00\r\n"),
        post(sign_in, r#"{"account":"a","password":"b"}"#),
        post(sign_in, "{}"),
    ];
    let long = "a".repeat(size);
    let single = [
        post(sign_in, &format!(r#"{{"account":"{long}","password":"b"}}"#)),
        post(sign_in, &times("[", size)),
        post(sign_in, &times(r#"{"a":"#, size)),
        get("/v1/admin/calls", &times("Cookie: a=b; c=d\r\n", size)),
        get(&format!("/v1/admin/{}", times("a/", size)), ""),
        get(&format!("/v1/admin/accounts/{}", times("%41", size)), ""),
        get("/", &format!("If-None-Match: {}\r\n", times("\"a\",", size))),
    ];
    pipelined.iter().map(|one| times(one, size)).chain(single).collect()
}

/// Heads that are long, have many parts, or are none.
fn heads(size: usize) -> Vec<String> {
    let long = "a".repeat(size);
    let times = |text: &str| times(text, size);
    vec![
        format!("GET /{long}"),
        get(&format!("/{long}"), ""),
        get("/", &format!("X: {long}\r\n")),
        get("/", &times("a: b\r\n")),
        get("/", &times("a:\r\n")),
        get(&format!("/2010-04-01/{}", times("a/")), ""),
        get(&format!("/2010-04-01/{}", times("%41")), ""),
        get(&format!("/2010-04-01/{}", times("%")), ""),
        get(&format!("{REST}?{}", times("a&")), ""),
        get(&format!("{REST}?{}", times("%zz=%ff&")), ""),
        get(REST, &format!("Authorization: Basic {}\r\n", times("QUFB"))),
        get(REST, &format!("Accept: {}\r\n", times("application/json,"))),
        get("/upload/0/a", &format!("Range: bytes={}\r\n", times("0-0,"))),
        get("/.well-known/host-meta", &format!("Origin: http://{long}\r\n")),
        times("\r\n"),
        times("\0"),
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned() + &times("\0\0\0\u{4}"),
    ]
}

/// Bodies of a length and of chunks, and such as never end.
fn bodies(size: usize) -> Vec<String> {
    let long = "a".repeat(size);
    let times = |text: &str| times(text, size);
    let chunked = |path: &str, chunks: &str| {
        format!(
            "POST {path} HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\nContent-Type: {FORM}\r\n\r\n{chunks}"
        )
    };
    let wrapped =
        format!("<body xmlns='http://jabber.org/protocol/httpbind' rid='1'>{}</body>", times("<a/>"));
    vec![
        post(REST, FORM, &times("a=1&")),
        post(REST, FORM, &times("%41")),
        post(REST, FORM, &times("&")),
        post(REST, "application/json", &times("[")),
        post(REST, "application/json", &times("{\"a\":")),
        post(REST, "text/xml", &times("<a>")),
        post("/bosh", "text/xml", &times("<a>")),
        post("/bosh", "text/xml", &wrapped),
        post("/bosh", "text/xml", &format!("<body rid='1' {}/>", times("a='' "))),
        chunked(REST, &(times("1\r\na\r\n") + "0\r\n\r\n")),
        chunked("/bosh", &(times("1\r\na\r\n") + "0\r\n\r\n")),
        chunked(REST, &times("1;x=y\r\na\r\n")),
        chunked(REST, &format!("1;{long}\r\na\r\n0\r\n\r\n")),
        chunked(REST, &format!("0\r\n{}\r\n", times("a: b\r\n"))),
        chunked("/bosh", &format!("ffffffffffffffff\r\n{long}")),
        format!("POST {REST} HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n{long}"),
        format!("POST /bosh HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n{long}"),
        format!(
            "POST {REST} HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n{}",
            times("0\r\n\r\n")
        ),
        format!(
            "PUT /upload/0123456789abcdef0123456789abcdef/a HTTP/1.1\r\nContent-Length: {size}\r\n\r\n{long}"
        ),
        format!("PUT /upload/a HTTP/1.1\r\nAuthorization: Bearer {long}\r\nContent-Length: 1\r\n\r\na"),
    ]
}

/// WebSockets that begin, with frames that no client may send.
fn websockets(size: usize) -> Vec<String> {
    let upgrade = get(
        "/ws",
        "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: xmpp\r\n",
    );
    // Text and a ping without a mask; of a masked text of nothing but continuations the first.
    let frames = [times("\u{1}\0", size), times("\t\0", size), times("\u{1}\0\0\0\0\0", size), String::new()];
    frames.into_iter().map(|frames| upgrade.clone() + &frames).collect()
}

fn attacks(size: usize) -> Vec<String> {
    [pipelines(size), heads(size), bodies(size), websockets(size), console(size)].concat()
}

fn text() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "GET / HTTP/1.1\r\n",
        "POST /2010-04-01/Accounts HTTP/1.1\r\n",
        "POST /bosh HTTP/1.1\r\n",
        "PUT /upload/0/a HTTP/1.1\r\n",
        "GET /metrics HTTP/1.1\r\n",
        "GET /health HTTP/1.0\r\n",
        "GET /ws HTTP/1.1\r\n",
        "\r\n",
        "Host: a.test\r\n",
        "Content-Length: 5\r\n",
        "Content-Length: 70000\r\n",
        "Transfer-Encoding: chunked\r\n",
        "Content-Type: application/x-www-form-urlencoded\r\n",
        "Authorization: Basic YTpi\r\n",
        "Connection: keep-alive\r\n",
        "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n",
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: xmpp\r\n",
        "Expect: 100-continue\r\n",
        "Range: bytes=0-1,2-3\r\n",
        "X: y\r\n",
        "5\r\nhello\r\n",
        "0\r\n\r\n",
        "a=b&c=%41&",
        "%zz",
        "<body xmlns='http://jabber.org/protocol/httpbind' rid='1' to='a.test'/>",
        "<body>",
        "{\"a\":[",
        "\u{263a}",
        "\u{1}\u{0}",
    ]);
    (prop::collection::vec(piece, 0..40), 1..30_usize)
        .prop_map(|(pieces, times)| pieces.concat().repeat(times))
}

/// The only test of this file: others would be counted.
#[test]
fn a_client_without_credentials_costs_a_small_multiple_of_its_input() {
    let world = World::new();
    // Memory that is allocated once: the OpenAPI document, threads, tables.
    for kind in KINDS {
        for text in [get("/openapi.json", ""), get(REST, ""), post("/bosh", "text/xml", "<body/>")] {
            world.run(kind, &[text.as_bytes()], true, &Allocated);
        }
    }
    for kind in KINDS {
        for size in [1_000, 15_000, 200_000] {
            for attack in attacks(size) {
                check(&world, kind, attack.as_bytes(), 1_400, true);
                check(&world, kind, attack.as_bytes(), 1_400, false);
            }
        }
        attacks(300).iter().for_each(|attack| check(&world, kind, attack.as_bytes(), 1, true));
    }
    let mut runner = TestRunner::new(Config { cases: 300, failure_persistence: None, ..Config::default() });
    let strategy = (prop::sample::select(KINDS.to_vec()), text(), 1..3_000_usize, any::<bool>());
    let run = runner.run(&strategy, |(kind, text, length, reads)| {
        check(&world, kind, text.as_bytes(), length, reads);
        Ok(())
    });
    run.unwrap();
}

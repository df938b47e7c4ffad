//! Spans on their way to a collector, played by a thread of the test, that is away, fails and comes back.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::{BufReader, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::Builder;
use std::time::Duration;

use interop::HttpRequest;
use serde_json::Value;
use stdx::Instant;
use telemetry::{AttributeValue, CallMessage, Exporter, ExporterSettings, ExporterStatus, PartSpan};

const LIMIT: Duration = Duration::from_secs(120);

/// Answers each request with the next status; the last one is repeated. Gives the bodies, and that path and type are right.
fn collector(listener: TcpListener, statuses: &'static [u16]) -> Receiver<Value> {
    let (send, bodies) = sync_channel(1_000);
    let serve = move || {
        let mut statuses = statuses.iter().copied();
        let mut status = 0;
        while let Ok((stream, _)) = listener.accept() {
            let mut reader = BufReader::new(stream);
            let request = HttpRequest::read(&mut reader).unwrap();
            assert_eq!((request.method.as_str(), request.target.as_str()), ("POST", "/v1/traces"));
            assert_eq!(request.header("content-type"), "application/json");
            status = statuses.next().unwrap_or(status);
            if send.send(serde_json::from_slice(&request.body).unwrap()).is_err() {
                return;
            }
            let answer = format!("HTTP/1.1 {status} X\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{{}}");
            let _ = reader.get_mut().write_all(answer.as_bytes());
        }
    };
    Builder::new().name("collector".into()).spawn(serve).unwrap();
    bodies
}

/// Long after all messages, so that calls that are over have ended.
const NOW: Instant = Instant::from_unix_seconds(1_800_001_000);

fn start(address: SocketAddr) -> Exporter {
    let client = external_auth::http_client(None).unwrap();
    let collector = format!("http://{address}/").into();
    // A clock that goes on with each look, so that pauses pass.
    let looks = std::cell::Cell::new(0);
    let now = move || {
        looks.set(looks.get() + 1);
        NOW + Duration::from_secs(looks.get())
    };
    let (version, node) = ("1.2".into(), "n1".into());
    Exporter::start(ExporterSettings { client, collector, version, node, now: Box::new(now) }).unwrap()
}

/// A call that a callee refuses.
fn offer_call(exporter: &Exporter, call_id: &str) {
    let lines = |first: &str| {
        format!(
            "{first}\r\nVia: SIP/2.0/UDP x;branch=z9hG4bK1\r\nFrom: <sip:alice@a.test>;tag=1\r\nTo: <sip:bob@a.test>\r\n\
             Call-ID: {call_id}\r\nCSeq: 1 INVITE\r\n\r\n"
        )
    };
    for (number, first) in ["INVITE sip:bob@a.test SIP/2.0", "SIP/2.0 486 Busy Here"].into_iter().enumerate()
    {
        exporter.offer(CallMessage {
            at: Instant::from_unix_seconds(1_800_000_000 + number as u64),
            is_received: number == 0,
            peer: "192.0.2.1:5060".parse().unwrap(),
            head: CallMessage::head_of(lines(first).as_bytes()),
        });
    }
}

fn names(body: &Value) -> Vec<&str> {
    let spans = body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap();
    spans.iter().map(|span| span["name"].as_str().unwrap()).collect()
}

#[track_caller]
fn until(what: &str, exporter: &Exporter, is_there: impl Fn(&ExporterStatus) -> bool) -> ExporterStatus {
    let ask = || Some(exporter.status()).filter(|status| is_there(status));
    wait::until(what, LIMIT, ask, || format!("{:?}", exporter.status()))
}

#[test]
fn a_call_becomes_spans_at_the_collector() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let exporter = start(listener.local_addr().unwrap());
    let bodies = collector(listener, &[200]);
    offer_call(&exporter, "1@a");
    until("the spans are sent", &exporter, |status| status.sent == 2);
    drop(exporter);
    let spans: Vec<Value> = bodies
        .try_iter()
        .flat_map(|body| body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().clone())
        .collect();
    let [invite, call] = &spans[..] else { panic!("{spans:?}") };
    assert_eq!((&invite["name"], &call["name"]), (&"INVITE".into(), &"call".into()));
    assert_eq!(invite["parentSpanId"], call["spanId"]);
    assert_eq!(invite["traceId"], call["traceId"]);
    assert_eq!(call["endTimeUnixNano"], "1800000001000000000");
    assert_eq!(call["attributes"][0]["value"]["stringValue"], "1@a");
}

#[test]
fn spans_wait_for_a_collector_that_is_away_and_refused_ones_are_dropped() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let exporter = start(address);
    let bodies = collector(listener, &[503, 429, 200, 400, 200]);
    offer_call(&exporter, "1@a");
    let status = until("the spans are sent", &exporter, |status| status.sent == 2);
    assert_eq!((status.failures, status.dropped, status.failure), (2, 0, None));
    offer_call(&exporter, "2@a");
    let status = until("spans are refused", &exporter, |status| status.dropped > 0);
    assert!(status.failure.is_some_and(|failure| failure.contains("400")));
    // The end of the node sends what there is: spans of calls under way, too.
    offer_call(&exporter, "3@a");
    drop(exporter);
    let bodies: Vec<Value> = bodies.try_iter().collect();
    assert!(bodies[..3].iter().all(|body| names(body)[0] == "INVITE"), "{bodies:?}");
    assert_eq!(names(bodies.last().unwrap()).last(), Some(&"call"));
}

#[test]
fn a_request_to_an_application_is_a_part_of_its_call_and_says_so() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let exporter = start(listener.local_addr().unwrap());
    let bodies = collector(listener, &[200]);
    offer_call(&exporter, "1@a");
    let begun = exporter.begin_request(NOW, b"1@a", "POST", "https://app.test/menu?Digits=4711#x");
    let parent = begun.parent().to_owned();
    exporter.end_request(NOW + Duration::from_millis(5), begun, Some(200));
    let begun = exporter.begin_request(NOW, b"1@a", "GET", "https://app.test/gone");
    assert_ne!(begun.parent(), parent);
    exporter.end_request(NOW, begun, None);
    until("the spans are sent", &exporter, |status| status.sent == 4);
    drop(exporter);
    let spans: Vec<Value> = bodies
        .try_iter()
        .flat_map(|body| body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().clone())
        .collect();
    let named = |name: &str| spans.iter().find(|span| span["name"] == name).unwrap();
    let (call, post, get) = (named("call"), named("POST"), named("GET"));
    assert_eq!((&post["parentSpanId"], &post["traceId"]), (&call["spanId"], &call["traceId"]));
    let expected =
        format!("00-{}-{}-01", post["traceId"].as_str().unwrap(), post["spanId"].as_str().unwrap());
    assert_eq!(parent, expected);
    assert_eq!(post["attributes"][0]["value"]["stringValue"], "https://app.test/menu");
    assert_eq!(post["attributes"][1]["value"]["intValue"], "200");
    assert_eq!((&get["status"]["code"], &post["status"]["code"]), (&2.into(), &Value::Null));
}

#[test]
fn a_part_of_a_call_is_a_span_below_it() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let exporter = start(listener.local_addr().unwrap());
    let bodies = collector(listener, &[200]);
    offer_call(&exporter, "1@a");
    for (name, lost) in [("Say", None), ("media", Some(3))] {
        exporter.offer_part(PartSpan {
            call_id: b"1@a",
            sid: "CA1",
            name,
            begin: NOW,
            end: NOW + Duration::from_secs(2),
            attributes: lost
                .map(|lost| ("media.packets_lost", AttributeValue::Number(lost)))
                .into_iter()
                .collect(),
        });
    }
    exporter.miss(5);
    let status = until("the spans are sent", &exporter, |status| status.sent == 4);
    assert_eq!(status.missed, 5);
    drop(exporter);
    let spans: Vec<Value> = bodies
        .try_iter()
        .flat_map(|body| body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().clone())
        .collect();
    let named = |name: &str| spans.iter().find(|span| span["name"] == name).unwrap();
    let (call, say, media) = (named("call"), named("Say"), named("media"));
    for span in [say, media] {
        assert_eq!((&span["parentSpanId"], &span["traceId"]), (&call["spanId"], &call["traceId"]));
        assert_eq!(span["kind"], 1);
    }
    assert_ne!(say["spanId"], media["spanId"]);
    assert_eq!(say["attributes"][0]["value"]["stringValue"], "CA1");
    assert_eq!(media["attributes"][0]["value"]["intValue"], "3");
}

//! Records of calls and traces of messages, as an operator sees them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};

use interop::HttpRequest;
use serde_json::Value;
use sip::transport::Transport::Tcp;
use store::CallRecord;

use crate::call::talk;
use crate::place::Place;
use crate::voice::app::App;
use crate::voice::caller::Caller;
use crate::xmpp::client::Client;
use crate::{PATIENCE, until};

fn belfry(place: &Place, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_belfry"));
    command.current_dir(place.path(".")).args(arguments).stdin(Stdio::null());
    command
}

/// `belfry calls` for this account once there are so many, newest first.
pub(crate) fn calls_of(place: &Place, account: &str, count: usize) -> Vec<CallRecord> {
    until("the calls are recorded", || {
        let output = belfry(place, &["calls", "--account", account, "--json"]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let listed = String::from_utf8(output.stdout).unwrap();
        let calls: Vec<CallRecord> = listed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        (calls.len() >= count).then_some(calls)
    })
}

#[test]
fn a_call_is_listed_for_both_of_its_accounts() {
    let place = Place::new("").with_accounts(&["alice", "bob", "carol"]);
    let process = place.spawn();
    let (mut alice, mut bob) = (place.udp("alice"), place.udp("bob"));
    bob.register();
    talk(&mut alice, &mut bob, "bob@example.test");
    let of_bob = calls_of(&place, "bob", 1);
    let [call] = &of_bob[..] else { panic!("{of_bob:?}") };
    assert_eq!(call.account.as_deref(), Some("alice@example.test"));
    assert_eq!(call.callee.as_deref(), Some("bob@example.test"));
    assert_eq!((call.code, call.answered_at.is_some()), (200, true));
    assert_eq!(calls_of(&place, "alice", 1), of_bob);
    assert_eq!(calls_of(&place, "carol", 0), []);
    process.kill();
}

#[test]
fn a_refused_call_is_listed_with_its_code() {
    let place = Place::new("").with_accounts(&["alice", "bob"]);
    let process = place.spawn();
    let mut alice = place.udp("alice");
    for (to, code) in [("nobody@example.test", 404), ("bob@example.test", 480)] {
        let invite = alice.invite(to);
        assert_eq!(alice.outcome(&invite).status(), code, "{to}");
    }
    let calls = calls_of(&place, "alice", 2);
    let shown: Vec<(u16, &str, Option<&str>)> =
        calls.iter().map(|call| (call.code, &*call.to, call.callee.as_deref())).collect();
    let away = Some("bob@example.test");
    assert_eq!(shown, [(480, "sip:bob@example.test", away), (404, "sip:nobody@example.test", None)]);
    assert!(calls.iter().all(|call| call.answered_at.is_none()), "{calls:?}");
    assert_eq!(calls_of(&place, "bob", 1).len(), 1, "the one that was meant for bob");
    process.kill();
}

#[test]
fn a_challenge_is_no_call() {
    let place = Place::new("").with_accounts(&["alice", "bob"]);
    let process = place.spawn();
    let (mut alice, mut bob) = (place.udp("alice"), place.udp("bob"));
    bob.register();
    alice.proves = false;
    let invite = alice.invite("bob@example.test");
    assert_eq!(alice.outcome(&invite).status(), 407);
    alice.proves = true;
    talk(&mut alice, &mut bob, "bob@example.test");
    let calls = calls_of(&place, "alice", 1);
    assert_eq!(calls.iter().map(|call| call.code).collect::<Vec<_>>(), [200]);
    process.kill();
}

/// `belfry calls ladder`: sender, receiver and label of each message.
fn ladder_of(place: &Place, call_id: &str) -> Vec<[String; 3]> {
    let output = belfry(place, &["calls", "ladder", call_id, "--json"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let line = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        ["from", "to", "label"].map(|key| line[key].as_str().unwrap().to_owned())
    };
    text.lines().map(line).collect()
}

#[test]
fn a_finished_call_that_nothing_traced_has_its_ladder_until_a_restart() {
    let place = Place::new("").with_accounts(&["alice", "bob"]);
    let process = place.spawn();
    let (mut alice, mut bob) = (place.udp("alice"), place.udp("bob"));
    bob.register();
    talk(&mut alice, &mut bob, "bob@example.test");
    let missed = alice.invite("nobody@example.test");
    assert_eq!(alice.outcome(&missed).status(), 404);
    let calls = calls_of(&place, "alice", 2);
    let ladder = ladder_of(&place, &calls[1].call_id);
    let labels: Vec<_> = ladder
        .iter()
        .map(|[_, _, label]| label.as_str())
        .filter(|label| !label.starts_with("100 "))
        .collect();
    let pairs = |label| [label, label];
    let expected = [
        pairs("INVITE"),
        pairs("180 (INVITE)"),
        pairs("200 (INVITE)"),
        pairs("ACK"),
        pairs("BYE"),
        pairs("200 (BYE)"),
    ];
    assert_eq!(labels, expected.concat(), "{ladder:?}");
    let [from, to, _] = &ladder[0];
    assert!(from.starts_with("127.") && to == "belfry", "{ladder:?}");
    let refused = ladder_of(&place, &calls[0].call_id);
    let labels: Vec<_> = refused.iter().map(|[_, _, label]| label.as_str()).collect();
    assert_eq!(labels, ["INVITE", "404 (INVITE)", "ACK"], "{refused:?}");
    process.kill();

    let process = place.spawn();
    let output = belfry(&place, &["calls", "ladder", &calls[1].call_id]).output().unwrap();
    let why = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && why.contains("no messages of a call with this Call-ID"), "{why}");
    process.kill();
}

/// A trace that is on.
struct Trace {
    child: Child,
    _reader: BufReader<std::process::ChildStderr>,
}

impl Trace {
    fn start(place: &Place, more: &[&str]) -> Trace {
        let mut command = belfry(place, &[&["trace", "alice", "--json"][..], more].concat());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut reader = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        assert!(line.contains("tracing alice@example.test"), "{line}");
        Trace { child, _reader: reader }
    }

    /// The labels of all messages that the trace has shown when it ends.
    fn labels(mut self) -> Vec<String> {
        until("the trace ends", || self.child.try_wait().unwrap());
        let mut text = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        let line = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap();
        text.lines().map(|text| line(text)["label"].as_str().unwrap().to_owned()).collect()
    }
}

#[test]
fn two_traces_of_one_account_show_each_message_once() {
    let place = Place::new("").with_accounts(&["alice"]);
    let process = place.spawn();
    let mut alice = place.udp("alice");
    let traces = [Trace::start(&place, &["--count", "4"]), Trace::start(&place, &["--count", "4"])];
    // Answered by the shards, after the messages with which the traces begin.
    assert!(belfry(&place, &["registrations"]).output().unwrap().status.success());
    alice.register();
    for trace in traces {
        let labels = trace.labels();
        let expected = ["REGISTER", "401 (REGISTER)", "REGISTER", "200 (REGISTER)"];
        assert_eq!(labels, expected);
    }
    process.kill();
}

#[test]
fn a_trace_of_an_unknown_account_is_refused() {
    let place = Place::new("").with_accounts(&["alice"]);
    let process = place.spawn();
    let output = belfry(&place, &["trace", "nobody"]).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("there is no account nobody@example.test"), "{errors}");
    let any = belfry(&place, &["trace", "1234", "--any", "--for", "50ms"]).output().unwrap();
    assert!(any.status.success(), "{any:?}");
    process.kill();
}

#[test]
fn status_and_log_name_every_listener() {
    let at = || format!("127.0.0.1:{}", interop::free_port());
    let (servers, components, rest, console) = (at(), at(), at(), at());
    let more = format!(
        "component_listen = [\"tcp:{components}\"]\n[xmpp.federation]\nlisten = [\"tcp:{servers}\"]\n\
         [rest]\nlisten = \"{rest}\"\n[console]\nlisten = \"{console}\"\n"
    );
    let place = Place::new("").with_xmpp(&more).with_bytestreams("");
    let process = place.spawn();
    let output = belfry(&place, &["status"]).output().unwrap();
    let status = String::from_utf8(output.stdout).unwrap();
    let sip = place.at(sip::transport::Transport::Udp);
    let chat = place.xmpp_at(sip::transport::Transport::Tcp);
    let metrics = format!("metrics at     http://{}/metrics", place.http());
    for words in [&format!("listening      udp:{sip} "), &format!("chat at        tcp:{chat} "), &metrics] {
        assert!(status.contains(&**words), "{words}\n{status}");
    }
    let log = process.log();
    let up = log.lines().find(|line| line.contains("belfry is up")).unwrap();
    let words: Vec<_> = up.split(['"', ' ', '=']).collect();
    for listener in [
        "servers at     tcp:",
        "components at  tcp:",
        "bytestreams at tcp:",
        "REST at        http:",
        "console at     http:",
    ] {
        let line = status
            .lines()
            .find(|line| line.starts_with(listener))
            .unwrap_or_else(|| panic!("{listener}: {status}"));
        let address = line.split_whitespace().last().unwrap();
        assert!(words.contains(&address), "{address}: {up}");
    }
    assert!(up.contains(&format!("chat=\"tcp:{chat} ")), "{up}");
    process.kill();
}

/// A server of HTTP: a collector of OpenTelemetry, which takes all spans, and an application that rejects calls.
struct Collector {
    url: String,
    bodies: Receiver<Value>,
    /// Requests to the application.
    asked: Receiver<HttpRequest>,
}

impl Collector {
    fn start() -> Collector {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (send, bodies) = sync_channel(1_000);
        let (tell, asked) = sync_channel(1_000);
        let serve = move || {
            for stream in listener.incoming().flatten() {
                let mut reader = BufReader::new(stream);
                let Some(request) = HttpRequest::read(&mut reader) else { continue };
                let answer = if request.target == "/v1/traces" {
                    let _ = send.send(serde_json::from_slice(&request.body).unwrap());
                    "{}"
                } else {
                    let _ = tell.send(request);
                    "<Response><Reject/></Response>"
                };
                let length = answer.len();
                let head =
                    format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
                let _ = reader.get_mut().write_all(format!("{head}{answer}").as_bytes());
            }
        };
        std::thread::Builder::new().name("collector".into()).spawn(serve).unwrap();
        Collector { url, bodies, asked }
    }

    fn section(&self, percent: u32) -> String {
        format!("[telemetry]\notlp = \"{}\"\npercent = {percent}\n", self.url)
    }

    /// All spans until that of a whole call has come.
    fn spans(&self) -> Vec<Value> {
        self.spans_until("call")
    }

    /// All spans until one with this name has come.
    fn spans_until(&self, name: &str) -> Vec<Value> {
        let mut spans: Vec<Value> = Vec::new();
        while !spans.iter().any(|span| span["name"] == name) {
            let body = self.bodies.recv_timeout(PATIENCE).expect("spans in time");
            let scope = &body["resourceSpans"][0]["scopeSpans"][0];
            spans.extend(scope["spans"].as_array().unwrap().iter().cloned());
        }
        spans
    }
}

/// Each span as `parent/name`, with its kind for requests, in order.
fn outline(spans: &[Value]) -> Vec<String> {
    let name = |id: &Value| {
        let found = spans.iter().find(|span| span["spanId"] == *id);
        found.map(|span| format!("{}/", span["name"].as_str().unwrap())).unwrap_or_default()
    };
    let line = |span: &Value| {
        let kind = match span["kind"].as_u64() {
            Some(2) => " received",
            Some(3) => " sent",
            _ => "",
        };
        format!("{}{}{kind}", name(&span["parentSpanId"]), span["name"].as_str().unwrap())
    };
    let mut lines: Vec<String> = spans.iter().map(line).collect();
    lines.sort();
    lines
}

const OUTLINE: [&str; 8] = [
    "BYE/BYE sent",
    "INVITE/INVITE sent",
    "INVITE/routing",
    "call",
    "call/BYE received",
    // The first one is challenged.
    "call/INVITE received",
    "call/INVITE received",
    "call/conversation",
];

#[test]
fn a_sampled_call_is_a_trace_at_the_collector() {
    let collector = Collector::start();
    let place = Place::new(&collector.section(100)).with_accounts(&["alice", "bob"]);
    let process = place.spawn();
    let (mut alice, mut bob) = (place.udp("alice"), place.udp("bob"));
    bob.register();
    talk(&mut alice, &mut bob, "bob@example.test");
    let spans = collector.spans();
    let without_ringing: Vec<String> =
        outline(&spans).into_iter().filter(|line| line != "call/ringing").collect();
    assert_eq!(without_ringing, OUTLINE);
    let call = spans.iter().find(|span| span["name"] == "call").unwrap();
    assert!(spans.iter().all(|span| span["traceId"] == call["traceId"]));
    let attribute = |name: &str| {
        let attributes = call["attributes"].as_array().unwrap();
        attributes.iter().find(|one| one["key"] == name).unwrap()["value"].clone()
    };
    assert_eq!(attribute("sip.from")["stringValue"], "sip:alice@example.test");
    assert_eq!(attribute("sip.status")["intValue"], "200");
    let status = String::from_utf8(belfry(&place, &["status"]).output().unwrap().stdout).unwrap();
    let line = format!(" sent to {}", collector.url);
    assert!(status.lines().any(|shown| shown.starts_with("spans ") && shown.ends_with(&line)), "{status}");
    process.kill();
}

#[test]
fn calls_of_a_traced_account_and_no_others_are_traces_where_none_is_sampled() {
    let collector = Collector::start();
    let place = Place::new(&collector.section(0)).with_accounts(&["alice", "bob", "carol"]);
    let process = place.spawn();
    let (mut alice, mut bob, mut carol) = (place.udp("alice"), place.udp("bob"), place.udp("carol"));
    bob.register();
    carol.register();
    let mut trace = Trace::start(&place, &[]);
    talk(&mut carol, &mut bob, "bob@example.test");
    talk(&mut alice, &mut bob, "bob@example.test");
    let spans = collector.spans();
    trace.child.kill().unwrap();
    trace.child.wait().unwrap();
    let without_ringing: Vec<String> =
        outline(&spans).into_iter().filter(|line| line != "call/ringing").collect();
    assert_eq!(without_ringing, OUTLINE);
    let call = spans.iter().find(|span| span["name"] == "call").unwrap();
    assert_eq!(call["attributes"][1]["value"]["stringValue"], "sip:alice@example.test");
    process.kill();
}

#[test]
fn a_request_to_an_application_is_in_the_trace_of_its_call_and_names_it() {
    let collector = Collector::start();
    let voice = format!(
        "{}open = true\nnumbers = [{{ number = \"1234\", url = \"{}/menu\" }}]\n",
        crate::voice::app::section(),
        collector.url
    );
    let place = Place::new(&format!("{}{voice}", collector.section(100))).with_accounts(&["alice"]);
    let process = place.spawn();
    let mut alice = place.udp("alice");
    let invite = alice.invite("1234@example.test");
    assert!(alice.outcome(&invite).status() >= 400);
    let spans = collector.spans();
    let call = spans.iter().find(|span| span["name"] == "call").unwrap();
    let asked = spans.iter().find(|span| span["name"] == "POST").unwrap();
    assert_eq!(asked["parentSpanId"], call["spanId"]);
    let url = asked["attributes"][0]["value"]["stringValue"].as_str();
    assert_eq!(url, Some(&*format!("{}/menu", collector.url)));
    let (trace, span) = (asked["traceId"].as_str().unwrap(), asked["spanId"].as_str().unwrap());
    let request = collector.asked.recv_timeout(PATIENCE).unwrap();
    assert_eq!(request.header("traceparent"), format!("00-{trace}-{span}-01"));
    process.kill();
}

#[test]
fn verbs_and_media_of_a_sampled_call_are_spans_below_it() {
    let collector = Collector::start();
    let app = App::new(&[
        (
            "/ask",
            "<Response><Gather numDigits='1' action='/say'><Say>press a digit</Say></Gather></Response>",
        ),
        ("/say", "<Response><Redirect>/wait</Redirect></Response>"),
        ("/wait", "<Response><Pause length='30'/></Response>"),
    ]);
    let place = Place::new(&format!("{}{}", collector.section(100), app.voice("/ask", "")));
    let process = place.spawn();
    let mut caller = Caller::new(&place);
    let (mut dialog, remote) = caller.call();
    caller.hear(10);
    caller.press('5', remote);
    until("the third document is asked for", || app.asked_for("/wait"));
    assert_eq!(caller.phone.within(&mut dialog, "BYE").status(), 200);
    let spans = collector.spans();
    let named =
        |name: &str| spans.iter().find(|span| span["name"] == name).unwrap_or_else(|| panic!("{spans:?}"));
    let call = named("call");
    let attribute = |span: &Value, name: &str| -> Value {
        let attributes = span["attributes"].as_array().unwrap();
        attributes.iter().find(|one| one["key"] == name).unwrap_or_else(|| panic!("{span}"))["value"].clone()
    };
    for name in ["Gather", "Redirect", "media"] {
        let span = named(name);
        assert_eq!((&span["parentSpanId"], &span["traceId"]), (&call["spanId"], &call["traceId"]), "{name}");
        assert!(
            attribute(span, "belfry.call_sid")["stringValue"].as_str().unwrap().starts_with("CA"),
            "{name}"
        );
    }
    let time = |span: &Value, end: &str| -> u64 { span[end].as_str().unwrap().parse().unwrap() };
    let (gather, redirect, media) = (named("Gather"), named("Redirect"), named("media"));
    assert!(time(gather, "endTimeUnixNano") <= time(redirect, "startTimeUnixNano"), "{gather} {redirect}");
    assert!(time(media, "startTimeUnixNano") <= time(gather, "startTimeUnixNano"), "{media} {gather}");
    let number =
        |name: &str| -> u64 { attribute(media, name)["intValue"].as_str().unwrap().parse().unwrap() };
    // The key is seven packets of telephone-event; the prompt was heard.
    assert!(number("media.packets_received") >= 7 && number("media.packets_sent") >= 10, "{media}");
    assert_eq!(
        (number("media.packets_lost"), attribute(media, "media.codec")["stringValue"].as_str()),
        (0, Some("PCMA"))
    );
    process.kill();
}

#[test]
fn stanzas_of_a_traced_account_and_no_others_are_spans() {
    let collector = Collector::start();
    let place = Place::new(&collector.section(0)).with_xmpp("").with_accounts(&["alice", "bob"]);
    let process = place.spawn();
    let mut trace = Trace::start(&place, &[]);
    let mut bob = Client::sign_in(&place, Tcp, "bob", "desk");
    let mut alice = Client::sign_in(&place, Tcp, "alice", "desk");
    alice.say("<iq type='get' id='p1'><ping xmlns='urn:xmpp:ping'/></iq>");
    alice.message("bob@example.test/desk", "Hello");
    while bob.hear().name() != "message" {}
    let mut spans = collector.spans_until("iq get");
    while !spans.iter().any(|span| span["name"] == "message") {
        spans.extend(collector.spans_until("message"));
    }
    trace.child.kill().unwrap();
    trace.child.wait().unwrap();
    let value = |span: &Value, place: usize| span["attributes"][place]["value"]["stringValue"].clone();
    let is_hers = |span: &Value| value(span, 0).as_str().unwrap().starts_with("alice@example.test");
    assert!(spans.iter().all(is_hers), "{spans:?}");
    let ping = spans.iter().find(|span| span["name"] == "iq get").unwrap();
    assert_eq!((&ping["kind"], value(ping, 1)), (&2.into(), "iq get ping".into()));
    process.kill();
}

#[test]
fn call_records_are_posted_to_a_service_and_signed() {
    let service = Collector::start();
    let section = format!("[calls.export]\nhttp_url = \"{}/calls\"\nsigning_key = \"hush\"\n", service.url);
    let place = Place::new(&section).with_accounts(&["alice"]);
    let process = place.spawn();
    let mut alice = place.udp("alice");
    let invite = alice.invite("nobody@example.test");
    assert_eq!(alice.outcome(&invite).status(), 404);
    let request = service.asked.recv_timeout(PATIENCE).unwrap();
    assert_eq!(request.method, "POST");
    assert!(request.target.starts_with("/calls?bodySHA256="), "{request:?}");
    assert!(!request.header("x-twilio-signature").is_empty(), "{request:?}");
    assert!(!format!("{request:?}").contains("hush"), "{request:?}");
    let line = format!("1 sent to {}/calls, none waits", service.url);
    until("the record is sent", || {
        let status = String::from_utf8(belfry(&place, &["status"]).output().unwrap().stdout).unwrap();
        status.contains(&line).then_some(())
    });
    process.kill();
}

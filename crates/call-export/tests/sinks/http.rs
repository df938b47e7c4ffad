//! A service of HTTP, played by a thread of the test.

use std::io::{BufReader, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::Builder;

use call_export::{CallExport, Destination, HttpDestination, Line};
use interop::{HttpRequest, Ports};

use super::{record, until};

/// The calls of a request, one in each line.
fn calls_in(request: &HttpRequest) -> Vec<String> {
    let line = |text| serde_json::from_str::<Line>(text).unwrap().record.call_id.into();
    request.text().lines().map(line).collect()
}

/// Answers each request with the next status; requests whose status is 0 get no answer. The last one is repeated.
fn service(listener: TcpListener, statuses: &'static [u16]) -> Receiver<HttpRequest> {
    let (send, requests) = sync_channel(1_000);
    let serve = move || {
        let mut statuses = statuses.iter().copied();
        let mut status = 0;
        while let Ok((stream, _)) = listener.accept() {
            let mut reader = BufReader::new(stream);
            let Some(request) = HttpRequest::read(&mut reader) else { continue };
            status = statuses.next().unwrap_or(status);
            if send.send(request).is_err() {
                return;
            }
            if status != 0 {
                let answer = format!("HTTP/1.1 {status} X\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
                let _ = reader.get_mut().write_all(answer.as_bytes());
            }
        }
    };
    Builder::new().name("service".into()).spawn(serve).unwrap();
    requests
}

fn destination(address: SocketAddr, signing_key: Option<&str>) -> Destination {
    Destination::Http(HttpDestination {
        client: external_auth::http_client(None).unwrap(),
        url: format!("http://{address}/calls?of=belfry").into(),
        signing_key: signing_key.map(Into::into),
    })
}

/// A listener at a port that no other test takes while the third is there.
fn listen() -> (TcpListener, SocketAddr, Ports) {
    let ports = Ports::reserve(1);
    let listener = TcpListener::bind(("127.0.0.1", ports.first())).unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address, ports)
}

#[test]
fn records_are_posted_as_json_lines_with_a_signature_of_url_and_body() {
    let (listener, address, _ports) = listen();
    let requests = service(listener, &[204]);
    let folder = tempfile::tempdir().unwrap();
    let export = CallExport::start(folder.path(), destination(address, Some("12345"))).unwrap();
    export.write(record("one"));
    until("it is sent", &export, |status| status.sent == 1 && status.waiting == 0);
    let request = requests.recv().unwrap();
    assert_eq!(calls_in(&request), ["one"]);
    assert_eq!((request.method.as_str(), request.header("content-type")), ("POST", "application/x-ndjson"));
    let hash = request.target.strip_prefix("/calls?of=belfry&bodySHA256=").unwrap();
    assert_eq!(hash.len(), 64);
    let signature = ivr::signature::sign("12345", &format!("http://{address}{}", request.target), &[]);
    assert_eq!(request.header("x-twilio-signature"), signature);
    let value: serde_json::Value = serde_json::from_slice(&request.body).unwrap();
    assert_eq!(value["started_at"], 1_800_000_000_123_456_u64);
    assert_eq!(value["callee"], serde_json::Value::Null);
}

#[test]
fn failures_of_the_service_neither_lose_nor_hold_up_a_record() {
    let (listener, address, _ports) = listen();
    // A connection that closes without an answer, two failures, then all is well.
    let requests = service(listener, &[0, 500, 404, 200]);
    let folder = tempfile::tempdir().unwrap();
    let export = CallExport::start(folder.path(), destination(address, None)).unwrap();
    ["one", "two", "three"].into_iter().for_each(|call_id| export.write(record(call_id)));
    let status = until("all are sent", &export, |status| status.sent == 3 && status.waiting == 0);
    assert_eq!((status.failures, status.dropped, status.failure), (3, 0, None));
    let first = calls_in(&requests.recv().unwrap());
    for _ in 0..3 {
        // Until a group is taken it stays the same, or grows.
        assert_eq!(calls_in(&requests.recv().unwrap())[..first.len()], first);
    }
}

#[test]
fn a_group_that_is_refused_for_its_content_is_sent_in_halves() {
    let (listener, address, _ports) = listen();
    drop(listener);
    let folder = tempfile::tempdir().unwrap();
    let export = CallExport::start(folder.path(), destination(address, None)).unwrap();
    ["a", "b", "c", "d"].into_iter().for_each(|call_id| export.write(record(call_id)));
    let failures = until("all are queued", &export, |status| status.waiting == 4).failures;
    // The next attempt is made with all of them.
    until("nothing listens there", &export, |status| status.failures > failures);
    // Taken as: abcd, ab, cd, c (refused alone), d.
    let requests = service(TcpListener::bind(address).unwrap(), &[413, 200, 413, 422, 200]);
    let status = until("all have their answers", &export, |status| status.waiting == 0);
    assert_eq!((status.sent, status.dropped), (3, 1));
    let calls: Vec<String> = (0..5).map(|_| calls_in(&requests.recv().unwrap()).concat()).collect();
    assert_eq!(calls, ["abcd", "ab", "cd", "c", "d"]);
}

#[test]
fn records_that_the_node_has_at_its_end_are_sent_or_kept() {
    let (listener, address, _ports) = listen();
    let folder = tempfile::tempdir().unwrap();
    // The kernel accepts the connection, and nothing answers.
    let export = CallExport::start(folder.path(), destination(address, None)).unwrap();
    (0..100).for_each(|number| export.write(record(&number.to_string())));
    drop(export);
    let requests = service(listener, &[200]);
    let export = CallExport::start(folder.path(), destination(address, None)).unwrap();
    until("all are sent", &export, |status| status.waiting == 0);
    drop(export);
    let mut calls: Vec<u32> = requests
        .try_iter()
        .flat_map(|request| calls_in(&request))
        .map(|call| call.parse().unwrap())
        .collect();
    calls.sort_unstable();
    calls.dedup();
    assert_eq!(calls, (0..100).collect::<Vec<_>>());
}

#[test]
fn a_full_queue_counts_the_records_it_refuses() {
    let (listener, address, _ports) = listen();
    drop(listener);
    let folder = tempfile::tempdir().unwrap();
    let export = CallExport::start_with(folder.path(), destination(address, None), 1_000).unwrap();
    (0..100).for_each(|number| export.write(record(&number.to_string())));
    until("each is queued or counted", &export, |status| status.waiting + status.dropped == 100);
    assert!(export.status().dropped >= 95);
}

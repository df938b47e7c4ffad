//! Calls of applications on a farm of real nodes with one database: found from every node, and ended in the record when their node dies.

use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use interop::{
    Farm, Nats, NatsRelease, Node, PostgresServer, Sipp, application, new_postgres_database, wait_until,
};
use serde_json::Value;

const SID: &str = "ACae6e420f425248d6a26948c17a9e2acf";
const TOKEN: &str = "a token of the test";
const LIMIT: Duration = Duration::from_secs(40);

/// One farm at a time, as in `farm.rs`.
fn alone() -> MutexGuard<'static, ()> {
    static FARM: Mutex<()> = Mutex::new(());
    // A test that failed leaves nothing behind.
    FARM.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Three nodes, whose number 1234 has the application at this URL.
fn start(nats: &Nats, url: &str) -> Farm {
    start_with(nats, url, "")
}

/// The same with more of `[voice]`.
fn start_with(nats: &Nats, url: &str, more: &str) -> Farm {
    start_on(nats, &new_postgres_database(), url, more)
}

/// The same on this database.
fn start_on(nats: &Nats, database: &str, url: &str, more: &str) -> Farm {
    let voice =
        format!("auth_token = \"{TOKEN}\"\nnumbers = [{{ number = \"1234\", url = \"{url}\" }}]\n{more}");
    Farm::with_applications(nats, 3, database, &voice)
}

/// A request to the REST interface of a node; the status and the body. `form`: of a POST, each with name and value; empty: GET.
fn rest(node: &Node, path: &str, form: &[(&str, &str)]) -> (String, Value) {
    rest_by(if form.is_empty() { "GET" } else { "POST" }, node, path, form)
}

/// A request of this method.
fn rest_by(method: &str, node: &Node, path: &str, form: &[(&str, &str)]) -> (String, Value) {
    let url = format!("http://127.0.0.1:{}/2010-04-01/Accounts/{SID}/{path}", node.http);
    let mut curl = Command::new("curl");
    curl.args([
        "--silent",
        "--request",
        method,
        "--max-time",
        "20",
        "--user",
        &format!("{SID}:{TOKEN}"),
        "--write-out",
        "\n%{http_code}",
    ]);
    for (name, value) in form {
        curl.args(["--data-urlencode", &format!("{name}={value}")]);
    }
    let output = curl.arg(&url).output().expect("curl");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (body, status) = text.rsplit_once('\n').unwrap_or_default();
    (status.to_owned(), serde_json::from_str(body).unwrap_or_default())
}

/// The newest call with that status, as a node's REST interface lists it.
fn call_with(node: &Node, status: &str) -> Option<String> {
    let (_, page) = rest(node, "Calls.json", &[]);
    let calls = page["calls"].as_array()?;
    let call = calls.iter().find(|call| call["status"] == status)?;
    Some(call["sid"].as_str()?.to_owned())
}

fn wait_for_call(node: &Node, status: &str) -> String {
    let mut found = None;
    let is_there = || {
        found = call_with(node, status);
        found.is_some()
    };
    wait_until(&format!("a call that is {status}"), LIMIT, is_there, || node.tail());
    found.expect("it was waited for")
}

#[test]
fn a_call_and_its_conference_are_found_and_changed_by_rest_at_every_node() {
    let _alone = alone();
    let nats = Nats::start(NatsRelease::Debian);
    let (address, _) = application("<Response><Dial><Conference>tea</Conference></Dial></Response>");
    let farm = start(&nats, &format!("http://{address}/"));
    let phone = Phone::call(&farm.nodes[1]);
    phone.send(&farm.nodes[1], &phone.request("ACK", 1, ("text/plain", "")));
    let call = wait_for_call(&farm.nodes[0], "in-progress");
    let conferences = || rest(&farm.nodes[0], "Conferences.json", &[]).1;
    let is_listed = || conferences()["conferences"][0]["sid"].is_string();
    wait_until("the conference", LIMIT, is_listed, || conferences().to_string());
    let conference = conferences()["conferences"][0]["sid"].as_str().unwrap_or_default().to_owned();
    let list = format!("Conferences/{conference}/Participants.json");
    let participant = format!("Conferences/{conference}/Participants/{call}.json");
    // One node of the three has the call.
    for node in &farm.nodes {
        let (_, page) = rest(node, &list, &[]);
        assert_eq!(page["participants"][0]["call_sid"], *call, "{page}");
        let (status, body) = rest(node, &participant, &[("Muted", "true")]);
        assert_eq!((status.as_str(), &body["muted"]), ("200", &Value::Bool(true)), "{body}");
        let (status, body) = rest(node, &participant, &[("Muted", "false")]);
        assert_eq!((status.as_str(), &body["muted"]), ("200", &Value::Bool(false)), "{body}");
    }
    for node in &farm.nodes {
        let twiml = "<Response><Pause length='120'/></Response>";
        let (status, body) = rest(node, &format!("Calls/{call}.json"), &[("Twiml", twiml)]);
        assert_eq!(status, "200", "{body}");
        let (status, body) = rest(node, &format!("Calls/{call}.json"), &[("MoveConnectedCallLeg", "true")]);
        assert_eq!((status.as_str(), &body["code"]), ("501", &Value::from(20_501)), "{body}");
    }
    // Its node has gone on with the document, and at none of the others it is in a conference.
    let is_empty = |node| rest(node, &list, &[]).1["participants"] == Value::Array(Vec::new());
    wait_until(
        "the conference to be empty",
        LIMIT,
        || farm.nodes.iter().all(is_empty),
        || farm.nodes[0].tail(),
    );
    let (status, body) = rest(&farm.nodes[2], &format!("Calls/{call}.json"), &[("Status", "completed")]);
    assert_eq!(status, "200", "{body}");
    assert_eq!(wait_for_call(&farm.nodes[0], "completed"), call);
}

#[test]
fn the_calls_of_a_node_that_is_killed_end_in_the_record_and_the_application_is_told_once() {
    let _alone = alone();
    let nats = Nats::start(NatsRelease::Current);
    let (address, requests) = application("<Response/>");
    let mut farm = start(&nats, &format!("http://{address}/"));
    let phone = Sipp::answering("-uas", 1);
    let (to, told) = (format!("sip:bob@127.0.0.1:{}", phone.port), format!("http://{address}/told"));
    let form = [
        ("To", to.as_str()),
        ("From", "1234"),
        ("Twiml", "<Response><Pause length='300'/></Response>"),
        ("StatusCallback", &told),
        ("StatusCallbackEvent", "answered completed"),
    ];
    // The node that is asked has the call.
    let (status, body) = rest(&farm.nodes[0], "Calls.json", &form);
    assert_eq!(status, "201", "{body}");
    let call = wait_for_call(&farm.nodes[1], "in-progress");
    farm.nodes[0].kill();
    assert_eq!(wait_for_call(&farm.nodes[1], "completed"), call);
    let (_, row) = rest(&farm.nodes[2], &format!("Calls/{call}.json"), &[]);
    assert_eq!(row["sip_reason_phrase"], "The node of the call has ended", "{row}");
    assert!(!row["end_time"].is_null() && !row["duration"].is_null(), "{row}");
    let ends = || {
        let requests = requests.lock().unwrap_or_else(PoisonError::into_inner);
        requests
            .iter()
            .filter(|request| request.contains("CallStatus=completed"))
            .cloned()
            .collect::<Vec<_>>()
    };
    wait_until("the status callback", LIMIT, || !ends().is_empty(), || farm.nodes[1].tail());
    // Meanwhile the living node has looked again for calls of the dead one.
    farm.nodes[0].start();
    farm.wait_for_shares(3);
    let ends = ends();
    assert_eq!(ends.len(), 1, "{ends:?}");
    assert!(ends[0].contains(&format!("CallSid={call}")) && ends[0].contains("SequenceNumber=1"), "{ends:?}");
    assert!(ends[0].to_ascii_lowercase().contains("x-twilio-signature: "), "{ends:?}");
}

/// The sound is at the node that was killed.
#[test]
fn the_recording_of_a_call_of_a_node_that_is_killed_ends_and_can_be_deleted() {
    let _alone = alone();
    let nats = Nats::start(NatsRelease::Debian);
    let (address, _) = application("<Response/>");
    let mut farm = start(&nats, &format!("http://{address}/"));
    let phone = Sipp::answering("-uas", 1);
    let to = format!("sip:bob@127.0.0.1:{}", phone.port);
    let form = [
        ("To", to.as_str()),
        ("From", "1234"),
        ("Twiml", "<Response><Pause length='300'/></Response>"),
        ("Record", "true"),
    ];
    let (status, body) = rest(&farm.nodes[0], "Calls.json", &form);
    assert_eq!(status, "201", "{body}");
    let call = wait_for_call(&farm.nodes[1], "in-progress");
    let list = format!("Calls/{call}/Recordings.json");
    let recording = |node: &Node| rest(node, &list, &[]).1["recordings"][0].clone();
    let is_under_way = || recording(&farm.nodes[1])["status"] == "in-progress";
    wait_until("the recording", LIMIT, is_under_way, || farm.nodes[0].tail());
    farm.nodes[0].kill();
    assert_eq!(wait_for_call(&farm.nodes[1], "completed"), call);
    let ended = recording(&farm.nodes[2]);
    assert_eq!((&ended["status"], &ended["duration"]), (&Value::from("completed"), &Value::Null), "{ended}");
    // What the file tells: the phone was silent, so there may be no sound.
    farm.nodes[0].start();
    farm.wait_for_shares(3);
    let is_known = || {
        let recording = recording(&farm.nodes[1]);
        recording["status"] == "absent" || !recording["duration"].is_null()
    };
    wait_until("the duration", LIMIT, is_known, || recording(&farm.nodes[1]).to_string());
    let sid = ended["sid"].as_str().unwrap_or_default();
    let (status, body) = rest_by("DELETE", &farm.nodes[2], &format!("Recordings/{sid}.json"), &[]);
    assert_eq!(status, "204", "{body}");
}

/// The end of the call waits at its node for the database. Without it the row would name the node until it ends, as that of a call
/// that was up.
#[test]
fn a_call_that_ended_while_the_database_was_away_is_not_made_again_when_its_node_drains() {
    let _alone = alone();
    let nats = Nats::start(NatsRelease::Debian);
    let mut database = PostgresServer::start(&[]);
    let url = database.new_database(&[]);
    let (address, requests) = application("<Response><Pause length='300'/></Response>");
    let first = format!("http://{address}/first");
    let mut farm = start_on(&nats, &url, &first, "redial_on_failure = \"accounts\"\n");
    let phone = Sipp::answering("-uas", 2);
    let to = format!("sip:bob@127.0.0.1:{}", phone.port);
    let form = [("To", to.as_str()), ("From", "1234"), ("Url", first.as_str()), ("TimeLimit", "15")];
    let (status, body) = rest(&farm.nodes[0], "Calls.json", &form);
    assert_eq!(status, "201", "{body}");
    let call = wait_for_call(&farm.nodes[1], "in-progress");
    database.kill();
    let is_over = || farm.nodes[0].metric("belfry_voice_calls") == 0;
    wait_until("the end of the call", LIMIT, is_over, || farm.nodes[0].tail());
    database.start_again();
    assert_eq!(wait_for_call(&farm.nodes[1], "completed"), call);
    let (_, ended) = rest(&farm.nodes[1], &format!("Calls/{call}.json"), &[]);
    assert_ne!(ended["sip_reason_phrase"], "The node of the call has ended", "{ended}");
    farm.nodes[0].signal("TERM");
    assert_eq!(farm.nodes[0].ended(LIMIT), Some(0));
    // Meanwhile a living node looks for calls of the one that has left.
    farm.nodes[0].start();
    farm.wait_for_shares(3);
    assert_eq!(rest(&farm.nodes[1], &format!("Calls/{call}.json"), &[]).1, ended);
    let (_, page) = rest(&farm.nodes[1], "Calls.json", &[]);
    assert_eq!(page["calls"].as_array().map(Vec::len), Some(1), "{page}");
    let requests = requests.lock().unwrap_or_else(PoisonError::into_inner);
    assert!(!requests.iter().any(|request| request.contains("RedialOf")), "{requests:?}");
    assert_eq!(farm.nodes[1].metric("belfry_records_lost_total"), 0);
}

/// With `[voice] redial_on_failure`: one of the living nodes, once, also when the dead one is back.
#[test]
fn the_party_of_a_call_on_a_killed_node_is_called_again_once() {
    let _alone = alone();
    let nats = Nats::start(NatsRelease::Debian);
    let (address, requests) = application("<Response><Pause length='300'/></Response>");
    let mut farm = start_with(&nats, &format!("http://{address}/"), "redial_on_failure = \"accounts\"\n");
    let phone = Sipp::answering("-uas", 2);
    let to = format!("sip:bob@127.0.0.1:{}", phone.port);
    let (url, told) = (format!("http://{address}/first"), format!("http://{address}/told"));
    let form =
        [("To", to.as_str()), ("From", "1234"), ("Url", url.as_str()), ("StatusCallback", told.as_str())];
    // The node that is asked has the call.
    let (status, body) = rest(&farm.nodes[0], "Calls.json", &form);
    assert_eq!(status, "201", "{body}");
    let lost = wait_for_call(&farm.nodes[1], "in-progress");
    farm.nodes[0].kill();
    let is_of = |request: &&String| request.contains(&format!("RedialOf={lost}"));
    let again = || {
        let requests = requests.lock().unwrap_or_else(PoisonError::into_inner);
        requests.iter().filter(is_of).cloned().collect::<Vec<_>>()
    };
    let calls = || rest(&farm.nodes[1], "Calls.json", &[]).1.to_string();
    wait_until("the request of the next call", LIMIT, || !again().is_empty(), calls);
    let next = wait_for_call(&farm.nodes[2], "in-progress");
    assert_eq!(wait_for_call(&farm.nodes[1], "completed"), lost);
    let (_, row) = rest(&farm.nodes[2], &format!("Calls/{next}.json"), &[]);
    assert_eq!((&row["to"], &row["from"]), (&Value::from(to), &Value::from("1234")), "{row}");
    // Meanwhile the living node has looked again for calls of the dead one.
    farm.nodes[0].start();
    farm.wait_for_shares(3);
    let (_, page) = rest(&farm.nodes[1], "Calls.json", &[]);
    assert_eq!(page["calls"].as_array().map(Vec::len), Some(2), "{page}");
    let again = again();
    assert_eq!(again.len(), 1, "{again:?}");
    assert!(again[0].contains("/first") && again[0].contains(&format!("CallSid={next}")), "{again:?}");
}

/// A phone that speaks to any node.
struct Phone {
    socket: UdpSocket,
    /// The To of the dialog, from the 200.
    to: String,
    contact: String,
}

impl Phone {
    /// A call to 1234 through a node, answered.
    fn call(node: &Node) -> Phone {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        socket.set_read_timeout(Some(Duration::from_secs(2))).expect("a time that is not zero");
        let mut phone =
            Phone { socket, to: "<sip:1234@example.test>".into(), contact: "sip:1234@example.test".into() };
        let port = phone.port();
        let sdp = format!(
            "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\nm=audio {port} RTP/AVP 0 101\r\n\
             a=rtpmap:101 telephone-event/8000\r\n"
        );
        let answer = phone.ask(node, "INVITE", 1, ("application/sdp", &sdp));
        let line = |name: &str| {
            let value = answer.lines().find_map(|line| line.strip_prefix(name));
            value.expect("a 200 has it").trim().to_owned()
        };
        phone.to = line("To:");
        phone.contact =
            line("Contact:").trim_start_matches('<').split('>').next().unwrap_or_default().to_owned();
        phone
    }

    fn port(&self) -> u16 {
        self.socket.local_addr().expect("it is bound").port()
    }

    fn request(&self, method: &str, number: u32, (content, body): (&str, &str)) -> String {
        let (port, to, uri) = (self.port(), &self.to, &self.contact);
        let sequence = if method == "ACK" { 1 } else { number };
        format!(
            "{method} {uri} SIP/2.0\r\nVia: SIP/2.0/UDP 127.0.0.1:{port};rport;branch=z9hG4bK{port}{method}{number}\r\n\
             From: <sip:alice@127.0.0.1:{port}>;tag=a\r\nTo: {to}\r\nCall-ID: {port}@shared-calls\r\n\
             CSeq: {sequence} {method}\r\nContact: <sip:alice@127.0.0.1:{port}>\r\nMax-Forwards: 70\r\n\
             Content-Type: {content}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
    }

    fn send(&self, node: &Node, request: &str) {
        self.socket.send_to(request.as_bytes(), ("127.0.0.1", node.port)).expect("loopback has room");
    }

    /// The 200 to a request, which is repeated until it comes.
    fn ask(&self, node: &Node, method: &str, number: u32, body: (&str, &str)) -> String {
        let request = self.request(method, number, body);
        let of_ours = format!("CSeq: {number} {method}");
        let deadline = wait::Deadline::after(LIMIT);
        self.send(node, &request);
        let mut bytes = [0; 4_096];
        while deadline.left().is_some() {
            let Ok(count) = self.socket.recv(&mut bytes) else {
                self.send(node, &request);
                continue;
            };
            let message = String::from_utf8_lossy(&bytes[..count]).into_owned();
            if !message.contains(&of_ours) || message.starts_with("SIP/2.0 1") {
                continue;
            }
            assert!(message.starts_with("SIP/2.0 200"), "{method}: {message}");
            return message;
        }
        panic!("{method} has no answer: {}", node.tail());
    }
}

#[test]
fn requests_in_the_dialog_of_an_application_reach_it_from_every_node() {
    let _alone = alone();
    let nats = Nats::start(NatsRelease::Debian);
    let (address, requests) = application(
        "<Response><Gather numDigits='3' timeout='120'><Pause length='120'/></Gather></Response>",
    );
    let farm = start(&nats, &format!("http://{address}/"));
    let phone = Phone::call(&farm.nodes[0]);
    phone.send(&farm.nodes[1], &phone.request("ACK", 1, ("text/plain", "")));
    let call = wait_for_call(&farm.nodes[2], "in-progress");
    // The digits of one <Gather>, each by another node, of which one has the call.
    for (number, node) in (2_u32..).zip(&farm.nodes) {
        let digit = format!("Signal={number}\r\nDuration=160\r\n");
        phone.ask(node, "INFO", number, ("application/dtmf-relay", &digit));
    }
    let has_digits = || {
        let requests = requests.lock().unwrap_or_else(PoisonError::into_inner);
        requests.iter().any(|request| request.contains("Digits=234"))
    };
    wait_until("the digits at the application", LIMIT, has_digits, || farm.nodes[0].tail());
    phone.ask(&farm.nodes[2], "BYE", 5, ("text/plain", ""));
    assert_eq!(wait_for_call(&farm.nodes[1], "completed"), call);
}

/// A call over a connection to a node, which goes on until its BYE.
struct ConnectedPhone {
    stream: TcpStream,
    received: String,
}

impl ConnectedPhone {
    /// A call to 1234, with its ACK.
    fn call(node: &Node, number: usize) -> ConnectedPhone {
        let stream = TcpStream::connect(("127.0.0.1", node.port)).expect("a node accepts the connection");
        let mut phone = ConnectedPhone { stream, received: String::new() };
        let request = |method: &str, to: &str, uri: &str, body: &str| {
            format!(
                "{method} {uri} SIP/2.0\r\nVia: SIP/2.0/TCP 127.0.0.1;branch=z9hG4bK{number}{method}\r\n\
                 From: <sip:alice@127.0.0.1>;tag=a\r\nTo: {to}\r\nCall-ID: {number}@connected\r\n\
                 CSeq: 1 {method}\r\nContact: <sip:alice@127.0.0.1;transport=tcp>\r\nMax-Forwards: 70\r\n\
                 Content-Type: application/sdp\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            )
        };
        let sdp = "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\nm=audio 40000 RTP/AVP 0\r\n";
        phone.send(&request("INVITE", "<sip:1234@example.test>", "sip:1234@example.test", sdp));
        phone.wait_for("SIP/2.0 200");
        let answer = phone.received.clone();
        let line = |name: &str| {
            let value = answer.lines().rev().find_map(|line| line.strip_prefix(name));
            value.expect("a 200 has it").trim().to_owned()
        };
        let contact = line("Contact:");
        let uri = contact.trim_start_matches('<').split('>').next().unwrap_or_default();
        phone.send(&request("ACK", &line("To:"), uri, ""));
        phone
    }

    fn send(&mut self, request: &str) {
        self.stream.write_all(request.as_bytes()).expect("the node reads the request");
    }

    /// The BYE, once, if it has come.
    fn take_bye(&mut self) -> Option<()> {
        let mut bytes = [0; 4_096];
        self.stream.set_read_timeout(Some(Duration::from_millis(20))).expect("a time that is not zero");
        let count = self.stream.read(&mut bytes).unwrap_or_default();
        self.received.push_str(&String::from_utf8_lossy(&bytes[..count]));
        let at = self.received.find("BYE sip:")?;
        self.received.truncate(at);
        Some(())
    }

    #[track_caller]
    fn wait_for(&mut self, text: &str) {
        let deadline = wait::Deadline::after(LIMIT);
        let mut bytes = [0; 4_096];
        while !self.received.contains(text) {
            let left = deadline.left().unwrap_or_else(|| panic!("no {text:?}: {}", self.received));
            self.stream.set_read_timeout(Some(left)).expect("a time that is not zero");
            let count = self.stream.read(&mut bytes).unwrap_or_default();
            assert!(count > 0, "no {text:?}: {}", self.received);
            self.received.push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
    }
}

/// The BYE leaves by the connection, which another node has, while the node that ends has links.
#[test]
fn a_node_that_ends_hangs_up_its_calls_by_the_connections_of_other_nodes() {
    let _alone = alone();
    let nats = Nats::start(NatsRelease::Debian);
    // A pause alone would delay the answer.
    let (address, _) =
        application("<Response><Gather timeout='300'><Pause length='300'/></Gather></Response>");
    let mut farm = start(&nats, &format!("http://{address}/"));
    let mut phones: Vec<_> = (0..12).map(|number| ConnectedPhone::call(&farm.nodes[0], number)).collect();
    let calls = || farm.nodes.iter().map(|node| node.metric("belfry_voice_calls")).collect::<Vec<u64>>();
    wait_until("the calls", LIMIT, || calls().iter().sum::<u64>() == 12, || format!("{:?}", calls()));
    let calls = calls();
    assert!(calls[1] + calls[2] > 0, "{calls:?}");
    for node in &mut farm.nodes[1..] {
        node.signal("TERM");
        assert_eq!(node.ended(LIMIT), Some(0));
    }
    let ended = calls[1] + calls[2];
    let mut hung_up = 0;
    let mut is_over = || {
        hung_up += phones.iter_mut().filter_map(ConnectedPhone::take_bye).count() as u64;
        hung_up == ended
    };
    wait_until("the BYE of each call", LIMIT, &mut is_over, || farm.nodes[0].tail());
}

//! Calls that an application answers: a caller with sound and keys, an application that speaks HTTP, and nothing left
//! of the call afterwards.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use media::events::{Digit, EventOptions, EventSender};
use media::rtp::Packet;
use media::sdp::Description;
use server::node::Node;
use server::shard::ShardStatus;
use sip::wire::Header;

use crate::call::{Dialog, Invite};
use crate::phone::{Phone, text};
use crate::place::Place;
use crate::{Deadline, PATIENCE, until};

const ASK: &str = "<Response><Gather numDigits='1' action='say' timeout='20'>\
    <Say>please press a digit of your choice now and then wait for me to say what it was</Say></Gather></Response>";

type Form = HashMap<String, String>;

/// An application: documents by path, and what it was asked.
struct App {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<(String, Form)>>>,
}

impl App {
    fn new(documents: &'static [(&'static str, &'static str)]) -> App {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let app = App { address: listener.local_addr().unwrap(), asked: Arc::default() };
        let asked = Arc::clone(&app.asked);
        // Ends with the process: it owns nothing but its socket.
        std::thread::Builder::new()
            .spawn(move || {
                for stream in listener.incoming().flatten() {
                    serve(stream, documents, &asked);
                }
            })
            .unwrap();
        app
    }

    fn voice(&self, path: &str, more: &str) -> String {
        format!(
            "[voice]\nmedia = \"127.0.0.77\"\nmedia_ports = \"20000-29999\"\nopen = true\nallow_private = true\n\
             numbers = [{{ number = \"1234\", url = \"http://{}{path}\" }}]\n{more}",
            self.address
        )
    }

    fn asked_for(&self, path: &str) -> Option<Form> {
        let asked = self.asked.lock().unwrap();
        asked.iter().find(|(asked, _)| asked == path).map(|(_, form)| form.clone())
    }
}

fn serve(mut stream: TcpStream, documents: &[(&str, &str)], asked: &Mutex<Vec<(String, Form)>>) {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    if let Some((path, body)) = request(&mut stream) {
        let form = url::form_urlencoded::parse(&body).into_owned().collect();
        let document = documents.iter().find(|(at, _)| *at == path).map(|(_, document)| *document);
        asked.lock().unwrap().push((path, form));
        let (status, body) = document.map_or(("404 Not Found", ""), |document| ("200 OK", document));
        let length = body.len();
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/xml\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
        );
        // The server may have lost interest.
        let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()));
    }
}

fn request(stream: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let count = stream.read(&mut piece).ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&piece[..count]);
        let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
        let body = &bytes[end + 4..];
        if body.len() >= length.unwrap_or(0) {
            return Some((head.split(' ').nth(1)?.to_owned(), body.to_vec()));
        }
    }
}

/// The caller of the tutorial: G.711 A-law, and events that its m-line leaves out.
struct Caller {
    phone: Phone,
    rtp: UdpSocket,
}

impl Caller {
    fn new(place: &Place) -> Caller {
        let mut phone = place.udp("sipp");
        phone.proves = false;
        let rtp = UdpSocket::bind("127.0.0.1:0").unwrap();
        rtp.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        Caller { phone, rtp }
    }

    fn sdp(&self, codec: &str, direction: &str) -> &'static str {
        let port = self.rtp.local_addr().unwrap().port();
        let text = format!(
            "v=0\r\no=user1 53655765 2353687637 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\n\
             m=audio {port} RTP/AVP {codec}\r\na=rtpmap:{codec}\r\na=rtpmap:101 telephone-event/8000\r\n\
             a=fmtp:101 0-11,16\r\na={direction}\r\n"
        );
        text.replace(&format!("a=rtpmap:{codec}\r\n"), "").leak()
    }

    fn invite(&mut self, sdp: &'static str) -> Invite {
        let uri: &'static str = format!("sip:+1234@{}", self.phone.server).leak();
        let mut ask = self.phone.ask("INVITE", uri);
        ask.from = format!("sipp <sip:sipp@{}>;tag=1", self.phone.link.local());
        ask.more = format!("Contact: <{}>\r\nContent-Type: application/sdp\r\n", self.phone.contact());
        ask.body = sdp;
        let sent = self.phone.send_invite(&ask);
        Invite { ask, sent }
    }

    /// The dialog, and where our sound goes.
    #[track_caller]
    fn call(&mut self) -> (Dialog, SocketAddr) {
        let sdp = self.sdp("8", "sendrecv");
        let invite = self.invite(sdp);
        let id = invite.ask.call_id.clone();
        let answer = self.phone.expect("an answer", |message| {
            message.status() >= 200 && message.call_id() == Some(id.as_bytes())
        });
        assert_eq!(answer.status(), 200, "{}", text(Some(answer.start_line())));
        let described = Description::parse(answer.body()).unwrap();
        let media = described.audio().unwrap();
        assert_eq!(
            media.formats,
            ["8", "101"],
            "telephone-event is answered though the m-line leaves it out"
        );
        let remote = described.remote(media).unwrap();
        self.phone.put_back(answer);
        (self.phone.answered(&invite), remote)
    }

    /// So many packets of A-law that are not silence.
    #[track_caller]
    fn hear(&self, count: usize) {
        let deadline = Deadline::after(PATIENCE);
        let mut heard = 0;
        let mut buffer = [0; 2048];
        while heard < count {
            assert!(deadline.left().is_some(), "heard {heard} packets of {count}");
            let Ok((length, _)) = self.rtp.recv_from(&mut buffer) else { continue };
            let packet = Packet::parse(&buffer[..length]).unwrap();
            heard +=
                usize::from(packet.payload_type() == 8 && packet.payload().iter().any(|byte| *byte != 0xd5));
        }
    }

    /// All that came until nothing came for 100 ms.
    fn drain(&self) {
        let mut buffer = [0; 2048];
        while self.rtp.recv_from(&mut buffer).is_ok() {}
    }

    fn press(&self, key: char, to: SocketAddr) {
        let digit = Digit::from_char(key).unwrap();
        for packet in EventSender::new(digit, EventOptions::default(), 0x0e05_384e, 8_155, 43_200) {
            let mut bytes = Vec::new();
            packet.header.write(&packet.payload, &mut bytes);
            self.rtp.send_to(&bytes, to).unwrap();
        }
    }
}

fn sum(node: &Node, read: impl Fn(&ShardStatus) -> u64) -> u64 {
    node.board().shards().iter().map(read).sum()
}

/// Calls, dialogs, ports, prompts and questions: of all that nothing is left.
#[track_caller]
fn nothing_left(node: &Node, calls: u64) {
    until("nothing is left", || {
        let left = |shard: &ShardStatus| {
            let voice = shard.voice;
            voice.calls + voice.sessions + voice.ports + voice.prompts + voice.asks
        };
        (sum(node, |shard| shard.voice.calls_total) == calls && sum(node, left) == 0).then_some(())
    });
}

#[test]
fn the_tutorials_call_is_asked_for_a_digit_and_told_it() {
    let app = App::new(&[
        ("/ask", ASK),
        ("/say", "<Response><Say>the digit was five</Say><Pause length='30'/></Response>"),
    ]);
    let place = Place::new(&app.voice("/ask", ""));
    let mut node = place.start();
    let mut caller = Caller::new(&place);
    let (mut dialog, remote) = caller.call();
    caller.hear(50);
    caller.press('5', remote);
    let form = until("the digit arrives", || app.asked_for("/say"));
    assert_eq!(form["Digits"], "5");
    for (name, value) in
        [("From", "sipp"), ("To", "+1234"), ("CallStatus", "in-progress"), ("Direction", "inbound")]
    {
        assert_eq!(form[name], value, "{name}");
    }
    assert_eq!(app.asked_for("/ask").unwrap()["CallSid"], form["CallSid"]);
    caller.hear(25);
    assert_eq!(caller.phone.within(&mut dialog, "BYE").status(), 200);
    nothing_left(&node, 1);
    node.stop();
}

#[test]
fn a_document_that_is_over_ends_the_call() {
    let app = App::new(&[("/", "<Response><Say>good bye</Say></Response>")]);
    let place = Place::new(&app.voice("/", ""));
    let mut node = place.start();
    let mut caller = Caller::new(&place);
    caller.call();
    caller.hear(10);
    let bye = caller.phone.expect_request("BYE");
    caller.phone.reply(&bye, "200 OK", "", "");
    nothing_left(&node, 1);
    node.stop();
}

#[test]
fn a_key_in_an_info_counts_and_stops_the_prompt() {
    let app = App::new(&[("/ask", ASK), ("/say", "<Response><Pause length='60'/></Response>")]);
    let place = Place::new(&app.voice("/ask", ""));
    let mut node = place.start();
    let mut caller = Caller::new(&place);
    let (mut dialog, _) = caller.call();
    caller.hear(10);
    dialog.cseq += 1;
    let mut info = dialog.ask("INFO", dialog.cseq);
    info.more.push_str("Content-Type: application/dtmf-relay\r\n");
    info.body = "Signal=7\r\nDuration=160\r\n";
    assert_eq!(caller.phone.request(info).status(), 200);
    assert_eq!(until("the digit arrives", || app.asked_for("/say"))["Digits"], "7");
    until("the prompt is stopped", || (sum(&node, |shard| shard.voice.prompts) == 0).then_some(()));
    caller.drain();
    let mut buffer = [0; 2048];
    assert!(caller.rtp.recv_from(&mut buffer).is_err(), "a pause is silent");
    assert_eq!(caller.phone.within(&mut dialog, "BYE").status(), 200);
    nothing_left(&node, 1);
    node.stop();
}

#[test]
fn a_call_on_hold_is_not_spoken_to_until_it_is_back() {
    let app = App::new(&[("/", "<Response><Say loop='0'>please hold the line</Say></Response>")]);
    let place = Place::new(&app.voice("/", ""));
    let mut node = place.start();
    let mut caller = Caller::new(&place);
    let (mut dialog, _) = caller.call();
    caller.hear(10);
    for direction in ["inactive", "sendrecv"] {
        dialog.cseq += 1;
        let mut again = dialog.ask("INVITE", dialog.cseq);
        again.more = format!("Contact: <{}>\r\nContent-Type: application/sdp\r\n", caller.phone.contact());
        again.body = caller.sdp("8", direction);
        let answer = caller.phone.request(again);
        assert_eq!(answer.status(), 200);
        let described = String::from_utf8_lossy(answer.body()).into_owned();
        assert!(described.contains(&format!("a={direction}\r\n")), "{described}");
        let ack = dialog.ask("ACK", dialog.cseq);
        let ack = caller.phone.write(&ack);
        caller.phone.send(ack.as_bytes());
        if direction == "inactive" {
            caller.drain();
        } else {
            caller.hear(10);
        }
    }
    assert_eq!(caller.phone.within(&mut dialog, "BYE").status(), 200);
    nothing_left(&node, 1);
    node.stop();
}

#[test]
fn what_cannot_be_spoken_with_is_refused_and_says_why() {
    let app = App::new(&[("/", "<Response><Say>good bye</Say></Response>")]);
    let place = Place::new(&app.voice("/", ""));
    let mut node = place.start();
    let mut caller = Caller::new(&place);
    let sdp = caller.sdp("18", "sendrecv");
    let invite = caller.invite(sdp);
    let answer = caller.phone.outcome(&invite);
    assert_eq!(answer.status(), 488);
    let warning = text(answer.header(Header::Warning));
    assert!(warning.starts_with("305 belfry"), "{warning}");
    nothing_left(&node, 1);
    node.stop();
}

#[test]
fn an_application_without_a_document_is_an_error_of_the_server() {
    let app = App::new(&[]);
    let place = Place::new(&app.voice("/nothing", ""));
    let mut node = place.start();
    let mut caller = Caller::new(&place);
    let sdp = caller.sdp("8", "sendrecv");
    let invite = caller.invite(sdp);
    let answer = caller.phone.outcome(&invite);
    assert_eq!(answer.status(), 500);
    nothing_left(&node, 1);
    node.stop();
}

#[test]
fn a_caller_who_gives_up_before_the_document_leaves_nothing() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let app = App { address: silent.local_addr().unwrap(), asked: Arc::default() };
    let place = Place::new(&app.voice("/", ""));
    let mut node = place.start();
    let mut caller = Caller::new(&place);
    let sdp = caller.sdp("8", "sendrecv");
    let invite = caller.invite(sdp);
    until("the application is asked", || (sum(&node, |shard| shard.voice.asks) == 1).then_some(()));
    let to = invite.sent.header(Header::To).unwrap().to_vec();
    let cancel = sip::wire::Request::from_invite("CANCEL", &invite.sent, &to);
    caller.phone.send(&cancel);
    caller.phone.expect("the answer to CANCEL", |message| {
        message.status() == 200 && message.cseq().is_some_and(|(_, method)| method == b"CANCEL")
    });
    assert_eq!(caller.phone.outcome(&invite).status(), 487);
    drop(silent);
    nothing_left(&node, 1);
    node.stop();
}

#[test]
fn verbs_that_cannot_be_performed_take_the_way_of_their_failure() {
    let app = App::new(&[
        ("/", "<Response><Record action='/recorded'/><Dial action='/dialed'>1</Dial></Response>"),
        ("/dialed", "<Response><Hangup/></Response>"),
        ("/recorded", "<Response><Dial action='/dialed'>1</Dial></Response>"),
    ]);
    let place = Place::new(&app.voice("/", ""));
    let mut node = place.start();
    let mut caller = Caller::new(&place);
    caller.call();
    let form = until("the Dial is over", || app.asked_for("/dialed"));
    assert_eq!(form["DialCallStatus"], "failed");
    let bye = caller.phone.expect_request("BYE");
    caller.phone.reply(&bye, "200 OK", "", "");
    nothing_left(&node, 1);
    node.stop();
}

#[test]
fn a_call_is_hung_up_when_the_node_leaves() {
    let app = App::new(&[("/", "<Response><Say>a</Say><Pause length='600'/></Response>")]);
    let place = Place::new(&app.voice("/", ""));
    let mut node = place.start();
    let mut caller = Caller::new(&place);
    caller.call();
    // RFC 3261 §15: no BYE before the ACK, so the node must have it. It speaks from then on.
    until("the call is up", || (sum(&node, |shard| shard.voice.packets_out) > 0).then_some(()));
    node.stop();
    caller.phone.expect_request("BYE");
}

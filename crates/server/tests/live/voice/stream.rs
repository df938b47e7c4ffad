//! Media streams: an application with a WebSocket hears the caller, and is heard.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, sync_channel};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use media::codec::{alaw_decode, alaw_encode, ulaw_decode, ulaw_encode};
use media::rtp::{Header, Packet};
use media::tone::tone;
use serde_json::{Value, json};
use tungstenite::handshake::server::{Callback, ErrorResponse, Request, Response};
use tungstenite::protocol::CloseFrame;
use tungstenite::protocol::frame::coding::CloseCode;
use tungstenite::{Message, WebSocket};

use super::app::App;
use super::caller::Caller;
use super::{nothing_left, sum};
use crate::place::Place;
use crate::{Deadline, PATIENCE, until};

/// The application's side of one stream.
pub(super) struct Far {
    socket: WebSocket<TcpStream>,
    /// The signature of the handshake.
    signature: Option<String>,
}

/// Looks at the signature of a handshake.
struct Sees<'a>(&'a mut Option<String>);

impl Callback for Sees<'_> {
    fn on_request(self, request: &Request, response: Response) -> Result<Response, ErrorResponse> {
        let value = request.headers().get("x-twilio-signature");
        *self.0 = value.map(|value| value.to_str().unwrap().to_owned());
        Ok(response)
    }
}

/// A site for WebSockets, and those that came.
pub(super) struct Site {
    pub(super) address: SocketAddr,
    pub(super) came: Receiver<Far>,
}

impl Site {
    pub(super) fn new() -> Site {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, came) = sync_channel(8);
        // Ends with the process: it owns nothing but its socket.
        std::thread::Builder::new()
            .spawn(move || {
                for stream in listener.incoming().flatten() {
                    stream.set_read_timeout(Some(PATIENCE)).unwrap();
                    let mut signature = None;
                    let socket = tungstenite::accept_hdr(stream, Sees(&mut signature));
                    if let Ok(socket) = socket {
                        let _ = sender.send(Far { socket, signature });
                    }
                }
            })
            .unwrap();
        Site { address, came }
    }

    /// An application whose documents name this site as `SITE`.
    pub(super) fn app(&self, documents: &[(&'static str, &str)]) -> App {
        let named = |text: &str| -> &'static str { text.replace("SITE", &self.address.to_string()).leak() };
        let documents: Vec<_> = documents.iter().map(|(path, text)| (*path, named(text))).collect();
        App::new(documents.leak())
    }

    #[track_caller]
    pub(super) fn next(&self) -> Far {
        self.came.recv_timeout(PATIENCE).expect("a stream")
    }
}

impl Far {
    /// `None`: the stream is closed.
    pub(super) fn message(&mut self) -> Option<Value> {
        loop {
            match self.socket.read() {
                Ok(Message::Text(text)) => return Some(serde_json::from_str(&text).unwrap()),
                Ok(Message::Close(_)) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }

    /// The next of that name; others are passed over.
    #[track_caller]
    pub(super) fn event(&mut self, name: &str) -> Value {
        let deadline = Deadline::after(PATIENCE);
        while deadline.left().is_some() {
            let message = self.message().unwrap_or_else(|| panic!("closed before {name}"));
            if message["event"] == name {
                return message;
            }
        }
        panic!("no {name}")
    }

    #[track_caller]
    pub(super) fn start(&mut self) -> Value {
        let connected = self.message().unwrap();
        assert_eq!(connected, json!({ "event": "connected", "protocol": "Call", "version": "1.0.0" }));
        let start = self.message().unwrap();
        assert_eq!((&start["event"], &start["sequenceNumber"]), (&json!("start"), &json!("1")));
        start
    }

    fn send(&mut self, event: &Value) {
        self.socket.send(Message::text(event.to_string())).unwrap();
    }

    pub(super) fn say(&mut self, samples: &[i16]) {
        let sound: Vec<u8> = samples.iter().map(|sample| ulaw_encode(*sample)).collect();
        self.send(&json!({ "event": "media", "media": { "payload": STANDARD.encode(sound) } }));
    }

    fn mark(&mut self, name: &str) {
        self.send(&json!({ "event": "mark", "mark": { "name": name } }));
    }
}

/// The share of that tone in the sound, in thousandths (Goertzel).
fn share(samples: &[i16], frequency: f64) -> u64 {
    let step = std::f64::consts::TAU * frequency / 8_000.0;
    let (mut real, mut imaginary, mut all) = (0.0, 0.0, 1.0);
    for (at, sample) in samples.iter().enumerate() {
        let (value, angle) = (f64::from(*sample), step * at as f64);
        real += value * angle.cos();
        imaginary += value * angle.sin();
        all += value * value;
    }
    (2_000.0 * (real * real + imaginary * imaginary) / (all * samples.len() as f64)) as u64
}

/// The caller's tone goes out at the pace at which the stream tells what is heard.
fn hear_caller(far: &mut Far, caller: &Caller, to: SocketAddr) -> Vec<i16> {
    let sound = tone(1_000.0, 12_000, 8_000, 2_000);
    let mut received = Vec::new();
    for (at, frame) in sound.chunks(160).enumerate() {
        let number = u16::try_from(at).unwrap();
        let header = Header {
            marker: at == 0,
            payload_type: 8,
            sequence: number,
            timestamp: 160 * u32::from(number),
            ssrc: 7,
        };
        let payload: Vec<u8> = frame.iter().map(|sample| alaw_encode(*sample)).collect();
        let mut packet = Vec::new();
        header.write(&payload, &mut packet);
        caller.rtp.send_to(&packet, to).unwrap();
        let media = far.event("media");
        assert_eq!(media["media"]["track"], "inbound");
        let payload = STANDARD.decode(media["media"]["payload"].as_str().unwrap()).unwrap();
        assert_eq!(payload.len(), 160);
        received.extend(payload.into_iter().map(ulaw_decode));
    }
    received
}

/// The sound that the caller receives, until so many samples of it are no silence.
pub(super) fn heard_by(caller: &Caller, count: usize) -> Vec<i16> {
    let deadline = Deadline::after(PATIENCE);
    let mut received = Vec::new();
    let mut buffer = [0; 2048];
    while received.len() < count {
        assert!(deadline.left().is_some(), "heard {} samples of {count}", received.len());
        let Ok((length, _)) = caller.rtp.recv_from(&mut buffer) else { continue };
        let packet = Packet::parse(&buffer[..length]).unwrap();
        if packet.payload().iter().any(|byte| *byte & 0x7f != 0x55) {
            received.extend(packet.payload().iter().map(|byte| alaw_decode(*byte)));
        }
    }
    received
}

const CONNECT: &str = "<Response><Connect action='/after'><Stream url='ws://SITE/s' statusCallback='/status'>\
    <Parameter name='room' value='blue &amp; green'/></Stream></Connect></Response>";
const AFTER: (&str, &str) = ("/after", "<Response><Hangup/></Response>");

#[test]
fn an_application_hears_the_caller() {
    let site = Site::new();
    let app = site.app(&[("/", CONNECT), AFTER]);
    let place = Place::new(&app.voice("/", "auth_token = \"secret\"\n"));
    let mut node = place.start();
    let mut caller = Caller::new(&place);
    let (mut dialog, remote) = caller.call();
    let mut far = site.next();
    let url = format!("ws://{}/s", site.address);
    assert_eq!(far.signature.clone().unwrap(), ivr::signature::sign("secret", &url, &[]));
    let start = far.start();
    let told = &start["start"];
    assert_eq!(
        told["mediaFormat"],
        json!({ "encoding": "audio/x-mulaw", "sampleRate": 8000, "channels": 1 })
    );
    assert_eq!(told["customParameters"], json!({ "room": "blue & green" }));
    assert_eq!(told["tracks"], json!(["inbound"]));
    let asked = app.asked_for("/").unwrap();
    assert_eq!(told["callSid"], json!(asked["CallSid"]));
    assert_eq!(told["accountSid"], json!(asked["AccountSid"]));
    assert!(start["streamSid"].as_str().unwrap().starts_with("MZ"));
    assert_eq!(told["streamSid"], start["streamSid"]);
    let status = until("the start is told", || app.asked_for("/status"));
    assert_eq!(
        (&*status["StreamEvent"], &json!(status["StreamSid"])),
        ("stream-started", &start["streamSid"])
    );

    let received = hear_caller(&mut far, &caller, remote);
    let tail = &received[received.len() / 2..];
    assert!(share(tail, 1_000.0) > 900, "{} of the sound is the caller's tone", share(tail, 1_000.0));
    caller.press('5', remote);
    assert_eq!(far.event("dtmf")["dtmf"], json!({ "track": "inbound_track", "digit": "5" }));
    assert_eq!(caller.phone.within(&mut dialog, "BYE").status(), 200);
    far.event("stop");
    nothing_left(&node, 1);
    node.stop();
}

#[test]
fn an_application_is_heard_until_it_clears() {
    let site = Site::new();
    let app = site.app(&[("/", CONNECT), AFTER]);
    let place = Place::new(&app.voice("/", ""));
    let mut node = place.start();
    let mut caller = Caller::new(&place);
    caller.call();
    let mut far = site.next();
    let start = far.start();
    far.say(&tone(440.0, 12_000, 8_000, 500));
    far.mark("said");
    let received = heard_by(&caller, 3_200);
    assert!(share(&received, 440.0) > 900, "{} of the sound is the application's", share(&received, 440.0));
    assert_eq!(far.event("mark")["mark"], json!({ "name": "said" }));

    // Twenty seconds, and the mark after them comes at once when they are cleared.
    far.say(&tone(440.0, 12_000, 8_000, 20_000));
    far.mark("cut");
    heard_by(&caller, 160);
    far.send(&json!({ "event": "clear" }));
    assert_eq!(far.event("mark")["mark"], json!({ "name": "cut" }));
    let at = |message: &Value| message["media"]["timestamp"].as_str().unwrap().parse::<u64>().unwrap();
    let (first, next) = (far.event("media"), far.event("media"));
    assert_eq!(at(&next) - at(&first), 20);
    assert!(at(&first) < 20_000, "the mark did not wait for the sound");
    caller.drain();

    far.socket.close(None).unwrap();
    let bye = caller.phone.expect_request("BYE");
    caller.phone.reply(&bye, "200 OK", "", "");
    assert_eq!(json!(app.asked_for("/after").unwrap()["StreamSid"]), start["streamSid"]);
    nothing_left(&node, 1);
    node.stop();
}

#[test]
fn a_caller_that_hangs_up_stops_all_streams() {
    let site = Site::new();
    let stream = "<Start><Stream url='ws://SITE/s' track='both_tracks'/></Start>";
    let app = site.app(&[(
        "/",
        &format!("<Response>{}<Say loop='0'>please hold the line</Say></Response>", stream.repeat(5)),
    )]);
    let place = Place::new(&app.voice("/", ""));
    let mut node = place.start();
    let mut caller = Caller::new(&place);
    let (mut dialog, _) = caller.call();
    let mut all: Vec<Far> = (0..4).map(|_| site.next()).collect();
    for far in &mut all {
        assert_eq!(far.start()["start"]["tracks"], json!(["inbound", "outbound"]));
        assert!(far.signature.is_some(), "with the token that was made at the start");
        // The sound that the caller is sent is in it.
        let deadline = Deadline::after(PATIENCE);
        let is_speech = |media: &Value| {
            let payload = STANDARD.decode(media["media"]["payload"].as_str().unwrap()).unwrap();
            media["media"]["track"] == "outbound" && payload.iter().any(|byte| byte & 0x7f < 0x60)
        };
        while !is_speech(&far.event("media")) {
            assert!(deadline.left().is_some(), "no word is heard");
        }
    }
    until("four are open, and a fifth is refused", || {
        (sum(&node, |shard| shard.voice.streams) == 4).then_some(())
    });
    assert_eq!(caller.phone.within(&mut dialog, "BYE").status(), 200);
    for far in &mut all {
        far.event("stop");
        assert_eq!(far.message(), None);
    }
    assert!(site.came.try_recv().is_err());
    nothing_left(&node, 1);
    node.stop();
}

#[test]
fn a_stream_that_fails_to_open_or_breaks_is_reported() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let site = Site::new();
    let app = site.app(&[
        (
            "/",
            &format!(
                "<Response><Connect action='/next'><Stream url='ws://{closed}/' statusCallback='/refused'/></Connect></Response>"
            ),
        ),
        (
            "/next",
            "<Response><Connect action='/last'><Stream url='ws://SITE/' statusCallback='/broken'/></Connect></Response>",
        ),
        ("/last", "<Response><Hangup/></Response>"),
    ]);
    let place = Place::new(&app.voice("/", ""));
    let mut node = place.start();
    let mut caller = Caller::new(&place);
    caller.call();
    let refused = until("the failure is told", || app.asked_for("/refused"));
    assert_eq!(refused["StreamEvent"], "stream-error");
    assert!(refused["StreamError"].contains("refused"), "{}", refused["StreamError"]);
    let mut far = site.next();
    far.start();
    let code = CloseCode::Error;
    far.socket.close(Some(CloseFrame { code, reason: "no more".into() })).unwrap();
    let bye = caller.phone.expect_request("BYE");
    caller.phone.reply(&bye, "200 OK", "", "");
    let told = || {
        let asked = app.asked.lock().unwrap();
        asked.iter().find_map(|(path, form)| form.get("StreamError").filter(|_| path == "/broken").cloned())
    };
    let broken = until("the break is told", told);
    assert!(broken.ends_with("closed with 1011: no more"), "{broken}");
    nothing_left(&node, 1);
    node.stop();
}

//! Media streams of calls: Twilio's protocol of messages over WebSocket (RFC 6455), a task a stream.
//!
//! The order of a stream: connect, `connected`, `start`, then `media` and `dtmf` of the call as they come, and messages of the application every 20
//! ms in one batch; `stop` and a close at the end. The call ends a stream by dropping its end of the queue.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use ::voice::{MediaStreamEvent, Opening, StreamMessage, StreamOrder};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::{SinkExt, StreamExt};
use reqwest::Url;
use rustls_pki_types::ServerName;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::mpsc::Receiver;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_rustls::TlsConnector;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::{HeaderValue, header::USER_AGENT};
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

use super::{address, limits};

/// TCP or TLS.
trait Io: AsyncRead + AsyncWrite + Unpin {}

impl<T: AsyncRead + AsyncWrite + Unpin> Io for T {}

/// Both kinds of connection under one type.
type Socket = WebSocketStream<Box<dyn Io>>;

/// Opens the stream and keeps it until it is over, on either side.
pub(super) async fn run(
    opening: Opening,
    mut orders: Receiver<StreamOrder>,
    allow_private: bool,
    tell: impl Fn(MediaStreamEvent),
) {
    let connecting = timeout(limits::CONNECT_TIMEOUT, connect(&opening, allow_private));
    let socket = tokio::select! {
        connected = connecting => connected.unwrap_or_else(|_| {
            let seconds = limits::CONNECT_TIMEOUT.as_secs();
            Err(format!("no stream to {} in {seconds} s", opening.url))
        }),
        // The call has lost interest.
        () = over(&mut orders) => return tell(MediaStreamEvent::Over(Ok(()))),
    };
    let result = match socket {
        Ok(socket) => {
            let said = Batch::default();
            let mut line = Line { socket, opening: &opening, sequence: 0, said };
            line.serve(&mut orders, &tell).await.map_err(|what| format!("{}: {what}", opening.url))
        }
        Err(what) => Err(what),
    };
    tell(MediaStreamEvent::Over(result));
}

/// Returns when the call has dropped its end.
async fn over(orders: &mut Receiver<StreamOrder>) {
    while orders.recv().await.is_some() {}
}

/// Connects to an address that was checked, with TLS for `wss:`, and shakes hands.
async fn connect(opening: &Opening, allow_private: bool) -> Result<Socket, String> {
    let named = |problem: &dyn std::fmt::Display| format!("{}: {problem}", opening.url);
    let url = Url::parse(&opening.url).map_err(|error| named(&error))?;
    // A URL has IPv6 addresses in brackets; resolver and TLS want them without.
    let host = url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    let port = url.port_or_known_default().unwrap_or(80);
    let found = address::allowed(host, port, allow_private).await.map_err(|error| named(&error))?;
    let stream = TcpStream::connect(&*found).await.map_err(|error| named(&error))?;
    // A frame every 20 ms waits for no other.
    stream.set_nodelay(true).map_err(|error| named(&error))?;
    let io: Box<dyn Io> = if url.scheme() == "wss" {
        let name = ServerName::try_from(host.to_owned()).map_err(|error| named(&error))?;
        let connector = TlsConnector::from(net::tls::system_client());
        Box::new(connector.connect(name, stream).await.map_err(|error| named(&error))?)
    } else {
        Box::new(stream)
    };
    let mut request = opening.url.as_str().into_client_request().map_err(|error| named(&error))?;
    request
        .headers_mut()
        .insert(USER_AGENT, HeaderValue::from_static(concat!("Belfry/", env!("CARGO_PKG_VERSION"))));
    // It is empty where there is no secret to sign with.
    if let Ok(signature) = HeaderValue::from_str(&opening.signature)
        && !signature.is_empty()
    {
        request.headers_mut().insert(super::http::SIGNATURE, signature);
    }
    let config = WebSocketConfig::default()
        .max_message_size(Some(limits::STREAM_MESSAGE))
        .max_frame_size(Some(limits::STREAM_MESSAGE));
    let shaken = client_async_with_config(request, io, Some(config)).await;
    shaken.map(|(socket, _)| socket).map_err(|error| named(&error))
}

/// Messages of the application since the call was last told.
#[derive(Default)]
struct Batch {
    /// In the order in which they came.
    said: Vec<StreamMessage>,
    /// Bytes of their texts.
    bytes: usize,
    /// The call has been told of a message that cannot be read; once is enough.
    had_nonsense: bool,
}

/// A stream that is open.
struct Line<'a> {
    socket: Socket,
    opening: &'a Opening,
    /// The number of the last message, from 1.
    sequence: u64,
    said: Batch,
}

impl Line<'_> {
    /// Until either side ends it.
    async fn serve(
        &mut self,
        orders: &mut Receiver<StreamOrder>,
        tell: &impl Fn(MediaStreamEvent),
    ) -> Result<(), String> {
        let hello = json!({ "event": "connected", "protocol": "Call", "version": "1.0.0" });
        self.write(hello.to_string()).await?;
        let start = self.start();
        self.write(start).await?;
        self.flush().await?;
        tell(MediaStreamEvent::Opened);
        // After a delay the turns go on from then, instead of making up for those that were missed.
        let mut turn = interval(limits::STREAM_TURN);
        turn.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut next = Vec::new();
        loop {
            // Beyond that the application waits: TCP tells it.
            let has_room = self.said.said.len() < limits::STREAM_TURN_MESSAGES
                && self.said.bytes < limits::STREAM_TURN_BYTES;
            tokio::select! {
                count = orders.recv_many(&mut next, limits::STREAM_FRAMES) => {
                    // The call has dropped its end.
                    if count == 0 {
                        return self.stop().await;
                    }
                    for order in next.drain(..) {
                        let text = self.text(&order);
                        self.write(text).await?;
                    }
                    self.flush().await?;
                }
                heard = self.socket.next(), if has_room => {
                    if let Some(end) = self.hear(heard) {
                        let _ = timeout(limits::STREAM_GOODBYE, self.socket.close(None)).await;
                        return end;
                    }
                }
                _ = turn.tick(), if !self.said.said.is_empty() => {
                    self.said.bytes = 0;
                    tell(MediaStreamEvent::Said(std::mem::take(&mut self.said.said)));
                }
            }
        }
    }

    /// The message that describes the stream.
    fn start(&mut self) -> String {
        let Opening { account, call, tracks, parameters, sid, .. } = self.opening;
        let parameters: BTreeMap<_, _> = parameters.iter().cloned().collect();
        let start = json!({
            "accountSid": account,
            "streamSid": sid,
            "callSid": call,
            "tracks": tracks,
            "mediaFormat": { "encoding": "audio/x-mulaw", "sampleRate": 8000, "channels": 1 },
            "customParameters": parameters,
        });
        self.event("start", start)
    }

    /// A message with its number.
    fn event(&mut self, name: &str, what: Value) -> String {
        self.sequence += 1;
        let mut event = json!({
            "event": name,
            "sequenceNumber": self.sequence.to_string(),
            "streamSid": self.opening.sid,
        });
        event[name] = what;
        event.to_string()
    }

    /// The message of an order.
    fn text(&mut self, order: &StreamOrder) -> String {
        match order {
            StreamOrder::Media { track, chunk, at_ms, payload } => {
                let payload = STANDARD.encode(payload);
                let (chunk, timestamp) = (chunk.to_string(), at_ms.to_string());
                self.event(
                    "media",
                    json!({ "track": track, "chunk": chunk, "timestamp": timestamp, "payload": payload }),
                )
            }
            StreamOrder::Digit(digit) => {
                self.event("dtmf", json!({ "track": "inbound_track", "digit": digit }))
            }
            StreamOrder::Mark(name) => self.event("mark", json!({ "name": name })),
        }
    }

    /// Queues a message; it is sent by a flush.
    async fn write(&mut self, text: String) -> Result<(), String> {
        in_time(limits::STREAM_WRITE, self.socket.feed(Message::text(text))).await
    }

    /// Sends what was queued; one system call for several messages.
    async fn flush(&mut self) -> Result<(), String> {
        in_time(limits::STREAM_WRITE, self.socket.flush()).await
    }

    /// Our end of the stream: the message, the close, and a short wait for the answer.
    async fn stop(&mut self) -> Result<(), String> {
        let Opening { account, call, .. } = self.opening;
        let stop = self.event("stop", json!({ "accountSid": account, "callSid": call }));
        self.write(stop).await?;
        let close = CloseFrame { code: CloseCode::Normal, reason: "the stream is over".into() };
        let goodbye = async {
            let _ = self.socket.close(Some(close)).await;
            while let Some(Ok(_)) = self.socket.next().await {}
        };
        let _ = timeout(limits::STREAM_GOODBYE, goodbye).await;
        Ok(())
    }

    /// `Some`: it is over.
    fn hear(&mut self, heard: Option<Result<Message, Error>>) -> Option<Result<(), String>> {
        match heard {
            Some(Ok(Message::Text(text))) => self.understand(&text),
            Some(Ok(Message::Binary(_))) => self.nonsense("a binary message"),
            Some(Ok(Message::Close(frame))) => return Some(reason_of(frame.as_ref())),
            // Pings are answered by the library, pongs ask for nothing.
            Some(Ok(_)) => {}
            Some(Err(Error::ConnectionClosed)) => return Some(Ok(())),
            Some(Err(error)) => return Some(Err(error.to_string())),
            None => return Some(Err("the connection is gone".to_owned())),
        }
        None
    }

    /// Takes a message of the application. It counts only in a stream of both directions (`<Connect>`); in
    /// others it is read and dropped.
    fn understand(&mut self, text: &str) {
        if !self.opening.two_way {
            return;
        }
        self.said.bytes += text.len();
        match understood(text) {
            Ok(Some(said)) => self.said.said.push(said),
            Ok(None) => {}
            Err(problem) => self.nonsense(&problem),
        }
    }

    /// Tells the call of the first message that cannot be read; the others are ignored.
    fn nonsense(&mut self, problem: &str) {
        if !std::mem::replace(&mut self.said.had_nonsense, true) {
            let text = format!("{} sent what is no message of a media stream: {problem}", self.opening.url);
            self.said.said.push(StreamMessage::Nonsense(text));
        }
    }
}

/// A step of sending with its time limit: an application that does not read ends its stream.
async fn in_time(limit: Duration, act: impl Future<Output = Result<(), Error>>) -> Result<(), String> {
    match timeout(limit, act).await {
        Ok(result) => result.map_err(|error| error.to_string()),
        Err(_) => Err(format!("it took nothing for {} s", limit.as_secs())),
    }
}

/// The outcome of a close by the application (RFC 6455 §7.4.1): normal, going away, or without a code is a
/// plain end.
fn reason_of(frame: Option<&CloseFrame>) -> Result<(), String> {
    match frame {
        None => Ok(()),
        Some(frame) if matches!(frame.code, CloseCode::Normal | CloseCode::Away | CloseCode::Status) => {
            Ok(())
        }
        Some(frame) => Err(format!("closed with {}: {}", frame.code, frame.reason)),
    }
}

/// A message of the application.
#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow)]
    event: Cow<'a, str>,
    #[serde(borrow)]
    media: Option<Media<'a>>,
    mark: Option<Mark>,
}

/// Sound, in Base64.
#[derive(Deserialize)]
struct Media<'a> {
    #[serde(borrow)]
    payload: Cow<'a, str>,
}

/// A name that the call sends back when the sound before it was played.
#[derive(Deserialize)]
struct Mark {
    name: Box<str>,
}

/// Reads a message. `None`: an event that asks for nothing. Texts are borrowed from the message, as most are
/// sound.
fn understood(text: &str) -> Result<Option<StreamMessage>, String> {
    let event: Event<'_> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    Ok(Some(match (&*event.event, event.media, event.mark) {
        ("media", Some(media), _) => {
            let sound = STANDARD.decode(media.payload.as_bytes()).map_err(|error| error.to_string())?;
            StreamMessage::Sound(sound)
        }
        ("mark", _, Some(mark)) if mark.name.len() <= limits::STREAM_MARK => StreamMessage::Mark(mark.name),
        ("mark", _, Some(_)) => {
            return Err(format!("a mark's name has more than {} bytes", limits::STREAM_MARK));
        }
        ("clear", ..) => StreamMessage::Clear,
        (name @ ("media" | "mark"), ..) => return Err(format!("`{name}` without its `{name}`")),
        // Twilio's protocol may grow: an unknown event is no mistake.
        _ => return Ok(None),
    }))
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::net::TcpListener;

    use super::*;

    fn outcome(url: &str, allow_private: bool) -> String {
        let opening = Opening {
            url: url.to_owned(),
            signature: String::new(),
            sid: "MZ1".to_owned(),
            account: "AC1".to_owned(),
            call: "CA1".to_owned(),
            tracks: Vec::new(),
            parameters: Vec::new(),
            two_way: true,
        };
        let (_keep, orders) = tokio::sync::mpsc::channel(1);
        let told = RefCell::new(Vec::new());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(run(opening, orders, allow_private, |news| told.borrow_mut().push(news)));
        match told.into_inner().as_slice() {
            [MediaStreamEvent::Over(Err(problem))] => problem.clone(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn our_own_network_is_not_connected_to() {
        let site = TcpListener::bind("127.0.0.1:0").unwrap();
        site.set_nonblocking(true).unwrap();
        let port = site.local_addr().unwrap().port();
        for host in ["127.0.0.1", "localhost", "[::1]", "2130706433", "[::ffff:127.0.0.1]", "10.0.0.1"] {
            let told = outcome(&format!("ws://{host}:{port}/s"), false);
            assert!(told.contains("our own network"), "{host}: {told}");
        }
        assert!(site.accept().is_err(), "no client came");
    }

    #[test]
    fn a_site_without_a_certificate_of_an_authority_is_not_spoken_to() {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let key = rustls_pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let config = rustls::ServerConfig::builder().with_no_client_auth();
        let config = config.with_single_cert(vec![made.cert.der().clone()], key).unwrap();
        let site = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("wss://localhost:{}/s", site.local_addr().unwrap().port());
        let serve = move || {
            let (mut stream, _) = site.accept().unwrap();
            let mut session = rustls::ServerConnection::new(config.into()).unwrap();
            while session.complete_io(&mut stream).is_ok() {}
        };
        std::thread::Builder::new().spawn(serve).unwrap();
        let told = outcome(&url, true);
        assert!(told.contains("certificate"), "{told}");
    }

    #[test]
    fn messages_of_applications_are_understood_or_named() {
        let sound = r#"{"event":"media","streamSid":"MZ1","media":{"payload":"/38A"}}"#;
        assert_eq!(understood(sound), Ok(Some(StreamMessage::Sound(vec![0xff, 0x7f, 0]))));
        let mark = r#"{"event":"mark","mark":{"name":"a \"b\""}}"#;
        assert_eq!(understood(mark), Ok(Some(StreamMessage::Mark("a \"b\"".into()))));
        assert_eq!(understood(r#"{"event":"clear"}"#), Ok(Some(StreamMessage::Clear)));
        assert_eq!(understood(r#"{"event":"later"}"#), Ok(None));
        let long =
            format!(r#"{{"event":"mark","mark":{{"name":"{}"}}}}"#, "x".repeat(limits::STREAM_MARK + 1));
        for nonsense in
            ["", "[]", r#"{"event":"media"}"#, r#"{"event":"media","media":{"payload":"?"}}"#, &long]
        {
            assert!(understood(nonsense).is_err(), "{nonsense}");
        }
    }
}

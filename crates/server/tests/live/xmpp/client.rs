//! A chat client: one stream, and as much XMPP as the tests need, over `xmpp::xml`.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use sip::transport::Transport;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{self, Message as Ws, WebSocket};
use xmpp::xml::{Frame, Framer, Prefixes, parse, parse_header};
use xmpp::{Element, ns, sasl};

use crate::link::Stream;
use crate::phone::{DOMAIN, PASSWORD};
use crate::place::Place;
use crate::{Deadline, PATIENCE, until};

type TlsStream = StreamOwned<ClientConnection, TcpStream>;

enum Io {
    Tcp,
    Tls(Box<TlsStream>),
    WebSocket(Box<WebSocket<Box<dyn Stream>>>),
}

pub(crate) struct Client {
    io: Io,
    pub(crate) tcp: TcpStream,
    trust: ClientConfig,
    framer: Framer,
    prefixes: Prefixes,
    inbox: VecDeque<Element>,
    pub(crate) jid: String,
    domain: String,
}

const HEADER: &str = "<?xml version='1.0'?><stream:stream to='example.test' xmlns='jabber:client' \
    xmlns:stream='http://etherx.jabber.org/streams' version='1.0'>";

impl Client {
    pub(crate) fn connect(place: &Place, transport: Transport) -> Client {
        let tcp = TcpStream::connect(place.xmpp_at(transport)).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(place.path("data/cert.pem")).unwrap()).unwrap();
        let trust = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        let mut client = Client {
            io: Io::Tcp,
            tcp,
            trust,
            framer: Framer::new(),
            prefixes: Prefixes::default(),
            inbox: VecDeque::new(),
            jid: String::new(),
            domain: DOMAIN.to_owned(),
        };
        match transport {
            Transport::Tls => client.secure(&[b"xmpp-client"]),
            Transport::Ws => client.websocket("ws", Box::new(client.tcp.try_clone().unwrap())),
            Transport::Wss => {
                let tls = client.handshake(&[]);
                client.websocket("wss", Box::new(tls));
            }
            Transport::Udp | Transport::Tcp => {}
        }
        client
    }

    fn handshake(&self, protocols: &[&[u8]]) -> TlsStream {
        let mut config = self.trust.clone();
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        let name = ServerName::try_from("localhost").unwrap();
        let connection = ClientConnection::new(Arc::new(config), name).unwrap();
        let mut stream = StreamOwned::new(connection, self.tcp.try_clone().unwrap());
        stream.sock.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.conn.complete_io(&mut stream.sock).unwrap();
        stream
    }

    pub(crate) fn secure(&mut self, protocols: &[&[u8]]) {
        let stream = self.handshake(protocols);
        let agreed = stream.conn.alpn_protocol();
        assert_eq!(agreed, protocols.first().copied(), "XEP-0368");
        self.io = Io::Tls(Box::new(stream));
    }

    fn websocket(&mut self, scheme: &str, io: Box<dyn Stream>) {
        let mut request = format!("{scheme}://localhost/").into_client_request().unwrap();
        request.headers_mut().insert("Sec-WebSocket-Protocol", "xmpp".parse().unwrap());
        let Ok((io, response)) = tungstenite::client(request, io) else { panic!("no WebSocket handshake") };
        assert_eq!(response.headers()["Sec-WebSocket-Protocol"], "xmpp");
        self.io = Io::WebSocket(Box::new(io));
    }

    pub(crate) fn say(&mut self, xml: &str) {
        self.try_say(xml).unwrap();
    }

    pub(crate) fn try_say(&mut self, xml: &str) -> std::io::Result<()> {
        match &mut self.io {
            Io::Tcp => self.tcp.write_all(xml.as_bytes()),
            Io::Tls(io) => io.write_all(xml.as_bytes()).and_then(|()| io.flush()),
            Io::WebSocket(io) => io.send(Ws::text(xml)).map_err(std::io::Error::other),
        }
    }

    /// Bytes that may be no text. The server may have closed before all of them are out.
    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        let _ = match &mut self.io {
            Io::Tcp => self.tcp.write_all(bytes),
            Io::Tls(io) => io.write_all(bytes).and_then(|()| io.flush()),
            Io::WebSocket(_) => panic!("a WebSocket has messages"),
        };
    }

    /// Begins a stream; what is offered.
    pub(crate) fn open(&mut self) -> Element {
        let features = self.begin();
        assert!(features.is("features", ns::STREAM), "{features}");
        features
    }

    /// Begins a stream; the first element.
    fn begin(&mut self) -> Element {
        if matches!(self.io, Io::WebSocket(_)) {
            self.say("<open xmlns='urn:ietf:params:xml:ns:xmpp-framing' to='example.test' version='1.0'/>");
            assert!(self.hear().is("open", ns::FRAMING));
        } else {
            self.framer = Framer::new();
            self.say(&HEADER.replace(DOMAIN, &self.domain));
        }
        self.hear()
    }

    /// Connects and begins a stream; what is offered. `None`: the server is behind and has no time for a client that begins (`docs/decisions/0112`).
    fn try_open(domain: &str, place: &Place, transport: Transport) -> Option<(Client, Element)> {
        let mut client = Client::connect(place, transport);
        domain.clone_into(&mut client.domain);
        let features = client.begin();
        if features.get("resource-constraint", ns::STREAM_ERRORS).is_some() {
            return None;
        }
        assert!(features.is("features", ns::STREAM), "{features}");
        Some((client, features))
    }

    /// The next element. `None`: the server closed.
    #[track_caller]
    pub(crate) fn hear_or_end(&mut self) -> Option<Element> {
        let deadline = Deadline::after(PATIENCE);
        while let Some(left) = deadline.left() {
            if let Some(element) = self.inbox.pop_front() {
                return Some(element);
            }
            if !self.read(left) {
                return self.inbox.pop_front();
            }
        }
        panic!("nothing came for {}", self.jid);
    }

    #[track_caller]
    pub(crate) fn hear(&mut self) -> Element {
        self.hear_or_end().expect("the stream goes on")
    }

    /// Returns true while the stream is open.
    fn read(&mut self, patience: Duration) -> bool {
        self.tcp.set_read_timeout(Some(patience)).unwrap();
        let mut buffer = [0; 16_384];
        let read = match &mut self.io {
            Io::Tcp => self.tcp.read(&mut buffer),
            Io::Tls(io) => io.read(&mut buffer),
            Io::WebSocket(io) => return read_websocket(io, &mut self.inbox),
        };
        match read {
            Ok(0) => return false,
            Ok(count) => self.framer.put(&buffer[..count]),
            Err(error) => return matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        }
        while let Some(frame) = self.framer.next(usize::MAX).unwrap() {
            match frame {
                Frame::Header(range) => {
                    self.prefixes = parse_header(self.framer.bytes(range)).unwrap().1;
                }
                Frame::Stanza(range) => {
                    self.inbox.push_back(parse(self.framer.bytes(range), &self.prefixes).unwrap());
                }
                Frame::Whitespace => {}
                Frame::Close => return true,
            }
        }
        true
    }

    pub(crate) fn start_tls(&mut self) {
        self.say("<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>");
        assert!(self.hear().is("proceed", ns::TLS));
        self.secure(&[]);
    }

    /// This certificate, when it is asked for one.
    pub(crate) fn show(
        &mut self,
        place: &Place,
        certificate: CertificateDer<'static>,
        key: PrivateKeyDer<'static>,
    ) {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(place.path("data/cert.pem")).unwrap()).unwrap();
        let trust = ClientConfig::builder().with_root_certificates(roots);
        self.trust = trust.with_client_auth_cert(vec![certificate], key).unwrap();
    }

    /// True if the server completes the TLS handshake. It answers a client's last message, which may be a
    /// refusal.
    pub(crate) fn may_start_tls(&mut self) -> bool {
        self.say("<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>");
        assert!(self.hear().is("proceed", ns::TLS));
        let name = ServerName::try_from("localhost").unwrap();
        let mut connection = ClientConnection::new(Arc::new(self.trust.clone()), name).unwrap();
        self.tcp.set_read_timeout(Some(PATIENCE)).unwrap();
        while connection.is_handshaking() {
            if connection.complete_io(&mut self.tcp).is_err() {
                return false;
            }
        }
        connection.complete_io(&mut self.tcp).is_ok_and(|(read, _)| read > 0)
    }

    pub(crate) fn external(&mut self, authorized: &str) -> Element {
        self.auth("EXTERNAL", authorized.as_bytes())
    }

    pub(crate) fn auth(&mut self, mechanism: &str, first: &[u8]) -> Element {
        let text = sasl::encode(first);
        self.say(&format!(
            "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='{mechanism}'>{text}</auth>"
        ));
        self.hear()
    }

    pub(crate) fn plain(&mut self, user: &str, password: &str) -> Element {
        self.auth("PLAIN", format!("\0{user}\0{password}").as_bytes())
    }

    /// `binding`: its type and data, for the `-PLUS` form.
    pub(crate) fn scram(&mut self, user: &str, password: &str, binding: Option<(&str, &[u8])>) -> Element {
        let (header, data) = match binding {
            Some((kind, data)) => (format!("p={kind},,"), data),
            None => ("n,,".to_owned(), &[][..]),
        };
        let mechanism = if binding.is_some() { "SCRAM-SHA-256-PLUS" } else { "SCRAM-SHA-256" };
        let bare = format!("n={user},r=client");
        let challenge = self.auth(mechanism, format!("{header}{bare}").as_bytes());
        if !challenge.is("challenge", ns::SASL) {
            return challenge;
        }
        let response = scram_response((user, password), (&header, data), &challenge);
        self.say(&response);
        self.hear()
    }

    /// RFC 9266.
    pub(crate) fn exporter(&self) -> Vec<u8> {
        let Io::Tls(io) = &self.io else { panic!("no TLS") };
        io.conn.export_keying_material(vec![0; 32], b"EXPORTER-Channel-Binding", Some(b"")).unwrap()
    }

    pub(crate) fn bind(&mut self, resource: &str) {
        self.say(&format!(
            "<iq xmlns='jabber:client' type='set' id='bind'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'>\
             <resource>{resource}</resource></bind></iq>"
        ));
        let answer = self.hear();
        let bound = answer.get("bind", ns::BIND).unwrap_or_else(|| panic!("{answer}"));
        self.jid = bound.content_of("jid", ns::BIND).unwrap().into_owned();
        assert_eq!(self.jid.split('/').nth(1), Some(resource));
    }

    /// Connects, signs in and binds, in the way of that transport.
    pub(crate) fn sign_in(place: &Place, transport: Transport, user: &str, resource: &str) -> Client {
        Client::sign_in_to(DOMAIN, place, transport, user, resource)
    }

    /// At a node that serves another domain.
    pub(crate) fn sign_in_to(
        domain: &str,
        place: &Place,
        transport: Transport,
        user: &str,
        resource: &str,
    ) -> Client {
        let open = || Client::try_open(domain, place, transport);
        let (mut client, features) = until("the server has time for a stream", open);
        if features.get("starttls", ns::TLS).is_some() {
            client.start_tls();
            client.open();
        }
        let answer = client.plain(user, PASSWORD);
        assert!(answer.is("success", ns::SASL), "{answer}");
        client.open();
        client.bind(resource);
        assert_eq!(client.jid, format!("{user}@{domain}/{resource}"));
        client
    }

    pub(crate) fn message(&mut self, to: &str, body: &str) {
        self.say(&format!(
            "<message xmlns='jabber:client' type='chat' to='{to}'><body>{body}</body></message>"
        ));
    }

    /// The stream error that ends it.
    #[track_caller]
    pub(crate) fn end(&mut self) -> String {
        let mut last = None;
        while let Some(element) = self.hear_or_end() {
            last = Some(element);
        }
        let error = last.expect("a last word");
        assert!(error.is("error", ns::STREAM), "{error}");
        error.first().unwrap().name().to_owned()
    }
}

fn read_websocket(io: &mut WebSocket<Box<dyn Stream>>, inbox: &mut VecDeque<Element>) -> bool {
    match io.read() {
        Ok(Ws::Text(text)) => {
            let element = parse(text.as_bytes(), &Prefixes::default()).unwrap();
            if !element.is("close", ns::FRAMING) {
                inbox.push_back(element);
            }
            true
        }
        Ok(_) => true,
        Err(tungstenite::Error::Io(error)) => {
            matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
        }
        Err(_) => false,
    }
}

/// The response to a challenge of SCRAM-SHA-256 for `r=client`. `header` and data of a channel binding: `n,,` and nothing without one.
pub(crate) fn scram_response(
    (user, password): (&str, &str),
    (header, data): (&str, &[u8]),
    challenge: &Element,
) -> String {
    let server_first = String::from_utf8(sasl::decode(&challenge.content()).unwrap().unwrap()).unwrap();
    let part = |name: &str| server_first.split(',').find_map(|part| part.strip_prefix(name)).unwrap();
    let salt = sasl::decode(part("s=")).unwrap().unwrap();
    let bound = sasl::encode(&[header.as_bytes(), data].concat());
    let without = format!("c={bound},r={}", part("r="));
    let message = format!("n={user},r=client,{server_first},{without}");
    let proof = proof(password, &salt, part("i=").parse().unwrap(), &message);
    let last = sasl::encode(format!("{without},p={}", sasl::encode(&proof)).as_bytes());
    format!("<response xmlns='urn:ietf:params:xml:ns:xmpp-sasl'>{last}</response>")
}

/// The client's side of RFC 5802 with SHA-256.
fn proof(password: &str, salt: &[u8], rounds: u32, message: &str) -> Vec<u8> {
    use hmac::{Hmac, KeyInit, Mac};
    use sha2::{Digest, Sha256};
    let mac = |key: &[u8], message: &[u8]| {
        let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
        mac.update(message);
        mac.finalize().into_bytes().to_vec()
    };
    let mut last = mac(password.as_bytes(), &[salt, &[0, 0, 0, 1]].concat());
    let mut salted = last.clone();
    for _ in 1..rounds {
        last = mac(password.as_bytes(), &last);
        salted.iter_mut().zip(&last).for_each(|(sum, byte)| *sum ^= byte);
    }
    let client = mac(&salted, b"Client Key");
    let signature = mac(&Sha256::digest(&client), message.as_bytes());
    client.iter().zip(&signature).map(|(key, sign)| key ^ sign).collect()
}

//! A client of HTTP at the addresses of WebSocket: one connection, requests in turn.

use std::io::{Read, Write};
use std::net::TcpStream;

use sip::transport::Transport;

use crate::PATIENCE;
use crate::link::{self, Stream};
use crate::place::Place;

pub(super) struct Http {
    io: Box<dyn Stream>,
    host: String,
}

pub(super) struct Answer {
    pub(super) status: u16,
    /// In lower case.
    pub(super) head: String,
    pub(super) body: Vec<u8>,
}

impl Answer {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    pub(super) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

impl Http {
    /// By `Ws` in the clear, by `Wss` with TLS.
    pub(super) fn connect(place: &Place, transport: Transport) -> Http {
        Http::try_connect(place, transport).expect("it is not closed at once")
    }

    /// `None`: the server has no room.
    pub(super) fn try_connect(place: &Place, transport: Transport) -> Option<Http> {
        let address = place.xmpp_at(transport);
        let (io, tcp): (Box<dyn Stream>, TcpStream) = match transport {
            Transport::Wss => {
                let (io, tcp) = link::try_tls(address, &place.path("data/cert.pem")).ok()?;
                (Box::new(io), tcp)
            }
            _ => {
                let tcp = TcpStream::connect(address).unwrap();
                (Box::new(tcp.try_clone().unwrap()), tcp)
            }
        };
        tcp.set_read_timeout(Some(PATIENCE)).unwrap();
        Some(Http { io, host: address.to_string() })
    }

    pub(super) fn try_post(&mut self, body: &str) -> Option<Answer> {
        self.say("POST", "/bosh", "", body.as_bytes());
        self.try_hear(true)
    }

    pub(super) fn say(&mut self, method: &str, path: &str, headers: &str, body: &[u8]) {
        let length = if body.is_empty() && method != "POST" && method != "PUT" {
            String::new()
        } else {
            format!("Content-Length: {}\r\n", body.len())
        };
        let host =
            if headers.to_lowercase().contains("host: ") { "" } else { &*format!("Host: {}\r\n", self.host) };
        let head = format!("{method} {path} HTTP/1.1\r\n{host}{length}{headers}\r\n");
        self.say_raw(&[head.as_bytes(), body].concat());
    }

    pub(super) fn say_raw(&mut self, bytes: &[u8]) {
        // The server may have answered and closed before all of it is out.
        let _ = self.io.write_all(bytes).and_then(|()| self.io.flush());
    }

    #[track_caller]
    pub(super) fn hear(&mut self, has_body: bool) -> Answer {
        self.try_hear(has_body).expect("an answer")
    }

    /// `None`: the server closed.
    pub(super) fn try_hear(&mut self, has_body: bool) -> Option<Answer> {
        let mut bytes = Vec::new();
        let end = loop {
            if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
                break end;
            }
            if !self.read(&mut bytes) {
                return None;
            }
        };
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap().to_lowercase();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let mut answer = Answer { status, head, body: bytes.split_off(end + 4) };
        let length = answer.header("content-length").map_or(0, |length| length.parse().unwrap());
        while has_body && answer.body.len() < length {
            assert!(self.read(&mut answer.body), "the answer breaks off: {}", answer.head);
        }
        Some(answer)
    }

    fn read(&mut self, bytes: &mut Vec<u8>) -> bool {
        let mut buffer = [0; 16_384];
        let count = self.io.read(&mut buffer).unwrap_or(0);
        bytes.extend_from_slice(&buffer[..count]);
        count > 0
    }

    #[track_caller]
    pub(super) fn ask(&mut self, method: &str, path: &str, headers: &str, body: &[u8]) -> Answer {
        self.say(method, path, headers, body);
        self.hear(method != "HEAD")
    }
}

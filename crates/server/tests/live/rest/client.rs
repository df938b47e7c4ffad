//! A client of the REST interface: one request a connection.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::PATIENCE;
use crate::place::Place;
use crate::until;

/// RestComm's administrator.
pub(super) const SID: &str = "ACae6e420f425248d6a26948c17a9e2acf";
pub(super) const TOKEN: &str = "77f8c12cc7b8f8423e5c38b035249166";

pub(super) struct Rest {
    at: SocketAddr,
    pub(super) sid: String,
    pub(super) token: String,
}

pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) head: String,
    pub(super) body: String,
}

impl Answer {
    #[track_caller]
    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    /// Status and code.
    #[track_caller]
    pub(super) fn fault(&self) -> (u16, i64) {
        (self.status, self.json()["code"].as_i64().unwrap())
    }
}

impl Rest {
    pub(super) fn new(place: &Place) -> Rest {
        Rest { at: place.http(), sid: SID.into(), token: TOKEN.into() }
    }

    pub(super) fn with_credentials(&self, sid: &str, token: &str) -> Rest {
        Rest { at: self.at, sid: sid.into(), token: token.into() }
    }

    /// Below the account; `form` is percent-encoded.
    #[track_caller]
    pub(super) fn ask(&self, method: &str, rest: &str, form: &str) -> Answer {
        self.ask_path(method, &format!("/Accounts/{}{rest}", self.sid), form)
    }

    #[track_caller]
    pub(super) fn ask_path(&self, method: &str, path: &str, form: &str) -> Answer {
        let credentials = STANDARD.encode(format!("{}:{}", self.sid, self.token));
        let length = form.len();
        self.send(&format!(
            "{method} /restcomm/2012-04-24{path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Basic {credentials}\r\nConnection: close\r\n\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {length}\r\n\r\n{form}",
            self.at
        ))
    }

    #[track_caller]
    pub(super) fn send(&self, request: &str) -> Answer {
        let text = String::from_utf8(self.exchange(request)).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, head: head.to_lowercase(), body: body.to_owned() }
    }

    #[track_caller]
    fn exchange(&self, request: &str) -> Vec<u8> {
        let mut stream = TcpStream::connect(self.at).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        bytes
    }

    #[track_caller]
    pub(super) fn get(&self, rest: &str) -> Value {
        let answer = self.ask("GET", rest, "");
        assert_eq!(answer.status, 200, "{rest}: {}", answer.body);
        answer.json()
    }

    #[track_caller]
    pub(super) fn post(&self, rest: &str, form: &str) -> Value {
        let answer = self.ask("POST", rest, form);
        assert!((200..300).contains(&answer.status), "{rest}: {}", answer.body);
        answer.json()
    }

    #[track_caller]
    pub(super) fn nothing_left(&self) {
        let all = ["calls", "sessions", "ports", "prompts", "asks", "recordings", "rooms", "queues", "seats"];
        until("nothing is left", || {
            let is_none = |name| self.metric(&format!("belfry_voice_{name}")) == 0.0;
            all.into_iter().all(is_none).then_some(())
        });
    }

    /// A file below the account, as the answer's status and bytes.
    #[track_caller]
    pub(super) fn fetch(&self, path: &str) -> (u16, Vec<u8>) {
        let credentials = STANDARD.encode(format!("{}:{}", self.sid, self.token));
        let sid = &self.sid;
        let bytes = self.exchange(&format!(
            "GET /2010-04-01/Accounts/{sid}{path} HTTP/1.1\r\nHost: a\r\nAuthorization: Basic {credentials}\r\n\
             Connection: close\r\n\r\n"
        ));
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), bytes[end + 4..].to_vec())
    }

    /// A request below the account whose answer is not waited for.
    #[track_caller]
    pub(super) fn begin(&self, path: &str) -> TcpStream {
        let credentials = STANDARD.encode(format!("{}:{}", self.sid, self.token));
        let mut stream = TcpStream::connect(self.at).unwrap();
        let sid = &self.sid;
        let request = format!(
            "GET /2010-04-01/Accounts/{sid}{path} HTTP/1.1\r\nHost: a\r\nAuthorization: Basic {credentials}\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).unwrap();
        stream
    }

    /// A number of the metrics, over all shards.
    #[track_caller]
    pub(super) fn metric(&self, name: &str) -> f64 {
        let answer = self.send("GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        let of_name = |line: &&str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with([' ', '{']));
        let values: Vec<f64> = answer
            .body
            .lines()
            .filter(of_name)
            .map(|line| line.rsplit(' ').next().unwrap().parse().unwrap())
            .collect();
        assert!(!values.is_empty(), "no {name}");
        values.iter().sum()
    }
}

//! A chat client that follows a test's orders: slixmpp as a process of its own, so that a test can have several at different nodes
//! and lose some.

use std::cell::RefCell;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::DOMAIN;
use crate::peer::python;
use crate::wait::lines_in;

/// The time for which an event is waited for: a farm notices a death after some seconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// One client, and the events that it has reported and the test has not asked for.
pub struct Follower {
    /// The bare address.
    pub address: String,
    child: Child,
    orders: ChildStdin,
    folder: TempDir,
    /// The lines of the client's output that have been read.
    read: usize,
    waiting: Vec<Value>,
}

impl Follower {
    /// A client of this user, which is not connected.
    pub fn new(user: &str, password: &str, certificate: &Path) -> Follower {
        Follower::with(format!("{user}@{DOMAIN}"), password, &certificate.display().to_string())
    }

    /// A client of a peer's user, in the clear, which is not connected.
    pub fn of_peer(address: &str, password: &str) -> Follower {
        Follower::with(address.to_owned(), password, "")
    }

    fn with(address: String, password: &str, certificate: &str) -> Follower {
        let folder = TempDir::new().expect("a temporary folder");
        let output = File::create(folder.path().join("events")).expect("the test's folder is writable");
        let mut child = Command::new(python("slixmpp"))
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("slixmpp/follow.py"))
            .args([certificate, &address, password])
            .stdin(Stdio::piped())
            .stdout(output)
            .spawn()
            .expect("the interpreter can be run");
        let orders = child.stdin.take().expect("it is piped");
        Follower { address, child, orders, folder, read: 0, waiting: Vec::new() }
    }

    /// Reads the events that have been reported since the last call.
    fn read(&mut self) {
        let lines = lines_in(&self.folder.path().join("events"));
        let events = lines.iter().skip(self.read);
        // A line that is being written is read the next time.
        let events: Vec<Value> = events.map_while(|line| serde_json::from_str(line).ok()).collect();
        self.read += events.len();
        self.waiting.extend(events);
    }

    /// Gives an order of `slixmpp/follow.py`.
    pub fn order(&mut self, words: &str) {
        writeln!(self.orders, "{words}").expect("the client runs");
    }

    /// Connects to this port and signs in. Returns the roster.
    pub fn sign_in(&mut self, port: u16) -> Vec<String> {
        self.order(&format!("connect {port}"));
        let session = self.expect("a session", |event| event["event"] == "session");
        let roster = session["roster"].as_array().cloned().unwrap_or_default();
        roster.iter().filter_map(Value::as_str).map(str::to_owned).collect()
    }

    /// Connects again to this port. True: the session was resumed (XEP-0198 §5); otherwise it is a new one.
    pub fn come_back(&mut self, port: u16) -> bool {
        self.order(&format!("connect {port}"));
        let back = self
            .expect("a session again", |event| event["event"] == "session" || event["event"] == "resumed");
        // The reports of the end before.
        self.waiting
            .retain(|event| !matches!(event["event"].as_str(), Some("disconnected" | "stream-error")));
        back["event"] == "resumed"
    }

    /// Says this to an address.
    pub fn say(&mut self, to: &str, text: &str) {
        self.order(&format!("say {to} {text}"));
    }

    /// Waits for a message with this text.
    pub fn hears(&mut self, text: &str) {
        self.expect(text, |event| event["event"] == "message" && event["body"] == text);
    }

    /// The texts with this beginning that it has heard since the last call, in their order.
    pub fn heard(&mut self, beginning: &str) -> Vec<String> {
        self.read();
        let is_meant = |event: &Value| {
            event["event"] == "message"
                && event["body"].as_str().is_some_and(|body| body.starts_with(beginning))
        };
        let heard: Vec<String> = self
            .waiting
            .iter()
            .filter(|event| is_meant(event))
            .filter_map(|event| event["body"].as_str().map(str::to_owned))
            .collect();
        self.waiting.retain(|event| !is_meant(event));
        heard
    }

    /// Waits for a presence of this bare address: `available` or `unavailable`.
    pub fn sees(&mut self, bare: &str, kind: &str) {
        self.expect(&format!("{bare} {kind}"), |event| {
            event["event"] == "presence" && event["bare"] == bare && event["kind"] == kind
        });
    }

    /// Waits for the presence of an occupant with this nickname.
    pub fn sees_occupant(&mut self, room: &str, nick: &str) {
        self.expect(&format!("{nick} in {room}"), |event| {
            event["event"] == "presence"
                && event["bare"] == room
                && event["resource"] == nick
                && event["kind"] == "available"
        });
    }

    /// Waits until the occupant with this nickname has left the room for this client.
    pub fn sees_leave(&mut self, room: &str, nick: &str) {
        self.expect(&format!("{nick} leave {room}"), |event| {
            event["event"] == "presence"
                && event["bare"] == room
                && event["resource"] == nick
                && event["kind"] == "unavailable"
        });
    }

    /// True if an occupant of a room, the client itself or another one, has left it for this client.
    pub fn has_seen_leave(&mut self, room: &str) -> bool {
        self.read();
        let mut events = self.waiting.iter();
        events.any(|event| {
            event["event"] == "presence" && event["bare"] == room && event["kind"] == "unavailable"
        })
    }

    /// The texts of faults that the client has found, as in the server's acknowledgements.
    pub fn faults(&mut self) -> Vec<String> {
        self.read();
        let faults = self.waiting.iter().filter(|event| event["event"] == "fault");
        faults.map(|event| event["text"].to_string()).collect()
    }

    /// The texts in the user's archive.
    pub fn archive(&mut self) -> Vec<String> {
        self.order("archive");
        let archive = self.expect("the archive", |event| event["event"] == "archive");
        let bodies = archive["bodies"].as_array().cloned().unwrap_or_default();
        bodies.iter().filter_map(Value::as_str).map(str::to_owned).collect()
    }

    /// The user's voicemail: of each message the name and the SHA-256 of its sound, which is fetched piece by piece.
    pub fn voicemail(&mut self) -> Vec<(String, String)> {
        self.order("voicemail");
        let event = self.expect("the voicemail", |event| event["event"] == "voicemail");
        let messages = event["messages"].as_array().cloned().unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        messages.iter().map(|message| (text(&message[0]), text(&message[1]))).collect()
    }

    /// Deletes a message of the user's voicemail.
    pub fn delete_voicemail(&mut self, id: &str) {
        self.order(&format!("delete-voicemail {id}"));
        self.expect("the deletion", |event| event["event"] == "deleted");
    }

    /// The directions and the other ends of the user's calls, as the server has records of them.
    pub fn calls(&mut self) -> Vec<(String, String)> {
        self.order("calls");
        let event = self.expect("the calls", |event| event["event"] == "calls");
        let calls = event["calls"].as_array().cloned().unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        calls.iter().map(|call| (text(&call[0]), text(&call[1]))).collect()
    }

    /// The receivers and texts of the messages that the server has acknowledged (XEP-0198 §4).
    pub fn acknowledged(&mut self) -> Vec<(String, String)> {
        self.order("acknowledged");
        let event = self.expect("acknowledged messages", |event| event["event"] == "acknowledged");
        let messages = event["messages"].as_array().cloned().unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        messages.iter().map(|message| (text(&message[0]), text(&message[1]))).collect()
    }

    /// Waits until these texts are in the user's archive.
    pub fn archives(&mut self, texts: &[String]) {
        let (missing, address) = (RefCell::new(Vec::new()), self.address.clone());
        ::wait::until(
            &format!("the archive of {address}"),
            PATIENCE,
            || {
                let archive = self.archive();
                let absent = texts.iter().filter(|text| !archive.contains(text)).cloned();
                *missing.borrow_mut() = absent.collect::<Vec<String>>();
                missing.borrow().is_empty().then_some(())
            },
            || format!("it has no {:?}", missing.borrow()),
        );
    }

    /// Waits for the end of the connection.
    pub fn is_disconnected(&mut self) {
        self.expect("the end of the connection", |event| event["event"] == "disconnected");
    }

    /// True if the server answers a ping; false if the stream ends instead, or has ended.
    pub fn is_connected(&mut self) -> bool {
        self.read();
        if self.waiting.iter().any(|event| event["event"] == "disconnected") {
            return false;
        }
        self.order("ping");
        let event = self.expect("an answer or the end of the stream", |event| {
            event["event"] == "pong" || event["event"] == "disconnected"
        });
        event["event"] == "pong"
    }

    /// Waits for an event that `is_meant` accepts, and takes it out of those that have come.
    pub fn expect(&mut self, what: &str, is_meant: impl Fn(&Value) -> bool) -> Value {
        let mut found = None;
        let address = self.address.clone();
        let folder = self.folder.path().join("events");
        ::wait::until(
            &format!("{what} at {address}"),
            PATIENCE,
            || {
                self.read();
                let at = self.waiting.iter().position(&is_meant)?;
                found = Some(self.waiting.remove(at));
                Some(())
            },
            || lines_in(&folder).join("\n"),
        );
        found.expect("it was waited for")
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

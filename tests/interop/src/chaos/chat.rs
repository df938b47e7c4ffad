//! Chat clients under faults (`slixmpp/chaos.py`), and the history of their messages, their presence and their room.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value;

use super::clock::Clock;
use super::messages::Message;
use super::views::ClientView;
use crate::DOMAIN;
use crate::peer::python;

const ROOM: &str = "chaos@conference.example.test";

/// The time for all clients to be back and to agree: a client tries a port for some seconds, and a session that is not resumed
/// stays for the time of its resumption.
const AGREEMENT: Duration = Duration::from_secs(60);

/// The time between two looks at the clients' views.
const BETWEEN_VIEWS: Duration = Duration::from_millis(500);

/// The time for an answer to an order; the archives of an hour are long.
const ANSWER: Duration = Duration::from_secs(120);

/// The history as it is read from the clients.
#[derive(Debug, Default)]
struct ChatHistory {
    /// The messages by their ids, which are their texts, too.
    messages: BTreeMap<String, Message>,
    /// Texts that were received and never sent.
    strangers: Vec<String>,
    /// Sessions that began, were resumed, and streams that ended.
    sessions: (u64, u64, u64),
    views: Option<Vec<ClientView>>,
    /// Users whose archive was read.
    archives: BTreeSet<String>,
    /// The cause for which the last reading of a user's archive failed.
    archive_faults: BTreeMap<String, String>,
    /// Errors that came back for subscriptions.
    presence_errors: u64,
}

/// The clients at work.
pub(super) struct Chat {
    clients: usize,
    child: Child,
    orders: ChildStdin,
    history: Arc<Mutex<ChatHistory>>,
    reader: Option<JoinHandle<()>>,
}

/// All that the clients have seen.
#[derive(Debug)]
pub(super) struct ChatOutcome {
    /// The messages.
    pub(super) messages: Vec<Message>,
    /// The clients' views of each other at the end.
    pub(super) views: Vec<ClientView>,
    /// Sessions that began.
    pub(super) sessions: u64,
    /// Sessions that were resumed.
    pub(super) resumptions: u64,
    /// Streams that ended.
    pub(super) disconnections: u64,
    /// Errors that came back for subscriptions, which were sent again.
    pub(super) presence_errors: u64,
    /// Texts that were never sent, and archives that could not be read.
    pub(super) oddities: Vec<String>,
}

impl Chat {
    /// Starts clients of these users, which connect to these ports.
    pub(super) fn start(
        certificate: &Path,
        seed: u64,
        ports: &[u16],
        users: std::ops::Range<usize>,
        clock: Clock,
    ) -> Chat {
        let names: Vec<String> = users.clone().map(|user| format!("user{user}@{DOMAIN}")).collect();
        let ports: Vec<String> = ports.iter().map(ToString::to_string).collect();
        let mut child = Command::new(python("slixmpp"))
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("slixmpp/chaos.py"))
            .args([&certificate.display().to_string(), "secret", &seed.to_string(), ROOM])
            .args([ports.join(","), names.join(",")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the interpreter can be run");
        let (orders, output) =
            (child.stdin.take().expect("it is piped"), child.stdout.take().expect("it is piped"));
        let history = Arc::new(Mutex::new(ChatHistory::default()));
        let shared = Arc::clone(&history);
        let read = move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if let Ok(event) = serde_json::from_str(&line) {
                    lock(&shared).handle_event(&event, clock.microseconds());
                }
            }
        };
        let reader = std::thread::Builder::new().name("chat".into()).spawn(read).expect("a thread");
        Chat { clients: users.len(), child, orders, history, reader: Some(reader) }
    }

    /// Waits until every client has a session, is in the room, and sees its contact.
    ///
    /// # Errors
    /// The views that do not agree.
    pub(super) fn agree(&mut self) -> Result<(), Vec<String>> {
        let deadline = ::wait::Deadline::after(AGREEMENT);
        loop {
            let differences = super::views::differences(&self.views());
            if differences.is_empty() {
                return Ok(());
            }
            let Some(left) = deadline.left() else { return Err(differences) };
            // Clients that answer questions all the time do not come back.
            ::wait::within(left.min(BETWEEN_VIEWS), || None::<()>);
        }
    }

    /// Sends no more messages from now on.
    pub(super) fn stop(&mut self) {
        self.order("stop");
    }

    /// Reads the archives and ends the clients.
    pub(super) fn finish(mut self) -> ChatOutcome {
        let views = self.views();
        self.order("archives");
        let clients = self.clients;
        let is_read = || (lock(&self.history).archives.len() == clients).then_some(());
        let are_read = ::wait::within(ANSWER, is_read).is_some();
        // It is only read from now on.
        let _ = self.child.kill();
        if let Some(reader) = self.reader.take() {
            reader.join().expect("the reader does not panic");
        }
        let history = std::mem::take(&mut *lock(&self.history));
        let mut oddities: Vec<String> =
            history.strangers.iter().map(|id| format!("never sent: {id}")).collect();
        if !are_read {
            oddities
                .push(format!("{} of {clients} archives were read in {ANSWER:?}", history.archives.len()));
            let faults =
                history.archive_faults.iter().filter(|(user, _)| !history.archives.contains(user.as_str()));
            oddities.extend(faults.map(|(user, fault)| format!("the archive of {user}: {fault}")));
        }
        let (sessions, resumptions, disconnections) = history.sessions;
        let messages = history.messages.into_values().collect();
        let presence_errors = history.presence_errors;
        ChatOutcome { messages, views, sessions, resumptions, disconnections, presence_errors, oddities }
    }

    /// The others as each client sees them now.
    fn views(&mut self) -> Vec<ClientView> {
        lock(&self.history).views = None;
        self.order("views");
        let views = ::wait::within(ANSWER, || lock(&self.history).views.take());
        views.expect("the clients answer")
    }

    fn order(&mut self, word: &str) {
        writeln!(self.orders, "{word}").expect("the clients run");
    }
}

impl Drop for Chat {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lock(history: &Mutex<ChatHistory>) -> MutexGuard<'_, ChatHistory> {
    history.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ChatHistory {
    fn handle_event(&mut self, event: &Value, now: u64) {
        let text = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
        match event["event"].as_str().unwrap_or_default() {
            "sent" => {
                let message = Message::new(text("id"), text("user"), text("to"), now);
                self.messages.insert(message.id.clone(), message);
            }
            "acked" => self.with(&text("id"), |message| {
                message.acknowledged.get_or_insert(now);
            }),
            "bounced" => self.with(&text("id"), |message| message.is_bounced = true),
            "heard" => {
                let user = text("user");
                self.with(&text("id"), |message| message.handle_reception(&user));
            }
            "session" => self.sessions.0 += 1,
            "resumed" => self.sessions.1 += 1,
            "disconnected" => self.sessions.2 += 1,
            "views" => {
                let clients = event["clients"].as_array().map(Vec::as_slice).unwrap_or_default();
                self.views = Some(clients.iter().map(ClientView::read).collect());
            }
            "archive" => self.handle_archive(text("user"), event),
            "archive_fault" => {
                self.archive_faults.insert(text("user"), text("fault"));
            }
            "presence_error" => self.presence_errors += 1,
            _ => {}
        }
    }

    fn handle_archive(&mut self, user: String, event: &Value) {
        let ids = event["ids"].as_array().map(Vec::as_slice).unwrap_or_default();
        for id in ids.iter().filter_map(Value::as_str) {
            self.with(id, |message| message.handle_archived(&user));
        }
        self.archives.insert(user);
    }

    fn with(&mut self, id: &str, change: impl FnOnce(&mut Message)) {
        match self.messages.get_mut(id) {
            Some(message) => change(message),
            None => self.strangers.push(id.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn events_become_a_history() {
        let mut history = ChatHistory::default();
        history.handle_event(&json!({"event": "sent", "id": "a-1", "user": "a@x", "to": "b@x"}), 5);
        history.handle_event(&json!({"event": "acked", "id": "a-1"}), 7);
        history.handle_event(&json!({"event": "heard", "id": "a-1", "user": "b@x"}), 8);
        history.handle_event(&json!({"event": "heard", "id": "c-9", "user": "b@x"}), 8);
        history.handle_event(&json!({"event": "archive", "user": "a@x", "ids": ["a-1"]}), 9);
        history.handle_event(&json!({"event": "archive_fault", "user": "b@x", "fault": "timeout"}), 9);
        let message = &history.messages["a-1"];
        assert_eq!((message.sent, message.acknowledged, message.receptions), (5, Some(7), 1));
        assert!(message.is_in_senders_archive && !message.is_in_receivers_archive);
        assert_eq!(history.strangers, ["c-9"]);
        assert!(history.archives.contains("a@x") && !history.archives.contains("b@x"));
        assert_eq!(history.archive_faults["b@x"], "timeout");
    }
}

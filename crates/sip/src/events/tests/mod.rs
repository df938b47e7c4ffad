//! Plays: the notifier's effects are written as text and compared.

mod consent;
mod limited;
mod message;
mod packages;
mod publish;
mod subscription;
mod with_router;

use std::fmt::Write;
use std::time::Duration;

use bytes::Bytes;
use router::{Answer, AskId, Binding, Contact, FlowId, Presence, Push, Query, Received, State, WatchId};
use stdx::Instant;
use stdx::rng::Rng;

use super::*;
use crate::transport::Transport;
use crate::wire::Header;

const AOR: &str = "alice@a.test";

struct World {
    notifier: Notifier,
    now: Instant,
    /// Number of the last request that came in.
    transaction: u64,
    source: Source,
    account: Option<&'static str>,
    /// Queries that are still to be answered, and requests that have no result yet: the oldest first.
    asked: Vec<(AskId, Query)>,
    sent: Vec<(RequestId, Message)>,
    /// The To of the last reply: our tag.
    last_to: String,
}

impl World {
    fn new() -> Self {
        World::with(EventRules { watching: WatchPolicy::Accounts, ..EventRules::default() })
    }

    fn with(rules: EventRules) -> Self {
        let now = Instant::from_unix_seconds(1_289_690_940);
        World {
            notifier: Notifier::new(rules, Rng::seeded(1), now),
            now,
            transaction: 0,
            source: source(Transport::Udp, "192.0.2.9:5060"),
            account: Some("bob@a.test"),
            asked: Vec::new(),
            sent: Vec::new(),
            last_to: String::new(),
        }
    }

    /// A request of Bob's to Alice. `lines` are the headers that are not in every request, `\n` between them.
    fn request(&mut self, method: &str, lines: &str, body: &str) -> String {
        let to = format!("<sip:{AOR}>");
        self.request_to(method, &to, lines, body)
    }

    /// The same inside the dialog that the last reply made.
    fn again(&mut self, method: &str, lines: &str) -> String {
        let to = self.last_to.clone();
        self.request_to(method, &to, lines, "")
    }

    fn request_to(&mut self, method: &str, to: &str, lines: &str, body: &str) -> String {
        self.transaction += 1;
        let number = self.transaction;
        let mut text = format!(
            "{method} sip:{AOR} SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.9;branch=z9hG4bK{number}\r\n\
             From: \"Bob\" <sip:bob@a.test>;tag=bob1\r\nTo: {to}\r\nCall-ID: c1@192.0.2.9\r\n\
             CSeq: {number} {method}\r\n"
        );
        if !lines.contains("Contact:") && method == "SUBSCRIBE" {
            text.push_str("Contact: <sip:bob@192.0.2.9>\r\n");
        }
        for line in lines.lines() {
            write!(text, "{}\r\n", line.trim()).unwrap();
        }
        write!(text, "Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        self.packet(&text)
    }

    fn packet(&mut self, text: &str) -> String {
        let request = Message::parse(Bytes::from(text.to_owned())).unwrap();
        let (source, account) = (self.source, self.account);
        let incoming = IncomingRequest {
            transaction: TxRef(self.transaction),
            request: &request,
            source: &source,
            contact: "sip:192.0.2.1:5060",
            aor: AOR,
            account,
        };
        let (now, mut out) = (self.now, Vec::new());
        match request.method_name() {
            b"SUBSCRIBE" => self.notifier.handle_subscribe(now, &incoming, &mut out),
            b"PUBLISH" => self.notifier.handle_publish(now, &incoming, &mut out),
            _ => self.notifier.handle_message_undelivered(now, &incoming, &mut out),
        }
        self.show(out)
    }

    /// The router answers the oldest open query.
    fn answer(&mut self, answer: Answer) -> String {
        let (id, _) = self.asked.remove(0);
        let mut out = Vec::new();
        self.notifier.handle_answer(self.now, id, answer, &mut out);
        self.show(out)
    }

    /// Something changed: pushed to the first subscription.
    fn push(&mut self, state: State) -> String {
        let watch = self.notifier.subscriptions.iter().next().map(|(key, _)| WatchId(key.to_u64()));
        let mut out = Vec::new();
        self.notifier.handle_push(self.now, Push::State { watch: watch.unwrap(), state }, &mut out);
        self.show(out)
    }

    /// The peer's answer to our oldest open request.
    fn result(&mut self, status: u16) -> String {
        let (id, _) = self.sent.remove(0);
        let mut out = Vec::new();
        self.notifier.handle_result(self.now, id, status, &mut out);
        self.show(out)
    }

    fn wait(&mut self, time: Duration) -> String {
        self.now = self.now + time;
        let mut out = Vec::new();
        self.notifier.expire(self.now, &mut out);
        self.show(out)
    }

    fn show(&mut self, effects: Vec<EventEffect>) -> String {
        let mut text = String::new();
        for effect in effects {
            match effect {
                EventEffect::Reply { transaction, bytes } => {
                    let reply = Message::parse(bytes).unwrap();
                    self.last_to = String::from_utf8_lossy(reply.header(Header::To).unwrap()).into();
                    let status = String::from_utf8_lossy(&reply.start_line()[8..]).into_owned();
                    writeln!(text, "reply {}: {status}{}", transaction.0, remarkable(&reply)).unwrap();
                }
                EventEffect::Ask { id, query } => {
                    assert!(id.0 & ASK_BIT != 0);
                    writeln!(text, "ask {}", query_text(&query)).unwrap();
                    if !matches!(query, Query::Unwatch { .. } | Query::Delivered { .. }) {
                        self.asked.push((id, query));
                    }
                }
                EventEffect::Request { id, bytes, onward } => {
                    let request = Message::parse(bytes).unwrap();
                    text.push_str(&request_text(&request, &onward));
                    self.sent.push((id, request));
                }
                EventEffect::TextOutcome { id, texted } => writeln!(text, "text {id}: {texted:?}").unwrap(),
            }
        }
        text
    }
}

fn request_text(request: &Message, onward: &OutgoingRoute) -> String {
    let line = String::from_utf8_lossy(request.start_line()).replace(" SIP/2.0", "");
    let mut text = format!("send {line} to {}", onward.next_hop);
    if let Some(received) = onward.received {
        write!(text, " by {:?} {}", received.transport, received.remote).unwrap();
    }
    writeln!(text, "{}", remarkable(request)).unwrap();
    for line in String::from_utf8_lossy(request.body()).lines() {
        writeln!(text, "  | {line}").unwrap();
    }
    text
}

/// The headers that are not in every message.
fn remarkable(message: &Message) -> String {
    let mut text = String::new();
    for line in std::str::from_utf8(message.bytes()).unwrap().lines().skip(1).take_while(|l| !l.is_empty()) {
        let name = line.split(':').next().unwrap();
        let usual = ["Via", "From", "To", "Call-ID", "Content-Length", "Max-Forwards", "User-Agent"];
        if !usual.contains(&name) && (name != "CSeq" || message.is_request()) {
            write!(text, "; {line}").unwrap();
        }
    }
    text
}

fn query_text(query: &Query) -> String {
    match query {
        Query::WatchByConsent { watcher, aor, topic, .. } => {
            format!("ask Watch {aor} {topic:?} by consent to {watcher}")
        }
        Query::Watch { aor, topic, until, .. } => {
            format!("Watch {aor} {topic:?} until {}", until.unix_seconds())
        }
        Query::Unwatch { aor, topic, .. } => format!("Unwatch {aor} {topic:?}"),
        Query::Publish(publish) => format!(
            "Publish {} etag {:?} {} bytes for {} s",
            publish.aor,
            publish.etag,
            publish.document.as_ref().map_or(0, |document| document.len()),
            publish.expires
        ),
        Query::Keep(message) => format!(
            "Keep for {} from {} {} {:?} at {}{}",
            message.aor,
            message.from,
            message.content_type,
            String::from_utf8_lossy(&message.body),
            message.sent_at.unix_seconds(),
            message.expires_at.map_or(String::new(), |end| format!(" until {}", end.unix_seconds()))
        ),
        other => format!("{other:?}"),
    }
}

fn source(transport: Transport, remote: &str) -> Source {
    let flow = (transport != Transport::Udp)
        .then_some(FlowId { edge: router::ShardAddress { life: router::Life(0), shard: 0 }, number: 5 });
    Source { transport, local: "192.0.2.1:5060".parse().unwrap(), remote: remote.parse().unwrap(), flow }
}

fn presence(open: bool) -> State {
    State::Presence(Presence { open, on_the_phone: false, chat: None, documents: Vec::new() })
}

fn binding(uri: &str) -> Binding {
    Binding {
        contact: Contact {
            uri: uri.into(),
            q: 1_000,
            expires: 3_600,
            instance: "".into(),
            reg_id: 0,
            path: "".into(),
            user_agent: "phone".into(),
            received: None,
        },
        expires_at: Instant::from_unix_seconds(1_289_690_940 + 3_000),
        call_id: "reg1@192.0.2.9".into(),
        cseq: 7,
    }
}

//! A phone: one account, one socket, and as much SIP as the tests need, over `sip::wire`.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sip::transport::{Transport, via_token};
use sip::wire::{Header, Message};

use crate::digest::{self, Hash};
use crate::link::{Heard, Link};
use crate::{Deadline, PATIENCE};

pub(crate) const DOMAIN: &str = "example.test";
pub(crate) const PASSWORD: &str = "secret";

static NUMBERS: AtomicU64 = AtomicU64::new(1);

/// Never twice in this process, and not in two processes at once.
pub(crate) fn fresh() -> String {
    format!("{:x}x{}", std::process::id(), NUMBERS.fetch_add(1, Ordering::Relaxed))
}

pub(crate) fn text(bytes: Option<&[u8]>) -> String {
    String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned()
}

pub(crate) struct Phone {
    pub(crate) user: String,
    pub(crate) hash: Hash,
    /// True if its calls are challenged; false in tests whose server waives that.
    pub(crate) proves: bool,
    pub(crate) transport: Transport,
    pub(crate) server: SocketAddr,
    pub(crate) link: Link,
    /// One Call-ID for all its REGISTERs (RFC 3261 §10.2).
    registration: String,
    cseq: u32,
    inbox: VecDeque<Message>,
}

/// The variable parts of a request.
pub(crate) struct Ask<'a> {
    pub(crate) method: &'a str,
    pub(crate) uri: &'a str,
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) call_id: String,
    pub(crate) cseq: u32,
    /// Whole lines.
    pub(crate) more: String,
    pub(crate) body: &'a str,
}

impl Phone {
    pub(crate) fn new(user: &str, transport: Transport, server: SocketAddr, link: Link) -> Phone {
        let (user, registration) = (user.to_owned(), fresh());
        let inbox = VecDeque::new();
        let hash = Hash::Sha256;
        Phone { user, hash, proves: true, transport, server, link, registration, cseq: 0, inbox }
    }

    pub(crate) fn aor(&self) -> String {
        format!("sip:{}@{DOMAIN}", self.user)
    }

    /// The address of its own socket.
    pub(crate) fn contact(&self) -> String {
        let transport = via_token(self.transport).to_lowercase();
        format!("sip:{}@{};transport={transport}", self.user, self.link.local())
    }

    pub(crate) fn next_cseq(&mut self) -> u32 {
        self.cseq += 1;
        self.cseq
    }

    /// A request outside of dialogs, from this account.
    pub(crate) fn ask<'a>(&mut self, method: &'a str, uri: &'a str) -> Ask<'a> {
        Ask {
            method,
            uri,
            from: format!("<{}>;tag={}", self.aor(), fresh()),
            to: format!("<{uri}>"),
            call_id: fresh(),
            cseq: self.next_cseq(),
            more: String::new(),
            body: "",
        }
    }

    pub(crate) fn write(&self, ask: &Ask<'_>) -> String {
        let via = via_token(self.transport);
        let Ask { method, uri, from, to, call_id, cseq, more, body } = ask;
        format!(
            "{method} {uri} SIP/2.0\r\nVia: SIP/2.0/{via} {};branch=z9hG4bK{};rport\r\nMax-Forwards: 70\r\n\
             From: {from}\r\nTo: {to}\r\nCall-ID: {call_id}\r\nCSeq: {cseq} {method}\r\n{more}\
             Content-Length: {}\r\n\r\n{body}",
            self.link.local(),
            fresh(),
            body.len()
        )
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.link.send(self.server, bytes).unwrap();
    }

    /// Sends the request, with a password when asked for one, and gives the final answer.
    #[track_caller]
    pub(crate) fn request(&mut self, mut ask: Ask<'_>) -> Message {
        let message = self.write(&ask);
        self.send(message.as_bytes());
        let answer = self.final_of(&ask);
        let Some(proof) = self.prove(&answer, &ask) else { return answer };
        ask.more.push_str(&proof);
        ask.cseq = self.next_cseq();
        let message = self.write(&ask);
        self.send(message.as_bytes());
        self.final_of(&ask)
    }

    /// The line that answers a challenge.
    pub(crate) fn prove(&self, answer: &Message, ask: &Ask<'_>) -> Option<String> {
        let (challenge, name) = match answer.status() {
            401 => (Header::WwwAuthenticate, "Authorization"),
            407 => (Header::ProxyAuthenticate, "Proxy-Authorization"),
            _ => return None,
        };
        let lines = answer.header_lines(challenge);
        let value = digest::answer(self.hash, lines, (&self.user, PASSWORD), (ask.method, ask.uri));
        Some(format!("{name}: {value}\r\n"))
    }

    #[track_caller]
    pub(crate) fn final_of(&mut self, ask: &Ask<'_>) -> Message {
        let (call_id, cseq) = (ask.call_id.clone(), ask.cseq);
        self.expect(&format!("the answer to {} {}", ask.method, ask.uri), move |message| {
            message.status() >= 200
                && message.call_id() == Some(call_id.as_bytes())
                && message.cseq().is_some_and(|(number, _)| number == cseq)
        })
    }

    /// The first message that `is_it`; others stay for later.
    #[track_caller]
    pub(crate) fn expect(&mut self, what: &str, is_it: impl Fn(&Message) -> bool) -> Message {
        let deadline = Deadline::after(PATIENCE);
        match self.wait(deadline, is_it) {
            Some(message) => message,
            None => panic!("{} waited in vain for {what}; it has {:#?}", self.user, self.heard()),
        }
    }

    pub(crate) fn wait(&mut self, deadline: Deadline, is_it: impl Fn(&Message) -> bool) -> Option<Message> {
        if let Some(index) = self.inbox.iter().position(&is_it) {
            return self.inbox.remove(index);
        }
        while let Some(left) = deadline.left() {
            match self.link.hear(left) {
                Heard::Message(bytes) => {
                    let message = Message::parse(bytes).expect("the server sends SIP");
                    if is_it(&message) {
                        return Some(message);
                    }
                    self.inbox.push_back(message);
                }
                Heard::Closed => return None,
                Heard::Pong | Heard::Nothing => {}
            }
        }
        None
    }

    pub(crate) fn put_back(&mut self, message: Message) {
        self.inbox.push_front(message);
    }

    fn heard(&self) -> Vec<String> {
        self.inbox.iter().map(|message| text(Some(message.start_line()))).collect()
    }

    /// Waits for a request of that method.
    #[track_caller]
    pub(crate) fn expect_request(&mut self, method: &str) -> Message {
        self.expect(method, |message| message.is_request() && message.method_name() == method.as_bytes())
    }

    /// A response made from the request's own lines; `more` is whole lines.
    pub(crate) fn reply(&mut self, request: &Message, status: &str, to_tag: &str, more: &str) {
        self.reply_with(request, status, to_tag, more, "");
    }

    pub(crate) fn reply_with(
        &mut self,
        request: &Message,
        status: &str,
        to_tag: &str,
        more: &str,
        body: &str,
    ) {
        let mut reply = format!("SIP/2.0 {status}\r\n");
        for (name, header) in [
            ("Via", Header::Via),
            ("Record-Route", Header::RecordRoute),
            ("From", Header::From),
            ("Call-ID", Header::CallId),
            ("CSeq", Header::CSeq),
        ] {
            for line in request.header_lines(header) {
                reply.push_str(&format!("{name}: {}\r\n", text(Some(line))));
            }
        }
        let tag = if request.to_tag().is_some() { String::new() } else { format!(";tag={to_tag}") };
        let to = text(request.header(Header::To));
        let length = body.len();
        reply.push_str(&format!("To: {to}{tag}\r\n{more}Content-Length: {length}\r\n\r\n{body}"));
        self.send(reply.as_bytes());
    }

    /// A REGISTER of this phone with these header lines.
    pub(crate) fn registration(&mut self, more: &str) -> Ask<'static> {
        let mut ask = self.ask("REGISTER", "sip:example.test");
        ask.to = format!("<{}>", self.aor());
        ask.call_id.clone_from(&self.registration);
        ask.more = more.to_owned();
        ask
    }

    #[track_caller]
    pub(crate) fn register(&mut self) -> Message {
        let more = format!("Contact: <{}>\r\nExpires: 600\r\n", self.contact());
        let ask = self.registration(&more);
        let answer = self.request(ask);
        assert_eq!(answer.status(), 200, "{}: {}", self.user, text(Some(answer.start_line())));
        answer
    }

    /// The contacts the registrar has for this account.
    #[track_caller]
    pub(crate) fn bindings(&mut self) -> Vec<String> {
        let ask = self.registration("");
        let answer = self.request(ask);
        assert_eq!(answer.status(), 200);
        answer.values(Header::Contact).map(|value| text(Some(value))).collect()
    }

    /// True if no message but those of `is_noise` comes for so long.
    pub(crate) fn hears_nothing(&mut self, patience: Duration, is_noise: impl Fn(&Message) -> bool) -> bool {
        self.wait(Deadline::after(patience), |message| !is_noise(message)).is_none()
    }
}

//! A phone: both sides of a call by RFC 3261 §13 to §15, with all its retransmissions, over the transaction
//! machines. Its answers to calls stand in `script`.

mod dialog;

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use sim::{Datagram, Node};
use sip::transaction::{
    ClientInvite, ClientOther, ServerInvite, ServerOther, T1, T2, TIMEOUT, TransactionEvent,
    TransactionMachine, TransactionOutput,
};
use sip::wire::{Address, Header, Message, Method, Reply, RequestBuilder, Uri};
use stdx::Instant;

pub struct Phone {
    pub addr: SocketAddr,
    /// The address that the phone believes to be its own.
    pub inside: SocketAddr,
    pub proxy: SocketAddr,
    pub name: &'static str,
    /// Responses to an INVITE, each so long after it.
    pub script: Vec<(Duration, u16)>,
    /// The response to any other request.
    pub other: u16,
    /// Lines put into its responses.
    pub extra: &'static str,
    pub is_strict: bool,
    transactions: Vec<Transaction>,
    pub calls: Vec<Call>,
    /// Every request that came, as text; no retransmissions.
    pub requests: Vec<String>,
    /// Every final response to requests of its own.
    pub finals: Vec<(u16, String)>,
    pub dialog: dialog::DialogPlan,
    sequence: u32,
}

struct Transaction {
    key: (Vec<u8>, Method),
    machine: TransactionMachine,
    peer: SocketAddr,
    /// The CSeq number.
    number: u32,
}

/// One call leg, of either side.
pub struct Call {
    pub is_caller: bool,
    pub invite: Message,
    to_tag: Vec<u8>,
    pub routes: Vec<String>,
    pub target: String,
    cseq: u32,
    todo: Vec<(Instant, u16)>,
    /// The callee's 2xx until it is acknowledged: bytes, interval, next time, end.
    unacknowledged: Option<(Bytes, Duration, Instant, Instant)>,
    pub hang_up_at: Option<Instant>,
    cancel: bool,
    pub provisional: u16,
    /// The final response; 408 when none came.
    pub status: u16,
    pub acknowledged: bool,
    pub ended: bool,
}

impl Phone {
    pub fn new(name: &'static str, addr: SocketAddr, proxy: SocketAddr) -> Self {
        Phone {
            addr,
            inside: addr,
            proxy,
            name,
            script: vec![(Duration::ZERO, 180), (Duration::from_secs(1), 200)],
            other: 200,
            extra: "",
            is_strict: false,
            transactions: Vec::new(),
            calls: Vec::new(),
            requests: Vec::new(),
            finals: Vec::new(),
            dialog: dialog::DialogPlan::default(),
            sequence: 0,
        }
    }

    pub fn answering(mut self, script: &[(u64, u16)]) -> Self {
        self.script = script.iter().map(|(ms, status)| (Duration::from_millis(*ms), *status)).collect();
        self
    }

    pub fn contact(&self) -> String {
        let transport = if self.is_tcp() { ";transport=tcp" } else { "" };
        format!("sip:{}@{}{transport}", self.name, self.inside)
    }

    fn is_tcp(&self) -> bool {
        self.proxy.port() == 5062
    }

    fn via(&mut self) -> String {
        self.sequence += 1;
        let transport = if self.is_tcp() { "TCP" } else { "UDP" };
        format!("SIP/2.0/{transport} {};branch=z9hG4bK-{}-{};rport", self.inside, self.name, self.sequence)
    }

    /// A request out of any dialog; `lines` end with a line end each.
    pub fn request(&mut self, now: Instant, method: &str, uri: &str, lines: &str, out: &mut Vec<Datagram>) {
        let via = self.via();
        let (name, number) = (self.name, self.sequence);
        let to = if method == "REGISTER" { format!("sip:{name}@example.test") } else { uri.to_owned() };
        let text = format!(
            "{method} {uri} SIP/2.0\r\nVia: {via}\r\nMax-Forwards: 70\r\nFrom: <sip:{name}@example.test>;tag={name}\r\n\
             To: <{to}>\r\nCall-ID: {method}-{name}\r\nCSeq: {number} {method}\r\nContact: <{}>\r\n{lines}\
             Content-Length: 0\r\n\r\n",
            self.contact()
        );
        self.start(now, text.into(), self.proxy, out);
    }

    pub fn call(&mut self, now: Instant, uri: &str, out: &mut Vec<Datagram>) {
        self.call_with(now, uri, "", out);
    }

    pub fn call_with(&mut self, now: Instant, uri: &str, lines: &str, out: &mut Vec<Datagram>) {
        let via = self.via();
        let (name, number) = (self.name, self.sequence);
        let from = if lines.contains("From:") {
            String::new()
        } else {
            format!("From: <sip:{name}@elsewhere.test>;tag={name}{number}\r\n")
        };
        let call_id = if lines.contains("Call-ID:") {
            String::new()
        } else {
            format!("Call-ID: call-{name}-{number}\r\n")
        };
        let text = format!(
            "INVITE {uri} SIP/2.0\r\nVia: {via}\r\nMax-Forwards: 70\r\n{from}To: <{uri}>\r\n{call_id}\
             CSeq: {number} INVITE\r\nContact: <{}>\r\n{lines}Content-Length: 0\r\n\r\n",
            self.contact()
        );
        let bytes = Bytes::from(text);
        self.calls.push(Call::new(Message::parse(bytes.clone()).unwrap(), true));
        self.start(now, bytes, self.proxy, out);
    }

    pub fn cancel(&mut self, now: Instant, out: &mut Vec<Datagram>) {
        let call = self.calls.last_mut().unwrap();
        call.cancel = true;
        if call.provisional > 0 && call.status == 0 {
            let to = call.invite.header(Header::To).unwrap().to_vec();
            let bytes = RequestBuilder::from_invite("CANCEL", &call.invite, &to);
            self.start(now, bytes, self.proxy, out);
        }
    }

    pub fn hang_up(&mut self, now: Instant, index: usize, out: &mut Vec<Datagram>) {
        self.in_dialog(now, index, "BYE", out);
        self.calls[index].hang_up_at = None;
    }

    /// Sends a request of a dialog by its route set (RFC 3261 §12.2.1.1).
    pub fn in_dialog(&mut self, now: Instant, index: usize, method: &str, out: &mut Vec<Datagram>) {
        let via = self.via();
        let via = format!("{via}\r\nContact: <{}>", self.contact());
        let call = &mut self.calls[index];
        if method != "ACK" {
            call.cseq += 1;
        }
        let text = call.request(method, &via, &call.routes.join(", "));
        let hop = hop_of(call.routes.first().map_or(&call.target, |route| route), self.proxy);
        if method == "ACK" {
            out.push((self.addr, hop, text.into()));
        } else {
            self.start(now, text.into(), hop, out);
        }
    }

    fn start(&mut self, now: Instant, bytes: Bytes, peer: SocketAddr, out: &mut Vec<Datagram>) {
        let message = Message::parse(bytes.clone()).unwrap();
        let reliable = self.is_tcp();
        let (machine, turn) = if message.method() == Method::Invite {
            let (machine, turn) = ClientInvite::start(now, bytes, reliable);
            (TransactionMachine::ClientInvite(machine), turn)
        } else {
            let (machine, turn) = ClientOther::start(now, bytes, reliable);
            (TransactionMachine::ClientOther(machine), turn)
        };
        let (key, number) = (key_of(&message, message.method()), message.cseq().unwrap().0);
        self.transactions.push(Transaction { key, machine, peer, number });
        let last = self.transactions.len() - 1;
        self.perform(now, last, turn, None, out);
    }

    fn perform(
        &mut self,
        now: Instant,
        index: usize,
        turn: TransactionOutput,
        response: Option<&Message>,
        out: &mut Vec<Datagram>,
    ) {
        let method = self.transactions[index].key.1;
        if let Some(bytes) = turn.send {
            out.push((self.addr, self.transactions[index].peer, bytes));
        }
        if turn.tell == Some(TransactionEvent::Timeout) {
            self.note_answer(now, self.transactions[index].number, method, 408);
        }
        match (turn.tell, response) {
            (Some(TransactionEvent::Response), Some(response)) => self.hear(now, response, out),
            (Some(TransactionEvent::Timeout), _) if method == Method::Invite => {
                if let Some(call) =
                    self.calls.iter_mut().rev().find(|call| call.is_caller && call.status == 0)
                {
                    (call.status, call.ended) = (408, true);
                }
            }
            (Some(TransactionEvent::Timeout), _) => {
                self.finals.push((408, method.as_str().to_owned()));
                if method == Method::Bye {
                    self.calls.iter_mut().for_each(|call| call.ended |= call.status >= 200);
                }
            }
            (Some(TransactionEvent::Slow), _) if method == Method::Invite => {
                self.send_trying(now, index, out);
            }
            _ => {}
        }
    }

    /// The 100 that an INVITE transaction asks for (§17.2.1).
    fn send_trying(&mut self, now: Instant, index: usize, out: &mut Vec<Datagram>) {
        let Transaction { key, machine, peer, .. } = &mut self.transactions[index];
        let mut invites = self.calls.iter().filter(|call| !call.is_caller).map(|call| &call.invite);
        let invite = invites.find(|invite| key_of(invite, Method::Invite) == *key);
        let (Some(invite), TransactionMachine::ServerInvite(machine)) = (invite, machine) else { return };
        let trying = Reply::new(invite, *peer, 100, "Trying", None).finish();
        let turn = machine.respond(now, 100, trying);
        self.perform(now, index, turn, None, out);
    }

    fn hear(&mut self, now: Instant, response: &Message, out: &mut Vec<Datagram>) {
        let status = response.status();
        if status >= 200 {
            self.note_answer(now, response.cseq().unwrap().0, response.method(), status);
        }
        match response.method() {
            Method::Invite if self.hear_of_reinvite(now, response, out) => {}
            Method::Invite => self.hear_of_call(now, response, out),
            method if status >= 200 => {
                self.finals.push((status, String::from_utf8_lossy(response.bytes()).into_owned()));
                if method == Method::Bye {
                    let call = self.calls.iter_mut().find(|c| c.invite.call_id() == response.call_id());
                    call.unwrap().ended = true;
                }
            }
            _ => {}
        }
    }

    fn hear_of_call(&mut self, now: Instant, response: &Message, out: &mut Vec<Datagram>) {
        let status = response.status();
        let Some(index) =
            self.calls.iter().rposition(|call| call.is_caller && call.invite.call_id() == response.call_id())
        else {
            return;
        };
        let call = &mut self.calls[index];
        if status < 200 {
            call.provisional = status;
            if call.cancel {
                self.cancel(now, out);
            }
            return;
        }
        if status >= 300 {
            self.finals.push((status, String::from_utf8_lossy(response.bytes()).into_owned()));
            (call.status, call.ended) = (status, true);
            return;
        }
        if call.status == 0 {
            call.learn(response);
            call.status = status;
            call.cseq = call.invite.cseq().unwrap().0;
        }
        // §13.2.2.4: every 2xx gets an ACK; those of another leg end it, which these tests look at as arrows.
        self.acknowledge(now, index, response.cseq().unwrap().0, out);
    }

    fn handle_request(&mut self, now: Instant, from: SocketAddr, request: &Message, out: &mut Vec<Datagram>) {
        let method = request.method();
        let key_method = if method == Method::Ack { Method::Invite } else { method };
        let key = key_of(request, key_method);
        if let Some(index) = self.transactions.iter().position(|known| known.key == key) {
            let turn = match &mut self.transactions[index].machine {
                TransactionMachine::ServerInvite(machine) if method == Method::Ack => machine.handle_ack(now),
                TransactionMachine::ServerInvite(machine) => machine.handle_retransmission(),
                TransactionMachine::ServerOther(machine) => machine.handle_retransmission(),
                _ => TransactionOutput::default(),
            };
            return self.perform(now, index, turn, None, out);
        }
        self.requests.push(String::from_utf8_lossy(request.bytes()).into_owned());
        match method {
            Method::Ack => self.handle_ack(now, request),
            Method::Invite => self.handle_invite(now, from, request, key),
            _ => self.handle_other(now, from, request, key, out),
        }
    }

    fn handle_ack(&mut self, now: Instant, ack: &Message) {
        self.note_ack(now);
        for call in self.calls.iter_mut().filter(|call| !call.is_caller) {
            if call.invite.call_id() == ack.call_id()
                && call.invite.cseq().unwrap().0 == ack.cseq().unwrap().0
            {
                call.unacknowledged = None;
                call.acknowledged = true;
            }
        }
    }

    fn handle_invite(&mut self, now: Instant, from: SocketAddr, request: &Message, key: (Vec<u8>, Method)) {
        let machine = TransactionMachine::ServerInvite(ServerInvite::start(now, self.is_tcp()));
        let number = request.cseq().unwrap().0;
        self.transactions.push(Transaction { key, machine, peer: from, number });
        let is_in_order = self.is_in_order(request);
        let mut call = Call::new(request.clone(), false);
        call.to_tag = format!("{}{}", self.name, self.transactions.len()).into_bytes();
        call.learn(request);
        call.todo = match request.to_tag() {
            _ if !is_in_order => vec![(now, 500)],
            Some(_) if self.dialog.is_orderly => vec![(now + self.dialog.answers_after, 200)],
            _ => self.script.iter().map(|(after, status)| (now + *after, *status)).collect(),
        };
        self.calls.push(call);
    }

    fn handle_other(
        &mut self,
        now: Instant,
        from: SocketAddr,
        request: &Message,
        key: (Vec<u8>, Method),
        out: &mut Vec<Datagram>,
    ) {
        let mut status = if self.is_in_order(request) { self.other } else { 500 };
        if request.method() == Method::Cancel {
            status = 200;
            let invite = key_of(request, Method::Invite);
            let position = self.calls.iter().position(|call| {
                !call.is_caller && call.status == 0 && key_of(&call.invite, Method::Invite) == invite
            });
            if let Some(index) = position {
                self.respond(now, index, 487, out);
            }
        }
        if request.method() == Method::Bye {
            for call in self.calls.iter_mut().filter(|call| call.invite.call_id() == request.call_id()) {
                call.ended = true;
                call.unacknowledged = None;
            }
        }
        let mut machine = ServerOther::start(now, self.is_tcp());
        let turn = if status > 0 {
            let reply = Reply::new(request, from, status, "Other", Some(self.name)).finish();
            machine.respond(now, status, reply)
        } else {
            TransactionOutput::default()
        };
        self.transactions.push(Transaction {
            key,
            machine: TransactionMachine::ServerOther(machine),
            peer: from,
            number: request.cseq().unwrap().0,
        });
        self.perform(now, self.transactions.len() - 1, turn, None, out);
    }

    fn respond(&mut self, now: Instant, index: usize, status: u16, out: &mut Vec<Datagram>) {
        let (contact, is_tcp) = (self.contact(), self.is_tcp());
        let call = &mut self.calls[index];
        let key = key_of(&call.invite, Method::Invite);
        let Some(position) = self.transactions.iter().position(|known| known.key == key) else { return };
        let tag = String::from_utf8_lossy(&call.to_tag).into_owned();
        let peer = self.transactions[position].peer;
        let mut reply = Reply::new(&call.invite, peer, status, "Said", Some(&tag));
        reply.copy_all(&call.invite, Header::RecordRoute);
        reply.header("Contact", format!("<{contact}>").as_bytes());
        for (name, value) in self.extra.lines().filter_map(|line| line.split_once(": ")) {
            reply.header(name, value.as_bytes());
        }
        let bytes = reply.finish();
        if status >= 200 {
            call.status = status;
            call.todo.clear();
            call.ended = status >= 300;
        }
        if (200..300).contains(&status) {
            let next = if is_tcp { now + TIMEOUT } else { now + T1 };
            call.unacknowledged = Some((bytes.clone(), T1, next, now + TIMEOUT));
        }
        if let TransactionMachine::ServerInvite(machine) = &mut self.transactions[position].machine {
            let turn = machine.respond(now, status, bytes);
            self.perform(now, position, turn, None, out);
        }
    }

    /// §13.3.1.4: the callee repeats its 2xx, and after 64*T1 without ACK the call is over.
    fn repeat_answers(&mut self, now: Instant, out: &mut Vec<Datagram>) {
        for index in 0..self.calls.len() {
            let peer = {
                let key = key_of(&self.calls[index].invite, Method::Invite);
                self.transactions.iter().find(|known| known.key == key).map(|known| known.peer)
            };
            let call = &mut self.calls[index];
            let Some((bytes, interval, next, end)) = &mut call.unacknowledged else { continue };
            if *end <= now {
                call.unacknowledged = None;
                call.ended = true;
            } else if *next <= now {
                *interval = (*interval * 2).min(T2);
                *next = now + *interval;
                out.extend(peer.map(|peer| (self.addr, peer, bytes.clone())));
            }
        }
    }

    fn perform_due_actions(&mut self, now: Instant, out: &mut Vec<Datagram>) {
        self.send_in_dialog(now, out);
        for index in 0..self.calls.len() {
            while let Some(&(at, status)) = self.calls[index].todo.first()
                && at <= now
            {
                self.calls[index].todo.remove(0);
                self.respond(now, index, status, out);
            }
            if self.calls[index].hang_up_at.is_some_and(|at| at <= now) {
                self.hang_up(now, index, out);
            }
        }
    }
}

impl Call {
    fn new(invite: Message, is_caller: bool) -> Self {
        Call {
            is_caller,
            invite,
            to_tag: Vec::new(),
            routes: Vec::new(),
            target: String::new(),
            cseq: 0,
            todo: Vec::new(),
            unacknowledged: None,
            hang_up_at: None,
            cancel: false,
            provisional: 0,
            status: 0,
            acknowledged: false,
            ended: false,
        }
    }

    /// §12.1: the route set and the remote target, from the INVITE or from its 2xx.
    fn learn(&mut self, message: &Message) {
        let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
        self.routes = message.values(Header::RecordRoute).map(text).collect();
        if self.is_caller {
            self.routes.reverse();
            self.to_tag = message.to_tag().unwrap().to_vec();
        }
        let contact = message.values(Header::Contact).next().and_then(Address::parse).unwrap();
        self.target = text(contact.uri);
    }

    fn request(&self, method: &str, via: &str, routes: &str) -> String {
        let line = |header| String::from_utf8_lossy(self.invite.header(header).unwrap()).into_owned();
        let mut to = line(Header::To);
        to += &format!(";tag={}", String::from_utf8_lossy(&self.to_tag));
        let (from, to) = if self.is_caller { (line(Header::From), to) } else { (to, line(Header::From)) };
        let route = if routes.is_empty() { String::new() } else { format!("Route: {routes}\r\n") };
        format!(
            "{method} {} SIP/2.0\r\nVia: {via}\r\nMax-Forwards: 70\r\n{route}From: {from}\r\nTo: {to}\r\nCall-ID: {}\r\n\
             CSeq: {} {method}\r\nContent-Length: 0\r\n\r\n",
            self.target,
            line(Header::CallId),
            self.cseq
        )
    }
}

impl Node for Phone {
    fn handle(
        &mut self,
        now: Instant,
        from: SocketAddr,
        _: SocketAddr,
        bytes: &[u8],
        out: &mut Vec<Datagram>,
    ) {
        let message = Message::parse(Bytes::copy_from_slice(bytes)).unwrap();
        if message.is_request() {
            self.handle_request(now, from, &message, out);
        } else {
            let key = key_of(&message, message.method());
            let Some(index) = self.transactions.iter().position(|known| known.key == key) else { return };
            let turn = match &mut self.transactions[index].machine {
                TransactionMachine::ClientInvite(machine) => machine.handle_response(now, &message),
                TransactionMachine::ClientOther(machine) => machine.handle_response(now, message.status()),
                _ => TransactionOutput::default(),
            };
            self.perform(now, index, turn, Some(&message), out);
        }
        self.perform_due_actions(now, out);
    }

    fn wake(&mut self, now: Instant, out: &mut Vec<Datagram>) {
        for index in 0..self.transactions.len() {
            if self.transactions[index].machine.deadline() <= now {
                let turn = self.transactions[index].machine.handle_timer(now);
                self.perform(now, index, turn, None, out);
            }
        }
        self.repeat_answers(now, out);
        self.perform_due_actions(now, out);
    }

    fn deadline(&self) -> Option<Instant> {
        let transactions = self.transactions.iter().map(|known| known.machine.deadline());
        let calls = self.calls.iter().flat_map(|call| {
            let answer = call.unacknowledged.as_ref().map(|(.., next, end)| (*next).min(*end));
            [answer, call.hang_up_at, call.todo.first().map(|(at, _)| *at)].into_iter().flatten()
        });
        transactions.chain(calls).chain(self.dialog.deadline()).min().filter(|at| *at < Instant::FAR_FUTURE)
    }
}

fn key_of(message: &Message, method: Method) -> (Vec<u8>, Method) {
    (message.top_via().unwrap().branch().unwrap().to_vec(), method)
}

/// The address a URI, or a Route value, names.
fn hop_of(value: &str, otherwise: SocketAddr) -> SocketAddr {
    let inner = value.trim_start_matches('<');
    let end = inner.find('>').unwrap_or(inner.len());
    let uri = Uri::parse(&inner.as_bytes()[..end]).unwrap();
    match uri.host_ip() {
        Some(ip) => SocketAddr::new(ip, uri.port.unwrap_or(5060)),
        None => otherwise,
    }
}

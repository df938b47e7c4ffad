//! In any order of events from phones, applications and timers every call ends, each session is hung up once, and
//! nothing stays behind.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;
use sip::wire::{Header, Message, Method};

use super::tests::{BOB, Stage, US};
use crate::{Destination, Done, HelperResult, RoomMessage, Ticket, VoiceEffect, limits};

/// Verbs for the first callee that answers.
const VERBS: [&str; 12] = [
    "<Pause length='2'/>",
    "<Dial hangupOnStar='true' timeLimit='3' referUrl='http://127.0.0.1:1/'>1</Dial><Pause length='9'/>",
    "<Dial timeout='2' record='true'><Number sendDigits='1'>1</Number><Client>a</Client></Dial>",
    "<Dial sequential='true' timeout='1'><Number>1</Number><Number>2</Number></Dial><Echo/>",
    "<Dial><Number url='http://127.0.0.1:1/'>1</Number><Sip>sip:b@192.0.2.1</Sip></Dial>",
    "<Dial record='true'><Conference startConferenceOnEnter='false'>a</Conference></Dial>",
    "<Dial><Conference endConferenceOnExit='true' waitUrl='http://127.0.0.1:1/'>a</Conference></Dial>",
    "<Enqueue waitUrl='http://127.0.0.1:1/'>a</Enqueue><Echo/>",
    "<Dial timeout='3'><Queue>a</Queue><Number>1</Number></Dial>",
    "<Refer action='http://127.0.0.1:1/'><Sip>sip:c@192.0.2.1</Sip></Refer><Hangup/>",
    "<Record timeout='1' maxLength='2' action='http://127.0.0.1:1/'/><Gather timeout='1'/>",
    "<Sms to='1' action='http://127.0.0.1:1/'>a</Sms><Start><Stream url='ws://127.0.0.1:1/'/></Start><Play digits='1'/>",
];

/// One phone's side of a session.
struct PhoneSide {
    invite: Message,
    is_up: bool,
    is_over: bool,
    /// The CSeq of its own requests.
    cseq: u32,
}

struct Any {
    stage: Stage,
    /// By Call-ID.
    fars: HashMap<Vec<u8>, PhoneSide>,
    order: Vec<Vec<u8>>,
    tickets: Vec<u64>,
    messages: Vec<RoomMessage>,
    /// By Call-ID: numbers of our BYEs.
    byes: HashMap<Vec<u8>, HashSet<u32>>,
    asked: u64,
}

impl Any {
    fn new() -> Any {
        Any {
            stage: Stage::of(0, 1),
            fars: HashMap::new(),
            order: Vec::new(),
            tickets: Vec::new(),
            messages: Vec::new(),
            byes: HashMap::new(),
            asked: 0,
        }
    }

    /// Delivers the effects: requests reach the phones, lookups are kept for later.
    fn settle(&mut self, mut sent: Vec<Message>) {
        loop {
            sent.extend(self.stage.sent());
            for effect in std::mem::take(&mut self.stage.outbox) {
                match effect {
                    VoiceEffect::Resolve { ticket, .. } => self.tickets.push(ticket),
                    VoiceEffect::Post { message, .. } => self.messages.push(message),
                    _ => {}
                }
            }
            let Some(message) = sent.pop() else { return };
            sent.extend(self.phone_hears(&message));
        }
    }

    fn phone_hears(&mut self, message: &Message) -> Vec<Message> {
        let id = message.call_id().expect("we say it").to_vec();
        match message.method() {
            _ if !message.is_request() => Vec::new(),
            Method::Invite if !self.fars.contains_key(&id) => {
                self.order.push(id.clone());
                let far = PhoneSide { invite: message.clone(), is_up: false, is_over: false, cseq: 1 };
                self.fars.insert(id, far);
                Vec::new()
            }
            Method::Bye => {
                self.byes.entry(id.clone()).or_default().insert(message.cseq().expect("we say it").0);
                self.over(&id);
                self.stage.reply(message, 200)
            }
            Method::Cancel => {
                let mut sent = self.stage.reply(message, 200);
                if let Some(invite) = self.over(&id).filter(|far| !far.is_up).map(|far| far.invite.clone()) {
                    sent.extend(self.stage.reply(&invite, 487));
                }
                sent
            }
            Method::Refer => self.stage.reply(message, 202),
            Method::Ack => Vec::new(),
            _ => self.stage.reply(message, 200),
        }
    }

    fn over(&mut self, id: &[u8]) -> Option<&PhoneSide> {
        let far = self.fars.get_mut(id)?;
        far.is_over = true;
        Some(far)
    }

    /// A session that is not over, by chance.
    fn pick(&self, which: usize, is_up: bool) -> Option<Vec<u8>> {
        let open = |id: &&Vec<u8>| self.fars.get(*id).is_some_and(|far| !far.is_over && far.is_up == is_up);
        let open: Vec<&Vec<u8>> = self.order.iter().filter(open).collect();
        (!open.is_empty()).then(|| open[which % open.len()].clone())
    }

    fn answer(&mut self, which: usize, status: u16) {
        let Some(id) = self.pick(which, false) else { return };
        let Some(far) = self.fars.get_mut(&id) else { return };
        (far.is_up, far.is_over) = (status == 200, status > 200);
        let invite = far.invite.clone();
        let sent = self.stage.reply(&invite, status);
        self.settle(sent);
    }

    /// A request of the phone's in its dialog.
    fn request(&mut self, which: usize, method: &str, more: &str, body: &str) {
        let Some(id) = self.pick(which, true) else { return };
        let Some(far) = self.fars.get_mut(&id) else { return };
        far.cseq += 1;
        far.is_over = method == "BYE";
        let text =
            |header| String::from_utf8_lossy(far.invite.header(header).unwrap_or_default()).into_owned();
        let bytes = format!(
            "{method} sip:{US} SIP/2.0\r\nVia: SIP/2.0/UDP {BOB};branch=z9hG4bK{cseq}{method}{id}\r\nMax-Forwards: 70\r\n\
             From: {from};tag=b\r\nTo: {to}\r\nCall-ID: {id}\r\nCSeq: {cseq} {method}\r\nContact: <sip:bob@{BOB}>\r\n{more}\
             Content-Length: {length}\r\n\r\n{body}",
            cseq = far.cseq,
            id = String::from_utf8_lossy(&id),
            from = text(Header::To),
            to = text(Header::From),
            length = body.len(),
        );
        let sent = self.stage.hears(Bytes::from(bytes));
        self.settle(sent);
    }

    fn resolve(&mut self, which: usize) {
        if self.tickets.is_empty() {
            return;
        }
        let ticket = self.tickets.swap_remove(which % self.tickets.len());
        let reach = |port: u16| Destination {
            uri: format!("sip:a@127.0.0.1:{port}").into(),
            path: "".into(),
            received: None,
            public_only: false,
            is_binding: false,
        };
        let resolved = match which % 5 {
            0 => Err(480),
            1 => Ok(Vec::new()),
            2 => Ok(vec![vec![reach(5072), reach(5073)]]),
            3 => Ok(vec![vec![reach(5072)], vec![reach(5074)]]),
            _ => Ok(vec![vec![reach(5072)]]),
        };
        self.stage.act(|voice, now, world| voice.handle_resolved(now, ticket, resolved, world));
        self.settle(Vec::new());
    }

    fn deliver(&mut self) {
        while let Some(message) = self.messages.pop() {
            self.stage.act(|voice, now, world| voice.handle_room_message(now, message, world));
            self.settle(Vec::new());
        }
    }

    /// An answer to one of the questions there may be: a document, or none.
    fn fetched(&mut self, which: usize) {
        self.asked += 1;
        let verbs = VERBS[which % VERBS.len()];
        let answer = ivr::script::FetchResponse {
            status: if which.is_multiple_of(4) { 500 } else { 200 },
            content_type: Some("text/xml".to_owned()),
            body: format!("<Response>{verbs}</Response>").into_bytes(),
            url: None,
        };
        for ticket in self.asked..self.asked + 4 {
            let ticket = Ticket { shard: 0, id: ticket };
            let result = HelperResult::new(ticket, Done::Fetched(Ok(answer.clone())));
            self.stage.act(|voice, now, world| voice.handle_result(now, result, world));
            self.settle(Vec::new());
        }
    }

    fn pass(&mut self, time: Duration) {
        let until = self.stage.now + time;
        while self.stage.now < until {
            self.stage.now = self.stage.now + Duration::from_millis(200);
            let now = self.stage.now;
            self.stage.endpoint.expire(now, &mut self.stage.out);
            self.settle(Vec::new());
            self.stage.act(|voice, now, world| voice.expire(now, world));
            self.settle(Vec::new());
            self.deliver();
        }
    }

    fn step(&mut self, what: u8, which: usize) {
        const REFER: &str = "Refer-To: <sip:d@example.test>\r\n";
        match what {
            0 | 1 => self.stage.place(VERBS[which % VERBS.len()]),
            2 | 3 => return self.resolve(which),
            4 => return self.answer(which, [180, 183, 486, 503, 603][which % 5]),
            5 | 6 => return self.answer(which, 200),
            7 => return self.request(which, "BYE", "", ""),
            8 => return self.request(which, "REFER", REFER, ""),
            9 => {
                let signal = if which.is_multiple_of(2) { "Signal=*\r\n" } else { "Signal=1\r\n" };
                return self.request(which, "INFO", "Content-Type: application/dtmf-relay\r\n", signal);
            }
            10 => return self.fetched(which),
            11 => return self.pass(Duration::from_millis(which as u64 % 3_000)),
            12 => return self.deliver(),
            _ if which.is_multiple_of(8) => self.stage.act(|voice, now, world| voice.hang_up_all(now, world)),
            _ => {}
        }
        self.settle(Vec::new());
    }

    /// Ends all calls: the phones hang up or refuse, and pending lookups are answered.
    fn end(&mut self) {
        while self.pick(0, true).is_some() {
            self.request(0, "BYE", "", "");
        }
        while !self.tickets.is_empty() {
            self.resolve(0);
        }
        while self.pick(0, false).is_some() {
            self.answer(0, 603);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_call_ends_once_after_any_events(steps in prop::collection::vec((0..14u8, any::<usize>()), 0..80)) {
        let mut any = Any::new();
        for (what, which) in steps {
            any.step(what, which);
        }
        // A sequence of Dials calls the next when one has refused.
        for _ in 0..20 {
            any.end();
            any.pass(Duration::from_secs(1));
        }
        any.stage.act(|voice, now, world| voice.hang_up_all(now, world));
        any.settle(Vec::new());
        any.end();
        any.pass(limits::ROOM_LOST + Duration::from_secs(40));
        let voice = &any.stage.voice;
        let counts = voice.counts();
        prop_assert_eq!((counts.calls, any.stage.sockets.used(), counts.prompts), (0, 0, 0));
        prop_assert_eq!((counts.rooms, counts.queues, counts.members, counts.seats), (0, 0, 0, 0));
        prop_assert_eq!((voice.calls.legs.len(), voice.calls.actors.len(), voice.dials.len()), (0, 0, 0));
        prop_assert_eq!((voice.calls.by_session.len(), voice.resolutions.len(), voice.calls.queued_effects.len()), (0, 0, 0));
        prop_assert!(any.byes.values().all(|numbers| numbers.len() == 1), "hung up twice");
    }
}

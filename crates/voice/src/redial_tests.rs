//! Nodes of a farm with media, of which some die: calls made again by `[voice] redial_on_failure`, in virtual time.
//!
//! Calls, endpoints and scripts are real. The database is a table of rows, and the test does what the task of `server::node::lost_calls` does,
//! step by step, so that its node dies between any two of them. Phones answer as the test says, and an application gives each call one document.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use ivr::document::{Address, Callback, Email, Voice as SpokenVoice};
use ivr::request::{Method as HttpMethod, Target, Wire};
use ivr::script::{FetchResponse, Start};
use media::codec::Codec;
use router::{Life, ShardAddress};
use sip::endpoint::{Decision, Endpoint, EndpointEffect, EndpointOutbox};
use sip::transport::{Packet, Source, Transport};
use sip::wire::{Header, Message, Method, Reply};
use stdx::Instant;
use store::rest::types::RestCall;
use store::rest::{Kind, Resource as _, RestWrite};

use crate::control::Placing;
use crate::redial::{self, Redials};
use crate::testing::{MemoryFiles, NoSockets, place};
use crate::{
    Common, ConfiguredNumber, Destination, Done, HelperResult, HelperService, NumberSettings, Numbers,
    Opening, Owner, PlayedRecording, RedialPolicy, ShardPlace, SpeechListener, StreamSender, Ticket, Voice,
    VoiceEffect, World, lost_calls, numbers,
};

const US: &str = "127.0.0.1:5060";
const PHONE: &str = "127.0.0.1:5072";
const PARTY: &str = "+4930111";
const OFFER: &str =
    "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\nm=audio 4000 RTP/AVP 8\r\n";

/// The places in which a caller is when its node dies.
const VERBS: [&str; 3] = [
    "<Dial><Conference>room</Conference></Dial>",
    "<Enqueue>queue</Enqueue>",
    "<Dial timeLimit='600'><Number>4711</Number></Dial>",
];

/// The requests of the calls of one node, which the test answers.
#[derive(Default)]
struct Application(Mutex<Vec<(Ticket, Wire)>>);

impl Application {
    fn take(&self) -> Vec<(Ticket, Wire)> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl HelperService for Application {
    fn fetch(&self, ticket: Ticket, wire: Wire) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((ticket, wire));
    }
    fn tell(&self, wire: Wire) -> bool {
        self.fetch(Ticket { shard: 0, id: 0 }, wire);
        true
    }
    fn speech(&self, _: Ticket, _: &str, _: SpokenVoice, _: &str) {}
    fn audio(&self, _: Ticket, _: &str) {}
    fn recording(&self, _: Ticket, _: PlayedRecording) {}
    fn encode(&self, _: Ticket, _: Codec, _: Arc<[i16]>) {}
    fn mail(&self, _: Ticket, _: Email) {}
    fn transcribe(&self, _: Ticket, _: PathBuf) {}
    fn stream(&self, _: Ticket, _: Opening) -> Box<dyn StreamSender> {
        panic!("no document has a stream")
    }
    fn recognise(&self, _: Ticket, _: &str, _: &[String], _: u32) -> Result<Box<dyn SpeechListener>, String> {
        Err("there is no recogniser".to_owned())
    }
}

struct Node {
    life: u32,
    voice: Voice,
    endpoint: Endpoint,
    out: EndpointOutbox,
    outbox: Vec<VoiceEffect>,
    sockets: NoSockets,
    application: Arc<Application>,
    redials: Redials,
    is_alive: bool,
}

/// The answer of phones that are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phones {
    Answer,
    Busy,
    Silent,
}

/// A request of a call to its application.
#[derive(Clone, Debug)]
struct Asked {
    life: u32,
    text: String,
}

struct Farm {
    now: Instant,
    nodes: Vec<Node>,
    rows: BTreeMap<String, RestCall>,
    phones: Phones,
    verbs: &'static str,
    /// The INVITEs that phones got, with the node that sent each.
    invites: Vec<(u32, Message)>,
    asked: Vec<Asked>,
    /// The ends of lost calls that living nodes have told, in the words of the request.
    told: Vec<String>,
}

impl Node {
    fn new(life: u32, policy: RedialPolicy, now: Instant) -> Node {
        let application = Arc::<Application>::default();
        let number = ConfiguredNumber {
            number: "1234".into(),
            url: "http://app/first".into(),
            method: HttpMethod::Get,
            fallback: None,
        };
        let settings = NumberSettings {
            account: "AC1".into(),
            auth_token: Some("key".into()),
            numbers: vec![number],
            open: true,
        };
        let plain = crate::testing::common([127, 0, 0, 78]).settings;
        let settings_of_calls = crate::Settings { redial: policy, ..plain };
        let common = Common::new(
            settings_of_calls,
            Numbers::of_configuration(&settings),
            "example.test",
            application.clone(),
            Arc::new(MemoryFiles::default()),
            "http://127.0.0.1",
        );
        let own = ShardAddress::new(Life(life), 0);
        let seed = [u8::try_from(life).unwrap(); 32];
        let mut endpoint = Endpoint::new(sim::settings(own, &[US.parse().unwrap()]), now);
        endpoint.trust_source(now, PHONE.parse().unwrap());
        Node {
            life,
            voice: Voice::new(&common.with_life(life), ShardPlace { seed, ..place(0, 1) }),
            endpoint,
            out: Vec::new(),
            outbox: Vec::new(),
            sockets: NoSockets::new(),
            application,
            redials: Redials::default(),
            is_alive: true,
        }
    }

    fn act(&mut self, now: Instant, act: impl FnOnce(&mut Voice, Instant, &mut World<'_>)) {
        let Node { endpoint, out, outbox, sockets, .. } = self;
        let mut world = World { endpoint, out, outbox, sockets };
        act(&mut self.voice, now, &mut world);
    }

    fn hear(&mut self, now: Instant, bytes: Bytes) {
        let (local, remote) = (US.parse().unwrap(), PHONE.parse().unwrap());
        let source = Source { transport: Transport::Udp, local, remote, flow: None };
        self.endpoint.handle_packet(now, Packet { bytes, source }, &mut self.out);
    }
}

fn text(bytes: Option<&[u8]>) -> String {
    String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned()
}

impl Farm {
    fn new(policy: RedialPolicy, verbs: &'static str) -> Farm {
        let now = Instant::from_unix_seconds(1_800_000_000);
        let mut farm = Farm {
            now,
            nodes: (1..=3).map(|life| Node::new(life, policy, now)).collect(),
            rows: BTreeMap::new(),
            phones: Phones::Answer,
            verbs,
            invites: Vec::new(),
            asked: Vec::new(),
            told: Vec::new(),
        };
        farm.look_around();
        farm
    }

    /// All nodes that live see each other.
    fn look_around(&mut self) {
        let alive: Vec<Life> =
            self.nodes.iter().filter(|node| node.is_alive).map(|node| Life(node.life)).collect();
        self.nodes.iter_mut().for_each(|node| node.redials.handle_alive(self.now, alive.iter().copied()));
    }

    /// Delivers all that a node causes.
    fn settle(&mut self, at: usize) {
        loop {
            let (now, node) = (self.now, &mut self.nodes[at]);
            let (out, outbox) = (std::mem::take(&mut node.out), std::mem::take(&mut node.outbox));
            let fetched = node.application.take();
            if !node.is_alive || (out.is_empty() && outbox.is_empty() && fetched.is_empty()) {
                return;
            }
            for effect in out {
                self.perform(at, effect);
            }
            for effect in outbox {
                match effect {
                    VoiceEffect::Resolve { ticket, address, .. } => {
                        let reach = Destination {
                            uri: format!("sip:{}@{PHONE}", address.user).into(),
                            path: "".into(),
                            received: None,
                            public_only: false,
                            is_binding: false,
                        };
                        self.nodes[at].act(now, |voice, now, world| {
                            voice.handle_resolved(now, ticket, Ok(vec![vec![reach]]), world);
                        });
                    }
                    VoiceEffect::Write(store::Write::Rest(
                        RestWrite::Insert(row) | RestWrite::Replace(row),
                    )) => {
                        // Conferences have rows, too.
                        if let (Kind::Call, Ok(call)) = (row.kind, RestCall::from_row(&row)) {
                            self.rows.insert(call.common.sid.clone(), call);
                        }
                    }
                    _ => {}
                }
            }
            for (ticket, wire) in fetched {
                let text = format!("{} {}", wire.url, wire.body.unwrap_or_default());
                let body = format!("<Response>{}</Response>", self.verbs).into_bytes();
                self.asked.push(Asked { life: self.nodes[at].life, text });
                let answer =
                    FetchResponse { status: 200, content_type: Some("text/xml".to_owned()), body, url: None };
                let result = HelperResult::new(ticket, Done::Fetched(Ok(answer)));
                self.nodes[at].act(now, |voice, now, world| voice.handle_result(now, result, world));
            }
        }
    }

    fn perform(&mut self, at: usize, effect: EndpointEffect) {
        let now = self.now;
        match effect {
            EndpointEffect::Transmit(transmit) => {
                let message = Message::parse(transmit.bytes).unwrap();
                for answer in self.phone_hears(self.nodes[at].life, &message) {
                    self.nodes[at].hear(now, answer);
                }
            }
            EndpointEffect::Session(event) => {
                self.nodes[at].act(now, |voice, now, world| voice.handle_event(now, event, world));
            }
            EndpointEffect::Plan { id, .. } => {
                let Node { endpoint, out, .. } = &mut self.nodes[at];
                endpoint.handle_plan(now, id, Decision::Agent, out);
            }
            _ => {}
        }
    }

    /// The messages with which a phone answers.
    fn phone_hears(&mut self, life: u32, message: &Message) -> Vec<Bytes> {
        if !message.is_request() {
            let is_answer = message.status() == 200 && message.method() == Method::Invite;
            return if is_answer { vec![acknowledgement(message)] } else { Vec::new() };
        }
        let reply = |status| {
            let mut reply = Reply::new(message, US.parse().unwrap(), status, "So", Some("b"));
            reply.header("Contact", format!("<sip:party@{PHONE}>").as_bytes());
            reply
        };
        match message.method() {
            Method::Invite => {
                let is_new = self.invites.iter().all(|(_, other)| other.call_id() != message.call_id());
                if is_new {
                    self.invites.push((life, message.clone()));
                }
                match self.phones {
                    Phones::Answer => vec![reply(200).finish_with("application/sdp", OFFER.as_bytes())],
                    Phones::Busy => vec![reply(486).finish()],
                    Phones::Silent => vec![reply(180).finish()],
                }
            }
            Method::Ack => Vec::new(),
            Method::Cancel => {
                let cancelled = self.invites.iter().find(|(_, invite)| invite.call_id() == message.call_id());
                let mut ended = Reply::new(&cancelled.unwrap().1, US.parse().unwrap(), 487, "So", Some("b"));
                ended.header("Contact", format!("<sip:party@{PHONE}>").as_bytes());
                vec![reply(200).finish(), ended.finish()]
            }
            _ => vec![reply(200).finish()],
        }
    }

    fn pass(&mut self, seconds: u64) {
        let until = self.now + Duration::from_secs(seconds);
        while self.now < until {
            self.now = self.now + Duration::from_millis(100);
            for at in 0..self.nodes.len() {
                let (now, node) = (self.now, &mut self.nodes[at]);
                if !node.is_alive {
                    continue;
                }
                node.endpoint.expire(now, &mut node.out);
                node.act(now, |voice, now, world| voice.expire(now, world));
                self.settle(at);
            }
        }
    }

    /// A trunk calls 1234 for the party, at a node: the sid of the call, which is up.
    fn trunk_calls(&mut self, at: usize) -> String {
        let invite = format!(
            "INVITE sip:1234@{US} SIP/2.0\r\nVia: SIP/2.0/UDP {PHONE};branch=z9hG4bKtrunk\r\nMax-Forwards: 70\r\n\
             From: <sip:{PARTY}@{PHONE}>;tag=a\r\nTo: <sip:1234@{US}>\r\nCall-ID: of-trunk\r\nCSeq: 1 INVITE\r\n\
             Contact: <sip:party@{PHONE}>\r\nContent-Type: application/sdp\r\nContent-Length: {}\r\n\r\n{OFFER}",
            OFFER.len()
        );
        self.nodes[at].hear(self.now, invite.into());
        self.up(at)
    }

    /// An application calls the party from a node: the sid of the call, which is up.
    fn application_calls(&mut self, at: usize) -> String {
        let target = |url: &str| Target { url: url.to_owned(), method: HttpMethod::Post };
        let events = vec!["initiated", "ringing", "answered", "completed"];
        let mut plan = numbers::plan_of(Start::Url(target("http://app/first")));
        plan.status = Some(Callback { target: target("http://app/told"), events });
        let common =
            store::rest::types::Common { sid: "CA1".into(), account: "AC1".into(), ..Default::default() };
        let call = RestCall {
            common,
            from: "1234".into(),
            to: PARTY.into(),
            status: "queued".into(),
            direction: "outbound-api".into(),
            node_life: self.nodes[at].life,
            ..RestCall::default()
        };
        self.rows.insert("CA1".into(), call.clone());
        let placing = Placing {
            call,
            owner: owner(),
            to: Address::parse(PARTY, None, None),
            send_digits: Vec::new(),
            from: "1234".into(),
            plan,
            timeout: Duration::from_secs(60),
            record: None,
            redial_of: None,
        };
        self.nodes[at].act(self.now, |voice, now, world| voice.place(now, placing, world).unwrap());
        self.up(at)
    }

    fn up(&mut self, at: usize) -> String {
        self.settle(at);
        self.pass(3);
        let is_ours = |call: &&RestCall| call.parent.is_empty() && call.node_life == self.nodes[at].life;
        let call = self.rows.values().find(is_ours).expect("the call has a row");
        assert!(call.status == "in-progress" && call.answered_at.is_some(), "{call:?}");
        call.common.sid.clone()
    }

    fn kill(&mut self, at: usize) {
        self.nodes[at].is_alive = false;
    }

    /// Does what `server::node::lost_calls` does with the rows of a dead life. `steps`: the keeper dies after so many of them.
    fn end_calls(&mut self, keeper: usize, dead: u32, policy: RedialPolicy, mut steps: usize) {
        let mut may_go_on = |farm: &mut Farm| {
            if steps == 0 {
                farm.kill(keeper);
            }
            steps = steps.saturating_sub(1);
            farm.nodes[keeper].is_alive
        };
        let found: Vec<String> = self
            .rows
            .values()
            .filter(|call| call.node_life == dead)
            .map(|call| call.common.sid.clone())
            .collect();
        for sid in &found {
            if !may_go_on(self) {
                return;
            }
            let call = self.rows.get_mut(sid).unwrap();
            if call.is_live() {
                lost_calls::end(self.now, call);
            }
        }
        for sid in &found {
            if !may_go_on(self) {
                return;
            }
            let lost = self.rows[sid].clone();
            let told = lost_calls::callback(self.now, &lost, &owner());
            self.told.extend(told.map(|wire| wire.body.unwrap_or_default()));
            if !may_go_on(self) {
                return;
            }
            let life = self.nodes[keeper].life;
            let next = redial::row(self.now, Life(life), &lost).filter(|_| policy != RedialPolicy::Never);
            let next = next.filter(|_| self.nodes[keeper].redials.accepts(self.now, Life(dead)));
            if let Some(call) = next.filter(|call| !self.rows.contains_key(&call.common.sid)) {
                self.rows.insert(call.common.sid.clone(), call.clone());
                if !may_go_on(self) {
                    return;
                }
                self.nodes[keeper].redials.push(call, &lost, owner());
            }
            if !may_go_on(self) {
                return;
            }
            lost_calls::forget(self.rows.get_mut(sid).unwrap());
        }
        if !may_go_on(self) {
            return;
        }
        let due: Vec<Placing> = self.nodes[keeper].redials.take_due().collect();
        for placing in due {
            self.nodes[keeper].act(self.now, |voice, now, world| redial::place(voice, now, placing, world));
            self.settle(keeper);
        }
    }

    /// INVITEs to the party by these nodes.
    fn called_again(&self, nodes: &[u32]) -> Vec<&Message> {
        let is_meant = |(life, invite): &&(u32, Message)| {
            nodes.contains(life) && text(Some(invite.uri())).starts_with(&format!("sip:{PARTY}@"))
        };
        self.invites.iter().filter(is_meant).map(|(_, invite)| invite).collect()
    }

    /// The call in place of the lost one.
    fn next(&self, lost: &str) -> &RestCall {
        let is_next = |call: &&RestCall| call.common.sid != lost && call.parent.is_empty();
        let next: Vec<_> = self.rows.values().filter(is_next).collect();
        assert_eq!(next.len(), 1, "{next:?}");
        next[0]
    }

    /// The statuses that an application was told of a call.
    fn statuses(&self, sid: &str) -> Vec<String> {
        let of_call = self.asked.iter().filter(|asked| asked.text.starts_with("http://app/told"));
        let of_call = of_call.map(|asked| asked.text.as_str()).chain(self.told.iter().map(String::as_str));
        let of_call = of_call.filter(|text| text.contains(&format!("CallSid={sid}")));
        let status = |text: &str| text.split("CallStatus=").nth(1)?.split('&').next().map(str::to_owned);
        of_call.filter_map(status).collect()
    }
}

fn owner() -> Arc<Owner> {
    Arc::new(Owner { account: "AC1".into(), signing_key: "key".into() })
}

/// The ACK of the trunk's INVITE.
fn acknowledgement(answer: &Message) -> Bytes {
    let [from, to] = [Header::From, Header::To].map(|header| text(answer.header(header)));
    format!(
        "ACK sip:1234@{US} SIP/2.0\r\nVia: SIP/2.0/UDP {PHONE};branch=z9hG4bKack\r\nMax-Forwards: 70\r\nFrom: {from}\r\n\
         To: {to}\r\nCall-ID: of-trunk\r\nCSeq: 1 ACK\r\nContent-Length: 0\r\n\r\n"
    )
    .into()
}

const ALL_STEPS: usize = usize::MAX;

#[test]
fn a_party_in_a_conference_a_queue_or_a_dial_is_called_again_once_and_gets_its_document_anew() {
    for verbs in VERBS {
        for is_of_trunk in [true, false] {
            let policy = if is_of_trunk { RedialPolicy::All } else { RedialPolicy::Accounts };
            let mut farm = Farm::new(policy, verbs);
            let lost = if is_of_trunk { farm.trunk_calls(0) } else { farm.application_calls(0) };
            farm.kill(0);
            farm.pass(3);
            // Both living nodes believe for a moment that it is theirs to do, and each looks several times.
            for keeper in [1, 2, 1, 2] {
                farm.end_calls(keeper, 1, policy, ALL_STEPS);
                farm.pass(2);
            }
            let row = &farm.rows[&lost];
            assert_eq!(
                (&*row.status, &*row.sip_reason_phrase),
                ("completed", "The node of the call has ended"),
                "{verbs}"
            );
            let again = farm.called_again(&[2, 3]);
            assert_eq!(again.len(), 1, "{verbs}");
            assert!(
                text(again[0].header(Header::From)).starts_with("<sip:1234@"),
                "from the number that was called"
            );
            let next = farm.next(&lost);
            assert_eq!(
                (&*next.status, &*next.direction, next.redial.is_some()),
                ("in-progress", "outbound-api", false)
            );
            let asked: Vec<_> =
                farm.asked.iter().filter(|asked| asked.text.contains(&format!("RedialOf={lost}"))).collect();
            let documents = asked.iter().filter(|asked| asked.text.starts_with("http://app/first")).count();
            assert_eq!(documents, 1, "{verbs}: {asked:?}");
            assert!(
                asked.iter().all(|asked| asked.life == 2 && asked.text.contains(&next.common.sid)),
                "{asked:?}"
            );
            if !is_of_trunk {
                assert_eq!(
                    farm.statuses(&lost).iter().filter(|status| *status == "completed").count(),
                    1,
                    "{verbs}"
                );
            }
        }
    }
}

#[test]
fn no_party_is_called_again_without_the_policy() {
    for verbs in VERBS {
        for policy in [RedialPolicy::Never, RedialPolicy::Accounts] {
            let mut farm = Farm::new(policy, verbs);
            // A trunk's caller is no account.
            let lost = farm.trunk_calls(0);
            farm.kill(0);
            farm.pass(3);
            farm.end_calls(1, 1, policy, ALL_STEPS);
            farm.pass(2);
            assert_eq!(farm.called_again(&[2, 3]).len(), 0, "{verbs}");
            assert_eq!(farm.rows[&lost].status, "completed");
            assert!(farm.rows.values().all(|call| !call.is_live()), "{verbs}: {:?}", farm.rows);
        }
    }
}

/// The node has handled the BYE a moment before its death. Of a BYE that comes later no node knows the call, and the party is called.
#[test]
fn a_caller_that_has_hung_up_is_not_called_again() {
    for verbs in VERBS {
        let mut farm = Farm::new(RedialPolicy::All, verbs);
        let lost = farm.trunk_calls(0);
        farm.nodes[0].act(farm.now, |voice, now, world| voice.hang_up_all(now, world));
        farm.settle(0);
        farm.kill(0);
        farm.pass(3);
        farm.end_calls(1, 1, RedialPolicy::All, ALL_STEPS);
        farm.pass(2);
        assert_eq!(farm.called_again(&[2, 3]).len(), 0, "{verbs}");
        let row = &farm.rows[&lost];
        assert_eq!((&*row.status, &*row.sip_reason_phrase), ("completed", ""), "its own end: {verbs}");
    }
}

/// The second node dies after each step of its work for the first.
#[test]
fn when_two_nodes_die_a_party_is_called_at_most_once_and_each_call_ends() {
    let mut called = BTreeSet::new();
    for steps in 0..15 {
        let verbs = VERBS[steps % VERBS.len()];
        let mut farm = Farm::new(RedialPolicy::Accounts, verbs);
        let lost = farm.application_calls(0);
        farm.kill(0);
        farm.pass(3);
        farm.end_calls(1, 1, RedialPolicy::Accounts, steps);
        farm.pass(1);
        farm.kill(1);
        farm.pass(3);
        for dead in [1, 2] {
            farm.end_calls(2, dead, RedialPolicy::Accounts, ALL_STEPS);
        }
        farm.pass(2);
        let again = farm.called_again(&[2, 3]).len();
        assert!(again <= 1, "{verbs}, {steps} steps: called {again} times");
        called.insert(again);
        assert_eq!(farm.rows[&lost].status, "completed", "{verbs}, {steps} steps");
        // The call in its place is up at the third node, or has ended with the second.
        let of_dead = |call: &&RestCall| call.is_live() && call.node_life != 3 && call.parent.is_empty();
        assert_eq!(farm.rows.values().find(of_dead), None, "{verbs}, {steps} steps");
        assert!(farm.statuses(&lost).contains(&"completed".to_owned()), "{verbs}, {steps} steps");
    }
    assert_eq!(called, [0, 1].into(), "both outcomes are there");
}

#[test]
fn a_party_that_is_busy_or_does_not_answer_is_not_called_a_third_time_and_the_application_is_told() {
    for (phones, status) in [(Phones::Busy, "busy"), (Phones::Silent, "no-answer")] {
        let mut farm = Farm::new(RedialPolicy::Accounts, VERBS[0]);
        let lost = farm.application_calls(0);
        farm.kill(0);
        farm.phones = phones;
        farm.pass(3);
        farm.end_calls(1, 1, RedialPolicy::Accounts, ALL_STEPS);
        farm.pass(70);
        farm.look_around();
        farm.kill(1);
        farm.pass(3);
        farm.end_calls(2, 2, RedialPolicy::Accounts, ALL_STEPS);
        farm.pass(70);
        assert_eq!(farm.called_again(&[2, 3]).len(), 1, "{phones:?}");
        let next = farm.next(&lost);
        assert_eq!((&*next.status, next.node_life), (status, 0), "{phones:?}: {next:?}");
        let told = farm.statuses(&next.common.sid.clone());
        assert_eq!(told.last().map(String::as_str), Some(status), "{told:?}");
        assert_eq!(told.iter().filter(|told| *told == status).count(), 1, "{told:?}");
    }
}

//! Scenarios written in a line a step, and the network between two of them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use stdx::rng::Rng;
use stdx::time::Instant;

use crate::call::message::Incoming;
use crate::call::render::{Addresses, PreparedMessages};
use crate::call::{
    Call, CallContext, CallEffect, CallEnv, CallIdentity, CallMediaControl, CallOutbox, CallOutcome,
    ScenarioRole, TransportFault,
};
use crate::inject::InjectionFiles;
use crate::options::Options;
use crate::rtp::{MediaCommand, PortKind, RemoteMedia, Requirement};
use crate::scenario::Scenario;
use crate::scenario::model::{
    DefaultMessages, Distribution, Expect, Needs, Optional, Pause, RecvStep, Role, ScenarioSource,
    ScenarioStep, ScreenHints, SendStep, SentKind, StepFlow, StepKind, Timing, Variables,
};
use crate::scenario::template::{Keyword, Template, TemplatePart};
use crate::stats::{Count, Stats};

pub(super) const START: Instant = Instant::from_unix_seconds(1_000_000);

/// A step without anything but its kind.
pub(super) fn step(kind: StepKind) -> ScenarioStep {
    ScenarioStep {
        line: 1,
        kind,
        flow: StepFlow::default(),
        timing: Timing::default(),
        screen: ScreenHints::default(),
        actions: Vec::new(),
    }
}

pub(super) fn recv(expect: Expect) -> RecvStep {
    RecvStep {
        expect,
        optional: Optional::No,
        timeout: None,
        timeout_variable: None,
        start_txn: None,
        rrs: false,
        auth: false,
        response_txn: None,
        advance_state: true,
        ignore_sdp: false,
    }
}

pub(super) fn code(code: u16) -> ScenarioStep {
    step(StepKind::Recv(recv(Expect::Response(code))))
}

pub(super) fn maybe(code: u16) -> ScenarioStep {
    step(StepKind::Recv(RecvStep { optional: Optional::Yes, ..recv(Expect::Response(code)) }))
}

pub(super) fn wants(method: &str) -> ScenarioStep {
    step(StepKind::Recv(recv(Expect::Request(method.into()))))
}

pub(super) fn pause(ms: f64) -> ScenarioStep {
    step(StepKind::Pause(Pause::For(Distribution::Fixed(ms))))
}

fn text(text: &str) -> TemplatePart {
    TemplatePart::Text(text.as_bytes().into())
}

/// A request with its own branch.
pub(super) fn request(method: &str, retrans: Option<u64>) -> ScenarioStep {
    let cseq = if method == "ACK" { text("1") } else { TemplatePart::Keyword(Keyword::Cseq(0)) };
    let parts = vec![
        text(&format!("{method} sip:uas@127.0.0.2 SIP/2.0\nVia: SIP/2.0/UDP 127.0.0.1;branch=")),
        TemplatePart::Keyword(Keyword::Branch(0)),
        text("\nFrom: <sip:uac@x>;tag=1\nTo: <sip:uas@x>"),
        TemplatePart::Keyword(Keyword::PeerTagParam),
        text("\nCall-ID: "),
        TemplatePart::Keyword(Keyword::CallId),
        text("\nCSeq: "),
        cseq,
        text(&format!(" {method}\nContent-Length: 0\n")),
    ];
    step(StepKind::Send(SendStep {
        message: Template { parts, has_len: false },
        what: SentKind::Request(method.into()),
        retrans: retrans.map(Duration::from_millis),
        timeout: None,
        start_txn: None,
        ack_txn: None,
        response_txn: None,
    }))
}

/// A response to the last request.
pub(super) fn response(code: u16, retrans: Option<u64>) -> ScenarioStep {
    let mut parts = vec![text(&format!("SIP/2.0 {code} Text\n"))];
    for name in ["Via", "From", "To", "Call-ID", "CSeq"] {
        parts.push(TemplatePart::Keyword(Keyword::Last(name.into())));
        // COMPAT: the peer's tag stands at the end of To, where the tests' scenarios put it.
        parts.push(text(if name == "To" { ";tag=uas\n" } else { "\n" }));
    }
    parts.push(text("Content-Length: 0\n"));
    step(StepKind::Send(SendStep {
        message: Template { parts, has_len: false },
        what: SentKind::Response(code),
        retrans: retrans.map(Duration::from_millis),
        timeout: None,
        start_txn: None,
        ack_txn: None,
        response_txn: None,
    }))
}

pub(super) fn scenario(role: Role, steps: Vec<ScenarioStep>) -> Scenario {
    Scenario {
        name: "test".to_owned(),
        source: ScenarioSource::BuiltIn("test"),
        role,
        steps,
        init: Vec::new(),
        labels: Vec::new(),
        variables: Variables::default(),
        transactions: Vec::new(),
        rtds: vec!["1".to_owned()],
        response_times: Vec::new(),
        call_lengths: Vec::new(),
        counters: vec!["one".to_owned()],
        defaults: DefaultMessages::default(),
        needs: Needs { last_message: role == Role::Server, ..Needs::default() },
        text: String::new(),
    }
}

/// SIPp's `-sn uac`.
pub(super) fn uac() -> Scenario {
    let mut steps = vec![
        request("INVITE", Some(500)),
        maybe(100),
        maybe(180),
        maybe(183),
        code(200),
        request("ACK", None),
        pause(0.0),
        request("BYE", Some(500)),
        code(200),
    ];
    steps[0].timing.start = vec![0];
    steps[4].timing.stop = vec![0];
    scenario(Role::Client, steps)
}

/// SIPp's `-sn uas`.
pub(super) fn uas() -> Scenario {
    scenario(
        Role::Server,
        vec![
            wants("INVITE"),
            response(180, None),
            response(200, Some(500)),
            wants("ACK"),
            wants("BYE"),
            response(200, None),
            step(StepKind::TimeWait(Duration::from_secs(4))),
        ],
    )
}

#[derive(Debug, Default)]
pub(super) struct ObservedMessage {
    pub remote: Vec<RemoteMedia>,
    /// The requirements that the media of every call missed.
    pub missed: Option<&'static str>,
    /// The end of the streams of every call.
    pub streams_end: Option<Instant>,
}

impl CallMediaControl for ObservedMessage {
    fn port(&mut self, _: u64, _: PortKind, _: i32) -> Result<u16, String> {
        Ok(6000)
    }

    fn remote(&mut self, _: u64, description: &RemoteMedia) {
        self.remote.push(description.clone());
    }

    fn command(&mut self, _: Instant, _: u64, _: &MediaCommand) -> Result<(), String> {
        Ok(())
    }

    fn check(&mut self, _: Instant, _: u64, _: &Requirement) -> Result<(), String> {
        Ok(())
    }

    fn streams_end(&self, _: u64) -> Option<Instant> {
        self.streams_end
    }

    fn verdict(&mut self, _: u64, _: &mut Vec<String>) -> Result<(), String> {
        self.missed.map_or(Ok(()), |missed| Err(missed.to_owned()))
    }

    fn crypto(&mut self, _: u64, _: &str) -> Result<String, String> {
        Ok(String::new())
    }

    fn close(&mut self, _: Instant, _: u64, _: &mut Stats) {}
}

/// One end: a scenario and its calls, without a network.
pub(super) struct Endpoint {
    pub env: CallEnv,
    pub stats: Stats,
    pub out: CallOutbox,
    pub media: ObservedMessage,
    pub rng: Rng,
    pub calls: BTreeMap<Vec<u8>, Call>,
    pub ended: Vec<CallOutcome>,
    /// Texts sent, and commands after `cmd:`.
    pub sent: Vec<String>,
    pub now: Instant,
    /// The kernel's stamp of the next message, when it is not `now`.
    pub received: Option<Instant>,
}

impl Endpoint {
    pub(super) fn new(scenario: Scenario, options: Options) -> Endpoint {
        let files = InjectionFiles::default();
        let prepared = PreparedMessages::new(&scenario, &options, &Addresses::default(), &files).unwrap();
        let stats = Stats::sized(scenario.steps.len(), 0, 0, scenario.rtds.len(), scenario.counters.len());
        let globals = vec![crate::call::VariableValue::Unset; scenario.variables.global.len()];
        Endpoint {
            env: CallEnv {
                options: Arc::new(options),
                scenario: Arc::new(scenario),
                prepared,
                files: Arc::new(files),
                globals: Arc::new(parking_lot::RwLock::new(globals)),
                tracer: crate::trace::Tracer::default(),
                pid: 1,
                started: START,
                which: ScenarioRole::Main,
            },
            stats,
            out: CallOutbox::default(),
            media: ObservedMessage::default(),
            rng: Rng::seeded(1),
            calls: BTreeMap::new(),
            ended: Vec::new(),
            sent: Vec::new(),
            now: START,
            received: None,
        }
    }

    fn act<T>(&mut self, work: impl FnOnce(&mut CallContext<'_>) -> T) -> T {
        let mut ctx = CallContext {
            now: self.now,
            received: self.received.unwrap_or(self.now),
            env: &self.env,
            stats: &mut self.stats,
            out: &mut self.out,
            media: &mut self.media,
            rng: &mut self.rng,
            user: None,
            users: 1,
        };
        let done = work(&mut ctx);
        self.flush();
        done
    }

    fn flush(&mut self) {
        for effect in std::mem::take(&mut self.out.effects) {
            match effect {
                CallEffect::Send { start, end, .. } => {
                    self.sent.push(String::from_utf8_lossy(&self.out.bytes[start..end]).into_owned());
                }
                CallEffect::Command { start, end, .. } => {
                    self.sent.push(format!("cmd:{}", String::from_utf8_lossy(&self.out.bytes[start..end])));
                }
                CallEffect::Verify(command) => self.sent.push(format!("verify:{command}")),
                CallEffect::Ended { outcome } => self.ended.push(outcome),
                other => panic!("not asked for: {other:?}"),
            }
        }
        self.out.bytes.clear();
    }

    pub(super) fn start(&mut self, id: &str) {
        self.start_any(id.as_bytes());
    }

    /// A peer may choose a Call-ID that is no text.
    fn start_any(&mut self, id: &[u8]) {
        let number = self.calls.len() as u64 + 1;
        let incoming = self.env.scenario.role == Role::Server;
        let identity = CallIdentity {
            number,
            call_id: id.into(),
            due: self.now,
            local: "127.0.0.1:5060".parse().unwrap(),
            remote: "127.0.0.2:5060".parse().unwrap(),
            user: 0,
            incoming,
            lines: Box::default(),
        };
        // The engine counts what it starts.
        self.stats.count(if incoming { Count::IncomingCall } else { Count::OutgoingCall });
        let call = self.act(|ctx| Call::start(ctx, identity));
        self.calls.insert(id.to_vec(), call);
    }

    pub(super) fn on_call<T>(
        &mut self,
        id: &[u8],
        work: impl FnOnce(&mut Call, &mut CallContext<'_>) -> T,
    ) -> T {
        let mut call = self.calls.remove(id).unwrap();
        let done = self.act(|ctx| work(&mut call, ctx));
        self.calls.insert(id.to_vec(), call);
        done
    }

    /// Bytes of any kind, to the call they name; a server starts a call for the first.
    pub(super) fn deliver(&mut self, bytes: &[u8]) {
        let Ok(message) = Incoming::parse(bytes) else {
            self.stats.count(Count::Malformed);
            return;
        };
        let id = message.call_id.to_vec();
        if !self.calls.contains_key(&id) {
            if self.env.scenario.role != Role::Server {
                self.stats.count(Count::OutOfCallMsgs);
                return;
            }
            self.start_any(&id);
        }
        let from: SocketAddr = "127.0.0.2:5060".parse().unwrap();
        self.on_call(&id, |call, ctx| call.handle_message(ctx, &message, from));
    }

    /// A response to request `method` with this code, as a peer of call `id` would send it.
    pub(super) fn answer(&mut self, id: &str, code: u16, cseq: u32, method: &str) {
        self.deliver(answer_text(id, code, cseq, method, "z9hG4bK-x").as_bytes());
    }

    pub(super) fn ask(&mut self, id: &str, cseq: u32, method: &str) {
        self.deliver(ask_text(id, cseq, method).as_bytes());
    }

    pub(super) fn wait(&mut self, ms: u64) {
        let until = self.now + Duration::from_millis(ms);
        while let Some((id, deadline)) = self.next_deadline().filter(|(_, deadline)| *deadline <= until) {
            self.now = deadline.max(self.now);
            self.on_call(&id, |call, ctx| call.handle_wake(ctx));
        }
        self.now = until;
    }

    pub(super) fn next_deadline(&self) -> Option<(Vec<u8>, Instant)> {
        let open = self.calls.iter().filter(|(_, call)| !call.over && call.deadline != Instant::FAR_FUTURE);
        open.map(|(id, call)| (id.clone(), call.deadline)).min_by_key(|(_, deadline)| *deadline)
    }

    pub(super) fn fault(&mut self, id: &str, fault: TransportFault) {
        self.on_call(id.as_bytes(), |call, ctx| call.handle_fault(ctx, fault));
    }

    pub(super) fn count(&self, what: Count) -> u64 {
        self.stats.counts[what]
    }

    /// First words of what was sent since the last look.
    pub(super) fn said(&mut self) -> Vec<String> {
        std::mem::take(&mut self.sent).iter().map(|text| first_words(text)).collect()
    }

    /// The books balance: what was created either succeeded or failed, told once each, and failures have one cause.
    pub(super) fn assert_books(&self) {
        let count = |what| self.count(what);
        let created = count(Count::IncomingCall) + count(Count::OutgoingCall);
        assert_eq!(created, count(Count::SuccessfulCall) + count(Count::FailedCall));
        assert_eq!(created, self.ended.len() as u64);
        for (at, step) in self.stats.steps.iter().enumerate() {
            assert_eq!(step.entered, step.left, "step {at}");
        }
    }
}

fn first_words(text: &str) -> String {
    let text = text.strip_prefix("SIP/2.0 ").unwrap_or(text);
    text.split([' ', '\r', '\n']).next().unwrap_or_default().to_owned()
}

pub(super) fn answer_text(id: &str, code: u16, cseq: u32, method: &str, branch: &str) -> String {
    format!(
        "SIP/2.0 {code} Some Text\r\nVia: SIP/2.0/UDP 127.0.0.1;branch={branch}\r\nFrom: <sip:uac@x>;tag=1\r\n\
         To: <sip:uas@x>;tag=peer\r\nCall-ID: {id}\r\nCSeq: {cseq} {method}\r\nContent-Length: 0\r\n\r\n"
    )
}

pub(super) fn ask_text(id: &str, cseq: u32, method: &str) -> String {
    format!(
        "{method} sip:x@y SIP/2.0\r\nVia: SIP/2.0/UDP 127.0.0.2;branch=z9hG4bK-{cseq}\r\nFrom: <sip:a@x>;tag=1\r\n\
         To: <sip:b@x>\r\nCall-ID: {id}\r\nCSeq: {cseq} {method}\r\nContent-Length: 0\r\n\r\n"
    )
}

/// Two ends and the wire between them.
pub(super) struct World {
    pub uac: Endpoint,
    pub uas: Endpoint,
    pub rng: Rng,
    /// Per mille.
    pub loss: u32,
    pub doubles: u32,
    /// Milliseconds a datagram may take; equal ends reorder nothing.
    pub delay: (u64, u64),
    wire: Vec<(Instant, u64, bool, String)>,
    serial: u64,
}

impl World {
    pub(super) fn new(uac: Endpoint, uas: Endpoint, seed: u64) -> World {
        World {
            uac,
            uas,
            rng: Rng::seeded(seed),
            loss: 0,
            doubles: 0,
            delay: (1, 1),
            wire: Vec::new(),
            serial: 0,
        }
    }

    fn post(&mut self, now: Instant, to_uas: bool) {
        let sent = std::mem::take(if to_uas { &mut self.uac.sent } else { &mut self.uas.sent });
        for text in sent {
            let copies = 1 + u32::from(self.rng.chance(self.doubles));
            for _ in 0..copies {
                if self.rng.chance(self.loss) {
                    continue;
                }
                let wait = self.delay.0 + self.rng.below(self.delay.1 - self.delay.0 + 1);
                self.serial += 1;
                self.wire.push((now + Duration::from_millis(wait), self.serial, to_uas, text.clone()));
            }
        }
    }

    /// Until nothing is left to happen, or for an hour.
    pub(super) fn run(&mut self) {
        let end = START + Duration::from_secs(3600);
        let mut now = self.uac.now;
        loop {
            self.post(now, true);
            self.post(now, false);
            let arrival = self.wire.iter().map(|(at, ..)| *at).min();
            let wakes = [self.uac.next_deadline(), self.uas.next_deadline()];
            let next = wakes.iter().flatten().map(|(_, at)| *at).chain(arrival).min();
            let Some(next) = next.filter(|next| *next < end) else {
                return;
            };
            now = now.max(next);
            (self.uac.now, self.uas.now) = (now, now);
            if arrival == Some(next) {
                let first =
                    (0..self.wire.len()).min_by_key(|at| (self.wire[*at].0, self.wire[*at].1)).unwrap();
                let (_, _, to_uas, text) = self.wire.remove(first);
                let end = if to_uas { &mut self.uas } else { &mut self.uac };
                end.deliver(text.as_bytes());
                continue;
            }
            for end in [&mut self.uac, &mut self.uas] {
                if let Some((id, _)) = end.next_deadline().filter(|(_, at)| *at <= now) {
                    end.on_call(&id, |call, ctx| call.handle_wake(ctx));
                }
            }
        }
    }
}

#[test]
fn a_call_goes_through() {
    let mut world =
        World::new(Endpoint::new(uac(), Options::default()), Endpoint::new(uas(), Options::default()), 1);
    for id in 0..3 {
        world.uac.start(&format!("{id}@host"));
    }
    world.run();
    for end in [&world.uac, &world.uas] {
        assert_eq!(end.count(Count::SuccessfulCall), 3);
        assert_eq!(end.count(Count::Retransmissions), 0);
        assert_eq!(end.count(Count::Warnings), 0);
        end.assert_books();
    }
    assert_eq!(
        world.uac.stats.steps.iter().map(|step| step.messages).collect::<Vec<_>>(),
        [3, 0, 3, 0, 3, 3, 3, 3, 3]
    );
    // One way there and one back, a millisecond each.
    assert_eq!(world.uac.stats.rtds[0].service.mean(), Some(Duration::from_millis(2)));
    assert_eq!(world.uac.stats.call_length.mean(), Some(Duration::from_millis(4)));
    assert_eq!(world.uas.stats.call_length.mean(), Some(Duration::from_millis(4_002)));
}

/// How many of 750 calls failed; every call must have ended and the books balance.
fn failures_over(loss: u32, doubles: u32, delay: (u64, u64)) -> u64 {
    let mut failed = 0;
    for seed in 0..150 {
        let mut options = Options::default();
        options.timers.recv_timeout = Some(Duration::from_secs(60));
        if seed % 2 == 1 {
            options.timers.retransmission_check = crate::options::RetransmissionCheck::Loose;
        }
        let mut world =
            World::new(Endpoint::new(uac(), options.clone()), Endpoint::new(uas(), options), seed);
        (world.loss, world.doubles, world.delay) = (loss, doubles, delay);
        for id in 0..5 {
            world.uac.start(&format!("{id}@host"));
        }
        world.run();
        for end in [&world.uac, &world.uas] {
            assert!(end.calls.values().all(|call| call.over), "seed {seed}");
            end.assert_books();
        }
        assert_eq!(world.uac.count(Count::OutgoingCall), 5);
        failed += world.uac.count(Count::FailedCall);
    }
    failed
}

/// Retransmission heals loss. The rest, a call in a hundred: the ACK is lost, so the BYE is unexpected and ends the
/// server's call, and the 200 to the BYE is lost too. SIPp's server does no better.
#[test]
fn calls_outlive_loss() {
    let failed = failures_over(100, 0, (1, 1));
    assert!(failed <= 20, "{failed} of 750 failed");
}

/// A message that comes twice in a row is answered as it was.
#[test]
fn calls_outlive_doubles() {
    assert_eq!(failures_over(0, 300, (1, 1)), 0);
}

/// Reordering spoils calls, as it does with SIPp: a provisional after the ACK is unexpected. They still end.
#[test]
fn every_call_ends_over_a_bad_network() {
    let failed = failures_over(150, 100, (1, 40));
    assert!((1..500).contains(&failed), "{failed} of 750 failed");
}

#[test]
fn a_call_is_small() {
    let size = size_of::<Call>();
    println!("a call takes {size} bytes");
    assert!(size <= 400, "{size}");
}

//! Limits of accounts, with the router that counts.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use router::{Answer, Binding, Contact, Life, Router, RouterSettings, ShardAddress};
use stdx::Instant;

use std::sync::Arc;

use super::*;
use crate::digest::Ha1s;
use crate::transport::Source;
use crate::transport::{Packet, Transport};

const US: &str = "192.0.2.1:5060";
const PHONE: &str = "198.51.100.7:5060";
const EDGE: ShardAddress = ShardAddress { life: Life(0), shard: 0 };
const ALICE: &str = "alice@example.test";
const BOB: &str = "bob@example.test";

/// Every caller has authenticated as Alice. Bob has a phone; all other addresses belong to a carrier.
struct World {
    endpoint: Endpoint,
    router: Router,
    now: Instant,
    alice: CallLimits,
    bob: CallLimits,
    decision: fn() -> Decision,
    parties: Vec<Party>,
    /// Everything sent.
    sent: Vec<String>,
    asked: usize,
}

/// One account in a call, as the shard remembers it.
#[derive(Clone)]
struct Party {
    call: u64,
    aor: router::Aor,
    initiator: bool,
    call_id: Box<str>,
    caller_tag: Box<str>,
}

fn to_bob() -> Decision {
    Decision::Local { user: "bob".into(), domain: "example.test".into() }
}

fn out() -> Decision {
    Decision::Targets(vec![vec!["sip:1@203.0.113.9".into()]])
}

impl World {
    fn new(alice: CallLimits, bob: CallLimits, decision: fn() -> Decision) -> Self {
        let now = Instant::from_unix_seconds(1_700_000_000);
        let endpoint = Endpoint::new(EndpointSettings::for_tests(EDGE, US.parse().unwrap()), now);
        let router = Router::new(RouterSettings::default(), [4; 16], now);
        World { endpoint, router, now, alice, bob, decision, parties: Vec::new(), sent: Vec::new(), asked: 0 }
    }

    fn account(aor: &str, limits: &CallLimits) -> Account {
        let limits = (*limits != CallLimits::default()).then(|| Arc::new(limits.clone()));
        let ha1s = Ha1s { md5: [0; 16], sha256: [0; 32], sha512_256: [0; 32] };
        Account { aor: aor.into(), ha1s, disabled: false, max_contacts: 1, limits }
    }

    /// The start lines of the messages sent.
    fn receive(&mut self, from: &str, text: &str) -> Vec<String> {
        let source = Source {
            transport: Transport::Udp,
            local: US.parse().unwrap(),
            remote: from.parse::<SocketAddr>().unwrap(),
            flow: None,
        };
        let (mut out, mut sent) = (EndpointOutbox::new(), Vec::new());
        let packet = Packet { bytes: Bytes::from(text.to_owned()), source };
        self.endpoint.handle_packet(self.now, packet, &mut out);
        while !out.is_empty() {
            for effect in std::mem::take(&mut out) {
                self.perform(effect, &mut out, &mut sent);
            }
        }
        sent
    }

    fn perform(&mut self, effect: EndpointEffect, out: &mut EndpointOutbox, sent: &mut Vec<String>) {
        match effect {
            EndpointEffect::Transmit(transmit) => {
                let text = String::from_utf8(transmit.bytes.to_vec()).unwrap();
                sent.push(text.lines().next().unwrap().to_owned());
                self.sent.push(text);
            }
            EndpointEffect::Plan { id, request } if request.caller == Caller::Stranger => {
                let account = World::account(ALICE, &self.alice);
                let caller = (account.aor, account.limits);
                let lower = &mut self.endpoint.lower.at(self.now, out);
                self.endpoint.cores.router.plan_for(lower, Key::from_u64(id.0), caller, 0);
            }
            EndpointEffect::Plan { id, .. } => {
                self.endpoint.handle_plan(self.now, id, (self.decision)(), out);
            }
            EndpointEffect::Account { id, .. } => {
                let account = World::account(BOB, &self.bob);
                self.endpoint.handle_account(self.now, id, Ok(Some(account)), out);
            }
            EndpointEffect::Ask { id, query: router::Query::Lookup { .. } } => {
                self.endpoint.handle_answer(self.now, id, Answer::Bindings(vec![phone()]), out);
            }
            EndpointEffect::Ask { id, query } => {
                self.asked += 1;
                self.ask(id, query, out);
            }
            EndpointEffect::Call(event) => self.note(&event, out),
            _ => {}
        }
    }

    fn ask(&mut self, id: AskId, query: router::Query, out: &mut EndpointOutbox) {
        let mut effects = Vec::new();
        self.router.handle_query(self.now, EDGE, id, query, &mut effects);
        for effect in effects {
            if let router::Effect::Answer { id, answer, .. } = effect {
                self.endpoint.handle_answer(self.now, id, answer, out);
            }
        }
    }

    /// As the shard tells the router of calls.
    fn note(&mut self, event: &CallEvent, out: &mut EndpointOutbox) {
        let phase = match &event.kind {
            CallEventKind::Started { call_id, from_tag, caller, callee, .. } => {
                let of = |aor: &Option<router::Aor>, initiator| {
                    aor.clone().map(|aor| Party {
                        call: event.call,
                        aor,
                        initiator,
                        call_id: call_id.clone(),
                        caller_tag: from_tag.clone(),
                    })
                };
                self.parties.extend([of(caller, true), of(callee, false)].into_iter().flatten());
                router::CallPhase::Trying
            }
            CallEventKind::Refused { .. } | CallEventKind::TakenOver { .. } => return,
            CallEventKind::Ringing { .. } => router::CallPhase::Early,
            CallEventKind::Answered { .. } => router::CallPhase::Confirmed,
            CallEventKind::Failed { .. } | CallEventKind::Withdrawn | CallEventKind::Ended => {
                router::CallPhase::Terminated
            }
        };
        for party in self.parties.clone().into_iter().filter(|party| party.call == event.call) {
            let Party { aor, initiator, call_id, caller_tag, .. } = party;
            let (local_tag, remote_tag) =
                if initiator { (caller_tag, "".into()) } else { ("".into(), caller_tag) };
            let call =
                router::CallInfo { call_id, local_tag, remote_tag, initiator, remote: "sip:x".into(), phase };
            self.ask(AskId(0), router::Query::CallChanged { aor, call }, out);
        }
    }

    fn request(method: &str, call: usize, to_tag: &str) -> String {
        format!(
            "{method} sip:bob@example.test SIP/2.0\r\nVia: SIP/2.0/UDP {PHONE};branch=z9hG4bK-{method}{call}\r\n\
             From: <sip:alice@example.test>;tag=1\r\nTo: <sip:bob@example.test>{to_tag}\r\nCall-ID: c{call}\r\n\
             CSeq: 1 {method}\r\nContact: <sip:a@{PHONE}>\r\nMax-Forwards: 70\r\nContent-Length: 0\r\n\r\n"
        )
    }

    /// The first message to the caller, or the callee.
    fn call(&mut self, call: usize) -> String {
        self.receive(PHONE, &World::request("INVITE", call, "")).remove(0)
    }

    /// The callee answers the call, one side ends it, and the other agrees.
    fn hang_up(&mut self, call: usize) {
        self.answer("INVITE", call);
        self.receive(PHONE, &World::request("BYE", call, ";tag=b"));
        self.answer("BYE", call);
    }

    /// 200 to the forwarded request, from where it was sent.
    fn answer(&mut self, method: &str, call: usize) {
        let call_id = format!("Call-ID: c{call}\r\n");
        let is_it = |text: &&String| text.starts_with(method) && text.contains(&call_id);
        let request = self.sent.iter().rev().find(is_it).unwrap().clone();
        let wanted = ["Via:", "From:", "Call-ID:", "CSeq:", "Record-Route:"];
        let lines = request.lines().filter(|line| wanted.iter().any(|name| line.starts_with(name)));
        let lines: String = lines.map(|line| format!("{line}\r\n")).collect();
        let from = if request.contains("203.0.113.9") { "203.0.113.9:5060" } else { "198.51.100.8:5070" };
        let answer = format!(
            "SIP/2.0 200 OK\r\n{lines}To: <sip:bob@example.test>;tag=b\r\nContact: <sip:b@{from}>\r\n\
             Content-Length: 0\r\n\r\n"
        );
        self.receive(from, &answer);
    }
}

fn phone() -> Binding {
    let contact = Contact {
        uri: "sip:bob@198.51.100.8:5070".into(),
        q: 1_000,
        expires: 600,
        instance: "urn:uuid:1".into(),
        reg_id: 0,
        path: "".into(),
        user_agent: "".into(),
        received: None,
    };
    Binding { contact, expires_at: Instant::FAR_FUTURE, call_id: "r".into(), cseq: 1 }
}

fn at_once(calls: u32) -> CallLimits {
    CallLimits { max_calls: Some(calls), ..CallLimits::default() }
}

#[test]
fn an_account_has_no_more_calls_at_once_than_it_may() {
    let mut world = World::new(at_once(2), CallLimits::default(), out);
    assert!(world.call(1).starts_with("INVITE") && world.call(2).starts_with("INVITE"));
    assert_eq!(world.call(3), "SIP/2.0 403 Too Many Calls Of This Account");
    assert_eq!(world.endpoint.counters().refused_by_limit, 1);
    world.hang_up(1);
    assert!(world.call(4).starts_with("INVITE"), "one has ended");
    assert_eq!(world.call(5), "SIP/2.0 403 Too Many Calls Of This Account");
}

/// RFC 3261 §12: the tags are part of a dialog's name.
#[test]
fn calls_under_one_call_id_are_counted_one_by_one() {
    let mut world = World::new(at_once(2), CallLimits::default(), out);
    let call = |world: &mut World, tag: usize| {
        let text = World::request("INVITE", 1, "").replace(";tag=1", &format!(";tag=t{tag}"));
        world.receive(PHONE, &text.replace("z9hG4bK-", &format!("z9hG4bK-t{tag}"))).remove(0)
    };
    assert!(call(&mut world, 1).starts_with("INVITE") && call(&mut world, 2).starts_with("INVITE"));
    assert_eq!(call(&mut world, 3), "SIP/2.0 403 Too Many Calls Of This Account");
}

#[test]
fn a_call_that_never_begins_counts_no_more() {
    let mut world = World::new(at_once(1), CallLimits::default(), || Decision::Refuse {
        status: 404,
        reason: "Not Found".into(),
    });
    for call in 0..5 {
        assert_eq!(world.call(call), "SIP/2.0 404 Not Found");
    }
    world.decision = || Decision::Deny;
    assert_eq!(world.call(5), "SIP/2.0 403 Destination Denied");
    assert_eq!(world.endpoint.counters().refused_destinations, 1);
    world.decision = || Decision::TooFast;
    assert_eq!(world.call(6), "SIP/2.0 403 Too Many Calls By This Route");
    // RFC 3261 §21.5.4: a plan that is not known yet.
    world.decision = || Decision::Unavailable;
    assert_eq!(world.call(7), "SIP/2.0 503 Service Unavailable");
    world.decision = out;
    assert!(world.call(8).starts_with("INVITE"));
}

#[test]
fn a_callee_with_all_the_calls_it_may_have_is_busy() {
    let mut world = World::new(CallLimits::default(), at_once(1), to_bob);
    assert!(world.call(1).starts_with("INVITE sip:bob@198.51.100.8:5070"));
    assert_eq!(world.call(2), "SIP/2.0 486 Busy Here");
    world.hang_up(1);
    assert!(world.call(3).starts_with("INVITE"));
}

/// RFC 5627 §6.1: another name of one of the account's phones.
#[test]
fn a_call_to_a_gruu_is_a_call_of_its_account() {
    let mut world = World::new(CallLimits::default(), at_once(1), to_bob);
    let call = |world: &mut World, call: usize| {
        let text = World::request("INVITE", call, "");
        let gruu = "INVITE sip:bob@example.test;gr=urn:uuid:1 SIP";
        world.receive(PHONE, &text.replace("INVITE sip:bob@example.test SIP", gruu)).remove(0)
    };
    assert!(call(&mut world, 1).starts_with("INVITE sip:bob@198.51.100.8:5070"));
    assert_eq!(call(&mut world, 2), "SIP/2.0 486 Busy Here");
    assert_eq!(world.call(3), "SIP/2.0 486 Busy Here");
    world.hang_up(1);
    assert!(call(&mut world, 4).starts_with("INVITE"));
}

#[test]
fn an_account_places_so_many_calls_a_second() {
    let limits = CallLimits { max_rate: Some(3), ..CallLimits::default() };
    let mut world = World::new(limits, CallLimits::default(), out);
    let placed = |world: &mut World, from: usize| {
        (from..from + 9).filter(|call| world.call(*call).starts_with("INVITE")).count()
    };
    assert_eq!(placed(&mut world, 0), 3);
    assert_eq!(world.call(9), "SIP/2.0 403 Too Many Calls A Second");
    world.now = world.now + Duration::from_secs(1);
    assert_eq!(placed(&mut world, 10), 3);
}

#[test]
fn accounts_without_limits_are_not_asked_for() {
    let mut world = World::new(CallLimits::default(), CallLimits::default(), to_bob);
    assert!(world.call(1).starts_with("INVITE"));
    assert_eq!(world.asked, 0);
    // Nor are requests that are no call.
    let mut world = World::new(at_once(0), at_once(0), to_bob);
    let sent = world.receive(PHONE, &World::request("OPTIONS", 1, ""));
    assert!(sent[0].starts_with("OPTIONS"), "{sent:?}");
    assert_eq!(world.asked, 0);
}

//! Every message of RFC 4475 given to an endpoint that serves example.com: its effects.

#![expect(clippy::unwrap_used, reason = "a test helper that panics is a failed test")]

use std::fs;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use router::{Answer, Binding, Contact, Life, Query, ShardAddress};
use sip::digest::Ha1s;
use sip::endpoint::{
    Account, Decision, Endpoint, EndpointEffect, EndpointOutbox, EndpointSettings, PlanRequest,
};
use sip::transport::{Packet, Source, Transport};
use sip::wire::{Header, Message};
use stdx::Instant;
use stdx::rng::Rng;

const START: Instant = Instant::from_unix_seconds(1_700_000_000);

fn endpoint() -> Endpoint {
    let listeners = ["192.0.2.1:5060", "[2001:db8::1]:5060"].map(|address| address.parse().unwrap());
    Endpoint::new(
        EndpointSettings {
            domains: vec!["example.com".into()],
            ..sim::settings(ShardAddress { life: Life(1), shard: 0 }, &listeners)
        },
        START,
    )
}

/// Accounts are found, strangers' domains go to the next server.
fn plan(request: &PlanRequest) -> Decision {
    if &*request.host == "example.com" {
        return Decision::Local { user: request.user.clone(), domain: request.host.clone() };
    }
    Decision::Targets(vec![vec!["sip:next@192.0.2.98".into()]])
}

fn binding() -> Binding {
    let contact = Contact {
        uri: "sip:phone@192.0.2.99".into(),
        q: 1000,
        expires: 600,
        instance: "".into(),
        reg_id: 0,
        path: "".into(),
        user_agent: "".into(),
        received: None,
    };
    Binding { contact, expires_at: START + Duration::from_secs(600), call_id: "".into(), cseq: 1 }
}

/// Everything sent in answer to one datagram.
fn receive(endpoint: &mut Endpoint, now: Instant, bytes: Bytes) -> Vec<Bytes> {
    let source = Source {
        transport: Transport::Udp,
        local: "192.0.2.1:5060".parse().unwrap(),
        remote: "192.0.2.50:5060".parse().unwrap(),
        flow: None,
    };
    let (mut effects, mut sent) = (Vec::new(), Vec::new());
    endpoint.handle_packet(now, Packet { bytes, source }, &mut effects);
    while !effects.is_empty() {
        for effect in std::mem::take(&mut effects) {
            perform(endpoint, now, effect, &mut effects, &mut sent);
        }
    }
    sent
}

fn perform(
    endpoint: &mut Endpoint,
    now: Instant,
    effect: EndpointEffect,
    more: &mut EndpointOutbox,
    sent: &mut Vec<Bytes>,
) {
    match effect {
        EndpointEffect::Transmit(transmit) => sent.push(transmit.bytes),
        EndpointEffect::Plan { id, request } => endpoint.handle_plan(now, id, plan(&request), more),
        EndpointEffect::Account { id, user, domain } => {
            let ha1s = Ha1s::compute(&user, &domain, "secret");
            let aor = format!("{user}@{domain}").into();
            let account = Account { aor, ha1s, disabled: false, max_contacts: 5, limits: None };
            endpoint.handle_account(now, id, Ok(Some(account)), more);
        }
        EndpointEffect::Ask { id, query: Query::Lookup { .. } } => {
            endpoint.handle_answer(now, id, Answer::Bindings(vec![binding()]), more);
        }
        _ => {}
    }
}

/// No message leaves state behind.
fn rest(endpoint: &mut Endpoint, from: Instant) {
    for seconds in 1..200 {
        endpoint.expire(from + Duration::from_secs(seconds * 5), &mut Vec::new());
    }
    assert_eq!(endpoint.load(), (0, 0));
}

/// One line: the answer, or where it was forwarded, or nothing.
fn verdict(bytes: Bytes) -> String {
    let mut endpoint = endpoint();
    let done: Vec<String> = receive(&mut endpoint, START, bytes).iter().map(show).collect();
    rest(&mut endpoint, START);
    if done.is_empty() { "nothing".into() } else { done.join(", ") }
}

fn show(bytes: &Bytes) -> String {
    let message = Message::parse(bytes.clone()).unwrap();
    if message.is_request() {
        let method = String::from_utf8_lossy(message.method_name()).into_owned();
        return format!("{method} to {}", String::from_utf8_lossy(message.uri()));
    }
    let mut text = format!("{} {}", message.status(), String::from_utf8_lossy(message.reason()));
    for value in message.values(Header::Unsupported) {
        text += &format!(" ({})", String::from_utf8_lossy(value));
    }
    text
}

/// The messages whose names start so.
fn table(initials: std::ops::RangeInclusive<char>) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sip-wire/tests/vectors/rfc4475");
    let mut names: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    let lines = names.iter().filter_map(|path| {
        let name = path.file_stem()?.to_string_lossy().into_owned();
        let is_wanted = initials.contains(&name.chars().next()?);
        is_wanted.then(|| format!("{name:<12}{}", verdict(fs::read(path).unwrap().into())))
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn every_torture_message_ends_its_transactions() {
    insta::assert_snapshot!(table('a'..='l'), @r"
    badaspec    OPTIONS to sip:next@192.0.2.98
    badbranch   OPTIONS to sip:phone@192.0.2.99
    baddate     INVITE to sip:phone@192.0.2.99
    baddn       OPTIONS to sip:next@192.0.2.98
    badinv01    400 Bad Via
    badvers     505 Version Not Supported
    bcast       nothing
    bext01      420 Bad Extension (noProxiesSupportThis) (norDoAnyProxiesSupportThis)
    bigcode     nothing
    clerr       400 Body Shorter Than Content-Length
    cparam01    401 Unauthorized
    cparam02    401 Unauthorized
    dblreq      401 Unauthorized
    esc01       INVITE to sip:next@192.0.2.98
    esc02       RE%47IST%45R to sip:next@192.0.2.98
    escnull     404 Domain Not Served
    escruri     400 Headers In Request-URI
    insuf       400 Missing Call-ID
    intmeth     !interesting-Method0123456789_*+`.%indeed'~ to sip:phone@192.0.2.99
    inv2543     INVITE to sip:phone@192.0.2.99
    invut       INVITE to sip:phone@192.0.2.99
    longreq     INVITE to sip:phone@192.0.2.99
    ltgtruri    400 Bad Request-URI
    lwsdisp     OPTIONS to sip:phone@192.0.2.99
    lwsruri     400 Bad Request Line
    lwsstart    400 Bad Request Line
    ");
}

#[test]
fn and_those_from_m_on() {
    insta::assert_snapshot!(table('m'..='z'), @r"
    mcl01       400 Repeated Header
    mismatch01  400 CSeq Method Mismatch
    mismatch02  400 CSeq Method Mismatch
    mpart01     403 Relaying Denied
    multi01     400 Repeated Header
    ncl         400 Bad Content-Length
    noreason    nothing
    novelsc     416 Unsupported URI Scheme
    quotbal     400 Bad To
    regaut01    401 Unauthorized
    regbadct    401 Unauthorized
    regescrt    401 Unauthorized
    scalar02    400 Bad CSeq
    scalarlg    nothing
    sdp01       INVITE to sip:phone@192.0.2.99
    semiuri     OPTIONS to sip:phone@192.0.2.99
    transports  OPTIONS to sip:phone@192.0.2.99
    trws        400 Bad Request Line
    unkscm      416 Unsupported URI Scheme
    unksm2      404 Domain Not Served
    unreason    nothing
    wsinv       403 Relaying Denied
    zeromf      483 Too Many Hops
    ");
}

fn all() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sip-wire/tests/vectors/rfc4475");
    let mut names: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    names.iter().map(|path| fs::read(path).unwrap()).collect()
}

/// A message with a few bytes changed, and sometimes a piece of another in it.
fn damaged(rng: &mut Rng, messages: &[Vec<u8>]) -> Vec<u8> {
    let pick = |rng: &mut Rng, length: usize| usize::try_from(rng.below(length as u64)).unwrap();
    let mut bytes = messages[pick(rng, messages.len())].clone();
    for _ in 0..rng.below(4) {
        let at = pick(rng, bytes.len());
        bytes[at] = b"\0\r\n \t;:,<>@\"=09azAZ%\xff"[pick(rng, 20)];
    }
    if rng.chance(200) {
        let other = &messages[pick(rng, messages.len())];
        let (from, at) = (pick(rng, other.len()), pick(rng, bytes.len()));
        bytes.splice(at..at, other[from..(from + 200).min(other.len())].iter().copied());
    }
    bytes
}

/// Damaged requests, and damaged answers to the requests they caused: no panic, and no state stays.
#[test]
fn damaged_messages_leave_nothing_behind() {
    let messages = all();
    for seed in 0..60 {
        let (mut endpoint, mut rng, mut now) = (endpoint(), Rng::seeded(seed), START);
        let mut sent: Vec<Vec<u8>> = Vec::new();
        for _ in 0..200 {
            let bytes = damaged(&mut rng, &messages);
            sent.extend(receive(&mut endpoint, now, bytes.into()).iter().map(|bytes| bytes.to_vec()));
            if !sent.is_empty() && rng.chance(500) {
                // A message that we sent comes back, unchanged or as a response.
                let echo = damaged(&mut rng, &sent);
                let start = echo.iter().position(|byte| *byte == b'\n').unwrap_or(0);
                let status = format!("SIP/2.0 {} Said\r", 100 + rng.below(600));
                let answer = [status.as_bytes(), &echo[start..]].concat();
                receive(&mut endpoint, now, if rng.chance(300) { echo } else { answer }.into());
            }
            now = now + Duration::from_millis(rng.below(2_000));
            endpoint.expire(now, &mut Vec::new());
        }
        rest(&mut endpoint, now);
    }
}

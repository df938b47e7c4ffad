//! Transcripts of RFC 3261 §17 in virtual time: when each machine sends, tells and ends.

use proptest::prelude::*;
use router::{FlowId, Life, ShardAddress};

use super::*;
use crate::transport::{Target, Transport};
use crate::wire::{Message, Method};

const START: Instant = Instant::from_unix_seconds(1_700_000_000);

fn at(millis: u64) -> Instant {
    START + Duration::from_millis(millis)
}

fn invite() -> Bytes {
    Bytes::from_static(
        b"INVITE sip:b@b.test SIP/2.0\r\nVia: SIP/2.0/UDP a.test;branch=z9hG4bK1\r\nRoute: <sip:p.test;lr>\r\n\
          From: <sip:a@a.test>;tag=1\r\nTo: <sip:b@b.test>\r\nCall-ID: c\r\nCSeq: 7 INVITE\r\nContent-Length: 0\r\n\r\n",
    )
}

fn response(status: u16) -> Message {
    let text = format!(
        "SIP/2.0 {status} Said\r\nVia: SIP/2.0/UDP a.test;branch=z9hG4bK1\r\nFrom: <sip:a@a.test>;tag=1\r\n\
         To: <sip:b@b.test>;tag=b{status}\r\nCall-ID: c\r\nCSeq: 7 INVITE\r\nContent-Length: 0\r\n\r\n"
    );
    Message::parse(text.into()).unwrap()
}

/// Wakes the machine at its deadlines until `end`: one line for each thing it did, its time in milliseconds.
fn wakings(machine: &mut TransactionMachine, end: u64) -> Vec<String> {
    let mut lines = Vec::new();
    while machine.deadline() <= at(end) {
        let now = machine.deadline();
        let turn = machine.handle_timer(now);
        let output = show(&turn);
        let ended = if machine.is_terminated() { " ends" } else { "" };
        lines.push(format!("{}{output}{ended}", now.since(START).as_millis()));
        assert!(lines.len() < 100, "it never rests");
    }
    lines
}

fn show(turn: &TransactionOutput) -> String {
    let sent = turn.send.as_ref().map(|bytes| {
        let line = String::from_utf8_lossy(bytes).lines().next().unwrap_or_default().to_owned();
        let mut words = line.split(' ');
        let first = words.next().unwrap_or_default().to_owned();
        if first == "SIP/2.0" { words.next().unwrap_or_default().to_owned() } else { first }
    });
    let mut text = String::new();
    if let Some(sent) = sent {
        text += &format!(" {sent}");
    }
    if let Some(tell) = turn.tell {
        text += &format!(" {tell:?}");
    }
    text
}

fn client_invite(reliable: bool) -> TransactionMachine {
    let (machine, turn) = ClientInvite::start(START, invite(), reliable);
    assert_eq!(show(&turn), " INVITE");
    TransactionMachine::ClientInvite(machine)
}

fn hear(machine: &mut TransactionMachine, millis: u64, status: u16) -> String {
    match machine {
        TransactionMachine::ClientInvite(machine) => {
            show(&machine.handle_response(at(millis), &response(status)))
        }
        TransactionMachine::ClientOther(machine) => show(&machine.handle_response(at(millis), status)),
        _ => panic!("no client"),
    }
}

#[test]
fn timers_a_and_b() {
    let silent = wakings(&mut client_invite(false), 100_000);
    assert_eq!(
        silent,
        [
            "500 INVITE",
            "1500 INVITE",
            "3500 INVITE",
            "7500 INVITE",
            "15500 INVITE",
            "31500 INVITE",
            "32000 Timeout ends"
        ]
    );
    assert_eq!(wakings(&mut client_invite(true), 100_000), ["32000 Timeout ends"]);
}

#[test]
fn a_provisional_response_stops_the_calling() {
    let mut machine = client_invite(false);
    assert_eq!(hear(&mut machine, 100, 100), " Response");
    assert_eq!(hear(&mut machine, 200, 180), " Response");
    assert!(wakings(&mut machine, 1_000_000).is_empty(), "Timer C is the proxy's");
    // A timer that was set before.
    assert_eq!(machine.handle_timer(at(500)), TransactionOutput::default());
    assert_eq!(machine.handle_timer(at(32_000)), TransactionOutput::default());
}

#[test]
fn timer_d_and_the_ack() {
    let mut machine = client_invite(false);
    assert_eq!(hear(&mut machine, 100, 486), " ACK Response");
    assert_eq!(hear(&mut machine, 600, 486), " ACK", "again, and no user is told");
    assert_eq!(hear(&mut machine, 700, 200), "", "too late");
    assert_eq!(hear(&mut machine, 700, 180), "");
    assert_eq!(wakings(&mut machine, 100_000), ["32100 ends"]);
    let mut machine = client_invite(true);
    assert_eq!(hear(&mut machine, 100, 486), " ACK Response");
    assert_eq!(wakings(&mut machine, 100_000), ["100 ends"]);
}

/// §17.1.1.3.
#[test]
fn the_ack_is_made_of_both() {
    let (mut machine, _) = ClientInvite::start(START, invite(), false);
    let ack = machine.handle_response(START, &response(404)).send.unwrap();
    let text = String::from_utf8_lossy(&ack).into_owned();
    assert!(
        text.starts_with("ACK sip:b@b.test SIP/2.0\r\nVia: SIP/2.0/UDP a.test;branch=z9hG4bK1\r\n"),
        "{text}"
    );
    for line in ["Route: <sip:p.test;lr>", "To: <sip:b@b.test>;tag=b404", "CSeq: 7 ACK", "Call-ID: c"] {
        assert!(text.lines().any(|found| found == line), "{line} in {text}");
    }
}

/// RFC 6026 §7.2.
#[test]
fn timer_m() {
    let mut machine = client_invite(false);
    assert_eq!(hear(&mut machine, 100, 200), " Response");
    assert_eq!(hear(&mut machine, 600, 200), " Response", "every 2xx");
    assert_eq!(hear(&mut machine, 700, 486), "", "and nothing else");
    assert_eq!(hear(&mut machine, 700, 180), "");
    assert_eq!(wakings(&mut machine, 100_000), ["32100 ends"]);
    assert_eq!(hear(&mut machine, 40_000, 200), "");
}

fn client_other(reliable: bool) -> TransactionMachine {
    let (machine, turn) = ClientOther::start(START, Bytes::from_static(b"BYE x SIP/2.0\r\n"), reliable);
    assert_eq!(show(&turn), " BYE");
    TransactionMachine::ClientOther(machine)
}

#[test]
fn timers_e_and_f() {
    let silent = wakings(&mut client_other(false), 100_000);
    let times: Vec<&str> = silent.iter().filter_map(|line| line.strip_suffix(" BYE")).collect();
    assert_eq!(times, ["500", "1500", "3500", "7500", "11500", "15500", "19500", "23500", "27500", "31500"]);
    assert_eq!(silent.last().unwrap(), "32000 Timeout ends");
    assert_eq!(wakings(&mut client_other(true), 100_000), ["32000 Timeout ends"]);
    let mut machine = client_other(false);
    assert_eq!(hear(&mut machine, 100, 100), " Response");
    let slow = wakings(&mut machine, 100_000);
    assert_eq!(slow[..2], ["4100 BYE", "8100 BYE"], "every T2 from now on");
    assert_eq!(slow.last().unwrap(), "32000 Timeout ends");
}

#[test]
fn timer_k() {
    for (reliable, end) in [(false, "5100 ends"), (true, "100 ends")] {
        let mut machine = client_other(reliable);
        assert_eq!(hear(&mut machine, 100, 404), " Response");
        assert_eq!(hear(&mut machine, 100, 404), "");
        assert_eq!(machine.handle_timer(START), TransactionOutput::default(), "timer E is late");
        assert_eq!(wakings(&mut machine, 100_000), [end]);
        assert_eq!(hear(&mut machine, 40_000, 404), "");
    }
}

fn server_invite(reliable: bool) -> TransactionMachine {
    TransactionMachine::ServerInvite(ServerInvite::start(START, reliable))
}

fn say(machine: &mut TransactionMachine, millis: u64, status: u16) -> String {
    let bytes = Bytes::from(format!("SIP/2.0 {status} Said\r\n"));
    match machine {
        TransactionMachine::ServerInvite(machine) => show(&machine.respond(at(millis), status, bytes)),
        TransactionMachine::ServerOther(machine) => show(&machine.respond(at(millis), status, bytes)),
        _ => panic!("no server"),
    }
}

fn again(machine: &mut TransactionMachine) -> String {
    match machine {
        TransactionMachine::ServerInvite(machine) => show(&machine.handle_retransmission()),
        TransactionMachine::ServerOther(machine) => show(&machine.handle_retransmission()),
        _ => panic!("no server"),
    }
}

fn ack(machine: &mut TransactionMachine, millis: u64) {
    let TransactionMachine::ServerInvite(machine) = machine else { panic!("no server") };
    assert_eq!(machine.handle_ack(at(millis)), TransactionOutput::default());
}

#[test]
fn the_100_waits_200_ms_for_something_better() {
    let mut machine = server_invite(false);
    assert_eq!(wakings(&mut machine, 100_000), ["200 Slow"]);
    assert_eq!(say(&mut machine, 200, 100), " 100");
    assert_eq!(again(&mut machine), " 100");
    let mut machine = server_invite(false);
    assert_eq!(again(&mut machine), " Slow", "a retransmission has it at once");
    assert_eq!(say(&mut machine, 50, 100), " 100");
    assert!(wakings(&mut machine, 100_000).is_empty());
    let mut machine = server_invite(false);
    assert_eq!(say(&mut machine, 50, 180), " 180");
    assert!(wakings(&mut machine, 100_000).is_empty());
    assert_eq!(again(&mut machine), " 180");
}

#[test]
fn timers_g_and_h() {
    let mut machine = server_invite(false);
    assert_eq!(say(&mut machine, 0, 486), " 486");
    assert_eq!(again(&mut machine), " 486");
    assert_eq!(say(&mut machine, 0, 200), "", "one final response");
    let repeated = wakings(&mut machine, 100_000);
    let times: Vec<&str> = repeated.iter().filter_map(|line| line.strip_suffix(" 486")).collect();
    assert_eq!(times, ["500", "1500", "3500", "7500", "11500", "15500", "19500", "23500", "27500", "31500"]);
    assert_eq!(repeated.last().unwrap(), "32000 NoAck ends");
    let mut machine = server_invite(true);
    assert_eq!(say(&mut machine, 0, 486), " 486");
    assert_eq!(wakings(&mut machine, 100_000), ["32000 NoAck ends"], "timer H also on TCP");
}

#[test]
fn timer_i() {
    for (reliable, end) in [(false, "5100 ends"), (true, "100 ends")] {
        let mut machine = server_invite(reliable);
        ack(&mut machine, 0);
        assert_eq!(say(&mut machine, 0, 486), " 486", "an ACK before it was nothing");
        ack(&mut machine, 100);
        ack(&mut machine, 150);
        assert_eq!(again(&mut machine), "");
        assert_eq!(machine.handle_timer(at(50)), TransactionOutput::default(), "timer G is late");
        assert_eq!(wakings(&mut machine, 100_000), [end]);
    }
}

/// RFC 6026 §7.1: 64*T1 on any transport.
#[test]
fn timer_l() {
    for reliable in [false, true] {
        let mut machine = server_invite(reliable);
        assert_eq!(say(&mut machine, 0, 180), " 180");
        assert_eq!(say(&mut machine, 100, 200), " 200");
        assert_eq!(again(&mut machine), "", "the callee repeats its 2xx, not we");
        assert_eq!(say(&mut machine, 200, 200), " 200");
        assert_eq!(say(&mut machine, 200, 486), "");
        assert_eq!(wakings(&mut machine, 100_000), ["32100 ends"]);
        assert_eq!(say(&mut machine, 40_000, 200), "");
    }
}

fn server_other(reliable: bool) -> TransactionMachine {
    TransactionMachine::ServerOther(ServerOther::start(START, reliable))
}

#[test]
fn timer_j() {
    for (reliable, end) in [(false, "32100 ends"), (true, "100 ends")] {
        let mut machine = server_other(reliable);
        assert_eq!(again(&mut machine), "", "nothing to say yet");
        assert_eq!(say(&mut machine, 100, 200), " 200");
        assert_eq!(say(&mut machine, 100, 404), "");
        assert_eq!(again(&mut machine), " 200");
        assert_eq!(wakings(&mut machine, 100_000), [end]);
        assert_eq!(again(&mut machine), "");
    }
}

/// RFC 4320 §4.1.
#[test]
fn a_slow_answer_to_a_non_invite_is_announced() {
    let mut machine = server_other(false);
    assert_eq!(wakings(&mut machine, 100_000), ["3500 Slow"]);
    assert_eq!(say(&mut machine, 3_500, 100), " 100");
    assert_eq!(again(&mut machine), " 100");
    assert_eq!(say(&mut machine, 4_000, 200), " 200");
    assert_eq!(wakings(&mut machine, 100_000), ["36000 ends"]);
}

#[derive(Clone, Debug)]
enum MachineInput {
    Response(u16),
    Answer(u16),
    Again,
    Ack,
    Wait(u64),
    Wake,
}

fn event() -> impl Strategy<Value = MachineInput> {
    prop_oneof![
        (100..700u16).prop_map(MachineInput::Response),
        (100..700u16).prop_map(MachineInput::Answer),
        Just(MachineInput::Again),
        Just(MachineInput::Ack),
        (0..10_000u64).prop_map(MachineInput::Wait),
        Just(MachineInput::Wake),
    ]
}

fn apply(machine: &mut TransactionMachine, now: Instant, event: &MachineInput) {
    let bytes = || Bytes::from_static(b"SIP/2.0 200 Said\r\n");
    match (machine, event) {
        (TransactionMachine::ClientInvite(machine), MachineInput::Response(status)) => {
            machine.handle_response(now, &response(*status));
        }
        (TransactionMachine::ClientOther(machine), MachineInput::Response(status)) => {
            machine.handle_response(now, *status);
        }
        (TransactionMachine::ServerInvite(machine), MachineInput::Answer(status)) => {
            machine.respond(now, *status, bytes());
        }
        (TransactionMachine::ServerOther(machine), MachineInput::Answer(status)) => {
            machine.respond(now, *status, bytes());
        }
        (TransactionMachine::ServerInvite(machine), MachineInput::Again) => {
            machine.handle_retransmission();
        }
        (TransactionMachine::ServerOther(machine), MachineInput::Again) => {
            machine.handle_retransmission();
        }
        (TransactionMachine::ServerInvite(machine), MachineInput::Ack) => {
            machine.handle_ack(now);
        }
        (machine, MachineInput::Wake) => {
            machine.handle_timer(now);
        }
        _ => {}
    }
}

proptest! {
    /// For any order of events, a machine that got its final response is gone 64*T1 later.
    #[test]
    fn any_order_of_events_ends(kind in 0..4u8, reliable: bool, events in prop::collection::vec(event(), 0..60)) {
        let mut machine = match kind {
            0 => client_invite(reliable),
            1 => client_other(reliable),
            2 => server_invite(reliable),
            _ => server_other(reliable),
        };
        let mut now = START;
        for event in events {
            if let MachineInput::Wait(millis) = event {
                now = now + Duration::from_millis(millis);
            }
            apply(&mut machine, now, &event);
        }
        apply(&mut machine, now, &MachineInput::Response(486));
        apply(&mut machine, now, &MachineInput::Answer(486));
        let end = now + TIMEOUT + Duration::from_secs(1);
        let mut woken = 0;
        while machine.deadline() <= end {
            now = now.max(machine.deadline());
            machine.handle_timer(now);
            woken += 1;
            prop_assert!(woken < 200, "it never rests");
        }
        prop_assert!(machine.is_terminated(), "{machine:?}");
    }
}

/// A target takes 16 bytes or a box of its own, and is the same afterwards.
#[test]
fn a_transaction_has_the_target_that_it_was_given() {
    let flow = FlowId { edge: ShardAddress { life: Life(3), shard: 1 }, number: 77 };
    let udp = Target {
        transport: Transport::Udp,
        remote: "192.0.2.1:5070".parse().unwrap(),
        flow: None,
        local: Some("192.0.2.2:5060".parse().unwrap()),
        tls_name: None,
        reconnect: true,
    };
    let targets = [
        Target { reconnect: false, ..udp.clone() },
        Target { remote: "[2001:db8::1]:5060".parse().unwrap(), ..udp.clone() },
        Target { local: None, ..udp.clone() },
        Target { transport: Transport::Tls, tls_name: Some("a.test".into()), ..udp.clone() },
        Target { transport: Transport::Ws, flow: Some(flow), ..udp.clone() },
        udp,
    ];
    let mut table = TransactionTable::new([1; 16]);
    for target in targets {
        let machine = TransactionMachine::ServerOther(ServerOther::start(START, false));
        let key = table.insert(1, machine, target.clone(), ());
        assert_eq!(table.get(key).map(Transaction::target), Some(target));
    }
}

/// RFC 3261 §17.2.3, second list: without the magic cookie a request is the same if its Request-URI and its whole topmost Via are.
#[test]
fn forks_of_an_old_proxy_are_two_transactions() {
    let table = TransactionTable::<()>::new([1; 16]);
    let hash = |uri: &str, branch: &str, line: &str, method: Method| {
        let text = format!(
            "{line} {uri} SIP/2.0\r\nVia: SIP/2.0/UDP a.test{branch}\r\nFrom: <sip:a@a>;tag=1\r\nTo: <sip:b@b>\r\n\
             Call-ID: c\r\nCSeq: 1 {line}\r\n\r\n"
        );
        let request = Message::parse(Bytes::from(text)).unwrap();
        table.server_hash(&request, &request.top_via().unwrap(), method)
    };
    let invite = hash("sip:b@b", ";branch=1", "INVITE", Method::Invite);
    assert_eq!(invite, hash("sip:b@b", ";branch=1", "ACK", Method::Ack));
    assert_eq!(invite, hash("sip:b@b", ";branch=1", "CANCEL", Method::Invite));
    assert_ne!(invite, hash("sip:b@b", ";branch=2", "INVITE", Method::Invite));
    assert_ne!(invite, hash("sip:c@b", ";branch=1", "INVITE", Method::Invite));
    assert_ne!(invite, hash("sip:b@b", "", "INVITE", Method::Invite));
}

/// RFC 3261 §17.1.3: branch and method name a client transaction.
#[test]
fn a_client_transaction_is_found_by_its_branch_and_method() {
    let table = TransactionTable::<()>::new([1; 16]);
    let branch = |unique: &str| format!("z9hG4bK{unique}bcdefghijklma");
    let hash = |branch: &str, method: &str| table.client_hash(branch.as_bytes(), method.as_bytes());
    let ours = branch("abcdefghijkla");
    let hashes = [
        hash(&ours, "INVITE"),
        hash(&ours, "CANCEL"),
        hash(&ours, "KEEPALIVE"),
        hash(&branch("bbcdefghijkla"), "INVITE"),
        // As of a MESSAGE to two contacts: only the second token differs.
        hash("z9hG4bKabcdefghijklabcdefghijklmb", "INVITE"),
        hash("z9hG4bKforeign", "INVITE"),
        hash("", "INVITE"),
    ];
    assert_eq!(hashes[0], hash(&ours, "INVITE"));
    assert!((1..hashes.len()).all(|end| !hashes[..end].contains(&hashes[end])), "{hashes:?}");
}

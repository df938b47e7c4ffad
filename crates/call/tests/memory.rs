//! A live call costs 300 bytes in the ledger, everything included.

use call::{CallEvent, CallEventKind, Ledger, LedgerSettings};
use sim::Counting;
use stdx::Instant;

#[global_allocator]
static ALLOCATOR: Counting = Counting::new();

const CALLS: u64 = 200_000;
const START: Instant = Instant::from_unix_seconds(1_800_000_000);

/// As SIPp places them, and a bit more.
fn started(n: u64) -> CallEvent {
    let kind = CallEventKind::Started {
        call_id: format!("{n}-20113@198.51.100.7").into(),
        from: format!("sip:user{n:08}@example.com").into(),
        to: format!("sip:user{:08}@example.com:5060", n + 1).into(),
        account: Some(format!("user{n:08}@example.com").into()),
        callee: Some(format!("user{:08}@example.com", n + 1).into()),
    };
    CallEvent { key: key(n), leg: 0, kind }
}

fn key(n: u64) -> u64 {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[test]
fn a_live_call_costs_at_most_300_bytes_and_a_finished_one_nothing() {
    let before = ALLOCATOR.bytes();
    let mut ledger = Ledger::new(LedgerSettings::default(), START);
    let mut out = Vec::new();
    for n in 0..CALLS {
        ledger.handle_event(START, started(n), &mut out);
    }
    let each = (ALLOCATOR.bytes() - before) / CALLS as usize;
    println!("live: {each} bytes each");
    assert!(each <= 300, "{each} bytes a call");

    // An hour later they are still up, and have one timer each.
    let hour = Instant::from_unix_seconds(START.unix_seconds() + 3600);
    ledger.expire(hour, &mut out);
    let each = (ALLOCATOR.bytes() - before) / CALLS as usize;
    assert!(each <= 300, "{each} bytes a call after an hour");
    for n in 0..CALLS {
        let answered = CallEvent { key: key(n), leg: key(n), kind: CallEventKind::Answered };
        ledger.handle_event(hour, answered, &mut out);
    }
    ledger.drain(hour, &mut out);
    out = Vec::new();
    ledger.expire(Instant::from_unix_seconds(hour.unix_seconds() + 61), &mut out);
    let each = (ALLOCATOR.bytes() - before) / CALLS as usize;
    assert!(each <= 40, "{each} bytes left of a call that is over");
}

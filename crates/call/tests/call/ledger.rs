//! Call records: transcripts, and a naive ledger with thousands of seeded steps.

use std::collections::BTreeMap;
use std::time::Duration;

use call::{CallEvent, CallEventKind, CallRecord, EndedBy, Ledger, LedgerSettings, limits};
use stdx::Instant;

const START: Instant = Instant::from_unix_seconds(1_800_000_000);

struct World {
    ledger: Ledger,
    now: Instant,
    out: Vec<CallRecord>,
}

impl World {
    fn new() -> Self {
        World { ledger: Ledger::new(LedgerSettings::default(), START), now: START, out: Vec::new() }
    }

    fn pass(&mut self, millis: u64) -> Vec<CallRecord> {
        self.now = self.now + Duration::from_millis(millis);
        self.ledger.expire(self.now, &mut self.out);
        std::mem::take(&mut self.out)
    }

    fn tell(&mut self, key: u64, kind: CallEventKind) -> Vec<CallRecord> {
        self.tell_of(key, 1, kind)
    }

    fn tell_of(&mut self, key: u64, leg: u64, kind: CallEventKind) -> Vec<CallRecord> {
        self.ledger.handle_event(self.now, CallEvent { key, leg, kind }, &mut self.out);
        std::mem::take(&mut self.out)
    }
}

fn started(key: u64) -> CallEventKind {
    CallEventKind::Started {
        call_id: format!("{key}@192.0.2.1").into(),
        from: "sip:alice@example.com".into(),
        to: "sip:bob@example.com".into(),
        account: key.is_multiple_of(2).then(|| "alice@example.com".into()),
        callee: key.is_multiple_of(2).then(|| "bob@example.com".into()),
    }
}

fn failed(code: u16) -> CallEventKind {
    CallEventKind::Failed { code, reason: "Busy Here".into() }
}

fn ended() -> CallEventKind {
    CallEventKind::Ended { by: EndedBy::Callee, reason: "BYE".into() }
}

#[test]
fn the_newest_open_calls_are_listed_and_all_are_counted() {
    let mut world = World::new();
    for key in 1..=6 {
        world.tell(key, started(key));
        world.pass(1_000);
    }
    world.tell(5, CallEventKind::Ringing);
    world.tell(6, CallEventKind::Answered);
    world.tell(4, failed(486));
    let (calls, total) = world.ledger.open_calls(None, 3);
    let rows: Vec<_> = calls.iter().map(|call| (&*call.call_id, call.ringing, call.answer)).collect();
    let at = Some(START + Duration::from_secs(6));
    let expected = [("6@192.0.2.1", None, at), ("5@192.0.2.1", at, None), ("3@192.0.2.1", None, None)];
    assert_eq!((rows, total), (expected.to_vec(), 5));
    for account in ["alice@example.com", "bob@example.com"] {
        let (calls, total) = world.ledger.open_calls(Some(account), 3);
        let ids: Vec<_> = calls.iter().map(|call| &*call.call_id).collect();
        assert_eq!((ids, total), (vec!["6@192.0.2.1", "2@192.0.2.1"], 2), "{account}");
    }
    assert_eq!(world.ledger.open_calls(Some(""), 3).1, 0, "an empty name is no account's");
}

#[test]
fn an_answered_call_has_its_times() {
    let mut world = World::new();
    world.tell(2, started(2));
    world.pass(100);
    world.tell(2, CallEventKind::Ringing);
    world.pass(5_000);
    world.tell(2, CallEventKind::Answered);
    assert_eq!(world.ledger.counts().answered, 1);
    world.pass(60_000);
    assert_eq!(
        world.tell(2, ended()),
        [CallRecord {
            call_id: "2@192.0.2.1".into(),
            from: "sip:alice@example.com".into(),
            to: "sip:bob@example.com".into(),
            account: Some("alice@example.com".into()),
            callee: Some("bob@example.com".into()),
            start: START,
            ringing: Some(START + Duration::from_millis(100)),
            answer: Some(START + Duration::from_millis(5_100)),
            end: START + Duration::from_millis(65_100),
            code: 200,
            reason: "BYE".into(),
            ended_by: EndedBy::Callee,
        }]
    );
    assert_eq!((world.ledger.counts().live, world.ledger.counts().answered), (0, 0));
}

#[test]
fn a_failed_call_has_its_code() {
    let mut world = World::new();
    world.tell(1, started(1));
    let records = world.tell(1, failed(486));
    assert_eq!((records[0].code, &*records[0].reason, records[0].answer), (486, "Busy Here", None));
    assert_eq!((&records[0].account, &records[0].callee), (&None, &None));
}

fn refused(account: Option<&str>) -> CallEventKind {
    CallEventKind::Refused {
        call_id: "1@192.0.2.1".into(),
        from: "sip:alice@example.com".into(),
        to: "sip:nobody@example.com".into(),
        account: account.map(Into::into),
        callee: None,
        code: 404,
        reason: "Not Found".into(),
    }
}

#[test]
fn a_refused_call_has_a_record_at_once_and_is_not_counted_as_placed() {
    let mut world = World::new();
    let records = world.tell(1, refused(Some("alice@example.com")));
    let [record] = &records[..] else { panic!("{records:?}") };
    assert_eq!((record.code, &*record.reason, &*record.to), (404, "Not Found", "sip:nobody@example.com"));
    assert_eq!(record.account.as_deref(), Some("alice@example.com"));
    assert_eq!((record.start, record.end, record.answer), (world.now, world.now, None));
    let counts = world.ledger.counts();
    assert_eq!((counts.live, counts.started_total, counts.failed_total), (0, 0, 0));
}

#[test]
fn a_refusal_that_is_repeated_has_one_record() {
    let mut world = World::new();
    assert_eq!(world.tell(1, refused(None)).len(), 1);
    assert_eq!(world.tell(1, refused(None)), []);
    assert_eq!(world.tell(2, refused(None)).len(), 1, "another call");
}

#[test]
fn refused_calls_of_strangers_have_a_bound_and_those_of_accounts_have_none() {
    let mut world = World::new();
    let many = u64::from(limits::REFUSED_OF_STRANGERS) + 10;
    let recorded: usize = (0..many).map(|key| world.tell(key, refused(None)).len()).sum();
    assert_eq!(recorded as u32, limits::REFUSED_OF_STRANGERS);
    assert_eq!(world.ledger.counts().unrecorded_total, 10);
    assert_eq!(world.tell(many, refused(Some("alice@example.com"))).len(), 1);
    world.pass(limits::REFUSED_WINDOW.as_millis() as u64);
    assert_eq!(world.tell(many + 1, refused(None)).len(), 1, "a minute later");
}

#[test]
fn repeated_and_late_events_change_nothing() {
    let mut world = World::new();
    world.tell(1, started(1));
    world.tell(1, started(1));
    world.tell(1, CallEventKind::Answered);
    let answered = world.now;
    world.pass(10);
    world.tell(1, CallEventKind::Answered);
    world.tell(1, started(1));
    assert_eq!(world.tell(1, failed(487)), [], "a branch beside the one that answered");
    assert_eq!(world.tell(1, ended())[0].answer, Some(answered));
    assert_eq!(world.tell(1, ended()), []);
    assert_eq!(world.tell(7, CallEventKind::Ringing), []);
    assert_eq!(world.ledger.counts().started_total, 1);
}

/// RFC 3261 §13.2.2.4: a caller that is answered twice ends one of the two dialogs and speaks in the other.
#[test]
fn a_call_ends_with_the_dialog_that_was_answered() {
    let mut world = World::new();
    world.tell(1, started(1));
    assert_eq!(world.tell(1, ended()), [], "a call that is not answered fails, and does not end");
    world.tell_of(1, 7, CallEventKind::Answered);
    world.tell_of(1, 8, CallEventKind::Answered);
    assert_eq!(world.tell_of(1, 8, ended()), []);
    assert_eq!(world.tell_of(1, 0, ended()), []);
    assert_eq!(world.tell_of(1, 7, ended()).len(), 1);
}

#[test]
fn a_call_without_an_end_is_closed_as_lost_and_leaves_no_timer() {
    let mut world = World::new();
    world.tell(1, started(1));
    world.tell(1, CallEventKind::Answered);
    let longest = u64::try_from(limits::LONGEST_CALL.as_millis()).unwrap();
    assert_eq!(world.pass(longest - 1), []);
    let records = world.pass(1_000);
    assert_eq!((&*records[0].reason, records[0].ended_by, records[0].code), ("lost", EndedBy::Unknown, 200));
    assert_eq!(world.ledger.deadline(), None);
}

#[test]
fn finished_calls_leave_no_timer_for_long() {
    let mut world = World::new();
    for round in 0..100 {
        world.tell(round % 3, started(1));
        world.tell(round % 3, failed(486));
    }
    world.tell(1, started(1));
    world.tell(1, CallEventKind::Answered);
    world.pass(2 * u64::try_from(limits::PATROL.as_millis()).unwrap());
    world.tell(1, ended());
    world.pass(u64::try_from(limits::PATROL.as_millis()).unwrap());
    assert_eq!(world.ledger.deadline(), None);
}

#[test]
fn a_call_of_a_ledger_that_died_has_one_record() {
    let mut world = World::new();
    let (start, answer) = (world.now, world.now + Duration::from_secs(2));
    world.pass(60_000);
    let taken_over = || CallEventKind::TakenOver {
        call_id: "1@192.0.2.1".into(),
        from: "sip:a@a".into(),
        to: "sip:b@b".into(),
        start,
        answer,
    };
    assert!(world.tell(1, taken_over()).is_empty());
    let record = world.tell(1, ended()).remove(0);
    assert_eq!((record.start, record.answer, record.end, record.code), (start, Some(answer), world.now, 200));
    // The other side hangs up, too.
    assert!(world.tell(1, taken_over()).is_empty());
    assert!(world.tell(1, ended()).is_empty());
    assert_eq!((world.ledger.counts().live, world.ledger.counts().answered), (0, 0));
}

#[test]
fn stopping_closes_all_calls_oldest_first() {
    let mut world = World::new();
    for key in [3, 1, 2] {
        world.tell(key, started(key));
        world.pass(1);
    }
    let mut out = Vec::new();
    world.ledger.drain(world.now, &mut out);
    let ids: Vec<_> = out.iter().map(|record| &*record.call_id).collect();
    assert_eq!(ids, ["3@192.0.2.1", "1@192.0.2.1", "2@192.0.2.1"]);
    assert!(out.iter().all(|record| &*record.reason == "server stopped" && record.code == 0));
    assert!(out.is_sorted_by(|one, next| one.end < next.end), "a page of a list may begin at each");
    assert_eq!(world.ledger.counts().live, 0);
}

#[test]
fn long_texts_are_cut_at_a_character() {
    let mut world = World::new();
    let long: Box<str> = format!("x{}", "é".repeat(200)).into();
    let kind = CallEventKind::Started {
        call_id: long.clone(),
        from: long.clone(),
        to: long.clone(),
        account: Some(long.clone()),
        callee: Some(long.clone()),
    };
    world.tell(1, kind);
    let record = world.tell(1, CallEventKind::Failed { code: 480, reason: long.clone() }).remove(0);
    for text in [
        record.call_id,
        record.from,
        record.to,
        record.account.unwrap(),
        record.callee.unwrap(),
        record.reason,
    ] {
        assert_eq!(text.len(), limits::RECORD_TEXT_BYTES);
    }
}

/// The naive ledger's entry for a call: its start and its answer.
type Naive = BTreeMap<u64, (Instant, Option<Instant>)>;

fn naive_step(calls: &mut Naive, now: Instant, key: u64, kind: &CallEventKind) -> Option<(Instant, u16)> {
    match kind {
        CallEventKind::Started { .. } => {
            calls.entry(key).or_insert((now, None));
        }
        CallEventKind::Ringing | CallEventKind::Refused { .. } | CallEventKind::TakenOver { .. } => {}
        CallEventKind::Answered => {
            let call = calls.get_mut(&key)?;
            call.1 = call.1.or(Some(now));
        }
        CallEventKind::Failed { code, .. } => {
            calls.get(&key).filter(|call| call.1.is_none())?;
            return calls.remove(&key).map(|call| (call.0, *code));
        }
        CallEventKind::Withdrawn => {
            calls.get(&key).filter(|call| call.1.is_none())?;
            calls.remove(&key);
        }
        CallEventKind::Ended { .. } => {
            calls.get(&key).filter(|call| call.1.is_some())?;
            return calls.remove(&key).map(|call| (call.0, 200));
        }
    }
    None
}

#[test]
fn the_ledger_matches_a_naive_model() {
    for seed in 0..30u64 {
        let mut world = World::new();
        let mut calls = Naive::new();
        let mut dice = seed;
        for step in 0..2_000 {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (key, kind) = ((dice >> 40) % 20, (dice >> 50) % 9);
            let kind = match kind {
                0..=2 => started(key),
                3 => CallEventKind::Ringing,
                4 | 5 => CallEventKind::Answered,
                6 => failed(486),
                7 => CallEventKind::Withdrawn,
                _ => ended(),
            };
            let expected = naive_step(&mut calls, world.now, key, &kind);
            let records = world.tell(key, kind);
            let got = records.first().map(|record| (record.start, record.code));
            assert_eq!(got, expected, "seed {seed}, step {step}");
            assert_eq!(world.ledger.counts().live, calls.len());
            let answered = calls.values().filter(|call| call.1.is_some()).count();
            assert_eq!(world.ledger.counts().answered, answered);
            let span = if (dice >> 30) % 50 == 0 { 13 * 3_600_000 } else { 600_000 };
            let lost = world.pass((dice >> 20) % span);
            let oldest = world.now - limits::LONGEST_CALL;
            let mut overdue: Vec<_> =
                calls.extract_if(.., |_, call| call.0 <= oldest).map(|(_, c)| c.0).collect();
            let mut lost: Vec<_> = lost.into_iter().map(|record| record.start).collect();
            overdue.sort_unstable();
            lost.sort_unstable();
            assert_eq!(lost, overdue, "seed {seed}, step {step}");
        }
    }
}

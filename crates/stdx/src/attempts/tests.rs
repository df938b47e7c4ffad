//! Guesses of all kinds are slow, and hinder no other account.

use super::*;

use crate::rate::Rate;

const NOW: Instant = Instant::from_unix_seconds(1_700_000_000);

const PAIR: Policy = Policy {
    capacity: 65_536,
    rate: Rate::NEVER,
    free_failures: 5,
    first_penalty: Duration::from_secs(1),
    longest_penalty: Duration::from_secs(2),
    forgive_after: Duration::from_secs(900),
};

const WIDE: Policy = Policy {
    free_failures: 100,
    first_penalty: Duration::from_millis(250),
    longest_penalty: Duration::from_millis(250),
    ..PAIR
};

/// As SIP and XMPP have them.
const PACES: Paces = Paces {
    pair: PAIR,
    source: WIDE,
    account: WIDE,
    known: 262_144,
    known_lifetime: Duration::from_secs(86_400),
    named: 1_024,
};

fn attempt<'a>(source: &str, user: &'a str) -> Attempt<'a> {
    Attempt { source: source.parse().unwrap(), user, domain: "example.test" }
}

fn attempts() -> Attempts {
    Attempts::new(Keyed::new([9; 16]), &PACES)
}

/// Tries as fast as it may for so long; how many were looked at.
fn guess(attempts: &mut Attempts, seconds: u64, each: impl Fn(u64) -> (String, String)) -> u64 {
    let (mut now, mut tried, mut number) = (NOW, 0, 0);
    while now < NOW + Duration::from_secs(seconds) {
        let (source, user) = each(number);
        number += 1;
        let attempt = attempt(&source, &user);
        if attempts.wait(now, &attempt).is_none() {
            attempts.fail(now, &attempt);
            tried += 1;
        }
        now = now + Duration::from_millis(1);
    }
    tried
}

#[test]
fn guessing_is_slow_by_source_and_account_by_source_and_by_account() {
    let one = |_| ("192.0.2.1:5060".to_owned(), "alice".to_owned());
    let tried = guess(&mut attempts(), 600, one);
    assert!((250..330).contains(&tried), "one account from one source: {tried} in ten minutes");
    let many_accounts = |number| ("192.0.2.1:5060".to_owned(), format!("user{number}"));
    let tried = guess(&mut attempts(), 60, many_accounts);
    assert!(tried < 400, "every account from one source: {tried} in a minute");
    let many_sources = |number| (format!("10.{}.{}.1:5060", number / 256, number % 256), "alice".to_owned());
    let tried = guess(&mut attempts(), 60, many_sources);
    assert!(tried < 400, "one account from everywhere: {tried} in a minute");
    let one_network =
        |number| (format!("[2001:db8::{:x}:{:x}]:5060", number >> 16, number & 0xffff), "alice".to_owned());
    let tried = guess(&mut attempts(), 600, one_network);
    assert!((250..330).contains(&tried), "an IPv6 /64 is one source: {tried}");
}

#[test]
fn no_wait_is_longer_than_two_seconds() {
    let mut attempts = attempts();
    let alice = attempt("192.0.2.1:5060", "alice");
    for number in 0..10_000 {
        attempts.fail(NOW, &alice);
        let elsewhere = format!("10.0.{}.{}:5060", number / 256, number % 256);
        attempts.fail(NOW, &attempt(&elsewhere, "alice"));
    }
    assert!(attempts.wait(NOW, &alice).is_some());
    assert_eq!(attempts.wait(NOW + Duration::from_secs(2), &alice), None);
}

#[test]
fn a_shared_address_hinders_no_account_that_has_signed_in_from_there() {
    let mut attempts = attempts();
    let bob = attempt("192.0.2.1:5070", "bob");
    attempts.succeed(NOW, &bob);
    for number in 0..1_000 {
        attempts.fail(NOW, &attempt("192.0.2.1:6000", &format!("user{number}")));
        attempts.fail(NOW, &attempt("192.0.2.1:6000", "bob"));
    }
    assert_eq!(attempts.wait(NOW, &bob), None, "nor its own phone by guesses at it from the next one");
    assert!(attempts.wait(NOW, &attempt("192.0.2.1:6000", "bob")).is_some());
    let carol = attempt("192.0.2.1:5071", "carol");
    assert!(attempts.wait(NOW, &carol).is_some_and(|wait| wait < Duration::from_secs(1)));
}

fn shown(attempts: &Attempts, now: Instant) -> Vec<(Option<String>, Option<Box<str>>, u32)> {
    let row =
        |block: Block| (block.source.map(|source| source.to_string()), block.account, block.penalty.failures);
    let mut rows: Vec<_> = attempts.blocks(now).into_iter().map(row).collect();
    rows.sort();
    rows
}

#[test]
fn blocks_name_the_paced_source_or_account_and_the_duration() {
    let mut attempts = attempts();
    let alice = attempt("192.0.2.1:5060", "alice");
    (0..5).for_each(|_| attempts.fail(NOW, &alice));
    assert_eq!(shown(&attempts, NOW), [], "five are free");
    attempts.fail(NOW, &alice);
    let row = (Some("192.0.2.1".to_owned()), Some("alice@example.test".into()), 6);
    assert_eq!(shown(&attempts, NOW), [row]);
    let [block] = &attempts.blocks(NOW)[..] else { panic!("one block") };
    assert_eq!(block.penalty.refused_until, NOW + Duration::from_secs(1));
    assert_eq!(block.penalty.forgiven_at, NOW + Duration::from_secs(900));
    assert_eq!(shown(&attempts, NOW + Duration::from_secs(900)), [], "forgiven");
    for number in 0..96 {
        attempts.fail(NOW, &attempt("192.0.2.1:5060", &format!("user{number}")));
        attempts.fail(NOW, &attempt(&format!("10.0.0.{number}:5060"), "alice"));
    }
    let rows = shown(&attempts, NOW);
    assert!(rows.contains(&(None, Some("alice@example.test".into()), 102)), "{rows:?}");
    assert!(rows.contains(&(Some("192.0.2.1".to_owned()), None, 102)), "{rows:?}");
    assert_eq!(rows.len(), 3);
}

#[test]
fn a_block_is_lifted_by_source_and_by_account() {
    let mut attempts = attempts();
    let (alice, bob) = (attempt("[2001:db8::1]:0", "alice"), attempt("192.0.2.2:0", "bob"));
    for _ in 0..200 {
        attempts.fail(NOW, &alice);
        attempts.fail(NOW, &bob);
    }
    let prefix = SourcePrefix::of("2001:db8::2".parse().unwrap());
    assert_eq!(attempts.lift(NOW, &Subject::Source(prefix)), 2, "the /64, and it with alice");
    assert!(attempts.wait(NOW, &alice).is_some_and(|wait| wait < Duration::from_secs(1)), "by account");
    assert_eq!(attempts.lift(NOW, &Subject::Account("alice@example.test".into())), 1);
    assert_eq!(attempts.wait(NOW, &alice), None);
    assert!(attempts.wait(NOW, &bob).is_some());
    assert_eq!(attempts.lift(NOW, &Subject::Account("bob@example.test".into())), 2);
    assert!(attempts.wait(NOW, &bob).is_some_and(|wait| wait < Duration::from_secs(1)), "by source");
    assert_eq!(attempts.lift(NOW, &Subject::Account("bob@example.test".into())), 0);
}

#[test]
fn attempts_that_are_checked_at_once_are_paced_as_those_one_after_another() {
    let mut attempts = attempts();
    let (alice, bob) = (attempt("192.0.2.1:0", "alice"), attempt("192.0.2.1:0", "bob"));
    let mut open: Vec<_> = (0..50).filter_map(|_| attempts.begin(NOW, &alice).ok()).collect();
    assert_eq!(open.len(), 5, "as many as are free");
    assert_eq!(attempts.begin(NOW, &alice).unwrap_err(), Duration::from_secs(1));
    let other = attempts.begin(NOW, &bob).unwrap();
    for ended in open.drain(..4) {
        attempts.fail(NOW, &alice);
        drop(ended);
    }
    assert!(attempts.begin(NOW, &alice).is_err(), "four have failed, and one is open");
    attempts.fail(NOW, &alice);
    drop((open, other));
    // One more, as without others; then one in each pause.
    let last = attempts.begin(NOW, &alice).unwrap();
    assert!(attempts.begin(NOW, &alice).is_err());
    attempts.fail(NOW, &alice);
    drop(last);
    assert!(attempts.begin(NOW, &alice).is_err());
    let later = NOW + Duration::from_secs(2);
    let one = attempts.begin(later, &alice);
    assert!(one.is_ok() && attempts.begin(later, &alice).is_err());
}

#[test]
fn an_account_has_a_bounded_number_of_open_attempts_from_all_sources() {
    let mut attempts = attempts();
    let sources: Vec<_> = (0..200).map(|number| format!("10.0.{number}.1:0")).collect();
    let begun = |attempts: &mut Attempts, user: &str| -> Vec<_> {
        sources.iter().filter_map(|source| attempts.begin(NOW, &attempt(source, user)).ok()).collect()
    };
    let open = begun(&mut attempts, "alice");
    assert_eq!(open.len(), 100);
    assert_eq!(begun(&mut attempts, "").len(), 200, "none is claimed");
    drop(open);
    assert_eq!(begun(&mut attempts, "alice").len(), 100);
}

#[test]
fn attempts_that_have_ended_take_bounded_memory() {
    let mut attempts = attempts();
    for number in 0..10_000 {
        let user = format!("user{number}");
        drop(attempts.begin(NOW, &attempt("192.0.2.1:0", &user)));
    }
    assert!(attempts.open.keys() <= crate::limits::OPEN_ATTEMPTS_KEPT + 2);
}

#[test]
fn an_attempt_without_an_account_hinders_none() {
    let mut attempts = attempts();
    for number in 0..1_000 {
        attempts.fail(NOW, &attempt(&format!("10.0.{}.{}:0", number / 250, number % 250), ""));
    }
    assert_eq!(attempts.wait(NOW, &attempt("192.0.2.1:0", "")), None);
    assert_eq!(attempts.wait(NOW, &attempt("10.0.0.1:0", "alice")), None);
}

#[test]
fn names_of_strangers_are_cut() {
    assert_eq!(&*account_name("alice", "example.test"), "alice@example.test");
    assert_eq!(&*account_name("AC1", ""), "AC1");
    let cut = account_name(&"ß".repeat(1_000), "example.test");
    assert!(cut.len() <= BLOCK_NAME && cut.ends_with("ß…"), "{cut}");
}

#[test]
fn a_flood_of_names_takes_bounded_memory() {
    let mut attempts = attempts();
    for number in 0..10_000 {
        let name = format!("user{number}");
        (0..6).for_each(|_| attempts.fail(NOW, &attempt("192.0.2.1:0", &name)));
    }
    assert_eq!(attempts.names.len(), PACES.named);
}

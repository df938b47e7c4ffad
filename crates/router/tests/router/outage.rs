//! REGISTERs while the database is away: they wait for some seconds, and are written when it is back.

use std::time::Duration;

use cluster::Bucket;
use router::{Answer, BindingRow, BucketSet, Effect, Query, RegisterRefused, limits};
use stdx::Instant;

use crate::support::{START, World, update};

const A: &str = "alice@example.com";
const B: &str = "bob@example.com";

/// A database that may be away, and the router's writes under way.
struct Outage {
    world: World,
    is_away: bool,
    attempts: Vec<u64>,
    answers: Vec<(u64, &'static str)>,
    /// The addresses that are written, with the number of bindings.
    written: Vec<(String, bool)>,
}

impl Outage {
    fn new() -> Outage {
        let (attempts, answers, written) = (Vec::new(), Vec::new(), Vec::new());
        Outage { world: World::new(), is_away: true, attempts, answers, written }
    }

    /// Milliseconds after the beginning.
    fn now(&self) -> u64 {
        u64::try_from(self.world.now.since(START).as_millis()).unwrap()
    }

    fn register(&mut self, aor: &str, cseq: u32) {
        let effects =
            self.world.ask(Query::Register(Box::new(update(aor, "c1", cseq, "sip:a@192.0.2.1", 60))));
        self.perform(effects);
    }

    fn perform(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::WriteBinding { ticket, row } => self.write(ticket, &row),
                Effect::Answer { id, answer, .. } => self.answers.push((id.0, name(&answer))),
                Effect::LoadKept { .. } | Effect::Push { .. } => {}
                other => panic!("{other:?}"),
            }
        }
    }

    fn write(&mut self, ticket: u64, row: &BindingRow) {
        self.attempts.push(self.now());
        if self.is_away {
            self.world.router.handle_unreachable(self.world.now, ticket, &mut self.world.out);
            let effects = std::mem::take(&mut self.world.out);
            return self.perform(effects);
        }
        self.written.push((row.aor.to_string(), row.empties));
        let number = i64::try_from(self.world.next_row()).unwrap();
        let effects = self.world.written(ticket, Ok(number));
        self.perform(effects);
    }

    /// Goes on until this time, from deadline to deadline.
    fn run_until(&mut self, milliseconds: u64) {
        let end = START + Duration::from_millis(milliseconds);
        while let Some(next) = self.world.router.deadline().filter(|next| *next < end) {
            self.at(next);
        }
        self.at(end);
    }

    fn at(&mut self, now: Instant) {
        self.world.now = now.max(self.world.now);
        self.world.router.expire(self.world.now, &mut self.world.out);
        let effects = std::mem::take(&mut self.world.out);
        self.perform(effects);
    }
}

fn name(answer: &Answer) -> &'static str {
    match answer {
        Answer::Registered(Ok(_)) => "registered",
        Answer::Registered(Err(RegisterRefused::StoreFailed)) => "refused",
        Answer::Unavailable => "unavailable",
        other => panic!("{other:?}"),
    }
}

#[test]
fn registers_wait_for_a_database_that_restarts_and_are_written_in_their_order() {
    let mut outage = Outage::new();
    outage.register(A, 1);
    outage.run_until(300);
    // One address waits in line behind its first REGISTER, another one has a write of its own.
    outage.register(A, 2);
    outage.register(B, 1);
    outage.run_until(2_000);
    assert_eq!(outage.answers, []);
    assert_eq!(outage.world.lookup(A), [], "it is not bound before it is in the database");
    outage.is_away = false;
    outage.run_until(2_200);
    let aors: Vec<_> = outage.written.iter().map(|(aor, _)| aor.as_str()).collect();
    assert_eq!(aors.len(), 3, "{aors:?}");
    let mut answers = outage.answers.clone();
    answers.sort_unstable();
    assert!(answers.len() == 3 && answers.iter().all(|(_, answer)| *answer == "registered"), "{answers:?}");
    assert_eq!((outage.world.lookup(A).len(), outage.world.lookup(B).len()), (1, 1));
    assert_eq!(outage.world.router.counts().writes, 0);
}

#[test]
fn attempts_while_the_database_is_away_are_few_however_many_wait() {
    let mut outage = Outage::new();
    for number in 0..100 {
        outage.register(&format!("user{number}@example.com"), 1);
    }
    outage.run_until(3_000);
    // The write of each, and one each 150 ms.
    assert!(outage.attempts.len() < 100 + 25, "{}", outage.attempts.len());
    outage.is_away = false;
    outage.run_until(3_000 + 200);
    assert_eq!(outage.written.len(), 100);
}

#[test]
fn a_register_is_refused_after_its_time_and_at_once_in_a_long_outage() {
    let patience = u64::try_from(limits::HELD_PATIENCE.as_millis()).unwrap();
    let long = u64::try_from(limits::AWAY_FOR_LONG.as_millis()).unwrap();
    let mut outage = Outage::new();
    outage.register(A, 1);
    outage.run_until(patience - 1);
    assert_eq!(outage.answers, []);
    // The attempt that is under way at the end of its time is the last one.
    outage.run_until(patience + 200);
    assert_eq!(outage.answers.len(), 1);
    assert_eq!(outage.answers[0].1, "refused");
    outage.run_until(long + 1_000);
    outage.register(B, 1);
    assert_eq!(outage.answers[1].1, "refused", "the database is known to be away");
    // Each REGISTER shows whether it is back.
    outage.is_away = false;
    outage.register(B, 2);
    assert_eq!(outage.answers[2].1, "registered");
    outage.is_away = true;
    outage.register(A, 2);
    assert_eq!(outage.answers.len(), 3, "a new outage, in which requests wait again");
}

#[test]
fn changes_of_a_bucket_that_ends_are_left_to_its_next_owner() {
    for is_forgotten in [false, true] {
        let mut outage = Outage::new();
        outage.register(A, 1);
        outage.register(A, 2);
        outage.register(B, 1);
        let ended: BucketSet = [Bucket::of(A)].into_iter().collect();
        let (router, out) = (&mut outage.world.router, &mut outage.world.out);
        if is_forgotten {
            router.forget_buckets(&ended, out);
        } else {
            router.end_buckets(&ended, out);
        }
        let effects = std::mem::take(&mut outage.world.out);
        outage.perform(effects);
        let answers: Vec<_> = outage.answers.iter().map(|(_, answer)| *answer).collect();
        assert_eq!(answers, ["unavailable", "unavailable"], "forgotten: {is_forgotten}");
        let writing: Vec<_> = outage.world.router.writing_buckets().iter().collect();
        assert_eq!(writing, [Bucket::of(B)], "the next owner may read it");
        outage.is_away = false;
        outage.run_until(1_000);
        let aors: Vec<_> = outage.written.iter().map(|(aor, _)| aor.as_str()).collect();
        assert_eq!(aors, [B]);
    }
}

/// A write that is under way when its bucket ends is not repeated: the epoch of its owner is over.
#[test]
fn a_write_under_way_when_its_bucket_ends_is_not_repeated() {
    let mut world = World::new();
    let effects = world.ask(Query::Register(Box::new(update(A, "c1", 1, "sip:a@192.0.2.1", 60))));
    let [Effect::WriteBinding { ticket, .. }] = effects[..] else { panic!("{effects:?}") };
    world.router.end_buckets(&[Bucket::of(A)].into_iter().collect(), &mut world.out);
    world.router.handle_unreachable(world.now, ticket, &mut world.out);
    let answers = std::mem::take(&mut world.out);
    assert!(
        matches!(
            answers[..],
            [Effect::Answer { answer: Answer::Registered(Err(RegisterRefused::StoreFailed)), .. }]
        ),
        "{answers:?}"
    );
    assert!(world.router.writing_buckets().is_empty());
}

//! The limiter alone, and in a model of a shard with clients that give up and come again, in virtual time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use stdx::rng::Rng;

use super::*;

const MS: Duration = Duration::from_millis(1);
const START: Instant = Instant::from_unix_seconds(1_000);

/// Turns of 10 ms with that lag, for so long.
fn turn(limiter: &mut SignInLimiter, now: &mut Instant, span: Duration, lag: Duration) {
    let end = *now + span;
    while *now < end {
        *now = *now + 10 * MS;
        limiter.handle_delay(*now, DelayedWork::Turn, lag);
    }
}

#[test]
fn a_burst_passes_and_lasting_delay_limits_sign_ins() {
    let (mut limiter, mut now) = (SignInLimiter::default(), START);
    turn(&mut limiter, &mut now, 400 * MS, 150 * MS);
    turn(&mut limiter, &mut now, 10 * MS, MS);
    turn(&mut limiter, &mut now, 400 * MS, 150 * MS);
    assert!(!limiter.is_limiting() && limiter.admit(now));
    turn(&mut limiter, &mut now, 200 * MS, 150 * MS);
    assert!(limiter.is_limiting());
}

#[test]
fn ten_sign_ins_a_second_always_begin() {
    let (mut limiter, mut now) = (SignInLimiter::default(), START);
    turn(&mut limiter, &mut now, 20_000 * MS, 5_000 * MS);
    let mut begun = 0;
    for _ in 0..1_000 {
        turn(&mut limiter, &mut now, 10 * MS, 5_000 * MS);
        begun += u32::from(limiter.admit(now));
    }
    assert!((95..=110).contains(&begun), "{begun} in ten seconds");
}

#[test]
fn a_limit_that_refuses_nothing_goes() {
    let (mut limiter, mut now) = (SignInLimiter::default(), START);
    turn(&mut limiter, &mut now, 1_000 * MS, 150 * MS);
    assert!(limiter.is_limiting());
    turn(&mut limiter, &mut now, UNUSED + 2 * STEP, MS);
    assert!(!limiter.is_limiting());
}

#[test]
fn late_answers_of_owners_limit_though_the_loop_is_not_late() {
    let (mut limiter, mut now) = (SignInLimiter::default(), START);
    for _ in 0..100 {
        now = now + 10 * MS;
        limiter.handle_delay(now, DelayedWork::Turn, MS);
        limiter.handle_delay(now, DelayedWork::Answer, 2_000 * MS);
    }
    assert!(limiter.is_limiting());
    let (mut limiter, mut now) = (SignInLimiter::default(), START);
    // One late answer in ten seconds each is no sign of a queue.
    for _ in 0..10 {
        now = now + 10_000 * MS;
        limiter.handle_delay(now, DelayedWork::Answer, 2_000 * MS);
    }
    assert!(!limiter.is_limiting());
}

/// A piece of work of the modelled shard.
#[derive(Clone, Copy)]
enum Work {
    /// A message between users that are signed in.
    Message {
        at: Instant,
    },
    /// One of the steps of a sign-in, each of which waits in the queue.
    Step {
        client: usize,
        left: u32,
        began: Instant,
    },
    Refusal,
}

/// Steps of a sign-in, as of SCRAM with a session.
const STEPS: u32 = 5;
/// The work of a whole sign-in: 500 a second.
const SIGN_IN: Duration = Duration::from_millis(2);
const MESSAGE: Duration = Duration::from_micros(50);
const REFUSAL: Duration = Duration::from_micros(80);
/// A client gives up then, and comes again later.
const PATIENCE: Duration = Duration::from_secs(10);

/// One shard, a queue that is worked off in passes, and clients that sign in.
struct Model {
    now: Instant,
    queue: VecDeque<(Instant, Work)>,
    arrivals: BinaryHeap<Reverse<(Instant, usize, u32)>>,
    /// Clients come again after they were refused, or have given up.
    come_again: bool,
    rng: Rng,
    limiter: Option<SignInLimiter>,
    /// Completed in time, and the longest wait of a message, since they were last taken.
    completed: u32,
    slowest: Duration,
}

impl Model {
    /// So many new clients a second for so long, beside 2,000 messages a second.
    fn new(clients: u64, span: u64, limiter: Option<SignInLimiter>) -> Model {
        let mut rng = Rng::seeded(7);
        let arrivals = (0..clients * span)
            .map(|client| {
                let at = START + Duration::from_micros(rng.below(span * 1_000_000));
                Reverse((at, usize::try_from(client).unwrap(), 0))
            })
            .collect();
        let (queue, now, come_again) = (VecDeque::new(), START, false);
        Model { now, queue, arrivals, come_again, rng, limiter, completed: 0, slowest: Duration::ZERO }
    }

    fn come_again(&mut self, at: Instant, client: usize, failures: u32) {
        if !self.come_again {
            return;
        }
        let wait = 2_000_u64 << failures.min(5);
        let at = at + MS * u32::try_from(wait + self.rng.below(wait)).unwrap();
        self.arrivals.push(Reverse((at, client, failures + 1)));
    }

    fn arrive(&mut self, since: Instant) {
        let mut at = since;
        while at < self.now {
            self.queue.push_back((at, Work::Message { at }));
            at = at + MS / 2;
        }
        for _ in 0..net::limits::ACCEPT_BATCH {
            let Some(&Reverse((at, client, failures))) = self.arrivals.peek() else { break };
            if at > self.now {
                break;
            }
            self.arrivals.pop();
            let now = self.now;
            if self.limiter.as_mut().is_none_or(|limiter| limiter.admit(now)) {
                self.queue.push_back((at, Work::Step { client, left: STEPS, began: at }));
            } else {
                self.queue.push_back((at, Work::Refusal));
                self.come_again(now, client, failures);
            }
        }
    }

    /// One pass of the loop over what has come.
    fn pass(&mut self) {
        let began = self.now;
        for (put, work) in std::mem::take(&mut self.queue) {
            debug_assert!(put <= self.now);
            match work {
                Work::Message { at } => {
                    self.now = self.now + MESSAGE;
                    self.slowest = self.slowest.max(self.now.since(at));
                }
                Work::Refusal => self.now = self.now + REFUSAL,
                Work::Step { client, left, began } => {
                    self.now = self.now + SIGN_IN / STEPS;
                    if left > 1 {
                        self.queue.push_back((self.now, Work::Step { client, left: left - 1, began }));
                    } else if self.now.since(began) < PATIENCE {
                        self.completed += 1;
                        if let Some(limiter) = &mut self.limiter {
                            limiter.handle_completed(self.now);
                        }
                    } else {
                        // The client had given up before.
                        self.come_again(began + PATIENCE, client, 0);
                    }
                }
            }
        }
        let lag = self.now.since(began);
        self.now = self.now.max(began + MS);
        if let Some(limiter) = &mut self.limiter {
            limiter.handle_delay(self.now, DelayedWork::Task, lag);
        }
        self.arrive(began);
    }

    /// Sign-ins completed a second, and the longest wait of a message.
    fn run(&mut self, seconds: u64) -> (u64, Duration) {
        (self.completed, self.slowest) = (0, Duration::ZERO);
        let end = self.now + Duration::from_secs(seconds);
        while self.now < end {
            self.pass();
        }
        (u64::from(self.completed) / seconds, self.slowest)
    }
}

/// A tenth of the shard's time is for messages: 450 sign-ins a second are what it can do.
const CAPACITY: u64 = 450;

#[test]
fn three_times_the_capacity_leaves_four_fifths_of_it_and_messages_in_time() {
    let mut model = Model::new(3 * CAPACITY, 120, Some(SignInLimiter::default()));
    // Until the limit is found.
    model.run(20);
    for _ in 0..9 {
        let (completed, slowest) = model.run(10);
        assert!(completed >= CAPACITY * 8 / 10, "{completed} a second");
        assert!(slowest < Duration::from_secs(1), "{slowest:?}");
    }
}

#[test]
fn without_a_limit_the_same_load_is_worked_on_for_clients_that_have_given_up() {
    let mut model = Model::new(3 * CAPACITY, 120, None);
    model.run(60);
    let (completed, _) = model.run(30);
    assert!(completed < CAPACITY / 10, "{completed} a second");
}

#[test]
fn all_are_in_after_a_storm_that_ends_and_the_limit_goes() {
    // 20,000 clients come within a second, as after the death of a node.
    let mut model = Model::new(20_000, 1, Some(SignInLimiter::default()));
    model.come_again = true;
    let (in_minutes, slowest) = model.run(240);
    let done = in_minutes * 240;
    // Sign-ins accepted before the delay has lasted long enough are worked off.
    assert!(done >= 19_800 && slowest < Duration::from_millis(1_200), "{done} {slowest:?}");
    assert!(model.limiter.is_some_and(|limiter| !limiter.is_limiting()));
}
